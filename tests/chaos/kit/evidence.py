"""Gathers what the checkers judge: from the ranks' own ledger, the CLI, and the machine after the end."""

import collections
import contextlib
import fcntl
import json
import os
import pathlib
import sqlite3
import subprocess
import time

from kit.checkers import End, Evidence, Fence, Start

DONE = ("SUCCEEDED", "FAILED", "CANCELLED", "SETUP", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREFLIGHT")


def read_ledger(directory):
    starts, ends, overlaps = collections.defaultdict(list), {}, []
    file = pathlib.Path(directory) / "ledger"
    for line in file.read_text().splitlines() if file.exists() else []:
        word, job, attempt, rank, pid, ms, *more = line.split()
        if word == "start":
            starts[job].append(Start(int(attempt), int(rank), int(pid), int(ms), more[0]))
        elif word == "end":
            ends[job, int(attempt), int(rank)] = End(int(ms), int(more[0]), int(more[1]))
        else:
            overlaps.append(line)
    return dict(starts), ends, overlaps


def read_printed(directory):
    printed = {}
    for file in pathlib.Path(directory).glob("out.*"):
        _, job, attempt, rank = file.name.split(".")
        printed[job, int(attempt), int(rank)] = file.read_bytes()
    return printed


def settle(cluster, clients, seconds):
    """Waits until everything is at rest; says what is not."""
    end = time.monotonic() + seconds
    restless = [f"a client of {c.name} had no answer within its time" for c in clients.join()]
    while True:
        unsettled = []
        try:
            jobs = cluster.json("queue", "-a")["jobs"]
            unsettled += [f"job {job['id']} ({job['name']}) is {job['state']}, long after all faults" for job in jobs
                          if job["state"] not in DONE]
            for node in cluster.json("nodes")["nodes"]:
                if node["state"] != "idle":
                    unsettled.append(f"node {node['node']} is {node['state']}, long after all faults")
                unsettled += [f"{gpu['uuid']} of {node['node']} is not free" for gpu in node["gpus"] if not gpu["free"]]
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            unsettled.append(f"the controller does not answer: {error}")
        if not unsettled or time.monotonic() > end:
            return unsettled, restless
        time.sleep(0.5)


def read_log(cluster, job, attempt, *more):
    for _ in range(3):
        try:
            done = cluster.launch("logs", job, "--attempt", attempt, "--raw", *more)
        except subprocess.TimeoutExpired:
            continue
        if done.returncode == 0:
            return done.stdout_bytes
    return None


def read_logs(cluster, printed):
    """What `launch logs` gives for each rank that printed. One call for an attempt, whose lines name their rank;
    where that does not show every byte (a rank may die within a line) the rank is read by itself."""
    logs = {}
    for job, attempt in sorted({key[:2] for key in printed}):
        ranks = [key for key in printed if key[:2] == (job, attempt)]
        lines = (read_log(cluster, job, attempt) or b"").splitlines(keepends=True)
        for key in ranks:
            of_rank = b"".join(line for line in lines if f" rank {key[2]} at ".encode() in line)
            logs[key] = of_rank if of_rank.startswith(printed[key]) else read_log(cluster, job, attempt, "--rank", key[2])
    return {key: log for key, log in logs.items() if log is not None}


def cgroups_of(cluster):
    """Our groups of this run's nodes that hold a process."""
    found = []
    for root, directories, _ in os.walk("/sys/fs/cgroup"):
        if root.count("/") > 8:
            directories.clear()
        for name in directories:
            if any(name == f"launch-{node}" for node in cluster.nodes):
                found.append(pathlib.Path(root) / name)
    populated = []
    for group in found:
        for procs in group.rglob("cgroup.procs"):
            try:
                if procs.read_text().split():
                    populated.append(str(procs.parent))
            except OSError:
                continue
    return populated


def remove_cgroups(cluster):
    for root, directories, _ in os.walk("/sys/fs/cgroup"):
        for name in [d for d in directories if any(d == f"launch-{node}" for node in cluster.nodes)]:
            for group, _, _ in os.walk(pathlib.Path(root) / name, topdown=False):
                try:
                    os.rmdir(group)
                except OSError:
                    pass


def held_locks(directory):
    held = []
    for path in sorted(pathlib.Path(directory).glob("gpu-*.lock")):
        with open(path) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                held.append(str(path))
    return held


def check_store(cluster, state):
    """What is wrong with a stopped controller's store: SQLite's own check, then ours of every row and event."""
    wrong = []
    try:
        with contextlib.closing(sqlite3.connect(pathlib.Path(state) / "store.db")) as database:
            wrong += [f"store.db: {row[0]}" for row in database.execute("PRAGMA integrity_check") if row[0] != "ok"]
    except sqlite3.DatabaseError as error:
        wrong.append(f"store.db: {error}")
    done = subprocess.run([cluster.bin / "launch-controller", "check", "--state", state], env=cluster.environment,
                          capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        wrong.append(f"check of the store: exit {done.returncode}: {done.stderr.strip()[-400:]}")
    return wrong


def read_restarts(events):
    """(job, attempt) of each event that says that the next attempt begins in the place of this one."""
    last, restarts = {}, []
    for event in events:
        what, _, number = event["subject"].partition("/")
        if event["kind"] == "attempt.ended" and what == "attempt":
            job, _, attempt = number.partition(".")
            last[job] = int(attempt)
        elif event["kind"] == "job.restarts":
            restarts.append((number, last[number]))
        elif event["kind"] == "job.leaves_place":
            restarts = [restart for restart in restarts if restart != (number, last.get(number))]
    return restarts


def read_fences(events, statuses):
    """Each fence of a node with the attempts that ran there alone, and which of them had ended when the node was back."""
    alone = {(job, a["attempt"]): a["nodes"][0] for job, status in statuses.items() for a in status["attempts"]
             if len(a["nodes"]) == 1}
    running, fences, away = set(), [], {}
    for event in events:
        what, _, name = event["subject"].partition("/")
        if what == "attempt":
            job, _, attempt = name.partition(".")
            key = (job, int(attempt))
            if event["kind"] == "attempt.running":
                running.add(key)
            elif event["kind"] == "attempt.ended":
                running.discard(key)
                for fence in away.values():
                    fence.ended.add(key)
        elif event["kind"] == "node.fenced" and name not in away:
            away[name] = Fence(name, {key for key in running if alone.get(key) == name}, set())
            fences.append(away[name])
        elif event["kind"] == "node.attached":
            away.pop(name, None)
    return fences


OF_LEASE = "its node was cut off for longer than requeue_after"


def read_ended_by_lease(events):
    """(job, attempt) of which a rank is said to have ended itself with its lease."""
    found = set()
    for event in events:
        what, _, name = event["subject"].partition("/")
        if what == "attempt" and OF_LEASE in event["text"]:
            job, _, attempt = name.partition(".")
            found.add((job, int(attempt)))
    return sorted(found)


def read_leases_over(events):
    """(job, attempt, node) of each part whose lease is said to be over."""
    over = []
    for event in events:
        if event["kind"] == "allocation.lease_over":
            job, _, attempt = event["subject"].partition("/")[2].partition(".")
            over.append((job, int(attempt), event["text"].split()[0]))
    return over


def gather_living(cluster, clients, seconds):
    def ask(*words):
        return cluster.patiently(" ".join(words), lambda: cluster.json(*words), seconds)

    unsettled, restless = settle(cluster, clients, seconds)
    starts, ends, overlaps = read_ledger(cluster.ledger)
    printed = read_printed(cluster.ledger)
    before = {str(job["id"]): job["state"] for job in ask("queue", "-a")["jobs"]}
    cluster.restart_store()
    queue = [(str(job["id"]), job["name"]) for job in ask("queue", "-a")["jobs"]]
    statuses = {job: ask("status", job) for job, _ in queue}
    cluster.wait_for_nodes()
    lines = cluster.patiently("events", lambda: cluster.launch("events", "-o", "json", code=0).stdout, seconds)
    events = [json.loads(line) for line in lines.splitlines()]
    quarantined = [(node["node"], gpu["uuid"], gpu["quarantined"]) for node in ask("nodes")["nodes"]
                   for gpu in node["gpus"] if gpu["quarantined"]]
    return Evidence(
        asked=clients.asked, statuses=statuses, before_restart=before, queue=queue, starts=starts, ends=ends, overlaps=overlaps,
        printed=printed, logs=read_logs(cluster, printed), unsettled=unsettled, deaths=[], processes=[], cgroups=[],
        held_locks=[], quarantined=quarantined, store=[], clients=restless, restarts=read_restarts(events),
        fences=read_fences(events, statuses), leases_over=read_leases_over(events),
        ended_by_lease=read_ended_by_lease(events),
        controller_starts=list(cluster.programs["controller"].starts))


def gather_machine(cluster, evidence):
    """After the ranks have ended, with agents that may still run."""
    evidence.processes = [(pid, name) for pid, name in cluster.processes() if name in ("ledger_rank", "launch-shim", "launch")]
    evidence.cgroups = cgroups_of(cluster)
    evidence.held_locks = held_locks(cluster.locks)


def gather_stopped(cluster, evidence):
    stuck = cluster.stop()
    evidence.clients += [f"{name} did not stop within a minute of SIGTERM" for name in stuck]
    evidence.deaths = [(program.name, *death) for program in cluster.programs.values() for death in program.deaths]
    gather_machine(cluster, evidence)
    evidence.processes = cluster.processes()
    evidence.store = check_store(cluster, cluster.programs["controller"].disk / "state")
