"""Faults between any two lines: the job is not touched, nothing is lost, nothing is left behind."""

import os
import pathlib
import re
import resource
import signal
import subprocess
import textwrap
import time

import pytest

from conftest import BIN, VENV, processes_with, stays, wait_until

COUNT = textwrap.dedent("""\
    import os, pathlib, sys, time
    rank = os.environ["RANK"]
    n = 0
    end = time.monotonic() + 120
    while not pathlib.Path("go").exists() and time.monotonic() < end:
        n += 1
        print(f"line {rank} {n}", flush=True)
        time.sleep(0.01)
    print(f"last {rank} {n}", flush=True)
    sys.exit(int(pathlib.Path("go").read_text() or 0))
    """)


def start_counting(cluster, nodes=1, extra=""):
    cluster.write("count.py", COUNT)
    job_file = cluster.write("job.yaml", textwrap.dedent(f"""\
        name: count
        nodes: {nodes}
        gpus: 0
        run: {VENV}/bin/python count.py
        """) + extra)
    job = cluster.submit(job_file)
    cluster.wait_for(job, "RUNNING")
    return job


def finish(cluster, code=0):
    (cluster.work / "go.new").write_text(str(code))
    (cluster.work / "go.new").rename(cluster.work / "go")


def rank_pids(cluster, job):
    return {r["rank"]: r["pid"] for r in cluster.status(job)["attempts"][-1]["ranks"]}


def assert_every_line(cluster, job, rank=0):
    out = cluster.launch("logs", job, "--rank", rank).stdout
    numbers = [int(n) for n in re.findall(rf"line {rank} (\d+)", out)]
    last = int(re.search(rf"last {rank} (\d+)", out)[1])
    assert numbers == list(range(1, last + 1)), "every line, in order"


def restart(cluster):
    cluster.up()


def test_controller_killed_while_a_job_runs(cluster):
    cluster.up("--nodes", 2)
    job = start_counting(cluster, nodes=2)
    before = rank_pids(cluster, job)
    cluster.kill(cluster.controller_pid())
    cluster.launch("status", job, code=5)
    restart(cluster)
    wait_until("agents back", lambda: cluster.state_of(job) == "RUNNING")
    assert rank_pids(cluster, job) == before, "the ranks were not touched"
    finish(cluster)
    cluster.launch("wait", job)
    for rank in (0, 1):
        assert_every_line(cluster, job, rank)
    assert len(cluster.status(job)["attempts"]) == 1


def test_controller_killed_and_a_rank_ends_while_it_is_away(cluster):
    cluster.up()
    job = start_counting(cluster)
    cluster.kill(cluster.controller_pid())
    pid = [p for p, c in processes_with(str(cluster.work)) if "count.py" in c]
    finish(cluster, 33)
    wait_until("rank gone", lambda: not [p for p, c in processes_with(str(cluster.work)) if "count.py" in c])
    assert pid
    restart(cluster)
    cluster.launch("wait", job, code=33)
    assert cluster.state_of(job) == "FAILED"
    assert_every_line(cluster, job)


def test_a_job_that_ended_is_shown_in_full_by_a_new_controller(cluster):
    cluster.up()
    job = start_counting(cluster)
    finish(cluster)
    cluster.launch("wait", job)
    before = cluster.status(job)
    cluster.kill(cluster.controller_pid())
    restart(cluster)
    after = cluster.status(job)
    assert after["plan"] == before["plan"] and after["plan"], "the plan is read from the store"
    assert after["attempts"][0]["env"] == before["attempts"][0]["env"]


def test_agent_killed_during_the_run_touches_no_rank(cluster):
    cluster.up()
    job = start_counting(cluster)
    node = cluster.node_names()[0]
    before = rank_pids(cluster, job)
    cluster.kill(cluster.agent_pid(node))
    time.sleep(0.3)
    restart(cluster)
    cluster.wait_for(job, "RUNNING")
    assert rank_pids(cluster, job) == before
    finish(cluster)
    cluster.launch("wait", job)
    assert_every_line(cluster, job)


def test_a_rank_exiting_33_while_its_agent_is_away(cluster):
    cluster.up()
    job = start_counting(cluster)
    node = cluster.node_names()[0]
    cluster.kill(cluster.agent_pid(node))
    finish(cluster, 33)
    wait_until("rank gone", lambda: not [p for p, c in processes_with(str(cluster.work)) if "count.py" in c])
    restart(cluster)
    cluster.launch("wait", job, code=33)
    assert_every_line(cluster, job)
    rank = cluster.status(job)["attempts"][0]["ranks"][0]
    assert rank["exit"]["code"] == 33


def take_pid(pid):
    """A process of nobody's with just this number; skips where the kernel does not give it."""
    last = pathlib.Path("/proc/sys/kernel/ns_last_pid")
    for _ in range(500):
        try:
            last.write_text(str(pid - 1))
        except OSError as error:
            pytest.skip(f"pid reuse cannot be forced here: {error}")
        stranger = subprocess.Popen(["sleep", "300"], start_new_session=True)
        if stranger.pid == pid:
            return stranger
        stranger.kill()
        stranger.wait()
    pytest.skip(f"pid reuse cannot be forced here: the kernel never gave {pid} again")


def test_a_stranger_that_got_the_pid_of_a_rank_is_not_touched(cluster):
    cluster.up()
    job = start_counting(cluster)
    pid = rank_pids(cluster, job)[0]
    cluster.kill(cluster.agent_pid(cluster.node_names()[0]))
    finish(cluster, 33)
    wait_until("rank gone", lambda: not pathlib.Path(f"/proc/{pid}").exists())
    stranger = take_pid(pid)
    try:
        restart(cluster)
        cluster.launch("wait", job, code=33)
        assert_every_line(cluster, job)
        rank = cluster.status(job)["attempts"][0]["ranks"][0]
        assert (rank["pid"], rank["exit"]["code"]) == (pid, 33)
        cluster.launch("cancel", job, code=None)
        assert stranger.poll() is None, "the stranger was killed"
    finally:
        stranger.kill()
        stranger.wait()


def test_agent_and_controller_killed_together(cluster):
    cluster.up()
    job = start_counting(cluster)
    node = cluster.node_names()[0]
    agent, controller = cluster.agent_pid(node), cluster.controller_pid()
    before = rank_pids(cluster, job)
    cluster.kill(agent)
    cluster.kill(controller)
    restart(cluster)
    cluster.wait_for(job, "RUNNING")
    assert rank_pids(cluster, job) == before
    finish(cluster)
    cluster.launch("wait", job)
    assert_every_line(cluster, job)


def test_a_rank_that_ignores_term_is_killed_after_the_grace(cluster):
    cluster.up()
    cluster.write("stubborn.py", textwrap.dedent("""\
        import os, signal, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(300)
            os._exit(0)
        print("ready", flush=True)
        time.sleep(300)
        """))
    job_file = cluster.write("job.yaml", f"name: s\nstop_duration: 1s\nrun: {VENV}/bin/python stubborn.py\n")
    job = cluster.submit(job_file)
    wait_until("ready", lambda: "ready" in cluster.launch("logs", job).stdout)
    started = time.monotonic()
    cluster.launch("cancel", job)
    assert time.monotonic() - started < 15
    assert cluster.state_of(job) == "CANCELLED"
    assert not [c for _, c in processes_with(str(cluster.work)) if "stubborn" in c], "the grandchild is gone too"


def test_one_ranks_death_stops_the_gang_and_is_named(cluster):
    cluster.up("--nodes", 2)
    cluster.write("die.py", textwrap.dedent("""\
        import os, sys, time
        if os.environ["RANK"] == "1":
            print("rank 1 gives up", flush=True); sys.exit(7)
        time.sleep(300)
        """))
    job_file = cluster.write("job.yaml", f"name: d\nnodes: 2\ngpus: 0\nstop_duration: 2s\nrun: {VENV}/bin/python die.py\n")
    job = cluster.submit(job_file)
    cluster.launch("wait", job, code=7)
    attempt = cluster.status(job)["attempts"][0]
    assert attempt["first_failed_rank"] == 1
    assert not [c for _, c in processes_with(str(cluster.work)) if "die.py" in c]


def test_a_low_soft_limit_of_descriptors_binds_neither_controller_nor_agent(cluster):
    """As a shell or a container starts them: with 1024, of which each agent of a cluster takes two of the controller's."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    try:
        cluster.up()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

    def soft(pid):
        limits = pathlib.Path(f"/proc/{pid}/limits").read_text().splitlines()
        return int(next(line for line in limits if line.startswith("Max open files")).split()[3])

    enough = 1 << 20
    expected = enough if before[1] == resource.RLIM_INFINITY else min(before[1], enough)
    for pid in (cluster.controller_pid(), cluster.agent_pid(cluster.node_names()[0])):
        assert soft(pid) == expected, pid


def test_a_full_log_disk_is_said_and_the_exit_code_is_kept(cluster, tmp_path):
    disk = tmp_path / "small"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs", disk], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a small tmpfs here: {mounted.stderr.decode()}")
    try:
        cluster.state = disk / "state"
        cluster.env["LAUNCH_STATE_DIR"] = str(cluster.state)
        cluster.up()
        cluster.write("flood.py", textwrap.dedent("""\
            import os, sys
            line = b"x" * 1023 + b"\\n"
            failed = 0
            for _ in range(256 * 1024):
                try: os.write(1, line)
                except OSError: failed += 1
            sys.exit(33)
            """))
        job = cluster.submit(cluster.write("job.yaml", f"name: f\nrun: {VENV}/bin/python flood.py\n"))
        cluster.launch("wait", job, code=33, timeout=60)
        assert cluster.status(job)["attempts"][0]["ranks"][0]["exit"]["code"] == 33
        cluster.launch("dev", "down", "--force")
    finally:
        cluster.launch("dev", "down", "--force", code=None)
        subprocess.run(["umount", "-l", disk], check=False)


def test_a_client_gone_in_the_middle_of_submit_makes_one_job_or_none(cluster):
    cluster.up()
    job_file = cluster.write("job.yaml", "name: gone\nrun: echo once\n")
    for i in range(10):
        client = cluster.spawn("submit", job_file, "--idempotency-key", f"{i:032x}")
        time.sleep(0.005 * i)
        client.kill()
        client.wait()
        cluster.launch("submit", job_file, "--idempotency-key", f"{i:032x}")
    jobs = cluster.json("queue", "-a")["jobs"]
    assert len(jobs) == 10, "one job for each key, whenever its client died"


def test_with_one_nodes_gpu_lock_held_no_rank_ever_existed_on_the_other(cluster, nvml):
    cluster.up("--nodes", 2, "--nvml-library", nvml.library, env=nvml.state("a100-40x4"))
    nodes = cluster.json("nodes")["nodes"]
    victim = next(n for n in nodes if n["node"] != nodes[0]["node"])
    uuid = victim["gpus"][0]["uuid"]
    lock = next(pathlib.Path(cluster.state).rglob(f"*{uuid}*.lock"), None)
    if lock is None:
        lock = cluster.state / "locks" / f"gpu-{uuid}.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
    holder = subprocess.Popen(["flock", lock, "sh", "-c", "echo held; exec sleep 60"], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        ledger = cluster.work / "ledger"
        job_file = cluster.write("job.yaml", textwrap.dedent(f"""\
            name: gang
            nodes: 2
            gpus: {len(victim['gpus'])}
            preflight: {{level: none}}
            retry: {{max: 0}}
            run: echo $RANK >> {ledger}
            """))
        job = cluster.submit(job_file)
        cluster.wait_for(job, "FAILED", "NODE_FAIL", timeout=60)
        stays("no rank process ever existed", lambda: not ledger.exists(), 1.0)
        (finding,) = [f for f in cluster.status(job)["findings"] if f["code"] == "gpu_busy"]
        assert (finding["severity"], finding["node"]) == ("error", victim["node"])
        assert uuid in finding["says"] and f"process {holder.pid} (flock of " in finding["evidence"], finding
        assert "nvidia-smi" in finding["remedy"]
        done = cluster.launch("wait", job, code=4)  # as any finding before a start
        assert "gpu_busy on " + victim["node"] in done.stdout + done.stderr
    finally:
        holder.kill()
        holder.wait()


# Holds a lock for as long as it lives, does not listen to TERM, and says who was there before it.
SETUP = """
import fcntl, os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
log = open("log", "a", buffering=1)
lock = open("lock", "a")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    print("another setup runs", file=log)
print("setup of attempt", os.environ["LAUNCH_ATTEMPT"], file=log)
while True:
    time.sleep(0.05)
"""


def test_no_second_attempt_begins_beside_the_setup_of_the_first(cluster):
    cluster.up("--nodes", "2")
    cluster.write("setup.py", SETUP)
    job = cluster.submit(cluster.write("job.yaml", f"""\
name: slow-setup
device: cpu
gpus: 0
stop_duration: 1s
preflight: {{level: none}}
setup: exec {VENV}/bin/python setup.py
run: echo never
"""))
    log = cluster.work / "log"

    def began(attempt):
        return log.exists() and f"setup of attempt {attempt}\n" in log.read_text()

    wait_until("setup of the first attempt", lambda: began(1))
    cluster.launch("requeue", job)
    wait_until("setup of the second attempt", lambda: began(2))
    assert "another" not in log.read_text()

    def left():
        return [found for found in processes_with(str(cluster.work)) if "setup.py" in found[1]]

    assert left()
    cluster.launch("cancel", job)
    assert cluster.state_of(job) == "CANCELLED"
    assert not left()
