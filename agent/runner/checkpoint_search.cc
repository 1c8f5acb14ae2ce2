#include "agent/runner/checkpoint_search.h"

#include <algorithm>
#include <utility>

#include "agent/runner/checkpoint_dcp.h"
#include "agent/runner/checkpoint_pickle.h"
#include "common/foreign_file.h"

namespace launch::agent {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::vector<fs::path> CheckpointSearch::Entries(const fs::path& directory) {
  constexpr std::size_t kMostInDirectory = 100'000;
  if (Ended()) return {};
  if (directory != listed_) {
    listed_.clear();
    listed_cut_ = false;
    entries_.clear();
    std::error_code error;
    for (fs::directory_iterator at(directory, error), end; !error && at != end && !Ended();
         at.increment(error)) {
      over_ = left_ == 0;
      listed_cut_ = entries_.size() >= kMostInDirectory;
      if (over_ || listed_cut_) break;
      --left_;
      entries_.push_back(at->path());
    }
    std::ranges::sort(entries_);
    if (!Ended()) listed_ = directory;
  }
  cut_ = cut_ || listed_cut_;
  return entries_;
}

std::string CheckpointSearch::WhyTorch(const fs::path& path) {
  return Why(path, WhyTorchIncomplete);
}

std::string CheckpointSearch::WhySafetensors(const fs::path& path) {
  return Why(path, WhySafetensorsIncomplete);
}

std::string CheckpointSearch::WhyDcp(const fs::path& directory, int world) {
  const std::vector<fs::path> entries = Entries(directory);
  return Ended() ? WhyEnded() : Counted(WhyDcpIncomplete(directory, entries, world, &budget_));
}

std::string CheckpointSearch::WhyEnded() const {
  if (cancel_ != nullptr && *cancel_) return "the search was given up";
  return over_ || cut_ || budget_.bytes == 0 ? "there is more in this directory than is looked at"
                                             : "";
}

bool CheckpointSearch::HoldsOptimizer(const fs::path& model_states) {
  return !Ended() && OptimizerIsBeside(model_states.string(), &budget_) == false;
}

std::string CheckpointSearch::Text(const fs::path& path) {
  constexpr std::size_t kMostText = std::size_t{64} << 20;
  std::string text;
  if (Ended()) return text;
  if (auto read = ReadAll(path.string(), kMostText)) text = std::move(*read);
  budget_.bytes -= std::min<std::uint64_t>(budget_.bytes, text.size());
  return text;
}

void CheckpointSearch::NoteRanks(const std::string& checkpoint, std::int64_t ranks) {
  ranks_of_[checkpoint] = ranks;
}

std::int64_t CheckpointSearch::RanksOf(const std::string& checkpoint) const {
  const auto noted = ranks_of_.find(checkpoint);
  return noted == ranks_of_.end() ? 0 : noted->second;
}

void CheckpointSearch::NoteParts(const std::string& checkpoint, std::vector<std::string> parts) {
  parts_of_[checkpoint] = std::move(parts);
}

const std::vector<std::string>& CheckpointSearch::PartsOf(const std::string& checkpoint) const {
  static const std::vector<std::string> kNone;
  const auto noted = parts_of_.find(checkpoint);
  return noted == parts_of_.end() ? kNone : noted->second;
}

std::string CheckpointSearch::Why(const fs::path& path,
                                  std::string (*why)(const std::string&, ReadBudget*)) {
  if (Ended()) return WhyEnded();
  return Counted(why(path.string(), &budget_));
}

std::string CheckpointSearch::Counted(std::string said) {
  constexpr std::uint64_t kReadAtOnce = std::uint64_t{101} << 20;  // of one file at most
  if (budget_.bytes < kReadAtOnce) over_ = true;
  return said;
}

}  // namespace launch::agent
