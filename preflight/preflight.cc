#include "preflight/preflight.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "common/activation.h"
#include "common/quoted.h"
#include "preflight/gpu_check.h"
#include "preflight/host_check.h"
#include "preflight/network_check.h"
#include "preflight/node_case.h"
#include "preflight/path_check.h"
#include "preflight/remedy_data.h"
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
    PreflightReport one;
    JudgeTorch({c.node, *c.runtime, FactsFrom::kInventory, TorchNeed::kCertain}, one);
    for (Finding& finding : one.findings) {
      finding.remedy = "install torch into it: " + ShellQuote(c.runtime->path) +
                       " -m pip install torch\nor name the environment that has it with venv:, "
                       "conda: or python:";
      finding.fix = {ShellQuote(c.runtime->path) + " -m pip install torch"};
    }
    Append(report, std::move(one));
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
// was probed: the launcher's own, or "python" where the job names an environment. It was probed in
// what scripts that activate the environment leave (agent/probes/activated_environment.h).
bool IsOnlyTheInterpreter(const AllocationSpec& spec) {
  if (spec.ranks.empty()) return false;
  // Behind /bin/bash --norc -c, or that text and its name.
  const std::size_t at = IsActivated(spec.ranks.front()) ? 5 : 3;
  if (spec.ranks.front().argv.size() <= at) return false;
  const std::string& text = spec.ranks.front().argv[at];
  if (text.find('\n') != std::string::npos) return false;
  if (text.starts_with("exec \"$0\" ")) return true;
  const bool python = text.starts_with("exec python ") || text.starts_with("exec python3 ");
  return python && !spec.interpreter.empty();
}

bool IsOfTorchBuild(std::string_view code) {
  return code == "torch_missing" || code == "torch_cpu_only" || code == "cuda_driver_too_old" ||
         code == "no_kernel_image";
}

// Whether the command of an image's job is one of Python or of a launcher that is.
bool RunsPython(const AllocationSpec& spec) {
  constexpr std::array<std::string_view, 4> kWords = {"python", "torchrun", "deepspeed",
                                                      "accelerate"};
  return !spec.ranks.empty() &&
         std::ranges::any_of(spec.ranks.front().argv, [&](const std::string& word) {
           return std::ranges::any_of(kWords, [&](std::string_view known) {
             return word.find(known) != std::string::npos;
           });
         });
}

// What the image brings cannot be mended from here: another image can.
void JudgeImageTorch(const NodeInventory& node, const AllocationSpec& spec,
                     const RuntimeFacts& runtime, PreflightReport& report) {
  PreflightReport one;
  JudgeTorch({node, runtime, FactsFrom::kStaging, TorchNeed::kPossible}, one);
  for (Finding& finding : one.findings) {
    if (!IsOfTorchBuild(finding.code)) continue;
    finding.remedy =
        "use an image whose torch fits this node: " + RemedyData::BuiltIn().ImageFor(node) +
        " does, " + spec.container->image + " does not; or build yours upon it";
    finding.fix.clear();
  }
  Append(report, std::move(one));
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
    } else if (spec.container && facts.runtime && RunsPython(spec)) {
      JudgeImageTorch(inventory, spec, *facts.runtime, report);
    }
    JudgeDisks(facts.disks, inventory, report);
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
