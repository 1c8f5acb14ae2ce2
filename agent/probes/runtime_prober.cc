#include "agent/probes/runtime_prober.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <string_view>

namespace launch::agent {
namespace {

constexpr std::size_t kMostAnswers = 256;
constexpr std::ptrdiff_t kMostAnswersOfAccount = 32;
constexpr Millis kImport{45'000};  // behind an answer at all, and less than a start waits
constexpr Millis kLookAgain{50};   // whether the question was given up
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

// Its mutex is held. What is left out is the account's own before it is another's.
std::shared_ptr<RuntimeProber::Turn> RuntimeProber::TurnOf(const Asked& asked) {
  const auto found = std::ranges::find(known_, asked, &Known::asked);
  if (found != known_.end()) {
    known_.splice(known_.begin(), known_, found);
    return known_.front().turn;
  }
  const auto of_account = [&](const Known& known) { return known.asked.account == asked.account; };
  const bool many = std::ranges::count_if(known_, of_account) >= kMostAnswersOfAccount;
  if (many) {
    known_.erase(std::prev(std::find_if(known_.rbegin(), known_.rend(), of_account).base()));
  } else if (known_.size() >= kMostAnswers) {
    known_.pop_back();
  }
  const PythonProbe::Options options{
      .env = asked.environment, .deadline = kImport, .scope = scope_, .most_known = 1};
  known_.push_front({asked, std::make_shared<Turn>(options, clock_)});
  return known_.front().turn;
}

RuntimeFacts RuntimeProber::InTurn(Question ask, const std::string& interpreter,
                                   const std::vector<EnvVar>& env, const std::string& account,
                                   const std::atomic<bool>& cancel) {
  Asked asked{account, interpreter, base_env_};
  for (const EnvVar& variable : env)
    if (Decides(variable.name)) asked.environment[variable.name] = variable.value;
  PythonQuestion question{.path = interpreter, .user = account, .driver = {}};
  std::shared_ptr<Turn> turn;
  {
    const std::lock_guard lock(mutex_);
    question.driver = driver_;
    turn = TurnOf(asked);
  }
  std::unique_lock asking(turn->asking, std::defer_lock);
  while (!asking.try_lock_for(kLookAgain)) {
    if (cancel) return {.path = interpreter, .user = account};
  }
  return (turn->probe.*ask)(question, &cancel);
}

RuntimeFacts RuntimeProber::Ask(const std::string& interpreter, const std::vector<EnvVar>& env,
                                const std::string& account, const std::atomic<bool>& cancel) {
  return InTurn(&PythonProbe::Ask, interpreter, env, account, cancel);
}

RuntimeFacts RuntimeProber::Read(const std::string& interpreter, const std::vector<EnvVar>& env,
                                 const std::string& account, const std::atomic<bool>& cancel) {
  return InTurn(&PythonProbe::Read, interpreter, env, account, cancel);
}

}  // namespace launch::agent
