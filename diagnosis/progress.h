// How far a log says that its run was: steps, starts anew, the end of training.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "common/ids.h"

namespace launch {

// No rank: of any.
inline bool MayBeOne(const std::optional<Rank>& a, const std::optional<Rank>& b) {
  return !a || !b || *a == *b;
}

class Progress {
 public:
  void AddStep(std::uint64_t offset, std::optional<Rank> rank) { steps_.push_back({offset, rank}); }
  void AddRestart(std::uint64_t offset) { restarts_.push_back(offset); }
  void AddDone(std::uint64_t offset, std::optional<Rank> rank) { done_.push_back({offset, rank}); }

  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  // The offset at which it is clear that the rank went on after this one: its second step there.
  std::uint64_t GoesOnAt(std::uint64_t offset, const std::optional<Rank>& rank) const;
  // The offset at which it is clear that the run began again after this one, whoever printed its
  // steps.
  std::uint64_t StartsAnewAt(std::uint64_t offset) const;
  // Whether training had come to its end before this place; behind it.
  bool IsDoneBefore(std::uint64_t offset) const;
  bool IsDoneBehind(std::uint64_t offset, const std::optional<Rank>& rank) const;

 private:
  struct Place {
    std::uint64_t offset;
    std::optional<Rank> rank;
  };
  std::vector<Place> steps_;  // all in the order of the log
  std::vector<Place> done_;
  std::vector<std::uint64_t> restarts_;
};

}  // namespace launch
