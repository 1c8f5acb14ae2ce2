#include "planner/line/torchrun_flags.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/units.h"

namespace launch {
namespace {

enum TorchrunFlag : int {
  kNodes,
  kProcs,
  kModule,
  kNoPython,
  kUseEnv,
  kRole,
  kMaxRestarts,
  kReplaced,  // placement and rendezvous: ours
  kDropped,   // how the launcher logs, watches and signals: has no meaning without it
  kRefused,   // changes what a rank sees in a way this version does not do
};

constexpr std::array<FlagRule, 31> kTorchrunRules = {{
    {"nnodes", kNodes, true},
    {"nproc_per_node", kProcs, true},
    {"rdzv_backend", kReplaced, true},
    {"rdzv_endpoint", kReplaced, true},
    {"rdzv_id", kReplaced, true},
    {"rdzv_conf", kReplaced, true},
    {"standalone", kReplaced, false},
    {"max_restarts", kMaxRestarts, true},
    {"monitor_interval", kDropped, true},
    {"start_method", kDropped, true},
    {"event_log_handler", kDropped, true},
    {"role", kRole, true},
    {"module", kModule, false},
    {"no_python", kNoPython, false},
    {"run_path", kRefused, false},
    {"log_dir", kDropped, true},
    {"redirects", kDropped, true},
    {"tee", kDropped, true},
    {"local_ranks_filter", kDropped, true},
    {"duplicate_stdout_filters", kDropped, true},
    {"duplicate_stderr_filters", kDropped, true},
    {"node_rank", kReplaced, true},
    {"master_addr", kReplaced, true},
    {"master_port", kReplaced, true},
    {"local_addr", kReplaced, true},
    {"logs_specs", kDropped, true},
    {"numa_binding", kDropped, true},
    {"signals_to_handle", kDropped, true},
    {"shutdown_timeout", kDropped, true},
    {"virtual_local_rank", kRefused, false},
    // Of torch.distributed.launch; to torchrun it says what holds anyway.
    {"use_env", kUseEnv, false},
}};
constexpr std::array<ShortFlag, 3> kTorchrunShorts = {
    {{'m', "module"}, {'r', "redirects"}, {'t', "tee"}}};

Unexpected BadTorchrunValue(const std::string& flag, const std::string& value,
                            const std::string& wanted) {
  return BadFlagValue("torchrun", flag, value, wanted);
}

Result<void> TakeNodes(LauncherArguments& out, const ShellWord& value,
                       const KnownVariables& known) {
  out.nodes_text = value.value;
  const std::optional<std::string> text = FixedValue(value, known);
  if (!text) return {};
  const std::size_t colon = text->find(':');
  const auto low = ParseInt(std::string_view(*text).substr(0, colon));
  const auto high =
      colon == std::string::npos ? low : ParseInt(std::string_view(*text).substr(colon + 1));
  if (!low || !high || *low < 1 || *high < *low || *high > 100000) {
    return BadTorchrunValue("--nnodes", *text, "a number of nodes or MIN:MAX");
  }
  out.nodes_min = static_cast<int>(*low);
  out.nodes_max = static_cast<int>(*high);
  return {};
}

Result<void> TakeProcs(LauncherArguments& out, const ShellWord& value,
                       const KnownVariables& known) {
  const std::optional<std::string> text = FixedValue(value, known);
  if (!text) {
    out.procs = ProcsWord::kUnknown;
  } else if (*text == "gpu" || *text == "xpu") {
    out.procs = ProcsWord::kGpu;
  } else if (*text == "auto") {
    out.procs = ProcsWord::kAuto;
  } else if (*text == "cpu") {
    out.procs = ProcsWord::kCpu;
  } else {
    const auto number = ParseInt(*text);
    if (!number || *number < 1 || *number > 4096) {
      return BadGpuCount("torchrun", "--nproc-per-node", *text, "a number from 1, gpu, cpu or auto",
                         "--nproc-per-node=gpu in the line");
    }
    out.procs = ProcsWord::kNumber;
    out.procs_number = static_cast<int>(*number);
  }
  return {};
}

Result<void> Take(LauncherArguments& out, const FlagRule& rule, const ShellWord& value,
                  const KnownVariables& known) {
  switch (static_cast<TorchrunFlag>(rule.kind)) {
    case kNodes:
      return TakeNodes(out, value, known);
    case kProcs:
      return TakeProcs(out, value, known);
    case kModule:
      out.module = true;
      return {};
    case kNoPython:
      out.no_python = true;
      return {};
    case kUseEnv:
      out.local_rank_flag.clear();
      return {};
    case kRole:
      out.role = FixedValue(value, known).value_or("default");
      return {};
    case kMaxRestarts:
      out.max_restarts = value.value;
      return {};
    case kReplaced:
      out.replaced.emplace_back(rule.name);
      return {};
    case kDropped:
      out.dropped.emplace_back(rule.name);
      return {};
    case kRefused:
      return FlagNotUnderstood("torchrun", "--" + std::string(rule.name));
  }
  return {};
}

}  // namespace

Result<LauncherArguments> ReadTorchrun(const std::vector<ShellWord>& words, std::size_t first,
                                       bool launch_module, const KnownVariables& known) {
  LauncherArguments out;
  // torch.distributed.launch passes it unless --use_env.
  if (launch_module) out.local_rank_flag = "--local-rank";
  const FlagSyntax syntax{"torchrun", kTorchrunRules, kTorchrunShorts, /*dashes=*/true,
                          /*end_mark=*/true};
  LAUNCH_ASSIGN_OR_RETURN(out.script, WalkFlags(words, first, syntax, known,
                                                [&](const FlagRule& rule, const ShellWord& value) {
                                                  return Take(out, rule, value, known);
                                                }));
  return out;
}

}  // namespace launch
