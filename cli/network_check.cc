#include "cli/network_check.h"

#include <algorithm>
#include <map>
#include <utility>

#include "common/network_answer.h"
#include "common/pki.h"
#include "common/quoted.h"
#include "preflight/network_test_check.h"

namespace launch {
namespace {

constexpr Millis kOutputLimit{60'000};
constexpr Millis kTestLimit{5 * 60 * 1000};
constexpr Millis kEventsLimit{10'000};
constexpr std::string_view kNccl = "NCCL";
constexpr std::string_view kNotTested = "not tested: ";

const NodeInventory* InventoryOf(const std::vector<NodeView>& nodes, const NodeId& id) {
  const auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const NodeView& view) { return view.inventory.node == id; });
  return found == nodes.end() ? nullptr : &found->inventory;
}

Result<std::map<Rank, std::string>> OutputByRank(Client& client, JobId job) {
  LogsCall call;
  call.job = job;
  std::map<Rank, std::string> outputs;
  LAUNCH_RETURN_IF_ERROR(client.Logs(call, kOutputLimit, [&](const LogPiece& piece) {
    if (const auto* chunk = std::get_if<LogChunk>(&piece)) outputs[chunk->rank] += chunk->data;
    return true;
  }));
  return outputs;
}

Check Line(std::string says) {
  return {std::string(kNccl), std::nullopt, CheckResult::kPass, std::move(says), ""};
}

// What the nodes said of NCCL; the pairs were measured before.
PreflightReport NcclPartOf(Client& client, const JobView& view) {
  PreflightReport report;
  WatchCall events;
  events.jobs = {view.id};
  (void)client.Watch(events, kEventsLimit, [&](const EventView& event) {
    const bool is_ours = event.kind == "attempt.network_tested" &&
                         (event.text.starts_with(kNccl) || event.text.starts_with(kNotTested));
    if (is_ours) report.checks.push_back(Line(event.text));
    return true;
  });
  for (const Finding& finding : view.findings) {
    const bool is_ours =
        finding.code.starts_with("network_") && finding.says.find(kNccl) != std::string::npos;
    if (is_ours) Add(report, finding, kNccl);
  }
  return report;
}

}  // namespace

std::optional<NodeId> WithoutFreeGpu(const std::vector<NodeView>& nodes) {
  const auto found =
      std::ranges::find_if(nodes, [](const NodeView& view) { return view.free_gpus.empty(); });
  if (found == nodes.end()) return std::nullopt;
  return found->inventory.node;
}

JobSpec AsNetworkTest(JobSpec spec, const std::vector<NodeId>& nodes) {
  if (!nodes.empty()) {
    spec.nodelist.clear();
    for (const NodeId& node : nodes) spec.nodelist.push_back(node.value);
    spec.nodes = {static_cast<int>(nodes.size()), static_cast<int>(nodes.size()), false};
    spec.workdir = "/tmp";  // nodes without a job need not share a directory
  }
  spec.name = "network-check";
  spec.gpus.clear();
  spec.gpus_written = true;
  spec.gpu_ids.clear();
  spec.total_gpus.reset();
  spec.cpus.reset();
  spec.memory_bytes.reset();
  spec.procs_per_node = 1;
  spec.device = DeviceChoice::kCpu;
  spec.strategy = Strategy::kAuto;
  spec.offload = Offload::kAuto;
  spec.precision = Precision::kAuto;
  spec.batch = {};
  spec.model = {};
  spec.dataset.reset();
  spec.steps.reset();
  spec.trainer = Trainer::kAuto;
  spec.checkpoint = {};
  spec.retry = {};
  spec.retry.max = 0;
  spec.time_limit = kTestLimit;
  spec.preflight = PreflightLevel::kNone;
  spec.progress_regex.clear();
  spec.setup.clear();
  spec.launcher = LauncherKind::kProcess;
  spec.debug = true;  // not part of anybody's history
  spec.run = "exec python3 -c " + ShellQuote(std::string(kNetworkTest)) +
             " \"$MASTER_ADDR\" \"$MASTER_PORT\" \"$RANK\" \"$WORLD_SIZE\" network-check";
  return spec;
}

Result<PreflightReport> RunNetworkCheck(const App& app, Client& client, const SubmitCall& job,
                                        const std::vector<NodeView>& nodes) {
  SubmitCall call = job;
  call.idempotency_key = RandomHex(16);
  call.force = true;  // what stops a training run need not stop this
  LAUNCH_ASSIGN_OR_RETURN(const SubmitAnswer answer, client.Submit(call));
  const std::string id = std::to_string(answer.job.value);
  app.Note("job " + id + " tests the network");
  LAUNCH_ASSIGN_OR_RETURN(const JobView view,
                          AwaitJob(client, answer.job, std::nullopt, [](const JobView&) {}));
  if (view.attempts.empty() || view.state != JobState::kSucceeded) {
    PreflightReport refused;
    for (const Finding& finding : view.findings) {
      if (finding.severity == Severity::kError) Add(refused, finding);
    }
    if (!refused.findings.empty()) return refused;
    return Fail(ErrorCode::kFailedPrecondition,
                "job " + id + " ended " + std::string(ToString(view.state)) + ": " + view.outcome,
                "launch logs " + id + " has its output; it needs python3, see --venv and --python");
  }
  LAUNCH_ASSIGN_OR_RETURN(auto outputs, OutputByRank(client, answer.job));
  const std::vector<NodeId>& places = view.attempts.back().nodes;
  std::vector<NetworkFacts> facts;
  for (std::size_t place = 0; place < places.size(); ++place)
    facts.push_back(ReadNetworkAnswer(outputs[static_cast<Rank>(place)]));
  // A controller of before does not take it; the answer is as good.
  if (const auto noted = client.NoteNetwork(answer.job, facts); !noted)
    app.Note("later plans do not know of it: " + noted.error().message);
  std::vector<TestedNode> tested;
  for (std::size_t place = 0; place < places.size(); ++place) {
    const NodeInventory* inventory = InventoryOf(nodes, places[place]);
    if (inventory == nullptr)
      return Fail(ErrorCode::kNotFound, "node " + places[place].value + " is gone", "run it again");
    tested.push_back({*inventory, facts[place]});
  }
  return JudgeNetwork(call.spec.preflight_network, tested);
}

PreflightReport RunNcclCheck(const App& app, Client& client, const SubmitCall& job) {
  SubmitCall call = job;
  call.idempotency_key = RandomHex(16);
  call.force = true;
  call.spec.gpus = {{"", 1}};
  call.spec.device = DeviceChoice::kAuto;
  call.spec.preflight = PreflightLevel::kFull;
  call.spec.check_only = true;
  call.spec.run = "true";
  PreflightReport report;
  const auto answer = client.Submit(call);
  if (!answer) {
    report.checks.push_back(Line(std::string(kNotTested) + answer.error().message));
    return report;
  }
  app.Note("job " + std::to_string(answer->job.value) +
           " tests it by NCCL, on one GPU of each node");
  const auto view = AwaitJob(client, answer->job, kTestLimit, [](const JobView&) {});
  if (!view) {
    (void)client.Cancel({answer->job});
    report.checks.push_back(Line(std::string(kNotTested) + view.error().message));
    return report;
  }
  report = NcclPartOf(client, *view);
  if (report.checks.empty() && report.findings.empty()) {
    report.checks.push_back(Line(std::string(kNotTested) + view->outcome));
  }
  return report;
}

}  // namespace launch
