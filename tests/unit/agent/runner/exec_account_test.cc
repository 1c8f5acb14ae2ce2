// Commands beside the ranks of another account, started by an agent whose threads come and go.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "agent/runner/exec_process.h"
#include "tests/unit/agent/runner/runner_bench.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

constexpr Key kKey{{41}, {1}};
const std::uint32_t kAna = 1'150'000'000 + static_cast<std::uint32_t>(::getpid());

class ExecAccountTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: it runs commands as another account";
    fs::permissions(bench_.dir(), fs::perms(0755));
    fs::permissions(bench_.Path("work"), fs::perms(0777));
    bench_.options().account_of = [](const std::string&) -> Result<LocalAccount> {
      return LocalAccount{.name = "ana",
                          .uid = kAna,
                          .gid = kAna,
                          .groups = {kAna, 61100},
                          .home = "/",
                          .shell = "/bin/sh"};
    };
    bench_.Open();
    AllocationSpec spec = bench_.Spec(kKey, 1, {});
    spec.user = "ana";
    spec.ranks[0].argv = {"/bin/bash", "--norc", "-c",
                          "echo up >up; until [ -e go ]; do sleep 0.1; done"};
    ASSERT_TRUE(bench_.Run(spec));
    ASSERT_TRUE(bench_.Eventually([&] { return !bench_.ReadFile(Work("up")).empty(); }));
  }
  void TearDown() override {
    if (IsSkipped()) return;
    bench_.Touch("work/go");
    EXPECT_TRUE(bench_.AwaitEnd(kKey, 0));
  }
  std::string Work(const std::string& name) const { return bench_.Path("work/" + name); }

  // Its code, or -1 when it did not start or did not end; what it wrote is in `said`.
  int Exec(const std::string& id, std::vector<std::string> argv, std::string* said = nullptr) {
    ExecCommand command;
    command.argv = std::move(argv);
    auto process =
        ExecProcess::Start({.attempt_dir = bench_.options().state_dir + "/allocations/41.1",
                            .cgroups = bench_.runner().cgroups(),
                            .key = kKey,
                            .rank = 0,
                            .id = id,
                            .container = {}},
                           command);
    if (!process) {
      ADD_FAILURE() << process.error().message;
      return -1;
    }
    process->CloseIn();
    pollfd ended{process->pidfd(), POLLIN, 0};
    if (::poll(&ended, 1, 60'000) != 1) return -1;
    char bytes[4096];
    const ssize_t got = ::read(process->out(), bytes, sizeof bytes);
    if (said != nullptr && got > 0) said->assign(bytes, static_cast<std::size_t>(got));
    return process->Reap().code;
  }

  RunnerBench bench_;
};

// The agent of a container or of a login may have capabilities that its programs inherit.
class Inheritable {
 public:
  Inheritable() {
    (void)::syscall(SYS_capget, &header_, before_);
    __user_cap_data_struct all[_LINUX_CAPABILITY_U32S_3] = {before_[0], before_[1]};
    for (__user_cap_data_struct& set : all) set.inheritable = set.permitted;
    (void)::syscall(SYS_capset, &header_, all);
  }
  Inheritable(const Inheritable&) = delete;
  Inheritable& operator=(const Inheritable&) = delete;
  ~Inheritable() { (void)::syscall(SYS_capset, &header_, before_); }

 private:
  __user_cap_header_struct header_{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct before_[_LINUX_CAPABILITY_U32S_3] = {};
};

TEST_F(ExecAccountTest, CommandsHaveTheAccountsIdsAndNothingOfRoots) {
  const Inheritable inheritable;
  std::string said;
  EXPECT_EQ(Exec("ids",
                 {"/bin/bash", "--norc", "-c",
                  "id -u; id -g; id -G; umask; "
                  "grep -E '^(Cap(Inh|Prm|Eff|Amb)|NoNewPrivs)' /proc/self/status"},
                 &said),
            0);
  const std::string id = std::to_string(kAna);
  EXPECT_EQ(said, id + "\n" + id + "\n" + id +
                      " 61100\n0077\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\n"
                      "CapEff:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\n");
}

TEST_F(ExecAccountTest, CommandsReachNoLock) {
  if (bench_.runner().cgroups().level == Containment::kTree) GTEST_SKIP() << "found by it there";
  std::string said;
  EXPECT_EQ(Exec("locks", {"/bin/bash", "--norc", "-c", "ls -l /proc/$$/fd"}, &said), 0);
  EXPECT_EQ(said.find("/lock\n"), std::string::npos) << said;
}

TEST_F(ExecAccountTest, StartsWhileThreadsOfTheAgentComeAndGo) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int i = 0; i < 2; ++i) {
    busy.emplace_back([&stop] {
      while (!stop) std::thread([] {}).join();
    });
  }
  int fine = 0;
  constexpr int kTimes = 40;
  for (int i = 0; i < kTimes; ++i) {
    if (Exec("busy-" + std::to_string(i), {"/bin/true"}) == 0) ++fine;
  }
  stop = true;
  for (std::thread& thread : busy) thread.join();
  EXPECT_EQ(fine, kTimes);
}

}  // namespace
}  // namespace launch::agent
