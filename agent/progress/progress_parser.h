// Finds out how far a rank is from what it prints: pure, fed with new bytes, never guesses.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/clock.h"
#include "common/error.h"
#include "common/progress_pattern.h"

namespace launch::agent {

struct ProgressPatterns;

// Progress of one rank. Absent = not known.
struct Progress {
  std::optional<std::int64_t> step;
  std::optional<std::int64_t> steps;
  std::optional<double> seconds_per_step;
  std::optional<double> eta_s;
  friend bool operator==(const Progress&, const Progress&) = default;
};

// Sources in this order, the first that says something counts: the JSON lines of
// LAUNCH_PROGRESS_FILE; the job's own pattern; bars and lines of known trainers. Of several bars
// the one with the largest total that only grows counts; bars of evaluation, downloads and
// tokenising never do. A run that resumes starts in the middle.
class ProgressParser {
 public:
  // `pattern`: group "step" or the first, group "steps" or the second; empty = none.
  static Result<ProgressParser> Create(const std::string& pattern);
  ProgressParser(ProgressParser&&) noexcept;
  ProgressParser& operator=(ProgressParser&&) noexcept;
  ~ProgressParser();

  void FeedLog(std::string_view bytes, BootTime now);   // new bytes of the log, in order
  void FeedFile(std::string_view bytes, BootTime now);  // new bytes of LAUNCH_PROGRESS_FILE
  void SkipLog();  // bytes were left out: what is unfinished of a line is thrown away
  Progress Now() const;

  // What the rank last said in its file of PyTorch's allocator.
  struct Memory {
    std::uint64_t allocated = 0;
    std::uint64_t reserved = 0;
    BootTime at{};
  };
  const std::optional<Memory>& memory() const { return memory_; }

 private:
  // Steps seen over time of one source; measures seconds per step where nobody says it.
  struct Track {
    Progress said;
    std::deque<std::pair<BootTime, std::int64_t>> seen;
    void See(const Progress& progress, BootTime now);
    Progress Now() const;
  };
  // One bar or one kind of line, told apart by its text without numbers and its total.
  struct Bar {
    Track track;
    std::int64_t total = 0;  // 0 = none printed
    std::int64_t last = 0;
    std::int64_t rounds = 0;     // times it started again
    std::int64_t epoch = 0;      // of "epoch e/E", 0 = none
    bool epoch_restarts = true;  // its counter starts again in each epoch
    bool counts_epochs = false;
    bool open_epochs = false;  // numbered, and nobody said of how many
    double duration_s = 0;     // elapsed and remaining, as the bar says
    std::uint64_t first_seen = 0;
    std::uint64_t last_seen = 0;
  };
  struct Reading;

  ProgressParser();
  void ReadSegment(std::string_view segment, BootTime now);
  std::size_t ReadBars(std::string_view segment, BootTime now);
  bool ReadLine(std::string_view segment, BootTime now);
  void See(const Reading& reading, BootTime now);
  const Bar* Chosen() const;

  const ProgressPatterns* patterns_;  // of all ranks
  ProgressPattern pattern_;           // regex null = none
  std::string log_rest_;              // unfinished line
  std::string file_rest_;
  std::optional<Memory> memory_;
  Track from_file_;
  Track from_pattern_;
  std::map<std::pair<std::string, std::int64_t>, Bar> bars_;
  std::uint64_t seen_ = 0;
};

}  // namespace launch::agent
