// The only way between value.proto and the structs of common/: what FromProto returns cannot be
// invalid, so nothing behind the edge checks a message again.
#pragma once

#include <string>
#include <string_view>

#include "common/diagnosis.h"
#include "common/error.h"
#include "common/inventory.h"
#include "common/job.h"
#include "common/launch.h"
#include "common/plan.h"
#include "common/stacks.h"
#include "common/view.h"
#include "proto/value.pb.h"

namespace launch {

namespace pb = ::launch::v1;

// ToProto never fails. Text for people that is not UTF-8 is repaired (U+FFFD), because one bad byte
// in a `string` would lose the whole message; paths, argv and values are `bytes` and stay as they
// are.
//
// FromProto refuses unspecified and unknown enums, names and identifiers out of their alphabet, NUL
// in what reaches execve, relative paths where the struct says absolute, counts and sizes beyond
// the documented limits, and fields that contradict each other. Errors are kInvalidArgument;
// `where.field` and the start of the message are the path of the field: "ranks[3].env[0].name: is
// empty".

pb::Key ToProto(const Key& v);
Result<Key> FromProto(const pb::Key& m);

// ---- inventory.h ----
pb::Arch ToProto(Arch v);
pb::DeviceClass ToProto(DeviceClass v);
pb::Health ToProto(Health v);
pb::LinkKind ToProto(LinkKind v);
pb::Containment ToProto(Containment v);
pb::CoherentMode ToProto(CoherentMode v);
pb::FabricState ToProto(FabricState v);
Result<Arch> FromProto(pb::Arch m);
Result<DeviceClass> FromProto(pb::DeviceClass m);
Result<Health> FromProto(pb::Health m);
Result<LinkKind> FromProto(pb::LinkKind m);
Result<Containment> FromProto(pb::Containment m);
Result<CoherentMode> FromProto(pb::CoherentMode m);
Result<FabricState> FromProto(pb::FabricState m);

pb::ComputeCapability ToProto(const ComputeCapability& v);
pb::CudaVersion ToProto(const CudaVersion& v);
pb::GpuLink ToProto(const GpuLink& v);
pb::MigSlice ToProto(const MigSlice& v);
pb::GpuProcess ToProto(const GpuProcess& v);
pb::PcieLink ToProto(const PcieLink& v);
pb::ClockLimits ToProto(const ClockLimits& v);
pb::RemappedRows ToProto(const RemappedRows& v);
pb::RdmaPort ToProto(const RdmaPort& v);
pb::GpuDevice ToProto(const GpuDevice& v);
pb::NetworkAddress ToProto(const NetworkAddress& v);
pb::TorchFacts ToProto(const TorchFacts& v);
pb::RuntimeFacts ToProto(const RuntimeFacts& v);
pb::Toolkit ToProto(const Toolkit& v);
pb::NumaNode ToProto(const NumaNode& v);
pb::Limits ToProto(const Limits& v);
pb::MachineIdentity ToProto(const MachineIdentity& v);
pb::NodeInventory ToProto(const NodeInventory& v);
pb::NodeHealth ToProto(const NodeHealth& v);
pb::GpuSample ToProto(const GpuSample& v);
pb::HostSample ToProto(const HostSample& v);
pb::RankSample ToProto(const RankSample& v);
Result<ComputeCapability> FromProto(const pb::ComputeCapability& m);
Result<CudaVersion> FromProto(const pb::CudaVersion& m);
Result<GpuLink> FromProto(const pb::GpuLink& m);
Result<MigSlice> FromProto(const pb::MigSlice& m);
Result<GpuProcess> FromProto(const pb::GpuProcess& m);
Result<PcieLink> FromProto(const pb::PcieLink& m);
Result<ClockLimits> FromProto(const pb::ClockLimits& m);
Result<RemappedRows> FromProto(const pb::RemappedRows& m);
Result<RdmaPort> FromProto(const pb::RdmaPort& m);
Result<GpuDevice> FromProto(const pb::GpuDevice& m);
Result<NetworkAddress> FromProto(const pb::NetworkAddress& m);
Result<TorchFacts> FromProto(const pb::TorchFacts& m);
Result<RuntimeFacts> FromProto(const pb::RuntimeFacts& m);
Result<Toolkit> FromProto(const pb::Toolkit& m);
Result<NumaNode> FromProto(const pb::NumaNode& m);
Result<Limits> FromProto(const pb::Limits& m);
Result<MachineIdentity> FromProto(const pb::MachineIdentity& m);
Result<NodeInventory> FromProto(const pb::NodeInventory& m);
Result<NodeHealth> FromProto(const pb::NodeHealth& m);
Result<GpuSample> FromProto(const pb::GpuSample& m);
Result<HostSample> FromProto(const pb::HostSample& m);
Result<RankSample> FromProto(const pb::RankSample& m);

// A GPU with a sentence about it: held, quarantined.
pb::HeldGpu ToProto(const std::pair<GpuUuid, std::string>& v);
Result<std::pair<GpuUuid, std::string>> FromProto(const pb::HeldGpu& m);

// ---- job.h ----
pb::LauncherKind ToProto(LauncherKind v);
pb::Strategy ToProto(Strategy v);
pb::Offload ToProto(Offload v);
pb::Precision ToProto(Precision v);
pb::DeviceChoice ToProto(DeviceChoice v);
pb::Trainer ToProto(Trainer v);
pb::GpuBinding ToProto(GpuBinding v);
pb::PreflightLevel ToProto(PreflightLevel v);
pb::NetworkCheck ToProto(NetworkCheck v);
pb::OnOom ToProto(OnOom v);
pb::HangAction ToProto(HangAction v);
Result<LauncherKind> FromProto(pb::LauncherKind m);
Result<Strategy> FromProto(pb::Strategy m);
Result<Offload> FromProto(pb::Offload m);
Result<Precision> FromProto(pb::Precision m);
Result<DeviceChoice> FromProto(pb::DeviceChoice m);
Result<Trainer> FromProto(pb::Trainer m);
Result<GpuBinding> FromProto(pb::GpuBinding m);
Result<PreflightLevel> FromProto(pb::PreflightLevel m);
Result<NetworkCheck> FromProto(pb::NetworkCheck m);
Result<OnOom> FromProto(pb::OnOom m);
Result<HangAction> FromProto(pb::HangAction m);

pb::NodeCount ToProto(const NodeCount& v);
pb::GpuRequest ToProto(const GpuRequest& v);
pb::Amount ToProto(const Amount& v);
pb::EnvEntry ToProto(const EnvEntry& v);
pb::BatchSpec ToProto(const BatchSpec& v);
pb::ModelSpec ToProto(const ModelSpec& v);
pb::DatasetSpec ToProto(const DatasetSpec& v);
pb::CheckpointSpec ToProto(const CheckpointSpec& v);
pb::RetrySpec ToProto(const RetrySpec& v);
pb::HangSpec ToProto(const HangSpec& v);
pb::Mount ToProto(const Mount& v);
pb::LogsSpec ToProto(const LogsSpec& v);
pb::DependencyKind ToProto(DependencyKind v);
pb::ArraySpec ToProto(const ArraySpec& v);
pb::ArrayElement ToProto(const ArrayElement& v);
pb::Dependency ToProto(const Dependency& v);
pb::JobSpec ToProto(const JobSpec& v);
pb::SubmitContext ToProto(const SubmitContext& v);
Result<NodeCount> FromProto(const pb::NodeCount& m);
Result<GpuRequest> FromProto(const pb::GpuRequest& m);
Result<Amount> FromProto(const pb::Amount& m);
Result<EnvEntry> FromProto(const pb::EnvEntry& m);
Result<BatchSpec> FromProto(const pb::BatchSpec& m);
Result<ModelSpec> FromProto(const pb::ModelSpec& m);
Result<DatasetSpec> FromProto(const pb::DatasetSpec& m);
Result<CheckpointSpec> FromProto(const pb::CheckpointSpec& m);
Result<RetrySpec> FromProto(const pb::RetrySpec& m);
Result<HangSpec> FromProto(const pb::HangSpec& m);
Result<Mount> FromProto(const pb::Mount& m);
Result<LogsSpec> FromProto(const pb::LogsSpec& m);
Result<DependencyKind> FromProto(pb::DependencyKind m);
Result<ArraySpec> FromProto(const pb::ArraySpec& m);
Result<ArrayElement> FromProto(const pb::ArrayElement& m);
Result<Dependency> FromProto(const pb::Dependency& m);
Result<JobSpec> FromProto(const pb::JobSpec& m);
Result<SubmitContext> FromProto(const pb::SubmitContext& m);

// ---- launch.h ----
pb::StartKind ToProto(StartKind v);
pb::StopCause ToProto(StopCause v);
pb::AllocationPhase ToProto(AllocationPhase v);
Result<StartKind> FromProto(pb::StartKind m);
Result<StopCause> FromProto(pb::StopCause m);
Result<AllocationPhase> FromProto(pb::AllocationPhase m);

// ---- stacks.h ----
pb::StackFrame ToProto(const StackFrame& v);
pb::ProcessStack ToProto(const ProcessStack& v);
pb::RankStacks ToProto(const RankStacks& v);
Result<StackFrame> FromProto(const pb::StackFrame& m);
Result<ProcessStack> FromProto(const pb::ProcessStack& m);
Result<RankStacks> FromProto(const pb::RankStacks& m);

pb::EnvVar ToProto(const EnvVar& v);
pb::GeneratedFile ToProto(const GeneratedFile& v);
pb::RankSpec ToProto(const RankSpec& v);
pb::StopPolicy ToProto(const StopPolicy& v);
pb::ContainerSpec ToProto(const ContainerSpec& v);
pb::AllocationSpec ToProto(const AllocationSpec& v);
pb::OurSignal ToProto(const OurSignal& v);
pb::ExitReport ToProto(const ExitReport& v);
pb::PortBlock ToProto(const PortBlock& v);
pb::RankStatus ToProto(const RankStatus& v);
pb::AllocationStatus ToProto(const AllocationStatus& v);
pb::CheckpointFound ToProto(const CheckpointFound& v);
pb::Reachability ToProto(const Reachability& v);
pb::PathFact ToProto(const PathFact& v);
pb::DiskFact ToProto(const DiskFact& v);
pb::PeerFact ToProto(const PeerFact& v);
pb::NcclFacts ToProto(const NcclFacts& v);
pb::NetworkFacts ToProto(const NetworkFacts& v);
pb::StagingFacts ToProto(const StagingFacts& v);
Result<EnvVar> FromProto(const pb::EnvVar& m);
Result<GeneratedFile> FromProto(const pb::GeneratedFile& m);
Result<RankSpec> FromProto(const pb::RankSpec& m);
Result<StopPolicy> FromProto(const pb::StopPolicy& m);
Result<ContainerSpec> FromProto(const pb::ContainerSpec& m);
Result<AllocationSpec> FromProto(const pb::AllocationSpec& m);
Result<OurSignal> FromProto(const pb::OurSignal& m);
Result<ExitReport> FromProto(const pb::ExitReport& m);
Result<PortBlock> FromProto(const pb::PortBlock& m);
Result<RankStatus> FromProto(const pb::RankStatus& m);
Result<AllocationStatus> FromProto(const pb::AllocationStatus& m);
Result<CheckpointFound> FromProto(const pb::CheckpointFound& m);
Result<Reachability> FromProto(const pb::Reachability& m);
Result<PathFact> FromProto(const pb::PathFact& m);
Result<DiskFact> FromProto(const pb::DiskFact& m);
Result<PeerFact> FromProto(const pb::PeerFact& m);
Result<NcclFacts> FromProto(const pb::NcclFacts& m);
Result<NetworkFacts> FromProto(const pb::NetworkFacts& m);
Result<StagingFacts> FromProto(const pb::StagingFacts& m);

// ---- diagnosis.h ----
pb::Severity ToProto(Severity v);
pb::CheckResult ToProto(CheckResult v);
pb::Confidence ToProto(Confidence v);
Result<Severity> FromProto(pb::Severity m);
Result<CheckResult> FromProto(pb::CheckResult m);
Result<Confidence> FromProto(pb::Confidence m);

pb::Finding ToProto(const Finding& v);
pb::Check ToProto(const Check& v);
pb::Verdict ToProto(const Verdict& v);
Result<Finding> FromProto(const pb::Finding& m);
Result<Check> FromProto(const pb::Check& m);
Result<Verdict> FromProto(const pb::Verdict& m);

// ---- plan.h ----
pb::Basis ToProto(Basis v);
Result<Basis> FromProto(pb::Basis m);

pb::PlannedTerm ToProto(const PlannedTerm& v);
pb::MemoryForecast ToProto(const MemoryForecast& v);
pb::BatchSplit ToProto(const BatchSplit& v);
pb::LoaderPlan ToProto(const LoaderPlan& v);
pb::Processes ToProto(const Processes& v);
pb::RankAssignment ToProto(const RankAssignment& v);
pb::Candidate ToProto(const Candidate& v);
pb::DurationForecast ToProto(const DurationForecast& v);
pb::ProbePoint ToProto(const ProbePoint& v);
pb::MeasuredRun ToProto(const MeasuredRun& v);
pb::Fallback ToProto(const Fallback& v);
pb::Change ToProto(const Change& v);
pb::Plan ToProto(const Plan& v);
Result<PlannedTerm> FromProto(const pb::PlannedTerm& m);
Result<MemoryForecast> FromProto(const pb::MemoryForecast& m);
Result<BatchSplit> FromProto(const pb::BatchSplit& m);
Result<LoaderPlan> FromProto(const pb::LoaderPlan& m);
Result<Processes> FromProto(const pb::Processes& m);
Result<RankAssignment> FromProto(const pb::RankAssignment& m);
Result<Candidate> FromProto(const pb::Candidate& m);
Result<DurationForecast> FromProto(const pb::DurationForecast& m);
Result<ProbePoint> FromProto(const pb::ProbePoint& m);
Result<MeasuredRun> FromProto(const pb::MeasuredRun& m);
Result<Fallback> FromProto(const pb::Fallback& m);
Result<Change> FromProto(const pb::Change& m);
Result<Plan> FromProto(const pb::Plan& m);

// ---- view.h ----
pb::JobState ToProto(JobState v);
Result<JobState> FromProto(pb::JobState m);

pb::WaitReason ToProto(const WaitReason& v);
pb::RankMemory ToProto(const RankMemory& v);
pb::RankView ToProto(const RankView& v);
Result<RankMemory> FromProto(const pb::RankMemory& m);
pb::AttemptView ToProto(const AttemptView& v);
pb::JobView ToProto(const JobView& v);
pb::NodeView ToProto(const NodeView& v);
pb::EventView ToProto(const EventView& v);
pb::PlanAnswer ToProto(const PlanAnswer& v);
Result<WaitReason> FromProto(const pb::WaitReason& m);
Result<RankView> FromProto(const pb::RankView& m);
Result<AttemptView> FromProto(const pb::AttemptView& m);
Result<JobView> FromProto(const pb::JobView& m);
Result<NodeView> FromProto(const pb::NodeView& m);
Result<EventView> FromProto(const pb::EventView& m);
Result<PlanAnswer> FromProto(const pb::PlanAnswer& m);

}  // namespace launch
