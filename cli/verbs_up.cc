// up, upgrade: clusters on machines that ssh reaches.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/app.h"
#include "cli/contexts.h"
#include "cli/leave_note.h"
#include "cli/slurm_cluster.h"
#include "cli/table.h"
#include "cli/up/bring_up.h"
#include "cli/up/cluster_file.h"
#include "cli/up/upgrade.h"
#include "cli/up_flags.h"
#include "common/file_system.h"
#include "common/text.h"
#include "common/version.h"

namespace launch {
namespace {

using up::HostResult;
using up::HostSet;
using up::UpOptions;

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

// What stands in the cluster's list of hosts, and is to stand there.
struct Written {
  std::optional<HostSet> known;  // by an earlier `up`
  bool founded = false;          // its controller was started, and its credentials are here
  HostSet before;                // of that list what holds for this `up`
  HostSet set;                   // the hosts of this one
};

// A head binds only once its controller was started. What one that failed may have left is kept in
// the list.
HostSet Binding(const Written& written) {
  HostSet before = written.known.value_or(HostSet{});
  if (written.founded || before.hosts.empty()) return before;
  std::erase_if(before.hosts, [&](const up::Host& host) {
    return std::ranges::find(before.founding, host.name) == before.founding.end();
  });
  before.head.clear();
  before.controller_port = 0;
  return before;
}

// What is written before any host was asked: those that nobody knew. How a known one is reached
// stays as it is until the machine there has proved to be that node.
HostSet BeforeHosts(const HostSet& before, HostSet set) {
  std::erase_if(set.hosts,
                [&](const up::Host& host) { return up::HostNamed(before, host.name) != nullptr; });
  if (!before.hosts.empty()) set.ssh_config.clear();
  return set;
}

// Without the hosts that failed before anything of ours was put on them; and with what was known of
// those that did not prove to be the node.
HostSet Reached(const HostSet& before, HostSet set, const std::vector<HostResult>& results) {
  const auto proved = [&](const std::string& name) {
    return std::any_of(results.begin(), results.end(), [&](const HostResult& result) {
      return result.host.name == name && result.proved;
    });
  };
  for (up::Host& host : set.hosts) {
    const up::Host* known = up::HostNamed(before, host.name);
    if (known == nullptr || proved(host.name)) continue;
    auto agent = host.agent ? host.agent : known->agent;
    host = *known;
    host.agent = std::move(agent);
  }
  if (!before.hosts.empty() && std::ranges::none_of(results, &HostResult::proved))
    set.ssh_config.clear();
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

// After a head that failed it is as if nobody had asked, but that what may be on it can be undone:
// by the cluster's name, or as the current one where its controller was started.
Result<void> TakeBack(const App& app, Contexts& contexts, const std::string& context,
                      const Written& written, const std::vector<HostResult>& results) {
  if (written.founded && written.known)
    return up::WriteClusterFile(contexts, context, *written.known);
  if (written.founded) return up::RemoveClusterFile(contexts, context);
  const HostSet& set = written.set;
  const bool started = contexts.MustKnow(context).has_value();
  const auto head = std::find_if(results.begin(), results.end(), [&](const HostResult& result) {
    return result.host.name == set.head;
  });
  const bool touched = started || !set.founding.empty() ||
                       (head != results.end() && !head->steps.empty()) ||
                       !written.before.hosts.empty();
  if (!touched) return contexts.Forget(context);
  HostSet left = up::Merged(written.before, set);
  std::erase_if(left.hosts, [&](const up::Host& host) {
    return host.name != set.head &&
           std::ranges::none_of(written.before.hosts,
                                [&](const up::Host& one) { return one.name == host.name; });
  });
  left.head = set.head;
  LAUNCH_RETURN_IF_ERROR(up::WriteClusterFile(contexts, context, left));
  app.Note("what is on " + set.head + " already is undone by: launch down " + context + " --purge");
  if (started && !contexts.Current()) return contexts.Use(context);
  return {};
}

Result<int> RunUpOnSlurm(const App& app, const UpFlags& flags) {
  LAUNCH_ASSIGN_OR_RETURN(const UpOptions options, OptionsOf(app, flags, {}));
  Contexts contexts(Contexts::DefaultDir());
  up::Settings settings;
  if (!flags.settings.empty()) {
    LAUNCH_ASSIGN_OR_RETURN(const std::string text,
                            PosixFileSystem().Read(flags.settings, up::kMostHostsBytes));
    LAUNCH_ASSIGN_OR_RETURN(settings, up::ReadSlurmSettings(text, flags.settings));
  }
  return UpOnSlurm(app, {flags.slurm, flags.address, flags.controller_port, std::move(settings)},
                   options, contexts);
}

// The hosts that could be nodes, and another head among them where none is bound to its own.
Error HeadError(const App& app, const UpFlags& flags, const Written& written,
                const std::vector<HostResult>& results) {
  std::vector<std::string> good;
  Error error;
  for (const HostResult& result : results) {
    if (result.host.name == written.set.head) error = *result.error;
    if (!result.error) good.push_back(result.host.name);
  }
  if (!good.empty())
    app.Note(Joined(good, ", ") + ": can be nodes; nothing was done there without a controller");
  error.message = "head " + written.set.head + ": " + error.message;
  if (written.founded)
    error.hint += "; the controller of this cluster lives on it, and does not answer";
  else if (!good.empty())
    error.hint +=
        "; or let another host be the head: launch up " + flags.hosts + " --head " + good.front();
  return error;
}

Result<int> RunUp(const App& app, const UpFlags& flags) {
  if (flags.hosts.empty())
    return Fail(ErrorCode::kInvalidArgument, "no hosts are named",
                "launch up gpu[01-16], launch up hosts.yaml, or launch up --slurm \"-N 4\"");
  LAUNCH_ASSIGN_OR_RETURN(HostSet set, HostsNamed(flags));
  for (const std::string& jump : set.left_out)
    app.Note(std::string(jump)
                 .append(": left out, others are reached through it; to have it too, name the "
                         "hosts: launch up ")
                 .append(jump)
                 .append(",... -F ")
                 .append(flags.hosts));
  Contexts contexts(Contexts::DefaultDir());
  LAUNCH_ASSIGN_OR_RETURN(UpOptions options, OptionsOf(app, flags, HostSet{}));
  const std::string context = options.context;
  UniqueFd turn;
  if (!flags.dry_run) {
    LAUNCH_ASSIGN_OR_RETURN(turn, up::LockCluster(contexts, context));
  }
  Written written;
  LAUNCH_ASSIGN_OR_RETURN(written.known, up::ReadClusterFile(contexts, context));
  written.founded = contexts.MustKnow(context).has_value();
  written.before = Binding(written);
  LAUNCH_ASSIGN_OR_RETURN(written.set, up::WithHead(std::move(set), written.before));
  LAUNCH_ASSIGN_OR_RETURN(options, OptionsOf(app, flags, written.set));
  // Whatever happens next, `down` knows all that may have something of ours.
  const auto write = [&]() -> Result<void> {
    if (flags.dry_run) return {};
    return up::WriteClusterFile(
        contexts, context, up::Merged(written.before, BeforeHosts(written.before, written.set)));
  };
  std::optional<LeaveNote> leaving;
  if (!flags.dry_run)  // what nobody uses yet can be undone
    leaving.emplace(written.founded
                        ? "launch: left; run it again to go on: what is done is not done twice"
                        : "launch: left; run it again to go on, or undo it: launch down " +
                              context + " --purge");
  options.founding = [&] {
    written.set.founding = {written.set.head};
    return write();
  };
  LAUNCH_RETURN_IF_ERROR(write());
  const up::BroughtUp brought = up::BringUp(written.set, options, contexts);
  options.progress = nullptr;
  const std::vector<HostResult>& results = brought.hosts;
  if (!brought.controller) {
    const Error error = HeadError(app, flags, written, results);
    ShowFailures(app, results, written.set.head);
    if (!flags.dry_run) LAUNCH_RETURN_IF_ERROR(TakeBack(app, contexts, context, written, results));
    return Unexpected(error);
  }
  const std::size_t failed = ShowFailures(app, results);
  if (flags.dry_run) {
    ShowPlan(app, results);
    return failed == 0 ? 0 : 1;
  }
  HostSet all = up::Merged(written.before, Reached(written.before, written.set, results));
  std::erase(all.founding, all.head);
  LAUNCH_RETURN_IF_ERROR(up::WriteClusterFile(contexts, context, all));
  LAUNCH_RETURN_IF_ERROR(contexts.Use(context));
  LAUNCH_ASSIGN_OR_RETURN(const Cluster cluster, ClusterOfCredentials(contexts.Dir(context)));
  LAUNCH_ASSIGN_OR_RETURN(Client client, Client::Open(cluster));
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<NodeView> nodes, client.Nodes());
  LAUNCH_RETURN_IF_ERROR(app.OutTable(NodesTable(nodes, app.ScreenNow())));
  return failed == 0 ? 0 : 1;
}

Result<int> RunUpgrade(const App& app, UpFlags flags) {
  Contexts contexts(Contexts::DefaultDir());
  LAUNCH_ASSIGN_OR_RETURN(flags.cluster, ClusterMeant(app, contexts, flags.cluster));
  LAUNCH_ASSIGN_OR_RETURN(const HostSet set, HostsOf(contexts, flags.cluster));
  LAUNCH_ASSIGN_OR_RETURN(const Cluster cluster, ClusterOfCredentials(contexts.Dir(flags.cluster)));
  LAUNCH_ASSIGN_OR_RETURN(Client client, Client::Open(cluster));
  LAUNCH_ASSIGN_OR_RETURN(const ControllerStatus status, client.Status());
  LAUNCH_RETURN_IF_ERROR(up::CheckUpgrade(status.version, Version()));
  LAUNCH_ASSIGN_OR_RETURN(UpOptions options, OptionsOf(app, flags, set));
  options.in_turn = true;
  std::optional<LeaveNote> leaving;
  if (!flags.dry_run)
    leaving.emplace("launch: left; hosts may be of the release before: launch upgrade goes on");
  const up::BroughtUp brought = up::BringUp(set, options, contexts);
  options.progress = nullptr;
  const std::size_t failed = ShowFailures(app, brought.hosts);
  if (flags.dry_run) {
    ShowPlan(app, brought.hosts);
    return failed == 0 ? 0 : 1;
  }
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<NodeView> nodes, client.Nodes());
  LAUNCH_RETURN_IF_ERROR(app.OutTable(NodesTable(nodes, app.ScreenNow())));
  return failed == 0 ? 0 : 1;
}

}  // namespace

void AddUpVerbs(CLI::App& parser, App& app) {
  auto flags = std::make_shared<UpFlags>();
  CLI::App* up =
      parser.add_subcommand("up", "Install and start a cluster on machines reached by ssh");
  CLI::Option* hosts =
      up->add_option("hosts", flags->hosts,
                     "Hosts file, OpenSSH config, hostfile, or gpu[01-16],ana@10.0.0.7:2222");
  CLI::Option* slurm = up->add_option("--slurm", flags->slurm,
                                      "Nodes of a Slurm allocation: \"-p gpu -N 4 -t 8:00:00\"");
  slurm->excludes(hosts);
  up->add_option("--settings", flags->settings,
                 "With --slurm: settings file with `agent:` and `controller:`, as in a hosts file")
      ->needs(slurm)
      ->check(CLI::ExistingFile);
  up->add_option("--address", flags->address,
                 "With --slurm: address at which nodes reach this machine; default: its name");
  up->add_option("--cluster", flags->cluster,
                 "The cluster's own name, or a cluster that is known here; default: launch");
  up->add_option("--name", flags->name,
                 "Its name in `launch context`; default: the cluster's own name");
  up->add_option("--head", flags->head, "Host that runs the controller; default: the first");
  up->add_option("--user", flags->user, "User to log in as on the hosts");
  up->add_option("--port", flags->port, "ssh port")->check(CLI::Range(1, 65535));
  up->add_option("--key", flags->key, "Private key file for ssh");
  up->add_option("--jump", flags->jump, "ssh jump host: ana@bastion");
  up->add_flag("--sudo", flags->sudo, "Install as root, with passwordless sudo on the hosts");
  up->add_option("--controller-port", flags->controller_port,
                 "Port of the controller; default: 7470")
      ->check(CLI::Range(1, 65535));
  up->add_option("--programs", flags->programs,
                 "bin directory of the release for another architecture");
  up->add_flag("--dry-run", flags->dry_run, "Inspect the hosts and show what would be done");
  AddSshFlags(*up, *flags);
  up->callback([&app, flags] {
    app.run = [&app, flags]() -> Result<int> {
      LAUNCH_ASSIGN_OR_RETURN(flags->name, NameGiven(app, flags->name));
      return flags->slurm.empty() ? RunUp(app, *flags) : RunUpOnSlurm(app, *flags);
    };
  });

  auto newer = std::make_shared<UpFlags>();
  CLI::App* upgrade = parser.add_subcommand(
      "upgrade", "Install this release on a cluster that `launch up` made; jobs keep running");
  upgrade->add_option("cluster", newer->cluster, "Name of the cluster; default: the current one");
  upgrade->add_option("--programs", newer->programs,
                      "bin directory of the release for another architecture");
  upgrade->add_flag("--dry-run", newer->dry_run, "Inspect the hosts and show what would be done");
  AddSshFlags(*upgrade, *newer);
  upgrade->callback([&app, newer] { app.run = [&app, newer] { return RunUpgrade(app, *newer); }; });
}

}  // namespace launch
