// GPU memory that grows from step to step until it is full, told apart from a step that never fits.
#pragma once

#include <cstdint>
#include <optional>

#include "common/diagnosis.h"

namespace launch {

// What PyTorch held just after optimizer steps, when a step's activations are gone: growth there
// is kept from step to step, and no micro-batch is small enough for it.
struct MemoryGrowth {
  std::uint64_t from = 0;  // bytes after the first step that was seen
  std::uint64_t to = 0;    // and after the last
  double bytes_per_second = 0;
  std::optional<std::int64_t> steps;  // between the two, where the program says its steps
  friend bool operator==(const MemoryGrowth&, const MemoryGrowth&) = default;
};

// The verdict on an out-of-memory error with the growth as its cause; others stay as they are.
Verdict WithGrowth(Verdict verdict, const MemoryGrowth& growth);

}  // namespace launch
