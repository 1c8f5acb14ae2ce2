#include "cli/job_verdict.h"

#include <algorithm>

#include "diagnosis/exit_evidence.h"
#include "diagnosis/verdict.h"

namespace launch {
namespace {

constexpr std::size_t kMostRanks = 8;
constexpr Millis kReadLimit{30'000};

// Failing ranks, the one that is known to have failed first in front, then by time of death.
std::vector<const RankView*> FailingRanks(const AttemptView& attempt) {
  std::vector<const RankView*> ranks;
  for (const RankView& rank : attempt.ranks)
    if (rank.exit && !Succeeded(*rank.exit)) ranks.push_back(&rank);
  std::sort(ranks.begin(), ranks.end(), [&](const RankView* a, const RankView* b) {
    const bool a_first = attempt.first_failed_rank == a->rank;
    const bool b_first = attempt.first_failed_rank == b->rank;
    if (a_first != b_first) return a_first;
    if (a->exit->ended != b->exit->ended) return a->exit->ended < b->exit->ended;
    return a->rank < b->rank;
  });
  if (ranks.size() > kMostRanks) ranks.resize(kMostRanks);
  return ranks;
}

// A log that cannot be read is an empty one: the exit report still says something.
Verdict JudgeRank(Client& client, JobId job, Attempt attempt, const RankView& rank,
                  const CompiledSignatures& signatures) {
  LogScanner scanner(signatures);
  LogsCall call;
  call.job = job;
  call.attempt = attempt;
  call.ranks = {rank.rank};
  (void)client.Logs(call, kReadLimit, [&](const LogPiece& piece) {
    if (const auto* chunk = std::get_if<LogChunk>(&piece)) scanner.Feed(chunk->data);
    return true;
  });
  NodeEvidence node = EvidenceOf(*rank.exit);
  node.node = rank.node;
  Verdict verdict = Judge(scanner.Finish(), node, signatures);
  if (!verdict.rank) verdict.rank = rank.rank;
  return verdict;
}

const AttemptView* FindAttempt(const JobView& job, std::optional<Attempt> attempt) {
  if (!attempt) return job.attempts.empty() ? nullptr : &job.attempts.back();
  for (const AttemptView& view : job.attempts)
    if (view.attempt == *attempt) return &view;
  return nullptr;
}

}  // namespace

Result<Verdict> VerdictOfJob(Client& client, const JobView& job, std::optional<Attempt> attempt) {
  const std::string id = "job " + std::to_string(job.id.value);
  const AttemptView* view = FindAttempt(job, attempt);
  if (view == nullptr)
    return Fail(ErrorCode::kNotFound, id + (attempt ? " has no such attempt" : " never started"),
                "`launch status " + std::to_string(job.id.value) + "` lists its attempts");
  if (view->verdict) return *view->verdict;
  const std::vector<const RankView*> ranks = FailingRanks(*view);
  if (ranks.empty())
    return Fail(ErrorCode::kFailedPrecondition, id + ": no rank of it has failed",
                job.outcome.empty() ? "it is " + std::string(ToString(job.state)) : job.outcome);
  const CompiledSignatures signatures;
  std::vector<Verdict> verdicts;
  for (const RankView* rank : ranks)
    verdicts.push_back(JudgeRank(client, job.id, view->attempt, *rank, signatures));
  return ChooseVerdict(verdicts);
}

void AddVerdict(Client& client, JobView& job) {
  if (job.attempts.empty() || job.attempts.back().verdict) return;
  if (!IsTerminal(job.state) || job.state == JobState::kSucceeded ||
      job.state == JobState::kCancelled)
    return;
  Result<Verdict> verdict = VerdictOfJob(client, job, std::nullopt);
  if (verdict && IsFailure(*verdict)) job.attempts.back().verdict = std::move(*verdict);
}

}  // namespace launch
