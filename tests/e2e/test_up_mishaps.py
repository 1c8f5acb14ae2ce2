"""`launch up` and `down` when something went wrong in between: nothing is forgotten, nothing is wedged, all can be undone."""

import os
import pathlib
import shutil
import signal
import subprocess

import pytest

from conftest import BIN, wait_until
from test_namespaces import need_namespaces
from test_up import Operator, SshHosts


@pytest.fixture
def two(tmp_path):
    need_namespaces()
    made = SshHosts(tmp_path, ["na", "nb"])
    yield made
    made.close()


def test_what_an_interrupted_up_left_is_known_and_can_be_undone(two, tmp_path):
    operator = Operator(two, tmp_path)
    ssh = ("--ssh-config", operator.config, "--accept-new-host-keys")
    clusters = tmp_path / "config/launch/clusters"

    # A head that was never reached binds nobody.
    typo = operator.launch("up", "hosts.yml", *ssh)
    assert typo.returncode != 0 and "there is no file hosts.yml" in typo.stderr, typo.stderr
    down = operator.launch("up", "nowhere,nb", *ssh)
    assert down.returncode != 0 and "head nowhere" in down.stderr, down.stderr
    assert not (clusters / "launch").exists() and "no cluster is current" in operator.launch("down").stderr

    # Interrupted when the second host has its agent: both are known.
    line = subprocess.Popen([BIN / "launch", "up", operator.hosts_file, *ssh], env=operator.env, stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until("programs are there", lambda: list((tmp_path / "nb/opt").rglob("launch-agent*")) or line.poll() is not None)
    busy = operator.up()
    assert line.poll() is not None or (busy.returncode != 0 and "another `launch` of yours is at work" in busy.stderr), busy.stderr
    line.send_signal(signal.SIGINT)
    line.wait(20)
    known = (clusters / "launch/hosts.yaml").read_text()
    assert '"na"' in known and '"nb"' in known, known
    again = operator.up()
    assert again.returncode == 0, again.stderr
    assert not list((tmp_path / "nb/opt").rglob("*.part.*")), "what was cut in the middle is cleared away"

    # One machine under a second name is no second node, and is not taken into the list.
    (tmp_path / "twin.yaml").write_text(f"user: root\nhosts:\n  - {{name: na, address: {two.address('na')}}}\n"
                                        f"  - {{name: nb2, address: {two.address('nb')}}}\n")
    twin = operator.launch("up", tmp_path / "twin.yaml", *ssh)
    assert twin.returncode == 1 and "nb2: this machine is the node nb already" in twin.stderr, twin.stderr
    assert "nb2" not in (clusters / "launch/hosts.yaml").read_text()

    # Credentials of a cluster that the head does not have are not written over.
    mine = (clusters / "launch/ca.pem").read_bytes()
    shutil.move(tmp_path / "na/lib/controller", tmp_path / "aside")
    lost = operator.up()
    assert lost.returncode != 0 and "its controller is not on na" in lost.stderr, lost.stderr
    assert (clusters / "launch/ca.pem").read_bytes() == mine
    shutil.move(tmp_path / "aside", tmp_path / "na/lib/controller")

    # The controller is gone and a rank lives: --purge takes nothing from under it. When it is over, all goes.
    job = tmp_path / "job.yaml"
    job.write_text("name: long\ndevice: cpu\ngpus: 0\nnodelist: nb\nworkdir: /tmp\nrun: sleep 300\n")
    running = operator.launch("submit", job, "--parsable").stdout.strip()
    (rank,) = wait_until("the rank runs", lambda: two.pids("nb", "/sleep"))
    assert "RUNNING" in wait_until("it is told", lambda: operator.launch("status", running).stdout)
    os.kill(two.pids("na", "launch-controller")[0], signal.SIGKILL)
    refused = operator.launch("down", "--purge", *ssh)
    assert refused.returncode == 1 and "nb: ranks run on it" in refused.stderr, refused.stderr
    assert (tmp_path / "nb/opt/launch/current").exists() and two.pids("nb", "launch-agent")
    os.kill(rank, signal.SIGKILL)
    wait_until("its supervisor ends", lambda: not two.pids("nb", "launch-shim"))
    gone = operator.launch("down", "--purge", *ssh)
    assert gone.returncode == 0, gone.stderr
    for name in ("na", "nb"):
        assert not list((tmp_path / name / "opt").iterdir()) and not two.pids(name, "launch-agent")
        assert not [f for f in pathlib.Path(tmp_path / name / "lib").rglob("*") if f.is_file()]
