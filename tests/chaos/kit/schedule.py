"""What a run does and when, drawn from its seed alone: the same seed gives the same schedule."""

import dataclasses
import random

# Kind -> how often it is drawn. The heavy ones need a restart or a disk to heal.
WEIGHTS = {
    "controller.kill": 5, "controller.pause": 3, "agent.kill": 6, "agent.pause": 4, "shim.kill": 3, "rank.kill": 4,
    "rank.pause": 2, "client.kill": 4, "link.cut": 4, "link.mute": 4, "link.deaf": 4, "net.delay": 4, "net.stall": 3,
    "net.reset": 4, "controller.sync_error": 2, "controller.write_error": 2, "agent.sync_error": 2, "agent.write_error": 2,
    "controller.slow_disk": 2, "controller.disk_full": 2, "agent.disk_full": 2, "controller.clock_jump": 3,
    "agent.clock_jump": 3, "controller.crash_point": 3, "agent.crash_point": 6, "shim.pause": 4, "node.kill": 2,
    "node.fence": 3,
}
LASTING = {"controller.pause", "agent.pause", "shim.pause", "rank.pause", "link.cut", "link.mute", "link.deaf", "net.delay",
           "net.stall", "controller.slow_disk", "controller.disk_full", "agent.disk_full", "controller.clock_jump",
           "agent.clock_jump"}
CONTROLLER_POINTS = ["store.commit.before", "store.commit.after"]
AGENT_POINTS = [
    "launch.3.before", "launch.3.after", "launch.7.before", "launch.7.spawned", "launch.7.after", "launch.8.before",
    "launch.8.after", "launch.9.after", "stop.4.before", "stop.4.tombstone", "stop.4.kill", "stop.5.before", "stop.5.after",
    "exit.1.before", "exit.1.after", "exit.2.before", "exit.3.before", "exit.3.after", "exit.4.before", "exit.4.logs_kept",
    "exit.4.after",
]
# What may end the controller. It counts a node's silence from its own start, so a lease is over only in a long life.
ENDS_CONTROLLER = {"controller.kill", "controller.sync_error", "controller.write_error", "controller.disk_full",
                   "controller.crash_point"}
LEASE = 300.0         # seconds of requeue_after: the shortest that a job file may ask for
LEASE_MARGIN = 30.0   # seconds that the controller waits after it for the ranks to be gone
SILENCE = LEASE + LEASE_MARGIN + 20.0  # of a node whose ranks must have ended and begun elsewhere
JUMPS = [-3000, -600, -31, 31, 600, 3000, 86400]  # seconds of the wall clock


@dataclasses.dataclass
class Step:
    at: float           # seconds after the start
    kind: str
    target: str = ""    # host
    value: float = 0.0  # what the kind makes of it
    lasts: float = 0.0  # seconds, 0 = no end of its own
    word: str = ""

    def __str__(self):
        more = "".join(f" {k}={v}" for k, v in (("target", self.target), ("value", self.value), ("lasts", self.lasts),
                                                ("word", self.word)) if v)
        return f"{self.at:7.2f} s  {self.kind}{more}"


@dataclasses.dataclass
class JobPlan:
    at: float
    name: str
    nodes: int
    gpus: int
    code: int
    milliseconds: int
    retries: int
    ignore_term: bool
    escape: bool
    leased: bool = False
    keeps: bool = False  # each attempt runs until the faults end, so that it lives when its lease is over
    cancel_after: float = 0.0  # 0 = never
    key: str = ""

    def __str__(self):
        words = [f"{self.at:7.2f} s  submit {self.name}: {self.nodes} nodes x {self.gpus} GPUs for {self.milliseconds} ms",
                 f"exit {self.code}"]
        words += [f"cancelled after {self.cancel_after} s"] if self.cancel_after else []
        words += [name for name in ("ignore_term", "escape", "leased", "keeps") if getattr(self, name)]
        return ", ".join(words)


MOST_JOBS = 40  # of a long run: more than its nodes can end in the time to settle tell nothing new


def draw_jobs(rng, seconds, nodes):
    jobs = []
    for i in range(min(MOST_JOBS, max(3, int(seconds / 2)))):
        bad = rng.random() < 0.25
        jobs.append(JobPlan(
            at=round(rng.uniform(0, 0.8) * seconds, 2), name=f"job{i}", nodes=rng.choice([1, 1, 1, 2, min(3, nodes)]),
            gpus=rng.choice([0, 1, 1, 2]), code=rng.choice([1, 7, 33]) if bad else 0, milliseconds=rng.choice([300, 3000, 9000]) + rng.randrange(3000),
            retries=0 if bad else 60, ignore_term=rng.random() < 0.2, escape=rng.random() < 0.25,
            cancel_after=round(rng.uniform(0.1, 6), 2) if rng.random() < 0.25 else 0.0, key=f"{rng.getrandbits(128):032x}",
            leased=rng.random() < 0.2))
    jobs.sort(key=lambda job: job.at)
    return jobs


def draw_steps(rng, seconds, nodes, per_second, kinds):
    steps = []
    total = max(1, int(seconds * per_second))
    names = sorted(kinds)
    for _ in range(total):
        kind = rng.choices(names, [WEIGHTS[name] for name in names])[0]
        step = Step(round(rng.uniform(0.02, 0.95) * seconds, 2), kind)
        if not kind.startswith(("controller", "client")):
            step.target = rng.choice(nodes)
        if kind.startswith("link") and rng.random() < 0.3:
            step.target = "controller"
        if kind in ("node.kill", "node.fence"):
            step.lasts = round(rng.choice([1, 5, 12]) * rng.uniform(0.6, 1.4), 2)
            step.word = rng.choice(["rebooted", "rebooted", "same_boot"])  # as what the machine comes back
        if kind == "shim.pause":
            step.word = rng.choice(["", "end_rank", "cancel_job"])
        if kind in LASTING:
            step.lasts = round(rng.choice([0.5, 2, 5, 9]) * rng.uniform(0.6, 1.4), 2)
        if kind.endswith("clock_jump"):
            step.value = rng.choice(JUMPS)
        elif kind.endswith("_error"):
            step.value = rng.randrange(1, 12)  # the nth from then
            step.word = rng.choice(["full", "short"])
        elif kind == "net.delay":
            step.value = rng.choice([50, 200, 800])
        elif kind == "controller.slow_disk":
            step.value = rng.choice([20, 200, 1500])
        elif kind.endswith("crash_point"):
            points = CONTROLLER_POINTS if kind.startswith("controller") else AGENT_POINTS
            step.word = f"{rng.choice(points)}:{rng.choice([1, 1, 2, 3, 7])}"
        steps.append(step)
    steps.sort(key=lambda step: step.at)
    return steps


def draw_leases(rng, seconds, nodes):
    """Jobs that live when the lease of their node is over, and nodes that are silent for that long."""
    begin = round(rng.uniform(8, 15), 2)
    if seconds < begin + SILENCE + 20:
        return [], []
    jobs = [JobPlan(at=round(rng.uniform(0, 3), 2), name=f"leased{i}", nodes=rng.choice([1, 1, 2]), gpus=rng.choice([0, 1]),
                    code=0, milliseconds=1000, retries=60, ignore_term=rng.random() < 0.5, escape=rng.random() < 0.5,
                    leased=True, keeps=True, key=f"{rng.getrandbits(128):032x}") for i in range(4)]
    silent = rng.sample(nodes, rng.choice([1, 1, 2]) if len(nodes) > 2 else 1)
    steps = [Step(round(begin + rng.uniform(0, 5), 2), "node.silence", node, lasts=round(SILENCE + rng.uniform(0, 10), 2),
                  word=rng.choice(["cut", "down"])) for node in silent]
    return jobs, steps


@dataclasses.dataclass
class Schedule:
    seed: int
    seconds: float
    nodes: list
    tree: bool      # without cgroups, as in many containers
    jobs: list
    steps: list

    def __str__(self):
        lines = [f"seed {self.seed}: {len(self.nodes)} nodes, {self.seconds:.0f} s of faults, "
                 f"{'no cgroups' if self.tree else 'cgroups'}"]
        lines += [str(job) for job in self.jobs]
        lines += [str(step) for step in self.steps]
        return "\n".join(lines)


def draw(seed, seconds, node_count, per_second, without=()):
    """`without`: kinds that this machine or build cannot do."""
    nodes = [f"c{seed % 1000}n{i}" for i in range(node_count)]
    stream = {name: random.Random(f"{seed}/{name}") for name in ("world", "jobs", "steps", "leases")}
    tree = stream["world"].random() < 0.25
    leased, silences = draw_leases(stream["leases"], seconds, nodes)
    jobs = sorted(leased + draw_jobs(stream["jobs"], seconds, node_count), key=lambda job: job.at)
    for job in jobs:
        # Without cgroups a process that leaves its session and drops its locks may escape: documented.
        job.escape = job.escape and not tree
    kinds = [kind for kind in WEIGHTS if kind not in without]
    if silences and stream["world"].random() < 0.7:
        kinds = [kind for kind in kinds if kind not in ENDS_CONTROLLER]
    steps = sorted(silences + draw_steps(stream["steps"], seconds, nodes, per_second, kinds), key=lambda step: step.at)
    return Schedule(seed, seconds, nodes, tree, jobs, steps)
