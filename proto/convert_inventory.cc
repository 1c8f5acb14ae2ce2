#include <arpa/inet.h>

#include <bit>
#include <cmath>

#include "proto/convert_value.h"
#include "proto/edge.h"
#include "proto/observed.h"

namespace launch {

using edge::Edge;
using edge::Utf8;

namespace {

constexpr int kMostXids = 64;  // in one sample of a GPU
constexpr int kLargestXid = 100'000;
constexpr int kMostRdmaPorts = 256;

bool IsNumericAddress(const std::string& text) {
  // A link-local address may name its interface: fe80::1%eth0.
  const std::string address = text.substr(0, text.find('%'));
  unsigned char buffer[sizeof(in6_addr)];
  return inet_pton(AF_INET, address.c_str(), buffer) == 1 ||
         inet_pton(AF_INET6, address.c_str(), buffer) == 1;
}

}  // namespace

LAUNCH_CONVERT_ENUM(Arch, kAarch64)
LAUNCH_CONVERT_ENUM(DeviceClass, kCpu)
LAUNCH_CONVERT_ENUM(Health, kBad)
LAUNCH_CONVERT_ENUM(LinkKind, kSys)
LAUNCH_CONVERT_ENUM(Containment, kTree)
LAUNCH_CONVERT_ENUM(CoherentMode, kDriver)

pb::Key ToProto(const Key& v) {
  pb::Key m;
  m.set_job(v.job.value);
  m.set_attempt(v.attempt.value);
  return m;
}
Result<Key> FromProto(const pb::Key& m) {
  Edge e;
  Key v;
  v.job = e.Job("job", m.job());
  v.attempt = e.AttemptOf("attempt", m.attempt());
  return e.Done(v);
}

pb::ComputeCapability ToProto(const ComputeCapability& v) {
  pb::ComputeCapability m;
  m.set_major(observed::Int(v.major, 0, 1000));
  m.set_minor(observed::Int(v.minor, 0, 1000));
  return m;
}
Result<ComputeCapability> FromProto(const pb::ComputeCapability& m) {
  Edge e;
  ComputeCapability v;
  v.major = e.Int("major", m.major(), 0, 1000);
  v.minor = e.Int("minor", m.minor(), 0, 1000);
  return e.Done(v);
}

pb::CudaVersion ToProto(const CudaVersion& v) {
  pb::CudaVersion m;
  m.set_major(observed::Int(v.major, 0, 100'000));
  m.set_minor(observed::Int(v.minor, 0, 100'000));
  return m;
}
Result<CudaVersion> FromProto(const pb::CudaVersion& m) {
  Edge e;
  CudaVersion v;
  v.major = e.Int("major", m.major(), 0, 100'000);
  v.minor = e.Int("minor", m.minor(), 0, 100'000);
  return e.Done(v);
}

pb::GpuLink ToProto(const GpuLink& v) {
  pb::GpuLink m;
  m.set_peer_pci(observed::Word(v.peer_pci));
  m.set_kind(ToProto(v.kind));
  if (v.version) m.set_version(observed::Int(*v.version, 0, 1000));
  if (v.count) m.set_count(observed::Int(*v.count, 0, 1000));
  return m;
}
Result<GpuLink> FromProto(const pb::GpuLink& m) {
  Edge e;
  GpuLink v;
  v.peer_pci = e.Word("peer_pci", m.peer_pci());
  v.kind = e.Value("kind", m.kind());
  if (m.has_version()) v.version = e.Int("version", m.version(), 0, 1000);
  if (m.has_count()) v.count = e.Int("count", m.count(), 0, 1000);
  return e.Done(std::move(v));
}

pb::MigSlice ToProto(const MigSlice& v) {
  pb::MigSlice m;
  m.set_uuid(observed::Gpu(v.uuid.value));
  m.set_profile(observed::Word(v.profile));
  m.set_memory_bytes(v.memory_bytes);
  return m;
}
Result<MigSlice> FromProto(const pb::MigSlice& m) {
  Edge e;
  MigSlice v;
  v.uuid = e.Gpu("uuid", m.uuid());
  v.profile = e.MaybeWord("profile", m.profile());
  v.memory_bytes = m.memory_bytes();
  return e.Done(std::move(v));
}

pb::GpuProcess ToProto(const GpuProcess& v) {
  pb::GpuProcess m;
  m.set_pid(observed::Count(v.pid));
  m.set_user(Utf8(v.user));
  m.set_name(Utf8(v.name));
  if (v.bytes) m.set_bytes(*v.bytes);
  return m;
}
Result<GpuProcess> FromProto(const pb::GpuProcess& m) {
  Edge e;
  GpuProcess v;
  v.pid = e.Int64("pid", m.pid(), 0);
  v.user = e.Text("user", m.user());
  v.name = e.Text("name", m.name());
  if (m.has_bytes()) v.bytes = m.bytes();
  return e.Done(std::move(v));
}

pb::GpuDevice ToProto(const GpuDevice& v) {
  pb::GpuDevice m;
  m.set_uuid(observed::Gpu(v.uuid.value));
  m.set_device_class(ToProto(v.device_class));
  m.set_model(observed::Word(v.model));
  m.set_type(observed::Word(v.type));
  if (v.cc) *m.mutable_cc() = ToProto(*v.cc);
  m.set_memory_bytes(v.memory_bytes);
  if (v.reserved_bytes) m.set_reserved_bytes(*v.reserved_bytes);
  m.set_pci(observed::Word(v.pci));
  if (v.numa) m.set_numa(observed::Int(*v.numa, -1, 65'535));
  observed::Each(v.mig, 64, [&](const MigSlice& slice) { *m.add_mig() = ToProto(slice); });
  observed::Each(v.links, edge::kMaxGpusPerNode, [&](const GpuLink& link) {
    if (!link.peer_pci.empty()) *m.add_links() = ToProto(link);
  });
  if (v.ecc) m.set_ecc(*v.ecc);
  if (v.power_limit_w) m.set_power_limit_w(observed::Int(*v.power_limit_w, 0, 100'000));
  m.set_health(ToProto(v.health));
  m.set_why(Utf8(v.why));
  if (v.persistence) m.set_persistence(*v.persistence);
  if (v.pcie != PcieLink{}) *m.mutable_pcie() = ToProto(v.pcie);
  if (v.clocks != ClockLimits{}) *m.mutable_clocks() = ToProto(v.clocks);
  if (v.remapped) *m.mutable_remapped() = ToProto(*v.remapped);
  if (v.fabric) m.set_fabric(ToProto(*v.fabric));
  return m;
}
Result<GpuDevice> FromProto(const pb::GpuDevice& m) {
  Edge e;
  GpuDevice v;
  v.uuid = e.Gpu("uuid", m.uuid());
  v.device_class = e.Value("device_class", m.device_class());
  v.model = e.MaybeWord("model", m.model());
  v.type = e.MaybeWord("type", m.type());
  if (m.has_cc()) v.cc = e.Value("cc", m.cc());
  v.memory_bytes = m.memory_bytes();
  if (m.has_reserved_bytes()) v.reserved_bytes = m.reserved_bytes();
  v.pci = e.MaybeWord("pci", m.pci());
  if (m.has_numa()) v.numa = e.Int("numa", m.numa(), -1, 65'535);
  v.mig = e.Values("mig", m.mig(), 64);
  v.links = e.Values("links", m.links(), edge::kMaxGpusPerNode);
  if (m.has_ecc()) v.ecc = m.ecc();
  if (m.has_power_limit_w())
    v.power_limit_w = e.Int("power_limit_w", m.power_limit_w(), 0, 100'000);
  v.health = e.Value("health", m.health());
  v.why = e.Text("why", m.why());
  if (m.has_persistence()) v.persistence = m.persistence();
  if (m.has_pcie()) v.pcie = e.Value("pcie", m.pcie());
  if (m.has_clocks()) v.clocks = e.Value("clocks", m.clocks());
  if (m.has_remapped()) v.remapped = e.Value("remapped", m.remapped());
  if (m.has_fabric()) v.fabric = e.Value("fabric", m.fabric());
  return e.Done(std::move(v));
}

pb::NetworkAddress ToProto(const NetworkAddress& v) {
  pb::NetworkAddress m;
  m.set_interface(observed::Word(v.interface));
  m.set_address(observed::Word(v.address));
  if (v.mbit) m.set_mbit(observed::Int(*v.mbit, 0, 1'000'000'000));
  if (v.mtu) m.set_mtu(observed::Int(*v.mtu, 0, 1'000'000));
  m.set_rdma(v.rdma);
  return m;
}
Result<NetworkAddress> FromProto(const pb::NetworkAddress& m) {
  Edge e;
  NetworkAddress v;
  v.interface = e.Word("interface", m.interface());
  v.address = e.Word("address", m.address());
  e.Require(IsNumericAddress(m.address()), "address", "is not a numeric IPv4 or IPv6 address");
  if (m.has_mbit()) v.mbit = e.Int("mbit", m.mbit(), 0, 1'000'000'000);
  if (m.has_mtu()) v.mtu = e.Int("mtu", m.mtu(), 0, 1'000'000);
  v.rdma = m.rdma();
  return e.Done(std::move(v));
}

pb::TorchFacts ToProto(const TorchFacts& v) {
  pb::TorchFacts m;
  m.set_version(observed::Word(v.version));
  if (v.cuda) m.set_cuda(observed::Word(*v.cuda));
  if (v.hip) m.set_hip(observed::Word(*v.hip));
  observed::Words(v.arch_list, 256, [&](std::string word) { m.add_arch_list(std::move(word)); });
  if (v.nccl) m.set_nccl(observed::Word(*v.nccl));
  m.set_path(observed::Path(v.path));
  return m;
}
Result<TorchFacts> FromProto(const pb::TorchFacts& m) {
  Edge e;
  TorchFacts v;
  v.version = e.MaybeWord("version", m.version());
  if (m.has_cuda()) v.cuda = e.MaybeWord("cuda", m.cuda());
  if (m.has_hip()) v.hip = e.MaybeWord("hip", m.hip());
  v.arch_list = e.Words("arch_list", m.arch_list(), 256);
  if (m.has_nccl()) v.nccl = e.MaybeWord("nccl", m.nccl());
  v.path = e.Path("path", m.path());
  return e.Done(std::move(v));
}

pb::RuntimeFacts ToProto(const RuntimeFacts& v) {
  pb::RuntimeFacts m;
  m.set_path(observed::Path(v.path));
  m.set_realpath(observed::Path(v.realpath));
  m.set_user(observed::Word(v.user));
  m.set_python(observed::Word(v.python));
  if (v.torch) *m.mutable_torch() = ToProto(*v.torch);
  if (v.sees_gpu) m.set_sees_gpu(*v.sees_gpu);
  if (v.devices) m.set_devices(observed::Int(*v.devices, 0, edge::kMaxGpusPerNode));
  if (v.mps) m.set_mps(*v.mps);
  observed::TextMap(v.packages, 1'000, *m.mutable_packages());
  m.set_says(Utf8(v.says));
  m.set_probed_ms(observed::Ms(ToMs(v.probed)));
  observed::Words(v.built_ops, 256, [&](std::string word) { m.add_built_ops(std::move(word)); });
  return m;
}
Result<RuntimeFacts> FromProto(const pb::RuntimeFacts& m) {
  Edge e;
  RuntimeFacts v;
  v.path = e.Path("path", m.path());
  v.realpath = e.Path("realpath", m.realpath());
  v.user = e.MaybeWord("user", m.user());
  v.python = e.MaybeWord("python", m.python());
  if (m.has_torch()) v.torch = e.Value("torch", m.torch());
  if (m.has_sees_gpu()) v.sees_gpu = m.sees_gpu();
  if (m.has_devices()) v.devices = e.Int("devices", m.devices(), 0, edge::kMaxGpusPerNode);
  if (m.has_mps()) v.mps = m.mps();
  v.packages = e.TextMap("packages", m.packages(), 1'000);
  v.says = e.Text("says", m.says());
  v.probed = e.Wall("probed_ms", m.probed_ms());
  v.built_ops = e.Words("built_ops", m.built_ops(), 256);
  return e.Done(std::move(v));
}

pb::Toolkit ToProto(const Toolkit& v) {
  pb::Toolkit m;
  m.set_nvcc(observed::Word(v.nvcc));
  m.set_home(observed::Path(v.home));
  return m;
}
Result<Toolkit> FromProto(const pb::Toolkit& m) {
  Edge e;
  Toolkit v;
  v.nvcc = e.MaybeWord("nvcc", m.nvcc());
  v.home = e.Path("home", m.home());
  return e.Done(std::move(v));
}

pb::NumaNode ToProto(const NumaNode& v) {
  pb::NumaNode m;
  m.set_id(observed::Int(v.id, 0, 65'535));
  m.set_cores(observed::Int(v.cores, 0, edge::kMaxCpus));
  m.set_memory_bytes(v.memory_bytes);
  return m;
}
Result<NumaNode> FromProto(const pb::NumaNode& m) {
  Edge e;
  NumaNode v;
  v.id = e.Int("id", m.id(), 0, 65'535);
  v.cores = e.Int("cores", m.cores(), 0, edge::kMaxCpus);
  v.memory_bytes = m.memory_bytes();
  return e.Done(v);
}

pb::Limits ToProto(const Limits& v) {
  pb::Limits m;
  if (v.memlock_bytes) m.set_memlock_bytes(*v.memlock_bytes);
  if (v.nofile) m.set_nofile(*v.nofile);
  if (v.nproc) m.set_nproc(*v.nproc);
  return m;
}
Result<Limits> FromProto(const pb::Limits& m) {
  Limits v;
  if (m.has_memlock_bytes()) v.memlock_bytes = m.memlock_bytes();
  if (m.has_nofile()) v.nofile = m.nofile();
  if (m.has_nproc()) v.nproc = m.nproc();
  return v;
}

pb::MachineIdentity ToProto(const MachineIdentity& v) {
  pb::MachineIdentity m;
  m.set_install_id(observed::Word(v.install_id));
  m.set_product_uuid(observed::Word(v.product_uuid));
  observed::Words(v.macs, 256, [&](std::string word) { m.add_macs(std::move(word)); });
  m.set_network_namespace(observed::Word(v.network_namespace));
  return m;
}
Result<MachineIdentity> FromProto(const pb::MachineIdentity& m) {
  Edge e;
  MachineIdentity v;
  v.install_id = e.Word("install_id", m.install_id());
  v.product_uuid = e.MaybeWord("product_uuid", m.product_uuid());
  v.macs = e.Words("macs", m.macs(), 256);
  v.network_namespace = e.MaybeWord("network_namespace", m.network_namespace());
  return e.Done(std::move(v));
}

pb::NodeInventory ToProto(const NodeInventory& v) {
  pb::NodeInventory m;
  m.set_node(Utf8(v.node.value));
  observed::Each(v.addresses, 256,
                 [&](const NetworkAddress& address) { *m.add_addresses() = ToProto(address); });
  m.set_arch(ToProto(v.arch));
  m.set_kernel(observed::Word(v.kernel));
  m.set_glibc(observed::Word(v.glibc));
  m.set_page_size(v.page_size);
  m.set_cores(observed::Int(v.cores, 0, edge::kMaxCpus));
  m.set_threads(observed::Int(v.threads, 0, edge::kMaxCpus));
  observed::Each(v.numa, 4'096, [&](const NumaNode& numa) { *m.add_numa() = ToProto(numa); });
  m.set_memory_bytes(v.memory_bytes);
  m.set_shm_bytes(v.shm_bytes);
  *m.mutable_limits() = ToProto(v.limits);
  observed::Each(v.gpus, edge::kMaxGpusPerNode,
                 [&](const GpuDevice& gpu) { *m.add_gpus() = ToProto(gpu); });
  if (v.driver) m.set_driver(observed::Word(*v.driver));
  if (v.driver_cuda) *m.mutable_driver_cuda() = ToProto(*v.driver_cuda);
  m.set_driver_problem(Utf8(v.driver_problem));
  if (v.toolkit) *m.mutable_toolkit() = ToProto(*v.toolkit);
  observed::Each(v.interpreters, 256,
                 [&](const RuntimeFacts& facts) { *m.add_interpreters() = ToProto(facts); });
  observed::Words(v.container_runtimes, 64,
                  [&](std::string word) { m.add_container_runtimes(std::move(word)); });
  m.set_containment(ToProto(v.containment));
  m.set_coherent(ToProto(v.coherent));
  m.set_simulated(v.simulated);
  m.set_gpu_subset(v.gpu_subset);
  observed::TextMap(v.labels, 1'000, *m.mutable_labels());
  observed::Each(v.base_env, edge::kMaxEnv, [&](const auto& entry) {
    if (observed::IsVariable(entry.first, entry.second))
      (*m.mutable_base_env())[entry.first] = entry.second;
  });
  m.set_revision(v.revision);
  if (v.cuda_runtime) m.set_cuda_runtime(observed::Word(*v.cuda_runtime));
  observed::TextMap(v.tools, 1'000, *m.mutable_tools());
  observed::Each(v.rdma, kMostRdmaPorts, [&](const RdmaPort& port) {
    if (!port.device.empty()) *m.add_rdma() = ToProto(port);
  });
  return m;
}
Result<NodeInventory> FromProto(const pb::NodeInventory& m) {
  Edge e;
  NodeInventory v;
  v.node = e.Node("node", m.node());
  v.addresses = e.Values("addresses", m.addresses(), 256);
  v.arch = e.Value("arch", m.arch());
  v.kernel = e.MaybeWord("kernel", m.kernel());
  v.glibc = e.MaybeWord("glibc", m.glibc());
  v.page_size = m.page_size();
  e.Require(std::has_single_bit(m.page_size()) && m.page_size() >= 512, "page_size",
            "is not a power of two of at least 512");
  v.cores = e.Int("cores", m.cores(), 0, edge::kMaxCpus);
  v.threads = e.Int("threads", m.threads(), 0, edge::kMaxCpus);
  v.numa = e.Values("numa", m.numa(), 4'096);
  v.memory_bytes = m.memory_bytes();
  v.shm_bytes = m.shm_bytes();
  v.limits = e.Value("limits", m.limits());
  v.gpus = e.Values("gpus", m.gpus(), edge::kMaxGpusPerNode);
  e.RequireDistinct("gpus", v.gpus, [](const GpuDevice& gpu) { return gpu.uuid; });
  if (m.has_driver()) v.driver = e.MaybeWord("driver", m.driver());
  if (m.has_driver_cuda()) v.driver_cuda = e.Value("driver_cuda", m.driver_cuda());
  v.driver_problem = e.Text("driver_problem", m.driver_problem());
  if (m.has_toolkit()) v.toolkit = e.Value("toolkit", m.toolkit());
  v.interpreters = e.Values("interpreters", m.interpreters(), 256);
  v.container_runtimes = e.Words("container_runtimes", m.container_runtimes(), 64);
  v.containment = e.Value("containment", m.containment());
  v.coherent = e.Value("coherent", m.coherent());
  v.simulated = m.simulated();
  v.gpu_subset = m.gpu_subset();
  v.labels = e.TextMap("labels", m.labels(), 1'000);
  v.base_env = e.EnvMap("base_env", m.base_env());
  v.revision = m.revision();
  if (m.has_cuda_runtime()) v.cuda_runtime = e.MaybeWord("cuda_runtime", m.cuda_runtime());
  v.tools = e.TextMap("tools", m.tools(), 1'000);
  v.rdma = e.Values("rdma", m.rdma(), kMostRdmaPorts);
  return e.Done(std::move(v));
}

pb::NodeHealth ToProto(const NodeHealth& v) {
  pb::NodeHealth m;
  m.set_health(ToProto(v.health));
  m.set_reason(Utf8(v.reason));
  return m;
}
Result<NodeHealth> FromProto(const pb::NodeHealth& m) {
  Edge e;
  NodeHealth v;
  v.health = e.Value("health", m.health());
  v.reason = e.Text("reason", m.reason());
  return e.Done(std::move(v));
}

// A measurement that is not a finite number is no measurement: it is left out, not invented.
pb::GpuSample ToProto(const GpuSample& v) {
  pb::GpuSample m;
  m.set_uuid(observed::Gpu(v.uuid.value));
  if (v.utilization && std::isfinite(*v.utilization)) m.set_utilization(*v.utilization);
  if (v.used_bytes) m.set_used_bytes(*v.used_bytes);
  if (v.power_w && std::isfinite(*v.power_w)) m.set_power_w(*v.power_w);
  if (v.temperature_c && std::isfinite(*v.temperature_c)) m.set_temperature_c(*v.temperature_c);
  if (v.ours_bytes) m.set_ours_bytes(*v.ours_bytes);
  if (v.foreign_bytes) m.set_foreign_bytes(*v.foreign_bytes);
  observed::Each(v.xids, kMostXids,
                 [&](int xid) { m.add_xids(observed::Int(xid, 0, kLargestXid)); });
  if (v.ecc_uncorrected) m.set_ecc_uncorrected(*v.ecc_uncorrected);
  return m;
}
Result<GpuSample> FromProto(const pb::GpuSample& m) {
  Edge e;
  GpuSample v;
  v.uuid = e.Gpu("uuid", m.uuid());
  if (m.has_utilization()) v.utilization = e.Number("utilization", m.utilization());
  if (m.has_used_bytes()) v.used_bytes = m.used_bytes();
  if (m.has_power_w()) v.power_w = e.Number("power_w", m.power_w());
  if (m.has_temperature_c()) v.temperature_c = e.Number("temperature_c", m.temperature_c());
  if (m.has_ours_bytes()) v.ours_bytes = m.ours_bytes();
  if (m.has_foreign_bytes()) v.foreign_bytes = m.foreign_bytes();
  v.xids = e.Each("xids", m.xids(), kMostXids, [&](const std::string& at, std::int32_t xid) {
    return e.Int(at, xid, 0, kLargestXid);
  });
  if (m.has_ecc_uncorrected()) v.ecc_uncorrected = m.ecc_uncorrected();
  return e.Done(std::move(v));
}

pb::HostSample ToProto(const HostSample& v) {
  pb::HostSample m;
  m.set_load1(std::isfinite(v.load1) ? v.load1 : 0);
  m.set_memory_available_bytes(v.memory_available_bytes);
  return m;
}
Result<HostSample> FromProto(const pb::HostSample& m) {
  Edge e;
  HostSample v;
  v.load1 = e.Number("load1", m.load1());
  v.memory_available_bytes = m.memory_available_bytes();
  return e.Done(v);
}

pb::RankSample ToProto(const RankSample& v) {
  pb::RankSample m;
  *m.mutable_key() = ToProto(v.key);
  m.set_rank(v.rank);
  if (v.step) m.set_step(observed::Count(*v.step));
  if (v.steps) m.set_steps(observed::Count(*v.steps));
  if (v.seconds_per_step && std::isfinite(*v.seconds_per_step)) {
    m.set_seconds_per_step(*v.seconds_per_step);
  }
  if (v.eta_s && std::isfinite(*v.eta_s)) m.set_eta_s(*v.eta_s);
  m.set_rss_bytes(v.rss_bytes);
  m.set_output_age_ms(observed::Count(v.output_age_ms));
  m.set_cpu_ms(v.cpu_ms);
  if (v.allocated_bytes) m.set_allocated_bytes(*v.allocated_bytes);
  if (v.reserved_bytes) m.set_reserved_bytes(*v.reserved_bytes);
  m.set_memory_age_ms(observed::Count(v.memory_age_ms));
  return m;
}
Result<RankSample> FromProto(const pb::RankSample& m) {
  Edge e;
  RankSample v;
  v.key = e.Value("key", m.key());
  v.rank = e.RankOf("rank", m.rank());
  if (m.has_step()) v.step = e.Int64("step", m.step(), 0);
  if (m.has_steps()) v.steps = e.Int64("steps", m.steps(), 0);
  if (m.has_seconds_per_step()) {
    const double seconds = e.Number("seconds_per_step", m.seconds_per_step());
    if (seconds > 0) v.seconds_per_step = seconds;
  }
  if (m.has_eta_s()) v.eta_s = e.Number("eta_s", m.eta_s());
  v.rss_bytes = m.rss_bytes();
  v.output_age_ms = e.Int64("output_age_ms", m.output_age_ms(), 0);
  v.cpu_ms = m.cpu_ms();
  if (m.has_allocated_bytes()) v.allocated_bytes = m.allocated_bytes();
  if (m.has_reserved_bytes()) v.reserved_bytes = m.reserved_bytes();
  v.memory_age_ms = e.Int64("memory_age_ms", m.memory_age_ms(), 0);
  return e.Done(v);
}

pb::HeldGpu ToProto(const std::pair<GpuUuid, std::string>& v) {
  pb::HeldGpu m;
  m.set_uuid(observed::Gpu(v.first.value));
  m.set_why(Utf8(v.second));
  return m;
}
Result<std::pair<GpuUuid, std::string>> FromProto(const pb::HeldGpu& m) {
  Edge e;
  std::pair<GpuUuid, std::string> v;
  v.first = e.Gpu("uuid", m.uuid());
  v.second = e.Text("why", m.why());
  return e.Done(std::move(v));
}

}  // namespace launch
