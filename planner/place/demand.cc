#include "planner/place/demand.h"

#include <algorithm>
#include <utility>

#include "common/constraint.h"
#include "common/gpu_catalog.h"
#include "common/mig.h"
#include "common/units.h"

namespace launch {
namespace {

Unexpected Contradiction(std::string message, std::string hint) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message), std::move(hint));
}

// Existence, not freeness: a GPU of a healthy, schedulable node that suits the job.
bool SomeNodeHas(const NodeFilter& filter, const std::vector<PlannerOffer>& offers,
                 DeviceClass device) {
  return std::any_of(offers.begin(), offers.end(), [&](const PlannerOffer& offer) {
    if (!offer.schedulable || !filter.Lacks(offer).empty()) return false;
    return std::any_of(
        offer.inventory->gpus.begin(), offer.inventory->gpus.end(), [&](const GpuDevice& gpu) {
          return gpu.device_class == device && gpu.health != Health::kBad && !IsMigSlice(gpu);
        });
  });
}

bool IsKnown(const std::vector<PlannerOffer>& offers, DeviceClass device) {
  return std::any_of(offers.begin(), offers.end(), [&](const PlannerOffer& offer) {
    return std::any_of(offer.inventory->gpus.begin(), offer.inventory->gpus.end(),
                       [&](const GpuDevice& gpu) { return gpu.device_class == device; });
  });
}

std::string NoGpu(const std::vector<PlannerOffer>& offers) {
  const bool any = IsKnown(offers, DeviceClass::kCuda) || IsKnown(offers, DeviceClass::kMps);
  return any ? "no node that takes jobs has a working GPU for it" : "no node has a GPU";
}

Result<void> TakeNodes(const JobSpec& spec, const LineDemand& line, Demand& demand) {
  demand.nodes_min = spec.nodes.min;
  demand.nodes_max = std::max(spec.nodes.min, spec.nodes.max);
  if (!line.nodes_min) return {};
  if (*line.nodes_max == 1) {
    if (demand.nodes_min > 1) {
      demand.warnings.push_back(MakeFinding("launcher_flags_replaced", Severity::kNotice,
                                            "the one node of the line is replaced by nodes: " +
                                                std::to_string(demand.nodes_min) + " of the job",
                                            "leave the flag out of the line"));
    }
    return {};
  }
  if (*line.nodes_min <= demand.nodes_max && demand.nodes_min <= *line.nodes_max) return {};
  const std::string written =
      *line.nodes_min == *line.nodes_max
          ? std::to_string(*line.nodes_min)
          : std::to_string(*line.nodes_min) + ".." + std::to_string(*line.nodes_max);
  return Contradiction(
      "run says --nnodes=" + written +
          ", but the job has nodes: " + std::to_string(demand.nodes_max),
      "write nodes: " + written + " in the job, or leave --nnodes out of the line");
}

// accelerate's --num_processes is a total over the machines, of which the job has the number.
Result<int> ProcessesOf(const LineDemand& line, const Demand& demand) {
  const bool total =
      line.procs_of_all_nodes && demand.nodes_min == demand.nodes_max && demand.nodes_max > 1;
  if (!total) return line.procs_number;
  if (line.procs_number % demand.nodes_max == 0) return line.procs_number / demand.nodes_max;
  return Contradiction("run says --num_processes " + std::to_string(line.procs_number) +
                           ", a total that " + std::to_string(demand.nodes_max) +
                           " nodes cannot share",
                       "write a multiple of nodes:");
}

// Ranks beyond the GPUs of a node would look for devices that are not there.
Result<void> CheckRanksAndGpus(const JobSpec& spec, const LineDemand& line, const Demand& demand) {
  if (!spec.gpus_written || spec.procs_per_node || line.procs != ProcsWord::kNumber) return {};
  const bool certain = line.start == StartKind::kDirect || line.procs_sure;
  if (!certain || !demand.procs_per_node) return {};
  for (const GpuAlternative& alternative : demand.alternatives) {
    if (*demand.procs_per_node <= alternative.count) continue;
    return Contradiction("run starts " + std::to_string(*demand.procs_per_node) +
                             " processes on a node, and gpus asks for " +
                             std::to_string(alternative.count),
                         "make the two agree; procs_per_node: N says that several share a GPU");
  }
  return {};
}

Result<void> TakeProcesses(const JobSpec& spec, const LineDemand& line, Demand& demand) {
  demand.procs_per_node = spec.procs_per_node;
  if (spec.procs_per_node) {
    if (line.procs == ProcsWord::kNumber && line.procs_number != *spec.procs_per_node) {
      return Contradiction(
          "run says --nproc-per-node=" + std::to_string(line.procs_number) +
              ", but the job has procs_per_node: " + std::to_string(*spec.procs_per_node),
          "leave one of the two out");
    }
    return {};
  }
  if (line.procs == ProcsWord::kNumber) {
    LAUNCH_ASSIGN_OR_RETURN(demand.procs_per_node, ProcessesOf(line, demand));
  }
  demand.procs_per_core = line.procs == ProcsWord::kCpu;
  return {};
}

// GPUs per node that the words of the job outside `gpus:` ask for.
std::optional<int> ImpliedCount(const JobSpec& spec, const LineDemand& line) {
  if (!spec.gpu_ids.empty()) return static_cast<int>(spec.gpu_ids.size());
  if (line.visible_devices) return line.visible_devices;
  if (spec.procs_per_node) return spec.procs_per_node;
  if (line.procs == ProcsWord::kNumber) return line.procs_number;
  return std::nullopt;
}

void MakeCpu(const JobSpec& spec, const LineDemand& line, Demand& demand, std::string reason) {
  demand.device = DeviceClass::kCpu;
  demand.device_reason = std::move(reason);
  demand.alternatives.clear();
  demand.total_gpus.reset();
  if (line.procs == ProcsWord::kAuto && !demand.procs_per_node) demand.procs_per_core = true;
  // "gpus: X:N" beside device: cpu is the number of processes.
  if (!demand.procs_per_node && !demand.procs_per_core) {
    demand.procs_per_node =
        spec.gpus_written && !spec.gpus.empty() ? std::clamp(spec.gpus[0].count, 1, 4096) : 1;
  }
  if (spec.gpus_written && !spec.gpus.empty() && spec.gpus[0].count > 0) {
    Finding notice;
    notice.code = "gpus_ignored";
    notice.says = "device: cpu takes no GPU; gpus: gives the number of processes" +
                  std::string(spec.gpus[0].model.empty() ? "" : ", its model has no meaning here");
    notice.remedy = "write gpus: 0 and procs_per_node";
    demand.warnings.push_back(std::move(notice));
  }
}

}  // namespace

bool HasOnlyBadGpus(const NodeInventory& node) {
  return !node.gpus.empty() &&
         std::all_of(node.gpus.begin(), node.gpus.end(),
                     [](const GpuDevice& gpu) { return gpu.health == Health::kBad; });
}

std::string Describe(const GpuAlternative& alternative) {
  if (alternative.models.empty()) {
    return std::to_string(alternative.count) + (alternative.count == 1 ? " GPU" : " GPUs");
  }
  std::string text = std::to_string(alternative.count) + " ";
  for (std::size_t i = 0; i < alternative.models.size(); ++i) {
    text += (i == 0 ? "" : " or ") + alternative.models[i];
  }
  return text;
}

Result<Demand> DemandOf(const JobSpec& spec, const LineDemand& line, const NodeFilter& filter,
                        const std::vector<PlannerOffer>& offers) {
  Demand demand;
  LAUNCH_RETURN_IF_ERROR(TakeNodes(spec, line, demand));
  LAUNCH_RETURN_IF_ERROR(TakeProcesses(spec, line, demand));
  demand.total_gpus = spec.total_gpus;
  const bool zero_written =
      spec.gpus_written && !spec.gpus.empty() &&
      std::all_of(spec.gpus.begin(), spec.gpus.end(),
                  [](const GpuRequest& request) { return request.count == 0; });
  if (spec.device == DeviceChoice::kCpu) {
    MakeCpu(spec, line, demand, "device: cpu");
    return demand;
  }
  if (zero_written) {
    if (spec.device != DeviceChoice::kAuto) {
      return Contradiction("device: " + std::string(ToString(spec.device)) + " with gpus: 0",
                           "write gpus: 1, or device: cpu");
    }
    MakeCpu(spec, line, demand, "gpus: 0");
    // `--gpus 0` is the first GPU to those who come from a launcher that takes numbers of devices.
    if (spec.device == DeviceChoice::kAuto && IsKnown(offers, DeviceClass::kCuda)) {
      demand.warnings.push_back(MakeFinding("device_slower", Severity::kWarning,
                                            "gpus: 0 asks for no GPU: the job runs on the CPU",
                                            "write gpu_ids: 0 for the GPU of that number, gpus: 1 "
                                            "for any; device: cpu if the CPU is meant"));
    }
    return demand;
  }
  const bool accelerators_required = spec.gpus_written || spec.total_gpus ||
                                     !spec.gpu_ids.empty() || spec.device == DeviceChoice::kCuda ||
                                     spec.device == DeviceChoice::kMps;
  const bool cuda = SomeNodeHas(filter, offers, DeviceClass::kCuda);
  const bool mps = SomeNodeHas(filter, offers, DeviceClass::kMps);
  const bool hidden = line.visible_devices && *line.visible_devices == 0;
  if (!accelerators_required && (hidden || !line.on_cpu.empty() || (!cuda && !mps))) {
    const bool chosen = hidden || !line.on_cpu.empty();
    MakeCpu(spec, line, demand,
            hidden   ? "run hides the GPUs with CUDA_VISIBLE_DEVICES"
            : chosen ? line.on_cpu
                     : NoGpu(offers));
    demand.cpu_fallback = !chosen;
    return demand;
  }
  demand.device = spec.device == DeviceChoice::kMps ? DeviceClass::kMps : DeviceClass::kCuda;
  if (spec.device == DeviceChoice::kAuto) {
    const bool only_mps_known =
        !IsKnown(offers, DeviceClass::kCuda) && IsKnown(offers, DeviceClass::kMps);
    if (!cuda && (mps || only_mps_known)) demand.device = DeviceClass::kMps;
    demand.device_reason = "auto";
  } else {
    demand.device_reason = "device: " + std::string(ToString(spec.device));
  }
  if (spec.gpus_written) {
    for (const GpuRequest& request : spec.gpus) {
      if (request.count < 1) continue;
      GpuAlternative alternative;
      if (!request.model.empty()) alternative.models = {request.model};
      alternative.count = request.count;
      demand.alternatives.push_back(std::move(alternative));
    }
  }
  if (demand.alternatives.empty()) {
    demand.alternatives.push_back({{}, ImpliedCount(spec, line).value_or(1)});
  }
  LAUNCH_RETURN_IF_ERROR(CheckRanksAndGpus(spec, line, demand));
  if (!spec.gpu_ids.empty()) {
    for (const GpuAlternative& alternative : demand.alternatives) {
      if (alternative.count != static_cast<int>(spec.gpu_ids.size()) && spec.gpus_written) {
        return Contradiction("gpu_ids names " + std::to_string(spec.gpu_ids.size()) +
                                 " devices, gpus asks for " + std::to_string(alternative.count),
                             "leave gpus out, or make the two agree");
      }
    }
  }
  // "A list means any of": as a last resort nodes may differ when the counts are the same.
  const auto& list = demand.alternatives;
  if (list.size() > 1 && demand.nodes_max > 1 &&
      std::all_of(list.begin(), list.end(), [&](const GpuAlternative& alternative) {
        return alternative.count == list[0].count && !alternative.models.empty();
      })) {
    GpuAlternative any;
    any.count = list[0].count;
    for (const GpuAlternative& alternative : list) any.models.push_back(alternative.models[0]);
    demand.alternatives.push_back(std::move(any));
  }
  return demand;
}

NodeFilter::NodeFilter(const JobSpec& spec, std::optional<Constraint> constraint)
    : spec_(&spec), needs_runtime_(!spec.image.empty()), constraint_(std::move(constraint)) {}

Result<NodeFilter> NodeFilter::Make(const JobSpec& spec) {
  if (spec.constraints.empty()) return NodeFilter(spec, std::nullopt);
  LAUNCH_ASSIGN_OR_RETURN(Constraint constraint, Constraint::Parse(spec.constraints));
  return NodeFilter(spec, std::move(constraint));
}

std::string NodeFilter::Lacks(const PlannerOffer& offer) const {
  if (!offer.refuses.empty()) return offer.refuses;
  const NodeInventory& node = *offer.inventory;
  const JobSpec& spec = *spec_;
  const auto names = [&](const std::vector<std::string>& list) {
    return std::find(list.begin(), list.end(), node.node.value) != list.end();
  };
  if (!spec.nodelist.empty() && !names(spec.nodelist)) return "is not in nodelist";
  if (names(spec.exclude_nodes)) return "is in exclude_nodes";
  if (spec.arch && node.arch != *spec.arch) {
    return "is " + std::string(ToString(node.arch)) + ", not " + std::string(ToString(*spec.arch));
  }
  if (spec.cpus && spec.cpus->value > static_cast<std::uint64_t>(std::max(node.cores, 0))) {
    return "has " + std::to_string(node.cores) + (node.cores == 1 ? " core of " : " cores of ") +
           std::to_string(spec.cpus->value);
  }
  if (spec.memory_bytes && spec.memory_bytes->value > node.memory_bytes) {
    return "has " + FormatBytes(node.memory_bytes) + " of " +
           FormatBytes(spec.memory_bytes->value) + " memory";
  }
  if (needs_runtime_ && node.container_runtimes.empty()) return "has no container runtime";
  std::string failed;
  if (constraint_ && !constraint_->Holds(node, &failed)) return "fails " + failed;
  return {};
}

std::vector<int> NodeFilter::Gpus(DeviceClass device, const GpuAlternative& alternative,
                                  const NodeInventory& node, const std::vector<int>& among) const {
  const std::vector<int>& ids = spec_->gpu_ids;
  const GpuCatalog& catalog = GpuCatalog::BuiltIn();
  std::vector<int> suitable;
  for (int index : among) {
    if (index < 0 || index >= static_cast<int>(node.gpus.size())) continue;
    const GpuDevice& gpu = node.gpus[static_cast<std::size_t>(index)];
    if (gpu.device_class != device) continue;
    if (IsMigSlice(gpu) && alternative.models.empty()) continue;  // only for those who name it
    if (!ids.empty() &&
        (IsMigSlice(gpu) ||
         std::ranges::find(ids, GpuNumber(node, static_cast<std::size_t>(index))) == ids.end()))
      continue;
    const auto& models = alternative.models;
    if (!models.empty() && std::none_of(models.begin(), models.end(), [&](const std::string& m) {
          return catalog.Matches(m, gpu);
        })) {
      continue;
    }
    if (constraint_ && !constraint_->HoldsFor(node, gpu, nullptr)) continue;
    suitable.push_back(index);
  }
  std::sort(suitable.begin(), suitable.end());
  return suitable;
}

}  // namespace launch
