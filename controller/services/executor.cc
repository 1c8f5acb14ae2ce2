#include "controller/services/executor.h"

#include <utility>

namespace launch::controller {

Executor::Executor() : thread_([this] { Run(); }) {}

Executor::~Executor() { Stop(); }

void Executor::After(Millis delay, std::function<void()> run) {
  const MutexLock lock(mutex_);
  if (stopping_) return;
  due_.emplace(Steady::now() + delay, std::move(run));
  changed_.notify_one();
}

void Executor::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Executor::Run() {
  for (;;) {
    std::function<void()> run;
    {
      MutexLock lock(mutex_);
      for (;;) {
        if (stopping_) return;
        if (due_.empty()) {
          changed_.wait(lock.native());
        } else if (const auto first = due_.begin(); first->first > Steady::now()) {
          const auto until = first->first;
          changed_.wait_until(lock.native(), until);
        } else {
          run = std::move(first->second);
          due_.erase(first);
          break;
        }
      }
    }
    run();
  }
}

}  // namespace launch::controller
