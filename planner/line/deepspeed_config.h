// DeepSpeed's configuration file: what a user's file fixes, and the file a plan writes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/diagnosis.h"
#include "common/error.h"
#include "common/job.h"
#include "common/plan.h"

namespace launch {

// What a user's file says; absent = not written, or "auto" (which a Hugging Face trainer fills in).
struct DeepspeedConfig {
  std::string path;  // as written in `run`, for texts
  std::optional<int> stage;
  Offload offload = Offload::kNone;
  bool weights_alone = false;  // offload_param without offload_optimizer, at stage 3
  bool pin_memory = false;
  std::optional<std::int64_t> train_batch;  // samples per optimizer step over all ranks
  std::optional<std::int64_t> micro;        // per rank
  std::optional<std::int64_t> accumulate;
  std::optional<Precision> precision;  // bf16 or fp16 when a block is enabled
  std::optional<double> gradient_clipping;
  std::optional<double> reduce_bucket;  // elements
  std::optional<double> gather_bucket;
  std::optional<bool> overlap_comm;
  std::string optimizer;               // "AdamW"; empty = the script brings its own
  std::vector<std::string> automatic;  // keys whose value is "auto", dotted: "bf16.enabled"
  std::vector<std::string> read;       // one sentence of what was read
  std::vector<Finding> findings;       // ds_config_unknown_key, ds_config_no_effect
};

// DeepSpeed's engine reads its file as Hjson; accelerate and the Hugging Face trainer read it
// themselves, as JSON, before they hand it on.
enum class ConfigReader { kDeepspeed, kJson };

// Reads a configuration of DeepSpeed. kInvalidArgument, with the place: not JSON, not an object, a
// key written twice, a wrong type, both fp16 and bf16 enabled, an impossible stage. Keys and rules:
// deepspeed/runtime/config.py, zero/config.py and zero/offload_config.py at commit edaa7221.
Result<DeepspeedConfig> ReadDeepspeedConfig(std::string_view text, const std::string& path,
                                            ConfigReader reader);

// What a generated file is made from; every number of it is the plan's.
struct DeepspeedPlan {
  int stage = 0;
  Offload offload = Offload::kNone;
  Precision precision = Precision::kBf16;
  std::int64_t micro = 1;
  std::int64_t accumulate = 1;
  std::int64_t global = 1;
  std::int64_t hidden = 0;  // sizes the buffers of stage 3; 0 = DeepSpeed's defaults
  bool pin_memory = true;
  std::optional<double> gradient_clipping;  // absent = DeepSpeed's own (1.0 in 0.19)
  double bucket = 5e8;                      // elements, of both buckets; DeepSpeed's default
};

// JSON text with every value explicit, no "auto": DeepSpeed itself does not understand that word.
std::string WriteDeepspeedConfig(const DeepspeedPlan& plan);

}  // namespace launch
