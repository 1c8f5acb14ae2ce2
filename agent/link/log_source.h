// Bytes of rank logs on this node, named by (key, rank, stream, offset).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "common/error.h"
#include "common/ids.h"

namespace launch::agent {

struct LogPiece {
  // Bytes [first, second) are gone: the cap punched the middle, or the job emptied its log.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> gap;
  bool emptied = false;      // by the job; of what it wrote last nobody knows how much that was
  std::string data;          // may be empty: nothing new yet
  std::uint64_t next = 0;    // where to go on
  bool complete = false;     // the rank has ended and `next` is its last byte
  bool later = false;        // what comes next is known in a moment, whoever follows or not
  std::int64_t wall_ms = 0;  // of the newest byte of `data`; 0 = unknown
};

class LogSource {
 public:
  virtual ~LogSource() = default;
  virtual Result<LogPiece> Read(const Key& key, Rank rank, const std::string& stream,
                                std::uint64_t from, std::size_t max_bytes) = 0;
  // Offset at which the last `lines` lines begin.
  virtual Result<std::uint64_t> OffsetOfLastLines(const Key& key, Rank rank,
                                                  const std::string& stream,
                                                  std::uint32_t lines) = 0;
};

}  // namespace launch::agent
