#include "cli/silence_guard.h"

#include <utility>

namespace launch {

SilenceGuard::SilenceGuard(Millis limit, std::function<void()> on_silence)
    : limit_(limit), on_silence_(std::move(on_silence)), thread_([this] { Run(); }) {}

SilenceGuard::~SilenceGuard() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void SilenceGuard::Heard() {
  const std::lock_guard lock(mutex_);
  ++heard_;
  listens_ = false;
}

void SilenceGuard::Listen() {
  const std::lock_guard lock(mutex_);
  ++heard_;
  listens_ = true;
}

bool SilenceGuard::fired() const {
  const std::lock_guard lock(mutex_);
  return fired_;
}

// Not woken by what is heard, which may be a million pieces: it looks back when its time is over.
void SilenceGuard::Run() {
  std::unique_lock lock(mutex_);
  for (std::uint64_t before = heard_;; before = heard_) {
    if (changed_.wait_for(lock, limit_, [this] { return over_; })) return;
    if (heard_ != before || !listens_) continue;
    fired_ = true;
    on_silence_();
    return;
  }
}

}  // namespace launch
