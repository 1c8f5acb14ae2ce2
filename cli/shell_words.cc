#include "cli/shell_words.h"

#include "cli/job_draft.h"
#include "common/quoted.h"

namespace launch {

std::size_t AssignedName(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos || !IsVariableName(word.substr(0, equals))) return 0;
  return equals + 1;
}

std::string JoinWords(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    // A quote in NAME= would make a command of what is a variable in front of one.
    const std::size_t name = AssignedName(word);
    text += (text.empty() ? "" : " ") + word.substr(0, name);
    if (name == 0 || name < word.size()) text += ShellQuote(std::string_view(word).substr(name));
  }
  return text;
}

}  // namespace launch
