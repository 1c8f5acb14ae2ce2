#include <cmath>

#include "proto/convert_value.h"
#include "proto/edge.h"

namespace launch {

using edge::Edge;
using edge::Utf8;

LAUNCH_CONVERT_ENUM(JobState, kSuspended)

pb::WaitReason ToProto(const WaitReason& v) {
  pb::WaitReason m;
  m.set_code(Utf8(v.code));
  m.set_evidence(Utf8(v.evidence));
  return m;
}
Result<WaitReason> FromProto(const pb::WaitReason& m) {
  Edge e;
  WaitReason v;
  v.code = e.MaybeWord("code", m.code());
  v.evidence = e.Text("evidence", m.evidence());
  return e.Done(std::move(v));
}

pb::RankMemory ToProto(const RankMemory& v) {
  pb::RankMemory m;
  if (v.allocated) m.set_allocated(*v.allocated);
  if (v.reserved) m.set_reserved(*v.reserved);
  m.set_said_ms(ToMs(v.said));
  if (v.process) m.set_process(*v.process);
  if (v.foreign) m.set_foreign(*v.foreign);
  if (v.free) m.set_free(*v.free);
  m.set_sampled_ms(ToMs(v.sampled));
  return m;
}
Result<RankMemory> FromProto(const pb::RankMemory& m) {
  Edge e;
  RankMemory v;
  if (m.has_allocated()) v.allocated = m.allocated();
  if (m.has_reserved()) v.reserved = m.reserved();
  v.said = e.Wall("said_ms", m.said_ms());
  if (m.has_process()) v.process = m.process();
  if (m.has_foreign()) v.foreign = m.foreign();
  if (m.has_free()) v.free = m.free();
  v.sampled = e.Wall("sampled_ms", m.sampled_ms());
  return e.Done(v);
}

pb::RankView ToProto(const RankView& v) {
  pb::RankView m;
  m.set_rank(v.rank);
  m.set_node(Utf8(v.node.value));
  m.set_pid(v.pid);
  m.set_state(Utf8(v.state));
  if (v.exit) *m.mutable_exit() = ToProto(*v.exit);
  if (v.memory) *m.mutable_memory() = ToProto(*v.memory);
  return m;
}
Result<RankView> FromProto(const pb::RankView& m) {
  Edge e;
  RankView v;
  v.rank = e.RankOf("rank", m.rank());
  v.node = e.Node("node", m.node());
  v.pid = e.Int64("pid", m.pid(), 0);
  v.state = e.MaybeWord("state", m.state());
  if (m.has_exit()) v.exit = e.Value("exit", m.exit());
  if (m.has_memory()) v.memory = e.Value("memory", m.memory());
  return e.Done(std::move(v));
}

pb::AttemptView ToProto(const AttemptView& v) {
  pb::AttemptView m;
  m.set_attempt(v.attempt.value);
  m.set_phase(Utf8(v.phase));
  m.set_outcome(Utf8(v.outcome));
  m.set_cause(Utf8(v.cause));
  for (const NodeId& node : v.nodes) m.add_nodes(Utf8(node.value));
  m.set_master(Utf8(v.master));
  m.set_resumed_from(v.resumed_from);
  *m.mutable_batch() = ToProto(v.batch);
  for (const auto& [name, value] : v.env) (*m.mutable_env())[Utf8(name)] = value;
  m.set_change(Utf8(v.change));
  if (v.first_failed_rank) m.set_first_failed_rank(*v.first_failed_rank);
  if (v.first_failed_node) m.set_first_failed_node(Utf8(v.first_failed_node->value));
  if (v.verdict) *m.mutable_verdict() = ToProto(*v.verdict);
  for (const RankView& rank : v.ranks) *m.add_ranks() = ToProto(rank);
  m.set_started_ms(ToMs(v.started));
  m.set_ended_ms(ToMs(v.ended));
  return m;
}
Result<AttemptView> FromProto(const pb::AttemptView& m) {
  Edge e;
  AttemptView v;
  v.attempt = e.AttemptOf("attempt", m.attempt());
  v.phase = e.MaybeWord("phase", m.phase());
  v.outcome = e.MaybeWord("outcome", m.outcome());
  v.cause = e.Text("cause", m.cause());
  v.nodes = e.Nodes("nodes", m.nodes());
  v.master = e.MaybeWord("master", m.master());
  v.resumed_from = e.Path("resumed_from", m.resumed_from());
  v.batch = e.Value("batch", m.batch());
  v.env = e.EnvMap("env", m.env());
  v.change = e.Text("change", m.change());
  if (m.has_first_failed_rank()) {
    v.first_failed_rank = e.RankOf("first_failed_rank", m.first_failed_rank());
  }
  if (m.has_first_failed_node()) {
    v.first_failed_node = e.Node("first_failed_node", m.first_failed_node());
  }
  if (m.has_verdict()) v.verdict = e.Value("verdict", m.verdict());
  v.ranks = e.Values("ranks", m.ranks(), edge::kMaxRanks);
  v.started = e.Wall("started_ms", m.started_ms());
  v.ended = e.Wall("ended_ms", m.ended_ms());
  return e.Done(std::move(v));
}

pb::JobView ToProto(const JobView& v) {
  pb::JobView m;
  m.set_id(v.id.value);
  m.set_name(Utf8(v.name));
  m.set_user(Utf8(v.user));
  m.set_state(ToProto(v.state));
  m.set_sub_reason(Utf8(v.sub_reason));
  *m.mutable_reason() = ToProto(v.reason);
  m.set_outcome(Utf8(v.outcome));
  if (v.exit_code) m.set_exit_code(*v.exit_code);
  m.set_cancelled_by(Utf8(v.cancelled_by));
  m.set_gpus(v.gpus);
  m.set_nodes(v.nodes);
  m.set_strategy(Utf8(v.strategy));
  for (const NodeId& node : v.nodelist) m.add_nodelist(Utf8(node.value));
  if (v.step) m.set_step(*v.step);
  if (v.steps) m.set_steps(*v.steps);
  if (v.seconds_per_step && std::isfinite(*v.seconds_per_step)) {
    m.set_seconds_per_step(*v.seconds_per_step);
  }
  if (v.eta_s && std::isfinite(*v.eta_s)) m.set_eta_s(*v.eta_s);
  m.set_submitted_ms(ToMs(v.submitted));
  m.set_started_ms(ToMs(v.started));
  m.set_ended_ms(ToMs(v.ended));
  for (const AttemptView& attempt : v.attempts) *m.add_attempts() = ToProto(attempt);
  for (const Finding& finding : v.findings) *m.add_findings() = ToProto(finding);
  if (v.spec) *m.mutable_spec() = ToProto(*v.spec);
  if (v.plan) *m.mutable_plan() = ToProto(*v.plan);
  for (const std::string& held : v.held) m.add_held(Utf8(held));
  if (v.measured) *m.mutable_measured() = ToProto(*v.measured);
  if (v.array) m.set_array(v.array->value);
  m.set_array_index(v.array_index);
  m.set_priority(v.priority);
  m.set_git_commit(Utf8(v.git_commit));
  m.set_git_diff(v.git_diff);
  m.set_kind(Utf8(v.kind));
  return m;
}
Result<JobView> FromProto(const pb::JobView& m) {
  Edge e;
  JobView v;
  v.id = e.Job("id", m.id());
  v.name = e.MaybeWord("name", m.name());
  v.user = e.MaybeWord("user", m.user());
  v.state = e.Value("state", m.state());
  v.sub_reason = e.MaybeWord("sub_reason", m.sub_reason());
  v.reason = e.Value("reason", m.reason());
  v.outcome = e.Text("outcome", m.outcome());
  if (m.has_exit_code()) v.exit_code = e.Int("exit_code", m.exit_code(), 0, 255);
  v.cancelled_by = e.MaybeWord("cancelled_by", m.cancelled_by());
  v.gpus = e.Int("gpus", m.gpus(), 0, 100'000'000);
  v.nodes = e.Int("nodes", m.nodes(), 0, edge::kMaxNodes);
  v.strategy = e.MaybeWord("strategy", m.strategy());
  v.nodelist = e.Nodes("nodelist", m.nodelist());
  if (m.has_step()) v.step = e.Int64("step", m.step(), 0);
  if (m.has_steps()) v.steps = e.Int64("steps", m.steps(), 0);
  if (m.has_seconds_per_step()) {
    v.seconds_per_step = e.Number("seconds_per_step", m.seconds_per_step());
  }
  if (m.has_eta_s()) v.eta_s = e.Number("eta_s", m.eta_s());
  v.submitted = e.Wall("submitted_ms", m.submitted_ms());
  v.started = e.Wall("started_ms", m.started_ms());
  v.ended = e.Wall("ended_ms", m.ended_ms());
  v.attempts = e.Values("attempts", m.attempts(), edge::kMaxItems);
  v.findings = e.Values("findings", m.findings(), edge::kMaxItems);
  if (m.has_spec()) v.spec = e.Value("spec", m.spec());
  if (m.has_plan()) v.plan = e.Value("plan", m.plan());
  v.held = e.Texts("held", m.held(), edge::kMaxItems);
  if (m.has_measured()) v.measured = e.Value("measured", m.measured());
  if (m.has_array()) v.array = e.Job("array", m.array());
  v.array_index = e.Int("array_index", m.array_index(), 0, kMaxIndex);
  v.priority = e.Int("priority", m.priority(), 0, 100);
  v.git_commit = e.MaybeWord("git_commit", m.git_commit());
  v.git_diff = e.Bytes("git_diff", m.git_diff(), kMaxGitDiffBytes);
  if (!m.kind().empty()) v.kind = e.MaybeWord("kind", m.kind());
  return e.Done(std::move(v));
}

pb::NodeView ToProto(const NodeView& v) {
  pb::NodeView m;
  *m.mutable_inventory() = ToProto(v.inventory);
  m.set_state(Utf8(v.state));
  m.set_drained(v.drained);
  m.set_reason(Utf8(v.reason));
  *m.mutable_health() = ToProto(v.health);
  m.set_schedulable(v.schedulable);
  for (const GpuUuid& gpu : v.free_gpus) m.add_free_gpus(Utf8(gpu.value));
  for (const JobId& job : v.jobs) m.add_jobs(job.value);
  m.set_silent_ms(v.silent_ms);
  m.set_last_seen_ms(ToMs(v.last_seen));
  for (const GpuSample& sample : v.samples) *m.add_samples() = ToProto(sample);
  for (const auto& held : v.quarantined) *m.add_quarantined() = ToProto(held);
  if (v.account) m.set_account(Utf8(v.account->value));
  return m;
}
Result<NodeView> FromProto(const pb::NodeView& m) {
  Edge e;
  NodeView v;
  v.inventory = e.Value("inventory", m.inventory());
  v.state = e.MaybeWord("state", m.state());
  v.drained = m.drained() || v.state == "drain";  // a controller of before says the state only
  v.reason = e.Text("reason", m.reason());
  v.health = e.Value("health", m.health());
  v.schedulable = m.schedulable();
  v.free_gpus = e.Gpus("free_gpus", m.free_gpus());
  v.jobs = e.Each("jobs", m.jobs(), edge::kMaxItems,
                  [&](const std::string& at, std::uint64_t job) { return e.Job(at, job); });
  v.silent_ms = e.Int64("silent_ms", m.silent_ms(), 0);
  v.last_seen = e.Wall("last_seen_ms", m.last_seen_ms());
  v.samples = e.Values("samples", m.samples(), edge::kMaxGpusPerNode);
  v.quarantined = e.Values("quarantined", m.quarantined(), edge::kMaxGpusPerNode);
  if (m.has_account()) v.account = UserName{e.Word("account", m.account())};
  return e.Done(std::move(v));
}

pb::EventView ToProto(const EventView& v) {
  pb::EventView m;
  m.set_seq(v.seq);
  m.set_at_ms(ToMs(v.at));
  m.set_kind(Utf8(v.kind));
  m.set_subject(Utf8(v.subject));
  m.set_text(Utf8(v.text));
  return m;
}
Result<EventView> FromProto(const pb::EventView& m) {
  Edge e;
  EventView v;
  v.seq = m.seq();
  v.at = e.Wall("at_ms", m.at_ms());
  v.kind = e.Word("kind", m.kind());
  v.subject = e.MaybeWord("subject", m.subject());
  v.text = e.Text("text", m.text());
  return e.Done(std::move(v));
}

pb::PlanAnswer ToProto(const PlanAnswer& v) {
  pb::PlanAnswer m;
  if (v.plan) *m.mutable_plan() = ToProto(*v.plan);
  for (const Finding& finding : v.findings) *m.add_findings() = ToProto(finding);
  if (v.waits) *m.mutable_waits() = ToProto(*v.waits);
  for (const Check& check : v.checks) *m.add_checks() = ToProto(check);
  return m;
}
Result<PlanAnswer> FromProto(const pb::PlanAnswer& m) {
  Edge e;
  PlanAnswer v;
  if (m.has_plan()) v.plan = e.Value("plan", m.plan());
  v.findings = e.Values("findings", m.findings(), edge::kMaxItems);
  if (m.has_waits()) v.waits = e.Value("waits", m.waits());
  v.checks = e.Values("checks", m.checks(), edge::kMaxItems);
  return e.Done(std::move(v));
}

}  // namespace launch
