// FormatInventories: the text that ParseInventories reads back to equal values.
#include <algorithm>
#include <cctype>

#include "common/inventory_yaml.h"
#include "common/quoted.h"
#include "common/units.h"

namespace launch {
namespace {

// Quoted unless no YAML reader could take it for something else than text.
std::string Scalar(std::string_view text) {
  const bool plain = !text.empty() && std::isalpha(static_cast<unsigned char>(text[0])) != 0 &&
                     std::all_of(text.begin(), text.end(), [](char c) {
                       return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                              std::string_view("_-./").find(c) != std::string_view::npos;
                     });
  constexpr std::string_view kWords[] = {"true", "false", "null", "yes", "no",
                                         "on",   "off",   "y",    "n"};
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  const bool word = std::find(std::begin(kWords), std::end(kWords), lower) != std::end(kWords);
  if (plain && !word) return std::string(text);
  return Quoted(text);
}

// Exact, in the largest unit that divides it; unlike FormatBytes nothing is rounded.
std::string Size(std::uint64_t bytes) {
  if (bytes > 0 && bytes % kGiB == 0) return std::to_string(bytes / kGiB) + "GiB";
  if (bytes > 0 && bytes % kMiB == 0) return std::to_string(bytes / kMiB) + "MiB";
  return std::to_string(bytes) + "B";
}

std::string Version(int major, int minor) {
  return "\"" + std::to_string(major) + "." + std::to_string(minor) + "\"";
}

// Lines of one map; the first carries the dash of a list item.
class Block {
 public:
  Block(std::string& out, int indent, bool item) : out_(out), indent_(indent), dash_(item) {}

  void Raw(std::string_view key, std::string_view value) {
    Start(key);
    out_ += " ";
    out_ += value;
    out_ += "\n";
  }
  void Text(std::string_view key, std::string_view value) { Raw(key, Scalar(value)); }
  void TextIf(std::string_view key, const std::string& value) {
    if (!value.empty()) Text(key, value);
  }
  void TextIf(std::string_view key, const std::optional<std::string>& value) {
    if (value) Text(key, *value);
  }
  template <class Number>
  void Int(std::string_view key, Number value) {
    Raw(key, std::to_string(value));
  }
  template <class Number>
  void IntIf(std::string_view key, const std::optional<Number>& value) {
    if (value) Int(key, *value);
  }
  void BoolIf(std::string_view key, const std::optional<bool>& value) {
    if (value) Raw(key, *value ? "true" : "false");
  }
  void Bytes(std::string_view key, std::uint64_t value) { Raw(key, Size(value)); }
  void BytesIf(std::string_view key, const std::optional<std::uint64_t>& value) {
    if (value) Bytes(key, *value);
  }
  void Words(std::string_view key, const std::vector<std::string>& list) {
    if (list.empty()) return;
    std::string text = "[";
    for (const std::string& word : list) text += (text.size() > 1 ? ", " : "") + Scalar(word);
    Raw(key, text + "]");
  }
  void Map(std::string_view key, const std::map<std::string, std::string>& map) {
    if (map.empty()) return;
    Start(key);
    out_ += "\n";
    for (const auto& [name, value] : map) {
      out_ += std::string(static_cast<std::size_t>(indent_) + 2, ' ') + Scalar(name) + ": " +
              Scalar(value) + "\n";
    }
  }
  // Opens `key:`; its lines follow through Blocks of indent() + 2.
  void Open(std::string_view key) {
    Start(key);
    out_ += "\n";
  }
  int indent() const { return indent_; }

 private:
  void Start(std::string_view key) {
    if (dash_) {
      out_ += std::string(static_cast<std::size_t>(indent_) - 2, ' ') + "- ";
      dash_ = false;
    } else {
      out_ += std::string(static_cast<std::size_t>(indent_), ' ');
    }
    out_ += key;
    out_ += ":";
  }
  std::string& out_;
  int indent_;
  bool dash_;
};

void WriteHardware(std::string& out, int indent, Block& b, const GpuDevice& gpu) {
  if (gpu.pcie != PcieLink{}) {
    b.Open("pcie");
    Block p(out, indent + 2, false);
    p.IntIf("generation", gpu.pcie.generation);
    p.IntIf("max_generation", gpu.pcie.max_generation);
    p.IntIf("width", gpu.pcie.width);
    p.IntIf("max_width", gpu.pcie.max_width);
  }
  if (gpu.clocks != ClockLimits{}) {
    b.Open("clocks");
    Block c(out, indent + 2, false);
    c.IntIf("graphics_max_mhz", gpu.clocks.graphics_max);
    c.IntIf("graphics_set_mhz", gpu.clocks.graphics_set);
    c.IntIf("memory_max_mhz", gpu.clocks.memory_max);
  }
  if (gpu.remapped) {
    b.Open("remapped");
    Block r(out, indent + 2, false);
    r.Int("correctable", gpu.remapped->correctable);
    r.Int("uncorrectable", gpu.remapped->uncorrectable);
    r.BoolIf("pending", gpu.remapped->pending);
    r.BoolIf("failed", gpu.remapped->failed);
  }
  if (gpu.fabric) b.Raw("fabric", ToString(*gpu.fabric));
}

void WriteGpu(std::string& out, int indent, const GpuDevice& gpu) {
  Block b(out, indent, true);
  b.Text("uuid", gpu.uuid.value);
  b.Raw("device", ToString(gpu.device_class));
  b.Text("model", gpu.model);
  b.Text("type", gpu.type);
  if (gpu.cc) b.Raw("cc", Version(gpu.cc->major, gpu.cc->minor));
  b.Bytes("memory", gpu.memory_bytes);
  b.BytesIf("reserved", gpu.reserved_bytes);
  b.TextIf("pci", gpu.pci);
  b.IntIf("numa", gpu.numa);
  b.BoolIf("ecc", gpu.ecc);
  b.IntIf("power_limit_w", gpu.power_limit_w);
  b.Raw("health", ToString(gpu.health));
  b.TextIf("why", gpu.why);
  b.BoolIf("persistence", gpu.persistence);
  WriteHardware(out, indent, b, gpu);
  if (!gpu.mig.empty()) b.Open("mig");
  for (const MigSlice& slice : gpu.mig) {
    Block m(out, indent + 4, true);
    m.Text("uuid", slice.uuid.value);
    m.Text("profile", slice.profile);
    m.Bytes("memory", slice.memory_bytes);
  }
  if (!gpu.links.empty()) b.Open("links");
  for (const GpuLink& link : gpu.links) {
    Block l(out, indent + 4, true);
    l.Text("peer", link.peer_pci);
    l.Raw("kind", ToString(link.kind));
    l.IntIf("version", link.version);
    l.IntIf("count", link.count);
  }
}

void WriteInterpreter(std::string& out, int indent, const RuntimeFacts& facts) {
  Block b(out, indent, true);
  b.Text("path", facts.path);
  b.TextIf("realpath", facts.realpath);
  b.TextIf("user", facts.user);
  b.TextIf("python", facts.python);
  if (facts.torch) {
    b.Open("torch");
    Block t(out, indent + 2, false);
    t.Text("version", facts.torch->version);
    t.TextIf("cuda", facts.torch->cuda);
    t.TextIf("hip", facts.torch->hip);
    t.Words("arch_list", facts.torch->arch_list);
    t.TextIf("nccl", facts.torch->nccl);
    t.TextIf("path", facts.torch->path);
  }
  b.BoolIf("sees_gpu", facts.sees_gpu);
  b.IntIf("devices", facts.devices);
  b.BoolIf("mps", facts.mps);
  b.Map("packages", facts.packages);
  b.Words("built_ops", facts.built_ops);
  b.TextIf("says", facts.says);
  if (ToMs(facts.probed) != 0) b.Int("probed_ms", ToMs(facts.probed));
}

void WriteHost(std::string& out, Block& b, const NodeInventory& node) {
  b.Raw("arch", ToString(node.arch));
  b.TextIf("kernel", node.kernel);
  b.TextIf("glibc", node.glibc);
  b.Int("page_size", node.page_size);
  b.Int("cores", node.cores);
  b.Int("threads", node.threads);
  if (!node.numa.empty()) b.Open("numa");
  for (const NumaNode& numa : node.numa) {
    Block n(out, 6, true);
    n.Int("id", numa.id);
    n.Int("cores", numa.cores);
    n.Bytes("memory", numa.memory_bytes);
  }
  b.Bytes("memory", node.memory_bytes);
  b.Bytes("shm", node.shm_bytes);
  const Limits& limits = node.limits;
  if (limits.memlock_bytes || limits.nofile || limits.nproc) {
    b.Open("limits");
    Block l(out, 4, false);
    l.BytesIf("memlock", limits.memlock_bytes);
    l.IntIf("nofile", limits.nofile);
    l.IntIf("nproc", limits.nproc);
  }
}

void WriteNode(std::string& out, const NodeInventory& node) {
  Block b(out, 2, true);
  b.Text("node", node.node.value);
  if (node.simulated) b.Raw("simulated", "true");
  if (!node.addresses.empty()) b.Open("addresses");
  for (const NetworkAddress& address : node.addresses) {
    Block a(out, 6, true);
    a.Text("interface", address.interface);
    a.Text("address", address.address);
    a.IntIf("mbit", address.mbit);
    a.IntIf("mtu", address.mtu);
    if (address.rdma) a.Raw("rdma", "true");
  }
  if (!node.rdma.empty()) b.Open("rdma");
  for (const RdmaPort& port : node.rdma) {
    Block r(out, 6, true);
    r.Text("device", port.device);
    r.Int("port", port.port);
    r.TextIf("layer", port.layer);
    r.TextIf("state", port.state);
    r.IntIf("mbit", port.mbit);
    r.TextIf("interface", port.interface);
    r.IntIf("numa", port.numa);
  }
  WriteHost(out, b, node);
  b.TextIf("driver", node.driver);
  if (node.driver_cuda)
    b.Raw("driver_cuda", Version(node.driver_cuda->major, node.driver_cuda->minor));
  b.TextIf("driver_problem", node.driver_problem);
  if (!node.gpus.empty()) b.Open("gpus");
  for (const GpuDevice& gpu : node.gpus) WriteGpu(out, 6, gpu);
  if (node.toolkit) {
    b.Open("toolkit");
    Block t(out, 4, false);
    t.Text("nvcc", node.toolkit->nvcc);
    t.Text("home", node.toolkit->home);
  }
  b.TextIf("cuda_runtime", node.cuda_runtime);
  b.Map("tools", node.tools);
  if (!node.interpreters.empty()) b.Open("interpreters");
  for (const RuntimeFacts& facts : node.interpreters) WriteInterpreter(out, 6, facts);
  b.Words("container_runtimes", node.container_runtimes);
  b.Raw("containment", ToString(node.containment));
  b.Raw("coherent", ToString(node.coherent));
  b.Map("labels", node.labels);
  b.Map("base_env", node.base_env);
  if (node.revision != 0) b.Int("revision", node.revision);
}

}  // namespace

std::string FormatInventories(const std::vector<NodeInventory>& nodes) {
  if (nodes.empty()) return "[]\n";
  std::string out;
  for (const NodeInventory& node : nodes) WriteNode(out, node);
  return out;
}

}  // namespace launch
