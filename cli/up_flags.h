// What the verbs that go to machines by ssh share: their flags, and how failures are told.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/app.h"
#include "cli/contexts.h"
#include "cli/up/bring_up.h"
#include "cli/up/hosts.h"

namespace launch {

struct UpFlags {
  std::string hosts;
  std::string slurm;
  std::string address;
  std::string settings;  // file with agent: and controller:, for --slurm
  std::string cluster;   // what it calls itself; of those that are known: what it is called here
  std::string name;      // what it is called here, where that is to be another name
  std::string ssh_config;
  std::string head;
  std::string user;
  std::string key;
  std::string jump;
  int port = 0;
  int controller_port = 0;
  int parallel = 16;
  std::vector<std::string> programs;
  bool accept_new_host_keys = false;
  bool dry_run = false;
  bool purge = false;
  bool force = false;
  bool sudo = false;
};

// Adds the flags -F, --parallel and --accept-new-host-keys.
void AddSshFlags(CLI::App& verb, UpFlags& flags);

// The hosts of a file or hostlist with what the flags say of them.
Result<up::HostSet> HostsNamed(const UpFlags& flags);

// Options that show progress: a table of the hosts on a terminal, else a line for each step. The
// table is painted until the result's `progress` is reset or the result is destroyed.
Result<up::UpOptions> OptionsOf(const App& app, const UpFlags& flags, const up::HostSet& set);

// The cluster that the verb names, or that of --context; empty when there is neither.
// kInvalidArgument: both name one, and not the same.
Result<std::string> NameGiven(const App& app, const std::string& named);

// The cluster that is meant: the one given, else the current one, else the only one that was begun
// here; empty when there is none of these.
Result<std::string> ClusterMeant(const App& app, const Contexts& contexts,
                                 const std::string& named);

// The hosts of a cluster that `launch up` made from here.
Result<up::HostSet> HostsOf(const Contexts& contexts, const std::string& cluster);

// Prints the hosts that failed, with what to do, and returns their number. What happened to `told`
// is said elsewhere.
std::size_t ShowFailures(const App& app, const std::vector<up::HostResult>& results,
                         const std::string& told = {});

}  // namespace launch
