// up, upgrade, down, context: clusters on machines that ssh reaches.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <mutex>

#include "cli/app.h"
#include "cli/contexts.h"
#include "cli/daemon.h"
#include "cli/slurm_cluster.h"
#include "cli/table.h"
#include "cli/up/bring_up.h"
#include "cli/up/cluster_file.h"
#include "cli/up/upgrade.h"
#include "common/file_system.h"
#include "common/pki.h"
#include "common/version.h"

namespace launch {
namespace {

using up::HostResult;
using up::HostSet;
using up::UpOptions;

struct UpFlags {
  std::string hosts;
  std::string slurm;
  std::string address;
  std::string cluster = "launch";
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
};

// A file that is there is read; anything else without a slash is a hostlist.
Result<HostSet> ReadHostArgument(const std::string& text) {
  std::error_code ignored;
  if (!std::filesystem::exists(text, ignored) && text.find('/') == std::string::npos)
    return up::ReadHostlist(text);
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
  }
  if (!flags.head.empty()) set.head = flags.head;
  if (flags.controller_port != 0) set.controller_port = flags.controller_port;
}

// A person is asked at the terminal, one key at a time; without one, only the flag accepts.
std::function<bool(const std::string&, const std::string&)> KeyQuestion(const App& app,
                                                                        bool accept) {
  const auto turn = std::make_shared<std::mutex>();
  return [&app, accept, turn](const std::string& host, const std::string& fingerprint) {
    const std::lock_guard<std::mutex> lock(*turn);
    if (accept) {
      app.Note(host + ": new host key " + fingerprint + ", accepted by --accept-new-host-keys");
      return true;
    }
    if (::isatty(STDIN_FILENO) == 0) return false;
    std::cerr << "the key of " << host << " is not known: " << fingerprint
              << "\nis it this machine's? (yes/no) " << std::flush;
    std::string answer;
    std::getline(std::cin, answer);
    return answer == "yes";
  };
}

Result<UpOptions> OptionsOf(const App& app, const UpFlags& flags, const HostSet& set) {
  UpOptions options;
  options.cluster = flags.cluster;
  options.parallel = flags.parallel;
  options.dry_run = flags.dry_run;
  options.programs = flags.programs;
  if (const auto own = ProgramBeside("launch-agent"))
    options.programs.push_back(own->substr(0, own->rfind('/')));
  options.ssh.config = flags.ssh_config.empty() ? set.ssh_config : flags.ssh_config;
  options.ssh.accept_key = KeyQuestion(app, flags.accept_new_host_keys);
  const auto turn = std::make_shared<std::mutex>();
  options.say = [&app, turn](const std::string& host, const std::string& step) {
    const std::lock_guard<std::mutex> lock(*turn);
    app.Note(host + ": " + step);
  };
  return options;
}

// The hosts that did not make it, with what to do; the number of them.
std::size_t ShowFailures(const App& app, const std::vector<HostResult>& results) {
  std::size_t failed = 0;
  for (const HostResult& result : results) {
    if (!result.error) continue;
    ++failed;
    std::fprintf(stderr, "%s: %s\n", result.host.name.c_str(), FormatError(*result.error).c_str());
  }
  if (failed > 0)
    app.Note(std::to_string(failed) + " of " + std::to_string(results.size()) +
             " hosts failed; run this again when they are mended, the others are left as they are");
  return failed;
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

// Without the hosts that were never reached: nothing of ours is on them.
HostSet Reached(HostSet set, const std::vector<HostResult>& results) {
  std::erase_if(set.hosts, [&](const up::Host& host) {
    return std::any_of(results.begin(), results.end(), [&](const HostResult& result) {
      return result.host.name == host.name && result.error && result.facts.programs.empty();
    });
  });
  return set;
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
  LAUNCH_ASSIGN_OR_RETURN(set, up::CheckHosts(std::move(set), flags.hosts));
  Contexts contexts(Contexts::DefaultDir());
  LAUNCH_ASSIGN_OR_RETURN(const auto known, up::ReadClusterFile(contexts, flags.cluster));
  LAUNCH_ASSIGN_OR_RETURN(set, up::WithHead(std::move(set), known.value_or(HostSet{})));
  LAUNCH_ASSIGN_OR_RETURN(const UpOptions options, OptionsOf(app, flags, set));
  const HostSet before = known.value_or(HostSet{});
  if (!flags.dry_run) {  // whatever happens next, `down` knows where the controller is
    HostSet head = set;
    std::erase_if(head.hosts, [&](const up::Host& host) { return host.name != set.head; });
    LAUNCH_RETURN_IF_ERROR(up::WriteClusterFile(contexts, flags.cluster, up::Merged(before, head)));
  }
  LAUNCH_ASSIGN_OR_RETURN(const auto results, up::BringUp(set, options, contexts));
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

Result<HostSet> HostsOf(const Contexts& contexts, const std::string& cluster) {
  LAUNCH_ASSIGN_OR_RETURN(const auto known, up::ReadClusterFile(contexts, cluster));
  if (!known)
    return Fail(ErrorCode::kNotFound, "no cluster called " + cluster + " was brought up from here",
                "`launch context` lists those that are known");
  return up::WithHead(*known, *known);
}

Result<int> RunUpgrade(const App& app, const UpFlags& flags) {
  Contexts contexts(Contexts::DefaultDir());
  LAUNCH_ASSIGN_OR_RETURN(const HostSet set, HostsOf(contexts, flags.cluster));
  LAUNCH_ASSIGN_OR_RETURN(const Cluster cluster, ClusterOfCredentials(contexts.Dir(flags.cluster)));
  LAUNCH_ASSIGN_OR_RETURN(Client client, Client::Open(cluster));
  LAUNCH_ASSIGN_OR_RETURN(const ControllerStatus status, client.Status());
  LAUNCH_RETURN_IF_ERROR(up::CheckUpgrade(status.version, Version()));
  LAUNCH_ASSIGN_OR_RETURN(const UpOptions options, OptionsOf(app, flags, set));
  LAUNCH_ASSIGN_OR_RETURN(const auto results, up::Upgrade(set, options, contexts));
  const std::size_t failed = ShowFailures(app, results);
  if (flags.dry_run) {
    ShowPlan(app, results);
    return failed == 0 ? 0 : 1;
  }
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<NodeView> nodes, client.Nodes());
  app.Out(NodesTable(nodes, app.ScreenNow()));
  return failed == 0 ? 0 : 1;
}

// Jobs that are not done, which `down` would take with it.
Result<std::vector<JobId>> OpenJobs(Client& client) {
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<JobView> jobs, client.Jobs({}));
  std::vector<JobId> open;
  for (const JobView& job : jobs)
    if (!IsTerminal(job.state)) open.push_back(job.id);
  return open;
}

Result<int> RunDown(const App& app, const UpFlags& flags) {
  Contexts contexts(Contexts::DefaultDir());
  LAUNCH_ASSIGN_OR_RETURN(const HostSet set, HostsOf(contexts, flags.cluster));
  LAUNCH_ASSIGN_OR_RETURN(const Cluster cluster, ClusterOfCredentials(contexts.Dir(flags.cluster)));
  if (auto client = Client::Open(cluster); client) {
    const auto open = OpenJobs(*client);
    if (!open && !flags.force)
      return Fail(ErrorCode::kUnavailable,
                  "the controller cannot be asked what runs: " + open.error().message,
                  "--force ends the cluster in spite of that");
    if (!open && flags.purge)
      return Fail(ErrorCode::kUnavailable,
                  "the controller cannot be asked what runs, and --purge would leave ranks behind "
                  "that nobody can stop",
                  "bring the controller back, or end the cluster without --purge");
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
  LAUNCH_ASSIGN_OR_RETURN(const UpOptions options, OptionsOf(app, flags, set));
  LAUNCH_ASSIGN_OR_RETURN(const std::string ca_pem,
                          PosixFileSystem().Read(cluster.credentials + "/ca.pem", 1 << 20));
  const auto results = up::TakeDown(set, options, Sha256Hex(ca_pem), flags.purge);
  if (ShowFailures(app, results) > 0) return 1;
  if (flags.purge) LAUNCH_RETURN_IF_ERROR(contexts.Forget(flags.cluster));
  return 0;
}

Result<int> ListContexts(const App& app) {
  const Contexts contexts(Contexts::DefaultDir());
  const auto current = contexts.Current();
  for (const std::string& name : contexts.Names()) {
    const auto address = AddressOfCredentials(contexts.Dir(name));
    if (app.WantsName()) {
      app.Out(name + "\n");
    } else {
      app.Out((current == name ? "* " : "  ") + name + "  " + (address ? *address : "-") + "\n");
    }
  }
  return 0;
}

void AddSshFlags(CLI::App& verb, UpFlags& flags) {
  verb.add_option("-F,--ssh-config", flags.ssh_config, "OpenSSH config before your own")
      ->check(CLI::ExistingFile);
  verb.add_option("--parallel", flags.parallel, "Hosts at a time")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  verb.add_flag("--accept-new-host-keys", flags.accept_new_host_keys,
                "Trust keys of hosts that no known_hosts file has");
}

}  // namespace

void AddUpVerbs(CLI::App& parser, App& app) {
  auto flags = std::make_shared<UpFlags>();
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
  upgrade->add_option("cluster", newer->cluster, "Its name")->capture_default_str();
  upgrade->add_option("--programs", newer->programs,
                      "bin directory of a tarball for another architecture");
  upgrade->add_flag("--dry-run", newer->dry_run, "Look, and say what would be done");
  AddSshFlags(*upgrade, *newer);
  upgrade->callback([&app, newer] { app.run = [&app, newer] { return RunUpgrade(app, *newer); }; });

  auto ending = std::make_shared<UpFlags>();
  CLI::App* down = parser.add_subcommand("down", "End a cluster that `launch up` made");
  down->add_option("cluster", ending->cluster, "Its name")->capture_default_str();
  down->add_flag("--force", ending->force, "Cancel its jobs first");
  down->add_flag("--purge", ending->purge, "Remove programs and state from the hosts too");
  AddSshFlags(*down, *ending);
  down->callback([&app, ending] { app.run = [&app, ending] { return RunDown(app, *ending); }; });

  CLI::App* context = parser.add_subcommand(
      "context", "Clusters known here; `use` chooses one, `forget` removes one");
  context->callback([&app] {
    if (!app.run) app.run = [&app] { return ListContexts(app); };
  });
  auto name = std::make_shared<std::string>();
  CLI::App* use = context->add_subcommand("use", "Make a cluster the current one");
  use->add_option("name", *name, "Of `launch context`")->required();
  use->callback([&app, name] {
    app.run = [&app, name]() -> Result<int> {
      Contexts contexts(Contexts::DefaultDir());
      LAUNCH_RETURN_IF_ERROR(contexts.Use(*name));
      app.Note(*name + " is the current cluster");
      return 0;
    };
  });
  auto gone = std::make_shared<std::string>();
  CLI::App* forget =
      context->add_subcommand("forget", "Remove a cluster's credentials from this machine");
  forget->add_option("name", *gone, "Of `launch context`")->required();
  forget->callback([&app, gone] {
    app.run = [&app, gone]() -> Result<int> {
      Contexts contexts(Contexts::DefaultDir());
      LAUNCH_RETURN_IF_ERROR(contexts.MustKnow(*gone));
      LAUNCH_RETURN_IF_ERROR(contexts.Forget(*gone));
      app.Note(*gone + " is forgotten here; the cluster itself goes on");
      return 0;
    };
  });
}

}  // namespace launch
