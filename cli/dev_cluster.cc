#include "cli/dev_cluster.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "cli/daemon.h"
#include "common/file_system.h"
#include "common/first_line.h"
#include "common/inventory_yaml.h"
#include "common/text.h"
#include "common/unique_fd.h"

namespace launch {
namespace {

namespace fs = std::filesystem;
using Steady = std::chrono::steady_clock;
using Say = std::function<void(const std::string&)>;

constexpr Millis kStartLimit{30'000};
constexpr Millis kNodesLimit{60'000};
constexpr Millis kStopGrace{10'000};
constexpr Millis kEndLimit{40'000};  // of a node's ranks, with the proof
constexpr int kMaxDevNodes = 64;

// Looks again until `done` is true or the time is over: another process has to make progress.
template <class Done>
bool Await(Millis limit, Done done) {
  const auto end = Steady::now() + limit;
  while (!done()) {
    if (Steady::now() >= end) return false;
    std::this_thread::sleep_for(Millis(20));
  }
  return true;
}

Result<void> MakeDir(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return FailErrno("make directory " + path, error.value());
  fs::permissions(path, fs::perms::owner_all, error);
  return {};
}

Result<void> WriteText(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".new";
  {
    std::ofstream out(fresh, std::ios::binary);
    out << text;
    out.flush();
    if (!out) return FailErrno("write " + fresh, errno);
  }
  std::error_code error;
  fs::rename(fresh, path, error);
  if (error) return FailErrno("write " + path, error.value());
  return {};
}

// One `dev` verb at a time per state directory.
Result<UniqueFd> LockState(const std::string& dir, const Say& say) {
  LAUNCH_RETURN_IF_ERROR(MakeDir(dir));
  const std::string path = dir + "/dev.lock";
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd) return FailErrno("open " + path, errno);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  say("another `launch dev` works on " + dir + "; waiting for it");
  if (!Await(Millis(180'000), [&] { return flock(fd.get(), LOCK_EX | LOCK_NB) == 0; }))
    return Fail(ErrorCode::kDeadlineExceeded, "another `launch dev` holds " + path);
  return fd;
}

// Physical cores this process may use.
int PhysicalCores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  std::set<std::string> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    std::string siblings = FirstLine("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                                     "/topology/thread_siblings_list");
    cores.insert(siblings.empty() ? std::to_string(cpu) : siblings);
  }
  return std::max(1, static_cast<int>(cores.size()));
}

// Every Nth device: the number of devices is the agent's to find out, and positions that do not
// exist are no devices.
std::string GpuShare(int index, int count) {
  std::string ids;
  for (int id = index; id < 64; id += count) ids += (ids.empty() ? "" : ", ") + std::to_string(id);
  return "[" + ids + "]";
}

std::string IntRange(int first, int last) {
  return std::to_string(first) + "-" + std::to_string(last);
}

std::string Quoted(const std::string& text) { return nlohmann::json(text).dump(); }

}  // namespace

std::string DevCluster::DefaultDir() {
  if (const char* dir = std::getenv("LAUNCH_STATE_DIR"); dir != nullptr && *dir != '\0')
    return fs::absolute(dir).lexically_normal().string();
  if (const char* dir = std::getenv("XDG_STATE_HOME"); dir != nullptr && *dir == '/')
    return std::string(dir) + "/launch/dev";
  const char* home = std::getenv("HOME");
  return std::string(home != nullptr ? home : "/tmp") + "/.local/state/launch/dev";
}

Cluster DevCluster::AsCluster() const {
  return {Status().address, dir_ + "/controller/operator", true};
}

DevStatus DevCluster::Status() const {
  DevStatus status;
  status.state_dir = dir_;
  // The controller's own file stands there while it serves; ours stays, because the agents know no
  // other address.
  status.address = FirstLine(dir_ + "/controller/address");
  if (status.address.empty()) status.address = FirstLine(dir_ + "/controller.address");
  const auto pid_of = [](const std::string& file) {
    const auto record = LiveDaemon(file);
    return record ? record->pid : 0;
  };
  status.controller = {"controller", pid_of(dir_ + "/controller.pid")};
  const std::string agents = dir_ + "/agents/";
  for (const std::string& name :
       PosixFileSystem().List(agents).value_or(std::vector<std::string>())) {
    if (PathExists(agents + name + "/agent.yaml"))
      status.agents.push_back({name, pid_of(agents + name + "/agent.pid")});
  }
  std::sort(status.agents.begin(), status.agents.end(),
            [](const DevProcess& a, const DevProcess& b) {
              // node2 before node10
              return std::pair(a.name.size(), a.name) < std::pair(b.name.size(), b.name);
            });
  return status;
}

// The options that hold: the given ones, else those of the last start.
Result<DevOptions> DevCluster::Settle(const DevOptions& wanted) const {
  DevOptions saved;
  std::ifstream in(dir_ + "/dev.json");
  const auto json = nlohmann::json::parse(in, nullptr, false);
  const bool known = json.is_object();
  if (known) {
    saved.nodes = json.value("nodes", 1);
    saved.inventory = json.value("inventory", "");
    saved.nvml_library = json.value("nvml_library", "");
    saved.sample_period = json.value("sample_period", "");
    saved.proc_root = json.value("proc_root", "");
    saved.interpreters = json.value("interpreters", std::vector<std::string>());
  }
  if (known && wanted == DevOptions()) return saved;
  DevOptions options = wanted;
  if (!options.nodes) options.nodes = 1;
  if (!options.inventory.empty()) {
    LAUNCH_ASSIGN_OR_RETURN(auto nodes, ReadInventoryFile(options.inventory));
    options.nodes = static_cast<int>(nodes.size());
  }
  const DevStatus status = Status();
  bool runs = status.controller.pid != 0;
  for (const DevProcess& agent : status.agents) runs = runs || agent.pid != 0;
  if (known && runs && !(options == saved))
    return Fail(ErrorCode::kFailedPrecondition,
                "the embedded cluster runs with other settings (" + std::to_string(*saved.nodes) +
                    (*saved.nodes == 1 ? " node)" : " nodes)"),
                "`launch dev down` first, or `launch dev up` without flags to keep them");
  return options;
}

Result<std::vector<DevCluster::Node>> DevCluster::PlanNodes(const DevOptions& options) const {
  const int count = *options.nodes;
  if (count < 1 || count > kMaxDevNodes)
    return Fail(ErrorCode::kInvalidArgument,
                "--nodes must be 1 to " + std::to_string(kMaxDevNodes));
  std::vector<NodeInventory> simulated;
  if (!options.inventory.empty()) {
    LAUNCH_ASSIGN_OR_RETURN(simulated, ReadInventoryFile(options.inventory));
  }
  const int cores = PhysicalCores();
  const int share = std::max(1, cores / count);
  std::vector<Node> nodes;
  for (int i = 0; i < count; ++i) {
    Node node;
    node.name = simulated.empty() ? "node" + std::to_string(i + 1)
                                  : simulated[static_cast<std::size_t>(i)].node.value;
    auto& settings = node.settings;
    settings.emplace_back("node", Quoted(node.name));
    settings.emplace_back("state_dir", Quoted(AgentDir(node.name) + "/state"));
    settings.emplace_back("lock_dir", Quoted(dir_ + "/locks"));
    settings.emplace_back("controllers", "[" + Quoted(AsCluster().address) + "]");
    if (!options.nvml_library.empty())
      settings.emplace_back("nvml_library", Quoted(fs::absolute(options.nvml_library).string()));
    if (!options.sample_period.empty())
      settings.emplace_back("sample_period", options.sample_period);
    if (!options.proc_root.empty())
      settings.emplace_back("proc_root", Quoted(fs::absolute(options.proc_root).string()));
    if (!options.interpreters.empty()) {
      std::string list;
      for (const std::string& path : options.interpreters)
        list += (list.empty() ? "" : ", ") + Quoted(fs::absolute(path).string());
      settings.emplace_back("interpreters", "[" + list + "]");
    }
    if (!simulated.empty())
      settings.emplace_back("inventory_file", Quoted(AgentDir(node.name) + "/inventory.yaml"));
    if (simulated.empty() && count > 1) {
      settings.emplace_back("gpu_ids", GpuShare(i, count));
      const int first = i * share % cores;
      settings.emplace_back("cores", IntRange(first, first + share - 1));
    }
    // One port range each: agents of one machine must not hand out the same port twice.
    const int ports = 9000 / count;
    settings.emplace_back("port_range", IntRange(20000 + i * ports, 20000 + (i + 1) * ports - 1));
    nodes.push_back(std::move(node));
  }
  return nodes;
}

Result<void> DevCluster::StartController(const Say& say) {
  const std::string pid_file = dir_ + "/controller.pid";
  if (LiveDaemon(pid_file)) return {};
  LAUNCH_ASSIGN_OR_RETURN(std::string program, ProgramBeside("launch-controller"));
  const std::string state = dir_ + "/controller";
  std::string listen = FirstLine(dir_ + "/controller.address");
  if (listen.empty()) listen = "127.0.0.1:0";
  if (!PathExists(state + "/ca.pem")) {
    LAUNCH_RETURN_IF_ERROR(MakeDir(state));
    LAUNCH_ASSIGN_OR_RETURN(Finished init,
                            RunToEnd({program, "init", "--state", state}, "", kStartLimit));
    if (init.code != 0)
      return Fail(ErrorCode::kInternal, "launch-controller init failed: " + init.errors);
  }
  // A restart keeps the address: the agents know no other.
  const std::string log = dir_ + "/controller.log";
  LAUNCH_ASSIGN_OR_RETURN(
      DaemonRecord record,
      StartDaemon({program, "run", "--state", state, "--listen", listen}, log, pid_file));
  bool died = false;
  const bool up = Await(kStartLimit, [&] {
    died = !LiveDaemon(pid_file);
    if (died) return true;
    if (FirstLine(state + "/address").empty()) return false;
    Result<Client> client = Client::Open(AsCluster());
    return client && client->Status();
  });
  if (died || !up)
    return Fail(ErrorCode::kUnavailable,
                std::string("launch-controller ") + (died ? "ended at once" : "does not answer") +
                    ":\n" + TailOf(log, 2000),
                "the whole log is " + log);
  LAUNCH_RETURN_IF_ERROR(WriteText(dir_ + "/controller.address", AsCluster().address + "\n"));
  say("started launch-controller (pid " + std::to_string(record.pid) + ") at " +
      AsCluster().address);
  return {};
}

Result<void> DevCluster::StartAgent(const Node& node, Client& client, const Say& say) {
  const std::string dir = AgentDir(node.name);
  const std::string pid_file = dir + "/agent.pid";
  if (LiveDaemon(pid_file)) return {};
  LAUNCH_ASSIGN_OR_RETURN(std::string program, ProgramBeside("launch-agent"));
  LAUNCH_RETURN_IF_ERROR(MakeDir(dir));
  std::string yaml;
  for (const auto& [name, value] : node.settings) yaml += name + ": " + value + "\n";
  const std::string config = dir + "/agent.yaml";
  LAUNCH_RETURN_IF_ERROR(WriteText(config, yaml));
  if (!PathExists(dir + "/joined")) {
    LAUNCH_ASSIGN_OR_RETURN(
        TokenMade token, client.CreateToken({"node", node.name, Millis(0), {AsCluster().address}}));
    LAUNCH_ASSIGN_OR_RETURN(Finished join, RunToEnd({program, "join", "--config", config},
                                                    token.token + "\n", kStartLimit));
    if (join.code != 0)
      return Fail(ErrorCode::kInternal,
                  "launch-agent join of " + node.name + " failed: " + join.errors);
    LAUNCH_RETURN_IF_ERROR(WriteText(dir + "/joined", "1\n"));
  }
  LAUNCH_ASSIGN_OR_RETURN(DaemonRecord record, StartDaemon({program, "run", "--config", config},
                                                           dir + "/agent.log", pid_file));
  say("started launch-agent of " + node.name + " (pid " + std::to_string(record.pid) + ")");
  return {};
}

Result<void> DevCluster::ForgetOthers(const std::vector<Node>& nodes, Client& client,
                                      const Say& say) {
  const auto wanted = [&](const std::string& name) {
    return std::any_of(nodes.begin(), nodes.end(), [&](const Node& n) { return n.name == name; });
  };
  LAUNCH_ASSIGN_OR_RETURN(const std::vector<NodeView> views, client.Nodes());
  for (const NodeView& view : views) {
    const std::string& name = view.inventory.node.value;
    if (wanted(name)) continue;
    if (const Result<void> gone = client.ForgetNode(view.inventory.node); !gone)
      say("node " + name + " stays in the list: " + gone.error().message);
  }
  // Its state stays: the node is the same one if it is wanted again.
  for (const DevProcess& agent : Status().agents) {
    std::error_code ignored;
    if (!wanted(agent.name) && agent.pid == 0)
      fs::remove(AgentDir(agent.name) + "/agent.yaml", ignored);
  }
  return {};
}

Result<void> DevCluster::AwaitNodes(const std::vector<Node>& nodes, Client& client) {
  std::string missing;
  std::string dead;
  const bool seen = Await(kNodesLimit, [&] {
    missing.clear();
    const Result<std::vector<NodeView>> views = client.Nodes();
    for (const Node& node : nodes) {
      const bool found = views && std::any_of(views->begin(), views->end(), [&](const NodeView& v) {
                           return v.inventory.node.value == node.name && v.state != "silent" &&
                                  v.state != "unknown";
                         });
      if (!found) missing = node.name;
      if (!found && !LiveDaemon(AgentDir(node.name) + "/agent.pid")) dead = node.name;
    }
    return missing.empty() || !dead.empty();
  });
  if (seen && dead.empty()) return {};
  const std::string node = dead.empty() ? missing : dead;
  const std::string log = AgentDir(node) + "/agent.log";
  return Fail(ErrorCode::kUnavailable,
              "node " + node + (dead.empty() ? " did not report in time" : ": launch-agent ended") +
                  ":\n" + TailOf(log, 2000),
              "the whole log is " + log);
}

Result<void> DevCluster::Up(const DevOptions& wanted, const Say& say) {
  LAUNCH_ASSIGN_OR_RETURN(UniqueFd lock, LockState(dir_, say));
  LAUNCH_ASSIGN_OR_RETURN(DevOptions options, Settle(wanted));
  LAUNCH_RETURN_IF_ERROR(StartController(say));
  LAUNCH_RETURN_IF_ERROR(MakeDir(dir_ + "/locks"));
  LAUNCH_ASSIGN_OR_RETURN(std::vector<Node> nodes, PlanNodes(options));
  if (!options.inventory.empty()) {
    LAUNCH_ASSIGN_OR_RETURN(auto inventories, ReadInventoryFile(options.inventory));
    for (const NodeInventory& inventory : inventories) {
      LAUNCH_RETURN_IF_ERROR(MakeDir(AgentDir(inventory.node.value)));
      LAUNCH_RETURN_IF_ERROR(WriteText(AgentDir(inventory.node.value) + "/inventory.yaml",
                                       FormatInventories({inventory})));
    }
  }
  const nlohmann::json saved = {
      {"nodes", *options.nodes},
      {"inventory", options.inventory.empty() ? "" : fs::absolute(options.inventory).string()},
      {"nvml_library", options.nvml_library},
      {"sample_period", options.sample_period},
      {"proc_root", options.proc_root},
      {"interpreters", options.interpreters}};
  LAUNCH_RETURN_IF_ERROR(WriteText(dir_ + "/dev.json", saved.dump(2) + "\n"));
  LAUNCH_ASSIGN_OR_RETURN(Client client, Client::Open(AsCluster()));
  LAUNCH_RETURN_IF_ERROR(ForgetOthers(nodes, client, say));
  for (const Node& node : nodes) LAUNCH_RETURN_IF_ERROR(StartAgent(node, client, say));
  return AwaitNodes(nodes, client);
}

Result<void> DevCluster::EndJobs(OnJobs on_jobs, const Say& say) {
  const DevStatus status = Status();
  if (status.address.empty()) return {};
  if (status.controller.pid == 0) {
    const bool agents = std::any_of(status.agents.begin(), status.agents.end(),
                                    [](const DevProcess& agent) { return agent.pid != 0; });
    if (!agents || on_jobs == OnJobs::kCancel) return {};
    return Fail(
        ErrorCode::kFailedPrecondition,
        "the controller does not run, so nobody knows whether jobs do",
        "`launch dev up` brings it back; `launch dev down --force` stops the agents anyway");
  }
  LAUNCH_ASSIGN_OR_RETURN(Client client, Client::Open(AsCluster()));
  const auto unfinished = [&]() -> Result<std::vector<JobId>> {
    LAUNCH_ASSIGN_OR_RETURN(std::vector<JobView> jobs, client.Jobs({true, false}));
    std::vector<JobId> ids;
    for (const JobView& job : jobs)
      if (!IsTerminal(job.state)) ids.push_back(job.id);
    return ids;
  };
  LAUNCH_ASSIGN_OR_RETURN(std::vector<JobId> ids, unfinished());
  if (ids.empty()) return {};
  std::string list;
  for (const JobId id : ids) list += (list.empty() ? "" : ", ") + std::to_string(id.value);
  if (on_jobs == OnJobs::kRefuse)
    return Fail(ErrorCode::kFailedPrecondition, "jobs are not done: " + list,
                "wait for them, cancel them, or `launch dev down --force`");
  say("cancelling " + list);
  LAUNCH_ASSIGN_OR_RETURN(std::vector<CancelAnswer> answers, client.Cancel(ids));
  const bool ended = Await(Millis(150'000), [&] {
    const auto left = unfinished();
    return left && left->empty();
  });
  if (!ended)
    return Fail(ErrorCode::kDeadlineExceeded, "jobs did not end: " + list, "`launch status JOB`");
  return {};
}

// Ranks of jobs that the controller does not know: of a store that was put back or lost, of a node
// that was installed anew.
Result<void> DevCluster::EndRest(const Say& say) {
  LAUNCH_ASSIGN_OR_RETURN(const std::string program, ProgramBeside("launch-agent"));
  std::string left;
  std::error_code error;
  for (fs::directory_iterator at(dir_ + "/agents", error), end; !error && at != end;
       at.increment(error)) {
    if (!at->is_directory(error)) continue;
    const std::string node = at->path().filename().string();
    LAUNCH_ASSIGN_OR_RETURN(const Finished done,
                            RunToEnd({program, "end", "--node", node, "--state-dir",
                                      AgentDir(node) + "/state", "--lock-dir", dir_ + "/locks"},
                                     "", kEndLimit));
    std::istringstream lines(done.output);
    for (std::string line; std::getline(lines, line);) say(line + " on " + node);
    if (done.code != 0)
      left += (left.empty() ? "" : "\n") + ("what runs on " + node + " cannot be ended: ") +
              std::string(Trim(done.errors));
  }
  if (!left.empty()) return Fail(ErrorCode::kFailedPrecondition, left);
  return {};
}

Result<void> DevCluster::Down(OnJobs on_jobs, const Say& say) {
  std::error_code ignored;
  if (!fs::exists(dir_, ignored)) return {};
  LAUNCH_ASSIGN_OR_RETURN(UniqueFd lock, LockState(dir_, say));
  LAUNCH_RETURN_IF_ERROR(EndJobs(on_jobs, say));
  const DevStatus status = Status();
  for (const DevProcess& agent : status.agents) {
    LAUNCH_RETURN_IF_ERROR(StopDaemon(AgentDir(agent.name) + "/agent.pid", kStopGrace));
    if (agent.pid != 0) say("stopped launch-agent of " + agent.name);
  }
  LAUNCH_RETURN_IF_ERROR(StopDaemon(dir_ + "/controller.pid", kStopGrace));
  if (status.controller.pid != 0) say("stopped launch-controller");
  return on_jobs == OnJobs::kCancel ? EndRest(say) : Result<void>();
}

}  // namespace launch
