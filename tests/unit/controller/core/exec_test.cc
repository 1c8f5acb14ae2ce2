#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

struct Exec : testing::Test {
  Exec() {
    core.Attach("gpu1", 1);
    core.Attach("gpu2", 1);
    core.Ignore();
  }
  RequestId Ask(JobId job, Rank rank, Caller caller = {UserName{"ana"}, false}) {
    const RequestId request{++last};
    core.Post(event::OpenExec{request, caller, job, rank, std::string(32, 'a'), "\"nvidia-smi\""});
    return request;
  }
  TestCore core;
  std::uint64_t last = 9'000;
};

TEST_F(Exec, TellsTheNodeOfTheRankAfterTheAnswerAndWritesDownWho) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key = core.Run(job);
  core.Ignore();
  const RequestId request = Ask(job, 1);
  ASSERT_EQ(core.effects.size(), 2u);
  EXPECT_TRUE(std::holds_alternative<effect::Reply>(core.effects[0]))
      << "the stream of the node must find that it is expected";
  const auto opened = core.Answer<reply::ExecOpened>(request);
  ASSERT_TRUE(opened);
  const std::string node = opened->node.value;
  EXPECT_EQ(core.state.allocs.at(key).at(opened->node).ranks, std::vector<Rank>{1});
  EXPECT_EQ(core.Told<to_node::OpenExec>(node), (to_node::OpenExec{key, 1, std::string(32, 'a')}));
  core.NothingElse();
  const EventRow& row = core.rows.back();
  EXPECT_EQ(row.kind, "exec.opened");
  EXPECT_EQ(row.subject, "attempt/" + ToString(key));
  EXPECT_EQ(row.text, "by ana, beside rank 1 on " + node + ": \"nvidia-smi\"");
}

TEST_F(Exec, IsRefusedWhileNothingRuns) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  core.Ignore();
  const auto early = core.Answer<reply::ExecOpened>(Ask(job, 0));
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(early.error().message, "job 1 is not running");
  core.Cancel(job);
  core.Ignore();
  EXPECT_FALSE(core.Answer<reply::ExecOpened>(Ask(job, 0))) << "done";
  EXPECT_FALSE(core.HasEvent("exec.opened"));
}

TEST_F(Exec, NamesTheRanksThereAre) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  core.Run(job);
  core.Ignore();
  const auto beyond = core.Answer<reply::ExecOpened>(Ask(job, 2));
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().message, "job 1 has ranks 0 to 1");
}

TEST_F(Exec, IsRefusedForARankThatEndedAndOnANodeThatIsSilent) {
  const JobId job = core.Submitted(GpuJob(2, 1));
  const Key key = core.Run(job);
  core.Ignore();
  const auto first = core.Answer<reply::ExecOpened>(Ask(job, 0));
  ASSERT_TRUE(first);
  const auto second = core.Answer<reply::ExecOpened>(Ask(job, 1));
  ASSERT_TRUE(second);
  core.Exit(first->node.value, key, 0, Exited{0});
  const auto ended = core.Answer<reply::ExecOpened>(Ask(job, 0));
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().message, "rank 0 of job 1 has ended");
  core.Detach(second->node.value);
  const auto silent = core.Answer<reply::ExecOpened>(Ask(job, 1));
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().code, ErrorCode::kUnavailable);
}

TEST_F(Exec, AnothersJobIsLikeNone) {
  const JobId job = core.Submitted(GpuJob(1, 1));
  core.Run(job);
  core.Ignore();
  const auto other = core.Answer<reply::ExecOpened>(Ask(job, 0, {UserName{"bob"}, false}));
  const auto none = core.Answer<reply::ExecOpened>(Ask(JobId{99}, 0));
  ASSERT_FALSE(other || none);
  EXPECT_EQ(other.error().code, none.error().code);
  EXPECT_EQ(other.error().message, "there is no job 1");
  EXPECT_TRUE(core.Answer<reply::ExecOpened>(Ask(job, 0, {UserName{"root"}, true})));
}

}  // namespace
}  // namespace launch::controller
