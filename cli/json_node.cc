#include <algorithm>

#include "cli/json_inventory.h"
#include "cli/json_views.h"

namespace launch {
namespace {

OrderedJson OfGpu(const GpuDevice& gpu, const NodeView& node) {
  OrderedJson sample = nullptr;
  for (const GpuSample& one : node.samples)
    if (one.uuid == gpu.uuid)
      sample = {{"utilization", OrNull(one.utilization)},
                {"used_bytes", OrNull(one.used_bytes)},
                {"power_w", OrNull(one.power_w)},
                {"temperature_c", OrNull(one.temperature_c)},
                {"ours_bytes", OrNull(one.ours_bytes)},
                {"foreign_bytes", OrNull(one.foreign_bytes)},
                {"ecc_uncorrected", OrNull(one.ecc_uncorrected)}};
  const bool free =
      std::find(node.free_gpus.begin(), node.free_gpus.end(), gpu.uuid) != node.free_gpus.end();
  OrderedJson quarantined = nullptr;
  for (const auto& [uuid, why] : node.quarantined)
    if (uuid == gpu.uuid) quarantined = why;
  OrderedJson json = JsonOf(gpu);
  json["free"] = free;
  json["quarantined"] = quarantined;
  json["sample"] = sample;
  return json;
}

// Precision that `auto` gives on this node: what its weakest device can do.
std::string NodePrecision(const NodeInventory& inventory) {
  Precision precision = Precision::kFp32;
  bool first = true;
  for (const GpuDevice& gpu : inventory.gpus) {
    Precision own = Precision::kFp32;
    if (gpu.device_class == DeviceClass::kCuda)
      own = gpu.cc && gpu.cc->major >= 8 ? Precision::kBf16 : Precision::kFp16;
    if (first || own != Precision::kBf16) precision = own;
    first = false;
  }
  return std::string(ToString(precision));
}

}  // namespace

OrderedJson JsonOf(const NodeView& node) {
  const NodeInventory& inventory = node.inventory;
  OrderedJson gpus = OrderedJson::array();
  bool gpu_available = false;
  bool mps = false;
  for (const GpuDevice& gpu : inventory.gpus) {
    gpus.push_back(OfGpu(gpu, node));
    gpu_available = gpu_available || gpu.health != Health::kBad;
    mps = mps || gpu.device_class == DeviceClass::kMps;
  }
  OrderedJson interpreters = OrderedJson::array();
  bool cuda = false;
  for (const RuntimeFacts& runtime : inventory.interpreters) {
    interpreters.push_back(JsonOf(runtime));
    cuda = cuda || runtime.sees_gpu.value_or(false);
    mps = mps || runtime.mps.value_or(false);
  }
  OrderedJson addresses = OrderedJson::array();
  for (const NetworkAddress& address : inventory.addresses) addresses.push_back(JsonOf(address));
  OrderedJson jobs = OrderedJson::array();
  for (const JobId& job : node.jobs) jobs.push_back(job.value);
  const bool has_gpu = !inventory.gpus.empty();
  OrderedJson json = {
      {"node", inventory.node.value},
      {"state", node.state},
      {"reason", node.reason},
      {"schedulable", node.schedulable},
      {"drained", node.drained},
      {"account", node.account ? OrderedJson(node.account->value) : OrderedJson(nullptr)},
      {"simulated", inventory.simulated},
      {"device_type", Word(ToString(has_gpu ? inventory.gpus[0].device_class : DeviceClass::kCpu))},
      {"device_name", has_gpu ? inventory.gpus[0].model : "CPU"},
      {"gpu_available", gpu_available},
      {"cuda_available", cuda},
      {"mps_available", mps},
      {"precision", NodePrecision(inventory)},
      {"health", Word(ToString(node.health.health))},
      {"health_reason", node.health.reason},
      {"gpus_free", node.free_gpus.size()},
      {"gpus_all", inventory.gpus.size()},
      {"gpus", gpus},
      {"driver", OrNull(inventory.driver)},
      {"driver_cuda", inventory.driver_cuda ? OrderedJson(ToString(*inventory.driver_cuda))
                                            : OrderedJson(nullptr)},
      {"driver_problem", inventory.driver_problem},
      {"toolkit", inventory.toolkit ? OrderedJson(inventory.toolkit->nvcc) : OrderedJson(nullptr)},
      {"arch", Word(ToString(inventory.arch))},
      {"kernel", inventory.kernel},
      {"cores", inventory.cores},
      {"threads", inventory.threads},
      {"memory_bytes", inventory.memory_bytes},
      {"shm_bytes", inventory.shm_bytes},
      {"containment", Word(ToString(inventory.containment))},
      {"addresses", addresses},
      {"interpreters", interpreters},
      {"labels", TextMap(inventory.labels)},
      {"jobs", jobs},
      {"silent_ms", node.silent_ms},
      {"last_seen", TimeOrNull(node.last_seen)}};
  json.update(JsonOfHost(inventory));
  return json;
}

}  // namespace launch
