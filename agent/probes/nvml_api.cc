#include "agent/probes/nvml_api.h"

#include <dlfcn.h>

#include <vector>

namespace launch::agent {
namespace {

class OpenLibrary final : public SymbolResolver {
 public:
  explicit OpenLibrary(void* handle) : handle_(handle) {}
  OpenLibrary(const OpenLibrary&) = delete;
  OpenLibrary& operator=(const OpenLibrary&) = delete;
  ~OpenLibrary() override { ::dlclose(handle_); }
  void* Find(const char* symbol) override { return ::dlsym(handle_, symbol); }

 private:
  void* handle_;
};

template <class F>
void Bind(SymbolResolver& resolver, const char* symbol, F& to) {
  to = reinterpret_cast<F>(resolver.Find(symbol));
}

}  // namespace

NvmlApi ResolveNvml(SymbolResolver& r) {
  NvmlApi api;
  Bind(r, "nvmlInit_v2", api.init);
  Bind(r, "nvmlShutdown", api.shutdown);
  Bind(r, "nvmlSystemGetDriverVersion", api.driver_version);
  Bind(r, "nvmlSystemGetCudaDriverVersion_v2", api.cuda_version_v2);
  Bind(r, "nvmlSystemGetCudaDriverVersion", api.cuda_version);
  Bind(r, "nvmlDeviceGetCount_v2", api.count);
  Bind(r, "nvmlDeviceGetHandleByIndex_v2", api.handle_by_index);
  Bind(r, "nvmlDeviceGetName", api.name);
  Bind(r, "nvmlDeviceGetUUID", api.uuid);
  Bind(r, "nvmlDeviceGetPciInfo_v3", api.pci_info);
  Bind(r, "nvmlDeviceGetCudaComputeCapability", api.compute_capability);
  Bind(r, "nvmlDeviceGetMemoryInfo_v2", api.memory_v2);
  Bind(r, "nvmlDeviceGetMemoryInfo", api.memory);
  Bind(r, "nvmlDeviceGetPowerUsage", api.power_usage);
  Bind(r, "nvmlDeviceGetEnforcedPowerLimit", api.power_limit);
  Bind(r, "nvmlDeviceGetPowerManagementLimit", api.set_power_limit);
  Bind(r, "nvmlDeviceGetPowerManagementDefaultLimit", api.default_power_limit);
  Bind(r, "nvmlDeviceGetTemperature", api.temperature);
  Bind(r, "nvmlDeviceGetUtilizationRates", api.utilization);
  Bind(r, "nvmlDeviceGetEccMode", api.ecc_mode);
  Bind(r, "nvmlDeviceGetTotalEccErrors", api.total_ecc_errors);
  Bind(r, "nvmlDeviceGetCurrentClocksEventReasons", api.clock_reasons);
  if (api.clock_reasons == nullptr)  // its name before R535
    Bind(r, "nvmlDeviceGetCurrentClocksThrottleReasons", api.clock_reasons);
  Bind(r, "nvmlDeviceGetApplicationsClock", api.applications_clock);
  Bind(r, "nvmlDeviceGetDefaultApplicationsClock", api.default_applications_clock);
  Bind(r, "nvmlDeviceGetMaxClockInfo", api.max_clock);
  Bind(r, "nvmlDeviceGetCurrPcieLinkGeneration", api.pcie_generation);
  Bind(r, "nvmlDeviceGetMaxPcieLinkGeneration", api.max_pcie_generation);
  Bind(r, "nvmlDeviceGetCurrPcieLinkWidth", api.pcie_width);
  Bind(r, "nvmlDeviceGetMaxPcieLinkWidth", api.max_pcie_width);
  Bind(r, "nvmlDeviceGetComputeMode", api.compute_mode);
  Bind(r, "nvmlDeviceGetPersistenceMode", api.persistence_mode);
  Bind(r, "nvmlDeviceGetRemappedRows", api.remapped_rows);
  Bind(r, "nvmlDeviceGetFieldValues", api.field_values);
  Bind(r, "nvmlDeviceGetGpuFabricInfoV", api.fabric_info);
  Bind(r, "nvmlDeviceGetNumaNodeId", api.numa_node);
  Bind(r, "nvmlDeviceGetC2cModeInfoV", api.c2c_mode);
  Bind(r, "nvmlDeviceGetAddressingMode", api.addressing_mode);
  Bind(r, "nvmlDeviceGetMigMode", api.mig_mode);
  Bind(r, "nvmlDeviceGetMaxMigDeviceCount", api.max_mig_count);
  Bind(r, "nvmlDeviceGetMigDeviceHandleByIndex", api.mig_by_index);
  Bind(r, "nvmlDeviceGetAttributes_v2", api.attributes);
  Bind(r, "nvmlDeviceGetTopologyCommonAncestor", api.common_ancestor);
  Bind(r, "nvmlDeviceGetNvLinkState", api.link_state);
  Bind(r, "nvmlDeviceGetNvLinkVersion", api.link_version);
  Bind(r, "nvmlDeviceGetNvLinkRemoteDeviceType", api.link_remote_type);
  Bind(r, "nvmlDeviceGetNvLinkRemotePciInfo_v2", api.link_remote_pci);
  Bind(r, "nvmlEventSetCreate", api.event_set_create);
  Bind(r, "nvmlEventSetFree", api.event_set_free);
  Bind(r, "nvmlEventSetWait_v2", api.event_set_wait);
  Bind(r, "nvmlDeviceRegisterEvents", api.register_events);
  Bind(r, "nvmlDeviceGetComputeRunningProcesses_v3", api.compute_processes);
  Bind(r, "nvmlDeviceGetGraphicsRunningProcesses_v3", api.graphics_processes);
  Bind(r, "nvmlDeviceGetMPSComputeRunningProcesses_v3", api.mps_processes);
  return api;
}

Result<std::unique_ptr<SymbolResolver>> OpenNvmlLibrary(const std::string& path) {
  const std::string name = "libnvidia-ml.so.1";
  std::vector<std::string> places = {name,
                                     "/usr/lib/x86_64-linux-gnu/" + name,
                                     "/usr/lib/aarch64-linux-gnu/" + name,
                                     "/usr/lib64/" + name,
                                     "/usr/local/nvidia/lib64/" + name,
                                     "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/" + name,
                                     "/run/nvidia/driver/usr/lib/aarch64-linux-gnu/" + name,
                                     "/usr/lib/wsl/lib/" + name};
  if (!path.empty()) places = {path};
  std::string first_error;
  for (const std::string& place : places) {
    if (void* handle = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL))
      return std::unique_ptr<SymbolResolver>(new OpenLibrary(handle));
    if (first_error.empty()) first_error = ::dlerror();
  }
  return Fail(ErrorCode::kNotFound, "cannot load the NVIDIA driver's library: " + first_error);
}

}  // namespace launch::agent
