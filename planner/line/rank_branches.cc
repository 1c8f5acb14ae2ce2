#include "planner/line/rank_branches.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "common/units.h"
#include "planner/line/command_roles.h"
#include "planner/line/shell_functions.h"

namespace launch {
namespace {

// Set by schedulers and launchers; not LOCAL_RANK, LORA_RANK or a script's own.
constexpr std::array<std::string_view, 13> kNodeRanks = {
    "RANK",         "NODE_RANK",    "PET_NODE_RANK",      "GROUP_RANK", "MACHINE_RANK",
    "SLURM_NODEID", "SLURM_PROCID", "PMI_RANK",           "PMIX_RANK",  "OMPI_COMM_WORLD_RANK",
    "node_rank",    "machine_rank", "MV2_COMM_WORLD_RANK"};

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '"')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '"')) text.remove_suffix(1);
  return text;
}

bool IsWrittenNumber(std::string_view word) { return ParseInt(Trimmed(word)).has_value(); }

// The name in "$NODE_RANK" or "${SLURM_NODEID:-0}"; in (( ... )) it needs no '$'. Empty: the word
// is anything else.
std::string_view NodeRankIn(std::string_view word, bool arithmetic) {
  word = Trimmed(word);
  const bool dollar = word.starts_with('$');
  if (!dollar && !arithmetic) return {};
  if (dollar) word.remove_prefix(1);
  const bool braces = word.starts_with('{') && word.ends_with('}');
  if (braces) word = word.substr(1, word.size() - 2);
  std::size_t end = 0;
  while (end < word.size() && IsNameChar(word[end])) ++end;
  const std::string_view rest = word.substr(end);
  if (!rest.empty() && !(braces && (rest.starts_with(":-") || rest.starts_with('-')))) return {};
  const auto found = std::find(kNodeRanks.begin(), kNodeRanks.end(), word.substr(0, end));
  return found == kNodeRanks.end() ? std::string_view() : *found;
}

struct Comparison {
  std::string_view variable;  // empty: it is no such comparison
  bool equal = false;         // else unequal
};

Comparison ComparisonOf(std::string_view left, std::string_view right, bool equal,
                        bool arithmetic) {
  if (IsWrittenNumber(right)) return {NodeRankIn(left, arithmetic), equal};
  if (IsWrittenNumber(left)) return {NodeRankIn(right, arithmetic), equal};
  return {};
}

// "[ $NODE_RANK -eq 0 ]", "(( NODE_RANK == 0 ))", and nothing else in it.
Comparison ComparisonIn(const ShellCommand& command) {
  std::vector<std::string_view> words;
  for (const ShellWord& word : command.words)
    if (word.raw != "if" && word.raw != "elif") words.push_back(word.raw);
  if (words.size() == 1 && words[0].starts_with("((") && words[0].ends_with("))")) {
    const std::string_view inner = words[0].substr(2, words[0].size() - 4);
    const bool equal = inner.find("==") != std::string_view::npos;
    const std::size_t at = inner.find(equal ? "==" : "!=");
    if (at == std::string_view::npos) return {};
    return ComparisonOf(inner.substr(0, at), inner.substr(at + 2), equal, true);
  }
  if (words.empty()) return {};
  const bool brackets =
      (words[0] == "[" && words.back() == "]") || (words[0] == "[[" && words.back() == "]]");
  if (words.size() != (brackets ? 5 : 4) || (!brackets && words[0] != "test")) return {};
  const bool equal = words[2] == "=" || words[2] == "==" || words[2] == "-eq";
  if (!equal && words[2] != "!=" && words[2] != "-ne") return {};
  return ComparisonOf(words[1], words[3], equal, false);
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
    NoteAssigned(commands);
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
      if (first == "elif" || first == "else") EndBranch(first == "else");
      if (first == "fi") EndIf();
      if (first == "case") ++cases_;
      if (first == "esac" && cases_ > 0) --cases_;
      condition = condition || first == "if" || first == "elif";
      if (condition && !open_.empty()) TakeCondition(command);
      if (condition || roles[i].launcher.empty()) continue;
      const bool tested = i > 0 && commands[i - 1].joiner == "&&" &&
                          (i == 1 || commands[i - 2].joiner != "||") &&
                          OfNodeRank(commands[i - 1]).equal;
      if (tested && IsOutermost(0)) {
        NoteOneNode(TextOf(commands[i - 1]));
      } else {
        NoteLauncher();
      }
    }
    return everywhere_ || nodes_ != 1 ? std::string() : found_;
  }

 private:
  struct If {
    std::string equal;       // the condition of the branch at hand, where it holds on one node
    std::string unequal;     // that of the first branch, where it holds on all but one
    bool first = true;       // the branch at hand is the first
    bool either = false;     // its condition has an `||`
    bool launches = false;   // the branch at hand
    bool elsewhere = false;  // some branch launches that is not one node's
  };

  // A variable that the text itself gives a number has it on every node.
  void NoteAssigned(const std::vector<ShellCommand>& commands) {
    for (const ShellCommand& command : commands) {
      for (const ShellWord& word : command.words) {
        const auto assignment = AssignmentOf(word);
        if (assignment && assignment->value.raw.find_first_of("$`") == std::string::npos)
          assigned_.insert(assignment->name);
      }
    }
  }

  Comparison OfNodeRank(const ShellCommand& command) const {
    const Comparison comparison = ComparisonIn(command);
    const bool none = comparison.variable.empty() || assigned_.contains(comparison.variable);
    return none ? Comparison() : comparison;
  }

  void TakeCondition(const ShellCommand& command) {
    If& one = open_.back();
    const bool joined = command.joiner == "&&" || command.joiner == "||";
    one.either = one.either || command.joiner == "||";
    const Comparison comparison = OfNodeRank(command);
    if (!comparison.variable.empty() && comparison.equal) one.equal = TextOf(command);
    if (!comparison.variable.empty() && !comparison.equal && one.first && !joined &&
        (command.words[0].raw == "if"))
      one.unequal = TextOf(command);
    if (one.either) one.equal.clear();
  }

  // Whether nothing else decides if the text comes here.
  bool IsOutermost(std::size_t ifs) const { return open_.size() == ifs && cases_ == 0; }

  void NoteOneNode(std::string condition) {
    found_ = std::move(condition);
    ++nodes_;
  }

  void NoteLauncher() {
    if (open_.empty()) {
      everywhere_ = true;
    } else {
      open_.back().launches = true;
    }
  }

  void EndBranch(bool otherwise) {
    if (open_.empty()) return;
    If& one = open_.back();
    if (one.launches && !one.equal.empty() && IsOutermost(1)) {
      NoteOneNode(one.equal);
    } else {
      one.elsewhere = one.elsewhere || one.launches;
    }
    one.equal = otherwise && one.first ? one.unequal : std::string();
    one.first = false;
    one.either = false;
    one.launches = false;
  }

  void EndIf() {
    EndBranch(false);
    if (open_.empty()) return;
    const bool elsewhere = open_.back().elsewhere;
    open_.pop_back();
    if (elsewhere) NoteLauncher();
  }

  std::vector<If> open_;
  int cases_ = 0;
  std::set<std::string, std::less<>> assigned_;
  std::string found_;
  int nodes_ = 0;            // conditions of one node behind which a launcher is started
  bool everywhere_ = false;  // some launcher is started on other nodes, or may be
};

}  // namespace

std::string ConditionOfOneNode(const ShellScript& script) { return BranchReader().Read(script); }

}  // namespace launch
