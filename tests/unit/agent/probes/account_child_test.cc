// Programs that probes start for a user: what they are before their first instruction.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "agent/account/acting_as.h"
#include "agent/probes/child_process.h"
#include "agent/probes/network_tester.h"
#include "agent/probes/python_probe.h"
#include "agent/probes/runtime_prober.h"
#include "agent/probes/small_files.h"
#include "tests/unit/agent/probes/settable_clock.h"
#include "tests/unit/agent/probes/temporary_tree.h"

// The system's look-up of accounts leaks; asked only by the leak checker.
extern "C" const char* __lsan_default_suppressions() { return "leak:libnss_systemd"; }

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

constexpr Millis kPatience{60'000};
// Nobody's on any machine: the kernel asks no database.
const std::uint32_t kAna = 1'100'000'000 + static_cast<std::uint32_t>(::getpid());

class AccountChildTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: it starts programs as other accounts";
    ASSERT_EQ(::chmod(tree.root().c_str(), 0755), 0);
    library = tree.Path("intruder.so");
    fs::copy_file(LAUNCH_BINARY_DIR "/lib/libintruder.so", library);
    tree.Write("intruder.so.ids", "");
    ASSERT_EQ(::chmod((library + ".ids").c_str(), 0666), 0);
  }
  LocalAccount Ana() const {
    return {.name = "ana",
            .uid = kAna,
            .gid = kAna,
            .groups = {kAna, 61100},
            .home = tree.root(),
            .shell = "/bin/sh"};
  }
  // Whose rights the user's own code had, one line for each program that loaded it.
  void ExpectOnly(std::uint32_t uid) const {
    const std::string told = ReadSmallFile(library + ".ids");
    EXPECT_FALSE(told.empty()) << "the library was not loaded at all";
    std::istringstream lines(told);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_TRUE(line.starts_with(std::to_string(uid) + " ")) << line;
    }
  }

  TemporaryTree tree;
  std::string library;
};

TEST_F(AccountChildTest, TheEnvironmentOfAUserReachesNoProgramOfRoots) {
  const auto ran =
      RunProgram({"/bin/sh", "-c", "id -u"}, {{"LD_PRELOAD", library}}, kPatience, nullptr, Ana());
  ASSERT_TRUE(ran);
  EXPECT_EQ(ran->output, std::to_string(kAna) + "\n");
  ExpectOnly(kAna);
}

TEST_F(AccountChildTest, ANetworkTestRunsTheUsersCodeAsTheUser) {
  AllocationSpec spec{.key = {{7}, {1}}, .user = "ana"};
  spec.ranks.push_back({});
  spec.ranks[0].env = {{"LD_PRELOAD", library}, {"LD_LIBRARY_PATH", tree.root()}};
  const std::string interpreter = tree.Script("python3", "exec id -u\n");
  const std::atomic<bool> cancel{false};
  (void)TestNetwork(interpreter, "", spec, {}, Ana(), cancel);
  ExpectOnly(kAna);
}

TEST_F(AccountChildTest, AnInterpreterIsAskedAsTheUserAlsoWhileActingAsThem) {
  const auto daemon = FindAccount("daemon");
  if (!daemon) GTEST_SKIP() << "this machine has no account daemon";
  const std::string interpreter = tree.Script("python3", "id -u >&2; exit 3\n");
  SettableClock clock;
  PythonProbe probe({.env = {{"PATH", "/usr/bin:/bin"}, {"LD_PRELOAD", library}}}, clock);
  const ActingAs acting(*daemon);
  const RuntimeFacts facts = probe.Ask({.path = interpreter, .user = "daemon", .driver = {}});
  EXPECT_EQ(facts.says, std::to_string(daemon->uid));
  ExpectOnly(daemon->uid);
}

TEST_F(AccountChildTest, NothingOfRootsIsLeftToIt) {
  const auto ran =
      RunProgram({"/bin/sh", "-c",
                  "id -G; umask; pwd; cat /proc/self/oom_score_adj; ls /proc/self/fd | wc -l; "
                  "[ $(cut -d' ' -f6 /proc/self/stat) = $$ ] && echo own session; "
                  "grep -E '^(Cap(Inh|Prm|Eff|Amb)|NoNewPrivs|Uid|Gid)' /proc/self/status"},
                 {{"PATH", "/usr/bin:/bin"}}, kPatience, nullptr, Ana());
  ASSERT_TRUE(ran);
  const std::string id = std::to_string(kAna);
  const std::string four = "\t" + id + "\t" + id + "\t" + id + "\t" + id + "\n";
  EXPECT_EQ(ran->output, id + " 61100\n0077\n/\n0\n4\nown session\nUid:" + four + "Gid:" + four +
                             "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\n"
                             "CapEff:\t0000000000000000\nCapAmb:\t0000000000000000\n"
                             "NoNewPrivs:\t1\n");
}

TEST_F(AccountChildTest, OnesThatCannotStartAreToldAsSuch) {
  const auto closed = tree.Script("closed", "true\n");
  ASSERT_EQ(::chmod(closed.c_str(), 0700), 0);
  const auto ran = RunProgram({closed}, {}, kPatience, nullptr, Ana());
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().message, "start " + closed + " as ana: Permission denied");
  EXPECT_EQ(ran.error().step, SpawnError::Step::kExec);
  EXPECT_EQ(ran.error().error_number, EACCES);
}

TEST_F(AccountChildTest, AnInterpreterThatHangsHoldsUpNobodyElse) {
  if (!FindAccount("daemon") || !FindAccount("bin")) GTEST_SKIP() << "no accounts daemon and bin";
  tree.Directory("open");
  ASSERT_EQ(::chmod(tree.Path("open").c_str(), 0777), 0);
  const std::string slow = tree.Script(
      "slow", "cd " + tree.Path("open") + "; echo >asked; until [ -e go ]; do sleep 0.05; done\n");
  const std::string other = tree.Script("other", "id -u >&2; exit 3\n");
  SettableClock clock;
  RuntimeProber prober({{"PATH", "/usr/bin:/bin"}}, clock);
  const std::atomic<bool> never{false};
  std::thread first([&] { (void)prober.Ask(slow, {}, "daemon", never); });
  while (!fs::exists(tree.Path("open/asked"))) std::this_thread::yield();
  EXPECT_EQ(prober.Ask(other, {}, "bin", never).says, std::to_string(FindAccount("bin")->uid));
  tree.Write("open/go", "");
  first.join();
}

TEST_F(AccountChildTest, NothingOfItsGroupOutlivesIt) {
  for (const bool as_ana : {false, true}) {
    const auto ran =
        RunProgram({"/bin/sh", "-c", "sleep 600 & echo $!"}, {{"PATH", "/usr/bin:/bin"}}, kPatience,
                   nullptr, as_ana ? std::optional(Ana()) : std::nullopt);
    ASSERT_TRUE(ran);
    EXPECT_EQ(ran->status, 0);
    const std::string left = "/proc/" + ran->output.substr(0, ran->output.find('\n')) + "/stat";
    // Gone, or dead and not yet taken note of by init.
    const auto lives = [&] {
      const std::string stat = ReadSmallFile(left);
      return !stat.empty() && stat.find(") Z") == std::string::npos;
    };
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (lives() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    EXPECT_FALSE(lives()) << left;
  }
}

// Children of a process whose other threads come and go.
TEST_F(AccountChildTest, OnesOfABusyProcessStartToo) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int i = 0; i < 2; ++i) {
    busy.emplace_back([&stop] {
      while (!stop) std::thread([] {}).join();
    });
  }
  int fine = 0;
  constexpr int kTimes = 50;
  for (int i = 0; i < kTimes; ++i) {
    const auto ran = RunProgram({"/bin/true"}, {}, kPatience, nullptr, Ana());
    if (ran && ran->status == 0) ++fine;
  }
  stop = true;
  for (std::thread& thread : busy) thread.join();
  EXPECT_EQ(fine, kTimes);
}

}  // namespace
}  // namespace launch::agent
