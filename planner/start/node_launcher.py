"""Starts torchrun, accelerate or deepspeed inside a job that runs once per node.

Called as: node_launcher.py NAME REAL ARGS... with the job's interpreter; REAL is empty where it was
`python -m`. Placement and rendezvous
come from the plan (NNODES, NPROC_PER_NODE, NODE_RANK, MASTER_ADDR, MASTER_PORT), everything else
from ARGS. The exit code is that of the first failing rank, which torchrun itself turns into 1.
"""

import json
import os
import runpy
import shlex
import signal
import sys
import time
import traceback

# By the names that the launchers' own parsers use.
TORCHRUN_PLACEMENT = {
    "nnodes", "nproc_per_node", "node_rank", "master_addr", "master_port", "rdzv_backend",
    "rdzv_endpoint", "rdzv_id", "rdzv_conf", "standalone", "local_addr",
}
ACCELERATE_PLACEMENT = {
    "num_processes", "num_machines", "machine_rank", "main_process_ip", "main_process_port",
    "rdzv_backend", "rdzv_conf", "same_network", "gpu_ids", "deepspeed_hostfile",
    "deepspeed_inclusion_filter", "deepspeed_exclusion_filter", "deepspeed_multinode_launcher",
}
# With it accelerate ends with 1, whatever the rank's exit code was.
ACCELERATE_LEFT_OUT = {"quiet"}
# DeepSpeed's launcher makes its parser inside a function: (flags with a value, switches).
DEEPSPEED_VALUES = {
    "--hostfile", "-H", "--include", "-i", "--exclude", "-e", "--num_nodes", "--num_gpus",
    "--num_accelerators", "--min_elastic_nodes", "--max_elastic_nodes", "--master_port",
    "--master_addr", "--node_rank", "--launcher", "--launcher_args", "--enable_each_rank_log",
    "--autotuning", "--bind_core_list", "--ssh_port", "--venv_script", "--log_level",
}
DEEPSPEED_REFUSED = {"--autotuning", "--elastic_training"}
# What a rank has and a launcher gives to its own.
RANK_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
                  "ROLE_RANK", "ROLE_WORLD_SIZE", "ROLE_NAME", "CROSS_RANK", "CROSS_SIZE", "LOCAL_SIZE",
                  "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS",
                  "TORCHELASTIC_USE_AGENT_STORE")
PLACE_VARIABLES = ("NNODES", "NPROC_PER_NODE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")


def say(text):
    print(f"launch: {text}", file=sys.stderr, flush=True)


def stop(text):
    say(text)
    sys.exit(2)


class PlaceOfRank:
    """What keep_devices asks of a rank that a text is started for."""

    def __init__(self, environ):
        # A text may have set these itself, to nothing too.
        size, rank = environ.get("LOCAL_WORLD_SIZE", ""), environ.get("RANK", "")
        self.per_node = int(size) if size.isdecimal() else 1
        self.node = int(rank) if rank.isdecimal() else 0  # the first one speaks


class Place:
    """This node's part of the plan."""

    def __init__(self, environ):
        # A text may have set the variables of that name itself: NODE_RANK=0 in a start script.
        planned = environ.get("LAUNCH_PLACE", "").split()
        if len(planned) != len(PLACE_VARIABLES):
            planned = [environ[name] for name in PLACE_VARIABLES]
        self.counts_of_text = [f"{name}={environ[name]}" for name, value in zip(PLACE_VARIABLES[:2], planned)
                               if environ.get(name, value) != value]
        self.nodes, self.per_node, self.node = map(int, planned[:3])
        self.address, self.port = planned[3:]
        self.in_rank = environ.get("LAUNCH_START") != "node"
        self.run_id = f"{environ.get('LAUNCH_JOB_ID', '0')}-{environ.get('LAUNCH_ATTEMPT', '1')}"

    def torchrun_flags(self):
        return [f"--nnodes={self.nodes}", f"--nproc-per-node={self.per_node}",
                f"--node-rank={self.node}", f"--master-addr={self.address}",
                f"--master-port={self.port}", f"--rdzv-id={self.run_id}"]

    def accelerate_flags(self):
        flags = [f"--num_machines={self.nodes}", f"--num_processes={self.nodes * self.per_node}",
                 f"--machine_rank={self.node}", f"--main_process_port={self.port}"]
        if self.nodes > 1:
            # DeepSpeed's own ways to other nodes would start the job once more from each of them,
            # and leave the environment, secrets too, in ~/.deepspeed_env.
            flags += [f"--main_process_ip={self.address}", "--rdzv_backend=static", "--same_network",
                      "--deepspeed_multinode_launcher=standard"]
        return flags


def devices_meant(asked, devices, ids, inherited):
    """Those of the job's `devices` that a list in the text means; None: not all of them are the job's."""
    own = asked if set(asked) <= set(devices) else None
    if ids:
        numbers = dict(zip(ids, devices))
        return own or ([numbers[one] for one in asked] if set(asked) <= set(numbers) else None)
    place = all(one.isascii() and one.isdecimal() and int(one) < len(devices) for one in asked)
    places = [devices[int(one)] for one in asked] if place else None
    return own or places if inherited else places or own


def keep_devices(place, environ, least=None):
    """The job's devices again, where the text around the call set others. Its numbers are those of
    `gpu_ids`, and without that places among the job's GPUs, unless they are made of what the job
    gave. Some of them that suffice (`least`, else one for each process) stay: the rest may be those
    of a server beside the training."""
    planned = environ.pop("LAUNCH_VISIBLE_DEVICES", None)
    inherited = environ.pop("LAUNCH_DEVICES_READ", "") == "1"
    found = environ.get("CUDA_VISIBLE_DEVICES")
    if planned is None or found == planned:
        return
    devices = [one for one in planned.split(",") if one]
    ids = [one for one in environ.get("LAUNCH_GPU_IDS", "").split(",") if one]
    asked = [device.strip() for device in (found or "").split(",") if device.strip()]
    meant = devices_meant(asked, devices, ids, inherited)
    foreign = [one for one in asked if one.isascii() and one.isdecimal() and one not in ids + devices]
    if ids and meant is None and foreign:
        stop(f"CUDA_VISIBLE_DEVICES={found} inside run names GPU {foreign[0]}, which is none of gpu_ids: "
             f"{','.join(ids)}\n  hint: write numbers of gpu_ids there, or leave CUDA_VISIBLE_DEVICES out")
    enough = meant is not None and (least or place.per_node) <= len(set(meant)) == len(meant)
    environ["CUDA_VISIBLE_DEVICES"] = chosen = ",".join(meant) if enough else planned
    if place.node != 0 or asked == chosen.split(","):
        return
    if enough:
        say(f"CUDA_VISIBLE_DEVICES={found} inside run stands for these of the job's devices: {chosen}")
    else:
        say(f"CUDA_VISIBLE_DEVICES={found or ''} inside run is replaced by the job's devices: {planned or 'none'}")


def find_action(parser, name):
    """The option an argparse parser takes `name` for; unambiguous beginnings count."""
    options = {text: action for action in parser._actions for text in action.option_strings}
    for word in (name, name.replace("_", "-"), name.replace("-", "_").replace("__", "--", 1)):
        if word in options:
            return options[word]
    if not name.startswith("--"):
        return options.get(name[:2])
    plain = name.replace("-", "_")
    found = {id(a): a for t, a in options.items() if t.replace("-", "_").startswith(plain)}
    return next(iter(found.values())) if len(found) == 1 else None


def hold_count(place, asked):
    """A number that neither the job nor the text told the plan is not replaced in silence."""
    if os.environ.pop("LAUNCH_OPEN_COUNT", "") != "1" or not str(asked).isdigit():
        return
    if int(asked) not in (0, place.per_node):
        node = "launcher: node and " if place.in_rank else ""
        stop(f"the call inside run asks for {asked} processes on each node, and the plan has {place.per_node}: "
             f"the number was not known before\n  hint: write {node}procs_per_node: {asked} (or gpus: {asked}) "
             "in the job")


def split(parser, argv, placement, counts=()):
    """(flags kept, names replaced, the script and what is behind it); `counts`, filled: values of
    flags that it names."""
    kept, replaced = [], []
    i = 0
    while i < len(argv):
        word = argv[i]
        if word == "--" or not word.startswith("-") or word == "-":
            break
        name, glued, value = word.partition("=")
        action = find_action(parser, name)
        width = 1
        takes_value = action is not None and action.nargs != 0
        if takes_value and not glued and (name.startswith("--") or len(name) == 2):
            # `--node_rank $RANK --master_addr ...` with nothing in RANK.
            following = argv[i + 1].partition("=")[0] if i + 1 < len(argv) else ""
            empty = following.startswith("--") and find_action(parser, following) is not None
            width = 1 if empty and action.dest in placement else 2
        if action is not None and action.dest in placement:
            replaced.append(action.dest)
            if action.dest in counts:
                counts[action.dest] = value if glued else argv[i + 1] if i + 1 < len(argv) else ""
        else:
            kept += argv[i:i + width]
        i += width
    return kept, replaced, argv[i:]


def note(place, name, replaced):
    if place.counts_of_text and place.node == 0:
        say(f"{', '.join(place.counts_of_text)} inside run does not count for {name}: the plan has "
            f"{place.nodes} x {place.per_node} processes\n  hint: a launcher that is to start fewer belongs "
            "into a job of its own")
    if replaced and place.node == 0:
        say(f"{', '.join(dict.fromkeys(replaced))} of the {name} call inside run "
            f"{'is' if len(set(replaced)) == 1 else 'are'} replaced by the plan: "
            f"{place.nodes} x {place.per_node} processes, {place.address}:{place.port}")


def run_file(real, argv):
    sys.argv = [real, *argv]
    sys.path[0] = os.path.dirname(os.path.abspath(real))
    runpy.run_path(real, run_name="__main__")


def run_module(module, argv):
    sys.argv = [module, *argv]
    sys.path[0] = os.getcwd()
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def start(real, module, argv):
    run_file(real, argv) if real else run_module(module, argv)


def torchrun(place, real, argv):
    from torch.distributed.run import get_args_parser
    counts = {"nproc_per_node": ""}
    kept, replaced, script = split(get_args_parser(), argv, TORCHRUN_PLACEMENT, counts)
    hold_count(place, counts["nproc_per_node"])
    note(place, "torchrun", replaced)
    start(real, "torch.distributed.run", place.torchrun_flags() + kept + script)


def distributed_launch(place, real, argv):
    """torch.distributed.launch: torchrun that gives the script --local-rank unless --use_env."""
    del real
    from torch.distributed.run import get_args_parser
    parser = get_args_parser()
    parser.add_argument("--use-env", "--use_env", action="store_true")
    counts = {"nproc_per_node": ""}
    kept, replaced, script = split(parser, argv, TORCHRUN_PLACEMENT, counts)
    hold_count(place, counts["nproc_per_node"])
    note(place, "torch.distributed.launch", replaced)
    run_module("torch.distributed.launch", place.torchrun_flags() + kept + script)


def several_processes(settings):
    """What accelerate must be told to start more than one process, unless its flags, its file or
    the file of `accelerate config` say how."""
    kinds = ("multi_gpu", "use_deepspeed", "use_fsdp", "use_megatron_lm", "tpu")
    if any(getattr(settings, kind, False) for kind in kinds):
        return []
    from accelerate.commands.config import config_args
    if settings.config_file is not None or os.path.isfile(config_args.default_config_file):
        kind = config_args.load_config_from_file(settings.config_file).distributed_type
        if str(getattr(kind, "value", kind)) != "NO":
            return []
    return ["--multi_gpu"]


def asked_of_accelerate(place, flags, settings):
    """Processes on each machine that the flags or the file of the call say; "" where neither does."""
    total, machines = flags["num_processes"], flags["num_machines"]
    if settings.config_file is not None and os.environ.get("LAUNCH_OPEN_COUNT") == "1":
        from accelerate.commands.config import config_args
        file = config_args.load_config_from_file(settings.config_file)
        total = total or str(getattr(file, "num_processes", ""))
        machines = machines or str(getattr(file, "num_machines", ""))
    machines = int(machines) if machines.isdigit() else place.nodes
    return int(total) // machines if total.isdigit() and machines > 0 else ""


def accelerate(place, real, argv):
    if argv[:1] != ["launch"]:
        return start(real, "accelerate.commands.accelerate_cli", argv)  # config, env, test ...
    return accelerate_launch(place, real, argv[1:], ["launch"])


def accelerate_launch(place, real, argv, verb=()):
    from accelerate.commands.launch import launch_command_parser
    parser = launch_command_parser()
    counts = {"num_processes": "", "num_machines": ""}
    kept, replaced, script = split(parser, argv, ACCELERATE_PLACEMENT | ACCELERATE_LEFT_OUT, counts)
    replaced = [name for name in replaced if name not in ACCELERATE_LEFT_OUT]
    hold_count(place, asked_of_accelerate(place, counts, parser.parse_args(kept + script)))
    note(place, "accelerate", replaced)
    together = place.nodes * place.per_node > 1
    if together and os.environ.get("LAUNCH_DEVICE") == "cpu":
        # By itself it starts one process there, whatever num_processes says.
        if place.node == 0:
            say("accelerate launch starts one process on a CPU: torchrun starts its ranks")
        settings = parser.parse_args(kept + script)
        how = ["-m"] if settings.module else ["--no-python"] if settings.no_python else []
        if settings.mixed_precision:
            os.environ["ACCELERATE_MIXED_PRECISION"] = settings.mixed_precision
        return run_module("torch.distributed.run", place.torchrun_flags() + how + script)
    many = several_processes(parser.parse_args(kept + script)) if together else []
    words = [*verb, *place.accelerate_flags(), *many, *kept, *script]
    return start(real, "accelerate.commands.accelerate_cli" if verb else "accelerate.commands.launch", words)


def included(text):
    """Devices of a node in `--include`: NODE:0,1@NODE:2,3; "" where it names nodes only."""
    lists = [host.partition(":")[2].split(",") for host in text.split("@") if ":" in host]
    return str(max(len(set(devices) - {""}) for devices in lists)) if lists else ""


def deepspeed(place, real, argv):
    """Its launcher would set its own devices and reach other nodes by ssh: torchrun starts the
    ranks, with the argument --local_rank that DeepSpeed's launcher gives."""
    del real
    replaced, module, python, local_rank, asked = [], False, True, True, ""
    i = 0
    while i < len(argv) and argv[i].startswith("-"):
        name, glued, value = argv[i].partition("=")
        if name in DEEPSPEED_VALUES and not glued:
            value = argv[i + 1] if i + 1 < len(argv) else ""
        if name in DEEPSPEED_REFUSED:
            stop(f"deepspeed {name} inside run cannot be held to the plan; leave it out")
        module = module or name == "--module"
        python = python and name != "--no_python"
        local_rank = local_rank and name != "--no_local_rank"
        if name not in ("--module", "--no_python", "--no_local_rank"):
            replaced.append(name.lstrip("-"))
        if name in ("--num_gpus", "--num_accelerators"):
            asked = value
        elif name in ("--include", "-i"):
            asked = asked or included(value)
        i += 2 if name in DEEPSPEED_VALUES and not glued else 1
    script = argv[i:]
    if not script:
        stop("the deepspeed call inside run names no script")
    hold_count(place, asked)
    note(place, "deepspeed", replaced)
    program = [sys.executable, "-u"] if python else []
    if module:
        program.append("-m")
    words = [shlex.quote(word) for word in program + script[:1]]
    if local_rank:
        words.append("--local_rank=$LOCAL_RANK")
    words += [shlex.quote(word) for word in script[1:]]
    run_module("torch.distributed.run", place.torchrun_flags() + ["--no-python", "/bin/bash", "-c", "exec " + " ".join(words)])


class Processes:
    """What the launcher started here and how each ended, for `launch status`: a line of JSON each,
    beside the launcher's own error file. The start is written down too, for a launcher that is
    killed leaves nothing else behind."""

    def __init__(self, error_file):
        self.path = os.path.join(os.path.dirname(error_file), "processes.jsonl") if error_file else ""
        self.context = None

    def watch(self):
        """Hears of the processes that torchelastic starts; all launchers here start theirs so, but
        accelerate a single one."""
        if not self.path:
            return
        try:
            from torch.distributed.elastic.multiprocessing.api import SubprocessContext
            begin = SubprocessContext._start
        except (ImportError, AttributeError):
            return  # a torch that has none

        def start(context):
            begin(context)
            self.context = context  # of the newest round, where torchrun starts its ranks again
            self.write()

        SubprocessContext._start = start

    def rows(self):
        context = self.context
        for local_rank, handler in sorted(context.subprocess_handlers.items()):
            code = handler.proc.poll()
            row = {"rank": int(context.envs[local_rank]["RANK"]), "local_rank": local_rank, "pid": handler.proc.pid}
            if code is not None:
                row.update({"exit_code": code} if code >= 0 else {"signal": -code})
            if code:
                row["error"] = error_class(context.error_files.get(local_rank, ""))
            yield row

    def write(self, rows=None):
        if not self.path or (rows is None and self.context is None):
            return
        try:
            text = "".join(json.dumps(row) + "\n" for row in (rows or self.rows()))
            with open(self.path + ".new", "w") as out:
                out.write(text)
            os.replace(self.path + ".new", self.path)
        except Exception:
            pass  # for people only, and made from another program's insides


def error_class(path):
    """The exception's class in an error file of torchelastic; "" where the script is not its own
    witness (`@record`)."""
    try:
        with open(path) as file:
            said = json.load(file)["message"]
        name = (said["message"] if isinstance(said, dict) else said).partition(":")[0]
        return name if name.replace(".", "").isidentifier() else ""
    except Exception:
        return ""


def report(name, rank, local_rank, code):
    """What failed first, for people and beside the launcher's own error file."""
    ended = f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit {code}"
    say(f"first failing rank of {name}: {rank} (local rank {local_rank}): {ended}")
    error_file = os.environ.get("TORCHELASTIC_ERROR_FILE", "")
    if error_file:
        record = {"launcher": name, "rank": rank, "local_rank": local_rank,
                  "exit_code": code if code >= 0 else None,
                  "signal": -code if code < 0 else None, "time": time.time()}
        try:
            with open(os.path.join(os.path.dirname(error_file), "launcher.json"), "w") as out:
                json.dump(record, out)
        except OSError:
            pass  # for people only; the exit code says it too
    return 128 - code if code < 0 else code


def hold(name, start):
    """Runs `start`; ends as the first failing rank did."""
    processes = Processes(os.environ.get("TORCHELASTIC_ERROR_FILE", ""))
    try:
        processes.watch()
        start()
    except SystemExit:
        raise
    except BaseException as error:
        kind = type(error).__name__
        if kind == "SignalException":
            sys.exit(128 + int(error.sigval))
        if kind == "ChildFailedError":
            # Not its whole table: the others in it are those that the launcher itself ended.
            rank, failure = error.get_first_failure()
            sys.exit(report(name, rank, failure.local_rank, failure.exitcode))
        traceback.print_exc()
        if kind == "CalledProcessError":
            code = error.returncode
            ended = {"exit_code": code} if code >= 0 else {"signal": -code}
            processes.write([{"rank": 0, "local_rank": 0, "pid": 0, **ended}])
            sys.exit(report(name, 0, 0, code))
        sys.exit(1)
    finally:
        processes.write()


def become_node(environ):
    """The only rank of a job is its only node too: a launcher called there starts that one process."""
    for name in RANK_VARIABLES:
        environ.pop(name, None)
    environ.pop("LAUNCH_PLACE", None)
    environ.update(NNODES="1", NPROC_PER_NODE="1", NODE_RANK="0", LAUNCH_OPEN_COUNT="1")


def program(real, argv):
    """A Python program that starts its processes itself: the numbers of devices in front of it are
    as a launcher's. It may hide them all."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").strip()
    hidden = visible[:1] in ("", "-") or visible == "NoDevFiles"
    if os.environ.get("LAUNCH_START") == "node" and not hidden:
        keep_devices(Place(os.environ), os.environ, least=1)
    elif not hidden:
        keep_devices(PlaceOfRank(os.environ), os.environ)
    # What `real` stood for, where it is a shim: that would look for its program on PATH again.
    os.environ.pop("LAUNCH_TAKEN", None)
    real = sys.executable or real
    os.execv(real, [real, *argv])


def main():
    name, real, argv = sys.argv[1], sys.argv[2], sys.argv[3:]
    if name == "program":
        return program(real, argv)
    if os.environ.get("LAUNCH_START") != "node":
        if "RANK" not in os.environ:
            return run_file(real, argv)
        if os.environ.get("WORLD_SIZE") != "1":
            stop(f"{name} was called inside a command that runs once per rank: it would start "
                 "processes for each of them\n  hint: write launcher: node in the job, so that run "
                 "starts once per node")
        become_node(os.environ)
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return run_file(real, argv)  # a rank's own affair
    place = Place(os.environ)
    keep_devices(place, os.environ)
    starts = {"torchrun": torchrun, "accelerate": accelerate, "accelerate-launch": accelerate_launch,
              "deepspeed": deepspeed, "torch.distributed.launch": distributed_launch}
    shown = {"accelerate-launch": "accelerate", "torch.distributed.launch": "torchrun"}.get(name, name)
    return hold(shown, lambda: starts[name](place, real, argv))


if __name__ == "__main__":
    main()
