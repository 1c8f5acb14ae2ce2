#include "planner/line/device_split.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "common/units.h"
#include "planner/line/called_script.h"
#include "planner/line/device_flags.h"
#include "planner/line/launcher_words.h"
#include "planner/line/line_prefix.h"
#include "planner/line/shell_functions.h"

namespace launch {
namespace {

constexpr std::size_t kMostUses = 64;    // texts may be hostile
constexpr std::size_t kMostBlocks = 16;  // within each other
constexpr std::size_t kLongestList = 16;
constexpr std::size_t kLongestUse = 256;
constexpr int kMostCalls = 128;  // of functions of the text
constexpr std::int64_t kMostDevices = 64;

constexpr std::string_view kDevices = "CUDA_VISIBLE_DEVICES";

template <std::size_t N>
bool Is(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// As a word of its own: "$i", "${i}", "$((i % 4))".
bool Names(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string_view::npos;
       at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || !IsNameChar(text[at - 1])) && (end == text.size() || !IsNameChar(text[end])))
      return true;
  }
  return false;
}

bool NamesOneOf(std::string_view text, const std::set<std::string, std::less<>>& names) {
  return text.find('$') != std::string_view::npos &&
         std::any_of(names.begin(), names.end(), [&](const auto& one) { return Names(text, one); });
}

// "$1", "${2:-x}", "$@"
bool NamesArguments(std::string_view text) {
  for (std::size_t at = text.find('$'); at != std::string_view::npos; at = text.find('$', at + 1)) {
    const std::size_t next = at + (text.substr(at + 1).starts_with('{') ? 2 : 1);
    if (next >= text.size()) return false;
    if (std::string_view("123456789@*").find(text[next]) != std::string_view::npos) return true;
  }
  return false;
}

std::vector<std::string> Range(std::int64_t from, std::int64_t to) {
  std::vector<std::string> numbers;
  for (; from <= to && static_cast<std::int64_t>(numbers.size()) < kMostDevices; ++from)
    numbers.push_back(std::to_string(from));
  return numbers;
}

// "{0..3}", "$(seq 0 3)", "$(seq 4)"
std::vector<std::string> RangeIn(std::string_view word) {
  const bool braces = word.starts_with('{') && word.ends_with('}');
  if (!braces && (!word.starts_with("$(seq ") || !word.ends_with(')'))) return {};
  const std::string_view inner =
      braces ? word.substr(1, word.size() - 2) : word.substr(6, word.size() - 7);
  const std::string_view between = braces ? ".." : " ";
  const std::size_t at = inner.find(between);
  const auto first = ParseInt(inner.substr(0, at));
  if (at == std::string_view::npos) return first && !braces ? Range(1, *first) : Range(1, 0);
  const auto last = ParseInt(inner.substr(at + between.size()));
  return first && last ? Range(*first, *last) : Range(1, 0);
}

std::string Unquoted(std::string_view text) {
  std::string out;
  std::copy_if(text.begin(), text.end(), std::back_inserter(out),
               [](char c) { return c != '"' && c != '\''; });
  return out;
}

// "${G}" as "$G"
std::string WithoutBraces(std::string text) {
  if (!text.starts_with("${") || !text.ends_with('}')) return text;
  const std::string name = text.substr(2, text.size() - 3);
  return std::all_of(name.begin(), name.end(), IsNameChar) ? "$" + name : text;
}

// "0,1", a bit for each. None: they are not written out, or too many.
std::optional<std::uint64_t> NumbersIn(std::string_view list) {
  std::uint64_t numbers = 0;
  if (list.size() > kLongestUse) return std::nullopt;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    const auto number = ParseInt(list.substr(at, end - at));
    if (!number || *number < 0 || *number >= kMostDevices) return std::nullopt;
    numbers |= std::uint64_t{1} << *number;
    at = end + 1;
  }
  return numbers;
}

// What a program takes for itself.
struct Use {
  std::string assignment;
  std::string value;  // as written, in a function with the words of its call
  bool devices = false;
  bool by_flag = false;  // not by its environment
  bool maybe = false;    // the text may not come to it
  bool follows = false;  // the arguments of the function that it stands in
  std::optional<std::uint64_t> numbers = {};
};

// Whether two programs at the same time have devices, or ranks, of their own.
enum class Apart { kNo, kMaybe, kYes };
Apart AreApart(const Use& one, const Use& other) {
  if (one.devices != other.devices || one.value == other.value) return Apart::kNo;
  if (one.numbers.has_value() != other.numbers.has_value()) return Apart::kMaybe;
  return one.numbers && (*one.numbers & *other.numbers) != 0 ? Apart::kNo : Apart::kYes;
}

// What is open: a loop, `{`, `(`, a function, or the text itself.
struct OpenBlock {
  enum class Kind { kText, kLoop, kBraces, kSubshell, kFunction };
  Kind kind = Kind::kText;
  std::set<std::string, std::less<>> names = {};  // that change with every round, or call
  std::string variable = {};                      // of `for VARIABLE in ...`
  std::vector<std::string> list = {};             // its values, where they are written out
  std::vector<ShellAssignment> assigned = {};
  std::vector<Use> serial = {};
  std::vector<Use> parallel = {};  // left in the background, and not waited for
  std::optional<Use> exported = {};
  std::vector<Use> splits = {};  // of a function, which may never be called; at most one
  int ifs = 0;
};

class SplitReader {
 public:
  std::optional<DeviceSplit> Read(const std::vector<ShellCommand>& commands) {
    for (std::size_t i = 0; i < commands.size(); ++i) {
      const ShellCommand& command = commands[i];
      EnterSubshells(command.subshell, i > 0 && commands[i - 1].joiner == "&");
      if (command.words.empty()) continue;
      const ShellCommand* next = i + 1 < commands.size() ? &commands[i + 1] : nullptr;
      const bool opens = reader_.Take(command, next) == FunctionReader::Step::kOpens;
      const bool background = InBackground(commands, i);
      ShellCommand own = command;
      own.words = TakeKeywords(command.words, opens, background);
      const bool certain =
          i == 0 || (commands[i - 1].joiner != "&&" && commands[i - 1].joiner != "||");
      joined_ = !certain && (commands[i - 1].joiner == "||" || IsTest(commands[i - 1]));
      Take(own, background, certain);
      NoteEnd(own);
      if (command.joiner == ";;") blocks_.back().parallel.clear();
    }
    EnterSubshells(0, !commands.empty() && commands.back().joiner == "&");
    if (!found_) return std::nullopt;
    if (!known_) split_.devices.clear();
    return split_;
  }

 private:
  // `a && b | tee log &` is one list.
  static bool InBackground(const std::vector<ShellCommand>& commands, std::size_t i) {
    static constexpr std::array<std::string_view, 3> kGoesOn = {"|", "&&", "||"};
    const std::size_t last = std::min(i + kLongestList, commands.size() - 1);
    while (i < last && Is(commands[i].joiner, kGoesOn)) ++i;
    return commands[i].joiner == "&";
  }

  static bool IsTest(const ShellCommand& command) {
    static constexpr std::array<std::string_view, 3> kTests = {"[", "[[", "test"};
    return command.words.empty() || command.words[0].raw.starts_with("((") ||
           Is(command.words[0].raw, kTests);
  }

  // Whether the text may not come to the command at hand.
  bool Maybe() const {
    return joined_ || ends_ ||
           std::any_of(blocks_.begin(), blocks_.end(),
                       [](const OpenBlock& one) { return one.ifs > 0; });
  }

  // `exec python train.py` in a branch; `exit 1` is for wrong arguments.
  void NoteEnd(const ShellCommand& command) {
    const std::vector<ShellWord>& words = command.words;
    if (words.empty() || !Maybe()) return;
    const std::string& word = words[0].raw;
    ends_ = ends_ || (word == "exec" && words.size() > 1) ||
            (word == "exit" && (words.size() == 1 || words[1].raw == "0"));
  }

  void EnterSubshells(int level, bool background) {
    level = std::min(level, static_cast<int>(kMostBlocks));
    for (; subshells_ > level; --subshells_) Close(OpenBlock::Kind::kSubshell, background);
    for (; subshells_ < level; ++subshells_) Open({OpenBlock::Kind::kSubshell});
  }

  void Open(OpenBlock block) {
    if (blocks_.size() < kMostBlocks) {
      blocks_.push_back(std::move(block));
    } else {
      ++deeper_;
    }
  }

  // The innermost one of that kind; what is open in it ends with it.
  void Close(OpenBlock::Kind kind, bool background) {
    if (deeper_ > 0) {
      --deeper_;
      return;
    }
    const auto is = [kind](const OpenBlock& one) {
      return one.kind == kind ||
             (kind == OpenBlock::Kind::kBraces && one.kind == OpenBlock::Kind::kFunction);
    };
    if (std::none_of(blocks_.begin() + 1, blocks_.end(), is)) return;
    bool closed = false;
    while (!closed) {
      OpenBlock block = std::move(blocks_.back());
      blocks_.pop_back();
      closed = is(block);
      SettleNames(block);
      if (block.kind == OpenBlock::Kind::kFunction) {
        for (std::vector<Use>* uses : {&block.serial, &block.parallel})
          for (Use& use : *uses)
            use.follows = NamesArguments(use.value) || NamesOneOf(use.value, block.names);
        functions_.insert_or_assign(function_, std::move(block));
        continue;
      }
      if (block.kind == OpenBlock::Kind::kLoop && block.list.size() != 1) {
        for (const Use& use : block.parallel)
          if (NamesOneOf(use.value, block.names)) Found(use, use.maybe || Maybe());
      }
      for (Use& use : block.parallel) Push(std::move(use), true);
      for (Use& use : block.serial) Push(std::move(use), background);
    }
  }

  // The words behind those that only open and close something.
  std::vector<ShellWord> TakeKeywords(const std::vector<ShellWord>& words, bool opens_function,
                                      bool background) {
    std::size_t i = 0;
    if (opens_function) {
      function_ = reader_.name();
      Open({OpenBlock::Kind::kFunction});
      const bool keyword = words[0].raw == "function";
      const bool brace = keyword && words.size() > 2 && words[2].raw == "{";
      brace_of_function_ = !brace;
      i = brace ? 3 : words.size();
    }
    for (; i < words.size(); ++i) {
      const std::string& word = words[i].raw;
      if (word == "{") {
        if (!std::exchange(brace_of_function_, false)) Open({OpenBlock::Kind::kBraces});
      } else if (word == "}") {
        Close(OpenBlock::Kind::kBraces, background);
      } else if (word == "done") {
        Close(OpenBlock::Kind::kLoop, background);
      } else if (word == "for" || word == "select") {
        OpenFor(words, i);
        return {};
      } else if (word == "while" || word == "until") {
        Open({OpenBlock::Kind::kLoop});
      } else if (word == "if" || word == "case") {
        ++blocks_.back().ifs;
        if (word == "case") return {};
      } else if (word == "fi" || word == "esac") {
        blocks_.back().ifs = std::max(blocks_.back().ifs - 1, 0);
      } else if (word == "else" || word == "elif") {
        blocks_.back().parallel.clear();
      } else if (!StandsBeforeCommand(word) && word != "time") {
        break;
      }
    }
    return {words.begin() + static_cast<std::ptrdiff_t>(i), words.end()};
  }

  // "for i in 0 1 2 3", "for ((i = 0; i < 4; i++))"
  void OpenFor(const std::vector<ShellWord>& words, std::size_t i) {
    OpenBlock loop{OpenBlock::Kind::kLoop};
    if (i + 1 < words.size()) {
      const std::string& name = words[i + 1].raw;
      const std::size_t begin = std::min(name.find_first_not_of("( "), name.size());
      std::size_t end = begin;
      while (end < name.size() && IsNameChar(name[end])) ++end;
      loop.variable = name.substr(begin, end - begin);
      if (end > begin) loop.names.insert(loop.variable);
    }
    for (std::size_t k = i + 3; k < words.size(); ++k) {
      const std::vector<std::string> range = RangeIn(words[k].raw);
      if (!words[k].fixed && range.empty()) {
        loop.list.clear();
        break;
      }
      if (range.empty()) {
        loop.list.push_back(words[k].value);
      } else {
        loop.list.insert(loop.list.end(), range.begin(), range.end());
      }
      if (static_cast<std::int64_t>(loop.list.size()) > kMostDevices) {
        loop.list.clear();
        break;
      }
    }
    Open(std::move(loop));
  }

  void Take(const ShellCommand& command, bool background, bool certain) {
    const std::vector<ShellWord>& words = command.words;
    if (words.empty()) return;
    if (words[0].raw == "wait") {
      NoteWait(words, certain);
      return;
    }
    const CommandParts parts = PartsOf(command);
    const bool program = parts.first < words.size() && words[parts.first].raw != "export" &&
                         words[parts.first].raw != "declare";
    NoteNames(words, program ? parts.first : 0);
    std::optional<Use> own;
    for (std::size_t i = 0; i < (program ? parts.first : words.size()); ++i) {
      const auto assignment = AssignmentOf(words[i]);
      const bool names =
          assignment && (assignment->name == kDevices || assignment->name == "RANK" ||
                         assignment->name == "LOCAL_RANK");
      if (names && (!own || assignment->name == kDevices)) {
        own = Use{words[i].raw, WithoutBraces(Unquoted(assignment->value.raw)),
                  assignment->name == kDevices};
      }
    }
    if (!program) {
      if (own) blocks_.back().exported = std::move(own);
      return;
    }
    if (const auto called = functions_.find(words[parts.first].raw); called != functions_.end()) {
      Call(called->second, {words.begin() + static_cast<std::ptrdiff_t>(parts.first), words.end()},
           background);
    } else if (own) {
      Add(std::move(*own), background);
    } else if (StartsOnEach(words, parts.first)) {
      Found({std::string(kDevices) + "={}", "{}", true}, Maybe());
      known_ = false;
    } else if (ProgramOf(words[parts.first]) == "simple_gpu_scheduler") {
      Found({words[parts.first].value, "{}", true}, Maybe());
      known_ = false;
    } else {
      AddExported(command, parts.first, background);
    }
  }

  // Devices that flags of a program of Python name (`--device cuda:$g`), among several that were
  // exported or all; else those that were exported before, for a program that may use them:
  // `nvidia-smi dmon &` and `gzip log &` may use none.
  void AddExported(const ShellCommand& command, std::size_t first, bool background) {
    const std::string& word = command.words[first].raw;
    const bool trains = CallsPython(command) || !ShellScriptOf(command).empty();
    if (!trains && (!background || IsShellBuiltin(word) || word == "sleep")) return;
    const auto set = std::find_if(blocks_.rbegin(), blocks_.rend(), [](const OpenBlock& block) {
      return block.exported.has_value();
    });
    const bool one = set != blocks_.rend() && set->exported->value.find(',') == std::string::npos;
    const auto given = one || !CallsPython(command) ? std::nullopt : DeviceGivenIn(command.words);
    if (given) {
      Add({.assignment = given->shown,
           .value = WithoutBraces(Unquoted(given->value)),
           .devices = true,
           .by_flag = true},
          background);
    } else if (set != blocks_.rend()) {
      Add(*set->exported, background, !trains);
    }
  }

  // `parallel -j4 CUDA_VISIBLE_DEVICES={%} ...`, `xargs -P4 -I{} ... CUDA_VISIBLE_DEVICES={} ...`
  static bool StartsOnEach(const std::vector<ShellWord>& words, std::size_t program) {
    const std::string_view name = ProgramOf(words[program]);
    const bool at_once =
        name == "parallel" ||
        (name == "xargs" && std::any_of(words.begin(), words.end(), [](const ShellWord& word) {
           return word.value.starts_with("-P") || word.value.starts_with("--max-procs");
         }));
    return at_once && std::any_of(words.begin(), words.end(), [](const ShellWord& word) {
             const std::size_t set = word.value.find(std::string(kDevices) + "=");
             return set != std::string::npos &&
                    word.value.substr(set, word.value.find(' ', set) - set).find('{') !=
                        std::string::npos;
           });
  }

  // Not `wait -n`, nor one that only some rounds of a loop come to.
  void NoteWait(const std::vector<ShellWord>& words, bool certain) {
    const bool some = words.size() > 1 && words[1].raw == "-n";
    const OpenBlock& here = blocks_.back();
    if (some || (here.kind == OpenBlock::Kind::kLoop && (here.ifs > 0 || !certain))) return;
    for (OpenBlock& block : blocks_) block.parallel.clear();
  }

  void NoteNames(const std::vector<ShellWord>& words, std::size_t first) {
    for (std::size_t i = first; i < words.size(); ++i) {
      const ShellWord& word = words[i];
      const auto assignment = AssignmentOf(word);
      const bool of_rank = assignment && ranked_.size() < kMostUses &&
                           assignment->value.raw.size() < kLongestUse &&
                           FollowsRank(assignment->value.raw);
      if (of_rank) ranked_.insert(assignment->name);
      for (OpenBlock& block : blocks_) {
        if (assignment && block.assigned.size() < kMostUses) block.assigned.push_back(*assignment);
        if (block.kind != OpenBlock::Kind::kLoop || !word.raw.starts_with("((")) continue;
        std::size_t end = 2;
        while (end < word.raw.size() && IsNameChar(word.raw[end])) ++end;
        if (end > 2 && block.names.size() < kMostUses)
          block.names.insert(word.raw.substr(2, end - 2));
      }
    }
  }

  // Variables that follow those of the loop, or the arguments of the function.
  static void SettleNames(OpenBlock& block) {
    const bool loop = block.kind == OpenBlock::Kind::kLoop;
    if (!loop && block.kind != OpenBlock::Kind::kFunction) return;
    constexpr int kMostRounds = 4;
    for (int round = 0; round < kMostRounds; ++round) {
      const std::size_t before = block.names.size();
      for (const ShellAssignment& one : block.assigned) {
        const std::string_view value = one.value.raw;
        if (value.size() > kLongestUse) continue;
        const bool counts =
            loop && value.find('$') != std::string_view::npos && Names(value, one.name);
        if (counts || (!loop && NamesArguments(value)) || NamesOneOf(value, block.names))
          block.names.insert(one.name);
      }
      if (block.names.size() == before) return;
    }
  }

  // "$1" is the word of the call, and so is "$gpu" behind `local gpu=$1`. Empty: it is none of it.
  static std::string ArgumentOf(const OpenBlock& function, std::string value,
                                const std::vector<ShellWord>& call) {
    for (const ShellAssignment& one : function.assigned) {
      if (value != "$" + one.name) continue;
      value = WithoutBraces(Unquoted(one.value.raw));
      break;
    }
    if (value.size() != 2 || value[0] != '$' || value[1] < '1' || value[1] > '9') return {};
    const std::size_t number = static_cast<std::size_t>(value[1] - '0');
    return number < call.size() ? WithoutBraces(Unquoted(call[number].raw)) : std::string();
  }

  void Call(const OpenBlock& called, const std::vector<ShellWord>& words, bool background) {
    if (++calls_ > kMostCalls) return;
    std::string all;
    for (const ShellWord& word : words) {
      if (all.size() + word.raw.size() > kLongestUse) break;
      all += " " + word.raw;
    }
    const OpenBlock function = called;  // what is found in it may change it
    if (!function.splits.empty()) Found(function.splits[0], function.splits[0].maybe || Maybe());
    const auto add = [&](Use use, bool behind) {
      use.maybe = use.maybe || Maybe();
      if (use.follows) {
        std::string argument = ArgumentOf(function, use.value, words);
        if (argument.size() > kLongestUse) return;
        if (argument.empty() ? FollowsRank(all) : IsHarmless(argument)) return;
        if (argument.empty()) argument = use.value + all;
        use.value = std::move(argument);
        if (use.value.size() > 2 * kLongestUse) return;
      }
      Push(std::move(use), behind);
    };
    for (const Use& use : function.serial) add(use, background);
    for (const Use& use : function.parallel) add(use, true);
  }

  // It has the rank in it, or devices that the process was given.
  bool FollowsRank(std::string_view value) const {
    return (value.find('$') != std::string_view::npos &&
            value.find("RANK") != std::string_view::npos) ||
           value.find(kDevices) != std::string_view::npos ||
           value.find("SLURM_") != std::string_view::npos || NamesOneOf(value, ranked_);
  }

  // The rank's own device, or none.
  bool IsHarmless(std::string_view value) const {
    return value.empty() || value[0] == '-' || value == "NoDevFiles" || FollowsRank(value);
  }

  void Add(Use use, bool background, bool maybe = false) {
    if (use.value.size() > kLongestUse || IsHarmless(use.value)) return;
    use.maybe = maybe || Maybe();
    NoteDevices(use);
    Push(std::move(use), background);
  }

  void Push(Use use, bool background) {
    use.numbers = NumbersIn(use.value);
    bool found = false;
    bool maybe = true;
    for (const OpenBlock& block : blocks_) {
      for (const Use& other : block.parallel) {
        const Apart apart = AreApart(use, other);
        found = found || apart != Apart::kNo;
        maybe = maybe && (apart != Apart::kYes || use.maybe || other.maybe);
      }
    }
    if (found) Found(use, maybe);
    std::vector<Use>& uses = background ? blocks_.back().parallel : blocks_.back().serial;
    if (uses.size() < kMostUses) uses.push_back(std::move(use));
  }

  // The numbers in a value, or in those that it has in the rounds of a loop.
  void NoteDevices(const Use& use) {
    if (!use.devices) return;
    std::vector<std::string> lists = {use.value};
    if (use.value.starts_with('$')) {
      lists.clear();
      std::string name = use.value.substr(1);
      if (name.starts_with('{') && name.ends_with('}')) name = name.substr(1, name.size() - 2);
      for (const OpenBlock& block : blocks_)
        if (block.variable == name) lists = block.list;
    }
    known_ = known_ && !lists.empty();
    for (const std::string_view list : lists) {
      const auto numbers = NumbersIn(list);
      known_ = known_ && numbers;
      for (int i = 0; known_ && i < static_cast<int>(kMostDevices); ++i)
        if ((*numbers >> i & 1) != 0) split_.devices.insert(i);
    }
  }

  // In a function it counts with the call.
  void Found(Use use, bool maybe) {
    const auto open = std::find_if(blocks_.rbegin(), blocks_.rend(), [](const OpenBlock& block) {
      return block.kind == OpenBlock::Kind::kFunction;
    });
    use.maybe = maybe;
    if (open != blocks_.rend()) {
      if (open->splits.empty()) {
        open->splits.push_back(std::move(use));
      } else if (!maybe) {
        open->splits[0].maybe = false;
      }
      return;
    }
    if (!found_ || (use.devices && !split_.by_devices)) split_.assignment = use.assignment;
    split_.by_devices = split_.by_devices || use.devices;
    split_.by_flags = split_.by_flags || use.by_flag;
    split_.maybe = (!found_ || split_.maybe) && maybe;
    found_ = true;
  }

  FunctionReader reader_;
  std::vector<OpenBlock> blocks_ = {OpenBlock{}};
  std::map<std::string, OpenBlock, std::less<>> functions_;
  std::string function_;  // that is open
  bool brace_of_function_ = false;
  int subshells_ = 0;
  int deeper_ = 0;  // blocks beyond those that are kept
  int calls_ = 0;
  bool joined_ = false;  // the command at hand stands behind a test and `&&`, or `||`
  bool ends_ = false;    // the text may have ended
  std::set<std::string, std::less<>> ranked_;  // variables made of the rank
  bool found_ = false;
  bool known_ = true;
  DeviceSplit split_;
};

}  // namespace

std::optional<DeviceSplit> DeviceSplitOf(const ShellScript& script) {
  return SplitReader().Read(script.commands);
}

int GpusOf(const DeviceSplit& split) {
  if (split.devices.empty()) return 0;
  return split.by_flags ? *split.devices.rbegin() + 1 : static_cast<int>(split.devices.size());
}

std::string HintInsteadOfSplit(const DeviceSplit& split) {
  if (!split.by_devices) {
    return "write the command of one rank: launch sets RANK, WORLD_SIZE and LOCAL_RANK; "
           "procs_per_node: 1 starts the text once as it is";
  }
  if (split.by_flags) {
    const std::string gpus = GpusOf(split) > 0 ? std::to_string(GpusOf(split)) : "N";
    return "write gpus: " + gpus +
           " and procs_per_node: 1 to start the text once as it is; or submit a job for each "
           "program (array: or sweep:)";
  }
  std::string ids;
  for (const int device : split.devices) ids += (ids.empty() ? "" : ", ") + std::to_string(device);
  return "write " + (ids.empty() ? "" : "gpu_ids: [" + ids + "] and ") +
         "procs_per_node: 1 to start the text once as it is; or the command of one program, with "
         "$LOCAL_RANK for the GPU's number and gpu_binding: per_rank";
}

}  // namespace launch
