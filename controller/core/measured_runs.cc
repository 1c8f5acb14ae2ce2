#include "controller/core/measured_runs.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "common/units.h"

namespace launch::controller {
namespace {

// A submit must stay cheap however many jobs there were.
constexpr int kJobsLookedAt = 2'000;
constexpr std::size_t kRunsGiven = 200;

std::uint64_t LargestProcess(const State& state, const Key& key) {
  std::uint64_t peak = 0;
  const auto ranks = state.ranks.find(key);
  if (ranks == state.ranks.end()) return 0;
  for (const auto& [number, rank] : ranks->second) {
    if (rank.exit) peak = std::max(peak, rank.exit->max_rss_bytes);
  }
  return peak;
}

// Of jobs that had ended by then, oldest end first.
std::vector<MeasuredRun> Collect(const State& state, const UserName& owner, WallTime ended_by) {
  std::vector<MeasuredRun> runs;
  const auto after =
      state.done.upper_bound({ended_by, JobId{std::numeric_limits<std::uint64_t>::max()}});
  int looked = 0;
  for (auto done = std::make_reverse_iterator(after); done != state.done.rend(); ++done) {
    if (++looked > kJobsLookedAt || runs.size() >= kRunsGiven) break;
    const JobRecord& job = state.jobs.at(done->second);
    auto run = MeasuredOf(state, job);
    if (!run) continue;
    if (job.owner != owner) {
      if (run->probe) continue;  // no whole run: it corrects nothing
      run->job.clear();
      run->script.clear();
    }
    runs.push_back(std::move(*run));
  }
  std::reverse(runs.begin(), runs.end());
  return runs;
}

}  // namespace

std::optional<MeasuredRun> MeasuredOf(const State& state, const JobRecord& job) {
  if (job.phase != JobPhase::kDone) return std::nullopt;
  const auto found = state.attempts.find(Key{job.id, Attempt{job.attempts}});
  if (found == state.attempts.end() || found->second.plan.run.device.empty()) return std::nullopt;
  const AttemptRecord& attempt = found->second;
  MeasuredRun run = attempt.plan.run;
  if (state.specs.at(job.id).spec.debug) {
    if (!job.probe) return std::nullopt;
    run.probe = job.probe;
    return run;
  }
  if (job.outcome != JobState::kSucceeded) return std::nullopt;
  run.step_seconds = attempt.progress.seconds_per_step;
  const bool whole = job.attempts == 1 && ToMs(job.started) > 0 && job.ended > job.started;
  if (whole) run.seconds = static_cast<double>(ToMs(job.ended) - ToMs(job.started)) / 1000;
  const std::uint64_t peak =
      run.device == "cpu" ? LargestProcess(state, attempt.key) : attempt.peak_gpu_bytes;
  if (peak > 0) run.peak_gib = static_cast<double>(peak) / static_cast<double>(kGiB);
  if (!run.step_seconds && !run.seconds && !run.peak_gib) return std::nullopt;
  return run;
}

std::vector<MeasuredRun> HistoryFor(const State& state, const UserName& owner) {
  return Collect(state, owner, WallTime::max());
}

std::vector<MeasuredRun> HistoryFor(const State& state, const JobRecord& job) {
  return Collect(state, job.owner, job.submitted);  // elements of an array see the same ones
}

}  // namespace launch::controller
