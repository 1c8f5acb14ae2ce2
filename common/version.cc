#include "common/version.h"

namespace launch {

std::string_view Version() { return LAUNCH_VERSION; }

}  // namespace launch
