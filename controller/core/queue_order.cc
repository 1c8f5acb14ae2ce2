#include "controller/core/queue_order.h"

#include <algorithm>
#include <tuple>

namespace launch::controller {

std::vector<JobId> QueueOrder(const State& state) {
  std::vector<std::tuple<bool, int, JobId>> keyed;  // what is most urgent is the least
  keyed.reserve(state.queue.size());
  for (const JobId id : state.queue) {
    keyed.emplace_back(!state.keepers.contains(id), -state.specs.at(id).spec.priority, id);
  }
  std::sort(keyed.begin(), keyed.end());
  std::vector<JobId> order;
  order.reserve(keyed.size());
  for (const auto& [moves, urgency, id] : keyed) order.push_back(id);
  return order;
}

}  // namespace launch::controller
