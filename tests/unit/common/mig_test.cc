#include "common/mig.h"

#include <gtest/gtest.h>

#include "common/gpu_catalog.h"

namespace launch {
namespace {

NodeInventory CutNode() {
  NodeInventory node;
  GpuDevice cut{.uuid = GpuUuid{"GPU-0"},
                .model = "NVIDIA H100 80GB HBM3",
                .type = "H100-SXM",
                .cc = ComputeCapability{9, 0},
                .memory_bytes = 80ull << 30,
                .pci = "0000:01:00.0"};
  cut.links = {{.peer_pci = "0000:02:00.0", .kind = LinkKind::kNvlink}};
  GpuDevice whole = cut;
  whole.uuid = GpuUuid{"GPU-1"};
  whole.pci = "0000:02:00.0";
  cut.health = Health::kWarn;
  cut.why = "clocks are held down by heat";
  cut.mig = {{GpuUuid{"MIG-a"}, "3g.40gb", 40ull << 30},
             {GpuUuid{"MIG-b"}, "1g.10gb", 10ull << 30}};
  node.gpus = {cut, whole};
  return node;
}

TEST(Mig, SlicesStandInPlaceOfTheirGpu) {
  NodeInventory node = CutNode();
  const GpuDevice whole = node.gpus[1];
  ListSlicesAsDevices(node);
  ASSERT_EQ(node.gpus.size(), 3u);
  const GpuDevice& first = node.gpus[0];
  EXPECT_EQ(first.uuid.value, "MIG-a");
  EXPECT_EQ(first.model, "NVIDIA H100 80GB HBM3 MIG 3g.40gb");
  EXPECT_EQ(first.type, "3g.40gb");
  EXPECT_EQ(first.memory_bytes, 40ull << 30);
  EXPECT_EQ(first.cc, (ComputeCapability{9, 0}));
  EXPECT_EQ(first.health, Health::kWarn) << "what its GPU has, it has";
  EXPECT_TRUE(first.mig.empty() && first.links.empty());
  EXPECT_TRUE(IsMigSlice(first) && IsMigSlice(node.gpus[1]));
  EXPECT_EQ(node.gpus[2], whole);
  NodeInventory again = node;
  ListSlicesAsDevices(again);
  EXPECT_EQ(again, node);
}

TEST(Mig, NumbersAreThoseOfWholeGpus) {
  NodeInventory node = CutNode();
  GpuDevice third = node.gpus[1];
  third.pci = "0000:03:00.0";
  third.mig = {{GpuUuid{"MIG-c"}, "1g.10gb", 10ull << 30}};
  GpuDevice fourth = third;
  fourth.pci = "0000:04:00.0";
  node.gpus.insert(node.gpus.end(), {third, fourth});
  ListSlicesAsDevices(node);
  ASSERT_EQ(node.gpus.size(), 5u);
  std::vector<int> numbers;
  for (std::size_t i = 0; i < node.gpus.size(); ++i) numbers.push_back(GpuNumber(node, i));
  EXPECT_EQ(numbers, (std::vector<int>{0, 0, 1, 2, 3}));
  EXPECT_EQ(GpuLabel(node, 1), "a slice of GPU 0");
  EXPECT_EQ(GpuLabel(node, 2), "GPU 1");
  EXPECT_EQ(NvidiaSmiId(node, 3), "2");
  node.gpu_subset = true;
  EXPECT_EQ(NvidiaSmiId(node, 3), "0000:03:00.0");
}

TEST(Mig, NumbersTellGpusApartWhoseBusIsNotKnown) {
  NodeInventory node = CutNode();
  GpuDevice next = node.gpus[0];
  next.uuid.value += "-next";
  node.gpus.insert(node.gpus.begin() + 1, next);
  for (GpuDevice& gpu : node.gpus) gpu.pci.clear();
  ListSlicesAsDevices(node);
  ASSERT_EQ(node.gpus.size(), 5u);
  EXPECT_EQ(GpuNumber(node, 1), 0);
  EXPECT_EQ(GpuNumber(node, 2), 1);
  EXPECT_EQ(GpuNumber(node, 4), 2);
}

TEST(Mig, ProfilesAreToldFromCountsAndNames) {
  for (const char* text : {"1g.10gb", "MIG-1g.5gb", "mig 7g.80gb", "1c.2g.20gb", "1g.10gb+me"}) {
    EXPECT_TRUE(IsMigProfile(text)) << text;
  }
  for (const char* text :
       {"1", "8", "H100", "1g", "1g.gb", "g.10gb", "1g.10gb2", "mig", "mig-", ""}) {
    EXPECT_FALSE(IsMigProfile(text)) << text;
  }
}

TEST(Mig, ASliceIsMeantOnlyByItsOwnName) {
  NodeInventory node = CutNode();
  ListSlicesAsDevices(node);
  const GpuCatalog& catalog = GpuCatalog::BuiltIn();
  const GpuDevice& small = node.gpus[1];
  for (const char* word :
       {"1g.10gb", "mig-1g.10gb", "MIG 1g.10gb", "NVIDIA H100 80GB HBM3 MIG 1g.10gb"}) {
    EXPECT_TRUE(catalog.Matches(word, small)) << word;
  }
  for (const char* word : {"3g.40gb", "H100", "H100-SXM", "NVIDIA H100 80GB HBM3"}) {
    EXPECT_FALSE(catalog.Matches(word, small)) << word;
  }
  EXPECT_TRUE(catalog.Matches("H100", node.gpus[2]));
  EXPECT_FALSE(catalog.Matches("1g.10gb", node.gpus[2]));
}

TEST(Mig, AGpuIsFoundByItsUuidAndByThoseOfItsSlices) {
  const NodeInventory node = CutNode();
  for (std::size_t i = 0; i < node.gpus.size(); ++i) {
    const std::optional<GpuPlace> whole = FindGpu(node, node.gpus[i].uuid);
    ASSERT_TRUE(whole);
    EXPECT_EQ(whole->index, i);
    EXPECT_FALSE(whole->slice);
    for (const MigSlice& slice : node.gpus[i].mig) {
      const std::optional<GpuPlace> cut = FindGpu(node, slice.uuid);
      ASSERT_TRUE(cut) << slice.uuid.value;
      EXPECT_EQ(cut->index, i);
      EXPECT_TRUE(cut->slice);
    }
  }
  EXPECT_FALSE(FindGpu(node, GpuUuid{"GPU-of-another-node"}));
}

}  // namespace
}  // namespace launch
