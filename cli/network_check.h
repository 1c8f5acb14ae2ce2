// `check --network`: nodes speak with each other, run like any job, and every pair is shown.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/app.h"
#include "cli/client.h"
#include "preflight/report.h"

namespace launch {

// The job as a test of the network between `nodes`, or between those that it asks for when there
// are none: the same interpreter and environment, one process a node, no GPU, and the program of
// common/network_answer.h in place of `run`.
JobSpec AsNetworkTest(JobSpec spec, const std::vector<NodeId>& nodes);

// Runs the job that AsNetworkTest made and judges what every node said. kFailedPrecondition: no
// node had an answer; the last lines of output come with it.
Result<PreflightReport> RunNetworkCheck(const App& app, Client& client, const SubmitCall& job,
                                        const std::vector<NodeView>& nodes);

// Runs an all-reduce by NCCL over one GPU of each node, as a start with `preflight: full` does.
// `job` is what AsNetworkTest made. Where it could not be run, the report has one line with the
// reason.
PreflightReport RunNcclCheck(const App& app, Client& client, const SubmitCall& job);

// The first of the nodes, by name, that has no GPU free now; absent: all have one.
std::optional<NodeId> WithoutFreeGpu(const std::vector<NodeView>& nodes);

}  // namespace launch
