#include "planner/choose/fallbacks.h"

#include <algorithm>
#include <optional>
#include <string>

#include "common/units.h"
#include "planner/model/strategy.h"

namespace launch {
namespace {

constexpr std::size_t kMicroBatches = 3;  // as many as changes are made to one job
// A hundredth less would not survive what the prediction missed.
constexpr double kLess = 0.97;

int RecomputationOf(const std::string& checkpointing) {
  if (checkpointing == NameOf(Checkpointing::kFull)) return 2;
  return checkpointing.empty() || checkpointing == NameOf(Checkpointing::kNone) ? 0 : 1;
}

// A run that shards keeps its family: what reads a file of DeepSpeed knows no FSDP.
bool IsLighter(const PlanOption& next, const PlanOption& now) {
  const bool family = !IsSharded(now.strategy) || IsFsdp(now.strategy) == IsFsdp(next.strategy);
  return family && next != now && next.micro <= now.micro &&
         next.checkpointing >= now.checkpointing && next.offload >= now.offload &&
         ShardingOf(next.strategy) >= ShardingOf(now.strategy) &&
         (next.strategy == now.strategy || ShardingOf(next.strategy) > ShardingOf(now.strategy) ||
          next.offload > now.offload);
}

// Of options, or of a row and a plan.
template <typename Next, typename Now>
LighterStep StepBetween(const Next& next, const Now& now) {
  if (next.offload != now.offload) return LighterStep::kOffload;
  if (next.strategy != now.strategy) return LighterStep::kStage;
  if (next.checkpointing != now.checkpointing) return LighterStep::kCheckpointing;
  return LighterStep::kMicroBatch;
}

int ChangesBetween(const PlanOption& next, const PlanOption& now) {
  return static_cast<int>(next.offload != now.offload) +
         static_cast<int>(next.strategy != now.strategy) +
         static_cast<int>(next.checkpointing != now.checkpointing) +
         static_cast<int>(next.micro != now.micro);
}

class Lighter {
 public:
  Lighter(const ChoiceInput& input, const JudgedOption& taken) : input_(input), now_(taken) {
    const PlanOption& option = now_.option;
    input_.limits.batch = {option.micro * option.accumulate * input.shape.ranks, std::nullopt,
                           std::nullopt};
    if (!input_.limits.can_accumulate) input_.limits.batch = input.limits.batch;
  }

  std::vector<Fallback> Rows() {
    const auto choice = ChoosePlan(input_);
    if (!choice) return {};
    for (const JudgedOption& one : choice->judged) {
      const bool fits = one.step_seconds.has_value();
      if (!fits || !IsLighter(one.option, now_.option)) continue;
      if (one.decision_bytes < kLess * now_.decision_bytes) lighter_.push_back(one);
    }
    AddMicroBatches();
    for (const LighterStep step :
         {LighterStep::kCheckpointing, LighterStep::kStage, LighterStep::kOffload}) {
      AddBest(step);
    }
    return std::move(rows_);
  }

 private:
  void AddMicroBatches() {
    std::int64_t most = now_.option.micro / 2;
    for (std::size_t i = 0; i < kMicroBatches; ++i) {
      const JudgedOption* next = nullptr;
      for (const JudgedOption& one : lighter_) {
        if (StepBetween(one.option, now_.option) != LighterStep::kMicroBatch) continue;
        if (one.option.micro > most) continue;
        if (next == nullptr || one.option.micro > next->option.micro) next = &one;
      }
      if (next == nullptr) return;
      Add(*next);
      most = next->option.micro / 2;
    }
  }

  void AddBest(LighterStep step) {
    const JudgedOption* best = nullptr;
    for (const JudgedOption& one : lighter_) {
      if (StepBetween(one.option, now_.option) != step) continue;
      const int changes = ChangesBetween(one.option, now_.option);
      const int least = best == nullptr ? 0 : ChangesBetween(best->option, now_.option);
      if (best == nullptr || changes < least || (changes == least && one.score < best->score)) {
        best = &one;
      }
    }
    if (best != nullptr) Add(*best);
  }

  void Add(const JudgedOption& one) {
    const PlanOption& option = one.option;
    Fallback& row = rows_.emplace_back();
    row.strategy = option.strategy;
    row.offload = option.offload;
    row.checkpointing = std::string(NameOf(option.checkpointing));
    row.batch = {option.micro * option.accumulate * input_.shape.ranks, option.micro,
                 option.accumulate};
    row.peak_gib = RoundedGib(PeakBytes(one));
    row.step_seconds = one.step_seconds;
  }

  // As the plan itself shows it, once it is this one.
  double PeakBytes(const JudgedOption& one) const {
    if (one.measured) return one.decision_bytes;
    Choice choice;
    choice.judged = {one};
    if (!TakeOption(0, input_, choice) || !choice.memory) return one.decision_bytes;
    return PeakOf(*choice.memory, MemoryMetric::kProcess).bytes;
  }

  ChoiceInput input_;
  const JudgedOption& now_;
  std::vector<JudgedOption> lighter_;
  std::vector<Fallback> rows_;
};

}  // namespace

std::vector<Fallback> FallbacksOf(const ChoiceInput& input, const JudgedOption& taken) {
  return Lighter(input, taken).Rows();
}

Fallback NoLooserThan(const Plan& plan, Fallback row) {
  if (ShardingOf(row.strategy) < ShardingOf(plan.strategy)) row.strategy = plan.strategy;
  if (RecomputationOf(row.checkpointing) < RecomputationOf(plan.checkpointing)) {
    row.checkpointing = plan.checkpointing;
  }
  row.offload = std::max(row.offload, plan.offload);
  const BatchSplit& batch = plan.batch;
  if (batch.micro && row.batch.micro.value_or(0) > *batch.micro) row.batch = batch;
  return row;
}

bool LoosensNothing(const Fallback& row, const Plan& plan) {
  return NoLooserThan(plan, row) == row;
}

LighterStep StepOf(const Fallback& row, const Plan& plan) { return StepBetween(row, plan); }

}  // namespace launch
