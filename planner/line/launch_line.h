// Reads `run`: a plain command, a launcher's line whose ranks we start ourselves, or a text that is
// started once per node with its launchers held to the plan.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/diagnosis.h"
#include "common/error.h"
#include "common/job.h"
#include "common/launch.h"
#include "planner/line/accelerate_settings.h"
#include "planner/line/device_flags.h"
#include "planner/line/launcher_arguments.h"
#include "planner/line/shell_place.h"

namespace launch {

// A file that the line names, and its text.
struct NamedText {
  std::string name;
  std::string text;
};

// What a line itself asks for; the job's own fields come first.
struct LineDemand {
  StartKind start = StartKind::kDirect;
  ProcsWord procs = ProcsWord::kNone;
  int procs_number = 0;
  bool procs_sure = false;  // of a text that starts once per node: whatever the node is like
  bool procs_of_all_nodes = false;  // accelerate's --num_processes without --num_machines
  std::optional<int> nodes_min;
  std::optional<int> nodes_max;
  std::optional<int> visible_devices;  // CUDA_VISIBLE_DEVICES= in front, read as a count
  std::string on_cpu;                  // "--cpu of the line": the line itself asks for the CPU
  friend bool operator==(const LineDemand&, const LineDemand&) = default;
};

struct LaunchLine : LineDemand {
  // kTorchrun, kDeepspeed, kAccelerate: what was found; kNode: a text with one of them inside.
  LauncherKind launcher = LauncherKind::kProcess;
  // Launchers that the text may call are ours first: they hold the call to the plan, or refuse it.
  bool wrappers = false;
  std::string shell;               // what bash -c of one rank, or of one node, executes
  bool interpreter_first = false;  // `shell` runs the interpreter that is given as last argument
  bool uses_arg_zero = false;      // the text itself looks at $0: that is "bash", as of `bash -c`
  std::string interpreter_of;      // launcher word whose shebang names the interpreter
  std::string command_word;        // first word of the command; empty = not checkable
  bool python = false;             // what runs is Python, as far as can be seen
  // The script takes the mere presence of RANK for a run of several processes on GPUs.
  bool rank_means_several = false;
  std::string script;   // first word behind the interpreter, for texts; may be empty
  bool module = false;  // `script` is a module's name (-m), not a file
  std::string role = "default";
  std::optional<NamedDevices> named_devices;  // by flags of a program
  bool maps_devices = false;                  // those in front of its Python programs are places
  bool drives_all_gpus = false;               // one process of the node does
  bool runs_make = false;                     // and a makefile's recipes were read
  bool reads_devices = false;                 // its text looks at $CUDA_VISIBLE_DEVICES
  std::optional<NamedText> deepspeed;  // the engine's file, of a text that starts once per node
  std::string hostfile_unread;         // of DeepSpeed, not at hand; empty: none, or it was read
  ShellPlace place;                    // where the command itself is started
  std::optional<AccelerateSettings> accelerate;
  std::map<std::string, std::string> env;  // what the launcher would give its ranks, by name
  std::vector<std::string> read;           // one sentence each
  std::vector<Finding> warnings;
  std::vector<ShellUse> uses;        // variables in the text
  std::vector<ShellWord> arguments;  // words behind the script, or of the plain command
};

// In front of a text that looks at $0: the interpreter is $1 then.
inline constexpr std::string_view kInterpreterBehindZero = "launch_python=$1; shift; ";

struct LaunchLineOptions {
  LauncherKind launcher = LauncherKind::kAuto;
  bool local_rank_arg = false;
  std::vector<EnvEntry> env;  // fixed values here may stand for variables in flags
  // Texts that the line names (a shell script, a configuration of accelerate), by path as written.
  std::map<std::string, std::string> files = {};
  // NNODES, NPROC_PER_NODE and their names under torchrun (PET_) and Slurm, as far as the job fixes
  // them: a text's own default for one of them counts where the job leaves it open.
  std::map<std::string, std::string, std::less<>> told = {};
  std::string workdir = {};  // absolute; empty: not known
  std::vector<int> gpu_ids = {};
  bool procs_written = false;  // the job has procs_per_node
  bool gpus_open = false;      // the job says nothing of GPUs or processes
  bool counts_only = false;    // asked for numbers that the job may still take over
  bool gpu_per_rank = false;   // each rank sees its own GPU alone
  bool names_python = false;   // `python` and `python3` of the line stand for the job's own
};

// kInvalidArgument: not bash, or a flag the launcher would refuse. kUnimplemented: a launcher of a
// later version; the message says what was seen, the hint what to write instead.
Result<LaunchLine> ReadLaunchLine(std::string_view run, const LaunchLineOptions& options);

// The job names the interpreter itself. In an image, what stands first on PATH is the image's.
bool NamesPython(const JobSpec& spec);

// The options a job gives, with the files its submitter read.
LaunchLineOptions LineOptions(const JobSpec& spec, const std::map<std::string, std::string>& files);

// True for names a rank's environment gets from the start itself: a line that sets them is wrong.
bool IsContractVariable(std::string_view name);

}  // namespace launch
