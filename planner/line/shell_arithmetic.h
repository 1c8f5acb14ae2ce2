// Sums, products, comparisons and choices of bash's $((...)).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "planner/line/shell_values.h"

namespace launch {

// Whole numbers only; absent: something in it is not known here, or is larger than a billion.
std::optional<std::int64_t> ArithmeticValue(std::string_view text, const KnownVariables& known);

// GPUs of a node, where the job says how many they are; empty: it does not.
std::string GpusAsNumber(const KnownVariables& known);

}  // namespace launch
