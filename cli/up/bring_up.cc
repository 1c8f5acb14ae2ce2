#include "cli/up/bring_up.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "cli/up/blocked_port.h"
#include "cli/up/host_setup.h"
#include "cli/up/owner.h"
#include "cli/up/settings.h"
#include "cli/up/site.h"
#include "cli/up/start_head.h"
#include "common/pki.h"

namespace launch::up {
namespace {

constexpr Millis kAwaitNodes(30'000);
constexpr Millis kPoll(100);

// What is on it is nobody's, or this node's of this cluster.
Result<void> CheckOwner(Site& site, const UpOptions& options, const std::string& authority) {
  const HostFacts& facts = site.result.facts;
  if (facts.authority.empty()) return {};
  site.result.of_others = true;
  if (facts.authority != authority) return BelongsToAnother(site.result.host, facts, options);
  LAUNCH_RETURN_IF_ERROR(MustBeNode(site.result.host, facts));
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

Result<void> StartNode(Site& site, const UpOptions& options, Supply& supply,
                       const StartedHead& head) {
  const auto& [cluster, authority] = head;
  const HostFacts& facts = site.result.facts;
  LAUNCH_RETURN_IF_ERROR(CheckOwner(site, options, authority));
  const std::string settings = AgentFile(site.result.host.agent, facts.uid == 0);
  if (facts.uid != 0 && NeedsRoot(site.result.host.agent))
    return Fail(
        ErrorCode::kFailedPrecondition, "run_as: multi_user needs root on it",
        "write sudo: true, or user: root; or leave run_as out: it runs the jobs of " + facts.user);
  LAUNCH_RETURN_IF_ERROR(InstallOn(site, options, supply));
  const bool joins = facts.authority.empty() || CertificateOver(facts);
  if (options.dry_run) {
    SayNewSettings(options, site, "agent.yaml", settings, facts.agent_settings);
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
    if (auto joined = Join(*site.remote, facts, token.token, again); !joined)
      return Unexpected(WhyNotJoined(std::move(joined).error(), *site.remote, site.result.host.name,
                                     cluster.address));
    Say(options, site, again ? "joined the cluster again" : "joined the cluster");
  }
  site.result.proved = true;
  LAUNCH_ASSIGN_OR_RETURN(const Started started, StartAgent(*site.remote, facts, settings));
  SayNewSettings(options, site, "agent.yaml", settings, facts.agent_settings);
  if (started == Started::kStarted)
    Say(options, site, "started the agent (" + std::string(ToString(facts.keeper)) + ")");
  Enter(options, site, Stage::kReporting);
  return Tidy(site, options);
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
  ForEach(sites, options, options.parallel, [&](Site& site) -> Result<void> {
    if (site.result.done) return {};
    return Unexpected(WhyNotHeard(*site.remote, site.result.facts, site.result.host.name,
                                  cluster.address, kAwaitNodes));
  });
}

// Side by side, each reported when its time is over.
void BringUpTogether(std::vector<Site>& sites, const UpOptions& options, Supply& supply,
                     const StartedHead& head) {
  ForEach(sites, options, options.parallel, [&](Site& site) -> Result<void> {
    LAUNCH_RETURN_IF_ERROR(site.remote ? OpenAgain(site, options)
                                       : Reach(site, options, supply, false));
    return StartNode(site, options, supply, head);
  });
  if (!options.dry_run) AwaitReports(sites, options, head.cluster);
}

// The head first, the others one after another, each only when the one before has reported. After
// the first node that failed the rest is left as it is; a machine that is not reached, or never was
// this node, says nothing of the release.
void BringUpInTurn(std::vector<Site>& sites, const UpOptions& options, Supply& supply,
                   const StartedHead& head, std::size_t first) {
  std::vector<std::size_t> order = {first};
  for (std::size_t i = 0; i < sites.size(); ++i)
    if (i != first) order.push_back(i);
  std::string failed;
  for (const std::size_t i : order) {
    if (!failed.empty()) {
      Failed(options, sites[i],
             Error{ErrorCode::kFailedPrecondition,
                   "not upgraded, because " + failed + " failed before it",
                   "correct that one and run this again", std::nullopt});
      continue;
    }
    std::vector<Site> one(1);
    std::swap(one.front(), sites[i]);
    BringUpTogether(one, options, supply, head);
    std::swap(one.front(), sites[i]);
    const HostResult& result = sites[i].result;
    const bool node = !result.of_others && !result.facts.authority.empty();
    if (result.error && result.reached && node) failed = result.host.name;
  }
}

// Before anything is done on any: whether it could be a node, which is told also where the head
// fails.
void LookAtAll(std::vector<Site>& sites, const UpOptions& options, Supply& supply,
               const Site& head) {
  ForEach(sites, options, options.parallel,
          [&](Site& site) { return Reach(site, options, supply, &site == &head); });
  RefuseTwins(sites, options);
}

}  // namespace

Result<HeadUp> BringUpHead(const HostSet& set, const UpOptions& options, Contexts& contexts) {
  std::vector<Site> sites = SitesOf(set);
  Site& head = sites[HeadOf(set)];
  Supply supply(options.programs);
  LAUNCH_ASSIGN_OR_RETURN(StartedHead started, StartHead(head, set, options, supply, contexts));
  if (!options.dry_run) LAUNCH_RETURN_IF_ERROR(Tidy(head, options));
  return HeadUp{std::move(started.cluster), head.result.facts};
}

BroughtUp BringUp(const HostSet& set, const UpOptions& options, Contexts& contexts) {
  std::vector<Site> sites = SitesOf(set);
  const std::size_t first = HeadOf(set);
  Supply supply(options.programs);
  // An upgrade comes to the last of many nodes much later.
  if (!options.in_turn) LookAtAll(sites, options, supply, sites[first]);
  const std::optional<Error> unfit = sites[first].result.error;
  Result<StartedHead> head = unfit ? Result<StartedHead>(Unexpected(*unfit))
                                   : StartHead(sites[first], set, options, supply, contexts);
  if (!head) {
    if (!unfit) Failed(options, sites[first], head.error());
    // A controller that answers has no need of ssh to its machine; but no agent gets a release
    // before it.
    if (!sites[first].result.reached && !options.in_turn) head = RunningHead(options, contexts);
    if (!head) return {ResultsOf(sites), false};
  }
  if (options.in_turn) {
    BringUpInTurn(sites, options, supply, *head, first);
  } else {
    BringUpTogether(sites, options, supply, *head);
  }
  if (options.dry_run)
    for (Site& site : sites) site.result.done = !site.result.error;
  return {ResultsOf(sites), true};
}

}  // namespace launch::up
