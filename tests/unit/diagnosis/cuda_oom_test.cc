#include "diagnosis/cuda_oom.h"

#include <gtest/gtest.h>

#include "diagnosis/exit_evidence.h"
#include "diagnosis/verdict.h"

namespace launch {
namespace {

constexpr double kGiBf = 1024.0 * 1024.0 * 1024.0;

// torch 2.2's sentence.
std::string Message(double tried, double total, double free, double process, double allocated,
                    double reserved) {
  const auto gib = [](double value) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.2f GiB", value);
    return std::string(text);
  };
  return "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate " + gib(tried) +
         ". GPU 0 has a total capacity of " + gib(total) + " of which " + gib(free) +
         " is free. Process 9 has " + gib(process) + " memory in use. Of the allocated memory " +
         gib(allocated) + " is allocated by PyTorch, and " + gib(reserved) +
         " is reserved by PyTorch but unallocated.";
}

Verdict Of(const std::string& log, bool expandable = false) {
  const CompiledSignatures table;
  NodeEvidence node;
  node.exit_code = 1;
  node.expandable_segments = expandable;
  return Diagnose(log, node, table);
}

TEST(OomNumbers, AreReadFromTheOldestForm) {
  const OomNumbers n = ReadOomNumbers(
      "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 2; 10.00 GiB total capacity; 8.00 GiB "
      "already allocated; 512.00 MiB free; 1.00 GiB cached)");
  EXPECT_DOUBLE_EQ(*n.tried, 20.0 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(*n.total, 10 * kGiBf);
  EXPECT_DOUBLE_EQ(*n.allocated, 8 * kGiBf);
  EXPECT_DOUBLE_EQ(*n.free, 0.5 * kGiBf);
  EXPECT_EQ(n.gpu, 2);
}

TEST(OomNumbers, ReservedInTotalBecomesReservedButUnused) {
  const OomNumbers n = ReadOomNumbers(
      "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 16.00 GiB total capacity; 9.00 GiB "
      "already allocated; 1.00 GiB free; 14.00 GiB reserved in total by PyTorch)");
  EXPECT_TRUE(n.old_form);
  EXPECT_DOUBLE_EQ(*n.unallocated, 5 * kGiBf);
  EXPECT_DOUBLE_EQ(*n.process, 14 * kGiBf);
}

TEST(OomNumbers, AreReadFromTheNewFormWithItsMisspelling) {
  const OomNumbers n = ReadOomNumbers(
      "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 7 has a total capacty of 79.15 GiB of "
      "which 0 bytes is free. Process 12 has 30.00 GiB memory in use. Process 13 has 10.00 GiB "
      "memory in use. Including non-PyTorch memory, this process has 39.00 GiB memory in use. Of "
      "the allocated memory 38.00 GiB is allocated by PyTorch, and 512.00 KiB is reserved by "
      "PyTorch but unallocated.");
  EXPECT_DOUBLE_EQ(*n.free, 0);
  EXPECT_DOUBLE_EQ(*n.others, 40 * kGiBf);
  EXPECT_DOUBLE_EQ(*n.process, 39 * kGiBf);
  EXPECT_DOUBLE_EQ(*n.allocated, 38 * kGiBf);
  EXPECT_DOUBLE_EQ(*n.unallocated, 512.0 * 1024);
  EXPECT_EQ(n.gpu, 7);
}

TEST(OomKinds, TheUsersNumbersAreFragmentationWithASmallerBatchToo) {
  const Verdict verdict = Of(Message(4.15, 44.53, 3.84, 40.68, 36.78, 3.56));
  EXPECT_EQ(verdict.label, "cuda_oom_fragmentation");
  EXPECT_EQ(verdict.action, "retry_with_change");
  EXPECT_NE(verdict.cause.find("8.0 %"), std::string::npos) << verdict.cause;
  EXPECT_NE(verdict.remedy.find("expandable_segments:True"), std::string::npos);
  EXPECT_NE(verdict.remedy.find("micro-batch"), std::string::npos);
}

TEST(OomKinds, TheVerdictCarriesTheNumbersAndWhatARetryWouldAlter) {
  const Verdict verdict = Of(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.15 GiB. GPU 0 has a total "
      "capacity of 44.53 GiB of which 3.84 GiB is free. Including non-PyTorch memory, this "
      "process has 40.68 GiB memory in use. Of the allocated memory 36.78 GiB is allocated by "
      "PyTorch, and 3.56 GiB is reserved by PyTorch but unallocated.");
  EXPECT_EQ(verdict.numbers, (std::map<std::string, double>{{"allocated", 36.78},
                                                            {"asked", 4.15},
                                                            {"free", 3.84},
                                                            {"others", 0.01},
                                                            {"process", 40.68},
                                                            {"reserve_share", 0.08},
                                                            {"total", 44.53},
                                                            {"unallocated", 3.56}}));
  EXPECT_EQ(verdict.changes,
            (std::vector<std::string>{"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
                                      "batch.micro: the next smaller, batch.global kept"}));
}

TEST(OomKinds, TheSameFactsInBulletFormAreFragmentation) {
  EXPECT_EQ(Of("CUDA out of memory:\n- Tried to allocate 4.15 GiB\n- GPU 0 total capacity: 44.53 "
               "GiB\n- 3.84 GiB free\n- this process has 40.68 GiB memory in use\n- 36.78 GiB "
               "allocated by PyTorch\n- 3.56 GiB reserved but unallocated\n")
                .label,
            "cuda_oom_fragmentation");
}

TEST(OomKinds, LittleReserveIsPlain) {
  EXPECT_EQ(Of(Message(4.15, 44.53, 3.84, 40.68, 40.1, 0.2)).label, "cuda_oom");
}

TEST(OomKinds, MuchHeldByOthersIsForeign) {
  const Verdict verdict = Of(Message(4.15, 44.53, 3.84, 4.0, 3.5, 0.3));
  EXPECT_EQ(verdict.label, "cuda_oom_foreign_process");
  EXPECT_EQ(verdict.action, "retry_elsewhere");
}

// The classic of a script that never calls set_device: each of two ranks takes the other's share
// for a foreign one.
TEST(OomKinds, TwoRanksOnOneGpuAreNoForeignProcesses) {
  const auto line = [](int rank, double free, double process) {
    return "[rank" + std::to_string(rank) +
           "]: " + Message(2.00, 79.10, free, process, process - 1.00, 0.20) + "\n";
  };
  // Process and allocated of Message: P is counted from what is allocated and reserved.
  const Verdict shared = Of(line(0, 1.00, 39.00) + line(1, 1.00, 39.50));
  EXPECT_EQ(shared.label, "duplicate_gpu") << shared.cause;
  EXPECT_EQ(shared.action, "no_retry");
  EXPECT_NE(shared.cause.find("Rank 0 and rank 1 use the same GPU"), std::string::npos);
  EXPECT_NE(shared.remedy.find("set_device"), std::string::npos) << shared.remedy;
  // On two GPUs that somebody else uses, the figures do not meet.
  EXPECT_EQ(Of(line(0, 1.00, 10.00) + line(1, 1.00, 12.00)).label, "cuda_oom_foreign_process");
  // Each rank's own log, judged alone, and then together.
  Verdict one = Of(line(0, 1.00, 39.00));
  Verdict other = Of(line(1, 1.00, 39.50));
  EXPECT_EQ(one.label, "cuda_oom_foreign_process");
  one.node = other.node = NodeId{"node1"};
  EXPECT_EQ(ChooseVerdict({one, other}).label, "duplicate_gpu");
  other.node = NodeId{"node2"};
  EXPECT_EQ(ChooseVerdict({one, other}).label, "cuda_oom_foreign_process");
}

TEST(OomKinds, ARequestLargerThanTheCardIsHelpedByNoSetting) {
  const Verdict verdict = Of(Message(45.0, 44.53, 3.84, 40.68, 36.78, 3.56));
  EXPECT_EQ(verdict.label, "cuda_oom");
  EXPECT_NE(verdict.cause.find("no setting helps"), std::string::npos);
}

TEST(OomKinds, TheAllocatorOptionIsNotAdvisedTwice) {
  const Verdict verdict = Of(Message(4.15, 44.53, 3.84, 40.68, 36.78, 3.56), true);
  EXPECT_EQ(verdict.label, "cuda_oom_fragmentation");
  EXPECT_EQ(verdict.remedy.find("export PYTORCH_CUDA_ALLOC_CONF"), std::string::npos);
}

// The numbers of three published reports.
TEST(OomKinds, FollowThePublishedCases) {
  OomNumbers n;
  n.total = 23.69 * kGiBf;
  n.free = 514.0 * 1024 * 1024;
  n.unallocated = 737.0 * 1024 * 1024;
  n.tried = 546.0 * 1024 * 1024;
  n.process = 23.4 * kGiBf;
  EXPECT_EQ(ClassifyOom(n), OomKind::kFragmentation);
  n.free = 0;
  n.unallocated = 127.0 * 1024 * 1024;
  n.tried = 90.0 * 1024 * 1024;
  EXPECT_EQ(ClassifyOom(n), OomKind::kSize);
  n.free = 12.7 * kGiBf;
  n.unallocated = 9.35 * kGiBf;
  n.tried = 22.8 * kGiBf;
  n.total = 80 * kGiBf;
  n.process = 67 * kGiBf;
  EXPECT_EQ(ClassifyOom(n), OomKind::kSize);
}

TEST(OomPhases, ComeFromTheFrames) {
  EXPECT_EQ(PhaseOfOom("File \"t.py\", line 3, in forward"), OomPhase::kForward);
  EXPECT_EQ(PhaseOfOom("File \"t.py\", line 3, in forward\nFile \"torch/_tensor.py\", in backward"),
            OomPhase::kBackward);
  EXPECT_EQ(PhaseOfOom("torch/optim/adamw.py\", line 8, in _init_group"), OomPhase::kOptimizer);
  EXPECT_EQ(PhaseOfOom("site-packages/bitsandbytes/optim/optimizer.py\", line 8, in update_step"),
            OomPhase::kOptimizer);
  EXPECT_EQ(PhaseOfOom("File \"/home/u/hyperoptim/train.py\", line 3, in forward"),
            OomPhase::kForward);
  EXPECT_EQ(PhaseOfOom(""), OomPhase::kUnknown);
}

TEST(OomNumbers, OfCudaMallocAsyncAreThoseOfTheirOwnLines) {
  const OomNumbers n = ReadOomNumbers(
      "torch.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of memory) "
      "Currently allocated     : 9.10 GiB Requested               : 64.00 MiB Device limit         "
      "   "
      ": 10.00 GiB Free (according to CUDA): 0 bytes PyTorch limit (set by user-supplied memory "
      "fraction) : 17179869184.00 GiB");
  EXPECT_DOUBLE_EQ(*n.allocated, 9.10 * kGiBf);
  EXPECT_DOUBLE_EQ(*n.tried, 64.0 * 1024 * 1024);
  EXPECT_DOUBLE_EQ(*n.total, 10 * kGiBf);
  EXPECT_DOUBLE_EQ(*n.free, 0);
  EXPECT_FALSE(n.allowed);
}

TEST(OomNumbers, OfAListAreThoseOfItsItems) {
  const std::string kLists[] = {
      std::string(
          "CUDA out of memory - Tried to allocate: 4.15 GiB - GPU total: 44.53 GiB - Free: 3.84 "
          "GiB - "
          "Process memory: 40.68 GiB - Allocated by PyTorch: 36.78 GiB - Reserved but unallocated: "
          "3.56 "
          "GiB"),
      std::string(
          "CUDA out of memory - Requested: 4.15 GiB - Total capacity: 44.53 GiB - Free: 3.84 GiB - "
          "Process in use: 40.68 GiB - PyTorch allocated: 36.78 GiB - Reserved but unallocated: "
          "3.56 "
          "GiB"),
      std::string("CUDA out of memory * tried to allocate 4.15 GiB * GPU 0 total capacity: 44.53 "
                  "GiB * 3.84 "
                  "GiB "
                  "free * this process uses 40.68 GiB * PyTorch allocated 36.78 GiB * reserved by "
                  "PyTorch but "
                  "unallocated 3.56 GiB"),
      std::string("CUDA Out of Memory error at epoch 5: - **Tried to allocate**: 4.15 GiB - "
                  "**Total**: 44.53 "
                  "GiB "
                  "- **Free**: 3.84 GiB - **Process**: 40.68 GiB - **Allocated**: 36.78 GiB - "
                  "**Reserved**: "
                  "3.56 "
                  "GiB"),
      std::string("CUDA out of memory - 4.15 GiB asked - 44.53 GiB total - 3.84 GiB free - 40.68 "
                  "GiB process - "
                  "36.78 GiB allocated - 3.56 GiB reserved")};
  for (const std::string& list : kLists) {
    const OomNumbers n = ReadOomNumbers(list);
    EXPECT_EQ(n.tried, 4.15 * kGiBf) << list;
    EXPECT_EQ(n.total, 44.53 * kGiBf) << list;
    EXPECT_EQ(n.free, 3.84 * kGiBf) << list;
    EXPECT_EQ(n.process, 40.68 * kGiBf) << list;
    EXPECT_EQ(n.allocated, 36.78 * kGiBf) << list;
    EXPECT_EQ(n.unallocated, 3.56 * kGiBf) << list;
    EXPECT_FALSE(n.others) << list;
  }
}

TEST(OomNumbers, OfAListInFrontOfTheWordsAreRead) {
  const Verdict verdict =
      Of("- 4.15 GiB asked\n- 44.53 GiB total\n- 3.84 GiB free\n- 40.68 GiB process\n- 36.78 GiB "
         "allocated\n- 3.56 GiB reserved\nCUDA out of memory\n");
  EXPECT_EQ(verdict.label, "cuda_oom_fragmentation");
  EXPECT_DOUBLE_EQ(verdict.numbers.at("asked"), 4.15);
  EXPECT_EQ(Of("CUDA Out of Memory error at epoch 5:\n- **Tried to allocate**: 4.15 GiB\n- "
               "**Total**: 44.53 GiB\n- **Free**: 3.84 GiB\n- **Reserved**: 3.56 GiB\n")
                .label,
            "cuda_oom_fragmentation");
}

TEST(OomNumbers, ThatATerminalCutAreWhole) {
  const Verdict verdict = Of(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total "
      "capacity of 23.\n68 GiB of which 210.00 MiB is free. Including non-PyTorch memory, this "
      "process has 23.4\n7 GiB memory in use. Of the allocated memory 23.10 GiB is allocated.\n");
  EXPECT_EQ(verdict.label, "cuda_oom");
  EXPECT_DOUBLE_EQ(verdict.numbers.at("total"), 23.68);
  EXPECT_DOUBLE_EQ(verdict.numbers.at("process"), 23.47);
}

TEST(Oom, AtALimitOfTheProgramsOwnNamesTheLimit) {
  const Verdict verdict = Of(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total "
      "capacity of 79.10 GiB of which 70.10 GiB is free. 8.00 GiB allowed; Of the allocated memory "
      "7.50 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated.");
  EXPECT_EQ(verdict.label, "cuda_oom");
  EXPECT_DOUBLE_EQ(verdict.numbers.at("allowed"), 8.0);
  EXPECT_NE(verdict.cause.find("own limit of 8.00 GiB"), std::string::npos) << verdict.cause;
  EXPECT_TRUE(verdict.remedy.starts_with("raise the limit")) << verdict.remedy;
}

TEST(Oom, OfASmallCardWithADesktopIsNotForeign) {
  EXPECT_EQ(
      Of("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.67 GiB (GPU 0; "
         "3.95 GiB total capacity; 246.26 MiB already allocated; 770.62 MiB free; 1.91 GiB "
         "reserved in total by PyTorch)")
          .label,
      "cuda_oom_fragmentation");
}

TEST(Oom, OfXlaHasItsNumbers) {
  const Verdict verdict = Of(
      "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. "
      "Ran out of memory in memory space hbm. Used 21.90G of 7.48G hbm. Exceeded hbm capacity by "
      "14.42G.");
  EXPECT_EQ(verdict.label, "cuda_oom");
  EXPECT_DOUBLE_EQ(verdict.numbers.at("total"), 7.48);
}

}  // namespace
}  // namespace launch
