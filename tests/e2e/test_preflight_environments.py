"""What preflight says of environments and nodes that this machine has none of: a torch that answers its probe from a
file, a driver from a file, and a node whose clock, limit of locked memory or packages differ."""

import json
import shutil
import subprocess
import textwrap

import pytest

from conftest import FAKE_NVML, processes_with, wait_until
from test_namespaces import NetCluster, hosts  # noqa: F401  (a fixture)
from test_preflight import errors, script


def say_torch(python, torch, packages=None, sees_gpu=True):
    """An interpreter that answers the probe of preflight; `torch` is None or its version, CUDA, architectures, NCCL."""
    packages = packages or {}
    found = torch and {"version": torch[0], "cuda": torch[1], "hip": None, "path": "/opt/torch"}
    answers = [{"stage": "a", "python": "3.11.7", "packages": packages, "torch": found, "stamps": []}]
    if found:
        answers.append({"stage": "b", "torch": found | {"arch_list": torch[2], "nccl": torch[3]}, "sees_gpu": sees_gpu,
                        "devices": 4 if sees_gpu else 0, "mps": False, "says": "" if sees_gpu else "driver too old"})
    script(python, "".join(f"echo '@launch-python-probe {json.dumps(a)}'\n" for a in answers))


GOOD = ("2.5.1+cu124", "12.4", ["sm_80", "sm_90"], "2.21.5")

# name: torch, whether it sees the GPU, code, what the sentence names. The node: A100, CUDA 12.4.
ENVIRONMENTS = {
    "arch": (("1.8.0+cu111", "11.1", ["sm_60", "sm_70"], "2.7.8"), True, "no_kernel_image", "sm_80"),
    "newer": (("2.9.0+cu130", "13.0", ["sm_80"], "2.27.5"), False, "cuda_driver_too_old", "12.4"),
    "without": (None, False, "torch_missing", "no torch"),
}


def test_each_torch_that_cannot_use_the_node_is_refused_with_its_code(cluster, nvml):
    cluster.up("--nvml-library", nvml.library, env=nvml.state("a100-40x4"))
    cluster.write("train.py", "import torch\n")
    for name, (torch, sees, code, says) in ENVIRONMENTS.items():
        say_torch(cluster.work / name / "bin/python", torch, sees_gpu=sees)
        job = cluster.write(f"{name}.yaml", f"name: {name}\ngpus: 1\nvenv: ./{name}\nrun: python train.py\n")
        check = cluster.launch("check", job, "-o", "json", code=None, timeout=120)
        found = [f for f in json.loads(check.stdout).get("findings", []) if f["code"] == code]
        assert found and says in found[0]["says"] and found[0]["remedy"], (name, check.stdout, check.stderr)
        assert check.returncode == (4 if found[0]["severity"] == "error" else 0), (name, check.stdout)
        if name == "arch":  # a refusal says what check says
            refused = cluster.launch("submit", job, "--wait", code=4, timeout=120)
            assert found[0]["says"] in refused.stderr
    say_torch(cluster.work / "good/bin/python", GOOD)
    good = cluster.write("good.yaml", "name: good\ngpus: 1\nvenv: ./good\nrun: python train.py\n")
    assert errors(json.loads(cluster.launch("check", good, "-o", "json", timeout=120).stdout)) == []


def test_the_torch_behind_condas_activation_scripts_is_the_one_that_is_judged(cluster, nvml):
    prefix = cluster.work / "envs/train"
    say_torch(prefix / "bin/python", GOOD)
    answers = (prefix / "bin/python").read_text()
    say_torch(prefix / "bin/python", ENVIRONMENTS["newer"][0], sees_gpu=False)
    chooses = f'if [ "$LD_LIBRARY_PATH" = {prefix}/compat ]; then\n{answers}\nexit\nfi\n'
    script(prefix / "bin/python", chooses + (prefix / "bin/python").read_text())
    scripts = prefix / "etc/conda/activate.d"
    scripts.mkdir(parents=True)
    (cluster.work / ".conda").mkdir()
    (cluster.work / ".conda/environments.txt").write_text(f"{prefix}\n")
    cluster.up("--nvml-library", nvml.library, env=nvml.state("a100-40x4"))
    cluster.write("train.py", "import torch\n")
    job = cluster.write("job.yaml", "name: conda\ngpus: 1\nconda: train\nrun: python train.py\n")
    refused = json.loads(cluster.launch("check", job, "-o", "json", code=4, timeout=120).stdout)
    assert [f["code"] for f in errors(refused)] == ["cuda_driver_too_old"], refused
    (scripts / "compat.sh").write_text('export LD_LIBRARY_PATH="$CONDA_PREFIX/compat"\n')
    again = cluster.write("again.yaml", job.read_text())
    assert errors(json.loads(cluster.launch("check", again, "-o", "json", timeout=120).stdout)) == []


# A stand-in for apptainer: what is in the image is in a directory of its name.
IMAGE = """\
while [ "$1" != exec ]; do shift; done
while [ -n "${1##*.sif}" ]; do shift; done
export PATH=$(dirname "$(readlink -f "$1")")/inside:/usr/bin:/bin
shift
exec "$@"
"""


def test_the_torch_of_an_image_is_asked_inside_of_it(cluster, nvml):
    script(cluster.work / "tools/apptainer", IMAGE)
    cluster.env["PATH"] = f"{cluster.work}/tools:{cluster.env['PATH']}"
    cluster.up("--nvml-library", nvml.library, env=nvml.state("a100-40x4"))
    cluster.write("team.sif", "one")
    cluster.write("train.py", "")
    say_torch(cluster.work / "inside/python3", ("2.9.0", None, [], None), sees_gpu=False)
    job = cluster.write("job.yaml", "name: image\ngpus: 1\nimage: ./team.sif\nrun: python3 train.py\n")
    refused = json.loads(cluster.launch("check", job, "-o", "json", code=4, timeout=120).stdout)
    (error,) = errors(refused)
    assert error["code"] == "torch_cpu_only" and "./team.sif" in error["says"], error
    assert error["remedy"].startswith("use an image") and not error["fix"], error
    assert error["says"] in cluster.launch("submit", job, "--wait", code=4, timeout=120).stderr
    cluster.write("new.sif", "two").replace(cluster.work / "team.sif")
    say_torch(cluster.work / "inside/python3", GOOD)
    assert errors(json.loads(cluster.launch("check", job, "-o", "json", timeout=120).stdout)) == []


LATE_CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec* at) {
  int (*real)(clockid_t, struct timespec*) = dlsym(RTLD_NEXT, "clock_gettime");
  int done = real(clock, at);
  if (clock == CLOCK_REALTIME) at->tv_sec += 20;
  return done;
}
"""


def test_what_differs_on_one_of_two_gpu_nodes_is_named(tmp_path, hosts, nvml):  # noqa: F811
    compiler = shutil.which("cc") or shutil.which("clang")
    if not compiler:
        pytest.skip("no C compiler: the clock of one node cannot be set wrong")
    (tmp_path / "late.c").write_text(LATE_CLOCK)
    late = tmp_path / "late.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", late, tmp_path / "late.c", "-ldl"], check=True, timeout=60)
    driver = nvml.state("a100-40x4")["FAKE_NVML_CONFIG"]
    other_driver = tmp_path / "other.json"  # no GPU is on two nodes
    other_driver.write_text(nvml.file.read_text().replace("GPU-a40", "GPU-b40"))
    say_torch(tmp_path / "env/bin/python", GOOD, {"deepspeed": "0.15.4"})
    say_torch(tmp_path / "other/python", GOOD[:3] + ("2.20.5",), {"deepspeed": "0.14.0"})
    # An adapter of RDMA as the kernel shows it, beside what is there: /sys itself takes no directories.
    port = "/sys/class/infiniband/mlx5_0/ports/1"
    adapter = textwrap.dedent(f"""\
        mkdir {tmp_path}/class-$$; mount --bind /sys/class {tmp_path}/class-$$; mount -t tmpfs none /sys/class;
        for each in {tmp_path}/class-$$/*; do ln -s $each /sys/class/; done;
        rm -rf /sys/class/infiniband; mkdir -p {port}/gid_attrs/ndevs; echo eth0 > {port}/gid_attrs/ndevs/0;
        echo '4: ACTIVE' > {port}/state; echo InfiniBand > {port}/link_layer; echo '200 Gb/sec (4X HDR)' > {port}/rate;
        """).replace("\n", " ")
    gpus = f"{adapter} export LD_LIBRARY_PATH={FAKE_NVML.parent} FAKE_NVML_CONFIG="
    odd = f"{gpus}{other_driver}; mount --bind {tmp_path}/other/python {tmp_path}/env/bin/python; ulimit -l 64; export LD_PRELOAD={late};"
    cluster = NetCluster(tmp_path, hosts, prepare={"na": f"{gpus}{driver};", "nb": odd})
    try:
        cluster.write("train.py", "import torch\n")
        job = cluster.write("job.yaml", f"name: pair\nnodes: 2\ngpus: 1\nvenv: {tmp_path}/env\nrun: python train.py\n")
        check = cluster.launch("check", job, "-o", "json", code=4, timeout=120)
        found = {}
        for finding in json.loads(check.stdout)["findings"]:
            found.setdefault((finding["code"], finding["node"]), []).append(finding)
        assert "64KiB" in found["memlock_low", "nb"][0]["says"]  # what na has is this machine's
        clocks = dict(part.split()[:2] for part in found["clock_skew", "nb"][0]["evidence"].split("; "))
        assert 5_000 < int(clocks["nb"]) - int(clocks["na"]) < 35_000, clocks
        # Of two nodes either may be the odd one; each finding names both.
        skewed = [f for (code, _), some in found.items() if code == "version_skew" for f in some]
        evidence = " ".join(f["says"] + f["evidence"] for f in skewed)
        for part in ("deepspeed", "0.14.0", "0.15.4", "NCCL", "2.20.5", "2.21.5"):
            assert part in evidence, (part, evidence)
        assert {f["severity"] for f in skewed} == {"error"}, skewed
        refused = cluster.launch("submit", job, "--wait", code=4, timeout=120)
        assert "version_skew" in refused.stderr and "2.20.5" in refused.stderr, refused.stderr
    finally:
        cluster.down()


def test_an_interpreter_that_hangs_is_named_soon_and_is_nobody_elses_trouble(cluster, nvml):
    cluster.up("--nvml-library", nvml.library, env=nvml.state("a100-40x4"))
    cluster.write("train.py", "")
    started = cluster.work / "started"
    hung = cluster.work / "hung/bin/python"
    script(hung, f"echo $$ >>{started}\nsleep 86424321 & wait\n")
    script(cluster.work / "endless/bin/python", "exec yes \x1b]0;evil\x07\n")
    say_torch(cluster.work / "good/bin/python", GOOD)
    jobs = {name: cluster.write(f"{name}.yaml", f"name: {name}\ngpus: 1\nretry: 0\nvenv: ./{name}\nrun: python train.py\n")
            for name in ("hung", "endless", "good")}

    waiting = [cluster.submit(jobs["hung"]) for _ in range(2)]
    wait_until("the interpreter is asked", started.exists)
    wait_until("it is told what a start waits for", lambda: f"waits for the answer of the interpreter {hung}" in
               cluster.launch("explain", waiting[0]).stdout)
    good = cluster.submit(jobs["good"])
    cluster.wait_for(good, "SUCCEEDED", timeout=60)
    for job in waiting:
        cluster.wait_for(job, "FAILED", timeout=60)
        assert len(cluster.status(job)["attempts"]) == 1, cluster.status(job)
    for name in ("hung", "endless"):
        check = json.loads(cluster.launch("check", jobs[name], "-o", "json", code=4, timeout=60).stdout)
        (error,) = errors(check)
        assert error["code"] == "interpreter_silent" and f"{name}/bin/python" in error["says"], error
        assert "no answer within 30 s" in error["evidence"] and "sitecustomize" in error["remedy"]
        refused = cluster.launch("submit", jobs[name], "--wait", code=4, timeout=60)
        assert "interpreter_silent" in refused.stderr and error["says"] in refused.stderr
    assert not processes_with("86424321")


def test_the_question_to_an_interpreter_ends_with_its_job_and_with_the_agent(cluster, nvml):
    cluster.up("--nvml-library", nvml.library, env=nvml.state("a100-40x4"))
    cluster.write("train.py", "")
    started = cluster.work / "started"
    script(cluster.work / "hung/bin/python", f"echo $$ >>{started}\nsleep 86424322 & wait\n")
    job = cluster.write("hung.yaml", "name: hung\ngpus: 1\nvenv: ./hung\nrun: python train.py\n")
    first = cluster.submit(job)
    wait_until("the interpreter is asked", started.exists)
    cluster.launch("cancel", first, timeout=30)
    wait_until("its processes are gone", lambda: not processes_with("86424322"), timeout=5)
    started.unlink()
    cluster.submit(job)
    wait_until("the interpreter is asked again", started.exists)
    cluster.launch("dev", "down", "--force", timeout=30)
    wait_until("its processes are gone", lambda: not processes_with("86424322"), timeout=5)


def test_what_an_interpreter_prints_commands_no_terminal(cluster, nvml):
    cluster.up("--nvml-library", nvml.library, env=nvml.state("a100-40x4"))
    cluster.write("train.py", "")
    script(cluster.work / "evil/bin/python", "printf 'A\\033]0;evil\\007\\033[2J\\033[31mB\\001\\n'; exit 3\n")
    job = cluster.write("evil.yaml", "name: evil\ngpus: 1\nretry: 0\nvenv: ./evil\nrun: python train.py\n")
    check = cluster.launch("check", job, code=4, timeout=60)
    assert "seen: AB\n" in check.stdout, check.stdout
    refused = cluster.launch("submit", job, "--wait", code=4, timeout=60)
    fix = cluster.launch("check", job, "--fix", code=None, timeout=60)
    for said in (check, refused, fix):
        assert not set(said.stdout + said.stderr) & {"\x1b", "\x07", "\x01"}, said


def test_a_torch_that_dies_or_is_half_there_is_refused_and_an_interpreter_without_its_own(cluster, nvml):
    cluster.up("--nvml-library", nvml.library, env=nvml.state("a100-40x4"))
    cluster.write("train.py", "import torch\n")
    say_torch(cluster.work / "killed/bin/python", GOOD)
    killed = cluster.work / "killed/bin/python"
    killed.write_text("".join(killed.read_text().splitlines(keepends=True)[:2]) + "kill -ILL $$\n")
    half = {"stage": "a", "python": "3.11.7", "packages": {}, "torch": None, "stamps": [],
            "says": "torch is half installed: [Errno 2] No such file or directory: /env/torch/version.py"}
    script(cluster.work / "half/bin/python", f"echo '@launch-python-probe {json.dumps(half)}'\n")
    for name, says in (("killed", "cannot be imported"), ("half", "half installed")):
        job = cluster.write(f"{name}.yaml", f"name: {name}\ngpus: 1\nvenv: ./{name}\nrun: python train.py\n")
        (error,) = errors(json.loads(cluster.launch("check", job, "-o", "json", code=4, timeout=60).stdout))
        assert error["code"] == "torch_missing" and says in error["says"], error
    lost = cluster.work / "lost/bin/python"
    script(lost, "")
    lost.write_text("#!/no/bin/python\n")
    job = cluster.write("lost.yaml", f"name: lost\ndevice: cpu\npython: {lost}\nrun: python train.py\n")
    (error,) = errors(json.loads(cluster.launch("check", job, "-o", "json", code=4, timeout=60).stdout))
    assert error["code"] == "command_missing" and "/no/bin/python" in error["says"], error
    script(cluster.work / "dies/bin/python", "kill -SEGV $$\n")
    job = cluster.write("dies.yaml", f"name: dies\ndevice: cpu\npython: {cluster.work}/dies/bin/python\nrun: python train.py\n")
    (error,) = errors(json.loads(cluster.launch("check", job, "-o", "json", code=4, timeout=60).stdout))
    assert error["code"] == "command_missing" and "signal 11" in error["says"], error
