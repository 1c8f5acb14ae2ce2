// Words of what the kernel counted and did not log, among the kernel's lines of an exit report.
#pragma once

#include <string_view>

namespace launch {

// "pids.max of /sys/fs/cgroup/job (512) was reached 3 times".
inline constexpr std::string_view kPidsMaxOf = "pids.max of ";

}  // namespace launch
