// Carries out the agent core's orders about allocations on this node.
#pragma once

#include <functional>
#include <string>

#include "agent/core/seams.h"
#include "common/error.h"

namespace launch::agent {

// Orders return at once; answers arrive as Told events through the sink given at construction,
// from any thread. Every order is idempotent on its key. Implementations: PosixRunner (shims,
// cgroups, locks), FakeRunner (tests), SimRunner (simulator).
class RankRunner {
 public:
  virtual ~RankRunner() = default;
  // Reads the state directory; called once, before any order. Re-adopts what lives.
  virtual Result<RunnerState> Recover() = 0;
  virtual void Accept(const order::Accept& order) = 0;
  virtual void Stage(const order::StageAllocation& order) = 0;
  virtual void Start(const order::Start& order) = 0;
  virtual void ExtendLease(const order::ExtendLease& order) = 0;
  virtual void Stop(const order::StopAllocation& order) = 0;
  virtual void Drop(const order::Drop& order) = 0;
  virtual void NoteAcked(const order::NoteAcked& order) = 0;
  virtual void Forget(const order::Forget& order) = 0;
  virtual void CollectStacks(const order::CollectStacks& order) = 0;
  virtual Result<void> SaveFence(const Fence& fence) = 0;
};

using ToldSink = std::function<void(Told)>;

}  // namespace launch::agent
