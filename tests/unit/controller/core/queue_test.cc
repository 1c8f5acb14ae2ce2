#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

TEST(Queue, IsServedInTheOrderOfSubmission) {
  TestCore core;
  core.Attach("gpu1", 2);
  const JobId running = core.Submitted(GpuJob(1, 1));
  const JobId big = core.Submitted(GpuJob(1, 2));
  const JobId small = core.Submitted(GpuJob(1, 1));
  EXPECT_EQ(core.View(big).reason.code, "Resources");
  EXPECT_FALSE(core.View(big).reason.evidence.empty());
  // One GPU is free, but the job in front keeps those behind it waiting.
  EXPECT_EQ(core.View(small).reason,
            (WaitReason{"Priority", "behind " + std::to_string(big.value)}));
  core.Ignore();
  core.Cancel(running);
  core.Release("gpu1", Key{running, Attempt{1}});
  EXPECT_EQ(core.View(big).state, JobState::kStarting);
  EXPECT_EQ(core.View(small).reason.code, "Resources");
}

TEST(Queue, PassesOverAHeldJob) {
  TestCore core;
  core.Attach("gpu1", 1);
  event::Submit held;
  held.request = RequestId{1};
  held.caller.user = UserName{"ana"};
  held.idempotency_key = "h";
  held.spec = GpuJob(1, 1);
  held.hold = true;
  core.Post(held);
  const JobId job = core.Answer<reply::Submitted>(RequestId{1})->job;
  EXPECT_EQ(core.View(job).reason.code, "JobHeldUser");
  EXPECT_EQ(core.View(core.Submitted(GpuJob(1, 1))).state, JobState::kStarting);
}

TEST(Queue, PlacesAGangOnlyAsAWhole) {
  TestCore core;
  core.Attach("gpu1", 1);
  core.Attach("gpu2", 1);
  core.Submitted(GpuJob(1, 1));
  const JobId gang = core.Submitted(GpuJob(2, 1));
  EXPECT_EQ(core.View(gang).reason.code, "Resources");
  EXPECT_EQ(core.Node("gpu1").free_gpus.size() + core.Node("gpu2").free_gpus.size(), 1u);
}

// As many processes as its line says, which the plan will say too.
TEST(Queue, KeepsTheCoresOfAJobWhileItsPlanIsMade) {
  TestCore core;
  core.Attach("cpu1");
  core.answer_plans = false;
  JobSpec spec = CpuJob(1);
  spec.procs_per_node.reset();
  spec.run = "torchrun --nproc-per-node=6 train.py";
  core.Submit(spec);
  core.Post(core.Answered(std::get<effect::PlanWanted>(core.effects.back())));
  ASSERT_EQ(core.state.live.holds.size(), 1u);
  core.Ignore();
  core.Submit(spec);
  core.Post(core.Answered(std::get<effect::PlanWanted>(core.effects.back())));
  EXPECT_EQ(core.state.live.holds.size(), 1u) << "two cores are free, and it needs six";
}

TEST(Queue, KeepsWhatAJobWasPlacedOnWhileItsPlanIsMade) {
  TestCore core;
  core.Attach("gpu1", 1);
  core.Ignore();
  core.answer_plans = false;
  core.Submit(GpuJob(1, 1));
  core.Submit(GpuJob(1, 1));
  const auto first = std::get<effect::PlanWanted>(core.effects.at(0));
  const auto second = std::get<effect::PlanWanted>(core.effects.at(1));
  core.Ignore();
  core.Post(core.Answered(first));
  core.Post(core.Answered(second));
  EXPECT_EQ(core.View(JobId{1}).reason.code, "Planning");
  EXPECT_EQ(core.View(JobId{2}).reason.code, "Resources");
}

// What can start only after a repair waits beside the queue, not at its head.
TEST(Queue, AJobThatNeedsABrokenGpuHoldsUpNobodyAndSaysWhich) {
  TestCore core;
  NodeInventory node = MakeInventory("gpu1", 4);
  node.gpus[0].health = Health::kBad;
  node.gpus[0].why = "row_remap_failed";
  core.Attach(node);
  JobSpec first = GpuJob(1, 2);
  first.gpu_ids = {0, 1};
  const JobId named = core.Submitted(first);
  const JobId all = core.Submitted(GpuJob(1, 4));
  const JobId small = core.Submitted(GpuJob(1, 1));
  EXPECT_EQ(core.View(small).state, JobState::kStarting);
  for (const JobId job : {named, all}) {
    EXPECT_EQ(core.View(job).reason.code, "ReqNodeNotAvail");
    EXPECT_NE(core.View(job).reason.evidence.find("GPU 0 of gpu1 (row_remap_failed)"),
              std::string::npos)
        << core.View(job).reason.evidence;
  }
}

TEST(Queue, AQuarantinedGpuIsNamedAndHealthyOnesThatOthersHoldAreWaitedFor) {
  TestCore core;
  core.Attach("gpu1", 2);
  const JobId first = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(first);
  const GpuUuid held = core.state.allocs.at(key).at(NodeId{"gpu1"}).gpus.at(0);
  core.Exit("gpu1", key, 0, Exited{0});
  core.Release("gpu1", key, {{held, "process 2390 still uses it"}});
  ASSERT_TRUE(core.state.quarantine.contains(held));
  const JobId both = core.Submitted(GpuJob(1, 2));
  EXPECT_EQ(core.View(both).reason.code, "ReqNodeNotAvail");
  EXPECT_NE(core.View(both).reason.evidence.find("process 2390 still uses it"), std::string::npos)
      << core.View(both).reason.evidence;
  const JobId one = core.Submitted(GpuJob(1, 1));
  EXPECT_EQ(core.View(one).state, JobState::kStarting);
  const JobId next = core.Submitted(GpuJob(1, 1));
  EXPECT_EQ(core.View(next).reason.code, "Resources") << "the other GPU comes back by itself";
}

TEST(Queue, DoesNotGiveTheSameCoresToTwoJobsOfOnePass) {
  TestCore core;
  core.answer_plans = true;
  const JobId first = core.Submitted(CpuJob(1));
  const JobId second = core.Submitted(CpuJob(1));
  core.Attach(MakeInventory("cpu1", 0, 1));
  EXPECT_EQ(core.View(first).state, JobState::kStarting);
  EXPECT_EQ(core.View(second).reason.code, "Resources");
}

TEST(Queue, PlacesAgainWhenTheNodeWentAwayWhileThePlanWasMade) {
  TestCore core;
  core.Attach("gpu1", 1);
  core.Ignore();
  core.answer_plans = false;
  core.Submit(GpuJob(1, 1));
  const auto submit = std::get<effect::PlanWanted>(core.effects.at(0));
  core.Ignore();
  core.Post(core.Answered(submit));
  const auto placed = std::get<effect::PlanWanted>(core.effects.back());
  core.Ignore();
  core.Detach("gpu1");
  core.Post(core.Answered(placed));
  EXPECT_EQ(core.View(JobId{1}).state, JobState::kPending);
  EXPECT_EQ(core.View(JobId{1}).reason.code, "ReqNodeNotAvail");
  EXPECT_TRUE(core.state.attempts.empty());
}

TEST(Invariants, NoNodeGivesMoreCoresThanItHas) {
  TestCore core;
  core.Attach("cpu1");
  JobSpec spec = CpuJob(1);
  spec.cpus = Amount{4};
  const Key first = core.Run(core.Submitted(spec));
  const Key second = core.Run(core.Submitted(spec));
  EXPECT_TRUE(CheckInvariants(core.state).empty());
  for (const Key& key : {first, second}) {
    AllocRecord greedy = core.state.allocs.at(key).at(NodeId{"cpu1"});
    greedy.cpus = 5;
    Apply(core.state, Put{greedy});
  }
  const std::vector<std::string> found = CheckInvariants(core.state);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0], "2 jobs have 10 cores of cpu1, which has 8");
}

TEST(Undo, GivesBackWhatWasPlacedInARefusedDecision) {
  TestCore core;
  core.Attach("gpu1", 1);
  const JobId first = core.Submitted(GpuJob(1, 1));
  const JobId second = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(first);
  core.Exit("gpu1", key, 0, Exited{0});
  core.Ignore();
  // The release frees the GPU and places the second job; then the store refuses it all.
  const Decision decision = Decide(
      core.state,
      event::NodeSaid{core.session["gpu1"], NodeId{"gpu1"}, from_node::Released{key, {}, {}}},
      core.now);
  ASSERT_TRUE(core.state.live.holds.contains(second));
  Undo(core.state, decision);
  EXPECT_TRUE(CheckInvariants(core.state).empty());
  EXPECT_TRUE(core.Node("gpu1").free_gpus.empty());
  core.Release("gpu1", key);
  EXPECT_EQ(core.View(second).state, JobState::kStarting);
}

TEST(Undo, AReadDrawsNothingOfWhatWasTakenBack) {
  TestCore core;
  core.Attach("gpu1", 1);
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  ExitReport report;
  report.key = key;
  report.cause = Exited{0};
  const Decision exit =
      Decide(core.state,
             event::NodeSaid{core.session["gpu1"], NodeId{"gpu1"}, from_node::RankExited{report}},
             core.now);
  ASSERT_FALSE(exit.records.empty());
  Undo(core.state, exit);
  event::GetJob get;
  get.request = RequestId{1};
  get.job = job;
  get.caller = Caller{UserName{"ana"}, true};
  const Decision read = Decide(core.state, get, core.now);
  EXPECT_TRUE(read.records.empty());
  EXPECT_FALSE(read.effects.empty());
  EXPECT_TRUE(core.state.live.look_again) << "the next one that may write draws it";
}

TEST(Undo, APlanAndAListOfHeldGpusDrawNothingOfWhatWasTakenBack) {
  TestCore core;
  core.Attach("gpu1", 1);
  core.state.live.look_again = true;
  event::Quarantine list;
  list.request = RequestId{1};
  event::PlanQuery query;
  query.request = RequestId{2};
  query.caller = Caller{UserName{"ana"}, false};
  query.spec = GpuJob(1, 1);
  const Decision listed = Decide(core.state, list, core.now);
  const Decision asked = Decide(core.state, query, core.now);
  ASSERT_EQ(asked.effects.size(), 1u);
  const auto* wanted = std::get_if<effect::PlanWanted>(&asked.effects[0]);
  ASSERT_NE(wanted, nullptr);
  const Decision answered =
      Decide(core.state, event::Planned{wanted->ticket, PlanOutcome{}}, core.now);
  for (const Decision* read : {&listed, &asked, &answered}) {
    EXPECT_TRUE(read->read);
    EXPECT_TRUE(read->records.empty());
    EXPECT_EQ(read->effects.size(), 1u);
  }
  EXPECT_TRUE(core.state.live.look_again);
  list.action = QuarantineAction::kRelease;
  EXPECT_FALSE(Decide(core.state, list, core.now).read);
}

TEST(Undo, SaysAgainWhatNeverLeft) {
  TestCore core;
  core.Attach("gpu1", 1);
  core.Attach("gpu2", 1);
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key{job, Attempt{1}};
  core.Accept("gpu1", key);
  core.Ignore();
  const Decision decision =
      Decide(core.state,
             event::NodeSaid{core.session["gpu2"], NodeId{"gpu2"},
                             from_node::Accepted{key, core.Digest("gpu2", key), std::nullopt}},
             core.now);
  Undo(core.state, decision);  // the Stage for gpu1 was in it
  core.Accept("gpu2", key);
  EXPECT_TRUE(core.WasTold<to_node::Stage>("gpu1"));
}

}  // namespace
}  // namespace launch::controller
