"""Judges of one run. Each is a function from the evidence to the list of violations it sees in it.

They know what the ranks wrote down, what clients were told and what the machine shows after the end;
what the controller says about itself is a statement to be checked, never evidence.
"""

import collections
import dataclasses
import re

from kit import schedule


@dataclasses.dataclass
class Start:
    attempt: int
    rank: int
    pid: int
    ms: int
    node: str


@dataclasses.dataclass
class End:
    ms: int
    code: int
    size: int


@dataclasses.dataclass
class Fence:
    node: str
    alone: set  # (job id, attempt) that ran on that node and no other when an operator fenced it
    ended: set  # (job id, attempt) that ended after that and before the node was back


@dataclasses.dataclass
class Evidence:
    asked: list                 # clients.Asked
    statuses: dict              # job id -> what `launch status -o json` says, read from the store
    before_restart: dict        # job id -> state, before the last restart of the controller
    queue: list                 # (id, name) of every job that the controller knows
    starts: dict                # job id -> [Start]
    ends: dict                  # (job id, attempt, rank) -> End
    overlaps: list              # lines of the ledger
    printed: dict               # (job id, attempt, rank) -> bytes that the rank printed
    logs: dict                  # the same keys -> bytes that `launch logs` gives
    unsettled: list             # what did not come to rest
    deaths: list                # (program, code, asked for)
    processes: list             # (pid, program) after the end
    cgroups: list               # ours that still exist and hold a process
    held_locks: list            # GPU locks that somebody holds after the end
    quarantined: list           # (node, gpu, why) while nothing ran any more
    store: list                 # what a check of the store says against it
    clients: list = dataclasses.field(default_factory=list)  # that never got an answer
    restarts: list = dataclasses.field(default_factory=list)  # (job id, attempt) after which it said to begin in place
    fences: list = dataclasses.field(default_factory=list)       # Fence
    unfenced: list = dataclasses.field(default_factory=list)     # what was said against a fence of a machine without power
    silences: list = dataclasses.field(default_factory=list)     # inject.Silence
    leases_over: list = dataclasses.field(default_factory=list)  # (job id, attempt, node) that the controller said
    ended_by_lease: list = dataclasses.field(default_factory=list)  # (job id, attempt) of which a rank did so
    controller_starts: list = dataclasses.field(default_factory=list)  # boot time in ms


def submits(e):
    """Every acknowledged submit is there, once, and the same key gave the same job."""
    known = dict(e.queue)
    names = collections.Counter(name for _, name in e.queue)
    for asked in e.asked:
        if asked.refused:
            yield f"{asked.plan.name}: refused: {asked.refused.strip()[:300]}"
        if len(set(asked.ids)) > 1:
            yield f"{asked.plan.name}: one key, answered with jobs {sorted(set(asked.ids))}"
        for job in set(asked.ids):
            if job not in known:
                yield f"{asked.plan.name}: acknowledged as job {job}, which the controller does not know"
        if names[asked.plan.name] > 1:
            yield f"{asked.plan.name}: {names[asked.plan.name]} jobs of one key"


def right_state(e, asked, status):
    """Why the final state is wrong, or None."""
    job, state = asked.id, status["state"]
    attempts = status["attempts"]
    last = attempts[-1]["attempt"] if attempts else 0
    ranks = [r["rank"] for r in attempts[-1]["ranks"]] if attempts else []
    ends = [e.ends.get((job, last, rank)) for rank in ranks]
    if state == "SUCCEEDED":
        if not ends or any(end is None or end.code != 0 for end in ends):
            return f"SUCCEEDED, but not every rank of attempt {last} ended with 0"
        return None if asked.plan.code == 0 else "SUCCEEDED, but its ranks exit with another code"
    if state == "CANCELLED":
        return None if asked.cancel_asked else "CANCELLED, but nobody asked for it"
    # A cancel that found the job done changes nothing: a rank may have been killed before it wrote its end.
    if asked.cancel_acked_ms and not asked.found_done and not (ends and all(ends)):
        return f"{state}, although its cancel was acknowledged"
    if asked.plan.code == 0 and not asked.cancel_asked:
        return f"{state} ({status['outcome']}), although its ranks exit with 0 and {asked.plan.retries} retries were allowed"
    return None


def ends(e):
    """Every job ends, in the state that its ranks and its user made; restarts of the controller change none."""
    for what in e.unsettled:
        yield what
    for asked in e.asked:
        status = e.statuses.get(asked.id)
        if status is None:
            continue
        wrong = right_state(e, asked, status)
        if wrong:
            yield f"job {asked.id} ({asked.plan.name}): {wrong}"
    for job, state in e.before_restart.items():
        now = e.statuses.get(job, {}).get("state")
        if state != now:
            yield f"job {job}: {state} before the restart of the controller, {now} after it"


def last_sign(printed):
    """Boot time in ms of the last line that a rank printed, 0 if it printed none."""
    times = re.findall(rb" at (\d+)\n", printed[-200:])
    return int(times[-1]) if times else 0


def once(e):
    """Never two attempts of a job at once, no rank twice, no GPU for two jobs, no start after a cancel."""
    for line in e.overlaps:
        yield f"found alive by another: {line}"
    for (job, attempt, rank), printed in e.printed.items():
        for start in e.starts.get(job, []):
            if start.attempt > attempt and start.ms < last_sign(printed):
                yield (f"job {job}: rank {rank} of attempt {attempt} still printed {last_sign(printed) - start.ms} ms after "
                       f"attempt {start.attempt} had begun")
    for job, starts in e.starts.items():
        for (attempt, rank), n in collections.Counter((s.attempt, s.rank) for s in starts).items():
            if n > 1:
                yield f"job {job}: rank {rank} of attempt {attempt} was started {n} times"
    for asked in e.asked:
        for start in e.starts.get(asked.id, []):
            if asked.cancel_acked_ms and start.ms > asked.cancel_acked_ms:
                yield (f"job {asked.id}: rank {start.rank} of attempt {start.attempt} started "
                       f"{start.ms - asked.cancel_acked_ms} ms after its cancel was acknowledged")


GPUS_OF_A_NODE = 2


def place(e):
    """Nobody else starts on the nodes of a job between two attempts of which the second begins in place."""
    takers = {asked.id: asked.plan.gpus for asked in e.asked}
    for job, attempt in e.restarts:
        mine = [s.ms for s in e.starts.get(job, []) if s.attempt == attempt]
        after = [s.ms for s in e.starts.get(job, []) if s.attempt == attempt + 1]
        if takers.get(job) != GPUS_OF_A_NODE or not mine or not after:
            continue  # beside a job on fewer GPUs there is room
        attempts = {a["attempt"]: a["nodes"] for a in e.statuses[job]["attempts"]}
        if attempts[attempt + 1] != attempts[attempt]:
            continue  # a node was not well any more
        for other, starts in e.starts.items():
            for start in starts:
                between = min(mine) < start.ms < min(after) and start.node in attempts[attempt]
                if other != job and takers.get(other) and between:
                    yield f"job {other} started on {start.node} between attempts {attempt} and {attempt + 1} of job {job}"


def fences(e):
    """A machine without power may be fenced, and what ran on it alone is given up before it is back."""
    for what in e.unfenced:
        yield f"a machine without power could not be fenced: {what}"
    for fence in e.fences:
        for job, attempt in sorted(fence.alone - fence.ended):
            yield f"job {job}: attempt {attempt} ran on {fence.node} alone, which was fenced and came back before that had ended"


# A rank is told to end by its shim this long before its lease is over, and has a second for the clocks.
LEASE_GRACE_MS = 3000
# It ends at the end of its lease; a stopped shim is given the seconds that its pause may last.
LEASE_SLACK_MS = 15_000


def leases(e):
    """The ranks of a node that hears nobody end themselves, no earlier than they must, and their jobs go on elsewhere."""
    lease = int(schedule.LEASE * 1000)
    for job, attempt, node in e.leases_over:
        if not any(s.node == node and s.ended_ms - s.begun_ms > lease for s in e.silences):
            yield f"job {job}: the lease of attempt {attempt} on {node} is said to be over, which was never silent for that long"
    for job, attempt in e.ended_by_lease:
        nodes = [node for a in e.statuses[job]["attempts"] if a["attempt"] == attempt for node in a["nodes"]]
        if not any(s.node in nodes and s.ended_ms - s.begun_ms > lease - LEASE_GRACE_MS for s in e.silences):
            yield f"job {job}: a rank of attempt {attempt} ended with its lease, and none of {nodes} was silent for that long"
    leased = {asked.id for asked in e.asked if asked.plan.leased}
    for silence in e.silences:
        over = silence.begun_ms + lease
        for job in leased:
            for start in e.starts.get(job, []):
                last = last_sign(e.printed.get((job, start.attempt, start.rank), b""))
                if start.node != silence.node or start.ms > silence.begun_ms or last < silence.begun_ms + 5000:
                    continue
                name = f"job {job}: rank {start.rank} of attempt {start.attempt} on {start.node}"
                if silence.ended_ms > over + LEASE_SLACK_MS and last > over + LEASE_SLACK_MS:
                    yield f"{name} lived {last - over} ms longer than its lease"
                one_life = all(ms < silence.begun_ms or ms > silence.ended_ms for ms in e.controller_starts)
                long = silence.ended_ms - silence.begun_ms >= 1000 * schedule.SILENCE
                if one_life and long and (job, start.attempt, start.node) not in e.leases_over:
                    yield f"{name} lived when its node fell silent, and was never given up"


def nothing_left(e):
    """No process of ours, empty cgroups, free locks, nothing quarantined."""
    yield from (f"{name} ({pid}) still runs" for pid, name in e.processes)
    yield from (f"cgroup {path} still holds processes" for path in e.cgroups)
    yield from (f"lock {path} is still held" for path in e.held_locks)
    yield from (f"{gpu} of {node} is quarantined: {why}" for node, gpu, why in e.quarantined)


STOPPED = (137, 143)  # our kill and TERM, between its last line and its exit


def exit_codes(e):
    """A recorded code is the one that the rank gave; nothing else is invented."""
    for job, status in e.statuses.items():
        for attempt in status["attempts"]:
            for rank in attempt["ranks"]:
                key = (job, attempt["attempt"], rank["rank"])
                end, told = e.ends.get(key), rank["exit"]
                unknown = told is not None and "unknown" in told["says"]
                if end is None:
                    if told is not None and not unknown and told["code"] in (0, 1, 7, 33):
                        yield f"{key}: {told['says']}, but the rank never got to its end"
                elif told is None:
                    yield f"{key}: the rank ended with {end.code}, no end is recorded"
                elif not unknown and told["code"] != end.code and told["code"] not in STOPPED:
                    yield f"{key}: the rank ended with {end.code}, recorded is {told['says']}"


def output(e):
    """Every byte that a rank printed, in order; at most the line that it died in besides."""
    for key, printed in e.printed.items():
        log = e.logs.get(key)
        if log is None:
            yield f"{key}: no output can be read, the rank printed {len(printed)} bytes"
        elif not log.startswith(printed):
            at = next((i for i, (a, b) in enumerate(zip(log, printed)) if a != b), min(len(log), len(printed)))
            yield f"{key}: {len(printed)} bytes printed, {len(log)} kept, different from byte {at}"
        elif log.count(b"\n", len(printed)) > 1:
            yield f"{key}: {len(log) - len(printed)} bytes more than were printed"


def store(e):
    yield from e.store


def programs(e):
    """Controller and agents die only of what was done to them."""
    yield from (f"{name} ended by itself with {code}" for name, code, asked_for in e.deaths if not asked_for)
    yield from e.clients


ALL = {check.__name__: check for check in (submits, ends, once, place, fences, leases, nothing_left, exit_codes, output, store,
                                           programs)}


def judge(evidence):
    return [f"{name}: {what}" for name, check in ALL.items() for what in check(evidence)]
