#include "diagnosis/log_scanner.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "diagnosis/in_passing.h"
#include "diagnosis/log_line.h"

namespace launch {
namespace {

constexpr std::size_t kBack = 2048;        // of an endless line, in front of the phrase
constexpr std::size_t kFramesBack = 4000;  // before an out-of-memory message
constexpr std::size_t kSmiTable = 8000;    // of eight GPUs with their processes
constexpr int kOomLines = 14;
constexpr int kWrappedLines = 3;
constexpr std::size_t kLongestPhrase = 64;
constexpr std::size_t kWrappedLine = 60;  // a shorter line was not cut by a terminal

// What only says how far the run was.
bool IsPlace(Reading reading) {
  return reading == Reading::kStep || reading == Reading::kRestart || reading == Reading::kDone;
}

// A terminal cut the line within a number or its unit: "23.1" and "0 GiB", "23.10 Gi" and "B".
bool IsCutNumber(std::string_view front, std::string_view behind) {
  const auto of_number = [](char c) { return (c >= '0' && c <= '9') || c == '.'; };
  if (front.size() < kWrappedLine || behind.empty()) return false;
  if (of_number(front.back())) return of_number(behind.front());
  const std::size_t unit = front.find_last_of("0123456789");
  if (unit == std::string_view::npos) return false;
  const std::string_view begun = TrimFront(front.substr(unit + 1));
  constexpr std::string_view kPrefixes = "KMGT";
  if (begun.empty() || kPrefixes.find(begun[0]) == std::string_view::npos) return false;
  return begun.size() == 1 ? behind.starts_with("iB") : begun.substr(1) == "i" && behind[0] == 'B';
}

// torch/_dynamo/convert_frame.py warns of what it leaves to Python, with the whole traceback.
bool IsOfDynamo(std::string_view raw) {
  constexpr std::size_t kLongestHead = 160;
  constexpr std::size_t kDate = 4;  // digits behind the level: "W1024"
  const std::size_t at = raw.substr(0, kLongestHead).find("torch/_dynamo/convert_frame.py:");
  if (at == raw.npos) return false;
  const std::string_view head = raw.substr(0, at);
  for (std::size_t i = head.find('E'); i != head.npos; i = head.find('E', i + 1)) {
    const std::string_view date = head.substr(i + 1, kDate);
    if (date.size() == kDate && date.find_first_not_of("0123456789") == date.npos) return false;
  }
  return true;
}

std::string Glued(const std::string& front, const std::string& behind, const char* glue) {
  return front + (IsCutNumber(front, behind) ? "" : glue) + behind;
}

}  // namespace

LogScanner::LogScanner(const CompiledSignatures& signatures)
    : signatures_(signatures), kept_(signatures.rows().size()) {}

void LogScanner::Feed(std::string_view chunk) {
  if (head_.size() < kKept) head_.append(chunk.substr(0, kKept - head_.size()));
  while (!chunk.empty()) {
    const std::size_t room = kWindow + kKept + kAhead - buffer_.size();
    const std::size_t part = std::min(room, chunk.size());
    buffer_.append(chunk.substr(0, part));
    chunk.remove_prefix(part);
    if (part < room) return;
    ReadUpTo(buffer_.size() - kAhead);
    const std::size_t drop = done_ - std::min(done_, kKept);
    buffer_.erase(0, drop);
    done_ -= drop;
    base_ += drop;
  }
}

LogEvidence LogScanner::Finish() {
  ReadUpTo(buffer_.size());
  // What rested wakes up for the end of the log, where the cause usually stands.
  if (cleaned_ >= kMostCleaned || std::any_of(kept_.begin(), kept_.end(), [](const Kept& kept) {
        return kept.attempts >= kMostAttempts;
      })) {
    cleaned_ = 0;
    for (Kept& kept : kept_) kept.attempts = 0;
    done_ = buffer_.size() - std::min(buffer_.size(), kKept);
    ReadUpTo(buffer_.size());
  }
  JoinBroken(head_, 0);
  const std::size_t tail = buffer_.size() - std::min(buffer_.size(), kKept);
  if (base_ + tail > 0) JoinBroken(std::string_view(buffer_).substr(tail), base_ + tail);

  LogEvidence evidence;
  evidence.last_lines = LastLines();
  evidence.bytes = base_ + buffer_.size();
  for (Kept& kept : kept_) {
    for (LogHit& hit : kept.first) evidence.hits.push_back(std::move(hit));
    for (LogHit& hit : kept.last) evidence.hits.push_back(std::move(hit));
  }
  const auto order = [](const LogHit& a, const LogHit& b) {
    return std::tie(a.offset, a.row) < std::tie(b.offset, b.row);
  };
  std::sort(evidence.hits.begin(), evidence.hits.end(), order);
  const auto again = [](const LogHit& a, const LogHit& b) {
    return a.offset == b.offset && a.signature == b.signature;
  };
  evidence.hits.erase(std::unique(evidence.hits.begin(), evidence.hits.end(), again),
                      evidence.hits.end());
  return evidence;
}

std::vector<std::string> LogScanner::LastLines() const {
  std::vector<std::string> lines;
  std::size_t end = buffer_.size();
  const std::size_t first = end - std::min(end, kAhead);
  while (end > first && lines.size() < kLastLines) {
    std::size_t begin = end;
    while (begin > first && !EndsLine(buffer_[begin - 1])) --begin;
    const LogLine line = ReadLine(std::string_view(buffer_).substr(begin, end - begin));
    if (!TrimFront(line.text).empty()) lines.push_back(Shortened(line.text));
    end = begin - std::min<std::size_t>(begin, 1);
  }
  std::reverse(lines.begin(), lines.end());
  return lines;
}

bool LogScanner::Rests(std::size_t phrase) const {
  const std::vector<std::size_t>& rows = signatures_.RowsOf(phrase);
  return std::all_of(rows.begin(), rows.end(),
                     [&](std::size_t row) { return kept_[row].attempts >= kMostAttempts; });
}

LogScanner::Span LogScanner::LineAt(std::size_t at) const {
  Span line{at, at};
  const std::size_t first = at - std::min(at, kBack);
  while (line.begin > first && !EndsLine(buffer_[line.begin - 1])) --line.begin;
  const std::size_t last = std::min(buffer_.size(), line.begin + kLongestLine);
  while (line.end < last && !EndsLine(buffer_[line.end])) ++line.end;
  return line;
}

LogScanner::Span LogScanner::LineBefore(Span line) const {
  std::size_t end = line.begin;
  while (end > 0 && line.begin - end < 4 && EndsLine(buffer_[end - 1])) --end;
  if (end == line.begin || end == 0) return {line.begin, line.begin};
  Span before = LineAt(end - 1);
  before.end = std::min(before.end, end);
  return before;
}

void LogScanner::ReadUpTo(std::size_t end) {
  if (end <= done_) return;
  candidates_.clear();
  FindPhrases(end);
  FindInEscapedLines(end);
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return a.line != b.line ? a.line < b.line : a.phrase < b.phrase;
  });
  std::vector<std::size_t> phrases;
  for (std::size_t i = 0; i < candidates_.size();) {
    const std::size_t line = candidates_[i].line;
    phrases.clear();
    for (; i < candidates_.size() && candidates_[i].line == line; ++i)
      if (phrases.empty() || phrases.back() != candidates_[i].phrase)
        phrases.push_back(candidates_[i].phrase);
    Span span = LineAt(line);
    span.begin = line;
    Evaluate(span, phrases);
  }
  done_ = end;
}

void LogScanner::FindPhrases(std::size_t end) {
  const std::size_t from = done_;
  const std::size_t to = std::min(buffer_.size(), end + kLongestPhrase);
  Span line{0, 0};
  signatures_.filter().Find(std::string_view(buffer_).substr(from, to - from),
                            [&](std::size_t phrase, std::size_t at) {
                              if (from + at >= end || Rests(phrase)) return;
                              if (from + at < line.begin || from + at >= line.end)
                                line = LineAt(from + at);
                              candidates_.push_back({line.begin, phrase});
                            });
}

// A phrase with an escape sequence or a NUL in it is found in the cleaned line.
void LogScanner::FindInEscapedLines(std::size_t end) {
  const char* const data = buffer_.data();
  for (const char mark : {'\x1b', '\0'}) {
    for (std::size_t at = done_; at < end && cleaned_ < kMostCleaned;) {
      const void* found = std::memchr(data + at, mark, end - at);
      if (found == nullptr) break;
      const auto position = static_cast<std::size_t>(static_cast<const char*>(found) - data);
      const Span line = LineAt(position);
      const std::string_view raw =
          std::string_view(buffer_).substr(line.begin, line.end - line.begin);
      at = std::max(line.end, position + 1);
      // Searched already, for its escapes.
      if (mark == '\0' && raw.find('\x1b') != raw.npos) continue;
      const std::string clean = CleanText(raw);
      signatures_.filter().Find(clean, [&](std::size_t phrase, std::size_t) {
        if (!Rests(phrase)) candidates_.push_back({line.begin, phrase});
      });
      cleaned_ += line.end - line.begin;
    }
  }
}

void LogScanner::Evaluate(Span line, const std::vector<std::size_t>& phrases) {
  if (IsOfDynamo(std::string_view(buffer_).substr(line.begin, line.end - line.begin))) return;
  const LogLine read = Read(line);
  if (IsSourceLine(line, read) || IsNoMessage(read.text)) return;
  joined_.clear();
  std::vector<std::size_t> rows;
  for (const std::size_t phrase : phrases)
    for (const std::size_t row : signatures_.RowsOf(phrase)) rows.push_back(row);
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  for (const std::size_t row : rows) TryRow(row, line, read);
}

std::vector<LogScanner::Joined> LogScanner::Join(Span line, const LogLine& read) const {
  const Span before = LineBefore(line);
  const std::string front = Read(before).text;
  std::vector<Joined> forms;
  for (const char* glue : {" ", ""}) {
    const std::string text =
        Glued(read.text, Following(line, read.rank, kWrappedLines, glue), glue);
    forms.push_back({text, line.begin});
    if (!front.empty())
      forms.push_back({std::string(front).append(glue).append(text), before.begin});
  }
  return forms;
}

bool LogScanner::TryRow(std::size_t row, Span line, const LogLine& read) {
  Kept& kept = kept_[row];
  if (kept.attempts >= kMostAttempts) return false;
  ++kept.attempts;
  const Signature& signature = *signatures_.rows()[row].signature;
  LogHit hit;
  hit.signature = &signature;
  hit.row = row;
  hit.offset = base_ + line.begin;
  hit.rank = read.rank;
  hit.text = Shortened(read.text);
  if (signature.reading == Reading::kException && ignored_.contains(hit.offset)) return false;
  hit.is_caught = caught_.contains(hit.offset) || ignored_.contains(hit.offset);
  hit.is_unproven = unproven_.contains(hit.offset);
  CompiledSignatures::Match match;
  if (!signatures_.Matches(row, read.text, &match)) {
    // What a line says of itself holds, whatever stands next to it.
    if (IsPlace(signature.reading) || signatures_.IsVetoed(row, read.text)) return false;
    if (joined_.empty()) joined_ = Join(line, read);
    const auto joined = std::ranges::find_if(
        joined_, [&](const Joined& form) { return signatures_.Matches(row, form.text, &match); });
    if (joined == joined_.end() || signature.reading == Reading::kException) return false;
    hit.text = Shortened(joined->text);
    hit.offset = base_ + joined->begin;
    hit.is_caught = hit.is_caught || IsInPassing(read.text, signature.label);
  }
  if (!IsPlace(signature.reading) && !hit.is_unproven && IsOfException(TrimFront(read.text)) &&
      SaysItGoesOn(read.text))
    hit.is_unproven = !LivesBehind(line, read.rank);
  hit.of_script = IsOfShell(read.text) && !Following(line, std::nullopt, 1, "").empty();
  hit.warns = IsWarning(hit.text) || (read.warns && !IsOfException(TrimFront(read.text)));
  hit.first = match.first;
  hit.second = match.second;
  switch (signature.reading) {
    case Reading::kTraceback:
      if (read.quotes_traceback) return KeepQuoted(std::move(hit), read);
      LearnPrefix(read.text);
      ReadException(std::move(hit), line, read.text);
      return true;
    case Reading::kOom: {
      hit.context = Glued(read.text, Following(line, read.rank, kOomLines, " "), " ");
      // A terminal that breaks words: glued without a space the numbers are whole again.
      hit.second = read.text + Following(line, read.rank, kOomLines, "");
      hit.frames = Before(line);
      hit.first = NumbersBefore(line);
      break;
    }
    case Reading::kSmi: {
      const std::size_t end = std::min(buffer_.size(), line.end + kSmiTable);
      hit.context = buffer_.substr(line.end, end - line.end);
      break;
    }
    case Reading::kRankEnd: {
      hit.end = ends_.Read(read.text, read.rank);
      if (!hit.end) return false;
      if (hit.end->rank) hit.rank = hit.end->rank;
      break;
    }
    case Reading::kException:
      hit.context = FrameAbove(line);
      if (hit.second.empty() && read.text.back() == ':') {
        hit.second = Following(line, read.rank, 1, "");
        hit.text = Shortened(read.text + " " + hit.second);
      }
      break;
    default:
      break;
  }
  Keep(std::move(hit));
  return true;
}

void LogScanner::Keep(LogHit hit) {
  Kept& kept = kept_[hit.row];
  const bool step = hit.signature->reading == Reading::kStep;
  const bool is_long = !hit.context.empty() || !hit.frames.empty();
  if (step) hit.text.clear();
  if (kept.first.size() < kFirstHits) {
    kept.first.push_back(std::move(hit));
    return;
  }
  kept.last.push_back(std::move(hit));
  if (kept.last.size() > (step ? kLastSteps : is_long ? kLastLong : kLastHits))
    kept.last.pop_front();
}

std::string LogScanner::Following(Span line, std::optional<Rank> rank, int count,
                                  const char* glue) const {
  std::string joined;
  std::size_t at = line.end;
  const std::size_t limit = std::min(buffer_.size(), line.end + kAhead);
  for (int lines = 0; lines < count && at < limit;) {
    while (at < limit && EndsLine(buffer_[at])) ++at;
    if (at >= limit) break;
    Span span{at, at};
    while (span.end < limit && span.end - span.begin < kLongestLine && !EndsLine(buffer_[span.end]))
      ++span.end;
    const LogLine next = Read(span);
    at = std::max(span.end, at + 1);
    if (rank && next.rank && next.rank != rank) continue;
    ++lines;
    // One space, where a terminal broke the line in front of it, is no indentation.
    const bool is_cut = *glue == '\0' && Indent(next.text) == 1;
    const std::string_view more = is_cut ? next.text : TrimFront(next.text);
    if (!joined.empty() && !IsCutNumber(joined, more)) joined += glue;
    joined += more;
    if (joined.size() > kLongestLine) break;
  }
  return joined;
}

std::string LogScanner::Before(Span line) const {
  const std::size_t from = line.begin - std::min(line.begin, kFramesBack);
  std::string text(buffer_, from, line.begin - from);
  const std::size_t header = text.rfind("Traceback (most recent");
  if (header == std::string::npos) {  // cut away, or a collector's excerpt
    const std::size_t frame = text.find("File \"");
    return frame == std::string::npos ? std::string() : CleanText(text.substr(frame));
  }
  // "Caught RuntimeError in pin memory thread" stands on the line above the original traceback.
  const std::size_t above = text.rfind('\n', header);
  const std::size_t from_above =
      above == std::string::npos || above == 0 ? std::string::npos : text.rfind('\n', above - 1);
  return CleanText(text.substr(from_above == std::string::npos ? 0 : from_above));
}

void LogScanner::JoinBroken(std::string_view part, std::uint64_t base) {
  struct Piece {
    std::string text;
    std::size_t offset;
    std::optional<Rank> rank;
  };
  std::vector<Piece> pieces;
  for (std::size_t at = 0; at < part.size();) {
    std::size_t end = at;
    while (end < part.size() && end - at < kLongestLine && !EndsLine(part[end])) ++end;
    if (end > at) {
      LogLine line = ReadLine(part.substr(at, end - at));
      pieces.push_back({std::string(TrimFront(line.text)), at, line.rank});
    }
    at = std::max(end, at + 1);
  }
  for (const std::string_view glue : {" ", ""}) {
    std::string text;
    std::vector<std::size_t> starts;
    for (const Piece& piece : pieces) {
      starts.push_back(text.size());
      text += piece.text;
      text += glue;
    }
    starts.push_back(text.size());
    const auto piece_of = [&](std::size_t at) {
      return static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), at) -
                                      starts.begin() - 1);
    };
    signatures_.filter().Find(text, [&](std::size_t phrase, std::size_t at) {
      for (const std::size_t row : signatures_.RowsOf(phrase)) {
        const Signature& signature = *signatures_.rows()[row].signature;
        // What reads the lines behind it is left to whole phrases.
        if (signature.reading == Reading::kTraceback || signature.reading == Reading::kRankEnd ||
            signature.reading == Reading::kException || signature.reading == Reading::kNan ||
            IsPlace(signature.reading))
          continue;
        std::size_t length = 0;
        for (const std::string_view known : signature.phrases)
          if (text.compare(at, known.size(), known) == 0) length = std::max(length, known.size());
        const std::size_t first = piece_of(at);
        const bool whole = at + length <= starts[first] + pieces[first].text.size();
        if (length == 0 || whole) continue;  // whole: found before
        if (kept_[row].attempts++ >= 2 * kMostAttempts) continue;
        const std::size_t last = std::min(first + 1 + kWrappedLines, pieces.size());
        const std::string joined = text.substr(starts[first], starts[last] - starts[first]);
        CompiledSignatures::Match match;
        if (!signatures_.Matches(row, joined, &match)) continue;
        LogHit hit;
        hit.signature = &signature;
        hit.row = row;
        hit.offset = base + pieces[first].offset;
        hit.rank = pieces[first].rank;
        hit.text = Shortened(joined);
        hit.warns = IsWarning(hit.text);
        hit.first = match.first;
        hit.second = match.second;
        if (signature.reading == Reading::kOom) {
          const std::size_t all = std::min(first + 1 + kOomLines, pieces.size());
          hit.context = hit.second = text.substr(starts[first], starts[all] - starts[first]);
        }
        Keep(std::move(hit));
      }
    });
  }
}

}  // namespace launch
