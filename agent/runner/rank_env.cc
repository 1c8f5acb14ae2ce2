#include "agent/runner/rank_env.h"

#include <map>

#include "agent/runner/flight_files.h"
#include "agent/runner/rank_stacks.h"

namespace launch::agent {

std::vector<std::string> BuildRankEnv(
    const std::vector<EnvVar>& plan, const std::vector<EnvVar>& late,
    const std::vector<std::pair<std::string, std::string>>& secrets, const NodePaths& paths) {
  std::map<std::string, std::string> merged;
  for (const EnvVar& var : plan) merged[var.name] = var.value;
  for (const EnvVar& var : late) merged[var.name] = var.value;
  if (paths.account) {
    merged.try_emplace("HOME", paths.account->home);
    merged.try_emplace("USER", paths.account->name);
    merged.try_emplace("LOGNAME", paths.account->name);
    merged.try_emplace("SHELL", paths.account->shell);
  }
  const std::map<std::string, std::string> ours = {
      {"LAUNCH_PROGRESS_FILE", paths.own + "/progress.jsonl"},
      {"TORCHELASTIC_ERROR_FILE", paths.own + "/error.json"},
      {"LAUNCH_STACKS", paths.own + "/stacks"},
      {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE", paths.own + "/" + kFlightFile},
      {"LAUNCH_HOSTFILE", paths.attempt + "/files/hostfile"},
      {"LAUNCH_PLAN_FILE", paths.attempt + "/files/plan.json"},
      {"LAUNCH_WRAPPERS", paths.attempt + "/files"},
      {"LAUNCH_DS_CONFIG", paths.attempt + "/files/ds_config.json"},
      {"ACCELERATE_DEEPSPEED_CONFIG_FILE", paths.attempt + "/files/ds_config.json"},
      {"LAUNCH_ACCELERATE_CONFIG", paths.attempt + "/files/accelerate.yaml"},
  };
  for (const auto& [name, path] : ours) {
    const auto found = merged.find(name);
    if (found != merged.end() && found->second.empty()) found->second = path;
  }
  // In front of the user's own directories: it runs the module that it hides.
  if (merged.contains("LAUNCH_STACKS")) {
    std::string& path = merged["PYTHONPATH"];
    const std::string hook = paths.attempt + "/" + std::string(kRankHookDirectory);
    path = hook + (path.empty() ? "" : ":" + path);
  }
  for (const auto& [name, value] : secrets) merged[name] = value;
  std::vector<std::string> env;
  env.reserve(merged.size());
  for (const auto& [name, value] : merged) env.push_back(name + "=" + value);
  return env;
}

std::string ValueOf(const std::vector<std::string>& env, const std::string& name) {
  const std::string prefix = name + "=";
  for (const std::string& entry : env) {
    if (entry.starts_with(prefix)) return entry.substr(prefix.size());
  }
  return {};
}

std::string ValueOf(const std::vector<EnvVar>& env, const std::string& name) {
  for (const EnvVar& var : env) {
    if (var.name == name) return var.value;
  }
  return {};
}

}  // namespace launch::agent
