// Ctrl-C while a job runs in the foreground.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

#include "cli/app.h"

namespace launch {

inline constexpr int kInterrupted = 130;  // 128 + SIGINT, as a shell says it

// Before anything was submitted, Ctrl-C ends the program. Then the first one cancels the job, and
// the second one leaves it alone. Made before the first other thread, which inherits the signals
// blocked: only the guard's takes them.
class InterruptGuard {
 public:
  explicit InterruptGuard(const App& app);
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard();

  void Submitting();          // from now on a job may be there
  void Submitted(JobId job);  // cancels it if somebody asked for that meanwhile
  bool interrupted() const { return interrupted_; }

 private:
  enum class Stage { kBefore, kSubmitting, kSubmitted };
  void Wait();
  void OnInterrupt();
  void Cancel(JobId job) const;

  const App& app_;
  std::mutex mutex_;  // of stage_ and job_
  Stage stage_ = Stage::kBefore;
  std::optional<JobId> job_;
  std::atomic<bool> over_{false};
  std::atomic<bool> interrupted_{false};
  std::thread thread_;
};

}  // namespace launch
