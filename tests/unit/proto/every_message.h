// Every message that has a conversion, with one spelling of both directions.
#pragma once

#include <gtest/gtest.h>

#include "proto/convert_node.h"
#include "proto/convert_user.h"
#include "proto/convert_value.h"
#include "proto/launch.pb.h"
#include "proto/node.pb.h"

namespace launch::testing {

template <class M>
struct Conversion {
  static auto Read(const M& m) { return FromProto(m); }
  template <class T>
  static M Write(const T& value) {
    return ToProto(value);
  }
};
// Replies of one field are written by functions with names.
template <>
struct Conversion<pb::PlanReply> {
  static auto Read(const pb::PlanReply& m) { return FromProto(m); }
  static pb::PlanReply Write(const PlanAnswer& v) { return ToPlanReply(v); }
};
template <>
struct Conversion<pb::JobsReply> {
  static auto Read(const pb::JobsReply& m) { return FromProto(m); }
  static pb::JobsReply Write(const std::vector<JobView>& v) { return ToJobsReply(v); }
};
template <>
struct Conversion<pb::JobReply> {
  static auto Read(const pb::JobReply& m) { return FromProto(m); }
  static pb::JobReply Write(const JobView& v) { return ToJobReply(v); }
};
template <>
struct Conversion<pb::NodesReply> {
  static auto Read(const pb::NodesReply& m) { return FromProto(m); }
  static pb::NodesReply Write(const std::vector<NodeView>& v) { return ToNodesReply(v); }
};
template <>
struct Conversion<pb::CancelReply> {
  static auto Read(const pb::CancelReply& m) { return FromProto(m); }
  static pb::CancelReply Write(const std::vector<CancelAnswer>& v) { return ToCancelReply(v); }
};
template <>
struct Conversion<pb::WatchReply> {
  static auto Read(const pb::WatchReply& m) { return FromProto(m); }
  static pb::WatchReply Write(const EventView& v) { return ToWatchReply(v); }
};

using Values = ::testing::Types<
    pb::Key, pb::ComputeCapability, pb::CudaVersion, pb::GpuLink, pb::MigSlice, pb::GpuProcess,
    pb::GpuDevice, pb::NetworkAddress, pb::TorchFacts, pb::RuntimeFacts, pb::Toolkit, pb::NumaNode,
    pb::Limits, pb::MachineIdentity, pb::NodeInventory, pb::NodeHealth, pb::GpuSample,
    pb::HostSample, pb::RankSample, pb::StackFrame, pb::ProcessStack, pb::RankStacks, pb::HeldGpu,
    pb::NodeCount, pb::GpuRequest, pb::Amount, pb::EnvEntry, pb::BatchSpec, pb::ModelSpec,
    pb::DatasetSpec, pb::CheckpointSpec, pb::RetrySpec, pb::HangSpec, pb::LogsSpec, pb::JobSpec,
    pb::SubmitContext, pb::EnvVar, pb::GeneratedFile, pb::RankSpec, pb::StopPolicy,
    pb::AllocationSpec, pb::OurSignal, pb::ExitReport, pb::PortBlock, pb::RankStatus,
    pb::AllocationStatus, pb::CheckpointFound, pb::Reachability>;
using MoreValues = ::testing::Types<
    pb::PathFact, pb::DiskFact, pb::StagingFacts, pb::Finding, pb::Check, pb::Verdict,
    pb::PlannedTerm, pb::ProbePoint, pb::MeasuredRun, pb::Fallback, pb::Change, pb::MemoryForecast,
    pb::BatchSplit, pb::LoaderPlan, pb::Processes, pb::RankAssignment, pb::Candidate,
    pb::DurationForecast, pb::Plan, pb::WaitReason, pb::RankMemory, pb::RankView, pb::AttemptView,
    pb::JobView, pb::NodeView, pb::EventView, pb::PlanAnswer, pb::Fence, pb::SubmitRequest,
    pb::SubmitReply, pb::PlanRequest, pb::PlanReply, pb::JobsRequest, pb::JobsReply, pb::JobReply,
    pb::CancelRequest, pb::CancelReply, pb::NoteProbeRequest, pb::NodesReply, pb::WatchRequest,
    pb::WatchReply, pb::LogsRequest, pb::LogsReply, pb::JoinRequest, pb::CreateTokenRequest,
    pb::RevokeTokenRequest, pb::DrainRequest, pb::ForgetNodeRequest, pb::FenceNodeRequest>;

}  // namespace launch::testing
