#include "cli/unstarted_verdict.h"

#include <string>

namespace launch {

Result<Verdict> VerdictOfUnstarted(const JobView& job) {
  const std::string id = std::to_string(job.id.value);
  if (job.state == JobState::kFailed && job.sub_reason == "DEPENDENCY")
    return Verdict{.label = "dependency",
                   .confidence = Confidence::kConfirmed,
                   .cause = job.outcome,
                   .remedy =
                       "see why that job did not end as asked (launch why ID), then submit "
                       "this one again",
                   .action = "no_retry"};
  if (IsTerminal(job.state))
    return Fail(ErrorCode::kFailedPrecondition,
                "job " + id + " never started: it is " + std::string(ToString(job.state)),
                job.outcome);
  return Fail(ErrorCode::kFailedPrecondition,
              "job " + id + " has not started: it waits" +
                  (job.reason.code.empty() ? "" : " for " + job.reason.code) +
                  (job.reason.evidence.empty() ? "" : ": " + job.reason.evidence),
              "`launch explain " + id + "` says when it may start and what would help");
}

}  // namespace launch
