// Peak GPU memory of one rank, predicted before anything ran: a maximum over phases of named terms.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "planner/cost/memory_constants.h"
#include "planner/model/model_card.h"
#include "planner/model/training_setup.h"

namespace launch {

// Which figure of GPU memory is meant: tensors, what the caching allocator took, or all that the
// driver counts for the process.
enum class MemoryMetric { kAllocated, kReserved, kProcess };
enum class PhaseKind { kLoad, kForward, kBackward, kStep, kEvaluation };

// What a term is made of decides how well it is known and in which metric it counts.
enum class TermKind {
  kState,     // weights, gradients, optimizer: exact once the model is known
  kBuffer,    // buckets, gathered layers, temporaries
  kDynamic,   // grows with batch and sequence
  kReserve,   // in the allocator's cache, in no tensor: not in kAllocated
  kOverhead,  // context and communication library: only in kProcess
};

struct MemoryTerm {
  std::string name;  // "weights", "gradients", "logits and loss" ...
  TermKind kind = TermKind::kState;
  double bytes = 0;  // never negative; terms of zero bytes are left out
  friend bool operator==(const MemoryTerm&, const MemoryTerm&) = default;
};

struct MemoryPhase {
  PhaseKind kind = PhaseKind::kForward;
  std::vector<MemoryTerm> terms;
  friend bool operator==(const MemoryPhase&, const MemoryPhase&) = default;
};

// Relative standard errors of the kinds of terms, cold; a probe replaces them.
struct MemoryErrors {
  double state = 0;
  double dynamic = 0;  // and buffers
  double reserve = 0;
  double shape = 0;  // of the whole, when the model's shape is assumed
  friend bool operator==(const MemoryErrors&, const MemoryErrors&) = default;
};

// Host memory of the ranks of one node, in the phase that needs most; loader workers and what the
// script itself holds are not counted.
struct HostMemory {
  PhaseKind phase = PhaseKind::kLoad;
  std::vector<MemoryTerm> terms;
  double bytes = 0;  // their sum
  friend bool operator==(const HostMemory&, const HostMemory&) = default;
};

struct MemoryEstimate {
  std::vector<MemoryPhase>
      phases;  // in the order of PhaseKind; the evaluation only if there is one
  HostMemory host;
  std::vector<std::string> assumptions;  // sentences for `launch plan`
  MemoryErrors errors;
  double factor = 1;  // by which measured runs corrected the dynamic terms and the cache
  friend bool operator==(const MemoryEstimate&, const MemoryEstimate&) = default;
};

// Predicts the memory of one rank. kInvalidArgument: a setup or card that CheckSetup or
// CompleteCard refuses, or sizes so large that the sum is beyond 1e18 bytes. A card without shape
// gives the states only, and says so.
Result<MemoryEstimate> PredictMemory(const ModelCard& card, const TrainingSetup& setup,
                                     const MemoryConstants& constants = {});

double BytesOf(const MemoryPhase& phase, MemoryMetric metric);

struct MemoryPeak {
  PhaseKind phase = PhaseKind::kForward;
  double bytes = 0;
  double low = 0;
  double high = 0;
};
// The largest phase in that metric, with the interval.
MemoryPeak PeakOf(const MemoryEstimate& estimate, MemoryMetric metric);

enum class FitVerdict { kYes, kTight, kNo };
// Process memory with the elastic part at 8 % of the dynamic one (the allocator gives its cache
// back under pressure) against what the GPU offers: up to 80 % fits (arXiv 2411.06465: never an OOM
// below), up to all of it is tight: a first step must prove it.
FitVerdict JudgeFit(const MemoryEstimate& estimate, double limit_bytes);
double DecisionBytes(const MemoryEstimate& estimate);

std::string_view ToString(PhaseKind v);
std::string_view ToString(FitVerdict v);

}  // namespace launch
