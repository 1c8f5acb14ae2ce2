// What the runs reached: (state, event) cells, crash points, events. A simulator that never gets
// anywhere finds nothing either, so CI holds a floor of these.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace launch::sim {

struct Coverage {
  std::map<std::string, std::uint64_t> agent_cells;       // "phase x message"
  std::map<std::string, std::uint64_t> controller_cells;  // "phase of the attempt x event"
  std::map<std::string, std::uint64_t> crash_points;      // passes
  std::map<std::string, std::uint64_t> crashes;           // of these, the process died there
  std::map<std::string, std::uint64_t> faults;            // carried out
  std::map<std::string, std::uint64_t> acts;              // of people, answered
  std::uint64_t events = 0;                               // of both cores
  std::uint64_t commits = 0;

  void Add(const Coverage& other);
};

struct Floor {
  std::size_t agent_cells = 0;
  std::size_t controller_cells = 0;
  std::size_t crash_points = 0;     // at which processes died
  std::uint64_t deaths_at_one = 1;  // for a crash point to count
  std::size_t acts = 0;             // kinds of them that were obeyed
  std::uint64_t times_of_one = 1;   // for an act to count
  std::uint64_t events_of_a_run = 0;
};

void Print(const Coverage& coverage, std::uint64_t runs);
// False, with a line on stderr for each, when the runs stayed below the floor.
bool Holds(const Coverage& coverage, std::uint64_t runs, const Floor& floor);

}  // namespace launch::sim
