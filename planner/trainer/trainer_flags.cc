#include "planner/trainer/trainer_flags.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>

#include "planner/line/script_flags.h"

namespace launch {
namespace {

constexpr std::int64_t kMaxFlagValue = 1'000'000'000'000;

// A value that is no number is the script's own affair: its parser will say so.
std::optional<Flag<std::int64_t>> Count(const ScriptFlag& flag, std::int64_t lowest) {
  if (flag.late || !flag.value) return std::nullopt;
  std::int64_t number = 0;
  const char* last = flag.value->data() + flag.value->size();
  const auto [end, error] = std::from_chars(flag.value->data(), last, number);
  if (error != std::errc() || end != last || number < lowest || number > kMaxFlagValue) {
    return std::nullopt;
  }
  return Flag<std::int64_t>{number, flag.text};
}

std::optional<Flag<double>> Number(const ScriptFlag& flag) {
  if (flag.late || !flag.value) return std::nullopt;
  double number = 0;
  const char* last = flag.value->data() + flag.value->size();
  const auto [end, error] = std::from_chars(flag.value->data(), last, number);
  if (error != std::errc() || end != last || !std::isfinite(number) || number <= 0 ||
      number > 1e9) {
    return std::nullopt;
  }
  return Flag<double>{number, flag.text};
}

// HfArgumentParser: a bare switch is true; otherwise the words that its string_to_bool takes.
std::optional<Flag<bool>> SwitchOf(const ScriptFlag& flag) {
  if (flag.late) return std::nullopt;
  std::string text = flag.value.value_or("true");
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  static const std::set<std::string> yes = {"true", "yes", "y", "t", "1"};
  static const std::set<std::string> no = {"false", "no", "n", "f", "0"};
  if (yes.count(text) > 0) return Flag<bool>{true, flag.text};
  if (no.count(text) > 0) return Flag<bool>{false, flag.text};
  return Flag<bool>{true, "--" + flag.name};  // what follows is a word of its own
}

std::optional<Flag<std::string>> Text(const ScriptFlag& flag) {
  if (flag.late || !flag.value) return std::nullopt;
  return Flag<std::string>{*flag.value, flag.text};
}

Result<void> SetPrecision(const ScriptFlag& flag, Precision precision, TrainerFlags& flags) {
  const auto on = SwitchOf(flag);
  if (!on || !on->value) return {};
  if (flags.precision && flags.precision->value != precision) {
    return Fail(ErrorCode::kInvalidArgument,
                "the line has " + flags.precision->written + " and " + on->written,
                "keep one of them");
  }
  flags.precision = Flag<Precision>{precision, on->written};
  return {};
}

bool AnyOf(const std::string& name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Result<void> ReadOne(const ScriptFlag& flag, TrainerFlags& flags) {
  const std::string& name = flag.name;
  if (AnyOf(name, {"per_device_train_batch_size", "num_train_epochs", "optim"})) {
    flags.hugging_face = true;
  }
  if (name == "per_device_train_batch_size") {
    flags.micro = Count(flag, 1);
  } else if (name == "gradient_accumulation_steps") {
    flags.accumulate = Count(flag, 1);
  } else if (name == "bf16") {
    LAUNCH_RETURN_IF_ERROR(SetPrecision(flag, Precision::kBf16, flags));
  } else if (name == "fp16") {
    LAUNCH_RETURN_IF_ERROR(SetPrecision(flag, Precision::kFp16, flags));
  } else if (name == "gradient_checkpointing") {
    flags.checkpointing = SwitchOf(flag);
  } else if (name == "optim") {
    flags.optimizer = Text(flag);
  } else if (name == "max_grad_norm") {
    flags.gradient_clipping = Number(flag);
  } else if (name == "max_steps") {
    flags.steps = Count(flag, -1);
    if (flags.steps && flags.steps->value < 1) flags.steps.reset();  // -1: by epochs
  } else if (name == "num_train_epochs") {
    flags.epochs = Number(flag);
  } else if (AnyOf(name, {"model_max_length", "max_seq_length", "max_seq_len", "block_size",
                          "cutoff_len", "max_length", "seq_length", "seq_len"})) {
    flags.seq = Count(flag, 1);
  } else if (AnyOf(name, {"lora_r", "lora_rank"})) {
    flags.lora_rank = Count(flag, 1);
  } else if (name == "per_device_eval_batch_size") {
    flags.eval_batch = Count(flag, 1);
  } else if (name == "do_eval") {
    const auto on = SwitchOf(flag);
    flags.evaluates = flags.evaluates || (on && on->value);
  } else if (AnyOf(name, {"eval_strategy", "evaluation_strategy"})) {
    const auto when = Text(flag);
    flags.evaluates = flags.evaluates || (when && when->value != "no");
  } else if (name == "dataloader_num_workers") {
    flags.workers = Count(flag, 0);
  } else if (AnyOf(name, {"deepspeed", "deepspeed_config", "ds_config"})) {
    // Scripts of DeepSpeed's own take a bare --deepspeed beside --deepspeed_config FILE.
    // A path behind --deepspeed itself is the Hugging Face trainer's way.
    if (auto path = Text(flag)) {
      flags.deepspeed = std::move(path);
      flags.hugging_face = flags.hugging_face || name == "deepspeed";
    }
  } else if (name == "fsdp") {
    flags.fsdp = flag.value || flag.late ? Text(flag) : Flag<std::string>{"true", flag.text};
  }
  return {};
}

}  // namespace

Result<TrainerFlags> ReadTrainerFlags(const std::vector<ShellWord>& arguments) {
  TrainerFlags flags;
  for (const ScriptFlag& flag : ReadScriptFlags(arguments)) {
    flags.names.insert(flag.name);
    LAUNCH_RETURN_IF_ERROR(ReadOne(flag, flags));
  }
  return flags;
}

}  // namespace launch
