#include "planner/line/python_words.h"

#include <algorithm>
#include <string_view>

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

}  // namespace launch
