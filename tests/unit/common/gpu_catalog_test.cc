#include "common/gpu_catalog.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>

#include "common/units.h"

namespace launch {
namespace {

GpuDevice Device(const std::string& model, std::uint64_t mib) {
  GpuDevice gpu;
  gpu.model = model;
  gpu.memory_bytes = mib * kMiB;
  return gpu;
}

TEST(GpuCatalog, KnowsTheNamesThatDriversPrint) {
  const struct {
    const char* driver;
    std::uint64_t mib;
    const char* type;
  } rows[] = {{"Tesla P100-PCIE-16GB", 16280, "P100"},
              {"Tesla V100-SXM2-16GB", 16384, "V100-16GB"},
              {"Tesla V100-SXM2-32GB", 32768, "V100-32GB"},
              {"Tesla V100-PCIE-32GB", 32768, "V100-32GB"},
              {"Tesla T4", 15360, "T4"},
              {"NVIDIA A10", 23028, "A10"},
              {"NVIDIA A10G", 23028, "A10G"},
              {"NVIDIA A100-SXM4-40GB", 40960, "A100-40GB"},
              {"NVIDIA A100-PCIE-40GB", 40960, "A100-40GB"},
              {"NVIDIA A100-SXM4-80GB", 81920, "A100-80GB"},
              {"NVIDIA A100 80GB PCIe", 81920, "A100-80GB"},
              {"NVIDIA RTX A6000", 49140, "A6000"},
              {"NVIDIA GeForce RTX 3090", 24576, "RTX3090"},
              {"NVIDIA GeForce RTX 4090", 24564, "RTX4090"},
              {"NVIDIA L4", 23034, "L4"},
              {"NVIDIA L40S", 46068, "L40S"},
              {"NVIDIA H100 80GB HBM3", 81559, "H100-SXM"},
              {"NVIDIA H100 PCIe", 81559, "H100-PCIe"},
              {"NVIDIA H100 NVL", 95830, "H100-NVL"},
              {"NVIDIA H200", 143771, "H200"},
              {"NVIDIA GH200 480GB", 97871, "GH200"},
              {"NVIDIA GH200 144G HBM3e", 147000, "GH200-144GB"},
              {"NVIDIA B200", 183359, "B200"}};
  for (const auto& row : rows) {
    const GpuType* type = GpuCatalog::BuiltIn().TypeOf(row.driver, row.mib * kMiB);
    ASSERT_NE(type, nullptr) << row.driver;
    EXPECT_EQ(type->name, row.type) << row.driver;
    EXPECT_FALSE(type->tflops.empty());
  }
}

TEST(GpuCatalog, KnowsNothingOfOthers) {
  for (const char* name :
       {"NVIDIA GeForce RTX 3090 Ti", "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA A100X-lookalike", "Apple M2 Max", "NVIDIA GeForce GTX 1650", ""}) {
    EXPECT_EQ(GpuCatalog::BuiltIn().TypeOf(name, 24 * kGiB), nullptr) << name;
  }
  // A card that calls itself an A100 and has the memory of neither: only the driver counts.
  EXPECT_EQ(GpuCatalog::BuiltIn().TypeOf("NVIDIA A100", 45600 * kMiB), nullptr);
}

TEST(GpuCatalog, AJobsWordMeansAClassAnAliasOrPartOfTheName) {
  const GpuCatalog& catalog = GpuCatalog::BuiltIn();
  const GpuDevice a100 = Device("NVIDIA A100-SXM4-80GB", 81920);
  for (const char* word : {"A100", "a100", "A100-80GB", "a100_80gb", "A100-SXM4-80GB", ""}) {
    EXPECT_TRUE(catalog.Matches(word, a100)) << word;
  }
  for (const char* word : {"A10", "A100-40GB", "H100", "A100-SXM4-40GB", "100"}) {
    EXPECT_FALSE(catalog.Matches(word, a100)) << word;
  }
  const GpuDevice ada = Device("NVIDIA GeForce RTX 4090", 24564);
  for (const char* word : {"4090", "RTX4090", "RTX 4090", "rtx-4090", "GeForce RTX 4090"}) {
    EXPECT_TRUE(catalog.Matches(word, ada)) << word;
  }
  EXPECT_FALSE(catalog.Matches("409", ada));
  EXPECT_TRUE(catalog.Matches("H100", Device("NVIDIA H100 NVL", 95830)));
  EXPECT_FALSE(catalog.Matches("H100-SXM", Device("NVIDIA H100 NVL", 95830)));
  EXPECT_TRUE(catalog.Matches("GH200", Device("NVIDIA GH200 480GB", 97871)));
  EXPECT_FALSE(catalog.Matches("H200", Device("NVIDIA GH200 480GB", 97871)));
  // Not in the data sheet, and still named by what its driver prints.
  EXPECT_TRUE(catalog.Matches("GTX 1650", Device("NVIDIA GeForce GTX 1650", 4096)));
  EXPECT_TRUE(catalog.Matches("A100", Device("NVIDIA A100", 45600)));
}

TEST(GpuCatalog, TensorRatesFollowFromTheChip) {
  // Operations of one multiprocessor in one clock, accumulated in fp32: white papers of the chips.
  const std::map<std::string, double> per_clock = {
      {"V100-16GB", 1024}, {"V100-32GB", 1024},  {"T4", 1024},    {"A100-40GB", 2048},
      {"A100-80GB", 2048}, {"A10", 1024},        {"A6000", 1024}, {"RTX3090", 512},
      {"RTX4090", 512},    {"L4", 1024},         {"L40S", 1024},  {"H100-PCIe", 4096},
      {"H100-NVL", 4096},  {"H100-SXM", 4096},   {"H200", 4096},  {"GH200", 4096},
      {"B200", 8192},      {"GH200-144GB", 4096}};
  for (const auto& [name, operations] : per_clock) {
    const GpuType* type = GpuCatalog::BuiltIn().Find(name, std::nullopt);
    ASSERT_NE(type, nullptr) << name;
    ASSERT_EQ(type->name, name);
    const double rate = *type->sms * *type->tensor_mhz * 1e6 * operations / 1e12;
    EXPECT_NEAR(type->tflops.at("fp16"), rate, 0.02 * rate) << name;
  }
}

TEST(GpuCatalog, EveryClassSaysWhatTimeIsPredictedFrom) {
  for (const std::string& name : GpuCatalog::BuiltIn().Names()) {
    const GpuType* type = GpuCatalog::BuiltIn().Find(name, std::nullopt);
    ASSERT_NE(type, nullptr) << name;
    EXPECT_TRUE(type->sms && type->tensor_mhz && type->memory_gib && type->memory_gbps &&
                type->pcie_gbps && type->tflops.contains("fp32"))
        << name;
    EXPECT_EQ(type->tflops.contains("bf16"), type->cc >= (ComputeCapability{8, 0})) << name;
    EXPECT_EQ(type->tflops.contains("fp8"), type->cc >= (ComputeCapability{8, 9})) << name;
  }
}

TEST(GpuCatalog, AWordOfATableFindsItsClass) {
  const struct {
    const char* word;
    std::optional<double> memory;
    const char* type;
  } rows[] = {{"A100", 40, "A100-40GB"},
              {"A100", 80, "A100-80GB"},
              {"A100-SXM4-80GB", 80, "A100-80GB"},
              {"A100SXM", 39.39, "A100-40GB"},
              {"A100-40GB", {}, "A100-40GB"},
              {"V100", 32, "V100-32GB"},
              {"V100", 15.78, "V100-16GB"},
              {"rtx 3090", 24, "RTX3090"},
              {"RTX-4090", {}, "RTX4090"},
              {"H100-80GB", 80, "H100-SXM"},
              {"H100 PCIe", 80, "H100-PCIe"},
              {"GH200", 96, "GH200"},
              {"GH200", 144, "GH200-144GB"},
              {"H100_HBM3", 80, "H100-SXM"},
              {"A10", 24, "A10"},
              {"A10G", 24, "A10G"}};
  for (const auto& row : rows) {
    const GpuType* type = GpuCatalog::BuiltIn().Find(row.word, row.memory);
    ASSERT_NE(type, nullptr) << row.word;
    EXPECT_EQ(type->name, row.type) << row.word;
  }
  for (const char* word : {"", "gaudi2", "A1000", "GTX 1650", "?"}) {
    EXPECT_EQ(GpuCatalog::BuiltIn().Find(word, 24), nullptr) << word;
  }
}

TEST(GpuCatalog, APciePartHasFiguresOfItsOwn) {
  const GpuType* type = GpuCatalog::BuiltIn().Find("A100", 80);
  ASSERT_NE(type, nullptr);
  const GpuType pcie = GpuCatalog::VariantOf(*type, "NVIDIA A100 80GB PCIe");
  EXPECT_EQ(pcie.memory_gbps, 1935);
  EXPECT_EQ(pcie.link_gbps, 0);
  EXPECT_EQ(pcie.tflops, type->tflops);
  EXPECT_EQ(GpuCatalog::VariantOf(*type, "NVIDIA A100-SXM4-80GB").memory_gbps, 2039);
}

TEST(GpuCatalog, NamesAreDistinct) {
  std::set<std::string> seen;
  for (const std::string& name : GpuCatalog::BuiltIn().Names()) {
    EXPECT_TRUE(seen.insert(name).second) << name;
  }
  EXPECT_GE(seen.size(), 20U);
}

TEST(GpuCatalog, AFileIsReadStrictly) {
  EXPECT_TRUE(GpuCatalog::Parse("gpus: [{name: X, match: [x], cc: \"9.0\"}]", "g.yaml"));
  for (const char* text : {"gpus: {}", "gpu: []", "gpus: [{match: [x], cc: \"9.0\"}]",
                           "gpus: [{name: X, cc: \"9.0\"}]", "gpus: [{name: X, match: [x]}]",
                           "gpus: [{name: X, match: [x], cc: nine}]",
                           "gpus: [{name: X, match: [x], cc: \"9.0\", colour: red}]",
                           "gpus: [{name: X, match: [x], cc: \"9.0\", sms: 0}]",
                           "gpus: [{name: X, match: [x], cc: \"9.0\", memory_gbps: -1}]",
                           "gpus: [{name: X, match: [x], cc: \"9.0\", variants: [{sms: 1}]}]",
                           "gpus: [{name: X, match: [x], cc: \"9.0\", tflops: {bf16: fast}}]"}) {
    const auto catalog = GpuCatalog::Parse(text, "g.yaml");
    ASSERT_FALSE(catalog) << text;
    EXPECT_TRUE(catalog.error().where) << text;
  }
}

}  // namespace
}  // namespace launch
