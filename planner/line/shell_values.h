// What bash would make of a word, as far as the text itself and the job's variables tell.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/line/shell_text.h"

namespace launch {

// Values that the text itself fixes, by name: NGPU=4 in front of "$NGPU". An array stands under
// "NAME[@]", its elements with blanks between them.
using KnownVariables = std::map<std::string, std::string, std::less<>>;

// How many GPUs the node has, however the text asks for it ($(nvidia-smi -L | wc -l)): the word
// that torchrun has for it.
inline constexpr std::string_view kGpusOfNode = "gpu";
// The same for the node's cores: $(nproc).
inline constexpr std::string_view kCoresOfNode = "cpu";

// The value of a word with its ${X:-8} and $((2 * N)). Absent: not known here.
std::optional<std::string> FixedValue(const ShellWord& word, const KnownVariables& known);

// The same for a text of which only parts are known: the others stay as written.
std::optional<std::string> PartlyKnown(const ShellWord& word, const KnownVariables& known);

// Whether bash still has to expand something in what FixedValue or PartlyKnown gave: how many items
// such a list has is not known.
inline bool IsLeftToBash(std::string_view text) {
  return text.find_first_of("$`") != std::string_view::npos;
}

// Notes what NAME=VALUE, NAME=(...), NAME+=VALUE and ${NAME:=VALUE} give to a variable. A text in
// which only parts are known keeps the others as written.
void TakeAssignment(const ShellWord& word, KnownVariables& known);

// Records that the variable has a value which nobody here knows, so that ${NAME:-8} is not 8.
void LeaveUnknown(const std::string& name, KnownVariables& known);
void Unset(const std::string& name, KnownVariables& known);

// The words as a command gets them: $FLAGS that holds several of them is cut at its blanks.
class WordSplitter {
 public:
  std::vector<ShellWord> Split(const std::vector<ShellWord>& words, const KnownVariables& known);

 private:
  std::size_t left_ = 256 * 1024;  // bytes of values that may still be cut: texts may be hostile
};

// Follows texts inside of texts (bash -c '...', here-documents, commands in variables). A text may
// contain itself, so there is an end to it.
class NestedTexts {
 public:
  // Calls `use` with what the text reads as; not for a text that is no shell, or beyond the limits.
  void Visit(std::string_view text, const std::function<void(const ShellScript&)>& use);
  // Whether a visit would still be made.
  bool Has(std::string_view text) const {
    return text.size() + kEach <= left_ && level_ < kMostLevels;
  }

 private:
  static constexpr std::size_t kMost = 1024 * 1024;  // bytes of all together
  static constexpr std::size_t kEach = 4096;         // counted for one text beside its length
  static constexpr int kMostLevels = 16;
  std::size_t left_ = kMost;
  int level_ = 0;
};

// The here-documents of a command that a shell will execute: those of bash and sh, of cat and tee
// into a pipe or a script.
std::vector<std::string_view> ShellDocuments(const ShellCommand& command);

}  // namespace launch
