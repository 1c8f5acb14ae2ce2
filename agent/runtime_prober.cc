#include "agent/runtime_prober.h"

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
  const std::lock_guard lock(driver_mutex_);
  driver_ = std::move(version);
}

RuntimeFacts RuntimeProber::Ask(const std::string& interpreter, const std::vector<EnvVar>& env,
                                const std::string& account) {
  std::map<std::string, std::string> deciding = base_env_;
  for (const EnvVar& variable : env)
    for (const std::string_view name : kDeciding)
      if (variable.name == name) deciding[variable.name] = variable.value;
  PythonQuestion question{.path = interpreter, .user = account, .driver = {}};
  {
    const std::lock_guard lock(driver_mutex_);
    question.driver = driver_;
  }
  const std::lock_guard lock(mutex_);
  if (probes_.size() >= kMaxEnvironments && !probes_.contains(deciding)) probes_.clear();
  const auto [probe, fresh] =
      probes_.try_emplace(deciding, PythonProbe::Options{.env = deciding}, clock_);
  return probe->second.Ask(question);
}

}  // namespace launch::agent
