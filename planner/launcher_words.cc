#include "planner/launcher_words.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "planner/refused_starters.h"

namespace launch {
namespace {

std::string_view BaseName(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

constexpr std::array<std::string_view, 2> kLaunchers = {"torchrun", "deepspeed"};

// Programs that start what follows them; their own flags come first.
constexpr std::array<std::string_view, 43> kWrappers = {
    "exec",   "time",    "nohup",    "command",    "env",       "numactl",   "nsys",
    "ncu",    "strace",  "ltrace",   "gdb",        "perf",      "py-spy",    "nice",
    "ionice", "taskset", "timeout",  "stdbuf",     "unbuffer",  "setsid",    "chrt",
    "flock",  "uv",      "pixi",     "hatch",      "pipenv",    "rye",       "pdm",
    "conda",  "mamba",   "xargs",    "micromamba", "poetry",    "sudo",      "then",
    "do",     "else",    "parallel", "xvfb-run",   "catchsegv", "apptainer", "singularity",
    "ts"};

bool Contains(const auto& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

std::optional<std::string> LauncherAt(const std::vector<ShellWord>& words, std::size_t i) {
  const std::string_view program = ProgramOf(words[i]);
  if (Contains(kLaunchers, program)) return std::string(program);
  if (FindAccelerate(words, i)) return "accelerate launch";
  if (FindTorchrun(words, i)) return "torchrun";
  if (IsPython(words[i].value)) {
    for (std::size_t k = i + 1; k < words.size(); ++k) {
      if (words[k].value == "-m" && k + 1 < words.size()) {
        if (words[k + 1].value.rfind("deepspeed", 0) == 0) return "deepspeed";
        return std::nullopt;
      }
      if (words[k].value.rfind('-', 0) == 0) continue;
      const std::string_view script = ProgramOf(words[k]);
      if (Contains(kLaunchers, script)) return std::string(script);
      return std::nullopt;
    }
  }
  if (program == "bash" || program == "sh") {
    for (std::size_t k = i + 1; k + 1 < words.size(); ++k) {
      if (words[k].value.rfind('-', 0) == 0 && words[k].value.find('c') != std::string::npos) {
        return FindLauncherInText(words[k + 1].value);
      }
    }
  }
  return std::nullopt;
}

// What is never data in a training script, whatever program stands in front of it.
std::optional<std::string> LauncherAnywhere(const std::vector<ShellWord>& words, std::size_t i) {
  if (ProgramOf(words[i]) == "torchrun") return "torchrun";
  const std::string next = i + 1 < words.size() ? words[i + 1].value : "";
  if (ProgramOf(words[i]) == "accelerate" && next == "launch") return "accelerate launch";
  if (words[i].value == "-c" && next.find(' ') != std::string::npos)
    return FindLauncherInText(next);
  const std::string& word = words[i].value;
  const std::string module = word == "-m" ? next : word.rfind("-m", 0) == 0 ? word.substr(2) : "";
  if (module == "torch.distributed.run" || module == "torch.distributed.launch") return "torchrun";
  if (module == "accelerate.commands.launch") return "accelerate launch";
  if (module == "deepspeed.launcher.runner") return "deepspeed";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> FindLauncherInText(const std::string& text) {
  const auto inner = ReadShell(text);
  return inner ? FindLauncher(*inner) : std::nullopt;
}

std::string_view WhichOf(std::string_view raw) {
  if (raw.size() > 1 && raw.front() == '"' && raw.back() == '"') {
    raw = raw.substr(1, raw.size() - 2);
  }
  for (std::string_view open : {"$(which ", "$(command -v ", "`which ", "`command -v "}) {
    if (raw.substr(0, open.size()) != open || raw.size() <= open.size() + 1) continue;
    return raw.substr(open.size(), raw.size() - open.size() - 1);
  }
  return {};
}

std::string_view ProgramOf(const ShellWord& word) {
  const std::string_view which = WhichOf(word.raw);
  return which.empty() ? BaseName(word.value) : which;
}

bool IsPython(std::string_view word) {
  std::string_view name = BaseName(word);
  if (name.substr(0, 6) != "python") return false;
  name.remove_prefix(6);
  return std::all_of(name.begin(), name.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.';
  });
}

bool IsShellBuiltin(std::string_view word) {
  constexpr std::array<std::string_view, 34> kBuiltins = {
      ":",       ".",      "[",    "alias",  "bg",     "break", "builtin", "cd",     "continue",
      "declare", "echo",   "eval", "exit",   "export", "false", "fg",      "hash",   "let",
      "local",   "printf", "pwd",  "read",   "return", "set",   "shift",   "source", "test",
      "trap",    "true",   "type", "ulimit", "umask",  "unset", "wait"};
  return Contains(kBuiltins, word) || word == "!" || word == "{" || word == "[[";
}

namespace {

// Index of the word behind "python" and its own flags, "-m" included; absent for another program.
std::optional<std::size_t> BehindPython(const std::vector<ShellWord>& words, std::size_t first) {
  if (!IsPython(words[first].value)) return std::nullopt;
  std::size_t i = first + 1;
  while (i < words.size() && words[i].value.rfind('-', 0) == 0 && words[i].value != "-m") {
    const bool with_value = words[i].value == "-X" || words[i].value == "-W";
    i += with_value ? 2 : 1;
  }
  if (i >= words.size()) return std::nullopt;
  return i;
}

// `program` itself, one of its modules behind -m, or its file behind an interpreter.
std::optional<LauncherPlace> FindProgram(const std::vector<ShellWord>& words, std::size_t first,
                                         std::string_view program,
                                         std::initializer_list<std::string_view> modules) {
  if (first >= words.size()) return std::nullopt;
  const std::string name(program);
  if (ProgramOf(words[first]) == program) {
    const std::string_view which = WhichOf(words[first].raw);
    return LauncherPlace{first + 1, which.empty() ? words[first].value : name, "", false};
  }
  const auto behind = BehindPython(words, first);
  if (!behind) return std::nullopt;
  const std::size_t i = *behind;
  if (words[i].value == "-m" && i + 1 < words.size()) {
    const std::string& module = words[i + 1].value;
    if (!Contains(modules, module)) return std::nullopt;
    return LauncherPlace{i + 2, "python -m " + module, words[first].value,
                         module == "torch.distributed.launch"};
  }
  if (ProgramOf(words[i]) != program) return std::nullopt;
  return LauncherPlace{i + 1, name, words[first].value, false};
}

}  // namespace

std::optional<LauncherPlace> FindTorchrun(const std::vector<ShellWord>& words, std::size_t first) {
  return FindProgram(words, first, "torchrun",
                     {"torch.distributed.run", "torch.distributed.launch"});
}

std::optional<LauncherPlace> FindDeepspeed(const std::vector<ShellWord>& words, std::size_t first) {
  return FindProgram(words, first, "deepspeed", {"deepspeed", "deepspeed.launcher.runner"});
}

std::optional<LauncherPlace> FindAccelerate(const std::vector<ShellWord>& words,
                                            std::size_t first) {
  if (auto place = FindProgram(words, first, "accelerate-launch", {"accelerate.commands.launch"})) {
    return place;
  }
  auto place =
      FindProgram(words, first, "accelerate", {"accelerate.commands.accelerate_cli", "accelerate"});
  if (!place || place->first_flag >= words.size()) return std::nullopt;
  if (words[place->first_flag].value != "launch") return std::nullopt;  // config, test, env ...
  ++place->first_flag;
  return place;
}

std::optional<std::string> FindLauncher(const ShellScript& script) {
  for (const ShellCommand& command : script.commands) {
    bool wrapped = true;      // a command may stand here
    bool behind_one = false;  // the first word is a wrapper: whatever follows may be a command
    bool first = true;
    for (std::size_t i = 0; i < command.words.size(); ++i) {
      const ShellWord& word = command.words[i];
      if (const auto assignment = AssignmentOf(word)) {
        // LAUNCHER="accelerate launch --num_processes 4"
        if (assignment->value.value.find(' ') != std::string::npos) {
          if (auto seen = FindLauncherInText(assignment->value.value)) return seen;
        }
        continue;
      }
      if (wrapped) {
        if (const auto refused = FindRefused(command.words, i)) return refused->program;
      }
      if (auto seen = LauncherAnywhere(command.words, i)) return seen;
      if (!wrapped) continue;
      if (auto seen = LauncherAt(command.words, i)) return seen;
      const bool wrapper = Contains(kWrappers, ProgramOf(word));
      behind_one = first ? wrapper : behind_one;
      wrapped = behind_one || wrapper;
      first = false;
    }
  }
  return std::nullopt;
}

}  // namespace launch
