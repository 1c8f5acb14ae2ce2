// How the known Hugging Face model types are built.
#pragma once

#include <string_view>

#include "planner/model/parameter_count.h"

namespace launch {

// Null for an unknown type.
const Blueprint* BlueprintOf(std::string_view model_type);

}  // namespace launch
