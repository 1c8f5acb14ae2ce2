"""One run from its seed to its verdict."""

import dataclasses
import os
import pathlib
import random
import shutil
import stat
import subprocess
import sys
import time
import traceback

from kit import checkers, evidence, schedule
from kit.clients import Clients
from kit.cluster import CannotStart, Cluster
from kit.inject import Injector
from kit.network import Network


@dataclasses.dataclass
class Limits:
    seconds: float = 20.0    # of faults in a run
    per_second: float = 0.8  # faults
    nodes: int = 3
    settle: float = 300.0    # safety is judged, not speed: a loaded machine gets its time


@dataclasses.dataclass
class Outcome:
    seed: int
    violations: list
    injected: dict
    jobs: int = 0
    attempts: int = 0
    leases_over: int = 0
    seconds: float = 0.0


def one(seed, build, directory, limits, without, after=None):
    """`after(cluster, evidence)` may look at, and spoil, a finished run before it is taken down."""
    work = pathlib.Path(directory) / f"run-{seed}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    plan = schedule.draw(seed, limits.seconds, limits.nodes, limits.per_second, without)
    (work / "schedule").write_text(f"{plan}\n")
    outcome = Outcome(seed, [], {})
    begun = time.monotonic()
    network = Network(f"x{os.getpid()}{seed % 100:02d}", plan.nodes, work)
    cluster = Cluster(build, work, network, random.Random(f"{seed}/cluster"), plan.tree)
    try:
        network.make()
        cluster.make()
        cluster.wait_for_nodes()
        cluster.faults_begun = True
        clients = Clients(cluster, limits.seconds, limits.seconds + limits.settle)
        with open(work / "timeline", "w") as log:
            injector = Injector(cluster, clients, plan, log)
            injector.run()
            cluster.heal()
            injector.restore_power(limits.settle)
        outcome.injected = dict(injector.done)
        for name, program in cluster.programs.items():
            if name != "controller" and program.process is not None:
                cluster.kill(name)  # the next life has no crash point armed
        found = evidence.gather_living(cluster, clients, limits.settle)
        found.unfenced, found.silences = injector.unfenced, injector.silences
        outcome.jobs = len(found.queue)
        outcome.attempts = sum(len(status["attempts"]) for status in found.statuses.values())
        outcome.leases_over = len(found.leases_over)
        if after is not None:
            after(cluster, found)
        else:
            evidence.gather_stopped(cluster, found)
            outcome.violations = checkers.judge(found)
    except CannotStart:
        raise
    except Exception as error:  # the kit's own failure must not end a campaign unseen
        outcome.violations.append(f"the run itself failed: {error}")
        (work / "traceback").write_text(traceback.format_exc())
    finally:
        if outcome.violations or sys.exc_info()[0] is not None:
            keep_last_words(cluster, work)
        for clean in (cluster.close, lambda: evidence.remove_cgroups(cluster), network.close):
            try:
                clean()
            except (OSError, subprocess.SubprocessError) as error:  # the others must still be tried
                outcome.violations.append(f"the run could not be taken down: {error}")
    outcome.seconds = time.monotonic() - begun
    if outcome.violations:
        (work / "violations").write_text("\n".join(outcome.violations) + "\n")
    else:
        shutil.rmtree(work, ignore_errors=True)
    return outcome


def not_worth_keeping(directory, names):
    """Pipes, sockets, and the bytes that programs keep in reserve."""
    return [name for name in names if "reserve" in name or not stat.S_IFMT(os.lstat(os.path.join(directory, name)).st_mode)
            in (stat.S_IFREG, stat.S_IFDIR)]


def keep_last_words(cluster, work):
    """State lies on disks that vanish with the run: what an inquiry needs is copied from them."""
    for program in cluster.programs.values():
        state = program.disk / "state"
        try:
            shutil.copytree(state, work / f"{program.disk.name}-state", ignore=not_worth_keeping)
        except OSError as error:  # what a living program removes meanwhile
            with open(work / "not-kept", "a") as file:
                print(state, error, file=file)
