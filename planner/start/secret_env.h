// Values in `env` that look like secrets: they are stored and shown in clear.
#pragma once

#include <vector>

#include "common/job.h"
#include "common/plan.h"

namespace launch {

// One warning that names them all and `secrets:`, or nothing.
std::vector<Finding> SecretsInClear(const JobSpec& spec);

}  // namespace launch
