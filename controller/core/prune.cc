// Jobs that ended long ago leave the store, so that it stays of one size; their events stay longer.
#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "controller/core/draft.h"

namespace launch::controller {
namespace {

// A few with each event: no event takes long, also where the limit was lowered.
constexpr std::size_t kPrunedAtOnce = 4;

// What a node may still ask about stays: an allocation that nobody has proved gone, an attempt that
// only the node knows, and a GPU that is quarantined for the job.
bool MayGo(const State& state, JobId job) {
  for (auto allocs = state.allocs.lower_bound(Key{job, Attempt{0}});
       allocs != state.allocs.end() && allocs->first.job == job; ++allocs) {
    for (const auto& [node, alloc] : allocs->second) {
      if (!IsReleased(alloc)) return false;
      // A fenced node was only said to be gone: when it comes back its ranks must be known.
      if (IsFenced(state, node)) return false;
    }
  }
  const auto unknown = state.live.unknown.lower_bound(Key{job, Attempt{0}});
  if (unknown != state.live.unknown.end() && unknown->first.job == job) return false;
  return std::none_of(state.quarantine.begin(), state.quarantine.end(),
                      [&](const auto& entry) { return entry.second.key.job == job; });
}

// Jobs and arrays that a waiting job looks at: without them it would never start.
std::set<JobId> LookedAt(const State& state) {
  std::set<JobId> ids;
  for (const auto& [ticket, submit] : state.live.submits) {
    for (const Dependency& on : submit.spec.depends_on) ids.insert(on.job);
  }
  for (const JobId job : state.queue) {
    for (const Dependency& on : state.specs.at(job).spec.depends_on) ids.insert(on.job);
  }
  return ids;
}

}  // namespace

void PruneJobs(Draft& draft) {
  const State& state = draft.state();
  // Beats and looks change nothing here: where the oldest must stay they would look in vain.
  if (state.done.size() <= state.live.limits.done || draft.decision().records.empty()) return;
  const std::size_t surplus = state.done.size() - state.live.limits.done;
  std::vector<JobId> gone;
  std::optional<std::set<JobId>> needed;  // known when there is somebody to let go
  std::size_t looked_at = 0;
  for (const auto& [ended, id] : state.done) {
    if (looked_at++ == surplus || gone.size() == kPrunedAtOnce) break;
    const JobRecord& job = state.jobs.at(id);
    // One that ended just now is still asked about, whatever the wall clock says.
    if (state.live.ended.contains(Key{id, Attempt{job.attempts}}) || !MayGo(state, id)) continue;
    if (!needed) needed = LookedAt(state);
    if (needed->contains(id) || (job.array && needed->contains(*job.array))) continue;
    gone.push_back(id);
  }
  for (const JobId job : gone) draft.EraseJob(job);
}

}  // namespace launch::controller
