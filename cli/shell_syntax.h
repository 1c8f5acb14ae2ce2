// Whether bash can read a text of the job at all: a missing `fi` is found before the queue.
#pragma once

#include <string>

#include "common/error.h"

namespace launch {

struct BashText {
  std::string field;  // of the job
  std::string text;
  std::string file;    // that it was read from
  std::string source;  // all that stands there; empty: no file
};

// Asks this machine's bash, which runs nothing; without one there is no answer, and no refusal.
// A refusal names the line of the file, where the text stands there line by line.
Result<void> CheckShellSyntax(const BashText& text);

}  // namespace launch
