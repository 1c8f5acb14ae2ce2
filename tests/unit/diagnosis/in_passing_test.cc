#include "diagnosis/in_passing.h"

#include <gtest/gtest.h>

#include <string>

#include "diagnosis/log_line.h"
#include "tests/unit/diagnosis/of_log.h"

namespace launch {
namespace {

const std::string kKeyError =
    "\nTraceback (most recent call last):\n  File \"t.py\", line 3, in <module>\n    row['x']\n"
    "KeyError: 'x'\n";

// What a program printed and went on behind.
const char* const kCaught[] = {
    "Traceback (most recent call last):\n  File \"ops.py\", line 8, in <module>\n    import "
    "fused\nModuleNotFoundError: No module named 'fused'\nfused kernels: falling back to eager",
    "WARNING:data:cannot decode 17.jpg: broken data stream, skipping\nTraceback (most recent call "
    "last):\n  File \"data.py\", line 9, in get\n    img.load()\nOSError: broken data stream when "
    "reading image file",
    "A matching Triton is not there, some optimizations will not be enabled\nTraceback (most "
    "recent call last):\n  File \"x.py\", line 5, in check\n    import triton\n"
    "ModuleNotFoundError: No module named 'triton'",
    "Traceback (most recent call last):\n  File \"retry.py\", line 131, in __call__\n    "
    "f()\nacme.errors.CommError: HTTP 502\nacme: network error (CommError), entering retry loop.",
    "--- Logging error ---\nTraceback (most recent call last):\n  File \"log.py\", line 9, in "
    "emit\n    write(m)\nOSError: [Errno 28] No space left on device\nCall stack:\n  File "
    "\"t.py\", line 1, in f",
    "ImportError: cannot import name 'fast_ops', continuing without them",
};

TEST(InPassing, ACaughtTracebackIsNoVerdict) {
  for (const std::string log : kCaught) {
    EXPECT_EQ(Of(log, std::nullopt).label, "none") << log;
    const Verdict verdict = Of(log + kKeyError);
    EXPECT_EQ(verdict.label, "python_exception") << log;
    EXPECT_NE(verdict.cause.find("KeyError"), std::string::npos) << verdict.cause;
    EXPECT_EQ(Of(log + "\nKilled\n", 137).label, "sigkill_unknown") << log;
  }
}

// Only what is about the error: another warning right above it says nothing of it, and the last of
// several tries is the end.
TEST(InPassing, WhatStandsAboveMustBeAboutTheError) {
  EXPECT_EQ(Of("flash_attn is missing, falling back to eager\nTraceback (most recent call last):\n "
               " File \"t.py\", line 1, in f\n    g()\ntorch.OutOfMemoryError: CUDA out of memory. "
               "Tried to allocate 2.00 GiB.\n",
               std::nullopt)
                .label,
            "cuda_oom");
  EXPECT_EQ(
      Of("Cannot find the requested files, retrying in 8s [Retry 5/5].\nTraceback (most recent "
         "call last):\n  File \"t.py\", line 1, in f\n    g()\nhuggingface_hub.errors."
         "LocalEntryNotFoundError: Cannot find the requested files in the local cache.\n",
         std::nullopt)
          .label,
      "hub_offline");
}

// A line behind the last traceback that is about something else hides no cause of it.
TEST(InPassing, WhatStandsBelowMustBeAboutTheErrorToo) {
  const std::string traceback =
      "Traceback (most recent call last):\n  File \"t.py\", line 1, in f\n    g()\n";
  const std::string report =
      "\ntrain.py FAILED\nRoot Cause (first observed failure):\n[0]:\n  rank      : 0 (local_rank: "
      "0)\n  exitcode  : 1 (pid: 77)\n  error_file: <N/A>\n";
  const struct {
    const char* label;
    const char* error;
  } kErrors[] = {
      {"cuda_oom", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."},
      {"disk_full", "OSError: [Errno 28] No space left on device"},
      {"python_import", "ModuleNotFoundError: No module named 'apex'"},
      {"file_not_found", "FileNotFoundError: [Errno 2] No such file or directory: '/data/x'"},
      {"python_exception", "ValueError: expected 3 channels, got 4"}};
  for (const auto& [label, error] : kErrors) {
    for (const std::string below : {"INFO: skipping the upload of artifacts",
                                    "continuing with the "
                                    "clean-up",
                                    "acme: run failed, retrying the sync"}) {
      const std::string log = traceback + error + "\n" + below;
      EXPECT_EQ(Of(log, std::nullopt).label, label) << log;
      EXPECT_EQ(Of(log, 1).label, label) << log;
      EXPECT_EQ(Of(log + report, 1).label, label) << log;
    }
  }
  // Said of the very error, but the run failed and nothing else tells why.
  const std::string wrong = traceback +
                            "ModuleNotFoundError: No module named 'fused'\nfused "
                            "kernels: falling back to eager";
  EXPECT_EQ(Of(wrong, std::nullopt).label, "none");
  EXPECT_EQ(Of(wrong + report, 1).label, "python_import");
  EXPECT_EQ(Of(wrong + "\nKilled\n", 137).label, "sigkill_unknown");
}

TEST(InPassing, DataAndCommandsAreNoMessages) {
  for (const std::string log :
       {R"({"text": "Segmentation fault (core dumped), what now?", "label": 3})",
        R"({"prompt": "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"})",
        R"(+ python train.py --on-error "CUDA error: device-side assert triggered")",
        R"(Namespace(hint='OSError: [Errno 28] No space left on device', lr=0.1))"}) {
    EXPECT_TRUE(IsNoMessage(log)) << log;
    EXPECT_EQ(Of(log).label, "unknown") << log;
  }
  EXPECT_FALSE(IsNoMessage(R"({"level": "ERROR", "text": "CUDA out of memory"})"));
  EXPECT_EQ(
      Of("sample 3 completion: try a smaller batch if CUDA out of memory is said", std::nullopt)
          .label,
      "none");
}

// A script goes on behind a command that its shell does not find.
TEST(InPassing, AShellsComplaintCountsWhereSomethingFailed) {
  for (const std::string log : {"sh: 1: ibstat: not found\nfound 2 nodes\n",
                                "bash: /opt/site.sh: No such file or "
                                "directory\nmodules loaded\n"}) {
    EXPECT_EQ(Of(log, std::nullopt).label, "none") << log;
    EXPECT_EQ(Of(log, 1).label, "file_not_found") << log;
  }
  EXPECT_EQ(Of("bash: torchrun: command not found\n", std::nullopt).label, "file_not_found");
  EXPECT_EQ(Of("bash: torchrun: command not found\nsrun: error: n1: task 0: Exited with exit code "
               "1\n",
               std::nullopt)
                .label,
            "file_not_found");
}

TEST(InPassing, ATorchThatSawAGpuIsNoCpuBuild) {
  for (const std::string seen :
       {"GPU available: True (cuda), used: True", "Is CUDA available: True",
        "torch.cuda.is_available() True", "Using device: cuda:0"}) {
    const Verdict verdict = Of(seen + "\nAssertionError: Torch not compiled with CUDA enabled\n");
    EXPECT_EQ(verdict.label, "python_exception") << seen;
    EXPECT_EQ(verdict.action, "no_retry");
    EXPECT_NE(verdict.cause.find("saw a GPU"), std::string::npos) << verdict.cause;
  }
  for (const std::string seen : {"GPU available: False, used: False", "Is CUDA available: False",
                                 "GPU available: True (mps), used: False", "Using device: cpu"})
    EXPECT_EQ(Of(seen + "\nAssertionError: Torch not compiled with CUDA enabled\n").label,
              "torch_cpu_only")
        << seen;
  EXPECT_EQ(Of("[rank1]: CUDA available: True\n[rank0]: AssertionError: Torch not compiled with "
               "CUDA enabled\n")
                .label,
            "torch_cpu_only");
}

TEST(InPassing, ReplacementsAreNamed) {
  EXPECT_TRUE(SaysItGoesOn("bf16 is not supported on this device, using fp16 instead"));
  EXPECT_TRUE(SaysItGoesOn("libx.so: undefined symbol: y; using sdpa"));
  EXPECT_FALSE(
      SaysItGoesOn("ValueError: bf16 is not supported, you are using it; use fp16 instead"));
  EXPECT_FALSE(SaysItGoesOn("please use fp16 instead"));
}

// The ends of tasks that a launcher stopped say less than the code of the one that failed.
TEST(InPassing, TerminatedTasksDoNotHideAnotherOnesCode) {
  EXPECT_EQ(Of("srun: error: n1: task 3: Exited with exit code 1\nsrun: error: n1: tasks 0-2: "
               "Terminated\n")
                .label,
            "unknown");
  EXPECT_EQ(Of("train.py FAILED\nRoot Cause (first observed failure):\n[0]:\n  rank      : 2 "
               "(local_rank: 2)\n  exitcode  : 1 (pid: 77)\n  error_file: <N/A>\nsrun: error: n1: "
               "task 0: Terminated\n")
                .label,
            "python_exception");
  EXPECT_EQ(Of("srun: error: n1: tasks 0-2: Terminated\n", 143).label, "preempted_signal");
}

// A terminal breaks lines wherever its width ends: in numbers, in units, in words.
TEST(InPassing, NumbersOfABrokenLineStayWhole) {
  const std::string message =
      "RuntimeError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 0; 39.59 GiB total "
      "capacity; 24.11 GiB already allocated; 1.11 GiB free; 36.92 GiB reserved in total by "
      "PyTorch)";
  const Verdict whole = Of(message);
  ASSERT_EQ(whole.label, "cuda_oom_fragmentation");
  for (std::size_t width = 72; width < message.size(); ++width) {
    std::string broken;
    for (std::size_t at = 0; at < message.size(); at += width)
      broken += message.substr(at, width) + "\n";
    EXPECT_EQ(Of(broken).label, whole.label) << width << "\n" << broken;
  }
}

TEST(InPassing, PrefixesOfCollectorsAreTakenAway) {
  for (const std::string prefix : {"Nov  8 03:12:44 n7 train[2211]: ", "trainer-worker-0  | ",
                                   "[pod/sft-worker-3/pytorch] ", "sft_1 | "}) {
    EXPECT_EQ(ReadLine(prefix + "KeyError: 'x'").text, "KeyError: 'x'") << prefix;
    EXPECT_EQ(Of(EachLine("  File \"/w/t.py\", line 4\n    f(x\n     ^\nSyntaxError: '(' was never "
                          "closed",
                          prefix, "\n"))
                  .label,
              "python_exception")
        << prefix;
  }
  EXPECT_EQ(ReadLine("Nov 08 03:12:44 n7 train[2211]: x").host, "n7");
  const std::string kernel = "Nov  8 03:00:01 n1 kernel: NVRM: Xid (PCI:0000:4e:00): 79";
  EXPECT_EQ(ReadLine(kernel).text, kernel);
  EXPECT_EQ(ReadLine("loss | 2.3").text, "loss | 2.3");
}

}  // namespace
}  // namespace launch
