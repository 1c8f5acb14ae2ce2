#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

struct Exec : testing::Test {
  Exec() {
    core.Attach("gpu1", 1);
    core.Attach("gpu2", 1);
    core.Ignore();
  }
  RequestId Ask(JobId job, Rank rank, Caller caller = {UserName{"ana"}, false},
                std::optional<std::string> archive = {}) {
    const RequestId request{++last};
    core.Post(event::OpenExec{request, caller, job, rank, std::string(32, 'a'), "\"nvidia-smi\"",
                              archive});
    return request;
  }
  Result<reply::ExecOpened> Read(JobId job, Rank rank, const std::string& user = "ana") {
    return core.Answer<reply::ExecOpened>(Ask(job, rank, {UserName{user}, false}, "\"out\""));
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

TEST_F(Exec, ReadsTheCopyOfARankThatRunsNoMore) {
  core.context.snapshot = std::string(64, 'b');
  JobSpec spec = GpuJob(2, 1);
  spec.workdir = "/proj";
  spec.snapshot = true;
  const JobId job = core.Submitted(spec);
  EXPECT_EQ(Read(job, 0).error().message, "job 1 has not run, so it left nothing");
  const Key key{job, Attempt{1}};
  StagingFacts facts;
  facts.from_snapshot = true;
  facts.reach = {{"127.0.0.1", true, "lo", ""}, {"10.0.0.1", true, "eth0", ""}};
  for (const char* node : {"gpu1", "gpu2"}) core.Accept(node, key);
  for (const char* node : {"gpu1", "gpu2"}) core.Ready(node, key, facts);
  for (const char* node : {"gpu1", "gpu2"}) core.Start(node, key);
  ASSERT_EQ(core.Phase(key), AttemptPhase::kRunning);
  core.Ignore();

  const auto beside = Read(job, 1);
  ASSERT_TRUE(beside);
  const std::string node = beside->node.value;
  EXPECT_FALSE(core.Told<to_node::OpenExec>(node).copy) << "it runs: a command beside it";
  core.Exit(node, key, 1, Exited{0});
  core.Ignore();
  ASSERT_TRUE(Read(job, 1)) << "the others go on";
  const JobCopy copy{
      .user = "ana", .root = core.context.snapshot, .workdir = "/proj", .used = true};
  EXPECT_EQ(core.Told<to_node::OpenExec>(node),
            (to_node::OpenExec{key, 1, std::string(32, 'a'), copy}));
  EXPECT_FALSE(core.Answer<reply::ExecOpened>(Ask(job, 1))) << "commands still need the rank";

  core.Cancel(job);
  for (const char* each : {"gpu1", "gpu2"}) core.Release(each, key);
  ASSERT_TRUE(IsTerminal(core.View(job).state));
  core.Ignore();
  ASSERT_TRUE(Read(job, 0));
  EXPECT_TRUE(Read(job, 1));
  EXPECT_EQ(core.rows.back().text,
            "by ana, files that were left by rank 1 on " + node + ": \"out\"");
  EXPECT_EQ(Read(job, 7).error().message, "job 1 has ranks 0 to 1");
  EXPECT_EQ(Read(job, 0, "bob").error().message, "there is no job 1");
  core.Detach(node);
  EXPECT_EQ(Read(job, 1).error().code, ErrorCode::kUnavailable);
}

TEST_F(Exec, OfAJobThatRanInPlaceSaysWhereItsFilesAre) {
  JobSpec spec = GpuJob(1, 1);
  spec.workdir = "/proj";
  const JobId job = core.Submitted(spec);
  const Key key = core.Run(job);
  const std::string node = core.state.attempts.at(key).nodes.front().value;
  core.Exit(node, key, 0, Exited{0});
  core.Release(node, key);
  core.Ignore();
  const auto read = Read(job, 0);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().message, "job 1 ran in place: what it wrote is in /proj on " + node);
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
