#include "cli/shell_words.h"

#include "common/quoted.h"

namespace launch {

std::string JoinWords(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + ShellQuote(word);
  return text;
}

}  // namespace launch
