// One attempt as its transitions see it, and what those before and after its start share.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "controller/core/draft.h"

namespace launch::controller {

struct Facts {  // of one attempt, in one look
  const JobRecord& job;
  const AttemptRecord& attempt;
  const std::map<NodeId, AllocRecord>& allocs;
  LiveAttempt& live;
};

inline bool AllOf(const Facts& facts, auto predicate) {
  return std::all_of(facts.allocs.begin(), facts.allocs.end(),
                     [&](const auto& entry) { return predicate(entry.second); });
}

inline std::vector<NodeId> NodesWhere(const Facts& facts, auto predicate) {
  std::vector<NodeId> nodes;
  for (const auto& [node, alloc] : facts.allocs) {
    if (predicate(alloc)) nodes.push_back(node);
  }
  return nodes;
}

std::string Names(const std::vector<NodeId>& nodes);  // "gpu1, gpu2"
// The only node of the list; absent for several: when several fail in the same way, the reason is
// not one of them.
std::optional<NodeId> OnlyOne(const std::vector<NodeId>& nodes);

// Whether a job avoids a node because the others could not reach it: `why` of its excluded_nodes.
inline bool WasUnreachable(const std::string& why) {
  return why.starts_with("network_unreachable");
}

// How long the attempt has run, never less than nothing; after its end, how long it ran. No jump of
// the wall clock counts unless our host was booted while the attempt was being stopped.
Millis RunTime(const AttemptRecord& attempt, const Live& live, const Now& now);  // deadlines.cc
// The same after its end, also of records that do not hold it.
inline Millis RanFor(const AttemptRecord& attempt) {
  return attempt.ran.value_or(attempt.ended - attempt.started);
}

Ending CancelledEnding(const JobRecord& job);
Ending StartFailed(std::optional<NodeId> node, std::string text);

// Moves the attempt to `stopping`; ask.cc tells its nodes. The first cause names the outcome.
// `node` is the one at fault, where no rank tells.
void BeginStop(Draft& draft, const Facts& facts, StopCause cause, std::string text,
               std::optional<NodeId> node = std::nullopt);

// ---- decide_start.cc ----
// Moves the attempt from `preparing` to `launching`, or ends it.
void SettlePreparing(Draft& draft, const Facts& facts);

}  // namespace launch::controller
