#include "agent/probes/runtime_prober.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace launch::agent {
namespace {

constexpr std::size_t kMaxEnvironments = 16;
// What interpreter, dynamic linker, torch and CUDA read: by the beginnings of names, and whole
// ones.
constexpr std::array<std::string_view, 8> kFamilies = {"CONDA_",  "CUDA_",  "CUDNN_",   "LD_",
                                                       "NVIDIA_", "PYTHON", "PYTORCH_", "TORCH_"};
constexpr std::array<std::string_view, 4> kDeciding = {"GLIBC_TUNABLES", "HOME", "PATH",
                                                       "VIRTUAL_ENV"};
// Of one rank or attempt: each value would be a question of its own.
constexpr std::array<std::string_view, 3> kOfAttempt = {
    "CUDA_VISIBLE_DEVICES", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"};

bool Decides(const std::string& name) {
  if (std::ranges::find(kOfAttempt, name) != kOfAttempt.end()) return false;
  return std::ranges::find(kDeciding, name) != kDeciding.end() ||
         std::ranges::any_of(kFamilies,
                             [&](std::string_view family) { return name.starts_with(family); });
}

}  // namespace

void RuntimeProber::SetDriver(std::string version) {
  const std::lock_guard lock(mutex_);
  driver_ = std::move(version);
}

RuntimeFacts RuntimeProber::Ask(const std::string& interpreter, const std::vector<EnvVar>& env,
                                const std::string& account) {
  Environment deciding = base_env_;
  for (const EnvVar& variable : env)
    if (Decides(variable.name)) deciding[variable.name] = variable.value;
  PythonQuestion question{.path = interpreter, .user = account, .driver = {}};
  std::shared_ptr<OfAccount> known;
  {
    const std::lock_guard lock(mutex_);
    question.driver = driver_;
    std::shared_ptr<OfAccount>& kept = accounts_[account];
    if (!kept) kept = std::make_shared<OfAccount>();
    known = kept;
  }
  const std::lock_guard asking(known->asking);
  auto& probes = known->probes;
  if (probes.size() >= kMaxEnvironments && !probes.contains(deciding)) probes.clear();
  const auto [probe, fresh] =
      probes.try_emplace(deciding, PythonProbe::Options{.env = deciding}, clock_);
  return probe->second.Ask(question);
}

}  // namespace launch::agent
