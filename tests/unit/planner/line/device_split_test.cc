#include "planner/line/device_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "planner/line/launch_line.h"
#include "tests/unit/planner/plan_fixtures.h"

namespace launch {
namespace {

constexpr const char* kLoop =
    "for i in 0 1 2 3; do\n  CUDA_VISIBLE_DEVICES=$i python train.py --rank $i > log_$i 2>&1 &\n"
    "done\nwait";

std::optional<DeviceSplit> SplitOf(const std::string& text) {
  const auto script = ReadShell(text);
  EXPECT_TRUE(script) << text;
  return script ? DeviceSplitOf(*script) : std::nullopt;
}

JobSpec JobOf(const std::string& run, int gpus) {
  JobSpec job;
  job.name = "x";
  job.run = run;
  if (gpus > 0) {
    job.gpus = {{"", gpus}};
    job.gpus_written = true;
  }
  return job;
}

Result<LaunchLine> Read(const JobSpec& job, const std::string& script = kLoop) {
  return ReadLaunchLine(job.run, LineOptions(job, {{"t.sh", script}}));
}

TEST(DeviceSplit, ProgramsAtTheSameTimeOnDevicesOfTheirOwnAreSeen) {
  for (
      const char* text :
      {kLoop,
       // The number follows that of the loop, or is counted.
       "n=0\nfor s in a b c; do\n  gpu=$((n % 4))\n  CUDA_VISIBLE_DEVICES=$gpu nohup python $s.py &"
       "\n  n=$((n + 1))\ndone\nwait",
       "for ((i = 0; i < 4; i++)); do CUDA_VISIBLE_DEVICES=\"${i}\" python t.py & done; wait",
       "while read -r s; do\n  CUDA_VISIBLE_DEVICES=$((n % 8)) python t.py $s &\n  ((n++))\n"
       "  if (( n % 8 == 0 )); then wait; fi\ndone < seeds.txt\nwait",
       "GPUS=(0 1)\nfor i in ${!GPUS[@]}; do CUDA_VISIBLE_DEVICES=${GPUS[$i]} python t.py & done",
       // One after the other on each of them.
       "for g in 0 1; do\n  for s in 1 2 3; do\n    CUDA_VISIBLE_DEVICES=$g python t.py $s\n  done "
       "&\ndone\nwait",
       "for g in 0 1; do ( export CUDA_VISIBLE_DEVICES=$g; python a.py; python b.py ) & done; wait",
       "for g in 0 1; do\n  export CUDA_VISIBLE_DEVICES=$g\n  bash eval.sh $g &\ndone\nwait",
       "for g in 0 1; do cd w && CUDA_VISIBLE_DEVICES=$g python t.py 2>&1 | tee l$g & done; wait",
       "CUDA_VISIBLE_DEVICES=0 python a.py &\nCUDA_VISIBLE_DEVICES=1 python b.py &\nwait",
       "CUDA_VISIBLE_DEVICES=0 python serve.py &\nCUDA_VISIBLE_DEVICES=1 python train.py",
       "job() {\n  local gpu=$1; shift\n  CUDA_VISIBLE_DEVICES=$gpu python t.py \"$@\"\n}\n"
       "(\n  job 0 --lr 1\n) &\n(\n  job 1 --lr 2\n) &\nwait",
       "function job {\n  CUDA_VISIBLE_DEVICES=$1 python t.py &\n}\nfor i in 0 1; do job $i; done\n"
       "wait",
       "for r in 0 1; do RANK=$r WORLD_SIZE=2 LOCAL_RANK=$r python t.py & done; wait",
       "seq 0 3 | xargs -P4 -I{} bash -c 'CUDA_VISIBLE_DEVICES={} python g.py --shard {}'",
       "parallel -j4 CUDA_VISIBLE_DEVICES={%} python g.py ::: a b c d"}) {
    EXPECT_TRUE(SplitOf(text)) << text;
  }
}

TEST(DeviceSplit, TextsOfTheirOwnProcessOrDeviceAreNone) {
  for (const char* text :
       {"python train.py",
        "CUDA_VISIBLE_DEVICES=0,1 python train.py &\nwait",
        "for s in 1 2 3; do CUDA_VISIBLE_DEVICES=$s python t.py; done",
        "for s in 1 2 3; do\n  CUDA_VISIBLE_DEVICES=$s python t.py &\n  wait\ndone",
        "for s in 1 2 3; do CUDA_VISIBLE_DEVICES=0 python t.py --seed $s & done; wait",
        "gpu=$1\nfor s in 1 2 3; do CUDA_VISIBLE_DEVICES=$gpu python t.py --seed $s & done; wait",
        "export CUDA_VISIBLE_DEVICES=0\nfor s in 1 2 3; do python t.py --seed $s & done; wait",
        "for s in a b; do CUDA_VISIBLE_DEVICES=$LOCAL_RANK python $s.py & done; wait",
        "for i in 0; do CUDA_VISIBLE_DEVICES=$i python t.py & done; wait",
        "CUDA_VISIBLE_DEVICES= tensorboard --logdir o &\nCUDA_VISIBLE_DEVICES=0 python t.py",
        "CUDA_VISIBLE_DEVICES=-1 python watch.py &\nCUDA_VISIBLE_DEVICES=0 python t.py",
        "CUDA_VISIBLE_DEVICES=0 python a.py &\nwait\nCUDA_VISIBLE_DEVICES=1 python b.py &\nwait",
        "if [ $A ]; then\n  CUDA_VISIBLE_DEVICES=0 python a.py &\nelse\n  CUDA_VISIBLE_DEVICES=1 "
        "python a.py &\nfi\nwait",
        "job() {\n  CUDA_VISIBLE_DEVICES=$1 python t.py\n}\njob 0\njob 1",
        "job() {\n  CUDA_VISIBLE_DEVICES=0 python t.py $1 &\n}\njob a\njob b\nwait",
        "for s in 1 2; do python t.py --seed $s & done; wait",
        "seq 0 3 | xargs -I{} bash -c 'CUDA_VISIBLE_DEVICES={} python g.py'",
        "parallel -j4 python g.py ::: a b c d",
        "WORLD_SIZE=1 RANK=0 python t.py &\nwait",
        "for i in 1 2; do echo CUDA_VISIBLE_DEVICES=$i & done; wait"}) {
    EXPECT_FALSE(SplitOf(text)) << text;
  }
}

TEST(DeviceSplit, ProgramsThatShareADeviceOrFollowTheRankAreNone) {
  for (const char* text :
       {"CUDA_VISIBLE_DEVICES=0 python mon.py &\nCUDA_VISIBLE_DEVICES=0,1 python train.py",
        "CUDA_VISIBLE_DEVICES=$G python a.py &\nCUDA_VISIBLE_DEVICES=${G} python b.py",
        "job() {\n  CUDA_VISIBLE_DEVICES=$1 python t.py --lr $2 &\n}\njob 0 1e-3\njob 0 1e-4\nwait",
        "for j in 0 1; do gpu=$((LOCAL_RANK * 2 + j)); CUDA_VISIBLE_DEVICES=$gpu python t.py & "
        "done",
        "for j in 0 1; do\n  base=$((LOCAL_RANK * 2))\n  gpu=$((base + j))\n"
        "  CUDA_VISIBLE_DEVICES=$gpu python t.py &\ndone\nwait",
        "job() { CUDA_VISIBLE_DEVICES=$1 python t.py & }\nfor j in 0 1; do job $((LOCAL_RANK * 2 + "
        "j)); done"}) {
    EXPECT_FALSE(SplitOf(text)) << text;
  }
}

TEST(DeviceSplit, WhatTheTextMayNotComeToIsNotCertain) {
  const auto maybe = [](const std::string& text) {
    const auto split = SplitOf(text);
    return split && split->maybe;
  };
  const std::string loop = kLoop;
  for (const std::string& text :
       {"if [ $EVAL ]; then\n" + loop + "\nfi\npython t.py",
        "case \"$1\" in\neval)\n" + loop + "\n;;\ntrain) python t.py;;\nesac",
        "run() {\n" + loop + "\n}\nif [ $EVAL ]; then run; fi",
        "run() {\n" + loop + "\n}\n[ $EVAL ] && run",
        "if [ $1 = train ]; then exec python t.py; fi\n" + loop,
        std::string("CUDA_VISIBLE_DEVICES=0 python a.py &\nif [ $B ]; then\n"
                    "  CUDA_VISIBLE_DEVICES=1 python b.py &\nfi\nwait"),
        std::string("for i in 0 1; do [ -f $i ] || CUDA_VISIBLE_DEVICES=$i python t.py & done"),
        std::string("CUDA_VISIBLE_DEVICES=0 python a.py &\nCUDA_VISIBLE_DEVICES=$G python b.py")}) {
    EXPECT_TRUE(maybe(text)) << text;
  }
  EXPECT_FALSE(SplitOf("run() {\n" + loop + "\n}\npython t.py"));
  for (const std::string& text :
       {loop, "run() {\n" + loop + "\n}\nrun", "if [ $A ]; then echo a; fi\n" + loop,
        "if [ $# -lt 1 ]; then echo usage; exit 1; fi\n" + loop,
        "if [ $EVAL ]; then\n" + loop + "\nfi\n" + loop}) {
    EXPECT_TRUE(SplitOf(text)) << text;
    EXPECT_FALSE(maybe(text)) << text;
  }
}

TEST(DeviceSplit, WhatMayNotBeReachedIsSaidAndNotRefused) {
  const std::string modes =
      "case \"$1\" in\neval)\n" + std::string(kLoop) + "\n;;\ntrain) python train.py;;\nesac";
  for (const auto& [run, script] :
       {std::pair<std::string, std::string>{"bash t.sh train", modes},
        {"if [ -n \"$EVAL\" ]; then bash t.sh; else python train.py; fi", kLoop}}) {
    const auto line = Read(JobOf(run, 4), script);
    ASSERT_TRUE(line) << run;
    EXPECT_TRUE(std::any_of(line->warnings.begin(), line->warnings.end(), [](const Finding& one) {
      return one.says.find("may start a program for each GPU") != std::string::npos;
    })) << run;
  }
}

TEST(DeviceSplit, DevicesByFlagsOfTheProgramsAreDividedToo) {
  for (const char* text : {"for g in 0 1 2 3; do python t.py --device cuda:$g & done; wait",
                           "for g in $(seq 0 3); do\n  python eval.py --gpu_id=$g --shard $g > "
                           "l.$g 2>&1 &\ndone\nwait",
                           "python a.py --gpu 2 &\npython b.py --gpu 3",
                           "python a.py device=cuda:0 & python b.py device=cuda:3 & wait",
                           "export CUDA_VISIBLE_DEVICES=0,1,2,3\nfor g in 0 1 2 3; do python t.py "
                           "--cuda $g & done; wait"}) {
    const auto split = SplitOf(text);
    ASSERT_TRUE(split) << text;
    EXPECT_FALSE(split->maybe) << text;
    EXPECT_TRUE(split->by_flags) << text;
    EXPECT_EQ(GpusOf(*split), 4) << text;
  }
  for (const char* text :
       {"for g in 0 1; do python t.py --device cuda:$g; done",
        "for s in 1 2; do python t.py --device cuda:0 --seed $s & done; wait",
        "for s in 1 2; do python t.py --device $DEVICE --seed $s & done; wait",
        "for s in 1 2; do python t.py --device cpu --seed $s & done; wait",
        "python a.py --gpu 0 &\nwait\npython b.py --gpu 1",
        "export CUDA_VISIBLE_DEVICES=1; python a.py --gpu 0 &\npython b.py --gpu 0 & wait",
        "for g in 0 1; do echo --gpu $g & done; wait"}) {
    EXPECT_FALSE(SplitOf(text)) << text;
  }
  // Places within a single device: what is exported tells them apart.
  const auto exported = SplitOf(
      "for i in 0 1; do export CUDA_VISIBLE_DEVICES=$i; python t.py --device cuda:0 & done; wait");
  ASSERT_TRUE(exported);
  EXPECT_FALSE(exported->by_flags);
}

TEST(DeviceSplit, DevicesByFlagsAreAskedForOnce) {
  const std::string run = "for g in 2 3; do python t.py --device cuda:$g & done; wait";
  const auto refused = Read(JobOf(run, 4));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("(--device cuda:$g)"), std::string::npos);
  EXPECT_NE(refused.error().hint.find("gpus: 4 and procs_per_node: 1"), std::string::npos)
      << refused.error().hint;
  const auto open = Read(JobOf(run, 0));
  ASSERT_TRUE(open);
  EXPECT_EQ(open->visible_devices, 4) << "cuda:3 is the fourth of them";
  EXPECT_EQ(open->procs_number, 1);
  const auto fewer = Read(JobOf(run, 1));
  ASSERT_TRUE(fewer && fewer->named_devices);
  EXPECT_EQ(fewer->named_devices->count, 4) << "said where the job has fewer";
}

TEST(DeviceSplit, AHostileTextIsReadSoon) {
  std::string text = "f() {\n";
  for (int i = 0; i < 64; ++i) text += "CUDA_VISIBLE_DEVICES=$1 a" + std::to_string(i) + " &\n";
  text += "}\ng() {\nf " + std::string(100'000, 'x') + "\n}\n";
  for (int i = 0; i < 2'000; ++i) text += "g\n";
  const auto script = ReadShell(text);
  ASSERT_TRUE(script);
  const std::clock_t before = std::clock();
  (void)DeviceSplitOf(*script);
  EXPECT_LT(std::clock() - before, 20 * CLOCKS_PER_SEC);
}

TEST(DeviceSplit, NumbersAreKnownWhereTheyAreWrittenOut) {
  EXPECT_EQ(SplitOf(kLoop)->devices, (std::set<int>{0, 1, 2, 3}));
  EXPECT_EQ(SplitOf("for g in 0,1 2,3; do CUDA_VISIBLE_DEVICES=$g python t.py & done")->devices,
            (std::set<int>{0, 1, 2, 3}));
  for (const char* list : {"{4..6}", "$(seq 4 6)"}) {
    const std::string text =
        "for g in " + std::string(list) + "; do CUDA_VISIBLE_DEVICES=${g} python t.py & done";
    EXPECT_EQ(SplitOf(text)->devices, (std::set<int>{4, 5, 6})) << text;
  }
  EXPECT_EQ(SplitOf("CUDA_VISIBLE_DEVICES=0 python a.py &\nCUDA_VISIBLE_DEVICES=3 python b.py &")
                ->devices,
            (std::set<int>{0, 3}));
  EXPECT_TRUE(SplitOf("for g in $(seq 0 $((N - 1))); do CUDA_VISIBLE_DEVICES=$g python t.py & done")
                  ->devices.empty());
}

// ShangtongZhang/DeepRL run_job.sh
TEST(DeviceSplit, ExportedDevicesAreThoseOfAnyProgramLeftBehind) {
  EXPECT_TRUE(
      SplitOf("for i in 0 1; do\n export CUDA_VISIBLE_DEVICES=$i\n sleep 4s\n"
              " nohup py dist_rl.py --ind $i > l$i &\ndone\nwait"));
  EXPECT_FALSE(
      SplitOf("for i in 0 1; do\n export CUDA_VISIBLE_DEVICES=$i\n mytrain --ind $i\ndone"));
  EXPECT_FALSE(SplitOf("for i in 0 1; do\n export CUDA_VISIBLE_DEVICES=$i\n sleep 9 &\ndone"));
  // It may be another program than a training.
  for (const char* run :
       {"export CUDA_VISIBLE_DEVICES=0; nvidia-smi dmon > g.log & python a.py; "
        "export CUDA_VISIBLE_DEVICES=1; python b.py",
        "export CUDA_VISIBLE_DEVICES=0; python a.py; rsync a b & export CUDA_VISIBLE_DEVICES=1; "
        "python b.py",
        "export CUDA_VISIBLE_DEVICES=0; tensorboard --logdir r & "
        "export CUDA_VISIBLE_DEVICES=1,2,3; python train.py",
        "for i in 0 1; do export CUDA_VISIBLE_DEVICES=$i; python a.py; gzip log$i & done"}) {
    const auto split = SplitOf(run);
    EXPECT_TRUE(!split || split->maybe) << run;
    EXPECT_TRUE(Read(JobOf(run, 4))) << run;
  }
}

TEST(DeviceSplit, WhatEveryProcessOfTheJobWouldStartIsRefused) {
  for (const char* run : {kLoop, "bash t.sh"}) {
    const auto line = Read(JobOf(run, 4));
    ASSERT_FALSE(line) << run;
    EXPECT_EQ(line.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(line.error().message.find("starts a program for each GPU at the same time"),
              std::string::npos)
        << line.error().message;
    EXPECT_NE(line.error().hint.find("gpu_ids: [0, 1, 2, 3] and procs_per_node: 1"),
              std::string::npos)
        << line.error().hint;
    JobSpec once = JobOf(run, 4);
    once.procs_per_node = 1;
    EXPECT_TRUE(Read(once)) << "started once, as its author does";
    JobSpec each = JobOf(run, 4);
    each.launcher = LauncherKind::kProcess;
    EXPECT_TRUE(Read(each));
    JobSpec bound = JobOf(run, 4);
    bound.gpu_binding = GpuBinding::kPerRank;
    EXPECT_TRUE(Read(bound));
    EXPECT_TRUE(Read(JobOf(run, 1)));
  }
}

TEST(DeviceSplit, AJobWithoutGpusGetsTheDevicesOfItsText) {
  for (const char* run : {kLoop, "bash t.sh"}) {
    const auto line = Read(JobOf(run, 0));
    ASSERT_TRUE(line) << run;
    EXPECT_EQ(line->visible_devices, 4);
    EXPECT_EQ(line->procs_number, 1) << "one process that starts the others";
    EXPECT_TRUE(line->drives_all_gpus) << "and is not asked for more";
    EXPECT_TRUE(std::any_of(line->warnings.begin(), line->warnings.end(),
                            [](const Finding& one) { return one.code == "visible_devices_set"; }));
  }
}

TEST(DeviceSplit, DevicesThatAScriptSetsForItsProgramAreSaid) {
  const auto devices = [](const std::string& script) {
    const auto line = Read(JobOf("bash t.sh", 0), script);
    EXPECT_TRUE(line) << script;
    const bool said =
        line && std::any_of(line->warnings.begin(), line->warnings.end(),
                            [](const Finding& one) { return one.code == "visible_devices_set"; });
    return line && said ? line->visible_devices.value_or(0) : -1;
  };
  EXPECT_EQ(devices("export CUDA_VISIBLE_DEVICES=0,1\npython train.py"), 2);
  EXPECT_EQ(devices("CUDA_VISIBLE_DEVICES=0,1,2 python train.py"), 3);
  EXPECT_EQ(devices("CUDA_VISIBLE_DEVICES=$(pick) python train.py"), 0);
  EXPECT_EQ(devices("CUDA_VISIBLE_DEVICES= python prepare.py\npython train.py"), -1);
  EXPECT_EQ(devices("CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES%%,*} python train.py"), -1);
  EXPECT_EQ(devices("echo CUDA_VISIBLE_DEVICES=0\npython train.py"), -1);
  EXPECT_EQ(devices("on() { export CUDA_VISIBLE_DEVICES=$1; shift; \"$@\"; }\n"
                    "on 0,1 python train.py --name 'a b'"),
            2);
}

TEST(DeviceSplit, DevicesOfAScriptBecomeThoseOfTheJob) {
  const auto maps = [](const std::string& script, int gpus, bool bound = false) {
    JobSpec job = JobOf("bash t.sh", gpus);
    if (bound) job.gpu_binding = GpuBinding::kPerRank;
    const auto line = Read(job, script);
    EXPECT_TRUE(line) << script;
    return line && line->start == StartKind::kDirect && line->maps_devices;
  };
  EXPECT_TRUE(maps("export CUDA_VISIBLE_DEVICES=0\npython train.py", 2));
  EXPECT_TRUE(maps("CUDA_VISIBLE_DEVICES=0,1 python3 train.py", 0));
  EXPECT_TRUE(maps(kLoop, 0)) << "once, with devices of its own for each program";
  // Each rank its own, an interpreter that bash does not find by its name, and none at all.
  EXPECT_FALSE(maps("CUDA_VISIBLE_DEVICES=$LOCAL_RANK python train.py", 2));
  EXPECT_FALSE(
      maps("if [ $LOCAL_RANK = 0 ]; then\n  CUDA_VISIBLE_DEVICES=0 python train.py\nelse\n"
           "  CUDA_VISIBLE_DEVICES=1 python train.py\nfi",
           2));
  EXPECT_FALSE(maps("export CUDA_VISIBLE_DEVICES=NoDevFiles\npython train.py", 1));
  EXPECT_FALSE(maps("export CUDA_VISIBLE_DEVICES=0\nnohup python train.py", 2));
  EXPECT_FALSE(maps("export CUDA_VISIBLE_DEVICES=0\npython train.py", 2, true));
  EXPECT_FALSE(maps("python train.py", 2));
}

}  // namespace
}  // namespace launch
