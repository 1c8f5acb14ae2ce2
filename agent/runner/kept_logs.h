// Logs of attempts that are forgotten: <state_dir>/logs/J.N/rank.R/{out,err}[.index|.base].
#pragma once

#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "agent/runner/attempt_dir.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file_system.h"

namespace launch::agent {

// Moves the logs of an attempt to the directory `kept`. After an error some are there and the
// others where they were: nothing is lost, and it can be called again.
Result<void> KeepLogs(const AttemptDir& dir, const std::string& kept, FileSystem& files);

struct LogSweep {
  std::string state_dir;
  Millis keep;                       // older ones go
  std::uint64_t min_free_bytes = 0;  // below: the oldest go until there is as much
  std::set<Key> known;               // none of these
};
struct RemovedLogs {
  Key key;
  std::string why;  // and when
};
// Blocking. Where all of them together would not make room, none goes for that.
std::vector<RemovedLogs> SweepKeptLogs(const LogSweep& sweep, WallTime now, FileSystem& files,
                                       const std::atomic<bool>& cancel);

// Why an attempt's logs are not here any more; empty: nobody removed them, or very long ago.
std::string WhyLogsRemoved(const std::string& state_dir, const Key& key);

}  // namespace launch::agent
