// The processes of a run that starts once per node, which a launcher in it starts, and the texts
// that hold the launchers.
#pragma once

#include <optional>

#include "common/ids.h"
#include "common/plan.h"

namespace launch {

// The rank of the text whose launcher starts this process. Absent: ranks are started directly, or
// there is no such process.
std::optional<Rank> TextThatStarts(const Plan& plan, Rank process);

}  // namespace launch
