#include "cli/node_check.h"

#include "common/units.h"
#include "preflight/gpu_check.h"
#include "preflight/host_check.h"
#include "preflight/preflight.h"

namespace launch {
namespace {

// Nodes of an inventory file have no state: nobody expects an answer of them.
bool Answers(const NodeView& view) {
  return view.silent_ms == 0 && view.state != "silent" && view.state != "unknown" &&
         view.state != "fenced";
}

}  // namespace

PreflightReport ReportOfNode(const NodeView& view) {
  PreflightReport report;
  if (!Answers(view)) {
    const std::string heard = view.last_seen == WallTime{} ? "" : FormatLocalIso(view.last_seen);
    JudgeSilence(view.inventory.node, view.reason, heard, report);
  }
  Append(report, JudgeNode(view.inventory));
  JudgeForeignUse(view.inventory, view.free_gpus, view.samples, report);
  return report;
}

}  // namespace launch
