// What `accelerate launch` is told: its flags and its configuration file, which use the same names.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/diagnosis.h"
#include "common/error.h"
#include "common/job.h"
#include "planner/line/deepspeed_config.h"

namespace launch {

// One setting, and the words that gave it: "--zero_stage 3", "zero_stage in accelerate.yaml".
struct AccelerateSetting {
  std::string value;
  std::string place;
  friend bool operator==(const AccelerateSetting&, const AccelerateSetting&) = default;
};

// Settings by the name of their flag ("num_processes", "fsdp_version"); a flag beats the file.
struct AccelerateSettings {
  std::string file;  // as written; empty = none was read
  std::map<std::string, AccelerateSetting> values;
  std::vector<std::string> unknown_keys;  // of the file, as far as is known here
  friend bool operator==(const AccelerateSettings&, const AccelerateSettings&) = default;

  const AccelerateSetting* Find(std::string_view name) const;  // null when absent or empty
  std::string Value(std::string_view name) const;              // empty when absent
  bool True(std::string_view name) const;                      // true, yes, 1
};

// A file as `accelerate config` writes it, YAML or JSON. kInvalidArgument with the place. Blocks
// (deepspeed_config, fsdp_config, dynamo_config) are flattened: their keys are the names of the
// flags.
Result<AccelerateSettings> ReadAccelerateConfig(std::string_view text, const std::string& path);

// The real program stops at keys that its version does not know.
std::optional<Finding> UnknownKeys(const AccelerateSettings& settings);

// Settings of the file for what no flag says.
void AddFileSettings(const AccelerateSettings& file, AccelerateSettings& settings);

// What the settings are for: one of these decides how a model is split.
enum class AccelerateKind { kPlain, kMultiDevice, kDeepspeed, kFsdp, kOther };
AccelerateKind KindOf(const AccelerateSettings& settings);

// Processes on each machine and machines; absent = not said. `num_processes` is a total over the
// machines. kInvalidArgument: not a number, or a total that the machines cannot share.
struct AccelerateShape {
  std::optional<int> per_machine;
  std::optional<int> machines;
};
Result<AccelerateShape> ShapeOf(const AccelerateSettings& settings);

// What the settings fix of a plan; absent = open.
struct AccelerateChoices {
  std::optional<Strategy> strategy;
  std::optional<Offload> offload;
  bool weights_alone = false;  // parameters are offloaded, optimizer states are not
  std::optional<Precision> precision;
  std::optional<std::int64_t> accumulate;
  std::string deepspeed_file;  // path as written; empty = none
  std::string strategy_place;
  std::string precision_place;
};
Result<AccelerateChoices> ChoicesOf(const AccelerateSettings& settings);

// The variables that `accelerate launch` gives its ranks for these settings
// (accelerate/utils/launch.py); those that follow the plan are in planner/start/environment_table.
std::map<std::string, std::string> AccelerateEnvironment(const AccelerateSettings& settings);

}  // namespace launch
