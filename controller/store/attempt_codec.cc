#include "controller/store/attempt_codec.h"

namespace launch::controller {

using edge::Edge;
using edge::Utf8;

namespace {

LAUNCH_CONVERT_ENUM(AttemptPhase, kEnded)
LAUNCH_CONVERT_ENUM(StoredAllocPhase, kQuarantined)

}  // namespace

pb::PlanChange ToRecord(const PlanChange& v) {
  pb::PlanChange m;
  m.set_began(v.began);
  m.set_expandable_segments(v.expandable_segments);
  m.set_fewer_workers(v.fewer_workers);
  if (v.global) m.set_global(*v.global);
  if (v.micro) m.set_micro(*v.micro);
  if (v.strategy) m.set_strategy(launch::ToProto(*v.strategy));
  if (v.offload) m.set_offload(launch::ToProto(*v.offload));
  m.set_checkpointing(Utf8(v.checkpointing));
  if (v.precision) m.set_precision(launch::ToProto(*v.precision));
  for (const Fallback& one : v.left) *m.add_left() = launch::ToProto(one);
  return m;
}
PlanChange FromRecord(Edge& e, const pb::PlanChange& m) {
  PlanChange v;
  v.began = m.began();
  v.expandable_segments = m.expandable_segments();
  v.fewer_workers = m.fewer_workers();
  if (m.has_global()) v.global = m.global();
  if (m.has_micro()) v.micro = m.micro();
  if (m.has_strategy()) v.strategy = e.Value("strategy", m.strategy());
  if (m.has_offload()) v.offload = e.Value("offload", m.offload());
  v.checkpointing = e.Text("checkpointing", m.checkpointing());
  if (m.has_precision()) v.precision = e.Value("precision", m.precision());
  v.left = e.Values("left", m.left(), edge::kMaxItems);
  return v;
}

pb::AttemptRecord ToRecord(const AttemptRecord& v) {
  pb::AttemptRecord m;
  *m.mutable_key() = launch::ToProto(v.key);
  m.set_phase(ToProto(v.phase));
  m.set_plan_digest(Utf8(v.plan_digest));
  m.set_plan_chunks(v.plan_chunks);
  for (const NodeId& node : v.nodes) m.add_nodes(Utf8(node.value));
  m.set_master_address(Utf8(v.master_address));
  m.set_master_port(v.master_port);
  m.set_resumed_from(v.resumed_from);
  m.set_resumed_step(v.resumed_step);
  m.set_local_checkpoints(v.local_checkpoints);
  m.set_in_copy(v.in_copy);
  m.set_stop_cause(launch::ToProto(v.stop_cause));
  m.set_cause(Utf8(v.cause));
  m.set_outcome(Utf8(v.outcome));
  if (v.first_failed_rank) m.set_first_failed_rank(*v.first_failed_rank);
  if (v.first_failed_node) m.set_first_failed_node(Utf8(v.first_failed_node->value));
  for (const EnvVar& variable : v.late_env) *m.add_late_env() = launch::ToProto(variable);
  m.set_created_ms(ToMs(v.created));
  m.set_strategy(launch::ToProto(v.plan.strategy));
  if (v.plan.steps) m.set_plan_steps(*v.plan.steps);
  *m.mutable_batch() = launch::ToProto(v.plan.batch);
  if (!v.plan.run.device.empty()) *m.mutable_run() = launch::ToProto(v.plan.run);
  if (v.progress.step) m.set_step(*v.progress.step);
  if (v.progress.steps) m.set_steps(*v.progress.steps);
  if (v.progress.seconds_per_step) m.set_seconds_per_step(*v.progress.seconds_per_step);
  m.set_peak_gpu_bytes(v.peak_gpu_bytes);
  m.set_change(Utf8(v.change));
  if (v.verdict) *m.mutable_verdict() = launch::ToProto(*v.verdict);
  m.set_started_boot_ms(ToMs(v.started_boot));
  m.set_started_host_boot(Utf8(v.started_host_boot));
  m.set_started_ms(ToMs(v.started));
  m.set_ended_ms(ToMs(v.ended));
  if (v.ran) m.set_ran_ms(v.ran->count());
  return m;
}
AttemptRecord FromRecord(Edge& e, const pb::AttemptRecord& m) {
  AttemptRecord v;
  v.key = e.Value("key", m.key());
  v.phase = PhaseOf(e, FromProto(m.phase()));
  v.plan_digest = e.Text("plan_digest", m.plan_digest());
  v.plan_chunks = m.plan_chunks();
  v.nodes = e.Nodes("nodes", m.nodes());
  v.master_address = e.Text("master_address", m.master_address());
  v.master_port = e.Int("master_port", m.master_port(), 0, 65'535);
  v.resumed_from = e.Path("resumed_from", m.resumed_from());
  v.resumed_step = m.resumed_step();
  v.local_checkpoints = m.local_checkpoints();
  v.in_copy = m.in_copy();
  v.stop_cause = e.Value("stop_cause", m.stop_cause());
  v.cause = e.Text("cause", m.cause());
  v.outcome = e.Text("outcome", m.outcome());
  if (m.has_first_failed_rank()) {
    v.first_failed_rank = e.RankOf("first_failed_rank", m.first_failed_rank());
  }
  if (m.has_first_failed_node()) {
    v.first_failed_node = e.Node("first_failed_node", m.first_failed_node());
  }
  v.late_env = e.Values("late_env", m.late_env(), edge::kMaxEnv);
  v.plan.strategy = e.Value("strategy", m.strategy());
  if (m.has_plan_steps()) v.plan.steps = m.plan_steps();
  if (m.has_batch()) v.plan.batch = e.Value("batch", m.batch());
  if (m.has_run()) v.plan.run = e.Value("run", m.run());
  if (m.has_step()) v.progress.step = m.step();
  if (m.has_steps()) v.progress.steps = m.steps();
  if (m.has_seconds_per_step()) {
    v.progress.seconds_per_step = e.Number("seconds_per_step", m.seconds_per_step());
  }
  v.peak_gpu_bytes = m.peak_gpu_bytes();
  v.change = e.Text("change", m.change());
  if (m.has_verdict()) v.verdict = e.Value("verdict", m.verdict());
  v.created = e.Wall("created_ms", m.created_ms());
  // Before the boot when the attempt is older than that.
  v.started_boot = BootMs(e.Int64("started_boot_ms", m.started_boot_ms(), -edge::kMaxMs));
  v.started_host_boot = e.BootId("started_host_boot", m.started_host_boot());
  v.started = e.Wall("started_ms", m.started_ms());
  v.ended = e.Wall("ended_ms", m.ended_ms());
  if (m.has_ran_ms()) v.ran = e.Duration("ran_ms", m.ran_ms());
  return v;
}

pb::AllocRecord ToRecord(const AllocRecord& v) {
  pb::AllocRecord m;
  *m.mutable_key() = launch::ToProto(v.key);
  m.set_node(Utf8(v.node.value));
  m.set_phase(ToProto(v.phase));
  m.set_digest(Utf8(v.digest));
  for (const GpuUuid& gpu : v.gpus) m.add_gpus(Utf8(gpu.value));
  m.set_cpus(v.cpus);
  m.set_memory_bytes(v.memory_bytes);
  for (Rank rank : v.ranks) m.add_ranks(rank);
  if (v.ports) *m.mutable_ports() = launch::ToProto(*v.ports);
  m.set_boot_id(Utf8(v.boot_id));
  m.set_interface(Utf8(v.interface));
  m.set_leased(v.leased);
  m.set_install_id(Utf8(v.install_id));
  m.set_cgroups(v.cgroups);
  for (const auto& held : v.held) *m.add_held() = launch::ToProto(held);
  return m;
}
AllocRecord FromRecord(Edge& e, const pb::AllocRecord& m) {
  AllocRecord v;
  v.key = e.Value("key", m.key());
  v.node = e.Node("node", m.node());
  v.phase = PhaseOf(e, FromProto(m.phase()));
  v.digest = e.Text("digest", m.digest());
  v.gpus = e.Gpus("gpus", m.gpus());
  v.cpus = e.Int("cpus", m.cpus(), 0, edge::kMaxCpus);
  v.memory_bytes = m.memory_bytes();
  v.ranks = e.Ints("ranks", m.ranks(), edge::kMaxRanks, 0, edge::kMaxRanks - 1);
  if (m.has_ports()) v.ports = e.Value("ports", m.ports());
  v.boot_id = e.Text("boot_id", m.boot_id());
  v.interface = e.Text("interface", m.interface());
  v.leased = m.leased();
  v.install_id = e.Text("install_id", m.install_id());
  v.cgroups = e.Path("cgroups", m.cgroups());
  v.held = e.Values("held", m.held(), edge::kMaxGpusPerNode);
  return v;
}

pb::RankRecord ToRecord(const RankRecord& v) {
  pb::RankRecord m;
  *m.mutable_key() = launch::ToProto(v.key);
  m.set_rank(v.rank);
  m.set_node(Utf8(v.node.value));
  m.set_pid(v.pid);
  if (v.exit) *m.mutable_exit() = launch::ToProto(*v.exit);
  return m;
}
RankRecord FromRecord(Edge& e, const pb::RankRecord& m) {
  RankRecord v;
  v.key = e.Value("key", m.key());
  v.rank = e.RankOf("rank", m.rank());
  v.node = e.Node("node", m.node());
  v.pid = m.pid();
  if (m.has_exit()) v.exit = e.Value("exit", m.exit());
  return v;
}

}  // namespace launch::controller
