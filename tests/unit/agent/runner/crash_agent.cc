// One life of an agent for crash_test: accept, start, wait, stop, acknowledge, forget.
//   crash_agent DIRECTORY CGROUP_NAME     exits 0 when it lived through all of it
#include "tests/unit/agent/runner/crash_spec.h"

namespace launch::agent {
namespace {

int Live(int argc, char** argv) {
  if (argc != 3) return 8;
  RunnerBench bench(argv[1], argv[2]);
  bench.Open();
  if (!bench.Run(CrashSpec(bench))) return 1;
  for (const Rank rank : {0, 1}) {
    if (!bench.AwaitEnd(kCrashKey, rank)) return 2;
  }
  if (!bench.Stop(kCrashKey, Millis{0})) return 3;
  bench.runner().NoteAcked({kCrashKey, 0});
  bench.runner().Forget({kCrashKey});
  bench.Kill();
  return 0;
}

}  // namespace
}  // namespace launch::agent

int main(int argc, char** argv) { return launch::agent::Live(argc, argv); }
