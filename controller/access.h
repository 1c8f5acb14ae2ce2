// Who may call what: the one table of methods and roles, and the rules about other people's jobs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/pki.h"
#include "common/view.h"
#include "controller/core/event.h"

namespace launch::controller {

enum class Role { kJoin, kNode, kUser, kOperator };
std::string_view ToString(Role role);

struct AccessRow {
  std::string_view method;  // "/launch.v1.Launch/Submit", as gRPC names it
  bool join = false;
  bool node = false;
  bool user = false;
  bool operator_ = false;
};

// Every RPC of every service, ordered by name (tests/unit/controller/access_test.cc walks the
// service descriptors).
const std::vector<AccessRow>& AccessTable();

// Checks that the caller may call the method. kPermissionDenied says who the caller is and which
// role is missing; an unlisted method is denied.
Result<void> CheckAccess(std::string_view method, Role role, const Identity& who);

// Status in full, logs and cancel: the owner, or an operator.
bool MaySeeInFull(const Caller& caller, const UserName& owner);

// The denial of MaySeeInFull: the same for a job of somebody else and for none at all.
Error NotYourJob(const Caller& caller, JobId job);

// What `caller` may see of a job in lists: of another's job no argv, environment or path.
JobView ForCaller(JobView view, const Caller& caller);

}  // namespace launch::controller
