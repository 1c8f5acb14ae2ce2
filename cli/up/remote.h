// A machine where commands can be run: the seam between the steps of `launch up` and ssh.
#pragma once

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

class Remote {
 public:
  virtual ~Remote() = default;
  // Runs `command` with /bin/sh there and `input` on its stdin. An error means that the connection
  // failed; a command that fails is an answer.
  virtual Result<RemoteAnswer> Run(const std::string& command, std::string_view input,
                                   Millis deadline) = 0;
};

}  // namespace launch::up
