#include "cli/shell_syntax.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "cli/daemon.h"
#include "common/text.h"

namespace launch {
namespace {

constexpr Millis kCheckTime{10'000};

// Nothing of our environment: it may name a file that every bash reads first.
Result<Finished> Bash(std::vector<std::string> options, const std::string& input) {
  std::vector<std::string> argv = {"/usr/bin/env", "-i", "LC_ALL=C", "/bin/bash", "--norc"};
  argv.insert(argv.end(), options.begin(), options.end());
  return RunToEnd(argv, input, kCheckTime);
}

// What it has against the text; absent: nothing, or nobody knows. The text may turn on `extglob`,
// which `-n` does not do, and which reads some texts as nothing that one without it would.
std::optional<std::string> Objection(const std::string& text) {
  const Result<Finished> plain = Bash({"-n"}, text);
  if (!plain || plain->code == 0) return std::nullopt;
  const Result<Finished> extended = Bash({"-O", "extglob", "-n"}, text);
  if (!extended || extended->code == 0) return std::nullopt;
  // Version 3, of a Mac, does not know what the node's reads (`|&`, `;&`).
  const Result<Finished> known = Bash({"-c", "[ ${BASH_VERSINFO[0]} -ge 4 ]"}, {});
  if (!known || known->code != 0) return std::nullopt;
  return plain->errors;
}

// The line at which the text ends for bash, which reads no further: `exit`, `exec`; 0: none.
int LastRead(const std::string& text) {
  std::istringstream in(text);
  int number = 1;
  for (std::string line; std::getline(in, line); ++number) {
    for (const std::string_view word : {"exit", "exec"}) {
      if (line.starts_with(word) && (line.size() == word.size() || line[word.size()] == ' '))
        return number;
    }
  }
  return 0;
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
  const std::optional<std::string> objection = Objection(text.text);
  if (!objection) return {};
  const std::string& says = *objection;
  constexpr std::string_view kPlace = "bash: line ";
  std::size_t at = says.find(kPlace);
  while (at != std::string::npos &&  // `warning: here-document at line 2 delimited by end-of-file`
         says.substr(at, says.find('\n', at) - at).find(": warning: ") != std::string::npos) {
    at = says.find(kPlace, at + 1);
  }
  if (at == std::string::npos) return {};
  const char* const end = says.data() + says.size();
  int line = 0;
  const auto [after, error] = std::from_chars(says.data() + at + kPlace.size(), end, line);
  if (error != std::errc() || end - after < 2) return {};
  if (const int last_read = LastRead(text.text); last_read > 0 && line > last_read) return {};
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
