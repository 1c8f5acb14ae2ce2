// torch_missing, torch_cpu_only, cuda_driver_too_old, no_kernel_image and what they advise.
#include <gtest/gtest.h>

#include "common/activation.h"
#include "preflight/kernels.h"
#include "tests/unit/preflight/scene.h"

namespace launch {
namespace {

TEST(Kernels, MachineCodeRunsOnTheSameMajorAndHigherMinors) {
  EXPECT_EQ(KernelsFor({"sm_80"}, {8, 0}), Kernels::kNative);
  EXPECT_EQ(KernelsFor({"sm_80"}, {8, 6}), Kernels::kNative);
  EXPECT_EQ(KernelsFor({"sm_86"}, {8, 0}), Kernels::kNone);
  EXPECT_EQ(KernelsFor({"sm_80"}, {9, 0}), Kernels::kNone);
  EXPECT_EQ(KernelsFor({"sm_90"}, {8, 0}), Kernels::kNone);
  EXPECT_EQ(KernelsFor({"sm_100", "sm_120"}, {12, 0}), Kernels::kNative);
}

TEST(Kernels, ArchitectureSpecificCodeRunsOnExactlyThatOne) {
  EXPECT_EQ(KernelsFor({"sm_90a"}, {9, 0}), Kernels::kNative);
  EXPECT_EQ(KernelsFor({"sm_100a"}, {10, 3}), Kernels::kNone);
  EXPECT_EQ(KernelsFor({"compute_90a"}, {10, 0}), Kernels::kNone);
  EXPECT_EQ(KernelsFor({"sm_100f"}, {10, 3}), Kernels::kNative);
  EXPECT_EQ(KernelsFor({"sm_100f"}, {12, 0}), Kernels::kNone);
}

TEST(Kernels, PtxIsCompiledForEverythingNewer) {
  EXPECT_EQ(KernelsFor({"sm_80", "compute_80"}, {9, 0}), Kernels::kCompiled);
  EXPECT_EQ(KernelsFor({"sm_80", "compute_80"}, {8, 6}), Kernels::kNative);
  EXPECT_EQ(KernelsFor({"compute_90"}, {8, 0}), Kernels::kNone);
}

TEST(Kernels, AnUnknownListIsNoVerdict) {
  EXPECT_EQ(KernelsFor({}, {9, 0}), Kernels::kUnknown);
  EXPECT_EQ(KernelsFor({"gfx90a"}, {9, 0}), Kernels::kUnknown);
  EXPECT_EQ(KernelsFor({"sm_", "sm_x", "compute_"}, {9, 0}), Kernels::kUnknown);
}

TEST(TorchCheck, ACpuOnlyBuildFailsTwoLinesAndIsOneFinding) {
  Scene scene;
  scene.node.interpreters = {Torch(Scene::Interpreter(), "2.0.1+cpu", std::nullopt, false)};
  scene.node.toolkit = Toolkit{"12.8", "/usr/local/cuda"};
  const PreflightReport report = scene.Judge();
  EXPECT_EQ(Codes(report), std::vector<std::string>{"torch_cpu_only"});
  EXPECT_EQ(ResultOf(report, "driver"), "pass");
  EXPECT_EQ(ResultOf(report, "CUDA runtime"), "pass");
  EXPECT_EQ(ResultOf(report, "torch installed"), "pass");
  EXPECT_EQ(ResultOf(report, "torch CUDA"), "fail");
  EXPECT_EQ(ResultOf(report, "GPU usable"), "fail");
  EXPECT_TRUE(Contains(report.findings[0].evidence, "/usr/local/cuda"));
}

TEST(TorchCheck, TheRemediesStandInTheOrderToTryThem) {
  Scene scene;
  scene.node.interpreters = {Torch(Scene::Interpreter(), "2.0.1+cpu", std::nullopt, false)};
  scene.node.toolkit = Toolkit{"12.8", "/usr/local/cuda"};
  const std::string remedy = scene.Judge().findings.at(0).remedy;
  std::size_t last = 0;
  for (const char* way : {"wheel: ", "container: ", "source: ", "cpu: "}) {
    const std::size_t at = remedy.find(way);
    ASSERT_NE(at, std::string::npos) << way << "\n" << remedy;
    EXPECT_GE(at, last);
    last = at;
  }
  for (const char* part :
       {"2.6.0", "cu126", "2.0.1 never had one", "Container Toolkit", "nvcr.io/nvidia/pytorch",
        "USE_CUDA=1", "TORCH_CUDA_ARCH_LIST=9.0", "> 50 GB", "12.8", "device: cpu"}) {
    EXPECT_TRUE(Contains(remedy, part)) << part << "\n" << remedy;
  }
}

TEST(TorchCheck, OnX86NobodyIsToldAboutAarch64Wheels) {
  Scene scene;
  scene.node.arch = Arch::kX86_64;
  scene.node.interpreters = {Torch(Scene::Interpreter(), "2.0.1+cpu", std::nullopt, false)};
  EXPECT_FALSE(Contains(scene.Judge().findings.at(0).remedy, "aarch64"));
}

TEST(TorchCheck, AMissingTorchIsAnErrorOnlyWhereTheLineNeedsIt) {
  Scene scene;
  scene.node.interpreters[0].torch.reset();
  PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"torch_missing"});
  EXPECT_EQ(report.findings[0].severity, Severity::kWarning);
  scene.plan.launcher = LauncherKind::kTorchrun;
  EXPECT_EQ(scene.Judge().findings.at(0).severity, Severity::kError);
  scene.plan.device = DeviceClass::kCpu;
  EXPECT_EQ(Codes(scene.Judge()), std::vector<std::string>{"torch_missing"});
  scene.plan.launcher = LauncherKind::kProcess;
  EXPECT_TRUE(scene.Judge().findings.empty());
}

TEST(TorchCheck, ABuildForANewerCudaThanTheDriverIsRefused) {
  Scene scene;
  scene.node.interpreters = {Torch(Scene::Interpreter(), "2.13.0+cu130", "13.0", false)};
  const PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"cuda_driver_too_old"});
  EXPECT_EQ(report.findings[0].severity, Severity::kError);
  EXPECT_TRUE(Contains(report.findings[0].remedy, "driver 580"));
  EXPECT_TRUE(Contains(report.findings[0].remedy, "cu126"));
  EXPECT_EQ(ResultOf(report, "GPU usable"), "fail");
}

TEST(TorchCheck, ACompatibilityLibraryBridgesDriverAndTorch) {
  Scene scene;
  scene.node.interpreters = {Torch(Scene::Interpreter(), "2.13.0+cu130", "13.0", true)};
  EXPECT_TRUE(scene.Judge().findings.empty());
  scene.node.interpreters = {Torch(Scene::Interpreter(), "2.13.0+cu130", "13.0", false)};
  scene.node.driver = "580.65.06";
  scene.node.driver_cuda = CudaVersion{13, 0};
  EXPECT_EQ(Find(scene.Judge(), "cuda_driver_too_old"), nullptr);
}

TEST(TorchCheck, ABuildWithoutThisGpuIsRefused) {
  Scene scene;
  scene.torch().arch_list = {"sm_80"};
  const PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"no_kernel_image"});
  EXPECT_EQ(report.findings[0].severity, Severity::kError);
  EXPECT_TRUE(Contains(report.findings[0].says, "sm_90"));
  EXPECT_EQ(report.findings[0].evidence, "torch.cuda.get_arch_list() is sm_80");
  scene.torch().arch_list = {"sm_90a"};
  EXPECT_TRUE(scene.Judge().findings.empty());
}

TEST(TorchCheck, PtxAloneIsAWarningUnlessTheDriverIsOlderThanIt) {
  Scene scene;
  scene.torch().arch_list = {"sm_80", "compute_80"};
  PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"no_kernel_image"});
  EXPECT_EQ(report.findings[0].severity, Severity::kWarning);
  EXPECT_TRUE(Contains(report.findings[0].says, "first start is slow"));
  EXPECT_TRUE(report.findings[0].fix.empty());
  scene.node.driver_cuda = CudaVersion{12, 4};  // older than torch's 12.6
  report = scene.Judge();
  EXPECT_EQ(report.findings.at(0).severity, Severity::kError);
  EXPECT_TRUE(Contains(report.findings[0].says, "PTX"));
}

TEST(TorchCheck, ATorchThatSeesNoGpuStopsAJobOnlyInItsOwnEnvironment) {
  Scene scene;
  scene.node.interpreters[0].sees_gpu = false;
  scene.node.interpreters[0].says = "CUDA unknown error";
  EXPECT_EQ(scene.Judge().findings.at(0).severity, Severity::kWarning);
  StagingFacts facts;
  facts.runtime = scene.node.interpreters[0];
  const PreflightReport report = JudgeStaging(scene.Allocation(), scene.node, facts);
  ASSERT_EQ(Codes(report), std::vector<std::string>{"gpu_unhealthy"});
  EXPECT_EQ(report.findings[0].severity, Severity::kError);
  EXPECT_EQ(report.findings[0].evidence, "CUDA unknown error");
}

// What the probe says where `import torch` fails: no answer about GPUs, and the exception's words.
TEST(TorchCheck, ATorchThatCannotBeImportedUsesNoGpu) {
  Scene scene;
  RuntimeFacts& runtime = scene.node.interpreters[0];
  runtime.sees_gpu.reset();
  EXPECT_TRUE(scene.Judge().findings.empty()) << "only read, never tried";
  runtime.says = "OSError: libcudart.so.12: cannot open shared object file";
  const PreflightReport known = scene.Judge();
  ASSERT_EQ(Codes(known), std::vector<std::string>{"torch_missing"});
  EXPECT_EQ(known.findings[0].severity, Severity::kWarning);
  EXPECT_EQ(ResultOf(known, "GPU usable"), "warn");

  StagingFacts facts;
  facts.runtime = runtime;
  AllocationSpec spec = scene.Allocation();
  RankSpec rank;
  const auto judge = [&](const std::string& text) {
    rank.argv = {"/bin/bash", "--norc", "-c", text};
    spec.ranks = {rank};
    return JudgeStaging(spec, scene.node, facts).findings;
  };
  EXPECT_TRUE(HasErrors(judge("exec python train.py")));
  EXPECT_EQ(judge("exec python train.py")[0].evidence, runtime.says);
  EXPECT_FALSE(HasErrors(judge("source env.sh\nexec python train.py")))
      << "env.sh may say where the library is";
  EXPECT_FALSE(HasErrors(judge("exec bash train.sh"))) << "so may train.sh";
  EXPECT_FALSE(HasErrors(judge("exec /opt/x/bin/python train.py"))) << "not the one probed";
  rank.argv = {"/bin/bash", "--norc",
               "-c",        ". activate.sh\n" + std::string(kActivatedCommand),
               "launch",    "exec python train.py"};
  spec.ranks = {rank};
  EXPECT_TRUE(HasErrors(JudgeStaging(spec, scene.node, facts).findings))
      << "it was probed behind those scripts";
  rank.argv[5] = "source env.sh\nexec python train.py";
  spec.ranks = {rank};
  EXPECT_FALSE(HasErrors(JudgeStaging(spec, scene.node, facts).findings));
  for (const char* killed : {"ended by signal 9", "ended by signal 15 (Terminated)"}) {
    facts.runtime->says = killed;
    EXPECT_FALSE(HasErrors(judge("exec python train.py"))) << "by others";
  }
  for (const char* own : {"ended by signal 4 (Illegal instruction)", "ended by signal 11"}) {
    facts.runtime->says = own;
    EXPECT_TRUE(HasErrors(judge("exec python train.py"))) << own;
  }
  facts.runtime->says = "no answer within 120 s";
  EXPECT_FALSE(HasErrors(judge("exec python train.py")));
}

TEST(TorchCheck, ATorchThatIsHalfInstalledIsNamedAsSuch) {
  Scene scene;
  RuntimeFacts runtime;
  runtime.path = "/env/bin/python";
  runtime.python = "3.11.7";
  runtime.says = "torch is half installed: [Errno 2] No such file or directory: 'version.py'";
  AllocationSpec spec;
  spec.needs_torch_cuda = true;
  spec.interpreter = runtime.path;
  RankSpec rank;
  rank.argv = {"/bin/bash", "--norc", "-c", "exec python train.py"};
  spec.ranks = {rank};
  StagingFacts facts;
  facts.runtime = runtime;
  const PreflightReport report = JudgeStaging(spec, scene.node, facts);
  ASSERT_EQ(Codes(report), std::vector<std::string>{"torch_missing"});
  EXPECT_TRUE(Contains(report.findings[0].says, "half installed"));
  EXPECT_EQ(report.findings[0].severity, Severity::kError) << "import torch fails";
}

TEST(TorchCheck, AnInterpreterThatDoesNotAnswerHasACodeOfItsOwn) {
  Scene scene;
  RuntimeFacts runtime;
  runtime.path = "/nfs/env/bin/python";
  runtime.says = "no answer within 10 s";
  scene.node.interpreters = {runtime};
  EXPECT_FALSE(HasErrors(scene.Judge().findings)) << "asked ahead, it may have been slow";
  AllocationSpec spec;
  spec.needs_torch_cuda = true;
  StagingFacts facts;
  facts.runtime = runtime;
  const PreflightReport report = JudgeStaging(spec, scene.node, facts);
  ASSERT_EQ(Codes(report), std::vector<std::string>{"interpreter_silent"});
  EXPECT_EQ(report.findings[0].severity, Severity::kError);
  EXPECT_TRUE(Contains(report.findings[0].says, "/nfs/env/bin/python on "));
  EXPECT_TRUE(Contains(report.findings[0].evidence, "no answer within 10 s"));
  EXPECT_TRUE(Contains(report.findings[0].remedy, "sitecustomize"));
}

TEST(TorchCheck, WhatTheNodeLackedToAskIsNoFaultOfTheInterpreter) {
  Scene scene;
  RuntimeFacts runtime;
  runtime.path = "/env/bin/python";
  runtime.says = "could not be asked: mkdir /sys/fs/cgroup/probe-1: No space left on device";
  AllocationSpec spec;
  spec.needs_torch_cuda = true;
  StagingFacts facts;
  facts.runtime = runtime;
  const PreflightReport report = JudgeStaging(spec, scene.node, facts);
  ASSERT_EQ(Codes(report), std::vector<std::string>{"interpreter_unasked"});
  EXPECT_EQ(report.findings[0].severity, Severity::kWarning);
  EXPECT_TRUE(Contains(report.findings[0].says, "could not be asked"));
  EXPECT_TRUE(Contains(report.findings[0].remedy, "No space left on device"));
}

TEST(TorchCheck, ABuildForRocmIsNoneForCuda) {
  Scene scene;
  scene.node.interpreters = {Torch(Scene::Interpreter(), "2.5.1+rocm6.2", std::nullopt, false)};
  scene.node.interpreters[0].torch->hip = "6.2";
  const PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"torch_cpu_only"});
  EXPECT_TRUE(Contains(report.findings[0].says, "is built for ROCm 6.2, not for CUDA"));
}

TEST(TorchCheck, BlackwellIsNotSentToAChannelWithoutItsCode) {
  Scene scene;
  scene.node.arch = Arch::kX86_64;
  scene.node.gpus[0].cc = ComputeCapability{12, 0};
  scene.node.interpreters = {Torch(Scene::Interpreter(), "2.13.0+cpu", std::nullopt, false)};
  std::string remedy = scene.Judge().findings.at(0).remedy;
  EXPECT_TRUE(Contains(remedy, "whl/cu128")) << remedy;
  EXPECT_TRUE(Contains(remedy, "'torch<2.12'")) << remedy;
  scene.node.gpus[0].cc = ComputeCapability{11, 0};  // only CUDA 13 has it, on aarch64
  scene.node.arch = Arch::kAarch64;
  remedy = scene.Judge().findings.at(0).remedy;
  EXPECT_TRUE(Contains(remedy, "update the NVIDIA driver to driver 580")) << remedy;
}

TEST(TorchCheck, AnOldGpuIsSentToTheChannelThatStillHasIt) {
  Scene scene;
  scene.node.arch = Arch::kX86_64;
  scene.node.driver = "580.65.06";
  scene.node.driver_cuda = CudaVersion{13, 0};
  scene.node.gpus[0].cc = ComputeCapability{7, 0};
  scene.plan.precision = Precision::kFp16;
  scene.torch().version = "2.13.0+cu130";
  scene.torch().cuda = "13.0";
  scene.torch().arch_list = {"sm_75", "sm_80", "sm_90"};
  const PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"no_kernel_image"});
  EXPECT_TRUE(Contains(report.findings[0].remedy, "whl/cu126"));
}

TEST(DriverCheck, AToolkitNewerThanTheDriverIsANotice) {
  Scene scene;
  scene.node.cuda_runtime = "13.0.48";
  const PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"cuda_driver_too_old"});
  EXPECT_EQ(report.findings[0].severity, Severity::kNotice);
  scene.node.cuda_runtime = "12.8.57";
  EXPECT_TRUE(scene.Judge().findings.empty());
}

TEST(DriverCheck, ADriverProblemIsSaidWithTheNode) {
  Scene scene;
  scene.node.driver_problem = "driver_mismatch: reboot";
  const PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"gpu_unhealthy"});
  EXPECT_EQ(ResultOf(report, "driver"), "warn");
  EXPECT_TRUE(Contains(report.findings[0].says, "gh01"));
}

TEST(Remedies, AnInterpreterWithASpaceIsQuoted) {
  Scene scene;
  scene.job.venv = "/home/ana/my venv";
  scene.SetVariable("VIRTUAL_ENV", scene.job.venv);
  scene.node.interpreters = {
      Torch("/home/ana/my venv/bin/python", "2.13.0+cpu", std::nullopt, false)};
  const Finding finding = scene.Judge().findings.at(0);
  ASSERT_EQ(finding.fix.size(), 1U);
  EXPECT_EQ(finding.fix[0].rfind("'/home/ana/my venv/bin/python' -m pip install", 0), 0U);
}

}  // namespace
}  // namespace launch
