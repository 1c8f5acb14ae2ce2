// What the core knows: the stored entities, the indexes derived from them, and live facts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "controller/core/effect.h"
#include "controller/core/event.h"
#include "controller/core/line_memo.h"
#include "controller/core/record.h"
#include "controller/core/unheard.h"
#include "diagnosis/hang.h"
#include "diagnosis/memory_trend.h"

namespace launch::controller {

// The time, sampled once per event. Boot time decides; wall time is stored and shown.
struct Now {
  BootTime boot{};
  WallTime wall{};
};

// A plan as its chunks hold it.
struct StoredPlan {
  Plan plan;
  std::vector<PlannedAllocation> allocations;  // in node order
};

// ---- live facts: true now, never stored; empty after a restart ----

// A node turned a job away for a reason of its own: it, or that GPU, gets nothing new until then.
struct TurnedAway {
  std::string why;
  BootTime until{};
};

struct LiveNode {
  std::optional<SessionId> session;
  BootTime attached{};
  BootTime said{};    // by the node's clock: when the agent made its Hello
  BootTime heard{};   // last beat, or the Hello
  BootTime ponged{};  // last beat that was answered, also one of a session that is being closed
  WallTime last_seen{};
  Unheard unheard;
  bool silent = true;
  BootTime silent_since{};
  std::string silent_why = "not seen since the controller started";
  MachineIdentity machine;
  std::string boot_id;
  std::string instance;                  // of the agent that is attached
  std::string cgroups;                   // as it said in its Hello
  std::optional<BootTime> rival_seen;    // another one with its identity was refused; said then
  std::optional<BootTime> regress_said;  // it saw what this store lost, and was refused; said then
  std::map<std::string, BootTime> rivals;  // such instances, when they last were
  std::optional<Millis> clock_offset;      // our boot time minus the node's; the smallest seen
  std::vector<GpuSample> samples;
  WallTime sampled{};  // when they came
  std::optional<TurnedAway> turned_away;
  int refusals = 0;  // in a row
  std::map<GpuUuid, TurnedAway> busy_gpus;
  std::map<Key, WallTime> strangers;  // of no job here, without GPUs that could be held; since
  // Attempts for which the GPUs that the node said it holds may be held: a Hello does not say.
  std::map<GpuUuid, std::set<Key>> may_hold;
  BootTime notices_since{};  // start of the minute in which its notices are counted
  int notices = 0;
};

enum class Demand {
  kPrepare,
  kStage,
  kTestNetwork,
  kGo,
  kStop
};  // what a node is asked to do with an allocation

struct Asked {  // the last such message, and in which session it went out
  Demand what = Demand::kPrepare;
  SessionId session;
  BootTime at{};
};

struct MemoryLine {  // the share in use, and whether it is over its limit
  double share = 0;
  bool high = false;
};
struct LimitWatch {  // memory of an attempt's ranks on one node, against its own `memory:`
  std::uint64_t used = 0;
  std::uint64_t limit = 0;
  MemoryLine line;
};
struct GpuWatch {    // memory of one GPU of a running attempt
  std::string name;  // "GPU 0 (UUID)"
  NodeId node;
  std::uint64_t used = 0;
  std::uint64_t peak = 0;
  std::uint64_t total = 0;
  MemoryLine line;
  MemoryTrend trend;
  std::optional<MemoryTrend::Forecast> forecast;
  bool foreseen = false;  // said already
};

struct LayerWatch {  // what PyTorch held after the optimizer steps of one rank
  MemoryTrend trend;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::optional<std::int64_t> first_step;
  std::optional<std::int64_t> last_step;
};

struct GpuSeen {  // of one GPU of an attempt, by its samples
  std::vector<int> xids;
  std::optional<std::uint64_t> ecc_first;
  std::optional<std::uint64_t> ecc_last;
  std::optional<std::uint64_t> used;
  std::optional<std::uint64_t> foreign;
};

struct HangWatch {                   // whether a running attempt stands still
  std::optional<BootTime> active;    // its last sign of life
  std::map<NodeId, BootTime> heard;  // newest samples of each node
  std::map<Rank, std::pair<BootTime, std::uint64_t>> cores;  // what a rank had used of them, when
  bool stepped = false;                                      // a step was ever seen
  std::optional<BootTime> found;          // it stands still; its nodes were asked then
  std::map<Rank, StandingRank> standing;  // what they answered, until it is judged
  bool judged = false;
};

// An agent that was installed anew does not know what the one before it started.
struct Unrecorded {
  std::string why;                // what that means on this node
  std::optional<BootTime> since;  // of one that cannot see whether the ranks live either
  bool told_to_end = false;       // somebody who could know that asked for the end of its part
};

struct LiveAttempt {
  std::optional<BootTime> deadline;    // of accepting, staging or starting
  std::optional<BootTime> stop_began;  // absent after a restart of ours
  bool staging_began = false;          // all accepted; the deadline is now that of staging
  bool use_snapshot = false;           // the nodes do not share workdir: they run from a copy
  std::map<NodeId, StagingFacts> ready;
  bool testing_network = false;  // all are ready, and now speak with each other
  std::uint64_t network_round = 0;
  std::map<NodeId, NetworkFacts> network;
  std::map<NodeId, std::int64_t> clock_offsets_ms;  // of the nodes' clocks against ours
  std::map<NodeId, from_node::Staging> staging;     // display only
  std::map<NodeId, Asked> asked;
  std::map<NodeId, std::string> lost;       // allocation the agent no longer knows
  std::map<NodeId, Unrecorded> unrecorded;  // nodes without a record of it
  bool turned_away = false;  // by a node, for a reason of its own, and before anything began
  std::string refused_for;   // code of the finding about a node that refused it; empty = none did
  std::map<Rank, RankSample> samples;
  std::optional<BootTime> diagnosis_since;  // all its ranks are gone, and its verdict is wanted
  bool diagnosis_asked = false;             // its logs are being read
  bool diagnosed = false;                   // and were, whether they said something or not
  std::map<GpuUuid, GpuWatch> gpus;
  std::map<NodeId, MemoryLine> hosts;
  std::map<NodeId, LimitWatch> limits;
  HangWatch hang;
  std::map<GpuUuid, GpuSeen> seen;
  std::map<Rank, LayerWatch> layers;
  std::map<NodeId, std::pair<std::uint64_t, std::uint64_t>> host_seen;  // memory: total, free
  std::vector<Rank> exit_order;  // arrival, for nodes whose clock is not known
  // For a restart in place: what the attempt before found there and what still holds.
  std::map<NodeId, StagingFacts> known;
};

// What an attempt found while staging, for the next one in its place.
struct Staged {
  Attempt attempt;
  bool use_snapshot = false;
  std::map<NodeId, StagingFacts> facts;
};

// GPUs and cores kept for a job while its plan is being made.
struct Hold {
  std::uint64_t ticket = 0;
  Attempt attempt;
  std::vector<NodeId> nodes;
  std::vector<std::vector<GpuUuid>> gpus;  // per node
  std::vector<int> cpus;
  std::uint64_t memory_bytes = 0;  // per node
};

// What one cluster takes on and keeps, of its configuration.
struct Limits {
  std::size_t queued = 100'000;         // jobs that wait; beyond it submits are refused
  std::size_t jobs_of_a_user = 10'000;  // that are not done
  std::size_t done = 100'000;           // jobs kept after their end, the newest
  // Jobs whose plans are made at a time: no decision places a whole array, for all other calls
  // would wait for it, and each wanted plan has a copy of all offers.
  std::size_t planned_at_once = 64;
  friend bool operator==(const Limits&, const Limits&) = default;
};

// A job that waits for the nodes that have its checkpoints; checkpoint_tie.h.
struct TieWait {
  Attempt attempt;    // that saved them
  BootTime last{};    // until then at most
  BootTime next{};    // when it is looked at again
  bool over = false;  // it goes elsewhere
};

struct Live {
  Limits limits;
  bool store_low = false;  // nothing new is taken on until the store's disk has room
  BootTime since{};        // when this controller started: nodes may have been heard until then
  std::string host_boot;   // which boot of our host this is; empty: not known
  std::map<NodeId, LiveNode> nodes;
  std::map<Key, LiveAttempt> attempts;
  std::map<JobId, Hold> holds;
  std::uint64_t next_ticket = 1;
  std::map<std::uint64_t, event::Submit> submits;  // by ticket of the plan they wait for
  std::map<std::uint64_t, event::PlanQuery> queries;
  std::map<std::uint64_t, JobId> placings;
  std::map<JobId, WaitReason> reasons;   // of the last pass over the queue
  std::optional<JobId> queue_head;       // the first job that blocks those behind it
  bool waits_for_plans = false;          // it has a place, but too many plans are being made
  std::map<JobId, BootTime> not_before;  // backoff
  std::map<JobId, Staged> staged;        // of jobs that keep their place
  std::map<JobId, TieWait> ties;
  std::map<JobId, BootTime> time_limits;  // of the running attempt
  std::set<JobId> cancelled;              // by a person, since this controller began
  BootTime denials_since{};               // start of the minute in which they are counted
  int denials = 0;
  // Attempts of jobs here that are newer than what the store knows, and the nodes that say so.
  std::map<Key, std::set<NodeId>> unknown;
  bool awaits_nodes = false;      // the store went back once: any of them may tell of such attempts
  std::map<Key, BootTime> ended;  // attempts whose plans are soon let go
  std::optional<BootTime> read_again;  // when scripts are read that nobody has read yet
  bool look_again = false;  // a decision was undone: the next one draws all consequences anew
};

struct State {
  // Stored entities; changed by Apply only.
  ClusterRecord cluster;
  std::map<JobId, JobRecord> jobs;
  std::map<JobId, SpecRecord> specs;
  std::map<Key, std::map<std::uint32_t, std::string>> plan_chunks;
  std::map<Key, AttemptRecord> attempts;
  std::map<Key, std::map<NodeId, AllocRecord>> allocs;
  std::map<Key, std::map<Rank, RankRecord>> ranks;
  std::map<NodeId, NodeRecord> nodes;
  std::map<NodeId, std::shared_ptr<const NodeInventory>> inventories;
  std::map<GpuUuid, GpuRecord> quarantine;
  std::map<UserName, UserRecord> users;
  std::map<std::string, JoinRecord> joins;   // by serial
  std::map<std::string, DenyRecord> denied;  // by serial
  std::map<std::pair<UserName, std::string>, IdemRecord> idem;
  std::map<std::pair<JobId, std::string>, SecretRecord> secrets;

  // Indexes, derived from the above by Apply.
  std::set<JobId> queue;  // queued, in the order of submission
  std::set<JobId> active;
  std::set<JobId> keepers;                       // jobs that keep the place of an attempt
  std::set<std::pair<WallTime, JobId>> done;     // by their end
  std::map<UserName, std::set<JobId>> open;      // not done
  std::map<JobId, std::set<JobId>> arrays;       // their elements
  std::map<NodeId, std::set<Key>> held_by_node;  // allocations not released
  std::map<GpuUuid, Key> gpu_owner;
  std::map<GpuUuid, std::set<NodeId>> reported_by;  // nodes whose inventory has the GPU

  // Decoded chunks of attempts that may still need them. Those of an attempt that ended a while ago
  // are in the store only, and its chunks are not in `plan_chunks` either.
  std::map<Key, std::shared_ptr<const StoredPlan>> plans;
  LineMemo lines;

  Live live;
};

// ---- apply.cc ----
// The only way stored entities and their indexes change; the same code loads the store and serves.
void Apply(State& state, const Record& record);
// The stored entity with the same key as `like`.
std::optional<Entity> FindEntity(const State& state, const Entity& like);

// ---- state.cc ----

// What the node reported; null = nothing yet.
const NodeInventory* InventoryOf(const State& state, const NodeId& node);
// The node's allocation of a key, or null.
const AllocRecord* FindAlloc(const State& state, const Key& key, const NodeId& node);
// Whether the rank is one of those that the node was given.
bool HasRank(const AllocRecord& alloc, Rank rank);
// True once nothing of the allocation is left on its node (its quarantined GPUs aside).
bool IsReleased(const AllocRecord& alloc);

// Violated rules, one sentence each: a GPU with two owners, more cores given than a node has,
// attempts that do not grow, phases that contradict each other, an index that differs from what it
// is derived from.
std::vector<std::string> CheckInvariants(const State& state);

// Whether an operator declared the node dead, and it has not been back since.
bool IsFenced(const State& state, const NodeId& node);

// Whether the node was heard since the controller started.
bool WasHeard(const State& state, const NodeId& node);

// Since when nobody can see whether ranks of the attempt live on a node that answers; absent: its
// agent can.
std::optional<BootTime> UnseenSince(const State& state, const Key& key, const NodeId& node);
// Whether such an unseen part of the attempt on `node` is left alone until a person asks for its
// end.
bool WaitsForAPerson(const State& state, const Key& key, const NodeId& node);

// Whether the node answers, is not drained and shares no GPU with another live node.
bool IsSchedulable(const State& state, const NodeId& node);
// Whether what the node says of a GPU counts: an allocation there has it, or the node's inventory
// does and no other has a better claim (the GPU is another's, or a live node reported it earlier).
bool MaySpeakFor(const State& state, const NodeId& node, const GpuUuid& gpu);
// "drained: bad fan"; empty when it is not drained.
std::string WhyDrained(const NodeRecord& node);
// Why the node is not schedulable, in a few words; empty when it is.
std::string WhyUnschedulable(const State& state, const NodeId& node);
// Whether what the record tells of, if it lived, would be among what the node's agent says. One
// that was installed anew finds what is in the control groups in which the one before looked as
// well.
bool SeesWhatRan(const AllocRecord& alloc, const LiveNode& live);
bool SeesWhatRan(const GpuRecord& gpu, const LiveNode& live);
// Why a GPU is quarantined, and what keeps it so where its agent cannot tell.
std::string WhyHeld(const State& state, const GpuRecord& gpu);
// Whether the job's placement counted the cores that it takes; others may share cores that are
// taken.
bool CountsCores(const State& state, JobId job);

// ---- node_offer.cc ----
// A node as the planner may see it: without what others own or keep, and what is broken. Needs an
// inventory.
effect::NodeOffer MakeOffer(const State& state, const NodeId& node);
// The offers of all nodes that have an inventory, by name. For the job `own` the place that it
// keeps counts as free.
std::vector<effect::NodeOffer> MakeOffers(const State& state, JobId own = {});
// Makes the offers of the named nodes anew, after something was reserved there.
void RemakeOffers(const State& state, const std::vector<NodeId>& nodes,
                  std::vector<effect::NodeOffer>& offers);

}  // namespace launch::controller
