"""`launch up` as a person types it: keys confirmed at the terminal, a table of the hosts, and the cluster that is current."""

import os
import pty
import re
import select
import subprocess
import time

from conftest import BIN
from test_up import Operator, SshHosts, fresh_hosts  # noqa: F401 (conftest goes by SshHosts)


def at_terminal(argv, env, answer="yes\n", timeout=90):
    """Runs `argv` on a terminal of 80 x 24 whose user answers each question; (exit code, all that was shown)."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    subprocess.run(["stty", "rows", "24", "cols", "80"], stdin=theirs, check=True)
    program = subprocess.Popen(list(map(str, argv)), env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    shown, asked, end = "", 0, time.monotonic() + timeout
    while True:
        assert time.monotonic() < end, shown
        if select.select([ours], [], [], 0.2)[0]:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the last writer is gone
                break
            if not piece:
                break
            shown += piece.decode(errors="replace")
        while len(re.findall(r"\(yes/no\) ", shown)) > asked:
            asked += 1
            os.write(ours, answer.encode())
    os.close(ours)
    return program.wait(timeout=10), shown


def screen(text):
    """The lines that are left on a terminal after `text`: cursor up, erase line, erase below."""
    lines, row = [""], 0
    for part in re.findall(r"\x1b\[\d*[A-Z]|\r\n|\r|\n|[^\x1b\r\n]+", text):
        if part.endswith("A") and part.startswith("\x1b"):
            row -= int(part[2:-1] or 1)
        elif part == "\x1b[J":
            del lines[row + 1:]
            lines[row] = ""
        elif part == "\x1b[K":
            pass  # the table writes whole lines behind a carriage return
        elif part == "\r":
            lines[row] = ""
        elif "\n" in part:
            row += 1
            if row == len(lines):
                lines.append("")
        else:
            lines[row] += part
    return lines


def test_up_in_a_terminal_asks_about_keys_and_paints_one_line_for_each_host(fresh_hosts, tmp_path):  # noqa: F811
    two = fresh_hosts("na", "nb")
    operator = Operator(two, tmp_path)
    env = operator.env | {"TERM": "xterm"}
    line = [BIN / "launch", "up", operator.hosts_file, "--ssh-config", operator.config]

    code, shown = at_terminal(line, env, answer="no\n")
    assert code != 0 and "is not known" in shown, shown
    assert not list((tmp_path / "na/opt").iterdir()), "nothing is installed where the key is not confirmed"

    code, shown = at_terminal([*line, "--cluster", "lab"], env)
    assert code == 0, shown
    assert len(re.findall(r"\(yes/no\)", shown)) == 2 and shown.count("SHA256:") == 2, shown
    assert re.search(r"nb +.*sending", shown) and re.search(r"MiB of \d", shown), "bytes on their way"
    left = screen(shown)
    rows = [re.split(r" {2,}", one.strip()) for one in left if re.match(r"n[ab] .* ready$", one)]
    assert [row[0] for row in rows] == ["na", "nb"] and all(row[3] == "ready" for row in rows), left
    assert sum("HOST  " in one and "SENT" in one for one in left) == 1, left
    assert any(one == "2 of 2 done" for one in left), left
    assert any(one.split()[:2] == ["nb", "idle"] for one in left), left
    assert all(len(one) < 80 for one in left if "ready" in one)

    # Without a terminal: plain lines.
    plain = operator.launch("upgrade", "--ssh-config", operator.config)
    assert plain.returncode == 0 and "\x1b" not in plain.stderr, plain.stderr

    # The current cluster is meant where none is named, whatever it is called.
    assert "\n*  lab" in operator.launch("context").stdout, operator.launch("context").stdout
    assert operator.launch("drain", "nb", "--reason", "a look inside").returncode == 0
    assert operator.launch("undrain", "nb").returncode == 0
    gone = operator.launch("nodes", "remove", "nb", "--ssh-config", operator.config)
    assert gone.returncode == 0 and "nb: removed" in gone.stderr, gone.stderr
    assert operator.launch("nodes", "-o", "name").stdout.split() == ["na"]
    down = operator.launch("down", "--purge", "--ssh-config", operator.config)
    assert down.returncode == 0, down.stderr
    assert not two.pids("na", "launch-agent") and not two.pids("na", "launch-controller")
    none = operator.launch("down")
    assert none.returncode != 0 and "no cluster is current" in none.stderr, none.stderr
