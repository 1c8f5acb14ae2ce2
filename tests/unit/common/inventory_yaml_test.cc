#include "common/inventory_yaml.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/units.h"

namespace launch {
namespace {

// A node in which every field differs from its default.
NodeInventory Full() {
  NodeInventory node;
  node.node.value = "gpu01";
  node.addresses = {{"eth0", "10.0.0.1", 25000, 9000, true}, {"lo", "::1", {}, {}, false}};
  node.arch = Arch::kAarch64;
  node.kernel = "6.8.0";
  node.glibc = "2.35";
  node.page_size = 65536;
  node.cores = 72;
  node.threads = 144;
  node.numa = {{0, 72, 480'000'000'000}, {1, 0, 97871 * kMiB}};
  node.memory_bytes = 480'000'000'001;
  node.shm_bytes = 3 * kGiB;
  node.limits = {64 * kKiB, 1048576, 4096};
  GpuDevice gpu;
  gpu.uuid.value = "GPU-1";
  gpu.model = "NVIDIA GH200 480GB";
  gpu.type = "GH200";
  gpu.cc = ComputeCapability{9, 0};
  gpu.memory_bytes = 97871 * kMiB;
  gpu.reserved_bytes = 12345;
  gpu.pci = "0009:01:00.0";
  gpu.numa = 0;
  gpu.mig = {{GpuUuid{"MIG-1"}, "1g.12gb", 12 * kGiB}};
  gpu.links = {{"0009:02:00.0", LinkKind::kNvlink, 4, 18},
               {"0009:03:00.0", LinkKind::kSys, {}, {}}};
  gpu.ecc = true;
  gpu.power_limit_w = 900;
  gpu.health = Health::kWarn;
  gpu.why = "Xid 63: \"row\" remapped\nsecond line";
  gpu.persistence = false;
  gpu.pcie = {5, 5, 8, 16};
  gpu.clocks = {1980, 1410, 2619};
  gpu.remapped = RemappedRows{3, 1, true, false};
  gpu.fabric = FabricState::kInProgress;
  GpuDevice apple;
  apple.uuid.value = "MPS-0";
  apple.device_class = DeviceClass::kMps;
  apple.model = "Apple M2 Max";
  node.gpus = {gpu, apple};
  node.rdma = {{"mlx5_0", 1, "InfiniBand", "ACTIVE", 400'000, "ib0", 1},
               {"mlx5_1", 2, "", "DOWN", {}, "", {}}};
  node.driver = "570.124.06";
  node.driver_cuda = CudaVersion{12, 8};
  node.driver_problem = "NVML: driver/library version mismatch";
  node.toolkit = Toolkit{"12.8", "/usr/local/cuda"};
  node.cuda_runtime = "12.8.57";
  node.tools = {{"c++", "12.2.0"}, {"ninja", "1.11.1"}};
  RuntimeFacts runtime;
  runtime.path = "/v/bin/python";
  runtime.realpath = "/usr/bin/python3.11";
  runtime.user = "ana";
  runtime.python = "3.11.7";
  runtime.torch =
      TorchFacts{"2.13.0+cu126", "12.6", "6.0", {"sm_80", "sm_90a"}, "2.27.5", "/v/torch"};
  runtime.sees_gpu = true;
  runtime.devices = 1;
  runtime.mps = false;
  runtime.packages = {{"accelerate", "1.15.0"}, {"deepspeed", "0.19"}};
  runtime.says = "UserWarning: true\n  no: tabs\there";
  runtime.built_ops = {"cpu_adam", "fused_adam"};
  runtime.probed = WallMs(1700000000123);
  node.interpreters = {runtime, RuntimeFacts{}};
  node.container_runtimes = {"docker", "podman 5"};
  node.containment = Containment::kCgroup;
  node.coherent = CoherentMode::kNuma;
  node.simulated = true;
  node.labels = {{"zone", "a"}, {"y", "off"}, {"empty", ""}};
  node.base_env = {{"PATH", "/usr/bin:/bin"}, {"LANG", "C.UTF-8"}, {"PS1", "\\u \"x\" #"}};
  node.revision = 7;
  return node;
}

TEST(InventoryYaml, EveryFieldSurvivesTheRoundTrip) {
  NodeInventory second;
  second.node.value = "bare";
  second.cores = 1;
  const std::vector<NodeInventory> nodes = {Full(), second};
  const std::string text = FormatInventories(nodes);
  const auto parsed = ParseInventories(text, "nodes.yaml");
  ASSERT_TRUE(parsed) << FormatError(parsed.error()) << "\n" << text;
  ASSERT_EQ(parsed->size(), 2U);
  EXPECT_EQ(parsed->at(0), nodes[0]) << text;
  EXPECT_EQ(parsed->at(1), nodes[1]) << text;
  EXPECT_EQ(FormatInventories(*parsed), text);
}

TEST(InventoryYaml, NoNodesAreAListToo) {
  const auto parsed = ParseInventories(FormatInventories({}), "nodes.yaml");
  ASSERT_TRUE(parsed);
  EXPECT_TRUE(parsed->empty());
}

TEST(InventoryYaml, TheExamplesAreReadAndSurviveTheRoundTrip) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(LAUNCH_SOURCE_DIR) + "/configs/clusters")) {
    SCOPED_TRACE(entry.path().string());
    const auto nodes = ReadInventoryFile(entry.path().string());
    ASSERT_TRUE(nodes) << FormatError(nodes.error());
    ASSERT_FALSE(nodes->empty());
    const auto again = ParseInventories(FormatInventories(*nodes), "again");
    ASSERT_TRUE(again) << FormatError(again.error());
    EXPECT_EQ(*again, *nodes);
    ++files;
  }
  EXPECT_GE(files, 8);
}

TEST(InventoryYaml, AFileByHandMayBeShort) {
  const auto nodes = ParseInventories(
      "- node: a\n  cores: 16\n  gpus:\n    - {model: NVIDIA H100 NVL, memory: 95830MiB, count: "
      "2}\n",
      "n.yaml");
  ASSERT_TRUE(nodes) << FormatError(nodes.error());
  const NodeInventory& node = nodes->front();
  ASSERT_EQ(node.gpus.size(), 2U);
  EXPECT_EQ(node.gpus[0].type, "H100-NVL");
  EXPECT_EQ(node.gpus[0].uuid.value, "GPU-a-0");
  EXPECT_EQ(node.gpus[1].uuid.value, "GPU-a-1");
  EXPECT_EQ(node.arch, Arch::kX86_64);
  const auto one = ParseInventories("node: a\ncores: 4\n", "n.yaml");  // without the dash
  ASSERT_TRUE(one) << FormatError(one.error());
  EXPECT_EQ(one->front().cores, 4);
}

TEST(InventoryYaml, ErrorsNameLineColumnAndField) {
  const struct {
    const char* text;
    int line;
    const char* part;
  } rows[] = {
      {"- node: a\n  cores: 4\n- node: b\n  cors: 4\n", 4, "cors"},
      {"- node: a\n", 1, "cores"},
      {"- cores: 4\n", 1, "name"},
      {"- node: a b\n  cores: 4\n", 1, "name"},
      {"# one\n\n- node: a\n  cores: -1\n", 4, "below 0"},
      {"- node: a\n  cores: many\n", 2, ""},
      {"- node: a\n  cores: 4\n  memory: 12\n", 3, "unit"},
      {"- node: a\n  cores: 4\n  arch: vax\n", 3, "vax"},
      {"- node: a\n  cores: 4\n  driver_cuda: new\n", 3, "version"},
      {"- node: a\n  cores: 4\n  gpus: 8\n", 3, "list"},
      {"- node: a\n  cores: 4\n  gpus:\n    - model: x\n      count: 0\n", 5, "1 to 64"},
      {"- node: a\n  cores: 4\n  gpus:\n    - uuid: x\n      count: 2\n", 5, "uuid"},
      {"- node: a\n  cores: 4\n  labels: [x]\n", 3, "map"},
  };
  for (const auto& row : rows) {
    const auto nodes = ParseInventories(row.text, "n.yaml");
    ASSERT_FALSE(nodes) << row.text;
    ASSERT_TRUE(nodes.error().where) << row.text;
    EXPECT_EQ(nodes.error().where->line, row.line) << row.text << FormatError(nodes.error());
    EXPECT_NE(FormatError(nodes.error()).find(row.part), std::string::npos)
        << FormatError(nodes.error());
  }
}

TEST(InventoryYaml, NodesAndGpusAreDistinct) {
  EXPECT_FALSE(ParseInventories("- {node: a, cores: 1}\n- {node: a, cores: 1}\n", "n"));
  EXPECT_FALSE(ParseInventories(
      "- {node: a, cores: 1, gpus: [{uuid: X}]}\n- {node: b, cores: 1, gpus: [{uuid: X}]}\n", "n"));
}

TEST(InventoryYaml, ALargeClusterIsNotTooLarge) {
  std::vector<NodeInventory> nodes;
  for (int i = 0; i < 200; ++i) {
    NodeInventory node = Full();
    node.node.value = "gpu" + std::to_string(i);
    for (GpuDevice& gpu : node.gpus) gpu.uuid.value += "-" + std::to_string(i);
    nodes.push_back(std::move(node));
  }
  const std::string text = FormatInventories(nodes);
  EXPECT_GT(text.size(), 256 * kKiB);
  const auto parsed = ParseInventories(text, "nodes.yaml");
  ASSERT_TRUE(parsed) << FormatError(parsed.error());
  EXPECT_EQ(*parsed, nodes);
}

TEST(InventoryYaml, AJobFileIsCalledOne) {
  const std::string path = ::testing::TempDir() + "/job_as_inventory.yaml";
  std::ofstream(path) << "name: x\nrun: python train.py\n";
  const auto nodes = ReadInventoryFile(path);
  std::filesystem::remove(path);
  ASSERT_FALSE(nodes);
  EXPECT_EQ(nodes.error().message, path + " is a job file, not an inventory of nodes");
}

TEST(InventoryYaml, AMissingFileIsNamed) {
  const auto nodes = ReadInventoryFile("/nowhere/nodes.yaml");
  ASSERT_FALSE(nodes);
  EXPECT_NE(nodes.error().message.find("/nowhere/nodes.yaml"), std::string::npos);
}

}  // namespace
}  // namespace launch
