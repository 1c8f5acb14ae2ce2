// Output of many ranks as lines for one reader: prefixed, in order, safe for a terminal.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "cli/error_lines.h"
#include "proto/convert_user.h"

namespace launch {

// What a terminal may see of a rank's line: tabs and, with `colour`, colour sequences; every other
// control character and escape sequence is dropped.
std::string CleanLine(std::string_view line, bool colour);
// CleanLine for each line of a text.
std::string CleanText(std::string_view text, bool colour);

struct RankLine {
  std::int64_t wall_ms = 0;  // when its end was written
  Attempt attempt;
  Rank rank = 0;
  std::string_view node;
  std::string_view stream;  // out | err
  std::string_view text;    // as written, of a progress bar the last state
};

// Bytes of all ranks become lines "[3] text". Of a progress bar, which rewrites its line with
// carriage returns, the last state counts; on a followed terminal the bar moves on the last line.
// A chunk that was seen already (after a reconnect) is dropped by its offset.
class LogPrinter {
 public:
  struct Options {
    bool terminal = false;  // the last line may be rewritten
    bool colour = false;
    bool raw = false;  // bytes as they are, without prefix
    bool prefix = true;
    std::function<std::string(const RankLine&)> form = {};  // a line in place of "[3] text"
    bool errors = false;                                    // only lines that tell of errors
    WallTime since{};    // nothing older; by pieces as they were written
    bool merge = false;  // hold everything and order it by time: for a log that has ended
  };
  using Write = std::function<void(std::string_view)>;
  // `out` gets the output, `notes` what is not output: gaps, new attempts.
  LogPrinter(Options options, Write out, Write notes);

  void Take(const LogPiece& piece);
  // Where each stream of the newest attempt goes on.
  std::vector<LogPosition> Positions() const;
  void Finish();  // lines without a newline, and what was held back

 private:
  struct Source {  // one stream of one rank of one attempt
    std::uint64_t next_offset = 0;
    std::string pending;  // the line that has not ended
    std::string node;
    std::int64_t wall_ms = 0;
    ErrorLines errors;
  };
  struct Line {
    std::uint32_t attempt = 0;
    std::int64_t wall_ms = 0;
    std::size_t order = 0;  // of arrival
    std::string text;
  };
  using SourceKey = std::tuple<std::uint32_t, Rank, std::string>;

  void TakeChunk(const LogChunk& chunk);
  void Emit(const SourceKey& key, Source& source, std::string_view line);
  void ShowLive(const SourceKey& key, std::string_view line);
  void EraseLive();
  void FlushHeld();
  std::string Prefixed(const SourceKey& key, std::string_view line) const;
  std::string Formed(const SourceKey& key, const Source& source, std::string_view line) const;

  const Options options_;
  const Write out_;
  const Write notes_;
  std::map<SourceKey, Source> sources_;
  std::vector<Line> held_;
  std::size_t held_bytes_ = 0;
  std::uint32_t attempt_ = 0;
  bool live_ = false;
};

}  // namespace launch
