#include "agent/probes/inventory_probe.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "common/units.h"
#include "tests/unit/agent/probes/scripted_gpus.h"
#include "tests/unit/agent/probes/settable_clock.h"
#include "tests/unit/agent/probes/temporary_tree.h"

namespace launch::agent {
namespace {

class InventoryProbeTest : public ::testing::Test {
 protected:
  InventoryProbeTest() {
    config.node.value = "gpu01";
    config.path = tree.Path("bin");
    tree.Directory("bin");
  }
  InventoryProbe Fresh() { return {{.config = config}, gpus, clock}; }

  TemporaryTree tree;
  AgentConfig config;
  ScriptedGpus gpus;
  SettableClock clock;
};

TEST_F(InventoryProbeTest, PutsTogetherWhatTheNodeIsAndHas) {
  gpus.facts = FourGpus();
  config.labels = {{"rack", "b2"}};
  tree.Script("bin/nvcc", "echo 'release 12.8, V12.8.61'\n");
  tree.Script("bin/podman", "");
  const Result<NodeInventory> node = Fresh().Probe();
  ASSERT_TRUE(node);
  EXPECT_EQ(node->node.value, "gpu01");
  EXPECT_EQ(node->gpus, gpus.facts.gpus);
  EXPECT_EQ(node->driver, "570.124.06");
  EXPECT_EQ(node->driver_cuda, (CudaVersion{12, 8}));
  EXPECT_GT(node->cores, 0);
  EXPECT_GT(node->memory_bytes, 0u);
  EXPECT_GT(node->shm_bytes, 0u);
  EXPECT_FALSE(node->addresses.empty());
  EXPECT_EQ(node->toolkit.value_or(Toolkit{}).nvcc, "12.8");
  EXPECT_EQ(node->container_runtimes, std::vector<std::string>{"podman"});
  EXPECT_EQ(node->labels.at("rack"), "b2");
  EXPECT_FALSE(node->simulated);
}

TEST_F(InventoryProbeTest, ANodeWithoutGpuIsComplete) {
  const Result<NodeInventory> node = Fresh().Probe();
  ASSERT_TRUE(node);
  EXPECT_TRUE(node->gpus.empty());
  EXPECT_EQ(node->driver, std::nullopt);
  EXPECT_EQ(node->driver_problem, "");
  EXPECT_EQ(HealthOf(*node).health, Health::kOk);
}

TEST_F(InventoryProbeTest, ProbesNamedInterpretersThenTheOneOnPathThenThoseOfJobs) {
  const std::string answer =
      R"(echo '@launch-python-probe {"stage":"a","python":"3.11.9","torch":null}')";
  config.interpreters = {tree.Script("named/python", answer), tree.Path("bin/python3")};
  tree.Script("bin/python3", answer);
  InventoryProbe probe = Fresh();
  probe.AddInterpreter(tree.Script("job/python", answer), "");
  probe.AddInterpreter(tree.Path("job/python"), "");
  ASSERT_TRUE(probe.Probe());
  EXPECT_TRUE(probe.ReadPython());
  EXPECT_FALSE(probe.ReadPython()) << "nothing new to learn";
  const Result<NodeInventory> node = probe.Probe();
  ASSERT_TRUE(node);
  std::vector<std::string> paths;
  for (const RuntimeFacts& facts : node->interpreters) {
    paths.push_back(facts.path);
    EXPECT_EQ(facts.python, "3.11.9");
  }
  EXPECT_EQ(paths, (std::vector<std::string>{tree.Path("named/python"), tree.Path("bin/python3"),
                                             tree.Path("job/python")}));
}

TEST_F(InventoryProbeTest, KnowsWhatTorchSaysOnlyAfterTheImport) {
  config.interpreters = {tree.Script(
      "job/python", R"(echo '@launch-python-probe {"stage":"a","python":"3.11.9","torch":)"
                    R"({"version":"2.7.1","path":"/t"}}'; [ "$3" = import ] || exit 0
                       echo '@launch-python-probe {"stage":"b","sees_gpu":true}')")};
  InventoryProbe probe = Fresh();
  ASSERT_TRUE(probe.Probe());
  EXPECT_TRUE(probe.ReadPython());
  EXPECT_EQ(probe.Probe()->interpreters.at(0).sees_gpu, std::nullopt);
  EXPECT_TRUE(probe.ImportTorch());
  EXPECT_EQ(probe.Probe()->interpreters.at(0).sees_gpu, true);
  EXPECT_FALSE(probe.ImportTorch()) << "nothing new to learn";
}

// It lies where its user wants it: perhaps in a network file system that answers no more.
TEST_F(InventoryProbeTest, LooksAtNoInterpreterByItself) {
  config.interpreters = {tree.Script("job/python", "echo >" + tree.Path("looked"))};
  InventoryProbe probe = Fresh();
  ASSERT_TRUE(probe.Probe());
  EXPECT_TRUE(probe.Probe()->interpreters.empty());
  EXPECT_FALSE(std::filesystem::exists(tree.Path("looked")));
}

TEST_F(InventoryProbeTest, SamplesAndProcessesAreThoseOfItsOwnGpus) {
  gpus.facts = FourGpus();
  config.gpu_ids = {1, 3};
  for (const GpuDevice& gpu : gpus.facts.gpus) {
    gpus.samples.push_back({.uuid = gpu.uuid, .utilization = 0.5});
    gpus.processes->emplace_back(gpu.uuid, std::vector<GpuProcess>{{.pid = 4711}});
  }
  InventoryProbe probe = Fresh();
  const Result<NodeInventory> node = probe.Probe();
  ASSERT_TRUE(node);
  ASSERT_EQ(node->gpus.size(), 2u);
  EXPECT_EQ(node->gpus[0], gpus.facts.gpus[1]);
  EXPECT_EQ(node->gpus[1], gpus.facts.gpus[3]);
  const from_node::Samples samples = probe.Sample();
  ASSERT_EQ(samples.gpus.size(), 2u);
  EXPECT_EQ(samples.gpus[0].uuid, gpus.facts.gpus[1].uuid);
  EXPECT_GT(samples.host.memory_available_bytes, 0u);
  ASSERT_EQ(probe.Processes()->size(), 2u);
}

TEST_F(InventoryProbeTest, ReadsMemoryBelowTheConfiguredProc) {
  config.proc_root = tree.Path("proc");
  tree.Write("proc/meminfo", "MemTotal: 2048 kB\nMemAvailable: 1024 kB\n");
  InventoryProbe probe = Fresh();
  EXPECT_EQ(probe.Probe()->memory_bytes, 2 * kMiB);
  EXPECT_EQ(probe.Sample().host.memory_available_bytes, kMiB);
}

TEST_F(InventoryProbeTest, AnIntegratedGpuUsesTheMemoryOfTheHost) {
  gpus.facts = FourGpus();
  gpus.facts.gpus.resize(1);
  gpus.facts.gpus[0].memory_bytes = 0;
  const Result<NodeInventory> node = Fresh().Probe();
  ASSERT_TRUE(node);
  EXPECT_EQ(node->gpus[0].memory_bytes, node->memory_bytes);
}

TEST_F(InventoryProbeTest, ReportsAnInventoryFileAsSimulated) {
  config.inventory_file = tree.Write("nodes.yaml",
                                     "- node: other\n  cores: 8\n"
                                     "- node: gpu01\n  cores: 72\n  arch: aarch64\n");
  InventoryProbe probe = Fresh();
  const Result<NodeInventory> node = probe.Probe();
  ASSERT_TRUE(node) << FormatError(node.error());
  EXPECT_TRUE(node->simulated);
  EXPECT_EQ(node->cores, 72);
  EXPECT_EQ(node->arch, Arch::kAarch64);
  EXPECT_FALSE(node->addresses.empty()) << "it must be reachable all the same";
  EXPECT_TRUE(probe.Sample().gpus.empty());
  config.node.value = "third";
  EXPECT_FALSE(Fresh().Probe());
}

TEST(TakeSubset, SplitsAMachineSoThatTheSharesAddUp) {
  NodeInventory whole{.cores = 16, .threads = 32, .memory_bytes = 256 * kGiB};
  whole.gpus = FourGpus().gpus;
  AgentConfig first;
  first.gpu_ids = {0, 1};
  first.cores = CoreSubset{0, 8};
  AgentConfig second;
  second.gpu_ids = {2, 3};
  second.cores = CoreSubset{8, 8};
  const NodeInventory a = TakeSubset(whole, first).value();
  const NodeInventory b = TakeSubset(whole, second).value();
  EXPECT_EQ(a.cores + b.cores, 16);
  EXPECT_EQ(a.threads + b.threads, 32);
  EXPECT_EQ(a.memory_bytes + b.memory_bytes, 256 * kGiB);
  EXPECT_EQ(a.gpus.size() + b.gpus.size(), 4u);
  EXPECT_NE(a.gpus[0].uuid, b.gpus[0].uuid);
  EXPECT_TRUE(b.gpu_subset) << "its first GPU is CUDA's third";
  AgentConfig all;
  all.gpu_ids = {0, 1, 2, 3};
  EXPECT_FALSE(TakeSubset(whole, all).value().gpu_subset);
  AgentConfig none;
  none.gpu_ids = std::vector<int>{};
  EXPECT_TRUE(TakeSubset(whole, none).value().gpus.empty());
}

TEST(TakeSubset, GpusThatDoNotExistAreNoneAndCoresThatDoNotExistAnError) {
  NodeInventory whole{.cores = 4, .threads = 4};
  whole.gpus = FourGpus().gpus;
  AgentConfig config;
  config.gpu_ids = {3, 5, 7};
  EXPECT_EQ(TakeSubset(whole, config).value().gpus.size(), 1u);
  config.cores = CoreSubset{2, 3};
  const Result<NodeInventory> refused = TakeSubset(whole, config);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("2-4"), std::string::npos) << refused.error().message;
}

TEST(SameInventory, LooksAtWhatASchedulerWouldSee) {
  NodeInventory a{.cores = 4, .revision = 1};
  a.interpreters.push_back({.path = "/p", .probed = WallMs(1)});
  NodeInventory b = a;
  b.revision = 2;
  b.interpreters[0].probed = WallMs(2);
  EXPECT_TRUE(SameInventory(a, b));
  b.interpreters[0].sees_gpu = true;
  EXPECT_FALSE(SameInventory(a, b));
}

TEST(BaseEnvironment, HoldsOnlyTheCleanBase) {
  AgentConfig config;
  const std::map<std::string, std::string> own = {
      {"PATH", "/usr/bin"}, {"LANG", "de_DE.UTF-8"},        {"PYTHONPATH", "/leak"},
      {"TMPDIR", "/big"},   {"LD_LIBRARY_PATH", "/agents"}, {"CUDA_VISIBLE_DEVICES", "0"}};
  std::map<std::string, std::string> env = BaseEnvironment(config, own);
  EXPECT_EQ(env.at("PATH"), "/usr/bin");
  EXPECT_EQ(env.at("LANG"), "de_DE.UTF-8");
  EXPECT_EQ(env.at("TMPDIR"), "/big");
  std::vector<std::string> names;
  for (const auto& [name, value] : env) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"HOME", "LANG", "PATH", "SHELL", "TMPDIR", "USER"}));

  config.path = "/opt/bin:/bin";
  config.ld_library_path = "/opt/lib";
  config.run_as = RunAs::kMultiUser;
  env = BaseEnvironment(config, {});
  EXPECT_EQ(env, (std::map<std::string, std::string>{{"LANG", "C.UTF-8"},
                                                     {"LD_LIBRARY_PATH", "/opt/lib"},
                                                     {"PATH", "/opt/bin:/bin"},
                                                     {"TMPDIR", "/tmp"}}));
}

}  // namespace
}  // namespace launch::agent
