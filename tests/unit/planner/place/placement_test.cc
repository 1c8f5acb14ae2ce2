#include <gtest/gtest.h>

#include "common/mig.h"
#include "tests/unit/planner/plan_fixtures.h"

namespace launch {
namespace {

using namespace launch::testing;

std::vector<std::string> NodesOf(const Placement& placement,
                                 const std::vector<PlannerOffer>& offers) {
  std::vector<std::string> names;
  for (std::size_t offer : placement.offers) names.push_back(offers[offer].inventory->node.value);
  return names;
}

TEST(Place, TakesAllNodesOrNone) {
  const std::vector<NodeInventory> nodes = {H100("b", 8), H100("a", 8), H100("c", 4)};
  const auto offers = Offers(nodes);
  const auto placed = Place(GpuJob(8, "H100", 2), offers);
  ASSERT_TRUE(placed);
  EXPECT_EQ(NodesOf(*placed, offers), (std::vector<std::string>{"a", "b"}));
  const auto unplaced = Place(GpuJob(8, "H100", 3), offers);
  ASSERT_FALSE(unplaced);
  EXPECT_TRUE(unplaced.error().never);
}

TEST(Place, CountsNodesAsPeopleDo) {
  const std::vector<NodeInventory> nodes = {H100("gpu10", 1), H100("gpu9", 1)};
  const auto offers = Offers(nodes);
  EXPECT_EQ(NodesOf(*Place(GpuJob(1, "", 2), offers), offers),
            (std::vector<std::string>{"gpu9", "gpu10"}));
}

TEST(Place, PrefersTheNodeWithFewestSpareGpus) {
  const std::vector<NodeInventory> nodes = {H100("a", 8), H100("b", 2)};
  const auto offers = Offers(nodes);
  EXPECT_EQ(NodesOf(*Place(GpuJob(2), offers), offers), std::vector<std::string>{"b"});
}

TEST(Place, TakesGpusWhoseMemoryOthersUseLast) {
  const std::vector<NodeInventory> nodes = {H100("a", 2), H100("b", 4)};
  auto offers = Offers(nodes);
  offers[0].crowded_gpus = {0};
  offers[1].crowded_gpus = {0, 2};
  EXPECT_EQ(Place(GpuJob(1), offers)->gpus, std::vector<std::vector<int>>{{1}});
  const auto two = Place(GpuJob(2), offers);
  EXPECT_EQ(NodesOf(*two, offers), std::vector<std::string>{"b"}) << "though it spares more";
  EXPECT_EQ(two->gpus, (std::vector<std::vector<int>>{{1, 3}}));
  EXPECT_EQ(Place(GpuJob(3), offers)->gpus, (std::vector<std::vector<int>>{{0, 1, 2}}));
}

TEST(Place, FollowsTheOrderOfPreference) {
  const std::vector<NodeInventory> nodes = {A100("a", 1), H100("h", 8)};
  const auto offers = Offers(nodes);
  JobSpec job = GpuJob(1, "H100");
  job.gpus.push_back({"A100", 1});
  EXPECT_EQ(NodesOf(*Place(job, offers), offers), std::vector<std::string>{"h"});
  std::swap(job.gpus[0], job.gpus[1]);
  EXPECT_EQ(NodesOf(*Place(job, offers), offers), std::vector<std::string>{"a"});
}

TEST(Place, MixesModelsOnlyWhenNothingElseFits) {
  const std::vector<NodeInventory> nodes = {A100("a1", 1), H100("h1", 1), H100("h2", 1)};
  const auto offers = Offers(nodes);
  EXPECT_EQ(NodesOf(*Place(GpuJob(1, "", 2), offers), offers),
            (std::vector<std::string>{"h1", "h2"}));
  EXPECT_EQ(NodesOf(*Place(GpuJob(1, "", 3), offers), offers).size(), 3U);
  JobSpec list = GpuJob(1, "H100", 3);
  list.gpus.push_back({"A100", 1});
  EXPECT_TRUE(Place(list, offers));
}

TEST(Place, MatchesModelWordsByClass) {
  const std::vector<NodeInventory> nodes = {A100("small", 1),
                                            Node("big", "NVIDIA A100-SXM4-80GB", "8.0", 81920)};
  const auto offers = Offers(nodes);
  EXPECT_EQ(NodesOf(*Place(GpuJob(1, "a100-80gb"), offers), offers),
            std::vector<std::string>{"big"});
  EXPECT_TRUE(Place(GpuJob(1, "A100", 2), offers));
  EXPECT_TRUE(Place(GpuJob(1, "A10"), offers).error().never);
}

TEST(Place, SaysTheClosestNodeAndWhatItLacks) {
  const std::vector<NodeInventory> nodes = {H100("gpu01", 4), A100("gpu02", 8)};
  const auto unplaced = Place(GpuJob(8, "H100"), Offers(nodes));
  ASSERT_FALSE(unplaced);
  EXPECT_TRUE(unplaced.error().never);
  EXPECT_EQ(unplaced.error().reason.evidence, "needs 8 H100 per node");
  EXPECT_EQ(unplaced.error().closest_node, "gpu01");
  EXPECT_EQ(unplaced.error().missing, "has 4 H100");
}

TEST(Place, WaitsForResourcesWithEvidence) {
  const std::vector<NodeInventory> nodes = {H100("a", 8), H100("b", 8)};
  auto offers = Offers(nodes);
  offers[0].free_gpus = {0, 1, 2};
  offers[1].free_gpus = {};
  const auto unplaced = Place(GpuJob(8, "H100"), offers);
  ASSERT_FALSE(unplaced);
  EXPECT_FALSE(unplaced.error().never);
  EXPECT_EQ(unplaced.error().reason, (WaitReason{"Resources", "8 H100 free on no node"}));
  offers[1].free_gpus = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(Place(GpuJob(8, "H100", 2), offers).error().reason.evidence,
            "8 H100 free on 1 node of 2 needed");
}

TEST(Place, WaitsForNodesThatAreSilent) {
  const std::vector<NodeInventory> nodes = {H100("a", 8)};
  auto offers = Offers(nodes);
  offers[0].schedulable = false;
  const auto unplaced = Place(GpuJob(8, "H100"), offers);
  ASSERT_FALSE(unplaced);
  EXPECT_FALSE(unplaced.error().never);
  EXPECT_EQ(unplaced.error().reason.code, "ReqNodeNotAvail");
  EXPECT_TRUE(Contains(unplaced.error().reason.evidence, "a"));
  EXPECT_EQ(Place(GpuJob(8), {}).error().reason.code, "ReqNodeNotAvail");
}

TEST(Place, NeverUsesANodeThatRefusesTheJob) {
  const std::vector<NodeInventory> nodes = {H100("a", 8), H100("b", 8)};
  auto offers = Offers(nodes);
  offers[0].refuses = "runs jobs of account ana only";
  EXPECT_EQ(Place(GpuJob(8), offers)->offers, std::vector<std::size_t>{1});
  offers[1].refuses = "runs jobs of account eve only";
  const auto unplaced = Place(GpuJob(8), offers);
  ASSERT_FALSE(unplaced);
  EXPECT_TRUE(unplaced.error().never);
  EXPECT_EQ(unplaced.error().closest_node, "a");
  EXPECT_EQ(unplaced.error().missing, "runs jobs of account ana only");
}

TEST(Place, NeverGivesAGpuThatIsUnhealthy) {
  std::vector<NodeInventory> nodes = {H100("a", 2)};
  nodes[0].gpus[0].health = Health::kBad;
  const auto offers = Offers(nodes);
  EXPECT_EQ(Place(GpuJob(1), offers)->gpus[0], std::vector<int>{1});
  EXPECT_FALSE(Place(GpuJob(2), offers));
}

TEST(Place, GivesParticularDevices) {
  const std::vector<NodeInventory> nodes = {A100("a", 4)};
  JobSpec job = Job();
  job.gpu_ids = {1, 3};
  EXPECT_EQ(Place(job, Offers(nodes))->gpus[0], (std::vector<int>{1, 3}));
  job.gpu_ids = {0, 7};
  const auto unplaced = Place(job, Offers(nodes));
  ASSERT_FALSE(unplaced);
  EXPECT_TRUE(unplaced.error().never);
  EXPECT_TRUE(Contains(unplaced.error().missing, "4 GPUs")) << unplaced.error().missing;
}

TEST(Place, HonoursNodelistAndExclude) {
  const std::vector<NodeInventory> nodes = {H100("a", 1), H100("b", 1), H100("c", 1)};
  const auto offers = Offers(nodes);
  JobSpec job = GpuJob(1);
  job.nodelist = {"b", "c"};
  EXPECT_EQ(NodesOf(*Place(job, offers), offers), std::vector<std::string>{"b"});
  job.exclude_nodes = {"b"};
  EXPECT_EQ(NodesOf(*Place(job, offers), offers), std::vector<std::string>{"c"});
  job.exclude_nodes = {"b", "c"};
  EXPECT_TRUE(Place(job, offers).error().never);
}

TEST(Place, HonoursArchCpusAndMemory) {
  std::vector<NodeInventory> nodes = {H100("x", 1), H100("arm", 1)};
  nodes[1].arch = Arch::kAarch64;
  const auto offers = Offers(nodes);
  JobSpec job = GpuJob(1);
  job.arch = Arch::kAarch64;
  EXPECT_EQ(NodesOf(*Place(job, offers), offers), std::vector<std::string>{"arm"});
  job = GpuJob(1);
  job.cpus = Amount{17, true};
  EXPECT_TRUE(Contains(Place(job, offers).error().missing, "16 cores of 17"));
  job = GpuJob(1);
  job.memory_bytes = Amount{300'000'000'000, false};
  EXPECT_TRUE(Contains(Place(job, offers).error().missing, "memory"));
}

TEST(Place, ConstraintsNameTheTermThatFails) {
  const std::vector<NodeInventory> nodes = {Node("ws", "NVIDIA GeForce GTX 1650", "7.5", 4096)};
  JobSpec job = GpuJob(1);
  job.constraints = "gpu_mem>=6GB && cuda>=11.0";
  const auto unplaced = Place(job, Offers(nodes));
  ASSERT_FALSE(unplaced);
  EXPECT_TRUE(unplaced.error().never);
  EXPECT_TRUE(Contains(unplaced.error().missing, "gpu_mem>=6GB")) << unplaced.error().missing;
  std::vector<NodeInventory> old = {Node("ws", "NVIDIA GeForce RTX 4090", "8.9", 24564)};
  EXPECT_TRUE(Place(job, Offers(old)));
  old[0].driver_cuda = CudaVersion{10, 2};
  EXPECT_TRUE(Contains(Place(job, Offers(old)).error().missing, "cuda>=11.0"));
}

TEST(Place, ChoosesOnlyTheGpusThatSatisfyAConstraint) {
  std::vector<NodeInventory> nodes = {V100("mixed", 2)};
  NodeInventory other = A100("x", 1);
  nodes[0].gpus.push_back(other.gpus[0]);
  JobSpec job = GpuJob(1);
  job.constraints = "cc>=8.0";
  EXPECT_EQ(Place(job, Offers(nodes))->gpus[0], std::vector<int>{2});
}

TEST(Place, MoldableJobsTakeAsManyNodesAsAreFree) {
  const std::vector<NodeInventory> nodes = {H100("a", 1), H100("b", 1), H100("c", 1)};
  auto offers = Offers(nodes);
  JobSpec job = GpuJob(1);
  job.nodes = {2, 4, false};
  EXPECT_EQ(Place(job, offers)->offers.size(), 3U);
  offers[0].free_gpus.clear();
  EXPECT_EQ(Place(job, offers)->offers.size(), 2U);
  offers[1].free_gpus.clear();
  EXPECT_FALSE(Place(job, offers));
}

TEST(Place, MoreProcessesThanGpusAreRefusedWhereTheTextIsSureOfThem) {
  const std::vector<NodeInventory> nodes = {H100("a", 8)};
  const auto error = [&](const std::string& run, std::optional<int> procs = std::nullopt) {
    JobSpec job = GpuJob(8, "", 1, run);
    job.procs_per_node = procs;
    return ErrorOf(PlanOn(job, nodes));
  };
  for (const char* run : {"torchrun --nproc_per_node=16 t.py",
                          "set -e; mkdir -p o && torchrun --nproc_per_node=16 t.py | tee log"}) {
    EXPECT_TRUE(Contains(error(run), "run starts 16 processes on a node, and gpus asks for 8"))
        << run << error(run);
    EXPECT_EQ(error(run, 16), "") << run;
  }
  for (const char* run :
       {"set -e; mkdir o; torchrun --nproc_per_node=8 t.py | tee log",
        "if [ $CPU ]; then torchrun --nproc_per_node=16 t.py; else python t.py; fi",
        "source n.sh; torchrun --nproc_per_node=${N:-16} t.py"}) {
    EXPECT_EQ(error(run), "") << run;
  }
}

TEST(Place, SpreadsATotalOverAsFewNodesAsPossible) {
  const std::vector<NodeInventory> nodes = {H100("a", 4), H100("b", 4), H100("c", 4)};
  JobSpec job = Job();
  job.total_gpus = 8;
  const auto placed = Place(job, Offers(nodes));
  ASSERT_TRUE(placed);
  EXPECT_EQ(placed->offers.size(), 2U);
  EXPECT_EQ(placed->gpus[0].size(), 4U);
  job.total_gpus = 16;
  EXPECT_TRUE(Place(job, Offers(nodes)).error().never);
}

TEST(Place, CpuJobsNeverTakeAGpu) {
  const std::vector<NodeInventory> nodes = {H100("a", 8)};
  JobSpec job = Job();
  job.device = DeviceChoice::kCpu;
  EXPECT_TRUE(Place(job, Offers(nodes))->gpus[0].empty());
  job = GpuJob(0);
  EXPECT_TRUE(Place(job, Offers(nodes))->gpus[0].empty());
}

TEST(Place, CpuJobsReserveTheirProcessesAndNoMoreThanTheNodeHas) {
  const std::vector<NodeInventory> nodes = {Node("a"), Node("b")};
  auto offers = Offers(nodes);
  JobSpec job = Job();
  job.device = DeviceChoice::kCpu;
  job.procs_per_node = 64;  // more than 16 cores: still starts
  EXPECT_TRUE(Place(job, offers));
  offers[0].free_cpus = offers[1].free_cpus = 8;
  EXPECT_EQ(Place(job, offers).error().reason.code, "Resources");
  job.procs_per_node = 8;
  EXPECT_TRUE(Place(job, offers));
}

TEST(Place, UnsetGpusMeansOneWhereThereIsOneEvenABusyOne) {
  const std::vector<NodeInventory> nodes = {H100("a", 8), Node("cpu")};
  auto offers = Offers(nodes);
  EXPECT_EQ(Place(Job(), offers)->gpus[0].size(), 1U);
  offers[0].free_gpus.clear();
  EXPECT_EQ(Place(Job(), offers).error().reason.code, "Resources");
  offers[0].schedulable = false;
  EXPECT_TRUE(Place(Job(), offers)->gpus[0].empty());
}

TEST(Place, ATorchrunLineAsksForAsManyGpusAsProcesses) {
  const std::vector<NodeInventory> nodes = {H100("a", 8)};
  EXPECT_EQ(Place(Job("torchrun --nproc_per_node=4 t.py"), Offers(nodes))->gpus[0].size(), 4U);
  EXPECT_EQ(Place(Job("CUDA_VISIBLE_DEVICES=0,1 python t.py"), Offers(nodes))->gpus[0].size(), 2U);
}

TEST(Place, AnAppleGpuIsOneDevice) {
  const auto nodes = Cluster("m2max");
  EXPECT_TRUE(Place(GpuJob(1), Offers(nodes)));
  JobSpec sharded = Job();
  sharded.strategy = Strategy::kZero2;
  JobSpec two_nodes = Job();
  two_nodes.nodes = {2, 2, false};
  for (const JobSpec& job : {GpuJob(2), two_nodes, sharded}) {
    const auto unplaced = Place(job, Offers(nodes));
    ASSERT_FALSE(unplaced);
    EXPECT_TRUE(unplaced.error().never);
    EXPECT_TRUE(Contains(unplaced.error().reason.evidence, "one device"));
  }
}

NodeInventory CutH100() {
  NodeInventory node = H100("cut", 2);
  node.gpus[0].mig = {{GpuUuid{"MIG-a"}, "3g.40gb", 40ull << 30},
                      {GpuUuid{"MIG-b"}, "1g.10gb", 10ull << 30}};
  ListSlicesAsDevices(node);
  return node;
}

TEST(Place, GivesSlicesToThoseWhoNameThem) {
  const std::vector<NodeInventory> nodes = {CutH100()};
  EXPECT_EQ(Place(GpuJob(1, "1g.10gb"), Offers(nodes))->gpus[0], std::vector<int>{1});
  EXPECT_EQ(Place(GpuJob(1, "mig-3g.40gb"), Offers(nodes))->gpus[0], std::vector<int>{0});
  EXPECT_EQ(Place(GpuJob(1), Offers(nodes))->gpus[0], std::vector<int>{2}) << "any means whole";
  EXPECT_EQ(Place(GpuJob(1, "H100"), Offers(nodes))->gpus[0], std::vector<int>{2});
  EXPECT_FALSE(Place(GpuJob(2, "H100"), Offers(nodes))) << "what is cut is not there as a whole";
  auto taken = Offers(nodes);
  taken[0].free_gpus = {0, 2};
  const auto waits = Place(GpuJob(1, "1g.10gb"), taken);
  ASSERT_FALSE(waits);
  EXPECT_FALSE(waits.error().never);
}

TEST(Place, CountsGpuIdsAsNvidiaSmiDoes) {
  std::vector<NodeInventory> nodes = {CutH100()};  // two slices of GPU 0, then GPU 1
  JobSpec job = Job();
  job.gpu_ids = {1};
  EXPECT_EQ(Place(job, Offers(nodes))->gpus[0], std::vector<int>{2});
  const auto missing = [&](std::vector<int> ids, std::vector<GpuRequest> gpus = {}) {
    job.gpu_ids = std::move(ids);
    job.gpus_written = !gpus.empty();
    job.gpus = std::move(gpus);
    const auto unplaced = Place(job, Offers(nodes));
    return unplaced ? "placed" : unplaced.error().missing;
  };
  EXPECT_TRUE(Contains(missing({0}), "GPU 0 is cut into MIG slices")) << missing({0});
  EXPECT_TRUE(Contains(missing({0, 1}), "GPU 0 is cut into MIG slices"));
  EXPECT_TRUE(Contains(missing({0}, {{"1g.10gb", 1}}), "GPU 0 is cut into MIG slices"));
  EXPECT_EQ(missing({2}), "has 2 GPUs, numbered from 0");
  nodes[0].gpu_subset = true;
  EXPECT_EQ(missing({2}), "has 2 GPUs of its machine's, numbered from 0 in `launch nodes " +
                              nodes[0].node.value + "`");
  nodes[0].gpu_subset = false;
  EXPECT_EQ(missing({1}, {{"A100", 1}}), "GPU 1 is H100-SXM, which the job does not ask for");
}

TEST(Place, SaysOfWhichKindsTheDevicesOfANodeAre) {
  const std::vector<NodeInventory> nodes = {CutH100()};
  const auto unplaced = Place(GpuJob(1, "A100"), Offers(nodes));
  ASSERT_FALSE(unplaced);
  EXPECT_EQ(unplaced.error().missing, "has 1 3g.40gb, 1 1g.10gb, 1 H100-SXM");
}

TEST(Place, RefusesAGroupOfSlices) {
  const std::vector<NodeInventory> nodes = {CutH100(), CutH100()};
  JobSpec two_processes = GpuJob(1, "1g.10gb");
  two_processes.procs_per_node = 2;
  for (const JobSpec& job : {GpuJob(2, "1g.10gb"), GpuJob(1, "1g.10gb", 2), two_processes}) {
    const auto unplaced = Place(job, Offers(nodes));
    ASSERT_FALSE(unplaced);
    EXPECT_TRUE(unplaced.error().never);
    EXPECT_TRUE(Contains(unplaced.error().reason.evidence, "NCCL"))
        << unplaced.error().reason.evidence;
  }
}

TEST(Place, IsTheSameWhateverTheOrderOfTheOffers) {
  std::vector<NodeInventory> nodes = {H100("a", 2), H100("b", 4), H100("c", 8), A100("d", 2)};
  auto offers = Offers(nodes);
  const auto first = NodesOf(*Place(GpuJob(2, "", 2), offers), offers);
  std::reverse(offers.begin(), offers.end());
  EXPECT_EQ(NodesOf(*Place(GpuJob(2, "", 2), offers), offers), first);
}

}  // namespace
}  // namespace launch
