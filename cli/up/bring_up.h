// `launch up` and `launch down` over all hosts: side by side, one bad host stopping no other.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/client.h"
#include "cli/contexts.h"
#include "cli/up/host_facts.h"
#include "cli/up/hosts.h"
#include "cli/up/progress.h"
#include "cli/up/ssh_session.h"
#include "common/error.h"

namespace launch::up {

struct UpOptions {
  std::string cluster = "launch";
  std::vector<std::string> programs;  // directories with our programs, one per architecture
  int parallel = 16;
  bool dry_run = false;
  SshOptions ssh;
  // One line per step of a host; called from several threads, as is the next.
  std::function<void(const std::string& host, const std::string& step)> say;
  ProgressSink progress;
};

struct HostResult {
  Host host;
  HostFacts facts;
  bool done = false;
  bool of_others = false;          // what is on it is another cluster's, or another node
  std::vector<std::string> steps;  // what was done, or would be with dry_run
  std::optional<Error> error;
};

// kUnavailable and the like when the head itself cannot be brought up: then no node is touched.
// Otherwise a result for each host, in order.
Result<std::vector<HostResult>> BringUp(const HostSet& set, const UpOptions& options,
                                        Contexts& contexts);

// The controller alone, for nodes that come by another way than ssh.
struct HeadUp {
  Cluster cluster;
  HostFacts facts;
};
Result<HeadUp> BringUpHead(const HostSet& set, const UpOptions& options, Contexts& contexts);

// Ends agents, then the controller, of the cluster with this `authority` (SHA-256 of its CA);
// `purge` removes programs and state.
std::vector<HostResult> TakeDown(const HostSet& set, const UpOptions& options,
                                 const std::string& authority, bool purge);

}  // namespace launch::up
