// Vision transformers and towers from their part of a config.json.
#pragma once

#include <cstdint>

#include "planner/model/config_section.h"
#include "planner/model/model_card.h"

namespace launch {

// Parameters of the tower, without classifier or projector; its shape goes into `card`. 0 when a
// size is missing that its configuration class has no default for.
std::int64_t VisionParams(ConfigSection& config, ModelCard& card);

}  // namespace launch
