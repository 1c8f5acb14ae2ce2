#include "cli/debug_run.h"

#include <algorithm>

#include "common/bounded_number.h"
#include "common/units.h"
#include "planner/trainer/debug_plan.h"

namespace launch {
namespace {

std::string Seconds(double seconds) {
  if (seconds < 60) return FormatNumber(seconds, "%.3g s");
  return FormatDurationShort(MillisOf(seconds));
}

std::uint64_t LargestRank(const JobView& job) {
  std::uint64_t bytes = 0;
  for (const AttemptView& attempt : job.attempts) {
    for (const RankView& rank : attempt.ranks) {
      if (rank.exit) bytes = std::max(bytes, rank.exit->max_rss_bytes);
    }
  }
  return bytes;
}

struct MeasuredStep {
  double seconds = 0;
  const char* how = "measured";
};

// A run shorter than the sampling period has no rate of its own: its whole time over its steps.
std::optional<MeasuredStep> StepOf(const JobView& job, const std::optional<ProbePoint>& point) {
  if (point && point->step_seconds > 0) return MeasuredStep{point->step_seconds, "measured"};
  if (job.seconds_per_step) return MeasuredStep{*job.seconds_per_step, "measured"};
  if (!job.step || *job.step < 1 || ToMs(job.started) == 0 || job.ended <= job.started)
    return std::nullopt;
  const double seconds = static_cast<double>(ToMs(job.ended) - ToMs(job.started)) / 1000;
  return MeasuredStep{seconds / static_cast<double>(*job.step), "measured, start-up included"};
}

}  // namespace

JobId FirstJob(const SubmitAnswer& answer) {
  return answer.elements > 0 ? answer.first : answer.job;
}

JobSpec AsDebugRun(JobSpec spec) {
  if (spec.array) {  // one of its jobs, the first
    spec.array->indices.resize(1);
    for (SweepAxis& axis : spec.array->sweep) axis.values.resize(1);
  }
  spec.debug = true;
  spec.retry.max = 0;
  spec.retry.recover_on_exit_codes.clear();
  spec.time_limit = std::min(spec.time_limit.value_or(kDebugLimit), kDebugLimit);
  return spec;
}

std::string DebugReport(const JobView& done, const std::optional<Plan>& full,
                        const std::optional<ProbePoint>& point) {
  std::string text = "debug run: " + std::string(ToString(done.state));
  if (!done.outcome.empty()) text += ", " + done.outcome;
  if (done.state == JobState::kTimeout)
    text += "; a script that reads LAUNCH_MAX_STEPS ends by itself";
  text += "\n";
  // A script that ignores the limit of steps ignores the small batch too.
  const bool own_steps = done.step && *done.step > kDebugSteps;
  if (own_steps)
    text += "  steps   " + std::to_string(*done.step) +
            ": the script does not read LAUNCH_MAX_STEPS=" + std::to_string(kDebugSteps) +
            ", so it trained with its own batch\n";
  const std::int64_t samples = done.plan && !own_steps ? done.plan->batch.global.value_or(0) : 0;
  const auto measured = StepOf(done, point);
  if (measured) {
    text += "  step    " + Seconds(measured->seconds);
    if (samples > 0) text += " for " + std::to_string(samples) + " samples";
    text += std::string(" (") + measured->how + ")\n";
  } else {
    text += "  step    not seen: the script prints no progress that launch reads\n";
  }
  if (const std::uint64_t bytes = LargestRank(done); bytes > 0)
    text += "  memory  " + FormatBytes(bytes) + " of host memory at most in one rank (measured)\n";
  if (point && point->gpu) {
    text += "  memory  " + FormatBytes(static_cast<std::uint64_t>(point->peak_bytes)) +
            " of GPU memory at most in one rank (measured; context and NCCL come on top)\n";
  } else if (done.plan && done.plan->memory.peak_gib)
    text += "  memory  " + FormatNumber(*done.plan->memory.peak_gib, "%.1fGiB") +
            " of GPU memory predicted for this run\n";
  if (own_steps && full && full->steps && measured)
    text += "  full    " + std::to_string(*full->steps) + " steps like these: about " +
            Seconds(measured->seconds * static_cast<double>(*full->steps)) + "\n";
  const bool scalable = full && full->steps && full->batch.global && measured && samples > 0;
  if (scalable) {
    const double step =
        measured->seconds * static_cast<double>(*full->batch.global) / static_cast<double>(samples);
    text += "  full    " + std::to_string(*full->steps) + " steps of " +
            std::to_string(*full->batch.global) + " samples: about " +
            Seconds(step * static_cast<double>(*full->steps)) + ", scaled from this run\n";
  }
  return text;
}

}  // namespace launch
