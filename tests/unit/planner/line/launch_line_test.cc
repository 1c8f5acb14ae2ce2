#include "planner/line/launch_line.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace launch {
namespace {

struct Row {
  const char* run;
  const char* shell;       // what one rank executes; or, for errors, part of the message
  const char* facts = "";  // "procs=2 nodes=2 of=torchrun cmd=python warn=code,code"
};

std::string Facts(const LaunchLine& line) {
  std::string text;
  const auto add = [&text](const std::string& fact) { text += (text.empty() ? "" : " ") + fact; };
  switch (line.procs) {
    case ProcsWord::kNone:
      break;
    case ProcsWord::kNumber:
      add("procs=" + std::to_string(line.procs_number));
      break;
    case ProcsWord::kGpu:
      add("procs=gpu");
      break;
    case ProcsWord::kCpu:
      add("procs=cpu");
      break;
    case ProcsWord::kAuto:
      add("procs=auto");
      break;
    case ProcsWord::kUnknown:
      add("procs=unknown");
      break;
  }
  if (line.nodes_min) {
    add("nodes=" + std::to_string(*line.nodes_min) +
        (*line.nodes_max == *line.nodes_min ? "" : ".." + std::to_string(*line.nodes_max)));
  }
  if (!line.interpreter_of.empty()) add("of=" + line.interpreter_of);
  if (!line.command_word.empty()) add("cmd=" + line.command_word);
  if (line.visible_devices) add("devices=" + std::to_string(*line.visible_devices));
  for (const Finding& warning : line.warnings) add("warn=" + warning.code);
  return text;
}

class UnderstoodLine : public ::testing::TestWithParam<Row> {};

TEST_P(UnderstoodLine, BecomesTheCommandOfOneRank) {
  const auto line = ReadLaunchLine(GetParam().run, {});
  ASSERT_TRUE(line) << FormatError(line.error());
  EXPECT_EQ(line->shell, GetParam().shell);
  EXPECT_EQ(Facts(*line), GetParam().facts);
}

INSTANTIATE_TEST_SUITE_P(
    Torchrun, UnderstoodLine,
    ::testing::Values(
        Row{"torchrun --nproc_per_node=4 train.py", "exec \"$0\" -u train.py",
            "procs=4 of=torchrun"},
        Row{"torchrun --nproc-per-node 4 train.py --lr 1e-4", "exec \"$0\" -u train.py --lr 1e-4",
            "procs=4 of=torchrun"},
        Row{"torchrun --nproc-per-node=gpu train.py", "exec \"$0\" -u train.py",
            "procs=gpu of=torchrun"},
        Row{"torchrun --nproc_per_node auto train.py", "exec \"$0\" -u train.py",
            "procs=auto of=torchrun"},
        Row{"torchrun --nproc_per_node=cpu train.py", "exec \"$0\" -u train.py",
            "procs=cpu of=torchrun"},
        Row{"torchrun train.py", "exec \"$0\" -u train.py", "of=torchrun warn=processes_per_node"},
        Row{"torchrun --nproc_per_node=$NGPU train.py", "exec \"$0\" -u train.py",
            "procs=unknown of=torchrun warn=processes_per_node"},
        Row{"NGPU=2 torchrun --nproc_per_node=$NGPU train.py", "NGPU=2 exec \"$0\" -u train.py",
            "procs=2 of=torchrun"},
        Row{"export NGPU=2\ntorchrun --nproc_per_node=${NGPU} train.py",
            "export NGPU=2; exec \"$0\" -u train.py", "procs=2 of=torchrun"},
        Row{"torchrun --nnodes=2 --nproc_per_node=2 --node_rank=0 --master_addr=192.168.1.1 "
            "--master_port=29500 train.py",
            "exec \"$0\" -u train.py", "procs=2 nodes=2 of=torchrun warn=launcher_flags_replaced"},
        Row{"torchrun --nnodes 1:4 --nproc_per_node 8 --rdzv_id=7 --rdzv_backend c10d "
            "--rdzv_endpoint=$HEAD:29400 train.py",
            "exec \"$0\" -u train.py",
            "procs=8 nodes=1..4 of=torchrun warn=launcher_flags_replaced"},
        Row{"torchrun --nnodes=$WORLD_SIZE --node_rank=$RANK --nproc_per_node 8 train.py",
            "exec \"$0\" -u train.py",
            "procs=8 of=torchrun warn=launcher_flags_replaced warn=launcher_flags_replaced"},
        Row{"torchrun --standalone --nproc_per_node=2 train.py", "exec \"$0\" -u train.py",
            "procs=2 of=torchrun warn=launcher_flags_replaced"},
        Row{"torchrun --nnode 2 --nproc_per 2 train.py", "exec \"$0\" -u train.py",
            "procs=2 nodes=2 of=torchrun"},
        Row{"torchrun --max_restarts=3 --nproc_per_node=2 train.py", "exec \"$0\" -u train.py",
            "procs=2 of=torchrun warn=launcher_flags_dropped"},
        Row{"torchrun --max_restarts=0 --nproc_per_node=2 train.py", "exec \"$0\" -u train.py",
            "procs=2 of=torchrun"},
        Row{"torchrun --log-dir /tmp/x -r 3 -t3 --nproc_per_node=2 train.py",
            "exec \"$0\" -u train.py", "procs=2 of=torchrun warn=launcher_flags_dropped"},
        Row{"torchrun --nproc_per_node=2 -m pkg.train --node_rank 3",
            "exec \"$0\" -u -m pkg.train --node_rank 3", "procs=2 of=torchrun"},
        Row{"torchrun --nproc_per_node=2 --module pkg.train", "exec \"$0\" -u -m pkg.train",
            "procs=2 of=torchrun"},
        Row{"torchrun --nproc_per_node=2 --no-python ./a.out 1", "exec ./a.out 1",
            "procs=2 cmd=./a.out"},
        Row{"torchrun --nproc_per_node=2 train.py -- --x -- y", "exec \"$0\" -u train.py --x -- y",
            "procs=2 of=torchrun"},
        Row{"torchrun --nproc_per_node=2 -- train.py", "exec \"$0\" -u train.py",
            "procs=2 of=torchrun"},
        Row{"/opt/x/bin/torchrun --nproc_per_node=2 train.py", "exec \"$0\" -u train.py",
            "procs=2 of=/opt/x/bin/torchrun"},
        Row{"python -m torch.distributed.run --nproc_per_node=2 train.py",
            "exec python -u train.py", "procs=2 cmd=python"},
        Row{"python3.11 -u -m torch.distributed.run --nproc_per_node=2 train.py",
            "exec python3.11 -u train.py", "procs=2 cmd=python3.11"},
        Row{"python /v/lib/python3.11/site-packages/torch/distributed/run.py --nproc_per_node 2 "
            "train.py --a",
            "exec python -u train.py --a", "procs=2 cmd=python"},
        Row{"python3 /v/torch/distributed/launch.py --nproc_per_node 2 train.py",
            "exec python3 -u train.py --local-rank=$LOCAL_RANK", "procs=2 cmd=python3"},
        Row{"python3 -um torch.distributed.run --nproc_per_node=2 train.py",
            "exec python3 -u train.py", "procs=2 cmd=python3"},
        Row{"python -OOBmtorch.distributed.run --nproc_per_node=2 train.py",
            "exec python -u train.py", "procs=2 cmd=python"},
        Row{"python -W ignore -Bum torch.distributed.launch --nproc_per_node=2 train.py",
            "exec python -u train.py --local-rank=$LOCAL_RANK", "procs=2 cmd=python"},
        Row{"python -m torch.distributed.launch --nproc_per_node=2 train.py --a",
            "exec python -u train.py --local-rank=$LOCAL_RANK --a", "procs=2 cmd=python"},
        Row{"python -m torch.distributed.launch --use_env --nproc_per_node=2 train.py",
            "exec python -u train.py", "procs=2 cmd=python"},
        Row{"python $(which torchrun) --nproc_per_node=2 train.py", "exec python -u train.py",
            "procs=2 cmd=python"},
        Row{"cd src && torchrun --nproc_per_node=2 train.py", "cd src && exec \"$0\" -u train.py",
            "procs=2 of=torchrun"},
        Row{"exec torchrun --nproc_per_node=2 train.py", "exec \"$0\" -u train.py",
            "procs=2 of=torchrun"},
        Row{"time torchrun --nproc_per_node=2 train.py", "exec \"$0\" -u train.py",
            "procs=2 of=torchrun"},
        Row{"OMP_NUM_THREADS=4 HF_HOME=\"/a b\" torchrun --nproc_per_node=2 train.py",
            "OMP_NUM_THREADS=4 HF_HOME=\"/a b\" exec \"$0\" -u train.py", "procs=2 of=torchrun"},
        Row{"MASTER_PORT=29501 torchrun --nproc_per_node=2 train.py", "exec \"$0\" -u train.py",
            "procs=2 of=torchrun warn=launcher_flags_replaced"},
        Row{"CUDA_VISIBLE_DEVICES=0,1,2,3 torchrun --nproc_per_node=4 train.py",
            "exec \"$0\" -u train.py", "procs=4 of=torchrun devices=4 warn=visible_devices_set"},
        Row{"torchrun \\\n  --nproc_per_node 2 \\\n  train.py \\\n  --name 'a  b' \\\n",
            "exec \"$0\" -u train.py --name 'a  b'", "procs=2 of=torchrun"},
        Row{"# train\ntorchrun --nproc_per_node 2 train.py # all of it\n",
            "exec \"$0\" -u train.py", "procs=2 of=torchrun"},
        Row{"torchrun --nproc_per_node 2 train.py --q \"a \\\" $X\" --g *.txt --j '{\"a\": 1}'",
            "exec \"$0\" -u train.py --q \"a \\\" $X\" --g *.txt --j '{\"a\": 1}'",
            "procs=2 of=torchrun"},
        Row{"torchrun --nproc_per_node 2 train.py 2>&1 | tee log.txt", "exec \"$0\" -u train.py",
            "procs=2 of=torchrun warn=output_redirected"},
        Row{"torchrun --nproc_per_node 2 train.py > out.txt 2>&1 < in.txt",
            "exec \"$0\" -u train.py < in.txt", "procs=2 of=torchrun warn=output_redirected"},
        Row{"torchrun --nproc_per_node=2 train.py ${LAUNCH_RESUME_FROM:+--resume "
            "$LAUNCH_RESUME_FROM}",
            "exec \"$0\" -u train.py ${LAUNCH_RESUME_FROM:+--resume $LAUNCH_RESUME_FROM}",
            "procs=2 of=torchrun"},
        Row{"nohup torchrun --nproc_per_node 2 train.py > log 2>&1 &", "exec \"$0\" -u train.py",
            "procs=2 of=torchrun warn=output_redirected"},
        Row{"env A=1 torchrun --nproc_per_node=2 train.py", "A=1 exec \"$0\" -u train.py",
            "procs=2 of=torchrun"},
        Row{"python -m torch.distributed.run --use_env --nproc_per_node=2 train.py",
            "exec python -u train.py", "procs=2 cmd=python"},
        Row{"set -ex\ncd /data\ntorchrun --nproc_per_node=2 train.py",
            "set -ex; cd /data; exec \"$0\" -u train.py", "procs=2 of=torchrun"}));

INSTANTIATE_TEST_SUITE_P(
    Deepspeed, UnderstoodLine,
    ::testing::Values(
        Row{"deepspeed train.py", "exec \"$0\" -u train.py --local_rank=$LOCAL_RANK",
            "of=deepspeed"},
        Row{"deepspeed --num_gpus=4 train.py --deepspeed ds.json",
            "exec \"$0\" -u train.py --local_rank=$LOCAL_RANK --deepspeed ds.json",
            "procs=4 of=deepspeed"},
        Row{"DS_BUILD_OPS=0 python $(which deepspeed) --num_gpus 2 train.py",
            "DS_BUILD_OPS=0 exec python -u train.py --local_rank=$LOCAL_RANK",
            "procs=2 cmd=python"},
        Row{"deepspeed --num_nodes 2 --num_gpus 8 --hostfile hf --master_addr a train.py",
            "exec \"$0\" -u train.py --local_rank=$LOCAL_RANK",
            "procs=8 nodes=2 of=deepspeed warn=launcher_flags_replaced"},
        Row{"deepspeed --include localhost:0,2 --master_port 29600 train.py",
            "exec \"$0\" -u train.py --local_rank=$LOCAL_RANK",
            "procs=2 of=deepspeed warn=launcher_flags_replaced"},
        Row{"deepspeed -i \"a:0,1@b:0,1\" train.py",
            "exec \"$0\" -u train.py --local_rank=$LOCAL_RANK",
            "procs=2 nodes=2 of=deepspeed warn=launcher_flags_replaced"},
        Row{"deepspeed --no_local_rank --module pkg.train --x", "exec \"$0\" -u -m pkg.train --x",
            "of=deepspeed"},
        Row{"deepspeed --no_python --no_local_rank ./run.sh", "exec ./run.sh", "cmd=./run.sh"},
        Row{"python -m deepspeed.launcher.runner --num_gpu 2 train.py",
            "exec python -u train.py --local_rank=$LOCAL_RANK", "procs=2 cmd=python"},
        Row{"deepspeed --force_multi --log_level error train.py",
            "exec \"$0\" -u train.py --local_rank=$LOCAL_RANK",
            "of=deepspeed warn=launcher_flags_dropped"}));

INSTANTIATE_TEST_SUITE_P(
    Accelerate, UnderstoodLine,
    ::testing::Values(
        Row{"accelerate launch train.py", "exec \"$0\" -u train.py", "of=accelerate"},
        Row{"accelerate launch --num_processes 16 --num_machines 2 --machine_rank 0 train.py --a",
            "exec \"$0\" -u train.py --a",
            "procs=8 nodes=2 of=accelerate warn=launcher_flags_replaced"},
        Row{"python -m accelerate.commands.launch --num-processes=2 train.py",
            "exec python -u train.py", "procs=2 cmd=python"},
        Row{"python $(which accelerate) launch --num_processes 2 -m pkg.train",
            "exec python -u -m pkg.train", "procs=2 cmd=python"},
        Row{"accelerate-launch --multi_gpu --gpu_ids 0,2 train.py", "exec \"$0\" -u train.py",
            "procs=2 of=accelerate-launch warn=launcher_flags_replaced"},
        Row{"accelerate launch --no_python --num_processes $N ./a.out", "exec ./a.out",
            "procs=unknown cmd=./a.out warn=processes_per_node"},
        Row{"accelerate config", "exec accelerate config", "cmd=accelerate"}));

INSTANTIATE_TEST_SUITE_P(
    Plain, UnderstoodLine,
    ::testing::Values(
        Row{"python train.py", "exec python train.py", "cmd=python"},
        Row{"python -u train.py --x \"a b\"", "exec python -u train.py --x \"a b\"", "cmd=python"},
        Row{"A=1 python train.py", "A=1 exec python train.py", "cmd=python"},
        Row{"cd src && python train.py", "cd src && exec python train.py", "cmd=python"},
        Row{"export A=1; python train.py", "export A=1; exec python train.py", "cmd=python"},
        Row{"./train.sh a b", "exec ./train.sh a b", "cmd=./train.sh warn=script_unread"},
        Row{"exit 33", "exit 33"}, Row{"echo a; sleep 1", "echo a; exec sleep 1", "cmd=sleep"},
        Row{"nohup python train.py > log 2>&1 &", "exec python train.py > log 2>&1",
            "cmd=python warn=output_redirected warn=output_redirected"},
        Row{"python train.py &\nwait", "exec python train.py", "cmd=python warn=output_redirected"},
        Row{"env A=1 python train.py", "A=1 exec python train.py", "cmd=python"},
        Row{"python train.py | tee log", "exec python train.py",
            "cmd=python warn=output_redirected"},
        Row{"python train.py || true", "python train.py || true", "warn=exit_code_hidden"},
        Row{"python train.py > log", "exec python train.py > log",
            "cmd=python warn=output_redirected"},
        Row{"for i in 1 2; do python a.py; done", "for i in 1 2; do python a.py; done"},
        Row{"CUDA_VISIBLE_DEVICES=0 python train.py", "exec python train.py",
            "cmd=python devices=1 warn=visible_devices_set"},
        Row{"RANK=0 WORLD_SIZE=1 python train.py", "exec python train.py",
            "cmd=python warn=launcher_flags_replaced"},
        // The library is not the launcher.
        Row{"python train.py --deepspeed ds.json", "exec python train.py --deepspeed ds.json",
            "cmd=python"},
        Row{"WANDB_PROJECT=deepspeed python train.py",
            "WANDB_PROJECT=deepspeed exec python train.py", "cmd=python"},
        Row{"uv run python train.py", "exec uv run python train.py", "cmd=uv"},
        Row{"cat <<'END' > f\nit's torchrun's\nEND\npython f",
            "cat <<'END' > f\nit's torchrun's\nEND\npython f"}));

class RefusedLine : public ::testing::TestWithParam<Row> {};

TEST_P(RefusedLine, SaysWhatWasSeenAndWhatToWrite) {
  const auto line = ReadLaunchLine(GetParam().run, {});
  ASSERT_FALSE(line) << line->shell;
  EXPECT_EQ(ErrorCodeName(line.error().code), GetParam().facts) << FormatError(line.error());
  EXPECT_NE(line.error().message.find(GetParam().shell), std::string::npos)
      << FormatError(line.error());
  EXPECT_FALSE(line.error().hint.empty());
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedLine,
    ::testing::Values(Row{"deepspeed --num_gpus=zero train.py", "--num_gpus", "INVALID_ARGUMENT"},
                      Row{"deepspeed --num_gpus 2", "no script", "INVALID_ARGUMENT"},
                      Row{"deepspeed --num_gpus 2 --", "no script", "INVALID_ARGUMENT"},
                      Row{"mpirun -np 4 python train.py", "mpirun", "UNIMPLEMENTED"},
                      Row{"srun python train.py", "srun", "UNIMPLEMENTED"},
                      Row{"srun torchrun train.py", "srun", "UNIMPLEMENTED"},
                      Row{"torchrun --nproc_per_node=many train.py", "many", "INVALID_ARGUMENT"},
                      Row{"torchrun --nnodes=0 train.py", "--nnodes", "INVALID_ARGUMENT"},
                      Row{"torchrun --nproc_per_node=2", "no script", "INVALID_ARGUMENT"},
                      Row{"torchrun --nproc_per_node", "no value", "INVALID_ARGUMENT"},
                      Row{"python train.py \"open", "line 1, column 17", "INVALID_ARGUMENT"},
                      Row{"echo a\npython 'x", "line 2, column 8", "INVALID_ARGUMENT"},
                      Row{"python $(cat x", "bracket (", "INVALID_ARGUMENT"},
                      Row{"python `cat x", "backtick", "INVALID_ARGUMENT"},
                      Row{"torchrun \\\n --nnodes=2 \\ \n train.py", "line 2", "INVALID_ARGUMENT"},
                      Row{"accelerate launch --num_processes 7 --num_machines 2 a.py",
                          "cannot be shared", "INVALID_ARGUMENT"},
                      Row{"accelerate launch --num_processes many a.py", "num_processes",
                          "INVALID_ARGUMENT"},
                      Row{"  # nothing\n", "no command", "INVALID_ARGUMENT"}));

// On a machine without GPUs a shell makes 0 of `$(nvidia-smi -L | wc -l)`; quoted, it stays.
TEST(LaunchLine, GpusThatWereCountedElsewhereAreAskedForWithGpus) {
  for (const char* run : {"torchrun --nproc_per_node=0 t.py",
                          "torchrun --nproc_per_node='$(nvidia-smi -L | wc -l)' t.py",
                          "torchrun --nproc_per_node= t.py", "deepspeed --num_gpus 0 t.py",
                          "deepspeed --num_gpus '`nvidia-smi -L | wc -l`' t.py",
                          "accelerate launch --num_processes 0 t.py"}) {
    const auto line = ReadLaunchLine(run, {});
    ASSERT_FALSE(line) << run;
    EXPECT_NE(line.error().hint.find("--gpus N"), std::string::npos) << FormatError(line.error());
    EXPECT_NE(line.error().hint.find("gpus: N"), std::string::npos) << FormatError(line.error());
  }
  const auto odd = ReadLaunchLine("torchrun --nproc_per_node=all t.py", {});
  ASSERT_FALSE(odd);
  EXPECT_EQ(odd.error().hint, "torchrun would refuse it too");
  const auto open = ReadLaunchLine("torchrun --nproc_per_node=$(./count) t.py", {});
  ASSERT_TRUE(open);
  EXPECT_TRUE(std::ranges::any_of(open->warnings, [](const Finding& finding) {
    return finding.code == "processes_per_node" &&
           finding.remedy.find("--gpus N") != std::string::npos;
  }));
}

TEST(LaunchLine, NamesTheFlagsThatThePlanReplaces) {
  const auto line = ReadLaunchLine(
      "torchrun --nnodes=2 --nproc_per_node=2 --node_rank=0 --master_addr=192.168.1.1 "
      "--master_port=29500 train.py",
      {});
  ASSERT_TRUE(line);
  ASSERT_EQ(line->warnings.size(), 1U);
  for (const char* name : {"node_rank", "master_addr", "master_port"}) {
    EXPECT_NE(line->warnings[0].says.find(name), std::string::npos) << name;
  }
}

TEST(LaunchLine, LauncherProcessStartsAnyTextOncePerRank) {
  const auto line = ReadLaunchLine("mpirun -n 2 ./train", {LauncherKind::kProcess, false, {}});
  ASSERT_TRUE(line);
  EXPECT_EQ(line->shell, "exec mpirun -n 2 ./train");
  EXPECT_EQ(line->warnings[0].code, "launcher_per_rank");
}

// The argument stands in front of the script's own, where torch.distributed.launch put it.
TEST(LaunchLine, LocalRankArgGoesToTheScriptAndNotToPython) {
  constexpr std::pair<const char*, const char*> kLines[] = {
      {"torchrun --nproc-per-node=2 train.py --lr 1",
       "exec \"$0\" -u train.py --local_rank=$LOCAL_RANK --lr 1"},
      {"torchrun --nproc-per-node=2 -m pkg.train --lr 1",
       "exec \"$0\" -u -m pkg.train --local_rank=$LOCAL_RANK --lr 1"},
      {"python train.py --lr 1", "exec python train.py --local_rank=$LOCAL_RANK --lr 1"},
      {"python -u -m pkg.train --lr 1",
       "exec python -u -m pkg.train --local_rank=$LOCAL_RANK --lr 1"},
      {"python -c 'print(1)' --lr 1", "exec python -c 'print(1)' --local_rank=$LOCAL_RANK --lr 1"}};
  for (const auto& [run, shell] : kLines) {
    const auto with = ReadLaunchLine(run, {LauncherKind::kAuto, true, {}});
    ASSERT_TRUE(with) << FormatError(with.error());
    EXPECT_EQ(with->shell, shell);
    const auto without = ReadLaunchLine(run, {});
    ASSERT_TRUE(without);
    EXPECT_EQ(without->shell.find("local_rank"), std::string::npos) << without->shell;
  }
}

class NodeLine : public ::testing::TestWithParam<Row> {};

TEST_P(NodeLine, IsStartedOncePerNodeAsItIs) {
  const auto line = ReadLaunchLine(GetParam().run, {});
  ASSERT_TRUE(line) << FormatError(line.error());
  EXPECT_EQ(line->start, StartKind::kPerNode);
  EXPECT_EQ(line->launcher, LauncherKind::kNode);
  EXPECT_TRUE(line->wrappers);
  EXPECT_EQ(line->shell, GetParam().run);
  EXPECT_NE(line->read[0].find(GetParam().shell), std::string::npos) << line->read[0];
  EXPECT_EQ(Facts(*line), GetParam().facts);
}

INSTANTIATE_TEST_SUITE_P(
    All, NodeLine,
    ::testing::Values(
        Row{"deepspeed --min_elastic_nodes 1 --num_gpus 2 train.py", "min_elastic_nodes",
            "procs=2 cmd=deepspeed"},
        Row{"if true; then deepspeed train.py; fi", "deepspeed", "warn=processes_per_node"},
        Row{"deepspeed a.py && deepspeed b.py", "deepspeed", "warn=processes_per_node"},
        Row{"accelerate launch --config_file far.yaml --num_processes 4 train.py", "far.yaml",
            "procs=4 cmd=accelerate"},
        Row{"accelerate launch --use_megatron_lm train.py", "Megatron",
            "cmd=accelerate warn=processes_per_node"},
        Row{"LAUNCHER=\"accelerate launch --num_processes 4\"\n$LAUNCHER train.py",
            "accelerate launch", "procs=4"},
        Row{"numactl -N 0 torchrun --nproc_per_node 2 train.py", "torchrun", "procs=2 cmd=numactl"},
        Row{"numactl -N 0 python /v/torch/distributed/run.py --nproc_per_node 2 train.py",
            "torchrun", "procs=2 cmd=numactl"},
        Row{"ls\npython /v/torch/distributed/run.py --nproc_per_node 2 train.py", "torchrun",
            "procs=2"},
        Row{"nsys profile -o x torchrun --nproc_per_node 2 train.py", "torchrun",
            "procs=2 cmd=nsys"},
        Row{"bash -c 'torchrun train.py'", "torchrun", "cmd=bash warn=processes_per_node"},
        Row{"if true; then\n torchrun train.py\nfi", "torchrun", "warn=processes_per_node"},
        Row{"N=4\ntorchrun --nproc_per_node $N a.py && torchrun b.py", "torchrun", "procs=4"},
        Row{"source venv/bin/activate && torchrun --nnodes 2 --nproc_per_node 8 a.py", "torchrun",
            "procs=8 nodes=2"},
        Row{"torchrun --frobnicate train.py", "--frobnicate",
            "cmd=torchrun warn=processes_per_node"},
        Row{"torchrun --virtual-local-rank train.py", "virtual_local_rank",
            "cmd=torchrun warn=processes_per_node"},
        Row{"torchrun $DISTRIBUTED_ARGS train.py", "$DISTRIBUTED_ARGS",
            "cmd=torchrun warn=processes_per_node"},
        Row{"A='--nproc_per_node 4'\ntorchrun $A train.py", "$A", "procs=4"},
        Row{"llamafactory-cli train x.yaml", "llamafactory-cli",
            "cmd=llamafactory-cli warn=processes_per_node"}));

TEST(LaunchLine, LooksIntoAShellScriptThatTheSubmitterCouldRead) {
  LaunchLineOptions options;
  options.files["train.sh"] = "#!/bin/bash\nNGPU=4\ntorchrun --nproc_per_node=$NGPU train.py\n";
  for (const char* run : {"bash train.sh a", "bash -x train.sh", "train.sh"}) {
    const auto line = ReadLaunchLine(run, options);
    ASSERT_TRUE(line) << run;
    EXPECT_EQ(line->start, StartKind::kPerNode) << run;
    EXPECT_EQ(line->procs_number, 4) << run;
  }
  options.files["train.sh"] = "python train.py\n";
  const auto plain = ReadLaunchLine("bash train.sh", options);
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->start, StartKind::kDirect);
  EXPECT_TRUE(plain->wrappers) << "a launcher deeper inside must not start once per rank";
}

TEST(LaunchLine, ALauncherThatIsAskedForIsPutInFrontOfAPythonCommand) {
  const auto line = ReadLaunchLine("cd src && A=1 python -u train.py --x 1",
                                   {LauncherKind::kTorchrun, false, {}});
  ASSERT_TRUE(line);
  EXPECT_EQ(line->shell, "cd src && A=1 torchrun train.py --x 1");
  EXPECT_EQ(line->start, StartKind::kPerNode);
  EXPECT_EQ(line->launcher, LauncherKind::kTorchrun);
  const auto module = ReadLaunchLine("python -m pkg.train", {LauncherKind::kAccelerate, false, {}});
  ASSERT_TRUE(module);
  EXPECT_EQ(module->shell, "accelerate launch -m pkg.train");
  const auto there =
      ReadLaunchLine("torchrun --nproc_per_node 2 a.py", {LauncherKind::kTorchrun, false, {}});
  ASSERT_TRUE(there);
  EXPECT_EQ(there->shell, "torchrun --nproc_per_node 2 a.py");
  EXPECT_EQ(there->procs_number, 2);
  const auto other = ReadLaunchLine("./train", {LauncherKind::kDeepspeed, false, {}});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kInvalidArgument);
  const auto flags =
      ReadLaunchLine("python -W ignore train.py", {LauncherKind::kTorchrun, false, {}});
  ASSERT_FALSE(flags);
  EXPECT_NE(flags.error().message.find("-W"), std::string::npos) << flags.error().message;
}

TEST(LaunchLine, LauncherNodeStartsAnyTextOncePerNode) {
  const auto line = ReadLaunchLine("python train.py", {LauncherKind::kNode, false, {}});
  ASSERT_TRUE(line);
  EXPECT_EQ(line->shell, "python train.py");
  EXPECT_EQ(line->start, StartKind::kPerNode);
  for (const char* run : {"docker compose up trainer", "docker run --gpus all img ./train.sh"}) {
    const auto as_it_is = ReadLaunchLine(run, {LauncherKind::kNode, false, {}});
    ASSERT_TRUE(as_it_is) << as_it_is.error().message;
    EXPECT_EQ(as_it_is->shell, run);
    EXPECT_FALSE(ReadLaunchLine(run, {}));
  }
  const auto open = ReadLaunchLine("docker compose up trainer", {});
  ASSERT_FALSE(open);
  EXPECT_NE(open.error().hint.find("launcher: node starts the text as it is"), std::string::npos)
      << open.error().hint;
}

TEST(LaunchLine, MpiIsRefusedByName) {
  const auto line = ReadLaunchLine("python train.py", {LauncherKind::kMpi, false, {}});
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().code, ErrorCode::kUnimplemented);
  EXPECT_NE(line.error().message.find("mpi"), std::string::npos);
}

TEST(LaunchLine, PassesTheLocalRankBehindTheScriptWhenAsked) {
  LaunchLineOptions named;
  named.names_python = true;
  const auto own = ReadLaunchLine("A=1 python -u train.py", named);
  ASSERT_TRUE(own);
  EXPECT_TRUE(own->interpreter_first);
  EXPECT_TRUE(own->shell.ends_with("exec \"$0\" -u train.py")) << own->shell;
  EXPECT_FALSE(ReadLaunchLine("/usr/bin/python3 train.py", named)->interpreter_first);
  EXPECT_FALSE(ReadLaunchLine("PATH=/x:$PATH python train.py", named)->interpreter_first);
  const auto plain = ReadLaunchLine("python -u train.py --a", {LauncherKind::kAuto, true, {}});
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->shell, "exec python -u train.py --local_rank=$LOCAL_RANK --a");
  const auto torchrun =
      ReadLaunchLine("torchrun --nproc_per_node=2 train.py --a", {LauncherKind::kAuto, true, {}});
  ASSERT_TRUE(torchrun);
  EXPECT_EQ(torchrun->shell, "exec \"$0\" -u train.py --local_rank=$LOCAL_RANK --a");
}

// Of torch 1.x and of 2.x: argparse takes the spelling that it was given alone.
TEST(LaunchLine, PassesTheLocalRankAsTheScriptSpellsIt) {
  const auto shell = [](const std::string& run, const std::string& text, bool asked = false) {
    LaunchLineOptions options{LauncherKind::kAuto, asked, {}};
    options.files["t.py"] = text;
    const auto line = ReadLaunchLine(run, options);
    EXPECT_TRUE(line) << run;
    return line ? line->shell : std::string();
  };
  const std::string old = "p.add_argument('--local_rank', type=int)\n";
  const std::string dashed = "p.add_argument(\"--local-rank\", type=int)\n";
  const std::string launch = "python -m torch.distributed.launch --nproc_per_node=2 t.py --a";
  EXPECT_TRUE(shell(launch, old).ends_with("t.py --local_rank=$LOCAL_RANK --a"));
  EXPECT_TRUE(shell(launch, dashed).ends_with("t.py --local-rank=$LOCAL_RANK --a"));
  EXPECT_TRUE(shell(launch, old + dashed).ends_with("t.py --local-rank=$LOCAL_RANK --a"));
  EXPECT_TRUE(shell(launch, "# '--local_rank'\n").ends_with("t.py --local-rank=$LOCAL_RANK --a"));
  EXPECT_TRUE(shell("deepspeed --num_gpus 2 t.py", dashed).ends_with(" --local-rank=$LOCAL_RANK"));
  EXPECT_TRUE(shell("deepspeed --num_gpus 2 t.py", old).ends_with(" --local_rank=$LOCAL_RANK"));
  EXPECT_TRUE(shell("python t.py --a", dashed, true).ends_with("--local-rank=$LOCAL_RANK --a"));
  EXPECT_TRUE(shell(launch, "flags.DEFINE_integer('local_rank', 0, 'set by torch')\n")
                  .ends_with("t.py --local_rank=$LOCAL_RANK --a"));
  LaunchLineOptions options;
  options.files["t.py"] = old;
  const auto line = ReadLaunchLine(launch, options);
  ASSERT_TRUE(line);
  EXPECT_NE(
      std::ranges::find(line->read, "t.py reads --local_rank: it gets that, not --local-rank"),
      line->read.end());
}

TEST(LaunchLine, TakesFlagValuesFromTheJobsOwnEnvironment) {
  const auto line = ReadLaunchLine("torchrun --nproc_per_node=$NGPU train.py",
                                   {LauncherKind::kAuto, false, {{"NGPU", "3"}}});
  ASSERT_TRUE(line);
  EXPECT_EQ(line->procs_number, 3);
}

}  // namespace
}  // namespace launch
