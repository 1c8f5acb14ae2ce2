#include "cli/job_verdict.h"

#include <algorithm>

#include "diagnosis/exit_evidence.h"
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

// Failing ranks, the one that is known to have failed first in front, then by time of death.
std::vector<const RankView*> FailingRanks(const AttemptView& attempt, std::size_t most) {
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
  if (ranks.size() > most) ranks.resize(most);
  return ranks;
}

// A log that cannot be read is an empty one: the exit report still says something.
Verdict JudgeRank(Client& client, LogsCall call, const RankView& rank, Millis at_most,
                  const CompiledSignatures& signatures) {
  LogScanner scanner(signatures);
  call.ranks = {rank.rank};
  (void)client.Logs(call, at_most, [&](const LogPiece& piece) {
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

Result<Verdict> Judged(Client& client, const JobView& job, std::optional<Attempt> attempt,
                       Patience patience) {
  const std::string id = "job " + std::to_string(job.id.value);
  const AttemptView* view = FindAttempt(job, attempt);
  if (view == nullptr)
    return Fail(ErrorCode::kNotFound, id + (attempt ? " has no such attempt" : " never started"),
                "`launch status " + std::to_string(job.id.value) + "` lists its attempts");
  if (view->verdict) return *view->verdict;
  const std::vector<const RankView*> ranks = FailingRanks(*view, patience.ranks);
  if (ranks.empty())
    return Fail(ErrorCode::kFailedPrecondition, id + ": no rank of it has failed",
                job.outcome.empty() ? "it is " + std::string(ToString(job.state)) : job.outcome);
  const CompiledSignatures signatures;
  LogsCall call;
  call.job = job.id;
  call.attempt = view->attempt;
  std::vector<Verdict> verdicts;
  for (const RankView* rank : ranks)
    verdicts.push_back(JudgeRank(client, call, *rank, patience.of_each, signatures));
  return ChooseVerdict(verdicts);
}

}  // namespace

Result<Verdict> VerdictOfJob(Client& client, const JobView& job, std::optional<Attempt> attempt) {
  return Judged(client, job, attempt, kWhy);
}

void AddVerdict(Client& client, JobView& job) {
  if (job.state != JobState::kFailed && job.state != JobState::kOutOfMemory) return;
  if (job.attempts.empty() || job.attempts.back().verdict) return;
  Result<Verdict> verdict = Judged(client, job, std::nullopt, kStatus);
  if (verdict && IsFailure(*verdict)) job.attempts.back().verdict = std::move(*verdict);
}

}  // namespace launch
