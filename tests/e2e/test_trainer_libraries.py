"""What a plan writes for DeepSpeed, accelerate and the Hugging Face trainer, given to the real
libraries: they load it, train a step on the CPU, and tell what their engine uses.

Most plans are for GPUs, where these strategies belong; DeepSpeed is told to take the CPU for its
accelerator. Plans for the CPU are submitted as jobs: accelerate leaves both of its plugins aside when
told to use the CPU, and launch has to keep that from happening in silence.
"""

import json
import os
import socket
import subprocess

import pytest

from conftest import BIN, ROOT, VENV

FOUR = ROOT / "configs/clusters/a100-40x4.yaml"
SCRIPT = ROOT / "tests/e2e/train_with.py"
# What a node puts in place of what only it knows.
ON_NODE = {
    "LAUNCH_DS_CONFIG": "ds_config.json",
    "ACCELERATE_DEEPSPEED_CONFIG_FILE": "ds_config.json",
    "LAUNCH_ACCELERATE_CONFIG": "accelerate.yaml",
}


class Planned:
    def __init__(self, job, directory, inventory=FOUR):
        directory.mkdir()
        self.directory = directory
        (directory / "train_with.py").write_text(SCRIPT.read_text())
        (directory / "job.yaml").write_text("name: libraries\n" + job)
        done = subprocess.run(
            [BIN / "launch", "plan", "job.yaml", "--inventory", inventory, "-o", "json"],
            cwd=directory, capture_output=True, text=True, timeout=60,
            env={**os.environ, "LAUNCH_STATE_DIR": str(directory / "none")})
        assert done.returncode == 0, done.stderr
        self.plan = json.loads(done.stdout)
        for file in self.plan["files"]:
            (directory / file["name"]).write_text(file["text"])

    def file(self, name):
        return self.directory / name

    def train(self, command=None):
        """Starts the plan's ranks by its own command and environment; what their engines say."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        ranks = []
        for rank in self.plan["assignments"]:
            env = {name: value for name, value in rank["env"].items() if name != "GLOO_SOCKET_IFNAME"}
            for name, file in ON_NODE.items():
                if name in env:
                    env[name] = str(self.file(file))
            env |= {"PATH": f"{VENV}/bin:{os.environ['PATH']}", "HOME": str(self.directory), "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": port, "DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
            ranks.append(subprocess.Popen(["bash", "--norc", "-c", command or self.plan["command"]], env=env,
                                          cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        texts = []
        try:
            texts = [rank.communicate(timeout=120)[0] for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
        assert [rank.returncode for rank in ranks] == [0] * len(ranks), texts
        used = [json.loads(line[len("USED "):]) for line in texts[0].splitlines() if line.startswith("USED ")]
        assert used, texts[0]
        return used


@pytest.fixture
def planned(tmp_path):
    def make(job, name="job", **kwargs):
        return Planned(job, tmp_path / name, **kwargs)

    return make


def test_deepspeed_trains_with_each_stage_as_planned(planned):
    job = "gpus: 2\nstrategy: zeroN\nprecision: bf16\nbatch: {global: 24, micro: 3}\n" \
          "run: torchrun train_with.py deepspeed $LAUNCH_DS_CONFIG\n"
    stages = [planned(job.replace("N", str(stage), 1), f"zero{stage}") for stage in (1, 2, 3)]
    configs = " ".join(str(stage.file("ds_config.json")) for stage in stages)
    used = stages[2].train(f"exec python train_with.py deepspeed {configs}")
    assert [one["stage"] for one in used] == [1, 2, 3]
    for stage, one in zip(stages, used):
        batch = stage.plan["batch"]
        assert (one["global"], one["micro"], one["accumulate"]) == (batch["global"], batch["micro"], batch["accumulate"])
        assert (one["global"], one["micro"], one["ranks"]) == (24, 3, 2)
        assert one["dtype"] == "torch.bfloat16" and one["bf16"] and not one["fp16"]
        assert one["steps"] == 1


def test_accelerate_takes_deepspeed_from_the_environment(planned):
    job = planned("gpus: 2\ntrainer: accelerate\nstrategy: zero2\nbatch: {global: 16, micro: 2}\n"
                  "run: python train_with.py accelerate\n")
    (used,) = job.train()
    assert used["type"] == "DEEPSPEED" and used["stage"] == 2 and used["ranks"] == 2
    assert (used["global"], used["micro"], used["accumulate"], used["passes"]) == (16, 2, 4, 4)
    assert used["dtype"] == "torch.bfloat16" and used["precision"] == "bf16" and used["steps"] == 1


def test_fsdp_takes_its_settings_from_the_environment(planned):
    job = planned("gpus: 2\ntrainer: accelerate\nstrategy: fsdp\nbatch: {global: 8, micro: 4}\n"
                  "run: python train_with.py fsdp\n")
    (used,) = job.train()
    assert used["sharding"] == "FULL_SHARD" and used["dtype"] == "torch.bfloat16"
    assert used["shard"] * 2 <= used["whole"] + 1, "each of two ranks holds half"
    assert not used["offload"] and not used["checkpointing"]
    assert used["wraps"] == "transformer_auto_wrap_policy" and used["state_dict"] == "SHARDED_STATE_DICT"


@pytest.mark.parametrize("lines, kind", [
    ("strategy: zero3\noffload: all\n", "DEEPSPEED"), ("strategy: fsdp-hybrid\n", "FSDP"), ("strategy: ddp\n", "MULTI_GPU")])
def test_accelerate_loads_its_file(planned, lines, kind):
    from accelerate.commands.config.config_args import load_config_from_file

    job = planned(f"gpus: 2\ntrainer: accelerate\n{lines}batch: {{global: 16, micro: 2}}\nrun: python t.py\n")
    read = load_config_from_file(str(job.file("accelerate.yaml")))
    assert read.distributed_type == kind and read.mixed_precision == "bf16" and not read.use_cpu
    assert (read.num_machines, read.num_processes) == (1, 2)
    if kind == "DEEPSPEED":
        assert read.deepspeed_config["zero_stage"] == 3 and read.deepspeed_config["offload_param_device"] == "cpu"
        assert read.deepspeed_config["gradient_accumulation_steps"] == job.plan["batch"]["accumulate"]
    if kind == "FSDP":
        assert read.fsdp_config["fsdp_sharding_strategy"] == "HYBRID_SHARD"


def test_the_hugging_face_trainer_takes_deepspeed_and_the_batch(planned):
    """Its own checks compare file and flags: a number that differs would stop it."""
    job = planned("gpus: 1\nstrategy: zero2\nprecision: bf16\nbatch: {global: 12, micro: 3}\n"
                  "run: python train_with.py hf --output_dir out --max_steps 1 --optim adamw_torch --report_to none\n")
    (used,) = job.train()
    assert used["type"] == "DEEPSPEED" and used["stage"] == 2 and used["dtype"] == "torch.bfloat16"
    assert (used["global"], used["micro"], used["accumulate"]) == (12, 3, 4)
    assert (used["trainer_micro"], used["trainer_accumulate"], used["trainer_steps"]) == (3, 4, 1)
    assert used["clipping"] == 1.0 and used["steps"] == 1


CPU_JOB = """\
name: hf
device: cpu
gpus: 0
procs_per_node: {procs}
venv: {venv}
retry: {{max: 0}}
{lines}"""


def used_on_this_machine(cluster, lines, procs=2):
    """What the engines say of a job that is submitted and runs on processes of this machine."""
    cluster.up()
    (cluster.work / "train_with.py").write_text(SCRIPT.read_text())
    (cluster.work / "job.yaml").write_text(CPU_JOB.format(venv=VENV, procs=procs, lines=lines))
    job = cluster.submit("job.yaml")
    assert cluster.wait_for(job, "SUCCEEDED", "FAILED", timeout=180) and cluster.state_of(job) == "SUCCEEDED", \
        cluster.launch("logs", job).stdout[-3000:]
    text = cluster.launch("logs", job, "--rank", "0").stdout
    return json.loads(next(line.split("USED ", 1)[1] for line in text.splitlines() if "USED " in line))


def test_two_ranks_of_the_hugging_face_trainer_train_the_planned_batch(cluster):
    """The normal path: a job without batch flags, submitted, on two processes of this machine."""
    used = used_on_this_machine(cluster, "trainer: hf\nbatch: {global: 24, micro: 3}\n"
                                         "run: python train_with.py hf --output_dir out --max_steps 1 --report_to none\n")
    assert used["type"] == "MULTI_CPU" and used["processes"] == 2 and used["precision"] == "no"
    assert (used["trainer_micro"], used["trainer_accumulate"], used["trainer_steps"]) == (3, 4, 1)
    assert used["samples"] == 24, "one optimizer step is the global batch"


def test_deepspeed_of_the_hugging_face_trainer_trains_on_the_cpu_as_planned(cluster):
    used = used_on_this_machine(cluster, "trainer: hf\nstrategy: zero2\nprecision: bf16\nbatch: {global: 24, micro: 3}\n"
                                         "run: python train_with.py hf --output_dir out --max_steps 1 --report_to none "
                                         "--optim adamw_torch\n")
    assert used["type"] == "DEEPSPEED" and used["stage"] == 2 and used["dtype"] == "torch.bfloat16"
    assert used["processes"] == used["ranks"] == 2, "each trains on its part of the data"
    assert (used["global"], used["micro"], used["accumulate"]) == (24, 3, 4) and used["steps"] == 1
    assert used["samples"] == 24


def test_a_deepspeed_file_of_the_users_line_reaches_the_engine_on_the_cpu(cluster):
    (cluster.work / "ds.json").write_text(json.dumps({
        "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto", "zero_optimization": {"stage": 3}}))
    used = used_on_this_machine(cluster, "run: torchrun --nproc-per-node 2 train_with.py hf --output_dir out --max_steps 1 "
                                         "--report_to none --optim adamw_torch --per_device_train_batch_size 3 "
                                         "--gradient_accumulation_steps 2 --deepspeed ds.json\n")
    assert used["type"] == "DEEPSPEED" and used["stage"] == 3 and used["dtype"] == "torch.float32"
    assert used["processes"] == used["ranks"] == 2
    assert (used["global"], used["micro"], used["accumulate"], used["samples"]) == (12, 3, 2, 12)


def test_deepspeed_of_accelerate_trains_alone_on_the_cpu_and_not_in_a_world(cluster):
    lines = "trainer: accelerate\nstrategy: zero2\nbatch: {global: 8, micro: 2}\nrun: python train_with.py accelerate\n"
    used = used_on_this_machine(cluster, lines, procs=1)
    assert used["type"] == "DEEPSPEED" and used["stage"] == 2 and used["ranks"] == used["processes"] == 1
    assert (used["global"], used["micro"], used["accumulate"], used["passes"]) == (8, 2, 4, 4)
    (cluster.work / "job.yaml").write_text(CPU_JOB.format(venv=VENV, procs=2, lines=lines))
    assert "forms no world" in cluster.launch("submit", "job.yaml", code=3).stderr
    (cluster.work / "job.yaml").write_text(CPU_JOB.format(venv=VENV, procs=2, lines=lines.replace("zero2", "fsdp")))
    assert "FSDP for GPUs only" in cluster.launch("submit", "job.yaml", code=3).stderr


def test_a_file_that_contradicts_a_flag_stops_with_both_values(planned, tmp_path):
    config = {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}}
    (tmp_path / "job").mkdir()
    (tmp_path / "job/ds.json").write_text(json.dumps(config))
    (tmp_path / "job/job.yaml").write_text(
        "name: t\ngpus: 1\nrun: python t.py --deepspeed ds.json --per_device_train_batch_size 2\n")
    done = subprocess.run([BIN / "launch", "plan", "job.yaml", "--inventory", FOUR], cwd=tmp_path / "job",
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "2 in --per_device_train_batch_size 2" in done.stderr and "4 in ds.json" in done.stderr
