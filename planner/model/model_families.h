// How the known Hugging Face model types are built.
#pragma once

#include <string_view>

#include "planner/model/parameter_count.h"

namespace launch {

// The blueprint of a type of model; null for an unknown one.
const Blueprint* BlueprintOf(std::string_view model_type);

}  // namespace launch
