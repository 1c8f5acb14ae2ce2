// Signals taken by a thread of their own, where locks may be held and answers awaited.
#pragma once

#include <atomic>
#include <functional>
#include <initializer_list>
#include <thread>

namespace launch {

// Blocks the signals for good and calls `on_signal` with each that comes, one after another. Made
// before the first other thread, which inherits them blocked. An ignored signal stays
// ignored: under nohup the program outlives its terminal.
class SignalThread {
 public:
  SignalThread(std::initializer_list<int> signals, std::function<void(int)> on_signal);
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;
  ~SignalThread();  // waits for a call of `on_signal`

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace launch
