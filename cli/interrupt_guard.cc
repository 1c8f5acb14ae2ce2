#include "cli/interrupt_guard.h"

#include <unistd.h>

#include <csignal>
#include <string>

namespace launch {

InterruptGuard::InterruptGuard(const App& app)
    : app_(app), signals_({SIGINT, SIGTERM, SIGHUP}, [this](int) { OnInterrupt(); }) {}

void InterruptGuard::Submitting() {
  const std::lock_guard lock(mutex_);
  stage_ = Stage::kSubmitting;
}

void InterruptGuard::Submitted(JobId job) {
  {
    const std::lock_guard lock(mutex_);
    stage_ = Stage::kSubmitted;
    job_ = job;
    if (!interrupted_) return;
  }
  Cancel(job);
}

void InterruptGuard::Cancel(JobId job) const {
  app_.Note("launch: cancelling job " + std::to_string(job.value) +
            "; once more to leave without waiting");
  // A connection of its own: the other one is reading the log.
  Result<Client> client = app_.Connect(App::Embedded::kMustRun);
  if (!client) {
    app_.Note(FormatError(client.error()));
    return;
  }
  if (const auto answer = client->Cancel({job}); !answer) app_.Note(FormatError(answer.error()));
}

void InterruptGuard::OnInterrupt() {
  std::optional<JobId> job;
  {
    const std::lock_guard lock(mutex_);
    if (stage_ == Stage::kBefore) {
      app_.Note("launch: left; nothing was submitted");
      ::_exit(kInterrupted);
    }
    job = job_;
    if (interrupted_.exchange(true)) {
      const std::string id = job ? std::to_string(job->value) : "";
      app_.Note(job ? "launch: left; job " + id + " is being cancelled: launch status " + id
                    : std::string("launch: left; whether the job is queued, `launch queue` says"));
      ::_exit(kInterrupted);
    }
    if (!job) {
      app_.Note("launch: the job is being submitted; it is cancelled once it has a number");
      return;
    }
  }
  Cancel(*job);
}

}  // namespace launch
