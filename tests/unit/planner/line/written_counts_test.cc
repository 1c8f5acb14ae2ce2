// What texts with launchers inside ask for: processes, nodes, devices.
#include "planner/line/written_counts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "planner/line/launch_line.h"
#include "tests/unit/planner/public_line.h"

namespace launch {
namespace {

using namespace std::string_literals;

using Texts = std::map<std::string, std::string>;

Result<LaunchLine> Line(const std::string& run, const Texts& files = {}, JobSpec spec = {}) {
  spec.run = run;
  spec.workdir = "/home/me/project";
  return ReadLaunchLine(run, LineOptions(spec, files));
}

Result<LaunchLine> Script(const std::string& text, JobSpec spec = {}) {
  return Line("bash train.sh", {{"train.sh", text}}, std::move(spec));
}

std::string Warning(const Result<LaunchLine>& line, const std::string& code) {
  if (!line) return line.error().message;
  const auto found = std::find_if(line->warnings.begin(), line->warnings.end(),
                                  [&](const Finding& one) { return one.code == code; });
  return found == line->warnings.end() ? "" : found->says;
}

TEST(WrittenCounts, DevicesOfAValueThatIsNotKnownAreSaid) {
  for (const char* text :
       {"export CUDA_VISIBLE_DEVICES=$(seq -s , 0 3)\ntorchrun --nproc_per_node=4 t.py\n",
        "for g in 0,1 2,3; do\n  CUDA_VISIBLE_DEVICES=$g torchrun --nproc_per_node=2 t.py\ndone\n",
        "go() { CUDA_VISIBLE_DEVICES=$G torchrun --nproc_per_node=2 t.py; }\ngo 0,1\n",
        "CUDA_VISIBLE_DEVICES=$G bash inner.sh\ntorchrun --nproc_per_node=2 t.py\n"}) {
    const auto line = Script(text);
    ASSERT_TRUE(line) << text << line.error().message;
    EXPECT_FALSE(line->visible_devices) << text;
    EXPECT_NE(Warning(line, "visible_devices_set").find("how many is not known here, and replaced"),
              std::string::npos)
        << text;
  }
  const auto counted =
      Script("export CUDA_VISIBLE_DEVICES=2,3\ntorchrun --nproc_per_node=2 t.py\n");
  ASSERT_TRUE(counted);
  EXPECT_EQ(counted->visible_devices, 2);
  // Not those of another program than a launcher.
  const auto other =
      Script("CUDA_VISIBLE_DEVICES= python prep.py\ntorchrun --nproc_per_node=2 t.py\n");
  EXPECT_EQ(Warning(other, "visible_devices_set"), "");
}

TEST(WrittenCounts, AListOfDevicesThatIsNotKnownIsNotCounted) {
  for (const char* flag : {"--include localhost:$X", "--include=\"localhost:$X\"", "-i $X",
                           "--include localhost:$(python free.py --of 0,1,2,3)"}) {
    const std::string call = "deepspeed "s + flag + " train.py";
    for (const std::string& set : {""s, "X=$(python -c 'import f; print(f.free(4, 8))')\n"s}) {
      EXPECT_EQ(Reading(Line(set + call)), "deepspeed procs=unknown train.py") << set << call;
      const auto inside = Script(set + call);
      EXPECT_EQ(Reading(inside), "node") << set << call;
      EXPECT_NE(Warning(inside, "processes_per_node").find("not known here (-"), std::string::npos);
    }
  }
  EXPECT_EQ(Reading(Line("X=0,1,2; deepspeed --include localhost:$X train.py")),
            "deepspeed procs=3 train.py");
  EXPECT_EQ(Reading(Line("deepspeed --include $HOST:0,1 train.py")), "deepspeed procs=2 train.py");
  EXPECT_EQ(Reading(Line("X=`python free.py 0,1`; accelerate launch --gpu_ids $X train.py")),
            "accelerate procs=unknown train.py");
  EXPECT_EQ(Reading(Script("X=$(python -c 'print(\"1,2\")')\n"
                           "python -m paddle.distributed.launch --gpus $X train.py")),
            "node");
}

// The call inside compares its number with the plan's.
bool IsHeld(const Result<LaunchLine>& line) {
  return line && line->shell.starts_with("export LAUNCH_OPEN_COUNT=1\n");
}

TEST(WrittenCounts, ANumberThatMayBeAnotherIsComparedWhereItIsUsed) {
  const std::string call = "torchrun --nproc_per_node ${NPROC:-8} train.py\n";
  for (const std::string& text :
       {"[ -f ~/train.env ] && source ~/train.env\n" + call, "source \"$1\"\n" + call,
        "if [ \"$DEBUG\" ]; then NPROC=8; fi\n" + call,
        "if [ \"$DDP\" ]; then torchrun --nproc_per_node 8 a.py; else python a.py; fi"s}) {
    const auto line = Script(text);
    EXPECT_EQ(Reading(line), "node procs=8") << text;
    EXPECT_TRUE(IsHeld(line)) << text;
    JobSpec told;
    told.gpus_written = true;
    told.gpus = {{"", 8}};
    EXPECT_FALSE(IsHeld(Script(text, told))) << "the job says the number: " << text;
  }
  for (const std::string& text :
       {call, "source ~/train.env\ntorchrun --nproc_per_node 8 train.py\n"s,
        "if [ \"$A\" ]; then torchrun --nproc_per_node 8 a.py; else torchrun --nproc_per_node 4 "
        "a.py; fi"s}) {
    const auto line = Script(text);
    EXPECT_EQ(Reading(line), "node procs=8") << text;
    EXPECT_FALSE(IsHeld(line)) << text;
  }
}

// An option of the call may be another number than the text's own.
TEST(WrittenCounts, ANumberThatOptionsMayChangeIsNoFact) {
  const auto called = [](const std::string& text) {
    return Line(
        "bash train.sh --ngpu 4",
        {{"train.sh", "ngpu=8\n" + text + "torchrun --nproc_per_node=$ngpu t.py \"$@\"\n"}});
  };
  for (const char* text :
       {"eval \"$(python parse.py \"$@\")\"\n", ". utils/parse_options.sh\n",
        "while [[ $# -gt 0 ]]; do\n  declare \"${1#--}\"=\"$2\"\n  shift 2\ndone\n",
        "for a in \"$@\"; do export \"${a%%=*}\"=\"${a#*=}\"; done\n"}) {
    EXPECT_TRUE(IsHeld(called(text))) << text;
  }
  for (const char* text :
       {"eval set -- \"$(getopt -o n: --long ngpu: -- \"$@\")\"\nwhile true; do\n  case \"$1\" in\n"
        "  -n|--ngpu) ngpu=$2; shift 2 ;;\n  --) shift; break ;;\n  esac\ndone\n",
        "parse() {\n  while getopts n: o; do case $o in n) ngpu=$OPTARG ;; esac; done\n}\n"
        "parse \"$@\"\n"}) {
    EXPECT_EQ(Reading(called(text)), "node") << text;
  }
}

TEST(WrittenCounts, ANumberOfOneBranchIsNotThatOfTheOther) {
  const auto line = Script(
      "if [ \"$MODE\" = ddp ]; then\n  torchrun --nproc_per_node 4 train.py\nelse\n"
      "  accelerate launch --num_processes $N train.py\nfi\n");
  EXPECT_EQ(Reading(line), "node procs=4");
  EXPECT_TRUE(IsHeld(line));
  EXPECT_EQ(Warning(line, "processes_per_node"),
            "calls inside run ask for 4 processes and for a number that is not known here "
            "(--num_processes $N): one that asks for another number than the plan's stops");
  const auto both = Script(
      "torchrun --nproc_per_node 4 train.py\n"
      "accelerate launch --num_processes $(python count.py) eval.py\n");
  EXPECT_FALSE(IsHeld(both)) << "the second would stop when the first has trained";
  EXPECT_NE(Warning(both, "processes_per_node").find("each of them gets the number of the plan"),
            std::string::npos);
}

TEST(WrittenCounts, ADefaultOfDevicesThatIsNotTakenIsNoneOfTheJobs) {
  for (const std::string text :
       {"[ -z \"$CUDA_VISIBLE_DEVICES\" ] && export CUDA_VISIBLE_DEVICES=0,1\n",
        "if [ -z \"$CUDA_VISIBLE_DEVICES\" ]; then export CUDA_VISIBLE_DEVICES=0,1; fi\n",
        "if [ -n \"$FOO\" ]; then export CUDA_VISIBLE_DEVICES=0,1; fi\n"}) {
    for (const char* program :
         {"torchrun --nproc_per_node=2 t.py\n", "python t.py; python b.py\n"}) {
      const auto line = ReadLaunchLine(text + program, {.gpu_ids = {2, 3}});
      EXPECT_TRUE(line) << text << line.error().message;
    }
  }
}

TEST(WrittenCounts, DevicesOfABarePythonAloneAreReplaced) {
  const Texts files = {{"spawn.py", "mp.spawn(main, nprocs=2)\n"}};
  const auto warning = [&](const std::string& program) {
    const auto line =
        ReadLaunchLine("cd x; cd ..; CUDA_VISIBLE_DEVICES=0,1 " + program, {.files = files});
    EXPECT_TRUE(line) << program;
    EXPECT_EQ(line->start, StartKind::kPerNode) << program;
    const std::string says = Warning(line, "visible_devices_set");
    EXPECT_EQ(line->maps_devices, says.find("and replaced by") != std::string::npos) << says;
    EXPECT_NE(says, "") << program;
    return line->maps_devices;
  };
  EXPECT_TRUE(warning("python spawn.py"));
  EXPECT_TRUE(warning("python3 spawn.py"));
  for (const char* program :
       {"nohup python spawn.py", "exec python spawn.py", "env A=1 python spawn.py",
        "/usr/bin/python3 spawn.py", "python3.10 spawn.py", "uv run spawn.py"})
    EXPECT_FALSE(warning(program)) << program;
  const auto foreign = ReadLaunchLine("CUDA_VISIBLE_DEVICES=0,1 python spawn.py",
                                      {.files = files, .gpu_ids = {2, 3}});
  ASSERT_FALSE(foreign);
  EXPECT_NE(
      foreign.error().message.find("of a Python program names GPU 0, which is none of gpu_ids"),
      std::string::npos)
      << foreign.error().message;
  EXPECT_TRUE(ReadLaunchLine("CUDA_VISIBLE_DEVICES=2 python spawn.py",
                             {.files = files, .gpu_ids = {2, 3}}));
}

TEST(WrittenCounts, ACountInFrontOfAHelperStartsNoRanks) {
  for (const char* helper : {"envsubst < a > b", "pip install x", "git pull"}) {
    const auto line = Line("NPROC_PER_NODE=4 " + std::string(helper) + "\npython train.py");
    ASSERT_TRUE(line) << helper;
    EXPECT_EQ(line->start, StartKind::kDirect) << helper;
  }
}

TEST(WrittenCounts, ManyProgramsLeaveRoomForAConfiguration) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "python -m tools.prep" + std::to_string(i) + "\n";
  text += "accelerate launch --config_file acc.yaml t.py\n";
  const auto script = ReadShell(text);
  ASSERT_TRUE(script);
  EXPECT_TRUE(CountsIn(*script, {}).wanted.contains("acc.yaml"));
}

TEST(WrittenCounts, DeviceNumbersAreThoseOfGpuIdsOrPlaces) {
  const char* const text =
      "CUDA_VISIBLE_DEVICES=0 trl vllm-serve --model m &\n"
      "CUDA_VISIBLE_DEVICES=1,2 accelerate launch --num_processes 2 t.py\n";
  const auto said = [](const LaunchLine& line, const std::string& what) {
    return std::ranges::find(line.read, what) != line.read.end();
  };
  const auto places = ReadLaunchLine(text, {});
  ASSERT_TRUE(places) << places.error().message;
  EXPECT_TRUE(
      said(*places, "CUDA_VISIBLE_DEVICES=1,2 of the launcher: places among the job's GPUs"));
  EXPECT_NE(Warning(places, "visible_devices_set"), "");
  EXPECT_FALSE(places->reads_devices);
  const auto numbers = ReadLaunchLine(text, {.gpu_ids = {0, 1, 2}});
  ASSERT_TRUE(numbers) << numbers.error().message;
  EXPECT_TRUE(said(*numbers, "CUDA_VISIBLE_DEVICES=1,2 of the launcher: numbers of gpu_ids"));
  EXPECT_EQ(Warning(numbers, "visible_devices_set"), "");
  const auto foreign = ReadLaunchLine(text, {.gpu_ids = {4, 5, 6}});
  ASSERT_FALSE(foreign);
  EXPECT_NE(foreign.error().message.find("none of gpu_ids"), std::string::npos);
  const auto made = ReadLaunchLine(
      "date\nexport CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES#*,}\n"
      "torchrun --nproc_per_node=1 t.py\n",
      {});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_TRUE(made->reads_devices);
}

TEST(WrittenCounts, ADefaultOfTheTextHoldsWhereTheJobSaysNothing) {
  const char* const texts[] = {
      "torchrun --nnodes=${PET_NNODES:-1} --nproc_per_node=${PET_NPROC_PER_NODE:-1} t.py\n",
      "N=${SLURM_GPUS_ON_NODE:-1}\nM=${SLURM_NNODES:-1}\n"
      "torchrun --nnodes=$M --nproc_per_node=$N t.py\n",
      ": ${SLURM_GPUS_PER_NODE:=1}\n: ${SLURM_JOB_NUM_NODES:=1}\n"
      "torchrun --nnodes=$SLURM_JOB_NUM_NODES --nproc_per_node=$SLURM_GPUS_PER_NODE t.py\n",
      "export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}\n"
      "N=$(echo $CUDA_VISIBLE_DEVICES | tr ',' '\\n' | wc -l)\n"
      "torchrun --nnodes=$NNODES --nproc_per_node=$N t.py\n"};
  for (const char* text : texts) {
    JobSpec nothing;
    nothing.nodes.automatic = true;
    const auto open = Script(text, nothing);
    ASSERT_TRUE(open) << text << open.error().message;
    EXPECT_EQ(open->procs, ProcsWord::kNumber) << text;
    EXPECT_EQ(open->procs_number, 1) << text;
    JobSpec spec;
    spec.gpus_written = true;
    spec.gpus = {GpuRequest{.count = 4}};
    spec.nodes.min = spec.nodes.max = 2;
    spec.nodes.automatic = false;
    const auto told = Script(text, spec);
    ASSERT_TRUE(told) << text << told.error().message;
    EXPECT_TRUE(told->procs == ProcsWord::kGpu || told->procs_number == 4) << text << Reading(told);
    EXPECT_EQ(told->nodes_min, 2) << text;
  }
}

TEST(WrittenCounts, AModuleBehindSeveralFlagsInOneWordIsOne) {
  EXPECT_EQ(Reading(Line("coverage run -um torch.distributed.run --nproc_per_node 4 t.py")),
            "node procs=4");
  EXPECT_EQ(Reading(Script("if A; then\n  python3 -um torch.distributed.launch "
                           "--nproc_per_node 4 --nnodes 2 t.py\nfi\n")),
            "node procs=4 nodes=2");
  for (const auto& [run, script] :
       std::map<std::string, std::string>{{"python3 -um train --lr 1", "-m"},
                                          {"python -mtrain", "-m"},
                                          {"python -W ignore -uX dev train.py", "train.py"},
                                          {"python -uWignore train.py -um x", "train.py"}}) {
    const auto line = Line(run);
    ASSERT_TRUE(line) << run;
    EXPECT_EQ(line->script, script) << run;
    EXPECT_EQ(line->shell, "exec " + run);
  }
}

TEST(WrittenCounts, AnArrayOfUnknownElementsHasNoLength) {
  const std::string call = "\ntorchrun --nproc_per_node=${#A[@]} t.py\n";
  for (const char* array :
       {"A=($(seq 0 3))", "A=(`cat gpus`)", "A=({0..3})", "A=(data/*.bin)", "A=(0)\nA+=($MORE)",
        "A=(\"$@\")", "if X; then A=(0 1); else A=(0); fi"}) {
    const auto line = Script(array + call);
    ASSERT_TRUE(line) << array << line.error().message;
    EXPECT_EQ(line->procs, ProcsWord::kNone) << array << " " << Reading(line);
  }
  for (const char* array :
       {"A=(0 $X)\nA=(0 1)", "G=0,1\nA=(${G//,/ })", "G=0,1\nA=(`echo $G | tr ',' ' '`)",
        "A=(\"$X\" 1)", "if X; then A=(0 1); else A=(2 3); fi; A=(0 1)"}) {
    const auto line = Script(array + call);
    EXPECT_EQ(Reading(line), "node procs=2") << array;
  }
  // The words of a command stay what they are.
  EXPECT_EQ(Reading(Script("A=(torchrun --nproc_per_node 4 t.py $X)\n\"${A[@]}\"\n")),
            "node procs=4");
}

TEST(WrittenCounts, AValueOfOneBranchIsNotThatOfAll) {
  const std::string call = "\ntorchrun --nproc_per_node=$N t.py\n";
  for (const char* branch :
       {"if A; then N=$(count); else N=1; fi", "if A; then N=1; else N=$(count); fi",
        "case $X in a) N=$(count) ;; *) N=1 ;; esac", "if A; then N=4; else N=1; fi",
        "N=$(count); if [ \"$N\" -lt 1 ]; then N=1; fi",
        "if A; then N=$(count); else N=1; fi; N=${N:-1}; if [ $N -lt 1 ]; then N=1; fi"}) {
    const auto line = Script(branch + call);
    ASSERT_TRUE(line) << branch;
    EXPECT_EQ(line->procs, ProcsWord::kNone) << branch << " " << Reading(line);
  }
  for (const char* branch :
       {"if A; then N=$(count); N=4; fi", "N=$1; if [ -z \"$N\" ]; then N=4; fi",
        "if [ -n \"$1\" ]; then N=$1; else N=4; fi", "if A; then N=4; else N=4; fi",
        "if A; then N=$(count); else N=1; fi; N=4"}) {
    EXPECT_EQ(Reading(Script(branch + call)), "node procs=4") << branch;
  }
}

TEST(WrittenCounts, AllGpusOfTheNodeAreSaidToBeThoseOfTheJob) {
  const auto line = Script("N=$(nvidia-smi -L | wc -l)\ntorchrun --nproc_per_node=$N t.py\n");
  EXPECT_EQ(
      Warning(line, "processes_per_node"),
      "the launcher inside run would take every GPU of the node: here it is those that the job "
      "asks for");
}

TEST(WrittenCounts, AStarterOfOtherNodesBehindALauncherIsRefused) {
  for (const char* text :
       {"export LAUNCHER=\"torchrun --nproc_per_node 8\"\nsrun bash -c '$LAUNCHER t.py'\n",
        "CMD=\"torchrun t.py\"; mpirun -np 2 bash -c \"$CMD\"\n",
        "torchrun t.py\nsrun python eval.py\n", "deepspeed t.py && mpirun python eval.py\n",
        "cd x && srun torchrun t.py\n"}) {
    for (const auto& line : {Line(text), Script(text)}) {
      ASSERT_FALSE(line) << text << Reading(line);
      EXPECT_NE(line.error().message.find("which launch cannot hold to a plan"), std::string::npos);
      EXPECT_FALSE(line.error().hint.empty());
    }
  }
  for (const char* text :
       {"if [ -n \"$SLURM_JOB_ID\" ]; then\n  srun torchrun t.py\nelse\n  torchrun t.py\nfi\n",
        "[ -n \"$SLURM\" ] && srun torchrun t.py || torchrun t.py\n",
        "one() { srun torchrun t.py; }\ntorchrun t.py\n", "srun hostname\ntorchrun t.py\n"}) {
    const auto line = Script(text);
    EXPECT_TRUE(line) << text << (line ? "" : line.error().message);
  }
}

TEST(WrittenCounts, OfSeveralNumbersTheJobsOrTheLargestHolds) {
  const std::string text =
      "torchrun --nproc_per_node=1 prep.py\ntorchrun --nproc_per_node=4 train.py\n";
  const auto largest = Script(text);
  EXPECT_EQ(Reading(largest), "node procs=4");
  EXPECT_NE(Warning(largest, "processes_per_node").find("ask for 1 and 4 processes"),
            std::string::npos);
  JobSpec spec;
  spec.procs_per_node = 1;
  EXPECT_EQ(Reading(Script(text, spec)), "node procs=1");
  const auto same = Script("torchrun --nproc_per_node=2 a.py\ntorchrun --nproc_per_node=2 b.py\n");
  EXPECT_EQ(Warning(same, "processes_per_node"), "");
  // A server answers to the training.
  for (const char* served :
       {"trl vllm-serve --num_processes 8 --model m &\naccelerate launch --num_processes 7 t.py\n",
        "swift rollout --model m &\nNPROC_PER_NODE=7 swift rlhf --model m\n"}) {
    EXPECT_EQ(Reading(Line(served)), "node procs=7") << served;
  }
}

TEST(WrittenCounts, AScriptThatIsPipedIntoAShellIsRead) {
  const Texts texts = {{"s/train.sh", "torchrun --nproc_per_node=4 t.py $1\n"}};
  for (const char* run : {"cat s/train.sh | bash", "cat s/train.sh | bash -s -- a"}) {
    const auto line = Line(run, texts);
    ASSERT_TRUE(line) << line.error().message;
    EXPECT_EQ(line->launcher, LauncherKind::kNode) << run;
    EXPECT_EQ(line->procs_number, 4) << run;
  }
  EXPECT_EQ(Line("cat s/train.sh | grep x", texts)->launcher, LauncherKind::kProcess);
}

TEST(WrittenCounts, AScriptThatLaunchesTwiceAtOnceIsRefused) {
  const Texts texts = {{"s/train.sh", "torchrun --nproc_per_node=4 t.py $1\n"},
                       {"p.sh", "python prepare.py $1\n"}};
  const auto twice = Line("bash s/train.sh a &\nbash s/train.sh b &\nwait", texts);
  ASSERT_FALSE(twice);
  EXPECT_NE(twice.error().message.find("it starts several of s/train.sh at the same time"),
            std::string::npos)
      << twice.error().message;
  EXPECT_TRUE(Line("bash s/train.sh a\nbash s/train.sh b", texts));
  EXPECT_TRUE(Line("bash p.sh a &\nbash p.sh b &\nwait\nbash s/train.sh a", texts));
}

TEST(WrittenCounts, DevicesOfProgramsAtTheSameTimeAreCountedTogether) {
  const auto both = Line(
      "CUDA_VISIBLE_DEVICES=7 vllm serve m &\n"
      "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6 torchrun --nproc_per_node=7 train.py");
  ASSERT_TRUE(both) << both.error().message;
  EXPECT_EQ(both->procs_number, 7);
  EXPECT_EQ(both->visible_devices, 8);
  const auto served = Line(
      "CUDA_VISIBLE_DEVICES=0 trl vllm-serve --model m &\n"
      "CUDA_VISIBLE_DEVICES=1 accelerate launch --num_processes 1 train.py");
  ASSERT_TRUE(served) << served.error().message;
  EXPECT_EQ(Reading(served), "node procs=1 devices=2");
  ASSERT_EQ(served->warnings.size(), 1U);
  EXPECT_EQ(served->warnings[0].remedy,
            "write gpu_ids: [0, 1], so that these are the devices of the job");
  const auto after = Line(
      "CUDA_VISIBLE_DEVICES=7 python prepare.py\n"
      "CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=2 train.py");
  EXPECT_EQ(after->visible_devices, 2);
}

TEST(WrittenCounts, AScriptThatSetsThePlaceOfItsRanksIsTold) {
  JobSpec spec;
  spec.nodes = {2, 2, false};
  const auto said = [&](const std::string& text) {
    return Warning(Script(text, spec), "rank_variables_set");
  };
  EXPECT_EQ(said("export MASTER_ADDR=localhost MASTER_PORT=1\npython t.py\n"),
            "train.sh sets MASTER_ADDR itself: every process of the job would get that value");
  EXPECT_EQ(said("export MASTER_ADDR=${MASTER_ADDR:-localhost}\npython t.py\n"), "");
  EXPECT_NE(said("RANK=0 WORLD_SIZE=1 python t.py\n").find("sets RANK, WORLD_SIZE"),
            std::string::npos);
  spec.nodes = {1, 1, false};
  EXPECT_EQ(said("export MASTER_ADDR=localhost\npython t.py\n"), "");
}

std::string ScriptWith(const std::string& arguments, const std::string& text) {
  return Reading(Line("bash train.sh " + arguments, {{"train.sh", text}}));
}

TEST(WrittenCounts, OptionsThatALoopReads) {
  const std::string loop =
      "N=1\nwhile [[ $# -gt 0 ]]; do\n  case \"$1\" in\n    --mode) MODE=\"$2\"; shift 2 ;;\n"
      "    -n | --ngpu) N=\"$2\"; shift 2 ;;\n    --ngpu=*) N=\"${1#*=}\"; shift ;;\n"
      "    --) shift; break ;;\n    *) exit 1 ;;\n  esac\ndone\n"
      "torchrun --nproc_per_node=$N t.py\n";
  EXPECT_EQ(ScriptWith("", loop), "node procs=1");
  EXPECT_EQ(ScriptWith("--mode ddp --ngpu 4", loop), "node procs=4");
  EXPECT_EQ(ScriptWith("-n 2 -- --ngpu 8", loop), "node procs=2");
  EXPECT_EQ(ScriptWith("--ngpu=4", loop), "node procs=4");
  EXPECT_EQ(ScriptWith("--ngpu $NGPU", loop), "node");
  EXPECT_EQ(ScriptWith("-n 4",
                       "while [ \"$1\" != \"\" ]; do\n  case $1 in\n    -n | --ngpu )\n"
                       "      shift\n      N=$1\n      ;;\n  esac\n  shift\ndone\n"
                       "torchrun --nproc_per_node=$N t.py\n"),
            "node procs=4");
  EXPECT_EQ(ScriptWith("--ngpu=4 --x",
                       "for a in \"$@\"; do\n  case $a in\n    --ngpu=*) "
                       "N=${a##*=} ;;\n  esac\ndone\n"
                       "torchrun --nproc_per_node=$N t.py\n"),
            "node procs=4");
  // An index of the training nesy.sh: the list of devices and its length.
  EXPECT_EQ(ScriptWith("--gpus 0,1,2,3",
                       "GPUS=7\nwhile [[ $# -gt 0 ]]; do\n  case \"$1\" in\n"
                       "    --gpus) GPUS=\"$2\"; shift 2 ;;\n    *) exit 1 ;;\n  esac\ndone\n"
                       "N=$(echo \"$GPUS\" | tr ',' '\\n' | wc -l)\n"
                       "torchrun --nproc_per_node=\"$N\" t.py\n"),
            "node procs=4");
}

TEST(WrittenCounts, OptionsOfALoopWhoseRoundsNobodyKnowsAreUnknown) {
  const std::string launch = "torchrun --nproc_per_node=$N t.py\n";
  const std::string shifts = "--gpus) N=$2; shift 2 ;; ";
  const std::string head = "while [ $# -gt 0 ]; do case \"$1\" in ";
  for (const std::string& text : {
           "while [[ \"$1\" == --* ]]; do case \"$1\" in --gpus=*) N=\"${1#*=}\";; esac; shift; "
           "done\n"s,
           "N=1\nwhile [ $# -gt 1 ]; do case \"$1\" in --gpus) N=$2;; esac; shift; done\n"s,
           "parse() { " + head + shifts + "--) shift; return ;; *) shift ;; esac; done; }\n" +
               "parse \"$@\"\n",
           "for a in \"$@\"; do [ \"$a\" = \"--\" ] && break; case $a in --gpus=*) "
           "N=${a#*=};; esac; done\n"s,
           head + shifts + "--) shift && break ;; *) shift ;; esac; done\n",
           head + shifts + "*) if [ -f \"$1\" ]; then break; fi; shift ;; esac; done\n",
           "set -- \"--gpus\" 2 \"$@\"\n" + head + shifts + "*) shift ;; esac; done\n",
           "while true; do case \"$1\" in " + shifts + "--lr) shift 2 ;; *) break ;; esac; done\n",
       }) {
    EXPECT_EQ(ScriptWith("--lr 7 --gpus 2 --gpus=2 -- t.py --gpus 4 --gpus=4", text + launch),
              "node")
        << text;
  }
}

TEST(WrittenCounts, ALoopThatDoesNotShiftEnds) {
  EXPECT_EQ(ScriptWith("a b",
                       "while [ $# -gt 0 ]; do\n  echo $1\ndone\n"
                       "torchrun --nproc_per_node=2 t.py\n"),
            "node procs=2");
}

TEST(WrittenCounts, AnArrayOfTheBranchThatIsTaken) {
  // fms_ehrs, its start
  EXPECT_EQ(Reading(Script("NNODES=1\nargs=( t.py )\nif [[ $NNODES -gt 1 ]]; then\n"
                           "  args=( --nnodes=$NNODES --nproc_per_node=4 \"${args[@]}\" )\nelse\n"
                           "  args=( --standalone --nproc_per_node=8 \"${args[@]}\" )\nfi\n"
                           "torchrun \"${args[@]}\"\n")),
            "node procs=8");
}

TEST(WrittenCounts, DevicesOfAPythonProgramInAScript) {
  for (const char* text :
       {"python main.py fit --trainer.devices=3\necho done\n",
        "apptainer exec --nv x.sif pixi run -e a python main.py --trainer.devices=3\n",
        "A=\"trainer.devices=[0,1,2]\"\nfor i in 0 1; do\n  python run.py $A seed=$i\ndone\n",
        "N=3\npython prepare.py\nuv run python main.py fit --trainer.devices=$N\n",
        "train() { python main.py fit --trainer.devices=$1; }\ntrain 3\n"}) {
    const auto line = Script(text);
    ASSERT_TRUE(line) << FormatError(line.error());
    EXPECT_EQ(line->procs, ProcsWord::kNumber) << text;
    EXPECT_EQ(line->procs_number, 3) << text;
  }
  EXPECT_EQ(Reading(Script("echo python main.py --trainer.devices=3\npython main.py\n")), "plain");
}

}  // namespace
}  // namespace launch
