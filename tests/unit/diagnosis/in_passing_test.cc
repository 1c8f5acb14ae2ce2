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
    EXPECT_EQ(Of(log + "\nepoch 2: loss 1.9\n", std::nullopt).label, "none") << log;
    EXPECT_EQ(Of(log + "\nfound 12 shards\nmesh is 2 x 4\n", std::nullopt).label, "none") << log;
    const Verdict verdict = Of(log + kKeyError);
    EXPECT_EQ(verdict.label, "python_exception") << log;
    EXPECT_NE(verdict.cause.find("KeyError"), std::string::npos) << verdict.cause;
    EXPECT_EQ(Of(log + "\nKilled\n", 137).label, "sigkill_unknown") << log;
  }
}

// The words alone prove nothing: without anything of the program behind them the error may have
// been its end.
TEST(InPassing, WhoSaysThatItGoesOnMustBeSeenToDoIt) {
  for (const std::string log : kCaught) {
    if (log.starts_with("--- Logging error")) continue;  // Python itself goes on
    for (const std::string end :
         {"", "\nwandb: Synced 3 files", "\nsrun: error: n1: task 0: Exited with exit code 1",
          "\nmake: *** [train] Error 1", "\n[rank7]: epoch 2: loss 1.9"})
      EXPECT_NE(Of(log + end, std::nullopt).label, "none") << log << end;
    const std::string peer =
        "\n[rank1]: Traceback (most recent call last):\n[rank1]:   File \"t.py\", line 9, in step\n"
        "[rank1]: torch.distributed.DistBackendError: NCCL error in: x.cpp:9, remote process "
        "exited or there was a network error\n[rank1]: ncclRemoteError: A call failed possibly due "
        "to a network error or a remote process exiting prematurely.";
    EXPECT_NE(Of(log + peer).label, "nccl_timeout_peer_died") << log;
  }
}

const std::string kPeer =
    "[rank1]: ncclRemoteError: A call failed possibly due to a network error or a remote process "
    "exiting prematurely.\n";
const std::string kTrace =
    "Traceback (most recent call last):\n  File \"t.py\", line 3, in <module>\n    step()\n";

// Real ends beside words that sound as if nothing had happened.
TEST(InPassing, RealFailuresKeepTheirVerdict) {
  const std::string oom =
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
      "capacity of 79.10 GiB of which 1.00 GiB is free.\n";
  const struct {
    const char* label;
    std::string log;
  } kEnded[] = {
      {"python_exception",
       "step 10 loss 2.1\n" + kTrace + "KeyError: 'ids'\ntrain.py failed, skipping evaluation\n"},
      {"cuda_oom", "step 10 loss 2.1\n" + kTrace + oom +
                       "acme: Network error (ConnectionError), entering retry loop.\n"},
      {"disk_full", "no checkpoint in /ckpt, starting from scratch\n" + kTrace +
                        "OSError: [Errno 28] No space left on device: '/ckpt/checkpoint-1.pt'\n"},
      {"cuda_oom",
       EachLine(kTrace + oom, "[rank0]: ", "\n") +
           "[rank0]: Skipping checkpoint save because of the exception\n" +
           EachLine(kTrace, "[rank1]: ", "\n") +
           "[rank1]: torch.distributed.DistBackendError: NCCL error in: x.cpp:9, remote "
           "process exited or there was a network error\n" +
           kPeer},
      {"python_exception", kTrace +
                               "RuntimeError: extension not compiled; set USE_SLOW=1 to fallback "
                               "to the slow path\n"},
      {"python_exception", kTrace +
                               "torch._dynamo.exc.Unsupported: Data-dependent branching; consider "
                               "using torch.cond instead\n"},
      {"cuda_oom",
       "step 3 loss 2.0\n### ERROR: CUDA out of memory. Tried to allocate 2.00 GiB\n" + kPeer},
      {"cuda_oom",
       R"({"ts": "2026-11-22T01:00:00Z", "lvl": "error", "text": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"})"},
      {"python_exception",
       "warning: fp8 kernels requires SM90, the bf16 path is taken\n" + kTrace + "KeyError: 'x'\n"},
      {"python_exception",
       "step 1 loss 2\n" + kTrace + "KeyError: 'x'\nRetrying the job is pointless\n"},
      {"file_not_found",
       kTrace +
           "OSError: Can't load the model for '/data/llama-ckpt'. If you were trying to load it "
           "from 'https://huggingface.co/models', make sure you don't have a local directory with "
           "the same name.\n"},
      {"cuda_illegal_access",
       "step 12 loss 2.0\nsampler[0]: RuntimeError: CUDA error: an illegal memory access was "
       "encountered\n" +
           kPeer},
      {"disk_full",
       "step 12 loss 2.0\nFATAL: Disk quota exceeded, checkpointing disabled\n" + kPeer},
      {"host_oom_kill",
       "Nov 22 03:00:01 gpu07 train.sh[4411]: step 5 loss 2.0\nNov 22 03:00:02 gpu07 "
       "systemd-oomd[703]: Killed /user.slice/user-1000.slice/session-3.scope due to memory "
       "pressure for /user.slice being 80.00%\nNov 22 03:00:03 gpu07 train.sh[4410]: Killed\n"},
      {"cuda_fabric_not_ready",
       "Nov 22 03:00:01 gpu07 nvidia-fabricmanager[901]: failed to start: driver and library "
       "version mismatch\n"},
      {"checkpoint_corrupt",
       "no checkpoint given, starting from scratch\n" + kTrace +
           "RuntimeError: checkpoint is corrupt: PytorchStreamReader failed reading zip archive: "
           "failed finding central directory\n" +
           kPeer},
  };
  for (const auto& [label, log] : kEnded) {
    EXPECT_EQ(Of(log, 1).label, label) << log;
    if (log.find("fabricmanager") != std::string::npos) continue;  // of no program that failed
    EXPECT_EQ(Of(log, std::nullopt).label, label) << log;
  }
  const Verdict oom_of_first = Of(kEnded[3].log, std::nullopt);
  EXPECT_EQ(oom_of_first.rank, 0);
  EXPECT_EQ(oom_of_first.action, "retry_with_change");
}

// Ranks, codes and processes that a line does not tell.
TEST(InPassing, AnEndIsReadOnlyWhereItIsTold) {
  const Verdict wide =
      Of("[rank: 4294967295] Child process with PID 71 terminated with code -9. Forcefully "
         "terminating all other processes\n",
         std::nullopt);
  EXPECT_FALSE(wide.rank.has_value());
  EXPECT_EQ(Of("  exitcode  : 99999999999999999999 (pid: 3)\n", std::nullopt).label, "none");
  EXPECT_EQ(
      Of("step 10 loss 2.0\neval helper: Process finished with exit code 1\n", std::nullopt).label,
      "none");
  EXPECT_NE(Of("step 10 loss 2.0\nProcess finished with exit code 1\n", std::nullopt).label,
            "none");
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
  EXPECT_EQ(Of(wrong, std::nullopt).label, "python_import");
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
  EXPECT_EQ(ReadLine("Nov 08 03:12:44 n7 systemd-oomd[7]: Killed /x").text,
            "systemd-oomd[7]: Killed /x");
  const std::string kernel = "Nov  8 03:00:01 n1 kernel: NVRM: Xid (PCI:0000:4e:00): 79";
  EXPECT_EQ(ReadLine(kernel).text, kernel);
  EXPECT_EQ(ReadLine("loss | 2.3").text, "loss | 2.3");
}

// An error of a program that a trainer runs to reward it, and steps without a loss behind it.
TEST(InPassing, RewardsAreSteps) {
  const std::string log =
      "Error executing code: Traceback (most recent call last):\n  File \"<string>\", line 3, in "
      "<module>\nModuleNotFoundError: No module named 'sortedcontainers'\n";
  const std::string steps = "step 12 | reward/mean 0.31\nstep 13 | reward/mean 0.33\n";
  EXPECT_EQ(Of(log + steps, std::nullopt).label, "none");
  EXPECT_EQ(Of(log + steps + kKeyError).label, "python_exception");
}

// wandb prints the whole chain of what it tries again.
TEST(InPassing, ARetryOfATrackerIsNoVerdict) {
  const std::string trace =
      "Traceback (most recent call last):\n  File \"socket.py\", line 918, in "
      "getaddrinfo\n    f()\n";
  const std::string chain =
      trace +
      "socket.gaierror: [Errno -2] Name or service not known\n\nDuring handling of the "
      "above exception, another exception occurred:\n\n" +
      trace +
      "requests.exceptions.ConnectionError: host='api.wandb.ai': Name or service not known\n";
  EXPECT_EQ(Of("Retry attempt failed:\n" + chain, std::nullopt).label, "none");
  EXPECT_NE(Of(chain, std::nullopt).label, "none");
  EXPECT_EQ(Of("Retry attempt failed:\n" + chain + kKeyError).label, "python_exception");
}

// Only the server that did not respond, and only behind it.
TEST(InPassing, AServerThatAnswersAgainIsNoVerdict) {
  const std::string lost = "[10.1] nfs: server a not responding, still trying\n";
  EXPECT_EQ(Of(lost + "[19.5] nfs: server a OK\n", std::nullopt).label, "none");
  EXPECT_EQ(Of(lost + "[19.5] nfs: server b OK\n", std::nullopt).label, "storage_io");
  EXPECT_EQ(Of("[9.5] nfs: server a OK\n" + lost, std::nullopt).label, "storage_io");
}

}  // namespace
}  // namespace launch
