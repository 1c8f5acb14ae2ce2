// std::mutex that clang's thread-safety analysis understands; plain std::mutex to other compilers.
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define LAUNCH_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define LAUNCH_THREAD_ATTRIBUTE(x)
#endif

#define LAUNCH_GUARDED_BY(m) LAUNCH_THREAD_ATTRIBUTE(guarded_by(m))
#define LAUNCH_REQUIRES(m) LAUNCH_THREAD_ATTRIBUTE(requires_capability(m))
#define LAUNCH_EXCLUDES(m) LAUNCH_THREAD_ATTRIBUTE(locks_excluded(m))

namespace launch {

class LAUNCH_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void Lock() LAUNCH_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void Unlock() LAUNCH_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

class LAUNCH_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) LAUNCH_THREAD_ATTRIBUTE(acquire_capability(mutex))
      : lock_(mutex.mutex_) {}
  ~MutexLock() LAUNCH_THREAD_ATTRIBUTE(release_capability()) = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  // For std::condition_variable; the lock is held again when its wait returns.
  std::unique_lock<std::mutex>& native() { return lock_; }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace launch
