// Whether the nodes of an attempt reach each other, asked by a program that runs on all of them.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "agent/account/local_account.h"
#include "agent/probes/child_process.h"
#include "common/launch.h"
#include "common/node_messages.h"

namespace launch::agent {

// The program run by `interpreter`, as the account if there is one, in the environment of the ranks
// of `spec`, as Go will make it. Blocks until all nodes have spoken with each other, or for about
// two minutes. An interpreter that does not run, or a test without an end, is a fact with `why`,
// never an error.
NetworkFacts TestNetwork(const std::string& interpreter, const std::string& nccl_program,
                         const AllocationSpec& spec, const to_node::NetworkTest& test,
                         const std::optional<LocalAccount>& account,
                         const std::atomic<bool>& cancel, const MakeProbeScope& scope = {});

}  // namespace launch::agent
