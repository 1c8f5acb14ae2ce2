#include "preflight/node_case.h"

#include <algorithm>
#include <set>

namespace launch {
namespace {

const RankAssignment* FirstRankOn(const Plan& plan, const NodeId& node) {
  for (const RankAssignment& rank : plan.assignments) {
    if (rank.node == node) return &rank;
  }
  return nullptr;
}

std::string VariableOf(const Plan& plan, const NodeId& node, const std::string& name) {
  const RankAssignment* rank = FirstRankOn(plan, node);
  if (rank == nullptr) return {};
  const auto found = rank->env.find(name);
  return found == rank->env.end() ? std::string() : found->second;
}

bool RunsPython(const Plan& plan) {
  return plan.launcher == LauncherKind::kTorchrun || plan.launcher == LauncherKind::kDeepspeed ||
         plan.launcher == LauncherKind::kAccelerate ||
         plan.command.find("python") != std::string::npos;
}

std::string TrimmedDirectory(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// The python3 that a job gets which names none: the agent asks the first of the node's PATH always,
// so the first directory with a known one has it. Not where the job has a PATH of its own.
const RuntimeFacts* FirstOnPath(const Plan& plan, const NodeInventory& node) {
  const auto base = node.base_env.find("PATH");
  if (base == node.base_env.end()) return nullptr;
  const std::string own = VariableOf(plan, node.node, "PATH");
  if (!own.empty() && own != base->second) return nullptr;
  std::size_t begin = 0;
  while (begin <= base->second.size()) {
    const std::size_t end = std::min(base->second.find(':', begin), base->second.size());
    const std::string python = base->second.substr(begin, end - begin) + "/python3";
    const auto known = std::ranges::find(node.interpreters, python, &RuntimeFacts::path);
    if (known != node.interpreters.end()) return &*known;
    begin = end + 1;
  }
  return nullptr;
}

}  // namespace

const RuntimeFacts* RuntimeOf(const JobSpec& spec, const Plan& plan, const NodeInventory& node) {
  const bool chosen = !spec.python.empty() || !spec.venv.empty();
  if (!chosen && !RunsPython(plan)) return nullptr;  // an active venv says nothing about nvidia-smi
  std::string venv = VariableOf(plan, node.node, "VIRTUAL_ENV");
  venv = TrimmedDirectory(venv.empty() ? spec.venv : venv);
  for (const RuntimeFacts& facts : node.interpreters) {
    if (!spec.python.empty() && facts.path == spec.python) return &facts;
    if (!venv.empty() && facts.path.rfind(venv + "/bin/python", 0) == 0) return &facts;
  }
  const bool conda =
      !spec.conda.empty() || !VariableOf(plan, node.node, "CONDA_PREFIX").empty();  // active there
  const bool named = !spec.python.empty() || !venv.empty() || conda || !spec.image.empty();
  if (named) return nullptr;
  return node.interpreters.size() == 1 ? &node.interpreters.front() : FirstOnPath(plan, node);
}

std::string RankVariable(const NodeCase& c, const std::string& name) {
  return VariableOf(c.plan, c.node.node, name);
}

int RanksOn(const Plan& plan, const NodeId& node) {
  return static_cast<int>(
      std::count_if(plan.assignments.begin(), plan.assignments.end(),
                    [&](const RankAssignment& rank) { return rank.node == node; }));
}

int NodesOf(const Plan& plan) {
  std::set<NodeId> nodes;
  for (const RankAssignment& rank : plan.assignments) nodes.insert(rank.node);
  return static_cast<int>(nodes.size());
}

std::vector<std::size_t> GpusUsed(const Plan& plan, const NodeInventory& node) {
  std::set<GpuUuid> used;
  for (const RankAssignment& rank : plan.assignments) {
    if (rank.node == node.node) used.insert(rank.gpu_uuids.begin(), rank.gpu_uuids.end());
  }
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < node.gpus.size(); ++i) {
    if (used.count(node.gpus[i].uuid) > 0) positions.push_back(i);
  }
  return positions;
}

}  // namespace launch
