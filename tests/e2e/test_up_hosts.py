"""`launch up` on a mixed lot of hosts: users, shells, kinds of keys, a jump host, sudo, and four that cannot be nodes."""

import os
import pathlib
import re
import subprocess

import pytest

from conftest import BIN, wait_until
from test_namespaces import need_namespaces, sh
from test_up import SshHosts

NAMES = ["na", "nb", "nc", "nd", "ne", "nf"]
PASSWD = """\
root:x:0:0:root:/root:/bin/bash
sshd:x:105:65534::/run/sshd:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
{user}:x:1700:1700::/home/{user}:{shell}
"""


def account(home, user, shell, key, sudo):
    """Mounts that give one host an account of its own, who logs in with `key`."""
    etc = home / "etc"
    (home / "homes" / user).mkdir(parents=True)
    etc.mkdir()
    (etc / "passwd").write_text(PASSWD.format(user=user, shell=shell))
    (etc / "group").write_text(f"root:x:0:\nnogroup:x:65534:\n{user}:x:1700:\n")
    (etc / "shadow").write_text(f"root:*:19000::::::\nsshd:*:19000::::::\n{user}:*:19000::::::\n")
    (etc / "sudoers").write_text("root ALL=(ALL) ALL\n" + (f"{user} ALL=(ALL) NOPASSWD: ALL\n" if sudo else ""))
    (etc / "sudoers").chmod(0o440)
    (home / "homes/keys").write_text(pathlib.Path(f"{key}.pub").read_text())
    os.chown(home / "homes" / user, 1700, 1700)
    (home / "homes").chmod(0o755)
    return f"mount --bind {home}/homes /home;" + "".join(
        f"mount --bind {etc}/{name} /etc/{name};" for name in ("passwd", "group", "shadow", "sudoers"))


@pytest.fixture
def lot(tmp_path):
    need_namespaces()
    for program in ("/usr/bin/tcsh", "/usr/bin/fish", "/usr/bin/sudo"):
        if not os.access(program, os.X_OK):
            pytest.skip(f"{program} is not installed")
    for kind in ("rsa", "ecdsa"):
        sh(f"ssh-keygen -q -t {kind} -N '' -f {tmp_path}/id_{kind}")
    mounts = {
        "nb": account(tmp_path / "nb", "ana", "/usr/bin/tcsh", tmp_path / "id_rsa", sudo=False),
        "nc": account(tmp_path / "nc", "ben", "/usr/bin/fish", tmp_path / "id_ecdsa", sudo=True),
        "nf": "mount -t tmpfs -o size=64k none /opt;",
    }
    made = SshHosts(tmp_path, list(NAMES), mounts, {"nb": "/home/keys", "nc": "/home/keys"})
    made.names.append("ng")  # is down
    yield made
    made.names.remove("ng")
    made.close()


class Person:
    """Keys in files and in an agent, a hosts file, and known_hosts with a wrong key of ne."""

    def __init__(self, hosts, tmp):
        self.hosts, self.tmp = hosts, tmp
        self.config = tmp / "ssh_config"
        self.known = tmp / "known_hosts"
        self.config.write_text(f"Host *\n  IdentityFile {tmp}/none\n  UserKnownHostsFile {self.known}\n  ConnectTimeout 2\n")
        other = (tmp / "nd/host_key.pub").read_text().split()
        self.known.write_text(f"{hosts.address('ne')} {other[0]} {other[1]}\n")
        self.agent = sh("ssh-agent -s")
        socket, pid = re.search(r"SSH_AUTH_SOCK=(.*?);", self.agent)[1], re.search(r"SSH_AGENT_PID=(\d+)", self.agent)[1]
        self.agent_pid = int(pid)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("LAUNCH_")}
        self.env |= {"XDG_CONFIG_HOME": str(tmp / "config"), "HOME": str(tmp / "home"), "SSH_AUTH_SOCK": socket}
        subprocess.run(["ssh-add", "-q", tmp / "id_ecdsa"], env=self.env, check=True, capture_output=True)
        self.file = tmp / "hosts.yaml"

    def write(self, names, nb=""):
        said = {
            "na": f"user: root, key: {self.tmp}/id", "nb": f"user: ana, key: {self.tmp}/id_rsa{nb}",
            "nc": "user: ben, sudo: true", "nd": f"user: root, key: {self.tmp}/id, jump: root@{self.hosts.address('na')}",
        }
        self.file.write_text("hosts:\n" + "".join(
            f"  - {{name: {n}, address: {self.hosts.address(n)}, {said.get(n, f'user: root, key: {self.tmp}/id')}}}\n" for n in names))

    def launch(self, *args):
        return subprocess.run([BIN / "launch", *map(str, args)], env=self.env, capture_output=True, text=True, timeout=150,
                              stdin=subprocess.DEVNULL)

    def up(self, *args):
        return self.launch("up", self.file, "--ssh-config", self.config, "--accept-new-host-keys", *args)


@pytest.fixture
def person(lot, tmp_path):
    made = Person(lot, tmp_path)
    yield made
    os.kill(made.agent_pid, 15)


def owner_of(pid):
    return os.stat(f"/proc/{pid}").st_uid


def test_up_on_users_shells_keys_a_jump_host_and_sudo(lot, person, tmp_path):
    person.write([*NAMES, "ng"])
    first = person.up()
    assert first.returncode == 1, first.stderr
    assert re.search(r"^ne: .*is not the known one", first.stderr, re.M), first.stderr
    assert re.search(r"^nf: .*(cannot be written|are free)", first.stderr, re.M), first.stderr
    assert re.search(r"^ng: .*ssh to", first.stderr, re.M), first.stderr
    assert "3 of 7 hosts failed" in first.stderr
    assert [line.split()[:2] for line in first.stdout.splitlines()[1:]] == [[n, "idle"] for n in ("na", "nb", "nc", "nd")]

    # Whoever logs in runs the agent, and root where sudo was asked for; nothing of ben's home is used then.
    owners = {n: [owner_of(pid) for pid in lot.pids(n, "launch-agent")] for n in ("nb", "nc", "nd")}
    assert owners == {"nb": [1700], "nc": [0], "nd": [0]}
    assert (tmp_path / "nb/homes/ana/.local/state/launch").is_dir() and not (tmp_path / "nc/homes/ben/.local/share/launch").exists()
    assert f"from {lot.address('na')} port" in (tmp_path / "nd/sshd.log").read_text(), "nd is reached through na"

    # Again: nothing to do.
    person.write(["na", "nb", "nc", "nd"])
    again = person.up()
    assert again.returncode == 0 and not re.search(r"^n\w: (installed|started|joined)", again.stderr, re.M), again.stderr

    # An agent that has more keys than a server hears: the one that is named comes first.
    spare = [tmp_path / f"spare{i}" for i in range(7)]
    for key in spare:
        sh(f"ssh-keygen -q -t ed25519 -N '' -f {key}")
    subprocess.run(["ssh-add", "-q", *spare], env=person.env, check=True, capture_output=True)
    person.write(["na", "nb"])
    crowded = person.up("--dry-run")
    assert crowded.returncode == 0, crowded.stderr
    subprocess.run(["ssh-add", "-q", "-d", *spare], env=person.env, check=True, capture_output=True)

    # Where sudo asks for a password, that is the reason.
    person.write(["na", "nb"], ", sudo: true")
    closed = person.up("--dry-run")
    assert closed.returncode == 1 and re.search(r"^nb: sudo there does not let us in", closed.stderr, re.M), closed.stderr

    # A node whose identity was lost is the same node when it has joined again.
    os.kill(lot.pids("nd", "launch-agent")[0], 9)
    (tmp_path / "nd/lib/agent/identity/cert.pem").write_text("")
    person.write(["na", "nb", "nc", "nd"])
    wait_until("nd is silent", lambda: re.search(r"^nd +silent", person.launch("nodes").stdout, re.M))
    mended = person.up()
    assert mended.returncode == 0 and "nd: joined the cluster again" in mended.stderr, mended.stderr

    # One host leaves, of another only the entry; a busy one and the head stay.
    job = tmp_path / "job.yaml"
    job.write_text("name: busy\ndevice: cpu\ngpus: 0\nnodelist: nc\nworkdir: /tmp\nrun: sleep 300\n")
    running = person.launch("submit", job, "--parsable").stdout.strip()
    wait_until("it runs", lambda: "RUNNING" in person.launch("status", running).stdout)
    ssh = ("--ssh-config", person.config)
    busy = person.launch("nodes", "remove", "nc", *ssh)
    assert busy.returncode != 0 and f"job {running} runs on nc" in busy.stderr, busy.stderr
    assert "is the head" in person.launch("nodes", "remove", "na", *ssh).stderr
    assert person.launch("cancel", running).returncode == 0
    for server in lot.pids("nd", "sshd"):
        os.kill(server, 9)
    os.kill(lot.pids("nd", "launch-agent")[0], 9)
    gone = person.launch("nodes", "remove", "nc,nd", *ssh)
    assert gone.returncode == 0, gone.stderr
    assert "nc: removed" in gone.stderr and "nd: removed" in gone.stderr and "is still there" in gone.stderr
    assert not lot.pids("nc", "launch-agent")
    assert person.launch("nodes", "-o", "name").stdout.split() == ["na", "nb"]

    down = person.launch("down", "--purge", "--ssh-config", person.config)
    assert down.returncode == 0, down.stderr
    assert not lot.pids("nb", "launch-agent") and not lot.pids("na", "launch-controller")
