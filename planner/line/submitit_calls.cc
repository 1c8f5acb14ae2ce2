#include "planner/line/submitit_calls.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "common/text.h"
#include "planner/line/shell_text.h"

namespace launch {
namespace {

// Texts may be hostile.
constexpr int kMostCallsFollowed = 16;
constexpr int kMostLinesBack = 2048;
constexpr std::size_t kLongestName = 128;

constexpr std::array<std::string_view, 2> kSubmitters = {"AutoExecutor(", "SlurmExecutor("};

template <std::size_t N>
bool HasOneOf(std::string_view text, const std::array<std::string_view, N>& words) {
  return std::ranges::any_of(
      words, [text](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

template <std::size_t N>
bool BeginsWithOneOf(std::string_view text, const std::array<std::string_view, N>& words) {
  return std::ranges::any_of(words,
                             [text](std::string_view word) { return text.starts_with(word); });
}

std::size_t SubmitterAt(std::string_view text) {
  std::size_t first = std::string_view::npos;
  for (const std::string_view name : kSubmitters) first = std::min(first, text.find(name));
  return first;
}

// "(folder=join(a, 'b'), cluster=c" of a call whose name begins at `at`.
std::string_view ArgumentsAt(std::string_view text, std::size_t at) {
  const std::size_t open = text.find('(', at);
  if (open == std::string_view::npos) return {};
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')' && --depth == 0) return text.substr(open, i - open);
  }
  return text.substr(open);
}

std::size_t IndentOf(std::string_view line) {
  return std::min(line.find_first_not_of(" \t"), line.size());
}

// "main" of "def main(args):"; empty: it is no head of a function.
std::string_view FunctionOfHead(std::string_view line) {
  if (line.starts_with("async ")) line = Trim(line.substr(6));
  if (!line.starts_with("def ")) return {};
  return Trim(line.substr(4, std::min(line.find('('), line.size()) - 4));
}

// The lines of a text from the one that holds a place, towards its begin.
class LinesBack {
 public:
  LinesBack(std::string_view text, std::size_t at)
      : text_(text), end_(std::min(text.find('\n', at), text.size())) {}

  bool Next(std::string_view& line) {
    if (done_ || ++count_ > kMostLinesBack) return false;
    const std::size_t before = end_ == 0 ? std::string_view::npos : text_.rfind('\n', end_ - 1);
    const std::size_t first = before == std::string_view::npos ? 0 : before + 1;
    line = text_.substr(first, end_ - first);
    done_ = first == 0;
    end_ = done_ ? 0 : before;
    return true;
  }
  bool AtBegin() const { return done_; }

 private:
  std::string_view text_;
  std::size_t end_;
  int count_ = 0;
  bool done_ = false;
};

class SurePath {
 public:
  SurePath(std::string_view text, std::string_view called) : text_(text), called_(called) {}

  // Whether whoever runs the text comes to that place, by the heads of the blocks around it and the
  // ways out before it.
  bool IsSure(std::size_t at) {
    if (++followed_ > kMostCallsFollowed) return false;
    LinesBack lines(text_, at);
    std::string_view line;
    if (!lines.Next(line) || Trim(line).starts_with('#')) return false;
    if (IsBranch(Trim(line)) || HasOneOf(line, kChoices)) return false;
    std::size_t indent = IndentOf(line);
    bool leaves = false;  // a deeper line does; whose it is, the head of its block says
    while (lines.Next(line)) {
      const std::string_view words = Trim(line);
      if (words.empty() || words.starts_with('#')) continue;
      const bool ends = words.starts_with("return") || HasOneOf(words, kWaysOut);
      if (IndentOf(line) > indent) {
        leaves = leaves || ends;
        continue;
      }
      const std::string_view function = FunctionOfHead(words);
      const bool apart = !function.empty() || words.starts_with("class ");
      if ((leaves && !apart) || (ends && !apart)) return false;
      leaves = false;
      if (IndentOf(line) == indent) continue;
      indent = IndentOf(line);
      if (words.starts_with("if __name__")) return true;
      if (!function.empty()) return function == called_ || IsCalledForSure(function);
      if (apart || IsBranch(words)) return false;
    }
    return lines.AtBegin() && indent == 0 && !leaves;
  }

  // `main()`, `fire.Fire(main)`; not `def main()`.
  bool IsCalledForSure(std::string_view function) {
    if (function.size() > kLongestName) return false;
    for (std::size_t at = text_.find(function); at != std::string_view::npos;
         at = text_.find(function, at + 1)) {
      const std::string_view before = text_.substr(0, at);
      const std::string_view behind = text_.substr(at + function.size());
      const bool word = before.empty() || (!IsNameChar(before.back()) && before.back() != '.');
      const bool called =
          behind.starts_with('(') || (before.ends_with('(') && behind.starts_with(')'));
      if (word && called && !before.ends_with("def ") && IsSure(at)) return true;
      if (followed_ > kMostCallsFollowed) break;
    }
    return false;
  }

 private:
  static constexpr std::array<std::string_view, 3> kWaysOut = {": return", "exit(", "quit("};
  static constexpr std::array<std::string_view, 3> kChoices = {" if ", " and ", " or "};
  static constexpr std::array<std::string_view, 6> kBranches = {"if ",  "if(",    "elif ",
                                                                "else", "except", "case "};

  static bool IsBranch(std::string_view words) { return BeginsWithOneOf(words, kBranches); }

  const std::string_view text_;
  const std::string_view called_;
  int followed_ = 0;
};

}  // namespace

bool MakesSubmitter(std::string_view text) { return HasOneOf(text, kSubmitters); }

bool AlwaysSubmits(std::string_view text, std::string_view function) {
  constexpr std::array<std::string_view, 2> kHere = {"LocalExecutor", "DebugExecutor"};
  const std::size_t at = SubmitterAt(text);
  if (at == std::string_view::npos || HasOneOf(text, kHere)) return false;
  if (ArgumentsAt(text, at).find("cluster") != std::string_view::npos) return false;
  return SurePath(text, function).IsSure(at);
}

bool AlwaysCalls(std::string_view text, std::string_view function) {
  return SurePath(text, {}).IsCalledForSure(function);
}

}  // namespace launch
