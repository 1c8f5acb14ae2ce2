// The controller's brain: one event in, records and effects out. No I/O, no clock, no thread.
//
// How to read this folder. Events only write down facts (decide_user.cc, decide_node.cc); what
// follows from the facts is drawn afterwards, again and again until nothing more follows
// (decide_start.cc and decide_attempt.cc for attempts, decide_retry.cc for their end,
// decide_queue.cc for the queue). What a node must be told is not remembered as a queue of
// messages: ask.cc derives from the stored phases what each node should be doing, and sends it once
// per session. Therefore a restart of either side needs no code of its own: the facts are there,
// the consequences are drawn again.
//
// What happens when an agent dies: its stream ends (NodeDetached), so the node is *silent*: nothing
// new is placed there, its jobs show UNREACHABLE, and nothing else happens: no kill, no release.
// When it is back it says Hello with what it found on disk and in the kernel (NodeAttached,
// reconcile.cc): running ranks are simply still running; exits that happened meanwhile are
// committed and acknowledged; an allocation that should have been stopped gets its Stop again; one
// that the agent lost ends with the cause `agent state lost`. If the boot id is new, the machine
// was rebooted: that, and only that, proves its ranks dead without an exit report.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "controller/core/effect.h"
#include "controller/core/event.h"
#include "controller/core/record.h"
#include "controller/core/state.h"

namespace launch::controller {

// Value of a touched key before the decision; absent = the key was not there.
struct Before {
  std::optional<Entity> old;
  Entity touched;
};

struct Decision {
  std::vector<Record> records;  // commit these first, in order, as one unit
  std::vector<Effect> effects;  // run these after the commit, in order; never before
  std::vector<Before> undo;
  // Live facts, before the decision, of attempts that it ended or that a person's word changed.
  std::map<Key, LiveAttempt> attempts;
  std::map<Key, std::set<NodeId>> forgotten;  // who said to run what the store does not know
  std::map<JobId, bool> cancelled;  // whose Live::cancelled it changed, and whether it was there
  // Attempts for which the GPUs that this decision frees might have been held.
  std::map<NodeId, std::map<GpuUuid, std::set<Key>>> freed;
  bool read = false;  // nothing is stored for it: its effects hold whatever becomes of a batch
};

// Whether the event is a user's question, which changes nothing and can be asked twice.
bool IsRead(const Event& event);

// Decides `event` and leaves `state` as the records make it, so that the next event of the same
// batch is decided on top. Deterministic: same state, event and now, same decision.
Decision Decide(State& state, const Event& event, const Now& now);

// The store refused the batch (full): takes the decisions back, newest first. The caller answers
// the requests of their Reply effects with the store's error (a read's by deciding it anew), still
// runs their PlanWanted effects (they change nothing), drops the others, and closes the sessions
// whose messages were in the batch, so that their agents say everything again. The next Decide of
// what is no read looks at everything once more.
void Undo(State& state, const Decision& decision);

// When a Tick is due at the latest. The loop empties its mailbox before it posts one.
std::optional<BootTime> NextDeadline(const State& state);

// Reads back PlanOutcome::stored; fails unless `digest` is that of the bytes.
using PlanDecoder =
    std::function<Result<StoredPlan>(std::string_view bytes, const std::string& digest)>;

// Called once, after Apply of every stored row: decodes the plans of live attempts, re-arms their
// deadlines, and opens a new epoch (`new_cluster_id` names a cluster that has no record yet).
// Commit the decision before serving. A live attempt whose plan cannot be read is named by an
// event: if it has not started it fails, if it has it runs on. `went_back`: the store may lack
// commits that others saw, so the cluster gets a new incarnation and numbers of jobs that were
// never used. `opened_at`: the revision it was opened with, which nodes are judged by later.
Result<Decision> Start(State& state, const PlanDecoder& decode, const std::string& new_cluster_id,
                       const Now& now, bool went_back = false,
                       std::optional<std::uint64_t> opened_at = {});

}  // namespace launch::controller
