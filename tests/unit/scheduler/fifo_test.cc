#include "scheduler/fifo.h"

#include <gtest/gtest.h>

#include <set>

namespace launch {
namespace {

QueueEntry Eligible(std::uint64_t id) { return {JobId{id}, std::nullopt}; }
QueueEntry Held(std::uint64_t id) { return {JobId{id}, WaitReason{"JobHeldUser", "held"}}; }

struct Tried {
  std::set<std::uint64_t> fits;
  std::set<std::uint64_t> away;  // its nodes are drained or silent
  std::vector<std::uint64_t> tried;
  std::optional<Waits> operator()(JobId job) {
    tried.push_back(job.value);
    if (fits.contains(job.value)) return std::nullopt;
    if (away.contains(job.value)) return Waits{{"ReqNodeNotAvail", "gpu1 is silent"}, false};
    return Waits{{"Resources", "8 H100 free on no node"}, true};
  }
};

TEST(Fifo, StartsWhatFitsInOrder) {
  Tried tried{{1, 2}, {}, {}};
  const QueueOutcome outcome = RunFifo({Eligible(1), Eligible(2)}, std::ref(tried));
  EXPECT_EQ(tried.tried, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_FALSE(outcome.blocked_by.has_value());
  for (const QueueVerdict& verdict : outcome.verdicts) EXPECT_FALSE(verdict.waits.has_value());
}

TEST(Fifo, TheFirstThatDoesNotFitBlocksThoseBehindIt) {
  Tried tried{{1, 3}, {}, {}};
  const QueueOutcome outcome = RunFifo({Eligible(1), Eligible(2), Eligible(3)}, std::ref(tried));
  EXPECT_EQ(tried.tried, (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(outcome.blocked_by, JobId{2});
  EXPECT_EQ(outcome.verdicts.at(1).waits->code, "Resources");
}

TEST(Fifo, AJobThatWaitsForAbsentNodesBlocksNobody) {
  Tried tried{{2}, {1}, {}};
  const QueueOutcome outcome = RunFifo({Eligible(1), Eligible(2)}, std::ref(tried));
  EXPECT_FALSE(outcome.blocked_by.has_value());
  EXPECT_EQ(outcome.verdicts.at(0).waits->code, "ReqNodeNotAvail");
  EXPECT_FALSE(outcome.verdicts.at(1).waits.has_value());
}

TEST(Fifo, HeldJobsAreNotTried) {
  Tried tried{{2}, {}, {}};
  const QueueOutcome outcome = RunFifo({Held(1), Eligible(2)}, std::ref(tried));
  EXPECT_EQ(tried.tried, std::vector<std::uint64_t>{2});
  EXPECT_EQ(outcome.verdicts.at(0).waits->code, "JobHeldUser");
}

TEST(Fifo, HeldJobsBehindTheOneThatBlocksKeepTheirReason) {
  Tried tried{{3}, {}, {}};
  const QueueOutcome outcome =
      RunFifo({Eligible(1), Held(2), Eligible(3), Held(4)}, std::ref(tried));
  EXPECT_EQ(tried.tried, std::vector<std::uint64_t>{1});
  EXPECT_EQ(outcome.blocked_by, JobId{1});
  ASSERT_EQ(outcome.verdicts.size(), 3u);
  EXPECT_EQ(outcome.verdicts.at(1).waits->code, "JobHeldUser");
  EXPECT_EQ(outcome.verdicts.at(2).job, JobId{4});
}

}  // namespace
}  // namespace launch
