"""The controller's store in the hands of an operator: copied while it serves, refused when it is damaged, put back."""

import json
import os
import shutil
import signal
import textwrap

from conftest import VENV, wait_until

WAIT = textwrap.dedent("""\
    import pathlib, time
    end = time.monotonic() + 120
    while not pathlib.Path("go").exists() and time.monotonic() < end:
        time.sleep(0.02)
    """)


def test_a_damaged_store_is_refused_and_a_backup_put_back_under_running_ranks(cluster):
    cluster.up()
    cluster.write("wait.py", WAIT)
    job = cluster.submit(cluster.write("job.yaml", f"name: wait\ngpus: 0\nrun: {VENV}/bin/python wait.py\n"))
    cluster.wait_for(job, "RUNNING")
    pids = [r["pid"] for r in cluster.status(job)["attempts"][-1]["ranks"]]
    state = cluster.state / "controller"
    copy = cluster.work / "copy.db"

    cluster.launch("server", "backup", "--state", state, copy)
    assert "is sound" in cluster.launch("server", "check", copy).stdout
    assert "already" in cluster.launch("server", "backup", "--state", state, copy, code=None).stderr
    refused = cluster.launch("server", "restore", "--state", state, copy, code=None)
    assert refused.returncode != 0 and str(cluster.controller_pid()) in refused.stderr, "it is in use"

    cluster.kill(cluster.controller_pid(), signal.SIGKILL)
    store = state / "store.db"
    for name in ("store.db-wal", "store.db-shm"):
        (state / name).unlink(missing_ok=True)
    # Each place that has it: one of them may be what is left of a row that was written anew.
    damaged = copy.read_bytes().replace(b"wait.py", b"vait.py")
    at = damaged.find(b"vait.py")
    assert at > 0
    store.write_bytes(damaged)
    for verb in (("server", "check", store), ("dev", "up")):
        said = cluster.launch(*verb, code=None, timeout=60)
        assert said.returncode != 0
        assert "store.db" in said.stderr and "launch server restore" in said.stderr, said.stderr
    assert damaged[at - 8 : at + 8] in store.read_bytes(), "nothing is mended in place"

    said = cluster.launch("server", "restore", "--state", state, copy).stdout
    assert "store.db.old-1" in said
    cluster.up()
    wait_until("the node is back", lambda: cluster.state_of(job) == "RUNNING")
    assert [r["pid"] for r in cluster.status(job)["attempts"][-1]["ranks"]] == pids, "no rank noticed"
    later = cluster.submit(cluster.work / "job.yaml")
    assert int(later) > int(job) + 1, "numbers that may have been given out after the backup are skipped"
    (cluster.work / "go").write_text("")
    cluster.wait_for(job, "SUCCEEDED")
    cluster.wait_for(later, "SUCCEEDED")


def test_what_was_cancelled_after_the_backup_does_not_run_again(cluster):
    cluster.up()
    cluster.write("wait.py", WAIT)
    job = cluster.submit(cluster.write("job.yaml", f"name: wait\ngpus: 0\nrun: {VENV}/bin/python wait.py\n"))
    cluster.wait_for(job, "RUNNING")
    state = cluster.state / "controller"
    copy = cluster.work / "copy.db"
    cluster.launch("server", "backup", "--state", state, copy)
    cluster.launch("cancel", job)
    cluster.kill(cluster.controller_pid(), signal.SIGKILL)
    cluster.launch("server", "restore", "--state", state, copy)
    cluster.up()
    wait_until("its node does not have it", lambda: cluster.state_of(job) == "REQUEUED")
    held = cluster.status(job)
    assert "held by restore" in json.dumps(held), held
    assert len(held["attempts"]) == 1, held
    (cluster.work / "go").write_text("")
    cluster.launch("release", job)
    cluster.wait_for(job, "SUCCEEDED")


def held_job(cluster):
    """A job that was held when it was submitted, as `launch submit --hold` leaves it."""
    cluster.write("wait.py", WAIT)
    return cluster.submit(cluster.write("job.yaml", f"name: wait\ngpus: 0\nrun: {VENV}/bin/python wait.py\n"), "--hold")


def released(cluster, job):
    cluster.launch("release", job)
    cluster.wait_for(job, "RUNNING")
    return [r["pid"] for r in cluster.status(job)["attempts"][-1]["ranks"]]


def lives(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_attempt_that_began_after_the_backup_runs_on_alone(cluster):
    cluster.up()
    job = held_job(cluster)
    state = cluster.state / "controller"
    copy = cluster.work / "copy.db"
    cluster.launch("server", "backup", "--state", state, copy)
    pids = released(cluster, job)
    cluster.kill(cluster.controller_pid(), signal.SIGKILL)
    cluster.launch("server", "restore", "--state", state, copy)
    cluster.up()
    wait_until("its node tells of it", lambda: "allocation.unknown" in cluster.launch("events").stdout)
    cluster.launch("release", job)
    wait_until("it waits", lambda: f"runs {job}.1" in json.dumps(cluster.status(job)))
    assert cluster.status(job)["attempts"] == []
    assert all(lives(pid) for pid in pids), "nobody here ends it by himself"
    (cluster.work / "go").write_text("")
    cluster.wait_for(job, "SUCCEEDED")
    assert cluster.status(job)["attempts"][-1]["attempt"] > 1


def test_a_state_directory_that_went_back_costs_no_rank_however_much_is_written_then(cluster):
    cluster.up()
    job = held_job(cluster)
    state = cluster.state / "controller"
    cluster.kill(cluster.controller_pid(), signal.SIGKILL)
    shutil.copytree(state, cluster.work / "earlier", symlinks=True)
    cluster.up()
    pids = released(cluster, job)
    cluster.kill(cluster.controller_pid(), signal.SIGKILL)
    shutil.rmtree(state)
    shutil.move(cluster.work / "earlier", state)
    cluster.launch("dev", "up", code=None, timeout=90)  # it waits for its node in vain
    for _ in range(12):
        cluster.submit(cluster.work / "job.yaml", "--hold")
    wait_until("its node is refused", lambda: "went back in time" in cluster.launch("events").stdout)
    assert "node.attached" not in cluster.launch("events").stdout.split("went back in time", 1)[1]
    assert "went back in time" in cluster.launch("nodes", "-o", "json").stdout
    assert all(lives(pid) for pid in pids)
    (cluster.work / "go").write_text("")
