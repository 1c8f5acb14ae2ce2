// What the GPU driver says; behind a seam because the driver may hang, vanish or be absent.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/core/gpu_processes.h"
#include "common/error.h"
#include "common/inventory.h"

namespace launch::agent {

struct GpuFacts {
  std::vector<GpuDevice> gpus;  // PCI order
  std::optional<std::string> driver;
  std::optional<CudaVersion> driver_cuda;
  CoherentMode coherent = CoherentMode::kNone;
  std::string problem;  // driver_missing, driver_not_loaded, driver_mismatch, no_access,
                        // driver_unresponsive: text
  friend bool operator==(const GpuFacts&, const GpuFacts&) = default;
};

// Blocking with deadlines of its own; one caller thread. A node without GPU or driver is not an
// error.
class GpuProbe {
 public:
  virtual ~GpuProbe() = default;
  virtual GpuFacts List() = 0;
  virtual std::vector<GpuSample> Sample() = 0;
  // The processes on those GPUs of which the driver tells them; absent: it does not answer.
  virtual std::optional<GpuProcessList> Processes() = 0;
};

}  // namespace launch::agent
