// The plan worker and the stored form of plans.
#include <gtest/gtest.h>

#include <memory>

#include "common/pki.h"
#include "controller/plan_codec.h"
#include "controller/plan_worker.h"
#include "controller/store/record_codec.h"
#include "tests/fakes/memory_store.h"

namespace launch::controller {
namespace {

effect::PlanWanted Wanted(const std::string& run) {
  auto node = std::make_shared<NodeInventory>();
  node->node = NodeId{"cpu1"};
  node->cores = node->threads = 4;
  node->memory_bytes = 8ULL << 30;
  effect::PlanWanted wanted;
  wanted.owner = UserName{"ana"};
  wanted.spec.name = "job";
  wanted.spec.run = run;
  wanted.spec.device = DeviceChoice::kCpu;
  wanted.spec.procs_per_node = 1;
  wanted.spec.workdir = "/home/ana";
  wanted.context.submit_dir = "/home/ana";
  effect::NodeOffer offer;
  offer.inventory = node;
  offer.free_cpus = 4;
  offer.free_memory_bytes = 8ULL << 30;
  wanted.offers.push_back(std::move(offer));
  return wanted;
}

TEST(PlanWorker, RefusesALineThatNoKernelStarts) {
  EXPECT_FALSE(MakeOutcome(Wanted("echo hello")).error.has_value());
  const auto outcome = MakeOutcome(Wanted("echo " + std::string(130 << 10, 'x')));
  ASSERT_TRUE(outcome.error.has_value());
  EXPECT_EQ(outcome.error->code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(outcome.error->message.starts_with("run has ")) << outcome.error->message;
  EXPECT_NE(outcome.error->hint.find("script"), std::string::npos);
  auto setup = Wanted("echo hello");
  setup.spec.setup = std::string(130 << 10, 'x');
  EXPECT_TRUE(MakeOutcome(setup).error.has_value());
}

TEST(PlanWorker, PlansNothingThatANodeWouldNotRead) {
  auto wanted = Wanted("echo hello");
  wanted.placed =
      effect::PlanWanted::Placed{Key{JobId{1}, Attempt{1}}, {NodeId{"cpu1"}}, {std::vector<int>{}}};
  const auto sound = MakeOutcome(wanted);
  ASSERT_FALSE(sound.error.has_value()) << sound.error->message;
  ASSERT_EQ(sound.allocations.size(), 1u);
  wanted.spec.env.push_back({"BIG", std::string(140 << 10, 'x')});  // beyond one word of execve
  const auto outcome = MakeOutcome(wanted);
  ASSERT_TRUE(outcome.error.has_value());
  EXPECT_TRUE(outcome.allocations.empty());
  EXPECT_TRUE(outcome.stored.empty());
}

TEST(StoredPlan, IsReadFromItsOwnChunksOnlyAndHeldAgainstItsDigest) {
  ::launch::testing::MemoryStore store;
  ASSERT_TRUE(store.Load());
  auto wanted = Wanted("echo hello");
  wanted.placed =
      effect::PlanWanted::Placed{Key{JobId{1}, Attempt{1}}, {NodeId{"cpu1"}}, {std::vector<int>{}}};
  const PlanOutcome outcome = MakeOutcome(wanted);
  ASSERT_FALSE(outcome.stored.empty());
  const Key key{JobId{1}, Attempt{1}};
  const std::size_t half = outcome.stored.size() / 2;
  const std::vector<PlanChunkRecord> chunks = {{key, 0, outcome.stored.substr(0, half)},
                                               {key, 1, outcome.stored.substr(half)},
                                               {key, 2, "left by a crash"}};
  Batch batch;
  for (const PlanChunkRecord& chunk : chunks) {
    batch.puts.emplace_back(KeyOf(chunk), EncodeRecord(chunk));
  }
  ASSERT_TRUE(store.Commit(batch));
  const auto read = ReadStoredPlan(store, {key, 2, outcome.stored_digest});
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->allocations, outcome.allocations);
  EXPECT_FALSE(ReadStoredPlan(store, {key, 1, outcome.stored_digest}).has_value());
  EXPECT_FALSE(ReadStoredPlan(store, {key, 2, Sha256Hex("another plan")}).has_value());
}

}  // namespace
}  // namespace launch::controller
