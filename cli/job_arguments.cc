#include "cli/job_arguments.h"

#include <CLI/CLI.hpp>

#include "cli/conda_names.h"
#include "cli/debug_run.h"
#include "cli/shell_syntax.h"
#include "planner/line/pasted_text.h"

namespace launch {
namespace {

struct FieldFlag {
  const char* flag;
  const char* field;
  const char* help;
};
// Flags for the fields that people change from run to run; any field can be given as `--
// key=value`.
constexpr FieldFlag kFieldFlags[] = {
    {"--name", "name", "Name of the job"},
    {"--nodes,-N", "nodes", "Number of nodes"},
    {"--gpus", "gpus", "GPUs per node: 8, H100:8"},
    {"--gpu-ids", "gpu_ids", "GPUs to use on each node, in PCI order: 1,3"},
    {"--procs-per-node", "procs_per_node", "Processes per node"},
    {"--device", "device", "Device to train on: auto, cuda, mps or cpu"},
    {"--workdir,-C", "workdir", "Working directory"},
    {"--venv", "venv", "Virtual environment to run in"},
    {"--conda", "conda", "Conda environment to run in"},
    {"--python", "python", "Python interpreter to use"},
    {"--strategy", "strategy", "How the model is split"},
    {"--precision", "precision", "Precision: auto, bf16, fp16, fp32, tf32 or fp8"},
    {"--launcher", "launcher", "How `run` is started"},
    {"--time,-t", "time", "Time limit: 12h"},
    {"--nodelist,-w", "nodelist", "Run only on these nodes: gpu[01-04]"},
    {"--exclude,-x", "exclude_nodes", "Do not run on these nodes: gpu07"},
    {"--array,-a", "array", "One job for each index, at most 4 at a time: 1-20%4"},
    {"--dependency,-d", "depends_on", "Start after other jobs: afterok:17"},
    {"--begin", "begin", "Do not start before this time: 20:00, now+2h"},
    {"--priority", "priority", "Priority, 0 to 100; higher starts earlier"},
    {"--constraints", "constraints", "Conditions that a node must meet"},
    {"--preflight", "preflight.level", "Checks before the start: none, quick or full"},
};

}  // namespace

void JobArguments::AddFlags(CLI::App& verb) {
  values.resize(std::size(kFieldFlags));
  verb.add_option("-e,--env", env,
                  "Set a variable for the ranks: KEY=VALUE, or KEY to copy it from here")
      ->take_all();
  for (std::size_t i = 0; i < std::size(kFieldFlags); ++i)
    verb.add_option(kFieldFlags[i].flag, values[i], kFieldFlags[i].help)->group("Job fields");
}

void JobArguments::AddTo(CLI::App& verb) {
  verb.add_option("file", file,
                  "Job file (- for standard input); or give a training command after --");
  AddFlags(verb);
}

Result<ReadJob> JobArguments::Read(const App& app, const std::string& cwd) const {
  std::vector<JobOverride> overrides;
  for (std::size_t i = 0; i < std::size(kFieldFlags); ++i) {
    if (values[i].empty()) continue;
    std::string flag = kFieldFlags[i].flag;
    overrides.push_back({kFieldFlags[i].field, values[i], flag.substr(0, flag.find(','))});
  }
  for (const std::string& one : env) overrides.push_back({"env", one, "-e"});
  if (!file.empty()) {
    for (const std::string& word : app.rest.value_or(std::vector<std::string>())) {
      LAUNCH_ASSIGN_OR_RETURN(JobOverride change, ParseOverride(word));
      overrides.push_back(std::move(change));
    }
    return ReadJobFile(file, overrides, cwd);
  }
  if (!app.rest || app.rest->empty())
    return Fail(ErrorCode::kInvalidArgument, "neither a job file nor a training line was given",
                "launch submit job.yaml, or launch submit -- torchrun train.py");
  return ReadJobLine(*app.rest, overrides, cwd);
}

Result<PreparedJob> PrepareJob(const App& app, const JobArguments& arguments) {
  const std::string cwd = CurrentDirectory();
  LAUNCH_ASSIGN_OR_RETURN(ReadJob job, arguments.Read(app, cwd));
  for (const std::string& notice : job.notices) app.Note("notice: " + notice);
  const std::string from = arguments.file.empty() ? "command line" : arguments.file;
  if (Result<void> read = CheckShellSyntax({"run", job.spec.run, from, job.source}); !read) {
    LAUNCH_RETURN_IF_ERROR(CheckPasted(job.spec.run));  // says more
    return Unexpected(read.error());
  }
  LAUNCH_RETURN_IF_ERROR(CheckShellSyntax({"setup", job.spec.setup, from, job.source}));
  if (!job.spec.conda.empty()) {
    LAUNCH_ASSIGN_OR_RETURN(job.spec.conda, CondaPrefix(job.spec.conda, ReadCondaFacts()));
  }
  if (job.spec.debug) job.spec = AsDebugRun(std::move(job.spec));
  LAUNCH_ASSIGN_OR_RETURN(SubmitterFacts facts, ReadSubmitterFacts(job.spec, cwd));
  return PreparedJob{std::move(job), std::move(facts)};
}

int CodeOfFindings(const std::vector<Finding>& findings) {
  return HasErrors(findings) ? ExitCodeOf(ErrorCode::kPreflightFailed) : 0;
}

}  // namespace launch
