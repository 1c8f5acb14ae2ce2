// A command that a user runs beside a rank of a running job: `launch exec`, `launch shell` and
// `launch cp`, which reads what a job left as well.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace launch {

struct TerminalSize {
  int rows = 24;
  int columns = 80;
  friend bool operator==(const TerminalSize&, const TerminalSize&) = default;
};

struct ExecCommand {
  std::vector<std::string> argv;  // empty: a login shell of the node
  // Present: it gets a terminal of its own, and both its streams are one.
  std::optional<TerminalSize> terminal;
  std::string term;  // TERM of the caller; only with a terminal
  // Where the rank does not run any more: this path of its copy of workdir, as a tar archive on
  // standard output, instead of argv.
  std::optional<std::string> archive = {};
  friend bool operator==(const ExecCommand&, const ExecCommand&) = default;
};

// A copy of a job's working directory, which outlives it on its node.
struct JobCopy {
  std::string user;     // whose job
  std::string root;     // of the snapshot
  std::string workdir;  // that it is a copy of
  bool used = false;    // the attempt ran in it, as far as is known
  friend bool operator==(const JobCopy&, const JobCopy&) = default;
};

// One message of a session's bytes, in either direction. Each side reads the next one only when it
// has passed on the one before, so that a slow reader holds up its own session and nothing else.
inline constexpr std::size_t kExecPiece = 32 * 1024;

// How a command ended, as a shell counts it: 126 and 127 say that it could not be started.
struct ExecEnd {
  int code = 0;
  int signal = 0;   // that killed it; then code is 128 + signal
  std::string why;  // one sentence when it did not end by itself, or never began
  friend bool operator==(const ExecEnd&, const ExecEnd&) = default;
};

}  // namespace launch
