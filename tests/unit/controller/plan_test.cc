// The plan worker and the stored form of plans.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/mailbox.h"
#include "common/pki.h"
#include "controller/plan_codec.h"
#include "controller/plan_queue.h"
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

// Of a long script the core leaves that to the worker; of a short one it says the same itself.
TEST(PlanWorker, SaysWhatNoNodeCouldEverRun) {
  auto wanted = Wanted("python t.py");
  wanted.spec.memory_bytes = Amount{1ULL << 40};
  const auto outcome = MakeOutcome(wanted);
  ASSERT_TRUE(outcome.error.has_value());
  EXPECT_EQ(outcome.error->code, ErrorCode::kCannotFit);
  EXPECT_TRUE(outcome.error->message.starts_with("no known node could ever run this job"))
      << outcome.error->message;
  EXPECT_TRUE(outcome.error->hint.starts_with("closest is cpu1")) << outcome.error->hint;
}

// Whatever else speaks against it: a forced submit passes over findings, not over these.
TEST(PlanWorker, RefusesAnUnsoundJobBeforeItLooksAtTheNodes) {
  auto wanted = Wanted("torchrun --nproc_per_node=4 t.py");
  wanted.spec.image = "pytorch";
  const auto outcome = MakeOutcome(wanted);
  ASSERT_TRUE(outcome.error.has_value()) << "no node has a container runtime, which is a finding";
  EXPECT_EQ(outcome.error->code, ErrorCode::kInvalidArgument);
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

effect::PlanWanted Asked(std::uint64_t ticket, const std::string& owner, std::uint64_t request) {
  effect::PlanWanted wanted;
  wanted.ticket = ticket;
  wanted.owner = UserName{owner};
  wanted.request = RequestId{request};
  return wanted;
}

effect::PlanWanted OfPlaced(std::uint64_t ticket, const std::string& owner) {
  effect::PlanWanted wanted = Asked(ticket, owner, 0);
  wanted.placed = effect::PlanWanted::Placed{Key{JobId{ticket}, Attempt{1}}, {}, {}};
  return wanted;
}

bool Always(RequestId) { return true; }

std::vector<std::uint64_t> TicketsIn(PlanQueue& queue) {
  std::vector<std::uint64_t> tickets;
  std::vector<PlanQueue::Dropped> dropped;
  while (const auto wanted = queue.Take(dropped)) tickets.push_back(wanted->ticket);
  EXPECT_TRUE(dropped.empty());
  return tickets;
}

TEST(PlanQueue, JobsAboutToStartComeFirstAndOwnersTakeTurns) {
  PlanQueue queue(Always);
  for (const std::uint64_t ticket : {1, 2, 3})
    EXPECT_TRUE(queue.Add(Asked(ticket, "eve", 7)).empty());
  EXPECT_TRUE(queue.Add(Asked(4, "bob", 8)).empty());
  EXPECT_TRUE(queue.Add(OfPlaced(5, "eve")).empty());
  EXPECT_TRUE(queue.Add(OfPlaced(6, "eve")).empty());
  EXPECT_TRUE(queue.Add(OfPlaced(7, "ana")).empty());
  EXPECT_EQ(TicketsIn(queue), (std::vector<std::uint64_t>{7, 5, 6, 4, 1, 2, 3}));
  EXPECT_TRUE(queue.empty());
}

TEST(PlanQueue, NothingIsPlannedForARequestThatIsOver) {
  std::set<std::uint64_t> waiting = {10, 11};
  PlanQueue queue([&](RequestId request) { return waiting.contains(request.value); });
  EXPECT_TRUE(queue.Add(Asked(1, "eve", 10)).empty());
  EXPECT_TRUE(queue.Add(Asked(2, "eve", 11)).empty());
  EXPECT_TRUE(queue.Add(OfPlaced(3, "eve")).empty());
  waiting.erase(10);
  std::vector<PlanQueue::Dropped> dropped;
  EXPECT_EQ(queue.Take(dropped)->ticket, 3u) << "a job's own plan is of no request";
  EXPECT_EQ(queue.Take(dropped)->ticket, 2u);
  ASSERT_EQ(dropped.size(), 1u);
  EXPECT_EQ(dropped[0].ticket, 1u);
  EXPECT_EQ(dropped[0].why.code, ErrorCode::kDeadlineExceeded);
}

TEST(PlanQueue, OneUserCannotTakeEveryPlace) {
  bool eve_waits = true;
  PlanQueue queue([&](RequestId request) { return request.value != 7 || eve_waits; });
  std::uint64_t ticket = 0;
  while (ticket < PlanQueue::kMostOfUser) EXPECT_TRUE(queue.Add(Asked(++ticket, "eve", 7)).empty());
  const auto refused = queue.Add(Asked(++ticket, "eve", 7));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].ticket, ticket);
  EXPECT_EQ(refused[0].why.code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(refused[0].why.message,
            "64 plans of eve are waiting to be made already; a user may have no more");
  EXPECT_FALSE(refused[0].why.hint.empty());
  EXPECT_TRUE(queue.Add(Asked(++ticket, "bob", 8)).empty());
  EXPECT_TRUE(queue.Add(OfPlaced(++ticket, "eve")).empty()) << "her jobs start all the same";
  eve_waits = false;  // those for which nobody waits take no place
  EXPECT_EQ(queue.Add(Asked(++ticket, "eve", 9)).size(), PlanQueue::kMostOfUser);
}

// Whoever was answered at a deadline costs nothing any more, and the core is told of each ticket.
TEST(PlanWorker, AnswersWithoutPlanningWhatNobodyWaitsFor) {
  std::promise<void> go_on;
  std::shared_future<void> may_go_on(go_on.get_future());
  Mailbox<event::Planned> answers(16);
  std::vector<std::uint64_t> planned;  // by the worker's thread alone until it has answered
  std::set<std::uint64_t> waiting = {1, 2};
  PlanWorker worker([&](event::Planned one) { answers.PushAlways(std::move(one)); },
                    [&](RequestId request) { return waiting.contains(request.value); },
                    [&](const effect::PlanWanted& wanted) {
                      may_go_on.wait();
                      planned.push_back(wanted.ticket);
                      return PlanOutcome{};
                    });
  worker.Want(OfPlaced(1, "ana"));
  worker.Want(Asked(2, "eve", 2));
  worker.Want(Asked(3, "eve", 3));
  go_on.set_value();
  std::vector<event::Planned> got;
  while (got.size() < 3) {
    auto batch = answers.TakeBatch(16, 10'000);
    if (batch.empty()) break;
    got.insert(got.end(), batch.begin(), batch.end());
  }
  ASSERT_EQ(got.size(), 3u);
  worker.Stop();
  EXPECT_EQ(planned, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_FALSE(got[1].outcome.error.has_value());
  EXPECT_EQ(got[2].ticket, 3u);
  ASSERT_TRUE(got[2].outcome.error.has_value());
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
