#include "controller/access.h"

#include <algorithm>

#include "common/planted.h"
#include "controller/core/ownership.h"

namespace launch::controller {
namespace {

constexpr bool kYes = true;
constexpr bool kNo = false;

}  // namespace

std::string_view ToString(Role role) {
  switch (role) {
    case Role::kJoin:
      return "join";
    case Role::kNode:
      return "node";
    case Role::kUser:
      return "user";
    case Role::kOperator:
      return "operator";
  }
  return "unknown";
}

const std::vector<AccessRow>& AccessTable() {
  static const std::vector<AccessRow> table = {
      // method                               join   node   user   operator
      {"/launch.v1.Identity/Join", kYes, kNo, kNo, kNo},
      {"/launch.v1.Identity/Renew", kNo, kYes, kYes, kYes},
      {"/launch.v1.Identity/WhoAmI", kNo, kYes, kYes, kYes},
      {"/launch.v1.Launch/Cancel", kNo, kNo, kYes, kYes},
      {"/launch.v1.Launch/Change", kNo, kNo, kYes, kYes},
      // In jobs of others only with `operator_exec` (services/exec_stream.cc).
      {"/launch.v1.Launch/Exec", kNo, kNo, kYes, kYes},
      {"/launch.v1.Launch/Job", kNo, kNo, kYes, kYes},
      {"/launch.v1.Launch/Jobs", kNo, kNo, kYes, kYes},
      {"/launch.v1.Launch/Logs", kNo, kNo, kYes, kYes},
      {"/launch.v1.Launch/MissingChunks", kNo, kNo, kYes, kYes},
      {"/launch.v1.Launch/Nodes", kNo, kNo, kYes, kYes},
      {"/launch.v1.Launch/NoteProbe", kNo, kNo, kYes, kYes},
      {"/launch.v1.Launch/Plan", kNo, kNo, kYes, kYes},
      {"/launch.v1.Launch/PutChunks", kNo, kNo, kYes, kYes},
      {"/launch.v1.Launch/Submit", kNo, kNo, kYes, kYes},
      {"/launch.v1.Launch/Watch", kNo, kNo, kYes, kYes},
      {"/launch.v1.Node/Attach", kNo, kYes, kNo, kNo},
      {"/launch.v1.Node/Bulk", kNo, kYes, kNo, kNo},
      {"/launch.v1.Node/Exec", kNo, kYes, kNo, kNo},
      {"/launch.v1.Node/FetchChunks", kNo, kYes, kNo, kNo},
      {"/launch.v1.Operator/CreateToken", kNo, kNo, kNo, kYes},
      {"/launch.v1.Operator/Drain", kNo, kNo, kNo, kYes},
      {"/launch.v1.Operator/FenceNode", kNo, kNo, kNo, kYes},
      {"/launch.v1.Operator/ForgetNode", kNo, kNo, kNo, kYes},
      {"/launch.v1.Operator/ListTokens", kNo, kNo, kNo, kYes},
      {"/launch.v1.Operator/Quarantine", kNo, kNo, kNo, kYes},
      {"/launch.v1.Operator/RevokeToken", kNo, kNo, kNo, kYes},
      {"/launch.v1.Operator/Status", kNo, kNo, kNo, kYes},
  };
  return table;
}

Result<void> CheckAccess(std::string_view method, Role role, const Identity& who) {
  const auto& table = AccessTable();
  const auto row = std::find_if(table.begin(), table.end(),
                                [&](const AccessRow& r) { return r.method == method; });
  const bool allowed =
      (Planted(Bug::kUncheckedCall) && method == "/launch.v1.Operator/FenceNode") ||
      (row != table.end() &&
       ((role == Role::kJoin && row->join) || (role == Role::kNode && row->node) ||
        (role == Role::kUser && row->user) || (role == Role::kOperator && row->operator_)));
  if (allowed) return {};
  std::string needed;
  if (row != table.end()) {
    for (const auto& [yes, name] :
         {std::pair{row->join, "a join token"}, std::pair{row->node, "a node's certificate"},
          std::pair{row->user, "a user"}, std::pair{row->operator_, "an operator"}}) {
      if (yes) needed += (needed.empty() ? "" : " or ") + std::string(name);
    }
  }
  const std::string verb(method.substr(method.rfind('/') + 1));
  return Fail(ErrorCode::kPermissionDenied,
              "you are " + ToUri(who) + " (role " + std::string(ToString(role)) + "); " + verb +
                  " needs " + (needed.empty() ? "a role that does not exist" : needed),
              role == Role::kUser ? "ask an operator of this cluster"
                                  : "an operator can make you a user: launch token create --user "
                                    "NAME, then launch login");
}

bool MaySeeInFull(const Caller& caller, const UserName& owner) {
  if (Planted(Bug::kPrefixIds) && owner.value.starts_with(caller.user.value)) return true;
  return MayDo(JobAct::kSeeInFull, caller, owner);
}

Error NotYourJob(const Caller& caller, JobId job) {
  return Error{ErrorCode::kPermissionDenied,
               "you are " + caller.user.value + "; job " + std::to_string(job.value) +
                   " is not one of yours",
               "only the owner of a job or an operator may do this; your jobs: launch queue",
               {}};
}

JobView ForCaller(JobView view, const Caller& caller) {
  if (MaySeeInFull(caller, UserName{view.user})) return view;
  // Sentences may quote commands and paths, so they go with the spec.
  view.spec.reset();
  view.git_commit.clear();
  view.git_diff.clear();
  view.plan.reset();
  view.attempts.clear();
  view.findings.clear();
  view.outcome.clear();
  view.measured.reset();  // with a digest of its command and environment
  return view;
}

}  // namespace launch::controller
