// up, upgrade, down, nodes remove: clusters on machines that ssh reaches.
#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <thread>

#include "cli/app.h"
#include "cli/contexts.h"
#include "cli/slurm_cluster.h"
#include "cli/table.h"
#include "cli/up/bring_up.h"
#include "cli/up/cluster_file.h"
#include "cli/up/upgrade.h"
#include "cli/up_flags.h"
#include "common/file_system.h"
#include "common/hostlist.h"
#include "common/pki.h"
#include "common/version.h"

namespace launch {
namespace {

using up::HostResult;
using up::HostSet;
using up::UpOptions;

// A file that is there is read; anything else without a slash is a hostlist, also where a directory
// has the name of a host.
Result<HostSet> ReadHostArgument(const std::string& text) {
  std::error_code ignored;
  const auto kind = std::filesystem::status(text, ignored).type();
  const bool file = kind != std::filesystem::file_type::not_found &&
                    kind != std::filesystem::file_type::directory;
  if (!file && text.find('/') == std::string::npos) {
    const std::string ending = std::filesystem::path(text).extension();
    if (ending == ".yaml" || ending == ".yml" || ending == ".txt" || ending == ".conf")
      return Fail(ErrorCode::kNotFound, "there is no file " + text,
                  "a hosts file, or the names of hosts: gpu[01-16]");
    return up::ReadHostlist(text);
  }
  LAUNCH_ASSIGN_OR_RETURN(const std::string bytes,
                          PosixFileSystem().Read(text, up::kMostHostsBytes));
  return up::ReadHosts(bytes, text);
}

void ApplyFlags(const UpFlags& flags, HostSet& set) {
  for (up::Host& host : set.hosts) {
    if (!flags.user.empty() && host.user.empty()) host.user = flags.user;
    if (!flags.key.empty()) host.key = flags.key;
    if (!flags.jump.empty()) host.jump = flags.jump;
    if (flags.port != 0 && host.port == 0) host.port = flags.port;
    if (flags.sudo) host.sudo = true;
  }
  if (!flags.head.empty()) set.head = flags.head;
  if (!flags.ssh_config.empty()) set.ssh_config = flags.ssh_config;
  // It is kept with the cluster, which is looked after from any directory.
  std::error_code ignored;
  if (!set.ssh_config.empty())
    set.ssh_config = std::filesystem::absolute(set.ssh_config, ignored).lexically_normal();
  if (flags.controller_port != 0) set.controller_port = flags.controller_port;
}

void ShowPlan(const App& app, const std::vector<HostResult>& results) {
  Table table;
  table.columns = {{"HOST", false, false},
                   {"ARCH", false, false},
                   {"USER", false, false},
                   {"STARTED BY", false, false},
                   {"DIRECTORY", false, true}};
  for (const HostResult& result : results) {
    if (result.error) continue;
    table.rows.push_back({result.host.name, result.facts.arch, result.facts.user,
                          std::string(ToString(result.facts.keeper)), result.facts.programs});
  }
  app.Out(FormatTable(table, app.ScreenNow().width));
}

// Without the hosts that failed before anything of ours was put on them.
HostSet Reached(HostSet set, const std::vector<HostResult>& results) {
  const auto untouched = [](const HostResult& result) {
    return result.error && result.steps.empty() &&
           (result.of_others || (result.facts.installed.empty() && result.facts.authority.empty()));
  };
  std::erase_if(set.hosts, [&](const up::Host& host) {
    return std::any_of(results.begin(), results.end(), [&](const HostResult& result) {
      return result.host.name == host.name && untouched(result);
    });
  });
  return set;
}

// After a head that failed it is as if nobody had asked, unless the cluster's first controller was
// started: that can be ended, by the cluster's name or as the current one.
Result<void> TakeBack(Contexts& contexts, const std::string& cluster, bool founded,
                      const std::optional<HostSet>& known, HostSet set) {
  if (founded && known) return up::WriteClusterFile(contexts, cluster, *known);
  if (founded) return up::RemoveClusterFile(contexts, cluster);
  if (!contexts.MustKnow(cluster)) return contexts.Forget(cluster);
  std::erase_if(set.hosts, [&](const up::Host& host) { return host.name != set.head; });
  LAUNCH_RETURN_IF_ERROR(up::WriteClusterFile(contexts, cluster, set));
  if (!contexts.Current()) return contexts.Use(cluster);
  return {};
}

Result<int> RunUpOnSlurm(const App& app, const UpFlags& flags) {
  LAUNCH_ASSIGN_OR_RETURN(const UpOptions options, OptionsOf(app, flags, {}));
  Contexts contexts(Contexts::DefaultDir());
  return UpOnSlurm(app, {flags.slurm, flags.address, flags.controller_port}, options, contexts);
}

Result<int> RunUp(const App& app, const UpFlags& flags) {
  if (flags.hosts.empty())
    return Fail(ErrorCode::kInvalidArgument, "no hosts are named",
                "launch up gpu[01-16], launch up hosts.yaml, or launch up --slurm \"-N 4\"");
  LAUNCH_ASSIGN_OR_RETURN(HostSet set, ReadHostArgument(flags.hosts));
  ApplyFlags(flags, set);
  for (const std::string& jump : set.left_out)
    app.Note(jump + ": left out, others are reached through it; to have it too, name the hosts: " +
             "launch up " + jump + ",... -F " + flags.hosts);
  LAUNCH_ASSIGN_OR_RETURN(set, up::CheckHosts(std::move(set), flags.hosts));
  Contexts contexts(Contexts::DefaultDir());
  UniqueFd turn;
  if (!flags.dry_run) {
    LAUNCH_ASSIGN_OR_RETURN(turn, up::LockCluster(contexts, flags.cluster));
  }
  LAUNCH_ASSIGN_OR_RETURN(const auto known, up::ReadClusterFile(contexts, flags.cluster));
  const bool founded = contexts.MustKnow(flags.cluster).has_value();
  // Binding only once a controller was started.
  const HostSet before = founded ? known.value_or(HostSet{}) : HostSet{};
  LAUNCH_ASSIGN_OR_RETURN(set, up::WithHead(std::move(set), before));
  LAUNCH_ASSIGN_OR_RETURN(UpOptions options, OptionsOf(app, flags, set));
  if (!flags.dry_run)  // whatever happens next, `down` knows all that may have something of ours
    LAUNCH_RETURN_IF_ERROR(up::WriteClusterFile(contexts, flags.cluster, up::Merged(before, set)));
  const auto brought = up::BringUp(set, options, contexts);
  options.progress = nullptr;
  if (!brought) {  // the head: the others were not looked at
    if (!flags.dry_run)
      LAUNCH_RETURN_IF_ERROR(TakeBack(contexts, flags.cluster, founded, known, std::move(set)));
    return Unexpected(brought.error());
  }
  const std::vector<HostResult>& results = *brought;
  const std::size_t failed = ShowFailures(app, results);
  if (flags.dry_run) {
    ShowPlan(app, results);
    return failed == 0 ? 0 : 1;
  }
  const HostSet all = up::Merged(before, Reached(set, results));
  LAUNCH_RETURN_IF_ERROR(up::WriteClusterFile(contexts, flags.cluster, all));
  LAUNCH_RETURN_IF_ERROR(contexts.Use(flags.cluster));
  LAUNCH_ASSIGN_OR_RETURN(const Cluster cluster, ClusterOfCredentials(contexts.Dir(flags.cluster)));
  LAUNCH_ASSIGN_OR_RETURN(Client client, Client::Open(cluster));
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<NodeView> nodes, client.Nodes());
  app.Out(NodesTable(nodes, app.ScreenNow()));
  return failed == 0 ? 0 : 1;
}

Result<int> RunUpgrade(const App& app, UpFlags flags) {
  Contexts contexts(Contexts::DefaultDir());
  flags.cluster = ClusterMeant(contexts, flags.cluster);
  LAUNCH_ASSIGN_OR_RETURN(const HostSet set, HostsOf(contexts, flags.cluster));
  LAUNCH_ASSIGN_OR_RETURN(const Cluster cluster, ClusterOfCredentials(contexts.Dir(flags.cluster)));
  LAUNCH_ASSIGN_OR_RETURN(Client client, Client::Open(cluster));
  LAUNCH_ASSIGN_OR_RETURN(const ControllerStatus status, client.Status());
  LAUNCH_RETURN_IF_ERROR(up::CheckUpgrade(status.version, Version()));
  LAUNCH_ASSIGN_OR_RETURN(UpOptions options, OptionsOf(app, flags, set));
  LAUNCH_ASSIGN_OR_RETURN(const auto results, up::Upgrade(set, options, contexts));
  options.progress = nullptr;
  const std::size_t failed = ShowFailures(app, results);
  if (flags.dry_run) {
    ShowPlan(app, results);
    return failed == 0 ? 0 : 1;
  }
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<NodeView> nodes, client.Nodes());
  app.Out(NodesTable(nodes, app.ScreenNow()));
  return failed == 0 ? 0 : 1;
}

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

// Drained first, so that nothing new starts there while its jobs are looked at.
Result<void> MustBeIdle(Client& client, const HostSet& set) {
  for (const up::Host& host : set.hosts) {
    if (auto drained = client.Drain({NodeId{host.name}, false, "to be removed"});
        !drained && drained.error().code != ErrorCode::kNotFound)
      return drained;
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
  return {};
}

Result<int> RunRemove(const App& app, UpFlags flags) {
  Contexts contexts(Contexts::DefaultDir());
  flags.cluster = ClusterMeant(contexts, flags.cluster);
  LAUNCH_RETURN_IF_ERROR(HostsOf(contexts, flags.cluster));
  LAUNCH_ASSIGN_OR_RETURN(const UniqueFd turn, up::LockCluster(contexts, flags.cluster));
  LAUNCH_ASSIGN_OR_RETURN(HostSet all, HostsOf(contexts, flags.cluster));
  LAUNCH_ASSIGN_OR_RETURN(const HostSet set, ToRemove(all, flags.hosts));
  LAUNCH_ASSIGN_OR_RETURN(const Cluster cluster, ClusterOfCredentials(contexts.Dir(flags.cluster)));
  LAUNCH_ASSIGN_OR_RETURN(Client client, Client::Open(cluster));
  LAUNCH_RETURN_IF_ERROR(MustBeIdle(client, set));
  LAUNCH_ASSIGN_OR_RETURN(UpOptions options, OptionsOf(app, flags, set));
  LAUNCH_ASSIGN_OR_RETURN(const std::string ca_pem,
                          PosixFileSystem().Read(cluster.credentials + "/ca.pem", 1 << 20));
  const auto results = up::TakeDown(set, options, Sha256Hex(ca_pem), flags.purge);
  options.progress = nullptr;
  int code = 0;
  for (const HostResult& ended : results) {
    const std::string& name = ended.host.name;
    // A machine that is gone is what this verb is for; one that still answers must have ended.
    if (ended.error) app.Note(name + ": " + FormatError(*ended.error));
    if (auto gone = ForgetEnded(client, NodeId{name});
        !gone && gone.error().code != ErrorCode::kNotFound) {
      std::fprintf(stderr, "%s: %s\n", name.c_str(), FormatError(gone.error()).c_str());
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

Result<int> RunDown(const App& app, UpFlags flags) {
  Contexts contexts(Contexts::DefaultDir());
  flags.cluster = ClusterMeant(contexts, flags.cluster);
  LAUNCH_RETURN_IF_ERROR(HostsOf(contexts, flags.cluster));
  LAUNCH_ASSIGN_OR_RETURN(const UniqueFd turn, up::LockCluster(contexts, flags.cluster));
  LAUNCH_ASSIGN_OR_RETURN(const HostSet set, HostsOf(contexts, flags.cluster));
  LAUNCH_ASSIGN_OR_RETURN(const Cluster cluster, ClusterOfCredentials(contexts.Dir(flags.cluster)));
  if (auto client = Client::Open(cluster); client) {
    const auto open = OpenJobs(*client);
    // With --purge each host says itself whether ranks live there.
    if (!open && !flags.force && !flags.purge)
      return Fail(ErrorCode::kUnavailable,
                  "the controller cannot be asked what runs: " + open.error().message,
                  "--force ends the cluster in spite of that");
    if (open) NameOthers(app, *client, set);
    if (open && !open->empty()) {
      if (!flags.force)
        return Fail(ErrorCode::kFailedPrecondition,
                    std::to_string(open->size()) + " jobs are not done",
                    "`launch queue` lists them; --force cancels them first");
      LAUNCH_RETURN_IF_ERROR(client->Cancel(*open));
      for (const JobId job : *open) {
        LAUNCH_RETURN_IF_ERROR(AwaitJob(*client, job, Millis(120'000), [](const JobView&) {}));
      }
    }
  }
  LAUNCH_RETURN_IF_ERROR(EndAllocations(app, set));
  LAUNCH_ASSIGN_OR_RETURN(UpOptions options, OptionsOf(app, flags, set));
  LAUNCH_ASSIGN_OR_RETURN(const std::string ca_pem,
                          PosixFileSystem().Read(cluster.credentials + "/ca.pem", 1 << 20));
  const auto results = up::TakeDown(set, options, Sha256Hex(ca_pem), flags.purge);
  options.progress = nullptr;
  if (ShowFailures(app, results) > 0) return 1;
  if (flags.purge) LAUNCH_RETURN_IF_ERROR(contexts.Forget(flags.cluster));
  return 0;
}

}  // namespace

void AddUpVerbs(CLI::App& parser, App& app) {
  auto flags = std::make_shared<UpFlags>();
  flags->cluster = "launch";
  CLI::App* up =
      parser.add_subcommand("up", "Install and start a cluster on machines that ssh reaches");
  CLI::Option* hosts =
      up->add_option("hosts", flags->hosts,
                     "Hosts file, OpenSSH config, hostfile, or gpu[01-16],ana@10.0.0.7:2222");
  up->add_option("--slurm", flags->slurm, "Nodes of a Slurm allocation: \"-p gpu -N 4 -t 8:00:00\"")
      ->excludes(hosts);
  up->add_option("--address", flags->address,
                 "With --slurm: this machine as the nodes reach it; default: its name");
  up->add_option("--cluster", flags->cluster, "Its name")->capture_default_str();
  up->add_option("--head", flags->head, "Host of the controller; default: the first");
  up->add_option("--user", flags->user, "User on the hosts");
  up->add_option("--port", flags->port, "Port of ssh")->check(CLI::Range(1, 65535));
  up->add_option("--key", flags->key, "Private key file");
  up->add_option("--jump", flags->jump, "Host to go through: ana@bastion");
  up->add_flag("--sudo", flags->sudo, "Install as root, by a sudo there that asks for no password");
  up->add_option("--controller-port", flags->controller_port, "Default: 7470")
      ->check(CLI::Range(1, 65535));
  up->add_option("--programs", flags->programs,
                 "bin directory of a tarball for another architecture");
  up->add_flag("--dry-run", flags->dry_run, "Look, and say what would be done");
  AddSshFlags(*up, *flags);
  up->callback([&app, flags] {
    app.run = [&app, flags] {
      return flags->slurm.empty() ? RunUp(app, *flags) : RunUpOnSlurm(app, *flags);
    };
  });

  auto newer = std::make_shared<UpFlags>();
  CLI::App* upgrade = parser.add_subcommand(
      "upgrade", "Put this release on a cluster that `launch up` made; what runs goes on");
  upgrade->add_option("cluster", newer->cluster, "Its name; the current one if left out");
  upgrade->add_option("--programs", newer->programs,
                      "bin directory of a tarball for another architecture");
  upgrade->add_flag("--dry-run", newer->dry_run, "Look, and say what would be done");
  AddSshFlags(*upgrade, *newer);
  upgrade->callback([&app, newer] { app.run = [&app, newer] { return RunUpgrade(app, *newer); }; });

  auto ending = std::make_shared<UpFlags>();
  CLI::App* down = parser.add_subcommand("down", "End a cluster that `launch up` made");
  down->add_option("cluster", ending->cluster, "Its name; the current one if left out");
  down->add_flag("--force", ending->force, "Cancel its jobs first");
  down->add_flag("--purge", ending->purge, "Remove programs and state from the hosts too");
  AddSshFlags(*down, *ending);
  down->callback([&app, ending] { app.run = [&app, ending] { return RunDown(app, *ending); }; });

  auto leaving = std::make_shared<UpFlags>();
  for (const char* family : {"nodes", "node"}) {
    CLI::App* remove = parser.get_subcommand(family)->add_subcommand(
        "remove", "End the agents of hosts, and take them out of a cluster that `launch up` made");
    remove->add_option("nodes", leaving->hosts, "gpu[01-04]")->required();
    remove->add_option("--cluster", leaving->cluster, "Its name; the current one if left out");
    remove->add_flag("--purge", leaving->purge, "Remove programs and state from the hosts too");
    AddSshFlags(*remove, *leaving);
    remove->callback(
        [&app, leaving] { app.run = [&app, leaving] { return RunRemove(app, *leaving); }; });
  }
}

}  // namespace launch
