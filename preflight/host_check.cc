#include "preflight/host_check.h"

#include <algorithm>
#include <utility>

#include "common/quoted.h"
#include "common/shared_memory.h"
#include "common/units.h"
#include "preflight/remedy_data.h"

namespace launch {
namespace {

constexpr std::uint64_t kShmPerWorker = kGiB;           // of large samples
constexpr std::uint64_t kShmOfContainers = 128 * kMiB;  // 64 MiB and what is like it
constexpr std::uint64_t kMemlockForRdma = kGiB;         // NCCL registers its buffers
constexpr std::uint64_t kFilesPerRank = 1024;
// A rank with NCCL, OpenBLAS and loader workers has a few hundred threads on a large node, and the
// limit counts those of all processes of its user (setrlimit(2)).
constexpr std::uint64_t kThreadsPerRank = 512;
constexpr std::uint64_t kDiskFloor = kGiB;
constexpr std::uint64_t kDiskFull = 16 * kMiB;
constexpr std::uint64_t kInodeFloor = 1000;

constexpr std::uint64_t kShmUsual = 16 * kGiB;

// Whole GiB that /dev/shm may be given: what is needed, and no more than half of the node's memory,
// which a tmpfs that fills would else take all of. 0: that is not larger than it is.
std::uint64_t ShmGib(std::uint64_t needed, std::uint64_t present, std::uint64_t memory) {
  const std::uint64_t wanted = std::max(needed, present);
  std::uint64_t gib = std::max<std::uint64_t>(wanted / kGiB + (wanted % kGiB != 0), 1);
  if (memory > 0) gib = std::min(gib, memory / 2 / kGiB);
  return gib > present / kGiB ? gib : 0;
}

std::string ShmLimit(std::uint64_t memory) {
  return "half of the node's memory is " + FormatBytes(memory / 2) +
         ", and /dev/shm must not take more: ask for less with shm_size:, use fewer loader "
         "workers, or a node with more memory";
}

// Who gives /dev/shm its size differs with what the agent runs in: one line for each.
std::string ShmRemedy(std::uint64_t gib) {
  const std::string size = std::to_string(gib);
  return "on the node itself: mount -o remount,size=" + size +
         "g /dev/shm, and in /etc/fstab to keep it: tmpfs /dev/shm tmpfs defaults,size=" + size +
         "g 0 0\ndocker, podman: docker run --ipc=host, or --shm-size=" + size +
         "g; shm_size: " + size +
         "GiB where the job has an image:\napptainer: it has the node's, but for --contain: "
         "apptainer exec --bind /dev/shm\nkubernetes: volumes: [{name: shm, emptyDir: {medium: "
         "Memory, sizeLimit: " +
         size +
         "Gi}}] of the pod, volumeMounts: [{name: shm, mountPath: /dev/shm}] of the "
         "container\nfewer loader workers";
}

// Of one that is full: what takes its room goes first, and only a small one is made larger.
std::string FullShmRemedy(const DiskFact& shm, bool inodes, std::uint64_t memory) {
  std::string remedy = "remove files that dead programs left: ls -la /dev/shm";
  if (inodes) {
    return remedy +
           "\nor let it have more files than df -i /dev/shm shows: mount -o "
           "remount,nr_inodes=N /dev/shm on the node itself";
  }
  const std::uint64_t gib =
      shm.total_bytes < kShmUsual ? ShmGib(kShmUsual, shm.total_bytes, memory) : 0;
  return gib == 0 ? remedy : remedy + "\n" + ShmRemedy(gib);
}

void AddShm(const NodeInventory& node, std::uint64_t needed, Severity severity,
            const std::string& why, PreflightReport& report) {
  Finding finding = MakeFinding("shm_small", severity, node.node,
                                "/dev/shm" + On(node) + " has " + FormatBytes(node.shm_bytes) +
                                    ", " + why + " " + FormatBytes(needed));
  finding.evidence = "statvfs of /dev/shm";
  const std::uint64_t gib = ShmGib(needed, node.shm_bytes, node.memory_bytes);
  // What a job asks for it gets whole or not at all.
  const bool helps = gib > 0 && (severity != Severity::kError || gib * kGiB >= needed);
  finding.remedy = helps ? ShmRemedy(gib) : ShmLimit(node.memory_bytes);
  if (helps) finding.fix = {"mount -o remount,size=" + std::to_string(gib) + "g /dev/shm"};
  Add(report, std::move(finding));
}

void AddMemlock(const NodeInventory& node, PreflightReport& report) {
  const std::uint64_t limit = *node.limits.memlock_bytes;
  Finding finding =
      MakeFinding("memlock_low", Severity::kWarning, node.node,
                  "the limit of locked memory" + On(node) + " is " + FormatBytes(limit) +
                      ": NCCL cannot register its buffers with the InfiniBand or RoCE adapter");
  finding.evidence = "ulimit -l of the agent";
  finding.remedy =
      "LimitMEMLOCK=infinity in the agent's unit, or `* - memlock unlimited` in "
      "/etc/security/limits.conf, then start the agent again";
  Add(report, std::move(finding));
}

void AddFiles(const NodeInventory& node, std::uint64_t needed, PreflightReport& report) {
  Finding finding = MakeFinding("nofile_low", Severity::kWarning, node.node,
                                "the limit of open files" + On(node) + " is " +
                                    std::to_string(*node.limits.nofile) +
                                    ", ranks with loader "
                                    "workers and sockets may want " +
                                    std::to_string(needed));
  finding.evidence = "ulimit -n of the agent";
  finding.remedy =
      "LimitNOFILE=1048576 in the agent's unit, or `* - nofile 1048576` in "
      "/etc/security/limits.conf, then start the agent again";
  Add(report, std::move(finding));
}

void JudgeProcesses(const NodeInventory& node, int ranks, PreflightReport& report) {
  if (!node.limits.nproc) return;
  const std::uint64_t needed = kThreadsPerRank * static_cast<std::uint64_t>(std::max(ranks, 1));
  if (*node.limits.nproc >= needed) {
    Pass(report, "processes", node.node, std::to_string(*node.limits.nproc) + " for a user");
    return;
  }
  Finding finding = MakeFinding("nproc_low", Severity::kWarning, node.node,
                                "the limit of processes and threads of a user" + On(node) + " is " +
                                    std::to_string(*node.limits.nproc) + ", " +
                                    std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks") +
                                    " with loader workers may want " + std::to_string(needed));
  finding.evidence = "ulimit -u of the agent";
  finding.remedy =
      "LimitNPROC=infinity in the agent's unit, or `* - nproc unlimited` in "
      "/etc/security/limits.conf, then start the agent again; or fewer threads: "
      "OMP_NUM_THREADS=1";
  Add(report, std::move(finding));
}

std::string Purpose(const std::string& what) {
  if (what == "checkpoint") return "checkpoints are written to ";
  if (what == "workdir") return "the job runs in ";
  return what + " is ";
}

std::string StatvfsOf(const DiskFact& disk) {
  return "statvfs: " + FormatBytes(disk.free_bytes) + " free of " + FormatBytes(disk.total_bytes);
}

void JudgeDisk(const DiskFact& disk, const NodeInventory& inventory, PreflightReport& report) {
  const NodeId& node = inventory.node;
  const bool inodes = disk.free_inodes && *disk.free_inodes < kInodeFloor;
  const bool shm = disk.what == "shm";
  const std::uint64_t floor =
      std::min(shm ? kShmOfNccl : kDiskFloor, std::max(disk.total_bytes / 2, kDiskFull));
  if (disk.free_bytes >= floor && !inodes) {
    Pass(report, shm ? "shared memory" : "disk space", node,
         Purpose(disk.what) + disk.path + ": " + FormatBytes(disk.free_bytes) + " free");
    return;
  }
  // Not every job uses shared memory, but none gets past a disk that takes nothing.
  const bool full = !shm && (disk.free_bytes < kDiskFull || (inodes && *disk.free_inodes == 0));
  Finding finding = MakeFinding(shm ? "shm_small" : "disk_low",
                                full ? Severity::kError : Severity::kWarning, node,
                                Purpose(disk.what) + disk.path + " on " + node.value + ", where " +
                                    (inodes ? std::to_string(*disk.free_inodes) + " files more"
                                            : FormatBytes(disk.free_bytes)) +
                                    " fit");
  finding.evidence = StatvfsOf(disk);
  finding.remedy = shm ? FullShmRemedy(disk, inodes, inventory.memory_bytes)
                       : "make room on that file system, or name another directory";
  finding.fix = {"df -h " + ShellQuote(disk.path)};
  Add(report, std::move(finding));
}

}  // namespace

bool HasRdma(const NodeInventory& node) {
  return std::any_of(node.addresses.begin(), node.addresses.end(),
                     [](const NetworkAddress& a) { return a.rdma; });
}

void JudgeLimits(const NodeCase& c, PreflightReport& report) {
  const NodeInventory& node = c.node;
  const int ranks = RanksOn(c.plan, node.node);
  const auto workers = static_cast<std::uint64_t>(ranks * c.plan.loader.num_workers);
  const std::uint64_t asked = c.spec.image.empty() ? c.spec.shm_bytes.value_or(0) : 0;
  if (node.shm_bytes > 0 && node.shm_bytes < asked) {
    AddShm(node, asked, Severity::kError, "shm_size of the job asks for", report);
  } else if (node.shm_bytes > 0) {
    const std::uint64_t floor = std::max(workers * kShmOfWorker, ranks > 1 ? kShmOfNccl : 0);
    const std::uint64_t wanted = std::max(workers * kShmPerWorker, floor);
    const std::string why = std::to_string(workers) + " loader workers of the plan want";
    // The plan's workers are a proposal: only what would surely fail is more than a notice, and
    // programs on the CPU often load their data themselves.
    const bool sure = c.plan.device == DeviceClass::kCuda &&
                      node.shm_bytes < std::min<std::uint64_t>(floor, kShmOfContainers);
    if (sure) {
      AddShm(node, wanted, Severity::kWarning, why, report);
    } else if (node.shm_bytes < floor) {
      AddShm(node, wanted, Severity::kNotice, why, report);
    } else {
      Pass(report, "shared memory", node.node, "/dev/shm has " + FormatBytes(node.shm_bytes));
    }
  }
  const bool rdma = NodesOf(c.plan) > 1 && c.plan.device == DeviceClass::kCuda && HasRdma(node);
  if (rdma && node.limits.memlock_bytes && *node.limits.memlock_bytes < kMemlockForRdma) {
    AddMemlock(node, report);
  } else if (rdma) {
    Pass(report, "locked memory", node.node, "enough for the adapter");
  }
  if (node.limits.nofile && *node.limits.nofile < kFilesPerRank) {
    AddFiles(node, kFilesPerRank, report);
  } else if (node.limits.nofile) {
    Pass(report, "open files", node.node, std::to_string(*node.limits.nofile) + " for a process");
  }
  JudgeProcesses(node, ranks, report);
}

void JudgeNodeLimits(const NodeInventory& node, PreflightReport& report) {
  if (node.shm_bytes > 0 && node.shm_bytes < kShmOfContainers) {
    AddShm(node, kShmUsual, Severity::kWarning, "loader workers of a job may want", report);
  } else if (node.shm_bytes > 0) {
    Pass(report, "shared memory", node.node, "/dev/shm has " + FormatBytes(node.shm_bytes));
  }
  if (HasRdma(node) && node.limits.memlock_bytes && *node.limits.memlock_bytes < kMemlockForRdma)
    AddMemlock(node, report);
  if (node.limits.nofile && *node.limits.nofile < kFilesPerRank)
    AddFiles(node, kFilesPerRank, report);
  JudgeProcesses(node, 1, report);
}

void JudgeSilence(const NodeId& node, const std::string& why, const std::string& heard,
                  PreflightReport& report) {
  Finding finding = MakeFinding(
      "node_silent", Severity::kError, node,
      node.value + " does not answer" + (why.empty() ? "" : ": " + why) +
          (heard.empty() ? "; what else stands here it told before"
                         : "; what else stands here is of " + heard + " at the latest"));
  finding.evidence = heard.empty() ? why : "last heard " + heard;
  finding.remedy =
      "see on the node whether it runs and whether its agent does: systemctl status launch-agent\n"
      "one without power, so that its jobs may start elsewhere: launch node fence " +
      node.value;
  Add(report, std::move(finding));
}

void JudgeDisks(const std::vector<DiskFact>& disks, const NodeInventory& node,
                PreflightReport& report) {
  for (const DiskFact& disk : disks) JudgeDisk(disk, node, report);
}

void JudgeAskedDisk(const JobSpec& spec, const std::vector<DiskFact>& disks, const NodeId& node,
                    PreflightReport& report) {
  if (!spec.disk_bytes) return;
  for (const DiskFact& disk : disks) {
    if (disk.what != "workdir" || disk.free_bytes >= *spec.disk_bytes) continue;
    Finding finding =
        MakeFinding("disk_low", Severity::kError, node,
                    Purpose(disk.what) + disk.path + " on " + node.value + ", where " +
                        FormatBytes(disk.free_bytes) +
                        " fit; the job asks for disk: " + FormatBytes(*spec.disk_bytes));
    finding.evidence = StatvfsOf(disk);
    finding.remedy = "make room there, ask for less with disk:, or name another workdir:";
    finding.fix = {"df -h " + ShellQuote(disk.path)};
    Add(report, std::move(finding));
  }
}

// docker and podman give an image GPUs through the NVIDIA Container Toolkit; the others do it
// themselves, and are taken first. Not known of an inventory written by hand.
bool LacksGpuHook(const JobSpec& spec, const NodeInventory& node) {
  const auto& runtimes = node.container_runtimes;
  const bool by_hook = std::all_of(runtimes.begin(), runtimes.end(), [](const std::string& name) {
    return name == "docker" || name == "podman";
  });
  const auto tool = node.tools.find("nvidia-container-cli");
  const bool missing = tool != node.tools.end() && tool->second.empty();
  return by_hook && missing && !node.gpus.empty() && spec.device != DeviceChoice::kCpu;
}

void JudgeContainer(const JobSpec& spec, const NodeInventory& node, PreflightReport& report) {
  if (spec.image.empty()) return;
  if (!node.container_runtimes.empty()) {
    if (!LacksGpuHook(spec, node)) {
      Pass(report, "container", node.node, node.container_runtimes.front() + " is there");
      return;
    }
    Finding finding = MakeFinding("container_runtime_missing", Severity::kWarning, node.node,
                                  node.container_runtimes.front() + " on " + node.node.value +
                                      " may not give GPUs to image: " + spec.image);
    finding.evidence = "nvidia-container-cli is not on PATH";
    finding.remedy = "install the " + RemedyData::BuiltIn().container_needs() + " on the node";
    Add(report, std::move(finding));
    return;
  }
  Finding finding =
      MakeFinding("container_runtime_missing", Severity::kError, node.node,
                  node.node.value + " has no container runtime for image: " + spec.image);
  finding.evidence =
      "none of apptainer, enroot, podman, singularity is on PATH, nor a docker whose daemon "
      "answers";
  finding.remedy = "install docker or podman with the " + RemedyData::BuiltIn().container_needs() +
                   " on the node, or write venv: or python: instead of image:";
  Add(report, std::move(finding));
}

}  // namespace launch
