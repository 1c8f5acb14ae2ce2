"""Containers of configs/kubernetes/launch.yaml without Kubernetes: each command as it is written, in a
mount namespace where its volumes lie."""

import os
import pathlib
import shutil
import signal
import subprocess

import yaml

from conftest import BIN, ROOT, wait_until

MANIFEST = ROOT / "configs/kubernetes/launch.yaml"
PROGRAMS = ("launch", "launch-agent", "launch-shim", "launch-controller")


def documents():
    return list(yaml.safe_load_all(MANIFEST.read_text()))


def named(kind, name=None):
    return next(one for one in documents() if one["kind"] == kind and name in (None, one["metadata"]["name"]))


def pod_of(kind):
    return named(kind)["spec"]["template"]["spec"]


def container(kind, group, name):
    return next(one for one in pod_of(kind)[group] if one["name"] == name)


class Pods:
    """What `tmp` holds stands for the volumes; close() ends what was started. Empty directories that had to be
    made on this machine to mount on stay: a test beside this one may have mounted there too."""

    def __init__(self, tmp):
        self.tmp = tmp
        self.running = []
        self.started = 0
        self.programs = tmp / "programs/bin"
        self.programs.mkdir(parents=True)

    def install(self):
        for name in PROGRAMS:
            shutil.copy2(BIN / name, self.programs / name)

    def volume(self, name):
        directory = self.tmp / name
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def start(self, command, mounts=None, **env):
        lines = ["set -e"]
        for path, directory in {"/opt/launch": self.tmp / "programs", **(mounts or {})}.items():
            pathlib.Path(path).mkdir(parents=True, exist_ok=True)
            directory.mkdir(parents=True, exist_ok=True)
            lines.append(f"mount --bind {directory} {path}")
        lines.append('exec "$@"')
        self.started += 1
        output = self.tmp / f"output-{self.started}"
        with output.open("w") as file:
            process = subprocess.Popen(
                ["unshare", "--mount", "sh", "-c", "\n".join(lines), "sh", *command],
                env={"PATH": "/opt/launch/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", **env},
                stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        process.output = output
        self.running.append(process)
        return process

    def finish(self, process, timeout=60):
        """Its output; it must end by itself, and well. What it leaves behind ends too, as in a container."""
        process.wait(timeout=timeout)
        self._end(process)
        assert process.returncode == 0, process.output.read_text()
        return process.output.read_text()

    def run(self, *args, **kwargs):
        return self.finish(self.start(*args, **kwargs))

    def terminate(self, process, timeout=60):
        """As the kubelet does: TERM to the first process of the container."""
        process.terminate()
        return self.finish(process, timeout)

    def kill(self, process):
        self._end(process)

    def _end(self, process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        self.running.remove(process)

    def close(self):
        for process in reversed(list(self.running)):
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                pass
            self._end(process)


class GpuNodes(Pods):
    """The controller's pod, and the agent's pod on node gpu-node-1."""

    def __init__(self, tmp):
        super().__init__(tmp)
        self.install()
        self.head = {"/var/lib/launch": self.volume("head")}
        self.operator = self.tmp / "head/controller/operator"
        self.state = self.volume("node")
        self.node = {"/var/lib/launch": self.state, "/run/launch": self.volume("locks"),
                     "/run/leave": self.volume("leave")}
        self.address = None

    def start_controller(self):
        self.run(container("StatefulSet", "initContainers", "init")["command"], self.head)
        command = [word.replace("0.0.0.0:7470", "127.0.0.1:0")
                   for word in container("StatefulSet", "containers", "controller")["command"]]
        process = self.start(command, self.head)
        address = self.tmp / "head/controller/address"
        wait_until("the controller listens", address.exists)
        self.address = address.read_text().strip()
        return process

    def names(self):
        return {"NODE_NAME": "gpu-node-1", "CONTROLLER": self.address}

    def join(self):
        command = container("DaemonSet", "initContainers", "join")["command"]
        return self.run(command, {**self.node, "/operator": self.operator}, **self.names())

    def start_agent(self):
        return self.start(container("DaemonSet", "containers", "agent")["command"], self.node)

    def start_leave(self):
        command = container("DaemonSet", "containers", "leave")["command"]
        return self.start(command, {**self.node, "/operator": self.operator}, **self.names())

    def start_hook(self):
        hook = container("DaemonSet", "containers", "agent")["lifecycle"]["preStop"]["exec"]["command"]
        return self.start(hook, self.node)

    def launch(self, *args):
        done = subprocess.run(
            [BIN / "launch", "--controller", self.address, "--credentials", self.operator, *args],
            capture_output=True, text=True, timeout=60, cwd=self.tmp, env={**os.environ, "HOME": str(self.tmp)})
        return done.stdout
