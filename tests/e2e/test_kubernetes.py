"""configs/kubernetes: the manifest against the published schemas, its scripts against the programs."""

import base64
import http.server
import json
import os
import pathlib
import re
import shutil
import ssl
import subprocess
import tarfile
import threading

import pytest

from conftest import ROOT, wait_until
from pods import GpuNodes, Pods, container, documents, named, pod_of

# The oldest that its makers still mend on most platforms, and the newest that the package knows.
VERSIONS = ("1.30", "1.37")
MOUNTS = pytest.mark.skipif(os.geteuid() != 0, reason="directories of the manifest are mounted, which takes root")
OPENSSL = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


@pytest.fixture
def pods(tmp_path):
    made = Pods(tmp_path)
    yield made
    made.close()


@pytest.fixture
def nodes(tmp_path):
    made = GpuNodes(tmp_path)
    yield made
    made.close()


def openssl(*args):
    subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, timeout=60)


def pair(key, certificate, *options):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=x",
            "-keyout", key, "-out", certificate, *options)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_manifest_keeps_the_published_schemas(version):
    validator = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for one in documents():
        validator.validate(one, version, strict=True)
    broken = named("DaemonSet")
    broken["spec"]["template"]["spec"]["containers"][0]["imagee"] = "x"
    with pytest.raises(validator.ValidationError):
        validator.validate(broken, version, strict=True)


def test_volumes_and_selectors_fit_together():
    for kind in ("StatefulSet", "DaemonSet"):
        spec = named(kind)["spec"]
        pod = spec["template"]["spec"]
        assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
        volumes = {one["name"] for one in pod.get("volumes", [])}
        volumes |= {one["metadata"]["name"] for one in spec.get("volumeClaimTemplates", [])}
        for one in pod["initContainers"] + pod["containers"]:
            assert {mount["name"] for mount in one["volumeMounts"]} <= volumes
    assert named("Service")["spec"]["selector"] == named("StatefulSet")["spec"]["selector"]["matchLabels"]
    assert pod_of("DaemonSet")["priorityClassName"] == named("PriorityClass")["metadata"]["name"]
    # Training scripts run in the agent's container: no credentials of an operator there.
    mounts = container("DaemonSet", "containers", "agent")["volumeMounts"]
    assert "operator" not in {mount["name"] for mount in mounts}


def test_only_one_container_may_write_one_secret():
    secret = named("Secret")["metadata"]["name"]
    assert named("Role")["rules"] == [
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret], "verbs": ["patch"]}]
    binding = named("RoleBinding")
    assert binding["roleRef"]["name"] == named("Role")["metadata"]["name"]
    assert [one["name"] for one in binding["subjects"]] == [pod_of("StatefulSet")["serviceAccountName"]]
    assert "data" not in named("Secret"), "another apply would put the old one back"
    volumes = {one["name"]: one for one in pod_of("DaemonSet")["volumes"]}
    assert volumes["operator"]["secret"]["secretName"] == secret
    holders = []
    for kind in ("StatefulSet", "DaemonSet"):
        pod = pod_of(kind)
        assert pod["automountServiceAccountToken"] is False
        assert pod["serviceAccountName"] in {
            one["metadata"]["name"] for one in documents() if one["kind"] == "ServiceAccount"}
        holders += [one["name"] for one in pod["initContainers"] + pod["containers"]
                    if "account" in {mount["name"] for mount in one["volumeMounts"]}]
    assert holders == ["credentials"]


def test_the_namespace_admits_what_its_pods_need():
    pod = pod_of("DaemonSet")
    beyond_baseline = [key for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key)]
    beyond_baseline += [one["name"] for one in pod["volumes"] if "hostPath" in one]
    assert beyond_baseline
    assert named("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"


def test_memory_is_asked_for_and_the_grace_period_is_used():
    for one in pod_of("DaemonSet")["containers"] + pod_of("StatefulSet")["containers"]:
        assert {"cpu", "memory"} <= one["resources"]["requests"].keys(), one["name"]
    hook = container("DaemonSet", "containers", "agent")["lifecycle"]["preStop"]["exec"]["command"][-1]
    longest = int(re.search(r"seq (\d+)", hook)[1])
    assert longest + 30 <= pod_of("DaemonSet")["terminationGracePeriodSeconds"]


def unpack(tmp_path, **env):
    """The RUN line of the Dockerfile, with /tarballs and /opt/launch below `tmp_path`."""
    text = (ROOT / "configs/kubernetes/Dockerfile").read_text().replace("\\\n", "")
    script = re.search(r"^RUN (.*)$", text, re.MULTILINE)[1]
    script = script.replace("/tarballs", f"{tmp_path}/tarballs").replace("/opt/launch", f"{tmp_path}/opt")
    return subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60,
                          env={"PATH": os.environ["PATH"], **env})


def test_the_image_takes_the_programs_of_its_architecture(tmp_path):
    (tmp_path / "tarballs").mkdir()

    def package(version, arch):
        program = tmp_path / "program"
        program.write_text(f"{version} {arch}")
        name = f"launch-{version}-linux-{arch}"
        with tarfile.open(tmp_path / f"tarballs/{name}.tar.gz", "w:gz") as made:
            made.add(program, f"{name}/bin/launch")

    package("0.1.0", "x86_64")
    missing = unpack(tmp_path, TARGETARCH="arm64")
    assert missing.returncode == 1 and "run scripts/package aarch64" in missing.stderr
    package("0.1.0", "aarch64")
    for platform, arch in (("amd64", "x86_64"), ("arm64", "aarch64")):
        done = unpack(tmp_path, TARGETARCH=platform)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "opt/bin/launch").read_text() == f"0.1.0 {arch}"
    package("0.1.1", "aarch64")
    several = unpack(tmp_path, TARGETARCH="arm64")
    assert several.returncode == 1 and "choose with --build-arg VERSION=" in several.stderr
    assert unpack(tmp_path, TARGETARCH="arm64", VERSION="0.1.1").returncode == 0
    assert (tmp_path / "opt/bin/launch").read_text() == "0.1.1 aarch64"
    other = unpack(tmp_path, TARGETARCH="riscv64")
    assert other.returncode == 1 and "no programs for 'riscv64'" in other.stderr


class FakeApi(http.server.BaseHTTPRequestHandler):
    """Remembers what is patched; answers with the codes of `refusals` first."""

    patches, refusals = [], []

    def do_PATCH(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        code = FakeApi.refusals.pop() if FakeApi.refusals else 200
        self.send_response(code)
        self.end_headers()
        if code == 200:
            FakeApi.patches.append((self.path, dict(self.headers), body))

    def log_message(self, *_):
        pass


@MOUNTS
@OPENSSL
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_secret_follows_the_certificate_that_the_controller_renews(pods, tmp_path):
    state, account = pods.volume("state"), pods.volume("account")
    operator = state / "controller/operator"
    operator.mkdir(parents=True)
    pair(operator / "key.pem", operator / "cert.pem")
    (operator / "ca.pem").write_text("the authority\n")
    pair(tmp_path / "api.key", account / "ca.crt", "-addext", "subjectAltName=DNS:localhost")
    (account / "token").write_text("of-the-pod")
    FakeApi.patches, FakeApi.refusals = [], [403]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), FakeApi)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(account / "ca.crt", tmp_path / "api.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        process = pods.start(
            container("StatefulSet", "containers", "credentials")["command"],
            {"/var/lib/launch": state, "/var/run/secrets/kubernetes.io/serviceaccount": account},
            API=f"https://localhost:{server.server_port}", NAMESPACE="launch", SECONDS_BETWEEN="0.1")
        wait_until("the secret is written", lambda: FakeApi.patches)
        path, headers, body = FakeApi.patches[0]
        assert path == "/api/v1/namespaces/launch/secrets/launch-operator"
        assert headers["Authorization"] == "Bearer of-the-pod"
        assert headers["Content-Type"] == "application/merge-patch+json"
        assert {name: base64.b64decode(text) for name, text in body["data"].items()} == {
            name: (operator / name).read_bytes() for name in ("ca.pem", "cert.pem", "key.pem")}

        # Renewed: the key first, and nothing is sent until the certificate fits it again.
        pair(tmp_path / "new.key", tmp_path / "new.pem")
        shutil.copy(tmp_path / "new.key", operator / "key.pem")
        shutil.copy(tmp_path / "new.pem", operator / "cert.pem")

        def sent():
            return base64.b64decode(FakeApi.patches[-1][2]["data"]["cert.pem"])

        wait_until("the new one is there", lambda: sent() == (tmp_path / "new.pem").read_bytes())
        wait_until("it says so", lambda: process.output.read_text().count("written, good until") == 2)
        said = pods.terminate(process)
        assert "error: 403" in said and "could not be written" in said
        for _, _, body in FakeApi.patches:
            for name in ("cert.pem", "key.pem"):
                (tmp_path / name).write_bytes(base64.b64decode(body["data"][name]))
            context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")  # raises for another's key
    finally:
        server.shutdown()
        server.server_close()


@MOUNTS
@OPENSSL
def test_its_scripts_bring_up_a_node_that_runs_a_job(nodes, tmp_path):
    """Each container's command runs as written, with its directories mounted where it expects them."""
    nodes.start_controller()
    nodes.run(container("StatefulSet", "initContainers", "init")["command"], nodes.head)  # a pod that starts again
    join = container("DaemonSet", "initContainers", "join")
    assert {entry["name"] for entry in join["env"]} == {"NODE_NAME", "CONTROLLER"}
    nodes.join()
    own = nodes.state / "agent/identity/cert.pem"
    first = own.read_bytes()
    nodes.join()
    assert own.read_bytes() == first  # joined once

    # A machine that was away for longer than its certificate was good.
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=x",
            "-keyout", tmp_path / "k", "-out", tmp_path / "csr")
    openssl("x509", "-req", "-in", tmp_path / "csr", "-signkey", tmp_path / "k", "-days", "-1",
            "-out", tmp_path / "ended.pem")
    shutil.copy(tmp_path / "ended.pem", own)
    nodes.join()
    assert own.read_bytes() not in (first, (tmp_path / "ended.pem").read_bytes())

    shutil.rmtree(nodes.state / "agent")  # another disk, the same node
    # The secret is empty until the controller's pod has written it, or has ended: the join waits, and says so.
    secret = nodes.volume("secret")
    shutil.copy(tmp_path / "ended.pem", secret / "cert.pem")
    waits = nodes.start(join["command"], {**nodes.node, "/operator": secret}, **nodes.names())
    wait_until("it says that it waits",
               lambda: "waiting for a certificate in the secret launch-operator" in waits.output.read_text())
    for name in ("ca.pem", "key.pem", "cert.pem"):
        shutil.copy(nodes.operator / name, secret / name)
    nodes.finish(waits)

    nodes.start_agent()
    wait_until("the node is there", lambda: "gpu-node-1" in nodes.launch("nodes", "-o", "name"))
    job = tmp_path / "job.yaml"
    job.write_text("name: hello\ndevice: cpu\ngpus: 0\nworkdir: /tmp\nrun: echo hello from rank $RANK\n")
    nodes.launch("submit", str(job), "--wait")
    assert "hello from rank 0" in nodes.launch("logs", "1")


def node_of(nodes):
    return json.loads(nodes.launch("nodes", "gpu-node-1", "-o", "json"))["nodes"][0]


@MOUNTS
@OPENSSL
def test_a_deleted_pod_lets_its_ranks_write_a_checkpoint_first(nodes, tmp_path):
    controller = nodes.start_controller()
    nodes.join()
    agent, leave = nodes.start_agent(), nodes.start_leave()
    saved, starts = tmp_path / "saved", tmp_path / "starts"
    job = tmp_path / "job.yaml"
    job.write_text(f"name: train\ndevice: cpu\ngpus: 0\nworkdir: /tmp\n"
                   f"run: trap 'echo saved > {saved}; exit' TERM; echo . >> {starts}; sleep 600 & wait\n")
    wait_until("the node is there", lambda: "gpu-node-1" in nodes.launch("nodes", "-o", "name"))
    nodes.launch("submit", str(job))
    wait_until("the job trains", lambda: starts.exists() and starts.read_text() == ".\n", timeout=60)

    # The kubelet runs the hook of one container and gives TERM to the other at the same time.
    hook = nodes.start_hook()
    assert "takes no new jobs" in nodes.terminate(leave)
    nodes.finish(hook)
    assert saved.read_text() == "saved\n"
    assert node_of(nodes)["reason"] == "drained: its pod ends"
    nodes.terminate(agent)

    saved.unlink()
    agent, leave = nodes.start_agent(), nodes.start_leave()
    wait_until("the job trains in the next pod", lambda: starts.read_text() == ".\n.\n", timeout=60)
    assert node_of(nodes)["schedulable"]

    # Everything is deleted at once: nobody is left to ask the controller for it.
    nodes.kill(leave)
    nodes.kill(controller)
    nodes.terminate(agent)
    assert saved.read_text() == "saved\n"


@MOUNTS
def test_leaving_neither_ends_the_drain_of_an_operator_nor_waits_for_a_controller_that_is_gone(pods, tmp_path):
    calls, fake = tmp_path / "calls", pods.programs / "launch"

    def leave(script):
        fake.write_text(f'#!/bin/sh\necho "$*" >>{calls}\n{script}\n')
        fake.chmod(0o755)
        state, shared = pods.volume("state"), pods.volume("leave")
        (shared / "done").touch()
        calls.write_text("")
        process = pods.start(container("DaemonSet", "containers", "leave")["command"],
                             {"/var/lib/launch": state, "/run/leave": shared}, NODE_NAME="n1", CONTROLLER="c:1")
        wait_until("it is ready for its end", lambda: not (shared / "done").exists())
        pods.terminate(process)
        assert (shared / "done").exists()
        said = [line.split("--credentials /operator ")[1] for line in calls.read_text().splitlines()]
        return said, (state / "drained-with-its-pod").exists()

    (pods.programs / "sleep").write_text('#!/bin/sh\n[ "$1" -lt 30 ] || exec /bin/sleep "$1"\n')
    (pods.programs / "sleep").chmod(0o755)
    drained = '[ "$5" != nodes ] || printf \'  {\\n    "reason": "drained: broken disk",\\n  }\\n\''
    said, ours = leave(drained)
    assert said[1:] == ["drain n1 --reason broken disk", "drain n1 --reason broken disk --requeue --wait"]
    assert not ours
    said, ours = leave("exit 1")
    assert said[1:] == ["drain n1 --reason its pod ends"] * 5
    assert not ours
    said, ours = leave("")
    assert said[1:] == ["drain n1 --reason its pod ends", "drain n1 --reason its pod ends --requeue --wait"]
    assert ours
