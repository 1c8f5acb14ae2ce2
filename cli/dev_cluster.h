// The embedded cluster of this machine: one controller and a few agents, started and stopped by us.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/client.h"
#include "common/error.h"

namespace launch {

// Options of a start. Absent: as at the last start, or the default at the first one.
struct DevOptions {
  std::optional<int> nodes;
  std::string inventory;  // file; its nodes are reported instead of this machine
  std::string nvml_library;
  std::string sample_period;
  std::string proc_root;
  std::vector<std::string> interpreters;
  friend bool operator==(const DevOptions&, const DevOptions&) = default;
};

struct DevProcess {
  std::string name;      // "controller", or the node's
  std::int64_t pid = 0;  // 0 = not running
};
struct DevStatus {
  std::string state_dir;
  std::string address;  // of the controller; empty = never started
  DevProcess controller;
  std::vector<DevProcess> agents;  // ordered by name
};

// Everything below one directory: $LAUNCH_STATE_DIR, else $XDG_STATE_HOME/launch/dev, else
// ~/.local/state/launch/dev.
class DevCluster {
 public:
  explicit DevCluster(std::string state_dir) : dir_(std::move(state_dir)) {}
  static std::string DefaultDir();

  // How a client reaches the cluster, whether or not it runs.
  Cluster AsCluster() const;
  DevStatus Status() const;

  // Starts what is missing and returns when every node has reported. One caller at a time works,
  // the others wait. `say` gets one line per step.
  Result<void> Up(const DevOptions& options, const std::function<void(const std::string&)>& say);

  enum class OnJobs { kRefuse, kCancel };
  // Ends agents and controller. The directory stays, and may then be removed.
  Result<void> Down(OnJobs on_jobs, const std::function<void(const std::string&)>& say);

 private:
  struct Node {
    std::string name;
    std::vector<std::pair<std::string, std::string>> settings;  // of agent.yaml
  };
  std::string AgentDir(const std::string& node) const { return dir_ + "/agents/" + node; }
  Result<std::vector<Node>> PlanNodes(const DevOptions& options) const;
  Result<DevOptions> Settle(const DevOptions& wanted) const;
  Result<void> StartController(const std::function<void(const std::string&)>& say);
  Result<void> StartAgent(const Node& node, Client& client,
                          const std::function<void(const std::string&)>& say);
  // Forgets nodes of an earlier start that are not among `nodes` any more.
  Result<void> ForgetOthers(const std::vector<Node>& nodes, Client& client,
                            const std::function<void(const std::string&)>& say);
  Result<void> AwaitNodes(const std::vector<Node>& nodes, Client& client);
  Result<void> EndJobs(OnJobs on_jobs, const std::function<void(const std::string&)>& say);
  Result<void> EndRest(const std::function<void(const std::string&)>& say);

  const std::string dir_;
};

}  // namespace launch
