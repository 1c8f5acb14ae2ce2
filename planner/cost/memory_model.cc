#include "planner/cost/memory_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/units.h"
#include "planner/cost/memory_parts.h"
#include "planner/model/strategy.h"

namespace launch {

namespace {

constexpr double kMostBytes = 1e18;
// Below 80 % of a GPU's memory no predicted run of 454 went out of memory (arXiv 2411.06465).
constexpr double kSafeShare = 0.80;
constexpr double kNineInTen = 1.64;  // standard deviations
constexpr double kAssumedShape = 0.15;
constexpr double kUnknownShape = 0.35;    // no activations are counted
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
  // Where gradients appear as activations vanish, the end of the backward pass decides.
  const bool growing = !p.keeps_gradients && !setup.optimizer.in_backward;
  const double stored = growing ? 0 : a.stored;
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
  phases.push_back(builder.Build(
      PhaseKind::kBackward,
      computing({state("gradients", s.gradients), dynamic("activations", stored),
                 dynamic("logits and loss", a.held), dynamic("block at work", a.block)}),
      a.block));
  phases.push_back(builder.Build(
      PhaseKind::kStep,
      with({state("gradients", s.gradients), buffer("optimizer temporaries", s.step),
            buffer("communication buckets", b.buckets), buffer("cuBLAS workspace", workspace)}),
      0));
  const double measured = std::max(a.evaluation, a.metrics);
  if (measured > 0)  // a training batch is measured before its step, beside the gradients
    phases.push_back(builder.Build(PhaseKind::kEvaluation,
                                   computing({state("gradients", a.metrics > 0 ? s.gradients : 0),
                                              dynamic("logits and loss", measured)}),
                                   measured));
  return phases;
}

bool Counts(const MemoryTerm& term, MemoryMetric metric) {
  if (term.kind == TermKind::kReserve) return metric != MemoryMetric::kAllocated;
  return term.kind != TermKind::kOverhead || metric == MemoryMetric::kProcess;
}

double Pressed(const MemoryPhase& phase) {
  double bytes = 0;
  for (const MemoryTerm& term : phase.terms) {
    if (term.kind == TermKind::kReserve) continue;
    bytes += term.bytes * (term.kind == TermKind::kDynamic ? 1 + kPressedReserve : 1);
  }
  return bytes;
}

// Relative half width of the interval of about nine in ten: the parts err independently.
double SpreadOf(const MemoryPhase& phase, const MemoryErrors& errors, MemoryMetric metric) {
  double state = 0;
  double dynamic = 0;
  double reserve = 0;
  for (const MemoryTerm& term : phase.terms) {
    if (!Counts(term, metric)) continue;
    if (term.kind == TermKind::kState || term.kind == TermKind::kOverhead) state += term.bytes;
    if (term.kind == TermKind::kDynamic || term.kind == TermKind::kBuffer) dynamic += term.bytes;
    if (term.kind == TermKind::kReserve) reserve += term.bytes;
  }
  const double total = state + dynamic + reserve;
  if (total <= 0) return errors.shape;
  const double deviation =
      std::sqrt(std::pow(errors.state * state, 2) + std::pow(errors.dynamic * dynamic, 2) +
                std::pow(errors.reserve * reserve, 2)) /
      total;
  return std::clamp(kNineInTen * std::hypot(deviation, errors.shape), 0.0, 0.7);
}

std::vector<std::string> AssumptionsOf(const ModelCard& card, const TrainingSetup& setup) {
  std::vector<std::string> says;
  if (!HasShape(card))
    says.push_back("activations are not counted: layers and hidden size are unknown");
  if (setup.lora_rank > 0 && setup.adapted.empty())
    says.push_back("adapters on every linear layer");
  if (!setup.keeps_gradients && !setup.optimizer.in_backward)
    says.push_back(KeepsGradients(setup) ? "gradients stay between micro-batches"
                                         : "gradients are freed after every micro-batch");
  const int stage = ZeroStage(setup.strategy);
  if (stage > 0 && setup.ranks > 1 && (!setup.reduce_bucket || !setup.gather_bucket))
    says.push_back("communication buckets of the framework's usual size");
  return says;
}

}  // namespace

double BytesOf(const MemoryPhase& phase, MemoryMetric metric) {
  double bytes = 0;
  for (const MemoryTerm& term : phase.terms) {
    if (Counts(term, metric)) bytes += term.bytes;
  }
  return bytes;
}

MemoryPeak PeakOf(const MemoryEstimate& estimate, MemoryMetric metric) {
  MemoryPeak peak;
  for (const MemoryPhase& phase : estimate.phases) {
    const double bytes = BytesOf(phase, metric);
    if (bytes <= peak.bytes) continue;
    const double spread = SpreadOf(phase, estimate.errors, metric);
    peak = {phase.kind, bytes, bytes * (1 - spread), bytes * (1 + spread)};
  }
  return peak;
}

Result<MemoryEstimate> PredictMemory(const ModelCard& given, const TrainingSetup& setup,
                                     const MemoryConstants& constants) {
  LAUNCH_RETURN_IF_ERROR(CheckSetup(setup));
  LAUNCH_ASSIGN_OR_RETURN(ModelCard card, CompleteCard(given));
  if (setup.framework == Framework::kLitgpt && card.tied) {  // it holds the head as a copy
    card.tied = false;
    card.head_params = card.embedding_params;
    card.params += card.head_params;
    card.trainable_params += card.head_params;
  }
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
  estimate.host = HostMemoryOf(card, setup, constants);
  estimate.assumptions = AssumptionsOf(card, setup);
  estimate.errors = {constants.state_error, constants.dynamic_error, constants.reserve_error, 0};
  const Origin origin = ShapeOrigin(card);
  if (origin == Origin::kAssumed || origin == Origin::kUnknown)
    estimate.errors.shape = HasShape(card) ? kAssumedShape : kUnknownShape;
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
  return needed <= limit_bytes ? FitVerdict::kTight : FitVerdict::kNo;
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
