#include "common/inventory.h"

#include <algorithm>

#include "common/enum_text.h"
#include "common/units.h"

namespace launch {
namespace {

constexpr EnumText<Arch, 2> kArch{{{Arch::kX86_64, "x86_64"}, {Arch::kAarch64, "aarch64"}}};
constexpr EnumText<DeviceClass, 3> kDeviceClass{
    {{DeviceClass::kCuda, "cuda"}, {DeviceClass::kMps, "mps"}, {DeviceClass::kCpu, "cpu"}}};
constexpr EnumText<Health, 3> kHealth{
    {{Health::kOk, "ok"}, {Health::kWarn, "warn"}, {Health::kBad, "bad"}}};
constexpr EnumText<LinkKind, 7> kLink{{{LinkKind::kNvlink, "nvlink"},
                                       {LinkKind::kC2c, "c2c"},
                                       {LinkKind::kPix, "pix"},
                                       {LinkKind::kPxb, "pxb"},
                                       {LinkKind::kPhb, "phb"},
                                       {LinkKind::kNode, "node"},
                                       {LinkKind::kSys, "sys"}}};
constexpr EnumText<Containment, 3> kContainment{{{Containment::kCgroup, "cgroup"},
                                                 {Containment::kCgroup1, "cgroup1"},
                                                 {Containment::kTree, "tree"}}};
constexpr EnumText<CoherentMode, 3> kCoherent{{{CoherentMode::kNone, "none"},
                                               {CoherentMode::kNuma, "numa"},
                                               {CoherentMode::kDriver, "driver"}}};

constexpr EnumText<FabricState, 4> kFabric{{{FabricState::kNotStarted, "not_started"},
                                            {FabricState::kInProgress, "in_progress"},
                                            {FabricState::kCompleted, "completed"},
                                            {FabricState::kFailed, "failed"}}};

// A torch that cannot see the GPUs of its node is what the user must know first.
std::string TorchProblem(const NodeInventory& inventory) {
  for (const RuntimeFacts& facts : inventory.interpreters) {
    if (!facts.torch) continue;
    if (!facts.torch->cuda && !facts.torch->hip) {
      return "torch " + facts.torch->version + " of " + facts.path + " has no CUDA";
    }
    if (facts.sees_gpu == false) {
      return "torch " + facts.torch->version + " of " + facts.path + " sees no GPU";
    }
  }
  return {};
}

}  // namespace

std::uint64_t UsableBytes(const GpuDevice& gpu) {
  return gpu.memory_bytes - std::min(gpu.memory_bytes, gpu.reserved_bytes.value_or(0));
}

LAUNCH_ENUM_TEXT(DeviceClass, ParseDeviceClass, kDeviceClass)
LAUNCH_ENUM_TEXT(Health, ParseHealth, kHealth)
LAUNCH_ENUM_TEXT(LinkKind, ParseLinkKind, kLink)
LAUNCH_ENUM_TEXT(Containment, ParseContainment, kContainment)
LAUNCH_ENUM_TEXT(CoherentMode, ParseCoherentMode, kCoherent)
LAUNCH_ENUM_TEXT(FabricState, ParseFabricState, kFabric)

std::string_view ToString(Arch v) { return kArch.Print(v); }
std::optional<Arch> ParseArch(std::string_view text) {
  if (text == "arm64") return Arch::kAarch64;
  if (text == "amd64") return Arch::kX86_64;
  return kArch.Parse(text);
}

std::string ToString(ComputeCapability v) {
  return std::to_string(v.major) + "." + std::to_string(v.minor);
}
std::string ToString(CudaVersion v) {
  return std::to_string(v.major) + "." + std::to_string(v.minor);
}

std::optional<CudaVersion> ParseVersionPair(std::string_view text) {
  const auto dot = text.find('.');
  const auto major = ParseInt(text.substr(0, dot));
  if (!major || *major < 0 || *major > 100000) return std::nullopt;
  if (dot == std::string_view::npos) return CudaVersion{static_cast<int>(*major), 0};
  const auto rest = text.substr(dot + 1);
  const auto minor = ParseInt(rest.substr(0, rest.find('.')));
  if (!minor || *minor < 0 || *minor > 100000) return std::nullopt;
  return CudaVersion{static_cast<int>(*major), static_cast<int>(*minor)};
}

NodeHealth HealthOf(const NodeInventory& inventory) {
  NodeHealth worst;
  const auto note = [&](Health health, std::string reason) {
    if (health > worst.health) worst = {health, std::move(reason)};
  };
  bool any_gpu = false;
  for (const GpuDevice& gpu : inventory.gpus) {
    if (gpu.device_class != DeviceClass::kCuda) continue;
    any_gpu = true;
    note(gpu.health, gpu.why.empty() ? "GPU " + gpu.uuid.value : gpu.why);
  }
  if (!inventory.driver_problem.empty()) note(Health::kWarn, inventory.driver_problem);
  if (any_gpu) {
    if (std::string problem = TorchProblem(inventory); !problem.empty()) {
      note(Health::kWarn, std::move(problem));
    }
  }
  return worst;
}

}  // namespace launch
