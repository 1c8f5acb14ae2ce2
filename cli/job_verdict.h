// The verdict of a job's attempt: the one stored with it, or, where the controller made none (an
// attempt of an older controller, a node that was silent), judged here from its exit reports and
// the logs of its ranks.
#pragma once

#include <optional>
#include <vector>

#include "cli/client.h"
#include "common/error.h"

namespace launch {

// The verdict of `attempt`; absent: of the newest that failed. kFailedPrecondition while nothing of
// the job has failed, kNotFound for an attempt that it does not have. Reads the logs of at most
// eight failing ranks, the first failing one first, each bounded by what the nodes keep of it.
Result<Verdict> VerdictOfJob(Client& client, const JobView& job, std::optional<Attempt> attempt);

// The verdict of a job that was refused before its ranks started: the first error, with the others
// as evidence. Absent: no finding is an error.
std::optional<Verdict> VerdictOfFindings(const std::vector<Finding>& findings);

// Fills the verdict of the newest attempt of a job that did not end well where none is recorded,
// from at most two ranks and four seconds; logs that cannot be read leave it to the exit reports.
void AddVerdict(Client& client, JobView& job);

}  // namespace launch
