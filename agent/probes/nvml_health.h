// What the driver's numbers about one GPU say of its health, in words.
#pragma once

#include <string>

#include "common/inventory.h"

namespace launch::agent {

// The first of the worst reasons stays.
void Worsen(GpuDevice& gpu, Health health, const std::string& why);

// nvmlDeviceGpuRecoveryAction_t.
std::string RecoveryText(unsigned action);
// Volatile uncorrected errors: programs that met them were ended, and more are to be expected.
void WorsenByEccErrors(unsigned long long errors, GpuDevice& gpu);
// Bits of nvmlClocksEventReason*: only what the hardware itself does against heat and short power;
// a software power cap is how every GPU under load runs.
void WorsenByClockReasons(unsigned long long reasons, GpuDevice& gpu);
// An applications clock below the default one was set by hand, in MHz.
void WorsenByClockLimit(int set, int usual, GpuDevice& gpu);
// A power limit below the default one was set by hand, in milliwatts.
void WorsenByPowerLimit(unsigned set, unsigned usual, GpuDevice& gpu);
// Lanes in use, and what GPU and slot together can have: fewer are a bad contact or a wrong setting
// of the firmware, and every copy to the host takes longer.
void WorsenByPcieWidth(int width, int max_width, GpuDevice& gpu);
// nvmlComputeMode_t.
void WorsenByComputeMode(unsigned mode, GpuDevice& gpu);

}  // namespace launch::agent
