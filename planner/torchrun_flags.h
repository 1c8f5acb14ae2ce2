// The flags of torchrun (and of torch.distributed.launch), read as its own argument parser does.
#pragma once

#include <optional>
#include <string>
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

struct TorchrunArguments {
  ProcsWord procs = ProcsWord::kNone;
  int procs_number = 0;
  std::optional<int> nodes_min;  // absent: not given, or known on the node only
  std::optional<int> nodes_max;
  std::string nodes_text;  // as written
  bool module = false;     // -m
  bool no_python = false;
  bool use_env = true;  // false: --local-rank=N is passed to the script
  std::string role = "default";
  std::vector<std::string> replaced;  // canonical names of flags whose value is ours: node_rank ...
  std::vector<std::string> dropped;   // flags that steer the launcher itself: "--log-dir=/x"
  std::optional<std::string> max_restarts;
  std::size_t script = 0;  // index of the script word in the words given
};

// A value the text itself fixes: "$NGPU" with NGPU=4 in front. Absent: not known here.
using KnownVariables = std::vector<std::pair<std::string, std::string>>;
std::optional<std::string> FixedValue(const ShellWord& word, const KnownVariables& known);

// `words` starts behind "torchrun". kUnimplemented: a flag that is not known or changes what ranks
// are; kInvalidArgument: a value that torchrun itself would refuse, or no script.
Result<TorchrunArguments> ReadTorchrun(const std::vector<ShellWord>& words, std::size_t first,
                                       bool launch_module, const KnownVariables& known);

}  // namespace launch
