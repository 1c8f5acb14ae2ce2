"""Real clusters on this machine for the scenarios: `launch dev` with the production programs.

Every test gets state directories of its own and ends with the proof that no process of it is left.
LAUNCH_BIN names another directory of programs than build/release/bin.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("LAUNCH_BIN", ROOT / "build/release/bin"))
LIB = BIN.parent / "lib"
FAKE_NVML = LIB / "libnvidia-ml.so.1"
STATES = ROOT / "tests/fakes/nvml"
VENV = pathlib.Path(sys.prefix)

# A shell that starts the tests in the background has SIGINT ignored in them, and all that they start would inherit that.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before xdist's own, which reads the marks
def pytest_collection_modifyitems(items):
    """Files run beside each other, the tests of one in order; first those that make hosts, which take longest."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(item.module.__name__))
    items.sort(key=lambda item: not any(name.endswith("Hosts") or name == "NetCluster" for name in vars(item.module)))


def wait_until(what, condition, timeout=30.0, period=0.05):
    """Polls `condition` until it returns something true; fails with `what` after `timeout` s."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            pytest.fail(f"not within {timeout} s: {what}")
        time.sleep(period)


def stays(what, condition, seconds, period=0.1):
    """Polls `condition` for `seconds`; fails with `what` as soon as it is not true."""
    end = time.monotonic() + seconds
    while True:
        if not condition():
            pytest.fail(f"{what}: no longer, {end - time.monotonic():.1f} s before the end of {seconds} s")
        if time.monotonic() > end:
            return
        time.sleep(period)


def processes_with(text):
    """(pid, command) of every process whose environment or command line holds `text`."""
    found = []
    for proc in pathlib.Path("/proc").iterdir():
        if not proc.name.isdigit() or int(proc.name) == os.getpid():
            continue
        try:
            command = (proc / "cmdline").read_bytes()
            if text.encode() in command or text.encode() in (proc / "environ").read_bytes():
                state = (proc / "stat").read_text().rsplit(")", 1)[1].split()[0]
                if state != "Z":
                    found.append((int(proc.name), command.replace(b"\0", b" ").decode(errors="replace")))
        except OSError:
            continue
    return found


class Cluster:
    """One embedded cluster: `launch` with its own state directory, and what tests ask of it."""

    def __init__(self, home, work):
        self.state = home
        self.work = work
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(work),
            "LANG": "C.UTF-8",
            "LAUNCH_STATE_DIR": str(home),
        }

    def launch(self, *args, code=0, timeout=60, stdin=None, env=None):
        """Runs the CLI; fails unless it ends with `code` (None: any). Returns the process."""
        done = subprocess.run(
            [str(BIN / "launch"), *map(str, args)],
            env={**self.env, **(env or {})},
            cwd=self.work,
            input=stdin,
            stdin=None if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=timeout,
            text=True,
        )
        if code is not None:
            assert done.returncode == code, (
                f"launch {' '.join(map(str, args))}: exit {done.returncode}, expected {code}\n"
                f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            )
        return done

    def spawn(self, *args, **kwargs):
        return subprocess.Popen(
            [str(BIN / "launch"), *map(str, args)],
            env=self.env,
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=kwargs.get("stdout", subprocess.PIPE),
            stderr=kwargs.get("stderr", subprocess.PIPE),
            text=True,
        )

    def json(self, *args, **kwargs):
        return json.loads(self.launch(*args, "-o", "json", **kwargs).stdout)

    def up(self, *args, env=None):
        self.launch("dev", "up", *args, env=env)

    def write(self, name, text):
        path = self.work / name
        path.write_text(text)
        return path

    def submit(self, job, *args):
        return self.launch("submit", job, "--parsable", *args).stdout.strip()

    def status(self, job):
        return self.json("status", job)

    def events(self):
        return [json.loads(line) for line in self.launch("events", "-o", "json").stdout.splitlines()]

    def state_of(self, job):
        return self.status(job)["state"]

    def wait_for(self, job, *states, timeout=30.0):
        return wait_until(f"job {job} in {states}", lambda: self.status(job)["state"] in states, timeout)

    def processes(self):
        return self.json("dev", "status")

    def controller_pid(self):
        return self.processes()["controller"]["pid"]

    def agent_pid(self, node):
        return {a["node"]: a["pid"] for a in self.processes()["agents"]}[node]

    def node_names(self):
        return [a["node"] for a in self.processes()["agents"]]

    def kill(self, pid, sig=signal.SIGKILL):
        os.kill(pid, sig)
        proc = pathlib.Path(f"/proc/{pid}")

        def gone():  # its other threads keep its files open until the last of them ended
            try:
                return ((proc / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
                        and len(list((proc / "task").iterdir())) == 1)
            except (FileNotFoundError, ProcessLookupError):
                return True

        wait_until(f"process {pid} gone", gone)

    def down(self):
        if (self.state / "controller").exists():
            self.launch("dev", "down", "--force", code=None, timeout=60)


@pytest.fixture
def make_cluster(tmp_path):
    made = []

    def make(name="cluster"):
        work = tmp_path / f"{name}-work"
        work.mkdir()
        cluster = Cluster(tmp_path / f"{name}-state", work)
        made.append(cluster)
        return cluster

    yield make
    for cluster in made:
        cluster.down()
    assert_none_left(tmp_path)


def wait_left(text, timeout=10.0):
    end = time.monotonic() + timeout
    while True:
        left = processes_with(text)
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.1)


def assert_none_left(directory):
    """No process of a test is there when it is over; one that is does not disturb the next."""
    left = wait_left(str(directory))
    for pid, _ in left:
        os.kill(pid, signal.SIGKILL)
    assert not left, f"processes left behind: {left}"


@pytest.fixture
def cluster(make_cluster):
    return make_cluster()


@pytest.fixture
def nvml(tmp_path):
    """A driver for tests: `state(name)` picks a machine, `edit(f)` changes it while agents run."""

    class Nvml:
        library = FAKE_NVML
        file = tmp_path / "nvml.json"

        def state(self, name):
            self.file.write_text((STATES / f"{name}.json").read_text())
            return {"FAKE_NVML_CONFIG": str(self.file)}

        def edit(self, change):
            data = json.loads(self.file.read_text())
            change(data)
            new = self.file.with_suffix(".new")
            new.write_text(json.dumps(data))
            new.replace(self.file)

    assert FAKE_NVML.exists(), f"{FAKE_NVML} is not built"
    return Nvml()
