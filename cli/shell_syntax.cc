#include "cli/shell_syntax.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>
#include <vector>

#include "cli/daemon.h"
#include "common/text.h"

namespace launch {
namespace {

constexpr Millis kCheckTime{10'000};

// `extglob` because the text may turn it on, which `-n` does not do. Nothing of our environment: it
// may name a file that every bash reads first.
Result<Finished> Ask(const std::string& text) {
  return RunToEnd({"/usr/bin/env", "-i", "LC_ALL=C", "/bin/bash", "--norc", "-O", "extglob", "-n"},
                  text, kCheckTime);
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.emplace_back(Trim(line));
  return lines;
}

// The line of the file on which line `number` of the text stands, both from 1; 0: not as written.
int LineInFile(const BashText& text, int number) {
  const std::vector<std::string> wanted = LinesOf(text.text);
  const std::vector<std::string> lines = LinesOf(text.source);
  const auto found = std::ranges::search(lines, wanted, [](const auto& line, const auto& part) {
    return part.empty() ? line.empty() : line.find(part) != std::string::npos;
  });
  return found.empty() ? 0 : static_cast<int>(found.begin() - lines.begin()) + number;
}

}  // namespace

Result<void> CheckShellSyntax(const BashText& text) {
  if (text.text.empty()) return {};
  const Result<Finished> asked = Ask(text.text);
  if (!asked || asked->code == 0) return {};
  const std::string& says = asked->errors;
  constexpr std::string_view kPlace = "bash: line ";
  const std::size_t at = says.find(kPlace);
  if (at == std::string::npos) return {};
  const char* const end = says.data() + says.size();
  int line = 0;
  const auto [after, error] = std::from_chars(says.data() + at + kPlace.size(), end, line);
  if (error != std::errc() || end - after < 2) return {};
  std::string why(after + 2, end);
  why.resize(std::min(why.find('\n'), why.size()));
  const std::vector<std::string> lines = LinesOf(text.text);
  const int last = static_cast<int>(lines.size());
  const bool ended = line > last || why.find("unexpected EOF") != std::string::npos;
  line = std::clamp(line, 1, last);
  return Fail(ErrorCode::kInvalidArgument, "bash: " + why,
              ended ? "a quote, a bracket or a block (if, for, while, {) is not closed"
                    : "on that line: " + lines[static_cast<std::size_t>(line) - 1],
              Where{text.file, LineInFile(text, line), 0, text.field});
}

}  // namespace launch
