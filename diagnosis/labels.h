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

// With the label's own sentence, remedy and action, for the caller to say more precisely.
Verdict VerdictOfLabel(std::string_view label, Confidence confidence);

// "launch requeue JOB" of the remedy becomes "launch requeue 12".
void NameJob(JobId job, Verdict& verdict);

}  // namespace launch
