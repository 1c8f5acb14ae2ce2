#include "cli/up_flags.h"

#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <mutex>

#include "cli/daemon.h"
#include "cli/environment_variable.h"
#include "cli/progress_screen.h"
#include "cli/up/cluster_file.h"
#include "common/file_system.h"
#include "common/pki.h"

namespace launch {

using up::HostResult;
using up::HostSet;
using up::UpOptions;

namespace {

constexpr const char* kUsualCluster = "launch";

// A person is asked at the terminal; without one, only the flag accepts.
bool IsAccepted(const App& app, bool accept, const std::string& host,
                const std::string& fingerprint) {
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
}

// One key at a time, with the terminal to itself.
std::function<bool(const std::string&, const std::string&)> KeyQuestion(
    const App& app, bool accept, const std::weak_ptr<ProgressScreen>& shown) {
  const auto turn = std::make_shared<std::mutex>();
  return [&app, accept, turn, shown](const std::string& host, const std::string& fingerprint) {
    const std::lock_guard<std::mutex> lock(*turn);
    bool accepted = false;
    const auto ask = [&] { accepted = IsAccepted(app, accept, host, fingerprint); };
    if (const auto screen = shown.lock()) {
      screen->Aside(ask);
    } else {
      ask();
    }
    return accepted;
  };
}

std::shared_ptr<ProgressScreen> ScreenOf(const App& app, const UpFlags& flags, const HostSet& set) {
  if (flags.dry_run || app.quiet || set.hosts.empty() || !ProgressScreen::Possible())
    return nullptr;
  std::vector<std::string> names;
  for (const up::Host& host : set.hosts) names.push_back(host.name);
  return std::make_shared<ProgressScreen>(names);
}

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

// Of a key that an agent holds the public half may be all that is here. The paths are kept with the
// cluster, as that of the configuration.
Result<void> FindKeys(HostSet& set) {
  std::error_code ignored;
  const std::string home = EnvironmentVariable("HOME");
  for (up::Host& host : set.hosts) {
    if (host.key.empty()) continue;
    const bool of_home = host.key.starts_with("~/") && !home.empty();
    if (!of_home) host.key = std::filesystem::absolute(host.key, ignored).lexically_normal();
    const std::string file = of_home ? home + host.key.substr(1) : host.key;
    if (::access(file.c_str(), R_OK) == 0 || ::access((file + ".pub").c_str(), R_OK) == 0) continue;
    return Fail(ErrorCode::kNotFound, "the key " + host.key + " of " + host.name + " is not here",
                "name a private key file that you can read, or leave it out: ssh's own are tried");
  }
  return {};
}

// A context that is known keeps the name that its cluster has; a new one is called like it.
Result<void> Name(const UpFlags& flags, const Contexts& contexts, UpOptions& options) {
  options.context = flags.name.empty() ? flags.cluster : flags.name;
  if (options.context.empty()) options.context = kUsualCluster;
  LAUNCH_RETURN_IF_ERROR(Contexts::CheckName(options.context));
  const auto holder = contexts.Holder(options.context);
  const std::string named = flags.cluster.empty() ? kUsualCluster : flags.cluster;
  options.cluster = holder ? holder->cluster : named;
  if (holder && !flags.name.empty() && !flags.cluster.empty() && holder->cluster != flags.cluster)
    return Fail(ErrorCode::kAlreadyExists,
                "the cluster that is known here as " + flags.name + " is called " +
                    holder->cluster + ", not " + flags.cluster,
                "choose another --name");
  return {};
}

}  // namespace

Result<HostSet> HostsNamed(const UpFlags& flags) {
  LAUNCH_ASSIGN_OR_RETURN(HostSet set, ReadHostArgument(flags.hosts));
  ApplyFlags(flags, set);
  LAUNCH_ASSIGN_OR_RETURN(set, up::CheckHosts(std::move(set), flags.hosts));
  LAUNCH_RETURN_IF_ERROR(FindKeys(set));
  return set;
}

Result<UpOptions> OptionsOf(const App& app, const UpFlags& flags, const HostSet& set) {
  UpOptions options;
  const Contexts contexts(Contexts::DefaultDir());
  LAUNCH_RETURN_IF_ERROR(Name(flags, contexts, options));
  for (const std::string& name : contexts.Names())
    if (const auto ca_pem = PosixFileSystem().Read(contexts.Dir(name) + "/ca.pem", 1 << 20))
      options.known.emplace(Sha256Hex(*ca_pem), name);
  options.parallel = flags.parallel;
  options.dry_run = flags.dry_run;
  options.programs = flags.programs;
  if (const auto own = ProgramBeside("launch-agent"))
    options.programs.push_back(own->substr(0, own->rfind('/')));
  options.ssh.config = flags.ssh_config.empty() ? set.ssh_config : flags.ssh_config;
  options.ssh.accept_new = flags.accept_new_host_keys;
  options.ssh.known_hosts_lock = Contexts::DefaultDir() + "/known_hosts.lock";
  const auto screen = ScreenOf(app, flags, set);
  options.ssh.accept_key = KeyQuestion(app, flags.accept_new_host_keys, screen);
  if (screen) {  // it tells the steps
    options.progress = [screen](const up::Progress& progress) { screen->Take(progress); };
    return options;
  }
  const auto turn = std::make_shared<std::mutex>();
  options.say = [&app, turn](const std::string& host, const std::string& step) {
    const std::lock_guard<std::mutex> lock(*turn);
    app.Note(host + ": " + step);
  };
  return options;
}

std::size_t ShowFailures(const App& app, const std::vector<HostResult>& results,
                         const std::string& told) {
  std::size_t failed = 0;
  for (const HostResult& result : results) {
    if (!result.error) continue;
    ++failed;
    if (result.host.name == told) continue;
    std::fprintf(stderr, "%s: %s\n", result.host.name.c_str(), FormatError(*result.error).c_str());
  }
  if (failed > 0)
    app.Note(
        std::to_string(failed) + " of " + std::to_string(results.size()) +
        " hosts failed; run this again when they are repaired; the others are left as they are");
  return failed;
}

Result<std::string> NameGiven(const App& app, const std::string& named) {
  if (!named.empty() && !app.context.empty() && named != app.context)
    return Fail(ErrorCode::kInvalidArgument,
                "--context " + app.context + " and " + named + " are two clusters",
                "leave one of the two out");
  return named.empty() ? app.context : named;
}

Result<std::string> ClusterMeant(const App& app, const Contexts& contexts,
                                 const std::string& named) {
  LAUNCH_ASSIGN_OR_RETURN(std::string given, NameGiven(app, named));
  if (!given.empty()) return given;
  if (const auto current = contexts.Current()) return *current;
  // One whose `up` was interrupted before its controller answered is nobody's current one.
  const std::vector<std::string> begun = up::ClustersWithHosts(contexts);
  return begun.size() == 1 ? begun.front() : "";
}

Result<HostSet> HostsOf(const Contexts& contexts, const std::string& cluster) {
  if (cluster.empty())
    return Fail(ErrorCode::kNotFound, "no cluster is current, and none is named",
                "`launch context` lists those that are known");
  LAUNCH_ASSIGN_OR_RETURN(const auto known, up::ReadClusterFile(contexts, cluster));
  if (!known)
    return Fail(ErrorCode::kNotFound, "no cluster called " + cluster + " was brought up from here",
                "`launch context` lists those that are known");
  return up::WithHead(*known, *known);
}

void AddSshFlags(CLI::App& verb, UpFlags& flags) {
  verb.add_option("-F,--ssh-config", flags.ssh_config,
                  "OpenSSH config file to use instead of your own")
      ->check(CLI::ExistingFile);
  verb.add_option("--parallel", flags.parallel, "Number of hosts to work on at a time")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  verb.add_flag("--accept-new-host-keys", flags.accept_new_host_keys,
                "Accept keys of hosts that are in no known_hosts file");
}

}  // namespace launch
