"""Lets the agent know where this process stands, and how much GPU memory PyTorch has.

Python imports it at its start, because its directory stands first in PYTHONPATH. It changes nothing
of the program. One signal that nobody uses gets a handler of faulthandler's, which writes the
stacks of all threads to a file; that file is open in this process and in those it forks, by which
the agent knows who may be sent the signal. `python -m torch.distributed.run` and the like inside of
a run that starts once per node become the launcher of the plan (planner/start/node_launcher.py). After
optimizer steps, once a second at most, what PyTorch's allocator holds is appended to
LAUNCH_PROGRESS_FILE.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_SIGNAL = 59  # agent/runner/rank_stacks.cc


def _listen():
    import faulthandler
    import signal

    path = os.environ.get("LAUNCH_STACKS")
    if not path or signal.getsignal(_SIGNAL) is not signal.SIG_DFL:
        return
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    faulthandler.register(_SIGNAL, file=file, all_threads=True, chain=False)


_LAUNCHER_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torch.distributed.launch",
    "accelerate.commands.launch": "accelerate-launch",
    "accelerate.commands.accelerate_cli": "accelerate",
    "deepspeed": "deepspeed",
    "deepspeed.launcher.runner": "deepspeed",
}


def _refuse(name):
    """A launcher inside one of several ranks would start the processes of all of them again."""
    if not name or os.environ.get("LAUNCH_START") == "node" or os.environ.get("WORLD_SIZE", "1") == "1":
        return
    os.write(2, (f"launch: {name} was called inside a command that runs once per rank: it would start "
                 "processes for each of them\n  hint: write launcher: node in the job, so that run "
                 "starts once per node\n").encode())
    os._exit(2)


def _python_program(words):
    """(module, "" for a script; index behind it, or of the script): "-um pkg" is one of several flags."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        rest = "" if words[at].startswith("--") else words[at][1:].lstrip("bBdEiIOPqRsSuvx")
        if rest[:1] == "m":
            return (rest[1:], at + 1) if rest[1:] else ("".join(words[at + 1:at + 2]), at + 2)
        if rest[:1] == "c":
            break
        at += 2 if rest in ("X", "W") else 1
    return "", at


def _module_of(path):
    """Of "/x/torch/distributed/run.py"; "" of any other script."""
    for name in _LAUNCHER_MODULES:
        if "." in name and path.endswith("/" + name.replace(".", "/") + ".py"):
            return name
    return ""


def _hold_launcher():
    wrappers = os.environ.get("LAUNCH_WRAPPERS")
    with open("/proc/self/cmdline", "rb") as file:
        words = [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    module, at = _python_program(words)
    if not module:
        module = _module_of(words[at]) if at < len(words) else ""
        at += 1 if module else 0
    if not module:
        program = os.path.basename(words[at]) if at < len(words) else ""
        verb = words[at + 1:at + 2]
        if program in ("torchrun", "deepspeed", "accelerate-launch") or (program, verb) == ("accelerate", ["launch"]):
            _refuse(program)
        return
    name = _LAUNCHER_MODULES.get(module)
    if name is None:
        return
    if not wrappers or os.environ.get("LAUNCH_START") != "node" or "RANK" in os.environ:
        return _refuse(name)
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, os.path.join(wrappers, "node_launcher.py"),
                              name, "", *words[at:]])


class _Memory:
    """A hook of torch's for every optimizer (torch 2.1 and later)."""

    def __init__(self, path):
        self.path = path
        self.last = 0.0

    def after_step(self, *_):
        import time

        now = time.monotonic()
        if now - self.last < 1:
            return
        self.last = now
        try:
            cuda = sys.modules["torch"].cuda
            allocated, reserved = cuda.memory_allocated(), cuda.memory_reserved()
            if reserved == 0:
                return
            line = '{"allocated_bytes": %d, "reserved_bytes": %d}\n' % (allocated, reserved)
            file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(file, line.encode())
            finally:
                os.close(file)
        except Exception:  # a program must not fail for it
            self.last = float("inf")

    def find_spec(self, name, path=None, target=None):
        """Of a finder that waits for torch.optim.optimizer, without importing torch itself."""
        if name != "torch.optim.optimizer":
            return None
        sys.meta_path.remove(self)
        from importlib.util import find_spec

        spec = find_spec(name)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            register = getattr(module, "register_optimizer_step_post_hook", None)
            if register is not None:
                register(self.after_step)

        spec.loader.exec_module = exec_module
        return spec


def _run_hidden_one():
    """The sitecustomize that Python would have found without those of launch."""
    from importlib.machinery import PathFinder

    # A probe and a rank have one each: each must not find the other again.
    ours = sys.__dict__.setdefault("_launch_hooks", set())
    ours.add(_HERE)
    places = [place for place in sys.path if os.path.abspath(place or os.curdir) not in ours]
    spec = PathFinder.find_spec("sitecustomize", places)
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


for _begin in (_hold_launcher, _listen):
    try:
        _begin()
    except Exception:  # a program must not fail for it
        pass
# Under a launcher of the job's own all ranks of the node share that file: one of them speaks.
if os.environ.get("LAUNCH_PROGRESS_FILE") and not (
        os.environ.get("LAUNCH_START") == "node" and os.environ.get("LOCAL_RANK", "0") != "0"):
    sys.meta_path.insert(0, _Memory(os.environ["LAUNCH_PROGRESS_FILE"]))
_run_hidden_one()
