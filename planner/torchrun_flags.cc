#include "planner/torchrun_flags.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/units.h"

namespace launch {
namespace {

enum class Flag {
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

struct FlagRule {
  std::string_view name;  // with '_'; both spellings are accepted
  Flag flag;
  bool takes_value;
};

constexpr std::array<FlagRule, 30> kRules = {{
    {"nnodes", Flag::kNodes, true},
    {"nproc_per_node", Flag::kProcs, true},
    {"rdzv_backend", Flag::kReplaced, true},
    {"rdzv_endpoint", Flag::kReplaced, true},
    {"rdzv_id", Flag::kReplaced, true},
    {"rdzv_conf", Flag::kReplaced, true},
    {"standalone", Flag::kReplaced, false},
    {"max_restarts", Flag::kMaxRestarts, true},
    {"monitor_interval", Flag::kDropped, true},
    {"start_method", Flag::kDropped, true},
    {"event_log_handler", Flag::kDropped, true},
    {"role", Flag::kRole, true},
    {"module", Flag::kModule, false},
    {"no_python", Flag::kNoPython, false},
    {"run_path", Flag::kRefused, false},
    {"log_dir", Flag::kDropped, true},
    {"redirects", Flag::kDropped, true},
    {"tee", Flag::kDropped, true},
    {"local_ranks_filter", Flag::kDropped, true},
    {"duplicate_stdout_filters", Flag::kDropped, true},
    {"duplicate_stderr_filters", Flag::kDropped, true},
    {"node_rank", Flag::kReplaced, true},
    {"master_addr", Flag::kReplaced, true},
    {"master_port", Flag::kReplaced, true},
    {"local_addr", Flag::kReplaced, true},
    {"logs_specs", Flag::kDropped, true},
    {"numa_binding", Flag::kDropped, true},
    {"signals_to_handle", Flag::kDropped, true},
    {"shutdown_timeout", Flag::kDropped, true},
    {"virtual_local_rank", Flag::kRefused, false},
}};
constexpr FlagRule kUseEnvRule{"use_env", Flag::kUseEnv, false};

std::string Underscored(std::string_view flag) {
  std::string name(flag);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// argparse accepts every unambiguous beginning of a flag.
std::vector<const FlagRule*> RulesOf(const std::string& name, bool launch_module) {
  std::vector<const FlagRule*> found;
  for (const FlagRule& rule : kRules) {
    if (rule.name == name) return {&rule};
    if (rule.name.substr(0, name.size()) == name) found.push_back(&rule);
  }
  if (launch_module && kUseEnvRule.name.substr(0, name.size()) == name) {
    if (kUseEnvRule.name == name) return {&kUseEnvRule};
    found.push_back(&kUseEnvRule);
  }
  return found;
}

Unexpected NotUnderstood(const std::string& flag) {
  return Fail(ErrorCode::kUnimplemented,
              "run: this version cannot start a torchrun line with the flag " + flag,
              "leave the flag out, or write the command of one rank and `launcher: process`");
}

Unexpected BadValue(const std::string& flag, const std::string& value, const std::string& wanted) {
  return Fail(ErrorCode::kInvalidArgument, "run: " + flag + " is \"" + value + "\", not " + wanted,
              "torchrun would refuse it too");
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
    return BadValue("--nnodes", *text, "a number of nodes or MIN:MAX");
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
      return BadValue("--nproc-per-node", *text, "a number from 1, gpu, cpu or auto");
    }
    out.procs = ProcsWord::kNumber;
    out.procs_number = static_cast<int>(*number);
  }
  return {};
}

Result<void> Take(LauncherArguments& out, const FlagRule& rule, const ShellWord& value,
                  const KnownVariables& known) {
  switch (rule.flag) {
    case Flag::kNodes:
      return TakeNodes(out, value, known);
    case Flag::kProcs:
      return TakeProcs(out, value, known);
    case Flag::kModule:
      out.module = true;
      return {};
    case Flag::kNoPython:
      out.no_python = true;
      return {};
    case Flag::kUseEnv:
      out.local_rank_flag.clear();
      return {};
    case Flag::kRole:
      out.role = FixedValue(value, known).value_or("default");
      return {};
    case Flag::kMaxRestarts:
      out.max_restarts = value.value;
      return {};
    case Flag::kReplaced:
      out.replaced.emplace_back(rule.name);
      return {};
    case Flag::kDropped:
      out.dropped.emplace_back(rule.name);
      return {};
    case Flag::kRefused:
      return NotUnderstood("--" + std::string(rule.name));
  }
  return {};
}

// "-m", "-r 3", "-t3": the three short flags.
Result<bool> TakeShort(LauncherArguments& out, const std::string& text, bool& wants_value) {
  if (text == "-m") {
    out.module = true;
    return true;
  }
  if (text.rfind("-r", 0) == 0 || text.rfind("-t", 0) == 0) {
    out.dropped.emplace_back(text[1] == 'r' ? "redirects" : "tee");
    wants_value = text.size() == 2;
    return true;
  }
  return false;
}

}  // namespace

std::optional<std::string> FixedValue(const ShellWord& word, const KnownVariables& known) {
  if (word.fixed) return word.value;
  std::string_view name = word.value;
  if (name.size() < 2 || name[0] != '$') return std::nullopt;
  name.remove_prefix(1);
  if (name.front() == '{' && name.back() == '}') name = name.substr(1, name.size() - 2);
  std::optional<std::string> value;
  for (const auto& [known_name, known_value] : known) {
    if (known_name == name) value = known_value;  // the last one stands
  }
  return value;
}

Result<LauncherArguments> ReadTorchrun(const std::vector<ShellWord>& words, std::size_t first,
                                       bool launch_module, const KnownVariables& known) {
  LauncherArguments out;
  // torch.distributed.launch passes it unless --use_env.
  if (launch_module) out.local_rank_flag = "--local-rank";
  for (std::size_t i = first; i < words.size(); ++i) {
    const std::string& text = words[i].value;
    if (text == "--") {
      out.script = i + 1;
      break;
    }
    if (text.size() < 2 || text[0] != '-') {
      if (!words[i].fixed && text[0] == '$' && words[i].raw == text) {
        // $ARGS unquoted may hold flags: what it becomes is known on the node only.
        if (!FixedValue(words[i], known)) {
          return Fail(
              ErrorCode::kUnimplemented,
              "run: " + text + " stands among the flags of torchrun and may hold flags itself",
              "write the flags out, or put the script's path there");
        }
      }
      out.script = i;
      break;
    }
    if (text[1] != '-') {
      bool wants_value = false;
      LAUNCH_ASSIGN_OR_RETURN(const bool known_flag, TakeShort(out, text, wants_value));
      if (!known_flag) return NotUnderstood(text);
      if (wants_value) ++i;
      continue;
    }
    const std::size_t equals = text.find('=');
    const std::string name = Underscored(std::string_view(text).substr(2, equals - 2));
    const auto rules = RulesOf(name, launch_module);
    if (rules.size() != 1) return NotUnderstood(text.substr(0, equals));
    ShellWord value;
    if (rules[0]->takes_value) {
      if (equals != std::string::npos) {
        value = words[i];
        value.value = text.substr(equals + 1);
      } else if (i + 1 < words.size()) {
        value = words[++i];
      } else {
        return Fail(ErrorCode::kInvalidArgument, "run: the flag " + text + " has no value",
                    "write " + text + "=VALUE");
      }
    }
    LAUNCH_RETURN_IF_ERROR(Take(out, *rules[0], value, known));
  }
  if (out.script == 0 || out.script >= words.size()) {
    return Fail(ErrorCode::kInvalidArgument, "run: the torchrun line names no script",
                "write torchrun [FLAGS] train.py [ARGUMENTS]");
  }
  return out;
}

}  // namespace launch
