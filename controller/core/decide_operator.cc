// What operators ask for: drain, fence and forget nodes, quarantine.
#include <fmt/format.h>

#include <algorithm>

#include "common/planted.h"
#include "controller/core/draft.h"
#include "controller/core/unknown_attempts.h"

namespace launch::controller {
namespace {

template <class Asked>
bool IsOperator(Draft& draft, const Asked& event) {
  if (event.caller.is_operator) return true;
  draft.Reply(event.request,
              Fail(ErrorCode::kPermissionDenied,
                   fmt::format("user {} is not an operator", event.caller.user.value),
                   "ask an operator of this cluster"));
  return false;
}

// The node an operator names; null = the caller is told why not.
template <class Asked>
const NodeRecord* FindNode(Draft& draft, const Asked& event) {
  if (!IsOperator(draft, event)) return nullptr;
  const auto found = draft.state().nodes.find(event.node);
  if (found != draft.state().nodes.end()) return &found->second;
  std::vector<std::string> names;
  for (const auto& [id, node] : draft.state().nodes) names.push_back(id.value);
  const std::string near = NearestName(event.node.value, names);
  draft.Reply(
      event.request,
      Fail(ErrorCode::kNotFound, fmt::format("there is no node {}", event.node.value),
           near.empty() ? "`launch nodes` lists them" : fmt::format("did you mean {}?", near)));
  return nullptr;
}

constexpr const char* kNoGpu = "-";

// How much longer a node that was not heard since our start may take to come back.
Millis StillExpected(const Draft& draft, const NodeId& node) {
  const Live& live = draft.state().live;
  if (WasHeard(draft.state(), node)) return Millis{0};
  return std::max(Millis{0}, live.since + kReturnTime - draft.now());
}

bool Answers(const State& state, const NodeId& node) {
  const auto live = state.live.nodes.find(node);
  return live != state.live.nodes.end() && live->second.session && !live->second.silent;
}

}  // namespace

void OnUser(Draft& draft, const event::Drain& event) {
  const NodeRecord* found = FindNode(draft, event);
  if (found == nullptr) return;
  NodeRecord node = *found;
  node.drained = !event.undrain;
  if (event.undrain) node.faults.clear();
  node.drain_reason = event.undrain ? "" : event.reason;
  node.drained_by = event.undrain ? "" : event.caller.user.value;
  if (node != *found) {
    draft.Event(event.undrain ? "node.undrained" : "node.drained", Subject(event.node),
                fmt::format("by {}{}{}", event.caller.user.value, event.reason.empty() ? "" : ": ",
                            event.reason));
    draft.Put(node);
    draft.TouchQueue();
  }
  draft.Reply(event.request, ReplyBody(reply::Done{}));
}

void OnUser(Draft& draft, const event::ForgetNode& event) {
  const NodeRecord* found = FindNode(draft, event);
  if (found == nullptr) return;
  const bool fenced = !found->fenced_by.empty();
  const State& state = draft.state();
  const auto refuse = [&](std::string message, std::string hint) {
    draft.Reply(event.request,
                Fail(ErrorCode::kFailedPrecondition, std::move(message), std::move(hint)));
  };
  const auto live = state.live.nodes.find(event.node);
  if (live != state.live.nodes.end() && live->second.session) {
    return refuse(fmt::format("the agent of {} is connected", event.node.value),
                  "stop it first, or `launch drain` the node");
  }
  if (const auto held = state.held_by_node.find(event.node);
      held != state.held_by_node.end() && !held->second.empty() && !Planted(Bug::kForgetHeld)) {
    return refuse(
        fmt::format("{} may still run job {}", event.node.value, held->second.begin()->job.value),
        "a silent node is not a dead one: bring its agent back, or cancel the job there");
  }
  if (const Millis wait = StillExpected(draft, event.node);
      state.live.awaits_nodes && !fenced && wait > Millis{0}) {
    return refuse(fmt::format("the store went back in time once, and {} may still come back and "
                              "tell what it runs",
                              event.node.value),
                  fmt::format("try again in {} s", (wait.count() + 999) / 1000));
  }
  if (const auto unknown = UnknownOn(state, event.node); unknown && !fenced) {
    return refuse(fmt::format("{} may still run {}, which this store does not know",
                              event.node.value, ToString(*unknown)),
                  "bring its agent back; if it has no power, `launch node fence` it first");
  }
  std::vector<GpuUuid> quarantined;
  for (const auto& [gpu, record] : state.quarantine) {
    if (record.node == event.node) quarantined.push_back(gpu);
  }
  for (const GpuUuid& gpu : quarantined) draft.EraseQuarantine(gpu);
  // What was measured to it is not that of another machine which takes its name.
  std::vector<NodeRecord> met;
  for (const auto& [id, node] : state.nodes) {
    std::vector<MeasuredLink> links = node.links.rows();
    if (std::erase_if(links, [&](const auto& link) { return link.peer == event.node; }) == 0)
      continue;
    met.push_back(node);
    met.back().links = LinkTable(std::move(links));
  }
  for (NodeRecord& node : met) draft.Put(std::move(node));
  draft.EraseNode(event.node);
  ForgetUnknownOf(draft, event.node);
  draft.live().nodes.erase(event.node);
  draft.Event("node.forgotten", Subject(event.node), "by " + event.caller.user.value);
  draft.TouchQueue();  // nobody waits for its disks any more
  draft.Reply(event.request, ReplyBody(reply::Done{}));
}

void OnUser(Draft& draft, const event::FenceNode& event) {
  const NodeRecord* found = FindNode(draft, event);
  if (found == nullptr) return;
  const NodeId& node = event.node;
  if (Answers(draft.state(), node)) {
    draft.Reply(event.request,
                Fail(ErrorCode::kFailedPrecondition,
                     fmt::format("{} answers: what runs there would run twice", node.value),
                     "`launch drain` it, or cancel its jobs; fence only a node without power"));
    return;
  }
  if (const Millis wait = StillExpected(draft, node); wait > Millis{0}) {
    draft.Reply(event.request,
                Fail(ErrorCode::kFailedPrecondition,
                     fmt::format("the controller has just been started and {} may still come back",
                                 node.value),
                     fmt::format("try again in {} s", (wait.count() + 999) / 1000)));
    return;
  }
  CutOff(draft, node, "the node was fenced", "fenced");
  NodeRecord record = *found;
  record.fenced_by = event.caller.user.value;
  record.fenced_at = draft.wall();
  draft.Event("node.fenced", Subject(node), "by " + record.fenced_by);
  draft.Put(record);
  std::set<Key> held;
  if (const auto keys = draft.state().held_by_node.find(node);
      keys != draft.state().held_by_node.end()) {
    held = keys->second;
  }
  for (const Key& key : held) {
    TakeAsDead(draft, node, key, fmt::format("node fenced by {}", record.fenced_by));
  }
  ForgetUnknownOf(draft, node);
  draft.TouchQueue();
  draft.Reply(event.request, ReplyBody(reply::Done{}));
}

// What a node runs of a job that is not here has no GPU to hold: a row without one.
std::vector<GpuRecord> StrangersOn(const State& state, const std::string& what) {
  std::vector<GpuRecord> rows;
  for (const auto& [node, live] : state.live.nodes) {
    for (const auto& [key, since] : live.strangers) {
      if (!what.empty() && what != node.value && what != ToString(key)) continue;
      rows.push_back({GpuUuid{kNoGpu}, node,
                      fmt::format("runs, but there is no such {} here", WhatIsUnknown(state, key)),
                      key, since});
    }
  }
  return rows;
}

void EndStranger(Draft& draft, const GpuRecord& row, const UserName& by) {
  draft.Event("allocation.ended", Subject(row.node),
              fmt::format("{}, of no {} here, is stopped by {}", ToString(row.key),
                          WhatIsUnknown(draft.state(), row.key), by.value));
  draft.Send(row.node, to_node::Stop{row.key, StopCause::kStale, Millis{0}});
}

void OnUser(Draft& draft, const event::Quarantine& event) {
  const State& state = draft.state();
  reply::Quarantined answer;
  for (const auto& [gpu, record] : state.quarantine) {
    const bool left_by = record.key.job.value > 0 && ToString(record.key) == event.what;
    if (event.what.empty() || gpu.value == event.what || record.node.value == event.what ||
        left_by) {
      answer.gpus.push_back(record);
      answer.gpus.back().why = WhyHeld(state, record);
    }
  }
  for (GpuRecord& row : StrangersOn(state, event.what)) answer.gpus.push_back(std::move(row));
  if (event.action == QuarantineAction::kList) {
    draft.Reply(event.request, ReplyBody(std::move(answer)));
    return;
  }
  if (!IsOperator(draft, event)) return;
  if (answer.gpus.empty() || event.what.empty()) {
    draft.Reply(event.request,
                Fail(ErrorCode::kNotFound,
                     fmt::format("no quarantined GPU and no node with one is called {}",
                                 event.what.empty() ? "\"\"" : event.what),
                     "`launch quarantine list` shows them"));
    return;
  }
  for (const GpuRecord& record : answer.gpus) {
    if (Answers(state, record.node)) continue;
    draft.Reply(event.request,
                Fail(ErrorCode::kFailedPrecondition,
                     fmt::format("{} does not answer, and its agent holds GPU {} too",
                                 record.node.value, record.uuid.value),
                     "bring its agent back first"));
    return;
  }
  for (const GpuRecord& record : answer.gpus) {
    const bool release = event.action == QuarantineAction::kRelease;
    if (record.uuid.value == kNoGpu) {
      if (release) EndStranger(draft, record, event.caller.user);
      continue;
    }
    // A process of a job that is not here goes with the reason for holding its GPU.
    if (release && record.key.job.value > 0 && IsUnknownHere(state, record.key)) {
      EndStranger(draft, record, event.caller.user);
    }
    draft.Event(release ? "gpu.released" : "gpu.retested", Subject(record.node),
                fmt::format("{} by {}; it was held for: {}", record.uuid.value,
                            event.caller.user.value, record.why));
    draft.Send(record.node, to_node::Retest{record.uuid, release});
    if (release) draft.EraseQuarantine(record.uuid);
  }
  draft.TouchQueue();
  draft.Reply(event.request, ReplyBody(std::move(answer)));
}

}  // namespace launch::controller
