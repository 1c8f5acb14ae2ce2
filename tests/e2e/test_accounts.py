"""One agent that is root, jobs of two people and of root: each runs as its owner's account and reaches nothing of another's.

The accounts are in a passwd file that only the agent of the test sees; the machine's own is not touched.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

from conftest import BIN, assert_none_left, wait_until
from test_mixed_versions import Mixed

PEOPLE = {"ana": 1_200_000_000 + 2 * os.getpid(), "ben": 1_200_000_001 + 2 * os.getpid()}  # of no other run


class Accounts(Mixed):
    def __init__(self, tmp, *settings):
        tmp.chmod(0o755)
        super().__init__(tmp, BIN, BIN)
        self.accounts = tmp / "passwd"
        homes = tmp / "home"
        homes.mkdir()
        lines = []
        for name, uid in PEOPLE.items():
            (homes / name).mkdir(mode=0o700)
            os.chown(homes / name, uid, uid)
            lines.append(f"{name}:x:{uid}:{uid}::{homes / name}:/bin/bash\n")
        self.accounts.write_text("root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1::/:/bin/sh\n" + "".join(lines))
        (tmp / "agent.yaml").write_text("run_as: multi_user\n" + "".join(f"{line}\n" for line in settings))
        token = self.launch("token", "create", "--node", "na")
        subprocess.run([BIN / "launch-agent", "join", "--state", tmp / "state"], input=token, text=True, check=True,
                       timeout=30, capture_output=True)
        self.serve_agent()
        self.people = {}
        for name in (*PEOPLE, "root", "eve", "daemon"):
            into = tmp / f"login-{name}"
            subprocess.run([BIN / "launch", "login", "--into", into, "--token", "-"], check=True, timeout=30, capture_output=True,
                           text=True, input=self.launch("token", "create", "--user", name), env=self.cluster.env)
            self.people[name] = {**self.cluster.env, "LAUNCH_CONTROLLER": self.env["LAUNCH_CONTROLLER"],
                                 "LAUNCH_CREDENTIALS": str(into)}

    def serve_agent(self):
        script = f"mount --make-rprivate / && mount --bind {self.accounts} /etc/passwd && exec \"$0\" \"$@\""
        self.start("na", ["unshare", "-m", "sh", "-c", script, BIN / "launch-agent", "run", "--state", self.tmp / "state",
                          "--lock-dir", self.tmp / "locks", "--config", self.tmp / "agent.yaml"])
        wait_until("it is idle", lambda: any(line.split()[:2] in (["na", "idle"], ["na", "mix"], ["na", "alloc"])
                                             for line in self.launch("nodes").splitlines()))

    def of(self, who, *args, code=0, cwd=None, **kwargs):
        done = subprocess.run([BIN / "launch", *map(str, args)], env=self.people[who], cwd=cwd or self.tmp / "work", text=True,
                              capture_output=True, timeout=60, **({"stdin": subprocess.DEVNULL} | kwargs))
        assert code is None or done.returncode == code, f"{who} {args}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def job(self, name, run, workdir="/tmp", more=""):
        path = self.tmp / f"work/{name}.yaml"
        path.write_text(f"name: {name}\ndevice: cpu\ngpus: 0\nworkdir: {workdir}\n{more}run: |\n"
                        + "".join(f"  {line}\n" for line in run.splitlines()))
        return path

    def running(self, who, job):
        wait_until(f"job {job} runs", lambda: "RUNNING" in self.of(who, "status", job).stdout)


@pytest.fixture
def accounts():
    if os.geteuid() != 0:
        pytest.skip("needs root: an agent of several accounts is root")
    # Not pytest's own directory, which is closed to other accounts.
    tmp = pathlib.Path(tempfile.mkdtemp(prefix="launch-accounts-"))
    made = []

    def make(*settings):
        made.append(Accounts(tmp, *settings))
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()
    assert_none_left(tmp)
    shutil.rmtree(tmp)


def test_each_owner_has_an_account_of_their_own_on_the_node(accounts):
    cluster = accounts()
    assert "owner's" in cluster.launch("nodes", "-o", "wide"), "the node says whose jobs it runs"

    # Side by side, with what logins have, and files that belong to them.
    who = "id -un; id -u; echo $HOME $USER $LOGNAME $SHELL $CACHE; umask; grep -E 'CapEff|NoNewPrivs' /proc/self/status; cd; pwd; "
    jobs = {}
    for name in PEOPLE:
        run = who + f"echo secret-of-{name}; touch made; until [ -e ~/go ]; do sleep 0.1; done; ls -ln ~/made"
        jobs[name] = cluster.of(name, "submit", cluster.job(name, run, more="env: {CACHE: $HOME/cache}\n"), "--parsable").stdout.strip()
    for name, uid in PEOPLE.items():
        cluster.running(name, jobs[name])
        home = cluster.tmp / "home" / name
        said = wait_until("it printed", lambda: [line for line in cluster.of(name, "logs", jobs[name]).stdout.splitlines()
                                                 if f"secret-of-{name}" in line] and cluster.of(name, "logs", jobs[name]).stdout)
        text = "\n".join(line.removeprefix("[0] ") for line in said.splitlines())
        assert f"{name}\n{uid}\n{home} {name} {name} /bin/bash {home}/cache\n0077\n" in text, text
        assert "CapEff:\t0000000000000000\nNoNewPrivs:\t1\n" in text and str(home) in text, text

    # exec and its terminal-less shell run as the account too, and only the owner has them.
    assert cluster.of("ana", "exec", jobs["ana"], "--", "bash", "-c", "id -u; id -G; cd && pwd").stdout.split() == \
        [str(PEOPLE["ana"]), str(PEOPLE["ana"]), str(cluster.tmp / "home/ana")]
    assert cluster.of("ben", "exec", jobs["ana"], "--", "id", code=None).returncode != 0

    # On the node itself nothing of one is the other's to read, change or end.
    attempt = cluster.tmp / "state/allocations" / f"{jobs['ana']}.1"
    rank = [int(p) for p in os.listdir("/proc") if p.isdigit() and os.path.exists(f"/proc/{p}/status")
            and f"\t{PEOPLE['ana']}\t" in pathlib.Path(f"/proc/{p}/status").read_text()][0]
    nosy = (f"cat {attempt}/rank.0/out {attempt}/accept {attempt}/files/* /proc/{rank}/environ; ls {attempt} {attempt}/rank.0 "
            f"{attempt}/.. {cluster.tmp}/state/logs {cluster.tmp}/state/identity; kill -9 {rank}; rm -rf {attempt}; echo end")
    seen = cluster.of("ben", "exec", jobs["ben"], "--", "bash", "-c", nosy)
    assert "secret-of-ana" not in seen.stdout and seen.stdout.strip() == "end", seen.stdout
    assert seen.stderr.count("ermission denied") >= 8 and "not permitted" in seen.stderr, seen.stderr
    # Nor does a rank reach what its own supervisor writes.
    cluster.of("ana", "exec", jobs["ana"], "--", "bash", "-c", f"cd {attempt}/rank.0; rm -f exit start control; echo x >exit; "
               "kill -9 $(pgrep -u root -f launch-shim)", code=None)
    assert (attempt / "rank.0/exit").stat().st_uid == 0

    # The agent goes and comes back: everything is as it was.
    cluster.stop("na")
    cluster.serve_agent()
    assert cluster.of("ana", "exec", jobs["ana"], "--", "id", "-u").stdout.strip() == str(PEOPLE["ana"])
    cluster.of("ben", "cancel", jobs["ben"])
    wait_until("cancelled", lambda: "CANCELLED" in cluster.of("ben", "status", jobs["ben"]).stdout)
    (cluster.tmp / "home/ana/go").write_text("")
    wait_until("done", lambda: "SUCCEEDED" in cluster.of("ana", "status", jobs["ana"]).stdout)
    assert re.search(rf"{PEOPLE['ana']} {PEOPLE['ana']} .*home/ana/made", cluster.of("ana", "logs", jobs["ana"]).stdout)


def test_setup_copies_and_closed_homes_are_the_accounts(accounts):
    cluster = accounts()
    # A directory that only ana can enter, and that only the submitting machine is asked to see.
    home = cluster.tmp / "home/ana"
    (home / "train.sh").write_text("#!/bin/bash\nid -u\n")
    (home / "train.sh").chmod(0o700)
    os.chown(home / "train.sh", PEOPLE["ana"], PEOPLE["ana"])
    done = cluster.of("ana", "submit", cluster.job("closed", "./train.sh", workdir=home, more="setup: touch set-up\n"), "--wait")
    assert (home / "set-up").stat().st_uid == PEOPLE["ana"], done.stderr
    other = cluster.of("ben", "submit", cluster.job("closed", "./train.sh", workdir=home), "--wait", code=None)
    assert other.returncode == 4 and "ermission denied" in other.stderr, other.stderr

    # A shipped copy belongs to its owner, and is closed to others.
    source = cluster.tmp / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub/data.txt").write_text("data\n")
    (source / "link").symlink_to("/etc/passwd")
    job = cluster.job("copy", "pwd; stat -c %u:%a . sub sub/data.txt; echo more >>sub/data.txt; echo new >new; cat sub/data.txt",
                      workdir=source, more="snapshot: true\n")
    number = cluster.of("ana", "submit", job, "--wait").stdout.split()[0]
    said = cluster.of("ana", "logs", number).stdout
    assert "/state/work/" in said and f"{PEOPLE['ana']}:700" in said and f"{PEOPLE['ana']}:755" in said and "more" in said, said
    assert pathlib.Path("/etc/passwd").stat().st_uid == 0
    assert (source / "sub/data.txt").read_text() == "data\n"

    # After the end the owner alone reads it, with the account's rights and none of root's.
    cluster.of("ana", "cp", f"{number}:sub", cluster.tmp / "work/back")
    assert (cluster.tmp / "work/back/data.txt").read_text() == "data\nmore\n"
    for other in ("ben", "eve"):
        refused = cluster.of(other, "cp", f"{number}:sub", cluster.tmp / "work/stolen", code=6)
        assert f"job {number} is not one of yours" in refused.stderr, refused.stderr
    assert not (cluster.tmp / "work/stolen").exists()
    (copy,) = (path for path in (cluster.tmp / "state/work").glob(f"{number}-*") if path.is_dir())
    (copy / "of-root").write_text("a secret\n")
    (copy / "of-root").chmod(0o600)
    refused = cluster.of("ana", "cp", f"{number}:of-root", cluster.tmp / "work", code=None)
    assert refused.returncode != 0 and "Permission denied" in refused.stderr, refused.stderr
    os.chown(copy, PEOPLE["ben"], PEOPLE["ben"])
    refused = cluster.of("ana", "cp", f"{number}:new", cluster.tmp / "work", code=None)
    assert refused.returncode != 0 and "belongs to uid" in refused.stderr, refused.stderr


def test_what_a_job_preloads_never_has_roots_rights(accounts):
    python = shutil.which("python3", path="/usr/bin:/bin:/usr/local/bin")  # one that other accounts reach
    if not python:
        pytest.skip("this machine has no python3 of its own")
    cluster = accounts()
    library = cluster.tmp / "home/ana/intruder.so"
    shutil.copy(BIN.parent / "lib/libintruder.so", library)
    told = cluster.tmp / "home/ana/intruder.so.ids"  # "euid program" of each program that loads it
    told.write_text("")
    for path in (library, told):
        os.chown(path, PEOPLE["ana"], PEOPLE["ana"])
    job = cluster.job("preload", "until [ -e ~/go ]; do sleep 0.1; done", workdir=library.parent,
                      more=f"preflight: full\npython: {python}\nsetup: id -u\nenv: {{LD_PRELOAD: {library}}}\n")
    number = cluster.of("ana", "submit", job, "--parsable").stdout.strip()
    cluster.running("ana", number)
    assert os.path.realpath(python) in told.read_text(), f"no interpreter was asked before the start:\n{told.read_text()}"
    cluster.of("ana", "exec", number, "--", "id", "-u")
    (library.parent / "go").write_text("")
    wait_until("done", lambda: "SUCCEEDED" in cluster.of("ana", "status", number).stdout)
    assert {line.split()[0] for line in told.read_text().splitlines()} == {str(PEOPLE["ana"])}, told.read_text()


def test_owners_without_an_account_are_refused_with_the_reason(accounts):
    cluster = accounts("users: {ben: ana}")
    job = cluster.job("who", "id -un")

    def refused(who, reason):
        number = cluster.of(who, "submit", job, "--parsable").stdout.strip()
        said = wait_until("it is said", lambda: re.search(f".*{reason}.*", cluster.of(who, "status", number).stdout))
        assert "na refused the start" in said.group(), said.group()
        return said.group()

    assert "users:" in refused("eve", "no account eve on this node")
    # System accounts and root are for nobody, also where a certificate has their name.
    refused("daemon", "below uid 1000")
    refused("root", "root_jobs")
    # The node is as good as before for everybody else.
    mapped = cluster.of("ben", "submit", job, "--wait")
    assert "ana" in cluster.of("ben", "logs", mapped.stdout.split()[0]).stdout
    # Unless whoever keeps the node says so.
    (cluster.tmp / "agent.yaml").write_text("run_as: multi_user\nroot_jobs: true\n")
    cluster.stop("na")
    cluster.serve_agent()
    roots = cluster.of("root", "submit", job, "--wait")
    assert "root" in cluster.of("root", "logs", roots.stdout.split()[0]).stdout
