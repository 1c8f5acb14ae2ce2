#include <algorithm>

#include "controller/core/draft.h"
#include "preflight/checked_text.h"
#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

std::string Value(const std::vector<EnvVar>& env, const std::string& name) {
  for (const EnvVar& variable : env) {
    if (variable.name == name) return variable.value;
  }
  return "(not set)";
}

TEST(Attempt, RunsAJobOnOneNodeToSuccess) {
  TestCore core;
  core.Attach("gpu1", 2);
  core.Ignore();
  const JobId job = core.Submitted(GpuJob(1, 2));
  EXPECT_EQ(core.View(job).state, JobState::kStarting);
  const Key key = core.Run(job);
  EXPECT_EQ(core.View(job).state, JobState::kRunning);
  core.Exit("gpu1", key, 0, Exited{0});
  EXPECT_EQ(core.Told<to_node::ExitAck>("gpu1").rank, 0);
  EXPECT_EQ(core.View(job).state, JobState::kRunning);
  core.Exit("gpu1", key, 1, Exited{0});
  EXPECT_EQ(core.Told<to_node::ExitAck>("gpu1").rank, 1);
  EXPECT_EQ(core.View(job).state, JobState::kSucceeded);
  EXPECT_EQ(core.View(job).exit_code, 0);
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").key, key);
  EXPECT_TRUE(core.Node("gpu1").free_gpus.empty());  // until the node says that nothing is left
  core.Release("gpu1", key);
  EXPECT_EQ(core.Node("gpu1").free_gpus.size(), 2u);
  EXPECT_EQ(core.Told<to_node::Forget>("gpu1").key, key);
  core.NothingElse();
}

RankSample At(Key key, Rank rank, std::int64_t step, double seconds_per_step) {
  RankSample sample;
  sample.key = key;
  sample.rank = rank;
  sample.step = step;
  sample.seconds_per_step = seconds_per_step;
  return sample;
}

TEST(Progress, CountsTheTotalOfTheJobFileWhereTheRankDoesNotKnowIt) {
  TestCore core;
  core.Attach("gpu1", 1);
  core.plan_steps = 100;
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  EXPECT_EQ(core.View(job).steps, 100);
  EXPECT_EQ(core.View(job).eta_s, std::nullopt);
  core.Say("gpu1", from_node::Samples{{}, {}, {}, {At(key, 0, 20, 0.5)}});
  EXPECT_EQ(core.View(job).step, 20);
  EXPECT_EQ(core.View(job).eta_s, 40.0);
}

TEST(Progress, StaysInViewWhenTheJobHasEnded) {
  TestCore core;
  core.Attach("gpu1", 1);
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  core.Say("gpu1", from_node::Samples{{}, {}, {}, {At(key, 0, 20, 0.5)}});
  core.Exit("gpu1", key, 0, Exited{0});
  core.Release("gpu1", key);
  EXPECT_EQ(core.View(job).state, JobState::kSucceeded);
  EXPECT_EQ(core.View(job).step, 20);
  EXPECT_EQ(core.View(job).seconds_per_step, 0.5);
  EXPECT_EQ(core.View(job).eta_s, std::nullopt);
  // What the rank printed in its last seconds arrives after its end; nothing older counts then.
  core.Say("gpu1", from_node::Samples{{}, {}, {}, {At(key, 0, 24, 0.4)}});
  core.Say("gpu1", from_node::Samples{{}, {}, {}, {At(key, 0, 23, 9.0)}});
  EXPECT_EQ(core.View(job).step, 24);
  core.Restart();
  EXPECT_EQ(core.View(job).step, 24);
  EXPECT_EQ(core.View(job).seconds_per_step, 0.4);
}

TEST(Measured, IsWhatARunThatSucceededTellsOfLaterOnes) {
  TestCore core;
  core.Attach("gpu1", 1);
  core.plan_run = {.job = "paper", .device = "A100-40GB", .architecture = "llama"};
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  core.Say("gpu1", from_node::Samples{{}, {}, {}, {At(key, 0, 20, 0.5)}});
  EXPECT_FALSE(core.View(job).measured) << "not while it runs";
  core.Exit("gpu1", key, 0, Exited{0});
  core.Release("gpu1", key);
  core.Restart();
  const auto measured = core.View(job).measured;
  ASSERT_TRUE(measured);
  EXPECT_EQ(measured->job, "paper");
  EXPECT_EQ(measured->architecture, "llama");
  EXPECT_EQ(measured->step_seconds, 0.5);
  EXPECT_FALSE(measured->peak_gib) << "the process's own memory is not the GPU's";
}

TEST(Measured, IsNothingOfARunThatFailedOrOfADebugRun) {
  TestCore core;
  core.Attach("gpu1", 1);
  core.plan_run = {.job = "paper", .device = "cpu"};
  JobSpec debug = GpuJob(1, 1);
  debug.debug = true;
  for (const auto& [spec, code] : {std::pair{GpuJob(1, 1), 1}, std::pair{debug, 0}}) {
    const JobId job = core.Submitted(spec);
    const Key key = core.Run(job);
    core.Say("gpu1", from_node::Samples{{}, {}, {}, {At(key, 0, 20, 0.5)}});
    core.Exit("gpu1", key, 0, Exited{code});
    core.Release("gpu1", key);
    EXPECT_FALSE(core.View(job).measured);
  }
}

TEST(Plan, OfAnEndedAttemptIsReadFromTheStoreAfterAWhile) {
  TestCore core;
  core.Attach("gpu1", 1);
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  core.Exit("gpu1", key, 0, Exited{0});
  core.Release("gpu1", key);
  core.Ignore();
  const auto ask = [&](std::uint64_t request) {
    core.Post(event::GetJob{RequestId{request}, {UserName{"ana"}, false}, job});
  };
  ask(800);
  EXPECT_TRUE(core.Answer<JobView>(RequestId{800})->plan.has_value());
  core.Pass(Millis{61'000});
  EXPECT_TRUE(core.state.plans.empty());
  EXPECT_TRUE(core.state.plan_chunks.empty());
  EXPECT_EQ(core.View(job).strategy, "ddp");
  core.Ignore();
  ask(801);
  ASSERT_EQ(core.effects.size(), 1u);
  auto wanted = std::get<effect::ReadPlans>(core.effects[0]);
  ASSERT_EQ(wanted.plans.size(), 1u);
  EXPECT_EQ(wanted.plans[0].attempt, key);
  EXPECT_EQ(wanted.plans[0].chunks, core.state.attempts.at(key).plan_chunks);
  StoredPlan plan;
  plan.plan.assignments.resize(1);
  plan.plan.assignments[0].env = {{"LAUNCH_STRATEGY", "ddp"}, {"MASTER_ADDR", "probable"}};
  AddPlan(wanted.view, Attempt{1}, plan);
  EXPECT_TRUE(wanted.view.plan.has_value());
  EXPECT_EQ(wanted.view.attempts[0].env.at("LAUNCH_STRATEGY"), "ddp");
  EXPECT_NE(wanted.view.attempts[0].env.at("MASTER_ADDR"), "probable");
  // A restarted controller does not load it either.
  core.Restart();
  EXPECT_TRUE(core.state.plans.empty());
}

TEST(Plan, IsKeptWhenTheEndOfItsAttemptWasTakenBack) {
  TestCore core;
  core.Attach("gpu1", 1);
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  ExitReport report;
  report.key = key;
  report.cause = Exited{0};
  const Decision decision =
      Decide(core.state,
             event::NodeSaid{core.session["gpu1"], NodeId{"gpu1"}, from_node::RankExited{report}},
             core.now);
  ASSERT_EQ(core.Phase(key), AttemptPhase::kEnded);
  Undo(core.state, decision);
  core.Pass(Millis{61'000});
  EXPECT_TRUE(core.state.plans.contains(key));
}

TEST_F(TwoNodes, StagesTheNodeOfRankZeroFirst) {
  const Key key = Accepted(GpuJob(2, 1));
  const auto first = core.Told<to_node::Stage>("gpu1");
  EXPECT_TRUE(first.write_marker);
  EXPECT_FALSE(first.marker.empty());
  EXPECT_FALSE(core.WasTold<to_node::Stage>("gpu2"));
  core.Ready("gpu1", key);
  const auto second = core.Told<to_node::Stage>("gpu2");
  EXPECT_FALSE(second.write_marker);
  EXPECT_EQ(second.marker, first.marker);
  EXPECT_EQ(second.masters, std::vector<std::string>{"10.0.0.1"});
  EXPECT_EQ(second.master_port, 29500);
  EXPECT_FALSE(core.WasTold<to_node::Go>("gpu1"));
  core.Ready("gpu2", key);
  EXPECT_TRUE(core.WasTold<to_node::Go>("gpu1"));
  EXPECT_TRUE(core.WasTold<to_node::Go>("gpu2"));
}

TEST_F(TwoNodes, TellsEveryRankAMasterThatEveryNodeReached) {
  const Key key = Accepted(GpuJob(2, 1));
  core.Ready("gpu1", key);
  core.Ready("gpu2", key);
  const auto first = core.Told<to_node::Go>("gpu1");
  const auto second = core.Told<to_node::Go>("gpu2");
  EXPECT_EQ(first.master_address, "10.0.0.1");
  EXPECT_EQ(Value(first.late_env, "MASTER_ADDR"), "10.0.0.1");
  EXPECT_EQ(Value(first.late_env, "MASTER_PORT"), "29500");
  EXPECT_EQ(Value(first.late_env, "LAUNCH_NODE_IPS"), "10.0.0.1\n10.0.0.2");
  EXPECT_EQ(Value(first.late_env, "LAUNCH_RESUME_FROM"), "");
  // Each node's own route to the master, and only what the plan announced as late.
  EXPECT_EQ(Value(first.late_env, "GLOO_SOCKET_IFNAME"), "eth0");
  EXPECT_EQ(Value(second.late_env, "GLOO_SOCKET_IFNAME"), "eth1");
  EXPECT_EQ(Value(second.late_env, "NCCL_SOCKET_IFNAME"), "(not set)");
  ASSERT_EQ(second.late_files.size(), 1u);
  EXPECT_EQ(second.late_files[0].bytes, "10.0.0.1 slots=1\n10.0.0.2 slots=1\n");
}

TEST_F(TwoNodes, UsesLoopbackOnlyWhenTheNodesAreOneMachine) {
  for (const char* name : {"gpu1", "gpu2"}) {
    core.Detach(name);
    from_node::Hello hello;
    hello.boot_id = "same";
    hello.machine = {std::string("install-") + name, "", {}, "net:[1]"};
    core.Detach(name);
    core.Attach(MakeInventory(name, 1), hello);
    core.boot[name] = "same";
  }
  const Key key = Accepted(GpuJob(2, 1));
  const auto stage = core.Told<to_node::Stage>("gpu1");
  EXPECT_EQ(stage.masters, (std::vector<std::string>{"127.0.0.1", "10.0.0.1"}));
  core.Ready("gpu1", key);
  StagingFacts facts;
  facts.reach = {{"127.0.0.1", true, "lo", ""}, {"10.0.0.1", true, "eth0", ""}};
  core.Ready("gpu2", key, facts);
  EXPECT_EQ(core.Told<to_node::Go>("gpu1").master_address, "127.0.0.1");
}

TEST_F(TwoNodes, FailsWithoutStartingWhenNoAddressIsReachable) {
  JobSpec spec = GpuJob(2, 1);
  spec.retry.max = 0;
  const Key key = Accepted(spec);
  core.Ready("gpu1", key);
  StagingFacts facts;
  facts.reach = {{"10.0.0.1", false, "", "timeout: a firewall drops it"}};
  core.Ready("gpu2", key, facts);
  const JobView view = core.View(key.job);
  EXPECT_EQ(view.state, JobState::kFailed);
  EXPECT_EQ(view.sub_reason, "PREFLIGHT");
  ASSERT_FALSE(view.findings.empty());
  const auto finding =
      std::find_if(view.findings.begin(), view.findings.end(),
                   [](const Finding& f) { return f.code == "network_unreachable"; });
  ASSERT_NE(finding, view.findings.end());
  EXPECT_EQ(finding->node, NodeId{"gpu2"});
  EXPECT_FALSE(core.WasTold<to_node::Go>("gpu1"));
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").key, key);
  EXPECT_EQ(core.Told<to_node::Stop>("gpu2").key, key);
}

TEST_F(TwoNodes, ResumesFromTheNewestCheckpointThatIsCompleteEverywhere) {
  JobSpec spec = GpuJob(2, 1);
  spec.checkpoint.dir = "out";
  const Key key = Accepted(spec);
  EXPECT_TRUE(core.Told<to_node::Stage>("gpu1").find_checkpoint);
  StagingFacts first;
  first.checkpoints = {{"/w/out/checkpoint-40", 40, "hf", true, "", WallMs(1)},
                       {"/w/out/checkpoint-80", 80, "hf", true, "", WallMs(2)},
                       {"/w/out/checkpoint-120", 120, "hf", false, "truncated", WallMs(3)},
                       {"/local/checkpoint-200", 200, "hf", true, "", WallMs(4)}};
  core.Ready("gpu1", key, first);
  StagingFacts second;
  second.reach = {{"10.0.0.1", true, "eth1", ""}};
  second.checkpoints = {first.checkpoints[0], first.checkpoints[1]};
  core.Ready("gpu2", key, second);
  const auto go = core.Told<to_node::Go>("gpu2");
  EXPECT_EQ(Value(go.late_env, "LAUNCH_RESUME_FROM"), "/w/out/checkpoint-80");
  EXPECT_EQ(core.View(key.job).attempts[0].resumed_from, "/w/out/checkpoint-80");
  const auto findings = core.View(key.job).findings;
  const auto said = std::find_if(findings.begin(), findings.end(),
                                 [](const Finding& one) { return one.code == "checkpoint_found"; });
  ASSERT_NE(said, findings.end());
  EXPECT_NE(said->says.find("goes on from /w/out/checkpoint-80"), std::string::npos);
  EXPECT_TRUE(core.HasEvent("checkpoint.skipped"));
  const auto torn = std::ranges::find(findings, "checkpoint_skipped", &Finding::code);
  ASSERT_NE(torn, findings.end());
  EXPECT_EQ(torn->severity, Severity::kNotice);
  EXPECT_EQ(torn->evidence, "/w/out/checkpoint-120: truncated");
}

TEST_F(TwoNodes, CheckpointsThatAllPassForIncompleteAreAWarning) {
  JobSpec spec = GpuJob(2, 1);
  spec.checkpoint.dir = "out";
  const Key key = Accepted(spec);
  StagingFacts facts;
  facts.checkpoints = {{"/w/out/checkpoint-20", 20, "torch", false, "cut off", WallMs(2)},
                       {"/w/out/checkpoint-10", 10, "torch", false, "cut off", WallMs(1)}};
  core.Ready("gpu1", key, facts);
  facts.reach = {{"10.0.0.1", true, "eth1", ""}};
  core.Ready("gpu2", key, facts);
  const auto findings = core.View(key.job).findings;
  const auto said = std::ranges::find(findings, "checkpoint_skipped", &Finding::code);
  ASSERT_NE(said, findings.end());
  EXPECT_EQ(said->severity, Severity::kWarning);
  EXPECT_EQ(said->says,
            "2 checkpoints in out are taken for incomplete, so it begins at the first step");
  EXPECT_EQ(said->evidence, "/w/out/checkpoint-20: cut off");
  EXPECT_NE(said->remedy.find("complete_marker"), std::string::npos);
}

TEST_F(TwoNodes, ACheckpointThatOneNodeDoesNotSeeIsPassedOverInWords) {
  JobSpec spec = GpuJob(2, 1);
  spec.checkpoint.dir = "/local/out";
  const Key key = Accepted(spec);
  StagingFacts first;
  first.checkpoints = {{"/local/out/checkpoint-40", 40, "hf", true, "", WallMs(1)}};
  core.Ready("gpu1", key, first);
  core.Ready("gpu2", key);
  EXPECT_EQ(core.state.attempts.at(key).resumed_from, "");
  const auto row = std::find_if(core.rows.begin(), core.rows.end(), [](const EventRow& one) {
    return one.kind == "checkpoint.skipped";
  });
  ASSERT_NE(row, core.rows.end());
  EXPECT_EQ(row->text, "/local/out/checkpoint-40 of gpu1 is not seen on gpu2");
}

TEST_F(TwoNodes, KeepsWhatThePlanSaidBesideWhatTheStartFound) {
  const auto has = [&](const Key& key, const std::string& code) {
    const std::vector<Finding> findings = core.View(key.job).findings;
    return std::any_of(findings.begin(), findings.end(),
                       [&](const Finding& finding) { return finding.code == code; });
  };
  core.plan_findings = {Finding{"shm_small", Severity::kWarning, NodeId{"gpu1"}, "small", "", ""}};
  const Key key = Accepted(GpuJob(2, 1));
  StagingFacts facts;
  facts.reach = {{"10.0.0.1", true, "eth1", ""}};
  facts.disks = {{"workdir", "/w", 100ULL << 30, 500ULL << 20, {}}};
  core.Ready("gpu1", key);
  core.Ready("gpu2", key, facts);
  EXPECT_EQ(core.Phase(key), AttemptPhase::kLaunching);
  EXPECT_TRUE(has(key, "shm_small"));
  EXPECT_TRUE(has(key, "disk_low"));
}

TEST_F(TwoNodes, TellsWhatItLookedAtBeforeTheStart) {
  const Key key = Accepted(GpuJob(2, 1));
  StagingFacts facts;
  facts.paths = {{"workdir", "/w", true, "", 0}};
  core.Ready("gpu1", key, facts);
  facts.reach = {{"10.0.0.1", true, "eth1", ""}};
  core.Ready("gpu2", key, facts);
  std::vector<Check> checks;
  for (const EventRow& row : core.rows) {
    if (row.kind == "attempt.checked" && row.subject == Subject(key))
      checks = ParseChecked(row.text);
  }
  const auto has = [&](const std::string& check, const std::string& node) {
    return std::any_of(checks.begin(), checks.end(), [&](const Check& one) {
      return one.check == check && one.node == NodeId{node} && one.result == CheckResult::kPass;
    });
  };
  EXPECT_TRUE(has("workdir", "gpu1"));
  EXPECT_TRUE(has("workdir", "gpu2"));
  EXPECT_TRUE(has("network", "gpu2"));
}

struct FullPreflight : TwoNodes {
  // Both staged, and asked to speak with each other.
  Key Staged() {
    JobSpec spec = GpuJob(2, 1);
    spec.preflight = PreflightLevel::kFull;
    spec.retry.max = 0;
    const Key key = Accepted(std::move(spec));
    core.Ignore();
    core.Ready("gpu1", key);
    StagingFacts facts;
    facts.reach = {{"10.0.0.1", true, "eth1", ""}};
    core.Ready("gpu2", key, facts);
    return key;
  }
  // The second half of the answer of one node.
  void Tested(const std::string& node, const Key& key, NetworkFacts facts) {
    StagingFacts staged;
    staged.network = std::move(facts);
    core.Ready(node, key, staged);
  }
  static NetworkFacts Good() {
    NetworkFacts facts;
    facts.backend = "gloo";
    facts.ok = true;
    return facts;
  }
};

TEST_F(FullPreflight, NodesSpeakWithEachOtherBeforeTheStartInTheEnvironmentOfTheRanks) {
  const Key key = Staged();
  EXPECT_FALSE(core.WasTold<to_node::Go>("gpu1"));
  (void)core.Told<to_node::Stage>("gpu2");  // the first half
  const auto first = core.Told<to_node::Stage>("gpu1").network_test;
  const auto second = core.Told<to_node::Stage>("gpu2").network_test;
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->place, 0);
  EXPECT_EQ(second->place, 1);
  EXPECT_EQ(second->nodes, 2);
  EXPECT_EQ(second->address, "10.0.0.1");
  EXPECT_EQ(second->port, 29500);
  EXPECT_EQ(Value(second->env, "MASTER_ADDR"), "10.0.0.1");
  Tested("gpu1", key, Good());
  EXPECT_FALSE(core.WasTold<to_node::Go>("gpu1"));
  Tested("gpu2", key, Good());
  EXPECT_EQ(core.Told<to_node::Go>("gpu1").master_address, "10.0.0.1");
  EXPECT_TRUE(core.HasEvent("attempt.network_tested"));
}

TEST_F(FullPreflight, AnAllReduceThatFailsEndsTheJobBeforeAnyRank) {
  const Key key = Staged();
  Tested("gpu1", key, Good());
  NetworkFacts bad;
  bad.backend = "gloo";
  bad.why = "RuntimeError: connectFullMesh failed";
  Tested("gpu2", key, bad);
  const JobView view = core.View(key.job);
  EXPECT_EQ(view.state, JobState::kFailed);
  EXPECT_EQ(view.sub_reason, "PREFLIGHT");
  EXPECT_EQ(view.findings.at(0).code, "network_unreachable");
  EXPECT_FALSE(core.WasTold<to_node::Go>("gpu1"));
}

TEST_F(FullPreflight, ATestWithoutAnEndNamesTheNode) {
  const Key key = Staged();
  Tested("gpu1", key, Good());
  for (int second = 0; second < 200; second += 2) {
    core.Beat("gpu1");
    core.Beat("gpu2");
    core.Pass(Millis{2'000});
  }
  EXPECT_NE(core.Phase(key), AttemptPhase::kPreparing);
  EXPECT_TRUE(core.View(key.job).attempts.at(0).cause.find("gpu2") != std::string::npos);
}

TEST_F(FullPreflight, AnAgentThatRestartsBetweenIsTestedAgainWithAll) {
  const Key key = Staged();
  Tested("gpu1", key, Good());
  core.Detach("gpu2");
  core.Ignore();
  AllocationStatus status;
  status.key = key;
  status.digest = core.Digest("gpu2", key);
  from_node::Hello hello;
  hello.allocations = {status};
  core.Attach(MakeInventory("gpu2", 1), hello);
  core.Accept("gpu2", key);
  StagingFacts facts;
  facts.reach = {{"10.0.0.1", true, "eth1", ""}};
  core.Ready("gpu2", key, facts);
  const auto again = core.Told<to_node::Stage>("gpu1").network_test;
  ASSERT_TRUE(again);
  EXPECT_EQ(again->round, 1u);
  Tested("gpu1", key, Good());
  Tested("gpu2", key, Good());
  EXPECT_EQ(core.Phase(key), AttemptPhase::kLaunching);
}

TEST_F(TwoNodes, ASetupThatFailsIsNotTheUsersCrash) {
  const Key key = Accepted(GpuJob(2, 1));
  StagingFacts facts;
  facts.setup_exit = 3;
  facts.setup_tail = "No matching distribution found";
  core.Ready("gpu1", key, facts);
  core.Ready("gpu2", key);
  const JobView view = core.View(key.job);
  EXPECT_EQ(view.state, JobState::kFailed);
  EXPECT_EQ(view.sub_reason, "SETUP");
  EXPECT_EQ(view.findings.at(0).evidence, "No matching distribution found");
}

TEST_F(TwoNodes, OneRanksDeathStopsTheGang) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key = core.Run(job);
  core.Exit("gpu2", key, 1, Exited{7});
  EXPECT_EQ(core.View(job).state, JobState::kStopping);
  const auto stop = core.Told<to_node::Stop>("gpu1");
  EXPECT_EQ(stop.cause, StopCause::kRankFailed);
  EXPECT_EQ(stop.grace, Millis{10'000});
  EXPECT_EQ(core.Told<to_node::Stop>("gpu2").key, key);
  core.Exit("gpu1", key, 0, Signalled{15, false});
  core.Release("gpu1", key);
  EXPECT_EQ(core.View(job).state, JobState::kStopping);
  core.Release("gpu2", key);
  const JobView view = core.View(job);
  EXPECT_EQ(view.state, JobState::kFailed);
  EXPECT_EQ(view.sub_reason, "USER_CODE");
  EXPECT_EQ(view.exit_code, 7);
  EXPECT_EQ(view.attempts[0].first_failed_rank, 1);
  EXPECT_EQ(view.attempts[0].first_failed_node, NodeId{"gpu2"});
}

TEST_F(TwoNodes, NamesTheRankThatFailedFirstByItsNodesClock) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key = core.Run(job);
  // Both nodes said Hello at 5,000 of their boot time. Rank 0's report arrives first, but rank 1
  // ended 200 ms earlier.
  core.Exit("gpu1", key, 0, Exited{1}, 9'300);
  core.Exit("gpu2", key, 1, Exited{33}, 9'100);
  core.Release("gpu1", key);
  core.Release("gpu2", key);
  EXPECT_EQ(core.View(job).attempts[0].first_failed_rank, 1);
  EXPECT_EQ(core.View(job).exit_code, 33);
}

TEST_F(TwoNodes, ARankThatSucceedsBeforeTheOthersStartedIsNoFailure) {
  const Key key = Accepted(GpuJob(2, 1));
  core.Ready("gpu1", key);
  core.Ready("gpu2", key);
  core.Start("gpu1", key);
  core.Exit("gpu1", key, 0, Exited{0});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kLaunching);
  core.Exit("gpu2", key, 1, Exited{0});  // its Started was lost with a stream
  EXPECT_EQ(core.View(key.job).state, JobState::kSucceeded);
}

TEST_F(TwoNodes, EndsAtOnceWhenANodeRefuses) {
  JobSpec spec = GpuJob(2, 1);
  spec.retry.max = 0;
  const JobId job = core.Submitted(spec);
  const Key key{job, Attempt{1}};
  core.Ignore();
  core.Accept("gpu1", key);
  core.Say("gpu2", from_node::Refused{key, core.Digest("gpu2", key), "accept", "gpu_busy",
                                      "GPU 0 is in use\nprocess 77 of bob", std::nullopt});
  EXPECT_EQ(core.View(job).state, JobState::kFailed);
  EXPECT_EQ(core.View(job).sub_reason, "PREFLIGHT");
  EXPECT_NE(core.View(job).outcome.find("gpu_busy on gpu2"), std::string::npos);
  EXPECT_EQ(core.View(job).attempts[0].cause, "gpu2 refused the start: GPU 0 is in use (gpu_busy)");
  ASSERT_EQ(core.View(job).findings.size(), 1U);
  EXPECT_EQ(core.View(job).findings[0].code, "gpu_busy");
  EXPECT_EQ(core.View(job).findings[0].evidence, "process 77 of bob");
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").key, key);
  EXPECT_FALSE(core.WasTold<to_node::Stop>("gpu2"));  // nothing is held there
}

TEST_F(TwoNodes, SaysWhichGpuWentBadBeforeTheOnlyTry) {
  JobSpec spec = GpuJob(2, 1);
  spec.retry.max = 0;
  const JobId job = core.Submitted(spec);
  const Key key{job, Attempt{1}};
  core.Say("gpu2", from_node::Refused{key, core.Digest("gpu2", key), "accept", "gpu_unhealthy",
                                      "GPU 0 (GPU-0): fell off the bus", std::nullopt});
  EXPECT_EQ(core.View(job).state, JobState::kFailed);
  EXPECT_EQ(core.View(job).sub_reason, "PREFLIGHT");
  EXPECT_EQ(core.View(job).outcome,
            "gpu_unhealthy on gpu2: gpu2 refused the start: GPU 0 (GPU-0): fell off the bus");
}

TEST_F(TwoNodes, GivesUpWhenANodeDoesNotAcceptInThirtySeconds) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key{job, Attempt{1}};
  core.Accept("gpu1", key);
  core.Pass(Millis{29'000});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kPreparing);
  core.Pass(Millis{1'100});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kEnded);
  EXPECT_EQ(core.View(job).state, JobState::kRequeued);
  EXPECT_NE(core.View(job).attempts[0].cause.find("gpu2"), std::string::npos);
}

TEST_F(TwoNodes, SaysWhatAStagingThatDidNotEndWaitedFor) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key{job, Attempt{1}};
  core.Accept("gpu1", key);
  core.Accept("gpu2", key);
  core.Say("gpu1", from_node::Staging{key, "checkpoint", "/data/run"});
  core.Pass(2 * kStagingMargin + Millis{60'000});
  EXPECT_EQ(core.View(job).attempts[0].cause,
            "staging did not end in time on gpu1, gpu2; gpu1: checkpoint: /data/run");
}

TEST_F(TwoNodes, StopsAGangOfWhichAPartDoesNotStart) {
  const Key key = Accepted(GpuJob(2, 1));
  core.Ready("gpu1", key);
  core.Ready("gpu2", key);
  core.Ignore();
  core.Start("gpu1", key);
  core.Pass(Millis{60'100});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kStopping);
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").cause, StopCause::kStartFailed);
  EXPECT_EQ(core.Told<to_node::Stop>("gpu2").cause, StopCause::kStartFailed);
}

TEST_F(TwoNodes, EndsAtItsTimeLimit) {
  JobSpec spec = GpuJob(2, 1);
  spec.time_limit = Millis{3'600'000};
  const JobId job = core.Submitted(spec);
  const Key key = core.Run(job);
  core.Pass(Millis{3'599'000});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kRunning);
  core.Pass(Millis{1'100});
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").cause, StopCause::kTimeLimit);
  core.Exit("gpu1", key, 0, Signalled{15, false});
  core.Release("gpu1", key);
  core.Release("gpu2", key);
  EXPECT_EQ(core.View(job).state, JobState::kTimeout);
  const std::optional<Verdict> verdict = core.View(job).attempts[0].verdict;
  ASSERT_TRUE(verdict) << "nobody need judge from logs what we did ourselves";
  EXPECT_EQ(verdict->label, "time_limit");
  EXPECT_EQ(verdict->confidence, Confidence::kConfirmed);
}

TEST_F(TwoNodes, AsksAgainWhenAStopIsNotAnswered) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key = core.Run(job);
  core.Cancel(job);
  core.Ignore();
  core.Pass(Millis{39'000});  // grace 10 s and half a minute of patience
  EXPECT_FALSE(core.WasTold<to_node::Stop>("gpu1"));
  core.Pass(Millis{1'100});
  EXPECT_EQ(core.Told<to_node::Stop>("gpu1").key, key);
}

TEST_F(TwoNodes, QuarantinesWhatTheNodeCannotFree) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key = core.Run(job);
  core.Cancel(job);
  const GpuUuid stuck{"GPU-gpu1-0"};
  core.Release("gpu1", key, {{stuck, "process in D state"}});
  core.Release("gpu2", key);
  EXPECT_EQ(core.View(job).state, JobState::kCancelled);
  EXPECT_FALSE(core.View(job).held.empty());
  EXPECT_TRUE(core.Node("gpu1").free_gpus.empty());
  ASSERT_EQ(core.Node("gpu1").quarantined.size(), 1u);
  core.Release("gpu1", key);  // a later test of the node found it free
  EXPECT_EQ(core.Node("gpu1").free_gpus.size(), 1u);
  EXPECT_TRUE(core.View(job).held.empty());
}

TEST_F(TwoNodes, FailsTheJobWhenItsPlanCannotBeMade) {
  core.placed_error = Error{ErrorCode::kInvalidArgument, "batch 64 does not divide by 3", "", {}};
  const JobId job = core.Submitted(GpuJob(2, 1));
  EXPECT_EQ(core.View(job).state, JobState::kFailed);
  EXPECT_EQ(core.View(job).outcome, "batch 64 does not divide by 3");
  EXPECT_EQ(core.Node("gpu1").free_gpus.size(), 1u);
}

}  // namespace
}  // namespace launch::controller
