// What users see of jobs, nodes and events: answers of the controller, rendered by the CLI.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/diagnosis.h"
#include "common/inventory.h"
#include "common/job.h"
#include "common/launch.h"
#include "common/plan.h"

namespace launch {

// State of a job as users see it. A view over stored phases and what nodes say, never stored
// itself.
enum class JobState {
  kPending,
  kStarting,
  kRunning,
  kUnreachable,
  kStopping,
  kRequeued,
  kSucceeded,
  kFailed,
  kCancelled,
  kTimeout,
  kOutOfMemory,
  kNodeFail,
  kPreempted,
  kSuspended,
};
std::string_view ToString(JobState v);   // "PENDING"
std::string_view StateCode(JobState v);  // "PD"
bool IsTerminal(JobState v);

// Reason a job waits: Slurm's word, then our evidence. "Resources: 8 H100 free on no node".
struct WaitReason {
  std::string code;  // Resources, Priority, ReqNodeNotAvail, JobHeldUser, Planning ...
  std::string evidence;
  std::vector<NodeId> unavailable = {};  // where it would fit; for who writes `evidence` on
  friend bool operator==(const WaitReason&, const WaitReason&) = default;
};
// Why a job waits whose `begin` is not reached: the date, and how long that is from now.
WaitReason WaitForBegin(WallTime begin, WallTime now);

// The three layers of GPU memory of a running rank; bytes, each layer with the time of its sample.
struct RankMemory {
  std::optional<std::uint64_t> allocated;  // by PyTorch for tensors
  std::optional<std::uint64_t> reserved;   // by PyTorch from the driver
  WallTime said{};                         // by the rank, at an optimizer step
  std::optional<std::uint64_t> process;    // of the job's processes on the rank's GPU
  std::optional<std::uint64_t> foreign;    // of others there
  std::optional<std::uint64_t> free;
  WallTime sampled{};  // by the driver
  friend bool operator==(const RankMemory&, const RankMemory&) = default;
};

struct RankView {
  Rank rank = 0;
  NodeId node;
  std::int64_t pid = 0;
  std::string state;  // waiting | running | exited
  std::optional<ExitReport> exit;
  std::optional<RankMemory> memory;  // while it runs
  friend bool operator==(const RankView&, const RankView&) = default;
};

struct AttemptView {
  Attempt attempt;
  std::string phase;    // preparing | staging | launching | running | stopping | ended
  std::string outcome;  // success | failed | cancelled | ...; empty while it lives
  std::string cause;    // one sentence
  std::vector<NodeId> nodes;
  std::string master;  // address:port
  std::string resumed_from;
  BatchSplit batch;
  std::map<std::string, std::string> env;  // of rank 0: plan plus late values
  std::optional<Rank> first_failed_rank;
  std::optional<NodeId> first_failed_node;
  std::optional<Verdict> verdict;
  std::string change;  // of the plan against the attempt before, in words; empty = none
  std::vector<RankView> ranks;
  WallTime started{};
  WallTime ended{};  // 0 = not yet
  friend bool operator==(const AttemptView&, const AttemptView&) = default;
};

struct JobView {
  JobId id;
  std::string name;
  std::string kind = "job";  // or check: its ranks are not started; debug | probe: a few steps
  std::string user;
  std::optional<JobId> array;  // the array it is an element of
  int array_index = 0;
  int priority = 50;
  JobState state = JobState::kPending;
  std::string sub_reason;        // SETUP | PREFLIGHT | USER_CODE | PORT ...
  WaitReason reason;             // while waiting
  std::string outcome;           // one sentence once done
  std::optional<int> exit_code;  // first failing code, or 0
  std::string cancelled_by;
  int gpus = 0;  // in use or asked for, all nodes
  int nodes = 0;
  std::string strategy;
  std::vector<NodeId> nodelist;
  std::optional<std::int64_t> step;
  std::optional<std::int64_t> steps;
  std::optional<double> seconds_per_step;
  std::optional<double> eta_s;
  WallTime submitted{};
  WallTime started{};  // first start of a rank; 0 = not yet
  WallTime ended{};
  std::vector<AttemptView> attempts;
  std::vector<Finding> findings;
  std::optional<JobSpec> spec;          // in full status only
  std::optional<Plan> plan;             // of the newest attempt; in full status only
  std::vector<std::string> held;        // what a stop could not free yet
  std::optional<MeasuredRun> measured;  // of a job that succeeded, but a debug run; in lists too
  std::string git_commit;               // of workdir when it was submitted; in full status only
  std::string git_diff;                 // of the working tree against it; in full status only
  friend bool operator==(const JobView&, const JobView&) = default;
};

struct NodeView {
  NodeInventory inventory;
  std::string state;     // idle | mix | alloc | drain | silent | fenced | unknown
  bool drained = false;  // by an operator, also while `state` is silent or fenced
  std::string reason;    // of drain or silence
  NodeHealth health;
  bool schedulable = false;
  std::vector<GpuUuid> free_gpus;
  std::vector<JobId> jobs;
  std::int64_t silent_ms = 0;  // 0 = answering
  WallTime last_seen{};
  std::vector<GpuSample> samples;
  std::vector<std::pair<GpuUuid, std::string>> quarantined;
  std::optional<UserName> account;  // ranks run as it, for its user only; absent: as their owner
  friend bool operator==(const NodeView&, const NodeView&) = default;
};

struct EventView {
  std::uint64_t seq = 0;
  WallTime at{};
  std::string kind;     // noun.verb: "job.submitted"
  std::string subject;  // "job/12", "node/gpu01"
  std::string text;
  friend bool operator==(const EventView&, const EventView&) = default;
};

// Answer of submit and of plan, which share one code path: what `plan` shows is what starts.
struct PlanAnswer {
  std::optional<Plan> plan;  // absent when errors forbid one
  std::vector<Finding> findings;
  std::optional<WaitReason> waits;  // why it would not start now
  std::vector<Check> checks = {};   // every check of preflight, also what passed
  friend bool operator==(const PlanAnswer&, const PlanAnswer&) = default;
};

}  // namespace launch
