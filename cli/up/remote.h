// A machine where commands can be run: the seam between the steps of `launch up` and ssh.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/clock.h"
#include "common/error.h"

namespace launch::up {

struct RemoteAnswer {
  int code = 0;        // exit code; -1 when a signal ended it
  std::string output;  // stdout, at most 1 MiB
  std::string errors;  // stderr, at most 64 KiB
};

// Called with the number of input bytes sent so far, each time that grows.
using SentBytes = std::function<void(std::uint64_t)>;

class Remote {
 public:
  virtual ~Remote() = default;
  // Runs `command` with /bin/sh there and `input` on its stdin. An error means that the connection
  // failed; a command that fails is an answer.
  virtual Result<RemoteAnswer> Send(const std::string& command, std::string_view input,
                                    Millis deadline, const SentBytes& sent) = 0;
  Result<RemoteAnswer> Run(const std::string& command, std::string_view input, Millis deadline) {
    return Send(command, input, deadline, [](std::uint64_t) {});
  }
};

// The end of what a command said, for a message.
std::string LastWords(std::string_view text);

// Checks that the command succeeded: kFailedPrecondition, with the command's own words, where it
// did not. `what` says what it was for.
Result<void> MustBeDone(const RemoteAnswer& answer, const std::string& what);
Result<RemoteAnswer> Must(Remote& remote, const std::string& command, std::string_view input,
                          Millis deadline, const std::string& what);

}  // namespace launch::up
