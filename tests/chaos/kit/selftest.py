"""A checker that cannot fail proves nothing: each is given a violation that was really made.

One run with few faults must be found clean. Then its machine, its disks and what its clients were
told are spoiled in one way after the other, gathered again by the same code, and judged.
"""

import copy
import os
import pathlib
import signal
import subprocess

from kit import checkers, evidence, inject, runs, schedule

CASES = []
CLEAN = []  # what looks like a violation and is none


def case(checker, what):
    def keep(function):
        CASES.append((checker, what, function))
        return function
    return keep


def no_violation(checker, what):
    def keep(function):
        CLEAN.append((checker, what, function))
        return function
    return keep


def rank(cluster, job, attempt, milliseconds, cgroup=None):
    """A rank that no agent started."""
    env = {**cluster.environment, "LEDGER_DIR": str(cluster.ledger), "LAUNCH_JOB_ID": job, "LAUNCH_ATTEMPT": str(attempt),
           "RANK": "0"}
    process = subprocess.Popen([cluster.bin / "ledger_rank", "--for", str(milliseconds)], env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL)
    if cgroup is not None:
        (cgroup / "cgroup.procs").write_text(str(process.pid))
    return process


def end(process):
    process.send_signal(signal.SIGKILL)
    process.wait()


def again(cluster, found):
    new = copy.deepcopy(found)
    new.starts, new.ends, new.overlaps = evidence.read_ledger(cluster.ledger)
    new.printed = evidence.read_printed(cluster.ledger)
    evidence.gather_machine(cluster, new)
    return new


NO_GOOD_JOB = "no job of this seed succeeded, so nothing can be planted"


def good_job(found):
    good = next((a for a in found.asked if found.statuses[a.id]["state"] == "SUCCEEDED"), None)
    if good is None:
        raise RuntimeError(NO_GOOD_JOB)
    return good


@case("submits", "an acknowledged job that the controller does not know")
def lost_job(cluster, found):
    new = copy.deepcopy(found)
    new.queue = [pair for pair in new.queue if pair[0] != good_job(found).id]
    return new


@case("submits", "two jobs of one key")
def doubled_job(cluster, found):
    file = cluster.work / f"{good_job(found).plan.name}.yaml"
    cluster.launch("submit", file, "--parsable", "--hold", code=0)
    new = copy.deepcopy(found)
    new.queue = [(str(job["id"]), job["name"]) for job in cluster.json("queue", "-a")["jobs"]]
    return new


@case("ends", "a job said to have succeeded whose rank ended with 7")
def false_success(cluster, found):
    new = copy.deepcopy(found)
    key = next(key for key in new.ends if key[0] == good_job(found).id)
    new.ends[key].code = 7
    return new


def failed_and_cancelled(found, found_done):
    """Its only rank was killed before it could write its end; its user's cancel was answered."""
    new = copy.deepcopy(found)
    asked = next(a for a in new.asked if a.id == good_job(found).id)
    asked.cancel_asked, asked.cancel_acked_ms, asked.found_done = True, 2**62, found_done
    new.statuses[asked.id]["state"] = new.before_restart[asked.id] = "FAILED"
    new.ends = {key: end for key, end in new.ends.items() if key[0] != asked.id}
    return new


@case("ends", "a job that failed after its cancel was acknowledged")
def ignored_cancel(cluster, found):
    return failed_and_cancelled(found, found_done=False)


@no_violation("ends", "a job that had failed when somebody cancelled it")
def late_cancel(cluster, found):
    return failed_and_cancelled(found, found_done=True)


@case("ends", "a job that never ends")
def endless(cluster, found):
    cluster.launch("submit", "--parsable", "--hold", "--", "sleep", "1", code=0)

    class Nobody:
        @staticmethod
        def join():
            return []
    new = copy.deepcopy(found)
    new.unsettled, _ = evidence.settle(cluster, Nobody, 1)
    return new


@case("once", "two attempts of one job at once")
def two_attempts(cluster, found):
    first = rank(cluster, "900", 1, 60_000)
    cluster.patiently("the first attempt runs", lambda: "900" in evidence.read_ledger(cluster.ledger)[0], 30)
    rank(cluster, "900", 2, 0).wait()
    end(first)
    return again(cluster, found)


@case("once", "a rank that starts after its cancel was acknowledged")
def late_start(cluster, found):
    new = copy.deepcopy(found)
    asked = next(a for a in new.asked if a.id == good_job(found).id)
    asked.cancel_asked, asked.cancel_acked_ms = True, min(s.ms for s in new.starts[asked.id]) - 1
    return new


@case("once", "a rank that still prints when the next attempt has begun")
def printed_on(cluster, found):
    new = copy.deepcopy(found)
    job, attempt, _ = key = next(key for key in new.printed if key[0] == good_job(found).id)
    new.starts[job].append(checkers.Start(attempt + 1, 0, 1, checkers.last_sign(new.printed[key]) - 1, cluster.nodes[0]))
    return new


@case("fences", "a fence of a machine without power that is refused")
def refused_fence(cluster, found):
    new = copy.deepcopy(found)
    done = cluster.launch("node", "fence", cluster.nodes[0], "--power-is-off")  # it has power, and answers
    new.unfenced = [done.stderr] if done.returncode != 0 else []
    return new


def fenced(found, more):
    """The node of an attempt is fenced while that runs there; the events are read as those of a run are."""
    new = copy.deepcopy(found)
    new.statuses = {"904": {"attempts": [{"attempt": 1, "nodes": ["gone"]}]}}
    events = [("attempt.running", "attempt/904.1"), ("node.fenced", "node/gone"), *more]
    new.fences = evidence.read_fences([{"kind": kind, "subject": subject} for kind, subject in events], new.statuses)
    return new


@case("fences", "a job that waits for its fenced node")
def waits_for_fenced(cluster, found):
    return fenced(found, [("node.attached", "node/gone"), ("attempt.ended", "attempt/904.1")])


@no_violation("fences", "a job that is given up when its node is fenced")
def given_up_by_fence(cluster, found):
    return fenced(found, [("attempt.ended", "attempt/904.1"), ("node.attached", "node/gone")])


def silenced(found, lived_s, silent_s, said=True):
    """A leased job whose node falls silent; its rank lives for so long after that."""
    new = copy.deepcopy(found)
    asked = next(a for a in new.asked if a.id == good_job(found).id)
    asked.plan.leased = True
    begun = 1_000_000
    new.silences = [inject.Silence("gone", begun, begun + int(silent_s * 1000))]
    new.starts = {asked.id: [checkers.Start(1, 0, 1, begun - 1000, "gone")]}
    new.printed = {(asked.id, 1, 0): f"line 0 of attempt 1 rank 0 at {begun + int(lived_s * 1000)}\n".encode()}
    event = {"kind": "allocation.lease_over", "subject": f"attempt/{asked.id}.1", "text": "gone was silent for longer"}
    new.leases_over = evidence.read_leases_over([event] if said else [])
    new.controller_starts = []
    return new


@case("leases", "a rank that outlives its lease")
def outlived_lease(cluster, found):
    return silenced(found, schedule.LEASE + 20, schedule.SILENCE)


@case("leases", "a lease that is over on a node that was not silent for that long")
def early_lease(cluster, found):
    return silenced(found, 20, schedule.LEASE - 1)


@case("leases", "a rank that ends with a lease that was not over")
def early_end(cluster, found):
    new = silenced(found, 20, schedule.LEASE - 10, said=False)
    job = next(iter(new.starts))
    new.statuses[job]["attempts"] = [{"attempt": 1, "nodes": ["gone"]}]
    text = f"rank 0 on gone: signal 9, {evidence.OF_LEASE}"
    new.ended_by_lease = evidence.read_ended_by_lease([{"kind": "attempt.ended", "subject": f"attempt/{job}.1", "text": text}])
    return new


@case("leases", "a job that is not given up when its lease is over")
def endless_lease(cluster, found):
    return silenced(found, schedule.LEASE, schedule.SILENCE, said=False)


@no_violation("leases", "a rank that ends with its lease")
def kept_lease(cluster, found):
    return silenced(found, schedule.LEASE, schedule.SILENCE)


def between(found, more):
    """Another job starts between two attempts on the same nodes; the events after the first are read as those of a run are."""
    new = copy.deepcopy(found)
    asked = next(a for a in new.asked if a.id == good_job(found).id)
    asked.plan.gpus = checkers.GPUS_OF_A_NODE
    nodes = new.statuses[asked.id]["attempts"][-1]["nodes"]
    new.statuses[asked.id]["attempts"] = [{"attempt": n, "nodes": nodes} for n in (1, 2)]
    starts = [checkers.Start(attempt, 0, 1, 1000 * attempt, nodes[0]) for attempt in (1, 2)]
    other = copy.deepcopy(asked)
    other.ids = ["903"]
    new.asked.append(other)
    new.starts = {asked.id: starts, "903": [checkers.Start(1, 0, 2, 1500, nodes[0])]}
    events = [("attempt.ended", f"attempt/{asked.id}.1"), *((kind, f"job/{asked.id}") for kind in more)]
    new.restarts = evidence.read_restarts([{"kind": kind, "subject": subject} for kind, subject in events])
    return new


@case("place", "a job that starts between two attempts of another that begins in place")
def slipped_in(cluster, found):
    return between(found, ["job.restarts"])


@no_violation("place", "one that starts where the first job had given up its place")
def place_given_up(cluster, found):
    return between(found, ["job.restarts", "job.leaves_place"])


@case("nothing_left", "a rank that outlives its job")
def left_process(cluster, found):
    left = rank(cluster, "901", 1, 60_000)
    new = again(cluster, found)
    end(left)
    return new


@case("nothing_left", "a cgroup that still holds a process")
def left_cgroup(cluster, found):
    root = pathlib.Path("/sys/fs/cgroup/unified" if os.path.isdir("/sys/fs/cgroup/unified") else "/sys/fs/cgroup")
    group = root / f"launch-{cluster.nodes[0]}" / "902.1"
    group.mkdir(parents=True, exist_ok=True)
    left = rank(cluster, "902", 1, 60_000, group)
    new = again(cluster, found)
    end(left)
    new.processes = []
    return new


@case("nothing_left", "a GPU's lock that somebody holds")
def left_lock(cluster, found):
    path = cluster.locks / "gpu-GPU-planted.lock"
    path.touch()
    holder = subprocess.Popen(["flock", path, "sleep", "60"], start_new_session=True)
    cluster.patiently("the lock is held", lambda: evidence.held_locks(cluster.locks), 30)
    new = again(cluster, found)
    os.killpg(holder.pid, signal.SIGKILL)
    holder.wait()
    return new


@case("exit_codes", "a recorded code that the rank did not give")
def false_code(cluster, found):
    new = copy.deepcopy(found)
    told = new.statuses[good_job(found).id]["attempts"][-1]["ranks"][0]["exit"]
    told.update(code=3, says="exit code 3")
    return new


@case("exit_codes", "an end that is not recorded")
def lost_code(cluster, found):
    new = copy.deepcopy(found)
    new.statuses[good_job(found).id]["attempts"][-1]["ranks"][0]["exit"] = None
    return new


@case("output", "a byte of output that is lost on the node's disk")
def lost_byte(cluster, found):
    job = good_job(found).id
    key = next(key for key in found.printed if key[0] == job and len(found.printed[key]) > 60)
    for program in cluster.programs.values():
        for log in (program.disk / "state").rglob(f"{job}.{key[1]}/rank.{key[2]}/out"):
            data = bytearray(log.read_bytes())
            data[40:41] = b""
            log.write_bytes(data)
    new = copy.deepcopy(found)
    new.logs = evidence.read_logs(cluster, new.printed)
    return new


@case("programs", "an agent that ends by itself")
def died(cluster, found):
    program = cluster.programs[cluster.nodes[0]]
    deaths = len(program.deaths)
    program.excused = False
    program.signal(signal.SIGSEGV)
    cluster.patiently("its death is seen", lambda: len(program.deaths) > deaths, 60)
    new = copy.deepcopy(found)
    new.deaths = [(program.name, *program.deaths[-1])]
    return new


# After the programs were stopped.
def flipped_store(cluster, found):
    state = cluster.programs["controller"].disk / "state"
    database = max(state.glob("*.db"), key=lambda path: path.stat().st_size)
    data = bytearray(database.read_bytes())
    name = good_job(found).plan.name.encode()
    at = data.rfind(name)
    data[at if at >= 0 else len(data) // 2] ^= 1
    database.write_bytes(data)
    new = copy.deepcopy(found)
    new.store = evidence.check_store(cluster, state)
    return new


def run(seed, build, directory, limits):
    missed, noise = [], []

    def expect(checker, what, new):
        before = set(noise)
        seen = [line for line in checkers.ALL[checker](new) if f"{checker}: {line}" not in before]
        print(f"  {'found ' if seen else 'MISSED'} {checker}: {what}{': ' + seen[0][:150] if seen else ''}", flush=True)
        if not seen:
            missed.append(what)

    def plant(cluster, found):
        good_job(found)
        evidence.gather_machine(cluster, found)
        noise.extend(checkers.judge(found))
        for checker, what, spoil in CASES:
            expect(checker, what, spoil(cluster, found))
        for checker, what, spoil in CLEAN:
            noise.extend(f"{checker}: {what}: {line}" for line in checkers.ALL[checker](spoil(cluster, found)))
        for job in cluster.json("queue", "-a")["jobs"]:
            if job["state"] not in evidence.DONE:
                cluster.launch("cancel", job["id"], code=None)
        evidence.gather_stopped(cluster, copy.deepcopy(found))
        expect("store", "a flipped bit in the store", flipped_store(cluster, found))

    short = runs.Limits(seconds=6, per_second=0.01, nodes=2, settle=limits.settle)
    for seed in range(seed, seed + 10):
        outcome = runs.one(seed, build, directory, short, [], after=plant)
        if not any(NO_GOOD_JOB in what for what in outcome.violations):
            break
    for what in noise + outcome.violations:
        print(f"  NOT CLEAN {what}")
    print(f"{len(CASES) + 1 - len(missed)} of {len(CASES) + 1} planted violations found, seed {seed}, {outcome.seconds:.0f} s")
    return 1 if missed or noise or outcome.violations else 0
