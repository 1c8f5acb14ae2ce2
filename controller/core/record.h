// What the core decides to remember: after-images of small entities, and event rows for audit.
// record.proto is their stored form; a Put replaces the value of its key.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/ids.h"
#include "common/network_link.h"
#include "common/node_messages.h"
#include "common/plan.h"
#include "common/view.h"

namespace launch::controller {

enum class JobPhase { kQueued, kActive, kDone };
enum class AttemptPhase { kPreparing, kLaunching, kRunning, kStopping, kEnded };
enum class StoredAllocPhase {
  kAssigned,
  kAccepted,
  kReady,
  kStarted,
  kExited,
  kReleased,
  kRefused,
  kQuarantined
};

// Key "cluster".
struct ClusterRecord {
  std::string id;
  std::uint64_t incarnation = 1;
  std::uint64_t epoch = 0;
  std::uint64_t next_job = 1;
  std::map<std::uint64_t, std::uint64_t>
      openings;  // the newest epochs, and the revision each began with
  friend bool operator==(const ClusterRecord&, const ClusterRecord&) = default;
};

// What out-of-memory errors changed in the plan of a job, on top of what its file says.
struct PlanChange {
  bool began = false;                // `left` was filled
  bool expandable_segments = false;  // PyTorch's allocator, by its two variables
  bool fewer_workers = false;        // of the data loader, and no pinned memory
  std::optional<std::int64_t> global;
  std::optional<std::int64_t> micro;
  std::optional<Strategy> strategy;
  std::optional<Offload> offload;
  std::string checkpointing;           // none | selective | full; empty = as written
  std::optional<Precision> precision;  // 16 bits instead of 32
  std::vector<Fallback> left;          // the planner's plans of less memory that were not tried yet
  friend bool operator==(const PlanChange&, const PlanChange&) = default;
};

// Key "job/J".
struct JobRecord {
  JobId id;
  UserName owner;
  std::string name;
  JobPhase phase = JobPhase::kQueued;
  bool held = false;
  std::string held_by;      // who, after it was submitted; empty: at its submission
  std::string requeued_by;  // a user wants a new attempt; until that is queued
  // The store went back to before the job's attempt began or ended: the attempt is stopped, with
  // the proof of every node, and the job queued again.
  bool went_back = false;
  std::optional<JobId> array;  // the array it is an element of
  int array_index = 0;
  bool forced = false;
  std::uint32_t attempts = 0;  // highest attempt number used
  std::uint32_t floor = 0;     // highest that a node has seen, where the store knows fewer
  std::string requeue_cause;   // of the last attempt, while queued after one
  std::string cancelled_by;
  WallTime cancelled_at{};
  // Outcome, once done: a terminal JobState and its sentence.
  std::optional<JobState> outcome;
  std::string sub_reason;
  std::string outcome_text;
  std::optional<int> exit_code;
  std::map<std::string, int> retries;  // cause -> count
  WallTime not_before{};               // backoff
  Millis backoff{0};                   // how long that was: no jump of the clock makes it longer
  std::map<std::string, std::string> excluded_nodes;  // node -> why
  std::vector<Finding> findings;  // of the refusal, or of the last plan and staging
  std::int64_t best_step = -1;    // newest checkpoint an attempt resumed from
  int no_progress = 0;            // consecutive retries without a newer checkpoint
  PlanChange change;
  std::string change_text;          // in words, of the newest change
  std::optional<ProbePoint> probe;  // what this probe or debug run measured
  // The attempt whose nodes, GPUs and cores stay the job's until the next one begins there; 0:
  // none.
  std::uint32_t keeps = 0;
  WallTime submitted{};
  WallTime started{};
  WallTime ended{};
  std::string idempotency_key;
  std::string request_digest;
  friend bool operator==(const JobRecord&, const JobRecord&) = default;
};

// Key "spec/J".
struct SpecRecord {
  JobId id;
  JobSpec spec;
  std::string source;
  SubmitContext context;
  friend bool operator==(const SpecRecord&, const SpecRecord&) = default;
};

// Keys "plan/J/N/chunk": bytes of the plan and of the allocation specs; immutable, they mean
// nothing until an attempt record names their digest.
struct PlanChunkRecord {
  Key key;
  std::uint32_t chunk = 0;
  std::string bytes;  // <= 512 KiB
  friend bool operator==(const PlanChunkRecord&, const PlanChunkRecord&) = default;
};

// How far the attempt got: the last that its ranks said.
struct LastProgress {
  std::optional<std::int64_t> step;
  std::optional<std::int64_t> steps;
  std::optional<double> seconds_per_step;
  friend bool operator==(const LastProgress&, const LastProgress&) = default;
};

// What lists show of the plan, so that the plan of an ended attempt need not stay in memory.
struct PlanSummary {
  Strategy strategy = Strategy::kAuto;
  std::optional<std::int64_t> steps;
  BatchSplit batch;
  MeasuredRun run;  // as its measurement will be named
  friend bool operator==(const PlanSummary&, const PlanSummary&) = default;
};

// Key "attempt/J/N".
struct AttemptRecord {
  Key key;
  AttemptPhase phase = AttemptPhase::kPreparing;
  std::string plan_digest;
  std::uint32_t plan_chunks = 0;
  std::vector<NodeId> nodes;  // node order of the plan
  std::string master_address;
  int master_port = 0;
  std::string resumed_from;
  std::int64_t resumed_step = -1;
  bool local_checkpoints = false;  // they are on disks of its nodes: see checkpoint_tie.h
  bool in_copy = false;            // it ran from copies of workdir
  StopCause stop_cause = StopCause::kNone;
  std::string cause;    // one sentence
  std::string outcome;  // success | failed | cancelled | timeout | node_fail | ...
  std::optional<Rank> first_failed_rank;
  std::optional<NodeId> first_failed_node;
  std::vector<EnvVar> late_env;
  PlanSummary plan;
  std::string change;                // of the plan against the attempt before, in words
  std::optional<Verdict> verdict;    // why it failed; judged after the end of its ranks
  LastProgress progress;             // set at the end; while it lives, the samples of its ranks
  std::uint64_t peak_gpu_bytes = 0;  // of its fullest GPU, as sampled; set at the end, 0 = not seen
  WallTime created{};
  WallTime started{};  // all ranks started
  WallTime ended{};
  // When it started, on the clock that its time limit follows; holds within that boot of our host.
  BootTime started_boot{};
  std::string started_host_boot;
  std::optional<Millis> ran;  // set at the end, by RunTime; absent: the record is older than that
  friend bool operator==(const AttemptRecord&, const AttemptRecord&) = default;
};

// Key "alloc/J/N/node". GPU ownership is derived from unreleased allocations, never stored twice.
struct AllocRecord {
  Key key;
  NodeId node;
  StoredAllocPhase phase = StoredAllocPhase::kAssigned;
  std::string digest;
  std::vector<GpuUuid> gpus;
  int cpus = 0;
  std::uint64_t memory_bytes = 0;
  std::vector<Rank> ranks;
  std::optional<PortBlock> ports;
  std::string boot_id;    // of the node when it accepted
  std::string interface;  // proven route to the master, set at launching
  std::vector<std::pair<GpuUuid, std::string>> held;
  bool leased = false;     // the node said that it ends the ranks by itself: see leases.cc
  std::string install_id;  // of the agent that accepted; empty: by a controller of before
  std::string cgroups;     // in which that agent looks for ranks that run; empty: in none
  friend bool operator==(const AllocRecord&, const AllocRecord&) = default;
};

// Key "rank/J/N/R".
struct RankRecord {
  Key key;
  Rank rank = 0;
  NodeId node;
  std::int64_t pid = 0;
  std::optional<ExitReport> exit;
  friend bool operator==(const RankRecord&, const RankRecord&) = default;
};

// A job that failed through the node's fault.
struct NodeFault {
  JobId job;
  UserName owner;
  std::string what;  // label of the verdict
  WallTime at{};
  friend bool operator==(const NodeFault&, const NodeFault&) = default;
};

// Key "node/ID".
struct NodeRecord {
  NodeId id;
  MachineIdentity machine;
  std::string boot_id;
  std::optional<UserName> account;  // ranks run as it, for its user only; absent: as their owner
  std::string certificate_serial;
  // Serial of the certificate that was renewed: good until the node is seen to use the newer one,
  // by renewing that.
  std::string earlier_serial;
  bool drained = false;
  std::string drain_reason;
  std::string drained_by;
  std::string fenced_by;  // until its next Hello: an operator said that it has no power
  WallTime fenced_at{};
  WallTime first_seen{};
  std::vector<NodeFault> faults;  // oldest first, one per job, since the last undrain
  LinkTable links;                // kMostLinks at most, of pairs in which its name sorts first
  friend bool operator==(const NodeRecord&, const NodeRecord&) = default;
};

// Key "inventory/ID": the last one a node sent, so that never-fits is judged over silent nodes too.
struct InventoryRecord {
  NodeInventory inventory;
  friend bool operator==(const InventoryRecord&, const InventoryRecord&) = default;
};

// Key "gpu/UUID": quarantine.
struct GpuRecord {
  GpuUuid uuid;
  NodeId node;
  std::string why;
  Key key;
  WallTime since{};
  // The node's boot, and the installation and control groups of its agent, when it said so, as in
  // AllocRecord; empty: recorded by an older controller.
  std::string boot_id;
  std::string install_id;
  std::string cgroups;
  friend bool operator==(const GpuRecord&, const GpuRecord&) = default;
};

// Key "user/NAME".
struct UserRecord {
  UserName name;
  bool is_operator = false;
  std::string certificate_serial;
  WallTime revoked{};  // certificates that were signed until then are worth nothing; 0: never
  friend bool operator==(const UserRecord&, const UserRecord&) = default;
};

// Key "join/SERIAL".
struct JoinRecord {
  std::string serial;
  std::string role;  // node | user
  std::string name;
  WallTime expires{};
  bool used = false;
  bool revoked = false;
  UserName created_by;
  friend bool operator==(const JoinRecord&, const JoinRecord&) = default;
};

// Key "deny/SERIAL": a revoked certificate.
struct DenyRecord {
  std::string serial;
  std::string why;
  friend bool operator==(const DenyRecord&, const DenyRecord&) = default;
};

// Key "idem/USER/KEY".
struct IdemRecord {
  UserName user;
  std::string key;
  std::string digest;
  JobId job;
  friend bool operator==(const IdemRecord&, const IdemRecord&) = default;
};

// Key "secret/J/NAME": sealed by the controller's key file; deleted when the job is done.
struct SecretRecord {
  JobId job;
  std::string name;
  std::string sealed;
  friend bool operator==(const SecretRecord&, const SecretRecord&) = default;
};

using Entity = std::variant<ClusterRecord, JobRecord, SpecRecord, PlanChunkRecord, AttemptRecord,
                            AllocRecord, RankRecord, NodeRecord, InventoryRecord, GpuRecord,
                            UserRecord, JoinRecord, DenyRecord, IdemRecord, SecretRecord>;

struct Put {
  Entity entity;
  friend bool operator==(const Put&, const Put&) = default;
};
struct Delete {
  Entity entity;  // its key counts
  friend bool operator==(const Delete&, const Delete&) = default;
};
// Append-only audit row; kinds are `noun.verb`, listed in docs/events.md.
struct EventRow {
  std::string kind;
  std::string subject;
  std::string text;
  friend bool operator==(const EventRow&, const EventRow&) = default;
};

using Record = std::variant<Put, Delete, EventRow>;

// Stored key of an entity; numbers are zero-padded so that key order is number order.
std::string KeyOf(const Entity& entity);
// What the keys of all chunks of an attempt's plan begin with.
std::string PlanPrefix(const Key& attempt);

}  // namespace launch::controller
