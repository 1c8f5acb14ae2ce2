"""`plan -o json` equals each rank's real environment but for what it lists under `late`."""

import json
import re
import shutil
import textwrap

import pytest

from conftest import ROOT, VENV

DUMP = textwrap.dedent("""\
    import json, os, sys
    if "RANK" in os.environ:
        print("ENV " + json.dumps(dict(os.environ)), flush=True)
    """)

# Set by bash itself or by the Python start-up, in every process.
SHELL = {"PWD", "SHLVL", "_", "OLDPWD", "LC_CTYPE"}


def real_environments(cluster, job, world):
    found = {}
    for rank in range(world):
        out = cluster.launch("logs", job, "--rank", rank, "--raw").stdout
        found[rank] = json.loads(re.search(r"ENV (\{.*\})", out)[1])
    return found


def check(cluster, job_file, *args):
    plan = cluster.json("plan", job_file, *args)
    job = cluster.launch("submit", job_file, "--wait", "--parsable", *args, timeout=120).stdout.strip().splitlines()[-1]
    late = set(plan["late"])
    real = real_environments(cluster, job, plan["world_size"])
    for assignment in plan["assignments"]:
        rank = assignment["rank"]
        planned = {k: v for k, v in assignment["env"].items() if k not in late}
        seen = {k: v for k, v in real[rank].items() if k not in late and k not in SHELL}
        assert seen == planned, f"rank {rank}"
        for name in ("MASTER_ADDR", "MASTER_PORT", "LAUNCH_JOB_ID", "LAUNCH_ATTEMPT"):
            assert real[rank].get(name), f"{name} is fixed by the start"
    return real


@pytest.mark.parametrize("name", ["hello", "ddp", "torchrun"])
def test_every_example(cluster, name):
    cluster.up("--nodes", 2)
    shutil.copytree(ROOT / "configs/jobs", cluster.work / "jobs")
    # Every script of the examples dumps its environment first; the examples themselves are unchanged.
    for script in (cluster.work / "jobs").glob("*.py"):
        script.write_text(DUMP + script.read_text())
    if name == "hello":
        text = (cluster.work / "jobs/hello.yaml").read_text()
        assert "run:" in text
        (cluster.work / "jobs/dump.py").write_text(DUMP)
        (cluster.work / "jobs/hello.yaml").write_text(re.sub(r"run:.*", "run: python dump.py", text, flags=re.S))
    check(cluster, cluster.work / f"jobs/{name}.yaml", "--venv", VENV)


def test_the_users_variables_expand_in_order(cluster):
    cluster.up()
    cluster.write("dump.py", DUMP)
    job = cluster.write("job.yaml", textwrap.dedent(f"""\
        name: env
        venv: {VENV}
        env:
          CUDA_HOME: /usr/local/cuda
          LD_LIBRARY_PATH: /usr/lib/cuda/lib64:/usr/lib/aarch64-linux-gnu:${{LD_LIBRARY_PATH:-OLD}}
          PATH: $CUDA_HOME/bin:$PATH
          OMP_NUM_THREADS: "3"
        run: python dump.py
        """))
    real = check(cluster, job)[0]
    assert real["LD_LIBRARY_PATH"].startswith("/usr/lib/cuda/lib64:/usr/lib/aarch64-linux-gnu:")
    assert real["PATH"].startswith("/usr/local/cuda/bin:")
    assert real["OMP_NUM_THREADS"] == "3", "a value of the user wins"


def test_the_users_pythonpath_reaches_a_real_rank_in_its_order(cluster):
    cluster.up()
    for name in ("first", "second", "third"):
        (cluster.work / name).mkdir()
        (cluster.work / name / "which.py").write_text(f"name = {name!r}")
    (cluster.work / "third/only.py").write_text("")
    cluster.write("dump.py", DUMP + "import only, which; print('WHICH', which.name, flush=True)\n")
    job = cluster.write("job.yaml", textwrap.dedent(f"""\
        name: path
        venv: {VENV}
        env:
          LIBS: {cluster.work}
          PYTHONPATH: $LIBS/first:$LIBS/second:${{PYTHONPATH:-$LIBS/third}}
          KEPT: ${{PYTHONPATH}}
        run: python dump.py
        """))
    done = cluster.launch("submit", job, "--wait", "--parsable", timeout=120)
    number = done.stdout.strip().splitlines()[-1]
    real = real_environments(cluster, number, 1)[0]
    own = [str(cluster.work / name) for name in ("first", "second", "third")]
    assert real["PYTHONPATH"].split(":")[1:] == own, "behind the directory of the node alone"
    assert real["KEPT"].split(":") == own, "what stands before it in env"
    assert "WHICH first" in cluster.launch("logs", number).stdout


def test_nothing_of_the_submitters_shell_leaks(cluster):
    cluster.up(env={"SECRET_OF_THE_SHELL": "1"})
    cluster.write("dump.py", DUMP)
    job = cluster.write("job.yaml", f"name: leak\nvenv: {VENV}\nrun: python dump.py\n")
    done = cluster.launch("submit", job, "--wait", "--parsable", env={"SECRET_OF_THE_SHELL": "2", "http_proxy": "x"})
    real = real_environments(cluster, done.stdout.strip().splitlines()[-1], 1)[0]
    assert "SECRET_OF_THE_SHELL" not in real and "http_proxy" not in real


def test_a_plan_without_a_cluster_leaves_nothing_behind(cluster, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    job = cluster.write("job.yaml", "name: env\ndevice: cpu\nrun: python train.py\n")
    cluster.write("train.py", "print('not yet')\n")
    for verb in (["plan", job, "-o", "json"], ["submit", job, "--dry-run", "-o", "json"], ["check", "--known", job]):
        done = cluster.launch(*verb, env={"TMPDIR": str(temporary)}, code=None)
        assert done.returncode == 0, done.stderr
        assert "ends with this command" in done.stderr
        assert list(temporary.iterdir()) == [] and not cluster.state.exists()
    # What it says is what a cluster that stays says.
    passing = json.loads(cluster.launch("plan", job, "-o", "json", env={"TMPDIR": str(temporary)}).stdout)
    cluster.up()
    kept = cluster.json("plan", job)
    assert passing["assignments"][0]["env"].keys() == kept["assignments"][0]["env"].keys()
    assert passing["strategy"] == kept["strategy"] and passing["processes"] == kept["processes"]
