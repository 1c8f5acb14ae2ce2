// Programs that start the processes of a node themselves: fine-tuning CLIs, composer, fabric ...
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "planner/line/shell_text.h"

namespace launch {

struct OwnLauncher {
  std::string_view program;
  std::string_view procs;    // its flag for processes of a node, with '_'; empty: only those of all
  bool total = false;        // the flag counts the processes of all nodes
  bool device_list = false;  // the flag names devices, not their number
  std::string_view sign;     // a word begins so where it starts several; empty: it always does
  std::string_view world;    // its flag for the processes of all nodes, beside `procs`
  // The launcher's flag for the place of this node, with '_'; empty: it takes that from the
  // environment alone.
  std::string_view node_rank;
  bool place_from_env = false;   // NODE_RANK and WORLD_SIZE count where those flags are left out
  bool launcher_behind = false;  // words behind `--` are those of torchrun or accelerate
  bool returns = false;          // it ends while what it started goes on: the training follows
  bool module = false;           // also `python -m NAME`: for others that may be the user's own
};

// The launcher of this name; null: there is none.
const OwnLauncher* OwnLauncherOf(std::string_view program);

// A program that starts torchrun, or its library, by itself: llamafactory-cli, composer, fabric ...
bool StartsRanksItself(std::string_view program);

struct OwnLauncherPlace {
  const OwnLauncher* own = nullptr;
  std::size_t behind = 0;  // its first argument
};
// The launcher that words[at] names, by itself or as `python -m NAME`; some start several processes
// only for several devices.
std::optional<OwnLauncherPlace> OwnLauncherAt(const std::vector<ShellWord>& words, std::size_t at);

// `trl vllm-serve`, `swift rollout`: what it starts answers to a training.
bool IsServer(const std::vector<ShellWord>& words);

}  // namespace launch
