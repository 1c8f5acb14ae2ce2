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
#include "diagnosis/memory_growth.h"
#include "diagnosis/node_evidence.h"

namespace launch {

NodeEvidence EvidenceOf(const ExitReport& report);

// What the node's samples had said by then of what the rank had. Bytes.
struct LastSeen {
  std::vector<int> xids;                      // of its GPUs while it ran, oldest first
  std::uint64_t ecc_errors = 0;               // uncorrectable ones, while it ran
  std::vector<std::string> failed_gpus = {};  // "GPU 1 (UUID): lost: ...", as the driver says now
  bool had_no_gpu = false;
  std::optional<std::uint64_t> gpu_total;
  std::optional<std::uint64_t> gpu_used;
  std::optional<std::uint64_t> gpu_foreign;  // of processes that are nobody's of ours
  std::optional<std::uint64_t> host_total;
  std::optional<std::uint64_t> host_available;
  std::optional<MemoryGrowth> growth = {};  // of what PyTorch held; absent: no trend
  friend bool operator==(const LastSeen&, const LastSeen&) = default;
};

// A rank that did not end well.
struct FailedRank {
  NodeId node;
  ExitReport exit;
  bool expandable_segments = false;  // in the environment it had
  LastSeen seen = {};
  std::optional<BootTime> ended = {};  // on the controller's clock
  friend bool operator==(const FailedRank&, const FailedRank&) = default;
};

// The ranks whose logs are worth reading, at most `most`: `first`, which is known to have failed
// first, in front, then by time of death.
std::vector<FailedRank> WorthReading(std::vector<FailedRank> ranks, std::optional<Rank> first,
                                     std::size_t most);

// What the rank's log and its exit report say together; it names rank and node.
Verdict JudgeRank(const LogEvidence& log, const FailedRank& rank,
                  const CompiledSignatures& signatures);

// "rank 3 on gpu01: signal 9 (SIGKILL)", "0.4 s later rank 0 on gpu02: exit 1": the ranks in
// the order of their ends, as far as these times can be compared.
std::vector<std::string> TimeLine(const std::vector<FailedRank>& ranks);

// Whether PyTorch's allocator is told so by either of its variables.
bool UsesExpandableSegments(const std::map<std::string, std::string>& env);

// The cause among many ranks that died of it: a verdict that names a cause before one that only
// noticed another rank's end, before none; then the first of `verdicts`, which come in the order in
// which the ranks are known to have failed. `verdicts` is not empty.
Verdict ChooseVerdict(const std::vector<Verdict>& verdicts);

}  // namespace launch
