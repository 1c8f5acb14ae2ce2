#include "agent/probes/nvml_health.h"

#include <iterator>

namespace launch::agent {
namespace {

constexpr unsigned long long kHardwareHeat = 0x40;
constexpr unsigned long long kPowerBrake = 0x80;
constexpr unsigned kComputeProhibited = 2;

}  // namespace

void Worsen(GpuDevice& gpu, Health health, const std::string& why) {
  if (health > gpu.health) {
    gpu.health = health;
    gpu.why = why;
  }
}

std::string RecoveryText(unsigned action) {
  static constexpr const char* kTexts[] = {
      "none",      "reset the GPU",      "reboot the node",
      "drain P2P", "drain and reset it", "recover the IMEX domain"};
  return action < std::size(kTexts) ? kTexts[action] : "action " + std::to_string(action);
}

void WorsenByEccErrors(unsigned long long errors, GpuDevice& gpu) {
  if (errors == 0) return;
  Worsen(gpu, Health::kWarn,
         "ecc_errors: " + std::to_string(errors) +
             " memory errors could not be corrected since the driver was loaded");
}

void WorsenByClockReasons(unsigned long long reasons, GpuDevice& gpu) {
  if ((reasons & kHardwareHeat) != 0)
    Worsen(gpu, Health::kWarn, "too_hot: the hardware holds its clocks down because of heat");
  if ((reasons & kPowerBrake) != 0)
    Worsen(gpu, Health::kWarn,
           "power_brake: the machine's power supply holds its clocks down from outside");
}

void WorsenByPcieWidth(int width, int max_width, GpuDevice& gpu) {
  if (width == 0 || width >= max_width) return;
  Worsen(gpu, Health::kWarn,
         "pcie_narrow: its PCIe connection has " + std::to_string(width) + " of " +
             std::to_string(max_width) + " lanes; copies to the host are that much slower");
}

void WorsenByClockLimit(int set, int usual, GpuDevice& gpu) {
  if (set == 0 || set >= usual) return;
  Worsen(gpu, Health::kWarn,
         "clocks_limited: its clock was set to " + std::to_string(set) + " MHz, " +
             std::to_string(usual) + " MHz is usual; nvidia-smi -rac resets it");
}

void WorsenByPowerLimit(unsigned set, unsigned usual, GpuDevice& gpu) {
  constexpr unsigned kWatt = 1000;
  if (set == 0 || set / kWatt >= usual / kWatt) return;
  const std::string watts = std::to_string(usual / kWatt);
  Worsen(gpu, Health::kWarn,
         "power_limited: its power limit was set to " + std::to_string(set / kWatt) + " W, " +
             watts + " W is usual; nvidia-smi -i " + (gpu.pci.empty() ? gpu.uuid.value : gpu.pci) +
             " -pl " + watts + " resets it");
}

void WorsenByComputeMode(unsigned mode, GpuDevice& gpu) {
  if (mode != kComputeProhibited) return;
  Worsen(gpu, Health::kBad,
         "compute_prohibited: its compute mode lets no program use it; nvidia-smi -c 0 ends that");
}

}  // namespace launch::agent
