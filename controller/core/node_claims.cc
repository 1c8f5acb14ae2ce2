// What a node claims beyond its own: attempts, kinds of events, GPUs of others. Nodes are trusted
// with their own machine only, so each claim is held against what we know.
#include <fmt/format.h>

#include <algorithm>

#include "controller/core/draft.h"

namespace launch::controller {
namespace {

constexpr Millis kMinute{60'000};

bool HasPartOfAny(const State& state, const NodeId& node, JobId job) {
  for (auto entry = state.allocs.lower_bound(Key{job, Attempt{0}});
       entry != state.allocs.end() && entry->first.job == job; ++entry) {
    if (entry->second.contains(node)) return true;
  }
  return false;
}

}  // namespace

void NoteFloor(Draft& draft, const NodeId& node, const Key& floor) {
  const State& state = draft.state();
  const auto job = state.jobs.find(floor.job);
  if (job == state.jobs.end() || job->second.phase == JobPhase::kDone) return;
  if (job->second.phase != JobPhase::kQueued && !HasPartOfAny(state, node, floor.job)) return;
  RaiseFloor(draft, node, floor);
}

void RaiseFloor(Draft& draft, const NodeId& node, const Key& floor) {
  JobRecord job = draft.state().jobs.at(floor.job);
  if (floor.attempt.value <= std::max(job.attempts, job.floor)) return;
  if (floor.attempt.value - job.attempts > kMaxFloorJump) {
    draft.Event("node.floor_ignored", Subject(node),
                fmt::format("says that it has seen attempt {}; we know of {}", ToString(floor),
                            job.attempts));
    return;
  }
  job.floor = floor.attempt.value;
  draft.Put(std::move(job));
}

void NoteNotice(Draft& draft, const NodeId& node, const from_node::Notice& said) {
  LiveNode& live = draft.live().nodes.at(node);
  if (draft.now() - live.notices_since >= kMinute) {
    live.notices_since = draft.now();
    live.notices = 0;
  }
  if (++live.notices > kMaxNoticesPerMinute) {
    if (live.notices == kMaxNoticesPerMinute + 1) {
      draft.Event("node.notices_dropped", Subject(node),
                  fmt::format("more than {} notices within a minute", kMaxNoticesPerMinute));
    }
    return;
  }
  std::string text = said.text;
  std::string kind = said.kind;
  if (std::ranges::find(from_node::kNoticeKinds, said.kind) == from_node::kNoticeKinds.end()) {
    text = said.kind + ": " + text;
    kind = "node.notice";
  }
  text = node.value + ": " + text;
  if (said.rank) text = fmt::format("rank {} on {}", *said.rank, text);
  const bool its_own = said.key && FindAlloc(draft.state(), *said.key, node) != nullptr;
  if (said.key && !its_own) text += fmt::format(" (attempt {})", ToString(*said.key));
  draft.Event(std::move(kind), its_own ? Subject(*said.key) : Subject(node), std::move(text));
}

void OnUser(Draft& draft, const event::Denied& event) {
  Live& live = draft.live();
  if (draft.now() - live.denials_since >= kMinute) {
    live.denials_since = draft.now();
    live.denials = 0;
  }
  if (++live.denials > kMaxDenialsPerMinute) return;
  const bool known = event.job && draft.state().jobs.contains(*event.job);
  std::string text = event.who + " " + event.what;
  if (event.job && !known) text += fmt::format(" (job {}, which is not there)", event.job->value);
  if (live.denials == kMaxDenialsPerMinute) text += "; more of this minute are not written down";
  draft.Event("access.denied", known ? Subject(*event.job) : event.who, std::move(text));
}

void NoteForeignGpus(Draft& draft, const NodeId& node, const std::vector<GpuUuid>& gpus) {
  if (gpus.empty()) return;
  draft.Event("gpu.claim_ignored", Subject(node),
              fmt::format("spoke of {} GPUs that are not its own, {} first", gpus.size(),
                          gpus.front().value));
}

}  // namespace launch::controller
