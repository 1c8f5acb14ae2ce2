#include "planner/choose/memory_lessons.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/units.h"
#include "planner/choose/calibration.h"

namespace launch {
namespace {

// A factor outside of these says that something else was measured. Assumed.
constexpr double kLeastFactor = 0.5;
constexpr double kMostFactor = 3;
// A run whose growing terms are less than this tells nothing of them: the context alone may be
// that far off.
constexpr double kLeastDynamicGib = 0.5;
constexpr double kLeastDynamicShare = 0.1;
constexpr double kNarrowest = 0.05;
constexpr double kMeasuredSpread = 0.05;
constexpr double kMeasuredFits = 0.92;

bool SameProgram(const MeasuredRun& a, const MeasuredRun& b) {
  return !a.script.empty() && a.script == b.script && a.precision == b.precision;
}

// Measured by predicted size of what grows with the batch.
std::optional<double> FactorOf(const MeasuredRun& run) {
  if (run.probe || !run.peak_gib || !run.cold_peak_gib || !run.cold_fixed_gib) return std::nullopt;
  const double dynamic = *run.cold_peak_gib - *run.cold_fixed_gib;
  if (!(dynamic >= std::max(kLeastDynamicGib, kLeastDynamicShare * *run.cold_peak_gib)))
    return std::nullopt;
  const double factor = (*run.peak_gib - *run.cold_fixed_gib) / dynamic;
  // Less than half, or three times as much, was another run than the one that was planned: one that
  // found nothing left to do, or a library that takes the whole card at its start.
  if (!(factor >= kLeastFactor && factor <= kMostFactor)) return std::nullopt;
  return factor;
}

std::optional<MemoryCorrection> CorrectionFor(const std::vector<MeasuredRun>& history,
                                              const MeasuredRun& run, Strategy strategy) {
  if (run.architecture.empty() || run.device == "cpu") return std::nullopt;
  std::vector<double> own;
  std::vector<double> others;
  for (const MeasuredRun& one : history) {
    const bool same = one.architecture == run.architecture && one.framework == run.framework &&
                      one.strategy == ToString(strategy) && SameDevice(one.device, run.device);
    const auto factor = same ? FactorOf(one) : std::nullopt;
    if (factor) (SameProgram(one, run) ? own : others).push_back(*factor);
  }
  std::vector<double>& factors = own.empty() ? others : own;
  if (factors.empty()) return std::nullopt;
  MemoryCorrection correction;
  correction.own = !own.empty();
  correction.runs = static_cast<int>(factors.size());
  correction.factor = Median(factors);
  if (correction.runs < 3) return correction;
  for (double& factor : factors) factor = std::abs(factor / correction.factor - 1);
  correction.spread = std::max(kNarrowest, 2 * Median(factors));
  return correction;
}

MeasuredWay& WayOf(MemoryLessons& lessons, const MeasuredRun& run) {
  for (MeasuredWay& way : lessons.ways) {
    if (way.strategy == run.strategy && way.offload == run.offload &&
        way.checkpointing == run.checkpointing)
      return way;
  }
  lessons.ways.push_back({run.strategy, run.offload, run.checkpointing, {}, {}});
  return lessons.ways.back();
}

double Overhead(const MemoryEstimate& estimate) {
  const MemoryPeak peak = PeakOf(estimate, MemoryMetric::kProcess);
  double bytes = 0;
  for (const MemoryPhase& phase : estimate.phases) {
    for (const MemoryTerm& term : phase.terms)
      if (phase.kind == peak.phase && term.kind == TermKind::kOverhead) bytes += term.bytes;
  }
  return bytes;
}

// A whole run of the same micro-batch: its peak, with the states that are known taken out.
void FillWhole(double gib, Plan& plan) {
  MemoryForecast& memory = plan.memory;
  std::erase_if(plan.warnings, [](const Finding& one) {
    return one.code == "memory_unknown" || one.code == "predicted_out_of_memory";
  });
  std::vector<PlannedTerm> terms;
  double states = 0;
  for (const PlannedTerm& term : memory.terms) {
    const bool state =
        term.name == "weights" || term.name == "gradients" || term.name == "optimizer";
    if (!state || term.phase != memory.phase) continue;
    terms.push_back(term);
    states += term.gib;
  }
  if (terms.empty() || states >= gib) {
    terms = {};
    states = 0;
    if (memory.phase.empty()) memory.phase = "step";
  }
  const double rest = std::round((gib - states) * 1000) / 1000;
  terms.push_back(
      {terms.empty() ? "measured: the last run" : "measured: all else", memory.phase, rest});
  memory.terms = std::move(terms);
  memory.peak_gib = states + rest;
  memory.low_gib = *memory.peak_gib * (1 - kMeasuredSpread);
  memory.high_gib = *memory.peak_gib * (1 + kMeasuredSpread);
  memory.basis = Basis::kMeasured;
  memory.fits = std::string(
      ToString(JudgeMeasured(*memory.peak_gib * kGiBytes, memory.limit_gib * kGiBytes)));
  memory.assumptions.push_back("memory: " + FormatNumber(gib, "%.3g GiB") +
                               " in the largest rank of the last run");
}

std::string RunText(const MeasuredRun& run, const MeasuredRun& asked) {
  const auto micro = run.probe ? std::optional(run.probe->micro) : run.micro;
  const double gib = run.probe ? run.probe->peak_bytes / kGiBytes : *run.peak_gib;
  std::string text = micro ? "micro-batch " + std::to_string(*micro) : std::string("the job");
  text += " on " + std::to_string(run.ranks) + (run.ranks == 1 ? " rank" : " ranks");
  if (!run.strategy.empty() && run.strategy != asked.strategy) text += " by " + run.strategy;
  text += " took " + FormatNumber(gib, "%.3g GiB") + " a rank";
  if (run.probe) text += " (a probe)";
  if (!run.script.empty() && !SameProgram(run, asked))
    text += ", before its command, environment or model changed";
  return text;
}

// What the job of that name took last, however it ran.
void TellTheLast(const std::vector<MeasuredRun>& history, Plan& plan) {
  const MeasuredRun* last = nullptr;
  for (const MeasuredRun& one : history) {
    const bool same = one.job == plan.run.job && SameDevice(one.device, plan.run.device);
    if (same && !one.job.empty() && (one.peak_gib || one.probe)) last = &one;
  }
  if (last == nullptr) return;
  for (Finding& finding : plan.warnings) {
    if (finding.code == "memory_unknown") finding.says += "; last time " + RunText(*last, plan.run);
  }
}

}  // namespace

MemoryLessons LessonsOf(const std::vector<MeasuredRun>& history, const MeasuredRun& run) {
  MemoryLessons lessons;
  for (const MeasuredRun& one : history) {
    // What people write by hand has a name only.
    const bool by_name = one.script.empty() && !one.job.empty() && one.job == run.job;
    const bool same = (SameProgram(one, run) || by_name) && one.ranks == run.ranks &&
                      SameDevice(one.device, run.device);
    if (!same) continue;
    if (one.probe) {
      std::vector<ProbePoint>& points = WayOf(lessons, one).probes;
      std::erase_if(points, [&](const ProbePoint& p) { return p.micro == one.probe->micro; });
      points.push_back(*one.probe);
    } else if (one.peak_gib) {
      WayOf(lessons, one).whole_gib[one.micro.value_or(0)] = *one.peak_gib;
    }
  }
  for (const Strategy strategy :
       {Strategy::kSingle, Strategy::kDdp, Strategy::kZero1, Strategy::kZero2, Strategy::kZero3,
        Strategy::kFsdp, Strategy::kFsdpGradOp, Strategy::kFsdpHybrid}) {
    if (const auto one = CorrectionFor(history, run, strategy))
      lessons.corrections.emplace(strategy, *one);
  }
  return lessons;
}

const MeasuredWay* FindWay(const MemoryLessons& lessons, std::string_view strategy,
                           std::string_view offload, std::string_view checkpointing) {
  for (const MeasuredWay& way : lessons.ways) {
    const bool same = (way.strategy.empty() || way.strategy == strategy) &&
                      (way.offload.empty() || way.offload == offload) &&
                      (way.checkpointing.empty() || way.checkpointing == checkpointing);
    if (same) return &way;
  }
  return nullptr;
}

void Correct(const MemoryLessons& lessons, Strategy strategy, MemoryEstimate& estimate) {
  const auto found = lessons.corrections.find(strategy);
  if (found == lessons.corrections.end()) return;
  const MemoryCorrection& correction = found->second;
  for (MemoryPhase& phase : estimate.phases) {
    for (MemoryTerm& term : phase.terms) {
      if (term.kind == TermKind::kDynamic || term.kind == TermKind::kReserve)
        term.bytes *= correction.factor;
    }
  }
  estimate.factor = correction.factor;
  if (correction.spread > 0) {
    estimate.errors.dynamic = correction.spread / 2;
    estimate.errors.reserve = correction.spread / 2;
  }
  const std::string runs =
      std::to_string(correction.runs) + (correction.runs == 1 ? " run" : " runs");
  estimate.assumptions.push_back(
      "memory: activations, loss and cache times " + FormatNumber(correction.factor, "%.3g") +
      " as " + runs + (correction.own ? " of this job" : " of the same architecture and trainer") +
      " by " + std::string(ToString(strategy)) + " took");
}

std::optional<double> MeasuredBytes(const MemoryLessons& lessons, const PlanOption& option,
                                    const MemoryEstimate& estimate) {
  if (lessons.ways.empty()) return std::nullopt;
  const MeasuredWay* way = FindWay(lessons, ToString(option.strategy), ToString(option.offload),
                                   NameOf(option.checkpointing));
  if (way == nullptr || way->strategy.empty()) return std::nullopt;
  if (const auto whole = way->whole_gib.find(option.micro); whole != way->whole_gib.end())
    return whole->second * kGiBytes;
  const auto fit = FitProbe(way->probes);
  if (!fit || !fit->gpu) return std::nullopt;
  const double steps = fit->base_bytes + fit->sample_bytes * static_cast<double>(option.micro);
  return std::max(fit->load_bytes, steps) + Overhead(estimate);
}

FitVerdict JudgeMeasured(double bytes, double limit_bytes) {
  if (bytes <= kMeasuredFits * limit_bytes) return FitVerdict::kYes;
  return bytes <= limit_bytes ? FitVerdict::kTight : FitVerdict::kNo;
}

void ApplyLessons(const MemoryLessons& lessons, const std::vector<MeasuredRun>& history,
                  Plan& plan) {
  const MeasuredWay* way =
      FindWay(lessons, plan.run.strategy, plan.run.offload, plan.run.checkpointing);
  // Who wrote a figure by hand without its strategy knows no better than a formula.
  if (way != nullptr && (!way->strategy.empty() || !plan.memory.peak_gib)) {
    ApplyProbe(way->probes, plan);
    const auto whole = way->whole_gib.find(plan.run.micro.value_or(0));
    if (whole != way->whole_gib.end()) FillWhole(whole->second, plan);
  }
  if (!plan.memory.peak_gib) TellTheLast(history, plan);
}

}  // namespace launch
