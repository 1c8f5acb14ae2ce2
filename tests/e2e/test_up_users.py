"""`launch up` as root, for several people, with settings from the hosts file."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

from conftest import BIN, wait_until
from test_namespaces import need_namespaces
from test_up import Operator, SshHosts

BOB = 1_400_000_000 + os.getpid()  # of no other run


@pytest.fixture
def shared(tmp_path):
    need_namespaces()
    # The hosts' account database has bob; this machine's own is not touched.
    passwd = tmp_path / "passwd"
    open_place = pathlib.Path(tempfile.mkdtemp(prefix="launch-users-"))  # which accounts reach, as a home
    open_place.chmod(0o755)
    (open_place / "bob").mkdir(mode=0o700)
    os.chown(open_place / "bob", BOB, BOB)
    passwd.write_text(pathlib.Path("/etc/passwd").read_text() + f"bob:x:{BOB}:{BOB}::{open_place}/bob:/bin/bash\n")
    mounts = f"mount --bind {passwd} /etc/passwd;"
    made = SshHosts(tmp_path, ["na", "nb"], {name: mounts for name in ("na", "nb")})
    yield made
    made.close()
    shutil.rmtree(open_place)


def write(operator, hosts, settings=""):
    operator.hosts_file.write_text(f"user: root\n{settings}hosts:\n" + "".join(
        f"  - {{name: {n}, address: {hosts.address(n)}}}\n" for n in hosts.names))


def test_bob_shares_a_cluster_that_root_brought_up(shared, tmp_path):
    operator = Operator(shared, tmp_path)

    # A mistake in a setting is named with its line, and no host was asked for anything.
    write(operator, shared, "agent:\n  lables: {rack: b2}\n")
    wrong = operator.up("--accept-new-host-keys")
    assert wrong.returncode == 2 and re.search(r"hosts.yaml:3.*lables", wrong.stderr) and "labels" in wrong.stderr, wrong.stderr
    assert "Accepted" not in (tmp_path / "na/sshd.log").read_text()

    write(operator, shared, "agent:\n  labels: {rack: b2}\n")
    done = operator.up("--accept-new-host-keys")
    assert done.returncode == 0, done.stderr
    assert "new settings in /var/lib/launch/agent.yaml: labels: {rack: b2}, root_jobs: true, run_as: multi_user" in done.stderr

    # Bob, on a machine of his own as it were.
    token = operator.launch("token", "create", "--user", "bob")
    assert token.returncode == 0, token.stderr
    bobs = {**operator.env, "XDG_CONFIG_HOME": str(tmp_path / "bobs")}

    def bob(*args, **kwargs):
        return subprocess.run([BIN / "launch", *map(str, args)], env=bobs, cwd="/tmp", text=True, capture_output=True, timeout=60,
                              **({"stdin": subprocess.DEVNULL} | kwargs))

    assert bob("login", "--token", "-", input=token.stdout, stdin=None).returncode == 0
    job = tmp_path / "bob.yaml"
    job.write_text("name: bobs\ndevice: cpu\ngpus: 0\nnodes: 2\nconstraints: label.rack == \"b2\"\nworkdir: /tmp\n"
                   "run: |\n  id -un; echo $HOME; cat /var/lib/launch/agent/identity/key.pem\n  until [ -e ~/go ]; do sleep 0.1; done\n")
    sent = bob("submit", job, "--parsable")
    assert sent.returncode == 0, sent.stderr
    number = sent.stdout.strip()
    wait_until("both ranks printed", lambda: bob("logs", number).stdout.count("/bob") == 2)
    said = bob("logs", number).stdout
    assert len(re.findall(r"\bbob$", said, re.M)) >= 2 and said.count("ermission denied") == 2, said
    # Root's own jobs are root's, beside bob's.
    job.write_text("name: roots\ndevice: cpu\ngpus: 0\nworkdir: /tmp\nrun: id -u\n")
    roots = operator.launch("submit", job, "--wait")
    assert roots.returncode == 0, roots.stderr
    assert re.search(r"\b0$", operator.launch("logs", roots.stdout.split()[0]).stdout.strip(), re.M)

    # Other settings start the agents anew, and only them; bob's ranks go on.
    write(operator, shared, "agent:\n  labels: {rack: b2, row: '7'}\ncontroller: {certificate_life: 9d}\n")
    before = {n: (shared.pids(n, "launch-agent"), shared.pids(n, "launch-shim")) for n in ("na", "nb")}
    plan = operator.up("--dry-run")
    assert plan.stderr.count("would write /var/lib/launch/agent.yaml: labels: {rack: b2, row: \"7\"}") == 2, plan.stderr
    assert "would write /var/lib/launch/controller.yaml: certificate_life: 9d" in plan.stderr, plan.stderr
    assert {n: (shared.pids(n, "launch-agent"), shared.pids(n, "launch-shim")) for n in before} == before
    changed = operator.up()
    assert changed.returncode == 0 and changed.stderr.count("started the agent") == 2, changed.stderr
    assert "started the controller" in changed.stderr, changed.stderr
    for name, (agents, shims) in before.items():
        assert shared.pids(name, "launch-agent") != agents and shared.pids(name, "launch-shim") == shims
    text = (tmp_path / "na/lib/agent.yaml").read_text()
    assert text.startswith("# Written by `launch up`") and "multi_user" in text
    again = operator.up()
    assert again.returncode == 0 and "started" not in again.stderr and "settings" not in again.stderr, again.stderr
    # They stay where a list of names says nothing of them, and with an upgrade.
    for verb in (("upgrade",), ("up", "na,nb", "-F", operator.config)):
        kept = operator.launch(*verb)
        assert kept.returncode == 0 and "settings" not in kept.stderr, kept.stderr
    nodes = operator.launch("nodes", "-o", "json").stdout
    assert nodes.count('"row"') >= 2, nodes

    home = next(line.split(":")[5] for line in (tmp_path / "passwd").read_text().splitlines() if line.startswith("bob:"))
    pathlib.Path(home, "go").write_text("")
    wait_until("bob's job ended", lambda: "SUCCEEDED" in bob("status", number).stdout)
    assert operator.launch("down", "--purge").returncode == 0
    assert not list((tmp_path / "na/lib").iterdir()) and not list((tmp_path / "na/opt").iterdir())
