#include "preflight/torch_check.h"

#include <utility>

#include "preflight/remedies.h"

namespace launch {
namespace {

std::string DeviceOf(const NodeInventory& node) {
  for (const GpuDevice& gpu : node.gpus) {
    if (gpu.device_class == DeviceClass::kCuda) return gpu.model;
  }
  return "GPU";
}

Finding Make(std::string code, Severity severity, const NodeInventory& node, std::string says) {
  Finding finding;
  finding.code = std::move(code);
  finding.severity = severity;
  finding.node = node.node;
  finding.says = std::move(says);
  return finding;
}

}  // namespace

void JudgeTorch(const NodeInventory& node, const RuntimeFacts& runtime, PreflightReport& report) {
  if (runtime.python.empty()) {
    Finding finding = Make("command_missing", Severity::kError, node,
                           runtime.path + " does not run on " + node.node.value);
    finding.evidence = runtime.says;
    finding.remedy = "name an environment that exists on the node with venv: or python:";
    report.findings.push_back(std::move(finding));
    return;
  }
  if (!runtime.torch) {
    // Not every GPU program uses torch: said, but no reason to stop it.
    Finding finding = Make("torch_missing", Severity::kWarning, node,
                           runtime.path + " on " + node.node.value + " has no torch");
    finding.evidence = runtime.says;
    finding.remedy = "if the job needs it, " + InstallCudaTorch(node, runtime.path);
    report.findings.push_back(std::move(finding));
    return;
  }
  const TorchFacts& torch = *runtime.torch;
  const std::string build =
      "torch " + torch.version + " of " + runtime.path + " on " + node.node.value;
  report.passed.push_back({"torch_missing", node.node, build + " is installed"});
  if (!torch.cuda && !torch.hip) {
    Finding finding = Make("torch_cpu_only", Severity::kError, node,
                           build + " is built without CUDA: it cannot use the " + DeviceOf(node));
    finding.evidence =
        "torch.version.cuda is None" +
        std::string(runtime.sees_gpu == false ? ", cuda.is_available() is False" : "");
    finding.remedy = InstallCudaTorch(node, runtime.path);
    report.findings.push_back(std::move(finding));
    return;
  }
  report.passed.push_back(
      {"torch_cpu_only", node.node, build + " is built for CUDA " + torch.cuda.value_or("(ROCm)")});
  const auto wanted = torch.cuda ? ParseVersionPair(*torch.cuda) : std::nullopt;
  const bool newer = wanted && node.driver_cuda && wanted->major > node.driver_cuda->major;
  if (newer && runtime.sees_gpu != true) {  // a compatibility library may bridge the two
    Finding finding = Make("cuda_driver_too_old", Severity::kError, node,
                           build + " needs CUDA " + *torch.cuda + ", driver " +
                               node.driver.value_or("?") + " has " + ToString(*node.driver_cuda));
    finding.remedy = InstallOlderCudaTorch(node, runtime.path);
    report.findings.push_back(std::move(finding));
    return;
  }
  if (runtime.sees_gpu == false) {
    Finding finding = Make("gpu_unhealthy", Severity::kWarning, node,
                           build + " sees no GPU although it is built for CUDA");
    finding.evidence = runtime.says;
    finding.remedy = "run nvidia-smi on " + node.node.value + ", and look at CUDA_VISIBLE_DEVICES";
    report.findings.push_back(std::move(finding));
    return;
  }
  if (runtime.sees_gpu == true) {
    report.passed.push_back({"cuda_driver_too_old", node.node, build + " sees the GPU"});
  }
}

}  // namespace launch
