// Keeps one rank's log within its cap, its time index up to date, and its offsets true.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "common/clock.h"
#include "common/error.h"

namespace launch::agent {

// `out.index`, `err.index`: pairs of (offset, wall milliseconds), both 8 bytes, in growing order:
// at that moment the stream ended there. Losing entries only makes the merge of ranks coarser.
struct IndexEntry {
  std::uint64_t offset = 0;
  std::int64_t wall_ms = 0;
};
// A log may grow each second for months: an index longer than this is thinned to half of it. Times
// that it tells are late then, evenly over the log: by half a minute after eleven days of a line a
// second, by four after three months.
inline constexpr std::uint64_t kMostIndexBytes = std::uint64_t{2} << 20;
std::string IndexPath(const std::string& stream_path);
// The offset in the last entry of the index; 0: there is none.
std::uint64_t LastIndexed(const std::string& stream_path);

// `out.base`, `err.base`: the offset of the file's first byte. The job itself can cut its log:
// `> /dev/stderr` and `tee /dev/stderr` open the file anew. Offsets never go back all the same: the
// base leaps over what was there. Nobody but the job ever writes to the file. A cut after which the
// file is as long as before when it is looked at is not seen: who follows it misses what was
// written in between, who reads it from the start does not.
std::string BasePath(const std::string& stream_path);
// The base of the log; 0: it was never cut, or the file is unreadable.
std::uint64_t ReadLogBase(const std::string& stream_path);
// Offset after the last byte of the log.
std::uint64_t LogEnd(const std::string& stream_path);

inline constexpr std::uint64_t kKeptHeadBytes = std::uint64_t{8} << 20;
// How far a base leaps beyond what the last look saw: somebody may have read what was written
// between that and the cut, and must not stand in the middle of what comes. One who had read more
// than this misses as much.
inline constexpr std::uint64_t kLeapBytes = 64 * 1024;

class LogKeeper {
 public:
  // Goes on behind the last entry that an earlier agent wrote. Cap 0 = none.
  LogKeeper(std::string directory, std::uint64_t cap_bytes);

  // Looks at the files; appends to the index when they grew; punches the middle of what is over the
  // cap. Call about once a second. The bytes punched by this call.
  std::uint64_t Look(WallTime now);

  // Notes a cut that no look has seen yet.
  void Settle();

  // The bytes that were lost when the job emptied its log for the first time, told once; else 0.
  std::uint64_t TakeEmptied();

  // For a disk that is nearly full: punches the middle of the log also below the cap, and leaves
  // its head and the newest 8 MiB. Returns the bytes punched.
  std::uint64_t Shrink();

 private:
  void SettleAt(std::size_t stream, const std::string& path, std::uint64_t size);
  std::uint64_t Punch(const std::string& path, std::uint64_t size, std::uint64_t cap) const;

  std::string directory_;
  std::uint64_t cap_bytes_;
  std::array<std::uint64_t, 2> indexed_{};  // offset of the last entry: of out, of err
  std::array<std::uint64_t, 2> base_{};
  std::uint64_t emptied_ = 0;
};

}  // namespace launch::agent
