// How a rank ended, read from the words of torchrun, DeepSpeed, srun, bash and Python.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/ids.h"

namespace launch {

struct RankEnd {
  std::optional<Rank> rank;
  std::optional<int> exit_code;  // at most one of the two
  std::optional<int> signal;
  bool root = false;  // torchrun's "Root Cause (first observed failure)"
};

// 137 and 139 as shells say it, -9 as Python says it, 245-250 as DeepSpeed's launcher hands a
// negative code to exit(2); Windows' codes of crashes.
RankEnd DecodeExitCode(std::int64_t code);

// Reads the lines of one report in order: torchrun spreads it over several.
class RankEndReader {
 public:
  // What `text`, a cleaned line, adds; nothing when it is no statement about an end.
  std::optional<RankEnd> Read(std::string_view text, std::optional<Rank> rank);

 private:
  std::optional<RankEnd> ReadFirst(std::string_view text);
  bool in_root_ = false;
  std::optional<Rank> reported_rank_;
};

}  // namespace launch
