#include "planner/line/pasted_text.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "planner/line/line_prefix.h"

namespace launch {
namespace {

// Of UTF-8: the dashes from U+2010 to U+2015, and the minus of mathematics.
constexpr std::array<std::string_view, 7> kOtherDashes = {
    "\xE2\x80\x90", "\xE2\x80\x91", "\xE2\x80\x92", "\xE2\x80\x93",
    "\xE2\x80\x94", "\xE2\x80\x95", "\xE2\x88\x92"};
constexpr std::array<std::string_view, 4> kOtherQuotes = {"\xE2\x80\x9C", "\xE2\x80\x9D",
                                                          "\xE2\x80\x98", "\xE2\x80\x99"};
// No-break space, zero-width space, byte order mark.
constexpr std::array<std::string_view, 3> kOtherBlanks = {"\xC2\xA0", "\xE2\x80\x8B",
                                                          "\xEF\xBB\xBF"};

bool StartsWithOneOf(std::string_view word, const auto& marks) {
  return std::any_of(marks.begin(), marks.end(),
                     [&](std::string_view mark) { return word.starts_with(mark); });
}

bool HasOneOf(std::string_view word, const auto& marks) {
  return std::any_of(marks.begin(), marks.end(), [&](std::string_view mark) {
    return word.find(mark) != std::string_view::npos;
  });
}

bool IsLetterAt(std::string_view word, std::size_t i) {
  return i < word.size() && std::isalpha(static_cast<unsigned char>(word[i])) != 0;
}

// What stands in front of the command; empty: nothing that was pasted with it.
std::string_view MarkOf(std::string_view word) {
  if (word == "$") return word;
  if (word.starts_with("%%") && IsLetterAt(word, 2)) return word;
  if (word.starts_with('%') && IsLetterAt(word, 1)) return word;
  if (word.starts_with('!') && IsLetterAt(word, 1)) return word.substr(0, 1);
  return {};
}

std::string Shown(const ShellWord& word) { return "`" + word.raw + "`"; }

constexpr std::string_view kPastedMark = "\xEF\xBB\xBF";

}  // namespace

std::string_view WithoutByteOrderMark(std::string_view text) {
  if (text.starts_with(kPastedMark)) text.remove_prefix(kPastedMark.size());
  return text;
}

Result<void> CheckPasted(const ShellScript& script) {
  for (const ShellCommand& command : script.commands) {
    const std::size_t first = PartsOf(command).first;
    if (first >= command.words.size()) continue;
    const ShellWord& word = command.words[first];
    const std::string line = "run: line " + std::to_string(word.line);
    if (const std::string_view mark = MarkOf(word.raw); !mark.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  line + " begins with `" + std::string(mark) +
                      "`, which is no program: it is of " +
                      (mark == "$" ? "a terminal's prompt" : "a notebook"),
                  "leave `" + std::string(mark) + "` out");
    }
    if (word.raw.starts_with("$env:")) {
      return Fail(ErrorCode::kInvalidArgument,
                  line + ": " + Shown(word) + " is of PowerShell, and bash runs the text",
                  "write `export NAME=value`, or env: in the job");
    }
    // In quotes it may be of a file's name.
    if (HasOneOf(word.raw, kOtherBlanks) && word.raw.find_first_of("'\"") == std::string::npos) {
      return Fail(ErrorCode::kInvalidArgument,
                  line + ": " + Shown(word) +
                      " has a blank in it that bash does not take for one (no-break or zero-width)",
                  "type the blanks of the line anew");
    }
  }
  return {};
}

bool BeginsWithOtherDash(const ShellWord& word) { return StartsWithOneOf(word.raw, kOtherDashes); }

std::optional<Finding> PastedCharacters(const ShellScript& script) {
  for (const ShellCommand& command : script.commands) {
    for (const ShellWord& word : command.words) {
      const bool dash = BeginsWithOtherDash(word) && word.raw.size() > 3;
      const bool quote = StartsWithOneOf(word.raw, kOtherQuotes);
      const bool blank =
          HasOneOf(word.raw, kOtherBlanks) && word.raw.find_first_of("'\"") == std::string::npos;
      if (!dash && !quote && !blank) continue;
      const std::string what = dash    ? " begins with a dash that programs do not take for `-`"
                               : quote ? " begins with a quote that bash does not take for one"
                                       : " has a blank in it that bash does not take for one";
      return MakeFinding("pasted_characters", Severity::kWarning,
                         "line " + std::to_string(word.line) + " of run: " + Shown(word) + what,
                         dash    ? "write `-` or `--`"
                         : quote ? "write \" or '"
                                 : "type the blanks of the line anew");
    }
  }
  return std::nullopt;
}

std::optional<Finding> CarriageReturns(const std::string& shown, std::string_view text) {
  if (text.find("\r\n") == std::string_view::npos) return std::nullopt;
  return MakeFinding("pasted_characters", Severity::kWarning,
                     shown +
                         " has line ends of Windows: bash takes the carriage return for a part of "
                         "the last word of each line",
                     "dos2unix " + shown + ", or sed -i 's/\\r$//' " + shown);
}

}  // namespace launch
