// TrainingSetup: everything about a run, apart from the model, that decides its memory.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "common/error.h"
#include "common/inventory.h"
#include "common/job.h"

namespace launch {

// Which code computes: eager Hugging Face code keeps more than a fused trainer.
enum class Framework {
  kUnknown,
  kHf,          // transformers, with or without DeepSpeed, accelerate, PEFT
  kMegatron,    // Megatron-LM and Megatron-DeepSpeed
  kTorchtitan,  // FSDP2, fp32 shards
  kTorchtune,
  kLitgpt,
  kLlmFoundry,  // Composer, FSDP1
};

// In which formats weights, gradients and optimizer states live.
enum class StateFormat {
  kFp32,       // everything fp32
  kAmp,        // fp32 weights and gradients, autocast computes in 16 bits
  kMaster16,   // 16-bit weights and gradients, fp32 master and states (DeepSpeed, Megatron)
  kPure16,     // everything 16 bits, states too
  kFsdpMixed,  // fp32 shards; gathered and computed in 16 bits
};

// Linear layers of a block that can carry an adapter; some models keep several in one matrix.
enum class AdaptedLayer { kQuery, kKey, kValue, kOutput, kQkv, kGate, kUp, kDown, kGateUp };
enum class BaseFormat { kSame, kInt8, kNf4, kGptq4 };  // of frozen weights under adapters
enum class Checkpointing { kNone, kSelectiveOp, kSelectiveLayer, kFull, kFullOffload };
enum class Attention { kFlash, kEager };
enum class LossPath { kFull, kChunked, kFused, kClassification };

// Bytes of state per trainable parameter follow from these and the StateFormat.
struct OptimizerTraits {
  int moments = 2;           // Adam 2, Lion and momentum 1, plain SGD and Adafactor 0
  double moment_bytes = 0;   // 0 = as the format says; 8-bit 1, 4-bit 0.5
  bool fused = false;        // one kernel, no temporaries
  bool in_backward = false;  // steps while gradients appear: none is kept, no accumulation
  bool paged = false;        // states may leave the GPU
  bool on_host = false;      // steps on the CPU (DeepSpeedCPUAdam)
  friend bool operator==(const OptimizerTraits&, const OptimizerTraits&) = default;
};

struct TrainingSetup {
  Framework framework = Framework::kUnknown;
  Strategy strategy = Strategy::kSingle;  // never kAuto
  Offload offload = Offload::kNone;       // never kAuto
  int ranks = 1;
  int ranks_per_node = 0;  // 0 = all on one node; hybrid sharding stays within a node
  int pipeline_parts = 1;  // layers cut into parts, one GPU each

  std::int64_t micro_batch = 1;
  std::int64_t seq = 0;
  std::int64_t eval_batch = 0;          // 0 = no evaluation
  std::optional<bool> keeps_gradients;  // across micro-steps; absent = by framework

  StateFormat format = StateFormat::kMaster16;
  bool compiled = false;  // torch.compile
  OptimizerTraits optimizer;
  std::int64_t lora_rank = 0;      // 0 = full training
  std::set<AdaptedLayer> adapted;  // empty = every linear layer
  BaseFormat base = BaseFormat::kSame;
  bool host_weights = false;  // ZeRO-3's offload_param without offload_optimizer
  bool half_compute = false;  // the model runs in fp16 throughout, without autocast

  Checkpointing checkpointing = Checkpointing::kNone;
  Attention attention = Attention::kFlash;
  LossPath loss = LossPath::kFull;
  bool variable_length = false;

  std::optional<double> reduce_bucket;  // elements; absent = the framework's default
  std::optional<double> gather_bucket;
  bool overlap_comm = true;
  bool volta_context = false;  // LoadsKernelsAtOnce
  bool coherent_host = false;  // GH200: CPU and GPU share one address space
  friend bool operator==(const TrainingSetup&, const TrainingSetup&) = default;
};

// Checks the setup. kInvalidArgument names the field: zero or negative batch, sequence or ranks,
// absurd sizes, a single GPU strategy on several ranks.
Result<void> CheckSetup(const TrainingSetup& setup);

// How far weights, gradients and optimizer states are divided as they rest, in ranks (1 = whole).
// FSDP's SHARD_GRAD_OP rests in shards too: it keeps what it gathers until the backward pass ends.
struct Shards {
  double weights = 1;
  double gradients = 1;
  double optimizer = 1;
};
Shards ShardsOf(const TrainingSetup& setup);

// Do weights rest in host memory and pass the GPU block by block?
bool HostHoldsWeights(const TrainingSetup& setup);

// The traits of an optimizer by its word: "adamw", "paged_adamw8bit", "adamw_fused", "cpu_adam",
// "adafactor", "lion", "sgd" ... An unknown word means Adam, the usual choice that takes most
// memory: ask NamesOptimizer first.
OptimizerTraits OptimizerOf(std::string_view word);

// GPUs before Ampere are taken to load every kernel with the context, which costs more memory;
// unknown ones are not.
bool LoadsKernelsAtOnce(const std::optional<ComputeCapability>& cc);

// Bytes that each parameter costs, by format.
struct StateBytes {
  double weight = 0;
  double gradient = 0;
  double optimizer = 0;  // states and fp32 master
  double step = 0;       // temporaries while the optimizer steps
};
StateBytes StateBytesOf(StateFormat format, const OptimizerTraits& optimizer);

// The format of a script that shards nothing: fp32 weights under autocast, unless it keeps
// everything in 16 bits, as it does under adapters.
StateFormat FormatOf(Precision precision, bool all_16_bit);

// What `format` becomes where the strategy shards: 16-bit weights with an fp32 master (DeepSpeed's
// engine has one even where the script would do without), or FSDP's fp32 shards. Frozen weights
// under adapters, and fp32, stay as they are.
StateFormat FormatUnder(Strategy strategy, StateFormat format, std::int64_t lora_rank);

// Bytes of one number of what is computed: activations, and weights gathered for it.
double ComputeBytes(StateFormat format);

std::string_view ToString(Framework v);
std::string_view ToString(Checkpointing v);
std::string_view NameOf(Checkpointing v);  // as the job file says it: none | selective | full

}  // namespace launch
