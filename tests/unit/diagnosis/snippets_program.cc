#include "tests/unit/diagnosis/snippets.h"

namespace launch {
namespace {

constexpr Snippet kSnippets[] = {
    {"segfault", "/usr/bin/bash: line 1: 4411 Illegal instruction     (core dumped) python a.py",
     132},
    {"segfault", "", -4},
    {"segfault",
     "epoch 2: loss 0.31\nterminate called without an active exception\n"
     "Fatal Python error: Aborted\n\nThread 0x00007f11 (most recent call first):\n"
     "  <no Python frame>",
     -6},
    {"too_many_open_files", "RuntimeError: can't start new thread"},
    {"too_many_open_files",
     "OpenBLAS blas_thread_init: pthread_create failed for thread 63 of 128: Resource temporarily "
     "unavailable\nOpenBLAS blas_thread_init: RLIMIT_NPROC 4096 current, 4096 max"},
    {"too_many_open_files", "bash: fork: retry: Resource temporarily unavailable"},
    {"permission",
     "huggingface_hub.errors.GatedRepoError: 403 Client Error. (Request ID: Root=1-2)"},
    {"permission", "botocore.exceptions.NoCredentialsError: Unable to locate credentials"},
    {"checkpoint_corrupt",
     "FileNotFoundError: [Errno 2] No such file or directory: '/ckpt/step-500/.metadata'"},
    {"file_not_found",
     "ValueError: Could not find the config file at /root/.cache/accelerate/default_config.yaml"},
    {"unknown",
     "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx( handle, "
     "opa, opb, m, n, k, &falpha, a, CUDA_R_16BF)`"},
    {"unknown", "RuntimeError: cuFFT error: CUFFT_INTERNAL_ERROR"},
    {"python_exception",
     "Traceback (most recent call last):\n  File \"train.py\", line 41, in <module>\n    main()\n  "
     "File \"train.py\", line 30, in main\n    loss = f(x)\nValueError: expected sequence of "
     "length 5 at dim 1 (got 7)"},
    {"python_exception",
     "Traceback (most recent call last):\n  File \"train.py\", line 41, in <module>\n    assert n "
     "== 4\nAssertionError"},
    {"python_exception",
     "RuntimeError: mat1 and mat2 shapes cannot be multiplied (64x512 and 768x10)"},
    {"python_exception",
     "[rank1]: KeyError: "
     "'labels'\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError: \nRoot Cause "
     "(first observed failure):\n  rank      : 1 (local_rank: 1)\n  exitcode  : 1 (pid: 8)"},
    {"python_exception",
     "hydra.errors.ConfigCompositionException: Could not override 'model.size'"},
    {"file_not_found", "FileNotFoundError: [Errno 2] No such file or directory: '/data/train.bin'"},
    {"file_not_found",
     "python: can't open file '/home/u/trian.py': [Errno 2] No such file or directory", 2},
    {"file_not_found", "/bin/bash: line 1: deepspeed: command not found", 127},
    {"permission", "PermissionError: [Errno 13] Permission denied: '/shared/cache/hub'"},
    {"permission", "bash: ./train.sh: Permission denied", 126},
    {"disk_full", "OSError: [Errno 28] No space left on device"},
    {"disk_full",
     "RuntimeError: [enforce fail at inline_container.cc:595] . unexpected pos 2147483712 vs "
     "2147483606"},
    {"disk_full",
     "RuntimeError: [enforce fail at inline_container.cc:471] . PytorchStreamWriter failed writing "
     "file data/12: file write failed"},
    {"disk_full", "OSError: [Errno 122] Disk quota exceeded: 'out/step_100.pt'"},
    {"disk_full",
     "safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 28, kind: "
     "StorageFull, message: \"No space left on device\" })"},
    {"checkpoint_corrupt",
     "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central "
     "directory"},
    {"checkpoint_corrupt",
     "RuntimeError: PytorchStreamReader failed reading zip archive: invalid header or archive is "
     "corrupted"},
    {"checkpoint_corrupt",
     "safetensors_rust.SafetensorError: Error while deserializing header: "
     "MetadataIncompleteBuffer"},
    {"checkpoint_corrupt", "EOFError: Ran out of input"},
    {"checkpoint_corrupt", "_pickle.UnpicklingError: pickle data was truncated"},
    {"storage_io", "OSError: [Errno 116] Stale file handle: '/nfs/data/shard-00012.tar'"},
    {"storage_io", "OSError: [Errno 5] Input/output error"},
    {"storage_io", "OSError: [Errno 30] Read-only file system: '/scratch/out'"},
    {"storage_io",
     "kernel: blk_update_request: I/O error, dev nvme1n1, sector 188291\nkernel: Buffer I/O error "
     "on dev nvme1n1p1",
     std::nullopt},
    {"too_many_open_files", "OSError: [Errno 24] Too many open files: '/data/x.npy'"},
    {"too_many_open_files",
     "RuntimeError: Too many open files. Communication with the workers is no longer possible. "
     "Please increase the limit using `ulimit -n` in the shell or change the sharing strategy by "
     "calling `torch.multiprocessing.set_sharing_strategy('file_system')` at the beginning of your "
     "code"},
    {"too_many_open_files", "RuntimeError: received 0 items of ancdata"},
    {"hub_offline",
     "OSError: We couldn't connect to 'https://huggingface.co' to load this file, couldn't find it "
     "in the cached files and it looks like gpt2 is not the path to a directory containing a file "
     "named config.json."},
    {"hub_offline",
     "huggingface_hub.utils._errors.LocalEntryNotFoundError: An error happened while trying to "
     "locate the file on the Hub and we cannot find the requested files in the local cache."},
    {"hub_offline",
     "requests.exceptions.ConnectionError: "
     "(MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded "
     "with url: /bert (Caused by NewConnectionError('<urllib3.connection.HTTPSConnection object>: "
     "Failed to establish a new connection: [Errno 101] Network is unreachable'))\"))"},
    {"hub_offline", "ConnectionError: Couldn't reach 'wikitext' on the Hub (OfflineModeIsEnabled)"},
    {"device_side_assert",
     "../aten/src/ATen/native/cuda/Indexing.cu:1289: indexSelectLargeIndex: block: [91,0,0], "
     "thread: [64,0,0] Assertion `srcIndex < srcSelectDimSize` failed.\nRuntimeError: CUDA error: "
     "device-side assert triggered"},
    {"device_side_assert",
     "/pytorch/aten/src/ATen/native/cuda/Loss.cu:250: nll_loss_forward_reduce_cuda_kernel_2d: "
     "block: [0,0,0], thread: [3,0,0] Assertion `t >= 0 && t < n_classes` failed."},
    {"cuda_illegal_access", "RuntimeError: CUDA error: an illegal memory access was encountered"},
    {"cuda_illegal_access", "RuntimeError: CUDA error: unspecified launch failure", -6},
    {"cuda_illegal_access", "RuntimeError: CUDA error: misaligned address"},
    {"segfault",
     "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f (most recent call first):",
     -11},
    {"segfault",
     "[12.3] python[811]: segfault at 18 ip 00007f11 sp 00007ffe error 4 in "
     "libtorch_cpu.so[7f00+1000]",
     139},
    {"segfault",
     "  rank      : 0 (local_rank: 0)\n  exitcode  : -11 (pid: 71)\n  traceback : Signal 11 "
     "(SIGSEGV) received by PID 71",
     1},
    {"segfault", "", 245},
    {"nan_loss",
     "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting "
     "run."},
    {"nan_loss",
     "FloatingPointError: Minimum loss scale reached (0.0001). Your loss is probably exploding."},
    {"nan_loss", "Loss is nan, stopping training"},
    {"nan_loss",
     "{'loss': nan, 'learning_rate': 1e-5}\n{'loss': nan, 'learning_rate': 1e-5}\n{'loss': nan, "
     "'learning_rate': 1e-5}"},
    {"preempted_signal",
     "slurmstepd: error: *** JOB 991 ON gpu01 CANCELLED AT 2024-05-01T03:00:00 DUE TO TIME LIMIT "
     "***",
     143},
    {"preempted_signal",
     "slurmstepd: error: *** STEP 991.0 ON gpu01 CANCELLED AT 2024-05-01T03:00:00 DUE TO "
     "PREEMPTION ***",
     143},
    {"preempted_signal",
     "WARNING:torch.distributed.elastic.agent.server.api:Received 1 death signal, shutting down "
     "workers\nWARNING:torch.distributed.elastic.multiprocessing.api:Sending process 7 closing "
     "signal SIGHUP"},
    {"preempted_signal",
     "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4411 got signal: 1"},
    {"preempted_signal", "step 3 loss 1.0", 143},
    {"python_exception",
     "train.py FAILED\nRoot Cause (first observed failure):\n[0]:\n  rank      : 0 (local_rank: "
     "0)\n"
     "  exitcode  : 1 (pid: 77)\n  error_file: <N/A>"},
    {"nan_loss",
     "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 1.1e-35\n"
     "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 0.0\n"},
    {"preempted_signal",
     "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4411 got signal: 15"},
    {"hub_offline", "httpx.ConnectError: [Errno -3] Temporary failure in name resolution"},
    {"unknown", "step 3 loss 1.0", 3},
    {"unknown", "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", 1},
    {"unknown",
     "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:410, unhandled system error, NCCL version "
     "2.4.8",
     1},
    {"nan_loss", "FloatingPointError: invalid value (nan) encountered in jit(loss_fn)"},
    {"cuda_illegal_access",
     "Memory access fault by GPU node-2 (Agent handle: 0x7e10) on address 0x7f0000. Reason: "
     "Unknown.",
     134},
    {"cuda_illegal_access",
     ":0:rocdevice.cpp:2786: Callback: Queue 0x7f aborting with error : "
     "HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION: The agent attempted to access memory beyond",
     134},
    {"python_exception",
     "Error executing job with overrides: ['data=c4']\nError in call to target "
     "'src.data.C4':\nValueError(\"no shard\")\nfull_key: data"},
    {"hub_offline",
     "OSError: Can't load image processor for 'acme/vit'. If you were trying to load it from "
     "'https://huggingface.co/models', make sure you don't have a local directory with the same "
     "name."},
    {"permission",
     "OSError: PermissionError at /cache/hub when downloading acme/vit. Check cache directory "
     "permissions."},
    {"segfault", "Process finished with exit code 139 (interrupted by signal 11: SIGSEGV)"},
    {"segfault", "Process finished with exit code -1073741819 (0xC0000005)"},
    {"sigkill_unknown",
     "Child process with PID 71 terminated with code -9. Forcefully terminating all other "
     "processes to avoid zombies"},
    {"checkpoint_corrupt", "RuntimeError: storage has wrong size: expected 8 got 4096"},
    {"device_side_assert",
     "Error: ../paddle/phi/kernels/gpu/cross_entropy_kernel.cu:1010 Assertion `lbl < dim` failed. "
     "The value of label expected to be less than 10"},
    {"nan_loss",
     "tensorflow.python.framework.errors_impl.InvalidArgumentError: Gradient for encoder/kernel:0 "
     "is NaN : Tensor had NaN values"},
    {"nan_loss", "RuntimeError: the loss became nan, aborting"},
    {"nan_loss", "Training stopped: loss is inf or nan for 10 consecutive steps"},
    {"preempted_signal",
     "W1016 06:21:18.872000 1400 torch/distributed/elastic/agent/server/api.py:688] Received "
     "Signals.SIGINT death signal, shutting down workers"},
    {"preempted_signal",
     "W0616 01:23:35.651000 4086 torch/distributed/elastic/agent/server/api.py:719] Received "
     "Signals.SIGTERM death signal, shutting down workers"},
    {"hub_offline",
     "RuntimeError: Downloading from https://host.example/models/resnet50.pdparams failed. Retry "
     "limit reached"},
    {"hub_offline",
     "modelscope.hub.errors.NotExistError: The model: acme/m9 has no revision: master"},
    {"permission",
     "google.api_core.exceptions.Forbidden: 403 GET https://storage.example/b/x: the account may "
     "not read it"},
    {"file_not_found", "AssertionError: Path /data/coco does not exist!"},
    {"file_not_found",
     "hydra.errors.MissingConfigException: Cannot find primary config 'trainn'. Check that it's in "
     "your config search path."},
    {"checkpoint_corrupt",
     "tensorflow.python.framework.errors_impl.DataLossError: Unable to open table file "
     "/ckpt/model.ckpt-100: Data loss: not an sstable (bad magic number)"},
    {"checkpoint_corrupt",
     "ValueError: NOT_FOUND: Error opening \"zarr\" driver: Metadata at local file "
     "\"/ckpt/w/.zarray\" does not exist"},
    {"hub_offline",
     "RuntimeError: Data processing error: CAS service error : Reqwest Error: HTTP status client "
     "error (429 Too Many Requests), domain: https://cas.example/reconstructions/0d1bd"},
    {"file_not_found",
     "ValueError: No file with name: model-00001-of-00001.safetensors found in /data/out."},
    {"nan_loss", "ValueError: Training diverged: loss=nan at iteration 411"},
    {"preempted_signal",
     "slurmstepd: error: *** JOB 81 ON n1 CANCELLED AT 2024-01-01T00:00:00 DUE to SIGNAL "
     "Terminated ***"},
    {"preempted_signal", "Warning  Preempted  pod/train-0  Preempted by pod 0a1b on node gpu1"},
    {"nan_loss", "RuntimeError: Training loss became NaN. This may be due to invalid parameters."},
    {"python_exception", "RuntimeError: NaN detected in latents: /data/image/150_car/car_0001.png"},
    {"segfault",
     "ValueError: Error training job-2019-05-02-11-29-42-401: Failed Reason: "
     "AlgorithmError: Exit Code: 139"},
    {"sigkill_unknown",
     "sagemaker.exceptions.UnexpectedStatusException: Error for Training job j1: Failed. Reason: "
     "AlgorithmError: Exit Code: 137"},
    {"preempted_signal",
     "main|node001|W|job 48.1 exceeded hard wallclock time - initiate terminate method"},
    {"segfault",
     "subprocess.CalledProcessError: Command '['python.exe', 'train.py']' returned non-zero exit "
     "status 3221225477."},
    {"unknown",
     "(raylet) A worker died or was killed while executing a task by an unexpected system error. "
     "Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a "
     "connection error code 2. End of file. Some common causes include: (1) the process was killed "
     "by the OOM killer due to high memory usage, (2) ray stop --force was called, or (3) the "
     "worker crashed unexpectedly due to SIGSEGV or another unexpected error."},
};

}  // namespace

std::span<const Snippet> ProgramSnippets() { return kSnippets; }

}  // namespace launch
