#include "agent/probes/inventory_probe.h"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "agent/probes/child_process.h"
#include "agent/probes/network_probe.h"
#include "agent/probes/toolkit_probe.h"
#include "common/inventory_yaml.h"
#include "common/mig.h"

extern char** environ;

namespace launch::agent {
namespace {

constexpr const char* kDefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

std::string ValueOr(const std::map<std::string, std::string>& env, const std::string& name,
                    const std::string& otherwise) {
  const auto found = env.find(name);
  return found == env.end() || found->second.empty() ? otherwise : found->second;
}

InventoryProbe::Options WithProcOfConfig(InventoryProbe::Options options) {
  options.roots.proc = options.config.proc_root;
  return options;
}

}  // namespace

std::map<std::string, std::string> OwnEnvironment() {
  std::map<std::string, std::string> env;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (const auto equals = text.find('='); equals != std::string::npos)
      env.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return env;
}

std::map<std::string, std::string> BaseEnvironment(const AgentConfig& config,
                                                   const std::map<std::string, std::string>& own) {
  std::map<std::string, std::string> env;
  env["LANG"] = ValueOr(own, "LANG", "C.UTF-8");
  env["TMPDIR"] = ValueOr(own, "TMPDIR", "/tmp");
  env["PATH"] = config.path.empty() ? ValueOr(own, "PATH", kDefaultPath) : config.path;
  if (!config.ld_library_path.empty()) env["LD_LIBRARY_PATH"] = config.ld_library_path;
  if (config.run_as == RunAs::kMultiUser) return env;
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 16384> buffer{};
  if (::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 && found) {
    env["HOME"] = found->pw_dir;
    env["USER"] = found->pw_name;
    env["SHELL"] = *found->pw_shell == '\0' ? "/bin/sh" : found->pw_shell;
  } else {  // a container's user without an account
    env["HOME"] = ValueOr(own, "HOME", "/");
    env["USER"] = std::to_string(::geteuid());
    env["SHELL"] = "/bin/sh";
  }
  return env;
}

InventoryProbe::InventoryProbe(Options options, GpuProbe& gpus, Clock& clock)
    : options_(WithProcOfConfig(std::move(options))),
      gpus_(gpus),
      base_env_(BaseEnvironment(options_.config, OwnEnvironment())),
      python_({.env = base_env_, .scope = options_.scope}, clock) {
  ConfigureHwloc();
}

std::vector<PythonQuestion> InventoryProbe::LastQuestions() {
  const std::lock_guard lock(mutex_);
  return questions_;
}

// False when it says what was known.
bool InventoryProbe::Learn(const PythonQuestion& question, RuntimeFacts facts) {
  const std::lock_guard lock(mutex_);
  const auto known = known_python_.find(question);
  const bool fresh = known == known_python_.end();
  if (!fresh) known->second.probed = facts.probed;
  if (!fresh && known->second == facts) return false;
  known_python_.insert_or_assign(question, std::move(facts));
  return true;
}

bool InventoryProbe::ReadPython() {
  bool learnt = false;
  for (const PythonQuestion& question : LastQuestions())
    learnt = Learn(question, python_.Read(question)) || learnt;
  return learnt;
}

bool InventoryProbe::ImportTorch() {
  bool learnt = false;
  for (const PythonQuestion& question : LastQuestions()) {
    if (python_.Knows(question)) continue;
    learnt = Learn(question, python_.Ask(question)) || learnt;
  }
  return learnt;
}

std::vector<RuntimeFacts> InventoryProbe::Python() {
  const std::lock_guard lock(mutex_);
  std::vector<RuntimeFacts> facts;
  for (const PythonQuestion& question : questions_)
    if (const auto known = known_python_.find(question); known != known_python_.end())
      facts.push_back(known->second);
  return facts;
}

void InventoryProbe::AddInterpreter(const std::string& path, const std::string& user) {
  const std::pair<std::string, std::string> used{path, user};
  if (std::find(used_.begin(), used_.end(), used) == used_.end()) used_.push_back(used);
}

from_node::Samples InventoryProbe::Sample() {
  from_node::Samples samples;
  if (!options_.config.inventory_file.empty()) return samples;
  for (GpuSample& sample : gpus_.Sample())
    if (own_gpus_.contains(sample.uuid)) samples.gpus.push_back(std::move(sample));
  samples.host = SampleHost(options_.roots, coherent_);
  return samples;
}

std::optional<GpuProcessList> InventoryProbe::Processes() {
  if (!options_.config.inventory_file.empty()) return GpuProcessList();
  std::optional<GpuProcessList> lists = gpus_.Processes();
  if (lists)
    std::erase_if(*lists, [&](const auto& list) { return !own_gpus_.contains(list.first); });
  return lists;
}

GpuFacts InventoryProbe::ListGpus() { return gpus_.List(); }

std::vector<PythonQuestion> InventoryProbe::Questions(const NodeInventory& inventory) const {
  std::vector<std::pair<std::string, std::string>> named;
  named.reserve(options_.config.interpreters.size() + 1 + used_.size());
  for (const std::string& path : options_.config.interpreters) named.emplace_back(path, "");
  if (const std::string found = FindProgram("python3", base_env_.at("PATH")); !found.empty())
    named.emplace_back(found, "");
  named.insert(named.end(), used_.begin(), used_.end());
  std::vector<PythonQuestion> questions;
  for (const auto& [path, user] : named) {
    PythonQuestion question{path, user, inventory.driver.value_or("")};
    if (std::find(questions.begin(), questions.end(), question) == questions.end())
      questions.push_back(std::move(question));
  }
  return questions;
}

Result<NodeInventory> InventoryProbe::Probe(std::optional<GpuFacts> listed) {
  const AgentConfig& config = options_.config;
  if (!config.inventory_file.empty()) return SimulatedInventory(config);

  NodeInventory node;
  node.node = config.node;
  GpuFacts gpus = listed ? *std::move(listed) : ListGpus();
  node.gpus = std::move(gpus.gpus);
  node.driver = gpus.driver;
  node.driver_cuda = gpus.driver_cuda;
  node.driver_problem = gpus.problem;
  node.coherent = coherent_ = gpus.coherent;

  HostFacts host = ProbeHost(options_.roots, gpus.coherent);
  node.arch = host.arch;
  node.kernel = host.kernel;
  node.glibc = host.glibc;
  node.page_size = host.page_size;
  node.cores = host.cores;
  node.threads = host.threads;
  node.numa = std::move(host.numa);
  node.memory_bytes = host.memory_bytes;
  node.shm_bytes = host.shm_bytes;
  node.limits = host.limits;
  // Some integrated GPUs tell no memory of their own: they use the host's.
  for (GpuDevice& gpu : node.gpus)
    if (gpu.memory_bytes == 0 && gpu.health != Health::kBad) gpu.memory_bytes = host.memory_bytes;

  node.addresses = ProbeNetwork(options_.roots.sys);
  node.rdma = ProbeRdma(options_.roots.sys);
  const std::string& path = base_env_.at("PATH");
  const char* cuda_home = std::getenv("CUDA_HOME");
  node.toolkit = ProbeToolkit({.path = path, .cuda_home = cuda_home ? cuda_home : ""});
  node.cuda_runtime = ProbeCudaRuntime({.cuda_home = cuda_home ? cuda_home : "",
                                        .library_path = ValueOr(base_env_, "LD_LIBRARY_PATH", "")});
  node.tools = ProbeTools(path);
  node.container_runtimes = ProbeContainerRuntimes(path);
  node.containment = options_.containment;
  node.labels = config.labels;
  node.base_env = base_env_;
  std::vector<PythonQuestion> questions = Questions(node);
  {
    const std::lock_guard lock(mutex_);
    questions_ = std::move(questions);
    std::erase_if(known_python_, [&](const auto& known) {
      return std::find(questions_.begin(), questions_.end(), known.first) == questions_.end();
    });
  }
  node.interpreters = Python();
  Result<NodeInventory> own = TakeSubset(std::move(node), config);
  own_gpus_.clear();
  if (own) ListSlicesAsDevices(*own);  // `gpu_ids` of agent.yaml counts whole GPUs
  if (own)
    for (const GpuDevice& gpu : own->gpus) own_gpus_.insert(gpu.uuid);
  return own;
}

bool SameInventory(NodeInventory a, NodeInventory b) {
  a.revision = b.revision;
  for (NodeInventory* node : {&a, &b})
    for (RuntimeFacts& facts : node->interpreters) facts.probed = WallTime{};
  return a == b;
}

Result<NodeInventory> TakeSubset(NodeInventory whole, const AgentConfig& config) {
  if (config.gpu_ids) {
    std::vector<GpuDevice> taken;
    for (const int id : *config.gpu_ids)
      if (id >= 0 && id < static_cast<int>(whole.gpus.size()))
        taken.push_back(whole.gpus[static_cast<std::size_t>(id)]);
    whole.gpu_subset = taken.size() < whole.gpus.size();
    whole.gpus = std::move(taken);
  }
  if (config.cores) {
    const int end = config.cores->first + config.cores->count;
    if (config.cores->count < 1 || end > whole.cores)
      return Fail(ErrorCode::kFailedPrecondition,
                  "cores " + std::to_string(config.cores->first) + "-" + std::to_string(end - 1) +
                      " are not all on this machine, which has " + std::to_string(whole.cores));
    // Threads and memory go in proportion: what one agent gives away the other must not.
    const auto share = [&](std::uint64_t all) {
      return all / static_cast<std::uint64_t>(whole.cores) *
             static_cast<std::uint64_t>(config.cores->count);
    };
    whole.threads =
        std::max(config.cores->count, whole.threads / whole.cores * config.cores->count);
    whole.memory_bytes = share(whole.memory_bytes);
    whole.cores = config.cores->count;
  }
  return whole;
}

Result<NodeInventory> SimulatedInventory(const AgentConfig& config) {
  LAUNCH_ASSIGN_OR_RETURN(std::vector<NodeInventory> nodes,
                          ReadInventoryFile(config.inventory_file));
  const auto own = std::find_if(nodes.begin(), nodes.end(), [&](const NodeInventory& node) {
    return node.node == config.node;
  });
  if (own == nodes.end() && nodes.size() != 1)
    return Fail(ErrorCode::kNotFound,
                config.inventory_file + " has no node named " + config.node.value);
  NodeInventory node = own == nodes.end() ? nodes.front() : *own;
  node.node = config.node;
  node.simulated = true;
  for (const auto& [name, value] : config.labels) node.labels[name] = value;
  if (node.addresses.empty()) node.addresses = ProbeNetwork("/sys");
  if (node.base_env.empty()) node.base_env = BaseEnvironment(config, OwnEnvironment());
  return node;
}

}  // namespace launch::agent
