#include "controller/core/ownership.h"

#include <algorithm>

namespace launch::controller {
namespace {

constexpr bool kMay = true;
constexpr bool kMayNot = false;

const OwnershipRow& RowOf(JobAct act) {
  return *std::ranges::find(OwnershipTable(), act, &OwnershipRow::act);
}

}  // namespace

const std::array<OwnershipRow, 8>& OwnershipTable() {
  static constexpr std::array<OwnershipRow, 8> kTable = {{
      // act                 name                 owner  operator  other
      {JobAct::kSeeInFull, "see", kMay, kMay, kMayNot},
      {JobAct::kCancel, "cancel", kMay, kMay, kMayNot},
      {JobAct::kHold, "hold", kMay, kMay, kMayNot},
      {JobAct::kRelease, "release", kMay, kMay, kMayNot},
      {JobAct::kRequeue, "requeue", kMay, kMay, kMayNot},
      {JobAct::kUpdate, "update", kMay, kMay, kMayNot},
      {JobAct::kExec, "run commands in", kMay, kMay, kMayNot},
      {JobAct::kNoteProbe, "note a measurement of", kMay, kMayNot, kMayNot},
  }};
  return kTable;
}

bool MayDo(JobAct act, const Caller& caller, const UserName& owner) {
  const OwnershipRow& row = RowOf(act);
  if (caller.user == owner) return row.owner;
  return caller.is_operator ? row.operator_ : row.other;
}

std::string_view NameOf(JobAct act) { return RowOf(act).name; }

}  // namespace launch::controller
