// RunnerLoop: one shim per rank, and one for `setup`.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "agent/runner/account_files.h"
#include "agent/runner/container.h"
#include "agent/runner/process_limits.h"
#include "agent/runner/rank_env.h"
#include "agent/runner/runner_loop.h"
#include "agent/runner/shim_launch.h"
#include "agent/runner/staging.h"
#include "common/failpoint.h"
#include "common/foreign_file.h"
#include "common/planted.h"

namespace launch::agent {
namespace {

constexpr std::size_t kSetupTailBytes = 4096;
// As long as a file server's restart may take.
constexpr Millis kCommandsLimit{60'000};
static_assert(shim::kWhyLease == static_cast<std::uint32_t>(StopCause::kLease));

FailedToStart AsFailure(const Error& error, std::string stage) {
  return FailedToStart{std::move(stage), 0, error.message};
}

std::string TailOf(const std::string& path) {
  const auto file = OpenRegular(path, Links::kRefuse);
  struct stat info {};
  if (!file || ::fstat(file->get(), &info) != 0) return {};
  const auto size = static_cast<std::uint64_t>(info.st_size);
  std::string tail = ReadRange(file->get(), size - std::min<std::uint64_t>(size, kSetupTailBytes),
                               kSetupTailBytes);
  // Who writes on at his own place behind a file that another one has cut leaves a hole.
  std::erase(tail, '\0');
  return tail;
}

}  // namespace

// The mistake that other launchers make: with the agent goes what a rank prints.
UniqueFd RunnerLoop::CarryOutput(const std::string& path) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  auto state = std::make_shared<WorkerState>();
  auto work = [from = ends[0], path, state] {
    const UniqueFd reader(from);
    const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    char bytes[4096];
    for (pollfd wait{from, POLLIN, 0}; !state->cancel;) {
      if (::poll(&wait, 1, 10) <= 0) continue;
      const ssize_t got = ::read(from, bytes, sizeof bytes);
      if (got <= 0 || ::write(file.get(), bytes, static_cast<std::size_t>(got)) != got) break;
    }
    state->done = true;
  };
  workers_.push_back({std::thread(std::move(work)), state});
  return UniqueFd(ends[1]);
}

Result<void> RunnerLoop::SpawnShim(AllocationRun& run, RankRun& rank, const ShimWish& wish) {
  const std::string directory = run.dir.RankPath(rank.rank);
  WatchRank(run, rank.rank);
  ShimStart start;
  start.shim_path = options_.shim_path;
  start.directory = directory;
  start.split_streams = run.spec->logs.split;
  shim::SpecBlock& block = start.spec.block;
  block.job = run.key.job.value;
  block.attempt = run.key.attempt.value;
  block.rank = rank.rank;
  if (options_.no_new_privileges) block.flags |= shim::kNoNewPrivs;
  if (run.account) {
    block.flags |= shim::kSwitchIds;
    block.uid = run.account->uid;
    block.gid = run.account->gid;
    block.umask = kAccountUmask;
    for (const std::uint32_t group : run.account->groups) {
      if (block.group_count < shim::kMaxGroups) block.groups[block.group_count++] = group;
    }
    start.account = run.account;
    // Whoever has a lock can give it up for all who share it, and hand it to a process that no stop
    // of the job reaches. Without control groups it is what tells the job's processes.
    if (run.cgroup.level() != Containment::kTree) block.flags |= shim::kShimKeepsLocks;
  }
  for (const int cpu : wish.cpus) {
    if (cpu < 0 || cpu >= shim::kMaxCpus) continue;
    block.flags |= shim::kBindCpus;
    block.cpus[cpu / 8] = static_cast<std::uint8_t>(block.cpus[cpu / 8] | (1u << (cpu % 8)));
  }
  block.nofile = options_.nofile_limit;
  block.memlock = shim::kUnlimited;  // RDMA registers memory by locking it
  block.core = 0;
  if (run.lease_end && rank.rank != kSetupRank) {
    block.lease_end_ms = ToMs(*run.lease_end);
    block.lease_grace_ms = run.spec->stop.grace.count();
  }
  start.spec.cwd = run.spec->workdir;
  start.spec.shim_cgroups = run.cgroup.ShimProcs();
  start.spec.rank_cgroups = run.cgroup.RankProcs(rank.rank);
  start.spec.argv = wish.argv;
  start.spec.env = wish.env;
  if (run.lock) start.locks.push_back(run.lock->fd());
  for (const FileLock& lock : run.gpu_locks) start.locks.push_back(lock.fd());
  if (wish.with_ports && run.held_ports) {
    for (const UniqueFd& port : run.held_ports->sockets) start.ports.push_back(port.get());
  }
  UniqueFd carried;
  if (Planted(Bug::kPipedOutput)) carried = CarryOutput(directory + "/out");
  start.output = carried.get();
  // Its own groups, and those that it has from us.
  std::vector<std::string> groups;
  for (const std::string& file : start.spec.rank_cgroups)
    groups.push_back(std::filesystem::path(file).parent_path().string());
  rank.limit_hits = ProcessLimitHits(::getpid(), groups);
  LAUNCH_ASSIGN_OR_RETURN(StartedShim started, StartShim(start));
  rank.spawned = true;
  rank.shim_pid = started.pid;
  rank.shim = std::move(started.pidfd);
  WatchShim(rank);
  return {};
}

CommandWish RunnerLoop::WishOf(const AllocationRun& run, Rank rank, ShimWish shim) const {
  CommandWish wish{.rank = rank, .shim = std::move(shim), .container = {}};
  if (!run.spec->container) return wish;
  const Rank own = rank < 0 ? run.spec->ranks.front().rank : rank;
  wish.container = {.container = *run.spec->container,
                    .name = ContainerName(run.key, rank),
                    .workdir = run.spec->workdir,
                    .attempt_dir = run.dir.path(),
                    .own_dir = run.account ? run.dir.OwnPath(own) : "",
                    .images_dir = run.images_dir,
                    .lock = run.dir.ContainerLockPath(),
                    .gpus = !run.spec->gpus.empty(),
                    .host = HostFor(run.account),
                    .argv = {},
                    .env = {}};
  return wish;
}

// The Python of the job's image as its first rank would start it; absent: there is no image.
std::optional<CommandWish> RunnerLoop::ImageWish(const AllocationRun& run) const {
  if (!run.spec->container || run.spec->ranks.empty() || options_.python_words.empty()) return {};
  const RankSpec& first = run.spec->ranks.front();
  ShimWish shim;
  shim.argv = options_.python_words;
  shim.env = BuildRankEnv(
      first.env, {}, {},
      {.attempt = run.dir.path(), .own = run.dir.OwnPath(first.rank), .account = run.account});
  CommandWish wish = WishOf(run, first.rank, std::move(shim));
  wish.container->name += "-probe";
  return wish;
}

// The marker goes before any rank is there: every node of the job has seen it.
void RunnerLoop::FindRankCommands(AllocationRun& run, const order::Start& order) {
  std::vector<CommandWish> wishes;
  for (const RankSpec& spec : run.spec->ranks) {
    ShimWish shim;
    shim.env = BuildRankEnv(
        spec.env, order.go.late_env, order.secrets,
        {.attempt = run.dir.path(), .own = run.dir.OwnPath(spec.rank), .account = run.account});
    shim.argv = spec.argv;
    shim.cpus = spec.cpus;
    shim.with_ports = spec.rank == 0;
    wishes.push_back(WishOf(run, spec.rank, std::move(shim)));
  }
  run.commands_number = ++stagings_;
  run.commands_due = options_.clock->Now() + kCommandsLimit;
  RunBeside([spec = *run.spec, account = run.account, wishes = std::move(wishes),
             marker = MarkerOf(run), number = run.commands_number](const auto&, auto& tasks) {
    if (!marker.empty()) launch::agent::RemoveMarker(marker, account);
    tasks.PushAlways(CommandsFound{spec.key, number, FindCommands(spec, account, wishes)});
  });
}

void RunnerLoop::Do(CommandsFound& found) {
  AllocationRun* run = Find(found.key);
  if (run == nullptr || !run->commands_due || run->commands_number != found.number) return;
  run->commands_due.reset();
  MarkerGone gone{run->key, run->marker_number};
  Do(gone);
  LAUNCH_FAILPOINT("launch.7.before");
  for (FoundCommand& command : found.commands) {
    StartRank(*run, command);
    LAUNCH_FAILPOINT("launch.7.spawned");
  }
  LAUNCH_FAILPOINT("launch.7.after");
  // From here on only shims and ranks hold them: an agent restart changes nothing.
  run->lock.reset();
  run->gpu_locks.clear();
  run->held_ports.reset();
}

// Before any rank was begun.
void RunnerLoop::FailStart(AllocationRun& run, FailedToStart why) {
  run.commands_due.reset();
  run.start_told = true;
  run.phase = RunPhase::kStarted;
  Tell(told::StartDone{.key = run.key, .pids = {}, .failed = std::move(why)});
}

void RunnerLoop::StartRank(AllocationRun& run, FoundCommand& command) {
  RankRun& rank = run.ranks[command.rank];
  rank.rank = command.rank;
  const auto failed = [&](FailedToStart why) {
    ExitReport report{.key = run.key, .rank = command.rank, .boot_id = boot_id_};
    report.cause = std::move(why);
    report.started = report.ended = options_.clock->Now();
    rank.spawned = true;
    EndRank(run, rank, std::move(report));
  };
  if (!command.shim) return failed(AsFailure(command.shim.error(), command.stage));
  KeepWithinCap(run, command.rank);
  if (const auto spawned = SpawnShim(run, rank, *command.shim); !spawned) {
    failed(AsFailure(spawned.error(), "spawn"));
  }
}

void RunnerLoop::KeepWithinCap(AllocationRun& run, Rank rank) {
  const std::uint64_t own = run.spec ? run.spec->logs.cap_bytes : 0;
  const std::uint64_t cap = own > 0 ? own : options_.log_cap_bytes;
  run.logs.insert_or_assign(rank, LogKeeper(run.dir.RankPath(rank), cap));
}

// Once per node and attempt: what an earlier agent began is not begun again.
void RunnerLoop::StartSetup(AllocationRun& run, FoundCommand& command) {
  run.setup.emplace();
  run.setup->rank = kSetupRank;
  run.setup_deadline = options_.clock->Now() + run.spec->setup_timeout;
  const std::string directory = run.dir.RankPath(kSetupRank);
  if (run.dir.ReadRank(kSetupRank).exit_state == shim::RecordState::kValid) {
    run.setup->spawned = true;
    return;
  }
  (void)options_.files->RemoveTree(directory);
  Result<void> ready = options_.files->MakeDirs(directory);
  if (ready && run.account) ready = OpenSetup(run.dir, *run.account);
  if (ready && !command.shim) ready = Unexpected(command.shim.error());
  KeepWithinCap(run, kSetupRank);
  if (ready) ready = SpawnShim(run, *run.setup, *command.shim);
  if (!ready) {
    run.setup.reset();
    StartStaging(run, 126, ready.error().message);
  }
}

void RunnerLoop::SweepSetup(AllocationRun& run) {
  RankRun& setup = *run.setup;
  SweepRank(run, setup);
  const std::string log = run.dir.RankPath(kSetupRank) + "/out";
  const bool late = options_.clock->Now() >= run.setup_deadline;
  if (!setup.end && late && !run.stop) {
    run.setup_timed_out = true;
    run.cgroup.KillRank(kSetupRank);
    (void)SendToShim(run, setup, static_cast<std::uint32_t>(shim::Op::kKillAll), 9);
    return;
  }
  if (!setup.end || setup.told) return;
  setup.told = true;
  if (run.stop || !run.staging) return;
  // What `setup` left behind would run beside the ranks. Only its own cgroup is killed: from
  // Linux 6.14 on, a process that is born into one that was ever killed gets SIGKILL at once.
  run.cgroup.KillRank(kSetupRank);
  const int code = run.setup_timed_out ? 124 : ShellCode(setup.end->cause);
  std::string tail = code == 0 ? std::string() : TailOf(log);
  if (run.setup_timed_out) {
    tail += "\nsetup did not end within " + std::to_string(run.spec->setup_timeout.count() / 1000) +
            " s";
  }
  StartStaging(run, code, std::move(tail));
}

void RunnerLoop::Do(order::StageAllocation& order) {
  AllocationRun* run = Find(order.stage.key);
  if (run == nullptr || !run->spec || run->stop || run->phase != RunPhase::kAccepted) return;
  if (run->staging) {  // newer wishes; the one in progress is not answered
    if (run->setup && !run->setup->end) {
      run->staging = order;
      return;
    }
    CancelStaging(*run);
  }
  run->staging = order;
  if (order.stage.network_test) {
    return StartStaging(*run, std::nullopt, {});  // `setup` ran when the rest was looked at
  }
  if (order.stage.use_snapshot && !run->in_copy) return StartFetch(*run);
  BeginStaging(*run);
}

// On a thread of its own: network file systems and firewalls may take their time.
void RunnerLoop::StartStaging(AllocationRun& run, std::optional<int> setup_exit,
                              std::string setup_tail) {
  if (!run.staging) return;
  const to_node::Stage& stage = run.staging->stage;
  if (stage.write_marker && !stage.marker.empty()) {
    ++run.marker_number;
    (void)options_.files->WriteDurable(run.dir.path() + "/marker", stage.marker);
  }
  StagingInput input{.spec = *run.spec,
                     .stage = run.staging->stage,
                     .setup_exit = setup_exit,
                     .setup_tail = std::move(setup_tail),
                     .probe_runtime = options_.probe_runtime,
                     .read_runtime = options_.read_runtime,
                     .environment_of = options_.environment_of,
                     .image = {},
                     .probe_image = options_.probe_image,
                     .test_network = options_.test_network,
                     .account = run.account};
  run.staging_number = ++stagings_;
  Tell(told::StageProgress{.key = run.key,
                           .step = "check",
                           .line = stage.network_test ? "testing the network between the nodes"
                                                      : "checking workdir " + run.spec->workdir +
                                                            ", other paths and network"});
  const auto state =
      RunBeside([input = std::move(input), ask = ImageWish(run), number = run.staging_number](
                    const std::atomic<bool>& cancel, auto& tasks) {
        StagingInput wish = input;
        wish.waits_for = [&](std::string what) {
          tasks.PushAlways(StageWaits{wish.spec.key, number, "waits for " + std::move(what)});
        };
        if (ask) wish.image = FindImageCommand(wish.spec, wish.account, *ask);
        StageOutcome outcome{wish.spec.key, number, RunStaging(wish, cancel), {}, wish.account};
        outcome.facts.from_snapshot = wish.stage.use_snapshot;
        for (const PathFact& fact : outcome.facts.paths) {
          if (wish.stage.write_marker && fact.what == "marker" && fact.ok)
            outcome.marker = fact.path;
        }
        tasks.PushAlways(std::move(outcome));
      });
  run.staging_cancel = std::shared_ptr<std::atomic<bool>>(state, &state->cancel);
}

void RunnerLoop::Do(StageWaits& waits) {
  const AllocationRun* run = Find(waits.key);
  if (run == nullptr || !run->staging || run->staging_number != waits.number) return;
  Tell(told::StageProgress{.key = waits.key, .step = "check", .line = std::move(waits.line)});
}

void RunnerLoop::Do(StageOutcome& outcome) {
  AllocationRun* run = Find(outcome.key);
  if (run == nullptr || !run->staging || run->staging_number != outcome.number) {
    // It may have been written after the end removed it. While the allocation waits for its start,
    // a newer staging may have written the same one, and the end is still to come.
    const bool waits = run != nullptr && !run->stop && run->phase == RunPhase::kAccepted;
    if (outcome.marker.empty() || waits) return;
    RunBeside([path = outcome.marker, account = outcome.account](const auto&, auto&) {
      launch::agent::RemoveMarker(path, account);
    });
    return;
  }
  run->staging.reset();
  run->staging_cancel.reset();
  outcome.facts.wall = options_.clock->WallNow();
  Tell(told::StageDone{.key = outcome.key, .facts = std::move(outcome.facts)});
}

}  // namespace launch::agent
