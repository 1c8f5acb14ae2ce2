#include "planner/cost/time_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "planner/cost/compute_time.h"
#include "planner/cost/traffic_time.h"
#include "planner/model/adapters.h"

namespace launch {

namespace {

// Half widths of the interval relative to the value. Errors of rows left out stay below 0.1 for
// nine of ten rows of tuned trainers; eager code is assumed to be within 40 % until measured.
constexpr double kTunedSpread = 0.12;
constexpr double kEagerSpread = 0.40;
constexpr double kUnmeasuredGpuSpread = 0.10;  // no product of that part was measured in public
constexpr double kUnknownGpuSpread = 0.40;
constexpr double kAssumedShapeSpread = 0.15;
constexpr double kTrafficSpread = 0.30;  // of the part that is traffic
constexpr double kStartSpread = 0.30;    // of the part that is kernel starts
constexpr double kLargestSpread = 0.70;

// Time of two activities that overlap but for `exposed` of the shorter one, beyond `compute`.
double Beyond(double compute, double other, double exposed) {
  return std::max(0.0, other - compute) + exposed * std::min(compute, other);
}

class Terms {
 public:
  void Add(const char* name, TimeKind kind, double seconds) {
    if (seconds > 0) terms_.push_back(TimeTerm{name, kind, seconds});
  }
  double Sum() const {
    double sum = 0;
    for (const TimeTerm& term : terms_) sum += term.seconds;
    return sum;
  }
  double Share(TimeKind kind) const {
    double sum = 0;
    for (const TimeTerm& term : terms_)
      if (term.kind == kind) sum += term.seconds;
    return sum / std::max(1e-300, Sum());
  }
  std::vector<TimeTerm> Take() { return std::move(terms_); }

 private:
  std::vector<TimeTerm> terms_;
};

double SpreadOf(const ModelCard& card, const TimeSetup& time, const Machine& machine,
                const Terms& terms) {
  double spread = time.tuned_code ? kTunedSpread : kEagerSpread;
  if (!machine.gpu_known) {
    spread += kUnknownGpuSpread;
  } else if (!machine.gpu.matmul_tflops) {
    spread += kUnmeasuredGpuSpread;
  }
  if (ShapeOrigin(card) >= Origin::kAssumed) spread += kAssumedShapeSpread;
  spread += kTrafficSpread * (terms.Share(TimeKind::kNetwork) + terms.Share(TimeKind::kLinks) +
                              terms.Share(TimeKind::kHostLink));
  spread += kStartSpread * terms.Share(TimeKind::kKernelStart);
  return std::min(spread, kLargestSpread);
}

TimeKind Largest(const std::vector<TimeTerm>& terms) {
  std::map<TimeKind, double> sums;
  for (const TimeTerm& term : terms) sums[term.kind] += term.seconds;
  TimeKind best = TimeKind::kCompute;
  for (const auto& [kind, seconds] : sums)
    if (seconds > sums[best]) best = kind;
  return best;
}

std::vector<std::string> AssumptionsOf(const ModelCard& card, const TimeSetup& time,
                                       const Machine& machine, bool crosses_nodes) {
  std::vector<std::string> says;
  if (!machine.gpu_known) says.push_back("GPU not in the data sheet: speed of a similar class");
  if (crosses_nodes && !machine.node_network_gbps) {
    says.push_back(machine.gpu.nic_gbps ? "network assumed as in the maker's reference system"
                                        : "network assumed to be 25 Gbit/s");
  }
  if (!time.tuned_code) says.push_back("eager code assumed: no fused kernels");
  if (ShapeOrigin(card) >= Origin::kAssumed) says.push_back("shape of the model assumed");
  if (card.vocab == 0) says.push_back("vocabulary not known: time of logits left out");
  return says;
}

}  // namespace

bool IsTuned(Framework framework, bool compiled) {
  return compiled || (framework != Framework::kHf && framework != Framework::kUnknown);
}

Result<TimeEstimate> PredictTime(const ModelCard& card, const TrainingSetup& setup,
                                 const TimeSetup& time, const Machine& machine,
                                 const TimeConstants& constants) {
  LAUNCH_RETURN_IF_ERROR(CheckCard(card));
  LAUNCH_RETURN_IF_ERROR(CheckSetup(setup));
  if (time.accumulate < 1 || time.accumulate > 1'000'000'000) {
    return Fail(ErrorCode::kInvalidArgument,
                "accumulation is " + std::to_string(time.accumulate) + ", not between 1 and 1e9");
  }
  if (!HasShape(card) || card.params <= 0) {
    return Fail(ErrorCode::kFailedPrecondition, "the model's shape is not known",
                "give layers and hidden in `model:`, or measure with `launch plan --probe`");
  }
  const ComputeTime compute =
      ComputeTimeOf(card, setup, time.precision, time.tuned_code, machine.gpu, constants);
  const TrafficTime traffic = TrafficTimeOf(card, setup, time.precision, machine, constants);
  const double micro_steps = static_cast<double>(time.accumulate);
  const TimeKind wire = traffic.crosses_nodes ? TimeKind::kNetwork : TimeKind::kLinks;

  const double on_gpu = compute.products + compute.attention + compute.elementwise + compute.logits;
  const double waits = std::max(0.0, compute.starting - on_gpu);
  const double micro = on_gpu + waits;
  const double backward = micro * compute.backward_share;

  Terms terms;
  terms.Add("matrix products", TimeKind::kCompute, micro_steps * compute.products);
  terms.Add("attention", TimeKind::kCompute, micro_steps * compute.attention);
  terms.Add("element-wise kernels", TimeKind::kMemory, micro_steps * compute.elementwise);
  terms.Add("logits and loss", TimeKind::kMemory, micro_steps * compute.logits);
  terms.Add("waiting for kernel starts", TimeKind::kKernelStart, micro_steps * waits);
  terms.Add("gathered weights", wire,
            micro_steps * Beyond(micro, traffic.gather_micro, constants.gather_exposed));
  terms.Add("reduced gradients", wire,
            micro_steps * Beyond(backward, traffic.reduce_micro, constants.reduce_exposed) +
                Beyond(backward, traffic.reduce_step, constants.reduce_exposed));
  terms.Add("weights after the step", wire, traffic.after_step);
  terms.Add("offloaded weights", TimeKind::kHostLink,
            micro_steps * Beyond(micro, traffic.fetch_micro, constants.reduce_exposed));
  terms.Add("gradients to the host", TimeKind::kHostLink,
            micro_steps * Beyond(backward, traffic.host_micro, constants.reduce_exposed));
  terms.Add("optimizer on the host", TimeKind::kHostLink, traffic.host_step);
  if (setup.offload == Offload::kNone) {
    terms.Add("optimizer", TimeKind::kMemory,
              compute.optimizer_bytes * TrainedParams(card, setup) / ShardsOf(setup).optimizer /
                  MemoryRate(machine.gpu, constants));
  }

  TimeEstimate estimate;
  estimate.step_seconds = terms.Sum();
  const double spread = SpreadOf(card, time, machine, terms);
  estimate.low = estimate.step_seconds * (1 - spread);
  estimate.high = estimate.step_seconds / (1 - spread);
  estimate.terms = terms.Take();
  estimate.bound = Largest(estimate.terms);
  const double samples = static_cast<double>(setup.micro_batch) * micro_steps;
  estimate.tokens_per_second_per_gpu =
      samples * static_cast<double>(setup.seq) / estimate.step_seconds;
  estimate.samples_per_second = samples * setup.ranks / estimate.step_seconds;
  estimate.assumptions = AssumptionsOf(card, time, machine, traffic.crosses_nodes);
  if (!std::isfinite(estimate.step_seconds) || estimate.step_seconds <= 0) {
    return Fail(ErrorCode::kInvalidArgument, "the sizes give no finite time for a step");
  }
  return estimate;
}

std::string_view ToString(TimeKind v) {
  switch (v) {
    case TimeKind::kCompute:
      return "compute";
    case TimeKind::kMemory:
      return "memory bandwidth";
    case TimeKind::kKernelStart:
      return "kernel starts";
    case TimeKind::kLinks:
      return "links between GPUs";
    case TimeKind::kNetwork:
      return "network";
    case TimeKind::kHostLink:
      return "link to the host";
    case TimeKind::kLoader:
      return "data loader";
  }
  return "compute";
}

}  // namespace launch
