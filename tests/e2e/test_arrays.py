"""Many jobs of one file, jobs that wait for others, and changes to jobs that wait."""

import signal
import time

from conftest import wait_until

JOB = "name: train\ndevice: cpu\ngpus: 0\ncpus: 1\nstop_duration: 5s\n"


def ids(cluster, *names):
    return [job["id"] for job in cluster.json("queue", *names)["jobs"]]


def test_a_sweep_is_a_job_for_each_point_listed_and_waited_for_together(cluster):
    cluster.up()
    job = cluster.write("sweep.yaml", JOB + """\
sweep: {lr: [1e-5, 3e-5], seed: [1, 2]}
run: |
  echo "$LAUNCH_ARRAY_ID $LAUNCH_ARRAY_INDEX lr=$lr seed=$seed"
  exit $((LAUNCH_ARRAY_INDEX == 2 ? 9 : 0))
""")
    plan = cluster.json("plan", job)
    assert plan["assignments"][0]["env"]["lr"] == "1e-5", "the plan is that of the first"
    done = cluster.launch("submit", job, "--wait", code=9, timeout=120)
    array = done.stdout.split()[0]
    rows = cluster.json("queue", array)["jobs"]
    assert [row["name"] for row in rows] == ["train_0", "train_1", "train_2", "train_3"]
    assert [row["exit_code"] for row in rows] == [0, 0, 9, 0]
    assert {row["array"] for row in rows} == {int(array)}
    out = cluster.launch("logs", f"{array}_3", "--no-prefix").stdout
    assert out == f"{array} 3 lr=3e-5 seed=2\n"
    assert "train_2" in cluster.launch("status", array).stdout
    assert "name one of them" in cluster.launch("logs", array, code=2).stderr


def test_a_dependency_starts_after_success_and_ends_after_a_failure(cluster):
    cluster.up()
    first = cluster.submit(cluster.write("a.yaml", JOB + "run: while [ ! -e go ]; do sleep 0.1; done\n"))
    job = cluster.write("b.yaml", JOB + "run: exit 3\n")
    second = cluster.submit(job, "--dependency", f"afterok:{first}")
    third = cluster.submit(job, "--dependency", f"afterok:{second}")
    last = cluster.submit(cluster.write("c.yaml", JOB + f"depends_on: [afterany:{third}]\nrun: echo cleanup\n"))
    cluster.wait_for(first, "RUNNING")
    text = cluster.launch("queue").stdout
    assert f"(Dependency: afterok:{first}: job {first} is RUNNING)" in text, text
    (cluster.work / "go").touch()
    cluster.wait_for(last, "SUCCEEDED", timeout=60)
    status = cluster.status(third)
    assert (status["state"], status["sub_reason"]) == ("FAILED", "DEPENDENCY")
    assert status["outcome"] == f"afterok:{second} can never be met: job {second} is FAILED"
    assert "no job 99" in cluster.launch("submit", job, "--dependency", "99", code=2).stderr


def test_an_array_is_cancelled_as_one_and_held_jobs_wait_for_their_release(cluster):
    cluster.up()
    job = cluster.write("a.yaml", JOB + "run: sleep 300\n")
    array = cluster.submit(job, "--array", "1-3%1")
    wait_until("the first runs", lambda: cluster.state_of(f"{array}_1") == "RUNNING")
    assert {row["reason"]["code"] for row in cluster.json("queue", array)["jobs"][1:]} == {"JobArrayTaskLimit"}
    cluster.launch("hold", f"{array}_2")
    cluster.launch("requeue", f"{array}_1", "--hold")
    wait_until("the third runs", lambda: cluster.state_of(f"{array}_3") == "RUNNING", 60)
    assert cluster.state_of(f"{array}_1") == "REQUEUED"
    cluster.launch("cancel", array, timeout=60)
    assert {row["state"] for row in cluster.json("queue", array)["jobs"]} == {"CANCELLED"}
    later = cluster.submit(cluster.write("b.yaml", JOB + "run: echo ran\n"), "--begin", "now+1h")
    assert cluster.status(later)["reason"]["code"] == "BeginTime"
    cluster.launch("update", later, "begin=now", "priority=70")
    cluster.wait_for(later, "SUCCEEDED")
    assert cluster.json("queue", later)["jobs"][0]["priority"] == 70


def test_nodes_of_a_waiting_job_are_changed(cluster):
    cluster.up("--nodes", "2")
    text = JOB + "nodes: 1\nprocs_per_node: 1\nrun: echo rank $RANK of $WORLD_SIZE\n"
    job = cluster.submit(cluster.write("a.yaml", text), "--hold")
    for change, says in (("colour=red", "unknown field `colour`"), ("partition=gpu", "`partition` cannot be changed")):
        said = cluster.launch("update", job, change, code=2).stderr
        assert says in said and "priority, time, begin and nodes can be changed" in said, said
    cluster.launch("update", job, "nodes=2")
    cluster.launch("release", job)
    cluster.wait_for(job, "SUCCEEDED")
    assert len(cluster.status(job)["attempts"][0]["nodes"]) == 2
    out = cluster.launch("logs", job, "--no-prefix").stdout
    assert sorted(out.splitlines()) == ["rank 0 of 2", "rank 1 of 2"], out


def test_errors_of_a_log_and_nothing_older(cluster):
    cluster.up()
    cluster.write("t.py", "print('step 1', flush=True)\nimport time\ntime.sleep(3)\nprint('step 2', flush=True)\nraise ValueError('no')\n")
    job = cluster.write("a.yaml", JOB + "run: python3 t.py\n")
    number = cluster.launch("submit", job, "--wait", code=1).stdout.strip()
    lines = cluster.launch("logs", number, "--errors", "--no-prefix").stdout.splitlines()
    assert lines[0].startswith("Traceback") and lines[-1] == "ValueError: no" and "step 1" not in lines
    ended = cluster.status(number)
    assert ended["attempts"][0]["attempt"] == 1
    assert "step 1" in cluster.launch("logs", number, "--since", "1h").stdout
    assert cluster.launch("logs", number, "--since", "1ms").stdout == ""


def test_ctrl_c_before_the_submit_leaves_no_job(cluster):
    cluster.up()
    import os
    os.kill(cluster.controller_pid(), signal.SIGSTOP)
    try:
        run = cluster.spawn("run", "--device", "cpu", "--", "sleep", "300")
        time.sleep(1)
        run.send_signal(signal.SIGINT)
        time.sleep(0.5)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=20)
    finally:
        os.kill(cluster.controller_pid(), signal.SIGCONT)
    assert run.returncode == 130, (out, err)
    assert "left" in err
    # What had left before the signal came may be there; it can be seen and cancelled.
    for job in cluster.json("queue")["jobs"]:
        cluster.launch("cancel", str(job["id"]), timeout=60)


def test_an_sbatch_script_is_imported_and_runs(cluster):
    cluster.up()
    cluster.write("job.sbatch", """\
#!/bin/bash
#SBATCH --job-name=old --time=10
#SBATCH -N 1 --ntasks-per-node=2
#SBATCH -p gpu
#SBATCH --array=5-6
srun --label python3 -c "import os; print('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'], 'task', $SLURM_ARRAY_TASK_ID)"
""")
    made = cluster.launch("import", "job.sbatch")
    assert "partition gpu is dropped" in made.stderr
    job = cluster.write("job.yaml", made.stdout)
    array = cluster.launch("submit", job, "--device", "cpu", "--wait", timeout=120).stdout.split()[0]
    out = cluster.launch("logs", f"{array}_6", "--no-prefix").stdout
    assert sorted(out.splitlines()) == ["rank 0 of 2 task 6", "rank 1 of 2 task 6"], out
    refused = cluster.launch("import", cluster.write("d.yaml", "type: task\ncommands: [a]\n"), code=2)
    assert "dstack" in refused.stderr
