#include "tests/unit/controller/core/test_core.h"

#include <algorithm>

#include "tests/fakes/canned_plan.h"

namespace launch::controller {

NodeInventory MakeInventory(const std::string& name, int gpus, int cores) {
  NodeInventory inventory;
  inventory.node = NodeId{name};
  inventory.cores = cores;
  inventory.threads = cores;
  inventory.memory_bytes = 64ULL << 30;
  inventory.addresses = {
      {"lo", "127.0.0.1", std::nullopt, std::nullopt, false},
      {"eth0", "10.0.0." + std::to_string(name.back() - '0'), 1000, 1500, false}};
  for (int i = 0; i < gpus; ++i) {
    GpuDevice gpu;
    gpu.uuid = GpuUuid{"GPU-" + name + "-" + std::to_string(i)};
    gpu.model = "NVIDIA H100 80GB HBM3";
    gpu.type = "H100";
    gpu.cc = ComputeCapability{9, 0};
    gpu.memory_bytes = 80ULL << 30;
    gpu.pci = "0000:0" + std::to_string(i + 1) + ":00.0";
    inventory.gpus.push_back(gpu);
  }
  if (gpus > 0) {
    inventory.driver = "570.0";
    inventory.driver_cuda = CudaVersion{12, 8};
  }
  return inventory;
}

JobSpec GpuJob(int nodes, int gpus) {
  JobSpec spec;
  spec.name = "train";
  spec.nodes = {nodes, nodes, false};
  spec.gpus = {{"", gpus}};
  spec.gpus_written = true;
  spec.run = "python train.py";
  spec.workdir = "/home/ana/proj";
  spec.stop_duration = Millis{10'000};
  return spec;
}

JobSpec CpuJob(int nodes) {
  JobSpec spec = GpuJob(nodes, 0);
  spec.device = DeviceChoice::kCpu;
  spec.procs_per_node = 1;
  return spec;
}

TestCore::TestCore() {
  const auto started = controller::Start(
      state,
      [](std::string_view, const std::string&) -> Result<StoredPlan> {
        return Fail(ErrorCode::kDataLoss, "no plan was stored yet");
      },
      "test", now);
  EXPECT_TRUE(started.has_value());
  for (const Record& record : started->records) {
    if (const auto* put = std::get_if<Put>(&record))
      durable_.insert_or_assign(KeyOf(put->entity), put->entity);
  }
}

void TestCore::Post(Event event) {
  Decision decision = Decide(state, event, now);
  for (const Record& record : decision.records) {
    if (const auto* put = std::get_if<Put>(&record)) {
      durable_.insert_or_assign(KeyOf(put->entity), put->entity);
    } else if (const auto* erased = std::get_if<Delete>(&record)) {
      durable_.erase(KeyOf(erased->entity));
    } else {
      rows.push_back(std::get<EventRow>(record));
    }
  }
  for (const std::string& violation : CheckInvariants(state)) ADD_FAILURE() << violation;
  std::vector<effect::PlanWanted> wanted;
  std::vector<event::Diagnosed> diagnosed;
  for (Effect& effect : decision.effects) {
    if (auto* plan = std::get_if<effect::PlanWanted>(&effect); plan != nullptr && answer_plans) {
      wanted.push_back(*plan);
    } else if (const auto* diagnosis = std::get_if<effect::DiagnosisWanted>(&effect);
               diagnosis != nullptr && answer_diagnoses) {
      diagnosed.push_back({diagnosis->key, verdict});
    } else {
      effects.push_back(std::move(effect));
    }
  }
  for (const effect::PlanWanted& plan : wanted) Post(Answered(plan));
  for (const event::Diagnosed& one : diagnosed) Post(one);
}

Event TestCore::Answered(const effect::PlanWanted& wanted) {
  event::Planned planned;
  planned.ticket = wanted.ticket;
  planned.outcome = CannedPlan(wanted);
  planned.outcome.findings = plan_findings;
  planned.outcome.plan->steps = plan_steps;
  planned.outcome.plan->batch = plan_batch;
  planned.outcome.plan->loader = plan_loader;
  if (const BatchSpec& batch = wanted.spec.batch; batch.global && batch.micro) {
    planned.outcome.plan->batch = {batch.global, batch.micro, *batch.global / *batch.micro};
  }
  planned.outcome.plan->run = plan_run;
  if (!wanted.placed) return planned;
  if (placed_error) {
    planned.outcome = PlanOutcome{};
    planned.outcome.error = placed_error;
    return planned;
  }
  plans_[planned.outcome.stored] = StoredPlan{*planned.outcome.plan, planned.outcome.allocations};
  return planned;
}

void TestCore::Pass(Millis time) {
  now.boot += time;
  now.wall += time;
  Post(event::Tick{});
}

RequestId TestCore::Submit(JobSpec spec, bool force, const std::string& key) {
  event::Submit submit;
  submit.request = RequestId{next_request_++};
  submit.caller = {user, false};
  submit.idempotency_key = key.empty() ? "key" + std::to_string(submit.request.value) : key;
  submit.digest = spec.name;
  submit.spec = std::move(spec);
  submit.context = context;
  submit.force = force;
  const RequestId request = submit.request;
  Post(std::move(submit));
  return request;
}

JobId TestCore::Submitted(JobSpec spec) {
  const auto answer = Answer<reply::Submitted>(Submit(std::move(spec)));
  EXPECT_TRUE(answer.has_value()) << (answer ? "" : answer.error().message);
  return answer ? answer->job : JobId{0};
}

void TestCore::Attach(const std::string& node, int gpus) { Attach(MakeInventory(node, gpus)); }

void TestCore::Attach(const NodeInventory& inventory, from_node::Hello hello) {
  const std::string& name = inventory.node.value;
  session[name] = SessionId{next_session_++};
  if (hello.machine.install_id.empty()) hello.machine.install_id = "install-" + name;
  if (hello.boot_id.empty()) {
    if (!boot.contains(name)) boot[name] = "b1-" + name;
    hello.boot_id = boot[name];
  }
  hello.boot = BootMs(5'000);
  hello.inventory = inventory;
  Post(event::NodeAttached{session[name], inventory.node, std::move(hello)});
}

void TestCore::Detach(const std::string& node) {
  Post(event::NodeDetached{session.at(node), NodeId{node}, ""});
}

void TestCore::Say(const std::string& node, FromNode message) {
  Post(event::NodeSaid{session.at(node), NodeId{node}, std::move(message)});
}

void TestCore::Beat(const std::string& node, std::int64_t pong_age_ms, std::uint64_t n) {
  Post(event::NodeBeat{session.at(node), NodeId{node}, pong_age_ms, n});
}

void TestCore::Heard(const std::string& node, std::uint64_t n) {
  Post(event::NodeHeard{session.at(node), NodeId{node}, n});
}

std::string TestCore::Digest(const std::string& node, Key key) const {
  return state.allocs.at(key).at(NodeId{node}).digest;
}

void TestCore::Accept(const std::string& node, Key key, int port) {
  Say(node, from_node::Accepted{key, Digest(node, key), PortBlock{port, 4}, agents_lease});
}

void TestCore::Ready(const std::string& node, Key key, StagingFacts facts) {
  const AttemptRecord& attempt = state.attempts.at(key);
  if (attempt.nodes.front().value != node && facts.reach.empty()) {
    for (const NetworkAddress& own : state.inventories.at(attempt.nodes.front())->addresses) {
      facts.reach.push_back({own.address, own.interface != "lo", "eth1", ""});
    }
  }
  Say(node, from_node::Ready{key, Digest(node, key), std::move(facts)});
}

void TestCore::Start(const std::string& node, Key key) {
  from_node::Started started{key, {}};
  for (const Rank rank : state.allocs.at(key).at(NodeId{node}).ranks) {
    started.pids.emplace_back(rank, 100 + rank);
  }
  Say(node, started);
}

void TestCore::Exit(const std::string& node, Key key, Rank rank, ExitCause cause,
                    std::int64_t ended_boot_ms) {
  ExitReport report;
  report.key = key;
  report.rank = rank;
  report.boot_id = boot.at(node);
  report.cause = std::move(cause);
  report.ended = BootMs(ended_boot_ms);
  Say(node, from_node::RankExited{report});
}

void TestCore::Release(const std::string& node, Key key,
                       std::vector<std::pair<GpuUuid, std::string>> holders) {
  Say(node, from_node::Released{key, std::move(holders), {}});
}

JobId TestCore::Cancel(JobId job, const std::string& by) {
  const RequestId request{next_request_++};
  Post(event::Cancel{request, {UserName{by}, false}, {job}});
  const auto answer = Answer<reply::Cancelled>(request);
  EXPECT_TRUE(answer.has_value());
  return job;
}

Key TestCore::Run(JobId job) {
  const Key key{job, Attempt{state.jobs.at(job).attempts}};
  const std::vector<NodeId> nodes = state.attempts.at(key).nodes;
  for (const NodeId& node : nodes) {
    EXPECT_EQ(Told<to_node::Prepare>(node.value).spec.key, key);
  }
  for (const NodeId& node : nodes) Accept(node.value, key);
  for (const NodeId& node : nodes) {
    if (Phase(key) == AttemptPhase::kLaunching) break;  // in place: all is known
    EXPECT_EQ(Told<to_node::Stage>(node.value).key, key);
    Ready(node.value, key);
  }
  EXPECT_EQ(Phase(key), AttemptPhase::kLaunching);
  for (const NodeId& node : nodes) {
    EXPECT_EQ(Told<to_node::Go>(node.value).key, key);
    Start(node.value, key);
  }
  EXPECT_EQ(Phase(key), AttemptPhase::kRunning);
  return key;
}

bool TestCore::Closed(SessionId which) const {
  return std::any_of(effects.begin(), effects.end(), [&](const Effect& effect) {
    const auto* close = std::get_if<effect::CloseSession>(&effect);
    return close != nullptr && close->session == which;
  });
}

void TestCore::NothingElse() const {
  for (const Effect& effect : effects) {
    if (const auto* send = std::get_if<effect::Send>(&effect)) {
      if (std::holds_alternative<to_node::Welcome>(send->message)) continue;
      ADD_FAILURE() << "session " << send->session.value << " was told something (kind "
                    << send->message.index() << ")";
    } else {
      ADD_FAILURE() << "an effect of kind " << effect.index() << " is left over";
    }
  }
}

JobView TestCore::View(JobId job) const {
  JobView view = ViewJob(state, state.jobs.at(job), true, now.boot);
  AddPlans(state, view);
  return view;
}

NodeView TestCore::Node(const std::string& node) const {
  return ViewNode(state, NodeId{node}, now);
}

bool TestCore::HasEvent(const std::string& kind) const {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const EventRow& row) { return row.kind == kind; });
}

void TestCore::Restart() {
  state = State{};
  effects.clear();
  for (const auto& [key, entity] : durable_) Apply(state, Put{entity});
  const auto decode = [&](std::string_view bytes, const std::string&) -> Result<StoredPlan> {
    const auto found = plans_.find(std::string(bytes));
    if (found == plans_.end()) return Fail(ErrorCode::kDataLoss, "unknown bytes");
    return found->second;
  };
  state.live.host_boot = host_boot;
  const Result<Decision> started = controller::Start(state, decode, "test", now);
  ASSERT_TRUE(started.has_value()) << started.error().message;
  for (const Record& record : started->records) {
    if (const auto* put = std::get_if<Put>(&record)) {
      durable_.insert_or_assign(KeyOf(put->entity), put->entity);
    }
  }
  for (const std::string& violation : CheckInvariants(state)) ADD_FAILURE() << violation;
}

}  // namespace launch::controller
