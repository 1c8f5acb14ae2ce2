// What was refused in one pass over the queue, so that jobs which ask for the same are not judged
// one by one: an array of thousands that no node can run costs one look at the nodes.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "common/view.h"
#include "controller/core/state.h"

namespace launch::controller {

// The last attempt, where its nodes are tried first because it saved checkpoints; null = none.
const AttemptRecord* PrefersPlaceOf(const State& state, const JobRecord& job);

// Lives for one pass. In it nodes are taken and none is given back, so what no node could take
// although all were free is not placed later either, and for the same reason.
class Refusals {
 public:
  explicit Refusals(const State& state) : state_(state) {}

  // Why a job was refused that asks for the same, is its owner's, and must or would rather be on
  // the same nodes; null = there was none.
  const WaitReason* Find(const JobRecord& job) const;
  // `reason` says nothing of what is free.
  void Note(const JobRecord& job, const WaitReason& reason);
  // Other nodes than before may be taken from now on.
  void Clear() { refused_.clear(); }

 private:
  // Owner, digest of the request (the elements of an array have one), nodes that an attempt failed
  // on, nodes that are tried first.
  using Asked =
      std::tuple<UserName, std::string, std::map<std::string, std::string>, std::vector<NodeId>>;
  struct Refused {
    const JobSpec* spec;  // of the state: no spec goes while the queue is looked at
    WaitReason reason;
  };
  Asked AskedBy(const JobRecord& job) const;

  const State& state_;
  std::map<Asked, Refused> refused_;
};

}  // namespace launch::controller
