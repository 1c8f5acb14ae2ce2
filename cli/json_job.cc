#include <utility>

#include "cli/json_views.h"
#include "common/launcher_process.h"

namespace launch {
namespace {

OrderedJson JsonOf(const Verdict& verdict) {
  return {{"label", verdict.label},
          {"confidence", Word(ToString(verdict.confidence))},
          {"rank", OrNull(verdict.rank)},
          {"node", verdict.node ? OrderedJson(verdict.node->value) : OrderedJson(nullptr)},
          {"evidence", verdict.evidence},
          {"cause", verdict.cause},
          {"remedy", verdict.remedy},
          {"action", verdict.action},
          {"numbers", verdict.numbers},
          {"changes", verdict.changes}};
}

OrderedJson JsonOf(const RankMemory& memory) {
  const bool said = memory.allocated.has_value();
  return {{"allocated_bytes", OrNull(memory.allocated)},
          {"reserved_bytes", OrNull(memory.reserved)},
          {"said", said ? TimeOrNull(memory.said) : OrderedJson(nullptr)},
          {"process_bytes", OrNull(memory.process)},
          {"foreign_bytes", OrNull(memory.foreign)},
          {"free_bytes", OrNull(memory.free)},
          {"sampled",
           memory.sampled == WallTime{} ? OrderedJson(nullptr) : TimeOrNull(memory.sampled)}};
}

OrderedJson JsonOf(const LauncherProcess& process) {
  return {{"rank", process.rank},
          {"local_rank", process.local_rank},
          {"pid", process.pid == 0 ? OrderedJson(nullptr) : OrderedJson(process.pid)},
          {"code", process.end ? OrderedJson(ShellCode(*process.end)) : OrderedJson(nullptr)},
          {"says", process.end ? OrderedJson(Describe(*process.end)) : OrderedJson(nullptr)},
          {"error", process.error.empty() ? OrderedJson(nullptr) : OrderedJson(process.error)}};
}

OrderedJson JsonOf(const RankView& rank) {
  OrderedJson exit = nullptr;
  if (rank.exit) {
    OrderedJson processes = OrderedJson::array();
    for (const LauncherProcess& process : ProcessesIn(rank.exit->kernel_lines))
      processes.push_back(JsonOf(process));
    exit = {{"code", ShellCode(rank.exit->cause)},
            {"says", Describe(rank.exit->cause)},
            {"user_ms", rank.exit->user_ms},
            {"system_ms", rank.exit->system_ms},
            {"max_rss_bytes", rank.exit->max_rss_bytes},
            {"log_bytes", rank.exit->log_end},
            {"processes", std::move(processes)}};
  }
  return {{"rank", rank.rank},
          {"node", rank.node.value},
          {"pid", rank.pid == 0 ? OrderedJson(nullptr) : OrderedJson(rank.pid)},
          {"state", rank.state},
          {"memory", rank.memory ? JsonOf(*rank.memory) : OrderedJson(nullptr)},
          {"exit", exit}};
}

OrderedJson JsonOf(const AttemptView& attempt) {
  OrderedJson ranks = OrderedJson::array();
  for (const RankView& rank : attempt.ranks) ranks.push_back(JsonOf(rank));
  return {{"attempt", attempt.attempt.value},
          {"phase", attempt.phase},
          {"outcome", attempt.outcome},
          {"cause", attempt.cause},
          {"nodes", NodeNames(attempt.nodes)},
          {"master", attempt.master},
          {"resumed_from", attempt.resumed_from},
          {"batch", JsonOf(attempt.batch)},
          {"env", TextMap(attempt.env)},
          {"first_failed_rank", OrNull(attempt.first_failed_rank)},
          {"first_failed_node", attempt.first_failed_node
                                    ? OrderedJson(attempt.first_failed_node->value)
                                    : OrderedJson(nullptr)},
          {"change", Word(attempt.change)},
          {"verdict", attempt.verdict ? JsonOf(*attempt.verdict) : OrderedJson(nullptr)},
          {"started", TimeOrNull(attempt.started)},
          {"ended", TimeOrNull(attempt.ended)},
          {"ranks", ranks}};
}

}  // namespace

OrderedJson JsonOf(const WaitReason& reason) {
  return {{"code", reason.code}, {"evidence", reason.evidence}};
}

OrderedJson JsonOf(const JobView& job) {
  OrderedJson attempts = OrderedJson::array();
  for (const AttemptView& attempt : job.attempts) attempts.push_back(JsonOf(attempt));
  return {{"id", job.id.value},
          {"name", job.name},
          {"kind", job.kind},
          {"user", job.user},
          {"array", job.array ? OrderedJson(job.array->value) : OrderedJson(nullptr)},
          {"array_index", job.array ? OrderedJson(job.array_index) : OrderedJson(nullptr)},
          {"priority", job.priority},
          {"state", Word(ToString(job.state))},
          {"st", Word(StateCode(job.state))},
          {"sub_reason", job.sub_reason},
          {"reason", job.reason.code.empty() ? OrderedJson(nullptr) : JsonOf(job.reason)},
          {"outcome", job.outcome},
          {"exit_code", OrNull(job.exit_code)},
          {"cancelled_by", job.cancelled_by},
          {"gpus", job.gpus},
          {"nodes", job.nodes},
          {"nodelist", NodeNames(job.nodelist)},
          {"strategy", job.strategy},
          {"step", OrNull(job.step)},
          {"steps", OrNull(job.steps)},
          {"seconds_per_step", OrNull(job.seconds_per_step)},
          {"eta_s", OrNull(job.eta_s)},
          {"submitted", TimeOrNull(job.submitted)},
          {"started", TimeOrNull(job.started)},
          {"ended", TimeOrNull(job.ended)},
          {"held", job.held},
          {"findings", JsonOf(job.findings)},
          {"attempts", attempts},
          {"git_commit", job.git_commit},
          {"git_diff", job.git_diff},
          {"plan", job.plan ? JsonOf(*job.plan) : OrderedJson(nullptr)}};
}

}  // namespace launch
