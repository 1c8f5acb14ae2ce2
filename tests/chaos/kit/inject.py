"""Makes the faults of a schedule and takes back those that last. Counts only what was really done."""

import collections
import errno
import os
import random
import signal
import threading
import time


PATIENCE = 5.0  # seconds that a fault waits for something to do it to, such as a living rank


class Injector:
    def __init__(self, cluster, clients, schedule, log):
        self.cluster, self.clients, self.schedule, self.log = cluster, clients, schedule, log
        self.rng = random.Random(f"{schedule.seed}/inject")
        self.done = collections.Counter()
        self.undo = []  # (time, words, function)
        self.lock = threading.Lock()

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

    def say(self, now, text):
        print(f"{now:7.2f} s  {text}", file=self.log, flush=True)

    def apply(self, step, now):
        part, _, what = step.kind.partition(".")
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
        """Processes of this run on that node; a namespace tells nodes apart."""
        here = os.stat(f"/run/netns/{self.cluster.network.ns(step.target)}").st_ino
        found = []
        for pid, _ in self.cluster.processes(name):
            try:
                if os.stat(f"/proc/{pid}/ns/net").st_ino == here:
                    found.append(pid)
            except OSError:
                pass
        return found

    def send(self, pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    def kill(self, part, step):
        if part == "client":
            return self.clients.kill_one(self.rng)
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

    def pause(self, part, step):
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

        def end():
            filler.unlink(missing_ok=True)
            program.full = False
        return end

    def crash_point(self, part, step):
        """Ends at the nth pass of the named point in its next life; points of the shim reach the shims it starts."""
        program = self.program(part, step)
        if program.process is None:
            return False
        program.crash_point = step.word
        self.cluster.kill(program.name)
        return True
