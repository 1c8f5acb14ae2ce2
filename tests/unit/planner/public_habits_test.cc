// Launch lines as people write them around public programs: framework launchers, scripts that pass
// numbers on, commands put together in variables. Each is cut to the shape that a launcher reads,
// with made-up names; the first field says where such lines stand.
#include <gtest/gtest.h>

#include "tests/unit/planner/public_line.h"

namespace launch {
namespace {

// pytorch/torchtitan run_train.sh
constexpr const char* kTitan = R"(#!/usr/bin/bash
set -ex
NGPU=${NGPU:-"8"}
export LOG_RANK=${LOG_RANK:-0}
CONFIG_FILE=${CONFIG_FILE:-"./configs/debug_model.toml"}
overrides=""
if [ $# -ne 0 ]; then
    overrides="$*"
fi
PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True" \
torchrun --nproc_per_node=${NGPU} --rdzv_backend c10d --rdzv_endpoint="localhost:0" \
--local-ranks-filter ${LOG_RANK} --role rank --tee 3 \
-m torchtitan.train --job.config_file ${CONFIG_FILE} $overrides
)";

// the same, later: one process that plays the others
constexpr const char* kTitanModes = R"(#!/usr/bin/bash
set -ex
NGPU=${NGPU:-"8"}
export LOG_RANK=${LOG_RANK:-0}
TRAIN_FILE=${TRAIN_FILE:-"torchtitan.train"}
COMM_MODE=${COMM_MODE:-""}
if [ -n "$COMM_MODE" ]; then
    echo "Running with comm_mode=${COMM_MODE}"
    NGPU="${NGPU}" LOCAL_RANK=0 python3 -m "${TRAIN_FILE}" "$@" --comm.mode=${COMM_MODE}
else
    torchrun --nproc_per_node=${NGPU} --rdzv_backend c10d --rdzv_endpoint="localhost:0" \
    --local-ranks-filter ${LOG_RANK} --role rank --tee 3 -m ${TRAIN_FILE} "$@"
fi
)";

// forks of open-mmlab, tools/dist_train.sh with the interpreter in a variable
constexpr const char* kDistTrain = R"(#!/usr/bin/env bash
PYTHON=${PYTHON:-"python"}
CONFIG=$1
GPUS=$2
PORT=${PORT:-29500}
$PYTHON -m torch.distributed.launch --nproc_per_node=$GPUS --master_port=$PORT \
    $(dirname "$0")/train.py $CONFIG --launcher pytorch ${@:3}
)";

// open-mmlab tools/slurm_train.sh
constexpr const char* kSlurmTrain = R"(#!/usr/bin/env bash
set -x
PARTITION=$1
GPUS=${GPUS:-8}
srun -p ${PARTITION} --gres=gpu:8 --ntasks=${GPUS} python -u tools/train.py --launcher="slurm"
)";

class PublicHabit : public ::testing::TestWithParam<PublicLine> {};

TEST_P(PublicHabit, IsReadAsItsAuthorMeansIt) {
  LaunchLineOptions options;
  options.files["./run_train.sh"] = kTitan;
  options.files["./run_modes.sh"] = kTitanModes;
  options.files["tools/dist_train.sh"] = kDistTrain;
  options.files["./tools/slurm_train.sh"] = kSlurmTrain;
  options.files["scripts/torchrun_train.sh"] =
      "set -euo pipefail\nNPROC=${1:-2}; shift || true\n"
      "torchrun --nproc_per_node ${NPROC} train.py --distributed 1 \"$@\"\n";
  options.files["run.sh"] =
      "accelerate launch --num_processes=$1 --gpu_ids=$2 --main_process_port=$3 01_train.py\n";
  options.files["outer.sh"] = "export NPROC=4\ncd src\nbash inner.sh cfg.yaml\n";
  options.files["src/inner.sh"] = "torchrun --nproc_per_node=$NPROC train.py $1\n";
  options.files["either.sh"] =
      "if [ -n \"$SLURM_JOB_ID\" ]; then\n  srun python train.py\nelse\n"
      "  torchrun --nproc_per_node=4 train.py\nfi\n";
  options.files["accel.yaml"] = "distributed_type: FSDP\nnum_processes: 8\n";
  options.files["stylegan.py"] =
      "torch.multiprocessing.spawn(fn=subprocess_fn, args=(c,), nprocs=c.num_gpus)\n";
  const std::string reading = Reading(ReadLaunchLine(GetParam().run, options));
  EXPECT_EQ(reading.rfind("refused", 0) == 0
                ? reading.substr(0, std::string(GetParam().reading).size())
                : reading,
            GetParam().reading)
      << GetParam().source;
}

INSTANTIATE_TEST_SUITE_P(
    Frameworks, PublicHabit,
    ::testing::Values(
        PublicLine{"InternLM/xtuner README.md",
                   "NPROC_PER_NODE=8 xtuner train internlm2_chat_7b_qlora --deepspeed z2",
                   "node procs=8"},
        PublicLine{"modelscope/ms-swift README.md",
                   "CUDA_VISIBLE_DEVICES=0,1,2,3 \\\nNPROC_PER_NODE=4 \\\nswift sft \\\n"
                   "    --model a/b \\\n    --train_type lora",
                   "node procs=4 devices=4"},
        PublicLine{"modelscope/ms-swift examples: two nodes",
                   "NNODES=2 NODE_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 "
                   "NPROC_PER_NODE=8 swift sft --model a/b",
                   "node procs=8 nodes=2"},
        PublicLine{"users of LLaMA-Factory",
                   "FORCE_TORCHRUN=1 CUDA_VISIBLE_DEVICES=0,1,2,3 llamafactory-cli train a.yaml",
                   "node devices=4"},
        PublicLine{"users of LLaMA-Factory, as a module",
                   "FORCE_TORCHRUN=1 python -m llamafactory.cli train a.yaml", "node"},
        PublicLine{"users of LLaMA-Factory, in a script",
                   "set -e\nsource ~/c/etc/profile.d/conda.sh\nconda activate ft\n"
                   "export CUDA_VISIBLE_DEVICES=0,1\nexport NPROC_PER_NODE=2\n"
                   "llamafactory-cli train a.yaml",
                   "node procs=2 devices=2"},
        PublicLine{"pytorch/torchtune README.md",
                   "tune run --nnodes 1 --nproc_per_node 4 full_finetune_distributed --config a/8B",
                   "node procs=4"},
        PublicLine{"users of torchtune: the number from a count of the GPUs",
                   "NGPU=$(nvidia-smi --list-gpus | wc -l)\ntune run --nproc_per_node \"${NGPU}\" "
                   "full_finetune_distributed --config a.yaml",
                   "node procs=gpu"},
        PublicLine{"Lightning-AI/pytorch-lightning docs of Fabric",
                   "fabric run --accelerator=cuda --devices=4 --strategy=fsdp train.py",
                   "node procs=4"},
        PublicLine{"Lightning-AI/pytorch-lightning docs of Fabric, two nodes",
                   "fabric run --devices=8 --num-nodes=2 --node-rank=0 --main-address=1.2.3.4 t.py",
                   "refused: run: launch starts it on every node, and each fabric would"},
        PublicLine{"mosaicml/llm-foundry scripts/README.md",
                   "composer -n 8 train/train.py train/yamls/pretrain/mpt-125m.yaml "
                   "data_local=d max_duration=10ba",
                   "node procs=8"},
        PublicLine{"hpcaitech/ColossalAI examples, in loops",
                   "export GPUNUM=2\nfor BS in 8 16\ndo\ncolossalai run \\\n  --nproc_per_node "
                   "${GPUNUM} \\\n  --master_port 29505 \\\n  bench.py --batch_size ${BS}\ndone",
                   "node procs=2"},
        PublicLine{"ultralytics docs", "yolo detect train data=c.yaml model=m.pt device=0,1",
                   "node procs=2"},
        PublicLine{"ultralytics docs, one GPU", "yolo detect train data=c.yaml device=0", "plain"},
        PublicLine{"MIC-DKFZ/nnUNet documentation, two GPUs",
                   "nnUNetv2_train 2 3d_fullres 0 -num_gpus 2", "node procs=2"},
        PublicLine{"MIC-DKFZ/nnUNet documentation", "nnUNetv2_train 2 3d_fullres 0", "plain"},
        PublicLine{"volcengine/verl examples",
                   "python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo "
                   "trainer.n_gpus_per_node=8 trainer.nnodes=1",
                   "node procs=8"},
        PublicLine{"NVIDIA/NeMo examples: torchrun",
                   "torchrun --nproc_per_node=8 pretrain.py trainer.devices=8 trainer.num_nodes=1",
                   "torchrun procs=8 pretrain.py"},
        PublicLine{"NVIDIA/NeMo examples: python alone",
                   "python asr_ctc.py --config-path=c trainer.devices=2 trainer.accelerator='gpu'",
                   "plain procs=2 asr_ctc.py"},
        PublicLine{"Lightning's command line", "python main.py fit --trainer.devices 4 -c a.yaml",
                   "plain procs=4 main.py"},
        PublicLine{"EleutherAI/gpt-neox README.md",
                   "python ./deepy.py train.py -d configs 125M.yml local_setup.yml", "node"},
        PublicLine{"espnet: processes of its own",
                   "python3 -m espnet2.bin.asr_train --ngpu 4 --multiprocessing_distributed true",
                   "node procs=4"},
        PublicLine{"espnet: one process",
                   "python3 -m espnet2.bin.asr_train --ngpu 1 --multiprocessing_distributed false",
                   "plain -m"},
        PublicLine{"NVlabs/stylegan3 README.md",
                   "python stylegan.py --outdir=runs --cfg=stylegan3-t --gpus=8 --batch=32",
                   "node procs=8"},
        PublicLine{"facebookresearch/detectron2 projects",
                   "python tools/lazyconfig_train_net.py --config-file p/x.py --num-gpus 8",
                   "node procs=8"}));

INSTANTIATE_TEST_SUITE_P(
    Scripts, PublicHabit,
    ::testing::Values(
        PublicLine{"pytorch/torchtitan README.md",
                   "CONFIG_FILE=\"./configs/llama3_8b.toml\" ./run_train.sh", "node procs=8"},
        PublicLine{"pytorch/torchtitan README.md, a mode", "NGPU=4 ./run_modes.sh", "node procs=4"},
        PublicLine{"pytorch/torchtitan docs/debugging.md",
                   "NGPU=32 COMM_MODE=\"fake_backend\" ./run_modes.sh", "plain"},
        PublicLine{"pytorch/torchtitan, four GPUs", "NGPU=4 ./run_train.sh --model.flavor 8B",
                   "node procs=4"},
        PublicLine{"forks of open-mmlab", "bash tools/dist_train.sh configs/a.py 4 --seed 0",
                   "node procs=4"},
        PublicLine{"open-mmlab docs: Slurm", "GPUS=16 ./tools/slurm_train.sh dev job a.py work",
                   "refused: run: ./tools/slurm_train.sh starts srun"},
        PublicLine{"Slurm or not", "bash either.sh", "node procs=4"},
        PublicLine{"a default of a parameter", "bash scripts/torchrun_train.sh", "node procs=2"},
        PublicLine{"a parameter and what follows", "bash scripts/torchrun_train.sh 4 --lr 1e-3",
                   "node procs=4"},
        PublicLine{"numbers of accelerate as parameters", "bash run.sh 2 0,1 29501",
                   "node procs=2"},
        PublicLine{"a script that calls a script", "bash outer.sh", "node procs=4"},
        PublicLine{"a command built in steps",
                   "CMD=\"torchrun --standalone --nproc_per_node=4 train.py\"\n"
                   "if [ -n \"$RESUME\" ]; then\n  CMD+=\" --resume $RESUME\"\nfi\n"
                   "echo \"$CMD\"\neval \"$CMD\"",
                   "node procs=4"},
        PublicLine{"users of open_clip: eval in the variable",
                   "N=8\nrun() {\n  FULL_CMD=\"eval torchrun --nproc_per_node=${N} "
                   "--master_port=1 -m open_clip_train.main $1\"\n  ${FULL_CMD} 2>&1\n}\nrun a",
                   "node procs=8"},
        PublicLine{"a printed and evaluated deepspeed",
                   "run_cmd=\"deepspeed --include localhost:0,1 --master_port 42997 train.py "
                   "--deepspeed\"\necho ${run_cmd}\neval ${run_cmd}\nset +x",
                   "node procs=2"},
        PublicLine{"processes from the list of devices",
                   "GPUS=0,1,2\nexport CUDA_VISIBLE_DEVICES=$GPUS\nIFS=',' read -ra L <<< $GPUS\n"
                   "torchrun --nproc_per_node=$(echo $GPUS | tr ',' '\\n' | wc -l) t.py --x",
                   "node procs=3 devices=3"},
        PublicLine{"an array of devices",
                   "DEV=(0 1 2 3)\ntorchrun --nproc_per_node=${#DEV[@]} train.py", "node procs=4"},
        PublicLine{"echo behind it",
                   "set -e\nexport CUDA_VISIBLE_DEVICES=\"0,1,2,3\"\nNP=4\naccelerate launch "
                   "--num_processes $NP --config_file ./a.yaml scripts/t.py\necho \"done\"",
                   "node procs=4 devices=4"},
        PublicLine{"a configuration file in a script",
                   "mkdir -p out\naccelerate launch --config_file accel.yaml t.py && echo done",
                   "node procs=8"}));

INSTANTIATE_TEST_SUITE_P(
    Lines, PublicHabit,
    ::testing::Values(
        PublicLine{"speechbrain/speechbrain README.md",
                   "torchrun --nproc_per_node=4 train.py hparams/train.yaml --device='cuda'",
                   "torchrun procs=4 train.py"},
        PublicLine{"s3prl/s3prl docs: the script has a -m of its own",
                   "python3 -m torch.distributed.launch --nproc_per_node 2 run_downstream.py -m "
                   "train -n exp -u hubert -d asr",
                   "torchrun procs=2 run_downstream.py"},
        PublicLine{"XPixelGroup/BasicSR docs",
                   "PYTHONPATH=\"./:${PYTHONPATH}\" \\\nCUDA_VISIBLE_DEVICES=0,1,2,3 \\\npython -m "
                   "torch.distributed.launch --nproc_per_node=4 --master_port=4321 "
                   "basicsr/train.py -opt a.yml --launcher pytorch",
                   "torchrun procs=4 devices=4 basicsr/train.py"},
        PublicLine{"mlfoundations/open_clip README.md",
                   "cd open_clip/src\ntorchrun --nproc_per_node 4 -m open_clip_train.main \\\n"
                   "    --train-data '/data/{00000..41455}.tar' --dataset-type webdataset",
                   "torchrun procs=4 open_clip_train.main"},
        PublicLine{"tloen/alpaca-lora README.md: a WORLD_SIZE of its own",
                   "WORLD_SIZE=2 CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node=2 "
                   "--master_port=1234 finetune.py --base_model a/b",
                   "torchrun procs=2 devices=2 finetune.py"},
        PublicLine{"a port drawn by chance",
                   "torchrun --nproc_per_node=4 --master_port=$((RANDOM + 10000)) train.py",
                   "torchrun procs=4 train.py"},
        PublicLine{"Slurm's own numbers",
                   "python -u -m torch.distributed.run \\\n  --nnodes=$SLURM_NNODES \\\n  "
                   "--nproc_per_node=$SLURM_GPUS_ON_NODE \\\n  --master_port $MASTER_PORT main.py",
                   "torchrun procs=gpu main.py"},
        PublicLine{"a directory, a name, nohup and deepspeed",
                   "cd ..\ntrain_name=\"a\"\nnohup deepspeed --include localhost:0,1,2,3,4,5,6,7 "
                   "--master_port=9912 src/train_bash.py --deepspeed z1.json > a.log 2>&1 &",
                   "deepspeed procs=8 src/train_bash.py"},
        PublicLine{"deepspeed by its path, devices in a variable",
                   "dev=0,1,2\n/opt/conda/bin/deepspeed --include localhost:$dev train.py",
                   "deepspeed procs=3 train.py"},
        PublicLine{"haotian-liu/LLaVA scripts",
                   "#!/bin/bash\n\ndeepspeed llava/train/train_mem.py \\\n    --deepspeed "
                   "./scripts/zero3.json \\\n    --bf16 True\n",
                   "deepspeed llava/train/train_mem.py"},
        PublicLine{"kohya-ss/sd-scripts docs",
                   "accelerate launch --num_cpu_threads_per_process 1 train_network.py "
                   "--pretrained_model_name_or_path=m.safetensors",
                   "accelerate train_network.py"},
        PublicLine{"huggingface/diffusers examples",
                   "export MODEL_NAME=\"a/b\"\nexport OUTPUT_DIR=o\naccelerate launch "
                   "--mixed_precision=\"fp16\" --multi_gpu train_text_to_image.py \\\n  "
                   "--pretrained_model_name_or_path=$MODEL_NAME --output_dir=$OUTPUT_DIR",
                   "accelerate train_text_to_image.py"},
        PublicLine{"accelerate and a module",
                   "accelerate launch --num_processes 4 --multi_gpu -m pkg.evaluate --data d",
                   "accelerate procs=4 pkg.evaluate"},
        PublicLine{"a README's placeholder",
                   "python -m torch.distributed.launch --nproc_per_node=N_GPU train.py --size S",
                   "refused: run: --nproc-per-node is \"N_GPU\""},
        PublicLine{"horovod", "horovodrun -np 4 -H localhost:4 python train.py",
                   "refused: run: it starts horovodrun"},
        PublicLine{"openai/improved-diffusion README.md",
                   "mpiexec -n 8 python scripts/image_train.py --data_dir d $MODEL_FLAGS",
                   "refused: run: it starts mpiexec"}));

// What another program gets, or what stands in a branch, is not what the launcher gets.
TEST(PublicHabits, ValuesOfOtherProgramsAndOfBranchesAreNotTheLaunchers) {
  const std::string train = "torchrun --nproc_per_node=8 train.py";
  const std::string by_name = "torchrun --nproc_per_node ${NGPU:-8} train.py";
  for (const auto& [run, reading] : std::vector<std::pair<std::string, std::string>>{
           {"CUDA_VISIBLE_DEVICES=0 python preprocess.py\n" + train, "node procs=8"},
           {"NGPU=1 python prep.py\n" + by_name, "node procs=8"},
           {"NGPU=\n" + by_name, "torchrun procs=8"},
           {"NGPU=4\n" + by_name, "torchrun procs=4"},
           {"export NGPU=4\n" + by_name, "torchrun procs=4"},
           {"NGPU=8\nif [ \"$DEBUG\" = 1 ]; then NGPU=1; fi\n" + by_name, "node"},
           {"NGPU=8\n[ \"$DEBUG\" = 1 ] && NGPU=1\n" + by_name, "node"},
           {"if [ -z \"$NGPU\" ]; then NGPU=8; fi\n" + by_name, "node procs=8"},
           {"uv pip install trl peft\npython train.py", "plain"},
       }) {
    const std::string read = Reading(ReadLaunchLine(run, {}));
    EXPECT_EQ(read.substr(0, reading.size()), reading) << run << "\n" << read;
    if (reading == "node") EXPECT_EQ(read.find("procs=1"), std::string::npos) << run;
  }
}

TEST(PublicHabits, ShiftTakesAwayAsManyAsItSays) {
  LaunchLineOptions options;
  options.files["t.sh"] = "A=$1\nB=$2\nshift 2\ntorchrun --nproc_per_node $1 train.py\n";
  options.files["one.sh"] = "shift\ntorchrun --nnodes $1 --nproc_per_node $2 train.py\n";
  EXPECT_EQ(Reading(ReadLaunchLine("bash t.sh a 4 8", options)).substr(0, 12), "node procs=8");
  const auto line = ReadLaunchLine("bash one.sh \"$CFG\" 2 4", options);
  ASSERT_TRUE(line);
  EXPECT_EQ(line->procs_number, 4);
  EXPECT_EQ(line->nodes_min, 2);
}

}  // namespace
}  // namespace launch
