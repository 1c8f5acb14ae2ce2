#include "cli/job_verdict.h"

#include "cli/unstarted_verdict.h"
#include "diagnosis/exit_evidence.h"
#include "diagnosis/labels.h"
#include "diagnosis/verdict.h"

namespace launch {
namespace {

// `why` may take its time; `status` must not wait for a node that does not answer.
struct Patience {
  std::size_t ranks;
  Millis of_each;
};
constexpr Patience kWhy{8, Millis(30'000)};
constexpr Patience kStatus{2, Millis(2'000)};

std::vector<FailedRank> FailingRanks(const AttemptView& attempt, std::size_t most) {
  std::vector<FailedRank> ranks;
  const bool expandable = UsesExpandableSegments(attempt.env);
  for (const RankView& rank : attempt.ranks)
    if (rank.exit && !Succeeded(*rank.exit)) ranks.push_back({rank.node, *rank.exit, expandable});
  return WorthReading(std::move(ranks), attempt.first_failed_rank, most);
}

// A log that cannot be read is an empty one: the exit report still says something.
Verdict JudgeLog(Client& client, LogsCall call, const FailedRank& rank, Millis at_most,
                 const CompiledSignatures& signatures) {
  LogScanner scanner(signatures);
  call.ranks = {rank.exit.rank};
  (void)client.Logs(call, at_most, [&](const LogPiece& piece) {
    if (const auto* chunk = std::get_if<LogChunk>(&piece)) scanner.Feed(chunk->data);
    return true;
  });
  return JudgeRank(scanner.Finish(), rank, signatures);
}

// The newest, unless nothing of it has failed and an earlier one, which it followed, has a verdict.
const AttemptView* FindAttempt(const JobView& job, std::optional<Attempt> attempt) {
  if (!attempt) {
    if (job.attempts.empty()) return nullptr;
    const AttemptView& newest = job.attempts.back();
    if (newest.verdict || !FailingRanks(newest, 1).empty()) return &newest;
    for (auto view = job.attempts.rbegin(); view != job.attempts.rend(); ++view)
      if (view->verdict) return &*view;
    return &newest;
  }
  for (const AttemptView& view : job.attempts)
    if (view.attempt == *attempt) return &view;
  return nullptr;
}

bool EndedBeforeStart(const JobView& job) {
  return job.state == JobState::kFailed &&
         (job.sub_reason == "PREFLIGHT" || job.sub_reason == "SETUP");
}

// Of a job that waits because a node refused its newest start: what that node has against it.
std::optional<Verdict> VerdictOfRefusal(const JobView& job) {
  const bool waits = job.state == JobState::kPending || job.state == JobState::kRequeued;
  if (!waits || job.attempts.empty()) return std::nullopt;
  const AttemptView& newest = job.attempts.back();
  if (newest.outcome != "start_failed") return std::nullopt;
  std::vector<Finding> said = job.findings;
  std::erase_if(said,
                [&](const Finding& finding) { return finding.node != newest.first_failed_node; });
  std::optional<Verdict> verdict = VerdictOfFindings(said);
  if (verdict) verdict->action = "retry_elsewhere";
  return verdict;
}

Result<Verdict> Judged(Client& client, const JobView& job, std::optional<Attempt> attempt,
                       Patience patience) {
  const std::string id = "job " + std::to_string(job.id.value);
  const bool newest =
      !attempt || (!job.attempts.empty() && job.attempts.back().attempt == *attempt);
  if (newest && EndedBeforeStart(job)) {
    if (auto verdict = VerdictOfFindings(job.findings)) return *std::move(verdict);
  }
  if (newest) {
    if (auto verdict = VerdictOfRefusal(job)) return *std::move(verdict);
  }
  if (job.attempts.empty() && !attempt) return VerdictOfUnstarted(job);
  const AttemptView* view = FindAttempt(job, attempt);
  if (view == nullptr)
    return Fail(ErrorCode::kNotFound, id + " has no such attempt",
                "`launch status " + std::to_string(job.id.value) + "` lists its attempts");
  if (view->verdict) return *view->verdict;
  const std::vector<FailedRank> ranks = FailingRanks(*view, patience.ranks);
  if (ranks.empty())
    return Fail(ErrorCode::kFailedPrecondition, id + ": no rank of it has failed",
                job.outcome.empty() ? "it is " + std::string(ToString(job.state)) : job.outcome);
  const CompiledSignatures signatures;
  LogsCall call;
  call.job = job.id;
  call.attempt = view->attempt;
  std::vector<Verdict> verdicts;
  verdicts.reserve(ranks.size());
  for (const FailedRank& rank : ranks)
    verdicts.push_back(JudgeLog(client, call, rank, patience.of_each, signatures));
  Verdict chosen = ChooseVerdict(verdicts);
  NameJob(job.id, chosen);
  return chosen;
}

}  // namespace

Result<Verdict> VerdictOfJob(Client& client, const JobView& job, std::optional<Attempt> attempt) {
  return Judged(client, job, attempt, kWhy);
}

std::optional<Verdict> VerdictOfFindings(const std::vector<Finding>& findings) {
  std::optional<Verdict> verdict;
  for (const Finding& finding : findings) {
    if (finding.severity != Severity::kError) continue;
    const std::string where = finding.node ? finding.node->value + ": " : "";
    if (verdict) {
      verdict->evidence.push_back(where + finding.code + ": " + finding.says);
      continue;
    }
    verdict = Verdict{.label = finding.code,
                      .confidence = Confidence::kConfirmed,
                      .node = finding.node,
                      .cause = finding.says,
                      .remedy = finding.remedy,
                      .action = "no_retry"};
    if (!finding.evidence.empty()) verdict->evidence.push_back(where + finding.evidence);
  }
  return verdict;
}

void AddVerdict(Client& client, JobView& job) {
  // A cancelled job has none; of the others a controller of an earlier release may have kept none.
  if (!IsTerminal(job.state) || job.state == JobState::kSucceeded ||
      job.state == JobState::kCancelled)
    return;
  if (job.attempts.empty() || job.attempts.back().verdict) return;
  Result<Verdict> verdict = Judged(client, job, std::nullopt, kStatus);
  if (verdict && IsFailure(*verdict)) job.attempts.back().verdict = std::move(*verdict);
}

}  // namespace launch
