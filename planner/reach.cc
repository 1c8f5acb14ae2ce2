#include "planner/reach.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include "common/text.h"
#include "common/units.h"
#include "planner/line/device_flags.h"
#include "planner/line/script_flags.h"
#include "planner/line/script_habits.h"
#include "planner/line/unset_variables.h"
#include "planner/model/strategy.h"
#include "planner/planner.h"
#include "planner/start/environment.h"
#include "planner/trainer/hf_flags.h"
#include "planner/trainer/trainer_configs.h"
#include "planner/trainer/user_choices.h"

namespace launch {
namespace {

enum class Topic { kDevices, kMicro, kAccumulate, kPrecision, kStrategy };

struct FlagTopic {
  std::string_view flag;  // without dashes, '_' for '-'
  Topic topic;
};

constexpr std::array<FlagTopic, 24> kFlags = {{
    {"gpus", Topic::kDevices},
    {"gpu", Topic::kDevices},
    {"gpu_id", Topic::kDevices},
    {"gpu_ids", Topic::kDevices},
    {"device_ids", Topic::kDevices},
    {"devices", Topic::kDevices},
    {"cuda_device", Topic::kDevices},
    {"per_device_train_batch_size", Topic::kMicro},
    {"train_micro_batch_size_per_gpu", Topic::kMicro},
    {"micro_batch_size", Topic::kMicro},
    {"micro_batch", Topic::kMicro},
    {"batch_size", Topic::kMicro},
    {"train_batch_size", Topic::kMicro},
    {"bs", Topic::kMicro},
    {"gradient_accumulation_steps", Topic::kAccumulate},
    {"grad_accum", Topic::kAccumulate},
    {"accumulate_grad_batches", Topic::kAccumulate},
    {"accumulation_steps", Topic::kAccumulate},
    {"fp16", Topic::kPrecision},
    {"bf16", Topic::kPrecision},
    {"precision", Topic::kPrecision},
    {"mixed_precision", Topic::kPrecision},
    {"deepspeed", Topic::kStrategy},
    {"fsdp", Topic::kStrategy},
}};

struct FlagUse {
  Topic topic;
  std::string flag;   // as written
  std::string value;  // empty when the next word is another flag
  bool late = false;  // "$LAUNCH_MICRO_BATCH" follows the plan
};

std::vector<FlagUse> FlagsOf(const std::vector<ShellWord>& words) {
  std::vector<FlagUse> uses;
  for (const ScriptFlag& flag : ReadScriptFlags(words)) {
    const auto rule = std::find_if(kFlags.begin(), kFlags.end(),
                                   [&](const FlagTopic& t) { return t.flag == flag.name; });
    if (rule == kFlags.end()) continue;
    uses.push_back({rule->topic, flag.flag, flag.value.value_or(""), flag.late});
  }
  return uses;
}

Finding Unreachable(std::string says, std::string remedy) {
  return MakeFinding("plan_cannot_reach_script", Severity::kWarning,
                     "this plan cannot reach your script: " + std::move(says), std::move(remedy));
}

std::string Shown(const FlagUse& use) {
  return use.value.empty() ? use.flag : use.flag + " " + use.value;
}

// GPUs of the job on a node that has ranks of it.
int GpusOfNode(const Plan& plan) {
  std::set<std::string> gpus;
  for (const RankAssignment& one : plan.assignments) {
    if (one.node != plan.assignments[0].node) continue;
    for (const auto& uuid : one.gpu_uuids) gpus.insert(uuid.value);
  }
  return static_cast<int>(gpus.size());
}

// Numbers or a number of devices that are just those of the job on each node, for a program that
// has all of them: beside other ranks each would take those of all.
bool AreThoseOfJob(const FlagUse& use, const Plan& plan) {
  if (plan.processes.per_node > 1 && plan.start == StartKind::kDirect) return false;
  const int gpus = GpusOfNode(plan);
  const auto list = DevicesInList(use.value);
  if (gpus == 0 || list != gpus) return use.flag == "--gpus" && ParseInt(use.value) == gpus;
  // In their order, as everybody writes them.
  std::string places = "0";
  for (int place = 1; place < gpus; ++place) places += "," + std::to_string(place);
  const std::size_t first = std::min(use.value.find_first_of("0123456789"), use.value.size());
  return use.value.compare(first, places.size(), places) == 0;
}

// Flags whose meaning the program alone knows name more devices than the job has.
std::optional<Finding> MoreDevicesNamed(const LaunchLine& line, const Plan& plan) {
  const int gpus = GpusOfNode(plan);
  const bool more = line.named_devices && line.named_devices->count > gpus && gpus > 0;
  if (!more) return std::nullopt;
  const std::string count = std::to_string(line.named_devices->count);
  return Unreachable("run passes " + line.named_devices->flag + ", which may ask for " + count +
                         " GPUs of a node, and the job has " + std::to_string(gpus),
                     "write gpus: " + count +
                         " if the program uses so many, and procs_per_node: 1 "
                         "if one process drives or starts all of them");
}

std::optional<Finding> JudgeUse(const FlagUse& use, const JobSpec& spec, const Plan& plan) {
  if (use.late) return std::nullopt;
  const auto number = ParseInt(use.value);
  switch (use.topic) {
    case Topic::kDevices:
      if (use.value.empty() || (use.flag == "--devices" && number)) return std::nullopt;
      if (AreThoseOfJob(use, plan)) return std::nullopt;
      return Unreachable("run passes " + Shown(use) +
                             " itself, and a script that sets devices escapes the ones it gets",
                         "leave the flag out; each rank uses device LOCAL_RANK, and particular "
                         "devices are asked for with gpu_ids");
    case Topic::kMicro:
      if (!plan.batch.micro || number == plan.batch.micro) return std::nullopt;
      return Unreachable("run passes " + Shown(use) + ", the plan has micro batch " +
                             std::to_string(*plan.batch.micro),
                         "write " + use.flag + " $LAUNCH_MICRO_BATCH");
    case Topic::kAccumulate:
      if (!plan.batch.accumulate || number == plan.batch.accumulate) return std::nullopt;
      return Unreachable("run passes " + Shown(use) + ", the plan accumulates " +
                             std::to_string(*plan.batch.accumulate) + " times",
                         "write " + use.flag + " $LAUNCH_GRAD_ACCUM");
    case Topic::kPrecision: {
      const std::string planned(ToString(plan.precision));
      const std::string written = use.value.empty() || use.value == "true" || use.value == "True"
                                      ? use.flag.substr(2)
                                      : use.value;
      if (written.find(planned) != std::string::npos || written == "False" || written == "false") {
        return std::nullopt;
      }
      const bool known = written == "fp16" || written == "bf16" || written == "fp32" ||
                         written == "no" || written == "16" || written == "32" ||
                         written.find("mixed") != std::string::npos;
      if (!known) return std::nullopt;
      return Unreachable("run passes " + Shown(use) + ", the plan has precision " + planned,
                         "write precision: in the job to match, or pass $LAUNCH_PRECISION");
    }
    case Topic::kStrategy:
      if (spec.strategy != Strategy::kAuto || plan.strategy != Strategy::kDdp) return std::nullopt;
      return Unreachable("run passes " + Shown(use) +
                             ", so the script shards by itself; the plan "
                             "assumes plain DDP",
                         "name it: strategy: zero2, fsdp ...");
  }
  return std::nullopt;
}

bool Uses(const LaunchLine& line, std::string_view name) {
  return std::any_of(line.uses.begin(), line.uses.end(),
                     [&](const ShellUse& use) { return use.name == name; });
}

// What gets to the program: by its command, or by its own look at the environment.
class Contract {
 public:
  Contract(const LaunchLine& line, const std::map<std::string, std::string>& files)
      : line_(line), files_(files) {}
  bool Has(std::string_view name) const {
    return Uses(line_, name) || ReadsVariable(line_, files_, name);
  }

 private:
  const LaunchLine& line_;
  const std::map<std::string, std::string>& files_;
};

bool StrategyByVariable(const Contract& contract) {
  return contract.Has("LAUNCH_STRATEGY") || contract.Has("LAUNCH_ZERO_STAGE") ||
         contract.Has("LAUNCH_DS_CONFIG") || contract.Has("LAUNCH_ACCELERATE_CONFIG");
}

BatchReach ReachOfBatch(const LaunchLine& line, const Contract& contract) {
  const std::vector<FlagUse> flags = FlagsOf(line.arguments);
  const bool fixed = std::any_of(flags.begin(), flags.end(), [](const FlagUse& use) {
    return !use.late && ParseInt(use.value) &&
           (use.topic == Topic::kMicro || use.topic == Topic::kAccumulate);
  });
  if (fixed) return BatchReach::kFixed;
  // How often it accumulates follows from the global batch, too.
  const bool both = contract.Has("LAUNCH_MICRO_BATCH") &&
                    (contract.Has("LAUNCH_GRAD_ACCUM") || contract.Has("LAUNCH_GLOBAL_BATCH"));
  return both || contract.Has("LAUNCH_DS_CONFIG") ? BatchReach::kFollows : BatchReach::kUnknown;
}

// What the flags and files behind the line say by themselves, the job file's numbers left out.
// Absent: a file that cannot be read; the plan that failed was made without it, too.
std::optional<UserChoices> SaidElsewhere(JobSpec spec, const SubmitContext& context,
                                         const LaunchLine& line) {
  spec.batch = {};
  spec.strategy = Strategy::kAuto;
  spec.offload = Offload::kAuto;
  spec.precision = Precision::kAuto;
  auto choices = ReadWrittenChoices(spec, context, line);
  if (!choices) return std::nullopt;
  return std::move(*choices);
}

// What a file or a flag fixes is no longer ours to change.
void Restrict(const UserChoices& said, PlanReach& reach) {
  if (said.job.batch.micro || said.job.batch.accumulate) {
    reach.batch = BatchReach::kFixed;
    if (said.deepspeed && (said.deepspeed->micro || said.deepspeed->accumulate)) {
      reach.batch_place = said.deepspeed->path;
    }
  }
  if (said.job.strategy != Strategy::kAuto || said.deepspeed) reach.strategy = false;
  if (said.flags.checkpointing) reach.checkpointing = false;
  if (said.job.precision != Precision::kAuto) reach.precision = false;
  if (said.flags.workers) reach.workers = false;
}

}  // namespace

PlanReach ReachOf(const JobSpec& spec, const SubmitContext& context, const Plan& plan) {
  const auto line = ReadLineOf(spec, context.files);
  PlanReach reach;
  if (!line) {
    reach.batch = BatchReach::kFixed;
    return reach;
  }
  const auto said = SaidElsewhere(spec, context, *line);
  const bool flags = said && TakesHfFlags(*said, *line);
  const Contract contract(*line, context.files);
  reach.batch = ReachOfBatch(*line, contract);
  if (reach.batch == BatchReach::kUnknown && said && TakesHfBatch(*said, *line)) {
    reach.batch = BatchReach::kFollows;
  }
  reach.strategy = StrategyByVariable(contract) || ByAccelerate(plan.trainer);
  reach.checkpointing =
      flags || contract.Has("LAUNCH_ACT_CKPT") || contract.Has("LAUNCH_PLAN_FILE");
  reach.precision = flags || ByAccelerate(plan.trainer) || contract.Has("LAUNCH_PRECISION") ||
                    contract.Has("LAUNCH_DS_CONFIG") || contract.Has("LAUNCH_PLAN_FILE");
  reach.workers = contract.Has("LAUNCH_NUM_WORKERS") || contract.Has("LAUNCH_PIN_MEMORY") ||
                  contract.Has("LAUNCH_PLAN_FILE");
  if (said) Restrict(*said, reach);
  return reach;
}

namespace {

// The planner's own choice; what the job file says of it describes the script.
std::optional<Finding> CheckpointingOutOfReach(const JobSpec& spec, const LaunchLine& line,
                                               const Plan& plan) {
  if (plan.checkpointing.empty() || plan.checkpointing == "none") return std::nullopt;
  const auto said = spec.model.fields.find("activation_checkpointing");
  if (said != spec.model.fields.end() && !said->second.empty()) return std::nullopt;
  const bool by_flag = line.shell.find("gradient_checkpointing") != std::string::npos;
  const bool told = by_flag || Uses(line, "LAUNCH_ACT_CKPT") || Uses(line, "LAUNCH_PLAN_FILE") ||
                    Uses(line, "LAUNCH_ACCELERATE_CONFIG") ||
                    (IsFsdp(plan.strategy) && ByAccelerate(plan.trainer));
  if (told) return std::nullopt;
  return Unreachable("it recomputes activations (" + plan.checkpointing +
                         "), and only LAUNCH_ACT_CKPT tells the script",
                     "pass it $LAUNCH_ACT_CKPT, or --gradient_checkpointing to the Hugging Face "
                     "trainer; model.activation_checkpointing: full says that the script does it "
                     "anyway, none plans without");
}

// deepspeed.initialize with a dict of the script's own: its ZeRO stage rules, whatever the plan
// has.
std::optional<Finding> OwnDeepspeed(const JobSpec& spec, const LaunchLine& line,
                                    const std::map<std::string, std::string>& files,
                                    const Plan& plan) {
  const bool plain = plan.strategy == Strategy::kDdp || plan.strategy == Strategy::kSingle;
  if (!plain || spec.strategy != Strategy::kAuto) return std::nullopt;
  const std::optional<int> stage = OwnZeroStage(line, files);
  if (!stage || stage == 0) return std::nullopt;
  const std::string number = *stage < 0 ? "N" : std::to_string(*stage);
  return Unreachable(line.script + " configures DeepSpeed by itself" +
                         (*stage < 0 ? "" : " (ZeRO stage " + number + ")") +
                         ", which rules; the plan assumes " +
                         (plan.strategy == Strategy::kSingle ? "one process" : "plain DDP"),
                     "write strategy: zero" + number +
                         " to plan with it, or let the script read LAUNCH_DS_CONFIG");
}

}  // namespace

std::vector<Finding> HardCoded(const JobSpec& spec, const LaunchLine& line,
                               const std::map<std::string, std::string>& files, const Plan& plan) {
  std::vector<Finding> findings;
  const std::vector<FlagUse> flags = FlagsOf(line.arguments);
  auto more = MoreDevicesNamed(line, plan);
  const bool said = more.has_value();
  if (said) findings.push_back(std::move(*more));
  for (const FlagUse& use : flags) {
    if (said && use.topic == Topic::kDevices) continue;
    if (auto finding = JudgeUse(use, spec, plan)) findings.push_back(std::move(*finding));
  }
  const bool by_flag = std::any_of(
      flags.begin(), flags.end(), [](const FlagUse& use) { return use.topic == Topic::kStrategy; });
  // DeepSpeed's own argument, whose file the plan follows.
  const bool by_file =
      std::any_of(line.arguments.begin(), line.arguments.end(), [](const ShellWord& word) {
        return word.value.starts_with("--deepspeed_config") ||
               word.value.starts_with("--ds_config");
      });
  const bool told =
      StrategyByVariable(Contract(line, files)) || by_flag || by_file || ByAccelerate(plan.trainer);
  if (auto own = told ? std::nullopt : OwnDeepspeed(spec, line, files, plan))
    findings.push_back(std::move(*own));
  if (IsSharded(plan.strategy) && !told) {
    findings.push_back(Unreachable(
        "strategy " + std::string(ToString(plan.strategy)) +
            " is only passed on as LAUNCH_STRATEGY; the script itself must shard",
        "pass it $LAUNCH_STRATEGY or $LAUNCH_DS_CONFIG, or write trainer: hf or accelerate if it "
        "uses one of them"));
  }
  if (auto finding = CheckpointingOutOfReach(spec, line, plan)) {
    findings.push_back(std::move(*finding));
  }
  return findings;
}

Result<void> CheckVariablesUsed(const LaunchLine& line, const Plan& plan) {
  if (plan.assignments.empty()) return {};
  const auto& env = plan.assignments[0].env;
  for (const ShellUse& use : line.uses) {
    if (use.guarded || use.name.rfind("LAUNCH_", 0) != 0 || env.count(use.name) > 0) continue;
    if (line.shell.find(use.name + "=") != std::string::npos) continue;  // set by the text itself
    std::vector<std::string> names;
    std::string when;
    for (const EnvRule& rule : EnvironmentTable()) {
      names.emplace_back(rule.name);
      if (rule.name == use.name) when = rule.when;
    }
    std::string hint;
    if (!when.empty()) {
      hint = "it is set when " + when + "; or write ${" + use.name + ":-VALUE}";
      if (use.name.find("BATCH") != std::string::npos || use.name == "LAUNCH_GRAD_ACCUM") {
        hint = "write batch: {global: N, micro: M} in the job, or ${" + use.name + ":-VALUE}";
      }
    } else {
      const std::string nearest = NearestName(use.name, names);
      hint = nearest.empty() ? "`launch plan` lists the variables a rank gets"
                             : "did you mean $" + nearest + "?";
    }
    return Fail(ErrorCode::kInvalidArgument,
                "run uses $" + use.name + ", which this plan does not set", std::move(hint));
  }
  return {};
}

std::optional<Finding> VariablesUnset(const JobSpec& spec, const Plan& plan) {
  if (plan.assignments.empty() || !spec.image.empty()) return std::nullopt;
  const auto& env = plan.assignments[0].env;
  const auto has = [&](const std::string& name) {
    const auto& table = EnvironmentTable();
    return env.contains(name) || IsOfTheNode(name) || IsContractVariable(name) ||
           std::ranges::any_of(table, [&](const EnvRule& rule) { return rule.name == name; }) ||
           std::ranges::any_of(spec.env, [&](const EnvEntry& entry) { return entry.name == name; });
  };
  std::vector<std::string> names;
  std::string first;
  bool stops = true;
  for (const UnsetUse& use : NeverSet(spec.run)) {
    if (has(use.name)) continue;
    if (first.empty()) first = use.name;
    names.push_back("$" + use.name);
    stops = stops && use.stops;
  }
  if (names.empty()) return std::nullopt;
  const bool one = names.size() == 1;
  return MakeFinding("variables_unset", Severity::kWarning,
                     "run uses " + Joined(names, ", ") + ", which the job does not set: " +
                         (stops ? "bash stops there"
                          : one ? "it is empty"
                                : "they are empty"),
                     "write env: {" + first + ": VALUE} in the job, or -e " + first +
                         " to pass on the value that it has where you submit");
}

}  // namespace launch
