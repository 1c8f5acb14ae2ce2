// The second half of a full preflight: when all nodes are staged, they speak with each other.
#include <algorithm>
#include <iterator>
#include <utility>

#include "controller/core/draft.h"
#include "controller/core/network_links.h"
#include "preflight/network_test_check.h"

namespace launch::controller {

bool TestsNetwork(const State& state, const AttemptRecord& attempt) {
  const JobSpec& spec = state.specs.at(attempt.key.job).spec;
  return attempt.nodes.size() > 1 && spec.preflight == PreflightLevel::kFull &&
         spec.preflight_network != NetworkCheck::kSkip;
}

to_node::Stage MakeNetworkStage(const State& state, const AttemptRecord& attempt,
                                const AllocRecord& alloc) {
  const LaunchDecision decision = DecideLaunch(state, attempt);
  const auto place = std::find(attempt.nodes.begin(), attempt.nodes.end(), alloc.node);
  to_node::NetworkTest test;
  test.round = state.live.attempts.at(attempt.key).network_round;
  test.address = decision.attempt.master_address;
  test.port = decision.attempt.master_port;
  test.place = static_cast<int>(std::distance(attempt.nodes.begin(), place));
  test.nodes = static_cast<int>(attempt.nodes.size());
  for (const AllocRecord& routed : decision.allocs) {
    if (routed.node == alloc.node) test.env = MakeGo(state, decision.attempt, routed).late_env;
  }
  to_node::Stage stage;
  stage.key = attempt.key;
  stage.digest = alloc.digest;
  stage.network_test = std::move(test);
  return stage;
}

void ForgetNetworkTest(LiveAttempt& live) {
  if (!live.testing_network) return;
  live.testing_network = false;
  live.network.clear();
  ++live.network_round;
  std::erase_if(live.asked,
                [](const auto& entry) { return entry.second.what == Demand::kTestNetwork; });
}

PreflightReport JudgeNetworkRound(const State& state, const AttemptRecord& attempt) {
  const LiveAttempt& live = state.live.attempts.at(attempt.key);
  std::vector<TestedNode> nodes;
  for (const NodeId& node : attempt.nodes) {
    const auto facts = live.network.find(node);
    const auto inventory = state.inventories.find(node);
    if (facts == live.network.end() || inventory == state.inventories.end()) return {};
    nodes.push_back({*inventory->second, facts->second});
  }
  return JudgeNetwork(state.specs.at(attempt.key.job).spec.preflight_network, nodes);
}

std::vector<NetworkFacts> FactsByPlace(const LiveAttempt& live, const std::vector<NodeId>& nodes) {
  std::vector<NetworkFacts> facts;
  for (const NodeId& node : nodes) {
    const auto found = live.network.find(node);
    if (found == live.network.end()) return {};
    facts.push_back(found->second);
  }
  return facts;
}

void NoteNetwork(Draft& draft, const std::string& subject, const std::vector<NodeId>& nodes,
                 const std::vector<NetworkFacts>& facts) {
  LearntLinks learnt = LearnLinks(draft.state(), nodes, facts, draft.wall());
  for (NodeRecord& node : learnt.nodes) draft.Put(std::move(node));
  if (!learnt.says.empty()) draft.Event("network.measured", subject, learnt.says);
}

}  // namespace launch::controller
