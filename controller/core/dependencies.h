// What a waiting job waits for: other jobs, a time. Pure looks at the state.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "controller/core/state.h"

namespace launch::controller {

struct DependencyLook {
  std::string waits;  // what is missing, with evidence; empty: nothing
  std::string never;  // why it can never be met; empty: it can
};

// Looks at one state. Many jobs wait for the same ones, as the elements of an array do: what was
// looked at once is known.
class DependencyLooks {
 public:
  explicit DependencyLooks(const State& state) : state_(state) {}

  DependencyLook Of(const JobRecord& job);

 private:
  // The elements of an array by index; empty when there is no such array.
  const std::map<int, const JobRecord*>& ByIndex(JobId array);
  const DependencyLook& At(const JobRecord& job, const Dependency& on);
  DependencyLook Twins(const JobRecord& job, const Dependency& on);

  const State& state_;
  std::map<std::tuple<DependencyKind, JobId, int>, DependencyLook> known_;
  std::map<JobId, std::map<int, const JobRecord*>> by_index_;
  std::map<UserName, std::map<std::string, JobId>> oldest_;  // open job of each name
};

// Checks that this cluster knows every job that `depends_on` names (kInvalidArgument), and that
// what is asked of them can still come true (kCannotFit).
Result<void> CheckDependencies(const State& state, const JobSpec& spec);

}  // namespace launch::controller
