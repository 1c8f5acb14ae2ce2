// Which branches of a text its own values rule out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/line/shell_text.h"
#include "planner/line/shell_values.h"

namespace launch {

// What `[ -z "$X" ]`, `test "$1" = train` or `false` comes to; absent: not known here, or no test.
std::optional<bool> TestValue(const ShellCommand& command, const KnownVariables& known);

// Follows if, elif, else, case and `test && command`. In a loop nothing is decided: its variables
// may have other values when it comes round.
class DecidedBranches {
 public:
  // Whether the text does not come to the command. Takes every command once, in order. `sure`: the
  // values that the command names are those that it will find.
  bool Skips(const ShellCommand& command, const KnownVariables& known, bool sure = true);

  bool IsDead() const;  // the branch at hand is ruled out
  // Whether the text comes to the command at hand for sure.
  bool Reached() const;

  std::size_t depth() const { return frames_.size(); }
  void Enter();  // at the beginning of a text within a text, which ends no branch of the outer one
  void CloseTo(std::size_t depth);  // at the end of a text that left some open

 private:
  enum class Kind { kText, kIf, kCase, kLoop };
  struct Frame {
    Kind kind = Kind::kIf;
    std::optional<bool> condition;       // of the branch that `then` opens
    bool in_condition = false;           // `then` is to come
    bool unclear = false;                // more stands in the condition than tests
    std::string joiner;                  // behind the last test; empty: none was yet
    bool taken = false;                  // an earlier branch, for sure
    bool unsure = false;                 // nobody here knows whether the branch at hand is taken
    bool dead = false;                   // the branch at hand
    bool pattern = false;                // of a case: one is expected
    bool matches = false;                // one of the patterns at hand, for sure
    bool open = false;                   // one of them may
    std::optional<std::string> subject;  // of a case
  };

  bool Decides() const;
  void TakeKeywords(const ShellCommand& command, const KnownVariables& known);
  void TakeTest(const ShellCommand& command, const KnownVariables& known);
  void TakePattern(const ShellWord& word, const std::string& joiner);
  void Push(Kind kind);

  std::vector<Frame> frames_;
  std::string skip_joiner_;  // of a chain whose rest is not reached
  bool in_chain_ = false;    // "a && b": behind a
  bool sure_ = true;
};

}  // namespace launch
