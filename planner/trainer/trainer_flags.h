// What the words behind a script tell about the run: the flags of the Hugging Face trainer and kin.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/job.h"
#include "planner/line/launch_line.h"

namespace launch {

// A value and the word that gave it, for texts: "--bf16", "--per_device_train_batch_size 4".
template <class T>
struct Flag {
  T value{};
  std::string written;
};

// Flags of a trainer in a line. Absent: not in the line, or a variable whose value only the start
// knows.
struct TrainerFlags {
  std::optional<Flag<std::int64_t>> micro;       // per_device_train_batch_size
  std::optional<Flag<std::int64_t>> accumulate;  // gradient_accumulation_steps
  std::optional<Flag<Precision>> precision;      // bf16, fp16
  std::optional<Flag<bool>> checkpointing;       // gradient_checkpointing
  std::optional<Flag<std::string>> optimizer;    // optim
  std::optional<Flag<std::int64_t>> steps;       // max_steps
  std::optional<Flag<double>> epochs;            // num_train_epochs
  std::optional<Flag<std::int64_t>> seq;         // model_max_length, max_seq_length, block_size ...
  std::optional<Flag<std::int64_t>> lora_rank;   // lora_r, lora_rank
  std::optional<Flag<std::int64_t>> workers;     // dataloader_num_workers
  std::optional<Flag<std::int64_t>> eval_batch;  // per_device_eval_batch_size
  bool evaluates = false;                        // do_eval, eval_strategy other than no
  std::optional<Flag<std::string>> deepspeed;    // path of a configuration file
  std::optional<Flag<std::string>> fsdp;         // "full_shard auto_wrap"
  std::optional<Flag<double>> gradient_clipping;  // max_grad_norm
  std::set<std::string> names;                    // of every flag, "learning_rate"
  bool hugging_face = false;                      // flags that only its trainer has
};

// Reads words like an argument parser: `--flag value`, `--flag=value`, dashes for underscores; the
// last one wins; a value that cannot be read counts as absent. kInvalidArgument: bf16 and fp16.
Result<TrainerFlags> ReadTrainerFlags(const std::vector<ShellWord>& arguments);

}  // namespace launch
