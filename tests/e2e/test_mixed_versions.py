"""The release before and today's build in one cluster, both ways round; what it stored is read on, and not back."""

import os
import pathlib
import sqlite3
import subprocess

import pytest

from conftest import BIN, ROOT, Cluster, assert_none_left, wait_until


@pytest.fixture(scope="module")
def before():
    """Directory of the earlier programs; LAUNCH_PREVIOUS_BIN names it, else they must have been made."""
    said = os.environ.get("LAUNCH_PREVIOUS_BIN")
    if said:
        return pathlib.Path(said)
    made = subprocess.run([ROOT / "tests/package/previous", "--if-made"], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip("the release before this one is not here: tests/package/previous builds it" + made.stderr)
    return pathlib.Path(made.stdout.strip())


class Mixed:
    """Controller, agents and command line, each from a directory of its own; agents join by token."""

    def __init__(self, tmp, controller, cli, *flags):
        self.tmp = tmp
        (tmp / "work").mkdir()
        self.cluster = Cluster(tmp / "dev", tmp / "work")
        self.state = tmp / "controller"
        self.log = open(tmp / "programs.log", "w")
        self.programs = {}
        self.cli = cli
        self.flags = flags  # of the controller
        subprocess.run([controller / "launch-controller", "init", "--state", self.state], check=True, timeout=30, capture_output=True)
        self.serve(controller)

    def start(self, name, argv):
        self.programs[name] = subprocess.Popen(list(map(str, argv)), stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def stop(self, name):
        program = self.programs.pop(name)
        program.terminate()
        program.wait(20)

    def serve(self, programs):
        listen = "127.0.0.1:0"
        if (self.state / "address.used").exists():
            listen = (self.state / "address.used").read_text()
        (self.state / "address").unlink(missing_ok=True)
        self.start("controller", [programs / "launch-controller", "run", "--state", self.state, "--listen", listen, *self.flags])
        address = wait_until("the controller serves", lambda: (self.state / "address").exists() and
                             (self.state / "address").read_text().strip())
        (self.state / "address.used").write_text(address)
        self.env = {"LAUNCH_CONTROLLER": address, "LAUNCH_CREDENTIALS": str(self.state / "operator")}

    def launch(self, *args, cli=None, **kwargs):
        done = subprocess.run([(cli or self.cli) / "launch", *map(str, args)], env={**self.cluster.env, **self.env}, cwd=self.tmp / "work",
                              capture_output=True, text=True, timeout=60, **{"stdin": subprocess.DEVNULL, **kwargs})
        assert done.returncode == 0, f"{args}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def agent(self, name, programs, join=True):
        state = self.tmp / f"agent-{name}"
        if join:
            token = self.launch("token", "create", "--node", name)
            subprocess.run([programs / "launch-agent", "join", "--state", state], input=token, text=True, check=True,
                           timeout=30, capture_output=True)
        self.start(name, [programs / "launch-agent", "run", "--state", state, "--lock-dir", self.tmp / f"locks-{name}"])
        wait_until(f"{name} is idle", lambda: f"{name} " in self.launch("nodes") and
                   any(line.split()[:2] in ([name, "idle"], [name, "mix"], [name, "alloc"]) for line in self.launch("nodes").splitlines()))

    def write(self, run, nodes=2):
        job = self.tmp / "work/job.yaml"
        job.write_text(f"name: mixed\ndevice: cpu\ngpus: 0\nnodes: {nodes}\nworkdir: /tmp\nrun: {run}\n")
        return job

    def close(self):
        for program in self.programs.values():
            program.terminate()
        for program in self.programs.values():
            program.wait(10)


@pytest.fixture
def mixed(tmp_path):
    made = []

    def make(*args):
        made.append(Mixed(tmp_path, *args))
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()
    assert_none_left(tmp_path)


def use(cluster, cli):
    """What people do all day: submit, look, read, stop."""
    done = cluster.launch("submit", cluster.write("echo rank $RANK of $WORLD_SIZE"), "--wait", cli=cli)
    job = done.split()[0]
    logs = cluster.launch("logs", job, cli=cli)
    assert "rank 0 of 2" in logs and "rank 1 of 2" in logs, logs
    assert "SUCCEEDED" in cluster.launch("status", job, cli=cli)
    long = cluster.launch("submit", cluster.write("sleep 300"), "--parsable", cli=cli).strip()
    wait_until("it runs", lambda: "RUNNING" in cluster.launch("status", long, cli=cli))
    cluster.launch("cancel", long, cli=cli)
    wait_until("it ended", lambda: "CANCELLED" in cluster.launch("status", long, cli=cli))
    cluster.launch("queue", "-a", cli=cli)
    cluster.launch("events", cli=cli)


@pytest.mark.parametrize("controller", ["before", "today"])
def test_agents_and_command_lines_of_both_versions_work_with_either_controller(mixed, before, controller):
    cluster = mixed(before if controller == "before" else BIN, BIN)
    cluster.agent("old", before)
    cluster.agent("new", BIN)
    for cli in (before, BIN):
        use(cluster, cli)


def test_a_running_job_goes_through_an_upgrade_of_everything(mixed, before):
    cluster = mixed(before, before)
    for name in ("na", "nb"):
        cluster.agent(name, before)
    job = cluster.launch("submit", cluster.write("sleep 300"), "--parsable").strip()
    wait_until("it runs", lambda: "RUNNING" in cluster.launch("status", job))
    cluster.stop("controller")
    cluster.serve(BIN)
    shown = cluster.launch("status", job, cli=BIN)
    assert "RUNNING" in shown or "UNREACHABLE" in shown  # its nodes are heard of in a moment
    for name in ("na", "nb"):
        cluster.stop(name)
        cluster.agent(name, BIN, join=False)
    wait_until("it still runs", lambda: "RUNNING" in cluster.launch("status", job, cli=BIN))
    assert "attempt 2" not in cluster.launch("status", job, cli=BIN)
    cluster.launch("cancel", job, cli=BIN)
    wait_until("it ended", lambda: "CANCELLED" in cluster.launch("status", job, cli=BIN))


def test_a_store_of_a_later_schema_is_refused_and_left_alone(tmp_path):
    state = tmp_path / "controller"
    subprocess.run([BIN / "launch-controller", "init", "--state", state], check=True, timeout=30, capture_output=True)
    with sqlite3.connect(state / "store.db") as store:
        schema = store.execute("PRAGMA user_version").fetchone()[0]
        store.execute(f"PRAGMA user_version = {schema + 1}")
    store.close()
    bytes_before = (state / "store.db").read_bytes()
    refused = subprocess.run([BIN / "launch-controller", "run", "--state", state, "--listen", "127.0.0.1:0"],
                             capture_output=True, text=True, timeout=30)
    assert refused.returncode != 0
    assert f"schema {schema + 1}" in refused.stderr + refused.stdout, refused.stderr
    assert (state / "store.db").read_bytes() == bytes_before, "nothing was written"
