#include "cli/debug_run.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include "cli/job_draft.h"
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

// Entries of `dir` written since then, by name; none where the directory is not here.
std::vector<std::string> WrittenSince(const std::string& dir,
                                      std::filesystem::file_time_type since) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(dir, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code gone;
    const auto written = at->last_write_time(gone);
    if (!gone && written >= since) names.push_back(at->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
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
  spec.checkpoint.resume = false;
  spec.time_limit = std::min(spec.time_limit.value_or(kDebugLimit), kDebugLimit);
  return spec;
}

void KeepCheckpointsApart(JobSpec& spec, std::string_view key) {
  std::string& dir = spec.checkpoint.dir;
  if (!spec.debug || dir.empty()) return;
  while (dir.size() > 1 && dir.ends_with('/')) dir.pop_back();
  const std::string name = dir.substr(dir.rfind('/') + 1);
  // A directory without a name has nothing beside it; hidden ones in it are no checkpoints.
  if (name.empty() || name == "." || name == "..") dir += dir.ends_with('/') ? "" : "/";
  dir += ".debug-" + std::string(key.substr(0, 8));
}

std::string DebugCheckpoints(const JobSpec& job, const JobSpec& ran,
                             std::filesystem::file_time_type began) {
  const std::string& own = job.checkpoint.dir;
  if (own.empty()) return {};
  std::string text = "  saves   in " + ran.checkpoint.dir +
                     " where the script saves in LAUNCH_CHECKPOINT_DIR; remove it when you have "
                     "looked\n";
  if (own.find('$') != std::string::npos) return text;  // only the node knows where that is
  const std::string dir = AbsolutePath(own, job.workdir);
  if (dir == AbsolutePath(".", job.workdir)) return text;  // whatever runs there writes there
  const std::vector<std::string> written = WrittenSince(dir, began);
  if (written.empty()) return text;
  const std::string more =
      written.size() > 1 ? " and " + std::to_string(written.size() - 1) + " more" : "";
  return text + "  warning " + dir + "/" + written.front() + more +
         " was written during the run, by another run or by a script that saves in a directory of "
         "its own: remove what is this run's, or the job resumes from it\n";
}

std::string DebugReport(const JobView& done, const std::optional<Plan>& full,
                        const std::optional<ProbePoint>& point) {
  std::string text = "debug run: " + std::string(ToString(done.state));
  if (!done.outcome.empty()) text += ", " + done.outcome;
  if (done.state == JobState::kTimeout)
    text += "; a script that reads LAUNCH_MAX_STEPS ends by itself";
  text += "\n";
  // Whether a script that ignores the limit of steps takes the small batch is not known.
  const bool own_steps = done.step && *done.step > kDebugSteps;
  if (own_steps)
    text += "  steps   " + std::to_string(*done.step) +
            ": the script does not read LAUNCH_MAX_STEPS=" + std::to_string(kDebugSteps) + "\n";
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
