// Logs of attempts that are forgotten, or that a later one of their job followed on this node:
// <state_dir>/logs/J.N/rank.R/{out,err}[.index|.base].
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/runner/attempt_dir.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file_system.h"

namespace launch::agent {

// Moves the logs of an attempt to the directory `kept`, whose age begins `now` if there were any.
// After an error some are there and the others where they were: nothing is lost, and it can be
// called again.
Result<void> KeepLogs(const AttemptDir& dir, const std::string& kept, WallTime now,
                      FileSystem& files);
// FAILED_PRECONDITION where logs cannot be moved from attempts to the kept ones: something is
// mounted in between.
Result<void> CheckLogsMove(const std::string& state_dir, FileSystem& files);

// What a sweep saw, for the next one. Wall time may jump, and a log is lost for ever: none goes for
// its age unless two sweeps found it old, between which both clocks advanced alike.
struct SweepSeen {
  WallTime wall{};
  BootTime boot{};
  std::set<Key> old;
};
struct LogSweep {
  std::string state_dir;
  Millis keep;                       // older ones go
  std::uint64_t min_free_bytes = 0;  // below: the oldest go until there is as much
  std::set<Key> known;               // none of these
  std::optional<SweepSeen> before;   // of the last sweep of this process
};
struct RemovedLogs {
  Key key;
  std::string why;  // and when
};
struct SweptLogs {
  std::vector<RemovedLogs> removed;
  bool room = true;  // there are `min_free_bytes`, or will be once the disk has counted them
  SweepSeen seen;
};
// Removes logs that are too old, and the oldest ones where the disk lacks room; blocks meanwhile.
// Where removing all of them would not make enough room, none goes for that.
SweptLogs SweepKeptLogs(const LogSweep& sweep, WallTime wall, BootTime boot, FileSystem& files,
                        const std::atomic<bool>& cancel);

// Why an attempt's logs are not here any more; empty: nobody removed them, or very long ago.
std::string WhyLogsRemoved(const std::string& state_dir, const Key& key);

}  // namespace launch::agent
