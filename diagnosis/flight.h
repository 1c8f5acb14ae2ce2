// What the flight recorders of several ranks tell together (common/flight_record.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/diagnosis.h"
#include "common/flight_record.h"

namespace launch {

struct FlightOfRank {
  Rank rank = 0;
  FlightGroup group;
  friend bool operator==(const FlightOfRank&, const FlightOfRank&) = default;
};

// Reads a line that FlightLine wrote; absent for any other.
std::optional<FlightOfRank> ReadFlightLine(const std::string& line);

// Where a collective timed out and the flight recorder's lines among the evidence show it, names
// the rank that never came to the collective in which others wait, or two ranks that wait in
// different calls of the same number. Only for the group of all ranks: equal numbers of other
// groups need not belong to one group.
void TellFlight(std::vector<Verdict>& verdicts);

}  // namespace launch
