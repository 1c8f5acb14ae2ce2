// Requests and replies of launch.proto as values: built by the CLI, validated by the services.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/error.h"
#include "common/ids.h"
#include "common/job.h"
#include "common/job_change.h"
#include "common/launch.h"
#include "common/view.h"

namespace launch::v1 {
class CancelReply;
class CancelRequest;
class ChangeReply;
class ChangeRequest;
class CreateTokenRequest;
class DrainRequest;
class FenceNodeRequest;
class ForgetNodeRequest;
class NoteProbeRequest;
class JobReply;
class JobsReply;
class JobsRequest;
class JoinRequest;
class LogsReply;
class LogsRequest;
class NodesReply;
class PlanReply;
class PlanRequest;
class QuarantineReply;
class QuarantineRequest;
class RevokeTokenRequest;
class SubmitReply;
class SubmitRequest;
class WatchReply;
class WatchRequest;
}  // namespace launch::v1

namespace launch {

namespace pb = ::launch::v1;

struct SubmitCall {
  std::string idempotency_key;  // 32 lower-case hex digits
  JobSpec spec;
  std::string source;
  SubmitContext context;
  std::vector<std::pair<std::string, std::string>> secrets;  // ordered by name
  bool force = false;
  bool hold = false;
  friend bool operator==(const SubmitCall&, const SubmitCall&) = default;
};
// HMAC (hex, with the key of the controller, because secrets are in it) of everything that was
// asked for: not of the idempotency key, nor of the state that workdir and its host were in. Equal
// idempotency key and other digest is kAlreadyExists.
std::string DigestOf(const SubmitCall& call, std::string_view key);

struct SubmitAnswer {
  JobId job;
  bool known = false;
  JobState state = JobState::kPending;
  PlanAnswer answer;
  JobId first = {};            // of an array: its first element, the others follow
  std::uint32_t elements = 0;  // of an array
  friend bool operator==(const SubmitAnswer&, const SubmitAnswer&) = default;
};
struct PlanCall {
  JobSpec spec;
  SubmitContext context;
  PlanQuestions questions = {};
  friend bool operator==(const PlanCall&, const PlanCall&) = default;
};
struct JobsCall {
  bool all_users = false;
  bool include_done = false;
  std::optional<JobId> array = std::nullopt;  // its elements only
  friend bool operator==(const JobsCall&, const JobsCall&) = default;
};
// What a probe or debug run measured, to be kept with it, or a test of the network, kept with the
// nodes of the job by place.
struct NoteProbeCall {
  JobId job;
  std::optional<ProbePoint> point;
  std::vector<NetworkFacts> network = {};
  friend bool operator==(const NoteProbeCall&, const NoteProbeCall&) = default;
};
struct CancelCall {
  std::vector<JobId> jobs;
  friend bool operator==(const CancelCall&, const CancelCall&) = default;
};
struct CancelAnswer {  // of one job
  JobId job;
  bool already_done = false;
  std::string error;  // empty = none
  std::vector<std::string> held;
  friend bool operator==(const CancelAnswer&, const CancelAnswer&) = default;
};
struct ChangeCall {
  std::vector<JobId> jobs;
  JobChange change;
  friend bool operator==(const ChangeCall&, const ChangeCall&) = default;
};
struct ChangeAnswer {  // of one job
  JobId job;
  std::string error;  // empty = none
  std::string says;   // what follows
  friend bool operator==(const ChangeAnswer&, const ChangeAnswer&) = default;
};
struct WatchCall {
  std::uint64_t after_seq = 0;
  std::vector<JobId> jobs;
  bool follow = false;
  friend bool operator==(const WatchCall&, const WatchCall&) = default;
};
struct LogPosition {  // in one stream of one rank
  Attempt attempt;
  Rank rank = 0;
  std::string stream;
  std::uint64_t offset = 0;  // of the next byte
  friend bool operator==(const LogPosition&, const LogPosition&) = default;
};
struct LogsCall {
  JobId job;
  std::optional<Attempt> attempt;
  std::vector<Rank> ranks;
  std::vector<NodeId> nodes;
  std::optional<std::uint32_t> last_lines;
  bool follow = false;
  std::vector<LogPosition> seen = {};  // a reader goes on behind what it has
  friend bool operator==(const LogsCall&, const LogsCall&) = default;
};
struct LogChunk {
  Attempt attempt;
  Rank rank = 0;
  NodeId node;
  std::string stream;  // out | err
  std::uint64_t offset = 0;
  std::string data;
  WallTime wall{};
  friend bool operator==(const LogChunk&, const LogChunk&) = default;
};
struct LogGap {
  Attempt attempt;
  Rank rank = 0;
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  std::string why;
  friend bool operator==(const LogGap&, const LogGap&) = default;
};
struct LogEnd {
  Attempt attempt;
  Rank rank = 0;
  std::uint64_t offset = 0;
  bool complete = false;
  std::string error;
  friend bool operator==(const LogEnd&, const LogEnd&) = default;
};
using LogPiece = std::variant<LogChunk, LogGap, LogEnd>;

struct JoinCall {
  std::string csr_pem;
  bool rejoin = false;
  friend bool operator==(const JoinCall&, const JoinCall&) = default;
};
struct TokenCall {
  std::string role;  // node | user
  std::string name;
  Millis life{0};                      // 0 = 15 min; at most 24 h
  std::vector<std::string> addresses;  // host:port
  friend bool operator==(const TokenCall&, const TokenCall&) = default;
};
struct RevokeCall {  // one of them
  std::string serial;
  NodeId node;
  UserName user;
  friend bool operator==(const RevokeCall&, const RevokeCall&) = default;
};
struct DrainCall {
  NodeId node;
  bool undrain = false;
  std::string reason;
  friend bool operator==(const DrainCall&, const DrainCall&) = default;
};

struct ForgetNodeCall {
  NodeId node;
  friend bool operator==(const ForgetNodeCall&, const ForgetNodeCall&) = default;
};

struct FenceNodeCall {
  NodeId node;
  friend bool operator==(const FenceNodeCall&, const FenceNodeCall&) = default;
};
struct QuarantineCall {
  std::string action;  // list | release | retest
  std::string what;    // a GPU's UUID or a node; empty = all, to list
  friend bool operator==(const QuarantineCall&, const QuarantineCall&) = default;
};
struct QuarantinedGpu {
  GpuUuid gpu;
  NodeId node;
  std::string why;
  std::optional<Key> key;  // whose attempt left it so
  WallTime since{};
  friend bool operator==(const QuarantinedGpu&, const QuarantinedGpu&) = default;
};

pb::SubmitRequest ToProto(const SubmitCall& v);
pb::SubmitReply ToProto(const SubmitAnswer& v);
pb::PlanRequest ToProto(const PlanCall& v);
pb::JobsRequest ToProto(const JobsCall& v);
pb::CancelRequest ToProto(const CancelCall& v);
pb::NoteProbeRequest ToProto(const NoteProbeCall& v);
pb::ChangeRequest ToProto(const ChangeCall& v);
pb::WatchRequest ToProto(const WatchCall& v);
pb::LogsRequest ToProto(const LogsCall& v);
pb::LogsReply ToProto(const LogPiece& v);
pb::JoinRequest ToProto(const JoinCall& v);
pb::CreateTokenRequest ToProto(const TokenCall& v);
pb::RevokeTokenRequest ToProto(const RevokeCall& v);
pb::DrainRequest ToProto(const DrainCall& v);
pb::ForgetNodeRequest ToProto(const ForgetNodeCall& v);
pb::FenceNodeRequest ToProto(const FenceNodeCall& v);
pb::QuarantineRequest ToProto(const QuarantineCall& v);

Result<SubmitCall> FromProto(const pb::SubmitRequest& m);
Result<SubmitAnswer> FromProto(const pb::SubmitReply& m);
Result<PlanCall> FromProto(const pb::PlanRequest& m);
Result<JobsCall> FromProto(const pb::JobsRequest& m);
Result<CancelCall> FromProto(const pb::CancelRequest& m);
Result<NoteProbeCall> FromProto(const pb::NoteProbeRequest& m);
Result<ChangeCall> FromProto(const pb::ChangeRequest& m);
Result<WatchCall> FromProto(const pb::WatchRequest& m);
Result<LogsCall> FromProto(const pb::LogsRequest& m);
Result<LogPiece> FromProto(const pb::LogsReply& m);
Result<JoinCall> FromProto(const pb::JoinRequest& m);
Result<TokenCall> FromProto(const pb::CreateTokenRequest& m);
Result<RevokeCall> FromProto(const pb::RevokeTokenRequest& m);
Result<DrainCall> FromProto(const pb::DrainRequest& m);
Result<ForgetNodeCall> FromProto(const pb::ForgetNodeRequest& m);
Result<FenceNodeCall> FromProto(const pb::FenceNodeRequest& m);
Result<QuarantineCall> FromProto(const pb::QuarantineRequest& m);
Result<std::vector<QuarantinedGpu>> FromProto(const pb::QuarantineReply& m);

// Replies whose value is one field.
pb::PlanReply ToPlanReply(const PlanAnswer& v);
pb::JobsReply ToJobsReply(const std::vector<JobView>& v);
pb::JobReply ToJobReply(const JobView& v);
pb::NodesReply ToNodesReply(const std::vector<NodeView>& v);
pb::CancelReply ToCancelReply(const std::vector<CancelAnswer>& v);
pb::ChangeReply ToChangeReply(const std::vector<ChangeAnswer>& v);
pb::WatchReply ToWatchReply(const EventView& v);
pb::QuarantineReply ToQuarantineReply(const std::vector<QuarantinedGpu>& v);
Result<PlanAnswer> FromProto(const pb::PlanReply& m);
Result<std::vector<JobView>> FromProto(const pb::JobsReply& m);
Result<JobView> FromProto(const pb::JobReply& m);
Result<std::vector<NodeView>> FromProto(const pb::NodesReply& m);
Result<std::vector<CancelAnswer>> FromProto(const pb::CancelReply& m);
Result<std::vector<ChangeAnswer>> FromProto(const pb::ChangeReply& m);
Result<EventView> FromProto(const pb::WatchReply& m);

}  // namespace launch
