"""Stories of users who bring a log from elsewhere: `launch diagnose` without a cluster."""

import pytest

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked} GiB. GPU 0 has a total capacity of "
    "44.53 GiB of which {free} GiB is free. Including non-PyTorch memory, this process has {process} GiB memory "
    "in use. Of the allocated memory {allocated} GiB is allocated by PyTorch, and {unused} GiB is reserved by "
    "PyTorch but unallocated."
)
USERS = {"asked": 4.15, "free": 3.84, "process": 40.68, "allocated": 36.78, "unused": 3.56}
MISMATCH = (
    "[WARNING] Installed CUDA version 11.5 does not match the version torch was compiled with 12.4 but since the "
    "APIs are compatible, accepting this combination\n"
)
REFUSED = (
    "deepspeed.ops.op_builder.builder.CUDAMismatchException: >- DeepSpeed Op Builder: Installed CUDA version 11.5 "
    "does not match the version torch was compiled with 12.4, unable to compile cuda/cpp extensions without a "
    "matching cuda version.\n"
)


@pytest.fixture
def diagnose(cluster):
    def run(text, exit_code, *more):
        log = cluster.write("run.log", text)
        return cluster.json("diagnose", "--log", log, "--exit-code", exit_code, *more)

    return run


def oom(**numbers):
    return OOM.format(**{**USERS, **numbers}) + "\n"


def test_S003_2_the_four_texts(diagnose):
    verdict = diagnose(REFUSED, 1)
    assert (verdict["label"], verdict["action"]) == ("toolkit_mismatch", "no_retry")
    assert diagnose(REFUSED, 0)["label"] == "none"

    killed = diagnose("[ERROR] [launch.py:321:sigkill_handler] ['python', 'train.py'] exits with return code = -9\n", 247)
    assert killed["confidence"] != "confirmed"
    assert "SIGKILL" in killed["cause"] and "not a CUDA error" in killed["cause"]
    assert all(word in killed["remedy"] for word in ("memory", "workers", "batch"))

    build = diagnose("Building extension module cpu_adam... FAILED\n", 1)
    assert (build["label"], build["action"]) == ("deepspeed_op_build", "no_retry")
    assert "DS_BUILD_OPS" not in build["remedy"]
    assert diagnose("Building extension module cpu_adam...\n", 0)["label"] == "none"

    full = diagnose("RuntimeError: CUDA out of memory\n", 1)
    assert (full["label"], full["action"]) == ("cuda_oom", "retry_with_change")
    together = MISMATCH + "exits with return code = -9\nBuilding extension module cpu_adam...\n" + "CUDA out of memory\n"
    assert diagnose(together, 1)["label"] == "cuda_oom"


def test_S004_1_the_message_with_its_numbers(diagnose):
    verdict = diagnose(oom(), 1)
    assert (verdict["label"], verdict["action"]) == ("cuda_oom_fragmentation", "retry_with_change")
    numbers = verdict["numbers"]
    assert [round(numbers[name], 2) for name in ("asked", "total", "free", "process", "allocated", "unallocated")] == [
        4.15, 44.53, 3.84, 40.68, 36.78, 3.56]
    assert round(numbers["others"], 2) == 0.01
    assert round(numbers["reserve_share"], 3) == 0.08
    assert "expandable_segments:True" in verdict["changes"][0]
    assert "batch.micro" in verdict["changes"][1] and "batch.global kept" in verdict["changes"][1]


def test_S004_1_the_same_facts_as_a_list(diagnose):
    text = """torch.OutOfMemoryError: CUDA out of memory.
    - Tried to allocate: 4.15 GiB
    - GPU total: 44.53 GiB
    - Free: 3.84 GiB
    - This process has 40.68 GiB memory in use
    - PyTorch: 36.78 GiB allocated, 3.56 GiB reserved
    """
    assert diagnose(text, 1)["label"] == "cuda_oom_fragmentation"


@pytest.mark.parametrize("numbers, label, says", [
    ({"unused": 0.2}, "cuda_oom", "needs more memory"),
    ({"process": 4, "allocated": 3.5, "unused": 0.3}, "cuda_oom_foreign_process", "Other processes hold"),
    ({"asked": 45}, "cuda_oom", "no setting helps"),
])
def test_S004_1_controls(diagnose, numbers, label, says):
    verdict = diagnose(oom(**numbers), 1)
    assert verdict["label"] == label
    assert says in verdict["cause"]
    assert not any("expandable" in change for change in verdict["changes"])


def test_S004_1_a_run_that_ended_well_has_no_verdict(diagnose):
    assert diagnose(oom(), 0)["label"] == "none"
