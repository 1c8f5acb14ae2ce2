// What a node is and has, as its agent reports it. Values only; nothing here is inferred by us.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"

namespace launch {

enum class Arch { kX86_64, kAarch64 };         // "x86_64", "aarch64" ("arm64" is read as aarch64)
enum class DeviceClass { kCuda, kMps, kCpu };  // "cuda", "mps", "cpu"
enum class Health { kOk, kWarn, kBad };        // bad = never scheduled
enum class LinkKind { kNvlink, kC2c, kPix, kPxb, kPhb, kNode, kSys };
enum class Containment { kCgroup, kCgroup1, kTree };  // cgroup v2; cgroup v1; neither
enum class CoherentMode { kNone, kNuma, kDriver };    // GH200 memory mode
enum class FabricState { kNotStarted, kInProgress, kCompleted, kFailed };  // of an NVSwitch system

struct ComputeCapability {
  int major = 0;
  int minor = 0;
  friend auto operator<=>(const ComputeCapability&, const ComputeCapability&) = default;
};

struct CudaVersion {  // also NCCL and driver versions that are compared by parts
  int major = 0;
  int minor = 0;
  friend auto operator<=>(const CudaVersion&, const CudaVersion&) = default;
};

struct GpuLink {
  std::string peer_pci;  // normalised "0000:01:00.0"
  LinkKind kind = LinkKind::kSys;
  std::optional<int> version;  // NVLink generation
  std::optional<int> count;    // active links to that peer
  friend bool operator==(const GpuLink&, const GpuLink&) = default;
};

struct MigSlice {
  GpuUuid uuid;
  std::string profile;  // "1g.10gb"
  std::uint64_t memory_bytes = 0;
  friend bool operator==(const MigSlice&, const MigSlice&) = default;
};

// What the connection to the host runs at, and what GPU and slot together can do; absent = the
// driver does not say.
struct PcieLink {
  std::optional<int> generation;  // the highest seen: a GPU without work lowers it
  std::optional<int> max_generation;
  std::optional<int> width;  // lanes
  std::optional<int> max_width;
  friend bool operator==(const PcieLink&, const PcieLink&) = default;
};

struct ClockLimits {  // MHz
  std::optional<int> graphics_max;
  std::optional<int> graphics_set;  // the applications clock, which `nvidia-smi -ac` sets
  std::optional<int> memory_max;
  friend bool operator==(const ClockLimits&, const ClockLimits&) = default;
};

struct RemappedRows {  // of the GPU's memory, since it was made
  int correctable = 0;
  int uncorrectable = 0;
  bool pending = false;  // replaced at the next reset
  bool failed = false;   // no spare row is left
  friend bool operator==(const RemappedRows&, const RemappedRows&) = default;
};

// A process of somebody on a GPU, as the driver lists it.
struct GpuProcess {
  std::int64_t pid = 0;
  std::string user;
  std::string name;
  std::optional<std::uint64_t> bytes;
  friend bool operator==(const GpuProcess&, const GpuProcess&) = default;
};

struct GpuDevice {
  GpuUuid uuid;
  DeviceClass device_class = DeviceClass::kCuda;
  std::string model;  // as the driver says: "NVIDIA GH200 480GB"
  std::string type;   // class of configs/gpus.yaml: "GH200"; empty when no rule matches
  std::optional<ComputeCapability> cc;
  std::uint64_t memory_bytes = 0;  // total as the driver reports, never from the name
  std::optional<std::uint64_t> reserved_bytes;
  std::string pci;  // "0000:01:00.0"; empty when unknown. Indices follow PCI order.
  std::optional<int> numa;
  std::vector<MigSlice> mig;
  std::vector<GpuLink> links;
  std::optional<bool> ecc;
  std::optional<int> power_limit_w;
  Health health = Health::kOk;
  std::string why;  // reason of a health that is not ok
  std::optional<bool> persistence;
  PcieLink pcie;
  ClockLimits clocks;
  std::optional<RemappedRows> remapped;
  std::optional<FabricState> fabric;  // absent: not a GPU of an NVSwitch system
  friend bool operator==(const GpuDevice&, const GpuDevice&) = default;
};

// Memory that the driver leaves to processes.
std::uint64_t UsableBytes(const GpuDevice& gpu);

struct NetworkAddress {
  std::string interface;  // "eth0"
  std::string address;    // numeric IPv4 or IPv6
  std::optional<int> mbit;
  std::optional<int> mtu;
  bool rdma = false;
  friend bool operator==(const NetworkAddress&, const NetworkAddress&) = default;
};

// A port of an InfiniBand or RoCE adapter; it needs no address to be there.
struct RdmaPort {
  std::string device;  // "mlx5_0", as NCCL_IB_HCA takes it
  int port = 1;
  std::string layer;  // "InfiniBand", "Ethernet"; empty when unknown
  std::string state;  // "ACTIVE", "DOWN", "INIT", "ARMED"
  std::optional<int> mbit;
  std::string interface;  // network interface of the port; empty when there is none
  std::optional<int> numa;
  friend bool operator==(const RdmaPort&, const RdmaPort&) = default;
};

struct TorchFacts {
  std::string version;              // "2.13.0+cpu"
  std::optional<std::string> cuda;  // "12.6"; absent = CPU-only build
  std::optional<std::string> hip;
  std::vector<std::string> arch_list;  // "sm_90", "compute_90"
  std::optional<std::string> nccl;
  std::string path;  // directory of the torch package
  friend bool operator==(const TorchFacts&, const TorchFacts&) = default;
};

// What a probe found out about one Python interpreter by running it.
struct RuntimeFacts {
  std::string path;  // as asked for
  std::string realpath;
  std::string user;    // who ran the probe
  std::string python;  // "3.11.7"; empty when it did not run
  std::optional<TorchFacts> torch;
  std::optional<bool> sees_gpu;  // torch.cuda.is_available(); absent = import not tried
  std::optional<int> devices;
  std::optional<bool> mps;
  std::map<std::string, std::string> packages;  // deepspeed, accelerate, transformers, lightning...
  std::string says;                             // warning or error text of the import, first lines
  WallTime probed{};
  std::vector<std::string> built_ops;  // of DeepSpeed, built when it was installed: "cpu_adam"
  friend bool operator==(const RuntimeFacts&, const RuntimeFacts&) = default;
};

struct Toolkit {
  std::string nvcc;  // "12.8"
  std::string home;  // "/usr/local/cuda"
  friend bool operator==(const Toolkit&, const Toolkit&) = default;
};

struct NumaNode {
  int id = 0;
  int cores = 0;  // physical; 0 = memory only (GPU memory on Grace)
  std::uint64_t memory_bytes = 0;
  friend bool operator==(const NumaNode&, const NumaNode&) = default;
};

struct Limits {  // absent = unlimited
  std::optional<std::uint64_t> memlock_bytes;
  std::optional<std::uint64_t> nofile;
  std::optional<std::uint64_t> nproc;
  friend bool operator==(const Limits&, const Limits&) = default;
};

// Who a machine is, over agent restarts and re-installs.
struct MachineIdentity {
  std::string install_id;    // made at join: another on every machine
  std::string product_uuid;  // empty when unreadable
  std::vector<std::string> macs;
  std::string network_namespace;  // inode of /proc/self/ns/net: loopback is shared only within one
  friend bool operator==(const MachineIdentity&, const MachineIdentity&) = default;
};

struct NodeInventory {
  NodeId node;
  std::vector<NetworkAddress> addresses;
  Arch arch = Arch::kX86_64;
  std::string kernel;
  std::string glibc;
  std::uint64_t page_size = 4096;
  int cores = 0;  // physical cores this agent may give to ranks
  int threads = 0;
  std::vector<NumaNode> numa;
  std::uint64_t memory_bytes = 0;  // host RAM that ranks may use, without GPU memory nodes
  std::uint64_t shm_bytes = 0;     // size of /dev/shm
  Limits limits;
  std::vector<GpuDevice> gpus;             // in PCI order: the position is the CUDA index, unless
  bool gpu_subset = false;                 // the machine has others, which are not this node's
  std::optional<std::string> driver;       // "570.124.06"
  std::optional<CudaVersion> driver_cuda;  // 12.8
  std::string driver_problem;              // why there are no GPUs although there should be
  std::optional<Toolkit> toolkit;
  std::vector<RuntimeFacts> interpreters;
  std::vector<std::string> container_runtimes;
  Containment containment = Containment::kTree;
  CoherentMode coherent = CoherentMode::kNone;
  bool simulated = false;  // dry exploration; marked in every view
  std::map<std::string, std::string> labels;
  // Clean base of a rank's environment: HOME USER SHELL LANG TMPDIR PATH LD_LIBRARY_PATH.
  std::map<std::string, std::string> base_env;
  std::uint64_t revision = 0;                // grows with each change the agent reports
  std::optional<std::string> cuda_runtime;   // newest libcudart of the system: "12.8.57"
  std::map<std::string, std::string> tools;  // on the ranks' PATH, with versions: "c++", "ninja"
  std::vector<RdmaPort> rdma;                // by device and port
  friend bool operator==(const NodeInventory&, const NodeInventory&) = default;
};

// Worst of the GPU, driver and torch findings of a node with its first reason; ok when all is well.
struct NodeHealth {
  Health health = Health::kOk;
  std::string reason;
  friend bool operator==(const NodeHealth&, const NodeHealth&) = default;
};
NodeHealth HealthOf(const NodeInventory& inventory);

// A measured moment of a node; telemetry, never stored.
struct GpuSample {
  GpuUuid uuid;
  std::optional<double> utilization;  // 0-1
  std::optional<std::uint64_t> used_bytes;
  std::optional<double> power_w;
  std::optional<double> temperature_c;
  // Memory of the processes that the driver lists: of our ranks, and of all others.
  std::optional<std::uint64_t> ours_bytes;
  std::optional<std::uint64_t> foreign_bytes;
  std::vector<int> xids;                         // reported since the sample before, oldest first
  std::optional<std::uint64_t> ecc_uncorrected;  // since the driver was loaded
  friend bool operator==(const GpuSample&, const GpuSample&) = default;
};
struct HostSample {
  double load1 = 0;
  std::uint64_t memory_available_bytes = 0;
  friend bool operator==(const HostSample&, const HostSample&) = default;
};
struct RankSample {
  Key key;
  Rank rank = 0;
  std::optional<std::int64_t> step;
  std::optional<std::int64_t> steps;
  std::optional<double> seconds_per_step;
  std::optional<double> eta_s;
  std::uint64_t rss_bytes = 0;
  std::int64_t output_age_ms = 0;
  std::uint64_t cpu_ms = 0;  // used so far by its processes that live
  // What PyTorch's allocator held on the rank's GPU at the rank's last step, as the rank said.
  std::optional<std::uint64_t> allocated_bytes;
  std::optional<std::uint64_t> reserved_bytes;
  std::int64_t memory_age_ms = 0;  // of these two
  friend bool operator==(const RankSample&, const RankSample&) = default;
};

// Texts of the enums, one table each; Parse* accept exactly what the printer writes.
std::string_view ToString(Arch v);
std::string_view ToString(DeviceClass v);
std::string_view ToString(Health v);
std::string_view ToString(LinkKind v);
std::string_view ToString(Containment v);
std::string_view ToString(CoherentMode v);
std::string_view ToString(FabricState v);
std::string ToString(ComputeCapability v);             // "9.0"
std::string ToString(CudaVersion v);                   // "12.8"
std::optional<Arch> ParseArch(std::string_view text);  // also "arm64", "amd64"
std::optional<DeviceClass> ParseDeviceClass(std::string_view text);
std::optional<Health> ParseHealth(std::string_view text);
std::optional<LinkKind> ParseLinkKind(std::string_view text);
std::optional<Containment> ParseContainment(std::string_view text);
std::optional<CoherentMode> ParseCoherentMode(std::string_view text);
std::optional<FabricState> ParseFabricState(std::string_view text);
std::optional<CudaVersion> ParseVersionPair(
    std::string_view text);  // "12.8" -> {12, 8}; "12" -> {12, 0}

}  // namespace launch
