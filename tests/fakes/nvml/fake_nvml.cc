// libnvidia-ml.so.1 for tests: the real entry points over the state of fake_state.h.

#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "tests/fakes/nvml/fake_state.h"

#define EXPORT extern "C" __attribute__((visibility("default"))) nvmlReturn_t

namespace {

using fake_nvml::Enter;
using fake_nvml::Entered;
using fake_nvml::HandleOf;
using fake_nvml::Target;
using fake_nvml::TargetOf;
using nlohmann::json;

constexpr unsigned long long kMiB = 1024 * 1024;

nvmlReturn_t CopyText(const std::string& text, char* to, unsigned int length) {
  if (text.size() + 1 > length) return kInsufficientSize;
  std::memcpy(to, text.c_str(), text.size() + 1);
  return kSuccess;
}

// A call on a device: the faults applied, `json` of the device or null with `code` to return.
struct OnDevice {
  nvmlReturn_t code = kSuccess;
  Target target;
  fake_nvml::State state;
  json device;

  OnDevice(const char* symbol, nvmlDevice_t handle) {
    const std::optional<Target> found = TargetOf(handle);
    if (!found) {
      code = kInvalidArgument;
      return;
    }
    target = *found;
    Entered entered = Enter(symbol, target.device);
    code = entered.code;
    state = std::move(entered.state);
    if (code == kSuccess) device = state->at("devices")[target.device];
  }
  bool Has(const char* key) const { return device.contains(key) && !device[key].is_null(); }
};

template <class Out, class Read>
nvmlReturn_t Answer(const char* symbol, nvmlDevice_t handle, const char* key, Out* out, Read read) {
  const OnDevice call(symbol, handle);
  if (call.code != kSuccess) return call.code;
  if (out == nullptr) return kInvalidArgument;
  if (!call.Has(key)) return kNotSupported;
  *out = read(call.device[key]);
  return kSuccess;
}

template <class Out>
nvmlReturn_t Number(const char* symbol, nvmlDevice_t handle, const char* key, Out* out,
                    double factor = 1) {
  return Answer(symbol, handle, key, out,
                [&](const json& value) { return static_cast<Out>(value.get<double>() * factor); });
}

nvmlReturn_t Text(const char* symbol, nvmlDevice_t handle, const char* key, char* to,
                  unsigned int length) {
  const OnDevice call(symbol, handle);
  if (call.code != kSuccess) return call.code;
  if (!call.Has(key)) return kNotSupported;
  return CopyText(call.device[key], to, length);
}

nvmlReturn_t Pcie(const char* symbol, nvmlDevice_t handle, const char* key, unsigned int* out) {
  const OnDevice call(symbol, handle);
  if (call.code != kSuccess) return call.code;
  if (!call.Has("pcie") || !call.device["pcie"].contains(key)) return kNotSupported;
  *out = call.device["pcie"][key].get<unsigned int>();
  return kSuccess;
}

struct PciParts {
  unsigned int domain = 0, bus = 0, device = 0;
};

PciParts PciOf(const json& device) {
  PciParts parts;
  const std::string text = device.value("pci", "0000:00:00.0");
  (void)std::sscanf(text.c_str(), "%x:%x:%x", &parts.domain, &parts.bus, &parts.device);
  return parts;
}

void WritePci(const json& device, nvmlPciInfo_t* to) {
  std::memset(to, 0, sizeof *to);
  const PciParts parts = PciOf(device);
  to->domain = parts.domain;
  to->bus = parts.bus;
  to->device = parts.device;
  to->pciDeviceId = device.value("pci_device_id", 0x233010DEu);
  (void)std::snprintf(to->busIdLegacy, sizeof to->busIdLegacy, "%04X:%02X:%02X.0",
                      parts.domain & 0xffff, parts.bus & 0xff, parts.device & 0xff);
  (void)std::snprintf(to->busId, sizeof to->busId, "%08X:%02X:%02X.0", parts.domain,
                      parts.bus & 0xff, parts.device & 0xff);
}

// The entry of `nvlink` that link number `link` belongs to.
struct Link {
  nvmlReturn_t code = kSuccess;
  bool active = false;
  json entry;
};

Link LinkOf(const OnDevice& call, unsigned int link) {
  if (call.code != kSuccess) return {call.code, false, {}};
  if (!call.Has("nvlink")) return {kNotSupported, false, {}};
  if (link >= 18) return {kInvalidArgument, false, {}};
  unsigned int next = 0;
  for (const json& entry : call.device["nvlink"]) {
    next += entry.value("count", 1u);
    if (link < next) return {kSuccess, true, entry};
  }
  return {kSuccess, false, {}};
}

const json* SliceOf(const OnDevice& call) {
  if (call.target.slice < 0 || !call.Has("mig")) return nullptr;
  const json& slices = call.device["mig"]["slices"];
  const json& slice = slices.at(call.target.slice);
  return slice.is_null() ? nullptr : &slice;
}

nvmlReturn_t Processes(const char* symbol, const char* kind, nvmlDevice_t handle,
                       unsigned int* count, void* infos) {
  const OnDevice call(symbol, handle);
  if (call.code != kSuccess) return call.code;
  json listed = json::array();
  const json* slice = SliceOf(call);
  for (const json& one : call.device.value("processes", json::array())) {
    const bool there = slice == nullptr || one.value("gi", -1) == slice->value("gi", 0);
    if (there && one.value("kind", "compute") == kind) listed.push_back(one);
  }
  const unsigned int room = *count;
  *count = static_cast<unsigned int>(listed.size());
  if (room < *count || (infos == nullptr && *count > 0)) return kInsufficientSize;
  const std::size_t stride = call.state->value("process_stride", sizeof(nvmlProcessInfo_t));
  char* at = static_cast<char*>(infos);
  for (const json& one : listed) {
    nvmlProcessInfo_early535_t info{};
    info.pid = one.at("pid");
    info.usedGpuMemory = one.contains("used_mib") ? one["used_mib"].get<unsigned long long>() * kMiB
                                                  : std::numeric_limits<unsigned long long>::max();
    info.gpuInstanceId = one.value("gi", 0xffffffffu);
    info.computeInstanceId = one.value("ci", 0xffffffffu);
    std::memcpy(at, &info, stride);
    at += stride;
  }
  return kSuccess;
}

struct Memory {
  unsigned long long total = 0, reserved = 0, used = 0;
};

Memory MemoryOf(nvmlDevice_t handle, const json& memory) {
  const OnDevice call("MemoryOf", handle);
  if (const json* slice = SliceOf(call)) {
    return {slice->value("memory_mib", 0ull) * kMiB, 0, slice->value("used_mib", 0ull) * kMiB};
  }
  return {memory.value("total_mib", 0ull) * kMiB, memory.value("reserved_mib", 0ull) * kMiB,
          memory.value("used_mib", 0ull) * kMiB};
}

}  // namespace

EXPORT nvmlInit_v2() { return fake_nvml::Init("nvmlInit_v2"); }
EXPORT nvmlInitWithFlags(unsigned int) { return fake_nvml::Init("nvmlInitWithFlags"); }
EXPORT nvmlShutdown() { return fake_nvml::Shutdown(); }

extern "C" __attribute__((visibility("default"))) const char* nvmlErrorString(nvmlReturn_t code) {
  switch (code) {
    case 0:
      return "Success";
    case 1:
      return "Uninitialized";
    case 3:
      return "Not Supported";
    case 4:
      return "Insufficient Permissions";
    case 9:
      return "Driver Not Loaded";
    case 13:
      return "Function Not Found";
    case 15:
      return "GPU is lost";
    case 16:
      return "GPU requires reset";
    case 18:
      return "Driver/library version mismatch";
    default:
      return "Unknown Error";
  }
}

EXPORT nvmlSystemGetDriverVersion(char* to, unsigned int length) {
  const Entered call = Enter("nvmlSystemGetDriverVersion");
  return call.code ? call.code : CopyText(call.state->value("driver", ""), to, length);
}
EXPORT nvmlSystemGetNVMLVersion(char* to, unsigned int length) {
  const Entered call = Enter("nvmlSystemGetNVMLVersion");
  return call.code ? call.code : CopyText(call.state->value("nvml", ""), to, length);
}
EXPORT nvmlSystemGetCudaDriverVersion_v2(int* version) {
  const Entered call = Enter("nvmlSystemGetCudaDriverVersion_v2");
  if (call.code == kSuccess) *version = call.state->value("cuda", 0);
  return call.code;
}
EXPORT nvmlSystemGetCudaDriverVersion(int* version) {
  const Entered call = Enter("nvmlSystemGetCudaDriverVersion");
  if (call.code == kSuccess) *version = call.state->value("cuda", 0);
  return call.code;
}

EXPORT nvmlDeviceGetCount_v2(unsigned int* count) {
  const Entered call = Enter("nvmlDeviceGetCount_v2");
  if (call.code == kSuccess) *count = static_cast<unsigned int>(call.state->at("devices").size());
  return call.code;
}
EXPORT nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* handle) {
  const Entered all = Enter("nvmlDeviceGetHandleByIndex_v2");
  if (all.code != kSuccess && all.code == kUninitialized) return all.code;
  if (index >= all.state->at("devices").size()) return kInvalidArgument;
  const Entered call = Enter("nvmlDeviceGetHandleByIndex_v2", static_cast<int>(index));
  if (call.code == kSuccess) *handle = HandleOf({static_cast<int>(index), -1});
  return call.code;
}
EXPORT nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* handle) {
  const Entered call = Enter("nvmlDeviceGetHandleByUUID");
  if (call.code != kSuccess) return call.code;
  const json& devices = call.state->at("devices");
  for (int i = 0; i < static_cast<int>(devices.size()); ++i) {
    if (devices[i].value("uuid", "") != uuid) continue;
    *handle = HandleOf({i, -1});
    return devices[i].value("lost", false) ? kGpuLost : kSuccess;
  }
  return kNotFound;
}
EXPORT nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvmlDevice_t* handle) {
  const Entered call = Enter("nvmlDeviceGetHandleByPciBusId_v2");
  if (call.code != kSuccess) return call.code;
  const PciParts wanted = PciOf({{"pci", bus_id}});
  const json& devices = call.state->at("devices");
  for (int i = 0; i < static_cast<int>(devices.size()); ++i) {
    const PciParts parts = PciOf(devices[i]);
    if (parts.domain != wanted.domain || parts.bus != wanted.bus || parts.device != wanted.device)
      continue;
    *handle = HandleOf({i, -1});
    return devices[i].value("lost", false) ? kGpuLost : kSuccess;
  }
  return kNotFound;
}
EXPORT nvmlDeviceGetIndex(nvmlDevice_t handle, unsigned int* index) {
  const OnDevice call("nvmlDeviceGetIndex", handle);
  if (call.code == kSuccess) *index = static_cast<unsigned int>(call.target.device);
  return call.code;
}

EXPORT nvmlDeviceGetName(nvmlDevice_t handle, char* to, unsigned int length) {
  const OnDevice call("nvmlDeviceGetName", handle);
  if (call.code != kSuccess) return call.code;
  std::string name = call.device.value("name", "");
  if (call.target.slice >= 0) {
    const json* slice = SliceOf(call);
    if (slice == nullptr) return kNotFound;
    name += " MIG " + slice->value("profile", "");
  }
  return CopyText(name, to, length);
}
EXPORT nvmlDeviceGetSerial(nvmlDevice_t handle, char* to, unsigned int length) {
  return Text("nvmlDeviceGetSerial", handle, "serial", to, length);
}
EXPORT nvmlDeviceGetUUID(nvmlDevice_t handle, char* to, unsigned int length) {
  const OnDevice call("nvmlDeviceGetUUID", handle);
  if (call.code != kSuccess) return call.code;
  if (call.target.slice < 0) return CopyText(call.device.value("uuid", ""), to, length);
  const json* slice = SliceOf(call);
  return slice == nullptr ? kNotFound : CopyText(slice->value("uuid", ""), to, length);
}
EXPORT nvmlDeviceGetPciInfo_v3(nvmlDevice_t handle, nvmlPciInfo_t* pci) {
  const OnDevice call("nvmlDeviceGetPciInfo_v3", handle);
  if (call.code == kSuccess) WritePci(call.device, pci);
  return call.code;
}
EXPORT nvmlDeviceGetMinorNumber(nvmlDevice_t handle, unsigned int* minor) {
  const OnDevice call("nvmlDeviceGetMinorNumber", handle);
  if (call.code == kSuccess)
    *minor = call.device.value("minor", static_cast<unsigned int>(call.target.device));
  return call.code;
}
EXPORT nvmlDeviceGetCudaComputeCapability(nvmlDevice_t handle, int* major, int* minor) {
  const OnDevice call("nvmlDeviceGetCudaComputeCapability", handle);
  if (call.code != kSuccess) return call.code;
  if (!call.Has("cc")) return kNotSupported;
  *major = call.device["cc"].at(0);
  *minor = call.device["cc"].at(1);
  return kSuccess;
}
EXPORT nvmlDeviceGetArchitecture(nvmlDevice_t handle, unsigned int* architecture) {
  return Number("nvmlDeviceGetArchitecture", handle, "architecture", architecture);
}
EXPORT nvmlDeviceGetMemoryInfo(nvmlDevice_t handle, nvmlMemory_t* memory) {
  return Answer("nvmlDeviceGetMemoryInfo", handle, "memory", memory, [&](const json& value) {
    const Memory m = MemoryOf(handle, value);  // the first version counts what is reserved as used
    return nvmlMemory_t{m.total, m.total - m.used - m.reserved, m.used + m.reserved};
  });
}
EXPORT nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t handle, nvmlMemory_v2_t* memory) {
  if (memory == nullptr) return kInvalidArgument;
  if (memory->version != 0x02000028u) return kArgumentVersionMismatch;
  return Answer("nvmlDeviceGetMemoryInfo_v2", handle, "memory", memory, [&](const json& value) {
    const Memory m = MemoryOf(handle, value);
    return nvmlMemory_v2_t{0x02000028u, m.total, m.reserved, m.total - m.used - m.reserved, m.used};
  });
}
EXPORT nvmlDeviceGetPowerUsage(nvmlDevice_t handle, unsigned int* milliwatts) {
  return Number("nvmlDeviceGetPowerUsage", handle, "power_w", milliwatts, 1000);
}
EXPORT nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t handle, unsigned int* milliwatts) {
  return Number("nvmlDeviceGetEnforcedPowerLimit", handle, "power_limit_w", milliwatts, 1000);
}
EXPORT nvmlDeviceGetPowerManagementLimit(nvmlDevice_t handle, unsigned int* milliwatts) {
  return Number("nvmlDeviceGetPowerManagementLimit", handle, "power_limit_w", milliwatts, 1000);
}
EXPORT nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t handle, unsigned int* milliwatts) {
  return Number("nvmlDeviceGetPowerManagementDefaultLimit", handle, "default_power_limit_w",
                milliwatts, 1000);
}
EXPORT nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t handle, unsigned long long* millijoules) {
  return Number("nvmlDeviceGetTotalEnergyConsumption", handle, "energy_mj", millijoules);
}
EXPORT nvmlDeviceGetTemperature(nvmlDevice_t handle, unsigned int, unsigned int* degrees) {
  return Number("nvmlDeviceGetTemperature", handle, "temperature_c", degrees);
}
EXPORT nvmlDeviceGetUtilizationRates(nvmlDevice_t handle, nvmlUtilization_t* rates) {
  return Answer("nvmlDeviceGetUtilizationRates", handle, "utilization", rates,
                [](const json& value) {
                  return nvmlUtilization_t{value.value("gpu", 0u), value.value("memory", 0u)};
                });
}
EXPORT nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t handle, unsigned long long* reasons) {
  return Number("nvmlDeviceGetCurrentClocksEventReasons", handle, "clock_reasons", reasons);
}
EXPORT nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t handle, unsigned long long* reasons) {
  return Number("nvmlDeviceGetCurrentClocksThrottleReasons", handle, "clock_reasons", reasons);
}
EXPORT nvmlDeviceGetTotalEccErrors(nvmlDevice_t handle, int error_type, int counter_type,
                                   unsigned long long* count) {
  // Uncorrected, since the driver was loaded; of the others nobody has any.
  const bool kept = error_type == 1 && counter_type == 0;
  if (kept) return Number("nvmlDeviceGetTotalEccErrors", handle, "ecc_errors", count);
  const OnDevice call("nvmlDeviceGetTotalEccErrors", handle);
  if (call.code == kSuccess) *count = 0;
  return call.code;
}
EXPORT nvmlDeviceGetApplicationsClock(nvmlDevice_t handle, int, unsigned int* mhz) {
  return Number("nvmlDeviceGetApplicationsClock", handle, "clock_mhz", mhz);
}
EXPORT nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t handle, int, unsigned int* mhz) {
  return Number("nvmlDeviceGetDefaultApplicationsClock", handle, "default_clock_mhz", mhz);
}
EXPORT nvmlDeviceGetMaxClockInfo(nvmlDevice_t handle, int type, unsigned int* mhz) {
  const char* symbol = "nvmlDeviceGetMaxClockInfo";
  if (type < 0 || type > 3) return kInvalidArgument;  // graphics, SM, memory, video
  return Number(symbol, handle, type == 2 ? "max_memory_clock_mhz" : "max_clock_mhz", mhz);
}
EXPORT nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t handle, unsigned int* generation) {
  return Pcie("nvmlDeviceGetCurrPcieLinkGeneration", handle, "generation", generation);
}
EXPORT nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t handle, unsigned int* generation) {
  return Pcie("nvmlDeviceGetMaxPcieLinkGeneration", handle, "max_generation", generation);
}
EXPORT nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t handle, unsigned int* width) {
  return Pcie("nvmlDeviceGetCurrPcieLinkWidth", handle, "width", width);
}
EXPORT nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t handle, unsigned int* width) {
  return Pcie("nvmlDeviceGetMaxPcieLinkWidth", handle, "max_width", width);
}
EXPORT nvmlDeviceGetEccMode(nvmlDevice_t handle, unsigned int* current, unsigned int* pending) {
  const OnDevice call("nvmlDeviceGetEccMode", handle);
  if (call.code != kSuccess) return call.code;
  if (!call.Has("ecc")) return kNotSupported;
  *current = *pending = call.device["ecc"].get<bool>() ? 1 : 0;
  return kSuccess;
}
EXPORT nvmlDeviceGetRemappedRows(nvmlDevice_t handle, unsigned int* correctable,
                                 unsigned int* uncorrectable, unsigned int* pending,
                                 unsigned int* failure) {
  const OnDevice call("nvmlDeviceGetRemappedRows", handle);
  if (call.code != kSuccess) return call.code;
  if (!call.Has("remapped")) return kNotSupported;
  const json& rows = call.device["remapped"];
  *correctable = rows.value("correctable", 0u);
  *uncorrectable = rows.value("uncorrectable", 0u);
  *pending = rows.value("pending", false) ? 1 : 0;
  *failure = rows.value("failure", false) ? 1 : 0;
  return kSuccess;
}
EXPORT nvmlDeviceGetComputeMode(nvmlDevice_t handle, unsigned int* mode) {
  return Number("nvmlDeviceGetComputeMode", handle, "compute_mode", mode);
}
EXPORT nvmlDeviceGetPersistenceMode(nvmlDevice_t handle, unsigned int* mode) {
  return Number("nvmlDeviceGetPersistenceMode", handle, "persistence", mode);
}
EXPORT nvmlDeviceGetNumaNodeId(nvmlDevice_t handle, unsigned int* node) {
  return Number("nvmlDeviceGetNumaNodeId", handle, "numa", node);
}

EXPORT nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t handle, unsigned int* count,
                                               nvmlProcessInfo_t* infos) {
  return Processes("nvmlDeviceGetComputeRunningProcesses_v3", "compute", handle, count, infos);
}
EXPORT nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t handle, unsigned int* count,
                                                nvmlProcessInfo_t* infos) {
  return Processes("nvmlDeviceGetGraphicsRunningProcesses_v3", "graphics", handle, count, infos);
}
EXPORT nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t handle, unsigned int* count,
                                                  nvmlProcessInfo_t* infos) {
  return Processes("nvmlDeviceGetMPSComputeRunningProcesses_v3", "mps", handle, count, infos);
}

EXPORT nvmlDeviceGetMigMode(nvmlDevice_t handle, unsigned int* current, unsigned int* pending) {
  const OnDevice call("nvmlDeviceGetMigMode", handle);
  if (call.code != kSuccess) return call.code;
  if (!call.Has("mig")) return kNotSupported;
  const json& mig = call.device["mig"];
  *current = mig.value("enabled", false) ? 1 : 0;
  *pending = mig.value("pending", *current != 0) ? 1 : 0;
  return kSuccess;
}
EXPORT nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t handle, unsigned int* count) {
  const OnDevice call("nvmlDeviceGetMaxMigDeviceCount", handle);
  if (call.code == kSuccess) *count = call.Has("mig") ? call.device["mig"].value("max", 7u) : 0;
  return call.code;
}
EXPORT nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t handle, unsigned int index,
                                           nvmlDevice_t* slice) {
  const OnDevice call("nvmlDeviceGetMigDeviceHandleByIndex", handle);
  if (call.code != kSuccess) return call.code;
  if (!call.Has("mig") || index >= fake_nvml::kMaxSlices) return kInvalidArgument;
  const json slices = call.device["mig"].value("slices", json::array());
  if (index >= slices.size() || slices[index].is_null()) return kNotFound;
  *slice = HandleOf({call.target.device, static_cast<int>(index)});
  return kSuccess;
}
EXPORT nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t slice, nvmlDevice_t* handle) {
  const OnDevice call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", slice);
  if (call.code != kSuccess) return call.code;
  if (call.target.slice < 0) return kInvalidArgument;
  *handle = HandleOf({call.target.device, -1});
  return kSuccess;
}
EXPORT nvmlDeviceGetGpuInstanceId(nvmlDevice_t slice, unsigned int* id) {
  const OnDevice call("nvmlDeviceGetGpuInstanceId", slice);
  if (call.code != kSuccess) return call.code;
  const json* found = SliceOf(call);
  if (found == nullptr) return kInvalidArgument;
  *id = found->value("gi", 0u);
  return kSuccess;
}
EXPORT nvmlDeviceGetComputeInstanceId(nvmlDevice_t slice, unsigned int* id) {
  const OnDevice call("nvmlDeviceGetComputeInstanceId", slice);
  if (call.code != kSuccess) return call.code;
  const json* found = SliceOf(call);
  if (found == nullptr) return kInvalidArgument;
  *id = found->value("ci", 0u);
  return kSuccess;
}
EXPORT nvmlDeviceGetAttributes_v2(nvmlDevice_t slice, nvmlDeviceAttributes_t* attributes) {
  const OnDevice call("nvmlDeviceGetAttributes_v2", slice);
  if (call.code != kSuccess) return call.code;
  const json* found = SliceOf(call);
  if (found == nullptr) return kNotSupported;
  *attributes = {};
  attributes->memorySizeMB = found->value("memory_mib", 0ull);
  const std::string profile = found->value("profile", "0g");
  attributes->gpuInstanceSliceCount = static_cast<unsigned int>(std::atoi(profile.c_str()));
  attributes->computeInstanceSliceCount = attributes->gpuInstanceSliceCount;
  return kSuccess;
}

EXPORT nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b, unsigned int* level) {
  const OnDevice call("nvmlDeviceGetTopologyCommonAncestor", a);
  if (call.code != kSuccess) return call.code;
  const std::optional<Target> other = TargetOf(b);
  if (!other) return kInvalidArgument;
  const json topology = call.state->value("topology", json::object());
  const int low = std::min(call.target.device, other->device);
  const int high = std::max(call.target.device, other->device);
  *level = topology.value(std::to_string(low) + "-" + std::to_string(high),
                          topology.value("default", 50u));
  return kSuccess;
}
EXPORT nvmlDeviceGetNvLinkState(nvmlDevice_t handle, unsigned int link, unsigned int* active) {
  const Link found = LinkOf(OnDevice("nvmlDeviceGetNvLinkState", handle), link);
  if (found.code == kSuccess) *active = found.active ? 1 : 0;
  return found.code;
}
EXPORT nvmlDeviceGetNvLinkVersion(nvmlDevice_t handle, unsigned int link, unsigned int* version) {
  const Link found = LinkOf(OnDevice("nvmlDeviceGetNvLinkVersion", handle), link);
  if (found.code != kSuccess) return found.code;
  if (!found.active) return kNotSupported;
  *version = found.entry.value("version", 4u);
  return kSuccess;
}
EXPORT nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t handle, unsigned int link,
                                           unsigned int* type) {
  const Link found = LinkOf(OnDevice("nvmlDeviceGetNvLinkRemoteDeviceType", handle), link);
  if (found.code != kSuccess) return found.code;
  if (!found.active) return kNotSupported;
  *type = found.entry["peer"].is_string() ? 2 : 0;
  return kSuccess;
}
EXPORT nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t handle, unsigned int link,
                                           nvmlPciInfo_t* pci) {
  const OnDevice call("nvmlDeviceGetNvLinkRemotePciInfo_v2", handle);
  const Link found = LinkOf(call, link);
  if (found.code != kSuccess) return found.code;
  if (!found.active) return kNotSupported;
  if (found.entry["peer"].is_string()) {
    WritePci({{"pci", "0000:c0:00.0"}}, pci);
  } else {
    const std::size_t peer = found.entry["peer"];
    if (peer >= call.state->at("devices").size()) return kGpuLost;
    WritePci(call.state->at("devices")[peer], pci);
  }
  return kSuccess;
}
EXPORT nvmlDeviceGetFieldValues(nvmlDevice_t handle, int count, nvmlFieldValue_t* values) {
  const OnDevice call("nvmlDeviceGetFieldValues", handle);
  if (call.code != kSuccess) return call.code;
  for (int i = 0; i < count; ++i) {
    values[i].nvmlReturn = kNotSupported;
    if (values[i].fieldId != 230 || !call.Has("recovery_action")) continue;
    values[i].nvmlReturn = kSuccess;
    values[i].valueType = 1;
    values[i].value.uiVal = call.device["recovery_action"];
  }
  return kSuccess;
}
EXPORT nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t handle, nvmlGpuFabricInfo_v2_t* info) {
  if (info == nullptr) return kInvalidArgument;
  if (info->version != 0x02000024u) return kArgumentVersionMismatch;
  return Answer("nvmlDeviceGetGpuFabricInfoV", handle, "fabric_state", info, [](const json& state) {
    nvmlGpuFabricInfo_v2_t answer{};
    answer.version = 0x02000024u;
    answer.state = state.get<unsigned char>();
    return answer;
  });
}
EXPORT nvmlDeviceGetC2cModeInfoV(nvmlDevice_t handle, nvmlC2cModeInfo_v1_t* info) {
  return Answer("nvmlDeviceGetC2cModeInfoV", handle, "c2c", info, [](const json& enabled) {
    return nvmlC2cModeInfo_v1_t{enabled.get<bool>() ? 1u : 0u};
  });
}
EXPORT nvmlDeviceGetAddressingMode(nvmlDevice_t handle, nvmlDeviceAddressingMode_v1_t* mode) {
  if (mode == nullptr) return kInvalidArgument;
  if (mode->version != 0x01000008u) return kArgumentVersionMismatch;
  return Answer("nvmlDeviceGetAddressingMode", handle, "addressing", mode, [](const json& value) {
    return nvmlDeviceAddressingMode_v1_t{0x01000008u, value.get<unsigned int>()};
  });
}

// Xids that a device gets in "xids" after it was registered; without one the wait blocks for its
// time, as clients rely on.
namespace {
struct Registered {
  std::map<int, std::size_t> told;  // device -> how many of its xids
  std::mutex mutex;
};
Registered& TheRegistered() {
  static Registered registered;
  return registered;
}
std::size_t XidsOf(const json& device) {
  return device.contains("xids") ? device["xids"].size() : 0;
}
}  // namespace
EXPORT nvmlEventSetCreate(nvmlEventSet_t* set) {
  const Entered call = Enter("nvmlEventSetCreate");
  static char the_set;
  if (call.code == kSuccess) *set = reinterpret_cast<nvmlEventSet_t>(&the_set);
  return call.code;
}
EXPORT nvmlEventSetFree(nvmlEventSet_t) { return Enter("nvmlEventSetFree").code; }
EXPORT nvmlEventSetWait_v2(nvmlEventSet_t, nvmlEventData_t* data, unsigned int timeout_ms) {
  const Entered call = Enter("nvmlEventSetWait_v2");
  if (call.code != kSuccess) return call.code;
  {
    Registered& registered = TheRegistered();
    const std::lock_guard lock(registered.mutex);
    for (auto& [index, told] : registered.told) {
      const json& device = (*call.state)["devices"][static_cast<std::size_t>(index)];
      if (told >= XidsOf(device)) continue;
      *data = nvmlEventData_t{};
      data->device = HandleOf({.device = index});
      data->eventType = 0x8;
      data->eventData = device["xids"][told++].get<unsigned long long>();
      return kSuccess;
    }
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(timeout_ms));
  return kTimeout;
}
EXPORT nvmlDeviceGetSupportedEventTypes(nvmlDevice_t handle, unsigned long long* types) {
  const OnDevice call("nvmlDeviceGetSupportedEventTypes", handle);
  if (call.code == kSuccess) *types = 0xb;
  return call.code;
}
EXPORT nvmlDeviceRegisterEvents(nvmlDevice_t handle, unsigned long long, nvmlEventSet_t) {
  const OnDevice call("nvmlDeviceRegisterEvents", handle);
  if (call.code != kSuccess) return call.code;
  Registered& registered = TheRegistered();
  const std::lock_guard lock(registered.mutex);
  registered.told.emplace(TargetOf(handle)->device, XidsOf(call.device));
  return kSuccess;
}
