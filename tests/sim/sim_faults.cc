// How each fault of the schedule is done to the cluster, and how it ends.
#include <algorithm>

#include "tests/sim/sim_cluster.h"

namespace launch::sim {

void SimCluster::Carry(const Fault& fault) {
  switch (fault.kind) {
    case FaultKind::kKillController:
    case FaultKind::kPowerController:
      if (fault.kind == FaultKind::kPowerController) {
        controller_.PowerCut();
      } else {
        controller_.Kill();
      }
      world_.At(fault.lasts / 4, [this] { controller_.Start(); });
      return;
    case FaultKind::kPauseController:
      controller_.Pause();
      world_.At(fault.lasts / 4, [this] { controller_.Resume(); });
      return;
    case FaultKind::kControllerClock:
      controller_.JumpClock(fault.amount);
      return;
    case FaultKind::kStoreFull:
      controller_.disk().full = true;
      world_.At(fault.lasts / 4, [this] { controller_.disk().full = false; });
      return;
    case FaultKind::kCrashPoint:
      world_.Arm(fault);
      return;
    case FaultKind::kRequeueJob:
    case FaultKind::kHoldJob:
    case FaultKind::kDrainNode:
    case FaultKind::kFenceNode:
    case FaultKind::kForgetNode:
    case FaultKind::kQuarantine:
    case FaultKind::kRestore:
    case FaultKind::kPutBack:
      return CarryAct(fault);
    default:
      CarryToNode(fault);
  }
}

void SimCluster::CarryToNode(const Fault& fault) {
  const std::string& name = fault.node;
  SimNode& node = *nodes_.at(name);
  const auto until = [this, &fault](std::function<void()> heal) {
    world_.At(fault.lasts, std::move(heal));
  };
  const auto cut = [&](bool up, bool down) {
    network_.Cut(name, up, down);
    until([this, name, up, down] { network_.Heal(name, up, down); });
  };
  switch (fault.kind) {
    case FaultKind::kKillAgent:
      node.KillAgent();
      until([&node] { node.StartAgent(); });
      return;
    case FaultKind::kPauseAgent:
      node.PauseAgent();
      until([&node] { node.ResumeAgent(); });
      return;
    case FaultKind::kPowerNode:
      node.PowerCut();
      if (fault.amount != 0) {
        world_.At(fault.lasts / 2, [this, name, boot = node.boot_id()] { Fence(name, boot); });
      }
      world_.At(fault.lasts + 2'000, [&node] { node.StartAgent(); });
      return;
    case FaultKind::kReinstall:
      node.LoseState();
      world_.At(fault.lasts, [this, name, &node] {
        node.StartAgent();
        RejoinLater(name);
      });
      return;
    case FaultKind::kNodeDiskFull:
      node.SetDiskFull(true);
      until([&node] { node.SetDiskFull(false); });
      return;
    case FaultKind::kCut:
      return cut(true, true);
    case FaultKind::kCutUp:
      return cut(true, false);
    case FaultKind::kCutDown:
      return cut(false, true);
    case FaultKind::kSlow:
      network_.SetSlow(name, fault.amount);
      until([this, name] { network_.SetSlow(name, 0); });
      return;
    case FaultKind::kReset:
      network_.Reset(name);
      return;
    case FaultKind::kCloneNode:
      return SendClone(name, fault.amount != 0);
    case FaultKind::kKillShim:
      node.KillShim();
      return;
    case FaultKind::kPauseShim:
      node.PauseShim(fault.lasts);
      return;
    case FaultKind::kRepeat:
      network_.Repeat(name, static_cast<std::size_t>(fault.amount));
      return;
    default:
      return;
  }
}

// An operator who was called when the machine lost power. What he says may not be true any more: it
// may be up again, run something new, and only its agent be down.
void SimCluster::Fence(const std::string& node, const std::string& boot) {
  const SimNode& host = *nodes_.at(node);
  if (host.agent_up() || host.boot_id() != boot || !controller_.up()) return;
  ++world_.coverage.faults["fence"];
  world_.fence_asked[NodeId{node}] = world_.now;
  controller_.Post(controller::event::FenceNode{
      controller::RequestId{next_request_++}, {UserName{"op"}, true}, NodeId{node}});
}

// Another machine whose disk was copied: the same install id, other hardware, an empty state.
// Beside an agent that does not answer nobody can tell a copied state directory on the same machine
// from that agent started again.
bool SimCluster::Answers(const std::string& node) const {
  if (!controller_.up() || controller_.paused()) return false;
  const auto& nodes = controller_.state().live.nodes;
  const auto live = nodes.find(NodeId{node});
  if (live == nodes.end() || live->second.silent || !live->second.session) return false;
  const auto dial = dials_.find(node);
  if (dial == dials_.end() || !dial->second.open) return false;
  const auto session = sessions_.find(dial->second.stream);
  return session != sessions_.end() && session->second == *live->second.session;
}

void SimCluster::SendClone(const std::string& node, bool twin) {
  const std::optional<Network::Stream> stream = network_.Open(node);
  if (!stream) return;
  clones_.insert(*stream);
  from_node::Hello hello;
  hello.version = "clone";
  hello.machine = nodes_.at(node)->machine();
  hello.boot_id = nodes_.at(node)->boot_id();
  hello.instance = twin ? kTwin : "clone";
  if (!twin) {
    hello.machine.product_uuid = "another machine";
    hello.boot_id = "clone-boot-1";
  }
  hello.inventory = SimInventory(node);
  network_.SendUp(*stream, hello);
}

void SimCluster::Heal() {
  healed_ = true;
  world_.Trace("healed");
  controller_.disk().full = false;
  network_.HealAll();
  for (const Network::Stream stream : clones_) network_.CloseAgentEnd(stream);
  if (regress_.newest) EndRegress(std::shared_ptr<const Backup>(regress_.newest));
  world_.At(20'000, [this] { EndUnknown(); });
  controller_.Resume();
  controller_.Start();
  for (auto& [name, node] : nodes_) {
    node->SetDiskFull(false);
    node->ResumeAgent();
    node->StartAgent();
  }
  // What runs for ever is ended by its user now.
  for (const auto& [key, job] : world_.submitted) TryCancel(job);
}

}  // namespace launch::sim
