// What the core wants done once its records are durable: answers, messages, plans.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/error.h"
#include "common/network_link.h"
#include "common/view.h"
#include "controller/core/event.h"
#include "controller/core/record.h"
#include "diagnosis/exit_evidence.h"

namespace launch::controller {

namespace reply {
struct Submitted {
  JobId job;                   // of an array: its number
  JobId first;                 // of an array: its first element, the others follow; otherwise `job`
  std::uint32_t elements = 0;  // of an array
  bool known = false;          // the idempotency key was seen before
  JobState state = JobState::kPending;
  PlanAnswer answer;
};
struct CancelResult {
  JobId job;
  bool already_done = false;
  std::optional<Error> error;
  std::vector<std::string> held;
};
struct Cancelled {
  std::vector<CancelResult> results;
};
struct ChangeResult {
  JobId job;
  std::optional<Error> error;
  std::string says;  // what follows from it, one sentence
};
struct Changed {
  std::vector<ChangeResult> results;
};
struct Jobs {
  std::vector<JobView> jobs;
};
struct Nodes {
  std::vector<NodeView> nodes;
};
struct Token {
  std::string serial;
};
struct Tokens {
  std::vector<std::pair<std::string, std::string>> rows;  // serial, sentence
};
struct Quarantined {
  std::vector<GpuRecord> gpus;  // as they were when it was asked
};
struct ExecOpened {  // the node was told, after this
  Key key;
  NodeId node;
};
struct Done {};
}  // namespace reply

using ReplyBody = std::variant<reply::Submitted, PlanAnswer, reply::Cancelled, reply::Changed,
                               reply::Jobs, JobView, reply::Nodes, reply::Token, reply::Tokens,
                               reply::Quarantined, reply::ExecOpened, reply::Done>;

namespace effect {

struct Reply {
  RequestId request;
  Result<ReplyBody> body;
  std::vector<Finding> findings = {};  // beside an error: what preflight found
};
struct Send {  // to the node's current session; dropped if that session is gone
  SessionId session;
  ToNode message;
};
struct CloseSession {
  SessionId session;
  std::string why;
};

// A node as the planner may use it. `free_gpus` are indices into inventory->gpus.
struct NodeOffer {
  std::shared_ptr<const NodeInventory> inventory;
  std::vector<int> free_gpus;
  std::vector<int> crowded_gpus;  // of them, those whose memory others use: taken last
  int free_cpus = 0;
  std::uint64_t free_memory_bytes = 0;
  bool schedulable = true;          // false: silent, drained, unhealthy; counts for never-fits only
  std::optional<UserName> account;  // takes this user's jobs only; absent: anybody's
  LinkTable links = {};             // to nodes whose names sort behind its own
};
// Ask a plan worker; its answer is event::Planned with the same ticket.
struct PlanWanted {
  std::uint64_t ticket = 0;
  RequestId request;  // whose answer it is for; 0: that of none
  UserName owner;     // as authenticated
  JobSpec spec;
  SubmitContext context;
  std::vector<NodeOffer> offers;
  PlanQuestions questions = {};
  bool host_memory_was_short = false;
  WallTime now{};
  // For a job's plan: what was measured of the network after this time does not change it.
  std::optional<WallTime> network_known_by;
  // Placed: plan exactly these nodes with these GPUs (indices), for this attempt.
  struct Placed {
    Key key;
    std::vector<NodeId> nodes;
    std::vector<std::vector<int>> gpus;
  };
  std::optional<Placed> placed;
};

// A job's view that is whole but for the plans of these attempts, which only the store has: read
// them, AddPlan each (controller/core/views.h), then reply. Changes nothing.
struct ReadPlans {
  struct Stored {
    Key attempt;
    std::uint32_t chunks = 0;
    std::string digest;
    friend bool operator==(const Stored&, const Stored&) = default;
  };
  RequestId request;
  JobView view;
  std::vector<Stored> plans;
};

// Read the logs of these ranks and judge why the attempt failed; the answer is event::Diagnosed.
struct DiagnosisWanted {
  Key key;
  std::vector<FailedRank> ranks;  // the one that is known to have failed first in front
  // What the verdict may not repeat, for others read it too: the job's secrets, sealed until the
  // switchboard opens them, and its variables, of which some hold more.
  std::vector<std::pair<std::string, std::string>> secrets;
  std::map<std::string, std::string> env;
};

}  // namespace effect

using Effect = std::variant<effect::Reply, effect::Send, effect::CloseSession, effect::PlanWanted,
                            effect::ReadPlans, effect::DiagnosisWanted>;

}  // namespace launch::controller
