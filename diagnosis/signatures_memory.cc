// Memory of the GPU, of the host and of /dev/shm. Sources: c10/cuda/CUDACachingAllocator.cpp,
// c10/core/impl/alloc_cpu.cpp, torch/utils/data/{dataloader,_utils/signal_handling}.py,
// torch/lib/libshm, aten MapAllocator.cpp, NVIDIA/nccl src/misc/shmutils.cc,
// mm/oom_kill.c of Linux, Slurm's slurmstepd and task/cgroup.
#include "diagnosis/signature.h"

namespace launch {
namespace {

constexpr Signature kMemory[] = {
    // PyTorch, all devices; NCCL ("Cuda failure 'out of memory'"), the runtime's own texts.
    {.label = "cuda_oom",
     .weight = 60,
     .phrases = {"out of memory", "OutOfMemoryError", "STATUS_ALLOC_FAILED", "ERROR_OUT_OF_MEMORY",
                 "cudaErrorMemoryAllocation", "would exceed allowed memory", "hipErrorOutOfMemory",
                 "CUDA Out of Memory", "CUDA Out Of Memory", "CUDA OUT OF MEMORY",
                 "GPU Out of Memory", "GPU OUT OF MEMORY"},
     .pattern =
         R"((?i:(?:CUDA|HIP|XPU|NPU|MPS backend|GPU|device) out of memory)|)"
         R"(CUDA(?: driver| runtime)? [Ee]rror ?:? ?(?:\(?2\)? ?: ?)?out of memory|)"
         R"(cuda runtime error \(2\) ?: ?out of memory|OutOfMemoryError:|)"
         R"(OutOfMemoryError\b.*Tried to allocate|(?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE)_STATUS_ALLOC_FAILED|)"
         R"(CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|)"
         R"(Cuda failure (?:2 )?'out of memory'|would exceed allowed memory|)"
         R"((?:^|: )out of memory at |)"
         R"(hipErrorOutOfMemory|failed to allocate .* from device: CUDA_ERROR)",
     .veto =
         R"(^\s*(?:except|raise|if|#|import|from)\b|ray\.exceptions\.OutOfMemoryError|java\.lang)"
         R"(|out of resources?: |\bWarning: |[Rr]an out of memory[^\n]{0,40}, retrying)"
         R"(|(?i)(?:to avoid|in case of|if you (?:get|hit|see|run into)|may (?:run|lead|cause|go)|)"
         R"(might (?:run|cause)|prevent(?:s|ing)?|skip(?:ped|ping)|auto.?find|find_executable).{0,60}out of memory)",
     .reading = Reading::kOom},
    // A kernel's own limit: shared memory, registers, tensor memory. torch/_inductor's autotuning
    // prints dozens of these and takes another configuration; as an exception it ends the run.
    {.label = "python_exception",
     .tier = Tier::kProgram,
     .weight = 41,
     .phrases = {"out of resource: ", "OutOfResources: "},
     .pattern =
         R"(^(?:[A-Za-z_]\w*\.)*(?:Error|OutOfResources|[A-Z]\w*Error): (?:[^\n]*: )?out of resources?: )"
         R"((.*?Required: \d+,? ?Hardware limit: ?\d+)?)",
     .veto = R"(^No valid triton configs)",
     .cause =
         "A Triton kernel needs more of the chip's shared memory or registers than it has: \\1",
     .remedy = "not a matter of the batch or of free memory: smaller blocks or num_stages in the "
               "kernel, torch.compile without mode=\"max-autotune\", or a newer GPU"},
    {.label = "cuda_oom",
     .weight = 60,
     .phrases = {"RESOURCE_EXHAUSTED", "OOM when allocating", "Failed to CUDA ",
                 "No available memory for the cache", "in memory space hbm",
                 "Resource exhausted: ", "Out of memory error on GPU"},
     .pattern =
         R"((?:RESOURCE_EXHAUSTED|Resource exhausted): (?:[^\n]*)(?:[Oo]ut of memory|[Ff]ailed to allocate|Attempting to (?:reserve|allocate)|)"
         R"(Error (?:allocating device buffer|loading program))|OOM when allocating tensor|)"
         R"(Failed to CUDA (?:c|m|host c|host )?alloc|No available memory for the cache blocks|)"
         R"([Rr]an out of memory in memory space hbm|)"
         R"(Out of memory error on GPU \d+\. Cannot allocate)",  // Paddle's cuda_allocator.cc
     .reading = Reading::kOom},
    // bitsandbytes csrc/ops.cuh, Triton's driver, accelerate/utils/memory.py at its last try.
    {.label = "cuda_oom",
     .weight = 60,
     .phrases = {"Error out of memory at line", "Triton Error [CUDA]: out",
                 "batch size found, reached"},
     .pattern = R"(Error out of memory at line \d+|Triton Error \[CUDA\]: out of memory|)"
                R"(No executable batch size found, reached zero)",
     .reading = Reading::kOom},
    // MXNet's pooled_storage_manager.h, Caffe's syncedmem.cpp, TensorFlow's gpu_util.cc and
    // eager/execute.cc, MindSpore's memory_manager.cc, SYCL's runtimes, CANN, Apple's
    // Metal (MLX).
    {.label = "cuda_oom",
     .weight = 60,
     .phrases = {"cudaMalloc failed: out", "cudaMalloc retry failed: out", "cudaSuccess (2 vs. 0)",
                 "Dst tensor is not initialized", "failed to allocate memory",
                 "memory isn't enough and alloc failed", "OUT_OF_DEVICE_MEMORY",
                 "PI_ERROR_OUT_OF_RESOURCES", "UR_RESULT_ERROR_OUT_OF_RESOURCES",
                 "kIOGPUCommandBufferCallbackErrorOutOfMemory", "Failed to allocate memory."},
     .pattern =
         R"(cudaMalloc (?:retry )?failed: out of memory|cudaSuccess \(2 vs\. 0\)|)"
         R"((?:Error|INTERNAL|Internal): [^\n]*Dst tensor is not initialized|^ *Dst tensor is not initialized\.(?:$| +\[\[)|)"
         R"(ResourceExhaustedError: [^\n]*failed to allocate memory|memory isn't enough and alloc failed|)"
         R"((?:[Ff]ailed|[Ee]rror|[Rr]eturn(?:s|ed)?)\b[^\n]*_OUT_OF_DEVICE_MEMORY|(?:PI_ERROR|UR_RESULT_ERROR)_OUT_OF_RESOURCES|)"
         R"(kIOGPUCommandBufferCallbackErrorOutOfMemory|E[A-Z]\d{4}: [^\n]*Failed to allocate memory\.)",
     .reading = Reading::kOom},
    {.label = "cuda_oom_foreign_process",  // vllm/v1/worker: what others hold is counted as taken
     .weight = 62,
     .phrases = {"on startup is less than desired"},
     .pattern =
         R"(Free memory on device\S* \(([\d.]+/[\d.]+ GiB)\) on startup is less than desired)",
     .cause = "Before the program took any, only \\1 of the GPU's memory was free"},
    {.label = "cuda_oom",  // only the sentence about the request is left of the message
     .weight = 40,
     .phrases = {"Tried to allocate ", "reserved in total by PyTorch", "reserved by PyTorch but"},
     .pattern =
         R"(Tried to allocate [\d.]+ ?(?:[KMGT]i?B|bytes)|reserved in total by PyTorch|reserved by PyTorch but unallocated)",
     .reading = Reading::kOom},

    // cuDNN finds no algorithm whose workspace fits, or a library gets none for its handle; the
    // allocator asks NVML for what others hold when nothing is left, and NVML does not answer.
    {.label = "cuda_oom",
     .confidence = Confidence::kSymptom,
     .weight = 30,
     .phrases = {"valid cuDNN algorithm", "FIND was unable to find an engine",
                 "CUBLAS_STATUS_NOT_INITIALIZED", "CUDNN_STATUS_NOT_INITIALIZED",
                 "CUSOLVER_STATUS_NOT_INITIALIZED", "NVML_SUCCESS == "},
     .pattern =
         R"(Unable to find a valid cuDNN algorithm|FIND was unable to find an engine|)"
         R"((?:CUBLAS|CUDNN|CUSOLVER)_STATUS_NOT_INITIALIZED|NVML_SUCCESS == [^\n]*INTERNAL ASSERT)",
     .reading = Reading::kOom},
    {.label = "cuda_oom_foreign_process",
     .tier = Tier::kNote,
     .confidence = Confidence::kLikely,
     .weight = 40,
     .phrases = {"NVIDIA-SMI "},
     .pattern = R"(NVIDIA-SMI \d)",
     .reading = Reading::kSmi},

    // The kernel: dump_header() and __oom_kill_process() of mm/oom_kill.c, 3.10 to 6.x.
    {.label = "host_oom_kill",
     .tier = Tier::kAuthority,
     .confidence = Confidence::kConfirmed,
     .phrases = {"oom-kill:constraint", "Out of memory: Kill", "emory cgroup out of memory",
                 "invoked oom-killer", "oom_reaper: reaped", "Killed process "},
     .pattern = R"(oom-kill:constraint|Out of memory: Kill(?:ed)? process \d+ \(([^)]*)\)|)"
                R"([Mm]emory cgroup out of memory|invoked oom-killer|oom_reaper: reaped process|)"
                R"(Killed process \d+ .*(?:total-vm|anon-rss))"},
    // Slurm: slurmstepd, srun and the states of sacct.
    {.label = "host_oom_kill",
     .tier = Tier::kAuthority,
     .confidence = Confidence::kConfirmed,
     .phrases = {"oom-kill event", "oom_kill event", "Out Of Memory", "OUT_OF_MEMORY"},
     .pattern = R"([1-9]\d* oom[-_]kill event|(?:task[s ][^:]*: |task \d+ .*)Out Of Memory|)"
                R"((?:^|[\s|=:"'])OUT_OF_MEMORY\b)",
     .veto = R"((?:CUDA|HIP|CL|NVML|hip|cuda)_?(?:ERROR)?_OUT_OF_MEMORY)"},
    // Slurm without cgroups, which then cancels the job, and says no more of that than of an
    // scancel.
    {.label = "host_oom_kill",
     .tier = Tier::kAuthority,
     .confidence = Confidence::kConfirmed,
     .weight = 68,
     .phrases = {"Exceeded job memory limit", "Exceeded step memory limit",
                 " exceeded memory limit ("},
     .pattern = R"(Exceeded (?:job|step) memory limit|)"
                R"(slurmstepd: [^\n]*(?i:job|step) \S+ exceeded memory limit \(\d+ > \d+\)|)"
                R"((?i:job|step) \S+ exceeded memory limit \(\d+ > \d+\), being killed)"},
    // Kubernetes, PBS, LSF, Grid Engine, HTCondor, OpenPAI, Ray's memory monitor, earlyoom and
    // systemd-oomd.
    {.label = "host_oom_kill",
     .tier = Tier::kAuthority,
     .confidence = Confidence::kConfirmed,
     .phrases = {"OOMKilled", "job killed: mem", "TERM_MEMLIMIT", "running low on memory",
                 "systemd-oomd", "OOM Killed", "ob has gone over memory limit",
                 "ob has encountered an out-of-memory event", "exceeds job hard limit"},
     .pattern =
         R"(OOMKilled|job killed: mem \d+|TERM_MEMLIMIT|node running low on memory|)"
         R"([Jj]ob has gone over memory limit of|Job has encountered an out-of-memory event|)"
         R"(exceeds job hard limit .(?:h_vmem|h_rss|h_data)\b|)"
         R"(systemd-oomd\S* killed|systemd-oomd.*[Kk]illed|have been OOM Killed)",
     .veto = R"((?i)OOMKilled["']?\s*[:=]\s*["']?(?:false|null|0))"},
    // Ray's memory monitor (raylet's node_manager.cc, worker_killing_policy.cc): it kills by
    // itself,
    // and counts in the same sentence what ended for other reasons.
    {.label = "host_oom_kill",
     .weight = 72,
     .phrases = {"due to memory pressure (OOM)", "exceeds the memory usage threshold"},
     .pattern = R"([1-9]\d* [Ww]orkers? \(tasks / actors\) killed due to memory pressure \(OOM\)|)"
                R"(exceeds the memory usage threshold of [\d.]+\. Ray killed)",
     .cause = "Ray's memory monitor killed workers because the node ran out of host memory",
     .remedy = "fewer tasks at a time (num_cpus and memory= of the task), fewer loader workers, or "
               "nodes with more memory; a higher RAY_memory_usage_threshold only delays it"},
    // systemd's unit log, earlyoom's kill.c.
    {.label = "host_oom_kill",
     .tier = Tier::kAuthority,
     .confidence = Confidence::kConfirmed,
     .phrases = {"killed by the OOM killer", "result 'oom-kill'", "low memory! at or below SIG",
                 "sending SIGTERM to process", "sending SIGKILL to process"},
     .pattern =
         R"(process of this unit has been killed by the OOM killer|Failed with result 'oom-kill'|)"
         R"(low memory! at or below SIG(?:TERM|KILL) limits|)"
         R"(sending SIG(?:TERM|KILL) to process \d+ .*(?:oom_score|VmRSS))"},
    {.label = "host_oom_kill",  // the kubelet's eviction
     .tier = Tier::kAuthority,
     .confidence = Confidence::kConfirmed,
     .phrases = {"low on resource: memory"},
     .cause = "The node ran low on memory, and the kubelet evicted the pod",
     .remedy = "ask for as much memory as the job takes (request = limit), or take less: fewer "
               "loader workers, less CPU offload, pin_memory=False"},
    // Refused instead of killed: the same shortage, told politely.
    {.label = "host_oom_kill",
     .weight = 45,
     .phrases = {"DefaultCPUAllocator", "annot allocate memory", "MemoryError", "std::bad_alloc",
                 "cudaHostAlloc", "Unable to allocate ", "Errno 12]", "error code 12", "errno: 12",
                 "errno=12", "paging file is too small", "WinError 1455]"},
     .pattern = R"(DefaultCPUAllocator: (?:can't allocate memory|not enough memory)|)"
                R"(Errno 12\]|error code 12\b|errno(?:: |=)12\b|[Cc]annot allocate memory|)"
                R"((?:^|[.\s])(?:_Array|Arrow)?MemoryError(?::|$)|std::bad_alloc|)"
                R"(Unable to allocate [\d.]+ [KMGT]iB for an array|cudaHostAlloc.*out of memory|)"
                R"(paging file is too small|WinError 1455\])",
     .veto = R"(^\s*(?:except|raise)\b|/dev/shm/|ibv_|memlock|mlock|<torch_|static TLS block)",
     .cause = "The node could not give the process host memory that it asked for"},

    // torch/utils/data/_utils/signal_handling.py and DataLoader.cpp; "pid(s)" since 1.0.
    {.label = "dataloader_worker_killed",
     .weight = 70,
     .phrases = {"killed by signal: Killed", "killed by signal: 9"},
     .pattern =
         R"((?:[Ww]orker|[Pp]rocess) \(pid(?:\(s\))? [\d, ]+\) (?:exited )?is killed by signal: (?:Killed|9))"},
    // The worker did not run out of memory: somebody ended it, or it crashed by itself.
    {.label = "preempted_signal",
     .tier = Tier::kSymptom,
     .confidence = Confidence::kSymptom,
     .weight = 22,
     .phrases = {"killed by signal: T", "killed by signal: H", "killed by signal: I"},
     .pattern =
         R"((?:[Ww]orker|[Pp]rocess) \(pid(?:\(s\))? [\d, ]+\) (?:exited )?is killed by signal: (?:Terminated|Hangup|Interrupt))",
     .cause = "A data loader worker was ended from outside, as the whole job most likely was"},
    {.label = "segfault",
     .weight = 43,
     .phrases = {"killed by signal: A", "killed by signal: F"},
     .pattern =
         R"((?:[Ww]orker|[Pp]rocess) \(pid(?:\(s\))? [\d, ]+\) (?:exited )?is killed by signal: (?:Aborted|Floating point))",
     .cause = "A data loader worker crashed in native code (SIGABRT)"},
    {.label = "dataloader_worker_killed",
     .confidence = Confidence::kSymptom,
     .weight = 20,
     .phrases = {"exited unexpectedly", "has abruptly died", "BrokenProcessPool",
                 "TerminatedWorkerError", "worker process managed by the executor"},
     .pattern =
         R"(DataLoader worker \(pid(?:\(s\))? [\d, ]+\) exited unexpectedly|)"
         R"(subprocesses has abruptly died during map|BrokenProcessPool|TerminatedWorkerError|)"
         R"(worker process managed by the executor was unexpectedly terminated)",
     .cause = "A worker process that prepares data died without an exception of its own"},

    {.label = "shm_bus_error",
     .weight = 75,
     .phrases = {"Unexpected bus error", "killed by signal: Bus error",
                 "insufficient shared memory", "out of shared memory", "killed by signal: 7"},
     .pattern = R"(Unexpected bus error encountered in worker|killed by signal: (?:Bus error|7)|)"
                R"(insufficient shared memory|workers? .*out of shared memory)"},
    {.label = "shm_bus_error",
     .weight = 75,
     .phrases = {"shared memory", "</torch_", "Bus error", "/dev/shm/psm_", "/dev/shm/torch_"},
     .pattern =
         R"((?:unable to|[Cc]ould not|[Ff]ailed to) (?:open|write|mmap|resize|allocate|create)[^\n]{0,40})"
         R"((?:shared memory|</?torch_)[^\n]*(?:No space left|Cannot allocate memory|\(28\)|\(12\))|)"
         R"(^Bus error\b|: Bus error\b|Fatal Python error: Bus error|</torch_[^>]*>[^\n]*No space left|)"
         R"(No space left on device: '/dev/shm/(?:psm|torch)_)",
     .veto = R"(/nccl-|Too many open files)"},

    // src/misc/shmutils.cc: 2.4 prints posix_fallocate, 2.12+ the segment, 2.19+ "failed to
    // extend".
    {.label = "nccl_shm_full",
     .weight = 80,
     .phrases = {"posix_fallocate failed", "shared memory segment", "/dev/shm/nccl-",
                 "creating shared memory", "ncclShmOpen"},
     .pattern =
         R"(posix_fallocate failed ?: ?No space|)"
         R"([Ee]rror while (?:creating|attaching to) shared memory segment|)"
         R"((?:failed|[Ee]rror|No space|unable|Cannot)[^\n]*/dev/shm/nccl-|/dev/shm/nccl-[^\n]*(?:No space|failed|error)|)"
         R"(ncclShmOpen[^\n]*(?:failed|No space))"},
};

}  // namespace

std::span<const Signature> MemorySignatures() { return kMemory; }

}  // namespace launch
