// What the flags of a launcher (torchrun, deepspeed) say once its own parser would have read them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/shell_text.h"

namespace launch {

enum class ProcsWord {
  kNone,
  kNumber,
  kGpu,
  kCpu,
  kAuto,
  kUnknown
};  // kUnknown: known on the node only

struct LauncherArguments {
  ProcsWord procs = ProcsWord::kNone;
  int procs_number = 0;
  std::optional<int> nodes_min;  // absent: not given, or known on the node only
  std::optional<int> nodes_max;
  std::string nodes_text;  // as written
  bool module = false;     // -m
  bool no_python = false;
  std::string local_rank_flag;  // "--local_rank": the script gets it with its local rank
  std::string role = "default";
  std::vector<std::string> replaced;  // canonical names of flags whose value is ours: node_rank ...
  std::vector<std::string> dropped;   // flags that steer the launcher itself: "--log-dir=/x"
  std::optional<std::string> max_restarts;
  std::size_t script = 0;  // index of the script word in the words given
};

// A value the text itself fixes: "$NGPU" with NGPU=4 in front. Absent: not known here.
using KnownVariables = std::vector<std::pair<std::string, std::string>>;
std::optional<std::string> FixedValue(const ShellWord& word, const KnownVariables& known);

}  // namespace launch
