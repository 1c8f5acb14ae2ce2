#include "agent/runner/posix_runner.h"

#include <utility>

#include "agent/runner/runner_loop.h"

namespace launch::agent {

PosixRunner::PosixRunner(RunnerOptions options)
    : loop_(std::make_unique<RunnerLoop>(std::move(options))) {}

PosixRunner::~PosixRunner() {
  if (!thread_.joinable()) return;
  loop_->Post(Quit{});
  thread_.join();
}

Result<RunnerState> PosixRunner::Recover() {
  LAUNCH_ASSIGN_OR_RETURN(RunnerState state, loop_->Recover());
  thread_ = std::thread([this] { loop_->Run(); });
  return state;
}

void PosixRunner::Accept(const order::Accept& order) { loop_->Post(order); }
void PosixRunner::Stage(const order::StageAllocation& order) { loop_->Post(order); }
void PosixRunner::Start(const order::Start& order) { loop_->Post(order); }
void PosixRunner::ExtendLease(const order::ExtendLease& order) { loop_->Post(order); }
void PosixRunner::Stop(const order::StopAllocation& order) { loop_->Post(order); }
void PosixRunner::Drop(const order::Drop& order) { loop_->Post(order); }
void PosixRunner::NoteAcked(const order::NoteAcked& order) { loop_->Post(order); }
void PosixRunner::Forget(const order::Forget& order) { loop_->Post(order); }
void PosixRunner::CollectStacks(const order::CollectStacks& order) { loop_->Post(order); }

Result<void> PosixRunner::SaveFence(const Fence& fence) { return loop_->SaveFence(fence); }

const CgroupHost& PosixRunner::cgroups() const { return loop_->cgroups(); }
Containment PosixRunner::containment() const { return loop_->cgroups().level; }
std::string PosixRunner::containment_why() const { return loop_->cgroups().why; }

}  // namespace launch::agent
