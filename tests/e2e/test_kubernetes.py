"""configs/kubernetes: the manifest against the published schemas, its scripts against the programs."""

import os
import pathlib
import shutil
import signal
import subprocess

import pytest
import yaml

from conftest import BIN, ROOT, wait_until

MANIFEST = ROOT / "configs/kubernetes/launch.yaml"
# The oldest that its makers still mend on most platforms, and the newest that the package knows.
VERSIONS = ("1.30", "1.37")


def documents():
    return list(yaml.safe_load_all(MANIFEST.read_text()))


def named(kind):
    return next(one for one in documents() if one["kind"] == kind)


def container(kind, group, name):
    pod = named(kind)["spec"]["template"]["spec"]
    return next(one for one in pod[group] if one["name"] == name)


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
    # Training scripts run in the agent's container: no credentials of an operator there.
    mounts = container("DaemonSet", "containers", "agent")["volumeMounts"]
    assert "operator" not in {mount["name"] for mount in mounts}


@pytest.mark.skipif(os.geteuid() != 0, reason="directories of the manifest are mounted, which takes root")
def test_its_scripts_bring_up_a_node_that_runs_a_job(tmp_path):
    """Each container's command runs as written, with its directories mounted where it expects them."""
    programs = tmp_path / "programs/bin"
    programs.mkdir(parents=True)
    for name in ("launch", "launch-agent", "launch-shim", "launch-controller"):
        shutil.copy2(BIN / name, programs / name)
    running = []

    def start(one, mounts, **env):
        """The command of a container in a mount namespace that has `mounts` (path: directory)."""
        lines = ["set -e"]
        for path, directory in mounts.items():
            directory.mkdir(parents=True, exist_ok=True)
            lines.append(f"mkdir -p {path}; mount --bind {directory} {path}")
        lines.append('exec "$@"')
        return subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", "\n".join(lines), "sh", *one["command"]],
            env={"PATH": "/opt/launch/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", **env},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def finish(process):
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, output

    # Names of directories of this machine may not be made: everything is mounted below what exists.
    created = [path for path in ("/opt/launch", "/var/lib/launch", "/run/launch", "/operator")
               if not pathlib.Path(path).exists()]
    head, node, locks = tmp_path / "head", tmp_path / "node", tmp_path / "locks"
    tools = {"/opt/launch": tmp_path / "programs"}
    try:
        init = container("StatefulSet", "initContainers", "init")
        finish(start(init, {**tools, "/var/lib/launch": head}))
        finish(start(init, {**tools, "/var/lib/launch": head}))  # a pod that starts again
        controller = container("StatefulSet", "containers", "controller")
        controller["command"] = [word.replace("0.0.0.0:7470", "127.0.0.1:0") for word in controller["command"]]
        running.append(start(controller, {**tools, "/var/lib/launch": head}))
        address_file = head / "controller/address"
        wait_until("the controller listens", address_file.exists)
        address = address_file.read_text().strip()
        operator = head / "controller/operator"

        join = container("DaemonSet", "initContainers", "join")
        names = {entry["name"] for entry in join["env"]}
        assert names == {"NODE_NAME", "CONTROLLER"}
        mounts = {**tools, "/var/lib/launch": node, "/operator": operator, "/run": tmp_path / "run"}
        finish(start(join, mounts, NODE_NAME="gpu-node-1", CONTROLLER=address))
        first = (node / "agent/identity/cert.pem").read_bytes()
        finish(start(join, mounts, NODE_NAME="gpu-node-1", CONTROLLER=address))
        assert (node / "agent/identity/cert.pem").read_bytes() == first  # joined once
        os.utime(node / "agent/identity/cert.pem", (0, 0))  # away for longer than certificates live
        finish(start(join, mounts, NODE_NAME="gpu-node-1", CONTROLLER=address))
        assert (node / "agent/identity/cert.pem").read_bytes() != first
        shutil.rmtree(node / "agent")  # another disk, the same node
        finish(start(join, mounts, NODE_NAME="gpu-node-1", CONTROLLER=address))

        agent = container("DaemonSet", "containers", "agent")
        running.append(start(agent, {**tools, "/var/lib/launch": node, "/run/launch": locks}))

        def launch(*args):
            return subprocess.run(
                [BIN / "launch", "--controller", address, "--credentials", operator, *args],
                capture_output=True, text=True, timeout=60, cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)})

        wait_until("the node is there", lambda: "gpu-node-1" in launch("nodes", "-o", "name").stdout)
        job = tmp_path / "job.yaml"
        job.write_text("name: hello\ndevice: cpu\ngpus: 0\nworkdir: /tmp\nrun: echo hello from rank $RANK\n")
        done = launch("submit", str(job), "--wait")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "hello from rank 0" in launch("logs", "1").stdout
    finally:
        for process in reversed(running):
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        for path in created:
            shutil.rmtree(path, ignore_errors=True)
