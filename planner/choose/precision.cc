#include "planner/choose/precision.h"

#include <algorithm>
#include <optional>

#include "common/gpu_catalog.h"

namespace launch {
namespace {

constexpr ComputeCapability kTensorCoresFrom{7, 0};

struct Weakest {
  const GpuDevice* gpu = nullptr;
  const NodeInventory* node = nullptr;
  ComputeCapability cc;
};

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
  PrecisionChoice choice{spec.precision, std::string(kAskedFor), {}};
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

Unexpected Unsupported(const Weakest& weakest, Precision precision, const ComputeCapability& from) {
  const char* instead = precision == Precision::kBf16   ? "fp16"
                        : precision == Precision::kTf32 ? "fp32"
                                                        : "auto";
  return Fail(ErrorCode::kCannotFit,
              "precision: " + std::string(ToString(precision)) + " needs compute capability " +
                  ToString(from) + " or newer; " + weakest.gpu->model + " on " +
                  weakest.node->node.value + " has " + ToString(weakest.cc),
              std::string("write precision: ") + instead +
                  ", or constraints: \"cc>=" + ToString(from) + "\"");
}

PrecisionChoice Automatic(const Weakest& weakest, bool mixed) {
  const std::string name = (mixed ? "weakest device " : "") + weakest.gpu->model + " (capability " +
                           ToString(weakest.cc) + ")";
  if (SixteenBitsOf(weakest.cc) == Precision::kBf16) {
    return {Precision::kBf16, name + ": has bf16", {}};
  }
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
    if (spec.precision != Precision::kAuto)
      return PrecisionChoice{spec.precision, std::string(kAskedFor), {}};
    return PrecisionChoice{Precision::kFp32, "the compute capability of a device is not known", {}};
  }
  if (spec.precision == Precision::kAuto) return Automatic(weakest, Mixed(layout));
  const auto from = CapabilityFor(spec.precision);
  if (from && weakest.cc < *from) return Unsupported(weakest, spec.precision, *from);
  return PrecisionChoice{spec.precision,
                         std::string(kAskedFor) + "; " + weakest.gpu->model + " has capability " +
                             ToString(weakest.cc),
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
  return SixteenBitsOf(*least);
}

Precision SixteenBitsOf(const ComputeCapability& cc) {
  return cc < kBf16From ? Precision::kFp16 : Precision::kBf16;
}

std::optional<ComputeCapability> CapabilityFor(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
      return kBf16From;
    case Precision::kTf32:
      return kTf32From;
    case Precision::kFp8:
      return kFp8From;
    case Precision::kAuto:
    case Precision::kFp16:
    case Precision::kFp32:
      break;
  }
  return std::nullopt;
}

}  // namespace launch
