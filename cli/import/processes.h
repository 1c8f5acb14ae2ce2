// How many processes a text of another scheduler starts where it runs once.
#pragma once

#include <string_view>

namespace launch {

// Whether the text calls Python, and neither a launcher, which counts processes itself, nor another
// script, which may call one. In a job file such a text starts once per GPU unless procs_per_node
// says otherwise.
bool CallsPythonAlone(std::string_view run);

}  // namespace launch
