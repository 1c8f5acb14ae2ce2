#include "diagnosis/exit_evidence.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "common/units.h"
#include "diagnosis/labels.h"
#include "diagnosis/verdict.h"

namespace launch {
namespace {

const CompiledSignatures& Table() {
  static const CompiledSignatures table;
  return table;
}

ExitReport Ended(ExitCause cause) {
  ExitReport report;
  report.rank = 4;
  report.cause = std::move(cause);
  return report;
}

Verdict Named(std::string label, Confidence confidence, Rank rank) {
  Verdict verdict;
  verdict.label = std::move(label);
  verdict.confidence = confidence;
  verdict.rank = rank;
  return verdict;
}

bool HasLine(const Verdict& verdict, const std::string& part) {
  for (const std::string& line : verdict.evidence)
    if (line.find(part) != std::string::npos) return true;
  return false;
}

TEST(Evidence, SamplesOfTheNodeAreCountedWithTheVerdict) {
  FailedRank rank{.node = NodeId{"gpu1"}, .exit = Ended(Exited{1})};
  rank.exit.max_rss_bytes = 3ULL << 30;
  rank.seen.gpu_total = 40ULL << 30;
  rank.seen.gpu_used = 39ULL << 30;
  rank.seen.gpu_foreign = 30ULL << 30;
  rank.seen.host_total = 64ULL << 30;
  rank.seen.host_available = 16ULL << 30;
  rank.seen.ecc_errors = 2;
  LogScanner scanner(Table());
  scanner.Feed("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB.\n");
  const Verdict verdict = JudgeRank(scanner.Finish(), rank, Table());
  EXPECT_EQ(verdict.label, "cuda_oom_foreign_process") << "most of the card is another's";
  EXPECT_TRUE(HasLine(verdict, "GPU memory " + FormatBytes(39ULL << 30) + " of " +
                                   FormatBytes(40ULL << 30) + ", " + FormatBytes(30ULL << 30) +
                                   " of others"));
  EXPECT_TRUE(HasLine(verdict, "host memory 75 % of " + FormatBytes(64ULL << 30) + " in use"));
  EXPECT_TRUE(HasLine(verdict, "2 uncorrectable ECC errors"));
  EXPECT_TRUE(
      HasLine(verdict, "largest resident memory of one process " + FormatBytes(3ULL << 30)));
}

TEST(Evidence, AnXidOutranksWhatPythonSaid) {
  FailedRank rank{.node = NodeId{"gpu1"}, .exit = Ended(Exited{1})};
  rank.seen.xids = {45, 79};
  LogScanner scanner(Table());
  scanner.Feed("RuntimeError: CUDA error: unspecified launch failure\n");
  const Verdict verdict = JudgeRank(scanner.Finish(), rank, Table());
  EXPECT_EQ(verdict.label, "xid_gpu_hardware");
  EXPECT_EQ(verdict.confidence, Confidence::kConfirmed);
  EXPECT_EQ(verdict.node, NodeId{"gpu1"});
}

Verdict OomAfter(const MemoryGrowth& growth, const std::string& text) {
  FailedRank rank{.node = NodeId{"gpu1"}, .exit = Ended(Exited{1})};
  rank.seen.growth = growth;
  LogScanner scanner(Table());
  scanner.Feed(text);
  return JudgeRank(scanner.Finish(), rank, Table());
}

Verdict OfRank(const FailedRank& rank, const std::string& log) {
  LogScanner scanner(Table());
  scanner.Feed(log);
  return JudgeRank(scanner.Finish(), rank, Table());
}

TEST(Evidence, WhatTheDriverDidNotSeeIsNotBelievedOfALogAlone) {
  const std::string log =
      "NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.\n"
      "Traceback (most recent call last):\n  File \"t.py\", line 1, in <module>\nRuntimeError: no "
      "data\n";
  FailedRank rank{.node = NodeId{"gpu1"}, .exit = Ended(Exited{1})};
  EXPECT_EQ(OfRank(rank, log).label, "xid_gpu_hardware") << "nobody asked the driver";
  EXPECT_EQ(OfRank(rank, log).confidence, Confidence::kLikely);
  rank.seen.gpu_total = rank.seen.gpu_used = 1ULL << 30;
  EXPECT_EQ(OfRank(rank, log).label, "python_exception");
  rank.seen = {};
  rank.seen.had_no_gpu = true;
  EXPECT_EQ(OfRank(rank, log).label, "python_exception");
  rank.seen = {};
  rank.seen.xids = {79};
  const Verdict seen = OfRank(rank, log);
  EXPECT_EQ(seen.label, "xid_gpu_hardware");
  EXPECT_EQ(seen.confidence, Confidence::kConfirmed);
  // CUDA's own error needs no driver beside it.
  rank.seen = {};
  rank.seen.gpu_total = rank.seen.gpu_used = 1ULL << 30;
  EXPECT_EQ(OfRank(rank, "RuntimeError: CUDA error: uncorrectable ECC error encountered\n").label,
            "ecc");
}

TEST(Evidence, CountersOfTheDriverConfirm) {
  FailedRank rank{.node = NodeId{"gpu1"}, .exit = Ended(Exited{1})};
  rank.seen.ecc_errors = 3;
  EXPECT_EQ(
      OfRank(rank, "RuntimeError: CUDA error: uncorrectable ECC error encountered\n").confidence,
      Confidence::kConfirmed);
  rank.seen = {};
  rank.seen.xids = {31};
  const Verdict access =
      OfRank(rank, "RuntimeError: CUDA error: an illegal memory access was encountered\n");
  EXPECT_EQ(access.label, "cuda_illegal_access");
  EXPECT_EQ(access.confidence, Confidence::kConfirmed);
  EXPECT_EQ(OfRank(rank, "ModuleNotFoundError: No module named 'apex'\n").label, "python_import")
      << "a fault of the program's kernels does not explain a missing module";
}

TEST(Evidence, AGpuThatTheDriverLostIsTheCause) {
  FailedRank rank{.node = NodeId{"gpu1"}, .exit = Ended(Exited{1})};
  rank.seen.gpu_used = 1ULL << 30;
  rank.seen.failed_gpus = {"GPU 1 (GPU-b): lost: the GPU has fallen off the bus"};
  const Verdict verdict = OfRank(rank, "RuntimeError: CUDA error: unknown error\n");
  EXPECT_EQ(verdict.label, "xid_gpu_hardware");
  EXPECT_TRUE(HasLine(verdict, "NVML: GPU 1 (GPU-b): lost: the GPU has fallen off the bus"));
}
TEST(Evidence, ALimitOfProcessesThatWasReachedConfirmsWhatTheLogSaysOfIt) {
  FailedRank rank{.node = NodeId{"gpu1"}, .exit = Ended(Exited{1})};
  const std::string log = "bash: fork: retry: Resource temporarily unavailable\n";
  EXPECT_EQ(OfRank(rank, log).confidence, Confidence::kLikely);
  const std::string reached = "pids.max of /sys/fs/cgroup/job (512) was reached 3 times";
  rank.exit.kernel_lines = {reached};
  const Verdict verdict = OfRank(rank, log);
  EXPECT_EQ(verdict.label, "too_many_open_files");
  EXPECT_EQ(verdict.confidence, Confidence::kConfirmed);
  EXPECT_TRUE(HasLine(verdict, reached));
  // Others may have reached it: it is no cause of its own, and none of open files.
  const Verdict other = OfRank(rank, "ValueError: no such optimizer\n");
  EXPECT_EQ(other.label, "python_exception");
  EXPECT_TRUE(HasLine(other, reached));
  EXPECT_EQ(OfRank(rank, "OSError: [Errno 24] Too many open files\n").confidence,
            Confidence::kLikely);
}

TEST(Evidence, TheFirstToFailIsSoOnOneClock) {
  FailedRank late{.node = NodeId{"gpu1"}, .exit = Ended(Exited{1})};
  late.exit.ended = BootTime{Millis{10}};
  late.ended = BootTime{Millis{5000}};
  FailedRank early = late;
  early.node = NodeId{"gpu2"};
  early.exit.rank = 9;
  early.exit.ended = BootTime{Millis{90'000}};
  early.ended = BootTime{Millis{4000}};
  EXPECT_EQ(WorthReading({late, early}, std::nullopt, 1).front().exit.rank, 9);
}

TEST(Evidence, GrowthFromStepToStepIsToldApartFromAStepThatIsTooLarge) {
  const MemoryGrowth growth{30ULL << 30, 40ULL << 30, 1e6, 1024};
  const std::string oom =
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB.\n";
  const Verdict verdict = OomAfter(growth, oom);
  EXPECT_EQ(verdict.label, "cuda_oom");
  EXPECT_NE(verdict.cause.find("grows from step to step"), std::string::npos) << verdict.cause;
  EXPECT_NE(verdict.cause.find("10MiB more each step, over 1024 steps"), std::string::npos)
      << verdict.cause;
  EXPECT_LT(verdict.remedy.find(".detach()"), verdict.remedy.find("micro-batch"));
  EXPECT_NEAR(verdict.numbers.at("growth_per_step"), 10.0 / 1024, 1e-6);
  EXPECT_TRUE(HasLine(verdict, "after optimizer steps"));
  const Verdict other = OomAfter(growth, "ModuleNotFoundError: No module named 'x'\n");
  EXPECT_EQ(other.cause.find("grows"), std::string::npos) << other.cause;
}

TEST(Evidence, WithoutStepsGrowthIsToldInMinutes) {
  const Verdict verdict = OomAfter({30ULL << 30, 40ULL << 30, 1024.0 * 1024, std::nullopt},
                                   "torch.OutOfMemoryError: CUDA out of memory.\n");
  EXPECT_NE(verdict.cause.find("60MiB more each minute"), std::string::npos) << verdict.cause;
  EXPECT_FALSE(verdict.numbers.contains("growth_per_step"));
}

TEST(Evidence, WhatIsFreeOnTheMachineSaysNothingOfAShareOfIt) {
  FailedRank rank{.node = NodeId{"gpu1"}, .exit = Ended(Exited{1})};
  rank.seen.host_total = 12ULL << 30;
  rank.seen.host_available = 20ULL << 30;
  const Verdict verdict = JudgeRank(LogScanner(Table()).Finish(), rank, Table());
  EXPECT_FALSE(HasLine(verdict, "host memory"));
  rank.seen.host_available = 6ULL << 30;
  EXPECT_TRUE(HasLine(JudgeRank(LogScanner(Table()).Finish(), rank, Table()), "host memory 50 %"));
}

TEST(Evidence, AGoodEndHasNoCounters) {
  FailedRank rank{.node = NodeId{"gpu1"}, .exit = Ended(Exited{0})};
  rank.seen.host_total = rank.seen.host_available = 1ULL << 30;
  EXPECT_EQ(JudgeRank(LogScanner(Table()).Finish(), rank, Table()).label, "none");
}

TEST(Evidence, TheTimeLineIsThatOfOneClock) {
  FailedRank first{.node = NodeId{"b"}, .exit = Ended(Signalled{9, false})};
  first.ended = BootMs(1'000);
  FailedRank second{.node = NodeId{"a"}, .exit = Ended(Exited{1})};
  second.exit.rank = 0;
  second.exit.our_signals = {{15, BootMs(1'300), "rank_failed"}};
  second.ended = BootMs(2'400);
  FailedRank unknown{.node = NodeId{"c"}, .exit = Ended(Exited{1})};
  EXPECT_EQ(TimeLine({second, unknown, first}),
            (std::vector<std::string>{"rank 4 on b: signal 9 (SIGKILL)",
                                      "1.4 s later rank 0 on a: exit 1, stopped by launch"}));
  EXPECT_TRUE(TimeLine({first, unknown}).empty());
}

TEST(Evidence, ComesFromEachKindOfEnd) {
  EXPECT_EQ(EvidenceOf(Ended(Exited{33})).exit_code, 33);
  EXPECT_EQ(EvidenceOf(Ended(Signalled{11, true})).signal, 11);
  EXPECT_EQ(EvidenceOf(Ended(FailedToStart{"exec", 2, "No such file"})).exit_code, 126);
  const NodeEvidence memory = EvidenceOf(Ended(OutOfMemory{"job", 300u << 20, 299u << 20}));
  EXPECT_EQ(memory.signal, 9);
  EXPECT_EQ(memory.oom_kills, 1u);
  EXPECT_EQ(memory.host_limit, 300u << 20);
  EXPECT_EQ(memory.rank, 4);
}

TEST(Evidence, TellsOurOwnSignalsApart) {
  ExitReport report = Ended(Signalled{9, false});
  report.our_signals.push_back({9, BootTime{}, std::string(ToString(StopCause::kCancelled))});
  EXPECT_EQ(EvidenceOf(report).our_kill, OurKill::kCancel);
  report.our_signals[0].why = ToString(StopCause::kTimeLimit);
  EXPECT_EQ(EvidenceOf(report).our_kill, OurKill::kTimeLimit);
  report.our_signals[0].why = ToString(StopCause::kRankFailed);
  EXPECT_EQ(EvidenceOf(report).our_kill, OurKill::kPeerFailed);
}

TEST(Evidence, AMemoryLimitIsNamedInTheCause) {
  const Verdict verdict =
      Diagnose("step 1\n", EvidenceOf(Ended(OutOfMemory{"job", 300u << 20, 299u << 20})), Table());
  EXPECT_EQ(verdict.label, "host_oom_kill");
  EXPECT_EQ(verdict.confidence, Confidence::kConfirmed);
  EXPECT_NE(verdict.cause.find("300MiB"), std::string::npos) << verdict.cause;
}

TEST(Choice, ACauseBeatsTheRankThatOnlyMissedIt) {
  const Verdict chosen = ChooseVerdict(
      {Named("nccl_timeout", Confidence::kSymptom, 0), Named("none", Confidence::kConfirmed, 1),
       Named("cuda_oom", Confidence::kLikely, 3), Named("cuda_oom", Confidence::kLikely, 2)});
  EXPECT_EQ(chosen.label, "cuda_oom");
  EXPECT_EQ(chosen.rank, 3);
}

TEST(Choice, TheFirstFailingRankWinsAmongEquals) {
  EXPECT_EQ(ChooseVerdict({Named("unknown", Confidence::kUnknown, 7),
                           Named("unknown", Confidence::kUnknown, 1)})
                .rank,
            7);
}

TEST(Documents, ListEveryLabelWithItsActionAndCause) {
  std::ifstream file(std::string(LAUNCH_SOURCE_DIR) + "/docs/diagnosis.md");
  std::stringstream text;
  text << file.rdbuf();
  for (const LabelInfo& info : Labels()) {
    const std::string row = "| " + std::string(info.label) + " | " + std::string(info.action) +
                            " | " + std::string(info.cause) + " |";
    EXPECT_NE(text.str().find(row), std::string::npos) << row;
  }
}

// A user story (S003-2), the four messages that one user met: a CUDA version mismatch, an exit code
// of -9, a failed build of an extension, and out of memory.
class StoryS0032 : public ::testing::Test {
 protected:
  static Verdict Of(std::string_view log, int exit_code) {
    NodeEvidence node;
    node.exit_code = exit_code;
    return Diagnose(log, node, Table());
  }
  static constexpr std::string_view kMismatch =
      "[WARNING] async_io requires libaio\n"
      "deepspeed.ops.op_builder.builder.CUDAMismatchException: >- DeepSpeed Op Builder: Installed "
      "CUDA version 11.5 does not match the version torch was compiled with 12.4, unable to "
      "compile "
      "cuda/cpp extensions without a matching cuda version.\n";
};

TEST_F(StoryS0032, TheMismatchIsOneOnlyWhenTheRunFailed) {
  EXPECT_EQ(Of(kMismatch, 1).label, "toolkit_mismatch");
  EXPECT_EQ(Of(kMismatch, 1).action, "no_retry");
  EXPECT_EQ(Of(kMismatch, 0).label, "none");
}

TEST_F(StoryS0032, MinusNineIsASigkillOfUnknownSender) {
  const Verdict verdict = Of("[ERROR] [launch.py:321] exits with return code = -9\n", 247);
  EXPECT_EQ(verdict.label, "sigkill_unknown");
  EXPECT_NE(verdict.confidence, Confidence::kConfirmed);
  EXPECT_NE(verdict.cause.find("SIGKILL"), std::string::npos);
  EXPECT_NE(verdict.cause.find("not a CUDA error"), std::string::npos);
}

TEST_F(StoryS0032, AFailedOpBuildPromisesNothingOfDsBuildOps) {
  const Verdict verdict = Of("Building extension module cpu_adam... FAILED\n", 1);
  EXPECT_EQ(verdict.label, "deepspeed_op_build");
  EXPECT_EQ(verdict.action, "no_retry");
  EXPECT_EQ(verdict.remedy.find("DS_BUILD_OPS"), std::string::npos);
  EXPECT_EQ(Of("Building extension module cpu_adam...\n", 0).label, "none");
}

TEST_F(StoryS0032, OutOfMemoryBehindAMismatchIsOutOfMemory) {
  EXPECT_EQ(Of("CUDA out of memory\n", 1).label, "cuda_oom");
  EXPECT_EQ(Of("CUDA out of memory\n", 1).action, "retry_with_change");
  EXPECT_EQ(Of(std::string(kMismatch) + "CUDA out of memory\n", 1).label, "cuda_oom");
}

}  // namespace
}  // namespace launch
