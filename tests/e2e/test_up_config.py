"""`launch up` on the hosts of an OpenSSH config: their HostName, their ProxyJump, and the file is known later on."""

import re
import subprocess

import pytest

from conftest import BIN
from test_namespaces import sh
from test_up import Operator, SshHosts, fresh_hosts  # noqa: F401 (conftest goes by SshHosts)

MEET = """
import os, socket, time
at = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if os.environ["RANK"] == "0":
    with socket.create_server(at, family=socket.AF_INET6) as server:
        print(server.accept()[1][0], "came to", at[0])
else:
    while True:
        try:
            socket.create_connection(at, timeout=10).close()
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
"""


def test_up_from_an_openssh_config_whose_names_nothing_else_knows(fresh_hosts, tmp_path):  # noqa: F811
    three = fresh_hosts("na", "nb", "nc")
    operator = Operator(three, tmp_path)
    config = tmp_path / "lab.conf"
    alias = {"gate": "na", "lab1": "nb", "lab2": "nc"}
    config.write_text("".join(f"Host {name}\n  HostName {three.address(host)}\n" for name, host in alias.items()) +
                      "Host lab2\n  ProxyJump gate\n"
                      f"Host *\n  User root\n  IdentityFile {tmp_path}/id\n  UserKnownHostsFile {operator.known}\n  ConnectTimeout 2\n"
                      "  StrictHostKeyChecking no\n")  # which lets nobody in unseen here

    def launch(*args):
        return subprocess.run([BIN / "launch", *map(str, args)], env=operator.env, cwd=tmp_path, capture_output=True, text=True,
                              timeout=120, stdin=subprocess.DEVNULL)

    # The key of the host in between is confirmed by nobody: its own words, and nothing is asked at a terminal.
    (tmp_path / "lab2").mkdir()  # not a file of hosts, though it has the name of one
    closed = launch("up", "lab1,lab2", "-F", config, "--dry-run")
    assert closed.returncode != 0 and "is not known: ssh-ed25519 SHA256:" in closed.stderr, closed.stderr
    assert f"ssh -F {config} lab1" in closed.stderr, closed.stderr
    closed = launch("up", "lab2", "-F", config, "--dry-run")
    assert re.search(r"ssh to lab2 through another host: .*[Hh]ost key verification failed", closed.stderr), closed.stderr

    done = launch("up", "lab.conf", "--accept-new-host-keys")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^gate: left out", done.stderr, re.M), done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:]] == [["lab1", "idle"], ["lab2", "idle"]], done.stdout
    assert f"from {three.address('na')} port" in (tmp_path / "nc/sshd.log").read_text(), "lab2 is reached through the gate"
    assert not list((tmp_path / "na/opt").iterdir())

    # From another directory, without the file being named again.
    away = tmp_path / "away"
    away.mkdir()
    removed = subprocess.run([BIN / "launch", "nodes", "remove", "lab2", "--purge"], env=operator.env, cwd=away, capture_output=True,
                             text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert removed.returncode == 0 and "lab2: removed" in removed.stderr and "is still there" not in removed.stderr, removed.stderr
    assert launch("down", "--purge").returncode == 0
    for name in ("nb", "nc"):
        assert not three.pids(name, "launch-agent") and not list((tmp_path / name / "opt").iterdir())


def test_up_says_that_the_head_has_no_address_before_anything_is_installed(fresh_hosts, tmp_path):  # noqa: F811
    three = fresh_hosts("na", "nb", "nc")
    operator = Operator(three, tmp_path)
    # A name that ssh reaches by a command, as through a broker, and that nobody else can find.
    (tmp_path / "broker").write_text("exec 3<>/dev/tcp/127.0.0.1/22\ncat <&3 &\ncat >&3\n")
    operator.config.write_text(f"Host broker1\n  ProxyCommand ip netns exec {three.ns('na')} bash {tmp_path}/broker\n"
                               f"Host *\n  User root\n  IdentityFile {tmp_path}/id\n  UserKnownHostsFile {operator.known}\n")
    done = operator.launch("up", "broker1", "-F", operator.config, "--accept-new-host-keys")
    assert done.returncode != 0 and "no address is known for broker1" in done.stderr and "write address:" in done.stderr, done.stderr
    assert not list((tmp_path / "na/opt").iterdir())


def test_up_over_ipv6_alone_to_servers_that_let_one_session_in(fresh_hosts, tmp_path):  # noqa: F811
    three = fresh_hosts("na", "nb", "nc")
    if subprocess.run("ip netns exec " + three.ns("na") + " ip -6 addr show dev lo | grep -q ::1", shell=True).returncode != 0:
        pytest.skip("the kernel has no IPv6 here")
    sh(f"ip -6 addr add fd00:213::1/64 dev {three.bridge} nodad")
    names = ["na", "nb"]
    for i, name in enumerate(names):
        inside = f"ip netns exec {three.ns(name)}"
        sh(f"{inside} ip addr flush dev eth0 scope global; {inside} ip -6 addr add fd00:213::{i + 2}/64 dev eth0 nodad")
        three.servers[name].kill()
        three.servers[name].wait()
        with open(tmp_path / name / "sshd_config", "a") as config:
            config.write("MaxSessions 1\n")
        three.serve(name)
    operator = Operator(three, tmp_path)
    done = operator.launch("up", "[fd00:213::2],fd00:213::3", "--ssh-config", operator.config, "--accept-new-host-keys")
    assert done.returncode == 0, done.stderr
    assert "started the controller at [fd00:213::2]:7470" in done.stderr, done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:]] == [["fd00-213--2", "idle"], ["fd00-213--3", "idle"]], done.stdout
    job = tmp_path / "meet.yaml"
    (tmp_path / "meet.py").write_text(MEET)
    job.write_text(f"name: meet\ndevice: cpu\ngpus: 0\nnodes: 2\nworkdir: {tmp_path}\nrun: python3 meet.py\n")
    ran = operator.launch("submit", job, "--wait")
    logs = operator.launch("logs", ran.stdout.split()[0]).stdout
    assert ran.returncode == 0 and "fd00:213::3 came to fd00:213::2" in logs, ran.stderr + logs
    assert operator.launch("down", "--purge", "--ssh-config", operator.config).returncode == 0
