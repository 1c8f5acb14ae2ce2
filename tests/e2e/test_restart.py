"""A gang that begins again in its place, signals before the time limit, and an agent that was copied."""

import re
import shutil
import signal
import subprocess
import textwrap

import pytest
from conftest import BIN, VENV, stays, wait_until

# Says when it began; in the first attempt the last rank then fails.
GANG = textwrap.dedent("""\
    import os, pathlib, sys, time
    job, rank, attempt = os.environ["LAUNCH_JOB_NAME"], os.environ["RANK"], os.environ["LAUNCH_ATTEMPT"]
    print("began", time.time(), os.environ["MASTER_PORT"], flush=True)
    fails = job == "first" and attempt == "1" and rank == "1"
    while not pathlib.Path("fail" if fails else "go").exists():
        time.sleep(0.02)
    sys.exit(33 if fails else 0)
    """)


def gang(cluster, name, extra=""):
    return cluster.submit(cluster.write(f"{name}.yaml", textwrap.dedent(f"""\
        name: {name}
        nodes: 2
        device: cpu
        gpus: 0
        procs_per_node: 1
        cpus: {cpus_of(cluster)}
        checkpoint: {{dir: out}}
        run: {VENV}/bin/python gang.py
        """) + extra))


def cpus_of(cluster):
    """All cores of a node: there is room for one gang."""
    return min(n["cores"] for n in cluster.json("nodes")["nodes"])


def test_a_retry_begins_in_its_place_before_anybody_more_urgent(cluster):
    cluster.up("--nodes", 2)
    cluster.write("gang.py", GANG)
    first = gang(cluster, "first", "priority: 10\nretry: {max: 1, recover_on_exit_codes: [33], backoff: 1s}\n")
    cluster.wait_for(first, "RUNNING")
    urgent = gang(cluster, "urgent", "priority: 90\n")
    cluster.wait_for(urgent, "PENDING")
    (cluster.work / "fail").write_text("")
    wait_until("the second attempt runs", lambda: len(cluster.status(first)["attempts"]) == 2
               and cluster.state_of(first) == "RUNNING")
    one, two = cluster.status(first)["attempts"]
    assert one["nodes"] == two["nodes"]
    assert one["master"] != two["master"], "a port of its own"
    assert cluster.status(urgent)["attempts"] == []
    (cluster.work / "go").write_text("")
    for job in (first, urgent):
        cluster.wait_for(job, "SUCCEEDED")
    events = [(e["kind"], e["subject"]) for e in cluster.events()]
    assert ("job.restarts", f"job/{first}") in events
    assert ("job.requeued", f"job/{first}") not in events
    assert events.index(("job.done", f"job/{first}")) < events.index(("attempt.preparing", f"attempt/{urgent}.1"))


TRAPS = """\
    import signal, sys, time
    began = time.monotonic()
    def note(number, frame):
        print(signal.Signals(number).name, round(time.monotonic() - began, 2), flush=True)
        if number == signal.SIGUSR1 and sys.argv[1] == "saves":
            sys.exit(0)
        if number == signal.SIGTERM:
            sys.exit(0)
    signal.signal(signal.SIGUSR1, note)
    signal.signal(signal.SIGTERM, note)
    while True:
        time.sleep(0.05)
    """


def test_the_signal_comes_before_the_limit_and_term_at_it(cluster):
    cluster.up()
    cluster.write("traps.py", textwrap.dedent(TRAPS))
    jobs = {}
    for kind in ("saves", "goes_on"):
        jobs[kind] = cluster.submit(cluster.write(f"{kind}.yaml", textwrap.dedent(f"""\
            name: {kind}
            gpus: 0
            cpus: 1
            time: 8s
            checkpoint: {{dir: out, signal: USR1@5s}}
            stop_duration: 5s
            run: {VENV}/bin/python traps.py {kind}
            """)))
    cluster.wait_for(jobs["saves"], "SUCCEEDED", "TIMEOUT", "FAILED")
    assert cluster.state_of(jobs["saves"]) == "SUCCEEDED"
    cluster.wait_for(jobs["goes_on"], "SUCCEEDED", "TIMEOUT", "FAILED")
    assert cluster.state_of(jobs["goes_on"]) == "TIMEOUT"
    out = cluster.launch("logs", jobs["goes_on"], "--no-prefix").stdout
    seen = {name: float(at) for name, at in re.findall(r"(SIG\w+) ([\d.]+)", out)}
    assert list(seen) == ["SIGUSR1", "SIGTERM"]
    # Its own clock starts when Python has started; how loaded this machine is shows in both.
    assert seen["SIGUSR1"] <= 4.0 and 4.0 <= seen["SIGTERM"] - seen["SIGUSR1"] <= 6.5
    verdict = cluster.json("why", jobs["goes_on"])
    assert (verdict["label"], verdict["confidence"]) == ("time_limit", "confirmed"), verdict
    # The remedy, word for word.
    subprocess.run(["bash", "-c", verdict["remedy"]], check=True, cwd=cluster.work,
                   env={**cluster.env, "PATH": f"{BIN}:{cluster.env['PATH']}"})
    cluster.wait_for(jobs["goes_on"], "RUNNING")
    cluster.launch("cancel", jobs["goes_on"])
    late = cluster.write("late.yaml", "name: late\ngpus: 0\ntime: 5s\ncheckpoint: {dir: out, signal: USR1@20s}\nrun: a\n")
    assert "checkpoint.signal" in cluster.launch("submit", late, code=2).stderr


def signalled(cluster, limit, before):
    """A job that goes on after the signal before its limit, which it has just got."""
    cluster.up()
    cluster.write("traps.py", textwrap.dedent(TRAPS))
    job = cluster.submit(cluster.write("job.yaml", textwrap.dedent(f"""\
        name: job
        gpus: 0
        cpus: 1
        time: {limit}
        checkpoint: {{dir: out, signal: USR1@{before}}}
        stop_duration: 5s
        run: {VENV}/bin/python traps.py goes_on
        """)))
    wait_until("the signal", lambda: "SIGUSR1" in cluster.launch("logs", job, "--no-prefix", code=None).stdout, 60)
    return job


def test_ranks_keep_the_time_until_their_limit_when_the_agent_restarts_after_the_signal(cluster):
    job = signalled(cluster, "16s", "12s")
    (node,) = cluster.node_names()
    cluster.kill(cluster.agent_pid(node))
    cluster.up()
    cluster.wait_for(job, "TIMEOUT", "FAILED", timeout=60)
    out = cluster.launch("logs", job, "--no-prefix").stdout
    seen = [(name, float(at)) for name, at in re.findall(r"(SIG\w+) ([\d.]+)", out)]
    assert [name for name, _ in seen] == ["SIGUSR1", "SIGTERM"]
    assert seen[1][1] - seen[0][1] >= 10.0
    assert cluster.state_of(job) == "TIMEOUT"


SLOW = """\
    import os, signal, sys, time
    def say(line):  # in one write: ranks of torchrun share their output
        os.write(1, f"{line}\\n".encode())
    def save(number, frame):
        name = signal.Signals(number).name
        say(f"got {name}")
        time.sleep(2)
        say(f"saved {name}")
        sys.exit(0)
    for number in signal.SIGUSR1, signal.SIGTERM:
        signal.signal(number, save)
    say("trains")
    while True:
        time.sleep(0.05)
    """
SCRIPT = """\
name: script
gpus: 0
cpus: 1
procs_per_node: 1
stop_duration: 30s
{more}run: |
  echo begin
  {python} slow.py
  echo end
"""


@pytest.mark.parametrize(("name", "more"), (("SIGTERM", ""), ("SIGUSR1", "checkpoint: {dir: out, signal: USR1@30s}\n")))
def test_a_trainer_that_a_script_started_gets_the_signals_and_its_time_to_save(cluster, name, more):
    cluster.up()
    cluster.write("slow.py", textwrap.dedent(SLOW))
    job = cluster.submit(cluster.write("job.yaml", SCRIPT.format(more=more, python=f"{VENV}/bin/python")))

    def log():
        return cluster.launch("logs", job, "--no-prefix", code=None).stdout.split("\n")

    wait_until("it trains", lambda: "trains" in log(), 60)
    cluster.launch("cancel", job)
    cluster.wait_for(job, "CANCELLED", timeout=25)  # long before the signal's time or the grace is over
    lines = log()
    assert [line for line in lines if line.startswith(("got", "saved"))] == [f"got {name}", f"saved {name}"]
    assert ("end" in lines) == (name == "SIGUSR1"), "TERM is for the shell too"


@pytest.mark.parametrize(("name", "more"), (("SIGTERM", ""), ("SIGUSR1", "checkpoint: {dir: out, signal: USR1@60s}\n")))
def test_each_trainer_of_torchrun_gets_the_signals_once(cluster, name, more):
    cluster.up()
    cluster.write("slow.py", textwrap.dedent(SLOW))
    cluster.write("train.sh", "echo begin\ntorchrun --nproc_per_node=2 slow.py\necho end\n")
    text = SCRIPT.format(more=more, python="").split("run:")[0].replace("procs_per_node: 1", "procs_per_node: 2")
    text += f"env: {{PATH: '{VENV}/bin:$PATH'}}\nlauncher: node\nrun: bash train.sh\n"
    job = cluster.submit(cluster.write("job.yaml", text))

    def log():
        return cluster.launch("logs", job, "--no-prefix", code=None).stdout

    wait_until("both train", lambda: log().count("trains") == 2, 90)
    cluster.launch("cancel", job)
    cluster.wait_for(job, "CANCELLED", timeout=50)
    assert [log().count(f"{word} SIG") for word in ("got", "saved")] == [2, 2], log()
    assert log().count(f"saved {name}") == 2, log()


def test_an_agent_from_a_copied_state_directory_is_refused_and_named(cluster, tmp_path):
    cluster.up()
    (node,) = cluster.node_names()
    job = cluster.submit(cluster.write("wait.yaml", "name: wait\ngpus: 0\ncpus: 1\nrun: sleep 60\n"))
    cluster.wait_for(job, "RUNNING")
    pid = cluster.status(job)["attempts"][0]["ranks"][0]["pid"]
    theirs = cluster.state / "agents" / node
    copy = tmp_path / "copy"
    shutil.copytree(theirs / "state", copy / "state", ignore=shutil.ignore_patterns("allocations", "*.lock"))
    config = (theirs / "agent.yaml").read_text().replace(str(theirs), str(copy))
    (copy / "agent.yaml").write_text(config)
    twin = subprocess.Popen([BIN / "launch-agent", "run", "--config", copy / "agent.yaml"], stdin=subprocess.DEVNULL,
                            stdout=(copy / "log").open("w"), stderr=subprocess.STDOUT, env=cluster.env)
    try:
        reason = wait_until("the node says so", lambda: cluster.json("nodes")["nodes"][0].get("reason"))
        assert "copied" in reason
        stays("the copy dials on", lambda: twin.poll() is None, 3.0)
    finally:
        twin.send_signal(signal.SIGKILL)
        twin.wait()
    status = cluster.status(job)
    assert status["state"] == "RUNNING" and len(status["attempts"]) == 1
    assert status["attempts"][0]["ranks"][0]["pid"] == pid
    refused = [e for e in cluster.events() if e["kind"] == "node.refused"]
    assert len(refused) == 1 and "identity conflict" in refused[0]["text"]
    assert [e["kind"] for e in cluster.events()].count("node.attached") == 1
    cluster.launch("cancel", job)


def test_a_number_alone_is_how_often_any_failure_is_tried_again(cluster):
    cluster.up()
    work = 'bash -c \'echo $LAUNCH_ATTEMPT >>attempts; exit 5\''
    job = cluster.submit(cluster.write("job.yaml", f"name: short\ndevice: cpu\nretry: 2\nrun: {work}\n"))
    cluster.wait_for(job, "FAILED", timeout=60)
    assert (cluster.work / "attempts").read_text().split() == ["1", "2", "3"]
    assert "2 of 2 retries used" in cluster.status(job)["outcome"]


def test_a_cancel_does_not_wait_for_the_limit_whose_signal_came(cluster):
    job = signalled(cluster, "10m", "594s")
    cluster.launch("cancel", job)
    cluster.wait_for(job, "CANCELLED", "TIMEOUT", timeout=30)
