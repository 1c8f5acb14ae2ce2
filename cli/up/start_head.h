// The controller of a cluster that `launch up` makes or finds on its head.
#pragma once

#include <string>

#include "cli/client.h"
#include "cli/contexts.h"
#include "cli/up/hosts.h"
#include "cli/up/site.h"
#include "common/error.h"

namespace launch::up {

struct StartedHead {
  Cluster cluster;
  std::string authority;  // SHA-256 of its ca.pem
};

// Installs the release on the head, makes the cluster's authority there at the first time, starts
// the controller, keeps its credentials here and waits until it answers.
Result<StartedHead> StartHead(Site& head, const HostSet& set, const UpOptions& options,
                              Supply& supply, Contexts& contexts);

// The controller of a cluster that is known here and answers, without ssh to its machine.
Result<StartedHead> RunningHead(const UpOptions& options, const Contexts& contexts);

}  // namespace launch::up
