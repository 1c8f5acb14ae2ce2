#include "cli/predict/throughput_case.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>

#include "cli/predict/case_words.h"

namespace launch {

namespace {

// Shards of one node in the systems that such tables are made on (DGX, HGX).
constexpr int kUsualGpusPerNode = 8;
// Where a table has no column for it: vocabularies of GPT-2 and NeoX kind, and Llama's.
constexpr std::int64_t kUsualVocab = 50304;
constexpr std::int64_t kSmallVocab = 32000;
constexpr std::int64_t kSeqOfThroughputRuns = 2048;

// What blocks of 12 hidden^2 leave of the parameters is the embedding, shared with the head.
std::int64_t VocabOf(const ModelCard& card) {
  if (card.layers == 0 || card.hidden == 0) return 0;
  const double hidden = static_cast<double>(card.hidden);
  const double left =
      static_cast<double>(card.params) - 12 * static_cast<double>(card.layers) * hidden * hidden;
  const double rows = left / hidden;
  if (rows >= 0.9 * kSmallVocab) return std::min<std::int64_t>(kUsualVocab, std::llround(rows));
  // Gated blocks with grouped queries are smaller than 12 hidden^2 or larger: assume a small one.
  return hidden * kSmallVocab < 0.5 * static_cast<double>(card.params) ? kSmallVocab : 0;
}

// Absent as well for what is no count of anything: zero and negative numbers.
std::optional<std::int64_t> Positive(const CaseTable& table, std::size_t row, const char* column) {
  const auto count = table.Count(row, column);
  return count && *count > 0 ? count : std::nullopt;
}

Result<ModelCard> CardOf(const CaseTable& table, std::size_t row) {
  ModelCard card;
  card.architecture = Architecture::kDecoder;
  card.params = Positive(table, row, "params").value_or(0);
  card.layers = Positive(table, row, "layers").value_or(0);
  card.hidden = Positive(table, row, "hidden").value_or(0);
  card.heads = Positive(table, row, "heads").value_or(0);
  card.kv_heads = Positive(table, row, "kv_heads").value_or(0);
  card.vocab = Positive(table, row, "vocab").value_or(0);
  card.active_params = Positive(table, row, "active_params").value_or(0);
  const std::string tied = Word(table, row, "tied");
  card.tied = tied.empty() ? table.Text(row, "vocab").empty() : tied != "no" && tied != "false";
  if (card.vocab == 0) card.vocab = VocabOf(card);
  return CompleteCard(card);
}

Strategy StrategyOf(const std::string& word, int ranks) {
  if (ranks <= 1) return Strategy::kSingle;
  if (Has(word, "hybrid")) return Strategy::kFsdpHybrid;
  if (Has(word, "grad")) return Strategy::kFsdpGradOp;
  if (Has(word, "full") || Has(word, "fsdp")) return Strategy::kFsdp;
  if (Has(word, "zero") || Has(word, "stage")) {
    if (Has(word, "3")) return Strategy::kZero3;
    if (Has(word, "2")) return Strategy::kZero2;
    return Strategy::kZero1;
  }
  if (Has(word, "ddp") || Has(word, "no_shard") || Has(word, "none")) return Strategy::kDdp;
  return Strategy::kFsdp;
}

StateFormat FormatOfCase(const std::string& precision, Strategy strategy) {
  if (precision == "fp32" || precision == "tf32") return StateFormat::kFp32;
  const bool fsdp = strategy == Strategy::kFsdp || strategy == Strategy::kFsdpGradOp ||
                    strategy == Strategy::kFsdpHybrid;
  if (fsdp) return StateFormat::kFsdpMixed;
  if (Has(precision, "pure") || Has(precision, "lora")) return StateFormat::kPure16;
  if (Has(precision, "amp")) return StateFormat::kAmp;
  return StateFormat::kMaster16;
}

Precision PrecisionOf(const std::string& word) {
  if (Has(word, "fp8")) return Precision::kFp8;
  if (Has(word, "fp16")) return Precision::kFp16;
  if (word == "tf32") return Precision::kTf32;
  if (word == "fp32") return Precision::kFp32;
  return Precision::kBf16;
}

Machine MachineOf(const CaseTable& table, std::size_t row, int ranks) {
  const GpuCatalog& catalog = GpuCatalog::BuiltIn();
  const std::string name(table.Text(row, "gpu"));
  const std::optional<double> memory = table.Number(row, "gpu_mem_gb");
  const GpuType* type = catalog.Find(name, memory);
  if (type == nullptr) type = catalog.Find(name, std::nullopt);
  Machine machine;
  if (type == nullptr) {
    // Nothing is known but, perhaps, the memory: the class of that size, else a usual accelerator.
    GpuDevice device;
    device.memory_bytes =
        static_cast<std::uint64_t>(std::clamp(memory.value_or(80), 1.0, 1e4) * 1e9);
    machine = launch::MachineOf(catalog, device);
  } else {
    machine.gpu = GpuCatalog::VariantOf(*type, name);
  }
  machine.gpus_per_node = std::min(ranks, kUsualGpusPerNode);
  return machine;
}

// An empty cell is open; one that says what cannot be is no prediction.
Result<void> CheckStated(const CaseTable& table, std::size_t row, const char* column) {
  const std::string_view text = table.Text(row, column);
  if (text.empty() || table.Count(row, column).value_or(0) >= 1) return {};
  return Fail(ErrorCode::kInvalidArgument, std::string(column) + " is \"" +
                                               std::string(text.substr(0, 40)) +
                                               "\", not a whole number from 1");
}

int Bounded(std::optional<std::int64_t> count, int otherwise) {
  if (!count || *count < 1) return otherwise;
  return static_cast<int>(std::min<std::int64_t>(*count, 1'000'000));
}

}  // namespace

const std::set<std::string>& ThroughputColumnsNeverRead() {
  static const std::set<std::string> columns = {"mfu_pct", "hfu_pct", "tokens_per_s_per_gpu",
                                                "source", "model"};
  return columns;
}

Result<ThroughputCase> ReadThroughputCase(const CaseTable& table, std::size_t row) {
  LAUNCH_RETURN_IF_ERROR(table.CheckRow(row));
  for (const char* column : {"params", "layers", "hidden", "n_gpus", "seq"})
    LAUNCH_RETURN_IF_ERROR(CheckStated(table, row, column));
  ThroughputCase read;
  LAUNCH_ASSIGN_OR_RETURN(read.card, CardOf(table, row));
  const int ranks = Bounded(table.Count(row, "n_gpus"), 1);
  const std::string precision = Word(table, row, "precision");
  TrainingSetup& setup = read.setup;
  setup.ranks = ranks;
  setup.ranks_per_node = std::min(ranks, kUsualGpusPerNode);
  setup.strategy = StrategyOf(Word(table, row, "sharding"), ranks);
  setup.format = FormatOfCase(precision, setup.strategy);
  setup.checkpointing = CheckpointingOf(Word(table, row, "act_ckpt"));
  setup.seq = Positive(table, row, "seq").value_or(kSeqOfThroughputRuns);
  setup.lora_rank = Positive(table, row, "lora_rank").value_or(0);
  setup.attention = Word(table, row, "flash_attn") == "no" ? Attention::kEager : Attention::kFlash;
  read.time.precision = PrecisionOf(precision);
  read.time.accumulate = Positive(table, row, "grad_accum").value_or(1);
  // Rows without a framework are those of tuned trainers: others do not publish throughput tables.
  const std::string framework = Word(table, row, "framework");
  read.time.tuned_code = framework != "hf" && framework != "eager";
  const auto micro = Positive(table, row, "micro_batch");
  const auto global = Positive(table, row, "global_batch");
  setup.micro_batch = micro.value_or(
      global ? std::max<std::int64_t>(1, *global / ranks / read.time.accumulate) : 1);
  read.machine = MachineOf(table, row, ranks);
  return read;
}

}  // namespace launch
