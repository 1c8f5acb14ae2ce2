#include "common/constraint.h"

#include <gtest/gtest.h>

#include "common/units.h"

namespace launch {
namespace {

NodeInventory Node() {
  NodeInventory node;
  node.node.value = "gpu01";
  node.arch = Arch::kAarch64;
  node.kernel = "6.8.0-1020-nvidia";
  node.cores = 72;
  node.memory_bytes = 480'000'000'000;
  node.driver = "570.124.06";
  node.driver_cuda = CudaVersion{12, 8};
  node.labels["zone"] = "a";
  GpuDevice gpu;
  gpu.cc = ComputeCapability{9, 0};
  gpu.memory_bytes = 24564 * kMiB;
  node.gpus = {gpu};
  RuntimeFacts runtime;
  runtime.torch.emplace();
  runtime.torch->version = "2.13.0+cu126";
  node.interpreters = {runtime};
  return node;
}

bool Holds(const std::string& text, const NodeInventory& node = Node()) {
  const auto constraint = Constraint::Parse(text);
  EXPECT_TRUE(constraint) << text << ": " << (constraint ? "" : FormatError(constraint.error()));
  return constraint && constraint->Holds(node, nullptr);
}

TEST(Constraint, ComparesEveryVariable) {
  for (const char* text :
       {"cc>=8.0",        "cc==9.0",      "cc<10",         "gpu_mem>=24GB", "gpu_mem<24GiB",
        "gpus==1",        "gpus!=2",      "driver>=550",   "driver==570",   "driver==570.124.06",
        "driver<570.125", "cuda>=11.0",   "cuda==12.8",    "torch>=2.6",    "torch==2.13",
        "arch==aarch64",  "arch==arm64",  "arch!=x86_64",  "cpus>=32",      "memory>=400GB",
        "kernel>=5.15",   "kernel>6.7",   "label.zone==a", "label.zone",    "label.zone!=b",
        "!label.rack",    "label.rack!=x"}) {
    EXPECT_TRUE(Holds(text)) << text;
  }
  for (const char* text : {"cc>9.0", "cc<8.9", "gpu_mem>=24GiB", "gpus>1", "driver>=575",
                           "driver==570.125", "cuda>=13", "torch<2.6", "arch==x86_64", "cpus>72",
                           "memory>480GB", "kernel<6", "label.zone==b", "label.rack", "nvlink"}) {
    EXPECT_FALSE(Holds(text)) << text;
  }
}

TEST(Constraint, VersionsCompareByPartsAndNotAsDecimals) {
  NodeInventory node = Node();
  node.driver_cuda = CudaVersion{12, 10};
  EXPECT_TRUE(Holds("cuda>=12.9", node));
  node.gpus[0].cc = ComputeCapability{10, 0};
  EXPECT_TRUE(Holds("cc>=9.0", node));
}

TEST(Constraint, JoinsTermsWithTheUsualPrecedence) {
  EXPECT_TRUE(Holds("cc>=8.0 && driver>=550 && (nvlink || label.zone==a)"));
  EXPECT_TRUE(Holds("label.zone==a || nvlink && nvlink"));
  EXPECT_FALSE(Holds("(label.zone==a || nvlink) && nvlink"));
  EXPECT_TRUE(Holds("!(nvlink)&&!nvlink"));
  EXPECT_TRUE(Holds(" label.zone == \"a\" "));
}

TEST(Constraint, OneGpuMustSatisfyAllOfIt) {
  NodeInventory node = Node();
  GpuDevice old = node.gpus[0];
  old.cc = ComputeCapability{7, 0};
  old.memory_bytes = 80 * kGiB;
  node.gpus.push_back(old);
  EXPECT_TRUE(Holds("cc>=9.0", node));
  EXPECT_TRUE(Holds("gpu_mem>=80GB", node));
  EXPECT_FALSE(Holds("cc>=9.0 && gpu_mem>=80GB", node));
  const auto constraint = Constraint::Parse("cc>=8.0");
  EXPECT_TRUE(constraint->HoldsFor(node, node.gpus[0], nullptr));
  EXPECT_FALSE(constraint->HoldsFor(node, node.gpus[1], nullptr));
}

TEST(Constraint, NvlinkIsALinkToAPeer) {
  NodeInventory node = Node();
  GpuLink link;
  link.kind = LinkKind::kPix;
  node.gpus[0].links = {link};
  EXPECT_FALSE(Holds("nvlink", node));
  node.gpus[0].links[0].kind = LinkKind::kNvlink;
  EXPECT_TRUE(Holds("nvlink", node));
  EXPECT_FALSE(Holds("!nvlink", node));
}

TEST(Constraint, WhatIsNotKnownDoesNotHold) {
  const NodeInventory bare;
  for (const char* text : {"cc>=1", "gpu_mem>=1MB", "driver>=1", "cuda>=1", "torch>=1", "nvlink",
                           "kernel>=1", "label.zone"}) {
    EXPECT_FALSE(Holds(text, bare)) << text;
  }
}

TEST(Constraint, SaysTheFirstTermThatFailsAndWhatTheNodeHas) {
  NodeInventory node = Node();
  node.gpus[0].memory_bytes = 4 * kGiB;
  const auto why = [&](const std::string& text) {
    std::string failed;
    EXPECT_FALSE(Constraint::Parse(text)->Holds(node, &failed));
    return failed;
  };
  EXPECT_EQ(why("cc>=8.0 && gpu_mem>=6GB"), "gpu_mem>=6GB (has 4GiB)");
  EXPECT_EQ(why("cuda>=13.0"), "cuda>=13.0 (has 12.8)");
  EXPECT_EQ(why("nvlink"), "nvlink (no NVLink)");
  EXPECT_EQ(why("label.rack==r1"), "label.rack==r1 (not set)");
  EXPECT_EQ(why("!arch==aarch64"), "!arch==aarch64");
  EXPECT_EQ(why("cpus>100 || cpus>200"), "cpus>100 (has 72)");
}

TEST(Constraint, ErrorsNameTheColumnAndTheNearestVariable) {
  const std::pair<const char*, const char*> rows[] = {
      {"", "expected a variable"},
      {"cc>=8.0 && ", "column 12"},
      {"gpu_men>=6GB", "did you mean gpu_mem?"},
      {"cc", "needs a comparison"},
      {"cc=8.0", "write =="},
      {"cc>=", "expected a value"},
      {"cc>=eight", "not a version"},
      {"gpu_mem>=24", "unit"},
      {"gpu_mem>=24XB", "unit"},
      {"gpus>=two", "not a number"},
      {"nvlink==true", "takes no value"},
      {"arch>=aarch64", "only be compared"},
      {"arch==sparc", "unknown arch"},
      {"(cc>=8.0", "expected )"},
      {"cc>=8.0)", "expected && or ||"},
      {"cc>=8.0 & cuda>=12", "expected && or ||"},
      {"cc>=8.0 cuda>=12", "column 9"},
      {"label.zone==\"a", "never closed"},
      {"label.==a", "unknown variable"},
  };
  for (const auto& [text, part] : rows) {
    const auto constraint = Constraint::Parse(text);
    ASSERT_FALSE(constraint) << text;
    EXPECT_EQ(constraint.error().code, ErrorCode::kInvalidArgument);
    const std::string all = constraint.error().message + " | " + constraint.error().hint;
    EXPECT_NE(all.find(part), std::string::npos) << text << ": " << all;
    EXPECT_NE(all.find("column"), std::string::npos) << all;
  }
}

TEST(Constraint, HasLimitsAgainstHostileTexts) {
  EXPECT_FALSE(Constraint::Parse(std::string(5000, ' ')));
  EXPECT_FALSE(Constraint::Parse(std::string(1000, '(')));
  EXPECT_FALSE(Constraint::Parse(std::string(1000, '!') + "nvlink"));
  std::string terms = "nvlink";
  for (int i = 0; i < 63; ++i) terms += "||nvlink";
  EXPECT_TRUE(Constraint::Parse(terms));
  EXPECT_FALSE(Constraint::Parse(terms + "||nvlink"));
}

}  // namespace
}  // namespace launch
