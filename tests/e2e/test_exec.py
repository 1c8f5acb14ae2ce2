"""launch exec and launch shell: commands beside the ranks of a running job."""

import os
import pathlib
import pty
import select
import signal
import subprocess
import time

import pytest
from conftest import BIN, wait_until

JOB = """\
name: busy
device: cpu
nodes: 2
procs_per_node: 2
env: {GREETING: "it's me"}
secrets: [TOKEN]
run: python -c "import os,time; print('up', os.environ['RANK'], flush=True); time.sleep(600)"
"""


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def start(cluster):
    cluster.up("--nodes", "2")
    job = cluster.write("job.yaml", JOB)
    number = cluster.launch("submit", job, "--parsable", env={"TOKEN": "s3cret"}).stdout.strip()
    cluster.wait_for(number, "RUNNING")
    wait_until("every rank printed", lambda: cluster.launch("logs", number).stdout.count("up") == 4)
    return number


def test_exec_runs_beside_a_rank_and_streams(cluster):
    job = start(cluster)
    # Environment, secrets and directory are those of the rank; three streams; the exit code.
    done = cluster.launch("exec", job, "--rank", "3", "--", "bash", "-c",
                          "echo $RANK $LOCAL_RANK $WORLD_SIZE $GREETING $TOKEN; pwd; cat; echo bad >&2; exit 7",
                          stdin="typed\n", code=7)
    assert done.stdout.splitlines() == ["3 1 4 it's me s3cret", str(cluster.work), "typed"], done.stdout
    assert done.stderr.splitlines() == ["bad"], done.stderr
    cluster.write("look.sh", "#!/bin/bash\necho at $PWD\n").chmod(0o755)
    assert cluster.launch("exec", job, "--", "./look.sh").stdout == f"at {cluster.work}\n"
    # A signal counts as in a shell; a program that is not there is 127 with its name.
    cluster.launch("exec", job, "--", "bash", "-c", "kill -USR1 $$", code=128 + signal.SIGUSR1)
    gone = cluster.launch("exec", job, "--", "no-such-program", code=127)
    assert "no-such-program" in gone.stderr
    # More than any buffer in both directions arrives whole.
    text = "0123456789abcdef" * 65536
    assert cluster.launch("exec", job, "--", "cat", stdin=text).stdout == text
    # A program that does not read is no reason to wait for.
    assert cluster.launch("exec", job, "--", "true", stdin=text).stdout == ""
    opened = [e for e in cluster.events() if e["kind"] == "exec.opened"]
    assert "beside rank 3" in opened[0]["text"] and "no-such-program" in opened[3]["text"]
    assert '"no-such-program"' in opened[3]["text"] and '"bash" with 2 arguments' in opened[0]["text"]
    assert "s3cret" not in str(opened) and "GREETING" not in str(opened)
    bad = cluster.launch("exec", job, "--rank", "4", "--", "true", code=2)
    assert f"job {job} has ranks 0 to 3" in bad.stderr


def test_env_of_a_running_rank_is_what_the_kernel_keeps_of_its_start(cluster):
    job = start(cluster)
    rank = cluster.status(job)["attempts"][0]["ranks"][3]
    kept = pathlib.Path(f"/proc/{rank['pid']}/environ").read_bytes().decode().split("\0")
    real = dict(entry.split("=", 1) for entry in kept if entry)
    shown = cluster.json("env", job, "--rank", "3")
    assert shown["source"] == "node" and shown["node"] == rank["node"]
    assert real.pop("TOKEN") == "s3cret" and shown["set_on_node"] == [
        {"name": "TOKEN", "why": "a secret of the job"}]
    assert shown["env"] == real
    text = cluster.launch("env", job, "--rank", "3").stdout
    assert "s3cret" not in text and f"export PYTHONPATH={real['PYTHONPATH']}" in text, text
    cluster.launch("cancel", job)
    cluster.wait_for(job, "CANCELLED")
    planned = cluster.json("env", job, "--rank", "3")
    assert planned["source"] == "plan" and "PYTHONPATH" in {v["name"] for v in planned["set_on_node"]}


def test_a_command_ends_with_its_caller_and_with_its_job(cluster):
    job = start(cluster)
    sleeper = "echo $$; trap '' TERM HUP; (setsid sleep 601 & echo $!; wait) & sleep 602"
    session = cluster.spawn("exec", job, "--", "bash", "-c", sleeper)
    mine = [int(session.stdout.readline()) for _ in range(2)]
    assert all(alive(pid) for pid in mine)
    session.kill()
    session.wait()
    wait_until("what the caller started is gone", lambda: not any(alive(pid) for pid in mine))
    assert cluster.state_of(job) == "RUNNING"

    session = cluster.spawn("exec", job, "--rank", "2", "--", "bash", "-c", sleeper)
    mine = [int(session.stdout.readline()) for _ in range(2)]
    cluster.launch("cancel", job)
    cluster.wait_for(job, "CANCELLED")
    assert not any(alive(pid) for pid in mine), "the end of the job is the end of its commands"
    assert session.wait(timeout=20) == 128 + signal.SIGKILL
    late = cluster.launch("exec", job, "--", "true", code=2)
    assert "is not running" in late.stderr


def up_without_cgroups(cluster):
    hide = 'mount --make-rprivate / && umount -l /sys/fs/cgroup && exec "$@"'
    subprocess.run(["unshare", "--mount", "sh", "-c", hide, "sh", BIN / "launch", "dev", "up"], env=cluster.env,
                   cwd=cluster.work, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=60)


@pytest.mark.skipif(os.geteuid() != 0, reason="hiding the cgroups takes root")
def test_at_level_tree_what_left_the_group_of_a_command_ends_with_the_job(cluster):
    up_without_cgroups(cluster)
    node = cluster.json("nodes")["nodes"][0]
    assert node["containment"] == "tree"
    job = cluster.submit(cluster.write("job.yaml", "name: busy\ndevice: cpu\nstop_duration: 1s\nrun: sleep 600\n"))
    cluster.wait_for(job, "RUNNING")
    leaver = "echo $$; trap '' TERM HUP; setsid sh -c 'trap \"\" TERM; echo $$; sleep 603 & wait' & sleep 602"
    session = cluster.spawn("exec", job, "--", "bash", "-c", leaver)
    mine = [int(session.stdout.readline()) for _ in range(2)]
    session.kill()
    session.wait()
    wait_until("the group of the command is gone", lambda: not alive(mine[0]))
    # An agent that knows nothing of the command finds what is left of it all the same.
    cluster.kill(cluster.agent_pid(node["node"]))
    up_without_cgroups(cluster)
    assert cluster.state_of(job) == "RUNNING"
    cluster.launch("cancel", job)
    cluster.wait_for(job, "CANCELLED")
    assert not any(alive(pid) for pid in mine), "the end of the job is the end of its commands"


# A stand-in for apptainer: mounts, a root, a host name and process numbers of its own, and the
# variables as the real one gives them.
SPACES = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--propagation", "private", "--"]
RUNTIME = """\
#!/bin/bash
while [ "$1" != docker://team/image:1 ]; do shift; done
shift
exec {spaces} /bin/bash -c '
  set -e
  mount -t tmpfs inside {root}
  cd {root}
  for place in bin sbin lib lib32 lib64 usr etc dev tmp var opt root home mnt; do
    [ -e /$place ] || continue
    if [ -L /$place ]; then cp -a /$place .; else mkdir $place; mount --rbind /$place $place; fi
  done
  mkdir -p proc only/inside {work} && mount --rbind {work} ./{work}
  mount -t proc proc proc
  printf "#!/bin/bash\\necho hello from the image\\n" >only/inside/hello
  chmod 755 only/inside/hello
  hostname insider
  declare -a variables
  while IFS= read -r -d "" entry; do
    [[ $entry = APPTAINERENV_* ]] && variables+=("${{entry#APPTAINERENV_}}")
  done </proc/self/environ
  chroot=$(command -v chroot)
  exec env -i CONTAINER=image "${{variables[@]}}" PATH=/only/inside:/usr/bin:/bin "$chroot" . "$@"
' inside "$@"
"""
CONTAINED = """\
name: contained
device: cpu
image: team/image:1
stop_duration: 1s
run: 'cd / && echo up && exec sleep 600'
"""


def test_exec_and_shell_run_inside_the_container_of_the_rank(cluster, tmp_path):
    if subprocess.run([*SPACES, "true"], capture_output=True).returncode != 0:
        pytest.skip("namespaces cannot be made here: unshare --mount --pid needs rights")
    tools, root = tmp_path / "tools", tmp_path / "root"
    tools.mkdir()
    root.mkdir()
    (tools / "apptainer").write_text(RUNTIME.format(spaces=" ".join(SPACES), root=root, work=tmp_path))
    (tools / "apptainer").chmod(0o755)
    cluster.env["PATH"] = f"{tools}:/usr/sbin:/usr/bin:/sbin:/bin"
    cluster.up()
    job = cluster.submit(cluster.write("job.yaml", CONTAINED))
    cluster.wait_for(job, "RUNNING")
    wait_until("the rank is inside", lambda: "up" in cluster.launch("logs", job).stdout)

    def inside(*words, **how):
        return cluster.launch("exec", job, "--", *words, **how)

    assert inside("hello").stdout == "hello from the image\n", "found on the PATH of the image, in its root"
    assert not os.path.exists("/only/inside/hello")
    seen = inside("bash", "-c", "hostname; pwd; echo $CONTAINER $RANK; cat; exit 9", stdin="typed", code=9).stdout
    assert seen.splitlines() == ["insider", "/", "image 0", "typed"], seen
    # Process numbers are those of the container: the rank is one of few.
    numbers = inside("bash", "-c", "cd /proc && echo [0-9]*").stdout.split()
    assert len(numbers) < 8, numbers
    inside("bash", "-c", "kill -USR1 $$", code=128 + signal.SIGUSR1)
    assert "no-such-program" in inside("no-such-program", code=127).stderr

    ours, theirs = pty.openpty()
    shell = subprocess.Popen([str(BIN / "launch"), "shell", job], env={**cluster.env, "TERM": "xterm"},
                             cwd=cluster.work, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    read_until(ours, f"job {job} rank 0")
    os.write(ours, b"hello; sleep 614\n")
    read_until(ours, "hello from the image")
    wait_until("the program runs", lambda: subprocess.run(["pgrep", "-f", "^sleep 614$"], capture_output=True).stdout)
    os.write(ours, b"\x03")
    read_until(ours, "^C")
    os.write(ours, b"echo code=$?; exit 5\n")
    read_until(ours, "code=130")
    assert shell.wait(timeout=20) == 5
    cluster.launch("cancel", job)
    cluster.wait_for(job, "CANCELLED")


def read_until(fd, text, timeout=20):
    seen, end = "", time.monotonic() + timeout
    while text not in seen:
        ready, _, _ = select.select([fd], [], [], max(0, end - time.monotonic()))
        assert ready, f"no {text!r} in {seen!r}"
        seen += os.read(fd, 65536).decode(errors="replace")
    return seen


def test_shell_has_a_terminal_and_ctrl_c_goes_to_the_program(cluster):
    job = start(cluster)
    assert "not a terminal" in cluster.launch("shell", job, code=2).stderr
    ours, theirs = pty.openpty()
    os.set_inheritable(theirs, True)
    subprocess.run(["stty", "rows", "33", "cols", "101"], stdin=theirs, check=True)
    shell = subprocess.Popen([str(BIN / "launch"), "shell", job, "--rank", "1"], env={**cluster.env, "TERM": "xterm"},
                             cwd=cluster.work, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    read_until(ours, f"job {job} rank 1")
    os.write(ours, b"stty size; echo rank=$RANK term=$TERM\n")
    seen = read_until(ours, "rank=1 term=xterm")
    assert "33 101" in seen, seen
    os.write(ours, b"sleep 613\n")
    wait_until("the program runs", lambda: subprocess.run(["pgrep", "-f", "^sleep 613$"], capture_output=True).stdout)
    os.write(ours, b"\x03")
    read_until(ours, "^C")
    os.write(ours, b"echo code=$?\n")
    read_until(ours, "code=130")
    os.write(ours, b"exit 5\n")
    assert shell.wait(timeout=20) == 5
    assert cluster.state_of(job) == "RUNNING"


def test_cp_that_is_interrupted_leaves_nothing_half_done(cluster, tmp_path):
    job = start(cluster)
    (cluster.work / "out").mkdir()
    with open(cluster.work / "out/model.pt", "wb") as file:
        file.truncate(1 << 40)
    here = tmp_path / "here"
    here.mkdir()
    (here / "model.pt").write_text("of the last time\n")
    for target in (here, here / "model.pt"):
        copying = cluster.spawn("cp", f"{job}:out/model.pt", target)
        wait_until("some of it came", lambda: any(p.stat().st_size > 1 << 20 for p in here.glob(".launch-cp-*/*")))
        copying.send_signal(signal.SIGINT)
        assert copying.wait(timeout=30) == 128 + signal.SIGINT
        assert [p.name for p in here.iterdir()] == ["model.pt"], "no half of it, under whatever name"
        assert (here / "model.pt").read_text() == "of the last time\n"
    # The other way: what reached the job's node goes too.
    with open(here / "large.bin", "wb") as file:
        file.truncate(1 << 40)
    copying = cluster.spawn("cp", here / "large.bin", f"{job}:out")
    wait_until("some of it came", lambda: any(p.stat().st_size > 1 << 20 for p in (cluster.work / "out").glob(".launch-cp-*/*")))
    copying.send_signal(signal.SIGINT)
    assert copying.wait(timeout=30) == 128 + signal.SIGINT
    wait_until("nothing of it is left", lambda: [p.name for p in (cluster.work / "out").iterdir()] == ["model.pt"])


def test_cp_brings_files_from_a_running_job_and_to_it(cluster, tmp_path):
    job = start(cluster)
    (cluster.work / "out").mkdir()
    (cluster.work / "out/model.pt").write_bytes(bytes(range(256)) * 5000)
    (cluster.work / "out/run.sh").write_text("true\n")
    (cluster.work / "out/run.sh").chmod(0o755)
    here = tmp_path / "here"
    here.mkdir()
    cluster.launch("cp", f"{job}:out", here)
    assert (here / "out/model.pt").read_bytes() == bytes(range(256)) * 5000
    assert (here / "out/run.sh").stat().st_mode & 0o111
    cluster.launch("cp", "--rank", "3", f"{job}:{cluster.work}/out/run.sh", here / "renamed.sh")
    assert (here / "renamed.sh").read_text() == "true\n"
    gone = cluster.launch("cp", f"{job}:no/such", here, code=None)
    assert gone.returncode != 0 and "no/such" in gone.stderr
    assert sorted(p.name for p in here.iterdir()) == ["out", "renamed.sh"], "nothing half done is left"
    # Into a directory of that name, as cp -r.
    (here / "out/mine").write_text("stays\n")
    (here / "out/run.sh").write_text("old\n")
    cluster.launch("cp", f"{job}:out", here)
    assert (here / "out/mine").read_text() == "stays\n" and (here / "out/run.sh").read_text() == "true\n"
    (here / "out/mine").unlink()
    # And back, under another name, and into a directory.
    cluster.launch("cp", here / "renamed.sh", f"{job}:out/again.sh")
    cluster.launch("cp", here / "out", here / "renamed.sh", f"{job}:")
    assert (cluster.work / "out/again.sh").read_text() == "true\n"
    assert (cluster.work / "renamed.sh").exists()
    cluster.launch("cp", here / "out", here / "renamed.sh", f"{job}:no/such", code=None)
    assert not (cluster.work / "no").exists()
    assert "not a terminal" in cluster.launch("attach", job, code=2).stderr, "another name of shell"
    for wrong in (["cp", "a", "b"], ["cp", f"{job}:out", f"{job}:b"], ["cp", "a", f"{job}:out", "."]):
        assert "of a job" in cluster.launch(*wrong, code=2).stderr
