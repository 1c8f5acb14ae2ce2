// Named crash points in the I/O adapters: tests kill the process exactly between two steps.
#pragma once

// LAUNCH_FAILPOINT("store.commit.before") expands to nothing unless the build has the CMake option
// LAUNCH_FAILPOINTS. There, with LAUNCH_FAILPOINT=name or name:nth in the environment, the nth pass
// through that point (the first, without a number) is a SIGKILL to this very process.
#ifdef LAUNCH_FAILPOINTS

#include <unistd.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <string_view>

namespace launch::internal {

// Passes count from when the environment names the point, so that a forked child starts anew.
inline void ReachFailpoint(std::string_view name, std::atomic<unsigned>& passes) {
  const char* text = std::getenv("LAUNCH_FAILPOINT");
  if (text == nullptr) return;
  const std::string_view wanted(text);
  const std::size_t colon = wanted.find(':');
  if (wanted.substr(0, colon) != name) return;
  unsigned nth = 1;
  if (colon != std::string_view::npos) {
    const std::string_view number = wanted.substr(colon + 1);
    std::from_chars(number.data(), number.data() + number.size(), nth);
  }
  if (++passes == nth) ::kill(::getpid(), SIGKILL);
}

}  // namespace launch::internal

#define LAUNCH_FAILPOINT(name)                                 \
  do {                                                         \
    static std::atomic<unsigned> launch_passes{0};             \
    ::launch::internal::ReachFailpoint((name), launch_passes); \
  } while (false)

#else

#define LAUNCH_FAILPOINT(name) \
  do {                         \
  } while (false)

#endif
