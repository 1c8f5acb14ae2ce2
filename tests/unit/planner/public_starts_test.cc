// More launch lines of public repositories: programs in front of the launcher, scripts with
// arguments, launchers of frameworks, and programs that start elsewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "planner/line/device_flags.h"
#include "planner/line/endless_commands.h"
#include "tests/unit/planner/public_line.h"

namespace launch {
namespace {

// open-mmlab/mmdetection tools/dist_train.sh
constexpr const char* kDistTrain = R"(#!/usr/bin/env bash

CONFIG=$1
GPUS=$2
NNODES=${NNODES:-1}
NODE_RANK=${NODE_RANK:-0}
PORT=${PORT:-29500}
MASTER_ADDR=${MASTER_ADDR:-"127.0.0.1"}

PYTHONPATH="$(dirname $0)/..":$PYTHONPATH \
python -m torch.distributed.launch \
    --nnodes=$NNODES \
    --node_rank=$NODE_RANK \
    --master_addr=$MASTER_ADDR \
    --nproc_per_node=$GPUS \
    --master_port=$PORT \
    $(dirname "$0")/train.py \
    $CONFIG \
    --launcher pytorch ${@:3}
)";

// pytorch/examples distributed/ddp-tutorial-series/multigpu.py, its end
constexpr const char* kMultiGpu = R"(
import torch.multiprocessing as mp
if __name__ == "__main__":
    world_size = torch.cuda.device_count()
    mp.spawn(main, args=(world_size, args.save_every), nprocs=world_size)
)";

class PublicStart : public ::testing::TestWithParam<PublicLine> {};

TEST_P(PublicStart, IsReadAsItsAuthorMeansIt) {
  LaunchLineOptions options;
  options.files["tools/dist_train.sh"] = kDistTrain;
  options.files["./tools/dist_train.sh"] = kDistTrain;
  options.files["./distributed_train.sh"] =
      "#!/bin/bash\nNUM_PROC=$1\nshift\ntorchrun --nproc_per_node=$NUM_PROC train.py \"$@\"\n";
  options.files["multigpu.py"] = kMultiGpu;
  options.files["hosts.txt"] = "# two\nhostname1\nhostname2\n";
  const std::string reading = Reading(ReadLaunchLine(GetParam().run, options));
  EXPECT_EQ(reading.rfind("refused", 0) == 0
                ? reading.substr(0, std::string(GetParam().reading).size())
                : reading,
            GetParam().reading)
      << GetParam().source;
}

INSTANTIATE_TEST_SUITE_P(
    Scripts, PublicStart,
    ::testing::Values(
        PublicLine{"open-mmlab/mmdetection docs: 8 GPUs",
                   "./tools/dist_train.sh configs/rtmdet/rtmdet_s_8xb32-300e_coco.py 8 --amp",
                   "node procs=8"},
        PublicLine{"open-mmlab/mmpretrain docs",
                   "CUDA_VISIBLE_DEVICES=0,1,2,3 PORT=29501 bash tools/dist_train.sh "
                   "configs/resnet/resnet50_8xb32_in1k.py 4",
                   "node procs=4 devices=4"},
        PublicLine{"huggingface/pytorch-image-models README of 0.4",
                   "./distributed_train.sh 4 /data/imagenet --model seresnet34 --sched cosine",
                   "node procs=4"},
        PublicLine{"NVIDIA/Megatron-LM examples/gpt3/train_gpt3_175b_distributed.sh, its shape",
                   "GPUS_PER_NODE=8\nNUM_NODES=1\nMASTER_ADDR=localhost\nDISTRIBUTED_ARGS=(\n"
                   "    --nproc_per_node $GPUS_PER_NODE \n    --nnodes $NUM_NODES \n"
                   "    --master_addr $MASTER_ADDR \n)\n"
                   "torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py --tensor-model-parallel-size 8",
                   "node procs=8"},
        PublicLine{"NVIDIA/Megatron-LM examples of core 0.5",
                   "export USE_FLASH_ATTN=1 && \\\ntorchrun $DISTRIBUTED_ARGS \\\n    "
                   "pretrain_gpt.py \\\n    $GPT_ARGS",
                   "node"},
        PublicLine{"a course on Megatron-LM: the launcher in a variable, run by bash -c",
                   "export LAUNCHER=\"python -u -m torch.distributed.launch --nproc_per_node 4 "
                   "--nnodes 1 \"\nexport CMD=\" pretrain_gpt.py --split 949,50,1 \"\n"
                   "bash -c '$LAUNCHER  $CMD' 2>&1 | tee -a log.txt",
                   "node procs=4"},
        PublicLine{"OpenRLHF/OpenRLHF examples/scripts/train_kto_llama.sh",
                   "set -x\n\nread -r -d '' training_commands <<EOF\nopenrlhf.cli.train_kto \\\n"
                   "   --save_path ./checkpoint/llama3-8b-kto \\\n   --zero_stage 3\nEOF\n\n"
                   "if [[ ${1} != \"slurm\" ]]; then\n    deepspeed --module "
                   "$training_commands\nfi",
                   "node"},
        PublicLine{"microsoft/DeepSpeedExamples applications/DeepSpeed-Chat step1 run_1.3b.sh",
                   "OUTPUT=$1\nZERO_STAGE=$2\nif [ \"$OUTPUT\" == \"\" ]; then\n    "
                   "OUTPUT=./output\nfi\nmkdir -p $OUTPUT\n\ndeepspeed main.py \\\n   "
                   "--zero_stage $ZERO_STAGE \\\n   --deepspeed \\\n   &> $OUTPUT/training.log",
                   "node"},
        PublicLine{"a here-document", "bash <<EOF\ntorchrun --nproc_per_node 2 train.py\nEOF",
                   "node procs=2"},
        PublicLine{"a script written by a here-document",
                   "cat > run.sh <<EOF\ntorchrun --nproc_per_node 2 train.py\nEOF\nbash run.sh",
                   "node procs=2"},
        PublicLine{"a usage text is no call",
                   "usage() {\ncat <<EOF\ntorchrun --nproc_per_node 2 train.py\nEOF\n}\n"
                   "python train.py",
                   "plain"},
        PublicLine{"a launcher in a variable",
                   "RUN=\"accelerate launch\"; $RUN --num_processes 4 train.py", "node procs=4"},
        PublicLine{"a launcher of one word in a variable",
                   "launcher=torchrun; $launcher --nproc_per_node=2 train.py", "node procs=2"},
        PublicLine{"THUDM: a command put together and evaluated",
                   "options=\"--num_gpus 4\"; run_cmd=\"deepspeed ${options} train.py\"\n"
                   "eval ${run_cmd}",
                   "node procs=4"},
        PublicLine{"an array of a command",
                   "CMD=(torchrun --nproc_per_node 4 # four\n  train.py)\n\"${CMD[@]}\"",
                   "node procs=4"},
        PublicLine{"deepspeed's --include inside of a script",
                   "true && deepspeed --include a:0,1@b:0,1 train.py", "node procs=2 nodes=2"},
        PublicLine{"a loop over seeds",
                   "for seed in 1 2 3; do torchrun --nproc_per_node=8 train.py --seed $seed; done",
                   "node procs=8"},
        PublicLine{"xargs", "seq 1 3 | xargs -I{} accelerate launch --num_processes 2 train.py {}",
                   "node procs=2"}));

INSTANTIATE_TEST_SUITE_P(
    InFront, PublicStart,
    ::testing::Values(
        PublicLine{"assignments, then uv, then accelerate",
                   "CUDA_VISIBLE_DEVICES=0,1 HF_HOME=/tmp uv run accelerate launch "
                   "--num_processes 2 train.py",
                   "node procs=2 devices=2"},
        PublicLine{"samsja/nanogpt: poetry run",
                   "poetry run torchrun --nproc_per_node 4 --master_port 29501 train.py "
                   "config/train_gpt2.py",
                   "node procs=4"},
        PublicLine{"pixi run", "pixi run accelerate launch --num_processes 4 train.py",
                   "node procs=4"},
        PublicLine{"conda run",
                   "conda run -n env --no-capture-output accelerate launch --num_processes=4 t.py",
                   "node procs=4"},
        PublicLine{"a dreambooth script: numactl",
                   "numactl --cpunodebind=0 \\\n    accelerate launch "
                   "--num_cpu_threads_per_process=96 src/train.py",
                   "node"},
        PublicLine{"nsys of NVIDIA/DeepLearningExamples",
                   "nsys profile -w true -t cuda,nvtx -o report torchrun --nproc_per_node=2 t.py",
                   "node procs=2"},
        PublicLine{"module load", "module load cuda/12.1 && torchrun --nproc_per_node=8 train.py",
                   "node procs=8"},
        PublicLine{"apptainer", "apptainer exec --nv img.sif torchrun --nproc_per_node=8 train.py",
                   "node procs=8"},
        PublicLine{"a default of the shell", "torchrun --nproc_per_node=${NGPU:-8} train.py",
                   "torchrun procs=8 train.py"},
        PublicLine{"a default beside a value",
                   "NGPU=2; torchrun --nproc_per_node=${NGPU:-\"8\"} train.py",
                   "torchrun procs=2 train.py"},
        PublicLine{"a default without a colon", "torchrun --nproc_per_node=${NGPU-8} train.py",
                   "torchrun procs=8 train.py"},
        PublicLine{"a default that is kept", ": ${NGPU:=4}\ntorchrun --nproc_per_node=$NGPU t.py",
                   "torchrun procs=4 t.py"},
        PublicLine{"a product", "torchrun --nproc_per_node=$((4*2)) train.py",
                   "torchrun procs=8 train.py"},
        PublicLine{"a quotient of variables",
                   "WORLD=16; NODES=2; torchrun --nproc_per_node=$((WORLD / NODES)) "
                   "--nnodes $NODES train.py",
                   "torchrun procs=8 nodes=2 train.py"},
        PublicLine{"the GPUs counted by the driver",
                   "torchrun --nproc_per_node=$(nvidia-smi -L | wc -l) train.py",
                   "torchrun procs=gpu train.py"},
        PublicLine{"the cores of the node", "torchrun --nproc_per_node=$(nproc) train.py",
                   "torchrun procs=cpu train.py"},
        PublicLine{
            "the cores of the node, inside of a script",
            "set -e\nN=`nproc`\nmkdir -p out && torchrun --nproc_per_node $N train.py | tee log",
            "node procs=cpu"},
        PublicLine{"the cores of the node for accelerate",
                   "accelerate launch --cpu --num_processes $(getconf _NPROCESSORS_ONLN) train.py",
                   "accelerate procs=cpu cpu train.py"},
        PublicLine{"the GPUs counted by torch",
                   "NUM_GPUS=$(python -c \"import torch; print(torch.cuda.device_count())\")\n"
                   "deepspeed --num_gpus $NUM_GPUS train.py",
                   "deepspeed procs=gpu train.py"},
        PublicLine{"the visible devices counted",
                   "GPUS=0,1,2,3; NUM_GPUS=$(echo $GPUS | tr ',' '\\n' | wc -l)\n"
                   "accelerate launch --num_processes $NUM_GPUS train.py",
                   "accelerate procs=4 train.py"},
        PublicLine{"pytorch/fairseq docs/getting_started.rst",
                   "python -m torch.distributed.launch --nproc_per_node=8 \\\n    --nnodes=2 "
                   "--node_rank=0 --master_addr=\"192.168.1.1\" \\\n    --master_port=12345 \\\n"
                   "    $(which fairseq-train) data-bin/wmt16_en_de_bpe32k \\\n    --fp16",
                   "torchrun procs=8 nodes=2"},
        PublicLine{"left in the background",
                   "nohup torchrun --nproc_per_node=8 t.py > o.log 2>&1 "
                   "&\necho $! > pid",
                   "node procs=8"}));

INSTANTIATE_TEST_SUITE_P(
    Frameworks, PublicStart,
    ::testing::Values(
        PublicLine{"mlfoundations/open_clip README.md",
                   "cd open_clip/src\ntorchrun --nproc_per_node 4 -m open_clip_train.main \\\n"
                   "    --train-data=\"/data/{00000..41455}.tar\" --batch-size 320",
                   "torchrun procs=4 open_clip_train.main"},
        PublicLine{"axolotl-ai-cloud/axolotl README.md",
                   "axolotl train examples/llama-3/lora-1b.yml", "node"},
        PublicLine{"axolotl-ai-cloud/axolotl README.md of 0.4",
                   "accelerate launch -m axolotl.cli.train examples/openllama-3b/lora.yml",
                   "accelerate axolotl.cli.train"},
        PublicLine{"hiyouga/LLaMA-Factory examples/README.md",
                   "FORCE_TORCHRUN=1 NNODES=2 NODE_RANK=0 MASTER_ADDR=192.168.0.1 "
                   "MASTER_PORT=29500 llamafactory-cli train examples/a.yaml",
                   "node nodes=2"},
        PublicLine{"pytorch/torchtune README.md",
                   "tune run --nproc_per_node 8 full_finetune_distributed --config llama3/70B_full",
                   "node procs=8"},
        PublicLine{"OpenRLHF/OpenRLHF README.md",
                   "deepspeed --module openrlhf.cli.train_sft \\\n   --max_len 4096 \\\n   "
                   "--zero_stage 2",
                   "deepspeed openrlhf.cli.train_sft"},
        PublicLine{"facebookresearch/detr README.md",
                   "python -m torch.distributed.launch --nproc_per_node=8 --use_env main.py "
                   "--coco_path /path/to/coco",
                   "torchrun procs=8 main.py"},
        PublicLine{"ultralytics/yolov5 README.md",
                   "python -m torch.distributed.run --nproc_per_node 2 train.py --batch 64 "
                   "--data coco.yaml --device 0,1",
                   "torchrun procs=2 train.py"},
        PublicLine{"NVIDIA/NeMo: megatron_gpt_pretraining",
                   "CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nnodes 1 --nproc-per-node 8 "
                   "--rdzv-endpoint=localhost:0 megatron_gpt_pretraining.py trainer.devices=8",
                   "torchrun procs=8 nodes=1 megatron_gpt_pretraining.py"},
        PublicLine{"facebookresearch/detectron2 GETTING_STARTED.md",
                   "python tools/train_net.py --num-gpus 8 --config-file configs/a.yaml",
                   "node procs=8"},
        PublicLine{"a fork of detectron2, with a pipe",
                   "CUDA_VISIBLE_DEVICES=0,1 python3 tools/train_net.py --num-gpus 2 \\\n\t"
                   "--config-file configs/fcos/a.yaml 2>&1 | tee log/train_log.txt",
                   "node procs=2 devices=2"},
        PublicLine{"facebookresearch/detectron2: one GPU is one process",
                   "python train_net.py --num-gpus 1 --config-file configs/a.yaml",
                   "plain procs=1 train_net.py"},
        PublicLine{"pytorch/examples imagenet README.md",
                   "python main.py -a resnet50 --dist-url 'tcp://127.0.0.1:1234' --dist-backend "
                   "'nccl' --multiprocessing-distributed --world-size 1 --rank 0 /data",
                   "node"},
        PublicLine{"pytorch/examples ddp-tutorial-series: mp.spawn in the script",
                   "python multigpu.py 50 10", "node"},
        PublicLine{
            "facebookresearch/detectron2 GETTING_STARTED.md, by its first line",
            "cd tools/ && ./train_net.py --num-gpus 8 \\\n  --config-file ../configs/COCO.yaml",
            "node procs=8"},
        PublicLine{"pytorch/examples imagenet README.md, one node",
                   "python main.py -a resnet50 --dist-url 'tcp://127.0.0.1:9999' --dist-backend "
                   "'nccl' --multiprocessing-distributed --world-size 1 --rank 0 /imagenet",
                   "node"},
        PublicLine{"pytorch/examples imagenet README.md, node 0 of two",
                   "python main.py -a resnet50 --dist-url 'tcp://10.0.0.1:9999' --dist-backend "
                   "'nccl' --multiprocessing-distributed --world-size 2 --rank 0 /imagenet",
                   "refused: run: --world-size 2 with one --rank: launch starts run on every"},
        PublicLine{"the same, with the variables of a node",
                   "python main.py --dist-url tcp://$MASTER_ADDR:$MASTER_PORT "
                   "--multiprocessing-distributed --world-size 2 --rank $NODE_RANK /imagenet",
                   "node nodes=2"},
        PublicLine{"Lightning-AI/litgpt tutorials, several devices",
                   "litgpt finetune_lora meta-llama/Llama-2-7b-hf --devices 4 --num_nodes 2 "
                   "--data JSON",
                   "plain procs=4 nodes=2"},
        PublicLine{"Lightning-AI/litgpt as a module",
                   "python -m litgpt finetune_full --devices 4 m", "plain procs=4 -m"},
        PublicLine{"facebookresearch/fairseq docs",
                   "fairseq-train data-bin/wmt --distributed-world-size 4 --arch transformer",
                   "plain procs=4"},
        PublicLine{"jzhang38/TinyLlama pretrain, by the module",
                   "CUDA_VISIBLE_DEVICES=0,1 python -m lightning run model --node-rank=0 "
                   "--accelerator=cuda --devices=2 --num-nodes=1 pretrain/tinyllama.py --devices 2",
                   "node procs=2 devices=2"},
        PublicLine{"jzhang38/TinyLlama PRETRAIN.md",
                   "lightning run model --node-rank=0 --main-address=172.16.101.5 --devices=8 "
                   "--num-nodes=2 pretrain/tinyllama.py",
                   "refused: run: launch starts it on every node, and each lightning would"},
        PublicLine{"the same, with the variables of a node",
                   "lightning run model --node-rank=$NODE_RANK --main-address=$MASTER_ADDR "
                   "--devices=8 --num-nodes=2 pretrain/tinyllama.py",
                   "node procs=8 nodes=2"},
        PublicLine{"mosaicml/composer docs, two nodes",
                   "composer -n 4 --world_size 8 train.py c.yaml", "node procs=4 nodes=2"},
        PublicLine{"huggingface/trl docs: a server beside the training",
                   "CUDA_VISIBLE_DEVICES=0 trl vllm-serve --model Qwen/Qwen2.5-0.5B &\n"
                   "CUDA_VISIBLE_DEVICES=1 accelerate launch --num_processes 1 train_grpo.py",
                   "node procs=1 devices=2"},
        PublicLine{"users of composer: a limit of time, beside other commands",
                   "python prep.py\ntimeout 9h composer -n 4 --world_size 8 t.py",
                   "node procs=4 nodes=2"},
        PublicLine{"mosaicml/composer docs, variables of one of two nodes",
                   "NODE_RANK=0 WORLD_SIZE=16 MASTER_ADDR=10.0.0.1 MASTER_PORT=7501 "
                   "composer -n 8 train.py c.yaml",
                   "refused: run: launch starts it on every node, and each composer would"},
        PublicLine{"users of composer: a number of the node for each",
                   "case $(hostname) in a) NODE_RANK=0;; *) NODE_RANK=1;; esac\nexport NODE_RANK\n"
                   "composer -n 4 --world_size 8 --node_rank $NODE_RANK t.py",
                   "node procs=4 nodes=2"},
        PublicLine{"users of composer: one number of the node",
                   "NODE_RANK=0\ncomposer -n 4 --world_size 8 --node_rank $NODE_RANK t.py",
                   "refused: run: launch starts it on every node, and each composer would"},
        PublicLine{"users of composer: the number that the start gives",
                   "export NODE_RANK=${NODE_RANK:-0}\ncomposer -n 4 --world_size 8 t.py",
                   "node procs=4 nodes=2"},
        PublicLine{"mosaicml/composer docs, one of two nodes",
                   "composer -n 4 --world_size 8 --node_rank 1 train.py c.yaml",
                   "refused: run: launch starts it on every node, and each composer would"},
        PublicLine{"PaddlePaddle docs",
                   "python -u -m paddle.distributed.launch --gpus \"0,1\" train.py --a",
                   "node procs=2"},
        PublicLine{"axolotl-ai-cloud/axolotl docs/cli",
                   "axolotl train config.yml --launcher torchrun -- --nproc_per_node=2 --nnodes=1",
                   "node procs=2"},
        PublicLine{"LAMP, of accelerate",
                   "accelerate launch --gpu_ids 0,1 --num_processes 1 experiment.py --multi_gpus",
                   "accelerate procs=1 devices=2 experiment.py"},
        PublicLine{"facebookresearch/detr README",
                   "python run_with_submitit.py --ngpus 8 --nodes 2 --timeout 3000",
                   "plain run_with_submitit.py"},
        PublicLine{"kubeflow docs", "kubectl apply -f pytorchjob.yaml",
                   "refused: run: kubectl apply hands the training to another scheduler"},
        PublicLine{"SkyPilot docs", "sky launch -c mycluster task.yaml",
                   "refused: run: sky launch hands the training to another scheduler"},
        PublicLine{"Ray docs", "ray submit cluster.yaml train.py",
                   "refused: run: ray submit hands the training to another scheduler"},
        PublicLine{"a service beside it", "kubectl apply -f svc.yaml\npython train.py", "plain"},
        PublicLine{"Lightning-AI/litgpt README.md",
                   "litgpt pretrain --config pretrain/tinyllama.yaml", "plain"},
        PublicLine{"huggingface/trl README.md",
                   "trl sft --model_name_or_path Qwen/Qwen2.5-0.5B --output_dir o", "node"}));

INSTANTIATE_TEST_SUITE_P(
    Elsewhere, PublicStart,
    ::testing::Values(
        PublicLine{"pytorch/examples ddp-tutorial-series slurm/sbatch_run.sh",
                   "srun torchrun \\\n--nnodes 4 \\\n--nproc_per_node 1 \\\n--rdzv_id $RANDOM "
                   "multinode_torchrun.py 50 10",
                   "refused: run: it starts srun"},
        PublicLine{"OpenRLHF/OpenRLHF README.md, with ray",
                   "ray job submit --address=\"http://127.0.0.1:8265\" \\\n   -- python3 -m "
                   "openrlhf.cli.train_ppo_ray --ref.num_nodes 1",
                   "refused: run: it starts ray job"},
        PublicLine{"a README with docker",
                   "docker run --gpus all -v $PWD:/w img torchrun --nproc_per_node=8 train.py",
                   "refused: run: it starts docker run"},
        PublicLine{"pdsh", "pdsh -w node[0-1] torchrun --nproc_per_node=8 train.py",
                   "refused: run: it starts pdsh"},
        PublicLine{"ssh with a quoted command",
                   "ssh node1 'cd x && torchrun --nproc_per_node=8 train.py'",
                   "refused: run: it starts ssh"},
        PublicLine{"ssh for something else", "ssh data tar -cf - set | tar -xf -\npython train.py",
                   "plain"},
        PublicLine{"a GPU cloud's guide: mpirun as a remote shell",
                   "mpirun -np 16 -H a:8,b:8 -x MASTER_ADDR=1.2.3.4 -bind-to none python train.py",
                   "refused: run: it starts mpirun"}));

TEST(PublicStart, WhatStaysInTheBackgroundIsWaitedFor) {
  const auto line = ReadLaunchLine("nohup ./prepare > log &\npython train.py --fold 0 &", {});
  ASSERT_TRUE(line) << FormatError(line.error());
  EXPECT_NE(line->shell.find("\nwait $!;"), std::string::npos) << line->shell;
  const auto waits = ReadLaunchLine("python a.py &\npython b.py &\nwait", {});
  ASSERT_TRUE(waits) << FormatError(waits.error());
  EXPECT_EQ(waits->shell.find("launch_status"), std::string::npos) << waits->shell;
}

TEST(PublicStart, WhatRunsBesideTheTrainingIsNotWaitedFor) {
  for (const char* run :
       {"tensorboard --logdir runs &\ntorchrun --nproc_per_node=2 train.py",
        "tensorboard --logdir runs & python a.py", "python -m http.server & deepspeed train.py"}) {
    const auto line = ReadLaunchLine(run, {});
    ASSERT_TRUE(line) << FormatError(line.error());
    EXPECT_EQ(line->shell.find("launch_status"), std::string::npos) << line->shell;
    for (const Finding& finding : line->warnings)
      EXPECT_NE(finding.code, "exit_code_hidden") << run;
  }
}

TEST(PublicStart, SaysWhereTheExitCodeIsHidden) {
  const std::pair<const char*, bool> cases[] = {
      {"torchrun t.py; echo done", true},
      {"set -e; torchrun t.py; echo done", false},
      {"set -x -e\ntorchrun t.py\necho done", false},
      {"set -o errexit\ntorchrun t.py\necho done", false},
      {"set -exo pipefail\ntorchrun t.py 2>&1 | tee a | grep x\necho done", false},
      {"set -x\ntorchrun t.py\necho done", true},
      {"set -e\nset +e\ntorchrun t.py\necho done", true},
      {"true && torchrun t.py | tee a", true},
      {"true && torchrun t.py || exit 1", false},
      {"true && torchrun t.py || true", true},
  };
  for (const auto& [run, hidden] : cases) {
    const auto line = ReadLaunchLine(run, {});
    ASSERT_TRUE(line) << FormatError(line.error());
    const bool said =
        std::any_of(line->warnings.begin(), line->warnings.end(),
                    [](const Finding& finding) { return finding.code == "exit_code_hidden"; });
    EXPECT_EQ(said, hidden) << run;
  }
}

TEST(PublicStart, FunctionsOfLoginShellsAreNamed) {
  for (const char* run : {"conda activate tune\npython a.py && python b.py",
                          "module load cuda\npython a.py && python b.py"}) {
    const auto line = ReadLaunchLine(run, {});
    ASSERT_TRUE(line) << FormatError(line.error());
    ASSERT_FALSE(line->warnings.empty()) << run;
    EXPECT_EQ(line->warnings[0].code, "login_shell_needed") << run;
  }
  const auto sourced = ReadLaunchLine(
      "source $HOME/miniconda3/etc/profile.d/conda.sh\nconda activate tune\npython a.py", {});
  ASSERT_TRUE(sourced) << FormatError(sourced.error());
  EXPECT_TRUE(sourced->warnings.empty());
}

TEST(PublicStart, AScriptThatTakesRankForSeveralProcessesIsKnownByItsText) {
  LaunchLineOptions options;
  // karpathy/nanoGPT train.py
  const std::string asks = "ddp = int(os.environ.get('RANK', -1)) != -1 # is this a ddp run?\n";
  options.files["train.py"] = asks +
                              "if ddp:\n    init_process_group(backend=backend)\n"
                              "    device = f'cuda:{ddp_local_rank}'\n"
                              "    torch.cuda.set_device(device)\n";
  const auto line = ReadLaunchLine("python train.py --device=cpu", options);
  ASSERT_TRUE(line) << FormatError(line.error());
  EXPECT_TRUE(line->rank_means_several);
  options.files["train.py"] = asks;
  EXPECT_FALSE(ReadLaunchLine("python train.py --device=cpu", options)->rank_means_several);
  options.files["train.py"] = "rank = int(os.environ['RANK'])  # environ.get('RANK', -1)\n";
  EXPECT_FALSE(ReadLaunchLine("python train.py --device=cpu", options)->rank_means_several);
}

TEST(PublicStart, AScriptThatSetsItsDevicesIsNamed) {
  LaunchLineOptions options;
  options.files["train.py"] = "import os\nos.environ[\"CUDA_VISIBLE_DEVICES\"] = '0,1'\n";
  const auto line = ReadLaunchLine("torchrun --nproc_per_node=2 train.py", options);
  ASSERT_TRUE(line) << FormatError(line.error());
  ASSERT_EQ(line->warnings.size(), 1U);
  EXPECT_EQ(line->warnings[0].code, "visible_devices_set");
  options.files["train.py"] = "if os.environ['CUDA_VISIBLE_DEVICES'] == '': pass\n";
  EXPECT_TRUE(ReadLaunchLine("torchrun --nproc_per_node=2 train.py", options)->warnings.empty());
}

TEST(PublicStart, AScriptThatSubmitsIsToldOrRefused) {
  LaunchLineOptions options;
  const std::string run = "python run_with_submitit.py --ngpus 8 --nodes 2";
  const auto named = ReadLaunchLine(run, options);
  ASSERT_TRUE(named) << FormatError(named.error());
  ASSERT_EQ(named->warnings.size(), 1U);
  EXPECT_EQ(named->warnings[0].code, "submits_elsewhere");
  // facebookresearch/detr run_with_submitit.py
  const std::string text =
      "import submitit\nexecutor = submitit.AutoExecutor(folder=args.job_dir)\n";
  options.files["run_with_submitit.py"] = text;
  EXPECT_EQ(
      Reading(ReadLaunchLine(run, options)),
      "refused: run: run_with_submitit.py submits to Slurm, once for each process of the job");
  // One that has a way of its own beside it.
  options.files["train.py"] =
      "import submitit\nif args.slurm:\n    executor = submitit.AutoExecutor(folder=args.job_dir)\n"
      "else:\n    train(args)\n";
  EXPECT_EQ(ReadLaunchLine("python train.py", options)->warnings.size(), 1U);
}

TEST(PublicStart, AModuleOfTheUsersOwnIsNoLauncher) {
  for (const char* name : {"tune", "fabric", "swift", "megatron", "composer", "trl"}) {
    const std::string run = std::string("python -m ") + name + " --lr 1e-4";
    EXPECT_EQ(Reading(ReadLaunchLine(run, {})), "plain -m") << run;
  }
}

// OpenRLHF README.md: a Ray of the text's own, and the training in it.
TEST(PublicStart, ATextMaySubmitToTheRayThatItStarts) {
  const std::string start = "ray start --head --node-ip-address 0.0.0.0 --num-gpus 8\n";
  const std::string submit = "ray job submit --address=\"http://127.0.0.1:8265\" ";
  const std::string train = "-- python3 -m openrlhf.cli.train_ppo_ray --ref_num_nodes 1";
  const auto line = ReadLaunchLine(start + submit + train, {});
  EXPECT_EQ(Reading(line), "node procs=8");
  for (const Finding& one : line->warnings) EXPECT_NE(one.code, "exit_code_hidden") << one.says;
  const auto left = ReadLaunchLine(start + submit + "--no-wait " + train, {});
  EXPECT_EQ(Reading(left),
            "refused: run: ray job submit --no-wait ends at once, and the job with it");
  EXPECT_TRUE(ReadLaunchLine(start + submit + train + " --no-wait", {}));
  EXPECT_EQ(Reading(ReadLaunchLine(submit + train, {})),
            "refused: run: it starts ray job, which launch cannot hold to a plan");
}

TEST(PublicStart, AWorldSizeOfNobodysLauncherIsAnArgument) {
  EXPECT_EQ(Reading(ReadLaunchLine("python train.py --distributed-world-size 1", {})),
            "plain train.py");
  EXPECT_EQ(Reading(ReadLaunchLine("python -m fairseq_cli.train d --distributed-world-size 4", {})),
            "plain procs=4 -m");
}

INSTANTIATE_TEST_SUITE_P(
    QuotedWords, PublicStart,
    ::testing::Values(
        PublicLine{"VLM_Distill, its start: a launcher in quotes, with a way out",
                   "PROJECT_DIR=\"${PROJECT_DIR:-$(pwd)}\"\n"
                   "TORCHRUN=\"${PROJECT_DIR}/.venv/bin/torchrun\"\n"
                   "[[ -x \"${TORCHRUN}\" ]] || TORCHRUN=\"torchrun\"\n"
                   "\"${TORCHRUN}\" --nproc_per_node \"${NPROC_PER_NODE:-8}\" train.py",
                   "node procs=8"},
        PublicLine{"the same with an environment that nobody here knows",
                   "T=\"${VENV}/bin/torchrun\"\n\"${T}\" --nproc_per_node 8 train.py",
                   "node procs=8"},
        PublicLine{"and without quotes", "T=${VENV}/bin/torchrun\n$T --nproc_per_node 8 train.py",
                   "node procs=8"},
        PublicLine{"accelerate by its path in quotes",
                   "ACC=/opt/x/bin/accelerate\n\"$ACC\" launch --num_processes 4 train.py",
                   "node procs=4"}));

INSTANTIATE_TEST_SUITE_P(
    WithinOthers, PublicStart,
    ::testing::Values(
        PublicLine{"NoCap-Test: a benchmark that keeps the output",
                   "bench() {\n  out=$(timeout 550 uv run torchrun --standalone "
                   "--nproc_per_node=4 train_gpt.py 2>&1)\n  echo \"$out\" | tail -3\n}\nbench a",
                   "node procs=4"},
        PublicLine{"backquotes", "out=`torchrun --nproc_per_node=4 train.py 2>&1`; echo $out",
                   "node procs=4"},
        PublicLine{"a question for the launcher is no call",
                   "WHERE=$(dirname \"$(which torchrun)\"); python train.py", "plain train.py"},
        PublicLine{"a function that evaluates what it is given",
                   "run() { echo \"+ $1\"; eval \"$1\"; }\n"
                   "run \"torchrun --nproc_per_node=4 t.py\"",
                   "node procs=4"},
        PublicLine{"a function that says what it is given",
                   "say() { echo \"+ $1\"; }\nsay \"torchrun --nproc_per_node=4 t.py\"\n"
                   "python t.py",
                   "plain"},
        PublicLine{"a function that nobody calls",
                   "multi() {\n  torchrun --nproc_per_node=8 t.py\n}\n"
                   "torchrun --nproc_per_node=2 t.py",
                   "node procs=2"},
        PublicLine{"a function that is called by its name in a variable",
                   "multi() {\n  torchrun --nproc_per_node=8 t.py\n}\n\"${MODE:-multi}\"",
                   "node procs=8"},
        PublicLine{"a function that one branch of a case calls",
                   "set -- train\ntrain() {\n  torchrun --nproc_per_node=2 t.py\n}\n"
                   "case train in\n  train) train ;;\n  *) exit 1 ;;\nesac",
                   "node procs=2"}));

INSTANTIATE_TEST_SUITE_P(
    CountsOfTheNode, PublicStart,
    ::testing::Values(
        PublicLine{"TRL with a GPU left for vLLM, the job says no number",
                   "export GPUS=$(($(nvidia-smi --list-gpus | wc -l) - 1))\n"
                   "accelerate launch --num_processes=$GPUS train.py",
                   "accelerate procs=unknown train.py"},
        PublicLine{"the same asked of torch",
                   "N=$(python -c \"import torch; print(torch.cuda.device_count() - 1)\")\n"
                   "true; torchrun --nproc_per_node=$N train.py",
                   "node"},
        PublicLine{"a number that only the node knows, read back with a default",
                   "g=$(count_gpus)\ng=\"${g:-1}\"\ntrue; torchrun --nproc_per_node=$g t.py",
                   "node"},
        PublicLine{"one of two values, read back with a default",
                   "if command -v nvidia-smi; then g=$(nvidia-smi -L | wc -l); else g=1; fi\n"
                   "g=\"${g:-1}\"\ntorchrun --nproc_per_node=$g t.py",
                   "node"},
        PublicLine{"an argument that is not given",
                   "n=$1\ntrue; torchrun --nproc_per_node=${n:-8} t.py", "node procs=8"}));

TEST(PublicStart, ANumberOfGpusLessOneIsComputedWhereTheJobSaysIt) {
  JobSpec spec;
  spec.gpus_written = true;
  spec.gpus = {GpuRequest{}};
  spec.gpus[0].count = 8;
  for (const char* run :
       {"export GPUS=$(($(nvidia-smi --list-gpus | wc -l) - 1))\n"
        "accelerate launch --num_processes=$GPUS train.py",
        "N=$(nvidia-smi -L | wc -l)\nexport P=$((N - 1))\n"
        "accelerate launch --num_processes $P train.py",
        "N=$(expr $(nvidia-smi -L | wc -l) - 1)\ntorchrun --nproc_per_node $N train.py",
        "N=$(python -c 'import torch; print(torch.cuda.device_count() - 1)')\n"
        "torchrun --nproc_per_node $N train.py"}) {
    const auto line = ReadLaunchLine(run, LineOptions(spec, {}));
    ASSERT_TRUE(line) << FormatError(line.error());
    EXPECT_EQ(line->procs, ProcsWord::kNumber) << run;
    EXPECT_EQ(line->procs_number, 7) << run;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Together, PublicStart,
    ::testing::Values(
        PublicLine{"a function with & that is called twice",
                   "run_bg() {\n  CUDA_VISIBLE_DEVICES=$1 torchrun --nproc_per_node=1 t.py &\n}\n"
                   "run_bg 0\nrun_bg 1\nwait",
                   "refused: run: it starts several of torchrun at the same time"},
        PublicLine{"the same once",
                   "run_bg() {\n  torchrun --nproc_per_node=2 t.py &\n}\nrun_bg 0\nwait",
                   "node procs=2"},
        PublicLine{"eval with & in a loop",
                   "for g in 0,1 2,3; do\n cmd=\"torchrun --nproc_per_node=2 t.py --d $g\"\n"
                   " eval \"$cmd &\"\ndone\nwait",
                   "refused: run: it starts several of torchrun at the same time"},
        PublicLine{"deep-diver/open-r1 commands.md: a server and a training, both by nohup",
                   "nohup bash -c 'CUDA_VISIBLE_DEVICES=0 trl vllm-serve --model m' > v.log &\n"
                   "nohup bash -c 'CUDA_VISIBLE_DEVICES=1,2,3 accelerate launch --num_processes 3 "
                   "t.py' > t.log &\nwait",
                   "node procs=3 devices=3"},
        PublicLine{"st24hour/dino_sm docker1.sh",
                   "docker run --gpus all -it --rm -v $(pwd):$(pwd) -w $(pwd) img:1 sh train1.sh",
                   "refused: run: it starts docker run, which launch cannot hold to a plan"},
        PublicLine{"a container in front of the training",
                   "docker run --rm --gpus all img nvidia-smi; python train.py", "plain"},
        PublicLine{"a server in a container",
                   "docker run -d --gpus \"device=0\" vllm/vllm-openai; torchrun "
                   "--nproc_per_node 2 t.py",
                   "node procs=2"},
        PublicLine{"nithinvc/SkyRL skyrl-train/examples/geometry-3k/run_geometry_3k.sh",
                   "N=4\nuv run --isolated --extra vllm -m skyrl_train.entrypoints.main_base \\\n"
                   "  trainer.placement.policy_num_gpus_per_node=$N generator.backend=vllm",
                   "node procs=4"},
        PublicLine{"SkyRL with GPUs of its own for the engines",
                   "uv run --isolated -m skyrl_train.entrypoints.main_base "
                   "trainer.placement.colocate_all=false "
                   "trainer.placement.policy_num_gpus_per_node=4",
                   "node"},
        PublicLine{"NVIDIA-NeMo/RL docs", "uv run examples/run_grpo.py cluster.gpus_per_node=8",
                   "node procs=8"},
        PublicLine{"NVIDIA-NeMo/Automodel docs",
                   "uv run automodel finetune llm -c x.yaml --nproc-per-node=2", "node procs=2"},
        PublicLine{"PrimeIntellect-ai/prime-rl docs", "uv run rl @ examples/reverse_text/rl.toml",
                   "node"},
        PublicLine{"inclusionAI/AReaL docs",
                   "python3 -m areal.launcher.local examples/gsm8k.py --config c.yaml", "node"},
        PublicLine{"nerfstudio docs", "ns-train nerfacto --machine.num-devices 4 --data d",
                   "node procs=4"},
        PublicLine{"nerfstudio on one GPU", "ns-train nerfacto --data d", "plain"},
        PublicLine{"mindspore-lab/mindyolo README",
                   "msrun --worker_num=4 --local_worker_num=4 python train.py --config c.yaml",
                   "node procs=4"},
        PublicLine{
            "the same machine of two everywhere",
            "msrun --worker_num=8 --local_worker_num=4 python train.py",
            "refused: run: launch starts it on every node, and each msrun would be the same"},
        PublicLine{"msrun on two nodes",
                   "msrun --worker_num=8 --local_worker_num=4 --node_rank=$NODE_RANK python t.py",
                   "node procs=4 nodes=2"},
        PublicLine{
            "a fork of LLaMA-Factory under another name",
            "FORCE_TORCHRUN=1 NNODES=2 NODE_RANK=0 MASTER_ADDR=10.0.0.1 omnitune train x.yaml",
            "node nodes=2"},
        PublicLine{"a program that is told its ranks",
                   "cd x\nNNODES=2 NPROC_PER_NODE=8 mycli train c.yaml", "node procs=8 nodes=2"},
        PublicLine{"nodes alone", "NNODES=2 mycli train c.yaml", "plain"},
        PublicLine{"hpcaitech/ColossalAI ColossalChat examples",
                   "colossalai run --nproc_per_node 4 --hostfile hosts.txt train_sft.py",
                   "refused: run: colossalai --hostfile starts its processes on other hosts"},
        PublicLine{"ProCapNet: a queue for each GPU",
                   "for f in 0 1 2; do echo python fit.py -f $f; done | simple_gpu_scheduler "
                   "--gpus 0 1",
                   "plain"},
        PublicLine{"SimpleTuner docs", "simpletuner train example=x", "node"},
        PublicLine{"a container without the GPUs", "docker run --rm img ./prepare.sh; ./train",
                   "plain"},
        PublicLine{"a container and nothing else", "docker run --rm img ./train.sh",
                   "refused: run: it does nothing but docker run"},
        PublicLine{"a service of compose", "cd deploy && docker compose -f c.yml run --rm trainer",
                   "refused: run: it does nothing but docker compose run"},
        PublicLine{"docker-compose", "docker-compose up trainer",
                   "refused: run: it does nothing but docker-compose up"},
        PublicLine{"podman", "podman run --rm img sh t.sh",
                   "refused: run: it does nothing but podman run"},
        PublicLine{"a database of compose beside the training",
                   "docker compose up -d redis; python train.py", "plain"},
        PublicLine{"the training behind !", "docker compose up -d redis; ! ./train", "plain"},
        PublicLine{"behind builtin", "docker compose up -d redis; builtin exec ./train", "plain"},
        PublicLine{"in a variable's value", "docker compose up -d redis; OUT=$(python train.py)",
                   "plain"},
        PublicLine{"in what read takes", "docker compose up -d redis; read X < <(python train.py)",
                   "plain"},
        PublicLine{"a terminal of its own", "tmux new-session -d -s t \"bash scripts/x.sh\"",
                   "refused: run: it does nothing but tmux new-session"},
        PublicLine{"keys for a terminal",
                   "tmux new -d -s t\ntmux send-keys -t t \"cd x && bash y.sh\" C-m",
                   "refused: run: it does nothing but tmux send-keys"},
        PublicLine{"a screen", "screen -S x -dm ./x.sh",
                   "refused: run: it does nothing but screen"},
        PublicLine{"a session that is ended behind the training",
                   "./train --x; tmux kill-session -t t", "plain"},
        PublicLine{"a placeholder behind uv", "uv run torchrun --nproc_per_node=NUM_GPUS train.py",
                   "refused: run: --nproc-per-node is \"NUM_GPUS\""}));

TEST(PublicStart, AScriptThatLeavesAnUnknownProgramBehindIsRefused) {
  const auto read = [](const char* text) {
    LaunchLineOptions options;
    options.files["t.sh"] = text;
    return Reading(ReadLaunchLine("bash t.sh", options));
  };
  EXPECT_EQ(
      read("mytrain --x > l 2>&1 &\necho started\n"),
      "refused: run: t.sh leaves mytrain in the background and ends: the job would end with it");
  EXPECT_EQ(
      read("for c in a b; do\n  nohup apptainer exec --nv x.sif python3 t.py $c > $c.log &\n"
           "  echo $! >> pids\ndone\n"),
      "refused: run: t.sh leaves apptainer in the background and ends: the job would end with it");
  EXPECT_EQ(read("docker run --gpus all img python3 -m torch.distributed.launch "
                 "--nproc_per_node=2 t.py\n"),
            "refused: run: t.sh starts docker run, which launch cannot hold to a plan");
  EXPECT_EQ(read("tmux new -d 'bash x.sh'\n"),
            "refused: run: it does nothing but tmux new, and what that starts is not the job's");
  EXPECT_EQ(read("mytrain --x > l 2>&1 &\nwait\n"), "plain");
  EXPECT_EQ(read("monitor --x &\n./mytrain\n"), "plain");
}

TEST(PublicStart, AServerInFrontOfTheTrainingIsSaidToKeepItFromStarting) {
  const auto says = [](const char* run) -> std::string {
    LaunchLineOptions options;
    options.files["t.sh"] = "trl vllm-serve --model m\n\nuv run python train.py\n";
    const auto line = ReadLaunchLine(run, options);
    if (!line) return line.error().message;
    for (const Finding& one : line->warnings)
      if (one.code == "endless_command") return one.says;
    return "";
  };
  const std::string never = " does not end by itself: what stands behind it never starts";
  EXPECT_EQ(says("bash t.sh"), "`trl vllm-serve` in t.sh" + never);
  // Zityuen/open-r1-coderm run.sh
  EXPECT_EQ(says("CUDA_VISIBLE_DEVICES=0 python -m trl.scripts.vllm_serve --model m\n"
                 "CUDA_VISIBLE_DEVICES=1,2 accelerate launch --num_processes 2 t.py"),
            "`python -m trl.scripts.vllm_serve` in run" + never);
  EXPECT_EQ(says("vllm serve m | tee log\ntorchrun --nproc_per_node=2 t.py"),
            "`vllm serve` in run" + never);
  EXPECT_EQ(says("jupyter lab --no-browser\npython train.py"), "`jupyter lab` in run" + never);
  EXPECT_EQ(says("torchrun --nproc_per_node=2 t.py > log &\ntail -f log"),
            "`tail -f` in run does not end by itself: the job goes on when its training has ended");
  for (const char* run :
       {"vllm serve m &\ntorchrun --nproc_per_node=2 t.py", "vllm serve m",
        "vllm serve m 2>&1 | tee log &\npython train.py",
        "if [ $R = serve ]; then\n vllm serve m\nelse\n torchrun --nproc_per_node=2 t.py\nfi",
        "serve() {\n vllm serve m\n}\nserve &\ntorchrun --nproc_per_node=2 t.py",
        "jupyter nbconvert --to notebook --execute a.ipynb\npython train.py",
        "jupyter --version\npython train.py", "timeout 60 tail -f log\npython train.py",
        "tail -f log | grep -m1 ready\npython train.py",
        "torchrun --nproc_per_node=2 t.py &\ntail -f log --pid=$!"}) {
    EXPECT_EQ(says(run), "") << run;
  }
}

TEST(PublicStart, AScriptThatStartsItsProcessesItselfIsKnownByItsText) {
  const auto why = [](const char* text, const char* run = "python t.py") -> std::string {
    LaunchLineOptions options;
    options.files["t.py"] = options.files["pkg/t.py"] = text;
    const auto line = ReadLaunchLine(run, options);
    if (!line) return line.error().message;
    return line->start == StartKind::kPerNode ? line->read[0] : "once per rank";
  };
  const std::string own = " starts its processes itself ";
  EXPECT_EQ(why("import ray\nray.init()\n"), "t.py" + own + "(ray.init)");
  EXPECT_EQ(why("import ray\nray.init()\n", "python -m pkg.t"), "pkg.t" + own + "(ray.init)");
  EXPECT_EQ(why("import ray\nray.init()\n", "uv run --extra x t.py"), "t.py" + own + "(ray.init)");
  EXPECT_EQ(why("import subprocess\ncmd = ['torchrun',\n  '--nproc_per_node', "
                "'4']\nsubprocess.run(cmd)\n"),
            "t.py" + own + "(torchrun)");
  EXPECT_EQ(why("import os\nos.system('torchrun --nproc_per_node=4 train.py')\n"),
            "t.py" + own + "(torchrun)");
  EXPECT_EQ(why("from torch.distributed.run import main\nmain(['t.py'])\n"),
            "t.py" + own + "(torch.distributed.run)");
  EXPECT_EQ(why("elastic_launch(LaunchConfig(1, 1, 4), main)()\n"),
            "t.py" + own + "(elastic_launch)");
  // A usage text; what each rank does for itself.
  EXPECT_EQ(why("\"\"\"Run me: torchrun --nproc_per_node=4 t.py\"\"\"\nimport subprocess\n"
                "subprocess.run(['git', 'log'])\n"),
            "once per rank");
  const std::string git = "import subprocess\nsubprocess.check_output(['git', 'log'])\n";
  EXPECT_EQ(why((git + "p = ArgumentParser(epilog='torchrun --nproc_per_node=8 t.py')\n").c_str()),
            "once per rank");
  EXPECT_EQ(why((git + "raise SystemExit('torchrun --nproc_per_node=8 t.py')\n").c_str()),
            "once per rank");
  EXPECT_EQ(why("'''\ntorchrun --nproc_per_node=8 t.py; mp.spawn(f); nn.DataParallel(m)\n'''\n"),
            "once per rank");
  EXPECT_EQ(why("# it's not mp.spawn(f)\nprint('#'); mp.spawn(f)\n"), "t.py" + own + "(mp.spawn)");
  for (const char* call :
       {"subprocess.check_call(f'torchrun --nproc_per_node={n} x.py', shell=True)",
        "cmd = ('torchrun --nproc_per_node=8 x.py')\nsubprocess.run(cmd, shell=True)",
        "subprocess.run([sys.executable, '-m', 'torch.distributed.run', 'x.py'])"}) {
    EXPECT_EQ(why(call), "t.py" + own + "(torchrun)") << call;
  }
  EXPECT_EQ(why("import ray\nray.init()\nrank = os.environ['LOCAL_RANK']\n"), "once per rank");
  const std::string process =
      "import torch.multiprocessing as mp\nmp.Process(target=log_worker).start()\n";
  EXPECT_EQ(why((process + "dist.init_process_group('nccl')\nr = dist.get_rank()\n").c_str()),
            "once per rank");
  EXPECT_EQ(why((process + "dist.init_process_group('nccl',\n  rank=r, world_size=n)\n").c_str()),
            "t.py" + own + "(mp.Process)");
}

TEST(PublicStart, AHelperThatStartsProcessesLeavesTheTrainingItsRanks) {
  LaunchLineOptions options;
  options.files["tok.py"] = "import ray\nray.init()\n";
  options.files["train.py"] = "rank = int(os.environ['LOCAL_RANK'])\n";
  const auto line = ReadLaunchLine("python tok.py\npython train.py", options);
  ASSERT_TRUE(line);
  EXPECT_EQ(line->start, StartKind::kDirect);
  EXPECT_TRUE(std::ranges::any_of(line->warnings, [](const Finding& one) {
    return one.says.starts_with("tok.py starts its processes itself (ray.init), and another");
  }));
}

TEST(PublicStart, AServerIsLookedForInOnePassOverTheText) {
  std::string text = "a";
  for (int i = 0; i < 20'000; ++i) text += "&&a";
  const auto script = ReadShell(text + "&&vllm serve m&&python t.py");
  ASSERT_TRUE(script);
  EXPECT_TRUE(EndlessCommand(*script));
}

TEST(PublicStart, FlagsOfDevicesDoNotOverrideTheJob) {
  const auto read = [](const std::string& run, int gpus, std::optional<int> procs,
                       const std::string& text = "") {
    JobSpec spec;
    spec.run = run;
    spec.gpus = {{"", gpus}};
    spec.gpus_written = true;
    spec.procs_per_node = procs;
    return Reading(ReadLaunchLine(run, LineOptions(spec, {{"x.py", text}})));
  };
  EXPECT_EQ(read("python x.py --gpus 4 --num_nodes 1", 4, 1), "plain x.py");
  EXPECT_EQ(read("python x.py --num_gpus 2 --strategy dp", 1, {}), "plain x.py");
  EXPECT_EQ(read("python x.py --config-file a --num-gpus 1", 4, 4), "plain x.py");
  EXPECT_EQ(read("python x.py --config-file a --num-gpus 1", 4, {}), "plain procs=1 x.py");
  EXPECT_EQ(read("python x.py --gpus 2", 4, {}, "# 10x faster than lightning\n"), "plain x.py");
  EXPECT_EQ(read("python x.py --gpus 2", 4, {}, "from lightning import Trainer\n"),
            "plain procs=2 x.py");
  const auto words = [](const char* run) { return ReadShell(run)->commands[0].words; };
  EXPECT_EQ(DevicesNamedIn(words("x.py --gpus 4 10"), false)->count, 4);
  EXPECT_EQ(DevicesNamedIn(words("x.py --gpus 0 1 2"), false)->count, 3);
  EXPECT_FALSE(DevicesNamedIn(words("x.py --world_size 2"), false));
}

TEST(PublicStart, RayOnSeveralNodesIsSaidToBeSeveralClusters) {
  const auto says = [](const char* run, const char* nodes) {
    LaunchLineOptions options;
    options.told["NNODES"] = nodes;
    const auto line = ReadLaunchLine(run, options);
    return line && std::ranges::any_of(line->warnings, [](const Finding& one) {
             return one.code == "several_ray_clusters";
           });
  };
  EXPECT_TRUE(says("python -m verl.trainer.main_ppo trainer.n_gpus_per_node=8", "2"));
  EXPECT_TRUE(
      says("python -m verl.trainer.main_ppo trainer.n_gpus_per_node=8 trainer.nnodes=2", "1"));
  EXPECT_FALSE(
      says("python -m verl.trainer.main_ppo trainer.n_gpus_per_node=8 trainer.nnodes=1", "1"));
}

TEST(PublicStart, ACountThatNobodyKnowsIsNamed) {
  for (const char* run : {"pipenv run python -m torch.distributed.launch "
                          "--nproc_per_node=${NUM_GPUS} --use_env t.py",
                          "date\ntorchrun --nproc_per_node=${NUM_GPUS} t.py"}) {
    const auto line = ReadLaunchLine(run, {});
    ASSERT_TRUE(line) << FormatError(line.error());
    EXPECT_TRUE(std::ranges::any_of(line->warnings, [](const Finding& one) {
      return one.says.find("not known here (--nproc_per_node=${NUM_GPUS})") != std::string::npos;
    })) << run;
  }
}

TEST(PublicStart, AFlagThatTorchrunDoesNotHaveIsNamedOfScriptsToo) {
  LaunchLineOptions options;
  options.files["t.sh"] = "torchrun --nprocs_per_node=2 t.py\n";
  const auto line = ReadLaunchLine("bash t.sh", options);
  ASSERT_TRUE(line) << FormatError(line.error());
  EXPECT_TRUE(std::ranges::any_of(line->read, [](const std::string& one) {
    return one.find("--nprocs_per_node") != std::string::npos;
  }));
}

TEST(PublicStart, ATaskOfAnotherFileIsSaidNotToBeRead) {
  const auto says = [](const char* run) -> std::string {
    LaunchLineOptions options;
    options.files["t.sh"] = "cd runs && make train\n";
    const auto line = ReadLaunchLine(run, options);
    if (!line) return line.error().message;
    for (const Finding& one : line->warnings)
      if (one.code == "script_unread") return one.says.substr(0, one.says.find(" is not read"));
    return "";
  };
  // cdluminate/MyNotes
  EXPECT_EQ(says("make train-dist num_GPUs=4"), "what make train-dist starts");
  EXPECT_EQ(says("bash t.sh"), "what make train starts");
  EXPECT_EQ(says("just train"), "what just train starts");
  EXPECT_EQ(says("pixi run train"), "what pixi run train starts");
  EXPECT_EQ(says("poe train"), "what poe train starts");
  EXPECT_EQ(says("dvc repro"), "what dvc repro starts");
  EXPECT_EQ(says("wandb agent --count 3 ana/detr/ab12cd"), "what wandb agent starts");
  EXPECT_EQ(says("make -j8 && ./train_gpt2cu"), "");
  EXPECT_EQ(says("make install"), "");
  EXPECT_EQ(says("make -j 8 train"), "what make train starts");
  EXPECT_EQ(says("make -C docker build"), "");
  EXPECT_EQ(says("make -f train.mk"), "what make starts");
  EXPECT_EQ(says("make"), "what make starts");
  EXPECT_EQ(says("pixi run -e gpu train"), "what pixi run train starts");
  EXPECT_EQ(says("pixi run python train.py"), "");
}

TEST(PublicStart, OnlyComposerGetsTheWorldSize) {
  const auto both =
      ReadLaunchLine("python prep.py\ncomposer -n 4 --world_size 8 train.py c.yaml", {});
  ASSERT_TRUE(both) << FormatError(both.error());
  EXPECT_TRUE(both->shell.starts_with("composer() { \"$LAUNCH_WRAPPERS/composer\"")) << both->shell;
  EXPECT_EQ(both->shell.find("export WORLD_SIZE"), std::string::npos) << both->shell;
  const auto maybe = ReadLaunchLine(
      "if test -f a; then composer -n 4 --world_size 8 t.py; else python -m x; fi", {});
  ASSERT_TRUE(maybe) << FormatError(maybe.error());
  EXPECT_EQ(maybe->shell.find("export WORLD_SIZE"), std::string::npos) << maybe->shell;
}

TEST(PublicStart, ASubmissionBesideAnotherProgramIsNamed) {
  for (const char* run :
       {"./train_gpt2cu -i data && kubectl apply -f eval.yaml",
        "litgpt finetune x && ray submit c.yaml after.py", "uv run train && sky exec c eval.yaml",
        "make train; kubectl create -f done.yaml", "kubectl apply -f svc.yaml\npython train.py"}) {
    const auto line = ReadLaunchLine(run, {});
    ASSERT_TRUE(line) << FormatError(line.error());
    EXPECT_TRUE(std::ranges::any_of(line->warnings, [](const Finding& one) {
      return one.code == "submits_elsewhere";
    })) << run;
  }
  EXPECT_FALSE(ReadLaunchLine("git pull && kubectl apply -f job.yaml", {}));
}

TEST(PublicStart, ASubmissionBehindTheLauncherIsNamed) {
  const auto line = ReadLaunchLine(
      "timeout 23h torchrun --nproc_per_node=2 t.py; [ $? -eq 124 ] && sbatch $0", {});
  ASSERT_TRUE(line) << FormatError(line.error());
  EXPECT_TRUE(std::ranges::any_of(
      line->warnings, [](const Finding& one) { return one.code == "submits_elsewhere"; }));
}

TEST(PublicStart, SlotsThatDifferBetweenHostsAreSaid) {
  LaunchLineOptions options;
  options.files["hf"] = "a slots=4\nb slots=2\n";
  const auto line = ReadLaunchLine("deepspeed --hostfile=hf train.py", options);
  ASSERT_TRUE(line) << FormatError(line.error());
  EXPECT_TRUE(std::ranges::any_of(line->warnings, [](const Finding& one) {
    return one.says ==
           "hf gives its hosts 2 to 4 slots: launch starts the same number of processes on every "
           "node";
  }));
}

TEST(PublicStart, AWrittenNumberOfProcessesIsNotCalledUnknown) {
  LaunchLineOptions options{.launcher = LauncherKind::kDeepspeed};
  const auto has = [](const LaunchLine& line) {
    return std::ranges::any_of(line.warnings,
                               [](const Finding& one) { return one.code == "processes_per_node"; });
  };
  EXPECT_TRUE(has(*ReadLaunchLine("python t.py", options)));
  options.procs_written = true;
  EXPECT_FALSE(has(*ReadLaunchLine("python t.py", options)));
}

}  // namespace
}  // namespace launch
