// What `launch up` shows in a terminal while it works: one line for each host.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"

namespace launch::up {

enum class Stage {
  kWaiting,
  kConnecting,
  kLooking,
  kSending,
  kStarting,
  kReporting,  // started, and has not reported yet
  kReady,
  kEnding,
  kEnded,
  kFailed,
};
std::string_view ToString(Stage stage);
bool IsLast(Stage stage);  // nothing follows: its clock stands

// One step of a host, as it is told from the thread that works on it.
struct Progress {
  std::string host;
  Stage stage = Stage::kWaiting;
  std::uint64_t sent = 0;  // bytes; with kSending
  std::uint64_t total = 0;
  std::string why;  // with kFailed
};
using ProgressSink = std::function<void(const Progress&)>;

// The state of all hosts as lines of text. Pure: times are milliseconds since any one moment.
class ProgressTable {
 public:
  explicit ProgressTable(const std::vector<std::string>& hosts);

  void Take(const Progress& progress, Millis now);
  // A header, hosts and a sum, none wider than `width` and at most `height` of them. Where there
  // are more hosts than room, those that failed and those at work stand before those that wait and
  // those that are ready.
  std::vector<std::string> Lines(int width, int height, Millis now) const;

 private:
  struct Row {
    std::string host;
    Stage stage = Stage::kWaiting;
    std::uint64_t sent = 0;
    std::uint64_t total = 0;
    std::string why;
    std::optional<Millis> began;
    Millis ended{0};
  };
  std::vector<std::size_t> Shown(std::size_t room) const;
  std::string Sum(std::size_t hidden) const;

  std::vector<Row> rows_;
};

// The characters that put `lines` over the `before` lines that stand above the cursor.
std::string Repaint(std::size_t before, const std::vector<std::string>& lines);

}  // namespace launch::up
