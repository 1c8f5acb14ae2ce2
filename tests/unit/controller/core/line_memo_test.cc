#include "controller/core/line_memo.h"

#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

// Four elements of an array that wait for a drained node.
struct Lines : testing::Test {
  Lines() {
    core.Attach("gpu1", 1);
    core.Ignore();
    JobSpec spec = GpuJob(1, 1);
    spec.array = *ParseArray("0-3");
    core.Post(event::Drain{RequestId{9'000}, {UserName{"root"}, true}, NodeId{"gpu1"}});
    core.Ignore();
    first = core.Answer<reply::Submitted>(core.Submit(spec))->first;
  }
  const LineReading& Of(std::uint64_t element) const {
    return LineOf(core.state, JobId{first.value + element});
  }
  TestCore core;
  JobId first;
};

TEST_F(Lines, AreReadOnceForAllElements) {
  EXPECT_EQ(Of(0), Of(0));
  EXPECT_EQ(Of(0), Of(1));
  EXPECT_EQ(Of(0), Of(3));
}

TEST_F(Lines, OfAChangedElementAreReadAnew) {
  const LineReading before = Of(2);
  SpecRecord record = core.state.specs.at(JobId{first.value + 2});
  record.spec.run = "torchrun --nproc_per_node=4 t.py";
  Apply(core.state, Put{record});
  EXPECT_NE(Of(2), before);
  EXPECT_EQ(Of(1), before);
  EXPECT_EQ(Of(3), Of(2 + 1)) << "and by those behind it, which ask for something else";
  EXPECT_NE(Of(3), Of(2));
}

TEST_F(Lines, OfOneWithOtherFilesAreReadAnew) {
  const LineReading before = Of(0);
  SpecRecord record = core.state.specs.at(JobId{first.value + 1});
  record.context.files["train.sh"] = "torchrun t.py";
  Apply(core.state, Put{record});
  EXPECT_NE(Of(1), before);
}

TEST_F(Lines, OfAJobThatEndedAreLetGo) {
  const std::weak_ptr<const Result<LaunchLine>> line = Of(0);
  for (std::uint64_t element = 0; element < 4; ++element) core.Cancel(JobId{first.value + element});
  EXPECT_TRUE(line.expired());
}

TEST_F(Lines, AreThoseThatTheWorkerRead) {
  core.answer_plans = false;
  core.Submit(GpuJob(1, 1));
  for (const Effect& effect : std::vector<Effect>(core.effects)) {
    const auto* wanted = std::get_if<effect::PlanWanted>(&effect);
    if (wanted == nullptr) continue;
    auto planned = std::get<event::Planned>(core.Answered(*wanted));
    planned.outcome.line = ReadLineOf(wanted->spec, wanted->context.files);
    core.Post(planned);
    EXPECT_EQ(LineOf(core.state, *core.state.queue.rbegin()), planned.outcome.line);
    return;
  }
  FAIL() << "no plan was wanted";
}

TEST(ALongScript, IsReadByTheWorkerAlone) {
  TestCore core;
  core.Attach("gpu1", 1);
  core.Ignore();
  core.answer_plans = false;
  JobSpec spec = GpuJob(1, 1);
  spec.run = "bash train.sh";
  core.context.files["train.sh"] = "torchrun --nproc_per_node=2 --no-such-flag t.py\n";
  EXPECT_FALSE(core.Answer<reply::Submitted>(core.Submit(spec)))
      << "a short one is refused at once";
  core.Ignore();
  core.context.files["train.sh"] += std::string(5'000, '#');
  core.Submit(spec);
  ASSERT_EQ(core.effects.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<effect::PlanWanted>(core.effects.front()));
}

}  // namespace
}  // namespace launch::controller
