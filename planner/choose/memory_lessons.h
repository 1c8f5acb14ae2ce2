// What earlier runs tell of the memory of this one: figures of the same program, and what the
// formula missed in runs like it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/plan.h"
#include "planner/choose/candidates.h"
#include "planner/choose/probe.h"
#include "planner/cost/memory_model.h"

namespace launch {

// What measured runs with the same architecture, framework, device and strategy (of this same
// program, if it ran) teach: a factor on the terms that grow with batch and sequence, measured by
// predicted. States, buffers and context are never scaled: they are known.
struct MemoryCorrection {
  double factor = 1;
  double spread = 0;  // relative; 0 = that of the formula
  int runs = 0;
  bool own = false;  // runs of the same program
  friend bool operator==(const MemoryCorrection&, const MemoryCorrection&) = default;
};

// One way of running the same program, on as many ranks of the same device, that was measured.
struct MeasuredWay {
  std::string strategy;
  std::string offload;
  std::string checkpointing;
  std::vector<ProbePoint> probes;  // one per micro-batch, the newest
  // Micro-batch (0 = not known) -> peak of a whole run, the newest.
  std::map<std::int64_t, double> whole_gib;
  friend bool operator==(const MeasuredWay&, const MeasuredWay&) = default;
};

struct MemoryLessons {
  std::vector<MeasuredWay> ways;
  std::map<Strategy, MemoryCorrection> corrections;
  friend bool operator==(const MemoryLessons&, const MemoryLessons&) = default;
};

// `run` is named as the run asked about; its strategy and batch do not matter. `history` is oldest
// first.
MemoryLessons LessonsOf(const std::vector<MeasuredRun>& history, const MeasuredRun& run);

const MeasuredWay* FindWay(const MemoryLessons& lessons, std::string_view strategy,
                           std::string_view offload, std::string_view checkpointing);

// The estimate with its dynamic terms corrected; nothing where no run of that strategy is known.
void Correct(const MemoryLessons& lessons, Strategy strategy, MemoryEstimate& estimate);

// Process memory of the option as it was measured; absent where it was not.
std::optional<double> MeasuredBytes(const MemoryLessons& lessons, const PlanOption& option,
                                    const MemoryEstimate& estimate);
// Measured figures need less margin than a formula's.
FitVerdict JudgeMeasured(double bytes, double limit_bytes);

// Memory and, from probes, time of a plan that was chosen: whole runs beat probes, probes beat the
// formula. Where none of them is of this way and no formula knows, the finding memory_unknown tells
// what was measured last.
void ApplyLessons(const MemoryLessons& lessons, const std::vector<MeasuredRun>& history,
                  Plan& plan);

}  // namespace launch
