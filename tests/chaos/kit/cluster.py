"""One cluster of production programs on the hosts of a Network, kept alive as an init system would."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time
import uuid

from kit.clients import boot_ms
from kit.controls import Controls
from kit.machine import must, run

CANNOT_START = 3  # ends of a program before any fault: it is not made to run here
SLOWEST_EXIT = 2.0  # seconds, of a program that has met its end
DISK = "160m"  # of each tmpfs: above what our programs keep in reserve


class Program:
    """A controller or agent: its command, its disk, its faults, and what it died of."""

    def __init__(self, name, argv, env, disk, log, controls):
        self.name, self.argv, self.env, self.disk, self.log, self.controls = name, argv, env, disk, log, controls
        self.process = None
        self.crash_point = None   # armed by the next start, for that life only
        self.wanted = False
        self.off = False          # its machine has no power: it is not started
        self.starts = []          # boot time in ms
        self.excused = False      # its next death is of our making
        self.full = False         # its disk
        self.room_since = 0.0     # when its disk was last given room again
        self.failed_before = 0    # injected errors of its disk, up to its last death
        self.restart_at = 0.0
        self.deaths = []          # (exit code or -signal, whether we asked for it)

    def start(self):
        env = dict(self.env)
        point, self.crash_point = self.crash_point, None
        if point:
            env["LAUNCH_FAILPOINT"] = point
        self.excused = bool(point)
        self.starts.append(boot_ms())
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(list(map(str, self.argv)), env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def make_room(self):
        (self.disk / "filler").unlink(missing_ok=True)
        if self.full:
            self.full, self.room_since = False, time.monotonic()

    def had_full_disk(self, code):
        """Whether it can have ended for its full disk: who met it may be on his way out when there is room again."""
        return self.full or (code > 0 and time.monotonic() < self.room_since + SLOWEST_EXIT)

    @property
    def pid(self):
        return self.process.pid

    def signal(self, number):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)


class CannotStart(Exception):
    """A program that ends again and again with nothing done to it: no run can tell anything."""


def link_or_copy(source, target):
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


class Cluster:
    def __init__(self, build, work, network, rng, tree):
        self.work, self.network, self.tree = pathlib.Path(work), network, tree
        self.bin = self.work / "bin"
        self.ledger = self.work / "shared"
        self.locks = self.work / "locks"
        self.nodes = network.hosts[1:]
        self.lock = threading.Lock()
        self.rng = rng
        self.build = build
        self.disks = []
        self.programs = {}
        self.environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(self.work), "LANG": "C.UTF-8"}
        self.lib = build / "lib"
        self.closed = threading.Event()
        self.faults_begun = False
        self.keeper = threading.Thread(target=self.keep_alive, daemon=True)

    # Set-up

    def make(self):
        for directory in (self.bin, self.ledger, self.locks):
            directory.mkdir(parents=True)
        # Programs of this run are told from all others by the path of their file.
        for name in ("launch", "launch-controller", "launch-agent", "launch-shim", "ledger_rank"):
            link_or_copy(self.build / "bin" / name, self.bin / name)
        self.keeper.start()
        self.make_controller()
        for i, node in enumerate(self.nodes):
            self.make_agent(i, node)

    def disk(self, name):
        point = self.work / name
        point.mkdir()
        self.disks.append(point)
        must("mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", point)
        return point

    def program(self, host, name, words):
        disk = self.disk(name)
        controls = Controls(self.work / f"{name}.controls")
        env = {**self.environment, "LD_PRELOAD": str(self.lib / "libchaos_faults.so"), "CHAOS_CONTROL": str(controls.path),
               "CHAOS_ROOT": str(disk)}
        on_node = host != "controller"
        argv = self.network.inside(host, words(disk / "state"), hide_cgroups=self.tree and on_node,
                                   boot_id=self.boot_id_of(host) if on_node else None)
        self.programs[host] = Program(host, argv, env, disk, self.work / f"{name}.log", controls)
        return self.programs[host]

    def boot_id_of(self, node):
        return self.work / f"{node}.boot_id"

    def boot_anew(self, node):
        """What is started there from now on sees another boot of its machine."""
        new = self.work / f"{node}.boot_id.new"
        new.write_text(f"{uuid.UUID(int=self.rng.getrandbits(128), version=4)}\n")
        os.replace(new, self.boot_id_of(node))

    def make_controller(self):
        def words(state):
            return [self.bin / "launch-controller", "run", "--state", state, "--listen", self.network.controller()]
        program = self.program("controller", "controller", words)
        state = program.disk / "state"
        must(self.bin / "launch-controller", "init", "--state", state, env=self.environment)
        # A client's credentials lie on the client's disk, not on the controller's.
        shutil.copytree(state / "operator", self.work / "operator")
        self.client_env = {**self.environment, "LAUNCH_CONTROLLER": self.network.controller(),
                           "LAUNCH_CREDENTIALS": str(self.work / "operator")}
        self.begin(program)
        self.wait_for_controller()

    def make_agent(self, i, node):
        driver = self.work / f"{node}.nvml.json"
        driver.write_text(json.dumps(self.driver_of(i)))
        # Half of them are direct, half go through the proxy: a cut looks different to the controller.
        address = self.network.proxy_for(node) if i % 2 == 0 else self.network.controller()
        if i == 0:
            self.network.start_proxy()

        def words(state):
            return [self.bin / "launch-agent", "run", "--state", state, "--controllers", address, "--lock-dir", self.locks,
                    "--nvml-library", self.lib / "libnvidia-ml.so.1"]
        program = self.program(node, f"agent-{node}", words)
        program.env["FAKE_NVML_CONFIG"] = str(driver)
        self.boot_anew(node)
        token = self.launch("token", "create", "--node", node, code=0).stdout
        must(*self.network.inside(node, [self.bin / "launch-agent", "join", "--state", program.disk / "state"]), input=token,
             env=self.environment)
        self.begin(program)

    def driver_of(self, i):
        one = {"name": "NVIDIA A100-SXM4-40GB", "cc": [8, 0], "memory": {"total_mib": 40960, "reserved_mib": 570, "used_mib": 1},
               "power_w": 52.0, "power_limit_w": 400, "temperature_c": 31, "utilization": {"gpu": 0, "memory": 0},
               "processes": [], "ecc": True}
        tag = self.network.tag[1:]
        return {"driver": "550.127.05", "nvml": "12.550.127.05", "cuda": 12040, "topology": {"default": 50},
                "devices": [{**one, "uuid": f"GPU-{int(tag) % 10**8:08d}-7c3d-4f19-8e52-{i:06d}{d:06d}",
                             "pci": f"0000:{7 + d:02x}:00.0"} for d in range(2)]}

    # Keeping alive

    def begin(self, program):
        with self.lock:
            program.wanted = True
            program.start()

    def keep_alive(self):
        while not self.closed.wait(0.05):
            with self.lock:
                for program in self.programs.values():
                    self.look_after(program)

    def look_after(self, program):
        if not program.wanted:
            return
        if program.process is None:
            if time.monotonic() >= program.restart_at and not program.off:
                program.start()
            return
        code = program.process.poll()
        if code is None:
            return
        failed = program.controls["syncs_failed"] + program.controls["writes_failed"]
        program.deaths.append((code, program.excused or program.had_full_disk(code) or failed > program.failed_before))
        program.failed_before = failed
        program.process = None
        program.restart_at = time.monotonic() + self.rng.uniform(0.1, 1.5)

    # Asking

    def launch(self, *words, code=None, timeout=120, stdin=None):
        done = subprocess.run(self.network.inside("controller", [self.bin / "launch", *words]), env=self.client_env,
                              cwd=self.work, input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)
        done.stdout_bytes = done.stdout
        done.stdout, done.stderr = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        if code is not None and done.returncode != code:
            raise RuntimeError(f"launch {' '.join(map(str, words))}: exit {done.returncode}: {done.stderr.strip()[-600:]}")
        return done

    def json(self, *words, **kwargs):
        return json.loads(self.launch(*words, "-o", "json", code=0, **kwargs).stdout)

    def patiently(self, what, ask, seconds):
        """The first true answer of `ask`; the CLI failing meanwhile is no answer."""
        end = time.monotonic() + seconds
        why = "no answer yet"
        while time.monotonic() < end:
            if not self.faults_begun:
                self.must_start()
            try:
                answer = ask()
                if answer:
                    return answer
                why = "not yet"
            except (RuntimeError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
                why = str(error)
            time.sleep(0.2)
        raise TimeoutError(f"not within {seconds:.0f} s: {what} ({why})")

    def must_start(self):
        for program in self.programs.values():
            if len(program.deaths) >= CANNOT_START:
                code = program.deaths[-1][0]
                said = program.log.read_text(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
                raise CannotStart(f"{program.log.stem} does not start: {'signal' if code < 0 else 'exit'} {abs(code)}: {said[0]}")

    def wait_for_controller(self):
        self.patiently("the controller serves", lambda: self.launch("nodes", "-o", "json", code=0), 120)

    def wait_for_nodes(self, seconds=120):
        def idle():
            nodes = self.json("nodes")["nodes"]
            return len(nodes) == len(self.nodes) and all(n["state"] == "idle" for n in nodes)
        self.patiently("all nodes idle", idle, seconds)

    # Processes of this run

    def processes(self, name=None):
        """(pid, program) of what runs from a file of this run, whatever it did to its session or environment."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    file = pathlib.Path(os.readlink(entry / "exe"))
                except OSError:
                    continue
                if file.parent == self.bin and name in (None, file.name):
                    found.append((int(entry.name), file.name))
        return sorted(found)

    def processes_on(self, host, name=None):
        """Pids of this run on that host, or of all its programs that are called `name`; its network tells hosts apart."""
        here = os.stat(f"/run/netns/{self.network.ns(host)}").st_ino
        pids = [pid for pid, _ in self.processes(name)] if name else [int(e.name) for e in pathlib.Path("/proc").iterdir()
                                                                     if e.name.isdigit()]
        found = []
        for pid in pids:
            try:
                if os.stat(f"/proc/{pid}/ns/net").st_ino == here:
                    found.append(pid)
            except OSError:
                pass
        return sorted(found)

    def power_off(self, node):
        """Everything on that machine ends at once, without a word to anybody."""
        self.network.cut(node, True)
        with self.lock:
            self.programs[node].off = self.programs[node].excused = True
        for _ in range(200):
            left = self.processes_on(node)
            if not left:
                return
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        raise RuntimeError(f"{node} still runs {left} after SIGKILL")

    def power_on(self, node):
        self.network.cut(node, False)
        with self.lock:
            self.programs[node].off = False

    def kill(self, name):
        program = self.programs[name]
        with self.lock:
            program.excused = True
            program.signal(signal.SIGKILL)

    def restart_store(self):
        """Kill and start the controller: what it says from now on it has read from its disk."""
        self.kill("controller")
        program = self.programs["controller"]
        deaths = len(program.deaths)
        self.patiently("the controller was killed", lambda: len(program.deaths) > deaths, 30)
        self.wait_for_controller()

    def heal(self):
        for program in self.programs.values():
            program.controls.heal()
            program.make_room()
            program.signal(signal.SIGCONT)
        for pid, _ in self.processes():
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
        self.network.heal()

    def stop(self):
        """In order, as an operator would: agents, then the controller. Names of those that had to be killed."""
        with self.lock:
            for program in self.programs.values():
                program.wanted = False
        stuck = []
        for program in reversed(self.programs.values()):
            if program.process is None:
                continue
            program.signal(signal.SIGTERM)
            try:
                program.process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                stuck.append(program.name)
                program.process.kill()
                program.process.wait()
        return stuck

    def close(self):
        """Whatever happened: nothing of this run stays on the machine."""
        self.closed.set()
        if self.keeper.is_alive():
            self.keeper.join()
        with self.lock:
            for program in self.programs.values():
                program.wanted = False
        for _ in range(50):
            left = self.processes()
            for pid, _ in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if not left:
                break
            time.sleep(0.1)
        for program in self.programs.values():
            if program.process is not None:
                program.process.wait()
        for disk in self.disks:
            run("umount", "-l", disk)
