// The environment of a rank: one table says which variables, when, and whether a user may set them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/inventory.h"
#include "common/job.h"
#include "common/plan.h"
#include "planner/place/ranks.h"

namespace launch {

// When the value is known: with the plan, with the attempt's number, at the start (controller:
// addresses, port, what to resume from), or on the node (paths of the attempt's directory; an empty
// value in RankSpec::env asks for them).
enum class Known { kPlan, kAttempt, kStart, kNode };

struct EnvFacts {
  const JobSpec& spec;
  const SubmitContext& context;
  const Plan& plan;  // strategy, precision, batch, loader, processes, device
  const RankLayout& layout;
  std::size_t node = 0;  // position in layout.nodes
  int local_rank = 0;
  std::optional<Key> key;
  std::string checkpoint_dir;  // expanded; empty = none
  std::string role = "default";
  bool wrappers = false;      // launchers of ours are called first
  bool alone = false;         // one process that a RANK would make think it is one of several
  bool own_fsdp = false;      // the line tells accelerate itself how to shard
  bool by_deepspeed = false;  // its engine trains: by the plan, a file or the line
};

struct EnvRule {
  std::string_view name;
  std::string_view group;  // "torch", "devices", "plan" ...
  std::string_view when;   // text for the documentation
  std::string_view meaning;
  bool overridable = true;  // false: setting it in env: is refused
  Known known = Known::kPlan;
  std::optional<std::string> (*value)(const EnvFacts&);  // absent: not set for this rank
};

// All variables launch sets, in the order of the documentation.
const std::vector<EnvRule>& EnvironmentTable();

// Why CUDA_VISIBLE_DEVICES lists UUIDs on this node: positions in the inventory are not the indices
// CUDA counts by. Empty: it lists indices.
std::string WhyDevicesByUuid(const NodeInventory& node);

// The job's own part on one node: clean base, interpreter, env: in order. Sorted by name.
// kInvalidArgument: an undefined $NAME, a required value the caller lacks, a name that is ours.
Result<std::map<std::string, std::string>> JobEnvironment(const JobSpec& spec,
                                                          const SubmitContext& context,
                                                          const NodeInventory& node);

// `job` plus the planned variables of one rank; what the user set stays.
struct RankEnvironment {
  std::map<std::string, std::string> values;  // late ones hold their probable value
  std::vector<std::string> late;              // names whose value only the start fixes; sorted
};
RankEnvironment EnvironmentOfRank(const std::map<std::string, std::string>& job,
                                  const EnvFacts& facts);

// Names in env: that are refused before any node is known.
Result<void> CheckEnv(const JobSpec& spec, const SubmitContext& context);

// Paths of the job's interpreter as far as the job says: venv, python, or the caller's active venv.
std::string VenvOf(const JobSpec& spec, const SubmitContext& context);
// Prefix of the conda environment: the job's, or the caller's active one. Its activate.d scripts
// run in front of the command.
std::string CondaOf(const JobSpec& spec, const SubmitContext& context);
std::string InterpreterOf(const JobSpec& spec, const SubmitContext& context);

// docs/environment.md, made from the table.
std::string EnvironmentDocument();

}  // namespace launch
