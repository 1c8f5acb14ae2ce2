#include "planner/line/written_counts.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "common/text.h"
#include "common/units.h"
#include "planner/line/accelerate_flags.h"
#include "planner/line/called_script.h"
#include "planner/line/deepspeed_flags.h"
#include "planner/line/imported_starts.h"
#include "planner/line/launcher_words.h"
#include "planner/line/line_prefix.h"
#include "planner/line/own_launchers.h"
#include "planner/line/python_words.h"
#include "planner/line/refused_starters.h"
#include "planner/line/shell_changes.h"
#include "planner/line/shell_walk.h"
#include "planner/line/torchrun_flags.h"

namespace launch {
namespace {

// Flags of launchers and trainers that name a configuration.
constexpr std::array<std::string_view, 7> kFileFlags = {
    "deepspeed",   "deepspeed_config", "deepspeed_config_file", "ds_config", "config_file",
    "fsdp_config", "hostfile"};

// "--nproc-per-node=8" -> "nproc_per_node"; also "-n" and "-num_gpus".
std::string FlagName(std::string_view word) {
  const std::size_t dashes = std::min(word.find_first_not_of('-'), word.size());
  if (dashes == 0 || dashes > 2) return {};
  std::string name(word.substr(dashes, word.find('=') - dashes));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::optional<int> CountOf(const std::string& value, int most) {
  const auto number = ParseInt(value);
  if (!number || *number < 1 || *number > most) return std::nullopt;
  return static_cast<int>(*number);
}

// "0,1", also with a comma at the end.
int ItemsOf(std::string_view list) {
  while (!list.empty() && (list.back() == ',' || list.back() == ' ')) list.remove_suffix(1);
  return static_cast<int>(std::count(list.begin(), list.end(), ',')) + 1;
}

std::vector<std::int64_t> NumbersOf(std::string_view list) {
  std::vector<std::int64_t> numbers;
  for (const std::string_view item : Split(list, ','))
    if (const auto number = ParseInt(Trim(item))) numbers.push_back(*number);
  return numbers;
}

// "0,1", "0, 1"; not "0123", which is no number of a device.
bool IsDeviceList(const std::string& list) {
  const bool padded = list.size() > 1 && list[0] == '0' && IsDigit(list[1]);
  return !list.empty() && !padded && list.find_first_not_of("0123456789, ") == std::string::npos;
}

// A line that the launcher's own parser would not read ends at what looks like the script.
std::size_t ScriptBehind(const std::vector<ShellWord>& words, std::size_t first) {
  std::size_t i = first;
  while (i < words.size() && words[i].value != "--" && words[i].value != "-m" &&
         words[i].value != "--module" && !words[i].value.ends_with(".py")) {
    ++i;
  }
  return i;
}

// Index of the interpreter among the words of a command, or of what is started as a program of it;
// their number: there is none.
std::size_t PythonAt(const std::vector<ShellWord>& words) {
  const std::size_t first = PartsOf({words, {}, "", 0}).first;
  if (first >= words.size()) return words.size();
  if (words[first].value == "echo" || words[first].value == "printf") return words.size();
  if (const auto uv = UvProgramAt(words, first)) return *uv;
  const auto from = words.begin() + static_cast<std::ptrdiff_t>(first);
  auto found =
      std::find_if(from, words.end(), [](const ShellWord& word) { return IsPython(word.value); });
  if (found == words.end() && from->value.ends_with(".py")) found = from;
  return static_cast<std::size_t>(found - words.begin());
}

class CountReader {
 public:
  CountReader(const LaunchLineOptions& options, ShellWalk::Decides decides)
      : walk_(
            options,
            [this](const ShellCommand& command, const std::vector<ShellWord>& words) {
              return Take(command, words);
            },
            decides),
        told_procs_(ToldProcs(options)),
        gpu_ids_(options.gpu_ids) {}

  void Walk(const ShellScript& script) { walk_.Walk(script); }

  bool launcher_seen() const { return launcher_seen_; }
  // Commands that name a launcher in whatever form, by RawText.
  const std::set<std::string, std::less<>>& naming() const { return naming_; }
  const std::set<std::string, std::less<>>& skipped() const { return walk_.skipped(); }

  WrittenCounts Counts() const {
    const auto some = [](const WrittenCounts& one) {
      return one.procs != ProcsWord::kNone || one.nodes || one.devices;
    };
    WrittenCounts counts = some(calls_) ? calls_ : some(assigned_) ? assigned_ : served_;
    if (counts.procs == ProcsWord::kNumber && counts.total && counts.nodes) {
      counts.total = false;
      if (counts.procs_number % *counts.nodes != 0) counts.procs = ProcsWord::kNone;
      counts.procs_number /= *counts.nodes;
    }
    counts.called = some(calls_) || some(assigned_) || some(served_);
    const bool one = some(calls_) && !some(served_) && !counts.other_procs;
    counts.sure = one && !doubted_ && count_unknown_.empty();
    counts.doubted = one && doubted_ && (count_unknown_.empty() || !reached_);
    counts.launcher = launcher_seen_;
    counts.refused = refused_;
    counts.stops = stops_;
    counts.flag_unknown = flag_unknown_;
    counts.count_unknown = count_unknown_;
    counts.told_program = told_program_;
    counts.sets_devices = sets_devices_;
    counts.program_sets_devices = program_sets_devices_;
    counts.program_devices = program_devices_;
    counts.program_devices_open = program_devices_open_;
    counts.bare_python = bare_python_;
    counts.foreign_devices = foreign_devices_;
    counts.foreign_of_program = foreign_of_program_;
    counts.accelerate = accelerate_;
    counts.on_cpu = on_cpu_;
    counts.deepspeed = deepspeed_;
    counts.hostfile_unread = hostfile_unread_;
    counts.wanted = walk_.wanted();
    counts.scripts = walk_.scripts();
    counts.unread = walk_.unread();
    counts.python = python_;
    counts.needs_world = needs_world_;
    counts.one_node_rank = one_node_rank_;
    counts.place_set = place_set_;
    if (counts.devices && calls_together_ && left_together_) counts.together = together_;
    if (!counts.together.empty()) counts.devices = static_cast<int>(together_.size());
    return counts;
  }

 private:
  const KnownVariables& Known() const { return walk_.known(); }

  static std::string ToldProcs(const LaunchLineOptions& options) {
    const auto told = options.told.find("NPROC_PER_NODE");
    return told == options.told.end() ? std::string() : told->second;
  }

  bool Take(const ShellCommand& command, const std::vector<ShellWord>& words) {
    written_ = &command.words;
    NoteFiles(words);
    NotePython(words);
    NoteNamed(command, words);
    NoteLiterals(command);
    bool called = TakeChoices(command);
    WrittenCounts one;
    const bool written = FromCall(words, one);
    if (written) Merge(one, IsServer(words) ? served_ : calls_);
    called = written || called || IsTold(command);
    if (called) NoteDoubt(command, written);
    NoteRefused(words, called);
    if (called) NoteDeepspeed(words);
    ShellCommand split = command;
    split.words = words;
    NoteDevices(split, called);
    NoteTogether(command, words, called);
    NotePlace(command);
    FromAssignments(command.words);
    return called;
  }

  // `NPROC_PER_NODE=4 NNODES=2 mycli train c.yaml`: a program that starts torchrun, whatever its
  // name.
  bool IsTold(const ShellCommand& command) {
    constexpr std::array<std::string_view, 2> kSigns = {"NPROC_PER_NODE", "FORCE_TORCHRUN"};
    const CommandParts parts = PartsOf(command);
    if (parts.first >= command.words.size()) return false;
    const ShellWord& program = command.words[parts.first];
    const auto sign = std::ranges::find_if(parts.assignments, [&](const ShellAssignment& one) {
      return std::ranges::find(kSigns, one.name) != kSigns.end();
    });
    if (sign == parts.assignments.end() || IsShellBuiltin(program.raw) || !program.fixed ||
        StartsPython(command) || TrainsNot(command) ||
        !CalledScriptOf(command, Known()).shown.empty()) {
      return false;
    }
    WrittenCounts one;
    FromVariables(one);
    TakeDevices(one);
    Merge(one, calls_);
    if (told_program_.empty())
      told_program_ = sign->name + " in front of " + std::string(ProgramOf(program));
    return true;
  }

  // Also behind programs that start it: `uv run python train.py`, `apptainer exec x.sif python`.
  void NotePython(const std::vector<ShellWord>& words) {
    constexpr std::size_t kMostCommands = 32;  // texts may be hostile
    if (python_.size() == kMostCommands) return;
    const std::size_t first = PythonAt(words);
    std::vector<ShellWord> call(words.begin() + static_cast<std::ptrdiff_t>(first), words.end());
    if (call.empty()) return;
    if (first == UvProgramAt(words, PartsOf({words, {}, "", 0}).first)) {
      ShellWord interpreter = call.front();
      interpreter.raw = interpreter.value = "python";
      call.insert(call.begin(), std::move(interpreter));
    }
    for (ShellWord& word : call) {
      auto value = word.fixed ? std::nullopt : FixedValue(word, Known());
      if (!value) continue;
      word.value = std::move(*value);
      word.fixed = true;
    }
    for (const std::string& file : PythonFilesOf(call)) WantProgram(file);
    python_.push_back({std::move(call), walk_.place(), walk_.maybe()});
  }

  // And the modules of which it calls a function that may start its processes.
  void WantProgram(const std::string& file) {
    walk_.Want(file, ShellWalk::Kind::kPython);
    const std::string* text = walk_.texts().Find(file);
    if (text == nullptr) return;
    for (const ImportedStart& start : ImportedStartsOf(*text, file))
      for (const std::string& module : start.files) walk_.Want(module, ShellWalk::Kind::kPython);
  }

  // What a call asks for, beside those before it.
  void Merge(const WrittenCounts& one, WrittenCounts& out) {
    const bool numbers = one.procs == ProcsWord::kNumber && out.procs == ProcsWord::kNumber &&
                         one.total == out.total;
    if (!numbers) {
      TakeProcs(one.procs, one.procs_number, one.total, out);
    } else if (one.procs_number != out.procs_number) {
      const bool told = std::to_string(one.procs_number) == told_procs_;
      const bool old_told = std::to_string(out.procs_number) == told_procs_;
      const bool takes = told || (!old_told && one.procs_number > out.procs_number);
      out.other_procs = takes ? out.procs_number : one.procs_number;
      if (takes) out.procs_number = one.procs_number;
      if (takes) TakeDeviceList(one, out);
    }
    if (!out.nodes) out.nodes = one.nodes;
    if (!out.devices) TakeDeviceList(one, out);
  }

  static void TakeDeviceList(const WrittenCounts& one, WrittenCounts& out) {
    out.devices = one.devices;
    out.device_list = one.device_list;
  }

  // What the text shows of a call may not be what it gets: a branch, a file that it sources.
  void NoteDoubt(const ShellCommand& command, bool one_value) {
    const bool differs = std::ranges::any_of(command.words, [this](const ShellWord& word) {
      return word.raw.find('$') != std::string::npos &&
             NamesOneThat(word.raw,
                          [this](std::string_view name) { return walk_.MayDiffer(name); });
    });
    doubted_ = doubted_ || !one_value || differs || walk_.maybe();
    reached_ = reached_ || !walk_.maybe();
  }

  // "NODE_RANK=0", not `NODE_RANK=$SLURM_NODEID` nor what stands in a branch.
  void NoteLiterals(const ShellCommand& command) {
    constexpr std::size_t kMostNames = 4096;  // texts may be hostile
    own_literals_.clear();
    const std::size_t first = PartsOf(command).first;
    for (std::size_t i = 0; i < command.words.size(); ++i) {
      const auto assignment = AssignmentOf(command.words[i]);
      if (!assignment) continue;
      const ShellWord& value = assignment->value;
      const bool of_program = i < first && first < command.words.size();
      if (!value.fixed || value.value.empty() || walk_.maybe()) {
        if (!of_program) literals_.erase(assignment->name);
      } else if (of_program) {
        own_literals_.insert(assignment->name);
      } else if (literals_.size() < kMostNames) {
        literals_.insert(assignment->name);
      }
    }
  }

  // In whatever form: an array that is not known, the name of a variable ...
  void NoteNamed(const ShellCommand& command, const std::vector<ShellWord>& words) {
    constexpr std::array<std::string_view, 4> kNames = {"torchrun", "torch.distributed",
                                                        "accelerate", "deepspeed"};
    constexpr std::size_t kMostNaming = 256;  // texts may be hostile
    if (words.empty() || words[0].raw == "echo" || words[0].raw == "printf") return;
    bool names = false;
    for (std::size_t i = 0; i < words.size() && !names; ++i) {
      names = FindRefused(words, i) || OwnLauncherAt(words, i) ||
              std::ranges::any_of(kNames, [&](std::string_view name) {
                return words[i].raw.find(name) != std::string::npos ||
                       words[i].value.find(name) != std::string::npos;
              });
    }
    if (names && naming_.size() < kMostNaming) naming_.insert(RawText(command));
  }

  // Not in one branch of several, nor `srun hostname` in front of the launcher.
  void NoteRefused(const std::vector<ShellWord>& words, bool called) {
    launcher_seen_ = launcher_seen_ || called;
    const std::size_t first = PartsOf({words, {}, "", 0}).first;
    if (!launcher_seen_ || walk_.maybe() || !refused_.empty() || first >= words.size()) return;
    const auto found = FindRefused(words, first);
    if (found && found->starts_ranks) refused_ = found->program;
    if (found && found->returns)
      NoteStop({ErrorCode::kInvalidArgument,
                "run: " + found->program + " submit --no-wait ends at once, and the job with it",
                "leave --no-wait out: the job is to last as long as what it submits",
                {}});
  }

  // `CUDA_VISIBLE_DEVICES=7 vllm serve m &` beside a launcher on the others: both at once.
  void NoteTogether(const ShellCommand& command, const std::vector<ShellWord>& words, bool called) {
    const bool left = command.joiner == "&" && (!called || IsServer(words));
    const auto visible = Known().find("CUDA_VISIBLE_DEVICES");
    const bool some = visible != Known().end() && IsDeviceList(visible->second);
    if (!some || (!called && !left)) return;
    for (const std::int64_t device : NumbersOf(visible->second)) together_.insert(device);
    (left ? left_together_ : calls_together_) = true;
  }

  // Not ${MASTER_ADDR:-localhost}, which keeps what the start gives.
  void NotePlace(const ShellCommand& command) {
    for (const ShellWord& word : command.words) {
      const auto assignment = AssignmentOf(word);
      if (!assignment || !IsContractVariable(assignment->name)) continue;
      if (assignment->value.raw.find(assignment->name) == std::string::npos)
        place_set_.insert(assignment->name);
    }
  }

  // Not `CUDA_VISIBLE_DEVICES= python prepare.py`: no launcher sees that.
  void NoteDevices(const ShellCommand& command, bool called) {
    if (PythonAt(command.words) < command.words.size() && !called) {
      NoteProgramDevices(command);
      return;
    }
    for (const ShellWord& word : command.words) {
      const auto assignment = AssignmentOf(word);
      if (assignment && assignment->name == "CUDA_VISIBLE_DEVICES") sets_devices_ = true;
    }
  }

  // Not those that hide the GPUs, nor some of those that the job gets.
  void NoteProgramDevices(const ShellCommand& command) {
    const auto visible = Known().find("CUDA_VISIBLE_DEVICES");
    if (visible == Known().end()) {
      for (const ShellAssignment& one : PartsOf(command).assignments) {
        const bool own = one.name == "CUDA_VISIBLE_DEVICES" &&
                         one.value.raw.find("CUDA_VISIBLE_DEVICES") == std::string::npos;
        if (own) NoteProgramOf(command);
        program_devices_open_ = program_devices_open_ || own;
      }
      return;
    }
    const bool hidden = visible->second.empty() || visible->second[0] == '-';
    if (hidden || visible->second == "NoDevFiles") return;
    NoteProgramOf(command);
    // In a branch they may be those of one rank: `if [ $LOCAL_RANK = 0 ]`.
    program_devices_open_ =
        program_devices_open_ || walk_.maybe() || !IsDeviceList(visible->second);
    if (!IsDeviceList(visible->second)) return;
    program_devices_ = std::max(ItemsOf(visible->second), program_devices_.value_or(0));
    NoteForeignDevice(visible->second, "a Python program", foreign_of_program_);
  }

  // Only bash itself finds our function of that name: not nohup, exec or env.
  void NoteProgramOf(const ShellCommand& command) {
    program_sets_devices_ = true;
    const std::size_t first = PartsOf(command).first;
    const auto last = command.words.begin() + static_cast<std::ptrdiff_t>(first);
    const bool bare =
        first < command.words.size() && (last->raw == "python" || last->raw == "python3") &&
        std::all_of(command.words.begin(), last, [](const ShellWord& word) {
          return AssignmentOf(word) || StandsBeforeCommand(word.raw) || word.raw == "time";
        });
    bare_python_ = bare_python_ && bare;
  }

  // `if ...; then ARGS="--nnodes 2 --nproc_per_node 4"; else ARGS="--nproc_per_node 4"; fi`: what
  // the branches agree about is known.
  bool TakeChoices(const ShellCommand& command) {
    std::vector<WrittenCounts> each;
    choosing_ = true;
    walk_.ForEachChoice(command, [&](const std::vector<ShellWord>& words) {
      NoteFiles(words);
      WrittenCounts one;
      if (FromCall(words, one)) each.push_back(one);
    });
    choosing_ = false;
    if (each.empty()) return false;
    const WrittenCounts& first = each.front();
    const auto agree = [&each](auto same) { return std::all_of(each.begin(), each.end(), same); };
    const bool procs = agree([&first](const WrittenCounts& one) {
      return one.procs == first.procs && one.procs_number == first.procs_number &&
             one.total == first.total;
    });
    if (procs) TakeProcs(first.procs, first.procs_number, first.total, calls_);
    const bool nodes = agree([&first](const WrittenCounts& one) {
      return one.nodes.value_or(1) == first.nodes.value_or(1);
    });
    if (nodes && !calls_.nodes) calls_.nodes = first.nodes;
    return true;
  }

  // The path behind `--flag` or `--flag=`; empty: it is not known, or there is none.
  std::string PathBehind(const std::vector<ShellWord>& words, std::size_t i) const {
    ShellWord given = words[i];
    const std::size_t equals = given.value.find('=');
    if (equals != std::string::npos) {
      given.value = words[i].value.substr(equals + 1);
      given.raw = words[i].raw.substr(std::min(words[i].raw.find('=') + 1, words[i].raw.size()));
    } else if (i + 1 < words.size()) {
      given = words[i + 1];
    }
    const auto path = FixedValue(given, Known());
    return path && !path->starts_with('-') ? *path : std::string();
  }

  // Configurations behind flags.
  void NoteFiles(const std::vector<ShellWord>& words) {
    bool deepspeed = false;  // its own flags go up to the script
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string name = FlagName(words[i].value);
      deepspeed = FindDeepspeed(words, i) || (deepspeed && !words[i].value.ends_with(".py"));
      const bool hosts = deepspeed && words[i].value == "-H";
      if (!hosts && std::find(kFileFlags.begin(), kFileFlags.end(), name) == kFileFlags.end())
        continue;
      if (const std::string path = PathBehind(words, i); !path.empty()) walk_.Want(path);
    }
  }

  // The engine's file, behind the script of the first call that names one.
  void NoteDeepspeed(const std::vector<ShellWord>& words) {
    for (std::size_t i = 0; i < words.size() && !deepspeed_; ++i) {
      const std::string name = FlagName(words[i].value);
      if (name != "deepspeed" && name != "deepspeed_config" && name != "ds_config") continue;
      const std::string path = PathBehind(words, i);
      const std::string* text = path.empty() ? nullptr : walk_.texts().Find(path);
      if (text != nullptr) deepspeed_ = NamedText{walk_.place().NameOf(path), *text};
    }
  }

  // The call of a launcher among the words of a command. False: there is none.
  bool FromCall(const std::vector<ShellWord>& words, WrittenCounts& out) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (AssignmentOf(words[i])) continue;
      if (const auto place = FindTorchrun(words, i)) {
        const auto read = ReadTorchrun(words, place->first_flag, place->launch_module, Known());
        if (!read) NoteTorchrun(read.error());
        if (read && read->procs == ProcsWord::kUnknown) NoteUnknownCounts(words, place->first_flag);
        return read ? TakeRead(*read, false, out) : TakeFlags(words, place->first_flag, {}, out);
      }
      if (const auto place = FindDeepspeed(words, i)) {
        const auto read = ReadDeepspeed(words, place->first_flag, Known(), walk_.texts());
        if (read && read->procs == ProcsWord::kUnknown) NoteUnknownCounts(words, place->first_flag);
        if (!read && !NeverStarted(words, place->first_flag).empty()) NoteStop(read.error());
        if (read && read->hostfile_unread) hostfile_unread_ = read->hostfile;
        return read ? TakeRead(*read, false, out) : TakeFlags(words, place->first_flag, {}, out);
      }
      if (const auto place = FindAccelerate(words, i)) {
        const auto read = ReadAccelerate(words, place->first_flag, Known(), walk_.texts());
        if (read && !accelerate_) accelerate_ = read->settings;
        const std::string inner = read ? read->settings.Value("deepspeed_config_file") : "";
        if (!inner.empty()) walk_.Want(inner);
        if (read && read->cpu) on_cpu_ = "accelerate's --cpu or use_cpu";
        if (read && read->arguments.procs == ProcsWord::kUnknown)
          NoteUnknownCounts(words, place->first_flag);
        return read ? TakeRead(read->arguments, true, out)
                    : TakeFlags(words, place->first_flag, {"", "num_processes", true}, out);
      }
      // Behind a program that is not known: `coverage run -m torch.distributed.run`.
      const auto module = ModuleAt(words, i);
      if (module &&
          (module->name == "torch.distributed.run" || module->name == "torch.distributed.launch"))
        return TakeFlags(words, module->behind, {}, out);
      if (const auto place = OwnLauncherAt(words, i)) {
        TakeOwnLauncher(words, *place, out);
        return true;
      }
    }
    return false;
  }

  void TakeOwnLauncher(const std::vector<ShellWord>& words, const OwnLauncherPlace& place,
                       WrittenCounts& out) {
    const OwnLauncher& own = *place.own;
    NoteHosts(words, place.behind - 1);
    TakeFlags(words, place.behind, own, out);
    const std::size_t mark = ScriptBehind(words, place.behind);
    if (own.launcher_behind && mark < words.size() && words[mark].value == "--")
      TakeFlags(words, mark + 1, own, out);
    FromVariables(out);
    if (needs_world_.empty() && own.place_from_env) needs_world_ = own.program;
    const bool same = !own.node_rank.empty() && HasOneNodeRank(words, place);
    if (same && one_node_rank_.empty() && !walk_.maybe()) one_node_rank_ = own.program;
  }

  // Whether each node that runs the call would take itself for the same one of several.
  bool HasOneNodeRank(const std::vector<ShellWord>& words, const OwnLauncherPlace& place) const {
    const auto given_in = [&](const std::vector<ShellWord>& among, std::size_t first) {
      const std::size_t last = ScriptBehind(among, first);
      for (std::size_t i = first; i < last; ++i) {
        if (FlagName(among[i].value) != place.own->node_rank) continue;
        const bool apart = among[i].value.find('=') == std::string::npos;
        return apart && i + 1 >= last ? nullptr : &among[apart ? i + 1 : i];
      }
      return static_cast<const ShellWord*>(nullptr);
    };
    // As it is written: of the words that bash makes of it a variable's value is one.
    const ShellWord* given = given_in(*written_, 0);
    if (given == nullptr) given = given_in(words, place.behind);
    if (given != nullptr) {
      return given->fixed || !ExpandsOneThat(given->raw, [this](std::string_view name) {
               return !literals_.contains(name);
             });
    }
    return !place.own->place_from_env || literals_.contains("NODE_RANK") ||
           own_literals_.contains("NODE_RANK");
  }

  // What torchrun would not take either: `--nproc_per_node=NUM_GPUS`, `--nprocs_per_node`.
  void NoteTorchrun(const Error& error) {
    const bool written = error.message.find_first_of("$`") == std::string::npos;
    if (written && !choosing_ && error.hint.ends_with(kRefusedToo)) NoteStop(error);
    const bool flag = error.message.find(" line with the flag ") != std::string::npos;
    if (flag && flag_unknown_.empty()) flag_unknown_ = error.message;
  }

  void NoteUnknownCounts(const std::vector<ShellWord>& words, std::size_t first) {
    constexpr std::array<std::string_view, 7> kCounts = {
        "nproc_per_node", "num_processes", "num_gpus", "num_accelerators", "include", "i",
        "gpu_ids"};
    const std::size_t last = ScriptBehind(words, first);
    for (std::size_t i = first; i < last; ++i) {
      if (std::ranges::find(kCounts, FlagName(words[i].value)) != kCounts.end())
        NoteUnknownCount(words, i);
    }
  }

  void NoteUnknownCount(const std::vector<ShellWord>& words, std::size_t i) {
    const bool glued = words[i].raw.find('=') != std::string::npos;
    std::string written = words[i].raw;
    if (!glued && i + 1 < words.size()) written += " " + words[i + 1].raw;
    const bool expands = written.find_first_of("$`") != std::string::npos;
    if (expands && count_unknown_.empty()) count_unknown_ = std::move(written);
  }

  void NoteStop(Error error) {
    if (!stops_ && !walk_.maybe()) stops_ = std::move(error);
  }

  // "a,b" of a file with a line for each; empty: it is not at hand.
  std::string HostsOfFile(const std::string& path) const {
    const std::string* text = path.empty() ? nullptr : walk_.texts().Find(path);
    std::string hosts;
    for (const std::string_view line : Split(text == nullptr ? std::string_view() : *text, '\n')) {
      const std::string_view host = Trim(line);
      if (!host.empty() && host[0] != '#') hosts.append(hosts.empty() ? "" : ",").append(host);
    }
    return hosts;
  }

  // Each node's colossalai would reach all of the hosts by ssh.
  void NoteHosts(const std::vector<ShellWord>& words, std::size_t at) {
    if (ProgramOf(words[at]) != "colossalai") return;
    for (std::size_t i = at + 1; i < words.size(); ++i) {
      const std::string name = FlagName(words[i].value);
      if (words[i].value.ends_with(".py")) return;
      if (name != "host" && name != "H" && name != "hostfile") continue;
      std::string hosts = PathBehind(words, i);
      if (name == "hostfile") hosts = HostsOfFile(hosts);
      if (hosts.find(',') == std::string::npos) continue;
      const std::string count = std::to_string(ItemsOf(hosts));
      NoteStop({ErrorCode::kInvalidArgument,
                "run: colossalai " + words[i].value.substr(0, words[i].value.find('=')) +
                    " starts its processes on other hosts by ssh, out of launch's reach",
                "leave it out and write nodes: " + count +
                    ": launch starts the command on every node of the job itself",
                {}});
      return;
    }
  }

  static void TakeProcs(ProcsWord word, int number, bool total, WrittenCounts& out) {
    if (out.procs != ProcsWord::kNone) return;
    out.procs = word;
    out.procs_number = number;
    out.total = total;
  }

  static void TakeProcs(const std::string& value, bool total, WrittenCounts& out) {
    if (value == "gpu" || value == "xpu") {
      TakeProcs(ProcsWord::kGpu, 0, false, out);
    } else if (value == "auto") {
      TakeProcs(ProcsWord::kAuto, 0, false, out);
    } else if (value == kCoresOfNode) {
      TakeProcs(ProcsWord::kCpu, 0, false, out);
    } else if (const auto count = CountOf(value, 4096)) {
      TakeProcs(ProcsWord::kNumber, *count, total, out);
    }
  }

  bool TakeRead(const LauncherArguments& read, bool accelerate, WrittenCounts& out) {
    const bool known = read.procs != ProcsWord::kNone && read.procs != ProcsWord::kUnknown;
    // A total over machines was divided by them where they are written.
    if (known) TakeProcs(read.procs, read.procs_number, accelerate && !read.nodes_min, out);
    if (read.nodes_min && !out.nodes) out.nodes = read.nodes_min;
    return TakeDevices(out);
  }

  // "4", and torchx's "2x4": nodes and processes of each.
  static void TakeOwn(const std::string& value, const OwnLauncher& own, WrittenCounts& out) {
    if (IsLeftToBash(value)) return;
    const std::size_t by = value.find('x');
    if (by != std::string::npos && !out.nodes) out.nodes = CountOf(value.substr(0, by), 100'000);
    const std::string procs = by == std::string::npos ? value : value.substr(by + 1);
    const bool list = own.device_list || procs.find(',') != std::string::npos;  // --gpus 0,1
    TakeProcs(list ? std::to_string(ItemsOf(procs)) : procs, own.total, out);
  }

  // "--nnodes 2 --nproc_per_node=8" from words[first] on to the script.
  bool TakeFlags(const std::vector<ShellWord>& words, std::size_t first, const OwnLauncher& own,
                 WrittenCounts& out) {
    const std::size_t last = ScriptBehind(words, first);
    std::optional<int> world;
    for (std::size_t i = first; i < last; ++i) {
      const std::string name = FlagName(words[i].value);
      if (own.sign.ends_with('=') && words[i].value.starts_with(own.sign)) {
        const std::string value = words[i].value.substr(own.sign.size());
        if (IsLeftToBash(value)) continue;
        if (value.find(',') != std::string::npos) {
          TakeProcs(ProcsWord::kNumber, ItemsOf(value), false, out);
        } else {
          TakeProcs(value, own.total, out);
        }
      }
      if (name.empty()) continue;
      const std::size_t equals = words[i].value.find('=');
      ShellWord given = words[i];
      if (equals != std::string::npos) {
        given.value = words[i].value.substr(equals + 1);
      } else if (i + 1 < words.size()) {
        given = words[i + 1];
      }
      const auto value = FixedValue(given, Known());
      const bool procs = name == "nproc_per_node" || name == "num_gpus" || name == "nproc";
      if (procs && !value) NoteUnknownCount(words, i);
      const bool of_own = !own.procs.empty() && name == own.procs;
      if (!procs && of_own && (!value || IsLeftToBash(*value))) NoteUnknownCount(words, i);
      if (!value) continue;
      if (procs) TakeProcs(*value, false, out);
      if (!procs && of_own) TakeOwn(*value, own, out);
      if (!own.world.empty() && name == own.world) world = CountOf(*value, 1'000'000);
      const bool nodes = name == "nnodes" || name == "num_nodes" || name == "num_machines";
      if (nodes && !out.nodes) out.nodes = CountOf(*value, 100'000);
    }
    const auto set = own.place_from_env ? Known().find("WORLD_SIZE") : Known().end();
    if (!world && set != Known().end()) world = CountOf(set->second, 1'000'000);
    const bool shared = world && out.procs == ProcsWord::kNumber && *world % out.procs_number == 0;
    if (shared && !out.nodes) out.nodes = *world / out.procs_number;
    return TakeDevices(out);
  }

  // Those in front of the call, or exported.
  bool TakeDevices(WrittenCounts& out) {
    const auto visible = Known().find("CUDA_VISIBLE_DEVICES");
    if (visible == Known().end() || !IsDeviceList(visible->second)) return true;
    NoteForeignDevice(visible->second, "its launcher", foreign_devices_);
    if (out.devices) return true;
    out.devices = ItemsOf(visible->second);
    out.device_list = visible->second;
    return true;
  }

  // As node_launcher.py does, which stops there. A value in doubt is left to it.
  void NoteForeignDevice(const std::string& list, const std::string& of,
                         std::optional<Error>& found) {
    const bool sure = !walk_.maybe() && !walk_.MayDiffer("CUDA_VISIBLE_DEVICES");
    if (gpu_ids_.empty() || choosing_ || found || !sure) return;
    const std::vector<std::int64_t> named = NumbersOf(list);
    const auto foreign = std::ranges::find_if(named, [this](std::int64_t one) {
      return std::ranges::find(gpu_ids_, one) == gpu_ids_.end();
    });
    if (foreign == named.end()) return;
    found = Error{ErrorCode::kInvalidArgument,
                  "run: CUDA_VISIBLE_DEVICES=" + list + " of " + of + " names GPU " +
                      std::to_string(*foreign) + ", which is none of gpu_ids",
                  "write numbers of gpu_ids there, or leave CUDA_VISIBLE_DEVICES out",
                  {}};
  }

  // What programs that start torchrun take from their environment.
  void FromVariables(WrittenCounts& out) const {
    const auto procs = Known().find("NPROC_PER_NODE");
    if (procs != Known().end()) TakeProcs(procs->second, false, out);
    const auto nodes = Known().find("NNODES");
    if (nodes != Known().end() && !out.nodes) out.nodes = CountOf(nodes->second, 100'000);
  }

  // LAUNCHER="accelerate launch --num_processes 4": counts where no call is seen.
  void FromAssignments(const std::vector<ShellWord>& words) {
    for (const ShellWord& word : words) {
      const auto assignment = AssignmentOf(word);
      if (!assignment || assignment->value.value.find(' ') == std::string::npos) continue;
      nested_.Visit(assignment->value.value, [&](const ShellScript& inner) {
        if (inner.commands.empty()) return;
        launcher_seen_ = FromCall(inner.commands.front().words, assigned_) || launcher_seen_;
      });
    }
  }

  ShellWalk walk_;
  NestedTexts nested_;
  std::optional<AccelerateSettings> accelerate_;
  std::optional<NamedText> deepspeed_;
  bool sets_devices_ = false;
  bool program_sets_devices_ = false;
  bool bare_python_ = true;
  std::optional<Error> foreign_devices_;
  std::optional<Error> foreign_of_program_;
  std::optional<int> program_devices_;
  bool program_devices_open_ = false;
  bool launcher_seen_ = false;
  std::set<std::string, std::less<>> naming_;
  std::string refused_;
  std::optional<Error> stops_;
  std::string flag_unknown_;
  std::string count_unknown_;
  std::string told_program_;
  bool doubted_ = false;          // one of the calls
  bool reached_ = false;          // one of the calls, whatever the node is like
  bool choosing_ = false;         // the call is read with one of several values
  const std::string told_procs_;  // by the job
  const std::vector<int> gpu_ids_;
  WrittenCounts served_;
  std::string on_cpu_;
  std::string hostfile_unread_;
  WrittenCounts calls_;
  std::vector<PythonCall> python_;
  std::set<std::int64_t> together_;  // devices of commands at the same time
  bool calls_together_ = false;      // a launcher's
  bool left_together_ = false;       // those of a command in the background
  std::set<std::string, std::less<>> place_set_;
  const std::vector<ShellWord>* written_ = nullptr;  // words of the command at hand
  std::set<std::string, std::less<>> literals_;      // variables with one value on every node
  std::set<std::string, std::less<>> own_literals_;  // those of the command at hand alone
  std::string_view needs_world_;
  std::string_view one_node_rank_;
  WrittenCounts assigned_;
};

}  // namespace

WrittenCounts CountsIn(const ShellScript& script, const LaunchLineOptions& options) {
  CountReader decided(options, ShellWalk::Decides::kValues);
  decided.Walk(script);
  WrittenCounts counts = decided.Counts();
  if (counts.called) return counts;
  CountReader all(options, ShellWalk::Decides::kNone);
  all.Walk(script);
  if (!all.launcher_seen() || decided.launcher_seen()) {
    WrittenCounts open = all.Counts();
    open.doubted = open.doubted || std::exchange(open.sure, false);
    if (!counts.python.empty()) open.python = std::move(counts.python);
    if (counts.program_sets_devices) {  // as functions were called
      open.program_sets_devices = true;
      open.program_devices = counts.program_devices;
      open.program_devices_open = counts.program_devices_open;
      open.bare_python = counts.bare_python;
      open.foreign_of_program = std::move(counts.foreign_of_program);
    }
    return open;
  }
  CountReader sure(options, ShellWalk::Decides::kSure);
  sure.Walk(script);
  // What the text seems to rule out may still be what its author wants: a variable may come from
  // the shell that it was tried in.
  const bool ruled_out = std::ranges::all_of(
      all.naming(), [&](const std::string& command) { return sure.skipped().contains(command); });
  if (!sure.naming().empty() || !ruled_out) {
    counts = all.Counts();
    counts.doubted = counts.doubted || std::exchange(counts.sure, false);
    return counts;
  }
  counts = sure.Counts();
  counts.none_reached = true;
  return counts;
}

}  // namespace launch
