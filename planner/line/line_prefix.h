// What stands in front of the command that trains: cd, export, assignments, exec, time, env.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/diagnosis.h"
#include "common/job.h"
#include "planner/line/launcher_arguments.h"
#include "planner/line/shell_place.h"
#include "planner/line/shell_text.h"

namespace launch {

struct LaunchLineOptions;

// "A=1 exec time CMD ARGS": assignments and the index of the command word. exec, time, nohup and
// env are not kept: a rank's process is the command itself.
struct CommandParts {
  std::vector<ShellAssignment> assignments;
  std::size_t first = 0;
};
CommandParts PartsOf(const ShellCommand& command);

// cd, export, echo and other builtins that every rank may repeat, and assignments, each followed by
// another command.
bool IsPreparation(const ShellCommand& command);

// Reads the parts in order, leaves out what the plan decides, and keeps the rest as text.
class LinePrefix {
 public:
  explicit LinePrefix(const LaunchLineOptions& options);

  // The first `count` commands: preparation.
  void ReadPreparation(const ShellScript& script, std::size_t count);
  // "A=1 B=2 " of the command itself.
  std::string Assignments(const CommandParts& parts);

  const std::string& preparation() const { return preparation_; }
  const KnownVariables& known() const { return known_; }
  const ShellPlace& place() const { return place_; }
  // Names of the torch contract that the line sets and the plan replaces.
  const std::vector<std::string>& overridden() const { return overridden_; }
  std::optional<int> visible_devices() const { return visible_devices_; }
  // Whether the prefix sets PATH, so that programs are found on the node only.
  bool sets_path() const { return sets_path_; }
  const std::vector<Finding>& warnings() const { return warnings_; }

 private:
  bool Keep(const ShellAssignment& assignment);
  void TakeVisibleDevices(const ShellAssignment& assignment);

  std::string preparation_;
  KnownVariables known_;
  ShellPlace place_;
  std::vector<std::string> overridden_;
  std::optional<int> visible_devices_;
  bool sets_path_ = false;
  std::vector<Finding> warnings_;
};

}  // namespace launch
