#include "planner/trainer/model_block.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "common/text.h"
#include "common/units.h"
#include "planner/model/adapters.h"
#include "planner/model/hf_config.h"
#include "planner/model/optimizer_names.h"
#include "planner/trainer/hf_flags.h"
#include "planner/trainer/trainer_configs.h"

namespace launch {
namespace {

constexpr std::int64_t kUsualSeq = 2048;  // when nothing says how long a sample is

using Fields = std::map<std::string, std::string>;

Unexpected BadKey(const std::string& key, const std::string& value, const std::string& wanted) {
  return Fail(ErrorCode::kInvalidArgument, "model." + key + ": \"" + value + "\" is not " + wanted,
              "write " + wanted);
}

// Reads the words of the block; the first bad one ends it.
class Block {
 public:
  explicit Block(const Fields& fields) : fields_(fields) {}

  bool Has(const std::string& key) const {
    const auto found = fields_.find(key);
    return found != fields_.end() && !found->second.empty();
  }
  std::string Text(const std::string& key) const {
    const auto found = fields_.find(key);
    return found == fields_.end() ? std::string() : found->second;
  }

  void Count(const std::string& key, std::int64_t& into, std::int64_t most) {
    if (!Has(key)) return;
    const auto value = ParseInt(Text(key));
    if (!value || *value < 1 || *value > most) {
      Keep(BadKey(key, Text(key), "a whole number from 1 to " + std::to_string(most)));
      return;
    }
    into = *value;
  }

  void Params(const std::string& key, std::int64_t& into) {
    if (!Has(key)) return;
    auto value = ParseParamCount(Text(key));
    if (!value || *value < 1 || *value > kMaxParams) {
      Keep(BadKey(key, Text(key), "a number of parameters like 8B, 350M or 6738415616"));
      return;
    }
    into = *value;
  }

  std::optional<bool> Truth(const std::string& key) {
    if (!Has(key)) return std::nullopt;
    const std::string text = Lower(Text(key));
    if (text == "true" || text == "yes") return true;
    if (text == "false" || text == "no") return false;
    Keep(BadKey(key, Text(key), "true or false"));
    return std::nullopt;
  }

  template <class T>
  std::optional<T> Word(const std::string& key,
                        const std::vector<std::pair<std::string, T>>& words) {
    if (!Has(key)) return std::nullopt;
    const std::string text = Lower(Text(key));
    std::string all;
    for (const auto& [word, value] : words) {
      if (word == text) return value;
      all += (all.empty() ? "" : ", ") + word;
    }
    Keep(BadKey(key, Text(key), "one of " + all));
    return std::nullopt;
  }

  const std::optional<Error>& error() const { return error_; }

 private:
  void Keep(const Unexpected& bad) {
    if (!error_) error_ = bad.value();
  }

  const Fields& fields_;
  std::optional<Error> error_;
};

// Words of the block that describe a model, not just how one is trained.
bool DescribesModel(const Fields& fields) {
  for (const char* key : {"params", "layers", "hidden", "config"}) {
    const auto found = fields.find(key);
    if (found != fields.end() && !found->second.empty()) return true;
  }
  return false;
}

// Names of models round their size: 0.5B for 464 million.
bool Near(std::int64_t said, std::int64_t counted) {
  constexpr double kRounding = 0.15;
  if (counted <= 0) return true;
  return std::abs(static_cast<double>(said) / static_cast<double>(counted) - 1) <= kRounding;
}

std::string Billions(double params) { return FormatNumber(params / 1e9, "%.3gB"); }

// Parameters that the stated shape cannot have. A block's own figures are rough (grouped heads,
// gated or wide MLPs, a vocabulary nobody states), so that only what no dense network has is
// refused. What contradicts a configuration file is found by its count.
Result<void> CheckProportions(const Block& block, const ModelCard& card) {
  constexpr double kLeast = 0.3;
  constexpr double kMost = 6;
  constexpr double kLargeVocab = 256'000;
  constexpr std::int64_t kDeepest = 8;  // layers per element of width; DeepNet has 2
  const bool shaped = block.Has("layers") || block.Has("hidden");
  if (!shaped || !block.Has("params") || block.Has("config") || !HasShape(card)) return {};
  const double hidden = Real(card.hidden);
  const double one =
      block.Has("ffn") ? Real(card.layer_params) : kBlockParamsPerHiddenSquared * hidden * hidden;
  const double words = (block.Has("vocab") ? Real(card.vocab) : kLargeVocab) * hidden;
  const double least = Real(card.layers) * one;
  const double params = Real(card.params);
  if (params >= kLeast * least && params <= kMost * (least + 2 * words) &&
      card.layers <= kDeepest * card.hidden)
    return {};
  return Fail(ErrorCode::kInvalidArgument,
              "model.params " + Billions(params) + " contradicts " + std::to_string(card.layers) +
                  " layers of width " + std::to_string(card.hidden) + ", which have about " +
                  Billions(least),
              "correct one of them; model.config tells of experts, model.ffn of a wide MLP");
}

// What the job file says stands before what the configuration file says; both are named when they
// contradict each other.
Result<ModelCard> CardOf(Block& block, const SubmitContext& context) {
  ModelCard card;
  if (block.Has("config")) {
    const std::string path = block.Text("config");
    const auto file = context.files.find(path);
    if (file == context.files.end()) {
      return Fail(ErrorCode::kInvalidArgument, "model.config: " + path + " was not read",
                  "submit from a machine that sees the file");
    }
    LAUNCH_ASSIGN_OR_RETURN(card, ReadHfConfig(file->second, path));
  }
  const ModelCard of_file = card;
  const auto one = [&](const std::string& key, std::int64_t& into, bool params) -> Result<void> {
    const std::int64_t before = into;
    if (params) {
      block.Params(key, into);
    } else {
      block.Count(key, into, kMaxLength);
    }
    if (before == 0 || into == before || params) return {};
    return Fail(ErrorCode::kInvalidArgument,
                "model." + key + " is " + std::to_string(into) + " in the job file and " +
                    std::to_string(before) + " in " + block.Text("config"),
                "leave it out of the job file, or correct it");
  };
  LAUNCH_RETURN_IF_ERROR(one("layers", card.layers, false));
  LAUNCH_RETURN_IF_ERROR(one("hidden", card.hidden, false));
  LAUNCH_RETURN_IF_ERROR(one("heads", card.heads, false));
  LAUNCH_RETURN_IF_ERROR(one("kv_heads", card.kv_heads, false));
  LAUNCH_RETURN_IF_ERROR(one("ffn", card.ffn, false));
  LAUNCH_RETURN_IF_ERROR(one("vocab", card.vocab, false));
  LAUNCH_RETURN_IF_ERROR(one("params", card.params, true));
  const auto tied = block.Truth("tied");
  if (block.error()) return Unexpected(*block.error());
  if (tied && block.Has("config") && *tied != of_file.tied) {
    return Fail(ErrorCode::kInvalidArgument,
                "model.tied is " + block.Text("tied") + " in the job file, and " +
                    block.Text("config") + " says otherwise",
                "leave it out of the job file, or correct it");
  }
  if (tied) card.tied = *tied;
  if (block.Has("config") && block.Has("params")) {
    const auto counted = CompleteCard(of_file);
    if (counted && !Near(card.params, counted->params)) {
      return Fail(ErrorCode::kInvalidArgument,
                  "model.params is " + block.Text("params") + " in the job file, and " +
                      block.Text("config") + " has " + Billions(Real(counted->params)),
                  "leave one of the two out");
    }
  }
  LAUNCH_ASSIGN_OR_RETURN(ModelCard completed, CompleteCard(std::move(card)));
  LAUNCH_RETURN_IF_ERROR(CheckProportions(block, completed));
  return completed;
}

Unexpected Differ(const std::string& key, const std::string& job, const std::string& other) {
  return Fail(ErrorCode::kInvalidArgument,
              "model." + key + " is " + job + " in the job file, and the run says " + other,
              "write it in one of the two, or make them equal");
}

// A number that the job file and a flag may both give.
Result<void> CountOrFlag(Block& block, const std::string& key,
                         const std::optional<Flag<std::int64_t>>& flag, std::int64_t most,
                         std::int64_t& into) {
  if (flag) into = flag->value;
  block.Count(key, into, most);
  if (!flag || into == flag->value) return {};
  return Differ(key, std::to_string(into), flag->written);
}

Result<void> ReadSequence(Block& block, const UserChoices& choices, const ModelCard& card,
                          ModelInput& input) {
  TrainingSetup& setup = input.setup;
  LAUNCH_RETURN_IF_ERROR(CountOrFlag(block, "seq_len", choices.flags.seq, kMaxLength, setup.seq));
  if (setup.seq > 0) return {};
  setup.seq = card.seq > 0 ? std::min(card.seq, kUsualSeq) : kUsualSeq;
  input.assumptions.push_back("samples of " + std::to_string(setup.seq) +
                              " tokens: model.seq_len is not given");
  return {};
}

void ReadAdapterTargets(const Block& block, ModelInput& input) {
  TrainingSetup& setup = input.setup;
  if (!block.Has("lora.targets")) return;
  if (setup.lora_rank == 0) {
    setup.lora_rank = kUsualAdapterRank;
    input.assumptions.push_back("adapters of rank " + std::to_string(kUsualAdapterRank) +
                                ", PEFT's default: model.lora.rank is not given");
  }
  AdapterTargets targets = AdapterTargetsOf(block.Text("lora.targets"));
  setup.adapted = std::move(targets.layers);
  if (targets.unknown.empty()) return;
  input.assumptions.push_back("model.lora.targets: \"" + targets.unknown.substr(0, 60) +
                              "\" is not a known layer, so all are counted");
}

// The job file, the trainer's flag and DeepSpeed's file may each name it: kinds are compared, not
// spellings.
Result<std::string> OptimizerNamed(const Block& block, const UserChoices& choices) {
  std::string name;
  std::string place;
  const auto say = [&](const std::string& other, const std::string& where) -> Result<void> {
    if (other.empty()) return {};
    if (!name.empty() && !(OptimizerOf(name) == OptimizerOf(other))) {
      return Fail(ErrorCode::kInvalidArgument,
                  "the optimizer is " + name + " in " + place + " and " + other + " in " + where,
                  "write it in one of the two, or make them equal");
    }
    if (name.empty()) std::tie(name, place) = std::tie(other, where);
    return {};
  };
  LAUNCH_RETURN_IF_ERROR(say(block.Text("optimizer"), "the job file"));
  if (choices.flags.optimizer)
    LAUNCH_RETURN_IF_ERROR(say(choices.flags.optimizer->value, choices.flags.optimizer->written));
  if (choices.deepspeed)
    LAUNCH_RETURN_IF_ERROR(say(choices.deepspeed->optimizer, choices.deepspeed->path));
  return name.empty() ? "adamw" : name;
}

// A misspelled name in the job file is refused; where a trainer's flag or file names it, the
// trainer may know what is not known here.
Result<void> ReadOptimizer(const Block& block, const UserChoices& choices, ModelInput& input) {
  LAUNCH_ASSIGN_OR_RETURN(const std::string optimizer, OptimizerNamed(block, choices));
  input.setup.optimizer = OptimizerOf(optimizer);
  if (NamesOptimizer(optimizer)) return {};
  if (block.Has("optimizer")) return UnknownOptimizer("model.optimizer: ", optimizer);
  input.assumptions.push_back("optimizer \"" + optimizer.substr(0, 60) +
                              "\" is not known: two states a parameter, as AdamW has");
  return {};
}

Result<void> ReadRecipe(Block& block, const UserChoices& choices, ModelInput& input) {
  TrainingSetup& setup = input.setup;
  LAUNCH_RETURN_IF_ERROR(ReadOptimizer(block, choices, input));
  LAUNCH_RETURN_IF_ERROR(
      CountOrFlag(block, "lora.rank", choices.flags.lora_rank, kMaxAdapterRank, setup.lora_rank));
  ReadAdapterTargets(block, input);
  if (const auto base = block.Word<BaseFormat>("quantization", {{"none", BaseFormat::kSame},
                                                                {"int8", BaseFormat::kInt8},
                                                                {"8bit", BaseFormat::kInt8},
                                                                {"nf4", BaseFormat::kNf4},
                                                                {"4bit", BaseFormat::kNf4},
                                                                {"fp4", BaseFormat::kNf4},
                                                                {"gptq", BaseFormat::kGptq4},
                                                                {"awq", BaseFormat::kGptq4}}))
    setup.base = *base;
  if (const auto attention = block.Word<Attention>("attention", {{"flash", Attention::kFlash},
                                                                 {"sdpa", Attention::kFlash},
                                                                 {"eager", Attention::kEager}}))
    setup.attention = *attention;
  if (const auto loss = block.Word<LossPath>("loss", {{"full", LossPath::kFull},
                                                      {"chunked", LossPath::kChunked},
                                                      {"fused", LossPath::kFused}}))
    setup.loss = *loss;
  if (choices.flags.checkpointing) {
    setup.checkpointing =
        choices.flags.checkpointing->value ? Checkpointing::kFull : Checkpointing::kNone;
    input.checkpointing_fixed = true;
  }
  if (const auto word = block.Word<Checkpointing>("activation_checkpointing",
                                                  {{"none", Checkpointing::kNone},
                                                   {"selective", Checkpointing::kSelectiveOp},
                                                   {"full", Checkpointing::kFull},
                                                   {"true", Checkpointing::kFull},
                                                   {"false", Checkpointing::kNone}})) {
    if (choices.flags.checkpointing && *word != setup.checkpointing) {
      return Differ("activation_checkpointing", block.Text("activation_checkpointing"),
                    choices.flags.checkpointing->written);
    }
    setup.checkpointing = *word;
    input.checkpointing_fixed = true;
  }
  setup.variable_length = block.Truth("variable_length").value_or(false);
  input.pure_16_bit = !block.Truth("master_weights").value_or(true);
  if (choices.flags.evaluates) {
    setup.eval_batch =
        choices.flags.eval_batch ? choices.flags.eval_batch->value : kHfEvaluationBatch;
  }
  setup.host_weights = choices.weights_alone;
  if (choices.deepspeed) {
    setup.reduce_bucket = choices.deepspeed->reduce_bucket;
    setup.gather_bucket = choices.deepspeed->gather_bucket;
    setup.overlap_comm = choices.deepspeed->overlap_comm.value_or(true);
  }
  return {};
}

}  // namespace

Framework FrameworkOf(Trainer trainer) {
  return ByAccelerate(trainer) ? Framework::kHf : Framework::kUnknown;
}

Result<std::optional<ModelInput>> ReadModel(const UserChoices& choices,
                                            const SubmitContext& context) {
  const Fields& fields = choices.job.model.fields;
  if (!DescribesModel(fields)) return std::optional<ModelInput>();
  Block block(fields);
  ModelInput input;
  LAUNCH_ASSIGN_OR_RETURN(input.card, CardOf(block, context));
  input.setup.framework = FrameworkOf(choices.trainer);
  LAUNCH_RETURN_IF_ERROR(ReadSequence(block, choices, input.card, input));
  LAUNCH_RETURN_IF_ERROR(ReadRecipe(block, choices, input));
  if (block.error()) return Unexpected(*block.error());
  if (input.setup.base != BaseFormat::kSame && input.setup.lora_rank == 0) {
    return Fail(
        ErrorCode::kInvalidArgument,
        "model.quantization without model.lora: frozen 4- or 8-bit weights cannot be trained",
        "write lora: {rank: 16}, or leave quantization out");
  }
  for (const auto& [field, origin] : input.card.origins) {
    if (origin.origin == Origin::kAssumed) {
      input.assumptions.push_back(field + ": " + origin.from);
    }
  }
  return std::optional(std::move(input));
}

}  // namespace launch
