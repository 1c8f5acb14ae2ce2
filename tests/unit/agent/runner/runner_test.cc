// PosixRunner with real processes: starting, ending, stopping.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "agent/runner/file_lock.h"
#include "agent/runner/port_holder.h"
#include "agent/runner/process.h"
#include "tests/unit/agent/runner/runner_bench.h"

namespace launch::agent {
namespace {

constexpr Key kKey{{7}, {1}};

template <class T>
const T* CauseAs(const std::optional<ExitReport>& report) {
  return report ? std::get_if<T>(&report->cause) : nullptr;
}

TEST(Runner, ReportsTheExitCodeAndTheEndOfTheLog) {
  RunnerBench bench;
  bench.Open();
  const auto started = bench.Run(bench.Spec(kKey, 2, {"--exit", "33", "--lines", "10"}));
  ASSERT_TRUE(started);
  EXPECT_FALSE(started->failed);
  EXPECT_EQ(started->pids.size(), 2u);
  for (const Rank rank : {0, 1}) {
    const auto report = bench.AwaitEnd(kKey, rank);
    ASSERT_NE(CauseAs<Exited>(report), nullptr);
    EXPECT_EQ(CauseAs<Exited>(report)->code, 33);
    const std::string log = bench.ReadFile(bench.RankPath(kKey, rank) + "/out");
    EXPECT_EQ(report->log_end, log.size());
    EXPECT_NE(log.find("line 9 "), std::string::npos);
    EXPECT_LE(report->started, report->ended);
  }
}

TEST(Runner, ReportsTheSignalThatKilledARank) {
  RunnerBench bench;
  bench.Open();
  ASSERT_TRUE(bench.Run(bench.Spec(kKey, 1, {"--signal", "11"})));
  const auto report = bench.AwaitEnd(kKey, 0);
  ASSERT_NE(CauseAs<Signalled>(report), nullptr);
  EXPECT_EQ(CauseAs<Signalled>(report)->signal, SIGSEGV);
  EXPECT_TRUE(report->our_signals.empty());
}

TEST(Runner, SaysThatTheProgramCouldNotBeExecuted) {
  RunnerBench bench;
  bench.Open();
  AllocationSpec spec = bench.Spec(kKey, 1, {});
  spec.ranks[0].argv = {"/no/such/program"};
  const auto started = bench.Run(spec);
  ASSERT_TRUE(started && started->failed);
  EXPECT_EQ(started->failed->stage, "exec");
  EXPECT_EQ(started->failed->error_number, ENOENT);
  EXPECT_NE(CauseAs<FailedToStart>(bench.AwaitEnd(kKey, 0)), nullptr);
}

TEST(Runner, SaysThatTheWorkdirIsMissing) {
  RunnerBench bench;
  bench.Open();
  AllocationSpec spec = bench.Spec(kKey, 1, {});
  spec.workdir = bench.Path("gone");
  const auto started = bench.Run(spec);
  ASSERT_TRUE(started && started->failed);
  EXPECT_EQ(started->failed->stage, "chdir");
  EXPECT_EQ(started->failed->error_number, ENOENT);
}

TEST(Runner, GivesTheRankItsEnvironmentAndNothingElse) {
  RunnerBench bench;
  bench.Open();
  ASSERT_EQ(::setenv("LEAKED_FROM_AGENT", "1", 1), 0);
  ASSERT_TRUE(bench.Run(bench.Spec(kKey, 1, {"--print-env"})));
  ASSERT_TRUE(bench.AwaitEnd(kKey, 0));
  const std::string log = bench.ReadFile(bench.RankPath(kKey, 0) + "/out");
  EXPECT_NE(log.find("API_TOKEN=s3cret-canary\n"), std::string::npos);
  EXPECT_NE(log.find("MASTER_ADDR=127.0.0.1\n"), std::string::npos);
  EXPECT_NE(log.find("LAUNCH_PROGRESS_FILE=" + bench.RankPath(kKey, 0) + "/progress.jsonl\n"),
            std::string::npos);
  EXPECT_EQ(log.find("LEAKED_FROM_AGENT"), std::string::npos);
  EXPECT_EQ(log.find("TORCHELASTIC_ERROR_FILE"), std::string::npos);
}

TEST(Runner, KeepsSecretsOutOfEveryFile) {
  RunnerBench bench;
  bench.Open();
  ASSERT_TRUE(bench.Run(bench.Spec(kKey, 1, {})));
  ASSERT_TRUE(bench.AwaitEnd(kKey, 0));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(bench.dir())) {
    if (!entry.is_regular_file()) continue;
    EXPECT_EQ(bench.ReadFile(entry.path()).find("s3cret-canary"), std::string::npos)
        << entry.path();
  }
}

TEST(Runner, KillsARankThatIgnoresTermAfterTheGrace) {
  RunnerBench bench;
  bench.Open();
  const auto started =
      bench.Run(bench.Spec(kKey, 2, {"--ignore-term", "--sleep-until", bench.Path("never")}));
  ASSERT_TRUE(started && !started->failed);
  ASSERT_TRUE(bench.AwaitWitnesses(2));
  const auto stopped = bench.Stop(kKey, Millis{300});
  ASSERT_TRUE(stopped);
  EXPECT_TRUE(stopped->held.empty());
  for (const auto& [rank, pid] : started->pids) {
    EXPECT_FALSE(bench.ProcessLives(static_cast<int>(pid)));
    const auto report = bench.AwaitEnd(kKey, rank);
    ASSERT_NE(CauseAs<Signalled>(report), nullptr);
    EXPECT_EQ(CauseAs<Signalled>(report)->signal, SIGKILL);
    ASSERT_EQ(report->our_signals.size(), 2u);
    EXPECT_EQ(report->our_signals[0].signal, SIGTERM);
    EXPECT_EQ(report->our_signals[1].signal, SIGKILL);
    EXPECT_EQ(report->our_signals[1].why, "cancelled");
  }
}

TEST(Runner, EndsTheGraceAsSoonAsEveryRankHasEnded) {
  RunnerBench bench;
  bench.Open();
  ASSERT_TRUE(bench.Run(bench.Spec(kKey, 2, {"--sleep-until", bench.Path("never")})));
  const auto stopped = bench.Stop(kKey, Millis{3'600'000});
  ASSERT_TRUE(stopped);
  ASSERT_EQ(stopped->log_ends.size(), 2u);
  EXPECT_EQ(stopped->log_ends[0].second,
            std::filesystem::file_size(bench.RankPath(kKey, 0) + "/out"));
}

TEST(Runner, SendsTheCheckpointSignalToTheRankBeforeTerm) {
  RunnerBench bench;
  bench.Open();
  AllocationSpec spec =
      bench.Spec(kKey, 1, {"--on-usr1", bench.Path("saved"), "--sleep-until", bench.Path("saved")});
  spec.stop.signal = SIGUSR1;
  spec.stop.signal_before = Millis{3'600'000};
  ASSERT_TRUE(bench.Run(spec));
  ASSERT_TRUE(bench.AwaitWitnesses(1));
  ASSERT_TRUE(bench.Stop(kKey, Millis{10'000}));
  EXPECT_EQ(bench.ReadFile(bench.Path("saved")), "usr1 0\n");
  const auto report = bench.AwaitEnd(kKey, 0);
  ASSERT_NE(CauseAs<Exited>(report), nullptr);
  ASSERT_EQ(report->our_signals.size(), 1u);
  EXPECT_EQ(report->our_signals[0].signal, SIGUSR1);
}

TEST(Runner, ACancelEndsTheTimeThatTheSignalHas) {
  RunnerBench bench;
  bench.Open();
  AllocationSpec spec =
      bench.Spec(kKey, 1, {"--on-usr1", bench.Path("saved"), "--sleep-until", bench.Path("never")});
  spec.stop.signal = SIGUSR1;
  spec.stop.signal_before = Millis{3'600'000};
  ASSERT_TRUE(bench.Run(spec));
  ASSERT_TRUE(bench.AwaitWitnesses(1));
  bench.runner().Stop({kKey, StopCause::kTimeLimit, Millis{10'000}});
  ASSERT_TRUE(bench.Eventually([&] { return !bench.ReadFile(bench.Path("saved")).empty(); }));
  bench.runner().Stop({kKey, StopCause::kTimeLimit, Millis{10'000}, true});
  const auto report = bench.AwaitEnd(kKey, 0);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->cause, ExitCause(Signalled{SIGTERM, false}));
}

TEST(Runner, FindsAndKillsADaemonThatLeftTheSession) {
  RunnerBench bench;
  bench.Open();
  if (bench.runner().containment() == Containment::kTree) GTEST_SKIP() << "needs a cgroup";
  ASSERT_TRUE(bench.Run(bench.Spec(kKey, 1, {"--fork-daemon"})));
  ASSERT_TRUE(bench.AwaitEnd(kKey, 0));
  ASSERT_TRUE(bench.Eventually([&] { return bench.CountLedger("daemon") == 1; }));
  int pid = 0;
  for (const std::string& line : bench.Ledger()) {
    if (line.starts_with("daemon ")) pid = std::atoi(line.c_str() + 7);
  }
  ASSERT_TRUE(bench.ProcessLives(pid));
  const auto stopped = bench.Stop(kKey, Millis{0});
  ASSERT_TRUE(stopped);
  EXPECT_TRUE(stopped->held.empty());
  EXPECT_FALSE(bench.ProcessLives(pid));
}

TEST(Runner, RefusesAGpuWhoseLockIsHeldAndLeavesNothing) {
  RunnerBench bench;
  bench.Open();
  const auto other = FileLock::Take(GpuLockPath(bench.options().lock_dir, {"GPU-b"}));
  ASSERT_TRUE(other);
  AllocationSpec spec = bench.Spec(kKey, 1, {});
  spec.gpus = {{"GPU-a"}, {"GPU-b"}};
  const auto accepted = bench.Accept(spec);
  ASSERT_TRUE(accepted);
  ASSERT_FALSE(accepted->ports);
  EXPECT_EQ(accepted->ports.error().code, ErrorCode::kConflict);
  EXPECT_NE(accepted->ports.error().message.find("GPU-b"), std::string::npos);
  EXPECT_EQ(ProbeLock(GpuLockPath(bench.options().lock_dir, {"GPU-a"})), LockState::kFree);
  EXPECT_TRUE(bench.Ledger().empty());
  EXPECT_FALSE(std::filesystem::exists(bench.options().state_dir + "/allocations/7.1"));
}

TEST(Runner, HoldsGpuLocksInTheRanksUntilTheyEnd) {
  RunnerBench bench;
  bench.Open();
  AllocationSpec spec = bench.Spec(kKey, 1, {"--sleep-until", bench.Path("never")});
  spec.gpus = {{"GPU-a"}};
  ASSERT_TRUE(bench.Run(spec));
  const std::string lock = GpuLockPath(bench.options().lock_dir, {"GPU-a"});
  EXPECT_EQ(ProbeLock(lock), LockState::kHeld);
  bench.Kill();
  EXPECT_EQ(ProbeLock(lock), LockState::kHeld);
  bench.Open();
  ASSERT_TRUE(bench.Stop(kKey, Millis{0}));
  EXPECT_EQ(ProbeLock(lock), LockState::kFree);
}

TEST(Runner, HoldsAGpuThatTheDriverStillShowsInUseUntilItIsFree) {
  RunnerBench bench;
  std::atomic<bool> foreign = false;
  bench.options().proof_time = Millis{50};
  SystemClock clock;
  bench.options().gpu_processes = [&]() -> std::optional<GpuProcessSnapshot> {
    GpuProcessList list{{{"GPU-a"}, {{.pid = 11, .user = {}, .name = "before", .bytes = {}}}}};
    if (foreign) list[0].second.push_back({.pid = 4242, .user = {}, .name = "stray", .bytes = {}});
    return GpuProcessSnapshot{.asked = clock.Now(), .lists = list};
  };
  bench.Open();
  AllocationSpec spec = bench.Spec(kKey, 1, {});
  spec.gpus = {{"GPU-a"}};
  ASSERT_TRUE(bench.Run(spec));
  foreign = true;
  const auto held = bench.Stop(kKey, Millis{0});
  ASSERT_TRUE(held);
  ASSERT_EQ(held->held.size(), 1u);
  EXPECT_EQ(held->held[0].first, GpuUuid{"GPU-a"});
  EXPECT_NE(held->held[0].second.find("4242"), std::string::npos);
  foreign = false;
  bench.runner().Stop({kKey, StopCause::kCancelled, Millis{0}});
  EXPECT_TRUE(bench.told().Await<told::StopDone>(
      [](const told::StopDone& done) { return done.held.empty(); }));
}

TEST(Runner, HoldsOnlyTheGpuThatTheDriverLostAndAsksNoMoreAfterTheOther) {
  RunnerBench bench;
  std::atomic<bool> lost = false;
  bench.options().proof_time = Millis{50};
  SystemClock clock;
  bench.options().gpu_processes = [&]() -> std::optional<GpuProcessSnapshot> {
    GpuProcessSnapshot said{.asked = clock.Now(), .lists = {{{"GPU-a"}, {}}}};
    if (!lost) said.lists.push_back({{"GPU-b"}, {}});
    return said;
  };
  bench.Open();
  AllocationSpec spec = bench.Spec(kKey, 1, {});
  spec.gpus = {{"GPU-a"}, {"GPU-b"}};
  ASSERT_TRUE(bench.Run(spec));
  lost = true;
  const auto held = bench.Stop(kKey, Millis{0});
  ASSERT_TRUE(held);
  ASSERT_EQ(held->held.size(), 1u);
  EXPECT_EQ(held->held[0].first, GpuUuid{"GPU-b"});
  // As the next attempt holds it, to which it was given meanwhile.
  const auto next = FileLock::Take(GpuLockPath(bench.options().lock_dir, {"GPU-a"}));
  ASSERT_TRUE(next);
  lost = false;
  bench.runner().Stop({kKey, StopCause::kCancelled, Millis{0}});
  EXPECT_TRUE(bench.told().Await<told::StopDone>(
      [](const told::StopDone& done) { return done.held.empty(); }));
}

TEST(Runner, TakesTheSilenceOfTheDriverForNoProof) {
  RunnerBench bench;
  std::atomic<bool> silent = false;
  bench.options().proof_time = Millis{50};
  SystemClock clock;
  bench.options().gpu_processes = [&]() -> std::optional<GpuProcessSnapshot> {
    GpuProcessSnapshot said{.asked = clock.Now(), .lists = {}};
    if (!silent) said.lists = {{{"GPU-a"}, {}}};
    return said;
  };
  bench.Open();
  AllocationSpec spec = bench.Spec(kKey, 1, {});
  spec.gpus = {{"GPU-a"}};
  ASSERT_TRUE(bench.Run(spec));
  silent = true;
  const auto held = bench.Stop(kKey, Millis{0});
  ASSERT_TRUE(held);
  ASSERT_EQ(held->held.size(), 1u);
  EXPECT_NE(held->held[0].second.find("does not list"), std::string::npos) << held->held[0].second;
  silent = false;
  bench.runner().Stop({kKey, StopCause::kCancelled, Millis{0}});
  EXPECT_TRUE(bench.told().Await<told::StopDone>(
      [](const told::StopDone& done) { return done.held.empty(); }));
}

TEST(Runner, TakesNoListOfTheDriverFromBeforeTheKillForAProof) {
  SystemClock clock;
  std::mutex mutex;
  GpuProcessSnapshot newest{.asked = clock.Now(), .lists = {{{"GPU-a"}, {}}}};
  std::atomic<int> questions = 0;
  RunnerBench bench;
  bench.options().proof_time = Millis{50};
  bench.options().gpu_processes = [&]() -> std::optional<GpuProcessSnapshot> {
    const std::lock_guard lock(mutex);
    return newest;
  };
  bench.options().ask_gpu_processes = [&] { ++questions; };
  bench.Open();
  AllocationSpec spec = bench.Spec(kKey, 1, {});
  spec.gpus = {{"GPU-a"}};
  ASSERT_TRUE(bench.Run(spec));
  ASSERT_TRUE(bench.AwaitEnd(kKey, 0));
  const auto held = bench.Stop(kKey, Millis{0});
  ASSERT_TRUE(held);
  ASSERT_EQ(held->held.size(), 1u);
  EXPECT_NE(held->held[0].second.find("since the kill"), std::string::npos);
  EXPECT_GE(questions, 1);
  {
    const std::lock_guard lock(mutex);
    newest.asked = clock.Now();
  }
  EXPECT_TRUE(bench.told().Await<told::StopDone>([](const auto& d) { return d.held.empty(); }));
}

TEST(Runner, SaysWhyAnAttemptWithoutGpusCannotBeEnded) {
  RunnerBench bench;
  bench.options().proof_time = Millis{50};
  bench.Open();
  ASSERT_TRUE(bench.Run(bench.Spec(kKey, 1, {})));
  ASSERT_TRUE(bench.AwaitEnd(kKey, 0));
  const std::string path = bench.options().state_dir + "/allocations/7.1/lock";
  {
    std::optional<FileLock> left;  // as a rank in D state holds it
    ASSERT_TRUE(bench.Eventually([&] {
      auto taken = FileLock::Take(path);
      if (taken) left.emplace(std::move(*taken));
      return left.has_value();
    }));
    bench.runner().Stop({kKey, StopCause::kCancelled, Millis{0}});
    const auto notice = bench.told().Await<told::NodeNotice>(
        [](const auto& told) { return told.notice.kind == "node.stop_stuck"; });
    ASSERT_TRUE(notice);
    EXPECT_EQ(notice->notice.key, kKey);
    EXPECT_NE(notice->notice.text.find("lock is held"), std::string::npos);
    EXPECT_EQ(bench.told().Count<told::StopDone>(), 0);
  }
  EXPECT_TRUE(bench.told().Await<told::StopDone>([](const auto& done) {
    return done.held.empty();
  })) << "it ends as soon as nothing is left";
}

TEST(Runner, AcceptsAgainWhatItHadDropped) {
  RunnerBench bench;
  bench.Open();
  AllocationSpec spec = bench.Spec(kKey, 1, {"--exit", "5"});
  spec.gpus = {{"GPU-a"}};
  ASSERT_TRUE(bench.Accept(spec));
  bench.runner().Drop({kKey, "no pong for 60 s"});
  const std::string lock = GpuLockPath(bench.options().lock_dir, {"GPU-a"});
  ASSERT_TRUE(bench.Eventually([&] { return ProbeLock(lock) == LockState::kFree; }));
  bench.Kill();
  const RunnerState state = bench.Open();
  ASSERT_EQ(state.allocations.size(), 1u);
  EXPECT_EQ(state.allocations[0].status.phase, AllocationPhase::kDropped);
  bench.runner().Accept({spec, "digest"});
  ASSERT_TRUE(bench.Eventually([&] { return ProbeLock(lock) == LockState::kHeld; }));
  ASSERT_TRUE(bench.Start(kKey));
  const auto report = bench.AwaitEnd(kKey, 0);
  ASSERT_NE(CauseAs<Exited>(report), nullptr);
  EXPECT_EQ(CauseAs<Exited>(report)->code, 5);
}

TEST(Runner, DoesNotStartWhatWasStopped) {
  RunnerBench bench;
  bench.Open();
  ASSERT_TRUE(bench.Accept(bench.Spec(kKey, 1, {})));
  ASSERT_TRUE(bench.Stop(kKey, Millis{0}));
  const auto started = bench.Start(kKey);
  ASSERT_TRUE(started);
  EXPECT_TRUE(started->failed);
  EXPECT_TRUE(bench.Ledger().empty());
}

TEST(Runner, SaysThatEveryPortIsTaken) {
  RunnerBench bench;
  const auto taken = HoldPorts(bench.options().port_first, bench.options().port_first + 3, 0);
  ASSERT_TRUE(taken);
  ASSERT_EQ(::listen(taken->sockets[2].get(), 1), 0);
  bench.options().port_last = bench.options().port_first + 3;
  bench.Open();
  AllocationSpec spec = bench.Spec(kKey, 1, {});
  spec.needs_ports = true;
  const auto accepted = bench.Accept(spec);
  ASSERT_TRUE(accepted);
  ASSERT_FALSE(accepted->ports);
  const std::string& why = accepted->ports.error().message;
  EXPECT_NE(why.find("no free block of 4 ports"), std::string::npos);
  const std::string holder = "\nport " + std::to_string(bench.options().port_first + 2) +
                             ": process " + std::to_string(::getpid()) + " (";
  EXPECT_NE(why.find(holder), std::string::npos) << why;
}

TEST(Runner, NamesTheSupervisorThatWasKilledAndLetsItsRankRunOn) {
  RunnerBench bench;
  bench.Open();
  const auto started = bench.Run(bench.Spec(kKey, 1, {"--sleep-until", bench.Path("go")}));
  ASSERT_TRUE(started && !started->failed);
  const AttemptDir dir(bench.options().state_dir + "/allocations/7.1", *bench.options().files);
  const auto start = dir.ReadRank(0).start;
  ASSERT_TRUE(start);
  ASSERT_EQ(::kill(static_cast<pid_t>(start->shim_pid), SIGKILL), 0);
  const auto notice = bench.told().Await<told::NodeNotice>(
      [](const told::NodeNotice& found) { return found.notice.kind == "rank.supervisor_lost"; });
  ASSERT_TRUE(notice);
  EXPECT_TRUE(bench.ProcessLives(static_cast<int>(started->pids[0].second)));
  bench.Touch("go");
  const auto report = bench.AwaitEnd(kKey, 0);
  ASSERT_NE(CauseAs<UnknownEnd>(report), nullptr);
  EXPECT_EQ(CauseAs<UnknownEnd>(report)->why, "supervisor killed");
}

TEST(Runner, CallsAKillByTheMemoryLimitOutOfMemory) {
  RunnerBench bench;
  bench.Open();
  const CgroupHost host = SetUpCgroups({bench.options().cgroup_name, std::nullopt, {}});
  if (host.memory_root.empty()) GTEST_SKIP() << "no memory controller";
  AllocationSpec spec = bench.Spec(kKey, 1, {"--alloc", "512"});
  spec.memory_limit_bytes = std::uint64_t{64} << 20;
  ASSERT_TRUE(bench.Run(spec));
  const auto report = bench.AwaitEnd(kKey, 0);
  ASSERT_NE(CauseAs<OutOfMemory>(report), nullptr) << Describe(report->cause);
  EXPECT_EQ(CauseAs<OutOfMemory>(report)->scope, "job");
  EXPECT_EQ(CauseAs<OutOfMemory>(report)->limit_bytes, std::uint64_t{64} << 20);
  EXPECT_GE(report->oom_kills, 1u);
}

TEST(Process, HoldersAreFoundBelowADirectoryThatALinkLeadsTo) {
  RunnerBench bench;
  const std::string real = bench.Path("real/allocations");
  std::filesystem::create_directories(real);
  std::filesystem::create_directory_symlink(bench.Path("real"), bench.Path("link"));
  const UniqueFd lock(::open((real + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const pid_t holder = ::fork();
  if (holder == 0) {
    ::pause();
    ::_exit(0);
  }
  const std::string below = bench.Path("link/allocations");
  const std::string name = below + "/lock";
  const auto holds = [&] {
    const auto holders = OpenBelow(below);
    return holders.contains(name) && holders.at(name) == std::vector<int>{holder};
  };
  EXPECT_TRUE(holds());
  EXPECT_TRUE(HoldsOpen(holder, name));
  std::filesystem::remove_all(real);
  EXPECT_TRUE(holds());
  EXPECT_TRUE(HoldsOpen(holder, name)) << "by its path alone";
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
}

TEST(Cgroup, RootsGoOnceNothingIsInThem) {
  const CgroupHost host =
      SetUpCgroups({"launch-test-roots-" + std::to_string(::getpid()), std::nullopt, {}});
  if (host.kill_root.empty()) GTEST_SKIP() << "no control groups: " << host.why;
  const std::string below = host.kill_root + "/1.1";
  ASSERT_EQ(::mkdir(below.c_str(), 0755), 0);
  RemoveEmptyRoots(host);
  EXPECT_EQ(::access(host.kill_root.c_str(), F_OK), 0);
  ASSERT_EQ(::rmdir(below.c_str()), 0);
  RemoveEmptyRoots(host);
  EXPECT_NE(::access(host.kill_root.c_str(), F_OK), 0);
}

TEST(Cgroup, WhatAnAgentThatLivesUsesIsNotSweptByAnother) {
  const CgroupWanted wanted{"launch-test-claim-" + std::to_string(::getpid()), std::nullopt, {}};
  const CgroupHost first = SetUpCgroups(wanted);
  if (first.kill_root.empty()) GTEST_SKIP() << "no control groups: " << first.why;
  ASSERT_TRUE(first.claim);
  const CgroupHost second = SetUpCgroups(wanted);
  EXPECT_EQ(second.kill_root, first.kill_root);
  EXPECT_FALSE(second.claim);
  RemoveEmptyRoots(second);
  EXPECT_EQ(::access(first.kill_root.c_str(), F_OK), 0);
  RemoveEmptyRoots(first);
  EXPECT_NE(::access(first.kill_root.c_str(), F_OK), 0);
}

TEST(Cgroup, IsClaimedOnceTheAgentBeforeHasEndedAndTakenTheRootsAway) {
  const CgroupWanted wanted{"launch-test-again-" + std::to_string(::getpid()), std::nullopt, {}};
  CgroupHost before = SetUpCgroups(wanted);
  if (before.kill_root.empty()) GTEST_SKIP() << "no control groups: " << before.why;
  CgroupHost after = SetUpCgroups(wanted);
  ASSERT_FALSE(after.claim);
  RemoveEmptyRoots(before);
  before.claim.reset();
  after = ClaimAgain(wanted, std::move(after));
  EXPECT_TRUE(after.claim);
  EXPECT_EQ(::access(after.kill_root.c_str(), F_OK), 0);
  ASSERT_EQ(::rmdir(after.kill_root.c_str()), 0);
  after = ClaimAgain(wanted, std::move(after));
  EXPECT_TRUE(after.claim);
  EXPECT_EQ(::access(after.kill_root.c_str(), F_OK), 0) << "the claim was on one that is gone";
  RemoveEmptyRoots(after);
}

TEST(Runner, LeavesATombstoneForAnAttemptItNeverSaw) {
  RunnerBench bench;
  bench.Open();
  const auto stopped = bench.Stop({{99}, {4}}, Millis{0});
  ASSERT_TRUE(stopped);
  bench.Kill();
  const RunnerState state = bench.Open();
  ASSERT_EQ(state.allocations.size(), 1u);
  EXPECT_TRUE(state.allocations[0].tombstone);
  EXPECT_EQ(state.floors, (std::vector<Key>{{{99}, {4}}}));
}

TEST(Runner, KeepsTheLogsAndForgetsTheRest) {
  RunnerBench bench;
  bench.Open();
  ASSERT_TRUE(bench.Run(bench.Spec(kKey, 1, {})));
  ASSERT_TRUE(bench.AwaitEnd(kKey, 0));
  ASSERT_TRUE(bench.Stop(kKey, Millis{0}));
  bench.runner().Forget({kKey});
  const std::string kept = bench.options().state_dir + "/logs/7.1/rank.0/out";
  ASSERT_TRUE(bench.Eventually(
      [&] { return !std::filesystem::exists(bench.options().state_dir + "/allocations/7.1"); }));
  EXPECT_NE(bench.ReadFile(kept).find("line 2 "), std::string::npos);
  bench.Kill();
  EXPECT_TRUE(bench.Open().allocations.empty());
}

int CountOpens(const UniqueFd& inotify) {
  int opens = 0;
  alignas(inotify_event) char bytes[65536];
  for (ssize_t got = 0; (got = ::read(inotify.get(), bytes, sizeof bytes)) > 0;)
    for (ssize_t at = 0; at < got; ++opens)
      at += static_cast<ssize_t>(sizeof(inotify_event)) +
            reinterpret_cast<const inotify_event*>(bytes + at)->len;
  return opens;
}

// As each rank does once a second.
TEST(Runner, ReadsNoRecordBecauseARankTellsItsProgress) {
  RunnerBench bench;
  bench.Open();
  ASSERT_TRUE(bench.Run(bench.Spec(kKey, 1, {"--sleep-until", bench.Path("never")})));
  const UniqueFd opens(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  const std::string start = bench.RankPath(kKey, 0) + "/start";
  ASSERT_GE(::inotify_add_watch(opens.get(), start.c_str(), IN_OPEN), 0);
  for (std::uint64_t i = 0; i < 50; ++i) {
    std::ofstream(bench.RankPath(kKey, 0) + "/progress.jsonl") << i;
    const Key other{{1000 + i}, {1}};
    bench.runner().Drop({other, "never accepted"});
    ::usleep(2000);
  }
  EXPECT_LT(CountOpens(opens), 25) << "once a second";
}

}  // namespace
}  // namespace launch::agent
