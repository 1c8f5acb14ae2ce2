#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/json_values.h"
#include "cli/node_text.h"
#include "cli/render_json.h"
#include "cli/render_text.h"
#include "cli/yaml_of_json.h"
#include "common/launcher_process.h"

namespace launch {
namespace {

// Compares with tests/golden/cli/NAME; LAUNCH_UPDATE_GOLDEN=1 writes it.
void ExpectGolden(const std::string& name, const std::string& text) {
  const std::string path = std::string(LAUNCH_SOURCE_DIR) + "/tests/golden/cli/" + name;
  if (std::getenv("LAUNCH_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  std::ostringstream golden;
  golden << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, golden.str()) << path;
}

constexpr std::int64_t kNow = 1'795'000'000'000;

JobView Running() {
  JobView job;
  job.id = JobId{4211};
  job.name = "sft-8b";
  job.user = "ana";
  job.state = JobState::kRunning;
  job.gpus = 16;
  job.nodes = 2;
  job.strategy = "zero2";
  job.step = 1200;
  job.steps = 9000;
  job.eta_s = 22'200;
  job.seconds_per_step = 2.8461;
  job.started = WallMs(kNow - (3600 + 2 * 60 + 11) * 1000);
  job.nodelist = {NodeId{"gpu02"}, NodeId{"gpu01"}};
  return job;
}

JobView Waiting() {
  JobView job;
  job.id = JobId{4212};
  job.name = "sweep_3";
  job.user = "ana";
  job.gpus = 8;
  job.nodes = 1;
  job.strategy = "ddp";
  job.reason = {"Resources", "8 H100 free on no node"};
  return job;
}

JobView Failed() {
  JobView job = Running();
  job.id = JobId{9};
  job.name = "ddp";
  job.state = JobState::kFailed;
  job.sub_reason = "USER_CODE";
  job.exit_code = 33;
  job.outcome = "rank 1 on gpu02: exit 33";
  job.ended = WallMs(kNow);
  AttemptView attempt;
  attempt.attempt = Attempt{1};
  attempt.phase = "ended";
  attempt.outcome = "failed";
  attempt.cause = "rank 1 on gpu02: exit 33";
  attempt.nodes = {NodeId{"gpu01"}, NodeId{"gpu02"}};
  attempt.master = "10.0.0.1:20000";
  attempt.batch = {64, 8, 4};
  attempt.env = {{"RANK", "0"}, {"MASTER_ADDR", "10.0.0.1"}};
  attempt.first_failed_rank = 1;
  attempt.first_failed_node = NodeId{"gpu02"};
  for (int rank = 0; rank < 2; ++rank) {
    RankView view;
    view.rank = rank;
    view.node = NodeId{rank == 0 ? "gpu01" : "gpu02"};
    view.pid = 100 + rank;
    view.state = "exited";
    ExitReport exit;
    if (rank == 0)
      exit.cause = Signalled{15, false};
    else
      exit.cause = Exited{33};
    view.exit = exit;
    attempt.ranks.push_back(view);
  }
  job.attempts = {attempt};
  return job;
}

NodeView Gpu() {
  NodeView node;
  NodeInventory& inventory = node.inventory;
  inventory.node = NodeId{"gh03"};
  inventory.arch = Arch::kAarch64;
  inventory.cores = 72;
  inventory.memory_bytes = 480ull << 30;
  inventory.driver = "570.124.06";
  inventory.driver_cuda = CudaVersion{12, 8};
  GpuDevice gpu;
  gpu.uuid = GpuUuid{"GPU-1"};
  gpu.model = "NVIDIA GH200 480GB";
  gpu.type = "GH200";
  gpu.cc = ComputeCapability{9, 0};
  gpu.memory_bytes = 97'871ull << 20;
  inventory.gpus = {gpu};
  RuntimeFacts runtime;
  runtime.path = "/opt/venv/bin/python";
  runtime.python = "3.11.2";
  runtime.torch = TorchFacts{};
  runtime.torch->version = "2.0.1+cpu";
  runtime.sees_gpu = false;
  runtime.mps = false;
  inventory.interpreters = {runtime};
  node.state = "idle";
  node.health = {Health::kWarn, "torch build has no CUDA"};
  node.free_gpus = {GpuUuid{"GPU-1"}};
  return node;
}

NodeView Cpu() {
  NodeView node;
  node.inventory.node = NodeId{"cpu1"};
  node.inventory.cores = 2;
  node.inventory.memory_bytes = 8ull << 30;
  node.state = "alloc";
  node.jobs = {JobId{7}, JobId{8}};
  return node;
}

Plan SmallPlan() {
  Plan plan;
  plan.strategy = Strategy::kDdp;
  plan.why = "2 ranks and no model to split";
  plan.device = DeviceClass::kCpu;
  plan.precision = Precision::kFp32;
  plan.batch = {64, 8, 4};
  plan.world_size = 2;
  plan.processes = {2, 1, 1};
  plan.command = "python train.py";
  plan.workdir = "/home/ana (in place)";
  for (int rank = 0; rank < 2; ++rank) {
    RankAssignment one;
    one.rank = rank;
    one.node = NodeId{"node" + std::to_string(rank + 1)};
    one.env = {{"RANK", std::to_string(rank)}, {"WORLD_SIZE", "2"}};
    plan.assignments.push_back(one);
  }
  plan.late = {"MASTER_PORT"};
  plan.warnings = {{"workdir_missing", Severity::kWarning, NodeId{"node2"}, "says", "seen", "do"}};
  plan.rejected = {{"zero1", "one_gpu", "nothing to shard"}};
  return plan;
}

Screen Pipe() {
  Screen screen;
  screen.now = WallMs(kNow);
  return screen;
}

TEST(Render, QueueLooksLikeSlurmsForAPipe) {
  ExpectGolden("queue.txt", FormatTable(JobsTable({Running(), Waiting(), Failed()}, Pipe()), 0));
}

TEST(Render, QueueFitsATerminal) {
  Screen screen = Pipe();
  screen.width = 100;
  ExpectGolden("queue_100.txt",
               FormatTable(JobsTable({Running(), Waiting(), Failed()}, screen), 100));
}

TEST(Render, HostsAreUnfoldedWhenAsked) {
  JobView job = Running();
  job.nodelist = {NodeId{"gpu01"}, NodeId{"gpu02"}};
  Screen screen = Pipe();
  EXPECT_EQ(JobsTable({job}, screen).rows[0].back(), "gpu[01-02]");
  screen.expand = true;
  EXPECT_EQ(JobsTable({job}, screen).rows[0].back(), "gpu01,gpu02");
  EXPECT_NE(JobText(job, screen).find("gpu01,gpu02"), std::string::npos);
}

TEST(Render, NodesShowCapabilityTorchAndHealth) {
  ExpectGolden("nodes.txt", FormatTable(NodesTable({Gpu(), Cpu()}, Pipe()), 0));
}

TEST(Render, ASilentNodeThatIsDrainedShowsBoth) {
  NodeView node = Gpu();
  node.state = "silent";
  node.drained = true;
  node.reason = "drained: bad fan; silent for 24s: no beat";
  for (const std::string& text : {FormatTable(NodesTable({node}, Pipe()), 0), NodeText(node)})
    EXPECT_NE(text.find("silent+drain"), std::string::npos) << text;
  const auto json = nlohmann::json::parse(NodesJson({node}))["nodes"][0];
  EXPECT_EQ(json["state"], "silent");
  EXPECT_EQ(json["drained"], true);
  node.drained = false;
  node.reason = "silent for 24s: no beat";
  EXPECT_EQ(FormatTable(NodesTable({node}, Pipe()), 0).find("+drain"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(NodesJson({node}))["nodes"][0]["drained"], false);
  node.state = "drain";
  node.drained = true;
  node.reason = "drained: bad fan";
  EXPECT_EQ(ShownState(node), "drain");
}

TEST(Render, ANodeInFullSaysWhatItsAgentReports) {
  NodeView node = Gpu();
  NodeInventory& inventory = node.inventory;
  GpuDevice& gpu = inventory.gpus[0];
  gpu.pci = "0009:01:00.0";
  gpu.pcie = {5, 5, 8, 16};
  gpu.clocks = {1980, 1410, 2619};
  gpu.remapped = RemappedRows{2, 0, true, false};
  gpu.fabric = FabricState::kCompleted;
  gpu.ecc = true;
  gpu.power_limit_w = 900;
  gpu.links = {{"0009:02:00.0", LinkKind::kNvlink, 4, 18},
               {"0009:03:00.0", LinkKind::kSys, {}, {}}};
  inventory.rdma = {{"mlx5_0", 1, "InfiniBand", "ACTIVE", 400'000, "ib0", 0}};
  inventory.coherent = CoherentMode::kNuma;
  inventory.tools = {{"c++", "12.2.0"}};
  ExpectGolden("node.txt", NodeText(node));
  const auto json = nlohmann::json::parse(NodesJson({node}))["nodes"][0];
  EXPECT_EQ(json["gpus"][0]["pcie"]["width"], 8);
  EXPECT_EQ(json["gpus"][0]["pcie"]["max_width"], 16);
  EXPECT_EQ(json["gpus"][0]["clocks"]["graphics_set_mhz"], 1410);
  EXPECT_EQ(json["gpus"][0]["remapped"]["pending"], true);
  EXPECT_EQ(json["gpus"][0]["fabric"], "completed");
  EXPECT_EQ(json["gpus"][0]["links"][0]["count"], 18);
  EXPECT_EQ(json["rdma"][0]["device"], "mlx5_0");
  EXPECT_EQ(json["coherent"], "numa");
  EXPECT_EQ(json["tools"]["c++"], "12.2.0");
}

TEST(Render, StatusNamesTheFirstFailingRank) {
  setenv("TZ", "UTC", 1);
  ExpectGolden("status.txt", JobText(Failed(), Pipe()));
}

TEST(Render, StatusShowsTheLabelsOfTheJobFile) {
  JobView job = Running();
  job.spec.emplace().labels = {{"ablation", ""}, {"team", "vision"}};
  EXPECT_NE(JobText(job, Pipe()).find("ablation,team=vision"), std::string::npos);
}

TEST(Render, StatusShowsTheProcessesOfALauncher) {
  JobView job = Failed();
  EXPECT_EQ(JobText(job, Pipe()).find("processes of the launcher"), std::string::npos);
  const LauncherProcess processes[] = {
      {.rank = 2, .local_rank = 0, .pid = 40, .end = Signalled{15, false}, .error = ""},
      {.rank = 3, .local_rank = 1, .pid = 0, .end = Exited{33}, .error = "ValueError"},
      {.rank = 4, .local_rank = 2, .pid = 41, .end = std::nullopt, .error = ""}};
  for (const LauncherProcess& process : processes)
    job.attempts[0].ranks[1].exit->kernel_lines.push_back(LineOf(process));
  const std::string text = JobText(job, Pipe());
  EXPECT_NE(text.find("processes of the launcher\n"
                      "PROCESS  LOCAL  NODE   PID  EXIT                 ERROR\n"
                      "      2      0  gpu02   40  signal 15 (SIGTERM)  -\n"
                      "      3      1  gpu02    -  exit 33              ValueError\n"
                      "      4      2  gpu02   41  unknown              -\n"),
            std::string::npos)
      << text;
  const auto exit = nlohmann::json::parse(JobJson(job))["attempts"][0]["ranks"][1]["exit"];
  EXPECT_EQ(exit["processes"][0]["code"], 143);
  EXPECT_EQ(exit["processes"][1], nlohmann::json::parse(R"({"rank": 3, "local_rank": 1,
      "pid": null, "code": 33, "says": "exit 33", "error": "ValueError"})"));
  EXPECT_EQ(exit["processes"][2]["code"], nullptr);
}

TEST(Render, PlanSaysWhatWasDecidedAndWhy) {
  ExpectGolden("plan.txt", PlanText({SmallPlan(), {}, WaitReason{"Resources", "busy"}}, Pipe()));
  EXPECT_EQ(PlanSummary(SmallPlan()),
            "ddp on cpu, fp32, 2 processes = 2 nodes x 1, batch 64 = 8 micro x 4 accumulated x 2 "
            "ranks (32 on each)");
}

TEST(Render, OneOfAKindIsOneAndADeviceIsNamedOnce) {
  Plan plan = SmallPlan();
  plan.world_size = 1;
  EXPECT_NE(PlanSummary(plan).find("x 1 rank"), std::string::npos) << PlanSummary(plan);
  EXPECT_EQ(PlanSummary(plan).find("x 1 ranks"), std::string::npos) << PlanSummary(plan);
  plan.device_name = "CPU";
  plan.device_reason = "CPU: device: cpu";
  const std::string text = PlanText({plan, {}, {}}, Pipe());
  EXPECT_NE(text.find("cpu, CPU (device: cpu)\n"), std::string::npos) << text;
}

TEST(Render, WhoCancelledAJobIsSaidOnce) {
  JobView job = Running();
  job.state = JobState::kCancelled;
  job.outcome = "cancelled by ana";
  job.cancelled_by = "ana";
  EXPECT_EQ(JobText(job, Pipe()).find("cancelled   by"), std::string::npos);
  job.outcome = "the job reached its time limit";
  EXPECT_NE(JobText(job, Pipe()).find("cancelled   by ana\n"), std::string::npos);
}

TEST(Render, AFindingsWordsCommandNoTerminal) {
  Finding finding;
  finding.code = "command_missing";
  finding.says = "a\033]0;evil\a\033[2J does not run";
  finding.evidence = "A\033[31mB\001\nC";
  finding.remedy = "see \033[8mthis";
  EXPECT_EQ(FindingsText({finding}, Pipe()),
            "notice command_missing: a does not run\n  seen: AB\n        C\n  remedy: see this\n");
  PreflightReport report;
  report.findings = {finding};
  report.checks = {{"command", {}, CheckResult::kFail, finding.says, finding.code}};
  EXPECT_EQ(CheckText(report, Pipe()).find('\033'), std::string::npos);
  EXPECT_EQ(FixScript(report).find('\033'), std::string::npos);
}

TEST(Render, ACheckThatHasSomethingToSayIsANote) {
  PreflightReport report;
  report.checks = {{"driver", {}, CheckResult::kPass, "driver 570", ""},
                   {"CUDA runtime",
                    {},
                    CheckResult::kPass,
                    "CUDA 13.0 is newer than its driver",
                    "cuda_driver_too_old"}};
  EXPECT_EQ(CheckText(report, Pipe()),
            "CHECK         RESULT  NODE  SAYS\ndriver        pass    -     driver 570\n"
            "CUDA runtime  note    -     CUDA 13.0 is newer than its driver\n");
}

TEST(Render, ColoursOnlyWhenTheScreenHasThem) {
  Screen screen = Pipe();
  EXPECT_EQ(JobText(Failed(), screen).find('\033'), std::string::npos);
  screen.colour = true;
  EXPECT_NE(JobText(Failed(), screen).find("\033[31mFAILED\033[0m"), std::string::npos);
}

TEST(RenderJson, KeepsItsDocumentsStable) {
  ExpectGolden("status.json", JobJson(Failed()) + "\n");
  ExpectGolden("nodes.json", NodesJson({Gpu(), Cpu()}) + "\n");
  ExpectGolden("plan.json", PlanJson({SmallPlan(), {}, std::nullopt}) + "\n");
}

TEST(RenderJson, S001_4_HealthViewOfANode) {
  const auto nodes = nlohmann::json::parse(NodesJson({Gpu(), Cpu()}))["nodes"];
  EXPECT_EQ(nodes[0]["device_type"], "cuda");
  EXPECT_EQ(nodes[0]["device_name"], "NVIDIA GH200 480GB");
  EXPECT_EQ(nodes[0]["gpu_available"], true);
  EXPECT_EQ(nodes[0]["cuda_available"], false);
  EXPECT_EQ(nodes[0]["mps_available"], false);
  EXPECT_EQ(nodes[0]["precision"], "bf16");
  EXPECT_EQ(nodes[0]["health"], "warn");
  EXPECT_EQ(nodes[0]["gpus"][0]["memory_mib"], 97871);
  EXPECT_EQ(nodes[1]["device_type"], "cpu");
  EXPECT_EQ(nodes[1]["gpu_available"], false);
  EXPECT_EQ(nodes[1]["precision"], "fp32");
}

TEST(RenderJson, GivesBrokenBytesAsReplacementCharacters) {
  EventView event;
  event.text = "bad \xff byte";
  EXPECT_TRUE(nlohmann::json::accept(EventLine(event)));
}

TEST(RenderJson, TurnsIntoYamlOfTheSameContent) {
  EXPECT_EQ(YamlOfJson(R"({"a": [1, {"b": "x: y"}], "c": [], "d": null})"),
            "\"a\":\n  - 1\n  -\n    \"b\": \"x: y\"\n\"c\": []\n\"d\": null\n");
}

TEST(RenderJson, SaysTimeInUtc) {
  EXPECT_EQ(FormatTime(WallMs(kNow + 7)), "2026-11-18T11:06:40.007Z");
  EXPECT_EQ(FormatTime(WallMs(0)), "");
}

}  // namespace
}  // namespace launch
