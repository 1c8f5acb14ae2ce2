#include "tests/sim/sim_cluster.h"

#include <algorithm>
#include <utility>

namespace launch::sim {

using controller::SessionId;

namespace {

constexpr std::int64_t kRunEnd = kFaultsEnd + 30 * 60'000;
constexpr std::int64_t kCheckEach = 7'001;

}  // namespace

std::vector<std::string> SimNodes() { return {"n1", "n2", "n3"}; }

SimCluster::SimCluster(const Options& options)
    : world_(options),
      network_rng_(options.seed, "dials"),
      clients_(options.seed, "clients"),
      network_(
          world_,
          {[this](const std::string& node, Network::Stream stream, const ToNodeEnvelope& message) {
             if (clones_.contains(stream)) return;
             nodes_.at(node)->Tell(agent::told::FromController{stream, message});
           },
           [this](const std::string& node, Network::Stream stream, const std::string& why) {
             if (clones_.contains(stream)) return;
             if (dials_[node].stream == stream) dials_[node].open = false;
             nodes_.at(node)->Tell(agent::told::LinkDown{stream, why});
           }},
          {[this](const std::string& node, Network::Stream stream, const FromNode& message) {
             EndpointSaid(node, stream, message);
           },
           [this](const std::string& node, Network::Stream stream, const std::string& why) {
             EndpointClosed(node, stream, why);
           }}),
      controller_(world_, {[this](const controller::effect::Reply& reply) { Answered(reply); },
                           [this](SessionId session, ToNodeEnvelope envelope) {
                             SendTo(session, std::move(envelope));
                           },
                           [this](SessionId session) { CloseSession(session); },
                           [this](const controller::Entity& entity) {
                             const auto* job = std::get_if<controller::JobRecord>(&entity);
                             if (job != nullptr) JobWritten(*job);
                           },
                           [this] { ControllerDied(); }}) {
  for (const std::string& name : SimNodes()) {
    nodes_[name] =
        std::make_unique<SimNode>(world_, name,
                                  SimNode::Link{[this](std::uint64_t stream, FromNode message) {
                                                  network_.SendUp(stream, std::move(message));
                                                },
                                                [this, name](std::uint64_t stream) {
                                                  if (dials_[name].stream == stream)
                                                    dials_[name].open = false;
                                                  network_.CloseAgentEnd(stream);
                                                },
                                                [this, name] {
                                                  dials_[name].open = false;
                                                  network_.CloseAgentEnd(dials_[name].stream);
                                                }});
  }
}

// ---- the endpoint ----

void SimCluster::Connect(const std::string& node) {
  world_.At(network_rng_.Between(300, 3'000), [this, node] { Connect(node); });
  Dial& dial = dials_[node];
  if (!nodes_.at(node)->agent_up() || dial.open || !controller_.up()) return;
  const std::optional<Network::Stream> stream = network_.Open(node);
  if (!stream) return;
  dial = {*stream, true};
  nodes_.at(node)->Tell(agent::told::LinkUp{*stream});
}

void SimCluster::EndpointSaid(const std::string& node, Network::Stream stream,
                              const FromNode& message) {
  if (!controller_.up()) return;
  const NodeId id{node};
  if (const auto* hello = std::get_if<from_node::Hello>(&message)) {
    if (hello->instance == kTwin && !Answers(node)) return network_.CloseEndpoint(stream);
    const auto record = controller_.state().nodes.find(id);
    const bool joined =
        record != controller_.state().nodes.end() && record->second.machine.install_id.empty();
    // The certificate that the copy has was replaced when its name was joined anew.
    if (clones_.contains(stream) && joined) return network_.CloseEndpoint(stream);
    const SessionId session{next_session_++};
    sessions_[stream] = session;
    controller::event::NodeAttached attached{session, id, *hello};
    attached.revision = controller_.disk().revision;
    controller_.Post(std::move(attached));
    return;
  }
  const auto session = sessions_.find(stream);
  if (session == sessions_.end()) return;
  if (const auto* beat = std::get_if<from_node::Beat>(&message)) {
    // One that is stopped answers nothing, so nothing of it can arrive.
    controller_.Post(controller::event::NodeBeat{session->second, id, beat->pong_age_ms,
                                                 controller_.paused() ? 0 : beat->n});
    if (controller_.paused()) return;
    ToNodeEnvelope pong;  // by the endpoint, not by the core
    const auto& cluster = controller_.state().cluster;
    pong.fence = {cluster.incarnation, cluster.epoch, 0};
    pong.session = session->second.value;
    pong.body = to_node::Pong{.n = beat->n, .wants_heard = true};
    network_.SendDown(stream, std::move(pong));
    return;
  }
  if (const auto* heard = std::get_if<from_node::Heard>(&message)) {
    controller_.Post(controller::event::NodeHeard{session->second, id, heard->n});
    return;
  }
  controller_.Post(controller::event::NodeSaid{session->second, id, message});
}

void SimCluster::EndpointClosed(const std::string& node, Network::Stream stream,
                                const std::string& why) {
  const auto session = sessions_.find(stream);
  if (session == sessions_.end()) return;
  controller_.Post(controller::event::NodeDetached{session->second, NodeId{node}, why});
  sessions_.erase(session);
}

void SimCluster::SendTo(SessionId session, ToNodeEnvelope envelope) {
  for (const auto& [stream, has] : sessions_) {
    if (has != session) continue;
    if (const auto* go = std::get_if<to_node::Go>(&envelope.body)) {
      for (const auto& [node, dial] : dials_) {
        if (dial.stream == stream) world_.go_sent[{go->key, NodeId{node}}] = world_.now;
      }
    }
    network_.SendDown(stream, std::move(envelope));
    return;
  }
}

void SimCluster::CloseSession(SessionId session) {
  for (auto entry = sessions_.begin(); entry != sessions_.end(); ++entry) {
    if (entry->second != session) continue;
    network_.CloseEndpoint(entry->first);
    sessions_.erase(entry);
    return;
  }
}

void SimCluster::ControllerDied() {
  sessions_.clear();
  network_.CloseAllEndpoints();
}

void SimCluster::JobWritten(const controller::JobRecord& job) {
  if (!job.cancelled_by.empty()) {
    cancel_committed_.emplace(job.id, world_.now);
  } else if (cancel_committed_.erase(job.id) > 0 && healed_) {  // it is run again
    world_.At(0, [this, id = job.id] { TryCancel(id); });
  }
}

void SimCluster::Checkpoint() {
  world_.At(kCheckEach, [this] { Checkpoint(); });
  controller_.CompareWithDisk();
}

// ---- clients ----

// The same key until there is an answer.
void SimCluster::TrySubmit(const PlannedJob& job) {
  if (world_.submitted.contains(job.key) || world_.lost.contains(job.key) ||
      refused_.contains(job.key)) {
    return;
  }
  world_.At(5'000, [this, job] { TrySubmit(job); });
  if (!controller_.up()) return;
  const std::uint64_t request = next_request_++;
  requests_[request] = {job, std::nullopt};
  controller::event::Submit submit;
  submit.request = controller::RequestId{request};
  submit.caller = {UserName{"ana"}, false};
  submit.idempotency_key = job.key;
  submit.digest = job.spec.name;
  submit.spec = job.spec;
  submit.context.submit_dir = "/proj";
  controller_.Post(std::move(submit));
}

void SimCluster::TryCancel(JobId job) {
  if (world_.cancelled.contains(job) || !world_.IsSubmitted(job)) return;
  world_.At(3'000, [this, job] { TryCancel(job); });
  if (!controller_.up()) return;
  world_.end_asked[job] = world_.now;
  const std::uint64_t request = next_request_++;
  requests_[request] = {std::nullopt, job};
  controller_.Post(
      controller::event::Cancel{controller::RequestId{request}, {UserName{"ana"}, false}, {job}});
}

void SimCluster::Answered(const controller::effect::Reply& reply) {
  const auto found = requests_.find(reply.request.value);
  if (found == requests_.end()) return;
  const Request request = found->second;
  requests_.erase(found);
  if (request.ask) return AnsweredAsk(request.ask, reply.body);
  if (clients_.OneIn(10) && !healed_) return;  // the answer is lost on its way
  if (!reply.body) {
    const ErrorCode code = reply.body.error().code;
    // A full store and nodes that still join: tried again.
    if (code == ErrorCode::kResourceExhausted || code == ErrorCode::kCannotFit) return;
    world_.Violation("C1 a request was refused: " + reply.body.error().message);
    return;
  }
  if (const auto* submitted = std::get_if<controller::reply::Submitted>(&*reply.body)) {
    if (world_.lost.contains(request.submit->key)) return;
    const auto [entry, fresh] = world_.submitted.emplace(request.submit->key, submitted->job);
    if (!fresh && entry->second != submitted->job && !world_.went_back())
      world_.Violation("C1 one key, two answers");
    if (!fresh) return;
    world_.Trace("submitted " + request.submit->key + " as " +
                 std::to_string(submitted->job.value));
    if (request.submit->cancel_after) {
      world_.At(*request.submit->cancel_after, [this, job = submitted->job] { TryCancel(job); });
    }
    if (healed_) TryCancel(submitted->job);
  } else if (request.cancel) {
    const auto* said = std::get_if<controller::reply::Cancelled>(&*reply.body);
    if (said != nullptr && said->results.front().error) return;  // lost with the store
    const auto committed = cancel_committed_.find(*request.cancel);
    const bool is_cancelled = committed != cancel_committed_.end();
    // Its requeue was in the same commit.
    if (!is_cancelled && world_.requeue_asked.contains(*request.cancel)) return;
    world_.cancelled.emplace(*request.cancel, is_cancelled ? committed->second : world_.now);
  }
}

// ---- the run ----

bool SimCluster::Quiet() const {
  if (!healed_ || !controller_.up()) return false;
  for (const PlannedJob& job : world_.options.schedule.jobs) {
    if (!world_.submitted.contains(job.key) && !world_.lost.contains(job.key)) return false;
  }
  const controller::State& state = controller_.state();
  const bool all_done = std::all_of(state.jobs.begin(), state.jobs.end(), [](const auto& entry) {
    return entry.second.phase == controller::JobPhase::kDone;
  });
  const bool forgotten = std::all_of(nodes_.begin(), nodes_.end(), [](const auto& node) {
    return node.second->allocations() == 0;
  });
  const bool dead = std::all_of(world_.processes.begin(), world_.processes.end(),
                                [](const Process& process) { return process.ended.has_value(); });
  return all_done && dead && forgotten && state.held_by_node.empty() && state.quarantine.empty();
}

void SimCluster::SayWhatIsNotQuiet() {
  std::string what = "C9 not quiet 30 minutes after healing:";
  if (controller_.up()) {
    const controller::State& state = controller_.state();
    for (const auto& [node, keys] : state.held_by_node) {
      for (const Key& key : keys) what += " " + node.value + " holds " + ToString(key) + ",";
    }
    for (const auto& [id, job] : state.jobs) {
      if (job.phase != controller::JobPhase::kDone) {
        what += " job " + std::to_string(id.value) + " is not done,";
      }
    }
    what += " " + std::to_string(state.quarantine.size()) + " GPUs quarantined";
    for (const auto& [gpu, record] : state.quarantine) {
      what += " " + gpu.value + " for " + ToString(record.key) + " (" + record.why + "),";
    }
  } else {
    what += " the controller is down";
  }
  for (const auto& [node, host] : nodes_) {
    if (host->allocations() > 0) {
      what += ", " + node + " keeps the directories of" + host->Kept();
    }
  }
  world_.Violation(what);
}

void SimCluster::Run() {
  world_.was_heard = [this](const NodeId& node) {
    return controller_.up() && controller::WasHeard(controller_.state(), node);
  };
  controller_.Start();
  for (const auto& [name, node] : nodes_) {
    node->StartAgent();
    Connect(name);
  }
  Checkpoint();
  for (const PlannedJob& job : world_.options.schedule.jobs) {
    world_.At(job.at, [this, job] { TrySubmit(job); });
  }
  for (const Fault& fault : world_.options.schedule.faults) {
    world_.At(fault.at, [this, fault] {
      if (healed_) return;
      world_.Trace("fault " + Describe(fault));
      ++world_.coverage.faults[NameOf(fault.kind)];
      Carry(fault);
    });
  }
  world_.At(kFaultsEnd, [this] { Heal(); });
  while (world_.now < kRunEnd && world_.violations.empty() && !Quiet() && world_.Step()) {
  }
  if (world_.violations.empty() && !Quiet()) SayWhatIsNotQuiet();
  controller_.CompareWithDisk();
  if (world_.violations.empty()) world_.CheckEnd(controller_.Durable());
}

}  // namespace launch::sim
