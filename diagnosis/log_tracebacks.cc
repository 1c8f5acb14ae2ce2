// What LogScanner reads of Python's tracebacks: the exception below one, its frame, and which lines
// are the program's source.
#include <algorithm>

#include "diagnosis/log_line.h"
#include "diagnosis/log_scanner.h"

namespace launch {
namespace {

constexpr int kMostStrangers = 5;
constexpr int kSourceLines = 3;  // below a frame: the source and what is marked in it

// "KeyError", "my.pkg.Failed": a dotted name whose last part has a capital and a small letter.
bool IsClassName(std::string_view name) {
  bool capital = false;
  bool small = false;
  for (const char c : name) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool lower = c >= 'a' && c <= 'z';
    if (!upper && !lower && !(c >= '0' && c <= '9') && c != '_' && c != '.') return false;
    capital = capital || upper;
    small = small || lower;
  }
  return capital && small;
}

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

}  // namespace

bool LogScanner::IsSourceLine(Span line, const LogLine& read) const {
  if (IsBoxedSource(read.text)) return true;
  if (Indent(read.text) == 0) return false;
  const Span before = LineBefore(line);
  const LogLine frame =
      ReadLine(std::string_view(buffer_).substr(before.begin, before.end - before.begin));
  const std::string_view text = TrimFront(frame.text);
  return text.starts_with("File \"") && text.find(", line ") != std::string_view::npos &&
         Indent(read.text) > Indent(frame.text) && frame.rank == read.rank;
}

std::string LogScanner::FrameAbove(Span line) const {
  Span above = LineBefore(line);
  for (int i = 0; i < kSourceLines && above.end > above.begin; ++i, above = LineBefore(above)) {
    const std::string text =
        ReadLine(std::string_view(buffer_).substr(above.begin, above.end - above.begin)).text;
    if (TrimFront(text).starts_with("File \"")) return std::string(TrimFront(text));
    if (Indent(text) == 0) break;
  }
  return "";
}

bool LogScanner::IsOfNoConsequence(Span header) const {
  const Span before = LineBefore(header);
  const std::string text =
      ReadLine(std::string_view(buffer_).substr(before.begin, before.end - before.begin)).text;
  return text.starts_with("Exception ignored in") || text == "--- Logging error ---";
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
    const LogLine line =
        ReadLine(std::string_view(buffer_).substr(span.begin, span.end - span.begin));
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
    const std::size_t colon = text.find(": ");
    hit.offset = base_ + span.begin;
    if (line.rank) hit.rank = line.rank;
    hit.text = Shortened(std::string(text));
    hit.first = text.substr(0, std::min(colon, text.find_last_not_of(':') + 1));
    hit.second = colon == std::string_view::npos ? "" : std::string(text.substr(colon + 2));
    hit.context = frame;
    // A message that begins on the line behind the class.
    if (hit.second.empty() && text.back() == ':') {
      hit.second = Following(span, line.rank, 1, "");
      hit.text = Shortened(std::string(text) + " " + hit.second);
    }
    if (ignored && IsClassName(hit.first)) {
      ignored_.insert(hit.offset);
      return;
    }
    if (!IsClassName(hit.first)) {
      if (++strangers > kMostStrangers) return;
      continue;
    }
    return Keep(std::move(hit));
  }
}

}  // namespace launch
