#include "planner/calibration.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "common/gpu_catalog.h"
#include "common/units.h"

namespace launch {
namespace {

constexpr double kSameShape = 0.05;
constexpr double kScaled = 0.25;

// "A100" of a record means the class "A100-40GB" of the catalog when the record says no more.
bool SameDevice(const std::string& measured, const std::string& asked) {
  if (measured == asked) return true;
  const GpuType* a = GpuCatalog::BuiltIn().Find(measured, std::nullopt);
  const GpuType* b = GpuCatalog::BuiltIn().Find(asked, std::nullopt);
  return a != nullptr && b != nullptr && a->name == b->name;
}

bool SameRun(const MeasuredRun& run, const RunShape& shape) {
  return run.ranks == shape.ranks &&
         (!run.global_batch || !shape.global_batch || run.global_batch == shape.global_batch);
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
    if (run.job != shape.job || !SameDevice(run.device, shape.device)) continue;
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
    if (run.job != shape.job || SameDevice(run.device, shape.device)) continue;
    const auto total = Total(run, shape);
    if (!total || *total <= 0 || (fastest != nullptr && *total >= best)) continue;
    fastest = &run;
    best = *total;
  }
  if (fastest == nullptr || seconds < 1.05 * best) return "";
  return FormatNumber(seconds / best, "%.3gx the time of ") + fastest->device +
         FormatNumber(best, " (%.0f s)");
}

}  // namespace

std::optional<MeasuredTime> TimeByHistory(const std::vector<MeasuredRun>& history,
                                          const RunShape& shape) {
  const MeasuredRun* run = Nearest(history, shape);
  if (run == nullptr) return std::nullopt;
  MeasuredTime time;
  const bool same = SameRun(*run, shape);
  const double spread = same ? kSameShape : kScaled;
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
              (same ? "" : ", scaled to " + std::to_string(shape.ranks) + " ranks");
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
  return shape;
}

void ApplyHistory(const std::vector<MeasuredRun>& history, const JobSpec& spec,
                  const RankLayout& layout, Plan& plan) {
  auto time = TimeByHistory(history, ShapeOfRun(spec, plan, layout));
  if (!time) return;
  // What was not measured stays as predicted.
  time->duration.tokens_per_second_per_gpu = std::nullopt;
  plan.duration = std::move(time->duration);
  plan.memory.assumptions.push_back("time: " + time->from);
  if (time->compared.empty()) return;
  Finding finding;
  finding.code = "device_slower";
  finding.severity = Severity::kNotice;
  finding.says = "this job takes " + time->compared;
  finding.remedy = "ask for that device with gpus: or constraints:";
  plan.warnings.push_back(std::move(finding));
}

}  // namespace launch
