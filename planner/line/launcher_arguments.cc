#include "planner/line/launcher_arguments.h"

#include <algorithm>
#include <array>

#include "planner/line/launcher_words.h"
#include "planner/line/pasted_text.h"

namespace launch {
namespace {

const FlagRule* RuleOf(const FlagSyntax& syntax, std::string name) {
  if (syntax.dashes) std::replace(name.begin(), name.end(), '-', '_');
  const FlagRule* found = nullptr;
  for (const FlagRule& rule : syntax.rules) {
    if (rule.name == name) return &rule;
    if (rule.name.substr(0, name.size()) != name) continue;
    if (found != nullptr) return nullptr;  // ambiguous
    found = &rule;
  }
  return found;
}

const FlagRule* ShortRuleOf(const FlagSyntax& syntax, char letter) {
  for (const ShortFlag& flag : syntax.shorts) {
    if (flag.letter == letter) return RuleOf(syntax, std::string(flag.name));
  }
  return nullptr;
}

// A flag as written: its rule, and the value glued to it by '=' or, behind a letter, by nothing.
struct WrittenFlag {
  const FlagRule* rule = nullptr;
  std::optional<std::string> glued;
};

WrittenFlag FlagOf(const FlagSyntax& syntax, const std::string& text) {
  if (text[1] != '-') {
    const FlagRule* rule = ShortRuleOf(syntax, text[1]);
    if (rule == nullptr || text.size() == 2) return {rule, std::nullopt};
    if (!rule->takes_value) return {};
    return {rule, text.substr(2)};
  }
  const std::size_t equals = text.find('=');
  WrittenFlag flag{RuleOf(syntax, text.substr(2, equals - 2)), std::nullopt};
  if (equals != std::string::npos) flag.glued = text.substr(equals + 1);
  return flag;
}

bool IsCount(std::string_view name) {
  constexpr std::array<std::string_view, 6> kCounts = {
      "nnodes", "nproc_per_node", "num_nodes", "num_gpus", "num_machines", "num_processes"};
  return std::find(kCounts.begin(), kCounts.end(), name) != kCounts.end();
}

}  // namespace

Unexpected FlagNotUnderstood(std::string_view launcher, std::string_view flag) {
  return Fail(ErrorCode::kUnimplemented,
              "run: this version cannot start a " + std::string(launcher) + " line with the flag " +
                  std::string(flag),
              "leave the flag out, or write the command of one rank and `launcher: process`");
}

Unexpected BadFlagValue(std::string_view launcher, std::string_view flag, std::string_view value,
                        std::string_view wanted) {
  return Fail(ErrorCode::kInvalidArgument,
              "run: " + std::string(flag) + " is \"" + std::string(value) + "\", not " +
                  std::string(wanted),
              std::string(launcher) + std::string(kRefusedToo));
}

Unexpected BadGpuCount(std::string_view launcher, std::string_view flag, std::string_view value,
                       std::string_view wanted, std::string_view instead) {
  // A shell without GPUs makes 0 of `$(nvidia-smi -L | wc -l)` before launch sees the line; in
  // quotes no shell reads it.
  const bool counted = value == "0" || value.empty() || value.find_first_of("$`") != value.npos;
  if (!counted) return BadFlagValue(launcher, flag, value, wanted);
  return Fail(ErrorCode::kInvalidArgument,
              BadFlagValue(launcher, flag, value, wanted).value().message,
              "the GPUs of this machine are not those of the job: submit with --gpus N, or write "
              "gpus: N, and " +
                  std::string(instead));
}

Result<std::size_t> WalkFlags(
    const std::vector<ShellWord>& words, std::size_t first, const FlagSyntax& syntax,
    const KnownVariables& known,
    const std::function<Result<void>(const FlagRule& rule, const ShellWord& value)>& take) {
  const std::string launcher(syntax.launcher);
  std::size_t i = first;
  for (; i < words.size(); ++i) {
    const std::string& text = words[i].value;
    if (syntax.end_mark && text == "--") {
      ++i;
      break;
    }
    if (text.size() < 2 || text[0] != '-') {
      // $ARGS unquoted may hold flags: what it becomes is known on the node only.
      const bool variable = !words[i].fixed && text[0] == '$' && words[i].raw == text &&
                            WhichOf(words[i].raw).empty();
      const auto value = FixedValue(words[i], known);
      const bool flags = value && (value->rfind('-', 0) == 0 || value->find(' ') != value->npos);
      if (variable && (!value || flags)) {
        return Fail(ErrorCode::kUnimplemented,
                    "run: " + text + " stands among the flags of " + launcher +
                        " and may hold flags itself",
                    "write the flags out, or put the script's path there");
      }
      break;
    }
    const WrittenFlag flag = FlagOf(syntax, text);
    if (flag.rule == nullptr) return FlagNotUnderstood(launcher, text.substr(0, text.find('=')));
    ShellWord value;
    if (flag.rule->takes_value) {
      if (flag.glued) {
        value = words[i];
        value.value = *flag.glued;
      } else if (i + 1 < words.size()) {
        value = words[++i];
      } else {
        return Fail(ErrorCode::kInvalidArgument, "run: the flag " + text + " has no value",
                    "write " + text + "=VALUE");
      }
    }
    if (IsCount(flag.rule->name) && IsPlaceholder(value.value))
      return PlaceholderLeft(text.substr(0, text.find('=')) + (flag.glued ? "=" : " ") +
                             value.value);
    LAUNCH_RETURN_IF_ERROR(take(*flag.rule, value));
  }
  if (i < words.size()) return i;
  return Fail(ErrorCode::kInvalidArgument, "run: the " + launcher + " line names no script",
              "write " + launcher + " [FLAGS] train.py [ARGUMENTS]");
}

}  // namespace launch
