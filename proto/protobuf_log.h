// Where protobuf's own complaints go: it prints to standard error, which belongs to the user.
#pragma once

#include <string>

namespace launch {

// What it would print is passed to `take` from now on, or to nobody if that is null. Once per
// process, before any message is parsed; `take` is called from any thread.
void SetProtobufLog(void (*take)(const std::string& line));

}  // namespace launch
