// Waiting for the end of a job, apart from the connection that it is asked over.
#pragma once

#include <functional>
#include <optional>

#include "common/error.h"
#include "common/view.h"
#include "proto/convert_user.h"

namespace launch {

struct JobWatch {
  std::function<Result<JobView>()> look;
  // Watches events, as Client::Watch does.
  std::function<Result<void>(const WatchCall& call, Millis at_most,
                             const std::function<bool(const EventView&)>& take)>
      watch;
  std::function<void(int failures)> pause;  // longer with their number
};

// Waits for the end of the job, as AwaitJob of cli/app.h does.
Result<JobView> AwaitJob(const JobWatch& watch, JobId job, std::optional<Millis> at_most,
                         const std::function<void(const JobView&)>& changed);

}  // namespace launch
