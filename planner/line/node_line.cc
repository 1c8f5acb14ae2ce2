#include "planner/line/node_line.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "planner/line/endless_commands.h"
#include "planner/line/launcher_notes.h"
#include "planner/line/launcher_words.h"
#include "planner/line/line_prefix.h"
#include "planner/line/own_launchers.h"
#include "planner/line/pasted_text.h"
#include "planner/line/rank_branches.h"
#include "planner/line/refused_starters.h"
#include "planner/line/shell_notes.h"
#include "planner/line/shell_walk.h"
#include "planner/line/written_counts.h"

namespace launch {

bool ReadsDevices(const ShellScript& script, const WrittenCounts& counts) {
  const auto reads = [](const ShellScript& one) {
    return std::ranges::any_of(
        VariablesUsed(one), [](const ShellUse& use) { return use.name == "CUDA_VISIBLE_DEVICES"; });
  };
  return reads(script) || std::ranges::any_of(counts.scripts, [&](const auto& called) {
           const auto inner = ReadShell(called.text);
           return inner && reads(*inner);
         });
}

namespace {

// What node_launcher.py makes of the numbers at the launcher's call.
std::string DevicesMeant(const WrittenCounts& counts, const LaunchLineOptions& options) {
  const std::string list = "CUDA_VISIBLE_DEVICES=" + counts.device_list + " of the launcher";
  return options.gpu_ids.empty() ? list + ": places among the job's GPUs"
                                 : list + ": numbers of gpu_ids";
}

}  // namespace

Finding DevicesReplaced(std::optional<int> count, const LaunchLineOptions& options,
                        std::string_view called) {
  return MakeFinding("visible_devices_set", Severity::kWarning,
                     "run sets CUDA_VISIBLE_DEVICES itself, against the devices the job gets: " +
                         (count ? "read as a count (" + std::to_string(*count) + ")"
                                : std::string("how many is not known here")) +
                         ", and replaced by the job's devices of these " +
                         (options.gpu_ids.empty() ? "places" : "numbers") + " where " +
                         std::string(called) + " is called",
                     "leave it out; for particular devices write gpu_ids");
}

namespace {

// A number that may not be that of the call: where nobody else wrote one, node_launcher.py compares
// the two. Of calls one behind the other each gets the number of the plan.
bool IsHeldToOwnCount(const WrittenCounts& counts, const LaunchLineOptions& options) {
  return options.gpus_open && counts.procs == ProcsWord::kNumber && counts.doubted;
}

void TakeCounts(const WrittenCounts& counts, const LaunchLineOptions& options, LaunchLine& line) {
  if (line.procs == ProcsWord::kNone) {
    line.procs = counts.procs;
    line.procs_number = counts.procs_number;
    line.procs_of_all_nodes = counts.total;
    line.procs_sure = counts.sure;
  }
  if (counts.nodes && *counts.nodes > 1 && !line.nodes_min) {
    line.nodes_min = line.nodes_max = counts.nodes;
  }
  if (counts.accelerate && !counts.accelerate->file.empty()) {
    line.read.push_back(counts.accelerate->file +
                        ": settings of accelerate read, kept as they are");
  }
  line.accelerate = counts.accelerate;
  if (auto finding = line.accelerate ? UnknownKeys(*line.accelerate) : std::nullopt)
    line.warnings.push_back(std::move(*finding));
  line.deepspeed = counts.deepspeed;
  line.hostfile_unread = counts.hostfile_unread;
  line.on_cpu = counts.on_cpu;
  if (counts.other_procs && line.procs_number == counts.procs_number) {
    line.warnings.push_back(
        MakeFinding("processes_per_node", Severity::kWarning,
                    "calls inside run ask for " + std::to_string(*counts.other_procs) + " and " +
                        std::to_string(counts.procs_number) + " processes: each of them gets the " +
                        "number of the plan",
                    "write procs_per_node in the job, or submit a job for each call"));
  }
  const bool beside = line.procs == ProcsWord::kNumber && counts.procs == ProcsWord::kNumber &&
                      !counts.count_unknown.empty();
  if (beside) {
    line.warnings.push_back(MakeFinding(
        "processes_per_node", Severity::kWarning,
        "calls inside run ask for " + std::to_string(counts.procs_number) +
            " processes and for a number that is not known here (" + counts.count_unknown + "): " +
            (IsHeldToOwnCount(counts, options)
                 ? "one that asks for another number than the plan's stops"
                 : "each of them gets the number of the plan"),
        "write procs_per_node in the job, or submit a job for each call"));
  }
  line.visible_devices = counts.devices;
  const bool of_programs = counts.program_sets_devices && !counts.launcher;
  line.maps_devices = of_programs && counts.bare_python;
  if (of_programs) {
    line.visible_devices = counts.program_devices;
    line.warnings.push_back(
        line.maps_devices
            ? DevicesReplaced(counts.program_devices, options, "a Python program")
            : MakeFinding("visible_devices_set", Severity::kWarning,
                          "run sets CUDA_VISIBLE_DEVICES itself, against the devices the job gets",
                          "leave it out; for particular devices write gpu_ids"));
    return;
  }
  if (!counts.devices && !counts.sets_devices) return;
  if (!counts.device_list.empty()) line.read.push_back(DevicesMeant(counts, options));
  const bool of_job =
      !options.gpu_ids.empty() && std::ranges::all_of(counts.together, [&](std::int64_t one) {
        return std::ranges::find(options.gpu_ids, one) != options.gpu_ids.end();
      });
  if (!counts.device_list.empty() && of_job) return;
  if (!counts.together.empty()) {
    std::string ids;
    for (const std::int64_t id : counts.together)
      ids += (ids.empty() ? "" : ", ") + std::to_string(id);
    line.warnings.push_back(MakeFinding(
        "visible_devices_set", Severity::kWarning,
        "run sets CUDA_VISIBLE_DEVICES of its launcher and of what runs beside it: read as a count "
        "(" +
            std::to_string(counts.together.size()) +
            "), and the program in the background gets those that are written",
        "write gpu_ids: [" + ids + "], so that these are the devices of the job"));
    return;
  }
  line.warnings.push_back(DevicesReplaced(counts.devices, options, "a launcher"));
}

// A word is a word, wherever it stands; empty: none.
std::string MentionedLauncher(const std::string& text) {
  for (const char* name : {"torchrun", "torch.distributed", "accelerate launch", "deepspeed "}) {
    if (text.find(name) != std::string::npos) return name;
  }
  return {};
}

// `docker run img torchrun ...` mentions a launcher that is out of reach.
std::string WithoutCallsOf(const std::string& refused, const std::string& text) {
  const auto script = ReadShell(text);
  const bool container = refused.ends_with(" run") || refused.ends_with(" exec");
  if (!script || !container) return text;
  std::string rest;
  for (const ShellCommand& command : script->commands)
    if (FindLauncher(command) != refused) rest += RawText(command) + "\n";
  return rest;
}

std::string LauncherIn(const std::string& text) {
  const auto script = ReadShell(text);
  return script ? FindLauncher(*script).value_or(std::string()) : MentionedLauncher(text);
}

// The first script that calls a launcher, in words.
Result<std::string> LauncherAmong(const std::vector<ShellWalk::CalledText>& scripts) {
  for (const auto& [shown, text, maybe] : scripts) {
    const std::string seen = LauncherIn(text);
    if (seen.empty()) continue;
    if (IsWrapped(seen) || StartsRanksItself(seen)) return shown + " calls " + seen;
    // One way of several may be refused: `if slurm; then srun ...; else torchrun ...`.
    const std::string other = MentionedLauncher(WithoutCallsOf(seen, text));
    if (!other.empty()) return shown + " calls " + other;
    return Fail(ErrorCode::kUnimplemented,
                "run: " + shown + " starts " + seen + ", which launch cannot hold to a plan",
                HintInsteadOf(seen));
  }
  return std::string();
}

std::set<std::string, std::less<>> LaunchingAmong(
    const std::vector<ShellWalk::CalledText>& scripts) {
  std::set<std::string, std::less<>> names;
  for (const auto& [shown, text, maybe] : scripts)
    if (IsWrapped(LauncherIn(text))) names.insert(shown);
  return names;
}

// What is said of script files that the text runs, as far as they are at hand.
std::vector<Finding> HiddenInScripts(const std::vector<ShellWalk::CalledText>& scripts) {
  for (const auto& [shown, text, maybe] : scripts) {
    const auto inner = ReadShell(text);
    if (!inner) continue;
    std::vector<Finding> hidden = HiddenStatus(*inner, shown);
    std::erase_if(hidden, [](const Finding& one) { return one.code == "background"; });
    if (!hidden.empty()) return hidden;
  }
  return {};
}

}  // namespace

namespace {

// The last script of the text, where it is at hand.
std::optional<ShellScript> LastScript(const ShellScript& script,
                                      const std::vector<ShellWalk::CalledText>& scripts) {
  const std::string path =
      script.commands.empty() ? std::string() : ShellScriptOf(script.commands.back());
  const auto called = std::find_if(scripts.begin(), scripts.end(),
                                   [&](const auto& one) { return one.shown == path; });
  if (called == scripts.end()) return std::nullopt;
  auto inner = ReadShell(called->text);
  return inner ? std::optional(std::move(*inner)) : std::nullopt;
}

}  // namespace

Result<void> CheckTrainsHere(const ShellScript& script,
                             const std::vector<ShellWalk::CalledText>& scripts) {
  const auto inner = LastScript(script, scripts);
  const bool alone = inner && script.commands.size() == 1;
  const std::string detached = OnlyDetaches(alone ? *inner : script);
  if (detached.empty()) return {};
  return Fail(ErrorCode::kUnimplemented,
              "run: it does nothing but " + detached + ", and what that starts is not the job's",
              HintInsteadOf(detached) + "; launcher: node starts the text as it is");
}

// A script that ends while what it started still trains would end the job.
Result<void> CheckScriptStays(const ShellScript& script,
                              const std::vector<ShellWalk::CalledText>& scripts) {
  const auto inner = LastScript(script, scripts);
  const std::string left = inner ? LeftInBackground(*inner) : std::string();
  if (left.empty()) return {};
  const std::string path = ShellScriptOf(script.commands.back());
  return Fail(
      ErrorCode::kInvalidArgument,
      "run: " + path + " leaves " + left + " in the background and ends: the job would end with it",
      "leave the & out, or write `wait` as the last line of " + path);
}

namespace {

// Each of several launchers at once would get every process, device and port of the job.
Result<void> CheckOneAtATime(const ShellScript& script, const std::string& where,
                             const std::set<std::string, std::less<>>& launching = {}) {
  const std::string twice = LaunchersAtOnce(script, launching);
  if (twice.empty()) return {};
  return Fail(ErrorCode::kInvalidArgument,
              where + " starts several of " + twice +
                  " at the same time, and each would take all processes and devices of the job",
              "submit a job for each (array: or sweep:), or start one after the other");
}

// Each node starts its own part of the launcher: with one that starts none the others wait for it.
Result<void> CheckEveryNode(const ShellScript& script, const std::string& where) {
  const std::string condition = ConditionOfOneNode(script);
  if (condition.empty()) return {};
  return Fail(ErrorCode::kInvalidArgument,
              where + " starts its launcher behind `" + condition +
                  "` only, and the launcher of that node would wait for the others",
              "take the launcher out of the if: launch starts run on every node, and each starts "
              "its own ranks there");
}

// The flags of a launcher that torchrun does not stand behind cannot be held to the plan.
Unexpected SameNodeEverywhere(std::string_view launcher) {
  const bool lightning = launcher == "lightning" || launcher == "fabric";
  const bool from_env = OwnLauncherOf(launcher)->place_from_env;
  return Fail(ErrorCode::kInvalidArgument,
              "run: launch starts it on every node, and each " + std::string(launcher) +
                  " would be the same node of several",
              lightning   ? "write --num-nodes=$NNODES --node-rank=$NODE_RANK "
                            "--main-address=$MASTER_ADDR --main-port=$MASTER_PORT"
              : !from_env ? "write --node_rank=$NODE_RANK --master_addr=$MASTER_ADDR "
                            "--master_port=$MASTER_PORT"
                          : "leave --node_rank, --master_addr and --master_port out: launch sets "
                            "NODE_RANK, MASTER_ADDR and MASTER_PORT for it");
}

bool IsOfSeveralNodes(const LaunchLineOptions& options, const LaunchLine& line) {
  const auto told = options.told.find("NNODES");
  return told != options.told.end() ? told->second != "1" : line.nodes_min.value_or(1) > 1;
}

// "python -u train.py a" -> "torchrun train.py a".
Result<std::string> WithLauncher(const ShellScript& script, LauncherKind launcher) {
  std::string prefix;
  for (std::size_t i = 0; i + 1 < script.commands.size(); ++i) {
    if (!IsPreparation(script.commands[i])) {
      return Fail(ErrorCode::kInvalidArgument,
                  "launcher: " + std::string(ToString(launcher)) + ", but `" +
                      (script.commands[i].words.empty() ? script.commands[i].redirects.front().raw
                                                        : script.commands[i].words.front().raw) +
                      "` of run goes before the program",
                  "write the launcher into run, or launcher: node to start the text as it is");
    }
    for (const ShellWord& word : script.commands[i].words) prefix += word.raw + " ";
    prefix += script.commands[i].joiner == "&&" ? "&& " : "; ";
  }
  const ShellCommand& command = script.commands.back();
  const CommandParts parts = PartsOf(command);
  const bool python = !script.compound && CallsPython(command);
  if (!python || parts.first + 1 >= command.words.size()) {
    return Fail(ErrorCode::kInvalidArgument,
                "launcher: " + std::string(ToString(launcher)) +
                    ", but run neither calls it nor is a Python command it could start",
                "write the launcher into run, or launcher: node to start the text as it is");
  }
  for (std::size_t i = 0; i < parts.first; ++i) prefix += command.words[i].raw + " ";
  std::string text = prefix + std::string(ToString(launcher));
  if (launcher == LauncherKind::kAccelerate) text += " launch";
  bool script_seen = false;
  for (std::size_t i = parts.first + 1; i < command.words.size(); ++i) {
    const std::string& word = command.words[i].value;
    if (word == "-u" && !script_seen) continue;
    if (!script_seen && word[0] == '-' && word != "-m") {
      return Fail(ErrorCode::kInvalidArgument,
                  "launcher: " + std::string(ToString(launcher)) + " would read " + word +
                      " of run's python as a flag of its own",
                  "write the launcher into run, or put what " + word + " sets into env:");
    }
    script_seen = true;
    text += " " + command.words[i].raw;
  }
  for (const ShellRedirect& redirect : command.redirects) text += " " + redirect.raw;
  return text;
}

// The file of that name sets WORLD_SIZE for it alone: without RANK it stops others.
std::string PreparationOf(const WrittenCounts& counts) {
  if (counts.needs_world.empty()) return {};
  const std::string name(counts.needs_world);
  return name + "() { \"$LAUNCH_WRAPPERS/" + name + "\" \"$@\"; }; export -f " + name + "\n";
}

// Where words begin in a text, by its lines.
class Offsets {
 public:
  explicit Offsets(std::string_view text) : size_(text.size()) {
    for (std::size_t i = 0; i < text.size(); ++i)
      if (text[i] == '\n') starts_.push_back(i + 1);
  }
  std::size_t Of(const ShellWord& word) const {
    const auto line = static_cast<std::size_t>(word.line - 1);
    const auto column = static_cast<std::size_t>(word.column - 1);
    return line < starts_.size() ? std::min(starts_[line] + column, size_) : size_;
  }

 private:
  std::size_t size_;
  std::vector<std::size_t> starts_ = {0};
};

// The functions that hold a launcher to the plan (WithWrappers of allocation.cc) are not called by
// `exec torchrun`, `nohup torchrun` or `env A=1 torchrun`, and a text that sets PATH finds another
// program there: those words are left out. `time` in front is of the shell itself.
std::string WithoutStarters(std::string_view text, const ShellScript& script) {
  const Offsets offsets(text);
  std::string out;
  std::size_t kept = 0;  // what lies before is in `out`, or left out
  for (std::size_t i = 0; i < script.commands.size(); ++i) {
    const std::vector<ShellWord>& words = script.commands[i].words;
    const std::size_t first = PartsOf(script.commands[i]).first;
    if (first == 0 || first >= words.size()) continue;
    if (!IsWrapped(FindLauncher(script.commands[i]).value_or(""))) continue;
    // What would follow is never reached behind exec.
    const bool last = i + 1 == script.commands.size() && !script.compound;
    for (std::size_t k = 0; k < first; ++k) {
      const std::string& word = words[k].raw;
      const bool cut =
          word == "nohup" || word == "env" || word == "command" || (word == "exec" && last);
      const std::size_t begin = offsets.Of(words[k]);
      if (!cut || begin < kept || text.substr(begin, word.size()) != word) continue;
      out += text.substr(kept, begin - kept);
      kept = std::max(begin, offsets.Of(words[k + 1]));
    }
  }
  return out + std::string(text.substr(kept));
}

}  // namespace

bool IsWrapped(std::string_view launcher) {
  return launcher == "torchrun" || launcher == "deepspeed" || launcher == "accelerate launch";
}

Result<std::string> LauncherBehind(const WrittenCounts& counts) {
  return LauncherAmong(counts.scripts);
}

std::optional<Finding> UnreadScript(const WrittenCounts& counts) {
  const std::vector<std::string>& unread = counts.unread;
  if (unread.empty()) return std::nullopt;
  return MakeFinding("script_unread", Severity::kNotice,
                     "the text of " + unread.front() +
                         " is not at hand: run is started once per rank, and a launcher called "
                         "there would be stopped",
                     "submit from the directory that holds it, or write launcher: node if it calls "
                     "torchrun, deepspeed or accelerate");
}

std::optional<Finding> FilesLeftOut(const WrittenCounts& counts, const LaunchLineOptions& options) {
  if (options.files.size() < kMaxContextFiles) return std::nullopt;
  std::string names;
  for (const auto& [name, wanted] : counts.wanted) {
    if (wanted.kind == ShellWalk::Kind::kProgram || wanted.kind == ShellWalk::Kind::kPython)
      continue;
    names += (names.empty() ? "" : ", ") + name;
  }
  if (names.empty()) return std::nullopt;
  return MakeFinding("files_left_out", Severity::kNotice,
                     "a job takes " + std::to_string(kMaxContextFiles) +
                         " files along for the plan: not read: " + names,
                     "write procs_per_node and nodes in the job if they stand there");
}

std::optional<Finding> EndlessAmong(const ShellScript& script, const WrittenCounts& counts) {
  auto found = EndlessCommand(script);
  for (const auto& [shown, text, maybe] : counts.scripts) {
    const auto inner = found || maybe ? std::nullopt : std::optional(ReadShell(text));
    if (inner && *inner) found = EndlessCommand(**inner, shown);
  }
  return found;
}

Result<LaunchLine> ReadNodeLine(std::string_view text, const ShellScript& script,
                                const LaunchLineOptions& options, std::string why,
                                std::optional<int> own) {
  LaunchLine line;
  line.launcher = options.launcher == LauncherKind::kAuto ? LauncherKind::kNode : options.launcher;
  line.start = StartKind::kPerNode;
  line.wrappers = true;
  line.uses = VariablesUsed(script);
  line.uses_arg_zero = UsesArgZero(script);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  line.shell = WithoutStarters(text, script);
  const WrittenCounts counts = CountsIn(script, options);
  if (options.launcher == LauncherKind::kAuto && !counts.refused.empty()) {
    return Fail(ErrorCode::kUnimplemented,
                "run: it starts " + counts.refused + ", which launch cannot hold to a plan",
                HintInsteadOf(counts.refused));
  }
  if (options.launcher == LauncherKind::kAuto && counts.stops) return Unexpected(*counts.stops);
  line.reads_devices = ReadsDevices(script, counts);
  const auto behind = LauncherAmong(counts.scripts);
  const bool lacks = options.launcher != LauncherKind::kAuto &&
                     options.launcher != LauncherKind::kNode && !FindLauncher(script) && behind &&
                     behind->empty();
  if (lacks) {
    LAUNCH_ASSIGN_OR_RETURN(line.shell, WithLauncher(script, options.launcher));
  }
  if (own) {
    line.procs = ProcsWord::kNumber;
    line.procs_number = *own;
  }
  const std::string unknown_flag = counts.flag_unknown.substr(counts.flag_unknown.find(' ') + 1);
  const bool said = counts.flag_unknown.empty() || why == unknown_flag;
  line.read.push_back(std::move(why));
  if (!said) line.read.push_back(unknown_flag);
  TakeCounts(counts, options, line);
  line.runs_make = std::ranges::any_of(counts.scripts, [](const ShellWalk::CalledText& called) {
    const std::string program = called.shown.substr(0, called.shown.find(' '));
    return program == "make" || program == "gmake";
  });
  // `[ -z "$CUDA_VISIBLE_DEVICES" ] && export ...`: a default that is not taken.
  const auto& foreign = line.maps_devices ? counts.foreign_of_program : counts.foreign_devices;
  const bool as_written = options.launcher == LauncherKind::kAuto && !line.reads_devices;
  if (as_written && foreign) return Unexpected(*foreign);
  if (auto finding = FilesLeftOut(counts, options)) line.warnings.push_back(std::move(*finding));
  if (!lacks) line.shell += WaitBehind(script);
  if (options.launcher == LauncherKind::kAuto)
    LAUNCH_RETURN_IF_ERROR(CheckTrainsHere(script, counts.scripts));
  LAUNCH_RETURN_IF_ERROR(CheckScriptStays(script, counts.scripts));
  const bool everywhere = options.launcher == LauncherKind::kAuto && !options.counts_only &&
                          IsOfSeveralNodes(options, line);
  if (everywhere && !counts.one_node_rank.empty()) return SameNodeEverywhere(counts.one_node_rank);
  if (everywhere) line.shell.insert(0, PreparationOf(counts));
  if (auto beside = SubmitsBeside(script)) line.warnings.push_back(std::move(*beside));
  LAUNCH_RETURN_IF_ERROR(CheckOneAtATime(script, "run: it", LaunchingAmong(counts.scripts)));
  if (everywhere) LAUNCH_RETURN_IF_ERROR(CheckEveryNode(script, "run: it"));
  for (const auto& [shown, inside, maybe] : counts.scripts) {
    const auto inner = ReadShell(inside);
    if (!inner) continue;
    LAUNCH_RETURN_IF_ERROR(CheckOneAtATime(*inner, "run: " + shown));
    if (everywhere && !maybe) LAUNCH_RETURN_IF_ERROR(CheckEveryNode(*inner, "run: " + shown));
  }
  for (const auto& [shown, inside, maybe] : counts.scripts) {
    if (auto finding = CarriageReturns(shown, inside)) {
      line.warnings.push_back(std::move(*finding));
      break;
    }
  }
  std::vector<Finding> hidden = HiddenStatus(script);
  if (hidden.empty()) hidden = HiddenInScripts(counts.scripts);
  line.warnings.insert(line.warnings.end(), hidden.begin(), hidden.end());
  if (auto endless = EndlessAmong(script, counts)) line.warnings.push_back(std::move(*endless));
  const bool unknown = line.procs == ProcsWord::kNone || line.procs == ProcsWord::kUnknown;
  if (unknown && !options.procs_written) {
    line.warnings.push_back(MakeFinding(
        "processes_per_node", Severity::kNotice,
        "how many processes run starts on a node is not known here" +
            (counts.count_unknown.empty() ? std::string() : " (" + counts.count_unknown + ")") +
            ": one per GPU of the job, one without GPUs, whatever the launcher inside says",
        "write procs_per_node in the job; for one per GPU submit with --gpus N, or write gpus: N"));
    // The call inside knows: a number of its own is not replaced by one that nobody wrote.
    if (options.gpus_open) line.shell = "export LAUNCH_OPEN_COUNT=1\n" + line.shell;
  }
  if (!own && IsHeldToOwnCount(counts, options))
    line.shell = "export LAUNCH_OPEN_COUNT=1\n" + line.shell;
  if (options.gpus_open && !options.procs_written) {
    for (Finding& note : OpenCountNotes(line.procs, LauncherKind::kNode))
      line.warnings.push_back(std::move(note));
  }
  const std::vector<Finding> notes = LoginShellNotes(script);
  line.warnings.insert(line.warnings.end(), notes.begin(), notes.end());
  const CommandParts parts = PartsOf(script.commands.back());
  const bool single = script.commands.size() == 1 && !script.compound &&
                      parts.first < script.commands[0].words.size();
  if (single && script.commands[0].words[parts.first].fixed && !lacks) {
    line.command_word = script.commands[0].words[parts.first].value;
    if (IsShellBuiltin(line.command_word)) line.command_word.clear();
  }
  return line;
}

}  // namespace launch
