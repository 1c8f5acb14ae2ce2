"""Warnings while a job runs: memory that gets scarce, and growth that will exhaust it."""

import pathlib
import re
import textwrap

from conftest import VENV, wait_until

MIB_OF_CARD = 45600  # of card44
EPOCH = 1.5  # s


def events(cluster, kind):
    return [e for e in cluster.events() if e["kind"] == kind]


def start(cluster):
    job_file = cluster.write("job.yaml", textwrap.dedent("""\
        name: watched
        gpus: 1
        preflight: {level: none}
        run: sleep 120
        """))
    job = cluster.submit(job_file)
    cluster.wait_for(job, "RUNNING")
    return job


def use(nvml, share):
    nvml.edit(lambda state: state["devices"][0]["memory"].update(used_mib=int(share * MIB_OF_CARD)))


def shown(cluster, job, code):
    return [f for f in cluster.status(job)["findings"] if f["code"] == code]


def gpu_share(cluster):
    (node,) = cluster.json("nodes")["nodes"]
    return (node["gpus"][0]["sample"] or {}).get("used_bytes", 0) / (MIB_OF_CARD * 2**20)


class Proc:
    """A /proc whose host memory the test sets; everything else is the real one."""

    def __init__(self, at):
        self.at = at
        at.mkdir()
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() and entry.name != "meminfo":
                (at / entry.name).symlink_to(entry)
        self.text = pathlib.Path("/proc/meminfo").read_text()
        self.total = int(re.search(r"MemTotal:\s+(\d+)", self.text)[1])
        self.use(0.1)

    def use(self, share):
        free = int(self.total * (1 - share))
        new = self.at / "meminfo.new"
        new.write_text(re.sub(r"MemAvailable:\s+\d+", f"MemAvailable: {free}", self.text))
        new.replace(self.at / "meminfo")


def test_S003_6_the_eighty_and_seventy_percent_lines(cluster, nvml, tmp_path):
    proc = Proc(tmp_path / "proc")
    cluster.up("--nvml-library", nvml.library, "--sample-period", "100ms", "--proc-root", proc.at,
               env=nvml.state("card44"))
    job = start(cluster)
    use(nvml, 0.79)
    proc.use(0.69)
    wait_until("79 %", lambda: gpu_share(cluster) > 0.78)
    assert not events(cluster, "attempt.gpu_memory_high")
    assert not events(cluster, "attempt.host_memory_high")
    use(nvml, 0.81)
    proc.use(0.71)
    wait_until("the GPU's line", lambda: events(cluster, "attempt.gpu_memory_high"))
    wait_until("the host's line", lambda: events(cluster, "attempt.host_memory_high"))
    assert shown(cluster, job, "gpu_memory_high") and shown(cluster, job, "host_memory_high")
    assert "gpu_memory_high" in cluster.launch("status", job).stdout
    use(nvml, 0.85)
    wait_until("85 %", lambda: gpu_share(cluster) > 0.84)
    assert len(events(cluster, "attempt.gpu_memory_high")) == 1
    assert len(events(cluster, "attempt.host_memory_high")) == 1
    assert cluster.state_of(job) == "RUNNING"


def test_S003_6_seventy_percent_of_the_memory_that_the_job_asked_for(cluster):
    cluster.up("--sample-period", "100ms")
    cluster.write("hold.py", textwrap.dedent("""\
        import time
        held = bytearray(240 << 20)
        time.sleep(120)
        """))
    jobs = {limit: cluster.submit(cluster.write(f"{limit}.yaml", textwrap.dedent(f"""\
        name: limited
        gpus: 0
        cpus: 1
        memory: {limit}
        run: {VENV}/bin/python hold.py
        """))) for limit in ("300MiB", "600MiB")}
    wait_until("the line of its own limit", lambda: events(cluster, "attempt.host_memory_high"))
    assert [e["subject"] for e in events(cluster, "attempt.host_memory_high")] == [f"attempt/{jobs['300MiB']}.1"]
    (finding,) = shown(cluster, jobs["300MiB"], "host_memory_high")
    assert "its own limit of 300" in finding["says"], finding
    assert not shown(cluster, jobs["600MiB"], "host_memory_high")
    assert cluster.state_of(jobs["300MiB"]) == "RUNNING"


def test_S004_2_out_of_memory_is_foreseen_an_epoch_before_it_happens(cluster, nvml):
    cluster.up("--nvml-library", nvml.library, "--sample-period", "100ms", env=nvml.state("card44"))
    use(nvml, 30.0 / 44.53)
    job = start(cluster)
    for gib in (30.0, 33.5, 37.0, 40.5):
        use(nvml, gib / 44.53)
        ended = []

        def epoch():
            ended.append(1)
            return len(ended) > EPOCH / 0.05

        wait_until("the end of the epoch", epoch)
    (event,) = events(cluster, "attempt.memory_trend")
    left = re.search(r"full in about (?:(\d+)m)?(\d+)s", event["text"])
    assert left, event["text"]
    # From the third or fourth epoch to the fifth or, with its last 4 GiB, the sixth.
    assert 60 * int(left[1] or 0) + int(left[2]) <= 4 * EPOCH
    assert "tensors kept" in event["text"]
    assert shown(cluster, job, "memory_trend")
    assert cluster.state_of(job) == "RUNNING"


LEAK = """
    import time, torch
    GIB = 2**30
    held = 20 * GIB
    torch.cuda.memory_allocated = lambda *_: held
    torch.cuda.memory_reserved = lambda *_: held + GIB
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(60):
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
        held += 3 * GIB // 10
        print(f"step {step + 1}/1000", flush=True)
        time.sleep(0.2)
    raise torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 6.00 GiB. GPU 0 has a total capacity of 44.53 GiB of "
        "which 5.13 GiB is free. Including non-PyTorch memory, this process has 39.40 GiB memory in "
        "use. Of the allocated memory 38.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by "
        "PyTorch but unallocated.")
    """


def test_memory_that_grows_from_step_to_step_is_named_as_the_cause(cluster, nvml):
    cluster.up("--nvml-library", nvml.library, "--sample-period", "100ms", env=nvml.state("card44"))
    cluster.write("leak.py", textwrap.dedent(LEAK))
    job = cluster.submit(cluster.write("job.yaml", textwrap.dedent(f"""\
        name: leaks
        gpus: 1
        preflight: {{level: none}}
        on_oom: fail
        run: {VENV}/bin/python leak.py
        """)))
    cluster.wait_for(job, "OUT_OF_MEMORY", timeout=90)
    verdict = cluster.json("why", job)
    assert verdict["label"] == "cuda_oom"
    assert re.match(r"Memory grows from step to step until the GPU is full: .* more each step, over \d+ steps",
                    verdict["cause"]), verdict["cause"]
    # 3/10 GiB a step, give or take that the rank speaks once a second.
    assert 0.2 < verdict["numbers"]["growth_per_step"] < 0.4
    assert verdict["remedy"].startswith("find what is kept from step to step")
