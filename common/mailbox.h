// Bounded queue from any thread to one loop thread; the only way into a core.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "common/unique_fd.h"

namespace launch {

// Push is safe from every thread. TakeBatch and fd belong to the loop thread.
template <class T>
class Mailbox {
 public:
  explicit Mailbox(std::size_t capacity)
      : capacity_(capacity), event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  // False when full: the caller must answer RESOURCE_EXHAUSTED, or retry what may not be lost.
  [[nodiscard]] bool Push(T item) { return PushBelow(capacity_, std::move(item)); }

  // For what may not be refused (exits, acks): never full. Bounded by what peers may have in
  // flight.
  void PushAlways(T item) { (void)PushBelow(static_cast<std::size_t>(-1), std::move(item)); }

  // Up to `max` items in arrival order; waits at most `timeout_ms` (-1: for ever) for the first.
  std::vector<T> TakeBatch(std::size_t max, int timeout_ms) {
    pollfd wait{event_.get(), POLLIN, 0};
    if (timeout_ms != 0) (void)::poll(&wait, 1, timeout_ms);
    std::vector<T> batch;
    const std::lock_guard lock(mutex_);
    while (!items_.empty() && batch.size() < max) {
      batch.push_back(std::move(items_.front()));
      items_.pop_front();
    }
    if (items_.empty()) {
      std::uint64_t drained = 0;
      (void)!::read(event_.get(), &drained, sizeof drained);
    }
    return batch;
  }

  // Readable while items wait; for epoll loops.
  int fd() const { return event_.get(); }

 private:
  bool PushBelow(std::size_t limit, T item) {
    const std::lock_guard lock(mutex_);
    if (items_.size() >= limit) return false;
    items_.push_back(std::move(item));
    const std::uint64_t one = 1;
    (void)!::write(event_.get(), &one, sizeof one);
    return true;
  }

  const std::size_t capacity_;
  const UniqueFd event_;
  std::mutex mutex_;
  std::deque<T> items_;  // guarded by mutex_
};

}  // namespace launch
