#include <algorithm>
#include <utility>

#include "cli/up/bring_up.h"
#include "cli/up/host_setup.h"
#include "cli/up/site.h"
#include "common/pki.h"

namespace launch::up {
namespace {

// Nobody's, this cluster's, or made by an `up` that ended before it had the credentials: then no
// agent has joined it.
bool IsOurs(const HostResult& result, const HostSet& set, const Ending& ending) {
  const HostFacts& facts = result.facts;
  const auto ours = [&](const std::string& found) {
    return found.empty() || found == ending.authority;
  };
  if (ending.of_anybody || (ours(facts.authority) && ours(facts.controller))) return true;
  return ours(facts.authority) &&
         std::ranges::find(set.founding, result.host.name) != set.founding.end();
}

// A cluster that is in use is ended by its name, with what that verb asks first.
Result<void> MustBeAbandoned(const HostResult& result, const UpOptions& options,
                             const Ending& ending) {
  for (const std::string& authority : {result.facts.authority, result.facts.controller}) {
    const auto known = options.known.find(authority);
    if (authority.empty() || known == options.known.end() || !ending.answers ||
        !ending.answers(known->second))
      continue;
    return Fail(ErrorCode::kFailedPrecondition,
                "it is of the cluster that is known here as " + known->second +
                    ", whose controller answers",
                "`launch down " + known->second + "` ends that cluster, `launch nodes remove " +
                    result.host.name + " --cluster " + known->second +
                    "` takes this host out of it");
  }
  return {};
}

// "the node gpu1 of cluster lab"
std::string WhatIsThere(const HostFacts& facts) {
  if (const auto certificate = ReadCertificate(facts.certificate))
    return "the node " + certificate->identity.name + " of cluster " +
           certificate->identity.cluster;
  return facts.controller.empty() ? "" : "the controller of a cluster";
}

// Not another node whose address stands under this name.
Result<void> MustBeNamed(HostResult& result, const HostSet& set, const Ending& ending) {
  const HostFacts& facts = result.facts;
  result.of_others = true;
  if (!IsOurs(result, set, ending)) return {};
  if (!ending.of_anybody) {
    LAUNCH_RETURN_IF_ERROR(MustBeNode(result.host, facts));
    if (!facts.controller.empty() && facts.controller == ending.authority &&
        result.host.name != set.head)
      return Fail(ErrorCode::kFailedPrecondition,
                  "this machine is the head " + set.head + ": the controller lives on it",
                  "two entries lead to one machine, or the address of " + result.host.name +
                      " is wrong; nothing was done here");
  }
  result.of_others = false;
  return {};
}

}  // namespace

std::vector<HostResult> TakeDown(const HostSet& set, const UpOptions& options,
                                 const Ending& ending) {
  std::vector<Site> sites = SitesOf(set);
  const std::size_t head = HeadOf(set);
  const auto remove = [&](Site& site) -> Result<void> {
    LAUNCH_RETURN_IF_ERROR(Open(site, options));
    Enter(options, site, Stage::kEnding);
    LAUNCH_ASSIGN_OR_RETURN(site.result.facts, Probe(*site.remote));
    LAUNCH_RETURN_IF_ERROR(MustBeNamed(site.result, set, ending));
    if (site.result.of_others)
      return BelongsToAnother(site.result.host, site.result.facts, options);
    if (ending.of_anybody) {
      LAUNCH_RETURN_IF_ERROR(MustBeAbandoned(site.result, options, ending));
      if (const std::string what = WhatIsThere(site.result.facts); !what.empty())
        Say(options, site, "ends " + what);
    }
    LAUNCH_RETURN_IF_ERROR(
        Remove(*site.remote, site.result.facts, {.purge = ending.purge, .leaves = ending.leaves}));
    Say(options, site, ending.purge ? "ended and removed" : "ended");
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
