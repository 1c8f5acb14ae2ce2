#include "common/launcher_process.h"

#include <charconv>

namespace launch {
namespace {

// The number behind `name` at the front of `rest`, which both are taken from.
std::optional<std::int64_t> TakeNumber(std::string_view& rest, std::string_view name,
                                       std::int64_t most) {
  if (!rest.starts_with(name)) return std::nullopt;
  std::int64_t value = 0;
  const char* const begin = rest.data() + name.size();
  const auto [end, bad] = std::from_chars(begin, rest.data() + rest.size(), value);
  if (bad != std::errc{} || value < 0 || value > most) return std::nullopt;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return value;
}

}  // namespace

std::string LineOf(const LauncherProcess& process) {
  std::string line = std::string(kProcessLine) + "rank " + std::to_string(process.rank) +
                     ", local rank " + std::to_string(process.local_rank) + ", pid " +
                     std::to_string(process.pid);
  if (process.end) {
    if (const auto* exited = std::get_if<Exited>(&*process.end))
      line += ", exit " + std::to_string(exited->code);
    if (const auto* signalled = std::get_if<Signalled>(&*process.end))
      line += ", ended by " + std::to_string(signalled->signal);
  }
  return process.error.empty() ? line : line + ", " + process.error;
}

std::optional<LauncherProcess> ProcessIn(std::string_view line) {
  if (!line.starts_with(kProcessLine)) return std::nullopt;
  line.remove_prefix(kProcessLine.size());
  const auto rank = TakeNumber(line, "rank ", 65'535);
  const auto local_rank = TakeNumber(line, ", local rank ", 65'535);
  const auto pid = TakeNumber(line, ", pid ", INT32_MAX);
  if (!rank || !local_rank || !pid) return std::nullopt;
  LauncherProcess process{.rank = static_cast<Rank>(*rank),
                          .local_rank = static_cast<int>(*local_rank),
                          .pid = *pid,
                          .end = std::nullopt,
                          .error = {}};
  if (const auto code = TakeNumber(line, ", exit ", 255))
    process.end = Exited{static_cast<int>(*code)};
  else if (const auto signal = TakeNumber(line, ", ended by ", 64))
    process.end = Signalled{static_cast<int>(*signal), false};
  if (line.starts_with(", ")) process.error = line.substr(2);
  return process;
}

std::vector<LauncherProcess> ProcessesIn(const std::vector<std::string>& kernel_lines) {
  std::vector<LauncherProcess> processes;
  for (const std::string& line : kernel_lines) {
    if (auto process = ProcessIn(line)) processes.push_back(*std::move(process));
  }
  return processes;
}

}  // namespace launch
