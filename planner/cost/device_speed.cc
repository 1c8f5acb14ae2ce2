#include "planner/cost/device_speed.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "common/units.h"

namespace launch {

namespace {

constexpr double kGiga = 1e9;
// The best of long training runs against the best single product: 0.93 of 268 is what the reference
// rows reach on A100; a power limit binds both alike.
constexpr double kTrainingShareOfMatmul = 0.93;
// Where no data sheet entry names them: two sockets of eight DDR4 channels; a Grace host.
constexpr double kHostMemoryGbps = 300;
constexpr double kCoherentHostMemoryGbps = 400;
constexpr double kNodeNetworkGbps = 3.1;  // 25 Gbit/s Ethernet

const char* KeyOf(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
      return "bf16";
    case Precision::kFp16:
      return "fp16";
    case Precision::kFp8:
      return "fp8";
    case Precision::kTf32:
      return "tf32";
    default:
      return "fp32";
  }
}

double RateOf(const GpuFigures& gpu, const char* key) {
  const auto found = gpu.tflops.find(key);
  return found == gpu.tflops.end() ? 0 : found->second * 1e12;
}

// The data sheet's rate; without an entry the next slower format that the part has.
double SheetRate(const GpuFigures& gpu, Precision precision) {
  double rate = RateOf(gpu, KeyOf(precision));
  if (rate == 0 && precision == Precision::kFp8) rate = RateOf(gpu, "bf16");
  if (rate == 0) rate = RateOf(gpu, "fp32");
  return std::max(rate, 1e9);
}

double Clocks(const GpuFigures& gpu) {
  return std::max(1, gpu.sms.value_or(80)) * std::max(100.0, gpu.tensor_mhz.value_or(1500)) * 1e6;
}

// Rate with `overhead` operations per clock and multiprocessor in series with the sheet's rate.
double InSeries(double sheet, double overhead, double clocks) {
  return 1 / (1 / sheet + 1 / (overhead * clocks));
}

// Above 1 where products were measured faster than the sheet: the part runs above its rated clock.
double ClockGain(const GpuFigures& gpu) {
  const double sheet = SheetRate(gpu, Precision::kFp16);
  return gpu.matmul_tflops ? std::max(1.0, *gpu.matmul_tflops * 1e12 / sheet) : 1;
}

}  // namespace

double MatmulRate(const GpuFigures& gpu, Precision precision, const TimeConstants& constants) {
  const double sheet = SheetRate(gpu, precision);
  double rate = InSeries(sheet, constants.matmul_overhead, Clocks(gpu)) * ClockGain(gpu);
  if (gpu.matmul_tflops) {
    const double scale = sheet / SheetRate(gpu, Precision::kFp16);
    rate =
        std::min(rate, kTrainingShareOfMatmul * *gpu.matmul_tflops * 1e12 * std::max(1.0, scale));
  }
  return rate;
}

double AttentionRate(const GpuFigures& gpu, Precision precision, const TimeConstants& constants) {
  // Attention stays in 16 bits when the products are in 8.
  const Precision used = precision == Precision::kFp8 ? Precision::kBf16 : precision;
  return InSeries(SheetRate(gpu, used), constants.attention_overhead, Clocks(gpu)) * ClockGain(gpu);
}

double MemoryRate(const GpuFigures& gpu, const TimeConstants& constants) {
  return gpu.memory_gbps.value_or(300) * kGiga * constants.memory_share;
}

double EagerRate(const GpuFigures& gpu, const TimeConstants& constants) {
  return std::min(MemoryRate(gpu, constants),
                  constants.eager_bytes_per_clock * Clocks(gpu) * ClockGain(gpu));
}

double LinkRate(const Machine& machine, const TimeConstants& constants) {
  const double nvlink = machine.nvlink ? machine.gpu.link_gbps.value_or(0) / 2 : 0;
  if (nvlink > 0) return nvlink * kGiga * constants.link_share;
  return machine.gpu.pcie_gbps.value_or(15.75) * kGiga * constants.pcie_share;
}

double NetworkRate(const Machine& machine, const TimeConstants& constants) {
  double node = kNodeNetworkGbps;
  if (machine.node_network_gbps) {
    node = *machine.node_network_gbps;
  } else if (machine.gpu.nic_gbps) {
    node = *machine.gpu.nic_gbps * machine.gpus_per_node;
  }
  const double network = std::max(node, 1e-3) * kGiga * constants.network_share;
  return machine.gpus_per_node > 1 ? std::min(network, LinkRate(machine, constants)) : network;
}

double HostLinkRate(const Machine& machine, const TimeConstants& constants) {
  return machine.gpu.c2c_gbps.value_or(machine.gpu.pcie_gbps.value_or(15.75)) * kGiga *
         constants.host_link_share;
}

double HostMemoryRate(const Machine& machine, const TimeConstants& constants) {
  const double assumed = machine.gpu.c2c_gbps ? kCoherentHostMemoryGbps : kHostMemoryGbps;
  // The memory of a coherent host belongs to one GPU each; of the others all share one.
  const int sharing = machine.gpu.c2c_gbps ? 1 : std::max(1, machine.gpus_per_node);
  return assumed * kGiga * constants.host_memory_share / sharing;
}

Machine MachineOf(const GpuCatalog& catalog, const GpuDevice& device) {
  Machine machine;
  if (const GpuType* type = catalog.TypeOf(device.model, device.memory_bytes)) {
    machine.gpu = GpuCatalog::VariantOf(*type, device.model);
    return machine;
  }
  machine.gpu_known = false;
  const double gib = static_cast<double>(device.memory_bytes) / static_cast<double>(kGiB);
  const GpuType* nearest = nullptr;
  double best = 0;
  for (const std::string& name : catalog.Names()) {
    const GpuType* type = catalog.Find(name, std::nullopt);
    if (type == nullptr) continue;
    const ComputeCapability cc = device.cc.value_or(ComputeCapability{8, 0});
    const double distance =
        10 * std::abs(type->cc.major - cc.major) + std::abs(type->cc.minor - cc.minor) +
        std::fabs(std::log2(std::max(1.0, gib) / type->memory_gib.value_or(16)));
    if (nearest == nullptr || distance < best) {
      nearest = type;
      best = distance;
    }
  }
  if (nearest != nullptr) machine.gpu = *nearest;
  return machine;
}

}  // namespace launch
