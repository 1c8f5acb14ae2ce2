"""The program that nodes run against each other, with the all-reduce by NCCL: by the real
launch-nccl-test over a fake driver and a fake NCCL, because no GPU is here."""

import json
import os
import pathlib
import socket
import subprocess

import pytest

from conftest import BIN, ROOT, VENV

PROGRAM = ROOT / "common/network_test.py"
NCCL_TEST = BIN / "launch-nccl-test"
FAKES = BIN.parent / "lib/fake-cuda"
MARK = "@launch-network-test "


def free_ports():
    """The first of three that nobody has."""
    while True:
        with socket.socket() as first:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
        try:
            with socket.socket() as second, socket.socket() as third:
                second.bind(("127.0.0.1", port + 1))
                third.bind(("127.0.0.1", port + 2))
                return port
        except OSError:
            continue


def run(nodes, nccl_test, python="python3", **of_place):
    """What each place said. `of_place`: more variables, by "p0", "p1" ... Plain python has no torch, so no gloo."""
    port = free_ports()
    started = []
    for place in range(nodes):
        env = {"PATH": os.environ["PATH"], "LAUNCH_NCCL_TEST": str(nccl_test), "LD_LIBRARY_PATH": str(FAKES),
               **of_place.get(f"p{place}", {})}
        if not nccl_test:
            del env["LAUNCH_NCCL_TEST"]
        started.append(subprocess.Popen(
            [python, "-c", PROGRAM.read_text(), "127.0.0.1", str(port), str(place), str(nodes), "word"],
            env=env, stdout=subprocess.PIPE, text=True))
    said = []
    for process in started:
        output, _ = process.communicate(timeout=120)
        said.append(json.loads(output[output.rindex(MARK) + len(MARK):]))
    return said


@pytest.fixture
def nccl_test():
    if not NCCL_TEST.exists():
        pytest.skip("launch-nccl-test was not built: cmake says why, most often because there is no nvcc")
    return NCCL_TEST


def test_the_sum_over_the_gpus_of_three_nodes_is_right(nccl_test):
    for facts in run(3, nccl_test, VENV / "bin/python"):
        assert facts["ok"] and facts["backend"] == "gloo"
        assert facts["nccl"]["tested"] and facts["nccl"]["ok"], facts["nccl"]
        assert facts["nccl"]["version"] == "2.27.7" and facts["nccl"]["mbit"] > 0


@pytest.mark.parametrize("fault, says", [
    ("wrong-sum", "the sum over 2 nodes is not right"),
    ("refuses", "Bootstrap : no socket interface found"),
])
def test_an_nccl_that_fails_says_why(nccl_test, fault, says):
    first, _ = run(2, nccl_test, p0={"FAKE_NCCL": fault}, p1={"FAKE_NCCL": fault})
    assert first["ok"], "that the nodes meet is another matter"
    assert first["nccl"]["tested"] and not first["nccl"]["ok"]
    assert says in first["nccl"]["why"]


def test_a_slow_network_is_measured_and_not_given_up(nccl_test):
    """64 MiB would take 16 s there, and 13 of them longer than the test may."""
    for facts in run(2, nccl_test, p0={"FAKE_NCCL": "slow"}, p1={"FAKE_NCCL": "slow"}):
        assert facts["nccl"]["ok"], facts["nccl"]
        assert 10 < facts["nccl"]["mbit"] < 34, facts["nccl"]


def test_a_node_without_a_gpu_or_without_the_program_is_named(nccl_test, tmp_path):
    for facts in run(2, nccl_test, p1={"FAKE_CUDA_DEVICES": "0"}):
        assert facts["ok"] and not facts["nccl"].get("tested")
        assert facts["nccl"]["why"] == "place 1: CUDA sees no GPU in the job's environment"
    for facts in run(2, tmp_path / "launch-nccl-test"):
        assert "built without nvcc" in facts["nccl"]["why"]


def test_a_job_without_gpus_hears_nothing_of_nccl():
    for facts in run(2, ""):
        assert facts["ok"] and facts["nccl"] is None


def test_check_network_sums_over_the_gpus_of_the_nodes(nccl_test, make_cluster, nvml):
    cluster = make_cluster()
    cluster.up("--nodes", 2, "--nvml-library", nvml.library, env=nvml.state("a100-40x4"))

    def check(**env):
        variables = [word for pair in env.items() for word in ("-e", "=".join(pair))]
        done = cluster.launch("check", "--network", "--venv", VENV, *variables, "-o", "json", code=None, timeout=150)
        return json.loads(done.stdout)

    well = check(LD_LIBRARY_PATH=str(FAKES))
    said = [line["says"] for line in well["passed"]]
    assert any("NCCL 2.27.7 over 2 nodes gives the right sum" in line for line in said), well
    assert any("gloo over 2 nodes gives the right sum" in line for line in said), well
    wrong = check(LD_LIBRARY_PATH=str(FAKES), FAKE_NCCL="wrong-sum")
    assert any("NCCL" in finding["says"] for finding in wrong["findings"]), wrong
