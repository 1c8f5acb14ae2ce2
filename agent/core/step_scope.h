// One step in progress: the state it changes and the orders it has given so far. Private to core/.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/core/agent_core.h"

namespace launch::agent {

class StepScope {
 public:
  StepScope(AgentState& state, BootTime now) : state_(state), now_(now) {}

  // agent_core.cc: the link, the clock and what the probes say.
  void On(const told::LinkUp& event);
  void On(const told::LinkDown& event);
  void On(const told::FromController& event);
  void On(const told::Inventory& event);
  void On(const told::Sampled& event);
  void On(const told::NodeNotice& event);
  void On(const told::Tick& event);

  // allocation_answers.cc: what the runner answers.
  void On(const told::AcceptDone& event);
  void On(const told::StageDone& event);
  void On(const told::StageProgress& event);
  void On(const told::StartDone& event);
  void On(const told::RankEnded& event);
  void On(const told::StopDone& event);
  void On(const told::StacksCollected& event);

  // allocation_requests.cc: what the controller asks for an allocation.
  void On(const to_node::Prepare& message);
  void On(const to_node::Stage& message);
  void On(const to_node::Go& message);
  void On(const to_node::Stop& message);
  void On(const to_node::ExitAck& message);
  void On(const to_node::Forget& message);
  void On(const to_node::Retest& message);
  void On(const to_node::CollectStacks& message);
  void On(const to_node::OpenExec& message);

  // agent_core.cc
  void On(const to_node::Welcome& message);
  void On(const to_node::Pong& message);
  void ExtendLeases();  // lease.cc
  void EndOverdueLeases();

  // agent_core.cc: what Act tells when the disk refused a fence.
  void OnLeaderUnsaved(const std::string& why);
  void OnRevisionUnsaved(const std::string& why);

  // Shared steps. Each is a no-op where the table of agent_core.h says so.
  void BeginStop(const Key& key, Allocation& allocation, StopCause cause, Millis grace);
  void EndRank(const Key& key, Allocation& allocation, const ExitReport& report);
  void StopWhenAllEnded(const Key& key, Allocation& allocation);
  // Asks where the logs of an allocation end that an earlier agent released: the runner's answer to
  // a repeated stop says so.
  void AskLogEnds(const Key& key) { Give(order::StopAllocation{.key = key}); }
  void DropUnstarted(const Key& key, Allocation& allocation, std::string why);

  std::vector<Order> TakeOrders() { return std::move(orders_); }

 private:
  void Give(Order order) { orders_.push_back(std::move(order)); }
  void Send(FromNode message);  // dropped without a welcomed link: Hello tells everything anew
  void SayHello();
  void TellInventory();
  void ResendUnacked();
  void SendReleased(const Key& key, const Allocation& allocation);
  void SendStarted(const Key& key, const Allocation& allocation);
  void SendAccepted(const Key& key, const Allocation& allocation);
  struct Refusal {
    std::string stage;
    std::string code;
    std::string why;
    std::vector<GpuUuid> gpus = {};  // that it is about
  };
  void Refuse(const Key& key, const std::string& digest, Refusal refusal);
  std::optional<Refusal> WhyNotPrepare(const to_node::Prepare& message) const;
  std::optional<Refusal> WhyNotGpu(const AllocationSpec& spec, std::size_t position) const;
  std::optional<Refusal> WhyNotGpus(const AllocationSpec& spec) const;
  std::optional<std::string> HolderOf(const GpuUuid& gpu, const Key& asking) const;
  void NoteAnswered(BootTime sent);
  std::optional<Attempt> HighestAttempt(JobId job) const;
  void RaiseFloor(const Key& key);
  void DoForget(const Key& key);
  void ForgetWhenDone(const Key& key);
  void EndWithoutRecord(const Key& key, Allocation& allocation);
  bool ObeyFence(const told::FromController& event);
  void NoteRevision(const ToNodeEnvelope& envelope);

  AgentState& state_;
  const BootTime now_;
  std::vector<Order> orders_;
};

// Whether the node still holds GPUs for an allocation in this phase: nobody has proved them free.
bool HoldsGpus(Phase phase);
bool AllEnded(const Allocation& allocation);
// When the shims begin to end the ranks, so that these have their grace before the end of the
// lease.
BootTime LeaseTermAt(const Allocation& allocation);
// When the agent ends the ranks itself, because their shims should have by then; absent: never.
std::optional<BootTime> LeaseKillAt(const Allocation& allocation);
ExitReport MakeReport(const AgentState& state, const Key& key, Rank rank, ExitCause cause,
                      BootTime now);

}  // namespace launch::agent
