// What of a log is about this end of the run: earlier attempts, cleaning up, lines of the kernel
// and of schedulers that are about something else.
#include <gtest/gtest.h>

#include <string>

#include "diagnosis/exit_evidence.h"
#include "tests/unit/diagnosis/of_log.h"

namespace launch {
namespace {

constexpr const char* kPreempted =
    "slurmstepd: error: *** JOB 608 ON gpu1 CANCELLED AT 2025-08-12T02:06:12 DUE TO PREEMPTION "
    "***\n";
constexpr const char* kResumed =
    "resuming from checkpoint step 500\n"
    "step 501 loss 1.9\nstep 502 loss 1.8\nstep 503 loss 1.7\n";
constexpr const char* kKeyError =
    "Traceback (most recent call last):\n  File \"/w/train.py\", line 7, in <module>\n    "
    "main()\nKeyError: 'name'\n";

std::string Steps(int count) {
  std::string text;
  for (int i = 1; i <= count; ++i) text += "step " + std::to_string(i) + " loss 1.5\n";
  return text;
}

TEST(EarlierAttempt, IsNoEndWhereTheRunBeganAgain) {
  EXPECT_EQ(Of(std::string(kPreempted) + kResumed, std::nullopt).label, "none");
  EXPECT_EQ(Of(std::string("srun: error: Node failure on gpu3\n") + kResumed, std::nullopt).label,
            "none");
  // Without a new start these are the steps of its grace time.
  EXPECT_EQ(Of(std::string(kPreempted) + Steps(3), std::nullopt).label, "preempted_signal");
  EXPECT_EQ(Of(std::string(kResumed) + kPreempted, std::nullopt).label, "preempted_signal");
}

TEST(EarlierAttempt, DoesNotHideWhatEndedThisOne) {
  const Verdict ecc = Of(std::string(kPreempted) + kResumed +
                         "RuntimeError: CUDA error: uncorrectable ECC error encountered\n");
  EXPECT_EQ(ecc.label, "ecc");
  EXPECT_EQ(ecc.action, "retry_elsewhere");
  EXPECT_EQ(Of(std::string(kPreempted) + kResumed + kKeyError).label, "python_exception");
}

TEST(EarlierAttempt, OfAnElasticRestartIsOver) {
  const std::string failed =
      "E0101 10:00:00.000000 140 torch/distributed/elastic/multiprocessing/api.py:869] failed "
      "(exitcode: 1) local_rank: 2 (pid: 211) of binary: /usr/bin/python\n";
  const std::string again =
      "W0101 10:00:01.000000 140 torch/distributed/elastic/agent/server/api.py:850] [default] "
      "Worker group FAILED. 3/3 attempts left; will restart worker group\n";
  EXPECT_EQ(Of(failed + again + Steps(3), std::nullopt).label, "none");
  EXPECT_NE(Of(failed, std::nullopt).label, "none");
  EXPECT_NE(Of(failed + again, std::nullopt).label, "none");
  // The second attempt's report names the rank.
  const std::string second =
      "E0101 10:09:00.000000 140 torch/distributed/elastic/multiprocessing/api.py:869] failed "
      "(exitcode: -11) local_rank: 5 (pid: 301) of binary: /usr/bin/python\n";
  const Verdict verdict = Of(failed + again + Steps(3) + second);
  EXPECT_EQ(verdict.label, "segfault");
  EXPECT_EQ(verdict.rank, 5);
}

TEST(EndOfTraining, MakesWhatFollowsCleaningUp) {
  for (const char* done :
       {"Training finished.\n", "{'train_runtime': 100.1, 'train_loss': 0.3, 'epoch': 3.0}\n",
        "`Trainer.fit` stopped: `max_epochs=3` reached.\n", "INFO: Training done.\n"}) {
    for (const char* later :
         {"[W423 10:11:12.102 ProcessGroupNCCL.cpp:1659] [PG ID 0 PG GUID 0(default_pg) Rank 3] "
          "Failed to check the \"should dump\" flag on TCPStore, (maybe TCPStore server has shut "
          "down too early), with error: Connection reset by peer\n",
          "tensorboard server: Terminated\n"}) {
      EXPECT_EQ(Of(std::string(done) + later, std::nullopt).label, "none") << done << later;
    }
    EXPECT_EQ(Of(std::string(done) + "train.sh: line 3: 77 Killed   python train.py\n", 137).label,
              "sigkill_unknown");
    EXPECT_EQ(Of(std::string(done) + kKeyError, std::nullopt).label, "python_exception") << done;
    // An exception that nobody caught is an end all the same.
    EXPECT_EQ(
        Of(std::string(done) + "[rank1]: RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:534] "
                               "Connection closed by peer [10.0.0.2]:4001\n",
           std::nullopt)
            .label,
        "nccl_timeout_peer_died")
        << done;
  }
  EXPECT_NE(Of("Epoch 3: training finished badly\nSegmentation fault (core dumped)\n", 139).label,
            "none");
}

TEST(EndOfTraining, OutlivesNoticesOfTheNode) {
  for (const char* notice :
       {"kernel: nfs: server nas1 not responding, still trying\n",
        "kernel: Out of memory: Killed process 991 (chrome) total-vm:1kB, anon-rss:1kB\n",
        "last boot: NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.\n",
        "gpu1:1:1 [0] misc/cudawrap.cc:36 NCCL WARN Cuda failure 3 'initialization error'\n",
        "See https://docs.nvidia.com/deploy/xid-errors for Xid 79 (GPU has fallen off the bus).\n"})
    EXPECT_EQ(Of(notice + Steps(4) + "Training done.\n", std::nullopt).label, "none") << notice;
}

// A run on the CPU of a node with an old driver: torch warns and goes on.
TEST(PrintedWarning, OfTheDriverDoesNotOutrankAnErrorOfTheCode) {
  const std::string warning =
      "/v/torch/cuda/__init__.py:174: UserWarning: CUDA initialization: The NVIDIA driver on your "
      "system is too old (found version 12020). Please update your GPU driver by downloading and "
      "installing a new version\n  return torch._C._cuda_getDeviceCount() > 0\n";
  EXPECT_EQ(Of(warning + kKeyError).label, "python_exception");
  EXPECT_EQ(Of(warning).label, "cuda_driver_too_old");
  EXPECT_EQ(Of(warning + "RuntimeError: No CUDA GPUs are available\n").label,
            "cuda_driver_too_old");
}

TEST(PrintedKernelLine, DoesNotOutrankAnErrorOfTheCode) {
  for (const char* line :
       {"NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.\n",
        "NVRM: Xid (PCI:0000:01:00): 13, pid=1, Graphics Exception\n",
        "kernel: mlx5_core 0000:17:00.0: Port module event: module 0, Cable unplugged\n",
        "kernel: nfs: server nas1 not responding, still trying\n",
        "kernel: INFO: task python:4411 blocked for more than 120 seconds.\n",
        "kernel: nv-hostengine[991]: segfault at 0 ip 0000 sp 0000 error 4 in libdcgm.so\n",
        "kernel: Out of memory: Killed process 991 (chrome) total-vm:1kB, anon-rss:1kB\n"}) {
    EXPECT_EQ(Of(std::string(line) + kKeyError).label, "python_exception") << line;
    EXPECT_NE(Of(line).label, "python_exception") << line;
    EXPECT_NE(Of(line).label, "none") << line;
  }
  EXPECT_EQ(Of("kernel: NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n"
               "Traceback (most recent call last):\n  File \"t.py\", line 3, in <module>\n"
               "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n")
                .label,
            "python_exception");
  // What CUDA returned, and an error that a lost GPU makes.
  EXPECT_EQ(Of("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n"
               "RuntimeError: CUDA error: unspecified launch failure\n")
                .label,
            "xid_gpu_hardware");
  EXPECT_EQ(
      Of(std::string("RuntimeError: CUDA error: uncorrectable ECC error encountered\n") + kKeyError)
          .label,
      "ecc");
  for (const char* answer :
       {"gpu1:1:1 [0] NCCL WARN Cuda failure 214 'uncorrectable ECC error encountered'\n",
        "jax.errors.JaxRuntimeError: INTERNAL: CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC "
        "error "
        "encountered\n",
        "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorECCUncorrectable: uncorrectable "
        "ECC error encountered\n"})
    EXPECT_EQ(Of(std::string(answer) + kKeyError).label, "ecc") << answer;
  // A lost mount makes these errors.
  EXPECT_EQ(Of("kernel: nfs: server nas1 not responding, timed out\n"
               "Traceback (most recent call last):\n  File \"t.py\", line 3, in <module>\n"
               "FileNotFoundError: [Errno 2] No such file or directory: '/data/a'\n")
                .label,
            "storage_io");
  // The node's own lines stand, whatever the program prints.
  NodeEvidence node;
  node.exit_code = 1;
  node.kernel_lines = {"NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."};
  EXPECT_EQ(Diagnose(kKeyError, node, Table()).label, "xid_gpu_hardware");
}

TEST(Scheduler, InTheLogOfARunThatEndedByItselfIsNoAuthority) {
  const auto judged = [](const std::string& log, ExitCause cause) {
    LogScanner scanner(Table());
    scanner.Feed(log);
    FailedRank rank;
    rank.node = NodeId{"n1"};
    rank.exit.rank = 0;
    rank.exit.cause = cause;
    return JudgeRank(scanner.Finish(), rank, Table());
  };
  const Verdict own = judged(std::string(kPreempted) + kKeyError, Exited{1});
  EXPECT_EQ(own.label, "python_exception");
  EXPECT_EQ(own.action, "no_retry");
  const Verdict alone = judged(kPreempted, Exited{1});
  EXPECT_EQ(alone.label, "preempted_signal");
  EXPECT_EQ(alone.confidence, Confidence::kSymptom);
  // A signal ended it: the scheduler's text says from whom.
  const Verdict ended = judged(std::string(kPreempted) + kKeyError, Signalled{15});
  EXPECT_EQ(ended.label, "preempted_signal");
  EXPECT_EQ(ended.confidence, Confidence::kConfirmed);
}

TEST(Notices, ThatSayTheRunGoesOnAreNoCause) {
  for (const char* notice :
       {"slurmstepd: error: couldn't chdir to `/home/u/x': No such file or directory: going to "
        "/tmp instead\n",
        "slurmstepd: error: couldn't chdir to `/home/u/x': Permission denied: going to /tmp "
        "instead\n",
        "flash_attn import failed: /x/fa.so: undefined symbol: _ZN3c105ErrorC2E; using sdpa\n",
        "Could not load library libcudnn_ops.so.9: cannot open shared object; using fallback\n",
        "gpu1:1:1 [0] NCCL WARN RAS socket bind failed: Address already in use\n",
        "UserWarning: bfloat16 is not supported on this GPU, using float16\n",
        "Batch size 128 failed, trying batch size 64\nCUDA out of memory. Tried to allocate 2.00 "
        "GiB\nFinished batch size finder, will continue with full run using batch size 64\n",
        "Runtime error during autotuning: \nCUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 "
        "has a total capacity of 8.00 GiB \nIgnoring this choice.\n"}) {
    EXPECT_EQ(Of(std::string(notice) + kKeyError).label, "python_exception") << notice;
    EXPECT_EQ(Of(notice + Steps(2), std::nullopt).label, "none") << notice;
  }
}

TEST(KernelsOwnLimit, IsNotTheMemoryOfTheCard) {
  const std::string notice =
      "Runtime error during autotuning: \nNo valid triton configs. OutOfMemoryError: out of "
      "resource: triton_mm Required: 262144 Hardware limit:232448 Reducing block sizes or "
      "`num_stages` may help.. \nIgnoring this choice.\n";
  EXPECT_EQ(Of(notice + Steps(2), std::nullopt).label, "none");
  const Verdict own = Of(notice + kKeyError);
  EXPECT_EQ(own.label, "python_exception");
  EXPECT_NE(own.cause.find("KeyError"), std::string::npos);
  EXPECT_EQ(Of(notice + "Killed\n", 137).label, "sigkill_unknown");
  for (const char* error :
       {"torch._inductor.exc.InductorError: RuntimeError: No valid triton configs. "
        "OutOfMemoryError: out of resource: triton_tem_fused_0 Required: 147456 Hardware "
        "limit:101376 Reducing block sizes or `num_stages` may help.\n",
        "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 147456, "
        "Hardware limit: 101376. Reducing block sizes or `num_stages` may help.\n",
        "triton.runtime.errors.OutOfResources: out of resource: registers, Required: 70000, "
        "Hardware limit: 65536.\n"}) {
    const Verdict verdict =
        Of("Traceback (most recent call last):\n  File \"/w/t.py\", line 3\n" + std::string(error));
    EXPECT_EQ(verdict.label, "python_exception") << error;
    EXPECT_EQ(verdict.action, "no_retry");
    EXPECT_NE(verdict.cause.find("Triton kernel"), std::string::npos) << verdict.cause;
    EXPECT_TRUE(verdict.changes.empty());
  }
}

}  // namespace
}  // namespace launch
