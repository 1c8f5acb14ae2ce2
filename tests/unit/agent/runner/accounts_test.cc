// Ranks of another account than the agent's: what they run as, reach, and cannot touch.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>

#include "agent/account/acting_as.h"
#include "agent/probes/child_process.h"
#include "agent/runner/account_files.h"
#include "agent/runner/attempt_dir.h"
#include "agent/runner/file_lock.h"
#include "agent/runner/process.h"
#include "agent/runner/staging.h"
#include "tests/unit/agent/runner/runner_bench.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

constexpr Key kKey{{31}, {1}};
// Nobody's on any machine, and of no other run of this test: the kernel asks no database.
const std::uint32_t kAna = 1'000'000'000 + 2 * static_cast<std::uint32_t>(::getpid());
const std::uint32_t kBen = kAna + 1;
const std::string kAnas = std::to_string(kAna);

LocalAccount Account(const std::string& name, std::uint32_t id) {
  return {
      .name = name, .uid = id, .gid = id, .groups = {id, 61100}, .home = "/", .shell = "/bin/sh"};
}

TEST(CheckAccount, LetsNobodyBecomeRootOrASystemAccount) {
  const auto why = [](const std::string& owner, LocalAccount account, AccountRules rules = {}) {
    const auto may = CheckAccount(owner, account, rules);
    return may ? std::string("may") : may.error().message;
  };
  EXPECT_EQ(why("ana", Account("ana", 1000)), "may");
  EXPECT_EQ(why("ana", Account("lab", 1000)), "may");
  EXPECT_NE(why("ana", Account("daemon", 1)).find("below uid 1000"), std::string::npos);
  EXPECT_EQ(why("ana", Account("ana", 500), {.min_uid = 500}), "may");
  EXPECT_NE(why("ana", Account("nobody", 65534)).find("nobody"), std::string::npos);
  EXPECT_NE(why("ana", Account("all", ~0u)).find("nobody"), std::string::npos);
  LocalAccount staff = Account("ana", 1000);
  staff.gid = 0;
  EXPECT_NE(why("ana", staff).find("group"), std::string::npos);

  const LocalAccount root{.name = "root", .uid = 0, .gid = 0};
  const AccountRules with_root{.root_jobs = true};
  EXPECT_EQ(why("root", root), "this node runs no jobs as root");
  EXPECT_NE(CheckAccount("root", root, {}).error().hint.find("root_jobs"), std::string::npos);
  EXPECT_EQ(why("root", root, with_root), "may");
  EXPECT_NE(why("ana", root, with_root).find("which is root"), std::string::npos);
  LocalAccount twin = root;
  twin.name = "toor";
  EXPECT_NE(why("root", twin, with_root).find("which is root"), std::string::npos);
}

TEST(AccountOfOwner, GoesByTheMapAndSaysWhatIsMissing) {
  const auto unknown = AccountOfOwner("no-such-owner", {});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kPermissionDenied);
  EXPECT_NE(unknown.error().message.find("no account no-such-owner"), std::string::npos);
  const auto mapped = AccountOfOwner("ana", {.users = {{"ana", "no-such-account"}}});
  ASSERT_FALSE(mapped);
  EXPECT_NE(mapped.error().message.find("no account no-such-account"), std::string::npos);
  const auto root = AccountOfOwner("ana", {.users = {{"ana", "root"}}, .root_jobs = true});
  ASSERT_FALSE(root) << "also where a file says so";
}

TEST(AtHomeOf, FillsInWhatThePlanDidNotKnow) {
  LocalAccount account = Account("lab-ana", kAna);
  account.home = "/nfs/ana";
  AllocationSpec spec{.key = kKey, .user = "ana"};
  spec.checkpoint_dir = "~/ckpt";
  spec.ranks.push_back({});
  spec.ranks[0].env = {{"A", "~"},          {"B", "/x:~/y"}, {"C", "a~b ~ /~/"},
                       {"D", "file://~/z"}, {"HOME", "~"},   {"USER", "ana"}};
  const AllocationSpec home = AtHome(spec, account);
  EXPECT_EQ(home.checkpoint_dir, "/nfs/ana/ckpt");
  EXPECT_EQ(home.ranks[0].env, (std::vector<EnvVar>{{"A", "/nfs/ana"},
                                                    {"B", "/x:/nfs/ana/y"},
                                                    {"C", "a~b ~ /~/"},
                                                    {"D", "file:///nfs/ana/z"},
                                                    {"HOME", "/nfs/ana"},
                                                    {"USER", "lab-ana"}}));
}

TEST(LocksOfAgents, AreTheirOwnersAloneWhereAgentsOfOthersDoNotMeet) {
  const RunnerBench bench;
  const auto mode = [](const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return info.st_mode & 07777;
  };
  const std::string own = bench.Path("own");
  ASSERT_EQ(::mkdir(own.c_str(), 0755), 0);
  ASSERT_TRUE(FileLock::Take(own + "/a"));
  EXPECT_EQ(mode(own + "/a"), 0600u);
  ASSERT_EQ(::chmod((own + "/a").c_str(), 0644), 0);  // as it was made before
  ASSERT_TRUE(FileLock::Take(own + "/a"));
  EXPECT_EQ(mode(own + "/a"), 0600u);
  ASSERT_EQ(::chmod(own.c_str(), 01777), 0);
  ASSERT_TRUE(FileLock::Take(own + "/b"));
  EXPECT_EQ(mode(own + "/b"), 0644u);
}

TEST(LocksOfAgents, LieWhereNobodyElseMayWriteIfManyAccountsRunJobs) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: it gives a directory away";
  const RunnerBench bench;
  const std::string dir = bench.Path("locks-of-all");
  ASSERT_EQ(::mkdir(dir.c_str(), 0755), 0);
  EXPECT_TRUE(CheckLockDir(dir));
  ASSERT_EQ(::chmod(dir.c_str(), 01777), 0);
  const auto open = CheckLockDir(dir);
  ASSERT_FALSE(open);
  EXPECT_EQ(open.error().message, "lock_dir " + dir +
                                      " (mode 1777, owner uid 0) can be written to by other "
                                      "accounts, which could keep jobs from the GPUs");
  EXPECT_TRUE(open.error().hint.starts_with("chmod go-w " + dir)) << open.error().hint;
  ASSERT_EQ(::chown(dir.c_str(), kAna, 0), 0);
  ASSERT_EQ(::chmod(dir.c_str(), 0755), 0);
  const auto anas = CheckLockDir(dir);
  ASSERT_FALSE(anas);
  EXPECT_NE(anas.error().message.find("owner uid " + kAnas + ") belongs to another"),
            std::string::npos);
  ASSERT_EQ(::chown(dir.c_str(), 0, kAna), 0);
  ASSERT_EQ(::chmod(dir.c_str(), 0775), 0);
  EXPECT_FALSE(CheckLockDir(dir)) << "a group of others";
}

TEST(LocksOfAgents, OfOthersThatWereThereBeforeTheDirectoryWasOursGo) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: it gives a file away";
  const RunnerBench bench;
  const std::string dir = bench.Path("locks-of-all");
  ASSERT_EQ(::mkdir(dir.c_str(), 0755), 0);
  for (const char* name : {"/gpu-ours.lock", "/gpu-anas.lock"})
    ASSERT_TRUE(FileLock::Take(dir + name));
  ASSERT_EQ(::chown((dir + "/gpu-anas.lock").c_str(), kAna, kAna), 0);
  EXPECT_TRUE(CheckLockDir(dir));
  EXPECT_EQ(ProbeLock(dir + "/gpu-ours.lock"), LockState::kFree);
  EXPECT_EQ(ProbeLock(dir + "/gpu-anas.lock"), LockState::kMissing);
}

TEST(LocksOfAgents, LieWhereNobodyElseMayPutAnotherDirectory) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: it gives a directory away";
  const RunnerBench bench;
  const std::string above = bench.Path("above");
  ASSERT_EQ(::mkdir(above.c_str(), 0777), 0);
  ASSERT_EQ(::mkdir((above + "/locks").c_str(), 0755), 0);
  ASSERT_EQ(::chmod(above.c_str(), 0777), 0);
  const auto open = CheckLockDir(above + "/locks");
  ASSERT_FALSE(open);
  EXPECT_NE(open.error().message.find(above + " (mode 0777, owner uid 0), where other accounts"),
            std::string::npos)
      << open.error().message;
  ASSERT_EQ(::chmod(above.c_str(), 01777), 0);
  EXPECT_TRUE(CheckLockDir(above + "/locks"))
      << "in a sticky one nobody renames what is not theirs";
}

class AccountsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: it acts as other accounts";
    // Below /tmp, which other accounts reach.
    fs::permissions(bench_.dir(), fs::perms(0755));
    fs::permissions(bench_.Path("work"), fs::perms(0777));
    bench_.options().account_of = [](const std::string& owner) -> Result<LocalAccount> {
      if (owner == "ana") return Account("ana", kAna);
      if (owner == "ben") return Account("ben", kBen);
      return Fail(ErrorCode::kPermissionDenied, "there is no account " + owner, "make it");
    };
    bench_.Open();
  }
  AllocationSpec Shell(const Key& key, const std::string& owner, const std::string& script) {
    AllocationSpec spec = bench_.Spec(key, 1, {});
    spec.user = owner;
    spec.ranks[0].argv = {"/bin/bash", "--norc", "-c", script};
    return spec;
  }
  std::string Work(const std::string& name) { return bench_.ReadFile(bench_.Path("work/" + name)); }
  std::string Out(const Key& key) { return bench_.ReadFile(bench_.RankPath(key, 0) + "/out"); }
  static struct stat Of(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
    return info;
  }

  RunnerBench bench_;
};

TEST_F(AccountsTest, RanksHaveTheAccountsIdsAndNothingOfRoots) {
  ASSERT_TRUE(bench_.Run(Shell(kKey, "ana",
                               "id -u; id -g; id -G; umask; echo $HOME $USER $LOGNAME $SHELL; "
                               "grep -E '^(Cap(Inh|Prm|Eff|Amb)|NoNewPrivs)' /proc/self/status; "
                               "echo again >>/dev/stdout; touch made; "
                               "echo 1 >$LAUNCH_PROGRESS_FILE")));
  ASSERT_TRUE(bench_.AwaitEnd(kKey, 0));
  EXPECT_EQ(Out(kKey),
            kAnas + "\n" + kAnas + "\n" + kAnas +
                " 61100\n0077\n/ ana ana /bin/sh\n"
                "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
                "CapAmb:\t0000000000000000\nNoNewPrivs:\t1\nagain\n");
  EXPECT_EQ(Of(bench_.Path("work/made")).st_uid, kAna);
  EXPECT_EQ(Of(bench_.RankPath(kKey, 0) + "/own/progress.jsonl").st_uid, kAna);
}

TEST_F(AccountsTest, RanksCannotTouchWhatTheAgentGoesBy) {
  const std::string rank = bench_.RankPath(kKey, 0);
  ASSERT_TRUE(bench_.Run(Shell(kKey, "ana",
                               "cd " + rank +
                                   "; for f in exit start control; do echo x >$f; rm -f $f; "
                                   "mv $f own/; done; echo y >new; ln -s /etc/shadow link; "
                                   "kill -9 $PPID; exit 7")));
  const auto ended = bench_.AwaitEnd(kKey, 0);
  ASSERT_TRUE(ended);
  EXPECT_EQ(std::get<Exited>(ended->cause).code, 7) << "the record is the supervisor's";
  EXPECT_FALSE(fs::exists(rank + "/new"));
  EXPECT_FALSE(fs::is_symlink(rank + "/link"));
  EXPECT_EQ(Of(rank + "/exit").st_uid, 0u);
}

TEST_F(AccountsTest, OneAccountCannotReadAnothersAttempt) {
  const Key other{{32}, {1}};
  AllocationSpec ana =
      Shell(kKey, "ana", "echo secret; echo $$ >pid; until [ -e go ]; do sleep 0.05; done");
  ana.files = {{"plan.json", "{\"secret\": 1}"}};
  ASSERT_TRUE(bench_.Run(ana));
  ASSERT_TRUE(bench_.Eventually([&] { return Work("pid").ends_with("\n"); }));
  const std::string pid = Work("pid").substr(0, Work("pid").find('\n'));
  const std::string attempt = bench_.options().state_dir + "/allocations/31.1";
  ASSERT_TRUE(
      bench_.Run(Shell(other, "ben",
                       "cat " + attempt + "/rank.0/out " + attempt + "/files/plan.json; ls " +
                           attempt + " " + attempt + "/.. " + attempt + "/rank.0/own; cat /proc/" +
                           pid + "/environ; kill -9 " + pid + "; kill -9 -1; exit 3")));
  const auto ended = bench_.AwaitEnd(other, 0);
  ASSERT_TRUE(ended);
  std::ofstream(bench_.Path("work/go")) << "";
  const auto first = bench_.AwaitEnd(kKey, 0);
  ASSERT_TRUE(first);
  EXPECT_EQ(std::get<Exited>(first->cause).code, 0) << "nobody else ended it";
  EXPECT_EQ(Out(other).find("secret"), std::string::npos) << Out(other);
  EXPECT_NE(Out(other).find("Permission denied"), std::string::npos);
  EXPECT_EQ(Out(kKey), "secret\n");
}

TEST_F(AccountsTest, AnUnknownOwnerIsRefusedBeforeAnythingIsMade) {
  const auto refused = bench_.Accept(Shell(kKey, "eve", "true"));
  ASSERT_TRUE(refused);
  ASSERT_FALSE(refused->ports);
  EXPECT_EQ(refused->ports.error().code, ErrorCode::kPreflightFailed);
  EXPECT_EQ(refused->ports.error().message, "there is no account eve; make it");
  EXPECT_FALSE(fs::exists(bench_.options().state_dir + "/allocations/31.1"));
}

// As one of a directory service that does not answer.
TEST_F(AccountsTest, AnAccountThatIsLookedForHoldsNobodyElse) {
  const Key other{{33}, {1}};
  const auto asked = std::make_shared<std::promise<void>>();
  const auto answer = std::make_shared<std::promise<void>>();
  bench_.Kill();
  bench_.options().account_of = [=](const std::string& owner) -> Result<LocalAccount> {
    if (owner == "ben") return Account("ben", kBen);
    asked->set_value();
    answer->get_future().wait();
    return Account("ana", kAna);
  };
  bench_.Open();
  bench_.runner().Accept({Shell(kKey, "ana", "true"), "digest"});
  asked->get_future().wait();
  bench_.runner().Accept({Shell(kKey, "ana", "true"), "digest"});  // a repetition: asked once
  EXPECT_TRUE(bench_.Accept(Shell(other, "ben", "true")));
  EXPECT_FALSE(bench_.told().Last<told::AcceptDone>()->key == kKey);
  bench_.runner().Drop({kKey, "no longer wanted"});
  answer->set_value();
  const auto accepted = bench_.told().Await<told::AcceptDone>(
      [](const told::AcceptDone& done) { return done.key == kKey; });
  ASSERT_TRUE(accepted && accepted->ports);
  EXPECT_TRUE(bench_.Eventually([&] {
    return fs::exists(bench_.options().state_dir + "/allocations/31.1/dropped");
  })) << "the drop follows";
}

TEST_F(AccountsTest, AnAgentThatComesBackKeepsTheAccountOfWhatItAccepted) {
  AllocationSpec spec = Shell(kKey, "ana", "id -u");
  ASSERT_TRUE(bench_.Accept(spec));
  bench_.Kill();
  bench_.options().account_of = nullptr;  // other settings, and the account is gone since
  bench_.Open();
  ASSERT_TRUE(bench_.Start(kKey));
  ASSERT_TRUE(bench_.AwaitEnd(kKey, 0));
  EXPECT_EQ(Out(kKey), kAnas + "\n");
}

TEST_F(AccountsTest, SetupRunsAsTheAccountToo) {
  AllocationSpec spec = Shell(kKey, "ana", "true");
  spec.setup = "id -u >from_setup; echo said";
  ASSERT_TRUE(bench_.Accept(spec));
  bench_.runner().Stage({to_node::Stage{.key = kKey}});
  const auto staged = bench_.told().Await<told::StageDone>(
      [&](const told::StageDone& done) { return done.key == kKey; });
  ASSERT_TRUE(staged);
  EXPECT_EQ(staged->facts.setup_exit, 0);
  EXPECT_EQ(Work("from_setup"), kAnas + "\n");
}

TEST_F(AccountsTest, StagingSeesWhatTheAccountSees) {
  fs::create_directories(bench_.Path("closed/ckpt"));
  fs::permissions(bench_.Path("closed"), fs::perms(0700));
  std::ofstream(bench_.Path("closed/train.py")) << "x";
  AllocationSpec spec = Shell(kKey, "ana", "true");
  spec.script = bench_.Path("closed/train.py");
  spec.checkpoint_dir = bench_.Path("closed/ckpt");
  const std::atomic<bool> cancel{false};
  StagingInput input{
      .spec = spec, .stage = {}, .setup_exit = {}, .setup_tail = {}, .probe_runtime = {}};
  const auto why = [&](const std::string& what) {
    for (const PathFact& fact : RunStaging(input, cancel).paths)
      if (fact.what == what) return fact.ok ? std::string("ok") : fact.why;
    return std::string("absent");
  };
  EXPECT_EQ(why("script"), "ok") << "for root";
  input.account = Account("ana", kAna);
  EXPECT_EQ(why("script"), "Permission denied");
  EXPECT_EQ(why("checkpoint"), "Permission denied");
  ASSERT_EQ(::chown(bench_.Path("closed").c_str(), kAna, kAna), 0);
  ASSERT_EQ(::chown(bench_.Path("closed/ckpt").c_str(), kAna, kAna), 0);
  ASSERT_EQ(::chown(bench_.Path("closed/train.py").c_str(), kAna, kAna), 0);
  EXPECT_EQ(why("script"), "ok");
  EXPECT_EQ(why("checkpoint"), "ok");
}

TEST_F(AccountsTest, ActingAsEndsWithItsScope) {
  const std::string closed = bench_.Path("closed");
  fs::create_directories(closed);
  fs::permissions(closed, fs::perms(0700));
  {
    const ActingAs acting(Account("ana", kAna));
    EXPECT_EQ(::mkdir((closed + "/a").c_str(), 0700), -1);
    EXPECT_EQ(errno, EACCES);
    std::ofstream(bench_.Path("work/hers")) << "x";
  }
  EXPECT_EQ(Of(bench_.Path("work/hers")).st_uid, kAna);
  EXPECT_EQ(::mkdir((closed + "/a").c_str(), 0700), 0);
}

TEST_F(AccountsTest, ActingAsWithinActingAsEndsAsItBegan) {
  const std::string anas = bench_.Path("anas");
  fs::create_directories(anas);
  fs::permissions(anas, fs::perms(0700));
  ASSERT_EQ(::chown(anas.c_str(), kAna, kAna), 0);
  const ActingAs outer(Account("ana", kAna));
  for (const auto& [name, id] : {std::pair("ana", kAna), std::pair("ben", kBen)}) {
    {
      const ActingAs inner(Account(name, id));
      EXPECT_EQ(::mkdir((anas + "/" + name).c_str(), 0700), id == kAna ? 0 : -1);
    }
    std::ofstream(anas + "/after-" + name) << "x";
    EXPECT_EQ(Of(anas + "/after-" + name).st_uid, kAna);
  }
}

// /proc/PID/cwd leads past every directory above, for whoever may trace the process.
TEST_F(AccountsTest, ActingAsPassesThroughNobodyElsesProcesses) {
  const std::string bens = bench_.Path("bens");
  fs::create_directories(bens + "/open");
  ASSERT_EQ(::chown(bens.c_str(), kBen, kBen), 0);
  fs::permissions(bens, fs::perms(0700));
  ASSERT_TRUE(
      bench_.Run(Shell(kKey, "ben",
                       "cd " + bens + "/open; echo $$ >" + bench_.Path("work/pid") +
                           "; until [ -e " + bench_.Path("work/go") + " ]; do sleep 0.05; done")));
  ASSERT_TRUE(bench_.Eventually([&] { return Work("pid").ends_with("\n"); }));
  const std::string way = "/proc/" + Work("pid").substr(0, Work("pid").find('\n')) + "/cwd/";
  struct stat info {};
  {
    const ActingAs acting(Account("ana", kAna));
    EXPECT_EQ(::stat(way.c_str(), &info), -1);
    EXPECT_EQ(errno, EACCES);
  }
  {
    const ActingAs acting(Account("ben", kBen));
    EXPECT_EQ(::stat(way.c_str(), &info), 0) << "its own, where it may be traced";
  }
  std::ofstream(bench_.Path("work/go")) << "";
  EXPECT_TRUE(bench_.AwaitEnd(kKey, 0));
}

TEST_F(AccountsTest, ATreeIsGivenWithoutFollowingItsLinks) {
  const std::string tree = bench_.Path("tree");
  fs::create_directories(tree + "/sub");
  std::ofstream(bench_.Path("roots")) << "x";
  std::ofstream(tree + "/sub/file") << "x";
  fs::create_symlink(bench_.Path("roots"), tree + "/link");
  fs::create_directory_symlink(bench_.Path("work"), tree + "/dir");
  ASSERT_TRUE(GiveTree(tree, Account("ana", kAna)));
  for (const char* given : {"", "/sub", "/sub/file", "/link", "/dir"})
    EXPECT_EQ(Of(tree + given).st_uid, kAna) << given;
  EXPECT_EQ(Of(bench_.Path("roots")).st_uid, 0u);
  EXPECT_EQ(Of(bench_.Path("work")).st_uid, 0u);
}

// Who has a lock may give it up, hold it for ever, or hand it to a service of root's.
TEST_F(AccountsTest, RanksAndTheirHelpersReachNoLock) {
  if (bench_.runner().cgroups().level == Containment::kTree)
    GTEST_SKIP() << "without control groups the lock tells what belongs to a job";
  AllocationSpec spec = Shell(kKey, "ana",
                              "ls -l /proc/$$/fd; for lock in $LOCKS; do "
                              "flock -n $lock echo got 2>/dev/null || echo refused; done");
  spec.gpus = {{"GPU-a"}};
  spec.ranks[0].env.push_back({"LOCKS", bench_.options().state_dir + "/allocations/31.1/lock " +
                                            GpuLockPath(bench_.options().lock_dir, {"GPU-a"})});
  ASSERT_TRUE(bench_.Run(spec));
  ASSERT_TRUE(bench_.AwaitEnd(kKey, 0));
  const std::string out = Out(kKey);
  EXPECT_EQ(out.find("31.1/lock\n"), std::string::npos) << out;
  EXPECT_EQ(out.find("gpu-GPU-a.lock\n"), std::string::npos) << out;
  EXPECT_EQ(out.find("got"), std::string::npos) << out;
  EXPECT_TRUE(out.ends_with("refused\nrefused\n")) << out;
  EXPECT_EQ(Of(GpuLockPath(bench_.options().lock_dir, {"GPU-a"})).st_mode & 0777, 0600u);
}

TEST_F(AccountsTest, GpuLocksAreHeldWhileTheirRankRunsAlsoWithoutTheAgent) {
  AllocationSpec spec = Shell(kKey, "ana", "echo up >up; until [ -e go ]; do sleep 0.05; done");
  spec.gpus = {{"GPU-a"}};
  const std::string lock = GpuLockPath(bench_.options().lock_dir, {"GPU-a"});
  ASSERT_TRUE(bench_.Run(spec));
  ASSERT_TRUE(bench_.Eventually([&] { return !Work("up").empty(); }));
  bench_.Kill();
  EXPECT_EQ(ProbeLock(lock), LockState::kHeld);
  bench_.Open();
  EXPECT_EQ(ProbeLock(lock), LockState::kHeld);
  ASSERT_TRUE(bench_.Stop(kKey, Millis{0}));
  EXPECT_EQ(ProbeLock(lock), LockState::kFree);
}

TEST_F(AccountsTest, AnAgentRefusesALockDirOfAll) {
  bench_.Kill();
  ASSERT_EQ(::chmod(bench_.options().lock_dir.c_str(), 01777), 0);
  PosixRunner runner(bench_.options());
  const auto state = runner.Recover();
  ASSERT_FALSE(state);
  EXPECT_NE(state.error().message.find("(mode 1777, owner uid 0)"), std::string::npos);
  ASSERT_EQ(::chmod(bench_.options().lock_dir.c_str(), 0700), 0);
}

// Without control groups a lock tells what belongs to a job, and a user can hand it to anybody.
TEST_F(AccountsTest, AStopEndsNoProcessOfAnotherAccountThatWasHandedTheLock) {
  bench_.Kill();
  bench_.options().containment = Containment::kTree;
  bench_.Open();
  ASSERT_TRUE(
      bench_.Run(Shell(kKey, "ana", "trap '' TERM; echo up >up; while :; do sleep 0.05; done")));
  ASSERT_TRUE(bench_.Eventually([&] { return !Work("up").empty(); }));
  const std::string lock = bench_.options().state_dir + "/allocations/31.1/lock";
  const auto holder = [&](std::uint32_t uid) {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    if (::open(lock.c_str(), O_RDONLY) < 0 || ::setresuid(uid, uid, uid) != 0) ::_exit(1);
    for (;;) ::pause();
  };
  // Of ana's, and below a process of ben's: that he was handed the lock makes it none of her job.
  const std::string beside = bench_.Path("beside");
  const pid_t leads = ::fork();
  if (leads == 0) {
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setresuid(kAna, kAna, kAna) != 0) ::_exit(1);
      for (;;) ::pause();
    }
    std::ofstream(beside) << child << "\n" << std::flush;
    if (::open(lock.c_str(), O_RDONLY) < 0 || ::setresuid(kBen, kBen, kBen) != 0) ::_exit(1);
    for (;;) ::pause();
  }
  const pid_t roots = holder(0);
  const pid_t bens = holder(kBen);
  const pid_t anas = holder(kAna);
  const auto holds = [&](pid_t pid) { return HoldsOpen(pid, lock); };
  ASSERT_TRUE(bench_.Eventually(
      [&] { return holds(roots) && holds(bens) && holds(anas) && holds(leads); }));
  const int child = std::stoi(bench_.ReadFile(beside));
  ASSERT_TRUE(bench_.Eventually([&] { return IsOfUser(leads, kBen) && IsOfUser(child, kAna); }));
  const auto stopped = bench_.Stop(kKey, Millis{0});
  ASSERT_TRUE(stopped);
  EXPECT_TRUE(stopped->held.empty());
  int status = 0;
  EXPECT_TRUE(bench_.Eventually([&] { return ::waitpid(anas, &status, WNOHANG) == anas; }))
      << "hers is of her job";
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_TRUE(bench_.ProcessLives(child)) << "what descends from another account's was ended";
  ::kill(child, SIGKILL);
  for (const pid_t spared : {roots, bens, leads}) {
    EXPECT_EQ(::waitpid(spared, &status, WNOHANG), 0) << "another account's process was ended";
    ::kill(spared, SIGKILL);
    ::waitpid(spared, &status, 0);
  }
}

TEST_F(AccountsTest, TheFileOfADockerLockTellsNothingOfOtherJobs) {
  AllocationSpec spec = Shell(kKey, "ana", "true");
  ASSERT_TRUE(bench_.Run(spec));
  ASSERT_TRUE(bench_.AwaitEnd(kKey, 0));
  const auto held = FileLock::Take(bench_.options().state_dir + "/allocations/31.1/container");
  ASSERT_TRUE(held);
  ASSERT_TRUE(bench_.Stop(kKey, Millis{0})) << "whoever holds it keeps nothing";
}

TEST_F(AccountsTest, AQuestionToAUsersInterpreterHasAGroupOfItsOwnThatEndsWithIt) {
  const CgroupHost& host = bench_.runner().cgroups();
  if (host.level == Containment::kTree) GTEST_SKIP() << "this machine has no control groups for us";
  const auto groups = [&] {
    int count = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator(host.kill_root))
      count += entry.path().filename().string().starts_with("probe-") ? 1 : 0;
    return count;
  };
  const MakeProbeScope scope = [&]() -> Result<ProbeScope> {
    LAUNCH_ASSIGN_OR_RETURN(const auto group, ProbeCgroup::Make(host, {.processes = 20}));
    EXPECT_EQ(groups(), 1);
    return ProbeScope{.cgroups = group->procs(), .end = group};
  };
  // Its own session and no parent: nothing but the group tells that the daemon is of the probe.
  const std::string script =
      "setsid setsid sleep 600 >/dev/null 2>&1 & sleep 0.1; cat /proc/self/cgroup; "
      "echo $!; for i in $(seq 40); do sleep 0.2 & done; wait";
  const ActingAs acting(Account("ana", kAna));  // as staging does
  const auto ran = RunProgram({"/bin/sh", "-c", script}, {{"PATH", "/usr/bin:/bin"}},
                              Millis{60'000}, nullptr, Account("ana", kAna), scope);
  ASSERT_TRUE(ran) << ran.error().message;
  EXPECT_NE(ran->output.find("/probe-"), std::string::npos) << ran->output;
  if (!host.pids_root.empty()) {
    EXPECT_NE(ran->output.find("Cannot fork"), std::string::npos) << ran->output;
  }
  EXPECT_EQ(groups(), 0);
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string pid = entry.path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    if (bench_.ReadFile("/proc/" + pid + "/stat").find(") Z") != std::string::npos) continue;
    EXPECT_FALSE(IsOfUser(std::stoi(pid), kAna)) << pid << " outlived the question";
  }
  std::ofstream(bench_.Path("work/hers")) << "x";
  EXPECT_EQ(Of(bench_.Path("work/hers")).st_uid, kAna) << "the thread acts as her again";
}

TEST_F(AccountsTest, GroupsOfQuestionsThatAnAgentLeftAreEndedByTheNext) {
  CgroupHost host = bench_.runner().cgroups();
  if (host.level == Containment::kTree) GTEST_SKIP() << "this machine has no control groups for us";
  host.claim.reset();  // it is the next agent's
  const std::string left = host.kill_root + "/probe-left";
  ASSERT_EQ(::mkdir(left.c_str(), 0755), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    std::ofstream(left + "/cgroup.procs") << ::getpid();
    ::execl("/bin/sleep", "sleep", "600", nullptr);  // without what this process holds open
    ::_exit(127);
  }
  ASSERT_TRUE(bench_.Eventually([&] { return bench_.ReadFile(left + "/cgroup.procs") != ""; }));
  bench_.Kill();
  bench_.Open();
  int status = 0;
  const bool ended = bench_.Eventually([&] { return ::waitpid(pid, &status, WNOHANG) == pid; });
  EXPECT_TRUE(ended);
  if (!ended) ::kill(pid, SIGKILL);
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(AccountsTest, AStateDirectoryBehindAClosedOneIsRefusedByName) {
  fs::create_directories(bench_.Path("shut/agent"));
  fs::permissions(bench_.Path("shut"), fs::perms(0700));
  PosixFileSystem files;
  const auto opened = OpenStateDir(files, bench_.Path("shut/agent"));
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find(bench_.Path("shut") + " lets nobody pass"),
            std::string::npos);
}

}  // namespace
}  // namespace launch::agent
