// Lines that speak of a failure and tell of none: what may come, what is watched for, what the
// program does without. Whatever ends the run behind them is named, and they never are.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

#include "diagnosis/verdict.h"
#include "tests/unit/diagnosis/of_log.h"
#include "tests/unit/diagnosis/snippets.h"

namespace launch {
namespace {

constexpr std::string_view kRemarks[] = {
    "Preemption notice handler installed",
    "preemption notice handler installed",
    "Preemption notices are watched on http://metadata.google.internal",
    "No Preemption notice so far",
    "epoch 2: no Preemption notice, going on",
    "Waiting for a Preemption notice in the background",
    "watching the audit log for compute.instances.preempted",
    "pods: DisruptionTarget=False",
    "Warning: Unrecognized options: --local_rank=0",
    "JVM: Unrecognized options: -XX:+UseFoo are ignored",
    "WARNING: Could not override 'lr'. The value 0.1 of the file stays.",
    "Tip: quote your overrides. See https://hydra.cc/docs/1.3/advanced/override_grammar/basic for "
    "details",
    "validate.py: error: Validation failed: 3 rows have no label, dropped",
    "W0000 00:00:17 nccl_api_stub.cc:62] Unable to load NCCL library. Multi-GPU collectives will "
    "not work.",
    "You have installed CPU version PaddlePaddle, use_gpu is set to False",
    "XGBoost version not compiled with GPU support: tree_method=hist",
    "[LightGBM] GPU Tree Learner was not enabled in this build, device_type=cpu is taken",
    "DGL: Device API cuda is not enabled; sampling runs on CPU",
    "metrics upload failed. Retry limit reached",
    "comet: artifact upload failed. Retry limit reached",
    "E0000 00:00:17 chttp2_server.cc:1053] UNKNOWN:No address added out of total 1 resolved for "
    "'[::]:50051'\nserver: port 50051 busy, bound to 50052",
    "Hint: set max locked memory (ulimit -l) to unlimited for RDMA",
    "Dst tensor is not initialized. Placement was tried again on CPU:0",
    "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY = 0x70000003 (enum printed by sycl-ls)",
    "Vulkan: VK_ERROR_OUT_OF_DEVICE_MEMORY for texture cache, smaller cache taken",
    "W0501 retry.cc] Resource exhausted: failed to allocate 2 MB for trace buffer",
    "2026-01-01 00:00:00.1: W tensorflow/core/util/x.cc:1] Unable to open table file "
    "/ckpt/model-90: older one is taken",
    "loss is inf at step 3: the scaler halves the scale, no reason to stop",
    "early stop rule: diverged: loss = inf or nan ends the trial",
    "warning: device-side check Invalid CUDAPlace(1) seen, rank pinned to 0",
};

// What is an error elsewhere, behind what loggers put in front of a warning.
constexpr std::string_view kWarned[] = {
    "No space left on device, the cache is not written",
    "[Errno 13] Permission denied: '/opt/cache'",
    "No module named 'apex', the plain optimizer is taken",
    "libcudnn.so.8: cannot open shared object file: No such file or directory",
    "cuda out of memory in the warm-up, smaller blocks are taken",
    "no kernels: ninja: build stopped: subcommand failed.",
    "/data/x: Stale file handle, read again",
};
constexpr std::string_view kLoggers[] = {
    "WARNING: ",
    "[WARNING] ",
    "warn: ",
    "WARNING:root:",
    "[rank3]: WARNING:root:",
    "[rank3]:W0501 10:00:00.123456 140 x.cc:12] ",
    "W0501 10:00:00.123456 140 x.cc:12] ",
    "2026-01-01 00:00:00.123456: W tensorflow/core/x.cc:12] ",
    "[2026-01-01 10:00:00,123] [WARNING] [runner.py:202:main] ",
    "2026-01-01 10:00:00.123 | WARNING  | data:load:12 - ",
    "2026-01-01 10:00:00,123 - WARNING - train.py:12 - ",
    "WARNING 05-02 10:01:13 [core.py:586] ",
    "[05/02/26 10:01:13] WARNING  ",
    "mlflow.utils - WARNING - ",
    "3: [1,0]<stderr>:[WARNING|trainer.py:12] 2026-01-01 10:00:00,123 >> ",
    "Note: ",
    "Hint: ",
};

constexpr std::string_view kTimeout =
    "[rank0]:[E1017 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran "
    "for 600010 milliseconds before timing out.\n";
constexpr std::string_view kTraceback =
    "Traceback (most recent call last):\n  File \"/w/t.py\", line 9, in <module>\n    run()\n";

std::string Log(std::string_view a, std::string_view b) {
  return std::string(a) + "\n" + std::string(b);
}

TEST(Remarks, TellOfNoFailure) {
  for (const std::string_view remark : kRemarks) {
    EXPECT_EQ(Of(remark, std::nullopt).label, "none") << remark;
    EXPECT_EQ(Of(remark, 0).label, "none") << remark;
  }
}

TEST(Remarks, DoNotNameTheEndBehindThem) {
  for (const std::string_view remark : kRemarks) {
    const std::string begun = Log(remark, "phase one took 3 s\nphase two took 4 s\n");
    EXPECT_EQ(Of(begun, 137).label, "sigkill_unknown") << remark;
    EXPECT_EQ(Of(begun + std::string(kTimeout), 134).label, "nccl_timeout") << remark;
    EXPECT_EQ(Of(begun + std::string(kTraceback) + "KeyError: 'lr'\n").label, "python_exception")
        << remark;
    EXPECT_EQ(Of(begun + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. "
                         "GPU 0 has a total capacity of 79.1 GiB of which 1.0 GiB is free.\n")
                  .label,
              "cuda_oom")
        << remark;
  }
}

// Where nothing else tells what ended the run, it may have been what was warned of.
TEST(Warnings, DoNotNameTheEndBehindThem) {
  for (const std::string_view logger : kLoggers) {
    for (const std::string_view warned : kWarned) {
      const std::string line = std::string(logger) + std::string(warned);
      EXPECT_EQ(Of(line, std::nullopt).label, "none") << line;
      const std::string begun = Log(line, "phase one took 3 s\nphase two took 4 s\n");
      EXPECT_EQ(Of(begun, 137).label, "sigkill_unknown") << line;
      EXPECT_EQ(Of(begun + std::string(kTimeout), 134).label, "nccl_timeout") << line;
      EXPECT_EQ(Of(begun + std::string(kTraceback) + "KeyError: 'lr'\n").label, "python_exception")
          << line;
    }
  }
}

TEST(Warnings, OfADriverOrAGpuAreTheCause) {
  for (const auto& [label, warned] :
       {std::pair{"cuda_driver_too_old",
                  "CUDA initialization: The NVIDIA driver on your system is too old (found version "
                  "11040)."},
        std::pair{"no_kernel_image",
                  "NVIDIA H100 with CUDA capability sm_90 is not compatible with the current "
                  "PyTorch installation."},
        std::pair{"driver_library_mismatch",
                  "Failed to initialize NVML: Driver/library version mismatch"}})
    EXPECT_EQ(Of("WARNING: " + std::string(warned) + "\n" + std::string(kTimeout), 134).label,
              label);
  EXPECT_EQ(
      Of("  Warning  Evicted  3m  kubelet, n1  The node was low on resource: memory.", 137).label,
      "host_oom_kill");
  EXPECT_EQ(Of("  Warning  Failed  3m (x4 over 5m)  kubelet  Failed to pull image \"x/y:1\"").label,
            "hub_offline");
}

constexpr Snippet kEnds[] = {
    {"launcher_args",
     "LexerNoViableAltException: trainer.x=[1,2\n                         ^\nSee "
     "https://hydra.cc/docs/1.1/advanced/override_grammar/basic for details"},
    {"launcher_args",
     "mismatched input '=' expecting <EOF>\nSee "
     "https://hydra.cc/docs/1.2/advanced/override_grammar/basic for details"},
    {"launcher_args",
     "Could not override 'optim.lrr'.\nTo append to your config use +optim.lrr=0.1"},
    {"launcher_args", "\u2502 Unrecognized options: --max-steps      \u2502", 2},
    {"launcher_args", "error: Validation failed: No action for key \"model.d\" to check its value.",
     2},
    {"torch_cpu_only",
     "[LightGBM] [Fatal] GPU Tree Learner was not enabled in this build.\nPlease recompile", 1},
    {"cuda_oom",
     "RuntimeError: level_zero backend failed with error: 39 "
     "(UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)"},
    {"cuda_oom",
     "W tensorflow/core/framework/op_kernel.cc:1830] OP_REQUIRES failed at "
     "constant_op.cc:79 : INTERNAL: Dst tensor is not initialized."},
    {"nan_loss", "Loss is nan, stopping training"},
    {"nan_loss", "training diverged: loss = nan at step 912"},
    {"port_in_use",
     "RuntimeError: UNKNOWN:No address added out of total 2 resolved for "
     "'10.1.1.1:1234'"},
    {"nccl_ib_error",
     "ib_md.c:1190 UCX ERROR ibv_reg_mr(length=4096) failed: Cannot allocate memory : Please set "
     "max locked memory (ulimit -l) to 'unlimited' (current: 64 kbytes)"},
    {"preempted_signal", "Preemption notice: this VM ends in 30 s", 143},
    {"preempted_signal", "got a preemption notice from the metadata server", 143},
    {"preempted_signal", "Received preemption signal, saving a checkpoint", 143},
    {"preempted_signal", "Preemption notice received", 143},
    {"preempted_signal", "protoPayload.methodName: compute.instances.preempted", std::nullopt},
    {"preempted_signal", "\"methodName\": \"v1.compute.instances.preempted\"", std::nullopt},
};

TEST(Remarks, WhatEndsTheRunIsNamed) {
  for (const Snippet& snippet : kEnds)
    EXPECT_EQ(Of(snippet.log, snippet.exit_code).label, snippet.label) << snippet.log;
}

// The server answers again, too late for who waited for it.
TEST(Outage, ThatEndedTheRunIsNotForgotten) {
  const std::string lost = "step 1 loss 2\n[812.1] nfs: server fs01 not responding, still trying\n";
  const std::string back = "[1499.0] nfs: server fs01 OK\n";
  EXPECT_EQ(Of(lost + std::string(kTimeout) + back, 134).label, "storage_io");
  EXPECT_EQ(Of(lost + std::string(kTraceback) +
               "RuntimeError: DataLoader timed out after 120 seconds\n" + back)
                .label,
            "storage_io");
  EXPECT_EQ(
      Of("[9.1] nfs: server st1 not responding, timed out\n[99.1] nfs: server st1 OK\n").label,
      "storage_io");
  EXPECT_EQ(Of(lost + back + "phase two\n" + std::string(kTimeout), 134).label, "nccl_timeout");
  EXPECT_EQ(Of(lost + back + std::string(kTraceback) + "KeyError: 'lr'\n").label,
            "python_exception");
  EXPECT_EQ(Of(lost + back, std::nullopt).label, "none");
}

TEST(Outage, OfTheKernelsLinesIsBehindItsTimeouts) {
  NodeEvidence node;
  node.exit_code = 134;
  node.kernel_lines = {"nfs: server fs01 not responding, still trying", "nfs: server fs01 OK"};
  EXPECT_EQ(Diagnose(kTimeout, node, Table()).label, "storage_io");
  node.exit_code = 1;
  EXPECT_EQ(Diagnose(Log(kTraceback, "KeyError: 'lr'\n"), node, Table()).label, "python_exception");
  node.exit_code = 0;
  EXPECT_EQ(Diagnose("done\n", node, Table()).label, "none");
}

}  // namespace
}  // namespace launch
