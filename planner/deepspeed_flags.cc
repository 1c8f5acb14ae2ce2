#include "planner/deepspeed_flags.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>

#include "common/units.h"

namespace launch {
namespace {

enum class Flag {
  kNodes,
  kGpus,
  kInclude,
  kModule,
  kNoPython,
  kNoLocalRank,
  kReplaced,  // placement and rendezvous: ours
  kDropped,   // how the launcher connects, logs and binds
  kRefused,   // changes what is run
};

struct FlagRule {
  std::string_view name;
  Flag flag;
  bool takes_value;
};

constexpr std::array<FlagRule, 29> kRules = {{
    {"hostfile", Flag::kReplaced, true},
    {"include", Flag::kInclude, true},
    {"exclude", Flag::kReplaced, true},
    {"num_nodes", Flag::kNodes, true},
    {"min_elastic_nodes", Flag::kRefused, true},
    {"max_elastic_nodes", Flag::kRefused, true},
    {"num_gpus", Flag::kGpus, true},
    {"num_accelerators", Flag::kGpus, true},
    {"master_port", Flag::kReplaced, true},
    {"master_addr", Flag::kReplaced, true},
    {"node_rank", Flag::kReplaced, true},
    {"launcher", Flag::kDropped, true},
    {"launcher_args", Flag::kDropped, true},
    {"module", Flag::kModule, false},
    {"no_python", Flag::kNoPython, false},
    {"no_local_rank", Flag::kNoLocalRank, false},
    {"no_ssh", Flag::kDropped, false},
    {"no_ssh_check", Flag::kDropped, false},
    {"force_multi", Flag::kDropped, false},
    {"save_pid", Flag::kDropped, false},
    {"enable_each_rank_log", Flag::kDropped, true},
    {"autotuning", Flag::kRefused, true},
    {"elastic_training", Flag::kRefused, false},
    {"bind_cores_to_rank", Flag::kDropped, false},
    {"bind_core_list", Flag::kDropped, true},
    {"ssh_port", Flag::kDropped, true},
    {"venv_script", Flag::kDropped, true},
    {"log_level", Flag::kDropped, true},
    {"quiet", Flag::kDropped, false},
}};

// argparse accepts every unambiguous beginning of a long flag.
std::vector<const FlagRule*> RulesOf(std::string_view name) {
  std::vector<const FlagRule*> found;
  for (const FlagRule& rule : kRules) {
    if (rule.name == name) return {&rule};
    if (rule.name.substr(0, name.size()) == name) found.push_back(&rule);
  }
  return found;
}

const FlagRule* ShortRule(std::string_view text) {
  if (text == "-H") return RulesOf("hostfile")[0];
  if (text == "-i") return RulesOf("include")[0];
  if (text == "-e") return RulesOf("exclude")[0];
  if (text == "-q") return RulesOf("quiet")[0];
  return nullptr;
}

Unexpected NotUnderstood(const std::string& flag) {
  return Fail(ErrorCode::kUnimplemented,
              "run: this version cannot start a deepspeed line with the flag " + flag,
              "leave the flag out, or write the command of one rank and `launcher: process`");
}

Unexpected BadValue(const std::string& flag, const std::string& value, const std::string& wanted) {
  return Fail(ErrorCode::kInvalidArgument, "run: " + flag + " is \"" + value + "\", not " + wanted,
              "deepspeed would refuse it too");
}

std::optional<int> Count(const std::string& text, std::int64_t most) {
  const auto number = ParseInt(text);
  if (!number || *number < 1 || *number > most) return std::nullopt;
  return static_cast<int>(*number);
}

// "worker-0@worker-1:0,2": hosts, and slots of each where they are named. Their names are the
// cluster's business; how many there are is the job's.
void TakeInclude(const std::string& text, LauncherArguments& out) {
  std::set<std::string> hosts;
  std::set<std::size_t> slots;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t at = std::min(rest.find('@'), rest.size());
    const std::string_view host = rest.substr(0, at);
    rest.remove_prefix(std::min(at + 1, rest.size()));
    const std::size_t colon = host.find(':');
    hosts.insert(std::string(host.substr(0, colon)));
    slots.insert(
        colon == std::string_view::npos
            ? 0
            : 1 + static_cast<std::size_t>(std::count(
                      host.begin() + static_cast<std::ptrdiff_t>(colon), host.end(), ',')));
  }
  if (hosts.size() > 1 && !out.nodes_min) {
    out.nodes_min = out.nodes_max = static_cast<int>(hosts.size());
  }
  if (slots.size() == 1 && *slots.begin() > 0 && out.procs == ProcsWord::kNone) {
    out.procs = ProcsWord::kNumber;
    out.procs_number = static_cast<int>(*slots.begin());
  }
  out.replaced.emplace_back("include");
}

Result<void> Take(const FlagRule& rule, const ShellWord& word, const KnownVariables& known,
                  LauncherArguments& out) {
  const std::optional<std::string> value = FixedValue(word, known);
  switch (rule.flag) {
    case Flag::kNodes:
      out.nodes_text = word.value;
      if (!value || *value == "-1") return {};
      out.nodes_min = out.nodes_max = Count(*value, 100'000);
      if (!out.nodes_min) return BadValue("--num_nodes", *value, "a number of nodes");
      return {};
    case Flag::kGpus:
      if (!value) {
        out.procs = ProcsWord::kUnknown;
        return {};
      }
      if (*value == "-1") return {};
      if (const auto number = Count(*value, 4096)) {
        out.procs = ProcsWord::kNumber;
        out.procs_number = *number;
        return {};
      }
      return BadValue("--num_gpus", *value, "a number of GPUs");
    case Flag::kInclude:
      if (value) {
        TakeInclude(*value, out);
      } else {
        out.replaced.emplace_back(rule.name);
      }
      return {};
    case Flag::kModule:
      out.module = true;
      return {};
    case Flag::kNoPython:
      out.no_python = true;
      return {};
    case Flag::kNoLocalRank:
      out.local_rank_flag.clear();
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

}  // namespace

Result<LauncherArguments> ReadDeepspeed(const std::vector<ShellWord>& words, std::size_t first,
                                        const KnownVariables& known) {
  LauncherArguments out;
  out.local_rank_flag = "--local_rank";
  for (std::size_t i = first; i < words.size(); ++i) {
    const std::string& text = words[i].value;
    if (text.size() < 2 || text[0] != '-') {
      if (!words[i].fixed && words[i].raw == text && text[0] == '$' &&
          !FixedValue(words[i], known)) {
        return Fail(
            ErrorCode::kUnimplemented,
            "run: " + text + " stands among the flags of deepspeed and may hold flags itself",
            "write the flags out, or put the script's path there");
      }
      out.script = i;
      break;
    }
    const std::size_t equals = text.find('=');
    const FlagRule* rule = nullptr;
    if (text[1] != '-') {
      rule = ShortRule(text);
    } else if (text.size() > 2) {
      const auto rules = RulesOf(std::string_view(text).substr(2, equals - 2));
      if (rules.size() == 1) rule = rules[0];
    }
    if (rule == nullptr) return NotUnderstood(text.substr(0, equals));
    ShellWord value;
    if (rule->takes_value) {
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
    LAUNCH_RETURN_IF_ERROR(Take(*rule, value, known, out));
  }
  if (out.script == 0) {
    return Fail(ErrorCode::kInvalidArgument, "run: the deepspeed line names no script",
                "write deepspeed [FLAGS] train.py [ARGUMENTS]");
  }
  return out;
}

}  // namespace launch
