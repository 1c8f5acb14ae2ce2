// JSON as Python's json module writes it where nobody told it otherwise.
#pragma once

#include <string>
#include <string_view>

namespace launch {

// `text` with null in place of the bare words NaN, Infinity and -Infinity, which json.dumps writes
// for floats that JSON has no number for, as the loss of a step that overflowed. What stands in
// strings is kept; a text that is cut short stays so.
std::string WithoutNan(std::string_view text);

}  // namespace launch
