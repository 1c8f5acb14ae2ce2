// Plans off the loop: one thread that turns a PlanWanted into an event::Planned. One for which
// nobody waits any more is answered with an error instead, and so is what is beyond the limits of
// PlanQueue.
#pragma once

#include <condition_variable>
#include <functional>
#include <thread>
#include <vector>

#include "common/annotated_mutex.h"
#include "controller/core/effect.h"
#include "controller/core/event.h"
#include "controller/plan_queue.h"

namespace launch::controller {

// The planning itself, pure: placement unless the core placed, plan, known-facts preflight.
PlanOutcome MakeOutcome(const effect::PlanWanted& wanted);

class PlanWorker {
 public:
  using Plan = std::function<PlanOutcome(const effect::PlanWanted&)>;

  // `answer` is called once for each Want, on the worker's thread or on that of a Want; it must not
  // block. `is_waiting` is asked on both.
  PlanWorker(std::function<void(event::Planned)> answer, PlanQueue::IsWaiting is_waiting,
             Plan plan = MakeOutcome);
  ~PlanWorker();
  PlanWorker(const PlanWorker&) = delete;
  PlanWorker& operator=(const PlanWorker&) = delete;

  void Want(effect::PlanWanted wanted) LAUNCH_EXCLUDES(mutex_);
  void Stop() LAUNCH_EXCLUDES(mutex_);  // what waits is dropped

 private:
  void Run() LAUNCH_EXCLUDES(mutex_);
  void Answer(std::vector<PlanQueue::Dropped> dropped) const;

  const std::function<void(event::Planned)> answer_;
  const Plan plan_;
  Mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ LAUNCH_GUARDED_BY(mutex_) = false;
  PlanQueue wanted_ LAUNCH_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace launch::controller
