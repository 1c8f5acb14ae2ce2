// The allocation that crash_agent runs and crash_test finds.
#pragma once

#include "tests/unit/agent/runner/runner_bench.h"

namespace launch::agent {

inline constexpr Key kCrashKey{{21}, {3}};

inline AllocationSpec CrashSpec(const RunnerBench& bench) {
  AllocationSpec spec = bench.Spec(kCrashKey, 2, {"--exit", "33"});
  spec.gpus = {{"GPU-a"}};
  return spec;
}

}  // namespace launch::agent
