// The flags of a launcher (torchrun, deepspeed), read as its own parser does, and what they say.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "planner/line/shell_text.h"
#include "planner/line/shell_values.h"

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
  std::string hostfile;          // of deepspeed, as written; empty: none is named
  std::string slots_differ;      // "2 to 4": those of the hosts in its text
  bool hostfile_unread = false;  // its text is not at hand, and no flag says how many nodes
  bool subset = false;           // its --include or --exclude takes some of the hosts
  std::size_t script = 0;        // index of the script word in the words given
};

struct FlagRule {
  std::string_view name;  // "nproc_per_node", with '_'
  int kind = 0;           // of the launcher's own
  bool takes_value = false;
};
struct ShortFlag {
  char letter = 0;  // 't' of "-t 3" and "-t3"
  std::string_view name;
};

// How one launcher's argument parser works: Python's argparse, which accepts every unambiguous
// beginning of a long flag.
struct FlagSyntax {
  std::string_view launcher;  // for texts
  std::span<const FlagRule> rules;
  std::span<const ShortFlag> shorts;
  bool dashes = false;    // '-' may stand for '_'
  bool end_mark = false;  // "--" ends the flags
};

// Hands each flag from words[first] on to `take`, with its value (empty for a switch), and returns
// the index of the script. kUnimplemented: a flag that is not known, or a variable that may hold
// flags; kInvalidArgument: a flag without its value, or no script.
Result<std::size_t> WalkFlags(
    const std::vector<ShellWord>& words, std::size_t first, const FlagSyntax& syntax,
    const KnownVariables& known,
    const std::function<Result<void>(const FlagRule& rule, const ShellWord& value)>& take);

// How the hint of a value ends that the launcher itself would refuse.
inline constexpr std::string_view kRefusedToo = " would refuse it too";

// Refusals in the launcher's name.
Unexpected FlagNotUnderstood(std::string_view launcher, std::string_view flag);
Unexpected BadFlagValue(std::string_view launcher, std::string_view flag, std::string_view value,
                        std::string_view wanted);
// The same of a number of GPUs or processes. One that was counted where the line was written is
// answered with how the job says it: `instead`.
Unexpected BadGpuCount(std::string_view launcher, std::string_view flag, std::string_view value,
                       std::string_view wanted, std::string_view instead);

}  // namespace launch
