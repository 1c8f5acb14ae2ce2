// What docker runs is no child of its client and in none of our control groups: a stop must end it
// all the same, or prove that it did not. A stand-in, for no daemon of docker is where tests run.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "agent/runner/attempt_dir.h"
#include "agent/runner/file_lock.h"
#include "common/unique_fd.h"
#include "tests/unit/agent/runner/runner_bench.h"

namespace launch::agent {
namespace {

const Key kKey{JobId{7}, Attempt{1}};

// Runs each container in a pid namespace of its own, behind an init as `--init` puts it there.
constexpr const char* kDaemon = R"(
cd "$1" && mkfifo ask && : >ready
while read -r n <ask; do
  mapfile -d '' -t words <"words.$n"
  unshare --pid --fork --kill-child sh -c 'exec 4<&0; "$@" <&4 4<&- & wait $!' init "${words[@]}" <"in.$n" >"out.$n" 2>&1 &
done
)";
// Its client ends with its standard input, as the end of the container would end it.
constexpr const char* kClient = R"(#!/bin/bash
cd "${0%/*}" || exit 1
while [ "$1" != test/image ]; do shift; done
shift
mkfifo "in.$$" && printf '%s\0' "$@" >"words.$$" && echo $$ >ask
exec cat >"in.$$"
)";

class DockerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "a pid namespace takes root";
    std::filesystem::create_directory(directory_);
    std::ofstream(directory_ + "/docker") << kClient;
    std::filesystem::permissions(directory_ + "/docker", std::filesystem::perms::owner_all);
    daemon_ = ::fork();
    if (daemon_ == 0) {
      ::setpgid(0, 0);
      ::execl("/bin/bash", "bash", "-c", kDaemon, "daemon", directory_.c_str(), nullptr);
      ::_exit(127);
    }
    ASSERT_TRUE(Exists("ready"));
    bench_.options().proof_time = Millis{5'000};
    bench_.Open();
  }
  void TearDown() override {
    if (daemon_ <= 0) return;
    ::kill(-daemon_, SIGKILL);
    ::waitpid(daemon_, nullptr, 0);
  }

  bool Exists(const std::string& name) const {
    return RunnerBench::Eventually(
        [&] { return std::filesystem::exists(directory_ + "/" + name); });
  }
  // A rank in a container that leaves a process in a session of its own.
  AllocationSpec Spec() {
    AllocationSpec spec = bench_.Spec(kKey, 1, {});
    spec.gpus = {{"GPU-a"}};
    spec.container = ContainerSpec{.runtime = "docker", .image = "test/image"};
    spec.ranks[0].argv = {"/bin/bash", "-c",
                          "setsid sleep 1000 & echo >'" + directory_ + "/up'; wait"};
    for (auto& variable : spec.ranks[0].env)
      if (variable.name == "PATH") variable.value = directory_ + ":/usr/bin:/bin";
    return spec;
  }
  std::string Lock() const {
    return AllocationPath(bench_.options().state_dir, kKey) + "/container";
  }

  mutable RunnerBench bench_;
  const std::string directory_ = bench_.Path("docker");
  pid_t daemon_ = 0;
};

TEST_F(DockerTest, AStopEndsWhatTheDaemonRuns) {
  ASSERT_TRUE(bench_.Run(Spec()));
  ASSERT_TRUE(Exists("up"));
  EXPECT_EQ(ProbeLock(Lock()), LockState::kHeld) << "by all that runs in the container";
  const auto stopped = bench_.Stop(kKey, Millis{0});
  ASSERT_TRUE(stopped);
  EXPECT_TRUE(stopped->held.empty()) << stopped->held[0].second;
  EXPECT_EQ(ProbeLock(Lock()), LockState::kFree);
}

// Until the kill something holds the container's standard input, which heeds no TERM.
TEST_F(DockerTest, AStopDoesNotWaitForWhatHoldsAContainerThatHasEnded) {
  ASSERT_TRUE(bench_.Run(Spec()));
  ASSERT_TRUE(Exists("up"));
  EXPECT_TRUE(bench_.Stop(kKey, Millis{3'600'000}));
}

TEST_F(DockerTest, AGpuIsHeldForWhatIsLeftInAContainer) {
  bench_.options().proof_time = Millis{50};
  bench_.Kill();
  bench_.Open();
  ASSERT_TRUE(bench_.Run(Spec()));
  ASSERT_TRUE(Exists("up"));
  UniqueFd left(::open(Lock().c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(left.get(), LOCK_SH), 0);
  const auto stopped = bench_.Stop(kKey, Millis{0});
  ASSERT_TRUE(stopped);
  ASSERT_EQ(stopped->held.size(), 1u);
  EXPECT_EQ(stopped->held[0].second, "a process in a container of the job is still there");
  left = UniqueFd();
  bench_.runner().Stop({kKey, StopCause::kCancelled, Millis{0}});
  EXPECT_TRUE(bench_.told().Await<told::StopDone>(
      [](const told::StopDone& done) { return done.held.empty(); }));
}

}  // namespace
}  // namespace launch::agent
