#include "agent/probes/activated_environment.h"

#include <map>
#include <string>
#include <utility>

#include "agent/probes/child_process.h"
#include "common/activation.h"

namespace launch::agent {
namespace {

constexpr Millis kActivationDeadline{30'000};
constexpr std::string_view kMark = "@launch-environment\n";

// Every shell sets these for itself.
bool IsOfTheShell(std::string_view name) {
  return name == "_" || name == "SHLVL" || name == "PWD" || name == "OLDPWD";
}

}  // namespace

std::optional<std::vector<EnvVar>> ReadEnvironment(std::string_view output) {
  const std::size_t mark = output.rfind(kMark);
  if (mark == std::string_view::npos) return std::nullopt;
  std::map<std::string, std::string> found;
  std::string_view rest = output.substr(mark + kMark.size());
  while (!rest.empty()) {
    const std::size_t end = rest.find('\0');
    if (end == std::string_view::npos) break;  // cut off, or written behind it
    const std::string_view entry = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos || IsOfTheShell(entry.substr(0, equals))) continue;
    found.emplace(entry.substr(0, equals), entry.substr(equals + 1));
  }
  std::vector<EnvVar> env;
  for (auto& [name, value] : found) env.push_back({name, std::move(value)});
  return env;
}

Result<std::vector<EnvVar>> EnvironmentOf(const RankSpec& rank,
                                          const std::optional<LocalAccount>& account,
                                          const MakeProbeScope& scope) {
  if (!IsActivated(rank)) return rank.env;
  std::map<std::string, std::string> env;
  for (const EnvVar& variable : rank.env) env[variable.name] = variable.value;
  if (account) {
    env.try_emplace("HOME", account->home);
    env.try_emplace("USER", account->name);
  }
  constexpr std::size_t kOfActivation = 5;  // /bin/bash --norc -c TEXT NAME
  std::vector<std::string> argv(rank.argv.begin(),
                                rank.argv.begin() + static_cast<std::ptrdiff_t>(kOfActivation));
  argv.push_back("printf '\\n%s\\n' '" + std::string(kMark.substr(0, kMark.size() - 1)) +
                 "'; exec /usr/bin/env -0");
  LAUNCH_ASSIGN_OR_RETURN(const Captured ran,
                          RunProgram(argv, env, kActivationDeadline, nullptr, account, scope));
  if (!ran.status) {
    return Fail(ErrorCode::kDeadlineExceeded, "the activation of the environment did not end");
  }
  auto left = ReadEnvironment(ran.output);
  if (*ran.status != 0 || !left) {
    return Fail(ErrorCode::kFailedPrecondition, "the activation of the environment failed");
  }
  return std::move(*left);
}

}  // namespace launch::agent
