// Leases of jobs with requeue_after: without word of the controller the ranks end, so that it may
// start them elsewhere. The time counts from when we sent what it answered, never from when its
// answer came: the controller counts from when it heard us, which is later.
#include <algorithm>

#include "agent/core/step_scope.h"
#include "common/planted.h"

namespace launch::agent {
namespace {

// A shim ends its rank at the end of the lease; one that was stopped (SIGSTOP, a debugger) does
// not. We wait a moment longer than it needs, much less than the controller's margin (leases.cc).
constexpr Millis kShimsMoment{2'000};

}  // namespace

std::optional<BootTime> LeaseKillAt(const Allocation& allocation) {
  if (!allocation.lease_end || Planted(Bug::kLeaseOfShim)) return std::nullopt;
  const bool runs = allocation.phase == Phase::kStarting || allocation.phase == Phase::kStarted ||
                    (allocation.phase == Phase::kStopping && allocation.stop_grace > Millis{0});
  if (!runs || !allocation.spec || !allocation.spec->lease) return std::nullopt;
  // Of one that could not be read we know that it ends before this.
  const BootTime end = allocation.lease_unread ? allocation.accepted_at + *allocation.spec->lease
                                               : *allocation.lease_end;
  return end + kShimsMoment;
}

void StepScope::EndOverdueLeases() {
  for (auto& [key, allocation] : state_.allocations) {
    const std::optional<BootTime> at = LeaseKillAt(allocation);
    if (at && now_ >= *at) BeginStop(key, allocation, StopCause::kLease, Millis{0});
  }
}

BootTime LeaseTermAt(const Allocation& allocation) {
  const Millis grace = allocation.spec ? allocation.spec->stop.grace : Millis{0};
  return *allocation.lease_end - grace;
}

void StepScope::NoteAnswered(BootTime sent) {
  if (state_.answered && sent <= *state_.answered) return;
  state_.answered = sent;
  ExtendLeases();
}

// What is over stays over: its ranks were told to end, and the controller may count on that.
void StepScope::ExtendLeases() {
  for (auto& [key, allocation] : state_.allocations) {
    if (!allocation.lease_end || !allocation.spec || !allocation.spec->lease) continue;
    const bool runs = allocation.phase == Phase::kStarting || allocation.phase == Phase::kStarted ||
                      allocation.phase == Phase::kStopping;
    if (!runs || now_ >= LeaseTermAt(allocation)) continue;
    const BootTime end = *state_.answered + *allocation.spec->lease;
    if (end <= *allocation.lease_end) continue;
    allocation.lease_end = end;
    Give(order::ExtendLease{.key = key, .end = end});
  }
}

}  // namespace launch::agent
