// The flags behind a script, as an argument parser reads them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/line/shell_text.h"

namespace launch {

struct ScriptFlag {
  std::string name;                  // without dashes, '_' for '-': "per_device_train_batch_size"
  std::string flag;                  // as written, without its value: "--micro-batch"
  std::string text;                  // with it: "--micro-batch 4"
  std::optional<std::string> value;  // absent for a switch, and for what only the start knows
  bool late = false;                 // its value is a variable's
  friend bool operator==(const ScriptFlag&, const ScriptFlag&) = default;
};

// `--flag value` and `--flag=value`, in the order written. A word behind a flag is its value unless
// it is a flag itself; "-1" is a number.
std::vector<ScriptFlag> ReadScriptFlags(const std::vector<ShellWord>& words);

}  // namespace launch
