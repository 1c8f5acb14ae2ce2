#include "tests/unit/diagnosis/snippets.h"

namespace launch {
namespace {

constexpr Snippet kSnippets[] = {
    {"cuda_oom",
     "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"},
    {"host_oom_kill",
     "RuntimeError: Caught RuntimeError in pin memory thread for device 0.\nOriginal Traceback "
     "(most "
     "recent call last):\n  File \"/v/torch/utils/data/_utils/pin_memory.py\", line 32, in "
     "do_one_step\n    data = pin_memory(data, device)\nRuntimeError: CUDA error: out of memory"},
    {"host_oom_kill", "OSError: [Errno 12] Cannot allocate memory"},
    {"cuda_oom",
     R"(RuntimeError: CUDA out of memory. Tried to allocate 2.50 GiB (GPU 0; 10.76 GiB total capacity; 7.10 GiB already allocated; 1.02 GiB free; 96.00 MiB cached))"},
    {"cuda_oom",
     R"(RuntimeError: CUDA out of memory. Tried to allocate 1.95 GiB (GPU 3; 31.75 GiB total capacity; 29.10 GiB already allocated; 310.00 MiB free; 29.90 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF)"},
    {"cuda_oom",
     R"(torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 896.00 MiB. GPU 1 has a total capacty of 79.15 GiB of which 130.25 MiB is free. Process 211 has 79.02 GiB memory in use. Of the allocated memory 77.91 GiB is allocated by PyTorch, and 181.33 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting max_split_size_mb to avoid fragmentation.)"},
    {"cuda_oom",
     R"([rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1024.00 MiB. GPU 2 has a total capacity of 39.38 GiB of which 512.00 MiB is free. Including non-PyTorch memory, this process has 38.86 GiB memory in use. Of the allocated memory 38.01 GiB is allocated by PyTorch, with 64.00 MiB allocated in private pools (e.g., CUDA Graphs), and 205.10 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.)"},
    {"cuda_oom",
     "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported "
     "at some other API call"},
    {"cuda_oom",
     "RuntimeError: cuda runtime error (2) : out of memory at "
     "/pytorch/aten/src/THC/generic/THCStorage.cu:58"},
    {"cuda_oom",
     "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"},
    {"cuda_oom",
     "gpu7:910:1022 [0] include/alloc.h:48 NCCL WARN Cuda failure 'out of memory'\nRuntimeError: "
     "NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp, unhandled cuda error, NCCL "
     "version 2.14.3"},
    {"cuda_oom",
     "RuntimeError: MPS backend out of memory (MPS allocated: 16.80 GB, other allocations: 1.10 "
     "GB, max allowed: 18.13 GB). Tried to allocate 512.00 MB on private pool."},
    {"cuda_oom",
     "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
     "capacity of 63.98 GiB of which 1.10 GiB is free."},
    {"cuda_oom",
     "torch.cuda.OutOfMemoryError: Allocation on device 0 would exceed allowed memory. (out of "
     "memory)\nCurrently allocated     : 21.00 GiB\nRequested               : 4.00 GiB\nDevice "
     "limit            : 23.69 GiB"},
    {"cuda_oom_fragmentation",
     R"(torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.10 GiB. GPU 0 has a total capacity of 47.40 GiB of which 1.10 GiB is free. Process 77 has 46.20 GiB memory in use. Of the allocated memory 37.00 GiB is allocated by PyTorch, and 8.60 GiB is reserved by PyTorch but unallocated.)"},
    {"cuda_oom_fragmentation",
     R"(RuntimeError: CUDA out of memory. Tried to allocate 1.20 GiB (GPU 0; 15.78 GiB total capacity; 9.60 GiB already allocated; 470.00 MiB free; 14.10 GiB reserved in total by PyTorch))"},
    {"cuda_oom_foreign_process",
     R"(torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 23.65 GiB of which 12.75 MiB is free. Process 4012 has 21.90 GiB memory in use. Including non-PyTorch memory, this process has 1.60 GiB memory in use. Of the allocated memory 1.20 GiB is allocated by PyTorch, and 30.00 MiB is reserved by PyTorch but unallocated.)"},
    {"cuda_oom_foreign_process",
     R"(RuntimeError: CUDA out of memory. Tried to allocate 30.00 MiB (GPU 0; 7.79 GiB total capacity; 70.00 MiB already allocated; 21.00 MiB free; 74.00 MiB reserved in total by PyTorch))"},

    {"host_oom_kill",
     "[81234.5] "
     "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=job,mems_allowed=0-1,oom_memcg=/"
     "slurm/uid_1/job_7,task=python,pid=4411,uid=1000",
     137},
    {"host_oom_kill",
     "Jun  3 10:11:12 gpu04 kernel: Out of memory: Killed process 9911 (python3) total-vm:190GB, "
     "anon-rss:120GB, file-rss:4kB",
     137},
    {"host_oom_kill",
     "kernel: Memory cgroup out of memory: Kill process 771 (python) score 1982 or sacrifice child",
     -9},
    {"host_oom_kill",
     "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=99121.0. Some of your processes "
     "may have been killed by the cgroup out-of-memory handler.",
     137},
    {"host_oom_kill",
     "slurmstepd: error: Detected 3 oom_kill events in StepId=5512.batch. Some of the step tasks "
     "have been OOM Killed.\nsrun: error: gpu11: task 2: Out Of Memory",
     1},
    {"host_oom_kill",
     "    lastState:\n      terminated:\n        exitCode: 137\n        reason: OOMKilled",
     std::nullopt},
    {"host_oom_kill",
     "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't "
     "allocate memory: you tried to allocate 42949672960 bytes. Error code 12 (Cannot allocate "
     "memory)"},
    {"host_oom_kill",
     "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory."},

    {"dataloader_worker_killed",
     "RuntimeError: DataLoader worker (pid 20191) is killed by signal: Killed."},
    {"dataloader_worker_killed",
     "Traceback (most recent call last):\n  File \"train.py\", line 88, in <module>\n    for b in "
     "loader:\nRuntimeError: DataLoader worker (pid(s) 771, 772) exited unexpectedly"},
    {"dataloader_worker_killed",
     "RuntimeError: One of the subprocesses has abruptly died during map operation.To debug the "
     "error, disable multiprocessing."},

    {"shm_bus_error",
     "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient "
     "shared memory (shm).\nRuntimeError: DataLoader worker (pid 71) is killed by signal: Bus "
     "error."},
    {"shm_bus_error",
     "RuntimeError: DataLoader worker (pid 71) is killed by signal: Bus error. It is possible that "
     "dataloader's workers are out of shared memory. Please try to raise your shared memory "
     "limit."},
    {"shm_bus_error",
     "RuntimeError: unable to write to file </torch_812_3911_7>: No space left on device (28)"},
    {"shm_bus_error", "Bus error (core dumped)", 135},
    {"nccl_shm_full",
     "n1:77:99 [1] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on "
     "device"},
    {"nccl_shm_full",
     "n1:77:99 [1] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-Ab12Cd to "
     "9637892 bytes, error: No space left on device (28)\nncclSystemError: System call (e.g. "
     "socket, malloc) or external library call failed or device error."},
    {"nccl_shm_full",
     "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1331, unhandled "
     "system error, NCCL version 2.18.1\nLast error:\nError while creating shared memory segment "
     "/dev/shm/nccl-x8Kf1D (size 5767520)"},

    {"sigkill_unknown",
     "[2024-02-02 10:00:00,101] [ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python', '-u', "
     "'t.py'] exits with return code = -9",
     247},
    {"sigkill_unknown", "run.sh: line 12: 40213 Killed                  python train.py --epochs 3",
     137},
    {"sigkill_unknown", "step 10 loss 2.1\nstep 11 loss 2.0\n", -9},
    {"sigkill_unknown",
     "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \ntrain.py FAILED\nRoot "
     "Cause (first observed failure):\n[0]:\n  time      : 2024-01-01_00:00:00\n  host      : n2\n "
     " rank      : 5 (local_rank: 1)\n  exitcode  : -9 (pid: 991)\n  error_file: <N/A>\n  "
     "traceback : Signal 9 (SIGKILL) received by PID 991",
     1},
    {"cuda_oom",
     "W0810 10:52:50.697477 31331 operator.cc:242] mul raises an exception, "
     "ResourceExhaustedError: \n\nOut of memory error on GPU 0. Cannot allocate 165.586182MB "
     "memory on GPU 0, 5.866455GB memory has been allocated and available memory is only "
     "67.937500MB."},
    {"cuda_oom",
     "RuntimeError: ResourceExhaustedError: \n\nOut of memory error on GPU 2. Cannot allocate "
     "1.531250GB memory on GPU 2, available memory is only 416.625000MB."},
    {"cuda_oom",
     "tensorflow.python.framework.errors_impl.ResourceExhaustedError: 2 root error(s) found.\n  "
     "(0) Resource exhausted: Out of memory while trying to allocate 68852648264 bytes.\n         "
     "[[{{node cluster_0_1/xla_run}}]]"},
    {"cuda_oom",
     "mxnet.base.MXNetError: src/storage/./pooled_storage_manager.h:161: cudaMalloc retry failed: "
     "out of memory"},
    {"cuda_oom",
     "F0719 10:51:50.941951  2540 syncedmem.cpp:71] Check failed: error == cudaSuccess (2 vs. 0)  "
     "out of memory",
     134},
    {"cuda_oom", "InternalError: Dst tensor is not initialized."},
    {"cuda_oom",
     "tensorflow.python.framework.errors_impl.ResourceExhaustedError: {{function_node "
     "__wrapped__AddV2}} failed to allocate memory [Op:AddV2]"},
    {"cuda_oom",
     "RuntimeError: Memory not enough: Device(id:0) memory isn't enough and alloc failed, kernel "
     "name: Default/MatMul-op12, alloc size: 1073741824B."},
    {"cuda_oom",
     "RuntimeError: Native API failed. Native API returns: -5 (PI_ERROR_OUT_OF_RESOURCES)"},
    {"host_oom_kill", "pyarrow.lib.ArrowMemoryError: malloc of size 134217728 failed"},
    {"cuda_oom",
     "libc++abi: terminating due to uncaught exception of type std::runtime_error: [METAL] Command "
     "buffer execution failed: Insufficient Memory "
     "(00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)",
     134},
    {"host_oom_kill",
     "slurmstepd: error: Job 811 exceeded memory limit (812342 > 512000), being killed"},
    {"cuda_oom", "EL0004: [PID: 12] 2025-04-08-18:07:20.444 Failed to allocate memory."},
    {"host_oom_kill",
     "Error from slot1_3@node7: Docker job has gone over memory limit of 16384 Mb"},
    {"host_oom_kill", "Job has encountered an out-of-memory event."},
    {"host_oom_kill",
     "W|job 12 exceeds job hard limit \"h_vmem\" of queue \"all.q@n1\" (9.1 > limit:8.0)"},
};

}  // namespace

std::span<const Snippet> MemorySnippets() { return kSnippets; }

}  // namespace launch
