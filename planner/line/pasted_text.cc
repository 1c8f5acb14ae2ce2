#include "planner/line/pasted_text.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "common/text.h"
#include "planner/line/launcher_words.h"
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

// ---- prompts ----

constexpr std::string_view kLineBlanks = " \t";

// "(base) " and the like in front of a prompt: its length.
std::size_t EnvironmentNames(std::string_view line) {
  std::size_t at = 0;
  while (at < line.size() && line[at] == '(') {
    std::size_t end = at + 1;
    while (end < line.size() && (IsNameChar(line[end]) || line[end] == '-' || line[end] == '.'))
      ++end;
    if (end == at + 1 || end >= line.size() || line[end] != ')') return 0;
    at = std::min(line.find_first_not_of(kLineBlanks, end + 1), line.size());
  }
  return at;
}

// Names of programs that a text for a terminal begins with: `> torchrun` writes no such file.
bool IsCommonProgram(std::string_view word) {
  constexpr std::array<std::string_view, 8> kNames = {
      "torchrun", "accelerate", "deepspeed", "bash", "sh", "uv", "cd", "export"};
  return IsPython(word) || std::find(kNames.begin(), kNames.end(), word) != kNames.end();
}

// "ana@gpu:~$", "(env)[dir]$", "root@x:/w#", ">" with a command behind it; else empty.
std::string_view PromptOf(std::string_view line) {
  if (line.starts_with("> ")) {
    const std::string_view rest = Trim(line.substr(1));
    const std::size_t end = rest.find(' ');
    const bool more = end != std::string_view::npos;
    return more && IsCommonProgram(rest.substr(0, end)) ? line.substr(0, 1) : std::string_view();
  }
  const std::size_t names = EnvironmentNames(line);
  std::size_t inside = names;
  if (names < line.size() && line[names] == '[') {
    const std::size_t close = line.find(']', names);
    if (close == std::string_view::npos || line[names + 1] == ' ') return {};
    inside = close + 1;
  }
  const std::size_t end = line.find_first_of(kLineBlanks, inside);
  if (end == std::string_view::npos || end == names) return {};
  const std::string_view prompt = line.substr(names, end - names);
  const std::string_view before = prompt.substr(0, prompt.size() - 1);
  if (before.find_first_of("'\"=;|&<>`$(){}*\\") != std::string_view::npos) return {};
  const bool bracket = inside > names;
  const bool dollar = prompt.back() == '$' && (!before.empty() || names > 0);
  const bool hash =
      prompt.back() == '#' &&
      (bracket || (before.find('@') != before.npos && before.find(':') != before.npos));
  return dollar || hash ? line.substr(0, end) : std::string_view();
}

Result<void> CheckPrompt(std::string_view text) {
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = Trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.empty() || line.starts_with('#')) continue;
    const std::string_view prompt = PromptOf(line);
    if (prompt.empty()) return {};
    return Fail(ErrorCode::kInvalidArgument,
                "run: line " + std::to_string(number) + " begins with `" + std::string(prompt) +
                    "`, which is no program: it is of a terminal's prompt",
                "leave `" + std::string(prompt) + "` out");
  }
  return {};
}

// ---- <placeholders> ----

bool LooksLikeAName(std::string_view text) {
  if (text.empty() || kLineBlanks.find(text.back()) != std::string_view::npos) return false;
  if (std::isalnum(static_cast<unsigned char>(text[0])) == 0 &&
      std::string_view("/._~").find(text[0]) == std::string_view::npos)
    return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view(" _-./:=,+~'").find(c) != std::string_view::npos;
  });
}

// "num_gpus" and "CONFIG" are no files that a program reads from its standard input.
bool IsNoFile(std::string_view text) {
  if (text.find_first_of(" ./") != std::string_view::npos) return false;
  return text.find('_') != std::string_view::npos ||
         std::all_of(text.begin(), text.end(),
                     [](char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; });
}

// `<data dir> --out` of the text, which was read as "< data" and "> --out"; else empty. What might
// be meant as redirections is taken for them: `<in.txt> out.txt`.
std::string_view PlaceholderOf(std::string_view text, const ShellRedirect& from,
                               const ShellRedirect& to) {
  if (!from.raw.starts_with("< ") || from.target.empty() || !to.raw.starts_with("> ")) return {};
  const bool flag_or_none = to.target.empty() || to.target.starts_with('-');
  const std::string begin = "<" + from.target;
  for (std::size_t at = text.find(begin); at != std::string_view::npos;
       at = text.find(begin, at + 1)) {
    const std::size_t end = text.find_first_of(">\n", at + begin.size());
    if (end == std::string_view::npos || text[end] == '\n') continue;
    const std::string_view inside = text.substr(at + 1, end - at - 1);
    std::string_view rest = text.substr(end + 1);
    if (!LooksLikeAName(inside) || rest.starts_with('>')) continue;
    const std::size_t blanks = std::min(rest.find_first_not_of(kLineBlanks), rest.size());
    rest.remove_prefix(blanks);
    const bool ends =
        rest.empty() || rest.starts_with('\n') || rest.starts_with("\\\n") || rest.starts_with('<');
    const bool target = blanks > 0 && !to.target.empty() && rest.starts_with(to.target);
    if (flag_or_none ? ends || target : target && IsNoFile(inside))
      return text.substr(at, end + 1 - at);
  }
  return {};
}

Result<void> CheckPlaceholders(std::string_view text, const ShellScript& script) {
  for (const ShellCommand& command : script.commands) {
    for (std::size_t i = 0; i + 1 < command.redirects.size(); ++i) {
      const std::string_view found =
          PlaceholderOf(text, command.redirects[i], command.redirects[i + 1]);
      if (!found.empty()) return PlaceholderLeft(found);
    }
  }
  return {};
}

// ---- a lost backslash ----

// "  --lr 1e-4" on a line of its own. In blocks it may be a pattern of `case`.
Result<void> CheckFlagLines(const ShellScript& script) {
  if (script.compound) return {};
  for (std::size_t i = 1; i < script.commands.size(); ++i) {
    const ShellCommand& before = script.commands[i - 1];
    const std::vector<ShellWord>& words = script.commands[i].words;
    if (before.joiner != "\n" || before.words.empty() || words.empty()) continue;
    const ShellWord& flag = words.front();
    if (flag.raw.size() < 2 || flag.raw[0] != '-' ||
        (flag.raw[1] != '-' && !IsLetterAt(flag.raw, 1)))
      continue;
    // Behind a line of comment the backslash may well be there.
    const int last = before.words.back().line;
    if (last + 1 != flag.line) continue;
    return Fail(ErrorCode::kInvalidArgument,
                "run: line " + std::to_string(flag.line) + " begins with a flag, " + Shown(flag) +
                    ": line " + std::to_string(last) + " lacks a backslash at its end",
                "write \\ at the end of each line that goes on");
  }
  return {};
}

constexpr std::string_view kPastedMark = "\xEF\xBB\xBF";

}  // namespace

std::string_view WithoutByteOrderMark(std::string_view text) {
  if (text.starts_with(kPastedMark)) text.remove_prefix(kPastedMark.size());
  return text;
}

bool IsPlaceholder(std::string_view value) {
  if (value == "...") return true;
  const bool brackets = value.size() > 2 && ((value.front() == '{' && value.back() == '}') ||
                                             (value.front() == '[' && value.back() == ']'));
  if (!brackets || !IsNameStart(value[1])) return false;
  const std::string_view inside = value.substr(1, value.size() - 2);
  return std::all_of(inside.begin(), inside.end(),
                     [](char c) { return IsNameChar(c) || c == '-' || c == ' '; });
}

Unexpected PlaceholderLeft(std::string_view shown) {
  return Fail(ErrorCode::kInvalidArgument, "run: `" + std::string(shown) + "` is a placeholder",
              "write the value in its place");
}

Result<void> CheckPasted(std::string_view text) {
  LAUNCH_RETURN_IF_ERROR(CheckPrompt(text));
  const Result<ShellScript> script = ReadShell(text);
  return script ? CheckPasted(text, *script) : Result<void>();
}

Result<void> CheckPasted(std::string_view text, const ShellScript& script) {
  LAUNCH_RETURN_IF_ERROR(CheckPrompt(text));
  LAUNCH_RETURN_IF_ERROR(CheckPlaceholders(text, script));
  LAUNCH_RETURN_IF_ERROR(CheckFlagLines(script));
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
