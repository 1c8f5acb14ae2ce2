#include "agent/run_agent.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <utility>
#include <variant>

#include "agent/core/agent_core.h"
#include "agent/link/chunk_client.h"
#include "agent/link/controller_link.h"
#include "agent/link/exec_links.h"
#include "agent/link/identity_files.h"
#include "agent/probes/activated_environment.h"
#include "agent/probes/child_process.h"
#include "agent/probes/host_probe.h"
#include "agent/probes/image_prober.h"
#include "agent/probes/inventory_probe.h"
#include "agent/probes/network_tester.h"
#include "agent/probes/nvml_probe.h"
#include "agent/probes/probe_thread.h"
#include "agent/probes/runtime_prober.h"
#include "agent/progress/rank_sampler.h"
#include "agent/runner/attempt_dir.h"
#include "agent/runner/cgroup.h"
#include "agent/runner/cgroup_note.h"
#include "agent/runner/kept_logs.h"
#include "agent/runner/log_reader.h"
#include "agent/runner/posix_runner.h"
#include "agent/shared_facts.h"
#include "common/account.h"
#include "common/clock.h"
#include "common/file_system.h"
#include "common/gpu_catalog.h"
#include "common/mailbox.h"
#include "common/pki.h"
#include "common/quoted.h"
#include "common/unique_fd.h"
#include "common/version.h"
#include "proto/convert_node.h"

namespace launch::agent {
namespace {

constexpr std::size_t kToldAtOnce = 256;
constexpr std::size_t kMaxNoted = 64;
constexpr int kBatchesBeforeTimers = 4;

// Written by the signal handler, which may do little else.
std::atomic<int> stop_event{-1};

void OnStopSignal(int) {
  const int saved = errno;
  const std::uint64_t one = 1;
  (void)!::write(stop_event.load(), &one, sizeof one);
  errno = saved;
}

// A handler, not a mask or SIG_IGN: those would be inherited by ranks.
void InstallSignals(int event) {
  stop_event = event;
  struct sigaction stop {};
  stop.sa_handler = OnStopSignal;
  stop.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &stop, nullptr);
  ::sigaction(SIGINT, &stop, nullptr);
  struct sigaction nothing {};
  nothing.sa_handler = [](int) {};
  nothing.sa_flags = SA_RESTART;
  ::sigaction(SIGPIPE, &nothing, nullptr);
  ::sigaction(SIGHUP, &nothing, nullptr);
}

std::string ProgramBeside(const std::string& name) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? name : (self.parent_path() / name).string();
}

// Without a stop of the process; absent where it is not installed or may not look. Never as root:
// it reads what the process wants it to find; and where it ends with what that makes of it.
std::optional<std::string> RunPySpy(std::int64_t pid, const std::optional<LocalAccount>& account,
                                    const std::map<std::string, std::string>& environment,
                                    const MakeProbeScope& scope) {
  constexpr Millis kPatience{5'000};
  const auto path = environment.find("PATH");
  const std::string program = path == environment.end() ? "" : FindProgram("py-spy", path->second);
  if (program.empty()) return std::nullopt;
  const auto said = RunProgram({program, "dump", "--nonblocking", "--pid", std::to_string(pid)},
                               {*path}, kPatience, nullptr, account, scope);
  if (!said || said->status != 0) return std::nullopt;
  return said->output;
}

using AccountOf = std::function<Result<LocalAccount>(const std::string& owner)>;

// The loop's own thread owns everything here.
class AgentLoop {
 public:
  struct Parts {
    const AgentConfig& config;
    Mailbox<Told>& mailbox;
    RankRunner& runner;
    ControllerLink& link;
    ProbeThread& probes;
    RuntimeProber& runtimes;
    ImageProber& images;
    SharedFacts& shared;
    ExecLinks& execs;
    const CgroupHost& cgroups;
    const AccountOf& account_of;
    FileSystem& files;
    Clock& clock;
    int stop_fd = -1;
  };
  AgentLoop(Parts parts, AgentState state) : parts_(parts), state_(std::move(state)) {}

  void Run(const std::vector<Order>& first) {
    for (const Order& order : first) (void)CarryOut(order);
    parts_.shared.SetRunning(RunningOf(state_, parts_.config.state_dir));
    int batches = 0;
    while (!WaitForWork()) {
      const std::vector<Told> batch = parts_.mailbox.TakeBatch(kToldAtOnce, 0);
      for (const Told& event : batch) {
        Hear(event);
        Observe(event);
      }
      // What waits is heard before any deadline is judged, but not for ever.
      batches = batch.empty() ? 0 : batches + 1;
      const auto due = NextDeadline(state_);
      const bool judge = batch.size() < kToldAtOnce || batches >= kBatchesBeforeTimers;
      if (judge && due && *due <= parts_.clock.Now()) {
        batches = 0;
        Hear(told::Tick{});
      }
    }
  }

 private:
  // True when the agent shall end.
  bool WaitForWork() {
    int timeout = -1;
    if (const auto due = NextDeadline(state_)) {
      const std::int64_t wait = (*due - parts_.clock.Now()).count();
      timeout = static_cast<int>(std::clamp<std::int64_t>(wait, 0, INT_MAX));
    }
    pollfd waits[] = {{parts_.mailbox.fd(), POLLIN, 0}, {parts_.stop_fd, POLLIN, 0}};
    (void)::poll(waits, 2, timeout);
    return (waits[1].revents & POLLIN) != 0;
  }

  void Hear(const Told& event) {
    Act(state_, event, parts_.clock.Now(), [this](const Order& order) { return CarryOut(order); });
  }
  Result<void> CarryOut(const Order& order) {
    return std::visit([this](const auto& body) { return Do(body); }, order);
  }
  Result<void> Do(const order::Send& order) {
    parts_.link.Send(order.stream, order.message);
    return {};
  }
  Result<void> Do(const order::CloseLink& order) {
    spdlog::warn("link.close stream={} why={}", order.stream, Quoted(order.why));
    parts_.link.Close(order.stream, order.why);
    return {};
  }
  Result<void> Do(const order::SaveFence& order) {
    auto saved = parts_.runner.SaveFence(order.fence);
    if (!saved) spdlog::error("fence.unsaved why={}", Quoted(saved.error().message));
    return saved;
  }
  Result<void> Do(const order::Accept& order) {
    spdlog::info("allocation.accept key={} ranks={} gpus={}", ToString(order.spec.key),
                 order.spec.ranks.size(), order.spec.gpus.size());
    parts_.runner.Accept(order);
    return {};
  }
  Result<void> Do(const order::StageAllocation& order) {
    parts_.runner.Stage(order);
    return {};
  }
  Result<void> Do(const order::Start& order) {
    spdlog::info("allocation.start key={}", ToString(order.go.key));
    parts_.runner.Start(order);
    return {};
  }
  Result<void> Do(const order::ExtendLease& order) {
    parts_.runner.ExtendLease(order);
    return {};
  }
  Result<void> Do(const order::StopAllocation& order) {
    spdlog::info("allocation.stop key={} cause={} grace_ms={}", ToString(order.key),
                 ToString(order.cause), order.grace.count());
    parts_.runner.Stop(order);
    return {};
  }
  Result<void> Do(const order::Drop& order) {
    spdlog::warn("allocation.drop key={} why={}", ToString(order.key), Quoted(order.why));
    parts_.runner.Drop(order);
    return {};
  }
  Result<void> Do(const order::NoteAcked& order) {
    parts_.runner.NoteAcked(order);
    return {};
  }
  Result<void> Do(const order::Forget& order) {
    spdlog::info("allocation.forget key={}", ToString(order.key));
    parts_.runner.Forget(order);
    return {};
  }

  Result<void> Do(const order::CollectStacks& order) {
    spdlog::info("allocation.stacks key={}", ToString(order.key));
    parts_.runner.CollectStacks(order);
    return {};
  }

  Result<void> Do(const order::OpenExec& order) {
    const auto peer = parts_.link.CurrentPeer();
    const auto identity = ReadIdentity(parts_.files, parts_.config.state_dir);
    if (!peer || !identity) return {};  // the link is gone, and with it whoever asks
    const std::string attempt_dir = AllocationPath(parts_.config.state_dir, order.key);
    const CgroupHost cgroups = NotedCgroups(parts_.files, attempt_dir).value_or(parts_.cgroups);
    ExecWish wish{.controller = peer->address,
                  .session = peer->session,
                  .identity = *identity,
                  .refused = order.refused,
                  .place = {.attempt_dir = attempt_dir,
                            .cgroups = cgroups,
                            .key = order.key,
                            .rank = order.rank,
                            .id = order.exec,
                            .container = std::nullopt},
                  .copy = std::nullopt};
    if (order.copy) {
      wish.copy = {.state_dir = parts_.config.state_dir,
                   .key = order.key,
                   .node = parts_.config.node.value,
                   .copy = *order.copy,
                   .account_of = parts_.account_of};
    }
    const auto found = state_.allocations.find(order.key);
    if (found != state_.allocations.end() && found->second.spec) {
      wish.place.container = found->second.spec->container;
    }
    parts_.execs.Open(std::move(wish));
    return {};
  }

  // What concerns the other threads of an event the core has heard.
  void Observe(const Told& event) {
    bool ranks_changed = false;
    bool rank_ended = false;
    if (const auto* inventory = std::get_if<told::Inventory>(&event)) {
      parts_.runtimes.SetDriver(inventory->inventory.driver.value_or(""));
      parts_.images.SetDriver(inventory->inventory.driver.value_or(""));
    } else if (std::holds_alternative<told::LinkDown>(event)) {
      parts_.execs.CutAll();
    } else if (const auto* up = std::get_if<told::FromController>(&event)) {
      const bool welcome = std::holds_alternative<to_node::Welcome>(up->envelope.body);
      if (welcome && !parts_.config.sample_period)
        parts_.probes.SetSamplePeriod(state_.link.samples);
    } else if (const auto* started = std::get_if<told::StartDone>(&event)) {
      ranks_changed = true;
      if (started->failed)
        spdlog::warn("allocation.start_failed key={} stage={} why={}", ToString(started->key),
                     started->failed->stage, Quoted(started->failed->text));
    } else if (const auto* ended = std::get_if<told::RankEnded>(&event)) {
      ranks_changed = true;
      rank_ended = true;
      spdlog::info("rank.ended key={} rank={} how={}", ToString(ended->report.key),
                   ended->report.rank, Quoted(Describe(ended->report.cause)));
    } else if (const auto* done = std::get_if<told::StopDone>(&event)) {
      ranks_changed = true;
      parts_.probes.RequestProcesses();  // the driver's process list is older than the release
      NoteInterpreter(done->key);
      spdlog::info("allocation.released key={} held={}", ToString(done->key), done->held.size());
    } else if (const auto* notice = std::get_if<told::NodeNotice>(&event)) {
      spdlog::warn("node.notice kind={} text={}", notice->notice.kind, Quoted(notice->notice.text));
    }
    if (ranks_changed) parts_.shared.SetRunning(RunningOf(state_, parts_.config.state_dir));
    if (rank_ended) parts_.probes.RequestSample();  // its last step, while its log is there
  }

  static bool Used(const Allocation& allocation) {
    const bool answered =
        allocation.facts && allocation.facts->runtime && !allocation.facts->runtime->python.empty();
    return answered || std::ranges::any_of(allocation.ranks,
                                           [](const auto& entry) { return entry.second.started; });
  }

  // Interpreters that jobs used here are probed from now on; after the job, because an
  // import of torch would take its cores. One that neither answered nor ran would only hang again.
  void NoteInterpreter(const Key& key) {
    const auto found = state_.allocations.find(key);
    if (found == state_.allocations.end() || !found->second.spec || !Used(found->second)) return;
    const std::string& path = found->second.spec->interpreter;
    // What the plan does not know to be the same for all is not of this node but of one account.
    if (path.empty() || path.starts_with('~') || noted_.size() >= kMaxNoted ||
        !noted_.insert(path).second)
      return;
    // As the account that runs it: another one may see other packages.
    const std::string& owner = found->second.spec->user;
    std::string account;
    if (parts_.config.run_as == RunAs::kMultiUser) {
      const auto mapped = parts_.config.users.find(owner);
      account = mapped == parts_.config.users.end() ? owner : mapped->second;
    }
    parts_.probes.AddInterpreter(path, account);
  }

  Parts parts_;
  AgentState state_;
  std::set<std::string> noted_;
};

// The certificate names the node; a configuration may only repeat it.
Result<void> TakeJoined(AgentConfig& config, const JoinedCluster& joined) {
  if (!config.node.value.empty() && config.node != joined.node)
    return Fail(ErrorCode::kFailedPrecondition,
                config.state_dir + " was joined as node " + joined.node.value +
                    ", the configuration says " + config.node.value,
                "leave `node` out, or use a state_dir of its own");
  config.node = joined.node;
  if (config.controllers.empty()) config.controllers = joined.controllers;
  if (config.controllers.empty())
    return Fail(ErrorCode::kInvalidArgument, "no address of a controller is known",
                "set controllers: [HOST:PORT] in agent.yaml");
  return {};
}

// Absent: every job runs as the agent's own account.
Result<AccountOf> AccountsFor(const AgentConfig& config) {
  if (config.run_as != RunAs::kMultiUser) return AccountOf();
  if (::geteuid() != 0)
    return Fail(ErrorCode::kFailedPrecondition,
                "run_as: multi_user needs root, and this agent is " + OwnAccount(),
                "start it as root, or leave run_as out: it runs the jobs of " + OwnAccount());
  const AccountRules rules{config.users, config.min_uid, config.root_jobs};
  return AccountOf([rules](const std::string& owner) { return AccountOfOwner(owner, rules); });
}

ImageQuestion QuestionOf(const ContainerSpec& container, const ImageCommand& image) {
  ImageQuestion question{.runtime = container.runtime,
                         .program = image.program,
                         .image = container.image,
                         .file = image.command.file,
                         .argv = image.command.argv,
                         .env = {}};
  for (const std::string& entry : image.command.env) {
    const std::size_t equals = entry.find('=');
    question.env[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return question;
}

// Those of the ranks, and of the commands that users run beside them.
std::set<std::int64_t> OurProcesses(const RankSampler& sampler, const ExecLinks& execs,
                                    const std::string& proc_root) {
  std::set<std::int64_t> ours = sampler.processes();
  for (const int leader : execs.Leaders()) {
    const auto tree = UseOfTree(proc_root, leader).pids;
    ours.insert(tree.begin(), tree.end());
  }
  return ours;
}

// Ends the process itself when the loop has run.
Result<void> StartAndRun(AgentConfig config) {
  ConfigureHwloc();
  const UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  InstallSignals(stop.get());
  SystemClock clock;
  PosixFileSystem files;
  LAUNCH_ASSIGN_OR_RETURN(const JoinedCluster joined, ReadJoined(files, config.state_dir));
  LAUNCH_RETURN_IF_ERROR(ReadIdentity(files, config.state_dir));
  LAUNCH_RETURN_IF_ERROR(TakeJoined(config, joined));
  const bool many = config.run_as == RunAs::kMultiUser;
  LAUNCH_ASSIGN_OR_RETURN(const AccountOf account_of, AccountsFor(config));
  const HostRoots roots{.proc = config.proc_root};
  const auto environment = OwnEnvironment();
  Mailbox<Told> mailbox(4096);
  SharedFacts shared;
  // What users' interpreters start is bounded and ends with the question, where users are others.
  std::atomic<const CgroupHost*> groups{nullptr};  // once the runner has them
  const MakeProbeScope apart = [&groups]() -> Result<ProbeScope> {
    const CgroupHost* const host = groups;
    if (host == nullptr) return ProbeScope{};
    LAUNCH_ASSIGN_OR_RETURN(const auto group, ProbeCgroup::Make(*host));
    return ProbeScope{.cgroups = group->procs(), .end = group};
  };
  const MakeProbeScope scope = many ? apart : MakeProbeScope();
  RuntimeProber runtimes(BaseEnvironment(config, environment), clock, scope);
  ImageProber images(clock, scope);
  std::atomic<ProbeThread*> prober{nullptr};  // made after the runner, which may ask it
  const ToldSink tell = [&mailbox](Told event) { mailbox.PushAlways(std::move(event)); };

  PosixRunner runner(
      {.state_dir = config.state_dir,
       .lock_dir = config.lock_dir,
       .shim_path = ProgramBeside("launch-shim"),
       .cgroup_name = CgroupName(config.node, joined.install_id),
       .cgroup_root = config.cgroup_root,
       .port_first = config.ports.first,
       .port_last = config.ports.last,
       .log_cap_bytes = config.log_cap,
       .keep_logs = config.keep_logs,
       .account_of = account_of,
       .codec = {.serialize = SerializeSpec, .parse = ParseSpec},
       .told = tell,
       .gpu_processes = [&] { return shared.Processes(config.proc_root); },
       .ask_gpu_processes =
           [&prober] {
             if (ProbeThread* const probes = prober) probes->RequestProcesses();
           },
       .probe_runtime =
           [&runtimes](const std::string& interpreter, const std::vector<EnvVar>& env,
                       const std::optional<LocalAccount>& account,
                       const std::atomic<bool>& cancel) {
             return runtimes.Ask(interpreter, env, account ? account->name : "", cancel);
           },
       .read_runtime =
           [&runtimes](const std::string& interpreter, const std::vector<EnvVar>& env,
                       const std::optional<LocalAccount>& account,
                       const std::atomic<bool>& cancel) {
             return runtimes.Read(interpreter, env, account ? account->name : "", cancel);
           },
       .environment_of =
           [&scope](const RankSpec& rank, const std::optional<LocalAccount>& account) {
             return EnvironmentOf(rank, account, scope);
           },
       .probe_image =
           [&images](const ContainerSpec& container, const ImageCommand& image,
                     const std::optional<LocalAccount>& account) {
             return images.Ask(QuestionOf(container, image), account);
           },
       .python_words = PythonInImage(),
       .test_network =
           [&scope](const std::string& interpreter, const AllocationSpec& spec,
                    const to_node::NetworkTest& test, const std::optional<LocalAccount>& account,
                    const std::atomic<bool>& cancel) {
             return TestNetwork(interpreter, ProgramBeside("launch-nccl-test"), spec, test, account,
                                cancel, scope);
           },
       .py_spy =
           [&environment, &scope](std::int64_t pid, const std::optional<LocalAccount>& account) {
             return RunPySpy(pid, account, environment, scope);
           },
       .fetch_chunks =
           [settings =
                LinkSettings{.controllers = config.controllers, .state_dir = config.state_dir},
            &files](JobId job, const std::vector<std::string>& digests, const TakeChunk& take,
                    const std::atomic<bool>& cancel) {
             return FetchFromController(settings, files, job, digests, take, cancel);
           },
       .files = &files,
       .clock = &clock});
  groups = &runner.cgroups();
  LAUNCH_ASSIGN_OR_RETURN(const RunnerState found, runner.Recover());
  LAUNCH_RETURN_IF_ERROR(CheckLogsMove(config.state_dir, files));

  AgentIdentity identity{.node = config.node,
                         .version = std::string(Version()),
                         .machine = ProbeMachine(roots),
                         .boot_id = BootId(roots),
                         .instance = RandomHex(16),
                         .account = many ? std::nullopt : std::optional(UserName{OwnAccount()}),
                         .system_processes = {"Xorg", "Xwayland", "gnome-shell",
                                              "nvidia-persistenced", "nv-hostengine"}};
  identity.machine.install_id = joined.install_id;
  Recovery recovery = Recover(std::move(identity), found, clock.Now());
  spdlog::info("agent.start node={} version={} state_dir={} allocations={} containment={}",
               config.node.value, Version(), config.state_dir, found.allocations.size(),
               ToString(runner.containment()));
  if (const std::string why = runner.containment_why(); !why.empty())
    spdlog::warn("agent.containment_lowered level={} why={}", ToString(runner.containment()),
                 Quoted(why));

  NvmlProbe gpus({.library = config.nvml_library, .proc_root = config.proc_root}, clock,
                 GpuCatalog::BuiltIn());
  InventoryProbe inventory(
      {.config = config, .containment = runner.containment(), .roots = roots, .scope = scope}, gpus,
      clock);
  RankSampler sampler(config.proc_root);
  LogReader logs(config.state_dir);
  std::optional<ControllerLink> link(
      std::in_place, LinkSettings{.controllers = config.controllers, .state_dir = config.state_dir},
      files, logs, tell);
  ExecLinks execs;
  ProbeThread probes(
      {.sample_period = config.sample_period.value_or(Millis{5000}),
       .rank_samples =
           [&] {
             const auto [running, ended] = shared.TakeRanks();
             return sampler.Sample(running, ended, clock.Now());
           },
       .our_processes = [&sampler, &execs,
                         &config] { return OurProcesses(sampler, execs, config.proc_root); },
       .on_error =
           [](const Error& error) {
             spdlog::error("inventory.failed why={} hint={}", Quoted(error.message),
                           Quoted(error.hint));
           },
       .on_processes =
           [&shared](GpuProcessSnapshot seen) { shared.SetProcesses(std::move(seen)); }},
      inventory, clock, tell);
  prober = &probes;
  AgentLoop loop({.config = config,
                  .mailbox = mailbox,
                  .runner = runner,
                  .link = *link,
                  .probes = probes,
                  .runtimes = runtimes,
                  .images = images,
                  .shared = shared,
                  .execs = execs,
                  .cgroups = runner.cgroups(),
                  .account_of = account_of,
                  .files = files,
                  .clock = clock,
                  .stop_fd = stop.get()},
                 std::move(recovery.state));
  loop.Run(recovery.orders);
  execs.CutAll();
  link.reset();  // the controller hears of it at once
  RemoveEmptyRoots(runner.cgroups());
  spdlog::info("agent.stop node={}", config.node.value);
  spdlog::shutdown();
  // A probe may wait minutes for an interpreter; nothing here is worth that wait, and ranks must
  // live through any end of the agent anyway.
  EndChildProcesses();
  std::_Exit(0);
}

}  // namespace

Error RunAgent(AgentConfig config) { return StartAndRun(std::move(config)).error(); }

}  // namespace launch::agent
