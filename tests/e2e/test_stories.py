"""What users asked for, on a running cluster. S000-4 is story 4 of user 0; each test's name and body say what it is."""

import os
import re
import shutil
import signal
import socket
import subprocess
import textwrap
import time

import pytest

from conftest import BIN, ROOT, VENV, wait_until

HERE = ROOT / "tests/e2e"
CLUSTERS = ROOT / "configs/clusters"


def losses(text):
    """{step: printed loss} of train_ddp.py, with or without a rank prefix."""
    return {int(m[1]): m[2] for m in re.finditer(r"(\d+)/\d+ loss (\S+)", text)}


def plain_torchrun(cluster, script_args=(), nproc=2):
    """The same script under torchrun alone: the peer whose losses are the truth."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    done = subprocess.run(
        [VENV / "bin/python", "-m", "torch.distributed.run", f"--nproc-per-node={nproc}",
         "--master-addr=127.0.0.1", f"--master-port={port}", HERE / "train_ddp.py", *script_args],
        env={**os.environ, "LAUNCH_MICRO_BATCH": "8", "LAUNCH_GRAD_ACCUM": "4", "OMP_NUM_THREADS": "1"},
        cwd=cluster.work, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr[-3000:]
    return losses(done.stdout)


S002_4 = """\
name: paper_r64
device: cpu
gpus: 0
nodes: 2
procs_per_node: 1
venv: {venv}
batch: {{global: 64, micro: 8}}
checkpoint: {{dir: out, resume: auto}}
retry: {{max: 1, recover_on_exit_codes: [33]}}
run: python train_ddp.py --out out --die-at 90 ${{LAUNCH_RESUME_FROM:+--resume-from-checkpoint $LAUNCH_RESUME_FROM}}
"""


def test_S000_4_one_repaired_gh200_plans_bf16_on_its_only_gpu(cluster):
    inventory = cluster.work / "gh200.yaml"
    text = (CLUSTERS / "gh200x2.yaml").read_text()
    cluster.write("gh200x2.yaml", text)
    job = cluster.write("job.yaml", "name: cellfm\ngpus: GH200:1\nrun: python train.py\n")
    plan = cluster.json("plan", job, "--inventory", "gh200x2.yaml")
    assert plan["strategy"] == "single"
    assert plan["world_size"] == 1
    assert plan["precision"] == "bf16"
    env = plan["assignments"][0]["env"]
    assert env["CUDA_VISIBLE_DEVICES"] == "0"
    assert env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert env["RANK"] == "0" and env["WORLD_SIZE"] == "1"
    assert plan["memory"]["peak_gib"] is None
    assert 88 <= plan["memory"]["limit_gib"] <= 96
    assert any("memory" in w["says"].lower() for w in plan["warnings"])
    assert not inventory.exists()


def test_S000_5_cpu_fallback_trains_while_the_gpu_stays_free(cluster, nvml):
    cluster.up("--nvml-library", nvml.library, "--interpreter", VENV / "bin/python", "--sample-period", "200ms",
               env=nvml.state("gh200"))
    cluster.write("train.py", textwrap.dedent("""\
        import os, sys, time
        print({k: os.environ.get(k) for k in ("CUDA_VISIBLE_DEVICES", "LAUNCH_PRECISION", "LAUNCH_BACKEND")}, flush=True)
        total = 60
        start = time.monotonic()
        for step in range(1, total + 1):
            time.sleep(0.128)
            gone = time.monotonic() - start
            rate = gone / step
            sys.stderr.write(f"\\r{step * 100 // total}%|##| {step}/{total} [00:{int(gone):02d}<00:{int(rate * (total - step)):02d}, {rate:.2f}s/it]")
            sys.stderr.flush()
        """))
    job_file = cluster.write("job.yaml", textwrap.dedent(f"""\
        name: cellfm
        device: cpu
        venv: {VENV}
        batch: {{micro: 8}}
        run: python train.py
        """))
    job = cluster.submit(job_file)
    cluster.wait_for(job, "RUNNING")
    node = cluster.json("nodes")["nodes"][0]
    assert node["gpus"][0]["free"] is True
    seen = wait_until("seconds per step in status", lambda: cluster.status(job).get("seconds_per_step"))
    cluster.launch("wait", job)
    assert seen == pytest.approx(0.128, rel=0.2)
    out = cluster.launch("logs", job).stdout
    assert "'CUDA_VISIBLE_DEVICES': ''" in out
    assert "'LAUNCH_PRECISION': 'fp32'" in out and "'LAUNCH_BACKEND': 'gloo'" in out

    # Without `device: cpu` the same node refuses it: its torch sees no GPU. Nothing runs.
    marker = cluster.work / "ran"
    cluster.write("touch.py", f"open({str(marker)!r}, 'w')\n")
    refused = cluster.write("gpu.yaml", f"name: gpu\ngpus: GH200:1\nvenv: {VENV}\nrun: python touch.py\n")
    done = cluster.launch("submit", refused, "--wait", code=4)
    assert "torch_cpu_only" in done.stdout + done.stderr
    findings = cluster.json("submit", refused, code=4)["findings"]
    assert "torch_cpu_only" in [f["code"] for f in findings if f["severity"] == "error"]
    for finding in findings:
        if finding["severity"] != "notice":
            assert finding["says"] in done.stderr, "the text names every finding of the document"
    assert not marker.exists()


def test_S001_3_force_cpu_leaves_the_gpu_to_the_next_job(cluster, nvml):
    cluster.up("--nvml-library", nvml.library, env=nvml.state("rtx4090"))
    cluster.write("cpgpt.py", textwrap.dedent("""\
        import os, pathlib, time, torch
        print("devices", torch.cuda.device_count(), repr(os.environ["CUDA_VISIBLE_DEVICES"]),
              os.environ["PYTORCH_ENABLE_MPS_FALLBACK"], flush=True)
        end = time.monotonic() + 60
        while not pathlib.Path("go").exists() and time.monotonic() < end:
            time.sleep(0.05)
        """))
    first = cluster.write("cpgpt.yaml", f"name: cpgpt\nvenv: {VENV}\nrun: python cpgpt.py\n")
    job = cluster.submit(first, "--device", "cpu")
    cluster.wait_for(job, "RUNNING")
    second = cluster.write("gpu.yaml", "name: gpu\ngpus: 1\npreflight: {level: none}\nrun: echo gpu=$CUDA_VISIBLE_DEVICES\n")
    other = cluster.submit(second)
    cluster.launch("wait", other)
    assert "gpu=0" in cluster.launch("logs", other).stdout
    cluster.write("go", "")
    cluster.launch("wait", job)
    assert "devices 0 '' 0" in cluster.launch("logs", job).stdout


def test_S001_4_health_view(make_cluster, nvml):
    with_gpu = make_cluster("gpu")
    with_gpu.up("--nvml-library", nvml.library, "--interpreter", VENV / "bin/python", "--sample-period", "200ms",
                env=nvml.state("rtx4090"))
    node = wait_until("torch facts", lambda: next(
        (n for n in with_gpu.json("nodes")["nodes"] if n["interpreters"]), None), timeout=60)
    assert node["device_type"] == "cuda"
    assert node["device_name"] == "NVIDIA GeForce RTX 4090"
    assert node["gpu_available"] is True and node["cuda_available"] is False
    assert node["mps_available"] is False
    assert node["precision"] == "bf16"
    assert node["health"] == "warn" and "no CUDA" in node["health_reason"]

    nvml.edit(lambda state: state["devices"][0].update(lost=True))
    lost = wait_until("the lost GPU in nodes", lambda: next(
        (n for n in with_gpu.json("nodes")["nodes"] if n["health"] == "bad"), None))
    assert lost["schedulable"] is False or lost["gpus"][0]["free"] is False

    without = make_cluster("cpu")
    without.up()
    node = without.json("nodes")["nodes"][0]
    assert node["device_type"] == "cpu" and node["gpu_available"] is False
    assert node["precision"] == "fp32" and node["health"] == "ok"


@pytest.fixture
def s002_4(cluster):
    cluster.up("--nodes", 2)
    shutil.copy(HERE / "train_ddp.py", cluster.work)
    cluster.job = cluster.write("job.yaml", S002_4.format(venv=VENV))
    return cluster


def test_S002_4_two_process_ddp_resumes_and_keeps_the_curve(s002_4):
    cluster = s002_4
    truth = plain_torchrun(cluster, ["--out", "truth"])
    done = cluster.launch("submit", cluster.job, "--wait", timeout=180)
    job = cluster.json("queue", "-a")["jobs"][-1]["id"]
    status = cluster.status(job)
    first, second = status["attempts"]
    assert first["env"]["LAUNCH_GRAD_ACCUM"] == second["env"]["LAUNCH_GRAD_ACCUM"] == "4"
    assert first["batch"]["global"] == second["batch"]["global"] == 64
    assert second["env"]["LAUNCH_RESUME_FROM"].endswith("checkpoint-80")
    one = losses(cluster.launch("logs", job, "--attempt", 1, "--rank", 0).stdout)
    out = cluster.launch("logs", job, "--attempt", 2, "--rank", 0).stdout
    two = losses(out)
    assert "resumed at step 80" in out
    assert sorted(one) == list(range(1, 91)) and sorted(two) == list(range(81, 121))
    assert {**one, **two} == truth, "the losses of every step equal those of plain torchrun"
    port = int(second["master"].rsplit(":", 1)[1])
    with socket.socket() as s:
        # Nobody listens there any more; connections that are timing out after it do not count.
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", port))
    assert done.stdout.strip().splitlines()[-1] == str(job)


def test_S002_4_a_truncated_newest_checkpoint_is_passed_over(s002_4):
    cluster = s002_4
    # The script itself truncates checkpoint-80 just before it dies: a torn write.
    script = (cluster.work / "train_ddp.py")
    script.write_text(script.read_text().replace(
        "        sys.exit(33)",
        "        if rank == 0:\n"
        "            f = a.out + '/checkpoint-80/state.pt'; os.truncate(f, os.path.getsize(f) // 2)\n"
        "        dist.barrier(); sys.exit(33)").replace(
        "        os.rename(d", "        import shutil; shutil.rmtree(d, ignore_errors=True); os.rename(d"))
    cluster.launch("submit", cluster.job, "--wait", timeout=180)
    job = cluster.json("queue", "-a")["jobs"][-1]["id"]
    second = cluster.status(job)["attempts"][1]
    assert second["env"]["LAUNCH_RESUME_FROM"].endswith("checkpoint-40")
    events = cluster.launch("events").stdout
    assert "checkpoint-80" in events, "says which one was passed over"


def test_S002_4_a_rank_killed_from_outside_stops_both(s002_4):
    cluster = s002_4
    script = (cluster.work / "train_ddp.py")
    script.write_text(script.read_text().replace("    step += 1\n", "    step += 1\n    import time; time.sleep(0.2)\n"))
    job = cluster.submit(cluster.job)
    cluster.wait_for(job, "RUNNING")
    wait_until("rank 1 trains", lambda: losses(cluster.launch("logs", job, "--rank", "0").stdout), timeout=60)
    ranks = cluster.status(job)["attempts"][0]["ranks"]
    os.kill(next(r["pid"] for r in ranks if r["rank"] == 1), signal.SIGKILL)
    cluster.launch("wait", job, code=137, timeout=60)
    status = cluster.status(job)
    assert status["state"] == "FAILED"
    assert status["attempts"][0]["first_failed_rank"] == 1
    assert "SIGKILL" in status["outcome"]
    assert "memory" not in status["outcome"]
    verdict = status["attempts"][0]["verdict"]
    assert verdict["label"] != "host_oom_kill", verdict
    for rank in ranks:
        wait_until(f"rank {rank['rank']} is gone", lambda pid=rank["pid"]: not os.path.exists(f"/proc/{pid}"))


def hold_at(cluster, step):
    """The first attempt stands still at this step until a file `on` is there."""
    script = cluster.work / "train_ddp.py"
    script.write_text(script.read_text().replace(
        "    if a.die_at == step",
        f"    import time\n    while step == {step} and not os.path.exists('on'): time.sleep(0.05)\n"
        "    if a.die_at == step"))


def curves(cluster, job):
    return [losses(cluster.launch("logs", job, "--attempt", n, "--rank", 0).stdout) for n in (1, 2)]


def test_S002_4_a_node_is_lost(cluster):
    cluster.up("--nodes", 3)
    shutil.copy(HERE / "train_ddp.py", cluster.work)
    hold_at(cluster, 60)
    job = cluster.submit(cluster.write("job.yaml", S002_4.format(venv=VENV).replace("--die-at 90", "")))
    wait_until("step 60", lambda: 60 in losses(cluster.launch("logs", job, "--rank", 0).stdout), timeout=90)
    (lost,) = [r for r in cluster.status(job)["attempts"][0]["ranks"] if r["rank"] == 1]
    # What loss of power leaves: no agent, no supervisor, no rank, and nobody who wrote down an end.
    stat = open(f"/proc/{lost['pid']}/stat").read()
    shim = int(stat.rsplit(")", 1)[1].split()[1])
    cluster.kill(cluster.agent_pid(lost["node"]))
    for pid in (shim, lost["pid"]):
        cluster.kill(pid)
    wait_until("the node is silent", lambda: {n["node"]: n["state"] for n in cluster.json("nodes")["nodes"]}
               [lost["node"]] == "silent")
    assert len(cluster.status(job)["attempts"]) == 1, "silence alone changes nothing"
    (cluster.work / "on").write_text("")
    cluster.launch("node", "fence", lost["node"], "--power-is-off")
    cluster.wait_for(job, "SUCCEEDED", "FAILED", "NODE_FAIL", timeout=120)
    status = cluster.status(job)
    assert status["state"] == "SUCCEEDED", status["outcome"]
    first, second = status["attempts"]
    assert lost["node"] in first["nodes"] and lost["node"] not in second["nodes"]
    assert second["env"]["LAUNCH_RESUME_FROM"].endswith("checkpoint-40")
    one, two = curves(cluster, job)
    assert sorted(two) == list(range(41, 121))
    again = sorted(set(one) & set(two))
    assert again and all(one[step] == two[step] for step in again), "what is trained again is the same"


def test_S002_4_the_controller_is_killed_in_between(s002_4):
    cluster = s002_4
    hold_at(cluster, 60)
    job = cluster.submit(cluster.job)
    wait_until("step 60", lambda: 60 in losses(cluster.launch("logs", job, "--rank", 0).stdout), timeout=90)
    ranks = [r["pid"] for r in cluster.status(job)["attempts"][0]["ranks"]]
    cluster.kill(cluster.controller_pid())
    (cluster.work / "on").write_text("")  # the ranks train on and end with 33 while it is away
    wait_until("the ranks are gone", lambda: not any(os.path.exists(f"/proc/{pid}") for pid in ranks), timeout=60)
    cluster.up()
    cluster.wait_for(job, "SUCCEEDED", "FAILED", "NODE_FAIL", timeout=120)
    status = cluster.status(job)
    assert status["state"] == "SUCCEEDED", status["outcome"]
    first, second = status["attempts"]
    assert "exit 33" in first["cause"]
    assert second["env"]["LAUNCH_RESUME_FROM"].endswith("checkpoint-80")
    one, two = curves(cluster, job)
    assert sorted(one) == list(range(1, 91)), "no line is lost"
    assert sorted(two) == list(range(81, 121))
    assert all(one[step] == two[step] for step in range(81, 91)), "what is trained again is the same"


def test_S002_5_two_node_torchrun_line_and_gpu_ids(cluster):
    cluster.up("--nodes", 2)
    cluster.write("reduce.py", textwrap.dedent("""\
        import os, torch, torch.distributed as dist
        dist.init_process_group("gloo")
        t = torch.tensor(float(dist.get_rank() + 1)); dist.all_reduce(t)
        print("sum", t.item(), "world", os.environ["WORLD_SIZE"], "group", os.environ["GROUP_RANK"], flush=True)
        dist.destroy_process_group()
        """))
    job_file = cluster.write("job.yaml", textwrap.dedent(f"""\
        name: two
        nodes: 2
        device: cpu
        gpus: 0
        venv: {VENV}
        run: torchrun --nproc_per_node=2 --nnodes=2 --node_rank=0 --master_addr=192.168.1.1 --master_port=29500 reduce.py
        """))
    plan = cluster.json("plan", job_file)
    assert plan["processes"] == {**plan["processes"], "total": 4, "per_node": 2}
    said = " ".join(plan["read"]) + " ".join(w["says"] for w in plan["warnings"])
    for word in ("node_rank", "master_addr", "master_port", "4 processes = 2 nodes x 2"):
        assert word in said, said
    done = cluster.launch("submit", job_file, "--wait", timeout=120)
    job = done.stdout.strip().splitlines()[-1]
    for rank in range(4):
        out = cluster.launch("logs", job, "--rank", rank).stdout
        assert "sum 10.0 world 4" in out
        assert f"group {rank // 2}" in out

    gpu_job = cluster.write("gpu.yaml", "name: ids\nrun: python train.py\n")
    plan = cluster.json("plan", gpu_job, "--inventory", CLUSTERS / "a100-40x4.yaml", "--gpu-ids", "1,3")
    assert plan["world_size"] == 2
    assert plan["assignments"][0]["env"]["CUDA_VISIBLE_DEVICES"] == "1,3"
    cluster.launch("plan", gpu_job, "--inventory", CLUSTERS / "a100-40x4.yaml", "--gpu-ids", "0,7", code=3)
    own = cluster.write("own.yaml", "name: own\ngpus: 2\nenv: {CUDA_VISIBLE_DEVICES: '0,1'}\nrun: python train.py\n")
    refused = cluster.launch("plan", own, "--inventory", CLUSTERS / "a100-40x4.yaml", code=2)
    assert "gpu_ids" in refused.stderr
    flag = cluster.write("flag.yaml", "name: flag\ngpus: 4\nrun: python train.py --gpus 0,1,2,3\n")
    plan = cluster.json("plan", flag, "--inventory", CLUSTERS / "a100-40x4.yaml")
    assert any(w["code"] == "plan_cannot_reach_script" for w in plan["warnings"])


DEBUG_SCRIPT = """
import os, time
steps, save = int(os.environ["LAUNCH_MAX_STEPS"]), int(os.environ["LAUNCH_SAVE_STEPS"])
assert (os.environ["LAUNCH_MICRO_BATCH"], os.environ["LAUNCH_GRAD_ACCUM"]) == ("1", "16")
for step in range(1, steps + 1):
    time.sleep(0.05)
    print(f"step {step}/{steps}", flush=True)
    if step % save == 0:
        os.makedirs(f"out/checkpoint-{step}")
print("workers", os.environ["LAUNCH_NUM_WORKERS"])
"""


def test_S002_6_a_real_job_shows_its_step_and_its_eta(cluster):
    cluster.up()
    bar = r"\r 17%%|1   | 20/120 [1:30:00<7:30:00, 270.00s/it]"
    numbers = [cluster.submit(cluster.write(f"{name}.yaml", f"name: {name}\ndevice: cpu\ncpus: 1\nrun: {run}\n"))
               for name, run in (("bar", f"printf '{bar}' >&2; exec sleep 600"), ("quiet", "exec sleep 600"))]
    for number in numbers:
        cluster.wait_for(number, "RUNNING")
    wait_until("the bar is read", lambda: cluster.status(numbers[0])["step"] is not None)
    shown = cluster.status(numbers[0])
    assert (shown["step"], shown["steps"]) == (20, 120), shown
    assert abs(shown["eta_s"] - 27_000) <= 270, shown
    quiet = cluster.status(numbers[1])
    assert (quiet["step"], quiet["eta_s"]) == (None, None), quiet
    lines = cluster.launch("queue").stdout.splitlines()
    column = lines[0].index("STEP")
    steps = {line.split()[0]: line[column:].split()[0] for line in lines[1:]}
    assert steps[numbers[0]] == "20/120" and steps[numbers[1]] == "-", lines
    for number in numbers:
        cluster.launch("cancel", number)


def test_S003_5_debug_run(cluster):
    cluster.up()
    (cluster.work / "t.py").write_text(DEBUG_SCRIPT)
    (cluster.work / "job.yaml").write_text(textwrap.dedent(f"""\
        name: gemma
        device: cpu
        gpus: 0
        venv: {VENV}
        batch: {{global: 128, micro: 1}}
        steps: 1000
        retry: {{max: 2, recover_on_exit_codes: [1]}}
        progress: {{regex: 'step (\\d+)/(\\d+)'}}
        run: python t.py
        """))
    done = cluster.launch("submit", "job.yaml", "--debug", timeout=120)
    assert sorted(p.name for p in (cluster.work / "out").iterdir()) == ["checkpoint-10", "checkpoint-5"]
    job = done.stdout.split()[0]
    env = cluster.status(job)["attempts"][0]["env"]
    assert env["LAUNCH_MAX_STEPS"] == "10" and env["LAUNCH_NUM_WORKERS"] == "1"
    assert "for 16 samples (measured" in done.stderr
    assert "1000 steps of 128 samples" in done.stderr and "host memory" in done.stderr
    assert cluster.launch("calibration").stdout.strip() == "[]", "not part of the job's history"
    assert [run["kind"] for run in cluster.json("history")["jobs"]] == ["debug"]
    (cluster.work / "t.py").write_text("import time\nwhile True: time.sleep(1)\n")
    stuck = cluster.launch("submit", "job.yaml", "--debug", "--time", "2s", code=None, timeout=120)
    assert stuck.returncode != 0 and "LAUNCH_MAX_STEPS" in stuck.stderr
    status = cluster.status(cluster.json("queue", "-a")["jobs"][-1]["id"])
    assert status["state"] == "TIMEOUT" and len(status["attempts"]) == 1
