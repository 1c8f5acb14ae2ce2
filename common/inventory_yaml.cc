#include "common/inventory_yaml.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include "common/gpu_catalog.h"
#include "common/inventory_fields.h"
#include "common/mig.h"
#include "common/units.h"
#include "common/yaml_reader.h"

namespace launch {
namespace {

constexpr std::size_t kMaxFileBytes = 64 * kMiB;
constexpr std::int64_t kMaxDevices = 64;

Result<void> ReadAddress(const Fields& f, NodeInventory& node) {
  LAUNCH_RETURN_IF_ERROR(f.Only({"interface", "address", "mbit", "mtu", "rdma"}));
  NetworkAddress address;
  LAUNCH_RETURN_IF_ERROR(f.Text("interface", address.interface));
  LAUNCH_RETURN_IF_ERROR(f.Text("address", address.address));
  LAUNCH_RETURN_IF_ERROR(f.Int("mbit", address.mbit));
  LAUNCH_RETURN_IF_ERROR(f.Int("mtu", address.mtu));
  LAUNCH_RETURN_IF_ERROR(f.Bool("rdma", address.rdma));
  node.addresses.push_back(std::move(address));
  return {};
}

Result<void> ReadRdma(const Fields& f, NodeInventory& node) {
  LAUNCH_RETURN_IF_ERROR(f.Only({"device", "port", "layer", "state", "mbit", "interface", "numa"}));
  RdmaPort port;
  LAUNCH_RETURN_IF_ERROR(f.Text("device", port.device));
  LAUNCH_RETURN_IF_ERROR(f.Int("port", port.port));
  LAUNCH_RETURN_IF_ERROR(f.Text("layer", port.layer));
  LAUNCH_RETURN_IF_ERROR(f.Text("state", port.state));
  LAUNCH_RETURN_IF_ERROR(f.Int("mbit", port.mbit));
  LAUNCH_RETURN_IF_ERROR(f.Text("interface", port.interface));
  LAUNCH_RETURN_IF_ERROR(f.Int("numa", port.numa));
  node.rdma.push_back(std::move(port));
  return {};
}

Result<void> ReadPcie(const Fields& f, PcieLink& pcie) {
  LAUNCH_RETURN_IF_ERROR(f.Only({"generation", "max_generation", "width", "max_width"}));
  LAUNCH_RETURN_IF_ERROR(f.Int("generation", pcie.generation));
  LAUNCH_RETURN_IF_ERROR(f.Int("max_generation", pcie.max_generation));
  LAUNCH_RETURN_IF_ERROR(f.Int("width", pcie.width));
  return f.Int("max_width", pcie.max_width);
}

Result<void> ReadClocks(const Fields& f, ClockLimits& clocks) {
  LAUNCH_RETURN_IF_ERROR(f.Only({"graphics_max_mhz", "graphics_set_mhz", "memory_max_mhz"}));
  LAUNCH_RETURN_IF_ERROR(f.Int("graphics_max_mhz", clocks.graphics_max));
  LAUNCH_RETURN_IF_ERROR(f.Int("graphics_set_mhz", clocks.graphics_set));
  return f.Int("memory_max_mhz", clocks.memory_max);
}

Result<void> ReadRemapped(const Fields& f, GpuDevice& gpu) {
  LAUNCH_RETURN_IF_ERROR(f.Only({"correctable", "uncorrectable", "pending", "failed"}));
  RemappedRows rows;
  LAUNCH_RETURN_IF_ERROR(f.Int("correctable", rows.correctable));
  LAUNCH_RETURN_IF_ERROR(f.Int("uncorrectable", rows.uncorrectable));
  LAUNCH_RETURN_IF_ERROR(f.Bool("pending", rows.pending));
  LAUNCH_RETURN_IF_ERROR(f.Bool("failed", rows.failed));
  gpu.remapped = rows;
  return {};
}

// What a driver says of the hardware beyond what placement needs.
Result<void> ReadHardware(const Fields& f, GpuDevice& gpu) {
  LAUNCH_RETURN_IF_ERROR(f.Inside("pcie", [&](const Fields& p) { return ReadPcie(p, gpu.pcie); }));
  LAUNCH_RETURN_IF_ERROR(
      f.Inside("clocks", [&](const Fields& c) { return ReadClocks(c, gpu.clocks); }));
  LAUNCH_RETURN_IF_ERROR(
      f.Inside("remapped", [&](const Fields& r) { return ReadRemapped(r, gpu); }));
  return f.Word("fabric", gpu.fabric, ParseFabricState);
}

Result<void> ReadMigSlice(const Fields& f, GpuDevice& gpu) {
  LAUNCH_RETURN_IF_ERROR(f.Only({"uuid", "profile", "memory"}));
  MigSlice slice;
  LAUNCH_RETURN_IF_ERROR(f.Text("uuid", slice.uuid.value));
  LAUNCH_RETURN_IF_ERROR(f.Text("profile", slice.profile));
  LAUNCH_RETURN_IF_ERROR(f.Bytes("memory", slice.memory_bytes));
  gpu.mig.push_back(std::move(slice));
  return {};
}

Result<void> ReadLink(const Fields& f, GpuDevice& gpu) {
  LAUNCH_RETURN_IF_ERROR(f.Only({"peer", "kind", "version", "count"}));
  GpuLink link;
  LAUNCH_RETURN_IF_ERROR(f.Text("peer", link.peer_pci));
  LAUNCH_RETURN_IF_ERROR(f.Word("kind", link.kind, ParseLinkKind));
  LAUNCH_RETURN_IF_ERROR(f.Int("version", link.version));
  LAUNCH_RETURN_IF_ERROR(f.Int("count", link.count));
  gpu.links.push_back(std::move(link));
  return {};
}

// `count: 8` stands for eight alike, so that a file by hand stays short.
Result<void> ReadGpu(const Fields& f, NodeInventory& node) {
  LAUNCH_RETURN_IF_ERROR(
      f.Only({"uuid", "device",      "model", "type",  "cc",     "memory",        "reserved",
              "pci",  "numa",        "mig",   "links", "ecc",    "power_limit_w", "health",
              "why",  "persistence", "count", "pcie",  "clocks", "remapped",      "fabric"}));
  GpuDevice gpu;
  LAUNCH_RETURN_IF_ERROR(f.Word("device", gpu.device_class, ParseDeviceClass));
  LAUNCH_RETURN_IF_ERROR(f.Text("model", gpu.model));
  LAUNCH_RETURN_IF_ERROR(f.Bytes("memory", gpu.memory_bytes));
  LAUNCH_RETURN_IF_ERROR(f.Bytes("reserved", gpu.reserved_bytes));
  std::optional<CudaVersion> cc;
  LAUNCH_RETURN_IF_ERROR(f.Version("cc", cc));
  if (cc) gpu.cc = ComputeCapability{cc->major, cc->minor};
  LAUNCH_RETURN_IF_ERROR(f.Text("pci", gpu.pci));
  LAUNCH_RETURN_IF_ERROR(f.Int("numa", gpu.numa));
  LAUNCH_RETURN_IF_ERROR(f.Bool("ecc", gpu.ecc));
  LAUNCH_RETURN_IF_ERROR(f.Int("power_limit_w", gpu.power_limit_w));
  LAUNCH_RETURN_IF_ERROR(f.Word("health", gpu.health, ParseHealth));
  LAUNCH_RETURN_IF_ERROR(f.Text("why", gpu.why));
  LAUNCH_RETURN_IF_ERROR(f.Bool("persistence", gpu.persistence));
  LAUNCH_RETURN_IF_ERROR(ReadHardware(f, gpu));
  LAUNCH_RETURN_IF_ERROR(f.Each("mig", [&](const Fields& m) { return ReadMigSlice(m, gpu); }));
  LAUNCH_RETURN_IF_ERROR(f.Each("links", [&](const Fields& l) { return ReadLink(l, gpu); }));
  if (f.Get("type") == nullptr) {
    const GpuType* type = GpuCatalog::BuiltIn().TypeOf(gpu.model, gpu.memory_bytes);
    if (type != nullptr) gpu.type = type->name;
  }
  LAUNCH_RETURN_IF_ERROR(f.Text("type", gpu.type));
  std::int64_t count = 1;
  LAUNCH_RETURN_IF_ERROR(f.Int("count", count));
  const bool several = f.Get("count") != nullptr;
  if (count < 1 || count > kMaxDevices) {
    return f.map().Bad(*f.Get("count"), "count", "is not a number from 1 to 64");
  }
  if (several && (f.Get("uuid") != nullptr || f.Get("pci") != nullptr)) {
    return f.map().Bad(*f.Get("count"), "count",
                       "stands for several devices, which cannot share a "
                       "uuid or pci address",
                       "leave uuid and pci out");
  }
  for (std::int64_t i = 0; i < count; ++i) {
    gpu.uuid.value = "GPU-" + node.node.value + "-" + std::to_string(node.gpus.size());
    LAUNCH_RETURN_IF_ERROR(f.Text("uuid", gpu.uuid.value));
    node.gpus.push_back(gpu);
  }
  return {};
}

Result<void> ReadTorch(const Fields& f, RuntimeFacts& facts) {
  LAUNCH_RETURN_IF_ERROR(f.Only({"version", "cuda", "hip", "arch_list", "nccl", "path"}));
  TorchFacts torch;
  LAUNCH_RETURN_IF_ERROR(f.Text("version", torch.version));
  LAUNCH_RETURN_IF_ERROR(f.Text("cuda", torch.cuda));
  LAUNCH_RETURN_IF_ERROR(f.Text("hip", torch.hip));
  LAUNCH_ASSIGN_OR_RETURN(torch.arch_list, f.map().StringList("arch_list"));
  LAUNCH_RETURN_IF_ERROR(f.Text("nccl", torch.nccl));
  LAUNCH_RETURN_IF_ERROR(f.Text("path", torch.path));
  facts.torch = std::move(torch);
  return {};
}

Result<void> ReadInterpreter(const Fields& f, NodeInventory& node) {
  LAUNCH_RETURN_IF_ERROR(f.Only({"path", "realpath", "user", "python", "torch", "sees_gpu",
                                 "devices", "mps", "packages", "built_ops", "says", "probed_ms"}));
  RuntimeFacts facts;
  LAUNCH_RETURN_IF_ERROR(f.Text("path", facts.path));
  LAUNCH_RETURN_IF_ERROR(f.Text("realpath", facts.realpath));
  LAUNCH_RETURN_IF_ERROR(f.Text("user", facts.user));
  LAUNCH_RETURN_IF_ERROR(f.Text("python", facts.python));
  LAUNCH_RETURN_IF_ERROR(f.Bool("sees_gpu", facts.sees_gpu));
  LAUNCH_RETURN_IF_ERROR(f.Int("devices", facts.devices));
  LAUNCH_RETURN_IF_ERROR(f.Bool("mps", facts.mps));
  LAUNCH_RETURN_IF_ERROR(f.Map("packages", facts.packages));
  LAUNCH_ASSIGN_OR_RETURN(facts.built_ops, f.map().StringList("built_ops"));
  LAUNCH_RETURN_IF_ERROR(f.Text("says", facts.says));
  std::int64_t probed = 0;
  LAUNCH_RETURN_IF_ERROR(f.Int("probed_ms", probed));
  facts.probed = WallMs(probed);
  LAUNCH_RETURN_IF_ERROR(f.Inside("torch", [&](const Fields& t) { return ReadTorch(t, facts); }));
  node.interpreters.push_back(std::move(facts));
  return {};
}

Result<void> ReadLimits(const Fields& f, NodeInventory& node) {
  LAUNCH_RETURN_IF_ERROR(f.Only({"memlock", "nofile", "nproc"}));
  LAUNCH_RETURN_IF_ERROR(f.Bytes("memlock", node.limits.memlock_bytes));
  LAUNCH_RETURN_IF_ERROR(f.Int("nofile", node.limits.nofile));
  return f.Int("nproc", node.limits.nproc);
}

Result<void> ReadNuma(const Fields& f, NodeInventory& node) {
  LAUNCH_RETURN_IF_ERROR(f.Only({"id", "cores", "memory"}));
  NumaNode numa;
  LAUNCH_RETURN_IF_ERROR(f.Int("id", numa.id));
  LAUNCH_RETURN_IF_ERROR(f.Int("cores", numa.cores));
  LAUNCH_RETURN_IF_ERROR(f.Bytes("memory", numa.memory_bytes));
  node.numa.push_back(numa);
  return {};
}

Result<void> ReadToolkit(const Fields& f, NodeInventory& node) {
  LAUNCH_RETURN_IF_ERROR(f.Only({"nvcc", "home"}));
  node.toolkit.emplace();
  LAUNCH_RETURN_IF_ERROR(f.Text("nvcc", node.toolkit->nvcc));
  return f.Text("home", node.toolkit->home);
}

Result<void> ReadHost(const Fields& f, NodeInventory& node) {
  LAUNCH_RETURN_IF_ERROR(f.Word("arch", node.arch, ParseArch));
  LAUNCH_RETURN_IF_ERROR(f.Text("kernel", node.kernel));
  LAUNCH_RETURN_IF_ERROR(f.Text("glibc", node.glibc));
  LAUNCH_RETURN_IF_ERROR(f.Int("page_size", node.page_size));
  LAUNCH_RETURN_IF_ERROR(f.Int("cores", node.cores));
  LAUNCH_RETURN_IF_ERROR(f.Int("threads", node.threads));
  LAUNCH_RETURN_IF_ERROR(f.Bytes("memory", node.memory_bytes));
  LAUNCH_RETURN_IF_ERROR(f.Bytes("shm", node.shm_bytes));
  LAUNCH_RETURN_IF_ERROR(f.Inside("limits", [&](const Fields& l) { return ReadLimits(l, node); }));
  LAUNCH_RETURN_IF_ERROR(f.Each("numa", [&](const Fields& n) { return ReadNuma(n, node); }));
  LAUNCH_RETURN_IF_ERROR(f.Word("containment", node.containment, ParseContainment));
  LAUNCH_RETURN_IF_ERROR(f.Word("coherent", node.coherent, ParseCoherentMode));
  LAUNCH_RETURN_IF_ERROR(f.Bool("simulated", node.simulated));
  LAUNCH_RETURN_IF_ERROR(f.Map("labels", node.labels));
  LAUNCH_RETURN_IF_ERROR(f.Map("base_env", node.base_env));
  return f.Int("revision", node.revision);
}

Result<NodeInventory> ReadNode(const YamlNode& yaml, const std::string& file) {
  const Fields f(yaml, file, "");
  LAUNCH_RETURN_IF_ERROR(f.Only({"node",
                                 "addresses",
                                 "arch",
                                 "kernel",
                                 "glibc",
                                 "page_size",
                                 "cores",
                                 "threads",
                                 "numa",
                                 "memory",
                                 "shm",
                                 "limits",
                                 "gpus",
                                 "driver",
                                 "driver_cuda",
                                 "driver_problem",
                                 "toolkit",
                                 "cuda_runtime",
                                 "tools",
                                 "interpreters",
                                 "container_runtimes",
                                 "containment",
                                 "coherent",
                                 "simulated",
                                 "labels",
                                 "base_env",
                                 "revision",
                                 "rdma"}));
  NodeInventory node;
  LAUNCH_RETURN_IF_ERROR(f.Text("node", node.node.value));
  if (f.Get("node") == nullptr || !IsValidName(node.node.value)) {
    return f.map().Bad(yaml, "node", "a node needs a name of letters, digits, '.', '_' and '-'",
                       "e.g. node: gpu01");
  }
  if (f.Get("cores") == nullptr) {
    return f.map().Bad(yaml, "cores", "node " + node.node.value + " has no cores",
                       "write the number of physical cores");
  }
  LAUNCH_RETURN_IF_ERROR(ReadHost(f, node));
  LAUNCH_RETURN_IF_ERROR(
      f.Each("addresses", [&](const Fields& a) { return ReadAddress(a, node); }));
  LAUNCH_RETURN_IF_ERROR(f.Each("rdma", [&](const Fields& r) { return ReadRdma(r, node); }));
  LAUNCH_RETURN_IF_ERROR(f.Each("gpus", [&](const Fields& g) { return ReadGpu(g, node); }));
  LAUNCH_RETURN_IF_ERROR(f.Text("driver", node.driver));
  LAUNCH_RETURN_IF_ERROR(f.Version("driver_cuda", node.driver_cuda));
  LAUNCH_RETURN_IF_ERROR(f.Text("driver_problem", node.driver_problem));
  LAUNCH_RETURN_IF_ERROR(
      f.Inside("toolkit", [&](const Fields& t) { return ReadToolkit(t, node); }));
  LAUNCH_RETURN_IF_ERROR(f.Text("cuda_runtime", node.cuda_runtime));
  LAUNCH_RETURN_IF_ERROR(f.Map("tools", node.tools));
  LAUNCH_RETURN_IF_ERROR(
      f.Each("interpreters", [&](const Fields& i) { return ReadInterpreter(i, node); }));
  LAUNCH_ASSIGN_OR_RETURN(node.container_runtimes, f.map().StringList("container_runtimes"));
  return node;
}

struct Part {
  std::string_view text;
  int lines_before = 0;
};

// Items of a block list at the left margin. Each is read as a document of its own, so that a large
// cluster does not run into the limits that protect against hostile files.
std::vector<Part> Parts(std::string_view text) {
  std::vector<Part> parts;
  int line = 0;
  std::size_t begin = std::string_view::npos;
  int begin_line = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string_view row = text.substr(at, end - at);
    const bool item = row.substr(0, 2) == "- ";
    const bool margin = row[0] != ' ' && row[0] != '#' && row[0] != '\n' && row[0] != '\r';
    if (margin && !item) return {};  // another shape of document: read it whole
    if (item) {
      if (begin != std::string_view::npos)
        parts.push_back({text.substr(begin, at - begin), begin_line});
      begin = at;
      begin_line = line;
    }
    at = end;
    ++line;
  }
  if (begin != std::string_view::npos) parts.push_back({text.substr(begin), begin_line});
  return parts;
}

Result<void> ReadDocument(const Part& part, const std::string& file,
                          std::vector<NodeInventory>& nodes) {
  const auto moved = [&](Error error) -> Unexpected {
    if (error.where && error.where->line > 0) error.where->line += part.lines_before;
    return Unexpected(std::move(error));
  };
  auto root = ParseYaml(part.text, file);
  if (!root) return moved(root.error());
  if (root->kind != YamlNode::Kind::kList) {
    auto node = ReadNode(*root, file);  // one node without the dash
    if (!node) return moved(node.error());
    nodes.push_back(std::move(*node));
    return {};
  }
  for (const YamlNode& item : root->items) {
    auto node = ReadNode(item, file);
    if (!node) return moved(node.error());
    nodes.push_back(std::move(*node));
  }
  return {};
}

Result<void> CheckDistinct(const std::vector<NodeInventory>& nodes, const std::string& file) {
  std::map<std::string, std::string> owners;
  for (const NodeInventory& node : nodes) {
    if (!owners.emplace("node " + node.node.value, "").second) {
      return Fail(ErrorCode::kInvalidArgument, file + ": node " + node.node.value + " stands twice",
                  "give each node a name of its own");
    }
    for (const GpuDevice& gpu : node.gpus) {
      const auto [owner, first] = owners.emplace(gpu.uuid.value, node.node.value);
      if (first) continue;
      return Fail(ErrorCode::kInvalidArgument,
                  file + ": GPU " + gpu.uuid.value + " is on " + owner->second + " and on " +
                      node.node.value,
                  "give each GPU a uuid of its own, or leave uuid out");
    }
  }
  return {};
}

// By the field that every job file has and no inventory.
bool IsJobFile(std::string_view text) {
  return text.starts_with("run:") || text.find("\nrun:") != std::string_view::npos;
}

}  // namespace

Result<std::vector<NodeInventory>> ParseInventories(std::string_view text,
                                                    const std::string& file) {
  std::vector<NodeInventory> nodes;
  std::vector<Part> parts = Parts(text);
  if (parts.empty()) parts.push_back({text, 0});
  for (const Part& part : parts) LAUNCH_RETURN_IF_ERROR(ReadDocument(part, file, nodes));
  LAUNCH_RETURN_IF_ERROR(CheckDistinct(nodes, file));
  return nodes;
}

Result<std::vector<NodeInventory>> ReadInventoryFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) {
    return Fail(ErrorCode::kNotFound, "cannot read the inventory file " + path,
                "write one with launch nodes --save FILE, or see configs/clusters");
  }
  const auto size = in.tellg();
  if (size < 0 || static_cast<std::uint64_t>(size) > kMaxFileBytes) {
    return Fail(ErrorCode::kInvalidArgument, path + " is not an inventory file of at most 64 MiB");
  }
  in.seekg(0);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  Result<std::vector<NodeInventory>> nodes = ParseInventories(text, path);
  if (!nodes && IsJobFile(text))
    return Fail(ErrorCode::kInvalidArgument, path + " is a job file, not an inventory of nodes",
                "write one with launch nodes --save FILE, or see configs/clusters");
  if (nodes)
    for (NodeInventory& node : *nodes) ListSlicesAsDevices(node);
  return nodes;
}

}  // namespace launch
