// What nodes found when they spoke with each other, judged.
#include "preflight/network_test_check.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/preflight/scene.h"

namespace launch {
namespace {

PeerFact Met(int place, double mbit) {
  return {place, "10.0.0." + std::to_string(place + 1), true, "", mbit, 40.0};
}

// Three nodes on 10 Gbit/s that meet each other well.
struct Meeting {
  std::vector<NodeInventory> inventories;
  std::vector<NetworkFacts> facts;

  Meeting() {
    for (int place = 0; place < 3; ++place) {
      NodeInventory node;
      node.node.value = "n" + std::to_string(place);
      node.addresses = {{"eth0", "10.0.0." + std::to_string(place + 1), 10'000, 1500, false}};
      inventories.push_back(node);
      NetworkFacts found;
      found.backend = "gloo";
      found.ok = true;
      found.allreduce_us = 120;
      found.allreduce_mbit = 5200;
      for (int other = place + 1; other < 3; ++other) found.peers.push_back(Met(other, 9400));
      facts.push_back(found);
    }
  }
  PreflightReport Judge(NetworkCheck wanted = NetworkCheck::kWarn) const {
    std::vector<TestedNode> nodes;
    for (std::size_t i = 0; i < facts.size(); ++i) nodes.push_back({inventories[i], facts[i]});
    return JudgeNetwork(wanted, nodes);
  }
};

TEST(NetworkTest, OneThatWentWellIsALineForEachPairAndThreeForAll) {
  const PreflightReport report = Meeting().Judge();
  EXPECT_TRUE(report.findings.empty());
  ASSERT_EQ(report.checks.size(), 6u);  // those of no node first
  EXPECT_TRUE(Contains(report.checks[1].says, "over eth0: env: {NCCL_SOCKET_IFNAME: \"eth0\""));
  EXPECT_EQ(report.checks[3].says, "to n1 at 10.0.0.2: 9.4 Gbit/s, 40 us");
  EXPECT_EQ(report.checks[0].says,
            "3 pairs of nodes meet, the slowest at 9.4 Gbit/s (n0 and n1, 40 us)");
  EXPECT_EQ(report.checks[2].says,
            "gloo over 3 nodes gives the right sum: 5.2 Gbit/s, 120 us for 8 KiB");
}

TEST(NetworkTest, TwoNodesThatDoNotMeetAreNamedOnceWithoutTheGroupThatFailedByIt) {
  Meeting meeting;
  meeting.facts[1].peers[0] = {2, "10.0.0.3", false, "No route to host", {}, {}};
  for (NetworkFacts& facts : meeting.facts) {
    facts.ok = false;
    facts.why = "no all-reduce: some nodes do not reach each other";
  }
  const PreflightReport report = meeting.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"network_unreachable"});
  EXPECT_EQ(report.findings[0].severity, Severity::kError);
  EXPECT_EQ(report.findings[0].node, NodeId{"n1"});
  EXPECT_EQ(report.findings[0].says, "n1 cannot reach n2 at 10.0.0.3: No route to host");
}

TEST(NetworkTest, AnAllReduceThatFailsIsAnErrorWithEveryNodesWord) {
  Meeting meeting;
  meeting.facts[2].ok = false;
  meeting.facts[2].why = "RuntimeError: Unable to find address for: ib0";
  const PreflightReport report = meeting.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"network_unreachable"});
  EXPECT_EQ(report.findings[0].node, NodeId{"n2"});
  EXPECT_TRUE(Contains(report.findings[0].says, "by gloo"));
  EXPECT_EQ(report.findings[0].evidence,
            "n0: ok; n1: ok; n2: RuntimeError: Unable to find address for: ib0");
  EXPECT_EQ(ResultOf(report, "all-reduce"), "fail");
}

TEST(NetworkTest, ALinkFarBelowItsInterfacesOrTheOthersIsNamed) {
  Meeting meeting;
  meeting.facts[0].peers[1] = Met(2, 90);
  PreflightReport report = meeting.Judge();
  ASSERT_EQ(Codes(report), std::vector<std::string>{"network_slow"});
  EXPECT_EQ(report.findings[0].severity, Severity::kWarning);
  EXPECT_TRUE(Contains(report.findings[0].says, "between n0 and n2 carries 90.0 Mbit/s"));
  EXPECT_TRUE(Contains(report.findings[0].remedy, "NCCL_SOCKET_IFNAME"));
  EXPECT_TRUE(HasErrors(meeting.Judge(NetworkCheck::kRequire).findings));
  EXPECT_TRUE(meeting.Judge(NetworkCheck::kSkip).checks.empty());
  for (NodeInventory& node : meeting.inventories) node.addresses[0].mbit.reset();
  EXPECT_EQ(Codes(meeting.Judge()), std::vector<std::string>{"network_slow"});
}

TEST(NetworkTest, BetweenTwoNodesOfOneMachineThereIsNoLink) {
  Meeting meeting;
  meeting.facts[0].peers[1] = Met(2, 90);
  meeting.inventories[0].addresses.push_back(meeting.inventories[2].addresses[0]);
  EXPECT_TRUE(meeting.Judge().findings.empty());
}

TEST(NetworkTest, HalfTheSpeedOfABusyMachineIsNoFinding) {
  Meeting meeting;
  meeting.facts[0].peers[1] = Met(2, 3000);
  EXPECT_TRUE(meeting.Judge().findings.empty());
  // And no program fills 400 Gbit/s with one stream.
  for (NodeInventory& node : meeting.inventories) node.addresses[0].mbit = 400'000;
  EXPECT_TRUE(meeting.Judge().findings.empty());
}

TEST(NetworkTest, WithoutTorchItSaysThatNoAllReduceWasTried) {
  Meeting meeting;
  for (NetworkFacts& facts : meeting.facts) {
    facts.backend.clear();
    facts.why = "no all-reduce: the interpreter has no torch on every node";
  }
  const PreflightReport report = meeting.Judge();
  EXPECT_TRUE(report.findings.empty());
  EXPECT_EQ(ResultOf(report, "all-reduce"), "pass");
  EXPECT_TRUE(Contains(report.checks.at(2).says, "not tested"));
}

TEST(NetworkTest, APlaceThatNoNodeHasIsNotBelieved) {
  Meeting meeting;
  meeting.facts[0].peers.push_back(Met(7, 1));
  EXPECT_TRUE(meeting.Judge().findings.empty());
}

TEST(NetworkTest, TheAllReduceByNcclIsALineOfItsOwn) {
  Meeting meeting;
  for (NetworkFacts& facts : meeting.facts) {
    facts.nccl = NcclFacts{true, true, "", "2.27.7", "IB", 31.0, 98'000.0};
  }
  const PreflightReport report = meeting.Judge();
  EXPECT_TRUE(report.findings.empty());
  EXPECT_TRUE(std::any_of(report.checks.begin(), report.checks.end(), [](const auto& check) {
    return check.check == "NCCL" &&
           check.says ==
               "NCCL 2.27.7 over 3 nodes gives the right sum: 98.0 Gbit/s, "
               "31 us for 8 KiB, by IB";
  }));
}

TEST(NetworkTest, AnNcclThatWasNotTestedSaysWhyAndFailsNothing) {
  Meeting meeting;
  for (NetworkFacts& facts : meeting.facts) {
    facts.nccl = NcclFacts{.why = "place 1: there is no launch-nccl-test beside the agent"};
  }
  const PreflightReport report = meeting.Judge();
  EXPECT_TRUE(report.findings.empty());
  EXPECT_TRUE(std::any_of(report.checks.begin(), report.checks.end(), [](const auto& check) {
    return check.check == "NCCL" && Contains(check.says, "not tested: place 1: there is no");
  }));
}

TEST(NetworkTest, AnNcclThatFailsIsAnErrorOfTheNodeThatSaysWhy) {
  Meeting meeting;
  for (NetworkFacts& facts : meeting.facts) {
    facts.nccl = NcclFacts{true, true, "", "2.27.7", "Socket", 31.0, 9'000.0};
  }
  meeting.facts[1].nccl = NcclFacts{.tested = true, .why = "Bootstrap : no socket interface found"};
  const PreflightReport report = meeting.Judge();
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].code, "network_unreachable");
  EXPECT_EQ(report.findings[0].node, NodeId{"n1"});
  EXPECT_TRUE(Contains(report.findings[0].says, "no socket interface found"));
}

TEST(NetworkTest, NcclOverTcpBesideAnUnusedAdapterIsAWarning) {
  Meeting meeting;
  for (NetworkFacts& facts : meeting.facts) {
    facts.nccl = NcclFacts{true, true, "", "2.27.7", "Socket", 31.0, 9'000.0};
  }
  EXPECT_TRUE(meeting.Judge().findings.empty());
  meeting.inventories[2].addresses.front().rdma = true;
  const PreflightReport report = meeting.Judge();
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].code, "network_slow");
  EXPECT_EQ(report.findings[0].severity, Severity::kWarning);
  EXPECT_EQ(report.findings[0].node, NodeId{"n2"});
}

}  // namespace
}  // namespace launch
