// Texts followed from command to command: what a script leaves running, where functions and
// branches stand, which words call a launcher.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "planner/line/launch_line.h"
#include "planner/line/shell_notes.h"
#include "planner/line/shell_text.h"
#include "planner/line/written_counts.h"

namespace launch {
namespace {

using Texts = std::map<std::string, std::string>;

LaunchLineOptions OptionsOf(const std::string& run, const Texts& files) {
  JobSpec spec;
  spec.run = run;
  spec.workdir = "/home/me/project";
  return LineOptions(spec, files);
}

Result<LaunchLine> Line(const std::string& run, const Texts& files = {}) {
  return ReadLaunchLine(run, OptionsOf(run, files));
}

// The files that the text names, where it stands by then.
std::vector<std::string> NamedBy(const std::string& run) {
  const auto script = ReadShell(run);
  EXPECT_TRUE(script) << run;
  std::vector<std::string> names;
  for (const auto& [name, wanted] : CountsIn(*script, OptionsOf(run, {})).wanted)
    names.push_back(name);
  return names;
}

using Names = std::vector<std::string>;

TEST(ShellWalk, AScriptStaysForTheTrainingInItsForeground) {
  const std::string run = "bash t.sh";
  for (const char* text :
       {"CUDA_VISIBLE_DEVICES=7 trl vllm-serve --model X &\n"
        "accelerate launch grpo.py\n",
        "torchrun server.py &\nsleep_until_up\ntorchrun train.py\n",
        "torchrun train.py &\nexec tail -f log\n", "torchrun train.py &\ntime wait\n",
        "torchrun train.py &\ncommand wait\n"}) {
    const auto line = Line(run, {{"t.sh", text}});
    EXPECT_TRUE(line) << text << (line ? "" : line.error().message);
  }
  const std::string servers = "python reward_server.py &\npython train.py\n";
  JobSpec spec;
  spec.run = run;
  spec.workdir = "/w";
  spec.launcher = LauncherKind::kNode;
  const Texts files = {{"t.sh", servers}};
  EXPECT_TRUE(ReadLaunchLine(run, LineOptions(spec, files)));
  for (const char* text :
       {"python prepare.py\ntorchrun train.py &\n", "torchrun train.py &\necho started\n"}) {
    const auto line = Line(run, {{"t.sh", text}});
    ASSERT_FALSE(line) << text;
    EXPECT_NE(line.error().message.find("leaves torchrun in the background"), std::string::npos);
  }
}

TEST(ShellWalk, WhatAScriptLeavesIsFoundBehindVariablesFunctionsAndBranches) {
  const std::string array =
      "if [ $N -gt 1 ]; then L=(torchrun --nproc_per_node=2 t.py)\nelse L=(python t.py)\nfi\n";
  for (const std::string& text :
       {array + "nohup \"${L[@]}\" --a b > log 2>&1 &\necho \"PID $!\"\n",
        std::string("L='torchrun --nproc_per_node=2'\nif [ -z $A ]; then A=1; fi\n$L t.py &\n"),
        std::string("go() { torchrun t.py; }\nfor s in 1; do mkdir -p $s; done\ngo a &\n"),
        std::string("go() {\n  torchrun t.py &\n}\ngo\necho started\n")}) {
    const auto line = Line("bash t.sh", {{"t.sh", text}});
    ASSERT_FALSE(line) << text;
    EXPECT_NE(line.error().message.find("in the background and ends"), std::string::npos) << text;
  }
  for (const std::string& text :
       {array + "\"${L[@]}\" &\nPIDS+=($!)\nfor p in ${PIDS[@]}; do wait $p; done\n",
        array + "\"${L[@]}\" &\nwhile kill -0 $!; do sleep 1; done\n",
        array + "\"${L[@]}\" &\nmonitor $!\n",
        std::string("all() { for p in $P; do wait $p; done; }\ntorchrun t.py &\nP=$!\nall\n"),
        std::string("torchrun t.py\nnohup python hold_gpu.py &\n"),
        std::string("go() { torchrun t.py & wait; }\ngo\n"),
        std::string("if A; then nvidia-smi -l > g.log &\nfi\ntorchrun t.py\n")}) {
    const auto line = Line("bash t.sh", {{"t.sh", text}});
    EXPECT_TRUE(line) << text << (line ? "" : line.error().message);
  }
}

TEST(ShellWalk, OnlyAStatusOfTheTrainingCanBeHidden) {
  const auto hidden = [](const std::string& text) {
    const auto script = ReadShell(text);
    EXPECT_TRUE(script) << text;
    return std::ranges::any_of(HiddenStatus(*script), [](const Finding& finding) {
      return finding.code == "exit_code_hidden";
    });
  };
  for (const char* text :
       {"if [ $A = 1 ] || [ $B = 1 ]; then X=1; fi\ntorchrun t.py",
        "cd out || { echo no; exit 1; }\ntorchrun t.py", "pip install -q x || true\ntorchrun t.py",
        "ls | head -1\npython t.py", "yes | torchrun t.py", "N=$(ls | wc -l)\nbash t.sh"}) {
    EXPECT_FALSE(hidden(text)) << text;
  }
  for (const char* text :
       {"torchrun t.py | tee log", "torchrun t.py || true", "cd x && torchrun t.py || true",
        "torchrun t.py && echo ok || echo failed", "{ torchrun t.py; } 2>&1 | tee log",
        "L='torchrun --nproc_per_node 2'\n$L t.py | tee log", "(cd x; torchrun t.py) | tee log",
        "./train_binary | tee log", "go() { torchrun t.py; }\ngo | tee log"}) {
    EXPECT_TRUE(hidden(text)) << text;
  }
}

TEST(ShellWalk, TwoLaunchersAtOnceAreSeenThroughVariables) {
  const std::string named = "L='torchrun --nproc_per_node=2'\n";
  EXPECT_FALSE(Line(named + "$L a.py & $L b.py & wait"));
  EXPECT_FALSE(
      Line("L=(torchrun --nproc_per_node 2)\n\"${L[@]}\" a.py &\n\"${L[@]}\" b.py &\nwait"));
  EXPECT_TRUE(Line(named + "$L a.py\n$L b.py"));
}

TEST(ShellWalk, CopiesOfALauncherAtOnceAreRefused) {
  for (const char* text : {"parallel torchrun --nproc_per_node 2 t.py --lr ::: 1e-3 1e-4",
                           "parallel -j 2 torchrun --nproc_per_node 2 t.py < lrs.txt",
                           "parallel -j4 torchrun --nproc_per_node=2 t.py --seed ::: {1..4}",
                           "seq 4 | xargs -P 2 -I{} torchrun t.py --seed {}",
                           "cat lrs | xargs -n1 -P4 accelerate launch t.py --lr",
                           "cat lrs | xargs --max-procs=0 -n 1 torchrun t.py --lr",
                           "if true; then parallel torchrun t.py ::: 1 2; fi",
                           "seq 4 | xargs -0P2 torchrun t.py --seed",
                           "parallel 'torchrun --nproc_per_node 2 t.py --lr {}' ::: 1e-3 1e-4",
                           "parallel -j 2 ::: 'torchrun a.py' 'torchrun b.py'",
                           "bash -c 'torchrun a.py & torchrun b.py & wait'",
                           "B='torchrun a.py & torchrun b.py & wait'\nbash -c \"$B\"",
                           "cd x && eval 'for i in 1 2; do torchrun t.py & done; wait'"}) {
    const auto line = Line(text);
    ASSERT_FALSE(line) << text;
    EXPECT_NE(line.error().message.find("at the same time"), std::string::npos)
        << line.error().message;
  }
  for (const char* text :
       {"parallel -j1 torchrun --nproc_per_node 2 t.py --lr ::: 1e-3 1e-4",
        "parallel --jobs=1 torchrun t.py ::: 1 2", "parallel torchrun t.py --lr ::: 1e-3",
        "seq 4 | xargs -I{} torchrun t.py --seed {}", "seq 4 | xargs -P 1 -I{} torchrun t.py {}",
        "ls *.gz | xargs -P 8 -n 1 gunzip\ntorchrun t.py", "seq 4 | xargs -n 1 torchrun t.py -P 4",
        "parallel -j1 'torchrun t.py {}' ::: 1 2", "bash -c 'torchrun a.py; torchrun b.py'",
        "bash -c 'python log.py & torchrun b.py'", "torchrun t.py --note 'a & b & c'",
        "parallel gunzip ::: a.gz b.gz && torchrun t.py"}) {
    const auto line = Line(text);
    EXPECT_TRUE(line) << text << ": " << line.error().message;
  }
}

TEST(ShellWalk, ProgramsThatStartTheirProcessesThemselvesAreFoundInScripts) {
  const std::string verl =
      "set -x\nmkdir -p out\npython3 -m verl.trainer.main_ppo data.train_files=x "
      "trainer.n_gpus_per_node=8 trainer.nnodes=1 $@ 2>&1 | tee log\n";
  const std::string detectron =
      "mkdir -p out\nN=4\npython tools/train_net.py --num-gpus $N --config-file c.yaml\n";
  const std::string ray = "ray start --head --num-gpus 8\npython -m verl.trainer.main_ppo a=b\n";
  for (const std::string& text : {verl, detectron, ray}) {
    for (const auto& [run, files] :
         {std::pair(text, Texts()),
          std::pair(std::string("bash run.sh"), Texts{{"run.sh", text}})}) {
      const auto line = Line(run, files);
      ASSERT_TRUE(line) << text;
      EXPECT_EQ(line->launcher, LauncherKind::kNode) << run << text;
    }
  }
  EXPECT_EQ(Line(detectron)->procs_number, 4);
  EXPECT_NE(Line("mkdir -p out\npython t.py --gpus 1")->launcher, LauncherKind::kNode);
}

TEST(ShellWalk, ATextOfRunEndsWithItsForegroundLauncher) {
  const auto served = Line("trl vllm-serve --model X &\naccelerate launch grpo.py");
  ASSERT_TRUE(served) << served.error().message;
  EXPECT_EQ(served->shell.find("wait $!"), std::string::npos) << served->shell;
  const auto left = Line("torchrun t.py &\necho $! > pid");
  ASSERT_TRUE(left) << left.error().message;
  EXPECT_NE(left->shell.find("wait $!"), std::string::npos) << left->shell;
}

TEST(ShellWalk, AFunctionMovesThePlaceWhereItIsCalled) {
  const std::string call = "\naccelerate launch --config_file acc.yaml t.py";
  for (const char* body :
       {"setup() { cd third_party; build; }", "setup()\n{\n  cd third_party\n  make\n}",
        "function setup {\n  cd third_party\n  { make; }\n  make install\n}",
        "setup() { cd third_party; build; }\n(setup)", "setup() { cd x; }\nsetup | tee log",
        "setup() { cd x || { exit 1; }; cd ..; }\nsetup"}) {
    EXPECT_EQ(NamedBy(body + call), Names{"acc.yaml"}) << body;
  }
  EXPECT_EQ(NamedBy("enter() { cd sub; }\nenter" + call), Names{"sub/acc.yaml"});
  EXPECT_EQ(NamedBy("enter() { cd sub; }\ncd other\nenter" + call), Names{});
  EXPECT_EQ(NamedBy("go() { cd sub; bash go.sh; }\ngo"), Names{"sub/go.sh"});
  EXPECT_EQ(NamedBy("cd sub; deepspeed -H hosts t.py"), Names{"sub/hosts"});
  EXPECT_EQ(NamedBy("curl -H hosts t.py"), Names{});
}

TEST(ShellWalk, ABranchThatComesBackLeavesThePlaceAsItWas) {
  const std::string call = "\naccelerate launch --config_file acc.yaml t.py";
  for (const char* branch :
       {"if [ ! -d data ]; then mkdir data; cd data; wget X; cd ..; fi",
        "for d in a b; do cd $d; make; cd ..; done", "while read d; do pushd $d; popd; done",
        "if A; then cd a; cd -; else cd b; cd ..; fi",
        "case $X in\n  a) cd a; cd .. ;;\n  b) cd b\n    cd ..\n    ;;\nesac",
        "if A; then if B; then cd b; cd ..; fi; fi", "if A; then cd $SOMEWHERE; fi"}) {
    EXPECT_EQ(NamedBy(branch + call), Names{"acc.yaml"}) << branch;
  }
  EXPECT_EQ(NamedBy("if A; then cd a; bash x.sh; else cd b; bash y.sh; fi"),
            (Names{"a/x.sh", "b/y.sh"}));
  for (const char* open :
       {"if [ -d sub ]; then cd sub; fi", "if A; then cd a; else cd b; fi",
        "case $X in\n  a) cd a ;;\n  *) true ;;\nesac", "for d in a b; do cd sub; done"}) {
    EXPECT_EQ(NamedBy(open + call), Names{}) << open;
  }
}

TEST(ShellWalk, FilesBeyondTheNumberOfAJobAreNamed) {
  Texts files;
  std::string run;
  for (int i = 0; i < 8; ++i) {
    const std::string name = "env" + std::to_string(i) + ".sh";
    files[name] = "export A" + std::to_string(i) + "=1\n";
    run += "source " + name + "\n";
  }
  const auto says = [](const Result<LaunchLine>& line) {
    std::string found;
    EXPECT_TRUE(line);
    for (const Finding& one : line->warnings)
      if (one.code == "files_left_out") found = one.says;
    return found;
  };
  const std::string more = run + "source more.sh\n";
  EXPECT_NE(says(Line(more + "torchrun t.py", files)).find("not read: more.sh"), std::string::npos);
  EXPECT_NE(says(Line(more + "python t.py", files)).find("not read: more.sh"), std::string::npos);
  EXPECT_EQ(says(Line(run + "torchrun t.py", files)), "");
  EXPECT_EQ(says(Line("source more.sh\ntorchrun t.py")), "");
}

TEST(ShellWalk, ALauncherIsCalledByItsNameAlone) {
  const std::string path = "export PATH=/opt/x/bin:$PATH; ";
  for (const auto& [written, started] : std::map<std::string, std::string>{
           {path + "exec torchrun --nproc_per_node 4 t.py",
            path + "torchrun --nproc_per_node 4 t.py"},
           {"PATH=/x:$PATH nohup torchrun t.py", "PATH=/x:$PATH torchrun t.py"},
           {path + "env A=1 torchrun t.py", path + "A=1 torchrun t.py"},
           {"source x/bin/activate\nexec \\\n  torchrun t.py",
            "source x/bin/activate\ntorchrun t.py"},
           {path + "command accelerate launch t.py", path + "accelerate launch t.py"}}) {
    const auto line = Line(written);
    ASSERT_TRUE(line) << written << ": " << line.error().message;
    EXPECT_TRUE(line->shell.ends_with(started)) << line->shell;
  }
  // Behind exec nothing is reached; other programs are started as written.
  for (const char* kept : {"source a\nexec torchrun t.py\necho never",
                           "if A; then exec torchrun t.py; fi; python x.py",
                           "source a; nohup python x.py; torchrun t.py"}) {
    const auto line = Line(kept);
    ASSERT_TRUE(line) << kept << ": " << line.error().message;
    EXPECT_NE(line->shell.find(kept), std::string::npos) << line->shell;
  }
}

TEST(ShellWalk, AVariableOfSeveralArgumentsIsReadAsThoseAndKeptForTheShell) {
  const auto line =
      Line("ARGS=\"--bf16 --deepspeed ds.json\"; torchrun train.py $ARGS --name \"$ARGS\"");
  ASSERT_TRUE(line) << line.error().message;
  std::vector<std::string> values;
  for (const ShellWord& word : line->arguments) values.push_back(word.value);
  EXPECT_EQ(values, (std::vector<std::string>{"--bf16", "--deepspeed", "ds.json", "--name",
                                              "--bf16 --deepspeed ds.json"}));
  EXPECT_TRUE(line->shell.ends_with("train.py $ARGS --name \"$ARGS\"")) << line->shell;
}

}  // namespace
}  // namespace launch
