#include "cli/up/progress.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/units.h"

namespace launch::up {
namespace {

// Failed, at work, waiting, ready: whom there is room for.
int Urgency(Stage stage) {
  if (stage == Stage::kFailed) return 0;
  if (stage == Stage::kWaiting) return 2;
  return IsLast(stage) ? 3 : 1;
}

// A terminal acts on control characters; a reason of another machine may hold any.
std::string Plain(std::string_view text) {
  std::string plain;
  for (const char c : text) plain += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  return plain;
}

std::string Fitted(std::string text, int width) {
  const auto most = static_cast<std::size_t>(std::max(1, width));
  if (text.size() <= most) return text;
  if (most <= 3) return text.substr(0, most);
  return text.substr(0, most - 3) + "...";
}

std::string Padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string Bytes(std::uint64_t sent, std::uint64_t total) {
  if (total == 0) return "-";
  if (sent >= total) return FormatBytes(total);
  return FormatBytes(sent) + " of " + FormatBytes(total);
}

}  // namespace

std::string_view ToString(Stage stage) {
  switch (stage) {
    case Stage::kWaiting:
      return "waiting";
    case Stage::kConnecting:
      return "connecting";
    case Stage::kLooking:
      return "looking";
    case Stage::kSending:
      return "sending";
    case Stage::kStarting:
      return "starting";
    case Stage::kReporting:
      return "reporting";
    case Stage::kReady:
      return "ready";
    case Stage::kEnding:
      return "ending";
    case Stage::kEnded:
      return "ended";
    case Stage::kFailed:
      return "failed";
  }
  return "unknown";
}

bool IsLast(Stage stage) {
  return stage == Stage::kReady || stage == Stage::kEnded || stage == Stage::kFailed;
}

ProgressTable::ProgressTable(const std::vector<std::string>& hosts) {
  for (const std::string& host : hosts) {
    Row row;
    row.host = Plain(host);
    rows_.push_back(std::move(row));
  }
}

void ProgressTable::Take(const Progress& progress, Millis now) {
  const std::string host = Plain(progress.host);
  const auto row =
      std::find_if(rows_.begin(), rows_.end(), [&](const Row& one) { return one.host == host; });
  if (row == rows_.end()) return;
  row->stage = progress.stage;
  row->why = Plain(progress.why);
  if (progress.stage == Stage::kSending) {
    row->sent = progress.sent;
    row->total = progress.total;
  }
  if (!row->began && progress.stage != Stage::kWaiting) row->began = now;
  row->ended = now;
}

std::vector<std::size_t> ProgressTable::Shown(std::size_t room) const {
  std::vector<std::size_t> order(rows_.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (order.size() <= room) return order;
  std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
    return Urgency(rows_[a].stage) < Urgency(rows_[b].stage);
  });
  order.resize(room);
  std::sort(order.begin(), order.end());
  return order;
}

std::string ProgressTable::Sum(std::size_t hidden) const {
  std::size_t ready = 0;
  std::size_t failed = 0;
  std::size_t waiting = 0;
  for (const Row& row : rows_) {
    ready += row.stage == Stage::kReady || row.stage == Stage::kEnded ? 1 : 0;
    failed += row.stage == Stage::kFailed ? 1 : 0;
    waiting += row.stage == Stage::kWaiting ? 1 : 0;
  }
  std::string text = std::to_string(ready) + " of " + std::to_string(rows_.size()) + " done";
  if (failed > 0) text += ", " + std::to_string(failed) + " failed";
  const std::size_t busy = rows_.size() - ready - failed - waiting;
  if (busy > 0) text += ", " + std::to_string(busy) + " at work";
  if (hidden > 0) text += "; " + std::to_string(hidden) + " more not shown";
  return text;
}

std::vector<std::string> ProgressTable::Lines(int width, int height, Millis now) const {
  constexpr int kFrame = 2;  // header and sum
  const auto room = static_cast<std::size_t>(std::max(1, height - kFrame));
  const std::vector<std::size_t> shown = Shown(room);
  std::vector<std::array<std::string, 4>> cells = {{"HOST", "SENT", "TIME", "STATE"}};
  for (const std::size_t i : shown) {
    const Row& row = rows_[i];
    const Millis took = row.began ? (IsLast(row.stage) ? row.ended : now) - *row.began : Millis(0);
    std::string state(ToString(row.stage));
    if (!row.why.empty()) state += ": " + row.why;
    cells.push_back({row.host, Bytes(row.sent, row.total),
                     row.began ? FormatDurationShort(std::max(took, Millis(0))) : "-",
                     std::move(state)});
  }
  std::array<std::size_t, 3> widths{};
  for (const auto& row : cells)
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::vector<std::string> lines;
  for (const auto& row : cells) {
    std::string line;
    for (std::size_t i = 0; i < widths.size(); ++i) line += Padded(row[i], widths[i]) + "  ";
    lines.push_back(Fitted(line + row[3], width));
  }
  lines.push_back(Fitted(Sum(rows_.size() - shown.size()), width));
  return lines;
}

std::string Repaint(std::size_t before, const std::vector<std::string>& lines) {
  // Each line is cleared as it is written, and what is left of a longer picture at the end: a
  // screen that is cleared as a whole flickers.
  std::string text;
  if (before > 0) text += "\x1b[" + std::to_string(before) + "A";
  for (const std::string& line : lines) text += "\r" + line + "\x1b[K\n";
  return text + "\x1b[J";
}

}  // namespace launch::up
