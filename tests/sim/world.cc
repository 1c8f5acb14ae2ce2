#include "tests/sim/world.h"

#include <algorithm>
#include <cstdio>

namespace launch::sim {

void World::At(std::int64_t delay_ms, std::function<void()> run) {
  queue_.emplace(std::pair(now + std::max<std::int64_t>(delay_ms, 0), ++sequence_), std::move(run));
}

bool World::Step() {
  if (queue_.empty()) return false;
  const auto first = queue_.begin();
  now = first->first.first;
  const std::function<void()> run = std::move(first->second);
  queue_.erase(first);
  run();
  return true;
}

void World::Arm(const Fault& fault) { armed_.push_back({fault, fault.amount}); }

bool World::Pass(const std::string& who, const std::string& point) {
  const std::string name = (who.empty() ? "controller " : "agent ") + point;
  ++coverage.crash_points[name];
  for (auto armed = armed_.begin(); armed != armed_.end(); ++armed) {
    if (armed->fault.node != who || armed->fault.point != point || --armed->left > 0) continue;
    Trace("dies at " + name);
    ++coverage.crashes[name];
    armed_.erase(armed);
    return true;
  }
  return false;
}

// Without GPUs that could be held nothing durable tells of an attempt that the store does not know:
// when its node is cut off, and the controller started again, its job may begin after half a
// minute.
bool World::IsUnguardedByStore(const Process& process) const {
  return process.unknown && process.gpus.empty() && !was_heard(process.node);
}

void World::Began(Process process) {
  const std::string who = "rank " + std::to_string(process.rank) + " of " + ToString(process.key);
  process.excused = IsFenced(process);
  process.unknown = went_back_ && !attempts_.contains(process.key);
  for (const Process& other : processes) {
    if (other.ended) continue;
    if (other.key.job == process.key.job && !process.excused && other.rank == process.rank &&
        !other.killed && !other.excused && !IsFenced(other) && !IsUnguardedByStore(other)) {
      Violation("C2 " + who + " starts while it runs on " + other.node.value);
    }
    if (other.key.job == process.key.job) continue;
    for (const GpuUuid& gpu : process.gpus) {
      if (std::find(other.gpus.begin(), other.gpus.end(), gpu) != other.gpus.end()) {
        Violation("C2 GPU " + gpu.value + " is used by " + ToString(other.key) + " and " +
                  ToString(process.key));
      }
    }
  }
  // A Go that was on its way when the cancel was committed is overtaken by its Stop; no other may
  // be.
  if (const auto cancel = cancelled.find(process.key.job); cancel != cancelled.end()) {
    const auto go = go_sent.find({process.key, process.node});
    if (go == go_sent.end() || go->second > cancel->second) {
      Violation("C1 " + who + " starts after its cancel was acknowledged");
    }
  }
  if (given_up_.contains({process.key, process.rank}) && !process.excused) {
    Violation("C12 " + who + " starts on " + process.node.value + " after its end was recorded");
  }
  Trace("begin " + who + " on " + process.node.value);
  process.began = now;
  processes.push_back(std::move(process));
}

void World::Ended(std::size_t process, ExitCause cause) {
  Process& it = processes[process];
  it.ended = now;
  it.cause = std::move(cause);
  Trace("end rank " + std::to_string(it.rank) + " of " + ToString(it.key) + ": " +
        Describe(it.cause));
}

std::vector<std::size_t> World::AliveOf(const NodeId& node, const Key& key) const {
  std::vector<std::size_t> alive;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    if (!processes[i].ended && processes[i].node == node && processes[i].key == key) {
      alive.push_back(i);
    }
  }
  return alive;
}

void World::Violation(std::string what) {
  Trace("VIOLATION " + what);
  violations.push_back(std::move(what));
}

void World::Trace(const std::string& line) {
  const std::string full = std::to_string(now) + " " + line;
  for (const char c : full) {
    trace_hash = (trace_hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  if (options.trace) std::printf("%s\n", full.c_str());
}

}  // namespace launch::sim
