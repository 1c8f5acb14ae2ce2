// What this process took. Processor time: on a busy machine the wall says more of the others.
#pragma once

#include <sys/resource.h>

#include <ctime>

namespace launch::bench {

// Of this thread, in seconds.
inline double CpuSeconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Largest resident memory so far, in MiB.
inline double PeakMib() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace launch::bench
