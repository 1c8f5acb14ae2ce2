"""`launch up` and `down` when something went wrong in between: nothing is forgotten, nothing is wedged, all can be undone."""

import os
import pathlib
import shutil
import signal
import subprocess

from conftest import BIN, ROOT, wait_until
from test_namespaces import sh
from test_up import Operator, SshHosts, fresh_hosts  # noqa: F401 (conftest goes by SshHosts)


def test_what_an_interrupted_up_left_is_known_and_can_be_undone(fresh_hosts, tmp_path):  # noqa: F811
    two = fresh_hosts("na", "nb")
    operator = Operator(two, tmp_path)
    ssh = ("--ssh-config", operator.config, "--accept-new-host-keys")
    clusters = tmp_path / "config/launch/clusters"

    # A head that was never reached binds nobody.
    typo = operator.launch("up", "hosts.yml", *ssh)
    assert typo.returncode != 0 and "there is no file hosts.yml" in typo.stderr, typo.stderr
    nokey = operator.launch("up", "na,nb", "--key", tmp_path / "nokey", *ssh)
    assert nokey.returncode != 0 and f"the key {tmp_path}/nokey of na is not here" in nokey.stderr, nokey.stderr
    down = operator.launch("up", "nowhere,nb", *ssh)
    assert down.returncode != 0 and "head nowhere" in down.stderr, down.stderr
    assert "1 of 2 hosts failed" in down.stderr and "nb: can be nodes" in down.stderr and "--head nb" in down.stderr, "the others are looked at in the same run"
    assert not (clusters / "launch").exists() and "no cluster is current" in operator.launch("down").stderr

    # Interrupted when the second host has its agent: both are known.
    line = subprocess.Popen([BIN / "launch", "up", operator.hosts_file, *ssh], env=operator.env, stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_until("programs are there", lambda: list((tmp_path / "nb/opt").rglob("launch-agent*")) or line.poll() is not None)
    busy = operator.up()
    assert line.poll() is not None or (busy.returncode != 0 and "another `launch` of yours is at work" in busy.stderr), busy.stderr
    line.send_signal(signal.SIGINT)
    said = line.communicate(timeout=20)[1]
    assert line.returncode == 130 and "launch: left; run it again to go on, or undo it: launch down launch --purge" in said, said
    known = (clusters / "launch/hosts.yaml").read_text()
    assert '"na"' in known and '"nb"' in known, known
    again = operator.up()
    assert again.returncode == 0, again.stderr
    assert not list((tmp_path / "nb/opt").rglob("*.part.*")), "what was cut in the middle is cleared away"

    # A head that ssh does not reach is one bad host where its controller answers.
    two.servers["na"].kill()
    two.servers["na"].wait()
    os.kill(two.pids("nb", "launch-agent")[0], signal.SIGKILL)
    alone = operator.up()
    assert alone.returncode == 1 and "na: ssh to" in alone.stderr and "nb: started the agent" in alone.stderr, alone.stderr
    two.serve("na")

    # One machine under a second name is no second node, and is not taken into the list.
    (tmp_path / "twin.yaml").write_text(f"user: root\nhosts:\n  - {{name: na, address: {two.address('na')}}}\n"
                                        f"  - {{name: nb2, address: {two.address('nb')}}}\n")
    twin = operator.launch("up", tmp_path / "twin.yaml", *ssh)
    assert twin.returncode == 1 and "nb2: this machine is the node nb already" in twin.stderr, twin.stderr
    assert "nb2" not in (clusters / "launch/hosts.yaml").read_text()

    # Credentials of a cluster that the head does not have are not written over.
    mine = (clusters / "launch/ca.pem").read_bytes()
    shutil.move(tmp_path / "na/lib/controller", tmp_path / "aside")
    lost = operator.up()
    assert lost.returncode != 0 and "its controller is not on na" in lost.stderr, lost.stderr
    assert (clusters / "launch/ca.pem").read_bytes() == mine
    shutil.move(tmp_path / "aside", tmp_path / "na/lib/controller")

    # The controller is gone and a rank lives: --purge takes nothing from under it. When it is over, all goes.
    job = tmp_path / "job.yaml"
    job.write_text("name: long\ndevice: cpu\ngpus: 0\nnodelist: nb\nworkdir: /tmp\nrun: sleep 300\n")
    running = operator.launch("submit", job, "--parsable").stdout.strip()
    (rank,) = wait_until("the rank runs", lambda: two.pids("nb", "/sleep"))
    assert "RUNNING" in wait_until("it is told", lambda: operator.launch("status", running).stdout)
    os.kill(two.pids("na", "launch-controller")[0], signal.SIGKILL)
    refused = operator.launch("down", "--purge", *ssh)
    assert refused.returncode == 1 and "nb: ranks run on it" in refused.stderr, refused.stderr
    assert (tmp_path / "nb/opt/launch/current").exists() and two.pids("nb", "launch-agent")
    os.kill(rank, signal.SIGKILL)
    wait_until("its supervisor ends", lambda: not two.pids("nb", "launch-shim"))
    gone = operator.launch("down", "--purge", *ssh)
    assert gone.returncode == 0, gone.stderr
    for name in ("na", "nb"):
        assert not list((tmp_path / name / "opt").iterdir()) and not two.pids(name, "launch-agent")
        assert not [f for f in pathlib.Path(tmp_path / name / "lib").rglob("*") if f.is_file()]


def test_a_shell_that_prints_at_every_login_is_no_answer(fresh_hosts, tmp_path):  # noqa: F811
    """Welcome words, a line without its end, a line that looks like a fact, words on stderr: as start files of clusters do."""
    two = fresh_hosts("na", "nb")
    for name in ("na", "nb"):
        (tmp_path / name / "root/.bashrc").write_text("echo Welcome; echo installed=0; echo quota >&2; printf 'no end'\n")
    operator = Operator(two, tmp_path)
    done = operator.up("--accept-new-host-keys")
    assert done.returncode == 0, done.stderr
    programs = {path.name for path in BIN.iterdir()}
    for name in ("na", "nb"):
        there = {path.name for path in (tmp_path / name / "opt/launch/current/").iterdir()}
        assert {"launch-agent", "launch-shim"} <= there <= programs, there
    again = operator.up()
    assert again.returncode == 0 and "installed" not in again.stderr and "started" not in again.stderr, again.stderr

    newer = tmp_path / "newer"
    newer.mkdir()
    for program in ("launch", "launch-agent", "launch-controller", "launch-shim"):
        (newer / program).write_bytes((BIN / program).read_bytes() + b"\n")
        (newer / program).chmod(0o755)
    upgraded = subprocess.run([newer / "launch", "upgrade", "-F", operator.config], env=operator.env, capture_output=True,
                              text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert upgraded.returncode == 0, upgraded.stderr
    for name in ("na", "nb"):
        shim = tmp_path / name / "opt/launch/current/launch-shim"
        assert shim.read_bytes() == (newer / "launch-shim").read_bytes()
    job = tmp_path / "job.yaml"
    job.write_text("name: hello\ndevice: cpu\ngpus: 0\nnodes: 2\nworkdir: /tmp\nrun: echo hello\n")
    ran = operator.launch("submit", job, "--wait")
    assert ran.returncode == 0, ran.stderr
    down = operator.launch("down", "--purge", "-F", operator.config)
    assert down.returncode == 0 and "ranks run" not in down.stderr, down.stderr
    for name in ("na", "nb"):
        assert not list((tmp_path / name / "opt").iterdir()) and not two.pids(name, "launch-agent")


def test_a_wrong_address_touches_no_other_node(fresh_hosts, tmp_path):  # noqa: F811
    three = fresh_hosts("na", "nb", "nc")
    operator = Operator(three, tmp_path)
    ssh = ("-F", operator.config, "--accept-new-host-keys")
    assert operator.up(*ssh[2:]).returncode == 0
    known = tmp_path / "config/launch/clusters/launch/hosts.yaml"
    right = known.read_text()
    job = tmp_path / "job.yaml"
    job.write_text("name: long\ndevice: cpu\ngpus: 0\nnodelist: nc\nworkdir: /tmp\nrun: sleep 300\n")
    running = operator.launch("submit", job, "--parsable").stdout.strip()
    wait_until("the rank runs", lambda: three.pids("nc", "/sleep"))
    agents = {name: three.pids(name, "launch-agent") for name in three.names}

    # The wrong address, and another ssh configuration beside it, are not kept: interrupted or to the end.
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(operator.hosts_file.read_text().replace(three.address("nb"), three.address("nc")))
    line = subprocess.Popen([BIN / "launch", "up", wrong, *ssh], env=operator.env, stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until("it has begun", lambda: (known.parent.parent / ".launch.lock").exists())
    line.send_signal(signal.SIGINT)
    line.wait(20)
    assert known.read_text() == right
    refused = operator.launch("up", wrong, *ssh)
    assert refused.returncode == 1 and "nb: this machine is the node nc already" in refused.stderr, refused.stderr
    assert known.read_text() == right

    # A list that has it from elsewhere.
    known.write_text(right.replace(three.address("nb"), three.address("nc")))
    for purge in ((), ("--purge",)):
        removed = operator.launch("nodes", "remove", "nb", *purge)
        assert removed.returncode == 1 and "this machine is the node nc already" in removed.stderr, removed.stderr
        assert {name: three.pids(name, "launch-agent") for name in three.names} == agents
        assert "RUNNING" in operator.launch("status", running).stdout
        assert "nb: is a node as before" in removed.stderr and "idle" in operator.launch("nodes", "nb").stdout
    head = right.replace(three.address("nb"), three.address("na"))
    known.write_text(head)
    assert "this machine is the node na already" in operator.launch("nodes", "remove", "nb", "--purge").stderr
    assert operator.launch("cancel", running).returncode == 0
    known.write_text(right.replace(three.address("nb"), three.address("nc")))
    down = operator.launch("down", "--force")
    assert down.returncode == 1 and "nb: this machine is the node nc already" in down.stderr, down.stderr
    assert three.pids("nb", "launch-agent") == agents["nb"] and not three.pids("nc", "launch-agent")

    # The right file mends the list, and then it is the right one that goes.
    mended = operator.up()
    assert mended.returncode == 0 and known.read_text() == right, mended.stderr
    gone = operator.launch("nodes", "remove", "nb", "--purge")
    assert gone.returncode == 0, gone.stderr
    assert not list((tmp_path / "nb/opt").iterdir()) and three.pids("nc", "launch-agent")
    assert operator.launch("down", "--purge").returncode == 0


def test_a_removed_node_may_go_elsewhere_and_a_cluster_in_use_is_ended_only_by_its_name(fresh_hosts, tmp_path):  # noqa: F811
    two = fresh_hosts("na", "nb")
    operator = Operator(two, tmp_path)
    ssh = ("-F", operator.config)
    assert operator.up("--accept-new-host-keys").returncode == 0
    refused = operator.launch("down", "--hosts", "na,nb", "--purge", "--force", *ssh)
    assert refused.returncode == 1 and refused.stderr.count("known here as launch, whose controller answers") == 2, refused.stderr
    assert two.pids("na", "launch-controller") and two.pids("nb", "launch-agent") and "launch down launch" in refused.stderr

    assert operator.launch("nodes", "remove", "nb").returncode == 0
    back = operator.up()
    assert back.returncode == 0 and "nb: joined the cluster" in back.stderr, back.stderr
    assert operator.launch("nodes", "remove", "nb").returncode == 0
    assert operator.launch("down", "--purge").returncode == 0
    second = operator.up("--cluster", "second")
    assert second.returncode == 0 and "nb: joined the cluster" in second.stderr, second.stderr

    # A remove that does nothing leaves the node as it was; a drain of somebody else stays.
    for name in ("na", "nb"):
        (tmp_path / f"away-{name}").write_text(f"Host *\n  IdentityFile {tmp_path}/nothing\n  UserKnownHostsFile {operator.known}\n")
    failed = operator.launch("up", "na,nb", "--cluster", "second", "-F", tmp_path / "away-na")
    assert failed.returncode == 1, failed.stderr
    assert str(operator.config) in (tmp_path / "config/launch/clusters/second/hosts.yaml").read_text()
    kept = operator.launch("nodes", "remove", "nb", "-F", tmp_path / "away-nb")
    assert kept.returncode == 1 and "nb: is a node as before, and takes jobs" in kept.stderr, kept.stderr

    # One that nobody here knows goes by the name that it gives itself.
    stranger = Operator(two, tmp_path)
    stranger.env = operator.env | {"XDG_CONFIG_HOME": str(tmp_path / "elsewhere")}
    for name in ((), ("launch",)):
        whose = stranger.launch("down", *name, "--hosts", "nb,na", "--purge", "--force", *ssh)
        assert whose.returncode == 1 and "it is the node nb of cluster second" in whose.stderr, whose.stderr
        assert "launch down second --hosts nb --purge --force" in whose.stderr and two.pids("na", "launch-controller")
    cleared = stranger.launch("down", "second", "--hosts", "nb,na", "--purge", "--force", *ssh)
    assert cleared.returncode == 0 and "nb: ends the node nb of cluster second" in cleared.stderr, cleared.stderr


def test_two_names_of_one_machine_are_told_before_anything_is_done(fresh_hosts, tmp_path):  # noqa: F811
    two = fresh_hosts("na", "nb")
    operator = Operator(two, tmp_path)
    twins = tmp_path / "twins.yaml"
    twins.write_text(f"user: root\nhosts:\n  - {{name: na, address: {two.address('na')}}}\n"
                     f"  - {{name: n1, address: {two.address('nb')}}}\n  - {{name: n2, address: {two.address('nb')}}}\n")
    for more in (("--dry-run",), ()):
        told = operator.launch("up", twins, "-F", operator.config, "--accept-new-host-keys", *more)
        assert told.returncode == 1 and told.stderr.count("n1, n2 lead to one machine") == 2, told.stderr
        assert "2 of 3 hosts failed" in told.stderr and not list((tmp_path / "nb/opt").iterdir()), told.stderr
    known = tmp_path / "config/launch/clusters/launch/hosts.yaml"
    assert "n1" not in known.read_text() and "n2" not in known.read_text()
    assert operator.up().returncode == 0
    # The one that is the node already is not in question.
    beside = tmp_path / "beside.yaml"
    beside.write_text(operator.hosts_file.read_text() + f"  - {{name: n0, address: {two.address('nb')}}}\n")
    told = operator.launch("up", beside, "-F", operator.config)
    assert told.returncode == 1 and "n0: this machine is the node nb already" in told.stderr, told.stderr
    assert "1 of 3 hosts failed" in told.stderr, told.stderr

    # An entry that never was a node, of an older release, does not hold back those behind it.
    known.write_text(known.read_text().replace('  - name: "nb"', f'  - name: "n0"\n    address: "{two.address("nb")}"\n'
                                               '    user: "root"\n  - name: "nb"'))
    newer = tmp_path / "newer"
    newer.mkdir()
    for program in ("launch", "launch-agent", "launch-controller", "launch-shim"):
        (newer / program).write_bytes((BIN / program).read_bytes() + b"\n")
        (newer / program).chmod(0o755)
    upgraded = subprocess.run([newer / "launch", "upgrade"], env=operator.env, capture_output=True, text=True, timeout=120,
                              stdin=subprocess.DEVNULL)
    assert upgraded.returncode == 1 and "n0: this machine is the node nb already" in upgraded.stderr, upgraded.stderr
    assert "nb: installed" in upgraded.stderr and "not upgraded" not in upgraded.stderr, upgraded.stderr
    assert operator.launch("nodes", "remove", "n0").returncode == 0 and two.pids("nb", "launch-agent")
    assert operator.launch("down", "--purge").returncode == 0


def listed(operator):
    """The rows of `launch context`: name -> the rest, the current one with its star."""
    rows = [line.split(maxsplit=2) if line.startswith("*") else ["", *line.split(maxsplit=1)]
            for line in operator.launch("context").stdout.splitlines()[1:]]
    return {name: (star, rest) for star, name, rest in rows}


def test_clusters_of_one_name_have_names_of_their_own_and_can_be_ended_without_their_head(fresh_hosts, tmp_path):  # noqa: F811
    two = fresh_hosts("na", "nb")
    operator = Operator(two, tmp_path)
    ssh = ("--ssh-config", operator.config, "--accept-new-host-keys")

    # The first controller never started: what is on the head is known, and goes.
    taken = subprocess.Popen(two.command("na", ["python3", "-c", "import socket; s = socket.create_server(('', 7470)); "
                                                "print('listens', flush=True); s.accept()"]), stdout=subprocess.PIPE)
    assert taken.stdout.readline()
    failed = operator.up(*ssh[2:])
    assert failed.returncode != 0 and "head na: starting launch-controller failed" in failed.stderr, failed.stderr
    assert "launch down launch --purge" in failed.stderr and "nb: can be nodes" in failed.stderr, failed.stderr
    assert listed(operator)["launch"] == ("", "-        its controller never answered  -"), operator.launch("context").stdout
    taken.kill()
    taken.wait()
    undone = operator.launch("down", "--purge", *ssh)
    assert undone.returncode == 0, undone.stderr
    assert not list((tmp_path / "na/opt").iterdir()) and not list((tmp_path / "na/lib").iterdir())
    nothing = operator.launch("context")
    assert not nothing.stdout and "no cluster is known here" in nothing.stderr

    # What it calls itself is one thing, what it is called here another.
    up = operator.up("--name", "mine")
    assert up.returncode == 0, up.stderr
    token = tmp_path / "token"
    token.write_text(operator.launch("token", "create", "--user", "bob").stdout)
    assert operator.launch("login", "--token", token, "--as", "second").returncode == 0
    rows = listed(operator)
    assert rows["second"][0] == "*" and rows["second"][1].split() == ["launch", f"{two.address('na')}:7470", "bob"], rows
    assert rows["mine"][1].split()[0] == "launch"
    clash = operator.launch("context", "rename", "mine", "second")
    assert clash.returncode != 0 and "is known here already" in clash.stderr, clash.stderr
    assert operator.launch("context", "rename", "mine", "lab").returncode == 0
    assert operator.launch("context", "use", "lab").returncode == 0
    again = operator.up("--cluster", "lab")
    assert again.returncode == 0 and "started" not in again.stderr, again.stderr

    # Somebody who lost the credentials is told whose agent it is, and gets rid of it.
    stranger = Operator(two, tmp_path)
    stranger.env = operator.env | {"XDG_CONFIG_HOME": str(tmp_path / "elsewhere")}
    whose = stranger.launch("up", "nb", "--cluster", "other", *ssh)
    assert whose.returncode != 0 and "its agent belongs to another cluster called launch, where it is nb" in whose.stderr, whose.stderr
    assert "launch down launch --hosts nb --purge --force" in whose.stderr, whose.stderr
    assert not (tmp_path / "elsewhere/launch/clusters/other").exists() and not two.pids("nb", "launch-controller"), "before anything is done"
    cleared = stranger.launch("down", "launch", "--hosts", "nb", "--purge", "--force", *ssh)
    assert cleared.returncode == 0 and not two.pids("nb", "launch-agent"), cleared.stderr
    assert not list((tmp_path / "nb/opt").iterdir())

    # The head's machine is gone for good.
    assert operator.up("--cluster", "lab").returncode == 0
    two.servers["na"].kill()
    for pid in sh(f"ip netns pids {two.ns('na')}").split():
        subprocess.run(["kill", "-9", pid], capture_output=True)
    two.servers["na"].wait()
    kept = operator.launch("down", "--purge", *ssh)
    assert kept.returncode == 1 and "--force forgets those that ssh does not reach" in kept.stderr, kept.stderr
    assert "lab" in listed(operator) and not two.pids("nb", "launch-agent")
    gone = operator.launch("down", "lab", "--purge", "--force", *ssh)
    assert gone.returncode == 0 and "na: not reached, and forgotten" in gone.stderr, gone.stderr
    assert list(listed(operator)) == ["second"]
    two.serve("na")


def test_a_full_disk_leaves_the_settings_of_a_host_as_they_were(tmp_path):
    was = "# Written by `launch up`.\nmin_uid: 10000\n"
    state, programs = tmp_path / "state", tmp_path / "programs"
    (programs / "current").mkdir(parents=True)
    state.mkdir()
    (state / "agent.yaml").write_text(was)
    (state / "agent.yaml.new").symlink_to("/dev/full")
    kept = subprocess.run(["sh", ROOT / "cli/up/service.sh", "keep", "launch-agent", programs, state, "plain",
                           was.strip().replace("10000", "100000")],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert kept.returncode != 0, "nothing is started with settings that are not there"
    assert (state / "agent.yaml").read_text() == was
    assert not (state / "agent.yaml.new").is_symlink()
