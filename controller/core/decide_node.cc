// What nodes say: facts are written down here; what follows from them is drawn in
// decide_attempt.cc.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "common/planted.h"
#include "controller/core/draft.h"
#include "controller/core/fold_findings.h"
#include "controller/core/gpu_watch.h"
#include "controller/core/hang_watch.h"
#include "controller/core/kept_place.h"
#include "controller/core/memory_watch.h"
#include "controller/core/node_watch.h"
#include "controller/core/unknown_attempts.h"
#include "preflight/refusal_check.h"

namespace launch::controller {
namespace {

// What a node says of an attempt counts only if it is about the very allocation we gave it.
const AllocRecord* Match(const State& state, const Key& key, const NodeId& node,
                         const std::string& digest) {
  const AllocRecord* alloc = FindAlloc(state, key, node);
  return alloc != nullptr && alloc->digest == digest ? alloc : nullptr;
}

void On(Draft& draft, const NodeId& node, const from_node::Accepted& said) {
  const AllocRecord* known = Match(draft.state(), said.key, node, said.digest);
  if (known == nullptr) {
    // Of an attempt that we never made, or made otherwise: end it, with a tombstone.
    draft.Send(node, to_node::Stop{said.key, StopCause::kStale, Millis{0}});
    return;
  }
  draft.Touch(said.key.job);  // a late one is answered by Stop
  if (IsReleased(*known)) {
    // It was told to forget it, or gave it back, and then took an old order for a new one.
    draft.Send(node, to_node::Stop{said.key, StopCause::kStale, Millis{0}});
    return;
  }
  if (known->phase != StoredAllocPhase::kAssigned && known->phase != StoredAllocPhase::kAccepted) {
    return;
  }
  AllocRecord alloc = *known;
  alloc.phase = StoredAllocPhase::kAccepted;
  alloc.ports = said.ports;
  alloc.leased = said.leased;
  const LiveNode& live = draft.live().nodes.at(node);
  alloc.boot_id = live.boot_id;
  alloc.install_id = live.machine.install_id;
  alloc.cgroups = live.cgroups;
  draft.live().nodes.at(node).refusals = 0;
  draft.Put(alloc);
}

// Its disk is full, its GPUs are busy, it has no port free: no fault of the job, which waits, and
// nothing that is over in a moment, so that the next job in the queue is not sent there either.
void NoteTurnedAway(Draft& draft, const AllocRecord& alloc, const from_node::Refused& said) {
  static constexpr std::array<std::string_view, 4> kOfTheNode = {"disk_full", "gpu_busy",
                                                                 "port_busy", "accept_failed"};
  if (std::ranges::find(kOfTheNode, said.code) == kOfTheNode.end()) return;
  LiveNode& live = draft.live().nodes.at(alloc.node);
  // Each time is an attempt that the job keeps: what lasts is asked after ever more rarely.
  const BootTime until = draft.now() + kTurnedAwayFor * (1 << std::min(live.refusals++, 5));
  const TurnedAway away{fmt::format("{} ({})", SplitRefusal(said.why).says, said.code), until};
  if (said.code == "gpu_busy" && !alloc.gpus.empty()) {
    for (const GpuUuid& gpu : alloc.gpus) {
      const bool named = std::ranges::find(said.gpus, gpu) != said.gpus.end();
      if (named || said.gpus.empty()) live.busy_gpus[gpu] = away;
    }
  } else {
    live.turned_away = away;
  }
  draft.live().attempts[said.key].turned_away = true;
}

// What the node has against the start stands with the job until its next attempt is made.
void NoteRefusal(Draft& draft, const NodeId& node, const from_node::Refused& said) {
  std::optional<Finding> finding = JudgeRefusal(node, said.code, said.why);
  if (!finding) return;
  const std::string code = finding->code;
  JobRecord job = draft.state().jobs.at(said.key.job);
  std::erase_if(job.findings,
                [&](const Finding& known) { return known.code == code && known.node == node; });
  job.findings.push_back(*std::move(finding));
  job.findings = FoldFindings(job.findings);
  draft.Put(job);
  draft.live().attempts[said.key].refused_for = code;
}

void On(Draft& draft, const NodeId& node, const from_node::Refused& said) {
  if (said.floor) NoteFloor(draft, node, Key{said.key.job, *said.floor});
  const AllocRecord* known = FindAlloc(draft.state(), said.key, node);
  if (known == nullptr || IsReleased(*known)) return;
  const RefusalText why = SplitRefusal(said.why);
  draft.Event("allocation.refused", Subject(said.key),
              fmt::format("{} refused to {}: {} ({}){}{}", node.value, said.stage, why.says,
                          said.code, why.evidence.empty() ? "" : "; ", why.evidence));
  AttemptRecord attempt = draft.state().attempts.at(said.key);
  if (attempt.phase == AttemptPhase::kPreparing || attempt.phase == AttemptPhase::kLaunching) {
    if (attempt.stop_cause == StopCause::kNone) {
      attempt.stop_cause = StopCause::kStartFailed;
      attempt.cause = fmt::format("{} refused the start: {} ({})", node.value, why.says, said.code);
      attempt.first_failed_node = node;
    }
    draft.Put(attempt);
  }
  // Refused at accept, nothing is held there. Later on a Stop fetches the proof: it may be the
  // answer to an order given twice.
  if (said.stage == "accept" && known->phase == StoredAllocPhase::kAssigned) {
    AllocRecord alloc = *known;
    alloc.phase = StoredAllocPhase::kRefused;
    NoteTurnedAway(draft, alloc, said);
    NoteRefusal(draft, node, said);
    draft.Put(alloc);
    draft.TouchQueue();
  }
  draft.Touch(said.key.job);
}

void On(Draft& draft, const NodeId& node, const from_node::Staging& said) {
  if (FindAlloc(draft.state(), said.key, node) == nullptr) return;  // of another node's job
  const auto live = draft.live().attempts.find(said.key);
  if (live != draft.live().attempts.end()) live->second.staging[node] = said;
}

void On(Draft& draft, const NodeId& node, const from_node::Ready& said) {
  const AllocRecord* known = Match(draft.state(), said.key, node, said.digest);
  if (known == nullptr) return;
  draft.Touch(said.key.job);
  if (known->phase != StoredAllocPhase::kAccepted) return;
  if (draft.state().attempts.at(said.key).phase != AttemptPhase::kPreparing) return;
  LiveAttempt& live = draft.live().attempts[said.key];
  if (said.facts.network) {
    if (live.testing_network) live.network[node] = *said.facts.network;
    return;
  }
  // Of the staging in place, said again after it was found that a copy is needed.
  if (live.use_snapshot && !said.facts.from_snapshot) return;
  live.ready[node] = WithKnown(live, node, said.facts);
  if (said.facts.wall) live.clock_offsets_ms[node] = ToMs(*said.facts.wall) - ToMs(draft.wall());
}

void On(Draft& draft, const NodeId& node, const from_node::Started& said) {
  const AllocRecord* known = FindAlloc(draft.state(), said.key, node);
  if (known == nullptr) {
    if (IsUnknownHere(draft.state(), said.key)) return;  // left alone
    draft.Send(node, to_node::Stop{said.key, StopCause::kStale, Millis{0}});
    return;
  }
  draft.Touch(said.key.job);
  for (const auto& [rank, pid] : said.pids) {
    if (!HasRank(*known, rank)) continue;
    RankRecord record = RankOf(draft.state(), *known, rank);
    record.pid = pid;
    draft.Put(record);
  }
  if (known->phase != StoredAllocPhase::kAccepted && known->phase != StoredAllocPhase::kReady) {
    return;
  }
  AllocRecord alloc = *known;
  alloc.phase = StoredAllocPhase::kStarted;
  draft.Put(alloc);
}

void On(Draft& draft, const NodeId& node, const from_node::RankExited& said) {
  NoteExit(draft, node, said.report);
}

void On(Draft& draft, const NodeId& node, const from_node::Released& said) {
  NoteReleased(draft, node, said.key, said.held);
}

// A rank's last sample may come after its attempt ended; it may only tell of more.
void NoteLastSample(Draft& draft, const RankSample& sample) {
  const auto found = draft.state().attempts.find(sample.key);
  if (found == draft.state().attempts.end() || !sample.step) return;
  if (found->second.phase != AttemptPhase::kEnded) return;
  if (found->second.progress.step.value_or(-1) >= *sample.step) return;
  AttemptRecord attempt = found->second;
  attempt.progress = {sample.step, sample.steps, sample.seconds_per_step};
  draft.Put(attempt);
}

void On(Draft& draft, const NodeId& node, const from_node::Samples& all) {
  // A node speaks for the ranks that it was given, and for no other.
  const auto foreign = [&](const RankSample& sample) {
    const AllocRecord* alloc = FindAlloc(draft.state(), sample.key, node);
    return alloc == nullptr || !HasRank(*alloc, sample.rank);
  };
  std::optional<from_node::Samples> own;  // only where something is left out
  if (std::ranges::any_of(all.ranks, foreign)) {
    own = all;
    std::erase_if(own->ranks, foreign);
  }
  const from_node::Samples& said = own ? *own : all;
  LiveNode& live = draft.live().nodes.at(node);
  live.samples = said.gpus;
  live.sampled = draft.wall();
  const Millis offset{ToMs(draft.now()) - ToMs(said.boot)};
  live.clock_offset = std::min(live.clock_offset.value_or(offset), offset);
  WatchHang(draft, node, said);
  WatchFaults(draft, node, said);
  WatchLayers(draft, said);
  for (const RankSample& sample : said.ranks) {
    NoteLastSample(draft, sample);
    const auto attempt = draft.live().attempts.find(sample.key);
    if (attempt != draft.live().attempts.end()) attempt->second.samples[sample.rank] = sample;
  }
  WatchMemory(draft, node, said);
}

void On(Draft& draft, const NodeId& node, const from_node::InventoryChanged& said) {
  NoteInventory(draft, node, said.inventory);
}

void On(Draft& draft, const NodeId& node, const from_node::Notice& said) {
  NoteNotice(draft, node, said);
}

void On(Draft& draft, const NodeId& node, const from_node::Stacks& said) {
  NoteStacks(draft, node, said);
}

void On(Draft&, const NodeId&, const from_node::Hello&) {}  // comes as NodeAttached
void On(Draft&, const NodeId&, const from_node::Beat&) {}   // comes as NodeBeat
void On(Draft&, const NodeId&, const from_node::Heard&) {}  // comes as NodeHeard

// Whether a GPU is held for it of which the agent cannot tell.
bool IsHeldUnseen(const State& state, const NodeId& node, const Key& key) {
  return std::ranges::any_of(state.quarantine, [&](const auto& entry) {
    const GpuRecord& gpu = entry.second;
    return gpu.node == node && gpu.key == key && !SeesWhatRan(gpu, state.live.nodes.at(node));
  });
}

// A release says for whom its node still holds what, and by that what it has given back. Where
// others may have it as well, the last of them frees it.
void SettleHeld(Draft& draft, const NodeId& node, const Key& key,
                const std::vector<std::pair<GpuUuid, std::string>>& held) {
  std::vector<GpuUuid> free;
  std::vector<GpuRecord> named;
  auto& may_hold = draft.live().nodes[node].may_hold;
  for (const auto& [gpu, record] : draft.state().quarantine) {
    if (record.node != node) continue;
    // What its agent cannot see it proves nothing of: a person releases it, or a boot.
    if (!SeesWhatRan(record, draft.state().live.nodes.at(node))) continue;
    const bool still =
        std::ranges::find(held, gpu, &std::pair<GpuUuid, std::string>::first) != held.end();
    bool its_own = record.key == key;
    if (const auto known = may_hold.find(gpu); known != may_hold.end()) {
      std::set<Key>& holders = known->second;
      its_own = holders.contains(key);
      if (still) {
        holders.insert(key);
      } else {
        holders.erase(key);
      }
      if (std::ranges::any_of(holders, [&](const Key& one) { return one != key; })) continue;
    }
    if (still && record.key == Key{}) {
      named.push_back(record);
      named.back().key = key;
    }
    if (!still && its_own) free.push_back(gpu);
  }
  for (GpuRecord& record : named) draft.Put(std::move(record));
  for (const GpuUuid& gpu : free) {
    draft.EraseQuarantine(gpu);
    draft.Event("gpu.freed", Subject(node), gpu.value);
  }
}

// The mistake that other systems make by default: silence taken for death.
void GiveUpNode(Draft& draft, const NodeId& node) {
  const auto held = draft.state().held_by_node.find(node);
  if (held == draft.state().held_by_node.end()) return;
  for (const Key& key : std::set<Key>(held->second)) {
    for (const Rank rank : draft.state().allocs.at(key).at(node).ranks) {
      ExitReport report;
      report.key = key;
      report.rank = rank;
      report.cause = UnknownEnd{"silent"};
      NoteExit(draft, node, report);
    }
    NoteReleased(draft, node, key, {});
  }
}

}  // namespace

void MarkSilent(Draft& draft, const NodeId& node, LiveNode& live, bool silent, std::string why) {
  if (live.silent == silent) return;
  live.silent = silent;
  if (silent) {
    live.silent_since = draft.now();
    live.silent_why = std::move(why);
    draft.Event("node.silent", Subject(node), live.silent_why);
    if (!draft.live().ties.empty()) draft.TouchQueue();  // how long they wait may be shorter now
    if (Planted(Bug::kSilentIsDead)) GiveUpNode(draft, node);
  } else {
    draft.Event("node.answers", Subject(node), "");
    draft.TouchQueue();
  }
}

void CutOff(Draft& draft, const NodeId& node, const char* told, const char* silent) {
  LiveNode& live = draft.live().nodes[node];
  if (live.session) draft.Close(*live.session, told);
  live.session.reset();
  MarkSilent(draft, node, live, true, silent);
}

RankRecord RankOf(const State& state, const AllocRecord& alloc, Rank rank) {
  if (const auto ranks = state.ranks.find(alloc.key); ranks != state.ranks.end()) {
    if (const auto found = ranks->second.find(rank); found != ranks->second.end()) {
      return found->second;
    }
  }
  return RankRecord{alloc.key, rank, alloc.node, 0, std::nullopt};
}

void NoteExit(Draft& draft, const NodeId& node, const ExitReport& report) {
  const AllocRecord* alloc = FindAlloc(draft.state(), report.key, node);
  // Acknowledged in every case: a report nobody can use would be sent for ever.
  draft.Send(node, to_node::ExitAck{report.key, report.rank});
  if (alloc == nullptr || !HasRank(*alloc, report.rank)) {
    draft.Event("rank.unknown", Subject(node),
                fmt::format("reported the end of rank {} of {}, which it was never given: {}",
                            report.rank, ToString(report.key), Describe(report.cause)));
    return;
  }
  RankRecord record = RankOf(draft.state(), *alloc, report.rank);
  if (Planted(Bug::kAckWithoutRecord) &&
      draft.state().attempts.at(report.key).phase == AttemptPhase::kStopping) {
    return;
  }
  if (record.exit) {
    // The first one stands, unless it was our own guess and this one is the kernel's proof.
    const bool guess = std::holds_alternative<UnknownEnd>(record.exit->cause);
    if (!guess || std::holds_alternative<UnknownEnd>(report.cause)) return;
    if (draft.state().attempts.at(report.key).phase == AttemptPhase::kEnded) return;
  }
  record.exit = report;
  draft.Put(record);
  auto& order = draft.live().attempts[report.key].exit_order;
  if (std::find(order.begin(), order.end(), report.rank) == order.end()) {
    order.push_back(report.rank);
  }
  draft.Event("rank.exited", Subject(report.key),
              fmt::format("rank {} on {}: {}", report.rank, node.value, Describe(report.cause)));
  if (Planted(Bug::kReleaseAtExit)) NoteReleased(draft, node, report.key, {});
}

void NoteReleased(Draft& draft, const NodeId& node, const Key& key,
                  const std::vector<std::pair<GpuUuid, std::string>>& said) {
  const AllocRecord* known = FindAlloc(draft.state(), key, node);
  if (known == nullptr) {
    SettleHeld(draft, node, key, said);
    if (said.empty() && !IsHeldUnseen(draft.state(), node, key)) ForgetUnknown(draft, node, key);
    draft.Send(node, to_node::Forget{key});
    return;
  }
  AllocRecord alloc = *known;
  std::vector<std::pair<GpuUuid, std::string>> held;
  std::vector<GpuUuid> foreign;
  for (const auto& entry : said) {
    const bool given = std::ranges::find(alloc.gpus, entry.first) != alloc.gpus.end();
    // An operator took it out of quarantine, and another attempt has it by now: that one's end
    // makes the proof again.
    const auto owner = draft.state().gpu_owner.find(entry.first);
    if (owner != draft.state().gpu_owner.end() && owner->second != key) continue;
    if (given || MaySpeakFor(draft.state(), node, entry.first)) {
      held.push_back(entry);
    } else {
      foreign.push_back(entry.first);
    }
  }
  NoteForeignGpus(draft, node, foreign);
  const auto live = draft.live().attempts.find(key);
  if (held.empty() && live != draft.live().attempts.end() &&
      live->second.unrecorded.contains(node)) {
    LoseRanks(draft, alloc, "agent state lost");
  }
  alloc.held = held;
  alloc.phase = held.empty() ? StoredAllocPhase::kReleased : StoredAllocPhase::kQuarantined;
  for (const auto& [gpu, why] : held) {
    if (draft.state().quarantine.contains(gpu)) continue;
    draft.HoldGpu(node, gpu, why, key);
    draft.Event("gpu.quarantined", Subject(node), fmt::format("{}: {}", gpu.value, why));
  }
  SettleHeld(draft, node, key, said);
  draft.Put(alloc);
  draft.Touch(key.job);
  draft.TouchQueue();
  const auto job = draft.state().jobs.find(key.job);
  if (Planted(Bug::kKeptDirectory)) return;
  if (job != draft.state().jobs.end() && job->second.phase == JobPhase::kDone) {
    draft.Send(node, to_node::Forget{key});
  }
}

void NoteInventory(Draft& draft, const NodeId& node, NodeInventory inventory) {
  inventory.node = node;
  const auto known = draft.state().inventories.find(node);
  if (known != draft.state().inventories.end()) {
    const std::uint64_t revision = inventory.revision;
    inventory.revision = known->second->revision;  // counts anew with each start of the agent
    if (*known->second == inventory) return;
    inventory.revision = revision;
    draft.Event("node.inventory_changed", Subject(node),
                fmt::format("revision {}", inventory.revision));
    TellFailedGpus(draft, node, *known->second, inventory);
  }
  draft.Put(InventoryRecord{std::move(inventory)});
  draft.TouchQueue();
}

void OnNode(Draft& draft, const event::NodeSaid& event) {
  const auto live = draft.live().nodes.find(event.node);
  if (live == draft.live().nodes.end() || live->second.session != event.session) return;
  std::visit([&](const auto& said) { On(draft, event.node, said); }, event.message);
}

void OnNode(Draft& draft, const event::SecretUnreadable& event) {
  if (FindAlloc(draft.state(), event.key, event.node) == nullptr) return;
  AttemptRecord attempt = draft.state().attempts.at(event.key);
  const bool starts =
      attempt.phase == AttemptPhase::kPreparing || attempt.phase == AttemptPhase::kLaunching;
  if (!starts || attempt.stop_cause != StopCause::kNone) return;
  draft.Event("attempt.secret_unreadable", Subject(event.key), event.why);
  attempt.stop_cause = StopCause::kStartFailed;
  attempt.cause = event.why;
  draft.Put(attempt);
}

void OnNode(Draft& draft, const event::NodeBeat& event) {
  const auto found = draft.live().nodes.find(event.node);
  if (found == draft.live().nodes.end()) return;
  found->second.ponged = draft.now();
  if (found->second.session != event.session) return;
  LiveNode& live = found->second;
  live.heard = draft.now();
  live.last_seen = draft.wall();
  if (event.after_stall) live.unheard.Clear();
  // Beats that a cut link held up tell of Pongs that were never sent, for no beat came.
  const bool one_way = live.unheard.Tells() ? live.unheard.IsOver(draft.now())
                                            : Millis{event.pong_age_ms} > kSilentAfter;
  if (event.n > 0) live.unheard.Sent(event.n, draft.now());
  MarkSilent(draft, event.node, live, one_way, kDeafWords);
}

void OnNode(Draft& draft, const event::NodeHeard& event) {
  const auto found = draft.live().nodes.find(event.node);
  if (found == draft.live().nodes.end() || found->second.session != event.session) return;
  LiveNode& live = found->second;
  live.heard = draft.now();
  live.last_seen = draft.wall();
  live.unheard.Arrived(event.n, draft.now());
  if (event.after_stall) live.unheard.Clear();
  MarkSilent(draft, event.node, live, live.unheard.IsOver(draft.now()), kDeafWords);
}

void OnNode(Draft& draft, const event::NodeDetached& event) {
  const auto found = draft.live().nodes.find(event.node);
  if (found == draft.live().nodes.end() || found->second.session != event.session) return;
  found->second.session.reset();
  MarkSilent(draft, event.node, found->second, true,
             event.why.empty() ? "its stream ended" : event.why);
}

}  // namespace launch::controller
