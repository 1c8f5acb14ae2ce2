#include "planner/line/command_roles.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "planner/line/launcher_words.h"
#include "planner/line/line_prefix.h"
#include "planner/line/shell_functions.h"
#include "planner/line/shell_values.h"

namespace launch {
namespace {

bool Stays(std::string_view verb) {
  static constexpr std::array<std::string_view, 4> kStay = {"wait", "sleep", "tail", "fg"};
  return std::find(kStay.begin(), kStay.end(), verb) != kStay.end();
}

class RoleReader {
 public:
  std::vector<CommandRole> Read(const std::vector<ShellCommand>& commands) {
    std::vector<CommandRole> roles;
    for (std::size_t i = 0; i < commands.size(); ++i) {
      roles.push_back(RoleOf(commands[i]));
      NoteBody(commands[i], i + 1 < commands.size() ? &commands[i + 1] : nullptr, roles.back());
    }
    return roles;
  }

 private:
  CommandRole RoleOf(const ShellCommand& command) {
    CommandRole role;
    ShellCommand called{Called(command), {}, command.joiner, command.subshell};
    called.redirects = command.redirects;
    for (const ShellWord& word : command.words) TakeAssignment(word, known_);
    if (!command.words.empty()) {  // `while pgrep train; do ...` waits as `sleep` does
      const std::string& first = command.words[0].raw;
      role.waits = first == "while" || first == "until";
    }
    if (called.words.empty()) return role;
    const std::size_t first = PartsOf(called).first;
    if (first >= called.words.size()) return role;
    role.verb = called.words[first].raw;
    role.waits = role.waits || Stays(role.verb);
    if (const auto function = functions_.find(role.verb); function != functions_.end()) {
      const CommandRole& body = function->second;
      role.launcher = body.launcher;
      role.weight = body.weight;
      role.waits = role.waits || body.waits;
      role.leaves = body.leaves;
      return role;
    }
    role.launcher = FindLauncher(called).value_or("");
    if (role.launcher.empty() && role.verb == "eval") NoteEvaluated(called, role);
    if (!role.launcher.empty()) {
      role.weight = kLauncherWeight;
    } else if (!ShellScriptOf(called).empty() || StartsPython(called)) {
      role.weight = kProgramWeight;
    }
    return role;
  }

  // `eval "$cmd &"`, with what the text gives to cmd.
  void NoteEvaluated(const ShellCommand& command, CommandRole& role) {
    if (command.words.size() < 2) return;
    const auto text = PartlyKnown(command.words.back(), known_);
    if (!text || text->size() > evaluated_left_) return;
    evaluated_left_ -= text->size();
    const auto script = ReadShell(*text);
    if (!script || script->commands.empty()) return;
    role.launcher = FindLauncher(*script).value_or("");
    role.leaves = script->commands.back().joiner == "&";
  }

  // The words as the command gets them, without keywords, assignments and what defines a function.
  std::vector<ShellWord> Called(const ShellCommand& command) {
    std::vector<ShellWord> words = splitter_.Split(command.words, known_);
    std::size_t begin = 0;
    if (!words.empty() && words[0].raw == "function")
      begin = std::min<std::size_t>(2, words.size());
    while (begin < words.size() &&
           (StandsBeforeCommand(words[begin].raw) || words[begin].raw == "time")) {
      ++begin;
    }
    words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(begin));
    std::erase_if(words, [](const ShellWord& word) { return AssignmentOf(word).has_value(); });
    return words;
  }

  // What is called in the body of a function is what a call of it does.
  void NoteBody(const ShellCommand& command, const ShellCommand* next, const CommandRole& role) {
    const FunctionReader::Step step = reader_.Take(command, next);
    if (step == FunctionReader::Step::kOutside) return;
    if (step == FunctionReader::Step::kOpens) {
      body_ = {};
      if (command.words[0].raw != "function") return;
    }
    if (step == FunctionReader::Step::kCloses) {
      functions_.insert_or_assign(reader_.name(), std::exchange(body_, {}));
      return;
    }
    if (role.weight >= body_.weight && role.weight > 0) {
      body_.launcher = role.launcher;
      body_.weight = role.weight;
      body_.leaves = command.joiner == "&";
    }
    if (role.waits) {
      body_.waits = true;
      body_.leaves = false;
    }
  }

  std::size_t evaluated_left_ = 256 * 1024;  // bytes: texts may be hostile
  WordSplitter splitter_;
  KnownVariables known_;
  std::map<std::string, CommandRole, std::less<>> functions_;
  FunctionReader reader_;
  CommandRole body_;  // of the function that is open
};

}  // namespace

std::vector<CommandRole> RolesOf(const ShellScript& script) {
  return RoleReader().Read(script.commands);
}

}  // namespace launch
