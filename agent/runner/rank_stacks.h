// Where the processes of a rank stand: their Python stacks, and what they do in the kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "agent/account/local_account.h"
#include "common/clock.h"
#include "common/stacks.h"

namespace launch::agent {

// The module that makes a Python process answer, and the directory of an attempt that holds it
// alone: whatever stands in PYTHONPATH can be imported.
extern const std::string_view kRankHookDirectory;
std::string_view RankHook();  // text of sitecustomize.py

struct StacksWish {
  Key key;
  Rank rank = 0;
  std::int64_t pid = 0;
  std::string file;                          // LAUNCH_STACKS of the rank
  std::optional<LocalAccount> account = {};  // that the rank runs as; absent = as this process
};

// What py-spy, run as the account, says of a process; absent: there is no py-spy, or it could not
// tell.
using AskPySpy = std::function<std::optional<std::string>(
    std::int64_t pid, const std::optional<LocalAccount>& account)>;

struct StackTools {
  std::string proc_root = "/proc";
  // For a process without the hook; see RunnerOptions.
  AskPySpy py_spy;
  Millis answer{1'500};  // of one process
};

// Looks at the process and what descends from it, at most 64. Nothing is stopped or changed: a
// process is sent the signal only if it holds `wish.file` open and catches that signal, and none is
// asked that is not of the account. Blocks for as long as the processes take to answer, at most
// some seconds.
RankStacks CollectStacks(const StacksWish& wish, const StackTools& tools);

}  // namespace launch::agent
