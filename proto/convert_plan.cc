#include <cmath>

#include "proto/convert_value.h"
#include "proto/edge.h"

namespace launch {

using edge::Edge;
using edge::Utf8;

LAUNCH_CONVERT_ENUM(Severity, kError)
LAUNCH_CONVERT_ENUM(CheckResult, kFail)
LAUNCH_CONVERT_ENUM(Confidence, kConfirmed)
LAUNCH_CONVERT_ENUM(Basis, kMeasured)

pb::Finding ToProto(const Finding& v) {
  pb::Finding m;
  m.set_code(Utf8(v.code));
  m.set_severity(ToProto(v.severity));
  if (v.node) m.set_node(Utf8(v.node->value));
  m.set_says(Utf8(v.says));
  m.set_evidence(Utf8(v.evidence));
  m.set_remedy(Utf8(v.remedy));
  for (const std::string& line : v.fix) m.add_fix(Utf8(line));
  return m;
}
Result<Finding> FromProto(const pb::Finding& m) {
  Edge e;
  Finding v;
  v.code = e.MaybeWord("code", m.code());
  v.severity = e.Value("severity", m.severity());
  if (m.has_node()) v.node = e.Node("node", m.node());
  v.says = e.Text("says", m.says());
  v.evidence = e.Text("evidence", m.evidence());
  v.remedy = e.Text("remedy", m.remedy());
  v.fix = e.Texts("fix", m.fix(), edge::kMaxItems);
  return e.Done(std::move(v));
}

pb::Check ToProto(const Check& v) {
  pb::Check m;
  m.set_check(Utf8(v.check));
  if (v.node) m.set_node(Utf8(v.node->value));
  m.set_result(ToProto(v.result));
  m.set_says(Utf8(v.says));
  m.set_code(Utf8(v.code));
  return m;
}
Result<Check> FromProto(const pb::Check& m) {
  Edge e;
  Check v;
  v.check = e.Word("check", m.check());
  if (m.has_node()) v.node = e.Node("node", m.node());
  v.result = e.Value("result", m.result());
  v.says = e.Text("says", m.says());
  v.code = e.MaybeWord("code", m.code());
  return e.Done(std::move(v));
}

pb::Verdict ToProto(const Verdict& v) {
  pb::Verdict m;
  m.set_label(Utf8(v.label));
  m.set_confidence(ToProto(v.confidence));
  if (v.rank) m.set_rank(*v.rank);
  if (v.node) m.set_node(Utf8(v.node->value));
  for (const std::string& line : v.evidence) m.add_evidence(Utf8(line));
  m.set_cause(Utf8(v.cause));
  m.set_remedy(Utf8(v.remedy));
  m.set_action(Utf8(v.action));
  for (const auto& [name, value] : v.numbers) (*m.mutable_numbers())[Utf8(name)] = value;
  for (const std::string& change : v.changes) m.add_changes(Utf8(change));
  return m;
}
Result<Verdict> FromProto(const pb::Verdict& m) {
  Edge e;
  Verdict v;
  v.label = e.MaybeWord("label", m.label());
  v.confidence = e.Value("confidence", m.confidence());
  if (m.has_rank()) v.rank = e.RankOf("rank", m.rank());
  if (m.has_node()) v.node = e.Node("node", m.node());
  v.evidence = e.Texts("evidence", m.evidence(), 256);
  v.cause = e.Text("cause", m.cause());
  v.remedy = e.Text("remedy", m.remedy());
  v.action = e.MaybeWord("action", m.action());
  e.Require(m.numbers_size() <= 64, "numbers", "are too many");
  for (const auto& [name, value] : m.numbers()) v.numbers[name] = e.Number("numbers", value);
  v.changes = e.Texts("changes", m.changes(), 64);
  return e.Done(std::move(v));
}

pb::PlannedTerm ToProto(const PlannedTerm& v) {
  pb::PlannedTerm m;
  m.set_name(Utf8(v.name));
  m.set_phase(Utf8(v.phase));
  m.set_gib(v.gib);
  return m;
}
Result<PlannedTerm> FromProto(const pb::PlannedTerm& m) {
  Edge e;
  PlannedTerm v;
  v.name = e.Text("name", m.name());
  v.phase = e.Text("phase", m.phase());
  v.gib = e.Number("gib", m.gib());
  return e.Done(std::move(v));
}

pb::MemoryForecast ToProto(const MemoryForecast& v) {
  pb::MemoryForecast m;
  for (const PlannedTerm& term : v.terms) *m.add_terms() = ToProto(term);
  if (v.peak_gib) m.set_peak_gib(*v.peak_gib);
  if (v.low_gib) m.set_low_gib(*v.low_gib);
  if (v.high_gib) m.set_high_gib(*v.high_gib);
  m.set_limit_gib(v.limit_gib);
  m.set_basis(ToProto(v.basis));
  m.set_phase(Utf8(v.phase));
  m.set_fits(Utf8(v.fits));
  if (v.host_gib) m.set_host_gib(*v.host_gib);
  m.set_host_limit_gib(v.host_limit_gib);
  for (const std::string& sentence : v.assumptions) m.add_assumptions(Utf8(sentence));
  return m;
}
Result<MemoryForecast> FromProto(const pb::MemoryForecast& m) {
  Edge e;
  MemoryForecast v;
  v.terms = e.Values("terms", m.terms(), 1'000);
  if (m.has_peak_gib()) v.peak_gib = e.Number("peak_gib", m.peak_gib());
  if (m.has_low_gib()) v.low_gib = e.Number("low_gib", m.low_gib());
  if (m.has_high_gib()) v.high_gib = e.Number("high_gib", m.high_gib());
  v.limit_gib = e.Number("limit_gib", m.limit_gib());
  v.basis = e.Value("basis", m.basis());
  v.phase = e.MaybeWord("phase", m.phase());
  v.fits = e.MaybeWord("fits", m.fits());
  if (m.has_host_gib()) v.host_gib = e.Number("host_gib", m.host_gib());
  v.host_limit_gib = e.Number("host_limit_gib", m.host_limit_gib());
  v.assumptions = e.Texts("assumptions", m.assumptions(), 1'000);
  return e.Done(std::move(v));
}

pb::BatchSplit ToProto(const BatchSplit& v) {
  pb::BatchSplit m;
  if (v.global) m.set_global(*v.global);
  if (v.micro) m.set_micro(*v.micro);
  if (v.accumulate) m.set_accumulate(*v.accumulate);
  return m;
}
Result<BatchSplit> FromProto(const pb::BatchSplit& m) {
  Edge e;
  BatchSplit v;
  if (m.has_global()) v.global = e.Int64("global", m.global(), 1);
  if (m.has_micro()) v.micro = e.Int64("micro", m.micro(), 1);
  if (m.has_accumulate()) v.accumulate = e.Int64("accumulate", m.accumulate(), 1);
  return e.Done(v);
}

pb::LoaderPlan ToProto(const LoaderPlan& v) {
  pb::LoaderPlan m;
  m.set_num_workers(v.num_workers);
  m.set_pin_memory(v.pin_memory);
  m.set_persistent_workers(v.persistent_workers);
  return m;
}
Result<LoaderPlan> FromProto(const pb::LoaderPlan& m) {
  Edge e;
  LoaderPlan v;
  v.num_workers = e.Int("num_workers", m.num_workers(), 0, edge::kMaxCpus);
  v.pin_memory = m.pin_memory();
  v.persistent_workers = m.persistent_workers();
  return e.Done(v);
}

pb::Processes ToProto(const Processes& v) {
  pb::Processes m;
  m.set_total(v.total);
  m.set_per_node(v.per_node);
  m.set_cpus_per_process(v.cpus_per_process);
  return m;
}
Result<Processes> FromProto(const pb::Processes& m) {
  Edge e;
  Processes v;
  v.total = e.Int("total", m.total(), 0, edge::kMaxRanks);
  v.per_node = e.Int("per_node", m.per_node(), 0, edge::kMaxRanks);
  v.cpus_per_process = e.Int("cpus_per_process", m.cpus_per_process(), 0, edge::kMaxCpus);
  return e.Done(v);
}

pb::RankAssignment ToProto(const RankAssignment& v) {
  pb::RankAssignment m;
  m.set_rank(v.rank);
  m.set_local_rank(v.local_rank);
  m.set_node(Utf8(v.node.value));
  for (int index : v.gpus) m.add_gpus(index);
  for (const GpuUuid& gpu : v.gpu_uuids) m.add_gpu_uuids(Utf8(gpu.value));
  for (const auto& [name, value] : v.env) (*m.mutable_env())[Utf8(name)] = value;
  return m;
}
Result<RankAssignment> FromProto(const pb::RankAssignment& m) {
  Edge e;
  RankAssignment v;
  v.rank = e.RankOf("rank", m.rank());
  v.local_rank = e.RankOf("local_rank", m.local_rank());
  v.node = e.Node("node", m.node());
  v.gpus = e.Ints("gpus", m.gpus(), edge::kMaxGpusPerNode, 0, edge::kMaxGpusPerNode - 1);
  v.gpu_uuids = e.Gpus("gpu_uuids", m.gpu_uuids());
  v.env = e.EnvMap("env", m.env());
  return e.Done(std::move(v));
}

pb::Candidate ToProto(const Candidate& v) {
  pb::Candidate m;
  m.set_strategy(Utf8(v.strategy));
  m.set_code(Utf8(v.code));
  m.set_reason(Utf8(v.reason));
  return m;
}
Result<Candidate> FromProto(const pb::Candidate& m) {
  Edge e;
  Candidate v;
  v.strategy = e.MaybeWord("strategy", m.strategy());
  v.code = e.MaybeWord("code", m.code());
  v.reason = e.Text("reason", m.reason());
  return e.Done(std::move(v));
}

pb::DurationForecast ToProto(const DurationForecast& v) {
  pb::DurationForecast m;
  if (v.seconds) m.set_seconds(*v.seconds);
  if (v.low) m.set_low(*v.low);
  if (v.high) m.set_high(*v.high);
  m.set_basis(ToProto(v.basis));
  if (v.step_seconds) m.set_step_seconds(*v.step_seconds);
  if (v.tokens_per_second_per_gpu) {
    m.set_tokens_per_second_per_gpu(*v.tokens_per_second_per_gpu);
  }
  if (v.samples_per_second) m.set_samples_per_second(*v.samples_per_second);
  m.set_bound(Utf8(v.bound));
  return m;
}
Result<DurationForecast> FromProto(const pb::DurationForecast& m) {
  Edge e;
  DurationForecast v;
  if (m.has_seconds()) v.seconds = e.Number("seconds", m.seconds());
  if (m.has_low()) v.low = e.Number("low", m.low());
  if (m.has_high()) v.high = e.Number("high", m.high());
  v.basis = e.Value("basis", m.basis());
  if (m.has_step_seconds()) v.step_seconds = e.Number("step_seconds", m.step_seconds());
  if (m.has_tokens_per_second_per_gpu()) {
    v.tokens_per_second_per_gpu =
        e.Number("tokens_per_second_per_gpu", m.tokens_per_second_per_gpu());
  }
  if (m.has_samples_per_second()) {
    v.samples_per_second = e.Number("samples_per_second", m.samples_per_second());
  }
  v.bound = e.MaybeWord("bound", m.bound());
  return e.Done(std::move(v));
}

pb::Fallback ToProto(const Fallback& v) {
  pb::Fallback m;
  m.set_strategy(ToProto(v.strategy));
  m.set_offload(ToProto(v.offload));
  m.set_checkpointing(Utf8(v.checkpointing));
  *m.mutable_batch() = ToProto(v.batch);
  m.set_peak_gib(v.peak_gib);
  if (v.step_seconds) m.set_step_seconds(*v.step_seconds);
  return m;
}
Result<Fallback> FromProto(const pb::Fallback& m) {
  Edge e;
  Fallback v;
  v.strategy = e.Value("strategy", m.strategy());
  v.offload = e.Value("offload", m.offload());
  v.checkpointing = e.MaybeWord("checkpointing", m.checkpointing());
  v.batch = e.Value("batch", m.batch());
  v.peak_gib = e.Number("peak_gib", m.peak_gib());
  if (m.has_step_seconds()) v.step_seconds = e.Number("step_seconds", m.step_seconds());
  return e.Done(std::move(v));
}

pb::Change ToProto(const Change& v) {
  pb::Change m;
  m.set_change(Utf8(v.change));
  m.set_strategy(Utf8(v.strategy));
  m.set_offload(ToProto(v.offload));
  *m.mutable_batch() = ToProto(v.batch);
  if (v.peak_gib) m.set_peak_gib(*v.peak_gib);
  m.set_fits(Utf8(v.fits));
  if (v.step_seconds) m.set_step_seconds(*v.step_seconds);
  if (v.duration_seconds) m.set_duration_seconds(*v.duration_seconds);
  m.set_says(Utf8(v.says));
  return m;
}
Result<Change> FromProto(const pb::Change& m) {
  Edge e;
  Change v;
  v.change = e.MaybeWord("change", m.change());
  v.strategy = e.MaybeWord("strategy", m.strategy());
  v.offload = e.Value("offload", m.offload());
  v.batch = e.Value("batch", m.batch());
  if (m.has_peak_gib()) v.peak_gib = e.Number("peak_gib", m.peak_gib());
  v.fits = e.MaybeWord("fits", m.fits());
  if (m.has_step_seconds()) v.step_seconds = e.Number("step_seconds", m.step_seconds());
  if (m.has_duration_seconds()) {
    v.duration_seconds = e.Number("duration_seconds", m.duration_seconds());
  }
  v.says = e.Text("says", m.says());
  return e.Done(std::move(v));
}

pb::Plan ToProto(const Plan& v) {
  pb::Plan m;
  m.set_strategy(ToProto(v.strategy));
  m.set_why(Utf8(v.why));
  m.set_offload(ToProto(v.offload));
  m.set_device(ToProto(v.device));
  m.set_device_name(Utf8(v.device_name));
  m.set_device_reason(Utf8(v.device_reason));
  m.set_precision(ToProto(v.precision));
  m.set_precision_reason(Utf8(v.precision_reason));
  *m.mutable_batch() = ToProto(v.batch);
  m.set_world_size(v.world_size);
  *m.mutable_processes() = ToProto(v.processes);
  m.set_start(ToProto(v.start));
  m.set_launcher(ToProto(v.launcher));
  for (const std::string& sentence : v.read) m.add_read(Utf8(sentence));
  m.set_command(v.command);
  *m.mutable_memory() = ToProto(v.memory);
  *m.mutable_loader() = ToProto(v.loader);
  if (v.steps) m.set_steps(*v.steps);
  *m.mutable_duration() = ToProto(v.duration);
  for (const RankAssignment& assignment : v.assignments) {
    *m.add_assignments() = ToProto(assignment);
  }
  for (const GeneratedFile& file : v.files) *m.add_files() = ToProto(file);
  m.set_workdir(v.workdir);
  for (const std::string& name : v.late) m.add_late(Utf8(name));
  for (const Finding& finding : v.warnings) *m.add_warnings() = ToProto(finding);
  for (const Candidate& candidate : v.rejected) *m.add_rejected() = ToProto(candidate);
  m.set_checkpointing(Utf8(v.checkpointing));
  m.set_trainer(ToProto(v.trainer));
  if (!v.run.device.empty()) *m.mutable_run() = ToProto(v.run);
  for (const Fallback& fallback : v.fallbacks) *m.add_fallbacks() = ToProto(fallback);
  for (const Change& change : v.changes) *m.add_changes() = ToProto(change);
  return m;
}
Result<Plan> FromProto(const pb::Plan& m) {
  Edge e;
  Plan v;
  v.strategy = e.Value("strategy", m.strategy());
  v.why = e.Text("why", m.why());
  v.offload = e.Value("offload", m.offload());
  v.device = e.Value("device", m.device());
  v.device_name = e.Text("device_name", m.device_name());
  v.device_reason = e.Text("device_reason", m.device_reason());
  v.precision = e.Value("precision", m.precision());
  v.precision_reason = e.Text("precision_reason", m.precision_reason());
  v.batch = e.Value("batch", m.batch());
  v.world_size = e.Int("world_size", m.world_size(), 1, edge::kMaxRanks);
  v.processes = e.Value("processes", m.processes());
  v.start = e.Value("start", m.start());
  v.launcher = e.Value("launcher", m.launcher());
  v.read = e.Texts("read", m.read(), 256);
  v.command = e.Bytes("command", m.command(), edge::kMaxScript);
  v.memory = e.Value("memory", m.memory());
  v.loader = e.Value("loader", m.loader());
  if (m.has_steps()) v.steps = e.Int64("steps", m.steps(), 0);
  v.duration = e.Value("duration", m.duration());
  v.assignments = e.Values("assignments", m.assignments(), edge::kMaxRanks);
  e.RequireDistinct("assignments", v.assignments, [](const RankAssignment& a) { return a.rank; });
  v.files = e.Values("files", m.files(), 256);
  v.workdir = e.Text("workdir", m.workdir());
  v.late = e.Words("late", m.late(), 256);
  v.warnings = e.Values("warnings", m.warnings(), edge::kMaxItems);
  v.rejected = e.Values("rejected", m.rejected(), edge::kMaxItems);
  v.checkpointing = e.MaybeWord("checkpointing", m.checkpointing());
  v.trainer = e.Value("trainer", m.trainer());
  if (m.has_run()) v.run = e.Value("run", m.run());
  v.fallbacks = e.Values("fallbacks", m.fallbacks(), 1'000);
  v.changes = e.Values("changes", m.changes(), 1'000);
  return e.Done(std::move(v));
}

}  // namespace launch
