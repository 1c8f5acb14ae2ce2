"""Copies of the working directory, and containers: what a node does that lacks the user's directory."""

import os
import stat
import subprocess

import pytest

from conftest import wait_until

JOB = """\
name: copied
device: cpu
gpus: 0
nodes: 2
workdir: {workdir}
snapshot: true
setup: echo "made on $(pwd)" > made
env: {{DATA: {workdir}/data/set}}
run: cat train.txt made "$DATA"; pwd; ls -a
"""


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def project(tmp_path):
    project = tmp_path / "project"
    (project / "data").mkdir(parents=True)
    (project / "train.txt").write_text("version one\n")
    (project / "data/set").write_text("the data\n")
    (project / "weights.pt").write_bytes(b"x" * 1000)
    (project / ".gitignore").write_text("*.pt\n")
    return project


def test_a_copy_of_the_workdir_is_shipped_to_every_node(cluster, project):
    cluster.up("--nodes", "2")
    git = ["git", "-C", project, "-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    (project / "forced.pt").write_text("tracked although *.pt is ignored\n")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "add", "-f", "forced.pt"], check=True)
    subprocess.run([*git, "commit", "-qm", "one"], check=True)
    job_file = cluster.write("job.yaml", JOB.format(workdir=project))
    plan = cluster.launch("plan", job_file).stdout
    assert "a shipped copy of 4 files" in plan, plan

    sent = cluster.launch("submit", job_file, "--wait", timeout=90)
    assert "workdir: sent" in sent.stderr
    job = sent.stdout.split()[0]
    logs = cluster.launch("logs", job).stdout
    assert logs.count("version one") == 2 and logs.count("the data") == 2, logs
    assert logs.count("forced.pt") == 2, logs
    assert "weights.pt" not in logs and ".git\n" not in logs
    copies = {line.split()[-1] for line in logs.splitlines() if f"/work/{job}-" in line and "made" not in line}
    assert len(copies) == 2 and all(str(project) not in copy for copy in copies), logs
    assert not (project / "made").exists(), "nothing is written where the job was submitted"
    status = cluster.status(job)
    assert len(status["git_commit"]) == 40 and status["git_diff"] == ""

    # What changed is all that is sent again; and an upload that is whole is not repeated.
    (project / "train.txt").write_text("version two\n")
    again = cluster.launch("submit", job_file, "--wait", timeout=90)
    second = again.stdout.split()[0]
    assert cluster.launch("logs", second).stdout.count("version two") == 2
    assert "+version two" in cluster.status(second)["git_diff"]
    assert "workdir: sent" not in cluster.launch("submit", job_file, "--wait", timeout=90).stderr


def test_files_come_back_from_a_copy_after_the_end(cluster, project, tmp_path):
    """`launch cp JOB:path .` of a job that is done: from the copy on the node where the rank ran."""
    cluster.up("--nodes", "2")
    text = JOB.format(workdir=project).split("run:")[0] + (
        "run: mkdir -p out && echo rank $RANK > out/rank$RANK && ln -sf ../made out/link && ln -sfn /etc up && chmod +x out/rank$RANK\n")
    job = cluster.launch("submit", cluster.write("job.yaml", text), "--wait", timeout=90).stdout.split()[0]
    here = tmp_path / "here"
    here.mkdir()

    cluster.launch("cp", f"{job}:out", here)
    ranks = {path.name for path in (here / "out").glob("rank*")}
    assert "rank0" in ranks and (here / "out/rank0").read_text() == "rank 0\n"
    assert (here / "out/rank0").stat().st_mode & stat.S_IXUSR and os.readlink(here / "out/link") == "../made"
    cluster.launch("cp", "--rank", "1", f"{job}:out/rank1", here / "of1")
    assert (here / "of1").read_text() == "rank 1\n"
    cluster.launch("cp", f"{job}:{project}/made", here)
    where = (here / "made").read_text().split("made on ")[1].strip()
    cluster.launch("cp", f"{job}:{where}/train.txt", here)
    assert (here / "train.txt").read_text() == "version one\n"
    (here / "all").mkdir()
    cluster.launch("cp", f"{job}:", here / "all")
    assert (here / "all/data/set").read_text() == "the data\n" and (here / "all/out/rank0").exists()

    def refused(*words):
        done = cluster.launch("cp", *words, code=None)
        assert done.returncode not in (0, 124) and "tar:" not in done.stderr, done.stderr
        return done.stderr

    for outside in ("../../node.key", "out/../../x", "/etc/passwd"):
        assert "outside of the directory that the job worked in" in refused(f"{job}:{outside}", here), outside
    assert "leads out" in refused(f"{job}:up/passwd", here)
    assert "there is no out/none in the copy" in refused(f"{job}:out/none", here)
    assert "has ranks 0 to 1" in refused("--rank", "2", f"{job}:out", here)
    assert "is not running" in refused(here / "of1", f"{job}:out"), "nothing is written to what is done"
    assert "is not running" in cluster.launch("exec", job, "--", "true", code=None).stderr
    assert sorted(path.name for path in here.iterdir()) == ["all", "made", "of1", "out", "train.txt"], "no half of anything"
    assert [event for event in cluster.events() if event["kind"] == "exec.opened" and "files that were left by rank 1 on" in event["text"] and '"out/rank1"' in event["text"]]

    # After a restart of both ends too; and when it is gone, it is said so.
    cluster.kill(cluster.controller_pid())
    for node in cluster.node_names():
        cluster.kill(cluster.agent_pid(node))
    cluster.up("--nodes", "2")
    wait_until("its node is back", lambda: cluster.launch("cp", f"{job}:made", here / "again", code=None).returncode == 0)
    subprocess.run(["rm", "-r", where], check=True)
    gone = refused(f"{job}:out", here)
    assert "is not on " in gone and "any more" in gone and "kept for a week" in gone, gone


def test_files_of_a_job_that_ran_in_place_are_where_it_ran(cluster, project, tmp_path):
    cluster.up()
    text = f"name: here\ndevice: cpu\ngpus: 0\nworkdir: {project}\nrun: echo done > result\n"
    job = cluster.launch("submit", cluster.write("job.yaml", text), "--wait", timeout=60).stdout.split()[0]
    refused = cluster.launch("cp", f"{job}:result", tmp_path, code=None)
    assert refused.returncode != 0 and f"ran in place: what it wrote is in {project} on" in refused.stderr, refused.stderr
    held = cluster.submit(cluster.work / "job.yaml", "--hold")
    never = cluster.launch("cp", f"{held}:result", tmp_path, code=None)
    assert "has not run" in never.stderr, never.stderr
    cluster.launch("cancel", held)
    assert "has not run" in cluster.launch("cp", f"{held}:result", tmp_path, code=None).stderr


def test_a_copy_that_is_too_large_is_refused_with_the_way_out(cluster, project):
    cluster.up()
    with open(project / "data/huge.bin", "wb") as huge:
        huge.truncate(2 << 30)
    job = cluster.write("job.yaml", JOB.format(workdir=project))
    refused = cluster.launch("submit", job, code=5)
    assert "too large to be copied" in refused.stderr and "data 2.0GiB" in refused.stderr
    assert ".launchignore" in refused.stderr


def test_a_copy_survives_the_death_of_agent_and_controller(cluster, project):
    cluster.up()
    (project / "large.bin").write_bytes(os.urandom(48 << 20))
    job = cluster.submit(cluster.write("job.yaml", JOB.replace("nodes: 2", "nodes: 1").format(workdir=project)))
    agent_state = next(path.parent for path in cluster.state.rglob("owner.lock"))
    pieces = agent_state / "chunks"

    def fetched():
        return sum(1 for path in pieces.rglob("*") if path.is_file())

    wait_until("the copy has begun", lambda: fetched() > 5 or cluster.state_of(job) == "SUCCEEDED", period=0.01)
    cluster.kill(cluster.agent_pid(cluster.node_names()[0]))
    cluster.kill(cluster.controller_pid())
    cluster.up()
    cluster.wait_for(job, "SUCCEEDED", timeout=90)
    assert "version one" in cluster.launch("logs", job).stdout
    assert len(cluster.status(job)["attempts"]) == 1, "a restart of ours is no failure of the job"
    copies = [path for path in (agent_state / "work").iterdir() if path.is_dir()]
    assert len(copies) == 1 and not copies[0].name.startswith(".part"), copies
    assert (copies[0] / "large.bin").stat().st_size == 48 << 20


def test_a_file_that_is_written_to_meanwhile_stops_the_submit(cluster, project):
    cluster.up()
    growing = project / "growing.log"
    growing.write_bytes(b"x" * 40_000_000)  # long enough to read that the writer comes in between
    writer = subprocess.Popen(["bash", "-c", f"exec 3>>{growing}; while :; do echo line >&3; done"])
    job = cluster.write("job.yaml", JOB.format(workdir=project).replace("nodes: 2", "nodes: 1"))
    try:
        wait_until("it grows", lambda: growing.stat().st_size > 40_000_000)
        for _ in range(5):  # on a busy machine the writer may stand still
            refused = cluster.launch("submit", job, code=None)
            if refused.returncode != 0:
                break
    finally:
        writer.kill()
        writer.wait()
    assert refused.returncode != 0
    assert "growing.log changed while it was copied" in refused.stderr and ".launchignore" in refused.stderr


@pytest.fixture
def small_disk():
    """Puts a file system of a few MiB over a directory."""
    if os.getuid() != 0:
        pytest.skip("mounting a small file system takes root")
    mounted = []

    def mount(directory):
        directory.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", directory], capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"no file system can be mounted here: {done.stderr}")
        mounted.append(directory)
        return directory

    def unmount(directory):
        mounted.remove(directory)
        subprocess.run(["umount", "-l", directory], check=True)

    mount.undo = unmount
    yield mount
    for directory in list(mounted):
        unmount(directory)


def test_a_full_disk_is_named_where_it_is_full(cluster, project, small_disk):
    cluster.up()
    job_file = cluster.write("job.yaml", JOB.replace("nodes: 2", "nodes: 1").format(workdir=project))
    chunks = small_disk(cluster.state / "controller/chunks")
    refused = cluster.launch("submit", job_file, code=None)
    assert refused.returncode != 0 and "keeps no more copies of working directories" in refused.stderr, refused.stderr
    assert cluster.json("queue", "-a")["jobs"] == [], "no job without its copy"
    small_disk.undo(chunks)

    small_disk(next(path.parent for path in cluster.state.rglob("owner.lock")) / "work")
    failed = cluster.launch("submit", job_file, "--wait", code=4, timeout=90)
    assert "error disk_low on " in failed.stderr and "the copy of workdir needs" in failed.stderr, failed.stderr


IMAGE = """\
name: contained
device: cpu
gpus: 0
image: nvcr.io/nvidia/pytorch:25.08-py3
mounts: ["{data}:/mnt/data:ro"]
run: 'echo "rank $RANK in $CONTAINER"'
"""

# Runs the command behind the image with the variables that a real one would give it.
RUNTIME = """\
#!/bin/bash
printf '%s\\n' "$@" > {record}
while [ "$1" != docker://nvcr.io/nvidia/pytorch:25.08-py3 ]; do shift; done
shift
exec env -i PATH=/usr/bin:/bin CONTAINER=image RANK="$APPTAINERENV_RANK" "$@"
"""


def test_S000_6_an_image_needs_a_runtime_on_the_node(cluster, tmp_path):
    tools = tmp_path / "tools"
    script(tools / "docker", "#!/bin/sh\necho Cannot connect to the Docker daemon >&2\nexit 1\n")
    cluster.env["PATH"] = f"{tools}:/usr/bin:/bin"
    present = [name for name in ("apptainer", "docker", "enroot", "podman", "singularity")
               if any(os.access(f"{d}/{name}", os.X_OK) for d in ("/usr/bin", "/bin"))]
    if present:
        pytest.skip(f"this machine has {present} in /usr/bin")
    cluster.up()
    job = cluster.write("job.yaml", IMAGE.format(data=tmp_path))
    refused = cluster.launch("submit", job, "--wait", code=4)
    assert "container_runtime_missing" in refused.stderr
    assert cluster.json("queue", "-a")["jobs"] == []


def test_S000_6_ranks_run_inside_of_the_image(cluster, tmp_path):
    record = tmp_path / "record"
    tools = tmp_path / "tools"
    script(tools / "apptainer", RUNTIME.format(record=record))
    cluster.env["PATH"] = f"{tools}:/usr/bin:/bin"
    cluster.up()
    job = cluster.write("job.yaml", IMAGE.format(data=tmp_path))
    done = cluster.launch("submit", job, "--wait", timeout=60)
    logs = cluster.launch("logs", done.stdout.split()[0]).stdout
    assert "rank 0 in image" in logs, logs
    words = record.read_text().splitlines()
    assert words[:2] == ["exec", "--cleanenv"]
    assert f"{tmp_path}:/mnt/data:ro" in words
    assert f"{cluster.work}:{cluster.work}" in words


# The client of a daemon: it asks (here: the test) for what comes behind the image, and waits.
CLIENT = """\
#!/bin/bash
[ "$1" = version ] && echo 27.3.1 && exit
[ "$1" = run ] || exit 64
while [ "$1" != nvcr.io/nvidia/pytorch:25.08-py3 ]; do shift; done
shift
echo $$ >{here}/client
printf '%s\\0' "$@" >{here}/asked.new && mv {here}/asked.new {here}/asked
exec sleep 600
"""


def test_a_job_has_not_ended_while_something_in_its_container_lives(cluster, tmp_path):
    space = ["unshare", "--pid", "--fork", "--kill-child", "--"]
    if subprocess.run([*space, "true"], capture_output=True).returncode != 0:
        pytest.skip("PID namespaces cannot be made here")
    tools = tmp_path / "tools"
    script(tools / "docker", CLIENT.format(here=tmp_path))
    cluster.env["PATH"] = f"{tools}:/usr/bin:/bin"
    cluster.up()
    job = cluster.submit(cluster.write("job.yaml", IMAGE.format(data=tmp_path).split("run:")[0] +
                                       "run: sleep 600\nstop_duration: 1s\n"))
    asked = wait_until("the client asks", lambda: (tmp_path / "asked").exists() and (tmp_path / "asked").read_bytes())
    container = subprocess.Popen([*space, "/bin/bash", "-c", '"$@"; exit $?', "init", *asked.split(b"\0")[:-1]],
                                 stdin=subprocess.PIPE)
    try:
        lock = next(iter(cluster.state.rglob("allocations/*/rank.0"))).parent / "container"

        def held():
            return lock.exists() and subprocess.run(["flock", "-n", "-x", lock, "true"]).returncode != 0

        wait_until("the container holds its lock", held)
        cluster.launch("cancel", job, "--no-wait")
        wait_until("the client is gone", lambda: not os.path.exists(f"/proc/{(tmp_path / 'client').read_text().strip()}"))
        for _ in range(10):  # each a question to the controller: nobody took the job for ended meanwhile
            assert held() and cluster.state_of(job) == "STOPPING"
    finally:
        container.kill()
        container.wait()
    cluster.wait_for(job, "CANCELLED")
