"""Two network namespaces as two nodes: own addresses, own host names, own mounts; real PyTorch over gloo."""

import os
import pathlib
import re
import shutil
import subprocess
import textwrap

import pytest

from conftest import BIN, ROOT, VENV, Cluster, wait_until
from test_stories import S002_4, losses

HERE = ROOT / "tests/e2e"
NET = f"10.213.{os.getpid() % 250 + 1}"  # of this process: two runs may share a machine


def sh(command):
    return subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout


def need_namespaces():
    probe = f"launch-probe-{os.getpid()}"
    done = subprocess.run(f"ip netns add {probe} && ip netns del {probe}", shell=True, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"network namespaces cannot be made here: {done.stderr.strip()}")


class Hosts:
    """A bridge with one namespace per node; `controller` listens on the bridge's own address."""

    def __init__(self, tmp, names):
        self.tag = f"l{os.getpid() % 10000}"
        self.runs = tmp / "run"  # of each host its /run/launch, where the GPUs' locks are
        pathlib.Path("/run/launch").mkdir(exist_ok=True)
        self.names = names
        self.bridge = f"{self.tag}br"
        self.files = []
        sh(f"ip link add {self.bridge} type bridge && ip addr add {NET}.1/24 dev {self.bridge} && ip link set {self.bridge} up")
        for i, name in enumerate(names):
            ns, veth = self.ns(name), f"{self.tag}v{i}"
            sh(f"ip netns add {ns} && ip link add {veth} type veth peer name eth0 netns {ns} && "
               f"ip link set {veth} master {self.bridge} up && "
               f"ip netns exec {ns} sh -c 'ip link set lo up; ip addr add {self.address(name)}/24 dev eth0; ip link set eth0 up'")
            # The host's own name resolves to a loopback address, as on many installed machines.
            etc = pathlib.Path(f"/etc/netns/{ns}")
            etc.mkdir(parents=True, exist_ok=True)
            (etc / "hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {name}\n")
            self.files.append(etc)
            (self.runs / name).mkdir(parents=True)

    def ns(self, name):
        return f"{self.tag}-{name}"

    def address(self, name):
        return f"{NET}.{10 + self.names.index(name)}"

    def command(self, name, argv, prepare=""):
        """`argv` as it runs on that host: own network, host name and mounts."""
        script = f"hostname {name}; mount --make-rprivate /; mount --bind {self.runs / name} /run/launch; {prepare} exec \"$0\" \"$@\""
        return ["ip", "netns", "exec", self.ns(name), "unshare", "-u", "-m", "sh", "-c", script, *map(str, argv)]

    def close(self):
        for i, name in enumerate(self.names):
            # The kernel takes a namespace down later on; its cable must be gone for the next test.
            subprocess.run(["ip", "link", "del", f"{self.tag}v{i}"], capture_output=True)
            subprocess.run(["ip", "netns", "del", self.ns(name)], capture_output=True)
        subprocess.run(["ip", "link", "del", self.bridge], capture_output=True)
        for etc in self.files:
            shutil.rmtree(etc, ignore_errors=True)


@pytest.fixture
def hosts(tmp_path):
    need_namespaces()
    made = Hosts(tmp_path, ["na", "nb"])
    yield made
    made.close()


class NetCluster(Cluster):
    """Controller on the bridge, one agent per host, joined by token: as an operator would by hand."""

    def __init__(self, tmp, hosts, prepare=None, agent=()):
        work = tmp / "work"
        work.mkdir()
        super().__init__(tmp / "state", work)
        self.children = []
        controller = tmp / "controller"
        subprocess.run([BIN / "launch-controller", "init", "--state", controller], check=True, timeout=30, capture_output=True)
        self.log = open(tmp / "programs.log", "w")
        self.start([BIN / "launch-controller", "run", "--state", controller, "--listen", f"{NET}.1:0"])
        address = wait_until("controller serves", lambda: (controller / "address").exists() and
                             (controller / "address").read_text().strip())
        self.env |= {"LAUNCH_CONTROLLER": address, "LAUNCH_CREDENTIALS": str(controller / "operator")}
        for name in hosts.names:
            token = self.launch("token", "create", "--node", name).stdout
            state = tmp / f"agent-{name}"
            subprocess.run(hosts.command(name, [BIN / "launch-agent", "join", "--state", state]), input=token, text=True,
                           check=True, timeout=30, capture_output=True)
            self.start(hosts.command(name, [BIN / "launch-agent", "run", "--state", state, *agent], (prepare or {}).get(name, "")))
        wait_until("both nodes idle", lambda: [n["state"] for n in self.json("nodes")["nodes"]] == ["idle"] * len(hosts.names))

    def start(self, argv):
        env = {k: v for k, v in self.env.items() if not k.startswith("LAUNCH_")}
        self.children.append(subprocess.Popen(list(map(str, argv)), env=env, stdin=subprocess.DEVNULL,
                                              stdout=self.log, stderr=self.log))

    def down(self):
        for child in self.children:
            child.terminate()
        for child in self.children:
            child.wait(timeout=20)
        self.log.close()


@pytest.fixture
def net_cluster(tmp_path, hosts):
    made = []

    def make(**kwargs):
        made.append(NetCluster(tmp_path, hosts, **kwargs))
        return made[0]

    yield make
    for cluster in made:
        cluster.down()


def torchrun_on(hosts, cluster, threads):
    """The same script under plain torchrun, one agent per host, as a user types it today. With as many threads as the
    ranks of the job had: sums of another order differ in the last digit."""
    runs = []
    for i, name in enumerate(hosts.names):
        runs.append(subprocess.Popen(
            hosts.command(name, [VENV / "bin/python", "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1",
                                 f"--node-rank={i}", f"--master-addr={hosts.address('na')}", "--master-port=29533",
                                 HERE / "train_ddp.py", "--out", "truth"]),
            env={**os.environ, "LAUNCH_MICRO_BATCH": "8", "LAUNCH_GRAD_ACCUM": "4", "OMP_NUM_THREADS": threads,
                 "GLOO_SOCKET_IFNAME": "eth0"},
            cwd=cluster.work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    outs = [run.communicate(timeout=180) for run in runs]
    assert all(run.returncode == 0 for run in runs), outs
    return losses(outs[0][0])


def test_ddp_across_two_hosts_gives_the_losses_of_torchrun_and_every_line_of_every_rank(hosts, net_cluster):
    cluster = net_cluster()
    script = (HERE / "train_ddp.py").read_text()
    # Every rank prints every step, so that a lost or reordered line shows.
    (cluster.work / "train_ddp.py").write_text(script.replace(
        "    if rank == 0:\n        print(", "    print(f'mine {rank} {step}', flush=True)\n    if rank == 0:\n        print("))
    job_file = cluster.write("job.yaml", S002_4.format(venv=VENV).replace("device: cpu\n", "device: cpu\n"))
    job = cluster.submit(job_file)
    follow = cluster.spawn("logs", job, "-f")
    cluster.launch("wait", job, timeout=180)
    followed, _ = follow.communicate(timeout=30)
    status = cluster.status(job)
    assert status["attempts"][0]["master"].startswith(hosts.address("na")), "an address that both hosts reach"
    assert status["attempts"][1]["env"]["GLOO_SOCKET_IFNAME"] == "eth0", "the host's name resolves to loopback"
    merged = {}
    truth = torchrun_on(hosts, cluster, status["attempts"][0]["env"]["OMP_NUM_THREADS"])
    for attempt in (1, 2):
        merged |= losses(cluster.launch("logs", job, "--attempt", attempt, "--rank", 0).stdout)
    assert merged == truth, "the same loss on every step, and the resumed part continues the curve"
    for rank in (0, 1):
        steps = [int(n) for n in re.findall(rf"mine {rank} (\d+)", followed)]
        assert steps == list(range(1, 91)) + list(range(81, 121)), f"logs -f saw every line of rank {rank} in order"


def test_a_workdir_missing_on_one_node_only_is_found_before_any_rank(hosts, net_cluster, tmp_path):
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "data").mkdir()
    cluster = net_cluster(prepare={"nb": f"mount -t tmpfs none {hidden};"})
    ledger = cluster.work / "ledger"
    job_file = cluster.write("job.yaml", f"name: w\nnodes: 2\ngpus: 0\nworkdir: {hidden}/data\nsnapshot: false\nrun: echo $RANK >> {ledger}\n")
    done = cluster.launch("submit", job_file, "--wait", code=4, timeout=60)
    said = done.stdout + done.stderr
    assert "workdir_missing" in said and "nb" in said
    assert not ledger.exists()


def test_a_workdir_that_is_not_the_same_directory_everywhere_is_refused(hosts, net_cluster, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    cluster = net_cluster(prepare={"nb": f"mount -t tmpfs none {shared};"})
    job_file = cluster.write("job.yaml", f"name: w\nnodes: 2\ngpus: 0\nworkdir: {shared}\nsnapshot: false\nrun: echo\n")
    done = cluster.launch("submit", job_file, "--wait", code=4, timeout=60)
    assert "path_not_shared" in done.stdout + done.stderr


def test_a_node_cut_off_keeps_its_job_and_shows_unreachable(hosts, net_cluster):
    cluster = net_cluster()
    cluster.write("wait.py", textwrap.dedent("""\
        import pathlib, time
        while not pathlib.Path("go").exists(): time.sleep(0.05)
        """))
    job = cluster.submit(cluster.write("job.yaml", f"name: u\nnodes: 2\ngpus: 0\nrun: {VENV}/bin/python wait.py\n"))
    cluster.wait_for(job, "RUNNING")
    veth = sh(f"ip -o link show master {hosts.bridge}").splitlines()[1].split(":")[1].split("@")[0].strip()
    sh(f"ip link set {veth} down")
    cluster.wait_for(job, "UNREACHABLE", timeout=20)
    sh(f"ip link set {veth} up")
    cluster.wait_for(job, "RUNNING", timeout=40)
    assert len(cluster.status(job)["attempts"]) == 1
    cluster.write("go", "")
    cluster.launch("wait", job)
