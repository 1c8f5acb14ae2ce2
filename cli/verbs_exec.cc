// exec, shell: a command beside a rank of a running job.
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "cli/app.h"
#include "cli/environment_variable.h"
#include "cli/exec_session.h"
#include "cli/job_names.h"
#include "proto/convert_exec.h"

namespace launch {
namespace {

struct ExecOptions {
  std::string job;
  Rank rank = 0;
};

Result<int> RunBeside(const App& app, const ExecOptions& options, ExecCommand command) {
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  ExecCall call;
  LAUNCH_ASSIGN_OR_RETURN(call.job, JobNamed(client, options.job));
  call.rank = options.rank;
  call.command = std::move(command);
  std::optional<ExecEnd> end;
  const Result<void> ran = client.Exec(call, [&](ExecStream& stream) {
    end = MoveBytes(stream, call.command.terminal.has_value());
  });
  if (end) {
    if (!end->why.empty()) app.Note("launch: " + end->why);
    return end->code;
  }
  if (!ran) return Unexpected(ran.error());
  return Fail(ErrorCode::kUnavailable, "the connection ended before the command did",
              "the job may have ended: launch status " + options.job);
}

Result<int> RunExec(const App& app, const ExecOptions& options) {
  if (!app.rest || app.rest->empty()) {
    return Fail(ErrorCode::kInvalidArgument, "no command was given",
                "launch exec " + options.job + " -- nvidia-smi");
  }
  return RunBeside(app, options, {.argv = *app.rest, .terminal = std::nullopt, .term = ""});
}

Result<int> RunShell(const App& app, const ExecOptions& options) {
  const auto size = TerminalSizeOf(STDIN_FILENO);
  if (!size) {
    return Fail(ErrorCode::kInvalidArgument, "standard input is not a terminal",
                "launch exec " + options.job + " -- bash does not need one");
  }
  return RunBeside(app, options,
                   {.argv = app.rest.value_or(std::vector<std::string>()),
                    .terminal = size,
                    .term = EnvironmentVariable("TERM")});
}

CLI::App* AddOne(CLI::App& parser, App& app, const char* name, const char* says,
                 Result<int> (*run)(const App&, const ExecOptions&)) {
  auto options = std::make_shared<ExecOptions>();
  CLI::App* verb = parser.add_subcommand(name, says);
  verb->add_option("job", options->job, "Job id")->required();
  verb->add_option("--rank,-r", options->rank,
                   "Run on the node of this rank, with its environment");
  verb->callback(
      [&app, options, run] { app.run = [&app, options, run] { return run(app, *options); }; });
  return verb;
}

}  // namespace

void AddExecVerbs(CLI::App& parser, App& app) {
  AddOne(parser, app, "exec", "Run the command after -- beside a rank; exit with its code",
         RunExec);
  AddOne(parser, app, "shell", "Open a terminal beside a rank, for a shell or the command after --",
         RunShell)
      ->alias("attach");
}

}  // namespace launch
