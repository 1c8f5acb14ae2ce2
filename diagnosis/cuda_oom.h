// What a GPU out-of-memory message says in numbers, and which of three causes they tell: too large,
// fragmented, or taken by somebody else.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace launch {

// Bytes; absent: the message does not say. All forms of torch since 1.0, MPS, and the bullet form
// "4.15 GiB asked, 44.53 total, ..." that people paste.
struct OomNumbers {
  std::optional<double> tried;
  std::optional<double> total;        // of the device
  std::optional<double> free;         // of the device
  std::optional<double> process;      // this process, with what torch does not manage
  std::optional<double> others;       // "Process N has M memory in use", summed
  std::optional<double> allocated;    // by torch
  std::optional<double> unallocated;  // reserved by torch and not allocated
  std::optional<double> allowed;      // set_per_process_memory_fraction, where it is less
  std::optional<int> gpu;
  bool old_form = false;  // reserved was given as a total; process is estimated from it
};

enum class OomKind { kSize, kFragmentation, kForeignProcess };

// `text` is the message with its lines joined.
OomNumbers ReadOomNumbers(std::string_view text);

OomKind ClassifyOom(const OomNumbers& numbers);

enum class OomPhase { kUnknown, kStart, kForward, kBackward, kOptimizer, kEvaluation, kLoad };
// The phase of training, by the frames of the traceback in front of the message.
OomPhase PhaseOfOom(std::string_view frames);
std::string_view ToString(OomPhase phase);

struct OomVerdict {
  std::string label;   // cuda_oom | cuda_oom_fragmentation | cuda_oom_foreign_process
  std::string cause;   // one sentence with the numbers
  std::string remedy;  // the way that changes least first
  std::map<std::string, double> numbers;  // as in common/diagnosis.h
  std::vector<std::string> changes;
};
OomVerdict JudgeOom(const OomNumbers& numbers, OomPhase phase, bool allocator_already_set);

}  // namespace launch
