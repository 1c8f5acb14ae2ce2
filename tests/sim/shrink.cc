#include "tests/sim/shrink.h"

#include <vector>

#include "tests/sim/sim_cluster.h"

namespace launch::sim {
namespace {

using Kept = std::set<std::size_t>;

class Search {
 public:
  Search(std::uint64_t seed, const Schedule& all, std::string checker, int budget)
      : seed_(seed), all_(all), checker_(std::move(checker)), budget_(budget) {}

  // The violation of the same checker when only these happen, or empty.
  std::string Fails(const Kept& jobs, const Kept& faults) {
    if (runs >= budget_) return {};
    ++runs;
    SimCluster cluster({seed_, Keep(all_, jobs, faults), false});
    cluster.Run();
    for (const std::string& violation : cluster.world().violations) {
      if (CheckerOf(violation) == checker_) return violation;
    }
    return {};
  }

  int runs = 0;

 private:
  const std::uint64_t seed_;
  const Schedule& all_;
  const std::string checker_;
  const int budget_;
};

// Takes away parts, halves first, as long as it still fails without them (Zeller's ddmin, without
// its complements of single parts).
template <class StillFails>
Kept Reduce(Kept kept, StillFails still_fails) {
  for (std::size_t part = (kept.size() + 1) / 2; part >= 1; part = part == 1 ? 0 : (part + 1) / 2) {
    std::vector<std::size_t> order(kept.begin(), kept.end());
    for (std::size_t begin = 0; begin < order.size(); begin += part) {
      Kept less = kept;
      for (std::size_t i = begin; i < std::min(begin + part, order.size()); ++i) {
        less.erase(order[i]);
      }
      if (less.size() < kept.size() && still_fails(less)) kept = less;
    }
  }
  return kept;
}

Kept AllOf(std::size_t count) {
  Kept kept;
  for (std::size_t i = 0; i < count; ++i) kept.insert(i);
  return kept;
}

}  // namespace

std::string CheckerOf(const std::string& violation) {
  return violation.substr(0, violation.find(' '));
}

Shrunk Shrink(std::uint64_t seed, const Schedule& all, const std::string& checker, int budget) {
  Search search(seed, all, checker, budget);
  Shrunk shrunk{AllOf(all.jobs.size()), AllOf(all.faults.size()), "", 0};
  const auto fails = [&](const Kept& jobs, const Kept& faults) {
    std::string violation = search.Fails(jobs, faults);
    if (violation.empty()) return false;
    shrunk.violation = std::move(violation);
    return true;
  };
  for (int round = 0; round < 3; ++round) {
    const std::size_t before = shrunk.faults.size() + shrunk.jobs.size();
    shrunk.faults =
        Reduce(shrunk.faults, [&](const Kept& faults) { return fails(shrunk.jobs, faults); });
    shrunk.jobs = Reduce(shrunk.jobs, [&](const Kept& jobs) { return fails(jobs, shrunk.faults); });
    if (shrunk.faults.size() + shrunk.jobs.size() == before) break;
  }
  shrunk.runs = search.runs;
  return shrunk;
}

}  // namespace launch::sim
