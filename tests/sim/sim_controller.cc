#include "tests/sim/sim_controller.h"

#include <algorithm>
#include <utility>

#include "common/planted.h"
#include "controller/store/record_codec.h"
#include "controller/store/store_tools.h"
#include "tests/fakes/canned_plan.h"

namespace launch::sim {

using controller::Decision;
using controller::Entity;

namespace {

constexpr std::size_t kBatch = 256;

controller::Committed Apply(SimDisk& disk, const controller::Batch& batch) {
  ++disk.revision;
  for (const auto& [key, value] : batch.puts) disk.rows[key] = {key, value, disk.revision};
  for (const std::string& key : batch.deletes) disk.rows.erase(key);
  controller::Committed committed{disk.revision, batch.events.empty() ? 0 : disk.events + 1};
  disk.events += batch.events.size();
  disk.unwitnessed = false;
  return committed;
}

std::string PhaseOf(const controller::State& state, const Key& key) {
  static constexpr const char* kPhases[] = {"preparing", "launching", "running", "stopping",
                                            "ended"};
  const auto attempt = state.attempts.find(key);
  return attempt == state.attempts.end() ? "unknown"
                                         : kPhases[static_cast<std::size_t>(attempt->second.phase)];
}

void CountCells(World& world, const controller::State& state, const controller::Event& event) {
  static constexpr const char* kUp[] = {
      "Hello", "Beat",    "Samples",    "InventoryChanged", "Accepted", "Refused", "Staging",
      "Ready", "Started", "RankExited", "Released",         "Notice",   "Stacks",  "Heard"};
  static constexpr const char* kPhases[] = {"accepted", "ready",    "started",
                                            "exited",   "released", "dropped"};
  auto& cells = world.coverage.controller_cells;
  ++world.coverage.events;
  if (const auto* said = std::get_if<controller::event::NodeSaid>(&event)) {
    std::string phase = "-";
    std::visit(
        [&](const auto& body) {
          if constexpr (requires { body.key.job; }) {
            if constexpr (std::is_same_v<decltype(body.key), Key>) phase = PhaseOf(state, body.key);
          }
          if constexpr (requires { body.report.key; }) phase = PhaseOf(state, body.report.key);
        },
        said->message);
    ++cells[phase + " x " + kUp[said->message.index()]];
  } else if (const auto* hello = std::get_if<controller::event::NodeAttached>(&event)) {
    for (const AllocationStatus& status : hello->hello.allocations) {
      ++cells[PhaseOf(state, status.key) + " x Hello with " +
              kPhases[static_cast<std::size_t>(status.phase)]];
    }
    const auto held = state.held_by_node.find(hello->node);
    if (held == state.held_by_node.end()) return;
    for (const Key& key : held->second) {
      const bool has_it =
          std::any_of(hello->hello.allocations.begin(), hello->hello.allocations.end(),
                      [&](const AllocationStatus& one) { return one.key == key; });
      if (!has_it) ++cells[PhaseOf(state, key) + " x Hello without"];
    }
  } else if (const auto* cancel = std::get_if<controller::event::Cancel>(&event)) {
    for (const JobId job : cancel->jobs) {
      const auto found = state.jobs.find(job);
      const bool active =
          found != state.jobs.end() && found->second.phase == controller::JobPhase::kActive;
      ++cells[(active ? PhaseOf(state, Key{job, Attempt{found->second.attempts}})
                      : std::string("queued or done")) +
              " x Cancel"];
    }
  } else if (std::get_if<controller::event::Tick>(&event) != nullptr) {
    for (const JobId job : state.active) {
      ++cells[PhaseOf(state, Key{job, Attempt{state.jobs.at(job).attempts}}) + " x Tick"];
    }
  }
}

}  // namespace

controller::Committed SimDisk::Write(const controller::Batch& batch) { return Apply(*this, batch); }

void SimDisk::Sync() {
  for (const controller::Batch& batch : std::exchange(unsynced_, {})) Apply(*this, batch);
}

// One life of the process: everything that a kill takes away.
class SimController::Process final : public controller::Store,
                                     public controller::Brain,
                                     public Clock {
 public:
  explicit Process(SimController& owner)
      : owner_(owner), mailbox(65'536), revision_(owner.disk_.revision) {}

  void MakeLoop(controller::Revision revision) {
    loop.emplace(
        controller::Loop::Parts{*this, *this, mailbox, owner_, *this, controller::EncodeRecord},
        revision, Fence{state.cluster.incarnation, state.cluster.epoch, revision});
  }

  // Store
  Result<controller::Snapshot> Load() override {
    owner_.disk_.Sync();
    revision_ = owner_.disk_.revision;
    controller::Snapshot snapshot{
        .revision = revision_, .last_event = owner_.disk_.events, .rows = {}};
    snapshot.unwitnessed = owner_.disk_.unwitnessed;
    for (const auto& [key, row] : owner_.disk_.rows) snapshot.rows.push_back(row);
    return snapshot;
  }
  Result<std::vector<controller::StoredRow>> Read(const std::string&) override {
    return std::vector<controller::StoredRow>{};
  }
  Result<controller::Committed> Commit(const controller::Batch& batch) override {
    World& world = owner_.world_;
    const Error killed{ErrorCode::kIo, "killed", "", std::nullopt};
    if (batch.expected != revision_) {
      world.Violation("C6 a batch follows revision " + std::to_string(batch.expected) + ", not " +
                      std::to_string(revision_));
    }
    if (batch.puts.size() + batch.deletes.size() > 0) ++world.coverage.commits;
    if (owner_.Dies("store.commit.before")) return Unexpected(killed);
    if (owner_.disk_.full) {
      return Fail(ErrorCode::kResourceExhausted, "no space left on the store's disk");
    }
    controller::Committed committed;
    if (Planted(Bug::kUnsyncedStore)) {
      owner_.disk_.WriteUnsynced(batch);
      committed = {revision_ + 1, batch.events.empty() ? 0U : 1U};
    } else {
      committed = owner_.disk_.Write(batch);
    }
    ++revision_;
    owner_.Check(batch);
    if (owner_.Dies("store.commit.after")) return Unexpected(killed);
    return committed;
  }
  Result<std::vector<controller::StoredEvent>> Events(std::uint64_t, std::size_t) override {
    return std::vector<controller::StoredEvent>{};
  }
  controller::StoreLimits Limits() const override { return {}; }

  // Brain
  Decision Decide(const controller::Event& event, const controller::Now& now) override {
    CountCells(owner_.world_, state, event);
    Decision decision = controller::Decide(state, event, now);
    if (!decision.records.empty()) {
      for (const std::string& violation : controller::CheckInvariants(state)) {
        owner_.world_.Violation("C6 " + violation);
      }
    }
    return decision;
  }
  void Undo(const Decision& decision) override { controller::Undo(state, decision); }
  std::optional<BootTime> NextDeadline() override { return controller::NextDeadline(state); }

  // Clock
  BootTime Now() override { return BootMs(owner_.world_.now - owner_.booted_at_); }
  WallTime WallNow() override {
    constexpr std::int64_t kEpoch = 1'700'000'000'000;
    return WallMs(kEpoch + owner_.world_.now + owner_.world_.wall_offset);
  }

 private:
  SimController& owner_;

 public:
  controller::State state;
  Mailbox<controller::Event> mailbox;
  std::size_t waiting = 0;  // in the mailbox
  std::optional<controller::Loop> loop;
  int wait_ms = -1;  // of the turn that waits now
  std::optional<std::int64_t> wake_at;

 private:
  controller::Revision revision_;
};

SimController::SimController(World& world, Hooks hooks)
    : world_(world), hooks_(std::move(hooks)), rng_(world.options.seed, "controller") {}
SimController::~SimController() = default;

const controller::State& SimController::state() const { return process_->state; }

Result<controller::StoredPlan> SimController::Decode(std::string_view bytes) const {
  const auto found = plans_.find(std::string(bytes));
  if (found == plans_.end()) return Fail(ErrorCode::kDataLoss, "no such plan");
  return found->second;
}

bool SimController::Dies(const std::string& point) {
  if (dying_ || !world_.Pass("", point)) return dying_;
  dying_ = true;
  return true;
}

void SimController::Start() {
  if (process_) return;
  ++incarnation_;
  dying_ = paused_ = false;
  process_ = std::make_unique<Process>(*this);
  Process& process = *process_;
  const auto snapshot = process.Load();
  for (const controller::StoredRow& row : snapshot->rows) {
    Result<Entity> entity = controller::DecodeRecord(row.key, row.value);
    if (!entity) {
      world_.Violation("C6 row " + row.key + " cannot be read back: " + entity.error().message);
      process_.reset();
      return;
    }
    controller::Apply(process.state, controller::Put{std::move(*entity)});
  }
  process.state.live.host_boot = "host-boot-" + std::to_string(boots_);
  // At the first start of a boot the wall clock is all there is: what it jumped until then counts.
  if (known_boot_ != boots_) {
    world_.host_boot = boots_;
    world_.wall_offset_of_boot = world_.wall_offset;
  }
  const Result<Decision> opening = controller::Start(
      process.state, [this](std::string_view bytes, const std::string&) { return Decode(bytes); },
      "sim", {process.Now(), process.WallNow()}, snapshot->unwitnessed, snapshot->revision);
  if (!opening) {
    world_.Violation("C6 the store cannot be loaded: " + opening.error().message);
    process_.reset();
    return;
  }
  process.MakeLoop(snapshot->revision);
  if (auto committed = process.loop->Commit(*opening); !committed) {
    Ended(committed.error());
    return;
  }
  known_boot_ = boots_;
  world_.Trace("controller up, epoch " + std::to_string(process.state.cluster.epoch));
  if (Dies("start.loaded")) {
    Ended({ErrorCode::kIo, "killed", "", std::nullopt});
    return;
  }
  process.wait_ms = process.loop->WaitMs();
  if (process.wait_ms >= 0) WakeAt(world_.now + process.wait_ms);
}

void SimController::Kill() {
  if (!process_) return;
  world_.Trace("controller killed");
  process_.reset();
  ++incarnation_;
  paused_ = false;
  hooks_.died();
}

void SimController::PowerCut() {
  Kill();
  disk_.PowerCut();
  ++boots_;
  booted_at_ = world_.now;
}

void SimController::PutBack(const Backup& copy, bool unwitnessed) {
  Kill();
  disk_.Sync();
  disk_.rows = copy.rows;
  disk_.revision = copy.revision;
  disk_.unwitnessed = unwitnessed;
  quarantined_on_.clear();
  known_boot_ = 0;  // what was started before it is older than this boot, for all that store knows
  world_.StoreWentBack(Durable(), unwitnessed);
}

void SimController::Restore(const Backup& backup) {
  Kill();
  disk_.Sync();
  const std::string key = controller::KeyOf(controller::ClusterRecord{});
  const auto cluster_in = [&](const std::map<std::string, controller::StoredRow>& rows) {
    const auto row = rows.find(key);
    if (row == rows.end()) return controller::ClusterRecord{};
    return std::get<controller::ClusterRecord>(*controller::DecodeRecord(key, row->second.value));
  };
  const controller::ClusterRecord old = cluster_in(disk_.rows);
  controller::Batch batch{.expected = backup.revision};
  batch.puts.emplace_back(
      key, controller::EncodeRecord(controller::GoneOnFrom(cluster_in(backup.rows), old)));
  disk_.rows = backup.rows;
  disk_.revision = backup.revision;
  disk_.Write(batch);
  PutBack({disk_.rows, disk_.revision}, true);
}

void SimController::Resume() {
  if (!std::exchange(paused_, false) || !process_) return;
  WakeAt(world_.now);
}

bool SimController::Post(controller::Event event) {
  if (!process_) return false;
  process_->mailbox.PushAlways(std::move(event));
  ++process_->waiting;
  // While one batch is written the next gathers.
  WakeAt(world_.now + rng_.Between(0, 4));
  return true;
}

void SimController::WakeAt(std::int64_t at) {
  Process& process = *process_;
  at = std::max(at, world_.now);
  if (process.wake_at && *process.wake_at <= at) return;
  process.wake_at = at;
  world_.At(at - world_.now, [this, at, incarnation = incarnation_] {
    if (!process_ || incarnation != incarnation_ || process_->wake_at != at) return;
    process_->wake_at.reset();
    Wake();
  });
}

void SimController::Wake() {
  if (paused_) return;
  Process& process = *process_;
  std::vector<controller::Event> events = process.mailbox.TakeBatch(kBatch, 0);
  process.waiting -= events.size();
  const std::uint64_t incarnation = incarnation_;
  const Result<void> turned = process.loop->TurnWith(std::move(events), process.wait_ms);
  if (!process_ || incarnation != incarnation_) return;
  if (!turned || dying_) {
    Ended(turned ? Error{ErrorCode::kIo, "killed", "", std::nullopt} : turned.error());
    return;
  }
  process.wait_ms = process.loop->WaitMs();
  if (process.waiting > 0) {
    WakeAt(world_.now + 1);
  } else if (process.wait_ms >= 0) {
    WakeAt(world_.now + std::max(process.wait_ms, 1));
  }
}

// The loop gave up, or a crash point was reached: the supervisor starts it again.
void SimController::Ended(const Error& error) {
  world_.Trace("controller ended: " + error.message);
  Kill();
  world_.At(rng_.Between(100, 8'000), [this] { Start(); });
}

std::map<std::string, Entity> SimController::Durable() {
  std::map<std::string, Entity> durable;
  for (const auto& [key, row] : disk_.rows) {
    if (Result<Entity> entity = controller::DecodeRecord(key, row.value))
      durable.emplace(key, *entity);
  }
  return durable;
}

void SimController::CompareWithDisk() {
  if (!process_) return;
  const controller::State& state = process_->state;
  controller::State loaded;
  for (const auto& [key, entity] : Durable()) controller::Apply(loaded, controller::Put{entity});
  std::string differs;
  const auto same = [&](const char* what, const auto& a, const auto& b) {
    if (!(a == b)) differs += std::string(" ") + what;
  };
  same("jobs", loaded.jobs, state.jobs);
  same("attempts", loaded.attempts, state.attempts);
  same("allocations", loaded.allocs, state.allocs);
  same("ranks", loaded.ranks, state.ranks);
  same("nodes", loaded.nodes, state.nodes);
  same("keys", loaded.idem, state.idem);
  same("quarantine", loaded.quarantine, state.quarantine);
  same("queue", loaded.queue, state.queue);
  same("active", loaded.active, state.active);
  same("owners", loaded.gpu_owner, state.gpu_owner);
  same("held", loaded.held_by_node, state.held_by_node);
  if (!differs.empty()) world_.Violation("C6 memory and store differ:" + differs);
}

// What is durable now, whatever becomes of the process.
void SimController::Check(const controller::Batch& batch) {
  std::set<GpuUuid> quarantined;
  for (const auto& [gpu, record] : process_->state.quarantine) quarantined.insert(gpu);
  std::vector<Entity> entities;
  for (const auto& [key, value] : batch.puts) {
    Result<Entity> entity = controller::DecodeRecord(key, value);
    if (!entity) {
      world_.Violation("C6 row " + key + " cannot be read back: " + entity.error().message);
      continue;
    }
    hooks_.committed(*entity);
    entities.push_back(std::move(*entity));
  }
  // What became of nodes and ranks first: the end of a job is judged by it.
  const auto after_nodes = std::stable_partition(
      entities.begin(), entities.end(),
      [](const Entity& entity) { return std::holds_alternative<controller::NodeRecord>(entity); });
  std::stable_partition(after_nodes, entities.end(), [](const Entity& entity) {
    return std::holds_alternative<controller::RankRecord>(entity);
  });
  for (const Entity& entity : entities) world_.Committed(entity, quarantined);
  for (const std::string& key : batch.deletes) {
    if (!key.starts_with("gpu/")) continue;
    const GpuUuid gpu{key.substr(4)};
    const auto was_on = quarantined_on_.find(gpu);
    const bool forgotten =
        was_on != quarantined_on_.end() &&
        std::ranges::find(batch.deletes, "node/" + was_on->second.value) != batch.deletes.end();
    world_.QuarantineEnded(gpu, forgotten);
  }
  for (const std::string& key : batch.deletes) {
    if (key.starts_with("node/")) world_.NodeForgotten(NodeId{key.substr(5)});
  }
  world_.CommitEnds();
  quarantined_on_.clear();
  for (const auto& [gpu, record] : process_->state.quarantine) quarantined_on_[gpu] = record.node;
}

// ---- what the loop lets out ----

void SimController::Committed(const controller::Change&) { (void)Dies("out.committed"); }

void SimController::Reply(controller::effect::Reply reply) {
  if (dying_) return;
  hooks_.reply(reply);
  (void)Dies("out.reply");
}

void SimController::Send(controller::SessionId session, const Fence& fence, ToNode message) {
  if (dying_) return;
  ToNodeEnvelope envelope;
  envelope.fence = fence;
  envelope.session = session.value;
  envelope.body = std::move(message);
  hooks_.send(session, std::move(envelope));
  (void)Dies("out.send");
}

void SimController::CloseSession(controller::SessionId session, const std::string&) {
  if (dying_) return;
  hooks_.close(session);
  (void)Dies("out.close");
}

void SimController::WantPlan(controller::effect::PlanWanted wanted) {
  if (dying_) return;
  controller::event::Planned planned{wanted.ticket, controller::CannedPlan(wanted)};
  if (wanted.placed) {
    plans_[planned.outcome.stored] = {*planned.outcome.plan, planned.outcome.allocations};
  }
  world_.At(rng_.Between(1, 80), [this, incarnation = incarnation_, planned] {
    if (incarnation == incarnation_) Post(planned);
  });
  (void)Dies("out.plan");
}

void SimController::ReadPlans(controller::effect::ReadPlans) {}

// A worker that reads logs: slow at times, and now and then it says nothing at all.
void SimController::Diagnose(controller::effect::DiagnosisWanted wanted) {
  if (dying_) return;
  if (wanted.ranks.empty()) {
    world_.Violation("C4 " + ToString(wanted.key) +
                     " is to be diagnosed, but none of its ranks failed");
    return;
  }
  controller::event::Diagnosed diagnosed{wanted.key, std::nullopt};
  if (rng_.OneIn(2)) {
    diagnosed.verdict.emplace();
    diagnosed.verdict->label = "unknown";
    diagnosed.verdict->action = "retry_same";
    diagnosed.verdict->rank = wanted.ranks.front().exit.rank;
  }
  const std::int64_t takes = rng_.Between(1, rng_.OneIn(5) ? 15'000 : 200);
  if (rng_.OneIn(20)) return;
  world_.At(takes, [this, incarnation = incarnation_, diagnosed] {
    if (incarnation == incarnation_) Post(diagnosed);
  });
}

}  // namespace launch::sim
