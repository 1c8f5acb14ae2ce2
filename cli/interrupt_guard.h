// Ctrl-C while a job runs in the foreground.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include "cli/app.h"
#include "cli/signal_thread.h"

namespace launch {

inline constexpr int kInterrupted = 130;  // 128 + SIGINT, as a shell says it

// Before anything was submitted, Ctrl-C ends the program. Then the first one cancels the job, and
// the second one leaves it alone. Made before the first other thread, as SignalThread says.
class InterruptGuard {
 public:
  explicit InterruptGuard(const App& app);

  void Submitting();          // from now on a job may be there
  void Submitted(JobId job);  // cancels it if somebody asked for that meanwhile
  bool interrupted() const { return interrupted_; }

 private:
  enum class Stage { kBefore, kSubmitting, kSubmitted };
  void OnInterrupt();
  void Cancel(JobId job) const;

  const App& app_;
  std::mutex mutex_;  // of stage_ and job_
  Stage stage_ = Stage::kBefore;
  std::optional<JobId> job_;
  std::atomic<bool> interrupted_{false};
  SignalThread signals_;  // the last: it calls as long as it lives
};

}  // namespace launch
