#include "cli/unfailed_verdict.h"

#include <algorithm>

namespace launch {
namespace {

std::string StateText(const JobView& job) {
  if (job.state == JobState::kSucceeded) return "succeeded";
  if (job.state == JobState::kCancelled)
    return job.outcome.starts_with("cancelled") ? "was " + job.outcome : "was cancelled";
  return "is " + std::string(ToString(job.state));
}

}  // namespace

std::optional<UnfailedVerdict> VerdictOfUnfailed(const JobView& job) {
  const bool over = job.state == JobState::kSucceeded || job.state == JobState::kCancelled;
  const auto failing = [](const RankView& rank) { return rank.exit && !Succeeded(*rank.exit); };
  const bool runs = job.state == JobState::kRunning && !job.attempts.empty() &&
                    !job.attempts.back().verdict &&
                    std::ranges::none_of(job.attempts.back().ranks, failing);
  if (!over && !runs) return std::nullopt;
  const std::string state = "job " + std::to_string(job.id.value) + " " + StateText(job);
  const auto failed =
      std::find_if(job.attempts.rbegin(), job.attempts.rend(), [](const AttemptView& attempt) {
        return attempt.verdict && attempt.verdict->label != "none";
      });
  if (failed != job.attempts.rend())
    return UnfailedVerdict{
        state + "; attempt " + std::to_string(failed->attempt.value) + " had failed:",
        *failed->verdict};
  const std::string says = state + (over && job.attempts.empty() ? " before it started" : "") +
                           (job.state == JobState::kCancelled ? "" : ": nothing of it has failed");
  return UnfailedVerdict{says, Verdict{.label = "none",
                                       .confidence = Confidence::kConfirmed,
                                       .cause = says,
                                       .action = "continue"}};
}

}  // namespace launch
