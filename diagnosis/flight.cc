#include "diagnosis/flight.h"

#include <algorithm>

#include "diagnosis/bounded_pattern.h"
#include "diagnosis/labels.h"

namespace launch {
namespace {

constexpr std::string_view kOfAll = "0";  // torch counts process groups as they are made

std::vector<FlightOfRank> FlightsOf(const std::vector<Verdict>& verdicts) {
  std::vector<FlightOfRank> flights;
  for (const Verdict& verdict : verdicts) {
    for (const std::string& line : verdict.evidence) {
      auto flight = ReadFlightLine(line);
      if (!flight || flight->group.id != kOfAll) continue;
      const bool known = std::ranges::any_of(
          flights, [&](const FlightOfRank& one) { return one.rank == flight->rank; });
      if (!known) flights.push_back(std::move(*flight));
    }
  }
  std::ranges::sort(flights, {}, &FlightOfRank::rank);
  return flights;
}

std::string CallText(const FlightGroup& group) {
  return group.call + (group.at.empty() ? "" : " at " + group.at);
}

std::string RankText(const FlightOfRank& flight) { return "rank " + std::to_string(flight.rank); }

struct Told {
  Rank rank = 0;  // who is behind, or the second of those that differ
  std::string cause;
  bool of_program = false;
};

// The collective in which most wait is no argument: numbers are, as each rank counts its own.
std::optional<Told> Tell(const std::vector<FlightOfRank>& flights) {
  const FlightOfRank* ahead = nullptr;
  for (const FlightOfRank& one : flights) {
    if (one.group.waits_in == 0) continue;
    if (ahead == nullptr || one.group.waits_in > ahead->group.waits_in) ahead = &one;
  }
  if (ahead == nullptr) return std::nullopt;
  const std::string number = std::to_string(ahead->group.waits_in);
  const auto behind = std::ranges::min_element(
      flights, {}, [](const FlightOfRank& one) { return one.group.entered; });
  if (behind->group.entered < ahead->group.waits_in) {
    return Told{behind->rank, "A collective timed out: " + RankText(*behind) +
                                  " is behind: it never entered collective number " + number +
                                  ", in which " + RankText(*ahead) + " waits (" +
                                  CallText(ahead->group) + "); it came to number " +
                                  std::to_string(behind->group.entered)};
  }
  for (const FlightOfRank& one : flights) {
    if (one.group.waits_in != ahead->group.waits_in || one.group.call == ahead->group.call)
      continue;
    const FlightOfRank& first = one.rank < ahead->rank ? one : *ahead;
    const FlightOfRank& second = one.rank < ahead->rank ? *ahead : one;
    return Told{second.rank,
                "R" + RankText(first).substr(1) + " waits in " + CallText(first.group) + " and " +
                    RankText(second) + " in " + CallText(second.group) +
                    ", both in collective number " + number +
                    ": the program does not make the same collectives on every rank",
                true};
  }
  return std::nullopt;
}

}  // namespace

std::optional<FlightOfRank> ReadFlightLine(const std::string& line) {
  static const BoundedPattern pattern(
      R"(^flight recorder: rank (\d{1,7}) in group (\S+)(?: \((.*?)\))? completed (-?\d{1,18}), )"
      R"(entered (\d{1,18})(?:, waits in (\d{1,18}): (\S*)(?: at (.*))?)?$)");
  FlightOfRank flight;
  std::string number;
  if (!RE2::FullMatch(line, pattern, &flight.rank, &flight.group.id, &flight.group.name,
                      &flight.group.completed, &flight.group.entered, &number, &flight.group.call,
                      &flight.group.at)) {
    return std::nullopt;
  }
  if (!number.empty()) flight.group.waits_in = std::stoll(number);
  return flight;
}

void TellFlight(std::vector<Verdict>& verdicts) {
  const auto told = Tell(FlightsOf(verdicts));
  if (!told) return;
  const auto of = std::ranges::find_if(
      verdicts, [&](const Verdict& verdict) { return verdict.rank == told->rank; });
  const std::optional<NodeId> node = of == verdicts.end() ? std::nullopt : of->node;
  for (Verdict& verdict : verdicts) {
    if (verdict.label != "nccl_timeout") continue;
    verdict.cause = told->cause;
    verdict.confidence = Confidence::kConfirmed;
    verdict.rank = told->rank;
    verdict.node = node;
    if (told->of_program) {
      const LabelInfo& info = LabelInfoOf("collective_mismatch");
      verdict.action = info.action;
      verdict.remedy = info.remedy;
      continue;
    }
    verdict.remedy = "launch logs JOB --rank " + std::to_string(told->rank) +
                     "   # what it was doing instead; hang: {after: 2m} takes the stacks of all "
                     "ranks before the timeout";
  }
}

}  // namespace launch
