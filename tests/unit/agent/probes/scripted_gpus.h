// A GpuProbe that answers what a test put into it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "agent/probes/gpu_probe.h"

namespace launch::agent {

class ScriptedGpus final : public GpuProbe {
 public:
  GpuFacts List() override { return facts; }
  std::vector<GpuSample> Sample() override { return samples; }
  std::optional<GpuProcessList> Processes() override { return processes; }

  GpuFacts facts;
  std::vector<GpuSample> samples;
  std::optional<GpuProcessList> processes = GpuProcessList();
};

inline GpuFacts FourGpus() {
  GpuFacts facts;
  facts.driver = "570.124.06";
  facts.driver_cuda = CudaVersion{12, 8};
  for (int i = 0; i < 4; ++i) {
    GpuDevice gpu;
    gpu.uuid.value = "GPU-" + std::to_string(i);
    gpu.model = "NVIDIA A100-SXM4-40GB";
    gpu.memory_bytes = 40960ull << 20;
    gpu.pci = "0000:0" + std::to_string(i) + ":00.0";
    facts.gpus.push_back(gpu);
  }
  return facts;
}

}  // namespace launch::agent
