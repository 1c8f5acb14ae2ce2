"""`launch up` and `launch down` over real sshd servers, one network namespace a host."""

import os
import pathlib
import re
import subprocess
import tempfile

import pytest

from conftest import BIN, wait_until
from test_namespaces import NET, Hosts, need_namespaces, sh

SSHD = """
Port 22
HostKey {dir}/host_key
AuthorizedKeysFile {keys}
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
"""


class SshHosts(Hosts):
    """Hosts whose /opt, /var/lib/launch and /root are their own, each with a running sshd."""

    def __init__(self, tmp, names, mounts=None, keys=None):
        super().__init__(tmp, names)
        self.tmp, self.servers = tmp, {}
        sh(f"ssh-keygen -q -t ed25519 -N '' -f {tmp}/id")
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        pathlib.Path("/var/lib/launch").mkdir(exist_ok=True)
        for name in names:
            home = tmp / name
            for part in ("opt", "lib", "root"):
                (home / part).mkdir(parents=True)
            sh(f"ssh-keygen -q -t ed25519 -N '' -f {home}/host_key")
            (home / "sshd_config").write_text(SSHD.format(dir=home, keys=(keys or {}).get(name, f"{tmp}/id.pub")))
            self.serve(name, (mounts or {}).get(name, ""))

    def serve(self, name, more=""):
        home = self.tmp / name
        self.servers[name] = subprocess.Popen(
            self.command(name, ["/usr/sbin/sshd", "-D", "-e", "-f", home / "sshd_config"], self.binds(name) + more),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(home / "sshd.log", "w"))
        self.await_sshd(name)

    def binds(self, name):
        """Mounts that give the host directories of its own."""
        return "".join(f"mount --bind {self.tmp / name}/{part} {place};" for part, place in
                       (("opt", "/opt"), ("lib", "/var/lib/launch"), ("root", "/root")))

    def await_sshd(self, name):
        wait_until("sshd listens", lambda: subprocess.run(
            ["ip", "netns", "exec", self.ns(name), "ss", "-Htln", "sport = :22"], capture_output=True, text=True).stdout)

    def pids(self, name, program):
        found = []
        for pid in sh(f"ip netns pids {self.ns(name)}").split():
            try:
                if os.readlink(f"/proc/{pid}/exe").endswith(program):
                    found.append(int(pid))
            except OSError:
                pass
        return found

    def close(self):
        for name in self.names:
            for pid in sh(f"ip netns pids {self.ns(name)}").split():
                subprocess.run(["kill", "-9", pid], capture_output=True)
        for server in self.servers.values():
            server.wait()
        super().close()


@pytest.fixture
def fresh_hosts(tmp_path):
    """`fresh_hosts("na", "nb")`: hosts with a running sshd and nothing of ours."""
    need_namespaces()
    made = []

    def make(*names):
        made.append(SshHosts(tmp_path, list(names)))
        return made[-1]
    yield make
    for hosts in made:
        hosts.close()


@pytest.fixture
def ssh_hosts(tmp_path):
    need_namespaces()
    # nc has a full disk; nd is down.
    made = SshHosts(tmp_path, ["na", "nb", "nc"], {"nc": "mount -t tmpfs -o size=64k none /opt;"})
    made.names.append("nd")
    yield made
    made.names.remove("nd")
    made.close()


class Operator:
    def __init__(self, hosts, tmp):
        self.config = tmp / "ssh_config"
        self.known = tmp / "known_hosts"
        self.config.write_text("".join(
            f"Host {name}\n  HostName {hosts.address(name)}\n" for name in hosts.names) +
            f"Host *\n  User root\n  IdentityFile {tmp}/id\n  UserKnownHostsFile {self.known}\n  ConnectTimeout 2\n")
        self.hosts_file = tmp / "hosts.yaml"
        self.write([n for n in hosts.names], hosts)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("LAUNCH_")}
        self.env |= {"XDG_CONFIG_HOME": str(tmp / "config"), "HOME": str(tmp / "home")}

    def write(self, names, hosts):
        self.hosts_file.write_text("user: root\nhosts:\n" + "".join(
            f"  - {{name: {n}, address: {hosts.address(n)}}}\n" for n in names))

    def launch(self, *args):
        return subprocess.run([BIN / "launch", *map(str, args)], env=self.env, capture_output=True, text=True, timeout=120,
                              stdin=subprocess.DEVNULL)

    def up(self, *args):
        return self.launch("up", self.hosts_file, "--ssh-config", self.config, *args)


def test_up_from_a_hosts_file_to_a_cluster_and_back(ssh_hosts, tmp_path):
    operator = Operator(ssh_hosts, tmp_path)

    # Nobody said that the keys are right: refused, with the fingerprint, and nothing was installed.
    refused = operator.up()
    assert refused.returncode != 0
    assert "is not known" in refused.stderr and "SHA256:" in refused.stderr
    assert not list((tmp_path / "na/opt").iterdir())

    plan = operator.up("--dry-run", "--accept-new-host-keys")
    assert "would install" in plan.stderr and "would see to it that the agent runs" in plan.stderr
    assert not list((tmp_path / "na/opt").iterdir()) and not list((tmp_path / "na/lib").iterdir()), "it only looks"

    first = operator.up()
    assert first.returncode == 1, first.stderr
    assert re.search(r"nc: .*(cannot be written|are free)", first.stderr), first.stderr
    assert re.search(r"nd: .*ssh to", first.stderr), first.stderr
    assert "2 of 4 hosts failed" in first.stderr
    assert [line.split()[:2] for line in first.stdout.splitlines()[1:]] == [["na", "idle"], ["nb", "idle"]]
    assert oct((tmp_path / "config/launch/clusters/launch/key.pem").stat().st_mode)[-3:] == "600"

    # The cluster is the current one: no variable, no flag.
    job = tmp_path / "job.yaml"
    job.write_text("name: hello\ndevice: cpu\ngpus: 0\nnodes: 2\nworkdir: /tmp\nrun: echo hello from $HOSTNAME\n")
    ran = operator.launch("submit", job, "--wait")
    assert ran.returncode == 0, ran.stderr

    # Again, with the hosts that work: nothing to do, and nothing is touched.
    operator.write(["na", "nb"], ssh_hosts)
    before = [ssh_hosts.pids(n, "launch-agent") for n in ("na", "nb")]
    again = operator.up()
    assert again.returncode == 0, again.stderr
    assert "installed" not in again.stderr and "started" not in again.stderr, again.stderr
    assert [ssh_hosts.pids(n, "launch-agent") for n in ("na", "nb")] == before

    # An agent that died comes back, as the same node.
    os.kill(before[1][0], 9)
    mended = operator.up()
    assert mended.returncode == 0 and re.findall(r"(\w+): started the agent", mended.stderr) == ["nb"], mended.stderr

    # A directory that only this machine has: the nodes run from a copy of it.
    with tempfile.TemporaryDirectory(dir="/var/lib/launch") as project:
        pathlib.Path(project, "data").write_text("only here\n")
        job.write_text(f"name: copied\ndevice: cpu\ngpus: 0\nnodes: 2\nworkdir: {project}\nrun: cat data && pwd\n")
        ran = operator.launch("submit", job, "--wait")
        assert ran.returncode == 0, ran.stderr
        logs = operator.launch("logs", ran.stdout.split()[0]).stdout
        assert logs.count("only here") == 2 and logs.count("/work/") == 2, logs
    assert "attempt.shipping" in operator.launch("events").stdout

    # Another release: controller, then agents, and the rank goes on.
    newer = tmp_path / "newer"
    newer.mkdir()
    for program in ("launch", "launch-agent", "launch-controller", "launch-shim"):
        changed = program in ("launch-agent", "launch-controller")
        (newer / program).write_bytes((BIN / program).read_bytes() + (b"\n" if changed else b""))
        (newer / program).chmod(0o755)
    job.write_text("name: long\ndevice: cpu\ngpus: 0\nnodes: 2\nworkdir: /tmp\nrun: sleep 300\n")
    running = operator.launch("submit", job, "--parsable").stdout.strip()
    ranks = wait_until("the ranks run", lambda: [ssh_hosts.pids(n, "/sleep") for n in ("na", "nb")]
                       if all(ssh_hosts.pids(n, "/sleep") for n in ("na", "nb")) else None)
    old = [ssh_hosts.pids(n, "launch-agent") for n in ("na", "nb")]
    def upgrade(*args):
        return subprocess.run([newer / "launch", "upgrade", "--ssh-config", operator.config, *args], env=operator.env,
                              capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)

    looked = upgrade("--dry-run")
    assert looked.returncode == 0 and looked.stderr.count("na: would install") == looked.stderr.count("nb: would install") == 1, looked.stderr
    upgraded = upgrade()
    assert upgraded.returncode == 0, upgraded.stderr
    assert len(re.findall(r"installed \w+ \(.*, .* of it sent\)", upgraded.stderr)) == 2, "only what changed is sent: " + upgraded.stderr
    steps = re.findall(r"^(\w+): (installed|started the \w+)", upgraded.stderr, re.M)
    assert steps == [("na", "installed"), ("na", "started the controller"), ("na", "started the agent"),
                     ("nb", "installed"), ("nb", "started the agent")], upgraded.stderr
    new = [ssh_hosts.pids(n, "launch-agent") for n in ("na", "nb")]
    assert all(new) and not set(map(tuple, old)) & set(map(tuple, new))
    assert [ssh_hosts.pids(n, "/sleep") for n in ("na", "nb")] == ranks
    assert "RUNNING" in operator.launch("status", running).stdout
    assert operator.launch("cancel", running).returncode == 0

    # A changed host key is refused whatever flag is given.
    ssh_hosts.servers["nb"].kill()
    ssh_hosts.servers["nb"].wait()
    sh(f"rm {tmp_path}/nb/host_key* && ssh-keygen -q -t ed25519 -N '' -f {tmp_path}/nb/host_key")
    for pid in ssh_hosts.pids("nb", "sshd"):
        os.kill(pid, 9)
    ssh_hosts.serve("nb")
    changed = operator.up("--accept-new-host-keys")
    assert changed.returncode == 1 and "not the known one" in changed.stderr, changed.stderr
    assert f"ssh-keygen -R {ssh_hosts.address('nb')} -f {operator.known}" in changed.stderr, changed.stderr
    sh(f"sed -i '/^{NET.replace('.', '[.]')}[.]11 /d' {operator.known}")

    # Back to nothing.
    down = operator.launch("down", "--purge", "--ssh-config", operator.config, "--accept-new-host-keys")
    assert down.returncode == 0, down.stderr
    for name in ("na", "nb"):
        assert not ssh_hosts.pids(name, "launch-agent") and not ssh_hosts.pids(name, "launch-controller")
        assert not (tmp_path / name / "opt/launch").exists()
    assert not operator.launch("context", "-o", "name").stdout
