// hold, release, requeue, update: what users change of their jobs later.
#include <CLI/CLI.hpp>

#include "cli/app.h"
#include "cli/job_names.h"
#include "cli/job_reader.h"
#include "cli/render_json.h"

namespace launch {
namespace {

Result<int> RunChange(const App& app, const std::vector<std::string>& names,
                      const JobChange& change) {
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  LAUNCH_ASSIGN_OR_RETURN(const FoundJobs found, FindJobs(client, names));
  std::vector<ChangeAnswer> answers;
  if (!found.jobs.empty()) {
    LAUNCH_ASSIGN_OR_RETURN(answers, client.Change({found.jobs, change}));
  }
  int code = 0;
  for (const FoundJobs::Missing& one : found.missing) {
    answers.push_back({one.job, one.error.message, ""});
    code = ExitCodeOf(one.error.code);
  }
  for (const ChangeAnswer& answer : answers) {
    const std::string job = "job " + std::to_string(answer.job.value);
    const std::string& says = answer.error.empty() ? answer.says : answer.error;
    app.Note(says.starts_with(job + " ") ? says : job + ": " + says);
    if (!answer.error.empty() && code == 0) code = ExitCodeOf(ErrorCode::kInvalidArgument);
  }
  if (app.WantsJson() || app.WantsYaml()) app.OutDocument(ChangeJson(answers));
  return code;
}

// "priority=70" into the change; the words and values are those of a job file.
Result<void> AddUpdate(const std::string& text, JobChange& change) {
  constexpr const char* kCan = "priority, time, begin and nodes can be changed";
  const Result<JobOverride> parsed = ParseOverride(text);
  if (!parsed) {
    Error error = parsed.error();
    if (error.message.starts_with("unknown field")) error.hint = kCan;  // not all that a file has
    return Unexpected(std::move(error));
  }
  const JobOverride& one = *parsed;
  if (one.field != "priority" && one.field != "time" && one.field != "begin" &&
      one.field != "nodes")
    return Fail(ErrorCode::kInvalidArgument, "`" + one.field + "` cannot be changed any more",
                kCan);
  LAUNCH_ASSIGN_OR_RETURN(const ReadJob read, ReadJobText("run: \"true\"", "", "/", {one}, "/"));
  if (one.field == "priority") change.priority = read.spec.priority;
  if (one.field == "time") change.time_limit = read.spec.time_limit;
  if (one.field == "begin") change.begin = read.spec.begin;
  if (one.field == "nodes") change.nodes = read.spec.nodes;
  return {};
}

Result<int> RunUpdate(const App& app, const std::vector<std::string>& words) {
  std::vector<std::string> names;
  JobChange change;
  change.action = JobAction::kUpdate;
  for (const std::string& word : words) {
    if (word.find('=') == std::string::npos) {
      names.push_back(word);
      continue;
    }
    LAUNCH_RETURN_IF_ERROR(AddUpdate(word, change));
  }
  if (names.empty() || names.size() == words.size())
    return Fail(ErrorCode::kInvalidArgument, "give the jobs and what to change",
                "launch update 17 priority=70 time=12h begin=22:00 nodes=2");
  return RunChange(app, names, change);
}

void AddVerb(CLI::App& parser, App& app, const char* name, const char* help, JobAction action) {
  auto names = std::make_shared<std::vector<std::string>>();
  auto hold = std::make_shared<bool>(false);
  CLI::App* verb = parser.add_subcommand(name, help);
  verb->add_option("jobs", *names, "Job ids, arrays, or array elements (ARRAY_INDEX)")->required();
  if (action == JobAction::kRequeue)
    verb->add_flag("--hold", *hold, "Then hold it until `launch release`");
  verb->callback([&app, names, hold, action] {
    app.run = [&app, names, hold, action] {
      JobChange change;
      change.action = action;
      change.hold = *hold;
      return RunChange(app, *names, change);
    };
  });
}

}  // namespace

void AddChangeVerbs(CLI::App& parser, App& app) {
  AddVerb(parser, app, "hold", "Hold queued jobs so that they do not start", JobAction::kHold);
  AddVerb(parser, app, "release", "Release held jobs so that they may start", JobAction::kRelease);
  AddVerb(parser, app, "requeue", "Stop jobs and queue them again as a new attempt",
          JobAction::kRequeue);
  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* update =
      parser.add_subcommand("update", "Change priority, time, begin or nodes of jobs");
  update->add_option("words", *words, "Job ids, then KEY=VALUE as in a job file")->required();
  update->callback([&app, words] { app.run = [&app, words] { return RunUpdate(app, *words); }; });
}

}  // namespace launch
