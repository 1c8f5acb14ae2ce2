#include "controller/core/replan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "diagnosis/exit_evidence.h"
#include "planner/choose/fallbacks.h"
#include "planner/reach.h"
#include "planner/start/loader.h"

namespace launch::controller {
namespace {

constexpr std::array kAllocatorNames = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"};
// Share of the card's memory: with less than this reserved in vain, the setting alone is not
// expected to help. Assumed.
constexpr double kReserveThatHelps = 0.10;

bool IsOwnAllocator(const JobSpec& spec) {
  return std::any_of(spec.env.begin(), spec.env.end(), [](const EnvEntry& entry) {
    return std::find(kAllocatorNames.begin(), kAllocatorNames.end(), entry.name) !=
           kAllocatorNames.end();
  });
}

bool HasExpandableSegments(const Plan& plan) {
  return !plan.assignments.empty() && UsesExpandableSegments(plan.assignments.front().env);
}

// The largest micro-batch of at most half that divides the samples of a step.
std::optional<std::int64_t> NextMicro(const BatchSplit& batch) {
  if (!batch.global || !batch.micro || !batch.accumulate) return std::nullopt;
  const std::int64_t samples = *batch.micro * *batch.accumulate;
  for (std::int64_t micro = *batch.micro / 2; micro >= 1; --micro) {
    if (samples % micro == 0) return micro;
  }
  return std::nullopt;
}

bool SameWay(const Fallback& one, const Plan& plan) {
  return one.strategy == plan.strategy && one.offload == plan.offload &&
         one.checkpointing == plan.checkpointing;
}

// May the number of processes be another one in the next attempt?
bool IsMoldable(const JobSpec& spec) {
  return spec.total_gpus.has_value() || spec.nodes.min != spec.nodes.max;
}

// Why the batch must stay as it is; empty: it may change.
std::string BatchIsFixed(const JobSpec& spec, const Plan& failed, const PlanReach& reach) {
  if (!failed.batch.global)
    return "batch.global is not given, so a smaller micro-batch would "
           "change the training";
  if (reach.batch == BatchReach::kFixed) {
    const bool command = reach.batch_place == PlanReach{}.batch_place;
    return fmt::format("the batch is written into {}, and the launcher cannot change it there: {}",
                       reach.batch_place,
                       command
                           ? "write $LAUNCH_MICRO_BATCH and $LAUNCH_GRAD_ACCUM"
                           : "leave it out there, or pass the program $LAUNCH_DS_CONFIG instead");
  }
  if (reach.batch == BatchReach::kUnknown && spec.on_oom == OnOom::kAuto) {
    return "nothing shows that the program takes its batch from us: pass it $LAUNCH_MICRO_BATCH "
           "and $LAUNCH_GRAD_ACCUM in run, read both in its script, or write on_oom: replan if "
           "another of its files reads them";
  }
  return {};
}

class Search {
 public:
  Search(const JobSpec& spec, const SubmitContext& context, const PlanChange& so_far,
         const Plan& failed, const Verdict& verdict, std::optional<Precision> sixteen_bits)
      : spec_(spec),
        failed_(failed),
        verdict_(verdict),
        sixteen_bits_(sixteen_bits),
        reach_(ReachOf(spec, context, failed)) {
    change_ = so_far;
    if (!change_.began) change_.left = failed.fallbacks;
    change_.began = true;
    KeepAll();
  }

  NextPlan Run() {
    const std::string fixed = BatchIsFixed(spec_, failed_, reach_);
    TakeAllocator();
    if (!NeedsLess()) return Result();
    if (fixed.empty() && TakeMicroBatch()) return Result();
    if (!(fixed.empty() && PlansSmallerMicro()) && TakeSixteenBits()) return Result();
    if (TakeFallback(fixed.empty())) return Result();
    if (!said_.empty()) {
      NextPlan only = Result();
      if (!fixed.empty()) only.text += "; " + fixed;
      return only;
    }
    if (!fixed.empty()) return {std::nullopt, fixed};
    std::string text = "no plan of less memory is left";
    if (!unreached_.empty()) text += " that gets to the program: pass it " + unreached_;
    return {std::nullopt, text};
  }

 private:
  // What the plan that died was is a floor: chosen anew for the smaller batch, the fastest plan may
  // need more than it. Where nothing is predicted, a plan does not depend on the batch.
  void KeepAll() {
    if (!failed_.memory.peak_gib) return;
    if (failed_.strategy != Strategy::kSingle || !IsMoldable(spec_)) {
      change_.strategy = failed_.strategy;
      change_.offload = failed_.offload;
    }
    if (!failed_.checkpointing.empty()) change_.checkpointing = failed_.checkpointing;
    if (failed_.batch.micro) Fix(*failed_.batch.micro);
  }

  void TakeAllocator() {
    if (verdict_.label != "cuda_oom_fragmentation" || change_.expandable_segments) return;
    if (!MayChangeAllocator(spec_, failed_)) return;
    change_.expandable_segments = true;
    Say("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
  }

  bool NeedsLess() const {
    if (said_.empty()) return true;
    const auto share = verdict_.numbers.find("reserve_share");
    return share == verdict_.numbers.end() || share->second < kReserveThatHelps;
  }

  bool TakeMicroBatch() {
    const std::optional<std::int64_t> micro = NextMicro(failed_.batch);
    if (!micro || PlansSmallerMicro()) return false;
    TakeBatch(*micro);
    return true;
  }

  // The planner's own next plan may be a smaller micro-batch that it knows to fit.
  bool PlansSmallerMicro() const {
    return !change_.left.empty() && SameWay(change_.left.front(), failed_) &&
           change_.left.front().batch.micro < failed_.batch.micro;
  }

  bool TakeSixteenBits() {
    if (failed_.precision != Precision::kFp32 || !spec_.allow_precision_change) return false;
    if (change_.precision || !sixteen_bits_) return false;
    if (!reach_.precision) {
      NotReached("$LAUNCH_PRECISION");
      return false;
    }
    change_.precision = sixteen_bits_;
    Say(fmt::format("precision {} instead of fp32", ToString(*sixteen_bits_)));
    return true;
  }

  // Rows were made for the first plan of the job: what was gained since is not given back.
  bool TakeFallback(bool may_change_batch) {
    while (!change_.left.empty()) {
      const Fallback planned = change_.left.front();
      change_.left.erase(change_.left.begin());
      if (!planned.batch.micro) continue;
      const Fallback next = NoLooserThan(failed_, planned);
      const bool same_batch = next.batch.micro == failed_.batch.micro;
      if (!same_batch && !may_change_batch) continue;
      if (SameWay(next, failed_) && same_batch) continue;
      // What was tightened further needs less than either of the two; else the row must say so.
      if (next == planned && failed_.memory.peak_gib && next.peak_gib >= *failed_.memory.peak_gib) {
        continue;
      }
      if ((next.strategy != failed_.strategy || next.offload != failed_.offload) &&
          !reach_.strategy) {
        NotReached("$LAUNCH_STRATEGY or $LAUNCH_DS_CONFIG");
        continue;
      }
      if (next.checkpointing != failed_.checkpointing && !reach_.checkpointing) {
        NotReached("$LAUNCH_ACT_CKPT");
        continue;
      }
      Take(next);
      return true;
    }
    return false;
  }

  void Take(const Fallback& next) {
    if (next.strategy != failed_.strategy) {
      Say(fmt::format("strategy {} instead of {}", ToString(next.strategy),
                      ToString(failed_.strategy)));
    }
    if (next.offload != failed_.offload) Say(fmt::format("offload {}", ToString(next.offload)));
    if (next.checkpointing != failed_.checkpointing) {
      Say("activation checkpointing " + next.checkpointing);
    }
    change_.strategy = next.strategy;
    change_.offload = next.offload;
    change_.checkpointing = next.checkpointing;
    if (next.batch.micro != failed_.batch.micro) {
      TakeBatch(*next.batch.micro);
    } else {
      Fix(*next.batch.micro);
    }
    if (!failed_.memory.peak_gib) {
      said_ += fmt::format("; predicted {:.1f} GiB", next.peak_gib);
    } else if (next.peak_gib < *failed_.memory.peak_gib) {
      said_ += fmt::format("; predicted {:.1f} GiB instead of {:.1f}", next.peak_gib,
                           *failed_.memory.peak_gib);
    } else {
      said_ += fmt::format("; predicted less than {:.1f} GiB", *failed_.memory.peak_gib);
    }
  }

  void TakeBatch(std::int64_t micro) {
    const BatchSplit& old = failed_.batch;
    const std::int64_t accumulate = old.micro.value_or(1) * old.accumulate.value_or(1) / micro;
    Say(fmt::format("micro-batch {} -> {}, accumulation {} -> {}, global batch {} kept",
                    old.micro.value_or(1), micro, old.accumulate.value_or(1), accumulate,
                    old.global.value_or(0)));
    Fix(micro);
  }

  void Fix(std::int64_t micro) {
    if (!failed_.batch.global) return;
    change_.global = failed_.batch.global;
    change_.micro = micro;
  }

  void NotReached(const std::string& variable) {
    if (unreached_.find(variable) != std::string::npos) return;
    unreached_ += (unreached_.empty() ? "" : ", ") + variable;
  }

  void Say(const std::string& text) { said_ += (said_.empty() ? "" : "; ") + text; }

  NextPlan Result() const { return {change_, said_}; }

  const JobSpec& spec_;
  const Plan& failed_;
  const Verdict& verdict_;
  const std::optional<Precision> sixteen_bits_;
  const PlanReach reach_;
  PlanChange change_;
  std::string said_;
  std::string unreached_;  // what would have to be passed to the program
};

}  // namespace

NextPlan ReplanAfter(const JobSpec& spec, const SubmitContext& context, const PlanChange& so_far,
                     const Plan& failed, const Verdict& verdict,
                     std::optional<Precision> sixteen_bits) {
  return Search(spec, context, so_far, failed, verdict, sixteen_bits).Run();
}

bool MayChangeAllocator(const JobSpec& spec, const Plan& plan) {
  return !IsOwnAllocator(spec) && !HasExpandableSegments(plan);
}

NextPlan SpareHostMemory(const JobSpec& spec, const SubmitContext& context,
                         const PlanChange& so_far, const Plan& failed) {
  if (so_far.fewer_workers) return {std::nullopt, "it had fewer data loader workers already"};
  if (!ReachOf(spec, context, failed).workers) {
    return {std::nullopt,
            "the number of data loader workers is the program's own: pass it $LAUNCH_NUM_WORKERS"};
  }
  const LoaderPlan less = AfterMemoryTrouble(failed.loader);
  if (less == failed.loader) return {std::nullopt, "the data loader has little to give"};
  PlanChange change = so_far;
  change.fewer_workers = true;
  std::string text = "data loader:";
  if (less.num_workers != failed.loader.num_workers) {
    text += fmt::format(" workers {} -> {}", failed.loader.num_workers, less.num_workers);
  }
  if (failed.loader.pin_memory) text += " without pinned memory";
  return {change, text};
}

JobSpec WithChange(JobSpec spec, const PlanChange& change) {
  if (change.micro) spec.batch = {change.global, change.micro, std::nullopt};
  if (change.strategy) spec.strategy = *change.strategy;
  if (change.offload) spec.offload = *change.offload;
  if (change.precision) spec.precision = *change.precision;
  if (!change.checkpointing.empty()) {
    spec.model.fields["activation_checkpointing"] = change.checkpointing;
  }
  if (change.expandable_segments && !IsOwnAllocator(spec)) {
    for (const char* name : kAllocatorNames) {
      spec.env.push_back({name, "expandable_segments:True"});
    }
  }
  return spec;
}

}  // namespace launch::controller
