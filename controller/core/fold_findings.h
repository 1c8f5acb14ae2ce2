// What of many nodes' findings stays with a job.
#pragma once

#include <cstddef>
#include <vector>

#include "common/diagnosis.h"

namespace launch::controller {

// Nodes of one code and severity that are told one by one; the first with its whole evidence.
inline constexpr std::size_t kFindingsPerCode = 8;
inline constexpr std::size_t kWholeEvidence = 4096;  // bytes
inline constexpr std::size_t kCutEvidence = 512;     // bytes, of the others

// A thousand nodes that fail alike are one cause: the first of each code, and one sentence that
// names the rest. What comes out is some kilobytes for each code, whatever the number of nodes: a
// job's record is one row of the store, which has a limit. Idempotent; order is kept.
std::vector<Finding> FoldFindings(const std::vector<Finding>& findings);

}  // namespace launch::controller
