#include "cli/predict/memory_case.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <initializer_list>
#include <string>
#include <utility>

#include "cli/predict/case_words.h"
#include "common/gpu_catalog.h"
#include "common/units.h"

namespace launch {

namespace {

constexpr std::int64_t kSeqOfMemoryRuns = 512;
constexpr std::int64_t kUsualRanks = 8;
constexpr std::int64_t kUsualLoraRank = 8;

// 0 when the cell is empty; an error when it holds something else than a whole number from 0 on.
Result<std::int64_t> WholeNumber(const CaseTable& table, std::size_t row, std::string_view column) {
  if (table.Text(row, column).empty()) return 0;
  const auto value = table.Count(row, column);
  if (!value || *value < 0)
    return Fail(ErrorCode::kInvalidArgument, std::string(column) + " is \"" +
                                                 std::string(table.Text(row, column)) +
                                                 "\", not a whole number from 0 on");
  return *value;
}

Framework FrameworkOf(const std::string& word) {
  if (Has(word, "megatron")) return Framework::kMegatron;
  if (Has(word, "titan")) return Framework::kTorchtitan;
  if (Has(word, "torchtune")) return Framework::kTorchtune;
  if (Has(word, "litgpt") || Has(word, "lit-gpt")) return Framework::kLitgpt;
  if (Has(word, "foundry") || Has(word, "composer")) return Framework::kLlmFoundry;
  // Those that train by transformers' model code.
  for (const char* hf : {"hf", "transformers", "hugging", "trl", "peft", "accelerate", "axolotl",
                         "factory", "swift", "unsloth", "xtuner"})
    if (Has(word, hf)) return Framework::kHf;
  return Framework::kUnknown;
}

void ReadPrecision(const std::string& word, TrainingSetup& setup) {
  const bool fsdp = Has(word, "fsdp") || Has(word, "fp32params");
  if (Has(word, "gptq") || Has(word, "awq"))
    setup.base = BaseFormat::kGptq4;
  else if (Has(word, "nf4") || Has(word, "int4") || Has(word, "fp4") || Has(word, "4bit"))
    setup.base = BaseFormat::kNf4;
  else if (Has(word, "int8"))
    setup.base = BaseFormat::kInt8;
  // GPTQ's kernels take fp16: such a model runs in half precision throughout.
  setup.half_compute = setup.base != BaseFormat::kSame && Has(word, "fp16");
  const bool fp8 = Has(word, "fp8") && setup.base == BaseFormat::kSame;
  setup.compiled = fp8;  // eager fp8 is slower than 16 bits: nobody runs it
  if (fsdp || fp8)
    setup.format = StateFormat::kFsdpMixed;
  else if (Has(word, "amp") || Has(word, "autocast") || Has(word, "mixed"))
    setup.format = StateFormat::kAmp;
  else if (Has(word, "master"))
    setup.format = StateFormat::kMaster16;
  else if (Has(word, "16") || setup.base != BaseFormat::kSame)
    setup.format = StateFormat::kPure16;
  else if (Has(word, "32"))
    setup.format = StateFormat::kFp32;
  else
    setup.format = setup.lora_rank > 0 ? StateFormat::kPure16 : StateFormat::kAmp;
}

Strategy StrategyOf(std::string word, const std::string& stage) {
  std::erase_if(word, [](char c) { return c == '_' || c == '-' || c == ' '; });
  if (Has(word, "hybrid") || Has(word, "hsdp")) return Strategy::kFsdpHybrid;
  if (Has(word, "grad")) return Strategy::kFsdpGradOp;
  if (Has(word, "fsdp")) return stage == "2" ? Strategy::kFsdpGradOp : Strategy::kFsdp;
  if (Has(word, "zero") || Has(word, "deepspeed")) {
    for (const auto& [number, strategy] :
         {std::pair('1', Strategy::kZero1), std::pair('2', Strategy::kZero2),
          std::pair('3', Strategy::kZero3)}) {
      if (Has(word, std::string("zero") + number) || Has(word, std::string("stage") + number))
        return strategy;
    }
    if (Has(stage, "0")) return Strategy::kDdp;
    if (Has(stage, "1")) return Strategy::kZero1;
    return Has(stage, "3") ? Strategy::kZero3 : Strategy::kZero2;
  }
  if (Has(word, "ddp") || Has(word, "dp")) return Strategy::kDdp;
  return Strategy::kSingle;
}

LossPath LossOf(const std::string& word) {
  if (Has(word, "class")) return LossPath::kClassification;
  if (Has(word, "chunk")) return LossPath::kChunked;
  if (Has(word, "fused") || Has(word, "liger") || Has(word, "cut")) return LossPath::kFused;
  return LossPath::kFull;
}

struct Gpu {
  bool before_ampere = false;
  std::optional<double> usable_bytes;
};

// A fractional size is what torch saw; a whole one names the product, of which the driver and its
// context-free reserve leave 98.8 % (A100 80 GB: 79.1 GiB, RTX 3090: 23.7).
Gpu GpuOf(const CaseTable& table, std::size_t row) {
  const std::string word = Word(table, row, "gpu");
  const auto stated = table.Number(row, "gpu_mem_gb");
  const GpuType* type = GpuCatalog::BuiltIn().Find(word, stated);
  Gpu gpu;
  gpu.before_ampere =
      type != nullptr ? LoadsKernelsAtOnce(type->cc) : Has(word, "titan") || Has(word, "2080");
  if (!stated || *stated <= 0 || *stated > 1e6) return gpu;
  const bool product = std::floor(*stated) == *stated;
  double gib = *stated;
  if (product && type != nullptr && type->memory_gib) gib = std::min(gib, *type->memory_gib);
  gpu.usable_bytes = gib * kGiBytes * (product ? 0.988 : 1);
  return gpu;
}

void ReadMetric(const std::string& word, MemoryCase& out) {
  if (Has(word, "alloc") || Has(word, "active")) {
    out.metric = MemoryMetric::kAllocated;
  } else if (Has(word, "reserv")) {
    out.metric = MemoryMetric::kReserved;
  } else if (!word.empty() && !Has(word, "unspec")) {
    out.metric = MemoryMetric::kProcess;
  } else {
    // What the trainer itself logs; the others leave the user to read nvidia-smi, whose MiB are
    // usually passed on as decimal GB.
    switch (out.setup.framework) {
      case Framework::kTorchtune:
      case Framework::kLitgpt:
        out.metric = MemoryMetric::kAllocated;
        break;
      case Framework::kTorchtitan:
      case Framework::kLlmFoundry:
        out.metric = MemoryMetric::kReserved;
        break;
      case Framework::kUnknown:
      case Framework::kHf:
      case Framework::kMegatron:
        out.metric = MemoryMetric::kProcess;
        out.unstated_figure = true;
        break;
    }
  }
}

// The predicted peak in the metric of the row. The cache is elastic: what a run reserves ends at
// what the GPU has, and it may end anywhere above what its tensors take.
MemoryPeak PredictedFigure(const MemoryCase& row, const MemoryEstimate& estimate,
                           const MemoryConstants& constants) {
  MemoryPeak peak = PeakOf(estimate, row.metric);
  if (row.limit_bytes && row.metric != MemoryMetric::kAllocated &&
      DecisionBytes(estimate) <= *row.limit_bytes) {
    peak.low = std::min(peak.low, PeakOf(estimate, MemoryMetric::kAllocated).bytes);
    peak.high = std::min(peak.high, *row.limit_bytes);
    peak.bytes = std::min(peak.bytes, *row.limit_bytes);
  }
  if (row.unstated_figure) {
    peak.bytes *= constants.unstated_unit;
    peak.low *= constants.unstated_unit;
    peak.high *= constants.unstated_unit;
  }
  return peak;
}

// A table is what it is: where a card contradicts itself, the least telling of its figures is left
// out. The first error stands where that does not help.
Result<MemoryEstimate> PredictCase(const MemoryCase& row, const MemoryConstants& constants) {
  auto estimate = PredictMemory(row.card, row.setup, constants);
  if (estimate) return estimate;
  ModelCard card = row.card;
  const auto without = [&](std::initializer_list<std::int64_t ModelCard::*> fields) {
    for (const auto field : fields) card.*field = 0;
    return PredictMemory(card, row.setup, constants);
  };
  if (auto next = without({&ModelCard::heads, &ModelCard::kv_heads})) return next;
  const bool shape = card.layers > 0 && card.hidden > 0;
  if (!shape) return estimate;
  if (auto next = without({&ModelCard::params})) return next;
  return estimate;
}

}  // namespace

const std::set<std::string>& MemoryAnswerColumns() {
  static const std::set<std::string> columns = {"measured_peak_gb", "fits", "source"};
  return columns;
}

Result<MemoryCase> ReadMemoryCase(const CaseTable& table, std::size_t row) {
  LAUNCH_RETURN_IF_ERROR(table.CheckRow(row));
  MemoryCase out;
  ModelCard& card = out.card;
  TrainingSetup& setup = out.setup;
  LAUNCH_ASSIGN_OR_RETURN(card.params, WholeNumber(table, row, "params"));
  LAUNCH_ASSIGN_OR_RETURN(card.layers, WholeNumber(table, row, "layers"));
  LAUNCH_ASSIGN_OR_RETURN(card.hidden, WholeNumber(table, row, "hidden"));
  LAUNCH_ASSIGN_OR_RETURN(card.heads, WholeNumber(table, row, "heads"));
  LAUNCH_ASSIGN_OR_RETURN(card.kv_heads, WholeNumber(table, row, "kv_heads"));
  LAUNCH_ASSIGN_OR_RETURN(card.vocab, WholeNumber(table, row, "vocab"));
  const std::string tied = Word(table, row, "tied");
  card.tied = tied == "yes" || tied == "true";

  const std::string strategy = Word(table, row, "strategy");
  setup.framework = FrameworkOf(Word(table, row, "framework"));
  LAUNCH_ASSIGN_OR_RETURN(setup.lora_rank, WholeNumber(table, row, "lora_rank"));
  const std::string precision = Word(table, row, "precision");
  if (setup.lora_rank == 0 && (Has(strategy, "lora") || Has(precision, "lora")))
    setup.lora_rank = kUsualLoraRank;
  ReadPrecision(precision, setup);
  setup.strategy = StrategyOf(strategy, Word(table, row, "zero_stage"));
  const std::string offload = Word(table, row, "offload");
  setup.offload = Has(offload, "param") || Has(offload, "all") ? Offload::kAll
                  : offload.empty() || offload == "none" || offload == "no" || offload == "false"
                      ? Offload::kNone
                      : Offload::kOptimizer;
  setup.optimizer = OptimizerOf(Word(table, row, "optimizer"));
  setup.checkpointing = CheckpointingOf(Word(table, row, "act_ckpt"));
  setup.loss = LossOf(Word(table, row, "loss"));
  setup.variable_length = Word(table, row, "variable_length") == "yes";
  const Gpu gpu = GpuOf(table, row);
  setup.volta_context = gpu.before_ampere;
  out.limit_bytes = gpu.usable_bytes;
  const std::string flash = Word(table, row, "flash_attn");
  const bool eager = flash == "no" || flash == "false" || flash == "none" || Has(flash, "eager") ||
                     (flash.empty() && setup.volta_context);
  setup.attention = eager ? Attention::kEager : Attention::kFlash;
  if (setup.loss == LossPath::kClassification) card.architecture = Architecture::kEncoder;

  LAUNCH_ASSIGN_OR_RETURN(std::int64_t gpus, WholeNumber(table, row, "n_gpus"));
  if (gpus == 0) gpus = setup.strategy == Strategy::kSingle ? 1 : kUsualRanks;
  if (gpus > 10'000'000) return Fail(ErrorCode::kInvalidArgument, "n_gpus is absurd");
  if (Has(strategy, "split") || Has(strategy, "pipeline"))
    setup.pipeline_parts = static_cast<int>(gpus);
  if (setup.strategy != Strategy::kSingle) setup.ranks = static_cast<int>(gpus);

  LAUNCH_ASSIGN_OR_RETURN(setup.seq, WholeNumber(table, row, "seq"));
  LAUNCH_ASSIGN_OR_RETURN(setup.micro_batch, WholeNumber(table, row, "micro_batch"));
  out.assumed_batch = setup.seq == 0 || setup.micro_batch == 0;
  if (setup.seq == 0) setup.seq = kSeqOfMemoryRuns;
  if (setup.micro_batch == 0) setup.micro_batch = 1;
  ReadMetric(Word(table, row, "metric"), out);
  return out;
}

Result<MemoryAnswer> AnswerMemoryCase(const MemoryCase& row, const MemoryConstants& constants) {
  LAUNCH_ASSIGN_OR_RETURN(MemoryEstimate estimate, PredictCase(row, constants));
  MemoryAnswer answer;
  answer.peak = PredictedFigure(row, estimate, constants);
  if (row.limit_bytes) answer.fits = JudgeFit(estimate, *row.limit_bytes);
  answer.estimate = std::move(estimate);
  return answer;
}

}  // namespace launch
