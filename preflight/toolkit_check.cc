#include "preflight/toolkit_check.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/quoted.h"
#include "preflight/remedies.h"
#include "preflight/remedy_data.h"

namespace launch {
namespace {

constexpr std::string_view kToolkitCheck = "op builds";
constexpr const char* kCpuAdam = "cpu_adam";
constexpr const char* kShmComm = "deepspeed_shm_comm";
// Of DeepSpeed; what earlier ones build is not known.
constexpr CudaVersion kShmCommSince = {0, 16};
constexpr const char* kBuildOpsNote =
    "DS_BUILD_OPS is read when DeepSpeed is installed: at run time it stops no build";

bool IsZero(Strategy strategy) {
  return strategy == Strategy::kZero1 || strategy == Strategy::kZero2 ||
         strategy == Strategy::kZero3;
}

struct OpBuild {
  const NodeCase& c;
  std::string op;
  std::string why;         // who needs it
  std::string install_as;  // what builds it when DeepSpeed is installed
  Severity severity = Severity::kError;
  std::string torch = {};  // "torch 2.5.1+cu124"; of a build for GPUs, as what follows
  CudaVersion torch_cuda = {};
  bool skips_check = false;  // DS_SKIP_CUDA_CHECK=1
};

// CUDA_HOME of the job may name another toolkit than the one that was probed.
bool OtherToolkit(const OpBuild& b) {
  const std::string home = RankVariable(b.c, "CUDA_HOME");
  return !home.empty() && (!b.c.node.toolkit || home != b.c.node.toolkit->home);
}

void AddMissing(const OpBuild& b, const std::string& what, std::string remedy,
                std::vector<std::string> fix, PreflightReport& report) {
  Finding finding =
      MakeFinding("op_build_prerequisites", b.severity, b.c.node.node,
                  "DeepSpeed builds " + b.op + " when the job starts, and " + what + On(b.c.node));
  finding.evidence =
      b.why + " needs " + b.op + ", which was not built when DeepSpeed was installed";
  finding.remedy = std::move(remedy);
  finding.fix = std::move(fix);
  Add(report, std::move(finding));
}

// A compiler and ninja are judged only when the node says which tools it has: one that it looked
// for in vain stands there without a version.
bool JudgeTools(const OpBuild& b, PreflightReport& report) {
  const auto& tools = b.c.node.tools;
  if (tools.empty()) return true;
  const auto has = [&](const char* name) {
    const auto tool = tools.find(name);
    return tool != tools.end() && !tool->second.empty();
  };
  if (!has("c++") && RankVariable(b.c, "CXX").empty()) {
    AddMissing(b, "there is no C++ compiler",
               "install g++ and the headers of Python, or build the operator when DeepSpeed is "
               "installed elsewhere: " +
                   b.install_as + " pip install deepspeed",
               {}, report);
    return false;
  }
  const bool ninja =
      has("ninja") || (b.c.runtime != nullptr && b.c.runtime->packages.count("ninja") > 0);
  if (!ninja) {
    const std::string command = ShellQuote(b.c.runtime->path) + " -m pip install ninja";
    AddMissing(b, "there is no ninja", command, {command}, report);
    return false;
  }
  return true;
}

void JudgeVersions(const OpBuild& b, CudaVersion nvcc, PreflightReport& report) {
  const RemedyData& data = RemedyData::BuiltIn();
  const NodeInventory& node = b.c.node;
  const std::string where = "nvcc " + ToString(nvcc) + " (" + node.toolkit->home + ")" + On(node);
  if (nvcc == b.torch_cuda) {
    Pass(report, kToolkitCheck, node.node, where + " is the CUDA of " + b.torch);
    return;
  }
  const bool listed = nvcc.major == b.torch_cuda.major && data.DeepspeedAccepts(nvcc) &&
                      data.DeepspeedAccepts(b.torch_cuda);
  const Severity severity = listed          ? Severity::kNotice
                            : b.skips_check ? Severity::kWarning
                                            : Severity::kError;
  Finding finding = MakeFinding("toolkit_mismatch", severity, node.node,
                                where + " is not the CUDA " + ToString(b.torch_cuda) + " of " +
                                    b.torch + ", and DeepSpeed builds " + b.op + " with it");
  finding.evidence =
      "nvcc --version says " + ToString(nvcc) + ", torch.version.cuda is " + ToString(b.torch_cuda);
  if (listed) {
    finding.says += ": accepted by DeepSpeed, whose list allows both";
    finding.remedy = "nothing must be done";
    Add(report, std::move(finding));
    return;
  }
  const bool same_major = nvcc.major == b.torch_cuda.major;
  if (same_major && !data.DeepspeedKnowsMajor(nvcc.major)) {
    finding.says += "; DeepSpeed's list of versions that fit has no " + std::to_string(nvcc.major) +
                    ", although minor versions of one major are "
                    "compatible";
  }
  RemedyText toolkit = MatchingToolkit(b.torch_cuda);
  const std::string skip =
      "check: write env: {DS_SKIP_CUDA_CHECK: \"1\"}, which makes DeepSpeed's stop a warning" +
      std::string(same_major ? "" : "; a build across major versions may still fail");
  if (b.skips_check) {
    finding.says += "; DS_SKIP_CUDA_CHECK=1 makes DeepSpeed go on";
    finding.remedy = "if the build fails: " + toolkit.text;
  } else if (same_major) {
    finding.remedy = skip + "\n" + toolkit.text;
  } else {
    finding.remedy = toolkit.text + "\n" + skip + "\n" + kBuildOpsNote;
    finding.fix = std::move(toolkit.fix);
  }
  Add(report, std::move(finding));
}

// The plan gives it to ranks that DeepSpeed trains; that of the user may stand before a script of
// another trainer.
bool GivesAccelerator(const JobSpec& spec, const Plan& plan) {
  constexpr const char* kAccelerator = "DS_ACCELERATOR";
  const bool users = std::ranges::any_of(
      spec.env, [](const EnvEntry& entry) { return entry.name == kAccelerator; });
  return !users && std::ranges::any_of(plan.assignments, [](const RankAssignment& rank) {
    const auto set = rank.env.find(kAccelerator);
    return set != rank.env.end() && set->second == "cpu";
  });
}

// Source: DeepSpeed 0.19, comm/torch.py: TorchBackend builds it before it forms the world, unless
// the script says that the operator does not fit. What an earlier run built below a home that nodes
// share is loaded without a compiler, and the script may load one ("module load gcc").
void JudgeCpuBuild(const NodeCase& c, PreflightReport& report) {
  const auto deepspeed = c.runtime->packages.find("deepspeed");
  if (deepspeed == c.runtime->packages.end()) return;
  const auto version = ParseVersionPair(deepspeed->second);
  if (!version || *version < kShmCommSince) return;
  const OpBuild b{.c = c,
                  .op = kShmComm,
                  .why = "DeepSpeed " + deepspeed->second + " on the CPU",
                  .install_as = "DS_BUILD_SHM_COMM=1",
                  .severity = Severity::kWarning};
  if (c.node.tools.empty() || !JudgeTools(b, report)) return;
  Pass(report, kToolkitCheck, c.node.node, "a C++ compiler and ninja can build " + b.op);
}

}  // namespace

std::string OpToBuild(const JobSpec& spec, const Plan& plan) {
  if (plan.device == DeviceClass::kCpu) {
    const bool trains = IsZero(plan.strategy) || plan.trainer == Trainer::kDeepspeed ||
                        GivesAccelerator(spec, plan);
    return trains ? kShmComm : "";
  }
  const bool offloads = plan.offload == Offload::kOptimizer || plan.offload == Offload::kAll;
  return plan.device == DeviceClass::kCuda && IsZero(plan.strategy) && offloads ? kCpuAdam : "";
}

void JudgeOpBuild(const NodeCase& c, PreflightReport& report) {
  const std::string op = OpToBuild(c.spec, c.plan);
  if (op.empty() || c.runtime == nullptr || !c.runtime->torch) return;
  const auto& built = c.runtime->built_ops;
  if (std::find(built.begin(), built.end(), op) != built.end()) {
    Pass(report, kToolkitCheck, c.node.node, op + " was built when DeepSpeed was installed");
    return;
  }
  if (op == kShmComm) return JudgeCpuBuild(c, report);
  if (!c.runtime->torch->cuda) return;
  const auto torch_cuda = ParseVersionPair(*c.runtime->torch->cuda);
  if (!torch_cuda) return;
  const OpBuild b{.c = c,
                  .op = op,
                  .why = "optimizer offload",
                  .install_as = "DS_BUILD_CPU_ADAM=1",
                  .torch = "torch " + c.runtime->torch->version,
                  .torch_cuda = *torch_cuda,
                  .skips_check = RankVariable(c, "DS_SKIP_CUDA_CHECK") == "1"};
  if (OtherToolkit(b)) {
    Pass(report, kToolkitCheck, c.node.node,
         "CUDA_HOME of the job, " + RankVariable(c, "CUDA_HOME") +
             ", is not the toolkit that was looked at: its version is not known");
    return;
  }
  const auto nvcc = c.node.toolkit ? ParseVersionPair(c.node.toolkit->nvcc) : std::nullopt;
  if (!nvcc) {
    RemedyText toolkit = MatchingToolkit(*torch_cuda);
    AddMissing(b, "there is no nvcc",
               toolkit.text + "\nprebuilt: build the operator when DeepSpeed is installed: " +
                   b.install_as + " " + ShellQuote(c.runtime->path) +
                   " -m pip install --force-reinstall deepspeed\n" + kBuildOpsNote,
               std::move(toolkit.fix), report);
    return;
  }
  if (!JudgeTools(b, report)) return;
  JudgeVersions(b, *nvcc, report);
}

}  // namespace launch
