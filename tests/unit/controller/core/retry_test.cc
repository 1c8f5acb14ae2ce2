#include <algorithm>
#include <cerrno>

#include "controller/core/recovery.h"
#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

struct Retry : testing::Test {
  Retry() {
    core.Attach("gpu1", 1);
    core.Ignore();
  }
  JobId Submit(RetrySpec retry, const std::string& checkpoint = "") {
    JobSpec spec = GpuJob(1, 1);
    spec.retry = std::move(retry);
    spec.checkpoint.dir = checkpoint;
    return core.Submitted(spec);
  }
  // Runs the newest attempt and ends it like this.
  Key RunAndEnd(JobId job, ExitCause cause) {
    const Key key = core.Run(job);
    core.Exit("gpu1", key, 0, std::move(cause));
    core.Ignore();
    core.Release("gpu1", key);
    return key;
  }
  TestCore core;
};

TEST_F(Retry, IsNotTheDefaultForTheUsersOwnError) {
  const JobId job = Submit({});
  RunAndEnd(job, Exited{1});
  EXPECT_EQ(core.View(job).state, JobState::kFailed);
  EXPECT_EQ(core.View(job).exit_code, 1);
}

TEST_F(Retry, RecoversOnTheNamedExitCodesOnly) {
  RetrySpec retry;
  retry.max = 1;
  retry.recover_on_exit_codes = {33};
  const JobId job = Submit(retry);
  const Key first{job, Attempt{1}};
  const Key key = core.Run(job);
  EXPECT_EQ(key, first);
  core.Exit("gpu1", key, 0, Exited{33});
  core.Ignore();
  core.Release("gpu1", key);
  // The GPU is free again, so the second attempt is on its way already.
  EXPECT_EQ(core.View(job).state, JobState::kStarting);
  EXPECT_EQ(core.state.jobs.at(job).attempts, 2u);
  RunAndEnd(job, Exited{0});
  EXPECT_EQ(core.View(job).state, JobState::kSucceeded);
  EXPECT_EQ(core.View(job).attempts.size(), 2u);

  const JobId other = Submit(retry);
  RunAndEnd(other, Exited{34});
  EXPECT_EQ(core.View(other).state, JobState::kFailed);
}

TEST_F(Retry, EndsWithTheFirstFailingCodeWhenAllAreUsed) {
  RetrySpec retry;
  retry.max = 1;
  retry.recover_on_exit_codes = {33};
  const JobId job = Submit(retry);
  RunAndEnd(job, Exited{33});
  RunAndEnd(job, Exited{33});
  EXPECT_EQ(core.View(job).state, JobState::kFailed);
  EXPECT_EQ(core.View(job).exit_code, 33);
  EXPECT_NE(core.View(job).outcome.find("1 of 1 retries"), std::string::npos);
}

TEST_F(Retry, MaxAloneMeansEveryFailure) {
  RetrySpec retry;
  retry.max = 1;
  const JobId job = Submit(retry);
  RunAndEnd(job, Signalled{11, true});
  EXPECT_EQ(core.state.jobs.at(job).attempts, 2u);
}

TEST_F(Retry, TriesTwiceAgainAfterAFaultOfTheInfrastructure) {
  const JobId job = Submit({});
  for (std::uint32_t attempt = 1; attempt <= 3; ++attempt) {
    EXPECT_EQ(core.state.jobs.at(job).attempts, attempt);
    RunAndEnd(job, FailedToStart{"agent_restarted", 0, "agent restarted"});
    core.Beat("gpu1");
    if (attempt <= 2) {
      EXPECT_EQ(core.View(job).state, JobState::kRequeued);
      EXPECT_EQ(core.View(job).reason.code, "BeginTime");
      core.now.boot += Millis{5'000};
      core.Beat("gpu1");
      core.Pass(Millis{0});
    }
  }
  EXPECT_EQ(core.View(job).state, JobState::kFailed);
  EXPECT_EQ(core.View(job).attempts.size(), 3u);
}

struct Elsewhere : testing::Test {
  Elsewhere() {
    core.Attach("gpu1", 1);
    core.Attach("gpu2", 1);
  }
  std::string NodeOf(JobId job) { return core.View(job).attempts.back().nodes.at(0).value; }
  // Waits out the backoff.
  void Again() {
    core.now.boot += Millis{5'000};
    core.now.wall += Millis{5'000};
    for (const char* node : {"gpu1", "gpu2"}) core.Beat(node);
    core.Pass(Millis{0});
  }
  std::string EventText(const std::string& kind) {
    for (const EventRow& row : core.rows) {
      if (row.kind == kind) return row.text;
    }
    return "";
  }
  TestCore core;
};

struct Apart : Elsewhere {
  Apart() { core.Attach("gpu3", 1); }
  // Both are staged, and the second does not reach the first.
  Key Staged(JobId job) {
    const Key key{job, Attempt{core.state.jobs.at(job).attempts}};
    const std::vector<NodeId> nodes = core.state.attempts.at(key).nodes;
    for (const NodeId& node : nodes) core.Accept(node.value, key);
    core.Ready(nodes[0].value, key);
    StagingFacts facts;
    for (const NetworkAddress& own : core.state.inventories.at(nodes[0])->addresses) {
      facts.reach.push_back({own.address, false, "", "timeout: a firewall drops it"});
    }
    core.Ready(nodes[1].value, key, facts);
    for (const NodeId& node : nodes) core.Release(node.value, key);
    return key;
  }
  void Again() {
    core.now.boot += Millis{5'000};
    core.now.wall += Millis{5'000};
    for (const char* node : {"gpu1", "gpu2", "gpu3"}) core.Beat(node);
    core.Pass(Millis{0});
  }
  std::vector<NodeId> NodesOf(JobId job) { return core.View(job).attempts.back().nodes; }
};

TEST_F(Apart, NodesThatDoNotReachEachOtherAreTheInfrastructuresFault) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  ASSERT_EQ(NodesOf(job), (std::vector{NodeId{"gpu1"}, NodeId{"gpu2"}}));
  Staged(job);
  EXPECT_EQ(core.View(job).state, JobState::kRequeued);
  EXPECT_EQ(EventText("job.avoids_node").substr(0, 25), "gpu2: network_unreachable");
  Again();
  EXPECT_EQ(NodesOf(job), (std::vector{NodeId{"gpu1"}, NodeId{"gpu3"}}));
  Staged(job);  // so it is gpu1
  Again();
  EXPECT_EQ(NodesOf(job), (std::vector{NodeId{"gpu2"}, NodeId{"gpu3"}}));
  Staged(job);
  const JobView view = core.View(job);
  EXPECT_EQ(view.state, JobState::kFailed);
  EXPECT_EQ(view.sub_reason, "PREFLIGHT");
  EXPECT_NE(view.outcome.find("2 of 2 retries used"), std::string::npos) << view.outcome;
  EXPECT_TRUE(std::ranges::any_of(
      view.findings, [](const Finding& finding) { return finding.code == "network_unreachable"; }));
}

TEST_F(Apart, WithoutRetriesAndInACheckThatIsTheAnswer) {
  for (const bool check : {false, true}) {
    JobSpec spec = GpuJob(2, 1);
    spec.check_only = check;
    if (!check) spec.retry.max = 0;
    const JobId job = core.Submitted(spec);
    Staged(job);
    EXPECT_EQ(core.View(job).state, JobState::kFailed) << check;
    EXPECT_EQ(core.View(job).sub_reason, "PREFLIGHT");
  }
}

TEST_F(Elsewhere, GoesToAnotherNodeThanTheOneThatTurnedItAway) {
  const JobId job = core.Submitted(GpuJob(1, 1));
  ASSERT_EQ(NodeOf(job), "gpu1");
  const Key key{job, Attempt{1}};
  core.Say("gpu1",
           from_node::Refused{key, core.Digest("gpu1", key), "accept", "gpu_busy", "busy", {}});
  EXPECT_EQ(core.View(job).attempts[0].first_failed_node, NodeId{"gpu1"});
  EXPECT_EQ(core.View(job).attempts[0].cause, "gpu1 refused the start: busy (gpu_busy)");
  EXPECT_EQ(NodeOf(job), "gpu2");
  EXPECT_EQ(RetriesUsed(core.state.jobs.at(job), Budget::kInfrastructure), 0) << "it was not tried";
  EXPECT_TRUE(core.View(job).findings.empty()) << "gpu1 is no part of its new start";
}

TEST_F(Retry, AGpuThatOthersUseIsLeftOutAndItsNeighboursAreNot) {
  core.Attach("gpu1", 4);
  const std::vector<GpuDevice> gpus = core.state.inventories.at(NodeId{"gpu1"})->gpus;
  const JobId job = core.Submitted(GpuJob(1, 4));
  const Key key{job, Attempt{1}};
  core.Say("gpu1", from_node::Refused{.key = key,
                                      .digest = core.Digest("gpu1", key),
                                      .stage = "accept",
                                      .code = "gpu_busy",
                                      .why = "GPU 1 is used by process 7",
                                      .floor = {},
                                      .gpus = {gpus[1].uuid, GpuUuid{"of nobody"}}});
  const NodeView view = ViewNode(core.state, NodeId{"gpu1"}, core.now);
  EXPECT_EQ(view.free_gpus, (std::vector<GpuUuid>{gpus[0].uuid, gpus[2].uuid, gpus[3].uuid}));
  EXPECT_EQ(view.reason, "GPU 1 is used by process 7 (gpu_busy)");
  EXPECT_TRUE(view.schedulable);
}

TEST_F(Retry, AGpuWhoseMemoryOthersUseIsTakenLast) {
  core.Attach("gpu1", 2);
  const std::vector<GpuDevice> gpus = core.state.inventories.at(NodeId{"gpu1"})->gpus;
  from_node::Samples samples;
  samples.gpus = {{.uuid = gpus[0].uuid, .used_bytes = gpus[0].memory_bytes / 2},
                  {.uuid = gpus[1].uuid, .used_bytes = gpus[1].memory_bytes / 50}};
  core.Say("gpu1", samples);
  const auto gpu_of = [&](JobId job) {
    return core.state.allocs.at(Key{job, Attempt{1}}).at(NodeId{"gpu1"}).gpus;
  };
  EXPECT_EQ(gpu_of(core.Submitted(GpuJob(1, 1))), std::vector<GpuUuid>{gpus[1].uuid});
  EXPECT_EQ(gpu_of(core.Submitted(GpuJob(1, 1))), std::vector<GpuUuid>{gpus[0].uuid});
}

// A disk that is full would else end the whole queue, a job every few seconds.
TEST_F(Elsewhere, ANodeThatTurnsJobsAwayGetsNoneForAWhileAndNoJobEndsForIt) {
  const JobId first = core.Submitted(GpuJob(1, 1));
  core.Run(first);  // on gpu1
  const JobId job = core.Submitted(GpuJob(1, 1));
  for (std::uint32_t attempt = 1; attempt <= 3; ++attempt) {
    ASSERT_EQ(NodeOf(job), "gpu2");
    const Key key{job, Attempt{attempt}};
    core.Say("gpu2",
             from_node::Refused{
                 key, core.Digest("gpu2", key), "accept", "disk_full", "only 13 MiB are free", {}});
    EXPECT_EQ(core.View(job).state, JobState::kRequeued);
    EXPECT_EQ(core.View(job).attempts.size(), attempt);
    EXPECT_EQ(WhyUnschedulable(core.state, NodeId{"gpu2"}),
              "turns jobs away: only 13 MiB are free (disk_full)");
    const JobId next = core.Submitted(GpuJob(1, 1));
    EXPECT_TRUE(core.View(next).attempts.empty());
    core.Cancel(next);
    const int wait = 30 << (attempt - 1);
    for (int second = 0; second < wait; second += 3) {
      EXPECT_EQ(core.View(job).attempts.size(), attempt) << "not before " << wait << " s";
      core.now.boot += Millis{3'000};
      core.now.wall += Millis{3'000};
      for (const char* node : {"gpu1", "gpu2"}) core.Beat(node);
      core.Pass(Millis{0});
    }
    EXPECT_EQ(core.View(job).attempts.size(), attempt + 1) << "asked again";
  }
  EXPECT_EQ(RetriesUsed(core.state.jobs.at(job), Budget::kInfrastructure), 0);
}

TEST_F(Elsewhere, AvoidsANodeThatWasLostAlsoAfterARestartOfTheController) {
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  core.Detach("gpu1");
  core.boot["gpu1"] = "b2";
  core.Attach("gpu1", 1);  // rebooted
  core.Release("gpu1", key);
  ASSERT_EQ(core.View(job).state, JobState::kRequeued);
  core.Restart();
  core.Attach("gpu1", 1);
  core.Attach("gpu2", 1);
  Again();
  EXPECT_EQ(NodeOf(job), "gpu2");
}

TEST_F(Elsewhere, AvoidsANodeWhoseGpuBrokeUnderTheJob) {
  JobSpec spec = GpuJob(1, 1);
  spec.retry.max = 1;
  NodeInventory broken = MakeInventory("gpu1", 2);
  core.Attach(broken);
  spec.nodelist = {"gpu1", "gpu2"};
  spec.gpus[0].count = 1;
  const JobId other = core.Submitted(GpuJob(1, 1));  // takes gpu2, which has no GPU to spare
  ASSERT_EQ(NodeOf(other), "gpu2");
  const JobId job = core.Submitted(spec);
  ASSERT_EQ(NodeOf(job), "gpu1");
  const Key key = core.Run(job);
  core.Cancel(other);
  core.Release("gpu2", Key{other, Attempt{1}});
  broken.gpus[0].health = Health::kBad;
  broken.gpus[0].why = "XID 79: fell off the bus";
  core.Say("gpu1", from_node::InventoryChanged{broken});
  core.Exit("gpu1", key, 0, Exited{1});
  core.Release("gpu1", key);
  EXPECT_EQ(EventText("job.avoids_node"), "gpu1: GPU 0 (GPU-gpu1-0): XID 79: fell off the bus");
  EXPECT_EQ(core.state.jobs.at(job).attempts, 2u);
  EXPECT_EQ(NodeOf(job), "gpu2");
}

// Nothing of the user's ran: what the node is short of is no reason to give the job up.
TEST_F(Elsewhere, AvoidsANodeThatCannotStartARank) {
  for (const char* stage : {"cgroup", "control", "files", "fork", "no_new_privs", "record",
                            "setsid", "signals", "spawn", "spec"}) {
    const JobId job = core.Submitted(GpuJob(1, 1));
    ASSERT_EQ(NodeOf(job), "gpu1") << stage;
    const Key key = core.Run(job);
    core.Exit("gpu1", key, 0, FailedToStart{stage, EAGAIN, "try again"});
    core.Release("gpu1", key);
    const std::string why =
        std::string("rank 0 on gpu1: failed to start (") + stage + ": try again)";
    EXPECT_EQ(core.View(job).state, JobState::kRequeued) << stage;
    EXPECT_EQ(core.state.jobs.at(job).requeue_cause, why);
    EXPECT_EQ(core.state.jobs.at(job).excluded_nodes,
              (std::map<std::string, std::string>{{"gpu1", why}}));
    Again();
    EXPECT_EQ(NodeOf(job), "gpu2") << stage;
    core.Cancel(job);
    core.Release("gpu2", Key{job, Attempt{2}});
  }
}

TEST_F(Elsewhere, AStartThatTheJobItselfMayHaveSpoiledIsNotTriedAgain) {
  for (const char* stage : {"affinity", "chdir", "container", "exec", "ids", "interpreter",
                            "limits", "start", "stdio"}) {
    const JobId job = core.Submitted(GpuJob(1, 1));
    const Key key = core.Run(job);
    core.Exit("gpu1", key, 0, FailedToStart{stage, ENOENT, "not there"});
    core.Release("gpu1", key);
    EXPECT_EQ(core.View(job).state, JobState::kFailed) << stage;
    EXPECT_EQ(core.View(job).sub_reason, "START") << stage;
    EXPECT_TRUE(core.state.jobs.at(job).excluded_nodes.empty()) << stage;
  }
}

TEST_F(Elsewhere, StaysOnTheNodeWhenNoOtherFitsAndSaysSo) {
  JobSpec spec = GpuJob(1, 1);
  spec.nodelist = {"gpu1"};
  const JobId job = core.Submitted(spec);
  const Key key{job, Attempt{1}};
  core.Say("gpu1", from_node::Refused{
                       key, core.Digest("gpu1", key), "accept", "inventory_changed", "no GPU", {}});
  Again();
  EXPECT_EQ(NodeOf(job), "gpu1");
  EXPECT_TRUE(core.HasEvent("job.keeps_node"));
}

TEST_F(Elsewhere, BlamesNoNodeForTheUsersOwnError) {
  JobSpec spec = GpuJob(1, 1);
  spec.retry.max = 1;
  const JobId job = core.Submitted(spec);
  const Key key = core.Run(job);
  core.Exit("gpu1", key, 0, Exited{1});
  core.Release("gpu1", key);
  EXPECT_EQ(NodeOf(job), "gpu1");
  EXPECT_FALSE(core.HasEvent("job.avoids_node"));
}

TEST_F(Retry, ShowsItsCauseAndWhichAttemptWaits) {
  RetrySpec retry;
  retry.max = 1;
  retry.backoff = Millis{2'000};
  const JobId job = Submit(retry);
  RunAndEnd(job, Exited{33});
  EXPECT_EQ(core.View(job).state, JobState::kRequeued);
  EXPECT_EQ(core.View(job).reason,
            (WaitReason{"BeginTime",
                        "attempt 2 after rank 0 on gpu1: exit 33; starts in 2 s where "
                        "it ran"}));
  core.answer_plans = false;
  core.now.boot += Millis{2'000};
  core.Beat("gpu1");
  core.Pass(Millis{0});
  EXPECT_EQ(core.View(job).reason.evidence,
            "attempt 2 after rank 0 on gpu1: exit 33; placed; its plan is being made");
}

TEST_F(Retry, ABackoffIsNoLongerOverAJumpOfTheClockAndARestart) {
  RetrySpec retry;
  retry.max = 1;
  retry.backoff = Millis{2'000};
  const JobId job = Submit(retry);
  core.now.wall += Millis{600'000};
  RunAndEnd(job, Exited{33});
  core.now.wall -= Millis{600'000};
  core.Restart();
  core.Attach("gpu1", 1);
  core.Pass(Millis{1'900});
  EXPECT_EQ(core.View(job).attempts.size(), 1u);
  core.Beat("gpu1");
  core.Pass(Millis{200});
  EXPECT_EQ(core.View(job).attempts.size(), 2u);
}

TEST_F(Retry, ALongBackoffLetsOthersPass) {
  RetrySpec retry;
  retry.max = 1;
  retry.backoff = Millis{600'000};
  const JobId job = Submit(retry);
  const JobId behind = core.Submitted(GpuJob(1, 1));
  EXPECT_EQ(core.View(behind).reason.code, "Resources");
  RunAndEnd(job, Exited{1});
  EXPECT_EQ(core.View(job).state, JobState::kRequeued);
  EXPECT_EQ(core.View(behind).state, JobState::kStarting);
  EXPECT_EQ(core.state.jobs.at(job).keeps, 0u);
}

struct Gains : Retry {
  Gains() {
    RetrySpec retry;
    retry.max = 10;
    retry.no_progress_max = 2;
    job = Submit(retry, "out");
  }
  void Fail() {
    core.now.wall += Millis{60'000};
    RunAndEnd(job, Exited{7});
  }
  // The newest attempt finds this checkpoint, written so long ago.
  void Find(std::int64_t step, Millis age) {
    const Key key{job, Attempt{core.state.jobs.at(job).attempts}};
    StagingFacts facts;
    facts.checkpoints = {{.path = "out/ckpt.pt",
                          .step = step,
                          .format = "torch",
                          .complete = true,
                          .why = {},
                          .modified = core.now.wall - age}};
    core.Accept("gpu1", key);
    core.Ready("gpu1", key, facts);
    core.Ignore();
  }
  JobId job;
};

TEST_F(Gains, StopsWhenNothingIsGainedAnyMore) {
  Fail();  // no checkpoint at the first start: no news
  Fail();  // none at the second: one retry without gain
  Fail();
  EXPECT_EQ(core.View(job).state, JobState::kStarting) << "it may have saved something";
  const Key last{job, Attempt{core.state.jobs.at(job).attempts}};
  core.Accept("gpu1", last);
  core.Ready("gpu1", last);
  EXPECT_EQ(core.View(job).state, JobState::kFailed);
  EXPECT_EQ(core.View(job).sub_reason, "CHECKPOINT");
  EXPECT_EQ(core.View(job).exit_code, 7);
  EXPECT_NE(core.View(job).outcome.find("given up after 2 retries"), std::string::npos);
}

TEST_F(Gains, AFileThatIsWrittenInPlaceIsNewsByItsTime) {
  for (int attempt = 1; attempt <= 4; ++attempt) {
    Fail();
    core.now.wall += Millis{60'000};
    Find(0, Millis{59'000});  // saved while the last attempt ran
    ASSERT_EQ(core.View(job).state, JobState::kStarting) << attempt;
    const Key key{job, Attempt{core.state.jobs.at(job).attempts}};
    EXPECT_EQ(core.Phase(key), AttemptPhase::kLaunching);
    EXPECT_EQ(core.state.jobs.at(job).no_progress, 0);
    core.Start("gpu1", key);
    core.Exit("gpu1", key, 0, Exited{7});
    core.Ignore();
    core.Release("gpu1", key);
  }
}

TEST_F(Gains, WhatTheLastAttemptSavedCountsBeforeItIsGivenUp) {
  Fail();
  Fail();
  Fail();
  Find(20, Millis{3'600'000});
  EXPECT_EQ(core.View(job).state, JobState::kStarting);
  EXPECT_EQ(core.state.jobs.at(job).no_progress, 0);
}

TEST_F(Gains, ARequeueByTheUserIsNoTryWithoutGain) {
  for (int times = 0; times < 5; ++times) {
    const Key key = core.Run(job);
    JobChange change;
    change.action = JobAction::kRequeue;
    core.Post(event::Change{RequestId{800}, {UserName{"ana"}, false}, {job}, change});
    core.Exit("gpu1", key, 0, Signalled{15, false});
    core.Ignore();
    core.Release("gpu1", key);
    EXPECT_EQ(core.state.jobs.at(job).no_progress, 0);
  }
  EXPECT_EQ(core.View(job).state, JobState::kStarting);
}

// The last retry is given where the attempt ran long enough to have saved something, whatever the
// clock of the controller's host did meanwhile; one that ended at once gets none.
TEST_F(Retry, TheOneBeyondTheBudgetHangsOnHowLongTheAttemptRanAndOnNoJumpOfTheClock) {
  core.host_boot = "boot";
  core.Restart();
  for (const bool ran : {true, false}) {
    core.Attach("gpu1", 1);
    RetrySpec retry;
    retry.max = 1;
    const JobId job = Submit(retry, "/out");
    for (std::uint32_t attempt = 1; attempt <= 2; ++attempt) {
      const Key key = core.Run(job);
      ASSERT_EQ(key.attempt, Attempt{attempt});
      for (int second = 0; ran && second < 3'000; second += 3) {
        core.now.boot += Millis{3'000};
        core.Beat("gpu1");
      }
      core.now.wall += Millis{ran ? -600'000 : 3'600'000};
      core.Exit("gpu1", key, 0, FailedToStart{"agent_restarted", 0, "agent restarted"});
      core.Ignore();
      core.Release("gpu1", key);
      core.now.boot += Millis{5'000};
      core.now.wall += Millis{7'200'000};  // no backoff is left
      core.Beat("gpu1");
      core.Pass(Millis{0});
    }
    EXPECT_EQ(core.state.jobs.at(job).attempts, ran ? 3u : 2u) << ran;
    EXPECT_EQ(core.View(job).state, ran ? JobState::kStarting : JobState::kFailed) << ran;
    core.Cancel(job);
    core.Release("gpu1", Key{job, Attempt{3}});
  }
}

TEST_F(Retry, SaysThatMemoryWasShort) {
  const JobId job = Submit({});
  RunAndEnd(job, OutOfMemory{"rank", 8ULL << 30, 8ULL << 30});
  EXPECT_EQ(core.View(job).state, JobState::kOutOfMemory);
}

TEST_F(Retry, GoesBeyondTheHighestAttemptThatANodeReports) {
  core.Detach("gpu1");
  const JobId job = Submit({});
  from_node::Hello hello;
  hello.floors = {Key{job, Attempt{6}}};
  core.Attach(MakeInventory("gpu1", 1), hello);
  EXPECT_EQ(core.state.jobs.at(job).attempts, 7u);
}

TEST_F(Retry, EndsTheJobWhenItsAttemptsAreUsedUp) {
  core.Detach("gpu1");
  const JobId job = Submit({});
  core.state.jobs.at(job).floor = 1'000'000;
  core.Attach("gpu1", 1);
  EXPECT_EQ(core.View(job).state, JobState::kFailed);
  EXPECT_EQ(core.View(job).sub_reason, "ATTEMPTS");
  EXPECT_TRUE(core.state.attempts.empty());
}

}  // namespace
}  // namespace launch::controller
