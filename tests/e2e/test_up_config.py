"""`launch up` on the hosts of an OpenSSH config: their HostName, their ProxyJump, and the file is known later on."""

import re
import subprocess

import pytest

from conftest import BIN
from test_namespaces import need_namespaces
from test_up import Operator, SshHosts


@pytest.fixture
def three(tmp_path):
    need_namespaces()
    made = SshHosts(tmp_path, ["na", "nb", "nc"])
    yield made
    made.close()


def test_up_from_an_openssh_config_whose_names_nothing_else_knows(three, tmp_path):
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


def test_up_says_that_the_head_has_no_address_before_anything_is_installed(three, tmp_path):
    operator = Operator(three, tmp_path)
    # A name that ssh reaches by a command, as through a broker, and that nobody else can find.
    (tmp_path / "broker").write_text("exec 3<>/dev/tcp/127.0.0.1/22\ncat <&3 &\ncat >&3\n")
    operator.config.write_text(f"Host broker1\n  ProxyCommand ip netns exec {three.ns('na')} bash {tmp_path}/broker\n"
                               f"Host *\n  User root\n  IdentityFile {tmp_path}/id\n  UserKnownHostsFile {operator.known}\n")
    done = operator.launch("up", "broker1", "-F", operator.config, "--accept-new-host-keys")
    assert done.returncode != 0 and "no address is known for broker1" in done.stderr and "write address:" in done.stderr, done.stderr
    assert not list((tmp_path / "na/opt").iterdir())
