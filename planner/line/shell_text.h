// Bash text cut into simple commands and words, as far as a launcher must understand it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"

namespace launch {

struct ShellWord {
  std::string raw;    // as written, quotes included, continuation lines joined
  std::string value;  // quotes removed; what bash would see when `fixed`
  bool fixed = true;  // no expansion, substitution or pattern in it
  int line = 1;
  int column = 1;
  std::vector<ShellWord> elements;  // of NAME=( ... )
  friend bool operator==(const ShellWord&, const ShellWord&) = default;
};

struct ShellRedirect {
  std::string raw;       // "> train.log", "2>&1"
  std::string target;    // raw text of the file or descriptor
  bool output = false;   // takes standard output or error to a file
  std::string document;  // the lines of a here-document, as written
  friend bool operator==(const ShellRedirect&, const ShellRedirect&) = default;
};

struct ShellCommand {
  std::vector<ShellWord> words;  // assignments and keywords included
  std::vector<ShellRedirect> redirects;
  std::string joiner;  // what follows: "&&" "||" ";" "|" "&" "\n" or "" at the end
  int subshell = 0;    // brackets around it, ( ... )
  friend bool operator==(const ShellCommand&, const ShellCommand&) = default;
};

struct ShellScript {
  std::vector<ShellCommand> commands;
  bool compound = false;  // loops, functions, subshells, arrays, here-documents ...
  friend bool operator==(const ShellScript&, const ShellScript&) = default;
};

// Errors (kInvalidArgument, with line and column in Where): an open quote, bracket or backtick.
Result<ShellScript> ReadShell(std::string_view text);

bool IsNameStart(char c);
bool IsNameChar(char c);  // of a variable's name, but for its first

// The assignment "NAME=value" of a word, as a prefix or after export; absent for other words.
struct ShellAssignment {
  std::string name;
  ShellWord value;
};
std::optional<ShellAssignment> AssignmentOf(const ShellWord& word);

bool UsesArgZero(const ShellScript& script);  // $0 or ${0...}

// A use of a variable in the text, outside single quotes and comments.
struct ShellUse {
  std::string name;
  bool guarded = false;  // ${X:-..}, ${X:+..} and their kin: an unset name is expected there
};
std::vector<ShellUse> VariablesUsed(const ShellScript& script);

}  // namespace launch
