"""Preflight of jobs on several nodes, where one node really differs: its limits, mounts, packages, routes."""

import json
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

from conftest import VENV, wait_until
from test_namespaces import NET, Hosts, NetCluster, need_namespaces, sh


@pytest.fixture
def hosts(tmp_path):
    need_namespaces()
    made = Hosts(tmp_path, ["na", "nb", "nc"])
    yield made
    made.close()


@pytest.fixture
def net_cluster(tmp_path, hosts):
    made = []

    def make(**kwargs):
        made.append(NetCluster(tmp_path, hosts, **kwargs))
        return made[0]

    yield make
    for cluster in made:
        cluster.down()


def say_package(site, name, version):
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def findings_of(cluster, job):
    return {(f["code"], f["node"]): f for f in cluster.status(job)["findings"]}


def make_venv(place, torch_site):
    """An environment of its own that has the torch of this one."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True, timeout=60)
    (site,) = pathlib.Path(place).glob("lib/python3*/site-packages")
    (site / "torch.pth").write_text(f"{torch_site}\n")
    return site


def lose_packets(hosts, at, to):
    """What a firewall that drops does: frames of `at` for `to` go to nobody."""
    sh(f"ip -n {hosts.ns(at)} neigh replace {hosts.address(to)} lladdr 02:00:00:00:00:99 dev eth0 nud permanent")


def find_packets(hosts, at, to):
    sh(f"ip -n {hosts.ns(at)} neigh del {hosts.address(to)} dev eth0")


def test_a_full_preflight_names_what_differs_on_one_of_three_nodes(hosts, net_cluster, tmp_path):
    (torch_site,) = VENV.glob("lib/python3*/site-packages")
    site = make_venv(tmp_path / "env", torch_site)
    say_package(site, "accelerate", "1.2.0")
    other = tmp_path / "other-site"
    other.mkdir()
    (other / "torch.pth").write_text(f"{torch_site}\n")
    say_package(other, "accelerate", "1.3.0")
    odd = (f"mount --bind {other} {site}; mount -t tmpfs -o size=16m none /dev/shm; "
           "head -c 15m /dev/zero > /dev/shm/left-behind; ulimit -n 900; prlimit --pid $$ --nproc=400:400; ")
    sh(f"ip -n {hosts.ns('nb')} link set eth0 mtu 1400")
    cluster = net_cluster(prepare={"nb": odd})
    cluster.write("train.py", "print('ran')\n")
    job_file = cluster.write("job.yaml", textwrap.dedent(f"""\
        name: odd
        nodes: 3
        gpus: 0
        device: cpu
        venv: {tmp_path}/env
        preflight: {{level: full}}
        run: python train.py
        """))
    job = cluster.submit(job_file)
    cluster.launch("wait", job, timeout=150)
    found = findings_of(cluster, job)
    for code in ("version_skew", "shm_small", "nofile_low", "nproc_low", "network_slow"):
        assert (code, "nb") in found, (code, found)
    assert "1.3.0" in found["version_skew", "nb"]["evidence"] and "1.2.0" in found["version_skew", "nb"]["evidence"]
    assert "1400" in found["network_slow", "nb"]["says"]
    assert not [f for f in found.values() if f["severity"] == "error" or f["node"] != "nb"], found
    tested = [e["text"] for e in cluster.events() if e["kind"] == "attempt.network_tested"]
    assert any("3 pairs of nodes meet" in text for text in tested), tested
    assert any("gloo over 3 nodes gives the right sum" in text for text in tested), tested

    # What `check` says of the same job is known before a start: nothing less, and no start.
    check = cluster.launch("check", job_file, "-o", "json", code=None)
    assert {("nofile_low", "nb"), ("network_slow", "nb")} <= {(f["code"], f["node"]) for f in json.loads(check.stdout)["findings"]}


def test_two_nodes_that_only_the_full_level_asks_to_meet(hosts, net_cluster):
    cluster = net_cluster()
    text = "name: apart\nretry: 0\nnodes: 3\ngpus: 0\ndevice: cpu\npreflight: {{level: {level}}}\nrun: {python} -c pass\n"
    quick = cluster.write("quick.yaml", text.format(level="quick", python=f"{VENV}/bin/python"))
    full = cluster.write("full.yaml", text.format(level="full", python=f"{VENV}/bin/python"))
    lose_packets(hosts, "nb", "nc")
    cluster.launch("submit", quick, "--wait", timeout=60)  # all reach rank 0's node, and nobody asks for more
    done = cluster.launch("submit", full, "--wait", code=4, timeout=150)
    assert "network_unreachable" in done.stderr
    assert f"nb cannot reach nc at {hosts.address('nc')}" in done.stderr, done.stderr
    find_packets(hosts, "nb", "nc")

    lose_packets(hosts, "nb", "na")
    done = cluster.launch("submit", quick, "--wait", code=4, timeout=60)
    assert "network_unreachable" in done.stderr and f"{NET}.10" in done.stderr and "nb" in done.stderr
    find_packets(hosts, "nb", "na")


LISTEN = "import socket, time; s = socket.socket(); s.bind(('', 29502)); s.listen(); print('up', flush=True); time.sleep(120)"


def test_a_port_range_that_others_listen_in_is_named_and_the_job_goes_where_ports_are_free(hosts, net_cluster):
    cluster = net_cluster(prepare={"na": 'set -- "$@" --port-range 29500-29503;'})
    listener = subprocess.Popen(hosts.command("na", [sys.executable, "-c", LISTEN]), stdout=subprocess.PIPE, text=True)
    try:
        assert listener.stdout.readline() == "up\n"
        only = cluster.write("only.yaml", "name: only\ngpus: 0\nnodelist: na\nrun: 'true'\n")
        waits = cluster.submit(only)
        refused = wait_until("na refuses", lambda: next(
            (e for e in cluster.events()
             if e["kind"] == "allocation.refused" and e["subject"].startswith(f"attempt/{waits}.")), None))
        assert "port_busy" in refused["text"] and "29500-29503" in refused["text"], refused
        wait_until("the reason in the queue", lambda: "29500-29503" in cluster.launch("status", waits).stdout)

        # A finding like any other, wherever the refusal is shown.
        def busy(document):
            (finding,) = [f for f in document["findings"] if f["code"] == "port_busy"]
            assert (finding["severity"], finding["node"]) == ("error", "na")
            assert f"port 29502: process {listener.pid} (" in finding["evidence"], finding
            assert "ss -tanp 'sport >= :29500 and sport <= :29503'" in finding["remedy"], finding
            return finding["says"]

        says = busy(cluster.status(waits))
        why = json.loads(cluster.launch("why", waits, "-o", "json").stdout)
        assert (why["label"], why["node"], why["cause"]) == ("port_busy", "na", says), why
        both = cluster.write("both.yaml", "name: both\ngpus: 0\nnodelist: 'na,nb'\nrun: 'true'\n")
        cluster.launch("submit", both, "--wait", timeout=60)
    finally:
        listener.kill()
        listener.wait()
    cluster.launch("wait", waits, timeout=90)  # it is asked again


def test_data_that_one_of_three_nodes_lacks_is_named_before_the_start(hosts, net_cluster, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    (data / "train.bin").write_text("x")
    cluster = net_cluster(prepare={"nc": f"mount -t tmpfs none {data};"})
    job_file = cluster.write("job.yaml", f"name: d\nnodes: 3\ngpus: 0\nrun: python3 t.py --data {data}/train.bin\n")
    cluster.write("t.py", "open('ran', 'w')\n")
    done = cluster.launch("submit", job_file, "--wait", code=4, timeout=60)
    assert "path_not_shared" in done.stderr and f"{data}/train.bin" in done.stderr and "nc" in done.stderr
    assert not (cluster.work / "ran").exists()


def test_the_network_between_nodes_is_measured_pair_by_pair_and_the_slow_link_named(hosts, net_cluster):
    cluster = net_cluster()

    def check(*arguments, code=0):
        done = cluster.launch("check", "--network", "--venv", VENV, *arguments, "-o", "json", code=code, timeout=150)
        return json.loads(done.stdout)

    well = check()
    assert well["findings"] == []
    pairs = [(c["node"], c["says"].split()[1]) for c in well["passed"] if c["check"] == "network" and c["node"]]
    assert sorted(tuple(sorted(pair)) for pair in pairs) == [("na", "nb"), ("na", "nc"), ("nb", "nc")]
    assert any("gloo over 3 nodes gives the right sum" in c["says"] for c in well["passed"])
    assert any("NCCL_SOCKET_IFNAME: \"eth0\"" in c["says"] for c in well["passed"])
    two = check("nb", "nc")  # one pair, which is slow where the machine is busy, and three lines of the whole
    assert len(two["passed"]) + len(two["findings"]) == 4, two

    # 50 Mbit/s on one of three: both of its links are slow, the third is not.
    sh(f"ip netns exec {hosts.ns('nc')} tc qdisc add dev eth0 root tbf rate 50mbit burst 64kb latency 50ms")
    slow = [f for f in check()["findings"] if f["code"] == "network_slow"]
    assert len(slow) == 2 and all("nc" in f["says"] and f["severity"] == "warning" for f in slow), slow
    assert all("Mbit/s" in f["says"] and "GLOO_SOCKET_IFNAME" in f["remedy"] for f in slow), slow


def test_plans_count_with_the_network_as_it_was_measured(hosts, net_cluster, nvml, tmp_path):
    prepare = {}
    for name in hosts.names:
        nvml.state("rtx4090")
        own = tmp_path / f"nvml-{name}.json"
        own.write_text(nvml.file.read_text().replace("GPU-41b0c7de", f"GPU-{name}b0c7de"))
        prepare[name] = f"export FAKE_NVML_CONFIG={own};"
    sh(f"ip netns exec {hosts.ns('nb')} tc qdisc add dev eth0 root tbf rate 100mbit burst 64kb latency 50ms")
    cluster = net_cluster(prepare=prepare, agent=["--nvml-library", nvml.library])
    job = cluster.write("job.yaml", textwrap.dedent("""\
        name: gang
        nodes: 2
        gpus: 1
        nodelist: na,nb
        model: {params: 134515008, layers: 30, hidden: 576, heads: 9, vocab: 49152, seq_len: 1024}
        batch: {global: 16}
        steps: 100
        run: python train.py
        """))
    cluster.write("train.py", "")

    def plan():
        return json.loads(cluster.launch("plan", job, "-o", "json").stdout)

    before = plan()
    assert "measured" not in before["why"], before["why"]
    done = cluster.launch("check", "--network", "--venv", VENV, "na", "nb", timeout=150, code=None)
    assert "na and nb" in done.stdout, done.stdout + done.stderr
    after = plan()
    assert re.search(r"network measured 1\d MB/s between na and nb, (just now|\d+[ms])", after["why"]), after["why"]
    assert after["duration"]["step_seconds"] > 3 * before["duration"]["step_seconds"]
    slow = [f for f in after["warnings"] if f["code"] == "network_slow"]
    assert slow and "na and nb" in slow[0]["says"], after["warnings"]
    assert any(e["kind"] == "network.measured" and "na and nb" in e["text"] for e in cluster.events())
