#include "agent/probes/runtime_prober.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace launch::agent {
namespace {

constexpr std::size_t kMaxEnvironments = 16;
// What decides which interpreter, libraries and packages are loaded. Others of the same families
// (PYTHONHASHSEED, TORCH_HOME, CUDA_CACHE_PATH) differ from task to task, and each value of one
// that is named here is a question of its own, which imports torch.
constexpr std::array<std::string_view, 18> kDeciding = {"CONDA_PREFIX",
                                                        "CUDA_HOME",
                                                        "CUDA_MODULE_LOADING",
                                                        "CUDA_PATH",
                                                        "GLIBC_TUNABLES",
                                                        "HOME",
                                                        "LD_AUDIT",
                                                        "LD_LIBRARY_PATH",
                                                        "LD_PRELOAD",
                                                        "NVIDIA_VISIBLE_DEVICES",
                                                        "PATH",
                                                        "PYTHONHOME",
                                                        "PYTHONNOUSERSITE",
                                                        "PYTHONPATH",
                                                        "PYTHONPLATLIBDIR",
                                                        "PYTHONSAFEPATH",
                                                        "PYTHONUSERBASE",
                                                        "VIRTUAL_ENV"};

bool Decides(const std::string& name) {
  return std::ranges::find(kDeciding, name) != kDeciding.end();
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
