// Where the functions that a text defines begin and end.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "planner/line/shell_text.h"

namespace launch {

// Follows a text from command to command. A function within another one is part of it.
class FunctionReader {
 public:
  enum class Step { kOutside, kOpens, kWithin, kCloses };

  // "run() {" and "function run {" open one; `next`: the command behind, null at the end.
  Step Take(const ShellCommand& command, const ShellCommand* next);

  bool open() const { return open_; }
  const std::string& name() const { return name_; }  // of the last one that was opened

 private:
  std::string name_;
  bool open_ = false;
  int braces_ = 0;
};

// Functions of the text that nothing in it names beside their definition.
std::set<std::string> FunctionsNeverNamed(const ShellScript& script);

// Functions of the text that execute what they are called with: `run() { eval "$1"; }`.
std::set<std::string, std::less<>> FunctionsThatRun(const ShellScript& script);

}  // namespace launch
