// What an exit report proves, as evidence; and the one verdict of an attempt from those of its
// ranks.
#pragma once

#include <vector>

#include "common/diagnosis.h"
#include "common/launch.h"
#include "diagnosis/node_evidence.h"

namespace launch {

NodeEvidence EvidenceOf(const ExitReport& report);

// The cause among many ranks that died of it: a verdict that names a cause before one that only
// noticed another rank's end, before none; then the first of `verdicts`, which come in the order in
// which the ranks are known to have failed. `verdicts` is not empty.
Verdict ChooseVerdict(const std::vector<Verdict>& verdicts);

}  // namespace launch
