// What LogScanner reads of Python's tracebacks: the exception below one, its frame, and which lines
// are the program's source.
#include <algorithm>
#include <set>
#include <string>

#include "common/text.h"
#include "diagnosis/in_passing.h"
#include "diagnosis/log_line.h"
#include "diagnosis/log_scanner.h"

namespace launch {
namespace {

constexpr int kMostStrangers = 5;
constexpr std::size_t kLongestPrefix = 120;
constexpr int kListLines = 10;
constexpr int kLinesAbove = 5;
constexpr std::size_t kOfTracker = 16000;  // of a chain of tracebacks that names who tries again
constexpr std::size_t kLongWord = 5;
constexpr int kLife = 2;               // of what stands behind an error: see LifeIn
constexpr std::size_t kLivesIn = 100;  // lines
constexpr std::string_view kCommonWords[] = {
    "error",     "failed", "cannot",  "could",     "found",   "using", "tried",    "runtime",
    "memory",    "model",  "train",   "device",    "rank",    "batch", "training", "checkpoint",
    "tensor",    "input",  "value",   "module",    "files",   "after", "skipping", "retrying",
    "upload",    "cached", "loading", "attention", "dataset", "cache", "config",   "because",
    "exception", "script", "failing", "loader",    "trainer"};
constexpr int kSourceLines = 3;  // below a frame: the source and what is marked in it

// "| > 753 |   elastic_launch(" of a traceback that rich draws a box around.
bool IsBoxedSource(std::string_view text) {
  constexpr std::string_view kBar = "\u2502";
  constexpr std::string_view kArrow = "\u2771";
  text = TrimFront(text);
  if (!text.starts_with(kBar)) return false;
  text = TrimFront(text.substr(kBar.size()));
  if (text.starts_with(kArrow)) text = TrimFront(text.substr(kArrow.size()));
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  return digits > 0 && text.substr(digits).starts_with(' ');
}

// The same but for its digits: a time goes on, a process number may differ.
bool IsSamePrefix(std::string_view text, std::string_view prefix) {
  if (text.size() < prefix.size()) return false;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (std::size_t i = 0; i < prefix.size(); ++i)
    if (text[i] != prefix[i] && !(is_digit(text[i]) && is_digit(prefix[i]))) return false;
  return true;
}

// The longer words, but for those of every training script.
std::set<std::string> TellingWords(std::string_view text) {
  const std::string lower = Lower(text);
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  std::set<std::string> words;
  for (std::size_t at = 0; at < lower.size();) {
    std::size_t end = at;
    while (end < lower.size() && is_letter(lower[end])) ++end;
    std::string word = lower.substr(at, end - at);
    at = end + 1;
    const bool is_common =
        std::ranges::find(kCommonWords, std::string_view(word)) != std::end(kCommonWords);
    if (word.size() >= kLongWord && !is_common) words.insert(std::move(word));
  }
  return words;
}

// Whether the line is about this error: one of its telling words is among those of the message.
bool SharesAWord(std::string_view line, std::string_view message) {
  const std::set<std::string> of_message = TellingWords(message);
  return std::ranges::any_of(TellingWords(line),
                             [&](const std::string& word) { return of_message.contains(word); });
}

// "KeyError: 'x'": class and message.
void TakeException(LogHit& hit, std::string_view text) {
  const std::size_t colon = text.find(": ");
  hit.text = Shortened(std::string(text));
  hit.first = text.substr(0, std::min(colon, text.find_last_not_of(':') + 1));
  hit.second = colon == std::string_view::npos ? "" : std::string(text.substr(colon + 2));
}

}  // namespace

// "Nov 22 03:00:01 gpu07 train.sh[4411]: " in front of a traceback stands in front of its frames
// too, whoever wrote it and in whatever format.
void LogScanner::LearnPrefix(std::string_view header) {
  const std::size_t at = header.find("Traceback (most recent");
  if (at == 0 || at == std::string_view::npos || at > kLongestPrefix) return;
  const std::string_view prefix = header.substr(0, at);
  const bool is_words = std::ranges::all_of(
      prefix, [](char c) { return c == ' ' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
  if (!is_words) prefix_ = prefix;  // words: "Original Traceback ..."
}

LogLine LogScanner::Read(Span line) const {
  LogLine read = ReadLine(std::string_view(buffer_).substr(line.begin, line.end - line.begin));
  if (!prefix_.empty() && IsSamePrefix(read.text, prefix_)) read.text.erase(0, prefix_.size());
  return read;
}

// The sizes of a list that ends with the words of the error.
std::string LogScanner::NumbersBefore(Span line) const {
  std::string text;
  Span above = LineBefore(line);
  for (int i = 0; i < kListLines && above.end > above.begin; ++i, above = LineBefore(above)) {
    const std::string item = Read(above).text;
    if (item.find("iB") == std::string::npos && item.find("GB") == std::string::npos) break;
    text.insert(0, item + " ");
  }
  return text;
}

bool LogScanner::KeepQuoted(LogHit hit, const LogLine& read) {
  TakeException(hit, TrimFront(read.text));
  if (!IsClassName(hit.first)) return false;
  Keep(std::move(hit));
  return true;
}

bool LogScanner::IsSourceLine(Span line, const LogLine& read) const {
  if (IsBoxedSource(read.text)) return true;
  if (Indent(read.text) == 0) return false;
  const Span before = LineBefore(line);
  const LogLine frame = Read(before);
  const std::string_view text = TrimFront(frame.text);
  return text.starts_with("File \"") && text.find(", line ") != std::string_view::npos &&
         Indent(read.text) > Indent(frame.text) && frame.rank == read.rank;
}

std::string LogScanner::FrameAbove(Span line) const {
  Span above = LineBefore(line);
  for (int i = 0; i < kSourceLines && above.end > above.begin; ++i, above = LineBefore(above)) {
    const std::string text = Read(above).text;
    if (TrimFront(text).starts_with("File \"")) return std::string(TrimFront(text));
    if (Indent(text) == 0) break;
  }
  return "";
}

bool LogScanner::IsOfNoConsequence(Span header) const {
  const std::optional<Rank> rank = Read(header).rank;
  // Above the header, or above what others wrote in between and the rest of a line that was cut.
  bool of_chain = false;
  Span above = LineBefore(header);
  for (int i = 0; i < kLinesAbove && above.end > above.begin; ++i, above = LineBefore(above)) {
    if (of_chain && ignored_.contains(base_ + above.begin)) return true;
    const LogLine line = Read(above);
    if (line.rank != rank) continue;
    const std::string& text = line.text;
    if (text.starts_with("Exception ignored in") || text == "--- Logging error ---") return true;
    if (text == "Retry attempt failed:") {  // wandb/sdk/lib/retry.py
      const std::string_view trace = std::string_view(buffer_).substr(header.begin, kOfTracker);
      return trace.find("wandb") != std::string_view::npos;
    }
    if (text.starts_with("During handling of the above exception") ||
        text.starts_with("The above exception was the direct cause"))
      of_chain = true;
    else if (IsOfException(text) || Indent(text) > 0 || text.starts_with("Traceback"))
      return false;
  }
  return false;
}

bool LogScanner::IsCaught(Span header, Span exception, const LogHit& hit) const {
  const Span before = LineBefore(header);
  const LogLine above = Read(before);
  // Not the last of several tries, and not what was said of the traceback above.
  if (above.rank == hit.rank && SaysItGoesOn(above.text) && !AnnouncesNext(above.text) &&
      SharesAWord(above.text, hit.text) && above.text.find("etry") == std::string::npos &&
      !caught_.contains(base_ + LineBefore(before).begin))
    return true;
  std::size_t at = exception.end;
  while (at < buffer_.size() && EndsLine(buffer_[at])) ++at;
  if (at >= buffer_.size()) return false;
  const LogLine below = Read(LineAt(at));
  return below.rank == hit.rank && SaysItGoesOn(below.text) && SharesAWord(below.text, hit.text);
}

bool LogScanner::LivesBehind(Span line, std::optional<Rank> rank) const {
  const std::size_t limit = std::min(buffer_.size(), line.end + kAhead);
  int life = 0;
  std::size_t at = line.end;
  for (std::size_t lines = 0; lines < kLivesIn && life < kLife; ++lines) {
    while (at < limit && EndsLine(buffer_[at])) ++at;
    if (at >= limit) break;
    const Span span = LineAt(at);
    const LogLine next = Read(span);
    at = std::max(span.end, at + 1);
    if (next.rank == rank) life += LifeIn(next.text);
  }
  return life >= kLife;
}

void LogScanner::ReadException(LogHit hit, Span header, std::string_view header_text) {
  const std::size_t indent = Indent(header_text);
  const std::size_t limit = std::min(buffer_.size(), header.end + kAhead);
  const bool ignored = IsOfNoConsequence(header);
  std::string frame;
  int strangers = 0;  // lines of others without a prefix
  for (std::size_t at = header.end; at < limit;) {
    while (at < limit && EndsLine(buffer_[at])) ++at;
    if (at >= limit) return;
    const Span span = LineAt(at);
    const LogLine line = Read(span);
    const std::size_t next = std::max(span.end, at + 1);
    at = next;
    if (hit.rank && line.rank != hit.rank) continue;  // somebody else in between
    const std::string_view text = TrimFront(line.text);
    if (text.empty()) continue;
    if (text.substr(0, 6) == "File \"") frame = std::string(text);
    if (Indent(line.text) > indent) continue;
    if (text.substr(0, 9) == "Traceback" || text[0] == '^' || text.substr(0, 6) == "File \"") {
      if (text[0] == 'T') return;
      continue;
    }
    hit.offset = base_ + span.begin;
    if (line.rank) hit.rank = line.rank;
    TakeException(hit, text);
    hit.context = frame;
    // A message that begins on the line behind the class.
    if (hit.second.empty() && text.back() == ':') {
      hit.second = Following(span, line.rank, 1, "");
      hit.text = Shortened(std::string(text) + " " + hit.second);
    }
    if (ignored && hit.first.find(' ') == std::string::npos) {  // socket.gaierror too
      ignored_.insert(hit.offset);
      return;
    }
    if (!IsClassName(hit.first)) {
      if (++strangers > kMostStrangers) return;
      continue;
    }
    hit.is_caught = IsCaught(header, span, hit);
    if (hit.is_caught) caught_.insert(hit.offset);
    hit.is_unproven = (hit.is_caught || SaysItGoesOn(hit.text)) && !LivesBehind(span, hit.rank);
    if (hit.is_unproven) unproven_.insert(hit.offset);
    return Keep(std::move(hit));
  }
}

}  // namespace launch
