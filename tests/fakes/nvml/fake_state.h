// State of the fake driver: a JSON file that a test may rewrite while clients run.
//
// {
//   "driver": "570.124.06", "nvml": "12.570.124.06", "cuda": 12080,
//   "faults": {"nvmlDeviceGetName": {"result": 15, "delay_ms": 100, "devices": [0]},
//              "nvmlInit_v2": {"delay_ms": "forever"}},
//   "process_stride": 24,            32 = the layout of some early R535 drivers
//   "topology": {"default": 50, "0-1": 10},
//   "devices": [{
//     "uuid": "GPU-...", "name": "NVIDIA ...", "pci": "0000:01:00.0", "serial": "...",
//     "cc": [9, 0], "architecture": 9,
//     "memory": {"total_mib": 97871, "reserved_mib": 500, "used_mib": 0},
//     "power_w": 90.0, "power_limit_w": 700, "default_power_limit_w": 700, "temperature_c": 35,
//     "utilization": {"gpu": 0, "memory": 0}, "ecc": true, "numa": 1, "c2c": true,
//     "addressing": 2, "recovery_action": 0, "fabric_state": 3,
//     "remapped": {"correctable": 0, "uncorrectable": 0, "pending": false, "failure": false},
//     "nvlink": [{"peer": 1, "count": 4, "version": 3}, {"peer": "switch", "count": 18}],
//     "persistence": 1, "ecc_errors": 0, "clock_reasons": 0, "clock_mhz": 1980,
//     "default_clock_mhz": 1980, "compute_mode": 0,
//     "max_clock_mhz": 1980, "max_memory_clock_mhz": 2619,
//     "pcie": {"generation": 5, "max_generation": 5, "width": 16, "max_width": 16},
//     "mig": {"enabled": true, "pending": true, "max": 7, "slices": [{"uuid": "MIG-...",
//             "profile": "1g.5gb", "memory_mib": 4864, "used_mib": 0, "gi": 7, "ci": 0}, null]},
//     "processes": [{"pid": 4711, "used_mib": 300, "kind": "compute"}],
//     "xids": [79],                  an event for each Xid that is added
//     "lost": false                  true: every call on it answers 15
//   }]
// }
// What a device does not name answers "not supported".
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "tests/fakes/nvml/nvml_abi.h"

namespace fake_nvml {

struct Target {  // what a handle means
  int device = -1;
  int slice = -1;  // >= 0: a MIG slice of it
};

inline constexpr int kMaxDevices = 64;
inline constexpr int kMaxSlices = 8;

nvmlDevice_t HandleOf(Target target);
std::optional<Target> TargetOf(nvmlDevice_t handle);

using State = std::shared_ptr<const nlohmann::json>;  // never null

// Applies the faults of `symbol` (delays happen here), then answers the present state or the
// code to return. `device` -1 = a call about no device. Thread-safe.
struct Entered {
  nvmlReturn_t code = kSuccess;
  State state;
};
Entered Enter(const char* symbol, int device = -1);

// Reference counted, as in the driver. Unlike Enter these do not need a running library.
nvmlReturn_t Init(const char* symbol);
nvmlReturn_t Shutdown();

}  // namespace fake_nvml
