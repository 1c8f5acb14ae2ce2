// Texts nobody writes by accident: no crash, no endless work, no memory without bound.
#include <gtest/gtest.h>

#include <random>

#include "planner/launch_line.h"
#include "tests/unit/planner/plan_fixtures.h"

namespace launch {
namespace {

using namespace launch::testing;

TEST(HostileInput, RandomShellTextIsReadOrRefused) {
  const std::string_view pieces[] = {"torchrun ",
                                     "python ",
                                     "--nproc_per_node",
                                     "=2 ",
                                     "a.py",
                                     "'",
                                     "\"",
                                     "$(",
                                     ")",
                                     "${",
                                     "}",
                                     "`",
                                     "\\",
                                     "\n",
                                     " ",
                                     "&&",
                                     "||",
                                     "|",
                                     ";",
                                     "&",
                                     ">",
                                     "<<E",
                                     "2>&1",
                                     "A=",
                                     "#",
                                     "$X",
                                     "(",
                                     "{",
                                     "bash -c ",
                                     "-m ",
                                     "torch.distributed.run "};
  std::mt19937 random(11);
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (std::size_t n = random() % 24; n > 0; --n) text += pieces[random() % std::size(pieces)];
    const auto line = ReadLaunchLine(text, {});
    ASSERT_TRUE(line || !line.error().message.empty()) << text;
  }
}

TEST(HostileInput, DeepNestingIsRefused) {
  for (const char* piece : {"$(", "${a:-", "\"$("}) {
    std::string text = "echo ";
    for (int i = 0; i < 50000; ++i) text += piece;
    EXPECT_FALSE(ReadLaunchLine(text, {}));
  }
}

TEST(HostileInput, ALongScriptIsReadInReasonableTime) {
  std::string text;
  while (text.size() < 250'000) text += "echo a b c\n";
  EXPECT_TRUE(ReadLaunchLine(text, {}));
}

TEST(HostileInput, ValuesThatGrowWithoutBoundAreRefused) {
  JobSpec job = Job();
  job.env = {{"A0", "xxxxxxxxxxxxxxxx"}};
  for (int i = 1; i < 64; ++i) {
    const std::string before = "$A" + std::to_string(i - 1);
    job.env.push_back({"A" + std::to_string(i), before + before});
  }
  EXPECT_TRUE(Contains(ErrorOf(PlanOn(job, {Node("n")})), "128 KiB"));
}

TEST(HostileInput, HugeNumbersAreRefusedOrNeverFit) {
  const std::vector<NodeInventory> nodes = {H100("a", 8)};
  JobSpec job = GpuJob(2'000'000'000);
  EXPECT_TRUE(Place(job, Offers(nodes)).error().never);
  job = GpuJob(1, "", 100'000);
  EXPECT_TRUE(Place(job, Offers(nodes)).error().never);
  job.nodes = {1, 2'000'000'000, false};
  EXPECT_TRUE(Place(job, Offers(nodes)));
  job = Job();
  job.total_gpus = 2'000'000'000;
  const auto unplaced = Place(job, Offers(nodes));
  ASSERT_FALSE(unplaced);
  EXPECT_TRUE(unplaced.error().never);
  EXPECT_TRUE(Contains(unplaced.error().reason.evidence, "in total"));
  job = Job();
  job.procs_per_node = 1'000'000'000;
  EXPECT_FALSE(CheckSpec(job, Context()));
}

}  // namespace
}  // namespace launch
