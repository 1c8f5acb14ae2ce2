"""`launch up --slurm` inside a real Slurm: its controller and two of its node daemons on this machine."""

import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile

import pytest

from conftest import BIN, ROOT, processes_with, wait_until

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "srun")

CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={dir}/munge.socket
StateSaveLocation={dir}/ctl
SlurmdSpoolDir={dir}/d/%n
SlurmctldPidFile={dir}/ctl.pid
SlurmdPidFile={dir}/d-%n.pid
SlurmctldPort={ports[0]}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
ReturnToService=2
KillWait=30
MailProg=/bin/true
SlurmctldLogFile={dir}/ctl.log
SlurmdLogFile={dir}/d-%n.log
JobAcctGatherType=jobacct_gather/none
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=1000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 RealMemory=1000
PartitionName=gpu Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Slurm:
    """A cluster of nodes n1 and n2, and a user of it with a home of his own."""

    def __init__(self, directory):
        self.dir = directory
        self.user = pwd.getpwnam("nobody")
        self.home = directory / "home"
        for part in ("ctl", "d"):
            (directory / part).mkdir()
        self.home.mkdir()
        directory.chmod(0o755)
        os.chown(self.home, self.user.pw_uid, self.user.pw_gid)
        key = directory / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        config = directory / "slurm.conf"
        config.write_text(CONFIG.format(dir=directory, host=socket.gethostname(), ports=free_ports(3)))
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8", "SLURM_CONF": str(config)}
        self.daemons = []
        self.start("munged", "-F", "--force", f"--key-file={key}", f"--socket={directory}/munge.socket",
                   f"--pid-file={directory}/munged.pid", f"--log-file={directory}/munged.log",
                   f"--seed-file={directory}/munged.seed")
        wait_until("munged listens", (directory / "munge.socket").exists)
        self.start("slurmctld", "-D")
        for node in ("n1", "n2"):
            self.start("slurmd", "-D", "-N", node)
        wait_until("both nodes are idle", lambda: self.run("sinfo", "-h", "-t", "idle", "-o", "%D").stdout.strip() == "2")

    def start(self, *argv):
        log = open(self.dir / f"{argv[0]}.out", "a")
        self.daemons.append(subprocess.Popen(argv, env=self.env, stdout=log, stderr=log, start_new_session=True))

    def as_user(self, *argv):
        return ["setpriv", "--reuid", str(self.user.pw_uid), "--regid", str(self.user.pw_gid), "--clear-groups", *map(str, argv)]

    def run(self, *argv, timeout=100):
        return subprocess.run(self.as_user(*argv), env=self.env, cwd=self.home, capture_output=True, text=True, timeout=timeout,
                              stdin=subprocess.DEVNULL)

    def launch(self, *args, code=0):
        done = self.run(BIN / "launch", *args)
        assert code is None or done.returncode == code, done.stdout + done.stderr
        return done

    def queue(self):
        return self.run("squeue", "-h", "-o", "%i %T").stdout.split("\n")[:-1]

    def close(self):
        for number, _ in processes_with(str(self.dir)):
            try:
                os.kill(number, 9)
            except ProcessLookupError:
                pass
        for daemon in self.daemons:
            daemon.kill()
            daemon.wait()


@pytest.fixture
def slurm():
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        pytest.skip(f"Slurm is not installed here: {', '.join(missing)} missing")
    if os.geteuid() != 0:
        pytest.skip("slurmd runs as root only")
    # Directories of pytest are open to root alone.
    directory = pathlib.Path(tempfile.mkdtemp(prefix="launch-slurm-"))
    try:
        made = Slurm(directory)
        try:
            yield made
        finally:
            made.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def allocation(tmp_path):
    """The batch script's part on one node, with programs that do nothing; `state` is what its agent left."""
    programs, credentials, state = tmp_path / "bin", tmp_path / "cluster", tmp_path / "tmp/launch-7-n1"
    for directory in (programs, credentials, state / "agent"):
        directory.mkdir(parents=True)
    runs = tmp_path / "runs"
    # An agent that runs when the drain is over can be ended.
    for name, script in (("launch", f'case $* in *" drain "*) while [ ! -e {runs} ]; do sleep 0.1; done; esac'),
                         ("launch-agent", f'[ "$1" = join ] || {{ : >{runs}; exec sleep 60; }}')):
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    (credentials / "leaving-7").touch()

    def leave(code=0, **env):
        done = subprocess.run(
            ["sh", ROOT / "cli/up/allocation.sh", "node", programs, "head:7470", credentials],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp"),
                 "SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1", **env},
            capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return state, tmp_path / "home/.local/state/launch/slurm-7/n1", leave


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_what_ranks_wrote_outlives_the_nodes_of_an_allocation(allocation):
    state, kept, leave = allocation
    write(state / "agent/allocations/1.2/rank.0/out", "loss 0.1\n")
    write(state / "agent/allocations/1.2/rank.0/err", "")
    write(state / "agent/allocations/1.2/accept", "not for people")
    write(state / "agent/identity/key.pem", "a secret")
    write(state / "agent/work/1-abc/checkpoints/step 10.pt", "weights")
    write(state / "agent/work/1-abc/.venv/pyvenv.cfg", "")
    write(state / "agent/work/1-abc/.venv/lib/torch.so", "large")
    done = leave()
    assert f"n1: output of its ranks and copies of workdirs are in {kept}" in done.stdout
    assert {str(path.relative_to(kept)) for path in kept.rglob("*") if path.is_file()} == {
        "output/1.2/rank.0/out", "work/1-abc/checkpoints/step 10.pt"}
    assert (kept / "output/1.2/rank.0/out").read_text() == "loss 0.1\n"
    assert (kept.stat().st_mode & 0o077) == 0
    assert not state.exists()


def test_a_node_without_jobs_leaves_nothing_behind(allocation):
    state, kept, leave = allocation
    leave()
    assert not kept.exists() and not state.exists()


def test_a_directory_of_somebody_else_is_not_taken_for_the_state(allocation, tmp_path):
    state, _, leave = allocation
    shutil.rmtree(state)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    state.symlink_to(theirs)
    done = leave(code=1)
    assert f"{state} cannot be made, or is somebody else's" in done.stderr
    state.unlink()
    if os.geteuid() == 0:
        state.mkdir()
        os.chown(state, 61234, 61234)
        leave(code=1)
        theirs = state
    assert list(theirs.iterdir()) == []


def test_what_cannot_be_brought_home_stays_on_the_node(allocation, tmp_path):
    state, kept, leave = allocation
    write(state / "agent/allocations/1.2/rank.0/out", "loss 0.1\n")
    (tmp_path / "full").touch()
    done = leave(XDG_STATE_HOME=str(tmp_path / "full"))
    assert f"it is on the node in {state}" in done.stderr
    assert (state / "agent/allocations/1.2/rank.0/out").exists()


def test_agents_of_an_allocation_take_settings(allocation, tmp_path):
    state, _, leave = allocation
    seen = tmp_path / "seen.yaml"
    agent = tmp_path / "bin/launch-agent"
    agent.write_text(f'#!/bin/sh\n[ "$1" = join ] && exec cp "$3" {seen}\n: >{tmp_path}/runs; exec sleep 60\n')
    leave()
    assert seen.read_text().splitlines()[-1] == 'labels: {slurm_job: "7"}'
    write(tmp_path / "cluster/allocation-agent.yaml", "interpreters: [/opt/a/bin/python]\nlabels: {rack: b2}\n")
    state.mkdir(parents=True)
    leave()
    assert seen.read_text().splitlines()[-2:] == ["interpreters: [/opt/a/bin/python]", 'labels: {slurm_job: "7", rack: b2}']


def test_nodes_out_of_an_allocation_run_jobs_and_leave_with_it(slurm):
    bad = slurm.launch("up", "--slurm", "-N 1; rm x", code=2)
    assert "is not a list of sbatch's options" in bad.stderr
    assert not (slurm.home / ".config/launch").exists()
    port = free_ports(1)[0]
    refused = slurm.launch("up", "--slurm", "-p nothing", "--address", "127.0.0.1", "--controller-port", port, code=None)
    assert refused.returncode != 0 and "sbatch refuses" in refused.stderr and "nvalid partition" in refused.stderr

    settings = slurm.home / "settings.yaml"
    settings.write_text("agent: {gpu_ids: [0]}\n")
    wrong = slurm.launch("up", "--slurm", "-N 2", "--settings", settings, code=2)
    assert "settings.yaml:1" in wrong.stderr and "Slurm says which GPUs it gave" in wrong.stderr, wrong.stderr
    settings.write_text("agent: {labels: {rack: b2}}\ncontroller: {operator_exec: true}\n")
    up = slurm.launch("up", "--slurm", "-N 2 -t 30", "--address", "127.0.0.1", "--controller-port", port, "--settings", settings)
    assert [line.split()[:2] for line in up.stdout.splitlines()[1:]] == [["n1", "idle"], ["n2", "idle"]]
    state = slurm.home / ".config/launch/clusters/launch"
    assert oct((state / "key.pem").stat().st_mode)[-3:] == "600"

    job = slurm.home / "job.yaml"
    job.write_text("name: hello\ndevice: cpu\ngpus: 0\nnodes: 2\nworkdir: /tmp\nconstraints: label.rack==b2\n"
                   "run: echo hello from rank $RANK\n")
    slurm.launch("submit", job, "--wait")
    assert sorted(slurm.launch("logs", "1").stdout.splitlines()) == ["[0] hello from rank 0", "[1] hello from rank 1"]

    # What the cluster has no room for waits for Slurm, and says so.
    waiting = slurm.launch("up", "--slurm", "-N 2 -t 30 -J more --exclusive")
    assert "is PENDING (" in waiting.stderr
    assert len(slurm.queue()) == 2
    left = subprocess.Popen(slurm.as_user(BIN / "launch", "up", "--slurm", "-N 2 -t 30 -J third --exclusive"), env=slurm.env,
                            cwd=slurm.home, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    asked = next(line for line in left.stderr if "asked Slurm for nodes" in line)
    left.send_signal(signal.SIGINT)
    said = left.communicate(timeout=20)[1]
    third = asked.split()[-1]
    assert left.returncode == 130 and f"launch: left; allocation {third} goes on" in said and "launch down launch ends it" in said, said
    slurm.run("scancel", third)
    wait_until("the third is gone", lambda: len(slurm.queue()) == 2)

    # The user takes the allocation away, as Slurm does at the end of its time: a rank may write its checkpoint.
    long = slurm.home / "long.yaml"
    long.write_text("name: long\ndevice: cpu\ngpus: 0\nworkdir: /tmp\n"
                    f"run: trap 'echo saved > {slurm.home}/saved; exit' TERM; echo ready; sleep 600 & wait\n")
    slurm.launch("submit", long)
    wait_until("the job runs", lambda: "ready" in slurm.launch("logs", "2", code=None).stdout)
    first = slurm.queue()
    running = next(line.split()[0] for line in first if "RUNNING" in line)
    slurm.run("scancel", "--batch", "--signal=USR1", running)
    wait_until("the allocation is over", lambda: not any(line.startswith(running) for line in slurm.queue()), timeout=60)
    log = (state / f"slurm-{running}.log").read_text()
    assert "takes no new jobs" in log, log
    assert (slurm.home / "saved").read_text() == "saved\n"
    outputs = (slurm.home / f".local/state/launch/slurm-{running}").glob("n*/output/2.1/rank.0/out")
    assert [path.read_text() for path in outputs] == ["ready\n"]
    assert "requeued by" in slurm.launch("status", "2").stdout
    slurm.launch("cancel", "2")

    down = slurm.launch("down", "launch")
    assert "ended" in down.stderr
    wait_until("no allocation is left", lambda: slurm.queue() == [], timeout=60)
    wait_until("nothing of it runs", lambda: not [
        command for _, command in processes_with(str(slurm.home))
        if command.split()[0].rsplit("/", 1)[-1].startswith("launch")], timeout=60)
