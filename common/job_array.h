// Many jobs of one file, and what a job waits for before it may start.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/ids.h"

namespace launch {

inline constexpr int kMaxElements = 1'000;    // jobs of one array
inline constexpr int kMaxIndex = 4'000'000;   // of an element; Slurm's highest
inline constexpr int kMaxDependencies = 256;  // of one job

// One parameter of a grid; the values stay as they were written.
struct SweepAxis {
  std::string name;  // of the variable that the ranks see
  std::vector<std::string> values;
  friend bool operator==(const SweepAxis&, const SweepAxis&) = default;
};

struct ArraySpec {
  std::vector<int> indices;      // in order, distinct; of a sweep 0, 1, 2 ...
  int at_once = 0;               // most elements that run at the same time; 0 = no limit
  std::vector<SweepAxis> sweep;  // the last parameter changes fastest
  friend bool operator==(const ArraySpec&, const ArraySpec&) = default;
};

// Which job of an array a job is.
struct ArrayElement {
  JobId array;  // number of the array; 0 before it has one
  int index = 0;
  int at_once = 0;
  std::map<std::string, std::string> values;  // of the sweep
  friend bool operator==(const ArrayElement&, const ArrayElement&) = default;
};

// Slurm's words: what must have happened to the other job.
enum class DependencyKind {
  kAfter,       // it started, or ended
  kAfterAny,    // it ended
  kAfterOk,     // it succeeded
  kAfterNotOk,  // it ended and did not succeed
  kAfterCorr,   // the element of the same index succeeded
  kSingleton,   // every earlier job of this name and user ended
};
struct Dependency {
  DependencyKind kind = DependencyKind::kAfterOk;
  JobId job;  // a job or an array; 0 for singleton
  friend bool operator==(const Dependency&, const Dependency&) = default;
};

std::string_view ToString(DependencyKind v);
std::optional<DependencyKind> ParseDependencyKind(std::string_view text);
std::string ToString(const Dependency& v);  // "afterok:17"

// "1-20%4", "0,3,7-9", "0-20:5": Slurm's grammar.
Result<ArraySpec> ParseArray(std::string_view text);
// The grid of these parameters, "%" apart.
Result<ArraySpec> MakeSweep(std::vector<SweepAxis> axes);
// "afterok:17:18", "17" (means afterok), "singleton"; several separated by commas must all hold.
Result<std::vector<Dependency>> ParseDependencies(std::string_view text);

// The elements in order, with the values of their place in the grid.
std::vector<ArrayElement> ElementsOf(const ArraySpec& array);

}  // namespace launch
