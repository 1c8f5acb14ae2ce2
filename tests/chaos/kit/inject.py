"""Makes the faults of a schedule and takes back those that last. Counts only what was really done."""

import collections
import dataclasses
import errno
import os
import pathlib
import random
import signal
import time

from kit.clients import boot_ms

PATIENCE = 5.0  # seconds that a fault waits for something to do it to, such as a living rank


@dataclasses.dataclass
class Outage:
    """A machine that lost its power, and the operator who says so, if one does."""
    node: str
    until: float        # seconds of the run; later if the operator still waits for his answer
    reboots: bool       # what comes back is another boot
    operator: object = None


@dataclasses.dataclass
class Silence:
    """A node that no word reaches, nor comes from, for longer than a lease; in boot time."""
    node: str
    begun_ms: int
    ended_ms: int = 0


def job_of(rank):
    """Of a process that was started as a rank; empty when it is gone."""
    try:
        environment = pathlib.Path(f"/proc/{rank}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    return next((word.partition(b"=")[2].decode() for word in environment if word.startswith(b"LAUNCH_JOB_ID=")), "")


class Injector:
    def __init__(self, cluster, clients, schedule, log):
        self.cluster, self.clients, self.schedule, self.log = cluster, clients, schedule, log
        self.rng = random.Random(f"{schedule.seed}/inject")
        self.done = collections.Counter()
        self.undo = []  # (time, words, function)
        self.now = 0.0
        self.outages = []   # that have not ended
        self.silences = []  # all
        self.unfenced = []  # what operators were told instead of yes

    def run(self):
        begun = time.monotonic()
        agenda = [(job.at, None, job) for job in self.schedule.jobs] + [(step.at, step, None) for step in self.schedule.steps]
        agenda.sort(key=lambda item: item[0])
        while agenda or self.undo:
            now = time.monotonic() - begun
            for item in [item for item in self.undo if item[0] <= now or now > self.schedule.seconds]:
                self.undo.remove(item)
                self.say(now, f"end of {item[1]}")
                item[2]()
            self.end_outages(now)
            while agenda and agenda[0][0] <= now:
                _, step, job = agenda.pop(0)
                if job is not None:
                    self.clients.begin(job)
                elif not self.apply(step, now) and now < step.at + PATIENCE:
                    agenda.append((now + 0.2, step, None))
                    agenda.sort(key=lambda item: item[0])
            time.sleep(0.02)
        remaining = begun + self.schedule.seconds - time.monotonic()
        if remaining > 0:
            time.sleep(remaining)

    def restore_power(self, seconds):
        """After everything else was healed: machines come back when their operators had their answers."""
        end = time.monotonic() + seconds
        while self.outages and time.monotonic() < end:
            self.end_outages(float("inf"))
            time.sleep(0.1)
        for outage in self.outages:
            self.unfenced.append(f"{outage.node}: not believed within {seconds:.0f} s after the faults: "
                                 f"{self.clients.fence_refused.get(outage.node, 'no answer')}")
            self.cluster.power_on(outage.node)

    def end_outages(self, now):
        """A machine is off for as long as its operator may still be about to say so: what he says stays true."""
        for outage in list(self.outages):
            if now < outage.until or (outage.operator is not None and outage.operator.is_alive()):
                continue
            self.outages.remove(outage)
            if outage.reboots:
                self.cluster.boot_anew(outage.node)
            self.cluster.power_on(outage.node)
            self.say(now, f"power of {outage.node} is back")

    def away(self, node):
        return any(o.node == node for o in self.outages) or any(s.node == node and not s.ended_ms for s in self.silences)

    def say(self, now, text):
        print(f"{now:7.2f} s  {text}", file=self.log, flush=True)

    def apply(self, step, now):
        part, _, what = step.kind.partition(".")
        self.now = now
        made = getattr(self, what)(part, step)
        if made:
            self.say(now, f"{step.kind} {step.target} {step.word} {step.value or ''}")
            self.done[step.kind] += 1
            if callable(made):
                self.undo.append((now + step.lasts, f"{step.kind} {step.target}", made))
        return made

    def program(self, part, step):
        return self.cluster.programs["controller" if part == "controller" else step.target]

    def victims(self, name, step):
        return self.cluster.processes_on(step.target, name)

    def send(self, pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    def kill(self, part, step):
        if part == "client":
            return self.clients.kill_one(self.rng)
        if part == "node":
            return self.outage(step)
        if part == "shim" and self.cluster.programs[step.target].off:
            return False  # a lease holds while the agent or the shim is there to end it (docs/reliability.md)
        if part in ("shim", "rank"):
            victims = self.victims("launch-shim" if part == "shim" else "ledger_rank", step)
            if not victims:
                return False
            self.send(self.rng.choice(victims), signal.SIGKILL)
            return True
        program = self.program(part, step)
        if program.process is None:
            return False
        self.cluster.kill(program.name)
        return True

    def outage(self, step, operator=None):
        node = step.target
        idle = not self.victims("ledger_rank", step)
        if self.away(node) or (idle and self.now < step.at + PATIENCE - 1):
            return False  # rather while something runs there
        self.cluster.power_off(node)
        self.outages.append(Outage(node, self.now + step.lasts, step.word == "rebooted", operator and operator(node)))
        return True

    def fence(self, part, step):
        return self.outage(step, lambda node: self.clients.start(self.clients.fence, node))

    def silence(self, part, step):
        node = step.target
        if self.away(node):
            return False
        self.cluster.network.cut(node, True)
        if step.word == "down":
            self.cluster.programs[node].off = True
            self.cluster.kill(node)
        silence = Silence(node, boot_ms())
        self.silences.append(silence)

        def end():
            silence.ended_ms = boot_ms()
            self.cluster.power_on(node)
        return end

    def pause_shim(self, step):
        """Also while its rank ends, or while it is to stop it."""
        victims = self.victims("launch-shim", step)
        if not victims:
            return False
        pid = self.rng.choice(victims)
        self.send(pid, signal.SIGSTOP)
        for rank in self.ranks_of(pid, step):
            if step.word == "end_rank":
                self.send(rank, signal.SIGKILL)
            elif step.word == "cancel_job":
                self.clients.cancel_soon(job_of(rank))
        return lambda: self.send(pid, signal.SIGCONT)

    def ranks_of(self, shim, step):
        found = []
        for rank in self.victims("ledger_rank", step):
            try:
                parent = int(pathlib.Path(f"/proc/{rank}/stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == shim:
                found.append(rank)
        return found

    def pause(self, part, step):
        if part == "shim":
            return self.pause_shim(step)
        if part == "rank":
            victims = self.victims("ledger_rank", step)
            if not victims:
                return False
            pid = self.rng.choice(victims)
            self.send(pid, signal.SIGSTOP)
            return lambda: self.send(pid, signal.SIGCONT)
        program = self.program(part, step)
        process = program.process
        if process is None:
            return False
        process.send_signal(signal.SIGSTOP)
        return lambda: process.poll() is None and process.send_signal(signal.SIGCONT)

    def cut(self, part, step):
        self.cluster.network.cut(step.target, True)
        return lambda: self.cluster.network.cut(step.target, False)

    def one_way(self, change, step):
        try:
            change(step.target, True)
        except RuntimeError as error:
            if "File exists" in str(error):
                return False  # cut already
            raise
        return lambda: change(step.target, False)

    def mute(self, part, step):
        return self.one_way(self.cluster.network.mute, step)

    def deaf(self, part, step):
        return self.one_way(self.cluster.network.deaf, step)

    def delay(self, part, step):
        self.cluster.network.slow(step.target, delay_ms=step.value, jitter_ms=step.value)
        return lambda: self.cluster.network.slow(step.target)

    def stall(self, part, step):
        self.cluster.network.slow(step.target, stall=0.2, stall_ms=1500)
        return lambda: self.cluster.network.slow(step.target)

    def reset(self, part, step):
        self.cluster.network.reset(step.target)
        return True

    def sync_error(self, part, step):
        self.program(part, step).controls["sync_fails_at"] = int(step.value)
        return True

    def write_error(self, part, step):
        controls = self.program(part, step).controls
        controls["short_write"] = int(step.word == "short")
        controls["write_fails_at"] = int(step.value)
        return True

    def slow_disk(self, part, step):
        controls = self.program(part, step).controls
        controls["sync_delay_ms"] = int(step.value)

        def end():
            controls["sync_delay_ms"] = 0
        return end

    def clock_jump(self, part, step):
        controls = self.program(part, step).controls
        controls["wall_offset_ns"] = int(step.value * 1e9)

        def end():
            controls["wall_offset_ns"] = 0
        return end

    def disk_full(self, part, step):
        program = self.program(part, step)
        if program.full:
            return False
        program.full = True
        filler = program.disk / "filler"
        with open(filler, "wb", buffering=0) as file:
            size = 1 << 20
            while size:
                try:
                    file.write(bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    size //= 2

        return program.make_room

    def crash_point(self, part, step):
        """Ends at the nth pass of the named point in its next life; points of the shim reach the shims it starts."""
        program = self.program(part, step)
        if program.process is None:
            return False
        program.crash_point = step.word
        self.cluster.kill(program.name)
        return True
