"""Launchers inside a job's own scripts: the real programs, held to the plan."""

import importlib.util
import json
import os
import sys
import textwrap

import pytest
from conftest import VENV, wait_until

RANKS = textwrap.dedent("""\
    import os, sys, time, torch, torch.distributed as dist
    # torch 2.13 sometimes aborts in its own clean-up at the interpreter's end, under every launcher.
    sys.exit = os._exit
    dist.init_process_group("gloo")
    total = torch.tensor(dist.get_rank() + 1)
    dist.all_reduce(total)
    words = ["rank", dist.get_rank(), "of", dist.get_world_size(), "local", os.environ["LOCAL_RANK"],
             "group", os.environ["GROUP_RANK"], "sum", total.item(), *sys.argv[1:]]
    # One write: the ranks of a node share its output, and unbuffered print() writes word by word.
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
    if "--die" in sys.argv and dist.get_rank() == 3:
        sys.exit(33)
    if "--die" in sys.argv:
        time.sleep(60)
    dist.destroy_process_group()
    sys.exit(0)
""")

JOB = """\
name: script
device: cpu
gpus: 0
nodes: 2
venv: {venv}
retry: {{max: 0}}
run: {run}
"""


def test_torchrun_inside_a_shell_script_forms_one_world_over_two_nodes(cluster):
    cluster.up("--nodes", "2")
    cluster.write("train.py", RANKS)
    cluster.write("train.sh", textwrap.dedent("""\
        set -e
        echo preparing on node $NODE_RANK
        NGPU=2
        MASTER_ADDR=localhost  # as start scripts have them for a run by hand
        NODE_RANK=0
        NNODES=1
        torchrun --nnodes=$NNODES --node_rank=$NODE_RANK --master_addr=$MASTER_ADDR --master_port=29500 \\
          --nproc_per_node=$NGPU train.py "$@"
    """))
    job = cluster.write("job.yaml", JOB.format(venv=VENV, run="bash train.sh --lr 0.1"))
    plan = cluster.json("plan", job)
    assert any("train.sh calls torchrun: 4 processes = 2 nodes x 2" in line for line in plan["read"]), plan["read"]
    assert [a["rank"] for a in plan["assignments"]] == [0, 1]
    number = cluster.launch("submit", job, "--wait", timeout=180).stdout.strip()
    out = cluster.launch("logs", number, "--no-prefix").stdout
    for rank in range(4):
        assert f"rank {rank} of 4 local {rank % 2} group {rank // 2} sum 10 --lr 0.1" in out, out
    assert out.count("replaced by the plan") == 1, out


def test_a_recipe_of_make_that_activates_an_environment_is_held_to_the_plan(cluster):
    """make gives recipes to /bin/sh, which takes no functions from bash."""
    cluster.up("--nodes", "2")
    cluster.write("train.py", RANKS)
    (cluster.work / "own").mkdir()
    (cluster.work / "own/torchrun").symlink_to(VENV / "bin/torchrun")
    cluster.write("own/activate", f'PATH="{cluster.work}/own:$PATH"\n')
    cluster.write("Makefile", "export NGPU = 1\ntrain:\n\t$(MAKE) ranks\n"
                  "ranks:\n\t. own/activate && torchrun --standalone --nproc_per_node=$$NGPU train.py\n")
    job = cluster.write("job.yaml", JOB.format(venv=VENV, run="make train NGPU=2"))
    assert cluster.json("plan", job)["processes"]["total"] == 4
    number = cluster.launch("submit", job, "--wait", timeout=180).stdout.strip()
    out = cluster.launch("logs", number, "--no-prefix").stdout
    for rank in range(4):
        assert f"rank {rank} of 4 local {rank % 2} group {rank // 2} sum 10" in out, out


def test_composer_hears_of_all_nodes_and_other_programs_do_not(cluster):
    cluster.up("--nodes", "2")
    program = cluster.write("composer", "#!/bin/sh\necho composer $* world=$WORLD_SIZE node=$NODE_RANK.\n")
    os.chmod(program, 0o755)
    cluster.write("inner.sh", "nohup composer -n 2 inner.py\n")
    job = cluster.write("job.yaml", textwrap.dedent(f"""\
        name: world
        nodes: 2
        device: cpu
        gpus: 0
        procs_per_node: 2
        env: {{PATH: "{os.path.dirname(program)}:$PATH"}}
        run: |
          echo prepared world=$WORLD_SIZE.
          timeout 60 composer -n 2 t.py
          composer -n 2 u.py && bash inner.sh
          WORLD_SIZE=3 composer -n 2 own.py
        """))
    number = cluster.launch("submit", job, "--wait", timeout=120).stdout.strip().splitlines()[-1]
    for node in range(2):
        out = cluster.launch("logs", number, "--rank", node).stdout
        for said in ("prepared world=.", f"composer -n 2 t.py world=4 node={node}.",
                     f"composer -n 2 u.py world=4 node={node}.", f"composer -n 2 inner.py world=4 node={node}.",
                     f"composer -n 2 own.py world=3 node={node}."):
            assert said in out, out


# open-mmlab/mmdetection tools/dist_train.sh, with what people write into it for their first node.
DIST_TRAIN = """\
#!/usr/bin/env bash
CONFIG=$1
GPUS=$2
PORT=${PORT:-29500}

PYTHONPATH="$(dirname $0)/..":$PYTHONPATH \\
python -m torch.distributed.launch \\
    --nnodes=1 \\
    --node_rank=0 \\
    --master_addr=10.9.8.7 \\
    --nproc_per_node=$GPUS \\
    --master_port=$PORT \\
    $(dirname "$0")/train.py \\
    $CONFIG ${@:3}
"""


def test_python_m_inside_a_script_is_held_to_the_plan(cluster):
    cluster.up("--nodes", "2")
    cluster.write("train.py", RANKS)
    cluster.write("dist_train.sh", DIST_TRAIN).chmod(0o755)
    job = cluster.write("job.yaml", JOB.format(venv=VENV, run="./dist_train.sh cfg.py 2 --amp"))
    plan = cluster.json("plan", job)
    assert any("dist_train.sh calls torchrun: 4 processes = 2 nodes x 2" in line for line in plan["read"]), plan["read"]
    number = cluster.launch("submit", job, "--wait", timeout=180).stdout.strip()
    out = cluster.launch("logs", number, "--no-prefix").stdout
    for rank in range(4):
        assert f"rank {rank} of 4 local {rank % 2} group {rank // 2} sum 10 --local-rank={rank % 2} cfg.py --amp" in out, out
    # The same for the code of the rank that fails first, and for the verdict.
    job = cluster.write("die.yaml", JOB.format(venv=VENV, run="true && python -m torch.distributed.run --nproc_per_node=2 train.py --die"))
    done = cluster.launch("submit", job, "--wait", code=33, timeout=180)
    number = done.stdout.strip()
    assert "first failing rank of torchrun: 3 (local rank 1): exit 33" in cluster.launch("logs", number, "--no-prefix").stdout
    assert cluster.json("why", number)["rank"] == 3


def test_a_module_is_started_where_its_package_lies(cluster):
    cluster.up()
    (cluster.work / "pkg").mkdir()
    cluster.write("pkg/__init__.py", "")
    cluster.write("pkg/train.py", RANKS)
    text = JOB.format(venv=VENV, run="torchrun --nproc_per_node 2 -m pkg.train --x").replace("nodes: 2", "nodes: 1")
    number = cluster.launch("submit", cluster.write("job.yaml", text), "--wait", timeout=180).stdout.strip()
    assert "rank 1 of 2 local 1 group 0 sum 3 --x" in cluster.launch("logs", number, "--no-prefix").stdout


def test_a_script_that_takes_rank_for_several_gpus_trains_alone_on_a_cpu(cluster):
    cluster.up()
    # karpathy/nanoGPT train.py: with RANK it takes cuda:LOCAL_RANK.
    cluster.write("train.py", "import os\nddp = int(os.environ.get('RANK', -1)) != -1  # is this a ddp run?\n"
                              "if ddp:\n    init_process_group('nccl')\n    torch.cuda.set_device(0)\nprint('alone', os.environ['LAUNCH_DEVICE'])\n")
    text = JOB.format(venv=VENV, run="python train.py --device=cpu").replace("nodes: 2", "nodes: 1")
    job = cluster.write("job.yaml", text)
    assert any("takes RANK" in line for line in cluster.json("plan", job)["read"])
    number = cluster.launch("submit", job, "--wait").stdout.strip()
    assert "alone cpu" in cluster.launch("logs", number).stdout


def test_the_exit_code_of_the_first_failing_rank_survives_torchrun(cluster):
    cluster.up("--nodes", "2")
    cluster.write("train.py", RANKS)
    cluster.write("train.sh", "torchrun --nproc_per_node=2 train.py --die\n")
    job = cluster.write("job.yaml", JOB.format(venv=VENV, run="bash train.sh"))
    done = cluster.launch("submit", job, "--wait", code=33, timeout=180)
    out = cluster.launch("logs", done.stdout.strip(), "--no-prefix").stdout
    assert "first failing rank of torchrun: 3 (local rank 1): exit 33" in out, out
    status = cluster.status(done.stdout.strip())
    (attempt,) = status["attempts"]
    assert status["outcome"] == f"rank 3 on {attempt['first_failed_node']}: exit 33", status["outcome"]
    assert attempt["first_failed_rank"] == 3
    processes = {p["rank"]: p for rank in attempt["ranks"] for p in rank["exit"]["processes"]}
    assert sorted(processes) == [0, 1, 2, 3], attempt["ranks"]
    assert [processes[rank]["local_rank"] for rank in range(4)] == [0, 1, 0, 1]
    assert processes[3]["says"] == "exit 33" and processes[3]["error"] is None
    assert len({p["pid"] for p in processes.values()} - {None}) == 4
    # It writes to the log of the text on its node, and is asked for by that text's rank.
    number = done.stdout.strip()
    for verb in ("logs", "env"):
        refused = cluster.launch(verb, number, "--rank", "3", code=2).stderr
        assert "process 3" in refused and f"launch {verb} {number} --rank 1" in refused, refused
    assert "the launcher in run starts processes 2 to 3" in cluster.launch("env", number, "--rank", "1").stdout
    # torchrun itself ended the others.
    assert processes[2]["says"] == "signal 15 (SIGTERM)", processes
    table = cluster.launch("status", done.stdout.strip()).stdout
    assert "processes of the launcher" in table and "exit 33" in table, table
    verdict = cluster.json("why", done.stdout.strip())
    assert verdict["rank"] == 3 and verdict["label"] != "preempted_signal", verdict


RECORDED = textwrap.dedent("""\
    import os
    from torch.distributed.elastic.multiprocessing.errors import record

    @record
    def main():
        if os.environ["RANK"] == "1":
            raise ValueError("no such corpus")

    main()
""")


def test_status_names_the_exception_of_a_process_that_is_its_own_witness(cluster):
    cluster.up()
    cluster.write("train.py", RECORDED)
    cluster.write("train.sh", "set -e\ntorchrun --nproc_per_node=2 train.py\n")
    text = JOB.format(venv=VENV, run="bash train.sh").replace("nodes: 2", "nodes: 1")
    number = cluster.launch("submit", cluster.write("job.yaml", text), "--wait", code=1, timeout=300).stdout.strip()
    (attempt,) = cluster.status(number)["attempts"]
    (rank,) = attempt["ranks"]
    first, second = rank["exit"]["processes"]
    assert (second["rank"], second["says"], second["error"]) == (1, "exit 1", "ValueError"), rank
    # Ended well, or was ended by torchrun.
    assert first["rank"] == 0 and first["says"] in ("exit 0", "signal 15 (SIGTERM)"), rank


def test_a_launcher_that_would_start_once_per_rank_names_the_way_out(cluster):
    cluster.up()
    cluster.write("train.py", RANKS)
    # Found at run time only: the submitter sees no launcher in the text.
    cluster.write("inner", "torchrun --nproc_per_node=2 train.py\n")
    text = JOB.format(venv=VENV, run="bash -e inner").replace("nodes: 2", "procs_per_node: 2")
    cluster.write("outer.sh", "exec bash -e $(echo inner)\n")
    job = cluster.write("job.yaml", text.replace("bash -e inner", "bash outer.sh"))
    done = cluster.launch("submit", job, "--wait", code=2, timeout=120)
    out = cluster.launch("logs", done.stdout.strip(), "--no-prefix").stdout
    assert "write launcher: node" in out, out
    again = cluster.launch("submit", job, "--launcher", "node", "--wait", timeout=180)
    out = cluster.launch("logs", again.stdout.strip(), "--no-prefix").stdout
    assert "rank 1 of 2 local 1 group 0 sum 3" in out, out


def test_launcher_torchrun_starts_the_real_program_in_front_of_a_python_command(cluster):
    cluster.up()
    cluster.write("train.py", RANKS)
    text = JOB.format(venv=VENV, run="python train.py").replace("nodes: 2", "procs_per_node: 2")
    job = cluster.write("job.yaml", text + "launcher: torchrun\n")
    number = cluster.launch("submit", job, "--wait", timeout=180).stdout.strip()
    out = cluster.launch("logs", number, "--no-prefix").stdout
    assert "rank 0 of 2 local 0 group 0 sum 3" in out, out


def test_cancel_leaves_no_worker_of_torchrun_behind(cluster):
    cluster.up()
    cluster.write("train.py", RANKS.replace('"--die" in sys.argv and', "False and"))
    cluster.write("train.sh", "torchrun --nproc_per_node=2 train.py --die\n")
    text = JOB.format(venv=VENV, run="bash train.sh").replace("nodes: 2", "stop_duration: 5s")
    number = cluster.submit(cluster.write("job.yaml", text))
    wait_until("both ranks up", lambda: "rank 1 of 2" in cluster.launch("logs", number, code=None).stdout, 60)
    cluster.launch("cancel", number, timeout=60)
    assert cluster.state_of(number) == "CANCELLED"


ENVIRONMENT = """\
name: env
device: cpu
gpus: 0
env:
  CUDA_HOME: /usr/local/cuda
  LD_LIBRARY_PATH: /usr/lib/cuda/lib64:/usr/lib/aarch64-linux-gnu:${{LD_LIBRARY_PATH:-OLD}}
  PATH: $CUDA_HOME/bin:$PATH
{more}run: printenv LD_LIBRARY_PATH PATH
"""


def test_S000_6_environment_lines_reach_the_rank_as_the_plan_shows_them(cluster):
    cluster.up()
    job = cluster.write("job.yaml", ENVIRONMENT.format(more=""))
    env = cluster.json("plan", job)["assignments"][0]["env"]
    number = cluster.launch("submit", job, "--wait").stdout.strip()
    library_path, path = cluster.launch("logs", number, "--no-prefix").stdout.splitlines()[:2]
    assert library_path == env["LD_LIBRARY_PATH"]
    assert library_path.startswith("/usr/lib/cuda/lib64:/usr/lib/aarch64-linux-gnu:")
    assert path == env["PATH"] and path.startswith("/usr/local/cuda/bin:")
    bad = cluster.write("bad.yaml", ENVIRONMENT.format(more="  X: $FOO/lib\n"))
    refused = cluster.launch("submit", bad, code=2).stderr
    assert "env.X" in refused and "FOO" in refused


def test_a_conda_environment_is_activated_by_its_own_scripts(cluster):
    prefix = cluster.work / "envs/train"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin/python").symlink_to("/usr/bin/python3")
    scripts = prefix / "etc/conda/activate.d"
    scripts.mkdir(parents=True)
    (scripts / "proj.sh").write_text('export PROJ_DATA="$CONDA_PREFIX/share/proj"\nexport LEVEL=from-conda\nexport LIBS="$CONDA_PREFIX/lib"\n')
    (cluster.work / ".conda").mkdir()
    (cluster.work / ".conda/environments.txt").write_text(f"{prefix}\n")
    cluster.up()
    job = cluster.write("job.yaml", """\
name: conda
device: cpu
gpus: 0
conda: train
env: {LEVEL: mine, LIBS: '/mine:${LIBS:-none}:\\$x"q'}
run: python -c 'import os, shutil; print(shutil.which("python"), *(os.environ[n] for n in ("PROJ_DATA", "LEVEL", "LIBS")))'
""")
    number = cluster.launch("submit", job, "--wait").stdout.strip()
    out = cluster.launch("logs", number, "--no-prefix").stdout
    # A value that builds upon a variable builds upon what the scripts made of it.
    assert f'{prefix}/bin/python {prefix}/share/proj mine /mine:{prefix}/lib:$x"q' in out, out
    refused = cluster.launch("submit", job, "--", "conda=tarin", code=2).stderr
    assert "train" in refused
    (scripts / "zlib.sh").write_text("echo no compiler here >&2\nexit 3\n")
    failed = cluster.launch("submit", job, "--wait", code=3).stdout.strip()
    verdict = cluster.json("why", failed)
    assert verdict["label"] == "activation_failed" and f"{scripts}/zlib.sh" in verdict["cause"], verdict
    assert "last output: no compiler here" in verdict["evidence"], verdict
    (scripts / "zlib.sh").write_text("sleep 600\n")
    bounded = cluster.write("bounded.yaml", (cluster.work / "job.yaml").read_text().replace(
        "env: {", "env: {LAUNCH_ACTIVATION_SECONDS: 1, "))
    stuck = cluster.launch("submit", bounded, "--wait", code=None).stdout.strip()
    verdict = cluster.json("why", stuck)
    assert verdict["label"] == "activation_failed" and "had not ended after 1 s" in verdict["cause"], verdict


def test_the_interpreter_that_the_job_names_is_the_one_that_runs(cluster):
    # Not called python, and recognized by what it adds.
    mine = cluster.write("my-interpreter", f'#!/bin/sh\nMARK=mine exec {sys.executable} "$@"\n')
    mine.chmod(0o755)
    cluster.write("who.py", "import os\nprint('MARK', os.environ.get('MARK'), *os.sys.argv[1:])\n")
    cluster.write("who.sh", "true && python who.py in-script\npython3 who.py in-script\n")
    cluster.up()
    for run, words in (("python who.py a", "a"), ("A=$0 python3 who.py a", "a"), ("bash who.sh", "in-script"),
                       ("true; python who.py text", "text")):
        job = cluster.write("job.yaml", f"name: who\ndevice: cpu\ngpus: 0\npython: {mine}\nrun: {run}\n")
        number = cluster.launch("submit", job, "--wait").stdout.strip()
        out = cluster.launch("logs", number, "--no-prefix").stdout
        assert f"MARK mine {words}" in out and "None" not in out, (run, out)


def test_a_text_says_itself_where_it_stands_and_how_many_processes_it_starts(cluster):
    cluster.up()
    cluster.write("train.py", RANKS)
    (cluster.work / "run").mkdir()
    cluster.write("run/acc.yaml", "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_CPU\n"
                                  "num_machines: 1\nnum_processes: 2\nuse_cpu: true\n")
    cluster.write("run/sft.sh", 'cd "$(dirname "$0")"\nCFG=acc.yaml\naccelerate launch --config_file $CFG ../train.py\n')
    plan = json.loads(cluster.launch("plan", "-o", "json", "--", "bash", "run/sft.sh").stdout)
    assert plan["processes"]["total"] == 2, plan["read"]
    assert any("acc.yaml: settings of accelerate read" in line for line in plan["read"]), plan["read"]
    # The interpreter of a line stands in no user's $0.
    job = cluster.write("job.yaml", f"""\
name: here
device: cpu
venv: {VENV}
retry: {{max: 0}}
run: |
  cd "$(dirname "$0")"
  torchrun --nproc_per_node ${{NPROC_PER_NODE:-2}} train.py --name $(basename $0)
""")
    number = cluster.launch("submit", job, "--wait", timeout=180).stdout.strip()
    out = cluster.launch("logs", number, "--no-prefix").stdout
    for rank in range(2):
        assert f"rank {rank} of 2 local {rank} group 0 sum 3 --name bash" in out, out


def node_launcher():
    import importlib.util

    from conftest import ROOT
    spec = importlib.util.spec_from_file_location("node_launcher", ROOT / "planner/start/node_launcher.py")
    launcher = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(launcher)
    return launcher


def test_a_launcher_in_a_text_that_sets_devices_gets_those_of_the_job(capfd):
    launcher = node_launcher()
    contract = {"NNODES": "1", "NPROC_PER_NODE": "2", "NODE_RANK": "0", "MASTER_ADDR": "h", "MASTER_PORT": "1"}
    place = launcher.Place(contract)

    def kept(**environ):
        launcher.keep_devices(place, environ)
        return environ

    assert kept(CUDA_VISIBLE_DEVICES="0,1") == {"CUDA_VISIBLE_DEVICES": "0,1"}, "nothing was planned"
    assert kept(CUDA_VISIBLE_DEVICES="4,5", LAUNCH_VISIBLE_DEVICES="4,5") == {"CUDA_VISIBLE_DEVICES": "4,5"}
    assert capfd.readouterr().err == ""
    assert kept(CUDA_VISIBLE_DEVICES="0,1", LAUNCH_VISIBLE_DEVICES="4,5") == {"CUDA_VISIBLE_DEVICES": "4,5"}
    assert "CUDA_VISIBLE_DEVICES=0,1 inside run stands for these of the job's devices: 4,5" in capfd.readouterr().err
    assert kept(CUDA_VISIBLE_DEVICES="6,7", LAUNCH_VISIBLE_DEVICES="4,5") == {"CUDA_VISIBLE_DEVICES": "4,5"}
    assert "replaced by the job's devices: 4,5" in capfd.readouterr().err
    of_four = {"LAUNCH_VISIBLE_DEVICES": "0,1,2,3"}
    assert kept(CUDA_VISIBLE_DEVICES="2,3", **of_four) == {"CUDA_VISIBLE_DEVICES": "2,3"}, "a server has the others"
    others = {"LAUNCH_VISIBLE_DEVICES": "4,5,6,7"}
    assert kept(CUDA_VISIBLE_DEVICES="1,2,3", **others) == {"CUDA_VISIBLE_DEVICES": "5,6,7"}, "places among the job's"
    assert kept(CUDA_VISIBLE_DEVICES="5,6,7", **others) == {"CUDA_VISIBLE_DEVICES": "5,6,7"}
    assert kept(CUDA_VISIBLE_DEVICES="7,6,5,4", **others) == {"CUDA_VISIBLE_DEVICES": "7,6,5,4"}
    by_name = {"LAUNCH_VISIBLE_DEVICES": "GPU-a,GPU-b,GPU-c"}
    assert kept(CUDA_VISIBLE_DEVICES="1,2", **by_name) == {"CUDA_VISIBLE_DEVICES": "GPU-b,GPU-c"}
    both = {"LAUNCH_VISIBLE_DEVICES": "1,2,3"}  # 1 and 2 are places, and the job's numbers
    assert kept(CUDA_VISIBLE_DEVICES="1,2", **both) == {"CUDA_VISIBLE_DEVICES": "2,3"}
    made_of_them = {**both, "LAUNCH_DEVICES_READ": "1"}
    assert kept(CUDA_VISIBLE_DEVICES="1,2", **made_of_them) == {"CUDA_VISIBLE_DEVICES": "1,2"}
    capfd.readouterr()
    assert kept(CUDA_VISIBLE_DEVICES="3", **of_four) == {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}, "too few for two ranks"
    assert kept(LAUNCH_VISIBLE_DEVICES="") == {"CUDA_VISIBLE_DEVICES": ""}


def test_numbers_in_front_of_a_program_are_places_among_the_devices_of_the_job(tmp_path):
    import subprocess

    from conftest import ROOT
    wrapper = tmp_path / "node_launcher.py"
    wrapper.write_text((ROOT / "planner/start/node_launcher.py").read_text())

    def seen(devices):
        environ = {**os.environ, "LAUNCH_START": "node", "LAUNCH_PLACE": "1 2 0 h 1", "LAUNCH_VISIBLE_DEVICES": "4,5,6",
                   "CUDA_VISIBLE_DEVICES": devices}
        show = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
        command = [sys.executable, str(wrapper), "program", sys.executable, "-c", show]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout.strip()

    assert seen("0,2") == "4,6"
    assert seen("1") == "5", "a program may take fewer than the job has processes"
    assert seen("0,1,2,3") == "4,5,6"
    assert seen("") == "", "the GPUs are hidden from it"
    assert seen("0,2,") == "4,6", "with a comma at the end"


def test_devices_that_a_script_sets_in_a_rank_are_those_of_the_job(tmp_path):
    import subprocess

    from conftest import ROOT
    wrapper = tmp_path / "node_launcher.py"
    wrapper.write_text((ROOT / "planner/start/node_launcher.py").read_text())

    def seen(devices, ranks, planned="4,5", rank="0"):
        environ = {**os.environ, "LAUNCH_START": "direct", "LAUNCH_VISIBLE_DEVICES": planned, "CUDA_VISIBLE_DEVICES": devices,
                   "LOCAL_WORLD_SIZE": str(ranks), "RANK": rank}
        show = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
        command = [sys.executable, str(wrapper), "program", sys.executable, "-c", show]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout.strip()

    assert seen("1", 1) == "5", "a place among the job's devices"
    assert seen("1,0", 2) == "5,4"
    assert seen("0", 2) == "4,5", "too few for the ranks, each of which takes its own of them"
    assert seen("", 2) == seen(" ", 2).strip() == "", "hidden"
    assert seen("NoDevFiles", 2) == "NoDevFiles", "hidden"
    assert seen("1", "", rank="") == "5", "a text that takes the place out of its environment"
    assert seen("1", 1, planned="MIG-a/1/0,MIG-a/2/0") == "MIG-a/2/0"
    assert seen("0", 1, planned="") == "", "a job without GPUs"


def test_a_shim_that_goes_on_along_path_reaches_an_interpreter(tmp_path):
    import subprocess

    from conftest import ROOT
    wrappers, shims, real = (tmp_path / name for name in ("wrappers", "shims", "real"))
    for directory in (wrappers, shims, real):
        directory.mkdir()
    for name in ("node_launcher.py", "node_launcher.sh"):
        (wrappers / name).write_text((ROOT / "planner/start" / name).read_text())
    texts = {wrappers: '#!/bin/sh\nexec /bin/sh "$LAUNCH_WRAPPERS/node_launcher.sh" python "$@"\n',
             # pyenv with the version `system`: the first on PATH that is not its own.
             shims: f'#!/bin/sh\nexec {wrappers}/python "$@"\n',
             real: f'#!/bin/sh\nexec {sys.executable} "$@"\n'}
    for directory, text in texts.items():
        (directory / "python").write_text(text)
        (directory / "python").chmod(0o755)
    environ = {**os.environ, "PATH": f"{wrappers}:{shims}:{real}:{os.environ['PATH']}",
               "LAUNCH_WRAPPERS": str(wrappers), "LAUNCH_START": "node",
               "LAUNCH_PLACE": "1 2 0 h 1", "LAUNCH_VISIBLE_DEVICES": "4,5,6", "CUDA_VISIBLE_DEVICES": "0,2"}
    show = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], 'LAUNCH_TAKEN' in os.environ)"
    out = subprocess.run(["python", "-c", show], env=environ, capture_output=True, text=True, timeout=60)
    assert out.stdout.strip() == "4,6 False", out


def test_a_flag_whose_variable_is_empty_takes_no_flag_for_its_value():
    import argparse

    launcher = node_launcher()
    parser = argparse.ArgumentParser()
    for flag in ("--node_rank", "--master_addr", "--nproc_per_node", "--log_dir"):
        parser.add_argument(flag)
    words = ["--node_rank", "--master_addr", "10.0.0.1", "--nproc_per_node", "8", "--log_dir", "l", "t.py", "--x"]
    kept, replaced, script = launcher.split(parser, words, launcher.TORCHRUN_PLACEMENT)
    assert (kept, script) == (["--log_dir", "l"], ["t.py", "--x"])
    assert replaced == ["node_rank", "master_addr", "nproc_per_node"]


def test_device_numbers_in_a_text_are_those_of_gpu_ids(capfd):
    launcher = node_launcher()
    place = launcher.Place({"NNODES": "1", "NPROC_PER_NODE": "2", "NODE_RANK": "0", "MASTER_ADDR": "h", "MASTER_PORT": "1"})

    def kept(devices, planned, ids):
        environ = {"CUDA_VISIBLE_DEVICES": devices, "LAUNCH_VISIBLE_DEVICES": planned, "LAUNCH_GPU_IDS": ids}
        launcher.keep_devices(place, environ)
        return environ["CUDA_VISIBLE_DEVICES"]

    assert kept("1,2", "0,1,2", "0,1,2") == "1,2"
    assert kept("1,2", "1,2,3", "1,2,3") == "1,2", "numbers, not places"
    assert kept("5,7", "GPU-a,GPU-b,GPU-c", "5,6,7") == "GPU-a,GPU-c"
    assert kept("GPU-b,GPU-c", "GPU-a,GPU-b,GPU-c", "5,6,7") == "GPU-b,GPU-c"
    assert kept("5", "GPU-a,GPU-b", "5,6") == "GPU-a,GPU-b", "too few for two ranks"
    assert kept("", "5,6", "5,6") == "5,6"
    capfd.readouterr()
    with pytest.raises(SystemExit):
        kept("0,5", "GPU-a,GPU-b", "5,6")
    said = capfd.readouterr().err
    assert "CUDA_VISIBLE_DEVICES=0,5 inside run names GPU 0, which is none of gpu_ids: 5,6" in said, said
    assert "hint: write numbers of gpu_ids there" in said, said


def test_a_text_that_sets_its_place_itself_is_held_to_that_of_the_plan(capfd):
    launcher = node_launcher()
    of_text = {"NNODES": "1", "NPROC_PER_NODE": "8", "NODE_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "6000"}
    assert launcher.Place(of_text).per_node == 8
    place = launcher.Place({**of_text, "LAUNCH_PLACE": "2 4 1 10.0.0.1 20000"})
    assert (place.nodes, place.per_node, place.node, place.address, place.port) == (2, 4, 1, "10.0.0.1", "20000")
    assert place.counts_of_text == ["NNODES=1", "NPROC_PER_NODE=8"]
    first = launcher.Place({**of_text, "NNODES": "2", "LAUNCH_PLACE": "2 4 0 10.0.0.1 20000"})
    launcher.note(first, "torchrun", [])
    said = capfd.readouterr().err
    assert "NPROC_PER_NODE=8 inside run does not count for torchrun: the plan has 2 x 4 processes" in said, said
    launcher.note(launcher.Place(of_text), "torchrun", [])
    assert capfd.readouterr().err == ""


def test_accelerate_is_told_of_several_processes_only_where_nothing_else_says_how(tmp_path, monkeypatch):
    import importlib.util

    import pytest
    if importlib.util.find_spec("accelerate") is None:
        pytest.skip("accelerate is not installed: scripts/dependencies.sh names it")
    from accelerate.commands.config import config_args
    from accelerate.commands.launch import launch_command_parser
    launcher = node_launcher()
    monkeypatch.setattr(config_args, "default_config_file", str(tmp_path / "none.yaml"))

    def told(*words):
        return launcher.several_processes(launch_command_parser().parse_args([*words, "t.py"]))

    assert told() == ["--multi_gpu"]
    # The parser's own spellings: dashes, beginnings; "--multi_gpu" of the script is not the launcher's.
    assert told("--multi-gpu") == told("--use_deepspeed") == told("--use-fsdp") == []
    assert launcher.several_processes(launch_command_parser().parse_args(["t.py", "--multi_gpu"])) == ["--multi_gpu"]
    file = tmp_path / "default_config.yaml"
    text = "compute_environment: LOCAL_MACHINE\nmixed_precision: 'no'\nnum_machines: 1\nnum_processes: 2\nuse_cpu: false\n"
    file.write_text(text + "distributed_type: FSDP\nfsdp_config: {fsdp_version: 2}\n")
    assert told("--config-file", str(file)) == [], "the file says how"
    monkeypatch.setattr(config_args, "default_config_file", str(file))
    assert told() == [], "the file of `accelerate config` counts too"
    file.write_text(text + "distributed_type: 'NO'\n")
    assert told() == ["--multi_gpu"], "one process is no answer for several"


CALLS = {
    "accelerate": "accelerate launch --num_processes 4 --num_machines 2 train.py --die",
    "deepspeed": "deepspeed --num_gpus 2 train.py --die",
}


@pytest.mark.parametrize("launcher", CALLS)
def test_the_exit_code_of_the_first_failing_rank_survives_the_other_launchers(cluster, launcher):
    if importlib.util.find_spec(launcher) is None:
        pytest.skip(f"{launcher} is not installed: scripts/dependencies.sh names it")
    cluster.up("--nodes", "2")
    cluster.write("train.py", RANKS)
    cluster.write("train.sh", f"set -e\n{CALLS[launcher]}\n")
    job = cluster.write("job.yaml", JOB.format(venv=VENV, run="bash train.sh") + "procs_per_node: 2\n")
    done = cluster.launch("submit", job, "--wait", code=33, timeout=240)
    number = done.stdout.strip()
    out = cluster.launch("logs", number, "--no-prefix").stdout
    assert f"first failing rank of {launcher}: 3 (local rank 1): exit 33" in out, out
    (attempt,) = cluster.status(number)["attempts"]
    assert attempt["first_failed_rank"] == 3
    assert cluster.json("why", number)["rank"] == 3


@pytest.mark.parametrize("launcher", CALLS)
def test_a_launcher_that_the_job_names_is_called_once_per_node_for_the_ranks_of_the_plan(cluster, launcher):
    if importlib.util.find_spec(launcher) is None:
        pytest.skip(f"{launcher} is not installed: scripts/dependencies.sh names it")
    cluster.up("--nodes", "2")
    cluster.write("train.py", RANKS)
    text = JOB.format(venv=VENV, run="python train.py --x") + f"launcher: {launcher}\nprocs_per_node: 2\n"
    plan = cluster.json("plan", cluster.write("job.yaml", text))
    assert len(plan["assignments"]) == 2 and plan["processes"]["total"] == 4, plan["read"]
    number = cluster.launch("submit", cluster.work / "job.yaml", "--wait", timeout=240).stdout.strip()
    out = cluster.launch("logs", number, "--no-prefix").stdout
    for rank in range(4):
        assert f"rank {rank} of 4 local {rank % 2} group {rank // 2} sum 10" in out, out
    # Each rank's arguments are the script's, but for the one that DeepSpeed's launcher gives.
    assert out.count("--x") == 4 and out.count("--local_rank=") == (4 if launcher == "deepspeed" else 0), out


def test_deepspeed_of_accelerate_is_held_to_the_plan_on_several_nodes(cluster):
    for needed in ("accelerate", "deepspeed"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed: scripts/dependencies.sh names it")
    cluster.up("--nodes", "2")
    cluster.write("train.py", RANKS)
    # As on GPUs: on a CPU the plan refuses what it can read of this, and torchrun stands in for accelerate.
    cluster.write("train.sh", "set -e\nexport LAUNCH_DEVICE=cuda\n"
                              "accelerate launch --use_deepspeed --num_machines 2 --num_processes 4 train.py --die\n")
    job = cluster.write("job.yaml", JOB.format(venv=VENV, run="bash $(echo train.sh)") +
                        f"launcher: node\nprocs_per_node: 2\nenv: {{HOME: {cluster.work}}}\n")
    number = cluster.launch("submit", job, "--wait", code=33, timeout=240).stdout.strip()
    out = cluster.launch("logs", number, "--no-prefix").stdout
    assert "first failing rank of accelerate: 3 (local rank 1): exit 33" in out, out
    assert out.count("first failing rank") == 1, out
    (attempt,) = cluster.status(number)["attempts"]
    assert attempt["first_failed_rank"] == 3 and cluster.json("why", number)["rank"] == 3
    assert not (cluster.work / ".deepspeed_env").exists(), "the environment, secrets too, in clear"


def test_a_quiet_accelerate_ends_as_its_rank_did(cluster):
    if importlib.util.find_spec("accelerate") is None:
        pytest.skip("accelerate is not installed: scripts/dependencies.sh names it")
    cluster.up()
    cluster.write("die.py", "import os\nos._exit(33)\n")
    cluster.write("train.sh", "accelerate launch --quiet --num_processes 1 die.py\n")
    job = cluster.write("job.yaml", JOB.format(venv=VENV, run="bash train.sh").replace("nodes: 2", "nodes: 1"))
    number = cluster.launch("submit", job, "--wait", code=33, timeout=180).stdout.strip()
    out = cluster.launch("logs", number, "--no-prefix").stdout
    assert "launch: num_processes of the accelerate call" in out, out


def test_devices_that_a_deepspeed_call_includes_are_a_count(monkeypatch, capfd):
    launcher = node_launcher()
    place = launcher.Place({"NNODES": "1", "NPROC_PER_NODE": "1", "NODE_RANK": "0", "MASTER_ADDR": "h", "MASTER_PORT": "1"})
    started = []
    monkeypatch.setattr(launcher, "run_module", lambda module, argv: started.append(argv))

    def called(*words):
        monkeypatch.setenv("LAUNCH_OPEN_COUNT", "1")
        launcher.deepspeed(place, "", [*words, "t.py"])

    for words in (["--include", "localhost:0,1"], ["-i", "localhost:2,3"], ["--include=a:0,1@b:0,1"],
                  ["--num_accelerators", "2"], ["--num_gpus=2"], ["--include", "localhost:0", "--num_gpus", "2"]):
        with pytest.raises(SystemExit):
            called(*words)
        assert "asks for 2 processes on each node, and the plan has 1" in capfd.readouterr().err, words
    assert not started
    for words in (["--include", "localhost:3"], ["--include", "a@b"], ["--include", "localhost:"], ["--exclude", "a:0,1"], []):
        called(*words)
    assert len(started) == 5


DUMP = """\
import json, os
os.write(1, ("ENV " + json.dumps(dict(os.environ)) + "\\n").encode())
"""


def test_ranks_of_a_launcher_in_a_text_have_the_environment_of_the_plan(cluster):
    cluster.up()
    cluster.write("dump.py", DUMP)
    cluster.write("train.sh", "set -e\ntorchrun --nproc_per_node=2 dump.py\n")
    job = cluster.write("job.yaml", JOB.format(venv=VENV, run="bash train.sh").replace("nodes: 2", "env: {MINE: $HOME/x}"))
    plan = cluster.json("plan", job)
    (node,) = plan["assignments"]
    number = cluster.launch("submit", job, "--wait", timeout=180).stdout.strip()
    out = cluster.launch("logs", number, "--no-prefix").stdout
    ranks = [json.loads(line[4:]) for line in out.splitlines() if line.startswith("ENV ")]
    assert sorted(rank["RANK"] for rank in ranks) == ["0", "1"], out
    planned = {k: v for k, v in node["env"].items() if k not in plan["late"]}
    for rank in ranks:
        # In front of PATH the text finds the launchers that hold it to the plan (docs/environment.md).
        rank["PATH"] = rank["PATH"].removeprefix(rank["LAUNCH_WRAPPERS"] + ":")
        assert {k: rank.get(k) for k in planned} == planned
        assert rank["MASTER_PORT"] != "0" and rank["WORLD_SIZE"] == "2"
