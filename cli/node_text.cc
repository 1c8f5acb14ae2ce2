#include "cli/node_text.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "common/mig.h"
#include "common/plural.h"
#include "common/units.h"

namespace launch {
namespace {

constexpr std::size_t kLabelWidth = 12;

// "label       value", nothing for an empty value.
std::string Row(const std::string& label, const std::string& value) {
  if (value.empty()) return {};
  const std::size_t blanks = label.size() < kLabelWidth ? kLabelWidth - label.size() : 1;
  return label + std::string(blanks, ' ') + value + "\n";
}

// Parts that are not empty, with commas.
std::string Parts(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    text += (text.empty() ? "" : ", ") + part;
  }
  return text;
}

std::string Number(const std::optional<int>& number) {
  return number ? std::to_string(*number) : "?";
}

std::string Speed(const std::optional<int>& mbit) {
  if (!mbit) return {};
  if (*mbit % 1000 == 0) return std::to_string(*mbit / 1000) + " Gbit/s";
  return std::to_string(*mbit) + " Mbit/s";
}

std::string Pcie(const PcieLink& pcie) {
  if (pcie == PcieLink{}) return {};
  return "generation " + Number(pcie.generation) + " of " + Number(pcie.max_generation) + ", " +
         Number(pcie.width) + " of " + Number(pcie.max_width) + " lanes";
}

std::string Clocks(const ClockLimits& clocks) {
  std::string graphics;
  if (clocks.graphics_max) graphics = "graphics " + Number(clocks.graphics_max) + " MHz";
  if (clocks.graphics_set) {
    graphics += (graphics.empty() ? "graphics" : "") + std::string(" set to ") +
                Number(clocks.graphics_set) + " MHz";
  }
  return Parts({graphics, clocks.memory_max ? "memory " + Number(clocks.memory_max) + " MHz"
                                            : std::string()});
}

std::string Memory(const GpuDevice& gpu) {
  std::string rows;
  if (gpu.remapped) {
    rows = "rows replaced: " + std::to_string(gpu.remapped->correctable) + " correctable, " +
           std::to_string(gpu.remapped->uncorrectable) + " uncorrectable";
    if (gpu.remapped->pending) rows += ", more at the next reset";
    if (gpu.remapped->failed) rows += ", no spare row left";
  }
  return Parts({FormatBytes(gpu.memory_bytes),
                gpu.reserved_bytes ? FormatBytes(*gpu.reserved_bytes) + " of it the driver's"
                                   : std::string(),
                gpu.ecc ? std::string("ECC ") + (*gpu.ecc ? "on" : "off") : std::string(), rows});
}

// "nvlink 4 x18 to 0000:2a:00.0 0000:3a:00.0; sys to ..."
std::string LinksLine(const std::vector<GpuLink>& links) {
  std::vector<std::pair<std::string, std::string>> kinds;
  for (const GpuLink& link : links) {
    std::string kind(ToString(link.kind));
    if (link.version) kind += " " + std::to_string(*link.version);
    if (link.count) kind += " x" + std::to_string(*link.count);
    const auto same = std::find_if(kinds.begin(), kinds.end(),
                                   [&](const auto& one) { return one.first == kind; });
    if (same == kinds.end()) {
      kinds.emplace_back(kind, link.peer_pci);
    } else {
      same->second += " " + link.peer_pci;
    }
  }
  std::string text;
  for (const auto& [kind, peers] : kinds)
    text += (text.empty() ? "" : "; ") + kind + " to " + peers;
  return text;
}

std::string Gpu(const NodeInventory& node, std::size_t index) {
  const GpuDevice& gpu = node.gpus[index];
  const std::string label = "gpu " + std::to_string(GpuNumber(node, index));
  std::string text =
      Row(label, Parts({gpu.model, gpu.type == gpu.model ? "" : gpu.type,
                        gpu.cc ? "capability " + ToString(*gpu.cc) : "", gpu.pci, gpu.uuid.value}));
  text += Row("  memory", Memory(gpu));
  text += Row("  pcie", Pcie(gpu.pcie));
  text += Row("  clocks", Clocks(gpu.clocks));
  text +=
      Row("  power", gpu.power_limit_w ? std::to_string(*gpu.power_limit_w) + " W at most" : "");
  text += Row("  links", LinksLine(gpu.links));
  text += Row("  fabric", gpu.fabric ? std::string(ToString(*gpu.fabric)) : "");
  if (gpu.persistence) text += Row("  persistence", *gpu.persistence ? "on" : "off");
  for (const MigSlice& slice : gpu.mig)
    text += Row("  mig", Parts({slice.profile, FormatBytes(slice.memory_bytes), slice.uuid.value}));
  if (gpu.health != Health::kOk)
    text += Row("  health", std::string(ToString(gpu.health)) + ": " + gpu.why);
  return text;
}

std::string Rdma(const RdmaPort& port) {
  return Parts({port.device + " port " + std::to_string(port.port), port.layer, port.state,
                Speed(port.mbit), port.interface,
                port.numa ? "NUMA node " + std::to_string(*port.numa) : ""});
}

std::string Interpreter(const RuntimeFacts& facts) {
  std::string torch = "no torch";
  if (facts.torch) {
    torch = "torch " + facts.torch->version;
    if (facts.torch->cuda) torch += " for CUDA " + *facts.torch->cuda;
    if (facts.torch->nccl) torch += ", NCCL " + *facts.torch->nccl;
  }
  std::string packages;
  for (const auto& [name, version] : facts.packages)
    packages += (packages.empty() ? "" : ", ") + name + " " + version;
  std::string ops;
  for (const std::string& op : facts.built_ops) ops += (ops.empty() ? "" : " ") + op;
  return Parts({facts.path, facts.python.empty() ? "does not run" : "Python " + facts.python, torch,
                facts.sees_gpu == false ? "sees no GPU" : "", packages,
                ops.empty() ? "" : "built for DeepSpeed: " + ops});
}

std::string HostLine(const NodeInventory& node) {
  return Parts({std::string(ToString(node.arch)), node.kernel,
                node.glibc.empty() ? "" : "glibc " + node.glibc, WithPlural(node.cores, "core"),
                FormatBytes(node.memory_bytes),
                node.shm_bytes == 0 ? "" : "/dev/shm " + FormatBytes(node.shm_bytes)});
}

std::string LimitsText(const Limits& limits) {
  const auto number = [](const char* name, const std::optional<std::uint64_t>& value) {
    return value ? name + std::to_string(*value) : std::string();
  };
  return Parts({limits.memlock_bytes ? "memlock " + FormatBytes(*limits.memlock_bytes) : "",
                number("nofile ", limits.nofile), number("nproc ", limits.nproc)});
}

}  // namespace

std::string ShownState(const NodeView& view) {
  return view.state + (view.state != "drain" && view.drained ? "+drain" : "");
}

std::string NodeText(const NodeView& view) {
  const NodeInventory& node = view.inventory;
  std::string text = Row("node", node.node.value);
  text += Row("state", Parts({ShownState(view), view.reason}));
  text += Row("health", Parts({std::string(ToString(view.health.health)), view.health.reason}));
  text += Row("host", HostLine(node));
  text += Row("containment", std::string(ToString(node.containment)));
  if (node.coherent != CoherentMode::kNone)
    text += Row("coherent", std::string(ToString(node.coherent)));
  for (const NumaNode& numa : node.numa)
    text += Row("numa " + std::to_string(numa.id),
                std::to_string(numa.cores) + " cores, " + FormatBytes(numa.memory_bytes));
  text += Row("limits", LimitsText(node.limits));
  text += Row("driver", Parts({node.driver.value_or(""),
                               node.driver_cuda ? "CUDA " + ToString(*node.driver_cuda) : "",
                               node.driver_problem}));
  if (node.gpu_subset) text += Row("gpus", "some of its machine's; gpu_ids count these");
  for (std::size_t i = 0; i < node.gpus.size(); ++i) text += Gpu(node, i);
  for (const NetworkAddress& address : node.addresses)
    text += Row("address", Parts({address.address, address.interface, Speed(address.mbit),
                                  address.mtu ? "MTU " + std::to_string(*address.mtu) : "",
                                  address.rdma ? "RDMA" : ""}));
  for (const RdmaPort& port : node.rdma) text += Row("rdma", Rdma(port));
  if (node.toolkit)
    text += Row("toolkit", Parts({"nvcc " + node.toolkit->nvcc, node.toolkit->home}));
  text += Row("cudart", node.cuda_runtime.value_or(""));
  std::string tools;
  for (const auto& [name, version] : node.tools)
    tools += (tools.empty() ? "" : ", ") + name + " " + version;
  text += Row("tools", tools);
  for (const RuntimeFacts& facts : node.interpreters) text += Row("python", Interpreter(facts));
  text += Row("containers", Parts(node.container_runtimes));
  for (const auto& [name, value] : node.labels) text += Row("label", name + "=" + value);
  return text;
}

}  // namespace launch
