// Keeps one rank's log within its cap and its time index up to date.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "common/clock.h"
#include "common/error.h"

namespace launch::agent {

// `out.index`, `err.index`: pairs of (offset, wall milliseconds), both 8 bytes, in growing order:
// at that moment the stream's file had that size. Losing entries only makes the merge of ranks
// coarser.
struct IndexEntry {
  std::uint64_t offset = 0;
  std::int64_t wall_ms = 0;
};
std::string IndexPath(const std::string& stream_path);

inline constexpr std::uint64_t kKeptHeadBytes = std::uint64_t{8} << 20;
inline constexpr std::uint64_t kIndexEveryBytes = 64 * 1024;

class LogKeeper {
 public:
  // Goes on behind the last entry that an earlier agent wrote. Cap 0 = none.
  LogKeeper(std::string directory, std::uint64_t cap_bytes);

  // Looks at the files; appends to the index when they grew; punches the middle of what is over the
  // cap. Call about once a second. The bytes punched by this call.
  std::uint64_t Look(WallTime now);

  // Bytes that the job itself has emptied of its log since it was asked last: `> /dev/stderr`,
  // `> /dev/stdout` and `tee` to them open the file anew, and the kernel cuts it. Offsets stay true
  // all the same: it grows back to where it was, as a hole, and what was written since goes behind.
  std::uint64_t TakeEmptied();

  // The disk is nearly full: also below the cap, leaving the head and 8 MiB of the newest part.
  std::uint64_t Shrink();

 private:
  std::uint64_t GoOnBehind(std::size_t stream, const std::string& path, std::uint64_t size);
  std::uint64_t Punch(const std::string& path, std::uint64_t size, std::uint64_t cap) const;

  std::string directory_;
  std::uint64_t cap_bytes_;
  std::array<std::uint64_t, 2> indexed_{};  // size at the last entry: of out, of err
  std::array<std::uint64_t, 2> emptied_{};  // end of the hole that stands for what was emptied
  std::uint64_t lost_ = 0;
};

}  // namespace launch::agent
