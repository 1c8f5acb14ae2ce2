#include "planner/start/environment.h"

#include <algorithm>
#include <utility>

#include "planner/line/launch_line.h"
#include "planner/start/expansion.h"

namespace launch {
namespace {

using Variables = std::map<std::string, std::string>;

constexpr std::string_view kDefaultPath =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const EnvRule* RuleOf(std::string_view name) {
  for (const EnvRule& rule : EnvironmentTable()) {
    if (rule.name == name) return &rule;
  }
  return nullptr;
}

Unexpected Refused(const std::string& name, std::string why, std::string hint) {
  return Fail(ErrorCode::kInvalidArgument, "env." + name + " " + std::move(why), std::move(hint));
}

Result<void> CheckName(const EnvEntry& entry) {
  if (entry.name == "CUDA_VISIBLE_DEVICES") {
    return Refused(entry.name, "would fight the devices the job gets (visible_devices_set)",
                   "for particular devices write gpu_ids: [" + entry.value.value_or("0") +
                       "]; for none, device: cpu");
  }
  const EnvRule* rule = RuleOf(entry.name);
  if ((rule != nullptr && !rule->overridable) || IsContractVariable(entry.name)) {
    return Refused(entry.name, "is set by launch for each rank; another value would hang the job",
                   "leave it out; `launch plan` shows the value each rank gets");
  }
  return {};
}

// Offline inventories may say nothing about the node's shell.
Variables BaseOf(const NodeInventory& node, const SubmitContext& context) {
  Variables base = node.base_env;
  if (base.empty()) {
    const std::string user = context.user.empty() ? "user" : context.user;
    base["HOME"] = "/home/" + user;
    base["USER"] = user;
  }
  // A node that runs the jobs of many: whose home it is, it says at the start.
  if (base.try_emplace("HOME", "~").second) base.try_emplace("USER", context.user);
  base.try_emplace("PATH", kDefaultPath);
  return base;
}

std::string DirectoryOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos || slash == 0 ? "/" : path.substr(0, slash);
}

// A parameter is a variable of the ranks: neither one of ours nor one that env: sets again.
Result<void> CheckSweep(const JobSpec& spec) {
  for (const auto& [name, value] : spec.element->values) {
    LAUNCH_RETURN_IF_ERROR(CheckName({name, value}));
    const bool twice = std::any_of(spec.env.begin(), spec.env.end(),
                                   [&](const EnvEntry& entry) { return entry.name == name; });
    if (twice) return Refused(name, "is a parameter of sweep too", "keep it in one of the two");
  }
  return {};
}

}  // namespace

std::string VenvOf(const JobSpec& spec, const SubmitContext& context) {
  if (!spec.venv.empty()) return spec.venv;
  const bool other = !spec.python.empty() || !spec.conda.empty() || !spec.image.empty();
  return other ? std::string() : context.active_venv;
}

std::string CondaOf(const JobSpec& spec, const SubmitContext& context) {
  if (!spec.conda.empty()) return spec.conda;
  const bool other = !spec.python.empty() || !spec.image.empty() || !VenvOf(spec, context).empty();
  return other ? std::string() : context.active_conda;
}

std::string InterpreterOf(const JobSpec& spec, const SubmitContext& context) {
  if (!spec.python.empty()) return spec.python;
  std::string prefix = VenvOf(spec, context);
  if (prefix.empty()) prefix = CondaOf(spec, context);
  return prefix.empty() ? std::string() : prefix + "/bin/python";
}

Result<void> CheckEnv(const JobSpec& spec, const SubmitContext& context) {
  if (spec.element) {
    LAUNCH_RETURN_IF_ERROR(CheckSweep(spec));
  }
  for (const EnvEntry& entry : spec.env) {
    LAUNCH_RETURN_IF_ERROR(CheckName(entry));
    const bool secret =
        std::find(spec.secrets.begin(), spec.secrets.end(), entry.name) != spec.secrets.end();
    if (!entry.value && !secret && context.caller_env.count(entry.name) == 0) {
      return Refused(entry.name, "has no value, and the submitter's environment has none either",
                     "export " + entry.name + " before you submit, or write a value");
    }
  }
  return {};
}

Result<Variables> JobEnvironment(const JobSpec& spec, const SubmitContext& context,
                                 const NodeInventory& node) {
  LAUNCH_RETURN_IF_ERROR(CheckEnv(spec, context));
  Variables values = BaseOf(node, context);
  const std::string venv = VenvOf(spec, context);
  if (!venv.empty()) {
    values["VIRTUAL_ENV"] = venv;
    values["PATH"] = venv + "/bin:" + values["PATH"];
  } else if (const std::string conda = CondaOf(spec, context); !conda.empty()) {
    values["CONDA_PREFIX"] = conda;
    values["CONDA_DEFAULT_ENV"] = conda.substr(conda.rfind('/') + 1);
    values["PATH"] = conda + "/bin:" + values["PATH"];
  } else if (!spec.python.empty()) {
    values["PATH"] = DirectoryOf(spec.python) + ":" + values["PATH"];
  }
  // Of the clean base, this one may be unset on a node and is still a name people build upon.
  // Values of a sweep are passed as they were written.
  if (spec.element) {
    for (const auto& [name, value] : spec.element->values) values[name] = value;
    values["LAUNCH_ARRAY_INDEX"] = std::to_string(spec.element->index);
  }
  const bool no_library_path = values.try_emplace("LD_LIBRARY_PATH").second;
  for (const EnvEntry& entry : spec.env) {
    if (std::find(spec.secrets.begin(), spec.secrets.end(), entry.name) != spec.secrets.end()) {
      continue;  // travels beside the plan, never in it
    }
    if (!entry.value) {
      values[entry.name] =
          context.caller_env.at(entry.name);  // literal: the caller's shell is done
      continue;
    }
    LAUNCH_ASSIGN_OR_RETURN(values[entry.name],
                            ExpandVariables(*entry.value, "env." + entry.name, values));
  }
  if (no_library_path && values["LD_LIBRARY_PATH"].empty()) values.erase("LD_LIBRARY_PATH");
  return values;
}

RankEnvironment EnvironmentOfRank(const Variables& job, const EnvFacts& facts) {
  RankEnvironment environment;
  environment.values = job;
  // The two names of the allocator setting are one setting: a user's own is never mixed with ours.
  const bool own_allocator =
      job.count("PYTORCH_ALLOC_CONF") + job.count("PYTORCH_CUDA_ALLOC_CONF") > 0;
  for (const EnvRule& rule : EnvironmentTable()) {
    const std::string name(rule.name);
    const bool joined = name == "PYTHONPATH" && job.count(name) > 0;  // the node adds to it
    if (joined && rule.value(facts)) environment.late.push_back(name);
    if (rule.overridable && job.count(name) > 0) continue;
    if (own_allocator && name.find("ALLOC_CONF") != std::string::npos) continue;
    std::optional<std::string> value = rule.value(facts);
    if (!value) continue;
    environment.values[name] = std::move(*value);
    const bool late = rule.known == Known::kStart || rule.known == Known::kNode ||
                      (rule.known == Known::kAttempt && !facts.key);
    if (late) environment.late.push_back(name);
  }
  std::sort(environment.late.begin(), environment.late.end());
  return environment;
}

}  // namespace launch
