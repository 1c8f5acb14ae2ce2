#include "cli/slurm_cluster.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "cli/leave_note.h"
#include "cli/up/cluster_file.h"
#include "cli/up/embedded_texts.h"
#include "cli/up/slurm.h"
#include "cli/up/this_machine.h"

namespace launch {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr Millis kAwaitAllocation(60'000);
// A user who reads "PENDING" once need not wait for more of it.
constexpr Millis kAwaitStart(5000);
constexpr Millis kBetween(500);

std::string NameOfThisMachine() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

// The cluster with its head on this machine.
Result<up::HostSet> SetOf(const SlurmWish& wish, const Contexts& contexts,
                          const std::string& cluster) {
  LAUNCH_ASSIGN_OR_RETURN(const auto known, up::ReadClusterFile(contexts, cluster));
  up::HostSet set;
  set.head = NameOfThisMachine();
  set.controller_port = wish.controller_port;
  set.controller = wish.settings.controller;
  up::Host here;
  here.name = set.head;
  here.address = wish.address;
  here.local = true;
  set.hosts.push_back(std::move(here));
  if (!known) return set;
  const auto head = std::find_if(known->hosts.begin(), known->hosts.end(),
                                 [&](const up::Host& host) { return host.name == known->head; });
  if (head == known->hosts.end() || !head->local)
    return Fail(ErrorCode::kFailedPrecondition,
                "the controller of cluster " + cluster + " runs on " + known->head +
                    ", which ssh reaches; nodes of Slurm need one on this machine",
                "make another cluster with --cluster");
  LAUNCH_RETURN_IF_ERROR(up::WithHead(std::move(set), *known));
  up::HostSet again = *known;
  if (wish.settings.controller) again.controller = wish.settings.controller;
  return again;
}

// True when every node of the allocation has reported; false when it has to wait for Slurm.
Result<bool> AwaitNodes(const App& app, up::Remote& here, Client& client, const std::string& id) {
  const auto begin = SteadyClock::now();
  for (;;) {
    LAUNCH_ASSIGN_OR_RETURN(const up::AllocationState state, up::StateOfAllocation(here, id));
    const auto waited = SteadyClock::now() - begin;
    if (state.state.empty() ||
        (state.state != "PENDING" && state.state != "CONFIGURING" && state.state != "RUNNING"))
      return Fail(ErrorCode::kUnavailable,
                  "allocation " + id + " is " + (state.state.empty() ? "gone" : state.state) +
                      " before its nodes reported",
                  "its output is in slurm-" + id + ".log beside the cluster's credentials");
    if (state.state != "RUNNING" && waited > kAwaitStart) {
      app.Note("allocation " + id + " is " + state.state + " (" + state.reason +
               "): its nodes come into `launch nodes` when Slurm starts it");
      return false;
    }
    LAUNCH_ASSIGN_OR_RETURN(const std::vector<NodeView> nodes, client.Nodes());
    std::set<std::string> missing(state.nodes.begin(), state.nodes.end());
    for (const NodeView& node : nodes)
      if (node.state != "silent" && node.state != "unknown")
        missing.erase(node.inventory.node.value);
    if (!state.nodes.empty() && missing.empty()) return true;
    if (waited > kAwaitAllocation)
      return Fail(ErrorCode::kUnavailable,
                  std::to_string(missing.size()) + " nodes of allocation " + id +
                      " have not reported, " + *missing.begin() + " among them",
                  "its output is in slurm-" + id +
                      ".log beside the cluster's credentials; do the nodes reach the "
                      "controller's address and your home?");
    std::this_thread::sleep_for(kBetween);
  }
}

}  // namespace

Result<int> UpOnSlurm(const App& app, const SlurmWish& wish, const up::UpOptions& options,
                      Contexts& contexts) {
  LAUNCH_RETURN_IF_ERROR(up::SbatchWords(wish.arguments));
  UniqueFd turn;
  if (!options.dry_run) {
    LAUNCH_ASSIGN_OR_RETURN(turn, up::LockCluster(contexts, options.context));
  }
  LAUNCH_ASSIGN_OR_RETURN(up::HostSet set, SetOf(wish, contexts, options.context));
  std::optional<LeaveNote> leaving;
  if (!options.dry_run) {
    leaving.emplace("launch: left; run it again to go on, or undo it: launch down " +
                    options.context + (set.slurm_jobs.empty() ? " --purge" : ""));
    // Whatever happens next, `down` knows where the controller is.
    LAUNCH_RETURN_IF_ERROR(up::WriteClusterFile(contexts, options.context, set));
  }
  LAUNCH_ASSIGN_OR_RETURN(const up::HeadUp head, up::BringUpHead(set, options, contexts));
  if (options.dry_run) {
    app.Note("would ask Slurm for nodes: sbatch " + wish.arguments);
    return 0;
  }
  LAUNCH_RETURN_IF_ERROR(
      contexts.SaveText(options.context, "allocation.sh", std::string(kAllocationScript)));
  if (wish.settings.agent)
    LAUNCH_RETURN_IF_ERROR(
        contexts.SaveText(options.context, "allocation-agent.yaml", *wish.settings.agent));
  const auto here = up::ThisMachine();
  LAUNCH_ASSIGN_OR_RETURN(
      const std::string id,
      up::SubmitAllocation(*here, {options.context, wish.arguments, head.cluster.address,
                                   head.cluster.credentials, head.facts.programs + "/current"}));
  set.slurm_jobs.push_back(id);
  LAUNCH_RETURN_IF_ERROR(up::WriteClusterFile(contexts, options.context, set));
  LAUNCH_RETURN_IF_ERROR(contexts.Use(options.context));
  leaving.reset();
  leaving.emplace("launch: left; allocation " + id +
                  " goes on, its nodes come into `launch nodes`; launch down " + options.context +
                  " ends it and the cluster");
  app.Note("asked Slurm for nodes: allocation " + id);
  LAUNCH_ASSIGN_OR_RETURN(Client client, Client::Open(head.cluster));
  LAUNCH_ASSIGN_OR_RETURN(const bool here_now, AwaitNodes(app, *here, client, id));
  if (!here_now) return 0;
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<NodeView> nodes, client.Nodes());
  LAUNCH_RETURN_IF_ERROR(app.OutTable(NodesTable(nodes, app.ScreenNow())));
  return 0;
}

Result<void> EndAllocations(const App& app, const up::HostSet& set) {
  const auto here = up::ThisMachine();
  for (const std::string& id : set.slurm_jobs) LAUNCH_RETURN_IF_ERROR(up::EndAllocation(*here, id));
  const auto end = SteadyClock::now() + kAwaitAllocation;
  for (const std::string& id : set.slurm_jobs) {
    for (;;) {
      LAUNCH_ASSIGN_OR_RETURN(const up::AllocationState state, up::StateOfAllocation(*here, id));
      if (state.state.empty()) break;
      if (SteadyClock::now() > end) {
        app.Note("allocation " + id + " does not leave by itself: cancelled");
        LAUNCH_RETURN_IF_ERROR(up::CancelAllocation(*here, id));
        break;
      }
      std::this_thread::sleep_for(kBetween);
    }
  }
  return {};
}

}  // namespace launch
