"""`launch up` where systemd keeps programs: a real one, as process 1 of a namespace; units of the system and of a user.

The user's own manager is started by hand and `loginctl` is a stand-in: linger is logind's, which needs D-Bus.
"""

import os
import pathlib
import re
import subprocess

import pytest

from conftest import wait_until
from test_namespaces import need_namespaces, sh
from test_up import Operator, SshHosts
from test_up_hosts import account

# None of this machine's own units may run: they would clean its /tmp and set its kernel. So systemd looks for units
# in directories of the test only, and the programs that would do so are not there.
BOOT = """
set -e
mount --bind /bin/true $(readlink -f $(command -v systemd-tmpfiles))
mount --bind /bin/true /lib/systemd/systemd-sysctl
mkdir -p {home}/etc-systemd/system {home}/etc-systemd/user {home}/log
mount -t tmpfs none /run
mkdir -p /run/sshd /run/lock /run/user/1700
chown 1700 /run/user/1700
chmod 700 /run/user/1700
mount --bind {home}/etc-systemd /etc/systemd
mount --bind {home}/log /var/log
umount -l /sys/fs/cgroup 2>/dev/null || true
mount -t cgroup2 none /sys/fs/cgroup
cd /etc/systemd
for target in sysinit basic shutdown network-online multi-user default; do
  printf '[Unit]\\nDefaultDependencies=no\\n' | tee system/$target.target >user/$target.target
done
printf '[Unit]\\nDefaultDependencies=no\\n[Service]\\nKillMode=process\\nExecStart=/usr/sbin/sshd -D -e -f {home}/sshd_config\\n' >system/sshd.service
printf '[Unit]\\nDefaultDependencies=no\\n[Service]\\nUser=1700\\nDelegate=yes\\n' >system/manager.service
echo 'Environment=XDG_RUNTIME_DIR=/run/user/1700 HOME=/home/ana SYSTEMD_UNIT_PATH=/home/ana/.config/systemd/user:/etc/systemd/user' >>system/manager.service
echo 'ExecStart=/lib/systemd/systemd --user --unit=default.target' >>system/manager.service
printf '[Unit]\\nDefaultDependencies=no\\nWants=sshd.service {more}\\n' >system/test.target
export container=launch SYSTEMD_UNIT_PATH=/etc/systemd/system
exec unshare -C /lib/systemd/systemd --system --unit=test.target --log-target=console --show-status=no
"""


class SystemdHosts(SshHosts):
    def serve(self, name, more=""):
        home = self.tmp / name
        boot = home / "boot.sh"
        boot.write_text(BOOT.format(home=home, more="manager.service" if more else ""))
        script = f"hostname {name}; mount --make-rprivate /; mount -t proc none /proc; {self.binds(name)} {more} exec sh {boot}"
        self.servers[name] = subprocess.Popen(
            ["ip", "netns", "exec", self.ns(name), "unshare", "-u", "-m", "-p", "-f", "--kill-child", "sh", "-c", script],
            stdin=subprocess.DEVNULL, stdout=open(home / "systemd.log", "w"), stderr=subprocess.STDOUT)
        self.await_sshd(name)
        units = self.inside(name, "systemctl list-unit-files --no-legend")
        assert "sshd.service" in units and "systemd-" not in units, units

    def inside(self, name, command):
        """What a command prints on that host, run by its systemd's side."""
        init = next(pid for pid in sh(f"ip netns pids {self.ns(name)}").split() if os.readlink(f"/proc/{pid}/exe").endswith("/systemd")
                    and "--system" in pathlib.Path(f"/proc/{pid}/cmdline").read_text())
        done = subprocess.run(["nsenter", "-t", init, "-m", "-p", "-n", "-u", "-C", "sh", "-c", command], capture_output=True, text=True)
        return (done.stdout + done.stderr).strip()


@pytest.fixture
def booted(tmp_path):
    need_namespaces()
    if not os.access("/lib/systemd/systemd", os.X_OK):
        pytest.skip("systemd is not installed")
    if not os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        pytest.skip("systemd wants control groups of version 2 in /sys/fs/cgroup")
    sh(f"ssh-keygen -q -t ed25519 -N '' -f {tmp_path}/id_ana")
    linger = tmp_path / "loginctl"
    linger.write_text('#!/bin/sh\n[ "$1" = show-user ] && echo yes\nexit 0\n')
    linger.chmod(0o755)
    user = account(tmp_path / "nb", "ana", "/bin/bash", tmp_path / "id_ana", sudo=False) + f"mount --bind {linger} /usr/bin/loginctl;"
    made = SystemdHosts(tmp_path, ["na", "nb"], {"nb": user}, {"nb": "/home/keys"})
    yield made
    made.close()


def test_up_with_systemd_units_of_the_system_and_of_a_user(booted, tmp_path):
    operator = Operator(booted, tmp_path)
    operator.hosts_file.write_text(
        f"hosts:\n  - {{name: na, address: {booted.address('na')}, user: root, key: {tmp_path}/id}}\n"
        f"  - {{name: nb, address: {booted.address('nb')}, user: ana, key: {tmp_path}/id_ana}}\n")
    wait_until("the user's manager runs", lambda: "XDG" in booted.inside(
        "nb", "setpriv --reuid 1700 --clear-groups env XDG_RUNTIME_DIR=/run/user/1700 systemctl --user show-environment"))
    up = operator.up("--accept-new-host-keys")
    assert up.returncode == 0, up.stderr
    assert "na: started the agent (systemd)" in up.stderr and "nb: started the agent (systemd --user)" in up.stderr, up.stderr
    system = {name: booted.inside("na", f"systemctl is-active {name}; systemctl is-enabled {name}")
              for name in ("launch-controller", "launch-agent")}
    assert system == dict.fromkeys(system, "active\nenabled"), system
    user = "setpriv --reuid 1700 --clear-groups env XDG_RUNTIME_DIR=/run/user/1700 HOME=/home/ana systemctl --user"
    assert booted.inside("nb", f"{user} is-active launch-agent; {user} is-enabled launch-agent") == "active\nenabled"

    # Nothing in the units is unknown to systemd, nor ignored.
    for name, mode, units in (("na", "", "/etc/systemd/system"), ("nb", "--user", "/home/ana/.config/systemd/user")):
        for unit in booted.inside(name, f"ls {units} | grep ^launch-").split():
            verdict = booted.inside(name, f"systemd-analyze {mode} verify --man=no {units}/{unit} 2>&1 | grep -F {unit}")
            assert not verdict, verdict

    # Who dies comes back, and ranks outlive it.
    job = tmp_path / "job.yaml"
    job.write_text("name: long\ndevice: cpu\ngpus: 0\nnodelist: na\nworkdir: /tmp\nrun: sleep 300\n")
    running = operator.launch("submit", job, "--parsable").stdout.strip()
    ranks = wait_until("it runs", lambda: booted.pids("na", "/sleep"))
    before = {n: booted.pids(n, "launch-agent") for n in ("na", "nb")}
    for pids in before.values():
        os.kill(pids[0], 9)
    wait_until("systemd starts the agents again", lambda: all(
        booted.pids(n, "launch-agent") and booted.pids(n, "launch-agent") != before[n] for n in before))
    os.kill(booted.pids("na", "launch-controller")[0], 9)
    wait_until("both are heard again", lambda: [line.split()[1] for line in operator.launch("nodes").stdout.splitlines()[1:]
                                                if line.split()[1] in ("alloc", "mix", "idle")][1:])
    wait_until("the job is known to run", lambda: "RUNNING" in operator.launch("status", running).stdout)
    assert booted.pids("na", "/sleep") == ranks

    again = operator.up()
    assert again.returncode == 0 and not re.search(r"(installed|started|joined)", again.stderr), again.stderr
    assert operator.launch("cancel", running).returncode == 0

    down = operator.launch("down", "--purge", "--ssh-config", operator.config)
    assert down.returncode == 0, down.stderr
    for name in ("na", "nb"):
        assert not booted.pids(name, "launch-agent") and not booted.pids(name, "launch-controller")
    assert "launch-" not in booted.inside("na", "ls -R /etc/systemd/system") and "launch-" not in booted.inside(
        "nb", "ls -R /home/ana/.config/systemd")
