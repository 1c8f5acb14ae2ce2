// What a waiting job waits for: other jobs, a time. Pure looks at the state.
#pragma once

#include <optional>
#include <string>

#include "controller/core/state.h"

namespace launch::controller {

struct DependencyLook {
  std::string waits;  // what is missing, with evidence; empty: nothing
  std::string never;  // why it can never be met; empty: it can
};
DependencyLook LookAtDependencies(const State& state, const JobRecord& job);

// Every job that `depends_on` names is one that this cluster knows.
Result<void> CheckDependencies(const State& state, const JobSpec& spec);

}  // namespace launch::controller
