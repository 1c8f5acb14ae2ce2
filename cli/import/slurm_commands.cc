#include "cli/import/slurm_commands.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text.h"
#include "planner/line/launch_line.h"
#include "planner/line/launcher_words.h"
#include "planner/line/shell_text.h"
#include "planner/line/shell_values.h"

namespace launch {
namespace {

constexpr std::pair<std::string_view, std::string_view> kTwins[] = {
    {"SLURM_JOB_NUM_NODES", "NNODES"},
    {"SLURM_NNODES", "NNODES"},
    {"SLURM_NODEID", "NODE_RANK"},
    {"SLURM_PROCID", "RANK"},
    {"SLURM_LOCALID", "LOCAL_RANK"},
    {"SLURM_NTASKS", "WORLD_SIZE"},
    {"SLURM_NPROCS", "WORLD_SIZE"},
    {"SLURM_GPUS_ON_NODE", "NPROC_PER_NODE"},
    {"SLURM_GPUS_PER_NODE", "NPROC_PER_NODE"},
    {"SLURM_ARRAY_TASK_ID", "LAUNCH_ARRAY_INDEX"},
    {"SLURM_ARRAY_JOB_ID", "LAUNCH_ARRAY_ID"},
    {"SLURM_SUBMIT_DIR", "LAUNCH_SUBMIT_DIR"},
    {"SLURM_JOB_NAME", "LAUNCH_JOB_NAME"},
    {"SLURM_JOB_ID", "LAUNCH_JOB_ID"},
    {"SLURM_JOBID", "LAUNCH_JOB_ID"}};

// With one task on each node that starts a launcher, a task is a node.
std::string_view TwinOf(const std::pair<std::string_view, std::string_view>& twin, bool by_node) {
  if (by_node && twin.second == "RANK") return "NODE_RANK";
  if (by_node && twin.second == "WORLD_SIZE") return "NNODES";
  return twin.second;
}

// ---- lines of the file, for what is told of it ----

class Lines {
 public:
  explicit Lines(const SlurmScript& script) : script_(script) {}
  // "line 7: " of a line of the body; those of a text that was changed are not known.
  std::string At(int line) const {
    const auto at = static_cast<std::size_t>(line - 1);
    return at < script_.lines.size() ? "line " + std::to_string(script_.lines[at]) + ": " : "";
  }

 private:
  const SlurmScript& script_;
};

// ---- srun ----

// Takes its value from the next word unless it is glued to it.
bool TakesValue(std::string_view flag) {
  constexpr std::string_view kAlone[] = {"label",
                                         "unbuffered",
                                         "exclusive",
                                         "overlap",
                                         "verbose",
                                         "quiet",
                                         "exact",
                                         "kill-on-bad-exit",
                                         "pty",
                                         "contiguous",
                                         "no-kill",
                                         "oversubscribe",
                                         "overcommit",
                                         "preserve-env",
                                         "multi-prog",
                                         "no-allocate",
                                         "disable-status",
                                         "quit-on-interrupt",
                                         "spread-job",
                                         "use-min-nodes",
                                         "resv-ports",
                                         "immediate",
                                         "nice",
                                         "container-writable",
                                         "container-readonly",
                                         "no-container-mount-home",
                                         "container-mount-home",
                                         "container-remap-root",
                                         "no-container-remap-root",
                                         "no-container-entrypoint",
                                         "container-entrypoint"};
  if (flag.starts_with("--")) {
    if (flag.find('=') != std::string_view::npos) return false;
    return std::find(std::begin(kAlone), std::end(kAlone), flag.substr(2)) == std::end(kAlone);
  }
  constexpr std::string_view kSwitches = "lusvKQkEHOXZI";
  return flag.size() == 2 && kSwitches.find(flag[1]) == std::string_view::npos;
}

struct Srun {
  std::size_t word = 0;   // "srun" itself
  std::size_t first = 0;  // of its command; as many as there are words: it has none
  bool cut = true;        // false: flags and command come out of one variable
  bool counts = false;    // says how many tasks
  bool guessed = false;   // its command is a variable that is not known here
  PyxisOptions container;
};

// "--container-image=X" and "--no-container-mount-home" with the word behind it.
void TakeContainerFlag(const ShellWord& flag, const ShellWord* next, const KnownVariables& known,
                       PyxisOptions& options) {
  const std::string_view text = flag.value;
  if (!text.starts_with("--container-") && !text.starts_with("--no-container-")) return;
  const std::size_t equals = text.find('=');
  std::string name(text.substr(2, equals == std::string_view::npos ? equals : equals - 2));
  std::string value;
  if (equals != std::string_view::npos)
    value = FixedValue(flag, known).value_or(flag.value).substr(equals + 1);
  else if (next != nullptr && TakesValue(text))
    value = FixedValue(*next, known).value_or(next->value);
  options.emplace_back(std::move(name), std::move(value));
}

// "if srun --ntasks 4 $FLAGS CMD": absent where there is no srun in front.
std::optional<Srun> FindSrun(const std::vector<ShellWord>& words, const KnownVariables& known) {
  constexpr std::string_view kBefore[] = {"exec",  "time", "then",  "do", "else", "if",
                                          "while", "elif", "until", "!",  "{"};
  Srun srun;
  while (srun.word < words.size() &&
         (AssignmentOf(words[srun.word]) || std::find(std::begin(kBefore), std::end(kBefore),
                                                      words[srun.word].raw) != std::end(kBefore)))
    ++srun.word;
  if (srun.word >= words.size() || ProgramOf(words[srun.word]) != "srun") return std::nullopt;
  // The words as srun gets them, and which of the text's each comes from.
  std::vector<std::pair<ShellWord, std::size_t>> given;
  WordSplitter splitter;
  for (std::size_t i = srun.word + 1; i < words.size(); ++i) {
    for (ShellWord& part : splitter.Split({words[i]}, known))
      given.emplace_back(std::move(part), i);
  }
  std::size_t at = 0;
  while (at < given.size() && given[at].first.value.size() > 1 && given[at].first.value[0] == '-') {
    const std::string& flag = given[at].first.value;
    ++at;
    if (flag == "--") break;
    TakeContainerFlag(given[at - 1].first, at < given.size() ? &given[at].first : nullptr, known,
                      srun.container);
    srun.counts = srun.counts || flag.starts_with("-n") || flag.starts_with("--ntasks");
    if (TakesValue(flag)) ++at;
  }
  if (at >= given.size()) {
    srun.first = words.size();
    return srun;
  }
  srun.first = given[at].second;
  srun.cut = at == 0 || given[at - 1].second != srun.first;
  srun.guessed = srun.cut && !given[at].first.fixed && given[at].first.value.starts_with('$');
  return srun;
}

// ---- the search for a master ----

// "scontrol show hostnames $SLURM_JOB_NODELIST" says what LAUNCH_NODE_IPS says: a node a line.
void ReplaceHostnames(std::string& text, JobFileDraft& draft) {
  constexpr std::string_view kCall = "scontrol show hostname";
  constexpr std::string_view kOurs = "echo \"$LAUNCH_NODE_IPS\"";
  bool any = false;
  for (std::size_t at = text.find(kCall); at != std::string::npos;
       at = text.find(kCall, at + kOurs.size())) {
    std::size_t end = at + kCall.size();
    if (end < text.size() && text[end] == 's') ++end;
    std::size_t word = end;
    while (word < text.size() && text[word] == ' ') ++word;
    std::size_t behind = word;
    while (behind < text.size() &&
           std::string_view(" \t\n)`|;").find(text[behind]) == std::string_view::npos)
      ++behind;
    const std::string_view list = std::string_view(text).substr(word, behind - word);
    if (list.find("SLURM_") != std::string_view::npos &&
        list.find("NODELIST") != std::string_view::npos)
      end = behind;
    else if (word != behind)
      continue;  // of other nodes
    text.replace(at, end - at, kOurs);
    any = true;
  }
  if (any)
    draft.Note(
        "run: scontrol show hostnames became LAUNCH_NODE_IPS: addresses that every node reaches");
}

// "$(srun -N1 -n1 -w "$head" hostname --ip-address)": the address of the first node.
void ReplaceHeadAddress(std::string& text, JobFileDraft& draft) {
  bool any = false;
  for (std::size_t at = text.find("$(srun "); at != std::string::npos;
       at = text.find("$(srun ", at + 1)) {
    int depth = 0;
    std::size_t end = at + 1;
    for (; end < text.size(); ++end) {
      depth += text[end] == '(' ? 1 : text[end] == ')' ? -1 : 0;
      if (depth == 0) break;
    }
    if (end >= text.size()) return;
    const std::string_view call = std::string_view(text).substr(at, end - at);
    if (call.find("hostname") == std::string_view::npos &&
        call.find(" ip ") == std::string_view::npos)
      continue;
    text.replace(at, end + 1 - at, "$MASTER_ADDR");
    any = true;
  }
  if (any) draft.Note("run: the address that srun asked the first node for became MASTER_ADDR");
}

bool IsMasterVariable(std::string_view name) {
  return name == "MASTER_ADDR" || name == "MASTER_PORT";
}

// Only assignments, all of them of what launch sets itself, or of what only such ones are made of.
// What is exported may be read by any program that the text calls.
bool FindsMaster(const ShellCommand& command, const std::set<std::string>& used) {
  if (command.words.empty()) return false;
  const bool exports = command.words.front().value == "export";
  const std::size_t first = exports ? 1 : 0;
  for (std::size_t i = first; i < command.words.size(); ++i) {
    const auto assignment = AssignmentOf(command.words[i]);
    if (!assignment) return false;
    const bool searches = assignment->value.raw.find("scontrol show hostname") != std::string::npos;
    if (IsMasterVariable(assignment->name)) continue;
    if (exports || !searches || used.contains(assignment->name)) return false;
  }
  return command.words.size() > first;
}

// `set -a`, `set -o allexport`: every assignment behind it is an export.
bool ExportsAll(const ShellCommand& command) {
  if (command.words.size() < 2 || command.words[0].value != "set") return false;
  return std::any_of(command.words.begin() + 1, command.words.end(), [](const ShellWord& word) {
    const std::string& text = word.value;
    return text == "allexport" || (text.starts_with('-') && text.find('a') != std::string::npos);
  });
}

// Names that commands use, or give to programs, which are no assignments of a master.
std::set<std::string> UsedElsewhere(const ShellScript& script) {
  ShellScript others;
  for (const ShellCommand& command : script.commands) {
    const std::size_t first =
        !command.words.empty() && command.words.front().value == "export" ? 1 : 0;
    const bool only_master = command.words.size() > first &&
                             std::all_of(command.words.begin() + static_cast<std::ptrdiff_t>(first),
                                         command.words.end(), [](const ShellWord& word) {
                                           const auto assignment = AssignmentOf(word);
                                           return assignment && IsMasterVariable(assignment->name);
                                         });
    if (!only_master) others.commands.push_back(command);
  }
  std::set<std::string> names;
  for (const ShellUse& use : VariablesUsed(others)) names.insert(use.name);
  const bool all = std::ranges::any_of(script.commands, ExportsAll);
  for (const ShellCommand& command : script.commands) {
    if (command.words.empty()) continue;
    const std::string& verb = command.words.front().value;
    const bool exports = verb == "export" || verb == "declare" || verb == "typeset";
    for (const ShellWord& word : command.words) {
      const auto assignment = AssignmentOf(word);
      if (assignment && all) names.insert(assignment->name);
      if (!assignment && exports && word.fixed) names.insert(word.value);
    }
  }
  return names;
}

// ---- conda ----

enum class CondaCall { kNone, kHook, kActivate, kDeactivate };

// "conda activate NAME", "source activate NAME" and what makes them known to the shell.
CondaCall CondaCallOf(const ShellCommand& command) {
  const std::vector<ShellWord>& words = command.words;
  const auto is = [&](std::size_t i, std::string_view text) {
    return i < words.size() && words[i].fixed && words[i].value == text;
  };
  const bool source = is(0, "source") || is(0, ".");
  if (source && words.size() == 2 &&
      words[1].raw.find("etc/profile.d/conda.sh") != std::string::npos)
    return CondaCall::kHook;
  if (is(0, "eval") && words.size() == 2 && words[1].raw.find("conda") != std::string::npos &&
      words[1].raw.find("hook") != std::string::npos)
    return CondaCall::kHook;
  const bool conda = is(0, "conda") || is(0, "mamba");
  if ((conda || is(0, "source")) && is(1, "activate")) return CondaCall::kActivate;
  return conda && is(1, "deactivate") ? CondaCall::kDeactivate : CondaCall::kNone;
}

struct CondaUse {
  int activated = 0;
  bool hook = false;        // in front of the first: the shell knows conda activate
  std::string environment;  // of the only one; empty: not known here
};

CondaUse CondaUseOf(const ShellScript& script) {
  CondaUse use;
  KnownVariables known;
  for (const ShellCommand& command : script.commands) {
    for (const ShellWord& word : command.words) TakeAssignment(word, known);
    const CondaCall call = CondaCallOf(command);
    if (call == CondaCall::kHook && use.activated == 0) use.hook = true;
    if (call != CondaCall::kActivate) continue;
    ++use.activated;
    use.environment.clear();
    if (use.activated == 1 && command.words.size() == 3)
      use.environment = FixedValue(command.words[2], known).value_or(std::string());
  }
  return use;
}

// The rank's environment is the job's own field; where that cannot say the same, the commands stay
// together: conda activate without its hook would fail.
void TakeConda(const CondaUse& use, JobFileDraft& draft) {
  if (use.activated == 0) return;
  if (!use.environment.empty()) {
    draft.Set("conda", use.environment);
    draft.Note("run: conda activate became conda: " + use.environment);
  } else if (use.hook) {
    draft.Note(
        "run keeps conda activate and its hook: with conda: NAME instead, launch checks the "
        "environment before the start");
  } else {
    draft.Note("run keeps conda activate, which a rank's shell does not know: write conda: NAME");
  }
}

// ---- what is made of the text ----

void NoteSrun(const Srun& srun, const ShellCommand& command, const Lines& lines,
              JobFileDraft& draft) {
  const std::string at = lines.At(command.words[srun.word].line);
  if (srun.first == command.words.size())
    draft.Note(at + "srun has no command here: not supported, it is left out");
  else if (srun.guessed)
    draft.Note(at + "srun is dropped; " + command.words[srun.first].raw +
               " is not known here: if it holds flags of srun, leave it out of run");
  else
    draft.Note("run: srun is dropped: launch starts the command on every node");
}

bool StartsPerTask(const ShellCommand& command, std::size_t first) {
  ShellCommand one = command;
  one.words.erase(one.words.begin(), one.words.begin() + static_cast<std::ptrdiff_t>(first));
  return !one.words.empty() && !FindLauncher(one);
}

void Count(const Srun& srun, bool per_task, SrunUse& use) {
  use.any = true;
  use.per_task = use.per_task || per_task;
  use.counts = use.counts || (per_task && srun.counts);
  for (const auto& option : srun.container) {
    if (std::ranges::find(use.container, option) == use.container.end())
      use.container.push_back(option);
  }
}

// Beside commands of srun.
void NoteOnce(const ShellScript& script, const Lines& lines, JobFileDraft& draft) {
  KnownVariables known;
  for (const ShellCommand& command : script.commands) {
    for (const ShellWord& word : command.words) TakeAssignment(word, known);
    if (!CallsPython(command) || FindLauncher(command) || FindSrun(command.words, known)) continue;
    draft.Note(lines.At(command.words.front().line) +
               "Python without srun runs once under Slurm, on the first node: launch runs it "
               "wherever it runs run; do it before the submit");
  }
}

std::string Plain(const ShellScript& script, const Lines& lines, SrunUse& use,
                  JobFileDraft& draft) {
  std::string text;
  const auto joins = [](const std::string& joiner) {
    return joiner == "&&" || joiner == "||" || joiner == "|";
  };
  // What joined the last command to one that is dropped would join it to nothing.
  const auto end_chain = [&](const ShellCommand& dropped) {
    if (joins(dropped.joiner)) return;
    for (const std::string_view end : {" && ", " || ", " | "}) {
      if (text.ends_with(end)) text.replace(text.size() - end.size(), end.size(), "\n");
    }
  };
  const std::set<std::string> used = UsedElsewhere(script);
  const CondaUse conda = CondaUseOf(script);
  TakeConda(conda, draft);
  KnownVariables known;
  for (const ShellCommand& command : script.commands) {
    for (const ShellWord& word : command.words) TakeAssignment(word, known);
    if (FindsMaster(command, used)) {
      end_chain(command);
      draft.Note("run: `" + command.words.back().raw.substr(0, 60) +
                 "` is dropped: launch finds an address that every node reaches");
      continue;
    }
    if (!conda.environment.empty() && CondaCallOf(command) != CondaCall::kNone) {
      end_chain(command);
      continue;
    }
    const std::optional<Srun> srun = FindSrun(command.words, known);
    std::size_t first = 0;
    if (srun && srun->cut) {
      first = srun->first;
      NoteSrun(*srun, command, lines, draft);
      Count(*srun, StartsPerTask(command, first), use);
      if (first == command.words.size()) {
        end_chain(command);
        continue;
      }
    }
    std::string line;
    for (std::size_t i = 0; i < command.words.size(); ++i) {
      const bool kept = i >= first || AssignmentOf(command.words[i]);
      if (kept) line += (line.empty() ? "" : " ") + command.words[i].raw;
    }
    for (const ShellRedirect& redirect : command.redirects) line += " " + redirect.raw;
    if (line.empty()) {
      end_chain(command);
      continue;
    }
    const std::string& joiner = command.joiner;
    text += line + (joins(joiner) ? " " + joiner + " " : joiner == "&" ? " &\n" : "\n");
  }
  return text;
}

// A text with blocks, arrays or functions stays as it is written, but for the words that are
// changed in their places.
class InPlace {
 public:
  explicit InPlace(std::string_view text) : text_(text) {
    begins_.push_back(0);
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') begins_.push_back(i + 1);
    }
  }
  std::size_t Of(const ShellWord& word) const {
    const auto line = static_cast<std::size_t>(word.line - 1);
    return line < begins_.size() ? begins_[line] + static_cast<std::size_t>(word.column - 1)
                                 : text_.size();
  }
  // Behind its last byte; absent where a backslash at a line's end cuts it.
  std::optional<std::size_t> End(const ShellWord& word) const {
    const std::size_t begin = Of(word);
    if (text_.substr(std::min(begin, text_.size()), word.raw.size()) != word.raw)
      return std::nullopt;
    return begin + word.raw.size();
  }
  void Change(std::size_t begin, std::size_t end, std::string to) {
    if (begin <= end && end <= text_.size()) changes_.push_back({begin, end, std::move(to)});
  }
  std::string Done() {
    std::sort(changes_.begin(), changes_.end(),
              [](const auto& a, const auto& b) { return a.begin > b.begin; });
    std::string text(text_);
    for (const auto& change : changes_)
      text.replace(change.begin, change.end - change.begin, change.to);
    return text;
  }

 private:
  struct Edit {
    std::size_t begin;
    std::size_t end;
    std::string to;
  };
  std::string_view text_;
  std::vector<std::size_t> begins_;
  std::vector<Edit> changes_;
};

std::string WithBlocks(const ShellScript& script, const std::string& body, const Lines& lines,
                       SrunUse& use, JobFileDraft& draft) {
  InPlace text(body);
  KnownVariables known;
  for (const ShellCommand& command : script.commands) {
    const std::vector<ShellWord>& words = command.words;
    for (const ShellWord& word : words) TakeAssignment(word, known);
    const std::size_t first = !words.empty() && words.front().value == "export" ? 1 : 0;
    const bool master = words.size() > first &&
                        std::all_of(words.begin() + static_cast<std::ptrdiff_t>(first), words.end(),
                                    [](const ShellWord& word) {
                                      const auto assignment = AssignmentOf(word);
                                      return assignment && IsMasterVariable(assignment->name);
                                    });
    const auto end = words.empty() ? std::nullopt : text.End(words.back());
    if (master && end) {
      text.Change(text.Of(words.front()), *end, ":");  // a block must not become empty
      draft.Note("run: `" + words.back().raw.substr(0, 60) +
                 "` is dropped: launch finds an address that every node reaches");
      continue;
    }
    const std::optional<Srun> srun = FindSrun(words, known);
    if (!srun || !srun->cut) continue;
    NoteSrun(*srun, command, lines, draft);
    Count(*srun, StartsPerTask(command, srun->first), use);
    if (srun->first < words.size())
      text.Change(text.Of(words[srun->word]), text.Of(words[srun->first]), "");
    else if (end)
      text.Change(text.Of(words[srun->word]), *end, ":");
  }
  CondaUse conda = CondaUseOf(script);
  conda.environment.clear();  // maybe of a branch or a function only
  TakeConda(conda, draft);
  return text.Done();
}

bool HasLauncher(std::string_view body) {
  constexpr std::string_view kWords[] = {"torchrun", "torch.distributed.run",
                                         "torch.distributed.launch", "accelerate launch",
                                         "deepspeed "};
  return std::any_of(std::begin(kWords), std::end(kWords), [&](std::string_view word) {
    return body.find(word) != std::string_view::npos;
  });
}

// As the job's `run` is read: `bash -c "$CMD"` may call a launcher, too.
bool StartsItself(const std::string& run) {
  const Result<LaunchLine> line = ReadLaunchLine(run, {});
  return line ? line->launcher != LauncherKind::kProcess : HasLauncher(run);
}

std::string Renamed(std::string text, bool by_node, const SlurmNumbers& given,
                    JobFileDraft& draft) {
  for (const auto& twin : kTwins) {
    if (given.contains(std::string(twin.first))) continue;
    const std::string_view to = TwinOf(twin, by_node);
    const std::string before = text;
    RenameVariable(text, twin.first, to);
    if (text != before)
      draft.Note("run: " + std::string(twin.first) + " became " + std::string(to));
  }
  return text;
}

// `torchrun ... train.py --gpus $SLURM_GPUS_ON_NODE`: launch starts the program itself, where
// NPROC_PER_NODE has no value.
bool ProgramGetsCount(const std::string& run) {
  const Result<LaunchLine> line = ReadLaunchLine(run, {});
  return line && line->launcher != LauncherKind::kNode &&
         line->launcher != LauncherKind::kProcess &&
         line->shell.find("SLURM_GPUS_") != std::string::npos;
}

// Without comments, as far as a shell reads the text.
bool Uses(const std::string& text, const std::string& name) {
  const Result<ShellScript> script = ReadShell(text);
  if (!script) return false;
  std::string words;
  for (const ShellCommand& command : script->commands) {
    for (const ShellWord& word : command.words) words += word.raw + "\n";
    for (const ShellRedirect& redirect : command.redirects) words += redirect.raw + "\n";
  }
  std::string renamed = words;
  RenameVariable(renamed, name, "");
  return renamed != words;
}

// What the file itself says has the same value in every process, and may be used inside of texts
// and by the programs that run calls.
std::string WithNumbers(const std::string& text, const SlurmNumbers& numbers, JobFileDraft& draft) {
  std::string given;
  for (const auto& [name, number] : numbers) {
    if (!Uses(text, name)) continue;
    given += "export " + name + "=" + std::to_string(number) + "\n";
    draft.Note("run: " + name + " is " + std::to_string(number) + ", as the file says");
  }
  return given + text;
}

// A comment to the end of the line is no use.
std::string_view WithoutComment(std::string_view line) {
  if (Trim(line).starts_with("#")) return {};
  const std::size_t comment = line.find(" #");
  return line.substr(0, comment);
}

// What only Slurm knows, in what the file says and nothing was made of.
void NoteLeft(const SlurmScript& script, const std::string& run, const SlurmNumbers& given,
              JobFileDraft& draft) {
  constexpr std::string_view kPrograms[] = {"srun",   "sbatch",  "scontrol",
                                            "squeue", "scancel", "sacct"};
  std::size_t number = 0;
  std::string_view rest = script.body;
  std::set<std::string> told;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = WithoutComment(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::string at =
        number < script.lines.size() ? "line " + std::to_string(script.lines[number]) : "run";
    ++number;
    for (std::size_t use = line.find("SLURM_"); use != std::string_view::npos;
         use = line.find("SLURM_", use + 1)) {
      std::size_t behind = use;
      while (behind < line.size() && IsNameChar(line[behind])) ++behind;
      const std::string name(line.substr(use, behind - use));
      const bool whole = use == 0 || !IsNameChar(line[use - 1]);
      if (!whole || given.contains(name) || run.find(name) == std::string::npos ||
          !told.insert(at + name).second)
        continue;
      draft.Note(at + ": run still uses " + name + ", which launch has no twin for");
    }
    for (const std::string_view program : kPrograms) {
      const std::size_t found = line.find(program);
      if (found == std::string_view::npos) continue;
      const std::size_t behind = found + program.size();
      const bool whole = (found == 0 || !IsNameChar(line[found - 1])) &&
                         (behind == line.size() || line[behind] == ' ' || line[behind] == ')');
      // Still there: as a word of what became of the line.
      if (!whole || run.find(Trim(line)) == std::string::npos) continue;
      draft.Note(at + ": " + std::string(program) + " is not supported: the line stays as it is");
    }
  }
}

}  // namespace

SlurmNumbers WrittenOut(const SlurmNumbers& numbers, bool launcher) {
  SlurmNumbers written = numbers;
  if (launcher)
    std::erase_if(written, [](const auto& each) { return each.first.starts_with("SLURM_GPUS_"); });
  return written;
}

std::string_view TwinOfSlurm(std::string_view name, bool by_node) {
  const auto found =
      std::ranges::find_if(kTwins, [&](const auto& twin) { return twin.first == name; });
  return found == std::end(kTwins) ? std::string_view() : TwinOf(*found, by_node);
}

std::string SlurmCommands(const SlurmScript& script, SrunUse& use, JobFileDraft& draft) {
  const Lines lines(script);
  const Result<ShellScript> read = ReadShell(script.body);
  std::string text;
  if (!read) {
    draft.Note("run is the script's text, which bash would not read either: " +
               read.error().message);
    text = script.body;
  } else if (!read->compound) {
    text = Plain(*read, lines, use, draft);
  } else {
    text = WithBlocks(*read, script.body, lines, use, draft);
    draft.Note(
        "run is the script's text: it has loops, arrays or functions, so nothing in it was changed "
        "but srun, the master and names");
  }
  if (read && use.any) NoteOnce(*read, lines, draft);
  ReplaceHostnames(text, draft);
  ReplaceHeadAddress(text, draft);
  use.launcher = StartsItself(text);
  return text;
}

std::string WithOurNames(const SlurmScript& script, std::string run, std::int64_t tasks_per_node,
                         const SlurmNumbers& numbers, const SrunUse& srun, JobFileDraft& draft) {
  const bool launcher = srun.launcher || HasLauncher(script.body);
  const bool by_node = tasks_per_node == 1 && launcher;
  const SlurmNumbers given = WrittenOut(numbers, launcher && !ProgramGetsCount(run));
  run = WithNumbers(Renamed(std::move(run), by_node, given, draft), given, draft);
  NoteLeft(script, run, given, draft);
  return run;
}

}  // namespace launch
