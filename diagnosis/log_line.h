// One line of a log, made readable: who wrote it, and its text without decoration.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/ids.h"

namespace launch {

struct LogLine {
  std::string text;          // valid UTF-8 without control characters; at most kLongestLine bytes
  std::optional<Rank> rank;  // from a prefix or from "[Rank 3]" in the text
  std::string host;          // from a prefix such as "gpu01: "
  bool warns = false;        // a level in front of the text says so
  bool quotes_traceback = false;  // the text is the exception of a traceback that was one string
};

inline constexpr std::size_t kLongestLine = 4096;
inline constexpr std::size_t kLongestEvidence = 400;

// Takes away escape sequences, NULs and other control characters; bytes that are no UTF-8 become
// '?'. A tab becomes a space.
std::string CleanText(std::string_view raw);

// CleanText, then the prefixes that launchers put in front of a rank's output: torchrun's
// "[rank3]:" and "[default0]:", Open MPI's "[1,3]<stderr>:", srun's "3: ", Ray's "(name pid=1)",
// pdsh's and DeepSpeed's "gpu01: ", and the date and time of log collectors.
LogLine ReadLine(std::string_view raw);

inline bool EndsLine(char c) { return c == '\n' || c == '\r'; }

inline std::string_view TrimFront(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  return s;
}

inline std::size_t Indent(std::string_view s) { return s.size() - TrimFront(s).size(); }

// The text cut to kLongestEvidence bytes, with a sign that something is missing.
std::string Shortened(std::string text);

}  // namespace launch
