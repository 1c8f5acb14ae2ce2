// One node in full, for people.
#pragma once

#include <string>

#include "common/view.h"

namespace launch {

// Everything that its agent reports, a line for each part; what it does not know is left out.
std::string NodeText(const NodeView& node);

}  // namespace launch
