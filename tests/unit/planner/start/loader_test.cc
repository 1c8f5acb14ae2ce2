// How many workers load the data.
#include <gtest/gtest.h>

#include "common/units.h"
#include "tests/unit/planner/plan_fixtures.h"

namespace launch {
namespace {

using namespace launch::testing;

TEST(Plan, LoaderWorkersFitTheHost) {
  NodeInventory small = H100("h", 1);
  small.memory_bytes = 4'000'000'000;
  const auto run = PlanOn(GpuJob(1), {small});
  ASSERT_TRUE(run);
  EXPECT_LE(run->plan.loader.num_workers, 2);
  const Finding* lowered = FindingOf(run->plan, "loader_workers");
  ASSERT_NE(lowered, nullptr);
  EXPECT_NE(lowered->says.find("memory free for one rank"), std::string::npos) << lowered->says;
}

TEST(Plan, LoaderWorkersFitSharedMemory) {
  NodeInventory container = H100("c", 2);
  container.shm_bytes = 64 * kMiB;
  const auto none = PlanOn(GpuJob(2), {container});
  ASSERT_TRUE(none);
  EXPECT_EQ(none->plan.loader.num_workers, 0);
  EXPECT_FALSE(none->plan.loader.persistent_workers);
  const Finding* lowered = FindingOf(none->plan, "loader_workers");
  ASSERT_NE(lowered, nullptr);
  EXPECT_EQ(lowered->says.rfind("0 loader workers a rank instead of 4: /dev/shm on c has 64MiB", 0),
            0U)
      << lowered->says;
  EXPECT_NE(lowered->remedy.find("--shm-size"), std::string::npos);
  container.shm_bytes = 64 * kMiB + 4 * 256 * kMiB;  // NCCL's rings, and two workers a rank
  EXPECT_EQ(PlanOn(GpuJob(2), {container})->plan.loader.num_workers, 2);
  JobSpec boxed = GpuJob(2);
  boxed.image = "train.sif";
  boxed.shm_bytes = 16 * kGiB;  // that of the host does not count
  EXPECT_EQ(PlanOn(boxed, {container})->plan.loader.num_workers, 4);
}

TEST(Plan, LoaderWorkersOfTheLineHold) {
  NodeInventory small = H100("h", 1);
  small.memory_bytes = 4'000'000'000;
  JobSpec job = GpuJob(1);
  job.run = "python train.py --dataloader_num_workers 6";
  job.trainer = Trainer::kHf;
  const auto run = PlanOn(job, {small});
  ASSERT_TRUE(run);
  EXPECT_EQ(run->plan.loader.num_workers, 6);
  const Finding* many = FindingOf(run->plan, "loader_workers");
  ASSERT_NE(many, nullptr);
  EXPECT_EQ(many->says.rfind("6 loader workers a rank, as the line says, may be too many", 0), 0U)
      << many->says;
}

}  // namespace
}  // namespace launch
