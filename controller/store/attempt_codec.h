// Stored form of an attempt, its allocations and ranks, and of what changed in its job's plan.
#pragma once

#include "controller/core/record.h"
#include "proto/edge.h"
#include "proto/record.pb.h"

namespace launch::controller {

// Phases are enums of the records: Edge::Value knows only those of the values.
template <class T>
T PhaseOf(edge::Edge& e, const Result<T>& value) {
  e.Require(value.has_value(), "phase", "is unknown");
  return value ? *value : T{};
}

pb::PlanChange ToRecord(const PlanChange& v);
pb::AttemptRecord ToRecord(const AttemptRecord& v);
pb::AllocRecord ToRecord(const AllocRecord& v);
pb::RankRecord ToRecord(const RankRecord& v);

PlanChange FromRecord(edge::Edge& e, const pb::PlanChange& m);
AttemptRecord FromRecord(edge::Edge& e, const pb::AttemptRecord& m);
AllocRecord FromRecord(edge::Edge& e, const pb::AllocRecord& m);
RankRecord FromRecord(edge::Edge& e, const pb::RankRecord& m);

}  // namespace launch::controller
