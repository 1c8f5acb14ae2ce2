// Why a job hangs: from where each of its ranks stands.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/diagnosis.h"
#include "common/stacks.h"

namespace launch {

// One rank as its node described it.
struct StandingRank {
  Rank rank = 0;
  NodeId node;
  std::optional<std::int64_t> step;  // the last that it said
  std::vector<ProcessStack> processes;
  std::string why;  // there is nothing of it
};

struct HangFacts {
  Millis silent{0};  // no output, no step, no use of a GPU for so long
  std::vector<StandingRank> ranks;
};

// Labels "hang" (somebody is late, stuck or cannot be reached) and "collective_mismatch" (the
// ranks wait for each other in different calls: an error of the program). Confirmed when every rank
// was seen and one of them is not where the others are.
Verdict JudgeHang(const HangFacts& facts);

// "rank 3 on gpu01: in all_reduce, called at /w/train.py:31 (step)": for events and evidence.
std::string DescribeStanding(const StandingRank& rank);

}  // namespace launch
