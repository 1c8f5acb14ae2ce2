"""People: they submit with a key until they get an answer, change their minds, and lose their terminals."""

import dataclasses
import pathlib
import signal
import subprocess
import threading
import time

from kit import schedule


def boot_ms():
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1000)


@dataclasses.dataclass
class Asked:
    """One job as its user knows it."""
    plan: object
    ids: list = dataclasses.field(default_factory=list)  # one for each acknowledgement of the same key
    refused: str = ""
    cancel_asked: bool = False
    cancel_acked_ms: int = 0  # boot time; 0 = never
    found_done: bool = False  # that cancel was told that the job was done before

    @property
    def id(self):
        return self.ids[0] if self.ids else ""


JOB = """\
name: {name}
nodes: {nodes}
gpus: {gpus}
procs_per_node: 1
preflight: {{level: none}}
stop_duration: 2s
retry: {{max: {retries}, no_progress_max: 100}}
env: {{LEDGER_DIR: {ledger}}}
{lease}run: {program} --for {milliseconds} --exit {code}{flags}
"""


class Clients:
    def __init__(self, cluster, faults_for, seconds):
        """Faults are made for `faults_for` seconds from now; nobody waits for an answer for longer than `seconds`."""
        self.cluster = cluster
        self.calm_ms = boot_ms() + int(faults_for * 1000)
        self.give_up = time.monotonic() + seconds
        self.asked = []
        self.threads = []
        self.lock = threading.Lock()
        self.fence_refused = {}  # node -> the last word against it
        self.running = []  # CLI processes that a fault may kill

    def begin(self, plan):
        asked = Asked(plan)
        self.asked.append(asked)
        self.start(self.live, asked)

    def live(self, asked):
        plan = asked.plan
        flags = (" --ignore-term" if plan.ignore_term else "") + (" --escape" if plan.escape else "")
        flags += f" --until {self.calm_ms}" if plan.keeps else ""
        file = pathlib.Path(self.cluster.work) / f"{plan.name}.yaml"
        file.write_text(JOB.format(name=plan.name, nodes=plan.nodes, gpus=plan.gpus, retries=plan.retries, code=plan.code,
                                   ledger=self.cluster.ledger, program=self.cluster.bin / "ledger_rank",
                                   milliseconds=plan.milliseconds, flags=flags,
                                   lease=f"requeue_after: {schedule.LEASE:.0f}s\n" if plan.leased else ""))
        begun = time.monotonic()
        # The second time proves that the key is known: it must answer with the same job.
        while len(asked.ids) < 2 and time.monotonic() < self.give_up:
            code, out, said = self.call("submit", file, "--idempotency-key", plan.key, "--parsable")
            if code == 0:
                asked.ids.append(out.strip())
            elif code in (2, 3):
                asked.refused = said
                break
            else:
                time.sleep(0.3)
        if not plan.cancel_after or not asked.ids:
            return
        time.sleep(max(0.0, begun + plan.cancel_after - time.monotonic()))
        self.cancel(asked)

    def cancel(self, asked):
        while not asked.cancel_acked_ms and time.monotonic() < self.give_up:
            asked.cancel_asked = True
            code, _, said = self.call("cancel", asked.id)
            if code == 0:
                asked.found_done = "was already done" in said
                asked.cancel_acked_ms = boot_ms()
            else:
                time.sleep(0.3)

    def fence(self, node):
        """An operator who knows that this machine has no power, until he is believed."""
        while time.monotonic() < self.give_up:
            code, _, said = self.call("node", "fence", node, "--power-is-off")
            if code == 0:
                return
            self.fence_refused[node] = said.strip()[-300:]
            time.sleep(0.5)

    def cancel_soon(self, job):
        """Its user changes his mind now. False if that job is none of theirs, or is being cancelled already."""
        asked = next((a for a in self.asked if a.id == job), None)
        if asked is None or asked.cancel_asked or asked.plan.cancel_after or asked.plan.keeps:
            return False
        asked.cancel_asked = True
        self.start(self.cancel, asked)
        return True

    def start(self, function, *arguments):
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        thread.start()
        self.threads.append(thread)
        return thread

    def call(self, *words):
        cluster = self.cluster
        process = subprocess.Popen(cluster.network.inside("controller", [cluster.bin / "launch", *words]), cwd=cluster.work,
                                   env=cluster.client_env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        with self.lock:
            self.running.append(process)
        try:
            out, said = process.communicate(timeout=90)
        except subprocess.TimeoutExpired:
            process.kill()
            out, said = process.communicate()
        with self.lock:
            self.running.remove(process)
        return process.returncode, out, said

    def kill_one(self, rng):
        with self.lock:
            if not self.running:
                return False
            rng.choice(self.running).send_signal(signal.SIGKILL)
            return True

    def join(self):
        for thread in self.threads:
            thread.join(max(1.0, self.give_up + 120 - time.monotonic()))
        return [thread for thread in self.threads if thread.is_alive()]
