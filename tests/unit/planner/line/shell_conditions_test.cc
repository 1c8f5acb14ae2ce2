// Branches that a text's own values rule out, and functions with the parameters of their calls.
#include "planner/line/shell_conditions.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "planner/line/launch_line.h"

namespace launch {
namespace {

struct Case {
  const char* run;
  const char* text;
  int procs;  // 0: not known
};

int Procs(const std::string& run, const std::string& text) {
  LaunchLineOptions options;
  options.files["t.sh"] = text;
  const auto line = ReadLaunchLine(run, options);
  EXPECT_TRUE(line) << text;
  return line && line->procs == ProcsWord::kNumber ? line->procs_number : 0;
}

class ShellConditions : public ::testing::TestWithParam<Case> {};

TEST_P(ShellConditions, CountsWhatTheTextComesTo) {
  EXPECT_EQ(Procs(GetParam().run, GetParam().text), GetParam().procs) << GetParam().text;
}

constexpr const char* kAsksTheNode =
    "if [ -z \"${N:-}\" ]; then\n  N=$(nvidia-smi -L | wc -l)\nfi\n"
    "torchrun --nproc_per_node=$N t.py\n";
constexpr const char* kCase =
    "case $1 in\n  small) N=2 ;;\n  big|huge) N=8 ;;\n  [-+]*) N=9 ;;\n  *) N=1 ;;\nesac\n"
    "torchrun --nproc_per_node=$N t.py\n";

INSTANTIATE_TEST_SUITE_P(
    Texts, ShellConditions,
    ::testing::Values(
        Case{"N=4 bash t.sh", kAsksTheNode, 4}, Case{"bash t.sh", kAsksTheNode, 0},
        Case{"bash t.sh big", kCase, 8}, Case{"bash t.sh small", kCase, 2},
        // A pattern that may match leaves it open.
        Case{"bash t.sh other", kCase, 0},
        Case{"bash t.sh --n=8",
             "case $1 in --n=*) N=${1#*=};; *) N=1;; esac\n"
             "torchrun --nproc_per_node=$N t.py\n",
             8},
        Case{"bash t.sh other",
             "case $1 in -*) N=9;; *) N=1;; esac\n"
             "torchrun --nproc_per_node=$N t.py\n",
             1},
        Case{"bash t.sh", "case $1 in a) N=2;; *) N=1;; esac\ntorchrun --nproc_per_node=$N t.py\n",
             0},
        Case{"M=a bash t.sh",
             "if [ $M = b ]; then N=2; elif [[ $M == a ]]; then N=4; else N=8; fi\n"
             "torchrun --nproc_per_node=$N t.py\n",
             4},
        Case{"M=1 bash t.sh",
             "N=2\n[ -n \"$M\" ] || N=3\n[ $M -gt 1 ] && N=8\ntorchrun --nproc_per_node=$N t.py\n",
             2},
        Case{"bash t.sh",
             "if false; then torchrun --nproc_per_node=8 a.py; fi\n"
             "torchrun --nproc_per_node=2 t.py\n",
             2},
        Case{"A=1 B=4 bash t.sh",
             "if [ $A -gt 1 ] || [ $B -gt 1 ]; then N=8; else N=2; fi\n"
             "torchrun --nproc_per_node=$N t.py\n",
             8},
        Case{"A=1 B=4 bash t.sh",
             "if [ $A -gt 1 ] && [ $B -gt 1 ]\nthen N=8; elif [ $A = 1 ] && [ $B = 4 ]\nthen N=4\n"
             "else N=2; fi\ntorchrun --nproc_per_node=$N t.py\n",
             4},
        // One that is not known, and one that settles it.
        Case{"B=4 bash t.sh",
             "if grep -q a b || [ $B -gt 1 ]; then N=8; else N=2; fi\n"
             "torchrun --nproc_per_node=$N t.py\n",
             8},
        Case{"B=4 bash t.sh",
             "if grep -q a b || [ $B -gt 4 ]; then N=8; else N=2; fi\n"
             "torchrun --nproc_per_node=$N t.py\n",
             0},
        Case{"B=4 bash t.sh",
             "if [ $B = 4 ] || { [ $B = 4 ] && [ $B = 5 ]; }; then N=8; else N=2; fi\n"
             "torchrun --nproc_per_node=$N t.py\n",
             0},
        // Of a loop nobody knows with which values it comes round.
        Case{"bash t.sh -n 4",
             "N=1\nwhile getopts \"n:\" o; do case $o in n) N=$OPTARG;; esac; done\n"
             "torchrun --nproc_per_node=$N t.py\n",
             0},
        // Where nothing else starts a launcher, the one that is ruled out counts.
        Case{"bash t.sh",
             "G=${G:-1}\nif [ $G -gt 1 ]; then torchrun --nproc_per_node=2 t.py\n"
             "else python t.py; fi\n",
             2},
        Case{"bash t.sh", "go() {\n  torchrun --nproc_per_node=$1 t.py\n}\ngo 4 x\n", 4},
        Case{"bash t.sh 8", "go() {\n  torchrun --nproc_per_node=$1 t.py\n}\ngo 4\n", 4},
        Case{"bash t.sh",
             "function go { local n=$1; torchrun --nproc_per_node=$n t.py; }\nall() { go 2; }\n"
             "all\n",
             2},
        Case{"bash t.sh",
             "go() {\n  torchrun --nproc_per_node=$1 t.py\n}\nM=a\n"
             "case $M in\n  b) go 2 ;;\n  *) go 4 ;;\nesac\n",
             4},
        Case{"bash t.sh", "go() { go; }\ngo\ntorchrun --nproc_per_node=2 t.py\n", 2}));

// Where a value may have changed, or a branch be reached, both branches count.
INSTANTIATE_TEST_SUITE_P(
    InDoubt, ShellConditions,
    ::testing::Values(
        Case{"bash t.sh",
             "N=8; prep() { local N=1; python prep.py; }; prep\n"
             "torchrun --nproc_per_node $N train.py\n",
             8},
        Case{"bash t.sh",
             "N=0; for g in $LIST; do ((N++)); done\nif [ $N -gt 1 ]; then\n"
             "  torchrun --nproc_per_node 8 t.py\nelse\n  torchrun --nproc_per_node 1 t.py\nfi\n",
             8},
        Case{"bash t.sh",
             "N=1\nread N < count\nif [ $N -gt 1 ]; then\n  torchrun --nproc_per_node 8 t.py\n"
             "else\n  torchrun --nproc_per_node 1 t.py\nfi\n",
             8},
        Case{"bash t.sh",
             "N=1\nsource cluster.env\nif [ $N -gt 1 ]; then torchrun --nproc_per_node 8 t.py\n"
             "else torchrun --nproc_per_node 1 t.py; fi\n",
             8},
        Case{"bash t.sh",
             "M=multi_8; P=multi\nif [[ $M == \"$P\"* ]]; then torchrun --nproc_per_node 8 t.py\n"
             "else torchrun --nproc_per_node 1 t.py; fi\n",
             8},
        Case{"bash t.sh",
             "set_debug false && torchrun --nproc_per_node 8 t.py\n"
             "torchrun --nproc_per_node 1 e.py\n",
             8},
        Case{"bash t.sh",
             "train() { torchrun --nproc_per_node 8 t.py; }\nlog train start\nretry train\n"
             "torchrun --nproc_per_node 1 prep.py\n",
             8},
        Case{"bash t.sh",
             "N=1\nf() { echo; N=8; }\ngrep -q a b && f\nif [ $N -gt 1 ]; then\n"
             "  torchrun --nproc_per_node 8 t.py\nelse\n  torchrun --nproc_per_node 4 t.py\nfi\n",
             8},
        Case{"X=1 bash t.sh",
             "[ -z \"$X\" ] && { export N=4; torchrun --nproc_per_node $N t.py; }\n"
             "torchrun --nproc_per_node 1 e.py\n",
             4}));

// A text that comes to no launcher is started once per rank.
TEST(ShellConditions, WhatMayChangeAnyVariableRulesNothingOut) {
  for (const std::string& text :
       std::vector<std::string>{"export $(grep -v '^#' .env | xargs)",
                                "for kv in \"$@\"; do export \"$kv\"; done",
                                "declare \"$kv\"",
                                "typeset -g \"$p\"",
                                "export \"${@}\"",
                                "export \"${x?}\"",
                                "declare -n r=MODE; r=train",
                                "trap \"MODE=train\" USR1",
                                "shopt -s nocasematch",
                                "set -a",
                                "source env.sh",
                                ". env.sh",
                                "eval \"$X\"",
                                "read MODE",
                                "read \"$X\"",
                                "printf -v MODE %s train",
                                "printf -v \"$X\" train",
                                "mapfile MODE",
                                "getopts a: MODE",
                                "alias python=torchrun"}) {
    LaunchLineOptions options;
    options.files["t.sh"] = "MODE=debug\n" + text +
                            "\nif [ \"$MODE\" = train ]; then\n  torchrun --nproc_per_node 4 t.py\n"
                            "else\n  python t.py\nfi\n";
    const auto line = ReadLaunchLine("bash t.sh MODE=train", options);
    ASSERT_TRUE(line) << text;
    EXPECT_EQ(line->launcher, LauncherKind::kNode) << text;
  }
}

TEST(ShellConditions, ALauncherThatIsRuledOutForSureDoesNotCount) {
  const std::string either =
      "if [ -n \"$MODE\" ]; then python t.py\nelse torchrun --nproc_per_node=8 t.py; fi\n";
  const auto kind = [](const std::string& run, const std::string& text) {
    LaunchLineOptions options;
    options.files["t.sh"] = text;
    const auto line = ReadLaunchLine(run, options);
    EXPECT_TRUE(line) << text;
    return line ? line->launcher : LauncherKind::kAuto;
  };
  for (const auto& [run, text] : std::vector<std::pair<std::string, std::string>>{
           {"bash t.sh", "if false; then torchrun --nproc_per_node=8 x.py; fi\npython t.py\n"},
           {"MODE=fake bash t.sh", either},
           {"MODE=fake bash t.sh", "MODE=${MODE:-}\n" + either},
           {"bash t.sh fake", "MODE=$1\n" + either},
           {"bash t.sh", "MODE=fake; go() {\n" + either + "}\ngo\n"}}) {
    EXPECT_EQ(kind(run, text), LauncherKind::kProcess) << run << "\n" << text;
  }
  for (const auto& [run, text] : std::vector<std::pair<std::string, std::string>>{
           {"bash t.sh", "MODE=${MODE:-a}\n" + either},
           {"bash t.sh", "A=${A:-a}; MODE=$A\n" + either},
           {"bash t.sh", ": ${MODE:=a}\n" + either},
           {"bash t.sh", "go() { MODE=$1\n" + either + "}\ngo ${MODE:-a}\n"},
           {"bash t.sh", "MODE=a; . ./mode.env\n" + either},
           // What no branch was seen to rule out.
           {"bash t.sh", "go() { " + std::string("torchrun t.py; }\nfalse && go\npython t.py\n")},
           {"bash t.sh", "MODE=a; L=(torchrun); " + either + "\"${L[@]}\" e.py\n"},
           {"bash t.sh", "MODE=a; " + either + "nohup $TOOLS/torchrun e.py\n"}}) {
    EXPECT_EQ(kind(run, text), LauncherKind::kNode) << run << "\n" << text;
  }
  // Nor does it hide what is refused.
  LaunchLineOptions options;
  options.files["t.sh"] = "if false; then torchrun t.py; fi\nsrun python t.py\n";
  EXPECT_FALSE(ReadLaunchLine("bash t.sh", options));
}

TEST(ShellConditions, ChoicesAndComparisonsOfArithmeticAreMade) {
  const auto procs = [](const std::string& text) {
    return Procs("bash t.sh", text + "\ntorchrun --nproc_per_node=$N t.py\n");
  };
  for (const auto& [expression, value] : std::vector<std::pair<std::string, int>>{
           {"G<8?G:8", 4},
           {"G > 3 ? 2 : 1", 2},
           {"G == 4 && H != 4 ? 3 : 5", 3},
           {"(G >= 8 || H <= 16) ? 6 : 7", 6},
           {"!G ? 1 : H/G", 4},
           {"G<2?1:G<8?2:3", 2},
           {"1<<G-1", 8},
           {"H >> 2", 4},
           {"1 + G % 3 == 2", 1},
           // bash gives each of these a value, and nobody here knows it.
           {"F<8?F:8", 0},
           {"G**2", 0},
           {"G<8?G", 0}}) {
    EXPECT_EQ(procs("G=4; H=16; N=$((" + expression + "))"), value) << expression;
  }
  EXPECT_EQ(procs("G=4; if ((G >= 8)); then N=8; else N=$G; fi"), 4);
  EXPECT_EQ(procs("N=8; if (( N >= 8 && N != 9 )); then mkdir o; fi"), 8) << "compared, not set";
  EXPECT_EQ(procs("N=8; ((N -= 4))"), 0);
  EXPECT_EQ(procs("N=8; ((N <<= 1))"), 0);
  EXPECT_EQ(procs("G=$(nvidia-smi -L | wc -l); N=$((G > 8 ? 8 : G))"), 0) << "the node knows";
}

}  // namespace
}  // namespace launch
