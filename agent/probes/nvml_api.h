// The driver library's binary interface as this agent uses it; no NVIDIA header is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/error.h"

namespace launch::agent {

// Return codes are part of the binary interface.
enum NvmlCode : int {
  kNvmlSuccess = 0,
  kNvmlUninitialized = 1,
  kNvmlInvalidArgument = 2,
  kNvmlNotSupported = 3,
  kNvmlNoPermission = 4,
  kNvmlNotFound = 6,
  kNvmlInsufficientSize = 7,
  kNvmlDriverNotLoaded = 9,
  kNvmlTimeout = 10,
  kNvmlLibraryNotFound = 12,
  kNvmlFunctionNotFound = 13,
  kNvmlGpuIsLost = 15,
  kNvmlResetRequired = 16,
  kNvmlOperatingSystem = 17,
  kNvmlLibRmVersionMismatch = 18,
  kNvmlNoData = 21,
  kNvmlArgumentVersionMismatch = 25,
  kNvmlNotReady = 27,
  kNvmlGpuNotFound = 28,
  kNvmlUnknown = 999,
};

inline constexpr int kNvmlUncorrected = 1;    // nvmlMemoryErrorType_t
inline constexpr int kNvmlSinceLoad = 0;      // nvmlEccCounterType_t: volatile
inline constexpr int kNvmlGraphicsClock = 0;  // nvmlClockType_t
inline constexpr int kNvmlMemoryClock = 2;

using NvmlDevice = struct NvmlDeviceOpaque*;

// Layouts hold on x86-64 and aarch64 for all drivers from R525 on.
struct NvmlPciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct NvmlMemory {
  std::uint64_t total, free, used;
};
struct NvmlMemoryV2 {
  unsigned version;
  std::uint64_t total, reserved, free, used;
};
struct NvmlUtilization {
  unsigned gpu, memory;
};
struct NvmlProcessInfo {
  unsigned pid;
  std::uint64_t used_gpu_memory;
  unsigned gpu_instance_id, compute_instance_id;
};
struct NvmlFieldValue {
  unsigned field_id, scope_id;
  std::int64_t timestamp, latency_us;
  unsigned value_type;
  NvmlCode code;
  union {
    double real;
    unsigned number;
    std::uint64_t wide;
  } value;
};
struct NvmlFabricInfoV2 {
  unsigned version;
  unsigned char cluster_uuid[16];
  NvmlCode status;
  unsigned clique_id;
  unsigned char state;
  unsigned health_mask;
};
struct NvmlC2cMode {
  unsigned enabled;
};
struct NvmlAddressingMode {
  unsigned version, value;
};
struct NvmlAttributes {
  unsigned multiprocessors, copy_engines, decoders, encoders, jpegs, ofas, gpu_slices,
      compute_slices;
  std::uint64_t memory_mib;
};

static_assert(sizeof(NvmlPciInfo) == 68 && sizeof(NvmlMemory) == 24 && sizeof(NvmlMemoryV2) == 40);
static_assert(sizeof(NvmlProcessInfo) == 24 && sizeof(NvmlFieldValue) == 40);
static_assert(offsetof(NvmlFieldValue, code) == 28 && offsetof(NvmlFieldValue, value) == 32);
static_assert(sizeof(NvmlFabricInfoV2) == 36 && offsetof(NvmlFabricInfoV2, state) == 28);
static_assert(sizeof(NvmlAttributes) == 40 && offsetof(NvmlAttributes, memory_mib) == 32);

// First word of a versioned struct: its size and its version.
template <class T>
constexpr unsigned NvmlVersion(unsigned version) {
  return static_cast<unsigned>(sizeof(T)) | (version << 24);
}

inline constexpr unsigned kNvmlFieldRecoveryAction = 230;

struct NvmlEventData {
  NvmlDevice device;
  unsigned long long type, data;  // of an Xid event: its number
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(NvmlEventData) == 32);
using NvmlEventSet = void*;
inline constexpr unsigned long long kNvmlEventXid = 0x8;

// Entry points; any may be null, because drivers differ by years.
struct NvmlApi {
  template <class... Args>
  using Call = NvmlCode (*)(Args...);

  Call<> init = nullptr;
  Call<> shutdown = nullptr;
  Call<char*, unsigned> driver_version = nullptr;
  Call<int*> cuda_version_v2 = nullptr;  // fails where libcuda is absent; the older one does not
  Call<int*> cuda_version = nullptr;
  Call<unsigned*> count = nullptr;
  Call<unsigned, NvmlDevice*> handle_by_index = nullptr;
  Call<NvmlDevice, char*, unsigned> name = nullptr;
  Call<NvmlDevice, char*, unsigned> uuid = nullptr;
  Call<NvmlDevice, NvmlPciInfo*> pci_info = nullptr;
  Call<NvmlDevice, int*, int*> compute_capability = nullptr;
  Call<NvmlDevice, NvmlMemoryV2*> memory_v2 = nullptr;
  Call<NvmlDevice, NvmlMemory*> memory = nullptr;
  Call<NvmlDevice, unsigned*> power_usage = nullptr;
  Call<NvmlDevice, unsigned*> power_limit = nullptr;      // the lowest of all that hold
  Call<NvmlDevice, unsigned*> set_power_limit = nullptr;  // nvidia-smi -pl
  Call<NvmlDevice, unsigned*> default_power_limit = nullptr;
  Call<NvmlDevice, unsigned, unsigned*> temperature = nullptr;
  Call<NvmlDevice, NvmlUtilization*> utilization = nullptr;
  Call<NvmlDevice, unsigned*, unsigned*> ecc_mode = nullptr;
  Call<NvmlDevice, int, int, unsigned long long*> total_ecc_errors = nullptr;
  Call<NvmlDevice, unsigned long long*> clock_reasons = nullptr;
  Call<NvmlDevice, int, unsigned*> applications_clock = nullptr;
  Call<NvmlDevice, int, unsigned*> default_applications_clock = nullptr;
  Call<NvmlDevice, int, unsigned*> max_clock = nullptr;
  Call<NvmlDevice, unsigned*> pcie_generation = nullptr;
  Call<NvmlDevice, unsigned*> max_pcie_generation = nullptr;  // of GPU and slot together
  Call<NvmlDevice, unsigned*> pcie_width = nullptr;
  Call<NvmlDevice, unsigned*> max_pcie_width = nullptr;
  Call<NvmlDevice, unsigned*> compute_mode = nullptr;
  Call<NvmlDevice, unsigned*> persistence_mode = nullptr;
  Call<NvmlDevice, unsigned*, unsigned*, unsigned*, unsigned*> remapped_rows = nullptr;
  Call<NvmlDevice, int, NvmlFieldValue*> field_values = nullptr;
  Call<NvmlDevice, NvmlFabricInfoV2*> fabric_info = nullptr;
  Call<NvmlDevice, unsigned*> numa_node = nullptr;
  Call<NvmlDevice, NvmlC2cMode*> c2c_mode = nullptr;
  Call<NvmlDevice, NvmlAddressingMode*> addressing_mode = nullptr;
  Call<NvmlDevice, unsigned*, unsigned*> mig_mode = nullptr;
  Call<NvmlDevice, unsigned*> max_mig_count = nullptr;
  Call<NvmlDevice, unsigned, NvmlDevice*> mig_by_index = nullptr;
  Call<NvmlDevice, NvmlAttributes*> attributes = nullptr;
  Call<NvmlDevice, NvmlDevice, unsigned*> common_ancestor = nullptr;
  Call<NvmlDevice, unsigned, unsigned*> link_state = nullptr;
  Call<NvmlDevice, unsigned, unsigned*> link_version = nullptr;
  Call<NvmlDevice, unsigned, unsigned*> link_remote_type = nullptr;
  Call<NvmlDevice, unsigned, NvmlPciInfo*> link_remote_pci = nullptr;
  Call<NvmlEventSet*> event_set_create = nullptr;
  Call<NvmlEventSet> event_set_free = nullptr;
  Call<NvmlEventSet, NvmlEventData*, unsigned> event_set_wait = nullptr;
  Call<NvmlDevice, unsigned long long, NvmlEventSet> register_events = nullptr;
  // Records are read with a stride that is found out, hence void.
  Call<NvmlDevice, unsigned*, void*> compute_processes = nullptr;
  Call<NvmlDevice, unsigned*, void*> graphics_processes = nullptr;
  Call<NvmlDevice, unsigned*, void*> mps_processes = nullptr;
};

// Where entry points come from: the library in production, a table in tests.
class SymbolResolver {
 public:
  virtual ~SymbolResolver() = default;
  virtual void* Find(const char* symbol) = 0;  // null: this driver lacks it
};

NvmlApi ResolveNvml(SymbolResolver& resolver);

// Opens `path`, or the driver's library by its name and in the places where containers and
// drivers put it. The library stays open as long as the resolver.
Result<std::unique_ptr<SymbolResolver>> OpenNvmlLibrary(const std::string& path);

}  // namespace launch::agent
