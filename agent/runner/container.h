// The command that runs another command inside of a container.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/account/local_account.h"
#include "common/error.h"
#include "common/launch.h"

namespace launch::agent {

// Name of a rank's container, unique on the host; a negative rank is the job's setup.
std::string ContainerName(const Key& key, Rank rank);

// What a container gets of the machine and of the account that ranks run as.
struct ContainerHost {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> groups;  // supplementary ones: who may read a project's files
  bool infiniband = false;            // /dev/infiniband is there
};
ContainerHost HostFor(const std::optional<LocalAccount>& account);  // absent = as this process

struct ContainerInput {
  ContainerSpec container;
  std::string name;  // unique on the host
  std::string workdir;
  std::string attempt_dir;  // seen inside at the same path, like workdir
  std::string own_dir;      // of the rank, where it may write; empty = in the attempt's
  std::string images_dir;   // for what is fetched once per node; empty = beside the attempts
  std::string lock;         // a file in it that what a daemon started keeps locked while it lives
  bool gpus = false;
  ContainerHost host;
  std::vector<std::string> argv;  // as without a container
  std::vector<std::string> env;   // "NAME=value"
};

struct Contained {
  std::vector<std::string> argv;
  std::vector<std::string> env;  // of the runtime; it passes the job's variables on
  std::string file = {};         // that the image is on this node; empty: the runtime keeps it
};

// A program of Python's in the job's image, to be run as its first rank will be.
struct ImageCommand {
  std::string program;  // path of the runtime
  Contained command;    // the program stands in place of its last word, which is empty
};

// Pure. No value of a variable is on the command line. All GPUs of the node are visible inside, and
// CUDA_VISIBLE_DEVICES chooses as it does outside. kInvalidArgument: the node has no runtime.
Result<Contained> ContainerCommand(const ContainerInput& input);

// Whether the container is the child of another process: a daemon or its tool starts what is to run
// in it.
bool HasDaemon(const ContainerSpec& container);
// `docker exec ... NAME argv`, with the account, directory and variables of `docker run`; TERM and
// PS1 of the client for a terminal.
std::vector<std::string> ExecInDaemon(const ContainerSpec& container, const std::string& name,
                                      const std::vector<std::string>& argv, bool terminal);

}  // namespace launch::agent
