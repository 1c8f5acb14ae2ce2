// Looks, on the node, at what a start needs: paths, interpreter, network, checkpoints, runtime.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/account/local_account.h"
#include "agent/runner/container.h"
#include "common/error.h"
#include "common/launch.h"
#include "common/node_messages.h"

namespace launch::agent {

using AskInterpreter = std::function<RuntimeFacts(
    const std::string& interpreter, const std::vector<EnvVar>& env,
    const std::optional<LocalAccount>& account, const std::atomic<bool>& cancel)>;

struct StagingInput {
  AllocationSpec spec;
  to_node::Stage stage;
  std::optional<int> setup_exit;
  std::string setup_tail;
  AskInterpreter probe_runtime;
  AskInterpreter read_runtime = {};
  // The environment that the rank's command finds once scripts have activated it.
  std::function<Result<std::vector<EnvVar>>(const RankSpec& rank,
                                            const std::optional<LocalAccount>& account)>
      environment_of = {};
  // How to run the Python of the job's image; absent: there is no image, or its runtime is not
  // here.
  std::optional<ImageCommand> image = {};
  std::function<std::optional<RuntimeFacts>(const ContainerSpec& container,
                                            const ImageCommand& command,
                                            const std::optional<LocalAccount>& account)>
      probe_image = {};
  std::function<NetworkFacts(
      const std::string& interpreter, const AllocationSpec& spec, const to_node::NetworkTest& test,
      const std::optional<LocalAccount>& account, const std::atomic<bool>& cancel)>
      test_network = {};
  // Called before a wait that may be long, with what is awaited in words: "the answer of the
  // interpreter /x/python".
  std::function<void(std::string what)> waits_for = {};
  // The account as which files are looked at; absent: the agent's own.
  std::optional<LocalAccount> account = {};
};

// Looks at all of it; blocks, with a deadline on each wait, and returns early when `cancel` turns
// true. Returns facts only: the controller judges them. After a failed `setup` nothing else is
// looked at.
StagingFacts RunStaging(const StagingInput& input, const std::atomic<bool>& cancel);

// Whether workdir is here and, as far as the submit told, is the submitter's.
bool SeesWorkdir(const AllocationSpec& spec, const std::optional<LocalAccount>& account);

// The marker that proves a shared workdir: its path, and its removal, which blocks; a missing one
// is no error.
std::string MarkerPath(const AllocationSpec& spec, const std::string& marker);
void RemoveMarker(const std::string& path, const std::optional<LocalAccount>& account);

}  // namespace launch::agent
