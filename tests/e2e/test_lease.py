"""A job with `requeue_after` on a node that is cut off: its ranks end themselves, then it begins elsewhere.

A lease is five minutes at least, so this takes six: `LAUNCH_LONG_TESTS=1 scripts/test e2e` runs it. The simulator ends
thousands of leases in every run of CI, and the shim's clock of a lease has unit tests.
"""

import os
import pathlib
import signal
import textwrap

import pytest
from conftest import VENV, wait_until

# Says when it began and, again and again, that it lives; SIGTERM alone does not end it.
RANK = textwrap.dedent("""\
    import os, pathlib, signal, time
    attempt = os.environ["LAUNCH_ATTEMPT"]
    if attempt == "1":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pathlib.Path(f"began.{attempt}").write_text(repr(time.time()))
    end = time.monotonic() + 900
    while not pathlib.Path("go").exists() and time.monotonic() < end:
        pathlib.Path(f"lives.{attempt}").write_text(str(os.getpid()))
        time.sleep(0.05)
    """)


@pytest.mark.skipif(not os.environ.get("LAUNCH_LONG_TESTS"),
                    reason="takes six minutes, the shortest lease is five; LAUNCH_LONG_TESTS=1 runs it")
def test_a_lease_ends_the_ranks_of_a_silent_node_before_the_job_begins_elsewhere(cluster):
    cluster.up("--nodes", "2")
    cluster.write("rank.py", RANK)
    job = cluster.submit(cluster.write(
        "job.yaml",
        f"name: leased\ngpus: 0\nrequeue_after: 5m\nstop_duration: 2s\nrun: {VENV}/bin/python rank.py\n"))
    cluster.wait_for(job, "RUNNING")
    first = cluster.status(job)["attempts"][0]["ranks"][0]
    wait_until("it lives", lambda: (cluster.work / "lives.1").exists())

    agent = cluster.agent_pid(first["node"])
    os.kill(agent, signal.SIGSTOP)
    try:
        wait_until("the job is shown as unreachable", lambda: cluster.state_of(job) == "UNREACHABLE", timeout=30)
        wait_until("it began elsewhere", lambda: (cluster.work / "began.2").exists(), timeout=420, period=0.5)
        attempts = cluster.status(job)["attempts"]
        assert len(attempts) == 2 and attempts[1]["ranks"][0]["node"] != first["node"]
        assert not pathlib.Path(f"/proc/{first['pid']}").exists(), "no agent was there to end it"
        lived = (cluster.work / "lives.1").stat().st_mtime
        began = float((cluster.work / "began.2").read_text())
        assert lived < began, f"it lived {lived - began} s into the next attempt"
        kinds = [event["kind"] for event in cluster.events()]
        assert "allocation.lease_over" in kinds and "node.overlap" not in kinds
    finally:
        os.kill(agent, signal.SIGCONT)
    second = cluster.status(job)["attempts"][1]["ranks"][0]
    wait_until("the agent is back", lambda: state_of(cluster, first["node"]) == "idle")
    assert pathlib.Path(f"/proc/{second['pid']}").exists(), "what it says of the first attempt changes nothing"
    (cluster.work / "go").write_text("")
    cluster.wait_for(job, "SUCCEEDED")
    assert len(cluster.status(job)["attempts"]) == 2


def state_of(cluster, node):
    return {n["node"]: n["state"] for n in cluster.json("nodes")["nodes"]}[node]
