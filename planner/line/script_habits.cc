#include "planner/line/script_habits.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "common/text.h"
#include "common/units.h"
#include "planner/line/device_flags.h"
#include "planner/line/imported_starts.h"
#include "planner/line/launcher_words.h"
#include "planner/line/python_words.h"
#include "planner/line/script_flags.h"
#include "planner/line/submitit_calls.h"

namespace launch {
namespace {

// Without blanks, comments and texts in three quotes (usage, examples), with one kind of quote:
// spellings differ in no more than that.
std::string Squeezed(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  char open = 0;  // the quote of the string at hand
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool quote = c == '"' || c == '\'';
    if (open == 0 && c == '#') {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (open == 0 && quote && text.substr(i).starts_with(std::string(3, c))) {
      const std::size_t end = text.find(text.substr(i, 3), i + 3);
      if (end == std::string_view::npos) break;
      i = end + 2;
      out += "\"\"";
    } else if (c == '\n') {
      open = 0;
      out += c;
    } else if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      const bool escaped = i > 0 && text[i - 1] == '\\' && (i < 2 || text[i - 2] != '\\');
      if (quote && open == 0) {
        open = c;
      } else if (c == open && !escaped) {
        open = 0;
      }
      out += c == '\'' ? '"' : c;
    }
  }
  return out;
}

bool Has(std::string_view text, std::string_view what) {
  return text.find(what) != std::string_view::npos;
}

std::optional<int> CountIn(std::string_view text) {
  const auto number = ParseInt(text);
  if (!number || *number < 1 || *number > 4096) return std::nullopt;
  return static_cast<int>(*number);
}

// It names the variable elsewhere than where it sets it for its own processes.
bool Reads(const std::string& text, std::string_view variable) {
  const std::string quoted = "\"" + std::string(variable) + "\"";
  for (std::size_t at = text.find(quoted); at != std::string::npos;
       at = text.find(quoted, at + 1)) {
    const std::string_view behind = std::string_view(text).substr(at + quoted.size());
    if (!behind.starts_with("]=") || behind.starts_with("]==")) return true;
  }
  return false;
}

// `environ["X"]=value`, not a comparison.
bool Assigns(const std::string& text, std::string_view target) {
  for (std::size_t at = text.find(target); at != std::string::npos;
       at = text.find(target, at + 1)) {
    const std::size_t behind = at + target.size();
    if (behind < text.size() && text[behind] != '=') return true;
  }
  return false;
}

bool RunsPython(const LaunchLine& line) { return line.python || line.script.ends_with(".py"); }

// The module's name of `python -m pkg.mod` and of `torchrun -m pkg.mod`; empty: a script.
std::string ModuleOf(const LaunchLine& line) {
  if (line.module) return line.script;
  for (std::size_t i = 0; line.script == "-m" && i < line.arguments.size(); ++i)
    if (const auto module = ModuleAt(line.arguments, i)) return module->name;
  return {};
}

const std::string* TextOf(const LaunchLine& line, const std::map<std::string, std::string>& files) {
  if (line.script.empty()) return nullptr;
  const TextsAt texts(files, line.place);
  const std::string module = ModuleOf(line);
  if (module.empty()) return texts.Find(line.script);
  for (const std::string& file : ModuleFiles(module))
    if (const std::string* const text = texts.Find(file)) return text;
  return nullptr;
}

// What stands before a command's text, as `epilog=` does not, or before the words of its list.
bool StandsInCall(std::string_view before, bool list) {
  if (list) return before.ends_with('[') || before.ends_with("\"-m\",");
  constexpr std::array<std::string_view, 8> kCalls = {"system(", "run(",   "call(", "output(",
                                                      "Popen(",  "split(", "cmd=",  "command="};
  if (before.ends_with('f')) before.remove_suffix(1);
  if (before.ends_with("=(")) before.remove_suffix(1);
  return std::any_of(kCalls.begin(), kCalls.end(),
                     [before](std::string_view call) { return before.ends_with(call); });
}

// `subprocess.run(["torchrun", "--nproc_per_node", ...])`, `os.system(f"torchrun --standalone")`.
std::string LauncherStartedIn(const std::string& squeezed) {
  struct Spelling {
    std::string_view text;
    std::string_view launcher;
  };
  constexpr std::array<Spelling, 8> kSpellings = {{{"\"torchrun\",\"-", "torchrun"},
                                                   {"\"torchrun\",f\"-", "torchrun"},
                                                   {"\"torchrun-", "torchrun"},
                                                   {"\"torch.distributed.run\",", "torchrun"},
                                                   {"\"accelerate\",\"launch\"", "accelerate"},
                                                   {"\"acceleratelaunch-", "accelerate"},
                                                   {"\"deepspeed\",\"-", "deepspeed"},
                                                   {"\"deepspeed-", "deepspeed"}}};
  constexpr std::array<std::string_view, 4> kStarts = {"subprocess.", "os.system(", "Popen(",
                                                       "os.exec"};
  const bool starts = std::any_of(kStarts.begin(), kStarts.end(),
                                  [&](std::string_view what) { return Has(squeezed, what); });
  if (!starts) return {};
  std::string joined = squeezed;
  std::erase(joined, '\n');
  for (const Spelling& one : kSpellings) {
    for (std::size_t at = joined.find(one.text); at != std::string::npos;
         at = joined.find(one.text, at + 1)) {
      const bool list = one.text.find(',') != std::string_view::npos;
      if (StandsInCall(std::string_view(joined).substr(0, at), list))
        return std::string(one.launcher);
    }
  }
  return {};
}

constexpr std::string_view kEngineLaunch = "launch()";

// detectron2's engine and what was made of it: `from yolox.core import launch`.
bool CallsEngineLaunch(const std::string& squeezed) {
  const bool engine = Has(squeezed, ".engineimport") || Has(squeezed, ".coreimport") ||
                      Has(squeezed, ".engine.launchimport");
  return engine && (Has(squeezed, "launch(main") || Has(squeezed, "launch(\nmain"));
}

// `init_process_group("nccl", rank=rank, world_size=n)`
bool TellsRank(std::string_view squeezed) {
  constexpr std::string_view kCall = "init_process_group(";
  for (std::size_t at = squeezed.find(kCall); at != std::string_view::npos;
       at = squeezed.find(kCall, at + 1)) {
    int depth = 1;
    std::size_t end = at + kCall.size();
    for (; end < squeezed.size() && depth > 0; ++end) {
      if (squeezed[end] == '(') ++depth;
      if (squeezed[end] == ')') --depth;
    }
    if (Has(squeezed.substr(at, end - at), "rank=")) return true;
    at = end - 1;
  }
  return false;
}

// "nn.DataParallel(", "=DataParallel(", not "FullyShardedDataParallel(" nor a class of that name.
bool MakesDataParallel(const std::string& squeezed) {
  constexpr std::string_view kCall = "DataParallel(";
  for (std::size_t at = squeezed.find(kCall); at != std::string::npos;
       at = squeezed.find(kCall, at + 1)) {
    const std::string_view before(squeezed.data(), at);
    if (before.empty() || !IsNameChar(before.back()) || before.ends_with("return")) return true;
  }
  return false;
}

bool Imports(const std::string& squeezed, std::string_view module) {
  const std::string name(module);
  return std::ranges::any_of(
      std::array<std::string, 6>{"import" + name + "\n", "import" + name + ".",
                                 "import" + name + "as", "from" + name + "import",
                                 "from" + name + ".", "import" + name + ","},
      [&](const std::string& spelling) {
        return squeezed.starts_with(spelling) || Has(squeezed, "\n" + spelling);
      });
}

// transformers puts the layers of one model on all GPUs that the process sees.
bool SpreadsModel(const std::string& squeezed) {
  constexpr std::array<std::string_view, 4> kMaps = {"device_map=\"auto\"", "device_map=\"balanced",
                                                     "\"device_map\":\"auto\"",
                                                     "device_map=\"sequential\""};
  return std::ranges::any_of(kMaps, [&](std::string_view map) { return Has(squeezed, map); });
}

// vLLM's engine, which starts a worker for each of several GPUs.
bool StartsEngine(const std::string& squeezed) {
  constexpr std::string_view kSize = "tensor_parallel_size=";
  const std::size_t at = squeezed.find(kSize);
  if (at == std::string::npos || !Has(squeezed, "LLM(")) return false;
  const std::string_view behind = std::string_view(squeezed).substr(at + kSize.size());
  return !behind.starts_with("1,") && !behind.starts_with("1)") && !behind.starts_with("1\n");
}

// What makes one process drive every GPU it sees; empty: nothing does. jax takes all of them,
// unless each process is told its own (jax.distributed.initialize, local_device_ids).
std::string_view DrivesAllIn(const std::string& squeezed) {
  const bool ranks = Has(squeezed, "Distributed") || Has(squeezed, "init_process_group(") ||
                     Has(squeezed, "LOCAL_RANK");
  if (MakesDataParallel(squeezed) && !ranks) return "nn.DataParallel";
  // `device_map={"": args.local_rank}` beside one of a model that only judges.
  constexpr std::array<std::string_view, 6> kRankSigns = {
      "\"RANK\"", "Accelerator(", "PartialState(", "istributed", "local_rank", "process_index"};
  const bool told = ranks || std::ranges::any_of(kRankSigns, [&](std::string_view sign) {
                      return Has(squeezed, sign);
                    });
  if (!told && SpreadsModel(squeezed)) return "device_map";
  if (!told && StartsEngine(squeezed)) return "tensor_parallel_size";
  const bool others = ranks || Has(squeezed, "importtorch") || Has(squeezed, "fromtorch") ||
                      Has(squeezed, "horovod");
  if (others) return {};
  if (Has(squeezed, ".MirroredStrategy(")) return "tf.distribute.MirroredStrategy";
  const bool jax = Imports(squeezed, "jax") || Imports(squeezed, "flax");
  return jax && !Has(squeezed, "local_device_ids") ? "jax" : "";
}

}  // namespace

ScriptHabits HabitsIn(std::string_view text) {
  constexpr std::array<std::string_view, 8> kOptional = {"environ.get(\"RANK\",-1)",
                                                         "environ.get(\"RANK\",\"-1\")",
                                                         "environ.get(\"LOCAL_RANK\",-1)",
                                                         "environ.get(\"LOCAL_RANK\",\"-1\")",
                                                         "getenv(\"RANK\",-1)",
                                                         "getenv(\"LOCAL_RANK\",-1)",
                                                         "\"RANK\"inos.environ",
                                                         "\"LOCAL_RANK\"inos.environ"};
  constexpr std::array<std::string_view, 10> kSpawns = {"mp.spawn(",
                                                        "multiprocessing.spawn(",
                                                        "xmp.spawn(",
                                                        "notebook_launcher(",
                                                        "mp.start_processes(",
                                                        "multiprocessing.start_processes(",
                                                        "multiprocessing.start_processes\n",
                                                        "elastic_launch(",
                                                        "ray.init(",
                                                        "init_ray("};
  const std::string squeezed = Squeezed(text);
  ScriptHabits habits;
  // A script that only asks, or that has a way without CUDA, keeps the variables of every start.
  habits.optional_rank = Has(squeezed, "init_process_group(") &&
                         Has(squeezed, "cuda.set_device(") &&
                         std::any_of(kOptional.begin(), kOptional.end(),
                                     [&](std::string_view what) { return Has(squeezed, what); });
  if (!Reads(squeezed, "LOCAL_RANK")) {
    for (std::string_view what : kSpawns) {
      if (!Has(squeezed, what)) continue;
      habits.spawns = std::string(what.substr(0, what.size() - 1));
      break;
    }
    if (habits.spawns.empty() && Has(squeezed, "fromtorch.distributed.runimport"))
      habits.spawns = "torch.distributed.run";
    if (habits.spawns.empty() && CallsEngineLaunch(squeezed)) habits.spawns = kEngineLaunch;
    if (habits.spawns.empty()) habits.spawns = LauncherStartedIn(squeezed);
    // NVIDIA/tacotron2, NVIDIA/waveglow: itself once for each GPU.
    const bool itself =
        Has(squeezed, "subprocess.Popen([str(sys.executable)]") && Has(squeezed, "device_count()");
    if (habits.spawns.empty() && itself) habits.spawns = "subprocess.Popen";
  }
  // Its own processes, each of which is told its rank: not one that writes a log beside the ranks.
  const bool each_process =
      Has(squeezed, "torch.multiprocessing") &&
      (Has(squeezed, "Process(target=") || Has(squeezed, "Process(\ntarget=")) &&
      TellsRank(squeezed) && !Has(squeezed, "RANK\"");
  if (habits.spawns.empty() && each_process) habits.spawns = "mp.Process";
  habits.takes_ranks = Has(squeezed, "\"LOCAL_RANK\"") || Has(squeezed, "\"RANK\"");
  habits.drives_all = DrivesAllIn(squeezed);
  constexpr std::array<std::string_view, 3> kNccl = {"init_process_group(\"nccl\"",
                                                     "init_process_group(backend=\"nccl\"",
                                                     "init_process_group(\nbackend=\"nccl\""};
  habits.only_nccl = !Has(squeezed, "gloo") && !Has(squeezed, "LAUNCH_BACKEND") &&
                     std::any_of(kNccl.begin(), kNccl.end(),
                                 [&](std::string_view what) { return Has(squeezed, what); });
  habits.submits = Has(squeezed, "submitit") && MakesSubmitter(squeezed);
  habits.submits_always = habits.submits && habits.spawns.empty() && AlwaysSubmits(text);
  habits.sets_devices = Assigns(squeezed, "environ[\"CUDA_VISIBLE_DEVICES\"]=");
  return habits;
}

namespace {

// What a function of another module does for the script that calls it.
void TakeImported(std::string_view text, const LaunchLine& line,
                  const std::map<std::string, std::string>& files, ScriptHabits& habits) {
  if (!habits.spawns.empty() || habits.takes_ranks || habits.submits) return;
  const TextsAt texts(files, line.place);
  for (const ImportedStart& start : ImportedStartsOf(text, line.script)) {
    for (const std::string& file : start.files) {
      const std::string* module = texts.Find(file);
      if (module == nullptr) continue;
      const std::string_view body = FunctionIn(*module, start.function);
      const ScriptHabits own = HabitsIn(body);
      if (habits.spawns.empty()) habits.spawns = own.spawns;
      const bool submits = Has(*module, "submitit") && MakesSubmitter(body);
      habits.submits = habits.submits || submits;
      habits.submits_always =
          habits.submits_always ||
          (submits && AlwaysSubmits(body, start.function) && AlwaysCalls(text, start.called));
      break;
    }
  }
}

}  // namespace

ScriptHabits HabitsOf(const LaunchLine& line, const std::map<std::string, std::string>& files) {
  const std::string* text = RunsPython(line) ? TextOf(line, files) : nullptr;
  if (text == nullptr) return {};
  ScriptHabits habits = HabitsIn(*text);
  TakeImported(*text, line, files, habits);
  return habits;
}

std::string LocalRankFlagOf(const LaunchLine& line,
                            const std::map<std::string, std::string>& files) {
  const std::string* text = TextOf(line, files);
  // Spelling out what a script does takes time that most need not.
  if (text == nullptr || (!Has(*text, "local_rank") && !Has(*text, "--local-rank"))) return {};
  const std::string squeezed = Squeezed(*text);
  // absl's flags have no other spelling.
  const bool underscore =
      Has(squeezed, "\"--local_rank\"") || Has(squeezed, "DEFINE_integer(\"local_rank\"");
  const bool dash = Has(squeezed, "\"--local-rank\"");
  if (underscore == dash) return {};
  return underscore ? "--local_rank" : "--local-rank";
}

bool ReadsVariable(const LaunchLine& line, const std::map<std::string, std::string>& files,
                   std::string_view name) {
  const std::string* text = RunsPython(line) ? TextOf(line, files) : nullptr;
  if (text == nullptr || !Has(*text, name)) return false;
  const std::string squeezed = Squeezed(*text);
  const std::string quoted = "\"" + std::string(name) + "\"";
  return Has(squeezed, quoted) && !Assigns(squeezed, "environ[" + quoted + "]=");
}

namespace {

// By which one process tells Ray how many others it wants: verl, NeMo-RL, AReaL, SkyRL.
constexpr std::array<std::string_view, 4> kRayGpus = {
    "trainer.n_gpus_per_node", "cluster.gpus_per_node", "cluster.n_gpus_per_node",
    "trainer.placement.policy_num_gpus_per_node"};
constexpr std::array<std::string_view, 4> kRayNodes = {
    "trainer.nnodes", "cluster.num_nodes", "cluster.n_nodes", "trainer.placement.policy_num_nodes"};

// "8" of "++trainer.n_gpus_per_node=8"; empty: the word is none of them.
std::string ValueOf(const auto& keys, std::string_view word) {
  while (word.starts_with('+')) word.remove_prefix(1);
  const std::size_t equals = word.find('=');
  const bool is = equals != std::string_view::npos &&
                  std::find(keys.begin(), keys.end(), word.substr(0, equals)) != keys.end();
  return is ? std::string(word.substr(equals + 1)) : std::string();
}

// `python tools/launch.py --nnodes 1 --nproc_per_node 8 CMD`: a copy of torch's launcher.
struct CopiedLauncher {
  std::optional<int> count;
  std::optional<int> nodes;
  bool counts = false;
  bool places = false;
  bool one_node = true;  // its rank is written out; it is 0 by default

  void Take(const ScriptFlag& flag, const std::string& value) {
    if (flag.name == "nproc_per_node") {
      counts = true;
      count = CountIn(value);
    }
    if (flag.name == "nnodes") nodes = CountIn(value);
    if (flag.name == "node_rank") one_node = !flag.late;
    places = places || flag.name == "nnodes" || flag.name == "node_rank" ||
             flag.name == "master_addr" || flag.name == "master_port";
  }
  bool is() const { return counts && places; }
};

}  // namespace

std::optional<OwnProcesses> StartsProcesses(const LaunchLine& line, const ScriptHabits& habits) {
  if (!RunsPython(line)) return std::nullopt;
  const std::string module = ModuleOf(line);
  const std::string& program = module.empty() ? line.script : module;
  const auto own = [&program](const std::string& how) {
    return how + ": " + program + " starts its processes itself";
  };
  OwnProcesses found;
  bool config = false;
  bool several = false;
  bool machine = true;       // its rank is written out; it is 0 by default
  bool of_machines = false;  // --world-size and --rank count machines
  std::optional<int> world;
  bool one_machine = false;  // --rank is written out
  CopiedLauncher copy;
  for (const ScriptFlag& flag : ReadScriptFlags(line.arguments)) {
    const std::string value = flag.value.value_or("");
    if (flag.name == "multiprocessing_distributed" && Lower(value) != "false") {
      found.why = own(flag.flag);
      of_machines = true;
    }
    if (flag.name == "world_size") world = CountIn(value);
    if (flag.name == "rank" || flag.name == "node_rank") one_machine = !flag.late;
    config = config || flag.name == "config_file";
    // OpenRLHF: one process asks ray for the actors.
    if (flag.name == "actor_num_gpus_per_node") {
      found.why = own(flag.flag);
      found.ray = true;
    }
    if (flag.name == "num_machines") found.nodes = CountIn(value);
    if (flag.name == "machine_rank") machine = !flag.late;
    copy.Take(flag, value);
    constexpr std::array<std::string_view, 4> kCounts = {"num_gpus", "gpus", "ngpus", "ngpu"};
    const bool devices = flag.name == "devices" && habits.spawns == kEngineLaunch;
    if (!devices && std::find(kCounts.begin(), kCounts.end(), flag.name) == kCounts.end()) continue;
    found.count = CountIn(value);
    // detectron2's engine: one process starts --num-gpus of them.
    several = several || (flag.name == "num_gpus" && found.count != 1);
  }
  if (copy.is()) {
    found.why = own("--nproc_per_node");
    found.count = copy.count;
    found.nodes = copy.nodes;
    machine = copy.one_node;
    found.rank_flags =
        "--node_rank $NODE_RANK --master_addr $MASTER_ADDR --master_port $MASTER_PORT";
    found.nodes_flag = "--nnodes";
  } else if (!habits.spawns.empty()) {
    found.why = program + " starts its processes itself (" + habits.spawns + ")";
    found.ray = Has(habits.spawns, "ray");
  }
  if (found.why.empty() && config && several) found.why = own("--num-gpus");
  // SkyRL: the GPUs of other parts beside those of the policy.
  const bool apart = std::ranges::any_of(line.arguments, [](const ShellWord& word) {
    return word.value.ends_with("trainer.placement.colocate_all=false");
  });
  std::optional<int> ray_nodes;
  for (std::size_t i = 0; i < line.arguments.size(); ++i) {
    const std::string& word = line.arguments[i].value;
    if (const std::string count = ValueOf(kRayGpus, word); !count.empty()) {
      found.why = word + ": the program starts its processes itself";
      found.count = apart ? std::nullopt : CountIn(count);
      found.ray = true;
    }
    if (const std::string count = ValueOf(kRayNodes, word); !count.empty())
      ray_nodes = CountIn(count);
    // yacs: `NUM_GPUS 8` among the settings behind the flags.
    if (i > 0 && line.arguments[i - 1].value == "NUM_GPUS" && !habits.spawns.empty())
      found.count = CountIn(word);
    if (i > 0 && line.arguments[i - 1].value == "-d" && habits.spawns == kEngineLaunch)
      found.count = CountIn(word);
    if (i > 0 && line.arguments[i - 1].value == "-m" && word == "llamafactory.cli") {
      found.why = word + " starts its ranks itself";
    }
  }
  if (found.why.empty() && !habits.drives_all.empty()) {
    found.why = program + " drives all GPUs from one process (" + habits.drives_all + ")";
    found.count = 1;
    found.one_process = true;
  }
  // pytorch/examples imagenet: each machine starts a process for each of its GPUs.
  if (of_machines && world) {
    found.nodes = world;
    machine = one_machine;
    found.rank_flags = "--rank $NODE_RANK --dist-url tcp://$MASTER_ADDR:$MASTER_PORT";
    found.nodes_flag = "--world-size";
  }
  if (found.ray && ray_nodes) found.ray_nodes = *ray_nodes;
  found.one_rank = machine && found.nodes.value_or(1) > 1;
  if (line.script.ends_with("deepy.py")) found.why = line.script + " starts deepspeed itself";
  return found.why.empty() ? std::nullopt : std::optional(found);
}

namespace {

bool NamesSubmitit(const LaunchLine& line) {
  const std::string file = line.script.substr(line.script.rfind('/') + 1);
  return file.find("submitit") != std::string::npos && file.ends_with(".py");
}

// "parallelize=True" and "tensor_parallel_size=4" of "pretrained=m,tensor_parallel_size=4"; empty:
// there is none.
std::string ItemOf(std::string_view list, std::string_view begin) {
  for (const std::string_view item : Split(list, ','))
    if (item.starts_with(begin)) return std::string(item);
  return {};
}

// Whether the program, or what it is made of, puts one model on several GPUs by itself: a flag for
// the size of a tensor-parallel group may else be one of ranks. `text`: nullptr where it is not at
// hand.
bool RunsEngine(const LaunchLine& line, const std::string* text) {
  constexpr std::array<std::string_view, 5> kEngines = {"vllm", "sglang", "lmdeploy", "trtllm",
                                                        "lm_eval"};
  const auto names = [&](std::string_view where) {
    return std::ranges::any_of(kEngines, [&](std::string_view name) { return Has(where, name); });
  };
  if (text != nullptr) return names(*text);
  if (RunsPython(line)) return names(ModuleOf(line));
  // Also behind what starts it: `uv run vllm serve`.
  constexpr std::size_t kMostBefore = 8;
  bool found = names(line.command_word.substr(line.command_word.rfind('/') + 1));
  for (std::size_t i = 0; i < std::min(line.arguments.size(), kMostBefore); ++i)
    found = found || std::ranges::find(kEngines, ProgramOf(line.arguments[i])) != kEngines.end();
  return found;
}

}  // namespace

std::optional<OwnProcesses> SpreadsOneModel(const LaunchLine& line, const ScriptHabits& habits,
                                            const std::map<std::string, std::string>& files) {
  OwnProcesses found{.count = 1, .one_process = true};
  const std::string* text = RunsPython(line) ? TextOf(line, files) : nullptr;
  const bool ranks = text != nullptr && (habits.takes_ranks || Has(*text, "istributed"));
  if (ranks) return std::nullopt;
  const bool engine = RunsEngine(line, text);
  for (const ShellWord& word : line.arguments) {
    std::string_view list = word.value;
    if (list.starts_with('-')) list.remove_prefix(std::min(list.find('='), list.size() - 1) + 1);
    if (Lower(ItemOf(list, "parallelize=")).ends_with("=true")) found.why = "parallelize=True";
    // "pretrained=m,tensor_parallel_size=4"; alone it may be a setting of a trainer.
    const bool of_model = engine || Has(list, ",");
    const std::string size = of_model ? ItemOf(list, "tensor_parallel_size=") : std::string();
    const auto count = size.empty() ? std::nullopt : CountIn(size.substr(size.find('=') + 1));
    if (count.value_or(1) == 1) continue;
    found.why = size;
    found.devices = NamedDevices{size, *count};
  }
  for (const ScriptFlag& flag : ReadScriptFlags(line.arguments)) {
    const bool size = flag.name == "tensor_parallel_size" || flag.name == "tp_size";
    const auto count = engine && size ? CountIn(flag.value.value_or("")) : std::nullopt;
    if (count.value_or(1) == 1) continue;
    found.why = flag.text;
    found.devices = NamedDevices{flag.text, *count};
  }
  if (found.why.empty()) return std::nullopt;
  const std::string module = ModuleOf(line);
  const std::string program = !module.empty()        ? module
                              : !line.script.empty() ? line.script
                                                     : line.command_word;
  found.why = (program.empty() ? "the program" : program) + " drives all GPUs from one process (" +
              found.why + ")";
  return found;
}

std::string SubmitsItself(const LaunchLine& line, const ScriptHabits& habits) {
  if (!line.python) return {};
  const auto submits = std::find_if(
      line.arguments.begin(), line.arguments.end(),
      [](const ShellWord& word) { return word.value == "hydra/launcher=submitit_slurm"; });
  if (submits != line.arguments.end()) return submits->value;
  return habits.submits && (habits.submits_always || NamesSubmitit(line)) ? line.script
                                                                          : std::string();
}

std::optional<Finding> MaySubmit(const LaunchLine& line, const ScriptHabits& habits) {
  if (!line.python || (!habits.submits && !NamesSubmitit(line))) return std::nullopt;
  for (const ScriptFlag& flag : ReadScriptFlags(line.arguments)) {
    const std::string value = Lower(flag.value.value_or(""));
    const bool off = value == "0" || value == "false";
    if (off && Has(flag.name, "cluster")) return std::nullopt;  // --use-cluster 0
  }
  return MakeFinding("submits_elsewhere", Severity::kWarning,
                     line.script +
                         " seems to submit jobs to Slurm (submitit), once for each process of "
                         "this one",
                     "run the script that its jobs run: launch is the scheduler here");
}

namespace {

enum class CountKind { kNodes, kOfNode, kOfAllNodes };

// Flags by which a program that is started once per rank compares its own count with the ranks that
// it finds.
struct CountFlag {
  std::string_view program;  // its name, or that of its module; empty: any
  std::string_view flag;     // with '_', without dashes
  CountKind kind;
};

constexpr std::array<CountFlag, 8> kCountFlags = {{
    {"", "trainer.num_nodes", CountKind::kNodes},
    {"", "trainer.devices", CountKind::kOfNode},
    {"", "trainer.gpus", CountKind::kOfNode},
    {"litgpt", "num_nodes", CountKind::kNodes},
    {"litgpt", "devices", CountKind::kOfNode},
    {"fairseq-train", "distributed_world_size", CountKind::kOfAllNodes},
    {"fairseq_cli.train", "distributed_world_size", CountKind::kOfAllNodes},
    {"fairseq-hydra-train", "distributed_training.distributed_world_size", CountKind::kOfAllNodes},
}};

// "litgpt", also of `python -m litgpt`; empty: a script.
std::string ProgramNameOf(const LaunchLine& line) {
  if (!line.python) return line.command_word.substr(line.command_word.rfind('/') + 1);
  return ModuleOf(line);
}

void TakeCount(CountKind kind, const std::string& value, LaunchLine& line) {
  if (kind == CountKind::kNodes) {
    if (!line.nodes_min) line.nodes_min = line.nodes_max = CountIn(value);
    return;
  }
  const auto count = CountIn(value);
  const bool total = kind == CountKind::kOfAllNodes;
  if (total && !count) return;
  line.procs = count ? ProcsWord::kNumber : ProcsWord::kGpu;
  line.procs_number = count.value_or(0);
  line.procs_of_all_nodes = total;
}

// "import pytorch_lightning as pl", "from lightning import Trainer"
bool ImportsLightning(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = Trim(text.substr(0, end));
    line = line.substr(0, line.find('#'));
    const bool imports = line.starts_with("import ") || line.starts_with("from ");
    if (imports && Has(line, "lightning")) return true;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

// Whether the job leaves so many processes open: neither procs_per_node nor fewer GPUs say other.
bool LeavesOpen(const LaunchLineOptions& options, int count) {
  const auto told = options.told.find("NPROC_PER_NODE");
  const auto number = told == options.told.end() ? std::nullopt : ParseInt(told->second);
  return !options.procs_written && (!number || count <= *number);
}

// Lightning's become the processes; of other programs they are told in the plan.
void TakeNamedDevices(LaunchLine& line, const LaunchLineOptions& options) {
  const std::string* text = TextOf(line, options.files);
  auto named = DevicesNamedIn(line.arguments, text != nullptr && ImportsLightning(*text));
  if (!named) return;
  if (!LeavesOpen(options, named->count)) {
    line.named_devices = std::move(named);
    return;
  }
  // detectron2's engine: one process, whatever the job has.
  const bool engine = std::ranges::any_of(line.arguments, [](const ShellWord& word) {
    return word.value.starts_with("--config-file");
  });
  if (engine && named->count == 1 && named->flag.starts_with("--num-gpus")) {
    TakeCount(CountKind::kOfNode, "1", line);
    line.read.push_back(named->flag + " of the line: processes per node");
    return;
  }
  if (!named->of_lightning) {
    line.named_devices = std::move(named);
    return;
  }
  TakeCount(CountKind::kOfNode, std::to_string(named->count), line);
  line.read.push_back(named->flag + " of the line: processes per node (Lightning)");
}

}  // namespace

void TakeTrainerDevices(LaunchLine& line, const LaunchLineOptions& options) {
  if (line.procs != ProcsWord::kNone) return;
  const std::string program = ProgramNameOf(line);
  for (std::size_t i = 0; i < line.arguments.size(); ++i) {
    std::string_view word = line.arguments[i].value;
    while (word.starts_with('-') || word.starts_with('+')) word.remove_prefix(1);
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string written(word.substr(0, equals));
    std::string name = written;
    std::replace(name.begin(), name.end(), '-', '_');
    std::string value(word.substr(std::min(equals + 1, word.size())));
    if (equals == word.size() && i + 1 < line.arguments.size()) value = line.arguments[i + 1].value;
    const auto* const flag =
        std::find_if(kCountFlags.begin(), kCountFlags.end(), [&](const CountFlag& one) {
          return one.flag == name && (one.program.empty() || one.program == program);
        });
    if (flag == kCountFlags.end()) continue;
    const bool list = value.find(',') != std::string::npos || value.starts_with('[');
    if (const auto devices = list ? DevicesInList(value) : std::nullopt)
      value = std::to_string(*devices);
    TakeCount(flag->kind, value, line);
    if (flag->kind == CountKind::kNodes) continue;
    line.read.push_back(written + " of the line: processes" +
                        (line.procs_of_all_nodes ? " of all nodes" : " per node"));
  }
  if (line.procs == ProcsWord::kNone && RunsPython(line)) TakeNamedDevices(line, options);
}

std::optional<Finding> OnlyNccl(const LaunchLine& line,
                                const std::map<std::string, std::string>& files,
                                DeviceClass device) {
  const std::string* text = TextOf(line, files);
  if (device == DeviceClass::kCuda || line.rank_means_several || text == nullptr ||
      !Has(*text, "nccl") || !HabitsIn(*text).only_nccl) {
    return std::nullopt;
  }
  return MakeFinding("plan_cannot_reach_script", Severity::kWarning,
                     "this plan cannot reach your script: " + line.script +
                         " asks for the backend nccl, which needs a GPU for each rank, and this "
                         "job has none",
                     "pass os.environ[\"LAUNCH_BACKEND\"] to init_process_group, or leave the "
                     "backend out: torch then takes the one of the device");
}

namespace {

// `if args.enable_deepspeed:`, which no word of the line asks for.
bool LeavesDeepspeedOut(std::string_view squeezed, const LaunchLine& line) {
  const bool asked = line.launcher == LauncherKind::kDeepspeed ||
                     std::ranges::any_of(line.arguments, [](const ShellWord& word) {
                       return Has(word.value, "deepspeed");
                     });
  while (!asked && !squeezed.empty()) {
    const std::size_t end = std::min(squeezed.find('\n'), squeezed.size());
    const std::string_view text = squeezed.substr(0, end);
    squeezed.remove_prefix(std::min(end + 1, squeezed.size()));
    const bool condition = text.starts_with("if") || text.starts_with("elif");
    if (condition && Has(text, "args.") && Has(text, "deepspeed")) return true;
  }
  return false;
}

}  // namespace

std::optional<int> OwnZeroStage(const LaunchLine& line,
                                const std::map<std::string, std::string>& files) {
  const std::string* text = TextOf(line, files);
  if (text == nullptr || !Has(*text, "deepspeed")) return std::nullopt;
  const std::string squeezed = Squeezed(*text);
  if (LeavesDeepspeedOut(squeezed, line)) return std::nullopt;
  constexpr std::string_view kZero = "\"zero_optimization\"";
  constexpr std::string_view kStage = "\"stage\":";
  const std::size_t zero = squeezed.find(kZero);
  if (zero == std::string::npos)
    return Has(squeezed, "deepspeed.initialize(") ? std::optional(-1) : std::nullopt;
  const std::size_t end = squeezed.find('}', zero);
  const std::size_t stage = squeezed.find(kStage, zero);
  if (stage >= end || stage + kStage.size() >= squeezed.size()) return -1;
  const char digit = squeezed[stage + kStage.size()];
  return digit >= '0' && digit <= '3' ? digit - '0' : -1;
}

std::optional<Finding> DevicesSetIn(const LaunchLine& line,
                                    const std::map<std::string, std::string>& files) {
  const std::string* text = TextOf(line, files);
  // Spelling out what a script does takes time that most need not.
  if (text == nullptr || !Has(*text, "CUDA_VISIBLE_DEVICES")) return std::nullopt;
  if (!HabitsIn(*text).sets_devices) return std::nullopt;
  return MakeFinding(
      "visible_devices_set", Severity::kWarning,
      line.script + " sets CUDA_VISIBLE_DEVICES itself, against the devices the job gets",
      "take the line out of the script; for particular devices write gpu_ids");
}

}  // namespace launch
