// The verb `nvml-child`: a process that may hang in the driver instead of the agent, whose own
// thread could not be killed there.
#pragma once

#include <string>

namespace launch::agent {

inline constexpr const char* kNvmlChildVerb = "nvml-child";

// Answers requests on stdin with messages on stdout until the agent closes its end, then exit
// code 0. `library` empty: found by name. Ends also when the agent dies while a call hangs.
int RunNvmlChild(const std::string& library);

}  // namespace launch::agent
