#include "preflight/torch_check.h"

#include <csignal>
#include <optional>
#include <utility>

#include "common/no_answer.h"
#include "common/quoted.h"
#include "common/text.h"
#include "preflight/kernels.h"
#include "preflight/node_case.h"
#include "preflight/remedies.h"

namespace launch {
namespace {

constexpr std::string_view kInstalled = "torch installed";
constexpr std::string_view kCuda = "torch CUDA";
constexpr std::string_view kUsable = "GPU usable";

const GpuDevice* FirstGpu(const NodeInventory& node) {
  for (const GpuDevice& gpu : node.gpus) {
    if (gpu.device_class == DeviceClass::kCuda) return &gpu;
  }
  return nullptr;
}

std::string DeviceOf(const NodeInventory& node) {
  const GpuDevice* gpu = FirstGpu(node);
  return gpu == nullptr ? "GPU" : gpu->model;
}

Finding WithRemedy(Finding finding, RemedyText remedy) {
  finding.remedy = std::move(remedy.text);
  finding.fix = std::move(remedy.fix);
  return finding;
}

struct Build {
  const NodeInventory& node;
  const RuntimeFacts& runtime;
  const TorchFacts& torch;
  std::string name;  // "torch 2.13.0+cu126 of /v/bin/python on gpu01"
};

// Whether the node's driver runs the CUDA that torch was built for.
bool JudgeDriverOf(const Build& b, PreflightReport& report) {
  const auto wanted = b.torch.cuda ? ParseVersionPair(*b.torch.cuda) : std::nullopt;
  const auto& driver = b.node.driver_cuda;
  const bool newer = wanted && driver && wanted->major > driver->major;
  if (!newer || b.runtime.sees_gpu == true) {  // a compatibility library may bridge the two
    Pass(report, kCuda, b.node.node, b.name + " is built for CUDA " + b.torch.cuda.value_or("?"));
    return true;
  }
  Finding finding =
      WithRemedy(MakeFinding("cuda_driver_too_old", Severity::kError, b.node.node,
                             b.name + " needs CUDA " + *b.torch.cuda + ", driver " +
                                 b.node.driver.value_or("?") + " has " + ToString(*driver)),
                 OlderCudaTorch(b.node, b.runtime, *wanted));
  finding.evidence = "torch.version.cuda is " + *b.torch.cuda + ", the driver's CUDA version is " +
                     ToString(*driver);
  const Finding cause = finding;
  Add(report, std::move(finding));
  Follow(report, kUsable, cause, "the driver refuses this torch");
  return false;
}

// Whether torch has device code for each kind of GPU of the node.
bool JudgeKernels(const Build& b, PreflightReport& report) {
  const auto built = b.torch.cuda ? ParseVersionPair(*b.torch.cuda) : std::nullopt;
  for (const GpuDevice& gpu : b.node.gpus) {
    if (gpu.device_class != DeviceClass::kCuda || !gpu.cc) continue;
    const Kernels kernels = KernelsFor(b.torch.arch_list, *gpu.cc);
    if (kernels == Kernels::kUnknown || kernels == Kernels::kNative) continue;
    // A driver compiles no PTX of a toolkit that is newer than itself.
    const bool too_new = built && b.node.driver_cuda && *built > *b.node.driver_cuda;
    const bool fatal = kernels == Kernels::kNone || too_new;
    std::string says =
        b.name + " has no machine code for " + ArchName(*gpu.cc) + " (" + gpu.model + ")";
    if (kernels == Kernels::kCompiled) {
      says += fatal ? ", and the driver (CUDA " + ToString(*b.node.driver_cuda) +
                          ") cannot compile its PTX of CUDA " + *b.torch.cuda
                    : ": the driver compiles its PTX, so the first start is slow";
    }
    Finding finding =
        WithRemedy(MakeFinding("no_kernel_image", fatal ? Severity::kError : Severity::kWarning,
                               b.node.node, std::move(says)),
                   CudaTorch(b.node, b.runtime));
    finding.evidence = "torch.cuda.get_arch_list() is " + Joined(b.torch.arch_list, " ");
    if (!fatal) {
      finding.fix.clear();
      finding.remedy =
          "nothing must be done: the result is kept in ~/.nv/ComputeCache (set "
          "CUDA_CACHE_PATH to a directory that stays); or\n" +
          finding.remedy;
    }
    Add(report, std::move(finding), kUsable);
    return false;
  }
  return true;
}

void JudgeUse(const Build& b, FactsFrom from, PreflightReport& report) {
  if (b.runtime.sees_gpu == true) {
    Pass(report, kUsable, b.node.node, b.name + " sees the " + DeviceOf(b.node));
    return;
  }
  if (b.runtime.sees_gpu != false) {
    Pass(report, kUsable, b.node.node,
         b.name + " fits the " + DeviceOf(b.node) + "; not tried yet");
    return;
  }
  // The job's own environment said so at the start; read ahead it may have been another one.
  Finding finding = MakeFinding("gpu_unhealthy",
                                from == FactsFrom::kStaging ? Severity::kError : Severity::kWarning,
                                b.node.node, b.name + " sees no GPU although it is built for CUDA");
  finding.evidence = b.runtime.says;
  finding.remedy = "run nvidia-smi" + On(b.node) +
                   ", and look at CUDA_VISIBLE_DEVICES and LD_LIBRARY_PATH of the job";
  finding.fix = {"nvidia-smi"};
  Add(report, std::move(finding), kUsable);
}

// The probe's own words where it tried `import torch` and that failed; else empty. What was only
// read from the package's files has no words and no answer about GPUs.
std::string FailedImport(const RuntimeFacts& runtime) {
  return runtime.sees_gpu.has_value() ? "" : runtime.says;
}

bool WasEndedBy(const std::string& why, int signal) {
  const std::string words = "ended by signal " + std::to_string(signal);
  return why.starts_with(words) && (why.size() == words.size() || !IsDigit(why[words.size()]));
}

std::string HowToImport(const std::string& why, bool slow, bool killed) {
  if (slow)
    return "try it by hand on the node: the environment may lie on a slow or stuck file system";
  if (killed) return "look for `Out of memory` in dmesg of the node, and try it by hand there";
  if (WasEndedBy(why, SIGILL))
    return "install a build of torch for the node's processor, which lacks instructions of this "
           "one";
  return "set what it lacks with env: (LD_LIBRARY_PATH), or install torch again into a fresh "
         "environment";
}

// A library that is missing or of another version: found by name, and of no use to anybody. Set up
// by commands of `run` before Python starts, it may be well all the same.
void JudgeImport(const Build& b, const TorchQuestion& question, PreflightReport& report) {
  const std::string why = FailedImport(b.runtime);
  const bool slow = why.starts_with(kNoAnswer);
  // By whom, nobody knows: by the kernel for want of memory, for one. Other signals are its own.
  const bool killed =
      WasEndedBy(why, SIGKILL) || WasEndedBy(why, SIGTERM) || WasEndedBy(why, SIGHUP);
  const bool sure =
      question.from == FactsFrom::kStaging && question.command_alone && !slow && !killed;
  Finding finding = MakeFinding("torch_missing", sure ? Severity::kError : Severity::kWarning,
                                b.node.node, b.name + " cannot be imported");
  finding.evidence = why;
  finding.remedy = HowToImport(why, slow, killed);
  finding.fix = {ShellQuote(b.runtime.path) + " -c 'import torch'"};
  const Finding cause = finding;
  Add(report, std::move(finding), kInstalled);
  Follow(report, kUsable, cause, "not by this torch");
}

void JudgeInstalled(const Build& b, const TorchQuestion& question, PreflightReport& report) {
  if (!FailedImport(b.runtime).empty()) {
    JudgeImport(b, question, report);
    return;
  }
  Pass(report, kInstalled, b.node.node, b.name + " is installed");
  if (!b.torch.cuda) {
    const std::string built = b.torch.hip ? " is built for ROCm " + *b.torch.hip + ", not for CUDA"
                                          : " is built without CUDA";
    Finding finding =
        WithRemedy(MakeFinding("torch_cpu_only", Severity::kError, b.node.node,
                               b.name + built + ": it cannot use the " + DeviceOf(b.node)),
                   CudaTorch(b.node, b.runtime));
    finding.evidence =
        "torch.version.cuda is None" +
        std::string(b.runtime.sees_gpu == false ? ", cuda.is_available() is False" : "") +
        (b.node.toolkit ? "; the CUDA toolkit at " + b.node.toolkit->home +
                              " does not help a torch that was built without it"
                        : std::string());
    const Finding cause = finding;
    Add(report, std::move(finding));
    Follow(report, kUsable, cause, "not by this torch");
    return;
  }
  if (!JudgeDriverOf(b, report)) return;
  if (!JudgeKernels(b, report)) return;
  JudgeUse(b, question.from, report);
}

// Asked ahead of a job, at the start of the agent for one, it may only have been slow.
Finding SilentInterpreter(const TorchQuestion& question) {
  const RuntimeFacts& runtime = question.runtime;
  Finding finding =
      MakeFinding("interpreter_silent",
                  question.from == FactsFrom::kStaging ? Severity::kError : Severity::kWarning,
                  question.node.node, runtime.path + On(question.node) + " does not answer");
  finding.evidence = runtime.says;
  finding.remedy =
      "try `" + ShellQuote(runtime.path) +
      " -v -c pass`: its last lines say where it hangs\n"
      "look at a file system that does not answer (NFS), at sitecustomize.py and .pth files of its "
      "site-packages, at hooks of conda's activation, and at what stands before the interpreter in "
      "a script of its name\n"
      "or name another environment with venv: or python:";
  finding.fix = {ShellQuote(runtime.path) + " -v -c pass"};
  return finding;
}

// Its ranks may start all the same.
Finding UnaskedInterpreter(const NodeInventory& node, const RuntimeFacts& runtime) {
  Finding finding = MakeFinding("interpreter_unasked", Severity::kWarning, node.node,
                                runtime.path + On(node) + " could not be asked");
  finding.evidence = runtime.says;
  finding.remedy =
      "provide what the node lacked to start it: " + runtime.says.substr(kNotAsked.size()) +
      "\nthen run `launch check " + node.node.value + "` again";
  finding.fix = {"launch check " + node.node.value};
  return finding;
}

}  // namespace

void JudgeTorch(const TorchQuestion& question, PreflightReport& report) {
  const NodeInventory& node = question.node;
  const RuntimeFacts& runtime = question.runtime;
  if (runtime.python.empty() && runtime.says.starts_with(kNoAnswer)) {
    Add(report, SilentInterpreter(question));
    return;
  }
  if (runtime.python.empty() && runtime.says.starts_with(kNotAsked)) {
    Add(report, UnaskedInterpreter(node, runtime));
    return;
  }
  if (runtime.python.empty()) {
    Finding finding = MakeFinding("command_missing", Severity::kError, node.node,
                                  runtime.path + " does not run" + On(node));
    finding.evidence = runtime.says;
    finding.remedy = "name an environment that exists on the node with venv: or python:";
    Add(report, std::move(finding));
    return;
  }
  if (!runtime.torch) {
    // Not every GPU program uses torch: said, but no reason to stop it.
    const bool half = runtime.says.starts_with("torch is half installed");
    const bool sure = question.need == TorchNeed::kCertain ||
                      (half && question.from == FactsFrom::kStaging && question.command_alone);
    Finding finding = WithRemedy(
        MakeFinding("torch_missing", sure ? Severity::kError : Severity::kWarning, node.node,
                    runtime.path + On(node) +
                        (half ? " has a torch that is half installed" : " has no torch")),
        CudaTorch(node, runtime));
    finding.evidence = runtime.says.empty() ? "find_spec(\"torch\") is None" : runtime.says;
    if (!sure) finding.remedy = "if the job needs it:\n" + finding.remedy;
    Add(report, std::move(finding));
    return;
  }
  const Build build{node, runtime, *runtime.torch,
                    "torch " + runtime.torch->version + " of " + runtime.path + On(node)};
  JudgeInstalled(build, question, report);
}

void JudgeDriver(const NodeInventory& node, PreflightReport& report) {
  if (FirstGpu(node) == nullptr && node.driver_problem.empty()) return;
  if (!node.driver_problem.empty()) {
    Finding finding =
        MakeFinding("gpu_unhealthy", Severity::kWarning, node.node,
                    "the GPU driver of " + node.node.value + " reports: " + node.driver_problem);
    finding.evidence = "NVML of " + node.node.value;
    finding.remedy = "run nvidia-smi" + On(node);
    finding.fix = {"nvidia-smi"};
    Add(report, std::move(finding), "driver");
  } else if (node.driver) {
    Pass(report, "driver", node.node,
         "driver " + *node.driver +
             (node.driver_cuda ? " (CUDA " + ToString(*node.driver_cuda) + ")" : std::string()));
  }
  const std::optional<std::string> runtime = node.cuda_runtime ? node.cuda_runtime
                                             : node.toolkit
                                                 ? std::optional<std::string>(node.toolkit->nvcc)
                                                 : std::nullopt;
  const auto version = runtime ? ParseVersionPair(*runtime) : std::nullopt;
  if (!version || !node.driver_cuda) {
    if (node.driver_cuda) {
      Pass(report, "CUDA runtime", node.node,
           "no toolkit on the node: the one inside torch is used, up to CUDA " +
               std::to_string(node.driver_cuda->major) + ".x");
    }
    return;
  }
  const std::string where = node.toolkit ? " (" + node.toolkit->home + ")" : std::string();
  if (version->major <= node.driver_cuda->major) {
    Pass(report, "CUDA runtime", node.node, "CUDA " + *runtime + where + " runs on this driver");
    return;
  }
  Finding finding =
      MakeFinding("cuda_driver_too_old", Severity::kNotice, node.node,
                  "the CUDA " + *runtime + where + " of " + node.node.value +
                      " is newer than its driver, which has CUDA " + ToString(*node.driver_cuda));
  finding.evidence = "NVML: driver " + node.driver.value_or("?");
  finding.remedy =
      "programs built with that toolkit do not run here: update the driver, or build "
      "with CUDA " +
      std::to_string(node.driver_cuda->major) + ".x";
  Add(report, std::move(finding), "CUDA runtime");
}

}  // namespace launch
