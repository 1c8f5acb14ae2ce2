// Reads `run`: a plain command, a torchrun line whose ranks we start ourselves, or something later.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/diagnosis.h"
#include "common/error.h"
#include "common/job.h"
#include "planner/launcher_arguments.h"

namespace launch {

struct LaunchLine {
  // kTorchrun, kDeepspeed: taken apart, its ranks started directly.
  LauncherKind launcher = LauncherKind::kProcess;
  std::string shell;               // what bash -c of one rank executes
  bool interpreter_first = false;  // `shell` runs "$0": the interpreter, given as last argument
  std::string interpreter_of;      // launcher word whose shebang names the interpreter
  std::string command_word;        // first word of the command; empty = not checkable
  bool python = false;             // what runs is Python, as far as can be seen
  std::string script;              // first word behind the interpreter, for texts; may be empty
  std::string role = "default";
  // What the line itself asks for; the job's own fields come first.
  ProcsWord procs = ProcsWord::kNone;
  int procs_number = 0;
  std::optional<int> nodes_min;
  std::optional<int> nodes_max;
  std::optional<int> visible_devices;  // CUDA_VISIBLE_DEVICES= in front, read as a count
  std::vector<std::string> read;       // one sentence each
  std::vector<Finding> warnings;
  std::vector<ShellUse> uses;        // variables in the text
  std::vector<ShellWord> arguments;  // words behind the script, or of the plain command
};

struct LaunchLineOptions {
  LauncherKind launcher = LauncherKind::kAuto;
  bool local_rank_arg = false;
  std::vector<EnvEntry> env;  // fixed values here may stand for variables in flags
};

// kInvalidArgument: not bash, or a flag torchrun would refuse. kUnimplemented: a launcher or a form
// of a later version; the message says what was seen, the hint what to write instead.
Result<LaunchLine> ReadLaunchLine(std::string_view run, const LaunchLineOptions& options);

// The options a job gives.
LaunchLineOptions LineOptions(const JobSpec& spec);

// True for names a rank's environment gets from the start itself: a line that sets them is wrong.
bool IsContractVariable(std::string_view name);

}  // namespace launch
