#include "controller/core/refusals.h"

namespace launch::controller {

const AttemptRecord* PrefersPlaceOf(const State& state, const JobRecord& job) {
  const JobSpec& spec = state.specs.at(job.id).spec;
  const bool moldable = spec.nodes.min != spec.nodes.max;  // more nodes are better
  const auto last = state.attempts.find(Key{job.id, Attempt{job.attempts}});
  if (last == state.attempts.end() || spec.checkpoint.dir.empty() || moldable) return nullptr;
  return &last->second;
}

Refusals::Asked Refusals::AskedBy(const JobRecord& job) const {
  const AttemptRecord* first = PrefersPlaceOf(state_, job);
  return {job.owner, job.request_digest, job.excluded_nodes,
          first == nullptr ? std::vector<NodeId>{} : first->nodes};
}

const WaitReason* Refusals::Find(const JobRecord& job) const {
  if (refused_.empty()) return nullptr;
  const auto found = refused_.find(AskedBy(job));
  if (found == refused_.end()) return nullptr;
  const bool same = AsksForTheSame(*found->second.spec, state_.specs.at(job.id).spec);
  return same ? &found->second.reason : nullptr;
}

void Refusals::Note(const JobRecord& job, const WaitReason& reason) {
  if (job.request_digest.empty()) return;  // the files of its context are not known to be the same
  refused_.insert_or_assign(AskedBy(job), Refused{&state_.specs.at(job.id).spec, reason});
}

}  // namespace launch::controller
