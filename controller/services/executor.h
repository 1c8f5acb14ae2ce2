// One background thread for work that must not run on the loop or in a gRPC callback: deadlines,
// wake-ups, reads of the store.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <thread>

#include "common/annotated_mutex.h"
#include "common/clock.h"

namespace launch::controller {

// Thread-safe. What has not run when Stop is called never runs.
class Executor {
 public:
  Executor();
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void Post(std::function<void()> run) { After(Millis{0}, std::move(run)); }
  void After(Millis delay, std::function<void()> run) LAUNCH_EXCLUDES(mutex_);
  void Stop() LAUNCH_EXCLUDES(mutex_);  // waits for the one that runs

 private:
  using Steady = std::chrono::steady_clock;
  void Run() LAUNCH_EXCLUDES(mutex_);

  Mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ LAUNCH_GUARDED_BY(mutex_) = false;
  std::multimap<Steady::time_point, std::function<void()>> due_ LAUNCH_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace launch::controller
