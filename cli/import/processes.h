// How many processes a text of another scheduler starts where it runs once.
#pragma once

#include <string_view>

namespace launch {

// It calls Python, and neither a launcher, which counts processes itself, nor another script, which
// may call one. Here such a text starts once per GPU unless procs_per_node says otherwise.
bool CallsPythonAlone(std::string_view run);

}  // namespace launch
