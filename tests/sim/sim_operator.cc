// What people ask of the cluster while it runs: the owners of jobs and its operator.
#include <algorithm>

#include "tests/sim/sim_cluster.h"

namespace launch::sim {

using controller::Caller;
using controller::RequestId;

namespace {

constexpr std::int64_t kAskAgain = 2'500;
constexpr std::int64_t kAsked = 3 * kAskAgain;

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
    if (action == JobAction::kRequeue) world_.requeue_asked.insert(job->second);
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
  const auto make = [node](RequestId request) -> std::optional<controller::Event> {
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
