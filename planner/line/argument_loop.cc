#include "planner/line/argument_loop.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "planner/line/launcher_words.h"

namespace launch {
namespace {

constexpr std::size_t kLongestBody = 512;  // commands

bool AsksForArguments(const ShellWord& word) {
  return word.raw.find("$#") != std::string::npos || word.raw.find("$1") != std::string::npos ||
         word.raw.find("${1") != std::string::npos;
}

// "for a in "$@"", "for a": the variable; empty: other values.
std::string VariableOf(const ShellCommand& command) {
  const auto& words = command.words;
  if (words.size() == 2) return words[1].raw;
  const bool all = words.size() == 4 && words[2].raw == "in" && words[3].value == "$@";
  return all ? words[1].raw : std::string();
}

// How many more loops are open behind the command.
int Opened(const ShellCommand& command) {
  static constexpr std::array<std::string_view, 4> kLoops = {"while", "until", "for", "select"};
  for (const ShellWord& word : command.words) {
    if (word.raw == "done") return -1;
    if (std::find(kLoops.begin(), kLoops.end(), word.raw) != kLoops.end()) return 1;
    if (word.raw != "do" && !StandsBeforeCommand(word.raw)) return 0;
  }
  return 0;
}

}  // namespace

ArgumentLoop ArgumentLoopAt(const ShellScript& script, std::size_t at) {
  ArgumentLoop loop;
  const auto& commands = script.commands;
  if (at + 1 >= commands.size() || commands[at].words.size() < 2) return loop;
  const ShellCommand& head = commands[at];
  const bool each = head.words[0].raw == "for";
  if (each) loop.variable = VariableOf(head);
  const bool shifts = head.words[0].raw == "while" &&
                      std::any_of(head.words.begin(), head.words.end(), AsksForArguments);
  const ShellCommand& first = commands[at + 1];
  const bool opens = !first.words.empty() && first.words[0].raw == "do";
  if (!opens || (each ? loop.variable.empty() : !shifts)) return loop;
  int open = 0;
  const std::size_t last = std::min(commands.size(), at + kLongestBody);
  for (std::size_t i = at + 1; i < last; ++i) {
    open += Opened(commands[i]);
    if (open < 0) {
      loop.end = i;
      break;
    }
  }
  if (loop.end == 0) return loop;
  loop.body.compound = true;
  loop.body.commands.assign(commands.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                            commands.begin() + static_cast<std::ptrdiff_t>(loop.end));
  auto& words = loop.body.commands.front().words;
  words.erase(words.begin());
  if (words.empty()) loop.body.commands.erase(loop.body.commands.begin());
  return loop;
}

}  // namespace launch
