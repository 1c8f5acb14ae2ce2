#!/usr/bin/env python3
"""Clean runs of the examples must raise nothing: no finding above notice, no verdict, no memory warning.

    LAUNCH_BIN=build/release/bin PYTHON tests/e2e/clean_runs.py RUNS      PYTHON has torch

Runs the jobs of configs/jobs in turn, at every level of preflight, on a cluster of two agents of this
machine; prints one line a false alarm and one line of figures; ends with 1 if there was any alarm.
"""

import itertools
import json
import pathlib
import shutil
import sys
import tempfile
import time

from conftest import ROOT, VENV, Cluster

EXAMPLES = ROOT / "configs/jobs"
ALARMS = ("attempt.diagnosed", "attempt.gpu_memory_high", "attempt.host_memory_high", "attempt.memory_trend")
VARIANTS = [
    (example, level, extra)
    for level in ("quick", "full", "none")
    for example, extra in (("hello.yaml", ()), ("ddp.yaml", ("--venv", VENV)), ("torchrun.yaml", ("--venv", VENV)))
]


def loud(findings):
    return [f"{f['code']} on {f['node']}: {f['says']}" for f in findings if f["severity"] != "notice"]


def run_one(cluster, number, example, level, extra):
    """What was said of one run that went well: one sentence each."""
    arguments = [example, "--preflight", level, "-e", f"RUN_DIR=out/clean-{number}", *extra]
    said = []
    check = json.loads(cluster.launch("check", *arguments, "-o", "json", code=None, timeout=1200).stdout)
    said += [f"check: {text}" for text in loud(check["findings"])]
    job = cluster.launch("submit", *arguments, "--parsable").stdout.strip()
    waited = cluster.launch("wait", job, code=None, timeout=1200)
    status = cluster.status(job)
    if waited.returncode != 0 or status["state"] != "SUCCEEDED":
        said.append(f"ended {status['state']}: {waited.stderr[-500:]}")
    said += [f"status: {text}" for text in loud(status["findings"])]
    said += [f"verdict {a['verdict']['label']}" for a in status["attempts"] if a.get("verdict")]
    said += [f"event {e['kind']}: {e['text']}" for e in cluster.events()
             if e["kind"] in ALARMS and e["subject"].startswith(f"attempt/{job}.")]
    log = cluster.work / f"log-{number}"
    log.write_text(cluster.launch("logs", job).stdout)
    verdict = json.loads(cluster.launch("diagnose", "--log", log, "--exit-code", "0", "-o", "json", code=None).stdout)
    if verdict.get("label") not in (None, "", "none"):
        said.append(f"diagnose: {verdict['label']}")
    return said


def campaign(cluster, runs):
    """(sentences, runs done) of `runs` runs on a cluster that is up; its work directory gets the examples."""
    for path in EXAMPLES.iterdir():
        if path.is_file():  # what runs of the examples left stays behind
            shutil.copy(path, cluster.work)
    said = []
    for number, (example, level, extra) in zip(range(runs), itertools.cycle(VARIANTS)):
        for text in run_one(cluster, number, example, level, extra):
            said.append(f"run {number} {example} {level}: {text}")
            print(said[-1], flush=True)
    return said


def main():
    runs = int(sys.argv[1])
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as home:
        work = pathlib.Path(home) / "work"
        work.mkdir()
        cluster = Cluster(pathlib.Path(home) / "state", work)
        cluster.up("--nodes", 2, "--interpreter", VENV / "bin/python")
        try:
            said = campaign(cluster, runs)
        finally:
            cluster.down()
    print(f"{runs} clean runs in {time.monotonic() - begin:.0f} s: {len(said)} false alarms")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
