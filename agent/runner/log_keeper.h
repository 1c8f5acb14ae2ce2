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

  // The disk is nearly full: also below the cap, leaving the head and 8 MiB of the newest part.
  std::uint64_t Shrink();

 private:
  std::uint64_t Punch(const std::string& path, std::uint64_t size, std::uint64_t cap) const;

  std::string directory_;
  std::uint64_t cap_bytes_;
  std::array<std::uint64_t, 2> indexed_{};  // size at the last entry: of out, of err
};

}  // namespace launch::agent
