// `progress.regex` of a job: how step and number of steps are read from its output. RE2 only: its
// time is bounded, whatever the pattern.
#pragma once

#include <re2/re2.h>

#include <memory>
#include <string>

#include "common/error.h"

namespace launch {

re2::RE2::Options LogPatternOptions();  // of every pattern over what ranks print

struct ProgressPattern {
  std::unique_ptr<const re2::RE2> regex;
  int step = 1;   // group "step", or the first
  int steps = 2;  // group "steps", or the second; there need be none
};

// Errors name the place in the pattern; the text is at most 1 KiB.
Result<ProgressPattern> ParseProgressPattern(const std::string& text);

}  // namespace launch
