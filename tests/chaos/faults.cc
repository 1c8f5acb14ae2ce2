// Preloaded into controllers and agents by the chaos kit: disks that fail and clocks that jump.
//
// CHAOS_CONTROL names a file that holds a Controls; who writes it changes the process at once.
// CHAOS_ROOT is the directory below which files may fail; sockets and everything else never do.
// Steady and boot clocks are left alone: nothing but a wall clock can be set on a real host.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

namespace {

// Same layout as CONTROLS in kit/controls.py.
struct Controls {
  std::atomic<std::int64_t> wall_offset_ns;
  std::atomic<std::int64_t> sync_fails_at;   // 0 = never, 1 = the next one fails with EIO, ...
  std::atomic<std::int64_t> write_fails_at;  // 0 = never, 1 = the next one fails with ENOSPC, ...
  std::atomic<std::int64_t> short_write;     // 1 = that write is cut in half instead
  std::atomic<std::int64_t> sync_delay_ms;
  std::atomic<std::int64_t> syncs_failed;  // what was really injected
  std::atomic<std::int64_t> writes_failed;
};

Controls* Open() {
  const char* path = std::getenv("CHAOS_CONTROL");
  if (path == nullptr) return nullptr;
  const int fd = ::open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;
  void* memory = ::mmap(nullptr, sizeof(Controls), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ::close(fd);
  return memory == MAP_FAILED ? nullptr : static_cast<Controls*>(memory);
}

Controls* Now() {
  static Controls* const controls = Open();
  return controls;
}

template <class Function>
Function Real(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

// True for the one call at which the countdown ends.
bool CountDown(std::atomic<std::int64_t>& left) {
  std::int64_t seen = left.load();
  while (seen > 0) {
    if (left.compare_exchange_weak(seen, seen - 1)) return seen == 1;
  }
  return false;
}

bool MayFail(int fd) {
  static const std::string root = [] {
    const char* text = std::getenv("CHAOS_ROOT");
    return std::string(text == nullptr ? "" : text);
  }();
  if (root.empty()) return false;
  char link[64];
  char path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = ::readlink(link, path, sizeof path);
  return size > static_cast<ssize_t>(root.size()) &&
         std::memcmp(path, root.data(), root.size()) == 0;
}

// 0 = go on, else the errno of a sync that is not made.
int SyncFault(int fd) {
  Controls* const controls = Now();
  if (controls == nullptr) return 0;
  const std::int64_t delay = controls->sync_delay_ms.load();
  if (delay <= 0 && controls->sync_fails_at.load() <= 0) return 0;
  const int saved = errno;
  const bool ours = MayFail(fd);
  if (ours && delay > 0) ::usleep(static_cast<useconds_t>(delay * 1000));
  errno = saved;
  if (!ours || !CountDown(controls->sync_fails_at)) return 0;
  ++controls->syncs_failed;
  return EIO;
}

enum class WriteFault { kNone, kFull, kShort };

WriteFault FaultOfWrite(int fd) {
  Controls* const controls = Now();
  if (controls == nullptr || controls->write_fails_at.load() <= 0) return WriteFault::kNone;
  const int saved = errno;
  const bool hit = MayFail(fd) && CountDown(controls->write_fails_at);
  errno = saved;
  if (!hit) return WriteFault::kNone;
  ++controls->writes_failed;
  return controls->short_write.load() != 0 ? WriteFault::kShort : WriteFault::kFull;
}

std::int64_t WallOffset() {
  Controls* const controls = Now();
  return controls == nullptr ? 0 : controls->wall_offset_ns.load();
}

constexpr std::int64_t kSecond = 1'000'000'000;

timespec Shifted(timespec at) {
  const std::int64_t total =
      static_cast<std::int64_t>(at.tv_sec) * kSecond + at.tv_nsec + WallOffset();
  return {static_cast<time_t>(total / kSecond), static_cast<long>(total % kSecond)};
}

template <class Call>
ssize_t Write(int fd, std::size_t size, Call call) {
  switch (FaultOfWrite(fd)) {
    case WriteFault::kFull:
      errno = ENOSPC;
      return -1;
    case WriteFault::kShort:
      return call(size > 1 ? size / 2 : size);
    case WriteFault::kNone:
      break;
  }
  return call(size);
}

}  // namespace

extern "C" {

int fsync(int fd) {
  static const auto real = Real<int (*)(int)>("fsync");
  if (const int fault = SyncFault(fd); fault != 0) {
    errno = fault;
    return -1;
  }
  return real(fd);
}

int fdatasync(int fd) {
  static const auto real = Real<int (*)(int)>("fdatasync");
  if (const int fault = SyncFault(fd); fault != 0) {
    errno = fault;
    return -1;
  }
  return real(fd);
}

ssize_t write(int fd, const void* bytes, size_t size) {
  static const auto real = Real<ssize_t (*)(int, const void*, size_t)>("write");
  return Write(fd, size, [&](size_t some) { return real(fd, bytes, some); });
}

ssize_t pwrite(int fd, const void* bytes, size_t size, off_t at) {
  static const auto real = Real<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  return Write(fd, size, [&](size_t some) { return real(fd, bytes, some, at); });
}

ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t at) {
  static const auto real = Real<ssize_t (*)(int, const void*, size_t, off64_t)>("pwrite64");
  return Write(fd, size, [&](size_t some) { return real(fd, bytes, some, at); });
}

int clock_gettime(clockid_t clock, timespec* at) noexcept {
  static const auto real = Real<int (*)(clockid_t, timespec*)>("clock_gettime");
  const int done = real(clock, at);
  if (done == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) *at = Shifted(*at);
  return done;
}

int gettimeofday(timeval* at, void*) noexcept {
  timespec now{};
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  *at = {now.tv_sec, now.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* at) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (at != nullptr) *at = now.tv_sec;
  return now.tv_sec;
}

}  // extern "C"
