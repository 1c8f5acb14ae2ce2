// What the lines of stored jobs say: a script of hundreds of lines takes milliseconds to read, and
// the queue is looked at after each event.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "common/ids.h"
#include "planner/planner.h"

namespace launch::controller {

struct State;

// Whether the line and the files that it may call are read in some milliseconds at most, however
// hostile: so little that it may be done between two events. What is longer is read by the plan
// worker, where owners take turns, and kept.
bool IsReadAtOnce(const JobSpec& spec, const std::map<std::string, std::string>& files);

// Whether the specs may be those of two elements of one array: they differ in what tells elements
// apart at most, which is for their ranks. `launch update` may have changed one of them.
bool AsksForTheSame(const JobSpec& one, const JobSpec& other);

// Only remembers: an answer is the same whether it was read before or is read now. So it is filled
// through a const State. Of one thread, as the State is.
class LineMemo {
 public:
  // The reading of the job's spec as stored. Elements of an array that ask for the same share one.
  const LineReading& Of(const State& state, JobId job) const;

  void Keep(JobId job, LineReading line) { read_[job] = std::move(line); }
  void Forget(JobId job) { read_.erase(job); }  // its spec changes, or it is done

 private:
  LineReading OfNeighbour(const State& state, JobId job) const;

  mutable std::map<JobId, LineReading> read_;
};

// state.lines.Of(state, job)
const LineReading& LineOf(const State& state, JobId job);

}  // namespace launch::controller
