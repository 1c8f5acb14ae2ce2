#include "cli/import/slurm_called.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/import/slurm_commands.h"
#include "common/foreign_file.h"
#include "planner/line/called_script.h"
#include "planner/line/launcher_words.h"
#include "planner/line/shell_text.h"
#include "planner/line/shell_values.h"

namespace launch {
namespace {

constexpr std::size_t kMostScripts = 32;            // followed: they may call each other
constexpr std::size_t kLongestScript = 256 * 1024;  // bytes

struct SlurmUse {
  std::string name;
  int line = 0;
};

bool IsOfSlurm(std::string_view name) { return name.starts_with("SLURM_"); }

// Each once, with its first line. What the script gives a value itself is no use.
std::vector<SlurmUse> UsesOfShell(const ShellScript& script) {
  std::vector<SlurmUse> uses;
  std::set<std::string> seen;
  for (const ShellCommand& command : script.commands) {
    ShellScript one;
    one.commands = {command};
    for (const ShellUse& use : VariablesUsed(one)) {
      if (!IsOfSlurm(use.name) || !seen.insert(use.name).second) continue;
      const auto word = std::ranges::find_if(command.words, [&](const ShellWord& each) {
        return each.raw.find(use.name) != std::string::npos;
      });
      const int line = command.words.empty()         ? 1
                       : word != command.words.end() ? word->line
                                                     : command.words.front().line;
      uses.push_back({use.name, line});
    }
    for (const ShellWord& word : command.words) {
      if (const auto assignment = AssignmentOf(word)) seen.insert(assignment->name);
    }
  }
  return uses;
}

// os.environ["SLURM_PROCID"], which has to be there; a program that asks first does without.
std::vector<SlurmUse> UsesOfPython(std::string_view text) {
  std::vector<SlurmUse> uses;
  std::set<std::string> seen;
  int line = 1;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\n') ++line;
    if (!text.substr(at).starts_with("environ[")) continue;
    const std::size_t begin = at + std::string_view("environ[").size();
    if (begin >= text.size() || (text[begin] != '"' && text[begin] != '\'')) continue;
    const std::size_t end = text.find(text[begin], begin + 1);
    if (end == std::string_view::npos) break;
    const std::string name(text.substr(begin + 1, end - begin - 1));
    const bool asked = text.find(name + "\" in ") != std::string_view::npos ||
                       text.find(name + "' in ") != std::string_view::npos;
    if (IsOfSlurm(name) && !asked && seen.insert(name).second) uses.push_back({name, line});
  }
  return uses;
}

// "python -u train.py": the file that it runs; empty: none.
std::string PythonFileOf(const ShellCommand& command, const KnownVariables& known) {
  bool python = false;
  for (const ShellWord& word : command.words) {
    python = python || IsPython(word.value) || ProgramOf(word) == "torchrun";
    if (python && word.value.ends_with(".py")) return FixedValue(word, known).value_or("");
  }
  return {};
}

class CalledFiles {
 public:
  CalledFiles(const std::string& path, const std::string& workdir)
      : places_{workdir, std::filesystem::path(path).parent_path().string()} {}

  std::optional<std::string> Text(const std::string& name) const {
    for (const std::string& place : places_) {
      auto text = ReadAll((std::filesystem::path(place) / name).string(), kLongestScript);
      if (text) return *std::move(text);
    }
    return std::nullopt;
  }

 private:
  std::vector<std::string> places_;
};

// Follows the scripts, each once.
class CalledScripts {
 public:
  explicit CalledScripts(CalledFiles files) : files_(std::move(files)) {}

  void Follow(const std::string& run) {
    if (Result<ShellScript> script = ReadShell(run)) open_.emplace_back("", *std::move(script));
    while (!open_.empty() && visited_.size() < kMostScripts) {
      const auto [name, script] = std::move(open_.front());
      open_.pop_front();
      if (!name.empty()) Take(name, UsesOfShell(script));
      launcher_ = launcher_ || FindLauncher(script).has_value();
      KnownVariables known;
      for (const ShellCommand& command : script.commands) Visit(command, known);
    }
  }

  const std::vector<std::pair<std::string, SlurmUse>>& uses() const { return uses_; }
  bool launcher() const { return launcher_; }

 private:
  void Take(const std::string& file, const std::vector<SlurmUse>& uses) {
    for (const SlurmUse& use : uses) {
      if (seen_.insert(use.name).second) uses_.emplace_back(file, use);
    }
  }

  void Visit(const ShellCommand& command, KnownVariables& known) {
    for (const ShellWord& word : command.words) {
      TakeAssignment(word, known);
      if (const auto assignment = AssignmentOf(word)) seen_.insert(assignment->name);
    }
    const std::string shell = CalledScriptOf(command, known).path;
    const std::string called = shell.empty() ? PythonFileOf(command, known) : shell;
    if (called.empty() || !visited_.insert(called).second) return;
    const std::optional<std::string> text = files_.Text(called);
    if (!text) return;
    if (shell.empty()) {
      Take(called, UsesOfPython(*text));
    } else if (Result<ShellScript> read = ReadShell(*text)) {
      open_.emplace_back(called, *std::move(read));
    }
  }

  CalledFiles files_;
  std::set<std::string> seen_;     // variables: used, or given a value
  std::set<std::string> visited_;  // files
  std::deque<std::pair<std::string, ShellScript>> open_;
  std::vector<std::pair<std::string, SlurmUse>> uses_;  // with their files
  bool launcher_ = false;                               // one of the texts calls one
};

}  // namespace

bool CallsLauncher(const std::string& run, const std::string& path, const std::string& workdir) {
  CalledScripts scripts(CalledFiles(path, workdir));
  scripts.Follow(run);
  return scripts.launcher();
}

void NoteCalledScripts(const std::string& run, const std::string& path, const std::string& workdir,
                       std::int64_t tasks_per_node, const SlurmNumbers& numbers,
                       JobFileDraft& draft) {
  CalledScripts scripts(CalledFiles(path, workdir));
  scripts.Follow(run);
  const SlurmNumbers written = WrittenOut(numbers, scripts.launcher());
  for (const auto& [file, use] : scripts.uses()) {
    const std::string says =
        file + ":" + std::to_string(use.line) + ": " + use.name + " has no value under launch";
    const std::string twin(TwinOfSlurm(use.name, tasks_per_node == 1 && scripts.launcher()));
    if (const auto number = written.find(use.name); number != written.end())
      draft.Note(says + ": put `export " + use.name + "=" + std::to_string(number->second) +
                 "` in front of run");
    else if (twin.empty())
      draft.Note(says + ", which has no twin for it");
    else
      draft.Note(says + ": read " + twin + " there, or put `export " + use.name + "=$" + twin +
                 "` in front of run");
  }
}

}  // namespace launch
