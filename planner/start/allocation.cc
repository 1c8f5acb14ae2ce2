#include "planner/start/allocation.h"

#include <algorithm>
#include <utility>

#include "common/activation.h"
#include "common/clock.h"
#include "common/quoted.h"
#include "planner/line/argument_paths.h"
#include "planner/line/shell_text.h"
#include "planner/start/environment.h"
#include "planner/start/node_launcher.h"

namespace launch {
namespace {

// Our launchers first, where run starts once per node on PATH, and also where the text puts another
// directory before PATH (an activated environment): bash takes a function before any file, and
// scripts that bash runs inherit it. torchrun reads PET_ variables where it is reached by its own
// path. All on the first line of the text, so that bash counts its lines as their author does.
std::string WithWrappers(const LaunchLine& line, const JobSpec& job) {
  const bool per_node = line.start == StartKind::kPerNode;
  const bool on_path = per_node || line.maps_devices || NamesPython(job);
  std::string text = on_path ? "PATH=\"$LAUNCH_WRAPPERS:$PATH\"; " : "";
  for (const char* name : {"torchrun", "deepspeed", "accelerate"}) {
    text += std::string(name) + "() { \"$LAUNCH_WRAPPERS/" + name + "\" \"$@\"; }; ";
  }
  text += "export -f torchrun deepspeed accelerate; ";
  if (per_node) {
    text +=
        "export PET_NNODES=\"$NNODES\" PET_NPROC_PER_NODE=\"$NPROC_PER_NODE\" "
        "PET_NODE_RANK=\"$NODE_RANK\" PET_MASTER_ADDR=\"$MASTER_ADDR\" "
        "PET_MASTER_PORT=\"$MASTER_PORT\"; "
        // What node_launcher.py gives back to a launcher, whatever the text sets by then.
        "export LAUNCH_PLACE=\"$NNODES $NPROC_PER_NODE $NODE_RANK $MASTER_ADDR $MASTER_PORT\"; ";
  }
  if (per_node || line.maps_devices) {
    text +=
        "[ -z \"${CUDA_VISIBLE_DEVICES+x}\" ] || "
        "export LAUNCH_VISIBLE_DEVICES=\"$CUDA_VISIBLE_DEVICES\"; ";
    if (line.reads_devices) text += "export LAUNCH_DEVICES_READ=1; ";
  }
  if (line.maps_devices) {
    text +=
        "python() { \"$LAUNCH_WRAPPERS/python\" \"$@\"; }; "
        "python3() { \"$LAUNCH_WRAPPERS/python3\" \"$@\"; }; export -f python python3; ";
  }
  // Recipes run in /bin/sh, which may take no functions from bash.
  if (per_node && line.runs_make) text += "export MAKEFLAGS=\"${MAKEFLAGS-} -- SHELL=/bin/bash\"; ";
  return text + line.shell;
}

// `python` and `python3` in LAUNCH_WRAPPERS.
std::vector<GeneratedFile> InterpreterFiles(const LaunchLine& line, const JobSpec& job) {
  const bool named = NamesPython(job);
  if (line.maps_devices) return PythonDeviceFiles(named ? job.python : "");
  return named ? PythonFiles(job.python) : std::vector<GeneratedFile>();
}

// A value of env: as bash expands it: its forms are bash's own, in double quotes.
std::string InDoubleQuotes(const std::string& value) {
  std::string text = "\"";
  for (std::size_t i = 0; i < value.size(); ++i) {
    const char next = i + 1 < value.size() ? value[i + 1] : '\0';
    if (value[i] == '\\' && next == '$') {
      text += "\\$";
      ++i;
    } else if (value[i] == '$') {
      text += next == '{' || (IsNameChar(next) && (next < '0' || next > '9')) ? "$" : "\\$";
    } else {
      if (value[i] == '"' || value[i] == '`' || value[i] == '\\') text += '\\';
      text += value[i];
    }
  }
  return text + "\"";
}

// What `conda activate` runs beside setting variables. What env: names stays as it is there, or is
// made anew where it builds upon a variable: the scripts may have added to that. A
// script that ends the shell or does not end itself is named, in words that diagnosis/ reads: a
// clock beside the shell is told of each of them, and an empty name ends it.
std::string Activation(const JobSpec& job) {
  std::string keep;
  std::string restore;
  for (const EnvEntry& entry : job.env) {
    if (entry.value && entry.value->find('$') != std::string::npos) {
      restore.append("export ").append(entry.name).append("=");
      restore.append(InDoubleQuotes(*entry.value)).append("\n");
      continue;
    }
    const std::string own = "launch_own_" + entry.name;
    keep.append(own).append("=\"$").append(entry.name).append("\"\n");
    restore.append("export ").append(entry.name).append("=\"$").append(own);
    restore.append("\"\nunset ").append(own).append("\n");
  }
  return keep +
         "exec {launch_pipe}<> <(:)\n"
         "( trap - EXIT; set +eu; launch_script=\n"
         "  while launch_next=; read -r -t \"${LAUNCH_ACTIVATION_SECONDS:-120}\" -u "
         "\"$launch_pipe\" launch_next; launch_code=$?; [ -n \"$launch_next\" ]; do "
         "launch_script=$launch_next; done\n"
         "  if [ $launch_code -gt 128 ] && [ -n \"$launch_script\" ]; then\n"
         "    echo \"launch: activation script $launch_script had not ended after "
         "${LAUNCH_ACTIVATION_SECONDS:-120} s\"\n"
         "    kill -KILL $$\n"
         "  fi ) >&2 &\n"
         "launch_clock=$!\n"
         "trap 'launch_code=$?; echo >&\"$launch_pipe\"; echo \"launch: activation script "
         "$launch_script ended the start with exit code $launch_code\" >&2' EXIT\n"
         "for launch_script in \"$CONDA_PREFIX\"/etc/conda/activate.d/*.sh; do\n"
         "  if [ -r \"$launch_script\" ]; then\n"
         "    echo \"$launch_script\" >&\"$launch_pipe\"\n"
         "    . \"$launch_script\" </dev/null\n"
         "  fi\n"
         "done\n"
         "trap - EXIT\n"
         "echo >&\"$launch_pipe\"\n"
         "wait \"$launch_clock\"\n"
         "exec {launch_pipe}>&-\n"
         "unset launch_script launch_clock launch_pipe\n" +
         restore;
}

// With an environment to activate, a second shell has what that exported and nothing else of it: no
// options, no traps; and the kernel keeps the whole environment of the rank from there.
std::vector<std::string> CommandOf(const LaunchLine& line, const JobSpec& job, bool conda) {
  std::vector<std::string> argv = {"/bin/bash", "--norc", "-c"};
  if (conda) {
    argv.push_back(Activation(job) + std::string(kActivatedCommand));
    argv.emplace_back("launch");
  }
  argv.push_back(line.wrappers ? WithWrappers(line, job) : line.shell);
  // The interpreter, found on the node; in an image, by its name.
  if (line.uses_arg_zero) argv.emplace_back("bash");
  if (line.interpreter_first) argv.emplace_back(job.image.empty() ? "" : "python3");
  return argv;
}

// Variables a start will fill are left to it, so that a probable value never reaches a rank. Empty
// ones stay: they are how the node is asked for the paths of the attempt's directory.
std::vector<EnvVar> FixedEnv(const RankAssignment& rank, const std::vector<std::string>& late) {
  std::vector<EnvVar> env;
  for (const auto& [name, value] : rank.env) {
    // The node adds to this one (environment.cc): the user's part must get there.
    const bool kept = value.empty() || name == "PYTHONPATH";
    if (kept || !std::binary_search(late.begin(), late.end(), name)) {
      env.push_back({name, value});
    }
  }
  return env;
}

// A named environment is meant for the job; the submitter's active one only where Python runs.
bool NeedsTorchCuda(const JobSpec& spec, const LaunchLine& line, DeviceClass device) {
  if (device != DeviceClass::kCuda || !spec.image.empty()) return false;
  return line.python || !spec.venv.empty() || !spec.python.empty() || !spec.conda.empty();
}

// Those whose processes stay our children come first: what a daemon starts is in no cgroup of ours.
constexpr const char* kRuntimes[] = {"apptainer", "singularity", "enroot", "podman", "docker"};

// Of the node, and wrong inside of an image; what the job's env: names is passed on all the same.
constexpr const char* kNodeVariables[] = {"HOME", "LD_LIBRARY_PATH", "PATH", "SHELL", "TMPDIR"};

ContainerSpec ContainerOf(const JobSpec& job, const NodeInventory& node,
                          const std::vector<Mount>& mounts) {
  ContainerSpec container{.runtime = "none", .image = job.image, .mounts = mounts};
  container.shm_bytes = job.shm_bytes;
  const auto& found = node.container_runtimes;
  for (const char* runtime : kRuntimes) {
    if (std::find(found.begin(), found.end(), runtime) == found.end()) continue;
    container.runtime = runtime;
    break;
  }
  for (const char* name : kNodeVariables) {
    const bool written = std::any_of(job.env.begin(), job.env.end(),
                                     [&](const EnvEntry& entry) { return entry.name == name; });
    if (!written) container.own_env.emplace_back(name);
  }
  return container;
}

void AddRanks(const AllocationInput& input, std::size_t node, AllocationSpec& spec) {
  const NodeShare& share = input.layout.nodes[node];
  const bool per_node = input.plan.start == StartKind::kPerNode;
  const bool conda = !CondaOf(input.input.spec, input.input.context).empty();
  for (int local = 0; local < (per_node ? 1 : share.processes); ++local) {
    const std::size_t place = per_node ? node : static_cast<std::size_t>(share.first_rank + local);
    const RankAssignment& assignment = input.plan.assignments[place];
    RankSpec rank;
    rank.rank = assignment.rank;
    rank.local_rank = local;
    rank.argv = CommandOf(input.line, input.input.spec, conda);
    rank.env = FixedEnv(assignment, input.plan.late);
    rank.gpus = assignment.gpu_uuids;
    spec.ranks.push_back(std::move(rank));
  }
}

std::string NumberOrNull(const std::optional<std::int64_t>& number) {
  return number ? std::to_string(*number) : "null";
}

// Where the script must lie; empty when the text does not say so surely: a module, standard input,
// a path with variables in it, or a line that goes to another directory first.
std::string ScriptPath(const LaunchLine& line, const std::string& workdir) {
  const std::string& script = line.script;
  const bool certain = !script.empty() && script[0] != '-' && script[0] != '~' &&
                       script.find_first_of("$`*?[{") == std::string::npos && !line.place.moved();
  if (!certain || line.module || !line.python) return {};
  return script[0] == '/' ? script : workdir + (workdir == "/" ? "" : "/") + script;
}

}  // namespace

std::vector<AllocationSpec> MakeAllocations(const AllocationInput& input) {
  const JobSpec& job = input.input.spec;
  const SubmitContext& context = input.input.context;
  std::vector<AllocationSpec> allocations;
  for (std::size_t node = 0; node < input.layout.nodes.size(); ++node) {
    const NodeShare& share = input.layout.nodes[node];
    AllocationSpec spec;
    spec.key = input.input.key.value_or(Key{});
    spec.node = share.inventory->node;
    spec.job_name = job.name;
    spec.user = input.input.user;
    spec.workdir = job.workdir;
    spec.workdir_inode = context.workdir_inode;
    spec.workdir_mtime_ns = context.workdir_mtime_ns;
    spec.snapshot = context.snapshot;
    spec.snapshot_always = job.snapshot;
    if (job.image.empty()) {
      spec.interpreter = InterpreterOf(job, context);
      spec.interpreter_of = input.line.interpreter_of;
      spec.command_word = input.line.command_word;
    } else {  // what stands there is in the image, where nobody looks before the start
      spec.container = ContainerOf(job, *share.inventory, input.paths[node].mounts);
    }
    spec.script = ScriptPath(input.line, job.workdir);
    ArgumentPaths paths = PathsOf(input.line);
    spec.inputs = std::move(paths.inputs);
    spec.arguments = std::move(paths.others);
    spec.needs_torch_cuda = NeedsTorchCuda(job, input.line, input.plan.device);
    spec.preflight = job.preflight;
    spec.setup = job.setup;
    spec.files = input.plan.files;
    if (input.line.wrappers) {
      for (GeneratedFile& file : NodeLauncherFiles()) spec.files.push_back(std::move(file));
      for (GeneratedFile& file : InterpreterFiles(input.line, job))
        spec.files.push_back(std::move(file));
    }
    for (int index : share.gpus) {
      spec.gpus.push_back(share.inventory->gpus[static_cast<std::size_t>(index)].uuid);
      spec.gpu_indices.push_back(index);
    }
    spec.cpus = share.cpus;
    spec.memory_limit_bytes = MemoryLimitOn(*share.inventory, job);
    spec.needs_ports = node == 0;
    const Millis lead = job.checkpoint.signal_before;
    spec.stop = {job.checkpoint.signal, std::min(lead, job.time_limit.value_or(lead)),
                 job.stop_duration};
    spec.lease = job.requeue_after;
    spec.logs = job.logs;
    spec.progress_regex = job.progress_regex;
    spec.checkpoint_dir = input.paths[node].checkpoint_dir;
    spec.checkpoint_format = job.checkpoint.format;
    spec.checkpoint_marker = job.checkpoint.complete_marker;
    spec.world_size = input.layout.world_size;
    spec.secret_names = job.secrets;
    AddRanks(input, node, spec);
    allocations.push_back(std::move(spec));
  }
  return allocations;
}

GeneratedFile PlanFile(const Plan& plan, const JobSpec& spec) {
  std::string json = "{\n";
  const auto add = [&json](std::string_view name, std::string value, bool last = false) {
    json += "  \"" + std::string(name) + "\": " + std::move(value) + (last ? "\n" : ",\n");
  };
  add("name", Quoted(spec.name));
  add("strategy", Quoted(ToString(plan.strategy)));
  add("offload", Quoted(ToString(plan.offload)));
  add("device", Quoted(ToString(plan.device)));
  add("precision", Quoted(ToString(plan.precision)));
  add("activation_checkpointing",
      plan.checkpointing.empty() ? std::string("null") : Quoted(plan.checkpointing));
  add("world_size", std::to_string(plan.world_size));
  add("processes_per_node", std::to_string(plan.processes.per_node));
  add("cpus_per_process", std::to_string(plan.processes.cpus_per_process));
  add("global_batch", NumberOrNull(plan.batch.global));
  add("micro_batch", NumberOrNull(plan.batch.micro));
  add("grad_accum", NumberOrNull(plan.batch.accumulate));
  add("steps", NumberOrNull(plan.steps));
  add("num_workers", std::to_string(plan.loader.num_workers));
  add("pin_memory", plan.loader.pin_memory ? "true" : "false", true);
  return {"plan.json", json + "}\n"};
}

}  // namespace launch
