"""What an operator says of a node that cannot prove anything itself."""

import pathlib
import subprocess
import textwrap

from conftest import VENV, stays, wait_until

WAIT = textwrap.dedent("""\
    import pathlib, time
    end = time.monotonic() + 120
    while not pathlib.Path("go").exists() and time.monotonic() < end:
        time.sleep(0.02)
    """)


def test_a_fenced_node_gives_its_job_up_and_is_stopped_if_it_was_alive_after_all(cluster):
    cluster.up("--nodes", "2")
    cluster.write("wait.py", WAIT)
    job = cluster.submit(cluster.write("job.yaml", f"name: wait\ngpus: 0\nrun: {VENV}/bin/python wait.py\n"))
    cluster.wait_for(job, "RUNNING")
    first = cluster.status(job)["attempts"][0]["ranks"][0]
    node = first["node"]

    cluster.launch("node", "fence", node, "--power-is-off", code=None)
    assert len(cluster.status(job)["attempts"]) == 1, "a node that answers is not fenced"
    cluster.kill(cluster.agent_pid(node))
    wait_until("the node is silent", lambda: state_of(cluster, node) == "silent")
    unread = cluster.launch("logs", job, "-n", "2", code=None)
    assert unread.returncode == 5 and "nothing of the log can be read" in unread.stderr, unread
    unheard = cluster.launch("exec", job, "--", "true", code=None)
    assert unheard.returncode == 5 and f"node {node} of rank 0 does not answer" in unheard.stderr
    assert "controller" not in unheard.stderr, unheard.stderr
    refused = cluster.launch("node", "fence", node, code=None)
    assert refused.returncode != 0 and "--power-is-off" in refused.stderr
    assert len(cluster.status(job)["attempts"]) == 1, "silence and a question change nothing"

    cluster.launch("node", "fence", node, "--power-is-off")
    assert state_of(cluster, node) == "fenced"
    wait_until("it runs elsewhere", lambda: len(cluster.status(job)["attempts"]) == 2
               and cluster.state_of(job) == "RUNNING")
    second = cluster.status(job)["attempts"][1]["ranks"][0]
    assert second["node"] != node

    cluster.up()  # its agent comes back: the power was never off
    wait_until("what it still ran is stopped",
               lambda: not pathlib.Path(f"/proc/{first['pid']}").exists())
    kinds = [event["kind"] for event in cluster.events()]
    assert "node.fenced" in kinds and "node.overlap" in kinds
    assert pathlib.Path(f"/proc/{second['pid']}").exists(), "the new attempt is not touched"
    (cluster.work / "go").write_text("")
    cluster.wait_for(job, "SUCCEEDED")
    assert cluster.json("quarantine", "list")["gpus"] == []


def state_of(cluster, node):
    return {n["node"]: n["state"] for n in cluster.json("nodes")["nodes"]}[node]


def test_a_quarantine_outlives_the_agent_and_ends_by_an_operators_word(cluster, nvml):
    up = ("--nvml-library", nvml.library)
    state = nvml.state("a100-40x4")
    cluster.up(*up, env=state)
    wait_until("the GPUs are known", lambda: len(cluster.json("nodes")["nodes"][0]["gpus"]) == 4)
    lines = "name: {}\ngpus: {}\npreflight: none\nstop_duration: 1s\nrun: sleep 600\n"
    job = cluster.submit(cluster.write("job.yaml", lines.format("held", 1)))
    cluster.wait_for(job, "RUNNING")

    lasting = subprocess.Popen(["sleep", "600"])  # of nobody here, and on no GPU before the job was

    def leave(device):
        device["processes"] = [{"pid": lasting.pid, "used_mib": 900}]

    def held():
        return [gpu["gpu"] for gpu in cluster.json("quarantine", "list")["gpus"]]

    nvml.edit(lambda data: [leave(device) for device in data["devices"]])
    cluster.launch("cancel", job, code=None)
    wait_until("the GPU of the job is held", held, timeout=100)
    (gpu,) = held()
    assert str(lasting.pid) in cluster.launch("quarantine", "list").stdout

    node = cluster.json("nodes")["nodes"][0]["node"]
    cluster.kill(cluster.agent_pid(node))
    cluster.up(*up, env=state)
    wait_until("the agent is back", lambda: state_of(cluster, node) != "silent")
    assert held() == [gpu], "its proof is still to be made"
    cluster.launch("quarantine", "release", gpu)
    assert held() == []
    lasting.kill()
    lasting.wait()
    nvml.edit(lambda data: [device.update(processes=[]) for device in data["devices"]])
    whole = cluster.submit(cluster.write("whole.yaml", lines.format("whole", 4)))
    cluster.wait_for(whole, "RUNNING", timeout=60)
    assert held() == [], "what was given back is not held again"


def test_a_retest_frees_what_can_be_proved_by_now_and_nothing_else(cluster, nvml):
    cluster.up("--nvml-library", nvml.library, env=nvml.state("a100-40x4"))
    wait_until("the GPUs are known", lambda: len(cluster.json("nodes")["nodes"][0]["gpus"]) == 4)
    job = cluster.submit(cluster.write(
        "job.yaml", "name: held\ngpus: 1\npreflight: none\nstop_duration: 1s\nrun: sleep 600\n"))
    cluster.wait_for(job, "RUNNING")
    lasting = subprocess.Popen(["sleep", "600"])
    leave = {"pid": lasting.pid, "used_mib": 900}
    nvml.edit(lambda data: [device.update(processes=[leave]) for device in data["devices"]])

    def held():
        return [gpu["gpu"] for gpu in cluster.json("quarantine", "list")["gpus"]]

    def retested():
        return sum(event["kind"] == "gpu.retested" for event in cluster.events())

    try:
        cluster.launch("cancel", job, code=None)
        wait_until("the GPU of the job is held", held, timeout=100)
        (gpu,) = held()
        cluster.launch("quarantine", "retest", gpu)
        assert retested() == 1
        # Longer than the driver is asked anew for.
        stays("the GPU is held for the process that is still on it", lambda: held() == [gpu], 3.0)
    finally:
        lasting.kill()
        lasting.wait()
    nvml.edit(lambda data: [device.update(processes=[]) for device in data["devices"]])
    cluster.launch("quarantine", "retest", gpu)
    # By itself the proof is made again each minute.
    wait_until("the GPU is free", lambda: not held(), timeout=20)
    assert retested() == 2
    unknown = cluster.launch("quarantine", "retest", gpu, code=None)
    assert unknown.returncode != 0 and gpu in unknown.stderr
