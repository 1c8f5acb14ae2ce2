#include "preflight/codes.h"

#include <algorithm>

namespace launch {

const std::vector<PreflightCode>& PreflightCodes() {
  static const std::vector<PreflightCode> codes = {
      {"node_silent", "node answers", "error",
       "`check NODE`: the agent of the node answers the controller. What else stands there of one "
       "that does not was told before, as the finding says since when.",
       "See on the node whether it runs and whether its agent does; `launch node fence` where it "
       "has no power."},
      {"torch_missing", "torch installed", "error, warning",
       "The job's interpreter on each node has a `torch` package. An error for a line that starts "
       "torch itself (torchrun), a warning for other GPU programs. One that is there and cannot be "
       "imported is an error at the start of a lone `python` command of a named environment.",
       "Install torch into that environment, name the right one with `venv:` or `python:`, or give "
       "it what it lacks with `env:`."},
      {"torch_cpu_only", "torch CUDA", "error",
       "`torch.version.cuda` of the job's interpreter is not None (as it is in builds for the CPU "
       "or "
       "for ROCm) when the job uses a GPU.",
       "Install a CUDA build: the remedy names the channel that fits the node's driver, processor "
       "and GPU, then a container, a build from source, `device: cpu`."},
      {"cuda_driver_too_old", "torch CUDA", "error, notice",
       "The CUDA major version that torch was built for is not above the driver's, unless torch "
       "sees the GPU all the same. A notice when only the node's toolkit is newer than its driver.",
       "Install a build for an older CUDA, or update the driver."},
      {"no_kernel_image", "GPU usable", "error, warning",
       "torch's list of architectures holds machine code for the GPU: `sm_XY` with the same major "
       "and no higher minor version, `sm_XYa` only on exactly that one, `compute_XY` (PTX) for "
       "everything from there on. A warning when there is only PTX, which makes the first start "
       "slow; an error when there is neither, or the driver is too old for the PTX.",
       "Install a build that lists the GPU."},
      {"gpu_unhealthy", "GPU health", "error, warning, notice",
       "The driver answers and reports no lost GPU, pending reset, uncorrected memory error, "
       "failed "
       "row remapping or fabric, and no clock held down by heat or power; MIG, compute mode, "
       "limits of power and clock and persistence mode are as a training run wants them; torch "
       "sees the GPU that it was built for.",
       "Look with `nvidia-smi -q`, repair or reset the GPU, or leave the node out with "
       "`exclude_nodes:`."},
      {"gpu_busy", "GPU free", "error, warning",
       "GPUs that no job of ours has hold no more memory than an idle driver takes. An error when "
       "a "
       "node refuses a start because a process of others, or another agent's lock, is on the GPU.",
       "Find the foreign processes with `nvidia-smi`, and wait for them or end them."},
      {"duplicate_gpu", "GPU of each rank", "warning",
       "No two ranks of a node that is to speak through NCCL are on one GPU, as `procs_per_node:` "
       "can put them.",
       "One process a GPU, more `gpus:`, or gloo."},
      {"gpu_name_unknown", "GPU model", "notice",
       "The driver's name of the GPU matches a rule of `configs/gpus.yaml`.",
       "Write a rule for it; without one times are not predicted."},
      {"precision_unsupported", "precision", "error, warning",
       "bf16 and tf32 need compute capability 8.0 or more, fp8 8.9 or more.",
       "Write `precision: auto`."},
      {"toolkit_mismatch", "op builds", "error, warning, notice",
       "For jobs whose optimizer is offloaded by ZeRO, which makes DeepSpeed build `cpu_adam`: "
       "nvcc has the version of torch's CUDA. A notice when both are in DeepSpeed's list of "
       "versions that fit, a warning when `DS_SKIP_CUDA_CHECK=1` is set.",
       "Install the toolkit of torch's version and point CUDA_HOME to it, or set "
       "`DS_SKIP_CUDA_CHECK: \"1\"` where the versions are compatible. `DS_BUILD_OPS` does not "
       "help: it is read when DeepSpeed is installed."},
      {"op_build_prerequisites", "op builds", "error, warning",
       "For the same jobs, and without nvcc for those that DeepSpeed trains on the CPU, where it "
       "builds `deepspeed_shm_comm`: nvcc, a C++ compiler and ninja are there, unless the operator "
       "was built when DeepSpeed was installed. A warning on the CPU, as an operator that an "
       "earlier run built and a compiler that the script loads are not seen.",
       "Install what is missing, or build the operator at installation: DS_BUILD_CPU_ADAM=1, on "
       "the CPU DS_BUILD_SHM_COMM=1."},
      {"version_skew", "versions agree", "error, warning, notice",
       "torch, NCCL, Python (minor version), deepspeed, accelerate, transformers and lightning are "
       "the same on all nodes of the job. Torch, NCCL and deepspeed are errors on GPUs.",
       "Give every node the same environment."},
      {"shm_small", "shared memory", "error, warning, notice",
       "/dev/shm has room for the loader workers of the plan; at the start, for its free space. An "
       "error when it is smaller than `shm_size:`.",
       "Enlarge it, as the remedy writes it for a bare node, docker and podman, apptainer and "
       "kubernetes, or use fewer workers."},
      {"memlock_low", "locked memory", "warning",
       "The limit of locked memory lets NCCL register buffers, for jobs on several nodes with an "
       "InfiniBand or RoCE adapter.",
       "LimitMEMLOCK=infinity in the agent's unit."},
      {"nofile_low", "open files", "warning", "A process may open at least 1,024 files.",
       "LimitNOFILE in the agent's unit."},
      {"nproc_low", "processes", "warning",
       "The limit of processes and threads of a user leaves 512 to each rank of the node.",
       "LimitNPROC in the agent's unit, or fewer threads with OMP_NUM_THREADS."},
      {"disk_low", "disk space", "error, warning",
       "The file systems of workdir and checkpoint directory have 1 GiB free and file entries "
       "left, at the start. An error when they take nothing more, when a file cannot be made in "
       "the "
       "checkpoint directory, when workdir's has less than `disk:`, or when the agent's state "
       "directory has no room for the attempt or for the copy of workdir.",
       "Make room, or name another directory."},
      {"workdir_missing", "workdir", "error",
       "The workdir is a directory that the job's user may enter, on every node.",
       "Submit from a directory that the nodes see, or name one with `workdir:`."},
      {"command_missing", "command", "error",
       "The first word of `run` and the job's interpreter can be run on every node, and the script "
       "that the interpreter is given can be read there.",
       "Check `run`, `venv:` and PATH."},
      {"interpreter_silent", "interpreter", "error, warning",
       "The job's interpreter does something within 30 seconds, and says its version within the "
       "time of a start. A warning where it was asked ahead of the job.",
       "Look for a file system that does not answer (NFS), a `sitecustomize.py` or .pth file that "
       "blocks, and hooks of conda's activation; or name another environment with `venv:` or "
       "`python:`."},
      {"interpreter_unasked", "interpreter", "warning",
       "The node has what it takes to start the job's interpreter for a question: processes, a "
       "control group, the account, disks that answer.",
       "Mend what the evidence names on the node, or leave the node out."},
      {"path_not_shared", "same directory", "error, warning, notice",
       "A file that rank 0's node writes into the workdir is seen by the other nodes, the workdir "
       "is the directory from which the job was submitted, and absolute paths in `run` are on all "
       "nodes or on none: an error for flags that name data or a model (a warning where no node "
       "has "
       "it), a warning for others; flags that name outputs are left out.",
       "Use a directory on a file system that all nodes share."},
      {"clock_skew", "clock", "warning", "The clocks of the job's nodes are within five seconds.",
       "Run a time service on every node."},
      {"network_unreachable", "network", "error",
       "Every node reaches an address of rank 0's node at the port that was reserved there. At "
       "level "
       "`full` also: each pair of nodes meets on free ports, and an all-reduce between all of them "
       "through the job's own torch gives the right sum.",
       "Open the agents' port range between the nodes, at best all TCP ports, or leave the node "
       "out."},
      {"interface_missing", "interface", "warning",
       "NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME, where `env:`, `run` or a script sets them for "
       "several ranks, name an interface that each node of the job has an address on.",
       "Leave them out, or name one that the nodes have."},
      {"network_slow", "link speed", "error, warning, notice",
       "The fastest interface of each node has 10 Gbit/s or more for GPU jobs on several nodes, "
       "and the nodes agree in their MTU. At level `full` also: each pair of nodes carries at "
       "least "
       "a quarter of what its interfaces (at most 10 Gbit/s) or the other pairs carry. "
       "`preflight: {network: require}` makes the speed an error, `skip` leaves all of it out.",
       "Use faster links, accumulate more per step, or set one MTU."},
      {"port_busy", "port", "error",
       "Rank 0's node finds a free block of ports to reserve, in the range of its agent.yaml; it "
       "refuses the start otherwise, and names who has them.",
       "Widen the agents' port range, or end the program that listens there."},
      {"container_runtime_missing", "container", "error, warning",
       "The node has a container runtime when the job asks for `image:`: for docker the daemon "
       "answers, and docker and podman find the NVIDIA Container Toolkit where there are GPUs.",
       "Install one with the NVIDIA Container Toolkit, or use `venv:` or `python:`."},
      {"visible_devices_set", "visible devices", "warning, notice",
       "`run` does not set CUDA_VISIBLE_DEVICES against the devices the job gets.",
       "Leave it out; particular devices are asked for with `gpu_ids:`."},
      {"secret_in_env", "secrets", "warning",
       "No variable in `env:` has the name of a secret and a value: `env` is stored and shown in "
       "clear.",
       "Name it under `secrets:`, which seals it and deletes it when the job ends."},
      {"plan_cannot_reach_script", "plan reaches script", "warning",
       "Batch, precision, devices and sharding that the plan decides are not written into `run`.",
       "Pass `$LAUNCH_MICRO_BATCH` and the like, or write the same values into the job."},
      {"ds_config_no_effect", "DeepSpeed file", "warning",
       "No setting of the DeepSpeed file is without effect: offload_param and sub_group_size need "
       "stage 3.",
       "Remove it, or choose the stage that it belongs to."},
      {"ds_config_unknown_key", "DeepSpeed file", "warning",
       "Every key of the DeepSpeed file is one that DeepSpeed reads.",
       "Write the key that the remedy names."},
      {"batch_conflict", "batch", "error, warning",
       "global batch = micro batch x accumulation x processes, in the job and in the DeepSpeed "
       "file.",
       "Leave one of the three out."},
      {"setup_failed", "setup", "error", "`setup` ended with exit 0 on every node.",
       "Run its commands on that node by hand; the finding shows the last lines."},
  };
  return codes;
}

bool IsPreflightCode(std::string_view code) {
  const auto& codes = PreflightCodes();
  return std::any_of(codes.begin(), codes.end(),
                     [&](const PreflightCode& row) { return row.code == code; });
}

std::string_view CheckOfCode(std::string_view code) {
  for (const PreflightCode& row : PreflightCodes()) {
    if (row.code == code) return row.check;
  }
  return code;
}

}  // namespace launch
