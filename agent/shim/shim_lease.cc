#include "agent/shim/shim_lease.h"

#include <fcntl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "agent/shim/shim_record.h"

namespace launch::shim {
namespace {

constexpr std::int64_t kKillEachMs = 1000;

}  // namespace

int Lease::Watch(int directory, std::int64_t end_ms, std::int64_t grace_ms) {
  if (end_ms == 0) return 0;
  end_ms_ = end_ms;
  grace_ms_ = grace_ms;
  file_ = ::openat(directory, "../lease", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file_ < 0) return errno;
  timer_ = ::timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
  if (timer_ < 0) return errno;
  Arm(end_ms_ - grace_ms_);
  return 0;
}

void Lease::OpenKill(const char* procs) {
  constexpr char kProcs[] = "cgroup.procs";
  constexpr std::size_t kProcsSize = sizeof kProcs - 1;
  char path[4096];
  const std::size_t size = procs == nullptr ? 0 : std::strlen(procs);
  if (timer_ < 0 || size < kProcsSize || size >= sizeof path) return;
  if (std::strcmp(procs + size - kProcsSize, kProcs) != 0) return;
  std::memcpy(path, procs, size - kProcsSize);
  std::memcpy(path + size - kProcsSize, "cgroup.kill", sizeof "cgroup.kill");
  kill_ = ::open(path, O_WRONLY | O_CLOEXEC);
}

// A record that is being written is read again at the next look; what it said before holds.
void Lease::Read() {
  char bytes[sizeof(LeaseRecord)];
  LeaseRecord record;
  const ssize_t got = ::pread(file_, bytes, sizeof bytes, 0);
  if (got != static_cast<ssize_t>(sizeof bytes)) return;
  if (Unseal(bytes, sizeof bytes, record) != RecordState::kValid) return;
  if (record.end_boot_ms > end_ms_) end_ms_ = record.end_boot_ms;
}

void Lease::Arm(std::int64_t at_ms) const {
  // A zero time would disarm it.
  if (at_ms < 1) at_ms = 1;
  const itimerspec when{{0, 0}, {at_ms / 1000, (at_ms % 1000) * 1'000'000}};
  (void)::timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr);
}

bool Lease::IsOver(std::int64_t now_ms) {
  if (timer_ < 0) return false;
  Read();
  return now_ms >= end_ms_ - grace_ms_;
}

Lease::Due Lease::OnTimer(std::int64_t now_ms) {
  std::uint64_t expirations = 0;
  (void)!::read(timer_, &expirations, sizeof expirations);
  if (!over_) {
    Read();
    if (now_ms < end_ms_ - grace_ms_) {
      Arm(end_ms_ - grace_ms_);
      return Due::kNothing;
    }
    over_ = true;  // for good: the rank is told to end, and others count on that
    Arm(end_ms_);
    return Due::kTerminate;
  }
  if (now_ms < end_ms_) {
    Arm(end_ms_);
    return Due::kNothing;
  }
  Arm(now_ms + kKillEachMs);
  return Due::kKill;
}

void Lease::KillCgroup() const {
  if (kill_ >= 0) (void)!::pwrite(kill_, "1", 1, 0);
}

}  // namespace launch::shim
