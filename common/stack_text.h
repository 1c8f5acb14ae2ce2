// Python stacks as faulthandler and py-spy print them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/stacks.h"

namespace launch {

struct PythonThread {
  std::string name;                // as py-spy and Python from 3.14 on give it
  bool current = false;            // took the signal: the main thread, unless that blocks it
  std::vector<StackFrame> frames;  // innermost first
};

// Every thread of the text, in its order; lines that are neither thread nor frame are passed over,
// for other output may stand between them. At most 256 threads of 128 frames.
std::vector<PythonThread> ParseStacks(std::string_view text);

// The thread that trains: by its name, else the one that took the signal, else the last, because
// both print the oldest thread last. Null where there is none.
const PythonThread* MainThread(const std::vector<PythonThread>& threads);

}  // namespace launch
