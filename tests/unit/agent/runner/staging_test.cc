// What staging says about a node: setup, paths, interpreter, marker, network.
#include "agent/runner/staging.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>

#include "agent/runner/interpreter.h"
#include "agent/runner/local_disk.h"
#include "agent/runner/port_holder.h"
#include "agent/runner/reachability.h"
#include "common/activation.h"
#include "tests/unit/agent/runner/runner_bench.h"

namespace launch::agent {
namespace {

constexpr Key kKey{{11}, {1}};

void WriteExecutable(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  ::chmod(path.c_str(), 0755);
}

const PathFact* Find(const StagingFacts& facts, const std::string& what) {
  for (const PathFact& fact : facts.paths) {
    if (fact.what == what) return &fact;
  }
  return nullptr;
}

class StagingTest : public testing::Test {
 protected:
  StagingTest() { bench_.Open(); }
  StagingFacts Look(const AllocationSpec& spec, to_node::Stage stage = {}) {
    const std::atomic<bool> cancel{false};
    stage.key = spec.key;
    return RunStaging(
        {.spec = spec, .stage = stage, .setup_exit = {}, .setup_tail = {}, .probe_runtime = {}},
        cancel);
  }
  std::optional<told::StageDone> Stage(const AllocationSpec& spec, to_node::Stage stage = {}) {
    stage.key = spec.key;
    EXPECT_TRUE(bench_.Accept(spec));
    bench_.runner().Stage({stage});
    return bench_.told().Await<told::StageDone>(
        [&](const told::StageDone& done) { return done.key == spec.key; });
  }

  RunnerBench bench_;
};

// Each of these kept the thread that asked for ever, or took all memory.
TEST_F(StagingTest, IsKeptByNothingThatAUserPutsInTheWay) {
  const std::string bin = bench_.Path("bin");
  std::filesystem::create_directories(bin);
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  spec.interpreter_of = "torchrun";
  WriteExecutable(bin + "/python3", "#!/bin/sh\n");
  const auto resolved = [&] { return ResolveInterpreter(spec, bin).value_or("none"); };
  ASSERT_EQ(::mkfifo((bin + "/torchrun").c_str(), 0777), 0);
  EXPECT_EQ(resolved(), bin + "/python3");
  std::filesystem::remove(bin + "/torchrun");
  WriteExecutable(bin + "/torchrun", "#!");
  std::filesystem::resize_file(bin + "/torchrun", std::uintmax_t{1} << 40);
  EXPECT_EQ(resolved(), bin + "/python3");
  WriteExecutable(bin + "/torchrun",
                  "#!/usr/bin/env -S " + std::string(100'000, 'x') + " python9\n");
  EXPECT_EQ(resolved(), bin + "/python3");

  ASSERT_EQ(::mkfifo(bench_.Path("work/.mark").c_str(), 0666), 0);
  const auto reading = Look(bench_.Spec(kKey, 1, {}), {.marker = ".mark"});
  EXPECT_NE(Find(reading, "marker")->why.find("is not a regular file"), std::string::npos);
  const auto writing = Look(bench_.Spec(kKey, 1, {}), {.write_marker = true, .marker = ".mark"});
  EXPECT_NE(Find(writing, "marker")->why.find("cannot write"), std::string::npos);
}

TEST_F(StagingTest, FindsTheWorkdirWithItsInode) {
  const StagingFacts facts = Look(bench_.Spec(kKey, 1, {}));
  struct stat info {};
  ASSERT_EQ(::stat(bench_.Path("work").c_str(), &info), 0);
  ASSERT_NE(Find(facts, "workdir"), nullptr);
  EXPECT_TRUE(Find(facts, "workdir")->ok);
  EXPECT_EQ(Find(facts, "workdir")->inode, info.st_ino);
}

TEST_F(StagingTest, LooksAtTheWorkdirAlsoAgain) {
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  to_node::Stage stage;
  stage.again = true;
  ASSERT_EQ(Look(spec, stage).paths.size(), 1u);
  EXPECT_TRUE(Find(Look(spec, stage), "workdir")->ok);
  EXPECT_NE(Find(Look(spec, stage), "workdir")->inode, 0u);
  stage.use_snapshot = true;
  EXPECT_EQ(Find(Look(spec, stage), "workdir")->inode, 0u);
  spec.workdir += "/moved";
  EXPECT_FALSE(Find(Look(spec, stage), "workdir")->ok);
}

TEST_F(StagingTest, TriesTheCheckpointDirectoryAndLeavesNothing) {
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  spec.checkpoint_dir = bench_.Path("runs/one/ckpt");
  EXPECT_TRUE(Find(Look(spec), "checkpoint")->ok);
  EXPECT_FALSE(std::filesystem::exists(bench_.Path("runs")));
  std::filesystem::create_directories(spec.checkpoint_dir);
  EXPECT_TRUE(Find(Look(spec), "checkpoint")->ok);
  EXPECT_TRUE(std::filesystem::is_empty(spec.checkpoint_dir));
  spec.checkpoint_dir = "/proc/nowhere";
  const StagingFacts denied = Look(spec);
  EXPECT_FALSE(Find(denied, "checkpoint")->ok);
  EXPECT_FALSE(Find(denied, "checkpoint")->why.empty());
  spec.preflight = PreflightLevel::kNone;
  EXPECT_EQ(Find(Look(spec), "checkpoint"), nullptr);
}

TEST_F(StagingTest, SaysWhyAWorkdirIsUnusable) {
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  spec.workdir = bench_.Path("nowhere");
  EXPECT_EQ(Find(Look(spec), "workdir")->why, "no such directory");
  std::ofstream(bench_.Path("file")) << "x";
  spec.workdir = bench_.Path("file");
  EXPECT_EQ(Find(Look(spec), "workdir")->why, "not a directory");
}

TEST_F(StagingTest, LooksForTheCommandOnTheRanksPath) {
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  spec.command_word = "trainer";
  EXPECT_EQ(Find(Look(spec), "command")->why, "not found on PATH /usr/bin:/bin");
  std::filesystem::create_directories(bench_.Path("bin"));
  for (EnvVar& var : spec.ranks[0].env) {
    if (var.name == "PATH") var.value = bench_.Path("bin") + ":/usr/bin";
  }
  std::ofstream(bench_.Path("bin/trainer")) << "#!/bin/sh\n";
  EXPECT_EQ(Find(Look(spec), "command")->why, bench_.Path("bin/trainer") + " is not executable");
  WriteExecutable(bench_.Path("bin/trainer"), "#!/bin/sh\n");
  EXPECT_TRUE(Find(Look(spec), "command")->ok);
  EXPECT_EQ(Find(Look(spec), "command")->path, bench_.Path("bin/trainer"));
  spec.command_word = "./run.sh";
  EXPECT_EQ(Find(Look(spec), "command")->why, "no such file");
}

TEST_F(StagingTest, TakesTheInterpreterOfTheLauncherOnThePath) {
  std::filesystem::create_directories(bench_.Path("venv/bin"));
  const std::string python = bench_.Path("venv/bin/python3.11");
  WriteExecutable(python, "#!/bin/sh\n");
  WriteExecutable(bench_.Path("venv/bin/torchrun"), "#!" + python + "\nimport torch\n");
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  spec.interpreter_of = "torchrun";
  const std::string path = bench_.Path("venv/bin") + ":/usr/bin:/bin";
  EXPECT_EQ(ResolveInterpreter(spec, path).value(), python);
  WriteExecutable(bench_.Path("venv/bin/torchrun"),
                  "#!/bin/sh\n'''exec' " + python + " \"$0\" \"$@\"\n' '''\n");
  EXPECT_EQ(ResolveInterpreter(spec, path).value(), python);
  WriteExecutable(bench_.Path("venv/bin/torchrun"), "#!/usr/bin/env -S python3.11\n");
  EXPECT_EQ(ResolveInterpreter(spec, path).value(), python);
  spec.interpreter = "/given/python";
  EXPECT_EQ(ResolveInterpreter(spec, path).value(), "/given/python");
}

TEST_F(StagingTest, SaysThatThereIsNoPythonAtAll) {
  const auto found = ResolveInterpreter(bench_.Spec(kKey, 1, {}), bench_.Path("empty"));
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message.find("no python3 or python on PATH"), std::string::npos);
}

TEST_F(StagingTest, PutsTheInterpreterInTheEmptyPlaceOfTheCommand) {
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  WriteExecutable(bench_.Path("python3"), "#!/bin/sh\necho I am $0 with $1\n");
  spec.ranks[0].argv = {"/bin/sh", "-c", "exec \"$@\"", "sh", "", "train.py"};
  for (EnvVar& var : spec.ranks[0].env) {
    if (var.name == "PATH") var.value = bench_.dir() + ":/usr/bin:/bin";
  }
  ASSERT_TRUE(bench_.Run(spec));
  ASSERT_TRUE(bench_.AwaitEnd(kKey, 0));
  EXPECT_EQ(bench_.ReadFile(bench_.RankPath(kKey, 0) + "/out"),
            "I am " + bench_.Path("python3") + " with train.py\n");
}

TEST_F(StagingTest, TakesOnlyCheckpointsWithTheFileThatTheJobNames) {
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  spec.checkpoint_dir = bench_.Path("saved");
  for (const char* name : {"step-10", "step-20"}) {
    std::filesystem::create_directories(spec.checkpoint_dir + "/" + name);
  }
  std::ofstream(spec.checkpoint_dir + "/step-10/DONE") << "";
  to_node::Stage stage;
  stage.find_checkpoint = true;
  EXPECT_TRUE(Look(spec, stage).checkpoints.empty());  // of no format that is known
  spec.checkpoint_marker = "DONE";
  const std::vector<CheckpointFound> found = Look(spec, stage).checkpoints;
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].step, 20);
  EXPECT_FALSE(found[0].complete);
  EXPECT_EQ(found[0].why, "DONE is missing");
  EXPECT_TRUE(found[1].complete);
}

TEST_F(StagingTest, ProvesASharedWorkdirByAMarker) {
  const AllocationSpec spec = bench_.Spec(kKey, 1, {});
  const to_node::Stage reader{.marker = ".launch-marker-11.1"};
  EXPECT_FALSE(Find(Look(spec, reader), "marker")->ok);
  to_node::Stage writer = reader;
  writer.write_marker = true;
  EXPECT_TRUE(Find(Look(spec, writer), "marker")->ok);
  EXPECT_TRUE(Find(Look(spec, reader), "marker")->ok);
  AllocationSpec other = spec;
  other.key.attempt.value = 2;
  EXPECT_EQ(Find(Look(other, reader), "marker")->why, "holds another attempt's mark");
}

TEST_F(StagingTest, RemovesItsMarkerWhenTheRanksStart) {
  const AllocationSpec spec = bench_.Spec(kKey, 1, {});
  const to_node::Stage stage{.write_marker = true, .marker = ".launch-marker-11.1"};
  ASSERT_TRUE(Stage(spec, stage));
  EXPECT_TRUE(std::filesystem::exists(bench_.Path("work/.launch-marker-11.1")));
  ASSERT_TRUE(bench_.Start(kKey));
  EXPECT_FALSE(std::filesystem::exists(bench_.Path("work/.launch-marker-11.1")));
}

TEST_F(StagingTest, WritesNoMarkerOnceItWasCancelled) {
  const AllocationSpec spec = bench_.Spec(kKey, 1, {});
  to_node::Stage stage{.write_marker = true, .marker = ".launch-marker-11.1"};
  stage.key = spec.key;
  const std::atomic<bool> cancel{true};
  (void)RunStaging(
      {.spec = spec, .stage = stage, .setup_exit = {}, .setup_tail = {}, .probe_runtime = {}},
      cancel);
  EXPECT_FALSE(std::filesystem::exists(bench_.Path("work/.launch-marker-11.1")));
}

TEST_F(StagingTest, RemovesAMarkerThatAppearedAfterTheStop) {
  std::promise<void> asked;
  std::promise<void> go;
  bench_.Kill();
  bench_.options().probe_runtime = [&](const std::string&, const std::vector<EnvVar>&,
                                       const std::optional<LocalAccount>&,
                                       const std::atomic<bool>&) {
    asked.set_value();
    go.get_future().wait();
    return RuntimeFacts{};
  };
  bench_.Open();
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  spec.needs_torch_cuda = true;
  spec.interpreter = "/bin/sh";
  const std::string marker = bench_.Path("work/.launch-marker-11.1");
  ASSERT_TRUE(bench_.Accept(spec));
  bench_.runner().Stage(
      {to_node::Stage{.key = kKey, .write_marker = true, .marker = ".launch-marker-11.1"}});
  asked.get_future().wait();
  EXPECT_TRUE(std::filesystem::exists(marker));
  ASSERT_TRUE(bench_.Stop(kKey, Millis{0}));
  ASSERT_TRUE(bench_.Eventually([&] { return !std::filesystem::exists(marker); }));
  std::ofstream(marker) << "11.1\n";  // as a write that hung in a network file system
  go.set_value();
  EXPECT_TRUE(bench_.Eventually([&] { return !std::filesystem::exists(marker); }));
}

TEST_F(StagingTest, RemovesItsMarkerWhenItIsStoppedAfterARestart) {
  const AllocationSpec spec = bench_.Spec(kKey, 1, {});
  const to_node::Stage stage{.write_marker = true, .marker = ".launch-marker-11.1"};
  ASSERT_TRUE(Stage(spec, stage));
  bench_.Kill();
  bench_.Open();
  ASSERT_TRUE(bench_.Stop(kKey, Millis{0}));
  EXPECT_TRUE(bench_.Eventually(
      [&] { return !std::filesystem::exists(bench_.Path("work/.launch-marker-11.1")); }));
}

TEST_F(StagingTest, RunsSetupOnceInTheWorkdirWithTheRanksEnvironment) {
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  spec.setup = "echo \"$LAUNCH_JOB_ID in $PWD\" >> setup.log";
  spec.ranks[0].argv = {"/bin/true"};
  const auto done = Stage(spec);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->facts.setup_exit, 0);
  EXPECT_TRUE(Find(done->facts, "workdir")->ok);
  EXPECT_EQ(bench_.ReadFile(bench_.Path("work/setup.log")), "11 in " + bench_.Path("work") + "\n");
  ASSERT_TRUE(bench_.Start(kKey));
  const auto end = bench_.AwaitEnd(kKey, 0);
  ASSERT_TRUE(end);
  EXPECT_TRUE(Succeeded(*end)) << Describe(end->cause);
}

TEST_F(StagingTest, ReportsTheExitAndTheLastLinesOfAFailedSetup) {
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  spec.setup = "echo installing; echo 'no such package' >&2; false; echo never";
  const auto done = Stage(spec);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->facts.setup_exit, 1);
  EXPECT_EQ(done->facts.setup_tail, "installing\nno such package\n");
}

TEST_F(StagingTest, TheLogOfSetupStaysWithinItsCap) {
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  spec.logs.cap_bytes = 64 << 10;
  spec.setup =
      "head -c 4000000 /dev/zero | tr '\\0' x; until [ -e go ]; do sleep 0.05; done; echo last; "
      "false";
  ASSERT_TRUE(bench_.Accept(spec));
  bench_.runner().Stage({to_node::Stage{.key = kKey}});
  EXPECT_TRUE(bench_.told().Await<told::NodeNotice>([](const auto& told) {
    return told.notice.kind == "rank.log_capped" && !told.notice.rank &&
           told.notice.text.find("the log of setup were dropped") != std::string::npos;
  }));
  bench_.Touch("work/go");
  const auto done = bench_.told().Await<told::StageDone>([](const auto&) { return true; });
  ASSERT_TRUE(done);
  EXPECT_EQ(done->facts.setup_exit, 1);
  EXPECT_TRUE(done->facts.setup_tail.ends_with("xlast\n")) << done->facts.setup_tail;
}

TEST_F(StagingTest, ASetupThatEmptiesItsOwnLogIsNamedAndItsTailIsText) {
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  spec.setup =
      "seq 100; until [ -e go ]; do sleep 0.05; done; echo x > /dev/stderr; "
      "truncate -s 50 /dev/stderr; echo last; until [ -e end ]; do sleep 0.05; done; false";
  ASSERT_TRUE(bench_.Accept(spec));
  bench_.runner().Stage({to_node::Stage{.key = kKey}});
  const std::string index = bench_.Path("state/allocations/" + ToString(kKey)) + "/setup/out.index";
  ASSERT_TRUE(bench_.Eventually([&] { return !bench_.ReadFile(index).empty(); }));
  bench_.Touch("work/go");
  const auto notice = bench_.told().Await<told::NodeNotice>(
      [](const auto& told) { return told.notice.kind == "rank.log_emptied"; });
  ASSERT_TRUE(notice);
  EXPECT_EQ(notice->notice.rank, std::nullopt);
  EXPECT_TRUE(notice->notice.text.starts_with("setup emptied its own log")) << notice->notice.text;
  bench_.Touch("work/end");
  const auto done = bench_.told().Await<told::StageDone>([](const auto&) { return true; });
  ASSERT_TRUE(done);
  EXPECT_EQ(done->facts.setup_tail, "x\nlast\n");
}

TEST_F(StagingTest, EndsASetupThatTakesTooLong) {
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  spec.setup = "while true; do read -t 5 x < /dev/zero || true; done";
  spec.setup_timeout = Millis{200};
  const auto done = Stage(spec);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->facts.setup_exit, 124);
  EXPECT_NE(done->facts.setup_tail.find("did not end within"), std::string::npos);
}

TEST_F(StagingTest, StopsASetupInProgress) {
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  spec.setup = "echo $$ > pid; exec sleep 3600";
  ASSERT_TRUE(bench_.Accept(spec));
  bench_.runner().Stage({to_node::Stage{.key = kKey}});
  ASSERT_TRUE(bench_.Eventually([&] { return !bench_.ReadFile(bench_.Path("work/pid")).empty(); }));
  ASSERT_TRUE(bench_.Stop(kKey, Millis{0}));
  EXPECT_FALSE(bench_.ProcessLives(std::atoi(bench_.ReadFile(bench_.Path("work/pid")).c_str())));
}

TEST_F(StagingTest, AsksForTheTruthOfTheInterpreterOnlyWhenTorchMustSeeAGpu) {
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  spec.interpreter = "/bin/sh";
  int asked = 0;
  const auto probe = [&asked](const std::string& path, const std::vector<EnvVar>&,
                              const std::optional<LocalAccount>&, const std::atomic<bool>&) {
    ++asked;
    return RuntimeFacts{.path = path};
  };
  const std::atomic<bool> cancel{false};
  StagingInput input{
      .spec = spec, .stage = {}, .setup_exit = {}, .setup_tail = {}, .probe_runtime = probe};
  EXPECT_FALSE(RunStaging(input, cancel).runtime);
  input.spec.needs_torch_cuda = true;
  const auto facts = RunStaging(input, cancel);
  ASSERT_TRUE(facts.runtime);
  EXPECT_EQ(facts.runtime->path, "/bin/sh");
  input.spec.preflight = PreflightLevel::kNone;
  EXPECT_FALSE(RunStaging(input, cancel).runtime);
  EXPECT_EQ(asked, 1);
  input.spec.needs_torch_cuda = false;  // on CPUs too, where versions are to be compared
  input.spec.preflight = PreflightLevel::kFull;
  EXPECT_TRUE(RunStaging(input, cancel).runtime);
}

TEST_F(StagingTest, AnInterpreterThatEndsByItselfIsNoneForCpusEither) {
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  spec.interpreter = "/bin/sh";
  RuntimeFacts says{.path = "/bin/sh"};
  int asked = 0;
  StagingInput input{
      .spec = spec, .stage = {}, .setup_exit = {}, .setup_tail = {}, .probe_runtime = {}};
  input.read_runtime = [&](const std::string&, const std::vector<EnvVar>&,
                           const std::optional<LocalAccount>&, const std::atomic<bool>&) {
    ++asked;
    return says;
  };
  const std::atomic<bool> cancel{false};
  const auto interpreter = [&] {
    const StagingFacts facts = RunStaging(input, cancel);
    EXPECT_FALSE(facts.runtime) << "its versions are not compared";
    for (const PathFact& fact : facts.paths)
      if (fact.what == "interpreter") return fact;
    return PathFact{};
  };
  says.says = "ended by signal 11";
  EXPECT_EQ(interpreter().why, "ended by signal 11");
  says.says = "no answer within 10 s";
  EXPECT_TRUE(interpreter().ok) << "it may be slow";
  says.says = "could not be asked: mkdir /sys/fs/cgroup/probe-1: No space left on device";
  EXPECT_TRUE(interpreter().ok) << "it is the node's trouble";
  says.python = "3.11.7";
  EXPECT_TRUE(interpreter().ok);
  EXPECT_EQ(asked, 4);
  input.spec.preflight = PreflightLevel::kNone;
  EXPECT_TRUE(interpreter().ok);
  input.spec.interpreter.clear();
  input.spec.preflight = PreflightLevel::kQuick;
  (void)interpreter();
  EXPECT_EQ(asked, 4) << "not looked at, or none is named";
}

TEST_F(StagingTest, AnInterpreterWhoseOwnIsGoneDoesNotRun) {
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  spec.interpreter = bench_.Path("work/python");
  const StagingInput input{
      .spec = spec, .stage = {}, .setup_exit = {}, .setup_tail = {}, .probe_runtime = {}};
  const std::atomic<bool> cancel{false};
  const auto interpreter_of = [&](const std::string& text) {
    std::ofstream(spec.interpreter) << text;
    ::chmod(spec.interpreter.c_str(), 0755);
    for (const PathFact& fact : RunStaging(input, cancel).paths)
      if (fact.what == "interpreter") return fact;
    return PathFact{};
  };
  for (const char* lost : {"#!/no/bin/python\n", "#! /no/bin/python -I\r\n", "#!/no/bin/python"}) {
    const PathFact fact = interpreter_of(lost);
    EXPECT_FALSE(fact.ok) << lost;
    EXPECT_EQ(fact.why, "its first line names /no/bin/python, which cannot be run");
  }
  for (const char* there : {"#!/bin/sh\n", "#!/usr/bin/env python3\n", "#!", "", "true\n"})
    EXPECT_TRUE(interpreter_of(there).ok) << there;
}

TEST_F(StagingTest, AsksInTheEnvironmentThatTheScriptsOfTheJobsOwnLeave) {
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  spec.interpreter = "/bin/sh";
  spec.command_word = "only-behind-the-scripts";
  spec.needs_torch_cuda = true;
  spec.ranks.front().argv = {"/bin/bash", "--norc",
                             "-c",        ". activate.sh\n" + std::string(kActivatedCommand),
                             "launch",    "exec only-behind-the-scripts"};
  const std::string program = bench_.Path("work/only-behind-the-scripts");
  std::ofstream(program) << "#!/bin/sh\n";
  ::chmod(program.c_str(), 0755);
  std::vector<EnvVar> asked_with;
  StagingInput input{
      .spec = spec,
      .stage = {},
      .setup_exit = {},
      .setup_tail = {},
      .probe_runtime = [&](const std::string& path, const std::vector<EnvVar>& env,
                           const std::optional<LocalAccount>&, const std::atomic<bool>&) {
        asked_with = env;
        return RuntimeFacts{.path = path};
      }};
  const std::vector<EnvVar> real = {{"LD_LIBRARY_PATH", "/conda/lib"},
                                    {"PATH", bench_.Path("work")}};
  input.environment_of = [&](const RankSpec&, const std::optional<LocalAccount>&) {
    return Result<std::vector<EnvVar>>(real);
  };
  const std::atomic<bool> cancel{false};
  const StagingFacts facts = RunStaging(input, cancel);
  EXPECT_EQ(asked_with, real);
  for (const PathFact& fact : facts.paths) {
    if (fact.what == "command") EXPECT_TRUE(fact.ok) << fact.why;
  }
  input.environment_of = [](const RankSpec&, const std::optional<LocalAccount>&) {
    return Result<std::vector<EnvVar>>(Fail(ErrorCode::kFailedPrecondition, "a script failed"));
  };
  EXPECT_FALSE(RunStaging(input, cancel).runtime) << "nobody knows what it would be";
}

TEST_F(StagingTest, AsksThePythonOfTheJobsImageAndNotThatOfTheNode) {
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  spec.needs_torch_cuda = true;
  spec.gpus = {GpuUuid{"GPU-1"}};
  spec.container = ContainerSpec{.runtime = "apptainer", .image = "./team.sif"};
  StagingInput input{
      .spec = spec,
      .stage = {},
      .setup_exit = {},
      .setup_tail = {},
      .probe_runtime = [](const std::string& path, const std::vector<EnvVar>&,
                          const std::optional<LocalAccount>&, const std::atomic<bool>&) {
        ADD_FAILURE() << path;
        return RuntimeFacts{};
      }};
  int asked = 0;
  input.probe_image = [&asked](const ContainerSpec& container, const ImageCommand& image,
                               const std::optional<LocalAccount>&) {
    ++asked;
    return std::optional(RuntimeFacts{.path = container.image + image.program});
  };
  const std::atomic<bool> cancel{false};
  EXPECT_FALSE(RunStaging(input, cancel).runtime) << "its runtime is not here";
  input.image = ImageCommand{.program = " by apptainer", .command = {}};
  const StagingFacts facts = RunStaging(input, cancel);
  ASSERT_TRUE(facts.runtime);
  EXPECT_EQ(facts.runtime->path, "./team.sif by apptainer");
  for (const PathFact& fact : facts.paths) EXPECT_NE(fact.what, "interpreter");
  input.spec.preflight = PreflightLevel::kNone;
  EXPECT_FALSE(RunStaging(input, cancel).runtime);
  EXPECT_EQ(asked, 1);
}

TEST_F(StagingTest, TestsTheNetworkAndNothingElseWhenItIsAskedFor) {
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  spec.interpreter = "/bin/sh";
  spec.inputs = {"/", "/nowhere/data"};
  std::string asked;
  const auto test = [&asked](const std::string& interpreter, const AllocationSpec&,
                             const to_node::NetworkTest& wanted, const std::optional<LocalAccount>&,
                             const std::atomic<bool>&) {
    asked = interpreter + " " + wanted.address;
    return NetworkFacts{.ok = true};
  };
  const std::atomic<bool> cancel{false};
  StagingInput input{.spec = spec,
                     .stage = {},
                     .setup_exit = {},
                     .setup_tail = {},
                     .probe_runtime = {},
                     .test_network = test};
  const StagingFacts first = RunStaging(input, cancel);
  EXPECT_FALSE(first.network);
  std::vector<bool> inputs;
  for (const PathFact& fact : first.paths) {
    if (fact.what == "input") inputs.push_back(fact.ok);
  }
  EXPECT_EQ(inputs, (std::vector<bool>{true, false}));
  input.stage.network_test.emplace();
  input.stage.network_test->address = "10.0.0.1";
  const StagingFacts second = RunStaging(input, cancel);
  ASSERT_TRUE(second.network);
  EXPECT_TRUE(second.network->ok && second.paths.empty());
  EXPECT_EQ(asked, "/bin/sh 10.0.0.1");
}

TEST_F(StagingTest, LooksForTheScriptAndForRoomOnTheDisks) {
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  spec.script = spec.workdir + "/train.py";
  spec.checkpoint_dir = spec.workdir + "/out/not/there/yet";
  const std::atomic<bool> cancel{false};
  StagingInput input{
      .spec = spec, .stage = {}, .setup_exit = {}, .setup_tail = {}, .probe_runtime = {}};
  const auto script_of = [&] {
    for (const PathFact& fact : RunStaging(input, cancel).paths)
      if (fact.what == "script") return fact;
    return PathFact{};
  };
  EXPECT_FALSE(script_of().ok);
  EXPECT_EQ(script_of().why, "no such file");
  std::ofstream(spec.script) << "print()\n";
  EXPECT_TRUE(script_of().ok);

  const std::vector<DiskFact> disks = RunStaging(input, cancel).disks;
  ASSERT_GE(disks.size(), 2U);
  EXPECT_EQ(disks[0].what, "workdir");
  EXPECT_GT(disks[0].total_bytes, 0U);
  EXPECT_EQ(disks[1].what, "checkpoint");
  EXPECT_EQ(disks[1].path, spec.workdir) << "the nearest directory that is there";
  input.spec.preflight = PreflightLevel::kNone;
  EXPECT_TRUE(RunStaging(input, cancel).disks.empty());
}

TEST_F(StagingTest, SaysThatCheckpointsStayOnThisMachineUnlessItServesThem) {
  AllocationSpec spec = bench_.Spec(kKey, 1, {});
  spec.checkpoint_dir = spec.workdir + "/out/not there/yet";
  EXPECT_EQ(Find(Look(spec), "local_disk"), nullptr) << "nobody asked";
  for (const bool again : {false, true}) {
    const StagingFacts facts = Look(spec, {.find_checkpoint = true, .again = again});
    EXPECT_NE(Find(facts, "local_disk"), nullptr) << again;
  }
  spec.container.emplace();
  EXPECT_EQ(Find(Look(spec, {.find_checkpoint = true}), "local_disk"), nullptr)
      << "inside of an image the path may be another one";

  const std::string exports = spec.workdir + "/etab";
  const std::string real = std::filesystem::canonical(spec.workdir).string();
  std::filesystem::create_directory(spec.workdir + "/out of it");
  std::ofstream(exports) << "/elsewhere\t10.0.0.0/8(ro)\n" << real << "/out\\040of\\040it\t*(rw)\n";
  EXPECT_TRUE(StaysHere(spec.checkpoint_dir, exports));
  EXPECT_FALSE(StaysHere(spec.workdir + "/out of it/run1", exports));
  EXPECT_TRUE(StaysHere(spec.workdir, exports));
  EXPECT_FALSE(StaysHere("/proc/self")) << "no disk at all";
}

TEST(Reachability, TakesAHeldPortForReachableAndNamesTheInterface) {
  const auto held =
      HoldPorts(20000 + (::getpid() % 900) * 4, 20000 + (::getpid() % 900) * 4 + 63, 0);
  ASSERT_TRUE(held);
  const std::atomic<bool> cancel{false};
  const Reachability found = ProbeAddress("127.0.0.1", held->block.first, Millis{2000}, cancel);
  EXPECT_TRUE(found.ok) << found.why;
  EXPECT_EQ(found.interface, "lo");
}

TEST(Reachability, SaysThatNobodyAnswers) {
  const std::atomic<bool> cancel{false};
  // A listener whose queue is full neither accepts nor refuses: like a firewall that drops.
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof any;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&any), size), 0);
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&any), &size), 0);
  std::vector<UniqueFd> fillers;
  for (int i = 0; i < 8; ++i) {
    fillers.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    (void)::connect(fillers.back().get(), reinterpret_cast<sockaddr*>(&any), sizeof any);
  }
  const Reachability found = ProbeAddress("127.0.0.1", ntohs(any.sin_port), Millis{200}, cancel);
  EXPECT_FALSE(found.ok);
  EXPECT_NE(found.why.find("no answer within 200 ms"), std::string::npos) << found.why;
  EXPECT_EQ(found.interface, "lo");
}

TEST(Reachability, SaysThatANameIsNoAddress) {
  const std::atomic<bool> cancel{false};
  EXPECT_FALSE(ProbeAddress("gpu-07", 20000, Millis{100}, cancel).ok);
}

TEST(PortHolder, LetsAServerThatReusesAddressesTakeTheHeldPort) {
  const auto held =
      HoldPorts(23600 + (::getpid() % 900) * 4, 23600 + (::getpid() % 900) * 4 + 63, 0);
  ASSERT_TRUE(held);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(static_cast<std::uint16_t>(held->block.first));
  const UniqueFd plain(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_NE(::bind(plain.get(), reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
  const UniqueFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ASSERT_EQ(::setsockopt(server.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
  EXPECT_EQ(::bind(server.get(), reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
  EXPECT_EQ(::listen(server.get(), 5), 0);
}

}  // namespace
}  // namespace launch::agent
