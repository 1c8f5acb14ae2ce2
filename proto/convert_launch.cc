#include <set>
#include <type_traits>

#include "proto/convert_value.h"
#include "proto/edge.h"
#include "proto/observed.h"

namespace launch {

using edge::Edge;
using edge::Utf8;

LAUNCH_CONVERT_ENUM(StartKind, kPerNode)
LAUNCH_CONVERT_ENUM(StopCause, kHang)
LAUNCH_CONVERT_ENUM(AllocationPhase, kDropped)

pb::EnvVar ToProto(const EnvVar& v) {
  pb::EnvVar m;
  m.set_name(Utf8(v.name));
  m.set_value(v.value);
  return m;
}
Result<EnvVar> FromProto(const pb::EnvVar& m) {
  Edge e;
  EnvVar v;
  v.name = e.EnvName("name", m.name());
  v.value = e.Bytes("value", m.value());
  return e.Done(std::move(v));
}

pb::GeneratedFile ToProto(const GeneratedFile& v) {
  pb::GeneratedFile m;
  m.set_name(Utf8(v.name));
  m.set_bytes(v.bytes);
  return m;
}
Result<GeneratedFile> FromProto(const pb::GeneratedFile& m) {
  Edge e;
  GeneratedFile v;
  v.name = e.FileName("name", m.name());
  v.bytes = e.Text("bytes", m.bytes(), edge::kMaxFile);
  return e.Done(std::move(v));
}

pb::RankSpec ToProto(const RankSpec& v) {
  pb::RankSpec m;
  m.set_rank(v.rank);
  m.set_local_rank(v.local_rank);
  for (const std::string& word : v.argv) m.add_argv(word);
  for (const EnvVar& variable : v.env) *m.add_env() = ToProto(variable);
  for (const GpuUuid& gpu : v.gpus) m.add_gpus(Utf8(gpu.value));
  for (int cpu : v.cpus) m.add_cpus(cpu);
  return m;
}
Result<RankSpec> FromProto(const pb::RankSpec& m) {
  Edge e;
  RankSpec v;
  v.rank = e.RankOf("rank", m.rank());
  v.local_rank = e.RankOf("local_rank", m.local_rank());
  v.argv = e.Each("argv", m.argv(), edge::kMaxArgs,
                  [&](const std::string& at, const auto& word) { return e.Bytes(at, word); });
  e.Require(m.argv_size() > 0, "argv", "is empty");
  // An empty word stands for the interpreter, which the node resolves to an absolute path.
  if (m.argv_size() > 0 && !m.argv(0).empty()) {
    e.Require(m.argv(0).front() == '/', "argv[0]", "is not an absolute path");
  }
  v.env = e.Values("env", m.env(), edge::kMaxEnv);
  for (std::size_t i = 1; i < v.env.size(); ++i) {
    e.Require(v.env[i - 1].name < v.env[i].name, "env", "is not sorted by distinct names");
  }
  v.gpus = e.Gpus("gpus", m.gpus());
  e.RequireDistinct("gpus", v.gpus);
  v.cpus = e.Ints("cpus", m.cpus(), edge::kMaxCpus, 0, edge::kMaxCpus - 1);
  e.RequireDistinct("cpus", v.cpus);
  return e.Done(std::move(v));
}

pb::StopPolicy ToProto(const StopPolicy& v) {
  pb::StopPolicy m;
  if (v.signal) m.set_signal(*v.signal);
  m.set_signal_before_ms(v.signal_before.count());
  m.set_grace_ms(v.grace.count());
  return m;
}
Result<StopPolicy> FromProto(const pb::StopPolicy& m) {
  Edge e;
  StopPolicy v;
  if (m.has_signal()) v.signal = e.Signal("signal", m.signal());
  v.signal_before = e.Duration("signal_before_ms", m.signal_before_ms());
  v.grace = e.Duration("grace_ms", m.grace_ms());
  return e.Done(v);
}

pb::ContainerSpec ToProto(const ContainerSpec& v) {
  pb::ContainerSpec m;
  m.set_runtime(Utf8(v.runtime));
  m.set_image(Utf8(v.image));
  for (const Mount& mount : v.mounts) *m.add_mounts() = ToProto(mount);
  if (v.shm_bytes) m.set_shm_bytes(*v.shm_bytes);
  for (const std::string& name : v.own_env) m.add_own_env(Utf8(name));
  return m;
}
Result<ContainerSpec> FromProto(const pb::ContainerSpec& m) {
  Edge e;
  ContainerSpec v;
  v.runtime = e.Word("runtime", m.runtime());
  v.image = e.Word("image", m.image());
  v.mounts = e.Values("mounts", m.mounts(), 64);
  if (m.has_shm_bytes()) v.shm_bytes = m.shm_bytes();
  v.own_env = e.Each("own_env", m.own_env(), 64,
                     [&](const std::string& at, const std::string& s) { return e.EnvName(at, s); });
  return e.Done(std::move(v));
}

pb::AllocationSpec ToProto(const AllocationSpec& v) {
  pb::AllocationSpec m;
  *m.mutable_key() = ToProto(v.key);
  m.set_node(Utf8(v.node.value));
  m.set_job_name(Utf8(v.job_name));
  m.set_user(Utf8(v.user));
  m.set_workdir(v.workdir);
  m.set_workdir_inode(v.workdir_inode);
  m.set_workdir_mtime_ns(v.workdir_mtime_ns);
  m.set_snapshot(Utf8(v.snapshot));
  m.set_snapshot_always(v.snapshot_always);
  if (v.container) *m.mutable_container() = ToProto(*v.container);
  m.set_interpreter(v.interpreter);
  m.set_interpreter_of(v.interpreter_of);
  m.set_command_word(v.command_word);
  m.set_needs_torch_cuda(v.needs_torch_cuda);
  m.set_preflight(ToProto(v.preflight));
  m.set_setup(v.setup);
  m.set_setup_timeout_ms(v.setup_timeout.count());
  for (const GeneratedFile& file : v.files) *m.add_files() = ToProto(file);
  for (const RankSpec& rank : v.ranks) *m.add_ranks() = ToProto(rank);
  for (const GpuUuid& gpu : v.gpus) m.add_gpus(Utf8(gpu.value));
  for (int index : v.gpu_indices) m.add_gpu_indices(index);
  m.set_cpus(v.cpus);
  if (v.memory_limit_bytes) m.set_memory_limit_bytes(*v.memory_limit_bytes);
  m.set_needs_ports(v.needs_ports);
  *m.mutable_stop() = ToProto(v.stop);
  *m.mutable_logs() = ToProto(v.logs);
  m.set_progress_regex(Utf8(v.progress_regex));
  m.set_checkpoint_dir(v.checkpoint_dir);
  m.set_checkpoint_format(Utf8(v.checkpoint_format));
  m.set_checkpoint_marker(Utf8(v.checkpoint_marker));
  m.set_script(v.script);
  for (const std::string& path : v.inputs) m.add_inputs(path);
  for (const std::string& path : v.arguments) m.add_arguments(path);
  m.set_world_size(v.world_size);
  for (const std::string& name : v.secret_names) m.add_secret_names(Utf8(name));
  if (v.lease) m.set_lease_ms(v.lease->count());
  return m;
}

namespace {

// Ranks against each other and against the allocation they are part of.
void CheckRanks(Edge& e, const AllocationSpec& v) {
  e.Require(!v.ranks.empty(), "ranks", "is empty");
  e.RequireDistinct("ranks", v.ranks, [](const RankSpec& rank) { return rank.rank; });
  e.RequireDistinct("ranks", v.ranks, [](const RankSpec& rank) { return rank.local_rank; });
  const std::set<GpuUuid> gpus(v.gpus.begin(), v.gpus.end());
  bool has_first = false;
  for (const RankSpec& rank : v.ranks) {
    e.Require(rank.rank < v.world_size, "world_size", "is not above every rank");
    has_first = has_first || rank.rank == 0;
    for (const GpuUuid& gpu : rank.gpus) {
      e.Require(gpus.contains(gpu), "ranks", "a rank has a GPU that the allocation has not");
    }
  }
  e.Require(has_first || !v.needs_ports, "needs_ports", "is set where rank 0 is not");
}

}  // namespace

Result<AllocationSpec> FromProto(const pb::AllocationSpec& m) {
  Edge e;
  AllocationSpec v;
  v.key = e.Value("key", m.key());
  v.node = e.Node("node", m.node());
  v.job_name = e.MaybeWord("job_name", m.job_name());
  v.user = e.Name("user", m.user());
  v.workdir = e.AbsolutePath("workdir", m.workdir());
  v.workdir_inode = m.workdir_inode();
  v.workdir_mtime_ns = m.workdir_mtime_ns();
  v.snapshot = e.MaybeDigest("snapshot", m.snapshot());
  v.snapshot_always = m.snapshot_always();
  if (m.has_container()) v.container = e.Value("container", m.container());
  v.interpreter = e.MaybeAbsolutePath("interpreter", m.interpreter());
  v.interpreter_of = e.Path("interpreter_of", m.interpreter_of());
  v.command_word = e.Path("command_word", m.command_word());
  v.needs_torch_cuda = m.needs_torch_cuda();
  v.preflight = e.Value("preflight", m.preflight());
  v.setup = e.Bytes("setup", m.setup(), edge::kMaxScript);
  v.setup_timeout = e.Duration("setup_timeout_ms", m.setup_timeout_ms());
  v.files = e.Values("files", m.files(), 256);
  e.RequireDistinct("files", v.files, [](const GeneratedFile& file) { return file.name; });
  v.ranks = e.Values("ranks", m.ranks(), 4'096);
  v.gpus = e.Gpus("gpus", m.gpus());
  e.RequireDistinct("gpus", v.gpus);
  v.gpu_indices =
      e.Ints("gpu_indices", m.gpu_indices(), edge::kMaxGpusPerNode, 0, edge::kMaxGpusPerNode - 1);
  e.RequireDistinct("gpu_indices", v.gpu_indices);
  e.Require(m.gpus_size() == m.gpu_indices_size(), "gpu_indices", "has another length than gpus");
  v.cpus = e.Int("cpus", m.cpus(), 0, edge::kMaxCpus);
  if (m.has_memory_limit_bytes()) v.memory_limit_bytes = m.memory_limit_bytes();
  e.Require(!m.has_memory_limit_bytes() || m.memory_limit_bytes() > 0, "memory_limit_bytes",
            "is zero");
  v.needs_ports = m.needs_ports();
  v.stop = e.Value("stop", m.stop());
  v.logs = e.Value("logs", m.logs());
  v.progress_regex = e.Text("progress_regex", m.progress_regex(), edge::kMaxPattern);
  v.checkpoint_dir = e.Path("checkpoint_dir", m.checkpoint_dir());
  v.script = e.Path("script", m.script());
  const auto path = [&](const std::string& at, const auto& p) { return e.AbsolutePath(at, p); };
  v.inputs = e.Each("inputs", m.inputs(), 256, path);
  v.arguments = e.Each("arguments", m.arguments(), 256, path);
  v.checkpoint_format = e.MaybeWord("checkpoint_format", m.checkpoint_format());
  if (!m.checkpoint_marker().empty()) {
    v.checkpoint_marker = e.FileName("checkpoint_marker", m.checkpoint_marker());
  }
  if (m.has_lease_ms()) v.lease = e.Duration("lease_ms", m.lease_ms());
  v.world_size = e.Int("world_size", m.world_size(), 1, edge::kMaxRanks);
  v.secret_names = e.Each("secret_names", m.secret_names(), 256,
                          [&](const std::string& at, const auto& s) { return e.EnvName(at, s); });
  e.RequireDistinct("secret_names", v.secret_names);
  if (e.ok()) CheckRanks(e, v);
  return e.Done(std::move(v));
}

pb::OurSignal ToProto(const OurSignal& v) {
  pb::OurSignal m;
  m.set_signal(v.signal);
  m.set_at_ms(ToMs(v.at));
  m.set_why(Utf8(v.why));
  return m;
}
Result<OurSignal> FromProto(const pb::OurSignal& m) {
  Edge e;
  OurSignal v;
  v.signal = e.Signal("signal", m.signal());
  v.at = e.Boot("at_ms", m.at_ms());
  v.why = e.Text("why", m.why());
  return e.Done(std::move(v));
}

namespace {

constexpr int kMostKernelLines = 64;

void SetCause(const ExitCause& cause, pb::ExitReport& m) {
  std::visit(
      [&m](const auto& end) {
        using T = std::decay_t<decltype(end)>;
        if constexpr (std::is_same_v<T, Exited>) {
          m.mutable_exited()->set_code(observed::Int(end.code, 0, 255));
        } else if constexpr (std::is_same_v<T, Signalled>) {
          m.mutable_signalled()->set_signal(observed::Int(end.signal, 1, 64));
          m.mutable_signalled()->set_core(end.core);
        } else if constexpr (std::is_same_v<T, OutOfMemory>) {
          m.mutable_out_of_memory()->set_scope(Utf8(end.scope));
          m.mutable_out_of_memory()->set_limit_bytes(end.limit_bytes);
          m.mutable_out_of_memory()->set_peak_bytes(end.peak_bytes);
        } else if constexpr (std::is_same_v<T, FailedToStart>) {
          const std::string stage = observed::Word(end.stage);
          m.mutable_failed_to_start()->set_stage(stage.empty() ? "unknown" : stage);
          m.mutable_failed_to_start()->set_error_number(observed::Int(end.error_number, 0, 4'095));
          m.mutable_failed_to_start()->set_text(Utf8(end.text));
        } else {
          static_assert(std::is_same_v<T, UnknownEnd>);
          m.mutable_unknown()->set_why(Utf8(end.why));
        }
      },
      cause);
}

ExitCause ReadCause(Edge& e, const pb::ExitReport& m) {
  switch (m.cause_case()) {
    case pb::ExitReport::kExited:
      return Exited{.code = e.Int("exited.code", m.exited().code(), 0, 255)};
    case pb::ExitReport::kSignalled:
      return Signalled{.signal = e.Signal("signalled.signal", m.signalled().signal()),
                       .core = m.signalled().core()};
    case pb::ExitReport::kOutOfMemory:
      return OutOfMemory{.scope = e.Choice("out_of_memory.scope", m.out_of_memory().scope(),
                                           {"rank", "job", "host"}),
                         .limit_bytes = m.out_of_memory().limit_bytes(),
                         .peak_bytes = m.out_of_memory().peak_bytes()};
    case pb::ExitReport::kFailedToStart:
      return FailedToStart{.stage = e.Word("failed_to_start.stage", m.failed_to_start().stage()),
                           .error_number = e.Int("failed_to_start.error_number",
                                                 m.failed_to_start().error_number(), 0, 4'095),
                           .text = e.Text("failed_to_start.text", m.failed_to_start().text())};
    case pb::ExitReport::kUnknown:
      return UnknownEnd{.why = e.Text("unknown.why", m.unknown().why())};
    case pb::ExitReport::CAUSE_NOT_SET:
      break;
  }
  e.Require(false, "cause", "is not set");
  return UnknownEnd{};
}

}  // namespace

pb::ExitReport ToProto(const ExitReport& v) {
  pb::ExitReport m;
  *m.mutable_key() = ToProto(v.key);
  m.set_rank(v.rank);
  m.set_boot_id(Utf8(v.boot_id));
  SetCause(v.cause, m);
  observed::Each(v.our_signals, 256,
                 [&](const OurSignal& signal) { *m.add_our_signals() = ToProto(signal); });
  m.set_started_ms(observed::Ms(ToMs(v.started)));
  m.set_ended_ms(observed::Ms(ToMs(v.ended)));
  m.set_user_ms(observed::Count(v.user_ms));
  m.set_system_ms(observed::Count(v.system_ms));
  m.set_max_rss_bytes(v.max_rss_bytes);
  m.set_oom_kills(v.oom_kills);
  m.set_log_end(v.log_end);
  observed::Each(v.kernel_lines, kMostKernelLines,
                 [&](const std::string& line) { m.add_kernel_lines(Utf8(line)); });
  return m;
}
Result<ExitReport> FromProto(const pb::ExitReport& m) {
  Edge e;
  ExitReport v;
  v.key = e.Value("key", m.key());
  v.rank = e.RankOf("rank", m.rank());
  v.boot_id = e.BootId("boot_id", m.boot_id());
  v.cause = ReadCause(e, m);
  v.our_signals = e.Values("our_signals", m.our_signals(), 256);
  v.started = e.Boot("started_ms", m.started_ms());
  v.ended = e.Boot("ended_ms", m.ended_ms());
  v.user_ms = e.Int64("user_ms", m.user_ms(), 0);
  v.system_ms = e.Int64("system_ms", m.system_ms(), 0);
  v.max_rss_bytes = m.max_rss_bytes();
  v.oom_kills = m.oom_kills();
  v.log_end = m.log_end();
  v.kernel_lines = e.Texts("kernel_lines", m.kernel_lines(), kMostKernelLines);
  return e.Done(std::move(v));
}

pb::PortBlock ToProto(const PortBlock& v) {
  pb::PortBlock m;
  m.set_first(v.first);
  m.set_count(v.count);
  return m;
}
Result<PortBlock> FromProto(const pb::PortBlock& m) {
  Edge e;
  PortBlock v;
  v.first = e.Port("first", m.first());
  v.count = e.Int("count", m.count(), 1, 65'535);
  e.Require(m.count() <= 65'536 - static_cast<std::int64_t>(m.first()), "count",
            "reaches beyond port 65535");
  return e.Done(v);
}

pb::RankStatus ToProto(const RankStatus& v) {
  pb::RankStatus m;
  m.set_rank(v.rank);
  m.set_started(v.started);
  m.set_pid(observed::Count(v.pid));
  if (v.exit) *m.mutable_exit() = ToProto(*v.exit);
  return m;
}
Result<RankStatus> FromProto(const pb::RankStatus& m) {
  Edge e;
  RankStatus v;
  v.rank = e.RankOf("rank", m.rank());
  v.started = m.started();
  v.pid = e.Int64("pid", m.pid(), 0);
  if (m.has_exit()) v.exit = e.Value("exit", m.exit());
  e.Require(!m.has_exit() || m.exit().rank() == m.rank(), "exit.rank", "is another rank");
  return e.Done(std::move(v));
}

pb::AllocationStatus ToProto(const AllocationStatus& v) {
  pb::AllocationStatus m;
  *m.mutable_key() = ToProto(v.key);
  m.set_digest(Utf8(v.digest));
  m.set_phase(ToProto(v.phase));
  if (v.ports) *m.mutable_ports() = ToProto(*v.ports);
  observed::Each(v.ranks, 4'096, [&](const RankStatus& rank) {
    if (rank.rank >= 0) *m.add_ranks() = ToProto(rank);  // `setup` has a directory like a rank
  });
  for (const GpuUuid& gpu : v.gpus) m.add_gpus(Utf8(gpu.value));
  return m;
}
Result<AllocationStatus> FromProto(const pb::AllocationStatus& m) {
  Edge e;
  AllocationStatus v;
  v.key = e.Value("key", m.key());
  v.digest = e.MaybeDigest("digest", m.digest());  // empty: its accept record cannot be read
  v.phase = e.Value("phase", m.phase());
  if (m.has_ports()) v.ports = e.Value("ports", m.ports());
  v.ranks = e.Values("ranks", m.ranks(), 4'096);
  e.RequireDistinct("ranks", v.ranks, [](const RankStatus& rank) { return rank.rank; });
  for (const RankStatus& rank : v.ranks) {
    e.Require(!rank.exit || rank.exit->key == v.key, "ranks", "an exit is of another attempt");
  }
  v.gpus = e.Gpus("gpus", m.gpus());
  e.RequireDistinct("gpus", v.gpus);
  return e.Done(std::move(v));
}

}  // namespace launch
