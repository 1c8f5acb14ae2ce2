#include "common/view.h"

#include "common/units.h"

namespace launch {
namespace {

struct StateRow {
  JobState state;
  std::string_view name;
  std::string_view code;
  bool terminal;
};
constexpr StateRow kStates[] = {
    {JobState::kPending, "PENDING", "PD", false},
    {JobState::kStarting, "STARTING", "CF", false},
    {JobState::kRunning, "RUNNING", "R", false},
    {JobState::kUnreachable, "UNREACHABLE", "UN", false},
    {JobState::kStopping, "STOPPING", "CG", false},
    {JobState::kRequeued, "REQUEUED", "RQ", false},
    {JobState::kSucceeded, "SUCCEEDED", "CD", true},
    {JobState::kFailed, "FAILED", "F", true},
    {JobState::kCancelled, "CANCELLED", "CA", true},
    {JobState::kTimeout, "TIMEOUT", "TO", true},
    {JobState::kOutOfMemory, "OUT_OF_MEMORY", "OOM", true},
    {JobState::kNodeFail, "NODE_FAIL", "NF", true},
    {JobState::kPreempted, "PREEMPTED", "PR", true},
    {JobState::kSuspended, "SUSPENDED", "S", false},
};

const StateRow& RowOf(JobState v) {
  for (const StateRow& row : kStates) {
    if (row.state == v) return row;
  }
  return kStates[0];
}

}  // namespace

std::string_view ToString(JobState v) { return RowOf(v).name; }
std::string_view StateCode(JobState v) { return RowOf(v).code; }
bool IsTerminal(JobState v) { return RowOf(v).terminal; }

WaitReason WaitForBegin(WallTime begin, WallTime now) {
  return {"BeginTime",
          "begins at " + FormatLocalIso(begin) + ", in " + FormatDurationShort(begin - now)};
}

}  // namespace launch
