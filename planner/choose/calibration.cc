#include "planner/choose/calibration.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "common/gpu_catalog.h"
#include "common/units.h"
#include "planner/choose/program_digest.h"

namespace launch {
namespace {

constexpr double kSameShape = 0.05;
constexpr double kScaled = 0.25;
constexpr double kLeastSpread = 0.1;
constexpr double kMostCorrection = 4;

bool SameRun(const MeasuredRun& run, const RunShape& shape) {
  return run.ranks == shape.ranks &&
         (!run.global_batch || !shape.global_batch || run.global_batch == shape.global_batch);
}

// A name alone makes no same run: every train.py is called "train". Files of the user's own
// (plan --calibration) go by the name.
bool OfSameProgram(const MeasuredRun& run, const RunShape& shape) {
  return run.job == shape.job &&
         (run.script.empty() || shape.script.empty() || run.script == shape.script);
}

// Whether ranks share the work, and how much, is known by the batch alone.
bool Scales(const MeasuredRun& run, const RunShape& shape) {
  return run.ranks == shape.ranks || (run.global_batch && shape.global_batch);
}

// Samples of one rank per step, relative to the measured run.
double Scale(const MeasuredRun& run, const RunShape& shape) {
  const double ranks = static_cast<double>(run.ranks) / std::max(1, shape.ranks);
  if (!run.global_batch || !shape.global_batch) return ranks;
  return ranks * static_cast<double>(*shape.global_batch) / static_cast<double>(*run.global_batch);
}

// Seconds of the whole run on the device of `run`, for the shape asked about.
std::optional<double> Total(const MeasuredRun& run, const RunShape& shape) {
  if (run.step_seconds && shape.steps) {
    return *run.step_seconds * Scale(run, shape) * static_cast<double>(*shape.steps);
  }
  if (!run.seconds) return std::nullopt;
  const double ranks = static_cast<double>(run.ranks) / std::max(1, shape.ranks);
  return *run.seconds * ranks;
}

const MeasuredRun* Nearest(const std::vector<MeasuredRun>& history, const RunShape& shape) {
  const MeasuredRun* nearest = nullptr;
  const auto distance = [&](const MeasuredRun& run) {
    return std::tuple(std::abs(run.ranks - shape.ranks),
                      run.global_batch == shape.global_batch ? 0 : 1);
  };
  for (const MeasuredRun& run : history) {  // oldest first: the newest of equals stays
    // Runs of others come without a name; a probe is no whole run.
    if (run.job.empty() || !OfSameProgram(run, shape) || run.probe) continue;
    if (!SameDevice(run.device, shape.device) || !Scales(run, shape)) continue;
    if (!run.step_seconds && !run.seconds) continue;
    if (nearest == nullptr || distance(run) <= distance(*nearest)) nearest = &run;
  }
  return nearest;
}

// The fastest other device that this job was measured on.
std::string Compare(const std::vector<MeasuredRun>& history, const RunShape& shape,
                    double seconds) {
  const MeasuredRun* fastest = nullptr;
  double best = 0;
  for (const MeasuredRun& run : history) {
    if (!OfSameProgram(run, shape) || !Scales(run, shape)) continue;
    if (SameDevice(run.device, shape.device)) continue;
    const auto total = Total(run, shape);
    if (!total || *total <= 0 || (fastest != nullptr && *total >= best)) continue;
    fastest = &run;
    best = *total;
  }
  if (fastest == nullptr || seconds < 1.05 * best) return "";
  return FormatNumber(seconds / best, "%.3gx the time of ") + fastest->device +
         FormatNumber(best, " (%.0f s)");
}

void CorrectTime(const std::vector<MeasuredRun>& history, Plan& plan) {
  DurationForecast& time = plan.duration;
  if (time.basis != Basis::kCold || !time.step_seconds) return;
  const auto correction = CorrectionOf(history, plan.run);
  if (!correction) return;
  const double factor = correction->factor;
  time.step_seconds = *time.step_seconds * factor;
  for (auto* rate : {&time.tokens_per_second_per_gpu, &time.samples_per_second}) {
    if (*rate) *rate = **rate / factor;
  }
  if (time.seconds) {
    time.seconds = *time.seconds * factor;
    time.low = *time.seconds * (1 - correction->spread);
    time.high = *time.seconds * (1 + correction->spread);
  }
  const MeasuredRun& run = plan.run;
  plan.memory.assumptions.push_back("time: cold, times " + FormatNumber(factor, "%.3g") + " as " +
                                    std::to_string(correction->runs) +
                                    (correction->runs == 1 ? " run" : " runs") + " of " +
                                    run.architecture + " by " + run.framework + ", " +
                                    run.strategy + " on " + run.device + " took");
}

}  // namespace

bool SameDevice(const std::string& measured, const std::string& asked) {
  if (measured == asked) return true;
  const GpuType* a = GpuCatalog::BuiltIn().Find(measured, std::nullopt);
  const GpuType* b = GpuCatalog::BuiltIn().Find(asked, std::nullopt);
  return a != nullptr && b != nullptr && a->name == b->name;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::optional<TimeCorrection> CorrectionOf(const std::vector<MeasuredRun>& history,
                                           const MeasuredRun& run) {
  std::vector<double> factors;
  for (const MeasuredRun& one : history) {
    const bool same = !run.architecture.empty() && one.architecture == run.architecture &&
                      one.framework == run.framework && one.strategy == run.strategy &&
                      SameDevice(one.device, run.device);
    if (!same || !one.step_seconds || !one.cold_step_seconds) continue;
    const double factor = *one.step_seconds / *one.cold_step_seconds;
    if (factor > 0 && std::isfinite(factor)) factors.push_back(factor);
  }
  if (factors.empty()) return std::nullopt;
  TimeCorrection correction;
  correction.runs = static_cast<int>(factors.size());
  const double median = Median(factors);
  // A run that waited for something else is no evidence against the formula.
  correction.factor = std::clamp(median, 1.0 / kMostCorrection, kMostCorrection);
  for (double& factor : factors) factor = std::abs(factor / median - 1);
  const double deviation = 2 * Median(factors);
  correction.spread = correction.runs < 3 ? kScaled : std::clamp(deviation, kLeastSpread, kScaled);
  return correction;
}

MeasuredRun NameOfRun(const JobSpec& spec, const SubmitContext& context, const Plan& plan,
                      const RankLayout& layout, const std::string& architecture) {
  MeasuredRun run;
  if (spec.name.empty()) return run;
  const RunShape shape = ShapeOfRun(spec, plan, layout);
  run.job = shape.job;
  run.device = shape.device;
  run.ranks = shape.ranks;
  // The word is of a file that anybody may write: short and printable, as every name in a record.
  run.architecture = architecture.substr(0, 64);
  std::erase_if(run.architecture, [](unsigned char c) { return c <= 0x20 || c >= 0x7F; });
  run.framework = std::string(ToString(plan.trainer));
  run.precision = std::string(ToString(plan.precision));
  run.script = DigestOfProgram(spec, context);
  return run;
}

void NameTheWay(Plan& plan) {
  MeasuredRun& run = plan.run;
  if (run.device.empty()) {
    run = {};
    return;
  }
  run.global_batch = plan.batch.global;
  run.micro = plan.batch.micro;
  run.strategy = std::string(ToString(plan.strategy));
  run.offload = std::string(ToString(plan.offload));
  run.checkpointing = plan.checkpointing;
  if (plan.duration.step_seconds.value_or(0) > 0)
    run.cold_step_seconds = plan.duration.step_seconds;
}

std::optional<MeasuredTime> TimeByHistory(const std::vector<MeasuredRun>& history,
                                          const RunShape& shape) {
  const MeasuredRun* run = Nearest(history, shape);
  if (run == nullptr) return std::nullopt;
  MeasuredTime time;
  const bool same = SameRun(*run, shape);
  // A whole run tells nothing of its number of steps: they may have been others.
  const bool whole = !(run->step_seconds && shape.steps);
  const bool other_length = whole && shape.bounded;
  const double spread = same && !other_length ? kSameShape : kScaled;
  DurationForecast& duration = time.duration;
  duration.basis = Basis::kMeasured;
  if (run->step_seconds) duration.step_seconds = *run->step_seconds * Scale(*run, shape);
  duration.seconds = Total(*run, shape);
  if (duration.seconds) {
    duration.low = *duration.seconds * (1 - spread);
    duration.high = *duration.seconds * (1 + spread);
    time.compared = Compare(history, shape, *duration.seconds);
  }
  time.from = "measured on " + std::to_string(run->ranks) + " x " + run->device +
              (same ? "" : ", scaled to " + std::to_string(shape.ranks) + " ranks") +
              (other_length ? ", by a whole run of perhaps other steps" : "");
  return time;
}

RunShape ShapeOfRun(const JobSpec& spec, const Plan& plan, const RankLayout& layout) {
  RunShape shape;
  shape.job = spec.name;
  shape.device = std::string(ToString(plan.device));
  if (plan.device == DeviceClass::kCuda) {
    for (const NodeShare& share : layout.nodes) {
      for (int index : share.gpus) {
        const GpuDevice& gpu = share.inventory->gpus[static_cast<std::size_t>(index)];
        const GpuType* type = GpuCatalog::BuiltIn().TypeOf(gpu.model, gpu.memory_bytes);
        shape.device = type == nullptr ? gpu.model : type->name;
      }
    }
  }
  shape.ranks = plan.world_size;
  shape.global_batch = plan.batch.global;
  shape.steps = plan.steps;
  shape.bounded = spec.steps.has_value() || spec.dataset.has_value();
  return shape;
}

void ApplyHistory(const std::vector<MeasuredRun>& history, const JobSpec& spec,
                  const RankLayout& layout, Plan& plan) {
  RunShape shape = ShapeOfRun(spec, plan, layout);
  shape.script = plan.run.script;
  auto time = TimeByHistory(history, shape);
  if (!time) {
    CorrectTime(history, plan);
    return;
  }
  // What was not measured stays as predicted.
  time->duration.tokens_per_second_per_gpu = std::nullopt;
  plan.duration = std::move(time->duration);
  plan.memory.assumptions.push_back("time: " + time->from);
  if (time->compared.empty()) return;
  plan.warnings.push_back(MakeFinding("device_slower", Severity::kNotice,
                                      "this job takes " + time->compared,
                                      "ask for that device with gpus: or constraints:"));
}

}  // namespace launch
