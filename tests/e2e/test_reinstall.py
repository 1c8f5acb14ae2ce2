"""An agent that comes back as another one: what an earlier installation started is found, never doubled, never forgotten."""

import json
import os
import shutil
import stat
import subprocess
import textwrap

import pytest

from conftest import BIN, processes_with, stays, wait_until

SLEEPER = textwrap.dedent("""\
    name: sleeper
    gpus: 0
    cpus: 1
    retry: 3
    run: exec sleep 627
    """)


def sleepers(cluster):
    return [pid for pid, command in processes_with(str(cluster.work)) if command.startswith("sleep 627")]


def rejoin(cluster, node):
    """As an administrator puts an agent back whose disk is new."""
    config = cluster.state / "agents" / node / "agent.yaml"
    token = cluster.launch("token", "create", "--node", node).stdout
    subprocess.run([BIN / "launch-agent", "join", "--config", config, "--rejoin"], input=token, text=True, check=True,
                   env=cluster.env, stdout=subprocess.DEVNULL)


def as_joined_before(cluster, node):
    """By a version whose groups had a random name."""
    cluster.kill(cluster.agent_pid(node))
    path = cluster.state / "agents" / node / "state" / "identity" / "joined.json"
    joined = json.loads(path.read_text())
    path.write_text(json.dumps({**joined, "install_id": "0123456789abcdef0123456789abcdef"}))
    rejoin(cluster, node)  # of another machine, for the controller; it keeps the name of its groups
    cluster.up()


def started(cluster, before=False):
    cluster.up()
    (node,) = cluster.node_names()
    if before:
        as_joined_before(cluster, node)
    job = cluster.submit(cluster.write("job.yaml", SLEEPER))
    cluster.wait_for(job, "RUNNING")
    wait_until("the rank sleeps", lambda: sleepers(cluster))
    return node, job, sleepers(cluster)


@pytest.mark.parametrize("before", [False, True])
def test_an_agent_installed_anew_starts_nothing_beside_what_runs(cluster, before):
    node, job, ranks = started(cluster, before)
    cluster.kill(cluster.agent_pid(node))
    shutil.rmtree(cluster.state / "agents" / node / "state")
    rejoin(cluster, node)
    cluster.up()
    wait_until("it says what it found", lambda: "allocation.unrecorded" in [e["kind"] for e in cluster.events()])
    stays("no retry begins beside it", lambda: sleepers(cluster) == ranks, 3.0)
    assert len(cluster.status(job)["attempts"]) == 1
    assert "has lost the record of it" in cluster.launch("explain", job).stdout
    cluster.launch("cancel", job)
    cluster.wait_for(job, "CANCELLED")
    assert not sleepers(cluster)


def test_a_job_is_not_begun_again_where_its_agent_cannot_see_what_ran(cluster):
    node, job, ranks = started(cluster, before=True)  # in groups of a name that the next agent does not know
    cluster.kill(cluster.agent_pid(node))
    state = cluster.state / "agents" / node / "state"
    state.rename(state.with_name("moved"))  # and with its locks at a path that it does not know either
    rejoin(cluster, node)
    cluster.up()
    wait_until("it says that it cannot see", lambda: "allocation.unseen" in [e["kind"] for e in cluster.events()])
    stays("no retry begins", lambda: sleepers(cluster) == ranks and cluster.state_of(job) == "RUNNING", 3.0)
    assert len(cluster.status(job)["attempts"]) == 1
    for pid in ranks:
        cluster.kill(pid)
    cluster.launch("cancel", job)
    cluster.wait_for(job, "CANCELLED")
    assert len(cluster.status(job)["attempts"]) == 1


def test_a_rank_lives_and_can_be_ended_when_the_groups_of_its_agent_are_others(cluster):
    node, job, ranks = started(cluster, before=True)
    cluster.kill(cluster.agent_pid(node))
    attached = [e["kind"] for e in cluster.events()].count("node.attached")
    identity = cluster.state / "agents" / node / "state" / "identity"
    shutil.rmtree(identity)  # the records of its allocations are there
    rejoin(cluster, node)
    cluster.up()
    wait_until("the node is back", lambda: [e["kind"] for e in cluster.events()].count("node.attached") > attached)
    stays("the rank runs", lambda: cluster.state_of(job) == "RUNNING" and sleepers(cluster) == ranks, 2.0)
    cluster.launch("cancel", job)
    cluster.wait_for(job, "CANCELLED")
    assert not sleepers(cluster)


def test_down_by_force_ends_what_the_controller_does_not_know(cluster):
    node, job, ranks = started(cluster)
    cluster.kill(cluster.agent_pid(node))
    cluster.kill(cluster.controller_pid())
    shutil.rmtree(cluster.state / "controller")  # and with it the job
    shutil.rmtree(cluster.state / "agents" / node / "state")
    (cluster.state / "agents" / node / "joined").unlink()
    cluster.up()
    assert sleepers(cluster) == ranks
    said = cluster.launch("dev", "down", "--force")
    assert f"ended attempt {job}.1 on {node}" in said.stdout + said.stderr
    assert not sleepers(cluster)


def fifos_in(folder, names):
    return [name for name in names if stat.S_ISFIFO(os.lstat(os.path.join(folder, name)).st_mode)]


def test_what_an_agent_runs_is_not_ended_from_a_copy_of_its_state(cluster):
    node, job, ranks = started(cluster)
    state = cluster.state / "agents" / node / "state"
    copy = cluster.work / "copy"
    shutil.copytree(state, copy, symlinks=True, ignore=fifos_in)
    ended = subprocess.run([BIN / "launch-agent", "end", "--node", node, "--state-dir", copy, "--lock-dir", cluster.state / "locks"],
                           text=True, capture_output=True, env=cluster.env)
    assert "ended attempt" not in ended.stdout
    if "ranks/0" in open(f"/proc/{ranks[0]}/cgroup").read():
        assert ended.returncode != 0 and "is in use" in ended.stderr
    stays("the rank runs", lambda: cluster.state_of(job) == "RUNNING" and sleepers(cluster) == ranks, 1.0)
