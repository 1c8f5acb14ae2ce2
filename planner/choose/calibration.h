// What runs of the same job took before: it beats every formula.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/job.h"
#include "common/plan.h"
#include "planner/place/ranks.h"

namespace launch {

// The run asked about, as measured runs are compared with it.
struct RunShape {
  std::string job;     // name of the job
  std::string device;  // class of GPU ("A100-40GB", or the driver's name), "mps" or "cpu"
  int ranks = 1;
  std::optional<std::int64_t> global_batch;
  std::optional<std::int64_t> steps;
  std::string script;    // as MeasuredRun::script
  bool bounded = false;  // the job says how long it runs: by steps or a dataset
};

struct MeasuredTime {
  DurationForecast duration;
  std::string from;      // "measured on 1 x A100-40GB, scaled to 4 ranks"
  std::string compared;  // "12x the time of RTX 4090 (150 s)"; empty = nothing to compare with
};

// The time by the nearest measured run of that job and the same program: the same device first,
// then the same number of ranks, then the same batch, the newest of equals. A step is scaled by the
// samples of a rank: gangs of data-parallel ranks share the batch. The interval is +-5 % for the
// same shape, +-25 % for a scaled one, for which both batches must be known. Absent: nothing
// measured on this device.
std::optional<MeasuredTime> TimeByHistory(const std::vector<MeasuredRun>& history,
                                          const RunShape& shape);

// What runs of other jobs of the same architecture, framework, device and strategy took, against
// what the formula had said: the median of measured / cold. Absent: there is none.
struct TimeCorrection {
  double factor = 1;
  double spread = 0;  // relative, of the interval
  int runs = 0;
};
std::optional<TimeCorrection> CorrectionOf(const std::vector<MeasuredRun>& history,
                                           const MeasuredRun& run);

// This run as its measurement will be named, before a way of running it is chosen; nothing where
// the job has no name. Needs the plan's device, ranks, trainer and precision.
MeasuredRun NameOfRun(const JobSpec& spec, const SubmitContext& context, const Plan& plan,
                      const RankLayout& layout, const std::string& architecture);
// And once it is: batch, strategy and the cold time in plan.run.
void NameTheWay(Plan& plan);

// "A100" of a record means the class "A100-40GB" of the catalog when the record says no more.
bool SameDevice(const std::string& measured, const std::string& asked);
double Median(std::vector<double> values);  // of at least one

RunShape ShapeOfRun(const JobSpec& spec, const Plan& plan, const RankLayout& layout);

// Replaces the plan's duration where the job's own history knows better (what it was compared with
// becomes a notice, device_slower), and corrects a cold one by other jobs' runs of the same key.
// Needs plan.run.
void ApplyHistory(const std::vector<MeasuredRun>& history, const JobSpec& spec,
                  const RankLayout& layout, Plan& plan);

}  // namespace launch
