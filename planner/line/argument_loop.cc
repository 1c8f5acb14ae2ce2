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

// "{ while ...", "then for ...": the words from that of the loop on.
std::vector<ShellWord> LoopWords(const ShellCommand& command) {
  const auto& words = command.words;
  std::size_t at = words.size() > 2 && words[0].raw == "function" ? 2 : 0;
  while (at < words.size() && words[at].raw != "while" && words[at].raw != "until" &&
         StandsBeforeCommand(words[at].raw)) {
    ++at;
  }
  return {words.begin() + static_cast<std::ptrdiff_t>(at), words.end()};
}

// "for a in "$@"", "for a": the variable; empty: other values.
std::string VariableOf(const std::vector<ShellWord>& words) {
  if (words.size() == 2) return words[1].raw;
  const bool all = words.size() == 4 && words[2].raw == "in" && words[3].raw == "\"$@\"";
  return all ? words[1].raw : std::string();
}

// What a `while` asks: "[ $# -gt 0 ]".
std::string HeadOf(const std::vector<ShellWord>& words) {
  std::string text;
  for (std::size_t i = 1; i < words.size(); ++i) {
    text += (text.empty() ? "" : " ") + words[i].raw;
  }
  return text;
}

bool CountsArguments(const std::string& head) {
  static constexpr std::array<std::string_view, 14> kHeads = {
      "[ $# -gt 0 ]",   "[ \"$#\" -gt 0 ]", "[[ $# -gt 0 ]]", "[[ \"$#\" -gt 0 ]]",
      "test $# -gt 0",  "[ $# -ne 0 ]",     "[[ $# -ne 0 ]]", "(( $# ))",
      "(($#))",         "(( $# > 0 ))",     "(($# > 0))",     "(( \"$#\" ))",
      "[ ${#} -gt 0 ]", "[[ ${#} -gt 0 ]]"};
  return std::find(kHeads.begin(), kHeads.end(), head) != kHeads.end();
}

bool EndsWithTheEmpty(const std::string& head) {
  static constexpr std::array<std::string_view, 5> kHeads = {"[ -n \"$1\" ]", "[[ -n \"$1\" ]]",
                                                             "[[ -n $1 ]]", "[ \"$1\" != \"\" ]",
                                                             "[[ \"$1\" != \"\" ]]"};
  return std::find(kHeads.begin(), kHeads.end(), head) != kHeads.end();
}

bool Shifts(const ShellCommand& command) {
  return std::any_of(command.words.begin(), command.words.end(),
                     [](const ShellWord& word) { return word.raw == "shift"; });
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
  const std::vector<ShellWord> head = LoopWords(commands[at]);
  if (head.size() < 2) return loop;
  const std::string& verb = head[0].raw;
  const bool each = verb == "for";
  if (each) loop.variable = VariableOf(head);
  if (each ? loop.variable.empty() : (verb != "while" && verb != "until")) return loop;
  bool shifts = each || std::any_of(head.begin(), head.end(), AsksForArguments);
  int open = 0;
  std::size_t end = 0;
  const std::size_t last = std::min(commands.size(), at + kLongestBody);
  for (std::size_t i = at + 1; i < last && end == 0; ++i) {
    open += Opened(commands[i]);
    shifts = shifts || Shifts(commands[i]);
    if (open < 0) end = i;
  }
  if (end == 0 || !shifts) return loop;
  loop.end = end;
  const ShellCommand& first = commands[at + 1];
  const bool whole = head.size() == commands[at].words.size() && !first.words.empty() &&
                     first.words[0].raw == "do" && commands[end].joiner != "|" &&
                     commands[end].joiner != "&" && (at == 0 || commands[at - 1].joiner != "|");
  const std::string text = HeadOf(head);
  loop.to_empty = verb == "while" && EndsWithTheEmpty(text);
  loop.counted = whole && (each || loop.to_empty || (verb == "while" && CountsArguments(text)));
  return loop;
}

ShellScript BodyOf(const ShellScript& script, std::size_t at, const ArgumentLoop& loop) {
  ShellScript body;
  body.compound = true;
  body.commands.assign(script.commands.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                       script.commands.begin() + static_cast<std::ptrdiff_t>(loop.end));
  auto& words = body.commands.front().words;
  words.erase(words.begin());
  if (words.empty()) body.commands.erase(body.commands.begin());
  return body;
}

std::size_t BytesOf(const ShellScript& script) {
  std::size_t bytes = 0;
  for (const ShellCommand& command : script.commands) {
    bytes += 16;
    for (const ShellWord& word : command.words) bytes += word.raw.size() + 16;
    for (const ShellRedirect& redirect : command.redirects)
      bytes += redirect.raw.size() + redirect.document.size();
  }
  return bytes;
}

}  // namespace launch
