// Reads rank logs of this node by offset, while they grow and after their attempt was forgotten.
#pragma once

#include <string>

#include "agent/link/log_source.h"

namespace launch::agent {

// Stateless but for the directory: safe from any thread, needs no runner.
class LogReader final : public LogSource {
 public:
  explicit LogReader(std::string state_dir) : state_dir_(std::move(state_dir)) {}

  // NOT_FOUND: no such log on this node. `complete`: nothing is left that could write to it.
  // A piece with a gap has no data: the next read goes on behind the gap. Data never crosses an
  // entry of the time index (log_keeper.h).
  Result<LogPiece> Read(const Key& key, Rank rank, const std::string& stream, std::uint64_t from,
                        std::size_t max_bytes) override;
  // A line ends with '\n'; the redraws of a progress bar ('\r') belong to its line. A last line
  // without an end counts. Looks back 64 MiB at most.
  Result<std::uint64_t> OffsetOfLastLines(const Key& key, Rank rank, const std::string& stream,
                                          std::uint32_t lines) override;

 private:
  struct Place {
    std::string directory;  // rank.R
    bool final = false;     // its attempt was released or forgotten: nobody writes
  };
  Result<Place> Find(const Key& key, Rank rank, const std::string& stream) const;
  static bool IsComplete(const Place& place);
  std::uint64_t BaseOf(const Key& key, Rank rank, const std::string& stream) const;

  std::string state_dir_;
};

}  // namespace launch::agent
