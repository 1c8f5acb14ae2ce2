// Questions to the driver's library in this process; only the NVML child calls it, for it may hang.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/probes/gpu_probe.h"
#include "agent/probes/nvml_api.h"

#if defined(__clang__)  // entry points are looked up by name: their types are ours by contract only
#define LAUNCH_FOREIGN_CALL __attribute__((no_sanitize("function")))
#else
#define LAUNCH_FOREIGN_CALL
#endif

namespace launch::agent {

// Single-threaded. What a driver or GPU cannot answer stays absent and is never zero.
class NvmlSession {
 public:
  using PidExists = std::function<bool(std::int64_t)>;
  NvmlSession(NvmlApi api, PidExists pid_exists);
  NvmlSession(const NvmlSession&) = delete;
  NvmlSession& operator=(const NvmlSession&) = delete;
  ~NvmlSession();

  // Starts the library. Empty, or the problem: "driver_not_loaded: ...". Idempotent.
  std::string Open();
  // The first handle of a GPU initialises it: many seconds on a node without persistence mode.
  void Wake();

  // Facts in PCI order, without the catalogue's type. A GPU that does not answer is in the list as
  // a placeholder with health bad, as it was last seen. Opens by itself.
  GpuFacts List();
  // Samples the GPUs of the last List, which is made first if there was none.
  std::vector<GpuSample> Sample();
  // `user` and `name` are empty: only pids and bytes are the driver's to tell.
  std::vector<std::pair<GpuUuid, std::vector<GpuProcess>>> Processes();

 private:
  struct Slot {  // one per index of the library
    NvmlDevice handle = nullptr;
    NvmlCode code = kNvmlSuccess;                        // why there is no answer
    GpuUuid uuid;                                        // of the last answer
    std::vector<std::pair<GpuUuid, NvmlDevice>> slices;  // MIG
  };

  void Close();
  std::optional<GpuDevice> Read(Slot& slot);  // nothing: slot.code says why
  // A GPU that gives no answer, as last seen; `taken` are the UUIDs that are accounted for.
  GpuDevice Placeholder(std::size_t index, const std::set<GpuUuid>& taken) const;
  void ReadMig(Slot& slot, GpuDevice& gpu);
  std::optional<std::uint64_t> UsedBytes(NvmlDevice handle);
  // Absent when the driver does not list those that compute.
  std::optional<std::vector<GpuProcess>> ProcessesOf(NvmlDevice handle);
  void ReadHealth(NvmlDevice handle, GpuDevice& gpu);
  void ReadPcie(NvmlDevice handle, GpuDevice& gpu);
  void ReadClocks(NvmlDevice handle, GpuDevice& gpu);
  void ReadFabric(NvmlDevice handle, GpuDevice& gpu);
  // Absent when the driver does not say.
  std::optional<int> NumberOf(NvmlApi::Call<NvmlDevice, unsigned*> call, NvmlDevice handle);
  std::optional<int> ClockOf(NvmlApi::Call<NvmlDevice, int, unsigned*> call, NvmlDevice handle,
                             int clock);
  void ReadLinks(std::vector<GpuDevice>& gpus);
  void ListenTo(const Slot& slot);  // to its Xid events, once
  // Events since the last call; of GPUs that are not in the list nothing can be said.
  std::map<NvmlDevice, std::vector<int>> TakeXids();
  // Absent when the driver does not say: that is not an empty list.
  std::optional<std::vector<GpuProcess>> ReadProcesses(
      NvmlDevice handle, NvmlApi::Call<NvmlDevice, unsigned*, void*> call);

  // Calls what may be absent; remembers the codes that condemn a GPU.
  template <class F, class... Args>
  NvmlCode Ask(F call, Args... args);

  const NvmlApi api_;
  const PidExists pid_exists_;
  bool open_ = false;
  bool restart_ = false;  // by the next List
  std::vector<Slot> slots_;
  NvmlEventSet events_ = nullptr;  // null: not listening, or the driver cannot
  std::set<NvmlDevice> listened_;
  std::map<GpuUuid, GpuDevice> known_;  // every GPU that ever answered
  NvmlCode worst_ = kNvmlSuccess;       // since it was last reset: lost or reset required
};

template <class F, class... Args>
LAUNCH_FOREIGN_CALL NvmlCode NvmlSession::Ask(F call, Args... args) {
  if (call == nullptr) return kNvmlFunctionNotFound;
  const NvmlCode code = call(args...);
  if (code == kNvmlGpuIsLost || code == kNvmlResetRequired) worst_ = code;
  return code;
}

// Words for the codes that concern the whole driver: "no_access: ...".
std::string DriverProblem(NvmlCode code);

// "00000009:01:00.0" -> "0009:01:00.0", lower case, as sysfs writes it.
std::string NormalPci(unsigned domain, unsigned bus, unsigned device);

}  // namespace launch::agent
