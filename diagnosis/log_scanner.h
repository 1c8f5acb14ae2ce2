// Reads a log of any size once, in pieces, and keeps the lines that say something about a failure.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "diagnosis/compiled_signatures.h"
#include "diagnosis/log_line.h"
#include "diagnosis/rank_end.h"

namespace launch {

struct LogHit {
  const Signature* signature = nullptr;
  std::size_t row = 0;       // of the table: the order among messages of one line
  std::uint64_t offset = 0;  // of the line's first byte in the log
  std::optional<Rank> rank;
  std::string text;   // the line, cleaned, at most kLongestEvidence bytes
  std::string first;  // captures of the pattern; kOom: the list of sizes above it
  std::string second;
  std::string context;  // kOom: the message with its lines joined; kException: the last
                        // frame; kSmi: what follows
  std::string frames;   // kOom: what stood before it
  std::optional<RankEnd> end;
  bool of_script = false;    // a shell's complaint, and something stands behind it
  bool is_caught = false;    // of a traceback beside which the program says that it goes on
  bool is_unproven = false;  // an exception of which it is said so, and nothing shows that it did
  bool warns = false;        // the line calls itself a warning, or its logger does
};

struct LogEvidence {
  std::vector<LogHit> hits;             // by offset
  std::vector<std::string> last_lines;  // cleaned, not empty, at most kLastLines
  std::uint64_t bytes = 0;
};

inline constexpr std::size_t kLastLines = 3;

// Bounded memory (about 2 MiB and the hits) and bounded time: a signature that was tried
// kMostAttempts times rests until the last part of the log. Lines end with \n or \r; a line of any
// length is read in pieces. Wrapped lines are joined again: after a phrase was found anywhere, over
// a broken phrase in the first and last kKept bytes.
class LogScanner {
 public:
  // `signatures` outlives the scanner.
  explicit LogScanner(const CompiledSignatures& signatures);

  void Feed(std::string_view chunk);
  LogEvidence Finish();

 private:
  static constexpr std::size_t kWindow = 1024 * 1024;
  static constexpr std::size_t kKept = 256 * 1024;  // behind what was read: context, and the tail
  static constexpr std::size_t kAhead = 32 * 1024;  // in front: a traceback, a wrapped message
  static constexpr int kMostAttempts = 2000;
  static constexpr std::size_t kMostCleaned = 64 * 1024 * 1024;  // of lines with escapes, NULs
  static constexpr std::size_t kFirstHits = 24;
  static constexpr std::size_t kLastHits = 64;    // of as many ranks
  static constexpr std::size_t kLastSteps = 512;  // which are places only
  static constexpr std::size_t kLastLong = 8;     // that keep what stands around them

  struct Candidate {
    std::size_t line;  // offset in buffer_
    std::size_t phrase;
  };
  struct Kept {
    std::vector<LogHit> first;
    std::deque<LogHit> last;
    int attempts = 0;
  };
  struct Span {
    std::size_t begin;
    std::size_t end;
  };
  // A line with its neighbours, as it was before a terminal or a scheduler wrapped it.
  struct Joined {
    std::string text;
    std::size_t begin;  // of its first line in buffer_
  };

  void ReadUpTo(std::size_t end);
  void FindPhrases(std::size_t end);
  void FindInEscapedLines(std::size_t end);
  void Evaluate(Span line, const std::vector<std::size_t>& phrases);
  bool TryRow(std::size_t row, Span line, const struct LogLine& read);
  std::vector<Joined> Join(Span line, const struct LogLine& read) const;
  void ReadException(LogHit hit, Span header, std::string_view header_text);
  // The exception of a traceback that stands in one string: false if it is none.
  bool KeepQuoted(LogHit hit, const struct LogLine& read);
  // A traceback that CPython prints and goes on: of a destructor, or of a faulty log call.
  bool IsOfNoConsequence(Span header) const;
  // A traceback that the program printed and went on: the line above it or behind its exception
  // says so.
  bool IsCaught(Span header, Span exception, const LogHit& hit) const;
  // Whether the rank printed behind this line what a program that ends does not.
  bool LivesBehind(Span line, std::optional<Rank> rank) const;
  // The frame right above the line, of an error that CPython finds before the program runs.
  std::string FrameAbove(Span line) const;
  // A line of the program's source in a traceback: what its strings say did not happen.
  bool IsSourceLine(Span line, const struct LogLine& read) const;
  void Keep(LogHit hit);
  void JoinBroken(std::string_view part, std::uint64_t base);
  bool Rests(std::size_t phrase) const;

  // The line, without a prefix that a traceback of this log showed.
  LogLine Read(Span line) const;
  void LearnPrefix(std::string_view header);
  std::string NumbersBefore(Span line) const;

  Span LineAt(std::size_t at) const;
  Span LineBefore(Span line) const;  // empty at the start
  // The lines behind `line`, cleaned, joined with `glue`: at most `count`, same rank or none.
  std::string Following(Span line, std::optional<Rank> rank, int count, const char* glue) const;
  std::string Before(Span line) const;
  std::vector<std::string> LastLines() const;

  const CompiledSignatures& signatures_;
  RankEndReader ends_;
  std::vector<Kept> kept_;  // by row
  std::vector<Candidate> candidates_;
  std::string prefix_;  // in front of each line; unknown to ReadLine
  std::string head_;
  std::string buffer_;
  std::vector<Joined> joined_;        // of the line that is evaluated; empty: no row asked yet
  std::set<std::uint64_t> ignored_;   // offsets of exceptions that Python itself passed over
  std::set<std::uint64_t> caught_;    // and of those that the program did
  std::set<std::uint64_t> unproven_;  // see LogHit
  std::size_t cleaned_ = 0;  // bytes of lines with escapes that were cleaned to be searched
  std::size_t done_ = 0;     // buffer_ up to here was read
  std::uint64_t base_ = 0;   // offset of buffer_[0] in the log
};

}  // namespace launch
