#include "preflight/remedies.h"

namespace launch {
namespace {

constexpr std::string_view kIndex = "https://download.pytorch.org/whl/";
constexpr int kDriverOfCuda13 = 580;  // CUDA compatibility guide: minimum driver of 13.x

std::string Install(const std::string& interpreter, std::string_view channel) {
  return (interpreter.empty() ? "python" : interpreter) +
         " -m pip install --force-reinstall torch --index-url " + std::string(kIndex) +
         std::string(channel);
}

bool RunsCuda13(const NodeInventory& node) {
  if (!node.driver) return false;
  const auto driver = ParseVersionPair(*node.driver);
  return driver && driver->major >= kDriverOfCuda13;
}

}  // namespace

std::string InstallCudaTorch(const NodeInventory& node, const std::string& interpreter) {
  std::string text =
      "install a CUDA build from PyTorch's cu126 channel: " + Install(interpreter, "cu126");
  if (node.arch == Arch::kAarch64) text += " (aarch64 has CUDA wheels from torch 2.6.0 on)";
  text += RunsCuda13(node) ? "; a CUDA 13 build runs here too, as the driver is at least driver 580"
                           : "; a CUDA 13 build needs driver 580 or newer";
  return text + "; or write device: cpu";
}

std::string InstallOlderCudaTorch(const NodeInventory& node, const std::string& interpreter) {
  return "update the driver (CUDA 13 needs driver 580 or newer, this node has " +
         node.driver.value_or("an unknown one") +
         "), or install a build of PyTorch's cu126 channel: " + Install(interpreter, "cu126");
}

}  // namespace launch
