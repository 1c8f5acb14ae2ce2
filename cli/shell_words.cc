#include "cli/shell_words.h"

#include <cctype>

namespace launch {

std::string QuoteWord(std::string_view word) {
  bool plain = !word.empty();
  for (const char c : word)
    plain = plain && (std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                      std::string_view("_-./=:,@%+").find(c) != std::string_view::npos);
  if (plain) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

std::string JoinWords(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + QuoteWord(word);
  return text;
}

}  // namespace launch
