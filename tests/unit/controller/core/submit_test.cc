#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

TEST(Submit, MakesOneJobOfOneKey) {
  TestCore core;
  core.Attach("gpu1", 1);
  const auto first = core.Answer<reply::Submitted>(core.Submit(GpuJob(1, 1), false, "k"));
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(first->known);
  const auto again = core.Answer<reply::Submitted>(core.Submit(GpuJob(1, 1), false, "k"));
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(again->known);
  EXPECT_EQ(again->job, first->job);
  EXPECT_EQ(core.state.jobs.size(), 1u);
}

TEST(Submit, MakesOneJobOfTwoRequestsThatWaitForTheirPlanTogether) {
  TestCore core;
  core.Attach("gpu1", 1);
  core.Ignore();
  core.answer_plans = false;
  const RequestId first = core.Submit(GpuJob(1, 1), false, "k");
  const RequestId second = core.Submit(GpuJob(1, 1), false, "k");
  const auto effects = core.effects;
  EXPECT_EQ(std::get<effect::PlanWanted>(effects.at(0)).request, first);
  EXPECT_EQ(std::get<effect::PlanWanted>(effects.at(1)).request, second);
  core.answer_plans = true;
  core.Ignore();
  for (const Effect& effect : effects) {
    core.Post(core.Answered(std::get<effect::PlanWanted>(effect)));
  }
  const auto one = core.Answer<reply::Submitted>(first);
  const auto other = core.Answer<reply::Submitted>(second);
  EXPECT_EQ(one->job, other->job);
  EXPECT_TRUE(other->known);
}

TEST(Submit, RefusesAKnownKeyWithOtherContent) {
  TestCore core;
  core.Attach("gpu1", 1);
  core.Submit(GpuJob(1, 1), false, "k");
  JobSpec other = GpuJob(1, 1);
  other.name = "other";
  const auto answer = core.Answer<reply::Submitted>(core.Submit(other, false, "k"));
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kAlreadyExists);
}

TEST(Submit, RefusesAJobThatNoKnownNodeCouldEverRun) {
  TestCore core;
  core.Attach("gpu1", 1);
  const auto answer = core.Answer<reply::Submitted>(core.Submit(GpuJob(1, 8)));
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, ErrorCode::kCannotFit);
  EXPECT_NE(answer.error().hint.find("gpu1"), std::string::npos);
  EXPECT_TRUE(core.state.jobs.empty());
}

TEST(Submit, RefusesALeaseThatIsTooShortForItsStop) {
  TestCore core;
  core.Attach("gpu1", 1);
  JobSpec spec = GpuJob(1, 1);
  spec.stop_duration = Millis{300'000};
  spec.requeue_after = Millis{600'000};
  const auto refused = core.Answer<reply::Submitted>(core.Submit(spec));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("requeue_after"), std::string::npos);
  spec.stop_duration = Millis{299'000};
  EXPECT_TRUE(core.Answer<reply::Submitted>(core.Submit(spec)).has_value());
}

TEST(Submit, QueuesWhileNoNodeIsKnown) {
  TestCore core;
  const auto answer = core.Answer<reply::Submitted>(core.Submit(GpuJob(1, 1)));
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->state, JobState::kPending);
  ASSERT_TRUE(answer->answer.waits.has_value());
  EXPECT_EQ(answer->answer.waits->code, "ReqNodeNotAvail");
  core.Attach("gpu1", 1);
  EXPECT_EQ(core.View(answer->job).state, JobState::kStarting);
}

TEST(Submit, QueuesWhenOnlyADrainedNodeWouldFit) {
  TestCore core;
  core.Attach("gpu1", 1);
  core.Post(event::Drain{RequestId{900}, {UserName{"op"}, true}, NodeId{"gpu1"}, false, "fan"});
  const JobId job = core.Submitted(GpuJob(1, 1));
  EXPECT_EQ(core.View(job).reason.code, "ReqNodeNotAvail");
  core.Post(event::Drain{RequestId{901}, {UserName{"op"}, true}, NodeId{"gpu1"}, true, ""});
  EXPECT_EQ(core.View(job).state, JobState::kStarting);
}

from_node::Hello RunsAs(const std::string& account) {
  from_node::Hello hello;
  hello.account = UserName{account};
  return hello;
}

TEST(Submit, RefusesAJobThatOnlyAgentsOfOtherAccountsCouldRun) {
  TestCore core;
  core.Attach(MakeInventory("gpu1", 1), RunsAs("eve"));
  const auto refused = core.Answer<reply::Submitted>(core.Submit(GpuJob(1, 1)));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kCannotFit);
  EXPECT_EQ(refused.error().hint,
            "closest is gpu1: runs jobs of account eve only, and the owner is ana");
  // An operator's job would run as eve too: no exception.
  event::Submit submit;
  submit.request = RequestId{700};
  submit.caller = {UserName{"root"}, true};
  submit.idempotency_key = "op";
  submit.spec = GpuJob(1, 1);
  core.Post(submit);
  EXPECT_FALSE(core.Answer<reply::Submitted>(RequestId{700}).has_value());
  EXPECT_EQ(core.Node("gpu1").account, UserName{"eve"});
}

TEST(Submit, PlacesAJobOnTheAgentsOfItsOwnersAccountOnly) {
  TestCore core;
  core.Attach(MakeInventory("gpu1", 1), RunsAs("eve"));
  core.Attach(MakeInventory("gpu2", 1), RunsAs("ana"));
  const JobId job = core.Submitted(GpuJob(1, 1));
  EXPECT_EQ(core.View(job).nodelist, std::vector<NodeId>{NodeId{"gpu2"}});
  // The next one waits for gpu2, although gpu1 is free.
  EXPECT_EQ(core.View(core.Submitted(GpuJob(1, 1))).reason.code, "Resources");
  const auto gang = core.Answer<reply::Submitted>(core.Submit(GpuJob(2, 1)));
  ASSERT_FALSE(gang.has_value());
  EXPECT_EQ(gang.error().code, ErrorCode::kCannotFit);
}

TEST(Submit, HoldsAQueuedJobBackFromAnAgentThatCameBackUnderAnotherAccount) {
  TestCore core;
  core.Attach(MakeInventory("gpu1", 1), RunsAs("ana"));
  const JobId first = core.Submitted(GpuJob(1, 1));
  const JobId waiting = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(first);
  core.Attach(MakeInventory("gpu1", 1), RunsAs("eve"));
  core.Exit("gpu1", key, 0, Exited{0});
  core.Release("gpu1", key);
  EXPECT_EQ(core.View(waiting).state, JobState::kPending);
  EXPECT_EQ(
      core.View(waiting).reason.evidence,
      "needs 1 GPU per node; closest is gpu1: runs jobs of account eve only, and the owner is "
      "ana");
  core.Restart();
  EXPECT_EQ(core.Node("gpu1").account, UserName{"eve"});
}

TEST(Submit, RefusesWhatPreflightForbidsUnlessForced) {
  TestCore core;
  core.Attach("gpu1", 1);
  core.plan_findings = {{"torch_cpu_only", Severity::kError, NodeId{"gpu1"},
                         "torch 2.13.0+cpu cannot see GPUs", "", "install the cu128 wheel"}};
  const auto refused = core.Answer<reply::Submitted>(core.Submit(GpuJob(1, 1)));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kPreflightFailed);
  EXPECT_EQ(refused.error().hint, "install the cu128 wheel");
  EXPECT_EQ(core.findings.size(), 1u);
  EXPECT_TRUE(core.state.jobs.empty());
  const auto forced = core.Answer<reply::Submitted>(core.Submit(GpuJob(1, 1), true));
  ASSERT_TRUE(forced.has_value());
  EXPECT_TRUE(core.state.jobs.at(forced->job).forced);
  EXPECT_EQ(core.View(forced->job).state, JobState::kStarting);
}

TEST(Submit, APlanQueryLeavesNothingBehind) {
  TestCore core;
  core.Attach("gpu1", 1);
  core.Ignore();
  core.rows.clear();
  event::PlanQuery query;
  query.request = RequestId{77};
  query.spec = GpuJob(1, 1);
  core.Post(query);
  const auto answer = core.Answer<PlanAnswer>(RequestId{77});
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->plan.has_value());
  EXPECT_FALSE(answer->waits.has_value());
  EXPECT_TRUE(core.state.jobs.empty());
  EXPECT_TRUE(core.rows.empty());
  core.NothingElse();
}

TEST(Submit, GivesSecretsToTheNodeAndDeletesThemAtTheEnd) {
  TestCore core;
  core.Attach("gpu1", 1);
  core.Ignore();
  event::Submit submit;
  submit.request = RequestId{5};
  submit.caller.user = UserName{"ana"};
  submit.idempotency_key = "s";
  submit.spec = GpuJob(1, 1);
  submit.secrets = {{"HF_TOKEN", "sealed"}};
  core.Post(submit);
  const auto prepare = core.Told<to_node::Prepare>("gpu1");
  ASSERT_EQ(prepare.secrets.size(), 1u);
  EXPECT_EQ(prepare.secrets[0].first, "HF_TOKEN");
  core.Cancel(JobId{1});
  EXPECT_TRUE(core.state.secrets.empty());
}

TEST(Undo, RestoresWhatARefusedBatchHadChanged) {
  TestCore core;
  core.Attach("gpu1", 1);
  const JobId job = core.Submitted(GpuJob(1, 1));
  const Key key = core.Run(job);
  ExitReport report;
  report.key = key;
  report.cause = Exited{1};
  const auto attempt = core.state.attempts.at(key);
  const auto record = core.state.jobs.at(job);
  const Decision decision =
      Decide(core.state,
             event::NodeSaid{core.session["gpu1"], NodeId{"gpu1"}, from_node::RankExited{report}},
             core.now);
  ASSERT_NE(core.state.attempts.at(key), attempt);
  Undo(core.state, decision);
  EXPECT_EQ(core.state.attempts.at(key), attempt);
  EXPECT_EQ(core.state.jobs.at(job), record);
  EXPECT_FALSE(core.state.ranks.at(key).at(0).exit.has_value());
  EXPECT_TRUE(CheckInvariants(core.state).empty());
  // Said again, it has the same consequences as if nothing had happened.
  core.Exit("gpu1", key, 0, Exited{1});
  EXPECT_EQ(core.Phase(key), AttemptPhase::kStopping);
  EXPECT_TRUE(core.WasTold<to_node::Stop>("gpu1"));
}

}  // namespace
}  // namespace launch::controller
