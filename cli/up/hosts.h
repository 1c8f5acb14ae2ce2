// Which machines `launch up` works on: a hostlist, a hosts file, an OpenSSH config, a DeepSpeed
// hostfile.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"

namespace launch::up {

inline constexpr std::size_t kMostHostsBytes = 1 << 20;
inline constexpr int kUsualControllerPort = 7470;

struct Host {
  std::string name;     // of the node in the cluster, and what ssh is asked for unless:
  std::string address;  // another name or address to reach it by, also for the other nodes
  std::string user;     // empty = as ssh's own configuration says
  int port = 0;         // 0 = the same
  std::string key;      // private key file
  std::string jump;     // "user@bastion:port" or a name of the ssh configuration
  bool local = false;   // the machine that `launch` runs on: no ssh
  bool sudo = false;    // work there as root, by a sudo that asks for no password
  std::optional<std::string> agent;  // settings of its agent (settings.h); absent = as they are
  friend bool operator==(const Host&, const Host&) = default;

  const std::string& Address() const { return address.empty() ? name : address; }
};

struct HostSet {
  std::vector<Host> hosts;                // each name once, in the order given
  std::string head;                       // where the controller runs; empty = the first
  int controller_port = 0;                // 0 = not said
  std::string ssh_config;                 // an OpenSSH config in place of the user's own
  std::vector<std::string> left_out;      // of that file: those that others are reached through
  std::optional<std::string> controller;  // its settings; absent = as they are
  std::vector<std::string> slurm_jobs;    // allocations whose nodes are in the cluster too
  // Heads on which an `up` began to make a controller and ended before its credentials were here.
  std::vector<std::string> founding;
  friend bool operator==(const HostSet&, const HostSet&) = default;

  int Port() const { return controller_port == 0 ? kUsualControllerPort : controller_port; }
};

// The text of a file. By content: YAML with `hosts:`; an OpenSSH config (its Host blocks without
// wildcards, but for those that a ProxyJump names); else one host or hostlist a line, as DeepSpeed
// and MPI write them (`gpu01 slots=8`),
// '#' begins a comment. kInvalidArgument with file and line.
Result<HostSet> ReadHosts(std::string_view text, const std::string& file);

// Reads a hostlist: "gpu[01-16],ana@10.0.0.7:2222".
Result<HostSet> ReadHostlist(std::string_view text);

// Checks a set that flags changed: it has hosts, each once, and the head is among them.
Result<HostSet> CheckHosts(HostSet set, const std::string& file);

// `set` with a head: that of the cluster as it is `known`, which joins the hosts if it is not among
// them, else the named or the first one. kFailedPrecondition: another head or port is named than
// the known one.
Result<HostSet> WithHead(HostSet set, const HostSet& known);

// The host of that name; nullptr: there is none.
const Host* HostNamed(const HostSet& set, const std::string& name);

// The YAML that ReadHosts reads back to an equal value, and `known` with what `more` adds or
// changes.
std::string FormatHosts(const HostSet& set);
HostSet Merged(HostSet known, const HostSet& more);

}  // namespace launch::up
