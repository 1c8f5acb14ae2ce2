#include "planner/trainer/probe_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/units.h"

namespace launch {
namespace {

constexpr const char* kMicroField = "probe_micro";

constexpr const char* kHook =
    R"PY("""Measures a few optimizer steps for `launch plan --probe`, which ends the process then, and for
`launch submit --debug`, which does not.

Python imports it at its start, because its directory stands first in PYTHONPATH.
"""

import atexit
import importlib.machinery
import importlib.util
import json
import os
import sys
import time

_ENDS = True
_STEPS = int(os.environ.get("LAUNCH_MAX_STEPS") or 4)
_HERE = os.path.dirname(os.path.abspath(__file__))


def _run_hidden_one():
    """The sitecustomize that Python would have found without those of launch."""
    # A probe and a rank have one each: each must not find the other again.
    ours = sys.__dict__.setdefault("_launch_hooks", set())
    ours.add(_HERE)
    places = [place for place in sys.path if os.path.abspath(place or os.curdir) not in ours]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", places)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _process_bytes(key):
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    return 0


class _Probe:
    """Peaks before the first step's end (loading, states not made yet) and of the steps after it."""

    def __init__(self):
        self.pid = os.getpid()
        self.optimizer = None
        self.seconds = []
        self.last = None
        self.load = 0
        self.peak = 0
        self.static = 0
        self.reserved = 0
        self.gpu = False
        self.said = False
        self.waited = 0.0
        self.waits = []

    def read(self):
        torch = sys.modules["torch"]
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            self.gpu = True
            torch.cuda.synchronize()
            self.static = torch.cuda.memory_allocated()
            self.reserved = torch.cuda.max_memory_reserved()
            peak = torch.cuda.max_memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            return peak
        self.static = _process_bytes("VmRSS")
        peak = _process_bytes("VmHWM")
        try:
            with open("/proc/self/clear_refs", "w") as refs:
                refs.write("5")  # the high-water mark starts again
        except OSError:
            pass
        return peak

    def after_step(self, optimizer, *_):
        if os.getpid() != self.pid or self.said:
            return
        if self.optimizer is None:
            self.optimizer = optimizer
        if optimizer is not self.optimizer:
            return
        peak = self.read()
        now = time.monotonic()
        if self.last is None:
            self.load = peak
        else:
            self.peak = max(self.peak, peak)
            self.seconds.append(now - self.last)
            self.waits.append(self.waited)
        self.last = now
        self.waited = 0.0
        if len(self.seconds) + 1 >= _STEPS:
            self.say()
            if not _ENDS:
                return
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except Exception:
                    pass
            os._exit(0)

    def say(self):
        if self.said or os.getpid() != self.pid or not self.seconds:
            return
        self.said = True
        steps = sorted(self.seconds)
        line = "\nlaunch-probe " + json.dumps({
            "rank": int(os.environ.get("RANK", "0")),
            "gpu": self.gpu,
            "load_bytes": self.load,
            "peak_bytes": self.peak,
            "static_bytes": self.static,
            "reserved_bytes": self.reserved,
            "step_seconds": steps[len(steps) // 2],
            "loader_seconds": sum(self.waits) / len(self.waits),
        }) + "\n"
        for descriptor in (19, 2):
            try:
                os.write(descriptor, line.encode())
                return
            except OSError:
                continue


_PROBE = _Probe()


def _watch(module):
    register = getattr(module, "register_optimizer_step_post_hook", None)
    if register is not None:
        register(_PROBE.after_step)
        return
    first_init = module.Optimizer.__init__  # torch before 2.1 has no hook for all optimizers

    def init(self, *args, **kwargs):
        first_init(self, *args, **kwargs)
        step = self.step

        def stepped(*step_args, **step_kwargs):
            result = step(*step_args, **step_kwargs)
            _PROBE.after_step(self)
            return result

        self.step = stepped

    module.Optimizer.__init__ = init


def _watch_loader(module):
    iterator = getattr(module, "_BaseDataLoaderIter", None)
    if iterator is None:
        return
    take = iterator.__next__

    def take_and_time(self):
        start = time.monotonic()
        try:
            return take(self)
        finally:
            _PROBE.waited += time.monotonic() - start

    iterator.__next__ = take_and_time


class _Finder:
    """Waits for parts of torch without importing torch itself."""

    def __init__(self):
        self.watched = {
            "torch.optim.optimizer": _watch,
            "torch.utils.data.dataloader": _watch_loader,
        }

    def find_spec(self, name, path=None, target=None):
        watch = self.watched.pop(name, None)
        if watch is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            watch(module)

        spec.loader.exec_module = exec_module
        return spec


_run_hidden_one()
sys.meta_path.insert(0, _Finder())
atexit.register(_PROBE.say)
)PY";

}  // namespace

JobSpec AsProbe(JobSpec job, std::int64_t micro, const Plan& plan) {
  job.debug = true;
  job.model.probe = true;
  job.model.fields[kMicroField] = std::to_string(micro);
  if (!plan.checkpointing.empty())
    job.model.fields.emplace("activation_checkpointing", plan.checkpointing);
  job.strategy = plan.strategy;
  job.offload = plan.offload;
  return job;
}

bool IsProbeField(std::string_view name) { return name == kMicroField; }

bool IsProbe(const JobSpec& job) {
  return job.debug && job.model.probe && job.model.fields.count(kMicroField) > 0;
}

std::int64_t ProbeMicro(const JobSpec& job) {
  const auto field = job.model.fields.find(kMicroField);
  if (field == job.model.fields.end()) return 1;
  return std::max<std::int64_t>(1, ParseInt(field->second).value_or(1));
}

GeneratedFile ProbeHook(bool ends) {
  constexpr std::string_view kEnds = "_ENDS = True";
  std::string text = kHook;
  if (!ends) text.replace(text.find(kEnds), kEnds.size(), "_ENDS = False");
  return {"sitecustomize.py", std::move(text)};
}

void WrapForProbe(LaunchLine& line) {
  line.shell =
      "export PYTHONPATH=\"${LAUNCH_PLAN_FILE%/*}${PYTHONPATH:+:$PYTHONPATH}\"; exec 19>&2; " +
      line.shell;
}

}  // namespace launch
