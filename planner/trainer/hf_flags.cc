#include "planner/trainer/hf_flags.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "planner/model/strategy.h"
#include "planner/model/training_setup.h"
#include "planner/trainer/cpu_trainers.h"

namespace launch {
namespace {

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// The file that stands alone behind the script; null when flags do. A plain line's arguments hold
// the interpreter and the script too.
const ShellWord* ArgumentsFile(const LaunchLine& line) {
  auto word = std::find_if(line.arguments.begin(), line.arguments.end(),
                           [&](const ShellWord& one) { return one.value == line.script; });
  word = word == line.arguments.end() ? line.arguments.begin() : word + 1;
  if (word == line.arguments.end() || word + 1 != line.arguments.end()) return nullptr;
  for (const char* end : {".json", ".yaml", ".yml"}) {
    if (EndsWith(word->value, end)) return &*word;
  }
  return nullptr;
}

// Flags of TrainingArguments that scripts with arguments of their own (diffusers, *_no_trainer.py)
// do not have: those refuse a flag that they do not know.
bool IsSurelyTrainer(const UserChoices& choices) {
  if (choices.job.trainer == Trainer::kHf) return true;
  if (const auto& optim =
          choices.flags.optimizer) {  // names of its own: adamw_torch, paged_lion_8bit
    if (optim->value.starts_with("adamw_") || optim->value.starts_with("paged_")) return true;
  }
  if (choices.hf_parser) return *choices.hf_parser;
  constexpr std::array kOwn = {"save_strategy",
                               "eval_strategy",
                               "evaluation_strategy",
                               "logging_strategy",
                               "ddp_find_unused_parameters",
                               "remove_unused_columns",
                               "load_best_model_at_end",
                               "logging_first_step"};
  return std::any_of(kOwn.begin(), kOwn.end(),
                     [&](const char* name) { return choices.flags.names.count(name) > 0; });
}

// transformers (integrations/deepspeed.py, HfTrainerDeepSpeedConfig) stops where its own arguments
// and the file of DeepSpeed differ. Where launch may not add flags, the two can.
void NoteMismatch(const UserChoices& choices, Plan& plan) {
  const bool ours = !choices.flags.deepspeed && !choices.by_accelerate && plan.batch.global &&
                    plan.batch.micro && plan.batch.accumulate;
  if (choices.trainer != Trainer::kHf || ZeroStage(plan.strategy) == 0 || !ours) return;
  std::string file;
  std::string script;
  std::string flags;
  const auto differ = [&](std::string_view name, std::string_view key, const std::string& planned,
                          const std::string& usual) {
    if (choices.flags.names.count(std::string(name)) > 0 || planned == usual) return;
    const char* comma = file.empty() ? "" : ", ";
    file += comma + std::string(key) + " " + planned;
    script += comma + std::string(name) + " " + usual;
    flags += " --" + std::string(name) + " " + planned;
  };
  if (!choices.job.debug) {  // a debug run gives the batch itself
    differ("per_device_train_batch_size", "train_micro_batch_size_per_gpu",
           std::to_string(*plan.batch.micro), std::to_string(kHfMicroBatch));
    differ("gradient_accumulation_steps", "gradient_accumulation_steps",
           std::to_string(*plan.batch.accumulate), std::to_string(kHfAccumulation));
  }
  const bool half = plan.precision == Precision::kBf16 || plan.precision == Precision::kFp16;
  if (half && choices.flags.names.count("bf16") == 0 && choices.flags.names.count("fp16") == 0) {
    const std::string name(ToString(plan.precision));
    differ(name, name + ".enabled", "True", "False");
  }
  if (file.empty()) return;
  plan.warnings.push_back(MakeFinding(
      "plan_cannot_reach_script", Severity::kWarning,
      "this plan may not reach your script: ds_config.json says " + file +
          ", and unless told otherwise the Hugging Face trainer takes " + script +
          "; it stops where they differ, and launch is not sure that the script takes its flags",
      "write trainer: hf, and launch adds them; or write them behind the script:" + flags));
}

}  // namespace

namespace {

// The job file names an optimizer that the trainer is not told of.
void NoteOptimizer(const UserChoices& choices, Plan& plan) {
  const auto said = choices.job.model.fields.find("optimizer");
  const bool told = choices.flags.names.count("optim") > 0 ||
                    (choices.deepspeed && !choices.deepspeed->optimizer.empty());
  if (choices.trainer != Trainer::kHf || said == choices.job.model.fields.end() || told) return;
  const OptimizerTraits usual = OptimizerOf("adamw_torch");
  OptimizerTraits asked = OptimizerOf(said->second);
  asked.fused = usual.fused;  // faster, and as large
  if (said->second.empty() || asked == usual) return;
  plan.warnings.push_back(MakeFinding(
      "plan_cannot_reach_script", Severity::kWarning,
      "this plan reckons with the optimizer " + said->second +
          " of the job file, and the Hugging Face trainer takes adamw_torch unless it is told",
      "write it behind the script: --optim " + said->second));
}

}  // namespace

namespace {

// What nobody asked for does not change what the script computes (docs/decisions/0008).
void ApplyHfPrecision(UserChoices& choices) {
  const bool unread = choices.flags.deepspeed && !choices.deepspeed;
  const bool told = choices.precision_asked || choices.flags.names.count("bf16") > 0 ||
                    choices.flags.names.count("fp16") > 0 ||
                    choices.flags.names.count("tf32") > 0 ||
                    choices.job.precision != Precision::kAuto;
  if (choices.job.trainer == Trainer::kHf || told || unread) return;
  choices.job.precision = Precision::kFp32;
  choices.precision_source = "the Hugging Face trainer's default";
  choices.findings.push_back(MakeFinding(
      "precision_default", Severity::kNotice,
      "the script trains in fp32: neither the line nor the job names a precision",
      "write precision: bf16 (or auto with trainer: hf) in the job, or --bf16 behind the script"));
}

}  // namespace

bool TakesHfFlags(const UserChoices& choices, const LaunchLine& line) {
  return choices.trainer == Trainer::kHf && IsSurelyTrainer(choices) && line.python &&
         !line.script.empty() && ArgumentsFile(line) == nullptr;
}

bool TakesHfBatch(const UserChoices& choices, const LaunchLine& line) {
  const auto late = [&](const char* name, bool known) {
    return choices.flags.names.count(name) > 0 && !known;
  };
  return TakesHfFlags(choices, line) &&
         !late("per_device_train_batch_size", choices.flags.micro.has_value()) &&
         !late("gradient_accumulation_steps", choices.flags.accumulate.has_value());
}

void ApplyHfDefaults(const LaunchLine& line, UserChoices& choices) {
  if (!TakesHfFlags(choices, line) || choices.job.debug) return;
  ApplyHfPrecision(choices);
  BatchSpec& batch = choices.job.batch;
  const auto late = [&](std::string_view name, bool known) {
    return choices.flags.names.count(std::string(name)) > 0 && !known;
  };
  if (batch.global || late("per_device_train_batch_size", batch.micro.has_value()) ||
      late("gradient_accumulation_steps", batch.accumulate.has_value())) {
    return;
  }
  std::string text;
  if (!batch.micro) {
    batch.micro = kHfMicroBatch;
    text = "per_device_train_batch_size " + std::to_string(kHfMicroBatch);
  }
  if (!batch.accumulate) {
    batch.accumulate = kHfAccumulation;
    text += (text.empty() ? "" : ", ") + std::string("gradient_accumulation_steps ") +
            std::to_string(kHfAccumulation);
  }
  if (!text.empty()) {
    choices.read.push_back(
        "the Hugging Face trainer's own defaults, as neither the line nor the "
        "job says otherwise: " +
        text);
  }
}

void AppendHfFlags(const UserChoices& choices, LaunchLine& line, Plan& plan) {
  const ShellWord* file = ArgumentsFile(line);
  if (choices.trainer == Trainer::kHf && file != nullptr && plan.batch.micro) {
    plan.warnings.push_back(
        MakeFinding("plan_cannot_reach_script", Severity::kWarning,
                    "this plan cannot reach your script: its arguments are in " + file->value +
                        ", which launch does not read",
                    "write them as flags behind the script, or the plan's batch into that file"));
  }
  NoteOptimizer(choices, plan);
  if (!TakesHfFlags(choices, line)) {
    NoteMismatch(choices, plan);
    return;
  }
  const auto written = [&](std::string_view name) {
    return choices.flags.names.count(std::string(name)) > 0;
  };
  std::string added;
  const auto add = [&](std::string_view name, std::string_view value) {
    if (written(name)) return;
    added += " --" + std::string(name) + " " + std::string(value);
  };
  // A plan of ours brings files with these numbers, and the trainer stops where they differ.
  const bool asked = choices.job.trainer == Trainer::kHf;
  const bool with_file = ZeroStage(plan.strategy) > 0 && !choices.flags.deepspeed;
  const bool batch = asked || choices.batch_asked || with_file;
  // A debug run gives the batch itself.
  if (batch && !choices.job.debug && TakesHfBatch(choices, line)) {
    if (plan.batch.micro) add("per_device_train_batch_size", "$LAUNCH_MICRO_BATCH");
    if (plan.batch.accumulate) add("gradient_accumulation_steps", "$LAUNCH_GRAD_ACCUM");
  }
  const bool half = plan.precision == Precision::kBf16 || plan.precision == Precision::kFp16;
  const bool adds_half = half && (asked || choices.precision_asked || with_file) &&
                         !written("bf16") && !written("fp16");
  if (adds_half) add(ToString(plan.precision), "True");
  // Else it looks for a GPU, and under DeepSpeed each rank is a world of its own.
  const bool on_cpu = plan.device == DeviceClass::kCpu;
  if (on_cpu && (adds_half || TrainsByDeepspeed(choices, line, plan))) add("use_cpu", "True");
  if (plan.precision == Precision::kTf32) add("tf32", "True");
  // FSDP recomputes by its own setting (FSDP_ACTIVATION_CHECKPOINTING); the trainer refuses both.
  if (plan.checkpointing == "full" && !IsFsdp(plan.strategy)) add("gradient_checkpointing", "True");
  if (added.empty()) return;
  line.shell += added;
  plan.read.push_back("added for the Hugging Face trainer:" + added);
}

}  // namespace launch
