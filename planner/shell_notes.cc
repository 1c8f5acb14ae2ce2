#include "planner/shell_notes.h"

#include "planner/launcher_words.h"
#include "planner/line_prefix.h"

namespace launch {
namespace {

// `torchrun ...; echo done`: what comes behind the launcher gives the exit code.
std::vector<Finding> LaterStatus(const ShellScript& script) {
  if (script.compound) return {};
  bool stops = false;  // set -e
  for (std::size_t i = 0; i + 1 < script.commands.size(); ++i) {
    const ShellCommand& command = script.commands[i];
    if (command.words.size() > 1 && command.words[0].raw == "set") {
      const std::string& flags = command.words[1].value;
      stops = stops || (flags[0] == '-' && flags.find('e') != std::string::npos);
    }
    ShellScript alone;
    alone.commands.push_back(command);
    const bool last = script.commands[i + 1].words.empty();
    if (stops || last || IsPreparation(command) || command.joiner == "&&" || !FindLauncher(alone))
      continue;
    return {MakeFinding("exit_code_hidden", Severity::kWarning,
                        "`" + script.commands[i + 1].words.front().raw +
                            "` behind the launcher in run: its exit code is the job's",
                        "write `set -e` in front, or && in between")};
  }
  return {};
}

}  // namespace

std::string WaitBehind(const ShellScript& script) {
  bool left = false;
  for (const ShellCommand& command : script.commands) {
    if (!command.words.empty() && command.words[0].raw == "wait") left = false;
    if (command.joiner == "&") left = true;
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

std::vector<Finding> HiddenStatus(const ShellScript& script) {
  for (const ShellCommand& command : script.commands) {
    const std::string& joiner = command.joiner;
    if (joiner != "|" && joiner != "||" && joiner != "&") continue;
    if (joiner == "&" && !WaitBehind(script).empty()) {
      return {MakeFinding("background", Severity::kNotice,
                          "& in run: launch waits for the command, as the job would end otherwise",
                          "leave it out; a job runs in the background anyway")};
    }
    return {MakeFinding("exit_code_hidden", Severity::kWarning,
                        "\"" + joiner + "\" in run: the exit code of a rank is not the training's",
                        "leave it out; launch keeps the output of every rank itself")};
  }
  return LaterStatus(script);
}

}  // namespace launch
