// What a running rank does right now: memory, age of its output, step.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/progress/progress_parser.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/inventory.h"

namespace launch::agent {

struct RunningRank {
  Key key;
  Rank rank = 0;
  std::int64_t pid = 0;
  std::string directory;       // of the rank: out, err, progress.jsonl
  std::string own;             // where progress.jsonl lies instead; empty = there
  std::string progress_regex;  // empty = none; a bad one counts as none
};

// Used by one thread. Reads at most the newest 64 KiB of a log per call.
class RankSampler {
 public:
  explicit RankSampler(std::string proc_root) : proc_root_(std::move(proc_root)) {}

  // Processes of the ranks at the last call, descendants too.
  const std::set<std::int64_t>& processes() const { return processes_; }

  // Ranks of `ended` are looked at for the last time: what they printed before they ended counts.
  // Forgets those that are not in `running`.
  std::vector<RankSample> Sample(const std::vector<RunningRank>& running,
                                 const std::vector<RunningRank>& ended, BootTime now);

 private:
  struct Followed {
    std::uint64_t offset = 0;  // read up to here
  };
  struct Watched {
    ProgressParser parser;
    Followed out;
    Followed err;
    Followed progress;
    BootTime last_output{};
    bool fresh = true;  // not looked at yet
  };
  Watched Begin(const RunningRank& rank, BootTime now) const;
  RankSample Look(const RunningRank& rank, Watched& watched, BootTime now);

  std::string proc_root_;
  std::set<std::int64_t> processes_;
  std::map<std::pair<Key, Rank>, Watched> watched_;
};

struct TreeUse {
  std::uint64_t rss_bytes = 0;  // resident; what the processes share is counted once
  std::uint64_t cpu_ms = 0;     // used so far by those that live
  std::vector<std::int64_t> pids;
};
// What a process and all its descendants use.
TreeUse UseOfTree(const std::string& proc_root, std::int64_t pid);

}  // namespace launch::agent
