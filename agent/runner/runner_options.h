// What a PosixRunner is told once, when it is made.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/runner/attempt_dir.h"
#include "agent/runner/container.h"
#include "agent/runner/rank_runner.h"
#include "agent/runner/rank_stacks.h"
#include "agent/runner/staging.h"
#include "agent/runner/workdir_copy.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file_system.h"
#include "common/inventory.h"
#include "common/launch.h"

namespace launch::agent {

// The wire form of a spec, injected so that the runner links no proto.
struct SpecCodec {
  std::function<std::string(const AllocationSpec&)> serialize;
  std::function<Result<AllocationSpec>(std::string_view)> parse;
};

struct RunnerOptions {
  std::string state_dir;    // absolute, mode 0700, this agent's alone
  std::string lock_dir;     // absolute; the same for all agents of a host, so that GPU locks meet
  std::string shim_path;    // absolute path of launch-shim
  std::string cgroup_name;  // of no other node: "launch-<node>-<of its cluster>"
  std::string cgroup_root;  // directory that the allocations' cgroups go below; empty: found
  std::string kernel_log = "/dev/kmsg";
  std::optional<Containment> containment;  // not above this level; absent = the best there is
  int port_first = 20000;
  int port_last = 29999;
  std::uint64_t log_cap_bytes = std::uint64_t{4} << 30;    // of a rank, where the job says nothing
  Millis keep_logs{std::int64_t{30} * 24 * 3'600'000};     // of attempts that are forgotten
  std::uint64_t min_free_bytes = std::uint64_t{64} << 20;  // below: no new allocations
  // Bytes kept back on the state directory's disk for the records of stops and ends.
  std::uint64_t reserve_bytes = std::uint64_t{16} << 20;
  // The account that jobs of an owner run as; absent = all as this process. May ask the network.
  std::function<Result<LocalAccount>(const std::string& owner)> account_of;
  std::uint64_t nofile_limit = 1048576;
  bool no_new_privileges = true;
  SpecCodec codec;
  ToldSink told;  // from the runner's own threads
  // Newest known processes per GPU; absent = unknown (then they prove nothing). Thread-safe.
  std::function<std::optional<GpuProcessSnapshot>()> gpu_processes;
  // Asks the driver anew, so that gpu_processes soon gives a younger list. Returns at once.
  std::function<void()> ask_gpu_processes;
  // Asks one interpreter about itself, run with this environment. Blocks, with a deadline of its
  // own; `cancel` ends it.
  AskInterpreter probe_runtime;
  // The same without the import of torch, which takes long: only whether the interpreter runs.
  AskInterpreter read_runtime = {};
  // What a rank's command finds in its environment once scripts have activated it. Blocks, with a
  // deadline of its own. Absent: what the plan says.
  std::function<Result<std::vector<EnvVar>>(const RankSpec& rank,
                                            const std::optional<LocalAccount>& account)>
      environment_of = {};
  // Asks the Python of an image about itself; absent: the image is not on this node yet. Blocks,
  // with a deadline of its own. `python_words` run a program in the place of their last, empty
  // word.
  std::function<std::optional<RuntimeFacts>(const ContainerSpec& container,
                                            const ImageCommand& command,
                                            const std::optional<LocalAccount>& account)>
      probe_image = {};
  std::vector<std::string> python_words = {};
  // Tests the network between the nodes of an attempt. Blocks, with a deadline of its own; returns
  // early when `cancel` turns true.
  std::function<NetworkFacts(
      const std::string& interpreter, const AllocationSpec& spec, const to_node::NetworkTest& test,
      const std::optional<LocalAccount>& account, const std::atomic<bool>& cancel)>
      test_network;
  AskPySpy py_spy;  // blocking, with a deadline of its own
  // Fetches chunks of a copied working directory from the controller. Blocks; from any thread.
  FetchChunks fetch_chunks;
  // For tests: called by each worker thread before it does anything, as a dead file system would
  // hold it.
  std::function<void()> worker_begins;
  FileSystem* files = nullptr;  // borrowed
  Clock* clock = nullptr;       // borrowed, thread-safe
  // Time from the end of the grace until the proof that the GPUs are free is given up.
  Millis proof_time{60'000};
};

}  // namespace launch::agent
