// run, init, env, history, completion: a job in the foreground, and what surrounds one.
#include <CLI/CLI.hpp>
#include <fstream>

#include "cli/app.h"
#include "cli/completion.h"
#include "cli/debug_run.h"
#include "cli/history_table.h"
#include "cli/import/import.h"
#include "cli/interrupt_guard.h"
#include "cli/job_arguments.h"
#include "cli/job_names.h"
#include "cli/job_template.h"
#include "cli/log_stream.h"
#include "cli/rank_environment.h"
#include "cli/snapshot/ship.h"
#include "cli/submit_note.h"
#include "common/file_system.h"
#include "common/pki.h"

namespace launch {
namespace {

Result<int> RunForeground(const App& app, const JobArguments& arguments) {
  LAUNCH_ASSIGN_OR_RETURN(PreparedJob prepared, PrepareJob(app, arguments));
  if (prepared.job.spec.array) {
    return Fail(ErrorCode::kInvalidArgument, "run shows one job, and this is an array",
                "launch submit --wait");
  }
  InterruptGuard guard(app);
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMayStart));
  LAUNCH_RETURN_IF_ERROR(ShipWorkdir(app, client, prepared, true));
  SubmitCall call;
  call.idempotency_key = RandomHex(16);
  KeepCheckpointsApart(prepared.job.spec, call.idempotency_key);
  call.spec = prepared.job.spec;
  call.source = prepared.job.source;
  call.context = prepared.facts.context;
  call.secrets = prepared.facts.secrets;
  guard.Submitting();
  const Result<SubmitAnswer> answer = client.Submit(call);
  if (!answer) {
    return RefuseSubmit(app, client, {prepared.job.spec, prepared.facts.context}, answer.error());
  }
  NoteDecision(app, client, *answer);
  guard.Submitted(answer->job);
  LogsCall logs;
  logs.job = answer->job;
  logs.follow = true;
  // One rank's output needs no name in front.
  const bool alone = answer->answer.plan && answer->answer.plan->assignments.size() == 1;
  const Result<void> streamed = StreamLogs(app, client, logs, {false, !alone});
  if (!streamed) app.Note(FormatError(streamed.error()));
  LAUNCH_ASSIGN_OR_RETURN(JobView view,
                          AwaitJob(client, answer->job, std::nullopt, [](const JobView&) {}));
  NoteFindings(app, view.findings);
  app.Note("job " + std::to_string(view.id.value) + ": " + std::string(ToString(view.state)) +
           (view.outcome.empty() ? "" : ": " + view.outcome));
  NoteFailure(app, client, view);
  if (guard.interrupted() && view.state == JobState::kCancelled) return kInterrupted;
  return ExitCodeOfJob(view);
}

// As the node has it while the rank runs, where the caller may look there; otherwise the plan.
Result<int> ShowEnv(const App& app, const std::string& id, Rank rank) {
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  LAUNCH_ASSIGN_OR_RETURN(const JobId job, JobNamed(client, id));
  LAUNCH_ASSIGN_OR_RETURN(const JobView view, client.Job(job));
  LAUNCH_ASSIGN_OR_RETURN(ShownEnvironment environment, PlannedEnvironment(view, rank));
  if (view.state == JobState::kRunning) {
    const Result<std::string> read = ReadEnvironment(client, view, rank);
    if (read) {
      environment = EnvironmentOfNode(std::move(environment), view, *read);
    } else {
      app.Note("notice: what is planned follows, the node was not read: " +
               FormatError(read.error()));
    }
  }
  if (app.WantsJson() || app.WantsYaml())
    app.OutDocument(EnvironmentJson(environment));
  else
    app.OutBytes(EnvironmentText(environment));
  return 0;
}

Result<int> ShowHistory(const App& app, const std::string& name, bool all) {
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  LAUNCH_ASSIGN_OR_RETURN(std::vector<JobView> jobs, client.Jobs({all, true}));
  std::erase_if(jobs, [&](const JobView& job) {
    return !IsTerminal(job.state) || job.kind == "check" || (!name.empty() && !HasName(job, name));
  });
  if (app.WantsJson() || app.WantsYaml()) {
    app.OutDocument(HistoryJson(jobs));
  } else if (app.WantsName()) {
    for (const JobView& job : jobs) app.Out(std::to_string(job.id.value) + "\n");
  } else {
    LAUNCH_RETURN_IF_ERROR(app.OutTable(HistoryTable(jobs)));
  }
  return 0;
}

Result<int> RunInit(const App& app, const std::string& file) {
  if (!app.rest || app.rest->empty()) {
    return Fail(ErrorCode::kInvalidArgument, "no training line was given",
                "launch init -- torchrun --nproc-per-node=4 train.py");
  }
  LAUNCH_ASSIGN_OR_RETURN(const std::string text, JobFileFor(*app.rest, CurrentDirectory()));
  if (file.empty()) {
    app.OutBytes(text);
    return 0;
  }
  if (std::ifstream(file)) {
    return Fail(ErrorCode::kInvalidArgument, file + " is there already",
                "name another file, or remove it");
  }
  std::ofstream out(file);
  out << text;
  out.close();
  if (!out) return Fail(ErrorCode::kInvalidArgument, file + " cannot be written", "");
  app.Note("next: launch plan " + file + "   launch submit " + file);
  return 0;
}

Result<int> RunImport(const App& app, const std::string& file) {
  constexpr std::size_t kMost = 256 * 1024;  // a script or a configuration
  LAUNCH_ASSIGN_OR_RETURN(const std::string text, PosixFileSystem().Read(file, kMost));
  if (text.empty()) return Fail(ErrorCode::kInvalidArgument, file + " is empty", "");
  LAUNCH_ASSIGN_OR_RETURN(const Imported imported, ImportText(text, file));
  for (const std::string& note : imported.notes) app.Note("notice: " + note);
  app.OutBytes(imported.yaml);
  return 0;
}

}  // namespace

void AddRunVerbs(CLI::App& parser, App& app) {
  auto job = std::make_shared<JobArguments>();
  CLI::App* run = parser.add_subcommand(
      "run", "Submit a job, show its output, exit with its code; Ctrl-C cancels it");
  job->AddTo(*run);
  run->callback([&app, job] { app.run = [&app, job] { return RunForeground(app, *job); }; });

  auto env_job = std::make_shared<std::string>();
  auto env_rank = std::make_shared<Rank>(0);
  CLI::App* env =
      parser.add_subcommand("env", "Print the variables of a rank, ready to paste into a shell");
  env->add_option("job", *env_job, "Job id")->required();
  env->add_option("--rank,-r", *env_rank, "Rank to show (default: 0)");
  env->callback([&app, env_job, env_rank] {
    app.run = [&app, env_job, env_rank] { return ShowEnv(app, *env_job, *env_rank); };
  });

  auto name = std::make_shared<std::string>();
  auto all = std::make_shared<bool>(false);
  CLI::App* history = parser.add_subcommand(
      "history", "List finished jobs and how much of their time was spent training");
  app.listing.insert(history);
  history->add_option("name", *name, "Only jobs or arrays of this name");
  history->add_flag("-a,--all", *all, "Show jobs of all users");
  history->callback(
      [&app, name, all] { app.run = [&app, name, all] { return ShowHistory(app, *name, *all); }; });

  auto file = std::make_shared<std::string>();
  CLI::App* init =
      parser.add_subcommand("init", "Write a job file for the training command after --");
  init->add_option("file", *file, "File to write; default: standard output");
  init->callback([&app, file] { app.run = [&app, file] { return RunInit(app, *file); }; });

  auto foreign = std::make_shared<std::string>();
  CLI::App* importing = parser.add_subcommand(
      "import", "Convert an sbatch script, hostfile, accelerate or SkyPilot file to a job file");
  importing->add_option("file", *foreign, "File to convert")->required();
  importing->callback(
      [&app, foreign] { app.run = [&app, foreign] { return RunImport(app, *foreign); }; });

  auto shell = std::make_shared<std::string>();
  CLI::App* completion =
      parser.add_subcommand("completion", "Print the completion script for bash, zsh or fish");
  completion->add_option("shell", *shell, "Shell: bash, zsh or fish")->required();
  completion->callback([&parser, &app, shell] {
    app.run = [&parser, &app, shell]() -> Result<int> {
      LAUNCH_ASSIGN_OR_RETURN(const std::string script, CompletionScript(parser, *shell));
      app.OutBytes(script);
      return 0;
    };
  });
}

}  // namespace launch
