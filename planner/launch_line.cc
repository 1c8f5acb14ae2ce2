#include "planner/launch_line.h"

#include <algorithm>
#include <array>
#include <utility>

#include "planner/deepspeed_flags.h"
#include "planner/launcher_words.h"
#include "planner/torchrun_flags.h"

namespace launch {
namespace {

Finding Notice(std::string code, std::string says, std::string remedy = {},
               Severity severity = Severity::kNotice) {
  Finding finding;
  finding.code = std::move(code);
  finding.severity = severity;
  finding.says = std::move(says);
  finding.remedy = std::move(remedy);
  return finding;
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

// A command in its parts: "A=1 exec time CMD ARGS" -> assignments, wrappers, the rest.
struct CommandParts {
  std::vector<ShellAssignment> assignments;
  std::vector<std::string> wrappers;  // exec, time, nohup: dropped, exec is written by us
  std::size_t first = 0;              // index of the command word
};

CommandParts PartsOf(const ShellCommand& command) {
  CommandParts parts;
  std::size_t i = 0;
  while (i < command.words.size()) {
    if (auto assignment = AssignmentOf(command.words[i])) {
      parts.assignments.push_back(std::move(*assignment));
    } else if (command.words[i].raw == "exec" || command.words[i].raw == "time" ||
               command.words[i].raw == "nohup" || command.words[i].raw == "command") {
      parts.wrappers.push_back(command.words[i].raw);
      if (command.words[i].raw == "time" && i + 1 < command.words.size() &&
          command.words[i + 1].raw == "-p") {
        ++i;
      }
    } else {
      break;
    }
    ++i;
  }
  parts.first = i;
  return parts;
}

class LineReader {
 public:
  LineReader(const ShellScript& script, const LaunchLineOptions& options)
      : script_(script), options_(options) {
    for (const EnvEntry& entry : options.env) {
      if (entry.value && entry.value->find('$') == std::string::npos) {
        known_.emplace_back(entry.name, *entry.value);
      }
    }
  }

  Result<LaunchLine> Read(std::string_view text) {
    line_.uses = VariablesUsed(script_);
    if (script_.commands.empty()) {
      return Fail(ErrorCode::kInvalidArgument, "run: there is no command in it",
                  "write the command that trains, e.g. run: python train.py");
    }
    if (IsOneCommandAfterPreparation()) {
      const CommandParts parts = PartsOf(Main());
      if (parts.first < Main().words.size()) {
        if (MayTakeApart()) {
          if (const auto place = FindTorchrun(Main().words, parts.first))
            return ReadLauncherLine(parts, *place, LauncherKind::kTorchrun);
          if (const auto place = FindDeepspeed(Main().words, parts.first))
            return ReadLauncherLine(parts, *place, LauncherKind::kDeepspeed);
        }
      }
    }
    LAUNCH_RETURN_IF_ERROR(RefuseOtherLaunchers());
    return ReadPlain(text);
  }

 private:
  const ShellCommand& Main() const { return script_.commands[main_]; }

  bool MayTakeApart() const {
    return options_.launcher == LauncherKind::kAuto || options_.launcher == LauncherKind::kProcess;
  }

  // cd, export and set in front, then one command; at most `| tee FILE` behind it.
  bool IsOneCommandAfterPreparation() {
    if (script_.compound) return false;
    const auto& commands = script_.commands;
    std::size_t main = 0;
    while (main + 1 < commands.size() && IsPreparation(commands[main])) ++main;
    main_ = main;
    if (main + 1 == commands.size()) return commands[main].joiner.empty();
    const ShellCommand& next = commands[main + 1];
    return main + 2 == commands.size() && commands[main].joiner == "|" && next.joiner.empty() &&
           !next.words.empty() && next.words[0].raw == "tee";
  }

  static bool IsPreparation(const ShellCommand& command) {
    if (command.joiner != "&&" && command.joiner != ";" && command.joiner != "\n") return false;
    if (command.words.empty() || !command.redirects.empty()) return false;
    const std::string& word = command.words[0].raw;
    if (word == "cd" || word == "export" || word == "set") return true;
    return std::all_of(command.words.begin(), command.words.end(),
                       [](const ShellWord& w) { return AssignmentOf(w).has_value(); });
  }

  // Keeps the preparation's text without the variables that are ours.
  void ReadPreparation() {
    for (std::size_t i = 0; i < main_; ++i) {
      const ShellCommand& command = script_.commands[i];
      std::vector<std::string> kept;
      bool dropped = false;
      for (const ShellWord& word : command.words) {
        const auto assignment = AssignmentOf(word);
        if (assignment && !Keep(*assignment)) {
          dropped = true;
          continue;
        }
        kept.push_back(word.raw);
      }
      if (dropped && kept.size() <= (command.words[0].raw == "export" ? 1U : 0U)) continue;
      preparation_ += Join(kept, " ") + (command.joiner == "&&" ? " && " : "; ");
    }
  }

  // False: the assignment names something the plan decides; it is left out and said.
  bool Keep(const ShellAssignment& assignment) {
    if (assignment.name == "CUDA_VISIBLE_DEVICES") {
      const std::string& value = assignment.value.value;
      if (assignment.value.fixed) {
        const bool none = value.empty() || value[0] == '-' || value == "NoDevFiles";
        line_.visible_devices =
            none ? 0 : static_cast<int>(std::count(value.begin(), value.end(), ',')) + 1;
      }
      const std::string count =
          line_.visible_devices ? std::to_string(*line_.visible_devices) : "unknown";
      line_.warnings.push_back(Notice(
          "visible_devices_set",
          "CUDA_VISIBLE_DEVICES=" + assignment.value.raw + " in run is read as a count (" + count +
              ") and replaced by the devices the job gets",
          "for particular devices write gpu_ids: [" + (assignment.value.fixed ? value : "0") + "]",
          Severity::kWarning));
      return false;
    }
    if (IsContractVariable(assignment.name)) {
      overridden_.push_back(assignment.name);
      if (assignment.value.fixed) known_.emplace_back(assignment.name, assignment.value.value);
      return false;
    }
    if (const auto value = FixedValue(assignment.value, known_)) {
      known_.emplace_back(assignment.name, *value);
    }
    return true;
  }

  std::string Prefix(const CommandParts& parts) {
    std::string prefix;
    for (const ShellAssignment& assignment : parts.assignments) {
      if (Keep(assignment)) prefix += assignment.name + "=" + assignment.value.raw + " ";
    }
    return prefix;
  }

  Result<LauncherArguments> ReadFlags(const LauncherPlace& place, LauncherKind kind) const {
    const std::vector<ShellWord>& words = Main().words;
    if (kind == LauncherKind::kDeepspeed) return ReadDeepspeed(words, place.first_flag, known_);
    return ReadTorchrun(words, place.first_flag, place.launch_module, known_);
  }

  Result<LaunchLine> ReadLauncherLine(const CommandParts& parts, const LauncherPlace& place,
                                      LauncherKind kind) {
    ReadPreparation();
    const std::string prefix = Prefix(parts);
    const std::vector<ShellWord>& words = Main().words;
    LAUNCH_ASSIGN_OR_RETURN(const LauncherArguments arguments, ReadFlags(place, kind));
    line_.launcher = kind;
    line_.procs = arguments.procs;
    line_.procs_number = arguments.procs_number;
    line_.nodes_min = arguments.nodes_min;
    line_.nodes_max = arguments.nodes_max;
    line_.role = arguments.role;
    line_.script = words[arguments.script].value;
    line_.python = !arguments.no_python;
    line_.arguments.assign(words.begin() + static_cast<std::ptrdiff_t>(arguments.script) + 1,
                           words.end());
    std::string command;
    if (arguments.no_python) {
      line_.command_word = words[arguments.script].fixed ? words[arguments.script].value : "";
    } else if (place.interpreter.empty()) {
      line_.interpreter_first = true;
      line_.interpreter_of = place.launcher;
      command = "\"$0\" -u ";
    } else {
      line_.command_word = place.interpreter;
      command = ShellQuote(place.interpreter) + " -u ";
    }
    if (arguments.module) command += "-m ";
    command += words[arguments.script].raw;
    if (options_.local_rank_arg) {
      command += " --local_rank=$LOCAL_RANK";
    } else if (!arguments.local_rank_flag.empty()) {
      command += " " + arguments.local_rank_flag + "=$LOCAL_RANK";
    }
    for (const ShellWord& word : line_.arguments) command += " " + word.raw;
    line_.shell = preparation_ + prefix + "exec " + command + KeptRedirects();
    line_.read.push_back(std::string(ToString(kind)) + " line read");
    NoteLauncher(arguments, place);
    return std::move(line_);
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
    if (main_ + 1 < script_.commands.size()) {
      std::string tee = "|";
      for (const ShellWord& word : script_.commands[main_ + 1].words) tee += " " + word.raw;
      dropped.push_back(tee);
    }
    if (!dropped.empty()) {
      line_.warnings.push_back(Notice(
          "output_redirected", Join(dropped, " ") + " is left out: each rank has a log of its own",
          "read the output with launch logs JOB [--rank R]", Severity::kWarning));
    }
    return kept;
  }

  void NoteLauncher(const LauncherArguments& arguments, const LauncherPlace& place) {
    std::vector<std::string> replaced = arguments.replaced;
    for (std::string name : overridden_) {
      std::transform(name.begin(), name.end(), name.begin(),
                     [](char c) { return static_cast<char>(std::tolower(c)); });
      if (std::find(replaced.begin(), replaced.end(), name) == replaced.end()) {
        replaced.push_back(name);
      }
    }
    if (!replaced.empty()) {
      line_.warnings.push_back(Notice(
          "launcher_flags_replaced",
          Join(replaced, ", ") + (replaced.size() == 1 ? " of the line is" : " of the line are") +
              " replaced by the values of the plan",
          "leave them out: launch sets rank, address and port for every node", Severity::kWarning));
    }
    if (!arguments.dropped.empty()) {
      line_.warnings.push_back(Notice(
          "launcher_flags_dropped",
          Join(arguments.dropped, ", ") + " steer the launcher itself and have no effect here",
          "read logs with launch logs JOB --rank R"));
    }
    if (arguments.max_restarts && *arguments.max_restarts != "0") {
      line_.warnings.push_back(
          Notice("launcher_flags_dropped",
                 "max_restarts=" + *arguments.max_restarts + " has no effect: launch restarts jobs",
                 "write retry: {max: " + *arguments.max_restarts + "}"));
    }
    const bool one_by_default = line_.launcher == LauncherKind::kTorchrun;  // deepspeed: all GPUs
    if (arguments.procs == ProcsWord::kNone && one_by_default) {
      line_.warnings.push_back(
          Notice("processes_per_node",
                 "the line has no --nproc-per-node (torchrun would start 1): one process per GPU",
                 "write --nproc-per-node or procs_per_node"));
    } else if (arguments.procs == ProcsWord::kUnknown) {
      line_.warnings.push_back(
          Notice("processes_per_node",
                 "the number of processes per node is known on the node only: one per GPU",
                 "write a number, or procs_per_node in the job", Severity::kWarning));
    }
    if (!arguments.nodes_text.empty() && !arguments.nodes_min) {
      line_.warnings.push_back(Notice("launcher_flags_replaced",
                                      "the number of nodes, " + arguments.nodes_text +
                                          ", is read as the number of nodes of the job",
                                      "", Severity::kWarning));
    }
    if (!place.interpreter.empty()) {
      line_.read.push_back("interpreter " + place.interpreter + " of the line");
    }
  }

  Result<void> RefuseOtherLaunchers() {
    if (options_.launcher == LauncherKind::kMpi) {
      return Fail(ErrorCode::kUnimplemented, "launcher: mpi is not in this version",
                  "write `launcher: process` if the program reads RANK and WORLD_SIZE");
    }
    if (options_.launcher != LauncherKind::kAuto && options_.launcher != LauncherKind::kProcess) {
      return Fail(ErrorCode::kUnimplemented,
                  "launcher: " + std::string(ToString(options_.launcher)) +
                      " (the real launcher once per node) is not in this version",
                  "leave launcher out and write a torchrun line or a plain command: its ranks are "
                  "started directly");
    }
    const auto seen = FindLauncher(script_);
    if (!seen) return {};
    if (options_.launcher == LauncherKind::kProcess) {
      line_.warnings.push_back(
          Notice("launcher_per_rank",
                 "run starts " + *seen + ", and `launcher: process` starts it once per rank",
                 "leave launcher out if " + *seen + " should start the ranks", Severity::kWarning));
      return {};
    }
    if (*seen == "torchrun") {
      return Fail(ErrorCode::kUnimplemented,
                  "run: torchrun stands in a script of several commands, which this version cannot "
                  "take apart",
                  "make it one line: [cd DIR &&] torchrun --nproc-per-node=N train.py ARGS, with "
                  "the rest in setup:; or write the command of one rank and `launcher: process`");
    }
    return Fail(
        ErrorCode::kUnimplemented, "run: it starts " + *seen + ", which this version cannot do",
        "write a torchrun line (torchrun --nproc-per-node=gpu train.py ARGS) or a plain "
        "`python train.py`; or `launcher: process` to start the text once per rank as it is");
  }

  Result<LaunchLine> ReadPlain(std::string_view text) {
    line_.launcher = LauncherKind::kProcess;
    if (ExecLast()) return std::move(line_);
    for (const ShellCommand& command : script_.commands) {
      for (const ShellWord& word : command.words) {
        const auto assignment = AssignmentOf(word);
        if (assignment && assignment->name == "CUDA_VISIBLE_DEVICES" && line_.warnings.empty()) {
          line_.warnings.push_back(
              Notice("visible_devices_set",
                     "run sets CUDA_VISIBLE_DEVICES itself, against the devices the job gets",
                     "leave it out; for particular devices write gpu_ids", Severity::kWarning));
        }
      }
    }
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
    line_.shell = std::string(text);
    NoteHiddenStatus();
    line_.read.push_back("script");
    return std::move(line_);
  }

  // One command after cd and assignments becomes the rank's process itself: signals reach it and
  // its exit code is the rank's. False: it is a builtin or part of something larger.
  bool ExecLast() {
    if (script_.compound || main_ + 1 != script_.commands.size()) return false;
    if (!IsOneCommandAfterPreparation() || Main().words.empty()) return false;
    const CommandParts parts = PartsOf(Main());
    if (parts.first >= Main().words.size()) return false;
    const std::string& word = Main().words[parts.first].raw;
    if (IsShellBuiltin(word)) return false;
    ReadPreparation();
    const std::string prefix = Prefix(parts);
    std::string command;
    std::size_t script = parts.first + 1;
    line_.python = IsPython(Main().words[parts.first].value);
    while (line_.python && script < Main().words.size() &&
           Main().words[script].value.rfind('-', 0) == 0 && Main().words[script].value != "-m" &&
           Main().words[script].value != "-c") {
      ++script;
    }
    for (std::size_t i = parts.first; i < Main().words.size(); ++i) {
      command += (command.empty() ? "" : " ") + Main().words[i].raw;
      const bool module =
          line_.python && script < Main().words.size() && Main().words[script].value == "-m";
      if (options_.local_rank_arg && line_.python && i == script + (module ? 1 : 0)) {
        command += " --local_rank=$LOCAL_RANK";
      }
    }
    for (const ShellRedirect& redirect : Main().redirects) command += " " + redirect.raw;
    if (!overridden_.empty()) {
      line_.warnings.push_back(
          Notice("launcher_flags_replaced",
                 Join(overridden_, ", ") + " in run is replaced by the value of the plan",
                 "leave it out", Severity::kWarning));
    }
    line_.shell = preparation_ + prefix + "exec " + command;
    if (Main().words[parts.first].fixed && preparation_.find("cd ") == std::string::npos) {
      line_.command_word = Main().words[parts.first].value;
    } else if (line_.python && Main().words[parts.first].value.find('/') == std::string::npos) {
      line_.command_word = Main().words[parts.first].value;
    }
    if (line_.python && script < Main().words.size()) line_.script = Main().words[script].value;
    line_.arguments.assign(Main().words.begin() + static_cast<std::ptrdiff_t>(parts.first) + 1,
                           Main().words.end());
    for (const ShellRedirect& redirect : Main().redirects) {
      if (!redirect.output) continue;
      line_.warnings.push_back(Notice(
          "output_redirected",
          redirect.raw + ": the output goes to that file, and every rank writes the same one",
          "leave it out and read launch logs JOB", Severity::kWarning));
    }
    line_.read.push_back("plain command");
    return true;
  }

  void NoteHiddenStatus() {
    for (std::size_t i = 0; i < script_.commands.size(); ++i) {
      const std::string& joiner = script_.commands[i].joiner;
      if (joiner != "|" && joiner != "||" && joiner != "&") continue;
      line_.warnings.push_back(
          Notice("exit_code_hidden",
                 "\"" + joiner + "\" in run: the exit code of a rank is not the training's",
                 "leave it out; launch keeps the output of every rank itself", Severity::kWarning));
      return;
    }
  }

  const ShellScript& script_;
  const LaunchLineOptions& options_;
  KnownVariables known_;
  std::size_t main_ = 0;
  std::string preparation_;
  std::vector<std::string> overridden_;
  LaunchLine line_;
};

}  // namespace

Result<LaunchLine> ReadLaunchLine(std::string_view run, const LaunchLineOptions& options) {
  LAUNCH_ASSIGN_OR_RETURN(const ShellScript script, ReadShell(run));
  return LineReader(script, options).Read(run);
}

LaunchLineOptions LineOptions(const JobSpec& spec) {
  return {spec.launcher, spec.local_rank_arg, spec.env};
}

bool IsContractVariable(std::string_view name) {
  constexpr std::array<std::string_view, 19> kNames = {"RANK",
                                                       "WORLD_SIZE",
                                                       "LOCAL_RANK",
                                                       "LOCAL_WORLD_SIZE",
                                                       "NODE_RANK",
                                                       "GROUP_RANK",
                                                       "GROUP_WORLD_SIZE",
                                                       "ROLE_RANK",
                                                       "ROLE_WORLD_SIZE",
                                                       "ROLE_NAME",
                                                       "MASTER_ADDR",
                                                       "MASTER_PORT",
                                                       "CROSS_RANK",
                                                       "CROSS_SIZE",
                                                       "LOCAL_SIZE",
                                                       "TORCHELASTIC_RUN_ID",
                                                       "TORCHELASTIC_RESTART_COUNT",
                                                       "TORCHELASTIC_MAX_RESTARTS",
                                                       "TORCHELASTIC_USE_AGENT_STORE"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace launch
