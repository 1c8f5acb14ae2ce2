// What the checks before a start looked at, as the text of an event and back: a job's record keeps
// findings alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/diagnosis.h"

namespace launch {

// A sentence that counts them, then a line for each: result, check, node, code and what it says,
// with tabs between. Of one check at most eight nodes; 4 KiB in all, of which what failed takes its
// part first and what passed last.
std::string CheckedText(const std::vector<Check>& checks);
// Lines that are none are left out.
std::vector<Check> ParseChecked(std::string_view text);

}  // namespace launch
