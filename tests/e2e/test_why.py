"""Why a job failed: the verdict from its exit reports and logs, and on a log from elsewhere."""

import json
import re
import tarfile
import textwrap

from conftest import VENV

OOM = (
    "CUDA out of memory. Tried to allocate 4.15 GiB. GPU 0 has a total capacity of 44.53 GiB of "
    "which 3.84 GiB is free. Process 9 has 40.68 GiB memory in use. Of the allocated memory "
    "36.78 GiB is allocated by PyTorch, and 3.56 GiB is reserved by PyTorch but unallocated."
)


def submit(cluster, program, processes=1):
    cluster.write("rank.py", textwrap.dedent(program))
    job_file = cluster.write(
        "job.yaml",
        f"name: why\ngpus: 0\nprocs_per_node: {processes}\nrun: {VENV}/bin/python rank.py\n",
    )
    return cluster.submit(job_file)


def test_the_rank_that_ran_out_of_memory_is_named_not_the_one_that_missed_it(cluster):
    cluster.up()
    job = submit(
        cluster,
        f"""
        import os, time
        print("step 1 loss 2.0", flush=True)
        if os.environ["RANK"] == "1":
            raise RuntimeError({OOM!r})
        time.sleep(60)
        """,
        processes=2,
    )
    cluster.wait_for(job, "OUT_OF_MEMORY")
    verdict = cluster.json("why", job, "--attempt", 1)
    assert verdict.pop("version") == 1
    assert verdict["label"] == "cuda_oom_fragmentation"
    assert verdict["rank"] == 1
    assert verdict["action"] == "retry_with_change"
    assert "expandable_segments" in verdict["remedy"]
    first, second = cluster.status(job)["attempts"]
    assert first["verdict"] == verdict
    assert second["verdict"]["label"] == verdict["label"]
    assert "expandable segments are already on" in second["verdict"]["remedy"]
    assert "cuda_oom_fragmentation" in cluster.launch("status", job).stdout
    (done,) = cluster.json("history")["jobs"]
    assert done["verdict"]["label"] == second["verdict"]["label"] and done["verdict"]["confidence"] == "likely"
    assert "cuda_oom_fragmentation (likely)" in cluster.launch("history").stdout


def test_a_sigkill_from_outside_is_not_called_out_of_memory(cluster):
    cluster.up()
    job = submit(cluster, "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    cluster.wait_for(job, "FAILED")
    verdict = cluster.json("why", job)
    assert verdict["label"] == "sigkill_unknown"
    assert verdict["confidence"] == "unknown"


def test_a_cancelled_job_and_a_good_one_have_no_verdict(cluster):
    cluster.up()
    good = submit(cluster, "print('CUDA out of memory. Tried to allocate 2.00 GiB')")
    cluster.wait_for(good, "SUCCEEDED")
    assert cluster.launch("why", good).stdout == f"job {good} succeeded: nothing of it has failed\n"
    assert cluster.json("why", good)["label"] == "none"
    assert cluster.status(good)["attempts"][-1]["verdict"] is None
    job = submit(cluster, "import time; time.sleep(60)")
    cluster.wait_for(job, "RUNNING")
    cluster.launch("cancel", job)
    assert cluster.status(job)["attempts"][-1]["verdict"] is None


def test_a_log_from_elsewhere_needs_no_cluster(cluster):
    log = cluster.write("run.log", f"[rank3]: torch.OutOfMemoryError: {OOM}\n")
    verdict = cluster.json("diagnose", "--log", log, "--exit-code", 1)
    assert verdict["label"] == "cuda_oom_fragmentation"
    assert verdict["rank"] == 3
    assert cluster.json("diagnose", "--log", log, "--exit-code", 0)["label"] == "none"
    piped = cluster.launch("diagnose", "--log", "-", "-o", "json", stdin=log.read_text())
    assert json.loads(piped.stdout)["label"] == verdict["label"]
    cluster.launch("diagnose", "--log", "nowhere.log", code=2)


def test_the_verdict_stays_with_the_attempt_when_logs_and_controller_are_gone(cluster):
    cluster.up()
    job = submit(
        cluster,
        """
        import os, time
        if os.environ["RANK"] == "1":
            import no_such_module_of_ours
        time.sleep(60)
        """,
        processes=2,
    )
    cluster.wait_for(job, "FAILED")
    verdict = cluster.status(job)["attempts"][-1]["verdict"]
    assert (verdict["label"], verdict["rank"]) == ("python_import", 1)
    kinds = [event["kind"] for event in cluster.events()]
    assert kinds.index("attempt.diagnosed") < kinds.index("attempt.ended")

    cluster.kill(cluster.controller_pid())
    logs = [path for path in cluster.state.rglob("*") if path.is_file() and
            path.stat().st_size and b"no_such_module_of_ours" in path.read_bytes()
            and "controller" not in path.relative_to(cluster.state).parts[0]]
    assert logs
    for log in logs:
        log.unlink()
    cluster.up()
    assert cluster.json("why", job) == {"version": 1, **verdict}
    assert cluster.status(job)["attempts"][-1]["verdict"] == verdict


def test_a_bundle_has_what_a_bug_report_needs_and_no_secrets(cluster):
    cluster.up()
    cluster.write("rank.py", textwrap.dedent("""\
        import os
        print("token is " + os.environ["HF_TOKEN"], flush=True)
        import no_such_module_of_ours
        """))
    job = cluster.submit(cluster.write("job.yaml", textwrap.dedent(f"""\
        name: why
        gpus: 0
        env: {{HF_TOKEN: plain-looking-value}}
        run: {VENV}/bin/python rank.py
        """)))
    cluster.wait_for(job, "FAILED")
    name = cluster.launch("bundle", job).stdout.strip()
    with tarfile.open(cluster.work / name) as archive:
        texts = {m.name: archive.extractfile(m).read().decode() for m in archive.getmembers()}
    assert set(texts) == {"README", "job.json", "events.jsonl", "nodes.json", "attempt-1/rank-0.log"}
    assert not [n for n, text in texts.items() if "plain-looking-value" in text]
    mark = texts["attempt-1/rank-0.log"].split("token is ")[1].split()[0]
    assert re.fullmatch(r"\[removed\]#[0-9a-f]{6}", mark), mark
    assert json.loads(texts["job.json"])["attempts"][0]["env"]["HF_TOKEN"] == mark, "one secret, one mark"
    again = cluster.launch("bundle", job, "--file", "again.tar").stdout.strip()
    assert mark.encode() not in (cluster.work / again).read_bytes(), "a mark of this bundle alone"
    assert json.loads(texts["job.json"])["attempts"][0]["verdict"]["label"] == "python_import"
    assert "File exists" in cluster.launch("bundle", job, code=None).stderr
    # What the job calls a secret is deleted with its end: who does not have it gets no logs.
    secret = cluster.write("secret.yaml", "name: secret\ngpus: 0\nsecrets: [PIN]\nrun: echo pin is $PIN; exit 1\n")
    hidden = cluster.launch("submit", secret, "--parsable", env={"PIN": "no-secret-by-its-looks"}).stdout.strip()
    cluster.wait_for(hidden, "FAILED")
    done = cluster.launch("bundle", hidden)
    assert "PIN" in done.stderr and "--unredacted-logs" in done.stderr
    assert b"no-secret-by-its-looks" not in (cluster.work / done.stdout.strip()).read_bytes()
    known = cluster.launch("bundle", hidden, "--file", "known.tar", env={"PIN": "no-secret-by-its-looks"})
    data = (cluster.work / "known.tar").read_bytes()
    assert b"no-secret-by-its-looks" not in data and b"pin is [removed]" in data, known.stderr
    cluster.down()
    assert cluster.json("diagnose", "--log", name)["label"] == "python_import"
    # Of an archive that came by mail, a number that no rank has is none.
    changed = json.loads(texts["job.json"])
    changed["attempts"][0]["verdict"]["rank"] = 1e300
    (cluster.work / "job.json").write_text(json.dumps(changed))
    with tarfile.open(cluster.work / "changed.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
        archive.add(cluster.work / "job.json", "job.json")
    assert cluster.json("diagnose", "--log", "changed.tar")["rank"] is None
