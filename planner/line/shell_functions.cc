#include "planner/line/shell_functions.h"

namespace launch {

FunctionReader::Step FunctionReader::Take(const ShellCommand& command, const ShellCommand* next) {
  const std::vector<ShellWord>& words = command.words;
  if (words.empty()) return open_ ? Step::kWithin : Step::kOutside;
  const bool word = words[0].raw == "function" && words.size() > 1;
  if (word && words.size() > 2 && words[2].raw == "{") ++braces_;
  if (!open_) {
    // The brackets end a command of their own.
    const bool brackets = words.size() == 1 && command.joiner == ";" && next != nullptr &&
                          !next->words.empty() && next->words[0].raw == "{";
    if (!word && !brackets) return Step::kOutside;
    name_ = words[word ? 1 : 0].raw;
    open_ = true;
    return Step::kOpens;
  }
  if (words[0].raw == "{") ++braces_;
  if (words[0].raw != "}" || --braces_ > 0) return Step::kWithin;
  open_ = false;
  braces_ = 0;
  return Step::kCloses;
}

}  // namespace launch
