# Run by the interpreter under test with -c. Prints one line per stage, each with a mark in front:
# first that it runs, then what can be read without importing torch, then what torch says of itself.
import os
import sys

MARK = "@launch-python-probe "
os.write(1, ("\n" + MARK + '{"stage": "start"}\n').encode())  # it runs; all else may take its time
sys.path[:] = [entry for entry in sys.path if entry]  # not the directory we were started in

import ast
import importlib.util
import json
import platform
import re
import signal

signal.alarm(180)  # nobody waits longer; an agent that was killed cannot end us


def emit(stage, facts):
    os.write(1, ("\n" + MARK + json.dumps(dict(facts, stage=stage)) + "\n").encode())


def stamp_places(torch_directory):
    places = [p for p in sys.path if os.path.basename(p) in ("site-packages", "dist-packages")]
    if torch_directory:
        places.append(os.path.join(torch_directory, "version.py"))
    return [p for p in places if os.path.exists(p)]


def versions():
    try:
        from importlib import metadata
    except ImportError:
        return {}
    found = {}
    for name in ("deepspeed", "accelerate", "transformers", "lightning", "pytorch-lightning", "torchvision",
                 "ninja", "torchtitan", "megatron-core", "flash-attn", "bitsandbytes", "peft", "numpy", "jax", "tensorflow"):
        try:
            found[name] = metadata.version(name)
        except Exception:
            pass
    return found


def torch_text(directory):
    """The assignments of torch/version.py, read as text."""
    facts = {}
    with open(os.path.join(directory, "version.py"), encoding="utf-8", errors="replace") as file:
        text = file.read()
    for name, value in re.findall(r"^(\w+)(?:\s*:[^=\n]+)?\s*=\s*(.+)$", text, re.M):
        try:
            facts[name] = ast.literal_eval(value.strip())
        except Exception:
            pass
    return facts


def built_ops():
    """Operators that were built when DeepSpeed was installed; its record, read as text."""
    try:
        spec = importlib.util.find_spec("deepspeed")
        directory = list(spec.submodule_search_locations)[0]
        with open(os.path.join(directory, "git_version_info_installed.py"), encoding="utf-8") as file:
            record = re.search(r"^installed_ops\s*=\s*(\{.*?\})", file.read(), re.M | re.S)
        return sorted(name for name, built in ast.literal_eval(record.group(1)).items() if built)
    except Exception:
        return []


def stage_a():
    facts = {"python": platform.python_version(), "packages": versions(), "built_ops": built_ops(), "torch": None}
    directory = None
    spec = importlib.util.find_spec("torch")
    if spec is not None and spec.submodule_search_locations:
        directory = os.path.abspath(list(spec.submodule_search_locations)[0])
        try:
            text = torch_text(directory)
            facts["torch"] = {"version": text.get("__version__") or "", "cuda": text.get("cuda"),
                              "hip": text.get("hip"), "path": directory}
        except OSError as error:
            facts["says"] = "torch is half installed: %s" % error
    facts["stamps"] = stamp_places(directory)
    emit("a", facts)
    return facts["torch"]


def first_lines(text):
    lines = [line.strip() for line in str(text).splitlines() if line.strip()]
    return "\n".join(lines[:5])[:1000]


def nccl_version(torch):
    try:
        version = torch.cuda.nccl.version()
    except Exception:
        return None
    return ".".join(map(str, version)) if isinstance(version, tuple) else str(version)


def arch_list(torch):
    # get_arch_list() is empty when no GPU is seen; the build's flags are there regardless.
    try:
        flags = torch.cuda.get_arch_list() or (torch._C._cuda_getArchFlags() or "").split()
        return list(flags)
    except Exception:
        return []


def stage_b():
    import warnings

    says = []
    facts = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            import torch

            facts["torch"] = {"version": str(torch.__version__), "cuda": torch.version.cuda,
                              "hip": getattr(torch.version, "hip", None), "arch_list": arch_list(torch),
                              "nccl": nccl_version(torch), "path": os.path.dirname(os.path.abspath(torch.__file__))}
            facts["sees_gpu"] = bool(torch.cuda.is_available())
            facts["devices"] = int(torch.cuda.device_count())
            facts["mps"] = bool(getattr(torch.backends, "mps", None) and torch.backends.mps.is_available())
            if not facts["sees_gpu"]:
                torch.cuda.init()  # raises, and its text says why
        except BaseException as error:
            says.append("%s: %s" % (type(error).__name__, error))
        says += [str(w.message) for w in caught if "cuda" in str(w.message).lower() or "driver" in str(w.message).lower()]
    facts["says"] = first_lines("\n".join(says))
    emit("b", facts)


if stage_a() is not None and "import" in sys.argv[1:]:
    stage_b()
