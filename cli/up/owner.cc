#include "cli/up/owner.h"

#include <algorithm>

#include "common/pki.h"
#include "common/quoted.h"

namespace launch::up {
namespace {

// Of whom the certificate is; empty: it cannot be read.
std::string ClusterOf(const std::string& pem) {
  const auto certificate = ReadCertificate(pem);
  return certificate ? certificate->identity.cluster : "";
}

std::string ClusterOf(const HostFacts& facts) {
  std::string cluster = ClusterOf(facts.certificate);
  return cluster.empty() ? ClusterOf(facts.controller_certificate) : cluster;
}

std::string AgentThere(const HostFacts& facts) {
  if (const auto certificate = ReadCertificate(facts.certificate))
    return "the node " + certificate->identity.name + " of cluster " +
           certificate->identity.cluster;
  return facts.authority.empty() ? "" : "a node of a cluster whose name cannot be read";
}

std::string ControllerThere(const HostFacts& facts) {
  if (facts.controller.empty()) return {};
  const std::string cluster = ClusterOf(facts.controller_certificate);
  return "the controller of " + (cluster.empty() ? "a cluster" : "cluster " + cluster);
}

bool HasTwoClusters(const HostFacts& facts) {
  return !facts.authority.empty() && !facts.controller.empty() &&
         facts.authority != facts.controller;
}

// What ends a cluster that nobody knows any more.
std::string EndingOf(const std::string& cluster, const std::string& host) {
  return "launch down " + (cluster.empty() ? "CLUSTER" : ShellQuote(cluster)) + " --hosts " + host +
         " --purge --force";
}

// Nobody's, this cluster's, or made by an `up` that ended before it had the credentials: then no
// agent has joined it.
bool IsOurs(const HostResult& result, const HostSet& set, const Ending& ending) {
  const HostFacts& facts = result.facts;
  const auto ours = [&](const std::string& found) {
    return found.empty() || found == ending.authority;
  };
  if (ours(facts.authority) && ours(facts.controller)) return true;
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

// Whoever ends a cluster by its hosts says which one it is, as they may be of another that lives.
Result<void> MustBeNamed(const HostResult& result, const Ending& ending) {
  const HostFacts& facts = result.facts;
  const std::string what = WhatIsThere(facts);
  const std::string cluster = ClusterOf(facts);
  if (what.empty()) return {};
  const bool two = HasTwoClusters(facts);
  const bool named = !ending.cluster.empty() && (cluster.empty() || cluster == ending.cluster);
  if (named && !two) return {};
  if (two)
    return Fail(ErrorCode::kFailedPrecondition, "it is " + what,
                "end them one by one: `launch nodes remove` and `launch down` from where each was "
                "brought up, or by hand, with what is in " +
                    facts.state);
  return Fail(
      ErrorCode::kFailedPrecondition,
      "it is " + what + (ending.cluster.empty() ? "" : ", not of " + ending.cluster),
      "whoever uses that loses it; to end it all the same: " + EndingOf(cluster, result.host.name));
}

}  // namespace

std::string WhatIsThere(const HostFacts& facts) {
  const std::string agent = AgentThere(facts);
  if (agent.empty() || HasTwoClusters(facts))
    return agent + (agent.empty() ? "" : " and ") + ControllerThere(facts);
  return agent;
}

Result<void> MustBeNode(const Host& host, const HostFacts& facts) {
  const auto certificate = ReadCertificate(facts.certificate);
  if (!certificate || certificate->identity.name == host.name) return {};
  return Fail(ErrorCode::kFailedPrecondition,
              "this machine is the node " + certificate->identity.name + " already",
              "two entries lead to one machine, or the address of " + host.name +
                  " is wrong; nothing was done here: correct the entry, or `launch nodes remove " +
                  certificate->identity.name + "` first");
}

Unexpected BelongsToAnother(const Host& host, const HostFacts& facts, const UpOptions& options) {
  const bool agent = !facts.authority.empty();
  std::string whose = "another cluster";
  if (const auto certificate = ReadCertificate(facts.certificate); agent && certificate)
    whose +=
        " called " + certificate->identity.cluster + ", where it is " + certificate->identity.name;
  const auto known = options.known.find(agent ? facts.authority : facts.controller);
  const std::string hint =
      known != options.known.end()
          ? "it is known here as " + known->second + ": `launch down " + known->second +
                "` ends it, `launch nodes remove " + host.name + " --cluster " + known->second +
                "` takes this host out of it"
          : "`launch down` where it was brought up; where nobody can any more: " +
                EndingOf(ClusterOf(facts), host.name) +
                ", which removes nothing while ranks live there";
  return Fail(ErrorCode::kFailedPrecondition,
              (agent ? "its agent belongs to " : "its controller belongs to ") + whose, hint);
}

Result<void> MustBeEnded(HostResult& result, const HostSet& set, const UpOptions& options,
                         const Ending& ending) {
  const HostFacts& facts = result.facts;
  result.of_others = true;
  if (ending.of_anybody) {
    LAUNCH_RETURN_IF_ERROR(MustBeAbandoned(result, options, ending));
    LAUNCH_RETURN_IF_ERROR(MustBeNamed(result, ending));
  } else {
    if (!IsOurs(result, set, ending)) return BelongsToAnother(result.host, facts, options);
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

}  // namespace launch::up
