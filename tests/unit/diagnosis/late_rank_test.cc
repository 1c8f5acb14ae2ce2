// Which rank a collective that timed out waited for.
#include <gtest/gtest.h>

#include "diagnosis/exit_evidence.h"
#include "tests/unit/diagnosis/of_log.h"

namespace launch {
namespace {

std::string TimeoutOf(int rank, int number) {
  const std::string who = std::to_string(rank);
  return "[rank" + who + "]:[E626 16:48:25.4 ProcessGroupNCCL.cpp:632] [Rank " + who +
         "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=" +
         std::to_string(number) +
         ", OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600033 "
         "milliseconds before timing out.\n";
}

std::string StatusOf(int rank, int at, int enqueued) {
  const std::string who = std::to_string(rank);
  return "[rank" + who + "]:[E626 16:48:25.4 ProcessGroupNCCL.cpp:2268] [PG ID 0 PG GUID " +
         "0(default_pg) Rank " + who +
         "]  failure detected by watchdog at work sequence id: " + std::to_string(at) +
         " PG status: last enqueued work: " + std::to_string(enqueued) +
         ", last completed work: " + std::to_string(at - 1) + "\n";
}

TEST(LateRank, IsTheOneWhoseWatchdogSawFewerCollectives) {
  const Verdict verdict = Of(StatusOf(0, 42, 44) + TimeoutOf(0, 42) + StatusOf(2, 42, 43) +
                             StatusOf(1, 40, 41) + TimeoutOf(1, 40));
  EXPECT_EQ(verdict.label, "nccl_timeout");
  EXPECT_EQ(verdict.rank, 1);
  EXPECT_NE(verdict.cause.find("rank 1 is behind: it never entered collective number 42, in which "
                               "rank 0 waits"),
            std::string::npos)
      << verdict.cause;
  // Numbers of another process group say nothing about this one.
  std::string other = StatusOf(1, 7, 8);
  other.replace(other.find("PG ID 0"), 7, "PG ID 5");
  EXPECT_EQ(Of(StatusOf(0, 42, 44) + other).cause.find("behind"), std::string::npos);
}

TEST(LateRank, IsTheOnlyOneThatDidNotTimeOut) {
  const std::string log =
      "[rank2]: step 1 loss 1.0\n" + TimeoutOf(0, 42) + TimeoutOf(1, 42) + TimeoutOf(3, 42);
  EXPECT_NE(Of(log).cause.find("rank 2 is the only one of 0 to 3 in this log"), std::string::npos)
      << Of(log).cause;
  EXPECT_EQ(Of(log).rank, 2);
  // One line of one rank names nobody.
  EXPECT_EQ(Of(TimeoutOf(0, 42)).rank, 0);
  // With two missing it could be either.
  EXPECT_EQ(Of(TimeoutOf(0, 42) + TimeoutOf(3, 42)).cause.find("only one"), std::string::npos);
}

TEST(LateRank, IsNamedByTorchsOwnReports) {
  const Verdict desync =
      Of("[Rank 0] To find the culprit: the lagging/dead/mismatched ranks that caused the desync "
         "are: [3] joined but didn't finish collective #5 (count from 1)");
  EXPECT_EQ(desync.label, "nccl_timeout");
  EXPECT_EQ(desync.rank, 3) << desync.cause;
  const Verdict recorder =
      Of("Not all ranks joining collective, sequence number: 42 internal record id: 41 group info: "
         "0:default_pg collective: nccl:all_reduce missing ranks: {5}");
  EXPECT_EQ(recorder.rank, 5) << recorder.cause;
}

TEST(LateRank, IsTheOneThatWasStillRunning) {
  const Verdict waited = Of(TimeoutOf(0, 42));
  Verdict running;
  running.label = "none";
  running.rank = 1;
  const Verdict two = ChooseVerdict({waited, running});
  EXPECT_EQ(two.label, "nccl_timeout");
  EXPECT_NE(two.cause.find("rank 1 was still running"), std::string::npos) << two.cause;
  EXPECT_NE(two.remedy.find("--rank 1"), std::string::npos);
  Verdict third = running;
  third.rank = 2;
  EXPECT_EQ(ChooseVerdict({waited, running, third}).cause, waited.cause);
}

}  // namespace
}  // namespace launch
