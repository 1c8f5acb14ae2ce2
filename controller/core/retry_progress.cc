// Does a job get anywhere from one try to the next? Its checkpoints tell, at the start of each:
// what an attempt saved is seen when the next one is staged.
#include <fmt/format.h>

#include <algorithm>

#include "controller/core/draft.h"
#include "controller/core/recovery.h"

namespace launch::controller {
namespace {

// The last one before this whose ranks ran; null = none did.
const AttemptRecord* LastThatRan(const State& state, const Key& key) {
  for (std::uint32_t number = key.attempt.value; number-- > 1;) {
    const auto found = state.attempts.find(Key{key.job, Attempt{number}});
    if (found != state.attempts.end() && found->second.started != WallTime{}) return &found->second;
  }
  return nullptr;
}

// Whether an attempt between the two came as far as its launch, which gives it a master.
bool LookedSince(const State& state, const Key& before, const Key& now) {
  for (std::uint32_t number = before.attempt.value + 1; number < now.attempt.value; ++number) {
    const auto found = state.attempts.find(Key{now.job, Attempt{number}});
    if (found != state.attempts.end() && !found->second.master_address.empty()) return true;
  }
  return false;
}

}  // namespace

void CountProgress(const State& state, const LaunchDecision& decision, JobRecord& job) {
  const AttemptRecord* before = LastThatRan(state, decision.attempt.key);
  if (before == nullptr || job.started == WallTime{}) {  // a requeue after its end begins anew
    job.best_step = std::max(job.best_step, decision.attempt.resumed_step);
    return;
  }
  // A start since then has looked already: one checkpoint is progress once. A file that is written
  // in place has no step in its name, but it has a time.
  const bool looked = LookedSince(state, before->key, decision.attempt.key);
  const bool newer = !looked && decision.checkpoint_written > before->started;
  if (newer || decision.attempt.resumed_step > job.best_step) {
    job.best_step = std::max(job.best_step, decision.attempt.resumed_step);
    job.no_progress = 0;
    RefillRetries(job);
    return;
  }
  // What a user stopped is no try that gained nothing.
  if (before->outcome != "preempted" && !looked) ++job.no_progress;
}

std::optional<Ending> WhyStuck(const State& state, const AttemptRecord& attempt,
                               const JobRecord& job) {
  const JobSpec& spec = state.specs.at(job.id).spec;
  // A changed plan is not the same try: it has a limit of its own.
  const bool same_plan = attempt.change.empty();
  // With `resume: never` nobody has looked.
  if (!same_plan || spec.checkpoint.dir.empty() || !spec.checkpoint.resume) return std::nullopt;
  const std::string over = WhyOverBudget(job);
  if (over.empty() && job.no_progress <= spec.retry.no_progress_max) return std::nullopt;
  Ending ending;
  if (const AttemptRecord* before = LastThatRan(state, attempt.key)) {
    ending = JudgeAttempt(state, *before);
  }
  ending.outcome = "no_progress";
  ending.first_failed_rank.reset();  // of the attempt before: this one ran nothing
  ending.first_failed_node.reset();
  ending.state = JobState::kFailed;
  ending.sub_reason = "CHECKPOINT";
  if (!ending.text.empty()) ending.text += "; ";
  ending.text += over.empty() ? fmt::format("given up after {} retries without a newer checkpoint",
                                            job.no_progress - 1)
                              : over;
  ending.blame = Blame::kPlan;  // nothing that a further try would mend
  return ending;
}

}  // namespace launch::controller
