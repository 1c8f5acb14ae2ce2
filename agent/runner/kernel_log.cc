#include "agent/runner/kernel_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <ctime>

namespace launch::agent {
namespace {

constexpr std::size_t kMostLines = 32;
constexpr std::size_t kLongest = 512;
constexpr std::size_t kMostKept = 1024;  // records
constexpr Millis kBeforeTheEnd{60'000};
constexpr Millis kAfterTheEnd{5'000};
constexpr Millis kPatience{500};  // a ring that is written faster than it is read

// Of a GPU, or of one process: whose it was is asked later.
constexpr std::string_view kOfGpuOrProcess[] = {"NVRM: Xid",
                                                "oom-kill:",
                                                "Killed process ",
                                                "segfault at",
                                                "general protection fault",
                                                "fork rejected by pids controller"};

// Lines about the node as a whole: storage, links and memory. Printed by the kernel's drivers/nvme,
// fs/nfs, fs/ext4, mlx5, drivers/edac and mm/memory-failure.c.
constexpr std::string_view kOfNode[] = {"nfs: server",
                                        "Buffer I/O error",
                                        "blk_update_request: I/O error",
                                        "I/O error, dev ",
                                        "Remounting filesystem read-only",
                                        "EXT4-fs error",
                                        "XFS (",
                                        "VFS: file-max limit",
                                        "soft lockup",
                                        " UE memory",
                                        "Memory failure: 0x",
                                        "fallen off the bus"};

Millis KernelAhead() {
  timespec boot{};
  timespec mono{};
  ::clock_gettime(CLOCK_BOOTTIME, &boot);
  ::clock_gettime(CLOCK_MONOTONIC, &mono);
  return Millis{(boot.tv_sec - mono.tv_sec) * 1000 + (boot.tv_nsec - mono.tv_nsec) / 1'000'000};
}

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// The digits behind `key`.
std::string_view NumberAfter(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  std::string_view rest = text.substr(at + key.size());
  const std::size_t end = rest.find_first_not_of("0123456789");
  return rest.substr(0, end);
}

}  // namespace

bool KernelLines::Matters(std::string_view text, Millis at) {
  const Millis started{ToMs(wish_.started)};
  const Millis ended{ToMs(wish_.ended)};
  if (at > ended + kAfterTheEnd || at < started) return false;
  const std::string own = std::to_string(wish_.pid);
  if (Has(text, "NVRM: Xid")) return true;
  if (Has(text, "oom-kill:")) {
    const std::string_view pid = NumberAfter(text, ",pid=");
    const bool ours = pid == own || (!wish_.cgroup.empty() && Has(text, wish_.cgroup));
    if (ours) killed_.push_back("Killed process " + std::string(pid) + " ");
    return ours;
  }
  if (Has(text, "Killed process ")) {
    const bool known =
        std::ranges::any_of(killed_, [&](const std::string& killed) { return Has(text, killed); });
    return known || NumberAfter(text, "Killed process ") == own;
  }
  if (Has(text, "fork rejected by pids controller"))
    return !wish_.cgroup.empty() && Has(text, wish_.cgroup);
  if (Has(text, "segfault at") || Has(text, "general protection fault"))
    return Has(text, "[" + own + "]");
  if (at < ended - kBeforeTheEnd) return false;
  return std::ranges::any_of(kOfNode, [&](std::string_view part) { return Has(text, part); });
}

void KernelLines::Add(std::string_view record) {
  const std::size_t semicolon = record.find(';');
  if (semicolon == std::string_view::npos) return;
  std::string_view stamp = record.substr(0, semicolon);
  for (int field = 0; field < 2; ++field) {
    const std::size_t comma = stamp.find(',');
    if (comma == std::string_view::npos) return;
    stamp.remove_prefix(comma + 1);
  }
  std::int64_t us = 0;
  if (std::from_chars(stamp.data(), stamp.data() + stamp.size(), us).ec != std::errc{}) return;
  std::string_view text = record.substr(semicolon + 1);
  text = text.substr(0, std::min(text.find('\n'), kLongest));
  if (!Matters(text, Millis{us / 1000} + wish_.boot_minus_kernel)) return;
  if (lines_.size() == kMostLines) lines_.erase(lines_.begin());
  lines_.emplace_back(text);
}

std::vector<std::string> KernelLines::Take() { return std::move(lines_); }

bool KernelLines::MayMatter(std::string_view record) {
  const auto has = [&](std::string_view part) { return Has(record, part); };
  return std::ranges::any_of(kOfGpuOrProcess, has) || std::ranges::any_of(kOfNode, has);
}

void KernelLog::Drain() {
  if (!log_) log_.Reset(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!log_) return;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  char record[8192];  // the kernel gives one record a read, never a part of one
  while (std::chrono::steady_clock::now() < end) {
    const ssize_t got = ::read(log_.get(), record, sizeof record);
    if (got < 0 && (errno == EPIPE || errno == EINTR)) continue;  // EPIPE: overwritten meanwhile
    if (got <= 0) break;
    const std::string_view line(record, static_cast<std::size_t>(got));
    if (!KernelLines::MayMatter(line)) continue;
    if (kept_.size() == kMostKept) kept_.pop_front();
    kept_.emplace_back(line);
  }
}

std::vector<std::string> KernelLog::Of(const KernelLogWish& asked) {
  Drain();
  KernelLogWish wish = asked;
  if (wish.boot_minus_kernel == Millis{0}) wish.boot_minus_kernel = KernelAhead();
  KernelLines lines(wish);
  for (const std::string& record : kept_) lines.Add(record);
  return lines.Take();
}

}  // namespace launch::agent
