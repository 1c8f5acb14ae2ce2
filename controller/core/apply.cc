// The table of stored entities: where State keeps each kind, and what is derived from it. A new
// kind has a RowOf here, and an Index and Unindex if something follows from it.
#include <fmt/format.h>

#include <memory>
#include <type_traits>
#include <utility>

#include "common/error.h"
#include "controller/core/state.h"

namespace launch::controller {
namespace {

// ---- the place of one value ----

template <class Value>
struct SingleValue {
  Value& value;
  const Value* Find() const { return &value; }
  void Put(Value stored) { value = std::move(stored); }
  void Erase() { value = {}; }
};

template <class Map>
struct InMap {
  Map& map;
  typename Map::key_type key;
  const typename Map::mapped_type* Find() const {
    const auto found = map.find(key);
    return found == map.end() ? nullptr : &found->second;
  }
  void Put(typename Map::mapped_type stored) { map.insert_or_assign(key, std::move(stored)); }
  void Erase() { map.erase(key); }
};
template <class Map, class Key>
InMap(Map&, Key) -> InMap<Map>;

// What an attempt has several of; no inner map is empty.
template <class Outer>
struct OfAttempt {
  using Inner = typename Outer::mapped_type;
  Outer& outer;
  Key attempt;
  typename Inner::key_type key;
  const typename Inner::mapped_type* Find() const {
    const auto inner = outer.find(attempt);
    if (inner == outer.end()) return nullptr;
    const auto found = inner->second.find(key);
    return found == inner->second.end() ? nullptr : &found->second;
  }
  void Put(typename Inner::mapped_type stored) {
    outer[attempt].insert_or_assign(key, std::move(stored));
  }
  void Erase() {
    const auto inner = outer.find(attempt);
    if (inner == outer.end()) return;
    inner->second.erase(key);
    if (inner->second.empty()) outer.erase(inner);
  }
};
template <class Outer, class InnerKey>
OfAttempt(Outer&, Key, InnerKey) -> OfAttempt<Outer>;

// `state` is a State or a const State.
auto RowOf(auto& state, const ClusterRecord&) {
  return SingleValue<std::remove_reference_t<decltype((state.cluster))>>{state.cluster};
}
auto RowOf(auto& state, const JobRecord& job) { return InMap{state.jobs, job.id}; }
auto RowOf(auto& state, const SpecRecord& spec) { return InMap{state.specs, spec.id}; }
auto RowOf(auto& state, const PlanChunkRecord& chunk) {
  return OfAttempt{state.plan_chunks, chunk.key, chunk.chunk};
}
auto RowOf(auto& state, const AttemptRecord& attempt) { return InMap{state.attempts, attempt.key}; }
auto RowOf(auto& state, const AllocRecord& alloc) {
  return OfAttempt{state.allocs, alloc.key, alloc.node};
}
auto RowOf(auto& state, const RankRecord& rank) {
  return OfAttempt{state.ranks, rank.key, rank.rank};
}
auto RowOf(auto& state, const NodeRecord& node) { return InMap{state.nodes, node.id}; }
auto RowOf(auto& state, const InventoryRecord& record) {
  return InMap{state.inventories, record.inventory.node};
}
auto RowOf(auto& state, const GpuRecord& gpu) { return InMap{state.quarantine, gpu.uuid}; }
auto RowOf(auto& state, const UserRecord& user) { return InMap{state.users, user.name}; }
auto RowOf(auto& state, const JoinRecord& join) { return InMap{state.joins, join.serial}; }
auto RowOf(auto& state, const DenyRecord& deny) { return InMap{state.denied, deny.serial}; }
auto RowOf(auto& state, const IdemRecord& idem) {
  return InMap{state.idem, std::pair(idem.user, idem.key)};
}
auto RowOf(auto& state, const SecretRecord& secret) {
  return InMap{state.secrets, std::pair(secret.job, secret.name)};
}

// ---- kept in another form than the record's ----

template <class T>
const T& Kept(const T& record) {
  return record;
}
const std::string& Kept(const PlanChunkRecord& record) { return record.bytes; }
std::shared_ptr<const NodeInventory> Kept(const InventoryRecord& record) {
  return std::make_shared<const NodeInventory>(record.inventory);
}

// `like` has the key.
template <class T>
const T& Read(const T& /*like*/, const T& kept) {
  return kept;
}
PlanChunkRecord Read(const PlanChunkRecord& like, const std::string& bytes) {
  return {like.key, like.chunk, bytes};
}
InventoryRecord Read(const InventoryRecord& /*like*/,
                     const std::shared_ptr<const NodeInventory>& inventory) {
  return {*inventory};
}

// ---- what is derived; Unindex gets the value that is kept, before it is replaced or erased ----

template <class T>
void Index(State& /*state*/, const T& /*kept*/) {}
template <class T>
void Unindex(State& /*state*/, const T& /*kept*/) {}

template <class Sets, class Of>
void EraseOf(Sets& sets, const Of& of, const auto& value) {
  const auto found = sets.find(of);
  if (found == sets.end()) return;
  found->second.erase(value);
  if (found->second.empty()) sets.erase(found);
}

void Index(State& state, const JobRecord& job) {
  if (job.phase == JobPhase::kQueued) state.queue.insert(job.id);
  if (job.phase == JobPhase::kActive) state.active.insert(job.id);
  if (job.array) state.arrays[*job.array].insert(job.id);
  if (job.keeps != 0) state.keepers.insert(job.id);
  if (job.phase == JobPhase::kDone) {
    state.done.emplace(job.ended, job.id);
  } else {
    state.open[job.owner].insert(job.id);
  }
}

void Unindex(State& state, const JobRecord& job) {
  state.queue.erase(job.id);
  state.active.erase(job.id);
  state.keepers.erase(job.id);
  state.done.erase({job.ended, job.id});
  EraseOf(state.open, job.owner, job.id);
  if (job.array) EraseOf(state.arrays, *job.array, job.id);
}

void Unindex(State& state, const SpecRecord& spec) { state.lines.Forget(spec.id); }

void Index(State& state, const AllocRecord& alloc) {
  if (IsReleased(alloc)) return;
  state.held_by_node[alloc.node].insert(alloc.key);
  for (const GpuUuid& gpu : alloc.gpus) {
    const auto [owner, fresh] = state.gpu_owner.emplace(gpu, alloc.key);
    LAUNCH_CHECK(fresh || owner->second == alloc.key,
                 fmt::format("GPU {} of {} is given to {}", gpu.value, ToString(owner->second),
                             ToString(alloc.key)));
  }
}

void Unindex(State& state, const AllocRecord& alloc) {
  EraseOf(state.held_by_node, alloc.node, alloc.key);
  for (const GpuUuid& gpu : alloc.gpus) {
    const auto owner = state.gpu_owner.find(gpu);
    if (owner != state.gpu_owner.end() && owner->second == alloc.key) state.gpu_owner.erase(owner);
  }
}

void Index(State& state, const std::shared_ptr<const NodeInventory>& inventory) {
  for (const GpuDevice& gpu : inventory->gpus) state.reported_by[gpu.uuid].insert(inventory->node);
}

void Unindex(State& state, const std::shared_ptr<const NodeInventory>& inventory) {
  for (const GpuDevice& gpu : inventory->gpus) {
    EraseOf(state.reported_by, gpu.uuid, inventory->node);
  }
}

// What is known of an entity beside what is stored goes with it.
template <class T>
void Forget(State& /*state*/, const T& /*erased*/) {}
void Forget(State& state, const AttemptRecord& attempt) {
  state.plans.erase(attempt.key);
  state.live.attempts.erase(attempt.key);
}

}  // namespace

void Apply(State& state, const Record& record) {
  if (const auto* put = std::get_if<Put>(&record)) {
    std::visit(
        [&](const auto& value) {
          auto row = RowOf(state, value);
          if (const auto* old = row.Find()) Unindex(state, *old);
          row.Put(Kept(value));
          Index(state, *row.Find());
        },
        put->entity);
  } else if (const auto* gone = std::get_if<Delete>(&record)) {
    std::visit(
        [&](const auto& value) {
          auto row = RowOf(state, value);
          if (const auto* old = row.Find()) Unindex(state, *old);
          row.Erase();
          Forget(state, value);
        },
        gone->entity);
  }  // event rows live in the store only
}

std::optional<Entity> FindEntity(const State& state, const Entity& like) {
  return std::visit(
      [&](const auto& value) -> std::optional<Entity> {
        const auto* kept = RowOf(state, value).Find();
        if (kept == nullptr) return std::nullopt;
        return Entity(Read(value, *kept));
      },
      like);
}

}  // namespace launch::controller
