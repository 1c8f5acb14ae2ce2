"""What a user gets wrong: a clear error that says what, where and what to do, with the right exit code."""

import os
import socket

import pytest

from conftest import BIN, ROOT

CLUSTERS = ROOT / "configs/clusters"
GOOD = "name: x\nrun: echo hello\n"


def plan(cluster, text, *args, code=2, inventory="cpu.yaml"):
    job = cluster.write("job.yaml", text)
    return cluster.launch("plan", job, "--inventory", CLUSTERS / inventory, *args, code=code).stderr


@pytest.mark.parametrize("text, words", [
    ("nam: x\nrun: echo\n", ["job.yaml:1:1", "nam", "did you mean `name`"]),
    ("name: x\nrun: a\nrun: b\n", ["job.yaml:3:1", "twice", "line 2"]),
    ("name: x\nnodes: two\nrun: a\n", ["job.yaml:2:8", "nodes", "two"]),
    ("name: x\nnodes: 2:4:5\nrun: a\n", ["nodes"]),
    ("name: x\npreemptible: yes\nrun: a\n", ["preemptible"]),
    ("name: x\nsnapshot: yes\nrun: a\n", ["snapshot", "true or false"]),
    ("name: x\ntime: 15\nrun: a\n", ["time", "15 seconds or 15 minutes"]),
    ("name: x\ntime: 10:30\nrun: a\n", ["10 hours 30 minutes or 10 minutes 30 seconds"]),
    ("name: x\nmemory: 16\nrun: a\n", ["memory", "unit"]),
    ("name: x\nbatch: {globl: 3}\nrun: a\n", ["job.yaml:2:9", "globl", "did you mean `global`"]),
    ("name: x\nbatch: {global: 63, micro: 8}\nprocs_per_node: 2\nrun: a\n", ["63"]),
    ("name: x\nconstraints: 'cc>>8'\nrun: a\n", ["constraints", "column"]),
    ("name: x\nexclude_nodes: 'gpu[1-'\nrun: a\n", ["exclude_nodes", "never closed"]),
    ("name: X Y\nrun: a\n", ["name"]),
    ("name: x\n", ["run"]),
    ("", ["empty"]),
    ("[1, 2]\n", ["map"]),
    ("name: x\npreemptible: true\nrun: a\n", ["job.yaml:2:1", "preemptible", "not in this version"]),
    ("name: x\narray: 1-many\nrun: a\n", ["array", "1-many"]),
    ("name: x\nrun: mpirun -n 2 python train.py\n", ["mpirun"]),
    ("name: x\nrun: echo $LAUNCH_NONSENSE\n", ["LAUNCH_NONSENSE"]),
    ("name: x\nenv: {A: $NOT_THERE}\nrun: a\n", ["A", "NOT_THERE"]),
    ("name: x\nenv: {RANK: '3'}\nrun: a\n", ["RANK"]),
    ("name: x\nrun: \"echo 'open\"\n", ["quote"]),
    ("name: x\nrun: |\n  if true; then\n  echo\n", ["job.yaml:4: run: bash: ", "end of file", "not closed"]),
    ("name: x\nrun: a\nsetup: |\n  echo\n  fi\n", ["job.yaml:5: setup: bash: ", "`fi'"]),
    ("a: &x 1\nb: *x\n", ["anchors"]),
])
def test_a_wrong_job_file_says_what_and_where(cluster, text, words):
    said = plan(cluster, text)
    for word in words:
        assert word in said, said


def test_files_that_are_no_job_files(cluster):
    big = cluster.work / "big.yaml"
    big.write_text("run: |\n" + "  echo hello\n" * (10 * 1024 * 1024 // 13))
    assert "256 KiB" in cluster.launch("plan", big, code=2).stderr
    binary = cluster.work / "binary.yaml"
    binary.write_bytes(bytes(range(256)) * 16)
    assert "binary" in cluster.launch("plan", binary, code=2).stderr
    assert "No such file" in cluster.launch("plan", "nothing.yaml", code=2).stderr
    assert "directory" in cluster.launch("plan", cluster.work, code=2).stderr


def test_a_job_that_can_never_fit_is_refused_with_the_closest_node(cluster):
    said = plan(cluster, "name: x\ngpus: H100:16\nrun: a\n", code=3, inventory="a100-80x8.yaml")
    assert "H100" in said
    said = plan(cluster, "name: x\ngpus: A100-80GB:16\nrun: a\n", code=3, inventory="a100-80x8.yaml")
    assert "8" in said and "16" in said
    said = plan(cluster, "name: x\ngpus: 1\nconstraints: 'gpu_mem>=200GB'\nrun: a\n", code=3, inventory="a100-80x8.yaml")
    assert "gpu_mem" in said
    cluster.up()
    job = cluster.write("never.yaml", "name: x\ngpus: H100:8\nrun: a\n")
    said = cluster.launch("submit", job, code=3).stderr
    assert "H100" in said
    assert cluster.json("queue", "-a")["jobs"] == [], "no job was made"


def test_controller_not_running_is_exit_5(cluster):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    cluster.up()
    good = cluster.state / "controller/operator"
    done = cluster.launch("--controller", f"127.0.0.1:{port}", "--credentials", good, "queue", code=5)
    assert "unreachable" in done.stderr


def test_a_certificate_of_another_cluster_gets_nothing(make_cluster):
    one, other = make_cluster("one"), make_cluster("other")
    one.up()
    other.up()
    address = (one.state / "controller/address").read_text().strip()
    done = one.launch("--controller", address, "--credentials", other.state / "controller/operator", "queue", code=None)
    assert done.returncode in (5, 6)
    assert "certificate" in done.stderr.lower()


def test_commands_and_directories_that_are_missing_fail_before_any_rank(cluster):
    cluster.up()
    for text, code in [
        ("name: a\nrun: no_such_command --x\n", "command_missing"),
        (f"name: b\nworkdir: {cluster.work}/nowhere\nrun: echo\n", "workdir_missing"),
        (f"name: c\nvenv: {cluster.work}/novenv\nrun: python x.py\n", "command_missing"),
    ]:
        job = cluster.write("job.yaml", text)
        done = cluster.launch("submit", job, "--wait", code=4)
        assert code in done.stdout + done.stderr, done.stderr


def test_a_file_that_is_not_executable_is_named(cluster):
    cluster.up()
    cluster.write("tool.sh", "echo\n")
    job = cluster.write("job.yaml", "name: a\nrun: ./tool.sh\n")
    said = cluster.launch("submit", job, "--wait", code=4).stderr
    assert "tool.sh" in said and "executable" in said


def test_nobodys_job_runs_as_somebody_else(cluster):
    cluster.up()
    token = cluster.launch("token", "create", "--user", "mallory").stdout
    refused = cluster.launch("login", "--into", "mallory", "--token", token.strip(), code=2).stderr
    assert "--token takes a file" in refused and token.strip() not in refused
    cluster.launch("login", "--into", "mallory", "--token", cluster.write("token", token))
    address = cluster.processes()["controller"]["address"]
    as_mallory = ["--controller", address, "--credentials", cluster.work / "mallory"]
    ran = cluster.work / "ran"
    job = cluster.write("job.yaml", f"name: a\ngpus: 0\nrun: touch {ran}\n")
    refused = cluster.launch("submit", job, *as_mallory, code=3).stderr
    account = cluster.json("nodes")["nodes"][0]["account"]
    assert f"account {account} only" in refused and "owner is mallory" in refused
    cluster.launch("submit", job, "--wait")  # the agent's own user
    assert ran.exists()


def test_another_number_of_nodes_leaves_no_silent_ones(cluster):
    cluster.up("--nodes", 3)
    cluster.launch("dev", "down")
    cluster.up("--nodes", 1)
    nodes = cluster.json("nodes")["nodes"]
    assert [(n["node"], n["state"]) for n in nodes] == [("node1", "idle")]
    assert cluster.node_names() == ["node1"]
    cluster.launch("dev", "down")
    cluster.up("--nodes", 2)
    assert [n["state"] for n in cluster.json("nodes")["nodes"]] == ["idle", "idle"]


def test_tokens_are_single_use_and_expire(cluster):
    cluster.up()
    token = cluster.launch("token", "create", "--node", "extra").stdout
    state = cluster.work / "extra"
    join = [str(BIN / "launch-agent"), "join", "--state"]
    import subprocess
    first = subprocess.run([*join, str(state)], input=token, text=True, capture_output=True, timeout=30)
    assert first.returncode == 0, first.stderr
    again = subprocess.run([*join, str(state) + "2"], input=token, text=True, capture_output=True, timeout=30)
    assert again.returncode != 0 and "used" in again.stderr
    short = cluster.launch("token", "create", "--node", "late", "--life", "1s").stdout
    import time
    time.sleep(1.5)
    late = subprocess.run([*join, str(state) + "3"], input=short, text=True, capture_output=True, timeout=30)
    assert late.returncode != 0 and "expired" in late.stderr
    garbage = subprocess.run([*join, str(state) + "4"], input="launch-join-1.nonsense", text=True,
                             capture_output=True, timeout=30)
    assert garbage.returncode == 2


def test_a_port_in_use_is_named(cluster):
    cluster.up()
    import subprocess
    state = cluster.work / "second"
    subprocess.run([BIN / "launch-controller", "init", "--state", state], check=True, timeout=30, capture_output=True)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        done = subprocess.run([BIN / "launch-controller", "run", "--state", state, "--listen", f"127.0.0.1:{port}"],
                              timeout=30, capture_output=True, text=True)
    assert done.returncode == 5
    assert str(port) in done.stderr
    locked = subprocess.run([BIN / "launch-controller", "run", "--state", cluster.state / "controller",
                             "--listen", "127.0.0.1:0"], timeout=30, capture_output=True, text=True)
    assert locked.returncode != 0
    assert str(cluster.controller_pid()) in locked.stderr


def test_submit_without_a_cluster_starts_the_embedded_one_and_says_so(cluster):
    job = cluster.write("job.yaml", GOOD)
    done = cluster.launch("submit", job, "--wait")
    assert "no cluster is configured" in done.stderr
    assert "hello" in cluster.launch("logs", done.stdout.strip().splitlines()[-1]).stdout


def test_output_off_a_terminal_has_no_colours(cluster):
    cluster.up()
    for args in (["nodes"], ["queue"], ["dev", "status"]):
        assert "\x1b" not in cluster.launch(*args).stdout


def test_logs_of_a_job_whose_setup_failed_say_where_its_output_is(cluster):
    cluster.up()
    job = cluster.submit(cluster.write("job.yaml", "name: s\ngpus: 0\nsetup: echo no such wheel; exit 3\nrun: echo\n"))
    cluster.wait_for(job, "FAILED")
    assert f"launch why {job}" in cluster.launch("logs", job).stderr
    assert "no such wheel" in cluster.launch("why", job).stdout
