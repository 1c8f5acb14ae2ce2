#include "planner/line/accelerate_flags.h"

#include <algorithm>
#include <array>
#include <utility>

namespace launch {
namespace {

enum AccelerateFlag : int {
  kSetting,   // kept under its name
  kReplaced,  // placement and rendezvous: ours
  kDropped,   // how the launcher logs, asks and restarts
  kConfig,
  kGpuIds,
  kModule,
  kNoPython,
  kRole,
  kMaxRestarts,
  kRefused,  // changes what is run
};

constexpr FlagRule Value(std::string_view name, int kind = kSetting) { return {name, kind, true}; }
constexpr FlagRule Switch(std::string_view name, int kind = kSetting) {
  return {name, kind, false};
}

constexpr std::array kAccelerateRules = {
    Value("config_file", kConfig),
    Switch("quiet", kDropped),
    Switch("cpu"),
    Switch("multi_gpu"),
    Switch("tpu"),
    Switch("ipex", kDropped),
    Switch("use_xpu", kDropped),
    Value("mixed_precision"),
    Value("num_processes"),
    Value("num_machines"),
    Value("num_cpu_threads_per_process"),
    Switch("enable_cpu_affinity"),
    Value("dynamo_backend"),
    Value("dynamo_mode"),
    Switch("dynamo_use_fullgraph"),
    Switch("dynamo_use_dynamic"),
    Switch("dynamo_use_regional_compilation"),
    Switch("use_deepspeed"),
    Switch("use_fsdp"),
    Switch("use_megatron_lm"),
    Switch("use_parallelism_config"),
    Value("gpu_ids", kGpuIds),
    Switch("same_network", kReplaced),
    Value("machine_rank", kReplaced),
    Value("main_process_ip", kReplaced),
    Value("main_process_port", kReplaced),
    Value("rdzv_backend", kReplaced),
    Value("rdzv_conf", kReplaced),
    Value("tee", kDropped),
    Value("log_dir", kDropped),
    Value("role", kRole),
    Value("max_restarts", kMaxRestarts),
    Value("monitor_interval", kDropped),
    Switch("module", kModule),
    Switch("no_python", kNoPython),
    Value("main_training_function", kDropped),
    Switch("downcast_bf16", kDropped),
    Value("deepspeed_config_file"),
    Value("zero_stage"),
    Value("offload_optimizer_device"),
    Value("offload_param_device"),
    Value("offload_optimizer_nvme_path"),
    Value("offload_param_nvme_path"),
    Value("gradient_accumulation_steps"),
    Value("gradient_clipping"),
    Value("zero3_init_flag"),
    Value("zero3_save_16bit_model"),
    Value("deepspeed_hostfile", kReplaced),
    Value("deepspeed_exclusion_filter", kReplaced),
    Value("deepspeed_inclusion_filter", kReplaced),
    Value("deepspeed_multinode_launcher", kReplaced),
    Value("fsdp_version"),
    Value("fsdp_offload_params"),
    Value("fsdp_min_num_params"),
    Value("fsdp_sharding_strategy"),
    Value("fsdp_reshard_after_forward"),
    Value("fsdp_auto_wrap_policy"),
    Value("fsdp_transformer_layer_cls_to_wrap"),
    Value("fsdp_backward_prefetch"),
    Value("fsdp_backward_prefetch_policy"),
    Value("fsdp_state_dict_type"),
    Value("fsdp_forward_prefetch"),
    Value("fsdp_use_orig_params"),
    Value("fsdp_cpu_ram_efficient_loading"),
    Value("fsdp_sync_module_states"),
    Value("fsdp_activation_checkpointing"),
    Switch("fsdp_activation_checkpointing_offload", kRefused),
    Value("deepspeed_moe_layer_cls_names", kRefused),
    Value("mpirun_hostfile", kReplaced),
    Value("mpirun_ccl", kDropped),
    Switch("debug"),
};
constexpr std::array<ShortFlag, 3> kAccelerateShorts = {
    {{'m', "module"}, {'q', "quiet"}, {'t', "tee"}}};

std::optional<int> IdsIn(const std::string& text) {
  if (text.empty() || text == "all" || IsLeftToBash(text)) return std::nullopt;
  return static_cast<int>(std::count(text.begin(), text.end(), ',')) + 1;
}

Result<void> Take(AccelerateArguments& out, const FlagRule& rule, const ShellWord& word,
                  const KnownVariables& known) {
  const std::string name(rule.name);
  const std::string value = FixedValue(word, known).value_or(word.value);
  switch (static_cast<AccelerateFlag>(rule.kind)) {
    case kSetting:
      if (name == "num_processes" && (value == kGpusOfNode || value == kCoresOfNode)) {
        out.arguments.procs = value == kGpusOfNode ? ProcsWord::kGpu : ProcsWord::kCpu;
        return {};
      }
      out.settings.values[name] = rule.takes_value
                                      ? AccelerateSetting{value, "--" + name + " " + value}
                                      : AccelerateSetting{"true", "--" + name};
      return {};
    case kReplaced:
      out.arguments.replaced.push_back(name);
      return {};
    case kDropped:
      out.arguments.dropped.push_back(name);
      return {};
    case kConfig:
      out.config_file = value;
      return {};
    case kGpuIds:
      out.gpu_ids = IdsIn(value);
      if (out.arguments.procs == ProcsWord::kNone && IsLeftToBash(value))
        out.arguments.procs = ProcsWord::kUnknown;
      out.arguments.replaced.push_back(name);
      return {};
    case kModule:
      out.arguments.module = true;
      return {};
    case kNoPython:
      out.arguments.no_python = true;
      return {};
    case kRole:
      out.arguments.role = value;
      return {};
    case kMaxRestarts:
      out.arguments.max_restarts = value;
      return {};
    case kRefused:
      return FlagNotUnderstood("accelerate launch", "--" + name);
  }
  return {};
}

Result<void> AddFile(AccelerateArguments& out, const TextsAt& texts) {
  const std::string path =
      out.config_file.empty() ? std::string(kAccelerateDefaultFile) : out.config_file;
  if (const std::string* text = texts.Find(path)) {
    LAUNCH_ASSIGN_OR_RETURN(const AccelerateSettings read, ReadAccelerateConfig(*text, path));
    AddFileSettings(read, out.settings);
    return {};
  }
  if (out.config_file.empty()) return {};  // accelerate then has no file either
  return Fail(ErrorCode::kUnimplemented,
              "run: the text of " + path + " is not at hand, and it decides how accelerate starts",
              "submit from the directory that holds it, or write its settings as flags");
}

Result<void> TakeShape(AccelerateArguments& out) {
  LAUNCH_ASSIGN_OR_RETURN(const AccelerateShape shape, ShapeOf(out.settings));
  LauncherArguments& arguments = out.arguments;
  if (shape.machines && *shape.machines > 1) {
    arguments.nodes_min = arguments.nodes_max = shape.machines;
    arguments.nodes_text = std::to_string(*shape.machines);
  }
  if (shape.per_machine) {
    arguments.procs = ProcsWord::kNumber;
    arguments.procs_number = *shape.per_machine;
  } else if (out.settings.Find("num_processes") != nullptr) {
    arguments.procs = ProcsWord::kUnknown;
  } else if (!out.gpu_ids && out.settings.Find("gpu_ids") != nullptr) {
    out.gpu_ids = IdsIn(out.settings.Value("gpu_ids"));
  }
  if (arguments.procs == ProcsWord::kNone && out.gpu_ids) {
    arguments.procs = ProcsWord::kNumber;
    arguments.procs_number = *out.gpu_ids;
  }
  return {};
}

}  // namespace

Result<AccelerateArguments> ReadAccelerate(const std::vector<ShellWord>& words, std::size_t first,
                                           const KnownVariables& known, const TextsAt& texts) {
  AccelerateArguments out;
  const FlagSyntax syntax{"accelerate launch", kAccelerateRules, kAccelerateShorts, /*dashes=*/true,
                          /*end_mark=*/true};
  LAUNCH_ASSIGN_OR_RETURN(
      out.arguments.script,
      WalkFlags(words, first, syntax, known, [&](const FlagRule& rule, const ShellWord& value) {
        return Take(out, rule, value, known);
      }));
  LAUNCH_RETURN_IF_ERROR(AddFile(out, texts));
  if (KindOf(out.settings) == AccelerateKind::kOther) {
    return Fail(ErrorCode::kUnimplemented,
                "run: accelerate with Megatron-LM, a TPU or a parallelism configuration is not "
                "taken apart",
                "write launcher: accelerate, so that the real program starts once per node");
  }
  out.cpu = out.settings.True("cpu") || out.settings.True("use_cpu");
  LAUNCH_RETURN_IF_ERROR(TakeShape(out));
  return out;
}

}  // namespace launch
