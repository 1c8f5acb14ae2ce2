#include "cli/log_printer.h"

#include <algorithm>
#include <cctype>

#include "common/terminal_text.h"

namespace launch {
namespace {

constexpr std::size_t kMaxLine = 64 * 1024;         // a line without end is cut here
constexpr std::size_t kMaxHeld = 64 * 1024 * 1024;  // then ordering by time ends, not the output

// The last state of a line that was rewritten with carriage returns.
std::string_view LastState(std::string_view line) {
  while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  const std::size_t cr = line.rfind('\r');
  return cr == std::string_view::npos ? line : line.substr(cr + 1);
}

}  // namespace

std::string CleanLine(std::string_view line, bool colour) {
  std::string clean;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\033') {
      if (i + 1 < line.size() && line[i + 1] == '[') {  // CSI: up to its final byte
        std::size_t end = i + 2;
        while (end < line.size() && (line[end] < 0x40 || line[end] > 0x7e)) ++end;
        const bool is_colour =
            end < line.size() && line[end] == 'm' &&
            std::all_of(line.begin() + static_cast<std::ptrdiff_t>(i) + 2,
                        line.begin() + static_cast<std::ptrdiff_t>(end),
                        [](unsigned char d) { return std::isdigit(d) != 0 || d == ';'; });
        if (colour && is_colour) clean += line.substr(i, end - i + 1);
        i = end;
      } else if (i + 1 < line.size() && line[i + 1] == ']') {  // OSC: up to BEL or ESC backslash
        std::size_t end = i + 2;
        while (end < line.size() && line[end] != '\a' && line[end] != '\033') ++end;
        i = end < line.size() && line[end] == '\033' ? end + 1 : end;
      } else {
        ++i;
      }
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    if (const std::size_t control = ScreenControlLength(line.substr(i)); control > 0) {
      i += control - 1;
      continue;
    }
    if ((byte >= 0x20 && byte != 0x7f) || c == '\t') clean += c;
  }
  return clean;
}

std::string CleanText(std::string_view text, bool colour) {
  std::string clean;
  while (true) {
    const std::size_t end = text.find('\n');
    clean += CleanLine(text.substr(0, end), colour);
    if (end == std::string_view::npos) return clean;
    clean += '\n';
    text.remove_prefix(end + 1);
  }
}

LogPrinter::LogPrinter(Options options, Write out, Write notes)
    : options_(std::move(options)), out_(std::move(out)), notes_(std::move(notes)) {}

std::string LogPrinter::Prefixed(const SourceKey& key, std::string_view line) const {
  std::string clean = CleanLine(line, options_.colour);
  if (!options_.prefix) return clean;
  return "[" + std::to_string(std::get<Rank>(key)) + "] " + clean;
}

std::string LogPrinter::Formed(const SourceKey& key, const Source& source,
                               std::string_view line) const {
  if (!options_.form) return Prefixed(key, line);
  const auto& [attempt, rank, stream] = key;
  return options_.form({.wall_ms = source.wall_ms,
                        .attempt = Attempt{attempt},
                        .rank = rank,
                        .node = source.node,
                        .stream = stream,
                        .text = line});
}

void LogPrinter::EraseLive() {
  if (live_) out_("\r\033[K");
  live_ = false;
}

void LogPrinter::ShowLive(const SourceKey& key, std::string_view line) {
  EraseLive();
  out_(Prefixed(key, line));
  live_ = true;
}

void LogPrinter::Emit(const SourceKey& key, Source& source, std::string_view line) {
  if (options_.errors && !source.errors.Take(LastState(line))) return;
  std::string text = Formed(key, source, LastState(line)) + "\n";
  if (!options_.merge) {
    EraseLive();
    out_(text);
    return;
  }
  held_bytes_ += text.size();
  held_.push_back({std::get<0>(key), source.wall_ms, held_.size(), std::move(text)});
  if (held_bytes_ > kMaxHeld) FlushHeld();
}

void LogPrinter::FlushHeld() {
  std::sort(held_.begin(), held_.end(), [](const Line& a, const Line& b) {
    return std::tie(a.attempt, a.wall_ms, a.order) < std::tie(b.attempt, b.wall_ms, b.order);
  });
  for (const Line& line : held_) out_(line.text);
  held_.clear();
  held_bytes_ = 0;
}

void LogPrinter::TakeChunk(const LogChunk& chunk) {
  const SourceKey key(chunk.attempt.value, chunk.rank, chunk.stream);
  Source& source = sources_[key];
  source.node = chunk.node.value;
  std::string_view data = chunk.data;
  if (chunk.offset < source.next_offset) {
    const std::uint64_t seen = source.next_offset - chunk.offset;
    if (seen >= data.size()) return;
    data.remove_prefix(seen);
  }
  if (source.next_offset > 0 && chunk.offset > source.next_offset) {
    notes_("[" + std::to_string(chunk.rank) + "] " +
           std::to_string(chunk.offset - source.next_offset) + " bytes were not received here\n");
  }
  source.next_offset = chunk.offset + chunk.data.size();
  if (chunk.wall < options_.since) return;
  // Within a rank time never goes back, so ordering by time keeps every rank's own order.
  source.wall_ms = std::max(source.wall_ms, ToMs(chunk.wall));
  if (options_.raw) {
    out_(data);
    return;
  }
  source.pending += data;
  std::size_t start = 0;
  for (;;) {
    const std::size_t newline = source.pending.find('\n', start);
    if (newline == std::string::npos) break;
    Emit(key, source, std::string_view(source.pending).substr(start, newline - start));
    start = newline + 1;
  }
  source.pending.erase(0, start);
  if (source.pending.size() > kMaxLine) {
    // A bar that never ends its line only needs its last state; a long line is cut.
    if (const std::size_t cr = source.pending.rfind('\r'); cr != std::string::npos && cr > 0) {
      source.pending.erase(0, source.pending.rfind('\r', source.pending.size() - 2) + 1);
    } else {
      Emit(key, source, source.pending);
      source.pending.clear();
    }
  }
  const bool bar = source.pending.find('\r') != std::string::npos;
  if (options_.terminal && !options_.merge && bar) ShowLive(key, LastState(source.pending));
}

void LogPrinter::Take(const LogPiece& piece) {
  if (const auto* chunk = std::get_if<LogChunk>(&piece)) {
    if (chunk->attempt.value > attempt_) {
      if (attempt_ != 0) notes_("== attempt " + std::to_string(chunk->attempt.value) + " ==\n");
      attempt_ = chunk->attempt.value;
    }
    TakeChunk(*chunk);
    return;
  }
  if (const auto* gap = std::get_if<LogGap>(&piece)) {
    for (auto& [key, source] : sources_)
      // Of which of its streams it does not say: one that is not there yet has not lost this.
      if (std::get<0>(key) == gap->attempt.value && std::get<Rank>(key) == gap->rank &&
          source.next_offset >= gap->from)
        source.next_offset = std::max(source.next_offset, gap->to);
    const std::string why = CleanLine(gap->why, false);
    notes_("[" + std::to_string(gap->rank) + "] " +
           (gap->to == gap->from
                ? "cannot be read on: " + why + "\n"
                : std::to_string(gap->to - gap->from) + " bytes are missing here (" + why + ")\n"));
    return;
  }
  const LogEnd& end = std::get<LogEnd>(piece);
  for (auto& [key, source] : sources_) {
    if (std::get<0>(key) != end.attempt.value || std::get<Rank>(key) != end.rank) continue;
    if (!source.pending.empty()) Emit(key, source, source.pending);
    source.pending.clear();
  }
  if (!end.complete && !end.error.empty())
    notes_("[" + std::to_string(end.rank) + "] the log ends early: " + CleanLine(end.error, false) +
           "\n");
}

std::vector<LogPosition> LogPrinter::Positions() const {
  std::vector<LogPosition> positions;
  for (const auto& [key, source] : sources_) {
    const auto& [attempt, rank, stream] = key;
    if (attempt == attempt_ && source.next_offset > 0)
      positions.push_back({Attempt{attempt}, rank, stream, source.next_offset});
  }
  return positions;
}

void LogPrinter::Finish() {
  for (auto& [key, source] : sources_) {
    if (source.pending.empty()) continue;
    Emit(key, source, source.pending);
    source.pending.clear();
  }
  FlushHeld();
  EraseLive();
}

}  // namespace launch
