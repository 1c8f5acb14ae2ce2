#include "controller/core/recovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "controller/core/attempt_facts.h"
#include "controller/core/replan.h"
#include "planner/choose/precision.h"

namespace launch::controller {
namespace {

constexpr int kInfrastructureRetries = 2;  // where `retry.max` is unset
constexpr int kPlanChanges = 3;            // after out-of-memory errors, in one job
constexpr Millis kForOthersToGo{30'000};   // until another process may have given its memory back

// Keys of JobRecord::retries; the others are outcomes and labels of the infrastructure.
constexpr std::string_view kChanged = "oom_change";
constexpr std::string_view kExitCode = "exit_code";
constexpr std::string_view kFailure = "failure";
constexpr std::string_view kOom = "oom";
constexpr std::string_view kPreempted = "preempted";
constexpr std::string_view kUnproved = "unproved";  // the last one was beyond the budget

enum class Whose {
  kUser,            // another try ends the same way
  kProgram,         // tried again only where `retry` asks for it
  kInfrastructure,  // tried again unless `retry` forbids it
};

// What a label, or an action (docs/diagnosis.md), leads to. `event` is the word of
// `retry.on_events`.
struct Policy {
  std::string_view name;
  Whose whose;
  Action action;
  int budget = 0;
  std::string_view event = {};
  Millis wait{0};
};

// The table. A label that is not here takes the row of its action.
constexpr Policy kOfLabel[] = {
    {"cuda_oom", Whose::kProgram, Action::kReplan, kPlanChanges, "oom"},
    {"cuda_oom_fragmentation", Whose::kProgram, Action::kReplan, kPlanChanges, "oom"},
    {"cuda_oom_foreign_process", Whose::kInfrastructure, Action::kElsewhere, kInfrastructureRetries,
     "gpu_error", kForOthersToGo},
    {"dataloader_worker_killed", Whose::kProgram, Action::kReplan, kPlanChanges, "oom"},
    {"ecc", Whose::kInfrastructure, Action::kElsewhere, kInfrastructureRetries, "gpu_error"},
    {"hang", Whose::kInfrastructure, Action::kSame, kInfrastructureRetries, "hang"},
    {"host_oom_kill", Whose::kProgram, Action::kReplan, kPlanChanges, "oom"},
    {"nccl_timeout", Whose::kInfrastructure, Action::kSame, 1, "hang"},
    {"nccl_timeout_peer_died", Whose::kInfrastructure, Action::kSame, 1, "hang"},
    // Each attempt takes a port of its own.
    {"port_in_use", Whose::kInfrastructure, Action::kSame, 3, "node_failure"},
    {"rendezvous_timeout", Whose::kInfrastructure, Action::kSame, 1, "node_failure"},
    {"xid_gpu_hardware", Whose::kInfrastructure, Action::kElsewhere, kInfrastructureRetries,
     "gpu_error"},
    {"xid_gsp", Whose::kInfrastructure, Action::kElsewhere, kInfrastructureRetries, "gpu_error"},
    {"xid_nvlink", Whose::kInfrastructure, Action::kElsewhere, kInfrastructureRetries, "gpu_error"},
};
constexpr Policy kOfAction[] = {
    {"continue", Whose::kProgram, Action::kSame},
    {"no_retry", Whose::kUser, Action::kStop},
    {"resume", Whose::kInfrastructure, Action::kResume, kInfrastructureRetries, "preempted"},
    {"retry_elsewhere", Whose::kInfrastructure, Action::kElsewhere, kInfrastructureRetries,
     "node_failure"},
    {"retry_same", Whose::kProgram, Action::kSame},
    // The change is one that only the user can make: more /dev/shm, another data loader.
    {"retry_with_change", Whose::kProgram, Action::kSame, 0, "oom"},
};

// Ranks that did not hear of each other: by the network, as far as anybody can tell.
constexpr std::string_view kOfNetwork[] = {
    "hang",         "nccl_ib_error",          "nccl_network",           "nccl_no_interface",
    "nccl_timeout", "nccl_timeout_peer_died", "nccl_timeout_slow_rank", "rendezvous_timeout",
};

const Policy& PolicyOf(const Verdict& verdict) {
  for (const Policy& row : kOfLabel) {
    if (row.name == verdict.label) return row;
  }
  for (const Policy& row : kOfAction) {
    if (row.name == verdict.action) return row;
  }
  return kOfAction[1];
}

bool Lists(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool NamesExitCode(const RetrySpec& retry, const Ending& ending) {
  return ending.exit_code &&
         std::find(retry.recover_on_exit_codes.begin(), retry.recover_on_exit_codes.end(),
                   *ending.exit_code) != retry.recover_on_exit_codes.end();
}

Recovery Stop(std::string says) {
  Recovery recovery;
  recovery.says = std::move(says);
  return recovery;
}

bool IsOfProgram(std::string_view cause) {
  return cause == kExitCode || cause == kFailure || cause == kOom;
}

int CountOf(const JobRecord& job, std::string_view cause) {
  const auto found = job.retries.find(std::string(cause));
  return found == job.retries.end() ? 0 : found->second;
}

Recovery Retry(Action action, std::string counted_as) {
  Recovery recovery;
  recovery.action = action;
  recovery.counted_as = std::move(counted_as);
  return recovery;
}

// For what the program itself did: `limit` in all.
Recovery WithinProgram(const JobRecord& job, int limit, std::string_view counted_as) {
  const int used = RetriesUsed(job, Budget::kProgram);
  if (used < limit) return Retry(Action::kSame, std::string(counted_as));
  return Stop(limit > 0 ? fmt::format("{} of {} retries used", used, limit) : "");
}

std::string InfrastructureUsed(const JobRecord& job, int used, int limit) {
  return fmt::format("{} of {} retries used for the infrastructure{}", used, limit,
                     job.best_step >= 0 ? " since its newest checkpoint" : "");
}

// Whether the attempt may have saved something newer, which only the next start would see.
bool MayHaveSaved(const State& state, const AttemptRecord& attempt) {
  constexpr Millis kShortest{60'000};
  const JobSpec& spec = state.specs.at(attempt.key.job).spec;
  const bool looks = !spec.checkpoint.dir.empty() && spec.checkpoint.resume;
  return looks && attempt.started != WallTime{} && RanFor(attempt) >= kShortest;
}

// For what the infrastructure did: `alike` for the same cause, `retry.max` in all.
Recovery WithinInfrastructure(const State& state, const AttemptRecord& attempt, int alike,
                              Action action, std::string counted_as) {
  const JobRecord& job = state.jobs.at(attempt.key.job);
  const std::optional<int>& max = state.specs.at(attempt.key.job).spec.retry.max;
  const int limit = max.value_or(std::max(kInfrastructureRetries, alike));
  const int used = RetriesUsed(job, Budget::kInfrastructure);
  const int same = CountOf(job, counted_as);
  if (limit == 0) return Stop("");
  const bool over = used >= limit || (!max && same >= alike);
  if (!over) return Retry(action, std::move(counted_as));
  if (action == Action::kResume || !MayHaveSaved(state, attempt)) {
    return Stop(used >= limit
                    ? InfrastructureUsed(job, used, limit)
                    : fmt::format("{} of {} retries used for {}", same, alike, counted_as));
  }
  Recovery recovery = Retry(action, std::move(counted_as));
  recovery.unproved = true;
  return recovery;
}

// By the kind of the end alone, as far as `retry` covers it.
Recovery ByKind(const State& state, const AttemptRecord& attempt, const Ending& ending) {
  const JobRecord& job = state.jobs.at(attempt.key.job);
  const RetrySpec& retry = state.specs.at(attempt.key.job).spec.retry;
  // `max: N` alone means every failure, as in torchrun; naming events or codes narrows it.
  const bool narrowed = !retry.on_events.empty() || !retry.recover_on_exit_codes.empty();
  const int if_max_alone = retry.max && !narrowed ? *retry.max : 0;
  switch (ending.blame) {
    case Blame::kInfrastructure: {
      const bool named = retry.on_events.empty() || Lists(retry.on_events, "node_failure");
      if (ending.outcome == "node_fail" && !named) return {};
      return WithinInfrastructure(state, attempt, kInfrastructureRetries, Action::kElsewhere,
                                  ending.outcome);
    }
    case Blame::kOutOfMemory: {
      const bool named = Lists(retry.on_events, "oom");
      const int limit = named ? retry.max.value_or(kInfrastructureRetries) : if_max_alone;
      return WithinProgram(job, limit, named ? kOom : kFailure);
    }
    case Blame::kUserCode: {
      const bool named = NamesExitCode(retry, ending);
      const int limit = named ? retry.max.value_or(kInfrastructureRetries) : if_max_alone;
      return WithinProgram(job, limit, named ? kExitCode : kFailure);
    }
    case Blame::kPlan:
    case Blame::kNobody:
      break;
  }
  return {};
}

bool IsOfHost(const Verdict& verdict) {
  return verdict.label == "host_oom_kill" || verdict.label == "dataloader_worker_killed";
}

std::vector<const NodeInventory*> InventoriesOf(const State& state, const AttemptRecord& attempt) {
  std::vector<const NodeInventory*> nodes;
  for (const NodeId& node : attempt.nodes) {
    const auto found = state.inventories.find(node);
    if (found != state.inventories.end()) nodes.push_back(found->second.get());
  }
  return nodes;
}

Recovery Replan(const State& state, const AttemptRecord& attempt, const JobRecord& job,
                const JobSpec& spec) {
  if (spec.on_oom == OnOom::kFail) return Stop("on_oom: fail");
  if (const int used = CountOf(job, kChanged); used >= kPlanChanges) {
    return Stop(fmt::format("{} plans of less memory were tried", used));
  }
  const auto plan = state.plans.find(attempt.key);
  if (plan == state.plans.end()) return Stop("its plan cannot be read, so none of less memory");
  const Plan& failed = plan->second->plan;
  const SubmitContext& context = state.specs.at(attempt.key.job).context;
  NextPlan next = IsOfHost(*attempt.verdict)
                      ? SpareHostMemory(spec, context, job.change, failed)
                      : ReplanAfter(spec, context, job.change, failed, *attempt.verdict,
                                    SixteenBitsOn(InventoriesOf(state, attempt)));
  if (!next.change) return Stop(std::move(next.text));
  Recovery recovery;
  recovery.action = Action::kReplan;
  recovery.counted_as = kChanged;
  recovery.says = std::move(next.text);
  recovery.change = std::move(next.change);
  return recovery;
}

}  // namespace

bool IsFaultOfNode(const Verdict& verdict) {
  const Policy& policy = PolicyOf(verdict);
  return policy.action == Action::kElsewhere && policy.wait == Millis{0} &&
         verdict.confidence != Confidence::kUnknown && verdict.confidence != Confidence::kSymptom;
}

bool MayBeShared(const Verdict& verdict) { return PolicyOf(verdict).event != "gpu_error"; }

bool DoubtsNetwork(const Verdict& verdict) {
  return std::ranges::find(kOfNetwork, verdict.label) != std::end(kOfNetwork);
}

int RetriesUsed(const JobRecord& job, Budget budget) {
  int used = 0;
  for (const auto& [cause, count] : job.retries) {
    if (cause == kChanged || cause == kUnproved) continue;
    used += IsOfProgram(cause) == (budget == Budget::kProgram) ? count : 0;
  }
  return used;
}

void RefillRetries(JobRecord& job) {
  std::erase_if(job.retries, [](const auto& entry) {
    const std::string& cause = entry.first;
    return !IsOfProgram(cause) && cause != kChanged && cause != kPreempted;
  });
}

void CountRetry(const Recovery& recovery, JobRecord& job) {
  ++job.retries[recovery.counted_as];
  if (recovery.unproved) job.retries[std::string(kUnproved)] = 1;
}

std::string WhyOverBudget(const JobRecord& job) {
  if (CountOf(job, kUnproved) == 0) return {};
  return fmt::format("{} retries used for the infrastructure, the last without a newer checkpoint",
                     RetriesUsed(job, Budget::kInfrastructure));
}

Recovery RecoveryAfter(const State& state, const AttemptRecord& attempt, const Ending& ending) {
  const JobRecord& job = state.jobs.at(attempt.key.job);
  const JobSpec& spec = state.specs.at(attempt.key.job).spec;
  const RetrySpec& retry = spec.retry;
  const bool caused_by_program =
      ending.blame == Blame::kUserCode || ending.blame == Blame::kOutOfMemory;
  if (!attempt.verdict || !caused_by_program || NamesExitCode(retry, ending)) {
    return ByKind(state, attempt, ending);
  }
  const Verdict& verdict = *attempt.verdict;
  const Policy& policy = PolicyOf(verdict);
  const bool sure =
      verdict.confidence == Confidence::kLikely || verdict.confidence == Confidence::kConfirmed;
  if (policy.whose == Whose::kUser && sure) {
    const bool asked = retry.max.value_or(0) > 0;
    return Stop(
        asked ? fmt::format("not tried again: {} ends the same way each time", verdict.label) : "");
  }
  if (retry.max == 0 || spec.debug) return {};
  if (policy.action == Action::kReplan) {
    Recovery changed = Replan(state, attempt, job, spec);
    if (changed.action != Action::kStop || !IsOfHost(verdict)) return changed;
    // More may be free next time: where `retry` asks for it, also unchanged.
    Recovery same = ByKind(state, attempt, ending);
    if (same.says.empty()) same.says = std::move(changed.says);
    return same;
  }
  if (policy.whose != Whose::kInfrastructure) return ByKind(state, attempt, ending);
  const bool narrowed = !retry.on_events.empty() && !Lists(retry.on_events, policy.event);
  if (narrowed) return ByKind(state, attempt, ending);
  // A line of the log, or a SIGTERM that is not ours, is all that speaks of an end from outside:
  // what we stop ourselves never comes here. So it costs a retry as anything else does.
  if (policy.action == Action::kResume && spec.checkpoint.dir.empty()) {
    return Stop("ended from outside, and there is no checkpoint.dir to resume from");
  }
  const bool resumes = policy.action == Action::kResume;
  Recovery recovery = WithinInfrastructure(state, attempt, policy.budget, policy.action,
                                           std::string(resumes ? kPreempted : verdict.label));
  recovery.wait = policy.wait;
  return recovery;
}

}  // namespace launch::controller
