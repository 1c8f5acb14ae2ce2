#include "common/first_line.h"

#include "common/foreign_file.h"

namespace launch {

std::string FirstLine(const std::string& path) {
  constexpr std::size_t kMost = 64 * 1024;
  std::string text = ReadHead(path, kMost);
  return text.substr(0, text.find('\n'));
}

std::string KernelBootId() { return FirstLine("/proc/sys/kernel/random/boot_id"); }

}  // namespace launch
