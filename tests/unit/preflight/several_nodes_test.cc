// Rules that compare the nodes of one job: versions, links, clocks.
#include <gtest/gtest.h>

#include "common/units.h"
#include "tests/unit/preflight/scene.h"

namespace launch {
namespace {

Scene TwoNodes() {
  Scene scene;
  scene.node.addresses = {{"lo", "127.0.0.1", {}, 65536, false},
                          {"eth0", "10.0.0.1", 25'000, 9000, false}};
  scene.AddNode();
  return scene;
}

TEST(Skew, TwoAlikeNodesPass) {
  const PreflightReport report = TwoNodes().Judge();
  EXPECT_TRUE(report.findings.empty());
  EXPECT_EQ(ResultOf(report, "versions agree"), "pass");
}

TEST(Skew, AnotherTorchIsAnErrorOnGpusAndAWarningOnCpus) {
  Scene scene = TwoNodes();
  scene.second.interpreters[0].torch->version = "2.12.0+cu126";
  PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"version_skew"});
  EXPECT_EQ(report.findings[0].severity, Severity::kError);
  EXPECT_TRUE(Contains(report.findings[0].evidence, "gh01: 2.13.0+cu126"));
  EXPECT_TRUE(Contains(report.findings[0].evidence, "gh02: 2.12.0+cu126"));
  scene.plan.device = DeviceClass::kCpu;
  EXPECT_EQ(scene.Judge().findings.at(0).severity, Severity::kWarning);
}

TEST(Skew, TheNodeThatDiffersFromMostIsTheOneToChange) {
  Scene scene = TwoNodes();
  scene.second.interpreters[0].torch->version = "2.12.0+cu126";
  NodeInventory third = scene.second;
  third.node.value = "gh03";
  third.interpreters[0].torch->version = "2.12.0+cu126";
  scene.plan.assignments.push_back(scene.Rank(2, third.node, "GPU-3"));
  const PreflightReport report =
      JudgeInventories(scene.job, scene.plan, {&scene.node, &scene.second, &third});
  ASSERT_EQ(Codes(report), std::vector<std::string>{"version_skew"});
  EXPECT_EQ(report.findings[0].node->value, "gh01");
  EXPECT_EQ(report.findings[0].fix,
            std::vector<std::string>{"/home/ana/venv/bin/python -m pip install torch==2.12.0 "
                                     "--index-url https://download.pytorch.org/whl/cu126"});
}

TEST(Skew, NcclAndDeepSpeedAreErrorsOtherPackagesWarnings) {
  Scene scene = TwoNodes();
  scene.torch().nccl = "2.27.5";
  EXPECT_TRUE(scene.Judge().findings.empty());  // the other was not asked yet
  scene.second.interpreters[0].torch->nccl = "2.26.2";
  EXPECT_TRUE(HasErrors(scene.Judge().findings));
  scene.second.interpreters[0].torch->nccl = "2.27.5";
  scene.node.interpreters[0].packages = {{"transformers", "5.1.0"}};
  scene.second.interpreters[0].packages = {{"transformers", "5.0.0"}};
  PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"version_skew"});
  EXPECT_EQ(report.findings[0].severity, Severity::kWarning);
  scene.node.interpreters[0].packages = {{"deepspeed", "0.18.0"}};
  scene.second.interpreters[0].packages = {};
  report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"version_skew"});
  EXPECT_EQ(report.findings[0].severity, Severity::kError);
  EXPECT_TRUE(Contains(report.findings[0].says, "none"));
}

TEST(Skew, PatchReleasesOfPythonAreAlikeMinorOnesAreNot) {
  Scene scene = TwoNodes();
  scene.second.interpreters[0].python = "3.11.9";
  EXPECT_TRUE(scene.Judge().findings.empty());
  scene.second.interpreters[0].python = "3.12.1";
  EXPECT_EQ(scene.Judge().findings.at(0).severity, Severity::kWarning);
}

TEST(Room, WhatTheJobAsksForIsAnError) {
  Scene scene;
  scene.node.shm_bytes = 32 * kGiB;
  scene.job.shm_bytes = 64 * kGiB;
  const PreflightReport known = scene.Judge();
  ASSERT_NE(Find(known, "shm_small"), nullptr);
  EXPECT_EQ(Find(known, "shm_small")->severity, Severity::kError);
  scene.job.image = "docker://torch";  // gets its own
  EXPECT_EQ(Find(scene.Judge(), "shm_small"), nullptr);

  StagingFacts facts;
  facts.disks = {{"workdir", "/proj", 100 * kGiB, 10 * kGiB, {}}};
  const AllocationSpec spec = scene.Allocation();
  const std::vector<StagedNode> nodes = {{spec, scene.node, facts}};
  EXPECT_TRUE(JudgeTogether(scene.job, scene.plan, nodes, {}).findings.empty());
  scene.job.disk_bytes = 11 * kGiB;
  const PreflightReport found = JudgeTogether(scene.job, scene.plan, nodes, {});
  ASSERT_EQ(Codes(found), std::vector<std::string>{"disk_low"});
  EXPECT_EQ(found.findings[0].severity, Severity::kError);
}

TEST(Skew, IsLookedAtAgainWithTheFactsOfTheStart) {
  Scene scene = TwoNodes();
  StagingFacts first;
  first.runtime = scene.node.interpreters[0];
  StagingFacts second = first;
  second.runtime->torch->version = "2.12.0+cu126";
  const AllocationSpec spec = scene.Allocation();
  const std::vector<StagedNode> nodes = {{spec, scene.node, first}, {spec, scene.second, second}};
  EXPECT_EQ(Codes(JudgeTogether(scene.job, scene.plan, nodes, {})),
            std::vector<std::string>{"version_skew"});
  scene.job.preflight = PreflightLevel::kNone;
  EXPECT_TRUE(JudgeTogether(scene.job, scene.plan, nodes, {}).findings.empty());
}

TEST(Links, ASlowOneIsANoticeUnlessTheJobRequiresMore) {
  Scene scene = TwoNodes();
  EXPECT_EQ(ResultOf(scene.Judge(), "link speed"), "pass");
  scene.node.addresses[1].mbit = 1000;
  PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"network_slow"});
  EXPECT_EQ(report.findings[0].severity, Severity::kNotice);
  EXPECT_TRUE(Contains(report.findings[0].says, "1 Gbit/s"));
  scene.job.preflight_network = NetworkCheck::kRequire;
  EXPECT_TRUE(HasErrors(scene.Judge().findings));
  scene.job.preflight_network = NetworkCheck::kSkip;
  EXPECT_TRUE(scene.Judge().findings.empty());
  scene.job.preflight_network = NetworkCheck::kRequire;
  scene.plan.device = DeviceClass::kCpu;
  EXPECT_TRUE(scene.Judge().findings.empty());
}

TEST(Links, OneNodeHasNone) {
  Scene scene;
  scene.node.addresses = {{"eth0", "10.0.0.1", 100, 1500, false}};
  EXPECT_TRUE(scene.Judge().findings.empty());
}

TEST(Links, MtusThatDifferAreNamedAtTheSmallerOne) {
  Scene scene = TwoNodes();
  scene.second.addresses[1].mtu = 1500;
  const PreflightReport report = scene.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"network_slow"});
  EXPECT_EQ(report.findings[0].severity, Severity::kWarning);
  EXPECT_EQ(report.findings[0].node->value, "gh02");
  EXPECT_EQ(report.findings[0].fix, std::vector<std::string>{"ip link set dev eth0 mtu 9000"});
}

TEST(Links, AFasterBridgeOnOneNodeAloneIsNotWhereTheyMeet) {
  Scene scene = TwoNodes();
  scene.node.addresses.push_back({"docker0", "172.17.0.1", 100'000, 1500, false});
  EXPECT_TRUE(scene.Judge().findings.empty());
  scene.second.addresses[1].interface = "ens1";  // nothing in common: the fastest of each
  EXPECT_EQ(Codes(scene.Judge()), std::vector<std::string>{"network_slow"});
}

TEST(Clocks, SecondsApartAreTooFarAndLateMessagesAreNot) {
  Scene scene = TwoNodes();
  const auto judge = [&](std::int64_t first, std::int64_t second) {
    return JudgeTogether(scene.job, scene.plan, {}, {{{"gh01"}, first}, {{"gh02"}, second}});
  };
  EXPECT_TRUE(judge(-3'000, 900).findings.empty());     // a message that waited
  EXPECT_TRUE(judge(90'000, 90'100).findings.empty());  // alike: the controller's own is off
  const PreflightReport report = judge(-3, 65'000);
  ASSERT_EQ(Codes(report), std::vector<std::string>{"clock_skew"});
  EXPECT_EQ(report.findings[0].node->value, "gh02");
  EXPECT_EQ(judge(-65'000, 10).findings.at(0).node->value, "gh01");
}

}  // namespace
}  // namespace launch
