// Whose jobs a caller may do what with: the one table of acts, held by services and core alike.
// Which RPC a role may call at all stands in controller/access.cc.
#pragma once

#include <array>
#include <string_view>

#include "controller/core/event.h"

namespace launch::controller {

enum class JobAct {
  kSeeInFull,  // spec, environment, output, events
  kCancel,
  kHold,
  kRelease,
  kRequeue,
  kUpdate,
  kExec,       // of an operator only where `operator_exec` allows it, too
  kNoteProbe,  // what a run measured
};

struct OwnershipRow {
  JobAct act;
  std::string_view name;
  bool owner = false;
  bool operator_ = false;  // of a job of somebody else
  bool other = false;      // any other user
};

const std::array<OwnershipRow, 8>& OwnershipTable();

bool MayDo(JobAct act, const Caller& caller, const UserName& owner);
std::string_view NameOf(JobAct act);

}  // namespace launch::controller
