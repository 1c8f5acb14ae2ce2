#include "cli/json_inventory.h"

#include <optional>
#include <string>
#include <utility>

#include "cli/json_values.h"

namespace launch {
namespace {

OrderedJson Slices(const std::vector<MigSlice>& slices) {
  OrderedJson list = OrderedJson::array();
  for (const MigSlice& slice : slices)
    list.push_back({{"uuid", slice.uuid.value},
                    {"profile", slice.profile},
                    {"memory_bytes", slice.memory_bytes}});
  return list;
}

OrderedJson Links(const std::vector<GpuLink>& links) {
  OrderedJson list = OrderedJson::array();
  for (const GpuLink& link : links)
    list.push_back({{"peer", link.peer_pci},
                    {"kind", Word(ToString(link.kind))},
                    {"version", OrNull(link.version)},
                    {"count", OrNull(link.count)}});
  return list;
}

OrderedJson Rows(const std::optional<RemappedRows>& rows) {
  if (!rows) return nullptr;
  return {{"correctable", rows->correctable},
          {"uncorrectable", rows->uncorrectable},
          {"pending", rows->pending},
          {"failed", rows->failed}};
}

OrderedJson Ports(const std::vector<RdmaPort>& ports) {
  OrderedJson list = OrderedJson::array();
  for (const RdmaPort& port : ports)
    list.push_back({{"device", port.device},
                    {"port", port.port},
                    {"layer", port.layer},
                    {"state", port.state},
                    {"mbit", OrNull(port.mbit)},
                    {"interface", port.interface},
                    {"numa", OrNull(port.numa)}});
  return list;
}

}  // namespace

OrderedJson JsonOf(const GpuDevice& gpu) {
  return {{"uuid", gpu.uuid.value},
          {"device_class", Word(ToString(gpu.device_class))},
          {"model", gpu.model},
          {"type", gpu.type},
          {"cc", gpu.cc ? OrderedJson(ToString(*gpu.cc)) : OrderedJson(nullptr)},
          {"memory_bytes", gpu.memory_bytes},
          {"memory_mib", gpu.memory_bytes / (1024 * 1024)},
          {"reserved_bytes", OrNull(gpu.reserved_bytes)},
          {"pci", gpu.pci},
          {"numa", OrNull(gpu.numa)},
          {"mig", Slices(gpu.mig)},
          {"links", Links(gpu.links)},
          {"pcie",
           {{"generation", OrNull(gpu.pcie.generation)},
            {"max_generation", OrNull(gpu.pcie.max_generation)},
            {"width", OrNull(gpu.pcie.width)},
            {"max_width", OrNull(gpu.pcie.max_width)}}},
          {"clocks",
           {{"graphics_max_mhz", OrNull(gpu.clocks.graphics_max)},
            {"graphics_set_mhz", OrNull(gpu.clocks.graphics_set)},
            {"memory_max_mhz", OrNull(gpu.clocks.memory_max)}}},
          {"power_limit_w", OrNull(gpu.power_limit_w)},
          {"ecc", OrNull(gpu.ecc)},
          {"remapped", Rows(gpu.remapped)},
          {"fabric", gpu.fabric ? Word(ToString(*gpu.fabric)) : OrderedJson(nullptr)},
          {"persistence", OrNull(gpu.persistence)},
          {"health", Word(ToString(gpu.health))},
          {"health_reason", gpu.why}};
}

OrderedJson JsonOf(const RuntimeFacts& runtime) {
  OrderedJson torch = nullptr;
  if (runtime.torch)
    torch = {{"version", runtime.torch->version},
             {"cuda", OrNull(runtime.torch->cuda)},
             {"hip", OrNull(runtime.torch->hip)},
             {"cpu_only", !runtime.torch->cuda && !runtime.torch->hip},
             {"arch_list", runtime.torch->arch_list},
             {"nccl", OrNull(runtime.torch->nccl)},
             {"path", runtime.torch->path}};
  return {{"path", runtime.path},
          {"realpath", runtime.realpath},
          {"user", runtime.user},
          {"python", runtime.python},
          {"torch", torch},
          {"sees_gpu", OrNull(runtime.sees_gpu)},
          {"devices", OrNull(runtime.devices)},
          {"mps", OrNull(runtime.mps)},
          {"packages", TextMap(runtime.packages)},
          {"built_ops", runtime.built_ops},
          {"says", runtime.says}};
}

OrderedJson JsonOf(const NetworkAddress& address) {
  return {{"interface", address.interface},
          {"address", address.address},
          {"mbit", OrNull(address.mbit)},
          {"mtu", OrNull(address.mtu)},
          {"rdma", address.rdma}};
}

OrderedJson JsonOfHost(const NodeInventory& node) {
  OrderedJson numa = OrderedJson::array();
  for (const NumaNode& one : node.numa)
    numa.push_back({{"id", one.id}, {"cores", one.cores}, {"memory_bytes", one.memory_bytes}});
  return {{"glibc", node.glibc},
          {"page_size", node.page_size},
          {"numa", numa},
          {"coherent", Word(ToString(node.coherent))},
          {"limits",
           {{"memlock_bytes", OrNull(node.limits.memlock_bytes)},
            {"nofile", OrNull(node.limits.nofile)},
            {"nproc", OrNull(node.limits.nproc)}}},
          {"rdma", Ports(node.rdma)},
          {"gpu_subset", node.gpu_subset},
          {"toolkit_home", node.toolkit ? OrderedJson(node.toolkit->home) : OrderedJson(nullptr)},
          {"cuda_runtime", OrNull(node.cuda_runtime)},
          {"tools", TextMap(node.tools)},
          {"container_runtimes", node.container_runtimes}};
}

}  // namespace launch
