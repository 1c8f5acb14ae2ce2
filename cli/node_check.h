// `launch check NODE`: a node by itself, without a job.
#pragma once

#include "common/view.h"
#include "preflight/report.h"

namespace launch {

// What its agent reports, judged. A node that does not answer is an error: all else is what it told
// before.
PreflightReport ReportOfNode(const NodeView& view);

}  // namespace launch
