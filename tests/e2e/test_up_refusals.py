"""Hosts that cannot be nodes, each for one real reason: `launch up` says which, and what to do, and takes the others."""

import os
import pathlib
import re
import subprocess

import pytest

from test_namespaces import NET, need_namespaces, sh
from test_up import Operator, SshHosts, fresh_hosts  # noqa: F401


def instead(home, program, text):
    """A mount that puts a script in the place of a program of one host; %(real)s in it is the program itself."""
    place = pathlib.Path(sh(f"readlink -f $(command -v {program})").strip())
    (home / "bin").mkdir(parents=True, exist_ok=True)
    script, real = home / "bin" / program, home / "bin" / f"{program}.real"
    real.write_bytes(place.read_bytes())
    script.write_text(f"#!/bin/sh\n{text % {'real': real}}\n")
    for path in (script, real):
        path.chmod(0o755)
    return f"mount --bind {script} {place};"


@pytest.fixture
def lot(tmp_path):
    need_namespaces()
    sh(f"ssh-keygen -q -t ed25519 -N '' -f {tmp_path}/stranger")
    sh(f"ssh-keygen -q -t ed25519 -N secret -f {tmp_path}/locked")
    mounts = {
        "full": "mount -t tmpfs -o size=2m none /opt;",
        "noexec": "mount -t tmpfs -o noexec none /opt;",
        "readonly": "mount -t tmpfs -o ro none /opt;",
        # The kernel's own word for the machine, as a 32-bit or foreign one says it.
        "thirtytwo": instead(tmp_path / "thirtytwo", "uname", 'exec setarch i686 %(real)s "$@"'),
        "arm": instead(tmp_path / "arm", "uname", '[ "$1" = -m ] && echo aarch64 || exec %(real)s "$@"'),
        "oldlibc": instead(tmp_path / "oldlibc", "getconf",
                           '[ "$1" = GNU_LIBC_VERSION ] && echo glibc 2.31 || exec %(real)s "$@"'),
        "musl": instead(tmp_path / "musl", "getconf", "exit 1"),
        "past": instead(tmp_path / "past", "date", 'exec %(real)s -d "10 minutes ago" "$@"'),
        "future": instead(tmp_path / "future", "date", 'exec %(real)s -d "2 hours" "$@"'),
        # The answers of this one go nowhere: a firewall that drops.
        "silent": f"ip route add blackhole {NET}.1/32;",
        # ssh reaches it, and it does not reach the head.
        "island": f"ip route add unreachable {NET}.10/32;",
    }
    names = ["head", *mounts, "nokey", "keylocked"]
    made = SshHosts(tmp_path, names, mounts, {"nokey": f"{tmp_path}/stranger.pub", "keylocked": f"{tmp_path}/locked.pub"})
    yield made
    made.close()


def test_each_host_that_cannot_be_a_node_says_why_and_what_to_do(lot, tmp_path):
    operator = Operator(lot, tmp_path)
    others = "".join(f"  - {{name: {n}, address: {lot.address(n)}, key: {tmp_path}/{k}}}\n" for n, k in
                     [(n, "locked" if n == "keylocked" else "id") for n in lot.names])
    operator.hosts_file.write_text("user: root\nhosts:\n" + others +
                                   "  - {name: nodns, address: no-such-host.invalid}\n"
                                   f"  - {{name: closed, address: {lot.address('head')}, port: 2299}}\n"
                                   f"  - {{name: down, address: {NET}.250}}\n")
    done = operator.up("--accept-new-host-keys")
    assert done.returncode == 1, done.stderr
    said = dict(re.findall(r"^(\w+): (?!new host key)(.+(?:\n(?!\w+: ).+)*)", done.stderr, re.M))
    expected = {
        "full": (r"only .* are free at /opt/launch, .* are needed", "make room"),
        "noexec": (r"cannot run from /opt/launch: it is mounted noexec", "home without noexec"),
        "readonly": (r"/opt/launch or /var/lib/launch cannot be written", "quota"),
        "thirtytwo": (r"it is i686, and there are no programs for that here", "tarball for i686"),
        "arm": (r"it is aarch64, and there are no programs for that here", "--programs"),
        "oldlibc": (r"its glibc is 2\.31, launch needs 2\.35", "Ubuntu 22.04"),
        "musl": (r"its C library is not glibc", "2.35"),
        "past": (r"its clock is (59\d|60\d) s behind", "timedatectl"),
        "future": (r"its clock is (719\d|720\d) s ahead", "timedatectl"),
        "silent": (r"ssh to root@.*Timeout", "firewall"),
        "island": (r"joining the cluster failed: .*(unreachable|No route|cannot)", "the controller"),
        "nokey": (r"no key of yours is accepted", "ssh-copy-id"),
        "keylocked": (r"no key of yours is accepted", "passphrase needs ssh-agent"),
        "nodns": (r"ssh to root@no-such-host\.invalid: .*resolve", "write address:"),
        "closed": (r"ssh to root@.*:2299: .*refused", "another port"),
        "down": (r"ssh to root@", "route|down"),
    }
    missing = {name: said.get(name) for name, (why, remedy) in expected.items()
               if not re.search(why, said.get(name, "")) or not re.search(remedy, said.get(name, ""))}
    assert not missing, (missing, done.stderr)
    assert f"{len(expected)} of {len(expected) + 1} hosts failed" in done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:]] == [["head", "idle"]], done.stdout
    # What was refused was left as it was.
    for name in ("oldlibc", "past", "arm", "nokey"):
        assert not (tmp_path / name / "opt/launch/releases").exists(), name

    # Programs for the other architecture make the imitated one a node as far as its processor goes.
    arm = tmp_path / "arm-programs"
    arm.mkdir()
    header = bytearray(pathlib.Path(os.path.realpath("/proc/self/exe")).read_bytes()[:64])
    header[18] = 183  # EM_AARCH64
    for program in ("launch-agent", "launch-shim"):
        (arm / program).write_bytes(bytes(header) + b"made for another processor\n" + program.encode())
        (arm / program).chmod(0o755)
    chosen = operator.up("--programs", arm)
    assert re.search(r"^arm: (installed|joining the cluster failed)", chosen.stderr, re.M), chosen.stderr
    releases = tmp_path / "arm/opt/launch/releases"
    sent = [path for path in releases.glob("*/launch-agent")]
    assert len(sent) == 1 and sent[0].read_bytes() == (arm / "launch-agent").read_bytes(), "the right one was sent"
    there = next((tmp_path / "head/opt/launch/releases").glob("*/launch-agent")).read_bytes()
    assert there[18] == header[18] - 183 + 62, "and the head kept its own"

    down = operator.launch("down", "--purge", "--ssh-config", operator.config)
    assert not lot.pids("head", "launch-agent"), down.stderr


def drop(hosts, name, address):
    """From now on what the host sends to the address is lost on the way, as behind a firewall that drops."""
    sh(f"ip netns exec {hosts.ns(name)} ip neigh replace {address} lladdr 02:00:5e:00:53:01 dev eth0 nud permanent")


def test_a_controllers_port_that_a_host_does_not_reach_is_named_with_what_was_met(fresh_hosts, tmp_path):  # noqa: F811
    walled = fresh_hosts("head", "late", "never")
    operator = Operator(walled, tmp_path)
    operator.write(["head", "late"], walled)
    first = operator.up("--accept-new-host-keys")
    assert first.returncode == 0, first.stderr

    # One whose agent ran before the wall was there, and one that never came through.
    for name in ("late", "never"):
        drop(walled, name, walled.address("head"))
    for pid in walled.pids("late", "launch-agent"):
        sh(f"kill -9 {pid}")
    operator.write(walled.names, walled)
    done = operator.up("--accept-new-host-keys")
    assert done.returncode == 1, done.stderr
    port = rf"from it no connection comes about to the controller at {walled.address('head')}:\d+ " \
           r"\((no answer within 5 s|No route to host)\)"
    assert re.search(rf"^late: its agent runs and has not reported for 30s: {port}; it says: .*{walled.address('head')}",
                     done.stderr, re.M), done.stderr
    assert re.search(rf"^never: joining the cluster failed: .*{port}", done.stderr, re.M), done.stderr
    for name in ("late", "never"):
        assert re.search(rf"let {name} in on TCP port \d+ of {walled.address('head')}", done.stderr), done.stderr
