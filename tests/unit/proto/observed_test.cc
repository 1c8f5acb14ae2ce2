// Whatever a node observes, the controller accepts the message that tells of it.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "proto/convert_node.h"
#include "proto/edge.h"
#include "proto/node.pb.h"

namespace launch {
namespace {

using namespace std::string_literals;

const std::string kOdd = "3.1\x1b[0m\n\xff\0"s + std::string(5'000, 'x');

// What arrives when an agent sends `body`.
template <class T>
T Arrived(const T& body) {
  const auto envelope = FromProto(ToProto(FromNodeEnvelope{.session = 1, .body = body}));
  if (!envelope) {
    ADD_FAILURE() << envelope.error().message;
    return {};
  }
  return std::get<T>(envelope->body);
}

RuntimeFacts OddRuntime() {
  RuntimeFacts facts{.path = "/opt/w\0x"s,
                     .realpath = "/" + std::string(9'000, 'p'),
                     .user = kOdd,
                     .python = kOdd,
                     .devices = -3,
                     .says = kOdd,
                     .probed = WallMs(-5)};
  facts.torch = TorchFacts{.version = kOdd, .cuda = kOdd, .hip = kOdd, .nccl = kOdd, .path = kOdd};
  facts.torch->arch_list = std::vector<std::string>(400, kOdd);
  facts.torch->arch_list.front().clear();
  facts.built_ops = std::vector<std::string>(400, kOdd);
  for (int i = 0; i < 2'000; ++i) facts.packages["p" + std::to_string(i) + kOdd] = kOdd;
  facts.packages[""] = "nameless";
  return facts;
}

NodeInventory OddInventory() {
  NodeInventory inventory{.node = NodeId{"n1"}, .kernel = kOdd, .glibc = kOdd, .page_size = 4096};
  inventory.cores = 100'000;
  inventory.threads = -1;
  inventory.driver = kOdd;
  inventory.driver_cuda = CudaVersion{-1, 1'000'000};
  inventory.driver_problem = kOdd;
  inventory.toolkit = Toolkit{.nvcc = kOdd, .home = kOdd};
  inventory.cuda_runtime = kOdd;
  inventory.interpreters = std::vector<RuntimeFacts>(3, OddRuntime());
  inventory.container_runtimes = std::vector<std::string>(100, kOdd);
  inventory.labels = {{"", "x"}, {kOdd, kOdd}};
  inventory.tools = {{kOdd, kOdd}};
  inventory.base_env = {{"PATH", "/bin"}, {"A=B", "x"}, {"NUL", "a\0b"s}, {"", "x"}};
  inventory.addresses = std::vector<NetworkAddress>(
      300, NetworkAddress{.interface = kOdd, .address = "10.0.0.1", .mbit = -1, .mtu = 1 << 30});
  GpuDevice gpu{.uuid = GpuUuid{"GPU 0\n"}, .model = kOdd, .type = kOdd, .pci = kOdd, .numa = -7};
  gpu.cc = ComputeCapability{-1, 5'000};
  gpu.power_limit_w = -1;
  gpu.why = kOdd;
  gpu.pcie = {.generation = -1, .width = 1 << 30};
  gpu.clocks = {.graphics_max = -1, .memory_max = 1 << 30};
  gpu.remapped = RemappedRows{.correctable = -1, .uncorrectable = 1 << 30};
  gpu.fabric = FabricState::kFailed;
  gpu.mig = std::vector<MigSlice>(100, MigSlice{.uuid = GpuUuid{kOdd}, .profile = kOdd});
  gpu.links = std::vector<GpuLink>(2'000, GpuLink{.peer_pci = kOdd, .version = -1, .count = 5'000});
  gpu.links.front().peer_pci.clear();
  inventory.gpus = {gpu};
  inventory.rdma = std::vector<RdmaPort>(
      300, RdmaPort{.device = kOdd, .port = -1, .layer = kOdd, .state = kOdd, .mbit = -1});
  inventory.rdma.front().device.clear();
  inventory.numa = {{.id = -1, .cores = -1}};
  return inventory;
}

TEST(WhatANodeObserves, AnOddInventoryArrives) {
  const NodeInventory there = Arrived(from_node::InventoryChanged{OddInventory()}).inventory;
  ASSERT_EQ(there.interpreters.size(), 3u);
  EXPECT_TRUE(there.interpreters[0].python.starts_with("3.1?[0m?\xEF\xBF\xBD?x"));
  EXPECT_LE(there.interpreters[0].python.size(), edge::kMaxWord);
  EXPECT_EQ(there.interpreters[0].path, "/opt/w");
  EXPECT_EQ(there.interpreters[0].probed, WallMs(0));
  EXPECT_EQ(there.interpreters[0].packages.size(), 999u) << "the nameless one is left out";
  ASSERT_EQ(there.gpus.size(), 1u);
  EXPECT_EQ(there.gpus[0].uuid.value, "GPU_0_");
  EXPECT_EQ(there.base_env, (std::map<std::string, std::string>{{"PATH", "/bin"}}));
  EXPECT_EQ(there.gpus[0].pcie, (PcieLink{.generation = 0, .width = 1'000}));
  EXPECT_EQ(there.gpus[0].clocks, (ClockLimits{.graphics_max = 0, .memory_max = 1'000'000}));
  EXPECT_EQ(there.gpus[0].remapped, (RemappedRows{.uncorrectable = 1'000'000'000}));
  EXPECT_EQ(there.gpus[0].fabric, FabricState::kFailed);
  EXPECT_EQ(there.rdma.size(), 255u) << "the nameless one is left out";
}

TEST(WhatANodeObserves, AnOddHelloArrives) {
  from_node::Hello hello{
      .version = kOdd, .boot_id = "b-1", .inventory = OddInventory(), .account = UserName{"ana"}};
  hello.machine = {.install_id = "i", .product_uuid = kOdd, .network_namespace = kOdd};
  hello.machine.macs = std::vector<std::string>(300, kOdd);
  // Many unreadable records claim the same GPUs.
  for (int i = 0; i < 5'000; ++i)
    hello.held.emplace_back(GpuUuid{"GPU-" + std::to_string(i % 8)}, kOdd);
  AllocationStatus status{.key = {{1}, {1}}, .phase = AllocationPhase::kStarted};
  status.ranks = {{.rank = -1, .started = true}, {.rank = 0, .started = true, .pid = -1}};
  hello.allocations = {status};
  const from_node::Hello there = Arrived(hello);
  EXPECT_EQ(there.held.size(), 8u);
  ASSERT_EQ(there.allocations.size(), 1u);
  EXPECT_EQ(there.allocations[0].ranks.size(), 1u) << "setup is no rank";
}

TEST(WhatANodeObserves, OddStagingFactsArrive) {
  from_node::Ready ready{.key = {{1}, {1}}, .digest = std::string(64, 'a')};
  StagingFacts& facts = ready.facts;
  facts.paths = std::vector<PathFact>(300, PathFact{.what = "workdir", .path = kOdd, .why = kOdd});
  facts.runtime = OddRuntime();
  facts.reach = std::vector<Reachability>(300, Reachability{.address = kOdd, .interface = kOdd});
  facts.checkpoints = std::vector<CheckpointFound>(
      10'500,
      CheckpointFound{.path = "/c/a.pt", .step = -9, .format = kOdd, .modified = WallMs(-1)});
  facts.setup_exit = 4'000;
  facts.setup_tail = std::string(200'000, '\xfe');
  facts.disks = std::vector<DiskFact>(100, DiskFact{.what = "shm", .path = kOdd});
  facts.wall = WallMs(-1);
  facts.network = NetworkFacts{.backend = kOdd, .why = kOdd, .allreduce_us = NAN};
  facts.network->nccl = NcclFacts{.why = kOdd, .version = kOdd, .us = NAN, .mbit = 7};
  facts.network->peers = std::vector<PeerFact>(
      3, PeerFact{.place = -7, .address = kOdd, .why = kOdd, .mbit = INFINITY});
  const StagingFacts there = Arrived(ready).facts;
  ASSERT_TRUE(there.network);
  EXPECT_EQ(there.network->peers.size(), 3u);
  EXPECT_EQ(there.network->peers[0].place, 0);
  EXPECT_FALSE(there.network->peers[0].mbit);
  ASSERT_TRUE(there.network->nccl);
  EXPECT_FALSE(there.network->nccl->us);
  EXPECT_EQ(there.network->nccl->mbit, 7);
  EXPECT_EQ(there.checkpoints.size(), 10'000u);
  EXPECT_EQ(there.checkpoints[0].step, -1);
}

TEST(WhatANodeObserves, OddEndsNoticesAndSamplesArrive) {
  ExitReport report{.key = {{1}, {1}}, .rank = 0, .boot_id = "b"};
  report.cause = FailedToStart{"", 1 << 20, kOdd};
  report.our_signals = std::vector<OurSignal>(500, OurSignal{.signal = 9, .why = "stop"});
  report.user_ms = -1;
  report.started = BootMs(-1);
  EXPECT_EQ(Arrived(from_node::RankExited{report}).report.our_signals.size(), 256u);
  report.cause = Exited{-1};
  EXPECT_EQ(Arrived(from_node::RankExited{report}).report.cause, ExitCause(Exited{0}));

  EXPECT_EQ(Arrived(from_node::Notice{.kind = "a\nb", .rank = -1, .text = kOdd}).kind, "a?b");
  EXPECT_EQ(
      Arrived(from_node::Released{.key = {{1}, {1}}, .held = {}, .log_ends = {{-1, 5}, {0, 7}}})
          .log_ends.size(),
      1u);
  from_node::Samples samples{.host = {.load1 = std::numeric_limits<double>::quiet_NaN()}};
  samples.ranks = {{.key = {{1}, {1}}, .rank = 0, .step = -1, .steps = -1, .output_age_ms = -1}};
  EXPECT_EQ(Arrived(samples).ranks.size(), 1u);
}

}  // namespace
}  // namespace launch
