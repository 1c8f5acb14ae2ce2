// Plans off the loop: one thread that turns a PlanWanted into an event::Planned.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <thread>

#include "common/annotated_mutex.h"
#include "controller/core/effect.h"
#include "controller/core/event.h"

namespace launch::controller {

// The planning itself, pure: placement unless the core placed, plan, known-facts preflight.
PlanOutcome MakeOutcome(const effect::PlanWanted& wanted);

class PlanWorker {
 public:
  // `answer` is called on the worker's thread, once for each Want.
  explicit PlanWorker(std::function<void(event::Planned)> answer);
  ~PlanWorker();
  PlanWorker(const PlanWorker&) = delete;
  PlanWorker& operator=(const PlanWorker&) = delete;

  void Want(effect::PlanWanted wanted) LAUNCH_EXCLUDES(mutex_);
  void Stop() LAUNCH_EXCLUDES(mutex_);  // what waits is dropped

 private:
  void Run() LAUNCH_EXCLUDES(mutex_);

  const std::function<void(event::Planned)> answer_;
  Mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ LAUNCH_GUARDED_BY(mutex_) = false;
  std::deque<effect::PlanWanted> wanted_ LAUNCH_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace launch::controller
