// Launch lines as public repositories print them, cut to what a launcher reads, and how each is
// read. The comment or the first field names the repository and the file.
#include <gtest/gtest.h>

#include "tests/unit/planner/public_line.h"

namespace launch {
namespace {

class Public : public ::testing::TestWithParam<PublicLine> {};

TEST_P(Public, IsReadAsItsAuthorMeansIt) {
  LaunchLineOptions options;
  options.files["recipes/accelerate_configs/deepspeed_zero3.yaml"] =
      "distributed_type: DEEPSPEED\nnum_machines: 1\nnum_processes: 8\nmixed_precision: bf16\n"
      "deepspeed_config:\n  zero_stage: 3\n  zero3_init_flag: true\n";
  options.files["recipes/accelerate_configs/multi_gpu.yaml"] =
      "distributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: 8\n";
  options.files["config.yaml"] = "distributed_type: MULTI_GPU\nnum_processes: 4\n";
  options.files["accelerate_config.yaml"] = "distributed_type: 'NO'\nnum_processes: 2\n";
  options.files["scripts/dist_train.sh"] =
      "NUM_PROCESSES=$1\nPY_ARGS=${@:2}\naccelerate launch --num_processes ${NUM_PROCESSES} "
      "tools/train.py ${PY_ARGS}\n";
  options.files["distributed_train.sh"] =
      "NUM_PROC=$1\nshift\ntorchrun --nproc-per-node=$NUM_PROC train.py \"$@\"\n";
  const std::string reading = Reading(ReadLaunchLine(GetParam().run, options));
  EXPECT_EQ(reading.substr(0, std::string(GetParam().reading).size() +
                                  (reading.rfind("refused", 0) == 0 ? 0 : 999)),
            GetParam().reading)
      << GetParam().source;
}

INSTANTIATE_TEST_SUITE_P(
    Torchrun, Public,
    ::testing::Values(
        PublicLine{"karpathy/nanoGPT README.md",
                   "torchrun --standalone --nproc_per_node=8 train.py config/train_gpt2.py",
                   "torchrun procs=8 train.py"},
        PublicLine{"karpathy/nanoGPT README.md, first node",
                   "torchrun --nproc_per_node=8 --nnodes=2 --node_rank=0 "
                   "--master_addr=123.456.123.456 --master_port=1234 train.py",
                   "torchrun procs=8 nodes=2 train.py"},
        PublicLine{"karpathy/nanoGPT README.md, without InfiniBand",
                   "NCCL_IB_DISABLE=1 torchrun --nproc_per_node=8 --nnodes=2 --node_rank=1 "
                   "--master_addr=123.456.123.456 --master_port=1234 train.py",
                   "torchrun procs=8 nodes=2 train.py"},
        PublicLine{
            "lm-sys/FastChat scripts/train_vicuna_7b.sh",
            "torchrun --nproc_per_node=16 --master_port=20001 fastchat/train/train.py \\\n"
            "    --fp16 \\\n    --fsdp \"full_shard auto_wrap\" \\\n    --lazy_preprocess True\n",
            "torchrun procs=16 fastchat/train/train.py"},
        PublicLine{"huggingface/accelerate examples/README.md",
                   "torchrun --nproc_per_node 2 ./nlp_example.py",
                   "torchrun procs=2 ./nlp_example.py"},
        PublicLine{
            "huggingface/accelerate examples/README.md, several machines",
            "torchrun \\\n    --nproc_per_node 2 \\\n    --nnodes 2 \\\n    --rdzv_id 2299 \\\n"
            "    --rdzv_backend c10d \\\n    --rdzv_endpoint master_node_ip_address:29500 "
            "\\\n    ./nlp_example.py",
            "torchrun procs=2 nodes=2 ./nlp_example.py"},
        PublicLine{"pytorch/torchtitan run_train.sh, its call",
                   "PYTORCH_ALLOC_CONF=\"expandable_segments:True\" \\\n"
                   "torchrun --nproc_per_node=8 --rdzv_backend c10d "
                   "--rdzv_endpoint=\"localhost:0\" \\\n--local-ranks-filter 0 --role rank --tee 3 "
                   "\\\n-m torchtitan.train --module llama3 --config llama3_debugmodel",
                   "torchrun procs=8 torchtitan.train"},
        PublicLine{"scout-op/CDVG VisTA/VisTA/run.sh",
                   "export CUDA_VISIBLE_DEVICES=0,2,4,6\nexport OMP_NUM_THREADS=16\n\ntorchrun "
                   "--standalone --nproc_per_node=gpu --nnodes=1 train.py\n",
                   "torchrun procs=gpu nodes=1 devices=4 train.py"},
        PublicLine{"JeMing-creater/ZTomorTrain run.sh",
                   "export OMP_NUM_THREADS=1\nexport CUDA_VISIBLE_DEVICES=1,2\ntorchrun \\\n"
                   "  --nproc_per_node 2 \\\n  --master_port 29550 \\\n  main.py",
                   "torchrun procs=2 devices=2 main.py"},
        PublicLine{"yukiman76/LLM base/llmfs/train_ddp.sh",
                   "export MASTER_ADDR='localhost'\nexport MASTER_PORT='29400'\ntorchrun "
                   "--nnodes=2 --nproc_per_node=8 --rdzv_id=100 --rdzv_backend=c10d "
                   "--rdzv_endpoint=$MASTER_ADDR:29400 llfs_train.py",
                   "torchrun procs=8 nodes=2 llfs_train.py"},
        PublicLine{"ChenyuanHu/chinese_pretrain v2/train_nnodes.sh",
                   "#! /bin/bash\n\nexport OMP_NUM_THREADS=10\n\ntorchrun \\\n--nnodes=2 \\\n"
                   "--nproc_per_node=8 \\\n--node_rank=0 \\\n--master_addr=127.0.0.1 \\\n"
                   "--master_port=29500 \\\ntrain.py",
                   "torchrun procs=8 nodes=2 train.py"},
        PublicLine{"Convex-analysis/pippyoldversion MasterRun.sh: a blank behind the backslash",
                   "torchrun --nproc_per_node=1 \\\n         --nnodes=2 \\\n         "
                   "--node_rank=0  \\ \n         --master_addr=\"192.168.2.11\" \\\n         "
                   "example.py",
                   "refused: run: line 3 ends with a backslash and a blank"}));

INSTANTIATE_TEST_SUITE_P(
    TorchDistributed, Public,
    ::testing::Values(
        PublicLine{"facebookresearch/dino README.md",
                   "python -m torch.distributed.launch --nproc_per_node=8 main_dino.py --arch "
                   "deit_small --data_path /path/to/imagenet/train",
                   "torchrun procs=8 main_dino.py"},
        PublicLine{"facebookresearch/dino README.md, k-NN",
                   "python -m torch.distributed.launch --nproc_per_node=1 eval_knn.py "
                   "--checkpoint_key teacher",
                   "torchrun procs=1 eval_knn.py"},
        PublicLine{"facebookresearch/mae PRETRAIN.md",
                   "CUDA_VISIBLE_DEVICES=0,1 OMP_NUM_THREADS=1 python -m torch.distributed.launch "
                   "--nproc_per_node=2 main_pretrain.py \\\n--batch_size 128 \\\n--accum_iter 16",
                   "torchrun procs=2 devices=2 main_pretrain.py"},
        PublicLine{"facebookresearch/ConvNeXt TRAINING.md",
                   "python -m torch.distributed.launch --nproc_per_node=8 main.py \\\n--model "
                   "convnext_tiny --drop_path 0.1 \\\n--model_ema true --model_ema_eval true",
                   "torchrun procs=8 main.py"},
        PublicLine{"open-mmlab/mmdetection tools/dist_train.sh (a fork's)",
                   "#!/usr/bin/env bash\n# CUDA_VISIBLE_DEVICES=0,1 python -m "
                   "torch.distributed.launch \\\n#    --nproc_per_node=2 \\\n\n\n"
                   "CUDA_VISIBLE_DEVICES=2,3 python -m torch.distributed.launch \\\n"
                   "   --nproc_per_node=2 \\\n   --master_port 306 \\\n   tools/train.py \\\n"
                   "   --seed 0 \\\n   --launcher pytorch\n",
                   "torchrun procs=2 devices=2 tools/train.py"},
        PublicLine{"salesforce/BLIP README.md",
                   "python -m torch.distributed.run --nproc_per_node=8 --use_env "
                   "train_retrieval.py \\\n--config ./configs/retrieval_coco.yaml \\\n"
                   "--output_dir output/retrieval_coco",
                   "torchrun procs=8 train_retrieval.py"},
        PublicLine{"salesforce/BLIP README.md, VQA",
                   "python -m torch.distributed.run --nproc_per_node=16 --use_env train_vqa.py ",
                   "torchrun procs=16 train_vqa.py"},
        PublicLine{"zhangruochi/pseudoESM distribute_train.sh",
                   "python -m torch.distributed.launch \\\n   --nproc_per_node=4 \\\n"
                   "   --nnodes=1          \\\n   --node_rank=0       \\\n"
                   "   --master_addr=localhost  \\\n   --master_port=22222 \\\n    train.py",
                   "torchrun procs=4 nodes=1 train.py"},
        PublicLine{"RoderickGu/pretraining_different_gpt run_distrib.sh",
                   "export CUDA_VISIBLE_DEVICES=4,5,6,7\nexport OMP_NUM_THREADS=4\n\npython -m "
                   "torch.distributed.launch \\\n    --nproc_per_node=4 main.py \\\n"
                   "    --learning_rate 1e-4 \\\n    --logging_steps 10\n",
                   "torchrun procs=4 devices=4 main.py"},
        PublicLine{"alisure-ml/Installation nohup.md",
                   "PYTHONPATH=. CUDA_VISIBLE_DEVICES=0,1,2,3 nohup python -m "
                   "torch.distributed.launch --nproc_per_node=4 --master_port=12431 train.py "
                   "--launcher pytorch > ./work_dirs/3.log 2>&1 &",
                   "torchrun procs=4 devices=4 train.py"},
        PublicLine{"hailanyi/CPD tools/dist_train.sh",
                   "#!/usr/bin/env bash\n\nCUDA_VISIBLE_DEVICES=0,1,2,3 nohup python3 -m "
                   "torch.distributed.launch --nproc_per_node=4 train.py --launcher pytorch > "
                   "log.txt&\n",
                   "torchrun procs=4 devices=4 train.py"}));

INSTANTIATE_TEST_SUITE_P(
    Deepspeed, Public,
    ::testing::Values(
        PublicLine{"haotian-liu/LLaVA scripts/v1_5/finetune.sh",
                   "#!/bin/bash\n\ndeepspeed llava/train/train_mem.py \\\n"
                   "    --deepspeed ./scripts/zero3.json \\\n    --mm_vision_select_layer -2 \\\n"
                   "    --bf16 True \\\n    --report_to wandb\n",
                   "deepspeed llava/train/train_mem.py"},
        PublicLine{"THUDM/ChatGLM-6B ptuning/ds_train_finetune.sh",
                   "\nLR=1e-4\n\nMASTER_PORT=$(shuf -n 1 -i 10000-65535)\nMASTER_PORT=50003\n\n"
                   "deepspeed --num_gpus=3 --master_port $MASTER_PORT main.py \\\n"
                   "    --deepspeed deepspeed.json \\\n    --learning_rate $LR \\\n    --fp16\n\n",
                   "deepspeed procs=3 main.py"},
        PublicLine{"WangWanglju/fintune project/run.sh",
                   "#!/bin/bash\n\n\nMASTER_PORT=$(shuf -n 1 -i 10000-65535)\necho "
                   "${MASTER_PORT}\ndeepspeed  --master_port ${MASTER_PORT}  --include "
                   "localhost:0,1 main.py ",
                   "deepspeed procs=2 main.py"},
        PublicLine{"brynelee/deepspeedtrial deepspeed_train_demo/cmd_demos.sh",
                   "deepspeed --hostfile hostfile ds_train.py --epoch 1 --deepspeed "
                   "--deepspeed_config ds_config.json",
                   "deepspeed ds_train.py"},
        PublicLine{"akibjawad/train_gpt ds_run.sh",
                   "deepspeed --num_gpus 4 \\\n    ds_train.py \\\n    --deepspeed \\\n"
                   "    --deepspeed_config ds_config.yml \\\n    --pipeline_parallel_size 2\n",
                   "deepspeed procs=4 ds_train.py"},
        PublicLine{"randydl/LLaMA-Factory run_ds.sh",
                   "#!/bin/bash\n\ndeepspeed \\\n    --num_gpus 8 \\\n    --num_nodes 2 \\\n"
                   "    --hostfile hostfile \\\n    --master_addr 10.252.32.12 \\\n"
                   "    randy/train.py \"$@\"\n",
                   "deepspeed procs=8 nodes=2 randy/train.py"},
        PublicLine{"sudy-super/coencoder_utils train.sh",
                   "export HF_HOME=/workspace\nexport CUDA_LAUNCH_BLOCKING=1\nexport "
                   "MASTER_ADDR=10.1.201.02\nexport MASTER_PORT=29500\n\ndeepspeed "
                   "--hostfile=hostfile --num_nodes=4 --num_gpus=8 finetune_new.py --deepspeed "
                   "ds_config_new.json",
                   "deepspeed procs=8 nodes=4 finetune_new.py"},
        PublicLine{"sudy-super/coencoder_utils train.sh, another version",
                   "export NCCL_DEBUG=\"TRACE\"\nexport "
                   "NCCL_SOCKET_IFNAME=^lo,docker,virbr,vmnet,vboxnet,eth0\n\ndeepspeed "
                   "--hostfile=hostfile --num_nodes=4 --num_gpus=8 finetune_mn.py --deepspeed "
                   "ds_config_mn.json",
                   "deepspeed procs=8 nodes=4 finetune_mn.py"},
        PublicLine{"palamp/transformer-lm-trainer train.sh, a line of it",
                   "deepspeed --include=\"localhost:1\" trainer.py --config "
                   "config/config_clm_story.yaml",
                   "deepspeed procs=1 trainer.py"},
        PublicLine{"palamp/transformer-lm-trainer train.sh, another",
                   "deepspeed --num_gpus=2 trainer.py --config config/config_encdec.yaml",
                   "deepspeed procs=2 trainer.py"}));

INSTANTIATE_TEST_SUITE_P(
    Accelerate, Public,
    ::testing::Values(
        PublicLine{"huggingface/alignment-handbook scripts/README.md",
                   "ACCELERATE_LOG_LEVEL=info accelerate launch --config_file "
                   "recipes/accelerate_configs/deepspeed_zero3.yaml scripts/run_sft.py "
                   "recipes/zephyr-7b-beta/sft/config_full.yaml",
                   "accelerate procs=8 scripts/run_sft.py"},
        PublicLine{"huggingface/alignment-handbook scripts/README.md, one GPU",
                   "ACCELERATE_LOG_LEVEL=info accelerate launch --config_file "
                   "recipes/accelerate_configs/multi_gpu.yaml --num_processes=1 "
                   "scripts/run_sft.py recipes/zephyr-7b-beta/sft/config_qlora.yaml",
                   "accelerate procs=1 scripts/run_sft.py"},
        PublicLine{"huggingface/alignment-handbook, a file that only the nodes have",
                   "ACCELERATE_LOG_LEVEL=info accelerate launch --config_file "
                   "recipes/accelerate_configs/fsdp+qlora.yaml --num_processes=2 "
                   "scripts/run_sft.py",
                   "node procs=2"},
        PublicLine{"huggingface/accelerate examples/README.md",
                   "accelerate launch --cpu ./nlp_example.py", "accelerate cpu ./nlp_example.py"},
        PublicLine{"huggingface/accelerate examples/README.md, fp16",
                   "accelerate launch --mixed_precision fp16 ./nlp_example.py",
                   "accelerate ./nlp_example.py"},
        PublicLine{"huggingface/accelerate examples/README.md, a file",
                   "accelerate launch --config_file config.yaml ./cv_example.py --data_dir "
                   "path_to_data",
                   "accelerate procs=4 ./cv_example.py"},
        PublicLine{"huggingface/diffusers examples/text_to_image/README.md",
                   "export MODEL_NAME=\"CompVis/stable-diffusion-v1-4\"\nexport "
                   "DATASET_NAME=\"lambdalabs/pokemon-blip-captions\"\n\naccelerate launch "
                   "--mixed_precision=\"fp16\"  train_text_to_image.py \\\n"
                   "  --pretrained_model_name_or_path=$MODEL_NAME \\\n  --use_ema \\\n"
                   "  --output_dir=\"sd-pokemon-model\" \n",
                   "accelerate train_text_to_image.py"},
        PublicLine{"huggingface/diffusers examples/text_to_image/README.md, several GPUs",
                   "accelerate launch --mixed_precision=\"fp16\" --multi_gpu  "
                   "train_text_to_image.py \\\n  --resolution=512 --center_crop --random_flip",
                   "accelerate train_text_to_image.py"},
        PublicLine{"huggingface/diffusers examples/text_to_image/README.md, LoRA",
                   "accelerate launch --mixed_precision=\"fp16\" train_text_to_image_lora.py \\\n"
                   "  --num_train_epochs=100 --checkpointing_steps=5000 \\\n"
                   "  --validation_prompt=\"cute dragon creature\" --report_to=\"wandb\"",
                   "accelerate train_text_to_image_lora.py"},
        PublicLine{"sihunc-flwls/hallo train.sh",
                   "accelerate launch -m \\\n  --config_file accelerate_config.yaml \\\n"
                   "  --machine_rank 0 \\\n  --main_process_ip 0.0.0.0 \\\n"
                   "  --main_process_port 20055 \\\n  --num_machines 1 \\\n"
                   "  --num_processes 1 \\\n  scripts.train_stage1 --config "
                   "./configs/train/stage1.yaml",
                   "accelerate procs=1 scripts.train_stage1"},
        PublicLine{"allenai/FineGrainedRLHF train_baseline.sh",
                   "accelerate launch \\\n    --main_process_port 29500 \\\n"
                   "    --num_machines 1 \\\n    --machine_rank 0 \\\n    --num_processes 4 \\\n"
                   "    --mixed_precision bf16 \\\n    --multi_gpu \\\n    train_baseline.py "
                   "--config baseline_config.yml",
                   "accelerate procs=4 train_baseline.py"},
        PublicLine{"marcellobarylli/Recurrent-Parameter-Generation trainable.sh",
                   "accelerate launch \\\n  --main_process_port=29803 \\\n  --num_processes=1 \\\n"
                   "  --gpu_ids='1' \\\n  --num_machines=1 \\\n  --mixed_precision=bf16 \\\n"
                   "  --dynamo_backend=no \\\n  trainable.py \\\n",
                   "accelerate procs=1 trainable.py"},
        PublicLine{"MTDoven/Recurrent-Parameter-Generation cifar10_resnet18_base.sh",
                   "accelerate launch \\\n  --main_process_port=29601 \\\n  --multi_gpu \\\n"
                   "  --num_processes=2 \\\n  --gpu_ids='0,1' \\\n  --num_machines=1 \\\n"
                   "  --mixed_precision=bf16 \\\n  --dynamo_backend=no \\\n"
                   "  cifar10_resnet18_base.py \\\n",
                   "accelerate procs=2 cifar10_resnet18_base.py"},
        PublicLine{"EvolvingLMMs-Lab/lmms-eval examples/models/llama_vision.sh",
                   "export HF_HOME=\"~/.cache/huggingface\"\n# pip install "
                   "git+https://github.com/EvolvingLMMs-Lab/lmms-eval.git\n\naccelerate launch "
                   "--num_processes=8 --main_process_port 12399 -m lmms_eval \\\n"
                   "    --model llama_vision \\\n    --batch_size 1",
                   "accelerate procs=8 lmms_eval"},
        PublicLine{"EvolvingLMMs-Lab/lmms-eval test_my_eval.sh",
                   "\naccelerate launch --num_processes 2 --main_process_port 30000 -m lmms_eval "
                   "\\\n    --model gpt \\\n    --output_path ./logs/ \n",
                   "accelerate procs=2 lmms_eval"},
        PublicLine{"CurryX-001/LangBridge LLaVA-NeXT/scripts/train/eval.sh",
                   "python3 -m accelerate.commands.launch \\\n    --num_processes=8 \\\n"
                   "    -m lmms_eval \\\n    --model llava \\\n    --model_args "
                   "pretrained=\"your training model path,conv_template=qwen_2\"",
                   "accelerate procs=8 lmms_eval"}));

INSTANTIATE_TEST_SUITE_P(
    OncePerNode, Public,
    ::testing::Values(
        PublicLine{"QwenLM/Qwen finetune/finetune_ds.sh",
                   "export CUDA_DEVICE_MAX_CONNECTIONS=1\nDIR=`pwd`\n\nGPUS_PER_NODE=$(python -c "
                   "'import torch; print(torch.cuda.device_count())')\nNNODES=1\n\nwhile [[ "
                   "\"$1\" != \"\" ]]; do\n    case $1 in\n        -m | --model )\n            "
                   "shift\n            ;;\n    esac\n    shift\ndone\n\nDISTRIBUTED_ARGS=\"\n"
                   "    --nproc_per_node $GPUS_PER_NODE \\\n    --nnodes $NNODES\n\"\n\ntorchrun "
                   "$DISTRIBUTED_ARGS finetune.py \\\n    --bf16 True\n",
                   "node procs=gpu"},
        PublicLine{"pytorch/torchtitan run_train.sh, its shape",
                   "set -ex\nNGPU=${NGPU:-\"8\"}\nif [ \"$COMM_MODE\" = \"fake_backend\" ]; then\n"
                   "    NGPU=\"${NGPU}\" LOCAL_RANK=0 python3 -m torchtitan.train \"$@\"\nelse\n"
                   "    torchrun --nproc_per_node=${NGPU} -m torchtitan.train \"$@\"\nfi\n",
                   "node procs=8"},
        PublicLine{"OptimalScale/LMFlow scripts/run_finetune.sh, its call",
                   "deepspeed_args=\"--master_port=11000\"\ndeepspeed ${deepspeed_args} \\\n"
                   "  examples/finetune.py \\\n    --fp16 \\\n    | tee train.log \\\n    2> "
                   "train.err\n",
                   "node"},
        PublicLine{"huggingface/pytorch-image-models distributed_train.sh",
                   "NUM_PROC=$1\nshift\ntorchrun --nproc-per-node=$NUM_PROC train.py \"$@\"\n",
                   "node"},
        PublicLine{"huggingface/pytorch-image-models, the way its docs call it",
                   "./distributed_train.sh 4 /data/imagenet --model seresnet34", "plain"},
        PublicLine{"the same with a readable script",
                   "bash distributed_train.sh 4 /data/imagenet --model seresnet34", "node procs=4"},
        PublicLine{"ZhiyingDu/ECCV-2024-Workshop-... scripts/dist_train.sh",
                   "bash scripts/dist_train.sh 8 --opt configs/a.yaml", "node procs=8"},
        PublicLine{"ZhiyingDu/ECCV-2024-Workshop-... scripts/dist_train.sh, its text",
                   "NUM_PROCESSES=$1\nPY_ARGS=${@:2}\nLAUNCH_PARAM=${LAUNCH_PARAM:-"
                   "\"--num_processes ${NUM_PROCESSES} --num_machines 1\"}\naccelerate launch "
                   "--mixed_precision fp16 --gpu_ids all --main_process_port 29504 \\\n"
                   "    ${LAUNCH_PARAM} tools/train.py ${PY_ARGS}\n",
                   "node"},
        PublicLine{"anycoderapps/LongCat-Image-Edit examples/edit/train.sh",
                   "export NCCL_DEBUG=INFO\nscript_dir=$(cd -- \"$(dirname -- \"$0\")\" &> "
                   "/dev/null && pwd -P)\nproject_root=$(dirname \"$(dirname "
                   "\"$script_dir\")\")\necho \"script_dir\" "
                   "${script_dir}\ndeepspeed_config_file=${project_root}/misc/"
                   "accelerate_config.yaml\naccelerate launch --mixed_precision bf16 "
                   "--num_processes 8 --config_file ${deepspeed_config_file} \\\n"
                   "${script_dir}/train_edit.py",
                   "node procs=8"},
        PublicLine{"khang119966/Vintern-3B-Demo tools/dist.sh, its shape",
                   "NNODES=${NNODES:-1}\nif command -v torchrun &> /dev/null\nthen\n  torchrun "
                   "--nnodes=${NNODES} --nproc_per_node=${GPUS} tools/${FILE}.py\nelse\n  python "
                   "-m torch.distributed.launch --nnodes=${NNODES} tools/${FILE}.py\nfi\n",
                   "node"},
        PublicLine{"samsja/zeroband sweeps/run.sh",
                   "NGPU=${NGPU:-\"1\"}\nPYTORCH_ALLOC_CONF=\"expandable_segments:True\" \\\n\nuv "
                   "run torchrun --local-ranks-filter 0 --nproc_per_node=${NGPU} --master_port=0 "
                   "src/zeroband/train.py \"$@\"",
                   "node procs=1"},
        PublicLine{"aghyad-deeb/prime-rl run_train.sh",
                   "uv run torchrun \\\n    --nproc-per-node 8 \\\n    --local-ranks-filter 0 "
                   "\\\n    src/prime_rl/trainer/rl/train.py  @ trainer.toml \\\n"
                   "        --log.level debug \\\n",
                   "node procs=8"},
        PublicLine{"Kotomiya07/DAT train.sh",
                   "PORT=30001\nGPU=$1\nCFG=$2\nTAG=${3:-'default'}\n\nuv run torchrun "
                   "--nproc_per_node $GPU --master_port $PORT main.py --cfg $CFG --amp --wandb",
                   "node"},
        PublicLine{"klhhhhh/ckpt-fault-tolerance-test scripts/DeepSpeed/async_io/multinode.sh",
                   "deepspeed --num_nodes=4 --num_gpus=4 \\\n    --master_addr=\"nid200297\" \\\n"
                   "    train_fp16_async.py &> async.log\n\ndeepspeed --num_nodes=4 "
                   "--num_gpus=4 \\\n    train_fp16_sync.py &> sync.log\n",
                   "node procs=4 nodes=4"}));

INSTANTIATE_TEST_SUITE_P(
    Plain, Public,
    ::testing::Values(
        PublicLine{"karpathy/nanoGPT README.md, one GPU",
                   "python train.py config/train_shakespeare_char.py", "plain train.py"},
        PublicLine{"karpathy/nanoGPT README.md, CPU",
                   "python train.py config/train_shakespeare_char.py --device=cpu "
                   "--compile=False --eval_iters=20 --dropout=0.0",
                   "plain train.py"},
        PublicLine{"facebookresearch/mae PRETRAIN.md",
                   "python submitit_pretrain.py \\\n    --job_dir ${JOB_DIR} \\\n    --nodes 8 "
                   "\\\n    --use_volta32 \\\n    --data_path ${IMAGENET_DIR}",
                   "plain submitit_pretrain.py"},
        PublicLine{"facebookresearch/ConvNeXt TRAINING.md",
                   "python run_with_submitit.py --nodes 4 --ngpus 8 \\\n--model convnext_tiny "
                   "\\\n--job_dir /path/to/save_results",
                   "plain run_with_submitit.py"},
        PublicLine{"bigcode-project/starcoder README.md: a backslash at the end of the block",
                   "python finetune/alpaca.py \\\n  --model_path=\"bigcode/large-model\"\\\n"
                   "  --streaming=False\\\n  --weight_decay 0.05\\\n",
                   "plain finetune/alpaca.py"},
        PublicLine{"palamp/transformer-lm-trainer train.sh",
                   "# deepspeed --num_gpus=2 trainer.py --config config/config_clm_story.yaml\n"
                   "# python trainer.py\nCUDA_VISIBLE_DEVICES=1 python trainer.py --config "
                   "config/config_paraphase_mt5.yaml",
                   "plain devices=1 trainer.py"},
        PublicLine{"huggingface/accelerate examples/README.md",
                   "python ./nlp_example.py --mixed_precision fp16", "plain ./nlp_example.py"},
        PublicLine{"alisure-ml/Installation nohup.md", "nohup python train.py > ./3.log 2>&1 &",
                   "plain train.py"},
        PublicLine{"danielruijs/huggingface-transformers rtdetrv2/train.sh",
                   "LOG_FILE=\"train.log\"\n\nrm -f \"${LOG_FILE}\" 2>/dev/null || true\n\nnohup "
                   "python train.py > \"${LOG_FILE}\" 2>&1 &\ntail -f \"${LOG_FILE}\"\n",
                   "plain"},
        PublicLine{"huggingface/accelerate examples/README.md, Intel MPI",
                   "mpirun -f hostfile -n 16 -ppn 4 python ./nlp_example.py",
                   "refused: run: it starts mpirun"},
        PublicLine{"codebyzeb/BabyLM scripts/run_hpc_expt.sh",
                   "srun torchrun \\\n--nnodes 1 \\\n--nproc_per_node 1 \\\n--rdzv_backend c10d "
                   "\\\ntrain.py $@\n",
                   "refused: run: it starts srun"}));

}  // namespace
}  // namespace launch
