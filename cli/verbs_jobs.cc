// queue, status, explain, cancel, wait, events: what jobs do, and ending them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <thread>

#include "cli/app.h"
#include "cli/calibration_file.h"
#include "cli/job_names.h"
#include "cli/job_verdict.h"
#include "cli/render_json.h"
#include "cli/submit_note.h"
#include "common/units.h"

namespace launch {
namespace {

struct QueueOptions {
  std::vector<std::string> names;  // of jobs and arrays; empty: all
  bool all = false;
  bool watch = false;
  std::string interval = "2s";
};

Result<int> ShowQueue(const App& app, Client& client, const QueueOptions& options) {
  const bool named = !options.names.empty();
  LAUNCH_ASSIGN_OR_RETURN(std::vector<JobView> jobs,
                          client.Jobs({options.all || named, options.all || named}));
  if (named) {
    LAUNCH_ASSIGN_OR_RETURN(const std::vector<JobId> ids, JobsNamed(client, options.names));
    std::erase_if(jobs, [&](const JobView& job) {
      return std::find(ids.begin(), ids.end(), job.id) == ids.end();
    });
  } else {
    std::erase_if(jobs,
                  [](const JobView& job) { return job.kind == "check" && IsTerminal(job.state); });
  }
  if (app.WantsJson() || app.WantsYaml()) {
    app.OutDocument(JobsJson(jobs));
  } else if (app.WantsName()) {
    for (const JobView& job : jobs) app.Out(std::to_string(job.id.value) + "\n");
  } else {
    LAUNCH_RETURN_IF_ERROR(app.OutTable(JobsTable(jobs, app.ScreenNow())));
  }
  return 0;
}

Result<int> RunQueue(const App& app, const QueueOptions& options) {
  LAUNCH_ASSIGN_OR_RETURN(Millis interval, ParseDuration(options.interval));
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  while (options.watch) {
    if (app.StdoutIsTerminal()) app.OutBytes("\033[H\033[2J");
    const Result<int> shown = ShowQueue(app, client, options);
    if (!shown && shown.error().code != ErrorCode::kUnavailable) return shown;
    if (!shown) app.Note(FormatError(shown.error()));
    std::this_thread::sleep_for(std::max(interval, Millis(100)));
  }
  return ShowQueue(app, client, options);
}

Result<int> RunStatus(const App& app, const std::string& id) {
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<JobId> jobs, JobsNamed(client, id));
  // All of an array stand in one table.
  if (jobs.size() > 1 || app.WantsCells()) return ShowQueue(app, client, {{id}, true, false, {}});
  LAUNCH_ASSIGN_OR_RETURN(JobView view, client.Job(jobs.front()));
  AddVerdict(client, view);
  if (app.WantsJson() || app.WantsYaml())
    app.OutDocument(JobJson(view));
  else
    app.Out(JobText(view, app.ScreenNow()));
  return 0;
}

// Why it waits, and what the controller expects of its start; of another job what it does.
std::string Explained(const JobView& job, const Screen& screen) {
  std::string text = "job " + std::to_string(job.id.value) + " " + job.name + ": " +
                     std::string(ToString(job.state)) +
                     (job.sub_reason.empty() ? "" : "(" + job.sub_reason + ")") + "\n";
  if (!job.reason.code.empty()) {
    text += "waits for " + job.reason.code +
            (job.reason.evidence.empty() ? "" : ": " + job.reason.evidence) + "\n";
  }
  if (!job.outcome.empty()) text += job.outcome + "\n";
  for (const std::string& held : job.held) text += "holds " + held + "\n";
  std::vector<Finding> expected = job.findings;
  std::erase_if(expected, [](const Finding& one) {
    return one.code != "expected_start" && one.code != "gpu_failed" && one.code != "record_lost";
  });
  return text + FindingsText(expected, screen);
}

Result<int> RunExplain(const App& app, const std::string& id) {
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<JobId> jobs, JobsNamed(client, id));
  for (const JobId job : jobs) {
    LAUNCH_ASSIGN_OR_RETURN(const JobView view, client.Job(job));
    if (app.WantsJson() || app.WantsYaml()) {
      app.OutDocument(JobJson(view));
    } else {
      app.Out((job == jobs.front() ? "" : "\n") + Explained(view, app.ScreenNow()));
    }
  }
  return 0;
}

Result<int> RunWait(const App& app, const std::vector<std::string>& ids, const std::string& limit) {
  std::optional<Millis> at_most;
  if (!limit.empty()) {
    LAUNCH_ASSIGN_OR_RETURN(at_most, ParseDuration(limit));
  }
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  int code = 0;
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<JobId> jobs, JobsNamed(client, ids));
  std::vector<JobView> ended;
  for (const JobId job : jobs) {
    LAUNCH_ASSIGN_OR_RETURN(JobView view, AwaitJob(client, job, at_most, [](const JobView&) {}));
    ended.push_back(view);
    app.Note("job " + std::to_string(job.value) + ": " + std::string(ToString(view.state)) +
             (view.outcome.empty() ? "" : ": " + view.outcome));
    NoteFailure(app, client, view);
    if (code == 0) code = ExitCodeOfJob(view);
  }
  if (app.WantsJson() || app.WantsYaml()) app.OutDocument(JobsJson(ended));
  return code;
}

constexpr Millis kQuietStop{5'000};  // a stop that takes longer is explained

// Cancel is decided at once; it is over when nothing of the job is left on any node.
Result<int> AwaitNothingLeft(const App& app, Client& client, const std::vector<JobId>& jobs) {
  int code = 0;
  for (const JobId job : jobs) {
    Millis patience{130'000};
    if (const Result<JobView> view = client.Job(job); view && view->spec)
      patience = view->spec->stop_duration + Millis(10'000);
    const std::string id = std::to_string(job.value);
    const Millis quiet = std::min(patience, kQuietStop);
    Result<JobView> end = AwaitJob(client, job, quiet, [](const JobView&) {});
    if (!end && end.error().code == ErrorCode::kDeadlineExceeded && quiet < patience) {
      app.Note("job " + id + " is being ended; this waits " + FormatDurationShort(patience) +
               " for it at most, and Ctrl-C leaves it to the cluster");
      end = AwaitJob(client, job, patience - quiet, [](const JobView&) {});
    }
    if (end) {
      app.Note("job " + id + ": " + std::string(ToString(end->state)));
      for (const std::string& held : end->held) app.Note("  still held: " + held);
      continue;
    }
    if (end.error().code != ErrorCode::kDeadlineExceeded) return Unexpected(end.error());
    app.Note("job " + id + " is cancelled, but not everything has ended yet");
    if (const Result<JobView> view = client.Job(job))
      for (const std::string& held : view->held) app.Note("  still held: " + held);
    code = ExitCodeOf(ErrorCode::kDeadlineExceeded);
  }
  return code;
}

Result<int> RunCancel(const App& app, const std::vector<std::string>& ids, bool no_wait) {
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  LAUNCH_ASSIGN_OR_RETURN(const FoundJobs found, FindJobs(client, ids));
  std::vector<CancelAnswer> answers;
  if (!found.jobs.empty()) {
    LAUNCH_ASSIGN_OR_RETURN(answers, client.Cancel(found.jobs));
  }
  std::vector<JobId> cancelled;
  int code = 0;
  for (const FoundJobs::Missing& one : found.missing) {
    answers.push_back({one.job, false, one.error.message, {}});
    code = ExitCodeOf(one.error.code);
  }
  for (const CancelAnswer& answer : answers) {
    const std::string id = std::to_string(answer.job.value);
    if (!answer.error.empty()) {
      app.Note("job " + id + ": " + answer.error);
      if (code == 0) code = ExitCodeOf(ErrorCode::kInvalidArgument);
    } else if (answer.already_done) {
      app.Note("job " + id + " was already done");
    } else {
      cancelled.push_back(answer.job);
    }
  }
  if (!no_wait) {
    LAUNCH_ASSIGN_OR_RETURN(int waited, AwaitNothingLeft(app, client, cancelled));
    if (code == 0) code = waited;
  }
  if (app.WantsJson() || app.WantsYaml()) app.OutDocument(CancelJson(answers));
  return code;
}

struct EventsOptions {
  std::vector<std::string> jobs;
  bool follow = false;
  std::uint64_t after = 0;
};

Result<int> RunEvents(const App& app, const EventsOptions& options) {
  WatchCall call{options.after, {}, options.follow};
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  LAUNCH_ASSIGN_OR_RETURN(call.jobs, JobsNamed(client, options.jobs));
  const Screen screen = app.ScreenNow();
  for (int failures = 0;;) {
    const Result<void> end = client.Watch(call, Millis(3'600'000), [&](const EventView& event) {
      if (app.WantsJson()) {
        app.OutBytes(EventLine(event) + "\n");
      } else {
        app.Out(EventText(event, screen));
      }
      call.after_seq = std::max(call.after_seq, event.seq);
      failures = 0;
      return true;
    });
    if (!options.follow) {
      if (!end) return Unexpected(end.error());
      return 0;
    }
    if (end || end.error().code == ErrorCode::kDeadlineExceeded) continue;
    if (end.error().code != ErrorCode::kUnavailable || failures >= 10)
      return Unexpected(end.error());
    BackOff(failures++, Millis(200));
  }
}

}  // namespace

void AddJobVerbs(CLI::App& parser, App& app) {
  auto queue_options = std::make_shared<QueueOptions>();
  CLI::App* queue = parser.add_subcommand("queue", "List queued and running jobs")->alias("ps");
  app.listing.insert(queue);
  queue->add_option("jobs", queue_options->names,
                    "Only these jobs or arrays, including finished ones");
  queue->add_flag("-a,--all", queue_options->all, "Include all users and finished jobs");
  queue->add_flag("--watch", queue_options->watch, "Refresh until interrupted");
  queue->add_option("--interval", queue_options->interval, "Time between refreshes (default 2s)");
  queue->callback([&app, queue_options] {
    app.run = [&app, queue_options] { return RunQueue(app, *queue_options); };
  });

  auto status_id = std::make_shared<std::string>();
  CLI::App* status = parser.add_subcommand("status", "Show a job in full");
  app.listing.insert(status);
  status->add_option("job", *status_id, "Job id")->required();
  status->callback(
      [&app, status_id] { app.run = [&app, status_id] { return RunStatus(app, *status_id); }; });

  auto explain_id = std::make_shared<std::string>();
  CLI::App* explain = parser.add_subcommand(
      "explain", "Show why a job waits, who is ahead of it, when it may start, what would help");
  explain->add_option("job", *explain_id, "Job id")->required();
  explain->callback([&app, explain_id] {
    app.run = [&app, explain_id] { return RunExplain(app, *explain_id); };
  });

  auto wait_ids = std::make_shared<std::vector<std::string>>();
  auto wait_limit = std::make_shared<std::string>();
  CLI::App* wait = parser.add_subcommand("wait", "Wait for jobs; exit with the first failing code");
  wait->add_option("jobs", *wait_ids, "Job ids")->required();
  wait->add_option("--timeout", *wait_limit, "Give up after this time, with exit code 124");
  wait->callback([&app, wait_ids, wait_limit] {
    app.run = [&app, wait_ids, wait_limit] { return RunWait(app, *wait_ids, *wait_limit); };
  });

  auto cancel_ids = std::make_shared<std::vector<std::string>>();
  auto no_wait = std::make_shared<bool>(false);
  CLI::App* cancel = parser.add_subcommand("cancel", "Cancel jobs; return once nothing is left")
                         ->alias("stop")
                         ->alias("kill");
  cancel->add_option("jobs", *cancel_ids, "Job ids")->required();
  cancel->add_flag("--no-wait", *no_wait, "Return as soon as the cancellation is recorded");
  cancel->callback([&app, cancel_ids, no_wait] {
    app.run = [&app, cancel_ids, no_wait] { return RunCancel(app, *cancel_ids, *no_wait); };
  });

  auto history_name = std::make_shared<std::string>();
  CLI::App* calibration = parser.add_subcommand(
      "calibration", "Print what your finished runs measured, for `plan --calibration`");
  calibration->add_option("name", *history_name, "Only jobs of this name");
  calibration->callback([&app, history_name] {
    app.run = [&app, history_name]() -> Result<int> {
      LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
      LAUNCH_ASSIGN_OR_RETURN(const auto runs, HistoryOf(client, *history_name));
      if (app.WantsJson()) {
        app.OutDocument(CalibrationJson(runs));
      } else {
        app.Out(FormatCalibration(runs));
      }
      return 0;
    };
  });

  auto events_options = std::make_shared<EventsOptions>();
  CLI::App* events = parser.add_subcommand("events", "Show what happened, in order");
  events->add_option("jobs", events_options->jobs, "Only events of these jobs");
  events->add_flag("-f,--follow", events_options->follow, "Keep printing new events");
  events->add_option("--after", events_options->after, "Only events after this sequence number");
  events->callback([&app, events_options] {
    app.run = [&app, events_options] { return RunEvents(app, *events_options); };
  });
}

}  // namespace launch
