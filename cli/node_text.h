// One node in full, for people.
#pragma once

#include <string>

#include "common/view.h"

namespace launch {

// Its state in one word; "silent+drain" of one that takes no jobs either when it is back.
std::string ShownState(const NodeView& node);

// Everything that its agent reports, a line for each part; what it does not know is left out.
std::string NodeText(const NodeView& node);

}  // namespace launch
