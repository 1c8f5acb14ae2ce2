#include "planner/choose/probe.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "common/units.h"
#include "planner/choose/duration.h"
#include "planner/cost/memory_constants.h"
#include "planner/cost/time_model.h"

namespace launch {
namespace {

constexpr double kMemorySpread = 0.05;  // published measured predictors: 1.6 to 3 % (LLMem)
constexpr double kTimeSpread = 0.15;    // a few steps, no steady clock of a warm GPU
constexpr double kLoaderBound = 0.5;
constexpr double kFitsBelow = 0.92;  // measured: less margin than a formula needs

double ThousandthsOfGib(double bytes) { return std::round(bytes / kGiBytes * 1000) / 1000; }

// Terms that no counter of torch holds: as predicted, or as usual where nothing was.
std::vector<PlannedTerm> Overheads(const Plan& plan, const std::string& phase) {
  std::vector<PlannedTerm> terms;
  for (const PlannedTerm& term : plan.memory.terms) {
    const bool outside = term.name == "CUDA context" || term.name == "communication library";
    if (outside && term.phase == plan.memory.phase) terms.push_back({term.name, phase, term.gib});
  }
  if (!terms.empty()) return terms;
  const MemoryConstants usual;
  terms.push_back({"CUDA context", phase, usual.context_gib});
  if (plan.world_size > 1) terms.push_back({"communication library", phase, usual.distributed_gib});
  return terms;
}

void FillMemory(const ProbeFit& fit, std::int64_t micro, Plan& plan) {
  MemoryForecast& memory = plan.memory;
  const double dynamic = fit.sample_bytes * static_cast<double>(micro);
  const bool loading = fit.load_bytes > fit.base_bytes + dynamic;
  const std::string phase = loading ? "load" : "step";
  std::vector<PlannedTerm> terms;
  if (fit.gpu) terms = Overheads(plan, phase);
  if (loading) {
    terms.push_back(
        {"measured: loading and the first step", phase, ThousandthsOfGib(fit.load_bytes)});
  } else {
    terms.push_back({"measured: whatever the batch", phase, ThousandthsOfGib(fit.base_bytes)});
    terms.push_back({"measured: " + std::to_string(micro) + " x " +
                         FormatNumber(fit.sample_bytes / kGiBytes, "%.3g GiB a sample"),
                     phase, ThousandthsOfGib(dynamic)});
  }
  double total = 0;
  for (const PlannedTerm& term : terms) total += term.gib;
  memory.terms = std::move(terms);
  memory.phase = phase;
  memory.peak_gib = total;
  memory.low_gib = total * (1 - kMemorySpread);
  memory.high_gib = total * (1 + kMemorySpread);
  memory.basis = Basis::kProbed;
  memory.fits = total <= kFitsBelow * memory.limit_gib ? "yes"
                : total <= memory.limit_gib            ? "tight"
                                                       : "no";
}

void FillTime(const ProbeFit& fit, Plan& plan) {
  if (plan.duration.basis == Basis::kMeasured || !plan.batch.micro || !plan.batch.accumulate)
    return;
  const double pass =
      fit.pass_seconds + fit.sample_seconds * static_cast<double>(*plan.batch.micro);
  const double step = pass * static_cast<double>(*plan.batch.accumulate);
  if (!(step > 0)) return;
  plan.duration = DurationOf(
      plan.steps, {step, step * (1 - kTimeSpread), step * (1 + kTimeSpread), Basis::kProbed});
  plan.duration.basis = Basis::kProbed;
  plan.duration.step_seconds = step;
  if (plan.batch.global)
    plan.duration.samples_per_second = static_cast<double>(*plan.batch.global) / step;
  if (fit.loader_share < kLoaderBound) return;
  plan.duration.bound = std::string(ToString(TimeKind::kLoader));
  plan.warnings.push_back(MakeFinding(
      "loader_bound", Severity::kNotice,
      FormatNumber(100 * fit.loader_share, "%.0f %%") + " of a step waits for the data loader",
      "more loader workers or cores (cpus:), data on a local disk, or samples prepared "
      "beforehand"));
}

void FillFindings(const ProbeFit& fit, const std::vector<ProbePoint>& points, Plan& plan) {
  std::erase_if(plan.warnings, [](const Finding& one) {
    return one.code == "memory_unknown" || one.code == "predicted_out_of_memory";
  });
  if (plan.memory.fits == "no") {
    plan.warnings.push_back(MakeFinding(
        "predicted_out_of_memory", Severity::kWarning,
        "by the probe it needs " + FormatNumber(*plan.memory.peak_gib, "%.1f GiB") + " of " +
            FormatNumber(plan.memory.limit_gib, "%.1f GiB") + ": it will run out of memory",
        "a smaller batch.micro with more accumulation keeps the batch"));
  }
  if (points.size() > 1 && fit.sample_bytes < 1e-5 * fit.base_bytes) {
    plan.warnings.push_back(MakeFinding(
        "plan_cannot_reach_script", Severity::kWarning,
        "the probe's memory did not grow with the micro-batch: does the script take it?",
        "pass $LAUNCH_MICRO_BATCH to the script"));
  }
}

}  // namespace

std::optional<ProbeFit> FitProbe(const std::vector<ProbePoint>& points) {
  if (points.empty()) return std::nullopt;
  const auto [low, high] = std::minmax_element(
      points.begin(), points.end(), [](const auto& a, const auto& b) { return a.micro < b.micro; });
  const auto pass = [](const ProbePoint& p) {
    return p.step_seconds / static_cast<double>(std::max<std::int64_t>(1, p.accumulate));
  };
  ProbeFit fit;
  fit.gpu = low->gpu;
  if (high->step_seconds > 0)
    fit.loader_share = std::min(1.0, high->loader_seconds / high->step_seconds);
  fit.load_bytes = std::max(low->load_bytes, high->load_bytes);
  const double micro = static_cast<double>(std::max<std::int64_t>(1, low->micro));
  const double more = static_cast<double>(high->micro - low->micro);
  if (more > 0) {
    fit.sample_bytes = std::max(0.0, (high->peak_bytes - low->peak_bytes) / more);
    fit.sample_seconds = std::max(0.0, (pass(*high) - pass(*low)) / more);
  } else {
    fit.sample_bytes = std::max(0.0, low->peak_bytes - low->static_bytes) / micro;
    fit.sample_seconds = pass(*low) / micro;
  }
  fit.base_bytes = std::max(0.0, low->peak_bytes - fit.sample_bytes * micro);
  fit.pass_seconds = std::max(0.0, pass(*low) - fit.sample_seconds * micro);
  // The first step has the batch's share too: what it took beyond the others is loading.
  if (high->load_bytes <= high->peak_bytes) fit.load_bytes = 0;
  return fit;
}

void ApplyProbe(const std::vector<ProbePoint>& points, Plan& plan) {
  const auto fit = FitProbe(points);
  if (!fit) return;
  FillMemory(*fit, plan.batch.micro.value_or(1), plan);
  std::string says = "measured by a probe at micro-batch";
  for (const ProbePoint& point : points)
    says += (&point == &points.front() ? " " : " and ") + std::to_string(point.micro);
  plan.memory.assumptions = {std::move(says)};
  FillTime(*fit, plan);
  FillFindings(*fit, points, plan);
}

}  // namespace launch
