#include "tests/unit/diagnosis/snippets.h"

namespace launch {
namespace {

constexpr Snippet kSnippets[] = {
    {"ecc", "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0", std::nullopt},
    {"ecc", "Memory failure: 0x1f2a3: Killing python:4471 due to hardware memory corruption", -7},
    {"ecc", "        Remapping Failure Occurred        : Yes", std::nullopt},
    {"xid_nvlink",
     "nvidia-nvswitch2: SXid (PCI:0000:86:00.0): 22013, Fatal, Link 30 LTSSM fault up",
     std::nullopt},
    {"ecc", "NVRM: Xid (PCI:0000:3b:00): 48, pid=1234, DBE (Double Bit Error) ECC Error detected",
     std::nullopt},
    {"ecc",
     "kernel: NVRM: Xid (PCI:0000:C1:00): 94, pid='<unknown>', name=<unknown>, Contained: LRC "
     "(0xa, 0x0). RST: No, D-RST: No",
     -6},
    {"ecc", "RuntimeError: CUDA error: uncorrectable ECC error encountered", -6},
    {"ecc", "NVRM: Xid (PCI:0004:04:00): 95, pid=77, Uncontained: FBHUB", std::nullopt},
    {"gpu_remap_pending",
     "NVRM: Xid (PCI:0000:07:00): 63, pid=900, Row Remapper: New row marked for remapping, reset "
     "gpu to activate.",
     std::nullopt},
    {"xid_gpu_hardware", "NVRM: Xid (PCI:0000:89:00): 79, pid=2911, GPU has fallen off the bus.",
     std::nullopt},
    {"xid_gpu_hardware", "Unable to determine the device handle for GPU0000:CB:00.0: Unknown Error",
     std::nullopt},
    {"xid_gpu_hardware",
     "Unable to determine the device handle for GPU 0000:18:00.0: GPU is lost.  Reboot the system "
     "to recover this GPU",
     15},
    {"xid_nvlink",
     "NVRM: Xid (PCI:0000:4e:00): 74, pid=1, NVLink: fatal error detected on link 6(0x10000, 0x0)",
     std::nullopt},
    {"xid_nvlink",
     "[ 911.1] NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 08",
     std::nullopt},
    {"xid_gsp",
     "NVRM: Xid (PCI:0000:18:00): 119, pid=881, name=python, Timeout after 6s of waiting for RPC "
     "response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL)",
     std::nullopt},
    {"xid_gsp", "NVRM: Xid (PCI:0000:18:00): 120, GSP task exception: load page fault (cause:0xd)",
     std::nullopt},
    {"xid_gsp",
     "NVRM: _kgspIsHeartbeatTimedOut: GSP RM heartbeat timed out\nNVRM: Xid (PCI:0000:18:00): 154, "
     "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
     std::nullopt},
    {"xid_gsp",
     "NVRM: GPU6 _kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs 81 heartbeat 18",
     std::nullopt},
    {"xid_app_fault",
     "NVRM: Xid (PCI:0000:17:00): 31, pid=441, Ch 00000008, intr 10000000. MMU Fault: ENGINE "
     "GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f_10000000. Fault is of type FAULT_PDE ACCESS_TYPE_READ",
     std::nullopt},
    {"xid_app_fault",
     "NVRM: Xid (PCI:0000:17:00): 13, pid=441, Graphics SM Warp Exception on (GPC 0, TPC 1, SM 0): "
     "Out Of Range Address\nNVRM: Xid (PCI:0000:17:00): 45, pid=441",
     std::nullopt},
    {"gpu_remap_pending",
     "    Remapped Rows\n        Correctable Error                 : 1\n        Uncorrectable "
     "Error "
     "              : 3\n        Pending                           : Yes\n        Remapping "
     "Failure "
     "Occurred        : No",
     std::nullopt},
    {"xid_nvlink",
     "kernel: NVRM: Xid (PCI:0000:dc:00): 45, pid=18, name=python3, Ch 00000001 caused by previous "
     "Xid 149"},
    {"xid_app_fault",
     "kernel: NVRM: Xid (PCI:0000:dc:00): 45, pid=18, name=python3, Ch 00000001 caused by previous "
     "Xid 31"},
    {"ecc", "amdgpu 0000:c1:00.0: amdgpu: 1 uncorrectable hardware errors detected in umc block"},
    {"xid_gpu_hardware", "amdgpu 0000:c1:00.0: amdgpu: GPU reset(2) failed"},
    {"unknown",
     "RuntimeError: Unable to initialize backend 'tpu': ABORTED: The TPU is already in use by "
     "process with pid 10437. Not attempting to load libtpu.so in this process."},
};

constexpr std::string_view kBenign[] = {
    "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 4294967296, reducing to "
    "2147483648\nstep 1 loss 3.1",
    "[W reducer.cpp:1251] Warning: find_unused_parameters=True was specified in DDP constructor, "
    "but did not find any unused parameters in the forward pass.",
    "resource_tracker: There appear to be 6 leaked semaphore objects to clean up at shutdown",
    "*****************************************\nSetting OMP_NUM_THREADS environment variable for "
    "each process to be 1 in default, to avoid your system being "
    "overloaded\n*****************************************",
    "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 8812 closing signal "
    "SIGTERM",
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1.\nCompile with `TORCH_USE_CUDA_DSA` to "
    "enable device-side assertions.",
    "step 100 loss 2.1\nstep 101 loss 7.9 grad_norm 55.1\nstep 102 loss 2.2",
    "n1:1:2 [0] NCCL INFO Call to connect returned Connection refused, retrying\nn1:1:2 [0] NCCL "
    "INFO Connected all rings\nstep 1 loss 2.0",
    "n1:1:2 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.2<0>\nn1:1:2 [0] NCCL INFO NET/Plugin : No "
    "plugin found (libnccl-net.so), using internal implementation\nn1:1:2 [0] NCCL INFO NET/IB : "
    "No device found.",
    "UserWarning: Failed to load image Python extension: libtorch_image.so",
    "Some weights of the model checkpoint at bert-base were not used when initializing: "
    "['cls.bias']",
    "Using the `WANDB_DISABLED` environment variable is deprecated. wandb: WARNING Network error "
    "(ConnectionError), entering retry loop.",
    "flash_attn is not installed, falling back to eager attention",
    "Map (num_proc=8): 100%|##########| 1000/1000 [00:01<00:00, 801.11 examples/s]\n{'loss': 2.1, "
    "'epoch': 0.1}",
    "Evaluating: 100%|##########| 50/50 [00:05<00:00, 9.8it/s]\nSaving model checkpoint to "
    "out/checkpoint-100",
    "tensorboard: Address already in use, trying port 6007",
    "max_split_size_mb can be set to avoid out of memory errors",
    "{'loss': nan}\n{'loss': 2.0}",
    "INFO: Attempting restart; max_restarts=3, Error handling enabled",
    "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0",
    "Bypassing SIGTERM: 15",
    " iteration 10/ 100 | lm loss: 2.1E+00 | number of skipped iterations: 0 | number of nan "
    "iterations: 0 |",
    "/usr/bin/ld: cannot find -laio: No such file or directory\ncollect2: error: ld returned 1 "
    "exit status\n [WARNING]  async_io requires the dev libaio .so object and headers",
    "Could not load dynamic library 'libnvinfer.so.7'; dlerror: libnvinfer.so.7: cannot open "
    "shared object file: No such file or directory",
    "UserWarning: Failed to load image Python extension: '/opt/v/image.so: undefined symbol: _ZN3'",
    "'(MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded "
    "with url: /x\"))' thrown while requesting HEAD https://huggingface.co/x\nstep 1 loss 2.0",
    "[W1120 10:11:12.131 socket.cpp:759] [c10d] The client socket has failed to connect to "
    "[n1]:29500 (errno: 111 - Connection refused).\nstep 1 loss 2.0",
    "[W1120 10:11:12.131 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=3): Failed to "
    "recv, got 0 bytes. Connection was likely closed.",
    "rm: cannot remove 'old.log': No such file or directory\nstep 1 loss 2.0",
    "GPU 0: ECC errors volatile 0, uncorrectable 0; remapped rows pending: No",
    "    Remapped Rows\n        Correctable Error                 : 0\n        Uncorrectable Error "
    "              : 0\n        Pending                           : No",
    "Could not load the optional kernels: libcublasLt.so.11: cannot open shared object file: No "
    "such file or directory",
    "n1:1:2 [0] NCCL INFO NET/Plugin: Plugin load returned 2 : libnccl-net.so: cannot open shared "
    "object file: No such file or directory : when loading libnccl-net.so",
    "n1:1:2 [0] ofi_init:230 NCCL WARN NET/OFI Unable to find a protocol that worked.  Failing "
    "initialization.\nn1:1:2 [0] NCCL INFO Using network Socket",
    "statsd: [Errno 111] connection refused, metrics disabled",
    "Warning: tf32 is not supported on this device, using fp32 instead",
    "df: /root/.triton/autotune: No such file or directory",
    "cp: cannot stat 'extra.yaml': No such file or directory",
    "Couldn't reach the Hub, using the cached version of 'squad'",
    "/opt/v/check.py:9: UserWarning: could not ask for the newest version: <urlopen error [Errno "
    "101] Network is unreachable>",
    "INFO:absl:Unable to initialize backend 'cuda': not found",
    "Process finished with exit code 0",
    "2026-01-01 00:00:00.1 I external/tsl/platform/subprocess.cc:304] Start cannot spawn child "
    "process: No such file or directory",
    "composer.trainer.trainer: CUDA out of memory detected. Train microbatch size will be "
    "decreased from 16 -> 8.\n[batch=1/4800]:\n	 Train loss/train/total: 11.0412",
    "[81201.118] nfs: server store01 not responding, still trying\n[81219.511] nfs: server store01 "
    "OK",
    "COMET WARNING: Failed to send metrics, connection error: "
    "HTTPSConnectionPool(host='www.comet.com', port=443): Read timed out. (read timeout=10)",
    "/opt/v/bitsandbytes/libbitsandbytes_cpu.so: undefined symbol: cadam32bit_grad_fp32",
    "Warning: no commit known: Command '['git', 'rev-parse', 'HEAD']' returned non-zero exit "
    "status 128.",
    "[932.1] nvme nvme0: I/O 12 QID 3 timeout, completion polled",
    "Unable to write .pyc: [Errno 30] Read-only file system: '/opt/conda/lib/__pycache__'",
    "/bin/sh: 1: lspci: not found",
    "./run.sh: line 3: nvidia-smi: command not found",
    "Removing corrupt checkpoint /out/ckpt-900 of an earlier run",
    "W1024 01:17:10.936000 1404 torch/_dynamo/convert_frame.py:1009] WON'T CONVERT forward m.py "
    "line 88\nW1024 01:17:10.936000 1404 torch/_dynamo/convert_frame.py:1009] due to:\nW1024 "
    "01:17:10.936000 1404 torch/_dynamo/convert_frame.py:1009] Traceback (most recent call "
    "last):\nW1024 01:17:10.936000 1404 torch/_dynamo/convert_frame.py:1009] NameError: name 's4' "
    "is not defined",
    "./train.sh: line 31:  4121 Killed                  tensorboard --logdir runs\nEpoch [12/90] "
    "loss 2.311 acc1 51.1\nEpoch [13/90] loss 2.290 acc1 51.6",
    "amdgpu 0000:c1:00.0: amdgpu: 0 uncorrectable hardware errors detected in umc block",
};

}  // namespace

std::span<const Snippet> HardwareSnippets() { return kSnippets; }
std::span<const std::string_view> BenignLogs() { return kBenign; }

}  // namespace launch
