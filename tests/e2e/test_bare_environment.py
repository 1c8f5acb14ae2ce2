"""Preflight of environments that really lack what a job needs."""

import json
import shutil
import subprocess
import sys

from conftest import wait_until
from test_preflight import script


def test_an_environment_without_torch_or_compiler_is_named(cluster, nvml):
    """Real causes: an environment without torch, an agent whose PATH has no compiler, a GPU that has no fp8."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", cluster.work / "bare"], check=True, timeout=60)
    torch = {"version": "2.11.0+cu130", "cuda": "13.0", "hip": None, "path": "/opt/torch"}
    answers = [{"stage": "a", "python": "3.11.7", "packages": {"deepspeed": "0.18.4"}, "torch": torch, "stamps": []},
               {"stage": "b", "torch": {**torch, "arch_list": ["sm_80"], "nccl": "2.27.7"}, "sees_gpu": True,
                "devices": 4, "mps": False, "says": ""}]
    script(cluster.work / "ds/bin/python", "".join(f"echo '@launch-python-probe {json.dumps(a)}'\n" for a in answers))
    tools = cluster.work / "tools"
    script(tools / "nvcc", "echo 'Cuda compilation tools, release 13.0, V13.0.48'\n")
    for name in ("bash", "sh", "env", "cat", "ls", "sleep", "true"):
        (tools / name).symlink_to(shutil.which(name))
    cluster.env["PATH"] = str(tools)
    environment = nvml.state("a100-40x4")
    nvml.edit(lambda state: state.update(driver="580.65.06", cuda=13000))
    cluster.up("--nvml-library", nvml.library, "--interpreter", cluster.work / "bare/bin/python",
               "--interpreter", cluster.work / "ds/bin/python", env=environment)
    cluster.write("train.py", "")

    def error_of(text, code):
        job = cluster.write("job.yaml", text)
        done = cluster.launch("check", job, "-o", "json", code=None)
        return next((f for f in json.loads(done.stdout or "{}").get("findings", ())
                     if f["code"] == code and f["severity"] == "error"), None)

    missing = wait_until("torch_missing", lambda: error_of(
        "name: a\ngpus: 1\nvenv: ./bare\nrun: torchrun --nproc_per_node=1 train.py\n", "torch_missing"), timeout=90)
    assert "bare/bin/python" in missing["says"] and "install torch" in missing["fix"][0]
    tool = wait_until("op_build_prerequisites", lambda: error_of(
        "name: c\ngpus: 1\nvenv: ./ds\nstrategy: zero2-offload\nbatch: {global: 8, micro: 8}\nrun: python train.py\n",
        "op_build_prerequisites"), timeout=90)
    assert "there is no C++ compiler" in tool["says"] and tool["remedy"], tool
    job = cluster.write("fp8.yaml", "name: b\ngpus: 1\nprecision: fp8\nrun: python train.py\n")
    refused = cluster.launch("submit", job, code=3)
    assert "8.9" in refused.stderr and "8.0" in refused.stderr
