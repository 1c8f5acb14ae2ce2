#include "cli/submit_note.h"

#include "cli/job_verdict.h"
#include "cli/render_json.h"
#include "cli/render_verdict.h"

namespace launch {

// Notices are in `launch plan`; after submit only what may go wrong is worth the reader's time.
void NoteFindings(const App& app, std::vector<Finding> findings) {
  if (!app.verbose)
    std::erase_if(findings, [](const Finding& f) { return f.severity == Severity::kNotice; });
  std::string text = FindingsText(findings, Screen());
  if (text.empty()) return;
  text.pop_back();  // Note ends the line
  app.Note(text);
}

namespace {

void NoteExpectedStart(const App& app, Client& client, JobId job) {
  const Result<JobView> view = client.Job(job);
  if (!view) return;
  for (const Finding& finding : view->findings) {
    if (finding.code != "expected_start") continue;
    app.Note(finding.says + "; launch explain " + std::to_string(job.value) + " says more");
  }
}

}  // namespace

void NoteDecision(const App& app, Client& client, const SubmitAnswer& answer) {
  const std::string id = std::to_string(answer.job.value);
  if (answer.elements > 0)
    app.Note("array " + id + ": " + std::to_string(answer.elements) + " jobs, " +
             std::to_string(answer.first.value) + " to " +
             std::to_string(answer.first.value + answer.elements - 1) +
             "; the plan is that of the first");
  if (answer.known) app.Note("job " + id + " was submitted before under this key");
  if (answer.answer.plan) {
    app.Note("plan: " + PlanSummary(*answer.answer.plan));
    for (const std::string& sentence : answer.answer.plan->read) app.Note("read: " + sentence);
    NoteFindings(app, answer.answer.plan->warnings);
  }
  NoteFindings(app, answer.answer.findings);
  // A job that was placed at once only waits for its plan.
  if (answer.answer.waits && answer.answer.waits->code != "Planning") {
    app.Note("start: waits for " + answer.answer.waits->code +
             (answer.answer.waits->evidence.empty() ? "" : ": " + answer.answer.waits->evidence));
    NoteExpectedStart(app, client, answer.elements > 0 ? answer.first : answer.job);
  } else {
    app.Note("start: now");
  }
  const std::string shown = std::to_string((answer.elements > 0 ? answer.first : answer.job).value);
  app.Note("next: launch logs -f " + shown + "   launch status " + id + "   launch cancel " + id);
}

void NoteFailure(const App& app, Client& client, JobView& view) {
  if (!IsTerminal(view.state) || view.state == JobState::kSucceeded ||
      view.state == JobState::kCancelled)
    return;
  AddVerdict(client, view);
  const std::string id = std::to_string(view.id.value);
  const bool judged = !view.attempts.empty() && view.attempts.back().verdict;
  app.Note("job " + id + ": " + (judged ? VerdictLine(*view.attempts.back().verdict) + "; " : "") +
           "launch why " + id + " has the evidence and what to do");
}

// The refusal is one sentence; the findings behind it say what to do on which node.
Result<int> RefuseSubmit(const App& app, Client& client, const PlanCall& call, const Error& error) {
  if (error.code == ErrorCode::kPreflightFailed) {
    const Result<PlanAnswer> why = client.Plan(call);
    if (why && (app.WantsJson() || app.WantsYaml())) {
      app.OutDocument(PlanJson(*why));
      app.Note(FormatError(error));
      return ExitCodeOf(error.code);
    }
    if (why) {
      app.Note(FindingsText(why->findings, Screen()));
      Error told = error;
      told.hint.clear();  // the remedies, which stand there
      return Unexpected(std::move(told));
    }
  }
  return Unexpected(error);
}

}  // namespace launch
