// Leases of jobs with requeue_after: the shims of a node that cannot hear us end the job's ranks
// when this long has passed since the node sent what we answered last. We count from when we heard
// it, which is later, and add a margin for clocks that run differently.
#include <fmt/format.h>

#include <algorithm>

#include "common/planted.h"
#include "common/units.h"
#include "controller/core/draft.h"

namespace launch::controller {
namespace {

constexpr Millis kLeaseMargin{30'000};

// When nothing of the allocation can run there any more unless the node is heard again; absent
// when the node did not take a lease (agents older than leases know none), or no rank was told to
// start: `setup` runs on no lease.
std::optional<BootTime> LeaseOverAt(const State& state, const NodeId& node, const Key& key) {
  const std::optional<Millis> lease = state.specs.at(key.job).spec.requeue_after;
  if (!lease) return std::nullopt;
  const AllocRecord& alloc = state.allocs.at(key).at(node);
  const AttemptRecord& attempt = state.attempts.at(key);
  if (attempt.master_address.empty()) return std::nullopt;
  const AttemptPhase phase = attempt.phase;
  const bool may_run = phase == AttemptPhase::kLaunching || phase == AttemptPhase::kRunning ||
                       phase == AttemptPhase::kStopping;
  if (!alloc.leased || !may_run) return std::nullopt;
  // The agent that answers now prolongs nothing that the one before it started.
  const Millis length = *lease + std::max(kLeaseMargin, *lease / 100);
  if (const auto unseen = UnseenSince(state, key, node)) return *unseen + length;
  // Before we started, another controller may have answered it.
  BootTime heard = state.live.since;
  const auto live = state.live.nodes.find(node);
  if (live != state.live.nodes.end())
    heard = std::max({heard, live->second.heard, live->second.ponged});
  return heard + length;
}

bool IsOver(const Draft& draft, const NodeId& node, const Key& key) {
  const std::optional<BootTime> over = LeaseOverAt(draft.state(), node, key);
  if (over && Planted(Bug::kLeaseByWall)) {
    const auto live = draft.state().live.nodes.find(node);
    const bool silent = live != draft.state().live.nodes.end() && live->second.silent;
    const Millis lease = *draft.state().specs.at(key.job).spec.requeue_after;
    return silent && draft.wall() >= live->second.last_seen + lease + kLeaseMargin;
  }
  return over && *over <= draft.now();
}

}  // namespace

std::optional<BootTime> NextLeaseEnd(const State& state) {
  std::optional<BootTime> next;
  for (const auto& [node, keys] : state.held_by_node) {
    for (const Key& key : keys) {
      const std::optional<BootTime> over = LeaseOverAt(state, node, key);
      if (over) next = std::min(next.value_or(*over), *over);
    }
  }
  return next;
}

void EndLeases(Draft& draft) {
  std::vector<std::pair<NodeId, Key>> over;
  for (const auto& [node, keys] : draft.state().held_by_node) {
    for (const Key& key : keys) {
      if (IsOver(draft, node, key)) over.emplace_back(node, key);
    }
  }
  for (const auto& [node, key] : over) {
    const bool unseen = UnseenSince(draft.state(), key, node).has_value();
    if (!unseen) CutOff(draft, node, "it was not heard for longer than a lease", "no beat");
    const Millis lease = *draft.state().specs.at(key.job).spec.requeue_after;
    const std::string why =
        fmt::format("{} {} for longer than requeue_after ({})", node.value,
                    unseen ? "did not know of it" : "was silent", FormatDuration(lease));
    draft.Event("allocation.lease_over", Subject(key), why + ": its ranks have ended themselves");
    TakeAsDead(draft, node, key, why);
  }
}

}  // namespace launch::controller
