// A progress table on a terminal, painted again ten times a second.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "cli/up/progress.h"
#include "common/annotated_mutex.h"

namespace launch {

// Paints on stderr, so that stdout stays the answer, and leaves the last picture standing.
// Thread-safe.
class ProgressScreen {
 public:
  // Whether stderr is a terminal that can be painted on.
  static bool Possible();

  explicit ProgressScreen(const std::vector<std::string>& hosts);
  ~ProgressScreen();
  ProgressScreen(const ProgressScreen&) = delete;
  ProgressScreen& operator=(const ProgressScreen&) = delete;

  void Take(const up::Progress& progress) LAUNCH_EXCLUDES(mutex_);
  // Takes the table away while `talk` has the terminal for itself. One caller at a time.
  void Aside(const std::function<void()>& talk) LAUNCH_EXCLUDES(mutex_);

 private:
  Millis Now() const;
  void Paint() LAUNCH_REQUIRES(mutex_);
  void Tick() LAUNCH_EXCLUDES(mutex_);

  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  Mutex mutex_;
  std::condition_variable changed_;
  up::ProgressTable table_ LAUNCH_GUARDED_BY(mutex_);
  std::size_t painted_ LAUNCH_GUARDED_BY(mutex_) = 0;  // lines that stand above the cursor
  bool aside_ LAUNCH_GUARDED_BY(mutex_) = false;
  bool ending_ LAUNCH_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace launch
