// An sbatch script.
#include <algorithm>
#include <initializer_list>
#include <map>

#include "cli/begin_time.h"
#include "cli/import/import.h"
#include "cli/import/processes.h"
#include "cli/import/pyxis.h"
#include "cli/import/slurm_called.h"
#include "cli/import/slurm_commands.h"
#include "cli/import/slurm_options.h"
#include "cli/job_reader.h"
#include "common/clock.h"
#include "common/job_array.h"
#include "common/quoted.h"
#include "common/text.h"
#include "common/units.h"

namespace launch {
namespace {

using Options = std::map<std::string, SlurmOption>;

bool IsPyxis(std::string_view option) {
  return option.starts_with("container-") || option.starts_with("no-container-");
}

// ---- what is asked for ----

std::string ValueOf(const Options& options, const std::string& name) {
  const auto found = options.find(name);
  return found == options.end() ? std::string() : found->second.value;
}

std::optional<std::int64_t> NumberOf(const Options& options, const std::string& name) {
  const std::string text = ValueOf(options, name);
  return text.empty() ? std::nullopt : ParseInt(text);
}

// "h100:8", "8", "gpu:h100:8" (gres) as ours: NAME:N.
std::optional<std::string> Gpus(std::string text, bool gres) {
  if (gres) {
    if (text.rfind("gpu", 0) != 0) return std::nullopt;
    if (text == "gpu") return "1";
    if (text.size() < 5 || text[3] != ':') return std::nullopt;
    text = text.substr(4);
  }
  text = text.substr(0, text.find('('));
  const std::size_t colon = text.rfind(':');
  const std::string count = colon == std::string::npos ? text : text.substr(colon + 1);
  if (!ParseInt(count)) return colon == std::string::npos ? text + ":1" : text;
  if (colon == std::string::npos) return count;
  return Upper(text.substr(0, colon)) + ":" + count;
}

void Nodes(const Options& options, JobFileDraft& draft) {
  const std::string text = ValueOf(options, "nodes");
  const auto tasks = NumberOf(options, "ntasks");
  const auto per_node = NumberOf(options, "ntasks-per-node");
  if (!text.empty()) {
    std::string range = text;
    if (const std::size_t dash = range.find('-'); dash != std::string::npos)
      range.replace(dash, 1, "..");
    draft.Set("nodes", range);
  } else if (tasks && per_node && *per_node > 0 && *tasks % *per_node == 0) {
    draft.Set("nodes", std::to_string(*tasks / *per_node));
    draft.Note("nodes follows from ntasks and ntasks-per-node");
  } else {
    draft.Set("nodes", "1");
    if (tasks && *tasks > 1)
      draft.Note("ntasks without nodes: Slurm chooses how many nodes they share; nodes is 1");
  }
}

// Written, or what follows from the tasks of all nodes.
std::optional<std::int64_t> TasksPerNode(const Options& options) {
  if (const auto written = NumberOf(options, "ntasks-per-node")) return written;
  const auto tasks = NumberOf(options, "ntasks");
  const auto nodes = NumberOf(options, "nodes");
  if (!tasks || !nodes || *nodes < 1 || *tasks % *nodes != 0) return std::nullopt;
  return *tasks / *nodes;
}

void Devices(const Options& options, JobFileDraft& draft) {
  const auto per_node = TasksPerNode(options);
  const std::string node = ValueOf(options, "gpus-per-node");
  const std::string gres = ValueOf(options, "gres");
  const std::string total = ValueOf(options, "gpus");
  const std::string task = ValueOf(options, "gpus-per-task");
  if (!node.empty()) {
    draft.SetRaw("gpus", Gpus(node, false).value_or(node));
  } else if (!gres.empty() && Gpus(gres.substr(0, gres.find(',')), true)) {
    draft.SetRaw("gpus", *Gpus(gres.substr(0, gres.find(',')), true));
  } else if (!task.empty() && per_node) {
    const auto own = ParseInt(task.substr(task.rfind(':') + 1));
    const std::string name =
        task.find(':') == std::string::npos ? "" : task.substr(0, task.rfind(':')) + ":";
    draft.SetRaw("gpus",
                 Gpus(name + std::to_string(own.value_or(1) * *per_node), false).value_or("1"));
  } else if (const auto tasks = NumberOf(options, "ntasks"); !task.empty()) {
    const auto own = ParseInt(task.substr(task.rfind(':') + 1));
    draft.Set("total_gpus", std::to_string(own.value_or(1) * tasks.value_or(1)));
    draft.Note("gpus-per-task " + task + " x " + std::to_string(tasks.value_or(1)) +
               " tasks became the GPUs of all nodes");
  } else if (!total.empty()) {
    const std::optional<std::string> all = Gpus(total, false);
    const std::string count = all ? all->substr(all->rfind(':') + 1) : "1";
    draft.Set("total_gpus", count);
    if (total.find(':') != std::string::npos)
      draft.Note("gpus " + total + " is a total: the kind is dropped; write constraints for it");
  } else {
    draft.Set("gpus", "0");
    if (options.contains("exclusive"))
      draft.Note("exclusive without a number of GPUs: gpus is 0; write how many each node has");
    return;
  }
  if (options.contains("exclusive"))
    draft.Note(
        "exclusive is dropped: GPUs are the job's alone, what is left of its nodes serves "
        "others; with all GPUs of a node nobody shares them");
}

// "4G", "4gb" as "4GiB", for Slurm looks at the first letter; a bare number of its is MiB.
std::string MemoryText(const std::string& memory) {
  const std::size_t unit = memory.find_first_not_of("0123456789.");
  return unit == std::string::npos ? memory + "MiB"
                                   : memory.substr(0, unit) + Upper(memory.substr(unit, 1)) + "iB";
}

// Memory for each core or GPU as that of a node; `units` 0 = how many a node gives is not written.
void PerUnit(const std::string& option, const std::string& memory, std::int64_t units,
             JobFileDraft& draft) {
  const auto each = ParseBytes(MemoryText(memory));
  if (!each || units < 1) {
    draft.Note(option + " " + memory + " is dropped: write memory, which is that of a node");
    return;
  }
  const std::uint64_t bytes = each->bytes * static_cast<std::uint64_t>(units);
  draft.Set("memory", bytes % kGiB == 0 ? std::to_string(bytes / kGiB) + "GiB"
                                        : std::to_string(bytes / kMiB) + "MiB");
  draft.Note(option + " " + memory + " x " + std::to_string(units) +
             " became the memory of a node");
}

std::int64_t GpusPerNode(const Options& options) {
  for (const char* name : {"gpus-per-node", "gres"}) {
    const std::string text = ValueOf(options, name);
    const auto count = Gpus(text.substr(0, text.find(',')), name == std::string_view("gres"));
    if (!text.empty() && count) return ParseInt(count->substr(count->rfind(':') + 1)).value_or(0);
  }
  // Of all tasks, or of the job: known for a node where the tasks of one are, or it is the only
  // one.
  const std::string task = ValueOf(options, "gpus-per-task");
  if (const auto tasks = TasksPerNode(options); !task.empty())
    return ParseInt(task.substr(task.rfind(':') + 1)).value_or(0) * tasks.value_or(0);
  const std::string total = ValueOf(options, "gpus");
  if (total.empty() || NumberOf(options, "nodes") != 1) return 0;
  return ParseInt(total.substr(total.rfind(':') + 1)).value_or(0);
}

bool HasSeveralGpus(const Options& options) {
  if (GpusPerNode(options) > 1) return true;
  return std::ranges::any_of(
      std::initializer_list<const char*>{"gpus", "gpus-per-task"}, [&](const char* name) {
        const auto count = Gpus(ValueOf(options, name), false);
        return count && ParseInt(count->substr(count->rfind(':') + 1)).value_or(0) > 1;
      });
}

void Cores(const Options& options, JobFileDraft& draft) {
  const auto per_task = NumberOf(options, "cpus-per-task");
  const std::int64_t tasks = TasksPerNode(options).value_or(1);
  if (per_task) draft.Set("cpus", std::to_string(*per_task * tasks));
  const std::string cores = ValueOf(options, "cpus-per-gpu");
  const std::int64_t per_node = ParseInt(cores).value_or(0) * GpusPerNode(options);
  if (!per_task && per_node > 0) {
    draft.Set("cpus", std::to_string(per_node));
    draft.Note("cpus-per-gpu " + cores + " became the " + std::to_string(per_node) +
               " cores of a node");
  } else if (!cores.empty()) {
    draft.Note("cpus-per-gpu " + cores + " is dropped: write cpus, which are those of a node");
  }
  const std::string memory = ValueOf(options, "mem");
  const std::string per_cpu = ValueOf(options, "mem-per-cpu");
  const std::string per_gpu = ValueOf(options, "mem-per-gpu");
  if (memory.empty() && !per_cpu.empty()) {
    PerUnit("mem-per-cpu", per_cpu, per_task.value_or(1) * tasks, draft);
  } else if (memory.empty() && !per_gpu.empty()) {
    PerUnit("mem-per-gpu", per_gpu, GpusPerNode(options), draft);
  } else if (memory == "0") {
    draft.Note("mem=0 means all of a node: launch sets no limit unless memory is written");
  } else if (!memory.empty() && ParseBytes(MemoryText(memory))) {
    draft.Set("memory", MemoryText(memory));
  } else if (!memory.empty()) {
    draft.Note("mem " + memory + " is dropped: it is no size; write memory");
  }
}

// Slurm's times to begin in our words; absent for those that we do not read.
std::optional<std::string> BeginOf(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kTimes[] = {
      {"midnight", "00:00"}, {"noon", "12:00"}, {"fika", "15:00"}, {"teatime", "16:00"}};
  for (const auto& [name, time] : kTimes) {
    if (text == name) text = time;
  }
  if (text.starts_with("now+")) {
    const std::size_t unit = std::min(text.find_first_not_of("0123456789", 4), text.size());
    const std::string word = text.substr(unit);
    constexpr std::pair<std::string_view, std::string_view> kUnits[] = {
        {"", "s"}, {"second", "s"}, {"minute", "m"}, {"hour", "h"}, {"day", "d"}, {"week", "w"}};
    for (const auto& [name, ours] : kUnits) {
      if (word != name && (name.empty() || word != std::string(name) + "s")) continue;
      const auto count = ParseInt(text.substr(4, unit - 4));
      if (!count) return std::nullopt;
      text = ours == "w" ? "now+" + std::to_string(*count * 7) + "d"
                         : text.substr(0, unit) + std::string(ours);
      break;
    }
  }
  return ParseBegin(text, SystemClock().WallNow()) ? std::optional(text) : std::nullopt;
}

// Features are words of a cluster's own, but for those that every node tells of itself here.
void Features(const std::string& written, JobFileDraft& draft) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"nvlink", "nvlink"}, {"x86_64", "arch==x86_64"}, {"aarch64", "arch==aarch64"}};
  std::string ours;
  std::string word;
  bool known = true;
  for (const char c : written + "&") {
    if (c != '&' && c != ',' && c != '|') {
      word += c;
      continue;
    }
    const auto found = std::find_if(std::begin(kWords), std::end(kWords),
                                    [&](const auto& one) { return one.first == Lower(word); });
    known = known && found != std::end(kWords);
    if (!known) break;
    ours += found->second;
    ours += c == '|' ? " || " : " && ";
    word.clear();
  }
  if (known) {
    draft.Set("constraints", ours.substr(0, ours.size() - 4));
    return;
  }
  draft.Note("constraint " + written + " is dropped: " + word +
             " is a word of that cluster; give the nodes a label and write constraints: "
             "label.NAME==VALUE, or say what is meant (gpu_mem>=80GB, cc>=8.0, nvlink)");
}

Result<void> Policies(const Options& options, JobFileDraft& draft) {
  for (const auto& [name, option] : options) {
    const std::string& value = option.value;
    if (name == "job-name") {
      const std::string ours = NameFrom(value);
      draft.Set("name", ours);
      if (ours != value) draft.Note("job-name " + Quoted(value) + " became " + ours);
    } else if (name == "time") {
      LAUNCH_ASSIGN_OR_RETURN(const std::string time, SlurmTime(value));
      draft.Set("time", time);
    } else if (name == "nodelist") {
      draft.Set("nodelist", value);
    } else if (name == "exclude") {
      draft.Set("exclude_nodes", value);
    } else if (name == "chdir") {
      draft.Set("workdir", value);
    } else if (name == "begin") {
      if (const auto begin = BeginOf(value))
        draft.Set("begin", *begin);
      else
        draft.Note("begin " + Quoted(value) + " is dropped: write 2026-12-01T20:00 or now+2h");
    } else if (name == "array") {
      LAUNCH_RETURN_IF_ERROR(ParseArray(value));
      draft.Set("array", value);
      if (value.ends_with("%1"))
        draft.Note("array " + value +
                   " looks like a chain that resumes: one job with retry and checkpoint does that");
    } else if (name == "dependency") {
      const auto known = ParseDependencies(value);
      if (known)
        draft.SetRaw("depends_on", "[\"" + value + "\"]");
      else
        draft.Note("dependency " + value + " is dropped: " + known.error().message);
      if (known) draft.Note("dependency: the numbers must be those of jobs of launch");
    } else if (name == "requeue") {
      draft.SetRaw("retry", "{max: 2, on_events: [node_failure, preempted]}");
    } else if (name == "no-requeue") {
      draft.SetRaw("retry", "{max: 0}");
    } else if (name == "constraint") {
      Features(value, draft);
    } else if (name == "signal") {
      draft.Note("signal " + value +
                 ": write checkpoint: {dir: DIR, signal: USR1@120s}; every rank gets it");
    } else if (name == "output" || name == "error" || name == "input" || name == "open-mode") {
      draft.Note(name + " is dropped: launch keeps the output of every rank (launch logs)");
    } else if (name == "export" && value != "ALL" && value != "NONE" && value != "NIL") {
      draft.Note("export " + value + " is dropped: write the variables into env");
    }
  }
  constexpr const char* kDropped[] = {
      "account",   "comment",  "contiguous", "deadline",    "distribution", "gpu-bind",
      "hint",      "licenses", "mail-type",  "mail-user",   "nice",         "ntasks-per-gpu",
      "partition", "priority", "qos",        "reservation", "switches",     "wckey"};
  for (const char* name : kDropped)
    if (options.contains(name))
      draft.Note(std::string(name) + " " + ValueOf(options, name) +
                 " is dropped: this version has nothing like it");
  for (const auto& [name, option] : options) {
    if (!IsSbatchOption(name) && !IsPyxis(name))
      draft.Note("line " + std::to_string(option.line) + ": #SBATCH " +
                 (name.size() == 1 ? "-" : "--") + name + " is not supported: it is left out");
  }
  return {};
}

SlurmNumbers NumbersOf(const Options& options) {
  SlurmNumbers numbers;
  if (const auto cores = NumberOf(options, "cpus-per-task"))
    numbers["SLURM_CPUS_PER_TASK"] = *cores;
  if (const auto tasks = NumberOf(options, "ntasks-per-node"))
    numbers["SLURM_NTASKS_PER_NODE"] = *tasks;
  const std::int64_t gpus = GpusPerNode(options);
  if (gpus > 0) numbers["SLURM_GPUS_ON_NODE"] = gpus;
  if (gpus > 0 && options.contains("gpus-per-node")) numbers["SLURM_GPUS_PER_NODE"] = gpus;
  return numbers;
}

// Of tasks that srun starts, or of the script itself, which Slurm runs once. A launcher counts its
// processes itself.
void Processes(const Options& options, const SrunUse& srun, const std::string& run,
               JobFileDraft& draft) {
  const bool python = CallsPythonAlone(run);
  if (!srun.any && python) {
    if (HasSeveralGpus(options)) {
      draft.Set("procs_per_node", "1");
      draft.Note("procs_per_node is 1: Slurm runs the script's Python once, not once per GPU");
    }
    if (NumberOf(options, "nodes").value_or(1) > 1)
      draft.Note("Slurm runs the script on the first node only, and launch runs it on every node");
    return;
  }
  if (!srun.per_task || options.contains("ntasks-per-gpu")) return;
  if (srun.counts && !options.contains("ntasks-per-node")) {
    if (srun.launcher) return;
    draft.Note("srun says itself how many tasks there are: write procs_per_node");
    return;
  }
  auto tasks = TasksPerNode(options);
  if (!tasks && !options.contains("nodes")) tasks = NumberOf(options, "ntasks");
  if (tasks == 1 && srun.launcher) return;
  if (tasks) {
    draft.Set("procs_per_node", std::to_string(*tasks));
  } else if (python && HasSeveralGpus(options)) {
    draft.Set("procs_per_node", "1");
    draft.Note("procs_per_node is 1: without ntasks srun starts one task on each node");
  }
}

}  // namespace

bool IsSlurmScript(std::string_view text) {
  return text.starts_with("#SBATCH") || text.find("\n#SBATCH") != std::string_view::npos;
}

Result<Imported> ImportSlurm(std::string_view text, const std::string& path) {
  LAUNCH_ASSIGN_OR_RETURN(const SlurmScript script, ReadSlurmScript(text, path));
  JobFileDraft draft;
  Options options;
  for (const SlurmOption& option : script.options) options[option.name] = option;
  for (const int line : script.late)
    draft.Note("line " + std::to_string(line) +
               ": #SBATCH behind the first command is ignored, as sbatch ignores it");
  Nodes(options, draft);
  Devices(options, draft);
  Cores(options, draft);
  if (Result<void> done = Policies(options, draft); !done) {
    Error error = done.error();
    if (!error.where) error.where = Where{path, 0, 0, {}};
    return Unexpected(std::move(error));
  }
  if (options.contains("hold")) draft.Note("hold: submit with launch submit --hold");
  SrunUse srun;
  const SlurmNumbers numbers = NumbersOf(options);
  const std::int64_t tasks = TasksPerNode(options).value_or(1);
  std::string run = SlurmCommands(script, srun, draft);
  const std::string workdir = ValueOf(options, "chdir");
  srun.launcher = srun.launcher || CallsLauncher(run, path, workdir);
  run = WithOurNames(script, std::move(run), tasks, numbers, srun, draft);
  while (!run.empty() && run.back() == '\n') run.pop_back();
  while (!run.empty() && run.front() == '\n') run.erase(0, 1);
  if (!run.empty()) draft.Block("run", run);
  NoteCalledScripts(run, path, workdir, tasks, numbers, draft);
  Processes(options, srun, run, draft);
  PyxisOptions container;
  for (const auto& [name, option] : options) {
    if (IsPyxis(name)) container.emplace_back(name, option.value);
  }
  container.insert(container.end(), srun.container.begin(), srun.container.end());
  TakePyxis(container, draft);
  const bool none = std::ranges::none_of(
      std::initializer_list<const char*>{"gpus-per-node", "gres", "gpus-per-task", "gpus"},
      [&](const char* name) { return options.contains(name); });
  if (none && srun.launcher && !options.contains("exclusive"))
    draft.Note(
        "no option asks for GPUs: gpus is 0, and run calls a launcher; write how many each "
        "node has");
  return std::move(draft).Finish("Slurm script", path);
}

}  // namespace launch
