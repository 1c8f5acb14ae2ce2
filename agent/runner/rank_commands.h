// What a rank or `setup` executes, once its programs are found where the job has them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/account/local_account.h"
#include "agent/runner/container.h"
#include "common/error.h"
#include "common/launch.h"

namespace launch::agent {

struct ShimWish {  // what differs between a rank and `setup`
  std::vector<std::string> argv;
  std::vector<std::string> env;
  std::vector<int> cpus;
  bool with_ports = false;
};

struct CommandWish {
  Rank rank = 0;
  ShimWish shim;                            // an empty word stands for the interpreter
  std::optional<ContainerInput> container;  // but for argv and env, which are those of `shim`
};

struct FoundCommand {
  Rank rank = 0;
  Result<ShimWish> shim;
  std::string stage;  // what failed: "interpreter", "container"
};

// Looks for programs along the job's PATH and in its workdir as the job's account. To call from a
// worker thread: a network file system may never answer. One answer for each wish, in their order.
std::vector<FoundCommand> FindCommands(const AllocationSpec& spec,
                                       const std::optional<LocalAccount>& account,
                                       std::vector<CommandWish> wishes);

// The command that asks the Python of the job's image about itself; absent: the image's runtime is
// not here. Looks for programs as FindCommands does.
std::optional<ImageCommand> FindImageCommand(const AllocationSpec& spec,
                                             const std::optional<LocalAccount>& account,
                                             const CommandWish& wish);

}  // namespace launch::agent
