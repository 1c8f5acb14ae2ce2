#include "planner/node_line.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/units.h"
#include "planner/accelerate_flags.h"
#include "planner/deepspeed_flags.h"
#include "planner/launcher_words.h"
#include "planner/line_prefix.h"
#include "planner/shell_notes.h"
#include "planner/torchrun_flags.h"

namespace launch {
namespace {

// Programs that start torchrun, or its library, by themselves.
constexpr std::array<std::string_view, 9> kOwnLaunchers = {"llamafactory-cli",
                                                           "axolotl",
                                                           "composer",
                                                           "colossalai",
                                                           "fabric",
                                                           "swift",
                                                           "trl",
                                                           "tune",
                                                           "xtuner"};

struct WrittenCounts {
  ProcsWord procs = ProcsWord::kNone;
  int procs_number = 0;
  std::optional<int> nodes;
};

std::string FlagName(std::string_view word) {
  if (word.rfind("--", 0) != 0) return {};
  std::string name(word.substr(2, word.find('=') - 2));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

void TakeProcs(const std::string& value, WrittenCounts& counts) {
  if (counts.procs != ProcsWord::kNone) return;
  if (value == "gpu" || value == "auto" || value == "xpu") {
    counts.procs = value == "auto" ? ProcsWord::kAuto : ProcsWord::kGpu;
  } else if (const auto number = ParseInt(value); number && *number >= 1 && *number <= 4096) {
    counts.procs = ProcsWord::kNumber;
    counts.procs_number = static_cast<int>(*number);
  }
}

// Words of a command that are a launcher's own flags: behind its name, in front of the script.
struct FlagRange {
  std::size_t first = 0;
  std::size_t last = 0;
};

std::size_t ScriptBehind(const std::vector<ShellWord>& words, std::size_t first) {
  std::size_t i = first;
  while (i < words.size() && words[i].value != "--" && words[i].value != "-m" &&
         words[i].value != "--module" && !words[i].value.ends_with(".py")) {
    ++i;
  }
  return i;
}

// Where the launcher's own parser stops; a line that it would not read ends at what looks like the
// script.
std::optional<FlagRange> FlagsOfLauncher(const std::vector<ShellWord>& words,
                                         const KnownVariables& known) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (AssignmentOf(words[i])) continue;
    if (const auto place = FindTorchrun(words, i)) {
      const auto read = ReadTorchrun(words, place->first_flag, place->launch_module, known);
      return FlagRange{place->first_flag,
                       read ? read->script : ScriptBehind(words, place->first_flag)};
    }
    if (const auto place = FindDeepspeed(words, i)) {
      const auto read = ReadDeepspeed(words, place->first_flag, known);
      return FlagRange{place->first_flag,
                       read ? read->script : ScriptBehind(words, place->first_flag)};
    }
    if (const auto place = FindAccelerate(words, i)) {
      const auto read = ReadAccelerate(words, place->first_flag, known, {});
      return FlagRange{place->first_flag,
                       read ? read->arguments.script : ScriptBehind(words, place->first_flag)};
    }
    const std::string& program = words[i].value;
    const std::string name = program.substr(program.rfind('/') + 1);
    if (std::find(kOwnLaunchers.begin(), kOwnLaunchers.end(), name) != kOwnLaunchers.end()) {
      return FlagRange{i + 1, ScriptBehind(words, i + 1)};
    }
  }
  return std::nullopt;
}

struct CountsSoFar {
  WrittenCounts counts;
  std::optional<int> machines;  // accelerate's words: a total over machines
  std::optional<int> total;
};

void TakeFlag(const std::string& name, const std::string& value, CountsSoFar& out) {
  if (name == "nproc_per_node" || name == "num_gpus") TakeProcs(value, out.counts);
  const auto number = ParseInt(value);
  if (!number || *number < 1 || *number > 100'000) return;
  const int count = static_cast<int>(*number);
  const bool nodes = name == "nnodes" || name == "num_nodes";
  if (nodes && !out.counts.nodes) out.counts.nodes = count;
  if (name == "num_machines" && !out.machines) out.machines = count;
  if (name == "num_processes" && !out.total) out.total = count;
}

// "--nnodes 2 --nproc_per_node=8" at words first..last.
void TakeFlags(const std::vector<ShellWord>& words, FlagRange range, const KnownVariables& known,
               CountsSoFar& out) {
  for (std::size_t i = range.first; i < range.last && i < words.size(); ++i) {
    const ShellWord& word = words[i];
    const std::string name = FlagName(word.value);
    if (name.empty()) {
      // $DISTRIBUTED_ARGS: flags that stand in a variable.
      const auto text = word.fixed ? std::nullopt : FixedValue(word, known);
      if (!text || text->find("--") == std::string::npos) continue;
      if (const auto inner = ReadShell(*text); inner && !inner->commands.empty()) {
        const std::vector<ShellWord>& flags = inner->commands.front().words;
        TakeFlags(flags, {0, flags.size()}, known, out);
      }
      continue;
    }
    const std::size_t equals = word.value.find('=');
    ShellWord given = word;
    if (equals != std::string::npos) {
      given.value = word.value.substr(equals + 1);
    } else if (i + 1 < words.size()) {
      given = words[i + 1];
    }
    if (const auto value = FixedValue(given, known)) TakeFlag(name, *value, out);
  }
}

// What the launchers' own flags fix, the first call first; a number that only the node knows stays
// open. Arguments of the script have names like these and mean something else.
void WalkCounts(const ShellScript& script, KnownVariables& known, CountsSoFar& out) {
  for (const ShellCommand& command : script.commands) {
    for (const ShellWord& word : command.words) {
      const auto assignment = AssignmentOf(word);
      const auto value =
          FixedValue(assignment ? assignment->value : word, known).value_or(std::string());
      if (assignment && !value.empty()) known.emplace_back(assignment->name, value);
      // LAUNCHER="accelerate launch --num_processes 4", bash -c "torchrun ..."
      if (value.find(' ') == std::string::npos) continue;
      const auto inner = ReadShell(value);
      if (!inner || inner->commands.empty()) continue;
      const std::vector<ShellWord>& words = inner->commands.front().words;
      const auto range = assignment ? FlagsOfLauncher(words, known) : std::nullopt;
      if (range) {
        TakeFlags(words, {range->first, words.size()}, known, out);
      } else if (!assignment && FindLauncher(*inner)) {
        WalkCounts(*inner, known, out);
      }
    }
    if (const auto range = FlagsOfLauncher(command.words, known)) {
      TakeFlags(command.words, *range, known, out);
    } else if (!command.words.empty() && command.words[0].value.starts_with("--")) {
      // The inside of DISTRIBUTED_ARGS=( --nproc_per_node 8 ... ).
      TakeFlags(command.words, {0, command.words.size()}, known, out);
    }
  }
}

WrittenCounts CountsIn(const ShellScript& script, KnownVariables known) {
  CountsSoFar out;
  WalkCounts(script, known, out);
  WrittenCounts counts = out.counts;
  if (out.machines && !counts.nodes) counts.nodes = out.machines;
  const int machines = out.machines.value_or(1);
  if (out.total && counts.procs == ProcsWord::kNone && *out.total % machines == 0) {
    TakeProcs(std::to_string(*out.total / machines), counts);
  }
  return counts;
}

void TakeCounts(const ShellScript& script, KnownVariables known, LaunchLine& line) {
  const WrittenCounts counts = CountsIn(script, std::move(known));
  if (line.procs == ProcsWord::kNone) {
    line.procs = counts.procs;
    line.procs_number = counts.procs_number;
  }
  if (counts.nodes && *counts.nodes > 1 && !line.nodes_min) {
    line.nodes_min = line.nodes_max = counts.nodes;
  }
}

// The text of the script that `command` runs, when the submitter could read it.
const std::string* TextBehind(const ShellCommand& command,
                              const std::map<std::string, std::string>& files) {
  const std::string path = ShellScriptOf(command);
  const auto found = path.empty() ? files.end() : files.find(path);
  return found == files.end() ? nullptr : &found->second;
}

// "bash dist_train.sh CONFIG 8": $1 and $2 inside of it.
KnownVariables ParametersOf(const ShellCommand& command) {
  const CommandParts parts = PartsOf(command);
  KnownVariables known;
  for (const ShellAssignment& assignment : parts.assignments) {
    if (assignment.value.fixed) known.emplace_back(assignment.name, assignment.value.value);
  }
  const std::string script = ShellScriptOf(command);
  std::size_t number = 0;
  for (std::size_t i = parts.first; i < command.words.size(); ++i) {
    const ShellWord& word = command.words[i];
    if (number > 0 && word.fixed) known.emplace_back(std::to_string(number), word.value);
    if (number > 0 || word.value == script) ++number;
  }
  return known;
}

std::string LauncherIn(const std::string& text) {
  if (const auto script = ReadShell(text)) {
    return FindLauncher(*script).value_or(std::string());
  }
  // Not cut into words: then a word is a word.
  for (const char* name : {"torchrun", "torch.distributed", "accelerate launch", "deepspeed "}) {
    if (text.find(name) != std::string::npos) return std::string(name);
  }
  return {};
}

// "python -u train.py a" -> "torchrun train.py a".
Result<std::string> WithLauncher(const ShellScript& script, LauncherKind launcher) {
  std::string prefix;
  for (std::size_t i = 0; i + 1 < script.commands.size(); ++i) {
    if (!IsPreparation(script.commands[i])) {
      return Fail(ErrorCode::kInvalidArgument,
                  "launcher: " + std::string(ToString(launcher)) + ", but `" +
                      script.commands[i].words.front().raw + "` of run goes before the program",
                  "write the launcher into run, or launcher: node to start the text as it is");
    }
    for (const ShellWord& word : script.commands[i].words) prefix += word.raw + " ";
    prefix += script.commands[i].joiner == "&&" ? "&& " : "; ";
  }
  const ShellCommand& command = script.commands.back();
  const CommandParts parts = PartsOf(command);
  const bool python = !script.compound && parts.first < command.words.size() &&
                      IsPython(command.words[parts.first].value);
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

}  // namespace

bool IsWrapped(std::string_view launcher) {
  return launcher == "torchrun" || launcher == "deepspeed" || launcher == "accelerate launch";
}

std::string ShellScriptOf(const ShellCommand& command) {
  const CommandParts parts = PartsOf(command);
  std::size_t i = parts.first;
  if (i >= command.words.size()) return {};
  const std::string& program = command.words[i].value;
  const std::string name = program.substr(program.rfind('/') + 1);
  if (name == "bash" || name == "sh" || name == "source" || name == ".") {
    ++i;
    while (i < command.words.size() && command.words[i].value.rfind('-', 0) == 0) {
      if (command.words[i].value.find('c') != std::string::npos) return {};  // bash -c TEXT
      ++i;
    }
  } else if (!program.ends_with(".sh")) {
    return {};
  }
  return i < command.words.size() && command.words[i].fixed ? command.words[i].value
                                                            : std::string();
}

std::string LauncherBehind(const ShellScript& script,
                           const std::map<std::string, std::string>& files) {
  for (const ShellCommand& command : script.commands) {
    if (const std::string* text = TextBehind(command, files)) {
      const std::string seen = LauncherIn(*text);
      const bool other =
          !seen.empty() && !IsWrapped(seen) && seen != "torch.distributed" && seen != "deepspeed ";
      if (!seen.empty() && !other) return ShellScriptOf(command) + " calls " + seen;
    }
    const CommandParts parts = PartsOf(command);
    if (parts.first >= command.words.size()) continue;
    const std::string& program = command.words[parts.first].value;
    const std::string name = program.substr(program.rfind('/') + 1);
    if (std::find(kOwnLaunchers.begin(), kOwnLaunchers.end(), name) != kOwnLaunchers.end()) {
      return name + " starts its ranks itself";
    }
  }
  return {};
}

Result<LaunchLine> ReadNodeLine(std::string_view text, const ShellScript& script,
                                const LaunchLineOptions& options, std::string why) {
  LaunchLine line;
  line.launcher = options.launcher == LauncherKind::kAuto ? LauncherKind::kNode : options.launcher;
  line.start = StartKind::kPerNode;
  line.wrappers = true;
  line.uses = VariablesUsed(script);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  line.shell = std::string(text);
  const bool lacks = options.launcher != LauncherKind::kAuto &&
                     options.launcher != LauncherKind::kNode && !FindLauncher(script) &&
                     LauncherBehind(script, options.files).empty();
  if (lacks) {
    LAUNCH_ASSIGN_OR_RETURN(line.shell, WithLauncher(script, options.launcher));
  }
  TakeCounts(script, {}, line);
  for (const ShellCommand& command : script.commands) {
    const std::string* inner = TextBehind(command, options.files);
    if (inner == nullptr) continue;
    if (const auto read = ReadShell(*inner)) TakeCounts(*read, ParametersOf(command), line);
  }
  line.read.push_back(std::move(why));
  if (!lacks) line.shell += WaitBehind(script);
  line.warnings = HiddenStatus(script);
  if (line.procs == ProcsWord::kNone || line.procs == ProcsWord::kUnknown) {
    line.warnings.push_back(MakeFinding(
        "processes_per_node", Severity::kNotice,
        "how many processes run starts on a node is not known here: one per GPU of the job, one "
        "without GPUs, whatever the launcher inside says",
        "write procs_per_node in the job"));
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
