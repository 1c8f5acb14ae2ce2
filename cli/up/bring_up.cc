#include "cli/up/bring_up.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "cli/up/host_setup.h"
#include "cli/up/release.h"
#include "cli/up/this_machine.h"
#include "common/file_system.h"
#include "common/pki.h"
#include "common/units.h"

namespace launch::up {
namespace {

constexpr Millis kAwaitNodes(30'000);
constexpr Millis kPoll(100);

// One host's connection, facts and story.
struct Site {
  HostResult result;
  std::unique_ptr<Remote> remote;
  Release release;
};

void Say(const UpOptions& options, Site& site, std::string step) {
  if (options.say) options.say(site.result.host.name, step);
  site.result.steps.push_back(std::move(step));
}

void Enter(const UpOptions& options, const Site& site, Stage stage, std::uint64_t sent = 0,
           std::uint64_t total = 0) {
  if (!options.progress) return;
  options.progress({.host = site.result.host.name, .stage = stage, .sent = sent, .total = total});
}

void Failed(const UpOptions& options, Site& site, Error error) {
  if (options.progress)
    options.progress(
        {.host = site.result.host.name, .stage = Stage::kFailed, .why = error.message});
  site.result.error = std::move(error);
}

// Runs `work` for each site, `parallel` at a time; an error stays with its site.
template <class Work>
void ForEach(std::vector<Site>& sites, const UpOptions& options, int parallel, Work work) {
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    for (std::size_t i = next++; i < sites.size(); i = next++) {
      if (sites[i].result.error) continue;
      if (Result<void> done = work(sites[i]); !done) Failed(options, sites[i], done.error());
    }
  };
  std::vector<std::thread> threads;
  const std::size_t count = std::min(sites.size(), static_cast<std::size_t>(std::max(1, parallel)));
  for (std::size_t i = 0; i < count; ++i) threads.emplace_back(run);
  for (std::thread& thread : threads) thread.join();
}

Result<std::unique_ptr<Remote>> RemoteOf(const Host& host, const SshOptions& options) {
  if (host.local) return ThisMachine();
  return Connect(host, options);
}

Result<void> Reach(Site& site, const UpOptions& options, Releases& releases, bool head) {
  Enter(options, site, Stage::kConnecting);
  LAUNCH_ASSIGN_OR_RETURN(site.remote, RemoteOf(site.result.host, options.ssh));
  Enter(options, site, Stage::kLooking);
  HostNeeds needs;
  needs.clock = static_cast<std::int64_t>(std::time(nullptr));
  LAUNCH_ASSIGN_OR_RETURN(site.result.facts, Probe(*site.remote));
  const HostFacts& facts = site.result.facts;
  auto release = releases.For(facts.arch, head);
  needs.has_programs = release.has_value();
  if (release) {
    site.release = std::move(*release);
    // What is installed needs no more room.
    needs.bytes = facts.installed == site.release.id ? 0 : site.release.bytes;
  }
  return CheckHost(facts, needs);
}

Result<void> InstallOn(Site& site, const UpOptions& options) {
  const HostFacts& facts = site.result.facts;
  const std::string what = site.release.id + " (" + FormatBytes(site.release.bytes) + ")";
  if (options.dry_run) {
    if (facts.installed != site.release.id)
      Say(options, site, "would install " + what + " into " + facts.programs);
    return {};
  }
  LAUNCH_ASSIGN_OR_RETURN(
      const bool uploaded,
      Install(*site.remote, facts, site.release, [&](std::uint64_t sent, std::uint64_t total) {
        Enter(options, site, Stage::kSending, sent, total);
      }));
  if (uploaded) Say(options, site, "installed " + what + " into " + facts.programs);
  return {};
}

// What is on it is nobody's, or this node's of this cluster.
Result<void> CheckOwner(Site& site, const std::string& authority) {
  const HostFacts& facts = site.result.facts;
  if (facts.authority.empty()) return {};
  site.result.of_others = true;
  if (facts.authority != authority)
    return Fail(
        ErrorCode::kFailedPrecondition, "its agent belongs to another cluster",
        "`launch down` of that cluster first, where it was brought up; where nobody can, end "
        "launch-agent on it and remove " +
            facts.programs + " and " + facts.state);
  const auto certificate = ReadCertificate(facts.certificate);
  if (certificate && certificate->identity.name != site.result.host.name)
    return Fail(ErrorCode::kFailedPrecondition,
                "this machine is the node " + certificate->identity.name + " already",
                "two entries lead to one machine: keep that one, or `launch nodes remove " +
                    certificate->identity.name + "` first");
  site.result.of_others = false;
  return {};
}

// Whether the agent's certificate is past its end, or unreadable: then nobody lets it in, and only
// another join helps.
bool CertificateOver(const HostFacts& facts) {
  const auto certificate = ReadCertificate(facts.certificate);
  return !certificate || certificate->not_after < WallTime(Millis(facts.clock * 1000));
}

// A name that the cluster knows, and nobody speaks for: its machine was set up anew, or its
// certificate ended. A live one is not pushed out.
Result<bool> IsSilentNode(Client& client, const std::string& name) {
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<NodeView> nodes, client.Nodes());
  return std::any_of(nodes.begin(), nodes.end(), [&](const NodeView& node) {
    return node.inventory.node.value == name && (node.state == "silent" || node.state == "unknown");
  });
}

Result<void> StartNode(Site& site, const UpOptions& options, const Cluster& cluster,
                       const std::string& authority) {
  const HostFacts& facts = site.result.facts;
  LAUNCH_RETURN_IF_ERROR(CheckOwner(site, authority));
  LAUNCH_RETURN_IF_ERROR(InstallOn(site, options));
  const bool joins = facts.authority.empty() || CertificateOver(facts);
  if (options.dry_run) {
    if (joins) Say(options, site, "would join the cluster at " + cluster.address);
    Say(options, site,
        "would see to it that the agent runs (" + std::string(ToString(facts.keeper)) + ")");
    return {};
  }
  Enter(options, site, Stage::kStarting);
  if (joins) {
    LAUNCH_ASSIGN_OR_RETURN(Client client, Client::Open(cluster));
    LAUNCH_ASSIGN_OR_RETURN(
        const TokenMade token,
        client.CreateToken({"node", site.result.host.name, Millis(0), {cluster.address}}));
    LAUNCH_ASSIGN_OR_RETURN(const bool again, IsSilentNode(client, site.result.host.name));
    LAUNCH_RETURN_IF_ERROR(Join(*site.remote, facts, token.token, again));
    Say(options, site, again ? "joined the cluster again" : "joined the cluster");
  }
  LAUNCH_ASSIGN_OR_RETURN(const Started started, StartAgent(*site.remote, facts));
  if (started == Started::kStarted)
    Say(options, site, "started the agent (" + std::string(ToString(facts.keeper)) + ")");
  Enter(options, site, Stage::kReporting);
  return {};
}

// The credentials that are kept here under this name are those of the controller on that head: no
// other cluster's are written over, and a head that lost its state does not become a new cluster.
Result<void> CheckContext(const Contexts& contexts, const std::string& cluster, const Site& head) {
  const auto ca_pem = PosixFileSystem().Read(contexts.Dir(cluster) + "/ca.pem", 1 << 20);
  if (!ca_pem && ca_pem.error().code == ErrorCode::kNotFound) return {};
  if (!ca_pem) return Unexpected(ca_pem.error());
  const HostFacts& facts = head.result.facts;
  if (Sha256Hex(*ca_pem) == facts.controller) return {};
  return Fail(ErrorCode::kFailedPrecondition,
              "cluster " + cluster + " is known here, and its controller is not on " +
                  head.result.host.name,
              "another cluster wants another name: --cluster NAME; if that machine lost its disk, "
              "bring " +
                  facts.state +
                  "/controller back (`launch server restore`), or give the "
                  "old cluster up: launch context forget " +
                  cluster);
}

Result<Cluster> StartHead(Site& head, const HostSet& set, const UpOptions& options,
                          Releases& releases, Contexts& contexts, std::string& authority) {
  const int port = set.Port();
  LAUNCH_ASSIGN_OR_RETURN(const std::string name, AddressOf(head.result.host, options.ssh));
  const std::string address = name + ":" + std::to_string(port);
  LAUNCH_RETURN_IF_ERROR(Reach(head, options, releases, true));
  LAUNCH_RETURN_IF_ERROR(MustResolve(name));  // after ssh, whose own words say more
  LAUNCH_ASSIGN_OR_RETURN(const std::string there,
                          ClusterOfController(*head.remote, head.result.facts));
  if (!there.empty() && there != options.cluster)
    return Fail(ErrorCode::kFailedPrecondition, "the controller of cluster " + there + " is on it",
                "--cluster " + there + " adds hosts to that one; or choose another --head");
  LAUNCH_RETURN_IF_ERROR(CheckContext(contexts, options.cluster, head));
  LAUNCH_RETURN_IF_ERROR(InstallOn(head, options));
  const Cluster cluster{address, contexts.Dir(options.cluster), false};
  if (options.dry_run) {
    Say(options, head, "would see to it that the controller runs at " + address);
    authority = head.result.facts.authority;
    return cluster;
  }
  Enter(options, head, Stage::kStarting);
  LAUNCH_ASSIGN_OR_RETURN(const ControllerMade made,
                          StartController(*head.remote, head.result.facts, options.cluster, port));
  authority = made.authority;
  LAUNCH_RETURN_IF_ERROR(
      contexts.Save(options.cluster, {address, made.ca_pem, made.certificate_pem, made.key_pem}));
  if (made.started == Started::kStarted)
    Say(options, head,
        "started the controller at " + address + " (" +
            std::string(ToString(head.result.facts.keeper)) + ")");
  LAUNCH_ASSIGN_OR_RETURN(Client client, Client::Open(cluster));
  const auto end = std::chrono::steady_clock::now() + Millis(10'000);
  for (;;) {
    const auto status = client.Status();
    if (status) return cluster;
    if (std::chrono::steady_clock::now() > end)
      return Fail(ErrorCode::kUnavailable,
                  "the controller runs on " + head.result.host.name + " and does not answer at " +
                      address + ": " + status.error().message,
                  "open port " + std::to_string(port) +
                      " of it to this machine and to the nodes, or "
                      "write address: with one that all reach");
    std::this_thread::sleep_for(kPoll);
  }
}

// Marks every started node that has reported, and the others as silent when the time is over.
void AwaitReports(std::vector<Site>& sites, const UpOptions& options, const Cluster& cluster) {
  const auto end = std::chrono::steady_clock::now() + kAwaitNodes;
  Result<Client> client = Client::Open(cluster);
  for (;;) {
    std::set<std::string> here;
    if (client) {
      const auto nodes = client->Nodes();
      for (const NodeView& node : nodes ? *nodes : std::vector<NodeView>())
        if (node.state != "silent" && node.state != "unknown")
          here.insert(node.inventory.node.value);
    }
    bool missing = false;
    for (Site& site : sites) {
      if (!site.result.error && !site.result.done && here.contains(site.result.host.name)) {
        site.result.done = true;
        Enter(options, site, Stage::kReady);
      }
      missing = missing || (!site.result.error && !site.result.done);
    }
    if (!missing) return;
    if (std::chrono::steady_clock::now() > end) break;
    std::this_thread::sleep_for(kPoll);
  }
  for (Site& site : sites) {
    if (site.result.error || site.result.done) continue;
    Failed(options, site,
           Error{ErrorCode::kUnavailable,
                 "its agent runs and has not reported for " + FormatDurationShort(kAwaitNodes),
                 "is " + cluster.address + " open to it? its own words: " +
                     site.result.facts.state + "/launch-agent.log, or journalctl -u launch-agent",
                 std::nullopt});
  }
}

std::vector<HostResult> ResultsOf(std::vector<Site>& sites) {
  std::vector<HostResult> results;
  for (Site& site : sites) results.push_back(std::move(site.result));
  return results;
}

std::vector<Site> SitesOf(const HostSet& set) {
  std::vector<Site> sites(set.hosts.size());
  for (std::size_t i = 0; i < sites.size(); ++i) sites[i].result.host = set.hosts[i];
  return sites;
}

std::size_t HeadOf(const HostSet& set) {
  const auto found = std::find_if(set.hosts.begin(), set.hosts.end(),
                                  [&](const Host& host) { return host.name == set.head; });
  return found == set.hosts.end() ? 0 : static_cast<std::size_t>(found - set.hosts.begin());
}

}  // namespace

Result<HeadUp> BringUpHead(const HostSet& set, const UpOptions& options, Contexts& contexts) {
  std::vector<Site> sites = SitesOf(set);
  Site& head = sites[HeadOf(set)];
  Releases releases(options.programs);
  std::string authority;
  LAUNCH_ASSIGN_OR_RETURN(Cluster cluster,
                          StartHead(head, set, options, releases, contexts, authority));
  return HeadUp{std::move(cluster), head.result.facts};
}

Result<std::vector<HostResult>> BringUp(const HostSet& set, const UpOptions& options,
                                        Contexts& contexts) {
  std::vector<Site> sites = SitesOf(set);
  const std::size_t head = HeadOf(set);
  std::string authority;
  Releases releases(options.programs);
  auto cluster = StartHead(sites[head], set, options, releases, contexts, authority);
  if (!cluster) {
    Error error = cluster.error();
    Failed(options, sites[head], error);
    error.message = "head " + sites[head].result.host.name + ": " + error.message;
    return Unexpected(std::move(error));
  }
  ForEach(sites, options, options.parallel, [&](Site& site) -> Result<void> {
    if (!site.remote) LAUNCH_RETURN_IF_ERROR(Reach(site, options, releases, false));
    return StartNode(site, options, *cluster, authority);
  });
  if (options.dry_run) {
    for (Site& site : sites) site.result.done = !site.result.error;
  } else {
    AwaitReports(sites, options, *cluster);
  }
  return ResultsOf(sites);
}

std::vector<HostResult> TakeDown(const HostSet& set, const UpOptions& options,
                                 const std::string& authority, bool purge) {
  std::vector<Site> sites = SitesOf(set);
  const std::size_t head = HeadOf(set);
  const auto remove = [&](Site& site) -> Result<void> {
    Enter(options, site, Stage::kConnecting);
    LAUNCH_ASSIGN_OR_RETURN(site.remote, RemoteOf(site.result.host, options.ssh));
    Enter(options, site, Stage::kEnding);
    LAUNCH_ASSIGN_OR_RETURN(site.result.facts, Probe(*site.remote));
    LAUNCH_RETURN_IF_ERROR(Remove(*site.remote, site.result.facts, authority, purge));
    Say(options, site, purge ? "ended and removed" : "ended");
    site.result.done = true;
    Enter(options, site, Stage::kEnded);
    return {};
  };
  // The controller last: agents say goodbye to it.
  std::vector<Site> last(1);
  std::swap(last[0], sites[head]);
  sites.erase(sites.begin() + static_cast<std::ptrdiff_t>(head));
  ForEach(sites, options, options.parallel, remove);
  ForEach(last, options, 1, remove);
  sites.insert(sites.begin() + static_cast<std::ptrdiff_t>(head), std::move(last[0]));
  return ResultsOf(sites);
}

}  // namespace launch::up
