#include "preflight/preflight.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "preflight/torch_check.h"

namespace launch {
namespace {

constexpr ComputeCapability kBf16From{8, 0};
constexpr ComputeCapability kFp8From{8, 9};

Finding Make(std::string code, Severity severity, const NodeId& node, std::string says,
             std::string remedy) {
  Finding finding;
  finding.code = std::move(code);
  finding.severity = severity;
  finding.node = node;
  finding.says = std::move(says);
  finding.remedy = std::move(remedy);
  return finding;
}

void Sort(PreflightReport& report) {
  const auto node = [](const std::optional<NodeId>& id) { return id ? id->value : std::string(); };
  std::sort(report.findings.begin(), report.findings.end(),
            [&](const Finding& a, const Finding& b) {
              return std::make_tuple(-static_cast<int>(a.severity), node(a.node), a.code, a.says) <
                     std::make_tuple(-static_cast<int>(b.severity), node(b.node), b.code, b.says);
            });
  std::sort(report.passed.begin(), report.passed.end(), [&](const Passed& a, const Passed& b) {
    return std::make_tuple(node(a.node), a.code, a.says) <
           std::make_tuple(node(b.node), b.code, b.says);
  });
}

// ---- what inventories tell ----

const RankAssignment* FirstRankOn(const Plan& plan, const NodeId& node) {
  for (const RankAssignment& rank : plan.assignments) {
    if (rank.node == node) return &rank;
  }
  return nullptr;
}

bool RunsPython(const Plan& plan) {
  return plan.launcher == LauncherKind::kTorchrun ||
         plan.command.find("python") != std::string::npos;
}

std::string TrimmedDirectory(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// The probed facts of the job's own interpreter, when it is certain that they are its: the venv or
// path the job names, or the only interpreter the node knows.
const RuntimeFacts* RuntimeOf(const JobSpec& spec, const Plan& plan, const NodeInventory& node) {
  const bool chosen = !spec.python.empty() || !spec.venv.empty();
  if (!chosen && !RunsPython(plan)) return nullptr;  // an active venv says nothing about nvidia-smi
  std::string venv = spec.venv;
  if (const RankAssignment* rank = FirstRankOn(plan, node.node)) {
    const auto found = rank->env.find("VIRTUAL_ENV");
    if (found != rank->env.end()) venv = found->second;
  }
  venv = TrimmedDirectory(venv);
  for (const RuntimeFacts& facts : node.interpreters) {
    if (!spec.python.empty() && facts.path == spec.python) return &facts;
    if (!venv.empty() && facts.path.rfind(venv + "/bin/python", 0) == 0) return &facts;
  }
  const bool named =
      !spec.python.empty() || !venv.empty() || !spec.conda.empty() || !spec.image.empty();
  if (named || node.interpreters.size() != 1) return nullptr;
  return &node.interpreters.front();
}

void JudgeGpus(const Plan& plan, const NodeInventory& node, PreflightReport& report) {
  std::vector<GpuUuid> used;
  for (const RankAssignment& rank : plan.assignments) {
    if (rank.node != node.node) continue;
    used.insert(used.end(), rank.gpu_uuids.begin(), rank.gpu_uuids.end());
  }
  bool healthy = true;
  for (std::size_t i = 0; i < node.gpus.size(); ++i) {
    const GpuDevice& gpu = node.gpus[i];
    if (std::find(used.begin(), used.end(), gpu.uuid) == used.end()) continue;
    const std::string name =
        "GPU " + std::to_string(i) + " (" + gpu.model + ") of " + node.node.value;
    if (gpu.health != Health::kOk) {
      healthy = false;
      report.findings.push_back(
          Make("gpu_unhealthy", gpu.health == Health::kBad ? Severity::kError : Severity::kWarning,
               node.node, name + ": " + (gpu.why.empty() ? "its driver reports trouble" : gpu.why),
               "exclude_nodes: " + node.node.value + ", or repair it"));
    }
    const bool bf16 = plan.precision == Precision::kBf16 && gpu.cc && *gpu.cc < kBf16From;
    const bool fp8 = plan.precision == Precision::kFp8 && gpu.cc && *gpu.cc < kFp8From;
    if (gpu.device_class == DeviceClass::kCuda && (bf16 || fp8)) {
      report.findings.push_back(Make("precision_unsupported", Severity::kError, node.node,
                                     name + " has compute capability " + ToString(*gpu.cc) + ", " +
                                         std::string(ToString(plan.precision)) + " needs " +
                                         ToString(bf16 ? kBf16From : kFp8From),
                                     "write precision: auto"));
    }
  }
  if (healthy && !used.empty()) {
    report.passed.push_back({"gpu_unhealthy", node.node,
                             std::to_string(used.size()) +
                                 (used.size() == 1 ? " GPU of " : " GPUs of ") + node.node.value +
                                 (used.size() == 1 ? " is healthy" : " are healthy")});
  }
  if (plan.device == DeviceClass::kCuda && node.driver) {
    report.passed.push_back(
        {"driver", node.node,
         "driver " + *node.driver +
             (node.driver_cuda ? " (CUDA " + ToString(*node.driver_cuda) + ")" : std::string())});
  }
}

// ---- what staging found ----

std::string On(const NodeInventory& node) { return " on " + node.node.value; }

Finding MissingWorkdir(const PathFact& fact, const NodeInventory& node) {
  return Make("workdir_missing", Severity::kError, node.node,
              "workdir " + fact.path + On(node) + ": " + (fact.why.empty() ? "missing" : fact.why),
              "submit from a directory that every node sees under the same path, or name one with "
              "workdir:");
}

Finding MissingCommand(const PathFact& fact, const NodeInventory& node) {
  const bool interpreter = fact.what == "interpreter";
  return Make("command_missing", Severity::kError, node.node,
              (interpreter ? "interpreter " : "command ") + fact.path + On(node) + ": " +
                  (fact.why.empty() ? "not found" : fact.why),
              interpreter ? "name an environment that exists on every node with venv: or python:"
                          : "check the first word of run, and the PATH of venv: or env:");
}

void JudgePath(const AllocationSpec& spec, const PathFact& fact, const NodeInventory& node,
               PreflightReport& report) {
  if (!fact.ok) {
    if (fact.what == "marker") {
      report.findings.push_back(
          Make("path_not_shared", Severity::kError, node.node,
               "workdir " + spec.workdir + On(node) +
                   " is not the directory that rank 0's node sees: " + fact.why,
               "use a directory on a file system that all nodes of the job share"));
    } else {
      report.findings.push_back(fact.what == "workdir" ? MissingWorkdir(fact, node)
                                                       : MissingCommand(fact, node));
    }
    return;
  }
  const bool other = fact.what == "workdir" && spec.workdir_inode != 0 && fact.inode != 0 &&
                     fact.inode != spec.workdir_inode;
  if (other) {
    report.findings.push_back(
        Make("path_not_shared", Severity::kError, node.node,
             "workdir " + spec.workdir + On(node) + " has inode " + std::to_string(fact.inode) +
                 ", where you submitted it has " + std::to_string(spec.workdir_inode) +
                 ": it is another directory",
             "submit from a directory that the nodes see too, or name one with workdir:"));
    return;
  }
  const std::string code = fact.what == "marker"    ? "path_not_shared"
                           : fact.what == "workdir" ? "workdir_missing"
                                                    : "command_missing";
  report.passed.push_back({code, node.node, fact.what + " " + fact.path + On(node) + " is there"});
}

// Several addresses of rank 0's node are tried: one that answers is enough.
void JudgeReach(const StagingFacts& facts, const NodeInventory& node, PreflightReport& report) {
  if (facts.reach.empty()) return;
  std::string tried;
  for (const Reachability& reach : facts.reach) {
    if (reach.ok) {
      report.passed.push_back({"network_unreachable", node.node,
                               node.node.value + " reaches rank 0's node at " + reach.address});
      return;
    }
    tried += (tried.empty() ? "" : "; ") + reach.address + ": " +
             (reach.why.empty() ? "no answer" : reach.why);
  }
  Finding finding = Make("network_unreachable", Severity::kError, node.node,
                         node.node.value + " cannot reach rank 0's node",
                         "open the agents' port range between the nodes, or exclude this node with "
                         "exclude_nodes: " +
                             node.node.value);
  finding.evidence = tried;
  report.findings.push_back(std::move(finding));
}

}  // namespace

PreflightReport JudgeInventories(const JobSpec& spec, const Plan& plan,
                                 const std::vector<const NodeInventory*>& nodes) {
  PreflightReport report;
  if (spec.preflight == PreflightLevel::kNone) return report;
  for (const NodeInventory* node : nodes) {
    JudgeGpus(plan, *node, report);
    if (plan.device != DeviceClass::kCuda) continue;
    const RuntimeFacts* runtime = RuntimeOf(spec, plan, *node);
    if (runtime != nullptr) JudgeTorch(*node, *runtime, report);
  }
  Sort(report);
  return report;
}

PreflightReport JudgeStaging(const AllocationSpec& spec, const NodeInventory& inventory,
                             const StagingFacts& facts) {
  PreflightReport report;
  for (const PathFact& fact : facts.paths) JudgePath(spec, fact, inventory, report);
  JudgeReach(facts, inventory, report);
  if (spec.needs_torch_cuda && spec.preflight != PreflightLevel::kNone && facts.runtime) {
    JudgeTorch(inventory, *facts.runtime, report);
  }
  Sort(report);
  return report;
}

bool HasErrors(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& finding) { return finding.severity == Severity::kError; });
}

}  // namespace launch
