"""What this machine lets the kit do. A missing ability is named with its reason, never passed over."""

import os
import pathlib
import subprocess


def run(*argv, **kwargs):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=300, **kwargs)


def must(*argv, **kwargs):
    done = run(*argv, **kwargs)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, argv))}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def namespaces():
    """None, or why no network namespaces can be made."""
    name = f"chaos-probe-{os.getpid()}"
    done = run("ip", "netns", "add", name)
    if done.returncode != 0:
        return done.stderr.strip() or "ip netns add failed"
    try:
        # One-way cuts drop at the receiver's route lookup, so local addresses must come after them.
        for rule in (["add", "pref", "100", "lookup", "local"], ["del", "pref", "0"],
                     ["add", "pref", "10", "iif", "lo", "blackhole"]):
            done = run("ip", "-n", name, "rule", *rule)
            if done.returncode != 0:
                return f"ip rule {' '.join(rule)}: {done.stderr.strip()}"
    finally:
        run("ip", "netns", "del", name)
    return None


def small_disks(directory):
    """None, or why no tmpfs can be mounted."""
    point = pathlib.Path(directory) / f"probe-disk-{os.getpid()}"
    point.mkdir(parents=True, exist_ok=True)
    done = run("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", point)
    if done.returncode == 0:
        run("umount", point)
    point.rmdir()
    return None if done.returncode == 0 else done.stderr.strip()


def crash_points(program):
    """None, or why no named crash point can be armed."""
    if b"LAUNCH_FAILPOINT" in pathlib.Path(program).read_bytes():
        return None
    return f"{program} is built without LAUNCH_FAILPOINTS (a build with -DLAUNCH_FAILPOINTS=ON has them)"


def netem():
    name = f"chaos-probe-{os.getpid()}"
    run("ip", "netns", "add", name)
    done = run("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms")
    run("ip", "netns", "del", name)
    return None if done.returncode == 0 else "this kernel has no netem"


def commit(root):
    return run("git", "-C", root, "rev-parse", "--short", "HEAD").stdout.strip() or "unknown"
