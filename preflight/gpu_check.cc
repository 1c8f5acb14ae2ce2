#include "preflight/gpu_check.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/gpu_catalog.h"
#include "common/mig.h"
#include "common/units.h"

namespace launch {
namespace {

// A limit this far below that of an equal GPU makes it the slowest rank that all others wait for.
constexpr double kPowerSlack = 0.9;
// What driver and display take of a GPU that nobody uses.
constexpr std::uint64_t kIdleBytes = kGiB;

std::string Name(const NodeInventory& node, std::size_t position) {
  return GpuLabel(node, position) + " (" + node.gpus[position].model + ")" + On(node);
}

bool JudgeHealth(const NodeInventory& node, std::size_t position, PreflightReport& report) {
  const GpuDevice& gpu = node.gpus[position];
  if (gpu.health == Health::kOk) return true;
  Finding finding = MakeFinding(
      "gpu_unhealthy", gpu.health == Health::kBad ? Severity::kError : Severity::kWarning,
      node.node,
      Name(node, position) + ": " + (gpu.why.empty() ? "its driver reports trouble" : gpu.why));
  finding.evidence = "NVML of " + node.node.value;
  finding.remedy = "exclude_nodes: " + node.node.value + ", or repair it: nvidia-smi -q -i " +
                   NvidiaSmiId(node, position) + " shows ECC, remapped rows and links";
  finding.fix = {"nvidia-smi -q -i " + NvidiaSmiId(node, position)};
  Add(report, std::move(finding));
  return false;
}

void JudgeModel(const NodeInventory& node, std::size_t position, PreflightReport& report) {
  const GpuDevice& gpu = node.gpus[position];
  if (gpu.device_class != DeviceClass::kCuda || !gpu.type.empty()) return;
  Finding finding = MakeFinding("gpu_name_unknown", Severity::kNotice, node.node,
                                Name(node, position) +
                                    " is of an unknown class: times are not predicted, and "
                                    "`gpus:` must name it as the driver does");
  finding.evidence = "no rule of configs/gpus.yaml matches the driver's name";
  finding.remedy = "write a rule for it: match: [words of the name], cc, tflops, memory_gbps";
  Add(report, std::move(finding));
}

void JudgeSlices(const NodeInventory& node, std::size_t position, PreflightReport& report) {
  const GpuDevice& gpu = node.gpus[position];
  if (gpu.mig.empty()) return;
  Finding finding =
      MakeFinding("gpu_unhealthy", Severity::kWarning, node.node,
                  Name(node, position) + " is cut into " + std::to_string(gpu.mig.size()) +
                      " MIG slices: a process uses one slice (" + gpu.mig.front().profile +
                      "), never the whole GPU");
  finding.evidence = "NVML lists MIG devices";
  finding.remedy = "nvidia-smi -i " + NvidiaSmiId(node, position) +
                   " -mig 0 when nobody uses it, or exclude_nodes: " + node.node.value;
  Add(report, std::move(finding));
}

void JudgePersistence(const NodeInventory& node, const std::vector<std::size_t>& positions,
                      PreflightReport& report) {
  const bool off = std::any_of(positions.begin(), positions.end(),
                               [&](std::size_t i) { return node.gpus[i].persistence == false; });
  if (!off) return;
  Finding finding = MakeFinding(
      "gpu_unhealthy", Severity::kNotice, node.node,
      "persistence mode is off" + On(node) + ": the first use of a GPU takes seconds longer");
  finding.evidence = "NVML: persistence mode disabled";
  finding.remedy = "nvidia-smi -pm 1, or enable nvidia-persistenced";
  finding.fix = {"nvidia-smi -pm 1"};
  Add(report, std::move(finding));
}

void JudgePower(const NodeInventory& node, const std::vector<std::size_t>& positions,
                PreflightReport& report) {
  std::map<std::string, int> highest;
  for (const std::size_t i : positions) {
    int& limit = highest[node.gpus[i].model];
    limit = std::max(limit, node.gpus[i].power_limit_w.value_or(0));
  }
  for (const std::size_t i : positions) {
    const GpuDevice& gpu = node.gpus[i];
    const int peers = highest[gpu.model];
    if (!gpu.power_limit_w || *gpu.power_limit_w >= kPowerSlack * peers) continue;
    if (gpu.why.starts_with("power_limited")) continue;  // is told already, with its own default
    Finding finding = MakeFinding(
        "gpu_unhealthy", Severity::kWarning, node.node,
        Name(node, i) + " is limited to " + std::to_string(*gpu.power_limit_w) +
            " W, equal ones beside it to " + std::to_string(peers) + " W: all ranks wait for it");
    finding.evidence = "NVML: power limits of the node's GPUs";
    finding.remedy = "nvidia-smi -i " + NvidiaSmiId(node, i) + " -pl " + std::to_string(peers);
    finding.fix = {finding.remedy};
    Add(report, std::move(finding));
  }
}

void JudgePrecision(const NodeCase& c, std::size_t position, PreflightReport& report) {
  const GpuDevice& gpu = c.node.gpus[position];
  if (gpu.device_class != DeviceClass::kCuda || !gpu.cc) return;
  const Precision asked = c.plan.precision;
  const bool ampere = asked == Precision::kBf16 || asked == Precision::kTf32;
  const bool bf16 = ampere && *gpu.cc < kBf16From;
  const bool fp8 = asked == Precision::kFp8 && *gpu.cc < kFp8From;
  if (!bf16 && !fp8) return;
  Finding finding = MakeFinding("precision_unsupported", Severity::kError, c.node.node,
                                Name(c.node, position) + " has compute capability " +
                                    ToString(*gpu.cc) + ", " + std::string(ToString(asked)) +
                                    " needs " + ToString(bf16 ? kBf16From : kFp8From));
  finding.evidence = "NVML: compute capability";
  finding.remedy = "write precision: auto";
  Add(report, std::move(finding));
}

// NCCL takes no two ranks on one device (init.cc, "Duplicate GPU detected"), and fails at the first
// collective, minutes after the start.
void JudgeSharing(const NodeCase& c, PreflightReport& report) {
  if (c.plan.device != DeviceClass::kCuda || c.plan.start != StartKind::kDirect) return;
  std::set<GpuUuid> devices;
  for (const RankAssignment& rank : c.plan.assignments) {
    if (rank.node == c.node.node) devices.insert(rank.gpu_uuids.begin(), rank.gpu_uuids.end());
  }
  const auto count = static_cast<int>(devices.size());
  const int ranks = RanksOn(c.plan, c.node.node);
  if (count == 0 || ranks <= count || RankVariable(c, "LAUNCH_BACKEND") != "nccl") return;
  const std::string shared = count == 1 ? "one GPU" : std::to_string(count) + " GPUs";
  Finding finding = MakeFinding("duplicate_gpu", Severity::kWarning, c.node.node,
                                std::to_string(ranks) + " ranks share " + shared + On(c.node) +
                                    ": NCCL refuses two of them on one device");
  finding.evidence = c.spec.procs_per_node
                         ? "procs_per_node: " + std::to_string(*c.spec.procs_per_node)
                         : "the plan's ranks and devices";
  finding.remedy = "procs_per_node: " + std::to_string(count) +
                   ", one process a GPU\nor gpus: " + std::to_string(ranks) +
                   "\nor init_process_group(\"gloo\") in the program, where that is meant";
  Add(report, std::move(finding));
}

void JudgeDevices(const NodeInventory& node, const std::vector<std::size_t>& positions,
                  PreflightReport& report) {
  if (positions.empty()) return;
  bool healthy = true;
  for (const std::size_t i : positions) {
    healthy = JudgeHealth(node, i, report) && healthy;
    JudgeModel(node, i, report);
    JudgeSlices(node, i, report);
  }
  JudgePersistence(node, positions, report);
  JudgePower(node, positions, report);
  if (!healthy) return;
  const bool one = positions.size() == 1;
  Pass(report, "GPU health", node.node,
       std::to_string(positions.size()) + (one ? " GPU of " : " GPUs of ") + node.node.value +
           (one ? " is healthy" : " are healthy"));
}

}  // namespace

void JudgeGpus(const NodeCase& c, PreflightReport& report) {
  const std::vector<std::size_t> positions = GpusUsed(c.plan, c.node);
  JudgeDevices(c.node, positions, report);
  for (const std::size_t i : positions) JudgePrecision(c, i, report);
  JudgeSharing(c, report);
}

void JudgeAllGpus(const NodeInventory& node, PreflightReport& report) {
  std::vector<std::size_t> positions(node.gpus.size());
  for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = i;
  JudgeDevices(node, positions, report);
}

void JudgeForeignUse(const NodeInventory& node, const std::vector<GpuUuid>& free,
                     const std::vector<GpuSample>& samples, PreflightReport& report) {
  if (node.coherent == CoherentMode::kNuma) return;  // the kernel's page cache may lie there
  for (std::size_t i = 0; i < node.gpus.size(); ++i) {
    const GpuDevice& gpu = node.gpus[i];
    if (std::find(free.begin(), free.end(), gpu.uuid) == free.end()) continue;
    const auto sample = std::find_if(samples.begin(), samples.end(),
                                     [&](const GpuSample& s) { return s.uuid == gpu.uuid; });
    if (sample == samples.end() || !sample->used_bytes) continue;
    const std::uint64_t used = *sample->used_bytes;
    if (used <= kIdleBytes + gpu.reserved_bytes.value_or(0)) continue;
    Finding finding = MakeFinding("gpu_busy", Severity::kWarning, node.node,
                                  Name(node, i) + " has no job of launch, but other programs use " +
                                      FormatBytes(used) + " of its memory");
    finding.evidence = "NVML: " + FormatBytes(used) + " of " + FormatBytes(gpu.memory_bytes);
    finding.remedy = "find them: nvidia-smi -i " + NvidiaSmiId(node, i) +
                     " --query-compute-apps=pid,name,used_memory --format=csv";
    finding.fix = {"nvidia-smi -i " + NvidiaSmiId(node, i) +
                   " --query-compute-apps=pid,name,used_memory --format=csv"};
    Add(report, std::move(finding));
  }
}

}  // namespace launch
