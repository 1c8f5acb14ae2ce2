#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

JobSpec ArrayJob(const std::string& indices) {
  JobSpec spec = GpuJob(1, 1);
  spec.array = *ParseArray(indices);
  return spec;
}

reply::Submitted SubmitArray(TestCore& core, JobSpec spec, const std::string& key = "") {
  const auto answer = core.Answer<reply::Submitted>(core.Submit(std::move(spec), false, key));
  EXPECT_TRUE(answer.has_value()) << (answer ? "" : answer.error().message);
  return answer.value_or(reply::Submitted{});
}

reply::ChangeResult Change(TestCore& core, JobId job, JobChange change,
                           const std::string& user = "ana") {
  static std::uint64_t request = 9'000;
  const RequestId id{++request};
  core.Post(event::Change{id, {UserName{user}, false}, {job}, change});
  const auto answer = core.Answer<reply::Changed>(id);
  EXPECT_TRUE(answer.has_value());
  return answer->results.at(0);
}

JobChange Action(JobAction action, bool hold = false) {
  JobChange change;
  change.action = action;
  change.hold = hold;
  return change;
}

void Finish(TestCore& core, JobId job, int code) {
  const Key key = core.Run(job);
  core.Exit("gpu1", key, 0, Exited{code});
  core.Release("gpu1", key);
  core.Ignore();
}

JobSpec After(const std::string& text) {
  JobSpec spec = GpuJob(1, 1);
  spec.depends_on = *ParseDependencies(text);
  return spec;
}

TEST(Array, IsAJobForEachIndexUnderOneNumber) {
  TestCore core;
  core.Attach("gpu1", 2);
  const reply::Submitted array = SubmitArray(core, ArrayJob("3,7-8"), "k");
  EXPECT_EQ(array.elements, 3u);
  EXPECT_EQ(array.first.value, array.job.value + 1);
  EXPECT_FALSE(core.state.jobs.contains(array.job));
  const JobView second = core.View(JobId{array.first.value + 1});
  EXPECT_EQ(second.name, "train_7");
  EXPECT_EQ(second.array, array.job);
  EXPECT_EQ(second.array_index, 7);
  EXPECT_FALSE(second.spec->array.has_value());
  EXPECT_EQ(second.spec->element->array, array.job);
  EXPECT_EQ(second.state, JobState::kStarting);
  EXPECT_EQ(core.View(JobId{array.first.value + 2}).reason.code, "Resources");
  // The same request again is answered with the same array.
  const reply::Submitted again = SubmitArray(core, ArrayJob("3,7-8"), "k");
  EXPECT_TRUE(again.known);
  EXPECT_EQ(again.job, array.job);
  EXPECT_EQ(again.first, array.first);
  EXPECT_EQ(again.elements, 3u);
}

TEST(Array, RunsNoMoreAtOnceThanItMay) {
  TestCore core;
  core.Attach("gpu1", 8);
  const reply::Submitted array = SubmitArray(core, ArrayJob("0-3%2"));
  const JobId third{array.first.value + 2};
  EXPECT_EQ(core.View(array.first).state, JobState::kStarting);
  EXPECT_EQ(core.View(third).reason.code, "JobArrayTaskLimit");
  // It blocks nobody: there is room for others.
  const JobId other = core.Submitted(GpuJob(1, 1));
  EXPECT_EQ(core.View(other).state, JobState::kStarting);
  Finish(core, array.first, 0);
  EXPECT_EQ(core.View(third).state, JobState::kStarting);
  EXPECT_EQ(core.View(JobId{third.value + 1}).reason.code, "JobArrayTaskLimit");
}

TEST(Array, StaysTogetherAfterARestart) {
  TestCore core;
  const reply::Submitted array = SubmitArray(core, ArrayJob("0-2"));
  core.Restart();
  ASSERT_TRUE(core.state.arrays.contains(array.job));
  EXPECT_EQ(core.state.arrays.at(array.job).size(), 3u);
  const JobId next = core.Submitted(GpuJob(1, 1));
  EXPECT_EQ(next.value, array.job.value + 4);
}

TEST(Array, IsTakenBackAsAWholeWhenTheStoreRefusesIt) {
  TestCore core;
  core.answer_plans = false;
  core.Submit(ArrayJob("0-2"));
  const auto wanted = std::get<effect::PlanWanted>(core.effects.at(0));
  const Decision decision = Decide(core.state, core.Answered(wanted), core.now);
  ASSERT_EQ(core.state.jobs.size(), 3u);
  Undo(core.state, decision);
  EXPECT_TRUE(core.state.jobs.empty());
  EXPECT_TRUE(core.state.arrays.empty());
  EXPECT_TRUE(CheckInvariants(core.state).empty());
}

TEST(Array, RefusesACheckpointDirectoryForTwo) {
  TestCore core;
  JobSpec spec = ArrayJob("1-2");
  spec.checkpoint.dir = "/ckpt";
  const auto refused = core.Answer<reply::Submitted>(core.Submit(spec));
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("/ckpt"), std::string::npos);
  spec.checkpoint.dir = "/ckpt/$LAUNCH_ARRAY_INDEX";
  EXPECT_EQ(SubmitArray(core, spec).elements, 2u);
}

TEST(Dependency, WaitsForTheSuccessOfAnother) {
  TestCore core;
  core.Attach("gpu1", 2);
  const JobId first = core.Submitted(GpuJob(1, 1));
  const JobId second = core.Submitted(After(std::to_string(first.value)));
  EXPECT_EQ(core.View(second).reason.code, "Dependency");
  EXPECT_EQ(core.View(second).reason.evidence, "afterok:1: job 1 is STARTING");
  // It blocks nobody.
  EXPECT_EQ(core.View(core.Submitted(GpuJob(1, 1))).state, JobState::kStarting);
  Finish(core, first, 0);
  EXPECT_EQ(core.View(second).state, JobState::kStarting);
}

TEST(Dependency, OnAJobThatFailedEndsTheOneThatWaits) {
  TestCore core;
  core.Attach("gpu1", 1);
  const JobId first = core.Submitted(GpuJob(1, 1));
  const JobId ok = core.Submitted(After("afterok:1"));
  const JobId chained = core.Submitted(After("afterok:" + std::to_string(ok.value)));
  const JobId any = core.Submitted(After("afterany:1"));
  const JobId not_ok = core.Submitted(After("afternotok:1"));
  Finish(core, first, 7);
  for (const JobId job : {ok, chained}) {
    const JobView view = core.View(job);
    EXPECT_EQ(view.state, JobState::kFailed);
    EXPECT_EQ(view.sub_reason, "DEPENDENCY");
    EXPECT_TRUE(view.attempts.empty());
  }
  EXPECT_EQ(core.View(ok).outcome, "afterok:1 can never be met: job 1 is FAILED");
  EXPECT_EQ(core.View(any).state, JobState::kStarting);
  EXPECT_EQ(core.View(not_ok).reason.code, "Resources");
}

TEST(Dependency, OfSuccessNeverMetByASuccess) {
  TestCore core;
  core.Attach("gpu1", 1);
  const JobId first = core.Submitted(GpuJob(1, 1));
  const JobId not_ok = core.Submitted(After("afternotok:1"));
  Finish(core, first, 0);
  EXPECT_EQ(core.View(not_ok).state, JobState::kFailed);
  EXPECT_EQ(core.View(not_ok).sub_reason, "DEPENDENCY");
}

TEST(Dependency, AfterMeansOnceItRuns) {
  TestCore core;
  core.Attach("gpu1", 2);
  const JobId first = core.Submitted(GpuJob(1, 1));
  const JobId second = core.Submitted(After("after:1"));
  EXPECT_EQ(core.View(second).reason.code, "Dependency");
  core.Run(first);
  EXPECT_EQ(core.View(second).state, JobState::kStarting);
}

TEST(Dependency, OnAnArrayIsOnAllItsElements) {
  TestCore core;
  core.Attach("gpu1", 2);
  const reply::Submitted array = SubmitArray(core, ArrayJob("0-1"));
  const JobId all = core.Submitted(After("afterok:" + std::to_string(array.job.value)));
  JobSpec pairs = ArrayJob("0-1");
  pairs.depends_on = *ParseDependencies("aftercorr:" + std::to_string(array.job.value));
  const reply::Submitted same = SubmitArray(core, pairs);
  Finish(core, array.first, 0);
  EXPECT_EQ(core.View(all).reason.code, "Dependency");
  EXPECT_EQ(core.View(same.first).state, JobState::kStarting);
  EXPECT_EQ(core.View(JobId{same.first.value + 1}).reason.code, "Dependency");
}

TEST(Dependency, SingletonIsOneOfANameAtATime) {
  TestCore core;
  core.Attach("gpu1", 4);
  const JobId first = core.Submitted(GpuJob(1, 1));
  const JobId second = core.Submitted(After("singleton"));
  const JobId third = core.Submitted(After("singleton"));
  EXPECT_EQ(core.View(second).reason.code, "Dependency");
  Finish(core, first, 3);
  EXPECT_EQ(core.View(second).state, JobState::kStarting);
  EXPECT_EQ(core.View(third).reason.code, "Dependency");
}

TEST(Dependency, ThatCanNeverBeMetIsRefused) {
  TestCore core;
  core.Attach("gpu1", 1);
  const JobId failed = core.Submitted(GpuJob(1, 1));
  const reply::Submitted kept = SubmitArray(core, After("afterok:1"), "kept");
  Finish(core, failed, 7);
  const JobId succeeded = core.Submitted(GpuJob(1, 1));
  Finish(core, succeeded, 0);
  const std::string good = std::to_string(succeeded.value);
  for (const std::string& text :
       {std::string("afterok:1"), std::string("aftercorr:1"), "afternotok:" + good}) {
    const auto refused = core.Answer<reply::Submitted>(core.Submit(After(text)));
    ASSERT_FALSE(refused.has_value()) << text;
    EXPECT_EQ(refused.error().code, ErrorCode::kCannotFit);
    EXPECT_NE(refused.error().message.find(text + " can never be met: job "), std::string::npos)
        << refused.error().message;
    EXPECT_TRUE(refused.error().hint.starts_with("afterany:")) << refused.error().hint;
  }
  for (const std::string& text : {std::string("afternotok:1"), std::string("afterany:1"),
                                  std::string("after:1"), "afterok:" + good}) {
    EXPECT_TRUE(core.Answer<reply::Submitted>(core.Submit(After(text))).has_value()) << text;
  }
  EXPECT_EQ(SubmitArray(core, After("afterok:1"), "kept").job, kept.job) << "taken before";
}

TEST(Dependency, OfAnArrayIsMetByTheOtherElements) {
  TestCore core;
  core.Attach("gpu1", 1);
  const reply::Submitted array = SubmitArray(core, ArrayJob("0-1"), "k");
  Finish(core, array.first, 7);
  JobSpec pairs = ArrayJob("0-1");
  pairs.depends_on = *ParseDependencies("aftercorr:" + std::to_string(array.job.value));
  EXPECT_TRUE(core.Answer<reply::Submitted>(core.Submit(pairs)).has_value());
}

TEST(Dependency, OnAnUnknownJobIsRefused) {
  TestCore core;
  const auto refused = core.Answer<reply::Submitted>(core.Submit(After("afterok:99")));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("99"), std::string::npos);
}

TEST(Begin, StartsWhenTheWallClockSaysSo) {
  TestCore core;
  core.Attach("gpu1", 1);
  JobSpec spec = GpuJob(1, 1);
  spec.begin = core.now.wall + Millis{3'600'000};
  const JobId job = core.Submitted(spec);
  EXPECT_EQ(core.View(job).reason, WaitForBegin(*spec.begin, core.now.wall));
  EXPECT_TRUE(core.View(job).reason.evidence.ends_with(", in 1h"));
  EXPECT_EQ(core.View(core.Submitted(GpuJob(1, 1))).state, JobState::kStarting);
  core.Cancel(JobId{job.value + 1});
  core.Release("gpu1", Key{JobId{job.value + 1}, Attempt{1}});
  ASSERT_TRUE(NextDeadline(core.state).has_value());
  // Looked at before the hour is over, for the wall clock may have been set meanwhile.
  core.Pass(Millis{600'000});
  core.Beat("gpu1");
  EXPECT_EQ(core.View(job).reason.code, "BeginTime");
  core.now.wall += Millis{3'000'000};  // somebody set the clock
  core.Pass(Millis{600'000});
  core.Beat("gpu1");
  EXPECT_EQ(core.View(job).state, JobState::kStarting);
}

TEST(Begin, IsTheReasonBehindAJobThatBlocks) {
  TestCore core;
  core.Attach("gpu1", 1);
  core.Submitted(GpuJob(1, 1));
  core.Submitted(GpuJob(1, 1));  // blocks those behind it
  JobSpec spec = GpuJob(1, 1);
  spec.begin = core.now.wall + Millis{3'600'000};
  EXPECT_EQ(core.View(core.Submitted(spec)).reason, WaitForBegin(*spec.begin, core.now.wall));
}

TEST(Begin, HoldsAfterARestart) {
  TestCore core;
  JobSpec spec = GpuJob(1, 1);
  spec.begin = core.now.wall + Millis{60'000};
  const JobId job = core.Submitted(spec);
  core.Restart();
  core.Attach("gpu1", 1);
  EXPECT_EQ(core.View(job).reason.code, "BeginTime");
  core.Pass(Millis{60'000});
  core.Beat("gpu1");
  EXPECT_EQ(core.View(job).state, JobState::kStarting);
}

TEST(Begin, ARefusedUpdateDoesNotForgetIt) {
  TestCore core;
  core.Attach("gpu1", 1);
  JobSpec spec = GpuJob(1, 1);
  spec.begin = core.now.wall + Millis{60'000};
  const JobId job = core.Submitted(spec);
  JobChange change = Action(JobAction::kUpdate);
  change.begin = core.now.wall + Millis{120'000};
  change.nodes = NodeCount{99, 99, false};
  ASSERT_TRUE(Change(core, job, change).error.has_value());
  const auto wakes = NextDeadline(core.state);
  ASSERT_TRUE(wakes.has_value());
  EXPECT_LE(*wakes, core.now.boot + Millis{60'000});
  core.Pass(Millis{61'000});
  core.Beat("gpu1");
  EXPECT_EQ(core.View(job).state, JobState::kStarting);
}

TEST(Begin, AnEarlierOneKeepsTheBackoffOfARetry) {
  TestCore core;
  core.Attach("gpu1", 1);
  JobSpec spec = GpuJob(1, 1);
  spec.retry.max = 1;
  spec.retry.recover_on_exit_codes = {33};
  spec.retry.backoff = Millis{60'000};
  const JobId job = core.Submitted(spec);
  Finish(core, job, 33);
  ASSERT_EQ(core.View(job).reason.code, "BeginTime");
  JobChange change = Action(JobAction::kUpdate);
  change.begin = core.now.wall + Millis{5'000};
  ASSERT_FALSE(Change(core, job, change).error);
  core.Pass(Millis{10'000});
  core.Beat("gpu1");
  EXPECT_EQ(core.View(job).reason.code, "BeginTime") << "the retry waits its minute";
  core.Pass(Millis{51'000});
  core.Beat("gpu1");
  EXPECT_EQ(core.View(job).state, JobState::kStarting);
}

TEST(Priority, GoesBeforeTheOrderOfSubmission) {
  TestCore core;
  core.Attach("gpu1", 1);
  const JobId running = core.Submitted(GpuJob(1, 1));
  const JobId low = core.Submitted(GpuJob(1, 1));
  JobSpec urgent = GpuJob(1, 1);
  urgent.priority = 70;
  const JobId high = core.Submitted(urgent);
  EXPECT_EQ(core.View(low).reason.evidence, "behind " + std::to_string(high.value));
  Finish(core, running, 0);
  EXPECT_EQ(core.View(high).state, JobState::kStarting);
  EXPECT_EQ(core.View(low).reason.code, "Resources");
}

TEST(Hold, KeepsAJobFromStartingUntilItIsReleased) {
  TestCore core;
  const JobId job = core.Submitted(GpuJob(1, 1));
  EXPECT_EQ(Change(core, job, Action(JobAction::kHold)).says, "held");
  core.Attach("gpu1", 1);
  EXPECT_EQ(core.View(job).reason, (WaitReason{"JobHeldUser", "held by ana"}));
  EXPECT_EQ(Change(core, job, Action(JobAction::kRelease)).says, "released");
  EXPECT_EQ(core.View(job).state, JobState::kStarting);
  const reply::ChangeResult late = Change(core, job, Action(JobAction::kHold));
  ASSERT_TRUE(late.error.has_value());
  EXPECT_NE(late.error->hint.find("requeue --hold"), std::string::npos);
}

TEST(Hold, ThrowsAwayAPlanThatIsBeingMade) {
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
  Change(core, JobId{1}, Action(JobAction::kHold));
  EXPECT_TRUE(core.state.live.holds.empty());
  core.Post(core.Answered(placed));
  EXPECT_EQ(core.View(JobId{1}).reason.code, "JobHeldUser");
  EXPECT_TRUE(core.state.attempts.empty());
}

TEST(Change, IsTheOwnersOrAnOperators) {
  TestCore core;
  const JobId job = core.Submitted(GpuJob(1, 1));
  const reply::ChangeResult refused = Change(core, job, Action(JobAction::kHold), "bob");
  ASSERT_TRUE(refused.error.has_value());
  EXPECT_EQ(refused.error->code, ErrorCode::kPermissionDenied);
  EXPECT_FALSE(core.state.jobs.at(job).held);
}

TEST(Requeue, StopsAnAttemptAndMakesANewOne) {
  TestCore core;
  core.Attach("gpu1", 1);
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  Change(core, job, Action(JobAction::kRequeue));
  EXPECT_EQ(core.View(job).state, JobState::kStopping);
  EXPECT_TRUE(core.WasTold<to_node::Stop>("gpu1"));
  core.Exit("gpu1", key, 0, Signalled{15});
  core.Ignore();
  core.Release("gpu1", key);
  EXPECT_EQ(core.View(job).state, JobState::kStarting);
  EXPECT_EQ(core.View(job).attempts.at(0).outcome, "preempted");
  EXPECT_EQ(core.View(job).attempts.at(0).cause, "requeued by ana");
  EXPECT_EQ(core.View(job).attempts.size(), 2u);
  EXPECT_TRUE(core.state.jobs.at(job).retries.empty()) << "it counts for no limit";
}

TEST(Requeue, CanHoldTheJob) {
  TestCore core;
  core.Attach("gpu1", 1);
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  Change(core, job, Action(JobAction::kRequeue, true));
  core.Exit("gpu1", key, 0, Signalled{15});
  core.Release("gpu1", key);
  EXPECT_EQ(core.View(job).state, JobState::kRequeued);
  EXPECT_EQ(core.View(job).reason.code, "JobHeldUser");
  Change(core, job, Action(JobAction::kRelease));
  EXPECT_EQ(core.View(job).state, JobState::kStarting);
}

TEST(Requeue, OfOneThatStartsNeedsNoRank) {
  TestCore core;
  core.Attach("gpu1", 1);
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key{job, Attempt{1}};
  core.Accept("gpu1", key);
  core.Ignore();
  Change(core, job, Action(JobAction::kRequeue));
  EXPECT_TRUE(core.WasTold<to_node::Stop>("gpu1"));
  core.Release("gpu1", key);
  EXPECT_EQ(core.View(job).attempts.size(), 2u);
}

TEST(Requeue, RunsAJobAgainThatIsDone) {
  TestCore core;
  core.Attach("gpu1", 1);
  const JobId job = core.Submitted(GpuJob(1, 1));
  Finish(core, job, 5);
  EXPECT_EQ(core.View(job).state, JobState::kFailed);
  EXPECT_EQ(Change(core, job, Action(JobAction::kRequeue)).says, "queued again");
  EXPECT_EQ(core.View(job).state, JobState::kStarting);
  EXPECT_EQ(core.View(job).exit_code, std::nullopt);
  Finish(core, job, 0);
  EXPECT_EQ(core.View(job).state, JobState::kSucceeded);
}

TEST(Requeue, OfACopiedDirectoryIsRefusedOnceTheCopyIsGone) {
  TestCore core;
  core.Attach("gpu1", 1);
  core.context.snapshot = std::string(64, 'a');
  JobSpec spec = GpuJob(1, 1);
  spec.snapshot = true;
  const JobId job = core.Submitted(spec);
  Finish(core, job, 5);
  core.now.wall = core.now.wall + Millis{23 * 3'600'000};
  EXPECT_EQ(Change(core, job, Action(JobAction::kRequeue)).says, "queued again");
  Finish(core, job, 5);
  core.now.wall = core.now.wall + Millis{25 * 3'600'000};
  const reply::ChangeResult late = Change(core, job, Action(JobAction::kRequeue));
  ASSERT_TRUE(late.error.has_value());
  EXPECT_NE(late.error->hint.find("submit it again"), std::string::npos);
}

TEST(Requeue, ACancelWins) {
  TestCore core;
  core.Attach("gpu1", 1);
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  Change(core, job, Action(JobAction::kRequeue));
  core.Cancel(job);
  core.Exit("gpu1", key, 0, Signalled{15});
  core.Release("gpu1", key);
  EXPECT_EQ(core.View(job).state, JobState::kCancelled);
}

TEST(Update, ChangesPriorityAndTheTimeLeft) {
  TestCore core;
  core.Attach("gpu1", 1);
  JobSpec limited = GpuJob(1, 1);
  limited.time_limit = Millis{60'000};
  const JobId running = core.Submitted(limited);
  const JobId first = core.Submitted(GpuJob(1, 1));
  const JobId second = core.Submitted(GpuJob(1, 1));
  core.Run(running);
  JobChange change = Action(JobAction::kUpdate);
  change.priority = 90;
  Change(core, second, change);
  EXPECT_EQ(core.View(first).reason.evidence, "behind " + std::to_string(second.value));
  JobChange longer = Action(JobAction::kUpdate);
  longer.time_limit = Millis{120'000};
  Change(core, running, longer);
  core.Pass(Millis{100'000});
  EXPECT_NE(core.View(running).state, JobState::kStopping);
  core.Pass(Millis{20'000});
  EXPECT_EQ(core.View(running).attempts.at(0).phase, "stopping");
}

TEST(Update, RefusesWhatNoNodeCouldEverRun) {
  TestCore core;
  core.Attach("gpu1", 1);
  core.Submitted(GpuJob(1, 1));
  const JobId waits = core.Submitted(GpuJob(1, 1));
  JobChange change = Action(JobAction::kUpdate);
  change.nodes = NodeCount{3, 3, false};
  const reply::ChangeResult refused = Change(core, waits, change);
  ASSERT_TRUE(refused.error.has_value());
  EXPECT_EQ(refused.error->code, ErrorCode::kCannotFit);
  EXPECT_EQ(core.View(waits).spec->nodes.min, 1);
}

std::vector<effect::PlanWanted> PlansWanted(TestCore& core) {
  std::vector<effect::PlanWanted> plans;
  for (const Effect& effect : core.effects) {
    if (const auto* plan = std::get_if<effect::PlanWanted>(&effect)) plans.push_back(*plan);
  }
  core.Ignore();
  return plans;
}

// All other calls would wait for the decision that places thousands.
TEST(Array, IsPlacedByAndByAsItsPlansAreMade) {
  TestCore core;
  core.Attach("gpu1", 8);
  core.state.live.limits.planned_at_once = 4;
  core.Ignore();
  core.answer_plans = false;
  core.Submit(ArrayJob("0-7"));
  core.Post(core.Answered(PlansWanted(core).at(0)));
  const std::vector<effect::PlanWanted> plans = PlansWanted(core);
  ASSERT_EQ(plans.size(), 4u);
  const JobId fifth{plans[0].placed->key.job.value + 4};
  EXPECT_EQ(core.View(fifth).reason,
            (WaitReason{"Priority", "its turn comes when the plans of 4 jobs before it are made"}));
  EXPECT_EQ(core.View(JobId{fifth.value + 1}).reason,
            (WaitReason{"Priority", "behind " + std::to_string(fifth.value)}));
  core.Post(core.Answered(plans[0]));
  EXPECT_TRUE(PlansWanted(core).empty()) << "the queue is not walked for each of thousands";
  core.Post(core.Answered(plans[1]));
  const std::vector<effect::PlanWanted> next = PlansWanted(core);
  ASSERT_EQ(next.size(), 2u);
  EXPECT_EQ(next[0].placed->key.job, fifth);
}

TEST(Array, IsPlacedAsAWholeOrByAndByInTheSameWay) {
  TestCore whole;
  TestCore parts;
  parts.state.live.limits.planned_at_once = 1;
  for (TestCore* core : {&whole, &parts}) {
    core->Attach("gpu1", 4);
    core->Attach("gpu2", 4);
    core->Submit(ArrayJob("0-9"));  // and nothing else happens but the answers to its plans
  }
  ASSERT_EQ(whole.state.active.size(), 8u);
  EXPECT_EQ(parts.state.active, whole.state.active);
  for (const auto& [key, allocs] : whole.state.allocs) {
    for (const auto& [node, alloc] : allocs) {
      const AllocRecord* same = FindAlloc(parts.state, key, node);
      ASSERT_NE(same, nullptr) << ToString(key) << " is not on " << node.value;
      EXPECT_EQ(same->gpus, alloc.gpus);
    }
  }
  EXPECT_EQ(parts.state.live.reasons, whole.state.live.reasons);
}

// The places of plans that failed are free for those that wait for their turn.
TEST(Array, GoesOnBehindPlansThatCannotBeMade) {
  TestCore core;
  core.Attach("gpu1", 8);
  core.state.live.limits.planned_at_once = 4;
  core.Ignore();
  core.answer_plans = false;
  core.Submit(ArrayJob("0-7"));
  core.Post(core.Answered(PlansWanted(core).at(0)));
  const std::vector<effect::PlanWanted> plans = PlansWanted(core);
  core.placed_error = Error{ErrorCode::kInternal, "no plan", "", {}};
  core.Post(core.Answered(plans.at(0)));
  EXPECT_EQ(PlansWanted(core).size(), 1u);
}

}  // namespace
}  // namespace launch::controller
