// What the kernel wrote while a rank ran and may explain its end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/clock.h"

namespace launch::agent {

struct KernelLogWish {
  std::string path = "/dev/kmsg";
  BootTime started{};           // of the rank: GPU errors since then count
  BootTime ended{};             // other trouble of the node counts for a minute before it
  std::int64_t pid = 0;         // of the rank
  std::string cgroup;           // part of the name of its cgroup; empty: it has none
  Millis boot_minus_kernel{0};  // the kernel's stamps stand still while the machine sleeps
};

// At most 32 lines, oldest first, without their stamps; empty where the log may not be read. Lines
// about the end of one process (out of memory, a crash) count only if it is one of the rank's.
std::vector<std::string> ReadKernelLog(const KernelLogWish& wish);

// The same from records as /dev/kmsg gives them: "6,1234,5678901,-;text", with stamps in us.
class KernelLines {
 public:
  explicit KernelLines(const KernelLogWish& wish) : wish_(wish) {}
  void Add(std::string_view record);
  std::vector<std::string> Take();

 private:
  bool Matters(std::string_view text, Millis at);
  const KernelLogWish& wish_;
  std::vector<std::string> killed_;  // "Killed process N " of processes of the rank
  std::vector<std::string> lines_;
};

}  // namespace launch::agent
