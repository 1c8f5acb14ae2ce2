// RankRunner on Linux: shims, cgroups, locks, ports and log files of this node.
#pragma once

#include <memory>
#include <thread>

#include "agent/runner/cgroup.h"
#include "agent/runner/rank_runner.h"
#include "agent/runner/runner_options.h"

namespace launch::agent {

// One thread of its own; orders only post to it. Destroying the runner leaves ranks running, as the
// agent's death does: the next runner on the same state directory adopts them.
class PosixRunner final : public RankRunner {
 public:
  explicit PosixRunner(RunnerOptions options);
  ~PosixRunner() override;

  // CONFLICT when another agent owns the state directory.
  Result<RunnerState> Recover() override;
  void Accept(const order::Accept& order) override;
  void Stage(const order::StageAllocation& order) override;
  void Start(const order::Start& order) override;
  void ExtendLease(const order::ExtendLease& order) override;
  void Stop(const order::StopAllocation& order) override;
  void Drop(const order::Drop& order) override;
  void NoteAcked(const order::NoteAcked& order) override;
  void Forget(const order::Forget& order) override;
  void CollectStacks(const order::CollectStacks& order) override;
  Result<void> SaveFence(const Fence& fence) override;

  const CgroupHost& cgroups() const;
  Containment containment() const;
  std::string containment_why() const;  // why not the level above; may be empty

 private:
  std::unique_ptr<class RunnerLoop> loop_;
  std::thread thread_;
};

}  // namespace launch::agent
