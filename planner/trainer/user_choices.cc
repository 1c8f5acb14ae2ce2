#include "planner/trainer/user_choices.h"

#include <sstream>
#include <utility>

#include "common/text.h"
#include "common/units.h"
#include "planner/trainer/debug_plan.h"
#include "planner/trainer/hf_flags.h"
#include "planner/trainer/trainer_configs.h"

namespace launch {
namespace {

std::string Shown(std::int64_t value) { return std::to_string(value); }
std::string Shown(Precision value) { return std::string(ToString(value)); }
std::string Shown(Strategy value) { return std::string(ToString(value)); }
std::string Shown(Offload value) { return std::string(ToString(value)); }
std::string Shown(double value) { return FormatNumber(value, "%.6g"); }

// One thing that several places may fix: the first that does, and where it stands.
template <class T>
class Fixed {
 public:
  explicit Fixed(std::string what) : what_(std::move(what)) {}

  Result<void> Say(const std::optional<T>& value, const std::string& place) {
    if (!value) return {};
    if (!value_) {
      value_ = value;
      place_ = place;
      return {};
    }
    if (*value_ == *value) return {};
    return Fail(ErrorCode::kInvalidArgument,
                what_ + " is " + Shown(*value_) + " in " + place_ + " and " + Shown(*value) +
                    " in " + place,
                "write it in one of the two, or make them equal");
  }

  const std::optional<T>& value() const { return value_; }
  const std::string& place() const { return place_; }

 private:
  std::string what_;
  std::optional<T> value_;
  std::string place_;
};

constexpr const char* kJob = "the job file";

template <class T>
std::optional<T> Unless(T value, T open) {
  return value == open ? std::nullopt : std::optional<T>(value);
}

template <class T>
Result<void> SayFlag(Fixed<T>& fixed, const std::optional<Flag<T>>& flag) {
  if (!flag) return {};
  return fixed.Say(flag->value, flag->written);
}

std::optional<Strategy> StrategyOf(const DeepspeedConfig& config) {
  if (!config.stage) return std::nullopt;  // "auto"
  switch (*config.stage) {
    case 1:
      return Strategy::kZero1;
    case 2:
      return Strategy::kZero2;
    case 3:
      return Strategy::kZero3;
    default:
      return Strategy::kDdp;  // stage 0: one copy a rank
  }
}

// transformers/training_args.py: `--fsdp "full_shard auto_wrap offload"`, or a truth alone.
Result<void> SayFsdp(const std::optional<Flag<std::string>>& flag, Fixed<Strategy>& strategy,
                     Fixed<Offload>& offload) {
  if (!flag) return {};
  std::optional<Strategy> sharding;
  bool host = false;
  std::istringstream words(Lower(flag->value));
  for (std::string word; words >> word;) {
    if (word == "full_shard" || word == "true") sharding = Strategy::kFsdp;
    if (word == "shard_grad_op") sharding = Strategy::kFsdpGradOp;
    if (word == "hybrid_shard" || word == "hybrid_shard_zero2") sharding = Strategy::kFsdpHybrid;
    if (word == "no_shard") sharding = Strategy::kDdp;
    if (word == "offload") host = true;
  }
  if (!sharding) return {};
  LAUNCH_RETURN_IF_ERROR(strategy.Say(sharding, flag->written));
  if (sharding == Strategy::kDdp) return {};
  return offload.Say(host ? Offload::kAll : Offload::kNone, flag->written);
}

Result<std::optional<DeepspeedConfig>> ReadFile(const SubmitContext& context,
                                                const LaunchLine& line, const TrainerFlags& flags,
                                                Trainer trainer) {
  std::optional<DeepspeedConfig> none;
  if (!flags.deepspeed) return none;
  const std::string& name = flags.deepspeed->value;
  const bool inside = line.deepspeed && line.deepspeed->name == name;
  const std::string* text =
      inside ? &line.deepspeed->text : TextsAt(context.files, line.place).Find(name);
  if (text == nullptr) return none;  // on the nodes only
  const ConfigReader reader =
      ByAccelerate(trainer) ? ConfigReader::kJson : ConfigReader::kDeepspeed;
  LAUNCH_ASSIGN_OR_RETURN(DeepspeedConfig config, ReadDeepspeedConfig(*text, name, reader));
  return std::optional(std::move(config));
}

Result<void> CheckAutomatic(const DeepspeedConfig& config, Trainer trainer) {
  if (config.automatic.empty() || ByAccelerate(trainer)) return {};
  const std::string keys = Joined(config.automatic, ", ");
  return Fail(ErrorCode::kInvalidArgument,
              config.path + " says \"auto\" for " + keys +
                  ", which only the Hugging Face trainer and accelerate fill in",
              "write numbers there, or trainer: hf if the script uses that trainer");
}

// Absent: the text of the script is not at hand, or does not say.
std::optional<bool> TakesTrainerFlags(const LaunchLine& line, const SubmitContext& context) {
  const std::string* text =
      line.script.empty() ? nullptr : TextsAt(context.files, line.place).Find(line.script);
  if (text == nullptr) return std::nullopt;
  const auto has = [&](std::string_view what) { return text->find(what) != std::string::npos; };
  if (has("HfArgumentParser") || has("TrlParser") || has("parse_args_into_dataclasses"))
    return true;
  return has("ArgumentParser(") ? std::optional(false) : std::nullopt;
}

Trainer TrainerOf(const JobSpec& spec, const TrainerFlags& flags, const LaunchLine& line) {
  if (spec.trainer != Trainer::kAuto) return spec.trainer;
  if (flags.hugging_face) return Trainer::kHf;
  if (line.launcher == LauncherKind::kAccelerate || line.accelerate) return Trainer::kAccelerate;
  return line.launcher == LauncherKind::kDeepspeed ? Trainer::kDeepspeed : Trainer::kAuto;
}

using FromAccelerate = std::optional<AccelerateChoices>;

Result<void> FixBatch(const JobSpec& spec, const FromAccelerate& accelerate, UserChoices& choices) {
  Fixed<std::int64_t> micro("the micro-batch");
  Fixed<std::int64_t> accumulate("gradient accumulation");
  Fixed<std::int64_t> global("the global batch");
  LAUNCH_RETURN_IF_ERROR(micro.Say(spec.batch.micro, kJob));
  LAUNCH_RETURN_IF_ERROR(accumulate.Say(spec.batch.accumulate, kJob));
  LAUNCH_RETURN_IF_ERROR(global.Say(spec.batch.global, kJob));
  LAUNCH_RETURN_IF_ERROR(SayFlag(micro, choices.flags.micro));
  LAUNCH_RETURN_IF_ERROR(SayFlag(accumulate, choices.flags.accumulate));
  if (choices.deepspeed) {
    const DeepspeedConfig& file = *choices.deepspeed;
    LAUNCH_RETURN_IF_ERROR(micro.Say(file.micro, file.path));
    LAUNCH_RETURN_IF_ERROR(accumulate.Say(file.accumulate, file.path));
    LAUNCH_RETURN_IF_ERROR(global.Say(file.train_batch, file.path));
    if (file.train_batch && !spec.batch.global) {
      choices.batch_names = {"train_batch_size in " + file.path, "the micro-batch",
                             "the accumulation"};
    }
  }
  if (accelerate) {
    LAUNCH_RETURN_IF_ERROR(accumulate.Say(accelerate->accumulate, "the settings of accelerate"));
  }
  choices.job.batch = {global.value(), micro.value(), accumulate.value()};
  return {};
}

Result<void> FixStrategy(const JobSpec& spec, const FromAccelerate& accelerate,
                         UserChoices& choices) {
  Fixed<Strategy> strategy("the strategy");
  Fixed<Offload> offload("offload");
  LAUNCH_RETURN_IF_ERROR(strategy.Say(Unless(spec.strategy, Strategy::kAuto), kJob));
  LAUNCH_RETURN_IF_ERROR(offload.Say(Unless(spec.offload, Offload::kAuto), kJob));
  LAUNCH_RETURN_IF_ERROR(SayFsdp(choices.flags.fsdp, strategy, offload));
  if (choices.deepspeed) {
    const DeepspeedConfig& file = *choices.deepspeed;
    const auto stage = StrategyOf(file);
    LAUNCH_RETURN_IF_ERROR(strategy.Say(stage, file.path));
    if (stage) LAUNCH_RETURN_IF_ERROR(offload.Say(file.offload, file.path));
    choices.weights_alone = file.weights_alone;
  }
  if (accelerate) {
    LAUNCH_RETURN_IF_ERROR(strategy.Say(accelerate->strategy, accelerate->strategy_place));
    LAUNCH_RETURN_IF_ERROR(offload.Say(accelerate->offload, accelerate->strategy_place));
    choices.weights_alone = choices.weights_alone || accelerate->weights_alone;
  }
  choices.job.strategy = strategy.value().value_or(Strategy::kAuto);
  choices.job.offload = offload.value().value_or(Offload::kAuto);
  return {};
}

Result<void> FixPrecision(const JobSpec& spec, const FromAccelerate& accelerate,
                          UserChoices& choices) {
  Fixed<Precision> precision("the precision");
  LAUNCH_RETURN_IF_ERROR(precision.Say(Unless(spec.precision, Precision::kAuto), kJob));
  LAUNCH_RETURN_IF_ERROR(SayFlag(precision, choices.flags.precision));
  if (choices.deepspeed) {
    LAUNCH_RETURN_IF_ERROR(precision.Say(choices.deepspeed->precision, choices.deepspeed->path));
  }
  // "no" only means that accelerate adds nothing of its own.
  const bool adds = accelerate && (accelerate->precision != Precision::kFp32 || !precision.value());
  if (adds) {
    LAUNCH_RETURN_IF_ERROR(precision.Say(accelerate->precision, accelerate->precision_place));
  }
  // The engine itself computes in the weights' type: fp32 where its file has neither block.
  if (choices.deepspeed && choices.trainer == Trainer::kDeepspeed && !precision.value()) {
    LAUNCH_RETURN_IF_ERROR(precision.Say(Precision::kFp32, choices.deepspeed->path));
  }
  choices.job.precision = precision.value().value_or(Precision::kAuto);
  if (precision.place() != kJob) choices.precision_source = precision.place();
  return {};
}

constexpr double kMostSamples = 1e15;  // seen in a run: more is a slip of the pen

Result<void> FixSteps(const JobSpec& spec, UserChoices& choices) {
  if (choices.job.dataset) {
    DatasetSpec& dataset = *choices.job.dataset;
    Fixed<double> epochs("the number of epochs");
    LAUNCH_RETURN_IF_ERROR(epochs.Say(Unless(dataset.epochs, DatasetSpec{}.epochs), kJob));
    LAUNCH_RETURN_IF_ERROR(SayFlag(epochs, choices.flags.epochs));
    dataset.epochs = epochs.value().value_or(dataset.epochs);
    if (static_cast<double>(dataset.samples) * dataset.epochs > kMostSamples) {
      return Fail(ErrorCode::kInvalidArgument,
                  "dataset: " + std::to_string(dataset.samples) + " samples x " +
                      Shown(dataset.epochs) + " epochs are more than 1e15",
                  "check both numbers");
    }
  }
  Fixed<std::int64_t> steps("the number of steps");
  LAUNCH_RETURN_IF_ERROR(steps.Say(spec.steps, kJob));
  LAUNCH_RETURN_IF_ERROR(SayFlag(steps, choices.flags.steps));
  choices.job.steps = steps.value();
  return {};
}

void Describe(UserChoices& choices) {
  const TrainerFlags& flags = choices.flags;
  std::string text;
  const auto add = [&](const auto& flag) {
    if (flag) text += (text.empty() ? "" : ", ") + flag->written;
  };
  add(flags.micro);
  add(flags.accumulate);
  add(flags.precision);
  add(flags.checkpointing);
  add(flags.optimizer);
  add(flags.steps);
  add(flags.epochs);
  add(flags.seq);
  add(flags.lora_rank);
  add(flags.workers);
  add(flags.fsdp);
  if (flags.hugging_face && !text.empty()) {
    choices.read.push_back("flags of the trainer, kept as they are: " + text);
  }
  if (choices.deepspeed) {
    const DeepspeedConfig& file = *choices.deepspeed;
    choices.read.insert(choices.read.end(), file.read.begin(), file.read.end());
    choices.findings.insert(choices.findings.end(), file.findings.begin(), file.findings.end());
  }
}

}  // namespace

Result<UserChoices> ReadWrittenChoices(const JobSpec& spec, const SubmitContext& context,
                                       const LaunchLine& line) {
  UserChoices choices;
  choices.job = spec;
  LAUNCH_ASSIGN_OR_RETURN(choices.flags, ReadTrainerFlags(line.arguments));
  choices.batch_asked = spec.batch.global || spec.batch.micro || spec.batch.accumulate;
  choices.precision_asked = spec.precision != Precision::kAuto;
  choices.hf_parser = TakesTrainerFlags(line, context);
  // A parser of the script's own may have flags of the same names.
  if (choices.hf_parser == false) choices.flags.hugging_face = false;
  // Flags of a script that is not the Hugging Face trainer's are its own affair: planner/reach
  // compares them with the plan. A DeepSpeed file means the same to everybody.
  if (!choices.flags.hugging_face && spec.trainer != Trainer::kHf) {
    TrainerFlags own;
    own.deepspeed = choices.flags.deepspeed;
    choices.flags = std::move(own);
  }
  choices.trainer = TrainerOf(spec, choices.flags, line);
  if (line.deepspeed && !choices.flags.deepspeed) {
    const std::string& name = line.deepspeed->name;
    choices.flags.deepspeed = Flag<std::string>{name, name + " of the call inside run"};
  }
  FromAccelerate accelerate;
  if (line.accelerate) {
    LAUNCH_ASSIGN_OR_RETURN(accelerate, ChoicesOf(*line.accelerate));
    choices.by_accelerate = accelerate->strategy.has_value();
    const std::string& file = accelerate->deepspeed_file;
    if (!file.empty() && !choices.flags.deepspeed) {
      choices.flags.deepspeed = Flag<std::string>{file, "deepspeed_config_file " + file};
    }
  }
  LAUNCH_ASSIGN_OR_RETURN(choices.deepspeed,
                          ReadFile(context, line, choices.flags, choices.trainer));
  if (choices.deepspeed) {
    // What calls the trainer inside of a script is not known.
    if (!line.deepspeed)
      LAUNCH_RETURN_IF_ERROR(CheckAutomatic(*choices.deepspeed, choices.trainer));
  } else if (choices.flags.deepspeed) {
    choices.findings.push_back(MakeFinding(
        "ds_config_unread", Severity::kWarning,
        choices.flags.deepspeed->value +
            " was not found where the job was submitted: its ZeRO stage, batch and precision are "
            "not known, and those of this plan are a guess",
        "correct the path, or submit from a machine that sees the file"));
  }
  LAUNCH_RETURN_IF_ERROR(FixBatch(spec, accelerate, choices));
  LAUNCH_RETURN_IF_ERROR(FixStrategy(spec, accelerate, choices));
  LAUNCH_RETURN_IF_ERROR(FixPrecision(spec, accelerate, choices));
  LAUNCH_RETURN_IF_ERROR(FixSteps(spec, choices));
  Describe(choices);
  return choices;
}

Result<UserChoices> ReadUserChoices(const JobSpec& spec, const SubmitContext& context,
                                    const LaunchLine& line) {
  LAUNCH_ASSIGN_OR_RETURN(UserChoices choices, ReadWrittenChoices(spec, context, line));
  ApplyHfDefaults(line, choices);
  ApplyDebug(choices);
  return choices;
}

}  // namespace launch
