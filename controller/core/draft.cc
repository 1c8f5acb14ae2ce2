#include "controller/core/draft.h"

namespace launch::controller {
namespace {

// The job whose consequences an entity may change.
std::optional<JobId> JobTouched(const Entity& entity) {
  return std::visit(
      [](const auto& value) -> std::optional<JobId> {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, JobRecord>) return value.id;
        if constexpr (std::is_same_v<T, AttemptRecord> || std::is_same_v<T, AllocRecord> ||
                      std::is_same_v<T, RankRecord>) {
          return value.key.job;
        }
        return std::nullopt;
      },
      entity);
}

}  // namespace

void Draft::Put(Entity entity) {
  std::optional<Entity> old = FindEntity(state_, entity);
  if (old && *old == entity) return;
  decision_.undo.push_back({std::move(old), entity});
  if (const std::optional<JobId> job = JobTouched(entity)) Touch(*job);
  decision_.records.push_back(launch::controller::Put{std::move(entity)});
  Apply(state_, decision_.records.back());
}

void Draft::Erase(const Entity& entity) {
  decision_.undo.push_back({entity, entity});
  decision_.records.push_back(Delete{entity});
  Apply(state_, decision_.records.back());
}

void Draft::HoldGpu(const NodeId& node, const GpuUuid& gpu, std::string why, const Key& holder) {
  const LiveNode& live = state_.live.nodes.at(node);
  Put(GpuRecord{.uuid = gpu,
                .node = node,
                .why = std::move(why),
                .key = holder,
                .since = wall(),
                .boot_id = live.boot_id,
                .install_id = live.machine.install_id,
                .cgroups = live.cgroups});
}

void Draft::EraseQuarantine(const GpuUuid& gpu) {
  const auto found = state_.quarantine.find(gpu);
  if (found == state_.quarantine.end()) return;
  if (const auto node = live().nodes.find(found->second.node); node != live().nodes.end()) {
    if (auto known = node->second.may_hold.extract(gpu)) {
      decision_.freed[node->first].insert(std::move(known));
    }
  }
  Erase(Entity(found->second));
  TouchQueue();
}

void Draft::EraseNode(const NodeId& node) {
  std::vector<Entity> entities;
  if (const auto found = state_.inventories.find(node); found != state_.inventories.end()) {
    entities.emplace_back(InventoryRecord{*found->second});
  }
  if (const auto found = state_.nodes.find(node); found != state_.nodes.end()) {
    entities.push_back(Entity(NodeRecord(found->second)));
  }
  for (const Entity& entity : entities) Erase(entity);
  TouchQueue();
}

LiveAttempt& Draft::ChangeLive(const Key& key) {
  LiveAttempt& known = live().attempts[key];
  decision_.attempts.emplace(key, known);
  return known;
}

void Draft::NoteCancelled(JobId job, bool by_a_person) {
  std::set<JobId>& cancelled = live().cancelled;
  decision_.cancelled.emplace(job, cancelled.contains(job));
  if (by_a_person) {
    cancelled.insert(job);
  } else {
    cancelled.erase(job);
  }
}

void Draft::EndLive(const Key& key) {
  if (auto known = live().attempts.extract(key)) {
    decision_.attempts.emplace(key, std::move(known.mapped()));
  }
}

void Draft::EraseSecret(JobId job, const std::string& name) {
  const auto found = state_.secrets.find({job, name});
  if (found == state_.secrets.end()) return;
  Erase(Entity(found->second));
}

void Draft::EraseChunks(const Key& attempt, std::uint32_t first) {
  const auto chunks = state_.plan_chunks.find(attempt);
  if (chunks == state_.plan_chunks.end()) return;
  std::vector<Entity> entities;
  for (auto chunk = chunks->second.lower_bound(first); chunk != chunks->second.end(); ++chunk) {
    entities.emplace_back(PlanChunkRecord{attempt, chunk->first, chunk->second});
  }
  for (const Entity& entity : entities) Erase(entity);
}

void Draft::EraseJob(JobId job) {
  NoteCancelled(job, false);
  std::vector<Entity> entities;
  for (auto attempt = state_.attempts.lower_bound(Key{job, Attempt{0}});
       attempt != state_.attempts.end() && attempt->first.job == job; ++attempt) {
    const Key& key = attempt->first;
    EraseChunks(key, 0);
    // Those of an attempt that ended a while ago are in the store only: nothing is undone here.
    for (std::uint32_t chunk = 0; chunk < attempt->second.plan_chunks; ++chunk) {
      decision_.records.push_back(Delete{PlanChunkRecord{key, chunk, ""}});
    }
    if (const auto ranks = state_.ranks.find(key); ranks != state_.ranks.end()) {
      for (const auto& [number, rank] : ranks->second) entities.emplace_back(rank);
    }
    if (const auto allocs = state_.allocs.find(key); allocs != state_.allocs.end()) {
      for (const auto& [node, alloc] : allocs->second) entities.emplace_back(alloc);
    }
    entities.emplace_back(attempt->second);
  }
  const JobRecord& record = state_.jobs.at(job);
  const auto idem = state_.idem.find({record.owner, record.idempotency_key});
  // The key of an array names the array, and goes with its last element.
  const auto array = record.array ? state_.arrays.find(*record.array) : state_.arrays.end();
  const bool last = array != state_.arrays.end() && array->second.size() == 1;
  if (idem != state_.idem.end() &&
      (idem->second.job == job || (last && idem->second.job == *record.array))) {
    entities.emplace_back(idem->second);
  }
  if (const auto spec = state_.specs.find(job); spec != state_.specs.end()) {
    entities.emplace_back(spec->second);
  }
  entities.emplace_back(record);
  for (const Entity& entity : entities) Erase(entity);
}

void Draft::KeepLine(JobId job, Result<LineDemand> line) {
  state_.lines.Keep(job, std::move(line));
}

void Draft::KeepPlan(const Key& key, StoredPlan plan) {
  state_.plans[key] = std::make_shared<const StoredPlan>(std::move(plan));
}

void Draft::Event(std::string kind, std::string subject, std::string text) {
  decision_.records.push_back(EventRow{std::move(kind), std::move(subject), std::move(text)});
}

void Draft::Reply(RequestId request, Result<ReplyBody> body, std::vector<Finding> findings) {
  decision_.effects.push_back(effect::Reply{request, std::move(body), std::move(findings)});
}

void Draft::Send(const NodeId& node, ToNode message) {
  const auto live = state_.live.nodes.find(node);
  if (live == state_.live.nodes.end() || !live->second.session) return;
  decision_.effects.push_back(effect::Send{*live->second.session, std::move(message)});
}

void Draft::Close(SessionId session, std::string why) {
  decision_.effects.push_back(effect::CloseSession{session, std::move(why)});
}

void Draft::Want(effect::PlanWanted wanted) { decision_.effects.push_back(std::move(wanted)); }

void Draft::ReadPlans(effect::ReadPlans wanted) { decision_.effects.push_back(std::move(wanted)); }

void Draft::Diagnose(effect::DiagnosisWanted wanted) {
  decision_.effects.push_back(std::move(wanted));
}

void Draft::Touch(JobId job) {
  touched_.insert(job);
  seen_.insert(job);
}

std::optional<JobId> Draft::NextTouched() {
  if (touched_.empty()) return std::nullopt;
  const JobId job = *touched_.begin();
  touched_.erase(touched_.begin());
  return job;
}

std::string Subject(JobId job) { return "job/" + std::to_string(job.value); }
std::string Subject(const NodeId& node) { return "node/" + node.value; }
std::string Subject(const Key& key) { return "attempt/" + ToString(key); }

}  // namespace launch::controller
