#include "controller/core/reputation.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "controller/core/recovery.h"

namespace launch::controller {
namespace {

constexpr Millis kRemembered{7LL * 24 * 60 * 60 * 1000};
constexpr std::size_t kJobs = 2;
constexpr std::size_t kMostFaults = 16;  // kept of one node
// What several nodes show within this time is the fault of what they share: a file server, a
// switch.
constexpr Millis kShared{60LL * 60 * 1000};

void Remember(NodeRecord& node, NodeFault fault) {
  std::erase_if(node.faults, [&](const NodeFault& old) {
    return old.job == fault.job || fault.at - old.at > kRemembered;
  });
  if (node.faults.size() == kMostFaults) node.faults.erase(node.faults.begin());
  node.faults.push_back(std::move(fault));
}

// One entry per job, so their number is that of the jobs. A verdict rests on the job's own logs,
// which may say what their owner likes: several owners must agree, unless the node has one only.
bool IsNoCoincidence(const NodeRecord& node) {
  if (node.faults.size() < kJobs) return false;
  std::set<UserName> owners;
  for (const NodeFault& fault : node.faults) {
    owners.insert(fault.owner);
  }
  return owners.size() > 1 || node.account.has_value();
}

std::string Reason(const NodeRecord& node) {
  std::string jobs;
  for (const NodeFault& fault : node.faults) {
    jobs += fmt::format("{}job {} ({})", jobs.empty() ? "" : ", ", fault.job.value, fault.what);
  }
  return fmt::format(
      "made {} fail within a week; test it: launch check {}, then "
      "launch undrain {}",
      jobs, node.id.value, node.id.value);
}

// Another node that shows the same: the fault follows the job, or comes to several at one time.
std::optional<NodeId> AlsoSeenOn(const State& state, const NodeId& node, const NodeFault& fault) {
  for (const auto& [id, other] : state.nodes) {
    if (id == node) continue;
    const bool same = std::ranges::any_of(other.faults, [&](const NodeFault& one) {
      return one.what == fault.what && (one.job == fault.job || fault.at - one.at <= kShared);
    });
    if (same) return id;
  }
  return std::nullopt;
}

}  // namespace

void NoteNodeFault(Draft& draft, const AttemptRecord& attempt, const Ending& ending) {
  if (!attempt.verdict || !IsFaultOfNode(*attempt.verdict)) return;
  const std::optional<NodeId> blamed =
      attempt.verdict->node ? attempt.verdict->node : ending.first_failed_node;
  if (!blamed) return;
  const auto found = draft.state().nodes.find(*blamed);
  if (found == draft.state().nodes.end()) return;
  NodeRecord node = found->second;
  // Where one user runs all jobs, nobody can agree with what the user's own logs say.
  const bool confirmed = attempt.verdict->confidence == Confidence::kConfirmed;
  if (node.account && !confirmed) return;
  NodeFault fault;
  fault.job = attempt.key.job;
  fault.owner = draft.state().jobs.at(attempt.key.job).owner;
  fault.what = attempt.verdict->label;
  fault.at = draft.wall();
  const std::optional<NodeId> also =
      MayBeShared(*attempt.verdict) ? AlsoSeenOn(draft.state(), node.id, fault) : std::nullopt;
  Remember(node, std::move(fault));
  if (!node.drained && IsNoCoincidence(node) && also) {
    draft.Event("node.fault_shared", Subject(node.id),
                fmt::format("{} was seen on {} too: it is not drained for what they share",
                            attempt.verdict->label, also->value));
  } else if (!node.drained && IsNoCoincidence(node)) {
    node.drained = true;
    node.drain_reason = Reason(node);
    node.drained_by = "launch";
    draft.Event("node.drained", Subject(node.id), "by launch: " + node.drain_reason);
    draft.TouchQueue();
  }
  draft.Put(node);
}

}  // namespace launch::controller
