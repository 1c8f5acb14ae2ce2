#include "controller/core/stop_verdict.h"

#include <fmt/format.h>

#include "common/units.h"
#include "diagnosis/verdict.h"

namespace launch::controller {
namespace {

// A job that is over cannot be changed, only one that waits: hence `--hold`.
Verdict OfTimeLimit(const JobSpec& spec, JobId job, Verdict verdict) {
  const Millis limit = spec.time_limit.value_or(Millis{0});
  verdict.cause = fmt::format("The time limit of {} was reached", FormatDurationShort(limit));
  verdict.remedy = fmt::format(
      "launch requeue {0} --hold && launch update {0} time={1} && launch release {0}   # or a "
      "larger `time:` in the job file",
      job.value, FormatDurationShort(limit * 2));
  if (!spec.checkpoint.dir.empty() && spec.checkpoint.resume) {
    verdict.remedy += "; it goes on from the newest complete checkpoint in " + spec.checkpoint.dir;
  } else {
    verdict.action = "retry_with_change";
    verdict.remedy += "; it begins again at the first step";
  }
  return verdict;
}

}  // namespace

std::optional<Verdict> VerdictOfStop(const JobSpec& spec, const AttemptRecord& attempt) {
  if (attempt.stop_cause == StopCause::kTimeLimit) {
    return OfTimeLimit(spec, attempt.key.job, *VerdictOfOurKill(OurKill::kTimeLimit));
  }
  if (attempt.stop_cause != StopCause::kPreempted) return std::nullopt;
  Verdict verdict = *VerdictOfOurKill(OurKill::kPreempt);
  verdict.remedy.clear();
  return verdict;
}

}  // namespace launch::controller
