#include "planner/written_counts.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "common/units.h"
#include "planner/accelerate_flags.h"
#include "planner/deepspeed_flags.h"
#include "planner/launcher_words.h"
#include "planner/line_prefix.h"
#include "planner/node_line.h"
#include "planner/own_launchers.h"
#include "planner/torchrun_flags.h"

namespace launch {
namespace {

constexpr int kMostParameters = 64;  // $1, $2 ...
constexpr std::size_t kMostWanted = 64;

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

int ItemsOf(const std::string& list) {
  return static_cast<int>(std::count(list.begin(), list.end(), ',')) + 1;
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

class CountReader {
 public:
  explicit CountReader(const LaunchLineOptions& options)
      : known_(LinePrefix(options.env, options.told).known()),
        files_(options.files),
        place_(options.workdir) {
    Enter(options.workdir);
  }

  void Walk(const ShellScript& script) {
    for (const ShellCommand& command : script.commands) {
      const std::vector<ShellWord> words = splitter_.Split(command.words, known_);
      NoteBranches(command);
      if (const std::string inner = ShellScriptOf(command); !inner.empty()) Want(inner, inner);
      NoteFiles(words);
      NoteFiles(command.words);  // as a reader of one line names them
      const std::vector<Before> before = TakeAssignments(command);
      if (!words.empty() && words[0].value == "shift") Shift(words);
      if (!FromCall(words, calls_)) FromTexts(words);
      FromScript(command);
      FromAssignments(command.words);
      for (const std::string_view document : ShellDocuments(command)) {
        nested_.Visit(document, [&](const ShellScript& inner) { Walk(inner); });
      }
      Restore(before);
      NoteDirectory(command);
      conditional_ = command.joiner == "&&" || command.joiner == "||";
    }
  }

  WrittenCounts Counts() const {
    const bool called = calls_.procs != ProcsWord::kNone || calls_.nodes || calls_.devices;
    WrittenCounts counts = called ? calls_ : assigned_;
    if (counts.procs == ProcsWord::kNumber && counts.total && counts.nodes) {
      counts.total = false;
      if (counts.procs_number % *counts.nodes != 0) counts.procs = ProcsWord::kNone;
      counts.procs_number /= *counts.nodes;
    }
    counts.accelerate = accelerate_;
    counts.on_cpu = on_cpu_;
    counts.wanted = wanted_;
    return counts;
  }

 private:
  struct Before {
    std::string name;
    std::optional<std::string> value;
  };

  std::optional<std::string> ValueOf(const std::string& name) const {
    const auto found = known_.find(name);
    return found == known_.end() ? std::nullopt : std::optional(found->second);
  }

  static bool IsWithinBranch(const ShellWord& word) {
    static constexpr std::array<std::string_view, 6> kWithin = {"then", "do", "else",
                                                                "elif", "{",  "!"};
    return std::find(kWithin.begin(), kWithin.end(), word.raw) != kWithin.end();
  }

  // What stands in an if, a case or a loop is done or not.
  void NoteBranches(const ShellCommand& command) {
    static constexpr std::array<std::string_view, 6> kOpen = {"if",    "case", "while",
                                                              "until", "for",  "select"};
    static constexpr std::array<std::string_view, 3> kClose = {"fi", "esac", "done"};
    for (const ShellWord& word : command.words) {
      const auto is_of = [&](const auto& words) {
        return std::find(words.begin(), words.end(), word.raw) != words.end();
      };
      if (is_of(kOpen)) {
        ++branches_;
      } else if (is_of(kClose)) {
        branches_ = std::max(0, branches_ - 1);
      } else if (!IsWithinBranch(word)) {
        return;
      }
    }
  }

  // What a branch changes is not known; "A=1 program" is of that program alone: what was before is
  // given back, for afterwards.
  std::vector<Before> TakeAssignments(const ShellCommand& command) {
    const std::size_t first = PartsOf(command).first;
    const bool of_program = first < command.words.size();
    std::vector<Before> before;
    for (std::size_t i = 0; i < command.words.size(); ++i) {
      const auto assignment = AssignmentOf(command.words[i]);
      const std::string name = assignment ? assignment->name : std::string();
      const auto old = ValueOf(name);
      TakeAssignment(command.words[i], known_);
      if (name.empty()) continue;
      if (of_program && i < first) {
        before.push_back({name, old});
      } else if ((branches_ > 0 || conditional_) && old && ValueOf(name) != old) {
        known_.erase(name);
      }
    }
    return before;
  }

  void Restore(const std::vector<Before>& before) {
    for (const auto& [name, value] : before) {
      if (value) {
        known_.insert_or_assign(name, *value);
      } else {
        known_.erase(name);
      }
    }
  }

  // Empty: nobody knows where the text stands now.
  void Enter(std::string place) {
    place_ = std::move(place);
    if (place_.empty()) {
      known_.erase("PWD");
    } else {
      known_.insert_or_assign("PWD", place_);
    }
  }

  // Absolute; empty: not known.
  std::string From(const std::string& path) const {
    if (path.starts_with('/')) return path;
    if (place_.empty() || path.empty() || path[0] == '~') return {};
    return place_ + "/" + path;
  }

  void NoteDirectory(const ShellCommand& command) {
    std::size_t first = 0;
    while (first < command.words.size() && IsWithinBranch(command.words[first])) ++first;
    if (first >= command.words.size()) return;
    const std::string& verb = command.words[first].raw;
    if (verb != "cd" && verb != "pushd") return;
    const auto to = command.words.size() == first + 2 ? FixedValue(command.words[first + 1], known_)
                                                      : std::nullopt;
    Enter(to && branches_ == 0 ? From(*to) : std::string());
  }

  void Want(const std::string& named, const std::string& path) {
    if (files_.contains(named) || wanted_.size() >= kMostWanted) return;
    if (const std::string whole = From(path); !whole.empty()) wanted_.emplace(named, whole);
  }

  // Configurations behind flags. A word stands for itself where a reader that knows
  // less looks for it.
  void NoteFiles(const std::vector<ShellWord>& words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      const ShellWord& word = words[i];
      const std::string name = FlagName(word.value);
      if (std::find(kFileFlags.begin(), kFileFlags.end(), name) == kFileFlags.end()) continue;
      ShellWord given = word;
      const std::size_t equals = word.value.find('=');
      if (equals != std::string::npos) {
        given.value = word.value.substr(equals + 1);
        given.raw = word.raw.substr(std::min(word.raw.find('=') + 1, word.raw.size()));
      } else if (i + 1 < words.size()) {
        given = words[i + 1];
      }
      const auto path = FixedValue(given, known_);
      if (!path || path->empty() || path->starts_with('-')) continue;
      Want(*path, *path);
      Want(given.value, *path);
    }
  }

  // "bash dist_train.sh CONFIG 8": $2 is 8 in the script. What it sets stays where it is sourced.
  void FromScript(const ShellCommand& command) {
    const std::string path = ShellScriptOf(command);
    const auto file = path.empty() ? files_.end() : files_.find(path);
    if (file == files_.end() || !nested_.Has(file->second)) return;
    const KnownVariables outside = known_;
    std::string all;
    bool behind = false;
    int number = 0;
    for (const ShellWord& word : command.words) {
      if (behind) {
        all += (all.empty() ? "" : " ") + word.raw;
        if (const auto value = FixedValue(word, outside)) {
          known_.insert_or_assign(std::to_string(++number), *value);
        } else {
          known_.erase(std::to_string(++number));
        }
      }
      behind = behind || word.value == path;
    }
    known_.insert_or_assign("@", all);
    const std::string_view program = ProgramOf(command.words[0]);
    const bool sourced = program == "source" || program == ".";
    const std::string whole = From(path);
    if (!whole.empty()) {
      known_.insert_or_assign("BASH_SOURCE", whole);
      if (!sourced) known_.insert_or_assign("0", whole);
    }
    const std::string place = place_;
    nested_.Visit(file->second, [&](const ShellScript& inner) { Walk(inner); });
    if (sourced) return;
    known_ = outside;
    Enter(place);
  }

  // "shift" of a script: $2 becomes $1.
  void Shift(const std::vector<ShellWord>& words) {
    const auto by = words.size() > 1 ? CountOf(words[1].value, kMostParameters) : 1;
    for (int i = 1; i <= kMostParameters; ++i) {
      known_.erase(std::to_string(i));
      const auto next = by ? known_.find(std::to_string(i + *by)) : known_.end();
      if (next != known_.end()) known_.insert_or_assign(std::to_string(i), next->second);
    }
    known_.erase("@");
  }

  // The call of a launcher among the words of a command. False: there is none.
  bool FromCall(const std::vector<ShellWord>& words, WrittenCounts& out) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (AssignmentOf(words[i])) continue;
      if (const auto place = FindTorchrun(words, i)) {
        const auto read = ReadTorchrun(words, place->first_flag, place->launch_module, known_);
        return read ? TakeRead(*read, false, out) : TakeFlags(words, place->first_flag, {}, out);
      }
      if (const auto place = FindDeepspeed(words, i)) {
        const auto read = ReadDeepspeed(words, place->first_flag, known_, files_);
        return read ? TakeRead(*read, false, out) : TakeFlags(words, place->first_flag, {}, out);
      }
      if (const auto place = FindAccelerate(words, i)) {
        const auto read = ReadAccelerate(words, place->first_flag, known_, files_);
        if (read && !accelerate_) accelerate_ = read->settings;
        if (read && read->cpu) on_cpu_ = "accelerate's --cpu or use_cpu";
        return read ? TakeRead(read->arguments, true, out)
                    : TakeFlags(words, place->first_flag, {"", "num_processes", true}, out);
      }
      // Behind a program that is not known: `coverage run -m torch.distributed.run`.
      const std::string glued = words[i].value.starts_with("-m") ? words[i].value.substr(2) : "";
      const bool apart = glued.empty() && words[i].value == "-m" && i + 1 < words.size();
      const std::string& module = apart ? words[i + 1].value : glued;
      if (module == "torch.distributed.run" || module == "torch.distributed.launch")
        return TakeFlags(words, i + (apart ? 2 : 1), {}, out);
      if (StartsRanksItself(words, i)) {
        TakeFlags(words, i + 1, *OwnLauncherOf(ProgramOf(words[i])), out);
        FromVariables(out);
        return true;
      }
    }
    return false;
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
    const std::size_t by = value.find('x');
    if (by != std::string::npos && !out.nodes) out.nodes = CountOf(value.substr(0, by), 100'000);
    TakeProcs(by == std::string::npos ? value : value.substr(by + 1), own.total, out);
  }

  // "--nnodes 2 --nproc_per_node=8" from words[first] on to the script.
  bool TakeFlags(const std::vector<ShellWord>& words, std::size_t first, const OwnLauncher& own,
                 WrittenCounts& out) {
    const std::size_t last = ScriptBehind(words, first);
    for (std::size_t i = first; i < last; ++i) {
      const std::string name = FlagName(words[i].value);
      if (own.sign.ends_with('=') && words[i].value.starts_with(own.sign)) {
        const std::string value = words[i].value.substr(own.sign.size());
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
      const auto value = FixedValue(given, known_);
      if (!value) continue;
      const bool procs = name == "nproc_per_node" || name == "num_gpus" || name == "nproc";
      if (procs) TakeProcs(*value, false, out);
      if (!procs && !own.procs.empty() && name == own.procs) TakeOwn(*value, own, out);
      const bool nodes = name == "nnodes" || name == "num_nodes" || name == "num_machines";
      if (nodes && !out.nodes) out.nodes = CountOf(*value, 100'000);
    }
    return TakeDevices(out);
  }

  // Those in front of the call, or exported.
  bool TakeDevices(WrittenCounts& out) const {
    const auto visible = known_.find("CUDA_VISIBLE_DEVICES");
    const bool some = visible != known_.end() && !visible->second.empty() &&
                      visible->second.find_first_not_of("0123456789, ") == std::string::npos;
    if (some && !out.devices) out.devices = ItemsOf(visible->second);
    return true;
  }

  // What programs that start torchrun take from their environment.
  void FromVariables(WrittenCounts& out) const {
    const auto procs = known_.find("NPROC_PER_NODE");
    if (procs != known_.end()) TakeProcs(procs->second, false, out);
    const auto nodes = known_.find("NNODES");
    if (nodes != known_.end() && !out.nodes) out.nodes = CountOf(nodes->second, 100'000);
  }

  // bash -c "torchrun ...", eval "$CMD"
  void FromTexts(const std::vector<ShellWord>& words) {
    if (!words.empty() && (words[0].value == "echo" || words[0].value == "printf")) return;
    for (const ShellWord& word : words) {
      if (AssignmentOf(word) || word.value.find(' ') == std::string::npos) continue;
      nested_.Visit(word.value, [&](const ShellScript& inner) { Walk(inner); });
    }
  }

  // LAUNCHER="accelerate launch --num_processes 4": counts where no call is seen.
  void FromAssignments(const std::vector<ShellWord>& words) {
    for (const ShellWord& word : words) {
      const auto assignment = AssignmentOf(word);
      if (!assignment || assignment->value.value.find(' ') == std::string::npos) continue;
      nested_.Visit(assignment->value.value, [&](const ShellScript& inner) {
        if (!inner.commands.empty()) FromCall(inner.commands.front().words, assigned_);
      });
    }
  }

  KnownVariables known_;
  const std::map<std::string, std::string>& files_;
  std::string place_;  // absolute directory; empty: not known
  std::map<std::string, std::string> wanted_;
  std::optional<AccelerateSettings> accelerate_;
  std::string on_cpu_;
  NestedTexts nested_;
  WordSplitter splitter_;
  int branches_ = 0;          // that are open: if, case, loops
  bool conditional_ = false;  // "test && A=1"
  WrittenCounts calls_;
  WrittenCounts assigned_;
};

}  // namespace

WrittenCounts CountsIn(const ShellScript& script, const LaunchLineOptions& options) {
  CountReader reader(options);
  reader.Walk(script);
  return reader.Counts();
}

}  // namespace launch
