// What the kernel wrote while a rank ran and may explain its end.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/unique_fd.h"

namespace launch::agent {

struct KernelLogWish {
  BootTime started{};           // of the rank: GPU errors since then count
  BootTime ended{};             // other trouble of the node counts for a minute before it
  std::int64_t pid = 0;         // of the rank
  std::string cgroup;           // part of the name of its cgroup; empty: it has none
  Millis boot_minus_kernel{0};  // the kernel's stamps stand still while the machine sleeps
};

// Collects the lines that matter from records as /dev/kmsg gives them: "6,1234,5678901,-;text",
// with stamps in us. At most 32 lines, oldest first, without their stamps. Lines about the end of
// one process (out of memory, a crash) count only if it is one of the rank's.
class KernelLines {
 public:
  explicit KernelLines(const KernelLogWish& wish) : wish_(wish) {}
  void Add(std::string_view record);
  // Whether the record may matter to any rank; the many others need not be kept.
  static bool MayMatter(std::string_view record);
  std::vector<std::string> Take();

 private:
  bool Matters(std::string_view text, Millis at);
  const KernelLogWish& wish_;
  std::vector<std::string> killed_;  // "Killed process N " of processes of the rank
  std::vector<std::string> lines_;
};

// The kernel's log, each record read once however many ranks end. Where it may not be read there
// are no lines.
class KernelLog {
 public:
  explicit KernelLog(std::string path) : path_(std::move(path)) {}
  std::vector<std::string> Of(const KernelLogWish& wish);

 private:
  void Drain();
  std::string path_;
  UniqueFd log_;
  std::deque<std::string> kept_;
};

}  // namespace launch::agent
