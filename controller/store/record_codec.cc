#include "controller/store/record_codec.h"

#include <array>
#include <string_view>
#include <type_traits>
#include <utility>

#include "controller/core/network_links.h"
#include "controller/store/attempt_codec.h"
#include "proto/edge.h"
#include "proto/record.pb.h"

namespace launch::controller {

using edge::Edge;
using edge::Utf8;

namespace {

using controller::FromRecord;  // of an attempt's rows
using controller::ToRecord;

LAUNCH_CONVERT_ENUM(JobPhase, kDone)

UserName User(Edge& e, std::string_view field, const std::string& value) {
  return UserName{e.Name(field, value)};
}

pb::ClusterRecord ToRecord(const ClusterRecord& v) {
  pb::ClusterRecord m;
  m.set_id(Utf8(v.id));
  m.set_incarnation(v.incarnation);
  m.set_epoch(v.epoch);
  m.set_next_job(v.next_job);
  for (const auto& [epoch, revision] : v.openings) (*m.mutable_openings())[epoch] = revision;
  return m;
}
ClusterRecord FromRecord(Edge& e, const pb::ClusterRecord& m) {
  ClusterRecord v;
  v.id = e.Name("id", m.id());
  e.Require(m.incarnation() >= 1, "incarnation", "must be at least 1");
  v.incarnation = m.incarnation();
  v.epoch = m.epoch();
  e.Require(m.next_job() >= 1, "next_job", "must be at least 1");
  v.next_job = m.next_job();
  v.openings = {m.openings().begin(), m.openings().end()};
  return v;
}

pb::JobRecord ToRecord(const JobRecord& v) {
  pb::JobRecord m;
  m.set_id(v.id.value);
  m.set_owner(Utf8(v.owner.value));
  m.set_name(Utf8(v.name));
  m.set_phase(ToProto(v.phase));
  m.set_held(v.held);
  m.set_forced(v.forced);
  m.set_attempts(v.attempts);
  m.set_floor(v.floor);
  m.set_requeue_cause(Utf8(v.requeue_cause));
  m.set_cancelled_by(Utf8(v.cancelled_by));
  m.set_cancelled_at_ms(ToMs(v.cancelled_at));
  if (v.outcome) m.set_outcome(launch::ToProto(*v.outcome));
  m.set_sub_reason(Utf8(v.sub_reason));
  m.set_outcome_text(Utf8(v.outcome_text));
  if (v.exit_code) m.set_exit_code(*v.exit_code);
  for (const auto& [cause, count] : v.retries) (*m.mutable_retries())[Utf8(cause)] = count;
  m.set_not_before_ms(ToMs(v.not_before));
  m.set_backoff_ms(v.backoff.count());
  for (const auto& [node, why] : v.excluded_nodes) {
    (*m.mutable_excluded_nodes())[Utf8(node)] = Utf8(why);
  }
  for (const Finding& finding : v.findings) *m.add_findings() = launch::ToProto(finding);
  m.set_best_step(v.best_step);
  m.set_no_progress(v.no_progress);
  m.set_submitted_ms(ToMs(v.submitted));
  m.set_started_ms(ToMs(v.started));
  m.set_ended_ms(ToMs(v.ended));
  m.set_idempotency_key(Utf8(v.idempotency_key));
  m.set_request_digest(Utf8(v.request_digest));
  if (v.change != PlanChange{}) *m.mutable_change() = ToRecord(v.change);
  m.set_change_text(Utf8(v.change_text));
  if (v.probe) *m.mutable_probe() = launch::ToProto(*v.probe);
  m.set_held_by(Utf8(v.held_by));
  m.set_requeued_by(Utf8(v.requeued_by));
  m.set_went_back(v.went_back);
  if (v.array) m.set_array(v.array->value);
  m.set_array_index(v.array_index);
  m.set_keeps(v.keeps);
  return m;
}
JobRecord FromRecord(Edge& e, const pb::JobRecord& m) {
  JobRecord v;
  v.id = e.Job("id", m.id());
  v.owner = User(e, "owner", m.owner());
  v.name = e.Text("name", m.name());
  v.phase = PhaseOf(e, FromProto(m.phase()));
  v.held = m.held();
  v.forced = m.forced();
  v.attempts = m.attempts();
  v.floor = m.floor();
  v.requeue_cause = e.Text("requeue_cause", m.requeue_cause());
  v.cancelled_by = e.Text("cancelled_by", m.cancelled_by());
  v.cancelled_at = e.Wall("cancelled_at_ms", m.cancelled_at_ms());
  if (m.has_outcome()) v.outcome = e.Value("outcome", m.outcome());
  v.sub_reason = e.Text("sub_reason", m.sub_reason());
  v.outcome_text = e.Text("outcome_text", m.outcome_text());
  if (m.has_exit_code()) v.exit_code = m.exit_code();
  for (const auto& [cause, count] : m.retries()) v.retries.emplace(cause, count);
  v.not_before = e.Wall("not_before_ms", m.not_before_ms());
  v.backoff = Millis{m.backoff_ms()};
  for (const auto& [node, why] : m.excluded_nodes()) v.excluded_nodes.emplace(node, why);
  v.findings = e.Values("findings", m.findings(), edge::kMaxItems);
  v.best_step = m.best_step();
  v.no_progress = m.no_progress();
  v.submitted = e.Wall("submitted_ms", m.submitted_ms());
  v.started = e.Wall("started_ms", m.started_ms());
  v.ended = e.Wall("ended_ms", m.ended_ms());
  v.idempotency_key = e.Text("idempotency_key", m.idempotency_key());
  v.request_digest = e.Text("request_digest", m.request_digest());
  if (m.has_change()) v.change = FromRecord(e, m.change());
  v.change_text = e.Text("change_text", m.change_text());
  if (m.has_probe()) v.probe = e.Value("probe", m.probe());
  v.held_by = e.Text("held_by", m.held_by());
  v.requeued_by = e.Text("requeued_by", m.requeued_by());
  v.went_back = m.went_back();
  if (m.has_array()) v.array = e.Job("array", m.array());
  v.array_index = m.array_index();
  v.keeps = m.keeps();
  return v;
}

pb::SpecRecord ToRecord(const SpecRecord& v) {
  pb::SpecRecord m;
  m.set_id(v.id.value);
  *m.mutable_spec() = launch::ToProto(v.spec);
  m.set_source(v.source);
  *m.mutable_context() = launch::ToProto(v.context);
  return m;
}
SpecRecord FromRecord(Edge& e, const pb::SpecRecord& m) {
  SpecRecord v;
  v.id = e.Job("id", m.id());
  v.spec = e.Value("spec", m.spec());
  v.source = m.source();
  v.context = e.Value("context", m.context());
  return v;
}

pb::PlanChunkRecord ToRecord(const PlanChunkRecord& v) {
  pb::PlanChunkRecord m;
  *m.mutable_key() = launch::ToProto(v.key);
  m.set_chunk(v.chunk);
  m.set_bytes(v.bytes);
  return m;
}
PlanChunkRecord FromRecord(Edge& e, const pb::PlanChunkRecord& m) {
  PlanChunkRecord v;
  v.key = e.Value("key", m.key());
  v.chunk = m.chunk();
  v.bytes = m.bytes();
  return v;
}

pb::NodeFault ToRecord(const NodeFault& v) {
  pb::NodeFault m;
  m.set_job(v.job.value);
  m.set_owner(Utf8(v.owner.value));
  m.set_what(Utf8(v.what));
  m.set_at_ms(ToMs(v.at));
  return m;
}
NodeFault FromRecord(Edge& e, const pb::NodeFault& m) {
  NodeFault v;
  v.job = e.Job("job", m.job());
  v.owner = User(e, "owner", m.owner());
  v.what = e.Text("what", m.what());
  v.at = e.Wall("at_ms", m.at_ms());
  return v;
}

pb::MeasuredLink ToRecord(const MeasuredLink& v) {
  pb::MeasuredLink m;
  m.set_node(Utf8(v.peer.value));
  if (v.mbit) m.set_mbit(*v.mbit);
  if (v.latency_us) m.set_latency_us(*v.latency_us);
  if (v.nccl_mbit) m.set_nccl_mbit(*v.nccl_mbit);
  m.set_transport(Utf8(v.transport));
  m.set_since_ms(ToMs(v.since));
  m.set_at_ms(ToMs(v.at));
  return m;
}
MeasuredLink FromRecord(Edge& e, const pb::MeasuredLink& m) {
  MeasuredLink v;
  v.peer = e.Node("links.node", m.node());
  if (m.has_mbit()) v.mbit = e.Number("links.mbit", m.mbit());
  if (m.has_latency_us()) v.latency_us = e.Number("links.latency_us", m.latency_us());
  if (m.has_nccl_mbit()) v.nccl_mbit = e.Number("links.nccl_mbit", m.nccl_mbit());
  v.transport = e.MaybeWord("links.transport", m.transport());
  v.since = e.Wall("links.since_ms", m.since_ms());
  v.at = e.Wall("links.at_ms", m.at_ms());
  return v;
}

pb::NodeRecord ToRecord(const NodeRecord& v) {
  pb::NodeRecord m;
  m.set_id(Utf8(v.id.value));
  *m.mutable_machine() = launch::ToProto(v.machine);
  m.set_boot_id(Utf8(v.boot_id));
  m.set_certificate_serial(Utf8(v.certificate_serial));
  m.set_drained(v.drained);
  m.set_drain_reason(Utf8(v.drain_reason));
  m.set_drained_by(Utf8(v.drained_by));
  m.set_first_seen_ms(ToMs(v.first_seen));
  if (v.account) m.set_account(Utf8(v.account->value));
  for (const NodeFault& fault : v.faults) *m.add_faults() = ToRecord(fault);
  m.set_fenced_by(Utf8(v.fenced_by));
  m.set_fenced_ms(ToMs(v.fenced_at));
  m.set_earlier_serial(Utf8(v.earlier_serial));
  for (const MeasuredLink& link : v.links.rows()) *m.add_links() = ToRecord(link);
  return m;
}
NodeRecord FromRecord(Edge& e, const pb::NodeRecord& m) {
  NodeRecord v;
  v.id = e.Node("id", m.id());
  // A node that joined and has not yet said Hello has no machine: not the check of the wire.
  v.machine.install_id = e.MaybeWord("machine.install_id", m.machine().install_id());
  v.machine.product_uuid = e.MaybeWord("machine.product_uuid", m.machine().product_uuid());
  v.machine.macs = e.Words("machine.macs", m.machine().macs(), 256);
  v.machine.network_namespace =
      e.MaybeWord("machine.network_namespace", m.machine().network_namespace());
  v.boot_id = e.Text("boot_id", m.boot_id());
  v.certificate_serial = e.Text("certificate_serial", m.certificate_serial());
  v.drained = m.drained();
  v.drain_reason = e.Text("drain_reason", m.drain_reason());
  v.drained_by = e.Text("drained_by", m.drained_by());
  v.first_seen = e.Wall("first_seen_ms", m.first_seen_ms());
  if (m.has_account()) v.account = UserName{e.Word("account", m.account())};
  for (const pb::NodeFault& fault : m.faults()) v.faults.push_back(FromRecord(e, fault));
  v.fenced_by = e.Text("fenced_by", m.fenced_by());
  v.fenced_at = e.Wall("fenced_ms", m.fenced_ms());
  v.earlier_serial = e.Text("earlier_serial", m.earlier_serial());
  v.links =
      LinkTable(e.Each("links", m.links(), static_cast<int>(kMostLinks),
                       [&](const std::string&, const auto& link) { return FromRecord(e, link); }));
  return v;
}

pb::InventoryRecord ToRecord(const InventoryRecord& v) {
  pb::InventoryRecord m;
  *m.mutable_inventory() = launch::ToProto(v.inventory);
  return m;
}
InventoryRecord FromRecord(Edge& e, const pb::InventoryRecord& m) {
  return {.inventory = e.Value("inventory", m.inventory())};
}

pb::GpuRecord ToRecord(const GpuRecord& v) {
  pb::GpuRecord m;
  m.set_uuid(Utf8(v.uuid.value));
  m.set_node(Utf8(v.node.value));
  m.set_why(Utf8(v.why));
  if (v.key != Key{}) *m.mutable_key() = launch::ToProto(v.key);
  m.set_since_ms(ToMs(v.since));
  m.set_boot_id(Utf8(v.boot_id));
  m.set_install_id(Utf8(v.install_id));
  m.set_cgroups(v.cgroups);
  return m;
}
GpuRecord FromRecord(Edge& e, const pb::GpuRecord& m) {
  GpuRecord v;
  v.uuid = e.Gpu("uuid", m.uuid());
  v.node = e.Node("node", m.node());
  v.why = e.Text("why", m.why());
  if (m.has_key()) v.key = e.Value("key", m.key());
  v.since = e.Wall("since_ms", m.since_ms());
  v.boot_id = e.Text("boot_id", m.boot_id());
  v.install_id = e.Text("install_id", m.install_id());
  v.cgroups = e.Path("cgroups", m.cgroups());
  return v;
}

pb::UserRecord ToRecord(const UserRecord& v) {
  pb::UserRecord m;
  m.set_name(Utf8(v.name.value));
  m.set_is_operator(v.is_operator);
  m.set_certificate_serial(Utf8(v.certificate_serial));
  m.set_revoked_ms(ToMs(v.revoked));
  return m;
}
UserRecord FromRecord(Edge& e, const pb::UserRecord& m) {
  UserRecord v;
  v.name = User(e, "name", m.name());
  v.is_operator = m.is_operator();
  v.certificate_serial = e.Text("certificate_serial", m.certificate_serial());
  v.revoked = e.Wall("revoked_ms", m.revoked_ms());
  return v;
}

pb::JoinRecord ToRecord(const JoinRecord& v) {
  pb::JoinRecord m;
  m.set_serial(Utf8(v.serial));
  m.set_role(Utf8(v.role));
  m.set_name(Utf8(v.name));
  m.set_expires_ms(ToMs(v.expires));
  m.set_used(v.used);
  m.set_revoked(v.revoked);
  m.set_created_by(Utf8(v.created_by.value));
  return m;
}
JoinRecord FromRecord(Edge& e, const pb::JoinRecord& m) {
  JoinRecord v;
  v.serial = e.Word("serial", m.serial());
  v.role = e.Choice("role", m.role(), {"node", "user"});
  v.name = e.Name("name", m.name());
  v.expires = e.Wall("expires_ms", m.expires_ms());
  v.used = m.used();
  v.revoked = m.revoked();
  v.created_by = UserName{e.MaybeName("created_by", m.created_by())};
  return v;
}

pb::DenyRecord ToRecord(const DenyRecord& v) {
  pb::DenyRecord m;
  m.set_serial(Utf8(v.serial));
  m.set_why(Utf8(v.why));
  return m;
}
DenyRecord FromRecord(Edge& e, const pb::DenyRecord& m) {
  return {.serial = e.Word("serial", m.serial()), .why = e.Text("why", m.why())};
}

pb::IdemRecord ToRecord(const IdemRecord& v) {
  pb::IdemRecord m;
  m.set_user(Utf8(v.user.value));
  m.set_key(Utf8(v.key));
  m.set_digest(Utf8(v.digest));
  m.set_job(v.job.value);
  return m;
}
IdemRecord FromRecord(Edge& e, const pb::IdemRecord& m) {
  IdemRecord v;
  v.user = User(e, "user", m.user());
  v.key = e.Word("key", m.key());
  v.digest = e.Text("digest", m.digest());
  v.job = e.Job("job", m.job());
  return v;
}

pb::SecretRecord ToRecord(const SecretRecord& v) {
  pb::SecretRecord m;
  m.set_job(v.job.value);
  m.set_name(Utf8(v.name));
  m.set_sealed(v.sealed);
  return m;
}
SecretRecord FromRecord(Edge& e, const pb::SecretRecord& m) {
  return {.job = e.Job("job", m.job()), .name = e.EnvName("name", m.name()), .sealed = m.sealed()};
}

template <class M>
Result<Entity> Decode(const std::string& bytes) {
  M m;
  if (!m.ParseFromString(bytes)) return Fail(ErrorCode::kDataLoss, "the bytes are no record");
  Edge e;
  auto value = FromRecord(e, m);
  auto done = e.Done(std::move(value));
  if (!done) return Fail(ErrorCode::kDataLoss, std::move(done).error().message);
  return Entity(std::move(*done));
}

struct Kind {
  std::string_view prefix;  // of the key, with its slash
  Result<Entity> (*decode)(const std::string& bytes);
};
constexpr std::array<Kind, std::variant_size_v<Entity>> kKinds{{
    {"cluster", Decode<pb::ClusterRecord>},
    {"job/", Decode<pb::JobRecord>},
    {"spec/", Decode<pb::SpecRecord>},
    {"plan/", Decode<pb::PlanChunkRecord>},
    {"attempt/", Decode<pb::AttemptRecord>},
    {"alloc/", Decode<pb::AllocRecord>},
    {"rank/", Decode<pb::RankRecord>},
    {"node/", Decode<pb::NodeRecord>},
    {"inventory/", Decode<pb::InventoryRecord>},
    {"gpu/", Decode<pb::GpuRecord>},
    {"user/", Decode<pb::UserRecord>},
    {"join/", Decode<pb::JoinRecord>},
    {"deny/", Decode<pb::DenyRecord>},
    {"idem/", Decode<pb::IdemRecord>},
    {"secret/", Decode<pb::SecretRecord>},
}};

}  // namespace

std::string EncodeRecord(const Entity& entity) {
  std::string bytes = std::visit(
      [](const auto& value) { return edge::SerializeDeterministic(ToRecord(value)); }, entity);
  const Result<Entity> read = DecodeRecord(KeyOf(entity), bytes);
  LAUNCH_CHECK(read.has_value(), KeyOf(entity) + " cannot be stored: " + read.error().message);
  return bytes;
}

Result<Entity> DecodeRecord(const std::string& key, const std::string& bytes) {
  for (const Kind& kind : kKinds) {
    if (!key.starts_with(kind.prefix)) continue;
    Result<Entity> entity = kind.decode(bytes);
    if (entity && KeyOf(*entity) != key) {
      return Fail(ErrorCode::kDataLoss, "the row holds the record of " + KeyOf(*entity));
    }
    return entity;
  }
  return Fail(ErrorCode::kDataLoss, "no record of this version has such a key");
}

}  // namespace launch::controller
