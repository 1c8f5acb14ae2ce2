#include "agent/probes/python_probe.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "agent/probes/child_process.h"
#include "agent/probes/runtime_prober.h"
#include "agent/probes/small_files.h"
#include "common/no_answer.h"
#include "tests/unit/agent/probes/settable_clock.h"
#include "tests/unit/agent/probes/temporary_tree.h"

// The system's look-up of an unknown user leaks; asked only by the leak checker.
extern "C" const char* __lsan_default_suppressions() { return "leak:libnss_systemd"; }

namespace launch::agent {
namespace {

class PythonProbeTest : public ::testing::Test {
 protected:
  PythonProbeTest() {
    options.env = {{"PATH", "/usr/local/bin:/usr/bin:/bin"}, {"HOME", tree.root()}};
  }
  PythonProbe Probe() { return {options, clock}; }

  // An interpreter that answers as a GPU build of torch would, and counts its runs.
  std::string FakeInterpreter(const std::string& stage_b) const {
    return tree.Script(
        "python3",
        "echo run >>" + tree.Path("runs") +
            "\n"
            "echo 'Welcome to this cluster'; echo noise >&2\n"
            R"(echo '@launch-python-probe {"stage":"a","python":"3.11.9","packages":)"
            R"({"deepspeed":"0.17.2"},"torch":{"version":"2.7.1+cu126","cuda":"12.6","hip":null,)"
            R"("path":"/opt/torch"},"stamps":[")" +
            tree.Path("site-packages") + "\"]}'\n" + "[ \"$3\" = import ] || exit 0\n" + stage_b);
  }
  static constexpr const char* kGpuBuild =
      R"(echo '@launch-python-probe {"stage":"b","torch":{"version":"2.7.1+cu126","cuda":"12.6",)"
      R"("hip":null,"arch_list":["sm_80","sm_90"],"nccl":"2.26.2","path":"/opt/torch"},)"
      R"("sees_gpu":true,"devices":8,"mps":false,"says":""}'; echo bye)";
  std::size_t Runs() const { return ReadSmallFile(tree.Path("runs")).size() / 4; }

  TemporaryTree tree;
  PythonProbe::Options options;
  SettableClock clock;
};

TEST_F(PythonProbeTest, TellsTheTruthAboutARealCpuBuild) {
  const std::string python = "/opt/launch-test-venv/bin/python";
  if (::access(python.c_str(), X_OK) != 0) GTEST_SKIP() << python << " is not on this machine";
  const RuntimeFacts facts = Probe().Ask({.path = python, .user = {}, .driver = {}});
  EXPECT_EQ(facts.path, python);
  EXPECT_NE(facts.realpath, python);
  EXPECT_TRUE(facts.python.starts_with("3."));
  ASSERT_TRUE(facts.torch.has_value()) << facts.says;
  EXPECT_EQ(facts.torch->version, "2.13.0+cpu");
  EXPECT_EQ(facts.torch->cuda, std::nullopt);
  EXPECT_TRUE(facts.torch->arch_list.empty());
  EXPECT_TRUE(facts.torch->path.starts_with("/opt/launch-test-venv/")) << facts.torch->path;
  EXPECT_EQ(facts.sees_gpu, false);
  EXPECT_EQ(facts.devices, 0);
  EXPECT_EQ(facts.mps, false);
  EXPECT_NE(facts.says.find("not compiled with CUDA"), std::string::npos) << facts.says;
}

TEST_F(PythonProbeTest, ReadsACpuBuildWithoutImportingIt) {
  const std::string python = "/opt/launch-test-venv/bin/python";
  if (::access(python.c_str(), X_OK) != 0) GTEST_SKIP() << python << " is not on this machine";
  const RuntimeFacts facts = Probe().Read({.path = python, .user = {}, .driver = {}});
  ASSERT_TRUE(facts.torch.has_value());
  EXPECT_EQ(facts.torch->version, "2.13.0+cpu");
  EXPECT_EQ(facts.torch->cuda, std::nullopt);
  EXPECT_EQ(facts.sees_gpu, std::nullopt) << "not tried is not no";
}

TEST_F(PythonProbeTest, TakesAllThatAGpuBuildSaysAndIgnoresOtherOutput) {
  const std::string python = FakeInterpreter(kGpuBuild);
  const RuntimeFacts facts = Probe().Ask({.path = python, .user = {}, .driver = "570.1"});
  EXPECT_EQ(facts.python, "3.11.9");
  EXPECT_EQ(facts.packages, (std::map<std::string, std::string>{{"deepspeed", "0.17.2"}}));
  ASSERT_TRUE(facts.torch.has_value());
  EXPECT_EQ(facts.torch->cuda, "12.6");
  EXPECT_EQ(facts.torch->arch_list, (std::vector<std::string>{"sm_80", "sm_90"}));
  EXPECT_EQ(facts.torch->nccl, "2.26.2");
  EXPECT_EQ(facts.torch->hip, std::nullopt);
  EXPECT_EQ(facts.sees_gpu, true);
  EXPECT_EQ(facts.devices, 8);
  EXPECT_EQ(facts.says, "");
}

TEST_F(PythonProbeTest, AsksAgainOnlyWhenSomethingChanged) {
  tree.Directory("site-packages");
  const PythonQuestion question{.path = FakeInterpreter(kGpuBuild), .user = {}, .driver = "570.1"};
  PythonProbe probe = Probe();
  const RuntimeFacts first = probe.Ask(question);
  EXPECT_EQ(probe.Ask(question), first);
  EXPECT_EQ(probe.Read(question), first) << "the full answer is better than a reading";
  EXPECT_EQ(Runs(), 1u);

  tree.Write("site-packages/torch/version.py", "");  // something was installed
  std::filesystem::last_write_time(
      tree.Path("site-packages"),
      std::filesystem::file_time_type::clock::now() + std::chrono::seconds(2));
  (void)probe.Ask(question);
  EXPECT_EQ(Runs(), 2u);

  PythonQuestion other = question;
  other.driver = "580.65";
  (void)probe.Ask(other);
  EXPECT_EQ(Runs(), 3u) << "another driver may see other devices";

  clock.Advance(Millis{25 * 60 * 60 * 1000});
  (void)probe.Ask(question);
  EXPECT_EQ(Runs(), 4u);
}

TEST_F(PythonProbeTest, AnswersOfOneAccountAreKeptWithinALimitTheOldestGoFirst) {
  const std::string python = FakeInterpreter(kGpuBuild);
  RuntimeProber prober(options.env, clock);
  const std::atomic<bool> never{false};
  const auto ask = [&](int path) {
    return prober.Ask(python, {{"PYTHONPATH", "/" + std::to_string(path)}}, "", never);
  };
  for (int path = 0; path < 32; ++path) (void)ask(path);
  (void)ask(0);
  EXPECT_EQ(Runs(), 32u);
  (void)ask(32);  // in place of 1, the one that was asked for longest ago
  (void)ask(0);
  (void)ask(2);
  EXPECT_EQ(Runs(), 33u);
  (void)ask(1);
  EXPECT_EQ(Runs(), 34u);
}

TEST(PythonAnswer, OfAnInterpreterThatSaysTooMuchIsCut) {
  std::string packages;
  std::string places;
  for (int i = 0; i < 1000; ++i) {
    packages += (i == 0 ? "\"p" : ",\"p") + std::to_string(i) + "\":\"1\"";
    places += (i == 0 ? "\"/" : ",\"/") + std::to_string(i) + "\"";
  }
  const std::string long_text(100'000, 'x');
  const PythonAnswer answer =
      ReadPythonAnswer("@launch-python-probe {\"stage\":\"a\",\"python\":\"" + long_text +
                       "\",\"packages\":{" + packages + "},\"stamps\":[" + places +
                       "],\"built_ops\":[" + places + "],\"says\":\"" + long_text + "\"}\n");
  EXPECT_EQ(answer.facts.python.size(), 4096u);
  EXPECT_EQ(answer.facts.says.size(), 4096u);
  EXPECT_EQ(answer.facts.packages.size(), 256u);
  EXPECT_EQ(answer.facts.built_ops.size(), 256u);
  EXPECT_EQ(answer.places.size(), 256u);
}

TEST(PythonAnswer, OfAnImpossibleNumberOfDevicesSaysNothingOfThem) {
  const auto devices = [](const std::string& number) {
    return ReadPythonAnswer("@launch-python-probe {\"stage\":\"b\",\"devices\":" + number + "}\n")
        .facts.devices;
  };
  EXPECT_EQ(devices("8"), 8);
  for (const char* number : {"1e300", "-1", "4294967297", "1.5", "\"8\"", "null"})
    EXPECT_EQ(devices(number), std::nullopt) << number;
}

TEST_F(PythonProbeTest, AReadingIsNotKeptAsAFullAnswer) {
  const PythonQuestion question{.path = FakeInterpreter(kGpuBuild), .user = {}, .driver = {}};
  PythonProbe probe = Probe();
  EXPECT_EQ(probe.Read(question).sees_gpu, std::nullopt);
  EXPECT_EQ(probe.Ask(question).sees_gpu, true);
}

TEST_F(PythonProbeTest, ABadAnswerIsShownUntilABetterOneIsThere) {
  const std::string python = FakeInterpreter("exit 1");
  const PythonQuestion question{.path = python, .user = {}, .driver = {}};
  PythonProbe probe = Probe();
  const RuntimeFacts bad = probe.Ask(question);
  EXPECT_FALSE(bad.says.empty());
  EXPECT_TRUE(probe.Knows(question));
  clock.Advance(Millis{11 * 60 * 1000});
  EXPECT_FALSE(probe.Knows(question)) << "worth another try";
  EXPECT_EQ(probe.Read(question), bad);
  EXPECT_EQ(Runs(), 1u);
  (void)probe.Ask(question);
  EXPECT_EQ(Runs(), 2u);
}

TEST_F(PythonProbeTest, AMissingInterpreterIsAFact) {
  const RuntimeFacts facts =
      Probe().Ask({.path = tree.Path("no/python"), .user = {}, .driver = {}});
  EXPECT_EQ(facts.python, "");
  EXPECT_EQ(facts.torch, std::nullopt);
  EXPECT_EQ(facts.realpath, facts.path);
  EXPECT_NE(facts.says.find("No such file"), std::string::npos) << facts.says;
}

TEST_F(PythonProbeTest, AnInterpreterThatAppearsLaterIsSeen) {
  const PythonQuestion question{.path = tree.Path("python3"), .user = {}, .driver = {}};
  PythonProbe probe = Probe();
  EXPECT_EQ(probe.Ask(question).python, "");
  (void)FakeInterpreter(kGpuBuild);
  EXPECT_EQ(probe.Ask(question).python, "3.11.9");
}

TEST_F(PythonProbeTest, ABrokenInterpreterSaysWhyInItsLastLines) {
  const std::string python =
      tree.Script("python3",
                  "echo 'Fatal Python error: init_fs_encoding' >&2\necho 'ModuleNotFoundError: No "
                  "module named encodings' >&2\nexit 1\n");
  const RuntimeFacts facts = Probe().Ask({.path = python, .user = {}, .driver = {}});
  EXPECT_EQ(facts.python, "");
  EXPECT_NE(facts.says.find("No module named encodings"), std::string::npos) << facts.says;
}

TEST_F(PythonProbeTest, ACrashInTheImportKeepsWhatWasRead) {
  const std::string python = FakeInterpreter("kill -SEGV $$");
  const RuntimeFacts facts = Probe().Ask({.path = python, .user = {}, .driver = {}});
  ASSERT_TRUE(facts.torch.has_value());
  EXPECT_EQ(facts.torch->version, "2.7.1+cu126");
  EXPECT_EQ(facts.sees_gpu, std::nullopt);
  EXPECT_NE(facts.says.find("signal 11"), std::string::npos) << facts.says;
}

TEST_F(PythonProbeTest, AnImportThatHangsIsEndedWithItsChildrenAtTheDeadline) {
  options.deadline = Millis{300};
  const std::string python = FakeInterpreter("sleep 1000 & wait");
  const RuntimeFacts facts = Probe().Ask({.path = python, .user = {}, .driver = {}});
  EXPECT_EQ(facts.torch.value_or(TorchFacts{}).version, "2.7.1+cu126");
  EXPECT_NE(facts.says.find("no answer within"), std::string::npos) << facts.says;
}

TEST_F(PythonProbeTest, OneThatDoesNothingOrPrintsWithoutEndIsLeftSoon) {
  options.answer_deadline = Millis{300};
  for (const std::string program : {"exec sleep 1000", "exec yes nothing"}) {
    const std::string python = tree.Script("python3", program + "\n");
    const auto began = std::chrono::steady_clock::now();
    const RuntimeFacts facts = Probe().Ask({.path = python, .user = {}, .driver = {}});
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds{60}) << program;
    EXPECT_EQ(facts.python, "");
    EXPECT_TRUE(facts.says.starts_with(kNoAnswer)) << facts.says;
    EXPECT_EQ(facts.says.find("nothing") != std::string::npos, program == "exec yes nothing");
  }
}

TEST_F(PythonProbeTest, WhatTheNodeLacksToStartItIsNotItsFault) {
  options.scope = [] { return Fail(ErrorCode::kIo, "mkdir /x: No space left on device"); };
  const std::string python = FakeInterpreter("");
  EXPECT_EQ(Probe().Ask({.path = python, .user = {}, .driver = {}}).says,
            "could not be asked: mkdir /x: No space left on device");
  options.scope = {};
  ::chmod(python.c_str(), 0600);
  EXPECT_FALSE(Probe().Ask({.path = python, .user = {}, .driver = {}}).says.starts_with(kNotAsked));
}

TEST_F(PythonProbeTest, AGroupThatIsGoneIsNoFaultOfTheInterpreter) {
  options.scope = [this]() -> Result<ProbeScope> {
    return ProbeScope{.cgroups = {tree.Path("gone/cgroup.procs")}, .end = {}};
  };
  const std::string python = FakeInterpreter("");
  EXPECT_EQ(Probe().Ask({.path = python, .user = {}, .driver = {}}).says,
            "could not be asked: start " + python +
                ", before it was executed: No such file or directory");
}

TEST_F(PythonProbeTest, ThatItRunsIsNoAnswerYet) {
  options.deadline = Millis{300};
  const std::string python = tree.Script(
      "python3", "echo '@launch-python-probe {\"stage\": \"start\"}'; exec sleep 1000\n");
  const RuntimeFacts facts = Probe().Ask({.path = python, .user = {}, .driver = {}});
  EXPECT_EQ(facts.python, "");
  EXPECT_TRUE(facts.says.starts_with(kNoAnswer)) << facts.says;
}

TEST_F(PythonProbeTest, AHungInterpreterHoldsUpNoOtherAndEndsWithItsQuestion) {
  const std::string hung =
      tree.Script("hung", "sleep 1000 & echo $! >" + tree.Path("pid") + "; wait\n");
  const std::string good = FakeInterpreter(kGpuBuild);
  RuntimeProber prober(options.env, clock);
  std::atomic<bool> given_up{false};
  const std::atomic<bool> never{false};
  std::thread first([&] { (void)prober.Ask(hung, {}, "", given_up); });
  std::thread second([&] { (void)prober.Ask(hung, {}, "", given_up); });
  while (ReadSmallFile(tree.Path("pid")).find('\n') == std::string::npos) std::this_thread::yield();
  EXPECT_EQ(prober.Ask(good, {}, "", never).sees_gpu, true);
  given_up = true;
  first.join();
  second.join();
  const std::string stat = "/proc/" + std::to_string(std::stoi(ReadSmallFile(tree.Path("pid"))));
  const auto lives = [&] {  // not dead and not yet taken note of by init
    const std::string says = ReadSmallFile(stat + "/stat");
    return !says.empty() && says.find(") Z") == std::string::npos;
  };
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds{30};
  while (lives() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_FALSE(lives()) << stat;
  (void)tree.Script("hung", "exec " + good + " \"$@\"\n");
  EXPECT_EQ(prober.Ask(hung, {}, "", never).sees_gpu, true) << "what was given up is not kept";
}

TEST_F(PythonProbeTest, RunsInTheCleanEnvironmentOfARank) {
  ::setenv("PYTHONPATH", "/leaked", 1);
  const std::string python = tree.Script("python3", "env >" + tree.Path("env") + "\n");
  (void)Probe().Ask({.path = python, .user = {}, .driver = {}});
  ::unsetenv("PYTHONPATH");
  const std::string env = ReadSmallFile(tree.Path("env"));
  EXPECT_EQ(env.find("PYTHONPATH"), std::string::npos);
  EXPECT_NE(env.find("HOME=" + tree.root()), std::string::npos);
}

TEST_F(PythonProbeTest, RunsAsTheUserWhoWillRunTheJob) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  std::filesystem::permissions(tree.root(), std::filesystem::perms::all);
  const std::string python = tree.Script("python3", "id -un >" + tree.Path("who") + "\n");
  const RuntimeFacts facts = Probe().Ask({.path = python, .user = "nobody", .driver = {}});
  EXPECT_EQ(facts.user, "nobody");
  EXPECT_EQ(ReadSmallFile(tree.Path("who")), "nobody\n") << facts.says;
  EXPECT_NE(Probe().Ask({.path = python, .user = "no-such-user", .driver = {}}).says.find("user"),
            std::string::npos);
}

TEST_F(PythonProbeTest, APythonWithoutTorchIsACompleteAnswer) {
  const std::string python = FindProgram("python3", "/usr/bin:/usr/local/bin");
  if (python.empty()) GTEST_SKIP() << "no python3 in /usr/bin";
  tree.Directory("empty");
  const std::string isolated =
      tree.Script("isolated", "exec " + python + " -I -S \"$@\"\n");  // without site-packages
  const RuntimeFacts facts = Probe().Ask({.path = isolated, .user = {}, .driver = {}});
  EXPECT_TRUE(facts.python.starts_with("3.")) << facts.says;
  EXPECT_EQ(facts.torch, std::nullopt);
  EXPECT_EQ(facts.says, "");
}

TEST_F(PythonProbeTest, ReadsWhichOperatorsWereBuiltWithDeepSpeed) {
  const std::string python = FindProgram("python3", "/usr/bin:/usr/local/bin");
  if (python.empty()) GTEST_SKIP() << "no python3 in /usr/bin";
  tree.Write("lib/deepspeed/__init__.py", "raise RuntimeError('must not be imported')\n");
  tree.Write("lib/deepspeed/git_version_info_installed.py",
             "version='0.18.0'\ninstalled_ops={'cpu_adam': True, 'async_io': False,\n"
             "               'fused_adam': True}\ncompatible_ops={'cpu_adam': True}\n");
  const std::string isolated = tree.Script(
      "isolated", "PYTHONPATH=" + tree.Path("lib") + " exec " + python + " -S \"$@\"\n");
  EXPECT_EQ(Probe().Ask({.path = isolated, .user = {}, .driver = {}}).built_ops,
            (std::vector<std::string>{"cpu_adam", "fused_adam"}));
}

TEST(PythonAnswer, MalformedLinesAreIgnored) {
  const PythonAnswer answer = ReadPythonAnswer(
      "@launch-python-probe {broken\n"
      "quoted: @launch-python-probe {\"stage\":\"a\",\"python\":\"0\"}\n"
      "@launch-python-probe [1,2]\n"
      "@launch-python-probe {\"stage\":\"a\",\"python\":7,\"packages\":{\"x\":1}}\n"
      "@launch-python-probe {\"stage\":\"b\",\"sees_gpu\":\"yes\",\"devices\":1.5}");
  EXPECT_EQ(answer.facts.python, "");
  EXPECT_TRUE(answer.facts.packages.empty());
  EXPECT_EQ(answer.facts.sees_gpu, std::nullopt);
  EXPECT_EQ(answer.facts.devices, std::nullopt);
}

}  // namespace
}  // namespace launch::agent
