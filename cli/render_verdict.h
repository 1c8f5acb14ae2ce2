// A verdict as people and as programs read it.
#pragma once

#include <string>

#include "common/diagnosis.h"

namespace launch {

// {label, confidence, rank, node, evidence[], cause, remedy, action, numbers, changes[]}; absent
// rank or node: null.
std::string VerdictJson(const Verdict& verdict);

// Several lines: label and certainty, cause, evidence, remedy, action.
std::string VerdictText(const Verdict& verdict);

// One line for `status`: "cuda_oom (likely), rank 3: cause".
std::string VerdictLine(const Verdict& verdict);

}  // namespace launch
