// sim [--seeds N] [--from N] [--twice] [--cells] [--floor] [--replay FILE]...
// sim --seed N [--jobs 0,2] [--faults 1,4] [--trace]       one run, or a part of its schedule;
//     --history prints that part instead, as --replay reads it
// sim_mutants --plant NAME --expect-caught [--seeds N]     a bug planted on purpose must be found
//
// Exit 0 when no run violates a promise (or, with --expect-caught, when one does). A failing seed
// is cut down to the shortest history found, with the command that repeats it exactly.
#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "common/planted.h"
#include "tests/sim/shrink.h"
#include "tests/sim/sim_cluster.h"

namespace launch::sim {
namespace {

using Positions = std::optional<std::set<std::size_t>>;

// What CI's runs must reach; raise it when they reach more.
constexpr Floor kFloor{.agent_cells = 56,
                       .controller_cells = 68,
                       .crash_points = 27,
                       .deaths_at_one = 3,
                       .acts = 16,
                       .times_of_one = 20,
                       .events_of_a_run = 1'500};
constexpr int kShrinkBudget = 400;  // runs

const std::map<std::string, Bug> kBugs = {
    {"unsynced-store", Bug::kUnsyncedStore},
    {"effects-before-commit", Bug::kEffectsBeforeCommit},
    {"unsynced-accept", Bug::kUnsyncedAccept},
    {"reused-attempt", Bug::kReusedAttempt},
    {"ack-without-record", Bug::kAckWithoutRecord},
    {"remembered-pid", Bug::kRememberedPid},
    {"early-release", Bug::kEarlyRelease},
    {"release-at-exit", Bug::kReleaseAtExit},
    {"silent-is-dead", Bug::kSilentIsDead},
    {"unchecked-restart", Bug::kUncheckedRestart},
    {"lost-exit", Bug::kLostExit},
    {"old-cancel", Bug::kOldCancel},
    {"kept-directory", Bug::kKeptDirectory},
    {"forgotten-quarantine", Bug::kForgottenQuarantine},
    {"forgotten-cancel", Bug::kForgottenCancel},
    {"double-submit", Bug::kDoubleSubmit},
    {"wall-time-limit", Bug::kWallTimeLimit},
    {"lease-by-wall", Bug::kLeaseByWall},
    {"lease-from-pong", Bug::kLeaseFromPong},
    {"lease-of-agent", Bug::kLeaseOfAgent},
    {"lease-of-shim", Bug::kLeaseOfShim},
    {"offered-place", Bug::kOfferedPlace},
    {"drained-offer", Bug::kDrainedOffer},
    {"forget-held", Bug::kForgetHeld},
    {"restore-beside", Bug::kRestoreBeside},
    {"regress-taken", Bug::kRegressTaken},
};

struct Arguments {
  std::uint64_t from = 1;
  std::uint64_t seeds = 300;
  Positions jobs, faults;
  std::string plant;
  std::vector<std::string> replay;  // files
  bool expect_caught = false;
  bool twice = false;
  bool trace = false;
  bool cells = false;
  bool floor = false;
  bool history = false;
};

std::uint64_t running_seed = 0;

// A broken invariant of the product ends the process: say in which run.
void OnAbort(int) {
  char text[64];
  const int length = std::snprintf(text, sizeof text, "  in seed %llu\n",
                                   static_cast<unsigned long long>(running_seed));
  (void)!::write(2, text, static_cast<std::size_t>(length));
}

[[noreturn]] void Usage(const std::string& what) {
  std::fprintf(stderr, "sim: %s\n", what.c_str());
  std::exit(2);
}

Positions ParsePositions(const std::string& text) {
  std::set<std::size_t> positions;
  std::istringstream in(text == "none" ? "" : text);
  for (std::string number; std::getline(in, number, ',');) {
    positions.insert(std::strtoull(number.c_str(), nullptr, 10));
  }
  return positions;
}

std::string Text(const std::set<std::size_t>& positions) {
  std::string text;
  for (const std::size_t position : positions) {
    text += (text.empty() ? "" : ",") + std::to_string(position);
  }
  return text.empty() ? "none" : text;
}

Arguments ReadArguments(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&]() -> std::string {
      if (i + 1 >= argc) Usage(flag + " needs a value");
      return argv[++i];
    };
    if (flag == "--seeds") {
      arguments.seeds = std::strtoull(value().c_str(), nullptr, 10);
    } else if (flag == "--from") {
      arguments.from = std::strtoull(value().c_str(), nullptr, 10);
    } else if (flag == "--seed") {
      arguments.from = std::strtoull(value().c_str(), nullptr, 10);
      arguments.seeds = 1;
    } else if (flag == "--jobs") {
      arguments.jobs = ParsePositions(value());
    } else if (flag == "--faults") {
      arguments.faults = ParsePositions(value());
    } else if (flag == "--plant") {
      arguments.plant = value();
      if (!kBugs.contains(arguments.plant)) Usage("no such bug: " + arguments.plant);
    } else if (flag == "--replay") {
      arguments.replay.push_back(value());
    } else if (flag == "--expect-caught") {
      arguments.expect_caught = true;
    } else if (flag == "--twice") {
      arguments.twice = true;
    } else if (flag == "--trace") {
      arguments.trace = true;
    } else if (flag == "--cells") {
      arguments.cells = true;
    } else if (flag == "--floor") {
      arguments.floor = true;
    } else if (flag == "--history") {
      arguments.history = true;
    } else {
      Usage("unknown flag " + flag);
    }
  }
  return arguments;
}

void PlantBug(const std::string& name) {
#ifdef LAUNCH_PLANTED_BUGS
  if (!name.empty()) planted_bug = kBugs.at(name);
#else
  if (!name.empty()) Usage("bugs are planted in sim_mutants only; this is the product as it is");
#endif
}

struct Totals {
  std::uint64_t runs = 0;
  std::uint64_t bad = 0;
  std::uint64_t first_bad = 0;  // counted from 1
  std::size_t jobs = 0;
  std::size_t ranks = 0;
  Coverage coverage;
};

void ExplainShortest(const std::string& program, std::uint64_t seed, const Arguments& arguments,
                     const std::string& violation) {
  const Schedule all = Draw(seed, SimNodes());
  if (arguments.jobs || arguments.faults) return;  // it is a part already
  const Shrunk shrunk = Shrink(seed, all, CheckerOf(violation), kShrinkBudget);
  std::printf("  shortest history found in %d runs:\n", shrunk.runs);
  for (const std::size_t job : shrunk.jobs)
    std::printf("    %s\n", Describe(all.jobs[job]).c_str());
  for (const std::size_t fault : shrunk.faults) {
    std::printf("    %s\n", Describe(all.faults[fault]).c_str());
  }
  if (!shrunk.violation.empty()) std::printf("    -> %s\n", shrunk.violation.c_str());
  std::printf("  to keep it, as a file of tests/sim/regressions:\n%s",
              Format({seed, Keep(all, shrunk.jobs, shrunk.faults)}).c_str());
  std::printf("  repeat: %s --seed %llu --jobs %s --faults %s%s%s --trace\n", program.c_str(),
              static_cast<unsigned long long>(seed), Text(shrunk.jobs).c_str(),
              Text(shrunk.faults).c_str(), arguments.plant.empty() ? "" : " --plant ",
              arguments.plant.c_str());
}

// False: stop here.
bool RunOne(const std::string& program, std::uint64_t seed, const Schedule& schedule,
            const Arguments& arguments, Totals& totals) {
  running_seed = seed;
  SimCluster cluster({seed, schedule, arguments.trace});
  cluster.Run();
  World& world = cluster.world();
  ++totals.runs;
  totals.jobs += schedule.jobs.size();
  totals.ranks += world.processes.size();
  totals.coverage.Add(world.coverage);
  if (arguments.twice) {
    SimCluster again({seed, schedule, false});
    again.Run();
    if (again.world().trace_hash != world.trace_hash) {
      world.Violation("C0 the same seed ran differently the second time");
    }
  }
  if (world.violations.empty()) return true;
  if (totals.bad++ == 0) totals.first_bad = totals.runs;
  if (arguments.expect_caught) {
    std::printf("%s\n", world.violations.front().c_str());
    return false;
  }
  for (const std::string& violation : world.violations) {
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), violation.c_str());
  }
  if (arguments.replay.empty()) {
    ExplainShortest(program, seed, arguments, world.violations.front());
  }
  std::fflush(stdout);
  return true;
}

// A history that once broke a promise, as Format wrote it.
void Replay(const std::string& program, const std::string& path, const Arguments& arguments,
            Totals& totals) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  const std::optional<History> history = ParseHistory(text.str());
  if (!file || !history) Usage(path + " is not a history");
  RunOne(program, history->seed, history->schedule, arguments, totals);
}

int Main(int argc, char** argv) {
  const Arguments arguments = ReadArguments(argc, argv);
  PlantBug(arguments.plant);
  spdlog::set_level(spdlog::level::off);
  ::signal(SIGABRT, OnAbort);
  const auto began = std::chrono::steady_clock::now();
  Totals totals;
  if (!arguments.replay.empty()) {
    for (const std::string& path : arguments.replay) Replay(argv[0], path, arguments, totals);
  } else {
    for (std::uint64_t seed = arguments.from; seed < arguments.from + arguments.seeds; ++seed) {
      if (arguments.history) {
        const Schedule all = Draw(seed, SimNodes());
        std::printf("%s", Format({seed, Keep(all, arguments.jobs, arguments.faults)}).c_str());
        continue;
      }
      const Schedule schedule = Keep(Draw(seed, SimNodes()), arguments.jobs, arguments.faults);
      if (!RunOne(argv[0], seed, schedule, arguments, totals)) break;
    }
  }
  if (arguments.history) return 0;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                      std::chrono::steady_clock::now() - began)
                      .count();
  if (arguments.expect_caught) {
    std::printf("planted %s: %s %llu\n", arguments.plant.c_str(),
                totals.bad > 0 ? "caught by seed number" : "NOT caught in seeds",
                static_cast<unsigned long long>(totals.bad > 0 ? totals.first_bad : totals.runs));
    return totals.bad > 0 ? 0 : 1;
  }
  if (arguments.cells) Print(totals.coverage, totals.runs);
  std::printf(
      "%llu runs, %zu jobs, %zu ranks, %llu events, %zu + %zu cells, deaths at %zu crash points, "
      "%llu with violations, %lld ms\n",
      static_cast<unsigned long long>(totals.runs), totals.jobs, totals.ranks,
      static_cast<unsigned long long>(totals.coverage.events), totals.coverage.agent_cells.size(),
      totals.coverage.controller_cells.size(), totals.coverage.crashes.size(),
      static_cast<unsigned long long>(totals.bad), static_cast<long long>(ms));
  const bool reached = !arguments.floor || Holds(totals.coverage, arguments.seeds, kFloor);
  return totals.bad == 0 && reached ? 0 : 1;
}

}  // namespace
}  // namespace launch::sim

int main(int argc, char** argv) { return launch::sim::Main(argc, argv); }
