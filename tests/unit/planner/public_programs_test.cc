// Python programs of public repositories that start their own processes, drive several devices or
// take numbers of devices as flags, however a line or a script starts them.
#include <gtest/gtest.h>

#include <map>

#include "planner/line/launch_line.h"
#include "tests/unit/planner/public_line.h"

namespace launch {
namespace {

constexpr const char* kDataParallel = "model = torch.nn.DataParallel(model).cuda()\n";
constexpr const char* kSpawns = "import torch.multiprocessing as mp\nmp.spawn(run, nprocs=4)\n";
constexpr const char* kEngine =
    "from yolox.core import launch\nif __name__ == '__main__':\n    launch(\n        main, "
    "num_gpu)\n";
constexpr const char* kRanks = "local = int(os.environ[\"LOCAL_RANK\"])\n";

struct PublicProgram {
  const char* source;
  std::map<std::string, std::string> files;
  const char* run;
  const char* reading;
  bool gpus_open = false;
};

class PublicPrograms : public ::testing::TestWithParam<PublicProgram> {};

TEST_P(PublicPrograms, AreStartedAsTheirAuthorsMeanIt) {
  LaunchLineOptions options;
  options.files = GetParam().files;
  options.gpus_open = GetParam().gpus_open;
  EXPECT_EQ(Reading(ReadLaunchLine(GetParam().run, options)), GetParam().reading)
      << GetParam().source;
}

INSTANTIATE_TEST_SUITE_P(
    Started, PublicPrograms,
    ::testing::Values(
        PublicProgram{"ExPl0i/MotionCNN-Waymo-Open-Motion-Dataset train.sh",
                      {{"train.sh", "python train.py \\\n  --lr 1\n"}, {"train.py", kDataParallel}},
                      "bash train.sh",
                      "node procs=1"},
        PublicProgram{"k2-fsa/icefall and forks, egs/librispeech/ASR: an executable script",
                      {{"run.sh", "./rnnt/train.py --world-size 4"}, {"./rnnt/train.py", kSpawns}},
                      "bash run.sh",
                      "node"},
        PublicProgram{"READMEs: install, then train",
                      {{"train.py", kDataParallel}},
                      "pip install -r requirements.txt && python train.py",
                      "node procs=1"},
        PublicProgram{"READMEs: activate, then train",
                      {{"train.py", kSpawns}},
                      "source .venv/bin/activate\npython train.py",
                      "node"},
        PublicProgram{
            "READMEs of uv", {{"src/train.py", kSpawns}}, "cd src && uv run train.py", "node"},
        PublicProgram{"READMEs of conda",
                      {{"train.py", "from torch.nn import DataParallel\nm = DataParallel(m)\n"}},
                      "conda run -n env python train.py",
                      "node procs=1"},
        PublicProgram{"READMEs of packages",
                      {{"pkg/train.py", kDataParallel}},
                      "python -m pkg.train --lr 1",
                      "node procs=1"},
        PublicProgram{"READMEs of packages: __main__.py",
                      {{"pkg/train/__main__.py", kSpawns}},
                      "python -m pkg.train",
                      "node"},
        PublicProgram{"programs with a process for each rank",
                      {{"train.py",
                        "import torch.multiprocessing as mp\nmp.Process(target=run)\n"
                        "dist.init_process_group('nccl', rank=rank)\n"}},
                      "bash -c 'python train.py'",
                      "node"},
        PublicProgram{"a program of ranks beside one that drives all GPUs",
                      {{"train.py", kRanks}, {"eval.py", kDataParallel}},
                      "python train.py\npython eval.py",
                      "plain"},
        PublicProgram{"k2-fsa/icefall egs: devices exported in the script",
                      {{"run.sh", "export CUDA_VISIBLE_DEVICES=0,1\n./train.py --world-size 2\n"},
                       {"./train.py", kSpawns}},
                      "bash run.sh",
                      "node devices=2",
                      true},
        PublicProgram{"hukkelas/full_body_anonymization docs/TRAINING.md",
                      {{"train.py", kSpawns}},
                      "CUDA_VISIBLE_DEVICES=0,1, python train.py config.py",
                      "node devices=2",
                      true},
        PublicProgram{"google-research/vision_transformer vit_jax/main.py",
                      {{"vit_jax/main.py", "from absl import app\nimport jax\nimport flax\n"}},
                      "python -m vit_jax.main --config=c.py",
                      "node procs=1"},
        PublicProgram{"programs of jax with a process for each GPU",
                      {{"t.py", "import jax\njax.distributed.initialize(local_device_ids=[i])\n"}},
                      "python t.py",
                      "plain t.py"},
        PublicProgram{"programs of torch that read data by jax",
                      {{"t.py", "import jax\nimport torch\n"}},
                      "python t.py",
                      "plain t.py"},
        PublicProgram{"tensorflow/tensor2tensor and tutorials of tf.distribute",
                      {{"t.py", "s = tf.distribute.MirroredStrategy()\n"}},
                      "python t.py",
                      "node procs=1"},
        PublicProgram{"tutorials of tf.distribute, several machines",
                      {{"t.py", "s = tf.distribute.MultiWorkerMirroredStrategy()\n"}},
                      "python t.py",
                      "plain t.py"},
        PublicProgram{"facebookresearch/sam2 training/train.py",
                      {{"train.py",
                        "os.environ['LOCAL_RANK'] = str(rank)\n"
                        "torch.multiprocessing.start_processes(run, nprocs=n)\n"}},
                      "python train.py -c c.yaml",
                      "node"},
        PublicProgram{"NVIDIA/tacotron2 multiproc.py",
                      {{"multiproc.py",
                        "workers = torch.cuda.device_count()\n"
                        "p = subprocess.Popen([str(sys.executable)]+argslist, stdout=out)\n"}},
                      "python -m multiproc train.py --hparams=distributed_run=True",
                      "node"},
        PublicProgram{"facebookresearch/ijepa main.py, with its process group beside",
                      {{"main.py",
                        "import torch.multiprocessing as mp\nmp.Process(\n    target=run)\n"
                        "init_process_group('nccl', rank=rank)\n"}},
                      "python main.py --devices cuda:0 cuda:1",
                      "node"},
        PublicProgram{"fundamentalvision/Deformable-DETR tools/launch.py",
                      {},
                      "python ./tools/launch.py --nnodes 1 --node_rank 0 --master_port 29500 "
                      "--nproc_per_node 8 ./configs/r50.sh",
                      "node procs=8"},
        PublicProgram{"coqui-ai/TTS recipes",
                      {},
                      "python -m trainer.distribute --script train.py --gpus 0,1,2",
                      "node"},
        PublicProgram{
            "facebookresearch/audiocraft README: dora", {}, "dora run -d solver=musicgen", "node"},
        PublicProgram{"a class of that name, and one that holds it",
                      {{"train.py",
                        "class DataParallel(nn.Module): pass\nm = FullyShardedDataParallel(m)\n"}},
                      "bash -c 'python train.py'",
                      "plain"}));

// As numbers behind the flags of a program; the job says nothing of GPUs.
INSTANTIATE_TEST_SUITE_P(
    Flags, PublicPrograms,
    ::testing::Values(
        PublicProgram{"CompVis/latent-diffusion and forks: README",
                      {},
                      "python main.py -t --base configs/a.yaml --gpus 0,1,2,3",
                      "plain procs=4 main.py",
                      true},
        PublicProgram{"CompVis/taming-transformers README: one device",
                      {},
                      "python main.py --base configs/a.yaml -t True --gpus 0,",
                      "plain procs=1 main.py",
                      true},
        PublicProgram{
            "Lingstreasure/stable-diffusion-finetune train.sh",
            {{"train.sh", "python main.py -t \\\n --base a.yaml --gpus 0,1 --num_nodes 1\n"}},
            "bash train.sh",
            "plain procs=2",
            true},
        PublicProgram{
            "pyro-ppl/pyro docs",
            {},
            "python examples/svi_lightning.py --accelerator gpu --devices 2 --strategy ddp",
            "plain procs=2 examples/svi_lightning.py",
            true},
        PublicProgram{"pytorch-lightning docs: a run on the CPU",
                      {},
                      "python train.py --accelerator cpu --devices 4",
                      "plain train.py",
                      true},
        PublicProgram{"hppRC/template-pytorch-lightning-hydra-mlflow-poetry README",
                      {},
                      "poetry run python main.py gpus=[0,1,2,3] trainer.accelerator=ddp",
                      "plain procs=4",
                      true},
        PublicProgram{
            "LightningCLI docs", {}, "python t.py --trainer.gpus=0,1", "plain procs=2 t.py", true},
        PublicProgram{"a script of Lightning at hand",
                      {{"train.py", "import pytorch_lightning as pl\n"}},
                      "python train.py --gpus 4",
                      "plain procs=4 train.py",
                      true},
        PublicProgram{"junyanz/pytorch-CycleGAN-and-pix2pix: devices of a program not at hand",
                      {},
                      "python train.py --dataroot d --gpu_ids 0,1,2,3",
                      "plain train.py",
                      true},
        PublicProgram{"the same with its text",
                      {{"train.py", kDataParallel}},
                      "python train.py --gpu_ids 0,1,2,3",
                      "node procs=1 devices=4",
                      true},
        PublicProgram{"Megvii-BaseDetection/YOLOX README",
                      {{"tools/train.py", kEngine}},
                      "python tools/train.py -n yolox-s -d 8 -b 64 --fp16 -o",
                      "node procs=8",
                      true},
        PublicProgram{"forks of detectron2: --num-gpus without --config-file",
                      {{"tools/train_net.py",
                        "from detectron2.engine import DefaultTrainer, launch\nlaunch(main, 4)\n"}},
                      "python tools/train_net.py --num-gpus 4",
                      "node procs=4",
                      true},
        PublicProgram{"gist-ailab/seed bash/train.sh",
                      {},
                      "python train_net.py --config-file a.yaml --num-gpus 1",
                      "plain procs=1 train_net.py",
                      true},
        PublicProgram{
            "many READMEs: a device's number", {}, "python t.py --gpu 2", "plain t.py", true}));

constexpr const char* kSpreads =
    "from transformers import AutoModelForCausalLM\n"
    "m = AutoModelForCausalLM.from_pretrained('x', device_map='auto')\n";

// One process that spreads one model over the GPUs.
INSTANTIATE_TEST_SUITE_P(
    Spread, PublicPrograms,
    ::testing::Values(
        PublicProgram{"EleutherAI/lm-evaluation-harness README",
                      {},
                      "lm_eval --model hf --model_args pretrained=m,parallelize=True --tasks a",
                      "node procs=1"},
        PublicProgram{"the same with vLLM",
                      {},
                      "lm_eval --model vllm --model_args pretrained=m,tensor_parallel_size=4",
                      "node procs=1 devices=4",
                      true},
        PublicProgram{"vllm-project/vllm docs",
                      {},
                      "vllm serve m --tensor-parallel-size 4",
                      "node procs=1 devices=4",
                      true},
        PublicProgram{
            "a model on one GPU", {}, "vllm serve m --tensor-parallel-size 1", "plain", true},
        PublicProgram{"transformers docs", {{"gen.py", kSpreads}}, "python gen.py", "node procs=1"},
        PublicProgram{"vllm docs: offline inference",
                      {{"gen.py", "from vllm import LLM\nm = LLM('x', tensor_parallel_size=4)\n"}},
                      "python gen.py",
                      "node procs=1"},
        PublicProgram{"the same on one GPU",
                      {{"gen.py", "from vllm import LLM\nm = LLM('x', tensor_parallel_size=1)\n"}},
                      "python gen.py",
                      "plain gen.py"},
        PublicProgram{"tloen/alpaca-lora finetune.py: each rank has a GPU of its own",
                      {{"t.py",
                        "device_map = 'auto'\nif int(os.environ.get('WORLD_SIZE', 1)) != 1:\n"
                        "    device_map = {'': int(os.environ.get('LOCAL_RANK') or 0)}\n"}},
                      "python t.py",
                      "plain t.py"},
        PublicProgram{"ranks of a program with tensor parallelism of its own",
                      {{"t.py", kRanks}},
                      "python t.py --tensor_parallel_size 4",
                      "plain t.py"},
        PublicProgram{"a script that is not at hand",
                      {},
                      "python t.py --tensor_parallel_size 4",
                      "plain t.py"},
        PublicProgram{"trl scripts: the model of each rank, and one that judges",
                      {{"t.py",
                        "m = A.from_pretrained('x', device_map={'': training_args.local_rank})\n"
                        "judge = A.from_pretrained('y', device_map='auto')\n"}},
                      "python t.py",
                      "plain t.py"},
        PublicProgram{"ranks that deepspeed makes itself known to",
                      {{"t.py",
                        "import deepspeed\ndeepspeed.init_distributed()\n"
                        "judge = A.from_pretrained('y', device_map='auto')\n"}},
                      "python t.py",
                      "plain t.py"},
        PublicProgram{"transformers docs, in ranks that the line asks for",
                      {{"t.py", kSpreads}},
                      "torchrun --nproc_per_node 4 t.py",
                      "torchrun procs=4 t.py"},
        PublicProgram{"a script whose program is elsewhere, with a size of a group of its ranks",
                      {{"train.py", "from pkg.main import main\nmain()\n"}},
                      "python train.py --tp_size 2 tensor_parallel_size=2",
                      "plain train.py"},
        PublicProgram{"the same of a module", {}, "python -m pkg.train --tp_size 2", "plain -m"},
        PublicProgram{"the same behind a shell script",
                      {{"run.sh", "python train.py \"$@\"\n"}, {"train.py", kRanks}},
                      "bash run.sh --tp_size 2",
                      "plain"},
        PublicProgram{"vllm docs: the server as a module",
                      {},
                      "python -m vllm.entrypoints.openai.api_server --tensor-parallel-size 4",
                      "node procs=1 devices=4",
                      true},
        PublicProgram{"uv docs of vllm",
                      {},
                      "uv run vllm serve m --tensor-parallel-size 4",
                      "node procs=1 devices=4",
                      true},
        PublicProgram{"NVIDIA/pix2pixHD scripts: one process of torch.distributed.launch",
                      {},
                      "python -m torch.distributed.launch train.py --gpu_ids 0,1,2,3 --fp16",
                      "torchrun procs=1 devices=4 train.py",
                      true},
        PublicProgram{"the same in a job with GPUs",
                      {},
                      "torchrun train.py --gpu_ids 0,1,2,3",
                      "torchrun procs=1 train.py"},
        PublicProgram{"ranks that are told which devices to share",
                      {},
                      "torchrun --nproc_per_node 4 train.py --gpu_ids 0,1,2,3",
                      "torchrun procs=4 train.py"},
        PublicProgram{"one device", {}, "torchrun train.py --gpu_ids 0", "torchrun train.py"}));

constexpr const char* kSubmitJobs =
    "import submitit\n\ndef submit_jobs(task, args):\n    if not args.out:\n"
    "        args.out = 'o'\n    executor = submitit.AutoExecutor(folder=args.out)\n"
    "    executor.submit(task)\n";
constexpr const char* kLaunchJob =
    "import torch\n\ndef launch_job(cfg, init_method, func):\n    if cfg.NUM_GPUS > 1:\n"
    "        torch.multiprocessing.spawn(\n            run, nprocs=cfg.NUM_GPUS)\n    else:\n"
    "        func(cfg)\n\ndef other():\n    pass\n";
constexpr const char* kCallsLaunchJob =
    "from pkg.utils.misc import launch_job\nlaunch_job(cfg=cfg, init_method=m, func=train)\n";
constexpr const char* kRefusedSubmit =
    "refused: run: run.py submits to Slurm, once for each process of the job";

// What a script starts by functions of other modules, and what submits.
INSTANTIATE_TEST_SUITE_P(
    Imported, PublicPrograms,
    ::testing::Values(
        PublicProgram{"facebookresearch/SlowFast tools/run_net.py",
                      {{"tools/run_net.py", kCallsLaunchJob}, {"pkg/utils/misc.py", kLaunchJob}},
                      "python tools/run_net.py --cfg a.yaml NUM_GPUS 8",
                      "node procs=8"},
        PublicProgram{"the module beside the script",
                      {{"run.py", "from misc import (other,\n  launch_job as go)\ngo(cfg)\n"},
                       {"misc.py", kLaunchJob}},
                      "python run.py",
                      "node"},
        PublicProgram{"a function that is imported and not called",
                      {{"run.py", "from misc import launch_job\n"}, {"misc.py", kLaunchJob}},
                      "python run.py",
                      "plain run.py"},
        PublicProgram{"another function of the module",
                      {{"run.py", "from misc import launch_name\nlaunch_name()\n"},
                       {"misc.py", std::string(kLaunchJob) + "def launch_name():\n    pass\n"}},
                      "python run.py",
                      "plain run.py"},
        PublicProgram{"facebookresearch/sam2 training/train.py, its choice",
                      {{"train.py",
                        "import submitit\ndef single():\n"
                        "    runner = torch.multiprocessing.start_processes\n"
                        "    runner(run, nprocs=n)\ndef main():\n    if use_cluster:\n"
                        "        e = submitit.AutoExecutor(folder=d)\n    else:\n"
                        "        single()\n"}},
                      "python train.py -c a.yaml --use-cluster 0 --num-gpus 8",
                      "node procs=8"},
        PublicProgram{"facebookresearch/dinov2 run/train/train.py",
                      {{"run.py", "from pkg.submit import submit_jobs\nsubmit_jobs(T, args)\n"},
                       {"pkg/submit.py", kSubmitJobs}},
                      "python run.py --nodes 4",
                      kRefusedSubmit},
        PublicProgram{"a script of submitit of another name",
                      {{"run.py",
                        "import submitit\nex = submitit.AutoExecutor(folder='l')\n"
                        "ex.update_parameters(nodes=2)\nex.submit(main)\n"}},
                      "python run.py",
                      kRefusedSubmit},
        PublicProgram{"one that may also train here",
                      {{"run.py",
                        "import submitit\ndef main():\n    if args.local:\n        train()\n"
                        "        return\n    ex = submitit.AutoExecutor(folder='l')\n"}},
                      "python run.py",
                      "plain run.py"},
        PublicProgram{"one that may run its jobs here",
                      {{"run.py",
                        "import submitit\n"
                        "ex = submitit.AutoExecutor(folder='l', cluster=args.cluster)\n"}},
                      "python run.py",
                      "plain run.py"},
        PublicProgram{"one whose arguments hold calls in front of where it runs",
                      {{"run.py",
                        "import submitit\nex = submitit.AutoExecutor(\n"
                        "    folder=os.path.join(d, 'x'), cluster='local')\n"}},
                      "python run.py",
                      "plain run.py"},
        PublicProgram{"one that makes it by a condition in the line",
                      {{"run.py",
                        "import submitit\n"
                        "ex = submitit.AutoExecutor(folder='l') if args.slurm else None\n"}},
                      "python run.py",
                      "plain run.py"},
        PublicProgram{"one that makes threads first",
                      {{"run.py",
                        "import submitit\npool = ThreadPoolExecutor(4)\nif args.slurm:\n"
                        "    ex = submitit.AutoExecutor(folder='l')\n"}},
                      "python run.py",
                      "plain run.py"},
        PublicProgram{"one whose function for it is called in a branch",
                      {{"run.py",
                        "import submitit\ndef submit(a):\n"
                        "    ex = submitit.AutoExecutor(folder='l')\n    ex.submit(train, a)\n"
                        "# submit(args)\nif __name__ == '__main__':\n    if args.slurm:\n"
                        "        submit(args)\n    else:\n        train(args)\n"}},
                      "python run.py",
                      "plain run.py"},
        PublicProgram{"one whose function for it is always called",
                      {{"run.py",
                        "from submitit import AutoExecutor\n\ndef job(a):\n    return 1\n\n"
                        "def submit(a):\n    if not a:\n        a = 2\n"
                        "    return AutoExecutor(folder='l')\n\ndef main():\n    submit(1)\n\n"
                        "if __name__ == '__main__':\n    sys.exit(main())\n"}},
                      "python run.py",
                      kRefusedSubmit},
        PublicProgram{"one that calls the function of a module in a branch",
                      {{"run.py",
                        "from pkg.submit import submit_jobs\nif args.slurm:\n"
                        "    submit_jobs(T, args)\nelse:\n    train(args)\n"},
                       {"pkg/submit.py", kSubmitJobs}},
                      "python run.py",
                      "plain run.py"},
        PublicProgram{"a module whose name leads elsewhere",
                      {{"run.py", "from /pkg/misc import launch_job\nlaunch_job()\n"},
                       {"/pkg/misc.py", kLaunchJob}},
                      "python run.py",
                      "plain run.py"},
        PublicProgram{"names with a comment behind each",
                      {{"run.py",
                        "from misc import (\n    other,  # a, b\n    launch_job,  # c\n)\n"
                        "launch_job(cfg)\n"},
                       {"misc.py", kLaunchJob}},
                      "python run.py",
                      "node"},
        PublicProgram{"dmlc/dgl examples: its launcher",
                      {},
                      "python3 tools/launch.py --num_trainers 4 --ip_config ip.txt "
                      "\"python3 train_dist.py --graph_name g --ip_config ip.txt\"",
                      "refused: run: --ip_config and a command behind it: the program starts the "
                      "command on those hosts by ssh, out of launch's reach"},
        PublicProgram{"the program that it starts",
                      {},
                      "python3 train_dist.py --graph_name g --ip_config ip.txt --num_trainers 4",
                      "plain train_dist.py"},
        PublicProgram{"a text that only looks like a command",
                      {},
                      "python eval.py --hostfile h.txt --prompt \"python a.py does what?\"",
                      "plain eval.py"}));

}  // namespace
}  // namespace launch
