// Starting and stopping our own programs on this machine; a process is known by pid and start time.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/error.h"
#include "common/unique_fd.h"

namespace launch {

// What a pid file holds: enough that another process with the same number is never mistaken for it.
struct DaemonRecord {
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;  // field 22 of /proc/PID/stat
  std::string boot_id;
};

// Starts `argv` in its own session, stdin /dev/null, both outputs appended to `log`, and writes
// `pid_file`. argv[0] is a path.
Result<DaemonRecord> StartDaemon(const std::vector<std::string>& argv, const std::string& log,
                                 const std::string& pid_file);

// The record of a pid file whose process still lives; absent when it does not.
std::optional<DaemonRecord> LiveDaemon(const std::string& pid_file);

// Sends SIGTERM through a pidfd, SIGKILL after `grace`, and removes the pid file. A program that
// does not run is no error.
Result<void> StopDaemon(const std::string& pid_file, Millis grace);

struct Finished {
  int code = 0;        // exit code, 128+n for a signal
  std::string output;  // stdout, at most 1 MiB
  std::string errors;  // stderr, at most 64 KiB
};
// Runs a short program to its end with `input` on stdin; killed after `deadline`.
Result<Finished> RunToEnd(const std::vector<std::string>& argv, const std::string& input,
                          Millis deadline);

// A running program with a pipe to its stdin or from its stdout; its other streams are this
// program's.
class PipedProgram {
 public:
  enum class End { kStdin, kStdout };
  // argv[0] is a path.
  static Result<PipedProgram> Start(const std::vector<std::string>& argv, End ours);
  PipedProgram(PipedProgram&&) = default;
  PipedProgram& operator=(PipedProgram&&) = delete;
  ~PipedProgram();                                    // ends it, unless Finish did
  bool Write(std::string_view bytes);                 // false: it takes no more
  std::optional<std::string> Read(std::size_t most);  // blocking; absent at its end
  int Finish();  // closes our end and waits; exit code, 128+n for a signal

 private:
  PipedProgram(int pid, UniqueFd fd) : pid_(pid), fd_(std::move(fd)) {}
  int pid_;
  int code_ = -1;
  UniqueFd fd_;
};

// Last lines of a log file, for error messages.
std::string TailOf(const std::string& path, std::size_t max_bytes);

// Path of a program beside this executable.
Result<std::string> ProgramBeside(const std::string& name);

}  // namespace launch
