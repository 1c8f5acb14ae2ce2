// When a waiting job may start: what runs is ended in the order of its expected ends, and the queue
// is served in between as the scheduler would. Pure; bounded in what it tries, since it is asked by
// people and answered between decisions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/view.h"
#include "controller/core/state.h"

namespace launch::controller {

// When a job may start, by the ends of what runs and the order of the queue as known now. No
// promise.
struct StartForecast {
  struct Holder {  // a job that has what the waiting one needs
    JobId job;
    std::string name;
    std::string user;
    int gpus = 0;
    std::vector<NodeId> nodes;
    std::optional<WallTime> ends;  // absent: nothing says when
    std::string ends_by;           // "its ETA", "its time limit" ...; empty without `ends`
  };
  std::vector<Holder> holders;      // those that end first come first, unknown ends last
  std::vector<JobId> ahead;         // waiting jobs whose turn comes before
  std::optional<WallTime> start;    // absent: not known, `basis` says why
  std::string basis;                // one clause: what `start` follows from
  std::vector<std::string> sooner;  // changes that would let it start before that
};

// When a job that is queued may start.
StartForecast ForecastStart(const State& state, const JobRecord& job, const Now& now);

// When a job may start that would be submitted now. `line`: what that of its spec asks for.
StartForecast ForecastStart(const State& state, const event::PlanQuery& query,
                            const Result<LineDemand>& line, const Now& now);

// "in 1h10m (job 7 ends then by its ETA)", "not known: nothing says when job 7 ends".
std::string InWords(const StartForecast& start, const Now& now);

// The notice `expected_start` of a job that waits: who is in front and has what it needs as its
// evidence, what would help as its remedy.
Finding AsFinding(const StartForecast& start, const Now& now);

}  // namespace launch::controller
