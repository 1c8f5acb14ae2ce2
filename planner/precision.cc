#include "planner/precision.h"

#include <algorithm>
#include <optional>

#include "common/gpu_catalog.h"

namespace launch {
namespace {

constexpr ComputeCapability kBf16From{8, 0};  // Ampere: CUDA C++ guide, arithmetic per capability
constexpr ComputeCapability kTf32From{8, 0};
constexpr ComputeCapability kFp8From{8, 9};  // Ada, Hopper
constexpr ComputeCapability kTensorCoresFrom{7, 0};

struct Weakest {
  const GpuDevice* gpu = nullptr;
  const NodeInventory* node = nullptr;
  ComputeCapability cc;
};

std::optional<ComputeCapability> CapabilityOf(const GpuDevice& gpu) {
  if (gpu.cc) return gpu.cc;
  const GpuType* type = GpuCatalog::BuiltIn().TypeOf(gpu.model, gpu.memory_bytes);
  return type == nullptr ? std::nullopt : std::optional(type->cc);
}

// The device of least capability; its `gpu` is null when one device tells none.
Weakest WeakestOf(const RankLayout& layout) {
  Weakest weakest;
  for (const NodeShare& share : layout.nodes) {
    for (int index : share.gpus) {
      const GpuDevice& gpu = share.inventory->gpus[static_cast<std::size_t>(index)];
      const auto cc = CapabilityOf(gpu);
      if (!cc) return {};
      if (weakest.gpu == nullptr || *cc < weakest.cc) weakest = {&gpu, share.inventory, *cc};
    }
  }
  return weakest;
}

bool Mixed(const RankLayout& layout) {
  const GpuDevice* first = nullptr;
  for (const NodeShare& share : layout.nodes) {
    for (int index : share.gpus) {
      const GpuDevice& gpu = share.inventory->gpus[static_cast<std::size_t>(index)];
      if (first != nullptr && gpu.model != first->model) return true;
      first = &gpu;
    }
  }
  return false;
}

Finding Warn(std::string says, std::string remedy) {
  return MakeFinding("precision_unsupported", Severity::kWarning, std::move(says),
                     std::move(remedy));
}

PrecisionChoice WithoutCuda(const JobSpec& spec, DeviceClass device) {
  const std::string name = device == DeviceClass::kMps ? "MPS" : "CPU";
  if (spec.precision == Precision::kAuto) {
    return {Precision::kFp32, name + ": fp32 unless another is asked for", {}};
  }
  PrecisionChoice choice{spec.precision, "asked for", {}};
  if (spec.precision == Precision::kBf16) {
    choice.warnings.push_back(
        Warn("bf16 on " + name + ": not every operator has it, and it is often not faster",
             "leave precision out for fp32"));
  } else if (spec.precision == Precision::kFp16) {
    choice.warnings.push_back(Warn("fp16 on " + name + " needs loss scaling and is often slower",
                                   "leave precision out for fp32"));
  }
  return choice;
}

Unexpected Unsupported(const Weakest& weakest, std::string_view precision,
                       const ComputeCapability& from, std::string hint) {
  return Fail(ErrorCode::kCannotFit,
              "precision: " + std::string(precision) + " needs compute capability " +
                  ToString(from) + " or newer; " + weakest.gpu->model + " on " +
                  weakest.node->node.value + " has " + ToString(weakest.cc),
              std::move(hint));
}

PrecisionChoice Automatic(const Weakest& weakest, bool mixed) {
  const std::string name = (mixed ? "weakest device " : "") + weakest.gpu->model + " (capability " +
                           ToString(weakest.cc) + ")";
  if (weakest.cc >= kBf16From) return {Precision::kBf16, name + ": has bf16", {}};
  if (weakest.cc >= kTensorCoresFrom) {
    return {Precision::kFp16, name + ": no bf16 before capability 8.0, so fp16", {}};
  }
  return {
      Precision::kFp16, name + ": fp16 with no tensor cores, which saves memory and not time", {}};
}

}  // namespace

Result<PrecisionChoice> ChoosePrecision(const JobSpec& spec, DeviceClass device,
                                        const RankLayout& layout) {
  if (device != DeviceClass::kCuda) {
    const bool fp8 = spec.precision == Precision::kFp8;
    if (fp8 || spec.precision == Precision::kTf32) {
      return Fail(ErrorCode::kCannotFit,
                  "precision: " + std::string(ToString(spec.precision)) +
                      " needs an NVIDIA GPU of compute capability " +
                      ToString(fp8 ? kFp8From : kTf32From) + " or newer; the job gets " +
                      std::string(ToString(device)),
                  "write precision: auto");
    }
    return WithoutCuda(spec, device);
  }
  const Weakest weakest = WeakestOf(layout);
  if (weakest.gpu == nullptr) {
    if (spec.precision != Precision::kAuto) return PrecisionChoice{spec.precision, "asked for", {}};
    return PrecisionChoice{Precision::kFp32, "the compute capability of a device is not known", {}};
  }
  switch (spec.precision) {
    case Precision::kAuto:
      return Automatic(weakest, Mixed(layout));
    case Precision::kBf16:
      if (weakest.cc < kBf16From) {
        return Unsupported(weakest, "bf16", kBf16From,
                           "write precision: fp16, or constraints: \"cc>=8.0\"");
      }
      break;
    case Precision::kFp8:
      if (weakest.cc < kFp8From) {
        return Unsupported(weakest, "fp8", kFp8From,
                           "write precision: auto, or constraints: \"cc>=8.9\"");
      }
      break;
    case Precision::kTf32:
      if (weakest.cc < kTf32From) {
        return Unsupported(weakest, "tf32", kTf32From,
                           "write precision: fp32, or constraints: \"cc>=8.0\"");
      }
      break;
    case Precision::kFp16:
    case Precision::kFp32:
      break;
  }
  return PrecisionChoice{
      spec.precision,
      "asked for; " + weakest.gpu->model + " has capability " + ToString(weakest.cc),
      {}};
}

std::optional<Precision> SixteenBitsOn(const std::vector<const NodeInventory*>& nodes) {
  std::optional<ComputeCapability> least;
  for (const NodeInventory* node : nodes) {
    for (const GpuDevice& gpu : node->gpus) {
      if (gpu.device_class != DeviceClass::kCuda) continue;
      const auto cc = CapabilityOf(gpu);
      if (!cc) return std::nullopt;
      least = least ? std::min(*least, *cc) : *cc;
    }
  }
  if (!least) return std::nullopt;
  return *least >= kBf16From ? Precision::kBf16 : Precision::kFp16;
}

}  // namespace launch
