// The flags of `accelerate launch`, read as its own argument parser does.
#pragma once

#include <string>
#include <vector>

#include "common/error.h"
#include "planner/line/accelerate_settings.h"
#include "planner/line/launcher_arguments.h"
#include "planner/line/shell_place.h"

namespace launch {

struct AccelerateArguments {
  LauncherArguments arguments;
  AccelerateSettings settings;  // of the flags, and of the file where its text is known
  std::string config_file;      // as written; empty = none
  std::optional<int> gpu_ids;   // how many --gpu_ids names
  bool cpu = false;             // --cpu, or use_cpu in the file
};

// `words[first]` is the first word behind "launch". `texts`: of files that the
// flags name; without --config_file, the user's default file stands under kAccelerateDefaultFile.
// kUnimplemented: a flag that is not known, Megatron-LM, TPUs, fp8 recipes, or a file that is not
// at hand; kInvalidArgument: what accelerate would refuse.
// Flags: accelerate/commands/launch.py of 1.x.
Result<AccelerateArguments> ReadAccelerate(const std::vector<ShellWord>& words, std::size_t first,
                                           const KnownVariables& known, const TextsAt& texts);

inline constexpr std::string_view kAccelerateDefaultFile =
    "~/.cache/huggingface/accelerate/default_config.yaml";

}  // namespace launch
