#include "cli/up/watchdog.h"

#include <sys/socket.h>

namespace launch::up {

Watchdog::Watchdog(int socket) : socket_(socket), thread_([this] { Watch(); }) {}

Watchdog::~Watchdog() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Watchdog::Begin(Millis limit) {
  {
    const MutexLock lock(mutex_);
    deadline_ = Steady::now() + limit;
  }
  changed_.notify_one();
}

void Watchdog::End() {
  const MutexLock lock(mutex_);
  deadline_.reset();
}

bool Watchdog::Fired() const {
  const MutexLock lock(mutex_);
  return fired_;
}

void Watchdog::Watch() {
  MutexLock lock(mutex_);
  while (!ending_) {
    if (!deadline_) {
      changed_.wait(lock.native());
    } else if (const auto until = *deadline_; Steady::now() < until) {
      changed_.wait_until(lock.native(), until);
    } else {
      fired_ = true;
      deadline_.reset();
      // A socket of ssh, or the pair behind a proxy command.
      (void)::shutdown(socket_, SHUT_RDWR);
    }
  }
}

}  // namespace launch::up
