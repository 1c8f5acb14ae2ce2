#include "planner/line/launch_line.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/quoted.h"
#include "common/text.h"
#include "planner/line/accelerate_flags.h"
#include "planner/line/deepspeed_flags.h"
#include "planner/line/device_split.h"
#include "planner/line/launcher_notes.h"
#include "planner/line/launcher_words.h"
#include "planner/line/line_prefix.h"
#include "planner/line/node_line.h"
#include "planner/line/own_launchers.h"
#include "planner/line/pasted_text.h"
#include "planner/line/python_words.h"
#include "planner/line/refused_starters.h"
#include "planner/line/script_habits.h"
#include "planner/line/shell_notes.h"
#include "planner/line/shell_values.h"
#include "planner/line/task_runners.h"
#include "planner/line/torchrun_flags.h"
#include "planner/line/written_counts.h"

namespace launch {
namespace {

class LineReader {
 public:
  LineReader(const ShellScript& script, const LaunchLineOptions& options)
      : script_(script), options_(options), prefix_(options) {}

  Result<LaunchLine> Read(std::string_view text) {
    line_.uses = VariablesUsed(script_);
    line_.uses_arg_zero = UsesArgZero(script_);
    if (script_.commands.empty()) {
      return Fail(ErrorCode::kInvalidArgument, "run: there is no command in it",
                  "write the command that trains, e.g. run: python train.py");
    }
    if (options_.launcher == LauncherKind::kMpi) {
      return Fail(ErrorCode::kUnimplemented, "launcher: mpi is not in this version",
                  "write `launcher: process` if the program reads RANK and WORLD_SIZE");
    }
    LAUNCH_RETURN_IF_ERROR(CheckContinuations());
    LAUNCH_RETURN_IF_ERROR(CheckPasted(text, script_));
    const bool open = options_.launcher == LauncherKind::kAuto;
    if (!open && options_.launcher != LauncherKind::kProcess) {
      return ReadNodeLine(text, script_, options_, "launcher: " + Kind());
    }
    if (const auto place = FindPlace()) {
      Result<LaunchLine> line = ReadLauncherLine(*place);
      if (line || !open || line.error().code != ErrorCode::kUnimplemented) return line;
      return ReadNodeLine(text, script_, options_, ReasonOf(line.error()));
    }
    const WrittenCounts counts = open ? CountsIn(script_, options_) : WrittenCounts();
    if (const auto seen = FindLauncher(script_); seen && !counts.none_reached) {
      if (!open) {
        NotePerRank(*seen);
      } else if (IsWrapped(*seen)) {
        return ReadNodeLine(text, script_, options_, *seen + " in a script of several commands");
      } else if (StartsRanksItself(*seen)) {
        return ReadNodeLine(text, script_, options_, *seen + " starts its ranks itself");
      } else {
        return Fail(ErrorCode::kUnimplemented,
                    "run: it starts " + *seen + ", which launch cannot hold to a plan",
                    HintInsteadOf(*seen));
      }
    }
    if (open) {
      if (!counts.none_reached) {
        LAUNCH_ASSIGN_OR_RETURN(const std::string inside, LauncherBehind(counts));
        if (!inside.empty()) return ReadNodeLine(text, script_, options_, inside);
      }
      LAUNCH_RETURN_IF_ERROR(CheckTrainsHere(script_, counts.scripts));
      LAUNCH_RETURN_IF_ERROR(CheckScriptStays(script_, counts.scripts));
      LAUNCH_RETURN_IF_ERROR(CheckStartsHere(counts));
    }
    LAUNCH_ASSIGN_OR_RETURN(LaunchLine plain, ReadPlain(text));
    if (counts.none_reached)
      plain.read.emplace_back("the launcher in it is behind conditions that do not hold");
    const ScriptHabits habits = HabitsOf(plain, options_.files);
    if (const std::string submits = open ? SubmitsItself(plain, habits) : ""; !submits.empty()) {
      return Fail(ErrorCode::kUnimplemented,
                  "run: " + submits + " submits to Slurm, once for each process of the job",
                  "write the command that its jobs run: launch is the scheduler here");
    }
    if (auto finding = MaySubmit(plain, habits)) plain.warnings.push_back(std::move(*finding));
    if (const std::string submitter = open ? OnlySubmits(script_) : ""; !submitter.empty()) {
      return Fail(ErrorCode::kUnimplemented,
                  "run: " + submitter +
                      " hands the training to another scheduler, and the job would hold its GPUs "
                      "for nothing",
                  HintInsteadOf(submitter));
    }
    auto beside = open ? SubmitsBeside(script_) : std::nullopt;
    const bool python_file = plain.python || plain.script.ends_with(".py");
    auto own = StartsProcesses(plain, habits);
    if (!python_file) {
      own = OwnProcessesAmong(counts);
      if (own && own->beside_ranks) {
        if (open && !own->one_process) plain.warnings.push_back(StartsInEachProcess(*own));
        own.reset();
      }
    }
    if (!own && !counts.told_program.empty())
      own = OwnProcesses{.why = counts.told_program + ": it starts its processes itself"};
    if (!own) own = SpreadsOneModel(plain, habits, options_.files);
    if (open && own) return ReadOwnProcesses(text, *own, counts, MaySubmit(plain, habits));
    if (open) {
      LAUNCH_RETURN_IF_ERROR(TakeSplits(counts, plain));
      LAUNCH_RETURN_IF_ERROR(TakeProgramDevices(counts, plain));
    }
    TakeTrainerDevices(plain, options_);
    if (open && plain.procs == ProcsWord::kNone) TakeDevicesAmong(counts, plain);
    if (beside) plain.warnings.push_back(std::move(*beside));
    WarnOfScripts(counts, open, plain);
    plain.rank_means_several = habits.optional_rank;
    return plain;
  }

 private:
  TextsAt Texts() const { return {options_.files, prefix_.place()}; }
  const ShellCommand& Main() const { return script_.commands[main_]; }
  std::string Kind() const { return std::string(ToString(options_.launcher)); }

  // "run: " is the key of an error, not a part of a reason.
  static std::string ReasonOf(const Error& error) {
    return error.message.rfind("run: ", 0) == 0 ? error.message.substr(5) : error.message;
  }

  // A program of the text starts its processes itself: one process for a node. `submits`: the
  // warning of it, where it may submit to Slurm.
  Result<LaunchLine> ReadOwnProcesses(std::string_view text, const OwnProcesses& own,
                                      const WrittenCounts& counts, std::optional<Finding> submits) {
    if (own.one_rank) {
      return Fail(ErrorCode::kInvalidArgument,
                  "run: " + std::string(own.nodes_flag) + " " + std::to_string(*own.nodes) +
                      " with one " +
                      std::string(own.rank_flags.substr(0, own.rank_flags.find(' '))) +
                      ": launch starts run on every node, and each would be that machine",
                  "write " + std::string(own.rank_flags));
    }
    LAUNCH_ASSIGN_OR_RETURN(LaunchLine line,
                            ReadNodeLine(text, script_, options_, own.why, own.count));
    line.drives_all_gpus = own.one_process;
    if (own.nodes.value_or(1) > 1 && !line.nodes_min) line.nodes_min = line.nodes_max = own.nodes;
    TakeProgramDevices(counts, line);
    if (options_.gpus_open && own.one_process && !line.visible_devices)
      line.visible_devices =
          own.devices ? std::optional(own.devices->count) : DevicesNamedAmong(counts);
    if (own.devices) line.named_devices = own.devices;
    if (auto clusters = SeveralRayClusters(own)) line.warnings.push_back(std::move(*clusters));
    if (submits) line.warnings.push_back(std::move(*submits));
    return line;
  }

  // Of the text and of the scripts that it runs.
  void WarnOfScripts(const WrittenCounts& counts, bool open, LaunchLine& line) const {
    if (auto endless = EndlessAmong(script_, counts)) line.warnings.push_back(std::move(*endless));
    if (auto unread = UnreadScript(counts)) line.warnings.push_back(std::move(*unread));
    if (auto task = open ? UnreadTask(counts) : std::nullopt)
      line.warnings.push_back(std::move(*task));
    if (auto place = PlaceSet(counts)) line.warnings.push_back(std::move(*place));
    if (auto left = FilesLeftOut(counts, options_)) line.warnings.push_back(std::move(*left));
  }

  // "\\ " at the end of a line looks like a continuation and is none: what follows would be a
  // command of its own.
  Result<void> CheckContinuations() const {
    for (const ShellCommand& command : script_.commands) {
      // Also with a comment behind it.
      const bool broken =
          command.joiner == "\n" &&
          std::any_of(command.words.begin(), command.words.end(), [](const ShellWord& word) {
            return word.raw == "\\ " || word.raw.starts_with("\\ #");
          });
      if (!broken) continue;
      return Fail(ErrorCode::kInvalidArgument,
                  "run: line " + std::to_string(command.words.back().line) +
                      " ends with a backslash and a blank, which does not continue the line",
                  "remove the blank behind the backslash");
    }
    return {};
  }

  void NotePerRank(const std::string& seen) {
    line_.warnings.push_back(
        MakeFinding("launcher_per_rank", Severity::kWarning,
                    "run starts " + seen + ", and `launcher: process` starts it once per rank",
                    "leave launcher out if " + seen + " should start the ranks"));
  }

  // The first of the text's Python programs, also of scripts that it runs, that starts its
  // processes itself; else the first that drives all GPUs.
  std::optional<OwnProcesses> OwnProcessesAmong(const WrittenCounts& counts) const {
    std::optional<OwnProcesses> found;
    bool ranks = false;  // another program takes its place from its environment
    for (const PythonCall& call : counts.python) {
      const ShellScript one{{ShellCommand{call.words, {}, "", 0}}, false};
      LineReader reader(one, options_);
      if (!reader.ExecLast()) continue;
      reader.line_.place = call.place;
      const ScriptHabits habits = HabitsOf(reader.line_, options_.files);
      auto own = StartsProcesses(reader.line_, habits);
      ranks = ranks || (habits.takes_ranks && !own);
      if (own && (!found || (found->one_process && !own->one_process))) found = std::move(own);
    }
    if (found) found->beside_ranks = ranks;
    return found;
  }

  static Finding StartsInEachProcess(const OwnProcesses& own) {
    return MakeFinding("processes_per_node", Severity::kWarning,
                       own.why +
                           ", and another program of run reads its rank: run is started once "
                           "per rank, and each of them starts those processes",
                       "make a job of its own of it (depends_on), or write procs_per_node: 1");
  }

  // `python launch.py --ip_config hosts.txt ... "python train.py"` goes over ssh to the hosts.
  static Result<void> CheckStartsHere(const WrittenCounts& counts) {
    for (const PythonCall& call : counts.python) {
      const std::string flag = call.maybe ? std::string() : HostsOfCommand(call.words);
      if (flag.empty()) continue;
      return Fail(ErrorCode::kUnimplemented,
                  "run: " + flag +
                      " and a command behind it: the program starts the command on those hosts by "
                      "ssh, out of launch's reach",
                  "write the command itself: launch starts run on every node of the job, with "
                  "NODE_RANK, LAUNCH_NODE_IPS and MASTER_ADDR");
    }
    return {};
  }

  // By flags of a Python program that drives all its devices: "--gpu_ids 0,1,2,3".
  static std::optional<int> DevicesNamedAmong(const WrittenCounts& counts) {
    int most = 0;
    for (const PythonCall& call : counts.python) {
      const auto named = DevicesNamedIn(call.words, false);
      most = std::max(most, named ? named->count : 0);
    }
    return most > 1 ? std::optional(most) : std::nullopt;
  }

  // The most that a Python program of the text, also of scripts that it runs, has in its flags.
  void TakeDevicesAmong(const WrittenCounts& counts, LaunchLine& line) const {
    for (const PythonCall& call : counts.python) {
      const ShellScript one{{ShellCommand{call.words, {}, "", 0}}, false};
      LineReader reader(one, options_);
      if (!reader.ExecLast()) continue;
      reader.line_.read.clear();
      reader.line_.place = call.place;
      TakeTrainerDevices(reader.line_, options_);
      if (!line.named_devices) line.named_devices = reader.line_.named_devices;
      const bool counted = reader.line_.procs == ProcsWord::kNumber;
      if (!counted ||
          (line.procs == ProcsWord::kNumber && line.procs_number >= reader.line_.procs_number)) {
        continue;
      }
      if (line.procs == ProcsWord::kNone) AddRead(reader.line_.read, line);
      line.procs = ProcsWord::kNumber;
      line.procs_number = reader.line_.procs_number;
      line.procs_of_all_nodes = reader.line_.procs_of_all_nodes;
      if (!line.nodes_min) {
        line.nodes_min = reader.line_.nodes_min;
        line.nodes_max = reader.line_.nodes_max;
      }
    }
  }

  static void AddRead(const std::vector<std::string>& said, LaunchLine& line) {
    line.read.insert(line.read.end(), said.begin(), said.end());
  }

  // A text that starts a program for each GPU would do so in every process of the job.
  Result<void> TakeSplits(const WrittenCounts& counts, LaunchLine& line) const {
    LAUNCH_RETURN_IF_ERROR(TakeSplit(script_, "it", false, line));
    for (const auto& [shown, text, maybe] : counts.scripts) {
      if (const auto script = ReadShell(text))
        LAUNCH_RETURN_IF_ERROR(TakeSplit(*script, shown, maybe, line));
    }
    return {};
  }

  // `maybe`: the text may not be reached.
  Result<void> TakeSplit(const ShellScript& script, const std::string& where, bool maybe,
                         LaunchLine& line) const {
    const auto split = DeviceSplitOf(script);
    if (!split) return {};
    const auto told = options_.told.find("NPROC_PER_NODE");
    const bool several = told != options_.told.end() && told->second != "1";
    if (maybe || split->maybe) {
      if (several && !options_.gpu_per_rank) line.warnings.push_back(MayStartEach(*split, where));
      return {};
    }
    if (several && !options_.gpu_per_rank) {
      return Fail(ErrorCode::kInvalidArgument,
                  "run: " + where + " starts a program for each GPU at the same time (" +
                      split->assignment + "), and every process of the job would do so",
                  HintInsteadOfSplit(*split));
    }
    if (split->by_flags && GpusOf(*split) > 1)
      line.named_devices = NamedDevices{split->assignment, GpusOf(*split)};
    if (options_.gpus_open && split->devices.size() > 1 && line.procs == ProcsWord::kNone) {
      line.procs = ProcsWord::kNumber;
      line.procs_number = 1;
      line.visible_devices = GpusOf(*split);
      line.drives_all_gpus = true;
      line.read.push_back(split->assignment + ": the text starts a program for each GPU itself");
    }
    return {};
  }

  // Ray of its own on every node knows nothing of the others.
  std::optional<Finding> SeveralRayClusters(const OwnProcesses& own) const {
    const auto told = options_.told.find("NNODES");
    const bool several = told != options_.told.end() && told->second != "1";
    if (!own.ray || (!several && own.ray_nodes == 1)) return std::nullopt;
    return MakeFinding(
        "several_ray_clusters", Severity::kWarning,
        "the program asks one Ray cluster for its processes" +
            (own.ray_nodes > 1 ? " on " + std::to_string(own.ray_nodes) + " nodes" : "") +
            ", and launch starts run on every node of the job: each would begin a cluster of its "
            "own",
        "start Ray in run: `ray start --head` and then the program where NODE_RANK is 0, `ray "
        "start --address=$MASTER_ADDR:6379 --block` elsewhere; or write nodes: 1");
  }

  static Finding MayStartEach(const DeviceSplit& split, const std::string& where) {
    return MakeFinding("visible_devices_set", Severity::kWarning,
                       (where == "it" ? "run" : where) +
                           " may start a program for each GPU at the same time (" +
                           split.assignment + "), and every process of the job would do so",
                       HintInsteadOfSplit(split));
  }

  // What a script sets of a rank's place is that of all its ranks, or of all nodes. Of the line
  // itself it was left out.
  std::optional<Finding> PlaceSet(const WrittenCounts& counts) const {
    constexpr std::array<std::string_view, 3> kOfNodes = {"MASTER_ADDR", "MASTER_PORT",
                                                          "NODE_RANK"};
    const auto several = [this](std::string_view name) {
      const auto told = options_.told.find(name);
      return told != options_.told.end() && told->second != "1";
    };
    if (counts.scripts.empty() || (!several("NNODES") && !several("NPROC_PER_NODE"))) return {};
    std::vector<std::string> names;
    for (const std::string& name : counts.place_set) {
      const bool of_nodes = std::ranges::find(kOfNodes, name) != kOfNodes.end();
      if (!of_nodes || (name != "MASTER_PORT" && several("NNODES"))) names.push_back(name);
    }
    if (names.empty()) return {};
    return MakeFinding("rank_variables_set", Severity::kWarning,
                       counts.scripts.front().shown + " sets " + Joined(names, ", ") +
                           " itself: every process of the job would get that value",
                       "leave it out, or write ${" + names.front() +
                           ":-...} to keep what the "
                           "start gives");
  }

  // `make train`, as the last command of the text or of a script that it runs.
  std::optional<Finding> UnreadTask(const WrittenCounts& counts) const {
    std::string task = counts.python.empty() ? LastTaskOf(script_) : std::string();
    for (const auto& [shown, text, maybe] : counts.scripts) {
      const auto script = ReadShell(text);
      if (script && task.empty() && counts.python.empty()) task = LastTaskOf(*script);
    }
    const bool read = std::ranges::any_of(
        counts.scripts, [&task](const auto& called) { return called.shown == task; });
    if (task.empty() || read) return std::nullopt;
    return MakeFinding("script_unread", Severity::kNotice,
                       "what " + task +
                           " starts is not read: run is started once per rank, and a launcher "
                           "called there would be stopped",
                       "write what it runs as run, or gpus: N and launcher: node if it calls "
                       "torchrun, deepspeed or accelerate");
  }

  // Of programs that no launcher starts.
  Result<void> TakeProgramDevices(const WrittenCounts& counts, LaunchLine& line) const {
    if (options_.gpus_open && !line.visible_devices) line.visible_devices = counts.program_devices;
    // Those in front of a command that becomes the rank itself were replaced. With a value of its
    // own for each rank (`CUDA_VISIBLE_DEVICES=$LOCAL_RANK`) the text divides the devices itself.
    const auto told = options_.told.find("NPROC_PER_NODE");
    const bool one = (told != options_.told.end() && told->second == "1") ||
                     (line.procs == ProcsWord::kNumber && line.procs_number == 1);
    line.maps_devices = line.wrappers && counts.program_sets_devices && counts.bare_python &&
                        !options_.gpu_per_rank && (one || !counts.program_devices_open);
    if (line.maps_devices) {
      line.reads_devices = ReadsDevices(script_, counts);
      if (counts.foreign_of_program && !line.reads_devices)
        return Unexpected(*counts.foreign_of_program);
      std::erase_if(line.warnings,
                    [](const Finding& one) { return one.code == "visible_devices_set"; });
      line.warnings.push_back(DevicesReplaced(counts.program_devices, options_, "Python"));
      return {};
    }
    const bool said = std::any_of(line.warnings.begin(), line.warnings.end(), [](const auto& one) {
      return one.code == "visible_devices_set";
    });
    if (said || !counts.program_sets_devices) return {};
    const std::string where = counts.scripts.empty() ? "run" : counts.scripts.front().shown;
    line.warnings.push_back(
        MakeFinding("visible_devices_set", Severity::kWarning,
                    where + " sets CUDA_VISIBLE_DEVICES itself, against the devices the job gets",
                    "leave it out; for particular devices write gpu_ids"));
    return {};
  }

  // cd, export and set in front, then one command; at most `| tee FILE`, `&` and `wait` behind it.
  bool IsOneCommandAfterPreparation() {
    if (script_.compound) return false;
    const auto& commands = script_.commands;
    std::size_t main = 0;
    while (main + 1 < commands.size() && IsPreparation(commands[main])) ++main;
    main_ = main;
    tee_ = false;
    background_ = false;
    std::size_t last = main;
    if (commands[main].joiner == "|") {
      const bool tee = main + 1 < commands.size() && !commands[main + 1].words.empty() &&
                       commands[main + 1].words[0].raw == "tee";
      if (!tee) return false;
      tee_ = true;
      ++last;
    }
    background_ = commands[last].joiner == "&";
    if (last + 1 == commands.size()) return background_ || commands[last].joiner.empty();
    const ShellCommand& next = commands[last + 1];
    return background_ && last + 2 == commands.size() && next.words.size() == 1 &&
           next.words[0].raw == "wait";
  }

  struct Place {
    LauncherPlace launcher;
    LauncherKind kind = LauncherKind::kTorchrun;
  };

  std::optional<Place> FindPlace() {
    if (!IsOneCommandAfterPreparation()) return std::nullopt;
    parts_ = PartsOf(Main());
    if (parts_.first >= Main().words.size()) return std::nullopt;
    if (const auto place = FindTorchrun(Main().words, parts_.first))
      return Place{*place, LauncherKind::kTorchrun};
    if (const auto place = FindDeepspeed(Main().words, parts_.first))
      return Place{*place, LauncherKind::kDeepspeed};
    if (const auto place = FindAccelerate(Main().words, parts_.first))
      return Place{*place, LauncherKind::kAccelerate};
    return std::nullopt;
  }

  Result<LauncherArguments> ReadFlags(const Place& place) {
    const std::vector<ShellWord>& words = Main().words;
    const std::size_t first = place.launcher.first_flag;
    if (place.kind == LauncherKind::kDeepspeed) {
      return ReadDeepspeed(words, first, prefix_.known(), Texts());
    }
    if (place.kind == LauncherKind::kTorchrun) {
      return ReadTorchrun(words, first, place.launcher.launch_module, prefix_.known());
    }
    LAUNCH_ASSIGN_OR_RETURN(AccelerateArguments read,
                            ReadAccelerate(words, first, prefix_.known(), Texts()));
    line_.env = AccelerateEnvironment(read.settings);
    gpu_ids_ = read.gpu_ids;
    if (read.cpu) line_.on_cpu = "accelerate's --cpu or use_cpu";
    if (!read.settings.file.empty()) {
      line_.read.push_back(read.settings.file + ": settings of accelerate read, kept as they are");
    }
    if (auto finding = UnknownKeys(read.settings)) line_.warnings.push_back(std::move(*finding));
    line_.accelerate = std::move(read.settings);
    return std::move(read.arguments);
  }

  Result<LaunchLine> ReadLauncherLine(const Place& place) {
    prefix_.ReadPreparation(script_, main_);
    const std::string prefix = prefix_.Assignments(parts_);
    const std::vector<ShellWord>& words = Main().words;
    LAUNCH_ASSIGN_OR_RETURN(LauncherArguments arguments, ReadFlags(place));
    if (prefix_.sets_path() && place.launcher.launcher.find('/') == std::string::npos &&
        place.launcher.interpreter.empty() && !arguments.no_python) {
      return Fail(ErrorCode::kUnimplemented,
                  "run: it sets PATH, so only the node knows where " + place.launcher.launcher +
                      " and its interpreter are",
                  "write the launcher with its whole path, or venv: or conda: in the job");
    }
    if (const ShellWord& script = words[arguments.script]; BeginsWithOtherDash(script)) {
      return Fail(ErrorCode::kInvalidArgument,
                  "run: `" + script.raw + "` begins with a dash that " +
                      std::string(ToString(place.kind)) +
                      " does not take for `-`: it would be the script",
                  "write `-` or `--`");
    }
    LAUNCH_RETURN_IF_ERROR(CheckScriptWord(place, arguments));
    line_.launcher = place.kind;
    line_.place = prefix_.place();
    line_.procs = arguments.procs;
    line_.procs_number = arguments.procs_number;
    line_.procs_of_all_nodes = place.kind == LauncherKind::kAccelerate && !arguments.nodes_min;
    line_.nodes_min = arguments.nodes_min;
    line_.nodes_max = arguments.nodes_max;
    line_.role = arguments.role;
    line_.visible_devices = prefix_.visible_devices();
    // More of them than processes: each process has several.
    if (gpu_ids_ && line_.procs == ProcsWord::kNumber && *gpu_ids_ > line_.procs_number)
      line_.visible_devices = gpu_ids_;
    if (WhichOf(words[arguments.script].raw).empty()) line_.script = words[arguments.script].value;
    line_.module = arguments.module;
    line_.python = !arguments.no_python;
    std::vector<ShellWord> behind(words.begin() + static_cast<std::ptrdiff_t>(arguments.script) + 1,
                                  words.end());
    // argparse takes the first "--" behind the script away.
    if (!behind.empty() && behind[0].raw == "--") behind.erase(behind.begin());
    // What the line itself gives a variable is known to who reads the script's flags: the words of
    // $ARGS are several. The shell of the rank cuts them itself.
    line_.arguments = WordSplitter().Split(behind, prefix_.known());
    for (ShellWord& word : line_.arguments) {
      auto value = word.fixed ? std::nullopt : FixedValue(word, prefix_.known());
      if (!value) continue;
      word.value = std::move(*value);
      word.fixed = true;
    }
    if (place.kind == LauncherKind::kTorchrun) TakeDrivenDevices(arguments);
    line_.shell = prefix_.preparation() + prefix + "exec " +
                  CommandOf(arguments, place.launcher, words[arguments.script], behind);
    // $0 of the text is that of `bash -c`, by which scripts know where they stand.
    if (line_.interpreter_first && line_.uses_arg_zero)
      line_.shell = std::string(kInterpreterBehindZero) + line_.shell;
    line_.read.insert(line_.read.begin(), std::string(ToString(place.kind)) + " line read");
    AddWarnings(prefix_.warnings());
    line_.shell += KeptRedirects();
    AddWarnings(LauncherNotes(arguments, place.kind, prefix_.overridden()));
    if (arguments.hostfile_unread) line_.hostfile_unread = arguments.hostfile;
    if (options_.gpus_open) AddWarnings(OpenCountNotes(arguments.procs, place.kind));
    if (!place.launcher.interpreter.empty()) {
      line_.read.push_back("interpreter " + place.launcher.interpreter + " of the line");
    }
    return std::move(line_);
  }

  // `python -m torch.distributed.launch train.py --gpu_ids 0,1,2,3`: one process, as the launcher
  // starts by itself, whose script drives them. More of them would each take all.
  void TakeDrivenDevices(LauncherArguments& arguments) {
    if (arguments.procs != ProcsWord::kNone || options_.procs_written) return;
    const auto given = DeviceGivenIn(line_.arguments);
    const auto devices = given ? DevicesInList(given->value) : std::nullopt;
    if (devices.value_or(1) == 1) return;
    arguments.procs = line_.procs = ProcsWord::kNumber;
    arguments.procs_number = line_.procs_number = 1;
    line_.drives_all_gpus = true;
    if (options_.gpus_open && !line_.visible_devices) line_.visible_devices = devices;
    line_.read.push_back("no --nproc-per-node: one process, as torchrun starts by itself, drives " +
                         given->shown);
  }

  // A page's dots, or the launcher once more.
  Result<void> CheckScriptWord(const Place& place, const LauncherArguments& arguments) const {
    const std::vector<ShellWord>& words = Main().words;
    const ShellWord& script = words[arguments.script];
    const std::string launcher(ToString(place.kind));
    if (script.value == "...") return PlaceholderLeft(script.raw);
    const bool again =
        !arguments.no_python && !arguments.module &&
        (FindTorchrun(words, arguments.script) || FindDeepspeed(words, arguments.script) ||
         FindAccelerate(words, arguments.script));
    if (!again) return {};
    return Fail(ErrorCode::kInvalidArgument,
                "run: `" + script.raw + "` stands where " + launcher +
                    " takes its script: the line has two launchers",
                "leave one of them out");
  }

  // The interpreter that the node fills in.
  std::string InterpreterWord() const {
    return line_.uses_arg_zero ? "\"$launch_python\"" : "\"$0\"";
  }

  // The program of one rank, with the interpreter that the launcher would have given it.
  std::string CommandOf(const LauncherArguments& arguments, const LauncherPlace& place,
                        const ShellWord& script, const std::vector<ShellWord>& behind) {
    std::string command;
    if (arguments.no_python) {
      line_.command_word = script.fixed ? script.value : "";
    } else if (place.interpreter.empty()) {
      line_.interpreter_first = true;
      line_.interpreter_of = place.launcher;
      command = InterpreterWord() + " -u ";
    } else {
      line_.command_word = place.interpreter;
      command = ShellQuote(place.interpreter) + " -u ";
    }
    if (arguments.module) command += "-m ";
    command += script.raw;
    if (options_.local_rank_arg) {
      command += LocalRankArgument("--local_rank");
    } else if (!arguments.local_rank_flag.empty()) {
      command += LocalRankArgument(arguments.local_rank_flag);
    }
    for (std::size_t i = 0; i < behind.size(); ++i) {
      if (const std::size_t replaced = ReplacedLocalRank(behind, i)) {
        i += replaced - 1;
      } else {
        command += " " + behind[i].raw;
      }
    }
    return command;
  }

  // torch.distributed.launch passes --local_rank before torch 2.0 and --local-rank since: the
  // script gets the one that it reads.
  std::string LocalRankArgument(const std::string& usual) {
    const std::string own = LocalRankFlagOf(line_, options_.files);
    const bool other = !own.empty() && own != usual;
    if (other)
      line_.read.push_back(line_.script + " reads " + own + ": it gets that, not " + usual);
    return " " + (other ? own : usual) + "=$LOCAL_RANK";
  }

  // Words of a --local_rank that local_rank_arg gives in its place: of two the last would count.
  std::size_t ReplacedLocalRank(const std::vector<ShellWord>& words, std::size_t i) const {
    const std::string& word = words[i].value;
    if (!options_.local_rank_arg) return 0;
    if (word.starts_with("--local_rank=") || word.starts_with("--local-rank=")) return 1;
    const bool apart = word == "--local_rank" || word == "--local-rank";
    if (!apart) return 0;
    return i + 1 < words.size() && !words[i + 1].value.starts_with('-') ? 2 : 1;
  }

  std::string TeeText() const {
    std::string text = "|";
    for (const ShellWord& word : script_.commands[main_ + 1].words) text += " " + word.raw;
    return text;
  }

  void AddWarnings(const std::vector<Finding>& warnings) {
    line_.warnings.insert(line_.warnings.end(), warnings.begin(), warnings.end());
  }

  // Ranks of one node writing one file would overwrite each other, and `| tee` hides the exit code.
  std::string KeptRedirects() {
    std::vector<std::string> dropped;
    std::string kept;
    for (const ShellRedirect& redirect : Main().redirects) {
      if (redirect.output) {
        dropped.push_back(redirect.raw);
      } else if (redirect.raw != "2>&1") {
        kept += " " + redirect.raw;
      }
    }
    if (tee_) dropped.push_back(TeeText());
    if (background_) dropped.emplace_back("&");
    if (!dropped.empty()) {
      line_.warnings.push_back(MakeFinding(
          "output_redirected", Severity::kWarning,
          Joined(dropped, " ") + " is left out: each rank has a log of its own, and the job ends "
                                 "when its ranks do",
          "read the output with launch logs JOB [--rank R]"));
    }
    return kept;
  }

  Result<LaunchLine> ReadPlain(std::string_view text) {
    line_.launcher = LauncherKind::kProcess;
    if (ExecLast()) {
      line_.wrappers = !ShellScriptOf(Main()).empty();
      return std::move(line_);
    }
    line_.wrappers = true;
    for (const ShellCommand& command : script_.commands) {
      for (const ShellWord& word : command.words) {
        const auto assignment = AssignmentOf(word);
        if (assignment && assignment->name == "CUDA_VISIBLE_DEVICES" && line_.warnings.empty()) {
          line_.warnings.push_back(
              MakeFinding("visible_devices_set", Severity::kWarning,
                          "run sets CUDA_VISIBLE_DEVICES itself, against the devices the job gets",
                          "leave it out; for particular devices write gpu_ids"));
        }
      }
    }
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
    line_.shell = std::string(text) + WaitBehind(script_);
    AddWarnings(HiddenStatus(script_));
    AddWarnings(LoginShellNotes(script_));
    line_.read.push_back("script");
    return std::move(line_);
  }

  // One command after cd and assignments becomes the rank's process itself: signals reach it and
  // its exit code is the rank's. False: it is a builtin or part of something larger.
  bool ExecLast() {
    if (!IsOneCommandAfterPreparation() || Main().words.empty()) return false;
    const CommandParts parts = PartsOf(Main());
    if (parts.first >= Main().words.size()) return false;
    const ShellWord& word = Main().words[parts.first];
    if (IsShellBuiltin(word.raw)) return false;
    prefix_.ReadPreparation(script_, main_);
    line_.place = prefix_.place();
    const std::string prefix = prefix_.Assignments(parts);
    line_.visible_devices = prefix_.visible_devices();
    AddWarnings(prefix_.warnings());
    const std::string command = PlainCommand(parts);
    if (!prefix_.overridden().empty()) {
      line_.warnings.push_back(MakeFinding(
          "launcher_flags_replaced", Severity::kWarning,
          Joined(prefix_.overridden(), ", ") + " in run is replaced by the value of the plan",
          "leave it out"));
    }
    line_.shell = prefix_.preparation() + prefix + "exec " + command;
    if (line_.interpreter_first && line_.uses_arg_zero)
      line_.shell = std::string(kInterpreterBehindZero) + line_.shell;
    const bool elsewhere =
        prefix_.preparation().find("cd ") != std::string::npos || prefix_.sets_path();
    const bool by_path = word.value.find('/') != std::string::npos;
    if (line_.interpreter_first) {
      line_.command_word.clear();  // what preflight asks for is the interpreter
    } else if ((word.fixed && !elsewhere) || (line_.python && !by_path && !prefix_.sets_path()))
      line_.command_word = word.value;
    line_.arguments.assign(Main().words.begin() + static_cast<std::ptrdiff_t>(parts.first) + 1,
                           Main().words.end());
    for (const ShellRedirect& redirect : Main().redirects) {
      if (!redirect.output) continue;
      line_.warnings.push_back(MakeFinding(
          "output_redirected", Severity::kWarning,
          redirect.raw + ": the output goes to that file, and every rank writes the same one",
          "leave it out and read launch logs JOB"));
    }
    if (background_) {
      line_.warnings.push_back(MakeFinding(
          "output_redirected", Severity::kWarning,
          "& is left out: the job would end while the command still runs", "leave it out"));
    }
    if (tee_) {
      line_.warnings.push_back(MakeFinding(
          "output_redirected", Severity::kWarning,
          TeeText() +
              " is left out: it would hide the exit code, and every rank write the same file",
          "read the output with launch logs JOB [--rank R]"));
    }
    line_.read.push_back("plain command");
    return true;
  }

  std::string PlainCommand(const CommandParts& parts) {
    const std::vector<ShellWord>& words = Main().words;
    line_.python = IsPython(words[parts.first].value);
    const auto program = line_.python ? PythonProgramOf(words, parts.first) : std::nullopt;
    if (program) {
      const bool module = program->runs == PythonRuns::kModule;
      line_.script = module ? "-m" : words[program->word].value;
    }
    std::string command;
    const std::string& interpreter = words[parts.first].raw;
    line_.interpreter_first = options_.names_python && !prefix_.sets_path() &&
                              (interpreter == "python" || interpreter == "python3");
    for (std::size_t i = parts.first; i < words.size(); ++i) {
      const bool argument = program && i >= program->behind;
      if (const std::size_t replaced = argument ? ReplacedLocalRank(words, i) : 0) {
        i += replaced - 1;
        continue;
      }
      const bool named_by_job = line_.interpreter_first && i == parts.first;
      command += (command.empty() ? "" : " ") + (named_by_job ? InterpreterWord() : words[i].raw);
      if (options_.local_rank_arg && program && i + 1 == program->behind) {
        command += LocalRankArgument("--local_rank");
      }
    }
    for (const ShellRedirect& redirect : Main().redirects) command += " " + redirect.raw;
    // ./train.py, by its first line.
    if (!line_.python && words[parts.first].fixed && words[parts.first].value.ends_with(".py"))
      line_.script = words[parts.first].value;
    return command;
  }

  const ShellScript& script_;
  const LaunchLineOptions& options_;
  LinePrefix prefix_;
  std::size_t main_ = 0;
  bool tee_ = false;         // `| tee FILE` behind the main command
  bool background_ = false;  // `&` behind it
  CommandParts parts_;
  std::optional<int> gpu_ids_;  // of accelerate, as a count
  LaunchLine line_;
};

}  // namespace

Result<LaunchLine> ReadLaunchLine(std::string_view run, const LaunchLineOptions& options) {
  run = WithoutByteOrderMark(run);
  LAUNCH_ASSIGN_OR_RETURN(const ShellScript script, ReadShell(run));
  LAUNCH_ASSIGN_OR_RETURN(LaunchLine line, LineReader(script, options).Read(run));
  if (auto finding = PastedCharacters(script)) line.warnings.push_back(std::move(*finding));
  if (auto finding = DevicesSetIn(line, options.files))
    line.warnings.push_back(std::move(*finding));
  const auto nodes = options.told.find("NNODES");
  const bool one = nodes == options.told.end() || nodes->second == "1";
  if (one && !line.hostfile_unread.empty())
    line.warnings.push_back(HostfileUnread(line.hostfile_unread));
  return line;
}

}  // namespace launch
