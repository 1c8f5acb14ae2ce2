// What the driver says of the state of one GPU: facts for the inventory, and what is wrong with it.
#include <algorithm>

#include "agent/probes/nvml_health.h"
#include "agent/probes/nvml_session.h"

namespace launch::agent {
namespace {

constexpr unsigned kMostOfAnything = 1u << 30;  // some drivers answer ~0 for "unknown"

std::optional<int> Known(NvmlCode code, unsigned number) {
  if (code != kNvmlSuccess || number > kMostOfAnything) return std::nullopt;
  return static_cast<int>(number);
}

}  // namespace

void NvmlSession::ReadHealth(NvmlDevice handle, GpuDevice& gpu) {
  NvmlFieldValue recovery{};
  recovery.field_id = kNvmlFieldRecoveryAction;
  recovery.code = kNvmlNotSupported;
  if (Ask(api_.field_values, handle, 1, &recovery) == kNvmlSuccess &&
      recovery.code == kNvmlSuccess && recovery.value.number != 0)
    Worsen(gpu, Health::kBad,
           "needs_reset: the driver asks to " + RecoveryText(recovery.value.number));
  unsigned correctable = 0;
  unsigned uncorrectable = 0;
  unsigned pending = 0;
  unsigned failure = 0;
  if (Ask(api_.remapped_rows, handle, &correctable, &uncorrectable, &pending, &failure) ==
      kNvmlSuccess) {
    const auto corrected = Known(kNvmlSuccess, correctable);
    const auto uncorrected = Known(kNvmlSuccess, uncorrectable);
    if (corrected && uncorrected)
      gpu.remapped = RemappedRows{*corrected, *uncorrected, pending != 0, failure != 0};
    if (failure) Worsen(gpu, Health::kBad, "row_remap_failed: a memory row could not be replaced");
    if (pending)
      Worsen(gpu, Health::kWarn, "row_remap_pending: memory rows are replaced at the next reset");
  }
  ReadFabric(handle, gpu);
  ReadPcie(handle, gpu);
  unsigned long long count = 0;
  if (Ask(api_.total_ecc_errors, handle, kNvmlUncorrected, kNvmlSinceLoad, &count) == kNvmlSuccess)
    WorsenByEccErrors(count, gpu);
  if (Ask(api_.clock_reasons, handle, &count) == kNvmlSuccess) WorsenByClockReasons(count, gpu);
  ReadClocks(handle, gpu);
  const auto set = NumberOf(api_.set_power_limit, handle);
  const auto usual = NumberOf(api_.default_power_limit, handle);
  if (set && usual)
    WorsenByPowerLimit(static_cast<unsigned>(*set), static_cast<unsigned>(*usual), gpu);
  unsigned mode = 0;
  if (Ask(api_.compute_mode, handle, &mode) == kNvmlSuccess) WorsenByComputeMode(mode, gpu);
}

std::optional<int> NvmlSession::NumberOf(NvmlApi::Call<NvmlDevice, unsigned*> call,
                                         NvmlDevice handle) {
  unsigned number = 0;
  const NvmlCode code = Ask(call, handle, &number);
  return Known(code, number);
}

std::optional<int> NvmlSession::ClockOf(NvmlApi::Call<NvmlDevice, int, unsigned*> call,
                                        NvmlDevice handle, int clock) {
  unsigned mhz = 0;
  const NvmlCode code = Ask(call, handle, clock, &mhz);
  return Known(code, mhz);
}

void NvmlSession::ReadPcie(NvmlDevice handle, GpuDevice& gpu) {
  PcieLink& pcie = gpu.pcie;
  pcie.generation = NumberOf(api_.pcie_generation, handle);
  pcie.max_generation = NumberOf(api_.max_pcie_generation, handle);
  pcie.width = NumberOf(api_.pcie_width, handle);
  pcie.max_width = NumberOf(api_.max_pcie_width, handle);
  // A GPU without work lowers the generation: what was reached once counts, so that the facts of a
  // node do not change with its load.
  const auto last = known_.find(gpu.uuid);
  if (last != known_.end() && last->second.pcie.generation)
    pcie.generation = std::max(pcie.generation.value_or(0), *last->second.pcie.generation);
  if (pcie.width && pcie.max_width) WorsenByPcieWidth(*pcie.width, *pcie.max_width, gpu);
}

void NvmlSession::ReadClocks(NvmlDevice handle, GpuDevice& gpu) {
  ClockLimits& clocks = gpu.clocks;
  clocks.graphics_max = ClockOf(api_.max_clock, handle, kNvmlGraphicsClock);
  clocks.memory_max = ClockOf(api_.max_clock, handle, kNvmlMemoryClock);
  clocks.graphics_set = ClockOf(api_.applications_clock, handle, kNvmlGraphicsClock);
  const auto usual = ClockOf(api_.default_applications_clock, handle, kNvmlGraphicsClock);
  if (clocks.graphics_set && usual) WorsenByClockLimit(*clocks.graphics_set, *usual, gpu);
}

// Until the fabric is up CUDA does not start on NVSwitch systems; 0 stands for other systems.
void NvmlSession::ReadFabric(NvmlDevice handle, GpuDevice& gpu) {
  NvmlFabricInfoV2 fabric{};
  fabric.version = NvmlVersion<NvmlFabricInfoV2>(2);
  if (Ask(api_.fabric_info, handle, &fabric) != kNvmlSuccess) return;
  if (fabric.state == 1) gpu.fabric = FabricState::kNotStarted;
  if (fabric.state == 2) gpu.fabric = FabricState::kInProgress;
  if (fabric.state == 3)
    gpu.fabric = fabric.status == kNvmlSuccess ? FabricState::kCompleted : FabricState::kFailed;
  if (gpu.fabric == FabricState::kNotStarted || gpu.fabric == FabricState::kInProgress)
    Worsen(gpu, Health::kBad,
           "fabric_not_ready: NVLink fabric registration is not done; is "
           "nvidia-fabricmanager running?");
  if (gpu.fabric == FabricState::kFailed)
    Worsen(gpu, Health::kBad,
           "fabric_failed: NVLink fabric registration ended with NVML error " +
               std::to_string(fabric.status));
}

}  // namespace launch::agent
