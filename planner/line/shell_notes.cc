#include "planner/line/shell_notes.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include "planner/line/launcher_words.h"
#include "planner/line/line_prefix.h"
#include "planner/line/node_line.h"

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

constexpr int kLauncherWeight = 2;

// How much a command looks like the training: a launcher, then Python or a script, then the rest.
int Weight(const ShellCommand& command) {
  if (FindLauncher(command)) return kLauncherWeight;
  if (!ShellScriptOf(command).empty()) return 1;
  const std::size_t first = PartsOf(command).first;
  return first < command.words.size() && IsPython(command.words[first].value) ? 1 : 0;
}

// Commands with `&` behind them that may be the training. In `tensorboard --logdir runs &
// torchrun ...` run is for the one in the foreground, and what still runs then may go. So it is
// with two launchers: `trl vllm-serve ... & accelerate launch ...` serves the one in the
// foreground.
std::set<std::size_t> InBackground(const ShellScript& script) {
  std::set<std::size_t> found;
  const auto& commands = script.commands;
  const bool any = std::any_of(commands.begin(), commands.end(),
                               [](const ShellCommand& one) { return one.joiner == "&"; });
  int foreground = 0;  // the heaviest behind
  for (std::size_t i = commands.size(); any && i-- > 0;) {
    const int weight = Weight(commands[i]);
    if (commands[i].joiner != "&") {
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
    if (!evaluated && !FindLauncher(command)) continue;
    return {MakeFinding("exit_code_hidden", Severity::kWarning,
                        "`" + script.commands[i + 1].words.front().raw +
                            "` behind the launcher in " + where + ": its exit code is the job's",
                        "write `set -e` in front, or && in between")};
  }
  return {};
}

}  // namespace

std::string WaitBehind(const ShellScript& script) {
  const std::set<std::size_t> background = InBackground(script);
  bool left = false;
  for (std::size_t i = 0; i < script.commands.size(); ++i) {
    const ShellCommand& command = script.commands[i];
    if (!command.words.empty() && command.words[0].raw == "wait") left = false;
    if (background.count(i) > 0) left = true;
  }
  if (!left || script.compound) return {};
  return "\nwait $!; launch_status=$?; wait; exit $launch_status";
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

}  // namespace

std::string LaunchersAtOnce(const ShellScript& script) {
  static constexpr std::array<std::string_view, 4> kOther = {"else", "elif", ";;", "wait"};
  std::map<std::string, std::string> functions;  // launcher in the body, by name
  std::string body;                              // of this function
  int loop = 0;                                  // that are open
  int running = 0;
  const auto& commands = script.commands;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const std::vector<ShellWord>& words = commands[i].words;
    if (words.empty()) continue;
    const bool opens = i + 1 < commands.size() && !commands[i + 1].words.empty() &&
                       commands[i + 1].words[0].raw == "{";
    if (opens) body = words.back().raw;
    const std::string& first = words[0].raw;
    if (first == "for" || first == "while" || first == "until") ++loop;
    if (std::find(kOther.begin(), kOther.end(), first) != kOther.end()) running = 0;
    if (first == "done" && loop > 0) --loop;
    const std::size_t program = std::min(PartsOf(commands[i]).first, words.size() - 1);
    const auto function = functions.find(words[program].raw);
    const std::string seen =
        FindLauncher(commands[i]).value_or(function == functions.end() ? "" : function->second);
    if (!body.empty() && !seen.empty()) functions[body] = seen;
    if (first == "}") body.clear();
    if (seen.empty() || commands[i].joiner != "&") continue;
    running += loop > 0 && !WaitsInLoop(commands, i) ? 2 : 1;
    if (running > 1) return seen;
  }
  return {};
}

std::string LeftInBackground(const ShellScript& script) {
  static constexpr std::array<std::string_view, 6> kStay = {"wait",  "sleep", "tail",
                                                            "while", "until", "fg"};
  if (script.compound) return {};
  std::string left;
  int left_weight = 0;
  const std::set<std::size_t> background = InBackground(script);
  for (std::size_t i = 0; i < script.commands.size(); ++i) {
    const ShellCommand& command = script.commands[i];
    const std::size_t program = PartsOf(command).first;  // behind `exec`, `time`
    if (program >= command.words.size()) continue;
    const std::string& word = command.words[program].raw;
    const int weight = Weight(command);
    if (command.joiner == "&") {
      if (background.count(i) == 0) continue;
      left = word;
      left_weight = weight;
      continue;
    }
    // A later command in the foreground that looks as much like the training: the script lasts as
    // long as that one does.
    const bool trains = weight > 0 && weight >= left_weight;
    if (trains || std::find(kStay.begin(), kStay.end(), word) != kStay.end()) left.clear();
  }
  return left;
}

std::vector<Finding> HiddenStatus(const ShellScript& script, const std::string& where) {
  const std::set<std::size_t> background = InBackground(script);
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
    if (joiner == "&" && background.count(i) == 0) continue;
    if (joiner == "&" && !WaitBehind(script).empty()) {
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
