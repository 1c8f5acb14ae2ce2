#include "planner/line/shell_walk.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "common/quoted.h"
#include "common/units.h"
#include "planner/line/argument_loop.h"
#include "planner/line/launcher_words.h"
#include "planner/line/line_prefix.h"
#include "planner/line/makefile.h"
#include "planner/line/shell_changes.h"
#include "planner/line/substitutions.h"

namespace launch {
namespace {

constexpr int kMostParameters = 64;  // $1, $2 ...
constexpr std::size_t kMostWanted = 64;
constexpr std::size_t kMostScripts = 64;
constexpr std::size_t kMostChoices = 4;  // values of one variable
constexpr std::size_t kMostUnknown = 4096;
constexpr std::size_t kMostOwnTexts = 16;
constexpr std::size_t kLongestOwnText = 64 * 1024;
constexpr int kMostSubshells = 16;  // within each other
constexpr int kMostCopies = 256;
constexpr std::size_t kMostWays = 16;   // branches within each other
constexpr std::size_t kMostMoves = 64;  // functions that change the place

constexpr std::size_t kMostSkipped = 1024;

// Calls `use` with the names of the variables in the words, "$NAME" and "${NAME", and "NAME[@]".
void ForEachVariable(const ShellCommand& command,
                     const std::function<void(std::string_view)>& use) {
  for (const ShellWord& word : command.words) {
    const std::string_view raw = word.raw;
    for (std::size_t at = raw.find('$'); at != std::string_view::npos; at = raw.find('$', at)) {
      ++at;
      if (at < raw.size() && raw[at] == '{') ++at;
      std::size_t end = at;
      while (end < raw.size() && IsNameChar(raw[end])) ++end;
      if (end == at) continue;
      use(raw.substr(at, end - at));
      constexpr std::string_view kAll = "[@]";
      if (raw.substr(end).starts_with(kAll)) use(raw.substr(at, end + kAll.size() - at));
    }
  }
}

// "[ -n "$X" ] && ..."
bool IsTest(const ShellCommand& command) {
  static constexpr std::array<std::string_view, 8> kTests = {"[",       "[[",   "test", "((",
                                                             "command", "type", "hash", "which"};
  return command.words.empty() || command.words[0].raw.starts_with("((") ||
         std::find(kTests.begin(), kTests.end(), command.words[0].raw) != kTests.end();
}

// The index of the word that is called.
std::size_t CalledWord(const ShellCommand& command) {
  std::size_t first = PartsOf(command).first;
  while (first < command.words.size() && StandsBeforeCommand(command.words[first].raw)) ++first;
  return first;
}

// What echo and printf write, as far as the words are known.
std::optional<std::string> Printed(const std::vector<ShellWord>& words,
                                   const KnownVariables& known) {
  const bool echo = words[0].value == "echo";
  if (!echo && words[0].value != "printf") return std::nullopt;
  std::string text;
  bool escapes = !echo;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (echo && (words[i].value == "-e" || words[i].value == "-n")) {
      escapes = escapes || words[i].value == "-e";
      continue;
    }
    const auto value = FixedValue(words[i], known);
    if (!value || (!echo && (i > 1 || value->find('%') != std::string::npos))) return std::nullopt;
    text += (text.empty() ? "" : " ") + *value;
  }
  for (std::size_t at = text.find("\\n"); escapes && at != std::string::npos;
       at = text.find("\\n", at)) {
    text.replace(at, 2, "\n");
  }
  return text + "\n";
}

}  // namespace

std::string RawText(const ShellCommand& command) {
  std::string text;
  for (const ShellWord& word : command.words) text += (text.empty() ? "" : " ") + word.raw;
  return text;
}

ShellWalk::ShellWalk(const LaunchLineOptions& options, Use use, Decides decides)
    : known_(LinePrefix(options).known()),
      decides_(decides),
      files_(options.files),
      place_(options.workdir),
      use_(std::move(use)) {}

void ShellWalk::Walk(const ShellScript& script) {
  std::vector<Outside> open;
  Body body;
  const bool maybe_outside = maybe_;
  const std::size_t decided_outside = decided_.depth();
  decided_.Enter();
  const std::size_t decided = decided_.depth();
  bool maybe_joined = false;  // "test && command", "command || other"
  const bool own_round = std::exchange(enters_round_, false);
  std::size_t forgets_to = 0;  // end of a loop that is read once
  std::size_t forgets_from = 0;
  const auto end_forgotten = [&] {
    --forgetting_;
    ForgetAssigned(script, forgets_from, std::exchange(forgets_to, 0));
  };
  const std::set<std::string> idle =
      sourced_ ? std::set<std::string>() : FunctionsNeverNamed(script);
  std::optional<LastCalls> calls;
  for (std::size_t i = 0; i < script.commands.size(); ++i) {
    if (leaves_loop_ || round_unsure_) break;
    if (forgets_to > 0 && i > forgets_to) end_forgotten();
    const ShellCommand& command = script.commands[i];
    EnterSubshells(command.subshell, open);
    const ShellCommand* next = i + 1 < script.commands.size() ? &script.commands[i + 1] : nullptr;
    if (const auto end = idle.empty() ? std::nullopt : EndOfIdleFunction(script, i, idle)) {
      i = *end;
      continue;
    }
    const bool decides = decides_ != Decides::kNone;
    const bool takes_out = decides && decided_.depth() == decided;
    if (const auto end = takes_out ? EndOfCalledFunction(script, i, calls) : std::nullopt) {
      i = *end;
      continue;
    }
    const bool dead = decides && decided_.IsDead();
    const ArgumentLoop loop =
        forgetting_ == 0 && !dead ? ArgumentLoopAt(script, i) : ArgumentLoop();
    if (loop.end > 0) {
      const bool rounds = decides && !body.reader.open() && IsSure();
      if (rounds && WalksArgumentLoop(script, i, loop)) {
        i = loop.end;
        continue;
      }
      forgets_from = i;
      forgets_to = loop.end;
      ++forgetting_;
      if (loop.variable.empty() && !body.reader.open()) ForgetParameters();
      ForgetAssigned(script, i, loop.end);
    }
    if (decides && !body.reader.open() &&
        decided_.Skips(command, known_, sure_ && !IsInDoubt(command))) {
      if (skipped_.size() < kMostSkipped) skipped_.insert(RawText(command));
      NoteBranches(command);
      continue;
    }
    if (rounds_ > 0) {
      const auto leaves = LeavesRound(command, own_round);
      if (!leaves) round_unsure_ = true;
      if (!leaves || *leaves) break;
    }
    NoteBody(command, next, body);
    // Where a function is defined its variables are not what they are where it is called.
    const bool sure_outside = sure_;
    sure_ = sure_ && !body.reader.open();
    const std::vector<ShellWord> words = splitter_.Split(command.words, known_);
    words_in_doubt_ = std::ranges::any_of(
        command.words, [this](const ShellWord& word) { return MayBeSetOutside(word.raw); });
    NoteBranches(command);
    const std::vector<Before> before = TakeAssignments(command);
    NoteChanges(command);
    if (!words.empty() && words[0].value == "shift") Shift(words);
    // In one branch too: what the other one set is then no longer sure.
    for (std::size_t word = 1; word < words.size() && words[0].value == "unset"; ++word) {
      Unset(words[word].value, known_);
      choices_.erase(words[word].value);
    }
    NoteWritten(command);
    const bool joined = command.joiner == "&&" || command.joiner == "||";
    maybe_ = maybe_outside || maybe_joined || branches_ > 0 || body.reader.open() ||
             command.joiner == "||";
    maybe_joined = joined && (maybe_joined || command.joiner == "||" || IsTest(command));
    if (!use_(command, words)) FromTexts(words);
    ShellCommand called = command;
    called.words = words;
    // `cat train.sh | bash`
    const ShellCommand* piped = i > 0 ? &script.commands[i - 1] : nullptr;
    if (piped != nullptr && piped->joiner == "|" && piped->words.size() == 2 &&
        piped->words[0].raw == "cat" && command.redirects.empty()) {
      called.redirects.push_back({"< " + piped->words[1].raw, piped->words[1].raw, false, ""});
    }
    FromScript(called);
    FromMakefile(called);
    for (const std::string_view document : ShellDocuments(command)) {
      nested_.Visit(document, [&](const ShellScript& inner) { Walk(inner); });
    }
    for (const ShellWord& word : command.words) {
      for (const std::string_view text : LaunchingSubstitutions(word)) WalkInside(text);
    }
    Restore(before);
    place_.Note(command, known_, !otherwise_);
    if (!CallFunction(called) && !body.reader.open()) NoteCall(command);
    sure_ = sure_outside;
    if (command.joiner == ";;") {
      ++way_;
      EndWay();
    }
    conditional_ = command.joiner == "&&" || command.joiner == "||";
    otherwise_ = command.joiner == "||";
  }
  if (forgets_to > 0) end_forgotten();
  EnterSubshells(0, open);
  decided_.CloseTo(decided_outside);
  maybe_ = maybe_outside;
}

// The index of the end of a function that opens at `i` and is one of `idle`.
std::optional<std::size_t> ShellWalk::EndOfIdleFunction(const ShellScript& script, std::size_t i,
                                                        const std::set<std::string>& idle) {
  const auto& commands = script.commands;
  const auto next = [&](std::size_t at) {
    return at + 1 < commands.size() ? &commands[at + 1] : nullptr;
  };
  FunctionReader reader;
  if (reader.Take(commands[i], next(i)) != FunctionReader::Step::kOpens ||
      !idle.contains(reader.name())) {
    return std::nullopt;
  }
  for (; ++i < commands.size() && body_commands_left_ > 0; --body_commands_left_) {
    if (reader.Take(commands[i], next(i)) == FunctionReader::Step::kCloses) return i;
  }
  return std::nullopt;
}

// Where in the text each word is called for the last time.
ShellWalk::LastCalls ShellWalk::CallsIn(const ShellScript& script) {
  LastCalls calls;
  for (std::size_t i = 0; i < script.commands.size(); ++i) {
    const ShellCommand& command = script.commands[i];
    const std::size_t at = CalledWord(command);
    if (at < command.words.size()) calls.insert_or_assign(command.words[at].raw, i);
  }
  return calls;
}

// Notes the body of a function that opens at `i` and is called behind it: the index of its end.
std::optional<std::size_t> ShellWalk::EndOfCalledFunction(const ShellScript& script, std::size_t i,
                                                          std::optional<LastCalls>& calls) {
  constexpr std::size_t kMostFunctions = 64;
  const auto& commands = script.commands;
  const auto next = [&](std::size_t at) {
    return at + 1 < commands.size() ? &commands[at + 1] : nullptr;
  };
  FunctionReader reader;
  if (functions_.size() >= kMostFunctions ||
      reader.Take(commands[i], next(i)) != FunctionReader::Step::kOpens) {
    return std::nullopt;
  }
  if (!calls) calls = CallsIn(script);
  const std::string name = reader.name();
  const auto call = calls->find(name);
  if (call == calls->end() || call->second <= i) return std::nullopt;
  std::size_t end = i + 1;
  while (end < commands.size() && body_commands_left_ > 0 &&
         reader.Take(commands[end], next(end)) != FunctionReader::Step::kCloses) {
    ++end;
    --body_commands_left_;
  }
  if (end >= commands.size() || body_commands_left_ == 0 || call->second < end) return std::nullopt;
  ShellScript body;
  if (commands[i].words[0].raw == "function" && commands[i].words.size() > 3) {
    ShellCommand first = commands[i];  // function f { command
    first.words.erase(first.words.begin(), first.words.begin() + 3);
    body.commands.push_back(std::move(first));
  }
  body.commands.insert(body.commands.end(), commands.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                       commands.begin() + static_cast<std::ptrdiff_t>(end));
  body.compound = true;
  functions_.insert_or_assign(name, std::move(body));
  return end;
}

// `while [ $# -gt 0 ]; do case "$1" in ...` and `for a in "$@"`: walks each round with the
// arguments that it has. False: nothing was walked, as nobody knows how the rounds go.
bool ShellWalk::WalksArgumentLoop(const ShellScript& script, std::size_t i,
                                  const ArgumentLoop& loop) {
  const auto given = ParseInt(ValueOf("#").value_or(""));
  if (!loop.counted || !given || rounds_ > 0 || copies_ >= kMostCopies) return false;
  std::vector<std::string> arguments;
  for (int k = 1; k <= *given; ++k) {
    const auto value = ValueOf(std::to_string(k));
    if (!value) return false;
    arguments.push_back(*value);
  }
  const ShellScript body = BodyOf(script, i, loop);
  ++copies_;
  const Outside outside{known_, place_};
  const auto choices = choices_;
  Round round = Round::kOver;
  if (!loop.variable.empty()) {
    for (const std::string& argument : arguments) {
      if (round != Round::kOver) break;
      known_.insert_or_assign(loop.variable, argument);
      round = WalkRound(body);
    }
  }
  for (std::int64_t left = *given; loop.variable.empty() && left > 0 && round == Round::kOver;) {
    const auto first = ValueOf("1");
    if (loop.to_empty && first && first->empty()) break;
    round = first ? WalkRound(body) : Round::kUnsure;
    const auto now = ParseInt(ValueOf("#").value_or(""));
    if (round == Round::kOver && (!now || *now >= left)) round = Round::kUnsure;
    left = now.value_or(0);
  }
  if (round != Round::kUnsure) return true;
  known_ = outside.known;
  place_ = outside.place;
  choices_ = choices;
  return false;
}

ShellWalk::Round ShellWalk::WalkRound(const ShellScript& body) {
  const std::size_t bytes = BytesOf(body);
  if (bytes > round_bytes_left_) return Round::kUnsure;
  round_bytes_left_ -= bytes;
  const int branches = branches_;
  const std::vector<Branch> ways = ways_;
  conditional_ = false;
  ++rounds_;
  enters_round_ = true;
  Walk(body);
  --rounds_;
  branches_ = branches;
  ways_ = ways;
  conditional_ = false;
  const bool leaves = std::exchange(leaves_loop_, false);
  if (std::exchange(round_unsure_, false)) return Round::kUnsure;
  return leaves ? Round::kLeaves : Round::kOver;
}

// Whether the round ends with the command; absent: nobody knows. `own`: it stands in the body of
// the loop, not in a text that is called there.
std::optional<bool> ShellWalk::LeavesRound(const ShellCommand& command, bool own) {
  static constexpr std::array<std::string_view, 6> kVerbs = {"break",  "continue", "exit",
                                                             "return", "set",      "shift"};
  const std::size_t at = CalledWord(command);
  if (MayChangeAny(command)) return std::nullopt;
  if (at >= command.words.size()) return false;
  const std::string& verb = command.words[at].raw;
  if (std::find(kVerbs.begin(), kVerbs.end(), verb) == kVerbs.end()) return false;
  const bool alone = command.subshell == 0 && command.joiner != "|" && command.joiner != "&";
  if (!own || !alone || !IsSure() || verb == "return" || verb == "set") return std::nullopt;
  if (verb == "shift") return false;
  if (verb != "exit" && at + 1 < command.words.size()) return std::nullopt;  // break 2
  leaves_loop_ = verb != "continue";
  return true;
}

// Whether bash comes here whatever the node is like.
bool ShellWalk::IsSure() const {
  return sure_ && decided_.Reached() && !decided_.IsDead() && !conditional_ &&
         !in_conditional_call_;
}

void ShellWalk::ForgetParameters() {
  for (int i = 1; i <= kMostParameters; ++i) known_.erase(std::to_string(i));
  known_.erase("#");
  known_.erase("@");
}

void ShellWalk::ForgetName(const std::string& name) {
  LeaveUnknown(name, known_);
  choices_.erase(name);
  if (unknown_.size() < kMostUnknown) unknown_.insert(name);
  Doubt(name);
}

// What the commands from one to the other set has one value or another.
void ShellWalk::ForgetAssigned(const ShellScript& script, std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to; ++i) {
    const ShellCommand& command = script.commands[i];
    for (const ShellWord& word : command.words) {
      const auto assignment = AssignmentOf(word);
      if (!assignment) continue;
      ForgetName(assignment->name);
      if (known_.contains(assignment->name + "[@]")) ForgetName(assignment->name + "[@]");
    }
    for (const std::string& name : NamesChanged(command)) ForgetName(name);
  }
}

// Walks the body with the parameters of the call. False: it calls no function of the text.
bool ShellWalk::CallFunction(const ShellCommand& command) {
  constexpr int kMostLevels = 8;
  const std::size_t first = CalledWord(command);
  if (first >= command.words.size()) return false;
  const auto function = functions_.find(command.words[first].raw);
  if (function == functions_.end()) return false;
  if (call_level_ == kMostLevels || calls_left_ == 0 || copies_ >= kMostCopies) return true;
  --calls_left_;
  ++copies_;
  const ShellScript body = function->second;  // a call may define it anew
  const Outside outside{known_, place_};
  const std::map<std::string, Choice, std::less<>> choices = choices_;
  const std::set<std::string> locals_outside = std::exchange(locals_, {});
  const bool conditional_outside = in_conditional_call_;
  if (conditional_) ++way_;
  in_conditional_call_ = in_conditional_call_ || conditional_;
  SetParameters(command, first);
  ++call_level_;
  Walk(body);
  --call_level_;
  in_conditional_call_ = conditional_outside;
  const std::set<std::string> locals = std::exchange(locals_, locals_outside);
  if (command.joiner == "|" || command.joiner == "&") {
    known_ = outside.known;
    place_ = outside.place;
    return true;
  }
  const auto give_back = [&](const std::string& name) {
    const auto before = outside.known.find(name);
    if (before == outside.known.end()) {
      known_.erase(name);
    } else {
      known_.insert_or_assign(name, before->second);
    }
  };
  for (int i = 0; i <= kMostParameters; ++i) give_back(i == 0 ? "@" : std::to_string(i));
  give_back("#");
  for (const std::string& name : locals) {
    give_back(name);
    give_back(name + "[@]");
    choices_.erase(name);
    if (const auto choice = choices.find(name); choice != choices.end()) choices_.insert(*choice);
  }
  return true;
}

// Whether the word has the value of a variable that neither the text nor the job sets.
bool ShellWalk::MayBeSetOutside(const std::string& raw) const {
  return decides_ == Decides::kSure &&
         ExpandsOneThat(raw, [this](std::string_view name) { return !known_.contains(name); });
}

// Whether a variable that the word names may have another value than the text shows.
bool ShellWalk::IsInDoubt(const ShellWord& word) const {
  return MayBeSetOutside(word.raw) || NamesOneThat(word.raw, [this](std::string_view name) {
           return any_in_doubt_ || in_doubt_.contains(name) ||
                  (unknown_.contains(name) && !known_.contains(name));
         });
}

bool ShellWalk::IsInDoubt(const ShellCommand& command) const {
  return std::ranges::any_of(command.words,
                             [this](const ShellWord& word) { return IsInDoubt(word); });
}

void ShellWalk::Doubt(const std::string& name) {
  if (in_doubt_.size() < kMostUnknown) {
    in_doubt_.insert(name);
  } else {
    any_in_doubt_ = true;
  }
}

void ShellWalk::NoteChanges(const ShellCommand& command) {
  any_in_doubt_ = any_in_doubt_ || MayChangeAny(command);
  if (sure_ && MaySetParameters(command)) ForgetParameters();
  for (const std::string& name : NamesChanged(command)) {
    LeaveUnknown(name, known_);
    choices_.erase(name);
    Doubt(name);
  }
  for (const std::string& name : LocalNames(command)) {
    if (call_level_ > 0 && locals_.size() < kMostUnknown) locals_.insert(name);
  }
}

std::optional<std::string> ShellWalk::ValueOf(const std::string& name) const {
  const auto found = known_.find(name);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

// What a subshell sets and enters ends with it.
void ShellWalk::EnterSubshells(int level, std::vector<Outside>& open) {
  level = std::min(level, kMostSubshells);
  for (; static_cast<int>(open.size()) < level; ++copies_) {
    if (copies_ >= kMostCopies) known_.clear();
    open.push_back({known_, place_});
  }
  for (; static_cast<int>(open.size()) > level; open.pop_back()) {
    known_ = std::move(open.back().known);
    place_ = std::move(open.back().place);
  }
}

// What stands in an if, a case or a loop is done or not.
void ShellWalk::NoteBranches(const ShellCommand& command) {
  static constexpr std::array<std::string_view, 6> kOpen = {"if",    "case", "while",
                                                            "until", "for",  "select"};
  static constexpr std::array<std::string_view, 3> kClose = {"fi", "esac", "done"};
  static constexpr std::array<std::string_view, 6> kWithin = {"then", "do", "else",
                                                              "elif", "{",  "!"};
  for (const ShellWord& word : command.words) {
    const auto is_of = [&](const auto& words) {
      return std::find(words.begin(), words.end(), word.raw) != words.end();
    };
    if (is_of(kOpen) || is_of(kClose) || word.raw == "else" || word.raw == "elif") ++way_;
    if (is_of(kOpen)) {
      if (ways_.size() == static_cast<std::size_t>(branches_) && ways_.size() < kMostWays)
        ways_.push_back({place_});
      ++branches_;
    } else if (is_of(kClose)) {
      branches_ = std::max(0, branches_ - 1);
      EndBranch();
    } else if (!is_of(kWithin)) {
      return;
    } else if (word.raw == "else" || word.raw == "elif") {
      EndWay();
    }
  }
}

void ShellWalk::GoTo(const ShellPlace& place) {
  if (place_.directory() != place.directory()) {
    known_.erase("OLDPWD");
    known_.erase("PWD");
    if (!place.directory().empty()) known_.insert_or_assign("PWD", place.directory());
  }
  place_ = place;
}

// As `cd` without a directory does.
void ShellWalk::GoNowhereKnown() {
  ShellWord word;
  word.raw = word.value = "cd";
  ShellCommand home;
  home.words.push_back(std::move(word));
  place_.Note(home, known_);
}

// Each way through a branch starts where the branch does.
void ShellWalk::EndWay() {
  if (ways_.empty() || ways_.size() != static_cast<std::size_t>(branches_)) return;
  Branch& branch = ways_.back();
  const std::string& here = place_.directory();
  branch.elsewhere = branch.elsewhere || (!here.empty() && here != branch.before.directory());
  GoTo(branch.before);
}

// Behind a branch that may end in another place nobody knows where the text stands. A place within
// that is not known (`for d in *; do cd $d; make; cd ..; done`) is taken for one that was left.
void ShellWalk::EndBranch() {
  if (ways_.size() <= static_cast<std::size_t>(branches_)) return;
  const Branch branch = std::move(ways_.back());
  ways_.pop_back();
  const std::string& here = place_.directory();
  const bool elsewhere = branch.elsewhere || (!here.empty() && here != branch.before.directory());
  if (elsewhere) {
    GoNowhereKnown();
  } else {
    GoTo(branch.before);
  }
}

// `f() { cd sub; }` moves nothing until it is called.
void ShellWalk::NoteBody(const ShellCommand& command, const ShellCommand* next, Body& body) {
  const FunctionReader::Step step = body.reader.Take(command, next);
  if (step == FunctionReader::Step::kOpens) body.before = place_;
  if (step != FunctionReader::Step::kCloses) return;
  const std::string& name = body.reader.name();
  moves_.erase(name);
  if (place_.directory() != body.before.directory() && moves_.size() < kMostMoves)
    moves_.emplace(name, Move{body.before, place_});
  GoTo(body.before);
}

void ShellWalk::NoteCall(const ShellCommand& command) {
  const std::size_t program = PartsOf(command).first;
  if (program >= command.words.size() || command.joiner == "|" || command.joiner == "&") return;
  const auto move = moves_.find(command.words[program].raw);
  if (move == moves_.end()) return;
  if (place_.directory() == move->second.from.directory()) {
    GoTo(move->second.to);
  } else {
    GoNowhereKnown();
  }
}

// What a branch changes is one value or the other; "A=1 program" is of that program alone: what was
// before is given back, for afterwards.
std::vector<ShellWalk::Before> ShellWalk::TakeAssignments(const ShellCommand& command) {
  const std::size_t first = PartsOf(command).first;
  const bool of_program = first < command.words.size();
  std::vector<Before> before;
  const std::string program = of_program ? command.words[first].raw : std::string();
  if (program == "echo" || program == "printf") return before;
  for (std::size_t i = 0; i < command.words.size(); ++i) {
    const auto assignment = AssignmentOf(command.words[i]);
    std::string name = assignment ? assignment->name : std::string();
    if (assignment && command.words[i].raw.starts_with(name + "=(")) name += "[@]";
    const auto old = ValueOf(name);
    const bool not_known = !old && computed_.contains(name);
    const bool outside = MayBeSetOutside(assignment ? assignment->value.raw : command.words[i].raw);
    TakeAssignment(command.words[i], known_);
    // `: ${N:=4}` sets N
    if (outside && !assignment && command.words[i].raw.find('=') != std::string::npos)
      any_in_doubt_ = true;
    if (name.empty()) continue;
    if (!known_.contains(name) && unknown_.size() < kMostUnknown) {
      unknown_.insert(name);
      if (assignment && !CopiesNothing(*assignment)) computed_.insert(name);
    }
    if (of_program && i < first) {
      before.push_back({name, old});
      continue;
    }
    if (outside) Doubt(assignment->name);
    const bool reached = decides_ != Decides::kNone && sure_ && decided_.Reached();
    const bool maybe = (branches_ > 0 && !reached) || conditional_ || in_conditional_call_;
    if (maybe || !sure_ || IsInDoubt(command.words[i])) Doubt(assignment->name);
    if (maybe) {
      if (conditional_) ++way_;
      if (!CopiesNothing(*assignment))
        TakeChoice(name, not_known ? std::optional(std::string()) : old);
    } else {
      choices_.erase(name);
    }
  }
  return before;
}

// `if [ -n "$1" ]; then N=$1; fi`: what nobody sets is no value.
bool ShellWalk::CopiesNothing(const ShellAssignment& assignment) const {
  if (known_.contains(assignment.name) || choices_.contains(assignment.name)) return false;
  std::string_view from = assignment.value.value;
  if (!from.starts_with('$')) return false;
  from.remove_prefix(1);
  if (from.starts_with('{') && from.ends_with('}')) from = from.substr(1, from.size() - 2);
  return std::all_of(from.begin(), from.end(), IsNameChar) && !unknown_.contains(from);
}

// Two values in one way through a branch are one after the other: the last one counts.
void ShellWalk::TakeChoice(const std::string& name, const std::optional<std::string>& old) {
  const auto now = ValueOf(name);
  Choice& choice = choices_[name];
  std::vector<std::string>& values = choice.values;
  const bool again = !values.empty() && choice.way == way_;
  if (again && choice.added) values.pop_back();
  if (!again && values.empty() && old) values.push_back(*old);
  // A value that is not known leaves none to compare: an empty one stands for it.
  const std::string value = now.value_or(std::string());
  choice.added = std::find(values.begin(), values.end(), value) == values.end();
  choice.way = way_;
  if (choice.added && values.size() <= kMostChoices) values.push_back(value);
  if (values.size() > 1) LeaveUnknown(name, known_);
}

// The first one by name.
void ShellWalk::ForEachChoice(const ShellCommand& command, const Words& use) {
  auto first = choices_.end();
  ForEachVariable(command, [&](std::string_view name) {
    const auto found = choices_.find(name);
    if (found == choices_.end() || known_.contains(name)) return;
    const std::size_t values = found->second.values.size();
    const bool some = values > 1 && values <= kMostChoices;
    if (some && (first == choices_.end() || found->first < first->first)) first = found;
  });
  if (first == choices_.end()) return;
  const std::string name = first->first;
  for (const std::string& value : std::vector<std::string>(first->second.values)) {
    known_.insert_or_assign(name, value);
    use(splitter_.Split(command.words, known_));
  }
  known_.erase(name);
}

void ShellWalk::Restore(const std::vector<Before>& before) {
  for (const auto& [name, value] : before) {
    if (value) {
      known_.insert_or_assign(name, *value);
    } else {
      known_.erase(name);
    }
  }
}

void ShellWalk::Want(const std::string& path, Kind kind) {
  const std::string name = place_.NameOf(path);
  // Programs beside them: a row of them keeps no configuration from being read.
  std::size_t& number = kind == Kind::kPython ? wanted_programs_ : wanted_others_;
  if (name.empty() || texts().Find(path) != nullptr || number >= kMostWanted) return;
  if (wanted_.emplace(name, Wanted{place_.Whole(path), kind}).second) ++number;
}

// "cat > ds.json <<EOF", "echo 'node1 slots=8' >> hostfile"
void ShellWalk::NoteWritten(const ShellCommand& command) {
  if (command.words.empty()) return;
  std::string target = command.words[0].raw == "tee" && command.words.size() == 2
                           ? command.words[1].raw
                           : std::string();
  bool more = false;
  std::optional<std::string> text;
  for (const ShellRedirect& redirect : command.redirects) {
    if (redirect.output && !redirect.raw.starts_with('2')) {
      target = redirect.target;
      more = redirect.raw.starts_with(">>");
    }
    if (!redirect.raw.starts_with("<<") || redirect.raw.starts_with("<<<")) continue;
    if (command.words[0].raw != "cat" && command.words[0].raw != "tee") continue;
    ShellWord document;
    document.value = document.raw = redirect.document;
    document.fixed = redirect.raw.find_first_of("'\"\\") != std::string::npos;
    text = PartlyKnown(document, known_);
  }
  if (!target.empty() && !text) text = Printed(command.words, known_);
  if (target.empty() || !text) return;
  const auto path = ReadShell(target);
  if (!path || path->commands.size() != 1 || path->commands[0].words.size() != 1) return;
  const auto value = FixedValue(path->commands[0].words[0], known_);
  const std::string name = value ? place_.NameOf(*value) : std::string();
  if (name.empty() || name.starts_with("/dev/")) return;
  if (!own_.contains(name) && own_.size() >= kMostOwnTexts) return;
  std::string& written = own_[name];
  if (!more) written.clear();
  if (written.size() + text->size() <= kLongestOwnText) written += *text;
}

// What a script sets stays where it is sourced.
void ShellWalk::FromScript(const ShellCommand& command) {
  const CalledScript called = CalledScriptOf(command, known_);
  if (called.shown.empty()) return;
  const std::string* found = called.path.empty() ? nullptr : texts().Find(called.path);
  if (found == nullptr && !called.path.empty())
    Want(called.path, called.by_name ? Kind::kScript : Kind::kProgram);
  if (found == nullptr || !nested_.Has(*found)) {
    const bool missing = found == nullptr && called.by_name && !called.sourced;
    if (missing && unread_.size() < kMostScripts) unread_.push_back(called.shown);
    return;
  }
  if (!called.by_name && !IsShellScript(*found)) return;
  const std::string text = *found;  // the script may write it anew
  if (scripts_.size() < kMostScripts) scripts_.push_back({called.path, text, maybe_});
  Outside outside{known_, place_};
  SetParameters(command, called.word);
  if (const std::string whole = place_.Whole(called.path); !whole.empty()) {
    known_.insert_or_assign("BASH_SOURCE", whole);
    if (!called.sourced) known_.insert_or_assign("0", whole);
  }
  const bool sourced_outside = std::exchange(sourced_, called.sourced);
  nested_.Visit(text, [&](const ShellScript& inner) { Walk(inner); });
  sourced_ = sourced_outside;
  if (called.sourced) {
    const auto source = outside.known.find("BASH_SOURCE");
    if (source != outside.known.end()) known_.insert_or_assign("BASH_SOURCE", source->second);
    return;
  }
  known_ = std::move(outside.known);
  place_ = std::move(outside.place);
}

// "make train NGPU=4"
void ShellWalk::FromMakefile(const ShellCommand& command) {
  const auto call = MakeCallOf(command, known_);
  if (!call) return;
  const std::string* found = nullptr;
  for (const std::string& path : call->Paths()) {
    if (found == nullptr) found = texts().Find(path);
    if (found == nullptr) Want(path, Kind::kScript);
  }
  if (found == nullptr || found->size() > make_bytes_left_) return;
  make_bytes_left_ -= found->size();
  const auto recipes = RecipesOf(*found, *call);
  if (!recipes || !nested_.Has(*recipes)) return;
  if (scripts_.size() < kMostScripts) scripts_.push_back({call->shown, *recipes, maybe_});
  Outside outside{known_, place_};
  nested_.Visit(*recipes, [&](const ShellScript& inner) { Walk(inner); });
  known_ = std::move(outside.known);
  place_ = std::move(outside.place);
}

// "bash dist_train.sh CONFIG 8": $2 is 8 in the script.
void ShellWalk::SetParameters(const ShellCommand& command, std::size_t script) {
  const KnownVariables outside = known_;
  std::string all;
  int number = 0;
  bool all_known = true;
  for (int i = 1; i <= kMostParameters; ++i) known_.erase(std::to_string(i));
  for (std::size_t i = script + 1; i < command.words.size(); ++i) {
    all += (all.empty() ? "" : " ") + command.words[i].raw;
    const bool sure =
        !words_in_doubt_ && (decides_ != Decides::kSure || !IsInDoubt(command.words[i]));
    const auto value = sure ? FixedValue(command.words[i], outside) : std::nullopt;
    all_known = all_known && value;
    if (value) {
      known_.insert_or_assign(std::to_string(++number), *value);
    } else {
      known_.erase(std::to_string(++number));
    }
  }
  known_.erase("#");
  if (all_known && number <= kMostParameters) known_.insert_or_assign("#", std::to_string(number));
  known_.insert_or_assign("@", all);
}

// "shift" of a script: $2 becomes $1.
void ShellWalk::Shift(const std::vector<ShellWord>& words) {
  const auto given = words.size() > 1 ? ParseInt(words[1].value) : std::optional<std::int64_t>(1);
  const bool fits = given && *given >= 1 && *given <= kMostParameters;
  for (int i = 1; i <= kMostParameters; ++i) {
    known_.erase(std::to_string(i));
    const auto next = fits ? known_.find(std::to_string(i + *given)) : known_.end();
    if (next != known_.end()) known_.insert_or_assign(std::to_string(i), next->second);
  }
  known_.erase("@");
  const auto count = ParseInt(ValueOf("#").value_or(""));
  known_.erase("#");
  if (!fits || !count || *count < *given) return;
  known_.insert_or_assign("#", std::to_string(*count - *given));
  std::string all;
  for (std::int64_t i = 1; i <= *count - *given; ++i) {
    const auto value = ValueOf(std::to_string(i));
    if (!value) return;
    all += (all.empty() ? "" : " ") + ShellQuote(*value);
  }
  known_.insert_or_assign("@", all);
}

// In a shell of its own.
void ShellWalk::WalkInside(std::string_view text) {
  if (copies_ >= kMostCopies || !nested_.Has(text)) return;
  ++copies_;
  Outside outside{known_, place_};
  nested_.Visit(text, [&](const ShellScript& inner) { Walk(inner); });
  known_ = std::move(outside.known);
  place_ = std::move(outside.place);
}

// bash -c "torchrun ...", eval "$CMD"
void ShellWalk::FromTexts(const std::vector<ShellWord>& words) {
  if (words.empty() || words[0].value == "echo" || words[0].value == "printf") return;
  const bool here = words[0].value == "eval";
  for (const ShellWord& word : words) {
    const bool arithmetic = word.raw.starts_with("((");
    if (arithmetic || AssignmentOf(word) || word.value.find(' ') == std::string::npos ||
        !nested_.Has(word.value)) {
      continue;
    }
    std::optional<Outside> outside;
    if (!here && copies_ < kMostCopies) {
      outside = Outside{known_, place_};
      ++copies_;
    }
    nested_.Visit(word.value, [&](const ShellScript& inner) { Walk(inner); });
    if (!outside) continue;
    known_ = std::move(outside->known);
    place_ = std::move(outside->place);
  }
}

}  // namespace launch
