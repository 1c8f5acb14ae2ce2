// Tells the streams of Watch that events were committed.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "common/annotated_mutex.h"
#include "common/ids.h"

namespace launch::controller {

// Thread-safe. A callback may still be under way when Remove returns.
class WatchHub {
 public:
  static constexpr std::size_t kPerUser = 64;

  // Adds a stream and returns its number; 0 when this user has too many already.
  std::uint64_t Add(const UserName& user, std::function<void()> wake) {
    const MutexLock lock(mutex_);
    std::size_t of_user = 0;
    for (const auto& [id, watcher] : watchers_) of_user += watcher.user == user ? 1 : 0;
    if (of_user >= kPerUser) return 0;
    watchers_.emplace(++last_, Watcher{user, std::move(wake)});
    return last_;
  }
  void Remove(std::uint64_t id) {
    const MutexLock lock(mutex_);
    watchers_.erase(id);
  }
  // Ends what the user watches: from now on IsOpen says so, and each is woken to see it.
  void CloseUser(const UserName& user) {
    std::vector<std::function<void()>> wakes;
    {
      const MutexLock lock(mutex_);
      for (auto it = watchers_.begin(); it != watchers_.end();) {
        if (it->second.user != user) {
          ++it;
          continue;
        }
        wakes.push_back(std::move(it->second.wake));
        it = watchers_.erase(it);
      }
    }
    for (const auto& wake : wakes) wake();
  }
  bool IsOpen(std::uint64_t id) {
    const MutexLock lock(mutex_);
    return watchers_.contains(id);
  }
  // True for the one who should see to it that Ring is called.
  bool Announce() { return !announced_.exchange(true); }
  void Ring() {
    announced_ = false;
    std::vector<std::function<void()>> wakes;
    {
      const MutexLock lock(mutex_);
      for (const auto& [id, watcher] : watchers_) wakes.push_back(watcher.wake);
    }
    for (const auto& wake : wakes) wake();
  }

 private:
  struct Watcher {
    UserName user;
    std::function<void()> wake;
  };
  std::atomic<bool> announced_ = false;
  Mutex mutex_;
  std::uint64_t last_ LAUNCH_GUARDED_BY(mutex_) = 0;
  std::map<std::uint64_t, Watcher> watchers_ LAUNCH_GUARDED_BY(mutex_);
};

}  // namespace launch::controller
