// submit and plan: from a job file or a training line to a plan, findings or a job.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "cli/app.h"
#include "cli/calibration_file.h"
#include "cli/debug_run.h"
#include "cli/job_arguments.h"
#include "cli/leave_note.h"
#include "cli/offline_plan.h"
#include "cli/probe_run.h"
#include "cli/render_json.h"
#include "cli/shell_words.h"
#include "cli/snapshot/ship.h"
#include "cli/submit_note.h"
#include "cli/unreachable.h"
#include "common/inventory_yaml.h"
#include "common/pki.h"

namespace launch {
namespace {

int ShowPlan(const App& app, const PlanAnswer& answer) {
  if (app.WantsJson() || app.WantsYaml())
    app.OutDocument(PlanJson(answer));
  else
    app.Out(PlanText(answer, app.ScreenNow()));
  return CodeOfFindings(answer.findings);
}

// A nonce of the user's own becomes a key of the protocol's form.
std::string KeyFrom(const std::string& given) {
  if (given.empty()) return RandomHex(16);
  const bool is_key =
      given.size() == 32 && given.find_first_not_of("0123456789abcdef") == std::string::npos;
  return is_key ? given : Sha256Hex(given).substr(0, 32);
}

struct SubmitOptions {
  JobArguments job;
  bool wait = false;
  bool dry_run = false;
  bool hold = false;
  bool parsable = false;
  bool force = false;
  bool debug = false;
  std::string key;
};

// The first failing code of its jobs, in their order.
Result<int> AwaitArray(const App& app, Client& client, const SubmitAnswer& answer) {
  int code = 0;
  std::vector<JobView> views;
  for (std::uint32_t i = 0; i < answer.elements; ++i) {
    const JobId job{answer.first.value + i};
    LAUNCH_ASSIGN_OR_RETURN(JobView view,
                            AwaitJob(client, job, std::nullopt, [](const JobView&) {}));
    app.Note("job " + std::to_string(job.value) + ": " + std::string(ToString(view.state)) +
             (view.outcome.empty() ? "" : ": " + view.outcome));
    NoteFailure(app, client, view);
    if (code == 0) code = ExitCodeOfJob(view);
    views.push_back(std::move(view));
  }
  if (app.WantsJson() || app.WantsYaml()) app.OutDocument(JobsJson(views));
  return code;
}

Result<int> RunSubmit(const App& app, const SubmitOptions& options) {
  LAUNCH_ASSIGN_OR_RETURN(PreparedJob prepared, PrepareJob(app, options.job));
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(options.dry_run ? App::Embedded::kPassing
                                                                     : App::Embedded::kMayStart));
  LAUNCH_RETURN_IF_ERROR(ShipWorkdir(app, client, prepared, !options.dry_run));
  const JobSpec whole = prepared.job.spec;
  if (options.debug) prepared.job.spec = AsDebugRun(std::move(prepared.job.spec));
  const std::string key = KeyFrom(options.key);
  KeepCheckpointsApart(prepared.job.spec, key);
  const PlanCall plan_call{prepared.job.spec, prepared.facts.context};
  if (options.dry_run) {
    LAUNCH_ASSIGN_OR_RETURN(PlanAnswer answer, client.Plan(plan_call));
    return ShowPlan(app, answer);
  }
  SubmitCall call;
  call.idempotency_key = key;
  call.spec = prepared.job.spec;
  call.source = prepared.job.source;
  call.context = prepared.facts.context;
  call.secrets = prepared.facts.secrets;
  call.force = options.force;
  call.hold = options.hold;
  const auto began = std::filesystem::file_time_type::clock::now();
  const Result<SubmitAnswer> answer = client.Submit(call);
  if (!answer) {
    const std::string& given = options.key.empty() ? key : options.key;
    return RefuseSubmit(app, client, plan_call, WithKey(answer.error(), JoinWords({given})));
  }
  const std::string id = std::to_string(answer->job.value);
  if (!options.parsable) NoteDecision(app, client, *answer);
  const bool waits = options.wait || options.debug;
  const bool document = app.WantsJson() || app.WantsYaml();
  if (!document) app.Out(id + "\n");
  if (document && !waits) app.OutDocument(SubmitJson(*answer));
  // Whoever submits again for want of a number has two jobs.
  if (app.OutputFailed()) std::fprintf(stderr, "launch: job %s was submitted\n", id.c_str());
  if (!waits) return 0;
  const LeaveNote leaving("launch: left; job " + id + " goes on: launch wait " + id +
                          ", launch cancel " + id);
  if (answer->elements > 0 && !options.debug) return AwaitArray(app, client, *answer);
  LAUNCH_ASSIGN_OR_RETURN(
      JobView view, AwaitJob(client, FirstJob(*answer), std::nullopt, [&](const JobView& now) {
        std::string line = "job " + id + ": " + std::string(ToString(now.state));
        if (!now.reason.code.empty())
          line += " (" + now.reason.code + ": " + now.reason.evidence + ")";
        if (!now.outcome.empty()) line += ": " + now.outcome;
        app.Note(line);
      }));
  NoteFindings(app, view.findings);
  NoteFailure(app, client, view);
  if (options.debug) {
    // The last sample of a rank may come a beat after its end.
    const int most = view.state == JobState::kSucceeded ? 50 : 5;
    for (int tries = 0; tries < most && !view.step; ++tries) {
      std::this_thread::sleep_for(Millis(200));
      if (Result<JobView> again = client.Job(FirstJob(*answer))) view = std::move(*again);
    }
    const Result<PlanAnswer> full = client.Plan({whole, prepared.facts.context});
    app.Note(DebugReport(view, full ? full->plan : std::nullopt, KeepDebugRun(client, view)) +
             DebugCheckpoints(whole, call.spec, began));
  }
  if (app.WantsJson() || app.WantsYaml()) app.OutDocument(JobJson(view));
  return ExitCodeOfJob(view);
}

struct PlanArguments {
  bool probe = false;
  std::vector<std::string> what_if;
  std::string calibration;
};

Result<int> RunPlan(const App& app, const JobArguments& job, const std::string& inventory,
                    const PlanArguments& arguments) {
  LAUNCH_ASSIGN_OR_RETURN(PreparedJob prepared, PrepareJob(app, job));
  PlanQuestions questions{true, arguments.what_if, {}};
  if (arguments.probe && !inventory.empty())
    return Fail(ErrorCode::kInvalidArgument,
                "--probe runs the job on a cluster, and --inventory only describes one",
                "leave one of the two out");
  if (!arguments.calibration.empty()) {
    LAUNCH_ASSIGN_OR_RETURN(questions.history, ReadCalibrationFile(arguments.calibration));
  }
  if (inventory.empty()) {
    // What a probe measures is worth keeping.
    const bool runs = arguments.probe || prepared.job.spec.model.probe;
    LAUNCH_ASSIGN_OR_RETURN(Client client,
                            app.Connect(runs ? App::Embedded::kMayStart : App::Embedded::kPassing));
    LAUNCH_RETURN_IF_ERROR(ShipWorkdir(app, client, prepared, arguments.probe));
    const PlanCall plan_call{prepared.job.spec, prepared.facts.context, questions};
    LAUNCH_ASSIGN_OR_RETURN(PlanAnswer answer, client.Plan(plan_call));
    const bool known = answer.plan && (answer.plan->memory.basis == Basis::kProbed ||
                                       answer.plan->memory.basis == Basis::kMeasured);
    const bool wanted = arguments.probe || (prepared.job.spec.model.probe && !known);
    if (wanted && answer.plan && CodeOfFindings(answer.findings) == 0) {
      SubmitCall call;
      call.spec = prepared.job.spec;
      call.source = prepared.job.source;
      call.context = prepared.facts.context;
      call.secrets = prepared.facts.secrets;
      LAUNCH_RETURN_IF_ERROR(RunProbes(app, client, call, *answer.plan));
      // The controller keeps what they measured: this plan, the next one and a submit all use it.
      LAUNCH_ASSIGN_OR_RETURN(answer, client.Plan(plan_call));
    }
    return ShowPlan(app, answer);
  }
  LAUNCH_ASSIGN_OR_RETURN(std::vector<NodeInventory> nodes, ReadInventoryFile(inventory));
  LAUNCH_ASSIGN_OR_RETURN(PlanAnswer answer,
                          PlanOffline(prepared.job.spec, prepared.facts.context, nodes, questions));
  return ShowPlan(app, answer);
}

}  // namespace

void AddSubmitVerbs(CLI::App& parser, App& app) {
  auto submit_options = std::make_shared<SubmitOptions>();
  CLI::App* submit = parser.add_subcommand("submit", "Plan, check and queue a job");
  submit_options->job.AddTo(*submit);
  submit->add_flag("--wait", submit_options->wait,
                   "Wait until the job is done; exit with its code");
  submit->add_flag("--debug", submit_options->debug,
                   "Run 10 steps at micro-batch 1, wait, and report time and memory");
  submit->add_flag("--dry-run", submit_options->dry_run, "Show the plan; queue nothing");
  submit->add_flag("--hold", submit_options->hold,
                   "Queue the job but hold it until `launch release`");
  submit->add_flag("--parsable", submit_options->parsable, "Print only the job id");
  submit->add_flag("--force", submit_options->force,
                   "Start despite errors of the plan and its checks; this is recorded");
  submit->add_option("--idempotency-key", submit_options->key,
                     "Key of this submission: repeating it never creates a second job");
  submit->callback([&app, submit_options] {
    app.run = [&app, submit_options] { return RunSubmit(app, *submit_options); };
  });

  auto plan_job = std::make_shared<JobArguments>();
  auto plan_inventory = std::make_shared<std::string>();
  auto plan_arguments = std::make_shared<PlanArguments>();
  CLI::App* plan = parser.add_subcommand("plan", "Show how a job would run; start nothing");
  plan_job->AddTo(*plan);
  plan->add_option("--inventory", *plan_inventory,
                   "Plan on the nodes in this inventory file, without a cluster");
  plan->add_flag("--probe", plan_arguments->probe,
                 "Run a few steps at two micro-batch sizes and measure instead of predicting");
  plan->add_option("--what-if", plan_arguments->what_if,
                   "Show what a change would do: nodes=4,seq_len=8192; repeatable")
      ->take_all()
      ->expected(1);
  plan->add_option(
      "--calibration", plan_arguments->calibration,
      "Prefer the measured runs in this file (from `launch calibration`) to predictions");
  plan->callback([&app, plan_job, plan_inventory, plan_arguments] {
    app.run = [&app, plan_job, plan_inventory, plan_arguments] {
      return RunPlan(app, *plan_job, *plan_inventory, *plan_arguments);
    };
  });
}

}  // namespace launch
