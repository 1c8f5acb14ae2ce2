// What an exit report proves, as evidence; and the one verdict of an attempt from those of its
// ranks.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/diagnosis.h"
#include "common/launch.h"
#include "diagnosis/compiled_signatures.h"
#include "diagnosis/log_scanner.h"
#include "diagnosis/node_evidence.h"

namespace launch {

NodeEvidence EvidenceOf(const ExitReport& report);

// A rank that did not end well.
struct FailedRank {
  NodeId node;
  ExitReport exit;
  bool expandable_segments = false;  // in the environment it had
  friend bool operator==(const FailedRank&, const FailedRank&) = default;
};

// The ranks whose logs are worth reading, at most `most`: `first`, which is known to have failed
// first, in front, then by time of death.
std::vector<FailedRank> WorthReading(std::vector<FailedRank> ranks, std::optional<Rank> first,
                                     std::size_t most);

// What the rank's log and its exit report say together; it names rank and node.
Verdict JudgeRank(const LogEvidence& log, const FailedRank& rank,
                  const CompiledSignatures& signatures);

// Whether PyTorch's allocator is told so by either of its variables.
bool UsesExpandableSegments(const std::map<std::string, std::string>& env);

// The cause among many ranks that died of it: a verdict that names a cause before one that only
// noticed another rank's end, before none; then the first of `verdicts`, which come in the order in
// which the ranks are known to have failed. `verdicts` is not empty.
Verdict ChooseVerdict(const std::vector<Verdict>& verdicts);

}  // namespace launch
