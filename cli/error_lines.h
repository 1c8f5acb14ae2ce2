// Which lines of a rank's output tell of an error, for `launch logs --errors`.
#pragma once

#include <string_view>

namespace launch {

// Use one per rank and stream, with its lines in order.
class ErrorLines {
 public:
  // True for a line to show: a Python traceback from its first line to the exception and its notes,
  // and lines with a word that reports errors.
  bool Take(std::string_view line);

 private:
  bool inside_ = false;  // of a traceback
};

}  // namespace launch
