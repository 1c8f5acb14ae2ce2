#include "proto/convert_node.h"

#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <set>
#include <utility>

#include "common/pki.h"
#include "proto/convert_value.h"
#include "proto/edge.h"
#include "proto/node.pb.h"
#include "proto/observed.h"

namespace launch {

using edge::Edge;
using edge::Utf8;

namespace {

constexpr std::string_view kSingleUser = "single_user ";
constexpr const char* kMultiUser = "multi_user";

// Anything else is refused: a guess here would be somebody's account.
std::optional<UserName> ReadRunAs(Edge& e, const std::string& text) {
  const std::string said = e.Word("run_as", text);
  if (said == kMultiUser) return std::nullopt;
  const bool single = said.size() > kSingleUser.size() && said.starts_with(kSingleUser);
  e.Require(single, "run_as", "is neither multi_user nor single_user ACCOUNT");
  return UserName{single ? said.substr(kSingleUser.size()) : ""};
}

// ---- agent -> controller, out ----

void Set(const from_node::Hello& v, pb::FromNode& envelope) {
  pb::Hello& m = *envelope.mutable_hello();
  m.set_protocol_min(kNodeProtocols.min);
  m.set_protocol_max(kNodeProtocols.max);
  m.set_version(observed::Word(v.version));
  *m.mutable_machine() = ToProto(v.machine);
  m.set_boot_id(Utf8(v.boot_id));
  m.set_instance(Utf8(v.instance));
  m.set_cgroups(observed::Path(v.cgroups));
  m.set_boot_ms(ToMs(v.boot));
  *m.mutable_seen() = ToProto(v.seen);
  *m.mutable_inventory() = ToProto(v.inventory);
  m.set_run_as(v.account ? std::string(kSingleUser) + Utf8(v.account->value) : kMultiUser);
  for (const AllocationStatus& status : v.allocations) *m.add_allocations() = ToProto(status);
  for (const Key& key : v.floors) *m.add_floors() = ToProto(key);
  std::set<GpuUuid> told;  // one reason is enough, and several records may claim one GPU
  observed::Each(v.held, edge::kMaxItems, [&](const auto& held) {
    if (m.held_size() < edge::kMaxGpusPerNode && told.insert(held.first).second)
      *m.add_held() = ToProto(held);
  });
}
void Set(const from_node::Beat& v, pb::FromNode& envelope) {
  pb::Beat& m = *envelope.mutable_beat();
  m.set_n(v.n);
  m.set_boot_ms(ToMs(v.boot));
  m.set_pong_age_ms(observed::Count(v.pong_age_ms));
}
void Set(const from_node::Heard& v, pb::FromNode& envelope) {
  envelope.mutable_heard()->set_n(v.n);
}
void Set(const from_node::Samples& v, pb::FromNode& envelope) {
  pb::Samples& m = *envelope.mutable_samples();
  m.set_boot_ms(ToMs(v.boot));
  observed::Each(v.gpus, edge::kMaxGpusPerNode,
                 [&](const GpuSample& sample) { *m.add_gpus() = ToProto(sample); });
  *m.mutable_host() = ToProto(v.host);
  observed::Each(v.ranks, 4'096,
                 [&](const RankSample& sample) { *m.add_ranks() = ToProto(sample); });
}
void Set(const from_node::InventoryChanged& v, pb::FromNode& envelope) {
  *envelope.mutable_inventory_changed()->mutable_inventory() = ToProto(v.inventory);
}
void Set(const from_node::Accepted& v, pb::FromNode& envelope) {
  pb::Accepted& m = *envelope.mutable_accepted();
  *m.mutable_key() = ToProto(v.key);
  m.set_digest(Utf8(v.digest));
  if (v.ports) *m.mutable_ports() = ToProto(*v.ports);
  m.set_leased(v.leased);
}
void Set(const from_node::Refused& v, pb::FromNode& envelope) {
  pb::Refused& m = *envelope.mutable_refused();
  *m.mutable_key() = ToProto(v.key);
  m.set_digest(Utf8(v.digest));
  m.set_stage(Utf8(v.stage));
  m.set_code(observed::Word(v.code));
  m.set_why(Utf8(v.why));
  if (v.floor) m.set_floor(v.floor->value);
  for (const GpuUuid& gpu : v.gpus) m.add_gpus(Utf8(gpu.value));
}
void Set(const from_node::Staging& v, pb::FromNode& envelope) {
  pb::Staging& m = *envelope.mutable_staging();
  *m.mutable_key() = ToProto(v.key);
  m.set_step(observed::Word(v.step));
  m.set_line(Utf8(v.line));
}
void Set(const from_node::Ready& v, pb::FromNode& envelope) {
  pb::Ready& m = *envelope.mutable_ready();
  *m.mutable_key() = ToProto(v.key);
  m.set_digest(Utf8(v.digest));
  *m.mutable_facts() = ToProto(v.facts);
}
void Set(const from_node::Started& v, pb::FromNode& envelope) {
  pb::Started& m = *envelope.mutable_started();
  *m.mutable_key() = ToProto(v.key);
  for (const auto& [rank, pid] : v.pids) {
    pb::Started::Pid& entry = *m.add_pids();
    entry.set_rank(rank);
    entry.set_pid(observed::Count(pid));
  }
}
void Set(const from_node::RankExited& v, pb::FromNode& envelope) {
  *envelope.mutable_rank_exited()->mutable_report() = ToProto(v.report);
}
void Set(const from_node::Released& v, pb::FromNode& envelope) {
  pb::Released& m = *envelope.mutable_released();
  *m.mutable_key() = ToProto(v.key);
  observed::Each(v.held, edge::kMaxGpusPerNode,
                 [&](const auto& held) { *m.add_held() = ToProto(held); });
  for (const auto& [rank, offset] : v.log_ends) {
    if (rank < 0) continue;  // `setup` has a directory like a rank
    pb::Released::LogEnd& entry = *m.add_log_ends();
    entry.set_rank(rank);
    entry.set_offset(offset);
  }
}
void Set(const from_node::Notice& v, pb::FromNode& envelope) {
  pb::Notice& m = *envelope.mutable_notice();
  m.set_kind(observed::Word(v.kind));
  if (v.key) *m.mutable_key() = ToProto(*v.key);
  if (v.rank && *v.rank >= 0) m.set_rank(*v.rank);
  m.set_text(Utf8(v.text));
}

void Set(const from_node::Stacks& v, pb::FromNode& envelope) {
  *envelope.mutable_stacks()->mutable_stacks() = ToProto(v.stacks);
}

// ---- agent -> controller, in ----

from_node::Hello Read(Edge& e, const pb::Hello& m) {
  from_node::Hello v;
  v.version = e.Word("version", m.version());
  v.machine = e.Value("machine", m.machine());
  e.Require(!m.boot_id().empty(), "boot_id", "is empty");
  v.boot_id = e.BootId("boot_id", m.boot_id());
  v.instance = e.MaybeWord("instance", m.instance());
  v.cgroups = e.MaybeAbsolutePath("cgroups", m.cgroups());
  v.boot = e.Boot("boot_ms", m.boot_ms());
  v.seen = Fence{m.seen().incarnation(), m.seen().epoch(), m.seen().revision()};
  v.inventory = e.Value("inventory", m.inventory());
  v.account = ReadRunAs(e, m.run_as());
  v.allocations = e.Values("allocations", m.allocations(), edge::kMaxItems);
  e.RequireDistinct("allocations", v.allocations, [](const AllocationStatus& s) { return s.key; });
  v.floors = e.Values("floors", m.floors(), 100'000);
  e.RequireDistinct("floors", v.floors, [](const Key& key) { return key.job; });
  v.held = e.Values("held", m.held(), edge::kMaxGpusPerNode);
  return v;
}
from_node::Beat Read(Edge& e, const pb::Beat& m) {
  return {.n = m.n(),
          .boot = e.Boot("boot_ms", m.boot_ms()),
          .pong_age_ms = e.Int64("pong_age_ms", m.pong_age_ms(), 0)};
}
from_node::Heard Read(Edge&, const pb::Heard& m) { return {.n = m.n()}; }
from_node::Samples Read(Edge& e, const pb::Samples& m) {
  from_node::Samples v;
  v.boot = e.Boot("boot_ms", m.boot_ms());
  v.gpus = e.Values("gpus", m.gpus(), edge::kMaxGpusPerNode);
  v.host = e.Value("host", m.host());
  v.ranks = e.Values("ranks", m.ranks(), 4'096);
  return v;
}
from_node::InventoryChanged Read(Edge& e, const pb::InventoryChanged& m) {
  return {.inventory = e.Value("inventory", m.inventory())};
}
from_node::Accepted Read(Edge& e, const pb::Accepted& m) {
  from_node::Accepted v;
  v.key = e.Value("key", m.key());
  v.digest = e.Digest("digest", m.digest());
  if (m.has_ports()) v.ports = e.Value("ports", m.ports());
  v.leased = m.leased();
  return v;
}
from_node::Refused Read(Edge& e, const pb::Refused& m) {
  from_node::Refused v;
  v.key = e.Value("key", m.key());
  v.digest = e.MaybeDigest("digest", m.digest());
  v.stage = e.Choice("stage", m.stage(), {"accept", "stage", "go"});
  v.code = e.Word("code", m.code());
  v.why = e.Text("why", m.why());
  if (m.has_floor()) v.floor = e.AttemptOf("floor", m.floor());
  v.gpus = e.Gpus("gpus", m.gpus());
  return v;
}
from_node::Staging Read(Edge& e, const pb::Staging& m) {
  from_node::Staging v;
  v.key = e.Value("key", m.key());
  v.step = e.Word("step", m.step());
  v.line = e.Text("line", m.line());
  return v;
}
from_node::Ready Read(Edge& e, const pb::Ready& m) {
  from_node::Ready v;
  v.key = e.Value("key", m.key());
  v.digest = e.Digest("digest", m.digest());
  v.facts = e.Value("facts", m.facts());
  return v;
}
from_node::Started Read(Edge& e, const pb::Started& m) {
  from_node::Started v;
  v.key = e.Value("key", m.key());
  v.pids = e.Each("pids", m.pids(), 4'096, [&](const std::string& at, const pb::Started::Pid& p) {
    return std::pair(e.RankOf(at + ".rank", p.rank()), e.Int64(at + ".pid", p.pid(), 0));
  });
  e.RequireDistinct("pids", v.pids, [](const auto& entry) { return entry.first; });
  return v;
}
from_node::RankExited Read(Edge& e, const pb::RankExited& m) {
  return {.report = e.Value("report", m.report())};
}
from_node::Released Read(Edge& e, const pb::Released& m) {
  from_node::Released v;
  v.key = e.Value("key", m.key());
  v.held = e.Values("held", m.held(), edge::kMaxGpusPerNode);
  v.log_ends = e.Each(
      "log_ends", m.log_ends(), 4'096, [&](const std::string& at, const pb::Released::LogEnd& end) {
        return std::pair(e.RankOf(at + ".rank", end.rank()), std::uint64_t{end.offset()});
      });
  e.RequireDistinct("log_ends", v.log_ends, [](const auto& entry) { return entry.first; });
  return v;
}
from_node::Notice Read(Edge& e, const pb::Notice& m) {
  from_node::Notice v;
  v.kind = e.Word("kind", m.kind());
  if (m.has_key()) v.key = e.Value("key", m.key());
  if (m.has_rank()) v.rank = e.RankOf("rank", m.rank());
  v.text = e.Text("text", m.text());
  return v;
}

from_node::Stacks Read(Edge& e, const pb::Stacks& m) {
  return {.stacks = e.Value("stacks", m.stacks())};
}

// ---- controller -> agent, out ----

void Set(const to_node::Welcome& v, pb::ToNode& envelope) {
  pb::Welcome& m = *envelope.mutable_welcome();
  m.set_cluster(Utf8(v.cluster));
  m.set_protocol(kNodeProtocols.max);
  m.set_beat_ms(v.beat_ms);
  m.set_silent_ms(v.silent_ms);
  m.set_samples_ms(v.samples_ms);
}
void Set(const to_node::Pong& v, pb::ToNode& envelope) {
  pb::Pong& m = *envelope.mutable_pong();
  m.set_n(v.n);
  m.set_wants_heard(v.wants_heard);
}
void Set(const to_node::Prepare& v, pb::ToNode& envelope) {
  pb::Prepare& m = *envelope.mutable_prepare();
  m.set_spec(v.spec_bytes.empty() ? SerializeSpec(v.spec) : v.spec_bytes);
  m.set_digest(Utf8(v.digest));
  for (const auto& [name, value] : v.secrets) {
    pb::Secret& secret = *m.add_secrets();
    secret.set_name(Utf8(name));
    secret.set_value(value);
  }
}
void Set(const to_node::Stage& v, pb::ToNode& envelope) {
  pb::Stage& m = *envelope.mutable_stage();
  *m.mutable_key() = ToProto(v.key);
  m.set_digest(Utf8(v.digest));
  m.set_write_marker(v.write_marker);
  m.set_marker(Utf8(v.marker));
  for (const std::string& address : v.masters) m.add_masters(Utf8(address));
  m.set_master_port(v.master_port);
  m.set_find_checkpoint(v.find_checkpoint);
  m.set_use_snapshot(v.use_snapshot);
  m.set_again(v.again);
  if (!v.network_test) return;
  pb::NetworkTest& test = *m.mutable_network_test();
  test.set_round(v.network_test->round);
  test.set_address(Utf8(v.network_test->address));
  test.set_port(v.network_test->port);
  test.set_place(v.network_test->place);
  test.set_nodes(v.network_test->nodes);
  for (const EnvVar& variable : v.network_test->env) *test.add_env() = ToProto(variable);
}
void Set(const to_node::Go& v, pb::ToNode& envelope) {
  pb::Go& m = *envelope.mutable_go();
  *m.mutable_key() = ToProto(v.key);
  m.set_digest(Utf8(v.digest));
  m.set_master_address(Utf8(v.master_address));
  m.set_master_port(v.master_port);
  for (const EnvVar& variable : v.late_env) *m.add_late_env() = ToProto(variable);
  for (const GeneratedFile& file : v.late_files) *m.add_late_files() = ToProto(file);
}
void Set(const to_node::Stop& v, pb::ToNode& envelope) {
  pb::Stop& m = *envelope.mutable_stop();
  *m.mutable_key() = ToProto(v.key);
  m.set_cause(ToProto(v.cause));
  m.set_grace_ms(v.grace.count());
}
void Set(const to_node::ExitAck& v, pb::ToNode& envelope) {
  pb::ExitAck& m = *envelope.mutable_exit_ack();
  *m.mutable_key() = ToProto(v.key);
  m.set_rank(v.rank);
}
void Set(const to_node::Forget& v, pb::ToNode& envelope) {
  *envelope.mutable_forget()->mutable_key() = ToProto(v.key);
}

void Set(const to_node::Retest& v, pb::ToNode& envelope) {
  envelope.mutable_retest()->set_gpu(Utf8(v.gpu.value));
  envelope.mutable_retest()->set_release(v.release);
}

void Set(const to_node::CollectStacks& v, pb::ToNode& envelope) {
  *envelope.mutable_collect_stacks()->mutable_key() = ToProto(v.key);
}
void Set(const to_node::OpenExec& v, pb::ToNode& envelope) {
  pb::OpenExec& m = *envelope.mutable_open_exec();
  *m.mutable_key() = ToProto(v.key);
  m.set_rank(v.rank);
  m.set_exec(Utf8(v.exec));
  if (!v.copy) return;
  pb::JobCopy& copy = *m.mutable_copy();
  copy.set_user(Utf8(v.copy->user));
  copy.set_root(Utf8(v.copy->root));
  copy.set_workdir(v.copy->workdir);
  copy.set_used(v.copy->used);
}

// ---- controller -> agent, in ----

to_node::Welcome Read(Edge& e, const pb::Welcome& m) {
  constexpr std::int64_t kHourMs = 3'600'000;
  to_node::Welcome v;
  v.cluster = e.Name("cluster", m.cluster());
  e.Require(m.protocol() >= kNodeProtocols.min && m.protocol() <= kNodeProtocols.max, "protocol",
            "is not a version this agent speaks");
  v.beat_ms = e.Int("beat_ms", m.beat_ms(), 1, kHourMs);
  v.silent_ms = e.Int("silent_ms", m.silent_ms(), 1, kHourMs);
  v.samples_ms = e.Int("samples_ms", m.samples_ms(), 1, kHourMs);
  e.Require(m.silent_ms() > m.beat_ms(), "silent_ms", "is not longer than beat_ms");
  return v;
}
to_node::Pong Read(Edge&, const pb::Pong& m) {
  return {.n = m.n(), .wants_heard = m.wants_heard()};
}
to_node::Prepare Read(Edge& e, const pb::Prepare& m) {
  to_node::Prepare v;
  pb::AllocationSpec spec;
  const bool parsed = spec.ParseFromString(m.spec());
  e.Require(parsed, "spec", "is not an AllocationSpec");
  if (parsed) {
    const auto key = FromProto(spec.key());
    auto read = FromProto(spec);
    if (!read && key) {
      v.spec.key = *key;
      v.refused = edge::Under("spec", read.error()).message;
    } else {
      v.spec = e.Value("spec", spec);
    }
  }
  v.spec_bytes = m.spec();
  v.digest = e.Digest("digest", m.digest());
  v.secrets =
      e.Each("secrets", m.secrets(), 256, [&](const std::string& at, const pb::Secret& secret) {
        return std::pair(e.EnvName(at + ".name", secret.name()),
                         e.Bytes(at + ".value", secret.value()));
      });
  e.RequireDistinct("secrets", v.secrets, [](const auto& secret) { return secret.first; });
  return v;
}
to_node::NetworkTest Read(Edge& e, const pb::NetworkTest& m) {
  to_node::NetworkTest v;
  v.round = m.round();
  v.address = e.Word("network_test.address", m.address());
  v.port = e.Port("network_test.port", m.port());
  v.nodes = e.Int("network_test.nodes", m.nodes(), 2, edge::kMaxRanks);
  v.place = e.Int("network_test.place", m.place(), 0, v.nodes - 1);
  v.env = e.Values("network_test.env", m.env(), edge::kMaxEnv);
  return v;
}
to_node::Stage Read(Edge& e, const pb::Stage& m) {
  to_node::Stage v;
  v.key = e.Value("key", m.key());
  v.digest = e.Digest("digest", m.digest());
  v.write_marker = m.write_marker();
  if (!m.marker().empty()) v.marker = e.FileName("marker", m.marker());
  e.Require(!m.write_marker() || !m.marker().empty(), "marker", "is needed to write it");
  v.masters = e.Words("masters", m.masters(), 256);
  v.master_port = e.Int("master_port", m.master_port(), 0, 65'535);
  e.Require(m.masters_size() == 0 || m.master_port() > 0, "master_port",
            "is needed to probe an address");
  v.find_checkpoint = m.find_checkpoint();
  v.use_snapshot = m.use_snapshot();
  v.again = m.again();
  if (m.has_network_test()) v.network_test = Read(e, m.network_test());
  return v;
}
to_node::Go Read(Edge& e, const pb::Go& m) {
  to_node::Go v;
  v.key = e.Value("key", m.key());
  v.digest = e.Digest("digest", m.digest());
  v.master_address = e.Word("master_address", m.master_address());
  v.master_port = e.Port("master_port", m.master_port());
  v.late_env = e.Values("late_env", m.late_env(), edge::kMaxEnv);
  e.RequireDistinct("late_env", v.late_env, [](const EnvVar& variable) { return variable.name; });
  v.late_files = e.Values("late_files", m.late_files(), 256);
  e.RequireDistinct("late_files", v.late_files,
                    [](const GeneratedFile& file) { return file.name; });
  return v;
}
to_node::Stop Read(Edge& e, const pb::Stop& m) {
  to_node::Stop v;
  v.key = e.Value("key", m.key());
  v.cause = e.Value("cause", m.cause());
  v.grace = e.Duration("grace_ms", m.grace_ms());
  return v;
}
to_node::ExitAck Read(Edge& e, const pb::ExitAck& m) {
  to_node::ExitAck v;
  v.key = e.Value("key", m.key());
  v.rank = e.RankOf("rank", m.rank());
  return v;
}
to_node::Forget Read(Edge& e, const pb::Forget& m) { return {.key = e.Value("key", m.key())}; }
to_node::Retest Read(Edge& e, const pb::Retest& m) {
  return {.gpu = e.Gpu("gpu", m.gpu()), .release = m.release()};
}
to_node::CollectStacks Read(Edge& e, const pb::CollectStacks& m) {
  return {.key = e.Value("key", m.key())};
}
to_node::OpenExec Read(Edge& e, const pb::OpenExec& m) {
  to_node::OpenExec v;
  v.key = e.Value("key", m.key());
  v.rank = e.RankOf("rank", m.rank());
  v.exec = e.Hex("exec", m.exec(), 32);
  if (m.has_copy()) {
    v.copy.emplace();
    v.copy->user = e.Name("copy.user", m.copy().user());
    v.copy->root = e.Digest("copy.root", m.copy().root());
    v.copy->workdir = e.AbsolutePath("copy.workdir", m.copy().workdir());
    v.copy->used = m.copy().used();
  }
  return v;
}

// One body of an envelope, with its name in front of the path.
template <class Variant, class M>
Result<Variant> ReadBody(std::string_view name, const M& m) {
  Edge inner;
  auto body = Read(inner, m);
  auto done = inner.Done(std::move(body));
  if (!done) return Unexpected(edge::Under(name, done.error()));
  return Variant(std::move(*done));
}

Result<FromNode> ReadFromNode(const pb::FromNode& m) {
  switch (m.body_case()) {
    case pb::FromNode::kHello:
      LAUNCH_RETURN_IF_ERROR(
          CommonProtocol({m.hello().protocol_min(), m.hello().protocol_max()}, kNodeProtocols));
      return ReadBody<FromNode>("hello", m.hello());
    case pb::FromNode::kBeat:
      return ReadBody<FromNode>("beat", m.beat());
    case pb::FromNode::kSamples:
      return ReadBody<FromNode>("samples", m.samples());
    case pb::FromNode::kInventoryChanged:
      return ReadBody<FromNode>("inventory_changed", m.inventory_changed());
    case pb::FromNode::kAccepted:
      return ReadBody<FromNode>("accepted", m.accepted());
    case pb::FromNode::kRefused:
      return ReadBody<FromNode>("refused", m.refused());
    case pb::FromNode::kStaging:
      return ReadBody<FromNode>("staging", m.staging());
    case pb::FromNode::kReady:
      return ReadBody<FromNode>("ready", m.ready());
    case pb::FromNode::kStarted:
      return ReadBody<FromNode>("started", m.started());
    case pb::FromNode::kRankExited:
      return ReadBody<FromNode>("rank_exited", m.rank_exited());
    case pb::FromNode::kReleased:
      return ReadBody<FromNode>("released", m.released());
    case pb::FromNode::kNotice:
      return ReadBody<FromNode>("notice", m.notice());
    case pb::FromNode::kStacks:
      return ReadBody<FromNode>("stacks", m.stacks());
    case pb::FromNode::kHeard:
      return ReadBody<FromNode>("heard", m.heard());
    case pb::FromNode::BODY_NOT_SET:
      break;
  }
  return Fail(ErrorCode::kInvalidArgument, "body: is not set");
}

Result<ToNode> ReadToNode(const pb::ToNode& m) {
  switch (m.body_case()) {
    case pb::ToNode::kWelcome:
      return ReadBody<ToNode>("welcome", m.welcome());
    case pb::ToNode::kPong:
      return ReadBody<ToNode>("pong", m.pong());
    case pb::ToNode::kPrepare:
      // The bytes are compared before they are read: what was damaged has no fields to complain of.
      if (DigestOfSpec(m.prepare().spec()) != m.prepare().digest()) {
        return Fail(ErrorCode::kDataLoss, "prepare.digest: is not the digest of prepare.spec");
      }
      return ReadBody<ToNode>("prepare", m.prepare());
    case pb::ToNode::kStage:
      return ReadBody<ToNode>("stage", m.stage());
    case pb::ToNode::kGo:
      return ReadBody<ToNode>("go", m.go());
    case pb::ToNode::kStop:
      return ReadBody<ToNode>("stop", m.stop());
    case pb::ToNode::kExitAck:
      return ReadBody<ToNode>("exit_ack", m.exit_ack());
    case pb::ToNode::kForget:
      return ReadBody<ToNode>("forget", m.forget());
    case pb::ToNode::kRetest:
      return ReadBody<ToNode>("retest", m.retest());
    case pb::ToNode::kCollectStacks:
      return ReadBody<ToNode>("collect_stacks", m.collect_stacks());
    case pb::ToNode::kOpenExec:
      return ReadBody<ToNode>("open_exec", m.open_exec());
    case pb::ToNode::BODY_NOT_SET:
      break;
  }
  return Fail(ErrorCode::kInvalidArgument, "body: is not set");
}

}  // namespace

Result<std::uint32_t> CommonProtocol(const ProtocolRange& agent, const ProtocolRange& controller) {
  const std::uint32_t newest = std::min(agent.max, controller.max);
  if (newest >= std::max(agent.min, controller.min)) return newest;
  const auto words = [](const ProtocolRange& range) {
    return std::to_string(range.min) + " to " + std::to_string(range.max);
  };
  return Fail(
      ErrorCode::kUnimplemented,
      "the agent speaks protocol " + words(agent) + ", this controller speaks " + words(controller),
      "their releases are too far apart: upgrade the older one, `launch upgrade` does it");
}

bool IsOfNewerKind(const pb::FromNode& m) {
  return m.body_case() == pb::FromNode::BODY_NOT_SET &&
         m.GetReflection()->GetUnknownFields(m).field_count() > 0;
}

bool IsOfNewerKind(const pb::ToNode& m) {
  return m.body_case() == pb::ToNode::BODY_NOT_SET &&
         m.GetReflection()->GetUnknownFields(m).field_count() > 0;
}

pb::Fence ToProto(const Fence& v) {
  pb::Fence m;
  m.set_incarnation(v.incarnation);
  m.set_epoch(v.epoch);
  m.set_revision(v.revision);
  return m;
}
Result<Fence> FromProto(const pb::Fence& m) {
  Edge e;
  e.Require(m.incarnation() >= 1, "incarnation", "must be at least 1");
  return e.Done(Fence{m.incarnation(), m.epoch(), m.revision()});
}

pb::FromNode ToProto(const FromNodeEnvelope& v) {
  pb::FromNode m;
  m.set_session(v.session);
  std::visit([&m](const auto& body) { Set(body, m); }, v.body);
  return m;
}
Result<FromNodeEnvelope> FromProto(const pb::FromNode& m) {
  FromNodeEnvelope v;
  v.session = m.session();
  LAUNCH_ASSIGN_OR_RETURN(v.body, ReadFromNode(m));
  return v;
}

pb::ToNode ToProto(const ToNodeEnvelope& v) {
  pb::ToNode m;
  *m.mutable_fence() = ToProto(v.fence);
  m.set_session(v.session);
  std::visit([&m](const auto& body) { Set(body, m); }, v.body);
  return m;
}
Result<ToNodeEnvelope> FromProto(const pb::ToNode& m) {
  ToNodeEnvelope v;
  auto fence = FromProto(m.fence());
  if (!fence) return Unexpected(edge::Under("fence", fence.error()));
  v.fence = *fence;
  v.session = m.session();
  LAUNCH_ASSIGN_OR_RETURN(v.body, ReadToNode(m));
  return v;
}

std::string SerializeSpec(const AllocationSpec& spec) {
  return edge::SerializeDeterministic(ToProto(spec));
}

std::string DigestOfSpec(std::string_view bytes) { return Sha256Hex(bytes); }

Result<AllocationSpec> ParseSpec(std::string_view bytes) {
  pb::AllocationSpec m;
  if (!m.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Fail(ErrorCode::kDataLoss, "the bytes are no AllocationSpec");
  }
  return FromProto(m);
}

std::string SerializePlan(const Plan& plan) { return edge::SerializeDeterministic(ToProto(plan)); }

Result<Plan> ParsePlan(std::string_view bytes) {
  pb::Plan m;
  if (!m.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Fail(ErrorCode::kDataLoss, "the bytes are no Plan");
  }
  return FromProto(m);
}

}  // namespace launch
