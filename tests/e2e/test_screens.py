"""launch explain and launch top on a real cluster."""

import os
import pty
import select
import signal
import subprocess
import time

from conftest import BIN, wait_until

BUSY = """\
name: busy
device: cpu
gpus: 0
cpus: 1000000
{more}run: sleep 600
"""


def all_cores(cluster, more=""):
    node = cluster.json("nodes")["nodes"][0]
    return BUSY.replace("1000000", str(node["cores"])).format(more=more)


def expected(job):
    (finding,) = [f for f in job["findings"] if f["code"] == "expected_start"]
    return finding


def test_explain_names_who_is_in_front_and_when(cluster):
    cluster.up()
    first = cluster.submit(cluster.write("first.yaml", all_cores(cluster, "time: 30m\n")))
    cluster.wait_for(first, "RUNNING")
    plan = cluster.json("plan", cluster.write("next.yaml", all_cores(cluster)))
    assert plan["waits"]["code"] == "Resources" and f"job {first} ends then" in plan["waits"]["evidence"], plan["waits"]
    said = cluster.launch("submit", cluster.work / "next.yaml")
    second = said.stdout.strip()
    assert f"job {first} ends then by its time limit" in said.stderr, said.stderr
    third = cluster.submit(cluster.work / "next.yaml")
    text = cluster.launch("explain", second).stdout
    assert "waits for Resources" in text and f"job {first} (busy of" in text and "in 29m" in text, text
    behind = expected(cluster.json("explain", third))
    assert "not known" in behind["says"] and f"in front of it: job {second}" in behind["evidence"], behind
    cluster.launch("hold", third)
    assert f"launch release {third}" in cluster.launch("explain", third).stdout
    assert "RUNNING" in cluster.launch("explain", first).stdout
    for job in (first, second, third):
        cluster.launch("cancel", job)
    assert "CANCELLED" in cluster.launch("explain", first).stdout


def read_until(fd, text, seconds=15):
    seen, end = "", time.monotonic() + seconds
    while text not in seen and time.monotonic() < end:
        if select.select([fd], [], [], 0.2)[0]:
            try:
                seen += os.read(fd, 65536).decode(errors="replace")
            except OSError:  # its other end is closed
                break
    assert text in seen, seen[-2000:]
    return seen


def test_top_paints_and_gives_the_terminal_back(cluster):
    cluster.up()
    job = cluster.submit(cluster.write("job.yaml", all_cores(cluster)))
    cluster.wait_for(job, "RUNNING")
    once = cluster.launch("top", "--once").stdout
    assert "node1" in once and "busy" in once and "\033" not in once, once
    assert "--once" in cluster.launch("top", code=2).stderr, "a pipe is no terminal"
    for end in ("q", signal.SIGTERM):
        master, slave = pty.openpty()
        top = subprocess.Popen([BIN / "launch", "top", "--interval", "200ms"], env={**cluster.env, "TERM": "xterm"},
                               cwd=cluster.work, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
        os.close(slave)
        seen = read_until(master, "busy")
        assert "\033[?1049h" in seen and "\033[2J" not in seen, "painted over, never blank"
        if end == "q":
            os.write(master, b"q")
        else:
            top.send_signal(end)
        read_until(master, "\033[?1049l")
        assert top.wait(10) == 0
        os.close(master)
    cluster.launch("cancel", job)
    wait_until("nothing is shown", lambda: "busy" not in cluster.launch("top", "--once").stdout)
