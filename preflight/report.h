// What preflight says of a job or a node: findings, and one line for every check that was made.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/diagnosis.h"

namespace launch {

struct PreflightReport {
  std::vector<Finding> findings;  // ordered by severity, node, code
  std::vector<Check> checks;      // by node, in the order they are made
  friend bool operator==(const PreflightReport&, const PreflightReport&) = default;
};

// A finding without evidence and remedy; `code` is one of preflight/codes.h.
Finding MakeFinding(std::string_view code, Severity severity, const NodeId& node, std::string says);

// Adds the finding and its line: fail for an error, warn for a warning, pass for a notice. The line
// stands under the code's own check, or under `check` where one code can end several.
void Add(PreflightReport& report, Finding finding, std::string_view check = {});
// A line without a finding of its own: what passed, and what follows from a finding made before.
void Pass(PreflightReport& report, std::string_view check, const NodeId& node, std::string says);
void Follow(PreflightReport& report, std::string_view check, const Finding& cause,
            std::string says);

void Append(PreflightReport& report, PreflightReport more);
void Sort(PreflightReport& report);

bool HasErrors(const std::vector<Finding>& findings);

}  // namespace launch
