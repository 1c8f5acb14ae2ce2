#include "planner/planner.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "common/mig.h"
#include "common/units.h"
#include "planner/choose/calibration.h"
#include "planner/choose/duration.h"
#include "planner/choose/forecast.h"
#include "planner/choose/memory_lessons.h"
#include "planner/choose/mixed_gpus.h"
#include "planner/choose/precision.h"
#include "planner/choose/what_if.h"
#include "planner/line/script_habits.h"
#include "planner/model/batch.h"
#include "planner/model/strategy.h"
#include "planner/place/demand.h"
#include "planner/place/interface_names.h"
#include "planner/place/network_speed.h"
#include "planner/reach.h"
#include "planner/start/allocation.h"
#include "planner/start/describe_start.h"
#include "planner/start/environment.h"
#include "planner/start/expansion.h"
#include "planner/start/loader.h"
#include "planner/start/secret_env.h"
#include "planner/trainer/cpu_trainers.h"
#include "planner/trainer/debug_plan.h"
#include "planner/trainer/hf_flags.h"
#include "planner/trainer/model_block.h"
#include "planner/trainer/probe_plan.h"
#include "planner/trainer/trainer_configs.h"
#include "planner/trainer/user_choices.h"
#include "planner/unused_fields.h"

namespace launch {
namespace {

void Append(std::vector<Finding>& to, const std::vector<Finding>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

std::string DeviceName(const RankLayout& layout) {
  std::vector<std::string> names;
  for (const NodeShare& share : layout.nodes) {
    for (int index : share.gpus) {
      const std::string& model = share.inventory->gpus[static_cast<std::size_t>(index)].model;
      if (std::find(names.begin(), names.end(), model) == names.end()) names.push_back(model);
    }
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " + ") + name;
  return text.empty() ? "CPU" : text;
}

std::string DeviceReason(const Demand& demand, const std::string& name) {
  if (demand.device == DeviceClass::kCpu) {
    return demand.cpu_fallback ? "CPU (slower): " + demand.device_reason
                               : "CPU: " + demand.device_reason;
  }
  const std::string why = demand.device_reason == "auto" ? "first of cuda, mps, cpu that a node has"
                                                         : demand.device_reason;
  return name + ": " + why;
}

// Usable memory of the smallest device; of a rank's share of the host where there is none.
MemoryForecast Memory(const RankLayout& layout) {
  MemoryForecast memory;
  std::optional<std::uint64_t> smallest;
  for (const NodeShare& share : layout.nodes) {
    for (int index : share.gpus) {
      const GpuDevice& gpu = share.inventory->gpus[static_cast<std::size_t>(index)];
      smallest = std::min(smallest.value_or(UINT64_MAX), UsableBytes(gpu));
    }
    if (!share.gpus.empty()) continue;
    const std::uint64_t part =
        share.inventory->memory_bytes / static_cast<std::uint64_t>(std::max(1, share.processes));
    smallest = std::min(smallest.value_or(UINT64_MAX), part);
  }
  memory.limit_gib = static_cast<double>(smallest.value_or(0)) / static_cast<double>(kGiB);
  return memory;
}

// nvidia-smi may count the same GPUs by other numbers.
Finding IdsOfAgent(const NodeShare& share) {
  const NodeInventory& node = *share.inventory;
  std::string meant;
  for (const int index : share.gpus) {
    const auto at = static_cast<std::size_t>(index);
    meant += (meant.empty() ? "" : ", ") + std::to_string(GpuNumber(node, at)) + " is " +
             node.gpus[at].uuid.value;
  }
  return MakeFinding("gpu_ids_of_agent", Severity::kNotice,
                     "gpu_ids count the GPUs as `launch nodes " + node.node.value +
                         "` does: its agent has only some of its machine's GPUs: " + meant,
                     "compare the UUIDs with those of nvidia-smi -L there");
}

std::vector<Finding> Advice(const PlanInput& input, const LaunchLine& line, const Demand& demand,
                            const RankLayout& layout, const Plan& plan) {
  const JobSpec& spec = input.spec;
  std::vector<Finding> advice;
  if (!plan.memory.peak_gib) {
    // A host that runs short of memory swaps or says so; a GPU just fails.
    advice.push_back(MakeFinding(
        "memory_unknown", plan.device == DeviceClass::kCpu ? Severity::kNotice : Severity::kWarning,
        "memory prediction unavailable: whether the job fits is not known before "
        "it runs",
        plan.device == DeviceClass::kCuda
            ? "describe the model (model: {config: PATH} or {params: 7B}), or let a few "
              "steps measure it: launch plan --probe"
            : "memory is predicted for CUDA devices only; let a few steps show what it takes: "
              "launch plan --probe"));
  }
  if (auto slow = NetworkOf(layout, input.network).slow; slow && layout.nodes.size() > 1)
    advice.push_back(std::move(*slow));
  if (demand.cpu_fallback) {
    advice.push_back(
        MakeFinding("device_slower", Severity::kWarning,
                    demand.device_reason + ": the job runs on the CPU, which is slower",
                    "write device: cpu if that is meant, or gpus: 1 to wait for a GPU"));
  }
  if (spec.checkpoint.dir.empty()) {
    advice.push_back(MakeFinding("no_resume", Severity::kNotice,
                                 "no checkpoint.dir: a retry starts from the first step",
                                 "write checkpoint: {dir: DIR}"));
  }
  const bool retries = !spec.retry.max || *spec.retry.max > 0;
  if (retries && !spec.requeue_after) {
    advice.push_back(
        MakeFinding("requeue_after", Severity::kNotice,
                    "a silent node's job waits until the node answers or is proved dead",
                    "write requeue_after: 10m to let the job start elsewhere by itself"));
  }
  const bool coherent = std::any_of(
      layout.nodes.begin(), layout.nodes.end(),
      [](const NodeShare& share) { return share.inventory->coherent == CoherentMode::kNuma; });
  if (spec.memory_bytes && !spec.memory_bytes->at_least && coherent) {
    advice.push_back(
        MakeFinding("memory_limit_ignored", Severity::kWarning,
                    "memory: is not a limit here: on coherent-memory nodes GPU pages would "
                    "count as host memory",
                    "write memory: SIZE+ to say that it is a request only"));
  }
  for (const NodeShare& share : layout.nodes) {
    const std::string why = WhyDevicesByUuid(*share.inventory);
    if (plan.device != DeviceClass::kCuda || why.empty()) continue;
    advice.push_back(MakeFinding(
        "devices_by_uuid", Severity::kNotice,
        "CUDA_VISIBLE_DEVICES lists UUIDs on " + share.inventory->node.value + ", which " + why,
        "a script that reads it as numbers must take names too"));
  }
  const auto subset = std::ranges::find_if(
      layout.nodes, [](const NodeShare& share) { return share.inventory->gpu_subset; });
  if (!spec.gpu_ids.empty() && subset != layout.nodes.end()) {
    advice.push_back(IdsOfAgent(*subset));
  }
  const bool uneven =
      plan.device != DeviceClass::kCpu && !line.drives_all_gpus &&
      std::any_of(layout.nodes.begin(), layout.nodes.end(), [](const NodeShare& share) {
        return static_cast<int>(share.gpus.size()) != share.processes;
      });
  if (uneven) {
    const NodeShare& share = layout.nodes[0];
    advice.push_back(MakeFinding(
        "processes_per_node", Severity::kNotice,
        std::to_string(share.processes) + " processes per node on " +
            std::to_string(share.gpus.size()) + " GPUs",
        spec.procs_per_node
            ? "leave procs_per_node out for one process per GPU"
            : "write procs_per_node: " + std::to_string(share.gpus.size()) +
                  " for one process per GPU, or gpus: " + std::to_string(share.processes)));
  }
  for (Finding& finding : BindingFindings(spec, layout, plan)) advice.push_back(std::move(finding));
  return advice;
}

Result<std::string> CheckpointDir(const JobSpec& spec,
                                  const std::map<std::string, std::string>& values) {
  if (spec.checkpoint.dir.empty()) return std::string();
  std::string text = spec.checkpoint.dir;
  if (text == "~" || text.rfind("~/", 0) == 0) text = "$HOME" + text.substr(1);
  LAUNCH_ASSIGN_OR_RETURN(std::string dir, ExpandVariables(text, "checkpoint.dir", values));
  while (dir.rfind("./", 0) == 0) dir.erase(0, 2);
  if (dir.empty() || dir == ".") return spec.workdir;
  if (dir[0] == '/') return dir;
  return spec.workdir + (spec.workdir.empty() || spec.workdir.back() == '/' ? "" : "/") + dir;
}

Result<std::vector<Mount>> ExpandedMounts(const JobSpec& spec,
                                          const std::map<std::string, std::string>& values) {
  std::vector<Mount> mounts = spec.mounts;
  for (Mount& mount : mounts) {
    LAUNCH_ASSIGN_OR_RETURN(mount.source, ExpandVariables(mount.source, "mounts", values));
    LAUNCH_ASSIGN_OR_RETURN(mount.target, ExpandVariables(mount.target, "mounts", values));
    if (mount.source[0] == '/' && mount.target.starts_with('/')) continue;
    return Fail(ErrorCode::kInvalidArgument,
                "mounts: " + mount.source + ":" + mount.target + " is not absolute",
                "write paths from /");
  }
  return mounts;
}

std::string WorkdirText(const JobSpec& spec, const SubmitContext& context) {
  std::string copy = "a shipped copy";
  if (!context.snapshot.empty()) {
    copy += " of " + std::to_string(context.snapshot_files) + " files, " +
            FormatBytes(context.snapshot_bytes);
  }
  if (spec.snapshot) return spec.workdir + " (" + copy + " on each node)";
  if (context.snapshot.empty()) return spec.workdir + " (in place)";
  return spec.workdir + " (in place; " + copy + " if a node does not see it)";
}

// Environment and devices of every rank; returns the paths as each node sees them.
Result<std::vector<NodePaths>> AssignRanks(const PlanInput& input, const UserChoices& choices,
                                           const LaunchLine& line, const RankLayout& layout,
                                           Plan& plan) {
  std::vector<NodePaths> paths;
  std::set<std::string> late;
  for (std::size_t node = 0; node < layout.nodes.size(); ++node) {
    const NodeShare& share = layout.nodes[node];
    LAUNCH_ASSIGN_OR_RETURN(auto job, JobEnvironment(input.spec, input.context, *share.inventory));
    LAUNCH_ASSIGN_OR_RETURN(std::string dir, CheckpointDir(input.spec, job));
    LAUNCH_ASSIGN_OR_RETURN(std::vector<Mount> mounts, ExpandedMounts(input.spec, job));
    // What the launcher would set stands behind what the user set.
    for (const auto& [name, value] : line.env) job.try_emplace(name, value);
    const bool per_node = plan.start == StartKind::kPerNode;
    for (int local = 0; local < (per_node ? 1 : share.processes); ++local) {
      const EnvFacts facts{input.spec,
                           input.context,
                           plan,
                           layout,
                           node,
                           local,
                           input.key,
                           dir,
                           line.role,
                           line.wrappers,
                           StartsAlone(line, layout, plan),
                           line.env.contains("ACCELERATE_USE_FSDP"),
                           TrainsByDeepspeed(choices, line, plan)};
      RankEnvironment environment = EnvironmentOfRank(job, facts);
      RankAssignment rank;
      rank.rank = per_node ? static_cast<Rank>(node) : share.first_rank + local;
      rank.local_rank = local;
      rank.node = share.inventory->node;
      // Which of the devices that all of them see a rank takes is its own affair.
      const bool open = SharesGpus(share) && input.spec.gpu_binding != GpuBinding::kPerRank;
      rank.gpus = per_node || open ? share.gpus : GpusOfRank(share, local);
      for (int index : rank.gpus) {
        rank.gpu_uuids.push_back(share.inventory->gpus[static_cast<std::size_t>(index)].uuid);
      }
      rank.env = std::move(environment.values);
      late.insert(environment.late.begin(), environment.late.end());
      plan.assignments.push_back(std::move(rank));
    }
    paths.push_back({std::move(dir), std::move(mounts)});
  }
  plan.late.assign(late.begin(), late.end());
  return paths;
}

// A format that a flag or a file fixed, or a launcher's default, is shown and refused by the name
// of that place.
Result<PrecisionChoice> ChoosePrecision(const UserChoices& choices, DeviceClass device,
                                        const RankLayout& layout) {
  auto chosen = ChoosePrecision(choices.job, device, layout);
  if (choices.precision_source.empty()) return chosen;
  if (chosen) {
    if (chosen->reason.starts_with(kAskedFor))
      chosen->reason.replace(0, kAskedFor.size(), choices.precision_source);
    return chosen;
  }
  Error error = chosen.error();
  error.message += " (" + choices.precision_source + " asks for it)";
  error.hint = "change it in " + choices.precision_source + "; or " + error.hint;
  return Unexpected(std::move(error));
}

// "llama", or the kind of network; empty where nothing is known of the model.
std::string ArchitectureOf(const std::optional<ModelInput>& model) {
  if (!model) return "";
  const ModelCard& card = model->card;
  return card.family.empty() ? std::string(ToString(card.architecture)) : card.family;
}

// Strategy, batch, memory and time by prediction; what-if rows when they are asked for.
Result<void> Predict(const PlanInput& input, const UserChoices& choices, const ModelInput& model,
                     const RankLayout& layout, const MemoryLessons& lessons, Plan& plan) {
  ForecastInput ask{choices, model, layout, plan.precision, std::nullopt, lessons, input.network};
  LAUNCH_ASSIGN_OR_RETURN(const Forecast forecast, MakeForecast(ask));
  ApplyForecast(forecast, ask, plan);
  plan.steps = StepsOf(choices.job, plan.batch);
  ask.steps = plan.steps;
  ApplyDuration(forecast, ask, plan);
  if (!input.questions.explain) return {};
  if (input.questions.what_if.empty()) {
    plan.changes = UsualChanges(forecast, ask, input.offers);
    return {};
  }
  for (const std::string& text : input.questions.what_if) {
    LAUNCH_ASSIGN_OR_RETURN(Change row, AskedChange(text, forecast, ask));
    plan.changes.push_back(std::move(row));
  }
  return {};
}

// Just the nodes placed on, so that the device is that of the placement whatever else has changed.
std::vector<PlannerOffer> Chosen(const PlanInput& input) {
  std::vector<PlannerOffer> chosen;
  for (std::size_t i = 0; i < input.placement.offers.size(); ++i) {
    PlannerOffer offer = input.offers[input.placement.offers[i]];
    offer.schedulable = true;
    chosen.push_back(std::move(offer));
  }
  return chosen;
}

Result<void> CheckFields(const JobSpec& spec) {
  if (spec.workdir.empty() || spec.workdir[0] != '/') {
    return Fail(ErrorCode::kInvalidArgument, "workdir \"" + spec.workdir + "\" is not absolute",
                "write a path from /");
  }
  if (spec.nodes.automatic) {
    return Fail(ErrorCode::kUnimplemented, "nodes: auto is not in this version",
                "write a number, or a range like 2..4");
  }
  if (!spec.mounts.empty() && spec.image.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "mounts: is set and image: is not",
                "mounts are for a container: write image:, or leave them out");
  }
  if (!spec.conda.empty() && spec.conda[0] != '/') {
    return Fail(ErrorCode::kInvalidArgument,
                "conda: " + spec.conda + " is a name, and where it lies is not known here",
                "write the path of the environment");
  }
  if (spec.procs_per_node && (*spec.procs_per_node < 1 || *spec.procs_per_node > 4096)) {
    return Fail(ErrorCode::kInvalidArgument,
                "procs_per_node is " + std::to_string(*spec.procs_per_node),
                "write a number from 1 to 4096");
  }
  if (spec.nodes.min < 1 || spec.nodes.max < spec.nodes.min) {
    return Fail(ErrorCode::kInvalidArgument, "nodes: is not a number of at least 1",
                "write nodes: 2, or a range like 2..4");
  }
  const std::set<int> ids(spec.gpu_ids.begin(), spec.gpu_ids.end());
  if (ids.size() != spec.gpu_ids.size() || (!ids.empty() && *ids.begin() < 0)) {
    return Fail(ErrorCode::kInvalidArgument, "gpu_ids names a device twice or below 0",
                "write each index of `launch nodes` once");
  }
  return {};
}

}  // namespace

Result<void> CheckSignalLead(const JobSpec& spec) {
  const Millis lead = spec.checkpoint.signal ? spec.checkpoint.signal_before : Millis{0};
  if (spec.time_limit && lead >= *spec.time_limit && lead > Millis{0}) {
    return Fail(ErrorCode::kInvalidArgument,
                "checkpoint.signal: " + FormatDuration(lead) + " before the end of a run of " +
                    FormatDuration(*spec.time_limit) + " is before its start",
                "write a longer time:, or a signal that comes later");
  }
  return {};
}

Result<LaunchLine> ReadLineOf(const JobSpec& spec,
                              const std::map<std::string, std::string>& files) {
  return ReadLaunchLine(spec.run, LineOptions(spec, files));
}

Result<LineDemand> DemandIn(const Result<LaunchLine>& line) {
  if (!line) return Unexpected(line.error());
  return LineDemand(*line);
}

Result<void> CheckSpec(const JobSpec& spec, const SubmitContext& context,
                       const Result<LaunchLine>& reading) {
  LAUNCH_RETURN_IF_ERROR(CheckFields(spec));
  LAUNCH_RETURN_IF_ERROR(NodeFilter::Make(spec));
  LAUNCH_RETURN_IF_ERROR(CheckBatch(spec.batch));
  LAUNCH_RETURN_IF_ERROR(CheckStrategy(spec));
  LAUNCH_RETURN_IF_ERROR(CheckEnv(spec, context));
  if (!reading) return Unexpected(reading.error());
  const LaunchLine& line = *reading;
  LAUNCH_RETURN_IF_ERROR(CheckLocalRankArg(spec, line));
  LAUNCH_ASSIGN_OR_RETURN(const NodeFilter filter, NodeFilter::Make(spec));
  LAUNCH_RETURN_IF_ERROR(DemandOf(spec, line, filter, {}));
  LAUNCH_RETURN_IF_ERROR(ReadUserChoices(spec, context, line));
  return {};
}

Result<PlannedRun> MakePlan(const PlanInput& input) {
  const JobSpec& spec = input.spec;
  LAUNCH_RETURN_IF_ERROR(CheckFields(spec));
  if (!input.line) return Unexpected(input.line.error());
  LaunchLine line = *input.line;  // the start is added to it
  LAUNCH_RETURN_IF_ERROR(CheckLocalRankArg(spec, line));
  LAUNCH_ASSIGN_OR_RETURN(const NodeFilter filter, NodeFilter::Make(spec));
  LAUNCH_ASSIGN_OR_RETURN(const Demand demand, DemandOf(spec, line, filter, Chosen(input)));
  LAUNCH_CHECK(!input.placement.offers.empty(), "a placement without nodes");
  const RankLayout layout = LayOutRanks(spec, demand, input.offers, input.placement);

  PlannedRun run;
  Plan& plan = run.plan;
  plan.device = demand.device;
  plan.device_name = DeviceName(layout);
  plan.device_reason = DeviceReason(demand, plan.device_name);
  plan.world_size = layout.world_size;
  plan.processes = {layout.world_size, layout.nodes[0].processes, layout.cpus_per_process};
  // torchrun stands in for accelerate inside a text on a CPU: its ranks get what that would set.
  const bool stands_in = demand.device == DeviceClass::kCpu && layout.world_size > 1;
  if (stands_in && line.accelerate && line.start == StartKind::kPerNode)
    line.env = AccelerateEnvironment(*line.accelerate);
  LAUNCH_ASSIGN_OR_RETURN(const UserChoices choices, ReadUserChoices(spec, input.context, line));
  AppendDebugFlags(choices, line);
  LAUNCH_ASSIGN_OR_RETURN(const StrategyChoice strategy,
                          ChooseStrategy(choices.job, demand.device, layout.world_size));
  plan.strategy = strategy.strategy;
  plan.offload = strategy.offload;
  plan.why = strategy.why;
  LAUNCH_RETURN_IF_ERROR(CheckCpuTrainer(choices, line, plan));
  LAUNCH_ASSIGN_OR_RETURN(const PrecisionChoice precision,
                          ChoosePrecision(choices, demand.device, layout));
  plan.precision = precision.precision;
  plan.precision_reason = precision.reason;
  plan.memory = Memory(layout);
  LAUNCH_ASSIGN_OR_RETURN(const std::optional<ModelInput> model, ReadModel(choices, input.context));
  plan.trainer = choices.trainer;
  const std::vector<MeasuredRun>& history = input.questions.history;
  plan.run = NameOfRun(spec, input.context, plan, layout, ArchitectureOf(model));
  const MemoryLessons lessons = LessonsOf(history, plan.run);
  const bool predictable = model && demand.device == DeviceClass::kCuda;
  BatchChoice batch;
  if (predictable) {
    const BatchSpec& fixed = choices.job.batch;
    if (fixed.global && fixed.micro) {
      LAUNCH_RETURN_IF_ERROR(SplitBatch(fixed, layout.world_size, choices.batch_names));
    }
    LAUNCH_RETURN_IF_ERROR(Predict(input, choices, *model, layout, lessons, plan));
  } else {
    LAUNCH_ASSIGN_OR_RETURN(batch,
                            SplitBatch(choices.job.batch, layout.world_size, choices.batch_names));
    plan.batch = batch.split;
    plan.steps = StepsOf(choices.job, plan.batch);
    if (!input.questions.what_if.empty()) {
      LAUNCH_ASSIGN_OR_RETURN(plan.changes,
                              UnansweredChanges(input.questions.what_if, demand.device));
    } else if (input.questions.explain) {
      plan.changes = EachClassAlone(layout, plan, choices.job.precision == Precision::kAuto);
    }
  }
  const LoaderChoice loader = ChooseLoader(
      {.device = demand.device,
       .asked = choices.flags.workers ? std::optional(choices.flags.workers->value) : std::nullopt,
       .shm_bytes = spec.image.empty() ? std::nullopt : spec.shm_bytes,
       .host_memory_was_short = input.host_memory_was_short},
      layout);
  plan.loader = loader.loader;
  if (spec.debug) plan.loader.num_workers = std::min(plan.loader.num_workers, kDebugWorkers);
  plan.workdir = WorkdirText(spec, input.context);
  AppendHfFlags(choices, line, plan);
  if (spec.debug) WrapForProbe(line);
  DescribeStart(line, layout, InterpreterOf(spec, input.context), plan);
  const auto after_line = plan.read.begin() + static_cast<std::ptrdiff_t>(line.read.size());
  plan.read.insert(after_line, choices.read.begin(), choices.read.end());
  TrainerConfigs configs = MakeTrainerConfigs(choices, plan, model ? model->card.hidden : 0);
  plan.files = std::move(configs.files);
  LAUNCH_ASSIGN_OR_RETURN(std::vector<NodePaths> paths,
                          AssignRanks(input, choices, line, layout, plan));
  LAUNCH_RETURN_IF_ERROR(CheckVariablesUsed(line, plan));
  plan.files.push_back(PlanFile(plan, spec));
  if (spec.debug) plan.files.push_back(ProbeHook(/*ends=*/IsProbe(spec)));

  Append(plan.warnings, line.warnings);
  Append(plan.warnings, demand.warnings);
  Append(plan.warnings, choices.findings);
  Append(plan.warnings, configs.findings);
  Append(plan.warnings, precision.warnings);
  Append(plan.warnings, loader.findings);
  Append(plan.warnings, batch.warnings);
  Append(plan.warnings, HardCoded(choices.job, line, input.context.files, plan));
  if (auto finding = VariablesUnset(spec, plan)) plan.warnings.push_back(std::move(*finding));
  if (auto finding = OnlyNccl(line, input.context.files, plan.device))
    plan.warnings.push_back(std::move(*finding));
  if (auto finding = UnseenCpuTrainer(choices, line, plan))
    plan.warnings.push_back(std::move(*finding));
  Append(plan.warnings, Advice(input, line, demand, layout, plan));
  Append(plan.warnings, MixedGpus(layout, plan));
  Append(plan.warnings, InterfacesMissing(spec, input.context.files, layout, plan));
  Append(plan.warnings, SecretsInClear(spec));
  NameTheWay(plan);
  ApplyLessons(lessons, history, plan);
  ApplyHistory(history, spec, layout, plan);
  std::sort(plan.warnings.begin(), plan.warnings.end(), [](const Finding& a, const Finding& b) {
    return std::tie(b.severity, a.code, a.says) < std::tie(a.severity, b.code, b.says);
  });
  run.allocations = MakeAllocations({input, line, layout, plan, std::move(paths)});
  return run;
}

}  // namespace launch
