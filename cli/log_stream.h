// The output of a job's ranks on this terminal, over restarts of the controller.
#pragma once

#include "cli/app.h"
#include "cli/log_printer.h"

namespace launch {

struct LogStyle {
  bool raw = false;
  bool prefix = true;
  bool errors = false;  // only lines that tell of errors
  WallTime since{};     // nothing older
  bool json = false;    // each line as an object
};

// Prints until the log ends; with `call.follow`, until the job is done.
Result<void> StreamLogs(const App& app, Client& client, const LogsCall& call, LogStyle style);

}  // namespace launch
