// Which number format a job trains in, by the weakest device it gets.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/diagnosis.h"
#include "common/error.h"
#include "common/job.h"
#include "planner/place/ranks.h"

namespace launch {

// How a reason begins where the job names the precision.
inline constexpr std::string_view kAskedFor = "asked for";

struct PrecisionChoice {
  Precision precision = Precision::kFp32;
  std::string reason;
  std::vector<Finding> warnings;
};

// The precision to train in. kCannotFit: the format asked for does not exist on a device of the
// placement.
Result<PrecisionChoice> ChoosePrecision(const JobSpec& spec, DeviceClass device,
                                        const RankLayout& layout);

// 16 bits on all CUDA devices of these nodes: bf16 where each has it, else fp16. Absent where one
// tells no capability, or there is no device.
std::optional<Precision> SixteenBitsOn(const std::vector<const NodeInventory*>& nodes);

// The 16-bit format of GPUs of that capability: bf16 where they have it.
Precision SixteenBitsOf(const ComputeCapability& cc);

// The least capability that a precision needs; absent: every CUDA GPU has it.
std::optional<ComputeCapability> CapabilityFor(Precision precision);

}  // namespace launch
