#include "tests/sim/coverage.h"

#include <algorithm>
#include <cstdio>

namespace launch::sim {
namespace {

using Counts = std::map<std::string, std::uint64_t>;

void AddTo(Counts& sum, const Counts& other) {
  for (const auto& [name, count] : other) sum[name] += count;
}

void PrintTable(const char* title, const Counts& counts) {
  std::printf("%s (%zu):\n", title, counts.size());
  for (const auto& [name, count] : counts) {
    std::printf("  %-48s %llu\n", name.c_str(), static_cast<unsigned long long>(count));
  }
}

bool Reaches(const char* what, std::size_t reached, std::size_t floor) {
  if (reached >= floor) return true;
  std::fprintf(stderr, "only %zu %s were reached, the floor is %zu\n", reached, what, floor);
  return false;
}

}  // namespace

void Coverage::Add(const Coverage& other) {
  AddTo(agent_cells, other.agent_cells);
  AddTo(controller_cells, other.controller_cells);
  AddTo(crash_points, other.crash_points);
  AddTo(crashes, other.crashes);
  AddTo(faults, other.faults);
  AddTo(acts, other.acts);
  events += other.events;
  commits += other.commits;
}

void Print(const Coverage& coverage, std::uint64_t runs) {
  PrintTable("cells of the agent, phase x message", coverage.agent_cells);
  PrintTable("cells of the controller, attempt x event", coverage.controller_cells);
  PrintTable("passes of crash points", coverage.crash_points);
  PrintTable("deaths at crash points", coverage.crashes);
  PrintTable("faults", coverage.faults);
  PrintTable("acts", coverage.acts);
  std::printf("%llu events and %llu commits a run\n",
              static_cast<unsigned long long>(coverage.events / (runs > 0 ? runs : 1)),
              static_cast<unsigned long long>(coverage.commits / (runs > 0 ? runs : 1)));
}

bool Holds(const Coverage& coverage, std::uint64_t runs, const Floor& floor) {
  const bool agent = Reaches("cells of the agent", coverage.agent_cells.size(), floor.agent_cells);
  const bool controller =
      Reaches("cells of the controller", coverage.controller_cells.size(), floor.controller_cells);
  const auto often = std::ranges::count_if(
      coverage.crashes, [&](const auto& point) { return point.second >= floor.deaths_at_one; });
  const bool points = Reaches("crash points", static_cast<std::size_t>(often), floor.crash_points);
  const auto obeyed = std::ranges::count_if(coverage.acts, [&](const auto& act) {
    return act.second >= floor.times_of_one && !act.first.ends_with(" refused");
  });
  const bool acts = Reaches("kinds of acts", static_cast<std::size_t>(obeyed), floor.acts);
  const bool events = Reaches("events of a run", coverage.events / std::max<std::uint64_t>(runs, 1),
                              floor.events_of_a_run);
  return agent && controller && points && acts && events;
}

}  // namespace launch::sim
