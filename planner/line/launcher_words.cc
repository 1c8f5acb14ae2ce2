#include "planner/line/launcher_words.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "planner/line/line_prefix.h"
#include "planner/line/own_launchers.h"
#include "planner/line/python_words.h"
#include "planner/line/refused_starters.h"
#include "planner/line/shell_functions.h"
#include "planner/line/shell_values.h"
#include "planner/line/substitutions.h"

namespace launch {
namespace {

std::string_view BaseName(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

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

}  // namespace

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

bool CallsPython(const ShellCommand& command) {
  const std::size_t program = PartsOf(command).first;
  return program < command.words.size() && IsPython(command.words[program].value);
}

bool StartsPython(const ShellCommand& command) {
  const std::vector<ShellWord>& words = command.words;
  const std::size_t program = PartsOf(command).first;
  if (program >= words.size()) return false;
  if (UvProgramAt(words, program)) return true;
  const auto last = Contains(kWrappers, ProgramOf(words[program])) ? words.size() : program + 1;
  return std::any_of(words.begin() + static_cast<std::ptrdiff_t>(program),
                     words.begin() + static_cast<std::ptrdiff_t>(last),
                     [](const ShellWord& word) { return IsPython(word.value); });
}

bool IsShellBuiltin(std::string_view word) {
  constexpr std::array<std::string_view, 34> kBuiltins = {
      ":",       ".",      "[",    "alias",  "bg",     "break", "builtin", "cd",     "continue",
      "declare", "echo",   "eval", "exit",   "export", "false", "fg",      "hash",   "let",
      "local",   "printf", "pwd",  "read",   "return", "set",   "shift",   "source", "test",
      "trap",    "true",   "type", "ulimit", "umask",  "unset", "wait"};
  return Contains(kBuiltins, word) || word == "!" || word == "{" || word == "[[";
}

bool StandsBeforeCommand(std::string_view word) {
  constexpr std::array<std::string_view, 9> kBefore = {"then", "do",   "else",  "{",    "!",
                                                       "if",   "elif", "while", "until"};
  return Contains(kBefore, word);
}

namespace {

// "/x/site-packages/torch/distributed/run.py", as debuggers call a module.
bool IsFileOf(std::string_view module, std::string_view path) {
  std::string file = "/" + std::string(module) + ".py";
  std::replace(file.begin(), file.end() - 3, '.', '/');
  return module.find('.') != std::string_view::npos && path.ends_with(file);
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
  const auto python = IsPython(words[first].value) ? PythonProgramOf(words, first) : std::nullopt;
  if (!python || python->runs == PythonRuns::kText) return std::nullopt;
  if (python->runs == PythonRuns::kModule) {
    if (!Contains(modules, python->name)) return std::nullopt;
    return LauncherPlace{python->behind, "python -m " + python->name, words[first].value,
                         python->name == "torch.distributed.launch"};
  }
  for (const std::string_view module : modules) {
    if (IsFileOf(module, python->name))
      return LauncherPlace{python->behind, "python " + python->name, words[first].value,
                           module == "torch.distributed.launch"};
  }
  if (ProgramOf(words[python->word]) != program) return std::nullopt;
  return LauncherPlace{python->behind, name, words[first].value, false};
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

namespace {

// "-c", "-lc": a text to execute follows.
bool TakesText(const std::string& flag) {
  return flag.size() > 1 && flag[0] == '-' && flag[1] != '-' && flag.back() == 'c';
}

class LauncherSearch {
 public:
  std::optional<std::string> In(const ShellScript& script) {
    runners_.merge(FunctionsThatRun(script));
    const std::size_t training = LastTraining(script);
    for (std::size_t i = 0; i < script.commands.size(); ++i) {
      containers_train_ = i >= training;
      if (auto seen = In(script.commands[i])) return seen;
    }
    return std::nullopt;
  }

  std::optional<std::string> In(const ShellCommand& command) {
    if (auto seen = InAssignments(command)) return seen;
    const std::vector<ShellWord> words = splitter_.Split(command.words, known_);
    for (const ShellWord& word : command.words) TakeAssignment(word, known_);
    if (auto seen = InWords(words)) return seen;
    for (const std::string_view document : ShellDocuments(command)) {
      if (auto seen = InText(document)) return seen;
    }
    for (const ShellWord& word : command.words) {
      for (const std::string_view text : LaunchingSubstitutions(word)) {
        if (auto seen = InText(text)) return seen;
      }
    }
    return std::nullopt;
  }

 private:
  // The index of the last command that trains, as far as its words say; 0: none does.
  static std::size_t LastTraining(const ShellScript& script) {
    for (std::size_t i = script.commands.size(); i-- > 1;) {
      const ShellCommand& command = script.commands[i];
      const std::size_t first = PartsOf(command).first;
      if (first >= command.words.size()) continue;
      if (CallsPython(command) || FindTorchrun(command.words, first) ||
          FindDeepspeed(command.words, first) || FindAccelerate(command.words, first)) {
        return i;
      }
    }
    return 0;
  }

  std::optional<std::string> InText(std::string_view text) {
    std::optional<std::string> seen;
    nested_.Visit(text, [&](const ShellScript& inner) { seen = In(inner); });
    return seen;
  }

  // LAUNCHER="accelerate launch --num_processes 4", RUN=(torchrun --nproc_per_node 4)
  std::optional<std::string> InAssignments(const ShellCommand& command) {
    for (const ShellWord& word : command.words) {
      if (auto seen = word.elements.empty() ? std::nullopt : InWords(word.elements)) return seen;
      const auto assignment = AssignmentOf(word);
      if (!assignment || assignment->value.value.find(' ') == std::string::npos) continue;
      if (auto seen = InText(assignment->value.value)) return seen;
    }
    return std::nullopt;
  }

  std::optional<std::string> InWords(const std::vector<ShellWord>& words) {
    bool wrapped = true;      // a command may stand here
    bool behind_one = false;  // the first word is a wrapper: whatever follows may be a command
    bool first = true;
    bool training = true;  // may still stand behind
    bool parallel = false;
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (AssignmentOf(words[i])) continue;
      if (Installs(words, i)) return std::nullopt;
      const auto refused = wrapped ? FindRefused(words, i) : std::nullopt;
      if (refused && refused->only_with_training && training) training = TrainsBehind(words, i);
      if (refused && (training || !refused->only_with_training)) return refused->program;
      if (auto seen = Anywhere(words, i)) return seen;
      if (!wrapped) continue;
      // parallel 'torchrun t.py --lr {}' ::: 1 2
      parallel = parallel || ProgramOf(words[i]) == "parallel";
      if (parallel && words[i].value.find(' ') != std::string::npos) {
        if (auto seen = InText(words[i].value)) return seen;
      }
      if (FindDeepspeed(words, i)) return "deepspeed";
      if (FindAccelerate(words, i)) return "accelerate launch";
      if (const auto own = OwnLauncherIn(words, i)) return own;
      const bool wrapper =
          Contains(kWrappers, ProgramOf(words[i])) || runners_.contains(words[i].raw);
      behind_one = first ? wrapper : behind_one;
      wrapped = behind_one || wrapper;
      first = false;
    }
    return std::nullopt;
  }

  // `uv pip install trl peft`: what follows are names of packages.
  static bool Installs(const std::vector<ShellWord>& words, std::size_t i) {
    constexpr std::array<std::string_view, 7> kInstallers = {"pip",        "pip3", "conda", "mamba",
                                                             "micromamba", "uv",   "poetry"};
    const bool verb = words[i].value == "install" || words[i].value == "add";
    return verb && i > 0 && Contains(kInstallers, ProgramOf(words[i - 1]));
  }

  // Not `conda activate tune`, nor `conda run -n tune`.
  static std::optional<std::string> OwnLauncherIn(const std::vector<ShellWord>& words,
                                                  std::size_t i) {
    if (i > 0 && words[i - 1].value.starts_with('-')) return std::nullopt;
    const auto place = OwnLauncherAt(words, i);
    return place ? std::optional(std::string(place->own->program)) : std::nullopt;
  }

  // What is never data in a training script, whatever program stands in front of it.
  std::optional<std::string> Anywhere(const std::vector<ShellWord>& words, std::size_t i) {
    if (ProgramOf(words[i]) == "torchrun") return "torchrun";
    const std::string next = i + 1 < words.size() ? words[i + 1].value : "";
    if (ProgramOf(words[i]) == "accelerate" && next == "launch") return "accelerate launch";
    const std::string& word = words[i].value;
    const bool text = TakesText(word) || word == "eval" || runners_.contains(word);
    if (text && next.find(' ') != std::string::npos) return InText(next);
    const auto named = ModuleAt(words, i);
    const std::string module = named ? named->name : "";
    if (module == "torch.distributed.run" || module == "torch.distributed.launch" ||
        FindTorchrun(words, i))
      return "torchrun";
    if (module == "accelerate.commands.launch") return "accelerate launch";
    if (module == "deepspeed.launcher.runner") return "deepspeed";
    return std::nullopt;
  }

  // "ssh node python train.py", "ssh node 'cd x && torchrun ...'"
  bool TrainsBehind(const std::vector<ShellWord>& words, std::size_t at) {
    for (std::size_t i = at + 1; i < words.size(); ++i) {
      // A container with the GPUs behind which nothing trains is the training itself.
      if (containers_train_ &&
          (words[i].value.starts_with("--gpus") || words[i].value == "--runtime=nvidia")) {
        return true;
      }
      if (IsPython(words[i].value) || FindTorchrun(words, i) || FindDeepspeed(words, i) ||
          FindAccelerate(words, i)) {
        return true;
      }
      if (words[i].value.find(' ') == std::string::npos) continue;
      if (InText(words[i].value) || HasPython(words[i].value)) return true;
    }
    return false;
  }

  bool HasPython(std::string_view text) {
    bool has = false;
    nested_.Visit(text, [&has](const ShellScript& inner) {
      has = std::ranges::any_of(inner.commands, CallsPython);
    });
    return has;
  }

  bool containers_train_ = true;  // nothing behind the command at hand does
  NestedTexts nested_;
  WordSplitter splitter_;
  KnownVariables known_;
  std::set<std::string, std::less<>> runners_;  // functions that execute their arguments
};

}  // namespace

std::optional<std::string> FindLauncher(const ShellScript& script) {
  return LauncherSearch().In(script);
}

std::optional<std::string> FindLauncher(const ShellCommand& command) {
  return LauncherSearch().In(command);
}

}  // namespace launch
