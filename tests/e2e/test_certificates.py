"""Certificates that live for seconds: agents, people and the controller renew their own, and ranks go on."""

import json
import os
import shutil
import socket
import ssl
import subprocess
import threading
import time

import pytest

from conftest import BIN, assert_none_left, wait_until
from test_mixed_versions import Mixed

LIFE = 8


@pytest.fixture
def short(tmp_path):
    settings = tmp_path / "controller.yaml"
    settings.write_text(f"certificate_life: {LIFE}s\ncontroller_certificate_life: {LIFE}s\n")
    cluster = Mixed(tmp_path, BIN, BIN, "--config", settings)
    yield cluster
    cluster.close()
    assert_none_left(tmp_path)


def test_a_job_outlives_the_certificates_of_everybody(short, tmp_path):
    short.agent("na", BIN)
    identity = tmp_path / "agent-na/identity"
    served = short.state / "tls/current/cert.pem"
    first = [(identity / "key.pem").read_bytes(), served.read_bytes()]
    # A person who logged in, on another machine as it were, and a copy of what they got.
    person = tmp_path / "person"
    subprocess.run([BIN / "launch", "login", "--into", person, "--token", "-"], check=True, timeout=30, capture_output=True, text=True,
                   input=short.launch("token", "create", "--user", "ana"), env=short.cluster.env)
    old = tmp_path / "old"
    shutil.copytree(person, old)

    def ask(credentials):
        return subprocess.run([BIN / "launch", "queue", "--credentials", credentials], env=short.cluster.env, capture_output=True,
                              text=True, timeout=30, stdin=subprocess.DEVNULL)

    job = short.launch("submit", short.write("sleep 300", nodes=1), "--parsable").strip()
    wait_until("it runs", lambda: "RUNNING" in short.launch("status", job))
    began = time.monotonic()

    def lived():  # everybody is asked all the time, and nobody is ever refused
        said = ask(person)
        assert said.returncode == 0, said.stderr
        return time.monotonic() - began > 2 * LIFE

    wait_until("two lives are over", lived, timeout=60, period=0.3)
    renewed = [line for line in short.launch("events").splitlines() if "node.renewed" in line]
    assert len(renewed) >= 2, renewed
    assert (identity / "key.pem").read_bytes() != first[0] and served.read_bytes() != first[1]
    assert not (identity / "cert.next.pem").exists() and oct((identity / "key.pem").stat().st_mode)[-3:] == "600"
    shown = json.loads(short.launch("status", job, "-o", "json"))
    assert shown["state"] == "RUNNING" and len(shown["attempts"]) == 1, shown
    short.launch("cancel", job)

    # What nobody renewed is refused, with the way out.
    over = ask(old)
    assert over.returncode == 6 and "the certificate ended on" in over.stderr and "launch login" in over.stderr, over.stderr

    # An agent that was away for too long says why nobody lets it in, and joins again.
    short.stop("na")
    end = time.monotonic() + LIFE + 1
    wait_until("its certificate is over", lambda: time.monotonic() > end, timeout=30)
    (tmp_path / "programs.log").write_text("")
    short.start("na", [BIN / "launch-agent", "run", "--state", tmp_path / "agent-na", "--lock-dir", tmp_path / "locks-na"])
    said = wait_until("it says so", lambda: next((line for line in (tmp_path / "programs.log").read_text().splitlines()
                                                  if "link.certificate_not_valid" in line), None))
    assert "ended on" in said and "--rejoin" in said, said
    short.stop("na")
    token = short.launch("token", "create", "--node", "na")
    subprocess.run([BIN / "launch-agent", "join", "--rejoin", "--state", tmp_path / "agent-na"], input=token, text=True, check=True,
                   timeout=30, capture_output=True)
    short.agent("na", BIN, join=False)


class Impostor:
    """Listens as a controller would, with a certificate that is not a controller's of this cluster; `heard` is what
    a caller told it behind the handshake."""

    def __init__(self, certificate, key):
        self.heard = b""
        self.calls = 0
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate, key)
        self.context.set_alpn_protocols(["h2"])
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                raw, _ = self.listener.accept()
            except OSError:  # closed
                return
            self.calls += 1
            try:
                raw.settimeout(5)
                with self.context.wrap_socket(raw, server_side=True) as caller:
                    self.heard += caller.recv(4096)
            except OSError:  # the caller hung up, as it should
                pass


def test_a_server_that_is_no_controller_of_the_cluster_is_told_nothing(cluster, make_cluster):
    cluster.up()
    other = make_cluster("other")
    other.up()
    own = cluster.state / "controller/operator"
    (identity,) = cluster.state.glob("**/identity")
    job = cluster.write("job.yaml", "name: told\ngpus: 0\nenv: {WORD: not-for-impostors}\nrun: 'true'\n")
    cases = {
        "a node of the cluster": (identity / "cert.pem", identity / "key.pem"),
        "a user of the cluster": (own / "cert.pem", own / "key.pem"),
        "the controller of another cluster": (other.state / "controller/controller.pem", other.state / "controller/controller.key"),
    }
    for who, (certificate, key) in cases.items():
        impostor = Impostor(certificate, key)
        for verb in (["queue"], ["submit", job]):
            done = cluster.launch(*verb, "--controller", impostor.address, "--credentials", own, code=None)
            assert done.returncode == 5, (who, done.returncode, done.stderr)
            assert "certificates do not match" in done.stderr and "--controller" in done.stderr, (who, done.stderr)
        impostor.listener.close()
        assert impostor.calls and not impostor.heard, (who, impostor.heard)
    assert cluster.json("queue", "-a")["jobs"] == []
    # With the controller's own it would have been told.
    real = Impostor(cluster.state / "controller/controller.pem", cluster.state / "controller/controller.key")
    cluster.launch("queue", "--controller", real.address, "--credentials", own, code=5)
    real.listener.close()
    assert b"HTTP/2" in real.heard, real.heard
