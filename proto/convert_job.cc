#include "proto/convert_value.h"
#include "proto/edge.h"

namespace launch {

using edge::Edge;
using edge::Utf8;

LAUNCH_CONVERT_ENUM(LauncherKind, kNode)
LAUNCH_CONVERT_ENUM(Strategy, kFsdpHybrid)
LAUNCH_CONVERT_ENUM(Offload, kAll)
LAUNCH_CONVERT_ENUM(Precision, kTf32)
LAUNCH_CONVERT_ENUM(DeviceChoice, kCpu)
LAUNCH_CONVERT_ENUM(Trainer, kPlain)
LAUNCH_CONVERT_ENUM(GpuBinding, kPerRank)
LAUNCH_CONVERT_ENUM(PreflightLevel, kFull)
LAUNCH_CONVERT_ENUM(NetworkCheck, kRequire)
LAUNCH_CONVERT_ENUM(OnOom, kFail)
LAUNCH_CONVERT_ENUM(HangAction, kNone)
LAUNCH_CONVERT_ENUM(DependencyKind, kSingleton)

pb::NodeCount ToProto(const NodeCount& v) {
  pb::NodeCount m;
  m.set_min(v.min);
  m.set_max(v.max);
  m.set_automatic(v.automatic);
  return m;
}
Result<NodeCount> FromProto(const pb::NodeCount& m) {
  Edge e;
  NodeCount v;
  v.min = e.Int("min", m.min(), 1, edge::kMaxNodes);
  v.max = e.Int("max", m.max(), 1, edge::kMaxNodes);
  e.Require(m.max() >= m.min(), "max", "is less than min");
  v.automatic = m.automatic();
  return e.Done(v);
}

pb::GpuRequest ToProto(const GpuRequest& v) {
  pb::GpuRequest m;
  m.set_model(Utf8(v.model));
  m.set_count(v.count);
  return m;
}
Result<GpuRequest> FromProto(const pb::GpuRequest& m) {
  Edge e;
  GpuRequest v;
  v.model = e.MaybeWord("model", m.model());
  v.count = e.Int("count", m.count(), 0, edge::kMaxGpusPerNode);
  return e.Done(std::move(v));
}

pb::Amount ToProto(const Amount& v) {
  pb::Amount m;
  m.set_value(v.value);
  m.set_at_least(v.at_least);
  return m;
}
Result<Amount> FromProto(const pb::Amount& m) {
  Edge e;
  e.Require(m.value() >= 1, "value", "must be at least 1");
  return e.Done(Amount{.value = m.value(), .at_least = m.at_least()});
}

pb::EnvEntry ToProto(const EnvEntry& v) {
  pb::EnvEntry m;
  m.set_name(Utf8(v.name));
  if (v.value) m.set_value(*v.value);
  return m;
}
Result<EnvEntry> FromProto(const pb::EnvEntry& m) {
  Edge e;
  EnvEntry v;
  v.name = e.EnvName("name", m.name());
  if (m.has_value()) v.value = e.Bytes("value", m.value());
  return e.Done(std::move(v));
}

pb::BatchSpec ToProto(const BatchSpec& v) {
  pb::BatchSpec m;
  if (v.global) m.set_global(*v.global);
  if (v.micro) m.set_micro(*v.micro);
  if (v.accumulate) m.set_accumulate(*v.accumulate);
  return m;
}
Result<BatchSpec> FromProto(const pb::BatchSpec& m) {
  Edge e;
  BatchSpec v;
  if (m.has_global()) v.global = e.Int64("global", m.global(), 1);
  if (m.has_micro()) v.micro = e.Int64("micro", m.micro(), 1);
  if (m.has_accumulate()) v.accumulate = e.Int64("accumulate", m.accumulate(), 1);
  return e.Done(v);
}

pb::ModelSpec ToProto(const ModelSpec& v) {
  pb::ModelSpec m;
  for (const auto& [key, value] : v.fields) (*m.mutable_fields())[Utf8(key)] = Utf8(value);
  m.set_probe(v.probe);
  return m;
}
Result<ModelSpec> FromProto(const pb::ModelSpec& m) {
  Edge e;
  ModelSpec v;
  v.fields = e.TextMap("fields", m.fields(), 256);
  v.probe = m.probe();
  return e.Done(std::move(v));
}

pb::DatasetSpec ToProto(const DatasetSpec& v) {
  pb::DatasetSpec m;
  m.set_samples(v.samples);
  m.set_epochs(v.epochs);
  return m;
}
Result<DatasetSpec> FromProto(const pb::DatasetSpec& m) {
  Edge e;
  DatasetSpec v;
  v.samples = e.Int64("samples", m.samples(), 1);
  v.epochs = e.Number("epochs", m.epochs());
  e.Require(v.epochs > 0, "epochs", "must be more than 0");
  return e.Done(v);
}

pb::CheckpointSpec ToProto(const CheckpointSpec& v) {
  pb::CheckpointSpec m;
  m.set_dir(v.dir);
  m.set_format(Utf8(v.format));
  m.set_resume(v.resume);
  m.set_complete_marker(Utf8(v.complete_marker));
  if (v.signal) m.set_signal(*v.signal);
  m.set_signal_before_ms(v.signal_before.count());
  return m;
}
Result<CheckpointSpec> FromProto(const pb::CheckpointSpec& m) {
  Edge e;
  CheckpointSpec v;
  v.dir = e.Path("dir", m.dir());
  v.format = e.Choice(
      "format", m.format(),
      {"auto", "torch", "dcp", "deepspeed", "hf", "accelerate", "lightning", "megatron", "marker"});
  v.resume = m.resume();
  if (!m.complete_marker().empty()) {
    v.complete_marker = e.FileName("complete_marker", m.complete_marker());
  }
  e.Require(m.format() != "marker" || !m.complete_marker().empty(), "complete_marker",
            "is needed by format marker");
  if (m.has_signal()) v.signal = e.Signal("signal", m.signal());
  v.signal_before = e.Duration("signal_before_ms", m.signal_before_ms());
  return e.Done(std::move(v));
}

pb::RetrySpec ToProto(const RetrySpec& v) {
  pb::RetrySpec m;
  if (v.max) m.set_max(*v.max);
  for (const std::string& event : v.on_events) m.add_on_events(Utf8(event));
  m.set_backoff_ms(v.backoff.count());
  for (int code : v.recover_on_exit_codes) m.add_recover_on_exit_codes(code);
  m.set_no_progress_max(v.no_progress_max);
  return m;
}
Result<RetrySpec> FromProto(const pb::RetrySpec& m) {
  Edge e;
  RetrySpec v;
  if (m.has_max()) v.max = e.Int("max", m.max(), 0, 1'000'000);
  v.on_events = e.Words("on_events", m.on_events(), 64);
  v.backoff = e.Duration("backoff_ms", m.backoff_ms());
  v.recover_on_exit_codes = e.Ints("recover_on_exit_codes", m.recover_on_exit_codes(), 256, 0, 255);
  v.no_progress_max = e.Int("no_progress_max", m.no_progress_max(), 0, 1'000'000);
  return e.Done(std::move(v));
}

pb::HangSpec ToProto(const HangSpec& v) {
  pb::HangSpec m;
  m.set_after_ms(v.after.count());
  m.set_action(ToProto(v.action));
  return m;
}
Result<HangSpec> FromProto(const pb::HangSpec& m) {
  Edge e;
  HangSpec v;
  v.after = e.Duration("after_ms", m.after_ms());
  v.action = e.Value("action", m.action());
  return e.Done(v);
}

pb::LogsSpec ToProto(const LogsSpec& v) {
  pb::LogsSpec m;
  m.set_split(v.split);
  m.set_cap_bytes(v.cap_bytes);
  return m;
}
Result<LogsSpec> FromProto(const pb::LogsSpec& m) {
  return LogsSpec{.split = m.split(), .cap_bytes = m.cap_bytes()};
}

pb::ArraySpec ToProto(const ArraySpec& v) {
  pb::ArraySpec m;
  for (const int index : v.indices) m.add_indices(index);
  m.set_at_once(v.at_once);
  for (const SweepAxis& axis : v.sweep) {
    pb::SweepAxis& one = *m.add_sweep();
    one.set_name(Utf8(axis.name));
    for (const std::string& value : axis.values) one.add_values(value);
  }
  return m;
}
Result<ArraySpec> FromProto(const pb::ArraySpec& m) {
  Edge e;
  ArraySpec v;
  e.Require(m.indices_size() > 0, "indices", "is empty");
  v.indices = e.Ints("indices", m.indices(), kMaxElements, 0, kMaxIndex);
  e.RequireDistinct("indices", v.indices);
  v.at_once = e.Int("at_once", m.at_once(), 0, kMaxElements);
  std::size_t grid = 1;
  v.sweep = e.Each("sweep", m.sweep(), 64, [&](const std::string& at, const pb::SweepAxis& axis) {
    SweepAxis one;
    one.name = e.EnvName(at + ".name", axis.name());
    e.Require(axis.values_size() > 0, at + ".values", "is empty");
    for (const std::string& value : axis.values()) {
      one.values.push_back(e.Bytes(at + ".values", value));
    }
    grid = std::min<std::size_t>(grid * one.values.size(), kMaxElements + 1);
    return one;
  });
  e.RequireDistinct("sweep", v.sweep, [](const SweepAxis& axis) { return axis.name; });
  e.Require(v.sweep.empty() || grid == v.indices.size(), "sweep", "is not as large as its grid");
  return e.Done(std::move(v));
}

pb::ArrayElement ToProto(const ArrayElement& v) {
  pb::ArrayElement m;
  m.set_array(v.array.value);
  m.set_index(v.index);
  m.set_at_once(v.at_once);
  for (const auto& [name, value] : v.values) (*m.mutable_values())[Utf8(name)] = value;
  return m;
}
Result<ArrayElement> FromProto(const pb::ArrayElement& m) {
  Edge e;
  ArrayElement v;
  v.array = JobId{m.array()};
  v.index = e.Int("index", m.index(), 0, kMaxIndex);
  v.at_once = e.Int("at_once", m.at_once(), 0, kMaxElements);
  v.values = e.EnvMap("values", m.values());
  return e.Done(std::move(v));
}

pb::Dependency ToProto(const Dependency& v) {
  pb::Dependency m;
  m.set_kind(ToProto(v.kind));
  m.set_job(v.job.value);
  return m;
}
Result<Dependency> FromProto(const pb::Dependency& m) {
  Edge e;
  Dependency v;
  v.kind = e.Value("kind", m.kind());
  if (v.kind != DependencyKind::kSingleton) v.job = e.Job("job", m.job());
  return e.Done(v);
}

pb::Mount ToProto(const Mount& v) {
  pb::Mount m;
  m.set_source(v.source);
  m.set_target(v.target);
  m.set_read_only(v.read_only);
  return m;
}
Result<Mount> FromProto(const pb::Mount& m) {
  Edge e;
  Mount v;
  e.Require(!m.source().empty(), "source", "is empty");
  v.source = e.Path("source", m.source());
  v.target = e.Path("target", m.target());
  v.read_only = m.read_only();
  return e.Done(std::move(v));
}

pb::JobSpec ToProto(const JobSpec& v) {
  pb::JobSpec m;
  m.set_name(Utf8(v.name));
  *m.mutable_nodes() = ToProto(v.nodes);
  for (const GpuRequest& request : v.gpus) *m.add_gpus() = ToProto(request);
  m.set_gpus_written(v.gpus_written);
  if (v.total_gpus) m.set_total_gpus(*v.total_gpus);
  if (v.procs_per_node) m.set_procs_per_node(*v.procs_per_node);
  for (int id : v.gpu_ids) m.add_gpu_ids(id);
  if (v.cpus) *m.mutable_cpus() = ToProto(*v.cpus);
  if (v.memory_bytes) *m.mutable_memory_bytes() = ToProto(*v.memory_bytes);
  if (v.shm_bytes) m.set_shm_bytes(*v.shm_bytes);
  if (v.disk_bytes) m.set_disk_bytes(*v.disk_bytes);
  if (v.arch) m.set_arch(ToProto(*v.arch));
  m.set_constraints(Utf8(v.constraints));
  for (const std::string& node : v.nodelist) m.add_nodelist(Utf8(node));
  for (const std::string& node : v.exclude_nodes) m.add_exclude_nodes(Utf8(node));
  m.set_workdir(v.workdir);
  m.set_snapshot(v.snapshot);
  m.set_in_place(v.in_place);
  for (const Mount& mount : v.mounts) *m.add_mounts() = ToProto(mount);
  m.set_venv(v.venv);
  m.set_conda(Utf8(v.conda));
  m.set_python(v.python);
  m.set_image(Utf8(v.image));
  m.set_setup(v.setup);
  m.set_run(v.run);
  m.set_launcher(ToProto(v.launcher));
  for (const EnvEntry& entry : v.env) *m.add_env() = ToProto(entry);
  for (const std::string& secret : v.secrets) m.add_secrets(Utf8(secret));
  m.set_device(ToProto(v.device));
  m.set_strategy(ToProto(v.strategy));
  m.set_offload(ToProto(v.offload));
  m.set_precision(ToProto(v.precision));
  m.set_allow_precision_change(v.allow_precision_change);
  *m.mutable_batch() = ToProto(v.batch);
  *m.mutable_model() = ToProto(v.model);
  if (v.dataset) *m.mutable_dataset() = ToProto(*v.dataset);
  if (v.steps) m.set_steps(*v.steps);
  m.set_trainer(ToProto(v.trainer));
  m.set_gpu_binding(ToProto(v.gpu_binding));
  m.set_local_rank_arg(v.local_rank_arg);
  *m.mutable_checkpoint() = ToProto(v.checkpoint);
  *m.mutable_retry() = ToProto(v.retry);
  m.set_on_oom(ToProto(v.on_oom));
  if (v.time_limit) m.set_time_limit_ms(v.time_limit->count());
  m.set_stop_duration_ms(v.stop_duration.count());
  if (v.requeue_after) m.set_requeue_after_ms(v.requeue_after->count());
  *m.mutable_hang() = ToProto(v.hang);
  m.set_preflight(ToProto(v.preflight));
  m.set_preflight_network(ToProto(v.preflight_network));
  m.set_progress_regex(Utf8(v.progress_regex));
  *m.mutable_logs() = ToProto(v.logs);
  m.set_priority(v.priority);
  for (const auto& [key, value] : v.labels) (*m.mutable_labels())[Utf8(key)] = Utf8(value);
  m.set_debug(v.debug);
  m.set_check_only(v.check_only);
  if (v.array) *m.mutable_array() = ToProto(*v.array);
  if (v.element) *m.mutable_element() = ToProto(*v.element);
  for (const Dependency& one : v.depends_on) *m.add_depends_on() = ToProto(one);
  if (v.begin) m.set_begin_ms(ToMs(*v.begin));
  return m;
}

namespace {

// What a job asks of nodes.
void ReadResources(Edge& e, const pb::JobSpec& m, JobSpec& v) {
  v.nodes = e.Value("nodes", m.nodes());
  v.gpus = e.Values("gpus", m.gpus(), 64);
  v.gpus_written = m.gpus_written();
  if (m.has_total_gpus()) {
    v.total_gpus = e.Int("total_gpus", m.total_gpus(), 1, edge::kMaxRanks);
  }
  if (m.has_procs_per_node()) {
    v.procs_per_node = e.Int("procs_per_node", m.procs_per_node(), 1, 4'096);
  }
  v.gpu_ids = e.Ints("gpu_ids", m.gpu_ids(), edge::kMaxGpusPerNode, 0, edge::kMaxGpusPerNode - 1);
  e.RequireDistinct("gpu_ids", v.gpu_ids);
  if (m.has_cpus()) v.cpus = e.Value("cpus", m.cpus());
  e.Require(!m.has_cpus() || m.cpus().value() <= edge::kMaxCpus, "cpus.value",
            "is more than a node can have");
  if (m.has_memory_bytes()) v.memory_bytes = e.Value("memory_bytes", m.memory_bytes());
  if (m.has_shm_bytes()) v.shm_bytes = m.shm_bytes();
  if (m.has_disk_bytes()) v.disk_bytes = m.disk_bytes();
  if (m.has_arch()) v.arch = e.Value("arch", m.arch());
  v.constraints = e.Text("constraints", m.constraints(), edge::kMaxConstraint);
  const auto name = [&](const std::string& at, const std::string& text) {
    return e.Name(at, text);
  };
  v.nodelist = e.Each("nodelist", m.nodelist(), edge::kMaxNodes, name);
  v.exclude_nodes = e.Each("exclude_nodes", m.exclude_nodes(), edge::kMaxNodes, name);
}

// What a job runs and in which environment.
void ReadCommand(Edge& e, const pb::JobSpec& m, JobSpec& v) {
  v.workdir = e.AbsolutePath("workdir", m.workdir());
  v.snapshot = m.snapshot();
  v.in_place = m.in_place();
  e.Require(!v.snapshot || !v.in_place, "in_place", "contradicts snapshot");
  v.mounts = e.Values("mounts", m.mounts(), 64);
  v.venv = e.MaybeAbsolutePath("venv", m.venv());
  v.conda = e.Bytes("conda", m.conda(), edge::kMaxPath - 1);
  v.python = e.MaybeAbsolutePath("python", m.python());
  v.image = e.MaybeWord("image", m.image());
  const int interpreters = static_cast<int>(!m.venv().empty()) + !m.conda().empty() +
                           !m.python().empty() + !m.image().empty();
  e.Require(interpreters <= 1, "venv", "at most one of venv, conda, python and image may be set");
  v.setup = e.Bytes("setup", m.setup(), edge::kMaxScript);
  e.Require(!m.run().empty(), "run", "is empty");
  v.run = e.Bytes("run", m.run(), edge::kMaxScript);
  v.launcher = e.Value("launcher", m.launcher());
  v.env = e.Values("env", m.env(), edge::kMaxEnv);
  e.RequireDistinct("env", v.env, [](const EnvEntry& entry) { return entry.name; });
  v.secrets = e.Each("secrets", m.secrets(), 256,
                     [&](const std::string& at, const std::string& s) { return e.EnvName(at, s); });
  e.RequireDistinct("secrets", v.secrets);
}

// What the planner reads.
void ReadTraining(Edge& e, const pb::JobSpec& m, JobSpec& v) {
  v.device = e.Value("device", m.device());
  v.strategy = e.Value("strategy", m.strategy());
  v.offload = e.Value("offload", m.offload());
  v.precision = e.Value("precision", m.precision());
  v.allow_precision_change = m.allow_precision_change();
  v.batch = e.Value("batch", m.batch());
  v.model = e.Value("model", m.model());
  if (m.has_dataset()) v.dataset = e.Value("dataset", m.dataset());
  if (m.has_steps()) v.steps = e.Int64("steps", m.steps(), 1);
  v.trainer = e.Value("trainer", m.trainer());
  v.gpu_binding = e.Value("gpu_binding", m.gpu_binding());
  v.local_rank_arg = m.local_rank_arg();
}

// Policies while it runs and after it failed.
void ReadPolicies(Edge& e, const pb::JobSpec& m, JobSpec& v) {
  v.checkpoint = e.Value("checkpoint", m.checkpoint());
  v.retry = e.Value("retry", m.retry());
  v.on_oom = e.Value("on_oom", m.on_oom());
  if (m.has_time_limit_ms()) v.time_limit = e.Duration("time_limit_ms", m.time_limit_ms());
  e.Require(!m.has_time_limit_ms() || m.time_limit_ms() > 0, "time_limit_ms", "is zero");
  v.stop_duration = e.Duration("stop_duration_ms", m.stop_duration_ms());
  if (m.has_requeue_after_ms()) {
    v.requeue_after = e.Duration("requeue_after_ms", m.requeue_after_ms());
  }
  v.hang = e.Value("hang", m.hang());
  v.preflight = e.Value("preflight", m.preflight());
  v.preflight_network = e.Value("preflight_network", m.preflight_network());
  v.progress_regex = e.Text("progress_regex", m.progress_regex(), edge::kMaxPattern);
  v.logs = e.Value("logs", m.logs());
  v.priority = e.Int("priority", m.priority(), 0, 100);
  v.labels = e.TextMap("labels", m.labels(), 256);
  v.debug = m.debug();
  v.check_only = m.check_only();
}

// When it may start, and how often it is there.
void ReadOrder(Edge& e, const pb::JobSpec& m, JobSpec& v) {
  if (m.has_array()) v.array = e.Value("array", m.array());
  if (m.has_element()) v.element = e.Value("element", m.element());
  e.Require(!m.has_array() || !m.has_element(), "array", "is set beside element");
  v.depends_on = e.Values("depends_on", m.depends_on(), kMaxDependencies);
  if (m.has_begin_ms()) v.begin = e.Wall("begin_ms", m.begin_ms());
}

}  // namespace

Result<JobSpec> FromProto(const pb::JobSpec& m) {
  if (m.ByteSizeLong() > edge::kMaxSpec) {
    return Fail(ErrorCode::kInvalidArgument, "is larger than 256 KiB",
                "put long scripts and data into files of the working directory");
  }
  Edge e;
  JobSpec v;
  v.name = e.MaybeWord("name", m.name());
  ReadResources(e, m, v);
  ReadCommand(e, m, v);
  ReadTraining(e, m, v);
  ReadPolicies(e, m, v);
  ReadOrder(e, m, v);
  return e.Done(std::move(v));
}

pb::SubmitContext ToProto(const SubmitContext& v) {
  pb::SubmitContext m;
  m.set_submit_dir(v.submit_dir);
  m.set_user(Utf8(v.user));
  m.set_host_boot_id(Utf8(v.host_boot_id));
  for (const auto& [name, value] : v.caller_env) (*m.mutable_caller_env())[Utf8(name)] = value;
  m.set_active_venv(v.active_venv);
  m.set_active_conda(v.active_conda);
  m.set_workdir_inode(v.workdir_inode);
  m.set_workdir_mtime_ns(v.workdir_mtime_ns);
  m.set_git_commit(Utf8(v.git_commit));
  m.set_git_diff(v.git_diff);
  m.set_snapshot(Utf8(v.snapshot));
  m.set_snapshot_files(v.snapshot_files);
  m.set_snapshot_bytes(v.snapshot_bytes);
  for (const auto& [path, text] : v.files) (*m.mutable_files())[Utf8(path)] = text;
  return m;
}
Result<SubmitContext> FromProto(const pb::SubmitContext& m) {
  Edge e;
  SubmitContext v;
  v.submit_dir = e.AbsolutePath("submit_dir", m.submit_dir());
  v.user = e.MaybeWord("user", m.user());
  v.host_boot_id = e.BootId("host_boot_id", m.host_boot_id());
  v.caller_env = e.EnvMap("caller_env", m.caller_env());
  v.active_venv = e.MaybeAbsolutePath("active_venv", m.active_venv());
  v.active_conda = e.MaybeAbsolutePath("active_conda", m.active_conda());
  v.workdir_inode = m.workdir_inode();
  v.workdir_mtime_ns = m.workdir_mtime_ns();
  v.git_commit = e.MaybeWord("git_commit", m.git_commit());
  v.git_diff = e.Bytes("git_diff", m.git_diff(), kMaxGitDiffBytes);
  v.snapshot = e.MaybeDigest("snapshot", m.snapshot());
  v.snapshot_files = m.snapshot_files();
  v.snapshot_bytes = m.snapshot_bytes();
  e.Require(static_cast<std::size_t>(m.files_size()) <= kMaxContextFiles, "files", "are too many");
  for (const auto& [path, text] : m.files()) {
    e.Require(text.size() <= kMaxContextFileBytes, "files", "holds a file that is too large");
    v.files[e.Path("files", path)] = text;
  }
  return e.Done(std::move(v));
}

}  // namespace launch
