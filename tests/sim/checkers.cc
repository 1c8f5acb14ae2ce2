// The checkers of reliability: they look at what really ran, never at the controller's opinion.
//
//   C1 history    acknowledged submits and cancels are there at the end; one key, one job
//   C2 overlap    (world.cc) no rank twice, no GPU for two jobs
//   C3 processes  none alive when its job is done; none signalled without a decision
//   C4 truth      recorded ends are what the kernel said; none is lost
//   C5 monotone   attempts, outcomes, what nodes accepted
//   C6 agreement  (sim_cluster.cc) memory = store; invariants
//   C7 signals    only processes of the attempt that is stopped
//   C8 bounds     (sim_cluster.cc, network.cc) queues
//   C9 progress   everything ends once all is healed
//   C12 silence   alone stops nothing, gives up nothing
//   C15 people    what is held does not start, nothing new starts on a drained node
//   C14 place     nothing else runs there between two attempts of a job that restarts in place
#include <algorithm>
#include <utility>

#include "controller/core/state.h"
#include "tests/sim/world.h"

namespace launch::sim {

using controller::AttemptPhase;
using controller::AttemptRecord;
using controller::JobPhase;
using controller::JobRecord;
using controller::RankRecord;

void World::Signals(std::size_t process, const Key& key, StopCause cause) {
  const Process& it = processes[process];
  if (it.key != key) {
    Violation("C7 the stop of " + ToString(key) + " signals rank " + std::to_string(it.rank) +
              " of " + ToString(it.key));
    return;
  }
  // By itself an agent ends only what is half started or has ended already, and what has outlived
  // its lease (the node looks at that).
  if (cause == StopCause::kStartFailed || cause == StopCause::kNone || cause == StopCause::kLease)
    return;
  const auto attempt = attempts_.find(key);
  const auto job = jobs_.find(key.job);
  if (attempt == attempts_.end()) {
    const bool word =
        release_told.contains(key) || cancelled_since_.contains(key.job) || WasGivenBeforeFence(it);
    if (it.unknown && cause == StopCause::kStale && !word && !stop_sent_.contains(key)) {
      Violation("C3 rank " + std::to_string(it.rank) + " of " + ToString(key) +
                ", which the store does not know, is signalled, and nobody asked for it");
    }
    return;
  }
  if (job == jobs_.end()) return;
  // What a store that went back gave the same number runs elsewhere.
  if (std::ranges::find(attempt->second.nodes, it.node) == attempt->second.nodes.end()) return;
  const AttemptPhase phase = attempt->second.phase;
  const bool lives = phase == AttemptPhase::kPreparing || phase == AttemptPhase::kLaunching ||
                     phase == AttemptPhase::kRunning;
  // A stop may be on its way that the store of before had sent.
  if (lives && job->second.attempts == key.attempt.value && !stop_sent_.contains(key)) {
    Violation("C3 rank " + std::to_string(it.rank) + " of " + ToString(key) + " is signalled (" +
              std::string(ToString(cause)) + "), but its attempt lives");
  }
}

void World::JobCommitted(const JobRecord& job, const std::set<GpuUuid>& quarantined) {
  const auto [key, fresh_key] = keys_.emplace(job.idempotency_key, job.id);
  if (!fresh_key && key->second != job.id) Violation("C1 two jobs of one key");
  const auto before = jobs_.find(job.id);
  const bool was_cancelled = before != jobs_.end() && !before->second.cancelled_by.empty();
  if (!job.cancelled_by.empty() && !was_cancelled) cancelled_since_.insert(job.id);
  if (before != jobs_.end()) {
    if (job.attempts < before->second.attempts) Violation("C5 an attempt number fell");
    // It may have ended in the same commit.
    const bool over =
        before->second.phase == JobPhase::kDone || !before->second.cancelled_by.empty();
    const bool again = over && IsRunAgain(job);
    if (again) cancelled.erase(job.id);
    if (before->second.held && job.held && job.attempts > before->second.attempts) {
      Violation("C15 job " + std::to_string(job.id.value) + " starts although it is held");
    }
    // Run again and cancelled in one commit.
    const bool cancelled_anew = requeue_asked.contains(job.id) && !job.cancelled_by.empty();
    if (before->second.phase == JobPhase::kDone && !again && !cancelled_anew &&
        (job.phase != JobPhase::kDone || job.outcome != before->second.outcome)) {
      Violation("C5 the outcome of job " + std::to_string(job.id.value) + " changed");
    }
  }
  if (before != jobs_.end()) CheckPlace(before->second, job);
  const bool now_done = job.phase == JobPhase::kDone &&
                        (before == jobs_.end() || before->second.phase != JobPhase::kDone);
  if (now_done) {
    Trace("done " + std::to_string(job.id.value) + " " + std::string(ToString(*job.outcome)) + " " +
          job.outcome_text);
    for (const Process& process : processes) {
      if (process.ended || process.key.job != job.id || process.excused) continue;
      // The store knows no such attempt: it is left alone until a person ends it. C2 stands:
      // nothing begins beside it.
      if (process.unknown || IsAskedToEnd(process) || IsFenced(process)) continue;
      if (process.begun_since && !was_heard(process.node)) continue;  // only its node could tell
      const bool held =
          !process.gpus.empty() &&
          std::all_of(process.gpus.begin(), process.gpus.end(), [&](const GpuUuid& gpu) {
            return quarantined.contains(gpu) || process.given_back.contains(gpu);
          });
      if (!held) {
        Violation("C3 job " + std::to_string(job.id.value) + " is done, rank " +
                  std::to_string(process.rank) + " lives on " + process.node.value);
      }
    }
  }
  jobs_[job.id] = job;
}

// Somebody asked for it, and the next attempt has not begun.
bool World::IsRunAgain(const JobRecord& job) const {
  return requeue_asked.contains(job.id) && job.phase == JobPhase::kQueued &&
         job.requeue_cause.starts_with("requeued by ");
}

void World::CheckPlace(const JobRecord& before, const JobRecord& after) {
  if (before.keeps == 0 && after.keeps != 0) kept_since_[after.id] = now;
  if (before.keeps == 0 || after.keeps != 0) return;
  const bool restarts = after.phase == JobPhase::kActive && after.attempts > before.attempts;
  ++coverage.faults[restarts ? "restart in place" : "place given up"];
  if (!restarts) return;
  const Key last{after.id, Attempt{before.keeps}};
  const auto attempt = attempts_.find(last);
  for (const Process& old : processes) {
    if (old.key != last || attempt == attempts_.end()) continue;
    // Under the same number by a store that is gone, elsewhere.
    const auto& nodes = attempt->second.nodes;
    if (std::ranges::find(nodes, old.node) == nodes.end()) continue;
    for (const Process& other : processes) {
      const bool shares = std::ranges::any_of(other.gpus, [&](const GpuUuid& gpu) {
        return std::ranges::find(old.gpus, gpu) != old.gpus.end();
      });
      // A node whose ranks have ended well is free for others while the attempt goes on elsewhere.
      if (other.key.job == after.id || !shares || other.began < kept_since_[after.id]) continue;
      Violation("C14 " + ToString(other.key) + " ran on " + other.node.value +
                ", in the place of " + ToString(last));
    }
    if (!old.ended) Violation("C2 " + ToString(last) + " lives when the next is made in its place");
  }
}

void World::AttemptCommitted(const AttemptRecord& attempt) {
  const auto before = attempts_.find(attempt.key);
  const bool was_stopping =
      before != attempts_.end() && (before->second.phase == AttemptPhase::kStopping ||
                                    before->second.phase == AttemptPhase::kEnded);
  const std::string who = "attempt " + ToString(attempt.key);
  if (before != attempts_.end() && before->second.phase == AttemptPhase::kEnded &&
      attempt.phase != AttemptPhase::kEnded) {
    Violation("C5 " + who + " lives again after its end");
  }
  if (before == attempts_.end()) made_.push_back(attempt);
  const std::int64_t made = attempt_made_.emplace(attempt.key, now).first->second;
  if (attempt.phase == AttemptPhase::kStopping && !was_stopping) {
    std::int64_t began = now;
    bool any_ended = false;
    const bool by_fence = attempt.cause.find("fenced by") != std::string::npos;
    bool excused = std::ranges::any_of(attempt.nodes, [&](const NodeId& node) {
      const auto asked = fence_asked.find(node);  // a node may be back in the same commit
      return fenced_.contains({node, attempt.key}) || (by_fence && asked != fence_asked.end());
    });
    for (const Process& process : processes) {
      if (process.key != attempt.key) continue;
      excused = excused || process.unguarded;
      began = std::min(began, process.began);
      any_ended = any_ended || process.ended.has_value();
    }
    const bool rebooted =
        std::any_of(attempt.nodes.begin(), attempt.nodes.end(), [&](const NodeId& node) {
          const auto cut = power_cuts.find(node);
          return cut != power_cuts.end() && cut->second >= made;
        });
    const bool lost_state = std::ranges::any_of(attempt.nodes, [&](const NodeId& node) {
      const auto when = reinstalled.find(node);
      return when != reinstalled.end() && when->second >= made;
    });
    // The part of one node is over: given up after requeue_after, or by a store that went back and
    // takes for running what its node has given back since, or was being stopped: what is in D
    // state then is given back with its GPU held.
    const bool by_return = went_back_ && made <= *went_back_;
    const bool was_stopped = by_return && stop_sent_.contains(attempt.key);
    const bool part_over =
        was_stopped || ((IsLeased(attempt.key.job) || by_return) &&
                        std::ranges::any_of(attempt.nodes, [&](const NodeId& node) {
                          return AliveOf(node, attempt.key).empty();
                        }));
    // Or it never began and never will: an agent that was out of reach for a minute lets go of what
    // it had accepted, and the Go is lost with its stream.
    const bool never_began = std::ranges::any_of(attempt.nodes, [&](const NodeId& node) {
      const auto go = go_sent.find({attempt.key, node});
      return go != go_sent.end() && now - go->second >= 60'000 &&
             std::ranges::none_of(processes, [&](const Process& process) {
               return process.key == attempt.key && process.node == node;
             });
    });
    if (attempt.stop_cause == StopCause::kNodeLost && !any_ended && !rebooted && !lost_state &&
        !part_over && !never_began && !excused) {
      Violation("C12 " + who +
                " is stopped for a lost node, but no rank of it has ended: " + attempt.cause);
    }
    if (attempt.stop_cause == StopCause::kTimeLimit) CheckTimeLimit(attempt, began);
  }
  if (attempt.phase == AttemptPhase::kRunning) {
    running_.emplace(attempt.key, Running{host_boot, wall_offset});
  }
  attempts_[attempt.key] = attempt;
}

// Within a boot of the controller's host limits follow no wall clock. Over a boot nothing else
// tells how long an attempt ran: what it jumped from the start of the attempt to the first start in
// this boot counts, to the millisecond, and nothing more.
void World::CheckTimeLimit(const AttemptRecord& attempt, std::int64_t began) {
  const auto job = jobs_.find(attempt.key.job);
  const auto running = running_.find(attempt.key);
  std::int64_t jumped = 0;
  if (running != running_.end() && running->second.host_boot != host_boot) {
    jumped = std::max<std::int64_t>(0, wall_offset_of_boot - running->second.wall_offset);
  }
  for (const PlannedJob& planned : options.schedule.jobs) {
    if (job == jobs_.end() || planned.key != job->second.idempotency_key) continue;
    if (planned.spec.time_limit && now - began + jumped < planned.spec.time_limit->count()) {
      Violation("C20 attempt " + ToString(attempt.key) + " is stopped for its time limit after " +
                std::to_string(now - began) + " of " +
                std::to_string(planned.spec.time_limit->count()) + " ms");
    }
  }
}

// By design a restore loses what was acknowledged after its backup: those submits and cancels, and
// how ranks ended. What its nodes know is not lost, and nothing may run twice.
void World::StoreWentBack(const std::map<std::string, controller::Entity>& rows, bool noticed) {
  went_back_ = now;
  for (const auto& [key, attempt] : attempts_) {
    const bool ends =
        attempt.phase == AttemptPhase::kStopping || attempt.phase == AttemptPhase::kEnded;
    if (ends) stop_sent_.insert(key);
  }
  cancelled_since_.clear();
  std::map<std::string, JobId> acknowledged = std::move(submitted);
  acknowledged.merge(lost);
  submitted.clear();
  lost.clear();
  jobs_.clear();
  attempts_.clear();
  nodes_.clear();
  keys_.clear();
  drained_.clear();
  holding_.clear();
  std::set<std::pair<Key, Rank>> recorded;
  for (const auto& [key, entity] : rows) {
    if (const auto* job = std::get_if<JobRecord>(&entity)) {
      jobs_[job->id] = *job;
      keys_[job->idempotency_key] = job->id;
    } else if (const auto* attempt = std::get_if<AttemptRecord>(&entity)) {
      attempts_[attempt->key] = *attempt;
    } else if (const auto* alloc = std::get_if<controller::AllocRecord>(&entity)) {
      if (!controller::IsReleased(*alloc)) holding_.insert({alloc->key, alloc->node});
    } else if (const auto* node = std::get_if<controller::NodeRecord>(&entity)) {
      nodes_[node->id] = *node;
      if (node->drained) drained_.insert(node->id);
    } else if (const auto* rank = std::get_if<RankRecord>(&entity); rank != nullptr && rank->exit) {
      recorded.insert({rank->key, rank->rank});
    }
  }
  for (const auto& [key, job] : acknowledged) {
    const auto known = keys_.find(key);  // two stores may have given it different numbers
    if (known != keys_.end()) {
      submitted.insert(*known);
    } else {
      lost.emplace(key, job);
    }
  }
  std::erase_if(cancelled, [&](const auto& entry) {
    const auto job = jobs_.find(entry.first);
    return job == jobs_.end() || job->second.cancelled_by.empty();
  });
  for (Process& process : processes) {
    const auto attempt = attempts_.find(process.key);
    process.unknown = attempt == attempts_.end();
    process.begun_since =
        !noticed && !process.unknown && attempt->second.phase == AttemptPhase::kPreparing;
    const std::pair<Key, Rank> rank{process.key, process.rank};
    process.told = (process.told || given_up_.contains(rank)) && !recorded.contains(rank);
  }
  // What nobody has seen any more may be begun again under its number; C2 sees what lives.
  std::erase_if(given_up_, [&](const auto& rank) { return !recorded.contains(rank); });
}

const Process* World::NewestOf(const Key& key, Rank rank) const {
  const auto newest = std::find_if(
      processes.rbegin(), processes.rend(),
      [&](const Process& process) { return process.key == key && process.rank == rank; });
  return newest == processes.rend() ? nullptr : &*newest;
}

bool World::IsSubmitted(JobId job) const {
  return std::ranges::any_of(submitted, [&](const auto& entry) { return entry.second == job; });
}

// What nobody sees is waited for until a person has looked: who asked before could not know.
bool World::IsAskedToEnd(const Process& process) const {
  const auto asked = end_asked.find(process.key.job);
  return process.hidden && asked != end_asked.end() && asked->second > process.hidden_since;
}

// An operator's word is obeyed, true or not: it covers what that node had when it was taken, also
// what was on its way there.
bool World::IsFenced(const Process& process) const {
  return fenced_.contains({process.node, process.key});
}

// Whether the node ran it, or was to, when it was last called dead: an order to begin that was on
// its way by then is carried out once a cut heals.
bool World::WasGivenBeforeFence(const Process& process) const {
  const auto asked = fence_asked.find(process.node);
  if (asked == fence_asked.end()) return false;
  const auto made = attempt_made_.find(process.key);
  const bool was_made = made != attempt_made_.end() && made->second <= asked->second;
  return was_made || process.began <= asked->second;
}

void World::NodeCommitted(const controller::NodeRecord& node) {
  const auto before = nodes_.find(node.id);
  const bool was_fenced = before != nodes_.end() && !before->second.fenced_by.empty();
  if (!node.fenced_by.empty() && !was_fenced) {
    for (const auto& [key, attempt] : attempts_) {
      if (std::ranges::find(attempt.nodes, node.id) != attempt.nodes.end()) {
        fenced_.insert({node.id, key});
      }
    }
    for (const Process& process : processes) {  // also what the store does not know
      if (!process.ended && process.node == node.id) fenced_.insert({node.id, process.key});
    }
  }
  nodes_[node.id] = node;
}

void World::NodeForgotten(const NodeId& node) {
  nodes_.erase(node);
  for (Process& process : processes) {
    if (process.ended || process.node != node || process.excused || IsFenced(process) ||
        !process.given_back.empty()) {
      continue;
    }
    // Nobody here was told of it, and the operator says that it is gone for good.
    if (process.unknown && !was_heard(node)) {
      process.excused = true;
      continue;
    }
    Violation("C3 " + node.value + " is forgotten, rank " + std::to_string(process.rank) + " of " +
              ToString(process.key) + " lives there");
  }
}

// Of the acts of one commit nobody tells the order: what was drained before and after it counts.
void World::CommitEnds() {
  for (const AttemptRecord& attempt : std::exchange(made_, {})) {
    for (const NodeId& node : attempt.nodes) {
      const auto now_is = nodes_.find(node);
      if (!drained_.contains(node) || now_is == nodes_.end() || !now_is->second.drained) continue;
      Violation("C15 attempt " + ToString(attempt.key) + " is made on " + node.value +
                ", which is drained");
    }
  }
  drained_.clear();
  for (const auto& [id, node] : nodes_) {
    if (node.drained) drained_.insert(id);
  }
}

bool World::IsLeased(JobId id) const {
  const auto job = jobs_.find(id);
  if (job == jobs_.end()) return false;
  return std::any_of(
      options.schedule.jobs.begin(), options.schedule.jobs.end(), [&](const PlannedJob& planned) {
        return planned.key == job->second.idempotency_key && planned.spec.requeue_after.has_value();
      });
}

void World::RankCommitted(const RankRecord& rank) {
  if (!rank.exit) return;
  given_up_.insert({rank.key, rank.rank});
  const std::string who = "rank " + std::to_string(rank.rank) + " of " + ToString(rank.key);
  const bool unknown = std::holds_alternative<UnknownEnd>(rank.exit->cause);
  const bool fenced = Describe(rank.exit->cause).find("fenced by") != std::string::npos;
  bool found = false;
  for (Process& process : processes) {
    if (process.key != rank.key || process.rank != rank.rank) continue;
    found = true;
    // Its number was given again, to another job even, by a store that knew nothing of it.
    const bool given_again =
        went_back_ &&
        (process.node != rank.node || (process.ended && NewestOf(rank.key, rank.rank) != &process));
    if (given_again) continue;
    if (process.told && process.ended) continue;
    // A node that is back in the same commit was not seen fenced. What an operator took out of
    // quarantine its node calls gone, also to a store that went back behind that word.
    const bool by_fence = fenced && (WasGivenBeforeFence(process) || IsFenced(process));
    const bool by_release = went_back_ && !process.given_back.empty();
    const bool excused = by_fence || by_release || process.unguarded || IsAskedToEnd(process);
    if (by_fence && unknown) fenced_.insert({process.node, process.key});
    if (!process.ended && unknown && excused) {
      process.excused = true;
    } else if (!process.ended) {
      Violation("C4 " + who + (unknown ? " is given up (" : " is said to have ended (") +
                Describe(rank.exit->cause) + "), but it runs");
    } else if (unknown && (process.leased || excused)) {
      continue;  // given up by its lease or an operator's word before its node could prove more
    } else if (!process.lost && process.cause != rank.exit->cause) {
      Violation("C4 " + who + " ended with " + Describe(process.cause) + ", recorded as " +
                Describe(rank.exit->cause));
    } else if (process.lost && !unknown && process.cause != rank.exit->cause) {
      Violation("C4 " + who + " was lost, but recorded as " + Describe(rank.exit->cause));
    }
  }
  if (!found && (std::holds_alternative<Exited>(rank.exit->cause) ||
                 std::holds_alternative<Signalled>(rank.exit->cause))) {
    Violation("C4 " + who + " never ran, but its end is recorded");
  }
}

void World::Committed(const controller::Entity& entity, const std::set<GpuUuid>& quarantined) {
  if (const auto* node = std::get_if<controller::NodeRecord>(&entity)) NodeCommitted(*node);
  if (const auto* job = std::get_if<JobRecord>(&entity)) JobCommitted(*job, quarantined);
  if (const auto* attempt = std::get_if<AttemptRecord>(&entity)) AttemptCommitted(*attempt);
  if (const auto* rank = std::get_if<RankRecord>(&entity)) RankCommitted(*rank);
  if (const auto* alloc = std::get_if<controller::AllocRecord>(&entity)) {
    holding_.erase({alloc->key, alloc->node});
    if (!controller::IsReleased(*alloc)) holding_.insert({alloc->key, alloc->node});
  }
}

void World::QuarantineEnded(const GpuUuid& gpu, bool forgotten) {
  for (Process& process : processes) {
    const bool over = process.ended && process.shim_stopped_until <= now;
    if (over || process.given_back.contains(gpu)) continue;
    if (std::find(process.gpus.begin(), process.gpus.end(), gpu) == process.gpus.end()) continue;
    // The operator's word, or gone for good: what lives on it is no longer counted on.
    if (forgotten || release_asked.contains(gpu)) {
      process.given_back.insert(gpu);
      continue;
    }
    // A fenced node offers nothing before it has said anew what it holds.
    if (process.ended || IsFenced(process) || holding_.contains({process.key, process.node})) {
      continue;
    }
    Violation("C3 GPU " + gpu.value + " is offered again, rank " + std::to_string(process.rank) +
              " of " + ToString(process.key) + " lives on it");
  }
}

void World::ReleaseAnswered() {
  for (Process& process : processes) {
    for (const GpuUuid& gpu : process.gpus) {
      if (!process.ended && release_asked.contains(gpu)) process.given_back.insert(gpu);
    }
  }
}

void World::NodeStarts(const NodeId& node, const std::map<JobId, Attempt>& floors) {
  for (const auto& [what, attempt] : accepted) {
    if (what.second != node) continue;
    const auto floor = floors.find(what.first);
    if (floor != floors.end() && floor->second >= attempt) continue;
    Violation("C5 " + node.value + " said that it accepted " + ToString(Key{what.first, attempt}) +
              ", and knows nothing of it after a restart");
  }
}

void World::NodeForgets(const NodeId& node, const Key& key) {
  const auto told = accepted.find({key.job, node});
  if (told != accepted.end() && told->second <= key.attempt) accepted.erase(told);
}

void World::NodeLosesAll(const NodeId& node) {
  reinstalled[node] = now;
  for (Process& process : processes) {
    const auto attempt = attempts_.find(process.key);
    const bool over = attempt != attempts_.end() && attempt->second.phase == AttemptPhase::kEnded;
    if (process.node == node && over) process.forgotten = true;
  }
  std::erase_if(accepted, [&](const auto& entry) { return entry.first.second == node; });
}

void World::CheckEnd(const std::map<std::string, controller::Entity>& durable) {
  std::set<std::pair<Key, Rank>> recorded;
  std::map<JobId, std::string> jobs;
  for (const auto& [key, entity] : durable) {
    if (const auto* job = std::get_if<JobRecord>(&entity)) {
      jobs[job->id] = job->idempotency_key;
      if (job->phase != JobPhase::kDone) {
        Violation("C9 job " + std::to_string(job->id.value) + " is not done long after healing");
      }
    }
    if (const auto* rank = std::get_if<RankRecord>(&entity); rank != nullptr && rank->exit) {
      recorded.insert({rank->key, rank->rank});
    }
  }
  for (const auto& [key, job] : submitted) {
    const auto found = jobs.find(job);
    if (found == jobs.end() || found->second != key) {
      Violation("C1 the acknowledged submit " + key + " is gone");
    }
  }
  for (const Process& process : processes) {
    const std::string who = "rank " + std::to_string(process.rank) + " of " + ToString(process.key);
    if (!process.ended) Violation("C3 " + who + " still runs on " + process.node.value);
    const bool excused =
        process.unknown || process.told || process.forgotten || !process.given_back.empty();
    if (!recorded.contains({process.key, process.rank}) && !excused) {
      Violation("C4 the end of " + who + " was lost");
    }
  }
}

}  // namespace launch::sim
