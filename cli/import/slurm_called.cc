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

void NoteUse(const std::string& file, const SlurmUse& use, bool task_is_node, JobFileDraft& draft) {
  const std::string at = file + ":" + std::to_string(use.line) + ": " + use.name;
  const std::string twin(TwinOfSlurm(use.name, task_is_node));
  if (twin.empty())
    draft.Note(at + " has no value under launch, which has no twin for it");
  else
    draft.Note(at + " has no value under launch: read " + twin + " there, or put `export " +
               use.name + "=$" + twin + "` in front of run");
}

}  // namespace

void NoteCalledScripts(const std::string& run, const std::string& path, const std::string& workdir,
                       bool task_is_node, JobFileDraft& draft) {
  const CalledFiles files(path, workdir);
  std::set<std::string> told;     // or given a value by run itself
  std::set<std::string> visited;  // files
  std::deque<std::pair<std::string, ShellScript>> open;
  if (Result<ShellScript> script = ReadShell(run)) open.emplace_back("", *std::move(script));
  while (!open.empty() && visited.size() < kMostScripts) {
    const auto [name, script] = std::move(open.front());
    open.pop_front();
    if (!name.empty()) {
      for (const SlurmUse& use : UsesOfShell(script)) {
        if (told.insert(use.name).second) NoteUse(name, use, task_is_node, draft);
      }
    }
    KnownVariables known;
    for (const ShellCommand& command : script.commands) {
      for (const ShellWord& word : command.words) {
        TakeAssignment(word, known);
        if (const auto assignment = AssignmentOf(word)) told.insert(assignment->name);
      }
      const std::string shell = CalledScriptOf(command, known).path;
      const std::string python = shell.empty() ? PythonFileOf(command, known) : std::string();
      const std::string& called = shell.empty() ? python : shell;
      if (called.empty() || !visited.insert(called).second) continue;
      const std::optional<std::string> text = files.Text(called);
      if (!text) continue;
      if (!shell.empty()) {
        if (Result<ShellScript> read = ReadShell(*text))
          open.emplace_back(called, *std::move(read));
        continue;
      }
      for (const SlurmUse& use : UsesOfPython(*text)) {
        if (told.insert(use.name).second) NoteUse(called, use, task_is_node, draft);
      }
    }
  }
}

}  // namespace launch
