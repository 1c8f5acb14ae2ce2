// What a job's command finds in its environment behind the activation scripts of its conda
// environment, asked of these scripts themselves.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "agent/account/local_account.h"
#include "agent/probes/child_process.h"
#include "common/error.h"
#include "common/launch.h"

namespace launch::agent {

// The rank's variables; where scripts activate an environment in front of its command
// (IsActivated), what they leave of them, with what they add. They run as in the rank itself, as
// the account and with the same text, but not in its working directory. kDeadlineExceeded: not
// within 30 s; kFailedPrecondition: a script ended it.
Result<std::vector<EnvVar>> EnvironmentOf(const RankSpec& rank,
                                          const std::optional<LocalAccount>& account,
                                          const MakeProbeScope& scope = {});

// Reads the output of `env -0` after our mark; what scripts print stands before it. Absent: there
// is no mark.
std::optional<std::vector<EnvVar>> ReadEnvironment(std::string_view output);

}  // namespace launch::agent
