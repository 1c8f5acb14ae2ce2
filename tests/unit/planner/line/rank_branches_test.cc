#include "planner/line/rank_branches.h"

#include <gtest/gtest.h>

#include "planner/line/launch_line.h"
#include "tests/unit/planner/plan_fixtures.h"

namespace launch {
namespace {

std::string ConditionIn(const std::string& text) {
  const auto script = ReadShell(text);
  EXPECT_TRUE(script) << text;
  return script ? ConditionOfOneNode(*script) : std::string();
}

JobSpec JobOf(const std::string& run, int nodes) {
  JobSpec job;
  job.name = "x";
  job.run = run;
  job.nodes = {nodes, nodes, false};
  return job;
}

TEST(RankBranches, ALauncherOfOneNodeAloneIsSeen) {
  EXPECT_EQ(ConditionIn("if [ \"$NODE_RANK\" = \"0\" ]; then\n  deepspeed --hostfile h t.py\nfi"),
            "[ \"$NODE_RANK\" = \"0\" ]");
  for (const char* text :
       {"if [[ $SLURM_NODEID -eq 0 ]]; then torchrun t.py; else sleep infinity; fi",
        "if (( NODE_RANK == 0 )); then accelerate launch t.py; fi",
        "[ ${PET_NODE_RANK:-0} == 0 ] && torchrun --nproc_per_node 4 t.py",
        "if [ $RANK != 0 ]; then\n  sleep 1d\nelse\n  if [ -d d ]; then torchrun t.py; else "
        "torchrun "
        "s.py; fi\nfi",
        "run() { torchrun t.py; }\nif [ $NODE_RANK = 0 ]; then run; fi",
        "L=\"torchrun --nproc_per_node 2\"\nif [ $NODE_RANK = 0 ]; then $L t.py; fi"}) {
    EXPECT_NE(ConditionIn(text), "") << text;
  }
}

TEST(RankBranches, OtherTextsStartTheirLauncherOnEveryNode) {
  for (const char* text :
       {"torchrun t.py", "if [ $NODE_RANK = 0 ]; then python prep.py; fi\ntorchrun t.py",
        "if [ $NODE_RANK = 0 ]; then torchrun --node_rank 0 t.py; else torchrun --node_rank 1 "
        "t.py; "
        "fi",
        "if [ $NODE_RANK = 0 ]; then torchrun a.py; elif [ $NODE_RANK = 1 ]; then torchrun b.py; "
        "else torchrun c.py; fi",
        "if [ $STAGE -le 1 ]; then torchrun t.py; fi",
        "if [ -n \"$NODE_RANK\" ]; then torchrun t.py; fi",
        "if [ $LOCAL_RANK = 0 ]; then torchrun t.py; fi",
        "torchrun t.py\nif [ $NODE_RANK = 0 ]; then torchrun eval.py; fi",
        "if [ $NODE_RANK -gt 0 ]; then sleep 10; fi\ntorchrun t.py",
        "[ $NODE_RANK = 0 ] && python prep.py\ntorchrun t.py",
        "[ $NODE_RANK = 0 ] && echo first; torchrun t.py"}) {
    EXPECT_EQ(ConditionIn(text), "") << text;
  }
}

TEST(RankBranches, OtherVariablesAndConditionsAreLeftToTheText) {
  for (const char* text :
       {"if [ \"$TRAIN_RERANKER\" = 1 ]; then torchrun t.py; fi",
        "if [ \"$LORA_RANK\" = 8 ]; then torchrun t.py; fi",
        "if [ \"$OMPI_COMM_WORLD_LOCAL_RANK\" = 0 ]; then torchrun t.py; fi",
        // Each of them has a launcher.
        "if [ $NODE_RANK = 0 ]; then torchrun --node_rank 0 t.py; elif [ $NODE_RANK = 1 ]; then "
        "torchrun --node_rank 1 t.py; fi",
        "if [ $NODE_RANK = 0 ]; then torchrun a.py; fi\nif [ $NODE_RANK = 1 ]; then torchrun b.py; "
        "fi",
        "[ $NODE_RANK = 0 ] && torchrun a.py\n[ $NODE_RANK = 1 ] && torchrun b.py",
        "[ $NODE_RANK = 0 ] && torchrun a.py || torchrun b.py",
        "if [ \"${NODE_RANK:-0}\" -ge 0 ]; then torchrun t.py; fi",
        "if [ $NODE_RANK -lt $NNODES ]; then torchrun t.py; fi",
        "if [ $NODE_RANK != 5 ]; then torchrun t.py; fi",
        "if [ $NODE_RANK = $FIRST ]; then torchrun t.py; fi",
        "if [ $NODE_RANK = 0 ] || [ $ALL ]; then torchrun t.py; fi",
        "if [ $ALL ] || [ $NODE_RANK = 0 ]; then torchrun t.py; fi",
        "if [[ $NODE_RANK = 0 || $ALL ]]; then torchrun t.py; fi",
        "if ! [ $NODE_RANK = 0 ]; then torchrun t.py; fi",
        "if (( NODE_RANK >= 0 )); then torchrun t.py; fi",
        "[ $ALL ] || [ $NODE_RANK = 0 ] && torchrun t.py",
        // Not what every node comes to, nor what the nodes differ in.
        "if [ $EVAL ]; then if [ $RANK = 0 ]; then torchrun e.py; fi; else python t.py; fi",
        "NODE_RANK=0\nif [ $NODE_RANK = 0 ]; then torchrun t.py; fi"}) {
    EXPECT_EQ(ConditionIn(text), "") << text;
  }
}

TEST(RankBranches, ALauncherOfOneNodeIsRefusedOnSeveral) {
  const std::string text = "if [ $NODE_RANK = 0 ]; then\n  torchrun --nproc_per_node=2 t.py\nfi";
  for (const char* run : {text.c_str(), "bash t.sh"}) {
    const JobSpec two = JobOf(run, 2);
    const auto line = ReadLaunchLine(run, LineOptions(two, {{"t.sh", text}}));
    ASSERT_FALSE(line) << run;
    EXPECT_NE(line.error().message.find("behind `[ $NODE_RANK = 0 ]` only"), std::string::npos)
        << line.error().message;
    EXPECT_TRUE(ReadLaunchLine(run, LineOptions(JobOf(run, 1), {{"t.sh", text}})));
  }
}

TEST(RankBranches, CallsThatNoPlanCanHoldAreRefusedWithTheReason) {
  struct Row {
    const char* run;
    const char* says;
  };
  for (const auto& [run, says] :
       {Row{"deepspeed --autotuning run --num_gpus 2 t.py", "deepspeed --autotuning chooses"},
        Row{"deepspeed -H h --master_port 1 --no_ssh --autotuning=run t.py",
            "deepspeed --autotuning chooses"},
        Row{"mkdir -p o\ndeepspeed --elastic_training t.py",
            "deepspeed --elastic_training chooses"},
        Row{"colossalai run --nproc_per_node 2 --host 10.1.1.1,10.1.1.2 t.py", "by ssh"},
        Row{"set -x\ncolossalai run --host=a,b --nproc_per_node 2 t.py", "by ssh"},
        Row{"python t.py -m hydra/launcher=submitit_slurm", "submits to Slurm"},
        Row{"python tools/train_net.py --num-gpus 4 --num-machines 2 --machine-rank 0 --dist-url "
            "tcp://10.0.0.1:1234 --config-file c.yaml",
            "with one --machine-rank"}}) {
    const auto line = ReadLaunchLine(run, LineOptions(JobOf(run, 2), {}));
    ASSERT_FALSE(line) << run;
    EXPECT_NE(line.error().message.find(says), std::string::npos) << line.error().message;
  }
  for (const char* run :
       {"deepspeed --num_gpus 2 t.py --autotuning run",
        "deepspeed --no_python ./train.sh --elastic_training", "deepspeed - t.py",
        "deepspeed --- t.py", "deepspeed --hostfile h ./train.sh --autotuning x",
        "set -x\ndeepspeed -H h --module m --autotuning run",
        "if [ $TUNE ]; then deepspeed --autotuning run t.py; else deepspeed t.py; fi",
        "colossalai run --nproc_per_node 2 --host localhost t.py",
        "colossalai run --nproc_per_node 2 t.py --host a,b",
        "python t.py -m hydra/launcher=submitit_local", "python run_with_submitit.py --nodes 2",
        "python tools/train_net.py --num-gpus 4 --num-machines 1 --config-file c.yaml"}) {
    EXPECT_TRUE(ReadLaunchLine(run, LineOptions(JobOf(run, 2), {}))) << run;
  }
  const auto machines = ReadLaunchLine(
      "python tools/train_net.py --num-gpus 4 --num-machines 2 --machine-rank $NODE_RANK "
      "--dist-url "
      "tcp://$MASTER_ADDR:$MASTER_PORT --config-file c.yaml",
      {});
  ASSERT_TRUE(machines);
  EXPECT_EQ(machines->nodes_min, 2);
  EXPECT_EQ(machines->procs_number, 4);
}

TEST(RankBranches, OneProcessThatAsksRayForItsActorsIsStartedOnce) {
  const std::string run =
      "python3 -m openrlhf.cli.train_ppo_ray --actor_num_nodes 1 --actor_num_gpus_per_node 8";
  const auto line = ReadLaunchLine(run, LineOptions(JobOf(run, 1), {}));
  ASSERT_TRUE(line);
  EXPECT_EQ(line->start, StartKind::kPerNode);
}

TEST(RankBranches, TheHostfileOfALaterFlagIsRead) {
  for (const char* run : {"deepspeed --master_port 1 -H h t.py", "deepspeed -H h t.py",
                          "set -x\ndeepspeed --no_ssh_check --master_port 1 -H h t.py"}) {
    const auto line =
        ReadLaunchLine(run, LineOptions(JobOf(run, 1), {{"h", "a slots=2\nb slots=2\n"}}));
    ASSERT_TRUE(line) << run;
    EXPECT_EQ(line->nodes_min, 2) << run;
  }
}

}  // namespace
}  // namespace launch
