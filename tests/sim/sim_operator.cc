// What people ask of the cluster while it runs: the owners of jobs and its operator.
#include <algorithm>

#include "controller/core/unknown_attempts.h"
#include "tests/sim/sim_cluster.h"

namespace launch::sim {

using controller::Caller;
using controller::RequestId;

namespace {

constexpr std::int64_t kAskAgain = 2'500;
constexpr std::int64_t kAsked = 3 * kAskAgain;
constexpr WallTime kNeverExpires{Millis{4'000'000'000'000}};

Caller Operator() { return {UserName{"op"}, true}; }

bool IsRefused(const Result<controller::ReplyBody>& body) {
  if (!body) return true;
  const auto* changed = std::get_if<controller::reply::Changed>(&*body);
  return changed != nullptr && changed->results.front().error.has_value();
}

}  // namespace

void SimCluster::AskLater(std::int64_t delay_ms, Ask ask) {
  world_.At(delay_ms, [this, kept = std::make_shared<const Ask>(std::move(ask))] { TryAsk(kept); });
}

void SimCluster::TryAsk(std::shared_ptr<const Ask> ask) {
  if (healed_) return;
  const RequestId request{next_request_++};
  std::optional<controller::Event> event;
  if (controller_.up()) event = ask->make(request);
  if (!event) {
    if (world_.now < ask->until) world_.At(kAskAgain, [this, ask] { TryAsk(ask); });
    return;
  }
  requests_[request.value] = {std::nullopt, std::nullopt, ask};
  controller_.Post(std::move(*event));
}

void SimCluster::AnsweredAsk(const std::shared_ptr<const Ask>& ask,
                             const Result<controller::ReplyBody>& body) {
  const bool refused = IsRefused(body);
  ++world_.coverage.acts[ask->name + (refused ? " refused" : "")];
  if (!refused) world_.ReleaseAnswered();
  world_.release_asked.clear();
  world_.Trace(ask->name + (refused ? " refused" : " done"));
  if (!refused) {
    ask->then();
  } else if (world_.now < ask->until) {
    world_.At(kAskAgain, [this, ask] { TryAsk(ask); });
  }
}

void SimCluster::ChangeJob(const std::string& key, JobAction action, bool hold,
                           std::int64_t until) {
  static constexpr const char* kNames[] = {"hold", "release", "requeue"};
  const auto make = [this, key, action, hold](RequestId request) {
    std::optional<controller::Event> event;
    const auto job = world_.submitted.find(key);
    if (job == world_.submitted.end()) return event;
    if (action == JobAction::kRequeue) {
      world_.requeue_asked.insert(job->second);
      world_.end_asked[job->second] = world_.now;
    }
    controller::event::Change change{
        request, {UserName{"ana"}, false}, {job->second}, {.action = action, .hold = hold}};
    event = std::move(change);
    return event;
  };
  const std::string name = kNames[static_cast<std::size_t>(action)];
  AskLater(0, {name + (hold ? " and hold" : ""), make, until});
}

void SimCluster::ChangeDrain(const std::string& node, bool undrain) {
  const auto make = [node, undrain](RequestId request) -> std::optional<controller::Event> {
    return controller::event::Drain{request, Operator(), NodeId{node}, undrain, "repair"};
  };
  AskLater(0, {undrain ? "undrain" : "drain", make, world_.now + kAsked});
}

void SimCluster::FenceSilent(const std::string& node, std::int64_t until,
                             std::function<void()> then) {
  const auto make = [this, node](RequestId request) -> std::optional<controller::Event> {
    world_.fence_asked[NodeId{node}] = world_.now;
    return controller::event::FenceNode{request, Operator(), NodeId{node}};
  };
  AskLater(0, {"fence", make, until, std::move(then)});
}

void SimCluster::ForgetAway(const std::string& node, std::int64_t until) {
  const auto make = [node](RequestId request) -> std::optional<controller::Event> {
    return controller::event::ForgetNode{request, Operator(), NodeId{node}};
  };
  AskLater(0, {"forget node", make, until});
}

void SimCluster::ReleaseQuarantine(const std::string& node, bool retest, std::int64_t until) {
  const auto make = [this, node, retest](RequestId request) {
    std::optional<controller::Event> event;
    std::set<GpuUuid> gpus;
    for (const auto& [gpu, record] : controller_.state().quarantine) {
      if (record.node.value != node) continue;
      gpus.insert(gpu);
      if (!retest) world_.release_told.insert(record.key);
    }
    if (gpus.empty()) return event;
    const auto live = controller_.state().live.nodes.find(NodeId{node});
    if (!retest && live != controller_.state().live.nodes.end()) {
      for (const auto& [key, since] : live->second.strangers) world_.release_told.insert(key);
    }
    if (!retest) world_.release_asked = gpus;
    const auto action =
        retest ? controller::QuarantineAction::kRetest : controller::QuarantineAction::kRelease;
    event = controller::event::Quarantine{request, Operator(), action, node};
    return event;
  };
  AskLater(0, {retest ? "retest" : "release quarantine", make, until});
}

void SimCluster::LoseStore(const Fault& fault, const std::shared_ptr<const Backup>& backup) {
  if (healed_) return;
  // Unnoticed, only a node that saw what is lost can tell. One that did not would begin what others
  // run already, before they are back: there is no remedy against that.
  const bool all_saw = std::ranges::all_of(
      nodes_, [&](const auto& node) { return node.second->seen().revision > backup->revision; });
  // Starts are numbered by the wall clock: one that is behind gives a number twice, to two
  // histories.
  const bool behind = world_.wall_offset < 0;
  if (fault.kind == FaultKind::kPutBack && (!all_saw || behind)) {
    world_.At(1'000, [this, fault, backup] { LoseStore(fault, backup); });
    return;
  }
  cancel_committed_.clear();
  const std::int64_t down = 1'000 + fault.lasts / 10;
  if (fault.kind == FaultKind::kRestore) {
    controller_.Restore(*backup);
    ++world_.coverage.acts["restore"];
    world_.At(down, [this] { controller_.Start(); });
    if (fault.amount != 0) world_.At(down + 500, [this] { ReleaseRestored(); });
    return;
  }
  const auto newest = std::make_shared<const Backup>(controller_.CopyStore());
  controller_.PutBack(*backup, false);
  world_.At(down, [this] { controller_.Start(); });
  const bool goes_on = static_cast<Regress>(fault.amount) == Regress::kGoesOn;
  regress_ = {goes_on, newest};
  world_.At(down + fault.lasts / 2, [this, newest] { EndRegress(newest); });
}

// The way out that its nodes are refused with: the newest store, or on with this one.
void SimCluster::EndRegress(const std::shared_ptr<const Backup>& newest) {
  if (regress_.newest != newest) return;
  regress_.newest.reset();
  cancel_committed_.clear();
  ++world_.coverage.acts[regress_.goes_on ? "on with an old store" : "newest store put back"];
  if (regress_.goes_on) {
    controller_.PutBack(controller_.CopyStore(), true);
  } else {
    controller_.PutBack(*newest, false);
  }
  world_.At(500, [this] { controller_.Start(); });
  world_.At(10'000, [this] { GoOnIfRefused(); });
}

// Of two histories the nodes have seen the other one: what their refusal says is done.
void SimCluster::GoOnIfRefused() {
  world_.At(10'000, [this] { GoOnIfRefused(); });
  if (!controller_.up()) return;
  const auto& live = controller_.state().live.nodes;
  const bool refused = std::ranges::any_of(
      live, [](const auto& node) { return node.second.regress_said && !node.second.session; });
  if (!refused) return;
  ++world_.coverage.acts["on with a store that nodes refused"];
  cancel_committed_.clear();
  controller_.PutBack(controller_.CopyStore(), true);
  controller_.Start();
}

void SimCluster::ReleaseRestored() {
  if (healed_) return;
  world_.At(4'000, [this] { ReleaseRestored(); });
  if (!controller_.up()) return;
  const controller::State& state = controller_.state();
  // Of every machine there is: one that joined since the backup is not known to the store yet.
  const bool all_heard = std::ranges::all_of(nodes_, [&](const auto& node) {
    const NodeId id{node.first};
    return state.nodes.contains(id) && controller::WasHeard(state, id);
  });
  if (!all_heard) return;
  for (const auto& [id, job] : state.jobs) {
    if (!job.held || job.held_by != "restore") continue;
    ++world_.coverage.acts["release after a restore"];
    controller_.Post(controller::event::Change{
        RequestId{next_request_++}, Operator(), {id}, {.action = JobAction::kRelease}});
  }
}

void SimCluster::Rejoin(const std::string& node) {
  ++world_.coverage.acts["join anew"];
  const std::string serial = "join " + std::to_string(next_request_);
  controller_.Post(controller::event::CreateToken{RequestId{next_request_++}, Operator(), "node",
                                                  node, serial, kNeverExpires});
  controller_.Post(controller::event::UseToken{RequestId{next_request_++}, serial, "node", node,
                                               "of " + serial, true});
}

// With the installation of its agent, as soon as the controller is there to be asked.
void SimCluster::RejoinLater(const std::string& node) {
  if (healed_) return;
  if (controller_.up()) return Rejoin(node);
  world_.At(kAskAgain, [this, node] { RejoinLater(node); });
}

void SimCluster::EndUnknown() {
  world_.At(20'000, [this] { EndUnknown(); });
  if (!controller_.up()) return;
  const controller::State& state = controller_.state();
  for (const auto& [node, record] : state.nodes) {
    const SimNode& host = *nodes_.at(node.value);
    // Installed anew, or a copy said it first after it was removed.
    if (!record.machine.install_id.empty() && record.machine != host.machine()) Rejoin(node.value);
  }
  for (const auto& [key, attempt] : state.live.attempts) {
    const bool unseen = std::ranges::any_of(
        attempt.unrecorded, [](const auto& one) { return one.second.since.has_value(); });
    if (!unseen) continue;
    world_.end_asked[key.job] = world_.now;
    controller_.Post(controller::event::Cancel{RequestId{next_request_++}, Operator(), {key.job}});
  }
  for (const auto& [name, node] : nodes_) {
    node->EndHidden();
    if (!world_.reinstalled.contains(NodeId{name})) continue;
    bool holds = false;
    for (const auto& [gpu, record] : state.quarantine) {
      if (record.node.value != name) continue;
      world_.release_told.insert(record.key);
      world_.release_asked.insert(gpu);
      holds = true;  // asked again each time: it is refused while the agent does not answer
    }
    if (!holds) continue;
    controller_.Post(controller::event::Quarantine{RequestId{next_request_++}, Operator(),
                                                   controller::QuarantineAction::kRelease, name});
  }
  std::set<Key> unknown;
  for (const auto& [gpu, record] : state.quarantine) {
    if (record.key.job.value > 0 && controller::IsUnknownHere(state, record.key)) {
      unknown.insert(record.key);
    }
  }
  for (const auto& [node, live] : state.live.nodes) {
    for (const auto& [key, since] : live.strangers) unknown.insert(key);
  }
  for (const Key& key : unknown) {
    ++world_.coverage.acts["end of an unknown attempt"];
    world_.release_told.insert(key);
    for (const auto& [gpu, record] : state.quarantine) {
      if (record.key == key) world_.release_asked.insert(gpu);
    }
    controller_.Post(controller::event::Quarantine{RequestId{next_request_++}, Operator(),
                                                   controller::QuarantineAction::kRelease,
                                                   ToString(key)});
  }
}

void SimCluster::CarryAct(const Fault& fault) {
  const std::string& name = fault.node;
  const std::int64_t until = world_.now + fault.lasts;
  const auto cut = [&] {
    network_.Cut(name, true, true);
    world_.At(fault.lasts, [this, name] { network_.Heal(name, true, true); });
  };
  switch (fault.kind) {
    case FaultKind::kRequeueJob:
      ChangeJob(fault.point, JobAction::kRequeue, fault.amount != 0, world_.now + kAsked);
      if (fault.amount == 0) return;
      world_.At(fault.lasts, [this, key = fault.point] {
        ChangeJob(key, JobAction::kRelease, false, world_.now + kAsked);
      });
      return;
    case FaultKind::kHoldJob:
      ChangeJob(fault.point, JobAction::kHold, false, until);
      world_.At(fault.lasts, [this, key = fault.point] {
        ChangeJob(key, JobAction::kRelease, false, world_.now + kAsked);
      });
      return;
    case FaultKind::kDrainNode:
      ChangeDrain(name, false);
      world_.At(fault.lasts, [this, name] { ChangeDrain(name, true); });
      return;
    case FaultKind::kFenceNode:
      if (fault.amount != 0) cut();
      return FenceSilent(name, until, [] {});
    case FaultKind::kQuarantine:
      return ReleaseQuarantine(name, fault.amount != 0, until);
    case FaultKind::kRestore:
    case FaultKind::kPutBack: {
      const auto backup = std::make_shared<const Backup>(controller_.CopyStore());
      world_.At(fault.lasts, [this, fault, backup] { LoseStore(fault, backup); });
      return;
    }
    case FaultKind::kForgetNode: {
      SimNode& node = *nodes_.at(name);
      const auto away = static_cast<Away>(fault.amount % 3);
      if (away == Away::kCutOff) {
        cut();
      } else {
        if (away == Away::kNoPower) {
          node.PowerCut();
        } else {
          node.KillAgent();
        }
        world_.At(fault.lasts + 2'000, [&node] { node.StartAgent(); });
      }
      if (fault.amount < 3) return ForgetAway(name, until);
      return FenceSilent(name, until, [this, name, until] { ForgetAway(name, until); });
    }
    default:
      return;
  }
}

}  // namespace launch::sim
