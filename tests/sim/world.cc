#include "tests/sim/world.h"

#include <algorithm>
#include <cstdio>

namespace launch::sim {

using controller::AttemptRecord;
using controller::JobPhase;
using controller::JobRecord;
using controller::RankRecord;

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

void World::Began(Process process) {
  const std::string who = "rank " + std::to_string(process.rank) + " of " + ToString(process.key);
  for (const Process& other : processes) {
    if (other.ended) continue;
    if (other.key.job == process.key.job && other.rank == process.rank && !other.killed) {
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
  Trace("begin " + who + " on " + process.node.value);
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

void World::Committed(const controller::Entity& entity, const std::set<GpuUuid>& quarantined) {
  if (const auto* job = std::get_if<JobRecord>(&entity)) {
    const auto [key, fresh_key] = keys_.emplace(job->idempotency_key, job->id);
    if (!fresh_key && key->second != job->id) Violation("C1 two jobs of one key");
    const auto before = jobs_.find(job->id);
    if (before != jobs_.end()) {
      if (job->attempts < before->second.attempts) Violation("C5 an attempt number fell");
      if (before->second.phase == JobPhase::kDone &&
          (job->phase != JobPhase::kDone || job->outcome != before->second.outcome)) {
        Violation("C5 the outcome of job " + std::to_string(job->id.value) + " changed");
      }
    }
    const bool now_done = job->phase == JobPhase::kDone &&
                          (before == jobs_.end() || before->second.phase != JobPhase::kDone);
    if (now_done) {
      Trace("done " + std::to_string(job->id.value) + " " + std::string(ToString(*job->outcome)) +
            " " + job->outcome_text);
      for (const Process& process : processes) {
        if (process.ended || process.key.job != job->id) continue;
        const bool held =
            !process.gpus.empty() &&
            std::all_of(process.gpus.begin(), process.gpus.end(),
                        [&](const GpuUuid& gpu) { return quarantined.contains(gpu); });
        if (!held) {
          Violation("C3 job " + std::to_string(job->id.value) + " is done, rank " +
                    std::to_string(process.rank) + " lives on " + process.node.value);
        }
      }
    }
    jobs_[job->id] = *job;
  }
  if (const auto* rank = std::get_if<RankRecord>(&entity); rank != nullptr && rank->exit) {
    const std::string who = "rank " + std::to_string(rank->rank) + " of " + ToString(rank->key);
    const bool unknown = std::holds_alternative<UnknownEnd>(rank->exit->cause);
    bool found = false;
    for (const Process& process : processes) {
      if (process.key != rank->key || process.rank != rank->rank) continue;
      found = true;
      if (process.lost_with_node) continue;
      if (!process.ended) {
        if (!unknown) Violation("C4 " + who + " is said to have ended, but it runs");
        if (unknown) Violation("C4 " + who + " is given up, but it runs");
      } else if (unknown) {
        Violation("C4 " + who + " ended with " + Describe(process.cause) + ", recorded as " +
                  Describe(rank->exit->cause));
      } else if (process.cause != rank->exit->cause) {
        Violation("C4 " + who + " ended with " + Describe(process.cause) + ", recorded as " +
                  Describe(rank->exit->cause));
      }
    }
    if (!found && (std::holds_alternative<Exited>(rank->exit->cause) ||
                   std::holds_alternative<Signalled>(rank->exit->cause))) {
      Violation("C4 " + who + " never ran, but its end is recorded");
    }
  }
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
    if (!recorded.contains({process.key, process.rank})) {
      Violation("C4 the end of " + who + " was lost");
    }
  }
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
