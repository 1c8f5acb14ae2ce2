// The closed list of labels (docs/diagnosis.md): for each the safe action, a sentence for the cause
// and a remedy to paste, used where a signature says nothing more precise.
#pragma once

#include <span>
#include <string_view>

#include "common/diagnosis.h"

namespace launch {

struct LabelInfo {
  std::string_view label;
  std::string_view action;
  std::string_view cause;   // one sentence, no final period
  std::string_view remedy;  // what to paste or do, no final period
};

std::span<const LabelInfo> Labels();                   // ordered by label
const LabelInfo& LabelInfoOf(std::string_view label);  // of an unknown word: that of "unknown"

// A verdict with the label's own cause, remedy and action, which the caller may make more precise.
Verdict VerdictOfLabel(std::string_view label, Confidence confidence);

// Puts the job's number into the remedy: "launch requeue JOB" becomes "launch requeue 12".
void NameJob(JobId job, Verdict& verdict);

}  // namespace launch
