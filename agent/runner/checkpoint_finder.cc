#include "agent/runner/checkpoint_finder.h"

#include <algorithm>
#include <tuple>

#include "agent/runner/checkpoint_formats.h"

namespace launch::agent {
std::vector<CheckpointFound> FindCheckpoints(const CheckpointQuery& query) {
  const bool any = query.format == "auto";
  std::vector<CheckpointFound> found = ReadCheckpoints(
      query.directory,
      {.marker = query.marker, .world = query.world, .format = any ? "" : query.format},
      query.cancel);
  std::ranges::sort(found, [](const CheckpointFound& a, const CheckpointFound& b) {
    return std::tie(b.step, b.modified, a.path) < std::tie(a.step, a.modified, b.path);
  });
  if (found.size() <= kMaxCheckpoints) return found;
  // The one that a job resumes from is never among those left out.
  const auto last = found.begin() + kMaxCheckpoints;
  const auto complete = std::find_if(found.begin(), found.end(),
                                     [](const CheckpointFound& one) { return one.complete; });
  if (complete != found.end() && complete >= last) std::iter_swap(complete, last - 1);
  found.erase(last, found.end());
  return found;
}

}  // namespace launch::agent
