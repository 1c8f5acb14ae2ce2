#include "cli/start_check.h"

#include <algorithm>
#include <utility>

#include "cli/snapshot/ship.h"
#include "common/pki.h"
#include "preflight/checked_text.h"
#include "preflight/codes.h"

namespace launch {
namespace {

constexpr Millis kUntilChecked{30'000};

void AddNew(std::vector<Check> more, std::vector<Check>& checks) {
  for (Check& check : more) {
    const bool known = std::ranges::find(checks, check) != checks.end();
    if (!known) checks.push_back(std::move(check));
  }
}

// All that the job's newest start looked at, as its events tell.
Result<std::vector<Check>> ChecksOfStart(Client& client, const JobView& job) {
  std::vector<Check> checks;
  if (job.attempts.empty()) return checks;
  const std::string newest = "attempt/" + ToString(Key{job.id, job.attempts.back().attempt});
  WatchCall call;
  call.jobs = {job.id};
  LAUNCH_RETURN_IF_ERROR(client.Watch(call, kUntilChecked, [&](const EventView& event) {
    const bool is_it = event.kind == "attempt.checked" && event.subject == newest;
    if (is_it) AddNew(ParseChecked(event.text), checks);
    return true;
  }));
  return checks;
}

}  // namespace

JobSpec AsStartCheck(JobSpec spec) {
  spec.check_only = true;
  spec.name = "check-" + spec.name;
  spec.array.reset();
  spec.depends_on.clear();
  spec.begin.reset();
  spec.retry = {};
  spec.retry.max = 0;
  return spec;
}

PreflightReport WithFound(PreflightReport known, const std::vector<Finding>& found) {
  const auto is_newer = [&](std::string_view code, const std::optional<NodeId>& node) {
    return std::any_of(found.begin(), found.end(),
                       [&](const Finding& now) { return now.code == code && now.node == node; });
  };
  std::erase_if(known.findings, [&](const Finding& old) { return is_newer(old.code, old.node); });
  std::erase_if(known.checks, [&](const Check& old) { return is_newer(old.code, old.node); });
  for (const Finding& finding : found) Add(known, finding);
  return known;
}

Result<PreflightReport> ReportOfStart(Client& client, const JobView& job) {
  std::vector<Finding> found = job.findings;
  std::erase_if(found, [](const Finding& one) { return !IsPreflightCode(one.code); });
  LAUNCH_ASSIGN_OR_RETURN(std::vector<Check> checks, ChecksOfStart(client, job));
  PreflightReport report = WithFound({.findings = {}, .checks = std::move(checks)}, found);
  Sort(report);
  return report;
}

Result<PreflightReport> CheckAtStart(const App& app, Client& client, PreparedJob job,
                                     PreflightReport known) {
  LAUNCH_RETURN_IF_ERROR(ShipWorkdir(app, client, job, true));
  SubmitCall call;
  call.idempotency_key = RandomHex(16);
  call.spec = AsStartCheck(std::move(job.job.spec));
  call.source = job.job.source;
  call.context = job.facts.context;
  call.secrets = job.facts.secrets;
  LAUNCH_ASSIGN_OR_RETURN(const SubmitAnswer answer, client.Submit(call));
  app.Note("job " + std::to_string(answer.job.value) +
           " looks at its nodes; its ranks are not started");
  LAUNCH_ASSIGN_OR_RETURN(const JobView view,
                          AwaitJob(client, answer.job, std::nullopt, [](const JobView&) {}));
  if (auto checks = ChecksOfStart(client, view)) AddNew(std::move(*checks), known.checks);
  PreflightReport report = WithFound(std::move(known), view.findings);
  const bool refused = view.sub_reason == "PREFLIGHT" || view.sub_reason == "SETUP";
  if (view.state == JobState::kSucceeded && !view.attempts.empty()) {
    for (const NodeId& node : view.attempts.back().nodes) {
      Pass(report, "start", node, node.value + " prepared it: all but the ranks themselves");
    }
  } else if (!refused) {
    return Fail(ErrorCode::kUnavailable,
                "job " + std::to_string(answer.job.value) + " ended " +
                    std::string(ToString(view.state)) + ": " + view.outcome,
                "launch events " + std::to_string(answer.job.value) +
                    "; launch check --known judges without asking the nodes");
  }
  Sort(report);
  return report;
}

}  // namespace launch
