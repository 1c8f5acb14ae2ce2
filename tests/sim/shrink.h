// From a schedule that fails to the shortest part of it that still fails in the same way.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "tests/sim/schedule.h"

namespace launch::sim {

struct Shrunk {
  std::set<std::size_t> jobs;  // positions in the schedule of the seed
  std::set<std::size_t> faults;
  std::string violation;  // the first one of the short history
  int runs = 0;           // that it took
};

// `all` is the schedule of the seed, which violates `checker` ("C2"); at most `budget` runs.
Shrunk Shrink(std::uint64_t seed, const Schedule& all, const std::string& checker, int budget);

// "C2" of "C2 rank 0 of ...".
std::string CheckerOf(const std::string& violation);

}  // namespace launch::sim
