#include "tests/sim/sim_cluster.h"

#include <algorithm>
#include <utility>

#include "tests/fakes/canned_plan.h"

namespace launch::sim {

using controller::Decision;
using controller::Entity;
using controller::SessionId;

namespace {

constexpr std::int64_t kFaultsEnd = 150'000;
constexpr std::int64_t kRunEnd = kFaultsEnd + 30 * 60'000;
const char* const kNodes[] = {"n1", "n2", "n3"};

std::string Describe(const std::string& node, const std::optional<FromNode>& up,
                     const std::optional<ToNodeEnvelope>& down) {
  static constexpr const char* kUp[] = {"Hello",    "Beat",       "Samples",  "InventoryChanged",
                                        "Accepted", "Refused",    "Staging",  "Ready",
                                        "Started",  "RankExited", "Released", "Notice"};
  static constexpr const char* kDown[] = {"Welcome", "Pong", "Prepare", "Stage",
                                          "Go",      "Stop", "ExitAck", "Forget"};
  const auto key = [](const auto& message) -> std::string {
    if constexpr (requires { message.key.job; }) return " " + ToString(message.key);
    if constexpr (requires { message.spec.key; }) return " " + ToString(message.spec.key);
    if constexpr (requires { message.report.key; }) return " " + ToString(message.report.key);
    return "";
  };
  return up ? node + " says " + kUp[up->index()] + std::visit(key, *up)
            : node + " is told " + kDown[down->body.index()] + std::visit(key, down->body);
}

std::optional<SessionId> SessionOf(const controller::Event& event) {
  return std::visit(
      [](const auto& what) -> std::optional<SessionId> {
        if constexpr (requires { what.session; }) return what.session;
        return std::nullopt;
      },
      event);
}

}  // namespace

SimCluster::SimCluster(const Options& options)
    : world_(options),
      network_(options.seed, "network"),
      faults_(options.seed, "faults"),
      clients_(options.seed, "clients"),
      crashes_(options.seed, "crashes") {
  for (const char* name : kNodes) {
    const std::string node = name;
    links_[node];
    nodes_[node] = std::make_unique<SimNode>(
        world_, node,
        [this, node](std::uint64_t stream, FromNode message) {
          SendUp(node, stream, std::move(message));
        },
        [this, node](std::uint64_t stream) {
          CloseAgentSide(node, stream);
          world_.At(network_.Between(1, 500),
                    [this, node, stream] { CloseEndpoint(node, stream, "closed by the agent"); });
        });
  }
}

// ---- network ----

void SimCluster::Connect(const std::string& node) {
  Link& link = links_.at(node);
  if (nodes_.at(node)->agent_up() && !link.agent_open && !link.cut && state_) {
    // A half-open predecessor stays with the controller until a newer Hello replaces it.
    ++link.stream;
    link.agent_open = link.endpoint_open = true;
    link.session.reset();
    link.up.clear();
    link.down.clear();
    nodes_.at(node)->Tell(agent::told::LinkUp{link.stream});
  }
  world_.At(network_.Between(300, 3'000), [this, node] { Connect(node); });
}

void SimCluster::SendUp(const std::string& node, std::uint64_t stream, FromNode message) {
  Link& link = links_.at(node);
  if (stream != link.stream || !link.agent_open) return;
  link.up.push_back({world_.now + network_.Between(1, 60), std::move(message), std::nullopt});
  if (link.up.size() == 1) {
    world_.At(link.up.front().due - world_.now, [this, node, stream] { Pump(node, stream, true); });
  }
}

void SimCluster::SendDown(const std::string& node, const ToNode& body) {
  Link& link = links_.at(node);
  if (!link.endpoint_open || !link.session) return;
  ToNodeEnvelope envelope;
  envelope.fence = {state_->cluster.incarnation, state_->cluster.epoch, revision_};
  envelope.session = link.session->value;
  envelope.body = body;
  link.down.push_back({world_.now + network_.Between(1, 60), std::nullopt, std::move(envelope)});
  if (link.down.size() == 1) {
    world_.At(link.down.front().due - world_.now,
              [this, node, stream = link.stream] { Pump(node, stream, false); });
  }
}

void SimCluster::Pump(const std::string& node, std::uint64_t stream, bool up) {
  Link& link = links_.at(node);
  std::deque<Message>& queue = up ? link.up : link.down;
  if (stream != link.stream || queue.empty()) return;
  if (link.cut) {
    world_.At(200, [this, node, stream, up] { Pump(node, stream, up); });
    return;
  }
  // What a process wrote before it died still arrives; what nobody reads any more brings a reset.
  if (up ? !link.endpoint_open : !link.agent_open) {
    queue.clear();
    CloseAgentSide(node, stream);
    CloseEndpoint(node, stream, "reset by peer");
    return;
  }
  Message message = std::move(queue.front());
  queue.pop_front();
  if (!queue.empty()) {
    world_.At(queue.front().due - world_.now, [this, node, stream, up] { Pump(node, stream, up); });
  }
  Arrive(node, std::move(message));
}

void SimCluster::Arrive(const std::string& node, Message message) {
  Link& link = links_.at(node);
  if (world_.options.trace) world_.Trace(Describe(node, message.up, message.down));
  if (message.down) {
    nodes_.at(node)->Tell(agent::told::FromController{link.stream, std::move(*message.down)});
    return;
  }
  if (!state_) return;
  const NodeId id{node};
  if (auto* hello = std::get_if<from_node::Hello>(&*message.up)) {
    link.session = SessionId{next_session_++};
    Post(controller::event::NodeAttached{*link.session, id, std::move(*hello)});
    return;
  }
  if (!link.session) return;
  if (const auto* beat = std::get_if<from_node::Beat>(&*message.up)) {
    Post(controller::event::NodeBeat{*link.session, id, beat->pong_age_ms});
    if (state_) SendDown(node, to_node::Pong{beat->n});  // by the endpoint, not by the core
    return;
  }
  Post(controller::event::NodeSaid{*link.session, id, std::move(*message.up)});
}

void SimCluster::CloseAgentSide(const std::string& node, std::uint64_t stream) {
  Link& link = links_.at(node);
  if (stream != link.stream || !link.agent_open) return;
  link.agent_open = false;
  nodes_.at(node)->Tell(agent::told::LinkDown{stream, "closed"});
}

void SimCluster::CloseEndpoint(const std::string& node, std::uint64_t stream,
                               const std::string& why) {
  Link& link = links_.at(node);
  if (stream != link.stream || !link.endpoint_open) return;
  link.endpoint_open = false;
  if (link.session && state_) {
    Post(controller::event::NodeDetached{*link.session, NodeId{node}, why});
  }
}

// ---- the controller process ----

void SimCluster::StartController() {
  if (state_) return;
  ++process_;
  tick_at_.reset();
  state_.emplace();
  for (const auto& [key, entity] : durable_) controller::Apply(*state_, controller::Put{entity});
  const auto decode = [this](std::string_view bytes,
                             const std::string&) -> Result<controller::StoredPlan> {
    const auto found = plans_.find(std::string(bytes));
    if (found == plans_.end()) return Fail(ErrorCode::kDataLoss, "no such plan");
    return found->second;
  };
  const Result<Decision> started =
      controller::Start(*state_, decode, "sim", {BootMs(world_.now), WallMs(world_.now)});
  if (!started) {
    world_.Violation("C6 the store cannot be loaded: " + started.error().message);
    state_.reset();
    return;
  }
  world_.Trace("controller up, epoch " + std::to_string(state_->cluster.epoch));
  Commit(*started);
  ScheduleTick();
}

void SimCluster::KillController() {
  if (!state_) return;
  world_.Trace("controller killed");
  state_.reset();
  ++process_;
  for (auto& [node, link] : links_) {
    link.endpoint_open = false;
    world_.At(network_.Between(0, 1'000),
              [this, name = node, stream = link.stream] { CloseAgentSide(name, stream); });
  }
}

void SimCluster::Commit(const Decision& decision) {
  ++revision_;
  for (const controller::Record& record : decision.records) {
    if (const auto* put = std::get_if<controller::Put>(&record)) {
      durable_.insert_or_assign(KeyOf(put->entity), put->entity);
    } else if (const auto* erased = std::get_if<controller::Delete>(&record)) {
      durable_.erase(erased->key);
    }
  }
  std::set<GpuUuid> quarantined;
  for (const auto& [gpu, record] : state_->quarantine) quarantined.insert(gpu);
  for (const controller::Record& record : decision.records) {
    const auto* put = std::get_if<controller::Put>(&record);
    if (put == nullptr) continue;
    if (const auto* job = std::get_if<controller::JobRecord>(&put->entity);
        job != nullptr && !job->cancelled_by.empty()) {
      cancel_committed_.emplace(job->id, world_.now);
    }
    world_.Committed(put->entity, quarantined);
  }
}

void SimCluster::Post(const controller::Event& event) {
  const Decision decision =
      controller::Decide(*state_, event, {BootMs(world_.now), WallMs(world_.now)});
  if (!decision.records.empty()) {
    for (const std::string& violation : controller::CheckInvariants(*state_)) {
      world_.Violation("C6 " + violation);
    }
  }
  const bool faulty = !healed_ && !decision.records.empty();
  // The store is full: nothing of this happened, and whoever was part of it starts anew.
  if (faulty && crashes_.OneIn(full_odds_)) {
    world_.Trace("store full");
    controller::Undo(*state_, decision);
    for (const controller::Effect& effect : decision.effects) {
      if (const auto* wanted = std::get_if<controller::effect::PlanWanted>(&effect)) Plan(*wanted);
    }
    for (const std::string& violation : controller::CheckInvariants(*state_)) {
      world_.Violation("C6 after an undo: " + violation);
    }
    CompareWithStore();
    for (auto& [node, link] : links_) {
      if (!link.session || link.session != SessionOf(event)) continue;
      CloseEndpoint(node, link.stream, "store full");
      world_.At(network_.Between(1, 300),
                [this, name = node, stream = link.stream] { CloseAgentSide(name, stream); });
    }
    return;
  }
  const int crash =
      faulty && crashes_.OneIn(crash_odds_) ? static_cast<int>(crashes_.Between(1, 3)) : 0;
  if (world_.options.plant == Plant::kEffectsBeforeCommit && crash == 1) Execute(decision);
  if (crash == 1) {  // killed before the commit
    KillController();
  } else {
    Commit(decision);
    if (crash == 2) {  // killed between commit and effects
      KillController();
    } else {
      Execute(decision);
      if (crash == 3) KillController();
    }
  }
  if (crash != 0) world_.At(crashes_.Between(100, 8'000), [this] { StartController(); });
  if (state_) ScheduleTick();
}

void SimCluster::Execute(const Decision& decision) {
  for (const controller::Effect& effect : decision.effects) {
    if (const auto* send = std::get_if<controller::effect::Send>(&effect)) {
      for (auto& [node, link] : links_) {
        if (link.session != send->session || !link.endpoint_open) continue;
        if (const auto* go = std::get_if<to_node::Go>(&send->message)) {
          world_.go_sent[{go->key, NodeId{node}}] = world_.now;
        }
        SendDown(node, send->message);
      }
    } else if (const auto* close = std::get_if<controller::effect::CloseSession>(&effect)) {
      for (auto& [node, link] : links_) {
        if (link.session != close->session) continue;
        link.endpoint_open = false;
        world_.At(network_.Between(1, 500),
                  [this, name = node, stream = link.stream] { CloseAgentSide(name, stream); });
      }
    } else if (const auto* reply = std::get_if<controller::effect::Reply>(&effect)) {
      Answered(*reply);
    } else if (const auto* wanted = std::get_if<controller::effect::PlanWanted>(&effect)) {
      Plan(*wanted);
    } else if (const auto* diagnosis = std::get_if<controller::effect::DiagnosisWanted>(&effect)) {
      Diagnose(*diagnosis);
    }
  }
}

// Sometimes nothing is read, sometimes much later than anybody waits for.
void SimCluster::Diagnose(const controller::effect::DiagnosisWanted& wanted) {
  controller::event::Diagnosed diagnosed{wanted.key, std::nullopt};
  if (!crashes_.OneIn(4)) {
    Verdict verdict;
    verdict.label = "unknown";
    verdict.action = "retry_same";
    verdict.rank = wanted.ranks.front().exit.rank;
    diagnosed.verdict = std::move(verdict);
  }
  const std::int64_t took = crashes_.OneIn(8) ? 20'000 : network_.Between(1, 500);
  world_.At(took, [this, process = process_, diagnosed] {
    if (state_ && process == process_) Post(diagnosed);
  });
}

void SimCluster::Plan(const controller::effect::PlanWanted& wanted) {
  controller::event::Planned planned{wanted.ticket, controller::CannedPlan(wanted)};
  if (wanted.placed) {
    plans_[planned.outcome.stored] = {*planned.outcome.plan, planned.outcome.allocations};
  }
  world_.At(network_.Between(1, 80), [this, process = process_, planned] {
    if (state_ && process == process_) Post(planned);
  });
}

void SimCluster::ScheduleTick() {
  const std::optional<BootTime> due = controller::NextDeadline(*state_);
  if (!due) return;
  const std::int64_t at = std::max(ToMs(*due), world_.now + 1);
  if (tick_at_ && *tick_at_ <= at && *tick_at_ > world_.now) return;
  tick_at_ = at;
  world_.At(at - world_.now, [this, at, process = process_] {
    if (!state_ || process != process_ || tick_at_ != at) return;
    tick_at_.reset();
    Post(controller::event::Tick{});
  });
}

// C6: what is in memory is what a start from the store would see.
void SimCluster::CompareWithStore() {
  if (!state_) return;
  controller::State loaded;
  for (const auto& [key, entity] : durable_) controller::Apply(loaded, controller::Put{entity});
  const bool same = loaded.jobs == state_->jobs && loaded.attempts == state_->attempts &&
                    loaded.allocs == state_->allocs && loaded.ranks == state_->ranks &&
                    loaded.nodes == state_->nodes && loaded.idem == state_->idem &&
                    loaded.quarantine == state_->quarantine && loaded.queue == state_->queue &&
                    loaded.active == state_->active && loaded.gpu_owner == state_->gpu_owner &&
                    loaded.held_by_node == state_->held_by_node;
  if (!same) world_.Violation("C6 memory and store differ");
}

// ---- clients ----

void SimCluster::PlanClients() {
  const std::int64_t jobs = clients_.Between(2, 7);
  for (std::int64_t i = 0; i < jobs; ++i) {
    static constexpr const char* kNatures[] = {"ok", "ok", "crash", "recover", "forever"};
    const std::string nature = kNatures[clients_.Between(0, 4)];
    JobSpec spec;
    spec.name = nature + std::to_string(i);
    const int nodes = static_cast<int>(clients_.Between(1, 2));
    spec.nodes = {nodes, nodes, false};
    const int gpus = static_cast<int>(clients_.Between(0, 2));
    spec.gpus_written = true;
    spec.gpus = {{"", gpus}};
    spec.run = "python train.py";
    spec.workdir = "/proj";
    if (gpus == 0) {
      spec.device = DeviceChoice::kCpu;
      spec.procs_per_node = 1;
    }
    spec.stop_duration = Millis{clients_.Between(500, 8'000)};
    spec.retry.max = static_cast<int>(clients_.Between(0, 3));
    if (nature == "recover") spec.retry.recover_on_exit_codes = {33};
    if (clients_.OneIn(8)) spec.time_limit = Millis{clients_.Between(2'000, 20'000)};
    const bool cancel = clients_.OneIn(3);
    const std::string key = "key" + std::to_string(i);
    ++unanswered_;
    world_.At(clients_.Between(500, kFaultsEnd * 2 / 3),
              [this, key, spec, cancel] { TrySubmit(key, spec, cancel); });
  }
}

// The same key until there is an answer.
void SimCluster::TrySubmit(const std::string& key, const JobSpec& spec, bool cancel_later) {
  if (world_.submitted.contains(key)) return;
  world_.At(5'000, [this, key, spec, cancel_later] { TrySubmit(key, spec, cancel_later); });
  if (!state_) return;
  const std::uint64_t request = next_request_++;
  requests_[request] = {key, std::nullopt, cancel_later};
  controller::event::Submit submit;
  submit.request = controller::RequestId{request};
  submit.caller = {UserName{"ana"}, false};
  submit.idempotency_key = key;
  submit.digest = spec.name;
  submit.spec = spec;
  Post(submit);
}

void SimCluster::TryCancel(JobId job) {
  if (world_.cancelled.contains(job)) return;
  world_.At(3'000, [this, job] { TryCancel(job); });
  if (!state_) return;
  const std::uint64_t request = next_request_++;
  requests_[request] = {"", job, false};
  Post(controller::event::Cancel{controller::RequestId{request}, {UserName{"ana"}, false}, {job}});
}

void SimCluster::Answered(const controller::effect::Reply& reply) {
  const auto found = requests_.find(reply.request.value);
  if (found == requests_.end()) return;
  const Request request = found->second;
  requests_.erase(found);
  if (network_.OneIn(10) && !healed_) return;  // the answer is lost on its way
  if (!reply.body && reply.body.error().code == ErrorCode::kCannotFit) return;  // nodes still join
  if (!reply.body) {
    world_.Violation("C1 a request was refused: " + reply.body.error().message);
    return;
  }
  if (const auto* submitted = std::get_if<controller::reply::Submitted>(&*reply.body)) {
    const auto [entry, fresh] = world_.submitted.emplace(request.key, submitted->job);
    if (!fresh && entry->second != submitted->job) world_.Violation("C1 one key, two answers");
    if (!fresh) return;
    --unanswered_;
    world_.Trace("submitted " + request.key + " as " + std::to_string(submitted->job.value));
    if (request.cancel_later) {
      world_.At(clients_.Between(0, 20'000), [this, job = submitted->job] { TryCancel(job); });
    }
  } else if (request.job) {
    const auto committed = cancel_committed_.find(*request.job);
    world_.cancelled.emplace(*request.job,
                             committed == cancel_committed_.end() ? world_.now : committed->second);
  }
}

// ---- faults ----

void SimCluster::PlanFaults() {
  // Some seeds are storms: paths that are rare otherwise become common there.
  const bool storm = faults_.OneIn(4);
  if (storm) crash_odds_ = full_odds_ = 40;
  const std::int64_t faults = faults_.Between(1, storm ? 25 : 8);
  for (std::int64_t i = 0; i < faults; ++i) {
    const std::string node = kNodes[faults_.Between(0, 2)];
    const std::int64_t at = faults_.Between(1'000, kFaultsEnd - 1'000);
    const std::int64_t lasts = faults_.Between(100, faults_.OneIn(3) ? 90'000 : 9'000);
    const std::int64_t kind = faults_.Between(1, 9);
    world_.At(at, [this, node, lasts, kind] {
      Link& link = links_.at(node);
      if (kind <= 2) {
        KillController();
        world_.At(lasts / 4, [this] { StartController(); });
      } else if (kind <= 5) {
        nodes_.at(node)->KillAgent();
        link.agent_open = false;
        world_.At(network_.Between(0, link.cut ? 40'000 : 500), [this, node, stream = link.stream] {
          CloseEndpoint(node, stream, "reset by peer");
        });
        world_.At(lasts, [this, node] { nodes_.at(node)->StartAgent(); });
      } else if (kind <= 8) {
        if (link.cut) return;
        world_.Trace("cut " + node);
        link.cut = true;
        world_.At(network_.Between(1'000, 20'000), [this, node, stream = link.stream] {
          if (links_.at(node).cut) CloseAgentSide(node, stream);
        });
        world_.At(network_.Between(1'000, 40'000), [this, node, stream = link.stream] {
          if (links_.at(node).cut) CloseEndpoint(node, stream, "keepalive");
        });
        world_.At(lasts, [this, node] {
          world_.Trace("heal " + node);
          links_.at(node).cut = false;
        });
      } else {
        nodes_.at(node)->Reboot();
        link.agent_open = false;
        world_.At(lasts + 2'000, [this, node] { nodes_.at(node)->StartAgent(); });
      }
    });
  }
  world_.At(kFaultsEnd, [this] {
    healed_ = true;
    world_.Trace("healed");
    StartController();
    for (auto& [node, link] : links_) {
      link.cut = false;
      nodes_.at(node)->StartAgent();
    }
    // What runs for ever is ended by its user now.
    for (const auto& [key, job] : world_.submitted) TryCancel(job);
  });
}

bool SimCluster::Quiet() const {
  if (!healed_ || !state_ || unanswered_ > 0) return false;
  const bool all_done = std::all_of(
      state_->jobs.begin(), state_->jobs.end(),
      [](const auto& entry) { return entry.second.phase == controller::JobPhase::kDone; });
  const bool forgotten = std::all_of(nodes_.begin(), nodes_.end(), [](const auto& node) {
    return node.second->allocations() == 0;
  });
  const bool dead = std::all_of(world_.processes.begin(), world_.processes.end(),
                                [](const Process& process) { return process.ended.has_value(); });
  return all_done && dead && forgotten && state_->held_by_node.empty() &&
         state_->quarantine.empty();
}

void SimCluster::Run() {
  StartController();
  for (const char* node : kNodes) {
    nodes_.at(node)->StartAgent();
    Connect(node);
  }
  PlanClients();
  PlanFaults();
  while (world_.now < kRunEnd && world_.violations.empty() && !Quiet() && world_.Step()) {
  }
  if (world_.violations.empty() && !Quiet()) {
    std::string what = "C9 not quiet 30 minutes after healing:";
    if (state_) {
      for (const auto& [node, keys] : state_->held_by_node) {
        for (const Key& key : keys) what += " " + node.value + " holds " + ToString(key) + ",";
      }
      what += ", " + std::to_string(state_->quarantine.size()) + " GPUs quarantined";
    }
    for (const auto& [node, host] : nodes_) {
      if (host->allocations() > 0) {
        what += ", " + node + " keeps the directories of" + host->Kept();
      }
    }
    world_.Violation(what);
  }
  CompareWithStore();
  if (world_.violations.empty()) world_.CheckEnd(durable_);
}

}  // namespace launch::sim
