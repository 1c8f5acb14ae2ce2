// Slurm hostlists: "gpu[01-16,20],login1" to names and back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"

namespace launch {

// Expands at most `max_hosts` names, counted before expansion. Errors name the column.
Result<std::vector<std::string>> ExpandHostlist(std::string_view text,
                                                std::size_t max_hosts = 10000);

// Shortest folded form in natural order: {"gpu02","gpu01","gpu03"} -> "gpu[01-03]".
std::string FoldHostlist(std::vector<std::string> names);

}  // namespace launch
