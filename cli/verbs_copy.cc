// cp: files between this machine and a job.
#include <CLI/CLI.hpp>

#include "cli/app.h"
#include "cli/copy_files.h"
#include "cli/job_names.h"

namespace launch {
namespace {

struct CopyOptions {
  std::vector<std::string> paths;  // the last one is the target
  Rank rank = 0;
};

Result<int> RunCopy(const App& app, const CopyOptions& options) {
  std::vector<std::string> sources(options.paths.begin(), options.paths.end() - 1);
  const std::string& target = options.paths.back();
  const std::optional<JobPath> to = ParseJobPath(target);
  std::vector<JobPath> from;
  for (const std::string& source : sources) {
    if (auto path = ParseJobPath(source)) from.push_back(std::move(*path));
  }
  if (to.has_value() == !from.empty() || (!to && from.size() != sources.size())) {
    return Fail(ErrorCode::kInvalidArgument,
                "either the sources or the target must be paths of a job",
                "launch cp 12:out/model.pt .   or   launch cp data.json 12:data/");
  }
  CopyGuard guard;
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  if (to) {
    LAUNCH_ASSIGN_OR_RETURN(const JobId job, JobNamed(client, to->job));
    LAUNCH_RETURN_IF_ERROR(CopyToJob(client, job, options.rank, sources, to->path));
    return 0;
  }
  for (const JobPath& one : from) {
    LAUNCH_ASSIGN_OR_RETURN(const JobId job, JobNamed(client, one.job));
    LAUNCH_RETURN_IF_ERROR(CopyFromJob(client, guard, {job, options.rank}, one.path, target));
  }
  return 0;
}

}  // namespace

void AddCopyVerb(CLI::App& parser, App& app) {
  auto options = std::make_shared<CopyOptions>();
  CLI::App* copy = parser.add_subcommand(
      "cp", "Copy files and directories from a job (JOB:path .) or to one (path JOB:path)");
  copy->add_option("paths", options->paths,
                   "Sources, then the destination: JOB:PATH... DIRECTORY, or PATH... JOB:PATH")
      ->required()
      ->expected(2, 1000);
  copy->add_option("--rank,-r", options->rank, "Rank whose node is meant (default: 0)");
  copy->callback([&app, options] { app.run = [&app, options] { return RunCopy(app, *options); }; });
}

}  // namespace launch
