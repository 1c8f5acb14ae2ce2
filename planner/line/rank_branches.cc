#include "planner/line/rank_branches.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "planner/line/command_roles.h"
#include "planner/line/shell_functions.h"

namespace launch {
namespace {

// "$NODE_RANK", "${SLURM_NODEID:-0}", "RANK" in (( ... )); not LOCAL_RANK.
bool NamesNodeRank(std::string_view word) {
  static constexpr std::array<std::string_view, 4> kNames = {"RANK", "rank", "NODEID", "PROCID"};
  return word.find("LOCAL") == std::string_view::npos &&
         word.find("local") == std::string_view::npos &&
         std::any_of(kNames.begin(), kNames.end(), [word](std::string_view name) {
           return word.find(name) != std::string_view::npos;
         });
}

// "[ $NODE_RANK -eq 0 ]", not "[ -z "$NODE_RANK" ]".
bool ComparesNodeRank(const ShellCommand& command) {
  static constexpr std::array<std::string_view, 8> kCompares = {"=",   "==",  "!=",  "-eq",
                                                                "-ne", "-gt", "-lt", "-ge"};
  bool names = false;
  bool compares = false;
  for (const ShellWord& word : command.words) {
    names = names || (word.raw.find('$') != std::string::npos && NamesNodeRank(word.raw));
    compares =
        compares || std::find(kCompares.begin(), kCompares.end(), word.raw) != kCompares.end();
    if (word.raw.starts_with("((") && NamesNodeRank(word.raw)) return true;
  }
  return names && compares;
}

std::string TextOf(const ShellCommand& command) {
  std::string text;
  for (const ShellWord& word : command.words) {
    if (word.raw == "if" || word.raw == "elif") continue;
    text += (text.empty() ? "" : " ") + word.raw;
  }
  return text;
}

class BranchReader {
 public:
  std::string Read(const ShellScript& script) {
    const std::vector<CommandRole> roles = RolesOf(script);
    const auto& commands = script.commands;
    FunctionReader functions;
    bool condition = false;  // of an if, up to its `then`
    for (std::size_t i = 0; i < commands.size(); ++i) {
      const ShellCommand& command = commands[i];
      if (command.words.empty()) continue;
      functions.Take(command, i + 1 < commands.size() ? &commands[i + 1] : nullptr);
      if (functions.open()) continue;
      const std::string& first = command.words[0].raw;
      if (first == "then") condition = false;
      if (first == "if") open_.emplace_back();
      if (first == "elif" || first == "else") EndBranch();
      if (first == "else" && !open_.empty()) open_.back().otherwise = true;
      if (first == "fi") EndIf();
      condition = condition || first == "if" || first == "elif";
      if (condition && !open_.empty() && ComparesNodeRank(command))
        open_.back().condition = TextOf(command);
      if (condition || roles[i].launcher.empty()) continue;
      const bool tested =
          i > 0 && commands[i - 1].joiner == "&&" && ComparesNodeRank(commands[i - 1]);
      if (tested) {
        found_ = TextOf(commands[i - 1]);
      } else {
        NoteLauncher();
      }
    }
    return everywhere_ ? std::string() : found_;
  }

 private:
  struct If {
    std::string condition;   // that compares the node's rank
    bool launches = false;   // the branch at hand
    bool with = false;       // some branch launches
    bool without = false;    // some branch does not
    bool otherwise = false;  // it has an else
  };

  void NoteLauncher() {
    if (open_.empty()) {
      everywhere_ = true;
    } else {
      open_.back().launches = true;
    }
  }

  void EndBranch() {
    if (open_.empty()) return;
    If& one = open_.back();
    one.with = one.with || one.launches;
    one.without = one.without || !one.launches;
    one.launches = false;
  }

  void EndIf() {
    EndBranch();
    if (open_.empty()) return;
    const If one = std::move(open_.back());
    open_.pop_back();
    if (!one.with) return;
    if (!one.condition.empty() && (one.without || !one.otherwise)) {
      found_ = one.condition;
    } else {
      NoteLauncher();
    }
  }

  std::vector<If> open_;
  std::string found_;
  bool everywhere_ = false;  // some launcher is started whatever the rank is
};

}  // namespace

std::string ConditionOfOneNode(const ShellScript& script) { return BranchReader().Read(script); }

}  // namespace launch
