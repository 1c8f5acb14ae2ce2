"""Which devices a job is given: MIG slices, and one that is lost, with a driver that is not there."""

import os
import time

from conftest import wait_until

MIG = {"enabled": True, "pending": True, "max": 7, "slices": [
    {"uuid": "MIG-small-1", "profile": "1g.5gb", "memory_mib": 4864, "gi": 7, "ci": 0},
    {"uuid": "MIG-small-2", "profile": "1g.5gb", "memory_mib": 4864, "gi": 8, "ci": 0},
    {"uuid": "MIG-large", "profile": "3g.20gb", "memory_mib": 19968, "gi": 1, "ci": 0}]}

JOB = """\
name: slice
gpus: {GPUS}
preflight: {level: none}
run: bash -c 'echo devices=$CUDA_VISIBLE_DEVICES; sleep SECONDS'
"""


def test_a_mig_slice_is_a_device_of_its_own(cluster, nvml):
    env = nvml.state("a100-40x4")
    nvml.edit(lambda state: state["devices"][1].update(mig=MIG))
    cluster.up("--nvml-library", nvml.library, env=env)
    (node,) = cluster.json("nodes")["nodes"]
    models = [gpu["model"] for gpu in node["gpus"]]
    assert len(models) == 3 + 3 and sum(model.endswith("MIG 1g.5gb") for model in models) == 2, models

    def submit(gpus, seconds, *args):
        job = cluster.write("job.yaml", JOB.replace("{GPUS}", gpus).replace("SECONDS", str(seconds)))
        return cluster.submit(job, *args)

    first = submit("{mig: 1g.5gb}", 300)
    second = submit("1g.5gb:1", 300)
    for job in (first, second):
        cluster.wait_for(job, "RUNNING")
    seen = {cluster.launch("logs", job).stdout.split("devices=")[1].split()[0] for job in (first, second)}
    assert seen == {"MIG-small-1", "MIG-small-2"}
    # A count alone means a whole GPU, and beside slices it is named by its UUID.
    whole = submit("3", 0)
    cluster.wait_for(whole, "SUCCEEDED")
    devices = cluster.launch("logs", whole).stdout.split("devices=")[1].split()[0]
    assert devices.count("GPU-") == 3 and "MIG" not in devices, devices
    third = submit("{mig: 1g.5gb}", 0)
    assert cluster.status(third)["state"] == "PENDING"
    cluster.launch("cancel", first)
    cluster.wait_for(third, "SUCCEEDED")

    # gpu_ids counts as nvidia-smi does: GPU 1 is the one that is cut.
    (node,) = cluster.json("nodes")["nodes"]
    uuid_of_3 = [gpu["uuid"] for gpu in node["gpus"]][-1]
    numbered = cluster.launch("nodes", "node1").stdout
    assert "gpu 3" in numbered and "gpu 4" not in numbered, numbered
    ids = 'import os; print("devices=" + os.environ["CUDA_VISIBLE_DEVICES"])'
    mine = cluster.launch("run", "-q", "--preflight", "none", "--gpu-ids", "3", "--", "python3", "-c", ids).stdout
    assert mine.strip().endswith("devices=" + uuid_of_3), (mine, uuid_of_3)
    cut = cluster.launch("run", "--gpu-ids", "1", "--", "python3", "-c", ids, code=3).stderr
    assert "GPU 1 is cut into MIG slices" in cut, cut

    refused = cluster.launch("submit", cluster.write("two.yaml", JOB.replace("{GPUS}", "{mig: \"1g.5gb:2\"}")), code=3)
    assert "NCCL" in refused.stderr, refused.stderr
    cluster.launch("cancel", second)


def test_submit_warns_of_the_one_gpu_of_a_line_that_would_take_all(cluster, nvml):
    cluster.up("--nvml-library", nvml.library, env=nvml.state("a100-40x4"))
    cluster.write("train.py", "")

    def said(*args):
        return cluster.launch("submit", "--hold", "--force", *args, "--", "accelerate", "launch", "train.py").stderr

    one = said()
    assert "warning processes_per_node: accelerate would take every GPU of the node: here it is those" in one, one
    assert "submit with --gpus N, or write gpus: N (1 where it is left out)" in one, one
    assert "plan: single" in one, one
    assert "would take every GPU" not in said("--gpus", "4")


def test_gpu_ids_of_an_agent_with_a_part_of_its_machine_name_the_gpus_that_nodes_shows(cluster, nvml):
    env = nvml.state("a100-40x4")
    cluster.up("--nodes", 2, "--nvml-library", nvml.library, env=env)
    nodes = {node["node"]: [gpu["uuid"] for gpu in node["gpus"]] for node in cluster.json("nodes")["nodes"]}
    assert [len(uuids) for uuids in nodes.values()] == [2, 2] and nodes["node1"] != nodes["node2"], nodes
    shown = cluster.launch("nodes", "node2").stdout
    assert "some of its machine's" in shown and "gpu 0" in shown and "gpu 2" not in shown, shown

    ids = 'import os; print("devices=" + os.environ["CUDA_VISIBLE_DEVICES"])'
    run = ("run", "-q", "--preflight", "none", "--nodelist", "node2", "--gpu-ids")
    for number in (0, 1):
        out = cluster.launch(*run, number, "--", "python3", "-c", ids).stdout
        assert out.strip().endswith("devices=" + nodes["node2"][number]), (out, nodes)
    refused = cluster.launch(*run, 2, "--", "python3", "-c", ids, code=3).stderr
    assert "has 2 GPUs of its machine's, numbered from 0 in `launch nodes node2`" in refused, refused

    job = cluster.write("two.yaml", "name: two\nnodes: 2\nprocs_per_node: 1\npreflight: {level: none}\n"
                                    "gpu_ids: [1]\nrun: bash -c 'echo devices=$CUDA_VISIBLE_DEVICES'\n")
    (told,) = [w for w in cluster.json("plan", job)["warnings"] if w["code"] == "gpu_ids_of_agent"]
    assert told["severity"] == "notice" and nodes["node1"][1] in told["says"], told
    both = cluster.submit(job)
    cluster.wait_for(both, "SUCCEEDED")
    for rank, uuids in enumerate(nodes.values()):
        assert f"devices={uuids[1]}" in cluster.launch("logs", both, "--rank", rank).stdout


def test_a_gpu_that_is_lost_is_told_with_its_job_and_held_alone(cluster, nvml):
    env = nvml.state("a100-40x4")
    cluster.up("--nvml-library", nvml.library, "--sample-period", "200ms", env=env)
    job = cluster.submit(cluster.write("job.yaml", JOB.replace("{GPUS}", "2").replace("SECONDS", "600")))
    cluster.wait_for(job, "RUNNING")
    nvml.edit(lambda state: state["devices"][1].update(lost=True))
    (told,) = wait_until("the lost GPU with its job", lambda: [
        finding for finding in cluster.status(job)["findings"] if finding["code"] == "gpu_failed"])
    assert "GPU 1" in told["says"] and "fallen off the bus" in told["says"], told
    assert f"launch requeue {job}" in told["remedy"], told
    (event,) = [event for event in cluster.events() if event["kind"] == "attempt.gpu_failed"]
    assert "fallen off the bus" in event["text"], event
    assert "fallen off the bus" in cluster.launch("explain", job).stdout
    assert cluster.state_of(job) == "RUNNING", "the job is not touched"
    if not os.environ.get("LAUNCH_LONG_TESTS"):
        nvml.edit(lambda state: state["devices"][1].update(lost=False))
        before = time.monotonic()
        cluster.launch("cancel", job)  # the proof looks for the GPU that is back
        cluster.wait_for(job, "CANCELLED")
        assert time.monotonic() - before < 15.0
        assert not cluster.json("quarantine", "list")["gpus"]
        return  # what is proved free, and what not, of one that stays lost is said after a minute: too long here
    said = cluster.launch("cancel", job, timeout=120).stderr
    assert "is being ended" in said, said
    (held,) = cluster.json("quarantine", "list")["gpus"]
    assert held["gpu"].endswith("01"), held
    (node,) = cluster.json("nodes")["nodes"]
    assert [gpu["free"] for gpu in node["gpus"]] == [True, False, True, True], node["gpus"]
    after = cluster.submit(cluster.write("next.yaml", JOB.replace("{GPUS}", "3").replace("SECONDS", "0")))
    cluster.wait_for(after, "SUCCEEDED")
