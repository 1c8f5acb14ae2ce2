#include "planner/line/substitutions.h"

#include <algorithm>
#include <array>

#include "common/text.h"

namespace launch {
namespace {

// Programs that name a launcher and do not start it.
bool OnlyAsks(std::string_view program) {
  constexpr std::array<std::string_view, 26> kAsks = {
      "which", "command", "type", "hash",    "whereis",  "pgrep",    "ps",   "pip",  "grep",
      "echo",  "printf",  "cat",  "dirname", "basename", "realpath", "ls",   "head", "tail",
      "sed",   "awk",     "find", "git",     "readlink", "cut",      "date", "conda"};
  return std::find(kAsks.begin(), kAsks.end(), program) != kAsks.end();
}

bool MayLaunch(std::string_view text) {
  constexpr std::array<std::string_view, 5> kSigns = {"torchrun", "torch.distributed", "accelerate",
                                                      "deepspeed", ".sh"};
  const std::string_view first = text.substr(0, text.find_first_of(" \t\n"));
  return !OnlyAsks(first) && std::any_of(kSigns.begin(), kSigns.end(), [&](std::string_view sign) {
    return text.find(sign) != std::string_view::npos;
  });
}

// Behind the bracket that closes the one at `open`; npos: none does.
std::size_t BehindRoundBracket(std::string_view text, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
      continue;
    }
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (depth == 0) return i + 1;
  }
  return std::string_view::npos;
}

}  // namespace

std::vector<std::string_view> LaunchingSubstitutions(const ShellWord& word) {
  std::vector<std::string_view> texts;
  const std::string_view raw = word.raw;
  if (word.fixed) return texts;
  bool single = false;
  bool twice = false;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const char c = raw[i];
    if (c == '\\' && !single) {
      ++i;
      continue;
    }
    if (c == '\'' && !twice) single = !single;
    if (c == '"' && !single) twice = !twice;
    if (single || (c != '`' && raw.substr(i, 2) != "$(")) continue;
    const bool bracket = c == '$';
    const std::size_t begin = i + (bracket ? 2 : 1);
    const std::size_t close = bracket ? BehindRoundBracket(raw, i + 1) : raw.find('`', begin);
    if (close == std::string_view::npos) break;
    const std::string_view text = Trim(raw.substr(begin, close - begin - (bracket ? 1 : 0)));
    if (MayLaunch(text)) texts.push_back(text);
    i = bracket ? close - 1 : close;
  }
  return texts;
}

}  // namespace launch
