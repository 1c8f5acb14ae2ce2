#include "preflight/preflight.h"

#include <gtest/gtest.h>

#include "tests/unit/preflight/scene.h"

namespace launch {
namespace {

PathFact Path(const std::string& what, const std::string& path, bool ok,
              const std::string& why = "") {
  PathFact fact;
  fact.what = what;
  fact.path = path;
  fact.ok = ok;
  fact.why = why;
  return fact;
}

bool HasPassed(const PreflightReport& report, const std::string& check) {
  return ResultOf(report, check) == "pass";
}

// A user story (S000-1): a GPU job whose virtual environment has a CPU-only torch.
TEST(JudgeInventories, StopsACpuOnlyTorchOnAGpuJob) {
  Scene scene;
  scene.node.interpreters = {Torch("/home/ana/venv/bin/python", "2.13.0+cpu", std::nullopt, false)};
  const PreflightReport report = scene.Judge();
  ASSERT_EQ(report.findings.size(), 1U);
  const Finding& finding = report.findings[0];
  EXPECT_EQ(finding.code, "torch_cpu_only");
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_TRUE(HasErrors(report.findings));
  for (const char* part : {"2.13.0+cpu", "gh01", "/home/ana/venv/bin/python"}) {
    EXPECT_TRUE(Contains(finding.says, part)) << finding.says;
  }
  EXPECT_TRUE(Contains(finding.remedy, "cu126"));
  EXPECT_TRUE(Contains(finding.remedy, "CUDA 13"));
  EXPECT_TRUE(Contains(finding.remedy, "driver 580"));
  EXPECT_TRUE(HasPassed(report, "driver"));
}

TEST(JudgeInventories, PassesATorchThatSeesTheGpu) {
  Scene scene;
  scene.node.interpreters = {Torch("/home/ana/venv/bin/python", "2.13.0+cu126", "12.6", true)};
  const PreflightReport report = scene.Judge();
  EXPECT_TRUE(report.findings.empty());
  EXPECT_TRUE(HasPassed(report, "torch CUDA"));
}

TEST(JudgeInventories, NamesADriverThatIsTooOld) {
  Scene scene;
  scene.node.interpreters = {Torch("/home/ana/venv/bin/python", "2.13.0+cu130", "13.0", false)};
  const PreflightReport report = scene.Judge();
  EXPECT_EQ(Codes(report), std::vector<std::string>{"cuda_driver_too_old"});
  EXPECT_TRUE(Contains(report.findings[0].remedy, "580"));
}

TEST(JudgeInventories, SaysNothingAboutInterpretersThatAreNotTheJobs) {
  Scene scene;
  scene.node.interpreters = {Torch("/usr/bin/python3", "2.13.0+cpu", std::nullopt, false)};
  EXPECT_TRUE(scene.Judge().findings.empty());
}

TEST(JudgeInventories, TakesTheOnlyInterpreterForAJobThatNamesNone) {
  Scene scene;
  scene.job.venv.clear();
  scene.plan.assignments[0].env.clear();
  scene.node.interpreters = {Torch("/usr/bin/python3", "2.0.1+cpu", std::nullopt, false)};
  EXPECT_EQ(Codes(scene.Judge()), std::vector<std::string>{"torch_cpu_only"});
  scene.node.interpreters.push_back(Torch("/opt/py", "2.13.0+cu126", "12.6", true));
  EXPECT_TRUE(scene.Judge().findings.empty());  // which of the two is not known
  scene.node.interpreters.pop_back();
  scene.plan.command = "exec ./train";
  EXPECT_TRUE(scene.Judge().findings.empty());
}

TEST(JudgeInventories, AJobThatNamesNoInterpreterGetsTheFirstOfThePath) {
  Scene scene;
  scene.job.venv.clear();
  scene.plan.assignments[0].env.clear();
  scene.node.interpreters = {Torch("/opt/py/bin/python3", "2.13.0+cu126", "12.6", true),
                             Torch("/usr/bin/python3", "2.0.1+cpu", std::nullopt, false)};
  EXPECT_TRUE(scene.Judge().findings.empty()) << "its PATH is not known";
  scene.node.base_env["PATH"] = "/usr/local/bin:/usr/bin:/opt/py/bin";
  EXPECT_EQ(Codes(scene.Judge()), std::vector<std::string>{"torch_cpu_only"});
  scene.plan.assignments[0].env["PATH"] = "/opt/other/bin:/usr/local/bin:/usr/bin";
  EXPECT_TRUE(scene.Judge().findings.empty()) << "the job's own PATH may have another in front";
}

TEST(JudgeInventories, TheOnlyInterpreterIsNotThatOfAnActiveCondaEnvironment) {
  Scene scene;
  scene.job.venv.clear();
  scene.plan.assignments[0].env = {{"CONDA_PREFIX", "/envs/train"}};
  scene.node.interpreters = {Torch("/usr/bin/python3", "2.0.1+cpu", std::nullopt, false)};
  EXPECT_TRUE(scene.Judge().findings.empty());
}

TEST(JudgeInventories, AnActiveVenvSaysNothingAboutACommandThatIsNotPython) {
  Scene scene;
  scene.job.venv.clear();  // the venv of the plan is the one that was active at submit
  scene.node.interpreters = {Torch("/home/ana/venv/bin/python", "2.13.0+cpu", std::nullopt, false)};
  EXPECT_EQ(Codes(scene.Judge()), std::vector<std::string>{"torch_cpu_only"});
  scene.plan.command = "exec nvidia-smi";
  EXPECT_TRUE(scene.Judge().findings.empty());
}

TEST(JudgeInventories, LeavesCpuJobsAndUncheckedJobsAlone) {
  Scene scene;
  scene.node.interpreters = {Torch("/home/ana/venv/bin/python", "2.13.0+cpu", std::nullopt, false)};
  scene.plan.device = DeviceClass::kCpu;
  EXPECT_TRUE(scene.Judge().findings.empty());
  scene.plan.device = DeviceClass::kCuda;
  scene.job.preflight = PreflightLevel::kNone;
  EXPECT_TRUE(scene.Judge().findings.empty());
}

TEST(JudgeInventories, JudgesTheHealthOfTheJobsGpusOnly) {
  Scene scene;
  scene.node.gpus.push_back(Gpu("GPU-2"));
  scene.node.gpus[1].health = Health::kBad;
  EXPECT_TRUE(scene.Judge().findings.empty());
  scene.node.gpus[0].health = Health::kBad;
  scene.node.gpus[0].why = "Xid 79";
  const PreflightReport report = scene.Judge();
  EXPECT_EQ(Codes(report), std::vector<std::string>{"gpu_unhealthy"});
  EXPECT_TRUE(Contains(report.findings[0].says, "Xid 79"));
  scene.node.gpus[0].health = Health::kWarn;
  EXPECT_FALSE(HasErrors(scene.Judge().findings));
}

TEST(JudgeInventories, RefusesAPrecisionTheDeviceLacks) {
  Scene scene;
  scene.node.gpus[0].cc = ComputeCapability{7, 0};
  EXPECT_EQ(Codes(scene.Judge()), std::vector<std::string>{"precision_unsupported"});
}

TEST(JudgeStaging, AScriptThatIsNotExecutableIsMadeSoOrGivenToBash) {
  const Scene scene;
  const auto remedy = [&](const char* word, const char* why) {
    StagingFacts facts;
    facts.paths = {Path("command", word, false, why)};
    return JudgeStaging(scene.Allocation(), scene.node, facts).findings.at(0).remedy;
  };
  EXPECT_EQ(remedy("./run.sh", "not executable"),
            "chmod +x ./run.sh, or write `bash ./run.sh` in run");
  EXPECT_EQ(remedy("train.py", "/v/bin/train.py is not executable"),
            "chmod +x /v/bin/train.py, or write `python /v/bin/train.py` in run");
  EXPECT_TRUE(Contains(remedy("./run.sh", "no such file"), "path from the workdir"));
  EXPECT_TRUE(Contains(remedy("run.sh", "not found on PATH /bin"), "./run.sh"));
}

TEST(JudgeStaging, NamesWhatIsMissingAndWhere) {
  const Scene scene;
  StagingFacts facts;
  facts.paths = {Path("workdir", "/proj", false, "no such directory"),
                 Path("command", "train.sh", false, "not found on PATH /bin"),
                 Path("script", "/proj/train.py", false, "no such file"),
                 Path("interpreter", "/v/bin/python", false, "not executable")};
  const PreflightReport report = JudgeStaging(scene.Allocation(), scene.node, facts);
  EXPECT_EQ(Codes(report),
            (std::vector<std::string>{"command_missing", "command_missing", "workdir_missing"}))
      << "the script is missing for want of the workdir alone";
  for (const Finding& finding : report.findings) {
    EXPECT_EQ(finding.severity, Severity::kError);
    EXPECT_EQ(finding.node, scene.node.node);
    EXPECT_TRUE(Contains(finding.says, "gh01"));
    EXPECT_FALSE(finding.remedy.empty());
  }
}

TEST(JudgeStaging, ListsWhatPassed) {
  const Scene scene;
  StagingFacts facts;
  facts.paths = {Path("workdir", "/proj", true), Path("command", "/bin/true", true),
                 Path("marker", "/proj/.m", true)};
  facts.reach = {{"10.0.0.1", true, "eth0", ""}};
  facts.runtime = Torch("/home/ana/venv/bin/python", "2.13.0+cu126", "12.6", true);
  const PreflightReport report = JudgeStaging(scene.Allocation(), scene.node, facts);
  EXPECT_TRUE(report.findings.empty());
  for (const char* code : {"workdir", "command", "same directory", "network", "torch CUDA"}) {
    EXPECT_TRUE(HasPassed(report, code)) << code;
  }
}

TEST(JudgeStaging, AnotherDirectoryUnderTheSamePathIsRefusedWithBothValues) {
  const Scene scene;
  AllocationSpec spec = scene.Allocation();
  spec.workdir_inode = 5;
  StagingFacts facts;
  facts.paths = {Path("workdir", "/proj", true)};
  facts.paths[0].inode = 6;
  const PreflightReport report = JudgeStaging(spec, scene.node, facts);
  ASSERT_EQ(Codes(report), std::vector<std::string>{"path_not_shared"});
  EXPECT_TRUE(Contains(report.findings[0].says, "inode 6"));
  EXPECT_TRUE(Contains(report.findings[0].says, "has 5"));
  facts.paths = {Path("marker", "/proj/.m", false, "not there")};
  EXPECT_EQ(Codes(JudgeStaging(spec, scene.node, facts)),
            std::vector<std::string>{"path_not_shared"});
}

TEST(JudgeStaging, OneReachableAddressIsEnough) {
  const Scene scene;
  StagingFacts facts;
  facts.reach = {{"10.0.0.1", false, "", "timeout"}, {"192.168.0.1", true, "eth1", ""}};
  EXPECT_TRUE(JudgeStaging(scene.Allocation(), scene.node, facts).findings.empty());
  facts.reach.pop_back();
  const PreflightReport report = JudgeStaging(scene.Allocation(), scene.node, facts);
  ASSERT_EQ(Codes(report), std::vector<std::string>{"network_unreachable"});
  EXPECT_TRUE(Contains(report.findings[0].evidence, "10.0.0.1: timeout"));
}

TEST(JudgeStaging, JudgesTheRuntimeThatTheNodeProbed) {
  const Scene scene;
  AllocationSpec spec = scene.Allocation();
  StagingFacts facts;
  facts.runtime = Torch("/home/ana/venv/bin/python", "2.13.0+cpu", std::nullopt, false);
  EXPECT_EQ(Codes(JudgeStaging(spec, scene.node, facts)),
            std::vector<std::string>{"torch_cpu_only"});
  spec.preflight = PreflightLevel::kNone;
  EXPECT_TRUE(JudgeStaging(spec, scene.node, facts).findings.empty());
  spec = scene.Allocation();
  spec.needs_torch_cuda = false;
  EXPECT_TRUE(JudgeStaging(spec, scene.node, facts).findings.empty());
  spec.needs_torch_cuda = true;
  facts.runtime->torch.reset();
  EXPECT_FALSE(HasErrors(JudgeStaging(spec, scene.node, facts).findings));
}

TEST(JudgeStaging, JudgesTheTorchThatAnImageBrings) {
  const Scene scene;
  AllocationSpec spec = scene.Allocation();
  spec.needs_torch_cuda = false;
  spec.interpreter.clear();
  spec.container = ContainerSpec{.runtime = "apptainer", .image = "team/image:1"};
  RankSpec rank;
  rank.argv = {"/bin/bash", "--norc", "-c", "exec python train.py"};
  spec.ranks = {rank};
  StagingFacts facts;
  facts.runtime = Torch("python3 of image team/image:1", "2.13.0+cpu", std::nullopt, false);
  const PreflightReport report = JudgeStaging(spec, scene.node, facts);
  ASSERT_EQ(Codes(report), std::vector<std::string>{"torch_cpu_only"});
  EXPECT_TRUE(
      report.findings[0].remedy.starts_with("use an image whose torch fits this node: nvcr"))
      << report.findings[0].remedy;
  EXPECT_TRUE(report.findings[0].fix.empty()) << "nothing is installed into an image";
  spec.ranks[0].argv[3] = "exec ./benchmark";
  EXPECT_TRUE(JudgeStaging(spec, scene.node, facts).findings.empty()) << "it may need no torch";
  spec.ranks[0].argv[3] = "exec torchrun train.py";
  facts.runtime = Torch("python3 of image team/image:1", "2.13.0+cu126", "12.6", true);
  EXPECT_TRUE(JudgeStaging(spec, scene.node, facts).findings.empty());
}

TEST(JudgeInventories, OrdersErrorsFirstThenNodes) {
  Scene scene;
  NodeInventory second = scene.node;
  second.node.value = "gh00";
  second.gpus[0].health = Health::kWarn;
  RankAssignment rank = scene.plan.assignments[0];
  rank.node = second.node;
  scene.plan.assignments.push_back(rank);
  scene.node.gpus[0].health = Health::kBad;
  const PreflightReport report = JudgeInventories(scene.job, scene.plan, {&second, &scene.node});
  ASSERT_EQ(report.findings.size(), 2U);
  EXPECT_EQ(report.findings[0].node->value, "gh01");
  EXPECT_EQ(report.findings[1].node->value, "gh00");
}

}  // namespace
}  // namespace launch
