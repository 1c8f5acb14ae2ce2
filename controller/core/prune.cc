// Jobs that ended long ago leave the store, so that it stays of one size; their events stay longer.
#include <algorithm>

#include "controller/core/draft.h"

namespace launch::controller {
namespace {

// A few with each event: no event takes long, also where the limit was lowered.
constexpr std::size_t kPrunedAtOnce = 4;

// What a node may still ask about stays: an allocation that nobody has proved gone, and a GPU that
// is quarantined for the job.
bool MayGo(const State& state, JobId job) {
  for (auto allocs = state.allocs.lower_bound(Key{job, Attempt{0}});
       allocs != state.allocs.end() && allocs->first.job == job; ++allocs) {
    for (const auto& [node, alloc] : allocs->second) {
      if (!IsReleased(alloc)) return false;
    }
  }
  return std::none_of(state.quarantine.begin(), state.quarantine.end(),
                      [&](const auto& entry) { return entry.second.key.job == job; });
}

}  // namespace

void PruneJobs(Draft& draft) {
  const State& state = draft.state();
  if (state.done.size() <= state.live.limits.done) return;
  const std::size_t surplus = state.done.size() - state.live.limits.done;
  std::vector<JobId> gone;
  std::size_t looked_at = 0;
  for (const auto& [ended, job] : state.done) {
    if (looked_at++ == surplus || gone.size() == kPrunedAtOnce) break;
    if (MayGo(state, job)) gone.push_back(job);
  }
  for (const JobId job : gone) draft.EraseJob(job);
}

}  // namespace launch::controller
