// Where a rank stands, read from its stack: in a call that waits for the others, or elsewhere.
#pragma once

#include <string>

#include "common/stacks.h"
#include "diagnosis/hang.h"

namespace launch {

enum class StandingKind {
  kUnseen,     // no Python stack
  kElsewhere,  // in code of its own
  kLoader,     // waits for its data loader
  kGpu,        // waits for its GPU, which may wait in a collective
  kTogether,   // waits in a call that all ranks must make
};

struct StandingPlace {
  StandingKind kind = StandingKind::kUnseen;
  std::string call;  // of kTogether: "all_reduce"
  std::string at;    // "/w/train.py:31 (step)": innermost frame that is the user's own
  std::string state;
};

StandingPlace PlaceOf(const StandingRank& rank);
// The trainer among the rank's processes: the first with a Python stack, else the first; or null.
const ProcessStack* TrainerOf(const StandingRank& rank);

std::string InWords(
    const StandingPlace& place);  // "in all_reduce, called at /w/train.py:31 (step)"
std::string OnDevice(const StandingPlace& place);  // words for state D; or empty
std::string FrameText(const StackFrame& frame);    // "/w/train.py:31 (step)"
// The place without the directory of its file: "train.py:31 (step)" for "/w/train.py:31 (step)".
std::string WithoutDirectory(const std::string& place);

}  // namespace launch
