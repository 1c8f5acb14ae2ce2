#include "cli/up/start_head.h"

#include <chrono>
#include <thread>
#include <utility>

#include "cli/up/head_address.h"
#include "cli/up/host_setup.h"
#include "cli/up/owner.h"
#include "cli/up/settings.h"
#include "common/file_system.h"
#include "common/pki.h"

namespace launch::up {
namespace {

constexpr Millis kComesUp(10'000);
constexpr Millis kAskAgain(100);

// The credentials that are kept here under this name are those of the controller on that head: no
// other cluster's are written over, and a head that lost its state does not become a new cluster.
Result<void> CheckContext(const Contexts& contexts, const std::string& cluster, const Site& head) {
  const auto ca_pem = PosixFileSystem().Read(contexts.Dir(cluster) + "/ca.pem", 1 << 20);
  if (!ca_pem && ca_pem.error().code == ErrorCode::kNotFound) return {};
  if (!ca_pem) return Unexpected(ca_pem.error());
  const HostFacts& facts = head.result.facts;
  if (Sha256Hex(*ca_pem) == facts.controller) return {};
  return Fail(
      ErrorCode::kFailedPrecondition,
      "cluster " + cluster + " is known here, and its controller is not on " +
          head.result.host.name,
      "another cluster wants another name here: --name NAME; if that machine lost its disk, "
      "bring " +
          facts.state +
          "/controller back (`launch server restore`), or give the "
          "old cluster up: launch context forget " +
          cluster);
}

}  // namespace

Result<StartedHead> StartHead(Site& head, const HostSet& set, const UpOptions& options,
                              Supply& supply, Contexts& contexts) {
  const int port = set.Port();
  LAUNCH_ASSIGN_OR_RETURN(const std::string name, AddressOf(head.result.host, options.ssh));
  const std::string address = WithPort(name, port);
  if (!head.remote) LAUNCH_RETURN_IF_ERROR(Reach(head, options, supply, true));
  // After ssh, whose own words say more.
  LAUNCH_ASSIGN_OR_RETURN(const Families families, MustResolve(name));
  LAUNCH_ASSIGN_OR_RETURN(const std::string there,
                          ClusterOfController(*head.remote, head.result.facts));
  if (!there.empty() && there != options.cluster)
    return Fail(ErrorCode::kFailedPrecondition, "the controller of cluster " + there + " is on it",
                "--cluster " + there + " adds hosts to that one; or choose another --head");
  LAUNCH_RETURN_IF_ERROR(CheckContext(contexts, options.context, head));
  const HostFacts& facts = head.result.facts;
  if (!facts.authority.empty() && facts.authority != facts.controller)
    return BelongsToAnother(head.result.host, facts, options);
  LAUNCH_RETURN_IF_ERROR(InstallOn(head, options, supply));
  const Cluster cluster{address, contexts.Dir(options.context), false};
  const std::string settings = ControllerFile(set.controller);
  if (options.dry_run) {
    SayNewSettings(options, head, "controller.yaml", settings, facts.controller_settings);
    Say(options, head, "would see to it that the controller runs at " + address);
    return StartedHead{cluster, head.result.facts.controller};
  }
  Enter(options, head, Stage::kStarting);
  if (head.result.facts.controller.empty() && options.founding)
    LAUNCH_RETURN_IF_ERROR(options.founding());
  LAUNCH_ASSIGN_OR_RETURN(
      const ControllerMade made,
      StartController(*head.remote, head.result.facts, options.cluster, port, families, settings));
  LAUNCH_RETURN_IF_ERROR(
      contexts.Save(options.context, {address, made.ca_pem, made.certificate_pem, made.key_pem}));
  SayNewSettings(options, head, "controller.yaml", settings, facts.controller_settings);
  if (made.started == Started::kStarted)
    Say(options, head,
        "started the controller at " + address + " (" +
            std::string(ToString(head.result.facts.keeper)) + ")");
  LAUNCH_ASSIGN_OR_RETURN(Client client, Client::Open(cluster));
  const auto end = std::chrono::steady_clock::now() + kComesUp;
  for (;;) {
    const auto status = client.Status();
    if (status) return StartedHead{cluster, made.authority};
    if (std::chrono::steady_clock::now() > end)
      return Fail(ErrorCode::kUnavailable,
                  "the controller runs on " + head.result.host.name + " and does not answer at " +
                      address + ": " + status.error().message,
                  "open port " + std::to_string(port) +
                      " of it to this machine and to the nodes, or "
                      "write address: with one that all reach");
    std::this_thread::sleep_for(kAskAgain);
  }
}

Result<StartedHead> RunningHead(const UpOptions& options, const Contexts& contexts) {
  const std::string dir = contexts.Dir(options.context);
  LAUNCH_ASSIGN_OR_RETURN(const std::string ca_pem,
                          PosixFileSystem().Read(dir + "/ca.pem", 1 << 20));
  LAUNCH_ASSIGN_OR_RETURN(Cluster cluster, ClusterOfCredentials(dir));
  LAUNCH_ASSIGN_OR_RETURN(Client client, Client::Open(cluster));
  LAUNCH_RETURN_IF_ERROR(client.Status());
  return StartedHead{std::move(cluster), Sha256Hex(ca_pem)};
}

}  // namespace launch::up
