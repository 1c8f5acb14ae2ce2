// down, nodes remove: hosts leave the cluster that `launch up` made, or all of it ends.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "cli/app.h"
#include "cli/contexts.h"
#include "cli/leave_note.h"
#include "cli/slurm_cluster.h"
#include "cli/up/bring_up.h"
#include "cli/up/cluster_file.h"
#include "cli/up_flags.h"
#include "common/file_system.h"
#include "common/hostlist.h"
#include "common/pki.h"
#include "common/quoted.h"

namespace launch {
namespace {

using up::HostResult;
using up::HostSet;
using up::UpOptions;

constexpr const char* kGoOn = "launch: left in the middle; run it again to go on";

// A controller that was just left by an agent may need a moment to see it.
Result<void> ForgetEnded(Client& client, const NodeId& node) {
  constexpr Millis kLeaves(15'000);
  constexpr Millis kBetween(200);
  const auto end = std::chrono::steady_clock::now() + kLeaves;
  for (;;) {
    auto gone = client.ForgetNode(node);
    if (gone || gone.error().code != ErrorCode::kFailedPrecondition) return gone;
    if (std::chrono::steady_clock::now() > end) return gone;
    std::this_thread::sleep_for(kBetween);
  }
}

// The hosts to remove: each of the cluster, none of them its head.
Result<HostSet> ToRemove(const HostSet& all, const std::string& nodes) {
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<std::string> names, ExpandHostlist(nodes));
  HostSet set = all;
  set.hosts.clear();
  for (const std::string& name : names) {
    const auto host = std::find_if(all.hosts.begin(), all.hosts.end(),
                                   [&](const up::Host& one) { return one.name == name; });
    if (host == all.hosts.end())
      return Fail(ErrorCode::kNotFound, "no host called " + name + " was brought up from here",
                  "end its agent there yourself, then: launch node forget " + name);
    if (name == all.head)
      return Fail(ErrorCode::kFailedPrecondition,
                  name + " is the head: the controller of the cluster runs there",
                  "`launch down` ends the whole cluster");
    set.hosts.push_back(*host);
  }
  return set;
}

// Drained first, so that nothing new starts there while its jobs are looked at. Those that were not
// drained before.
Result<std::set<std::string>> DrainIdle(Client& client, const HostSet& set) {
  std::set<std::string> fresh;
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<NodeView> before, client.Nodes());
  for (const NodeView& node : before)
    if (!node.drained) fresh.insert(node.inventory.node.value);
  for (const up::Host& host : set.hosts) {
    if (auto drained = client.Drain({NodeId{host.name}, false, "to be removed"});
        !drained && drained.error().code != ErrorCode::kNotFound)
      return Unexpected(drained.error());
  }
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<NodeView> nodes, client.Nodes());
  for (const NodeView& node : nodes) {
    const std::string& name = node.inventory.node.value;
    const bool wanted = std::any_of(set.hosts.begin(), set.hosts.end(),
                                    [&](const up::Host& host) { return host.name == name; });
    if (!wanted || node.jobs.empty()) continue;
    return Fail(ErrorCode::kFailedPrecondition,
                "job " + std::to_string(node.jobs.front().value) + " runs on " + name,
                "it takes no new jobs now: cancel what runs there, or run this again when it is "
                "over; `launch undrain " +
                    name + "` keeps it");
  }
  return fresh;
}

// One that could not be removed takes jobs again, unless it was drained before.
void KeepNode(const App& app, Client& client, const std::string& name, bool undrain) {
  if (undrain && client.Drain({NodeId{name}, true, ""}))
    return app.Note(name + ": is a node as before, and takes jobs");
  app.Note(name + ": stays drained; `launch undrain " + name + "` keeps it as a node");
}

Result<int> RunRemove(const App& app, UpFlags flags) {
  Contexts contexts(Contexts::DefaultDir());
  LAUNCH_ASSIGN_OR_RETURN(flags.cluster, ClusterMeant(app, contexts, flags.cluster));
  LAUNCH_RETURN_IF_ERROR(HostsOf(contexts, flags.cluster));
  LAUNCH_ASSIGN_OR_RETURN(const UniqueFd turn, up::LockCluster(contexts, flags.cluster));
  const LeaveNote leaving(kGoOn);
  LAUNCH_ASSIGN_OR_RETURN(HostSet all, HostsOf(contexts, flags.cluster));
  LAUNCH_ASSIGN_OR_RETURN(const HostSet set, ToRemove(all, flags.hosts));
  LAUNCH_ASSIGN_OR_RETURN(const Cluster cluster, ClusterOfCredentials(contexts.Dir(flags.cluster)));
  LAUNCH_ASSIGN_OR_RETURN(Client client, Client::Open(cluster));
  LAUNCH_ASSIGN_OR_RETURN(const std::set<std::string> fresh, DrainIdle(client, set));
  LAUNCH_ASSIGN_OR_RETURN(UpOptions options, OptionsOf(app, flags, set));
  LAUNCH_ASSIGN_OR_RETURN(const std::string ca_pem,
                          PosixFileSystem().Read(cluster.credentials + "/ca.pem", 1 << 20));
  const auto results = up::TakeDown(
      set, options, {.authority = Sha256Hex(ca_pem), .purge = flags.purge, .leaves = true});
  options.progress = nullptr;
  int code = 0;
  for (const HostResult& ended : results) {
    const std::string& name = ended.host.name;
    // A machine that is gone is what this verb is for; one that still answers must have ended.
    if (ended.error) app.Note(name + ": " + FormatError(*ended.error));
    if (auto gone =
            ended.of_others ? client.ForgetNode(NodeId{name}) : ForgetEnded(client, NodeId{name});
        !gone && gone.error().code != ErrorCode::kNotFound) {
      std::fprintf(stderr, "%s: %s\n", name.c_str(), FormatError(gone.error()).c_str());
      KeepNode(app, client, name, fresh.contains(name));
      code = 1;
      continue;
    }
    std::erase_if(all.hosts, [&](const up::Host& host) { return host.name == name; });
    app.Note(name + ": removed from the cluster" +
             (ended.error ? "; what is on that machine is still there" : ""));
  }
  LAUNCH_RETURN_IF_ERROR(up::WriteClusterFile(contexts, flags.cluster, all));
  return code;
}

// Jobs that are not done, which `down` would take with it.
Result<std::vector<JobId>> OpenJobs(Client& client) {
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<JobView> jobs, client.Jobs({}));
  std::vector<JobId> open;
  for (const JobView& job : jobs)
    if (!IsTerminal(job.state)) open.push_back(job.id);
  return open;
}

// Nodes that somebody else brought up, or joined by hand: no list here has them.
void NameOthers(const App& app, Client& client, const HostSet& set) {
  if (!set.slurm_jobs.empty()) return;  // their nodes leave with them
  const auto nodes = client.Nodes();
  for (const NodeView& node : nodes ? *nodes : std::vector<NodeView>()) {
    const std::string& name = node.inventory.node.value;
    if (std::any_of(set.hosts.begin(), set.hosts.end(),
                    [&](const up::Host& host) { return host.name == name; }))
      continue;
    app.Note(name + ": not brought up from here; its agent goes on there until it is ended");
  }
}

// The jobs that are not done are cancelled with --force, and keep the cluster without.
Result<void> EndJobs(const App& app, const UpFlags& flags, Client& client, const HostSet& set) {
  const auto open = OpenJobs(client);
  // With --purge each host says itself whether ranks live there.
  if (!open && !flags.force && !flags.purge)
    return Fail(ErrorCode::kUnavailable,
                "the controller cannot be asked what runs: " + open.error().message,
                "--force ends the cluster nevertheless");
  if (!open) return {};
  NameOthers(app, client, set);
  if (open->empty()) return {};
  if (!flags.force)
    return Fail(ErrorCode::kFailedPrecondition, std::to_string(open->size()) + " jobs are not done",
                "`launch queue` lists them; --force cancels them first");
  LAUNCH_RETURN_IF_ERROR(client.Cancel(*open));
  for (const JobId job : *open)
    LAUNCH_RETURN_IF_ERROR(AwaitJob(client, job, Millis(120'000), [](const JobView&) {}));
  return {};
}

// What stays on machines that ssh does not reach. False where another host failed too: that one
// can be mended.
bool NameLeft(const App& app, const std::string& cluster, const std::vector<HostResult>& results) {
  for (const HostResult& result : results)
    if (result.error && result.reached) return false;
  for (const HostResult& result : results) {
    if (!result.error) continue;
    app.Note(result.host.name +
             ": not reached, and forgotten. If it comes back, its agent still looks for this "
             "cluster: launch down " +
             ShellQuote(cluster) + " --hosts " + result.host.name + " --purge --force");
  }
  return true;
}

// The hosts that are named, of a cluster that no context knows any more.
Result<int> RunDownOfHosts(const App& app, const UpFlags& flags) {
  if (!flags.purge || !flags.force)
    return Fail(ErrorCode::kInvalidArgument, "--hosts ends a cluster that nobody here knows",
                "with --purge and --force, and the name that it gives itself; a cluster that is "
                "known here is ended by its name alone");
  LAUNCH_ASSIGN_OR_RETURN(const HostSet set, HostsNamed(flags));
  LAUNCH_ASSIGN_OR_RETURN(UpOptions options, OptionsOf(app, flags, set));
  const Contexts contexts(Contexts::DefaultDir());
  const auto answers = [&](const std::string& context) {
    const auto cluster = ClusterOfCredentials(contexts.Dir(context));
    if (!cluster) return false;
    auto client = Client::Open(*cluster);
    return client && client->Status();
  };
  const auto results = up::TakeDown(
      set, options,
      {.purge = true, .of_anybody = true, .cluster = flags.cluster, .answers = answers});
  options.progress = nullptr;
  return ShowFailures(app, results) == 0 ? 0 : 1;
}

Result<int> RunDown(const App& app, UpFlags flags) {
  if (!flags.hosts.empty()) return RunDownOfHosts(app, flags);
  Contexts contexts(Contexts::DefaultDir());
  LAUNCH_ASSIGN_OR_RETURN(flags.cluster, ClusterMeant(app, contexts, flags.cluster));
  LAUNCH_RETURN_IF_ERROR(HostsOf(contexts, flags.cluster));
  LAUNCH_ASSIGN_OR_RETURN(const UniqueFd turn, up::LockCluster(contexts, flags.cluster));
  const LeaveNote leaving(kGoOn);
  LAUNCH_ASSIGN_OR_RETURN(const HostSet set, HostsOf(contexts, flags.cluster));
  up::Ending ending{.purge = flags.purge};
  // None where an `up` ended before its controller answered: then no job was ever taken.
  if (contexts.MustKnow(flags.cluster)) {
    LAUNCH_ASSIGN_OR_RETURN(const Cluster cluster,
                            ClusterOfCredentials(contexts.Dir(flags.cluster)));
    if (auto client = Client::Open(cluster); client)
      LAUNCH_RETURN_IF_ERROR(EndJobs(app, flags, *client, set));
    LAUNCH_ASSIGN_OR_RETURN(const std::string ca_pem,
                            PosixFileSystem().Read(cluster.credentials + "/ca.pem", 1 << 20));
    ending.authority = Sha256Hex(ca_pem);
  }
  LAUNCH_RETURN_IF_ERROR(EndAllocations(app, set));
  LAUNCH_ASSIGN_OR_RETURN(UpOptions options, OptionsOf(app, flags, set));
  const auto results = up::TakeDown(set, options, ending);
  options.progress = nullptr;
  const std::size_t failed = ShowFailures(app, results);
  if (failed > 0 && flags.purge && !flags.force)
    app.Note("--force forgets those that ssh does not reach any more");
  if (failed > 0 && !(flags.purge && flags.force && NameLeft(app, options.cluster, results)))
    return 1;
  if (flags.purge) LAUNCH_RETURN_IF_ERROR(contexts.Forget(flags.cluster));
  return 0;
}

}  // namespace

void AddDownVerbs(CLI::App& parser, App& app) {
  auto ending = std::make_shared<UpFlags>();
  CLI::App* down = parser.add_subcommand("down", "Stop a cluster that `launch up` made");
  down->add_option("cluster", ending->cluster, "Name of the cluster; default: the current one");
  down->add_option("--hosts", ending->hosts,
                   "With --purge --force: hosts of a cluster that this machine does not know");
  down->add_flag("--force", ending->force,
                 "Cancel its jobs first; with --purge, also forget hosts that ssh cannot reach");
  down->add_flag("--purge", ending->purge, "Also remove programs and state from the hosts");
  AddSshFlags(*down, *ending);
  down->callback([&app, ending] { app.run = [&app, ending] { return RunDown(app, *ending); }; });

  auto leaving = std::make_shared<UpFlags>();
  for (const char* family : {"nodes", "node"}) {
    CLI::App* remove = parser.get_subcommand(family)->add_subcommand(
        "remove",
        "Stop the agents of hosts and remove the hosts from a cluster that `launch up` made");
    remove->add_option("nodes", leaving->hosts, "gpu[01-04]")->required();
    remove->add_option("--cluster", leaving->cluster,
                       "Name of the cluster; default: the current one");
    remove->add_flag("--purge", leaving->purge, "Also remove programs and state from the hosts");
    AddSshFlags(*remove, *leaving);
    remove->callback(
        [&app, leaving] { app.run = [&app, leaving] { return RunRemove(app, *leaving); }; });
  }
}

}  // namespace launch
