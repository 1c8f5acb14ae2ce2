// The simulated world: time, what is really running where, and what must never be seen there.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/launch.h"
#include "controller/core/record.h"
#include "tests/sim/rng.h"

namespace launch::sim {

// Bugs that the simulator can plant in its own runner, disk and loop; the checkers must find each.
enum class Plant { kNone, kEarlyRelease, kLostExit, kEffectsBeforeCommit };

struct Options {
  std::uint64_t seed = 1;
  Plant plant = Plant::kNone;
  bool trace = false;
};

// One rank as it really ran. `cause` is what the kernel would say.
struct Process {
  Key key;
  Rank rank = 0;
  NodeId node;
  std::vector<GpuUuid> gpus;
  std::optional<std::int64_t> ended;
  ExitCause cause;
  bool killed = false;          // SIGKILL is pending: it executes no more of its code, but holds on
  bool lost_with_node = false;  // the node went down: nobody can know how it ended
};

class World {
 public:
  explicit World(const Options& chosen) : options(chosen) {}

  // ---- time: one queue of events, in order of time, then of arrival ----
  void At(std::int64_t delay_ms, std::function<void()> run);
  bool Step();  // false when nothing is left
  std::int64_t now = 0;

  // ---- the ground truth ----
  std::vector<Process> processes;
  void Began(Process process);  // C2: no rank twice, no GPU for two jobs
  bool IsAlive(std::size_t process) const { return !processes[process].ended; }
  void Ended(std::size_t process, ExitCause cause);
  std::vector<std::size_t> AliveOf(const NodeId& node, const Key& key) const;

  // ---- what was promised ----
  std::map<std::string, JobId> submitted;   // by idempotency key, once acknowledged
  std::map<JobId, std::int64_t> cancelled;  // time of the commit of an acknowledged cancel
  std::map<std::pair<Key, NodeId>, std::int64_t> go_sent;
  std::set<NodeId> rebooted;

  // Checkers of what the controller makes durable: C1, C3, C4, C5.
  void Committed(const controller::Entity& entity, const std::set<GpuUuid>& quarantined);
  // At the end, when all is healed and quiet.
  void CheckEnd(const std::map<std::string, controller::Entity>& durable);

  void Violation(std::string what);
  void Trace(const std::string& line);
  std::uint64_t trace_hash = 0xcbf29ce484222325ULL;
  std::vector<std::string> violations;
  const Options options;

 private:
  std::map<std::pair<std::int64_t, std::uint64_t>, std::function<void()>> queue_;
  std::uint64_t sequence_ = 0;
  std::map<JobId, controller::JobRecord> jobs_;  // last committed
  std::map<std::string, JobId> keys_;
};

}  // namespace launch::sim
