// DeviceSpeed: what one GPU computes and moves in a second, from its data sheet and the physics.
#pragma once

#include <optional>

#include "common/gpu_catalog.h"
#include "common/job.h"
#include "planner/cost/time_constants.h"

namespace launch {

// The machines of a run as far as they decide its speed. Bandwidths in GB/s, one direction.
struct Machine {
  GpuFigures gpu;         // of the slowest GPU; variants applied
  bool gpu_known = true;  // false: figures of a similar class, because no rule knows this GPU
  int gpus_per_node = 1;
  bool nvlink = true;                       // GPUs of a node reach each other over it
  std::optional<double> node_network_gbps;  // all adapters that ranks use; absent = assumed
};

// Operations per second of large matrix products in that precision; fp32 where the part lacks it.
double MatmulRate(const GpuFigures& gpu, Precision precision, const TimeConstants& constants);
// Operations per second of fused attention kernels.
double AttentionRate(const GpuFigures& gpu, Precision precision, const TimeConstants& constants);
double MemoryRate(const GpuFigures& gpu, const TimeConstants& constants);  // bytes per second
// The rate of MemoryRate for the short kernels of eager code, which are bound by instructions where
// memory is faster.
double EagerRate(const GpuFigures& gpu, const TimeConstants& constants);

// Bytes per second of one ring through the ranks of a node, and through several nodes.
double LinkRate(const Machine& machine, const TimeConstants& constants);
double NetworkRate(const Machine& machine, const TimeConstants& constants);
// Between one GPU and its host, and of the memory of the host that falls to one GPU.
double HostLinkRate(const Machine& machine, const TimeConstants& constants);
double HostMemoryRate(const Machine& machine, const TimeConstants& constants);

// The catalog's figures for a device, or those of the class most like it by capability and memory.
Machine MachineOf(const GpuCatalog& catalog, const GpuDevice& device);

}  // namespace launch
