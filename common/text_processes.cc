#include "common/text_processes.h"

namespace launch {

std::optional<Rank> TextThatStarts(const Plan& plan, Rank process) {
  const Processes& all = plan.processes;
  const bool some = plan.start == StartKind::kPerNode && all.per_node > 1;
  if (!some || process < 0 || process >= all.total) return std::nullopt;
  return process / all.per_node;
}

}  // namespace launch
