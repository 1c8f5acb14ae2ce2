"""How the command line answers: output that cannot be written, words in the wrong place, names of which one is wrong."""

import json
import re
import subprocess

import pytest

from conftest import BIN, ROOT

CPU = ROOT / "configs/clusters/cpu.yaml"
SLEEP = "name: x\ngpus: 0\nrun: sleep 600\n"


def shell(cluster, line, code):
    done = subprocess.run(["bash", "-c", line.replace("launch ", f"{BIN}/launch ", 1)], env=cluster.env, cwd=cluster.work,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == code, (line, done)
    return done.stderr


@pytest.mark.parametrize("words", ["plan job.yaml --inventory {cpu}", "plan job.yaml --inventory {cpu} -o json", "version",
                                   "import job.sbatch", "init -- python a.py", "completion bash", "submit --help"])
def test_a_full_disk_behind_stdout_is_a_failure(cluster, words):
    cluster.write("job.yaml", SLEEP)
    cluster.write("job.sbatch", "#!/bin/bash\n#SBATCH --nodes=1\nsrun python a.py\n")
    line = "launch " + words.format(cpu=CPU)
    assert "cannot write the output: No space left on device" in shell(cluster, line + " > /dev/full", 1)
    assert "cannot write the output: Bad file descriptor" in shell(cluster, line + " >&-", 1)
    said = shell(cluster, "set -o pipefail; launch " + words.format(cpu=CPU) + " | true", 0)
    assert "cannot write" not in said, "who reads no further has what was wanted"


def test_a_full_disk_keeps_another_failure(cluster):
    cluster.write("job.yaml", "name: x\nnodes: 900\nrun: a\n")
    assert "cannot write the output" in shell(cluster, f"launch plan job.yaml --inventory {CPU} -o json > /dev/full", 3)


def test_a_job_whose_number_could_not_be_printed_is_named(cluster):
    cluster.up()
    cluster.write("job.yaml", SLEEP)
    said = shell(cluster, "launch submit --parsable job.yaml > /dev/full", 1)
    (job,) = re.findall(r"job (\d+) was submitted", said)
    for words in ("queue -a", "nodes -o json", f"env {job}", "events"):
        assert "cannot write the output" in shell(cluster, f"launch {words} > /dev/full", 1)
    cluster.launch("cancel", job)
    assert "cannot write the output" in shell(cluster, "launch run -- seq 1 10 > /dev/full", 1)


def refused(cluster, *words):
    """Of stderr, and of the document that goes with it."""
    done = cluster.launch(*words, code=2)
    assert done.stderr.startswith("launch: ") and not done.stdout, done
    own = list(words)[: words.index("--")] if "--" in words else list(words)
    document = json.loads(cluster.launch(own[0], "-o", "json", *words[1:], code=2).stdout)["error"]
    return done.stderr, document


@pytest.mark.parametrize("word, hint", [
    ("python train.py", "leave the quotes out: -- python train.py"),
    ("source v/bin/activate && python train.py",
     "a text with operators or variables needs a shell: -- bash -c 'source v/bin/activate && python train.py'"),
])
def test_a_command_in_quotes_is_never_sent_to_the_shell_of_the_user(cluster, word, hint):
    said, _ = refused(cluster, "submit", "--dry-run", "--", word)
    assert said.endswith(f"hint: {hint}\n"), said


@pytest.mark.parametrize("words, extra, hint", [
    (["run", "python", "train.py"], "`train.py`", "put the command behind --: launch run -- python train.py"),
    (["submit", "-N", "2", "python", "train.py"], "`train.py`",
     "put the command behind --: launch submit -N 2 -- python train.py"),
    (["submit", "torchrun", "--nproc_per_node", "2", "train.py"], "`--nproc_per_node`",
     "put the command behind --: launch submit -- torchrun --nproc_per_node 2 train.py"),
    (["exec", "12", "ls", "/tmp"], "`ls`", "put the command behind --: launch exec 12 -- ls /tmp"),
    (["plan", "a.yaml", "batch.micro=4"], "`batch.micro=4`",
     "put changes behind --: launch plan a.yaml -- batch.micro=4"),
    (["plan", "a.yaml", "--inventry", "x"], "`--inventry`", "launch plan --help"),
    (["drain", "gpu01", "gpu02", "--reason", "x"], "`gpu02`", "launch drain --help"),
    (["token", "list", "all"], "`all`", "launch token list --help"),
])
def test_a_word_too_much_names_the_line_that_was_meant(cluster, words, extra, hint):
    said, document = refused(cluster, *words)
    assert extra in said.splitlines()[0] and said.endswith(f"hint: {hint}\n"), said
    assert extra in document["message"], document


@pytest.mark.parametrize("words, first, hint", [
    (["drain", "gpu01"], "launch: --reason is required", "launch drain --help"),
    (["node", "drain", "gpu01"], "launch: --reason is required", "launch node drain --help"),
    (["status"], "launch: an argument is missing: job", "launch status --help"),
    (["cancel"], "launch: an argument is missing: jobs", "launch cancel --help"),
    (["diagnose"], "launch: ", "launch diagnose --help"),
    (["token"], "launch: `launch token` needs a verb", "`launch token --help` lists them"),
    (["token", "lst"], "launch: there is no verb `lst` of `launch token`", "did you mean `list`?"),
    (["stauts", "1"], "launch: there is no verb `stauts`", "did you mean `status`?"),
])
def test_a_missing_word_is_named(cluster, words, first, hint):
    said, document = refused(cluster, *words)
    assert said.startswith(first) and said.count("\n") == 2, said
    assert said.endswith(f"hint: {hint}\n") and document["hint"] == hint, (said, document)


def test_help_is_a_verb_too(cluster):
    assert cluster.launch("help", "submit").stdout == cluster.launch("submit", "--help").stdout
    assert cluster.launch("help").stdout == cluster.launch("--help").stdout


def test_a_job_file_is_no_inventory(cluster):
    job = cluster.write("job.yaml", SLEEP)
    said = cluster.launch("plan", job, "--inventory", job, code=2).stderr
    assert "job.yaml is a job file, not an inventory" in said, said


def test_one_unknown_name_stops_nothing_else(cluster):
    cluster.up()
    jobs = [cluster.submit(cluster.write("job.yaml", SLEEP)) for _ in range(2)]
    done = cluster.launch("hold", jobs[0], 99, jobs[1], "-o", "json", code=2)
    assert {j["id"]: bool(j["error"]) for j in json.loads(done.stdout)["jobs"]}[99], done.stdout
    assert "99" in done.stderr
    assert "nothing" not in cluster.launch("cancel", jobs[0], "x9", code=2).stdout
    assert "`paper_r64` is not a job id" in cluster.launch("cancel", "paper_r64", code=2).stderr, "no element of `paper`"
    assert cluster.status(jobs[0])["state"] != "CANCELLED", "a word that is no number may be a mistake in all of them"
    done = cluster.launch("cancel", jobs[0], 99, jobs[1], "-o", "json", code=2)
    said = {j["id"]: j["error"] for j in json.loads(done.stdout)["jobs"]}
    assert said.pop(99) and set(said) == {int(j) for j in jobs} and not any(said.values()), said
    assert [cluster.status(j)["state"] for j in jobs] == ["CANCELLED"] * 2
    text = cluster.launch("status", jobs[0]).stdout
    assert not re.search(r"^cancelled by", text, re.MULTILINE), text
    assert cluster.launch("why", jobs[0]).stdout.startswith(f"job {jobs[0]} was cancelled by "), "and exit 0"
    node = cluster.node_names()[0]
    cluster.launch("drain", node, "--reason", "test")
    done = cluster.launch("undrain", f"nowhere,{node}", code=2)
    assert "nowhere" in done.stderr and f"{node} takes jobs again" in done.stderr


def test_a_cluster_that_stopped_is_started_again_not_made(cluster):
    cluster.up()
    pid = cluster.controller_pid()
    cluster.kill(pid)
    said = cluster.launch("submit", cluster.write("job.yaml", SLEEP)).stderr
    assert "starting it again" in said and "no cluster is configured" not in said, said
