// Everything that can happen to the core: validated values only; nothing of the wire gets here.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/diagnosis.h"
#include "common/error.h"
#include "common/ids.h"
#include "common/job.h"
#include "common/job_change.h"
#include "common/node_messages.h"
#include "common/plan.h"
#include "common/view.h"
#include "planner/planner.h"

namespace launch::controller {

// Names a waiting caller; drawn by the services, answered exactly once by a Reply effect.
using RequestId = StrongId<struct RequestIdTag, std::uint64_t>;
using SessionId = StrongId<struct SessionIdTag, std::uint64_t>;  // one life of an agent's stream

struct Caller {
  UserName user;
  bool is_operator = false;
  friend bool operator==(const Caller&, const Caller&) = default;
};

enum class QuarantineAction { kList, kRelease, kRetest };

// What the planner said, for one node. A plan worker makes it from a snapshot, off the loop: the
// core itself never plans.
struct PlannedAllocation {
  AllocationSpec spec;
  std::string bytes;  // wire form, sent as it is
  std::string digest;
  friend bool operator==(const PlannedAllocation&, const PlannedAllocation&) = default;
};
struct PlanOutcome {
  std::optional<Plan> plan;
  std::vector<PlannedAllocation> allocations;  // only when placed; one per node, in node order
  std::vector<Finding> findings;
  std::vector<Check> checks = {};  // all that preflight looked at
  std::optional<Error> error;      // bad spec, or can never fit
  // Only when placed: plan and allocations as the worker encoded them for the store, and the
  // SHA-256 (hex) of those bytes. The core cuts them into chunks and never looks inside; after a
  // restart the PlanDecoder given to Start (controller/core/decide.h) reads them back.
  std::string stored;
  std::string stored_digest;
  // What the line of the planned spec asks for; absent: it was not read.
  std::optional<Result<LineDemand>> line = {};
  friend bool operator==(const PlanOutcome&, const PlanOutcome&) = default;
};

namespace event {

// ---- users (already authenticated; access rows are checked by the services) ----
struct Submit {
  RequestId request;
  Caller caller;
  std::string idempotency_key;  // 16 random bytes, hex
  std::string digest;           // of the request: same key + other digest = ALREADY_EXISTS
  JobSpec spec;
  std::string source;  // text of the job file
  SubmitContext context;
  std::vector<std::pair<std::string, std::string>> secrets;
  bool force = false;  // start in spite of preflight errors; recorded
  bool hold = false;
};
struct PlanQuery {  // `launch plan`: no side effects
  RequestId request;
  Caller caller;
  JobSpec spec;
  SubmitContext context;
  PlanQuestions questions = {};
};
struct Cancel {
  RequestId request;
  Caller caller;
  std::vector<JobId> jobs;
};
struct Change {  // hold, release, requeue, update
  RequestId request;
  Caller caller;
  std::vector<JobId> jobs;
  JobChange change;
};
struct ListJobs {
  RequestId request;
  Caller caller;
  bool all_users = false;
  bool include_done = false;
  std::optional<JobId> array;  // its elements only
};
struct GetJob {
  RequestId request;
  Caller caller;
  JobId job;
  bool plans = true;  // with those of its attempts, which are large; false: where its ranks run
};
struct ListNodes {
  RequestId request;
  Caller caller;
};
struct Drain {
  RequestId request;
  Caller caller;
  NodeId node;
  bool undrain = false;
  std::string reason;
};
struct NoteProbe {  // what a probe, debug run or network test of the caller's measured
  RequestId request;
  Caller caller;
  JobId job;
  std::optional<ProbePoint> point;
  std::vector<NetworkFacts> network = {};  // by place
};
struct ForgetNode {  // a node that is gone for good
  RequestId request;
  Caller caller;
  NodeId node;
};
struct FenceNode {  // the caller says: it has no power; its part of every attempt is released
  RequestId request;
  Caller caller;
  NodeId node;
};
struct Quarantine {
  RequestId request;
  Caller caller;
  QuarantineAction action = QuarantineAction::kList;
  std::string what;  // UUID of a GPU, or a node; empty = all, to list
};
struct OpenExec {  // a command beside a rank of a running job
  RequestId request;
  Caller caller;
  JobId job;
  Rank rank = 0;
  std::string exec;  // 32 hex digits: what the node's stream will name
  std::string what;  // the command in one line, for the audit trail
  // Where the rank does not run: the path of its copy of workdir to be read, as `what` is written.
  std::optional<std::string> archive;
};
struct CreateToken {  // join certificates; the secret part never enters the core
  RequestId request;
  Caller caller;
  std::string role;  // "node" | "user"
  std::string name;
  std::string serial;  // of the join certificate
  WallTime expires{};
  bool revoke = false;  // revoke `serial` instead
};
struct RevokeMember {  // shuts out who holds a certificate of this name
  RequestId request;
  Caller caller;
  std::string role;  // "node" | "user"
  std::string name;
};
struct ListTokens {
  RequestId request;
  Caller caller;
};
struct UseToken {  // a join: committed as used before anything is signed
  RequestId request;
  std::string serial;
  std::string role;
  std::string name;
  std::string new_serial;  // of the certificate that will be signed
  bool rejoin = false;
};
struct Renew {  // of a member's own certificate: committed before anything is signed
  RequestId request;
  std::string serial;  // of the certificate that asks
  std::string role;    // node | user
  std::string name;
  std::string new_serial;
};

// ---- nodes ----
struct NodeAttached {  // first message of a stream; identity from the certificate
  SessionId session;
  NodeId node;
  from_node::Hello hello;
  std::string serial = {};                     // of the certificate that opened the stream
  std::optional<std::uint64_t> revision = {};  // of our store when the Hello came
};
struct NodeSaid {  // Beat and Heard never get here as messages: see NodeBeat, NodeHeard
  SessionId session;
  NodeId node;
  FromNode message;  // neither Hello, Beat nor Heard
};
struct NodeBeat {
  SessionId session;
  NodeId node;
  std::int64_t pong_age_ms = 0;
  std::uint64_t n = 0;       // of the Pong that answers it; 0: nothing does
  bool after_stall = false;  // by the loop: that it did not hear us may be our own doing
};
struct NodeHeard {  // what we sent arrives there: that Pong did
  SessionId session;
  NodeId node;
  std::uint64_t n = 0;
  bool after_stall = false;  // as of NodeBeat
};
struct NodeDetached {  // the stream ended
  SessionId session;
  NodeId node;
  std::string why;
};

struct Denied {              // a member asked for what it may not; for the audit trail
  std::string who;           // user/ana, node/gpu01
  std::string what;          // "may not cancel it", "may not call Operator/Drain"
  std::optional<JobId> job;  // that it asked for, known or not
};

struct SecretUnreadable {  // a secret could not be opened, so the node was told nothing
  Key key;
  NodeId node;
  std::string why;
};

// ---- workers and time ----
struct Planned {  // answer to a PlanWanted effect
  std::uint64_t ticket = 0;
  PlanOutcome outcome;
};
struct Diagnosed {  // answer to a DiagnosisWanted effect
  Key key;
  std::optional<Verdict> verdict;  // absent: nothing failed, or nothing could be read
};
struct StoreSpace {  // posted by the loop when it changes
  bool low = false;  // the store's disk is full but for its reserve
};
// Posted by the loop: what was decided for the job made one of its rows larger than the store
// takes. It was taken back, and would be decided again by the next event.
struct Unstorable {
  JobId job;
  std::string why;
};
struct Tick {};  // deadlines are looked at; posted by the loop when the earliest is due

}  // namespace event

using Event =
    std::variant<event::Submit, event::PlanQuery, event::Cancel, event::Change, event::ListJobs,
                 event::GetJob, event::ListNodes, event::Drain, event::ForgetNode, event::NoteProbe,
                 event::FenceNode, event::Quarantine, event::OpenExec, event::CreateToken,
                 event::RevokeMember, event::ListTokens, event::UseToken, event::Renew,
                 event::NodeAttached, event::NodeSaid, event::NodeBeat, event::NodeHeard,
                 event::NodeDetached, event::Denied, event::SecretUnreadable, event::Planned,
                 event::Diagnosed, event::Tick, event::StoreSpace, event::Unstorable>;

}  // namespace launch::controller
