#include "planner/line/shell_notes.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <set>
#include <string_view>

#include "planner/line/called_script.h"
#include "planner/line/command_roles.h"
#include "planner/line/launcher_words.h"
#include "planner/line/line_prefix.h"
#include "planner/line/makefile.h"
#include "planner/line/own_launchers.h"
#include "planner/line/shell_functions.h"
#include "planner/line/shell_values.h"

namespace launch {
namespace {

// What `set` has switched on so far.
struct ShellOptions {
  bool errexit = false;
  bool pipefail = false;

  // "set -x -e", "set -euo pipefail", "set +e"
  void Take(const ShellCommand& command) {
    if (command.words.empty() || command.words[0].raw != "set") return;
    for (std::size_t i = 1; i < command.words.size(); ++i) {
      const std::string& word = command.words[i].value;
      const bool on = word.starts_with('-');
      if ((!on && !word.starts_with('+')) || word == "--") return;
      if (word.find('e') != std::string::npos) errexit = on;
      if (word.back() != 'o' || i + 1 >= command.words.size()) continue;
      const std::string& name = command.words[++i].value;
      if (name == "errexit") errexit = on;
      if (name == "pipefail") pipefail = on;
    }
  }
};

// Commands with `&` behind them that may be the training. In `tensorboard --logdir runs &
// torchrun ...` run is for the one in the foreground, and what still runs then may go. So it is
// with two launchers: `trl vllm-serve ... & accelerate launch ...` serves the one in the
// foreground.
std::set<std::size_t> InBackground(const ShellScript& script,
                                   const std::vector<CommandRole>& roles) {
  std::set<std::size_t> found;
  int foreground = 0;  // the heaviest behind
  for (std::size_t i = script.commands.size(); i-- > 0;) {
    const int weight = roles[i].weight;
    if (script.commands[i].joiner != "&") {
      foreground = std::max(foreground, weight);
    } else if (weight > foreground || (weight == foreground && weight < kLauncherWeight)) {
      found.insert(i);
    }
  }
  return found;
}

// `torchrun ...; echo done`: what comes behind the launcher gives the exit code.
std::vector<Finding> LaterStatus(const ShellScript& script, const std::string& where) {
  if (script.compound) return {};
  const bool calls = FindLauncher(script).has_value();
  ShellOptions options;
  for (std::size_t i = 0; i + 1 < script.commands.size(); ++i) {
    const ShellCommand& command = script.commands[i];
    options.Take(command);
    const bool last = script.commands[i + 1].words.empty();
    const bool judged = command.joiner == ";" || command.joiner == "\n";
    if (options.errexit || last || !judged || IsPreparation(command)) continue;
    // `eval $cmd` is the launcher of a text that calls one.
    const bool evaluated = calls && !command.words.empty() && command.words[0].raw == "eval";
    const auto launcher = FindLauncher(command);
    const OwnLauncher* own = launcher ? OwnLauncherOf(*launcher) : nullptr;
    if (!evaluated && (!launcher || (own != nullptr && own->returns))) continue;
    return {MakeFinding("exit_code_hidden", Severity::kWarning,
                        "`" + script.commands[i + 1].words.front().raw +
                            "` behind the launcher in " + where + ": its exit code is the job's",
                        "write `set -e` in front, or && in between")};
  }
  return {};
}

std::string WaitFor(const std::set<std::size_t>& background, const ShellScript& script) {
  bool left = false;
  for (std::size_t i = 0; i < script.commands.size(); ++i) {
    const ShellCommand& command = script.commands[i];
    if (!command.words.empty() && command.words[0].raw == "wait") left = false;
    if (background.contains(i)) left = true;
  }
  if (!left || script.compound) return {};
  return "\nwait $!; launch_status=$?; wait; exit $launch_status";
}

}  // namespace

std::string WaitBehind(const ShellScript& script) {
  return WaitFor(InBackground(script, RolesOf(script)), script);
}

std::vector<Finding> LoginShellNotes(const ShellScript& script) {
  std::vector<Finding> notes;
  bool prepared = false;  // something was sourced or evaluated that may define them
  for (const ShellCommand& command : script.commands) {
    if (command.words.empty()) continue;
    const std::string& word = command.words[0].raw;
    if (word == "source" || word == "." || word == "eval") prepared = true;
    if (prepared) continue;
    const std::string verb = command.words.size() > 1 ? command.words[1].value : "";
    const bool conda =
        (word == "conda" || word == "mamba" || word == "micromamba") && verb == "activate";
    if (conda) {
      const std::string name = command.words.size() > 2 ? command.words[2].value : "base";
      notes.push_back(
          MakeFinding("login_shell_needed", Severity::kWarning,
                      word + " activate is a function of interactive shells: run does not have it",
                      "write conda: " + name + " in the job and leave the command out"));
      prepared = true;
    } else if (word == "module" || word == "ml") {
      notes.push_back(
          MakeFinding("login_shell_needed", Severity::kWarning,
                      word + " is a function of login shells: run does not have it",
                      "write `source /etc/profile.d/modules.sh` (or lmod.sh) in front of it"));
      prepared = true;
    }
  }
  return notes;
}

namespace {

// Whether a loop waits for what it started at `at` before it goes on.
bool WaitsInLoop(const std::vector<ShellCommand>& commands, std::size_t at) {
  for (std::size_t i = at + 1; i < commands.size() && !commands[i].words.empty(); ++i) {
    const std::string& first = commands[i].words[0].raw;
    if (first == "wait") return true;
    if (first == "done") break;
  }
  return false;
}

// `trl vllm-serve`, also of `nohup bash -c '...'`: it answers to a training beside it.
bool Serves(const ShellCommand& command) {
  if (IsServer(command.words)) return true;
  constexpr std::size_t kLongest = 4096;
  return std::any_of(command.words.begin(), command.words.end(), [](const ShellWord& word) {
    if (word.value.find("serve") == std::string::npos || word.value.size() > kLongest ||
        word.value.find(' ') == std::string::npos) {
      return false;
    }
    const auto text = ReadShell(word.value);
    return text && std::any_of(text->commands.begin(), text->commands.end(),
                               [](const ShellCommand& one) { return IsServer(one.words); });
  });
}

// "-P", "4" or "-P4", "-0P4", "--max-procs=4": whether they name one at a time; absent: the word is
// none of these.
std::optional<bool> NamesOne(const std::vector<ShellWord>& words, std::size_t at,
                             std::initializer_list<std::string_view> flags) {
  std::string text = words[at].value;
  // Switches of xargs that stand in front of a flag in one word.
  if (!text.starts_with("--")) text.erase(1, text.find_first_not_of("0rtx", 1) - 1);
  for (const std::string_view flag : flags) {
    std::string_view rest = text;
    if (!rest.starts_with(flag)) continue;
    rest.remove_prefix(flag.size());
    if (rest.starts_with('=')) rest.remove_prefix(1);
    if (rest.empty() && at + 1 < words.size()) rest = words[at + 1].value;
    return rest == "1";
  }
  return std::nullopt;
}

// `::: a b` of parallel gives two commands and `::: a` one; other sources are not known here.
bool GivesOneArgument(const std::vector<ShellWord>& words) {
  const auto separator = std::ranges::find(words, ":::", &ShellWord::value);
  if (words.end() - separator != 2) return false;
  const std::string& only = words.back().raw;
  return words.back().fixed && only.find_first_of("{*?[") == std::string::npos;
}

// `parallel ... ::: a b`, `xargs -P 4 ...`: the words behind are started several times at once.
bool StartsCopies(const std::vector<ShellWord>& words) {
  std::size_t program = 0;
  while (program < words.size() &&
         (StandsBeforeCommand(words[program].raw) || AssignmentOf(words[program])))
    ++program;
  if (program >= words.size()) return false;
  const std::string_view name = ProgramOf(words[program]);
  if (name != "parallel" && name != "xargs") return false;
  bool several = name == "parallel";  // one for each core
  bool value = false;                 // may follow: of the flag in front
  for (std::size_t i = program + 1; i < words.size() && words[i].value != ":::"; ++i) {
    const bool flag = words[i].value.starts_with('-');
    if (!flag && !value) break;  // the command that it starts
    value = flag;
    if (!flag) continue;
    const auto one = name == "xargs" ? NamesOne(words, i, {"-P", "--max-procs"})
                                     : NamesOne(words, i, {"-j", "-P", "--jobs", "--max-procs"});
    if (!one) continue;
    several = !*one;
    break;
  }
  return several && !(name == "parallel" && GivesOneArgument(words));
}

class AtOnceSearch {
 public:
  explicit AtOnceSearch(const std::set<std::string, std::less<>>& scripts) : scripts_(scripts) {}

  std::string In(const ShellScript& script) {
    static constexpr std::array<std::string_view, 4> kOther = {"else", "elif", ";;", "wait"};
    const std::vector<CommandRole> roles = RolesOf(script);
    int loop = 0;  // that are open
    int running = 0;
    int outside = 0;  // running in front of the function that is open
    FunctionReader reader;
    const auto& commands = script.commands;
    for (std::size_t i = 0; i < commands.size(); ++i) {
      const ShellCommand* next = i + 1 < commands.size() ? &commands[i + 1] : nullptr;
      const FunctionReader::Step step = reader.Take(commands[i], next);
      if (step == FunctionReader::Step::kOpens) outside = running;
      if (step == FunctionReader::Step::kOpens || step == FunctionReader::Step::kCloses)
        running = outside;
      if (commands[i].words.empty()) continue;
      const std::string& first = commands[i].words[0].raw;
      if (first == "for" || first == "while" || first == "until") ++loop;
      if (std::find(kOther.begin(), kOther.end(), first) != kOther.end()) running = 0;
      if (first == "done" && loop > 0) --loop;
      if (!roles[i].launcher.empty() && StartsCopies(commands[i].words)) return roles[i].launcher;
      if (std::string inside = InTexts(commands[i].words); !inside.empty()) return inside;
      for (const ShellWord& word : commands[i].words) TakeAssignment(word, known_);
      if ((commands[i].joiner != "&" && !roles[i].leaves) || Serves(commands[i])) continue;
      const std::string launcher = LauncherOf(commands[i], roles[i]);
      if (launcher.empty()) continue;
      running += loop > 0 && !WaitsInLoop(commands, i) ? 2 : 1;
      if (running > 1) return launcher;
    }
    return {};
  }

 private:
  std::string LauncherOf(const ShellCommand& command, const CommandRole& role) const {
    if (!role.launcher.empty()) return role.launcher;
    if (std::string path = ShellScriptOf(command); scripts_.contains(path)) return path;
    const auto make = MakeCallOf(command, {});
    return make && scripts_.contains(make->shown) ? make->shown : std::string();
  }

  static bool Copies(std::string_view text) {
    return text.find("parallel") != text.npos || text.find("xargs") != text.npos;
  }

  // bash -c 'torchrun a.py & torchrun b.py', eval "$BOTH"
  std::string InTexts(const std::vector<ShellWord>& words) {
    std::string found;
    if (words[0].value == "echo" || words[0].value == "printf") return found;
    for (const ShellWord& word : words) {
      if (!found.empty()) break;
      if (AssignmentOf(word)) continue;
      const std::string text = PartlyKnown(word, known_).value_or(word.value);
      const bool several = text.find('&') != std::string::npos || Copies(text);
      if (!several || text.find(' ') == std::string::npos) continue;
      nested_.Visit(text, [&](const ShellScript& inner) { found = In(inner); });
    }
    return found;
  }

  const std::set<std::string, std::less<>>& scripts_;
  NestedTexts nested_;
  KnownVariables known_;
};

}  // namespace

std::string LaunchersAtOnce(const ShellScript& script,
                            const std::set<std::string, std::less<>>& scripts) {
  return AtOnceSearch(scripts).In(script);
}

namespace {

// What a script does that has nothing to wait for any more. Of other commands nobody here knows
// how long they last.
bool IsDoneAtOnce(const CommandRole& role) {
  static constexpr std::array<std::string_view, 19> kAtOnce = {
      "echo", "printf", "exit",  "true", ":",     "date",   "disown", "fi",   "done", "esac",
      ";;",   "}",      "mkdir", "cd",   "touch", "return", "set",    "test", "["};
  return role.verb.empty() || std::find(kAtOnce.begin(), kAtOnce.end(), role.verb) != kAtOnce.end();
}

}  // namespace

std::string LeftInBackground(const ShellScript& script) {
  std::string left;
  int left_weight = 0;
  int before = 0;  // the heaviest in the foreground so far
  const std::vector<CommandRole> roles = RolesOf(script);
  const std::set<std::size_t> background = InBackground(script, roles);
  for (std::size_t i = 0; i < script.commands.size(); ++i) {
    const CommandRole& role = roles[i];
    const bool behind = script.commands[i].joiner == "&";
    if (role.leaves || (behind && background.contains(i))) {
      // In loops and branches only what trains for sure.
      if (script.compound && role.weight == 0) continue;
      if (role.weight < before) continue;  // something beside a training that has ended
      left = role.verb;
      left_weight = role.weight;
      continue;
    }
    if (behind) continue;
    before = std::max(before, role.weight);
    // A later command in the foreground that looks as much like the training: the script lasts as
    // long as that one does.
    const bool trains = role.weight > 0 && role.weight >= left_weight;
    const bool unknown = script.compound || left_weight == 0;
    if (trains || role.waits || (unknown && !IsDoneAtOnce(role))) left.clear();
  }
  return left;
}

namespace {

// Whether the status that is lost at `at`, by a pipe or ||, may be that of the training.
bool MayBeOfTraining(const ShellScript& script, const std::vector<CommandRole>& roles,
                     std::size_t at, int heaviest) {
  if (heaviest == 0) return true;        // programs that nobody here knows
  constexpr std::size_t kLongest = 256;  // texts may be hostile
  for (std::size_t i = at; at - i < kLongest; --i) {
    const ShellCommand& command = script.commands[i];
    static constexpr std::array<std::string_view, 4> kEnds = {"}", "done", "fi", "esac"};
    const bool several = command.subshell > 0 ||
                         (!command.words.empty() && std::find(kEnds.begin(), kEnds.end(),
                                                              command.words[0].raw) != kEnds.end());
    if (several || roles[i].weight == heaviest) return true;
    if (i == 0) return false;
    const std::string& before = script.commands[i - 1].joiner;
    if (before != "|" && (before != "&&" || script.commands[at].joiner == "|")) return false;
  }
  return false;
}

}  // namespace

std::vector<Finding> HiddenStatus(const ShellScript& script, const std::string& where) {
  const std::vector<CommandRole> roles = RolesOf(script);
  const std::set<std::size_t> background = InBackground(script, roles);
  int heaviest = 0;
  for (const CommandRole& role : roles) heaviest = std::max(heaviest, role.weight);
  ShellOptions options;
  for (std::size_t i = 0; i < script.commands.size(); ++i) {
    const ShellCommand& command = script.commands[i];
    options.Take(command);
    const std::string& joiner = command.joiner;
    if (joiner != "|" && joiner != "||" && joiner != "&") continue;
    if (joiner == "|" && options.pipefail) continue;
    const bool exits = i + 1 < script.commands.size() && !script.commands[i + 1].words.empty() &&
                       script.commands[i + 1].words[0].raw == "exit";
    if (joiner == "||" && exits) continue;
    if (joiner == "&" && !background.contains(i)) continue;
    if (joiner != "&" && !MayBeOfTraining(script, roles, i, heaviest)) continue;
    if (joiner == "&" && !WaitFor(background, script).empty()) {
      return {MakeFinding("background", Severity::kNotice,
                          "& in run: launch waits for the command, as the job would end otherwise",
                          "leave it out; a job runs in the background anyway")};
    }
    return {MakeFinding(
        "exit_code_hidden", Severity::kWarning,
        "\"" + joiner + "\" in " + where + ": the exit code of a rank is not the training's",
        "leave it out; launch keeps the output of every rank itself")};
  }
  return LaterStatus(script, where);
}

}  // namespace launch
