// Who a collective waited for, by the flight recorders of the ranks.
#include "diagnosis/flight.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "diagnosis/exit_evidence.h"
#include "tests/unit/diagnosis/of_log.h"

namespace launch {
namespace {

FlightGroup Group(std::int64_t completed, std::int64_t entered, const std::string& call = {}) {
  FlightGroup group{.id = "0", .name = "default_pg", .completed = completed, .entered = entered};
  if (call.empty()) return group;
  group.waits_in = entered;
  group.call = call;
  group.at = "/w/train.py:31 (step)";
  return group;
}

Verdict Timeout(Rank rank, const FlightGroup& group) {
  Verdict verdict;
  verdict.label = "nccl_timeout";
  verdict.action = "retry_same";
  verdict.confidence = Confidence::kLikely;
  verdict.rank = rank;
  verdict.node = NodeId{"gpu" + std::to_string(rank)};
  verdict.evidence = {"Watchdog caught collective operation timeout", FlightLine(rank, group)};
  return verdict;
}

Verdict Stopped(Rank rank, const FlightGroup& group) {
  Verdict verdict = Timeout(rank, group);
  verdict.label = "none";
  return verdict;
}

TEST(Flight, ALineIsReadAsItWasWritten) {
  for (FlightGroup group : {Group(3, 3), Group(41, 42, "all_reduce"), Group(-1, 1, "barrier")}) {
    EXPECT_EQ(ReadFlightLine(FlightLine(7, group)), (FlightOfRank{7, group}));
    group.name.clear();
    group.at.clear();
    EXPECT_EQ(ReadFlightLine(FlightLine(7, group)), (FlightOfRank{7, group}));
  }
  EXPECT_FALSE(ReadFlightLine("flight recorder: is on"));
  EXPECT_FALSE(ReadFlightLine("flight recorder: rank 1 in group 0 completed x, entered 3"));
}

TEST(Flight, TheRankThatNeverCameIsNamedWithTheCallInWhichOthersWait) {
  const Verdict verdict =
      ChooseVerdict({Timeout(0, Group(41, 42, "all_reduce")), Stopped(1, Group(41, 41)),
                     Timeout(2, Group(41, 42, "all_reduce"))});
  EXPECT_EQ(verdict.label, "nccl_timeout");
  EXPECT_EQ(verdict.rank, 1);
  EXPECT_EQ(verdict.node, NodeId{"gpu1"});
  EXPECT_EQ(verdict.confidence, Confidence::kConfirmed);
  EXPECT_EQ(verdict.cause,
            "A collective timed out: rank 1 is behind: it never entered collective number 42, in "
            "which rank 0 waits (all_reduce at /w/train.py:31 (step)); it came to number 41");
  EXPECT_EQ(verdict.action, "retry_same");
}

TEST(Flight, DifferentCallsOfOneNumberAreTheProgramsOwn) {
  const Verdict verdict = ChooseVerdict(
      {Timeout(0, Group(41, 42, "all_reduce")), Timeout(1, Group(41, 42, "broadcast"))});
  EXPECT_EQ(verdict.action, "no_retry");
  EXPECT_NE(verdict.cause.find("Rank 0 waits in all_reduce at /w/train.py:31 (step) and rank 1 in "
                               "broadcast"),
            std::string::npos)
      << verdict.cause;
}

TEST(Flight, WhereAllWaitInOneCallNobodyIsBehind) {
  const Verdict before = Timeout(0, Group(41, 42, "all_reduce"));
  const Verdict verdict = ChooseVerdict({before, Timeout(1, Group(41, 42, "all_reduce"))});
  EXPECT_EQ(verdict.cause, before.cause);
  EXPECT_EQ(verdict.confidence, Confidence::kLikely);
}

TEST(Flight, GroupsOfSomeRanksOnlyAndOtherLabelsStayAsTheyAre) {
  FlightGroup part = Group(41, 42, "all_reduce");
  part.id = "3";
  FlightGroup behind = Group(1, 1);
  behind.id = "3";
  EXPECT_EQ(ChooseVerdict({Timeout(0, part), Stopped(1, behind)}).rank, 0);
  Verdict oom = Timeout(1, Group(41, 41));
  oom.label = "cuda_oom";
  EXPECT_EQ(ChooseVerdict({oom, Timeout(0, Group(41, 42, "all_reduce"))}).cause, oom.cause);
}

// A line of the recorder names files of the program: none of them is a message.
TEST(Flight, ItsLinesAreEvidenceAndNoMessagesOfTheKernel) {
  FailedRank rank{.node = NodeId{"gpu1"}, .exit = {}};
  rank.exit.cause = Exited{1};
  FlightGroup group = Group(1, 2, "barrier");
  group.at = "/w/CUDA out of memory. Tried to allocate 2.00 GiB.py:3";
  rank.exit.kernel_lines = {FlightLine(0, group)};
  const CompiledSignatures& table = Table();
  const Verdict verdict = JudgeRank(LogScanner(table).Finish(), rank, table);
  EXPECT_EQ(verdict.label, "unknown");
  EXPECT_EQ(std::ranges::count(verdict.evidence, FlightLine(0, group)), 1);
}

}  // namespace
}  // namespace launch
