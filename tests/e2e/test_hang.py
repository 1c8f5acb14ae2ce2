"""A job that stands still: noticed, explained by the stacks of its ranks, restarted where asked."""

import re
import textwrap

import pytest

from conftest import VENV, wait_until

TRAIN = """
    import os, sys, time
    import torch, torch.distributed as dist

    def load_batch():
        time.sleep(3600)

    def train(rank, loops):
        value = torch.ones(1)
        for step in range(3):
            dist.all_reduce(value)
            print(f"step {step + 1}/1000", flush=True)
        if os.path.exists("healed"):
            return
        if rank == 1:
            late()
        dist.all_reduce(value)

    dist.init_process_group("gloo")
    late = {"sleeps": load_batch, "barrier": dist.barrier}[sys.argv[1]]
    open(f"started.{os.environ['LAUNCH_ATTEMPT']}", "w").close()
    train(dist.get_rank(), 3)
    os._exit(0)
    """


def start(cluster, how, action, nodes=1, run=None):
    cluster.write("train.py", textwrap.dedent(TRAIN))
    job_file = cluster.write("job.yaml", textwrap.dedent(f"""\
        name: hangs
        gpus: 0
        nodes: {nodes}
        procs_per_node: {3 if nodes == 1 else 1}
        preflight: {{level: none}}
        hang: {{after: 6s, action: {action}}}
        run: {run or f"{VENV}/bin/python train.py {how}"}
        """))
    return cluster.submit(job_file)


def judged(cluster, job):
    return wait_until("the verdict", lambda: cluster.status(job)["attempts"][0]["verdict"], 60)


def test_the_rank_that_sleeps_is_named_while_the_job_goes_on_hanging(cluster):
    cluster.up("--sample-period", "200ms")
    job = start(cluster, "sleeps", "diagnose")
    verdict = judged(cluster, job)
    assert (verdict["label"], verdict["confidence"], verdict["rank"]) == ("hang", "confirmed", 1)
    assert re.fullmatch(r"Rank 1 did not come to all_reduce, in which ranks 0 and 2 wait: it is at "
                        r"train.py:\d+ \(load_batch\)", verdict["cause"])
    assert any("in all_reduce, called at" in line for line in verdict["evidence"])
    status = cluster.status(job)
    assert status["state"] == "RUNNING", "action: diagnose ends nothing"
    assert [f for f in status["findings"] if f["code"] == "hang"]
    assert cluster.json("why", job) == {"version": 1, **verdict}
    why = cluster.launch("why", job).stdout
    assert why.startswith("verdict   hang (confirmed), rank 1 on") and "load_batch" in why
    text = [e["text"] for e in cluster.events() if e["kind"] == "rank.stands"]
    assert len(text) >= 3 and sum("in all_reduce" in line for line in text[-3:]) == 2
    name = cluster.launch("bundle", job).stdout.strip()
    assert b"load_batch" in (cluster.work / name).read_bytes()
    cluster.launch("cancel", job)


def test_a_collective_that_differs_is_called_an_error_of_the_program(cluster):
    cluster.up("--nodes", 2, "--sample-period", "200ms")
    job = start(cluster, "barrier", "restart", nodes=2)
    cluster.wait_for(job, "FAILED", timeout=60)
    status = cluster.status(job)
    (attempt,) = status["attempts"]
    verdict = attempt["verdict"]
    assert (verdict["label"], verdict["action"]) == ("collective_mismatch", "no_retry")
    assert "in barrier" in verdict["cause"] and "in all_reduce" in verdict["cause"]
    assert "hang" in status["outcome"], "it ends the same way each time"


def test_a_job_that_hangs_is_restarted_where_the_file_says_so(cluster):
    cluster.up("--sample-period", "200ms")
    job = start(cluster, "sleeps", "restart")
    wait_until("the hang", lambda: [e for e in cluster.events() if e["kind"] == "rank.stands"], 60)
    (cluster.work / "healed").touch()
    cluster.wait_for(job, "SUCCEEDED", timeout=60)
    first, second = cluster.status(job)["attempts"]
    assert first["outcome"] == "hang" and first["verdict"]["rank"] == 1
    assert second["outcome"] == "success" and second["verdict"] is None


@pytest.mark.parametrize("flags", ["", "-S"])
def test_a_silent_program_without_ranks_says_where_it_stands(cluster, flags):
    """With -S Python does not load our hook: the kernel's side is all there is, and nothing dies."""
    cluster.up("--sample-period", "200ms")
    cluster.write("quiet.py", "import time\n\ndef nap():\n    time.sleep(3600)\n\nnap()\n")
    job = start(cluster, "", "diagnose", run=f"{VENV}/bin/python {flags} quiet.py")
    verdict = judged(cluster, job)
    assert verdict["label"] == "hang"
    if flags:
        assert verdict["confidence"] == "symptom"
        assert any("nanosleep" in line for line in verdict["evidence"]), verdict
    else:
        assert "quiet.py:4 (nap)" in verdict["cause"]
    assert cluster.state_of(job) == "RUNNING"
    cluster.launch("cancel", job)


def test_the_users_own_sitecustomize_runs_and_a_working_program_is_left_alone(cluster):
    cluster.up("--sample-period", "200ms")
    hooks = cluster.work / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text("mine = True\n")
    cluster.write("works.py", textwrap.dedent("""\
        import sitecustomize, time
        assert sitecustomize.mine
        end = time.monotonic() + 6
        while time.monotonic() < end:
            pass
        """))
    job_file = cluster.write("job.yaml", textwrap.dedent(f"""\
        name: works
        gpus: 0
        env: {{PYTHONPATH: {hooks}}}
        hang: {{after: 2s, action: restart}}
        run: {VENV}/bin/python works.py
        """))
    job = cluster.submit(job_file)
    cluster.wait_for(job, "SUCCEEDED", timeout=60)
    assert len(cluster.status(job)["attempts"]) == 1
    assert not [e for e in cluster.events() if e["kind"] == "attempt.hang"]
