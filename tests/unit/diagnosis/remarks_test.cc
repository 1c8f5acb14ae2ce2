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
    "./run.sh: line 3: nvidia-smi: command not found",
    "reward worker 3: /tmp/sol_8812.cpp:3:5: error: 'foo' was not declared in this scope",
    "checking for fopen64: conftest.c:12:10: error: unknown type name 'off64_t'",
    "checking for x.h: conftest.c:12:10: fatal error: x.h: No such file or directory",
    "step 120 exceeded memory limit (81234 > 80000), cache cleared",
    "val error: 0.12; Checkpoint best.pt does not exist yet, saved as the first one",
    "No error: Checkpoint /out/last does not exist yet",
    "on_error: resume; Checkpoint directory /out does not exist, begins at step 0",
    "AuthorizationPermissionMismatch on the listing of containers: the one given by name is used",
    "Stream synchronize timeout is set to 1800 s",
    "Getting socket times out after 120 s by default (HCCL_CONNECT_TIMEOUT)",
    "[PID: 77] cache: Failed to allocate memory. Smaller one taken.",
    "Note: No XPU devices are available, running on CUDA",
    "No HIP GPUs are available here; CUDA it is",
    "Horovod has been shut down, all ranks finished",
    "stalled for longer than 60 seconds. Will shutdown is disabled",
    "/opt/v/bitsandbytes/libbitsandbytes_cpu.so: undefined symbol: cadam32bit_grad_fp32",
    "Removing corrupt checkpoint /out/ckpt-900 of an earlier run",
    "WARNING:jax: libtpu.so already in use by another process, CPU is taken",
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
    "Port 8265 is already in use by another dashboard",
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
    "/v/site-packages/x.py:12: UserWarning: ",
    "[rank3]: /v/site-packages/x.py:12: RuntimeWarning: ",
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

// Features, kinds and counts of GPUs: the program says nothing of whether torch sees one.
TEST(NoGpu, IsSaidOfTorchAndCudaOnly) {
  for (const char* error :
       {"RuntimeError: CUDA is not available.", "ValueError: device=cuda but CUDA is not available",
        "ValueError: Invalid device: cuda:0 (CUDA is not available)",
        "RuntimeError: PyTorch CUDA is not available on this node", "Exception: GPU not available",
        "AssertionError: No GPU found", "RuntimeError: No CUDA GPUs found, one is needed"})
    EXPECT_EQ(Of(std::string(kTraceback) + error + "\n").label, "torch_cpu_only") << error;
  for (const char* error :
       {"RuntimeError: Flash attention on GPUs is not available for head dim 512",
        "NotImplementedError: fp8 matmul on this GPU is not available, needs sm_89",
        "RuntimeError: P2P between these GPUs is not available",
        "ValueError: GPUs are not available: asked for 8, the pool has 4 free",
        "ValueError: no GPU device found with 80 GB, all 4 have 40 GB",
        "RuntimeError: No CUDA device found with index 7",
        "RuntimeError: No devices found on the audio bus",
        "ValueError: expected H100 but no GPU found with that name"})
    EXPECT_EQ(Of(std::string(kTraceback) + error + "\n").label, "python_exception") << error;
  EXPECT_EQ(
      Of(std::string(kTraceback) +
         "ImportError: the fused kernel with CUDA is not available: No module named 'apex_C'\n")
          .label,
      "python_import");
}

// Lines with a reward are steps where they have its number and that of a step.
TEST(Rewards, OfNoStepForgiveNothing) {
  const std::string oom = std::string(kTraceback) +
                          "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 "
                          "GiB.\n";
  for (const char* line :
       {"report: {'reward': 0.5}", "step 12 actor 3: reward . not computed",
        "step 12: no reward ... waiting", "steps 100, eval every 5, reward = 1.0"})
    EXPECT_EQ(Of(oom + EachLine(std::string(line) + "\n" + line, "", "\n"), std::nullopt).label,
              "cuda_oom")
        << line;
  const std::string error = std::string(kTraceback) + "KeyError: 'x'\n";
  for (const char* line : {"{'reward': 0.5, 'step': 12}", "{'epoch': 0.1, 'reward': -0.5}",
                           "step 12 | reward/mean 0.31", "iter 12: reward = 3"})
    EXPECT_EQ(Of(error + EachLine(std::string(line) + "\n" + line, "", "\n"), std::nullopt).label,
              "none")
        << line;
}

// Names that trackers share with models, hosts and servers, and codes of others.
TEST(Names, ShareNoVerdict) {
  const struct {
    const char* label;
    const char* error;
  } kErrors[] = {
      {"hub_offline",
       "urllib.error.URLError: <urlopen error [Errno 110] Connection timed out> for "
       "wmt22-comet-da"},
      {"hub_offline",
       "requests.exceptions.HTTPError: 503 Server Error: Service Unavailable for url: "
       "https://huggingface.co/Unbabel/wmt22-comet-da/resolve/main/x"},
      {"python_exception", "werkzeug.exceptions.Forbidden: 403 Forbidden: no"},
      {"permission", "google.api_core.exceptions.Forbidden: 403 GET https://storage/b"},
      {"lib_abi_mismatch",
       "AttributeError: /v/bitsandbytes/libbitsandbytes_cpu.so: undefined "
       "symbol: cget_col_row_stats"},
      {"lib_abi_mismatch", "NameError: name 'str2optimizer32bit' is not defined"},
      {"python_exception", "OSError: [Errno 107] Transport endpoint is not connected"},
      {"storage_io", "OSError: [Errno 107] Transport endpoint is not connected: '/gcs/x'"},
      {"storage_io", "OSError: [Errno 30] Read-only file system: '/repo/pkg/__pycache__'"},
      {"checkpoint_corrupt",
       "RuntimeError: Skipping corrupt checkpoint is off: corrupt checkpoint "
       "/x/9"},
      {"python_exception", "solver.errors.AlgorithmError: did not converge in 100 iterations"},
      {"python_exception", "ValueError: Validation of rows: Failed Reason: column 3 is text"},
      {"python_exception",
       "RuntimeError: qdrant: HTTP status server error (503 Service "
       "Unavailable) for url (http://db:6333)"},
      {"hub_offline",
       "RuntimeError: Data processing error: CAS service error : Reqwest Error: HTTP "
       "status server error (503 Service Unavailable)"},
  };
  for (const auto& [label, error] : kErrors)
    EXPECT_EQ(Of(std::string(kTraceback) + error + "\n").label, label) << error;
}

TEST(Ends, AreReadInWarningsToo) {
  for (const char* line :
       {"WARNING:root:process 3 terminated with signal SIGKILL",
        "WARNING: worker 3: return code = -9",
        "WARNING:torch.distributed.elastic:rank 3 exited: died with <Signals.SIGKILL: 9>."})
    EXPECT_EQ(Of(line).label, "sigkill_unknown") << line;
  EXPECT_EQ(
      Of("Warning: Command '['nvidia-smi']' returned non-zero exit status 9.", std::nullopt).label,
      "none");
}

// A compiler's error is of an extension where one is built.
TEST(Compilers, AreOfExtensionsWhereABuildFails) {
  const std::string error = "/w/k.cu(12): error: identifier \"foo\" is undefined\n";
  const Verdict built =
      Of(error +
         "ninja: build stopped: subcommand failed.\nRuntimeError: Error building extension "
         "'k'\n");
  EXPECT_EQ(built.label, "deepspeed_op_build");
  EXPECT_NE(built.cause.find("identifier"), std::string::npos) << built.cause;
  EXPECT_EQ(Of(error + std::string(kTraceback) + "KeyError: 'x'\n").label, "python_exception");
  EXPECT_EQ(Of("/v/site-packages/torch/include/x.h:1:2: error: 'y' was not declared\n").label,
            "deepspeed_op_build");
  EXPECT_EQ(Of("subprocess.CalledProcessError: Command '['/usr/bin/gcc', '/tmp/tmp1/main.c', "
               "'-O3']' returned non-zero exit status 1.\n")
                .label,
            "deepspeed_op_build");
}

// Another process has the TPU: neither a port nor a fault.
TEST(Tpu, ThatIsInUseIsNoFault) {
  for (const char* error :
       {"RuntimeError: Unable to initialize backend 'tpu': ABORTED: The TPU is already in use by "
        "process with pid 10437.",
        "RuntimeError: TPU initialization failed: open(/dev/vfio/0): Device or resource busy"}) {
    const Verdict verdict = Of(std::string(kTraceback) + error + "\n");
    EXPECT_EQ(verdict.label, "unknown") << error;
    EXPECT_NE(verdict.cause.find("another process"), std::string::npos) << verdict.cause;
  }
}

TEST(Dynamo, ErrorsOfItsFileAreNoWarnings) {
  EXPECT_EQ(Of("[rank0]:E1024 01:17:10.936000 1404 torch/_dynamo/convert_frame.py:1009] "
               "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
                .label,
            "cuda_oom");
}

// Others write in between, each line has its rank in front, and a terminal cuts lines.
TEST(Tries, ThatPythonPassesOverAreSeenInNoise) {
  const std::string trace =
      "Traceback (most recent call last):\n  File \"/v/logging/__init__.py\", line 1100, in emit\n"
      "    msg = self.format(record)\n";
  const std::string chain = trace +
                            "socket.gaierror: [Errno -2] Name or service not known\n\nDuring "
                            "handling of the above exception, another exception occurred:\n\n" +
                            trace + "requests.exceptions.ConnectionError: host='api.wandb.ai'\n";
  for (const std::string& log :
       {"--- Logging error ---\n[rank5]: step 3 took 1 s\n" + trace + "TypeError: not all\n",
        "--- Logging error ---\nshard 12 is open\n" + trace + "TypeError: not all\n",
        "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f21\n"
        "c4b8a5e0>\n" +
            trace + "AssertionError: can only test a child process\n",
        "Retry attempt failed:\n" + chain}) {
    EXPECT_EQ(Of(log, std::nullopt).label, "none") << log;
    EXPECT_EQ(Of(EachLine(log, "[rank3]: ", "\n"), std::nullopt).label, "none") << log;
    EXPECT_EQ(Of(log + std::string(kTraceback) + "KeyError: 'x'\n").label, "python_exception")
        << log;
    const Verdict verdict = Of(log + "step\n" + std::string(kTraceback) + "KeyError: 'x'\n");
    EXPECT_NE(verdict.cause.find("KeyError"), std::string::npos) << verdict.cause;
  }
}

TEST(Tries, OfAnotherProgramAreItsErrors) {
  EXPECT_EQ(Of("Retry attempt failed:\n" + std::string(kTraceback) + "KeyError: 'x'\n").label,
            "python_exception");
}

constexpr std::string_view kOfGpuSoftware[] = {
    "/v/torch/cuda/__init__.py:181: UserWarning: CUDA initialization: The NVIDIA driver on your "
    "system is too old (found version 11060).",
    "UserWarning: CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 804: "
    "forward compatibility was attempted on non supported HW",
    "  RTX 5070 with CUDA capability sm_120 is not compatible with the current PyTorch "
    "installation.\nThe current PyTorch install supports CUDA capabilities sm_80 sm_90."};

// torch goes on behind them, and so may the program until something else ends it.
TEST(Warnings, OfADriverOrAGpuYieldToTheEndThatNamesItsOwnCause) {
  const std::string above(kTraceback);
  const struct {
    std::string_view label;
    std::string end;
  } kOwn[] = {{"cuda_oom",
               above + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. "
                       "GPU 0 has a total capacity of 23.6 GiB of which 1.0 GiB is free.\n"},
              {"python_exception", above + "KeyError: 'input_ids'\n"},
              {"python_exception", above + "ValueError: the data set has 3 columns, expected 4\n"},
              {"python_import", above + "ModuleNotFoundError: No module named 'einops'\n"},
              {"disk_full", above + "OSError: [Errno 28] No space left on device: 'out/last.pt'\n"},
              {"segfault",
               "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f0 (most "
               "recent call first):\n  File \"t.py\", line 4 in run\n"}};
  for (const std::string_view warning : kOfGpuSoftware)
    for (const auto& [label, end] : kOwn)
      EXPECT_EQ(Of(Log(warning, end)).label, label) << warning << end;
}

TEST(Warnings, OfADriverOrAGpuStayTheCauseOfWhatComesOfThem) {
  for (const std::string_view warning : kOfGpuSoftware) {
    const std::string alone = Of(warning).label;
    EXPECT_TRUE(alone == "cuda_driver_too_old" || alone == "driver_library_mismatch" ||
                alone == "no_kernel_image")
        << alone;
    for (const std::string_view end :
         {"RuntimeError: CUDA error: invalid argument", "RuntimeError: No CUDA GPUs are available",
          "ValueError: Your setup doesn't support bf16/gpu.",
          "RuntimeError: no accelerator was found", "AssertionError",
          "RuntimeError: \"addmm_impl_cpu_\" not implemented for 'Half'"})
      EXPECT_EQ(Of(Log(warning, std::string(kTraceback) + std::string(end))).label, alone) << end;
    EXPECT_EQ(Of("[rank1]: " + Log(warning,
                                   "[rank0]: Traceback (most recent call last):\n[rank0]:   "
                                   "File \"t.py\", line 2, in f\n[rank0]: RuntimeError: "
                                   "NCCL error: unhandled cuda error"))
                  .label,
              alone);
    const std::string before = std::string(kTraceback) + "KeyError: 'lr'\n";
    EXPECT_EQ(Of(Log(before, warning)).label, alone);
  }
}

TEST(Warnings, AdviceForAnErrorIsNoError) {
  const std::string advice =
      "  warn(\"If you get `CUDA error: invalid device function`, keep only one of the paths "
      "above\")";
  EXPECT_EQ(Of(advice, std::nullopt).label, "none");
  EXPECT_EQ(Of(Log("RuntimeError: CUDA error: invalid device ordinal", advice)).label,
            "invalid_device_ordinal");
  EXPECT_EQ(Of(Log(advice, std::string(kTimeout)), 134).label, "nccl_timeout");
  EXPECT_EQ(Of(Log(advice, "RuntimeError: CUDA error: invalid device function")).label,
            "no_kernel_image");
}

constexpr std::string_view kLastTry =
    "n7:90:95 [2] NCCL INFO socketPollConnect: connect returned No route to host, retrying (34/34) "
    "after sleep for 3400 msec\n";
constexpr std::string_view kHubTry =
    "'(ConnectTimeoutError(\"host='huggingface.co'\"))' thrown while requesting HEAD "
    "https://huggingface.co/org/model/resolve/main/config.json\n";

// What failed then, nobody says.
TEST(Retries, ThatRanOutAreTheEndOfAFailedRun) {
  EXPECT_EQ(Of(kLastTry).label, "nccl_network");
  EXPECT_EQ(Of(kLastTry).action, "retry_elsewhere");
  EXPECT_EQ(Of(std::string(kLastTry) +
               "torch.distributed.DistBackendError: NCCL error\nncclRemoteError: A call failed "
               "possibly due to a network error or a remote process exiting prematurely.")
                .label,
            "nccl_network");
  EXPECT_EQ(Of(kHubTry).label, "hub_offline");
  EXPECT_EQ(Of(std::string(kHubTry) + "Retrying in 8s [Retry 5/5].\n").label, "hub_offline");
  EXPECT_EQ(Of(kHubTry, 137).label, "sigkill_unknown");
  for (const std::string_view retry : {kLastTry, kHubTry}) {
    EXPECT_EQ(Of(retry, std::nullopt).label, "none") << retry;
    EXPECT_EQ(Of(std::string(retry) + "Retrying in 8s [Retry 5/5].", std::nullopt).label, "none");
    EXPECT_EQ(Of(std::string(retry) + "step 1 loss 2.0\nstep 2 loss 1.9\n" +
                 std::string(kTraceback) + "KeyError: 'lr'\n")
                  .label,
              "python_exception")
        << retry;
  }
}

TEST(Retries, OneOfSeveralIsBelowWhateverElseFailed) {
  const std::string first =
      "n7:90:95 [2] NCCL INFO socketPollConnect: connect returned Connection refused, retrying "
      "(1/34) after sleep for 100 msec\n";
  EXPECT_EQ(Of(first + "ncclRemoteError: A call failed possibly due to a network error or a remote "
                       "process exiting prematurely.")
                .label,
            "nccl_timeout_peer_died");
  EXPECT_EQ(Of(first, std::nullopt).label, "none");
}

TEST(LossScale, ThatStaysAtItsMinimumIsADivergedRun) {
  const std::string overflow =
      "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 1, reducing to 1\n";
  EXPECT_EQ(Of(overflow + overflow + overflow, std::nullopt).label, "nan_loss");
  EXPECT_EQ(Of(overflow + overflow, 1).label, "nan_loss");
  EXPECT_EQ(Of(overflow, std::nullopt).label, "none");
  EXPECT_EQ(
      Of(overflow + overflow + "step 8 loss 2.0\nstep 9 loss 1.9\n" + std::string(kTimeout), 134)
          .label,
      "nccl_timeout");
  EXPECT_EQ(Of(overflow + overflow, 0).label, "none");
  EXPECT_EQ(
      Of(overflow + overflow + "step 8 loss 2.0\nstep 9 loss 1.9\nstep 10 loss 1.8\n", std::nullopt)
          .label,
      "none");
}

// It may be what ended the run, and forbids nothing.
TEST(Warnings, AloneAreSymptoms) {
  const Verdict verdict = Of("WARNING: [Errno 28] No space left on device, nothing is saved");
  EXPECT_EQ(verdict.label, "disk_full");
  EXPECT_EQ(verdict.confidence, Confidence::kSymptom);
}

constexpr Snippet kEnds[] = {
    {"torch_cpu_only",
     "Config use_gpu cannot be set as true while you are using paddlepaddle cpu version !"},
    {"nccl_timeout_peer_died",
     "horovod.common.exceptions.HorovodInternalError: Horovod has been "
     "shut down. This has been caused by an exception on one of the ranks"},
    {"host_oom_kill", "slurmstepd: error: Step 11.0 exceeded memory limit (90 > 80)", 137},
    {"host_oom_kill", "Job 7 exceeded memory limit (90 > 80), being killed", 137},
    {"rendezvous_timeout", "EI0006: [PID: 12] Getting socket times out. Reason: no answer"},
    {"nccl_timeout", "[ERROR] EE9999: Stream synchronize timeout, stream 3"},
    {"cuda_oom", "gpu07: EL0004: [PID: 12] 2025-04-08-18:07:20.444 Failed to allocate memory."},
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
