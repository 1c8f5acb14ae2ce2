#include "cli/job_names.h"

#include <algorithm>

#include "cli/app.h"
#include "common/units.h"

namespace launch {
namespace {

Result<std::vector<JobId>> Elements(Client& client, JobId array, std::optional<int> index) {
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<JobView> all, client.Jobs({true, true, array}));
  std::vector<JobId> jobs;
  for (const JobView& job : all)
    // A controller that is older than the question lists all jobs.
    if (job.array == array && (!index || job.array_index == *index)) jobs.push_back(job.id);
  if (!jobs.empty()) return jobs;
  const std::string name =
      std::to_string(array.value) + (index ? "_" + std::to_string(*index) : "");
  return Fail(ErrorCode::kNotFound, "there is no job " + name, "`launch queue -a` lists all jobs");
}

}  // namespace

Result<std::vector<JobId>> JobsNamed(Client& client, const std::string& name) {
  if (const std::size_t line = name.find('_'); line != std::string::npos) {
    LAUNCH_ASSIGN_OR_RETURN(const JobId array, ParseJobId(name.substr(0, line)));
    const auto index = ParseInt(name.substr(line + 1));
    if (!index || *index < 0 || *index > kMaxIndex)
      return Fail(ErrorCode::kInvalidArgument, "`" + name + "` is not an element of an array",
                  "ARRAY_INDEX, such as 17_3");
    return Elements(client, array, static_cast<int>(*index));
  }
  LAUNCH_ASSIGN_OR_RETURN(const JobId job, ParseJobId(name));
  const Result<JobView> view = client.Job(job);
  if (view) return std::vector<JobId>{job};
  // The number of an array is no job's.
  if (view.error().code != ErrorCode::kNotFound &&
      view.error().code != ErrorCode::kPermissionDenied)
    return Unexpected(view.error());
  Result<std::vector<JobId>> elements = Elements(client, job, std::nullopt);
  if (!elements) return Unexpected(view.error());
  return elements;
}

Result<std::vector<JobId>> JobsNamed(Client& client, const std::vector<std::string>& names) {
  std::vector<JobId> jobs;
  for (const std::string& name : names) {
    LAUNCH_ASSIGN_OR_RETURN(const std::vector<JobId> some, JobsNamed(client, name));
    for (const JobId job : some)
      if (std::find(jobs.begin(), jobs.end(), job) == jobs.end()) jobs.push_back(job);
  }
  return jobs;
}

Result<JobId> JobNamed(Client& client, const std::string& name) {
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<JobId> jobs, JobsNamed(client, name));
  if (jobs.size() == 1) return jobs.front();
  return Fail(ErrorCode::kInvalidArgument,
              name + " is an array of " + std::to_string(jobs.size()) + " jobs, " +
                  std::to_string(jobs.front().value) + " to " + std::to_string(jobs.back().value),
              "name one of them, or an element: " + name + "_INDEX");
}

}  // namespace launch
