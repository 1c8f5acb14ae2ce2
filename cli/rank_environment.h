// The environment of one rank, ready to paste: of a rank that runs as its node has it, otherwise as
// it is planned.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/client.h"
#include "common/error.h"
#include "common/view.h"

namespace launch {

struct ShownEnvironment {
  JobId job;
  Attempt attempt;
  Rank rank = 0;
  NodeId node;
  bool of_node = false;  // read from the rank's process; otherwise planned
  std::map<std::string, std::string> set;
  // Variables that are not shown, or not known before the node sets them: name and why. Sorted by
  // name.
  std::map<std::string, std::string> open;
  std::vector<std::string> notes;
  friend bool operator==(const ShownEnvironment&, const ShownEnvironment&) = default;
};

// The environment of the rank by the plan. kInvalidArgument for a rank that the job does not have,
// kNotFound while there is no plan.
Result<ShownEnvironment> PlannedEnvironment(const JobView& job, Rank rank);

// The variables of `environ`, NAME=VALUE each ended by a zero byte; of the job's
// secrets only the names.
ShownEnvironment EnvironmentOfNode(ShownEnvironment planned, const JobView& job,
                                   std::string_view environ);

// Asks the node under the rules of `launch exec`: a command beside the rank that prints what it was
// given. For jobs that run.
Result<std::string> ReadEnvironment(Client& client, const JobView& job, Rank rank);

std::string EnvironmentText(const ShownEnvironment& environment);
std::string EnvironmentJson(const ShownEnvironment& environment);

}  // namespace launch
