#include "proto/convert_user.h"

#include <type_traits>
#include <utility>

#include "common/pki.h"
#include "proto/convert_value.h"
#include "proto/edge.h"
#include "proto/launch.pb.h"

namespace launch {

using edge::Edge;
using edge::Utf8;

namespace {

constexpr std::size_t kMaxName = 128;
constexpr int kMaxJobsPerCall = 10'000;
constexpr std::size_t kMaxSecret = 64 << 10;
// What the store keeps of a job is one value of at most 1 MiB (controller/store/store.h).
constexpr std::size_t kMaxStored = 960 << 10;
// All elements of an array together: each keeps the whole.
constexpr std::size_t kMaxArrayStored = 64 << 20;
constexpr std::int64_t kMaxTokenMs = 24 * 3'600'000;

std::vector<JobId> ReadJobs(Edge& e, const google::protobuf::RepeatedField<std::uint64_t>& jobs) {
  return e.Each("jobs", jobs, kMaxJobsPerCall,
                [&](const std::string& at, std::uint64_t job) { return e.Job(at, job); });
}

LogChunk ReadChunk(Edge& e, const pb::LogsReply::Chunk& m) {
  LogChunk v;
  v.attempt = e.AttemptOf("chunk.attempt", m.attempt());
  v.rank = e.RankOf("chunk.rank", m.rank());
  v.node = e.Node("chunk.node", m.node());
  v.stream = e.Choice("chunk.stream", m.stream(), {"out", "err"});
  v.offset = m.offset();
  v.data = m.data();
  v.wall = e.Wall("chunk.wall_ms", m.wall_ms());
  return v;
}
LogGap ReadGap(Edge& e, const pb::LogsReply::Gap& m) {
  LogGap v;
  v.attempt = e.AttemptOf("gap.attempt", m.attempt());
  v.rank = e.RankOf("gap.rank", m.rank());
  v.from = m.from();
  v.to = m.to();
  e.Require(m.to() >= m.from(), "gap.to", "is before gap.from");
  v.why = e.Text("gap.why", m.why());
  return v;
}
LogEnd ReadEnd(Edge& e, const pb::LogsReply::End& m) {
  LogEnd v;
  v.attempt = e.AttemptOf("end.attempt", m.attempt());
  v.rank = e.RankOf("end.rank", m.rank());
  v.offset = m.offset();
  v.complete = m.complete();
  v.error = e.Text("end.error", m.error());
  return v;
}

}  // namespace

// ---- submit and plan ----

pb::SubmitRequest ToProto(const SubmitCall& v) {
  pb::SubmitRequest m;
  m.set_idempotency_key(Utf8(v.idempotency_key));
  *m.mutable_spec() = ToProto(v.spec);
  m.set_source(v.source);
  *m.mutable_context() = ToProto(v.context);
  for (const auto& [name, value] : v.secrets) (*m.mutable_secrets())[Utf8(name)] = value;
  m.set_force(v.force);
  m.set_hold(v.hold);
  return m;
}
Result<SubmitCall> FromProto(const pb::SubmitRequest& m) {
  Edge e;
  SubmitCall v;
  e.Require(m.spec().ByteSizeLong() + m.source().size() + m.context().ByteSizeLong() <= kMaxStored,
            "spec", "has more than 960 KiB together with source and context");
  // What a controller adds to a job's own spec (its place in an array, a change) must still fit.
  e.Require(m.spec().ByteSizeLong() <= edge::kMaxSpec - 1024, "spec", "has more than 255 KiB");
  e.Require(m.spec().name().size() <= kMaxName, "spec.name", "has more than 128 bytes");
  const auto elements = static_cast<std::size_t>(m.spec().array().indices_size());
  e.Require(elements * m.ByteSizeLong() <= kMaxArrayStored, "spec.array",
            "has more than 64 MiB over all its jobs");
  e.Require(!m.spec().has_element(), "spec.element", "is set by the controller only");
  v.idempotency_key = e.Hex("idempotency_key", m.idempotency_key(), 32);
  v.spec = e.Value("spec", m.spec());
  v.source = e.Text("source", m.source(), edge::kMaxScript);
  v.context = e.Value("context", m.context());
  e.Require(m.secrets_size() <= 256, "secrets", "has more than 256 entries");
  std::map<std::string, std::string> secrets;  // in order of names, whatever order they came in
  for (const auto& [name, value] : m.secrets()) {
    std::string key = e.EnvName("secrets", name);
    secrets.emplace(std::move(key),
                    e.Bytes("secrets." + name.substr(0, edge::kMaxWord), value, kMaxSecret));
  }
  // A secret that the job does not name would never be used, and one it names must come along.
  const std::set<std::string> named(v.spec.secrets.begin(), v.spec.secrets.end());
  for (const auto& [name, value] : secrets) {
    e.Require(named.contains(name), "secrets", "has a name that spec.secrets does not list");
  }
  e.Require(!e.ok() || named.size() == secrets.size(), "secrets", "lacks a value of spec.secrets");
  v.secrets.assign(secrets.begin(), secrets.end());
  v.force = m.force();
  v.hold = m.hold();
  return e.Done(std::move(v));
}

std::string DigestOf(const SubmitCall& call, std::string_view key) {
  pb::SubmitRequest m = ToProto(call);
  m.clear_idempotency_key();
  // What only describes the moment: a retry after somebody wrote into workdir is the same request,
  // and what runs is the copy that the first one named.
  pb::SubmitContext& seen = *m.mutable_context();
  seen.clear_host_boot_id();
  seen.clear_workdir_inode();
  seen.clear_workdir_mtime_ns();
  seen.clear_git_commit();
  seen.clear_git_diff();
  seen.clear_snapshot();
  seen.clear_snapshot_files();
  seen.clear_snapshot_bytes();
  return HmacSha256Hex(key, edge::SerializeDeterministic(m));
}

pb::SubmitReply ToProto(const SubmitAnswer& v) {
  pb::SubmitReply m;
  m.set_job(v.job.value);
  m.set_known(v.known);
  m.set_state(ToProto(v.state));
  *m.mutable_answer() = ToProto(v.answer);
  m.set_first(v.first.value);
  m.set_elements(v.elements);
  return m;
}
Result<SubmitAnswer> FromProto(const pb::SubmitReply& m) {
  Edge e;
  SubmitAnswer v;
  v.job = e.Job("job", m.job());
  v.known = m.known();
  v.state = e.Value("state", m.state());
  v.answer = e.Value("answer", m.answer());
  v.elements = static_cast<std::uint32_t>(e.Int("elements", m.elements(), 0, kMaxElements));
  if (v.elements > 0) v.first = e.Job("first", m.first());
  return e.Done(std::move(v));
}

pb::PlanRequest ToProto(const PlanCall& v) {
  pb::PlanRequest m;
  *m.mutable_spec() = ToProto(v.spec);
  *m.mutable_context() = ToProto(v.context);
  m.set_explain(v.questions.explain);
  for (const std::string& text : v.questions.what_if) m.add_what_if(Utf8(text));
  for (const MeasuredRun& run : v.questions.history) *m.add_history() = ToProto(run);
  return m;
}
Result<PlanCall> FromProto(const pb::PlanRequest& m) {
  Edge e;
  PlanCall v;
  v.spec = e.Value("spec", m.spec());
  v.context = e.Value("context", m.context());
  v.questions.explain = m.explain();
  v.questions.what_if = e.Texts("what_if", m.what_if(), 64);
  v.questions.history = e.Values("history", m.history(), 1'000);
  return e.Done(std::move(v));
}

pb::PlanReply ToPlanReply(const PlanAnswer& v) {
  pb::PlanReply m;
  *m.mutable_answer() = ToProto(v);
  return m;
}
Result<PlanAnswer> FromProto(const pb::PlanReply& m) {
  Edge e;
  PlanAnswer v = e.Value("answer", m.answer());
  return e.Done(std::move(v));
}

// ---- jobs ----

pb::JobsRequest ToProto(const JobsCall& v) {
  pb::JobsRequest m;
  m.set_all_users(v.all_users);
  m.set_include_done(v.include_done);
  if (v.array) m.set_array(v.array->value);
  return m;
}
Result<JobsCall> FromProto(const pb::JobsRequest& m) {
  Edge e;
  JobsCall v{.all_users = m.all_users(), .include_done = m.include_done()};
  if (m.has_array()) v.array = e.Job("array", m.array());
  return e.Done(std::move(v));
}

pb::JobsReply ToJobsReply(const std::vector<JobView>& v) {
  pb::JobsReply m;
  for (const JobView& job : v) *m.add_jobs() = ToProto(job);
  return m;
}
Result<std::vector<JobView>> FromProto(const pb::JobsReply& m) {
  Edge e;
  auto v = e.Values("jobs", m.jobs(), edge::kMaxRows);
  return e.Done(std::move(v));
}

pb::JobReply ToJobReply(const JobView& v) {
  pb::JobReply m;
  *m.mutable_job() = ToProto(v);
  return m;
}
Result<JobView> FromProto(const pb::JobReply& m) {
  Edge e;
  JobView v = e.Value("job", m.job());
  return e.Done(std::move(v));
}

pb::CancelRequest ToProto(const CancelCall& v) {
  pb::CancelRequest m;
  for (const JobId& job : v.jobs) m.add_jobs(job.value);
  return m;
}
Result<CancelCall> FromProto(const pb::CancelRequest& m) {
  Edge e;
  CancelCall v;
  e.Require(m.jobs_size() > 0, "jobs", "is empty");
  v.jobs = ReadJobs(e, m.jobs());
  e.RequireDistinct("jobs", v.jobs);
  return e.Done(std::move(v));
}

pb::CancelReply ToCancelReply(const std::vector<CancelAnswer>& v) {
  pb::CancelReply m;
  for (const CancelAnswer& answer : v) {
    pb::CancelReply::Result& result = *m.add_results();
    result.set_job(answer.job.value);
    result.set_already_done(answer.already_done);
    result.set_error(Utf8(answer.error));
    for (const std::string& held : answer.held) result.add_held(Utf8(held));
  }
  return m;
}
Result<std::vector<CancelAnswer>> FromProto(const pb::CancelReply& m) {
  Edge e;
  auto v = e.Each("results", m.results(), kMaxJobsPerCall,
                  [&](const std::string& at, const pb::CancelReply::Result& result) {
                    CancelAnswer answer;
                    answer.job = e.Job(at + ".job", result.job());
                    answer.already_done = result.already_done();
                    answer.error = e.Text(at + ".error", result.error());
                    answer.held = e.Texts(at + ".held", result.held(), edge::kMaxItems);
                    return answer;
                  });
  return e.Done(std::move(v));
}

pb::NodesReply ToNodesReply(const std::vector<NodeView>& v) {
  pb::NodesReply m;
  for (const NodeView& node : v) *m.add_nodes() = ToProto(node);
  return m;
}
Result<std::vector<NodeView>> FromProto(const pb::NodesReply& m) {
  Edge e;
  auto v = e.Values("nodes", m.nodes(), edge::kMaxNodes);
  return e.Done(std::move(v));
}

// ---- watch and logs ----

pb::WatchRequest ToProto(const WatchCall& v) {
  pb::WatchRequest m;
  m.set_after_seq(v.after_seq);
  for (const JobId& job : v.jobs) m.add_jobs(job.value);
  m.set_follow(v.follow);
  return m;
}
Result<WatchCall> FromProto(const pb::WatchRequest& m) {
  Edge e;
  WatchCall v;
  v.after_seq = m.after_seq();
  v.jobs = ReadJobs(e, m.jobs());
  v.follow = m.follow();
  return e.Done(std::move(v));
}

pb::WatchReply ToWatchReply(const EventView& v) {
  pb::WatchReply m;
  *m.mutable_event() = ToProto(v);
  return m;
}
Result<EventView> FromProto(const pb::WatchReply& m) {
  Edge e;
  EventView v = e.Value("event", m.event());
  return e.Done(std::move(v));
}

pb::LogsRequest ToProto(const LogsCall& v) {
  pb::LogsRequest m;
  m.set_job(v.job.value);
  if (v.attempt) m.set_attempt(v.attempt->value);
  for (Rank rank : v.ranks) m.add_ranks(rank);
  for (const NodeId& node : v.nodes) m.add_nodes(Utf8(node.value));
  if (v.last_lines) m.set_last_lines(*v.last_lines);
  m.set_follow(v.follow);
  for (const LogPosition& position : v.seen) {
    pb::LogsRequest::Position& seen = *m.add_seen();
    seen.set_attempt(position.attempt.value);
    seen.set_rank(position.rank);
    seen.set_stream(position.stream);
    seen.set_offset(position.offset);
  }
  return m;
}
Result<LogsCall> FromProto(const pb::LogsRequest& m) {
  Edge e;
  LogsCall v;
  v.job = e.Job("job", m.job());
  if (m.has_attempt()) v.attempt = e.AttemptOf("attempt", m.attempt());
  v.ranks = e.Ints("ranks", m.ranks(), edge::kMaxRanks, 0, edge::kMaxRanks - 1);
  e.RequireDistinct("ranks", v.ranks);
  v.nodes = e.Nodes("nodes", m.nodes());
  e.RequireDistinct("nodes", v.nodes);
  if (m.has_last_lines()) {
    v.last_lines = static_cast<std::uint32_t>(e.Int("last_lines", m.last_lines(), 0, 10'000'000));
  }
  v.follow = m.follow();
  v.seen = e.Each("seen", m.seen(), 2 * edge::kMaxRanks,  // each has "out" and "err"
                  [&](const std::string& at, const pb::LogsRequest::Position& position) {
                    LogPosition seen;
                    seen.attempt = e.AttemptOf(at + ".attempt", position.attempt());
                    seen.rank = e.RankOf(at + ".rank", position.rank());
                    seen.stream = e.Text(at + ".stream", position.stream(), 16);
                    seen.offset = position.offset();
                    return seen;
                  });
  return e.Done(std::move(v));
}

pb::LogsReply ToProto(const LogPiece& v) {
  pb::LogsReply m;
  std::visit(
      [&m](const auto& piece) {
        using T = std::decay_t<decltype(piece)>;
        if constexpr (std::is_same_v<T, LogChunk>) {
          pb::LogsReply::Chunk& chunk = *m.mutable_chunk();
          chunk.set_attempt(piece.attempt.value);
          chunk.set_rank(piece.rank);
          chunk.set_node(Utf8(piece.node.value));
          chunk.set_stream(Utf8(piece.stream));
          chunk.set_offset(piece.offset);
          chunk.set_data(piece.data);
          chunk.set_wall_ms(ToMs(piece.wall));
        } else if constexpr (std::is_same_v<T, LogGap>) {
          pb::LogsReply::Gap& gap = *m.mutable_gap();
          gap.set_attempt(piece.attempt.value);
          gap.set_rank(piece.rank);
          gap.set_from(piece.from);
          gap.set_to(piece.to);
          gap.set_why(Utf8(piece.why));
        } else {
          static_assert(std::is_same_v<T, LogEnd>);
          pb::LogsReply::End& end = *m.mutable_end();
          end.set_attempt(piece.attempt.value);
          end.set_rank(piece.rank);
          end.set_offset(piece.offset);
          end.set_complete(piece.complete);
          end.set_error(Utf8(piece.error));
        }
      },
      v);
  return m;
}
Result<LogPiece> FromProto(const pb::LogsReply& m) {
  Edge e;
  LogPiece v;
  switch (m.body_case()) {
    case pb::LogsReply::kChunk:
      v = ReadChunk(e, m.chunk());
      break;
    case pb::LogsReply::kGap:
      v = ReadGap(e, m.gap());
      break;
    case pb::LogsReply::kEnd:
      v = ReadEnd(e, m.end());
      break;
    case pb::LogsReply::BODY_NOT_SET:
      e.Require(false, "body", "is not set");
      break;
  }
  return e.Done(std::move(v));
}

// ---- enrolment and operators ----

pb::JoinRequest ToProto(const JoinCall& v) {
  pb::JoinRequest m;
  m.set_csr_pem(v.csr_pem);
  m.set_rejoin(v.rejoin);
  return m;
}
Result<JoinCall> FromProto(const pb::JoinRequest& m) {
  Edge e;
  JoinCall v;
  e.Require(!m.csr_pem().empty(), "csr_pem", "is empty");
  v.csr_pem = e.Bytes("csr_pem", m.csr_pem(), 16 << 10);
  v.rejoin = m.rejoin();
  return e.Done(std::move(v));
}

pb::CreateTokenRequest ToProto(const TokenCall& v) {
  pb::CreateTokenRequest m;
  m.set_role(Utf8(v.role));
  m.set_name(Utf8(v.name));
  m.set_life_ms(v.life.count());
  for (const std::string& address : v.addresses) m.add_addresses(Utf8(address));
  return m;
}
Result<TokenCall> FromProto(const pb::CreateTokenRequest& m) {
  Edge e;
  TokenCall v;
  v.role = e.Choice("role", m.role(), {"node", "user"});
  v.name = e.Name("name", m.name());
  v.life = e.Duration("life_ms", m.life_ms());
  e.Require(m.life_ms() <= kMaxTokenMs, "life_ms", "is longer than 24 hours");
  v.addresses = e.Words("addresses", m.addresses(), 64);
  return e.Done(std::move(v));
}

pb::RevokeTokenRequest ToProto(const RevokeCall& v) {
  pb::RevokeTokenRequest m;
  m.set_serial(Utf8(v.serial));
  m.set_node(Utf8(v.node.value));
  m.set_user(Utf8(v.user.value));
  return m;
}
Result<RevokeCall> FromProto(const pb::RevokeTokenRequest& m) {
  Edge e;
  RevokeCall v;
  if (!m.node().empty()) v.node = e.Node("node", m.node());
  if (!m.user().empty()) v.user = UserName{e.Word("user", m.user())};
  const bool of_member = !m.node().empty() || !m.user().empty();
  if (!of_member || !m.serial().empty()) v.serial = e.Hex("serial", m.serial(), 32);
  return e.Done(std::move(v));
}

pb::DrainRequest ToProto(const DrainCall& v) {
  pb::DrainRequest m;
  m.set_node(Utf8(v.node.value));
  m.set_undrain(v.undrain);
  m.set_reason(Utf8(v.reason));
  return m;
}
Result<DrainCall> FromProto(const pb::DrainRequest& m) {
  Edge e;
  DrainCall v;
  v.node = e.Node("node", m.node());
  v.undrain = m.undrain();
  v.reason = e.Text("reason", m.reason(), 1'024);
  return e.Done(std::move(v));
}

pb::ForgetNodeRequest ToProto(const ForgetNodeCall& v) {
  pb::ForgetNodeRequest m;
  m.set_node(Utf8(v.node.value));
  return m;
}
Result<ForgetNodeCall> FromProto(const pb::ForgetNodeRequest& m) {
  Edge e;
  ForgetNodeCall v;
  v.node = e.Node("node", m.node());
  return e.Done(std::move(v));
}

pb::FenceNodeRequest ToProto(const FenceNodeCall& v) {
  pb::FenceNodeRequest m;
  m.set_node(Utf8(v.node.value));
  return m;
}
Result<FenceNodeCall> FromProto(const pb::FenceNodeRequest& m) {
  Edge e;
  FenceNodeCall v;
  v.node = e.Node("node", m.node());
  return e.Done(std::move(v));
}

pb::QuarantineRequest ToProto(const QuarantineCall& v) {
  pb::QuarantineRequest m;
  m.set_action(Utf8(v.action));
  m.set_what(Utf8(v.what));
  return m;
}
Result<QuarantineCall> FromProto(const pb::QuarantineRequest& m) {
  Edge e;
  QuarantineCall v;
  v.action = m.action();
  e.Require(v.action == "list" || v.action == "release" || v.action == "retest", "action",
            "is not list, release or retest");
  v.what = e.Text("what", m.what(), 96);
  return e.Done(std::move(v));
}

pb::QuarantineReply ToQuarantineReply(const std::vector<QuarantinedGpu>& v) {
  pb::QuarantineReply m;
  for (const QuarantinedGpu& gpu : v) {
    pb::QuarantineReply::Row& row = *m.add_rows();
    row.set_gpu(Utf8(gpu.gpu.value));
    row.set_node(Utf8(gpu.node.value));
    row.set_why(Utf8(gpu.why));
    if (gpu.key) row.set_job(gpu.key->job.value);
    if (gpu.key) row.set_attempt(gpu.key->attempt.value);
    row.set_since_ms(ToMs(gpu.since));
  }
  return m;
}
Result<std::vector<QuarantinedGpu>> FromProto(const pb::QuarantineReply& m) {
  Edge e;
  auto v = e.Each("rows", m.rows(), 100'000,
                  [&](const std::string& at, const pb::QuarantineReply::Row& row) {
                    QuarantinedGpu gpu;
                    gpu.gpu = e.Gpu(at + ".gpu", row.gpu());
                    gpu.node = e.Node(at + ".node", row.node());
                    gpu.why = e.Text(at + ".why", row.why());
                    if (row.job() > 0) gpu.key = Key{JobId{row.job()}, Attempt{row.attempt()}};
                    gpu.since = e.Wall(at + ".since_ms", row.since_ms());
                    return gpu;
                  });
  return e.Done(std::move(v));
}

}  // namespace launch
