// The environment of one rank from the parts that a plan, a start and this node give.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/account/local_account.h"
#include "common/launch.h"

namespace launch::agent {

// Paths only this node knows. A variable of the plan or of the late values that is named here and
// is empty gets the path; one that the plan does not name is not set.
struct NodePaths {
  std::string attempt;                  // the attempt's directory
  std::string own;                      // of the rank, where it may write
  std::optional<LocalAccount> account;  // whose HOME and the like are set; absent = as planned
};

// "NAME=value", sorted by name; later parts win: plan, late, secrets.
std::vector<std::string> BuildRankEnv(
    const std::vector<EnvVar>& plan, const std::vector<EnvVar>& late,
    const std::vector<std::pair<std::string, std::string>>& secrets, const NodePaths& paths);

// The variable's value in `env`, as BuildRankEnv returns it; "" when it is not set.
std::string ValueOf(const std::vector<std::string>& env, const std::string& name);
std::string ValueOf(const std::vector<EnvVar>& env, const std::string& name);

}  // namespace launch::agent
