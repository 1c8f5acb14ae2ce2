#include "planner/line/accelerate_settings.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "common/text.h"
#include "common/units.h"
#include "common/yaml_reader.h"

namespace launch {
namespace {

// Of the files that `accelerate config` writes, in accelerate 1.15 and before.
constexpr std::array<std::string_view, 35> kFileKeys = {"compute_environment",
                                                        "distributed_type",
                                                        "mixed_precision",
                                                        "use_cpu",
                                                        "debug",
                                                        "num_processes",
                                                        "machine_rank",
                                                        "num_machines",
                                                        "gpu_ids",
                                                        "main_process_ip",
                                                        "main_process_port",
                                                        "rdzv_backend",
                                                        "same_network",
                                                        "main_training_function",
                                                        "enable_cpu_affinity",
                                                        "fp8_config",
                                                        "deepspeed_config",
                                                        "fsdp_config",
                                                        "parallelism_config",
                                                        "megatron_lm_config",
                                                        "mpirun_config",
                                                        "downcast_bf16",
                                                        "tpu_name",
                                                        "tpu_zone",
                                                        "tpu_use_cluster",
                                                        "tpu_use_sudo",
                                                        "command_file",
                                                        "commands",
                                                        "tpu_vm",
                                                        "tpu_env",
                                                        "dynamo_config",
                                                        "dynamo_backend",
                                                        "fp16",
                                                        "ipex_config",
                                                        "use_xpu"};

Unexpected Bad(const AccelerateSetting& setting, std::string_view name, std::string wanted) {
  return Fail(ErrorCode::kInvalidArgument,
              "accelerate: " + std::string(name) + " is \"" + setting.value + "\" (" +
                  setting.place + "), not " + wanted,
              name == "num_processes" && setting.value == "0"
                  ? "leave it out, and submit with --gpus N, or write gpus: N"
                  : "accelerate would refuse it too");
}

Result<std::optional<int>> Count(const AccelerateSettings& settings, std::string_view name) {
  std::optional<int> none;
  const AccelerateSetting* setting = settings.Find(name);
  if (setting == nullptr || setting->value.find('$') != std::string::npos) return none;
  const auto number = ParseInt(setting->value);
  if (!number || *number < 1 || *number > 100'000) return Bad(*setting, name, "a number from 1");
  return std::optional(static_cast<int>(*number));
}

std::optional<Strategy> FsdpStrategy(const AccelerateSettings& settings) {
  const std::string version = settings.Value("fsdp_version");
  const std::string reshard = Lower(settings.Value("fsdp_reshard_after_forward"));
  const std::string written = Upper(settings.Value("fsdp_sharding_strategy"));
  if (version == "2" || (written.empty() && (reshard == "true" || reshard == "false"))) {
    return reshard == "false" ? Strategy::kFsdpGradOp : Strategy::kFsdp;
  }
  if (written == "SHARD_GRAD_OP" || written == "2") return Strategy::kFsdpGradOp;
  if (written == "NO_SHARD" || written == "3") return Strategy::kDdp;
  if (written.rfind("HYBRID_SHARD", 0) == 0 || written == "4" || written == "5") {
    return Strategy::kFsdpHybrid;
  }
  return Strategy::kFsdp;
}

Result<void> ChooseDeepspeed(const AccelerateSettings& settings, AccelerateChoices& choices) {
  choices.deepspeed_file = settings.Value("deepspeed_config_file");
  if (!choices.deepspeed_file.empty()) return {};
  // accelerate's own default is stage 2.
  int stage = 2;
  if (const AccelerateSetting* written = settings.Find("zero_stage")) {
    const auto number = ParseInt(written->value);
    if (!number || *number < 0 || *number > 3) return Bad(*written, "zero_stage", "0, 1, 2 or 3");
    stage = static_cast<int>(*number);
    choices.strategy_place = written->place;
  }
  constexpr std::array<Strategy, 4> kStages = {Strategy::kDdp, Strategy::kZero1, Strategy::kZero2,
                                               Strategy::kZero3};
  choices.strategy = kStages[static_cast<std::size_t>(stage)];
  const auto offloads = [&](std::string_view name) {
    const std::string device = Lower(settings.Value(name));
    return device == "cpu" || device == "nvme";
  };
  const bool optimizer = offloads("offload_optimizer_device");
  const bool parameters = offloads("offload_param_device") && stage == 3;
  choices.offload = !optimizer ? Offload::kNone : parameters ? Offload::kAll : Offload::kOptimizer;
  choices.weights_alone = parameters && !optimizer;
  if (stage == 0) choices.offload.reset();
  return {};
}

void FsdpEnvironment(const AccelerateSettings& settings, std::map<std::string, std::string>& env) {
  env["ACCELERATE_USE_FSDP"] = "true";
  // What its launcher passes where neither a flag nor the file says otherwise; the defaults of the
  // library behind them differ (accelerate 1.15, commands/launch.py and utils/dataclasses.py).
  env["FSDP_VERSION"] = "1";
  env["FSDP_SYNC_MODULE_STATES"] = "true";
  env["FSDP_CPU_RAM_EFFICIENT_LOADING"] = "true";
  env["FSDP_MIN_NUM_PARAMS"] = "100000000";
  for (const auto& [name, setting] : settings.values) {
    if (name.rfind("fsdp_", 0) != 0 || setting.value.empty()) continue;
    std::string variable = Upper(name);
    std::string value = setting.value;
    if (name == "fsdp_transformer_layer_cls_to_wrap") variable = "FSDP_TRANSFORMER_CLS_TO_WRAP";
    if (name == "fsdp_backward_prefetch_policy") variable = "FSDP_BACKWARD_PREFETCH";
    if (name == "fsdp_sharding_strategy" && settings.Value("fsdp_version") == "2") continue;
    const std::string lower = Lower(value);
    if (lower == "true" || lower == "false") value = lower;
    env[variable] = value;
  }
}

void DeepspeedEnvironment(const AccelerateSettings& settings,
                          std::map<std::string, std::string>& env) {
  env["ACCELERATE_USE_DEEPSPEED"] = "true";
  const auto pass = [&](std::string_view name, const char* variable, const char* otherwise) {
    const std::string value = settings.Value(name);
    if (!value.empty() || otherwise != nullptr) env[variable] = value.empty() ? otherwise : value;
  };
  pass("zero3_init_flag", "ACCELERATE_DEEPSPEED_ZERO3_INIT", nullptr);
  pass("zero3_save_16bit_model", "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL", nullptr);
  for (const char* name :
       {"ACCELERATE_DEEPSPEED_ZERO3_INIT", "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL"}) {
    const auto found = env.find(name);
    if (found != env.end()) found->second = Lower(found->second);
  }
  if (!settings.Value("deepspeed_config_file").empty()) {
    env["ACCELERATE_DEEPSPEED_CONFIG_FILE"] = settings.Value("deepspeed_config_file");
    return;
  }
  pass("zero_stage", "ACCELERATE_DEEPSPEED_ZERO_STAGE", "2");
  pass("gradient_accumulation_steps", "ACCELERATE_GRADIENT_ACCUMULATION_STEPS", nullptr);
  pass("gradient_clipping", "ACCELERATE_GRADIENT_CLIPPING", nullptr);
  pass("offload_optimizer_device", "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE", nullptr);
  pass("offload_param_device", "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE", nullptr);
  pass("offload_optimizer_nvme_path", "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_NVME_PATH", nullptr);
  pass("offload_param_nvme_path", "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_NVME_PATH", nullptr);
}

}  // namespace

const AccelerateSetting* AccelerateSettings::Find(std::string_view name) const {
  const auto found = values.find(std::string(name));
  return found == values.end() || found->second.value.empty() ? nullptr : &found->second;
}

std::string AccelerateSettings::Value(std::string_view name) const {
  const AccelerateSetting* setting = Find(name);
  return setting == nullptr ? std::string() : setting->value;
}

bool AccelerateSettings::True(std::string_view name) const {
  const std::string value = Lower(Value(name));
  return value == "true" || value == "yes" || value == "1";
}

Result<AccelerateSettings> ReadAccelerateConfig(std::string_view text, const std::string& path) {
  LAUNCH_ASSIGN_OR_RETURN(const YamlNode root, ParseYaml(text, path));
  if (root.kind != YamlNode::Kind::kMap) {
    return Fail(ErrorCode::kInvalidArgument, path + " is not a map of settings",
                "write it with: accelerate config --config_file " + path);
  }
  AccelerateSettings settings;
  settings.file = path;
  const auto take = [&](const YamlEntry& entry) {
    if (entry.value.kind != YamlNode::Kind::kScalar) return;
    const bool nothing =
        !entry.value.quoted &&
        (entry.value.scalar == "null" || entry.value.scalar == "None" || entry.value.scalar == "~");
    if (nothing) return;
    settings.values[entry.key.scalar] = {entry.value.scalar, entry.key.scalar + " in " + path};
  };
  for (const YamlEntry& entry : root.entries) {
    take(entry);
    const std::string& key = entry.key.scalar;
    const bool known = std::find(kFileKeys.begin(), kFileKeys.end(), key) != kFileKeys.end();
    if (!known) settings.unknown_keys.push_back(key);
    const bool block = key == "deepspeed_config" || key == "fsdp_config" || key == "dynamo_config";
    if (!block || entry.value.kind != YamlNode::Kind::kMap) continue;
    for (const YamlEntry& inner : entry.value.entries) take(inner);
  }
  if (settings.Value("compute_environment") == "AMAZON_SAGEMAKER") settings.unknown_keys.clear();
  return settings;
}

std::optional<Finding> UnknownKeys(const AccelerateSettings& settings) {
  if (settings.unknown_keys.empty()) return std::nullopt;
  const bool one = settings.unknown_keys.size() == 1;
  return MakeFinding("accelerate_keys_unknown", Severity::kWarning,
                     settings.file + ": " + Joined(settings.unknown_keys, ", ") +
                         (one ? " is not a setting" : " are not settings") +
                         " of accelerate, which would stop there: ignored",
                     "correct the spelling, or take it out");
}

void AddFileSettings(const AccelerateSettings& file, AccelerateSettings& settings) {
  settings.file = file.file;
  settings.unknown_keys = file.unknown_keys;
  for (const auto& [name, setting] : file.values) settings.values.try_emplace(name, setting);
}

AccelerateKind KindOf(const AccelerateSettings& settings) {
  const std::string type = Upper(settings.Value("distributed_type"));
  const bool cpu = settings.True("cpu") || settings.True("use_cpu");
  if (settings.True("use_megatron_lm") || settings.True("tpu") || type == "MEGATRON_LM" ||
      type == "TPU" || type == "XLA" || settings.True("use_parallelism_config")) {
    return AccelerateKind::kOther;
  }
  // accelerate starts neither DeepSpeed nor FSDP on the CPU.
  if (cpu) return AccelerateKind::kPlain;
  if (settings.True("use_deepspeed")) return AccelerateKind::kDeepspeed;
  if (settings.True("use_fsdp")) return AccelerateKind::kFsdp;
  if (settings.True("multi_gpu")) return AccelerateKind::kMultiDevice;
  if (type == "DEEPSPEED") return AccelerateKind::kDeepspeed;
  if (type == "FSDP") return AccelerateKind::kFsdp;
  return type.rfind("MULTI_", 0) == 0 ? AccelerateKind::kMultiDevice : AccelerateKind::kPlain;
}

Result<AccelerateShape> ShapeOf(const AccelerateSettings& settings) {
  AccelerateShape shape;
  LAUNCH_ASSIGN_OR_RETURN(const std::optional<int> total, Count(settings, "num_processes"));
  LAUNCH_ASSIGN_OR_RETURN(shape.machines, Count(settings, "num_machines"));
  if (!total) return shape;
  const int machines = shape.machines.value_or(1);
  if (*total % machines != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                "accelerate: num_processes " + std::to_string(*total) + " cannot be shared by " +
                    std::to_string(machines) + " machines",
                "num_processes is the total over all machines: write a multiple of num_machines");
  }
  shape.per_machine = *total / machines;
  return shape;
}

Result<AccelerateChoices> ChoicesOf(const AccelerateSettings& settings) {
  AccelerateChoices choices;
  if (const AccelerateSetting* precision = settings.Find("mixed_precision")) {
    const std::string word = Lower(precision->value);
    choices.precision_place = precision->place;
    if (word == "bf16" || word == "fp16" || word == "fp8") {
      choices.precision = ParsePrecision(word);
    } else if (word == "no" || word == "false") {
      choices.precision = Precision::kFp32;  // what accelerate itself then does
    } else if (word.find('$') == std::string::npos) {
      return Bad(*precision, "mixed_precision", "no, fp16, bf16 or fp8");
    }
  } else if (settings.True("fp16")) {  // files of accelerate before 0.10
    choices.precision = Precision::kFp16;
    choices.precision_place = settings.file;
  } else {
    choices.precision = Precision::kFp32;
    choices.precision_place = "accelerate launch without --mixed_precision";
  }
  LAUNCH_ASSIGN_OR_RETURN(const AccelerateShape shape, ShapeOf(settings));
  const int total = shape.per_machine.value_or(0) * shape.machines.value_or(1);
  choices.strategy_place = settings.file.empty() ? "the accelerate line" : settings.file;
  switch (KindOf(settings)) {
    case AccelerateKind::kDeepspeed:
      LAUNCH_RETURN_IF_ERROR(ChooseDeepspeed(settings, choices));
      break;
    case AccelerateKind::kFsdp: {
      choices.strategy = FsdpStrategy(settings);
      const bool offload = settings.True("fsdp_offload_params");
      if (choices.strategy != Strategy::kDdp) {
        choices.offload = offload ? Offload::kAll : Offload::kNone;
      }
      break;
    }
    case AccelerateKind::kMultiDevice:
      if (total > 1) choices.strategy = Strategy::kDdp;
      break;
    case AccelerateKind::kPlain:
    case AccelerateKind::kOther:
      break;
  }
  if (const AccelerateSetting* steps = settings.Find("gradient_accumulation_steps")) {
    const auto number = ParseInt(steps->value);
    const bool open = Lower(steps->value) == "auto" || steps->value.find('$') != std::string::npos;
    if (!open && (!number || *number < 1)) {
      return Bad(*steps, "gradient_accumulation_steps", "a number from 1");
    }
    if (number) choices.accumulate = *number;
  }
  return choices;
}

std::map<std::string, std::string> AccelerateEnvironment(const AccelerateSettings& settings) {
  std::map<std::string, std::string> env;
  const AccelerateKind kind = KindOf(settings);
  if (kind == AccelerateKind::kDeepspeed) DeepspeedEnvironment(settings, env);
  if (kind == AccelerateKind::kFsdp) FsdpEnvironment(settings, env);
  const std::string backend = Upper(settings.Value("dynamo_backend"));
  if (!backend.empty() && backend != "NO") {
    env["ACCELERATE_DYNAMO_BACKEND"] = backend;
    const std::string mode = settings.Value("dynamo_mode");
    env["ACCELERATE_DYNAMO_MODE"] = mode.empty() ? "default" : mode;
    env["ACCELERATE_DYNAMO_USE_FULLGRAPH"] =
        settings.True("dynamo_use_fullgraph") ? "True" : "False";
    env["ACCELERATE_DYNAMO_USE_DYNAMIC"] = settings.True("dynamo_use_dynamic") ? "True" : "False";
    if (settings.True("dynamo_use_regional_compilation")) {
      env["ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION"] = "True";
    }
  }
  if (settings.True("debug")) env["ACCELERATE_DEBUG_MODE"] = "true";
  if (settings.True("enable_cpu_affinity")) env["ACCELERATE_CPU_AFFINITY"] = "1";
  const auto threads = ParseInt(settings.Value("num_cpu_threads_per_process"));
  if (threads && *threads > 0) env["OMP_NUM_THREADS"] = std::to_string(*threads);
  return env;
}

}  // namespace launch
