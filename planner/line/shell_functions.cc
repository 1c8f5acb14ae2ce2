#include "planner/line/shell_functions.h"

#include <algorithm>
#include <array>
#include <map>

#include "planner/line/launcher_words.h"
#include "planner/line/line_prefix.h"
#include "planner/line/shell_changes.h"

namespace launch {
namespace {

// Arguments of a script or a function, as a word.
bool IsArgument(const ShellWord& word) {
  static constexpr std::array<std::string_view, 4> kArguments = {"$@", "$*", "$1", "${1}"};
  return std::find(kArguments.begin(), kArguments.end(), word.value) != kArguments.end() ||
         word.value.starts_with("${@") || word.value.starts_with("${1:");
}

std::size_t CalledAt(const ShellCommand& command) {
  std::size_t at = PartsOf(command).first;
  while (at < command.words.size() && StandsBeforeCommand(command.words[at].raw)) ++at;
  return at;
}

// Whether the command executes arguments: "$@", eval "$1", timeout 60 "$@".
bool RunsArguments(const ShellCommand& command) {
  static constexpr std::array<std::string_view, 9> kStarts = {
      "eval", "bash", "sh", "timeout", "nice", "stdbuf", "env", "setsid", "srun"};
  const std::size_t at = CalledAt(command);
  if (at >= command.words.size()) return false;
  if (IsArgument(command.words[at])) return true;
  return std::find(kStarts.begin(), kStarts.end(), command.words[at].raw) != kStarts.end() &&
         std::any_of(command.words.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                     command.words.end(), IsArgument);
}

// Whether the name of a function may come from elsewhere: "$@", "run_$MODE", eval "$1".
bool NamesByValue(const ShellCommand& command) {
  const std::size_t at = CalledAt(command);
  if (at >= command.words.size()) return false;
  const std::string& called = command.words[at].value;
  const bool value = called.find_first_of("$`") != std::string::npos;
  return called == "eval" || RunsArguments(command) ||
         (value && called.find('/') == std::string::npos);
}

}  // namespace

std::set<std::string> FunctionsNeverNamed(const ShellScript& script) {
  std::map<std::string, int, std::less<>> times;
  std::set<std::string> functions;
  FunctionReader reader;
  const auto& commands = script.commands;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const ShellCommand* next = i + 1 < commands.size() ? &commands[i + 1] : nullptr;
    if (reader.Take(commands[i], next) == FunctionReader::Step::kOpens)
      functions.insert(reader.name());
    if (NamesByValue(commands[i])) return {};
  }
  if (functions.empty()) return functions;
  const auto count = [&](std::string_view name) {
    if (const auto found = functions.find(std::string(name)); found != functions.end())
      ++times[*found];
    return false;
  };
  for (const ShellCommand& command : commands) {
    for (const ShellWord& word : command.words) NamesOneThat(word.raw, count);
    for (const ShellRedirect& redirect : command.redirects) {
      NamesOneThat(redirect.document, count);
      NamesOneThat(redirect.target, count);
    }
  }
  std::erase_if(functions, [&](const std::string& name) { return times[name] != 1; });
  return functions;
}

std::set<std::string, std::less<>> FunctionsThatRun(const ShellScript& script) {
  std::set<std::string, std::less<>> names;
  FunctionReader reader;
  const auto& commands = script.commands;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const ShellCommand* next = i + 1 < commands.size() ? &commands[i + 1] : nullptr;
    const auto step = reader.Take(commands[i], next);
    if (step == FunctionReader::Step::kWithin && RunsArguments(commands[i]))
      names.insert(reader.name());
  }
  return names;
}

FunctionReader::Step FunctionReader::Take(const ShellCommand& command, const ShellCommand* next) {
  const std::vector<ShellWord>& words = command.words;
  if (words.empty()) return open_ ? Step::kWithin : Step::kOutside;
  const bool word = words[0].raw == "function" && words.size() > 1;
  if (word && words.size() > 2 && words[2].raw == "{") ++braces_;
  if (!open_) {
    // The brackets end a command of their own.
    const bool brackets = words.size() == 1 && command.joiner == ";" && next != nullptr &&
                          !next->words.empty() && next->words[0].raw == "{";
    if (!word && !brackets) return Step::kOutside;
    name_ = words[word ? 1 : 0].raw;
    open_ = true;
    return Step::kOpens;
  }
  if (words[0].raw == "{") ++braces_;
  if (words[0].raw != "}" || --braces_ > 0) return Step::kWithin;
  open_ = false;
  braces_ = 0;
  return Step::kCloses;
}

}  // namespace launch
