#include "cli/up/progress.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "cli/table.h"
#include "common/terminal_text.h"
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
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t control = ScreenControlLength(text.substr(i));
    const bool is_byte = static_cast<unsigned char>(text[i]) < 0x20 || text[i] == 0x7f;
    plain += control > 0 || is_byte ? ' ' : text[i];
    if (control > 0) i += control - 1;
  }
  return plain;
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
  Table table{{{"HOST", false, true}, {"SENT"}, {"TIME"}, {"STATE", false, true}}, {}};
  for (const std::size_t i : shown) {
    const Row& row = rows_[i];
    const Millis took = row.began ? (IsLast(row.stage) ? row.ended : now) - *row.began : Millis(0);
    std::string state(ToString(row.stage));
    if (!row.why.empty()) state += ": " + row.why;
    table.rows.push_back({row.host, Bytes(row.sent, row.total),
                          row.began ? FormatDurationShort(std::max(took, Millis(0))) : "-",
                          std::move(state)});
  }
  std::string text = FormatTable(table, width) + Sum(rows_.size() - shown.size());
  // A line that the terminal breaks would be two when the picture is painted over.
  std::vector<std::string> lines;
  const auto most = static_cast<std::size_t>(std::max(1, width));
  std::istringstream stream(std::move(text));
  for (std::string line; std::getline(stream, line);) lines.push_back(Shorten(line, most));
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
