// What must hold between any two events; tests and the simulator ask after each one.
#include <fmt/format.h>

#include "controller/core/state.h"

namespace launch::controller {
namespace {

class Violations {
 public:
  void Unless(bool holds, std::string sentence) {
    if (!holds) found_.push_back(std::move(sentence));
  }
  std::vector<std::string> Take() { return std::move(found_); }

 private:
  std::vector<std::string> found_;
};

void CheckJobs(const State& state, Violations& out) {
  for (const auto& [id, job] : state.jobs) {
    const std::string name = fmt::format("job {}", id.value);
    out.Unless(state.specs.contains(id), name + " has no spec");
    out.Unless(id.value < state.cluster.next_job, name + " is beyond the counter");
    out.Unless(state.queue.contains(id) == (job.phase == JobPhase::kQueued),
               name + ": queue index differs");
    out.Unless(state.active.contains(id) == (job.phase == JobPhase::kActive),
               name + ": active index differs");
    out.Unless(state.done.contains({job.ended, id}) == (job.phase == JobPhase::kDone),
               name + ": index of done jobs differs");
    const auto open = state.open.find(job.owner);
    out.Unless(
        (open != state.open.end() && open->second.contains(id)) == (job.phase != JobPhase::kDone),
        name + ": index of the user's jobs differs");
    if (job.array) {
      const auto array = state.arrays.find(*job.array);
      out.Unless(array != state.arrays.end() && array->second.contains(id),
                 name + ": index of its array differs");
    }
    out.Unless(job.outcome.has_value() == (job.phase == JobPhase::kDone),
               name + ": outcome and phase contradict each other");
    if (job.outcome) out.Unless(IsTerminal(*job.outcome), name + ": outcome is not terminal");
    if (job.phase == JobPhase::kActive) {
      const auto newest = state.attempts.find(Key{id, Attempt{job.attempts}});
      out.Unless(newest != state.attempts.end(), name + " is active without an attempt");
      if (newest != state.attempts.end()) {
        out.Unless(newest->second.phase != AttemptPhase::kEnded,
                   name + " is active but its attempt has ended");
        // A start that lost its plan has its cause already; what runs needs it no more.
        const bool starts = newest->second.phase == AttemptPhase::kPreparing ||
                            newest->second.phase == AttemptPhase::kLaunching;
        out.Unless(!starts || state.plans.contains(newest->first), name + " starts without a plan");
      }
    }
    out.Unless(job.keeps == 0 || (job.keeps == job.attempts && job.phase != JobPhase::kDone),
               name + " keeps the place of an attempt that is not its last");
    if (job.phase != JobPhase::kQueued) {
      out.Unless(!state.live.holds.contains(id), name + " keeps a hold outside the queue");
    }
    if (!job.cancelled_by.empty() && job.phase == JobPhase::kDone) {
      out.Unless(job.outcome == JobState::kCancelled || job.outcome == JobState::kSucceeded,
                 name + " was cancelled but ended otherwise");
    }
  }
}

void CheckAttempts(const State& state, Violations& out) {
  for (const auto& [key, attempt] : state.attempts) {
    const std::string name = "attempt " + ToString(key);
    const auto job = state.jobs.find(key.job);
    out.Unless(job != state.jobs.end(), name + " has no job");
    if (job == state.jobs.end()) continue;
    out.Unless(key.attempt.value <= job->second.attempts, name + " is above the job's counter");
    if (key.attempt.value < job->second.attempts) {
      out.Unless(attempt.phase == AttemptPhase::kEnded, name + " lives beside a newer one");
    }
    const auto allocs = state.allocs.find(key);
    out.Unless(allocs != state.allocs.end() && allocs->second.size() == attempt.nodes.size(),
               name + ": allocations and nodes differ");
    if (attempt.phase == AttemptPhase::kRunning || attempt.phase == AttemptPhase::kLaunching) {
      out.Unless(!attempt.master_address.empty(), name + " is launched without a master");
    }
  }
}

void CheckOwners(const State& state, Violations& out) {
  std::map<GpuUuid, Key> owners;
  for (const auto& [key, allocs] : state.allocs) {
    for (const auto& [node, alloc] : allocs) {
      const auto held = state.held_by_node.find(node);
      const bool indexed = held != state.held_by_node.end() && held->second.contains(key);
      out.Unless(
          indexed != IsReleased(alloc),
          fmt::format("{} on {}: index of held allocations differs", ToString(key), node.value));
      if (IsReleased(alloc)) continue;
      for (const GpuUuid& gpu : alloc.gpus) {
        const auto [owner, fresh] = owners.emplace(gpu, key);
        out.Unless(fresh, fmt::format("GPU {} has two owners, {} and {}", gpu.value,
                                      ToString(owner->second), ToString(key)));
      }
    }
  }
  out.Unless(owners == state.gpu_owner, "index of GPU owners differs from the allocations");
  std::set<GpuUuid> kept;
  for (const auto& [job, hold] : state.live.holds) {
    for (const auto& gpus : hold.gpus) {
      for (const GpuUuid& gpu : gpus) {
        out.Unless(
            !owners.contains(gpu) && kept.insert(gpu).second,
            fmt::format("GPU {} is kept for job {} although it is taken", gpu.value, job.value));
      }
    }
  }
  for (const JobId job : state.keepers) {
    const auto allocs = state.allocs.find(Key{job, Attempt{state.jobs.at(job).keeps}});
    if (state.live.holds.contains(job) || allocs == state.allocs.end()) continue;
    for (const auto& [node, alloc] : allocs->second) {
      if (!IsReleased(alloc)) continue;
      for (const GpuUuid& gpu : alloc.gpus) {
        out.Unless(!owners.contains(gpu) && kept.insert(gpu).second,
                   fmt::format("GPU {} is in the place of job {} although it is taken", gpu.value,
                               job.value));
      }
    }
  }
}

// A node that lost cores since may have one job that takes more than there are.
void CheckCores(const State& state, Violations& out) {
  struct Taken {
    int cores = 0;
    int jobs = 0;
  };
  std::map<NodeId, Taken> taken;
  const auto take = [&](const NodeId& node, int cores, JobId job) {
    if (!CountsCores(state, job)) return;
    taken[node].cores += cores;
    ++taken[node].jobs;
  };
  for (const auto& [key, allocs] : state.allocs) {
    const bool kept = state.keepers.contains(key.job) && !state.live.holds.contains(key.job) &&
                      state.jobs.at(key.job).keeps == key.attempt.value;
    for (const auto& [node, alloc] : allocs) {
      if (!IsReleased(alloc) || kept) take(node, alloc.cpus, key.job);
    }
  }
  for (const auto& [job, hold] : state.live.holds) {
    for (std::size_t i = 0; i < hold.nodes.size(); ++i) take(hold.nodes[i], hold.cpus[i], job);
  }
  for (const auto& [node, sum] : taken) {
    const NodeInventory* inventory = InventoryOf(state, node);
    if (inventory == nullptr || sum.jobs < 2) continue;
    out.Unless(sum.cores <= inventory->cores,
               fmt::format("{} jobs have {} cores of {}, which has {}", sum.jobs, sum.cores,
                           node.value, inventory->cores));
  }
}

}  // namespace

std::vector<std::string> CheckInvariants(const State& state) {
  Violations out;
  CheckJobs(state, out);
  CheckAttempts(state, out);
  CheckOwners(state, out);
  CheckCores(state, out);
  return out.Take();
}

}  // namespace launch::controller
