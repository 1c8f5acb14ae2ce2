// A node attaches: who it is, and what it has against what we have.
//
// clang-format off
//   the node has                 we have                       what follows
//   ---------------------------  ----------------------------  ------------------------------------
//   running n                    n launching or running        adopted: the ranks are simply there
//   running or accepted n        job done or stopping, or > n  Stop again (ask.cc, or stale here)
//   accepted n                   n preparing or launching      staged, or told to Go, again
//   exit record                  anything                      committed, acknowledged
//   nothing                      n preparing                   prepared again
//   nothing, same boot id        n launching or running        unknown (agent state lost), stopped
//   nothing, same boot id, but   n launching or running        left alone, an event, where it cannot
//   an agent installed anew                                    see what the one before started
//   n without its record         n running                     left alone, an event
//   anything else, a new boot    allocation of an older boot   unknown (node rebooted)
//   a job we do not know, or n   nothing, or an attempt < n    its GPUs or the node are held, an
//   of one that we do                                          event, no kill (unknown_attempts.h)
// clang-format on
#include <fmt/format.h>

#include <algorithm>

#include "common/planted.h"
#include "controller/core/draft.h"
#include "controller/core/unknown_attempts.h"

namespace launch::controller {
namespace {

bool ShareMac(const MachineIdentity& a, const MachineIdentity& b) {
  return std::any_of(a.macs.begin(), a.macs.end(), [&](const std::string& mac) {
    return std::find(b.macs.begin(), b.macs.end(), mac) != b.macs.end();
  });
}

// A cloned disk carries the install id along, so the hardware is compared too, as far as it is
// known.
bool SameMachine(const MachineIdentity& a, const MachineIdentity& b) {
  if (a.install_id != b.install_id) return false;
  if (!a.product_uuid.empty() && !b.product_uuid.empty()) return a.product_uuid == b.product_uuid;
  if (!a.macs.empty() && !b.macs.empty()) return ShareMac(a, b);
  return true;
}

constexpr const char* kTwin =
    "identity conflict: another agent with the same identity answers on this machine; if a state "
    "directory was copied, join the copy under a name of its own";

// One that was stopped in its `setup` has no master, and no rank of it was ever told to start.
bool MayHaveStarted(const AttemptRecord& attempt) {
  return attempt.phase == AttemptPhase::kLaunching || attempt.phase == AttemptPhase::kRunning ||
         (attempt.phase == AttemptPhase::kStopping && !attempt.master_address.empty());
}

// A copied state directory, or an agent that was started again while its old stream still seems to
// live. The one that answers keeps the name: it has the ranks. A dead one is silent before long.
bool IsTwin(const LiveNode& attached, const from_node::Hello& hello) {
  return !attached.instance.empty() && !hello.instance.empty() &&
         attached.instance != hello.instance;
}

// One that was refused while another answered, and knows nothing of what runs here: while that one
// is away for a moment (its agent is started again) the name is not for it either.
bool IsKnownRival(const State& state, const LiveNode& node, const event::NodeAttached& event,
                  BootTime now) {
  const auto rival = node.rivals.find(event.hello.instance);
  if (rival == node.rivals.end() || now - rival->second >= kRivalShown * 2) return false;
  const auto held = state.held_by_node.find(event.node);
  if (held == state.held_by_node.end()) return false;
  return std::ranges::any_of(held->second, [&](const Key& key) {
    const bool known = std::ranges::any_of(event.hello.allocations,
                                           [&](const auto& one) { return one.key == key; });
    return !known && MayHaveStarted(state.attempts.at(key));
  });
}

// One that is alone has the name before long: only what is refused beside another is a rival.
void NoteRival(LiveNode& node, const std::string& instance, BootTime now) {
  std::erase_if(node.rivals, [&](const auto& one) { return now - one.second >= kRivalShown * 2; });
  if (node.session && !node.silent) node.rivals[instance] = now;
}

// Dials again for as long as it lives: said once a minute.
bool SaidLately(std::optional<BootTime>& said, BootTime now) {
  if (said && now - *said < kRivalShown) return true;
  said = now;
  return false;
}

// Nothing is ended there, nothing that it runs is started elsewhere.
void RefuseRegress(Draft& draft, const event::NodeAttached& event, const std::string& why) {
  LiveNode& live = draft.live().nodes[event.node];
  if (!live.session) live.silent_why = "refused: " + why;
  ForgetUnknownOf(draft, event.node);
  NoteUnknown(draft, event.node, event.hello);
  if (!SaidLately(live.regress_said, draft.now())) {
    draft.Event("node.refused", Subject(event.node), why);
  }
  draft.Close(event.session, why);
}

void Refuse(Draft& draft, const event::NodeAttached& event, const std::string& why) {
  const auto live = draft.live().nodes.find(event.node);
  bool said = false;
  if (live != draft.live().nodes.end() && why == kTwin) {
    said = SaidLately(live->second.rival_seen, draft.now());
    NoteRival(live->second, event.hello.instance, draft.now());
  }
  if (!said) draft.Event("node.refused", Subject(event.node), why);
  draft.Close(event.session, why);
}

// What the node has seen of this store and the store has lost, or empty. What it saw in an earlier
// epoch was there when this one began: compared with the revision of now it would be forgiven as
// soon as as much is written again.
std::string WhyWentBack(const State& state, const event::NodeAttached& event) {
  const Fence& seen = event.hello.seen;
  const ClusterRecord& cluster = state.cluster;
  if (seen.incarnation > cluster.incarnation ||
      (seen.incarnation == cluster.incarnation && seen.epoch > cluster.epoch)) {
    return fmt::format(
        "the node obeyed a newer controller (incarnation {}, epoch {}); this store is older",
        seen.incarnation, seen.epoch);
  }
  if (seen.incarnation < cluster.incarnation) return {};
  // The first one that began after what the node saw.
  const auto next = cluster.openings.upper_bound(seen.epoch);
  const bool earlier = next != cluster.openings.end();
  const std::optional<std::uint64_t> had = earlier ? next->second : event.revision;
  if (!had || seen.revision <= *had) return {};
  return fmt::format(
      "this store went back in time: the node has seen its revision {}, it {} {}; put back the "
      "newest store, or remove store.witness and start again to go on with this one",
      seen.revision, earlier ? "had" : "is at", *had);
}

// Whether the same agent has said a newer Hello: this one was on its way on an earlier connection,
// and knows nothing of what was given to the node since.
bool IsOvertaken(const State& state, const event::NodeAttached& event) {
  const from_node::Hello& hello = event.hello;
  const auto live = state.live.nodes.find(event.node);
  if (live == state.live.nodes.end() || hello.instance.empty()) return false;
  const bool same =
      live->second.instance == hello.instance && live->second.boot_id == hello.boot_id;
  return same && hello.boot < live->second.said;
}

// Why this stream may not speak for the node, or empty.
std::string Conflict(const State& state, const event::NodeAttached& event, BootTime now) {
  const from_node::Hello& hello = event.hello;
  const auto live = state.live.nodes.find(event.node);
  if (live != state.live.nodes.end() && live->second.session && !live->second.silent) {
    const LiveNode& other = live->second;
    if (!SameMachine(other.machine, hello.machine) || other.boot_id != hello.boot_id) {
      return "identity conflict: another machine answers under this name";
    }
    if (IsTwin(other, hello)) return kTwin;
  }
  if (live != state.live.nodes.end() && IsKnownRival(state, live->second, event, now)) return kTwin;
  const auto record = state.nodes.find(event.node);
  if (record != state.nodes.end() && !event.serial.empty() &&
      !record->second.certificate_serial.empty() &&
      record->second.certificate_serial != event.serial &&
      record->second.earlier_serial != event.serial) {
    return "its certificate was replaced by a newer one";
  }
  if (record != state.nodes.end() && !record->second.machine.install_id.empty() &&
      !SameMachine(record->second.machine, hello.machine)) {
    return "identity conflict: this name belongs to another machine; join again with --rejoin";
  }
  return {};
}

// Whom a GPU may be held for: whose record names it, and all whose record cannot be read that far.
std::set<Key> HoldersOf(const from_node::Hello& hello, const GpuUuid& gpu, bool held) {
  std::set<Key> holders;
  for (const AllocationStatus& status : hello.allocations) {
    const bool names = std::ranges::find(status.gpus, gpu) != status.gpus.end();
    const bool unread = status.digest.empty() && status.gpus.empty();
    const bool released = status.phase == AllocationPhase::kReleased;
    const bool gone = status.phase == AllocationPhase::kDropped || (released && !held);
    if (!gone && (names || unread)) holders.insert(status.key);
  }
  return holders;
}

// Whether the node has an attempt of the job that is newer than all that this store knows.
bool RanNewer(const State& state, const from_node::Hello& hello, const Key& key) {
  return std::ranges::any_of(hello.allocations, [&](const AllocationStatus& status) {
    return status.key.job == key.job && !IsGone(status.phase) && IsUnknownHere(state, status.key);
  });
}

ExitReport Guess(const Key& key, Rank rank, const std::string& boot_id, const std::string& why) {
  ExitReport report;
  report.key = key;
  report.rank = rank;
  report.boot_id = boot_id;
  report.cause = UnknownEnd{why};
  return report;
}

// What the node found while staging holds while it stays prepared: a reboot, a drop or a loss of
// its state unmakes it.
void ForgetStaging(Draft& draft, const AllocRecord& alloc, const AllocationStatus* status,
                   bool rebooted) {
  const bool ready = !rebooted && status != nullptr && status->digest == alloc.digest &&
                     status->phase == AllocationPhase::kReady;
  const auto live = draft.live().attempts.find(alloc.key);
  if (ready || live == draft.live().attempts.end()) return;
  if (rebooted && !live->second.known.empty()) {  // nothing is as the attempt before found it
    live->second.turned_away = true;
    live->second.lost[alloc.node] = "was booted while the job was to start again in its place";
  }
  live->second.ready.erase(alloc.node);
  ForgetNetworkTest(live->second);
  live->second.clock_offsets_ms.erase(alloc.node);
  live->second.staging.erase(alloc.node);
}

// Left alone until somebody asks for its end, and told once for each node.
void LeaveUnrecorded(Draft& draft, const AllocRecord& alloc, const char* event, Unrecorded how) {
  const auto [at, fresh] =
      draft.live().attempts[alloc.key].unrecorded.emplace(alloc.node, std::move(how));
  if (fresh) draft.Event(event, Subject(alloc.key), at->second.why);
}

// The node was booted, or the agent is back that has the record.
void ForgetUnrecorded(Draft& draft, const AllocRecord& alloc) {
  const auto live = draft.live().attempts.find(alloc.key);
  if (live != draft.live().attempts.end()) live->second.unrecorded.erase(alloc.node);
}

// Our allocation on a node that attached, beside what the node says of it (null = nothing).
void Reconcile(Draft& draft, AllocRecord alloc, const AllocationStatus* status,
               const from_node::Hello& hello) {
  const AttemptRecord attempt = draft.state().attempts.at(alloc.key);
  const bool rebooted = !alloc.boot_id.empty() && alloc.boot_id != hello.boot_id;
  if (attempt.phase == AttemptPhase::kPreparing) ForgetStaging(draft, alloc, status, rebooted);
  if (rebooted) {
    ForgetUnrecorded(draft, alloc);
    if (MayHaveStarted(attempt)) LoseRanks(draft, alloc, "node rebooted");
    if (attempt.phase == AttemptPhase::kPreparing) {
      alloc.phase = StoredAllocPhase::kAssigned;  // prepared again, under the new boot
      alloc.boot_id.clear();
      alloc.ports.reset();
      draft.Put(alloc);
      return;
    }
    if (status == nullptr || status->phase == AllocationPhase::kReleased) {
      NoteReleased(draft, alloc.node, alloc.key, {});
    }
    return;
  }
  if (attempt.phase == AttemptPhase::kPreparing) {
    // Prepared again whatever the node has: it is idempotent there, brings back secrets that an
    // agent restart lost, and revives an allocation that was dropped while we were away.
    alloc.phase = StoredAllocPhase::kAssigned;
    alloc.ports.reset();
    alloc.leased = false;
    draft.Put(alloc);
    return;
  }
  if (status != nullptr && status->digest == alloc.digest) {
    ForgetUnrecorded(draft, alloc);
    if (status->ports) alloc.ports = status->ports;
    if (alloc.boot_id.empty()) alloc.boot_id = hello.boot_id;
    for (const RankStatus& rank : status->ranks) {
      if (!rank.started || rank.pid == 0) continue;
      RankRecord record = RankOf(draft.state(), alloc, rank.rank);
      record.pid = rank.pid;
      draft.Put(record);
    }
    switch (status->phase) {
      case AllocationPhase::kAccepted:
      case AllocationPhase::kReady:
        if (alloc.phase == StoredAllocPhase::kAssigned) alloc.phase = StoredAllocPhase::kAccepted;
        break;
      case AllocationPhase::kStarted:
      case AllocationPhase::kExited:
        if (alloc.phase == StoredAllocPhase::kAssigned ||
            alloc.phase == StoredAllocPhase::kAccepted || alloc.phase == StoredAllocPhase::kReady) {
          alloc.phase = StoredAllocPhase::kStarted;
        }
        break;
      case AllocationPhase::kReleased:
      case AllocationPhase::kDropped:
        break;
    }
    draft.Put(alloc);
    if (status->phase == AllocationPhase::kReleased) {
      std::vector<std::pair<GpuUuid, std::string>> held;
      for (const auto& entry : hello.held) {
        if (std::find(alloc.gpus.begin(), alloc.gpus.end(), entry.first) != alloc.gpus.end()) {
          held.push_back(entry);
        }
      }
      // With something held its ranks may live on: their ends are still to come.
      if (held.empty() && MayHaveStarted(attempt)) {
        LoseRanks(draft, alloc, "agent state lost");
      }
      NoteReleased(draft, alloc.node, alloc.key, held);
    } else if (status->phase == AllocationPhase::kDropped) {
      draft.live().attempts[alloc.key].lost[alloc.node] =
          "dropped the allocation after a minute without the controller";
    }
    return;
  }
  // It runs, but its record is lost: an agent was installed anew. Nobody here knows that it is not
  // well, and where it is being stopped its release tells that it is over.
  if (status != nullptr && status->digest.empty() && !IsGone(status->phase) &&
      MayHaveStarted(attempt)) {
    LeaveUnrecorded(draft, alloc, "allocation.unrecorded",
                    {fmt::format("{} runs its part, but has lost the record of it: it is left "
                                 "alone, and how it ends will not be seen; cancel or requeue the "
                                 "job to end it",
                                 alloc.node.value),
                     std::nullopt});
    return;
  }
  // The node knows nothing of it, or only another version.
  const bool newest = alloc.key.attempt.value == draft.state().jobs.at(alloc.key.job).attempts;
  if (newest && RanNewer(draft.state(), hello, alloc.key)) RequeueForNewer(draft, alloc.key.job);
  if (alloc.phase == StoredAllocPhase::kAssigned || !MayHaveStarted(attempt)) return;
  const bool all_ended = std::ranges::all_of(
      alloc.ranks, [&](Rank rank) { return RankOf(draft.state(), alloc, rank).exit.has_value(); });
  if (!SeesWhatRan(alloc, draft.live().nodes.at(alloc.node)) && !all_ended) {
    // Neither declared dead nor begun again beside what may live, whoever wanted its end before.
    LeaveUnrecorded(draft, alloc, "allocation.unseen",
                    {fmt::format("the agent of {} was installed anew and cannot see whether the "
                                 "ranks of its part live; look there, then cancel or requeue the "
                                 "job",
                                 alloc.node.value),
                     draft.now()});
    if (WaitsForAPerson(draft.state(), alloc.key, alloc.node)) return;
  }
  LoseRanks(draft, alloc, "agent state lost");
}

// An allocation of the node that we did not expect there.
void JudgeStranger(Draft& draft, const NodeId& node, const AllocationStatus& status) {
  const State& state = draft.state();
  const bool gone = IsGone(status.phase);
  const auto job = state.jobs.find(status.key.job);
  if (!gone && IsUnknownHere(state, status.key)) {
    KeepUnknown(draft, node, status);
    return;
  }
  if (gone) {
    // Of what is not known here, or not on this node, nothing is left to be told, and nobody
    // forgets it later.
    const bool over = FindAlloc(state, status.key, node) == nullptr ||
                      IsUnknownHere(state, status.key) || job->second.phase == JobPhase::kDone;
    if (over) draft.Send(node, to_node::Forget{status.key});
    return;
  }
  draft.Event("allocation.stale", Subject(status.key),
              fmt::format("{} still has it; stopped", node.value));
  draft.Send(node, to_node::Stop{status.key, StopCause::kStale, Millis{0}});
}

// A fresh record: of the stream before only the rivals stay.
void AttachLive(Draft& draft, const event::NodeAttached& event) {
  const from_node::Hello& hello = event.hello;
  LiveNode& live = draft.live().nodes[event.node];
  if (live.session) draft.Close(*live.session, "a newer stream of the same agent");
  std::map<std::string, BootTime> rivals = std::move(live.rivals);
  live = LiveNode{};
  ForgetUnknownOf(draft, event.node);
  live.rivals = std::move(rivals);
  live.session = event.session;
  live.attached = live.heard = draft.now();
  live.last_seen = draft.wall();
  live.silent = false;
  live.machine = hello.machine;
  live.boot_id = hello.boot_id;
  live.instance = hello.instance;
  live.cgroups = hello.cgroups;
  live.said = hello.boot;
  live.clock_offset = Millis{ToMs(draft.now()) - ToMs(hello.boot)};
}

void NoteAttached(Draft& draft, const event::NodeAttached& event) {
  const State& state = draft.state();
  const from_node::Hello& hello = event.hello;
  const auto known = state.nodes.find(event.node);
  NodeRecord node = known == state.nodes.end() ? NodeRecord{} : known->second;
  if (!node.boot_id.empty() && node.boot_id != hello.boot_id) {
    draft.Event("node.rebooted", Subject(event.node), "");
  }
  if (!node.fenced_by.empty()) {
    const bool was_off = node.boot_id != hello.boot_id;
    draft.Event(was_off ? "node.returned" : "node.overlap", Subject(event.node),
                was_off ? fmt::format("it was fenced by {}", node.fenced_by)
                        : fmt::format("it was fenced by {}, but never went down: what it still "
                                      "runs is stopped",
                                      node.fenced_by));
    node.fenced_by.clear();
    node.fenced_at = WallTime{};
  }
  node.id = event.node;
  node.machine = hello.machine;
  node.boot_id = hello.boot_id;
  node.account = hello.account;
  if (node.first_seen == WallTime{}) node.first_seen = draft.wall();
  draft.Put(node);
  draft.Event("node.attached", Subject(event.node),
              fmt::format("version {}, {} allocations", hello.version, hello.allocations.size()));
  draft.Send(event.node, to_node::Welcome{state.cluster.id});
  NoteInventory(draft, event.node, hello.inventory);
}

// What the node says of its allocations. Points into the Hello.
using SaidOf = std::map<Key, const AllocationStatus*>;

SaidOf TakeExits(Draft& draft, const event::NodeAttached& event) {
  SaidOf said;
  for (const AllocationStatus& status : event.hello.allocations) {
    said[status.key] = &status;
    for (const RankStatus& rank : status.ranks) {
      if (rank.exit) NoteExit(draft, event.node, *rank.exit);
    }
  }
  return said;
}

// What we have on it, what it has besides, and what it may forget.
void SettleAllocations(Draft& draft, const event::NodeAttached& event, const SaidOf& said) {
  const State& state = draft.state();
  const from_node::Hello& hello = event.hello;
  std::set<Key> ours;
  if (const auto held = state.held_by_node.find(event.node); held != state.held_by_node.end()) {
    ours = held->second;
  }
  for (const Key& key : ours) {
    const auto status = said.find(key);
    Reconcile(draft, state.allocs.at(key).at(event.node),
              status == said.end() ? nullptr : status->second, hello);
    draft.live().attempts[key].asked.erase(event.node);
    draft.Touch(key.job);
  }
  for (const auto& [key, status] : said) {
    if (!ours.contains(key)) JudgeStranger(draft, event.node, *status);
  }
  for (const Key& floor : hello.floors) {
    const auto job = state.jobs.find(floor.job);
    if (job == state.jobs.end() || job->second.phase != JobPhase::kDone) continue;
    if (!said.contains(floor) && !ours.contains(floor)) {
      draft.Send(event.node, to_node::Forget{floor});
    }
  }
}

// The node's own list of held GPUs is the truth of this moment.
void HoldSaidGpus(Draft& draft, const event::NodeAttached& event) {
  const State& state = draft.state();
  const from_node::Hello& hello = event.hello;
  std::vector<GpuUuid> foreign;
  for (const auto& [gpu, why] : hello.held) {
    if (state.quarantine.contains(gpu)) continue;
    if (!MaySpeakFor(state, event.node, gpu)) {
      foreign.push_back(gpu);
      continue;
    }
    const std::set<Key> holders = HoldersOf(hello, gpu, true);
    const Key holder = holders.size() == 1 ? *holders.begin() : Key{};
    draft.HoldGpu(event.node, gpu, why, holder);
    draft.Event("gpu.quarantined", Subject(event.node), fmt::format("{}: {}", gpu.value, why));
  }
  NoteForeignGpus(draft, event.node, foreign);
}

// Of the GPUs in quarantine those that nothing of the node holds any more.
void FreeGpus(Draft& draft, const event::NodeAttached& event, const SaidOf& said) {
  const State& state = draft.state();
  const from_node::Hello& hello = event.hello;
  std::vector<GpuUuid> free;
  for (const auto& [gpu, record] : state.quarantine) {
    if (record.node != event.node) continue;
    const bool held = std::any_of(hello.held.begin(), hello.held.end(),
                                  [&](const auto& entry) { return entry.first == gpu; });
    // An agent that was restarted in between has its proof still to make: it holds nothing yet, and
    // the process that the GPU is held for is still there.
    std::set<Key> holders = HoldersOf(hello, gpu, held);
    const auto status = said.find(record.key);
    if (status != said.end() && !IsGone(status->second->phase)) holders.insert(record.key);
    // Silence of an agent that cannot see it is no proof either: a person looks, and releases it.
    if (!SeesWhatRan(record, draft.live().nodes[event.node])) {
      holders.insert(record.key);
      if (IsUnknownHere(state, record.key)) ClaimUnknown(draft, event.node, record.key);
    }
    if (!held && (holders.empty() || Planted(Bug::kForgottenQuarantine))) {
      free.push_back(gpu);
    } else {
      draft.live().nodes[event.node].may_hold[gpu] = std::move(holders);
    }
  }
  for (const GpuUuid& gpu : free) {
    draft.EraseQuarantine(gpu);
    draft.Event("gpu.freed", Subject(event.node), gpu.value);
  }
}

}  // namespace

void LoseRanks(Draft& draft, const AllocRecord& alloc, const std::string& why) {
  for (const Rank rank : alloc.ranks) {
    RankRecord record = RankOf(draft.state(), alloc, rank);
    if (record.exit) continue;
    record.exit = Guess(alloc.key, rank, alloc.boot_id, why);
    draft.Put(record);
    draft.live().attempts[alloc.key].exit_order.push_back(rank);
    draft.Event(
        "rank.exited", Subject(alloc.key),
        fmt::format("rank {} on {}: {}", rank, alloc.node.value, Describe(record.exit->cause)));
  }
}

void TakeAsDead(Draft& draft, const NodeId& node, const Key& key, const std::string& why) {
  const AttemptRecord& attempt = draft.state().attempts.at(key);
  const AllocRecord alloc = draft.state().allocs.at(key).at(node);
  if (attempt.phase == AttemptPhase::kPreparing) {
    draft.ChangeLive(key).lost[node] = "was given up: " + why;
  } else if (MayHaveStarted(attempt)) {
    LoseRanks(draft, alloc, why);
  }
  NoteReleased(draft, node, key, {});
}

void OnNode(Draft& draft, const event::NodeAttached& event) {
  const State& state = draft.state();
  if (const std::string why = WhyWentBack(state, event);
      !why.empty() && !Planted(Bug::kRegressTaken)) {
    RefuseRegress(draft, event, why);
    return;
  }
  if (const std::string why = Conflict(state, event, draft.now()); !why.empty()) {
    Refuse(draft, event, why);
    return;
  }
  if (IsOvertaken(state, event)) {
    draft.Close(event.session, "a newer stream of the same agent");
    return;
  }
  AttachLive(draft, event);
  NoteAttached(draft, event);
  for (const Key& floor : event.hello.floors) NoteFloor(draft, event.node, floor);
  // Exits first: they are proof, whatever else is missing.
  const SaidOf said = TakeExits(draft, event);
  SettleAllocations(draft, event, said);
  HoldSaidGpus(draft, event);
  FreeGpus(draft, event, said);
  draft.TouchQueue();
}

}  // namespace launch::controller
