// More launch lines and scripts of public repositories, cut to what a launcher reads; the first
// field names repository and file. One that is made for a quote or a
// document says so.
#include <gtest/gtest.h>

#include "tests/unit/planner/public_line.h"

namespace launch {
namespace {

class PublicScript : public ::testing::TestWithParam<PublicLine> {};

TEST_P(PublicScript, IsReadAsItsAuthorMeansIt) {
  LaunchLineOptions options;
  options.files["recipes/accelerate_configs/zero3.yaml"] =
      "distributed_type: DEEPSPEED\nnum_machines: 1\nnum_processes: 8\nmixed_precision: bf16\n"
      "deepspeed_config:\n  zero_stage: 3\n";
  options.files["configs/fsdp_config.yaml"] =
      "distributed_type: FSDP\nnum_machines: 1\nnum_processes: 8\nmixed_precision: bf16\n";
  const std::string reading = Reading(ReadLaunchLine(GetParam().run, options));
  EXPECT_EQ(reading.substr(0, std::string(GetParam().reading).size() +
                                  (reading.rfind("refused", 0) == 0 ? 0 : 999)),
            GetParam().reading)
      << GetParam().source;
}

INSTANTIATE_TEST_SUITE_P(
    OneLine, PublicScript,
    ::testing::Values(
        PublicLine{"KellerJordan/modded-nanogpt run.sh",
                   "torchrun --standalone --nproc_per_node=1 train_gpt.py\n",
                   "torchrun procs=1 train_gpt.py"},
        PublicLine{"huggingface/nanotron README.md",
                   "CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nproc_per_node=8 run_train.py "
                   "--config-file examples/config_tiny_llama.yaml",
                   "torchrun procs=8 run_train.py"},
        PublicLine{"huggingface/nanotron README.md, generation",
                   "torchrun --nproc_per_node=1 run_generate.py --ckpt-path checkpoints/10/ --tp 1",
                   "torchrun procs=1 run_generate.py"},
        PublicLine{"huggingface/transformers examples/pytorch/README.md",
                   "python -m torch.distributed.launch \\\n    --nproc_per_node 8 "
                   "pytorch/text-classification/run_glue.py \\\n    --task_name mnli \\\n    "
                   "--output_dir /tmp/mnli_output/\n",
                   "torchrun procs=8 pytorch/text-classification/run_glue.py"},
        PublicLine{"huggingface/transformers examples/pytorch/README.md, TPU",
                   "python xla_spawn.py --num_cores 8 \\\n    text-classification/run_glue.py "
                   "--task_name mnli",
                   "plain xla_spawn.py"},
        PublicLine{"microsoft/Swin-Transformer get_started.md",
                   "python -m torch.distributed.launch --nproc_per_node 8 --master_port 12345  "
                   "main.py \\\n--cfg configs/swin/swin_tiny.yaml --data-path imagenet "
                   "--batch-size 128 \n",
                   "torchrun procs=8 main.py"},
        PublicLine{"microsoft/Swin-Transformer get_started.md, a blank behind the backslash",
                   "python -m torch.distributed.launch --nproc_per_node 8 --master_port 12345  "
                   "main.py \\ \n--cfg cfg.yaml --data-path imagenet",
                   "refused: run: line 1 ends with a backslash and a blank"},
        PublicLine{"microsoft/Swin-Transformer get_started.md, a place to be filled",
                   "python -m torch.distributed.launch --nproc_per_node <num-of-gpus-to-use> "
                   "--master_port 12345 main.py --eval",
                   "refused: run: `<num-of-gpus-to-use>` is a placeholder"},
        PublicLine{"huggingface/open-r1 README.md",
                   "ACCELERATE_LOG_LEVEL=info accelerate launch --config_file "
                   "recipes/accelerate_configs/zero3.yaml \\\n    src/open_r1/sft.py \\\n    "
                   "--config recipes/sft/config_demo.yaml\n",
                   "accelerate procs=8 src/open_r1/sft.py"},
        PublicLine{"huggingface/open-r1 README.md, seven processes beside a server",
                   "ACCELERATE_LOG_LEVEL=info accelerate launch --config_file "
                   "recipes/accelerate_configs/zero3.yaml \\\n    --num_processes=7 "
                   "src/open_r1/grpo.py --config cfg.yaml",
                   "accelerate procs=7 src/open_r1/grpo.py"},
        PublicLine{"huggingface/peft examples/sft/run_peft_fsdp.sh",
                   "accelerate launch --config_file \"configs/fsdp_config.yaml\"  train.py \\\n"
                   "--seed 100 \\\n--bf16 True \\\n--use_peft_lora True\n",
                   "accelerate procs=8 train.py"},
        PublicLine{"huggingface/peft examples/sft/run_unsloth_peft.sh",
                   "python train.py \\\n--seed 100 \\\n--lora_target_modules "
                   "\"q_proj,k_proj,v_proj\" \\\n--use_flash_attn True\n",
                   "plain train.py"},
        PublicLine{"lucidrains/denoising-diffusion-pytorch README.md", "accelerate launch train.py",
                   "accelerate train.py"},
        PublicLine{"openai/guided-diffusion README.md",
                   "TRAIN_FLAGS=\"--iterations 300000 --batch_size 256\"\n"
                   "mpiexec -n N python scripts/classifier_train.py --data_dir d $TRAIN_FLAGS",
                   "refused: run: it starts mpiexec"},
        PublicLine{"openai/guided-diffusion README.md, sampling",
                   "MODEL_FLAGS=\"--image_size 64 --use_fp16 True\"\n"
                   "python image_sample.py $MODEL_FLAGS --model_path models/64x64_diffusion.pt",
                   "plain image_sample.py"},
        PublicLine{"pytorch/PiPPy examples/huggingface/pippy_gpt2.py",
                   "torchrun --nproc-per-node 4 pippy_gpt2.py", "torchrun procs=4 pippy_gpt2.py"},
        PublicLine{
            "Markfryazino/EfficientDL-DeepSpeedPhD scripts/zero2-small.sh",
            "# zero-2\ndeepspeed \\\n    --include localhost:2,3 \\\n    --master_port 29501 "
            "\\\n    run.py \\\n    --deepspeed deepspeed/zero2.json \\\n    --fp16\n",
            "deepspeed procs=2 run.py"},
        PublicLine{"allenai/FineGrainedRLHF train_baseline.sh",
                   "accelerate launch \\\n    --main_process_port 29500 \\\n    --num_machines 1 "
                   "\\\n    --machine_rank 0 \\\n    --num_processes 4 \\\n    --mixed_precision "
                   "bf16 \\\n    --multi_gpu \\\n    train_baseline.py --config cfg.yml\n",
                   "accelerate procs=4 train_baseline.py"},
        PublicLine{"hiyouga/LLaMA-Factory examples/full_multi_gpu/multi_node.sh",
                   "#!/bin/bash\n\npython -m torch.distributed.run \\\n    --nproc_per_node "
                   "$NPROC_PER_NODE \\\n    --nnodes $NNODES \\\n    --node_rank $RANK \\\n    "
                   "--master_addr $MASTER_ADDR \\\n    --master_port $MASTER_PORT \\\n    "
                   "src/train.py examples/llama3_full_sft.yaml\n",
                   "torchrun procs=unknown src/train.py"},
        PublicLine{"sridharakella/Vmware-VRX-NSX-Vcenter torch-demo-main/launcher.sh",
                   "export NCCL_DEBUG=WARN\ntorchrun \\\n--nproc_per_node=$NUM_TRAINERS "
                   "\\\n--nnodes=$NUM_NODES \\\n--node_rank=$NODE_RANK "
                   "\\\n--master_addr=$MASTER_ADDR \\\n--master_port=$MASTER_PORT \\\n./main.py",
                   "torchrun procs=unknown ./main.py"},
        PublicLine{"firechecking/CleanTransformer scripts/ft_bloom_deepspeed.sh",
                   "torchrun \\\n  --nnodes 1 \\\n  --nproc_per_node 4 \\\n  --node_rank 0 \\\n  "
                   "--master_addr localhost \\\n  --master_port 12345 \\\n  "
                   "examples/ft_bloom_deepspeed.py \\\n  --ds_stage 1",
                   "torchrun procs=4 nodes=1 examples/ft_bloom_deepspeed.py"},
        PublicLine{"mrbublos/character_inference start_inference.sh",
                   "#!/bin/bash\npython main.py --config-path\naccelerate launch --num_processes "
                   "$GPU_NUM --mixed_precision bf16 run.py cfg_${GPU_NUM}h100.yaml",
                   "node"}));

INSTANTIATE_TEST_SUITE_P(
    Texts, PublicScript,
    ::testing::Values(
        PublicLine{"karpathy/nanochat speedrun.sh: several launchers one after the other",
                   "export OMP_NUM_THREADS=1\npython -m nanochat.report reset\n"
                   "NPROC_PER_NODE=8\n"
                   "torchrun --standalone --nproc_per_node=$NPROC_PER_NODE -m scripts.base_train "
                   "-- --depth=20 --run=$WANDB_RUN\n"
                   "torchrun --standalone --nproc_per_node=$NPROC_PER_NODE -m scripts.base_loss\n",
                   "node procs=8"},
        PublicLine{"OpenGVLab/InternVL internvl2_2b_..._2nd_finetune_lora.sh",
                   "set -x\n\nGPUS=${GPUS:-2}\nexport MASTER_PORT=34229\nexport LAUNCHER=pytorch\n"
                   "OUTPUT_DIR='work_dirs/x'\nif [ ! -d \"$OUTPUT_DIR\" ]; then\n  mkdir -p "
                   "\"$OUTPUT_DIR\"\nfi\ntorchrun \\\n  --nnodes=1 \\\n  --node_rank=0 \\\n  "
                   "--master_addr=127.0.0.1 \\\n  --nproc_per_node=${GPUS} \\\n  "
                   "--master_port=${MASTER_PORT} \\\n  internvl/train/internvl_chat_finetune.py "
                   "\\\n  --deepspeed \"zero_stage1_config.json\" \\\n  2>&1 | tee -a "
                   "\"${OUTPUT_DIR}/training_log.txt\"\n",
                   "node procs=2"},
        PublicLine{
            "OpenRLHF/OpenRLHF examples/scripts/train_sft_llama.sh: a here-document of flags",
            "set -x\n\nread -r -d '' training_commands <<EOF\n../train_sft.py \\\n    "
            "--zero_stage 2 \\\n    --bf16\nEOF\n    # --wandb\n\nif [[ ${1} != \"slurm\" ]]; "
            "then\n    export PATH=$HOME/.local/bin/:$PATH\n    deepspeed "
            "$training_commands\nfi",
            "node"},
        PublicLine{"OpenBMB/MiniCPM finetune/sft_finetune.sh: comments end the command",
                   "formatted_time=$(date +\"%Y%m%d%H%M%S\")\necho $formatted_time\n"
                   "deepspeed --include localhost:0,1 finetune.py \\\n    # a model\n    "
                   "--model_name_or_path MiniCPM-2B-sft-bf16 \\\n    # where to\n    --output_dir "
                   "out/$formatted_time/\n",
                   "node procs=2"},
        PublicLine{"allenai/open-instruct scripts/finetune_with_accelerate.sh",
                   "export CUDA_VISIBLE_DEVICES=0\n\nNUM_GPUS=1\nBATCH_SIZE_PER_GPU=3\n"
                   "TOTAL_BATCH_SIZE=128\nGRADIENT_ACC_STEPS=$(($TOTAL_BATCH_SIZE/$NUM_GPUS/"
                   "$BATCH_SIZE_PER_GPU))\necho \"using $NUM_GPUS GPUs\"\n\naccelerate launch \\\n"
                   "    --mixed_precision bf16 \\\n    --num_machines 1 \\\n    --num_processes "
                   "$NUM_GPUS \\\n    --use_deepspeed \\\n    --deepspeed_config_file "
                   "ds_configs/stage3.conf \\\n    open_instruct/finetune.py\n",
                   "accelerate procs=1 devices=1 open_instruct/finetune.py"},
        PublicLine{
            "bigscience-workshop/Megatron-DeepSpeed examples/pretrain_gpt_distributed.sh",
            "GPUS_PER_NODE=8\n# Change for multinode config\nMASTER_ADDR=localhost\n"
            "MASTER_PORT=6000\nNNODES=1\nNODE_RANK=0\nWORLD_SIZE=$(($GPUS_PER_NODE*$NNODES))"
            "\n\nDISTRIBUTED_ARGS=\"--nproc_per_node $GPUS_PER_NODE --nnodes $NNODES "
            "--node_rank $NODE_RANK --master_addr $MASTER_ADDR --master_port "
            "$MASTER_PORT\"\n\npython -m torch.distributed.launch $DISTRIBUTED_ARGS \\\n       "
            "pretrain_gpt.py \\\n       --num-layers 24 --fp16\n",
            "node procs=8"},
        PublicLine{"NVIDIA/DeepLearningExamples PyTorch/LanguageModeling/BERT/scripts/run_squad.sh",
                   "num_gpu=${6:-\"8\"}\nif [ \"$num_gpu\" = \"1\" ] ; then\n  export "
                   "CUDA_VISIBLE_DEVICES=0\n  mpi_command=\"\"\nelse\n  unset "
                   "CUDA_VISIBLE_DEVICES\n  mpi_command=\" -m torch.distributed.launch "
                   "--nproc_per_node=$num_gpu\"\nfi\n\nCMD=\"python  $mpi_command run_squad.py "
                   "\"\nCMD+=\"--do_train \"\ntime $CMD |& tee $LOGFILE\n",
                   "node procs=8"},
        PublicLine{"pytorch/examples distributed/tensor_parallelism/run_example.sh",
                   "echo \"Launching ${1:-two_d_parallel_example.py} with ${2:-4} gpus\"\n"
                   "torchrun --nnodes=1 --nproc_per_node=${2:-4} --rdzv_id=101 "
                   "--rdzv_endpoint=\"localhost:5972\" ${1:-two_d_parallel_example.py}\n",
                   "torchrun procs=4 nodes=1 ${1:-two_d_parallel_example.py}"},
        PublicLine{"pytorch/examples distributed/minGPT-ddp/mingpt/slurm/sbatch_run.sh",
                   "nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )\n"
                   "nodes_array=($nodes)\nhead_node=${nodes_array[0]}\nsrun torchrun \\\n"
                   "--nnodes 2 \\\n--nproc_per_node 1 \\\n--rdzv_id $RANDOM \\\n"
                   "/shared/examples/mingpt/main.py\n",
                   "refused: run: it starts srun"},
        PublicLine{"a fork of FlashVLA train/train.sh: one GPU or several",
                   "CONFIG=${1:?usage: bash train/train.sh <config.yaml> [num_gpus]}\n"
                   "NUM_GPUS=${2:-8}\nHERE=\"$(cd \"$(dirname \"$0\")\" && pwd)\"\n"
                   "if [ \"$NUM_GPUS\" -gt 1 ]; then\n  accelerate launch --multi_gpu "
                   "--num_processes=\"$NUM_GPUS\" \\\n    --module flashvla.train "
                   "--config_path=\"$CONFIG\"\nelse\n  python -m flashvla.train "
                   "--config_path=\"$CONFIG\"\nfi\n",
                   "node procs=8"},
        PublicLine{
            "users of DistiLLM: devices out of an array",
            "GPUS=(1)\nexport CUDA_VISIBLE_DEVICES=$(IFS=,; echo \"${GPUS[*]}\")\n"
            "GPUS_PER_NODE=${#GPUS[@]}\nDISTRIBUTED_ARGS=\"--nproc_per_node $GPUS_PER_NODE "
            "\\\n                  --nnodes 1 \\\n                  --master_port 5010\"\n"
            "OPTS=\"\"\nOPTS+=\" --lr 1\"\ntorchrun ${DISTRIBUTED_ARGS} finetune.py ${OPTS}\n",
            "node procs=1"},
        PublicLine{"users of VLMEvalKit: a loop over models",
                   "MODELS=(a b)\nfor model_name in \"${MODELS[@]}\"; do\n    "
                   "CUDA_VISIBLE_DEVICES=4,5,6,7 torchrun --nproc-per-node=4 --master_port=42000 "
                   "run.py --data D --model \"${model_name}\"\n    if [ $? -ne 0 ]; then\n        "
                   "exit 1\n    fi\ndone\n",
                   "node procs=4 devices=4"},
        PublicLine{"users of LLM-tuning: two runs on devices of their own",
                   "export DS_SKIP_CUDA_CHECK=1\ndeepspeed --include localhost:6,7 --master_port "
                   "13023 train.py --max_epoch 2000\n\ndeepspeed --include localhost:4,5 "
                   "--master_port 13032 train.py --max_epoch 2000\n",
                   "node procs=2"},
        PublicLine{"users of Megatron-LM: flags and a launcher over many lines",
                   "GPUS_PER_NODE=8\nNNODES=8\nNODE_RANK=6\nDISTRIBUTED_ARGS=\"\n    "
                   "--nproc_per_node $GPUS_PER_NODE \\\n    --nnodes $NNODES \\\n    --node_rank "
                   "$NODE_RANK \\\n    --master_addr 172.18.135.17 \\\n    --master_port 6000\n\"\n"
                   "GPT_ARGS=\"\n    --num-layers 24 \\\n    --fp16\n\"\ntorchrun "
                   "$DISTRIBUTED_ARGS pretrain_gpt.py \\\n    $GPT_ARGS\n",
                   "node procs=8 nodes=8"},
        PublicLine{
            "users of OLMo: bash -c behind a service's own launcher",
            "NUM_NODES=4\n/bin/bash -c \"torchrun --nnodes ${NUM_NODES}:${NUM_NODES} "
            "--nproc-per-node 8 --rdzv_id=101 --rdzv_backend=c10d scripts/train.py cfg.yaml\"\n",
            "node procs=8 nodes=4"}));

// Quotes and documents that a wrong reader would take for commands.
INSTANTIATE_TEST_SUITE_P(
    Quotes, PublicScript,
    ::testing::Values(
        PublicLine{"IFS as strict scripts set it",
                   "set -euo pipefail\nIFS=$'\\n\\t'\ntorchrun --nproc_per_node=2 train.py --x 1\n",
                   "torchrun procs=2 train.py"},
        PublicLine{"an escaped quote inside $'...'",
                   "echo $'it\\'s; torchrun --nproc_per_node=8 no.py'\n"
                   "torchrun --nproc_per_node=2 train.py\n",
                   "torchrun procs=2 train.py"},
        PublicLine{"$'...' as an argument",
                   "torchrun --nproc_per_node=$'\\x32' train.py --sep $'a\\tb'\n",
                   "torchrun procs=2 train.py"},
        PublicLine{"a configuration written unless it is there",
                   "ACC=acc.yaml\nif [[ ! -f \"$ACC\" ]]; then\n  cat > \"$ACC\" <<EOF\n"
                   "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\n"
                   "num_processes: 2\nEOF\nfi\naccelerate launch --config_file \"$ACC\" t.py\n",
                   "node procs=2"},
        PublicLine{"a document with a quote, in a substitution",
                   "TEXT=$(cat <<'EOF'\nit's (not) a quote; srun python\nEOF\n)\n"
                   "torchrun --nproc_per_node=4 train.py \"$TEXT\"\n",
                   "torchrun procs=4 train.py"},
        PublicLine{"a tab before the end of a document that keeps tabs",
                   "cat > a.txt <<EOF\n\tEOF\ntorchrun --nproc_per_node=8 no.py\nEOF\n"
                   "torchrun --nproc_per_node=2 train.py\n",
                   "node procs=2"},
        PublicLine{"a shift is no document",
                   "N=1\n(( N << 1 ))\ntorchrun --nproc_per_node=4 train.py\n", "node procs=4"},
        PublicLine{"a counting loop",
                   "for ((i = 0; i < 3; i++)); do\n  torchrun --nproc_per_node=4 train.py --fold "
                   "$i\ndone\n",
                   "node procs=4"}));

}  // namespace
}  // namespace launch
