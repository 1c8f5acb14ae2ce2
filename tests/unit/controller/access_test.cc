#include "controller/access.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "proto/launch.pb.h"
#include "proto/node.pb.h"

namespace launch::controller {
namespace {

std::set<std::string> EveryMethod() {
  std::set<std::string> methods;
  for (const auto* file :
       {launch::v1::SubmitRequest::descriptor()->file(), launch::v1::Hello::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      const auto* service = file->service(s);
      for (int m = 0; m < service->method_count(); ++m) {
        methods.insert("/" + service->full_name() + "/" + service->method(m)->name());
      }
    }
  }
  return methods;
}

TEST(AccessTest, EveryRpcHasExactlyOneRow) {
  std::set<std::string> rows;
  for (const AccessRow& row : AccessTable()) {
    EXPECT_TRUE(rows.insert(std::string(row.method)).second) << row.method;
  }
  EXPECT_EQ(rows, EveryMethod());
}

TEST(AccessTest, EveryRowLetsSomebodyInAndAJoinTokenOnlyJoins) {
  for (const AccessRow& row : AccessTable()) {
    EXPECT_TRUE(row.join || row.node || row.user || row.operator_) << row.method;
    EXPECT_EQ(row.join, row.method == "/launch.v1.Identity/Join") << row.method;
    EXPECT_TRUE(!row.user || row.operator_) << row.method << ": operators may what users may";
  }
}

// Every cell: who may call what. j = join token, n = node, u = user, o = operator. Written out here
// a second time, so that a change of the table is a change of two files that somebody reads.
TEST(AccessTest, EveryCellIsAsWritten) {
  const std::map<std::string, std::string> cells = {
      {"/launch.v1.Identity/Join", "j"},
      {"/launch.v1.Identity/WhoAmI", "nuo"},
      {"/launch.v1.Identity/Renew", "nuo"},
      {"/launch.v1.Launch/Cancel", "uo"},
      {"/launch.v1.Launch/Change", "uo"},
      {"/launch.v1.Launch/Exec", "uo"},
      {"/launch.v1.Launch/MissingChunks", "uo"},
      {"/launch.v1.Launch/PutChunks", "uo"},
      {"/launch.v1.Node/Exec", "n"},
      {"/launch.v1.Node/FetchChunks", "n"},
      {"/launch.v1.Launch/Job", "uo"},
      {"/launch.v1.Launch/Jobs", "uo"},
      {"/launch.v1.Launch/Logs", "uo"},
      {"/launch.v1.Launch/Nodes", "uo"},
      {"/launch.v1.Launch/Plan", "uo"},
      {"/launch.v1.Launch/Submit", "uo"},
      {"/launch.v1.Launch/Watch", "uo"},
      {"/launch.v1.Launch/NoteProbe", "uo"},
      {"/launch.v1.Node/Attach", "n"},
      {"/launch.v1.Node/Bulk", "n"},
      {"/launch.v1.Operator/CreateToken", "o"},
      {"/launch.v1.Operator/Drain", "o"},
      {"/launch.v1.Operator/FenceNode", "o"},
      {"/launch.v1.Operator/ForgetNode", "o"},
      {"/launch.v1.Operator/ListTokens", "o"},
      {"/launch.v1.Operator/Quarantine", "o"},
      {"/launch.v1.Operator/RevokeToken", "o"},
      {"/launch.v1.Operator/Status", "o"},
  };
  const std::map<Role, std::pair<char, Identity>> roles = {
      {Role::kJoin, {'j', {"lab", "join", "gpu-01"}}},
      {Role::kNode, {'n', {"lab", "node", "gpu-01"}}},
      {Role::kUser, {'u', {"lab", "user", "ana"}}},
      {Role::kOperator, {'o', {"lab", "user", "op"}}}};
  for (const std::string& method : EveryMethod()) {
    const auto cell = cells.find(method);
    ASSERT_NE(cell, cells.end()) << method << ": write down who may call it";
    for (const auto& [role, who] : roles) {
      const bool may = cell->second.find(who.first) != std::string::npos;
      const auto checked = CheckAccess(method, role, who.second);
      EXPECT_EQ(checked.has_value(), may) << method << " by " << ToString(role);
      if (!may && !checked) {
        EXPECT_EQ(checked.error().code, ErrorCode::kPermissionDenied);
      }
    }
  }
}

TEST(AccessTest, ADenialSaysWhoYouAreAndWhatIsMissing) {
  const Identity ana{"lab", "user", "ana"};
  const auto denied = CheckAccess("/launch.v1.Operator/Drain", Role::kUser, ana);
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().code, ErrorCode::kPermissionDenied);
  EXPECT_NE(denied.error().message.find("user/ana"), std::string::npos);
  EXPECT_NE(denied.error().message.find("an operator"), std::string::npos);
  EXPECT_TRUE(CheckAccess("/launch.v1.Operator/Drain", Role::kOperator, ana));
}

TEST(AccessTest, AnUnknownMethodIsDeniedToEverybody) {
  for (const Role role : {Role::kJoin, Role::kNode, Role::kUser, Role::kOperator}) {
    EXPECT_FALSE(CheckAccess("/launch.v1.Launch/Reboot", role, {}));
    EXPECT_FALSE(CheckAccess("/launch.v1.Launch/Submi", role, {}));
  }
}

TEST(AccessTest, OthersSeeThatAJobIsThereButNotWhatItRuns) {
  JobView job;
  job.user = "bob";
  job.id = JobId{3};
  job.spec = JobSpec{};
  job.plan = Plan{};
  job.outcome = "rank 0: /home/bob/secret.py not found";
  job.attempts.resize(1);
  job.findings.resize(1);
  const JobView seen = ForCaller(job, {UserName{"ana"}, false});
  EXPECT_EQ(seen.id, JobId{3});
  EXPECT_FALSE(seen.spec || seen.plan);
  EXPECT_TRUE(seen.attempts.empty() && seen.findings.empty() && seen.outcome.empty());
  EXPECT_EQ(ForCaller(job, {UserName{"bob"}, false}), job);
  EXPECT_EQ(ForCaller(job, {UserName{"root"}, true}), job);
  EXPECT_FALSE(MaySeeInFull({UserName{"bo"}, false}, UserName{"bob"})) << "no prefixes";
}

}  // namespace
}  // namespace launch::controller
