// Ends what waits on a connection for too long, from another thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <optional>
#include <thread>

#include "common/annotated_mutex.h"
#include "common/clock.h"

namespace launch::up {

// libssh has a deadline for connecting and none for most of what follows. Past the time limit both
// directions of the socket are shut, so that whatever call waits on it fails.
class Watchdog {
 public:
  explicit Watchdog(int socket);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void Begin(Millis limit) LAUNCH_EXCLUDES(mutex_);
  void End() LAUNCH_EXCLUDES(mutex_);
  bool Fired() const LAUNCH_EXCLUDES(mutex_);

 private:
  using Steady = std::chrono::steady_clock;
  void Watch() LAUNCH_EXCLUDES(mutex_);

  const int socket_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::optional<Steady::time_point> deadline_ LAUNCH_GUARDED_BY(mutex_);
  bool fired_ LAUNCH_GUARDED_BY(mutex_) = false;
  bool ending_ LAUNCH_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace launch::up
