// From what the nodes found while staging to the launch: findings, master, checkpoint, late values.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "controller/core/attempt_facts.h"
#include "controller/core/checkpoint_tie.h"
#include "preflight/preflight.h"

namespace launch::controller {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

bool IsLoopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

// Scoped addresses are useless on another node.
bool IsLinkLocal(const std::string& address) {
  return address.starts_with("169.254.") || address.starts_with("fe80:");
}

// One kernel and one network namespace: only then is loopback the same place for all.
bool ShareLoopback(const State& state, const std::vector<NodeId>& nodes) {
  const auto first = state.live.nodes.find(nodes.front());
  if (first == state.live.nodes.end() || first->second.boot_id.empty() ||
      first->second.machine.network_namespace.empty()) {
    return false;
  }
  return std::all_of(nodes.begin(), nodes.end(), [&](const NodeId& node) {
    const auto live = state.live.nodes.find(node);
    return live != state.live.nodes.end() && live->second.boot_id == first->second.boot_id &&
           live->second.machine.network_namespace == first->second.machine.network_namespace;
  });
}

const PlannedAllocation* FindPlanned(const StoredPlan& plan, const NodeId& node) {
  for (const PlannedAllocation& allocation : plan.allocations) {
    if (allocation.spec.node == node) return &allocation;
  }
  return nullptr;
}

const Reachability* FindReach(const StagingFacts& facts, const std::string& address) {
  for (const Reachability& reach : facts.reach) {
    if (reach.address == address) return &reach;
  }
  return nullptr;
}

std::string InterfaceOf(const NodeInventory& inventory, const std::string& address) {
  for (const NetworkAddress& own : inventory.addresses) {
    if (own.address == address) return own.interface;
  }
  return IsLoopback(address) ? "lo" : "";
}

// The address others would use for a node that is not the master's.
std::string AddressOf(const NodeInventory& inventory) {
  for (const NetworkAddress& own : inventory.addresses) {
    if (!IsLoopback(own.address) && !IsLinkLocal(own.address)) return own.address;
  }
  return kLoopback;
}

// First candidate that every other node reached; empty when there is none.
std::string ChooseMaster(const std::vector<std::string>& candidates,
                         const std::vector<NodeId>& nodes,
                         const std::map<NodeId, StagingFacts>& facts) {
  for (const std::string& address : candidates) {
    const bool all = std::all_of(nodes.begin() + 1, nodes.end(), [&](const NodeId& node) {
      const Reachability* reach = FindReach(facts.at(node), address);
      return reach != nullptr && reach->ok;
    });
    if (all) return address;
  }
  return {};
}

std::vector<Finding> Unreachable(const std::vector<std::string>& candidates,
                                 const std::vector<NodeId>& nodes,
                                 const std::map<NodeId, StagingFacts>& facts) {
  std::vector<Finding> findings;
  for (auto node = nodes.begin() + 1; node != nodes.end(); ++node) {
    std::string evidence;
    for (const std::string& address : candidates) {
      const Reachability* reach = FindReach(facts.at(*node), address);
      evidence += fmt::format("{}{}: {}", evidence.empty() ? "" : "; ", address,
                              reach == nullptr ? "not probed"
                              : reach->ok      ? "ok"
                                               : reach->why);
    }
    findings.push_back(Finding{
        "network_unreachable", Severity::kError, *node,
        fmt::format("no address of {} is reachable from all nodes of the job", nodes.front().value),
        evidence, "open the agents' port range between these nodes, or exclude one of them"});
  }
  return findings;
}

// Complete ones that every node of the attempt sees, newest by step, then by time.
struct Resume {
  const CheckpointFound* newest = nullptr;
  std::vector<std::string> skipped;
  std::vector<const CheckpointFound*> incomplete;  // of those
};

Resume ChooseCheckpoint(const std::vector<NodeId>& nodes,
                        const std::map<NodeId, StagingFacts>& facts) {
  Resume resume;
  const auto lacks = [&](const CheckpointFound& found) {
    return std::find_if(nodes.begin() + 1, nodes.end(), [&](const NodeId& node) {
      const auto& theirs = facts.at(node).checkpoints;
      return std::none_of(theirs.begin(), theirs.end(), [&](const CheckpointFound& other) {
        return other.path == found.path && other.complete;
      });
    });
  };
  for (const CheckpointFound& found : facts.at(nodes.front()).checkpoints) {
    if (!found.complete || lacks(found) != nodes.end()) continue;
    if (resume.newest == nullptr || std::tie(resume.newest->step, resume.newest->modified) <
                                        std::tie(found.step, found.modified)) {
      resume.newest = &found;
    }
  }
  for (const CheckpointFound& found : facts.at(nodes.front()).checkpoints) {
    if (resume.newest != nullptr && found.step <= resume.newest->step) continue;
    if (!found.complete) {
      resume.skipped.push_back(fmt::format("{} is not complete: {}", found.path, found.why));
      resume.incomplete.push_back(&found);
    } else if (const auto node = lacks(found); node != nodes.end()) {
      resume.skipped.push_back(
          fmt::format("{} of {} is not seen on {}", found.path, nodes.front().value, node->value));
    }
  }
  return resume;
}

// Who submits a job again may mean to go on with it or to start anew: it must not be a surprise.
Finding ResumesAtFirst(const std::string& checkpoint) {
  return {
      "checkpoint_found",
      Severity::kWarning,
      std::nullopt,
      fmt::format("the first attempt goes on from {}, which was there before the job", checkpoint),
      "",
      "write checkpoint: {resume: never}, or another checkpoint.dir, to start anew"};
}

// One that is newer than what is gone on from may be torn; where all are, they are rather of a
// format that we do not know, and the work of the attempts before is lost.
Finding PassesOver(const Resume& resume, const std::string& dir) {
  const CheckpointFound& newest = **std::ranges::max_element(
      resume.incomplete, {}, [](const CheckpointFound* found) { return found->step; });
  const bool lost = resume.newest == nullptr;
  return {
      "checkpoint_skipped",
      lost ? Severity::kWarning : Severity::kNotice,
      std::nullopt,
      fmt::format(
          "{} in {} {} taken for incomplete, so it {}",
          resume.incomplete.size() == 1 ? "a checkpoint"
                                        : fmt::format("{} checkpoints", resume.incomplete.size()),
          dir, resume.incomplete.size() == 1 ? "is" : "are",
          lost ? std::string("begins at the first step") : "goes on from " + resume.newest->path),
      newest.path + ": " + newest.why,
      "if it is whole, write checkpoint: {complete_marker: FILE} with the name of a file that "
      "the program writes into each checkpoint as the last one"};
}

// A directory on a disk of one node: what an attempt saved there no other node sees.
std::string SavedElsewhere(const State& state, const AttemptRecord& attempt) {
  if (attempt.key.attempt.value < 2) return {};
  const auto before =
      state.attempts.find(Key{attempt.key.job, Attempt{attempt.key.attempt.value - 1}});
  if (before == state.attempts.end() || before->second.nodes == attempt.nodes) return {};
  return fmt::format(
      "none is seen on {}; the attempt before ran on {}: what it saved on a disk of "
      "its own is not here",
      Names(attempt.nodes), Names(before->second.nodes));
}

bool SetByPlan(const AllocationSpec& spec, const std::string& name) {
  return !spec.ranks.empty() &&
         std::any_of(spec.ranks.front().env.begin(), spec.ranks.front().env.end(),
                     [&](const EnvVar& variable) {
                       return variable.name == name && !variable.value.empty();
                     });
}

// Late variables are exactly those that the plan announced, so that `plan` never lies.
bool Announced(const Plan& plan, const std::string& name) {
  return std::find(plan.late.begin(), plan.late.end(), name) != plan.late.end();
}

// What the nodes of the attempt found, against each other.
PreflightReport Compared(const State& state, const AttemptRecord& attempt) {
  const LiveAttempt& live = state.live.attempts.at(attempt.key);
  const StoredPlan& plan = *state.plans.at(attempt.key);
  std::vector<StagedNode> nodes;
  for (const NodeId& node : attempt.nodes) {
    const PlannedAllocation* planned = FindPlanned(plan, node);
    const auto inventory = state.inventories.find(node);
    if (planned == nullptr || inventory == state.inventories.end()) continue;
    nodes.push_back({planned->spec, *inventory->second, live.ready.at(node)});
  }
  return JudgeTogether(state.specs.at(attempt.key.job).spec, plan.plan, nodes,
                       live.clock_offsets_ms);
}

void TakeReport(PreflightReport report, LaunchDecision& decision) {
  std::move(report.findings.begin(), report.findings.end(), std::back_inserter(decision.findings));
  std::move(report.checks.begin(), report.checks.end(), std::back_inserter(decision.checks));
}

}  // namespace

std::vector<std::string> MasterCandidates(const State& state, const AttemptRecord& attempt) {
  if (attempt.nodes.size() == 1) return {kLoopback};
  std::vector<std::string> candidates;
  if (ShareLoopback(state, attempt.nodes)) candidates.push_back(kLoopback);
  const auto inventory = state.inventories.find(attempt.nodes.front());
  if (inventory == state.inventories.end()) return candidates;
  std::multimap<int, std::string, std::greater<>> by_speed;  // equal ones stay in their order
  for (const NetworkAddress& own : inventory->second->addresses) {
    if (IsLoopback(own.address) || IsLinkLocal(own.address)) continue;
    by_speed.emplace(own.mbit.value_or(0), own.address);
  }
  for (const auto& [mbit, address] : by_speed) candidates.push_back(address);
  return candidates;
}

LaunchDecision DecideLaunch(const State& state, const AttemptRecord& attempt) {
  LaunchDecision decision;
  decision.attempt = attempt;
  const std::map<NodeId, StagingFacts>& facts = state.live.attempts.at(attempt.key).ready;
  const StoredPlan& plan = *state.plans.at(attempt.key);
  const std::map<NodeId, AllocRecord>& allocs = state.allocs.at(attempt.key);
  for (const NodeId& node : attempt.nodes) {
    const StagingFacts& found = facts.at(node);
    const PlannedAllocation* planned = FindPlanned(plan, node);
    if (found.setup_exit.value_or(0) != 0) {
      decision.setup_failed = true;
      decision.findings.push_back(
          Finding{"setup_failed", Severity::kError, node,
                  fmt::format("`setup` ended with exit {}", *found.setup_exit), found.setup_tail,
                  "run the setup commands on that node by hand"});
    }
    const auto inventory = state.inventories.find(node);
    if (planned == nullptr || inventory == state.inventories.end()) continue;
    PreflightReport report = JudgeStaging(planned->spec, *inventory->second, found);
    // Which of several addresses serves everybody is seen only here.
    const auto is_of_all = [](const auto& one) {
      return one.code == "network_unreachable" || one.code == "setup_failed";
    };
    std::erase_if(report.findings, is_of_all);
    std::erase_if(report.checks, is_of_all);
    TakeReport(std::move(report), decision);
  }
  TakeReport(Compared(state, attempt), decision);
  const std::vector<std::string> candidates = MasterCandidates(state, attempt);
  const std::string master =
      attempt.nodes.size() == 1 ? kLoopback : ChooseMaster(candidates, attempt.nodes, facts);
  if (master.empty()) {
    for (Finding& finding : Unreachable(candidates, attempt.nodes, facts)) {
      decision.findings.push_back(std::move(finding));
    }
  }
  decision.attempt.master_address = master;
  const AllocRecord& first = allocs.at(attempt.nodes.front());
  decision.attempt.master_port = first.ports ? first.ports->first : 0;

  const JobSpec& spec = state.specs.at(attempt.key.job).spec;
  if (spec.checkpoint.resume && !spec.checkpoint.dir.empty()) {
    Resume resume = ChooseCheckpoint(attempt.nodes, facts);
    if (resume.newest != nullptr) {
      decision.attempt.resumed_from = resume.newest->path;
      decision.attempt.resumed_step = resume.newest->step;
      decision.checkpoint_written = resume.newest->modified;
      if (attempt.key.attempt == Attempt{1}) {
        decision.findings.push_back(ResumesAtFirst(resume.newest->path));
      }
    }
    if (!resume.incomplete.empty()) {
      decision.findings.push_back(PassesOver(resume, spec.checkpoint.dir));
    }
    decision.skipped_checkpoints = std::move(resume.skipped);
    decision.attempt.local_checkpoints = HaveOwnDisks(attempt.nodes, facts);
    if (auto ties = TiesRetries(state, decision.attempt)) {
      decision.findings.push_back(std::move(*ties));
    }
    if (resume.newest == nullptr) {
      std::string elsewhere = SavedElsewhere(state, attempt);
      if (!elsewhere.empty()) decision.skipped_checkpoints.push_back(std::move(elsewhere));
    }
  }
  std::string ips;
  for (const NodeId& node : attempt.nodes) {
    const auto inventory = state.inventories.find(node);
    std::string address = kLoopback;
    if (node == attempt.nodes.front()) {
      address = master;
    } else if (!IsLoopback(master) && inventory != state.inventories.end()) {
      address = AddressOf(*inventory->second);
    }
    ips += (ips.empty() ? "" : "\n") + address;
  }
  decision.attempt.late_env = {{"LAUNCH_NODE_IPS", ips},
                               {"LAUNCH_RESUME_FROM", decision.attempt.resumed_from},
                               {"MASTER_ADDR", master},
                               {"MASTER_PORT", std::to_string(decision.attempt.master_port)}};
  for (const auto& [node, alloc] : allocs) {
    AllocRecord routed = alloc;
    const auto inventory = state.inventories.find(node);
    if (node == attempt.nodes.front()) {
      if (inventory != state.inventories.end()) {
        routed.interface = InterfaceOf(*inventory->second, master);
      }
    } else if (const Reachability* reach = FindReach(facts.at(node), master)) {
      routed.interface = reach->interface;
    }
    decision.allocs.push_back(std::move(routed));
  }
  return decision;
}

to_node::Go MakeGo(const State& state, const AttemptRecord& attempt, const AllocRecord& alloc) {
  to_node::Go go;
  go.key = attempt.key;
  go.digest = alloc.digest;
  go.master_address = attempt.master_address;
  go.master_port = attempt.master_port;
  go.late_env = attempt.late_env;
  const StoredPlan& plan = *state.plans.at(attempt.key);
  const PlannedAllocation* planned = FindPlanned(plan, alloc.node);
  if (!alloc.interface.empty() && planned != nullptr) {
    for (const char* name : {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"}) {
      if (Announced(plan.plan, name) && !SetByPlan(planned->spec, name)) {
        go.late_env.push_back({name, alloc.interface});
      }
    }
  }
  std::sort(go.late_env.begin(), go.late_env.end());
  // One line a node, in node order, as deepspeed and mpirun read it.
  std::string lines;
  std::string ips;
  for (const EnvVar& variable : attempt.late_env) {
    if (variable.name == "LAUNCH_NODE_IPS") ips = variable.value;
  }
  std::size_t from = 0;
  for (const NodeId& node : attempt.nodes) {
    const std::size_t to = std::min(ips.find('\n', from), ips.size());
    lines += fmt::format("{} slots={}\n", ips.substr(from, to - from),
                         state.allocs.at(attempt.key).at(node).ranks.size());
    from = std::min(to + 1, ips.size());
  }
  go.late_files.push_back({"hostfile", std::move(lines)});
  return go;
}

}  // namespace launch::controller
