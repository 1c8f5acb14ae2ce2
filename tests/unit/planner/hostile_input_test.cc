// Texts nobody writes by accident: no crash, no endless work, no memory without bound.
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "planner/line/launch_line.h"
#include "tests/unit/planner/plan_fixtures.h"

namespace launch {
namespace {

using namespace launch::testing;

TEST(HostileInput, RandomShellTextIsReadOrRefused) {
  const std::string_view pieces[] = {"torchrun ",
                                     "python ",
                                     "--nproc_per_node",
                                     "=2 ",
                                     "a.py",
                                     "'",
                                     "\"",
                                     "$(",
                                     ")",
                                     "${",
                                     "}",
                                     "`",
                                     "\\",
                                     "\n",
                                     " ",
                                     "&&",
                                     "||",
                                     "|",
                                     ";",
                                     "&",
                                     ">",
                                     "<<E",
                                     "2>&1",
                                     "A=",
                                     "#",
                                     "$X",
                                     "(",
                                     "{",
                                     "bash -c ",
                                     "-m ",
                                     "torch.distributed.run "};
  std::mt19937 random(11);
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (std::size_t n = random() % 24; n > 0; --n) text += pieces[random() % std::size(pieces)];
    const auto line = ReadLaunchLine(text, {});
    ASSERT_TRUE(line || !line.error().message.empty()) << text;
  }
}

TEST(HostileInput, DeepNestingIsRefused) {
  for (const char* piece : {"$(", "${a:-", "\"$("}) {
    std::string text = "echo ";
    for (int i = 0; i < 50000; ++i) text += piece;
    EXPECT_FALSE(ReadLaunchLine(text, {}));
  }
}

TEST(HostileInput, ALongScriptIsReadInReasonableTime) {
  std::string text;
  while (text.size() < 250'000) text += "echo a b c\n";
  EXPECT_TRUE(ReadLaunchLine(text, {}));
}

// How its time grows with its length: ReadScript of plan-bench.
TEST(HostileInput, AScriptOfManyVariablesAndFunctionsIsRead) {
  std::string text = "if [ -n \"$O\" ]; then\n";
  for (int i = 0; i < 2'000; ++i) text += "export V" + std::to_string(i) + "=1\n";
  text += "fi\n";
  for (int i = 0; i < 1'500; ++i) text += "f" + std::to_string(i) + "() { :; }\n";
  LaunchLineOptions options;
  options.files["a.sh"] = text + "torchrun --nproc_per_node=2 t.py\n";
  const auto line = ReadLaunchLine("bash a.sh", options);
  ASSERT_TRUE(line);
  EXPECT_EQ(line->procs_number, 2);
}

TEST(HostileInput, LoopsOverArgumentsWithinEachOtherAreReadInReasonableTime) {
  std::string text;
  for (int i = 0; i < 4; ++i) text += "for a in \"$@\"; do\n";
  text += ":";
  for (int i = 0; i < 250; ++i) text += " argument_of_nothing";
  text += "\n";
  for (int i = 0; i < 4; ++i) text += "done\n";
  LaunchLineOptions options;
  options.files["a.sh"] = text + "torchrun --nproc_per_node=2 t.py\n";
  std::string calls;
  for (int i = 0; i < 8; ++i) calls += "bash a.sh 1 2 3 4 5 6 7 8 9\n";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(ReadLaunchLine("set -e\nbash a.sh 1 2 3 4 5 6 7 8 9\n", options));
  (void)ReadLaunchLine(calls, options);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

// A variable that holds its own name, a text that holds itself, arrays, scripts and here-documents
// that do: each would be read for ever.
TEST(HostileInput, TextsThatContainThemselvesComeToAnEnd) {
  LaunchLineOptions options;
  options.files["a.sh"] = "bash a.sh torchrun\nsource a.sh\n";
  const std::string_view texts[] = {
      "X='torchrun $X'\n$X\n",
      "X='torchrun $X $X'\n$X $X\neval \"$X\"\n",
      "X='bash -c \"$X\"'\nbash -c \"$X\"\ntorchrun $X\n",
      "X='eval \"$X $X\"'\neval \"$X torchrun\"\n",
      "X=\"a b \"\nX=\"$X$X\"\ntorchrun $X\n",
      "A=(torchrun \"${A[@]}\" \"${A[@]}\")\nA+=(\"${A[@]}\")\n${A[@]}\n",
      "bash a.sh torchrun\n",
      "X=$'bash <<E\n$X torchrun\nE'\nbash <<E\n$X\nE\neval \"$X\"\n",
      "torchrun --nproc_per_node=${X:-${X:-$X}} $((X + $((X))))\n"};
  for (const std::string_view text : texts) {
    const auto line = ReadLaunchLine(text, options);
    EXPECT_TRUE(line || !line.error().message.empty()) << text;
  }
}

TEST(HostileInput, AScriptThatCallsItselfManyTimesIsReadOnce) {
  LaunchLineOptions options;
  for (int i = 0; i < 50; ++i) options.files["a.sh"] += "bash a.sh\n";
  EXPECT_TRUE(ReadLaunchLine("bash a.sh", options));
}

TEST(HostileInput, ProgramsWithManyImportsAndCallsAreReadInReasonableTime) {
  std::string names = "from m import (a";
  while (names.size() < 120'000) names += ",launch";
  names += ")\n";
  while (names.size() < 250'000) names += "launch ";
  std::string calls = "import submitit\n";
  for (int i = 0; i < 8000; ++i) {
    const std::string next = std::to_string(i + 1);
    calls += "def f" + std::to_string(i) + "():\n    f" + next + "()\n";
  }
  calls += "def f8000():\n    f1()\n    f2()\n    submitit.AutoExecutor()\n";
  const std::string self = "import submitit\ndef f():\n    f()\n    submitit.AutoExecutor()\n";
  const auto start = std::chrono::steady_clock::now();
  for (const std::string& text : {names, calls, self}) {
    LaunchLineOptions options;
    options.files["t.py"] = text;
    EXPECT_TRUE(ReadLaunchLine("python t.py", options));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(HostileInput, ValuesThatBecomeManyWordsAreCutOnlySoFar) {
  std::string text = "A='";
  for (int i = 0; i < 8000; ++i) text += "x ";
  text += "'\n";
  for (int i = 0; i < 10000; ++i) text += "$A ";
  for (int i = 0; i < 5000; ++i) text += "\nV" + std::to_string(i) + "=$A";
  (void)ReadLaunchLine(text, {});
  std::string yolo = "exec";
  for (int i = 0; i < 20000; ++i) yolo += " yolo";
  (void)ReadLaunchLine(yolo, {});
}

TEST(HostileInput, ALineOfRedirectsBeforeAProgramIsNamed) {
  LaunchLineOptions options;
  options.launcher = LauncherKind::kTorchrun;
  const auto line = ReadLaunchLine("> out.log\npython train.py", options);
  ASSERT_FALSE(line);
  EXPECT_NE(line.error().message.find("out.log"), std::string::npos);
}

TEST(HostileInput, GrowingValuesOfVariablesAreDropped) {
  std::string text = "A='x x'\n";
  for (int i = 0; i < 64; ++i) text += "A=\"$A $A\"\n";
  EXPECT_TRUE(ReadLaunchLine(text + "torchrun --nproc_per_node=2 $A\n", {}));
}

TEST(HostileInput, ManyWordsThatMayStartSomethingAreReadOnce) {
  for (const char* piece : {"ssh ", "bash -c ", "python -u ", "docker run ", "X=1 ", "$X "}) {
    std::string text = "exec ";
    while (text.size() < 50'000) text += piece;
    const auto line = ReadLaunchLine(text, {});
    EXPECT_TRUE(line || !line.error().message.empty()) << piece;
  }
  std::string text;
  while (text.size() < 50'000) text += "a &\nb\n";
  EXPECT_TRUE(ReadLaunchLine(text, {}));
}

TEST(HostileInput, ValuesThatGrowWithoutBoundAreRefused) {
  JobSpec job = Job();
  job.env = {{"A0", "xxxxxxxxxxxxxxxx"}};
  for (int i = 1; i < 64; ++i) {
    const std::string before = "$A" + std::to_string(i - 1);
    job.env.push_back({"A" + std::to_string(i), before + before});
  }
  EXPECT_TRUE(Contains(ErrorOf(PlanOn(job, {Node("n")})), "128 KiB"));
}

TEST(HostileInput, HugeNumbersAreRefusedOrNeverFit) {
  const std::vector<NodeInventory> nodes = {H100("a", 8)};
  JobSpec job = GpuJob(2'000'000'000);
  EXPECT_TRUE(Place(job, Offers(nodes)).error().never);
  job = GpuJob(1, "", 100'000);
  EXPECT_TRUE(Place(job, Offers(nodes)).error().never);
  job.nodes = {1, 2'000'000'000, false};
  EXPECT_TRUE(Place(job, Offers(nodes)));
  job = Job();
  job.total_gpus = 2'000'000'000;
  const auto unplaced = Place(job, Offers(nodes));
  ASSERT_FALSE(unplaced);
  EXPECT_TRUE(unplaced.error().never);
  EXPECT_TRUE(Contains(unplaced.error().reason.evidence, "in total"));
  job = Job();
  job.procs_per_node = 1'000'000'000;
  EXPECT_FALSE(CheckSpec(job, Context()));
}

}  // namespace
}  // namespace launch
