// Jobs as users name them: "17", an element "17_3", all of an array by its number.
#pragma once

#include <string>
#include <vector>

#include "cli/client.h"

namespace launch {

// The jobs of that name in the order of their ids; at least one. kNotFound when there is none.
Result<std::vector<JobId>> JobsNamed(Client& client, const std::string& name);
Result<std::vector<JobId>> JobsNamed(Client& client, const std::vector<std::string>& names);
// Of several names, those that there are. kInvalidArgument: one of them is no name of a job; then
// nothing should be done with the others. One name alone fails as JobsNamed.
struct FoundJobs {
  struct Missing {
    JobId job;    // as named, of an element its array
    Error error;  // kNotFound or kPermissionDenied
  };
  std::vector<JobId> jobs;
  std::vector<Missing> missing;
};
Result<FoundJobs> FindJobs(Client& client, const std::vector<std::string>& names);
// Exactly one job: an array is refused with the names of its elements.
Result<JobId> JobNamed(Client& client, const std::string& name);

}  // namespace launch
