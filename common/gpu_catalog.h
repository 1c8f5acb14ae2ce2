// The data sheet configs/gpus.yaml: classes of GPUs and the rules that map driver names to them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/inventory.h"

namespace launch {

struct GpuType {
  std::string name;                  // "A100-80GB", "GH200"
  std::vector<std::string> aliases;  // "A100", "A100-SXM4-80GB"
  std::vector<std::string> match;    // all words must occur in the driver's name, case-insensitive
  std::vector<std::string> exclude;  // none of these may occur in it
  std::optional<double> min_gib;     // memory window that tells 40 GB from 80 GB parts
  std::optional<double> max_gib;
  ComputeCapability cc;
  std::map<std::string, double> tflops;  // dense, per precision: "bf16": 989
  std::optional<double> memory_gbps;     // GB/s
  std::optional<double> link_gbps;       // NVLink, GB/s both directions
};

class GpuCatalog {
 public:
  static Result<GpuCatalog> Parse(std::string_view yaml, const std::string& file);
  static const GpuCatalog& BuiltIn();  // configs/gpus.yaml compiled in

  // First rule that matches the driver's name and memory; null when none does.
  const GpuType* TypeOf(std::string_view driver_name, std::uint64_t memory_bytes) const;
  // Does a job's word ("H100", "A100-80GB", "GH200") mean this device? Case-insensitive.
  bool Matches(std::string_view wanted, const GpuDevice& device) const;
  std::vector<std::string> Names() const;  // for the nearest-name hint

 private:
  std::vector<GpuType> types_;
};

}  // namespace launch
