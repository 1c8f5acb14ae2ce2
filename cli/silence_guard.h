// Ends a stream that is silent for too long, however long one that speaks may take.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "common/clock.h"

namespace launch {

// Calls `on_silence` once, from a thread of its own, when nothing was heard for `limit` while
// somebody listened; never after the destructor began.
class SilenceGuard {
 public:
  SilenceGuard(Millis limit, std::function<void()> on_silence);
  SilenceGuard(const SilenceGuard&) = delete;
  SilenceGuard& operator=(const SilenceGuard&) = delete;
  ~SilenceGuard();

  // Heard() is called when something arrives, Listen() when it is used up and more is awaited; how
  // long that takes does not count: a pager may read nothing for hours. From any thread.
  void Heard();
  void Listen();
  bool fired() const;

 private:
  void Run();

  const Millis limit_;
  const std::function<void()> on_silence_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t heard_ = 0;  // guarded by mutex_, as the rest
  bool listens_ = true;
  bool over_ = false;
  bool fired_ = false;
  std::thread thread_;
};

}  // namespace launch
