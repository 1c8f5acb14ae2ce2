"""launch run: a job in the foreground, with its output, its exit code and Ctrl-C."""

import json
import signal

from conftest import wait_until


def test_run_shows_the_output_and_ends_with_the_code_of_the_job(cluster):
    cluster.up()
    done = cluster.launch("run", "--device", "cpu", "--", "bash", "-c", "echo trained; exit 7", code=7)
    assert "trained" in done.stdout
    good = cluster.launch("run", "--device", "cpu", "--procs-per-node", "2", "--", "bash", "-c", "echo rank $RANK")
    assert "[0] rank 0" in good.stdout and "[1] rank 1" in good.stdout, good.stdout


def test_ctrl_c_cancels_the_job_in_the_foreground(cluster):
    cluster.up()
    run = cluster.spawn("run", "--device", "cpu", "--", "bash", "-c", "echo up; sleep 300")
    wait_until("the job runs", lambda: any(j["state"] == "RUNNING" for j in cluster.json("queue")["jobs"]))
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 130, (out, err)
    assert "cancelling job 1" in err and "up" in out
    assert cluster.state_of("1") == "CANCELLED"


def test_under_nohup_the_end_of_the_terminal_leaves_the_job_alone(cluster):
    cluster.up()
    kept = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # what nohup does, and children inherit
    try:
        run = cluster.spawn("run", "--device", "cpu", "--", "bash", "-c",
                            "echo up; until [ -e go ]; do sleep 0.1; done; exit 4")
    finally:
        signal.signal(signal.SIGHUP, kept)
    wait_until("the job runs", lambda: any(j["state"] == "RUNNING" for j in cluster.json("queue")["jobs"]))
    run.send_signal(signal.SIGHUP)
    cluster.write("go", "")
    out, err = run.communicate(timeout=60)
    assert (run.returncode, "cancelling" in err) == (4, False), (out, err)


def test_env_of_a_rank_is_what_the_rank_saw(cluster):
    cluster.up()
    job = cluster.write("job.yaml", """\
name: env
device: cpu
procs_per_node: 2
env: {GREETING: "it's a $HOME test"}
run: env
""")
    number = cluster.launch("submit", job, "--wait").stdout.strip()
    seen = dict(line.split("=", 1) for line in
                cluster.launch("logs", number, "--rank", "1", "--no-prefix").stdout.splitlines() if "=" in line)
    script = cluster.launch("env", number, "--rank", "1").stdout
    pasted = cluster.work / "env.sh"
    pasted.write_text(script + "env -0\n")
    import subprocess
    shown = subprocess.run(["env", "-i", "bash", "--norc", pasted], capture_output=True, text=True, check=True).stdout
    told = dict(entry.split("=", 1) for entry in shown.split("\0") if "=" in entry)
    own = {"PWD", "SHLVL", "_"}
    for name in told.keys() - own:
        assert seen[name] == told[name], name
    open_names = {line.split()[1] for line in script.splitlines() if " is set on the node" in line}
    assert seen.keys() - told.keys() - own == open_names


def test_init_history_and_completion(cluster):
    cluster.up()
    cluster.write("train.sh", "for i in 1 2 3; do echo \"step $i/3\"; done\n")
    text = cluster.launch("init", "--", "bash", "train.sh").stdout
    job = cluster.write("made.yaml", text.replace("gpus: 1", "device: cpu #"))
    cluster.launch("submit", job, "--wait")
    rows = cluster.json("history")["jobs"]
    assert [(r["state"], r["exit_code"]) for r in rows] == [("SUCCEEDED", 0)]
    assert "TRAINED" in cluster.launch("history").stdout
    script = cluster.launch("completion", "bash").stdout
    import subprocess
    words = subprocess.run(
        ["bash", "--norc", "-c", script + "COMP_WORDS=(launch dev d); COMP_CWORD=2; _launch; echo ${COMPREPLY[@]}"],
        capture_output=True, text=True, check=True).stdout.split()
    assert words == ["down"], words
    forms = subprocess.run(
        ["bash", "--norc", "-c", script + "COMP_WORDS=(launch queue -o c); COMP_CWORD=3; _launch; echo ${COMPREPLY[@]}"],
        capture_output=True, text=True, check=True).stdout.split()
    assert forms == ["csv", "custom="], forms
    assert "complete -c launch" in cluster.launch("completion", "fish").stdout
    assert cluster.launch("completion", "tcsh", code=2).stderr


def test_tables_as_csv_and_by_column(cluster):
    """-o csv and custom= of what prints tables; the rest refuses them before it does anything."""
    import csv
    import io
    cluster.up("--nodes", 2)
    job = cluster.write("two.yaml", "name: two\nnodes: 2\ndevice: cpu\ngpus: 0\nrun: sleep 600\n")
    first = cluster.submit(job)
    cluster.wait_for(first, "RUNNING")

    def rows(*args):
        return list(csv.DictReader(io.StringIO(cluster.launch(*args).stdout)))

    nodes = sorted(row["NODE"] for row in rows("nodes", "-o", "csv"))
    (row,) = rows("queue", "-o", "csv", "--expand")
    assert row["ID"] == first and row["NAME"] == "two" and row["ST"] == "R" and row["SUBMITTED"] != "-", row
    assert sorted(row["NODELIST(REASON)"].split(",")) == nodes, row
    assert cluster.launch("status", first, "-o", "custom=st").stdout.split() == ["ST", "R"]
    folded = cluster.launch("queue", "-o", "custom=nodelist,ID").stdout.split()
    assert folded[:2] == ["NODELIST(REASON)", "ID"] and folded[3] == first and "[" in folded[2], folded
    unknown = cluster.launch("queue", "-o", "custom=ID,COLOUR", code=2)
    assert "COLOUR" in unknown.stderr and "STRATEGY, STEP" in unknown.stderr and not unknown.stdout, unknown.stderr
    refused = cluster.launch("submit", job, "-o", "csv", code=2)
    assert "`launch submit` prints no single table" in refused.stderr and "token list" in refused.stderr, refused.stderr
    assert len(rows("queue", "-a", "-o", "csv")) == 1, "the refused submit submitted"
    cluster.launch("cancel", first)
    assert [row["ST"] for row in rows("history", "-o", "csv=ID,ST")] == ["CA"]
    assert cluster.launch("history", "-o", "name").stdout == first + "\n"
    assert rows("quarantine", "list", "-o", "csv") == []
    assert {row["TOKEN"].split(":")[0] for row in rows("token", "list", "-o", "csv")} == {"node " + n for n in nodes}
    assert {row["PROGRAM"] for row in rows("dev", "status", "-o", "csv")} == {"launch-controller", "launch-agent"}
    assert cluster.launch("context", "-o", "csv").stdout.startswith("CURRENT,NAME,")


def test_json_is_a_document_or_refused(cluster, tmp_path):
    cluster.up()
    (node,) = cluster.node_names()
    job = cluster.submit(cluster.write("job.yaml", "name: one\ngpus: 0\nrun: exit 3\n"))
    loud = cluster.submit(cluster.write("loud.yaml", "name: loud\ngpus: 0\nrun: echo hello\n"))
    cluster.wait_for(loud, "SUCCEEDED")
    (ended,) = json.loads(cluster.launch("wait", job, "-o", "json", code=3).stdout)["jobs"]
    assert (ended["id"], ended["state"], ended["kind"]) == (int(job), "FAILED", "job"), ended
    assert cluster.json("drain", node, "--reason", "x")["nodes"] == [{"node": node, "drained": True}]
    assert cluster.json("undrain", node)["nodes"] == [{"node": node, "drained": False}]
    assert all("serial" in token for token in cluster.json("token", "list")["tokens"])
    assert "contexts" in cluster.json("context") and "launch" in cluster.json("version")
    (line,) = [json.loads(line) for line in cluster.launch("logs", loud, "-o", "json").stdout.splitlines()]
    assert (line["text"], line["rank"], line["stream"], line["node"]) == ("hello", 0, "out", node) and line["time"], line
    top = cluster.json("top")
    assert [one["node"] for one in top["nodes"]] == [node] and top["jobs"] == [] and "gpu_jobs" in top, top
    assert [run["job"] for run in cluster.json("calibration")["runs"]] == ["loud"]
    script = tmp_path / "one.sbatch"
    script.write_text("#!/bin/bash\n#SBATCH --gres=gpu:1\npython train.py\n")
    written = cluster.launch("import", script, "-o", "yaml").stdout
    assert written == cluster.launch("import", script).stdout and "python train.py" in written, written
    for verb in (["bundle", job], ["init"], ["down"], ["import", script]):
        refused = cluster.launch(*verb, "-o", "json", code=2)
        assert json.loads(refused.stdout)["error"]["exit"] == 2, refused.stdout
        assert f"`launch {verb[0]}` has no json" in refused.stderr, refused.stderr
    for line in (["bogus"], ["queue", "--bogus"], ["status"]):
        wrong = cluster.launch(*line, "-o", "json", code=2)
        assert json.loads(wrong.stdout)["error"]["code"] == "INVALID_ARGUMENT", wrong.stdout


def test_help_has_every_verb_once_and_fits_80_columns(cluster):
    text = cluster.launch("--help").stdout
    assert [line for line in text.splitlines() if len(line) > 80] == []
    script = cluster.launch("completion", "bash").stdout
    verbs = script.split('    "") verbs="')[1].split('"')[0].split()
    shown = [line.split()[0] for line in text.split("Flags of every verb")[0].splitlines() if line.startswith("  ")]
    assert sorted(shown) == sorted(verbs)
    for title in ("Run jobs", "Inspect", "Control jobs", "Inside a job", "Nodes and clusters", "Offline and help"):
        assert f"\n\n{title}\n" in text, title
    assert "Copy files and directories from a job" in cluster.launch("cp", "--help").stdout
