#include "agent/runner/checkpoint_finder.h"

#include <algorithm>
#include <tuple>

#include "agent/runner/checkpoint_formats.h"

namespace launch::agent {

std::vector<CheckpointFound> FindCheckpoints(const CheckpointQuery& query) {
  std::vector<CheckpointFound> found = ReadCheckpoints(query.directory, query.marker);
  std::ranges::sort(found, [](const CheckpointFound& a, const CheckpointFound& b) {
    return std::tie(b.step, b.modified, a.path) < std::tie(a.step, a.modified, b.path);
  });
  return found;
}

const CheckpointFound* NewestComplete(const std::vector<CheckpointFound>& found) {
  const auto at = std::ranges::find(found, true, &CheckpointFound::complete);
  return at == found.end() ? nullptr : &*at;
}

}  // namespace launch::agent
