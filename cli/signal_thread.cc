#include "cli/signal_thread.h"

#include <pthread.h>

#include <csignal>
#include <utility>

namespace launch {
namespace {

constexpr int kOver = SIGUSR2;  // from the destructor; blocked and waited for, it ends nothing

}  // namespace

SignalThread::SignalThread(std::initializer_list<int> signals, std::function<void(int)> on_signal) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, kOver);
  for (const int signal : signals) {
    struct sigaction now {};
    const bool ignored = ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
    if (!ignored) ::sigaddset(&set, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this, set, call = std::move(on_signal)] {
    for (int signal = 0; !over_;) {
      if (::sigwait(&set, &signal) == 0 && signal != kOver) call(signal);
    }
  });
}

SignalThread::~SignalThread() {
  over_ = true;
  ::pthread_kill(thread_.native_handle(), kOver);
  thread_.join();
}

}  // namespace launch
