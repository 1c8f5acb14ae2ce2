// run, init, env, history, completion: a job in the foreground, and what surrounds one.
#include <pthread.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <csignal>
#include <fstream>
#include <set>
#include <thread>

#include "cli/app.h"
#include "cli/completion.h"
#include "cli/history_table.h"
#include "cli/job_arguments.h"
#include "cli/job_template.h"
#include "cli/log_stream.h"
#include "cli/shell_words.h"
#include "cli/submit_note.h"
#include "common/pki.h"
#include "common/units.h"

namespace launch {
namespace {

constexpr int kInterrupted = 130;  // 128 + SIGINT, as a shell says it

sigset_t Interrupts() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR2}) ::sigaddset(&set, signal);
  return set;
}

// While it lives, the first Ctrl-C cancels the job and the second one leaves it alone. The signals
// must be blocked in every thread before, so that only this one takes them.
class InterruptGuard {
 public:
  InterruptGuard(const App& app, JobId job) : app_(app), job_(job), thread_([this] { Wait(); }) {}
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard() {
    over_ = true;
    ::pthread_kill(thread_.native_handle(), SIGUSR2);
    thread_.join();
  }
  bool interrupted() const { return interrupted_; }

 private:
  void Wait() {
    const sigset_t set = Interrupts();
    for (int signal = 0; !over_;) {
      if (::sigwait(&set, &signal) != 0 || signal == SIGUSR2) continue;
      const std::string id = std::to_string(job_.value);
      if (interrupted_.exchange(true)) {
        app_.Note("launch: left; job " + id + " is being cancelled: launch status " + id);
        ::_exit(kInterrupted);
      }
      app_.Note("launch: cancelling job " + id + "; once more to leave without waiting");
      // A connection of its own: the other one is reading the log.
      Result<Client> client = app_.Connect(App::Embedded::kMustRun);
      if (client) {
        const auto answer = client->Cancel({job_});
        if (!answer) app_.Note(FormatError(answer.error()));
      } else {
        app_.Note(FormatError(client.error()));
      }
    }
  }

  const App& app_;
  const JobId job_;
  std::atomic<bool> over_{false};
  std::atomic<bool> interrupted_{false};
  std::thread thread_;
};

Result<int> RunForeground(const App& app, const JobArguments& arguments) {
  LAUNCH_ASSIGN_OR_RETURN(PreparedJob prepared, PrepareJob(app, arguments));
  // Before the first thread of the connection is made, which inherits it.
  const sigset_t set = Interrupts();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMayStart));
  SubmitCall call;
  call.idempotency_key = RandomHex(16);
  call.spec = prepared.job.spec;
  call.source = prepared.job.source;
  call.context = prepared.facts.context;
  call.secrets = prepared.facts.secrets;
  const Result<SubmitAnswer> answer = client.Submit(call);
  if (!answer) {
    return RefuseSubmit(app, client, {prepared.job.spec, prepared.facts.context}, answer.error());
  }
  NoteDecision(app, *answer);
  const InterruptGuard guard(app, answer->job);
  LogsCall logs;
  logs.job = answer->job;
  logs.follow = true;
  // One rank's output needs no name in front.
  const bool alone = answer->answer.plan && answer->answer.plan->assignments.size() == 1;
  const Result<void> streamed = StreamLogs(app, client, logs, {false, !alone});
  if (!streamed) app.Note(FormatError(streamed.error()));
  LAUNCH_ASSIGN_OR_RETURN(const JobView view,
                          AwaitJob(client, answer->job, std::nullopt, [](const JobView&) {}));
  NoteFindings(app, view.findings);
  app.Note("job " + std::to_string(view.id.value) + ": " + std::string(ToString(view.state)) +
           (view.outcome.empty() ? "" : ": " + view.outcome));
  if (guard.interrupted() && view.state == JobState::kCancelled) return kInterrupted;
  return ExitCodeOfJob(view);
}

// The variables of one rank as a shell reads them. Names whose values only the node knows stand as
// comments.
Result<int> ShowEnv(const App& app, const std::string& id, Rank rank) {
  LAUNCH_ASSIGN_OR_RETURN(const JobId job, ParseJobId(id));
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  LAUNCH_ASSIGN_OR_RETURN(const JobView view, client.Job(job));
  if (!view.plan || view.attempts.empty()) {
    return Fail(ErrorCode::kNotFound, "job " + id + " has no plan yet",
                "launch plan shows what it would be given");
  }
  const std::vector<RankAssignment>& ranks = view.plan->assignments;
  if (rank < 0 || static_cast<std::size_t>(rank) >= ranks.size()) {
    return Fail(ErrorCode::kInvalidArgument,
                "job " + id + " has ranks 0 to " + std::to_string(ranks.size() - 1),
                "launch env " + id + " --rank 0");
  }
  const RankAssignment& chosen = ranks[static_cast<std::size_t>(rank)];
  const std::map<std::string, std::string>& first = view.attempts.back().env;
  std::map<std::string, std::string> env = chosen.env;
  std::set<std::string> open;
  for (const std::string& name : view.plan->late) {
    const auto known = first.find(name);
    const bool of_node = name.ends_with("_IFNAME");  // of the route that was proved there
    const bool path = known == first.end() || known->second.empty();
    if (of_node || (path && name != "LAUNCH_RESUME_FROM")) {
      open.insert(name);
      env.erase(name);
    } else {
      env[name] = known == first.end() ? "" : known->second;
    }
  }
  std::string text = "# rank " + std::to_string(rank) + " of job " + id + ", attempt " +
                     std::to_string(view.attempts.back().attempt.value) + ", on " +
                     chosen.node.value + "\n";
  for (const auto& [name, value] : env) text += "export " + name + "=" + QuoteWord(value) + "\n";
  for (const std::string& name : open) text += "# " + name + " is set on the node\n";
  app.Out(text);
  return 0;
}

Result<int> ShowHistory(const App& app, const std::string& name, bool all) {
  LAUNCH_ASSIGN_OR_RETURN(Client client, app.Connect(App::Embedded::kMustRun));
  LAUNCH_ASSIGN_OR_RETURN(std::vector<JobView> jobs, client.Jobs({all, true}));
  std::erase_if(jobs, [&](const JobView& job) {
    return !IsTerminal(job.state) || (!name.empty() && job.name != name);
  });
  if (app.WantsJson() || app.WantsYaml())
    app.OutDocument(HistoryJson(jobs));
  else
    app.Out(HistoryTable(jobs, app.ScreenNow()));
  return 0;
}

Result<int> RunInit(const App& app, const std::string& file) {
  if (!app.rest || app.rest->empty()) {
    return Fail(ErrorCode::kInvalidArgument, "no training line was given",
                "launch init -- torchrun --nproc-per-node=4 train.py");
  }
  LAUNCH_ASSIGN_OR_RETURN(const std::string text, JobFileFor(*app.rest, CurrentDirectory()));
  if (file.empty()) {
    app.Out(text);
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

}  // namespace

void AddRunVerbs(CLI::App& parser, App& app) {
  auto job = std::make_shared<JobArguments>();
  CLI::App* run = parser.add_subcommand(
      "run", "Submit, show the output, end with the job's code; Ctrl-C cancels");
  job->AddTo(*run);
  run->callback([&app, job] { app.run = [&app, job] { return RunForeground(app, *job); }; });

  auto env_job = std::make_shared<std::string>();
  auto env_rank = std::make_shared<Rank>(0);
  CLI::App* env = parser.add_subcommand("env", "Variables of a rank, ready to paste into a shell");
  env->add_option("job", *env_job, "Job id")->required();
  env->add_option("--rank,-r", *env_rank, "Of this rank; 0 otherwise");
  env->callback([&app, env_job, env_rank] {
    app.run = [&app, env_job, env_rank] { return ShowEnv(app, *env_job, *env_rank); };
  });

  auto name = std::make_shared<std::string>();
  auto all = std::make_shared<bool>(false);
  CLI::App* history =
      parser.add_subcommand("history", "Jobs that are done, and how much of their time trained");
  history->add_option("name", *name, "Only jobs of this name");
  history->add_flag("-a,--all", *all, "All users");
  history->callback(
      [&app, name, all] { app.run = [&app, name, all] { return ShowHistory(app, *name, *all); }; });

  auto file = std::make_shared<std::string>();
  CLI::App* init = parser.add_subcommand("init", "A job file from a training line behind --");
  init->add_option("file", *file, "Write it here; otherwise to stdout");
  init->callback([&app, file] { app.run = [&app, file] { return RunInit(app, *file); }; });

  auto shell = std::make_shared<std::string>();
  CLI::App* completion = parser.add_subcommand("completion", "Completion for bash, zsh or fish");
  completion->add_option("shell", *shell, "bash, zsh or fish")->required();
  completion->callback([&parser, &app, shell] {
    app.run = [&parser, &app, shell]() -> Result<int> {
      LAUNCH_ASSIGN_OR_RETURN(const std::string script, CompletionScript(parser, *shell));
      app.Out(script);
      return 0;
    };
  });
}

}  // namespace launch
