#include "agent/end_attempts.h"

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "agent/link/identity_files.h"
#include "agent/runner/posix_runner.h"
#include "common/clock.h"
#include "common/file_system.h"
#include "common/mailbox.h"
#include "proto/convert_node.h"

namespace launch::agent {
namespace {

constexpr Millis kProofTime{20'000};
constexpr int kWaitMs = 100;

// What a runner says of the end of one attempt; absent: something else.
std::optional<EndedAttempt> EndIn(const Told& event) {
  if (const auto* done = std::get_if<told::StopDone>(&event))
    return EndedAttempt{done->key, done->held.empty() ? "" : done->held.front().second};
  const auto* notice = std::get_if<told::NodeNotice>(&event);
  if (notice == nullptr || notice->notice.kind != "node.stop_stuck" || !notice->notice.key)
    return std::nullopt;
  return EndedAttempt{*notice->notice.key, notice->notice.text};
}

}  // namespace

Result<std::vector<EndedAttempt>> EndAttempts(const AgentConfig& config) {
  SystemClock clock;
  PosixFileSystem files;
  const auto joined = ReadJoined(files, config.state_dir);
  const NodeId node = joined ? joined->node : config.node;
  Mailbox<Told> mailbox(1024);
  RunnerOptions options;
  options.state_dir = config.state_dir;
  options.lock_dir = config.lock_dir;
  options.cgroup_name = CgroupName(node, joined ? joined->install_id : "none");
  options.cgroup_root = config.cgroup_root;
  options.keep_logs = config.keep_logs;
  options.codec = {.serialize = SerializeSpec, .parse = ParseSpec};
  options.told = [&mailbox](Told event) { mailbox.PushAlways(std::move(event)); };
  options.files = &files;
  options.clock = &clock;
  options.proof_time = kProofTime;
  PosixRunner runner(std::move(options));
  const CgroupHost& cgroups = runner.cgroups();
  if (cgroups.level != Containment::kTree && !cgroups.claim)
    return Fail(ErrorCode::kConflict,
                "an agent of node " + node.value + " runs: " + cgroups.kill_root + " is in use",
                "stop that agent first; the attempts are its own");
  LAUNCH_ASSIGN_OR_RETURN(const RunnerState found, runner.Recover());
  std::set<Key> left;
  for (const FoundAllocation& allocation : found.allocations) {
    if (!allocation.alive) continue;
    runner.Stop({.key = allocation.status.key,
                 .cause = StopCause::kStale,
                 .grace = Millis{0},
                 .at_once = true});
    left.insert(allocation.status.key);
  }
  std::map<Key, std::string> ended;  // and what is left
  const BootTime until = clock.Now() + kProofTime + Millis{5'000};
  while (!left.empty() && clock.Now() < until) {
    for (const Told& event : mailbox.TakeBatch(64, kWaitMs)) {
      auto end = EndIn(event);
      if (end && left.erase(end->key) > 0) ended[end->key] = std::move(end->left);
    }
  }
  if (!left.empty())
    return Fail(ErrorCode::kDeadlineExceeded,
                "attempts below " + config.state_dir + " did not end in time");
  RemoveEmptyRoots(runner.cgroups());
  std::vector<EndedAttempt> all;
  for (auto& [key, why] : ended) all.push_back({key, std::move(why)});
  return all;
}

}  // namespace launch::agent
