#include "controller/core/line_memo.h"

#include <algorithm>

#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

constexpr const char* kScript = "torchrun --nproc_per_node=1 t.py\n";

JobSpec WithScript(const std::string& indices = "") {
  JobSpec spec = GpuJob(1, 1);
  spec.run = "bash train.sh";
  if (!indices.empty()) spec.array = *ParseArray(indices);
  return spec;
}

// A drained node, so that all jobs wait.
struct Lines : testing::Test {
  Lines() {
    core.Attach("gpu1", 1);
    core.Post(event::Drain{RequestId{9'000}, {UserName{"root"}, true}, NodeId{"gpu1"}});
    core.Ignore();
    core.context.files["train.sh"] = kScript;
  }
  JobId Submit(const JobSpec& spec) {
    const JobId first = core.Answer<reply::Submitted>(core.Submit(spec))->first;
    core.Ignore();
    return first;
  }
  const Result<LineDemand>* Of(JobId job) const { return core.state.lines.Find(core.state, job); }
  Result<reply::Changed> Update(JobId job, const JobChange& change) {
    event::Change event{RequestId{9'001}, {UserName{"ana"}, false}, {job}, change};
    event.change.action = JobAction::kUpdate;
    core.Post(event);
    return core.Answer<reply::Changed>(RequestId{9'001});
  }
  TestCore core;
};

JobId Next(JobId job) { return JobId{job.value + 1}; }

TEST_F(Lines, OfAllElementsAreThoseThatTheWorkerRead) {
  const JobId first = Submit(WithScript("0-2"));
  for (const JobId job : {first, Next(first), Next(Next(first))}) {
    ASSERT_NE(Of(job), nullptr) << "a script is not read between events";
    EXPECT_EQ((*Of(job))->procs_number, 1);
  }
}

TEST_F(Lines, OfAnElementAreThoseOfTheOneBeforeIt) {
  const JobId first = Submit(WithScript("0-2"));
  core.state.lines = {};
  EXPECT_EQ(Of(first), nullptr);
  core.state.lines.Read(core.state, first);
  ASSERT_NE(Of(Next(first)), nullptr);
  EXPECT_EQ(*Of(Next(first)), *Of(first));
}

TEST_F(Lines, OfAnotherSpecAreReadAnew) {
  const JobId first = Submit(WithScript("0-2"));
  SpecRecord changed = core.state.specs.at(Next(first));
  changed.spec.run = "bash train.sh --more";
  Apply(core.state, Put{changed});
  EXPECT_EQ(Of(Next(first)), nullptr);
  SpecRecord with_file = core.state.specs.at(Next(Next(first)));
  with_file.context.files["train.sh"] = "torchrun --nproc_per_node=4 t.py\n";
  Apply(core.state, Put{with_file});
  EXPECT_EQ(Of(with_file.id), nullptr) << "not what the one before it has, whose files are others";
  EXPECT_EQ(core.state.lines.Read(core.state, with_file.id)->procs_number, 4);
}

TEST_F(Lines, GoWithTheirJob) {
  const JobId job = Submit(WithScript());
  const SpecRecord spec = core.state.specs.at(job);
  Apply(core.state, Delete{spec});
  Apply(core.state, Put{spec});  // as of a submit that was undone, whose number is given again
  EXPECT_EQ(Of(job), nullptr);
}

TEST_F(Lines, StayWhenSomethingElseIsUpdated) {
  const JobId job = Submit(WithScript());
  JobChange change;
  change.priority = 60;
  ASSERT_TRUE(Update(job, change));
  EXPECT_NE(Of(job), nullptr);
}

TEST_F(Lines, AreReadAnewForAnotherNumberOfNodes) {
  core.context.files["train.sh"] =
      "if [ \"$NODE_RANK\" = 0 ]; then torchrun --nproc_per_node=1 t.py; fi\n";
  const JobId one = Submit(WithScript());
  JobChange change;
  change.nodes = NodeCount{2, 2, false};
  const auto refused = Update(one, change);
  ASSERT_TRUE(refused && refused->results.at(0).error);
  EXPECT_EQ(refused->results.at(0).error->code, ErrorCode::kInvalidArgument)
      << "its launcher would start on one of them: " << refused->results.at(0).error->message;
  core.context.files["train.sh"] = "torchrun --nnodes=${NNODES:-1} --nproc_per_node=1 t.py\n";
  const JobId sees = Submit(WithScript());
  EXPECT_EQ(Update(sees, change)->results.at(0).error->code, ErrorCode::kCannotFit) << "one node";
  core.Attach("gpu2", 1);
  core.Ignore();
  ASSERT_FALSE(Update(sees, change)->results.at(0).error);
  ASSERT_NE(Of(sees), nullptr);
  EXPECT_EQ((*Of(sees))->nodes_max, 2);
}

TEST_F(Lines, OfFewAreReadForOneUpdate) {
  core.Attach("gpu2", 1);
  core.Post(event::Drain{RequestId{9'000}, {UserName{"root"}, true}, NodeId{"gpu2"}});
  core.Ignore();
  const JobId first = Submit(WithScript("0-19"));
  event::Change event{RequestId{9'001}, {UserName{"ana"}, false}, {}, {}};
  event.change.action = JobAction::kUpdate;
  event.change.nodes = NodeCount{2, 2, false};
  for (std::uint64_t i = 0; i < 20; ++i) event.jobs.push_back(JobId{first.value + i});
  const auto failed = [&] {
    core.Post(event);
    const auto changed = core.Answer<reply::Changed>(RequestId{9'001});
    return std::ranges::count_if(
        changed->results, [](const reply::ChangeResult& one) { return one.error.has_value(); });
  };
  EXPECT_EQ(failed(), 0) << "elements of an array ask for the same";
  event.jobs.clear();
  for (int i = 0; i < 20; ++i) {
    JobSpec spec = WithScript();
    spec.time_limit = Millis{60'000 + i};
    event.jobs.push_back(Submit(spec));
  }
  EXPECT_EQ(failed(), 12);
}

// As after a restart of the controller, which no worker has told what the scripts ask for.
TEST_F(Lines, OfManyAreReadSomeInEachDecision) {
  std::vector<JobId> jobs;
  for (int i = 0; i < 20; ++i) {
    JobSpec spec = WithScript();
    spec.time_limit = Millis{60'000 + i};  // no two ask for the same
    jobs.push_back(Submit(spec));
  }
  core.Restart();
  core.Attach("gpu1", 1);
  const auto read = [&] {
    return std::ranges::count_if(jobs, [&](JobId job) { return Of(job) != nullptr; });
  };
  EXPECT_LT(read(), 20);
  EXPECT_TRUE(std::ranges::any_of(jobs, [&](JobId job) {
    return core.View(job).reason.evidence == "what its script starts is not read yet";
  }));
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(NextDeadline(core.state));
    core.Pass(Millis{5});
  }
  EXPECT_EQ(read(), 20);
  EXPECT_EQ(core.View(jobs.back()).reason.code, "ReqNodeNotAvail");
}

TEST_F(Lines, OfThoseBehindTheHeadAreReadToo) {
  core.Attach("gpu2", 1);
  JobSpec head = GpuJob(1, 1);
  head.exclude_nodes = {"gpu1"};
  core.Run(core.Submitted(head));
  Submit(head);  // waits for what the first one has
  std::vector<JobId> jobs;
  for (int i = 0; i < 12; ++i) {
    JobSpec spec = WithScript();
    spec.time_limit = Millis{60'000 + i};
    jobs.push_back(Submit(spec));
  }
  core.Restart();
  for (int i = 0; i < 3; ++i) core.Pass(Millis{5});
  for (const JobId job : jobs) EXPECT_NE(Of(job), nullptr);
  EXPECT_FALSE(core.state.live.read_again) << "nothing is left to read";
}

TEST(ALongScript, IsReadByTheWorkerAlone) {
  TestCore core;
  core.Attach("gpu1", 1);
  core.Ignore();
  core.answer_plans = false;
  JobSpec spec = GpuJob(1, 1);
  spec.run = "torchrun --nproc_per_node=4 t.py";
  EXPECT_FALSE(core.Answer<reply::Submitted>(core.Submit(spec))) << "a line is refused at once";
  core.Ignore();
  spec.env.push_back({"A", std::string(2'000, 'x')});
  core.Submit(spec);
  spec.env.clear();
  spec.run = "bash train.sh";
  core.context.files["train.sh"] = "torchrun --nproc_per_node=4 t.py\n";
  core.Submit(spec);
  ASSERT_EQ(core.effects.size(), 2u);
  for (const Effect& effect : core.effects)
    EXPECT_TRUE(std::holds_alternative<effect::PlanWanted>(effect));
}

}  // namespace
}  // namespace launch::controller
