// When a job may start, as people write it.
#pragma once

#include <string_view>

#include "common/clock.h"
#include "common/error.h"

namespace launch {

// "2026-12-01T20:00[:00]" in local time, with "Z" or "+02:00" elsewhere; "20:00", the next time of
// that hour; "now+2h" or "+2h"; "tomorrow".
Result<WallTime> ParseBegin(std::string_view text, WallTime now);

}  // namespace launch
