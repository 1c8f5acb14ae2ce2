#include "cli/await_job.h"

#include <algorithm>
#include <chrono>

#include "cli/app.h"

namespace launch {
namespace {

using Steady = std::chrono::steady_clock;

// A stream is opened anew this often, so that a lost event delays and never hangs a waiter.
constexpr Millis kRefresh{5'000};
// A controller may be away this long before a waiter gives up.
constexpr Millis kPatience{120'000};

}  // namespace

Result<JobView> AwaitJob(Client& client, JobId job, std::optional<Millis> at_most,
                         const std::function<void(const JobView&)>& changed) {
  const JobWatch watch{
      .look = [&] { return client.Job(job); },
      .watch = [&](const WatchCall& call, Millis limit,
                   const auto& take) { return client.Watch(call, limit, take); },
      .pause = [](int failures) { BackOff(std::min(failures, 6), Millis(100)); },
  };
  return AwaitJob(watch, job, at_most, changed);
}

Result<JobView> AwaitJob(const JobWatch& watch, JobId job, std::optional<Millis> at_most,
                         const std::function<void(const JobView&)>& changed) {
  const auto start = Steady::now();
  auto last_answer = start;
  std::optional<JobState> state;
  std::size_t attempts = 0;
  std::optional<std::uint64_t> seen;  // absent: what happened so far is still to be passed over
  for (int failures = 0, refused = 0;;) {
    Result<JobView> view = watch.look();
    if (view) {
      last_answer = Steady::now();
      failures = 0;
      if (state != view->state || attempts != view->attempts.size()) changed(*view);
      state = view->state;
      attempts = view->attempts.size();
      if (IsTerminal(view->state)) return view;
    } else if (view.error().code != ErrorCode::kUnavailable &&
               view.error().code != ErrorCode::kDeadlineExceeded) {
      return view;
    } else if (Steady::now() - last_answer > kPatience) {
      return view;
    } else {
      watch.pause(std::min(failures++, 4));
    }
    Millis next = kRefresh;
    if (at_most) {
      const auto left = *at_most - std::chrono::duration_cast<Millis>(Steady::now() - start);
      if (left <= Millis(0))
        return Fail(ErrorCode::kDeadlineExceeded,
                    "job " + std::to_string(job.value) + " is not done yet", "it goes on");
      next = std::min(next, left);
    }
    if (!view) continue;
    // Whatever happened to the job, one look tells the state: of all that happened so far only the
    // number is of interest, and then of each thing that it happened.
    const bool first = !seen;
    if (first) seen = 0;
    bool woken = false;
    const Result<void> end = watch.watch({*seen, {job}, !first}, next, [&](const EventView& event) {
      woken = event.seq > *seen;
      seen = std::max(*seen, event.seq);
      return first || !woken;
    });
    // Without a stream, as beyond a user's number of them, a look now and then has to do.
    const bool over = end || end.error().code == ErrorCode::kDeadlineExceeded;
    if (first || woken || over) {
      refused = 0;
    } else {
      watch.pause(refused++);
    }
  }
}

int ExitCodeOfJob(const JobView& job) {
  if (job.state == JobState::kSucceeded) return 0;
  if (job.sub_reason == "PREFLIGHT" || job.sub_reason == "SETUP")
    return ExitCodeOf(ErrorCode::kPreflightFailed);
  if (job.exit_code && *job.exit_code != 0) return *job.exit_code;
  if (job.state == JobState::kTimeout) return ExitCodeOf(ErrorCode::kDeadlineExceeded);
  return 1;
}

}  // namespace launch
