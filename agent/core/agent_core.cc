#include "agent/core/agent_core.h"

#include <algorithm>
#include <type_traits>

#include "agent/core/step_scope.h"
#include "common/planted.h"

namespace launch::agent {
namespace {

constexpr std::size_t kMaxNotices = 64;
constexpr std::size_t kMaxUnanswered = 256;  // beats; older answers come too late to matter

bool IsUnstarted(Phase phase) {
  return phase == Phase::kAccepted || phase == Phase::kStaging || phase == Phase::kReady;
}

BootTime DropDeadline(const AgentState& state, const Allocation& allocation) {
  return std::max(state.link.last_pong, allocation.accepted_at) + kUnstartedSilence;
}

bool RetriesProof(const Allocation& allocation) {
  return allocation.phase == Phase::kReleased && !allocation.held.empty();
}

bool HasUnacked(const AgentState& state) {
  for (const auto& [key, allocation] : state.allocations)
    for (const auto& [rank, rank_state] : allocation.ranks)
      if (rank_state.exit && !rank_state.acked) return true;
  return false;
}

// Messages whose revision must outlive us: what they made us do is visible to the world.
bool HasEffect(const ToNode& body) {
  return std::holds_alternative<to_node::Prepare>(body) ||
         std::holds_alternative<to_node::Go>(body) || std::holds_alternative<to_node::Stop>(body) ||
         std::holds_alternative<to_node::ExitAck>(body);  // an end that is not said again
}

std::pair<std::uint64_t, std::uint64_t> LeaderOf(const Fence& fence) {
  return {fence.incarnation, fence.epoch};
}

AllocationStatus StatusOf(const Key& key, const Allocation& allocation, AllocationPhase phase) {
  AllocationStatus status{.key = key,
                          .digest = allocation.digest,
                          .phase = phase,
                          .ports = allocation.ports,
                          .gpus = allocation.gpus};
  for (const auto& [rank, rank_state] : allocation.ranks) {
    RankStatus& entry = status.ranks.emplace_back();
    entry.rank = rank;
    entry.started = rank_state.started;
    entry.pid = rank_state.pid;
    if (!rank_state.acked) entry.exit = rank_state.exit;
  }
  return status;
}

}  // namespace

std::optional<AllocationPhase> WirePhase(const Allocation& allocation) {
  switch (allocation.phase) {
    case Phase::kAccepting:
      return std::nullopt;
    case Phase::kAccepted:
    case Phase::kStaging:
      return AllocationPhase::kAccepted;
    case Phase::kReady:
    case Phase::kStarting:
      return AllocationPhase::kReady;
    case Phase::kStarted:
    case Phase::kUnreadable:
      return AllocationPhase::kStarted;
    case Phase::kStopping:
      if (AllEnded(allocation)) return AllocationPhase::kExited;
      for (const auto& [rank, rank_state] : allocation.ranks)
        if (rank_state.started) return AllocationPhase::kStarted;
      return AllocationPhase::kAccepted;
    case Phase::kReleased:
      return AllocationPhase::kReleased;
    case Phase::kDropped:
      return AllocationPhase::kDropped;
  }
  return std::nullopt;
}

void StepScope::Send(FromNode message) {
  if (state_.link.welcomed)
    Give(order::Send{.stream = state_.link.stream, .message = std::move(message)});
}

void StepScope::SayHello() {
  LinkState& link = state_.link;
  if (!link.up || link.greeted || !state_.inventory) return;
  from_node::Hello hello{.version = state_.identity.version,
                         .machine = state_.identity.machine,
                         .boot_id = state_.identity.boot_id,
                         .instance = state_.identity.instance,
                         .cgroups = state_.cgroups,
                         .boot = now_,
                         .seen = state_.fence,
                         .inventory = *state_.inventory,
                         .account = state_.identity.account};
  for (const auto& [key, allocation] : state_.allocations) {
    if (const auto phase = WirePhase(allocation))
      hello.allocations.push_back(StatusOf(key, allocation, *phase));
    hello.held.insert(hello.held.end(), allocation.held.begin(), allocation.held.end());
    if (allocation.phase == Phase::kUnreadable && allocation.gpus.empty())
      for (const GpuDevice& gpu : state_.inventory->gpus)
        hello.held.emplace_back(gpu.uuid, "the record of attempt " + ToString(key) +
                                              " is unreadable, it may use this GPU");
  }
  for (const auto& [job, attempt] : state_.floors) hello.floors.push_back({job, attempt});
  link.greeted = true;
  link.hello_sent = now_;
  link.told_revision = state_.inventory->revision;
  Give(order::Send{.stream = link.stream, .message = std::move(hello)});
}

void StepScope::ResendUnacked() {
  for (const auto& [key, allocation] : state_.allocations)
    for (const auto& [rank, rank_state] : allocation.ranks)
      if (rank_state.exit && !rank_state.acked) Send(from_node::RankExited{*rank_state.exit});
  state_.link.next_resend = now_ + kResend;
}

void StepScope::On(const told::LinkUp& event) {
  if (event.stream <= state_.link.stream) return;
  LinkState& link = state_.link;
  if (link.up) Give(order::CloseLink{.stream = link.stream, .why = "replaced by a newer stream"});
  link = LinkState{.stream = event.stream,
                   .up = true,
                   .beat = link.beat,
                   .samples = link.samples,
                   .last_pong = link.last_pong};
  SayHello();
}

void StepScope::On(const told::LinkDown& event) {
  if (event.stream != state_.link.stream) return;
  state_.link.up = false;
  state_.link.greeted = false;
  state_.link.welcomed = false;
}

bool StepScope::ObeyFence(const told::FromController& event) {
  const Fence& theirs = event.envelope.fence;
  Fence& ours = state_.fence;
  if (LeaderOf(theirs) < LeaderOf(ours)) {
    Give(order::CloseLink{.stream = event.stream,
                          .why = "message of a superseded controller (incarnation " +
                                 std::to_string(theirs.incarnation) + ", epoch " +
                                 std::to_string(theirs.epoch) + ")"});
    On(told::LinkDown{.stream = event.stream, .why = "fence"});
    return false;
  }
  if (LeaderOf(theirs) > LeaderOf(ours)) {
    ours = theirs;
    Give(order::SaveFence{ours});  // first: nothing of a new leader is obeyed unfenced
  }
  return true;
}

// Of the same leader: the runner works meanwhile, and its answer is told only after this order.
void StepScope::NoteRevision(const ToNodeEnvelope& envelope) {
  if (envelope.fence.revision <= state_.fence.revision || !HasEffect(envelope.body)) return;
  state_.fence = envelope.fence;
  Give(order::SaveFence{state_.fence});
}

void StepScope::OnLeaderUnsaved(const std::string& why) {
  const std::uint64_t stream = state_.link.stream;
  Give(order::CloseLink{.stream = stream, .why = "the fence of a new controller: " + why});
  On(told::LinkDown{.stream = stream, .why = "fence"});
}

void StepScope::OnRevisionUnsaved(const std::string& why) {
  const bool told = state_.fence_retry_at.has_value();
  state_.fence_retry_at = now_ + kFenceRetry;
  if (!told) On(told::NodeNotice{{.kind = "node.state_write_failed", .text = why}});
}

void StepScope::On(const told::FromController& event) {
  if (!state_.link.up || event.stream != state_.link.stream) return;
  if (!ObeyFence(event)) return;
  if (const auto* welcome = std::get_if<to_node::Welcome>(&event.envelope.body)) {
    state_.link.session = event.envelope.session;
    On(*welcome);
    return;
  }
  if (!state_.link.welcomed || event.envelope.session != state_.link.session) return;
  std::visit([this](const auto& body) { On(body); }, event.envelope.body);
  NoteRevision(event.envelope);
}

void StepScope::On(const to_node::Welcome& message) {
  LinkState& link = state_.link;
  if (!link.greeted) return;
  link.welcomed = true;
  link.beat = Millis(std::max<std::int64_t>(message.beat_ms, 1));
  link.samples = Millis(std::max<std::int64_t>(message.samples_ms, 1));
  link.last_pong = now_;
  link.next_beat = now_;
  NoteAnswered(link.hello_sent);
  TellInventory();  // it may have changed since Hello
  for (const from_node::Notice& notice : state_.notices) Send(notice);
  state_.notices.clear();
  // Hello holds the exits too, but not where logs end: say both once more, receivers are
  // idempotent.
  ResendUnacked();
  std::vector<Key> forgettable;
  for (const auto& [key, allocation] : state_.allocations) {
    if (allocation.phase == Phase::kReleased) SendReleased(key, allocation);
    // It may have been accepted between Hello and Welcome: then nobody was told.
    if (allocation.phase == Phase::kAccepted) SendAccepted(key, allocation);
    if (allocation.forget) forgettable.push_back(key);
  }
  for (const Key& key : forgettable) ForgetWhenDone(key);
}

void StepScope::On(const to_node::Pong& message) {
  LinkState& link = state_.link;
  link.last_pong = now_;
  if (message.wants_heard) Send(from_node::Heard{message.n});
  const auto beat = link.unanswered.find(message.n);
  if (beat == link.unanswered.end()) return;
  NoteAnswered(Planted(Bug::kLeaseFromPong) ? now_ : beat->second);
  link.unanswered.erase(link.unanswered.begin(), std::next(beat));
}

void StepScope::On(const told::Inventory& event) {
  state_.processes.clear();
  for (const auto& [gpu, processes] : event.processes) state_.processes[gpu] = processes;
  state_.processes_at = now_;
  NodeInventory inventory = event.inventory;
  inventory.revision = state_.inventory ? state_.inventory->revision : 1;
  if (state_.inventory && inventory == *state_.inventory) return;
  if (state_.inventory) ++inventory.revision;
  state_.inventory = std::move(inventory);
  SayHello();
  TellInventory();
}

void StepScope::TellInventory() {
  LinkState& link = state_.link;
  if (!link.welcomed || link.told_revision == state_.inventory->revision) return;
  link.told_revision = state_.inventory->revision;
  Send(from_node::InventoryChanged{*state_.inventory});
}

void StepScope::On(const told::Sampled& event) { Send(event.samples); }

void StepScope::On(const told::NodeNotice& event) {
  if (state_.link.welcomed) {
    Send(event.notice);
    return;
  }
  if (state_.notices.size() >= kMaxNotices) state_.notices.erase(state_.notices.begin());
  state_.notices.push_back(event.notice);
}

void StepScope::On(const told::Tick&) {
  LinkState& link = state_.link;
  if (link.welcomed && now_ >= link.next_beat) {
    Send(from_node::Beat{
        .n = ++link.beats, .boot = now_, .pong_age_ms = (now_ - link.last_pong).count()});
    link.unanswered[link.beats] = now_;
    if (link.unanswered.size() > kMaxUnanswered) link.unanswered.erase(link.unanswered.begin());
    link.next_beat = now_ + link.beat;
  }
  if (link.welcomed && now_ >= link.next_resend) ResendUnacked();
  if (state_.fence_retry_at && now_ >= *state_.fence_retry_at) {
    state_.fence_retry_at = now_ + kFenceRetry;  // until the disk takes it
    Give(order::SaveFence{state_.fence});
  }
  EndOverdueLeases();
  for (auto& [key, allocation] : state_.allocations) {
    if (IsUnstarted(allocation.phase) && now_ >= DropDeadline(state_, allocation))
      DropUnstarted(key, allocation, "no word from the controller for 60 s before the start");
    if (RetriesProof(allocation) && now_ >= allocation.retry_at) {
      allocation.retry_at = now_ + kProofRetry;
      Give(order::StopAllocation{.key = key, .cause = allocation.stop_cause, .grace = Millis{0}});
    }
  }
}

std::vector<Order> Step(AgentState& state, const Told& event, BootTime now) {
  StepScope scope(state, now);
  std::visit([&scope](const auto& body) { scope.On(body); }, event);
  return scope.TakeOrders();
}

void Act(AgentState& state, const Told& event, BootTime now, const CarryOut& carry_out) {
  const auto* message = std::get_if<told::FromController>(&event);
  const bool may_lead =
      message != nullptr && LeaderOf(message->envelope.fence) > LeaderOf(state.fence);
  const std::optional<AgentState> before = may_lead ? std::optional(state) : std::nullopt;
  std::vector<Order> orders = Step(state, event, now);
  for (std::size_t i = 0; i < orders.size(); ++i) {
    const auto done = carry_out(orders[i]);
    if (!std::holds_alternative<order::SaveFence>(orders[i])) continue;
    if (done) {
      state.fence_retry_at.reset();
      continue;
    }
    StepScope scope(state, now);
    if (before) {
      state = *before;
      scope.OnLeaderUnsaved(done.error().message);
      orders.resize(i + 1);
    } else {
      scope.OnRevisionUnsaved(done.error().message);
    }
    for (Order& order : scope.TakeOrders()) orders.push_back(std::move(order));
  }
}

std::optional<BootTime> NextDeadline(const AgentState& state) {
  std::optional<BootTime> next;
  const auto consider = [&next](BootTime at) { next = next ? std::min(*next, at) : at; };
  if (state.link.welcomed) {
    consider(state.link.next_beat);
    if (HasUnacked(state)) consider(state.link.next_resend);
  }
  if (state.fence_retry_at) consider(*state.fence_retry_at);
  for (const auto& [key, allocation] : state.allocations) {
    if (IsUnstarted(allocation.phase)) consider(DropDeadline(state, allocation));
    if (RetriesProof(allocation)) consider(allocation.retry_at);
    if (const std::optional<BootTime> at = LeaseKillAt(allocation)) consider(*at);
  }
  return next;
}

}  // namespace launch::agent
