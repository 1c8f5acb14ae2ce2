// A regular expression that is compiled once and kept: however many hostile texts it reads, what it
// remembers of them is bounded.
#pragma once

#include <re2/re2.h>

#include <string_view>

namespace launch {

class BoundedPattern : public re2::RE2 {
 public:
  explicit BoundedPattern(std::string_view pattern)
      : re2::RE2(re2::StringPiece(pattern.data(), pattern.size()), Bounds()) {}

 private:
  static Options Bounds() {
    Options options;
    options.set_log_errors(false);
    options.set_max_mem(1 << 20);  // the program and the automata made while it matches
    return options;
  }
};

}  // namespace launch
