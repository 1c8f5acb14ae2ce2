#include "cli/job_fields.h"
#include "planner/model/strategy.h"

namespace launch {
namespace {

constexpr std::int64_t kMaxCount = 1'000'000'000'000;

Result<void> SetCount(const FieldValue& value, std::optional<std::int64_t>& count) {
  LAUNCH_ASSIGN_OR_RETURN(std::string text, value.Text());
  count.reset();
  if (text == "auto") return {};
  LAUNCH_ASSIGN_OR_RETURN(count, value.Integer(1, kMaxCount));
  return {};
}

Result<void> SetStrategy(JobDraft& draft, const FieldValue& value) {
  LAUNCH_ASSIGN_OR_RETURN(std::string text, value.Text());
  if (const auto word = ParseStrategyWord(text); word && word->offload) {
    draft.spec.strategy = word->strategy;
    draft.strategy_offload = word->offload;
    return {};
  }
  // Another strategy, on the command line, takes back what that word had said beside it.
  draft.strategy_offload.reset();
  LAUNCH_ASSIGN_OR_RETURN(
      draft.spec.strategy,
      Choice(value, ParseStrategy,
             {"auto", "single", "ddp", "zero1", "zero2", "zero3", "fsdp", "fsdp-grad-op",
              "fsdp-hybrid", "zero2-offload", "zero3-offload"}));
  return {};
}

Result<void> SetPrecision(JobDraft& draft, const FieldValue& value) {
  if (value.written() == "mixed_precision" && value.node().scalar == "no") {
    draft.spec.precision = Precision::kFp32;
    return {};
  }
  LAUNCH_ASSIGN_OR_RETURN(
      draft.spec.precision,
      Choice(value, ParsePrecision, {"auto", "bf16", "fp16", "fp32", "tf32", "fp8"}));
  return {};
}

// `model:` keeps the user's words; the planner reads them.
Result<void> SetModel(JobDraft& draft, const FieldValue& value) {
  const std::string key(value.field().substr(std::string_view("model.").size()));
  LAUNCH_ASSIGN_OR_RETURN(std::vector<std::string> words, value.Texts());
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
  draft.spec.model.fields[key] = std::move(text);
  return {};
}

constexpr JobField kTrainingFields[] = {
    {"strategy", "",
     "auto | single | ddp | zero1 | zero2 | zero3 | fsdp | fsdp-grad-op | fsdp-hybrid", "auto",
     "How the model is split; an explicit value is checked, never overridden.", SetStrategy},
    {"offload", "", "auto | none | optimizer | all", "auto", "What moves to host memory.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.offload,
                               Choice(value, ParseOffload, {"auto", "none", "optimizer", "all"}));
       return {};
     }},
    {"precision", "mixed_precision", "auto | bf16 | fp16 | fp32 | tf32 | fp8", "auto",
     "Number format; auto goes by the weakest device of the job.", SetPrecision},
    {"allow_precision_change", "", "true | false", "false",
     "Whether a retry may change the precision.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.allow_precision_change, value.Bool());
       return {};
     }},
    {"batch.global", "train_batch_size global_batch_size", "N or auto", "auto",
     "Samples per optimizer step over all ranks.",
     [](JobDraft& draft, const FieldValue& value) {
       return SetCount(value, draft.spec.batch.global);
     }},
    {"batch.micro", "train_micro_batch_size_per_gpu per_device_train_batch_size", "N or auto",
     "auto", "Samples per forward pass of one rank.",
     [](JobDraft& draft, const FieldValue& value) {
       return SetCount(value, draft.spec.batch.micro);
     }},
    {"batch.accumulate", "gradient_accumulation_steps", "N or auto", "auto",
     "Forward passes per optimizer step.",
     [](JobDraft& draft, const FieldValue& value) {
       return SetCount(value, draft.spec.batch.accumulate);
     }},
    {"model.params", "", "count, 8B", "unset", "Number of parameters.", SetModel},
    {"model.layers", "", "N", "unset", "Transformer layers.", SetModel},
    {"model.hidden", "", "N", "unset", "Hidden size.", SetModel},
    {"model.heads", "", "N", "unset", "Attention heads.", SetModel},
    {"model.kv_heads", "", "N", "heads", "Key and value heads.", SetModel},
    {"model.ffn", "", "N", "unset", "Size of the feed-forward layer.", SetModel},
    {"model.vocab", "", "N", "unset", "Size of the vocabulary.", SetModel},
    {"model.seq_len", "", "N", "unset", "Tokens per sample.", SetModel},
    {"model.tied", "", "true | false", "unset", "Input and output embeddings are one.", SetModel},
    {"model.optimizer", "", "name", "unset", "Optimizer: adamw, sgd, ...", SetModel},
    {"model.lora.rank", "", "N", "none", "Rank of a LoRA adapter.", SetModel},
    {"model.lora.targets", "", "list", "none", "Layers the adapter sits in.", SetModel},
    {"model.quantization", "", "name", "none", "Format of frozen weights.", SetModel},
    {"model.attention", "", "flash | eager", "unset", "Kind of attention.", SetModel},
    {"model.loss", "", "full | chunked | fused", "unset",
     "How the loss over the vocabulary is made.", SetModel},
    {"model.activation_checkpointing", "", "none | selective | full", "none",
     "What is computed again in the backward pass.", SetModel},
    {"model.master_weights", "", "true | false", "true",
     "Whether 16-bit weights have a copy in fp32; false for pure bf16.", SetModel},
    {"model.variable_length", "", "true | false", "false", "Samples differ in length.", SetModel},
    {"model.config", "", "path", "unset", "A config.json that holds these numbers.", SetModel},
    {"model.probe", "", "true | false", "false", "Measure instead of predict.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.model.probe, value.Bool());
       return {};
     }},
    {"dataset.samples", "", "N", "unset", "Size of the training set: gives steps and duration.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       if (!draft.spec.dataset) draft.spec.dataset.emplace();
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.dataset->samples, value.Integer(1, kMaxCount));
       return {};
     }},
    {"dataset.epochs", "", "number", "1", "Passes over the training set.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       if (!draft.spec.dataset) draft.spec.dataset.emplace();
       LAUNCH_ASSIGN_OR_RETURN(double epochs, value.Number());
       if (!(epochs > 0 && epochs < 1e9)) return value.Bad("must be above 0");
       draft.spec.dataset->epochs = epochs;
       return {};
     }},
    {"steps", "", "N", "unset", "Optimizer steps of the whole run.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.steps, value.Integer(1, kMaxCount));
       return {};
     }},
    {"trainer", "", "auto | hf | deepspeed | accelerate | lightning | plain", "auto",
     "Which framework the script uses.",
     [](JobDraft& draft, const FieldValue& value) -> Result<void> {
       LAUNCH_ASSIGN_OR_RETURN(draft.spec.trainer, Choice(value, ParseTrainer,
                                                          {"auto", "hf", "deepspeed", "accelerate",
                                                           "lightning", "plain"}));
       return {};
     }},
};

}  // namespace

std::span<const JobField> TrainingFields() { return kTrainingFields; }

}  // namespace launch
