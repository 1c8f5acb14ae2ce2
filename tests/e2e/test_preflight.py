"""Scenarios of preflight with real processes: what is wrong with a node is said before a rank starts."""

import ctypes
import json
import os
import stat
import subprocess
import textwrap

import pytest

from conftest import VENV, wait_until

CELLFM = """\
name: cellfm
gpus: GH200:1
venv: {venv}
run: python train.py
"""


def errors(check):
    return [f for f in check["findings"] if f["severity"] == "error"]


def test_S000_1_cpu_only_torch_on_a_gh200_is_stopped_before_any_rank(cluster, nvml):
    cluster.up("--nvml-library", nvml.library, "--interpreter", VENV / "bin/python", env=nvml.state("gh200"))
    marker = cluster.work / "ran"
    cluster.write("train.py", f"open({str(marker)!r}, 'w')\n")
    job = cluster.write("cellfm.yaml", CELLFM.format(venv=VENV))
    node = wait_until("torch facts", lambda: next(
        (n for n in cluster.json("nodes")["nodes"]
         if any(i["sees_gpu"] is not None for i in n["interpreters"])), None), timeout=90)

    check = json.loads(cluster.launch("check", job, "-o", "json", code=4).stdout)
    (error,) = errors(check)
    assert error["code"] == "torch_cpu_only"
    for part in ("2.13.0+cpu", node["node"], f"{VENV}/bin/python"):
        assert part in error["says"], error["says"]
    assert "cu126" in error["remedy"]
    for line in error["remedy"].splitlines():
        assert "CUDA 13" not in line or "driver 580" in line
    assert error["fix"] and "--index-url" in error["fix"][0]
    assert {"driver", "torch installed"} <= {c["check"] for c in check["passed"]}

    table = cluster.launch("check", job, code=4).stdout
    for check_name, result in (("driver", "pass"), ("torch installed", "pass"), ("torch CUDA", "fail"),
                               ("GPU usable", "fail")):
        assert any(line.startswith(check_name) and line.split(check_name)[1].split()[0] == result
                   for line in table.splitlines()), table

    refused = cluster.launch("submit", job, "--wait", code=4)
    assert "torch_cpu_only" in refused.stderr and error["says"] in refused.stderr
    assert not marker.exists()
    assert cluster.json("queue", "-a")["jobs"] == []

    gpu = node["gpus"][0]
    assert gpu["model"] == "NVIDIA GH200 480GB" and gpu["cc"] == "9.0"
    assert node["driver"] == "570.124.06" and node["driver_cuda"] == "12.8"
    assert gpu["memory_bytes"] == 97871 * 2**20
    assert node["health"] == "warn" and "CUDA" in node["health_reason"]


def test_S000_1_what_is_only_known_at_the_start_ends_the_job(cluster, nvml):
    # No interpreter is known ahead here but the system's; the venv is probed in staging.
    cluster.env["PATH"] = ":".join(p for p in cluster.env["PATH"].split(":") if not p.startswith(str(VENV)))
    cluster.up("--nvml-library", nvml.library, env=nvml.state("gh200"))
    marker = cluster.work / "ran"
    cluster.write("train.py", f"open({str(marker)!r}, 'w')\n")
    job = cluster.write("cellfm.yaml", CELLFM.format(venv=VENV))
    assert "torch_cpu_only" not in cluster.launch("check", job, "--known").stdout
    checked = json.loads(cluster.launch("check", job, "-o", "json", code=4, timeout=120).stdout)
    assert [f["code"] for f in checked["findings"] if f["severity"] == "error"] == ["torch_cpu_only"]
    for verb in (["queue", "-a"], ["history"]):
        assert cluster.json(*verb)["jobs"] == [], "a check is no job that was done"
    assert cluster.status(1)["kind"] == "check"
    done = cluster.launch("submit", job, "--wait", code=4, timeout=120)
    assert "torch_cpu_only" in done.stderr
    status = cluster.status(cluster.json("queue", "-a")["jobs"][-1]["id"])
    assert status["state"] == "FAILED" and status["sub_reason"] == "PREFLIGHT"
    verdict = cluster.json("why", status["id"])
    assert verdict["label"] == "torch_cpu_only" and "cu126" in verdict["remedy"], verdict
    assert not marker.exists()


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_S003_1_a_stub_nvcc_on_the_agents_path_is_the_toolkit(make_cluster, nvml):
    # A torch that says it was built for CUDA 12.4, and the user's nvcc 11.5 beside it.
    cluster = make_cluster()
    tools = cluster.work / "tools"
    script(tools / "nvcc", "echo 'Cuda compilation tools, release 11.5, V11.5.119'\n")
    answers = [{"stage": "a", "python": "3.11.7", "packages": {"deepspeed": "0.15.4", "ninja": "1.11.1"},
                "torch": {"version": "2.5.1+cu124", "cuda": "12.4", "hip": None, "path": "/opt/torch"}, "stamps": []},
               {"stage": "b", "torch": {"version": "2.5.1+cu124", "cuda": "12.4", "hip": None, "arch_list": ["sm_80"],
                                        "nccl": "2.21.5", "path": "/opt/torch"},
                "sees_gpu": True, "devices": 4, "mps": False, "says": ""}]
    lines = "".join(f"echo '@launch-python-probe {json.dumps(a)}'\n" for a in answers)
    script(cluster.work / "venv/bin/python", lines)
    cluster.env["PATH"] = f"{tools}:{cluster.env['PATH']}"
    cluster.up("--nvml-library", nvml.library, env=nvml.state("a100-40x4"))
    cluster.write("train.py", "")
    text = "name: ds\ngpus: 1\nvenv: ./venv\nstrategy: zero2-offload\nbatch: {global: 8, micro: 8}\nrun: python train.py\n"
    job = cluster.write("ds.yaml", text)

    def check(*args, code):
        return json.loads(cluster.launch("check", job, *args, "-o", "json", code=code).stdout)

    # No node knows the interpreter yet: what the start learns stops the job as well.
    (first,) = errors(check(code=4))
    assert first["code"] == "toolkit_mismatch"
    wait_until("the interpreter in nodes", lambda: cluster.launch("check", job, "--known", code=None).returncode == 4)
    (error,) = errors(check("--known", code=4))
    assert error["code"] == "toolkit_mismatch"
    assert "11.5" in error["says"] and "12.4" in error["remedy"]
    skipped = check("-e", "DS_SKIP_CUDA_CHECK=1", "--known", code=0)
    (warning,) = [f for f in skipped["findings"] if f["code"] == "toolkit_mismatch"]
    assert warning["severity"] == "warning"
    plain = check("--strategy", "single", "--known", code=0)
    assert not [f for f in plain["findings"] if f["code"] == "toolkit_mismatch"]


def test_a_missing_script_is_named_before_any_rank_starts(cluster):
    cluster.up()
    job = cluster.write("job.yaml", "name: gone\ngpus: 0\ndevice: cpu\nrun: python3 trian.py\n")
    checked = cluster.launch("check", job, code=4)
    assert "command_missing" in checked.stdout and "trian.py" in checked.stdout
    done = cluster.launch("submit", job, "--wait", code=4)
    assert "command_missing" in done.stderr and "trian.py" in done.stderr


def test_a_setup_that_fails_stops_the_job_with_its_last_lines(cluster):
    cluster.up()
    job = cluster.write("job.yaml", "name: s\ngpus: 0\ndevice: cpu\nsetup: echo no such channel; exit 3\nrun: touch ran\n")
    (node,) = cluster.node_names()
    for verb in (["check", job, "-o", "json"], ["submit", job, "--wait", "-o", "json"]):
        (finding,) = errors(json.loads(cluster.launch(*verb, code=4).stdout))
        assert (finding["code"], finding["node"]) == ("setup_failed", node)
        assert "exit 3" in finding["says"] and "no such channel" in finding["evidence"] and finding["remedy"]
    assert not (cluster.work / "ran").exists()


def test_check_starts_everything_but_the_ranks(cluster):
    cluster.up()
    ran = cluster.work / "ran"
    good = cluster.write("job.yaml", f"name: good\ngpus: 0\ndevice: cpu\nrun: touch {ran}\n")
    assert "all but the ranks" in cluster.launch("check", good).stdout
    assert not ran.exists()
    greedy = cluster.write("greedy.yaml", f"""\
name: greedy
gpus: 0
device: cpu
shm_size: 900TB
disk: 900TB
checkpoint: {{dir: /proc/nowhere}}
run: python3 -c pass --data_path {cluster.work}/nothing
""")
    report = json.loads(cluster.launch("check", greedy, "-o", "json", code=4).stdout)
    assert [f["code"] for f in report["findings"] if f["severity"] == "error"] == ["shm_small"]
    greedy.write_text(greedy.read_text().replace("shm_size: 900TB\n", ""))
    report = json.loads(cluster.launch("check", greedy, "-o", "json", code=4).stdout)
    says = {f["says"]: f["severity"] for f in report["findings"]}
    assert sorted(says.values()) == ["error", "error", "warning"]
    for part in ("the job asks for disk", "cannot be written to /proc/nowhere", "is on no node of the job"):
        assert [text for text in says if part in text], says


def test_check_of_a_job_lists_what_its_start_looked_at(cluster):
    cluster.up()
    job = cluster.submit(cluster.write("job.yaml", "name: good\ngpus: 0\ndevice: cpu\nrun: 'true'\n"))
    cluster.launch("wait", job)
    (node,) = cluster.node_names()
    shown = json.loads(cluster.launch("check", job, "-o", "json").stdout)
    passed = {check["check"]: check for check in shown["passed"]}
    assert {"workdir", "disk space", "shared memory"} <= passed.keys(), shown
    assert passed["workdir"]["node"] == node and str(cluster.work) in passed["workdir"]["says"], passed
    assert [line for line in cluster.launch("check", job).stdout.splitlines() if line.split()[:3] == ["workdir", "pass", node]]
    (line,) = [row for row in cluster.launch("events", job).stdout.splitlines() if "attempt.checked" in row][-1:]
    assert " passed" in line and "workdir" not in line, "the list is for `check`"

    refused = cluster.write("gone.yaml", "name: gone\ngpus: 0\ndevice: cpu\nrun: python3 trian.py\n")
    gone = cluster.submit(refused)
    cluster.launch("wait", gone, code=4)
    shown = json.loads(cluster.launch("check", gone, "-o", "json", code=4).stdout)
    assert [f["code"] for f in shown["findings"]] == ["command_missing"]
    assert {c["check"]: c["result"] for c in shown["checks"]}.items() >= {"command": "fail", "workdir": "pass"}.items()


def test_a_file_with_the_name_of_a_node_says_which_was_taken(cluster):
    cluster.up()
    (node,) = cluster.node_names()
    assert "is a file here" not in cluster.launch("check", node).stderr
    file = cluster.write(node, "name: good\ngpus: 0\ndevice: cpu\nrun: 'true'\n")
    done = cluster.launch("check", node)
    assert f"`{node}` is a file here and a node" in done.stderr and "workdir" in done.stdout, done
    file.unlink()
    alone = cluster.launch("check", node).stdout
    assert "shared memory" in alone and "workdir" not in alone


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 MiB, mounted for this test only."""
    libc = ctypes.CDLL(None, use_errno=True)
    place = tmp_path / "small"
    place.mkdir()
    if libc.mount(b"tmpfs", str(place).encode(), b"tmpfs", 0, b"size=64m") != 0:
        pytest.skip(f"cannot mount a tmpfs here: {os.strerror(ctypes.get_errno())}")
    yield place
    libc.umount2(str(place).encode(), 2)


def test_a_really_full_disk_is_said_before_the_job_runs(cluster, small_disk):
    cluster.up()
    job = cluster.write("job.yaml", textwrap.dedent(f"""\
        name: full
        gpus: 0
        device: cpu
        checkpoint: {{dir: {small_disk}/out}}
        run: echo ran
        """))
    done = cluster.launch("submit", job, "--wait")
    assert "disk_low" not in done.stderr
    with open(small_disk / "filler", "wb") as filler:
        with pytest.raises(OSError):
            while True:
                filler.write(b"\0" * 2**20)
                filler.flush()
    done = cluster.launch("submit", job, "--wait", code=4)
    assert "disk_low" in done.stderr and str(small_disk) in done.stderr


def test_check_of_nodes_names_who_else_uses_a_gpu(cluster, nvml):
    cluster.up("--nvml-library", nvml.library, "--sample-period", "200ms", env=nvml.state("rtx4090"))
    (node,) = cluster.node_names()
    quiet = json.loads(cluster.launch("check", node, "-o", "json").stdout)
    assert not [f for f in quiet["findings"] if f["code"] == "gpu_busy"]
    nvml.edit(lambda state: state["devices"][0]["memory"].update(used_mib=9000))

    def busy():
        found = json.loads(cluster.launch("check", node, "-o", "json", code=None).stdout)["findings"]
        return [f for f in found if f["code"] == "gpu_busy"]

    (finding,) = wait_until("gpu_busy", busy)
    assert finding["severity"] == "warning" and finding["node"] == node
    assert cluster.launch("check", "no-such-node", code=None).returncode != 0


def test_the_script_of_remedies_is_bash(cluster, nvml):
    cluster.up("--nvml-library", nvml.library, "--interpreter", VENV / "bin/python", env=nvml.state("gh200"))
    cluster.write("train.py", "")
    job = cluster.write("cellfm.yaml", CELLFM.format(venv=VENV))
    text = cluster.launch("check", job, "--fix", code=4).stdout
    assert subprocess.run(["bash", "-n"], input=text, text=True).returncode == 0
    assert [line for line in text.splitlines() if line and not line.startswith("#")]


GPU_TROUBLE = {
    "a row that cannot be replaced": ({"remapped": {"correctable": 0, "uncorrectable": 9, "pending": False, "failure": True}},
                                      "error", "row_remap_failed"),
    "errors that ECC could not correct": ({"ecc_errors": 3}, "warning", "3 memory errors"),
    "a reset that the driver asks for after an Xid": ({"recovery_action": 1}, "error", "reset the GPU"),
    "Fabric Manager not running": ({"fabric_state": 1}, "error", "nvidia-fabricmanager"),
    "MIG mode without slices": ({"mig": {"enabled": True, "pending": True, "max": 7, "slices": []}}, "error", "mig_without_slices"),
    "MIG mode that waits for a reset": ({"mig": {"enabled": False, "pending": True, "max": 7, "slices": []}}, "warning", "mig_pending"),
    "clocks set by hand": ({"clock_mhz": 1200, "default_clock_mhz": 1980}, "warning", "1200 MHz"),
    "clocks held down by heat": ({"clock_reasons": 0x40}, "warning", "heat"),
    "a power limit below that of its peers": ({"power_limit_w": 350}, "warning", "350 W"),
    "a power limit below its default": ({"power_limit_w": 500, "default_power_limit_w": 700}, "warning",
                                        "500 W, 700 W is usual"),
    "no persistence mode": ({"persistence": 0}, "notice", "persistence mode is off"),
    "no compute mode": ({"compute_mode": 2}, "error", "compute_prohibited"),
    "a GPU that fell off the bus": ({"lost": True}, "error", "fallen off the bus"),
}


@pytest.mark.parametrize("half", [0, 1])
def test_each_trouble_of_a_gpu_is_a_finding_with_its_remedy(cluster, nvml, half):
    """Six of eight GPUs have one trouble each: each is named with its own, and the other two are not."""
    environment = nvml.state("h100x8")
    troubles = list(GPU_TROUBLE.items())[half::2]

    def spoil(state):
        for gpu, (_, (change, _, _)) in enumerate(troubles, start=1):
            state["devices"][gpu].update(change)

    nvml.edit(spoil)
    cluster.up("--nvml-library", nvml.library, env=environment)
    (node,) = cluster.node_names()
    wait_until("eight GPUs", lambda: len(cluster.json("nodes")["nodes"][0]["gpus"]) == 8)
    check = json.loads(cluster.launch("check", node, "-o", "json", code=None).stdout)
    found = [f for f in check["findings"] if f["code"] == "gpu_unhealthy"]
    for gpu, (name, (_, severity, says)) in enumerate(troubles, start=1):
        # Of the node as a whole is persistence mode; one that is lost at the start has no place among the others.
        placed = severity != "notice" and "lost" not in GPU_TROUBLE[name][0]
        of_it = [f for f in found if says in f["says"] and (f"GPU {gpu} " in f["says"] or not placed)]
        assert len(of_it) == 1, (name, found)
        assert of_it[0]["severity"] == severity and of_it[0]["remedy"] and of_it[0]["evidence"], (name, of_it)
    assert len(found) == len(troubles), found
