#include "controller/core/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <type_traits>

#include "common/error.h"
#include "common/planted.h"
#include "controller/core/erase_entity.h"
#include "planner/place/demand.h"

namespace launch::controller {
namespace {

template <class T>
constexpr bool kAlwaysFalse = false;

// ---- derived indexes ----

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

void Unindex(State& state, JobId id) {
  const auto job = state.jobs.find(id);
  if (job == state.jobs.end()) return;
  state.queue.erase(id);
  state.active.erase(id);
  state.keepers.erase(id);
  state.done.erase({job->second.ended, id});
  if (const auto open = state.open.find(job->second.owner); open != state.open.end()) {
    open->second.erase(id);
    if (open->second.empty()) state.open.erase(open);
  }
  if (!job->second.array) return;
  if (const auto array = state.arrays.find(*job->second.array); array != state.arrays.end()) {
    array->second.erase(id);
    if (array->second.empty()) state.arrays.erase(array);
  }
}

void Unindex(State& state, const AllocRecord& alloc) {
  if (const auto held = state.held_by_node.find(alloc.node); held != state.held_by_node.end()) {
    held->second.erase(alloc.key);
    if (held->second.empty()) state.held_by_node.erase(held);
  }
  for (const GpuUuid& gpu : alloc.gpus) {
    const auto owner = state.gpu_owner.find(gpu);
    if (owner != state.gpu_owner.end() && owner->second == alloc.key) state.gpu_owner.erase(owner);
  }
}

void Index(State& state, const AllocRecord& alloc) {
  if (IsReleased(alloc)) {
    Unindex(state, alloc);
    return;
  }
  state.held_by_node[alloc.node].insert(alloc.key);
  for (const GpuUuid& gpu : alloc.gpus) {
    const auto [owner, fresh] = state.gpu_owner.emplace(gpu, alloc.key);
    LAUNCH_CHECK(fresh || owner->second == alloc.key,
                 fmt::format("GPU {} of {} is given to {}", gpu.value, ToString(owner->second),
                             ToString(alloc.key)));
  }
}

void UnindexInventory(State& state, const NodeId& node) {
  const auto inventory = state.inventories.find(node);
  if (inventory == state.inventories.end()) return;
  for (const GpuDevice& gpu : inventory->second->gpus) {
    const auto nodes = state.reported_by.find(gpu.uuid);
    if (nodes == state.reported_by.end()) continue;
    nodes->second.erase(node);
    if (nodes->second.empty()) state.reported_by.erase(nodes);
  }
}

// ---- one entity stored or erased ----

void Store(State& state, const Entity& entity) {
  std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, ClusterRecord>) {
          state.cluster = value;
        } else if constexpr (std::is_same_v<T, JobRecord>) {
          Unindex(state, value.id);
          state.jobs[value.id] = value;
          Index(state, value);
        } else if constexpr (std::is_same_v<T, SpecRecord>) {
          state.specs[value.id] = value;
        } else if constexpr (std::is_same_v<T, PlanChunkRecord>) {
          state.plan_chunks[value.key][value.chunk] = value.bytes;
        } else if constexpr (std::is_same_v<T, AttemptRecord>) {
          state.attempts[value.key] = value;
        } else if constexpr (std::is_same_v<T, AllocRecord>) {
          state.allocs[value.key][value.node] = value;
          Index(state, value);
        } else if constexpr (std::is_same_v<T, RankRecord>) {
          state.ranks[value.key][value.rank] = value;
        } else if constexpr (std::is_same_v<T, NodeRecord>) {
          state.nodes[value.id] = value;
        } else if constexpr (std::is_same_v<T, InventoryRecord>) {
          UnindexInventory(state, value.inventory.node);
          state.inventories[value.inventory.node] =
              std::make_shared<const NodeInventory>(value.inventory);
          for (const GpuDevice& gpu : value.inventory.gpus) {
            state.reported_by[gpu.uuid].insert(value.inventory.node);
          }
        } else if constexpr (std::is_same_v<T, GpuRecord>) {
          state.quarantine[value.uuid] = value;
        } else if constexpr (std::is_same_v<T, UserRecord>) {
          state.users[value.name] = value;
        } else if constexpr (std::is_same_v<T, JoinRecord>) {
          state.joins[value.serial] = value;
        } else if constexpr (std::is_same_v<T, DenyRecord>) {
          state.denied[value.serial] = value;
        } else if constexpr (std::is_same_v<T, IdemRecord>) {
          state.idem[{value.user, value.key}] = value;
        } else if constexpr (std::is_same_v<T, SecretRecord>) {
          state.secrets[{value.job, value.name}] = value;
        } else {
          static_assert(kAlwaysFalse<T>);
        }
      },
      entity);
}

}  // namespace

void EraseEntity(State& state, const Entity& entity) {
  std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, ClusterRecord>) {
          state.cluster = ClusterRecord{};
        } else if constexpr (std::is_same_v<T, JobRecord>) {
          Unindex(state, value.id);
          state.jobs.erase(value.id);
        } else if constexpr (std::is_same_v<T, SpecRecord>) {
          state.specs.erase(value.id);
        } else if constexpr (std::is_same_v<T, PlanChunkRecord>) {
          state.plan_chunks[value.key].erase(value.chunk);
          if (state.plan_chunks[value.key].empty()) state.plan_chunks.erase(value.key);
        } else if constexpr (std::is_same_v<T, AttemptRecord>) {
          state.attempts.erase(value.key);
          state.plans.erase(value.key);
          state.live.attempts.erase(value.key);
        } else if constexpr (std::is_same_v<T, AllocRecord>) {
          Unindex(state, value);
          state.allocs[value.key].erase(value.node);
          if (state.allocs[value.key].empty()) state.allocs.erase(value.key);
        } else if constexpr (std::is_same_v<T, RankRecord>) {
          state.ranks[value.key].erase(value.rank);
          if (state.ranks[value.key].empty()) state.ranks.erase(value.key);
        } else if constexpr (std::is_same_v<T, NodeRecord>) {
          state.nodes.erase(value.id);
        } else if constexpr (std::is_same_v<T, InventoryRecord>) {
          UnindexInventory(state, value.inventory.node);
          state.inventories.erase(value.inventory.node);
        } else if constexpr (std::is_same_v<T, GpuRecord>) {
          state.quarantine.erase(value.uuid);
        } else if constexpr (std::is_same_v<T, UserRecord>) {
          state.users.erase(value.name);
        } else if constexpr (std::is_same_v<T, JoinRecord>) {
          state.joins.erase(value.serial);
        } else if constexpr (std::is_same_v<T, DenyRecord>) {
          state.denied.erase(value.serial);
        } else if constexpr (std::is_same_v<T, IdemRecord>) {
          state.idem.erase({value.user, value.key});
        } else if constexpr (std::is_same_v<T, SecretRecord>) {
          state.secrets.erase({value.job, value.name});
        } else {
          static_assert(kAlwaysFalse<T>);
        }
      },
      entity);
}

std::optional<Entity> FindEntity(const State& state, const Entity& like) {
  const auto look = [](const auto& map, const auto& key) -> std::optional<Entity> {
    const auto found = map.find(key);
    if (found == map.end()) return std::nullopt;
    return Entity(found->second);
  };
  const auto look_inside = [&](const auto& map, const Key& outer,
                               const auto& inner) -> std::optional<Entity> {
    const auto found = map.find(outer);
    if (found == map.end()) return std::nullopt;
    return look(found->second, inner);
  };
  return std::visit(
      [&](const auto& value) -> std::optional<Entity> {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, ClusterRecord>) {
          return Entity(state.cluster);
        } else if constexpr (std::is_same_v<T, JobRecord>) {
          return look(state.jobs, value.id);
        } else if constexpr (std::is_same_v<T, SpecRecord>) {
          return look(state.specs, value.id);
        } else if constexpr (std::is_same_v<T, PlanChunkRecord>) {
          const auto chunks = state.plan_chunks.find(value.key);
          if (chunks == state.plan_chunks.end()) return std::nullopt;
          const auto chunk = chunks->second.find(value.chunk);
          if (chunk == chunks->second.end()) return std::nullopt;
          return Entity(PlanChunkRecord{value.key, value.chunk, chunk->second});
        } else if constexpr (std::is_same_v<T, AttemptRecord>) {
          return look(state.attempts, value.key);
        } else if constexpr (std::is_same_v<T, AllocRecord>) {
          return look_inside(state.allocs, value.key, value.node);
        } else if constexpr (std::is_same_v<T, RankRecord>) {
          return look_inside(state.ranks, value.key, value.rank);
        } else if constexpr (std::is_same_v<T, NodeRecord>) {
          return look(state.nodes, value.id);
        } else if constexpr (std::is_same_v<T, InventoryRecord>) {
          const auto found = state.inventories.find(value.inventory.node);
          if (found == state.inventories.end()) return std::nullopt;
          return Entity(InventoryRecord{*found->second});
        } else if constexpr (std::is_same_v<T, GpuRecord>) {
          return look(state.quarantine, value.uuid);
        } else if constexpr (std::is_same_v<T, UserRecord>) {
          return look(state.users, value.name);
        } else if constexpr (std::is_same_v<T, JoinRecord>) {
          return look(state.joins, value.serial);
        } else if constexpr (std::is_same_v<T, DenyRecord>) {
          return look(state.denied, value.serial);
        } else if constexpr (std::is_same_v<T, IdemRecord>) {
          return look(state.idem, std::pair(value.user, value.key));
        } else if constexpr (std::is_same_v<T, SecretRecord>) {
          return look(state.secrets, std::pair(value.job, value.name));
        } else {
          static_assert(kAlwaysFalse<T>);
        }
      },
      like);
}

void Apply(State& state, const Record& record) {
  if (const auto* put = std::get_if<Put>(&record)) {
    Store(state, put->entity);
  } else if (const auto* erased = std::get_if<Delete>(&record)) {
    const std::optional<Entity> named = EntityOfKey(erased->key);
    LAUNCH_CHECK(named, fmt::format("no entity of this kind is ever deleted: {}", erased->key));
    EraseEntity(state, *named);
  }  // event rows live in the store only
}

const NodeInventory* InventoryOf(const State& state, const NodeId& node) {
  const auto found = state.inventories.find(node);
  return found == state.inventories.end() ? nullptr : found->second.get();
}

const AllocRecord* FindAlloc(const State& state, const Key& key, const NodeId& node) {
  const auto allocs = state.allocs.find(key);
  if (allocs == state.allocs.end()) return nullptr;
  const auto alloc = allocs->second.find(node);
  return alloc == allocs->second.end() ? nullptr : &alloc->second;
}

bool HasRank(const AllocRecord& alloc, Rank rank) {
  return std::find(alloc.ranks.begin(), alloc.ranks.end(), rank) != alloc.ranks.end();
}

bool IsReleased(const AllocRecord& alloc) {
  return alloc.phase == StoredAllocPhase::kReleased ||
         alloc.phase == StoredAllocPhase::kQuarantined || alloc.phase == StoredAllocPhase::kRefused;
}

// ---- what may be used ----

namespace {

// Another live node that reported the device earlier: it keeps it.
std::optional<NodeId> EarlierReporter(const State& state, const NodeId& node, const GpuUuid& gpu) {
  const auto reporters = state.reported_by.find(gpu);
  if (reporters == state.reported_by.end()) return std::nullopt;
  const auto live = state.live.nodes.find(node);
  for (const NodeId& other : reporters->second) {
    const auto twin = state.live.nodes.find(other);
    if (other == node || twin == state.live.nodes.end()) continue;
    if (!twin->second.session || twin->second.silent) continue;
    if (live == state.live.nodes.end() ||
        std::tie(twin->second.attached, other) < std::tie(live->second.attached, node)) {
      return other;
    }
  }
  return std::nullopt;
}

}  // namespace

bool MaySpeakFor(const State& state, const NodeId& node, const GpuUuid& gpu) {
  if (const auto owner = state.gpu_owner.find(gpu); owner != state.gpu_owner.end()) {
    const AllocRecord* alloc = FindAlloc(state, owner->second, node);
    return alloc != nullptr && std::ranges::find(alloc->gpus, gpu) != alloc->gpus.end();
  }
  const NodeInventory* inventory = InventoryOf(state, node);
  if (inventory == nullptr) return false;
  for (const GpuDevice& device : inventory->gpus) {
    const bool slice =
        std::ranges::any_of(device.mig, [&](const MigSlice& one) { return one.uuid == gpu; });
    if (device.uuid == gpu || slice) return !EarlierReporter(state, node, device.uuid);
  }
  return false;
}

std::string WhyUnschedulable(const State& state, const NodeId& node) {
  const auto live = state.live.nodes.find(node);
  if (live == state.live.nodes.end() || !live->second.session) return "silent";
  if (live->second.silent) return "silent: " + live->second.silent_why;
  if (!live->second.strangers.empty()) {
    const std::string key = ToString(live->second.strangers.begin()->first);
    return fmt::format("runs {}, of no job here: launch quarantine release {}", key, key);
  }
  if (live->second.turned_away) return "turns jobs away: " + live->second.turned_away->why;
  const auto record = state.nodes.find(node);
  if (record != state.nodes.end() && record->second.drained) {
    return record->second.drain_reason.empty() ? "drained"
                                               : "drained: " + record->second.drain_reason;
  }
  const auto inventory = state.inventories.find(node);
  if (inventory == state.inventories.end()) return "no inventory";
  for (const GpuDevice& gpu : inventory->second->gpus) {
    if (const auto other = EarlierReporter(state, node, gpu.uuid)) {
      return fmt::format("GPU {} is also reported by node {}", gpu.uuid.value, other->value);
    }
  }
  if (HasOnlyBadGpus(*inventory->second)) {
    return "no working GPU: " + HealthOf(*inventory->second).reason;
  }
  return {};
}

bool IsSchedulable(const State& state, const NodeId& node) {
  return WhyUnschedulable(state, node).empty();
}

namespace {

// Of one node, what jobs have that do not run there: those whose plan is being made, and those that
// keep their place until they start again.
struct Reserved {
  std::set<GpuUuid> gpus;
  int cpus = 0;
  std::uint64_t memory_bytes = 0;
};

// By node, in one walk over the jobs: there may be as many of them as nodes.
std::map<NodeId, Reserved> ReservedNodes(const State& state, JobId own) {
  std::map<NodeId, Reserved> nodes;
  for (const auto& [job, hold] : state.live.holds) {
    for (std::size_t i = 0; i < hold.nodes.size(); ++i) {
      Reserved& reserved = nodes[hold.nodes[i]];
      reserved.gpus.insert(hold.gpus[i].begin(), hold.gpus[i].end());
      reserved.cpus += hold.cpus[i];
      reserved.memory_bytes += hold.memory_bytes;
    }
  }
  for (const JobId job : state.keepers) {
    // With a hold: that stands for it.
    if (job == own || state.live.holds.contains(job) || Planted(Bug::kOfferedPlace)) continue;
    const auto allocs = state.allocs.find(Key{job, Attempt{state.jobs.at(job).keeps}});
    if (allocs == state.allocs.end()) continue;
    for (const auto& [node, alloc] : allocs->second) {
      if (!IsReleased(alloc)) continue;  // the node holds it: counted there
      Reserved& reserved = nodes[node];
      reserved.gpus.insert(alloc.gpus.begin(), alloc.gpus.end());
      reserved.cpus += alloc.cpus;
      reserved.memory_bytes += alloc.memory_bytes;
    }
  }
  return nodes;
}

effect::NodeOffer OfferOf(const State& state, const NodeId& node,
                          const std::map<NodeId, Reserved>& reserved) {
  static const Reserved kNothing;
  const auto entry = reserved.find(node);
  const Reserved& kept = entry == reserved.end() ? kNothing : entry->second;
  const std::shared_ptr<const NodeInventory>& inventory = state.inventories.at(node);
  int cpus = kept.cpus;
  std::uint64_t memory_bytes = kept.memory_bytes;
  if (const auto held = state.held_by_node.find(node); held != state.held_by_node.end()) {
    for (const Key& key : held->second) {
      const AllocRecord& alloc = state.allocs.at(key).at(node);
      cpus += alloc.cpus;
      memory_bytes += alloc.memory_bytes;
    }
  }
  const auto live = state.live.nodes.find(node);
  const auto is_busy = [&](const GpuUuid& gpu) {
    return live != state.live.nodes.end() && live->second.busy_gpus.contains(gpu);
  };
  effect::NodeOffer offer;
  offer.inventory = inventory;
  for (std::size_t i = 0; i < inventory->gpus.size(); ++i) {
    const GpuDevice& gpu = inventory->gpus[i];
    if (gpu.health == Health::kBad || state.gpu_owner.contains(gpu.uuid) ||
        state.quarantine.contains(gpu.uuid) || kept.gpus.contains(gpu.uuid) || is_busy(gpu.uuid)) {
      continue;
    }
    offer.free_gpus.push_back(static_cast<int>(i));
  }
  offer.free_cpus = std::max(0, inventory->cores - cpus);
  offer.free_memory_bytes =
      memory_bytes < inventory->memory_bytes ? inventory->memory_bytes - memory_bytes : 0;
  offer.schedulable = IsSchedulable(state, node);
  if (const auto record = state.nodes.find(node); record != state.nodes.end()) {
    offer.account = record->second.account;
    offer.links = record->second.links;
  }
  return offer;
}

}  // namespace

effect::NodeOffer MakeOffer(const State& state, const NodeId& node) {
  return OfferOf(state, node, ReservedNodes(state, {}));
}

std::vector<effect::NodeOffer> MakeOffers(const State& state, JobId own) {
  const std::map<NodeId, Reserved> reserved = ReservedNodes(state, own);
  std::vector<effect::NodeOffer> offers;
  offers.reserve(state.inventories.size());
  for (const auto& [node, inventory] : state.inventories)
    offers.push_back(OfferOf(state, node, reserved));
  return offers;
}

void RemakeOffers(const State& state, const std::vector<NodeId>& nodes,
                  std::vector<effect::NodeOffer>& offers) {
  const std::map<NodeId, Reserved> reserved = ReservedNodes(state, {});
  for (effect::NodeOffer& offer : offers) {
    const NodeId& node = offer.inventory->node;
    if (std::ranges::find(nodes, node) != nodes.end()) offer = OfferOf(state, node, reserved);
  }
}

}  // namespace launch::controller
