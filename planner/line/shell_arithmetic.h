// Sums, products and brackets of bash's $((...)).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "planner/line/shell_values.h"

namespace launch {

// Whole numbers only; absent: something in it is not known here, or is larger than a billion.
std::optional<std::int64_t> ArithmeticValue(std::string_view text, const KnownVariables& known);

}  // namespace launch
