// Where the processes of a rank stand: what is collected when a job hangs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"

namespace launch {

struct StackFrame {  // of Python
  std::string function;
  std::string file;
  int line = 0;
  friend bool operator==(const StackFrame&, const StackFrame&) = default;
};

struct ProcessStack {
  std::int64_t pid = 0;
  std::optional<Rank> rank;  // RANK of its environment: under a launcher of the job's own
  std::string name;
  std::string state;   // the kernel's letter: R runs, S sleeps, D waits for a device, T is stopped
  std::string source;  // faulthandler | py-spy; empty: its Python side is not known
  std::vector<StackFrame> frames;   // of its main thread, innermost first
  std::string syscall;              // it is in; empty: none, or not readable
  std::vector<std::string> kernel;  // functions, innermost first; empty: not readable
  friend bool operator==(const ProcessStack&, const ProcessStack&) = default;
};

// The process of the rank comes first, then its children.
struct RankStacks {
  Key key;
  Rank rank = 0;
  std::vector<ProcessStack> processes;
  std::string why;  // there is nothing; or empty
  friend bool operator==(const RankStacks&, const RankStacks&) = default;
};

}  // namespace launch
