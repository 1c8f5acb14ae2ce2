// The offline scenarios of preflight that users asked for (S000_2 is story 2 of user 0), and the
// proof that sound inventories raise nothing: job text and inventory in, what `launch check` shows
// out.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/job_reader.h"
#include "cli/node_check.h"
#include "cli/offline_plan.h"
#include "cli/render_json.h"
#include "cli/render_text.h"
#include "common/inventory_yaml.h"
#include "common/units.h"
#include "preflight/codes.h"

namespace launch {
namespace {

const std::string kConfigs = std::string(LAUNCH_SOURCE_DIR) + "/configs/";

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<NodeInventory> Cluster(const std::string& name) {
  auto nodes = ReadInventoryFile(kConfigs + "clusters/" + name + ".yaml");
  EXPECT_TRUE(nodes.has_value()) << name;
  return nodes ? *nodes : std::vector<NodeInventory>();
}

// A GH200 node whose torch is the given one.
std::vector<NodeInventory> Gh200(const std::string& version, std::optional<std::string> cuda,
                                 std::vector<std::string> archs) {
  std::vector<NodeInventory> nodes = Cluster("gh200x2");
  nodes.resize(1);
  RuntimeFacts& runtime = nodes[0].interpreters.at(0);
  runtime.torch = TorchFacts{};
  runtime.torch->version = version;
  runtime.torch->cuda = std::move(cuda);
  runtime.torch->arch_list = std::move(archs);
  runtime.sees_gpu.reset();  // as read without an import
  runtime.devices.reset();
  return nodes;
}

Result<PlanAnswer> Check(const std::string& job, const std::vector<NodeInventory>& nodes) {
  LAUNCH_ASSIGN_OR_RETURN(const ReadJob read, ReadJobText(job, "job.yaml", "/proj"));
  SubmitContext context;
  context.user = "ana";
  context.submit_dir = "/proj";
  return PlanOffline(read.spec, context, nodes);
}

PreflightReport ReportFor(const std::string& job, const std::vector<NodeInventory>& nodes) {
  const auto answer = Check(job, nodes);
  EXPECT_TRUE(answer.has_value()) << FormatError(answer.error());
  return answer ? ReportOf(*answer) : PreflightReport{};
}

std::vector<std::string> Errors(const PreflightReport& report) {
  std::vector<std::string> codes;
  for (const Finding& finding : report.findings)
    if (finding.severity == Severity::kError) codes.push_back(finding.code);
  return codes;
}

const Finding* Find(const PreflightReport& report, const std::string& code) {
  for (const Finding& finding : report.findings)
    if (finding.code == code) return &finding;
  return nullptr;
}

constexpr const char* kCellFm = "name: cellfm\ngpus: GH200:1\nrun: python train.py\n";

TEST(Stories, S000_2_TheUsersOwnNodeOffline) {
  const PreflightReport report = ReportFor(kCellFm, Gh200("2.0.1+cpu", std::nullopt, {}));
  EXPECT_EQ(Errors(report), std::vector<std::string>{"torch_cpu_only"});
  const std::string remedy = Find(report, "torch_cpu_only")->remedy;
  std::size_t last = 0;
  for (const char* part : {"cu126", "2.6.0", "2.0.1 never had one", "Container Toolkit",
                           "USE_CUDA=1", "TORCH_CUDA_ARCH_LIST=9.0", "> 50 GB", "device: cpu"}) {
    const std::size_t at = remedy.find(part, last);
    ASSERT_NE(at, std::string::npos) << part << " in its place in: " << remedy;
    last = at;
  }
  EXPECT_TRUE(Contains(remedy, "12.8"));

  const std::string table = CheckText(report, Screen());
  std::istringstream lines(table);
  std::vector<std::string> first;
  std::string line;
  std::getline(lines, line);  // title
  for (int i = 0; i < 5 && std::getline(lines, line); ++i) {
    const std::size_t result = std::min(line.find(" pass "), line.find(" fail "));
    ASSERT_NE(result, std::string::npos) << line;
    first.push_back(line.substr(0, line.find("  ")) + line.substr(result, 5));
  }
  EXPECT_EQ(first,
            (std::vector<std::string>{"driver pass", "CUDA runtime pass", "torch installed pass",
                                      "torch CUDA fail", "GPU usable fail"}))
      << table;

  const auto json = nlohmann::json::parse(CheckJson(report));
  EXPECT_EQ(json["findings"].at(0)["code"], "torch_cpu_only");
  EXPECT_EQ(json["findings"].at(0)["severity"], "error");
  EXPECT_EQ(json["findings"].at(0)["node"], "gh01");
  EXPECT_FALSE(json["findings"].at(0)["says"].get<std::string>().empty());
  EXPECT_EQ(json["passed"].at(0)["check"], "driver");
  for (const auto& passed : json["passed"]) EXPECT_NE(passed["check"], "torch CUDA");
}

TEST(Stories, S000_2_TheScriptOfRemediesRunsOnlyWhatItNames) {
  std::vector<NodeInventory> nodes = Gh200("2.0.1+cpu", std::nullopt, {});
  nodes[0].gpus[0].model = "evil\nrm -rf /";
  const std::string script = FixScript(ReportFor("gpus: 1\nrun: python train.py\n", nodes));
  EXPECT_TRUE(script.starts_with("#!/bin/bash\n"));
  std::istringstream lines(script);
  std::vector<std::string> commands;
  for (std::string line; std::getline(lines, line);)
    if (!line.empty() && line[0] != '#') commands.push_back(line);
  EXPECT_EQ(commands, std::vector<std::string>{
                          "/usr/bin/python3 -m pip install --force-reinstall torch --index-url "
                          "https://download.pytorch.org/whl/cu126"});
}

TEST(Stories, S000_3_NoFalseAlarmAndTheFlippedFailure) {
  const auto check = [](const std::string& version, const std::string& cuda,
                        std::vector<std::string> archs) {
    return ReportFor(kCellFm, Gh200(version, cuda, std::move(archs)));
  };
  const PreflightReport sound = check("2.13.0+cu126", "12.6", {"sm_80", "sm_90"});
  EXPECT_TRUE(Errors(sound).empty());
  EXPECT_TRUE(sound.findings.empty());

  const PreflightReport newer = check("2.13.0+cu130", "13.0", {"sm_80", "sm_90"});
  EXPECT_EQ(Errors(newer), std::vector<std::string>{"cuda_driver_too_old"});
  EXPECT_TRUE(Contains(Find(newer, "cuda_driver_too_old")->remedy, "580"));

  EXPECT_EQ(Errors(check("2.13.0+cu126", "12.6", {"sm_80"})),
            std::vector<std::string>{"no_kernel_image"});

  const PreflightReport ptx = check("2.13.0+cu126", "12.6", {"sm_80", "compute_80"});
  EXPECT_TRUE(Errors(ptx).empty());
  ASSERT_NE(Find(ptx, "no_kernel_image"), nullptr);
  EXPECT_EQ(Find(ptx, "no_kernel_image")->severity, Severity::kWarning);
  EXPECT_TRUE(Contains(Find(ptx, "no_kernel_image")->says, "first start is slow"));

  EXPECT_TRUE(Errors(check("2.13.0+cu126", "12.6", {"sm_90a"})).empty());
}

// torch 2.5.1+cu124 on driver 550 with nvcc `nvcc` (empty: none).
std::vector<NodeInventory> DeepSpeedNode(const std::string& nvcc) {
  std::vector<NodeInventory> nodes = Cluster("a100-80x8");
  nodes.resize(1);
  NodeInventory& node = nodes[0];
  node.driver = "550.90.07";
  node.driver_cuda = CudaVersion{12, 4};
  node.toolkit.reset();
  if (!nvcc.empty()) node.toolkit = Toolkit{nvcc, "/usr/local/cuda"};
  RuntimeFacts& runtime = node.interpreters.at(0);
  runtime.torch->version = "2.5.1+cu124";
  runtime.torch->cuda = "12.4";
  runtime.built_ops.clear();
  return nodes;
}

std::string OffloadJob(const std::string& env = "") {
  return "gpus: 1\nstrategy: zero2-offload\nrun: python train.py\n" +
         (env.empty() ? "" : "env: {" + env + "}\n");
}

TEST(Stories, S003_1_ToolkitMatrix) {
  const PreflightReport old = ReportFor(OffloadJob(), DeepSpeedNode("11.5"));
  EXPECT_EQ(Errors(old), std::vector<std::string>{"toolkit_mismatch"});
  EXPECT_TRUE(Contains(Find(old, "toolkit_mismatch")->remedy, "12.4"));

  const PreflightReport skipped =
      ReportFor(OffloadJob("DS_SKIP_CUDA_CHECK: \"1\""), DeepSpeedNode("11.5"));
  EXPECT_TRUE(Errors(skipped).empty());
  ASSERT_NE(Find(skipped, "toolkit_mismatch"), nullptr);
  EXPECT_EQ(Find(skipped, "toolkit_mismatch")->severity, Severity::kWarning);

  EXPECT_EQ(Find(ReportFor(OffloadJob(), DeepSpeedNode("12.4")), "toolkit_mismatch"), nullptr);

  const PreflightReport accepted = ReportFor(OffloadJob(), DeepSpeedNode("12.6"));
  EXPECT_TRUE(Errors(accepted).empty());
  ASSERT_NE(Find(accepted, "toolkit_mismatch"), nullptr);
  EXPECT_TRUE(Contains(Find(accepted, "toolkit_mismatch")->says, "accepted by DeepSpeed"));

  EXPECT_EQ(Errors(ReportFor(OffloadJob(), DeepSpeedNode(""))),
            std::vector<std::string>{"op_build_prerequisites"});
  std::vector<NodeInventory> prebuilt = DeepSpeedNode("");
  prebuilt[0].interpreters[0].built_ops = {"cpu_adam"};
  EXPECT_TRUE(Errors(ReportFor(OffloadJob(), prebuilt)).empty());

  std::vector<NodeInventory> cuda13 = DeepSpeedNode("13.2");
  cuda13[0].driver = "580.65.06";
  cuda13[0].driver_cuda = CudaVersion{13, 0};
  cuda13[0].interpreters[0].torch->version = "2.13.0+cu130";
  cuda13[0].interpreters[0].torch->cuda = "13.0";
  const PreflightReport unlisted = ReportFor(OffloadJob(), cuda13);
  ASSERT_NE(Find(unlisted, "toolkit_mismatch"), nullptr);
  EXPECT_TRUE(Contains(Find(unlisted, "toolkit_mismatch")->says, "has no 13"));
  EXPECT_TRUE(Contains(Find(unlisted, "toolkit_mismatch")->remedy, "DS_SKIP_CUDA_CHECK"));

  EXPECT_TRUE(Errors(ReportFor("gpus: 1\nrun: python train.py\n", DeepSpeedNode("11.5"))).empty());
}

TEST(Stories, S000_6_AnImageWithoutAContainerRuntimeIsRefused) {
  const PreflightReport report =
      ReportFor("gpus: 1\nimage: nvcr.io/nvidia/pytorch:25.08-py3\nrun: python train.py\n",
                Cluster("rtx3090"));
  EXPECT_EQ(Errors(report), std::vector<std::string>{"container_runtime_missing"});
}

TEST(Stories, S002_5_ARunThatPicksDevicesItselfIsAFinding) {
  const PreflightReport report =
      ReportFor("gpus: 4\nrun: python train.py --gpus 0,1,2,3\n", Cluster("a100-40x4"));
  EXPECT_NE(Find(report, "plan_cannot_reach_script"), nullptr);
  EXPECT_TRUE(Errors(report).empty());
  const auto refused =
      Check("gpus: 4\nenv: {CUDA_VISIBLE_DEVICES: \"0,1\"}\nrun: python train.py\n",
            Cluster("a100-40x4"));
  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(Contains(refused.error().message, "visible_devices_set"));
  EXPECT_TRUE(Contains(refused.error().hint, "gpu_ids"));
}

// Every example job on every example cluster that it fits, and jobs of the common kinds.
TEST(CheckOfNodes, OneThatDoesNotAnswerIsAnErrorWithTheTimeOfItsFacts) {
  NodeView view;
  view.inventory = Cluster("gh200x2").at(0);
  EXPECT_FALSE(HasErrors(ReportOfNode(view).findings)) << "of an inventory file";
  view.state = "idle";
  view.last_seen = WallTime(Millis(1'700'000'000'000));
  EXPECT_FALSE(HasErrors(ReportOfNode(view).findings));
  for (const std::string& state :
       {std::string("silent"), std::string("unknown"), std::string("fenced")}) {
    view.state = state;
    view.reason = "silent for 24s: no beat";
    const PreflightReport report = ReportOfNode(view);
    ASSERT_TRUE(HasErrors(report.findings)) << state;
    const std::string text = CheckText(report, Screen());
    EXPECT_TRUE(Contains(text, "does not answer: silent for 24s: no beat")) << text;
    EXPECT_TRUE(Contains(text, FormatLocalIso(view.last_seen))) << text;
    const auto json = nlohmann::json::parse(CheckJson(report));
    EXPECT_EQ(json["findings"][0]["code"], "node_silent");
  }
}

TEST(NoFalseAlarm, SoundClustersRaiseNothingAboveANotice) {
  std::vector<std::pair<std::string, std::string>> jobs = {
      {"one GPU", "gpus: 1\nrun: python train.py\n"},
      {"all of a node", "gpus: 4\nrun: torchrun --nproc_per_node=4 train.py\n"},
      {"two nodes", "nodes: 2\ngpus: 1\nrun: python train.py\n"},
      {"CPU", "device: cpu\ngpus: 0\nrun: python train.py\n"},
      {"two CPU nodes", "device: cpu\ngpus: 0\nnodes: 2\nrun: torchrun train.py\n"},
      {"offload", "gpus: 1\nstrategy: zero2-offload\nrun: python train.py\n"},
      {"no program of Python", "gpus: 1\nrun: nvidia-smi\n"}};
  for (const auto& entry : std::filesystem::directory_iterator(kConfigs + "jobs")) {
    if (entry.path().extension() != ".yaml") continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    jobs.emplace_back(entry.path().filename().string(), text.str());
  }
  ASSERT_GE(jobs.size(), 10U);
  int judged = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kConfigs + "clusters")) {
    const std::string cluster = entry.path().stem().string();
    const std::vector<NodeInventory> nodes = Cluster(cluster);
    for (const auto& [name, text] : jobs) {
      const auto answer = Check(text, nodes);
      if (!answer) {  // another kind of no: it does not fit
        EXPECT_EQ(answer.error().code, ErrorCode::kCannotFit)
            << name << " on " << cluster << ": " << FormatError(answer.error());
        continue;
      }
      ++judged;
      for (const Finding& finding : ReportOf(*answer).findings) {
        // Meant: nothing in that line tells the script to shard.
        if (name == "offload" && finding.code == "plan_cannot_reach_script") continue;
        EXPECT_EQ(finding.severity, Severity::kNotice)
            << name << " on " << cluster << ": " << finding.code << ": " << finding.says;
        EXPECT_TRUE(IsPreflightCode(finding.code)) << finding.code;
      }
    }
  }
  EXPECT_GE(judged, 40);
}

}  // namespace
}  // namespace launch
