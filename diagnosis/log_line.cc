#include "diagnosis/log_line.h"

#include <algorithm>
#include <array>

#include "common/terminal_text.h"
#include "common/units.h"
#include "common/utf8_head.h"

namespace launch {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Length of the escape sequence at the start of `s`, which begins with ESC (ECMA-48: CSI ends with
// a byte in 0x40-0x7e, OSC with BEL or ESC \).
std::size_t EscapeLength(std::string_view s) {
  if (s.size() < 2) return s.size();
  if (s[1] == '[') {
    std::size_t i = 2;
    while (i < s.size() && (s[i] < 0x40 || s[i] > 0x7e)) ++i;
    return std::min(i + 1, s.size());
  }
  if (s[1] == ']') {
    for (std::size_t i = 2; i < s.size(); ++i) {
      if (s[i] == '\a') return i + 1;
      if (s[i] == '\x1b') return std::min(i + 2, s.size());
    }
    return s.size();
  }
  return 2;
}

// Length of the well-formed UTF-8 character at the start of `s`, 0 where there is none.
std::size_t CharacterLength(std::string_view s) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80                    ? 1
                             : first >= 0xc2 && first < 0xe0 ? 2
                             : (first & 0xf0) == 0xe0        ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length == 0 || length > s.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  if (first == 0xe0 && byte(1) < 0xa0) return 0;
  if (first == 0xed && byte(1) > 0x9f) return 0;
  if (first == 0xf0 && byte(1) < 0x90) return 0;
  if (first == 0xf4 && byte(1) > 0x8f) return 0;
  return length;
}

constexpr std::size_t kLongestCharacter = 4;  // of UTF-8

// What CleanText makes of a byte by itself; 0 where that is nothing, or depends on the next ones.
constexpr std::array<char, 256> Cleaned() {
  std::array<char, 256> cleaned{};
  for (std::size_t c = 0x20; c < 0x7f; ++c) cleaned[c] = static_cast<char>(c);
  for (const unsigned char c : {'\t', '\n', '\r'}) cleaned[c] = ' ';
  // They begin no character.
  for (std::size_t c = 0x80; c < 0xc2; ++c) cleaned[c] = '?';
  for (std::size_t c = 0xf5; c <= 0xff; ++c) cleaned[c] = '?';
  return cleaned;
}
constexpr std::array<char, 256> kCleaned = Cleaned();

std::size_t Digits(std::string_view s, std::size_t from) {
  std::size_t i = from;
  while (i < s.size() && IsDigit(s[i])) ++i;
  return i - from;
}

std::optional<Rank> RankOf(std::string_view digits) {
  if (digits.empty() || digits.size() > 6) return std::nullopt;
  const auto value = ParseInt(std::string(digits));
  if (!value) return std::nullopt;
  return static_cast<Rank>(*value);
}

// "[rank3]:", "[default0]:", "[1,3]<stderr>:", "[3]:" at the start of `s`; the rest, or nothing.
std::optional<std::string_view> StripBracket(std::string_view s, LogLine& line) {
  if (s.empty() || s[0] != '[') return std::nullopt;
  std::size_t i = 1;
  const std::size_t word = i;
  while (i < s.size() && IsLetter(s[i])) ++i;
  const std::string_view name = s.substr(word, i - word);
  if (name == "default" && i < s.size() && s[i] == '_') ++i;
  const bool named = name == "rank" || name == "Rank" || name == "default" || name == "trainer" ||
                     name == "worker" || name == "RANK";
  if (!name.empty() && !named) return std::nullopt;
  if (name == "Rank" && i < s.size() && s[i] == ' ') ++i;
  std::size_t digits = Digits(s, i);
  if (digits == 0) return std::nullopt;
  bool pair = false;
  if (name.empty() && i + digits < s.size() && s[i + digits] == ',') {
    i += digits + 1;
    digits = Digits(s, i);
    if (digits == 0) return std::nullopt;
    pair = true;
  }
  const std::string_view number = s.substr(i, digits);
  i += digits;
  if (i >= s.size() || s[i] != ']') return std::nullopt;
  ++i;
  if (pair) {
    if (i >= s.size() || s[i] != '<') return std::nullopt;
    i = s.find('>', i);
    if (i == std::string_view::npos) return std::nullopt;
    ++i;
  }
  if (i < s.size() && s[i] == ':') {
    ++i;
  } else if (!named && !pair) {
    return std::nullopt;
  }
  if (!line.rank) line.rank = RankOf(number);
  return s.substr(i);
}

// srun --label: "3: text" and " 3: text".
std::optional<std::string_view> StripLabel(std::string_view s, LogLine& line) {
  const std::string_view from = TrimFront(s);
  const std::size_t digits = Digits(from, 0);
  if (digits == 0 || digits > 5 || digits + 1 >= from.size()) return std::nullopt;
  if (from[digits] != ':' || from[digits + 1] != ' ') return std::nullopt;
  if (!line.rank) line.rank = RankOf(from.substr(0, digits));
  return from.substr(digits + 1);
}

// Ray: "(RayTrainWorker pid=1234, ip=10.0.0.1) text".
std::optional<std::string_view> StripRay(std::string_view s) {
  if (s.empty() || s[0] != '(') return std::nullopt;
  const std::size_t end = s.substr(0, 120).find(')');
  if (end == std::string_view::npos) return std::nullopt;
  if (s.substr(0, end).find("pid=") == std::string_view::npos) return std::nullopt;
  return s.substr(end + 1);
}

// pdsh: "gpu01: text". A host name has a digit or a dot, so that "RuntimeError: x", "ssh: x" and
// "slurmstepd: x" stay whole.
std::optional<std::string_view> StripHost(std::string_view s, LogLine& line) {
  std::size_t i = 0;
  bool digit = false;
  while (i < s.size() && i < 64 && (IsLetter(s[i]) || IsDigit(s[i]) || s[i] == '-' || s[i] == '.'))
    digit = IsDigit(s[i++]) || digit;
  if (!digit || i < 2 || i + 1 >= s.size() || s[i] != ':' || s[i + 1] != ' ') return std::nullopt;
  const std::string_view name = s.substr(0, i);
  if (IsDigit(name[0]) && name.find('.') == std::string_view::npos) return std::nullopt;
  for (const std::string_view not_host : {"Error", "Exception", "Warning", "Xid"})
    if (name.find(not_host) != std::string_view::npos) return std::nullopt;
  constexpr std::size_t kCode = 6;  // "EI0006": an error of Ascend's NPUs
  if (name.size() == kCode && name[0] == 'E' && IsLetter(name[1]) && Digits(name, 2) == kCode - 2)
    return std::nullopt;
  if (line.host.empty()) line.host = name;
  return s.substr(i + 1);
}

// "2024-08-23T22:22:51.871Z ", "[2024-08-23 22:22:51,871] ", "| " of log collectors.
std::optional<std::string_view> StripTime(std::string_view s) {
  if (s.substr(0, 2) == "| ") return s.substr(1);
  std::size_t i = !s.empty() && s[0] == '[' ? 1 : 0;
  const std::size_t start = i;
  while (i < s.size() && (IsDigit(s[i]) || s[i] == '-' || s[i] == ':' || s[i] == '.' ||
                          s[i] == ',' || s[i] == 'T' || s[i] == 'Z' || s[i] == '/' || s[i] == '+' ||
                          (s[i] == ' ' && i == start + 10)))
    ++i;
  // A date, and a time behind it.
  if (i < start + 16 || s[start + 4] != s[start + 7] ||
      (s[start + 4] != '-' && s[start + 4] != '/'))
    return std::nullopt;
  if (start == 1) {
    if (i >= s.size() || s[i] != ']') return std::nullopt;
    ++i;
  }
  if (i < s.size() && s[i] != ' ') return std::nullopt;
  return s.substr(i);
}

// Behind the time: "stderr F " of Kubernetes' container runtimes, "- ERROR - train.py:12 - " of
// Python's logging, "ERROR 05-02 10:01:13 [core.py:586] " of vLLM.
std::optional<std::string_view> StripLevel(std::string_view s, LogLine& line) {
  for (const std::string_view stream : {"stdout F ", "stderr F ", "stdout P ", "stderr P "})
    if (s.starts_with(stream)) return s.substr(stream.size() - 1);
  const bool dashes = s.starts_with("- ");
  if (dashes) s.remove_prefix(2);
  std::size_t level = 0;
  for (const std::string_view name : {"ERROR", "CRITICAL", "FATAL", "WARNING", "INFO", "DEBUG"})
    if (s.starts_with(name)) level = name.size();
  if (level == 0) return std::nullopt;
  const bool warns = s.starts_with("WARNING");
  std::string_view rest = s.substr(level);
  if (dashes) {
    if (!rest.starts_with(" - ")) return std::nullopt;
    rest.remove_prefix(3);
    line.warns = warns;
    const std::size_t name = rest.find(' ');
    if (name < 60 && rest.substr(name).starts_with(" - ")) return rest.substr(name + 2);
    return rest;
  }
  const std::size_t end = rest.find("] ");
  if (end == std::string_view::npos || end > 80 || !rest.starts_with(" ") || rest.size() < 17 ||
      Digits(rest, 1) != 2 || rest[3] != '-' || rest.find(" [") > end)
    return std::nullopt;
  line.warns = warns;
  return rest.substr(end + 1);
}

// journald and syslog: "Nov 22 03:00:01 gpu07 train.sh[4411]: ". The kernel's lines have no number
// and stay as they are.
std::optional<std::string_view> StripSyslog(std::string_view s, LogLine& line) {
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const std::size_t month = kMonths.find(s.substr(0, 3));
  if (s.size() < 24 || month == std::string_view::npos || month % 3 != 0 || s[3] != ' ')
    return std::nullopt;
  if (s[6] != ' ' || s[9] != ':' || s[12] != ':' || s[15] != ' ') return std::nullopt;
  const std::size_t end = s.find("]: ");
  if (end == std::string_view::npos || end > 120) return std::nullopt;
  const std::string_view who = s.substr(16, end - 16);  // "gpu07 train.sh[4411"
  const std::size_t space = who.find(' ');
  const std::size_t bracket = who.find('[');
  if (space == std::string_view::npos || bracket == std::string_view::npos || bracket < space ||
      who.find(' ', space + 1) != std::string_view::npos ||
      bracket + 1 + Digits(who, bracket + 1) != who.size())
    return std::nullopt;
  if (line.host.empty()) line.host = who.substr(0, space);
  // What a service of the node says means something only with its name.
  const std::string_view name = who.substr(space + 1);
  for (const std::string_view service :
       {"systemd", "nvidia-", "nv-", "earlyoom", "kubelet", "dockerd", "containerd"})
    if (name.starts_with(service)) return s.substr(16 + space + 1);
  return s.substr(end + 2);
}

// docker compose: "trainer-worker-0  | text"; kubectl logs --prefix: "[pod/worker-0/main] text".
std::optional<std::string_view> StripContainer(std::string_view s) {
  constexpr std::string_view kPod = "[pod/";
  if (s.starts_with(kPod)) {
    const std::size_t end = s.substr(0, 120).find("] ");
    if (end == std::string_view::npos) return std::nullopt;
    return s.substr(end + 1);
  }
  std::size_t i = 0;
  bool dash = false;
  while (i < s.size() && i < 64 && (IsLetter(s[i]) || IsDigit(s[i]) || s[i] == '-' || s[i] == '_'))
    dash = s[i] == '-' || s[i] == '_' || dash, ++i;
  if (!dash || !IsLetter(s[0]) || !IsDigit(s[i - 1])) return std::nullopt;
  const std::string_view bar = TrimFront(s.substr(i));
  if (bar.size() == s.size() - i || !bar.starts_with("| ")) return std::nullopt;
  return bar.substr(1);
}

// Docker's json-file: {"log":"the line\n","stream":"stderr","time":"..."}. The text, or nothing.
std::optional<std::string> TextOfDockerLine(std::string_view s) {
  constexpr std::string_view kBegin = "{\"log\":";
  if (!s.starts_with(kBegin)) return std::nullopt;
  const std::size_t quote = s.find_first_not_of(' ', kBegin.size());
  if (quote == std::string_view::npos || s[quote] != '"') return std::nullopt;
  std::string text;
  for (std::size_t i = quote + 1; i < s.size() && s[i] != '"'; ++i) {
    if (s[i] != '\\' || i + 1 == s.size()) {
      text += s[i];
      continue;
    }
    const char escaped = s[++i];
    if (escaped == 'n' || escaped == 'r' || escaped == 't') {
      text += ' ';
    } else if (escaped != 'u') {
      text += escaped;
    } else {  // \u003c: what is not ASCII is of no use here
      i += std::min<std::size_t>(4, s.size() - i - 1);
      text += '?';
    }
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

// Structured logging keeps a whole traceback in one string, "...\\n  File \\"t.py\\", line 9\\n
// y = f(x)\\nKeyError: 'x'"}, and so does the repr() of a message. Its last line, or nothing.
std::optional<std::string> ExceptionInString(std::string_view s) {
  constexpr std::string_view kNewLine = "\\n";
  std::size_t frame = s.rfind("\\n  File \\\"");  // JSON escapes the quotes
  const char quote = frame == std::string_view::npos ? '\'' : '"';
  if (frame == std::string_view::npos) frame = s.rfind("\\n  File \"");
  if (frame == std::string_view::npos) return std::nullopt;
  std::size_t end = frame;
  while (end < s.size() && s[end] != quote) end += s[end] == '\\' ? 2 : 1;
  if (end > s.size()) end = s.size();
  std::string_view lines = s.substr(frame, end - frame);
  // The first line behind the last frame that is not indented.
  for (std::size_t at = 0; (at = lines.find(kNewLine, at)) != std::string_view::npos;) {
    at += kNewLine.size();
    if (at >= lines.size() || lines[at] == ' ' || lines[at] == '^') continue;
    const std::string_view line = lines.substr(at, lines.find(kNewLine, at) - at);
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i)
      if (line[i] != '\\' || i + 1 == line.size()) text += line[i];
    return text;
  }
  return std::nullopt;
}

// Behind one of these words, and in front of one of these characters, stands a rank.
struct RankMark {
  std::string_view before;
  std::string_view behind;
};
constexpr RankMark kRankMarks[] = {{"[Rank ", "]"}, {"[rank", "]"},        {" Rank ", "]"},
                                   {"[RANK ", "]"}, {": task ", ":"},      {": tasks ", ":-,"},
                                   {"=TPU:", ":"},  {"Error: Rank ", ":"}, {"Error: rank ", ":"}};

// "[Rank 3]", "[rank3]" or "[PG ... Rank 3]" somewhere in the text.
std::optional<Rank> RankInside(std::string_view text) {
  for (const RankMark& mark : kRankMarks) {
    const std::size_t at = text.find(mark.before);
    if (at == std::string_view::npos) continue;
    const std::size_t from = at + mark.before.size();
    // "task 3" of other programs is no rank.
    if (mark.before.starts_with(": task") && text.substr(0, at).find("srun") == text.npos &&
        text.substr(0, at).find("slurmstepd") == text.npos)
      continue;
    const std::size_t digits = Digits(text, from);
    if (digits > 0 && from + digits < text.size() &&
        mark.behind.find(text[from + digits]) != std::string_view::npos)
      return RankOf(text.substr(from, digits));
  }
  return std::nullopt;
}

}  // namespace

std::string CleanText(std::string_view raw) {
  std::string text(std::min(raw.size(), kLongestLine + kLongestCharacter), '\0');
  std::size_t size = 0;
  for (std::size_t at = 0; at < raw.size() && size < kLongestLine;) {
    const char c = raw[at];
    if (const char as = kCleaned[static_cast<unsigned char>(c)]; as != '\0') {
      text[size++] = as;
      ++at;
    } else if (c == '\x1b') {
      at += EscapeLength(raw.substr(at));
    } else if (c >= 0) {
      ++at;
    } else {
      const std::string_view rest = raw.substr(at);
      const std::size_t length = CharacterLength(rest);
      if (length == 0) {
        text[size++] = '?';
      } else if (ScreenControlLength(rest) == 0) {
        size += rest.copy(text.data() + size, length);
      }
      at += std::max<std::size_t>(length, 1);
    }
  }
  while (size > 0 && text[size - 1] == ' ') --size;
  text.resize(size);
  return text;
}

LogLine ReadLine(std::string_view raw) {
  LogLine line;
  std::string clean = CleanText(raw);
  if (auto docker = TextOfDockerLine(clean)) clean = std::move(*docker);
  std::string_view rest = clean;
  for (int prefixes = 0; prefixes < 4; ++prefixes) {
    auto next = StripBracket(TrimFront(rest), line);
    if (!next) next = StripTime(TrimFront(rest));
    if (!next) next = StripLevel(TrimFront(rest), line);
    if (!next) next = StripRay(TrimFront(rest));
    if (!next) next = StripContainer(rest);
    if (!next && prefixes == 0) next = StripSyslog(rest, line);
    if (!next && prefixes == 0) next = StripLabel(rest, line);
    if (!next) next = StripHost(rest, line);
    if (!next) break;
    rest = *next;
    // One space belongs to the prefix; more are the indentation of a traceback.
    if (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  }
  if (!line.rank) line.rank = RankInside(rest);
  if (auto exception = ExceptionInString(rest)) {
    line.text = *std::move(exception);
    line.quotes_traceback = true;
    return line;
  }
  line.text = rest;
  return line;
}

std::string Shortened(std::string text) {
  if (text.size() <= kLongestEvidence) return text;
  text.resize(Utf8Head(text, kLongestEvidence).size());
  return text + "...";
}

}  // namespace launch
