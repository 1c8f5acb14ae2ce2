// The steps of `launch up` and `launch down` on one machine. Each is done once however often it
// runs, and says whether there was anything to do.
#pragma once

#include <string>
#include <string_view>

#include "cli/up/head_address.h"
#include "cli/up/host_facts.h"
#include "cli/up/remote.h"
#include "common/error.h"

namespace launch::up {

// Runs the probe on the host and judges nothing.
Result<HostFacts> Probe(Remote& remote);

enum class Started { kRunning, kStarted };  // kRunning: it ran already, from this release

// What a client of the new controller needs.
struct ControllerMade {
  Started started = Started::kStarted;
  std::string authority;  // SHA-256 of ca.pem
  std::string ca_pem;
  std::string certificate_pem;  // of the first operator
  std::string key_pem;          // secret
};
// Makes the cluster's authority at the first time and starts the controller on `port` of every
// address of the families. A port in use is an error with the controller's own words. `settings` is
// what its file shall hold, as for agents: empty = none is there.
Result<ControllerMade> StartController(Remote& remote, const HostFacts& facts,
                                       const std::string& cluster, int port, Families families,
                                       const std::string& settings);

// Makes the host a node of the cluster. `token` goes over stdin, so that no process list shows it.
// `again`: the cluster knows the node, and its certificate is replaced.
Result<void> Join(Remote& remote, const HostFacts& facts, const std::string& token, bool again);
Result<Started> StartAgent(Remote& remote, const HostFacts& facts, const std::string& settings);

struct Removal {
  bool purge = false;   // programs and all state go too, never a directory that is not ours
  bool leaves = false;  // the agent's identity goes
};
// Ends agent and controller; to stop ranks that still run is the agent's task before that.
// kFailedPrecondition, with nothing changed, where ranks live that `purge` would leave behind.
Result<void> Remove(Remote& remote, const HostFacts& facts, const Removal& removal);

// The cluster whose controller lives on the host; empty = none.
Result<std::string> ClusterOfController(Remote& remote, const HostFacts& facts);

// The unit of configs/systemd for these directories; a user's own manager gets what it may set.
std::string UnitText(std::string_view program, const HostFacts& facts,
                     const std::string& arguments);

}  // namespace launch::up
