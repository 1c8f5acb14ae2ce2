// Lines whose counts stand in files beside them, or in defaults of their own.
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/line/launch_line.h"
#include "planner/line/shell_place.h"
#include "planner/line/shell_text.h"
#include "planner/line/written_counts.h"

namespace launch {
namespace {

using Files = std::map<std::string, std::string>;

constexpr const char* kZero3 =
    "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_machines: 1\nnum_processes: 8\n"
    "deepspeed_config:\n  zero_stage: 3\n";

JobSpec JobOf(const std::string& run) {
  JobSpec spec;
  spec.run = run;
  spec.workdir = "/home/me/project";
  return spec;
}

LaunchLine Read(const JobSpec& spec, const Files& files = {}) {
  auto line = ReadLaunchLine(spec.run, LineOptions(spec, files));
  EXPECT_TRUE(line) << spec.run << ": " << FormatError(line.error());
  return line ? *line : LaunchLine{};
}

int ProcessesOf(const LaunchLine& line) {
  return line.procs == ProcsWord::kNumber ? line.procs_number : 0;
}

Files Wanted(const std::string& run, const Files& files = {}) {
  const JobSpec spec = JobOf(run);
  const auto script = ReadShell(run);
  EXPECT_TRUE(script) << run;
  Files wanted;
  for (const auto& [name, file] : CountsIn(*script, LineOptions(spec, files)).wanted)
    wanted[name] = file.path;
  return wanted;
}

bool Says(const LaunchLine& line, const std::string& text) {
  for (const Finding& warning : line.warnings)
    if (warning.says.find(text) != std::string::npos) return true;
  return false;
}

TEST(NamedTexts, AreFollowedFromScriptToConfiguration) {
  struct Case {
    std::string run;
    Files files;
    std::string named;
    std::string path;
  };
  const std::string own =
      "cd \"$(dirname \"$0\")\"\naccelerate launch --config_file ../acc.yaml t.py\n";
  for (const Case& c : std::vector<Case>{
           {"bash t.sh", {}, "t.sh", "/home/me/project/t.sh"},
           {"bash t.sh",
            {{"t.sh", "accelerate launch --config_file acc.yaml t.py"}},
            "acc.yaml",
            "/home/me/project/acc.yaml"},
           {"bash run/t.sh", {{"run/t.sh", own}}, "acc.yaml", "/home/me/project/run/../acc.yaml"},
           {"CFG=acc.yaml\naccelerate launch --config_file $CFG t.py",
            {},
            "acc.yaml",
            "/home/me/project/acc.yaml"},
           {"accelerate launch --config_file \"$PWD/acc.yaml\" t.py",
            {},
            "acc.yaml",
            "/home/me/project/acc.yaml"},
           {"cd s && accelerate launch --config_file=../acc.yaml t.py",
            {},
            "acc.yaml",
            "/home/me/project/s/../acc.yaml"},
           {"cmd=\"accelerate launch --config_file acc.yaml t.py\"; eval $cmd",
            {},
            "acc.yaml",
            "/home/me/project/acc.yaml"},
           {"bash a/t.sh",
            {{"a/t.sh",
              "HERE=$(cd \"$(dirname \"${BASH_SOURCE[0]}\")/..\" >/dev/null 2>&1 && pwd)\n"
              "torchrun t.py --deepspeed $HERE/ds.json"}},
            "ds.json",
            "/home/me/project/ds.json"},
           {"bash a/t.sh",
            {{"a/t.sh", "deepspeed t.py --deepspeed ${0%/*}/ds.json"}},
            "a/ds.json",
            "/home/me/project/a/ds.json"},
           {"cd /opt/x\nbash t.sh", {}, "/opt/x/t.sh", "/opt/x/t.sh"}}) {
    const Files wanted = Wanted(c.run, c.files);
    ASSERT_TRUE(wanted.contains(c.named)) << c.run;
    EXPECT_EQ(wanted.at(c.named), c.path) << c.run;
  }
  // Where the text stands is not known.
  for (const char* run : {"cd $SOMEWHERE\nbash t.sh", "if [ -d a ]; then cd a; fi; bash t.sh",
                          "bash $DIR/t.sh", "accelerate launch --config_file ~/acc.yaml t.py"}) {
    EXPECT_EQ(Wanted(run), Files()) << run;
  }
  // A text that runs itself, and one that is at hand already.
  EXPECT_EQ(Wanted("bash t.sh", {{"t.sh", "bash t.sh"}}), Files());
}

TEST(NamedTexts, GiveProcessesAndStrategyToAScriptThatCallsAccelerate) {
  const Files files = {
      {"t.sh", "set -e\naccelerate launch --config_file acc.yaml train.py --lr 1\n"},
      {"acc.yaml", kZero3}};
  const LaunchLine line = Read(JobOf("bash t.sh"), files);
  EXPECT_EQ(line.start, StartKind::kPerNode);
  EXPECT_EQ(ProcessesOf(line), 8);
  ASSERT_TRUE(line.accelerate);
  EXPECT_EQ(line.accelerate->Value("zero_stage"), "3");
  EXPECT_FALSE(Says(line, "not known here"));
  for (const char* run : {"CFG=acc.yaml\naccelerate launch --config_file $CFG train.py",
                          "CFG=acc.yaml accelerate launch --config_file acc.yaml train.py",
                          "cmd='accelerate launch --config_file acc.yaml train.py'; eval $cmd"}) {
    EXPECT_EQ(ProcessesOf(Read(JobOf(run), files)), 8) << run;
  }
}

TEST(NamedTexts, KeepADefaultOfTheTextWhereTheJobIsSilent) {
  for (const char* run :
       {"torchrun --nproc_per_node ${NPROC_PER_NODE:-8} train.py",
        "NPROC_PER_NODE=${NPROC_PER_NODE:-8}\ntorchrun --nproc_per_node $NPROC_PER_NODE train.py",
        ": \"${NPROC_PER_NODE:=8}\"\ntorchrun --nproc_per_node $NPROC_PER_NODE train.py"}) {
    EXPECT_EQ(ProcessesOf(Read(JobOf(run))), 8) << run;
    JobSpec four = JobOf(run);
    four.gpus_written = true;
    four.gpus = {{.model = "", .count = 4}};
    EXPECT_EQ(ProcessesOf(Read(four)), 4) << run;
    JobSpec two = JobOf(run);
    two.procs_per_node = 2;
    EXPECT_EQ(ProcessesOf(Read(two)), 2) << run;
  }
  const std::string run = "torchrun --nnodes ${NNODES:-2} --nproc_per_node 1 train.py";
  LaunchLineOptions open = LineOptions(JobOf(run), {});
  open.told.erase("NNODES");  // as where the job leaves nodes out
  EXPECT_EQ(ReadLaunchLine(run, open)->nodes_min, 2);
  JobSpec three = JobOf(run);
  three.nodes = {3, 3, false};
  EXPECT_EQ(Read(three).nodes_min, 3);
  JobSpec some = JobOf(run);
  some.nodes = {2, 4, false};
  EXPECT_EQ(Read(some).nodes_max, 4);
}

TEST(NamedTexts, CountHostsAndSlotsOfAHostfile) {
  const Files files = {{"hosts", "node1 slots=8\nnode2 slots=8  # the second\n\n"}};
  const LaunchLine line = Read(JobOf("deepspeed --hostfile hosts train.py"), files);
  EXPECT_EQ(line.nodes_min, 2);
  EXPECT_EQ(ProcessesOf(line), 8);
  // A part of it is asked for, or the line says otherwise.
  EXPECT_EQ(Read(JobOf("deepspeed --hostfile hosts --include node1:0,1 train.py"), files).nodes_min,
            std::nullopt);
  EXPECT_EQ(ProcessesOf(Read(JobOf("deepspeed --hostfile hosts --num_gpus 4 train.py"), files)), 4);
  EXPECT_EQ(Read(JobOf("deepspeed --hostfile other train.py"), files).nodes_min, std::nullopt);
  EXPECT_EQ(
      Read(JobOf("deepspeed --hostfile hosts train.py"), {{"hosts", "\x00slots=\nx"}}).nodes_min,
      std::nullopt);
}

TEST(NamedTexts, ProgramsThatStartTheirRanksAreStartedOncePerNode) {
  const LaunchLine ddp = Read(JobOf("torchx run -s local_cwd dist.ddp -j 2x4 --script main.py"));
  EXPECT_EQ(ddp.start, StartKind::kPerNode);
  EXPECT_EQ(ProcessesOf(ddp), 4);
  EXPECT_EQ(ddp.nodes_min, 2);
  const LaunchLine fairseq =
      Read(JobOf("fairseq-hydra-train task.data=/d distributed_training.distributed_world_size=4"));
  EXPECT_EQ(fairseq.start, StartKind::kPerNode);
  EXPECT_EQ(ProcessesOf(fairseq), 4);
  EXPECT_EQ(Read(JobOf("fairseq-hydra-train task.data=/d "
                       "distributed_training.distributed_world_size=1"))
                .start,
            StartKind::kDirect);
}

TEST(NamedTexts, WhatALauncherTakesByItselfIsSaidWhereTheJobIsSilent) {
  for (const char* run : {"accelerate launch train.py", "accelerate launch --multi_gpu train.py",
                          "torchrun --nproc_per_node=gpu train.py", "deepspeed train.py"}) {
    const LaunchLine silent = Read(JobOf(run));
    EXPECT_TRUE(std::ranges::any_of(silent.warnings, [](const Finding& one) {
      return one.says.find("every GPU of the node") != std::string::npos &&
             one.severity == Severity::kWarning && one.remedy.find("--gpus N") != std::string::npos;
    })) << run;
    JobSpec eight = JobOf(run);
    eight.gpus_written = true;
    eight.gpus = {{.model = "", .count = 8}};
    EXPECT_FALSE(Says(Read(eight), "every GPU of the node")) << run;
  }
}

TEST(NamedTexts, ABackslashBeforeABlankIsFoundBehindACommentToo) {
  const std::string run = "deepspeed main.py \\ # the script\n  --data_path x\n";
  const auto line = ReadLaunchLine(run, LineOptions(JobOf(run), {}));
  ASSERT_FALSE(line);
  EXPECT_NE(line.error().message.find("backslash"), std::string::npos);
}

TEST(NamedTexts, AScriptThatEndsBeforeItsTrainingIsRefused) {
  const std::string left = "nohup torchrun --nproc_per_node=2 t.py > out 2>&1 &\necho started\n";
  const JobSpec job = JobOf("bash resume.sh");
  const auto refused = ReadLaunchLine(job.run, LineOptions(job, {{"resume.sh", left}}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("resume.sh leaves torchrun in the background"),
            std::string::npos)
      << refused.error().message;
  for (const char* stays : {"wait\n", "tail -f out\n", "sleep infinity\n"}) {
    EXPECT_TRUE(ReadLaunchLine(job.run, LineOptions(job, {{"resume.sh", left + stays}}))) << stays;
  }
  // The text goes on behind it, or something else is left.
  EXPECT_TRUE(
      ReadLaunchLine("bash resume.sh; tail -f out", LineOptions(job, {{"resume.sh", left}})));
  EXPECT_TRUE(ReadLaunchLine(
      job.run, LineOptions(job, {{"resume.sh", "tensorboard --logdir o &\ntorchrun t.py\n"}})));
  for (const char* run :
       {"screen -dmS t torchrun t.py", "tmux new -d -s t 'torchrun t.py'",
        "kubectl exec pod -- torchrun t.py", "tmux new-session -d -s t 'python train.py'",
        "screen -dmS t bash -c 'cd x && python t.py'", "ssh node1 'cd /x && python train.py'",
        "docker compose run app python t.py", "docker exec c bash -c 'python t.py'",
        "jsrun -n 2 python t.py", "qsub job.sh"}) {
    const auto line = ReadLaunchLine(run, LineOptions(JobOf(run), {}));
    ASSERT_FALSE(line) << run;
    EXPECT_EQ(line.error().code, ErrorCode::kUnimplemented) << run;
  }
}

TEST(NamedTexts, AnExitCodeThatAScriptHidesIsSaid) {
  const Files files = {{"tee.sh", "torchrun --nproc_per_node=2 t.py 2>&1 | tee log.txt\n"},
                       {"outer.sh", "bash tee.sh\n"}};
  EXPECT_TRUE(Says(Read(JobOf("bash tee.sh"), files), "\"|\" in tee.sh: the exit code"));
  EXPECT_TRUE(Says(Read(JobOf("bash outer.sh"), files), "\"|\" in tee.sh: the exit code"));
  EXPECT_TRUE(Says(Read(JobOf("cmd=\"torchrun t.py\"; eval $cmd; echo -ne 'Finished\\n'")),
                   "`echo` behind the launcher in run"));
}

TEST(NamedTexts, ALineThatSetsPathFindsItsInterpreterOnTheNode) {
  for (const char* run : {"export PATH=$PWD/bin:$PATH\ntorchrun --nproc_per_node=2 t.py",
                          "PATH=/opt/x/bin:$PATH deepspeed --num_gpus 2 t.py"}) {
    const LaunchLine line = Read(JobOf(run));
    EXPECT_EQ(line.start, StartKind::kPerNode) << run;
    EXPECT_EQ(ProcessesOf(line), 2) << run;
  }
  for (const char* run : {"PATH=$PWD/bin:$PATH mytool x", "export PATH=/opt/x:$PATH; mytool x",
                          "env PATH=/opt/x mytool"}) {
    EXPECT_EQ(Read(JobOf(run)).command_word, "") << run;
  }
  EXPECT_EQ(Read(JobOf("mytool x")).command_word, "mytool");
}

TEST(NamedTexts, ArgZeroIsThatOfTheText) {
  const LaunchLine line = Read(JobOf("cd \"$(dirname \"$0\")\"\ntorchrun --nproc_per_node=1 t.py"));
  EXPECT_EQ(line.start, StartKind::kDirect);
  EXPECT_TRUE(line.uses_arg_zero);
  EXPECT_EQ(line.shell,
            "launch_python=$1; shift; cd \"$(dirname \"$0\")\"; exec \"$launch_python\" "
            "-u t.py");
  EXPECT_FALSE(Read(JobOf("torchrun t.py")).uses_arg_zero);
}

TEST(NamedTexts, AScriptOfDataParallelIsOneProcess) {
  const Files files = {{"t.py", "model = nn.DataParallel(model).cuda()\n"}};
  const LaunchLine line = Read(JobOf("CUDA_VISIBLE_DEVICES=0,1,2,3 python t.py"), files);
  EXPECT_EQ(line.start, StartKind::kPerNode);
  EXPECT_EQ(ProcessesOf(line), 1);
  const Files both = {
      {"t.py", "model = nn.parallel.DistributedDataParallel(m) if a else nn.DataParallel(m)\n"}};
  EXPECT_EQ(Read(JobOf("python t.py"), both).start, StartKind::kDirect);
}

TEST(NamedTexts, ValuesOfVariablesAreReadInFlagsOfTheScript) {
  const LaunchLine line =
      Read(JobOf("C=ds.json\nGPUS=4; WORLD_SIZE=$GPUS\n"
                 "torchrun --nproc_per_node=$WORLD_SIZE t.py --deepspeed $C $X"));
  EXPECT_EQ(ProcessesOf(line), 4);
  ASSERT_EQ(line.arguments.size(), 3u);
  EXPECT_EQ(line.arguments[1].value, "ds.json");
  EXPECT_EQ(line.arguments[2].value, "$X");
  EXPECT_NE(line.shell.find("--deepspeed $C $X"), std::string::npos) << "as written";
}

TEST(NamedTexts, ACallOfUnknownCountIsHeldToItsOwn) {
  const LaunchLine open = Read(JobOf("N=$(cat n.txt); true && torchrun --nproc_per_node=$N t.py"));
  EXPECT_NE(open.shell.find("LAUNCH_OPEN_COUNT=1"), std::string::npos);
  JobSpec two = JobOf("N=$(cat n.txt); true && torchrun --nproc_per_node=$N t.py");
  two.procs_per_node = 2;
  EXPECT_EQ(Read(two).shell.find("LAUNCH_OPEN_COUNT"), std::string::npos);
  const LaunchLine evaluated = Read(JobOf("eval \"torchrun --nproc_per_node=4 t.py --x\""));
  EXPECT_EQ(evaluated.start, StartKind::kPerNode);
  EXPECT_EQ(ProcessesOf(evaluated), 4);
}

TEST(NamedTexts, ScriptsBehindCdAreTheirs) {
  EXPECT_EQ(Wanted("cd sub && bash only.sh"),
            (Files{{"sub/only.sh", "/home/me/project/sub/only.sh"}}));
  EXPECT_EQ(Wanted("cd sub\n./only.sh"),
            (Files{{"sub/only.sh", "/home/me/project/sub/./only.sh"}}));
  const LaunchLine line =
      Read(JobOf("cd sub && bash only.sh"), {{"sub/only.sh", "torchrun --nproc_per_node 2 t.py"},
                                             {"only.sh", "torchrun --nproc_per_node 5 t.py"}});
  EXPECT_EQ(line.start, StartKind::kPerNode);
  EXPECT_EQ(ProcessesOf(line), 2);
}

TEST(NamedTexts, WhatBranchesAgreeAboutIsKnown) {
  const std::string branches =
      "N=4\nif [ -n \"$WORLD_SIZE\" ]; then\n  HOW=\"--nproc_per_node=$N --nnodes=$WORLD_SIZE\"\n"
      "else\n  HOW=\"--standalone --nproc_per_node=%\"\nfi\ntorchrun $HOW t.py\n";
  const auto with = [&branches](const std::string& other) {
    std::string run = branches;
    return ProcessesOf(Read(JobOf(run.replace(run.find('%'), 1, other))));
  };
  EXPECT_EQ(with("$N"), 4);
  EXPECT_EQ(with("4"), 4);
  EXPECT_EQ(with("8"), 0) << "they do not agree";
  EXPECT_EQ(ProcessesOf(Read(JobOf("N=8\nif [ $A ]; then N=4; elif [ $B ]; then N=2; else N=8; "
                                   "fi\ntrue && torchrun --nproc_per_node $N t.py"))),
            0);
}

TEST(NamedTexts, AreReadAsTheTextItselfWritesThem) {
  const LaunchLine hosts = Read(
      JobOf("cat > hosts <<EOF\nn1 slots=4\nn2 slots=4\nEOF\ndeepspeed --hostfile hosts t.py\n"));
  EXPECT_EQ(hosts.nodes_min, 2);
  EXPECT_EQ(ProcessesOf(hosts), 4);
  EXPECT_EQ(Read(JobOf("echo n1 slots=2 > h\necho 'n2 slots=2' >> h\nprintf 'n3 slots=2\\n' >> h\n"
                       "deepspeed --hostfile h t.py"))
                .nodes_min,
            3);
  const LaunchLine config =
      Read(JobOf("N=4\ncat <<EOF > a.yaml\nnum_processes: $N\nEOF\naccelerate launch "
                 "--config_file a.yaml t.py"),
           {{"a.yaml", "num_processes: 2\n"}});
  EXPECT_EQ(ProcessesOf(config), 4) << "not the one that an earlier run left";
  EXPECT_EQ(ProcessesOf(Read(JobOf("cat <<'EOF' > a.yaml\nnum_processes: $N\nEOF\nN=4\n"
                                   "accelerate launch --config_file a.yaml t.py"))),
            0);
  const LaunchLine engine =
      Read(JobOf("cat > $PWD/ds.json <<E\n{\"zero_optimization\": {\"stage\": 2}}\nE\n"
                 "deepspeed --num_gpus 2 t.py --deepspeed_config ds.json"));
  ASSERT_TRUE(engine.deepspeed);
  EXPECT_EQ(engine.deepspeed->name, "ds.json");
}

TEST(NamedTexts, LaunchersAtTheSameTimeAreRefused) {
  for (const char* run :
       {"torchrun --nproc_per_node=2 a.py &\ntorchrun --nproc_per_node=2 b.py &\nwait",
        "f() { CUDA_VISIBLE_DEVICES=$1 torchrun --nproc_per_node=$2 t.py; }\nf 0,1 2 &\nf 2,3 2 &\n"
        "wait",
        "for i in 0 1; do\n  CUDA_VISIBLE_DEVICES=$i torchrun --nproc_per_node=1 t.py &\ndone\n"
        "wait"}) {
    const JobSpec job = JobOf(run);
    const auto line = ReadLaunchLine(run, LineOptions(job, {}));
    ASSERT_FALSE(line) << run;
    EXPECT_EQ(line.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(line.error().message.find("several of torchrun at the same time"), std::string::npos)
        << line.error().message;
    const JobSpec by_script = JobOf("bash t.sh");
    EXPECT_FALSE(ReadLaunchLine(by_script.run, LineOptions(by_script, {{"t.sh", run}}))) << run;
  }
  for (const char* run :
       {"tensorboard --logdir o &\ntorchrun --nproc_per_node=2 a.py",
        "torchrun --nproc_per_node=2 a.py &\nwait\ntorchrun --nproc_per_node=2 b.py &\nwait",
        "for i in 0 1; do\n  torchrun --nproc_per_node=1 t.py &\n  wait $!\ndone",
        "if [ $NODE_RANK = 0 ]; then\n  torchrun --nproc_per_node=2 a.py &\nelse\n  torchrun "
        "--nproc_per_node=2 a.py &\nfi\nwait",
        // A block behind a command is no function of that name.
        "sync\n{ torchrun --nproc_per_node=2 a.py; }\nsync & sync & wait"}) {
    EXPECT_TRUE(ReadLaunchLine(run, LineOptions(JobOf(run), {}))) << run;
  }
}

TEST(NamedTexts, AScriptThatIsNotAtHandIsSaid) {
  for (const char* run : {"bash t.sh", "bash $DIR/t.sh", "for s in a b; do bash $s.sh; done",
                          "env -C sub bash t.sh"}) {
    EXPECT_TRUE(Says(Read(JobOf(run)), "is not at hand: run is started once per rank")) << run;
  }
  EXPECT_FALSE(Says(Read(JobOf("bash t.sh"), {{"t.sh", "python t.py"}}), "not at hand"));
  EXPECT_FALSE(Says(Read(JobOf("source ~/venv/bin/activate && python t.py")), "not at hand"));
  EXPECT_TRUE(Says(Read(JobOf("deepspeed --hostfile h t.py")), "h was not found"));
  JobSpec two = JobOf("deepspeed --hostfile h t.py");
  two.nodes = {2, 2, false};
  EXPECT_FALSE(Says(Read(two), "h was not found"));
}

TEST(NamedTexts, PlacesFollowTheDirectoriesOfTheText) {
  const auto at = [](const std::string& text, const std::string& name) {
    ShellPlace place("/w");
    KnownVariables known = {{"PWD", "/w"}, {"D", "d"}};
    const auto script = ReadShell(text);
    EXPECT_TRUE(script);
    for (const ShellCommand& command : script->commands) place.Note(command, known);
    EXPECT_EQ(known.contains("PWD"), !place.directory().empty()) << text;
    return place.NameOf(name);
  };
  EXPECT_EQ(at("true", "./a"), "./a");
  EXPECT_EQ(at("cd a/../b", "./c"), "b/c");
  EXPECT_EQ(at("cd -P -- $D; cd ..", "c"), "c");
  EXPECT_EQ(at("cd a; cd -", "c"), "c");
  EXPECT_EQ(at("pushd a\npushd b\npopd", "c"), "a/c");
  EXPECT_EQ(at("cd ..", "w/c"), "c");
  EXPECT_EQ(at("cd ..", "c"), "/c");
  EXPECT_EQ(at("cd /x/y", "../c"), "/x/c");
  EXPECT_EQ(at("cd a | true", "c"), "c");
  for (const char* unknown : {"cd", "cd ~/x", "cd $NOBODY", "popd", "cd \"$(pick)\""}) {
    EXPECT_EQ(at(unknown, "c"), "") << unknown;
    EXPECT_EQ(at(unknown, "/w/c"), "c") << unknown;
  }
}

}  // namespace
}  // namespace launch
