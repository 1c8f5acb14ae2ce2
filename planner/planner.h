// The planner: how a job will run on given nodes. Pure: same inputs, same plan, byte for byte.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/inventory.h"
#include "common/job.h"
#include "common/network_link.h"
#include "common/plan.h"
#include "common/view.h"
#include "planner/line/launch_line.h"

namespace launch {

// A node as the planner may use it. `free_gpus` are indices into inventory.gpus.
struct PlannerOffer {
  const NodeInventory* inventory = nullptr;  // never null; outlives the call
  std::vector<int> free_gpus;
  std::vector<int> crowded_gpus;  // of them, those whose memory others use: taken last
  int free_cpus = 0;
  std::uint64_t free_memory_bytes = 0;
  bool schedulable = true;  // false: silent, drained or unhealthy: counts for never-fits only
  std::string refuses;      // why it never takes this job, whatever it has free; empty: it may
};

// Nodes and GPU indices of one attempt, in node order (rank 0's node first).
struct Placement {
  std::vector<std::size_t> offers;     // positions in the offers given
  std::vector<std::vector<int>> gpus;  // per node, indices in PCI order
  std::vector<int> cpus;  // per node, cores that the job needs free; 0: it asks for none
  friend bool operator==(const Placement&, const Placement&) = default;
};

// Why a job cannot be placed, always with evidence.
struct Unplaced {
  bool never = false;        // on no known node even when empty: kCannotFit
  WaitReason reason;         // Resources | ReqNodeNotAvail | ...
  std::string closest_node;  // of never: the best node and what it lacks
  std::string missing;
  friend bool operator==(const Unplaced&, const Unplaced&) = default;
};

// What the job's line says. A script of hundreds of lines takes milliseconds to read, so those who
// ask more than once keep what they were told. `files`: SubmitContext::files, scripts that the line
// calls among them.
Result<LaunchLine> ReadLineOf(const JobSpec& spec, const std::map<std::string, std::string>& files);
// The part of it by which a place is looked for.
Result<LineDemand> DemandIn(const Result<LaunchLine>& line);

// All-or-nothing gang placement by count, model, capability, arch, memory, constraints, nodelist,
// exclude, gpu_ids. Deterministic: prefers the user's GPU order, then GPUs that nobody else uses,
// then fewest spare GPUs, then name. `line`: of DemandIn.
tl::expected<Placement, Unplaced> Place(const JobSpec& spec,
                                        const std::vector<PlannerOffer>& offers,
                                        const Result<LineDemand>& line);

struct PlanInput {
  const JobSpec& spec;
  const SubmitContext& context;
  const Result<LaunchLine>& line;  // of ReadLineOf
  const std::vector<PlannerOffer>& offers;
  const Placement& placement;
  // Known only for a real attempt; probable values are shown otherwise.
  std::optional<Key> key;
  std::string user;
  PlanQuestions questions = {};
  bool host_memory_was_short = false;  // in an earlier attempt
  // Pairs of nodes that were tested with each other; of other nodes too, these are passed over.
  std::vector<MeasuredPair> network = {};
};

struct PlannedRun {
  Plan plan;
  std::vector<AllocationSpec> allocations;  // one per node, in node order
};

// Errors: kInvalidArgument (bad batch, unknown variable ...), kCannotFit (precision, device
// limits), kUnimplemented (launch line of a later version).
Result<PlannedRun> MakePlan(const PlanInput& input);

// Judges a spec alone, before any node is known: mpi launcher, unsupported lines, batch products.
Result<void> CheckSpec(const JobSpec& spec, const SubmitContext& context,
                       const Result<LaunchLine>& line);
// The signal before the end of a run comes after its start. For what is submitted or changed: a job
// that was accepted is not ended for it, its signal comes at its start.
Result<void> CheckSignalLead(const JobSpec& spec);

}  // namespace launch
