#include "agent/probes/nvml_session.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>

#include "agent/probes/nvml_health.h"
#include "common/first_line.h"

namespace launch::agent {
namespace {

constexpr unsigned kMaxLinks = 64;  // the library ends the count itself, 18 or 36 so far
constexpr unsigned kMaxProcessesOfDriver = 65536;
constexpr std::size_t kMostXids = 64;  // of one GPU in one sample
constexpr unsigned kSwitchPeer = 2;    // remote device types of NVLink
constexpr unsigned kGpuPeer = 0;
constexpr unsigned kAddressingAts = 2;

struct Text {
  char bytes[96] = {};
  std::string Get() const { return {bytes, ::strnlen(bytes, sizeof bytes)}; }
};

LinkKind KindOf(unsigned topology_level) {
  if (topology_level <= 10) return LinkKind::kPix;
  if (topology_level <= 20) return LinkKind::kPxb;
  if (topology_level <= 30) return LinkKind::kPhb;
  if (topology_level <= 40) return LinkKind::kNode;
  return LinkKind::kSys;
}

std::string WhyLost(NvmlCode code) {
  switch (code) {
    case kNvmlGpuIsLost:
      return "lost: the GPU has fallen off the bus";
    case kNvmlResetRequired:
      return "needs_reset: the driver asks for a reset of this GPU";
    case kNvmlNoPermission:
    case kNvmlOperatingSystem:
      return "no_access: its device node may not be opened";
    default:
      return "no answer: NVML error " + std::to_string(code);
  }
}

GpuDevice Condemned(GpuDevice gpu, NvmlCode code) {
  gpu.links.clear();
  gpu.health = Health::kBad;
  gpu.why = WhyLost(code);
  return gpu;
}

std::string BootIdStart() { return KernelBootId().substr(0, 8); }

}  // namespace

std::string DriverProblem(NvmlCode code) {
  switch (code) {
    case kNvmlDriverNotLoaded:
      return "driver_not_loaded: the NVIDIA kernel module is not loaded; run `modprobe nvidia` or "
             "reinstall the driver";
    case kNvmlLibRmVersionMismatch:
      return "driver_mismatch: the driver's library and its loaded kernel module have different "
             "versions; reboot, or reload the module";
    case kNvmlNoPermission:
    case kNvmlOperatingSystem:
      return "no_access: this user may not open the GPU device nodes (/dev/nvidia*)";
    case kNvmlFunctionNotFound:
      return "driver_mismatch: the driver's library lacks the entry points of every driver since "
             "R525; update the driver";
    case kNvmlTimeout:
      return "driver_unresponsive: the driver did not answer in time";
    default:
      return "driver_unresponsive: the driver's library failed with NVML error " +
             std::to_string(code);
  }
}

std::string NormalPci(unsigned domain, unsigned bus, unsigned device) {
  char text[32];
  (void)std::snprintf(text, sizeof text, "%04x:%02x:%02x.0", domain, bus & 0xffu, device & 0xffu);
  return text;
}

NvmlSession::NvmlSession(NvmlApi api, PidExists pid_exists)
    : api_(api), pid_exists_(std::move(pid_exists)) {}

NvmlSession::~NvmlSession() { Close(); }

void NvmlSession::Close() {
  if (events_ != nullptr) (void)Ask(api_.event_set_free, events_);
  events_ = nullptr;
  listened_.clear();
  if (open_) (void)Ask(api_.shutdown);
  open_ = false;
}

std::string NvmlSession::Open() {
  if (open_) return {};
  if (const NvmlCode code = Ask(api_.init); code != kNvmlSuccess) return DriverProblem(code);
  open_ = true;
  return {};
}

void NvmlSession::Wake() {
  unsigned count = 0;
  if (Ask(api_.count, &count) != kNvmlSuccess) return;
  for (unsigned index = 0; index < count; ++index) {
    NvmlDevice handle = nullptr;
    (void)Ask(api_.handle_by_index, index, &handle);
  }
}

GpuFacts NvmlSession::List() {
  GpuFacts facts;
  if (restart_) Close();  // a library that lost a GPU sees its return only after a new start
  restart_ = false;
  facts.problem = Open();
  if (!facts.problem.empty()) return facts;

  Text driver;
  if (Ask(api_.driver_version, driver.bytes, static_cast<unsigned>(sizeof driver.bytes)) ==
      kNvmlSuccess)
    facts.driver = driver.Get();
  int cuda = 0;
  if (Ask(api_.cuda_version_v2, &cuda) == kNvmlSuccess ||
      Ask(api_.cuda_version, &cuda) == kNvmlSuccess)
    facts.driver_cuda = CudaVersion{cuda / 1000, cuda % 1000 / 10};

  unsigned count = 0;
  if (const NvmlCode code = Ask(api_.count, &count); code != kNvmlSuccess) {
    facts.problem = DriverProblem(code);
    Close();
    return facts;
  }
  slots_.resize(count);
  std::vector<std::optional<GpuDevice>> answers(count);
  std::set<GpuUuid> taken;
  for (unsigned index = 0; index < count; ++index) {
    Slot& slot = slots_[index];
    slot.code = Ask(api_.handle_by_index, index, &slot.handle);
    answers[index] = Read(slot);
    if (answers[index]) taken.insert(answers[index]->uuid);
    if (slot.code == kNvmlNoPermission || slot.code == kNvmlOperatingSystem)
      facts.problem = DriverProblem(slot.code);
    restart_ = restart_ || slot.code != kNvmlSuccess;
  }
  for (unsigned index = 0; index < count; ++index) {
    facts.gpus.push_back(answers[index] ? *answers[index] : Placeholder(index, taken));
    taken.insert(facts.gpus.back().uuid);
  }
  ReadLinks(facts.gpus);
  // One that is no longer counted was not unplugged: it is lost, and stays in the list.
  for (const auto& [uuid, gpu] : known_) {
    if (taken.contains(uuid)) continue;
    facts.gpus.push_back(Condemned(gpu, kNvmlGpuIsLost));
    restart_ = true;
  }
  for (const GpuDevice& gpu : facts.gpus)
    if (gpu.numa) facts.coherent = CoherentMode::kNuma;
  if (facts.coherent == CoherentMode::kNone) {
    for (const Slot& slot : slots_) {
      NvmlC2cMode c2c{};
      NvmlAddressingMode mode{NvmlVersion<NvmlAddressingMode>(1), 0};
      if (slot.code != kNvmlSuccess) continue;
      const bool linked = Ask(api_.c2c_mode, slot.handle, &c2c) == kNvmlSuccess && c2c.enabled;
      const bool ats = Ask(api_.addressing_mode, slot.handle, &mode) == kNvmlSuccess &&
                       mode.value == kAddressingAts;
      if (linked || ats) facts.coherent = CoherentMode::kDriver;
    }
  }
  // Position is the CUDA index: what has no known place comes last.
  const auto place = [](const GpuDevice& gpu) {
    return std::tuple(gpu.pci.empty(), std::string_view(gpu.pci), std::string_view(gpu.uuid.value));
  };
  std::sort(facts.gpus.begin(), facts.gpus.end(),
            [&](const GpuDevice& a, const GpuDevice& b) { return place(a) < place(b); });
  return facts;
}

GpuDevice NvmlSession::Placeholder(std::size_t index, const std::set<GpuUuid>& taken) const {
  const Slot& slot = slots_[index];
  const auto last = known_.find(slot.uuid);
  if (last != known_.end() && !taken.contains(slot.uuid)) return Condemned(last->second, slot.code);
  for (const auto& [uuid, gpu] : known_)  // the library may count differently after a loss
    if (!taken.contains(uuid)) return Condemned(gpu, slot.code);
  GpuDevice gpu;
  // Made up, but never the same on two machines: one UUID on two nodes is a conflict.
  gpu.uuid = GpuUuid{"GPU-unknown-" + BootIdStart() + "-" + std::to_string(index)};
  gpu.model = "unknown NVIDIA GPU";
  return Condemned(gpu, slot.code);
}

std::optional<GpuDevice> NvmlSession::Read(Slot& slot) {
  if (slot.code != kNvmlSuccess) return std::nullopt;
  worst_ = kNvmlSuccess;
  const NvmlDevice handle = slot.handle;
  GpuDevice gpu;
  Text text;
  const NvmlCode named =
      Ask(api_.uuid, handle, text.bytes, static_cast<unsigned>(sizeof text.bytes));
  if (named != kNvmlSuccess) {  // without its identity nothing can be done with it
    slot.code = named;
    return std::nullopt;
  }
  gpu.uuid = GpuUuid{text.Get()};
  if (Ask(api_.name, handle, text.bytes, static_cast<unsigned>(sizeof text.bytes)) == kNvmlSuccess)
    gpu.model = text.Get();
  NvmlPciInfo pci{};
  if (Ask(api_.pci_info, handle, &pci) == kNvmlSuccess)
    gpu.pci = NormalPci(pci.domain, pci.bus, pci.device);
  ComputeCapability cc;
  if (Ask(api_.compute_capability, handle, &cc.major, &cc.minor) == kNvmlSuccess) gpu.cc = cc;
  NvmlMemoryV2 memory{};
  memory.version = NvmlVersion<NvmlMemoryV2>(2);
  NvmlMemory old_memory{};
  if (Ask(api_.memory_v2, handle, &memory) == kNvmlSuccess) {
    gpu.memory_bytes = memory.total;
    gpu.reserved_bytes = memory.reserved;
  } else if (Ask(api_.memory, handle, &old_memory) == kNvmlSuccess) {
    gpu.memory_bytes = old_memory.total;
  }
  unsigned a = 0;
  unsigned b = 0;
  if (Ask(api_.numa_node, handle, &a) == kNvmlSuccess && a <= 0xffff)
    gpu.numa = static_cast<int>(a);
  if (Ask(api_.ecc_mode, handle, &a, &b) == kNvmlSuccess) gpu.ecc = a != 0;
  if (Ask(api_.persistence_mode, handle, &a) == kNvmlSuccess) gpu.persistence = a != 0;
  if (Ask(api_.power_limit, handle, &a) == kNvmlSuccess)
    gpu.power_limit_w = static_cast<int>(a / 1000);
  ReadMig(slot, gpu);
  ReadHealth(handle, gpu);
  slot.uuid = gpu.uuid;
  if (worst_ == kNvmlSuccess) {
    known_[gpu.uuid] = gpu;
    return gpu;
  }
  slot.code = worst_;
  known_.emplace(gpu.uuid, gpu);  // what it could still tell is better than nothing
  return std::nullopt;
}

void NvmlSession::ReadMig(Slot& slot, GpuDevice& gpu) {
  const NvmlDevice handle = slot.handle;
  slot.slices.clear();
  unsigned current = 0;
  unsigned pending = 0;
  unsigned max = 0;
  if (Ask(api_.mig_mode, handle, &current, &pending) != kNvmlSuccess) return;
  if (current != pending)
    Worsen(gpu, Health::kWarn,
           std::string("mig_pending: MIG mode is ") + (pending ? "on" : "off") +
               " only after a reset of this GPU");
  if (current == 0) return;
  if (Ask(api_.max_mig_count, handle, &max) != kNvmlSuccess) return;
  for (unsigned index = 0; index < max; ++index) {
    NvmlDevice slice = nullptr;
    // Holes in the list are normal.
    if (Ask(api_.mig_by_index, handle, index, &slice) != kNvmlSuccess) continue;
    Text text;
    MigSlice found;
    if (Ask(api_.uuid, slice, text.bytes, static_cast<unsigned>(sizeof text.bytes)) != kNvmlSuccess)
      continue;
    found.uuid = GpuUuid{text.Get()};
    NvmlAttributes attributes{};
    const bool sized = Ask(api_.attributes, slice, &attributes) == kNvmlSuccess;
    if (sized) found.memory_bytes = attributes.memory_mib << 20;
    if (Ask(api_.name, slice, text.bytes, static_cast<unsigned>(sizeof text.bytes)) ==
        kNvmlSuccess) {
      const std::string name = text.Get();  // "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
      if (const auto at = name.rfind("MIG "); at != std::string::npos)
        found.profile = name.substr(at + 4);
    }
    if (found.profile.empty() && sized)
      found.profile = std::to_string(attributes.gpu_slices) + "g." +
                      std::to_string((attributes.memory_mib + 1023) / 1024) + "gb";
    slot.slices.emplace_back(found.uuid, slice);
    gpu.mig.push_back(std::move(found));
  }
  if (gpu.mig.empty())
    Worsen(gpu, Health::kBad,
           "mig_without_slices: MIG mode is on and no slice was made, so no program can use it; "
           "nvidia-smi mig -cgi makes slices, -mig 0 ends the mode");
}

void NvmlSession::ReadLinks(std::vector<GpuDevice>& gpus) {
  struct Nvlink {
    std::map<std::string, int> to_gpu;  // by PCI
    int to_switch = 0;
    std::optional<int> version;
  };
  std::vector<Nvlink> nvlinks(gpus.size());
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const Slot& slot = slots_[i];
    for (unsigned link = 0; slot.code == kNvmlSuccess && link < kMaxLinks; ++link) {
      unsigned active = 0;
      const NvmlCode code = Ask(api_.link_state, slot.handle, link, &active);
      if (code == kNvmlInvalidArgument || code == kNvmlFunctionNotFound) break;
      if (code != kNvmlSuccess || active == 0) continue;
      unsigned version = 0;
      unsigned type = kGpuPeer;
      if (Ask(api_.link_version, slot.handle, link, &version) == kNvmlSuccess)
        nvlinks[i].version = static_cast<int>(version);
      NvmlPciInfo pci{};
      if (Ask(api_.link_remote_type, slot.handle, link, &type) == kNvmlSuccess &&
          type == kSwitchPeer) {
        ++nvlinks[i].to_switch;
      } else if (Ask(api_.link_remote_pci, slot.handle, link, &pci) == kNvmlSuccess) {
        ++nvlinks[i].to_gpu[NormalPci(pci.domain, pci.bus, pci.device)];
      }
    }
  }
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (slots_[i].code != kNvmlSuccess) continue;
    for (std::size_t j = 0; j < gpus.size(); ++j) {
      if (i == j || slots_[j].code != kNvmlSuccess || gpus[j].pci.empty()) continue;
      GpuLink link{.peer_pci = gpus[j].pci};
      const auto direct = nvlinks[i].to_gpu.find(gpus[j].pci);
      unsigned level = 0;
      if (direct != nvlinks[i].to_gpu.end()) {
        link.kind = LinkKind::kNvlink;
        link.count = direct->second;
        link.version = nvlinks[i].version;
      } else if (nvlinks[i].to_switch > 0 && nvlinks[j].to_switch > 0) {
        link.kind = LinkKind::kNvlink;
        link.count = std::min(nvlinks[i].to_switch, nvlinks[j].to_switch);
        link.version = nvlinks[i].version;
      } else if (Ask(api_.common_ancestor, slots_[i].handle, slots_[j].handle, &level) ==
                 kNvmlSuccess) {
        link.kind = KindOf(level);
      } else {
        continue;
      }
      gpus[i].links.push_back(std::move(link));
    }
    std::sort(gpus[i].links.begin(), gpus[i].links.end(),
              [](const GpuLink& a, const GpuLink& b) { return a.peer_pci < b.peer_pci; });
  }
}

void NvmlSession::ListenTo(const Slot& slot) {
  if (slot.code != kNvmlSuccess || listened_.contains(slot.handle)) return;
  if (events_ == nullptr && Ask(api_.event_set_create, &events_) != kNvmlSuccess) {
    events_ = nullptr;
    return;
  }
  if (Ask(api_.register_events, slot.handle, kNvmlEventXid, events_) == kNvmlSuccess)
    listened_.insert(slot.handle);
}

std::map<NvmlDevice, std::vector<int>> NvmlSession::TakeXids() {
  constexpr int kMostEvents = 256;  // a storm goes on in the next sample
  std::map<NvmlDevice, std::vector<int>> xids;
  for (int i = 0; events_ != nullptr && i < kMostEvents; ++i) {
    NvmlEventData event{};
    if (Ask(api_.event_set_wait, events_, &event, 0u) != kNvmlSuccess) break;
    if ((event.type & kNvmlEventXid) != 0)
      xids[event.device].push_back(static_cast<int>(event.data));
  }
  return xids;
}

std::vector<GpuSample> NvmlSession::Sample() {
  std::vector<GpuSample> samples;
  if (slots_.empty() || !open_) (void)List();
  for (const Slot& slot : slots_) ListenTo(slot);
  const std::map<NvmlDevice, std::vector<int>> xids = TakeXids();
  for (const Slot& slot : slots_) {
    if (slot.uuid.value.empty()) continue;
    GpuSample sample{.uuid = slot.uuid};
    if (slot.code == kNvmlSuccess) {
      NvmlUtilization rates{};
      if (Ask(api_.utilization, slot.handle, &rates) == kNvmlSuccess)
        sample.utilization = rates.gpu / 100.0;
      sample.used_bytes = UsedBytes(slot.handle);
      if (const auto found = xids.find(slot.handle); found != xids.end()) {
        sample.xids = found->second;
        if (sample.xids.size() > kMostXids) sample.xids.resize(kMostXids);
      }
      unsigned long long errors = 0;
      if (Ask(api_.total_ecc_errors, slot.handle, kNvmlUncorrected, kNvmlSinceLoad, &errors) ==
          kNvmlSuccess)
        sample.ecc_uncorrected = errors;
      unsigned value = 0;
      if (Ask(api_.power_usage, slot.handle, &value) == kNvmlSuccess)
        sample.power_w = value / 1000.0;
      if (Ask(api_.temperature, slot.handle, 0u, &value) == kNvmlSuccess)
        sample.temperature_c = value;
    }
    // Of a slice the driver tells the memory alone; what concerns the chip concerns them all.
    for (const auto& [uuid, handle] : slot.slices) {
      GpuSample of_slice = sample;
      of_slice.uuid = uuid;
      of_slice.utilization.reset();
      of_slice.used_bytes = UsedBytes(handle);
      samples.push_back(std::move(of_slice));
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

std::optional<std::uint64_t> NvmlSession::UsedBytes(NvmlDevice handle) {
  NvmlMemoryV2 memory{};
  memory.version = NvmlVersion<NvmlMemoryV2>(2);
  if (Ask(api_.memory_v2, handle, &memory) == kNvmlSuccess) return memory.used;
  NvmlMemory old_memory{};
  if (Ask(api_.memory, handle, &old_memory) == kNvmlSuccess) return old_memory.used;
  return std::nullopt;
}

std::vector<std::pair<GpuUuid, std::vector<GpuProcess>>> NvmlSession::Processes() {
  std::vector<std::pair<GpuUuid, std::vector<GpuProcess>>> all;
  if (slots_.empty() || !open_) (void)List();
  for (const Slot& slot : slots_) {
    if (slot.code != kNvmlSuccess) continue;
    if (auto processes = ProcessesOf(slot.handle)) {
      all.emplace_back(slot.uuid, std::move(*processes));
    }
    for (const auto& [uuid, handle] : slot.slices) {
      if (auto processes = ProcessesOf(handle)) all.emplace_back(uuid, std::move(*processes));
    }
  }
  return all;
}

std::optional<std::vector<GpuProcess>> NvmlSession::ProcessesOf(NvmlDevice handle) {
  std::map<std::int64_t, GpuProcess> by_pid;  // one process may compute and draw
  bool says = false;  // of some kind of processes; drivers need not know all three
  for (const auto call : {api_.compute_processes, api_.graphics_processes, api_.mps_processes}) {
    auto read = ReadProcesses(handle, call);
    if (!read) continue;
    says = says || call == api_.compute_processes;
    for (GpuProcess& process : *read) by_pid.emplace(process.pid, std::move(process));
  }
  if (!says) return std::nullopt;
  std::vector<GpuProcess> processes;
  for (auto& [pid, process] : by_pid) processes.push_back(std::move(process));
  return processes;
}

std::optional<std::vector<GpuProcess>> NvmlSession::ReadProcesses(
    NvmlDevice handle, NvmlApi::Call<NvmlDevice, unsigned*, void*> call) {
  constexpr std::size_t kStride = sizeof(NvmlProcessInfo);
  constexpr std::size_t kEarly535Stride = 32;
  unsigned room = 16;
  std::vector<unsigned char> bytes;
  unsigned count = 0;
  while (true) {
    count = room;
    // Twice the bytes: some early R535 drivers write longer records than the interface says.
    bytes.assign(static_cast<std::size_t>(room) * 2 * kStride, 0);
    const NvmlCode code = Ask(call, handle, &count, static_cast<void*>(bytes.data()));
    if (code == kNvmlSuccess) break;
    if (code != kNvmlInsufficientSize || room >= kMaxProcessesOfDriver) return std::nullopt;
    room = std::max(room * 2, count + 8);
  }
  count = std::min(count, room);
  const auto read_all = [&](std::size_t stride) {
    std::vector<NvmlProcessInfo> infos(count);
    for (unsigned i = 0; i < count; ++i) std::memcpy(&infos[i], bytes.data() + i * stride, kStride);
    return infos;
  };
  const auto alive = [&](const std::vector<NvmlProcessInfo>& infos) {
    return std::count_if(infos.begin(), infos.end(), [&](const NvmlProcessInfo& info) {
      return info.pid != 0 && pid_exists_(info.pid);
    });
  };
  std::vector<NvmlProcessInfo> infos = read_all(kStride);
  if (const auto as_documented = alive(infos); as_documented < static_cast<long>(count)) {
    std::vector<NvmlProcessInfo> longer = read_all(kEarly535Stride);
    if (alive(longer) > as_documented) infos = std::move(longer);
  }
  std::vector<GpuProcess> processes;
  for (const NvmlProcessInfo& info : infos) {
    GpuProcess process{.pid = info.pid};
    if (info.used_gpu_memory != std::numeric_limits<std::uint64_t>::max())
      process.bytes = info.used_gpu_memory;
    processes.push_back(std::move(process));
  }
  return processes;
}

}  // namespace launch::agent
