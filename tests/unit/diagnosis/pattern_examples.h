// Texts that a pattern matches, made from the pattern itself, and which of its alternatives each
// took.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace launch {

// Stands where a pattern takes text of any kind and length.
inline constexpr char kAnything = '\x01';

struct PatternExample {
  std::string text;
  std::set<int> taken;  // of PatternExamples::alternatives
};

struct PatternExamples {
  std::vector<std::string> alternatives;  // as the pattern writes them, at every depth
  std::vector<PatternExample> examples;
};

// Of the part of RE2 that the signatures use. What may be left out stands in some and is missing in
// others; a character of a small class takes each of its values, any other class the first that
// fits.
PatternExamples ExamplesOf(std::string_view pattern);

}  // namespace launch
