// What one search for checkpoints may still list and read.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "agent/runner/checkpoint_files.h"

namespace launch::agent {

// Once a bound is reached no further checkpoint counts as complete, for what was not seen may be
// what is missing. A directory that is too large by itself spoils no other.
class CheckpointSearch {
 public:
  explicit CheckpointSearch(const std::atomic<bool>* cancel) : cancel_(cancel) {}

  // Begins another checkpoint.
  void Begin() { cut_ = false; }

  // The sorted entries of the directory. Asking for the same directory again costs nothing.
  std::vector<std::filesystem::path> Entries(const std::filesystem::path& directory);

  // Empty = complete; else what is wrong.
  std::string WhyTorch(const std::filesystem::path& path);
  std::string WhySafetensors(const std::filesystem::path& path);
  std::string WhyDcp(const std::filesystem::path& directory, int world);
  // Why the search ended early; empty while all that was asked for was looked at.
  std::string WhyEnded() const;

  bool HoldsOptimizer(const std::filesystem::path& model_states);
  std::string Text(const std::filesystem::path& path);

  // Notes of how many ranks an accelerate checkpoint has the state.
  void NoteRanks(const std::string& checkpoint, std::int64_t ranks);
  std::int64_t RanksOf(const std::string& checkpoint) const;
  // Notes what one of several directories consists of, to compare with the others.
  void NoteParts(const std::string& checkpoint, std::vector<std::string> parts);
  const std::vector<std::string>& PartsOf(const std::string& checkpoint) const;

 private:
  static constexpr std::size_t kMostEntries = 1'000'000;

  bool Ended() const { return over_ || (cancel_ != nullptr && *cancel_); }
  std::string Why(const std::filesystem::path& path,
                  std::string (*why)(const std::string&, ReadBudget*));
  std::string Counted(std::string said);

  const std::atomic<bool>* cancel_;
  std::size_t left_ = kMostEntries;
  ReadBudget budget_;
  bool over_ = false;
  bool cut_ = false;              // a directory of this checkpoint was not listed to its end
  std::filesystem::path listed_;  // whose entries these are
  bool listed_cut_ = false;
  std::vector<std::filesystem::path> entries_;
  std::map<std::string, std::int64_t> ranks_of_;
  std::map<std::string, std::vector<std::string>> parts_of_;
};

}  // namespace launch::agent
