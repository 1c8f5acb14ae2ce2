"""What the node knows beside the log: the kernel, the cgroup, the driver, and the rank's own words."""

import os
import pathlib
import signal
import textwrap

import pytest

from conftest import VENV, wait_until

GIB = 2**30


def submit(cluster, program, extra="", python=f"{VENV}/bin/python"):
    cluster.write("rank.py", textwrap.dedent(program))
    return cluster.submit(cluster.write("job.yaml", textwrap.dedent(f"""\
        name: evidence
        preflight: {{level: none}}
        run: {python} rank.py
        """) + textwrap.dedent(extra)))


def containment(cluster):
    (node,) = cluster.json("nodes")["nodes"]
    return node["containment"]


def test_S003_6_a_limit_of_the_cgroup_is_named_with_the_kernels_counter(cluster):
    cluster.up()
    if containment(cluster) == "tree":
        pytest.skip("no cgroup with a memory controller here")
    job = submit(cluster, """
        held = []
        while True:
            held.append(bytearray(16 << 20))
        """, "gpus: 0\nmemory: 300MB\n")
    cluster.wait_for(job, "FAILED", "OUT_OF_MEMORY")
    verdict = cluster.status(job)["attempts"][0]["verdict"]
    assert (verdict["label"], verdict["confidence"]) == ("host_oom_kill", "confirmed")
    assert "memory limit" in verdict["cause"]
    assert any("oom_kill" in line for line in verdict["evidence"])


def test_S003_6_b_a_kill_from_outside_is_no_lack_of_memory(cluster):
    cluster.up("--sample-period", "200ms")
    job = submit(cluster, """
        import time
        for step in range(1, 601):
            print(f"step {step}/600", flush=True)
            time.sleep(0.1)
        """, "gpus: 0\n")
    cluster.wait_for(job, "RUNNING")
    seen = cluster.status(job)["step"] or 0
    # A sample of the host comes with the steps of its ranks.
    wait_until("a sample", lambda: (cluster.status(job)["step"] or 0) > seen)
    os.kill(cluster.status(job)["attempts"][0]["ranks"][0]["pid"], signal.SIGKILL)
    cluster.wait_for(job, "FAILED")
    verdict = cluster.status(job)["attempts"][0]["verdict"]
    assert (verdict["label"], verdict["confidence"]) == ("sigkill_unknown", "unknown")
    assert any("host memory" in line for line in verdict["evidence"]), "the last sample is said"
    assert not any("launch sent" in line for line in verdict["evidence"])


def test_S003_6_c_our_own_kill_of_a_rank_that_ignores_term_has_no_verdict(cluster):
    cluster.up()
    job = submit(cluster, """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open("ready", "w").close()
        time.sleep(60)
        """, "gpus: 0\nstop_duration: 1s\n")
    wait_until("the rank", lambda: (cluster.work / "ready").exists())
    cluster.launch("cancel", job)
    cluster.wait_for(job, "CANCELLED")
    (attempt,) = cluster.status(job)["attempts"]
    assert attempt["verdict"] is None
    assert attempt["ranks"][0]["exit"]["says"] == "signal 9 (SIGKILL)"


def test_an_xid_of_its_gpu_names_the_hardware_whatever_python_said(cluster, nvml):
    cluster.up("--nvml-library", nvml.library, "--sample-period", "100ms", env=nvml.state("card44"))
    job = submit(cluster, """
        import os, time
        open("ready", "w").close()
        while not os.path.exists("die"):
            time.sleep(0.05)
        raise RuntimeError("CUDA error: unspecified launch failure")
        """, "gpus: 1\nretry: {max: 0}\n")
    wait_until("the rank", lambda: (cluster.work / "ready").exists())
    cluster.wait_for(job, "RUNNING")
    nvml.edit(lambda state: state["devices"][0].update(xids=[79], ecc_errors=0))
    wait_until("the event", lambda: [e for e in cluster.events() if e["kind"] == "gpu.xid"])
    (cluster.work / "die").touch()
    cluster.wait_for(job, "FAILED")
    verdict = cluster.status(job)["attempts"][0]["verdict"]
    assert (verdict["label"], verdict["confidence"]) == ("xid_gpu_hardware", "confirmed")
    assert "NVML: Xid 79" in verdict["evidence"]


LAYERS = f"""
    import os, time, torch
    torch.cuda.memory_allocated = lambda *_: int(36.78 * {GIB})
    torch.cuda.memory_reserved = lambda *_: int(40.34 * {GIB})
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    open("pid", "w").write(str(os.getpid()))
    while not os.path.exists("die"):
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
        time.sleep(0.2)
    raise torch.OutOfMemoryError(
        "CUDA out of memory. Tried to allocate 4.15 GiB. GPU 0 has a total capacity of 44.53 GiB of "
        "which 3.84 GiB is free. Including non-PyTorch memory, this process has 40.68 GiB memory in "
        "use. Of the allocated memory 36.78 GiB is allocated by PyTorch, and 3.56 GiB is reserved by "
        "PyTorch but unallocated.")
    """


def test_S004_5_three_layers_and_the_order_of_remedies(cluster, nvml):
    cluster.up("--nvml-library", nvml.library, "--sample-period", "200ms", env=nvml.state("card44"))
    job = submit(cluster, LAYERS, "gpus: 1\non_oom: fail\nretry: {max: 0}\n")
    wait_until("the rank", lambda: (cluster.work / "pid").exists() and
               (cluster.work / "pid").read_text(), 60)
    used = int((44.53 - 3.84) * 1024)

    def hold(state):
        device = state["devices"][0]
        device["memory"].update(used_mib=used)
        device["processes"] = [{"pid": int((cluster.work / "pid").read_text()),
                                "used_mib": int(40.68 * 1024), "kind": "compute"}]

    nvml.edit(hold)

    def layers():
        memory = cluster.status(job)["attempts"][0]["ranks"][0]["memory"]
        return memory and memory["allocated_bytes"] and memory["process_bytes"] and memory

    memory = wait_until("all layers", layers)
    assert round(memory["allocated_bytes"] / GIB, 2) == 36.78
    assert round(memory["reserved_bytes"] / GIB, 2) == 40.34
    assert round(memory["process_bytes"] / GIB, 2) == 40.68
    assert round(memory["free_bytes"] / GIB, 1) == 3.8
    assert memory["foreign_bytes"] == 0
    assert memory["said"] and memory["sampled"]
    (cluster.work / "die").touch()
    cluster.wait_for(job, "OUT_OF_MEMORY")
    verdict = cluster.json("why", job)
    assert verdict["label"] == "cuda_oom_fragmentation"
    remedy = verdict["remedy"]
    order = [remedy.find(word) for word in
             ("expandable_segments", "micro-batch", "activation checkpointing", "offload")]
    assert -1 not in order and order == sorted(order), remedy
    assert "20-30 %" in remedy
    assert "not predictable: model unknown" in remedy


def test_a_limit_of_processes_that_was_reached_is_evidence_with_its_group(cluster):
    group = pathlib.Path(f"/sys/fs/cgroup/pids/launch-test-{os.getpid()}")
    try:
        group.mkdir()
        (group / "pids.max").write_text("300")
    except OSError as error:
        pytest.skip(f"no control group for processes can be made: {error}")
    cluster.up()
    agent = cluster.processes()["agents"][0]["pid"]
    try:
        (group / "cgroup.procs").write_text(str(agent))
        job = submit(cluster, """
            import threading
            import time
            for _ in range(400):
                threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
            """, "gpus: 0\n", python="/usr/bin/python3")
        cluster.wait_for(job, "FAILED")
        verdict = cluster.json("why", job)
        assert (verdict["label"], verdict["confidence"]) == ("too_many_open_files", "confirmed"), verdict
        assert any(line.startswith(f"pids.max of {group} (300) was reached") for line in verdict["evidence"]), verdict
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            (group.parent / "cgroup.procs").write_text(pid)
        group.rmdir()


WATCHDOG = """
    import os, threading, time
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    rank = dist.get_rank()

    def watchdog():
        time.sleep(2 + 2 * (rank == 0))
        record = torch._C._distributed_c10d._dump_fr_trace(True, True, False)
        with open(os.environ["TORCH_NCCL_DEBUG_INFO_TEMP_FILE"] + str(rank), "wb") as file:
            file.write(record)
        if rank == 0:
            print("[rank0]:[E1122 10:11:12.131415161 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective "
                  "operation timeout: WorkNCCL(SeqNum=4, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) "
                  "ran for 600029 milliseconds before timing out.", flush=True)
            os.abort()

    def step():
        dist.all_reduce(torch.ones(4))

    for _ in range(3):
        step()
    threading.Thread(target=watchdog, daemon=True).start()
    if rank == 1:
        time.sleep(600)
    step()
    """


def test_the_rank_that_a_collective_waited_for_is_named_by_the_recorders_of_both(cluster, nvml):
    cluster.up("--nvml-library", nvml.library, env=nvml.state("a100-40x4"))
    cluster.write("rank.py", textwrap.dedent(WATCHDOG))
    job = cluster.submit(cluster.write("job.yaml", textwrap.dedent(f"""\
        name: late
        preflight: {{level: none}}
        gpus: 2
        retry: {{max: 0}}
        venv: {VENV}
        run: torchrun --nproc_per_node=2 rank.py
        """)))
    cluster.wait_for(job, "FAILED", timeout=120)
    verdict = cluster.json("why", job)
    assert (verdict["label"], verdict["rank"], verdict["confidence"]) == ("nccl_timeout", 1, "confirmed"), verdict
    assert "rank 1 is behind: it never entered collective number 4, in which rank 0 waits (all_reduce at" in verdict["cause"]
    assert "rank.py:" in verdict["cause"] and "(step)" in verdict["cause"], verdict
