#include "diagnosis/progress.h"

#include <algorithm>

namespace launch {
namespace {

constexpr int kStepsToGoOn = 2;  // one may have been on its way already

}  // namespace

std::uint64_t Progress::GoesOnAt(std::uint64_t offset, const std::optional<Rank>& rank) const {
  int steps = 0;
  for (const Place& step : steps_)
    if (step.offset > offset && step.rank == rank && ++steps == kStepsToGoOn) return step.offset;
  return kNever;
}

std::uint64_t Progress::StartsAnewAt(std::uint64_t offset) const {
  const auto restart =
      std::ranges::find_if(restarts_, [&](std::uint64_t at) { return at >= offset; });
  if (restart == restarts_.end()) return kNever;
  int steps = 0;
  for (const Place& step : steps_)
    if (step.offset > *restart && ++steps == kStepsToGoOn) return step.offset;
  return kNever;
}

bool Progress::IsDoneBefore(std::uint64_t offset) const {
  return std::ranges::any_of(done_, [&](const Place& done) { return done.offset < offset; });
}

bool Progress::IsDoneBehind(std::uint64_t offset, const std::optional<Rank>& rank) const {
  return std::ranges::any_of(
      done_, [&](const Place& done) { return done.offset >= offset && MayBeOne(done.rank, rank); });
}

}  // namespace launch
