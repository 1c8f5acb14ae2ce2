// The promises of the runner at each containment level that this machine offers.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "agent/runner/file_lock.h"
#include "tests/unit/agent/runner/runner_bench.h"

namespace launch::agent {
namespace {

constexpr Key kKey{{5}, {1}};

std::string CgroupsOf(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cgroup");
  return {std::istreambuf_iterator<char>(file), {}};
}

int ParentOf(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("PPid:")) return std::atoi(line.c_str() + 5);
  }
  return 0;
}

class ContainmentTest : public testing::TestWithParam<Containment> {
 protected:
  void SetUp() override {
    bench_.options().containment = GetParam();
    bench_.Open();
    if (bench_.runner().containment() != GetParam()) {
      GTEST_SKIP() << bench_.runner().containment_why();
    }
  }
  int DaemonPid() const {
    for (const std::string& line : bench_.Ledger()) {
      if (line.starts_with("daemon ")) return std::atoi(line.c_str() + 7);
    }
    return 0;
  }

  RunnerBench bench_;
};

TEST_P(ContainmentTest, ReportsTheExitCode) {
  ASSERT_TRUE(bench_.Run(bench_.Spec(kKey, 2, {"--exit", "4"})));
  for (const Rank rank : {0, 1}) {
    const auto report = bench_.AwaitEnd(kKey, rank);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->cause, ExitCause(Exited{4}));
  }
  const auto stopped = bench_.Stop(kKey, Millis{0});
  ASSERT_TRUE(stopped);
  EXPECT_TRUE(stopped->held.empty());
}

TEST_P(ContainmentTest, StartsShimAndRankInTheirCgroups) {
  const auto started = bench_.Run(bench_.Spec(kKey, 1, {"--sleep-until", bench_.Path("never")}));
  ASSERT_TRUE(started && !started->failed);
  const auto rank = static_cast<int>(started->pids.at(0).second);
  const bool tree = GetParam() == Containment::kTree;
  EXPECT_EQ(CgroupsOf(rank).find("/5.1/ranks/0\n") != std::string::npos, !tree);
  EXPECT_EQ(CgroupsOf(ParentOf(rank)).find("/5.1/shims\n") != std::string::npos, !tree);
  ASSERT_TRUE(bench_.Stop(kKey, Millis{0}));
}

TEST_P(ContainmentTest, KillsWhatIgnoresTermAndItsDaemonToo) {
  AllocationSpec spec = bench_.Spec(
      kKey, 1, {"--ignore-term", "--fork-daemon", "--sleep-until", bench_.Path("never")});
  spec.gpus = {{"GPU-a"}};
  const auto started = bench_.Run(spec);
  ASSERT_TRUE(started && !started->failed);
  ASSERT_TRUE(bench_.Eventually([&] { return DaemonPid() != 0; }));
  const auto stopped = bench_.Stop(kKey, Millis{100});
  ASSERT_TRUE(stopped);
  EXPECT_TRUE(stopped->held.empty());
  EXPECT_FALSE(bench_.ProcessLives(static_cast<int>(started->pids.at(0).second)));
  EXPECT_FALSE(bench_.ProcessLives(DaemonPid()));
  const auto report = bench_.AwaitEnd(kKey, 0);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->cause, ExitCause(Signalled{SIGKILL, false}));
  EXPECT_EQ(ProbeLock(GpuLockPath(bench_.options().lock_dir, {"GPU-a"})), LockState::kFree);
}

TEST(AllocationCgroup, IsEmptyOnlyWhereTheKernelSaysSoOrItIsGone) {
  RunnerBench bench;
  CgroupHost host;
  host.level = Containment::kCgroup;
  host.kill_root = bench.Path("groups");
  host.kill_v2 = true;
  const AllocationCgroup cgroup(host, kKey);
  EXPECT_FALSE(cgroup.RanksPopulated());
  const std::string ranks = bench.Path("groups/5.1/ranks");
  std::filesystem::create_directories(ranks);
  EXPECT_TRUE(cgroup.RanksPopulated()) << "nothing can be read";
  const auto events = [&](const std::string& text) {
    std::ofstream(ranks + "/cgroup.events") << text;
    return cgroup.RanksPopulated();
  };
  EXPECT_FALSE(events("populated 0\nfrozen 0\n"));
  EXPECT_TRUE(events("populated 1\nfrozen 0\n"));
  EXPECT_TRUE(events(""));
  std::filesystem::remove_all(ranks);
  EXPECT_FALSE(cgroup.RanksPopulated());
}

TEST(AllocationCgroup, OfTheOldHierarchyIsEmptyOnlyWhereItsListsCouldBeRead) {
  RunnerBench bench;
  CgroupHost host;
  host.level = Containment::kCgroup;
  host.kill_root = bench.Path("groups");
  const AllocationCgroup cgroup(host, kKey);
  EXPECT_FALSE(cgroup.RanksPopulated());
  const std::string rank = bench.Path("groups/5.1/ranks/0");
  std::filesystem::create_directories(rank);
  EXPECT_FALSE(cgroup.RanksPopulated());
  std::ofstream(rank + "/cgroup.procs") << "";
  EXPECT_FALSE(cgroup.RanksPopulated());
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const struct rlimit none { 0, before.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool without_descriptors = cgroup.RanksPopulated();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(without_descriptors) << "EMFILE";
  std::filesystem::remove(rank + "/cgroup.procs");
  std::filesystem::create_directory(rank + "/cgroup.procs");
  EXPECT_TRUE(cgroup.RanksPopulated()) << "EISDIR";
  std::filesystem::remove(rank + "/cgroup.procs");
  std::ofstream(rank + "/cgroup.procs") << "41\n42\n";
  EXPECT_EQ(cgroup.RankMembers(0), (std::vector<int>{41, 42}));
  EXPECT_TRUE(cgroup.RanksPopulated());
  std::filesystem::remove_all(bench.Path("groups/5.1/ranks"));
  EXPECT_FALSE(cgroup.RanksPopulated());
}

// The groups that a rank made for its own processes come and go while they are listed.
TEST(AllocationCgroup, OfTheOldHierarchyIsNotEmptyWhereAGroupGoesWhileTheyAreListed) {
  RunnerBench bench;
  CgroupHost host;
  host.level = Containment::kCgroup;
  host.kill_root = bench.Path("groups");
  const AllocationCgroup cgroup(host, kKey);
  const std::string ranks = bench.Path("groups/5.1/ranks");
  for (int rank = 0; rank < 4; ++rank) {
    std::filesystem::create_directories(ranks + "/" + std::to_string(rank));
    std::ofstream(ranks + "/" + std::to_string(rank) + "/cgroup.procs") << "";
  }
  std::atomic<bool> over = false;
  std::thread comes_and_goes([&] {
    for (int i = 0; !over; ++i) {
      const std::string own = ranks + "/own-" + std::to_string(i % 16);
      (void)::mkdir(own.c_str(), 0755);
      (void)::rmdir(own.c_str());
    }
  });
  int empty = 0;
  for (int round = 0; round < 400; ++round) {
    // The one that has a process is listed before or behind those that go.
    const std::string held = ranks + "/" + std::to_string(round % 4) + "/cgroup.procs";
    std::ofstream(held) << "41\n";
    empty += cgroup.RanksPopulated() ? 0 : 1;
    std::ofstream(held) << "";
  }
  over = true;
  comes_and_goes.join();
  EXPECT_EQ(empty, 0);
}

TEST(CgroupRoot, IsWhereTheConfigurationSays) {
  RunnerBench bench;
  bench.options().cgroup_root =
      bench.Path("work");  // no cgroup: nothing else is tried in its place
  bench.Open();
  EXPECT_NE(bench.runner().containment(), Containment::kCgroup);
  EXPECT_NE(bench.runner().containment_why().find(bench.Path("work")), std::string::npos)
      << bench.runner().containment_why();
}

TEST_P(ContainmentTest, AdoptsAndStopsAfterARestart) {
  const auto started =
      bench_.Run(bench_.Spec(kKey, 2, {"--ignore-term", "--sleep-until", bench_.Path("never")}));
  ASSERT_TRUE(started && !started->failed);
  ASSERT_TRUE(bench_.AwaitWitnesses(2));
  bench_.Kill();
  const RunnerState state = bench_.Open();
  ASSERT_EQ(state.allocations.size(), 1u);
  EXPECT_TRUE(state.allocations[0].alive);
  ASSERT_TRUE(bench_.Stop(kKey, Millis{100}));
  for (const auto& [rank, pid] : started->pids) {
    EXPECT_FALSE(bench_.ProcessLives(static_cast<int>(pid)));
    const auto report = bench_.AwaitEnd(kKey, rank);
    ASSERT_TRUE(report);
    EXPECT_EQ(report->cause, ExitCause(Signalled{SIGKILL, false}));
  }
}

TEST_P(ContainmentTest, FindsAndEndsWhatRunsThoughItsRecordsAreGone) {
  const auto started =
      bench_.Run(bench_.Spec(kKey, 2, {"--ignore-term", "--sleep-until", bench_.Path("never")}));
  ASSERT_TRUE(started && !started->failed);
  ASSERT_TRUE(bench_.AwaitWitnesses(2));
  bench_.Kill();
  std::filesystem::remove_all(bench_.Path("state/allocations"));
  for (int restart = 0; restart < 2; ++restart) {
    const RunnerState state = bench_.Open();
    ASSERT_EQ(state.allocations.size(), 1u);
    EXPECT_EQ(state.allocations[0].status.key, kKey);
    EXPECT_TRUE(state.allocations[0].unreadable);
    EXPECT_TRUE(state.allocations[0].alive);
    bench_.Kill();
    // As by an agent that was killed when it had begun to end it.
    AttemptDir dir(bench_.Path("state/allocations/5.1"), *bench_.options().files);
    ASSERT_TRUE(dir.WriteTombstone({StopCause::kStale, ""}));
  }
  bench_.Open();
  const auto stopped = bench_.Stop(kKey, Millis{0});
  ASSERT_TRUE(stopped);
  EXPECT_TRUE(stopped->held.empty());
  for (const auto& [rank, pid] : started->pids) {
    EXPECT_FALSE(bench_.ProcessLives(static_cast<int>(pid)));
  }
}

TEST_P(ContainmentTest, SaysInWhichGroupsItLookedUnlessAnotherAgentHasThem) {
  const std::string ours = bench_.runner().cgroups().kill_root;
  EXPECT_EQ(ours.empty(), GetParam() == Containment::kTree);
  bench_.Kill();
  EXPECT_EQ(bench_.Open().cgroups, ours);
  if (ours.empty()) return;
  bench_.Kill();
  std::filesystem::create_directory(ours);
  const UniqueFd other(::open(ours.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::flock(other.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(bench_.Open().cgroups, "");
}

// As a node that is installed anew: other groups are its own by then.
TEST_P(ContainmentTest, FindsAndEndsWhatAnEarlierInstallationStarted) {
  const auto started =
      bench_.Run(bench_.Spec(kKey, 2, {"--ignore-term", "--sleep-until", bench_.Path("never")}));
  ASSERT_TRUE(started && !started->failed);
  ASSERT_TRUE(bench_.AwaitWitnesses(2));
  bench_.Kill();
  std::filesystem::remove_all(bench_.Path("state"));
  RunnerBench anew(bench_.dir(), bench_.options().cgroup_name + "-anew");
  anew.options().containment = GetParam();
  const RunnerState state = anew.Open();
  ASSERT_EQ(state.allocations.size(), 1u);
  EXPECT_EQ(state.allocations[0].status.key, kKey);
  EXPECT_TRUE(state.allocations[0].unreadable);
  EXPECT_TRUE(state.allocations[0].alive);
  for (const auto& [rank, pid] : started->pids)
    EXPECT_TRUE(anew.ProcessLives(static_cast<int>(pid)));
  const auto stopped = anew.Stop(kKey, Millis{0});
  ASSERT_TRUE(stopped);
  EXPECT_TRUE(stopped->held.empty());
  for (const auto& [rank, pid] : started->pids)
    EXPECT_FALSE(anew.ProcessLives(static_cast<int>(pid)));
  anew.Kill();
}

// `cgroup_root` or the identity is another one, the records are there.
TEST_P(ContainmentTest, TakesRanksOverThatLiveInGroupsOfAnotherName) {
  for (const bool noted : {true, false}) {
    SCOPED_TRACE(noted);
    const Key key{{noted ? 5u : 6u}, {1}};
    const AllocationSpec spec =
        bench_.Spec(key, 1, {"--ignore-term", "--sleep-until", bench_.Path("never")});
    const auto started = bench_.Run(spec);
    ASSERT_TRUE(started && !started->failed);
    ASSERT_TRUE(bench_.AwaitWitnesses(noted ? 1 : 2));
    bench_.Kill();
    const std::string note = bench_.Path("state/allocations/" + ToString(key) + "/cgroups");
    ASSERT_TRUE(std::filesystem::exists(note));
    if (!noted) std::filesystem::remove(note);  // as of an agent of before
    RunnerBench other(bench_.dir(), bench_.options().cgroup_name + "-other");
    other.options().containment = GetParam();
    other.Remember(spec);
    const RunnerState state = other.Open();
    ASSERT_FALSE(state.allocations.empty());
    const FoundAllocation& found = state.allocations.back();
    EXPECT_EQ(found.status.key, key);
    EXPECT_TRUE(found.alive);
    EXPECT_FALSE(found.unreadable);
    ASSERT_EQ(found.status.ranks.size(), 1u);
    EXPECT_FALSE(found.status.ranks[0].exit) << Describe(found.status.ranks[0].exit->cause);
    const auto stopped = other.Stop(key, Millis{0});
    ASSERT_TRUE(stopped);
    EXPECT_TRUE(stopped->held.empty());
    EXPECT_FALSE(other.ProcessLives(static_cast<int>(started->pids.at(0).second)));
    other.Kill();
    bench_.Remember(spec);
    bench_.Open();
  }
}

// As an agent that a job runs: its first attempt may have the number of the one it is in.
TEST_P(ContainmentTest, TheGroupThatAProcessIsInItselfIsNotOfWhatItStarted) {
  const auto started = bench_.Run(bench_.Spec(kKey, 1, {"--sleep-until", bench_.Path("never")}));
  ASSERT_TRUE(started && !started->failed);
  const CgroupHost host = bench_.runner().cgroups();
  const std::vector<int> ranks = {static_cast<int>(started->pids.at(0).second)};
  EXPECT_EQ(CgroupsOfProcesses(host, ranks, kKey).has_value(), GetParam() != Containment::kTree);
  const std::vector<std::string> procs = AllocationCgroup(host, kKey).RankProcs(0);
  const pid_t within = ::fork();
  if (within == 0) {
    for (const std::string& file : procs) std::ofstream(file) << 0 << std::flush;
    ::_exit(CgroupsOfProcesses(host, ranks, kKey) ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(within, &status, 0), within);
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(bench_.Stop(kKey, Millis{0}));
}

TEST_P(ContainmentTest, ARankRunsOnWhenOnlyTheLevelOfContainmentChanges) {
  const AllocationSpec spec =
      bench_.Spec(kKey, 1, {"--ignore-term", "--sleep-until", bench_.Path("never")});
  const auto started = bench_.Run(spec);
  ASSERT_TRUE(started && !started->failed);
  ASSERT_TRUE(bench_.AwaitWitnesses(1));
  bench_.Kill();
  bench_.options().containment =
      GetParam() == Containment::kTree ? std::nullopt : std::optional(Containment::kTree);
  const RunnerState state = bench_.Open();
  ASSERT_EQ(state.allocations.size(), 1u);
  EXPECT_TRUE(state.allocations[0].alive);
  EXPECT_FALSE(state.allocations[0].status.ranks.at(0).exit);
  ASSERT_TRUE(bench_.Stop(kKey, Millis{0}));
  EXPECT_FALSE(bench_.ProcessLives(static_cast<int>(started->pids.at(0).second)));
}

TEST_P(ContainmentTest, TellsByItselfThatWhatHadNoRecordIsGone) {
  const auto started = bench_.Run(bench_.Spec(kKey, 1, {"--sleep-until", bench_.Path("never")}));
  ASSERT_TRUE(started && !started->failed);
  const AttemptDir dir(bench_.Path("state/allocations/5.1"), *bench_.options().files);
  const auto start = dir.ReadRank(0).start;
  ASSERT_TRUE(start);
  bench_.Kill();
  std::filesystem::remove_all(bench_.Path("state/allocations"));
  ASSERT_EQ(bench_.Open().allocations.size(), 1u);
  ASSERT_EQ(::kill(static_cast<pid_t>(start->shim_pid), SIGKILL), 0);
  ASSERT_EQ(::kill(static_cast<pid_t>(started->pids.at(0).second), SIGKILL), 0);
  EXPECT_TRUE(bench_.told().Await<told::StopDone>(
      [](const told::StopDone& done) { return done.key == kKey; }));
}

TEST_P(ContainmentTest, StopsARankWhoseSupervisorWasKilled) {
  const auto started =
      bench_.Run(bench_.Spec(kKey, 1, {"--ignore-term", "--sleep-until", bench_.Path("never")}));
  ASSERT_TRUE(started && !started->failed);
  const AttemptDir dir(bench_.Path("state/allocations/5.1"), *bench_.options().files);
  const auto start = dir.ReadRank(0).start;
  ASSERT_TRUE(start);
  ASSERT_EQ(::kill(static_cast<pid_t>(start->shim_pid), SIGKILL), 0);
  ASSERT_TRUE(bench_.told().Await<told::NodeNotice>(
      [](const told::NodeNotice& found) { return found.notice.kind == "rank.supervisor_lost"; }));
  const auto stopped = bench_.Stop(kKey, Millis{100});
  ASSERT_TRUE(stopped);
  EXPECT_TRUE(stopped->held.empty());
  EXPECT_FALSE(bench_.ProcessLives(static_cast<int>(started->pids.at(0).second)));
  const auto report = bench_.AwaitEnd(kKey, 0);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->cause, ExitCause(UnknownEnd{"supervisor killed"}));
}

// As `launch env` prints it, pasted into a shell.
TEST_P(ContainmentTest, SparesAForeignProcessWithTheEnvironmentOfARank) {
  ASSERT_TRUE(bench_.Run(bench_.Spec(kKey, 1, {"--sleep-until", bench_.Path("never")})));
  std::string shell = "/bin/sleep";
  std::string time = "3600";
  std::string marker = "LAUNCH_PROGRESS_FILE=" + bench_.RankPath(kKey, 0) + "/progress.jsonl";
  char* const argv[] = {shell.data(), time.data(), nullptr};
  char* const env[] = {marker.data(), nullptr};
  pid_t foreign = 0;
  ASSERT_EQ(::posix_spawn(&foreign, shell.c_str(), nullptr, nullptr, argv, env), 0);
  const auto stopped = bench_.Stop(kKey, Millis{0});
  EXPECT_TRUE(stopped && stopped->held.empty());
  EXPECT_TRUE(bench_.ProcessLives(foreign));
  ::kill(foreign, SIGKILL);
  ::waitpid(foreign, nullptr, 0);
}

TEST_P(ContainmentTest, DropsAnAllocationOnlyWhenWhatItsSetupBeganHasEnded) {
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  spec.gpus = {{"GPU-a"}};
  spec.setup = "trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done";
  ASSERT_TRUE(bench_.Accept(spec));
  bench_.runner().Stage({to_node::Stage{.key = kKey}});
  const auto pid = [&] { return std::atoi(bench_.ReadFile(bench_.Path("work/pid")).c_str()); };
  ASSERT_TRUE(bench_.Eventually([&] { return pid() > 0; }));
  const AttemptDir dir(bench_.Path("state/allocations/5.1"), *bench_.options().files);
  const auto start = dir.ReadRank(-1).start;
  ASSERT_TRUE(start);
  const auto shim = static_cast<pid_t>(start->shim_pid);
  ASSERT_EQ(::kill(shim, SIGSTOP), 0) << "so that it does not pass the kill on";
  bench_.runner().Drop({kKey, "no pong for 60 s"});
  EXPECT_TRUE(bench_.Eventually([&] { return !bench_.ProcessLives(pid()); }));
  (void)::kill(shim, SIGCONT);
  const std::string lock = GpuLockPath(bench_.options().lock_dir, {"GPU-a"});
  EXPECT_TRUE(bench_.Eventually([&] { return ProbeLock(lock) == LockState::kFree; }));
  EXPECT_EQ(bench_.told().Count<told::StopDone>(), 0) << "nobody asked for a stop";
}

INSTANTIATE_TEST_SUITE_P(Levels, ContainmentTest,
                         testing::Values(Containment::kCgroup, Containment::kCgroup1,
                                         Containment::kTree),
                         [](const auto& level) { return std::string(ToString(level.param)); });

}  // namespace
}  // namespace launch::agent
