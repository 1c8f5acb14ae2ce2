#include "planner/line/command_roles.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "planner/line/launcher_words.h"
#include "planner/line/line_prefix.h"
#include "planner/line/shell_values.h"

namespace launch {
namespace {

template <std::size_t N>
bool IsOneOf(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool IsKeyword(std::string_view word) {
  static constexpr std::array<std::string_view, 10> kKeywords = {
      "if", "then", "else", "elif", "while", "until", "do", "{", "!", "time"};
  return IsOneOf(kKeywords, word);
}

bool Stays(std::string_view verb) {
  static constexpr std::array<std::string_view, 4> kStay = {"wait", "sleep", "tail", "fg"};
  return IsOneOf(kStay, verb);
}

class RoleReader {
 public:
  std::vector<CommandRole> Read(const std::vector<ShellCommand>& commands) {
    std::vector<CommandRole> roles;
    for (std::size_t i = 0; i < commands.size(); ++i) {
      const bool opens = i + 1 < commands.size() && !commands[i + 1].words.empty() &&
                         commands[i + 1].words[0].raw == "{";
      roles.push_back(RoleOf(commands[i]));
      NoteBody(commands[i], opens, roles.back());
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
    if (!role.launcher.empty()) {
      role.weight = kLauncherWeight;
    } else if (!ShellScriptOf(called).empty() || IsPython(called.words[first].value)) {
      role.weight = kProgramWeight;
    }
    return role;
  }

  // The words as the command gets them, without keywords, assignments and what defines a function.
  std::vector<ShellWord> Called(const ShellCommand& command) {
    std::vector<ShellWord> words = splitter_.Split(command.words, known_);
    std::size_t begin = 0;
    if (!words.empty() && words[0].raw == "function")
      begin = std::min<std::size_t>(2, words.size());
    while (begin < words.size() && IsKeyword(words[begin].raw)) ++begin;
    words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(begin));
    std::erase_if(words, [](const ShellWord& word) { return AssignmentOf(word).has_value(); });
    return words;
  }

  // "run() {", "function run {": what is called until the "}" is what a call of it does.
  void NoteBody(const ShellCommand& command, bool opens, const CommandRole& role) {
    const std::vector<ShellWord>& words = command.words;
    if (words.empty()) return;
    const bool keyword = words[0].raw == "function" && words.size() > 1;
    if (name_.empty() && (opens || keyword)) {
      name_ = keyword ? words[1].raw : words.back().raw;
      body_ = {};
      if (!keyword) return;
    }
    if (name_.empty()) return;
    if (words[0].raw == "{") ++braces_;
    if (keyword && words.size() > 2 && words[2].raw == "{") ++braces_;
    if (words[0].raw == "}" && --braces_ <= 0) {
      functions_.insert_or_assign(std::exchange(name_, {}), std::exchange(body_, {}));
      braces_ = 0;
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

  WordSplitter splitter_;
  KnownVariables known_;
  std::map<std::string, CommandRole, std::less<>> functions_;
  std::string name_;  // of the function whose body is open
  CommandRole body_;
  int braces_ = 0;
};

}  // namespace

std::vector<CommandRole> RolesOf(const ShellScript& script) {
  return RoleReader().Read(script.commands);
}

}  // namespace launch
