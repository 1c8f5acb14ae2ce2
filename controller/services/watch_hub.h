// Tells the streams of Watch that events were committed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "common/annotated_mutex.h"

namespace launch::controller {

// Thread-safe. A callback may still be under way when Remove returns.
class WatchHub {
 public:
  std::uint64_t Add(std::function<void()> wake) {
    const MutexLock lock(mutex_);
    watchers_.emplace(++last_, std::move(wake));
    return last_;
  }
  void Remove(std::uint64_t id) {
    const MutexLock lock(mutex_);
    watchers_.erase(id);
  }
  void Ring() {
    std::vector<std::function<void()>> wakes;
    {
      const MutexLock lock(mutex_);
      for (const auto& [id, wake] : watchers_) wakes.push_back(wake);
    }
    for (const auto& wake : wakes) wake();
  }

 private:
  Mutex mutex_;
  std::uint64_t last_ LAUNCH_GUARDED_BY(mutex_) = 0;
  std::map<std::uint64_t, std::function<void()>> watchers_ LAUNCH_GUARDED_BY(mutex_);
};

}  // namespace launch::controller
