// Which release may follow another one on a running cluster.
#pragma once

#include <string_view>

#include "common/error.h"

namespace launch::up {

// Two versions of one cluster speak to each other when their minor versions are at most one apart.
// kFailedPrecondition where `to` is not such a step up from `from` (or the same).
Result<void> CheckUpgrade(std::string_view from, std::string_view to);

}  // namespace launch::up
