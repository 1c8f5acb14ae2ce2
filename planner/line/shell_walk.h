// Follows a text of bash from command to command as bash would: its variables, the directory it
// stands in, the texts and scripts that it runs, and the files that it writes for itself.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/line/argument_loop.h"
#include "planner/line/called_script.h"
#include "planner/line/launch_line.h"
#include "planner/line/shell_conditions.h"
#include "planner/line/shell_functions.h"
#include "planner/line/shell_place.h"
#include "planner/line/shell_text.h"
#include "planner/line/shell_values.h"

namespace launch {

// The words of a command as they are written.
std::string RawText(const ShellCommand& command);

class ShellWalk {
 public:
  // A command with its words as it gets them. True: they are a launcher's call, so that none of
  // them is a text to execute.
  using Use = std::function<bool(const ShellCommand& command, const std::vector<ShellWord>& words)>;
  struct CalledText {
    std::string shown;  // as the calling command names it
    std::string text;
    bool maybe = false;  // the call may not be reached
  };
  using Words = std::function<void(const std::vector<ShellWord>& words)>;

  // By which values branches are ruled out. kSure: not by the default that a text has for a
  // variable which nobody sets. Except with kNone the body of a function is read where it is
  // called.
  enum class Decides { kNone, kValues, kSure };

  ShellWalk(const LaunchLineOptions& options, Use use, Decides decides = Decides::kNone);

  void Walk(const ShellScript& script);

  const KnownVariables& known() const { return known_; }
  // The command at hand may not be reached: it stands in a branch, a loop or a function.
  bool maybe() const { return maybe_; }
  // The variable may have another value than known() says.
  bool MayDiffer(std::string_view name) const {
    return any_in_doubt_ || in_doubt_.contains(name) || choices_.contains(name);
  }
  // Texts of files by the names that they have where the walk stands.
  TextsAt texts() const { return {files_, place_, &own_}; }
  const ShellPlace& place() const { return place_; }
  // The words for each value that a variable in them has in one branch or the other; not called
  // where no such variable stands in them.
  void ForEachChoice(const ShellCommand& command, const Words& use);
  // A file that the text names and that may be at hand.
  // kProgram: a script only by its first line; kPython: the text of a Python program.
  enum class Kind { kConfig, kScript, kProgram, kPython };
  void Want(const std::string& path, Kind kind = Kind::kConfig);

  // Files that are not at hand: where they lie, by name.
  struct Wanted {
    std::string path;
    Kind kind = Kind::kConfig;
  };
  const std::map<std::string, Wanted>& wanted() const { return wanted_; }
  // Commands that were ruled out, by RawText.
  const std::set<std::string, std::less<>>& skipped() const { return skipped_; }
  // Shell scripts in the order of their calls, and those whose text is not at hand.
  const std::vector<CalledText>& scripts() const { return scripts_; }
  const std::vector<std::string>& unread() const { return unread_; }

 private:
  struct Before {
    std::string name;
    std::optional<std::string> value;
  };
  struct Outside {
    KnownVariables known;
    ShellPlace place;
  };

  // Where the text stands in a function, and the place in front of its body.
  struct Body {
    FunctionReader reader;
    ShellPlace before;
  };
  // Where a function starts and ends that changes the place.
  struct Move {
    ShellPlace from;
    ShellPlace to;
  };
  // What a variable is in one way through the branches or another; empty: not known.
  struct Choice {
    std::vector<std::string> values;
    int way = 0;         // the last one that gave it a value
    bool added = false;  // which stands at the end of `values`
  };
  // An if, a case or a loop.
  struct Branch {
    ShellPlace before;
    bool elsewhere = false;  // one way through it ends in another place
  };

  std::optional<std::string> ValueOf(const std::string& name) const;
  using LastCalls = std::map<std::string_view, std::size_t>;  // words of the text
  static LastCalls CallsIn(const ShellScript& script);
  std::optional<std::size_t> EndOfCalledFunction(const ShellScript& script, std::size_t i,
                                                 std::optional<LastCalls>& calls);
  std::optional<std::size_t> EndOfIdleFunction(const ShellScript& script, std::size_t i,
                                               const std::set<std::string>& idle);
  enum class Round { kOver, kLeaves, kUnsure };
  bool WalksArgumentLoop(const ShellScript& script, std::size_t i, const ArgumentLoop& loop);
  Round WalkRound(const ShellScript& body);
  std::optional<bool> LeavesRound(const ShellCommand& command, bool own);
  bool IsSure() const;
  void ForgetParameters();
  void ForgetAssigned(const ShellScript& script, std::size_t from, std::size_t to);
  void ForgetName(const std::string& name);
  bool CallFunction(const ShellCommand& command);
  bool MayBeSetOutside(const std::string& raw) const;
  bool IsInDoubt(const ShellWord& word) const;
  bool IsInDoubt(const ShellCommand& command) const;
  void Doubt(const std::string& name);
  void NoteChanges(const ShellCommand& command);
  void NoteBody(const ShellCommand& command, const ShellCommand* next, Body& body);
  void NoteCall(const ShellCommand& command);
  void GoTo(const ShellPlace& place);
  void GoNowhereKnown();
  void EndWay();
  void EndBranch();
  void EnterSubshells(int level, std::vector<Outside>& open);
  void NoteBranches(const ShellCommand& command);
  std::vector<Before> TakeAssignments(const ShellCommand& command);
  bool CopiesNothing(const ShellAssignment& assignment) const;
  void TakeChoice(const std::string& name, const std::optional<std::string>& old);
  void Restore(const std::vector<Before>& before);
  void NoteWritten(const ShellCommand& command);
  void FromScript(const ShellCommand& command);
  void FromMakefile(const ShellCommand& command);
  void SetParameters(const ShellCommand& command, std::size_t script);
  void Shift(const std::vector<ShellWord>& words);
  void WalkInside(std::string_view text);
  void FromTexts(const std::vector<ShellWord>& words);

  KnownVariables known_;
  const Decides decides_;
  DecidedBranches decided_;
  std::map<std::string, ShellScript, std::less<>> functions_;  // bodies of those that are called
  std::set<std::string> locals_;                               // of the function that is called
  bool in_conditional_call_ = false;
  // Variables that may have another value than known_ says: no branch is ruled out by them.
  std::set<std::string, std::less<>> in_doubt_;
  bool any_in_doubt_ = false;    // all of them
  bool words_in_doubt_ = false;  // of the command at hand
  bool sure_ = true;             // not in the body of a function that is read where it is defined
  bool sourced_ = false;         // the text is that of a script that another one sources
  int rounds_ = 0;               // of loops over the arguments, within each other
  bool enters_round_ = false;    // the next text is that of a round
  bool leaves_loop_ = false;     // the round at hand is the last one
  bool round_unsure_ = false;    // how the round goes on is not known
  int forgetting_ = 0;           // loops that are read once, within each other
  std::size_t body_commands_left_ = 256 * 1024;  // that are looked through for a function's end
  std::size_t round_bytes_left_ = 128 * 1024;    // texts may be hostile
  std::size_t make_bytes_left_ = 512 * 1024;     // of makefiles, read anew for each call
  int call_level_ = 0;
  int calls_left_ = 256;
  const std::map<std::string, std::string>& files_;
  ShellPlace place_;
  const Use use_;
  std::map<std::string, std::string> own_;              // files that the text writes
  std::map<std::string, Choice, std::less<>> choices_;  // by variable
  std::set<std::string, std::less<>> unknown_;          // set to what is not known here
  std::set<std::string, std::less<>> computed_;  // of them, not by a variable that nobody sets
  std::map<std::string, Wanted> wanted_;
  std::size_t wanted_programs_ = 0;  // of Python
  std::size_t wanted_others_ = 0;
  std::set<std::string, std::less<>> skipped_;
  std::vector<CalledText> scripts_;
  std::vector<std::string> unread_;
  NestedTexts nested_;
  WordSplitter splitter_;
  int branches_ = 0;  // that are open: if, case, loops
  bool maybe_ = false;
  int way_ = 0;                        // number of the way through them that is read
  std::vector<Branch> ways_;           // of the outermost of them
  std::map<std::string, Move> moves_;  // by function
  bool conditional_ = false;           // "test && A=1"
  bool otherwise_ = false;             // "test || A=1"
  int copies_ = 0;                     // of all variables: texts may be hostile
};

}  // namespace launch
