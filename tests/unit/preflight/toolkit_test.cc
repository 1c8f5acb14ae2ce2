// toolkit_mismatch and op_build_prerequisites: what DeepSpeed needs to build cpu_adam.
#include <gtest/gtest.h>

#include "preflight/toolkit_check.h"
#include "tests/unit/preflight/scene.h"

namespace launch {
namespace {

// torch 2.5.1+cu124 on a driver 550 with an optimizer that is offloaded.
Scene Offloading() {
  Scene scene;
  scene.OffloadOptimizer();
  scene.node.driver = "550.90.07";
  scene.node.driver_cuda = CudaVersion{12, 4};
  scene.node.toolkit = Toolkit{"12.4", "/usr/local/cuda"};
  scene.node.interpreters = {Torch(Scene::Interpreter(), "2.5.1+cu124", "12.4", true)};
  return scene;
}

TEST(OpBuild, ZeroBuildsOneForOffloadOnGpusAndOneForTheCpu) {
  Plan plan;
  plan.device = DeviceClass::kCuda;
  plan.strategy = Strategy::kZero2;
  EXPECT_EQ(OpToBuild({}, plan), "");
  plan.offload = Offload::kOptimizer;
  EXPECT_EQ(OpToBuild({}, plan), "cpu_adam");
  plan.strategy = Strategy::kFsdp;
  EXPECT_EQ(OpToBuild({}, plan), "");
  plan.strategy = Strategy::kZero3;
  plan.device = DeviceClass::kCpu;
  EXPECT_EQ(OpToBuild({}, plan), "deepspeed_shm_comm");
}

// DeepSpeed as the plan has it on CPUs, on a node that says which tools it has.
Scene OnCpus() {
  Scene scene;
  scene.node.gpus.clear();
  scene.plan.device = DeviceClass::kCpu;
  scene.plan.precision = Precision::kFp32;
  scene.job.trainer = scene.plan.trainer = Trainer::kDeepspeed;
  scene.plan.assignments[0].gpu_uuids.clear();
  scene.node.interpreters = {Torch(Scene::Interpreter(), "2.13.0+cpu", std::nullopt, false)};
  scene.node.interpreters[0].packages = {{"deepspeed", "0.19.8"}, {"ninja", "1.11.1"}};
  scene.node.tools = {{"c++", ""}, {"ninja", ""}};
  return scene;
}

TEST(OpBuild, ACpuWithoutACompilerIsNamedUnlessTheOperatorIsBuilt) {
  Scene scene = OnCpus();
  const PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"op_build_prerequisites"});
  EXPECT_EQ(report.findings[0].severity, Severity::kWarning) << "it may be built already";
  EXPECT_EQ(report.findings[0].says,
            "DeepSpeed builds deepspeed_shm_comm when the job starts, and there is no C++ compiler "
            "on gh01");
  EXPECT_TRUE(Contains(report.findings[0].remedy, "DS_BUILD_SHM_COMM=1"))
      << report.findings[0].remedy;
  EXPECT_TRUE(Contains(report.findings[0].evidence, "DeepSpeed 0.19.8 on the CPU"));
  scene.node.tools["c++"] = "12.2.0";
  EXPECT_TRUE(scene.Judge().findings.empty());
  EXPECT_EQ(ResultOf(scene.Judge(), "op builds"), "pass");
  scene.node.interpreters[0].packages.erase("ninja");
  ASSERT_EQ(Codes(scene.Judge()), std::vector<std::string>{"op_build_prerequisites"});
  EXPECT_TRUE(Contains(scene.Judge().findings[0].says, "no ninja on gh01"));
  scene.node.interpreters[0].built_ops = {"deepspeed_shm_comm"};
  EXPECT_TRUE(scene.Judge().findings.empty());
}

TEST(OpBuild, ACpuIsJudgedOnlyWhereDeepSpeedIsKnownToBuild) {
  const auto findings = [](const auto& change) {
    Scene scene = OnCpus();
    change(scene);
    return Codes(scene.Judge());
  };
  const std::vector<std::string> none;
  EXPECT_EQ(findings([](Scene& s) { s.node.tools.clear(); }), none) << "nobody looked";
  EXPECT_EQ(findings([](Scene& s) { s.job.trainer = s.plan.trainer = Trainer::kAuto; }), none);
  EXPECT_EQ(findings([](Scene& s) { s.node.interpreters[0].packages["deepspeed"] = "0.12.3"; }),
            none);
  EXPECT_EQ(findings([](Scene& s) { s.node.interpreters[0].packages.erase("deepspeed"); }), none);
  const auto by_variable = [](Scene& s) {
    s.job.trainer = s.plan.trainer = Trainer::kHf;
    s.SetVariable("DS_ACCELERATOR", "cpu");
  };
  EXPECT_EQ(findings(by_variable), std::vector<std::string>{"op_build_prerequisites"});
  EXPECT_EQ(findings([&](Scene& s) {
              by_variable(s);
              s.job.env = {{"DS_ACCELERATOR", "cpu"}};
            }),
            none)
      << "the user may have it in every job";
}

TEST(OpBuild, TheSameVersionPasses) {
  const PreflightReport report = Offloading().Judge();
  EXPECT_TRUE(report.findings.empty());
  EXPECT_EQ(ResultOf(report, "op builds"), "pass");
}

TEST(OpBuild, AnotherMajorVersionIsRefused) {
  Scene scene = Offloading();
  scene.node.toolkit->nvcc = "11.5";
  const PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"toolkit_mismatch"});
  const Finding& finding = report.findings[0];
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_TRUE(Contains(finding.says, "11.5"));
  EXPECT_TRUE(Contains(finding.remedy, "12.4"));
  EXPECT_TRUE(Contains(finding.remedy, "DS_BUILD_OPS is read when DeepSpeed is installed"));
  EXPECT_FALSE(finding.fix.empty());
}

TEST(OpBuild, IsJudgedAtTheStartWhereTheInterpreterWasNotKnownBefore) {
  Scene scene = Offloading();
  scene.node.toolkit->nvcc = "11.5";
  StagingFacts facts;
  facts.runtime = scene.node.interpreters[0];
  const AllocationSpec spec = scene.Allocation();
  const auto codes = [&] {
    const std::vector<StagedNode> nodes = {{spec, scene.node, facts}};
    return Codes(JudgeTogether(scene.job, scene.plan, nodes, {}));
  };
  EXPECT_EQ(codes(), std::vector<std::string>{}) << "the plan has said it";
  scene.node.interpreters.clear();
  EXPECT_EQ(codes(), std::vector<std::string>{"toolkit_mismatch"});
}

TEST(OpBuild, TheVariableOfTheUserMakesItAWarning) {
  Scene scene = Offloading();
  scene.node.toolkit->nvcc = "11.5";
  scene.SetVariable("DS_SKIP_CUDA_CHECK", "1");
  const PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"toolkit_mismatch"});
  EXPECT_EQ(report.findings[0].severity, Severity::kWarning);
  scene.SetVariable("DS_SKIP_CUDA_CHECK", "0");
  EXPECT_TRUE(HasErrors(scene.Judge().findings));
  scene.SetVariable("DS_SKIP_CUDA_CHECK", "");
  scene.SetVariable("DS_BUILD_OPS", "0");  // read at installation only
  EXPECT_TRUE(HasErrors(scene.Judge().findings));
}

TEST(OpBuild, AMinorVersionOfTheListIsANotice) {
  Scene scene = Offloading();
  scene.node.toolkit->nvcc = "12.6";
  const PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"toolkit_mismatch"});
  EXPECT_EQ(report.findings[0].severity, Severity::kNotice);
  EXPECT_TRUE(Contains(report.findings[0].says, "accepted by DeepSpeed"));
}

TEST(OpBuild, TheOneGapInTheListIsRefused) {
  Scene scene = Offloading();
  scene.node.toolkit->nvcc = "12.7";
  EXPECT_TRUE(HasErrors(scene.Judge().findings));
}

TEST(OpBuild, Cuda13IsInNoListAndTheVariableIsOffered) {
  Scene scene = Offloading();
  scene.node.driver = "580.65.06";
  scene.node.driver_cuda = CudaVersion{13, 0};
  scene.node.toolkit->nvcc = "13.2";
  scene.node.interpreters = {Torch(Scene::Interpreter(), "2.13.0+cu130", "13.0", true)};
  const PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"toolkit_mismatch"});
  EXPECT_EQ(report.findings[0].severity, Severity::kError);
  EXPECT_TRUE(Contains(report.findings[0].says, "has no 13")) << report.findings[0].says;
  EXPECT_EQ(report.findings[0].remedy.rfind("check: ", 0), 0U) << report.findings[0].remedy;
  EXPECT_TRUE(Contains(report.findings[0].remedy, "DS_SKIP_CUDA_CHECK"));
  scene.node.toolkit->nvcc = "13.0";  // equal needs no list
  EXPECT_TRUE(scene.Judge().findings.empty());
}

TEST(OpBuild, WithoutNvccOnlyAPrebuiltOperatorHelps) {
  Scene scene = Offloading();
  scene.node.toolkit.reset();
  const PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"op_build_prerequisites"});
  EXPECT_TRUE(Contains(report.findings[0].says, "no nvcc"));
  EXPECT_TRUE(HasErrors(report.findings));
  scene.node.interpreters[0].built_ops = {"cpu_adam"};
  EXPECT_TRUE(scene.Judge().findings.empty());
  scene.node.interpreters[0].built_ops = {"fused_adam"};
  EXPECT_TRUE(HasErrors(scene.Judge().findings));
}

TEST(OpBuild, ACompilerAndNinjaAreNeededToo) {
  Scene scene = Offloading();
  scene.node.tools = {{"c++", "12.2.0"}, {"ninja", "1.11.1"}};
  EXPECT_TRUE(scene.Judge().findings.empty());
  scene.node.tools.erase("ninja");
  PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"op_build_prerequisites"});
  EXPECT_TRUE(Contains(report.findings[0].remedy, "-m pip install ninja"));
  scene.node.interpreters[0].packages["ninja"] = "1.11.1";  // in the venv
  EXPECT_TRUE(scene.Judge().findings.empty());
  scene.node.tools = {{"ninja", "1.11.1"}, {"c++", ""}};  // as an agent says that it has none
  report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"op_build_prerequisites"});
  EXPECT_TRUE(Contains(report.findings[0].says, "C++ compiler"));
  scene.SetVariable("CXX", "/opt/gcc/bin/g++");
  EXPECT_TRUE(scene.Judge().findings.empty());
}

TEST(OpBuild, AToolkitThatTheJobNamesIsNotJudgedByAnother) {
  Scene scene = Offloading();
  scene.node.toolkit->nvcc = "11.5";
  scene.SetVariable("CUDA_HOME", "/opt/cuda-12.4");
  EXPECT_TRUE(scene.Judge().findings.empty());
  scene.SetVariable("CUDA_HOME", "/usr/local/cuda");
  EXPECT_TRUE(HasErrors(scene.Judge().findings));
}

TEST(OpBuild, AJobWithoutDeepSpeedDoesNotCare) {
  Scene scene = Offloading();
  scene.node.toolkit->nvcc = "11.5";
  scene.plan.strategy = Strategy::kDdp;
  scene.plan.offload = Offload::kNone;
  EXPECT_TRUE(scene.Judge().findings.empty());
}

}  // namespace
}  // namespace launch
