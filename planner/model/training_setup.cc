#include "planner/model/training_setup.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "common/text.h"
#include "planner/model/strategy.h"

namespace launch {

namespace {

double RanksOfOneReplica(const TrainingSetup& setup) {
  if (setup.strategy != Strategy::kFsdpHybrid || setup.ranks_per_node < 1) return setup.ranks;
  return std::min(setup.ranks, setup.ranks_per_node);
}

Unexpected BadSetting(const std::string& field, const std::string& value, const std::string& rule) {
  return Fail(ErrorCode::kInvalidArgument, field + " is " + value + ", " + rule);
}

}  // namespace

Result<void> CheckSetup(const TrainingSetup& setup) {
  constexpr std::int64_t kMaxTokens = 1'000'000'000;
  if (setup.micro_batch < 1)
    return BadSetting("micro batch", std::to_string(setup.micro_batch), "below 1");
  if (setup.seq < 1) return BadSetting("sequence length", std::to_string(setup.seq), "below 1");
  if (setup.micro_batch > kMaxTokens || setup.seq > kMaxTokens ||
      setup.micro_batch > kMaxTokens / setup.seq)
    return BadSetting("micro batch x sequence",
                      std::to_string(setup.micro_batch) + " x " + std::to_string(setup.seq),
                      "more than 1e9 tokens on one GPU");
  if (setup.eval_batch < 0 || setup.eval_batch > kMaxTokens / setup.seq)
    return BadSetting("evaluation batch", std::to_string(setup.eval_batch),
                      "not between 0 and 1e9 tokens");
  if (setup.ranks < 1 || setup.ranks > 10'000'000)
    return BadSetting("ranks", std::to_string(setup.ranks), "not between 1 and 10,000,000");
  if (setup.pipeline_parts < 1 || setup.pipeline_parts > 100'000)
    return BadSetting("pipeline parts", std::to_string(setup.pipeline_parts),
                      "not between 1 and 100,000");
  if (setup.lora_rank < 0 || setup.lora_rank > 1'000'000)
    return BadSetting("LoRA rank", std::to_string(setup.lora_rank), "not between 0 and 1,000,000");
  if (setup.strategy == Strategy::kAuto || setup.offload == Offload::kAuto)
    return Fail(ErrorCode::kInvalidArgument, "strategy and offload are not chosen yet");
  if (setup.strategy == Strategy::kSingle && setup.ranks > 1)
    return Fail(ErrorCode::kInvalidArgument,
                "strategy single on " + std::to_string(setup.ranks) + " ranks");
  return {};
}

Shards ShardsOf(const TrainingSetup& setup) {
  const double n = RanksOfOneReplica(setup);
  switch (setup.strategy) {
    case Strategy::kAuto:
    case Strategy::kSingle:
    case Strategy::kDdp:
      break;
    case Strategy::kZero1:
      return {1, 1, n};
    case Strategy::kZero2:
      return {1, n, n};
    case Strategy::kZero3:
    case Strategy::kFsdp:
    case Strategy::kFsdpGradOp:
    case Strategy::kFsdpHybrid:
      return {n, n, n};
  }
  return {};
}

bool HostHoldsWeights(const TrainingSetup& setup) {
  return (setup.offload == Offload::kAll && IsSharded(setup.strategy)) ||
         (setup.host_weights && setup.strategy == Strategy::kZero3);
}

OptimizerTraits OptimizerOf(std::string_view word) {
  const std::string text = Lower(word);
  const auto has = [&](const char* part) { return text.find(part) != std::string::npos; };
  OptimizerTraits traits;
  if (has("adafactor") || has("came") || has("lomo")) {
    traits.moments = 0;  // rows and columns of the second moment only; LOMO is SGD
    traits.fused = true;
  } else if (has("ademamix") || has("adan")) {
    traits.moments = 3;
  } else if (has("prodigy")) {
    traits.moments = 4;  // two moments, the distance and where the weights began
  } else if (has("lion") || has("lars") || has("muon") || has("momentum") || has("rmsprop") ||
             has("adagrad")) {
    traits.moments = 1;
  } else if (has("sgd")) {
    traits.moments = 0;
  }
  if (has("8bit") || has("8-bit") || has("int8") || has("fp8")) traits.moment_bytes = 1;
  if (has("4bit") || has("4-bit")) traits.moment_bytes = 0.5;
  // 8-bit kernels and loops over single tensors hold no copy of all parameters.
  traits.fused =
      traits.fused || traits.moment_bytes > 0 || has("fused") || has("for_loop") || has("paged");
  traits.in_backward = has("in_bwd") || has("in_backward") || has("lomo");
  traits.paged = has("paged");
  traits.on_host = has("cpu");
  return traits;
}

StateBytes StateBytesOf(StateFormat format, const OptimizerTraits& optimizer) {
  StateBytes bytes;
  double moment = 4;
  switch (format) {
    case StateFormat::kFp32:
    case StateFormat::kAmp:
    case StateFormat::kFsdpMixed:
      bytes = {4, 4, 0, 4};
      break;
    case StateFormat::kMaster16:
      bytes = {2, 2, 4, 4};
      break;
    case StateFormat::kPure16:
      bytes = {2, 2, 0, 2};
      moment = 2;
      break;
  }
  if (optimizer.moment_bytes > 0) moment = optimizer.moment_bytes;
  bytes.optimizer += optimizer.moments * moment;
  if (optimizer.moments == 0 || optimizer.fused) bytes.step = 0;
  if (optimizer.in_backward) bytes.gradient = bytes.step = 0;
  return bytes;
}

bool LoadsKernelsAtOnce(const std::optional<ComputeCapability>& cc) {
  return cc && *cc < ComputeCapability{8, 0};
}

StateFormat FormatOf(Precision precision, bool all_16_bit) {
  if (IsFullWidth(precision)) return StateFormat::kFp32;
  return all_16_bit ? StateFormat::kPure16 : StateFormat::kAmp;
}

StateFormat FormatUnder(Strategy strategy, StateFormat format, std::int64_t lora_rank) {
  if (format == StateFormat::kFp32 || lora_rank > 0 || !IsSharded(strategy)) return format;
  if (ZeroStage(strategy) > 0) return StateFormat::kMaster16;
  return format == StateFormat::kPure16 ? format : StateFormat::kFsdpMixed;
}

double ComputeBytes(StateFormat format) { return format == StateFormat::kFp32 ? 4 : 2; }

std::string_view ToString(Framework v) {
  switch (v) {
    case Framework::kUnknown:
      return "unknown";
    case Framework::kHf:
      return "hf";
    case Framework::kMegatron:
      return "megatron";
    case Framework::kTorchtitan:
      return "torchtitan";
    case Framework::kTorchtune:
      return "torchtune";
    case Framework::kLitgpt:
      return "litgpt";
    case Framework::kLlmFoundry:
      return "llm-foundry";
  }
  return "unknown";
}

std::string_view ToString(Checkpointing v) {
  switch (v) {
    case Checkpointing::kNone:
      return "none";
    case Checkpointing::kSelectiveOp:
      return "selective";
    case Checkpointing::kSelectiveLayer:
      return "selective-layer";
    case Checkpointing::kFull:
      return "full";
    case Checkpointing::kFullOffload:
      return "full+offload";
  }
  return "none";
}

std::string_view NameOf(Checkpointing v) {
  switch (v) {
    case Checkpointing::kNone:
      return "none";
    case Checkpointing::kSelectiveOp:
    case Checkpointing::kSelectiveLayer:
      return "selective";
    case Checkpointing::kFull:
    case Checkpointing::kFullOffload:
      return "full";
  }
  return "none";
}

}  // namespace launch
