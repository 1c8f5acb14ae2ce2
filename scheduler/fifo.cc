#include "scheduler/fifo.h"

#include <utility>

namespace launch {

QueueOutcome RunFifo(const std::vector<QueueEntry>& entries,
                     const std::function<std::optional<Waits>(JobId)>& start) {
  QueueOutcome outcome;
  for (const QueueEntry& entry : entries) {
    if (entry.passed_over) {
      outcome.verdicts.push_back({entry.job, entry.passed_over});
      continue;
    }
    if (outcome.blocked_by) continue;
    std::optional<Waits> waits = start(entry.job);
    if (!waits) {
      outcome.verdicts.push_back({entry.job, std::nullopt});
      continue;
    }
    outcome.verdicts.push_back({entry.job, std::move(waits->reason)});
    if (waits->blocks) outcome.blocked_by = entry.job;
  }
  return outcome;
}

}  // namespace launch
