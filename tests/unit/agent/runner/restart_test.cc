// An agent that dies and comes back: what it finds, adopts, reports and never touches.
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <sstream>

#include "agent/runner/allocation_run.h"
#include "agent/runner/file_lock.h"
#include "agent/runner/log_reader.h"
#include "agent/runner/port_holder.h"
#include "agent/runner/process.h"
#include "tests/unit/agent/runner/runner_bench.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

constexpr Key kKey{{3}, {2}};

std::string DirOf(const RunnerBench& bench) {
  return bench.Path("state/allocations/") + ToString(kKey);
}

const FoundAllocation* Only(const RunnerState& state) {
  return state.allocations.size() == 1 ? &state.allocations[0] : nullptr;
}

TEST(Restart, AdoptsRunningRanksAndReportsTheirEnd) {
  RunnerBench bench;
  bench.Open();
  const auto started =
      bench.Run(bench.Spec(kKey, 2, {"--exit", "33", "--sleep-until", bench.Path("go")}));
  ASSERT_TRUE(started && !started->failed);
  bench.Kill();
  const RunnerState state = bench.Open();
  const FoundAllocation* found = Only(state);
  ASSERT_NE(found, nullptr);
  ASSERT_TRUE(found->alive);
  EXPECT_FALSE(found->unreadable);
  ASSERT_EQ(found->status.ranks.size(), 2u);
  for (const RankStatus& rank : found->status.ranks) {
    EXPECT_TRUE(rank.started);
    EXPECT_FALSE(rank.exit);
    EXPECT_TRUE(bench.ProcessLives(static_cast<int>(rank.pid)));
  }
  bench.Touch("go");
  for (const Rank rank : {0, 1}) {
    const auto report = bench.AwaitEnd(kKey, rank);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->cause, ExitCause(Exited{33}));
  }
  EXPECT_EQ(bench.CountLedger("start"), 2);
}

TEST(Restart, FindsTheCodeAndEveryLogByteOfARankThatEndedMeanwhile) {
  RunnerBench bench;
  bench.Open();
  ASSERT_TRUE(bench.Run(
      bench.Spec(kKey, 1, {"--exit", "33", "--flood", "4", "--sleep-until", bench.Path("go")})));
  bench.Kill();
  bench.Touch("go");
  ASSERT_TRUE(bench.Eventually([&] { return bench.CountLedger("end") == 1; }));
  const AttemptDir dir(DirOf(bench), *bench.options().files);
  ASSERT_TRUE(
      bench.Eventually([&] { return dir.ReadRank(0).exit_state == shim::RecordState::kValid; }));
  const RunnerState state = bench.Open();
  const FoundAllocation* found = Only(state);
  ASSERT_NE(found, nullptr);
  ASSERT_TRUE(found->status.ranks.at(0).exit);
  const ExitReport& report = *found->status.ranks[0].exit;
  EXPECT_EQ(report.cause, ExitCause(Exited{33}));

  LogReader reader(bench.options().state_dir);
  std::string log;
  for (bool complete = false; !complete;) {
    const auto piece = reader.Read(kKey, 0, "out", log.size(), 64 * 1024);
    ASSERT_TRUE(piece);
    ASSERT_FALSE(piece->gap);
    log += piece->data;
    complete = piece->complete;
    ASSERT_TRUE(complete || !piece->data.empty());
  }
  EXPECT_EQ(log.size(), report.log_end);
  EXPECT_GE(log.size(), std::size_t{4} << 20);
  std::istringstream lines(log);
  std::uint64_t hash = 14695981039346656037ull;
  int number = 0;
  for (std::string line; std::getline(lines, line); ++number) {
    char expected[80];
    std::snprintf(expected, sizeof expected, "line %d crc %016llx", number,
                  static_cast<unsigned long long>(hash));
    ASSERT_EQ(line, expected);
    for (const char c : line + "\n") {
      hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
    }
  }
}

TEST(Restart, DoesNotRepeatAnAcknowledgedExit) {
  RunnerBench bench;
  bench.Open();
  ASSERT_TRUE(bench.Run(bench.Spec(kKey, 1, {})));
  ASSERT_TRUE(bench.AwaitEnd(kKey, 0));
  bench.runner().NoteAcked({kKey, 0});
  bench.Kill();
  const RunnerState state = bench.Open();
  ASSERT_NE(Only(state), nullptr);
  EXPECT_EQ(Only(state)->acked, std::vector<Rank>{0});
  EXPECT_FALSE(Only(state)->status.ranks.at(0).exit);
}

TEST(Restart, AnAcknowledgementThatWasCutShortIsOfNoRank) {
  RunnerBench bench;
  std::filesystem::create_directories(bench.Path("attempt"));
  AttemptDir dir(bench.Path("attempt"), *bench.options().files);
  const auto read = [&](const std::string& text) {
    std::ofstream(bench.Path("attempt/acked")) << text;
    return dir.ReadAcked();
  };
  using Ranks = std::vector<Rank>;
  EXPECT_EQ(read("12 12\n3 3\n"), (Ranks{3, 12}));
  EXPECT_EQ(read("12\n3\n"), (Ranks{3, 12}));  // of an older agent
  for (const char* cut : {"1", "12", "12 ", "12 1", "12 12"}) {
    SCOPED_TRACE(cut);
    EXPECT_EQ(read("5 5\n" + std::string(cut)), Ranks{5});
    EXPECT_EQ(read(std::string(cut) + "3 3\n7 7\n"), Ranks{7});
  }
}

TEST(Restart, ARecordThatTheDiskDoesNotShowIsNoMissingOne) {
  RunnerBench bench;
  const AttemptDir none(bench.Path("none/5.1"), *bench.options().files);
  ASSERT_TRUE(none.ReadAccept());
  EXPECT_FALSE(none.ReadAccept()->has_value());
  std::filesystem::create_symlink("loop", bench.Path("loop"));  // ELOOP stands for EIO
  const AttemptDir unread(bench.Path("loop/5.1"), *bench.options().files);
  EXPECT_FALSE(unread.ReadAccept());
}

// As at an upgrade of the agent between `checkpoint.signal` and the limit.
TEST(Restart, AStopGoesOnWhereItWas) {
  RunnerBench bench;
  bench.Open();
  AllocationSpec spec =
      bench.Spec(kKey, 1, {"--on-usr1", bench.Path("saved"), "--sleep-until", bench.Path("never")});
  spec.stop.signal = SIGUSR1;
  spec.stop.signal_before = Millis{3'000};
  ASSERT_TRUE(bench.Run(spec));
  ASSERT_TRUE(bench.AwaitWitnesses(1));
  const order::StopAllocation stop{kKey, StopCause::kTimeLimit, Millis{10'000}};
  const auto begun = std::chrono::steady_clock::now();
  bench.runner().Stop(stop);
  ASSERT_TRUE(bench.Eventually([&] { return !bench.ReadFile(bench.Path("saved")).empty(); }));
  const AttemptDir dir(DirOf(bench), *bench.options().files);
  ASSERT_TRUE(bench.Eventually([&] {
    const auto ladder = dir.ReadLadder();
    return ladder && ladder->signalled;
  }));
  const auto ladder = dir.ReadLadder();
  for (int restart = 0; restart < 3; ++restart) {
    bench.Kill();  // its loop takes the stop, and a step on the ladder, before it ends
    EXPECT_EQ(dir.ReadLadder(), ladder);
    const RunnerState state = bench.Open();
    ASSERT_NE(Only(state), nullptr);
    EXPECT_TRUE(Only(state)->tombstone);
    ASSERT_TRUE(Only(state)->stop);
    EXPECT_EQ(Only(state)->stop->cause, StopCause::kTimeLimit);
    EXPECT_EQ(Only(state)->stop->grace, Millis{10'000});
    bench.runner().Stop(stop);
  }
  ASSERT_TRUE(bench.AwaitEnd(kKey, 0));
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(2'900));
  EXPECT_EQ(bench.ReadFile(bench.Path("saved")), "usr1 0\n");  // once
}

// As `launch-agent end`, after an agent that left its ranks time for a checkpoint.
TEST(Restart, AnEndAtOnceWaitsForNoLadderOfTheAgentBefore) {
  for (const bool checkpoint : {true, false}) {
    SCOPED_TRACE(checkpoint);
    RunnerBench bench;
    bench.Open();
    AllocationSpec spec =
        bench.Spec(kKey, 1, {"--ignore-term", "--sleep-until", bench.Path("never")});
    if (checkpoint) spec.stop.signal = SIGCONT;  // which ends nothing
    spec.stop.signal_before = Millis{600'000};
    ASSERT_TRUE(bench.Run(spec));
    ASSERT_TRUE(bench.AwaitWitnesses(1));
    bench.runner().Stop({kKey, StopCause::kCancelled, Millis{600'000}});
    ASSERT_TRUE(
        bench.Eventually([&] { return !bench.ReadFile(DirOf(bench) + "/ladder").empty(); }));
    bench.Kill();
    bench.Open();
    bench.runner().Stop({kKey, StopCause::kStale, Millis{0}, true});
    EXPECT_TRUE(bench.told().Await<told::StopDone>(
        [](const told::StopDone& done) { return done.key == kKey && done.held.empty(); }));
  }
}

TEST(Restart, AnEndAtOnceIsNotForgottenBeforeTheLadderBegins) {
  RunnerBench bench;
  bench.Open();
  AllocationSpec spec = bench.Spec(kKey, 1, {"--sleep-until", bench.Path("never")});
  spec.stop.signal = SIGCONT;
  spec.stop.signal_before = Millis{600'000};
  ASSERT_TRUE(bench.Run(spec));
  ASSERT_TRUE(bench.AwaitWitnesses(1));
  bench.runner().Stop({kKey, StopCause::kTimeLimit, Millis{10'000}});
  bench.runner().Stop({kKey, StopCause::kCancelled, Millis{10'000}, true});
  EXPECT_TRUE(bench.told().Await<told::StopDone>(
      [](const told::StopDone& done) { return done.key == kKey; }));
}

// As `launch-agent end`, which asks no driver: locks and groups are the proof.
TEST(Restart, ProvesTheEndOfAJobWithGpusWithoutAnybodyToAskTheDriver) {
  RunnerBench bench;
  SystemClock clock;
  bench.options().gpu_processes = [&]() -> std::optional<GpuProcessSnapshot> {
    return GpuProcessSnapshot{.asked = clock.Now(), .lists = {{{"GPU-a"}, {}}}};
  };
  bench.Open();
  AllocationSpec spec = bench.Spec(kKey, 1, {"--sleep-until", bench.Path("never")});
  spec.gpus = {{"GPU-a"}};
  ASSERT_TRUE(bench.Run(spec));
  bench.Kill();
  bench.options().gpu_processes = {};
  bench.Open();
  const auto stopped = bench.Stop(kKey, Millis{0});
  ASSERT_TRUE(stopped);
  EXPECT_TRUE(stopped->held.empty());
}

TEST(Restart, TakesLocksAndPortsAgainForWhatWasNotStarted) {
  RunnerBench bench;
  bench.Open();
  AllocationSpec spec = bench.Spec(kKey, 1, {});
  spec.gpus = {{"GPU-a"}};
  spec.needs_ports = true;
  const auto accepted = bench.Accept(spec);
  ASSERT_TRUE(accepted && accepted->ports && *accepted->ports);
  const PortBlock block = **accepted->ports;
  EXPECT_FALSE(HoldBlock(block));
  bench.Kill();
  EXPECT_TRUE(HoldBlock(block));
  const RunnerState state = bench.Open();
  ASSERT_NE(Only(state), nullptr);
  EXPECT_EQ(Only(state)->status.phase, AllocationPhase::kAccepted);
  EXPECT_EQ(Only(state)->status.ports, block);
  EXPECT_EQ(Only(state)->status.digest, "digest");
  EXPECT_FALSE(HoldBlock(block));
  EXPECT_EQ(ProbeLock(GpuLockPath(bench.options().lock_dir, {"GPU-a"})), LockState::kHeld);
  const auto started = bench.Start(kKey);
  ASSERT_TRUE(started);
  EXPECT_FALSE(started->failed);
}

TEST(Restart, HoldsThePortsInTheShimOfRankZero) {
  RunnerBench bench;
  bench.Open();
  AllocationSpec spec = bench.Spec(kKey, 1, {"--sleep-until", bench.Path("never")});
  spec.needs_ports = true;
  const auto accepted = bench.Accept(spec);
  ASSERT_TRUE(accepted && accepted->ports && *accepted->ports);
  ASSERT_TRUE(bench.Start(kKey));
  bench.Kill();
  EXPECT_FALSE(HoldBlock(**accepted->ports));
  bench.Open();
  ASSERT_TRUE(bench.Stop(kKey, Millis{0}));
  EXPECT_TRUE(HoldBlock(**accepted->ports));
}

TEST(Restart, ReportsATornExitRecordAsUnknown) {
  RunnerBench bench;
  bench.Open();
  ASSERT_TRUE(bench.Run(bench.Spec(kKey, 1, {})));
  ASSERT_TRUE(bench.AwaitEnd(kKey, 0));
  bench.Kill();
  // While its shim lives, a record may still be on its way.
  const AttemptDir dir(DirOf(bench), *bench.options().files);
  const auto start = dir.ReadRank(0).start;
  ASSERT_TRUE(start);
  ASSERT_TRUE(
      bench.Eventually([&] { return !bench.ProcessLives(static_cast<int>(start->shim_pid)); }));
  {
    std::fstream file(bench.RankPath(kKey, 0) + "/exit",
                      std::ios::in | std::ios::out | std::ios::binary);
    // The byte is turned over, not written: a given value is what stood there once in 256 runs.
    file.seekg(40);
    const int byte = file.get();
    file.seekp(40);
    file.put(static_cast<char>(~byte));
  }
  const RunnerState state = bench.Open();
  ASSERT_NE(Only(state), nullptr);
  ASSERT_TRUE(Only(state)->status.ranks.at(0).exit);
  EXPECT_EQ(Only(state)->status.ranks[0].exit->cause, ExitCause(UnknownEnd{"record torn"}));
}

TEST(Restart, LearnsTheProcessOfARankThatItFoundInMidStart) {
  RunnerBench bench;
  bench.Open();
  const auto started = bench.Run(bench.Spec(kKey, 1, {"--sleep-until", bench.Path("never")}));
  ASSERT_TRUE(started && !started->failed);
  bench.Kill();
  const std::string path = bench.RankPath(kKey, 0) + "/start";
  const std::string whole = bench.ReadFile(path);
  std::filesystem::resize_file(path, shim::kRankRecordOffset);
  const RunnerState state = bench.Open();
  ASSERT_NE(Only(state), nullptr);
  EXPECT_TRUE(Only(state)->status.ranks.at(0).started);
  EXPECT_EQ(Only(state)->status.ranks.at(0).pid, 0);
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << whole;
  EXPECT_TRUE(bench.Eventually([&] { return bench.told().Count<told::StartDone>() == 2; }));
  const auto told = bench.told().Last<told::StartDone>();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->pids, started->pids);
}

TEST(Restart, HoldsAnAttemptWhoseAcceptRecordCannotBeRead) {
  RunnerBench bench;
  bench.Open();
  ASSERT_TRUE(bench.Run(bench.Spec(kKey, 1, {"--sleep-until", bench.Path("never")})));
  bench.Kill();
  const std::string path = DirOf(bench) + "/accept";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  const RunnerState state = bench.Open();
  ASSERT_NE(Only(state), nullptr);
  EXPECT_TRUE(Only(state)->unreadable);
  EXPECT_TRUE(Only(state)->alive);
  EXPECT_NE(Only(state)->why.find(path), std::string::npos);
  EXPECT_NE(Only(state)->why.find("cut short"), std::string::npos);
  EXPECT_EQ(bench.CountLedger("end"), 0);
  ASSERT_TRUE(bench.Stop(kKey, Millis{0}));  // an operator's decision frees it
}

// Its ranks' own records are whole: the controller must not wait for their ends for ever.
TEST(Restart, TellsHowRanksEndWhoseAcceptRecordCannotBeRead) {
  RunnerBench bench;
  bench.Open();
  ASSERT_TRUE(bench.Run(bench.Spec(kKey, 2, {"--exit", "33", "--sleep-until", bench.Path("go")})));
  bench.Kill();
  const std::string path = DirOf(bench) + "/accept";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  const RunnerState state = bench.Open();
  ASSERT_NE(Only(state), nullptr);
  EXPECT_TRUE(Only(state)->unreadable);
  ASSERT_EQ(Only(state)->status.ranks.size(), 2u);
  EXPECT_TRUE(Only(state)->status.ranks[0].started);
  bench.Touch("go");
  for (const Rank rank : {0, 1}) {
    const auto report = bench.AwaitEnd(kKey, rank);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->cause, ExitCause(Exited{33}));
  }
  bench.Kill();  // and those that ended while no agent was there
  const RunnerState again = bench.Open();
  ASSERT_NE(Only(again), nullptr);
  ASSERT_TRUE(Only(again)->status.ranks.at(1).exit);
  EXPECT_EQ(Only(again)->status.ranks[1].exit->cause, ExitCause(Exited{33}));
  ASSERT_TRUE(bench.Stop(kKey, Millis{0}));
}

TEST(Restart, GivesBackWhatItCannotReadOnceNothingOfItIsLeft) {
  RunnerBench bench;
  bench.Open();
  ASSERT_TRUE(bench.Accept(bench.Spec(kKey, 1, {})));
  bench.Kill();
  const std::string path = DirOf(bench) + "/accept";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  const RunnerState state = bench.Open();
  ASSERT_NE(Only(state), nullptr);
  EXPECT_TRUE(Only(state)->unreadable);
  const auto done = bench.told().Await<told::StopDone>(
      [](const told::StopDone& told) { return told.key == kKey && told.held.empty(); });
  ASSERT_TRUE(done);
  bench.runner().Forget({kKey});
  EXPECT_TRUE(bench.Eventually([&] { return !std::filesystem::exists(DirOf(bench)); }));
}

TEST(Restart, ReportsAnAttemptFromBeforeAReboot) {
  RunnerBench bench;
  bench.Open();
  ASSERT_TRUE(bench.Run(bench.Spec(kKey, 1, {})));
  ASSERT_TRUE(bench.AwaitEnd(kKey, 0));
  bench.Kill();
  AttemptDir dir(DirOf(bench), *bench.options().files);
  auto accept = dir.ReadAccept();
  ASSERT_TRUE(accept && *accept);
  (*accept)->boot_id = "another-boot";
  ASSERT_TRUE(dir.WriteAccept(**accept));
  std::filesystem::resize_file(bench.RankPath(kKey, 0) + "/exit", 0);
  const RunnerState state = bench.Open();
  ASSERT_NE(Only(state), nullptr);
  EXPECT_FALSE(Only(state)->alive);
  EXPECT_EQ(Only(state)->boot_id, "another-boot");
  ASSERT_TRUE(Only(state)->status.ranks.at(0).exit);
  EXPECT_EQ(Only(state)->status.ranks[0].exit->cause, ExitCause(UnknownEnd{"node rebooted"}));
}

TEST(Restart, ReportsProcessesInACgroupOfOursWithoutARecord) {
  RunnerBench bench;
  bench.Open();
  if (bench.runner().containment() == Containment::kTree) GTEST_SKIP() << "needs a cgroup";
  ASSERT_TRUE(bench.Run(bench.Spec(kKey, 1, {"--sleep-until", bench.Path("never")})));
  bench.Kill();
  std::filesystem::remove_all(DirOf(bench));
  const RunnerState state = bench.Open();
  ASSERT_NE(Only(state), nullptr);
  EXPECT_EQ(Only(state)->status.key, kKey);
  EXPECT_TRUE(Only(state)->unreadable);
  EXPECT_EQ(bench.CountLedger("end"), 0);
  ASSERT_TRUE(bench.Stop(kKey, Millis{0}));
}

TEST(Restart, NeverSignalsAProcessThatGotTheNumberOfADeadShim) {
  RunnerBench bench;
  bench.Open();
  ASSERT_TRUE(bench.Run(bench.Spec(kKey, 1, {"--sleep-until", bench.Path("never")})));
  bench.Kill();
  AttemptDir dir(DirOf(bench), *bench.options().files);
  const RankFiles files = dir.ReadRank(0);
  ASSERT_TRUE(files.start && files.rank);
  const auto shim = static_cast<pid_t>(files.start->shim_pid);
  const auto rank = static_cast<pid_t>(files.rank->pid);
  ASSERT_EQ(::kill(shim, SIGKILL), 0);
  ASSERT_EQ(::waitpid(shim, nullptr, 0), shim);
  ASSERT_EQ(::kill(rank, SIGKILL), 0);
  ASSERT_TRUE(bench.Eventually([&] { return StartTicksOf(rank) == 0; }));
  // Another process takes the very number, within the same tick where the kernel lets us.
  pid_t foreign = -1;
  for (int i = 0; i < 200 && foreign != rank; ++i) {
    if (foreign > 0) {
      ::kill(foreign, SIGKILL);
      ::waitpid(foreign, nullptr, 0);
    }
    std::ofstream("/proc/sys/kernel/ns_last_pid") << rank - 1 << std::flush;
    foreign = ::fork();
    if (foreign == 0) {
      for (;;) ::pause();
    }
  }
  const bool reused = foreign == rank;
  bench.Open();
  EXPECT_TRUE(bench.Stop(kKey, Millis{0}));
  EXPECT_EQ(::kill(foreign, 0), 0);
  int status = 0;
  EXPECT_EQ(::waitpid(foreign, &status, WNOHANG), 0) << "a foreign process was killed";
  ::kill(foreign, SIGKILL);
  ::waitpid(foreign, nullptr, 0);
  if (!reused) GTEST_SKIP() << "the kernel did not give the number again";
}

// Runs `test` in a process without privileges; a test that failed there fails here.
void RunUnprivileged(const std::function<void()>& test) {
  constexpr uid_t kNobody = 65534;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool became = ::setgroups(0, nullptr) == 0 &&
                        ::setresgid(kNobody, kNobody, kNobody) == 0 &&
                        ::setresuid(kNobody, kNobody, kNobody) == 0;
    EXPECT_TRUE(became);
    (void)::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);  // as any program that was started so
    if (became) test();
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// Whether what `test` needs of this machine is there.
bool CanRunUnprivileged() {
  if (::geteuid() != 0) return false;
  bool can = true;
  for (fs::path at = RunnerBench::WitnessPath(); at.has_relative_path(); at = at.parent_path())
    can = can && (fs::status(at).permissions() & fs::perms::others_exec) != fs::perms::none;
  return can;
}

// As `launch up` without root, where no control group tells whose a process is either.
TEST(Restart, AnAgentWithoutPrivilegesAdoptsItsRanks) {
  if (!CanRunUnprivileged()) GTEST_SKIP() << "needs root, and programs that others may start";
  RunUnprivileged([] {
    RunnerBench bench;
    bench.options().containment = Containment::kTree;
    bench.Open();
    AllocationSpec spec = bench.Spec(kKey, 2, {"--exit", "7", "--sleep-until", bench.Path("go")});
    spec.lease = Millis{600'000};
    ASSERT_TRUE(bench.Accept(spec));
    order::Start start;
    start.go.key = kKey;
    start.lease_end = SystemClock().Now() + *spec.lease;
    bench.runner().Start(start);
    ASSERT_TRUE(bench.AwaitWitnesses(2));
    ASSERT_TRUE(bench.told().Await<told::StartDone>([](const auto&) { return true; }));
    for (const std::uint64_t restart : {97, 98}) {
      bench.Kill();
      const RunnerState state = bench.Open();
      EXPECT_TRUE(std::ranges::any_of(state.allocations, [](const FoundAllocation& found) {
        return found.status.key == kKey && found.alive;
      }));
      // Nothing of this one is here; its end is told by a sweep behind that over our ranks.
      EXPECT_TRUE(bench.Stop({{restart}, {1}}, Millis{0}));
    }
    EXPECT_EQ(bench.told().Count<told::NodeNotice>(), 0) << "as rank.supervisor_lost";
    EXPECT_EQ(bench.told().Count<told::RankEnded>(), 0);
    bench.Touch("go");
    for (const Rank rank : {0, 1}) {
      const auto report = bench.AwaitEnd(kKey, rank);
      ASSERT_TRUE(report);
      EXPECT_EQ(report->cause, ExitCause(Exited{7}));
    }
  });
}

// A shim of an agent before this one, or one whose rank has not begun: the kernel does not show
// what it holds.
TEST(Restart, WhatHidesItsFilesIsNotTakenForGone) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  RunUnprivileged([] {
    int ready[2];
    ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
    const pid_t hidden = ::fork();
    if (hidden == 0) {
      (void)::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
      (void)!::write(ready[1], "x", 1);
      for (;;) ::pause();
    }
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    PosixFileSystem files;
    const AllocationRun run(kKey, AttemptDir("/absent", files), CgroupHost{});
    EXPECT_FALSE(IsOf(run, hidden));
    EXPECT_TRUE(IsOfByRecord(run, hidden));
    EXPECT_FALSE(IsOfByRecord(run, ::getpid())) << "it is seen not to hold the lock";
    EXPECT_FALSE(IsOfByRecord(run, 1)) << "of another user";
    ::kill(hidden, SIGKILL);
    EXPECT_EQ(::waitpid(hidden, nullptr, 0), hidden);
    EXPECT_FALSE(IsOfByRecord(run, hidden)) << "it is gone";
  });
}

// The same on every kernel: the record names the process, and the start of another.
TEST(Restart, NeverSignalsAProcessThatHasTheNumberOfADeadRank) {
  RunnerBench bench;
  bench.options().containment = Containment::kTree;
  bench.Open();
  ASSERT_TRUE(bench.Run(bench.Spec(kKey, 2, {"--sleep-until", bench.Path("never")})));
  ASSERT_TRUE(bench.AwaitWitnesses(2));
  bench.Kill();
  const RankFiles files = AttemptDir(DirOf(bench), *bench.options().files).ReadRank(0);
  ASSERT_TRUE(files.start && files.rank);
  const auto shim = static_cast<pid_t>(files.start->shim_pid);
  const auto rank = static_cast<pid_t>(files.rank->pid);
  ASSERT_EQ(::kill(shim, SIGKILL), 0);
  ASSERT_EQ(::waitpid(shim, nullptr, 0), shim);
  ASSERT_EQ(::kill(rank, SIGKILL), 0);
  ASSERT_TRUE(bench.Eventually([&] { return !bench.ProcessLives(rank); }));
  const pid_t foreign = ::fork();
  if (foreign == 0) {
    for (;;) ::pause();
  }
  shim::RankRecord record = *files.rank;
  record.pid = foreign;
  shim::Seal(record);
  {
    std::fstream start(bench.RankPath(kKey, 0) + "/start",
                       std::ios::in | std::ios::out | std::ios::binary);
    start.seekp(shim::kRankRecordOffset);
    start.write(reinterpret_cast<const char*>(&record), sizeof record);
  }
  bench.Open();
  EXPECT_TRUE(bench.Stop(kKey, Millis{0}));
  EXPECT_EQ(::waitpid(foreign, nullptr, WNOHANG), 0) << "a foreign process was killed";
  ::kill(foreign, SIGKILL);
  ::waitpid(foreign, nullptr, 0);
}

TEST(Restart, AnotherAgentCannotUseTheSameStateDirectory) {
  RunnerBench bench;
  bench.Open();
  PosixRunner second(bench.options());
  const auto state = second.Recover();
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code, ErrorCode::kConflict);
}

// As after a state_dir that was moved or copied: both agents are of one node, and so are their
// groups.
TEST(Restart, AnAgentThatLivesElsewhereKeepsWhatRunsInItsGroups) {
  RunnerBench bench;
  bench.Open();
  ASSERT_TRUE(bench.Run(bench.Spec(kKey, 1, {"--sleep-until", bench.Path("never")})));
  std::filesystem::create_directories(bench.Path("elsewhere/work"));
  RunnerBench second(bench.Path("elsewhere"), bench.options().cgroup_name);
  EXPECT_TRUE(second.Open().allocations.empty());
  second.Kill();
  EXPECT_EQ(bench.CountLedger("end"), 0);
  ASSERT_TRUE(bench.Stop(kKey, Millis{0}));
}

TEST(Restart, FindsLocksBelowTheStateDirectoryAlone) {
  RunnerBench bench;
  bench.Open();
  const auto started = bench.Run(bench.Spec(kKey, 1, {"--sleep-until", bench.Path("never")}));
  ASSERT_TRUE(started && !started->failed);
  const std::string allocations = bench.Path("state/allocations");
  const std::string lock = DirOf(bench) + "/lock";
  const auto holders = OpenBelow(allocations);
  ASSERT_TRUE(holders.contains(lock));
  const auto rank = static_cast<int>(started->pids.at(0).second);
  EXPECT_NE(std::ranges::find(holders.at(lock), rank), holders.at(lock).end());
  EXPECT_TRUE(HoldsOpen(rank, lock));
  EXPECT_FALSE(HoldsOpen(rank, bench.Path("lock")));
  EXPECT_TRUE(OpenBelow(bench.Path("sta")).empty());
  std::filesystem::remove(lock);
  EXPECT_TRUE(HoldsOpen(rank, lock)) << "deleted, and open";
  EXPECT_TRUE(OpenBelow(allocations).contains(lock));
  ASSERT_TRUE(bench.Stop(kKey, Millis{0}));
}

// A file system with one file, "lock", that never says what is known of the file.
void ServeSilently(int fuse, std::uint64_t inode) {
  std::vector<char> asked(1 << 20);
  for (;;) {
    const ssize_t size = ::read(fuse, asked.data(), asked.size());
    if (size < static_cast<ssize_t>(sizeof(fuse_in_header))) ::_exit(1);
    fuse_in_header in{};
    std::memcpy(&in, asked.data(), sizeof in);
    std::string answer;
    const auto add = [&answer](const auto& out) {
      answer.append(reinterpret_cast<const char*>(&out), sizeof out);
    };
    int error = 0;
    if (in.opcode == FUSE_GETATTR || in.opcode == FUSE_FORGET) continue;
    if (in.opcode == FUSE_INIT) {
      fuse_init_out out{};
      out.major = FUSE_KERNEL_VERSION;
      out.minor = 31;
      out.max_write = 4096;
      add(out);
    } else if (in.opcode == FUSE_LOOKUP) {
      fuse_entry_out out{};
      out.nodeid = 2;
      out.attr.ino = inode;
      out.attr.mode = S_IFREG | 0600;
      out.attr.nlink = 1;
      add(out);
    } else if (in.opcode == FUSE_OPEN) {
      add(fuse_open_out{});
    } else {
      error = -ENOSYS;
    }
    fuse_out_header head{};
    head.len = static_cast<std::uint32_t>(sizeof head + answer.size());
    head.error = error;
    head.unique = in.unique;
    answer.insert(0, reinterpret_cast<const char*>(&head), sizeof head);
    (void)!::write(fuse, answer.data(), answer.size());
  }
}

// As a file server that is gone, and with the number of the lock itself.
TEST(Restart, WaitsForNoForeignFileThatIsCalledLock) {
  RunnerBench bench;
  bench.Touch("lock");
  const std::string lock = bench.Path("lock");
  const std::string mount = bench.Path("foreign");
  std::filesystem::create_directories(mount);
  struct stat info {};
  ASSERT_EQ(::stat(lock.c_str(), &info), 0);
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  const pid_t server = ::fork();
  if (server == 0) {
    ::close(pipe[0]);
    const int fuse = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
    const std::string options =
        "fd=" + std::to_string(fuse) + ",rootmode=40000,user_id=0,group_id=0";
    if (fuse < 0 || ::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", mount.c_str(), "fuse", 0, options.c_str()) != 0) {
      ::_exit(1);
    }
    if (::fork() == 0) {
      ::close(fuse);
      const int self = ::getpid();
      if (::open((mount + "/lock").c_str(), O_RDONLY) >= 0) {
        (void)!::write(pipe[1], &self, sizeof self);
      }
      ::close(pipe[1]);
      for (;;) ::pause();
    }
    ::close(pipe[1]);
    ServeSilently(fuse, info.st_ino);
  }
  ::close(pipe[1]);
  int holder = 0;
  const bool told = ::read(pipe[0], &holder, sizeof holder) == sizeof holder;
  ::close(pipe[0]);
  if (told) {
    auto own = std::async(std::launch::async, [&] {
      EXPECT_FALSE(HoldsOpen(holder, lock));
      return FindOwn(lock, {});
    });
    EXPECT_EQ(own.wait_for(std::chrono::seconds(10)), std::future_status::ready);
    ::kill(server, SIGKILL);  // what waits for it gets an error
    EXPECT_TRUE(own.get().empty());
    ::kill(holder, SIGKILL);
  }
  ::kill(server, SIGKILL);
  ::waitpid(server, nullptr, 0);
  if (!told) GTEST_SKIP() << "no file system of our own";
}

TEST(Restart, RemembersTheFenceAndRefusesATornOne) {
  RunnerBench bench;
  bench.Open();
  ASSERT_TRUE(bench.runner().SaveFence({1, 7, 42}));
  bench.Kill();
  EXPECT_EQ(bench.Open().fence, (Fence{1, 7, 42}));
  bench.Kill();
  const std::string path = bench.options().state_dir + "/fence";
  const std::string good = bench.ReadFile(path);
  std::filesystem::resize_file(path, 20);
  {
    PosixRunner runner(bench.options());
    const auto state = runner.Recover();
    ASSERT_FALSE(state);
    EXPECT_EQ(state.error().code, ErrorCode::kDataLoss);
    EXPECT_NE(state.error().message.find(path), std::string::npos);
  }
  std::ofstream(path, std::ios::binary) << good;
}

// What the agent finds of the record in which the supervisor of `setup` says who it is.
enum class SupervisorRecord { kThere, kLate, kNever };

class RestartDuringSetup : public testing::TestWithParam<SupervisorRecord> {};

// As Python's subprocess starts it: with no descriptor of its parent's, so that without control
// groups nothing but its descent tells whose it is.
TEST_P(RestartDuringSetup, LeavesNoProcessThatHoldsNoLock) {
  RunnerBench bench;
  bench.options().containment = Containment::kTree;
  bench.Open();
  AllocationSpec spec = bench.Spec(kKey, 1, {});
  const std::string pid_file = bench.Path("pid");
  spec.setup =
      "( for fd in /proc/$BASHPID/fd/*; do number=${fd##*/}; if [ $number -gt 2 ]; then eval "
      "\"exec $number>&-\"; fi; done; exec sleep 77777 ) & echo $! > " +
      pid_file + "; wait";
  ASSERT_TRUE(bench.Accept(spec));
  bench.runner().Stage({to_node::Stage{.key = kKey}});
  ASSERT_TRUE(bench.Eventually([&] { return bench.ReadFile(pid_file).ends_with('\n'); }));
  const int pid = std::stoi(bench.ReadFile(pid_file));
  ASSERT_TRUE(bench.Eventually(
      [&] { return bench.ReadFile("/proc/" + std::to_string(pid) + "/comm") == "sleep\n"; }));
  ASSERT_FALSE(HoldsOpen(pid, DirOf(bench) + "/lock"));
  bench.Kill();
  const std::string record = DirOf(bench) + "/setup/start";
  if (GetParam() != SupervisorRecord::kThere) std::filesystem::rename(record, bench.Path("aside"));
  const RunnerState state = bench.Open();
  ASSERT_NE(Only(state), nullptr);
  EXPECT_TRUE(Only(state)->alive);
  EXPECT_EQ(Only(state)->status.ranks.size(), 1u) << "`setup` is no rank";
  if (GetParam() == SupervisorRecord::kLate) std::filesystem::rename(bench.Path("aside"), record);
  const auto stopped = bench.Stop(kKey, Millis{0});
  ASSERT_TRUE(stopped);
  EXPECT_TRUE(stopped->held.empty());
  EXPECT_FALSE(bench.ProcessLives(pid));
  EXPECT_EQ(bench.told().Count<told::StartDone>(), 0);
  EXPECT_EQ(bench.told().Count<told::RankEnded>(), 0);
  ::kill(pid, SIGKILL);
}

INSTANTIATE_TEST_SUITE_P(Records, RestartDuringSetup,
                         testing::Values(SupervisorRecord::kThere, SupervisorRecord::kLate,
                                         SupervisorRecord::kNever));

}  // namespace
}  // namespace launch::agent
