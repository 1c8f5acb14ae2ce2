#include "planner/line/called_script.h"

#include <algorithm>
#include <array>
#include <optional>

#include "planner/line/launcher_words.h"
#include "planner/line/line_prefix.h"

namespace launch {
namespace {

bool IsShell(std::string_view program) {
  static constexpr std::array<std::string_view, 5> kShells = {"bash", "sh", "zsh", "dash", "ksh"};
  return std::find(kShells.begin(), kShells.end(), program) != kShells.end();
}

// Programs that start what follows them, behind flags and numbers of their own.
bool IsStarter(std::string_view program) {
  static constexpr std::array<std::string_view, 28> kStarters = {
      "exec",   "time",  "nohup",  "command", "env",     "nice",     "ionice",
      "chrt",   "sudo",  "stdbuf", "setsid",  "numactl", "timeout",  "taskset",
      "conda",  "mamba", "uv",     "pixi",    "hatch",   "poetry",   "micromamba",
      "pipenv", "rye",   "pdm",    "nsys",    "strace",  "xvfb-run", "unbuffer"};
  return std::find(kStarters.begin(), kStarters.end(), program) != kStarters.end();
}

bool EndsAsScript(const ShellWord& word) {
  return word.value.ends_with(".sh") || word.value.ends_with(".bash");
}

// Index of what a starter starts, as far as it is a shell or a script; words.size(): neither.
std::size_t StartedBy(const std::vector<ShellWord>& words, std::size_t at) {
  for (std::size_t i = at + 1; i < words.size(); ++i) {
    const bool value = words[i].value.starts_with('-') || AssignmentOf(words[i]).has_value();
    if (!value && (IsShell(ProgramOf(words[i])) || EndsAsScript(words[i]))) return i;
    if (!value && IsPython(words[i].value)) break;
  }
  return words.size();
}

// Index of the script among the words of a shell's call; absent: a text (-c), or standard input.
std::optional<std::size_t> ArgumentOfShell(const std::vector<ShellWord>& words, std::size_t at) {
  for (std::size_t i = at + 1; i < words.size(); ++i) {
    const std::string& word = words[i].value;
    const bool flag = word.size() > 1 && (word[0] == '-' || word[0] == '+');
    if (!flag) return i;
    if (word == "--") return i + 1 < words.size() ? std::optional(i + 1) : std::nullopt;
    if (word == "--rcfile" || word == "--init-file") ++i;
    if (word[1] == '-') continue;
    if (word.find_first_of("cs") != std::string::npos) return std::nullopt;
    if (word.back() == 'o' || word.back() == 'O') ++i;  // -o pipefail
  }
  return std::nullopt;
}

// "bash < train.sh"
std::string InputOf(const ShellCommand& command) {
  for (const ShellRedirect& redirect : command.redirects) {
    const std::string& raw = redirect.raw;
    if (raw.starts_with('<') && !raw.starts_with("<<") && !raw.starts_with("<&"))
      return redirect.target;
  }
  return {};
}

}  // namespace

CalledScript CalledScriptOf(const ShellCommand& command, const KnownVariables& known) {
  const std::vector<ShellWord>& words = command.words;
  std::size_t i = PartsOf(command).first;
  while (i < words.size() && (StandsBeforeCommand(words[i].raw) || AssignmentOf(words[i]))) ++i;
  const std::size_t front = i;
  if (i < words.size() && IsStarter(ProgramOf(words[i]))) i = StartedBy(words, i);
  if (i >= words.size()) return {};
  // `env -C DIR`, `uv run --directory DIR`: in a place that is not followed.
  const bool elsewhere =
      std::any_of(words.begin() + static_cast<std::ptrdiff_t>(front),
                  words.begin() + static_cast<std::ptrdiff_t>(i), [](const ShellWord& word) {
                    return word.value == "-C" || word.value.starts_with("--chdir") ||
                           word.value.starts_with("--directory");
                  });
  CalledScript called;
  const std::string_view program = ProgramOf(words[i]);
  called.sourced = program == "source" || program == ".";
  if (called.sourced || IsShell(program)) {
    const auto argument = ArgumentOfShell(words, i);
    const std::string input = argument || called.sourced ? std::string() : InputOf(command);
    if (!argument && input.empty()) return {};
    called.by_name = true;
    called.word = argument.value_or(words.size());
    called.shown = argument ? words[*argument].raw : input;
    if (!argument && input.find_first_of("$`\"'*") == std::string::npos) called.path = input;
  } else {
    called.word = i;
    called.by_name = EndsAsScript(words[i]);
    if (!called.by_name && words[i].value.find('/') == std::string::npos) return {};
    if (!called.by_name && (IsPython(words[i].value) || words[i].value.ends_with(".py"))) return {};
    called.shown = words[i].raw;
  }
  if (called.word < words.size() && !elsewhere)
    called.path = FixedValue(words[called.word], known).value_or(std::string());
  return called;
}

bool IsShellScript(std::string_view text) {
  if (!text.starts_with("#!") || text.find('\0') != std::string_view::npos) return false;
  std::string_view line = text.substr(0, text.find_first_of("\r\n"));
  const std::size_t flags = line.find(" -");
  if (flags != std::string_view::npos && !line.starts_with("#!/usr/bin/env"))
    line = line.substr(0, flags);
  return line.find("sh", line.find_last_of("/ ") + 1) != std::string_view::npos;
}

std::string ShellScriptOf(const ShellCommand& command) {
  const CalledScript called = CalledScriptOf(command, {});
  return called.by_name ? called.path : std::string();
}

}  // namespace launch
