// Moves bytes between this program's terminal or pipes and a command beside a rank.
#pragma once

#include <optional>

#include "cli/client.h"
#include "common/exec.h"

namespace launch {

// Size of the terminal that `fd` is; absent when it is none.
std::optional<TerminalSize> TerminalSizeOf(int fd);

// Passes standard input to the command and its output to ours until it ends. With `terminal` ours
// is raw meanwhile, so that every key reaches the command, which also learns of a new size. Absent:
// the stream ended before the command did.
std::optional<ExecEnd> MoveBytes(ExecStream& stream, bool terminal);

}  // namespace launch
