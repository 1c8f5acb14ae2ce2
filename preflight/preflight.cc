#include "preflight/preflight.h"

#include <algorithm>
#include <utility>

#include "preflight/gpu_check.h"
#include "preflight/host_check.h"
#include "preflight/network_check.h"
#include "preflight/node_case.h"
#include "preflight/path_check.h"
#include "preflight/skew_check.h"
#include "preflight/toolkit_check.h"
#include "preflight/torch_check.h"

namespace launch {
namespace {

// torchrun, deepspeed and accelerate import torch before anything else.
TorchNeed NeedOf(const Plan& plan) {
  const bool torch = plan.launcher == LauncherKind::kTorchrun ||
                     plan.launcher == LauncherKind::kDeepspeed ||
                     plan.launcher == LauncherKind::kAccelerate;
  return torch ? TorchNeed::kCertain : TorchNeed::kPossible;
}

void JudgeCpuRuntime(const NodeCase& c, PreflightReport& report) {
  const bool needed = NeedOf(c.plan) == TorchNeed::kCertain;
  if (!needed || c.runtime->python.empty()) return;
  if (!c.runtime->torch) {
    JudgeTorch({c.node, *c.runtime, FactsFrom::kInventory, TorchNeed::kCertain}, report);
    return;
  }
  Pass(report, "torch installed", c.node.node,
       "torch " + c.runtime->torch->version + " of " + c.runtime->path + On(c.node) +
           " is installed");
}

void JudgeOneNode(const NodeCase& c, PreflightReport& report) {
  const bool cuda = c.plan.device == DeviceClass::kCuda;
  if (cuda) JudgeDriver(c.node, report);
  if (cuda && c.runtime != nullptr) {
    JudgeTorch({c.node, *c.runtime, FactsFrom::kInventory, NeedOf(c.plan)}, report);
  }
  if (c.plan.device == DeviceClass::kCpu && c.runtime != nullptr) JudgeCpuRuntime(c, report);
  JudgeGpus(c, report);
  JudgeOpBuild(c, report);
  JudgeContainer(c.spec, c.node, report);
  JudgeLimits(c, report);
}

// The plan lets the shell become the one command that there is, and that is the interpreter which
// was probed: the launcher's own, or "python" where the job names an environment. Scripts that
// activate an environment would stand in front (allocation.cc).
bool IsOnlyTheInterpreter(const AllocationSpec& spec) {
  constexpr std::size_t kText = 3;  // behind /bin/bash --norc -c
  if (spec.ranks.empty() || spec.ranks.front().argv.size() <= kText) return false;
  const std::string& text = spec.ranks.front().argv[kText];
  if (text.find('\n') != std::string::npos) return false;
  if (text.starts_with("exec \"$0\" ")) return true;
  const bool python = text.starts_with("exec python ") || text.starts_with("exec python3 ");
  return python && !spec.interpreter.empty();
}

// Path of the workdir where it is not there; else empty.
std::string MissingWorkdirOf(const std::vector<PathFact>& paths) {
  for (const PathFact& fact : paths) {
    if (fact.what == "workdir" && !fact.ok) return fact.path;
  }
  return {};
}

// Without a job nobody knows which interpreter is meant: what would stop a job is a warning.
void Soften(PreflightReport& report) {
  for (Finding& finding : report.findings) {
    if (finding.severity == Severity::kError) finding.severity = Severity::kWarning;
  }
  for (Check& check : report.checks) {
    if (check.result == CheckResult::kFail) check.result = CheckResult::kWarn;
  }
}

}  // namespace

PreflightReport JudgeSpec(const JobSpec& spec, const std::vector<const NodeInventory*>& nodes) {
  PreflightReport report;
  if (spec.image.empty() || nodes.empty()) return report;
  const bool some = std::any_of(nodes.begin(), nodes.end(), [](const NodeInventory* node) {
    return !node->container_runtimes.empty();
  });
  if (some) return report;
  for (const NodeInventory* node : nodes) JudgeContainer(spec, *node, report);
  Sort(report);
  return report;
}

PreflightReport JudgeInventories(const JobSpec& spec, const Plan& plan,
                                 const std::vector<const NodeInventory*>& nodes) {
  PreflightReport report;
  if (spec.preflight == PreflightLevel::kNone) return report;
  std::vector<NodeCase> cases;
  for (const NodeInventory* node : nodes) {
    cases.push_back({spec, plan, *node, RuntimeOf(spec, plan, *node)});
  }
  for (const NodeCase& c : cases) JudgeOneNode(c, report);
  JudgeSkew(cases, report);
  JudgeLinks(cases, report);
  Sort(report);
  return report;
}

PreflightReport JudgeNode(const NodeInventory& node) {
  PreflightReport report;
  JudgeDriver(node, report);
  JudgeAllGpus(node, report);
  const bool cuda = std::any_of(node.gpus.begin(), node.gpus.end(), [](const GpuDevice& gpu) {
    return gpu.device_class == DeviceClass::kCuda;
  });
  for (const RuntimeFacts& runtime : node.interpreters) {
    if (!cuda || runtime.python.empty()) continue;
    PreflightReport one;
    JudgeTorch({node, runtime, FactsFrom::kInventory, TorchNeed::kPossible}, one);
    Soften(one);
    Append(report, std::move(one));
  }
  JudgeNodeLimits(node, report);
  Sort(report);
  return report;
}

PreflightReport JudgeStaging(const AllocationSpec& spec, const NodeInventory& inventory,
                             const StagingFacts& facts) {
  PreflightReport report;
  const std::string missing = MissingWorkdirOf(facts.paths);
  for (const PathFact& fact : facts.paths) {
    // What would lie in a workdir that is missing is missing for that reason alone.
    if (!missing.empty() && fact.path.starts_with(missing + "/")) continue;
    JudgePath(spec, fact, inventory, report);
  }
  JudgeReach(facts, inventory, report);
  if (spec.preflight != PreflightLevel::kNone) {
    if (spec.needs_torch_cuda && facts.runtime) {
      JudgeTorch({inventory, *facts.runtime, FactsFrom::kStaging, TorchNeed::kPossible,
                  IsOnlyTheInterpreter(spec)},
                 report);
    }
    JudgeDisks(facts.disks, inventory.node, report);
  }
  Sort(report);
  return report;
}

PreflightReport JudgeTogether(const JobSpec& spec, const Plan& plan,
                              const std::vector<StagedNode>& nodes,
                              const std::map<NodeId, std::int64_t>& clock_offsets_ms) {
  PreflightReport report;
  if (spec.preflight == PreflightLevel::kNone) return report;
  std::vector<NodeCase> cases;
  for (const StagedNode& node : nodes) {
    const bool known = node.facts.runtime.has_value();
    cases.push_back({spec, plan, node.inventory, known ? &*node.facts.runtime : nullptr});
  }
  std::vector<FoundPaths> paths;
  for (const StagedNode& node : nodes) paths.push_back({node.inventory, node.facts.paths});
  JudgeNamedPaths(paths, report);
  for (const StagedNode& node : nodes) {
    JudgeAskedDisk(spec, node.facts.disks, node.inventory.node, report);
  }
  // What the plan could not judge, for the node did not know the interpreter yet.
  for (const NodeCase& c : cases) {
    if (RuntimeOf(spec, plan, c.node) == nullptr) JudgeOpBuild(c, report);
  }
  JudgeSkew(cases, report);
  JudgeClocks(clock_offsets_ms, report);
  Sort(report);
  return report;
}

}  // namespace launch
