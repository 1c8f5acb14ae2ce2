// Rules about the node itself: GPUs, memory, limits, disks, container runtime.
#include <gtest/gtest.h>

#include "preflight/gpu_check.h"
#include "tests/unit/preflight/scene.h"

namespace launch {
namespace {

constexpr std::uint64_t kMi = 1ULL << 20;
constexpr std::uint64_t kGi = 1ULL << 30;

DiskFact Disk(const std::string& what, std::uint64_t free, std::uint64_t total = 100 * kGi) {
  DiskFact disk;
  disk.what = what;
  disk.path = "/data/" + what;
  disk.total_bytes = total;
  disk.free_bytes = free;
  return disk;
}

PreflightReport JudgeDisk(const DiskFact& disk) {
  const Scene scene;
  StagingFacts facts;
  facts.disks = {disk};
  return JudgeStaging(scene.Allocation(), scene.node, facts);
}

TEST(GpuCheck, AModelThatNoRuleKnowsIsANotice) {
  Scene scene;
  scene.node.gpus[0].type.clear();
  const PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"gpu_name_unknown"});
  EXPECT_EQ(report.findings[0].severity, Severity::kNotice);
}

TEST(GpuCheck, MigSlicesAreNotTheWholeGpu) {
  Scene scene;
  scene.node.gpus[0].mig = {{GpuUuid{"MIG-1"}, "1g.12gb", 12 * kGi}};
  const PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"gpu_unhealthy"});
  EXPECT_TRUE(Contains(report.findings[0].says, "1g.12gb"));
}

TEST(GpuCheck, PersistenceModeOffIsANotice) {
  Scene scene;
  scene.node.gpus[0].persistence = false;
  const PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"gpu_unhealthy"});
  EXPECT_EQ(report.findings[0].severity, Severity::kNotice);
  scene.node.gpus[0].persistence = true;
  EXPECT_TRUE(scene.Judge().findings.empty());
}

TEST(GpuCheck, OneThrottledAmongEqualsIsNamed) {
  Scene scene;
  scene.node.gpus = {Gpu("GPU-1"), Gpu("GPU-2")};
  scene.node.gpus[0].power_limit_w = 900;
  scene.node.gpus[1].power_limit_w = 600;
  EXPECT_TRUE(scene.Judge().findings.empty());  // the job has only the first
  scene.plan.assignments[0].gpu_uuids.push_back(GpuUuid{"GPU-2"});
  const PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"gpu_unhealthy"});
  EXPECT_TRUE(Contains(report.findings[0].says, "GPU 1"));
  EXPECT_EQ(report.findings[0].fix, std::vector<std::string>{"nvidia-smi -i 1 -pl 900"});
  scene.node.gpus[1].health = Health::kWarn;
  scene.node.gpus[1].why = "power_limited: its power limit was set to 600 W, 900 W is usual";
  ASSERT_EQ(Codes(scene.Judge()), std::vector<std::string>{"gpu_unhealthy"}) << "once";
  EXPECT_TRUE(Contains(scene.Judge().findings[0].says, "600 W, 900 W is usual"));
  scene.node.gpus[1].health = Health::kOk;
  scene.node.gpus[1].why.clear();
  scene.node.gpu_subset = true;  // GPU 1 of the machine is somebody else's
  scene.node.gpus[1].pci.clear();
  EXPECT_EQ(scene.Judge().findings[0].fix, std::vector<std::string>{"nvidia-smi -i GPU-2 -pl 900"});
}

TEST(GpuCheck, Fp8NeedsItsCapabilityAndBf16Its) {
  Scene scene;
  scene.node.gpus[0].cc = ComputeCapability{8, 0};
  scene.torch().arch_list = {"sm_80"};
  EXPECT_TRUE(scene.Judge().findings.empty());
  scene.plan.precision = Precision::kFp8;
  EXPECT_EQ(Codes(scene.Judge()), std::vector<std::string>{"precision_unsupported"});
}

TEST(GpuCheck, TwoRanksOnOneGpuAreWhatNcclRefuses) {
  Scene scene;
  scene.job.procs_per_node = 2;
  scene.plan.assignments = {scene.Rank(0, scene.node.node, "GPU-1"),
                            scene.Rank(1, scene.node.node, "GPU-1")};
  for (RankAssignment& rank : scene.plan.assignments) rank.env["LAUNCH_BACKEND"] = "nccl";
  const PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"duplicate_gpu"});
  EXPECT_EQ(report.findings[0].says,
            "2 ranks share one GPU on gh01: NCCL refuses two of them on one device");
  EXPECT_EQ(report.findings[0].evidence, "procs_per_node: 2");
  scene.plan.assignments[1].gpu_uuids = {GpuUuid{"GPU-3"}};
  EXPECT_TRUE(scene.Judge().findings.empty()) << "a GPU, or a MIG slice, for each";
  scene.plan.assignments[1].gpu_uuids = {GpuUuid{"GPU-1"}};
  for (RankAssignment& rank : scene.plan.assignments) rank.env["LAUNCH_BACKEND"] = "gloo";
  EXPECT_TRUE(scene.Judge().findings.empty());
}

TEST(GpuCheck, MemoryThatNoJobOfOursHasIsForeignUse) {
  Scene scene;
  PreflightReport report;
  std::vector<GpuSample> samples(1);
  samples[0].uuid.value = "GPU-1";
  samples[0].used_bytes = 12 * kGi;
  JudgeForeignUse(scene.node, {GpuUuid{"GPU-1"}}, samples, report);
  ASSERT_EQ(Codes(report), std::vector<std::string>{"gpu_busy"});
  EXPECT_TRUE(Contains(report.findings[0].says, "12"));
  report = {};
  JudgeForeignUse(scene.node, {}, samples, report);  // one of our jobs has it
  samples[0].used_bytes = 400 * kMi;                 // an idle driver
  JudgeForeignUse(scene.node, {GpuUuid{"GPU-1"}}, samples, report);
  scene.node.coherent = CoherentMode::kNuma;  // page cache of the host may lie there
  samples[0].used_bytes = 12 * kGi;
  JudgeForeignUse(scene.node, {GpuUuid{"GPU-1"}}, samples, report);
  EXPECT_TRUE(report.findings.empty());
}

TEST(JudgeNode, ListsEveryGpuAndSoftensWhatAnotherInterpreterMayMend) {
  Scene scene;
  scene.node.gpus.push_back(Gpu("GPU-9"));
  scene.node.gpus[1].health = Health::kBad;
  scene.node.interpreters = {Torch("/usr/bin/python3", "2.0.1+cpu", std::nullopt, false)};
  const PreflightReport report = JudgeNode(scene.node);
  const Finding* torch = Find(report, "torch_cpu_only");
  ASSERT_NE(torch, nullptr);
  EXPECT_EQ(torch->severity, Severity::kWarning);
  const Finding* gpu = Find(report, "gpu_unhealthy");
  ASSERT_NE(gpu, nullptr);
  EXPECT_EQ(gpu->severity, Severity::kError);
  EXPECT_EQ(ResultOf(report, "torch CUDA"), "warn");
}

TEST(HostCheck, SharedMemoryOfAContainerIsTooSmallForLoaderWorkers) {
  Scene scene;
  scene.plan.loader.num_workers = 4;
  scene.node.shm_bytes = 64 * kMi;
  const PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"shm_small"});
  EXPECT_EQ(report.findings[0].severity, Severity::kWarning);
  // A way for each thing that an agent may run in, with the size that is wanted.
  for (const char* const way :
       {"mount -o remount,size=4g /dev/shm", "docker run --ipc=host, or --shm-size=4g",
        "apptainer exec --bind /dev/shm", "emptyDir: {medium: Memory, sizeLimit: 4Gi}"})
    EXPECT_TRUE(Contains(report.findings[0].remedy, way)) << report.findings[0].remedy;
  EXPECT_EQ(report.findings[0].fix, std::vector<std::string>{"mount -o remount,size=4g /dev/shm"});
  scene.plan.device = DeviceClass::kCpu;
  EXPECT_EQ(scene.Judge().findings.at(0).severity, Severity::kNotice);
  scene.plan.device = DeviceClass::kCuda;
  scene.node.shm_bytes = 512 * kMi;  // less than the floor of four workers, more than a container's
  EXPECT_EQ(scene.Judge().findings.at(0).severity, Severity::kNotice);
  scene.node.shm_bytes = 8 * kGi;
  EXPECT_TRUE(scene.Judge().findings.empty());
  scene.node.shm_bytes = 0;  // not known
  EXPECT_TRUE(scene.Judge().findings.empty());
  scene.node.shm_bytes = 64 * kMi;
  scene.plan.loader.num_workers = 0;
  EXPECT_TRUE(scene.Judge().findings.empty());
}

TEST(HostCheck, SharedMemoryIsNeverMadeSmallerNorMoreThanHalfOfTheMemory) {
  Scene scene;
  scene.plan.loader.num_workers = 4;
  scene.node.shm_bytes = 512 * kMi;
  scene.node.memory_bytes = 6 * kGi;
  const Finding half = scene.Judge().findings.at(0);  // 4 GiB are wanted
  EXPECT_EQ(half.fix, std::vector<std::string>{"mount -o remount,size=3g /dev/shm"});
  EXPECT_FALSE(Contains(half.remedy, "size=4g")) << half.remedy;
  scene.job.shm_bytes = 900 * kGi;
  scene.node.memory_bytes = 64 * kGi;
  const Finding asked = scene.Judge().findings.at(0);
  EXPECT_EQ(asked.severity, Severity::kError);
  EXPECT_TRUE(asked.fix.empty());
  EXPECT_TRUE(Contains(asked.remedy, "half of the node's memory is 32")) << asked.remedy;
  EXPECT_FALSE(Contains(asked.remedy, "remount")) << asked.remedy;
  scene.job.shm_bytes = 32 * kGi;
  EXPECT_EQ(scene.Judge().findings.at(0).fix,
            std::vector<std::string>{"mount -o remount,size=32g /dev/shm"});
  scene.node.shm_bytes = 64 * kMi;
  const PreflightReport node = JudgeNode(scene.node);
  ASSERT_NE(Find(node, "shm_small"), nullptr);
  EXPECT_TRUE(Contains(Find(node, "shm_small")->remedy, "size=16g"))
      << "what the next job may want, not one worker's";
}

TEST(HostCheck, AFullSharedMemoryThatIsLargeIsCleanedNotMadeSmall) {
  for (const std::uint64_t total : {503 * kGi, 16 * kGi}) {
    const Finding large = JudgeDisk(Disk("shm", 0, total)).findings.at(0);
    EXPECT_TRUE(Contains(large.remedy, "ls -la /dev/shm")) << large.remedy;
    EXPECT_FALSE(Contains(large.remedy, "size=")) << large.remedy;
  }
  const Finding small = JudgeDisk(Disk("shm", 0, 64 * kMi)).findings.at(0);
  EXPECT_TRUE(Contains(small.remedy, "remount,size=16g")) << small.remedy;
  DiskFact disk = Disk("shm", 60 * kMi, 64 * kMi);
  disk.free_inodes = 0;
  const Finding inodes = JudgeDisk(disk).findings.at(0);
  EXPECT_TRUE(Contains(inodes.remedy, "nr_inodes=")) << inodes.remedy;
  EXPECT_FALSE(Contains(inodes.remedy, ",size=")) << inodes.remedy;
}

TEST(HostCheck, LockedMemoryMattersToRdmaOnSeveralNodes) {
  Scene scene;
  scene.node.addresses = {{"ib0", "10.0.0.1", 200'000, 4096, true}};
  scene.node.limits.memlock_bytes = 64 * 1024;
  EXPECT_TRUE(scene.Judge().findings.empty());
  scene.AddNode();
  EXPECT_EQ(Codes(scene.Judge()), (std::vector<std::string>{"memlock_low", "memlock_low"}));
  scene.node.addresses[0].rdma = scene.second.addresses[0].rdma = false;
  EXPECT_TRUE(scene.Judge().findings.empty());
  scene.node.addresses[0].rdma = scene.second.addresses[0].rdma = true;
  scene.node.limits.memlock_bytes = scene.second.limits.memlock_bytes = std::nullopt;  // unlimited
  EXPECT_TRUE(scene.Judge().findings.empty());
}

TEST(HostCheck, AFewOpenFilesAreTooFew) {
  Scene scene;
  scene.node.limits.nofile = 256;
  EXPECT_EQ(Codes(scene.Judge()), std::vector<std::string>{"nofile_low"});
  scene.node.limits.nofile = 1024;
  EXPECT_TRUE(scene.Judge().findings.empty());
}

TEST(HostCheck, TheLimitOfProcessesIsForAllRanksOfTheNode) {
  Scene scene;
  scene.node.limits.nproc = 600;
  EXPECT_TRUE(scene.Judge().findings.empty());
  scene.plan.assignments.push_back(scene.Rank(1, scene.node.node, "GPU-1"));
  const PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"nproc_low"});
  EXPECT_TRUE(Contains(report.findings[0].says, "2 ranks with loader workers may want 1024"))
      << report.findings[0].says;
  scene.node.limits.nproc.reset();  // unlimited
  EXPECT_TRUE(scene.Judge().findings.empty());
}

TEST(HostCheck, ADiskWithoutRoomIsNamedWithWhatIsWrittenThere) {
  PreflightReport report = JudgeDisk(Disk("checkpoint", 300 * kMi));
  ASSERT_EQ(Codes(report), std::vector<std::string>{"disk_low"});
  EXPECT_EQ(report.findings[0].severity, Severity::kWarning);
  EXPECT_TRUE(Contains(report.findings[0].says, "checkpoints are written to /data/checkpoint"));
  report = JudgeDisk(Disk("workdir", 0));
  EXPECT_EQ(report.findings.at(0).severity, Severity::kError);
  EXPECT_TRUE(JudgeDisk(Disk("workdir", 20 * kGi)).findings.empty());
  EXPECT_TRUE(JudgeDisk(Disk("workdir", 400 * kMi, 512 * kMi)).findings.empty());  // a small one
}

TEST(HostCheck, ADiskWithoutFileEntriesTakesNothing) {
  DiskFact disk = Disk("workdir", 20 * kGi);
  disk.free_inodes = 0;
  EXPECT_EQ(JudgeDisk(disk).findings.at(0).severity, Severity::kError);
  disk.free_inodes = 1'000'000;
  EXPECT_TRUE(JudgeDisk(disk).findings.empty());
}

TEST(HostCheck, AFullSharedMemoryIsAWarningNotAReasonToStop) {
  const PreflightReport report = JudgeDisk(Disk("shm", 0, 64 * kMi));
  ASSERT_EQ(Codes(report), std::vector<std::string>{"shm_small"});
  EXPECT_EQ(report.findings[0].severity, Severity::kWarning);
  EXPECT_TRUE(JudgeDisk(Disk("shm", 60 * kMi, 64 * kMi)).findings.empty());
}

TEST(HostCheck, AnImageNeedsAContainerRuntimeOnSomeNode) {
  Scene scene;
  EXPECT_TRUE(JudgeSpec(scene.job, {&scene.node}).findings.empty());
  scene.job.image = "nvcr.io/nvidia/pytorch:25.08-py3";
  const PreflightReport report = JudgeSpec(scene.job, {&scene.node});
  ASSERT_EQ(Codes(report), std::vector<std::string>{"container_runtime_missing"});
  EXPECT_EQ(report.findings[0].severity, Severity::kError);
  EXPECT_TRUE(Contains(report.findings[0].remedy, "NVIDIA Container Toolkit"));
  scene.second = scene.node;
  scene.second.container_runtimes = {"docker"};
  EXPECT_TRUE(JudgeSpec(scene.job, {&scene.node, &scene.second}).findings.empty());
}

TEST(HostCheck, DockerWithoutTheToolkitMayGiveNoGpus) {
  Scene scene;
  scene.job.image = "nvcr.io/nvidia/pytorch:25.08-py3";
  scene.node.container_runtimes = {"docker"};
  EXPECT_TRUE(scene.Judge().findings.empty()) << "not looked for";
  scene.node.tools["nvidia-container-cli"] = "";
  const PreflightReport report = scene.Judge();
  EXPECT_EQ(ResultOf(report, "container"), "warn");
  ASSERT_EQ(Codes(report), std::vector<std::string>{"container_runtime_missing"});
  EXPECT_EQ(report.findings[0].severity, Severity::kWarning);
  scene.node.container_runtimes = {"apptainer", "docker"};
  EXPECT_TRUE(scene.Judge().findings.empty()) << "apptainer is taken";
}

}  // namespace
}  // namespace launch
