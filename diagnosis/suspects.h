// One possible cause each: what a line of the log, the kernel or the end of a rank tells by itself.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/diagnosis.h"
#include "diagnosis/log_scanner.h"
#include "diagnosis/node_evidence.h"
#include "diagnosis/rank_end.h"
#include "diagnosis/signature.h"

namespace launch {

// How the cause of an uncaught exception begins.
inline constexpr std::string_view kEndedWith = "The program ended with ";

inline constexpr std::uint64_t kOutside =
    std::numeric_limits<std::uint64_t>::max();  // place of what is not in the log

struct Suspect {
  std::string label;
  Tier tier = Tier::kWrapper;
  int weight = 0;
  Confidence confidence = Confidence::kLikely;
  std::uint64_t offset = 0;
  std::optional<Rank> rank;
  std::string text;
  std::string cause;
  std::string remedy;
  std::string action;
  bool tells_without_failure = false;
  bool of_node = false;      // a line of the kernel that the node sent
  bool is_caught = false;    // the program says beside it that it goes on
  bool is_unproven = false;  // and nothing shows that it did
  bool of_script = false;    // a shell says it of a command, and the script goes on
  bool of_compiler = false;  // its own line, whatever it compiles
  bool only_warns = false;   // the line calls itself a warning, or tries again
  bool is_over = false;      // an outage that ended before anything failed
  std::map<std::string, double> numbers;
  std::vector<std::string> changes;
};

// What the row of the table says.
Suspect SuspectOf(const LogHit& hit);
// A try that failed: more than a note where it was the last one and the run failed.
Suspect SuspectOfRetry(const LogHit& hit);
// The numbers of a memory request that a GPU refused.
Suspect SuspectOfOom(const LogHit& hit, bool expandable_segments);
// The suspect that a line with an Xid names; absent: the Xid means nothing by itself.
std::optional<Suspect> SuspectOfXid(const LogHit& hit);
std::optional<Suspect> SuspectOfXid(int code, std::optional<Rank> rank);  // of the driver
// A Python exception; absent: a warning, one that passes on another one's failure, or one whose
// text another row of the table reads in `log`.
std::optional<Suspect> SuspectOfException(const LogHit& hit, const LogEvidence& log);
// What an end alone tells; weaker than anything a log says about the cause.
std::optional<Suspect> SuspectOfEnd(const RankEnd& end, std::uint64_t offset,
                                    const std::string& text);
// What the kernel killed in the rank's control group: a worker of its data loader, or it.
Suspect SuspectOfOomKills(const NodeEvidence& node, bool of_loader);
// Whether the exception says that something failed at all: false for warnings.
bool IsException(const LogHit& hit);

}  // namespace launch
