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
#include "planner/torchrun_flags.h"

namespace launch {
namespace {

struct OwnLauncher {
  std::string_view program;
  std::string_view procs;  // its flag for processes of a node, with '_'; empty: only those of all
  bool total = false;      // the flag counts the processes of all nodes
  std::string_view sign;   // a word begins so where it starts several; empty: it always does
};

constexpr std::array<OwnLauncher, 13> kOwnLaunchers = {{
    {"llamafactory-cli", ""},
    {"axolotl", "num_processes", true},
    {"composer", "n"},
    {"colossalai", ""},
    {"fabric", "devices"},
    {"lightning", "devices"},
    {"swift", ""},
    {"megatron", ""},
    {"trl", "num_processes", true},
    {"tune", ""},
    {"xtuner", ""},
    {"nnUNetv2_train", "num_gpus", false, "-num_gpus"},
    {"yolo", "", false, "device="},
}};

constexpr int kMostParameters = 64;  // $1, $2 ...

const OwnLauncher* OwnLauncherOf(std::string_view program) {
  const auto* const found =
      std::find_if(kOwnLaunchers.begin(), kOwnLaunchers.end(),
                   [&](const OwnLauncher& one) { return one.program == program; });
  return found == kOwnLaunchers.end() ? nullptr : found;
}

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
  CountReader(KnownVariables known, const std::map<std::string, std::string>& files)
      : known_(std::move(known)), files_(files) {}

  void Walk(const ShellScript& script) {
    for (const ShellCommand& command : script.commands) {
      const std::vector<ShellWord> words = splitter_.Split(command.words, known_);
      NoteBranches(command);
      const std::vector<Before> before = TakeAssignments(command);
      if (!words.empty() && words[0].value == "shift") Shift(words);
      if (!FromCall(words, calls_)) FromTexts(words);
      FromScript(command);
      FromAssignments(command.words);
      for (const std::string_view document : ShellDocuments(command)) {
        nested_.Visit(document, [&](const ShellScript& inner) { Walk(inner); });
      }
      Restore(before);
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

  // What stands in an if, a case or a loop is done or not.
  void NoteBranches(const ShellCommand& command) {
    static constexpr std::array<std::string_view, 6> kOpen = {"if",    "case", "while",
                                                              "until", "for",  "select"};
    static constexpr std::array<std::string_view, 3> kClose = {"fi", "esac", "done"};
    static constexpr std::array<std::string_view, 6> kWithin = {"then", "do", "else",
                                                                "elif", "{",  "!"};
    for (const ShellWord& word : command.words) {
      const auto is_of = [&](const auto& words) {
        return std::find(words.begin(), words.end(), word.raw) != words.end();
      };
      if (is_of(kOpen)) {
        ++branches_;
      } else if (is_of(kClose)) {
        branches_ = std::max(0, branches_ - 1);
      } else if (!is_of(kWithin)) {
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
    nested_.Visit(file->second, [&](const ShellScript& inner) { Walk(inner); });
    const std::string_view program = ProgramOf(command.words[0]);
    if (program != "source" && program != ".") known_ = outside;
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
        const auto read = ReadDeepspeed(words, place->first_flag, known_);
        return read ? TakeRead(*read, false, out) : TakeFlags(words, place->first_flag, {}, out);
      }
      if (const auto place = FindAccelerate(words, i)) {
        const auto read = ReadAccelerate(words, place->first_flag, known_, files_);
        return read ? TakeRead(read->arguments, true, out)
                    : TakeFlags(words, place->first_flag, {"", "num_processes", true}, out);
      }
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

  // "--nnodes 2 --nproc_per_node=8" from words[first] on to the script.
  bool TakeFlags(const std::vector<ShellWord>& words, std::size_t first, const OwnLauncher& own,
                 WrittenCounts& out) {
    const std::size_t last = ScriptBehind(words, first);
    for (std::size_t i = first; i < last; ++i) {
      const std::string name = FlagName(words[i].value);
      if (!own.sign.empty() && words[i].value.starts_with("device=")) {
        TakeProcs(ProcsWord::kNumber, ItemsOf(words[i].value), false, out);
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
      if (!procs && !own.procs.empty() && name == own.procs) TakeProcs(*value, own.total, out);
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
  NestedTexts nested_;
  WordSplitter splitter_;
  int branches_ = 0;          // that are open: if, case, loops
  bool conditional_ = false;  // "test && A=1"
  WrittenCounts calls_;
  WrittenCounts assigned_;
};

}  // namespace

WrittenCounts CountsIn(const ShellScript& script, KnownVariables known,
                       const std::map<std::string, std::string>& files) {
  CountReader reader(std::move(known), files);
  reader.Walk(script);
  return reader.Counts();
}

bool StartsRanksItself(std::string_view program) { return OwnLauncherOf(program) != nullptr; }

bool StartsRanksItself(const std::vector<ShellWord>& words, std::size_t at) {
  const OwnLauncher* own = OwnLauncherOf(ProgramOf(words[at]));
  if (own == nullptr || at + 1 >= words.size()) return false;
  const auto behind = words.begin() + static_cast<std::ptrdiff_t>(at) + 1;
  const auto last = behind + std::min<std::ptrdiff_t>(256, words.end() - behind);
  return own->sign.empty() || std::any_of(behind, last, [&](const ShellWord& word) {
           return word.value.starts_with(own->sign) &&
                  (own->sign != "device=" || word.value.find(',') != std::string::npos);
         });
}

}  // namespace launch
