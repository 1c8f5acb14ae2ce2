#include "planner/memory_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/memory_parts.h"
#include "planner/strategy.h"

namespace launch {

namespace {

constexpr double kGiBytes = 1024.0 * 1024.0 * 1024.0;
constexpr double kMostBytes = 1e18;
// Below 80 % of a GPU's memory no predicted run of 454 went out of memory (arXiv 2411.06465).
constexpr double kSafeShare = 0.80;
constexpr double kPressedReserve = 0.08;  // of the dynamic part, when the allocator must give back

struct Parts {
  StateParts states;
  BufferParts buffers;
  ActivationParts activations;
  bool keeps_gradients = true;
};

class PhaseBuilder {
 public:
  PhaseBuilder(const TrainingSetup& setup, const MemoryConstants& c) : setup_(setup), c_(c) {}

  MemoryPhase Build(PhaseKind kind, std::vector<MemoryTerm> terms, double spiky) const {
    MemoryPhase phase{kind, {}};
    double dynamic = 0;
    for (MemoryTerm& term : terms) {
      if (term.kind == TermKind::kDynamic) dynamic += term.bytes;
      if (term.bytes > 0) phase.terms.push_back(std::move(term));
    }
    double reserve = c_.fragmentation * dynamic;
    if (setup_.variable_length) {
      const double reached = std::min(1.0, c_.typical_sample / static_cast<double>(setup_.seq));
      reserve += c_.variable_length * reached * spiky;
    }
    if (reserve > 0) phase.terms.push_back({"allocator cache", TermKind::kReserve, reserve});
    phase.terms.push_back(
        {"CUDA context", TermKind::kOverhead,
         kGiBytes * (setup_.volta_context ? c_.context_volta_gib : c_.context_gib)});
    if (setup_.ranks > 1)
      phase.terms.push_back(
          {"communication library", TermKind::kOverhead, kGiBytes * c_.distributed_gib});
    return phase;
  }

 private:
  const TrainingSetup& setup_;
  const MemoryConstants& c_;
};

std::vector<MemoryPhase> PhasesOf(const Parts& p, const TrainingSetup& setup,
                                  const MemoryConstants& c) {
  const PhaseBuilder builder(setup, c);
  const StateParts& s = p.states;
  const BufferParts& b = p.buffers;
  const ActivationParts& a = p.activations;
  const double workspace = c.cublas_gib * kGiBytes;
  const double kept = p.keeps_gradients ? s.gradients : 0;
  const auto state = [](const char* name, double bytes) {
    return MemoryTerm{name, TermKind::kState, bytes};
  };
  const auto buffer = [](const char* name, double bytes) {
    return MemoryTerm{name, TermKind::kBuffer, bytes};
  };
  const auto dynamic = [](const char* name, double bytes) {
    return MemoryTerm{name, TermKind::kDynamic, bytes};
  };
  const std::vector<MemoryTerm> resting = {
      state("weights", s.weights), state("adapters", s.adapters), state("optimizer", s.optimizer)};
  const auto with = [&](std::vector<MemoryTerm> more) {
    std::vector<MemoryTerm> terms = resting;
    for (MemoryTerm& term : more) terms.push_back(std::move(term));
    return terms;
  };
  const std::vector<MemoryTerm> working = {
      buffer("autocast copies", s.autocast), buffer("gathered layers", b.gathered),
      buffer("communication buckets", b.buckets), buffer("dequantized matrix", b.dequantized),
      buffer("cuBLAS workspace", workspace)};
  const auto computing = [&](std::vector<MemoryTerm> more) {
    more.insert(more.begin(), working.begin(), working.end());
    return with(std::move(more));
  };
  std::vector<MemoryPhase> phases;
  phases.push_back(builder.Build(PhaseKind::kLoad, {state("weights", s.load)}, 0));
  phases.push_back(
      builder.Build(PhaseKind::kForward,
                    computing({state("gradients", kept), dynamic("activations", a.saved),
                               dynamic("logits and loss", a.logits)}),
                    a.logits + a.block));
  phases.push_back(
      builder.Build(PhaseKind::kBackward,
                    computing({state("gradients", s.gradients),
                               dynamic("activations", p.keeps_gradients ? a.stored : 0),
                               dynamic("block at work", a.block)}),
                    a.block));
  phases.push_back(builder.Build(
      PhaseKind::kStep,
      with({state("gradients", s.gradients), buffer("optimizer temporaries", s.step),
            buffer("communication buckets", b.buckets), buffer("cuBLAS workspace", workspace)}),
      0));
  if (a.evaluation > 0)
    phases.push_back(builder.Build(PhaseKind::kEvaluation,
                                   computing({dynamic("logits and loss", a.evaluation)}),
                                   a.evaluation));
  return phases;
}

double Pressed(const MemoryPhase& phase) {
  double bytes = 0;
  for (const MemoryTerm& term : phase.terms) {
    if (term.kind == TermKind::kReserve) continue;
    bytes += term.bytes * (term.kind == TermKind::kDynamic ? 1 + kPressedReserve : 1);
  }
  return bytes;
}

// Relative half width: the errors of the parts, added as if independent.
double SpreadOf(const std::vector<MemoryPhase>& phases, const ModelCard& card,
                const MemoryConstants& c) {
  const MemoryPhase* largest = nullptr;
  for (const MemoryPhase& phase : phases)
    if (!largest ||
        BytesOf(phase, MemoryMetric::kProcess) > BytesOf(*largest, MemoryMetric::kProcess))
      largest = &phase;
  double fixed = 0;
  double moving = 0;
  double reserve = 0;
  for (const MemoryTerm& term : largest->terms) {
    if (term.kind == TermKind::kDynamic || term.kind == TermKind::kBuffer)
      moving += term.bytes;
    else if (term.kind == TermKind::kReserve)
      reserve += term.bytes;
    else
      fixed += term.bytes;
  }
  const double total = fixed + moving + reserve;
  double spread =
      std::sqrt(std::pow(c.state_error * fixed, 2) + std::pow(c.dynamic_error * moving, 2) +
                std::pow(c.reserve_error * reserve, 2)) /
      total;
  const Origin origin = ShapeOrigin(card);
  if (origin == Origin::kAssumed || origin == Origin::kUnknown) spread += 0.15;
  return std::clamp(1.6 * spread, 0.04, 0.6);
}

}  // namespace

double BytesOf(const MemoryPhase& phase, MemoryMetric metric) {
  double bytes = 0;
  for (const MemoryTerm& term : phase.terms) {
    if (term.kind == TermKind::kReserve && metric == MemoryMetric::kAllocated) continue;
    if (term.kind == TermKind::kOverhead && metric != MemoryMetric::kProcess) continue;
    bytes += term.bytes;
  }
  return bytes;
}

MemoryPeak PeakOf(const MemoryEstimate& estimate, MemoryMetric metric) {
  MemoryPeak peak;
  for (const MemoryPhase& phase : estimate.phases) {
    const double bytes = BytesOf(phase, metric);
    if (bytes > peak.bytes) peak = {phase.kind, bytes, 0, 0};
  }
  peak.low = peak.bytes * (1 - 0.8 * estimate.spread);
  peak.high = peak.bytes * (1 + 1.2 * estimate.spread);
  return peak;
}

Result<MemoryEstimate> PredictMemory(const ModelCard& given, const TrainingSetup& setup,
                                     const MemoryConstants& constants) {
  LAUNCH_RETURN_IF_ERROR(CheckSetup(setup));
  LAUNCH_ASSIGN_OR_RETURN(const ModelCard card, CompleteCard(given));
  if (card.params == 0)
    return Fail(ErrorCode::kInvalidArgument,
                "model: neither parameters nor layers and hidden known",
                "write model.params, or let a probe measure: model.probe: true");
  Parts parts{StatesOf(card, setup, constants), BuffersOf(card, setup, constants),
              ActivationsOf(card, setup, constants), KeepsGradients(setup)};
  MemoryEstimate estimate;
  estimate.phases = PhasesOf(parts, setup, constants);
  for (const MemoryPhase& phase : estimate.phases) {
    const double bytes = BytesOf(phase, MemoryMetric::kProcess);
    if (!std::isfinite(bytes) || bytes > kMostBytes)
      return Fail(ErrorCode::kInvalidArgument,
                  "the sizes of model and batch need more than 1e18 bytes on one GPU",
                  "check params, layers, hidden, vocab, seq_len and the micro batch");
  }
  estimate.spread = SpreadOf(estimate.phases, card, constants);
  return estimate;
}

double DecisionBytes(const MemoryEstimate& estimate) {
  double most = 0;
  for (const MemoryPhase& phase : estimate.phases) most = std::max(most, Pressed(phase));
  return most;
}

FitVerdict JudgeFit(const MemoryEstimate& estimate, double limit_bytes) {
  const double needed = DecisionBytes(estimate);
  if (needed <= kSafeShare * limit_bytes) return FitVerdict::kYes;
  return needed * (1 - 0.8 * estimate.spread) <= limit_bytes ? FitVerdict::kTight : FitVerdict::kNo;
}

std::string_view ToString(PhaseKind v) {
  switch (v) {
    case PhaseKind::kLoad:
      return "load";
    case PhaseKind::kForward:
      return "forward";
    case PhaseKind::kBackward:
      return "backward";
    case PhaseKind::kStep:
      return "step";
    case PhaseKind::kEvaluation:
      return "evaluation";
  }
  return "forward";
}

std::string_view ToString(FitVerdict v) {
  switch (v) {
    case FitVerdict::kYes:
      return "yes";
    case FitVerdict::kTight:
      return "tight";
    case FitVerdict::kNo:
      return "no";
  }
  return "no";
}

}  // namespace launch
