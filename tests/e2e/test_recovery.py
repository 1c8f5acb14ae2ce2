"""What the launcher does about a failure: the plan after an out-of-memory error, and the limits."""

import subprocess
import textwrap

from conftest import VENV

OOM = (
    "CUDA out of memory. Tried to allocate 4.15 GiB. GPU 0 has a total capacity of 44.53 GiB of "
    "which 3.84 GiB is free. Including non-PyTorch memory, this process has 40.68 GiB memory in "
    "use. Of the allocated memory 36.78 GiB is allocated by PyTorch, and 3.56 GiB is reserved by "
    "PyTorch but unallocated."
)

# Trains five epochs of four steps on fixed samples, saves each epoch, and runs out of GPU memory in
# the fifth unless the micro-batch is 1.
TRAIN = textwrap.dedent(f"""\
    import os, sys, torch
    micro = int(os.environ["LAUNCH_MICRO_BATCH"])
    accum = int(os.environ["LAUNCH_GRAD_ACCUM"])
    out = os.environ["LAUNCH_CHECKPOINT_DIR"]
    resume = os.environ.get("LAUNCH_RESUME_FROM", "")
    torch.manual_seed(0)
    x = torch.randn(32, 16)
    y = x @ torch.randn(16, 1)
    model = torch.nn.Linear(16, 1)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
    epoch = 0
    if resume:
        state = torch.load(os.path.join(resume, "state.pt"))
        model.load_state_dict(state["model"])
        opt.load_state_dict(state["opt"])
        epoch = state["epoch"]
        print(f"resumed after epoch {{epoch}}", flush=True)
    while epoch < 5:
        for step in range(4):
            part = slice(step * 8, step * 8 + 8)
            opt.zero_grad()
            total = 0.0
            assert micro * accum == 8
            for xs, ys in zip(x[part].split(micro), y[part].split(micro)):
                if epoch == 4 and step == 2 and micro > 1:
                    raise torch.OutOfMemoryError({OOM!r})
                loss = torch.nn.functional.mse_loss(model(xs), ys, reduction="sum") / 8
                loss.backward()
                total += loss.item()
            opt.step()
            print(f"loss {{epoch * 4 + step}} {{total:.7f}}", flush=True)
        epoch += 1
        d = os.path.join(out, f"checkpoint-{{epoch}}")
        os.makedirs(d + ".tmp", exist_ok=True)
        torch.save({{"model": model.state_dict(), "opt": opt.state_dict(), "epoch": epoch}},
                   d + ".tmp/state.pt")
        open(d + ".tmp/trainer_state.json", "w").write('{{"global_step": %d}}' % epoch)
        os.rename(d + ".tmp", d)
    """)


def job_file(cluster, run, extra=""):
    cluster.write("train.py", TRAIN)
    return cluster.write("job.yaml", textwrap.dedent(f"""\
        name: oom
        device: cpu
        gpus: 0
        venv: {VENV}
        preflight: {{level: none}}
        batch: {{global: 8, micro: 2}}
        checkpoint: {{dir: out, resume: auto}}
        run: {run}
        """) + extra)


def losses(cluster, job, attempt):
    out = cluster.launch("logs", job, "--attempt", attempt, "--no-prefix").stdout
    return {int(line.split()[1]): float(line.split()[2])
            for line in out.splitlines() if line.startswith("loss ")}


def test_S004_3_out_of_memory_at_epoch_5_ends_well(cluster):
    cluster.up()
    job = cluster.submit(job_file(cluster, "python train.py"))  # which reads the variables
    undisturbed = cluster.submit(quiet(cluster))
    cluster.wait_for(job, "SUCCEEDED", "FAILED", timeout=90)
    status = cluster.status(job)
    assert status["state"] == "SUCCEEDED", status
    first, second = status["attempts"]
    assert first["verdict"]["label"] == "cuda_oom_fragmentation"
    assert "micro-batch 2 -> 1, accumulation 4 -> 8" in second["change"]
    env = second["env"]
    assert (env["LAUNCH_MICRO_BATCH"], env["LAUNCH_GRAD_ACCUM"]) == ("1", "8")
    assert env["LAUNCH_GLOBAL_BATCH"] == "8"
    assert env["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    assert env["PYTORCH_ALLOC_CONF"] == "expandable_segments:True"
    assert second["resumed_from"].endswith("checkpoint-4")
    assert second["change"] in cluster.launch("status", job).stdout
    assert cluster.json("why", job) == {"version": 1, **first["verdict"]}
    why = cluster.launch("why", job).stdout
    assert why.startswith(f"job {job} succeeded; attempt 1 had failed:\n") and "nothing to do" in why, why
    (event,) = [e for e in cluster.events() if e["kind"] == "job.plan_changed"]
    assert event["text"] == second["change"]
    cluster.wait_for(undisturbed, "SUCCEEDED", timeout=90)
    expected = losses(cluster, undisturbed, 1)
    seen = {**losses(cluster, job, 1), **losses(cluster, job, 2)}
    assert sorted(seen) == sorted(expected) == list(range(20))
    assert all(abs(seen[step] - expected[step]) < 1e-5 for step in expected)


def quiet(cluster):
    """The same training where memory suffices: micro-batch 1 from the start."""
    text = (cluster.work / "job.yaml").read_text()
    text = text.replace("micro: 2", "micro: 1").replace("dir: out", "dir: undisturbed")
    return cluster.write("quiet.yaml", text)


def test_S004_3_a_batch_in_the_command_is_not_changed_behind_its_back(cluster):
    cluster.up()
    file = job_file(cluster, "python train.py --batch_size 2", "on_oom: replan\n")
    cluster.write("train.py", f"raise RuntimeError({OOM!r})\n")
    job = cluster.submit(file)
    cluster.wait_for(job, "SUCCEEDED", "FAILED", "OUT_OF_MEMORY", timeout=60)
    status = cluster.status(job)
    assert (status["state"], status["sub_reason"]) == ("OUT_OF_MEMORY", "GPU")
    first, second = status["attempts"]
    assert second["env"]["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
    assert second["batch"]["micro"] == first["batch"]["micro"] == 2
    assert "written into the command" in second["change"]
    assert "written into the command" in status["outcome"]


def test_S004_4_host_memory_gets_the_loader_to_give_way(cluster, nvml):
    cluster.up("--nvml-library", nvml.library, env=nvml.state("card44"))
    cluster.write("train.py", textwrap.dedent("""\
        import sys
        if sys.argv[1] == "true":
            raise RuntimeError("DataLoader worker (pid 4711) is killed by signal: Killed. ")
        """))
    job = cluster.submit(cluster.write("job.yaml", textwrap.dedent(f"""\
        name: loader
        gpus: 1
        preflight: {{level: none}}
        batch: {{global: 8, micro: 2}}
        run: {VENV}/bin/python train.py $LAUNCH_PIN_MEMORY $LAUNCH_NUM_WORKERS
        """)))
    cluster.wait_for(job, "SUCCEEDED", "FAILED", timeout=60)
    status = cluster.status(job)
    assert status["state"] == "SUCCEEDED", status
    first, second = status["attempts"]
    assert first["verdict"]["label"] == "dataloader_worker_killed"
    assert first["verdict"]["changes"] == ["num_workers: at most 2", "pin_memory: false"]
    assert second["env"]["LAUNCH_PIN_MEMORY"] == "false"
    assert int(second["env"]["LAUNCH_NUM_WORKERS"]) <= 2
    assert "without pinned memory" in second["change"]
    assert second["batch"] == first["batch"]


# Two saves of each trainer's layout by torch itself: the first is whole, the second was cut off.
SAVES = textwrap.dedent("""\
    import os, pathlib, sys, torch
    import torch.distributed.checkpoint as dcp

    state = {"model": torch.nn.Linear(8, 8).state_dict(), "step": torch.tensor(1)}

    def save(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(state, path)

    def shards(path):
        dcp.save(state, checkpoint_id=path)

    for whole, step in ((True, 100), (False, 200)):
        megatron = pathlib.Path("megatron")
        for rank in ("00", "01"):
            save(megatron / f"iter_{step:07d}/mp_rank_{rank}/model_optim_rng.pt")
        dist = pathlib.Path(f"megatron_dist/iter_{step:07d}")
        save(dist / "common.pt")
        shards(dist)
        (dist / "metadata.json").write_text("{}")
        olmo = pathlib.Path(f"olmo/step{step}")
        save(olmo / "train/rank0.pt")
        shards(olmo / "model_and_optim")
        nemo = pathlib.Path(f"nemo/default--val_loss=0.31-step={step}-consumed_samples=8.0")
        shards(nemo / "weights")
        (nemo / "context").mkdir()
        (nemo / "context/io.json").write_text("{}")
        if whole:
            for path in (megatron, dist.parent):
                (path / "latest_checkpointed_iteration.txt").write_text(str(step))
            (olmo / ".metadata.json").write_text("{}")
        else:
            last = megatron / f"iter_{step:07d}/mp_rank_01/model_optim_rng.pt"
            os.truncate(last, last.stat().st_size - 40)
            (olmo / "model_and_optim/__0_0.distcp").unlink()
            (nemo / "weights/.metadata").unlink()
    """)


def test_S004_3_goes_on_from_the_newest_whole_save_of_each_trainer(cluster):
    cluster.up()
    cluster.write("saves.py", SAVES)
    subprocess.run([VENV / "bin/python", "saves.py"], cwd=cluster.work, check=True, timeout=120)
    layouts = {
        "megatron": ("iter_0000100", "mp_rank_01/model_optim_rng.pt has no end record"),
        "megatron_dist": ("iter_0000100", "latest_checkpointed_iteration.txt names iteration 100"),
        "olmo": ("step100", "model_and_optim/__0_0.distcp is missing"),
        "nemo": ("default--val_loss=0.31-step=100-consumed_samples=8.0",
                 "weights/.metadata is missing"),
    }
    jobs = {}
    for name in layouts:
        jobs[name] = cluster.submit(cluster.write(f"{name}.yaml", textwrap.dedent(f"""\
            name: {name}
            device: cpu
            gpus: 0
            preflight: {{level: none}}
            checkpoint: {{dir: {name}}}
            run: echo from $LAUNCH_RESUME_FROM
            """)))
    for name, (newest, why) in layouts.items():
        cluster.wait_for(jobs[name], "SUCCEEDED", timeout=60)
        said = cluster.launch("logs", jobs[name], "--no-prefix").stdout
        assert f"from {cluster.work / name / newest}" in said.splitlines()
        skipped = [e["text"] for e in cluster.events()
                   if e["kind"] == "checkpoint.skipped" and f"/{name}/" in e["text"]]
        assert skipped and why in skipped[0], skipped
