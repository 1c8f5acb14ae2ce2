// What the controller asks for an allocation: Prepare, Stage, Go, Stop, ExitAck, Forget.
#include <algorithm>

#include "agent/core/step_scope.h"
#include "common/mig.h"
#include "common/planted.h"

namespace launch::agent {

void StepScope::Refuse(const Key& key, const std::string& digest, Refusal refusal) {
  Send(from_node::Refused{.key = key,
                          .digest = digest,
                          .stage = std::move(refusal.stage),
                          .code = std::move(refusal.code),
                          .why = std::move(refusal.why),
                          .floor = HighestAttempt(key.job),
                          .gpus = std::move(refusal.gpus)});
}

std::optional<Attempt> StepScope::HighestAttempt(JobId job) const {
  std::optional<Attempt> highest;
  if (const auto floor = state_.floors.find(job); floor != state_.floors.end())
    highest = floor->second;
  for (auto it = state_.allocations.lower_bound(Key{job, Attempt{0}});
       it != state_.allocations.end() && it->first.job == job; ++it)
    highest = highest ? std::max(*highest, it->first.attempt) : it->first.attempt;
  return highest;
}

void StepScope::RaiseFloor(const Key& key) {
  Attempt& floor = state_.floors[key.job];
  floor = std::max(floor, key.attempt);
}

// Who has the GPU already, or why nobody may have it.
std::optional<std::string> StepScope::HolderOf(const GpuUuid& gpu, const Key& asking) const {
  for (const auto& [key, allocation] : state_.allocations) {
    if (key == asking) continue;
    const bool unknown_list = allocation.phase == Phase::kUnreadable && allocation.gpus.empty();
    const bool listed = std::ranges::find(allocation.gpus, gpu) != allocation.gpus.end() &&
                        !allocation.given_back.contains(gpu);
    if (HoldsGpus(allocation.phase) && (listed || unknown_list))
      return "held by attempt " + ToString(key);
    for (const auto& [held, why] : allocation.held)
      if (held == gpu) return "quarantined after attempt " + ToString(key) + ": " + why;
  }
  return std::nullopt;
}

std::optional<StepScope::Refusal> StepScope::WhyNotGpu(const AllocationSpec& spec,
                                                       std::size_t position) const {
  const GpuUuid& uuid = spec.gpus[position];
  const std::optional<GpuPlace> place = FindGpu(*state_.inventory, uuid);
  if (!place)
    return Refusal{"accept", "inventory_changed", "no GPU " + uuid.value + " on this node now"};
  const GpuDevice& device = state_.inventory->gpus[place->index];
  const std::string name = GpuLabel(*state_.inventory, place->index) + " (" + uuid.value + ")";
  if (device.health == Health::kBad)
    return Refusal{"accept", "gpu_unhealthy", name + ": " + device.why};
  if (!place->slice && position < spec.gpu_indices.size() &&
      std::cmp_not_equal(spec.gpu_indices[position], place->index))
    return Refusal{"accept", "inventory_changed",
                   name + " had index " + std::to_string(spec.gpu_indices[position]) +
                       " when the plan was made"};
  if (const auto holder = HolderOf(uuid, spec.key))
    return Refusal{"accept", "gpu_busy", name + " is " + *holder, {uuid}};
  const auto released = state_.released_at.find(uuid);
  if (released != state_.released_at.end() &&
      state_.processes_at <= released->second + kProcessListLag)
    return std::nullopt;  // the list may show ranks that are gone; the runner proves it again
  const auto listed = state_.processes.find(uuid);
  if (listed == state_.processes.end()) return std::nullopt;
  std::string pids;
  for (const GpuProcess& process : listed->second) {
    if (state_.identity.system_processes.contains(process.name)) continue;
    pids += (pids.empty() ? "" : ", ") + std::to_string(process.pid);
    if (!process.name.empty() || !process.user.empty())
      pids += " (" + process.name + (process.user.empty() ? "" : " of " + process.user) + ")";
  }
  if (pids.empty()) return std::nullopt;
  return Refusal{"accept", "gpu_busy", name + " is used by process " + pids, {uuid}};
}

std::optional<StepScope::Refusal> StepScope::WhyNotPrepare(const to_node::Prepare& message) const {
  const AllocationSpec& spec = message.spec;
  if (!message.refused.empty()) return Refusal{"accept", "bad_spec", message.refused};
  if (spec.node != state_.identity.node)
    return Refusal{
        "accept", "wrong_node",
        "the allocation is for " + spec.node.value + ", this is " + state_.identity.node.value};
  const auto& account = state_.identity.account;
  if (account && spec.user != account->value)
    return Refusal{"accept", "wrong_account",
                   "ranks here run as " + account->value + ", who does not own the job of " +
                       (spec.user.empty() ? "nobody" : spec.user)};
  const auto highest = HighestAttempt(spec.key.job);
  const auto known = state_.allocations.find(spec.key);
  if (highest && !Planted(Bug::kLowerAttempt) &&
      (*highest > spec.key.attempt ||
       (*highest == spec.key.attempt && known == state_.allocations.end())))
    return Refusal{"accept", "stale_attempt",
                   "attempt " + std::to_string(highest->value) + " of the job was seen here"};
  if (known != state_.allocations.end()) {
    const Allocation& allocation = known->second;
    if (allocation.phase == Phase::kStopping || allocation.phase == Phase::kReleased ||
        allocation.phase == Phase::kUnreadable)
      return Refusal{"accept", "stale_attempt", "this attempt was stopped here"};
    if (allocation.digest != message.digest)
      return Refusal{"accept", "digest", "the same attempt was accepted with another content"};
    if (allocation.phase != Phase::kDropped) return std::nullopt;  // a repetition
  }
  return WhyNotGpus(spec);
}

// All that are busy at once: the next attempt is sent to none of them.
std::optional<StepScope::Refusal> StepScope::WhyNotGpus(const AllocationSpec& spec) const {
  std::optional<Refusal> busy;
  for (std::size_t i = 0; i < spec.gpus.size(); ++i) {
    auto refusal = WhyNotGpu(spec, i);
    if (!refusal) continue;
    if (refusal->gpus.empty()) return refusal;
    if (!busy) {
      busy = std::move(refusal);
    } else {
      busy->why += "; " + refusal->why;
      busy->gpus.push_back(spec.gpus[i]);
    }
  }
  return busy;
}

void StepScope::On(const to_node::Prepare& message) {
  const Key& key = message.spec.key;
  if (auto refusal = WhyNotPrepare(message)) {
    // To accept what is here already, and may hold GPUs: no word that nothing is held.
    const auto known = state_.allocations.find(key);
    if (known != state_.allocations.end() && known->second.phase != Phase::kDropped)
      refusal->stage = "accept again";
    Refuse(key, message.digest, std::move(*refusal));
    return;
  }
  Allocation& allocation = state_.allocations[key];
  const bool was_dropped = allocation.phase == Phase::kDropped;
  const bool fresh = allocation.digest.empty() || was_dropped;
  if (!fresh) {
    // A repetition after a cut or an agent restart; it also brings secrets that were lost.
    if (allocation.phase < Phase::kStarting) allocation.secrets = message.secrets;
    allocation.accepted_at = now_;
    if (allocation.phase != Phase::kAccepting) SendAccepted(key, allocation);
    return;
  }
  allocation = Allocation{.phase = Phase::kAccepting,
                          .digest = message.digest,
                          .spec = message.spec,
                          .secrets = message.secrets,
                          .gpus = message.spec.gpus,
                          .was_dropped = was_dropped,
                          .accepted_at = now_};
  for (const RankSpec& rank : message.spec.ranks) allocation.ranks[rank.rank];
  Give(order::Accept{.spec = message.spec, .digest = message.digest});
}

void StepScope::On(const to_node::Stage& message) {
  const auto found = state_.allocations.find(message.key);
  if (found == state_.allocations.end()) return;
  if (!message.refused.empty()) {
    Refuse(message.key, found->second.digest, {"stage", "bad_message", message.refused});
    return;
  }
  Allocation& allocation = found->second;
  if (allocation.digest != message.digest) {
    Refuse(message.key, message.digest, {"stage", "digest", "another content was accepted here"});
    return;
  }
  if (allocation.phase == Phase::kDropped) {
    Refuse(message.key, message.digest, {"stage", "dropped", "the allocation was given up here"});
    return;
  }
  if (allocation.phase == Phase::kReady && allocation.stage == message && allocation.facts) {
    Send(
        from_node::Ready{.key = message.key, .digest = message.digest, .facts = *allocation.facts});
    return;
  }
  const bool repeated = allocation.phase == Phase::kStaging && allocation.stage == message;
  if (repeated || (allocation.phase != Phase::kAccepted && allocation.phase != Phase::kReady &&
                   allocation.phase != Phase::kStaging))
    return;
  allocation.phase = Phase::kStaging;
  allocation.stage = message;
  Give(order::StageAllocation{message});
}

void StepScope::On(const to_node::Go& message) {
  const auto refuse = [&](std::string code, std::string why) {
    Refuse(message.key, message.digest, {"go", std::move(code), std::move(why)});
  };
  const auto found = state_.allocations.find(message.key);
  if (found == state_.allocations.end())
    return refuse("dropped", "no such allocation on this node");
  Allocation& allocation = found->second;
  if (!message.refused.empty()) {
    // What has started is proof that an earlier one was understood.
    if (allocation.phase == Phase::kStarting || allocation.phase == Phase::kStarted) return;
    Refuse(message.key, allocation.digest, {"go", "bad_message", message.refused});
    return;
  }
  if (allocation.digest != message.digest)
    return refuse("digest", "another content was accepted here");
  switch (allocation.phase) {
    case Phase::kStarting:
      return;
    case Phase::kStarted:
      return SendStarted(message.key, allocation);
    case Phase::kAccepted:
    case Phase::kReady:
      break;
    case Phase::kAccepting:
      return refuse("not_accepted", "the allocation is not accepted yet");
    case Phase::kStaging:
      return refuse("not_ready", "the allocation is still being staged");
    case Phase::kDropped:
      return refuse("dropped", "the allocation was given up here");
    case Phase::kStopping:
    case Phase::kReleased:
    case Phase::kUnreadable:
      return refuse("stopped", "the allocation was stopped here");
  }
  if (!allocation.secrets && allocation.spec && !allocation.spec->secret_names.empty())
    return refuse("secrets_missing", "the agent restarted and has no secrets of this attempt");
  if (allocation.spec && allocation.spec->lease) {
    allocation.lease_end =
        state_.answered.value_or(state_.link.hello_sent) + *allocation.spec->lease;
    if (now_ >= LeaseTermAt(allocation))
      return refuse("lease_over", "it came too late: the lease of the attempt is over");
  }
  allocation.phase = Phase::kStarting;
  Give(order::Start{.go = message,
                    .secrets = std::exchange(allocation.secrets, std::nullopt)
                                   .value_or(std::vector<std::pair<std::string, std::string>>{}),
                    .lease_end = allocation.lease_end});
}

void StepScope::On(const to_node::Stop& message) {
  RaiseFloor(message.key);
  const auto [found, unknown] = state_.allocations.try_emplace(message.key);
  Allocation& allocation = found->second;
  if (!unknown && allocation.phase == Phase::kReleased) {
    SendReleased(message.key, allocation);
    return;
  }
  const bool stopping = !unknown && allocation.phase == Phase::kStopping;
  // A limit may leave minutes to the signal before the end; who cancels does not wait for them.
  const bool at_once = stopping && message.cause == StopCause::kCancelled &&
                       allocation.stop_cause != StopCause::kCancelled && !allocation.stop_at_once;
  if (stopping && !at_once && message.grace >= allocation.stop_grace)
    return;  // the ladder is on its way; its end answers
  allocation.stop_at_once = allocation.stop_at_once || at_once;
  BeginStop(message.key, allocation, message.cause, message.grace);
}

void StepScope::On(const to_node::ExitAck& message) {
  const auto found = state_.allocations.find(message.key);
  if (found == state_.allocations.end()) return;
  const auto rank = found->second.ranks.find(message.rank);
  if (rank == found->second.ranks.end() || !rank->second.exit || rank->second.acked) return;
  rank->second.acked = true;
  Give(order::NoteAcked{.key = message.key, .rank = message.rank});
  ForgetWhenDone(message.key);
}

void StepScope::On(const to_node::Forget& message) {
  const auto found = state_.allocations.find(message.key);
  if (found == state_.allocations.end()) {
    DoForget(message.key);
    return;
  }
  Allocation& allocation = found->second;
  if (allocation.phase != Phase::kReleased && allocation.phase != Phase::kDropped) return;
  allocation.forget = true;
  ForgetWhenDone(message.key);
}

void StepScope::On(const to_node::CollectStacks& message) {
  const auto found = state_.allocations.find(message.key);
  if (found == state_.allocations.end() || found->second.phase != Phase::kStarted) return;
  Give(order::CollectStacks{message.key});
}

void StepScope::On(const to_node::OpenExec& message) {
  order::OpenExec order{message.key, message.rank, message.exec, {}, message.copy};
  if (order.copy) return Give(std::move(order));
  const auto found = state_.allocations.find(message.key);
  if (found == state_.allocations.end() || found->second.phase != Phase::kStarted) {
    order.refused = "attempt " + ToString(message.key) + " does not run here";
  } else {
    const auto rank = found->second.ranks.find(message.rank);
    const bool runs = rank != found->second.ranks.end() && rank->second.started &&
                      !rank->second.exit && !rank->second.acked;
    if (!runs) order.refused = "rank " + std::to_string(message.rank) + " does not run any more";
  }
  Give(std::move(order));
}

// Its directory names the GPUs that are not free, and keeps the ends that nobody acknowledged.
void StepScope::ForgetWhenDone(const Key& key) {
  const auto found = state_.allocations.find(key);
  if (found == state_.allocations.end() || !found->second.forget) return;
  // A Hello under way may say that GPUs are held: Welcome is when the newest word can be said.
  if (state_.link.greeted && !state_.link.welcomed) return;
  const bool unacked = std::ranges::any_of(found->second.ranks, [](const auto& rank) {
    return rank.second.exit.has_value() && !rank.second.acked;
  });
  if (found->second.held.empty() && !unacked) DoForget(Key{key});
}

void StepScope::On(const to_node::Retest& message) {
  std::vector<Key> given_back;
  for (auto& [key, allocation] : state_.allocations) {
    const auto held = std::ranges::find(allocation.held, message.gpu,
                                        [](const auto& entry) { return entry.first; });
    if (held == allocation.held.end()) {
      // After a restart of ours its proof is still under way: what it will not prove is taken back
      // already.
      const bool has = std::ranges::find(allocation.gpus, message.gpu) != allocation.gpus.end();
      if (message.release && has && allocation.phase == Phase::kStopping)
        allocation.given_back.insert(message.gpu);
      continue;
    }
    if (!message.release || allocation.phase != Phase::kReleased) {
      // The ladder again, without grace: it kills what is left, and proves or says what is held.
      allocation.retry_at = now_ + kProofRetry;
      Give(order::StopAllocation{.key = key, .cause = allocation.stop_cause, .grace = Millis{0}});
      continue;
    }
    allocation.held.erase(held);
    allocation.given_back.insert(message.gpu);
    SendReleased(key, allocation);
    given_back.push_back(key);
  }
  for (const Key& key : given_back) ForgetWhenDone(key);
}

void StepScope::DoForget(const Key& key) {
  state_.allocations.erase(key);
  if (const auto floor = state_.floors.find(key.job);
      floor != state_.floors.end() && floor->second <= key.attempt)
    state_.floors.erase(floor);
  Give(order::Forget{key});
}

}  // namespace launch::agent
