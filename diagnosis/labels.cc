#include "diagnosis/labels.h"

#include <algorithm>

namespace launch {
namespace {

constexpr std::string_view kNoRetry = "no_retry";
constexpr std::string_view kChange = "retry_with_change";
constexpr std::string_view kElsewhere = "retry_elsewhere";
constexpr std::string_view kSame = "retry_same";

// Ordered by label.
constexpr LabelInfo kLabels[] = {
    {"activation_failed", kNoRetry, "A script of the conda environment's activation failed",
     "run it by hand: CONDA_PREFIX=PREFIX bash -x SCRIPT   # correct it, or remove the package "
     "that brought it; `conda:` names the environment"},
    {"checkpoint_corrupt", kChange, "A checkpoint file is incomplete or damaged",
     "resume from the checkpoint before it; check `df -h` of the checkpoint directory, and write "
     "checkpoints to a temporary name, fsync, then rename"},
    {"collective_mismatch", kNoRetry,
     "The ranks wait for each other in different calls: the program does not make the same "
     "collectives in the same order on every rank",
     "look at the lines named above: a collective under `if rank == 0:`, loops of different length "
     "(uneven data: DistributedSampler with drop_last, or the join context), an early `break`; "
     "TORCH_DISTRIBUTED_DEBUG=DETAIL names the first call that differs"},
    {"cuda_driver_too_old", kNoRetry,
     "The NVIDIA driver of the node is too old for the CUDA version that torch was built with",
     "nvidia-smi | head -4; python -c 'import torch; print(torch.version.cuda)'   # then install a "
     "torch wheel for the driver's CUDA version, or run on a node with a newer driver"},
    {"cuda_fabric_not_ready", kElsewhere,
     "CUDA cannot start because the NVLink fabric of the node is not ready (error 802)",
     "systemctl status nvidia-fabricmanager; sudo systemctl restart nvidia-fabricmanager   # its "
     "version must equal the driver's"},
    {"cuda_illegal_access", kSame, "A GPU kernel read or wrote memory that is not its own",
     "run once with CUDA_LAUNCH_BLOCKING=1 or under compute-sanitizer to find the kernel; if it "
     "comes back on another GPU it is a bug of the program or of an extension"},
    {"cuda_oom", kChange, "The job needs more memory than the GPU has",
     "halve the micro-batch and double gradient accumulation; then 16-bit precision if the job "
     "runs fp32, activation checkpointing, a higher ZeRO or FSDP stage, offload"},
    {"cuda_oom_foreign_process", kElsewhere, "Other processes hold the memory of this GPU",
     "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv   # wait for them or "
     "use another GPU"},
    {"cuda_oom_fragmentation", kChange,
     "GPU memory is fragmented: enough is free and reserved, but not in one piece",
     "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
    {"dataloader_worker_killed", kChange,
     "A data loader worker was killed by SIGKILL, most often because host memory ran out",
     "num_workers=2 or 0, pin_memory=False, a lower prefetch_factor, or a larger memory request"},
    {"deepspeed_op_build", kNoRetry,
     "A CUDA extension (DeepSpeed op) could not be compiled on this node",
     "ds_report; which nvcc g++ ninja; echo $CUDA_HOME   # install what the first compiler error "
     "names, then rm -rf ~/.cache/torch_extensions"},
    {"device_side_assert", kNoRetry,
     "An index is out of range in a GPU kernel: a label or token id larger than the model's table",
     "run once with CUDA_LAUNCH_BLOCKING=1 on one GPU, and compare max(labels), max(input_ids) "
     "with the number of classes and the vocabulary size"},
    {"disk_full", kNoRetry, "The disk, its inodes or the quota is full",
     "df -h . /tmp; df -i .; quota -s   # free space, keep the last complete checkpoint, then "
     "launch requeue JOB"},
    {"driver_library_mismatch", kElsewhere,
     "The NVIDIA kernel module and the user libraries have different versions",
     "cat /proc/driver/nvidia/version; nvidia-smi   # drain the node, then reboot it or reload the "
     "module"},
    {"duplicate_gpu", kNoRetry, "Two ranks use the same GPU",
     "let the launcher map GPUs: torch.cuda.set_device(int(os.environ['LOCAL_RANK'])), and do not "
     "set CUDA_VISIBLE_DEVICES in the script"},
    {"ecc", kElsewhere, "The GPU reported an uncorrectable memory (ECC) error",
     "nvidia-smi -q -d ECC,ROW_REMAPPER   # drain the node, reset the GPU when it is idle; report "
     "it if it comes back"},
    {"file_not_found", kNoRetry, "A file or directory that the program opens does not exist",
     "ls -l the path on every node of the job: missing everywhere means a wrong path, missing on "
     "some means it is not on a shared file system"},
    {"gpu_remap_pending", "continue",
     "The GPU marked a bad memory row; it is replaced at the next reset",
     "nothing now; reset the GPU when the node is idle: sudo nvidia-smi --gpu-reset -i N"},
    {"hang", kSame, "The ranks stand still",
     "launch events shows where each rank stands; `hang: {action: restart}` in the job file goes "
     "on "
     "from the newest checkpoint by itself, `hang: {after: ...}` allows for longer silences"},
    {"host_oom_kill", kChange, "The node ran out of host memory, and the kernel killed the process",
     "ask for more memory (memory: in the job file) or take less: less CPU offload, fewer data "
     "loader "
     "workers, lower prefetch_factor, pin_memory=False; unchanged it will die again"},
    {"hub_offline", kNoRetry, "A model or data set could not be downloaded",
     "download it beforehand (huggingface-cli download NAME) to a path all nodes see, then "
     "HF_HUB_OFFLINE=1; or set https_proxy for the nodes; where it asks for access: HF_TOKEN in "
     "`secrets:`"},
    {"invalid_device_ordinal", kNoRetry, "A rank asked for a GPU number that it does not see",
     "start as many ranks per node as there are visible GPUs and use LOCAL_RANK as the device; "
     "check CUDA_VISIBLE_DEVICES"},
    {"launcher_args", kNoRetry, "The script does not know an argument it was started with",
     "correct the arguments; for --local-rank read os.environ['LOCAL_RANK'], or start with "
     "torchrun, which does not pass it"},
    {"lib_abi_mismatch", kNoRetry,
     "A compiled library does not match the libraries it finds at run time",
     "reinstall the package that was built against another version (pip install --no-cache-dir "
     "--force-reinstall NAME), and look at LD_LIBRARY_PATH with ldd"},
    {"mpi_launch", kNoRetry, "MPI could not start or keep its remote processes",
     "look at the node it names: slots in the hostfile, ssh without a password, the same MPI "
     "version, a route back to the first node"},
    {"nan_loss", kNoRetry, "The loss is no longer a number: training diverged",
     "resume from the checkpoint before the slide with bf16 instead of fp16, a lower learning rate "
     "or gradient clipping"},
    {"nccl_ib_error", kElsewhere, "An InfiniBand or RoCE link failed",
     "ibstat; ibqueryerrors; show_gids   # on both ends: port state, link-downed counter, MTU, GID "
     "index; leave the node out until it is clean"},
    {"nccl_network", kElsewhere, "A rank cannot reach another rank over the network",
     "launch check --network; otherwise try the address and port of the message by hand: "
     "nc -vz ADDRESS PORT, and look at firewall and NCCL_SOCKET_IFNAME"},
    {"nccl_no_interface", kNoRetry,
     "NCCL or gloo found no network interface with the name it was told",
     "ip -br addr   # on that node, then correct or unset NCCL_SOCKET_IFNAME and "
     "GLOO_SOCKET_IFNAME"},
    {"nccl_shm_full", kChange, "/dev/shm is too small for NCCL's segments",
     "df -h /dev/shm; ls /dev/shm/nccl-*   # enlarge it (docker run --shm-size=16g), remove "
     "segments whose owner is gone"},
    {"nccl_timeout", kSame,
     "A collective timed out: some rank did not take part in time, and why is not in this log",
     "look at the logs of all ranks for the one that is missing; run again with "
     "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1"},
    {"nccl_timeout_peer_died", kSame,
     "Another rank went away first, and this one noticed it in a collective",
     "look at the rank that closed its connection: its log or exit code has the cause"},
    {"nccl_timeout_slow_rank", kChange,
     "A collective timed out while one rank was still busy with work of its own",
     "raise the timeout (init_process_group(timeout=timedelta(hours=2)), ddp_timeout for the HF "
     "trainer), or do that work on all ranks or before training"},
    {"nccl_version_mismatch", kNoRetry, "Ranks run different NCCL versions",
     "python -c 'import torch; print(torch.cuda.nccl.version())' on every node; install the same "
     "torch everywhere and clear LD_LIBRARY_PATH and LD_PRELOAD of other NCCLs"},
    {"no_kernel_image", kNoRetry, "torch or an extension has no code for this kind of GPU",
     "python -c 'import torch; print(torch.cuda.get_device_capability(), "
     "torch.cuda.get_arch_list())'   # install a build that lists the GPU, or rebuild the "
     "extension with TORCH_CUDA_ARCH_LIST"},
    {"none", "continue", "Nothing failed", ""},
    {"permission", kNoRetry, "The user of the job may not read or write a path",
     "ls -ld the path; id   # on that node; correct owner or mode, or point caches (HF_HOME, "
     "TRITON_CACHE_DIR) to a directory of yours"},
    {"port_in_use", kChange, "The port is taken by another process, often an earlier run",
     "ss -ltnp | grep PORT   # end what is left of the earlier run, or use another port "
     "(--master_port 0 or unset MASTER_PORT)"},
    {"precision_unsupported", kChange, "The GPU cannot compute in the precision that was asked for",
     "use fp16 (--fp16) or fp32 on this node, or place the job on newer GPUs (bf16 and tf32 need "
     "capability 8.0, fp8 needs 8.9)"},
    {"preempted_signal", "resume", "The job was ended from outside, not by an error of its own",
     "launch requeue JOB   # goes on from the newest complete checkpoint of `checkpoint: {dir: "
     "...}`"},
    {"python_exception", kNoRetry, "The program ended with a Python exception",
     "correct the program at the line the traceback names"},
    {"python_import", kNoRetry, "A Python module could not be imported",
     "pip install it into the environment the job uses, on every node; `launch check` shows which "
     "interpreter that is"},
    {"rendezvous_timeout", kSame, "Not all nodes met at the rendezvous in time",
     "see whether every node started; nc -vz MASTER PORT from each; end what is left of an earlier "
     "run and use a fresh run id"},
    {"segfault", kSame, "The process crashed in native code (SIGSEGV)",
     "below `Current thread` the log has the Python line (launch sets PYTHONFAULTHANDLER=1), gdb "
     "on "
     "the "
     "core names the library; a second crash at the same place is a bug of that library"},
    {"shm_bus_error", kChange, "/dev/shm is too small for the data loader's workers",
     "df -h /dev/shm   # docker run --shm-size=16g, fewer workers, or "
     "torch.multiprocessing.set_sharing_strategy('file_system')"},
    {"sigkill_unknown", kSame,
     "The process got SIGKILL (-9) and nothing says from whom: this is not a CUDA error",
     "most often host memory: ask for more memory, num_workers=0..2, a smaller batch, less CPU "
     "offload; `dmesg -T | grep -i oom` on the node settles it"},
    {"ssh_failure", kNoRetry, "A node cannot be reached over ssh",
     "ssh -o BatchMode=yes HOST true   # until that works without a question; check name, port, "
     "key and known_hosts"},
    {"storage_io", kElsewhere, "A file system of the node answers with input/output errors",
     "dmesg -T | tail -50; mount   # on that node; leave it out until its mount is healthy"},
    {"time_limit", "resume", "The job reached its time limit",
     "submit it with a larger `time:`; with `checkpoint: {dir: ...}` a new attempt goes on from "
     "where this one was"},
    {"too_many_open_files", kChange, "The process ran out of file descriptors",
     "ulimit -n 65536, and torch.multiprocessing.set_sharing_strategy('file_system')"},
    {"toolkit_mismatch", kNoRetry,
     "The CUDA toolkit that compiles extensions does not match torch's CUDA version",
     "nvcc --version; python -c 'import torch; print(torch.version.cuda)'   # export CUDA_HOME of "
     "a matching toolkit; DS_SKIP_CUDA_CHECK=1 only within one major version"},
    {"torch_cpu_only", kNoRetry, "The torch of this environment is a CPU-only build or sees no GPU",
     "python -c 'import torch; print(torch.__version__, torch.version.cuda)'   # install the CUDA "
     "wheel from download.pytorch.org/whl/cu126 (aarch64 too)"},
    {"unknown", kSame, "The cause is not in the evidence",
     "run once more with NCCL_DEBUG=WARN TORCH_SHOW_CPP_STACKTRACES=1 PYTHONFAULTHANDLER=1 and "
     "keep the logs of all ranks"},
    {"xid_app_fault", kSame, "The driver reported a fault in a kernel of the program (Xid)",
     "run again on another GPU; if it comes back there, use compute-sanitizer; if only this GPU "
     "shows it, run dcgmi diag -r 3"},
    {"xid_gpu_hardware", kElsewhere, "The GPU failed or was lost",
     "drain the node; nvidia-smi -q, dmesg -T | grep -i xid, then reboot it and run dcgmi diag -r "
     "3"},
    {"xid_gsp", kElsewhere, "The GPU's system processor (GSP) stopped answering",
     "drain the node; reset the GPU or reboot; update the driver if it comes back"},
    {"xid_nvlink", kElsewhere, "An NVLink connection failed",
     "nvidia-smi nvlink -e; systemctl status nvidia-fabricmanager   # drain the node and reset its "
     "GPUs"},
};

}  // namespace

std::span<const LabelInfo> Labels() { return kLabels; }

const LabelInfo& LabelInfoOf(std::string_view label) {
  const auto find = [](std::string_view wanted) {
    return std::lower_bound(std::begin(kLabels), std::end(kLabels), wanted,
                            [](const LabelInfo& row, std::string_view l) { return row.label < l; });
  };
  const auto* row = find(label);
  return row != std::end(kLabels) && row->label == label ? *row : *find("unknown");
}

Verdict VerdictOfLabel(std::string_view label, Confidence confidence) {
  const LabelInfo& info = LabelInfoOf(label);
  Verdict verdict;
  verdict.label = info.label;
  verdict.confidence = confidence;
  verdict.cause = info.cause;
  verdict.remedy = info.remedy;
  verdict.action = info.action;
  return verdict;
}

void NameJob(JobId job, Verdict& verdict) {
  constexpr std::string_view kPlace = " JOB";
  for (const std::string_view verb : {"launch requeue", "launch logs"}) {
    const std::string wanted = std::string(verb) + std::string(kPlace);
    for (std::size_t at = 0; (at = verdict.remedy.find(wanted, at)) != std::string::npos;)
      verdict.remedy.replace(at + verb.size() + 1, kPlace.size() - 1, std::to_string(job.value));
  }
}

}  // namespace launch
