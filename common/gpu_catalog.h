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

// Figures of a class of GPUs; some of its names may have others ("A100 80GB PCIe").
struct GpuFigures {
  std::map<std::string, double> tflops;  // dense, per precision: "bf16": 989
  std::optional<int> sms;                // multiprocessors
  std::optional<double> tensor_mhz;      // clock at which `tflops` of the tensor cores is stated
  std::optional<double> matmul_tflops;   // best 16-bit matrix product measured in public
  std::optional<double> memory_gib;      // usual size; what a driver says counts before it
  std::optional<double> memory_gbps;     // GB/s
  std::optional<double> link_gbps;       // NVLink, GB/s both directions; 0 = none
  std::optional<double> pcie_gbps;       // to the host, GB/s in one direction
  std::optional<double> c2c_gbps;        // to the host over NVLink-C2C, GB/s in one direction
  std::optional<double> nic_gbps;        // network of one GPU in the maker's reference system, GB/s
};

// Least compute capability whose tensor cores take a format (CUDA C++ guide, arithmetic
// instructions).
inline constexpr ComputeCapability kBf16From{8, 0};  // Ampere
inline constexpr ComputeCapability kTf32From{8, 0};
inline constexpr ComputeCapability kFp8From{8, 9};  // Ada, Hopper

struct GpuVariant {
  std::vector<std::string> match;  // as of the class, in addition to its own
  GpuFigures figures;              // what is absent stays as the class has it
};

struct GpuType : GpuFigures {
  std::string name;                  // "A100-80GB", "GH200"
  std::vector<std::string> aliases;  // "A100", "A100-SXM4-80GB"
  std::vector<std::string> match;    // all words must occur in the driver's name, case-insensitive
  std::vector<std::string> exclude;  // none of these may occur in it
  std::optional<double> min_gib;     // memory window that tells 40 GB from 80 GB parts
  std::optional<double> max_gib;
  ComputeCapability cc;
  std::vector<GpuVariant> variants;
};

class GpuCatalog {
 public:
  static Result<GpuCatalog> Parse(std::string_view yaml, const std::string& file);
  static const GpuCatalog& BuiltIn();  // configs/gpus.yaml compiled in

  // First rule that matches the driver's name and memory; null when none does.
  const GpuType* TypeOf(std::string_view driver_name, std::uint64_t memory_bytes) const;
  // The class that a text means which no driver printed: a class's name or alias, a driver-like
  // name, or a longer word that begins with one ("A100SXM"). `memory_gib` (or GB, both are
  // accepted) tells parts of one name apart; without it the first in the file counts. Null when
  // nothing fits.
  const GpuType* Find(std::string_view word, std::optional<double> memory_gib) const;
  // Does a job's word ("H100", "A100-80GB", "GH200") mean this device? Case-insensitive.
  bool Matches(std::string_view wanted, const GpuDevice& device) const;
  // The class with the figures of the variant that the name asks for.
  static GpuType VariantOf(const GpuType& type, std::string_view name);
  std::vector<std::string> Names() const;  // for the nearest-name hint

 private:
  std::vector<GpuType> types_;
};

// What the driver says, else the built-in data sheet; absent: neither knows.
std::optional<ComputeCapability> CapabilityOf(const GpuDevice& gpu);

}  // namespace launch
