// What the lines of stored jobs ask for. To read one is to follow the scripts that it calls, as
// bash would: some milliseconds for hundreds of lines, half a second for a hostile one. So the plan
// worker reads it, where owners take turns, and what a place is looked for by is kept with the job.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "common/ids.h"
#include "planner/planner.h"

namespace launch::controller {

struct SpecRecord;
struct State;

// Whether the line is so short that it may be read between any two events: it calls no file, and
// has with its environment 1 KiB at most, with which a hostile one takes a tenth of a second.
bool IsReadAtOnce(const JobSpec& spec, const std::map<std::string, std::string>& files);

// Whether the specs may be those of two elements of one array: they differ in what tells elements
// apart at most, which is for their ranks. `launch update` may have changed one of them.
bool AsksForTheSame(const JobSpec& one, const JobSpec& other);

// Only remembers: an answer is the same whether it was read before or is read now. So it is filled
// through a const State. Of one thread, as the State is. Some hundred bytes a job.
class LineMemo {
 public:
  // Of the job's spec as stored: what is kept, what an element of the same array was told that asks
  // for the same, or what is read at once. Null: somebody has to Read it.
  const Result<LineDemand>* Find(const State& state, JobId job) const;
  const Result<LineDemand>& Read(const State& state, JobId job) const;

  // Of an element of the same array whose stored spec asks for the same as `spec` and which stands
  // right before it among those that are known; null: there is none.
  const Result<LineDemand>* OfElementBefore(const State& state, const SpecRecord& spec) const;

  void Keep(JobId job, Result<LineDemand> line) { read_.insert_or_assign(job, std::move(line)); }
  void Forget(JobId job) { read_.erase(job); }  // its spec changes or goes

 private:
  mutable std::map<JobId, Result<LineDemand>> read_;
};

// Lives for one decision: bounds the long scripts that are read in it, as after a restart, when no
// worker has told what they ask for.
class LineReadings {
 public:
  // Null: enough were read. The job's turn comes in a moment, in another decision.
  const Result<LineDemand>* Of(const State& state, JobId job);
  // Whether one more may be read, which is counted.
  bool Take() {
    if (left_ == 0) return false;
    --left_;
    return true;
  }
  bool were_enough() const { return left_ == 0; }

 private:
  int left_ = 8;
};

}  // namespace launch::controller
