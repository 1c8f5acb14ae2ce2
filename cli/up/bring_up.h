// `launch up` and `launch down` over all hosts: side by side, one bad host stopping no other.
#pragma once

#include <functional>
#include <map>
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
  std::string cluster = "launch";            // what it calls itself
  std::string context = "launch";            // what it is called here
  std::map<std::string, std::string> known;  // context by the SHA-256 of its ca.pem
  std::vector<std::string> programs;         // directories with our programs, one per architecture
  int parallel = 16;
  bool dry_run = false;
  bool in_turn = false;  // one host after another, as an upgrade does
  SshOptions ssh;
  // Called before the cluster's first controller is made on the head.
  std::function<Result<void>()> founding;
  // Gets one line per step of a host. This one and the next are called from several threads.
  std::function<void(const std::string& host, const std::string& step)> say;
  ProgressSink progress;
};

struct HostResult {
  Host host;
  HostFacts facts;
  bool reached = false;  // ssh let us in
  bool done = false;
  bool of_others = false;          // what is on it is another cluster's, or another node
  bool proved = false;             // its agent has this node's certificate of this cluster
  std::vector<std::string> steps;  // what was done, or would be with dry_run
  std::optional<Error> error;
};

struct BroughtUp {
  std::vector<HostResult> hosts;  // in order
  bool controller = false;        // false: the head's error says why; the others were looked at
};
// Brings up the cluster on all hosts. A head that ssh does not reach is one bad host like any other
// where its controller answers. Two hosts that lead to one machine fail before anything is
// done on any, but not with `in_turn`. With `in_turn` the hosts after the first node that failed
// are left as they are, with an error that says so. Ranks and their supervisors live on.
BroughtUp BringUp(const HostSet& set, const UpOptions& options, Contexts& contexts);

// The controller alone, for nodes that come by another way than ssh.
struct HeadUp {
  Cluster cluster;
  HostFacts facts;
};
Result<HeadUp> BringUpHead(const HostSet& set, const UpOptions& options, Contexts& contexts);

struct Ending {
  std::string authority;  // SHA-256 of the cluster's CA; empty: it has none yet
  bool purge = false;     // programs and state go too, where no supervisor lives
  bool leaves = false;    // its identity goes too: another cluster may have the machine
  // The cluster is not known here: take down what the machines call `cluster`, unless that is known
  // here as `context` and its controller answers.
  bool of_anybody = false;
  std::string cluster;
  std::function<bool(const std::string& context)> answers;
};
// Ends agents, then the controller. A host is left as it is if it belongs to another cluster, is
// another node, or is the head under another name.
std::vector<HostResult> TakeDown(const HostSet& set, const UpOptions& options,
                                 const Ending& ending);

}  // namespace launch::up
