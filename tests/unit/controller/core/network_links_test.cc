// What tests of the network leave behind: the newest measurement of each pair, for later plans.
#include "controller/core/network_links.h"

#include "tests/unit/controller/core/test_core.h"

namespace launch::controller {
namespace {

NetworkFacts Met(int place, double mbit, std::optional<double> nccl = {}) {
  NetworkFacts facts;
  facts.ok = true;
  PeerFact peer;
  peer.place = place;
  peer.address = "10.0.0." + std::to_string(place + 1);
  peer.ok = true;
  peer.mbit = mbit;
  peer.latency_us = 40;
  facts.peers = {peer};
  if (nccl) {
    facts.nccl.emplace();
    facts.nccl->tested = facts.nccl->ok = true;
    facts.nccl->transport = "Socket";
    facts.nccl->mbit = nccl;
  }
  return facts;
}
NetworkFacts Last(std::optional<double> nccl = {}) {
  NetworkFacts facts = Met(0, 1, nccl);
  facts.peers.clear();
  return facts;
}

struct NetworkLinks : TwoNodes {
  // A debug job of two nodes that ended well: where `check --network` gets its figures.
  JobId Tested() {
    JobSpec spec = CpuJob(2);
    spec.debug = true;
    const JobId job = core.Submitted(spec);
    const Key key = core.Run(job);
    for (const char* node : {"gpu1", "gpu2"}) {
      const AllocRecord& alloc = core.state.allocs.at(key).at(NodeId{node});
      for (const Rank rank : std::vector<Rank>(alloc.ranks)) core.Exit(node, key, rank, Exited{0});
      core.Release(node, key);
    }
    core.Ignore();
    return job;
  }
  Result<reply::Done> Note(JobId job, std::vector<NetworkFacts> facts) {
    const RequestId request{++requests};
    core.Post(event::NoteProbe{request, {core.user, false}, job, std::nullopt, std::move(facts)});
    return core.Answer<reply::Done>(request);
  }
  std::vector<MeasuredLink> Rows(const std::string& node) {
    return core.state.nodes.at(NodeId{node}).links.rows();
  }
  std::uint64_t requests = 7'000;
};

TEST_F(NetworkLinks, AreKeptWithTheNodesAndGoIntoLaterPlans) {
  const JobId test = Tested();
  ASSERT_TRUE(Note(test, {Met(1, 940, 700), Last(600)}));
  EXPECT_TRUE(core.HasEvent("network.measured"));
  core.Restart();
  ASSERT_EQ(Rows("gpu1").size(), 1u);
  EXPECT_TRUE(Rows("gpu2").empty()) << "each pair is kept once";
  const MeasuredLink link = Rows("gpu1").front();
  EXPECT_EQ(link.peer, NodeId{"gpu2"});
  EXPECT_EQ(link.mbit, 940);
  EXPECT_EQ(link.nccl_mbit, 600) << "that of the slower node";
  EXPECT_EQ(link.transport, "Socket");

  core.Attach("gpu1", 1);
  core.Attach("gpu2", 1);
  core.Ignore();
  core.answer_plans = false;
  core.Submit(GpuJob(2, 1));
  const auto asked = std::get<effect::PlanWanted>(core.effects.at(0));
  const auto pairs = MeasuredBetween(asked.offers, {0, 1}, asked.now, asked.network_known_by);
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(pairs[0].link.mbit, 940);
  EXPECT_TRUE(MeasuredBetween(asked.offers, {0}, asked.now, {}).empty());
  // What is measured after the submit changes no attempt of the job; after a month nobody knows.
  EXPECT_TRUE(MeasuredBetween(asked.offers, {0, 1}, asked.now, link.since - Millis{1}).empty());
  EXPECT_TRUE(
      MeasuredBetween(asked.offers, {0, 1}, asked.now + kLinksKept + Millis{1}, {}).empty());
}

TEST_F(NetworkLinks, OfTheSameNetworkKeepTheirFigures) {
  const JobId test = Tested();
  ASSERT_TRUE(Note(test, {Met(1, 940, 700), Last(700)}));
  const MeasuredLink first = Rows("gpu1").front();
  core.now.wall += Millis{3'600'000};
  ASSERT_TRUE(Note(test, {Met(1, 900), Last()}));
  MeasuredLink again = Rows("gpu1").front();
  EXPECT_GT(again.at, first.at);
  again.at = first.at;
  EXPECT_EQ(again, first) << "a plan that was made by it stays the same";
  ASSERT_TRUE(Note(test, {Met(1, 9'400), Last()}));
  const MeasuredLink changed = Rows("gpu1").front();
  EXPECT_EQ(changed.mbit, 9'400);
  EXPECT_EQ(changed.since, core.now.wall);
  EXPECT_FALSE(changed.nccl_mbit) << "it was of the network of before";
}

TEST_F(NetworkLinks, AGroupsAllReduceSaysNothingOfItsFasterPairs) {
  core.Attach("gpu3", 1);
  const auto between = [](int place, double to_next, double to_third) {
    NetworkFacts facts = Met(1, to_next, 90);
    facts.peers.push_back(facts.peers.front());
    facts.peers.front().place = place;
    facts.peers.back().place = 2;
    facts.peers.back().mbit = to_third;
    return facts;
  };
  NetworkFacts second = Met(2, 100, 90);
  const LearntLinks learnt =
      LearnLinks(core.state, {NodeId{"gpu1"}, NodeId{"gpu2"}, NodeId{"gpu3"}},
                 {between(1, 10'000, 100), second, Last(90)}, core.now.wall);
  ASSERT_EQ(learnt.nodes.size(), 2u);
  for (const MeasuredLink& link : learnt.nodes.front().links.rows()) {
    EXPECT_EQ(link.nccl_mbit.has_value(), link.peer == NodeId{"gpu3"}) << link.peer.value;
  }
}

TEST_F(NetworkLinks, AreLearntFromAFullPreflightToo) {
  JobSpec spec = GpuJob(2, 1);
  spec.preflight = PreflightLevel::kFull;
  const Key key = Accepted(std::move(spec));
  StagingFacts facts;
  facts.reach = {{"10.0.0.1", true, "eth1", ""}};
  core.Ready("gpu1", key);
  core.Ready("gpu2", key, facts);
  StagingFacts answer;
  answer.network = Met(1, 2'500);
  core.Ready("gpu1", key, answer);
  answer.network = Last();
  core.Ready("gpu2", key, answer);
  ASSERT_EQ(Rows("gpu1").size(), 1u);
  EXPECT_EQ(Rows("gpu1").front().mbit, 2'500);
}

TEST_F(NetworkLinks, AreNotTakenFromWhatMeasuredNoNetwork) {
  const JobId test = Tested();
  EXPECT_FALSE(Note(test, {Met(1, 940)})) << "one node has not spoken";
  const JobId runs = core.Submitted([] {
    JobSpec spec = CpuJob(2);
    spec.debug = true;
    return spec;
  }());
  core.Run(runs);
  EXPECT_FALSE(Note(runs, {Met(1, 940), Last()})) << "it has not ended";
  NetworkFacts loopback = Met(1, 40'000);
  loopback.peers[0].address = "127.0.0.1";
  NetworkFacts strange = Met(9, 940);
  NetworkFacts failed = Met(1, 940);
  failed.peers[0].ok = false;
  for (const NetworkFacts& facts : {loopback, strange, failed}) {
    ASSERT_TRUE(Note(test, {facts, Last()}));
    EXPECT_TRUE(Rows("gpu1").empty());
  }
}

TEST_F(NetworkLinks, ANodeThatIsForgottenTakesItsOwnWithIt) {
  ASSERT_TRUE(Note(Tested(), {Met(1, 940), Last()}));
  core.Detach("gpu2");
  core.Post(event::ForgetNode{RequestId{9'000}, {UserName{"op"}, true}, NodeId{"gpu2"}});
  ASSERT_TRUE(core.Answer<reply::Done>(RequestId{9'000}));
  EXPECT_TRUE(Rows("gpu1").empty());
}

TEST_F(NetworkLinks, OfOneNodeAreSoManyAtMost) {
  std::vector<NodeId> nodes = {NodeId{"a"}};
  NetworkFacts facts = Last();
  for (std::size_t i = 1; i <= kMostLinks + 6; ++i) {
    nodes.push_back(NodeId{"b" + std::to_string(i)});
    facts.peers.push_back(Met(static_cast<int>(i), 1'000).peers.front());
    facts.peers.back().address = "10.1.0." + std::to_string(i);
  }
  for (const NodeId& node : nodes) core.Attach(node.value, 0);
  std::vector<NetworkFacts> all(nodes.size(), Last());
  all.front() = facts;
  const LearntLinks learnt = LearnLinks(core.state, nodes, all, core.now.wall);
  ASSERT_EQ(learnt.nodes.size(), 1u);
  EXPECT_EQ(learnt.nodes[0].links.rows().size(), kMostLinks);
}

}  // namespace
}  // namespace launch::controller
