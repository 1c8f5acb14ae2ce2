#include "planner/line/python_words.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "planner/line/launcher_words.h"

namespace launch {
namespace {

// Flags that stand alone and may be written in one word: "-uB", "-OO".
constexpr std::string_view kSwitches = "bBdEiIOPqRsSuvx";

// Index in the word of the first letter that is no switch; absent: it is no word of short flags.
std::optional<std::size_t> BehindSwitches(std::string_view word) {
  if (word.size() < 2 || word[0] != '-' || word[1] == '-') return std::nullopt;
  return std::min(word.find_first_not_of(kSwitches, 1), word.size());
}

}  // namespace

std::optional<PythonProgram> ModuleAt(const std::vector<ShellWord>& words, std::size_t i) {
  const std::string& word = words[i].value;
  const auto at = BehindSwitches(word);
  if (!at || *at == word.size() || word[*at] != 'm') return std::nullopt;
  if (*at + 1 < word.size())
    return PythonProgram{PythonRuns::kModule, i, word.substr(*at + 1), i + 1};
  if (i + 1 >= words.size()) return std::nullopt;
  return PythonProgram{PythonRuns::kModule, i, words[i + 1].value, i + 2};
}

std::optional<PythonProgram> PythonProgramOf(const std::vector<ShellWord>& words,
                                             std::size_t first) {
  for (std::size_t i = first + 1; i < words.size(); ++i) {
    const std::string& word = words[i].value;
    if (word.empty() || word[0] != '-') return PythonProgram{PythonRuns::kScript, i, word, i + 1};
    if (word == "-") return std::nullopt;
    const auto at = BehindSwitches(word);
    if (word == "--check-hash-based-pycs") ++i;
    if (!at || *at == word.size()) continue;
    if (word[*at] == 'm') return ModuleAt(words, i);
    const bool apart = *at + 1 == word.size();
    if (word[*at] == 'c') return PythonProgram{PythonRuns::kText, i, "", i + (apart ? 2 : 1)};
    if ((word[*at] == 'W' || word[*at] == 'X') && apart) ++i;
  }
  return std::nullopt;
}

std::optional<std::size_t> UvProgramAt(const std::vector<ShellWord>& words, std::size_t first) {
  constexpr std::array<std::string_view, 16> kValues = {
      "--extra",    "--with",       "--env-file",          "--package",   "--python",        "-p",
      "--group",    "--index",      "--project",           "--directory", "--with-editable", "-w",
      "--no-group", "--only-group", "--with-requirements", "--no-extra"};
  const auto is = [&](std::size_t i, std::string_view word) {
    return i < words.size() && words[i].value == word;
  };
  if (!is(first, "uv") || !is(first + 1, "run")) return std::nullopt;
  for (std::size_t i = first + 2; i < words.size(); ++i) {
    const std::string& word = words[i].value;
    if (word == "-m" || word == "--module") return i;
    if (std::ranges::find(kValues, word) != kValues.end()) {
      ++i;
    } else if (!word.starts_with('-')) {
      return word.ends_with(".py") ? std::optional(i) : std::nullopt;
    }
  }
  return std::nullopt;
}

std::vector<std::string> PythonFilesOf(const std::vector<ShellWord>& words) {
  if (words.empty()) return {};
  if (!IsPython(words[0].value)) return {words[0].value};
  const auto program = PythonProgramOf(words, 0);
  if (!program || program->runs == PythonRuns::kText || program->name.empty()) return {};
  if (program->runs == PythonRuns::kScript) return {program->name};
  return ModuleFiles(program->name);
}

std::vector<std::string> ModuleFiles(std::string module) {
  std::ranges::replace(module, '.', '/');
  return {module + ".py", module + "/__main__.py"};
}

}  // namespace launch
