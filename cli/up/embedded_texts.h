// Files that the build puts into the program: scripts of this folder, units of configs/systemd.
#pragma once

#include <string_view>

namespace launch {

extern const std::string_view kProbeScript;
extern const std::string_view kServiceScript;
extern const std::string_view kReleasesScript;
extern const std::string_view kAllocationScript;
extern const std::string_view kAgentUnit;
extern const std::string_view kControllerUnit;

}  // namespace launch
