// `launch check JOB` on the nodes themselves: everything that a start does before its ranks.
#pragma once

#include "cli/app.h"
#include "cli/job_arguments.h"
#include "preflight/report.h"

namespace launch {

// The job as a check: it ends where its ranks would be started.
JobSpec AsStartCheck(JobSpec spec);

// `known` with what the start found, which replaces older findings about the same thing on the same
// node.
PreflightReport WithFound(PreflightReport known, const std::vector<Finding>& found);

// Everything that the newest start of a job checked, as its events tell, with the findings.
Result<PreflightReport> ReportOfStart(Client& client, const JobView& job);

// Submits AsStartCheck of the job, waits for it, and returns what is known afterwards. The nodes
// must be free.
Result<PreflightReport> CheckAtStart(const App& app, Client& client, PreparedJob job,
                                     PreflightReport known);

}  // namespace launch
