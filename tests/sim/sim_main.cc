// sim [--seeds N] [--from N] [--plant NAME] [--expect-caught] [--twice], or --seed N --trace.
//
// Exit 0 when no seed violates a promise (or, with --expect-caught, when one does). A failing seed
// prints the command that repeats it.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "tests/sim/sim_cluster.h"

namespace {

using launch::sim::Options;
using launch::sim::Plant;

const std::map<std::string, Plant> kPlants = {
    {"none", Plant::kNone},
    {"early-release", Plant::kEarlyRelease},
    {"lost-exit", Plant::kLostExit},
    {"effects-before-commit", Plant::kEffectsBeforeCommit},
};

struct Arguments {
  std::uint64_t from = 1;
  std::uint64_t seeds = 300;
  Options options;
  std::string plant = "none";
  bool expect_caught = false;
  bool twice = false;
};

Arguments Parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&]() -> const char* {
      if (i + 1 < argc) return argv[++i];
      std::fprintf(stderr, "%s needs a value\n", flag.c_str());
      std::exit(2);
    };
    if (flag == "--seeds") {
      arguments.seeds = std::strtoull(value(), nullptr, 10);
    } else if (flag == "--from") {
      arguments.from = std::strtoull(value(), nullptr, 10);
    } else if (flag == "--seed") {
      arguments.from = std::strtoull(value(), nullptr, 10);
      arguments.seeds = 1;
    } else if (flag == "--plant") {
      arguments.plant = value();
      const auto plant = kPlants.find(arguments.plant);
      if (plant == kPlants.end()) {
        std::fprintf(stderr, "no such bug: %s\n", arguments.plant.c_str());
        std::exit(2);
      }
      arguments.options.plant = plant->second;
    } else if (flag == "--expect-caught") {
      arguments.expect_caught = true;
    } else if (flag == "--twice") {
      arguments.twice = true;
    } else if (flag == "--trace") {
      arguments.options.trace = true;
    } else {
      std::fprintf(stderr, "unknown flag %s\n", flag.c_str());
      std::exit(2);
    }
  }
  return arguments;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments = Parse(argc, argv);
  const auto began = std::chrono::steady_clock::now();
  std::uint64_t bad = 0;
  std::uint64_t first_bad = 0;
  std::size_t jobs = 0;
  std::size_t processes = 0;
  for (std::uint64_t seed = arguments.from; seed < arguments.from + arguments.seeds; ++seed) {
    arguments.options.seed = seed;
    launch::sim::SimCluster cluster(arguments.options);
    cluster.Run();
    jobs += cluster.jobs();
    processes += cluster.world().processes.size();
    if (arguments.twice) {
      launch::sim::SimCluster again(arguments.options);
      again.Run();
      if (again.world().trace_hash != cluster.world().trace_hash) {
        std::printf("seed %llu ran differently the second time\n",
                    static_cast<unsigned long long>(seed));
        return 1;
      }
    }
    if (cluster.world().violations.empty()) continue;
    if (bad++ == 0) first_bad = seed - arguments.from + 1;
    if (arguments.expect_caught) break;
    for (const std::string& violation : cluster.world().violations) {
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), violation.c_str());
    }
    std::printf("  repeat: %s --seed %llu --plant %s --trace\n", argv[0],
                static_cast<unsigned long long>(seed), arguments.plant.c_str());
  }
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                      std::chrono::steady_clock::now() - began)
                      .count();
  if (arguments.expect_caught) {
    std::printf("planted %s: %s %llu\n", arguments.plant.c_str(),
                bad > 0 ? "caught by seed number" : "NOT caught in seeds",
                static_cast<unsigned long long>(bad > 0 ? first_bad : arguments.seeds));
    return bad > 0 ? 0 : 1;
  }
  std::printf("%llu seeds, %zu jobs, %zu ranks, %llu with violations, %lld ms\n",
              static_cast<unsigned long long>(arguments.seeds), jobs, processes,
              static_cast<unsigned long long>(bad), static_cast<long long>(ms));
  return bad == 0 ? 0 : 1;
}
