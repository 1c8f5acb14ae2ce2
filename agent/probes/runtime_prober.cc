#include "agent/probes/runtime_prober.h"

#include <array>
#include <string_view>

namespace launch::agent {
namespace {

constexpr std::size_t kMaxEnvironments = 16;
constexpr std::array<std::string_view, 11> kDeciding = {
    "CONDA_PREFIX", "CUDA_HOME",  "HOME",           "LD_LIBRARY_PATH",  "LD_PRELOAD", "PATH",
    "PYTHONHOME",   "PYTHONPATH", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "VIRTUAL_ENV"};

}  // namespace

void RuntimeProber::SetDriver(std::string version) {
  const std::lock_guard lock(mutex_);
  driver_ = std::move(version);
}

RuntimeFacts RuntimeProber::Ask(const std::string& interpreter, const std::vector<EnvVar>& env,
                                const std::string& account) {
  Environment deciding = base_env_;
  for (const EnvVar& variable : env)
    for (const std::string_view name : kDeciding)
      if (variable.name == name) deciding[variable.name] = variable.value;
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
