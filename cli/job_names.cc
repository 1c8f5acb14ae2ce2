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

struct JobName {
  JobId job;                 // or the array
  std::optional<int> index;  // in it
};

Result<JobName> ParseJobName(const std::string& name) {
  const std::size_t line = name.find('_');
  // `paper_r64` is quoted whole: it is the name of a job, and no element of an array `paper`.
  const std::string id = name.substr(0, line);
  LAUNCH_ASSIGN_OR_RETURN(const JobId job, ParseJobId(ParseInt(id) ? id : name));
  if (line == std::string::npos) return JobName{job, std::nullopt};
  const auto index = ParseInt(name.substr(line + 1));
  if (!index || *index < 0 || *index > kMaxIndex)
    return Fail(ErrorCode::kInvalidArgument, "`" + name + "` is not an element of an array",
                "ARRAY_INDEX, such as 17_3");
  return JobName{job, static_cast<int>(*index)};
}

bool IsUnknown(const Error& error) {
  return error.code == ErrorCode::kNotFound || error.code == ErrorCode::kPermissionDenied;
}

Result<std::vector<JobId>> JobsOf(Client& client, const JobName& name) {
  if (name.index) return Elements(client, name.job, name.index);
  const Result<JobView> view = client.Job(name.job);
  if (view) return std::vector<JobId>{name.job};
  // The number of an array is no job's.
  if (!IsUnknown(view.error())) return Unexpected(view.error());
  Result<std::vector<JobId>> elements = Elements(client, name.job, std::nullopt);
  if (!elements) return Unexpected(view.error());
  return elements;
}

void AddNew(const std::vector<JobId>& some, std::vector<JobId>& jobs) {
  for (const JobId job : some)
    if (std::ranges::find(jobs, job) == jobs.end()) jobs.push_back(job);
}

}  // namespace

Result<std::vector<JobId>> JobsNamed(Client& client, const std::string& name) {
  LAUNCH_ASSIGN_OR_RETURN(const JobName parsed, ParseJobName(name));
  return JobsOf(client, parsed);
}

Result<std::vector<JobId>> JobsNamed(Client& client, const std::vector<std::string>& names) {
  std::vector<JobId> jobs;
  for (const std::string& name : names) {
    LAUNCH_ASSIGN_OR_RETURN(const std::vector<JobId> some, JobsNamed(client, name));
    AddNew(some, jobs);
  }
  return jobs;
}

Result<FoundJobs> FindJobs(Client& client, const std::vector<std::string>& names) {
  std::vector<JobName> parsed;
  for (const std::string& name : names) {
    LAUNCH_ASSIGN_OR_RETURN(const JobName one, ParseJobName(name));
    parsed.push_back(one);
  }
  FoundJobs found;
  for (const JobName& name : parsed) {
    const Result<std::vector<JobId>> some = JobsOf(client, name);
    if (!some && (names.size() == 1 || !IsUnknown(some.error()))) return Unexpected(some.error());
    if (some)
      AddNew(*some, found.jobs);
    else
      found.missing.push_back({name.job, some.error()});
  }
  return found;
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
