"""What a job calls a secret is in the environment of its ranks, and nowhere in clear besides; what is kept is its owner's."""

import base64
import os
import pathlib
import stat

from conftest import wait_until


def holders(what):
    """(program, where) of each process whose command line or environment holds `what`."""
    found = []
    for proc in pathlib.Path("/proc").iterdir():
        if not proc.name.isdigit() or int(proc.name) == os.getpid():
            continue
        for where in ("cmdline", "environ"):
            try:
                if what in (proc / where).read_bytes():
                    found.append((os.path.basename(os.readlink(proc / "exe")), where))
            except OSError:
                pass
    return found


def files_with(directory, words):
    found = []
    for path in directory.rglob("*"):
        try:
            if path.is_file() and not path.is_symlink() and any(word in path.read_bytes() for word in words):
                found.append(str(path))
        except OSError:
            pass
    return found


def test_a_secret_is_in_no_file_command_line_log_event_or_answer(cluster):
    value = f"hush-{os.urandom(12).hex()}"
    words = [value.encode(), base64.b64encode(value.encode())]
    cluster.up()
    job_file = cluster.write("job.yaml", "name: hidden\ngpus: 0\nsecrets: [TOKEN]\n"
                             'run: test -n "$TOKEN" && echo up >>up && until [ -e go ]; do sleep 0.05; done; exit 3\n')
    job = cluster.launch("submit", job_file, "--parsable", env={"TOKEN": value}).stdout.strip()
    wait_until("the rank has its secret", lambda: (cluster.work / "up").exists())

    seen = holders(value.encode())
    assert seen and all(where == "environ" and not program.startswith("launch") for program, where in seen), seen
    assert not files_with(cluster.state, words) and not files_with(cluster.work, words)

    asked = [("status", job, "-o", "json"), ("status", job), ("events", "-o", "json"), ("env", job, "--rank", "0"),
             ("queue", "-o", "json")]
    for verb in asked:
        said = cluster.launch(*verb, code=None)
        assert value not in said.stdout + said.stderr, verb

    (cluster.work / "go").touch()
    cluster.wait_for(job, "FAILED")
    assert not files_with(cluster.state, words) and not files_with(cluster.work, words)
    for verb in [*asked, ("why", job), ("logs", job)]:
        said = cluster.launch(*verb, code=None)
        assert value not in said.stdout + said.stderr, verb


def test_keys_stores_sockets_and_records_are_for_their_owner_alone(cluster):
    cluster.up()
    job = cluster.submit(cluster.write("job.yaml", "name: kept\ngpus: 0\nrun: echo said; until [ -e go ]; do sleep 0.05; done\n"))
    cluster.wait_for(job, "RUNNING")
    wide = []
    keys = set()
    for top, _, names in os.walk(cluster.state):
        # A key is its owner's alone also in a directory that others cannot enter: a copy leaves that behind.
        here = [name for name in names if name.endswith((".key", "key.pem"))]
        keys.update(here)
        wide += [os.path.join(top, name) for name in here if os.lstat(os.path.join(top, name)).st_mode & 0o077]
        # Below a directory that others cannot enter nothing else is theirs, whatever its own mode.
        if os.lstat(top).st_mode & 0o077 == 0:
            closed = top
            continue
        inside = any(os.lstat(above).st_mode & 0o077 == 0 for above in pathlib.Path(top).parents
                     if above.is_relative_to(cluster.state))
        wide += [] if inside else [os.path.join(top, name) for name in names
                                   if os.lstat(os.path.join(top, name)).st_mode & 0o077
                                   or stat.S_ISSOCK(os.lstat(os.path.join(top, name)).st_mode)]
    assert not wide, wide
    assert keys >= {"ca.key", "secrets.key", "key.pem"}, keys
    assert os.lstat(cluster.state / "controller").st_mode & 0o077 == 0, closed
    (cluster.work / "go").touch()
    cluster.wait_for(job, "SUCCEEDED")
