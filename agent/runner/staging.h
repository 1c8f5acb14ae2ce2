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
  // What the rank's command finds, behind scripts that activate its environment.
  std::function<Result<std::vector<EnvVar>>(const RankSpec& rank,
                                            const std::optional<LocalAccount>& account)>
      environment_of = {};
  // Of a job with an image; absent: there is none, or its runtime is not here.
  std::optional<ImageCommand> image = {};
  std::function<std::optional<RuntimeFacts>(const ContainerSpec& container,
                                            const ImageCommand& command,
                                            const std::optional<LocalAccount>& account)>
      probe_image = {};
  std::function<NetworkFacts(
      const std::string& interpreter, const AllocationSpec& spec, const to_node::NetworkTest& test,
      const std::optional<LocalAccount>& account, const std::atomic<bool>& cancel)>
      test_network = {};
  // Told before a wait that may be long, in words: "the answer of the interpreter /x/python".
  std::function<void(std::string what)> waits_for = {};
  // Whose files are looked at, with this account's eyes; absent = the agent's own.
  std::optional<LocalAccount> account = {};
};

// Blocking, with a deadline on each wait; returns early when `cancel` turns true. Facts only: the
// controller judges them. After a failed `setup` nothing else is looked at.
StagingFacts RunStaging(const StagingInput& input, const std::atomic<bool>& cancel);

// Whether workdir is here, and is that of the submitter as far as he told.
bool SeesWorkdir(const AllocationSpec& spec, const std::optional<LocalAccount>& account);

// The marker that proves a shared workdir: its path, and its end; gone is fine. Blocking.
std::string MarkerPath(const AllocationSpec& spec, const std::string& marker);
void RemoveMarker(const std::string& path, const std::optional<LocalAccount>& account);

}  // namespace launch::agent
