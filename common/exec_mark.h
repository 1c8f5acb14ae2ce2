// What tells the processes that `launch exec` started from all others.
#pragma once

namespace launch {

// Variable of what is started beside a rank: the attempt's directory on its node. `launch env` does
// not show it, so it gets into no shell but one that was started there.
inline constexpr const char* kExecMark = "LAUNCH_EXEC_BESIDE";

}  // namespace launch
