// Why a job hangs, from the stacks of its ranks.
#include "diagnosis/hang.h"

#include <gtest/gtest.h>

#include "common/stack_text.h"

namespace launch {
namespace {

constexpr char kC10d[] = "/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py";
constexpr char kLogger[] = "/v/lib/python3.11/site-packages/torch/distributed/c10d_logger.py";
constexpr char kTensor[] = "/v/lib/python3.11/site-packages/torch/_tensor.py";
constexpr char kLoader[] = "/v/lib/python3.11/site-packages/torch/utils/data/dataloader.py";

using Frames = std::vector<StackFrame>;

StandingRank At(Rank rank, Frames frames, std::string state = "S") {
  ProcessStack process{.pid = 100 + rank, .name = "python", .state = std::move(state)};
  process.source = "faulthandler";
  process.frames = std::move(frames);
  return {.rank = rank,
          .node = NodeId{"gpu" + std::to_string(rank / 2)},
          .step = {},
          .processes = {std::move(process)},
          .why = {}};
}
StandingRank In(Rank rank, const std::string& call, int line = 31) {
  return At(rank, {{call, kC10d, 2900}, {"wrapper", kLogger, 83}, {"step", "/w/train.py", line}});
}
Verdict Of(std::vector<StandingRank> ranks) {
  return JudgeHang({.silent = Millis{600'000}, .ranks = std::move(ranks)});
}
bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
bool HasEvidence(const Verdict& verdict, const std::string& part) {
  for (const std::string& line : verdict.evidence)
    if (Has(line, part)) return true;
  return false;
}

TEST(Hang, TheRankThatDidNotComeIsNamedWithItsPlace) {
  const Verdict verdict =
      Of({In(0, "all_reduce"), At(1, {{"load", "/w/data.py", 12}, {"step", "/w/train.py", 30}}),
          In(2, "all_reduce"), In(3, "all_reduce")});
  EXPECT_EQ(verdict.label, "hang");
  EXPECT_EQ(verdict.confidence, Confidence::kConfirmed);
  EXPECT_EQ(verdict.action, "retry_same");
  EXPECT_EQ(verdict.rank, 1);
  EXPECT_EQ(verdict.node, NodeId{"gpu0"});
  EXPECT_EQ(verdict.cause,
            "Rank 1 did not come to all_reduce, in which ranks 0, 2 and 3 wait: it is at "
            "data.py:12 (load)");
  EXPECT_TRUE(HasEvidence(verdict, "no output, no step and no use of a GPU for 10m"));
  EXPECT_TRUE(HasEvidence(verdict, "ranks 0, 2 and 3: in all_reduce, called at /w/train.py:31"));
  EXPECT_TRUE(HasEvidence(verdict, "rank 1 #0 /w/data.py:12 (load)"));
}

TEST(Hang, WhoWaitsForItsLoaderIsLateToo) {
  const Verdict verdict = Of({In(0, "all_reduce"), At(1, {{"_try_get_data", kLoader, 1300},
                                                          {"__next__", kLoader, 700},
                                                          {"step", "/w/train.py", 20}})});
  EXPECT_EQ(verdict.rank, 1);
  EXPECT_TRUE(Has(verdict.cause, "waits: it waits for its data loader")) << verdict.cause;
}

TEST(Hang, DifferentCollectivesAreAnErrorOfTheProgram) {
  for (const Verdict& verdict :
       {Of({In(0, "all_reduce"), In(1, "barrier"), In(2, "all_reduce"), In(3, "all_reduce")}),
        Of({In(0, "barrier", 10), In(1, "barrier", 20), In(2, "barrier", 10)}),
        Of({At(0, {{"_engine_run_backward",
                    "/v/lib/python3.11/site-packages/torch/autograd/graph.py", 8},
                   {"backward", kTensor, 600},
                   {"step", "/w/train.py", 40}}),
            In(1, "broadcast"),
            At(2, {{"backward", kTensor, 600}, {"step", "/w/train.py", 40}})})}) {
    EXPECT_EQ(verdict.label, "collective_mismatch") << verdict.cause;
    EXPECT_EQ(verdict.action, "no_retry");
    EXPECT_EQ(verdict.rank, 1) << verdict.cause;
  }
  EXPECT_TRUE(Has(Of({In(0, "all_reduce"), In(1, "barrier", 7), In(2, "all_reduce")}).cause,
                  "ranks 0 and 2 in all_reduce (train.py:31 (step)); rank 1 in barrier "
                  "(train.py:7 (step))"));
}

TEST(Hang, NobodyIsBlamedWhereAllWaitInTheSameCall) {
  const Verdict verdict = Of({In(0, "all_reduce"), In(1, "all_reduce")});
  EXPECT_EQ(verdict.label, "hang");
  EXPECT_FALSE(verdict.rank);
  EXPECT_EQ(verdict.confidence, Confidence::kLikely);
  EXPECT_TRUE(Has(verdict.cause, "All ranks wait in all_reduce")) << verdict.cause;
}

TEST(Hang, WhatTheProgramCalledCountsNotWhatThatIsMadeOf) {
  const Verdict verdict =
      Of({At(0, {{"all_gather", kC10d, 1}, {"all_gather_object", kC10d, 2}, {"f", "/w/a.py", 3}}),
          At(1, {{"all_gather", kC10d, 9}, {"all_gather_object", kC10d, 8}, {"f", "/w/a.py", 3}})});
  EXPECT_TRUE(Has(verdict.cause, "All ranks wait in all_gather_object")) << verdict.cause;
}

TEST(Hang, AProcessInTheKernelIsSaidToBe) {
  StandingRank rank = At(1, {{"save", "/w/train.py", 50}}, "D");
  rank.processes[0].kernel = {"nfs_wait_bit_killable"};
  const Verdict verdict = Of({In(0, "barrier"), rank});
  EXPECT_EQ(verdict.rank, 1);
  EXPECT_TRUE(Has(verdict.cause, "waits for a device or file system")) << verdict.cause;
  EXPECT_TRUE(HasEvidence(verdict, "nfs_wait_bit_killable"));
}

TEST(Hang, WithoutPythonItIsASymptom) {
  StandingRank rank = At(0, {});
  rank.processes[0].syscall = "futex";
  const Verdict verdict = Of({rank});
  EXPECT_EQ(verdict.label, "hang");
  EXPECT_EQ(verdict.confidence, Confidence::kSymptom);
  EXPECT_TRUE(HasEvidence(verdict, "system call futex"));
  EXPECT_EQ(JudgeHang({}).label, "hang");
}

TEST(Hang, ANodeThatDoesNotAnswerLeavesItLikelyAtBest) {
  StandingRank silent{
      .rank = 1, .node = NodeId{"gpu9"}, .step = {}, .processes = {}, .why = "no answer"};
  const Verdict verdict = Of({In(0, "all_reduce"), silent});
  EXPECT_EQ(verdict.rank, 1);
  EXPECT_EQ(verdict.confidence, Confidence::kLikely);
  EXPECT_TRUE(HasEvidence(verdict, "rank 1 on gpu9: no answer"));
}

TEST(Hang, RanksOfALauncherOfTheJobsOwnAreToldApart) {
  StandingRank node = At(0, {});  // torchrun itself
  node.processes[0].name = "torchrun";
  for (int rank = 0; rank < 3; ++rank) {
    StandingRank worker = rank == 2 ? At(2, {{"nap", "/w/train.py", 5}}) : In(rank, "barrier");
    worker.processes[0].rank = rank;
    node.processes.push_back(worker.processes[0]);
  }
  const Verdict verdict = Of({node});
  EXPECT_EQ(verdict.rank, 2);
  EXPECT_TRUE(Has(verdict.cause, "Rank 2 did not come to barrier, in which ranks 0 and 1 wait"))
      << verdict.cause;
}

TEST(Hang, TheOneFurthestBehindStandsForMany) {
  StandingRank ahead = At(0, {{"f", "/w/a.py", 1}});
  StandingRank behind = At(1, {{"g", "/w/b.py", 2}});
  ahead.step = 10;
  behind.step = 9;
  EXPECT_EQ(Of({ahead, behind}).rank, 1);
}

TEST(StackText, FaulthandlerNamesThreadsAndFrames) {
  const auto threads = ParseStacks(
      "Thread 0x00007f01 (most recent call first):\n"
      "  File \"/usr/lib/python3.11/threading.py\", line 324 in wait\n"
      "  File \"/a \"b\"/x.py\", line 7 in <lambda>\n"
      "\n"
      "loss 2.0\n"
      "Current thread 0x00007f02 (most recent call first):\n"
      "  File \"/w/train.py\", line 31 in step\r\n"
      "  File \"/w/train.py\", line 40 in <module>\n"
      "  ...\n"
      "Thread 0x00007f03 [pin memory] (most recent call first):\n"
      "  <no Python frame>\n");
  ASSERT_EQ(threads.size(), 3u);
  EXPECT_EQ(threads[0].frames[1], (StackFrame{"<lambda>", "/a \"b\"/x.py", 7}));
  EXPECT_EQ(threads[2].name, "pin memory");
  const PythonThread* main = MainThread(threads);
  ASSERT_NE(main, nullptr);
  EXPECT_EQ(main->frames, (Frames{{"step", "/w/train.py", 31}, {"<module>", "/w/train.py", 40}}));
}

TEST(StackText, PySpyNamesThreadsAndFrames) {
  const auto threads = ParseStacks(
      "Process 4711: python train.py\nPython v3.11.2 (/usr/bin/python3.11)\n\n"
      "Thread 4712 (idle): \"Thread-1 (_run)\"\n    wait (threading.py:324)\n"
      "Thread 4711 (idle): \"MainThread\"\n    step (train.py:31)\n    <module> (train.py:40)\n");
  const PythonThread* main = MainThread(threads);
  ASSERT_NE(main, nullptr);
  EXPECT_EQ(main->frames, (Frames{{"step", "train.py", 31}, {"<module>", "train.py", 40}}));
}

TEST(StackText, OddTextIsPassedOverAndBounded) {
  for (const char* text : {"", "\n", "Thread", "Thread (", "  File \"x\", line", "a (b:c)",
                           "File \"x\", line 99999999999999 in f"})
    EXPECT_TRUE(ParseStacks(text).empty()) << text;
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "Thread 0x1 (most recent call first):\n";
  EXPECT_EQ(ParseStacks(many).size(), 256u);
  many = "Thread 0x1 (most recent call first):\n";
  for (int i = 0; i < 1000; ++i) many += "  File \"x\", line 1 in f\n";
  EXPECT_EQ(ParseStacks(many)[0].frames.size(), 128u);
  EXPECT_EQ(
      ParseStacks("Thread 0x1 (most recent call first):\n  File \"x\", line 99999999999 in f\n")[0]
          .frames[0]
          .line,
      0);
}

}  // namespace
}  // namespace launch
