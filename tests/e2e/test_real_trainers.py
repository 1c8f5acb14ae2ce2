"""The trainers people use, on two hosts of their own networks: launch gives the losses that the trainer's
own launcher gives, started by hand on both hosts as its manual says."""

import importlib.util
import os
import re
import subprocess

import pytest

from conftest import ROOT, VENV, assert_none_left
from test_namespaces import Hosts, NetCluster, need_namespaces

SCRIPT = ROOT / "tests/e2e/train_same.py"
PORT = 29541

# How each is started by hand on host `i`, and as a line of a job.
BY_HAND = {
    "torchrun": lambda i, head, words: ["-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1",
                                        f"--node-rank={i}", f"--master-addr={head}", f"--master-port={PORT}", *words],
    "accelerate": lambda i, head, words: ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_machines=2",
                                          "--num_processes=2", f"--machine_rank={i}", f"--main_process_ip={head}",
                                          f"--main_process_port={PORT}", *words],
    "deepspeed": lambda i, head, words: ["-m", "deepspeed.launcher.runner", "--hostfile=hostfile", "--no_ssh",
                                         f"--node_rank={i}", f"--master_addr={head}", f"--master_port={PORT}", *words],
}

# Launcher of the run by hand, `run` of the job, and how many losses both print.
CASES = {
    # ZeRO 0, 1, 2 and 3, one after the other in the same ranks.
    "deepspeed": ("deepspeed", "deepspeed --hostfile hostfile train_same.py deepspeed", 20),
    "accelerate": ("accelerate", "accelerate launch --cpu --num_machines 2 --num_processes 2 train_same.py accelerate", 5),
    "hf": ("torchrun", "torchrun --nnodes 2 --nproc-per-node 1 train_same.py hf", 5),
    "fsdp2": ("torchrun", "torchrun --nnodes 2 --nproc-per-node 1 train_same.py fsdp2", 5),
    "fabric": ("torchrun", "torchrun --nnodes 2 --nproc-per-node 1 train_same.py fabric", 5),
}
NEEDS = {"deepspeed": "deepspeed", "accelerate": "accelerate", "hf": "transformers", "fabric": "lightning_fabric"}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    need_namespaces()
    made = Hosts(tmp_path_factory.mktemp("hosts"), ["na", "nb"])
    yield made
    made.close()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, hosts):
    """One for all trainers: their runs take long enough."""
    home = tmp_path_factory.mktemp("trainers")
    made = NetCluster(home, hosts)
    (made.work / "train_same.py").write_text(SCRIPT.read_text())
    made.write("hostfile", "".join(f"{hosts.address(name)} slots=1\n" for name in hosts.names))
    yield made
    made.down()
    assert_none_left(home)


def losses(text):
    return {(m[1], int(m[2])): m[3] for m in re.finditer(r"(\w+) step (\d+) loss (\S+)", text)}


def by_hand(hosts, cluster, launcher, library):
    runs = []
    for i, name in enumerate(hosts.names):
        words = BY_HAND[launcher](i, hosts.address(hosts.names[0]), ["train_same.py", library])
        env = {**os.environ, "PATH": f"{VENV}/bin:{os.environ['PATH']}", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
               "GLOO_SOCKET_IFNAME": "eth0", "ACCELERATE_USE_CPU": "true", "DS_ACCELERATOR": "cpu",
               "HF_HUB_OFFLINE": "1", "HOME": str(cluster.work)}
        runs.append(subprocess.Popen(hosts.command(name, [VENV / "bin/python", *words]), env=env, cwd=cluster.work,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    try:
        texts = [run.communicate(timeout=240)[0] for run in runs]
    finally:
        for run in runs:
            run.kill()
    assert [run.returncode for run in runs] == [0, 0], texts
    return losses(texts[0])


def need(library):
    needs = NEEDS.get(library)
    if needs and importlib.util.find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed in {VENV}: scripts/dependencies.sh names it")


def by_launch(cluster, name, run, more=""):
    """The losses of a job on both hosts with one process on each."""
    job = cluster.submit(cluster.write("job.yaml", f"""\
name: {name}
nodes: 2
device: cpu
gpus: 0
procs_per_node: 1
venv: {VENV}
env: {{DS_ACCELERATOR: cpu, HF_HUB_OFFLINE: "1", OMP_NUM_THREADS: "1"}}
run: {run}
{more}"""))
    cluster.launch("wait", job, timeout=240)
    status = cluster.status(job)
    assert status["attempts"][0]["nodes"] == ["na", "nb"] and len(status["attempts"]) == 1
    return losses(cluster.launch("logs", job, "--rank", "0").stdout)


@pytest.mark.parametrize("library", CASES)
def test_a_real_trainer_on_two_hosts_gives_the_losses_of_its_own_launcher(library, hosts, cluster):
    need(library)
    launcher, line, count = CASES[library]
    truth = by_hand(hosts, cluster, launcher, library)
    assert len(truth) == count, truth
    assert by_launch(cluster, library, line) == truth


# Called once on each host, by a text that was written for one, or as the job names it: the launcher itself starts the ranks.
CALLS = {
    "torchrun": ("fsdp2", "torchrun --nnodes=1 --node_rank=0 --master_addr=localhost --master_port=29500 --nproc_per_node=1 {}",
                 ("text", "hidden", "named")),
    "accelerate": ("accelerate", "accelerate launch --cpu --num_machines 1 --num_processes 1 --machine_rank 0 {}", ("hidden",)),
    "deepspeed": ("deepspeed", "deepspeed --num_gpus 1 {}", ("text",)),
}
FORMS = {
    "text": lambda launcher, words: ("bash train.sh", ""),
    "hidden": lambda launcher, words: ("bash $(echo train.sh)", "launcher: node\n"),
    "named": lambda launcher, words: (f"python {words}", f"launcher: {launcher}\n"),
}


@pytest.mark.parametrize("launcher", CALLS)
def test_a_launcher_that_each_of_two_hosts_calls_gives_the_losses_of_one_started_by_hand(launcher, hosts, cluster):
    library, call, forms = CALLS[launcher]
    need(library)
    truth = by_hand(hosts, cluster, launcher, library)
    assert len(truth) == CASES[library][2], truth
    words = f"train_same.py {library}"
    cluster.write("train.sh", f"set -e\n{call.format(words)}\n")
    for form in forms:
        run, more = FORMS[form](launcher, words)
        assert by_launch(cluster, form, run, more) == truth, form
        assert cluster.json("plan", cluster.work / "job.yaml")["start"] == "per_node", form
